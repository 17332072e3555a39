"""What of bench/papers.py needs no GPU: figures, ratios, histograms, tables, plots, and what it asks of cuBLAS."""

from __future__ import annotations

import ctypes
import json
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import numpy_cupy
import pytest

from gemmgen.errors import DeviceError, GemmgenError, SpecError
from gemmgen.timing import Contender, Inputs, blas
from gemmgen.verify.metrics import errors, exact

BENCH = Path(__file__).parents[2] / "bench"
if not BENCH.exists():
    pytest.skip("no bench/ in this distribution", allow_module_level=True)
sys.path.insert(0, str(BENCH))
import papers as script  # noqa: E402
from paper_figures import batches, common, counted, curves, errors_drawn, roofline, sharing, tuner  # noqa: E402
from paper_figures import errors as papers  # noqa: E402

sys.path.remove(str(BENCH))

OWN = {name: 16 if name.startswith("ootomo") else 0 for name in papers.SHOWN}


# ---- figures


def test_figures_by_hand():
    reference = np.array([[1.0, -2.0], [0.5, 4.0]])
    computed = np.array([[1.5, -2.0], [-0.5, 3.0]])
    got = papers.figures(computed, reference, np.full((2, 2), 4.0))
    assert got.max_error == 1.0  # eq. 19: 1 / (0.5 + 0.5), a wrong sign
    assert got.at_max == 0.5 / 4
    assert got.mred == pytest.approx((0.5 + 0 + 2 + 0.25) / 4)  # eq. 20
    assert got.max_absolute == 1.0  # EGEMM eq. 10
    assert got.relative_frobenius == pytest.approx(np.sqrt(0.25 + 1 + 1) / np.sqrt(1 + 4 + 0.25 + 16))
    assert (got.kept, got.undefined) == (1.0, 0.0)


def test_figures_leave_cancelled_elements_out_where_they_say_so():
    reference = np.array([[1e-4, 1.0, -1.0, 1e-3]])  # |A||B| = 1: the first cancels, the last lies on the border
    got = papers.figures(reference + [[3e-4, 0.5, 0, 0]], reference, np.ones((1, 4)))
    assert got.max_error == pytest.approx(3 / 5) and got.at_max == pytest.approx(1e-4)
    assert got.max_error_kept == pytest.approx(0.5 / 2.5)
    assert got.mred == pytest.approx((3 + 0.5) / 4) and got.mred_kept == pytest.approx(0.5 / 2)
    assert got.kept == 0.5


def test_zeros_in_the_reference_are_counted_and_left_out_of_mred():
    got = papers.figures(np.array([[0.0, 2.0, 3.0]]), np.array([[0.0, 0.0, 2.0]]), np.ones((1, 3)))
    assert got.undefined == 1.0
    assert got.mred == pytest.approx((0 + 0.5) / 2)
    assert got.max_error == 1.0


def test_figures_are_those_that_verify_reports():
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 1, (40, 60)).astype(np.float32), rng.uniform(-1, 1, (60, 30)).astype(np.float32)
    reference, magnitude = exact(a, b), exact(abs(a), abs(b))
    computed = (a.astype(np.float16).astype(np.float32)) @ b
    got, told = papers.figures(computed, reference, magnitude), errors(computed, reference, magnitude)
    for name in ("max_error", "mred", "relative_frobenius"):
        assert getattr(got, name) == pytest.approx(getattr(told, name), rel=1e-12)


def test_figures_of_draws_are_averaged():
    one = papers.Figures(*[1.0] * 9)
    two = papers.Figures(*[4.0] * 9)
    assert set(asdict(papers.averaged([one, two])).values()) == {2.5}


def test_the_fp64_product_is_one_for_any_k():
    rng = np.random.default_rng(1)
    for k in (1, 7, 8, 19):
        a, b = rng.uniform(-1, 1, (5, k)).astype(np.float32), rng.uniform(-1, 1, (k, 6)).astype(np.float32)
        assert papers.product64(a, b, slab=8) == pytest.approx(exact(a, b), rel=1e-14, abs=1e-15)


# ---- histograms


@pytest.mark.parametrize("draw", ["normal", "cauchy", "constant", "zero", "mostly zero"])
def test_a_histogram_counts_every_element(draw):
    rng = np.random.default_rng(2)
    values = {
        "normal": rng.normal(size=5000), "cauchy": rng.standard_cauchy(5000), "constant": np.full(70, -3.0),
        "zero": np.zeros(9), "mostly zero": np.r_[np.zeros(90), 5.0, -7.0],
    }[draw]
    edges, counts = papers.histogram(values)
    assert counts.sum() == values.size
    assert len(counts) == papers.BINS == len(edges) - 1
    assert edges[0] == -edges[-1] and np.all(np.diff(edges) > 0)


