"""Products whose bits are the same on every GPU: by a library of kernels that have this (`reproducible = true` of a LIB.toml), and by nothing else."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from gemmgen.api.shapes import check_shapes
from gemmgen.api.wide import ELEMENTS, kind_of
from gemmgen.errors import SpecError

SAME_BITS = "reproducible"
"""`gemmgen.library.kept.SAME_BITS`."""
TYPES = {"float32": "f32"} | {kind: element for kind, (element, _) in ELEMENTS.items()}
"""The type of elements by the name of an array's type."""


def reproducible_product(front: Any, package: Callable[..., ModuleType | None], a: Any, b: Any) -> Any:
    """a @ b by kernels of residues.

    Args:
        front: the products of the arrays' library.
        package: the library of a GPU, a type of elements and such kernels; None where there is none.

    Raises:
        SpecError: shapes do not fit, types or devices differ, or no kernel takes such arrays.
    """
    places = [gpu_of(front, x) for x in (a, b)]
    if None in places:
        raise _refused("takes arrays of CuPy and torch in a GPU's memory", f"{type(a).__name__} and {type(b).__name__}", "cupy.asarray(a)")
    check_shapes(a.shape, b.shape)
    kinds, (gpu, current), (other, _) = (kind_of(a), kind_of(b)), *places
    if kinds[0] != kinds[1] or kinds[0] not in TYPES or gpu != other or a.device != b.device:
        raise _refused("takes arrays of one type on one device", f"{kinds[0]} on {a.device} and {kinds[1]} on {b.device}", "a copy of one like the other",
                       f"two of {', '.join(TYPES)}")
    if kinds[0] != "float32" and (getattr(a, "requires_grad", False) or getattr(b, "requires_grad", False)):
        raise _refused("has gradients of float32 alone", kinds[0], "a.detach()")
    found = package(gpu, TYPES[kinds[0]], SAME_BITS)
    if found is None:
        raise _refused(f"has no library of such kernels for {gpu.title}", kinds[0], "gemmgen doctor, which tells what is missing")
    with current:
        try:
            return found.matmul(a, b)
        except found.Error as error:
            raise _refused(f"is refused by the library of kernels for {gpu.title}", str(error), 'accuracy="fp32"') from error


def gpu_of(front: Any, x: Any) -> tuple[Any, Any] | None:
    """The GPU in whose memory an array lies, and a context in which it is current; None of others, and of libraries whose arrays no kernel takes."""
    if front.name == "torch":
        return (front._here(x.device.index), front.home.cuda.device(x.device)) if x.is_cuda else None
    from gemmgen.run.here import cuda_gpus

    gpus = cuda_gpus() if front.name == "cupy" else ()
    return (gpus[x.device.id], x.device) if gpus and x.device.id < len(gpus) else None


def _refused(problem: str, got: str, remedy: str, needs: str = "what kernels of residues serve") -> SpecError:
    return SpecError("matmul: accuracy", f"reproducible {problem}", got=got, needs=needs, remedy=remedy)
