"""`python -m gemmgen.demo`: the whole road on real data, on a GPU if there is one, else on the emulator.

1. A kernel is generated, compiled and held against every check.
2. The nearest neighbours of handwritten digits are found through a generated
   Gram matrix, once with FP32 accuracy and once in plain FP16. The first must find
   exactly those that FP64 finds; the second gets some wrong, which is why the
   refinement exists.

Exit code 1 if either does not turn out so.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from gemmgen import road
from gemmgen.cli import guarded, show
from gemmgen.cli.output import GREEN, RED, Progress, emit, paint
from gemmgen.errors import EXIT_FAILED, EXIT_OK
from gemmgen.paths import PACKAGE, SPECS
from gemmgen.spec import LoadedSpec, load

NEIGHBOURS = 5


def main() -> int:
    """Run the demonstration and return its exit code."""
    start = time.perf_counter()
    right = _verification() and _digits()
    verdict = paint("PASSED", GREEN) if right else paint("FAILED", RED)
    emit(f"\ndemo {verdict} in {time.perf_counter() - start:.0f} s")
    return EXIT_OK if right else EXIT_FAILED


def _shipped(name: str) -> LoadedSpec:
    """A shipped spec, for this machine's GPU if it has one that the tables know."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.run.cuda import why_not

    loaded = load(SPECS / "kernels" / f"{name}.toml")
    fits = [row for row in GPUS.rows() if why_not(row) is None]
    if not fits:
        return loaded
    gpu = max(fits, key=lambda row: row.arch_number).name
    target = loaded.spec.target.model_copy(update={"gpu": gpu})
    return loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"target": target})})


def _verification() -> bool:
    name = "sgemm_a100"
    emit(f"1. Is the kernel right?  gemmgen verify specs/kernels/{name}.toml\n")
    start, progress = time.perf_counter(), Progress(name)
    kernel = road.build(_shipped(name), progress=progress)
    report = road.verify(kernel, progress=progress)
    emit(show.report(kernel, report, time.perf_counter() - start))
    return report.passed


def _digits() -> bool:
    import numpy as np

    z = _features()
    rows, features = z.shape
    emit(f"\n2. What is the accuracy for?  The {NEIGHBOURS} nearest neighbours of {rows} handwritten digits\n"
         f"   ({features} features, z-scored), from the Gram matrix Z Z^T computed by generated kernels\n")
    double = z.astype(np.float64)
    norms = (double**2).sum(axis=1)
    truth = _neighbours(double @ double.T, norms)
    wrong, table = {}, []
    for scheme in ("ootomo", "half"):
        device, gram, found = _gram(scheme, z)
        differ = _neighbours(gram.astype(np.float64), norms) != truth
        wrong[scheme] = int(differ.sum())
        table.append((
            scheme, f"{found.relative_frobenius:.2e}", f"{found.max_error:.1e}", f"{found.mred:.1e}", f"{found.scaled:.1e}",
            f"{wrong[scheme]} of {truth.size}", f"{int(differ.any(axis=1).sum())} of {rows}",
        ))
    emit(show.table(
        ("scheme", "rel. Frobenius", "max", "MRED", "scaled", "wrong neighbours", "digits affected"), table, indent="   "
    ))
    emit(f"   errors and neighbours against FP64 of the same FP32 data, on {device}")
    return wrong["ootomo"] == 0 and wrong["half"] > 0


def digits() -> tuple[Any, Any]:
    """Handwritten digits: pixels [1797, 64], 8 x 8 each, FP64 of 0 to 16, and their classes [1797], integers 0 to 9.

    The test set of E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits (1998), UCI Machine Learning Repository, doi 10.24432/C50P49,
    CC BY 4.0; as scikit-learn's `load_digits` has it.
    """
    import numpy as np

    with np.load(PACKAGE / "digits.npz") as kept:
        return kept["pixels"].astype(np.float64), kept["classes"].astype(np.int64)


def _features() -> Any:
    """The digits [1797, 64] with each feature's mean 0 and deviation 1, in FP32.

    As the integers 0 to 16 that they are, every low word would be 0.
    """
    import numpy as np

    x = digits()[0]
    deviation = x.std(axis=0)
    centred = x - x.mean(axis=0)
    return np.divide(centred, deviation, out=np.zeros_like(x), where=deviation > 0).astype(np.float32)


def _gram(scheme: str, z: Any) -> tuple[str, Any, Any]:
    """The device's name, Z Z^T [rows, rows] by the scheme's kernel, and its errors."""
    import numpy as np

    from gemmgen.run import gemm
    from gemmgen.verify.metrics import errors, exact

    progress = Progress(f"digits_{scheme}")
    kernel = road.build(_shipped(f"digits_{scheme}"), progress=progress)
    device = road.open_device(kernel, progress=progress)
    progress.step("Gram matrix")
    try:
        gram = gemm(device, kernel.plan, kernel.source, z, z.T).c
    finally:
        progress.clear()
    return device.name, gram, errors(gram, exact(z, z.T), exact(np.abs(z), np.abs(z.T)))


def _neighbours(gram: Any, norms: Any) -> Any:
    """Indices [rows, NEIGHBOURS] of the nearest others, the lower index first where two are as near.

    Args:
        gram: Z Z^T in FP64.
        norms: squared norms of Z's rows.
    """
    import numpy as np

    distances = norms[:, None] + norms[None, :] - 2 * gram
    np.fill_diagonal(distances, np.inf)
    return np.argsort(distances, axis=1, kind="stable")[:, :NEIGHBOURS]


if __name__ == "__main__":
    sys.exit(guarded(main))
