"""Who multiplies for an application, in FP32 or FP64: kernels of a scheme or of a spec, a library's folder, the vendor, NumPy.

    matmul = multiplier("ootomo", device="cuda")
    c = matmul(a, b)                                          # arrays of matmul.xp: cupy's on a CUDA GPU, else NumPy's
    matmul(a, b, op="nt", out=c)                              # A B^T, into an array that is there
    matmul(left, right, out=rest, alpha=-1.0, beta=1.0)       # rest -= left right, where rest may be a part of a matrix
    matmul.syrk(a, out=rest, alpha=-1.0, beta=1.0)            # the lower triangle of rest -= A A^T
    matmul.solve(l, c, side="right", transposed=True)         # c becomes X of X L^T = C

On a CUDA GPU operands and results stay there: kernels get addresses and leading dimensions, go to cupy's current stream, and nothing waits. A kernel is
decided and built for each layout and each power of four that the extents reach, when it is first asked for; it takes any size.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gemmgen import road
from gemmgen.catalog.element import ELEMENTS, F32, F64
from gemmgen.errors import DeviceError, SpecError
from gemmgen.run import gemm, why_not
from gemmgen.verdict import verdict
from gemmgen.workshop.apps.specs import sized, spec_of, taken

if TYPE_CHECKING:
    from gemmgen.build import Built
    from gemmgen.plan import Plan
    from gemmgen.render import Source
    from gemmgen.run import Device
    from gemmgen.spec import LoadedSpec

OPS = ("nn", "nt", "tn", "tt")
EMULATED_GPU = "a100"
"""Whose kernels are emulated where no GPU is named."""
BATCHES = 64
"""Batches whose launches are kept prepared."""


class Shape(NamedTuple):
    """A product that was asked for: C [m, n], inner extent k, what is stored transposed."""

    m: int
    n: int
    k: int
    op: str


class Matmul:
    """alpha op(A) op(B) + beta C.

    Attributes:
        name: who multiplies, as tables say it.
        device_name: what runs it.
        xp: the module of its arrays, numpy or cupy; dtype: their type, FP32 or FP64.
        calls: what was asked for so far, and how often.
    """

    xp: Any = np
    dtype: Any = np.float32
    device_name: str = "NumPy"

    def __init__(self, name: str):
        self.name = name
        self.calls: dict[Shape, int] = {}

    def __call__(
        self, a: Any, b: Any, c: Any | None = None, *, op: str = "nn", alpha: float = 1.0, beta: float | None = None, out: Any | None = None,
    ) -> Any:
        """C [M, N].

        Args:
            a, b: [M, K] and [K, N], or transposed as `op` says with a `t`; rows are contiguous, or they are copied.
            c: [M, N], left as it is; None for none, or where `out` holds it.
            op: `nn`, `nt`, `tn` or `tt`.
            beta: None for 1 where there is a C, else 0.
            out: [M, N] with contiguous rows, which gets the result; with beta it is C. None for a new array.

        Raises:
            SpecError: op, types or shapes do not fit.
        """
        shape = self._checked(a, b, op, c, out)
        self._count(shape)
        if out is None:
            out = self.xp.empty(shape[:2], self.dtype) if c is None else c.copy()
        elif c is not None and c is not out:
            out[...] = c
        if beta is None:
            beta = 0.0 if c is None else 1.0
        if shape.m and shape.n:
            self._into(out, a, b, shape, float(alpha), float(beta))
        return out

    def _count(self, shape: Shape) -> None:
        self.calls[shape] = self.calls.get(shape, 0) + 1

    def _checked(self, a: Any, b: Any, op: str, c: Any | None, out: Any | None) -> Shape:
        if op not in OPS:
            raise SpecError("matmul", "has an unknown op", got=op, needs=", ".join(OPS), remedy='op="nt" for A B^T')
        for name, x in (("a", a), ("b", b), ("c", c), ("out", out)):
            if x is not None and (x.ndim != 2 or x.dtype != self.dtype):
                raise SpecError(f"matmul: {name}", f"is no matrix of {np.dtype(self.dtype).name}", got=f"{x.dtype} of shape {x.shape}",
                                needs="two dimensions of that type", remedy=f"x.astype(numpy.{np.dtype(self.dtype).name})")
        (m, k), (inner, n) = (x.shape if one == "n" else x.shape[::-1] for x, one in zip((a, b), op))
        if k != inner or any(x is not None and x.shape != (m, n) for x in (c, out)):
            raise SpecError("matmul", "is given shapes that do not fit", got=[None if x is None else x.shape for x in (a, b, c, out)],
                            needs=f"[M, K], [K, N], [M, N] with op {op}", remedy="another op")
        if out is not None and out.size and out.shape[1] > 1 and out.strides[1] != out.itemsize:
            raise SpecError("matmul: out", "has rows that are not contiguous", got=f"strides {out.strides}", needs="elements of a row side by side",
                            remedy="the product of the transposes")
        return Shape(m, n, k, op)

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        raise NotImplementedError

    def syrk(self, a: Any, *, out: Any, alpha: float = 1.0, beta: float = 0.0, both: bool = False) -> Any:
        """alpha A A^T + beta C, of which one triangle is computed.

        Args:
            a: [M, K]; rows are contiguous, or they are copied.
            out: [M, M] with contiguous rows: C, and then the result.
            both: store the lower triangle to the upper one, too; else what is above the diagonal then is not defined.

        Raises:
            SpecError: types or shapes do not fit.
        """
        shape = self._checked(a, a, "nt", None, out)
        if shape.m:
            self._syrk(out, a, float(alpha), float(beta), both)
        return out

    def _syrk(self, out: Any, a: Any, alpha: float, beta: float, both: bool) -> None:
        """By products of square tiles, as wide as A is: those on the diagonal are whole."""
        tile = max(1, a.shape[1])
        at = [slice(begin, begin + tile) for begin in range(0, len(a), tile)]
        for i, rows in enumerate(at):
            for columns in at[: i + 1]:
                self(a[rows], a[columns], op="nt", out=out[rows, columns], alpha=alpha, beta=beta)
        if both:
            mirror(self.xp, out)

    def solve(self, triangle: Any, c: Any, *, side: str = "left", lower: bool = True, transposed: bool = False, unit: bool = False) -> Any:
        """C becomes X of op(T) X = C, or of X op(T) = C.

        Args:
            triangle: T [size, size] with contiguous rows, whose other triangle is not read.
            c: [size, columns], or [rows, size] where `side` is `right`; rows are contiguous.
            lower: whether T is the lower triangle as it is stored; transposed: whether op(T) is T^T.
            unit: whether its diagonal is 1, and not read.
        """
        if c.size:
            self._solve(triangle, c, side, lower, transposed, unit)
        return c

    def _solve(self, triangle: Any, c: Any, side: str, lower: bool, transposed: bool, unit: bool) -> None:
        from gemmgen.workshop.apps import dense

        left = side == "left"
        c[...] = dense.triangular_solved(self.xp, triangle, c, lower=lower, unit=unit, transposed=transposed) if left else dense.triangular_solved(
            self.xp, triangle, c.T, lower=lower, unit=unit, transposed=not transposed).T

    def batch(self, products: Sequence[tuple[Any, Any, Any]]) -> None:
        """Each C = A B, (A [M, K], B [K, N], C [M, N]) of sizes of their own, whose rows are contiguous.

        Raises:
            SpecError: types or shapes do not fit.
        """
        for a, b, out in products:
            shape = self._checked(a, b, "nn", None, out)
            self._count(shape)
        self._batch(products)

    def _batch(self, products: Sequence[tuple[Any, Any, Any]]) -> None:
        """One after the other, where nothing takes them at once."""
        for a, b, out in products:
            self._into(out, a, b, Shape(a.shape[0], b.shape[1], a.shape[1], "nn"), 1.0, 0.0)

    def array(self, x: np.ndarray) -> Any:
        """An array of the host's where this multiplies, in its type if it is of FP32."""
        return self.xp.asarray(x.astype(self.dtype, copy=False) if x.dtype == np.float32 else x)

    def host(self, x: Any) -> np.ndarray:
        """The other way."""
        return x if isinstance(x, np.ndarray) else x.get()

    @property
    def kernels(self) -> tuple[Built, ...]:
        """Those that were built so far."""
        return ()

    def release(self) -> None:
        """Give back what a device holds."""


