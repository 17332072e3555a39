"""Inputs in FP64 whose products by residues are the same bits on every GPU, and the SHA-256 of those bits.

    from gemmgen.verify.digests import DIGESTS, digest, inputs

    a, b, c, alpha, beta = inputs("f64", "everything")
    assert digest(alpha_a_b_plus_beta_c) == DIGESTS["f64", "residues14", "everything"]
"""

from __future__ import annotations

import hashlib

import numpy as np

from gemmgen.catalog.element import ELEMENTS
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, gemm

SHAPE = (35, 21, 150)
"""(m, n, k): less than a tile of most kernels, and more stages than one; of complex elements half of that k."""
ASKED = "everything"
"""The case that `verify` asks for: elements of all the others, C, and factors that round."""
DIGESTS = {
    ("f64", "residues12", "everything"): "6cfb608f317fed55e1e1102695100e384fbc4d9360338bfc9f098cb113cfc6ef",
    ("f64", "residues13", "everything"): "6dd41a0351cf27f10dc7d849e12515019ae08c76dda4920537cb2320a0949aa7",
    ("f64", "residues14", "uniform"): "7f359912db685b32eea3f9810e9fbc591256fe9d5069345aada171b57b77b7f9",
    ("f64", "residues14", "spread"): "bcbcf12454205b77c9417b204254593de2753a42e216401e58ac916d8c128cfc",
    ("f64", "residues14", "special"): "705579d5e9b01217af49f539f21abe6ee6a47d93c648ef78247f88cff0eda8f7",
    ("f64", "residues14", "everything"): "7ac4587d56d8a4a8ea95ce7dd2a797690175582f7ba6265835086f95d60fcadd",
    ("f64", "residues15", "everything"): "d4466b243f8135066630146721222d1dc6ed3a1ce18f77eddb25f97a300663ab",
    ("f64", "residues16", "everything"): "725bba818d999fb11cb4e68cc210c8014d4fd0f34bd8880794d6f8c10a10eb81",
    ("c128", "residues12", "everything"): "d1c53cf767b4de806830c2c6b0b9998ab45772905bcf17da9a3b65f3d1ee949f",
    ("c128", "residues13", "everything"): "7d4ece6c08b40186faa5aab7b31c55a46e89626fc5c66a84344c1b257777f70b",
    ("c128", "residues14", "uniform"): "bcb11505a48286a209e85dc0b25a087c66e89f7592463ec214279c5b90d04fec",
    ("c128", "residues14", "spread"): "276244cbbe85723057842263110de9320340a9f9d88aec1b3f327fa63bafb199",
    ("c128", "residues14", "special"): "dfa25bdf559db48dd158925e40083b5d39b5f3800460cd50bd04714c8cacc172",
    ("c128", "residues14", "everything"): "b76907412aa5df57b214af849cb8c1afa732296f0e8041406d9603b658acda3b",
    ("c128", "residues15", "everything"): "28655645a92be148de40f133c8e0ebafce81d217bd6992a4e9dea7f4bbf1d9f9",
    ("c128", "residues16", "everything"): "0f15572a5ca4fbe15b71010f4c9aaa8a3407ff874ca726a1413875f62666bed9",
}
"""By the elements' type, the scheme and the case."""


def inputs(type: str, case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, complex, complex]:
    """A [M, K], B [K, N], C [M, N] or None, alpha and beta: from integers, which every version of NumPy draws alike.

    Args:
        type: `f64` or `c128`.
        case: `uniform`: of [-1, 1); `spread`: times powers of two from 2^-500 to 2^500; `special`: uniform, with rows and columns of zeros, of subnormal
            numbers, of numbers whose sums leave FP64's range, and with an Inf and a NaN; `everything`: likewise, every third row and column times powers
            of two from 2^-40 to 2^40, with a C and factors that are no powers of two. Of complex elements both parts are so.
    """
    rng = np.random.Generator(np.random.PCG64(35))
    (m, n, k), most, reals = SHAPE, 1 << 53, ELEMENTS[type].reals

    def drawn(*shape: int) -> np.ndarray:
        return np.ldexp(rng.integers(-most, most, shape).astype(np.float64), -53)

    a, b = drawn(m, k), drawn(k // reals, reals * n)
    if case == "spread":
        a, b = (np.ldexp(x, rng.integers(-500, 501, x.shape)) for x in (a, b))
    if case == "everything":
        a[::3], b[:, ::3] = (np.ldexp(x, rng.integers(-40, 41, x.shape)) for x in (a[::3], b[:, ::3]))
    if case in ("special", "everything"):
        a[1], b[:, 2] = 0, 0
        a[3], b[:, 4] = np.ldexp(a[3], -1060), np.ldexp(b[:, 4], 30)
        a[5], b[:, 6] = np.ldexp(a[5], 1020), np.ldexp(b[:, 6], 10)
        a[7, 9], b[11, 8] = np.inf, np.nan
    c, alpha, beta = (drawn(m, reals * n), -1 / 3, 0.7) if case == "everything" else (None, 1.0, 0.0)
    if reals > 1:
        a, b, c = (None if x is None else x.view(np.complex128) for x in (a, b, c))
        alpha, beta = (alpha + 0.3j, beta - 0.1j) if case == "everything" else (alpha, beta)
    return a, b, c, alpha, beta


def digest(c: np.ndarray) -> str:
    """SHA-256 of C's elements in order, little-endian; every NaN as one, since its other bits are each vendor's."""
    parts = np.ascontiguousarray(c).view(np.float64)
    return hashlib.sha256(np.where(np.isnan(parts), np.nan, parts).astype("<f8").tobytes()).hexdigest()


def asked(plan: Plan, case: str = ASKED) -> tuple[str, str, str] | None:
    """The key of a kernel's digest; None where there is none: of kinds that are not one product, and where Inf and NaN are not repaired."""
    key = plan.kind.element_of(plan.type).name, plan.scheme.name, case
    whole = plan.kind.asked == "gemm" and not plan.launches.of_products and not plan.epilogue
    return key if whole and key in DIGESTS and plan.special != "fast" else None


def found(device: Device, plan: Plan, source: Source, case: str = ASKED) -> str:
    """The digest of what a kernel makes of a case.

    Raises:
        EmulationError, DeviceError: from the driver.
    """
    a, b, c, alpha, beta = inputs(plan.kind.element_of(plan.type).name, case)
    return digest(gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta).c)
