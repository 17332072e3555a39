"""What is half of a product worth? BLAS's level 3 beside the whole product of the same scheme and cuBLAS's routines, in one interleaved race.

    python bench/level3.py specs/kernels/syrk_h200.toml [--gpu h200] [--sizes 1024,2048,4096,8192,16384]
    python bench/level3.py --calls
    gemmgen run --library DIR -- python bench/level3.py --calls

For each size N, products of N x N x N by the spec's scheme, each planned for its size: syrk, syr2k, gemmt, trmm, symm and gemm. First the ratios: how many
times as fast each is as gemm by the same scheme and as cuBLAS's routine; then microseconds, TFLOP/s counted as the whole product, and of 64 rows of syrk's C
the largest error against FP64, beside cublasSsyrk's. With --calls cuBLAS's routines alone: under `gemmgen run` these are those of a library. Raises
DeviceError without a CUDA GPU.
"""

from __future__ import annotations

import argparse
import ctypes
from pathlib import Path

import numpy as np

from gemmgen import road, timing
from gemmgen.spec import load, loads
from gemmgen.timing import Contender
from gemmgen.timing.blas import CupysHandle, cublas
from gemmgen.timing.products import raced

SIZES = "1024,2048,4096,8192,16384"
ROWS = 64
"""Of C, whose errors are told."""
UPPER, TRANSPOSED, RIGHT = 1, 1, 1
"""cublasFillMode_t, cublasOperation_t and cublasSideMode_t: to cuBLAS a row-major lower triangle is a column-major upper one, and A on the left one on the right."""
KINDS = {
    "syrk": {"kind": "syrk", "layout": "nt"}, "syrk, both": {"kind": "syrk", "layout": "nt", "uplo": "both"}, "gemmt": {"kind": "gemmt", "layout": "nt"},
    "syr2k": {"kind": "syr2k", "layout": "nt"}, "trmm": {"kind": "trmm", "layout": "nn"}, "symm": {"kind": "symm", "layout": "nn"}, "gemm": {"kind": "gemm", "layout": "nt"},
}
RIVALS = {"syrk": "cublas-ssyrk", "syrk, both": "cublas-ssyrk", "gemmt": "cublas-sgemm", "syr2k": "cublas-ssyr2k",
          "trmm": "cublas-strmm", "symm": "cublas-ssymm", "gemm": "cublas-sgemm"}


def cublas_level3(name: str, inputs: timing.Inputs) -> Contender:
    """cublasSsyrk, cublasSsyr2k, cublasStrmm or cublasSsymm of row-major square operands, of which A's lower triangle is read, or C's is computed."""
    handle = CupysHandle(name)
    m, _, k = inputs.size
    one, zero = np.ones(1, np.float32).ctypes, np.zeros(1, np.float32).ctypes

    def enqueue(index: int) -> None:
        a, b, c = (ctypes.c_void_p(x[index % inputs.sets].data.ptr) for x in (inputs.a, inputs.b, inputs.c))
        if name == "cublas-ssyrk":
            handle.call(handle.library.cublasSsyrk_v2, UPPER, TRANSPOSED, m, k, one, a, k, zero, c, m)
        elif name == "cublas-ssyr2k":
            handle.call(handle.library.cublasSsyr2k_v2, UPPER, TRANSPOSED, m, k, one, a, k, b, k, zero, c, m)
        elif name == "cublas-strmm":
            handle.call(handle.library.cublasStrmm_v2, RIGHT, UPPER, 0, 0, m, m, one, a, m, b, m, c, m)
        else:
            handle.call(handle.library.cublasSsymm_v2, RIGHT, UPPER, m, m, one, a, m, b, m, zero, c, m)

    return Contender(name, enqueue, outputs=inputs.c, judged=False)


def largest_error(contender: Contender, inputs: timing.Inputs) -> float:
    """|C - C*| / (|A| |A|^T), the largest of some rows of the lower triangle."""
    import cupy

    m, _, k = inputs.size
    inputs.c[0].fill(cupy.nan)
    contender.enqueue(0)
    cupy.cuda.Device().synchronize()
    rows = np.unique(np.linspace(0, m - 1, ROWS).astype(int))
    a = inputs.a[0].reshape(m, k).astype(cupy.float64)
    exact, magnitude = a[rows] @ a.T, cupy.abs(a[rows]) @ cupy.abs(a).T
    error = cupy.abs(inputs.c[0].reshape(m, m)[rows] - exact) / magnitude
    below = cupy.arange(m)[None, :] <= cupy.asarray(rows)[:, None]
    return float(cupy.where(below, error, 0).max())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path, nargs="?")
    parser.add_argument("--calls", action="store_true", help="cuBLAS's routines alone")
    parser.add_argument("--gpu", default=None)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--slice-ms", type=float, default=40.0)
    options = parser.parse_args()
    if not options.calls and options.spec is None:
        parser.error("a spec, or --calls")
    asked = {} if options.calls else load(options.spec).spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for size in map(int, options.sizes.split(",")):
        inputs = timing.Inputs((size, size, size))
        field = {}
        for name, problem in ({} if options.calls else KINDS).items():
            built = road.build(loads(asked | {"problem": {"m": size, "n": size, "k": size} | problem}), options.gpu)
            field[name] = timing.generated(name, built.plan, built.source, built.binary, inputs, judged=False)
            print(f"{size}: {name}: {built.plan.summary}")
        field |= {name: cublas_level3(name, inputs) for name in ("cublas-ssyrk", "cublas-ssyr2k", "cublas-strmm", "cublas-ssymm")}
        field["cublas-sgemm"] = cublas("cublas-sgemm", inputs)
        found = raced(field, rounds=options.rounds, slice_ms=options.slice_ms, warm_up=0.3)
        for name, rival in ({} if options.calls else RIVALS).items():
            print(f"{size}: {name} {found['gemm'] / found[name]:.2f} x gemm, {found[rival] / found[name]:.2f} x {rival}")
        for name, seconds in found.items():
            error = f", largest error {largest_error(field[name], inputs):.1e}" if "syrk" in name else ""
            print(f"    {name:<13} {1e6 * seconds:9.1f} us  {2e-12 * size**3 / seconds:6.1f} TFLOP/s{error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