class InNumpy(Matmul):
    """NumPy or cupy, in FP32 or FP64.

    Args:
        dtype: of operands and results.
    """

    def __init__(self, name: str, dtype: Any = np.float32, xp: Any = np):
        super().__init__(name)
        self.dtype, self.xp = dtype, xp

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        product = (a if shape.op[0] == "n" else a.T) @ (b if shape.op[1] == "n" else b.T)
        if alpha != 1.0:
            product *= self.dtype(alpha)
        out[...] = product if beta == 0.0 else product + self.dtype(beta) * out


class Vendor(Matmul):
    """cuBLAS SGEMM or DGEMM, whatever the environment allows."""

    def __init__(self, dtype: Any = np.float32) -> None:
        from cupy.cuda import cublas

        from gemmgen.timing.products import arrays

        super().__init__("cublas-sgemm" if dtype == np.float32 else "cublas-dgemm")
        self.xp, self.dtype, self._cublas = arrays(), dtype, cublas

    def _call(self, routine: str, *given: Any) -> None:
        getattr(self._cublas, (F32 if self.dtype == np.float32 else F64).letter + routine)(self._handle(), *given)

    def _handle(self) -> int:
        cublas, cuda = self._cublas, self.xp.cuda
        handle = cuda.device.get_cublas_handle()
        cublas.setStream(handle, cuda.get_current_stream().ptr)
        cublas.setMathMode(handle, 0)  # CUBLAS_DEFAULT_MATH: no TF32
        cublas.setPointerMode(handle, 0)  # of the host
        return handle

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        a, b = (rows_together(self.xp, x) for x in (a, b))
        factors, (left, right) = np.array([alpha, beta], self.dtype), (int(one == "t") for one in shape.op)
        # row-major C = A B is column-major C^T = B^T A^T
        self._call("gemm", right, left, shape.n, shape.m, shape.k, factors.ctypes.data, b.data.ptr, leading(b), a.data.ptr, leading(a),
                   factors[1:].ctypes.data, out.data.ptr, leading(out))

    def _syrk(self, out: Any, a: Any, alpha: float, beta: float, both: bool) -> None:
        a = rows_together(self.xp, a)
        (m, k), factors = a.shape, np.array([alpha, beta], self.dtype)
        self._count(Shape(m, m, k, "nt"))
        # a row-major lower triangle is a column-major upper one (CUBLAS_FILL_MODE_UPPER), and A its transpose (CUBLAS_OP_T)
        self._call("syrk", 1, 1, m, k, factors.ctypes.data, a.data.ptr, leading(a), factors[1:].ctypes.data, out.data.ptr, leading(out))
        if both:
            mirror(self.xp, out)

    def _solve(self, triangle: Any, c: Any, side: str, lower: bool, transposed: bool, unit: bool) -> None:
        one = np.ones(1, self.dtype)  # to cuBLAS the other side, and the other triangle
        self._call("trsm", int(side == "left"), int(lower), int(transposed), int(unit), c.shape[1], c.shape[0], one.ctypes.data,
                   triangle.data.ptr, leading(triangle), c.data.ptr, leading(c))


