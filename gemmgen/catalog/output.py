"""Types of C, a row each: what ships is FP32, and other packages bring more by entry points of the group `gemmgen.outputs`.

Kernels sum, scale and add in FP32 whatever C's type is; an element is converted when it is stored, and where beta is not 0 when it is read.
docs/add-an-output-type.md shows one being added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points

import numpy as np

from gemmgen.catalog import element
from gemmgen.errors import GemmgenError, SpecError

ENTRY_POINTS = "gemmgen.outputs"


@dataclass(frozen=True)
class Output:
    """One type of C's elements.

    Attributes:
        name: as specs write it.
        title: in words, for a kernel's header.
        element: the C type of an element in memory.
        dtype: NumPy's for the same bytes.
        narrow, widen: C, an element from the float `{x}` and the way back.
        stored, values: the same of arrays, [M, N] FP32 to `dtype` and back, with the same bits.
        roundoff: unit roundoff of the conversion from FP32.
        tiniest: absolute; what it may change besides where it leaves the type's normal range.
        functions: C that `narrow` and `widen` call, by the platform (`Vendor.platform`) whose kernels can; None where they call nothing.
        vectors: whether neighbours may be stored together as `float2` and `float4`.
    """

    name: str
    title: str
    element: str
    dtype: type[np.generic]
    narrow: str
    widen: str
    stored: Callable[[np.ndarray], np.ndarray]
    values: Callable[[np.ndarray], np.ndarray]
    roundoff: float
    tiniest: float
    functions: Mapping[str, str] | None = field(default=None, hash=False)
    vectors: bool = False

    def rounded(self, x: np.ndarray) -> np.ndarray:
        """FP32 values as C holds them."""
        return self.values(self.stored(x))

    def serves(self, platform: str) -> bool:
        """Whether kernels of a platform can have it."""
        return self.functions is None or platform in self.functions

    @property
    def is_usual(self) -> bool:
        """Whether a spec that says nothing has it."""
        return self.name == F32.name


def _same(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, element.F32.dtype)


F32 = Output(
    element.F32.name, element.F32.title, element.F32.c_type, element.F32.dtype.type, "{x}", "{x}", _same, _same, roundoff=0.0, tiniest=0.0, vectors=True,
)


@cache
def all_outputs() -> dict[str, Output]:
    """The rows by name: FP32, then those that other packages bring.

    Raises:
        GemmgenError: two have one name.
    """
    found = [F32, *(point.load() for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name))]
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GemmgenError("types of C", "two have one name", got=", ".join(sorted(twice)), needs="a name for each", remedy="another `name` in your row")
    return dict(zip(names, found))


def require_f32(output: Output, what: str) -> None:
    """
    Raises:
        SpecError: C is of another type, which `what` does not know.
    """
    if not output.is_usual:
        raise SpecError("[problem] c", f"{what} C in FP32 alone", got=output.name, needs=F32.name, remedy='c = "f32"')
