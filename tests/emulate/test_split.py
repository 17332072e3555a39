"""The device's split, word for word and bit for bit, against the reference split."""

from __future__ import annotations

import numpy as np
import pytest

from assembled import assembled
from gemmgen.abi import COUNTERS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.emulate import TOGETHER, Emulator
from gemmgen.emulate.amdgpu import AmdEmulator
from gemmgen.emulate.core.units import decode
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.split import exponents, set_aside, split

M, N, K = 70, 45, 83  # ragged in every direction


def plan_of(scheme: str, layout: str = "nn", gpu: str = ""):
    return solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme, "promote": 64 if SCHEMES.get(scheme).family.run_k else 0},
        "tile": {"block": [64, 32, 32], "warp": [32, 32, 32]}, "pipeline": {"stages": 2, "fragment_buffers": 1},
        "target": {"gpu": gpu or ("l40s" if SCHEMES.get(scheme).word == "e4m3" else "a100")}, "build": {"allow_spills": True},
    }))


def awkward(shape, seed):
    """Every magnitude from FP32's subnormals up, ties of every rounding, and special values."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-60, 20, shape))
    ties = rng.random(shape) < 0.3
    x = np.where(ties, np.sign(x) * (1 + rng.integers(0, 1 << 12, shape) * 2.0**-12) * np.exp2(rng.integers(-20, 15, shape)), x)
    x = x.astype(np.float32)
    flat = x.reshape(-1)
    flat[:12] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.99, 65520, 65536, 3e38, 1e-40, -2.0**-25]
    flat[12:14] = np.array([0x7F800004, 0x7FFFFFFF], np.uint32).view(np.float32)  # NaNs with bit 21 set
    flat[14:16] = 2.0**-14, -(2.0**-126)  # the smallest normal numbers of FP16 and of FP32
    return x


def device_words(plan, a, b, apart=0):
    """What the kernels before the main one leave behind: words [words, rows, k] of each operand, and counters. Rows lie `apart` elements from one another."""
    source = render(plan)
    binary = assembled(source)
    size, (m, k), n = plan.scheme.word_bytes, a.shape, b.shape[1]
    padded = {x: -(-extent // tile) * tile for x, extent, tile in zip("mnk", (m, n, k), plan.block)}
    stored = {"a": a if plan.layout[0] == "n" else a.T, "b": b if plan.layout[1] == "n" else b.T}
    stored = {name: np.pad(x, ((0, 0), (0, apart)), constant_values=np.nan) for name, x in stored.items()}
    machine = Emulator if plan.gpu.vendor == "nvidia" else AmdEmulator
    with machine(binary.assembly, plan.gpu.unit, schedule=TOGETHER, source=source.text, source_name=source.file_name) as emulator:
        values = source.interface.extents(m, n, k) | {"lda": stored["a"].shape[1], "ldb": stored["b"].shape[1]}
        for x, outer in (("a", "m"), ("b", "n")):
            values[x] = emulator.upload(np.ascontiguousarray(stored[x]).reshape(-1), name=x)
            values[f"{x}_words"] = emulator.alloc(len(plan.scheme.words) * padded[outer] * padded["k"] * size, name=f"{x}_words")
            values[f"{x}_absmax"] = emulator.alloc(4 * padded[outer], name=f"{x}_absmax", fill=0)
            values[f"{x}_status"] = emulator.alloc(24, name=f"{x}_status", fill=0)
            values[f"{x}_exponents"] = emulator.alloc(padded[outer] * padded["k"] // 8, name=f"{x}_exponents")
            values[f"{x}_scales"] = emulator.alloc(max(padded[outer] * padded["k"] // 8, 16 * padded[outer]), name=f"{x}_scales")
        for launch in source.launches[:-1]:
            emulator.launch(launch.symbol, (launch.blocks(values), 1, 1), (launch.threads, 1, 1), launch.shared_bytes,
                            [values[name] for name in launch.params])
        words = {
            x: emulator.read(
                values[f"{x}_words"], {1: np.int8, 2: np.uint16, 4: np.uint32}[size],
                (len(plan.scheme.words) * padded[outer] * padded["k"],),
            )
            for x, outer in (("a", "m"), ("b", "n"))
        }
        counters = {x: emulator.read(values[f"{x}_status"], np.uint64, (3,)) for x in "ab"}
        if plan.scheme.family.run_k:
            for x, matrix, operand in (("a", a, plan.operands[0]), ("b", np.ascontiguousarray(b.T), plan.operands[1])):
                runs, outer = plan.scheme.family.runs(k), padded[operand.outer]
                raw = emulator.read(values[f"{x}_exponents"], np.int32, (outer * runs,)).reshape(-1, runs, operand.tile)
                got, want = raw.transpose(0, 2, 1).reshape(-1, runs), exponents(matrix, plan.scheme)
                some = np.where(np.isfinite(matrix), matrix, 0)
                zeros = np.array([(some[:, at : at + plan.scheme.family.run_k] == 0).all(axis=1) for at in range(0, k, plan.scheme.family.run_k)]).T
                assert np.array_equal(got[: len(matrix)], np.where(zeros & (np.arange(runs) > 0), 1 << 14, want))
                assert (got[len(matrix) :] == np.where(np.arange(runs) > 0, 1 << 14, 0)).all()
        if plan.scheme.family.residues:
            for x, matrix, operand in (("a", a, plan.operands[0]), ("b", b.T, plan.operands[1])):
                got = emulator.read_partial(values[f"{x}_scales"], np.float64, (2, padded[operand.outer]))[0][:, : len(matrix)]
                factors = plan.scheme.family.residues.factors(np.ascontiguousarray(matrix))
                assert np.array_equal(got, [factors, 1.0 / factors], equal_nan=True)
        if plan.scheme.family.tile_k:
            for x, matrix, operand in (("a", a, plan.operands[0]), ("b", b.T, plan.operands[1])):
                scales_are_the_references(plan, matrix, emulator.read(values[f"{x}_scales"], np.float32, (padded[operand.outer] * padded["k"] // 32,)), operand)
    return {x: unpacked(plan, operand, words[x], padded) for x, operand in zip("ab", plan.operands)}, counters


def scales_are_the_references(plan, matrix, raw, operand):
    """2^-e of every tile of k, NaN of those that hold an Inf or a NaN, 1 beyond the operand; rows of a panel lie together."""
    matrix = np.ascontiguousarray(matrix)
    got = raw.reshape(-1, -(-K // 32), operand.tile).transpose(0, 2, 1).reshape(-1, -(-K // 32))
    want = np.where(set_aside(matrix, plan.scheme), np.nan, np.ldexp(1.0, -exponents(matrix, plan.scheme)))
    assert np.array_equal(got[: len(matrix)], want.astype(np.float32), equal_nan=True) and (got[len(matrix) :] == 1).all()


def unpacked(plan, operand, raw, padded):
    """[words, outer padded, k padded] from the packed, swizzled stages, by the layout's own statement."""
    size, (bk, count) = plan.scheme.word_bytes, (plan.block[2], len(plan.scheme.words))
    per_chunk = 16 // size
    outer = padded[operand.outer]
    tiles = raw.reshape(outer // operand.tile, padded["k"] // bk, count, operand.tile, bk // per_chunk, per_chunk)
    rows = np.arange(operand.tile)[:, None]
    chunks = np.arange(bk // per_chunk)[None, :]
    straight = tiles[:, :, :, rows, chunks ^ (rows // plan.staging.swizzle_rows & plan.staging.swizzle_mask)]
    return straight.transpose(2, 0, 3, 1, 4, 5).reshape(count, outer, padded["k"])


@pytest.mark.parametrize("scheme, layout", [(row.name, "nn") for row in SCHEMES.rows() if row.uniform and not (row.family.residues or row.b)] + [
    ("ootomo", "tt"), ("scaled", "tt"), ("tf32x3", "tt"), ("scaled", "tn"), ("bf16x6", "nt"),
])
def test_every_word_is_the_references(scheme, layout):
    holds_the_references(plan_of(scheme, layout), awkward((M, K), 1), awkward((K, N), 2))


@pytest.mark.parametrize("scheme, gpu", [("bf16x3", "mi300x"), ("markidis", "mi300x"), ("egemm", "mi300x"), ("scaled", "rx7900xtx")])
def test_every_word_of_amds_is_the_references(scheme, gpu):
    holds_the_references(plan_of(scheme, "nt", gpu), awkward((M, K), 1), awkward((K, N), 2))


@pytest.mark.parametrize("scheme, layout, size", [
    ("mixpert1", "nt", (3, 5, 8300)), ("mixpert1", "nn", (M, N, K)), ("scaled", "tt", (5, 37, 4200)), ("mixpert4", "tn", (5, 37, 4200)),
])
def test_one_pass_over_whole_rows_gives_the_same(scheme, layout, size):
    """Rows and columns that a thread's registers hold, and longer ones, of which it reads a part again."""
    plan = solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
        "tile": {"block": [64, 64, 64], "warp": [64, 64, 64]},
    }))
    assert plan.launches.splits_whole and [launch.role for launch in render(plan).launches] == ["split", "gemm"]
    m, n, k = size
    a, b = awkward((m, k), 1), awkward((k, n), 2)
    a[1, 1] = b[1, 1] = np.float32(2 - 2.0**-23) * 2.0**40  # all words of which saturate, where they are integers
    a[2], b[:, 2] = np.nan, np.inf  # of which no word is 0, so that zero words alone do not show them
    if k > 400:  # every power of two and its neighbours: those at the edge of what is lost are lossy or not
        powers = np.exp2(np.arange(-60, 31)).astype(np.float32)
        a[1, 100:373] = np.concatenate([powers, np.nextafter(powers, np.float32(0)), np.nextafter(powers, np.float32(np.inf))])
    holds_the_references(plan, a, b)


HELD = {  # (GPU, layout, the k that the plan is made for, size)
    "rows and columns": ("h200", "nn", 256, (M, N, K)), "a cluster of columns": ("h200", "tn", 1024, (24, 40, 1100)),
    "several warps a row": ("h200", "nt", 16384, (3, 2, 16500)), "a row read again": ("h200", "nt", 2048, (9, 2, 8300)),
    "columns read again": ("h200", "tn", 512, (8, 4, 8300)), "a cluster of eight, two segments": ("h200", "tn", 8192, (3, 17, 8300)),
    "no clusters": ("a100", "tn", 4096, (5, 19, 1300)), "wavefronts of 64": ("mi300x", "tn", 4096, (M, N, 300)),
    "rows of which several wavefronts have each": ("mi300x", "nt", 16384, (3, 2, 8300)), "registers of little shared memory": ("t4", "tt", 4096, (M, N, K)),
}


@pytest.mark.parametrize("name", HELD)
def test_residues_are_the_references(name):
    """Of elements that wait in shared memory for their norms, in one launch; of rows that are longer, a part is read again."""
    gpu, layout, made_for, (m, n, k) = HELD[name]
    way = {"fragment": {"policy": "wgmma"}, "tile": {"block": [64, 64, 64], "warp": [64, 64, 64]}} if gpu == "h200" else {
        "tile": {"block": [64, 32, 64], "warp": [32, 32, 64]}}
    plan = solve(loads({"problem": {"layout": layout, "k": made_for}, "split": {"scheme": "residues7"}, "target": {"gpu": gpu}, **way}))
    assert [launch.role for launch in render(plan).launches] == ["split", "gemm"]
    a, b = awkward((m, k), 1), awkward((k, n), 2)
    a[1] = np.random.default_rng(3).standard_normal(k)
    a[1, k // 2 :] *= 3
    a[1, (8353 if k > 8353 else 161) % k] = 1e6  # which the second warp of a row reads, where it has one; not of the first segment, which is read last
    b[:, 0] = np.ldexp(a[1], -140)  # subnormal numbers
    a[2], b[:, 1] = np.nan, np.inf  # all that a wavefront holds
    holds_the_references(plan, a, b, apart=int(name in ("a row read again", "columns read again")))


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_runs_of_k_have_exponents_of_their_own(layout):
    """Three and a half, of which one of a row and of a column is zeros; rows and columns beyond the operands have some, too."""
    plan = solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": "run_scaled", "run": 256}, "target": {"gpu": "a100"}, "build": {"allow_spills": True},
        "tile": {"block": [64, 32, 32], "warp": [32, 32, 32]},
    }))
    a, b = awkward((9, 900), 1), awkward((900, 37), 2)
    a[3, 256:512], b[512:768, 5], a[4, :256] = 0, 0, 0
    holds_the_references(plan, a, b)