class Kernels(Matmul):
    """Built kernels on the CUDA GPU that is here; FP64's triangular systems are cuBLAS's.

    Args:
        spec: theirs, of which sizes and layout are not looked at.
        vendor: what multiplies where its product is predicted to be faster, and solves; None for kernels alone.
    """

    def __init__(self, name: str, spec: LoadedSpec, vendor: Matmul | None = None):
        from gemmgen.timing.products import arrays

        super().__init__(name)
        self.xp, self.dtype, self._spec, self._vendor = arrays(), spec.spec.problem.part.dtype.type, spec, vendor
        self._plans: dict[Any, Plan] = {}
        self._slower: dict[Any, bool] = {}
        self._kernels: dict[Any, Any] = {}
        self._batches: dict[Any, Any] = {}
        self._built: list[Built] = []

    @property
    def kernels(self) -> tuple[Built, ...]:
        return tuple(self._built)

    def _made(self, spec: LoadedSpec) -> Built:
        """
        Raises:
            SpecError: as `taken`; others as `road.build`.
        """
        built = taken(road.build(spec))
        self._built.append(built)
        return built

    def _kernel(self, shape: Shape, **problem: Any) -> Any:
        """The kernel for products of such sizes."""
        from gemmgen.timing.products import Multiplier

        key = key_of(shape, problem)
        if key not in self._kernels:
            self._kernels[key] = Multiplier(self._made(sized(self._spec, *shape, **problem)))
        return self._kernels[key]

    def _loses(self, shape: Shape, adds: bool = False, **problem: Any) -> bool:
        """Whether the vendor multiplies, as its product is predicted to be faster; asked once for a size.

        Args:
            adds: whether C is read.
        """
        if self._vendor is None:
            return False
        key, kernel = (shape, adds, *problem.values()), key_of(shape, problem)
        if key not in self._slower:
            if kernel not in self._plans:
                self._plans[kernel] = road.plan(sized(self._spec, *shape, **problem))
            plan = self._plans[kernel]
            told = verdict(replace(plan, hints=replace(plan.hints, m=shape.m, n=shape.n, k=shape.k)), adds)
            self._slower[key] = told is not None and told.fp32_seconds < told.seconds
        return self._slower[key]

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        if self._loses(shape, beta != 0):
            self._vendor._into(out, a, b, shape, alpha, beta)
        else:
            self._kernel(shape).into(out, *(rows_together(self.xp, x) for x in (a, b)), alpha, beta)

    def _syrk(self, out: Any, a: Any, alpha: float, beta: float, both: bool) -> None:
        a, shape = rows_together(self.xp, a), Shape(a.shape[0], *a.shape, "nt")
        self._count(shape)
        if self._loses(shape, beta != 0, **of_syrk(both)):
            self._vendor._syrk(out, a, alpha, beta, both)
        else:
            self._kernel(shape, **of_syrk(both)).into(out, a, a, alpha, beta)

    def _solve(self, triangle: Any, c: Any, side: str, lower: bool, transposed: bool, unit: bool) -> None:
        shape, problem = of_solve(c.shape, side, lower, transposed, unit)
        if self.dtype == np.float64 and self._loses(shape, False, **problem):
            return self._vendor._solve(triangle, c, side, lower, transposed, unit)
        self._kernel(shape, **problem).solve(c, triangle)

    def _batch(self, products: Sequence[tuple[Any, Any, Any]]) -> None:
        """All of them in one launch of each kernel."""
        key = tuple((x.data.ptr, leading(x), *x.shape) for product in products for x in product)
        if key not in self._batches:
            if len(self._batches) == BATCHES:
                del self._batches[next(iter(self._batches))]
            self._batches[key] = self._prepared(products)
        self._batches[key]()

    def _prepared(self, products: Sequence[tuple[Any, Any, Any]]) -> Any:
        from gemmgen.timing.batch_contender import BatchKernel

        if "batch" not in self._kernels:
            self._kernels["batch"] = BatchKernel(self._made(sized(self._spec, *largest_of(products), kind="grouped", matrices=len(products))))
        return self._kernels["batch"].prepare(_Listed(self.xp, products), 0)


