"""A kernel of a library, and the machine code that the library holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from gemmgen.build import Binary, Built, build, without_line_info
from gemmgen.catalog.element import F32, Element
from gemmgen.catalog.gpu import arch_number
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import GemmgenError
from gemmgen.kinds import GEMM
from gemmgen.library.dispatch import Estimate
from gemmgen.library.ends import activations
from gemmgen.render import Source, render_text

FINISH = "finish"
"""The kernel that does epilogues, and what its machine code is called."""
FINISH_THREADS = 256
FINISH_TILE = (32, 128)
"""Rows and columns of C that a block of it takes."""
PTX_VERSION = "6.4"
"""Of portable PTX: what drivers since CUDA 10.1 compile. Its instructions are all older."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a library.

    Attributes:
        label: a C identifier and file's stem, such as `h100_nn_1`; no two of a library have the same.
        built: plan, source, machine code, that for further architectures.
        estimate: of its time, by which kernels are chosen; None of one that is taken where no other serves. Of a batch in one launch, `operand`
            and `output` count once for each product, and a wave's blocks are those of all products.
        reason: why the library has it, in words that a program may show.
        is_fallback: whether it is the portable one, which the driver compiles.
        packs_b: whether the library packs B for it, where its passes could.
    """

    label: str
    built: Built
    estimate: Estimate | None
    reason: str
    is_fallback: bool = False
    packs_b: bool = True

    @property
    def element(self) -> Element:
        """The type of A, B and C."""
        return self.built.plan.kind.element_of(self.built.plan.type)


@dataclass(frozen=True)
class Image:
    """Machine code of a library for one architecture.

    Attributes:
        stem: of the file and of the C symbol, `{library}_code_{stem}`.
        arch: what runs it: `sm_90a`, `gfx942`, or `compute_75` of PTX, which any later GPU's driver compiles.
        content: an ELF file, or PTX that ends with a NUL.
    """

    stem: str
    arch: str
    suffix: str
    content: bytes = field(repr=False)

    @property
    def file(self) -> str:
        return self.stem + self.suffix


def images(kernel: Kernel) -> tuple[Image, ...]:
    """A kernel's machine code: for each architecture that it was built for, or PTX where the driver is to compile it."""
    built = kernel.built
    binaries = (built.binary, *built.others)
    if kernel.is_fallback and not vendor_of(built.binary.arch).files.code_per_arch:
        return (_ptx(kernel.label, without_line_info(built.source, built.binary)),)
    return tuple(
        _image(f"{kernel.label}_{binary.arch}" if len(binaries) > 1 else kernel.label, without_line_info(replace(built.source, arch=binary.arch), binary))
        for binary in binaries
    )


def _image(stem: str, binary: Binary) -> Image:
    return Image(stem, binary.arch, vendor_of(binary.arch).files.code_suffixes[1], binary.code)


def _ptx(stem: str, binary: Binary) -> Image:
    return Image(stem, binary.arch.replace("sm_", "compute_"), ".ptx", portable_ptx(binary.assembly).encode() + b"\0")


def portable_ptx(text: str) -> str:
    """PTX as older drivers take it: of an old version of the language, whose instructions are all that portable kernels use.

    Args:
        text: PTX without lines of the source.

    Raises:
        GemmgenError: it is for one chip alone.
    """
    if re.search(r"^\.target\s+sm_\d+[af]", text, re.M):
        raise GemmgenError("PTX", "is for one chip alone", needs="a target such as sm_75, which later GPUs take", remedy="another [target] gpu")
    text = re.sub(r"^\.version .*$", f".version {PTX_VERSION}", text, count=1, flags=re.M)
    return re.sub(r"^\s*//.*\n", "", text, flags=re.M).strip() + "\n"


def finish_symbol(element: Element) -> str:
    """The name of the kernel of epilogues for such elements, as the runtime looks it up."""
    return FINISH if element.is_usual else f"{FINISH}_{element.name}"


def finish_source(arch: str, elements: Sequence[Element] = (F32,)) -> Source:
    """The text of the kernels that apply scalars of the device, bias and activation, one for each type of elements."""
    maker = vendor_of(arch)
    # What the platform's prologue asks of a plan: none of it is needed here.
    plan = SimpleNamespace(lanes=maker.warp_size(arch_number(arch)), scheme=SCHEMES.get("fp32"), batch=None, kind=GEMM)
    text = render_text("library/finish.j2", platform=f"platform/{maker.platform}.j2", plan=plan, symbol=FINISH,
                       symbol_of=finish_symbol, elements=elements, threads=FINISH_THREADS, tile=FINISH_TILE, activations=activations(maker.platform))
    return Source(name=FINISH, text=text, suffix=maker.files.source_suffix, interface=None, arch=arch, allow_spills=False)


def finish_images(archs: Sequence[str], portable: str | None = None, elements: Sequence[Element] = (F32,)) -> tuple[Image, ...]:
    """Those kernels' machine code for each architecture.

    Args:
        portable: the architecture of the PTX for all others, `sm_75`; None for none.
    """
    found = [_image(f"{FINISH}_{arch}", without_line_info(source, build(source))) for arch in archs for source in [finish_source(arch, elements)]]
    if portable is not None:
        source = finish_source(portable, elements)
        found.append(_ptx(FINISH, without_line_info(source, build(source))))
    return tuple(found)