def test_a_histograms_end_bins_hold_the_outliers():
    values = np.r_[np.tile([-1.0, 1.0], 50), 1e9, 1e9, -1e9]
    edges, counts = papers.histogram(values, bins=8)
    assert edges[-1] == 8.0
    assert (counts[0], counts[-1]) == (1, 2)


def test_signed_errors_keep_their_sign():
    computed, reference = np.array([3.0, -1.0, 0.0]), np.array([1.0, 1.0, 0.0])
    assert papers.SIGNED["absolute"][1](computed, reference).tolist() == [2.0, -2.0, 0.0]
    assert papers.SIGNED["relative"][1](computed, reference).tolist() == [0.5, -1.0, 0.0]


# ---- reductions


def _row(name: str, size: int, value: float, reference: str = "FP64") -> dict:
    figures = asdict(papers.Figures(*[value] * 9))
    return {"contestant": name, "size": size, "reference": reference, "draws": 2, **figures}


def test_a_reduction_is_the_mean_of_the_ratios():
    """Not the ratio of the means, which would be 11 / 5."""
    rows = [_row("half, none", 1024, 1.0), _row("half, none", 2048, 10.0)]
    rows += [_row("legemm, none", 1024, 1.0), _row("legemm, none", 2048, 4.0)]
    found = papers.ratios(rows, "mred", "half, none", "legemm, none", [1024, 2048], "FP64")
    assert found == [1.0, 2.5]
    first = papers.reductions(rows, OWN)[0]
    assert (first["worse"], first["better"], first["sizes"]) == ("half", "legemm", [1024, 2048])
    assert first["cells"]["own, FP64"] == {"mean": 1.75, "by_size": [1.0, 2.5]}


def test_a_missing_contestant_is_named():
    rows = [_row("half, none", 1024, 1.0)]
    with pytest.raises(DeviceError) as caught:
        papers.ratios(rows, "mred", "half, none", "legemm, none", [1024], "FP64")
    assert "legemm, none at 1024" in str(caught.value) and "has    half, none" in str(caught.value)
    with pytest.raises(DeviceError, match="nonesuch"):
        papers.resolved("nonesuch", "own", OWN)
    cells = papers.reductions(rows, OWN)[0]["cells"]
    assert "legemm, none" in cells["own, FP64"]["missing"] and "half, 128" in cells["128, FP64"]["missing"]


def test_a_ratio_to_no_error_is_refused():
    rows = [_row("half, none", 8, 1.0), _row("legemm, none", 8, 0.0)]
    with pytest.raises(DeviceError, match="no ratio"):
        papers.ratios(rows, "mred", "half, none", "legemm, none", [8], "FP64")


def test_promotions_are_resolved():
    assert papers.resolved("ootomo", "own", OWN) == "ootomo, 16"
    assert papers.resolved("ootomo", "none", OWN) == papers.contestant("ootomo", 0) == "ootomo, none"
    assert papers.resolved("legemm", "own", OWN) == "legemm, none"
    assert papers.resolved("legemm", "128", OWN) == "legemm, 128"
    assert papers.resolved(papers.HGEMM, "128", OWN) == papers.HGEMM


def test_the_authors_own_promotions():
    assert papers.own_promotions("h100") == OWN


def test_every_claim_is_of_schemes_that_are_measured():
    for claim in papers.CLAIMS:
        for name in (claim.worse, claim.better):
            assert name in papers.SHOWN or name in papers.LIBRARY
        assert claim.figure in papers.COMPANIONS and papers.COMPANIONS[claim.figure][0] == claim.figure


# ---- the calls of cuBLAS


def _fake_cupy(monkeypatch) -> None:
    cupy = ModuleType("cupy")
    cupy.__version__ = "0"
    cupy.empty = lambda shape, dtype: np.empty(shape, dtype).view(numpy_cupy.Array)
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    cuda = ModuleType("cupy.cuda")
    cuda.device = SimpleNamespace(get_cublas_handle=lambda: 77)
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=5)
    cuda.runtime = SimpleNamespace(driverGetVersion=lambda: 13000)
    cupy.cuda = cuda
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)