class _Listed:
    """Products anywhere in the GPU's memory, as `gemmgen.timing.batches.device.DeviceBatch` tells its own."""

    is_uniform = False

    def __init__(self, xp: Any, products: Sequence[tuple[Any, Any, Any]]):
        from gemmgen.batch import PROBLEM
        from gemmgen.run.batch import refuse_overlap

        host = np.zeros(len(products), PROBLEM)
        for at, (a, b, c) in enumerate(products):
            host[at] = (a.data.ptr, b.data.ptr, c.data.ptr, leading(a), leading(b), leading(c), a.shape[0], b.shape[1], a.shape[1], 1.0, 0.0, (0, 0))
        refuse_overlap(host)
        self.m, self.n, self.k = (np.ascontiguousarray(host[name]) for name in "mnk")
        self.hosts, self.problems = [host], [xp.asarray(host.view(np.uint8))]


class Copied(Matmul):
    """A kernel on a device whose memory the program does not share: the emulator, or an AMD GPU. Operands are copied there for each product.

    One kernel, decided for the first product's size, serves all.

    Args:
        spec: as `Kernels`.
        device: `emulator` or `hip`.
    """

    def __init__(self, name: str, spec: LoadedSpec, device: str):
        super().__init__(name)
        self._spec, self._kind, self.device_name, self.dtype = spec, device, device, spec.spec.problem.part.dtype.type
        self._opened: dict[tuple[str, ...], tuple[Built, Device]] = {}

    def _open(self, kind: str, sizes: tuple[int, int, int], **problem: Any) -> tuple[Device, Plan, Source]:
        """The kernel for one kind of problems, decided for the first of them."""
        key = kind, *(value for name, value in problem.items() if name != "matrices")
        if key not in self._opened:
            built = taken(road.build(sized(self._spec, *sizes, kind=kind, **problem)))
            self._opened[key] = built, road.open_device(built, self._kind)
            self.device_name = self._opened[key][1].name
        built, device = self._opened[key]
        return device, built.plan, built.source

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        device, plan, source = self._open("gemm", shape[:3])
        road.check_affordable(shape[:3], device.kind)
        a, b = (np.ascontiguousarray(x if one == "n" else x.T) for x, one in zip((a, b), shape.op))
        c = None if beta == 0.0 else np.ascontiguousarray(out)
        out[...] = gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta).c

    def _syrk(self, out: Any, a: Any, alpha: float, beta: float, both: bool) -> None:
        (m, k), problem = a.shape, of_syrk(both)
        self._count(Shape(m, m, k, "nt"))
        device, plan, source = self._open(problem.pop("kind"), (m, m, k), layout="nt", **problem)
        c = None if beta == 0.0 else np.ascontiguousarray(out)
        out[...] = gemm(device, plan, source, np.ascontiguousarray(a), None, c, alpha=alpha, beta=beta).c

    def _solve(self, triangle: Any, c: Any, side: str, lower: bool, transposed: bool, unit: bool) -> None:
        if self.dtype == np.float64:
            return super()._solve(triangle, c, side, lower, transposed, unit)
        shape, problem = of_solve(c.shape, side, lower, transposed, unit)
        device, plan, source = self._open(problem.pop("kind"), shape[:3], layout=shape.op, **problem)
        given = np.ascontiguousarray(triangle.T if transposed else triangle)
        a, b = (given, None) if side == "left" else (None, given)
        c[...] = gemm(device, plan, source, a, b, np.ascontiguousarray(c)).c

    def _batch(self, products: Sequence[tuple[Any, Any, Any]]) -> None:
        from gemmgen.run.batch import Product, batch

        device, plan, source = self._open("grouped", largest_of(products), matrices=len(products))
        found = batch(device, plan, source, [Product(np.ascontiguousarray(a), np.ascontiguousarray(b)) for a, b, _ in products])
        for (_, _, out), c in zip(products, found.products):
            out[...] = c

    @property
    def kernels(self) -> tuple[Built, ...]:
        return tuple(built for built, _ in self._opened.values())

    def release(self) -> None:
        for _, device in self._opened.values():
            device.release()


