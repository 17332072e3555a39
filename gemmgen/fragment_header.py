"""Fragment primitives for one's own kernels: a fragment's map as a CUDA or HIP header.

The header stands alone: no gemmgen, no other headers, C++17 device code for
NVRTC and nvcc, or for hiprtc, hipcc and clang. It fills a fragment from a rule without shared memory
(`foreach_ij`), finds the holder of an element (`map`) and multiplies. Where
the instruction reads operands from shared memory, it makes their descriptors.

On these stand fragments of any multiple of the instruction's shape with the names of `nvcuda::wmma`: in the namespace `wmma` with operands as
single words, in `tcec` with FP32 operands as several words of a scheme of the catalog.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from gemmgen import __version__
from gemmgen.catalog.fragment import FRAGMENTS, Fragment, FragmentMap
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.number import FORMATS, sum_type
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.errors import SpecError
from gemmgen.render import c_power, render_text
from gemmgen.unused import without_unused

CONVERSION = {
    "f16": ("cvt.rn.f16.f32", "unsigned short", "h", "to nearest, ties to even"),
    "bf16": ("cvt.rn.bf16.f32", "unsigned short", "h", "to nearest, ties to even"),
    "tf32": ("cvt.rna.tf32.f32", "unsigned", "r", "to nearest, ties away from zero"),
    "f32": ("mov.b32", "unsigned", "r", "nothing: the word is FP32 itself"),
    "e4m3": ("cvt.rn.satfinite.e4m3x2.f32", "unsigned char", "h", "to nearest, ties to even; what is larger than the largest word becomes that"),
    "e5m2": ("cvt.rn.satfinite.e5m2x2.f32", "unsigned char", "h", "to nearest, ties to even; what is larger than the largest word becomes that"),
    "s8": (None, "signed char", None, None),
}
"""CUDA. Word type -> instruction that rounds an FP32 value to it, C type and asm constraint of what it writes, the rounding; integers are set as such."""

WORDS = {
    "f16": "unsigned short", "bf16": "unsigned short", "tf32": "unsigned", "f32": "unsigned", "s8": "signed char",
    **dict.fromkeys(("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"), "unsigned char"),
}
"""HIP. Word type -> C type of the word."""

LEAST_BITS = 22
"""Mantissa bits of an element that all words of a scheme of FP32 accuracy carry: what they leave is below what sums in FP32 lose."""


@dataclass(frozen=True)
class Operand:
    """One operand of the instruction, as the template reads it.

    Attributes:
        name: `A`, `B` or `C`.
        axes: what its rows and columns are.
        rows, columns: its extents.
        map: who holds which element.
        accumulates: whether its elements are sums instead of words.
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


def header_name(fragment: Fragment) -> str:
    """The file that a fragment's header is: `NAME.cuh` of NVIDIA's, `NAME.hip.hpp` of AMD's."""
    return fragment.name + fragment.maker.files.header_suffix


def fragment_header(fragment: Fragment) -> str:
    """The text of its header; the same row gives the same bytes.

    Raises:
        SpecError: lanes hold none of its operands.
    """
    if fragment.in_tensor_memory:
        raise SpecError(
            "gemmgen list fragments", "has no header: its sums are in tensor memory and its operands in shared memory",
            got=fragment.name, needs="a fragment that lanes hold", remedy="docs/blackwell.md shows how kernels use it",
        )
    platform = fragment.maker.platform
    text = render_text(
        fragment.maker.files.header_template,
        fragment=fragment,
        operands=operands(fragment),
        source=textwrap.wrap(f"Source: {fragment.source}.", 110),
        guard=header_name(fragment).upper().replace(".", "_"),
        version=__version__,
        schemes=_schemes(fragment), fp32=_fp32(fragment), platform_file=f"platform/{platform}.j2",
        **{"cuda": _cuda, "hip": _hip}[platform](fragment),
    )
    return without_unused(text).replace("GG_DEVICE", "FRAGMENT_DEVICE")


def in_registers(word: str) -> list[Scheme]:
    """The schemes of a word type whose words a lane finds of an element alone: no scale of a row, no operand that is stored as words."""
    return [
        one for one in SCHEMES.rows()
        if one.types == (word,) and one.normalize == "none" and not one.family.exact and not one.b and one.alike
    ]


def corrected(fragment: Fragment) -> Scheme | None:
    """The one that gives FP32 accuracy from a fragment's words by the fewest products; None where no scheme does.

    Where a unit of its targets takes subnormal words for zero, one whose leading word is never subnormal.
    """
    flushes = any(gpu.unit.flushes_subnormals for gpu in GPUS.rows() if gpu.vendor == fragment.vendor and fragment.runs_on(gpu.arch))
    able = [one for one in in_registers(fragment.word) if one.precision.bits >= LEAST_BITS and fragment.on_matrix_unit]
    return min(able, key=lambda one: (bool(one.words[0].flush) != (flushes and one.format.min_exponent > FORMATS["f32"].min_exponent), len(one.products)),
               default=None)