class _Inputs(Inputs):
    """The same in host memory."""

    def __init__(self, size: tuple[int, int, int], l2_bytes: int = 0, sets: int = 2):
        m, n, k = self.size = size
        self.sets = sets
        rng = np.random.default_rng(size[0])
        self.a = [rng.uniform(-1, 1, (m, k)).astype(np.float32).view(numpy_cupy.Array) for _ in range(sets)]
        self.b = [rng.uniform(-1, 1, (k, n)).astype(np.float32).view(numpy_cupy.Array) for _ in range(sets)]
        self.c = [np.empty((m, n), np.float32).view(numpy_cupy.Array) for _ in range(sets)]


@pytest.mark.parametrize("name", papers.LIBRARY)
def test_cublas_multiplies_row_major_matrices(monkeypatch, name):
    """A library that does what cublasGemmEx documents, column major, with the types it is told."""
    _fake_cupy(monkeypatch)
    types = {0: np.float32, 1: np.float64, 2: np.float16}
    computes = {68: np.float32, 77: np.float32, 74: np.float32, 70: np.float64, 64: np.float16}  # type of alpha and beta
    calls = []

    def matrix(pointer, kind, rows, columns, ld):
        at = pointer.value
        count = ld * columns
        buffer = (ctypes.c_char * (count * np.dtype(types[kind]).itemsize)).from_address(at)
        return np.frombuffer(buffer, types[kind]).reshape(columns, ld)[:, :rows].T

    def scalar(argument, kind):
        buffer = (ctypes.c_char * np.dtype(kind).itemsize).from_address(argument._as_parameter_.value)
        return np.frombuffer(buffer, kind)[0]

    def gemm(handle, transa, transb, m, n, k, alpha, a, ka, lda, b, kb, ldb, beta, c, kc, ldc, compute, algorithm):
        assert (handle.value, transa, transb, algorithm) == (77, 0, 0, -1) and ka == kb
        assert (scalar(alpha, computes[compute]), scalar(beta, computes[compute])) == (1, 0)
        product = matrix(a, ka, m, k, lda).astype(computes[compute]) @ matrix(b, kb, k, n, ldb).astype(computes[compute])
        matrix(c, kc, m, n, ldc)[:] = product
        calls.append("gemm")
        return 0

    def stream(handle, stream):
        calls.append("stream")
        return stream.value != 5

    def workspace(handle, at, size):
        calls.append("workspace")
        return at.value == 0 or size.value != 32 << 20

    library = SimpleNamespace(cublasSetStream_v2=stream, cublasSetWorkspace_v2=workspace, cublasGemmEx=gemm)
    monkeypatch.setattr(blas, "load_library", lambda: library)
    inputs = _Inputs((3, 5, 7))
    contender = papers.timing.cublas(papers.LIBRARY[name], inputs, name)
    assert contender.name == name
    for index in (1, 0):
        got = papers.computed(contender, index)
        tolerance = 0.02 if name in (papers.HGEMM, "cuBLAS FP16") else 1e-5
        assert got == pytest.approx(exact(inputs.a[index], inputs.b[index]), abs=tolerance)
    assert calls == ["stream", "workspace", "gemm", "stream"] * 2  # cupy's handle gets its own workspace back
    library.cublasGemmEx = lambda *arguments: 15
    with pytest.raises(DeviceError, match=name):
        contender.enqueue(0)


def test_what_leaves_nan_behind_is_noticed():
    output = [np.empty((2, 2), np.float32)]
    with pytest.raises(DeviceError, match="idle"):
        papers.computed(Contender("idle", lambda index: None, outputs=output), 0)


# ---- the whole road, with contestants in NumPy


def _contestants(kernels, inputs) -> list:
    names = [*papers.LIBRARY, *(kernel.name for kernel in kernels)]
    rng = np.random.default_rng(0)

    def make(name: str):
        noise = 3e-4 if name.startswith("half") else 0 if name == papers.BASELINE else 1e-6
        if name == "tf32x3, 128":
            noise = np.inf  # a kernel that fails

        def enqueue(index: int) -> None:
            product = inputs.a[index] @ inputs.b[index]
            inputs.c[index][:] = product * (1 + noise * rng.normal(size=product.shape))

        return Contender(name, enqueue, outputs=inputs.c)

    return [make(name) for name in names]