class Library(Matmul):
    """A folder of `gemmgen library` by its Python package, on the CUDA GPU that is here.

    Raises:
        SpecError: the folder is no library's, or its package cannot be imported.
    """

    def __init__(self, folder: str | Path, dtype: Any = np.float32):
        from gemmgen.timing.products import arrays

        folder = Path(folder).resolve()
        super().__init__(f"library:{folder.name}")
        self.xp, self.dtype = arrays(), dtype
        sys.path.insert(0, str(folder / "python"))
        try:
            self._package = importlib.import_module(json.loads((folder / "manifest.json").read_text())["name"])
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise SpecError(f"library:{folder}", "is no library's folder with its package put together", got=str(error),
                            needs="a folder of gemmgen library", remedy=f"cd {folder} && python3 python/build_wheel.py") from None
        finally:
            sys.path.pop(0)

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        of = (x if one == "n" else x.T for x, one in zip((a, b), shape.op))
        self._package.matmul(*of, out=out, alpha=alpha, beta=beta)


class ByCall(Matmul):
    """Who multiplies by the place of a call among the calls: levels that a tuner chose.

    Args:
        levels: one for each call of a run; the next run begins anew.
    """

    def __init__(self, name: str, levels: Sequence[Matmul]):
        super().__init__(name)
        self.xp, self.dtype, self._levels, self._at = levels[0].xp, levels[0].dtype, tuple(levels), 0

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        level = self._levels[self._at % len(self._levels)]
        self._at += 1
        level._into(out, a, b, shape, alpha, beta)
        self.device_name = level.device_name

    @property
    def kernels(self) -> tuple[Built, ...]:
        return tuple(one for level in dict.fromkeys(self._levels) for one in level.kernels)

    def release(self) -> None:
        for level in dict.fromkeys(self._levels):
            level.release()


def mirror(xp: Any, out: Any) -> None:
    """The lower triangle of a square is stored to the upper one, too."""
    out[...] = xp.tril(out) + xp.tril(out, -1).T


def of_syrk(both: bool) -> dict[str, str]:
    """What a spec's section [problem] says of such a product."""
    return {"kind": "syrk", "uplo": "both" if both else "lower"}


