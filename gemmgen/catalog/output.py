"""Types of C, a row each: FP32, FP16 and BF16 ship, and other packages bring more by entry points of the group `gemmgen.outputs`.

Kernels of FP32 elements sum, scale and add in FP32 whatever C's type is; an element is converted when it is stored, and where beta is not 0 when it is read.
Where elements are FP64, so is C.
docs/add-an-output-type.md shows one being added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from gemmgen.catalog.brought import with_brought
from gemmgen.catalog.conversion import decode, encode
from gemmgen.catalog.element import F32, F64, Element, Stored
from gemmgen.errors import SpecError

ENTRY_POINTS = "gemmgen.outputs"


@dataclass(frozen=True)
class Output(Stored):
    """One type of C's elements.

    Attributes:
        narrow, widen: C, an element from the float `{x}` and the way back.
        stored, values: the same of arrays, [M, N] FP32 to `dtype` and back, with the same bits.
        roundoff: unit roundoff of the conversion from FP32.
        tiniest: absolute; what it may change besides where it leaves the type's normal range.
        functions: C that `narrow` and `widen` call, by the platform (`Vendor.platform`) whose kernels can; None where they call nothing.
        largest: its largest finite value; what rounds to more is Inf.
        vectors: whether neighbours may be stored together as `float2` and `float4`.
    """

    narrow: str
    widen: str
    stored: Callable[[np.ndarray], np.ndarray]
    values: Callable[[np.ndarray], np.ndarray]
    roundoff: float
    tiniest: float
    functions: Mapping[str, str] | None = field(default=None, hash=False)
    largest: float = float(np.finfo(np.float32).max)
    vectors: bool = False

    def serves(self, platform: str) -> bool:
        """Whether kernels of a platform can have it."""
        return self.functions is None or platform in self.functions


def _same(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, F32.dtype)


CUDA_F16 = """// C's elements: FP16 bits, rounded to nearest.
GG_DEVICE unsigned short stored_f16(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
GG_DEVICE float loaded_f16(unsigned short bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
"""
HIP_F16 = """// C's elements: FP16 bits, rounded to nearest.
GG_DEVICE unsigned short stored_f16(float x) { return __builtin_bit_cast(unsigned short, (_Float16)x); }
GG_DEVICE float loaded_f16(unsigned short bits) { return (float)__builtin_bit_cast(_Float16, bits); }
"""
ANY_BF16 = """// C's elements: BF16 bits, rounded to nearest, ties to even; older GPUs have no instruction for it.
GG_DEVICE unsigned short stored_bf16(float x) {
    const u32 bits = __float_as_uint(x);
    return x != x ? 0x7fff : (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
GG_DEVICE float loaded_bf16(unsigned short bits) { return __uint_as_float((u32)bits << 16); }
"""
USUAL = Output(
    F32.name, F32.title, F32.c_type, F32.dtype.type, "{x}", "{x}", _same, _same, roundoff=0.0, tiniest=0.0, vectors=True,
)
WIDE = Output(
    F64.name, F64.title, F64.c_type, F64.dtype.type, "{x}", "{x}", partial(np.asarray, dtype=F64.dtype), partial(np.asarray, dtype=F64.dtype), roundoff=0.0,
    tiniest=0.0, largest=float(np.finfo(np.float64).max),
)
F16 = Output(
    "f16", "FP16", "unsigned short", np.float16, "stored_f16({x})", "loaded_f16({x})",
    lambda x: encode("f16", x).view(np.float16), lambda bits: bits.astype(np.float32),
    roundoff=2.0**-11, tiniest=2.0**-25, functions={"cuda": CUDA_F16, "hip": HIP_F16}, largest=65504.0,
)
BF16 = Output(
    "bf16", "BF16", "unsigned short", np.uint16, "stored_bf16({x})", "loaded_bf16({x})", partial(encode, "bf16"), partial(decode, "bf16"),
    roundoff=2.0**-8, tiniest=2.0**-134, functions={"cuda": ANY_BF16, "hip": ANY_BF16}, largest=2.0**128 - 2.0**120,
)


@cache
def all_outputs() -> dict[str, Output]:
    """The rows by name: those that ship, then those that other packages bring.

    Raises:
        GemmgenError: two have one name.
    """
    return with_brought((USUAL, F16, BF16), ENTRY_POINTS, "types of C", "your row")


def output_of(element: Element, c: str) -> Output:
    """The type of C of a product of such elements: the one that a spec names, or, where that is the usual one, theirs."""
    return WIDE if c == F32.name and element == F64 else all_outputs()[c]


def require_f32(output: Output, what: str) -> None:
    """
    Raises:
        SpecError: C is of another type, which `what` does not know.
    """
    if output.name == WIDE.name:
        raise SpecError("[problem] type", f"{what} C in FP32 alone", got=F64.name, needs=F32.name, remedy='type = "f32"')
    require_usual(output, what)


def require_usual(output: Output, what: str) -> None:
    """
    Raises:
        SpecError: C is of another type than A, which `what` does not know.
    """
    if not output.is_usual:
        raise SpecError("[problem] c", f"{what} C in FP32 alone", got=output.name, needs=F32.name, remedy='c = "f32"')