def _race(contenders, *, rounds: int, slice_ms: float) -> None:
    for number, contender in enumerate(contenders):
        contender.seconds = [1e-3 * (1 + number / 10)] * rounds


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """A document of `measure` at tiny sizes, and its file."""
    _fake_cupy(monkeypatch)
    kernels = [
        SimpleNamespace(
            name=papers.contestant(scheme, promote), plan=SimpleNamespace(scheme=SimpleNamespace(name=scheme), promote=promote),
            source=SimpleNamespace(name="kernel"),
            binary=SimpleNamespace(compiler="NVRTC 0", kernels={"kernel": SimpleNamespace(registers=99)}),
        )
        for scheme in papers.SHOWN for promote in sorted({OWN[scheme], 0, 128}) if scheme != "egemm"
    ]
    monkeypatch.setattr(common.cuda, "why_not", lambda gpu: None)
    monkeypatch.setattr(papers, "built", lambda gpu, own: (kernels, {"egemm, none": "egemm: spills\n  got 9"}))
    monkeypatch.setattr(papers, "entrants", _contestants)
    monkeypatch.setattr(papers.timing, "Inputs", _Inputs)
    monkeypatch.setattr(papers.timing, "race", _race)
    monkeypatch.setattr(papers.timing, "device_name", lambda: "A GPU")
    monkeypatch.setattr(papers.timing, "conditions", lambda: {"clocks.sm": "1000 MHz"})
    for module in (papers, errors_drawn):
        monkeypatch.setattr(module, "HISTOGRAM_SIZE", 32)
    monkeypatch.setattr(papers, "PLANE_SIZES", (48, 64))
    path = tmp_path / "papers.json"
    return papers.measure(path, [32, 48, 64], "h100", rounds=7), path


def test_measure_writes_what_the_tables_and_plots_read(measured):
    document, path = measured
    assert common.load(path, papers.FORMAT, "measure") == json.loads(json.dumps(document))
    assert path.stat().st_size < 2e6
    text = papers.as_text(common.load(path, papers.FORMAT, "measure"))
    assert "A GPU" in text and "1000 MHz" in text and text.rstrip().endswith("|")
    assert "not measured: egemm, none: egemm: spills got 9" in text
    assert "not measured: tf32x3, 128 at 48" in text and "missing: egemm, none at 32" in text
    of = {(row["worse"], row["better"], row["figure"]): row["cells"] for row in document["reductions"]}
    assert 200 < of["half", "legemm", "relative_frobenius"]["own, FP64"]["mean"] < 400
    drawn = {papers.resolved(*which, OWN) for which in papers.HISTOGRAMS}
    assert {row["contestant"] for row in document["histograms"]} == drawn
    assert all(sum(row["counts"]) == 32 * 32 for row in document["histograms"])
    assert {row["size"] for row in document["plane"]} == {48, 64}
    base, second = document["plane"][:2]
    assert base["contestant"] == papers.BASELINE and base["x_sgemm"] == 1.0
    assert second["tflops"] == pytest.approx(2 * 48**3 / 1.1e-3 / 1e12)
    assert not any(row["contestant"] == "tf32x3, 128" for row in document["plane"])


@pytest.mark.slow
def test_plot_draws_both_pictures(measured, tmp_path, monkeypatch, capsys):
    document, path = measured
    document["plane"][0]["relative_frobenius"] = 1e-17  # below the floor, as FP64 is
    path.write_text(json.dumps(document))
    assert script.main(["plot", str(path), str(tmp_path / "out")]) == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["histograms.png", "plane.png"]
    assert all(file.stat().st_size > 10_000 for file in (tmp_path / "out").iterdir())
    assert "Reductions" in capsys.readouterr().out


def test_plot_names_a_contestant_that_is_missing(measured, tmp_path, capsys):
    document, path = measured
    document["histograms"] = [row for row in document["histograms"] if row["contestant"] != "legemm, none"]
    path.write_text(json.dumps(document))
    assert script.main(["plot", str(path), str(tmp_path)]) == 2
    assert "legemm, none" in capsys.readouterr().err


# ---- bad input


def test_sizes():
    assert script.squares("2048,1024,1024") == [1024, 2048]
    for text in ("1024x512x64", "4k"):
        with pytest.raises(SpecError, match="--sizes"):
            script.squares(text)


@pytest.mark.parametrize("text", [None, "", "[]", '{"format": "another"}'])
def test_a_file_that_is_not_ours(tmp_path, text, capsys):
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    assert script.main(["plot", str(path), str(tmp_path)]) == 2
    assert "papers.py measure" in capsys.readouterr().err


