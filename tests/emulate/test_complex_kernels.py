"""Kernels of complex products, on integers whose sums every scheme holds: both parts of every element, bit for bit."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from verifying import on_emulator
from ways import AMD_WAYS, DEEP, TINY, plan_of

from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.run import Placement, gemm
from gemmgen.verify import complex as of_complex

LONG = pytest.mark.long
WGMMA = dict(gpu="h200", fragment={"policy": "wgmma"}, tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 2, "group": 2}, promote=32, stages=3)
RESIDUES = dict(promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]})
WAYS = {
    "mma": dict(tile=TINY, stages=3), "mma, slices": dict(tile=TINY, split_k=2), "mma, row scales": dict(tile=TINY, scheme="scaled"),
    "mma, runs": dict(tile=TINY, scheme="run_scaled", run=256), "mma, integers": dict(scheme="mixpert4", promote=0, tile={}),
    "mma, tiles of k": dict(scheme="mixpert4_tile", promote=0, tile={}),
    "fma": dict(scheme="fp32", promote=0, tile={"block": [32, 64, 16], "warp": [32, 32, 16]}),
    "mfma": AMD_WAYS["mfma"], "mfma, row scales": AMD_WAYS["mfma"] | dict(scheme="scaled"),
    "wgmma": WGMMA, "wgmma, runs": WGMMA | dict(scheme="run_scaled", run=256), "wgmma, slices": WGMMA | dict(split_k=2),
    "mma, residues": RESIDUES | dict(scheme="residues8"), "mfma, residues": dict(scheme="residues8", gpu="mi300x", promote=0, tile={}),
    "wgmma, residues": dict(WGMMA, scheme="residues8", promote=0, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, stages=4),
    "mma, FP64 residues": dict(scheme="residues12", promote=0, tile=DEEP, type="c128"),
    "mfma, FP64 residues": dict(scheme="residues14", gpu="mi300x", promote=0, tile={}, type="c128"),
    "wgmma, FP64 residues": dict(
        WGMMA, scheme="residues14", promote=0, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, stages=4, type="c128",
    ),
}
IN_SHORT = {"mma": "ct", "mma, runs": "tc", "mfma": "cn", "mfma, row scales": "tt", "mma, residues": "tt"}
"""Ways that plain `make test` goes, each in one layout."""
ONE = IN_SHORT | {"fma": "nt", "wgmma, runs": "nn", "mma, FP64 residues": "nc", "mfma, FP64 residues": "cc"}
ALL = [pytest.param(way, layout, marks=() if IN_SHORT.get(way) == layout else LONG) for way in WAYS for layout in COMPLEX_LAYOUTS]


@lru_cache(4)
def made(way: str, layout: str, schedule=TOGETHER):
    return on_emulator(plan_of(**{"type": "c64", "layout": layout, **WAYS[way]}), schedule=schedule)


def integers(rng, plan, *shape):
    return (rng.integers(-8, 9, shape) + 1j * rng.integers(-8, 9, shape)).astype(plan.kind.element_of(plan.type).dtype)


@pytest.mark.parametrize(("way", "layout"), ALL)
def test_both_parts_of_every_element_are_exact(way, layout):
    """Ragged, of more than a tile, with leading dimensions of their own, C beside 8 bytes; what lies around C is left alone."""
    device, plan, source = made(way, layout)
    rng, (m, n, k), size = np.random.default_rng(1), (plan.block[0] + 3, plan.block[1] // 2 + 1, plan.block[2] + 3), plan.type.bytes
    a, b, c = integers(rng, plan, m, k), integers(rng, plan, k, n), integers(rng, plan, m, n)
    for alpha, beta, misaligned in ((2 - 1j, 3j - 1, 3 * size), (1, 0, 0)):
        result = gemm(device, plan, source, a, b, c if beta else None, alpha=alpha, beta=beta, placement=Placement((1, 2, 3), (size, 3 * size, misaligned)))
        assert (result.c == alpha * (a @ b) + (beta * c if beta else 0)).all() and result.intact and not any(result.status.values())


@pytest.mark.parametrize("schedule", [EAGER_LOWEST, LAZY_HIGHEST], ids=["eager", "lazy"])
@pytest.mark.parametrize(("way", "layout"), [
    pytest.param("mma", "ct"), *(pytest.param(way, layout, marks=LONG) for way, layout in ONE.items() if way != "mma"),
])
def test_order_of_warps_and_copies_does_not_matter(way, layout, schedule):
    device, plan, source = made(way, layout, schedule)
    rng = np.random.default_rng(2)
    a, b = integers(rng, plan, 5, 2 * plan.block[2] + 1), integers(rng, plan, 2 * plan.block[2] + 1, plan.block[1] // 2 + 3)
    assert (gemm(device, plan, source, a, b).c == a @ b).all()


@pytest.mark.parametrize(("way", "layout"), [
    (way, layout) if way in ("mma", "mfma", "mma, FP64 residues") else pytest.param(way, layout, marks=LONG) for way, layout in ONE.items()
])
def test_special_values_and_factors(way, layout):
    """BLAS: nothing is seen of C with beta = 0, nor of A and B with alpha = 0 or no k. A real factor leaves the parts apart. Inf and NaN are computed again and
    counted, each part of B once."""
    device, plan, source = made(way, layout)
    rng = np.random.default_rng(3)
    a, b, c = integers(rng, plan, 4, 6), integers(rng, plan, 6, 5), integers(rng, plan, 4, 5)
    nothing = gemm(device, plan, source, np.full_like(a, np.nan), np.full_like(b, np.nan), c, alpha=0, beta=2j)
    assert (nothing.c == 2j * c).all()
    assert (gemm(device, plan, source, a[:, :0], b[:0], c, alpha=1j, beta=-1).c == -c).all()
    assert (gemm(device, plan, source, a[:, :0], b[:0], np.full_like(c, np.nan), alpha=1, beta=0).c == 0).all()
    assert (gemm(device, plan, source, a, b, c, alpha=1j, beta=0).c == 1j * (a @ b)).all()
    half = c.copy()
    half.imag = np.nan
    found = gemm(device, plan, source, a, b, half, alpha=1, beta=1)
    assert (found.c.real == (a @ b + c).real).all() and np.isnan(found.c.imag).all()
    a[1, 2], b[3, 4] = complex(np.inf, 1), complex(2, np.nan)
    result = gemm(device, plan, source, a, b)
    with np.errstate(invalid="ignore"):
        want = plan.kind.completed(a, b)
        want = (want[0].astype(float) @ want[1].astype(float)).view(np.complex128)
    for part in ("real", "imag"):
        assert np.array_equal(getattr(result.c, part), getattr(want, part), equal_nan=True)
    assert result.status["repaired"] == 8 and (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (1, 1)


@pytest.mark.parametrize(("way", "layout"), [("mma, runs", "tc"), ("mma, FP64 residues", "nc"), pytest.param("mfma, FP64 residues", "cc", marks=LONG)])
@pytest.mark.parametrize("part", [1, 1j], ids=["real", "imaginary"])
def test_a_part_alone_beyond_the_range_is_computed_again(way, layout, part):
    device, plan, source = made(way, layout)
    rng, high = np.random.default_rng(4), 2.0 ** (600 if plan.type.bytes == 8 else 80)
    a, b = integers(rng, plan, 4, 6), integers(rng, plan, 6, 5)
    a[0], a[:, 0], b[0], b[:, 1] = 0, 0, 0, 0
    a[0, 0], b[0, 1] = high, part * high
    want = np.zeros((4, 5), complex)
    want[0, 1], want[1:] = np.inf if part == 1 else complex(0, np.inf), a[1:] @ b
    result = gemm(device, plan, source, a, b)
    assert (result.c == want).all() and result.status["repaired"] == 1


@pytest.mark.parametrize(("way", "layout"), ONE.items())
@pytest.mark.long
def test_random_numbers_are_within_the_worst_case(way, layout):
    device, plan, source = made(way, layout)
    right, told = of_complex.question(plan, source, device)
    assert right, told


# ---- triangles, of C and of an operand

DOUBLE = WGMMA | dict(tile={"block": [64, 128, 32], "warp": [64, 128, 32], "cluster": 1})  # two real columns for each row of a tile
OF_TRIANGLES = {
    "herk, both": ("mma", "cn", {"kind": "herk", "uplo": "both"}), "herk, upper": ("mma", "nc", {"kind": "herk", "uplo": "upper"}),
    "herk, runs": ("mma, runs", "nc", {"kind": "herk"}), "herk, slices": ("mma, slices", "nc", {"kind": "herk"}), "herk, fma": ("fma", "cn", {"kind": "herk"}),
    "herk, clusters": ("wgmma", "nc", {"kind": "herk", "uplo": "both"}), "herk, clusters, upper": ("wgmma", "cn", {"kind": "herk", "uplo": "upper"}),
    "herk, twice as wide": ("wgmma, twice as wide", "nc", {"kind": "herk"}), "herk, lanes": ("mfma", "cn", {"kind": "herk", "uplo": "both"}),
    "herk, residues": ("mma, residues", "nc", {"kind": "herk", "uplo": "upper"}), "herk, FP64": ("mma, FP64 residues", "nc", {"kind": "herk", "uplo": "both"}),
    "herk, FP64, lanes": ("mfma, FP64 residues", "cn", {"kind": "herk", "uplo": "both"}),
    "herk, FP64, clusters": ("wgmma, FP64 residues", "cn", {"kind": "herk"}),
    "her2k, both": ("mma", "nc", {"kind": "her2k", "uplo": "both"}), "her2k, upper": ("mma", "cn", {"kind": "her2k", "uplo": "upper"}),
    "her2k, clusters": ("wgmma", "nc", {"kind": "her2k"}), "her2k, lanes": ("mfma", "cn", {"kind": "her2k", "uplo": "both"}),
    "her2k, FP64": ("mma, FP64 residues", "cn", {"kind": "her2k"}), "syr2k": ("mma", "tn", {"kind": "syr2k", "uplo": "both"}),
    "syr2k, runs": ("mma, runs", "nt", {"kind": "syr2k", "uplo": "upper"}),
    "syrk": ("mma", "tn", {"kind": "syrk", "uplo": "both"}), "gemmt": ("mma", "tc", {"kind": "gemmt", "uplo": "upper"}),
    "hemm, left": ("mma", "nc", {"kind": "hemm"}), "hemm, right": ("mma", "cn", {"kind": "hemm", "side": "right", "uplo": "upper"}),
    "hemm, right, runs": ("mma, runs", "nn", {"kind": "hemm", "side": "right"}),
    "hemm, row scales": ("mma, row scales", "nn", {"kind": "hemm", "uplo": "upper"}),
    "hemm, clusters": ("wgmma, runs", "nn", {"kind": "hemm"}), "hemm, lanes": ("mfma", "nn", {"kind": "hemm"}),
    "hemm, FP64": ("mma, FP64 residues", "nn", {"kind": "hemm"}), "symm": ("mma", "nt", {"kind": "symm", "uplo": "upper"}),
    "symm, right": ("mma", "tn", {"kind": "symm", "side": "right"}), "trmm": ("mma", "cn", {"kind": "trmm"}),
    "trmm, right": ("mma, slices", "tc", {"kind": "trmm", "side": "right", "uplo": "upper", "diag": "unit"}),
    "trmm, FP64": ("mma, FP64 residues", "cn", {"kind": "trmm", "uplo": "upper"}), "trmm, clusters": ("wgmma", "nn", {"kind": "trmm"}),
}
SHORT = ("herk, both", "hemm, right")
"""Triangles that plain `make test` asks."""


@lru_cache(4)
def triangle(name: str):
    way, layout, problem = OF_TRIANGLES[name]
    own = DOUBLE if way.endswith("wide") else WAYS[way]
    tile = {"tile": {"block": [64, 64, 64], "warp": [32, 32, 64]}} if "tile" not in own or not own["tile"] else {}
    cluster = {"tile": {**own["tile"], "block": [64, 64, 32], "warp": [64, 64, 32]}} if way in ("wgmma", "wgmma, runs") else {}
    return on_emulator(plan_of(**{"type": "c64", "layout": layout, **own, **tile, **cluster}, problem=problem))


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SHORT else LONG) for name in OF_TRIANGLES])
def test_triangles_are_right(name):
    device, plan, source = triangle(name)
    right, told = of_complex.question(plan, source, device)
    assert right, told


@pytest.mark.parametrize("name", ["her2k, both", *(pytest.param(name, marks=LONG) for name in ("her2k, upper", "her2k, lanes", "her2k, FP64", "syr2k"))])
def test_two_products_by_hand(name):
    """Sums are integers: both products are added, the second with the conjugate of alpha where C is Hermitian; counters sum both rounds."""
    device, plan, source = triangle(name)
    kind, rng, n = plan.kind, np.random.default_rng(8), 21
    a, b, c = integers(rng, plan, n, 6), integers(rng, plan, 6, n), integers(rng, plan, n, n)
    alpha, beta, turned = 2 - 1j, -3.0 if kind.hermitian else 1 - 3j, (lambda x: x.conj().T) if kind.hermitian else np.transpose
    held = c.copy()
    if kind.hermitian:
        c[np.diag_indices(n)] = c.diagonal().real + complex(0, np.nan)
    want = alpha * (a @ b) + (alpha.conjugate() if kind.hermitian else alpha) * turned(a @ b) + beta * kind.read(held)
    result = gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta)
    computed = kind.computed(n, n)
    assert (result.c[computed] == want[computed]).all() and not any(result.status.values())
    a[2, 1] = complex(np.inf, 1)
    result = gemm(device, plan, source, a, b, c, alpha=alpha, beta=beta)
    clean = computed & (np.arange(n) != 2) & (np.arange(n) != 2)[:, None]
    assert (result.c[clean] == want[clean]).all() and not np.isfinite(result.c[computed & ~clean]).any()
    assert (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (1, 1) and result.status["repaired"] == n + 1, "the diagonal twice"
    result = gemm(device, plan, source, np.full_like(a, np.nan), np.full_like(b, np.nan), held, alpha=0, beta=beta)
    assert (result.c[computed] == (beta * kind.read(held))[computed]).all()


@pytest.mark.parametrize("name", ["herk, both", pytest.param("herk, lanes", marks=LONG), pytest.param("herk, FP64", marks=LONG)])
def test_a_hermitian_c_by_hand(name):
    """Sums are integers: C is exact, and real on its diagonal, whatever C or an Inf in A makes of the imaginary parts there."""
    device, plan, source = triangle(name)
    rng, n = np.random.default_rng(5), plan.block[0] + 5
    a, c = integers(rng, plan, n, 6), integers(rng, plan, n, n)
    c[np.diag_indices(n)] = c.diagonal().real + complex(0, np.nan)
    held = np.tril(c, -1) + np.tril(c, -1).conj().T + np.diag(c.diagonal().real)
    result = gemm(device, plan, source, a, None, c, alpha=2.0, beta=-3.0)
    assert (result.c == 2 * (a @ a.conj().T) - 3 * held).all() and not result.c.diagonal().imag.any() and not any(result.status.values())
    a[2, 1] = complex(np.inf, 1)
    result = gemm(device, plan, source, a, None)
    with np.errstate(invalid="ignore"):
        want = a @ a.conj().T
    finite = np.isfinite(want)
    assert (result.c[finite] == want[finite]).all() and result.c[2, 2] == np.inf and not np.isfinite(result.c[~finite]).any()
    assert result.status["repaired"] == n and (result.status["a_nonfinite"], result.status["b_nonfinite"]) == (1, 1)
