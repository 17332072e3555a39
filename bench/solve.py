"""How fast is a triangular solve whose products are by a scheme, and how large is its residual? Beside cuBLAS's trsm, in one interleaved race.

    python bench/solve.py specs/kernels/trsm_h200.toml [--gpu h200] [--sizes 8192x4096x8192,4096] [--parts] [--block 512]
    python bench/solve.py specs/kernels/trsm_h200.toml --type c64 --sizes 1024,2048,4096,8192
    python bench/solve.py specs/kernels/trsm_h200.toml --type f64 --scheme residues14 --sizes 4096
    python bench/solve.py specs/kernels/trsm_h200.toml --matrices 64 --sizes 256,512,1024
    gemmgen run --library DIR -- python bench/solve.py --calls [--matrices 64 --sizes 256,512,1024]

For each size, unknowns x right-hand sides x unknowns: microseconds of each with a copy of the right-hand sides before it, which a solve overwrites, and
TFLOP/s counted as size^2 x others, of complex elements four times that; then ||B - A X|| / (||A|| ||X||) in FP64 of triangles of three kinds. `--parts` adds
what the solves of blocks and the products take, each by itself. `--type` and `--scheme` take the place of the spec's: the vendor's routine is that of the
type. `--matrices` solves so many systems at once, beside cublasStrsmBatched. With --calls cublasStrsm or cublasStrsmBatched alone: under `gemmgen run` it is
that of a library. Raises DeviceError without a CUDA GPU.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gemmgen import road
from gemmgen.catalog.element import ELEMENTS, F32, Element
from gemmgen.errors import DeviceError
from gemmgen.kinds import solves
from gemmgen.spec import load, loads
from gemmgen.timing import Contender
from gemmgen.timing.blas import CupysHandle, load_library
from gemmgen.timing.products import Multiplier, raced

RIGHT, UPPER = 1, 1
"""cublasSideMode_t and cublasFillMode_t: to cuBLAS, A X = B of row-major matrices is X^T A^T = B^T, and a lower triangle an upper one."""


def cublas_trsm(element: Element = F32) -> Callable[[Any, Any], None]:
    """cublasStrsm, or that of other elements, of a row-major lower triangle on the left."""
    handle, one = CupysHandle(f"cublas-{element.letter}trsm"), np.ones(1, element.dtype).ctypes
    trsm = getattr(handle.library, f"cublas{element.letter.upper()}trsm_v2")

    def solve(c: Any, a: Any) -> None:
        size, others = c.shape
        handle.call(trsm, RIGHT, UPPER, 0, 0, others, size, one, ctypes.c_void_p(a.data.ptr), size, ctypes.c_void_p(c.data.ptr), others)

    return solve


def numbers(x: Any, element: Element) -> Any:
    """A matrix of elements as kernels have it: of the numbers that they consist of."""
    return x if element.reals == 1 else x.view(element.part.dtype)


def cublas_trsm_batched(c: Any, a: Any) -> Callable[[], None]:
    """cublasStrsmBatched of row-major lower triangles [batch, size, size] on the left, into C [batch, size, others]; cuBLAS has none of strided batches."""
    import cupy
    from cupy.cuda import device as cupy_device

    handle, library, one = ctypes.c_void_p(cupy_device.get_cublas_handle()), load_library(), np.ones(1, np.float32)
    (batch, size, others) = c.shape
    places = [cupy.array([x.data.ptr + 4 * at * x[0].size for at in range(batch)], cupy.uint64) for x in (a, c)]

    def solve() -> None:
        status = library.cublasSetStream_v2(handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)) or library.cublasStrsmBatched(
            handle, RIGHT, UPPER, 0, 0, others, size, one.ctypes, ctypes.c_void_p(places[0].data.ptr), size, ctypes.c_void_p(places[1].data.ptr), others, batch)
        if status:
            raise DeviceError("bench", "cublasStrsmBatched failed", got=f"cublasStatus {status}")

    return solve


def batches(options: argparse.Namespace, asked: dict[str, Any]) -> None:
    """Races a batch of each size, and prints times, the ratio, and the larger residual of the first and the last system."""
    import cupy

    for one in options.sizes.split(","):
        size, others = [*map(int, one.split("x")), int(one.split("x")[0])][:2]
        built = None if options.calls else road.build(
            loads(asked | {"problem": {"kind": "trsm", "m": size, "n": others, "k": size, "matrices": options.matrices}}), options.gpu)
        own, draw = None if options.calls else Multiplier(built), cupy.random.default_rng(1)
        a = (cupy.tril(draw.uniform(-1, 1, (options.matrices, size, size))) / size**0.5 + cupy.eye(size)).astype(cupy.float32)
        b = draw.uniform(-1, 1, (options.matrices, size, others)).astype(cupy.float32)
        x = cupy.empty_like(b)
        solves_of = {} if options.calls else {"gemmgen": lambda: own.solve(x, a)}
        solves_of["cublas-strsm-batched"] = cublas_trsm_batched(x, a)
        told = {}
        for name, solve in solves_of.items():
            x[...] = b
            solve()
            told[name] = max(residual(a[at], b[at], x[at]) for at in (0, -1))

        def enqueued(solve: Callable[[], None]) -> Callable[[int], None]:
            def enqueue(index: int) -> None:
                x[...] = b
                solve()

            return enqueue

        found = raced({name: Contender(name, enqueued(solve), judged=False) for name, solve in solves_of.items()}, rounds=options.rounds,
                      slice_ms=options.slice_ms, warm_up=0.3)
        if not options.calls:
            print(f"{options.matrices} x {size} x {others}: {built.plan.summary}")
            print(f"{options.matrices} x {size} x {others}: {found['cublas-strsm-batched'] / found['gemmgen']:.2f} x cublas-strsm-batched")
        for name, seconds in found.items():
            rate = 1e-12 * options.matrices * size**2 * others / seconds
            print(f"    {options.matrices} x {size} x {others} {name:<21} {1e6 * seconds:9.1f} us  {rate:6.1f} TFLOP/s, residual {told[name]:.2e}")


def triangles(size: int, dtype: Any) -> dict[str, Any]:
    """Lower triangles by what they are: of a mild condition; Cholesky's of a covariance; L of a random matrix's LU, whose condition grows with its size."""
    import cupy
    from cupyx.scipy.linalg import lu

    draw = cupy.random.default_rng(0)
    mild = cupy.tril(draw.uniform(-1, 1, (size, size))) / size**0.5
    mild[cupy.arange(size), cupy.arange(size)] = draw.uniform(1, 2, size)
    points = draw.uniform(-1, 1, (size, size))
    covariance = cupy.linalg.cholesky(points @ points.T / size + 0.01 * cupy.eye(size))
    return {"mild": mild.astype(dtype), "Cholesky": covariance.astype(dtype), "LU": lu(points, permute_l=False)[1].astype(dtype)}


def residual(a: Any, b: Any, x: Any) -> float:
    import cupy

    a, b, x = (one.astype(np.result_type(one.dtype, np.float64)) for one in (cupy.tril(a), b, x))
    return float(cupy.linalg.norm(b - a @ x) / (cupy.linalg.norm(a) * cupy.linalg.norm(x)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path, nargs="?")
    parser.add_argument("--calls", action="store_true", help="cublasStrsm alone, of --matrices cublasStrsmBatched")
    parser.add_argument("--gpu", default=None)
    parser.add_argument("--sizes", default="8192x4096x8192,4096,2048")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice-ms", type=float, default=40.0)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--type", choices=tuple(ELEMENTS), default=None, help="of the elements, in place of the spec's")
    parser.add_argument("--scheme", default=None, help="of the products, in place of the spec's")
    parser.add_argument("--matrices", type=int, default=1, help="systems of a batch")
    parser.add_argument("--no-residuals", action="store_true")
    parser.add_argument("--block", type=int, default=solves.BLOCK, help="unknowns that a launch solves, to weigh others than the shipped choice")
    options = parser.parse_args()
    if not options.calls and options.spec is None:
        parser.error("a spec, or --calls")
    if options.matrices > 1 and options.parts:
        parser.error("--matrices does not go with --parts")
    if options.matrices > 1 and options.type not in (None, F32.name):
        parser.error("--matrices races FP32 alone")
    import cupy

    solves.BLOCK = options.block
    asked = {} if options.calls else load(options.spec).spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if options.scheme:
        asked["split"] = {"scheme": options.scheme}
    if options.matrices > 1:
        batches(options, asked)
        return 0
    element = ELEMENTS[options.type or asked.get("problem", {}).get("type", F32.name)]
    vendor, name_of = cublas_trsm(element), f"cublas-{element.letter}trsm"
    for one in options.sizes.split(","):
        size, others = [*map(int, one.split("x")), int(one.split("x")[0])][:2]
        problem = {"kind": "trsm", "m": size, "n": others, "k": size, "type": element.name}
        built = None if options.calls else road.build(loads(asked | {"problem": problem}), options.gpu)
        multiplier = None if options.calls else Multiplier(built)
        draw = cupy.random.default_rng(1)

        def drawn(*shape: int) -> Any:
            x = draw.uniform(-1, 1, shape)
            return x + 1j * draw.uniform(-1, 1, shape) if element.reals > 1 else x

        def own(c: Any, triangle: Any) -> None:
            multiplier.solve(numbers(c, element), numbers(triangle, element))

        a = (cupy.tril(drawn(size, size)) / size**0.5 + cupy.eye(size)).astype(element.dtype)
        b = drawn(size, others).astype(element.dtype)
        x = cupy.empty_like(b)

        def solved(solve: Callable[[Any, Any], None]) -> Callable[[int], None]:
            def enqueue(index: int) -> None:
                x[...] = b
                solve(x, a)

            enqueue(0)  # what it allocates once
            return enqueue

        field = {} if options.calls else {"gemmgen": Contender("gemmgen", solved(own), judged=False)}
        field[name_of] = Contender(name_of, solved(vendor), judged=False)
        found = raced(field, rounds=options.rounds, slice_ms=options.slice_ms, warm_up=0.3)
        if not options.calls:
            print(f"{size} x {others}: {built.plan.summary}")
            print(f"{size} x {others}: {found[name_of] / found['gemmgen']:.2f} x {name_of}")
        for name, seconds in found.items():
            print(f"    {size} x {others} {name:<13} {1e6 * seconds:9.1f} us  {1e-12 * element.reals**2 * size**2 * others / seconds:6.1f} TFLOP/s")
        if options.parts and not options.calls:
            parts(multiplier, built, numbers(x, element), numbers(a, element))
        if options.no_residuals or options.calls:
            continue
        for name, triangle in triangles(size, element.dtype).items():
            exact = triangle.astype(np.result_type(element.dtype, np.float64))
            for right, rhs in (("U[-1, 1]", b), ("A U[-1, 1]", (exact @ b).astype(element.dtype))):
                told = []
                for solve in (own, vendor):
                    y = rhs.copy()
                    solve(y, triangle)
                    told.append(residual(triangle, rhs, y))
                print(f"    residual, {name:<8} B {right:<10}: {told[0]:.2e}, cuBLAS's {told[1]:.2e}, ratio {told[0] / told[1]:.2f}")
    return 0


def parts(own: Multiplier, built: Any, x: Any, a: Any) -> None:
    """Microseconds of the launches of each role, one after another, from events around each."""
    import cupy

    x.fill(1)
    own.solve(x, a)
    (prepared,) = own._prepared.values()
    rounds = built.source.interface.rounds(*x.shape, 0, 1.0, 0.0)
    told: dict[str, list[float]] = {}
    for one, (_, launches) in zip(rounds, prepared):
        key = "solve" if one.solves else f"product {one.m} x {one.n} x {one.k}"
        events = cupy.cuda.Event(), cupy.cuda.Event()
        times = []
        for _ in range(3):
            x.fill(1e-3)
            events[0].record()
            for launch, _ in launches:
                launch()
            events[1].record()
            events[1].synchronize()
            times.append(1e3 * cupy.cuda.get_elapsed_time(*events))
        told.setdefault(key, []).append(min(times))
    for key, times in told.items():
        print(f"        {len(times):3} x {key}: {np.mean(times):.1f} us")


if __name__ == "__main__":
    raise SystemExit(main())