def test_measure_without_a_gpu_or_a_place_to_write(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(common.cuda, "why_not", lambda gpu: DeviceError("--device cuda", "no CUDA GPU answers"))
    assert script.main(["measure", str(tmp_path / "x.json")]) == 2
    assert "no CUDA GPU answers" in capsys.readouterr().err and not (tmp_path / "x.json").exists()
    monkeypatch.setattr(common.cuda, "why_not", lambda gpu: None)
    assert script.main(["measure", str(tmp_path / "no" / "x.json")]) == 2
    assert "cannot be written" in capsys.readouterr().err


# ---- kernels


def test_kernels_are_built_side_by_side_and_refusals_told(monkeypatch):
    class Pool:
        def __init__(self, workers, mp_context):
            assert workers >= 1 and mp_context.get_start_method() == "spawn"

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        map = staticmethod(map)

    monkeypatch.setattr(common, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(common, "build", lambda source: source.name)
    good, bad = ({"split": {"scheme": scheme}, "target": {"gpu": "h100"}} for scheme in ("half", "halve"))
    kernels, refused = common.compiled({"no": bad, "yes": good})
    assert [(one.name, one.plan.scheme.name, one.binary) for one in kernels] == [("yes", "half", kernels[0].source.name)]
    assert list(refused) == ["no"] and "halve" in refused["no"]
    with pytest.raises(GemmgenError, match="halve"):
        common.compiled({"no": bad})


# ---- curves


@pytest.fixture
def swept(monkeypatch, tmp_path):
    """A document of `curves` at tiny sizes, and its file."""
    _fake_cupy(monkeypatch)
    binary = SimpleNamespace(kernels={"kernel": SimpleNamespace(registers=99)})
    kernels = [common.Kernel(name, SimpleNamespace(promote=0), SimpleNamespace(name="kernel"), binary) for name in curves.KERNELS if name != "egemm"]

    def entrants(kernels, inputs) -> list:
        names = [*curves.LIBRARY, curves.FOUR, *(one.name for one in kernels)]
        noise = {name: 0.0 if name == curves.SGEMM else 3e-4 if name.startswith("half") else 1e-6 for name in names}
        rng = np.random.default_rng(0)

        def make(name: str):
            def enqueue(index: int) -> None:
                product = inputs.a[index] @ inputs.b[index]
                inputs.c[index][:] = product * (1 + noise[name] * rng.normal(size=product.shape))

            return Contender(name, enqueue, outputs=inputs.c, judged=name != curves.INT8)

        return [make(name) for name in names]

    def apart(kernels, inputs) -> dict:
        return {(one.name, role): Contender(role, lambda index: None) for one in kernels for role in ("split", "gemm")}

    monkeypatch.setattr(common.cuda, "why_not", lambda gpu: None)
    for name, stand_in in (("Inputs", _Inputs), ("race", _race), ("device_name", lambda: "A GPU"), ("conditions", lambda: {"clocks.sm": "1000 MHz"}),
                           ("versions", lambda: {"cupy": "0"}), ("release_memory", lambda: None)):
        monkeypatch.setattr(curves.timing, name, stand_in)
    monkeypatch.setattr(curves, "built", lambda gpu: (kernels, {"egemm": "egemm: spills\n  got 9"}))
    monkeypatch.setattr(curves, "entrants", entrants)
    monkeypatch.setattr(curves, "launches_apart", apart)
    path = tmp_path / "curves.json"
    assert script.main(["curves", str(path), "--square", "16,32", "--skewed", "16", "--parts", "--rounds", "5"]) == 0
    return common.load(path, curves.FORMAT, "curves"), path


def test_curves_measures_every_shape_and_says_what_is_missing(swept, capsys):
    document, path = swept
    speeds = {(row["shape"], row["n"], row["contestant"]): row for row in document["speeds"]}
    assert {key[:2] for key in speeds} == {("n,n,n", 16), ("n,n,n", 32), *((shape, 16) for shape in curves.SHAPES if shape != "n,n,n")}
    row = speeds["n,n,4n", 16, "cuBLAS FP16"]  # the second in line: 1.1 ms where SGEMM takes 1
    assert row["size"] == [16, 16, 64] and row["tflops"] == pytest.approx(2 * 16 * 16 * 64 / 1.1e-3 / 1e12) and row["x_sgemm"] == pytest.approx(1 / 1.1)
    assert {row["size"] for row in document["errors"]} == {16, 32} and not any(row["contestant"] == curves.INT8 for row in document["errors"])
    assert len(document["parts"]) == 2 * len(curves.PARTS) * (2 + 4)
    text = curves.as_text([document])
    assert "not measured: egemm: egemm: spills got 9" in text and "EGEMM-TC figures 8 to 10" not in text
    assert "LE-GEMM table 6" in text and "MixPert figure 11" in text


def test_ratios_and_means_of_curves_by_hand():
    rows = [{"shape": "n,n,n", "n": n, "contestant": name, "seconds": seconds, "tflops": 0.0}
            for n, name, seconds in ((512, "legemm", 1.0), (512, "half", 9.0), (1024, "legemm", 2.0), (1024, "half", 1.0), (2048, "legemm", 4.0), (2048, "half", 6.0))]
    found = curves.times_as_fast(rows, "n,n,n", "legemm", "half")
    assert found == [(512, 9.0), (1024, 0.5), (2048, 1.5)] and curves._mean(found) == "1.00 (0.50-1.50)"
    assert curves.times_as_fast(rows, "n,n,4n", "legemm", "half") == [] and curves._mean([]) == "-"


def test_sizes_that_would_take_too_long_are_left_out(swept, tmp_path, monkeypatch):
    document = curves.measure(tmp_path / "x.json", "h200", {"n,n,n": [16, 32]}, rounds=5, seconds=0.0, with_errors=False, with_parts=False)
    assert document["left_out"] == ["n,n,n at n = 16: no time was left", "n,n,n at n = 32: no time was left"] and not document["speeds"]
    assert script.main(["curves", str(tmp_path / "y.json")]) == 2 and not (tmp_path / "y.json").exists()


def test_every_kernel_of_the_curves_is_planned_and_has_its_authors_promotion():
    own = {name: OWN.get(name) for name in ("half", "markidis", "egemm", "legemm", "ootomo", "bf16x6", "tf32x3")}
    for name, promote in own.items():
        assert curves.KERNELS[name]["split"].get("promote") == promote
    assert set(curves.PARTS) | {name for _, name in curves.MIXPERT.items()} <= set(curves.KERNELS)
    assert {rival for rivals in curves.TABLE_6.values() for rival in rivals} <= {curves.SGEMM, *curves.KERNELS}


def test_emulation_by_four_calls_adds_up_the_products_of_its_words(monkeypatch):
    """EGEMM-TC's Algorithm 1: lo lo, lo hi, hi lo, hi hi, the first of which clears C."""
    _fake_cupy(monkeypatch)
    import cupy

    def kernel(ins, outs, text, name):
        def split(x, high, low):
            high[:] = x
            low[:] = x - high.astype(np.float32)
        return split

    cupy.ElementwiseKernel, cupy.float16 = kernel, np.float16
    calls = []

    def product(kind, inputs, name, add):
        [(a, b)] = {id(pair): pair for pair in inputs.operands("float16")}.values()
        calls.append(add)

        def enqueue(index):
            c = inputs.results("float32")[index]
            c[:] = (c if add else 0) + a.astype(np.float32) @ b.astype(np.float32)

        return Contender(name, enqueue, outputs=inputs.results("float32"))

    monkeypatch.setattr(curves.timing, "cublas", product)
    inputs = _Inputs((9, 7, 20))
    four = curves.four_calls(inputs)
    for index in (1, 0):
        assert papers.computed(four, index) == pytest.approx(exact(inputs.a[index], inputs.b[index]), abs=3e-6)
    assert calls == [False, True, True, True]


@pytest.mark.long
def test_draw_makes_the_curves_pictures(swept, tmp_path, capsys):
    assert script.main(["draw", str(swept[1]), "--out", str(tmp_path / "out")]) == 0
    names = ["papers_egemm.svg", "papers_errors.svg", "papers_legemm.svg", "papers_mixpert.svg"]
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == names
    assert "figure 10, Max_error against FP64" in (tmp_path / "out" / "papers_errors.svg").read_text()


# ---- what a profiler counted


def _counts(*launches: tuple[str, float]) -> str:
    """As `ncu --csv --print-units base` prints them: (kernel, bytes) in order, after its own lines."""
    lines = ['==PROF== Connected to process 1', '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"']
    for number, (kernel, value) in enumerate(launches):
        for metric, factor in ((roofline.DRAM, 1), (roofline.L2, 3)):
            lines.append(f'"{number}","1","{kernel}","Command line profiler metrics","{metric}","byte","{factor * value:,.0f}"')
    return "\n".join(lines) + "\n"


def test_launches_belong_to_the_marker_before_them():
    text = _counts(("before", 9.0), ("papers_mark_0", 0.0), ("split", 1000.0), ("gemm", 2e6), ("papers_mark_1", 0.0), ("cublas", 5.0))
    found = counted.read(text, ["ours", "theirs"])
    assert [one[roofline.DRAM] for one in found["ours"]] == [1000.0, 2e6] and [one[roofline.L2] for one in found["theirs"]] == [15.0]
    with pytest.raises(SpecError, match="has no table"):
        counted.read("==ERROR== no permission", ["ours"])
    with pytest.raises(SpecError, match="more contenders"):
        counted.read(text, ["ours"])


def test_each_contender_is_launched_once_between_markers(monkeypatch):
    done = []
    _fake_cupy(monkeypatch)
    import cupy

    cupy.RawKernel = lambda text, name: lambda blocks, threads, arguments: done.append(name)
    @contextmanager
    def profile():
        done.append("start")
        yield
        done.append("stop")

    cupy.cuda.runtime.deviceSynchronize = lambda: done.append("synchronize")
    profiler = ModuleType("cupyx.profiler")
    profiler.profile = profile
    monkeypatch.setitem(sys.modules, "cupyx", ModuleType("cupyx"))
    monkeypatch.setitem(sys.modules, "cupyx.profiler", profiler)
    assert counted.launch_once({"a": lambda: done.append("a"), "b": lambda: done.append("b")}) == ["a", "b"]
    assert done[done.index("start") :] == ["start", "papers_mark_0", "a", "papers_mark_1", "b", "synchronize", "stop"]
    assert done[:2] == ["a", "b"]


def test_a_roofline_joins_bytes_with_speeds(tmp_path, capsys):
    speeds = [{"shape": shape, "n": n, "contestant": "legemm", "tflops": tflops} for shape, n, tflops in (("n,n,n", 64, 7.0), ("n,n,n", 32, 1.0), ("n,n,4n", 64, 2.0))]
    document = {"format": curves.FORMAT, "device": "A GPU", "gpu": "h200", "speeds": speeds}
    files = {name: tmp_path / name for name in ("curves.json", "names.json", "counts.csv", "out.json")}
    files["curves.json"].write_text(json.dumps(document))
    files["names.json"].write_text('["legemm", "unknown"]')
    files["counts.csv"].write_text(_counts(("papers_mark_0", 0.0), ("split", 1000.0), ("gemm", 1621.44), ("papers_mark_1", 0.0), ("x", 1.0)))
    call = ["roofline", str(files["out.json"]), "--size", "64", "--out", str(tmp_path)]
    assert script.main([*call, "--speeds", str(files["curves.json"])]) == 2 and "--names" in capsys.readouterr().err
    documents = [common.load(files["curves.json"], curves.FORMAT, "curves")]
    joined = roofline.joined(documents, files["counts.csv"].read_text(), ["legemm", "unknown"], 64)
    [row] = joined["rows"]
    assert row == {"contestant": "legemm", "launches": 2, "tflops": 7.0, "dram_bytes": 2621.0, "l2_bytes": 7864.0}
    assert roofline.intensity(row, 64) == pytest.approx(2 * 64**3 / 2621) and "| legemm | 7.0 | 0.00 | 200 |" in roofline.as_text(joined)


# ---- BatchGEMM and the tuner, from what commands printed


PRINTED = """device  A GPU

microseconds
                  cell  batch  cublas-loop  cublas-strided  batch_listed_h200  fp32_paper  fp32_paper_old_tlp
         paper 128x128      8         84.0                               12.0        42.0                21.0
        paper 128x1024      8         21.0                                7.0        10.5                42.0
        paper 128x1024     16        100.0                               10.0        50.0                50.0
    inception module 1      4         38.5            12.0                7.7

geometric means of the ratios
"""


def test_tables_of_batches_are_read_by_their_columns():
    rows = batches.times(PRINTED)
    assert rows[0] == {"cell": "paper 128x128", "batch": 8, "cublas-loop": 84.0, "batch_listed_h200": 12.0, "fp32_paper": 42.0, "fp32_paper_old_tlp": 21.0}
    assert rows[3] == {"cell": "inception module 1", "batch": 4, "cublas-loop": 38.5, "cublas-strided": 12.0, "batch_listed_h200": 7.7}
    ranges = rows[:3]
    assert batches.over_loop(ranges, "batch_listed_h200") == pytest.approx({8: (7 * 3) ** 0.5, 16: 10})
    assert batches.new_over_old(ranges, "fp32_paper", "fp32_paper_old_tlp") == pytest.approx({8: (0.5 * 4) ** 0.5, 16: 1})
    assert batches.latency(ranges, "fp32_paper") == pytest.approx({8: (42 * 10.5) ** 0.5, 16: 50})
    assert batches.modules(rows, "batch_listed_h200") == pytest.approx({"1": 5.0}) and batches.over_loop(ranges, "cublas-strided") == {}
    listed = "spec,batch,largest m and n,tiles,microseconds,microseconds to count them\n"
    shares = batches.tiling_shares(f"{listed}batch_listed_h200,8,128,207,1.00,0.2\nother,16,128,1,9,9\nbatch_listed_h200,1024,128,1,9,9\n", ranges, batches.LISTED)
    assert shares == {(8, 128): (1.0, 1 / 8)}
    with pytest.raises(SpecError, match="no table"):
        batches.times("device  A GPU\n")


def test_occupancy_is_the_mean_of_a_contenders_launches():
    lines = ['"ID","Kernel Name","Metric Name","Metric Value"', '"0","papers_mark_0","x","1"']
    for number, (active, limit) in enumerate(((20, 50), (40, 75)), 1):
        lines += [f'"{number}","k","{batches.ACTIVE}","{active}"', f'"{number}","k","{batches.LIMIT}","{limit}"']
    assert batches.occupancies("\n".join(lines), ["ours"]) == {"ours": (pytest.approx(0.3), pytest.approx(0.625))}


def test_the_records_that_ship_can_be_drawn_from():
    """What is in docs/results is what the verbs read."""
    results = BENCH.parent / "docs" / "results"
    ranges, layers = (batches.times((results / name).read_text()) for name in ("batches_h200.txt", "batches_h200_other.txt"))
    assert len(ranges) == 72 and set(batches.modules(layers, "batch_h200")) == set("123456789")
    found = batches.over_loop(ranges, batches.LISTED)
    assert batches.geometric_mean(found.values()) == pytest.approx(15.98, abs=0.4) and "Figures 8 and 9" in batches.as_text(ranges, layers)
    programs = tuner.load(results / "tune_mlp_h200.json")
    threshold, speed, error = tuner.points(programs, "chosen")[-1]
    assert (threshold, round(speed, 1), error < threshold) == (1e-3, 15.6, True) and "| mlp | 1e-03 | chosen | 15.62 |" in tuner.as_text([programs])
    squares = common.load(results / "papers_curves_h200.json", curves.FORMAT, "curves")
    assert {row["n"] for row in squares["speeds"]} >= {512, 1024, 16384} and squares["device"] == "NVIDIA H200"


@pytest.mark.parametrize("text", [None, "", "{}", "[]", '[{"program": "x"}]'])
def test_a_file_that_the_tuner_did_not_write(tmp_path, text, capsys):
    path = tmp_path / "x.json"
    if text is not None:
        path.write_text(text)
    assert script.main(["tuner", str(path), "--out", str(tmp_path)]) == 2 and "gemmgen tune --output" in capsys.readouterr().err


@pytest.mark.long
def test_every_verb_that_draws_writes_its_picture(tmp_path):
    results = BENCH.parent / "docs" / "results"
    assert script.main(["tuner", str(results / "tune_mlp_h200.json"), "--out", str(tmp_path)]) == 0
    assert script.main(["batches", *(str(results / name) for name in ("batches_h200.txt", "batches_h200_other.txt")), "--out", str(tmp_path)]) == 0
    row = {"contestant": "legemm", "launches": 2, "tflops": 150.0, "dram_bytes": 4e9, "l2_bytes": 9e9}
    document = {"format": roofline.FORMAT, "device": "A GPU", "gpu": "h200", "size": 8192, "rows": [row, {**row, "contestant": "half, wmma"}]}
    (tmp_path / "r.json").write_text(json.dumps(document))
    assert script.main(["roofline", str(tmp_path / "r.json"), "--out", str(tmp_path)]) == 0
    assert {file.name for file in tmp_path.glob("*.svg")} == {"papers_tuner.svg", "papers_batches.svg", "papers_roofline.svg"}


def test_sharing_a_gpu_is_told_beside_sgemm_in_as_many_processes():
    rows = [{"processes": count, "contestant": name, "tflops": rate} for count, name, rate in (
        (1, curves.SGEMM, 50.0), (2, curves.SGEMM, 40.0), (1, "mixpert4", 200.0), (2, "mixpert4", 100.0))]
    assert sharing.speed_ups(rows, "mixpert4") == [(1, 4.0), (2, 2.5)] and sharing.speed_ups(rows, "bf16x6") == []
    text = sharing.as_text({"rows": rows, "size": [2, 3, 4], "device": "A GPU"})
    assert "| mixpert4 | 200.0 (4.00) | 100.0 (2.50) |" in text and "| bf16x6 | - | - |" in text
    assert set(sharing.NAMES) == set(curves.MIXPERT.values()) <= set(curves.KERNELS)
