"""Inputs whose products by residues are the same bits on every GPU, and the SHA-256 of those bits.

    from gemmgen.verify.digests import DIGESTS, digest, inputs

    a, b, c, alpha, beta = inputs("f64", "everything")
    assert digest(alpha_a_b_plus_beta_c) == DIGESTS["f64", "residues14", "everything"]
"""

from __future__ import annotations

import hashlib

import numpy as np

from gemmgen.catalog.element import ELEMENTS
from gemmgen.kinds import GEMM
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, gemm

SHAPE = (35, 21, 150)
"""(m, n, k): less than a tile of most kernels, and more stages than one; of complex elements half of that k."""
_FP64, _FP32 = (53, 500, 40, -1060, 1020), (24, 60, 12, -137, 125)
"""Of the parts of elements: bits; powers of two of `spread` and of `everything`; of a row of subnormal numbers and of one whose sums are too large."""
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
    ("f32", "residues6", "everything"): "ce25fd07ff23900fa2a6895a5676e6def15eda70e7e3e00335daeec8745bc129",
    ("f32", "residues7", "uniform"): "b8c4cba129c9ae117cb8c194e0ac021197501da90c70239a6379ec088db52f30",
    ("f32", "residues7", "spread"): "c819ebe26e39086fc012281bd3a9cf11e3465030f646152f74603d4ee8da9077",
    ("f32", "residues7", "special"): "8513cede9d3b3765118c3a51e6630bc59622421b86ea3ee1e4bf04c4a927178b",
    ("f32", "residues7", "everything"): "db45d0ae1f98c720e6307763d09dc111385b217d88586cdc0e5c2b0ecd31066c",
    ("f32", "residues8", "everything"): "0aaaa719b22a163ed48867c5e22a0dc55c96d539a71353e136e0d33e0e65a493",
    ("f32", "residues9", "everything"): "4d4b41e077d2e9be56f5bcbcd662725b271e063bd0cc5cfa3e1005a11864c541",
    ("c64", "residues6", "everything"): "78f4b791d9550bdab0c738ebed4cd73370249b169bec69006d8f505764e3e4a4",
    ("c64", "residues7", "uniform"): "bbb6d44d2fa7aee01d727a8c49fdeacf4b96d1c6a295751836f8ad97b6fdd32d",
    ("c64", "residues7", "spread"): "9b3644d8935ad5822dbc7219ff3adf8ae281221fc270e9b89bf4fa0cf9af30d5",
    ("c64", "residues7", "special"): "286e3d51abf6f15f8d04a9b939d725333524458af4c9d51a2b64a27a52448edc",
    ("c64", "residues7", "everything"): "f1f142f059fc7743274bf4d1a71e22129884a437cb04252402ce1b5fa4c2ebbf",
    ("c64", "residues8", "everything"): "577db56ddc3396fe0703ff985ed7a5e5b577ef4f67ea7a9d9d5f926ebcab1735",
    ("c64", "residues9", "everything"): "c26c7b1740612cfe0f622054144e11c6de81670c2f289a50f4c61dd5eb8e4c95",
}
"""By the elements' type, the scheme and the case."""


def inputs(type: str, case: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, complex, complex]:
    """A [M, K], B [K, N], C [M, N] or None, alpha and beta: from integers, which every version of NumPy draws alike.

    Args:
        type: `f64`, `c128`, `f32` or `c64`.
        case: `uniform`: of [-1, 1); `spread`: times powers of two from 2^-500 to 2^500, of FP32 from 2^-60 to 2^60; `special`: uniform, with rows and
            columns of zeros, of subnormal numbers, of numbers whose sums leave the type's range, and with an Inf and a NaN; `everything`: likewise, every
            third row and column times powers of two from 2^-40 to 2^40, of FP32 from 2^-12 to 2^12, with a C and factors that are no powers of two. Of
            complex elements both parts are so.
    """
    rng = np.random.Generator(np.random.PCG64(35))
    element = ELEMENTS[type]
    (m, n, k), reals, part = SHAPE, element.reals, element.part.dtype
    bits, far, near, small, large = _FP32 if element.part.bytes == 4 else _FP64

    def drawn(*shape: int) -> np.ndarray:
        return np.ldexp(rng.integers(-1 << bits, 1 << bits, shape).astype(part), -bits)

    a, b = drawn(m, k), drawn(k // reals, reals * n)
    if case == "spread":
        a, b = (np.ldexp(x, rng.integers(-far, far + 1, x.shape)) for x in (a, b))
    if case == "everything":
        a[::3], b[:, ::3] = (np.ldexp(x, rng.integers(-near, near + 1, x.shape)) for x in (a[::3], b[:, ::3]))
    if case in ("special", "everything"):
        a[1], b[:, 2] = 0, 0
        a[3], b[:, 4] = np.ldexp(a[3], small), np.ldexp(b[:, 4], 30)
        a[5], b[:, 6] = np.ldexp(a[5], large), np.ldexp(b[:, 6], 10)
        a[7, 9], b[11, 8] = np.inf, np.nan
    c, alpha, beta = (drawn(m, reals * n), -1 / 3, 0.7) if case == "everything" else (None, 1.0, 0.0)
    if reals > 1:
        a, b, c = (None if x is None else x.view(element.dtype) for x in (a, b, c))
        alpha, beta = (alpha + 0.3j, beta - 0.1j) if case == "everything" else (alpha, beta)
    return a, b, c, alpha, beta


def digest(c: np.ndarray) -> str:
    """SHA-256 of C's elements in order, little-endian; every NaN as one, since its other bits are each vendor's."""
    parts = np.ascontiguousarray(c).view(c.real.dtype)
    return hashlib.sha256(np.where(np.isnan(parts), parts.dtype.type(np.nan), parts).astype(parts.dtype.newbyteorder("<")).tobytes()).hexdigest()


def asked(plan: Plan, case: str = ASKED) -> tuple[str, str, str] | None:
    """The key of a kernel's digest; None where there is none: of kinds that are not one product, and where Inf and NaN are not repaired."""
    key = plan.kind.element_of(plan.type).name, plan.scheme.name, case
    whole = plan.kind.asked == GEMM.name and not plan.launches.of_products and not plan.epilogue
    return key if whole and key in DIGESTS and plan.special != "fast" else None


def found(device: Device, plan: Plan, source: Source, case: str = ASKED) -> str:
    """The digest of what a kernel makes of a case.

    Raises:
        EmulationError, DeviceError: from the driver.
    """
    a, b, c, alpha, beta = inputs(plan.kind.element_of(plan.type).name, case)
    return digest(gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta).c)