def of_solve(c: tuple[int, int], side: str, lower: bool, transposed: bool, unit: bool) -> tuple[Shape, dict[str, str]]:
    """The sizes of a solve for C of this shape, and what a spec's section [problem] says of it: the triangle is op(T)'s."""
    left, stored = side == "left", "t" if transposed else "n"
    shape = Shape(*c, c[0] if left else c[1], f"{stored}n" if left else f"n{stored}")
    return shape, {"kind": "trsm", "side": side, "uplo": "lower" if lower != transposed else "upper", "diag": "unit" if unit else "nonunit"}


def largest_of(products: Sequence[tuple[Any, Any, Any]]) -> tuple[int, int, int]:
    """(m, n, k) that no product of a batch exceeds."""
    return max(a.shape[0] for a, _, _ in products), max(b.shape[1] for _, b, _ in products), max(a.shape[1] for a, _, _ in products)


def key_of(shape: Shape, problem: Mapping[str, Any]) -> tuple[Any, ...]:
    """What products that share a kernel have in common."""
    return shape.op, *(reached(extent) for extent in shape[:3]), *problem.values()


def reached(extent: int) -> int:
    """The power of four that an extent reaches: 0 for up to 1, 1 for up to 4, 2 for up to 16."""
    return (max(extent - 1, 0).bit_length() + 1) // 2


def leading(x: Any) -> int:
    """Elements from one row of a matrix to the next."""
    return int(x.strides[0] // x.itemsize) if x.shape[0] > 1 else max(1, int(x.shape[1]))


def rows_together(xp: Any, x: Any) -> Any:
    """The same matrix with contiguous rows that lie in their order, itself where they do."""
    fits = (x.shape[1] <= 1 or x.strides[1] == x.itemsize) and (x.shape[0] <= 1 or x.strides[0] >= x.shape[1] * x.itemsize)
    return x if fits else xp.ascontiguousarray(x)


def gpu_here() -> str | None:
    """The catalog's name of the CUDA GPU that is here; None where none is."""
    from gemmgen.workshop.tune.on_gpu import gpu_here as found

    return found()


def multiplier(by: str | Mapping[str, Any], *, device: str = "auto", gpu: str | None = None, type: str = F32.name) -> Matmul:
    """What multiplies.

    Args:
        by: a scheme (`ootomo`); `auto`, the solver's; `as-fp32`, the fastest whose errors are predicted to be FP32's; `as-fp64`, likewise, or cuBLAS DGEMM
            where that is predicted to be faster; a spec file, whose sizes are not looked at, or its sections; `library:FOLDER`; `vendor`, cuBLAS; `numpy`, on
            the CPU.
        device: `cuda`, `emulator`, `hip`, or `auto`: a CUDA GPU if one is here, else the emulator.
        gpu: whose kernels; None for the GPU that is here, on the emulator EMULATED_GPU.
        type: of the elements, `f32` or `f64`.

    Raises:
        SpecError, UnknownName: it is not known.
        DeviceError: the asked GPU is not there.
    """
    if device not in ("auto", "cuda", "emulator", "hip"):
        raise SpecError("--device", "is unknown", got=device, needs="auto, cuda, emulator, hip", remedy="--device auto")
    element = ELEMENTS[type]
    if by == "numpy":
        return InNumpy(f"numpy {element.title}", element.dtype.type)
    here = gpu_here() if device in ("auto", "cuda") else None
    if device == "cuda" and here is None:
        from gemmgen.catalog.gpu import GPUS

        raise why_not(GPUS.get(gpu or EMULATED_GPU, where="--gpu")) or DeviceError("--device cuda", "no CUDA GPU that the tables know is here")
    if isinstance(by, str) and (by == "vendor" or by.startswith("library:")):
        if here is None:
            raise DeviceError(f"--by {by}", "needs a CUDA GPU", got=device, needs="a GPU, and cupy", remedy="--by numpy, or a scheme on the emulator")
        return Vendor(element.dtype.type) if by == "vendor" else Library(by.partition(":")[2], element.dtype.type)
    named = gpu or here or EMULATED_GPU
    spec = spec_of(by, named, type)
    name = by if isinstance(by, str) else spec.spec.split.scheme
    if here is not None:
        return Kernels(name, spec, Vendor(element.dtype.type)) if by == "as-fp64" else Kernels(name, spec)
    return Copied(name, spec, "hip" if device == "hip" else "emulator")