@pytest.mark.parametrize("k, layout, gpu", [
    *((k, layout, "a100") for k in (40, 90, 200) for layout in ("nn", "tt")), (700, "tt", "a100"), (40, "nn", "mi300x"), (90, "nn", "mi300x"),
])
def test_sums_shorter_than_a_run_are_split_by_fewer_threads(k, layout, gpu):
    """Half a warp, a warp, a few and most of a block, for each operand; what counts as lost is the same, zeros and all."""
    plan = solve(loads({
        "problem": {"layout": layout, "m": 64, "n": 64, "k": k}, "split": {"scheme": "run_scaled"}, "target": {"gpu": gpu}, "build": {"allow_spills": True},
        "tile": {"block": [64, 32, 32], "warp": [32, 32, 32]},
    }))
    a, b = awkward((19, k), 1), awkward((k, 21), 2)
    a[5], b[:, 3], a[6, 8:20] = 0, 0, 0
    holds_the_references(plan, a, b)


def test_tiles_of_k_of_every_magnitude_have_scales_of_their_own():
    """A tile's largest element goes from FP32's smallest number to its largest, in one operand or the other, by powers of two."""
    magnitudes = np.resize(np.arange(-149, 128).repeat(32), 3 * 32 * (M + N))
    signs = np.random.default_rng(3).choice([-1.0, -0.75, 0.75, 1.0], magnitudes.shape)
    x = np.ldexp(signs, magnitudes).astype(np.float32).reshape(M + N, 96)[:, :K]
    holds_the_references(plan_of("mixpert1_tile"), np.ascontiguousarray(x[:M]), np.ascontiguousarray(x[M:].T))


