"""Errors of the schemes on AMD's matrix units and on an A800's, by the models of the units: no kernel, no GPU.

    python bench/amd_errors.py [--size 128] [--k 1024] [--gpus mi210,mi300x,rx7900xtx,a800]

Prints a table a GPU: relative Frobenius error against FP64 of each scheme on each kind of
data, accumulating inside the unit throughout and with the promotion that the model chooses.
Then LE-GEMM's comparison: how many times smaller its Max_error (eq. 19) is than that of the
others, on U[-1, 1] and squares.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product as product_of

import numpy as np

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core.product import product
from gemmgen.model.error import promote_for
from gemmgen.verify.metrics import Errors, errors, exact

Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]

DATA: dict[str, Draw] = {
    "N(0, 1)": lambda rng, shape: rng.standard_normal(shape),
    "U[-1, 1]": lambda rng, shape: rng.uniform(-1, 1, shape),
    "U[0, 1]": lambda rng, shape: rng.uniform(0, 1, shape),
    "1e-2 N": lambda rng, shape: 1e-2 * rng.standard_normal(shape),
    "1e-3 N": lambda rng, shape: 1e-3 * rng.standard_normal(shape),
    "1e-5 N": lambda rng, shape: 1e-5 * rng.standard_normal(shape),
}
FRAGMENT_K = 16
"""Of CDNA's 16x16x16 and RDNA's one shape; no unit sums more at once, so it changes nothing."""
SQUARES, DRAWS = (128, 256), 8
"""Max_error is that of one element, so it takes many draws to be steady."""
RIVALS = ("half", "markidis", "ootomo")


def operands(draw: Draw, m: int, n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return draw(rng, (m, k)).astype(np.float32), draw(rng, (k, n)).astype(np.float32)


def found(scheme: Scheme, unit: MatrixUnit, a: np.ndarray, b: np.ndarray, promote: int) -> Errors:
    c = product(scheme, unit, a, b, promote=promote, fragment_k=FRAGMENT_K)
    return errors(c, exact(a, b), exact(np.abs(a), np.abs(b)))


def table(gpu: str, size: int, k: int) -> None:
    unit = GPUS.get(gpu).unit
    name, reason = preferred_scheme(unit)
    print(f"\n{GPUS.get(gpu).title}: matrix unit {unit.label()}\nscheme of choice: {name}, since {reason}\n")
    print("| scheme | promoted every | " + " | ".join(DATA) + " |\n| --- | ---: |" + " ---: |" * len(DATA))
    for scheme in SCHEMES.rows():
        if scheme.b or scheme.element != "f32" or any(word not in unit.block for word in scheme.types):
            continue
        for promote in sorted({0, promote_for(scheme, unit, FRAGMENT_K, k)}):
            cells = [found(scheme, unit, *operands(draw, size, size, k), promote).relative_frobenius for draw in DATA.values()]
            print(f"| {scheme.name} | {promote or 'never'} | " + " | ".join(f"{cell:.1e}" for cell in cells) + " |", flush=True)


def le_gemm(gpu: str) -> None:
    """The geometric means over draws of Max_error's reduction and of MRED's (eq. 20)."""
    unit, gains = GPUS.get(gpu).unit, {rival: [] for rival in RIVALS}
    for size, seed in product_of(SQUARES, range(DRAWS)):
        a, b = operands(DATA["U[-1, 1]"], size, size, size, seed)
        ours = found(SCHEMES.get("legemm"), unit, a, b, 0)
        for rival in RIVALS:
            scheme = SCHEMES.get(rival)
            theirs = found(scheme, unit, a, b, FRAGMENT_K if scheme.own_promote == "fragment" else 0)
            gains[rival].append((theirs.max_error / ours.max_error, theirs.mred / ours.mred))
    cells = [np.exp(np.mean(np.log(pairs), axis=0)) for pairs in gains.values()]
    print(f"| {gpu} | " + " | ".join(f"{largest:.3g} | {mean:.3g}" for largest, mean in cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=128, help="m and n")
    parser.add_argument("--k", type=int, default=1024)
    parser.add_argument("--gpus", default="mi210,mi300x,rx7900xtx,a800")
    options = parser.parse_args()
    gpus = options.gpus.split(",")
    print(f"m = n = {options.size}, k = {options.k}")
    for gpu in gpus:
        table(gpu, options.size, options.k)
    print(f"\nLE-GEMM's errors are so many times smaller; m = n = k = {' and '.join(map(str, SQUARES))}, {DRAWS} draws each\n")
    print("| GPU | " + " | ".join(f"{rival}, Max_error | MRED" for rival in RIVALS) + " |\n| --- |" + " ---: |" * (2 * len(RIVALS)))
    for gpu in gpus:
        le_gemm(gpu)


if __name__ == "__main__":
    main()