def _scheme_text(scheme: Scheme) -> SimpleNamespace:
    """A scheme as the header tells it: its products by number, and its sums put together as C."""
    names = [one.name for one in scheme.accumulators]
    return SimpleNamespace(
        scheme=scheme,
        of_a=[one.a for one in scheme.products], of_b=[one.b for one in scheme.products], into=[names.index(one.into) for one in scheme.products],
        combined=scheme.family.recombination.combine(
            {name: f"sum[{i}]" for i, name in enumerate(names)},
            lambda so_far, factor, own: f"{so_far} + {own}" if factor == 1 else f"fmaf({so_far}, {c_power(factor)}, {own})",
        ),
    )


def _schemes(fragment: Fragment) -> SimpleNamespace:
    """What the template reads of schemes: those of the fragment's words, and the roundings that they call."""
    best = corrected(fragment)
    rows = in_registers(fragment.word) if best else []
    pair = fragment.word in ("f16", "bf16")
    roundings = {(word.rounding, word.type) for one in rows for word in one.words_of("a")} | ({("nearest_even", fragment.word)} if pair else set())
    return SimpleNamespace(
        rows=[_scheme_text(one) for one in rows], corrected=best and best.name, value=_value(fragment), pair=pair, roundings=sorted(roundings),
        unsigned={1: "unsigned char", 2: "unsigned short", 4: "unsigned"}[fragment.word_bytes],
    )


def _fp32(fragment: Fragment) -> SimpleNamespace | None:
    """FP32 lanes in place of the instruction, where its words have schemes: a row of policy fma, of which a lane keeps one element each of A, B and C."""
    if not (corrected(fragment) and fragment.b):
        return None
    row = next(row for row in FRAGMENTS.rows() if row.vendor == fragment.vendor and not row.on_matrix_unit and row.threads == fragment.threads)
    alone = {label: getattr(row, label).model_copy(update={"registers": ()}) for label in "abc"}
    m, n = (1 << sum(bool(offset[axis]) for offset in row.c.lanes) for axis in (0, 1))
    return SimpleNamespace(operands=operands(row.model_copy(update={"shape": (m, n, 1), **alone})), scheme=_scheme_text(SCHEMES.get("fp32")))


def _cuda(fragment: Fragment) -> dict[str, Any]:
    instruction, word, constraint, rounding = CONVERSION[fragment.word]
    return {
        "value": _value(fragment), "issuers": "warp" if fragment.threads == 32 else "warpgroup", "bytes": fragment.word_bytes,
        "convert": instruction, "word": word, "constraint": constraint, "rounding": rounding, **_multiply(fragment),
    }


def _value(fragment: Fragment) -> str:
    """The C type of sums, and of what elements are set to."""
    return {"s32": "int", "f32": "float"}[sum_type(fragment.word)]


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
        kind = ("+r" if sum_type(fragment.word) == "s32" else "+f") if letter == "c" else "r"
        constraints[letter] = ", ".join(f'"{kind}"({letter}.r[{i}])' for i in numbers)
        first += len(numbers)
    return {
        "registers": [lists[letter] for letter in "cabc" if letter in lists], "constraints": constraints,
        "held": {"c": fragment.c.register_count, "a": fragment.a.register_count},
    }


def _hip(fragment: Fragment) -> dict[str, Any]:
    """What HIP calls words and elements, and how the builtin is called."""
    *others, last = fragment.archs
    return {
        **_conversion(fragment.word), "value": _value(fragment), "word": WORDS[fragment.word],
        "operand": _operand(fragment) if fragment.on_matrix_unit else None, "call": fragment.call,
        "targets": f"{', '.join(others)} or {last}" if others else last,
    }


def _conversion(word: str) -> dict[str, Any]:
    """Of 8-bit floating-point words: the builtin that makes two of them, and the largest, to which it does not clamp by itself."""
    form = FORMATS.get(word)
    if form is None or form.bytes > 1:
        return {"largest": None}
    return {"largest": form.largest, "convert": f"__builtin_amdgcn_cvt_pk_{'fp8' if word.startswith('e4m3') else 'bf8'}_f32"}


def _operand(fragment: Fragment) -> str:
    """The declaration of the type that the builtin takes of a lane of A or B."""
    count = fragment.a.register_count // (fragment.instructions or 1)
    if fragment.word_bytes == 1:  # two registers are one number to CDNA, a vector to RDNA
        element, count = ("__INT64_TYPE__", 1) if count == 2 and fragment.interface.pair_is_number else ("int", count)
    else:  # builtins of bf16 take its bits, but for those that gfx950 alone has
        bf16 = "__bf16" if fragment.archs == ("gfx950",) else "short"
        element, count = {"f16": "_Float16", "bf16": bf16, "tf32": "float"}[fragment.word], count * fragment.a.packed_count
    return f"{element} Operand" + (f" __attribute__((ext_vector_type({count})))" if count > 1 else "")
