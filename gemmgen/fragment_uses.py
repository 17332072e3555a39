"""What fragments' headers are for, as kernels: reduction, scan, outer product, Householder reflection, Givens rotation, batched products.

Each is a template under templates/uses, rendered for a fragment behind its header: CUDA or HIP that stands alone. Every one comes in two forms: with
operands made in registers, and through shared memory, as one writes it where fragments can only be loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from types import SimpleNamespace

from gemmgen.catalog.fragment import Fragment
from gemmgen.errors import SpecError
from gemmgen.fragment_header import corrected, fragment_header, header_name
from gemmgen.render import render_text
from gemmgen.unused import without_unused

USES = ("reduction", "scan", "outer", "householder", "givens", "batched")
"""By name of the template."""
WORDS, FP32 = SPACES = ("wmma", "tcec")
"""The namespaces of a header: operands of single words, or FP32 as several."""
SIZES = (16, 32)
"""Of the square matrices that a warp works on."""


@dataclass(frozen=True)
class Tile:
    """How `batched` cuts C: what a block computes and what a warp, [m, n, k] each, and the lanes of a warp.

    The default is the paper's block of registers, with the k of one instruction at a time.
    """

    block: tuple[int, int, int] = (128, 64, 32)
    warp: tuple[int, int, int] = (32, 32, 16)
    lanes: int = 32

    @property
    def threads(self) -> int:
        return self.block[0] // self.warp[0] * (self.block[1] // self.warp[1]) * self.lanes


def sizes_of(fragment: Fragment) -> tuple[int, ...]:
    """The sizes of which a fragment's tiles make whole squares."""
    return tuple(size for size in SIZES if not size % lcm(*fragment.shape))


POLICIES = {"with_ec": "op_mma, with_ec, add_outside", "without_ec": "op_mma, without_ec, add_inside", "simt": "op_simt"}
"""What `batched` multiplies by: words of the scheme, single words, or FP32 multiply-adds."""


def usual_tile(fragment: Fragment) -> Tile:
    """What `batched` takes where nobody asks for a tile: stages that fit 48 KiB, and warps whose fragments a lane holds without spilling."""
    deep = len(corrected(fragment).words) * fragment.word_bytes <= 4
    warp = (32, 16 if fragment.a.lane_copies > 1 else 32, max(16, fragment.shape[2]))
    return Tile((128, 64, 32) if deep else (64, 64, max(16, fragment.shape[2])), warp, fragment.threads)


def use(name: str, fragment: Fragment, space: str = WORDS, tile: Tile | None = None, policy: str = "with_ec", header: bool = True) -> str:
    """The text of a use for a fragment.

    Args:
        name: one of `USES`.
        space: `wmma`, with operands stored as words, or `tcec`, as FP32 that is split.
        tile, policy: of `batched`; None for the default tile, one of `POLICIES`.
        header: whether the fragment's header stands before it; else it is included, as `fragment_header.header_name` calls it.

    Raises:
        SpecError: there is no such use, or the fragment does not serve it.
    """
    place = "gemmgen list fragments --use"
    best = corrected(fragment)
    if name not in USES:
        raise SpecError(place, "names no use", got=name, needs=", ".join(USES), remedy=f"--use {USES[0]}")
    if space not in SPACES:
        raise SpecError(place, "names no namespace of a header", got=space, needs=" or ".join(SPACES), remedy="--space wmma")
    if name == "batched" and space != FP32:
        raise SpecError(place, "the use reads FP32", got=f"{name}, --space {space}", needs="--space tcec", remedy="--space tcec")
    if not fragment.b or not best:
        raise SpecError(
            place, "the use needs operands in registers, of floating-point words that schemes are made of", got=fragment.name,
            needs="a fragment of f16, bf16 or tf32 whose A and B lanes hold", remedy="gemmgen list fragments lists them",
        )
    sizes = sizes_of(fragment)
    if name in ("householder", "givens", "scan") and not sizes:
        raise SpecError(
            place, "no square of the use is whole tiles of the instruction", got=fragment.name, needs=f"a shape that divides {SIZES[-1]}",
            remedy="another fragment",
        )
    words = space == WORDS
    platform = fragment.maker.platform
    size = sizes[0] if sizes else lcm(fragment.shape[0], fragment.shape[1])
    text = render_text(
        f"uses/{name}.j2", fragment=fragment, space=space, words=words, element="Word" if words else "float", sizes=sizes, size=size,
        policy=POLICIES[policy], words_held=len(best.words) if policy == "with_ec" else 1,
        forms=("registers",) if policy == "simt" else ("registers", "shared"),
        tile=tile or usual_tile(fragment), lanes=fragment.threads, platform=platform,
        platform_file=f"platform/{platform}.j2", plan=SimpleNamespace(lanes=fragment.threads),
    )
    before = fragment_header(fragment) if header else f'#include "{header_name(fragment)}"\n'
    return f"{before}\n{without_unused(text)}"
