"""Errors of the generated kernels beside cuBLAS SGEMM, on the GPU of this machine.

    python bench/accuracy.py [--sizes 1024,2048,4096,8192] [--data both,positive,offset,spread] [--gpu h100] [--json FILE]

Prints one table: for each scheme and size the four error figures on data drawn
in FP64 and rounded, against an FP64 product, whether the statistical bound
holds, how many elements the words could not hold, and the same of cuBLAS SGEMM.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
from dataclasses import asdict

import cupy
import numpy as np

from gemmgen import __version__
from gemmgen.build import build
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.run.cuda import CudaDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify.bound import bound
from gemmgen.verify.metrics import Errors, errors


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """FP64 product on the GPU; a CPU would take minutes at 8192."""
    return cupy.asnumpy(cupy.asarray(a, cupy.float64) @ cupy.asarray(b, cupy.float64))


DATA = {
    "both": lambda rng, shape: rng.uniform(-1, 1, shape),
    "positive": lambda rng, shape: rng.uniform(0, 1, shape),
    "offset": lambda rng, shape: rng.uniform(0.5, 2.5, shape),  # LE-GEMM's LLM values
    "spread": lambda rng, shape: rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-20, 21, shape)),
}


def row(size: tuple[int, int, int], data: str, name: str, found: Errors, limit: float | None = None, counted: int = 0) -> dict:
    return {
        "m": size[0], "n": size[1], "k": size[2], "data": data, "kernel": name, **asdict(found), "bound": limit,
        "passed": None if limit is None else bool(found.relative_frobenius <= limit), "counted": counted,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,2048,4096,8192,1031x1013x4099,1x4099x127,4097x3x5001")
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--promote", default="128,0")
    parser.add_argument("--data", default="both", help="comma-separated: " + ", ".join(DATA))
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for data, text in itertools.product(options.data.split(","), options.sizes.split(",")):
        extents = [int(x) for x in text.split("x")]
        m, n, k = extents * 3 if len(extents) == 1 else extents
        rng = np.random.default_rng(m + n + k)
        a = DATA[data](rng, (m, k)).astype(np.float32)
        b = DATA[data](rng, (k, n)).astype(np.float32)
        exact, magnitude = reference(a, b), reference(np.abs(a), np.abs(b))
        sgemm = cupy.asnumpy(cupy.asarray(a) @ cupy.asarray(b))
        rows.append(row((m, n, k), data, "cuBLAS SGEMM", errors(sgemm, exact, magnitude)))
        for scheme in (row.name for row in SCHEMES.rows() if not row.b):
            for promote in (int(p) for p in options.promote.split(",")):
                plan = solve(loads({"split": {"scheme": scheme, "promote": promote}, "target": {"gpu": options.gpu}}))
                source = render(plan)
                binary = build(source)
                result = gemm(CudaDevice(binary), plan, source, a, b)
                limit = bound(plan, a, b, exact).relative_frobenius
                counted = sum(result.status[x] for x in ("a_lossy", "a_overflow", "b_lossy", "b_overflow"))
                found = errors(result.c, exact, magnitude)
                rows.append(row((m, n, k), data, f"{scheme}, promote {promote}", found, limit, counted))
    device_name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"device {device_name}, CUDA driver {cupy.cuda.runtime.driverGetVersion()}, compiler {binary.compiler}, gemmgen {__version__}, Python {platform.python_version()}")
    print(f"{'m x n x k':>18}  {'data':<8} {'kernel':<22} {'rel. Frobenius':>14} {'bound':>9} {'max error':>9} {'MRED':>9} {'scaled':>9} {'counted':>9}  passed")
    for r in rows:
        size = f"{r['m']} x {r['n']} x {r['k']}"
        limit = f"{r['bound']:.2e}" if r["bound"] else ""
        print(f"{size:>18}  {r['data']:<8} {r['kernel']:<22} {r['relative_frobenius']:>14.2e} {limit:>9} {r['max_error']:>9.1e} {r['mred']:>9.1e} {r['scaled']:>9.1e} {r['counted']:>9}  {'' if r['passed'] is None else r['passed']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": device_name, "rows": rows}, file, indent=1)
    return 0 if all(r["passed"] in (True, None) for r in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