def holds_the_references(plan, a, b, apart=0):
    words, counters = device_words(plan, a, b, apart)
    for x, matrix in (("a", a), ("b", np.ascontiguousarray(b.T))):
        want = split(matrix, plan.scheme)
        got = words[x].view(np.float32) if plan.scheme.word == "f32" else decode(plan.scheme.word, words[x])
        rows, k = matrix.shape
        if plan.scheme.family.residues:  # nobody uses the words of rows that are set aside
            got[:, :rows][:, set_aside(matrix, plan.scheme)] = words[x][:, :rows][:, set_aside(matrix, plan.scheme)] = 0
        with np.errstate(invalid="ignore"):  # a NaN may be a signalling one
            inside = got[:, :rows, :k].astype(np.float64)
        assert np.array_equal(np.isnan(inside), np.isnan(want.planes))
        wrong = ~np.isnan(inside) & (inside != want.planes)
        assert not wrong.any(), (x, np.argwhere(wrong)[0], inside[wrong][0], want.planes[wrong][0])
        padding = words[x].copy()
        padding[:, :rows, :k] = 0
        assert not padding.any(), "the padding is zero"
        assert counters[x].tolist() == [want.lossy, want.overflow, want.nonfinite]
        assert list(COUNTERS["a_status"]) == ["a_lossy", "a_overflow", "a_nonfinite"]
