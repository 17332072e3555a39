"""Fragment primitives for one's own kernels: a fragment's map as a CUDA header.

The header stands alone: no gemmgen, no other headers, C++17 device code for
NVRTC and nvcc. It fills a fragment from a rule without shared memory
(`foreach_ij`), finds the holder of an element (`map`) and multiplies. Where
the instruction reads operands from shared memory, it makes their descriptors.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

from gemmgen import __version__
from gemmgen.catalog.fragment import Fragment, FragmentMap
from gemmgen.catalog.number import FORMATS
from gemmgen.render import render_text

CONVERSION = {
    "f16": ("cvt.rn.f16.f32", "unsigned short", "h", "to nearest, ties to even"),
    "bf16": ("cvt.rn.bf16.f32", "unsigned short", "h", "to nearest, ties to even"),
    "tf32": ("cvt.rna.tf32.f32", "unsigned", "r", "to nearest, ties away from zero"),
    "f32": ("mov.b32", "unsigned", "r", "nothing: the word is FP32 itself"),
}
"""Word type -> instruction that rounds an FP32 value to it, C type and asm constraint of the word, the rounding."""


@dataclass(frozen=True)
class Operand:
    """One operand of the instruction, as the template reads it.

    Attributes:
        name: `A`, `B` or `C`.
        axes: what its rows and columns are.
        rows, columns: its extents.
        map: who holds which element.
        accumulates: whether its elements are FP32 instead of words.
    """

    name: str
    axes: str
    rows: int
    columns: int
    map: FragmentMap
    accumulates: bool


def operands(fragment: Fragment) -> dict[str, Operand]:
    """Those that lanes hold, by name."""
    m, n, k = fragment.shape
    every = (
        Operand("A", "m, k", m, k, fragment.a, False),
        Operand("B", "k, n", k, n, fragment.b, False),
        Operand("C", "m, n", m, n, fragment.c, True),
    )
    return {operand.name: operand for operand in every if operand.map}


def fragment_header(fragment: Fragment) -> str:
    """The text of `NAME.cuh`; the same row gives the same bytes."""
    instruction, word, constraint, rounding = CONVERSION[fragment.word]
    return render_text(
        "fragment_header.j2",
        fragment=fragment,
        operands=operands(fragment),
        source=textwrap.wrap(f"Source: {fragment.source}.", 110),
        guard=f"{fragment.name.upper()}_CUH",
        issuers="warp" if fragment.threads == 32 else "warpgroup",
        version=__version__,
        bytes=FORMATS[fragment.word].bytes,
        convert=instruction,
        word=word,
        constraint=constraint,
        rounding=rounding,
        **_multiply(fragment),
    )


def _multiply(fragment: Fragment) -> dict[str, Any]:
    """The operands of the instruction and the constraints of its inline assembly; C is read and written."""
    lists: dict[str, str] = {}
    constraints: dict[str, str] = {}
    first = 0
    for letter, held in (("c", fragment.c), ("a", fragment.a), ("b", fragment.b)):
        if held is None:
            continue
        numbers = range(held.register_count)
        lists[letter] = "{" + ", ".join(f"%{first + i}" for i in numbers) + "}"
        kind = "+f" if letter == "c" else "r"
        constraints[letter] = ", ".join(f'"{kind}"({letter}.r[{i}])' for i in numbers)
        first += len(numbers)
    return {
        "registers": [lists[letter] for letter in "cabc" if letter in lists], "constraints": constraints,
        "held": {"c": fragment.c.register_count, "a": fragment.a.register_count},
    }
