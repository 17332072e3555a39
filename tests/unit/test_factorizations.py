"""Factorizations in FP64 and FP32 over a matmul: LU with pivots (HPL), QR, and who multiplies FP64 for them."""

from __future__ import annotations

import ctypes
import sys
from functools import partial
from types import SimpleNamespace

import numpy as np
import numpy_cupy
import on_paper
import pytest

from gemmgen.catalog.element import F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import SpecError
from gemmgen.workshop import apps
from gemmgen.workshop.apps import dense, hpl, qr, race
from gemmgen.workshop.apps import matmul as who
from gemmgen.workshop.apps.problem import App, Problem

DRAW = np.random.default_rng(35)
OnPaper = partial(on_paper.OnPaper, itemsize=8)
TYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


# ---- HPL


@TYPES
@pytest.mark.parametrize("block", [1, 7, 16, 50])
def test_factors_with_pivots_are_lapacks(dtype, block):
    linalg = pytest.importorskip("scipy.linalg")
    a = DRAW.standard_normal((50, 50))
    kept = a.copy()
    lu, order = hpl.factored(who.InNumpy("numpy", dtype), a, block)
    packed, pivots = linalg.lu_factor(a.astype(dtype))
    assert lu.dtype == dtype and np.array_equal(order, dense.order_of(np, pivots, 50)) and np.array_equal(a, kept)
    np.testing.assert_allclose(lu, packed, atol=100 * np.finfo(dtype).eps)
    lower, upper = np.tril(lu, -1).astype(np.float64) + np.eye(50), np.triu(lu)
    np.testing.assert_allclose(lower @ upper, a[order], atol=50 * np.finfo(dtype).eps)


def test_rows_go_where_pivots_have_them():
    """Of five rows the last comes first, then the first, which stands last by now, second."""
    assert dense.order_of(np, np.array([4, 4]), 5).tolist() == [4, 0, 2, 3, 1]
    panel = np.array([[1.0, 8], [2, 2], [0, 0], [0, 0], [4, 4]])
    to, source = dense.pivoted_lu(np, panel)
    rows = np.arange(10.0, 15)
    rows[to] = rows[source]
    assert rows.tolist() == [14, 10, 12, 13, 11] and panel.tolist() == [[4, 4], [0.25, 7], [0, 0], [0, 0], [0.5, 0]]


def test_a_solution_is_that_of_the_factors():
    lu = DRAW.standard_normal((23, 23)) + 8 * np.eye(23)
    b = DRAW.standard_normal(23)
    kept = b.copy()
    for block in (5, 23, 40):
        x = hpl.solution(np, lu, b, block)
        np.testing.assert_allclose((np.tril(lu, -1) + np.eye(23)) @ (np.triu(lu) @ x), b, rtol=1e-10)
    assert np.array_equal(b, kept)


def test_the_next_panel_is_left_alone_until_it_is_waited_for(monkeypatch):
    """What factors it runs beside the rest of the product: nothing may read or write the panel meanwhile."""
    factor, held = dense.pivoted_lu, []

    class Beside:
        def __init__(self, xp):
            self.panels = []

        def __enter__(self):
            held.append(self.panels)

        def __exit__(self, *error):
            held.pop()
            for panel, _ in self.panels:
                panel[...] = np.nan

        def join(self):
            for panel, found in self.panels:
                panel[...] = found
            self.panels.clear()
            joined.append(True)

    def pivoted(xp, panel):
        moved = factor(xp, panel)
        if held:
            held[-1].append((panel, panel.copy()))
        else:
            first.append(True)
        return moved

    first, joined = [], []
    a = DRAW.standard_normal((40, 40))
    want = hpl.factored(who.InNumpy("numpy", np.float64), a, 12)
    monkeypatch.setattr(dense, "Ahead", Beside)
    monkeypatch.setattr(dense, "pivoted_lu", pivoted)
    found = hpl.factored(who.InNumpy("numpy", np.float64), a, 12)
    assert all(np.array_equal(one, other) for one, other in zip(found, want)) and (len(first), len(joined)) == (1, 4)


def test_work_beside_begins_after_what_was_enqueued_and_is_waited_for():
    told = []

    class Stream:
        def __init__(self, name):
            self.name = name

        def record(self):
            return self.name

        def wait_event(self, event):
            told.append(f"{self.name} waits for {event}")

        def __enter__(self):
            told.append(f"enter {self.name}")

        def __exit__(self, *error):
            told.append("leave")

    class Cuda:
        get_current_stream = staticmethod(lambda: Stream("main"))
        Stream = staticmethod(lambda **how: told.append(how) or Stream("beside"))

    dense.Ahead(SimpleNamespace(cuda=Cuda))
    ahead = dense.Ahead(SimpleNamespace(cuda=Cuda))  # by the same stream
    with ahead:
        told.append("work")
    ahead.join()
    assert told == [{"non_blocking": True, "priority": -1}, "beside waits for main", "enter beside", "work", "leave", "main waits for beside"]
    with dense.Ahead(np) as nothing:
        assert nothing is None


@pytest.mark.parametrize("rows", [9, 60000])
def test_a_gpus_panel_is_factored_by_getrf_and_its_pivots_become_an_order(monkeypatch, rows):
    """cuSOLVER counts pivots from 1; an order that shared memory does not hold lies in the GPU's memory."""
    pytest.importorskip("scipy.linalg")
    made, asked, shared = {}, [], []

    def kept(x):
        made[x.ctypes.data] = x
        return x.view(numpy_cupy.Array)

    def getrf(handle, m, n, a, lda, work, pivots, info):
        asked.append((m, n, lda))
        [own] = dense.scipy_linalg("").get_lapack_funcs(("getrf",), (made[a],))
        factors, found, _ = own(made[a].T)
        made[a][...] = factors.T
        made[pivots][:] = found + 1

    def kernel(grid, block, given, *, shared_mem):
        pivots, count, height, order, fits = given
        shared.append((shared_mem, int(fits)))
        assert (count, height) == (len(pivots), len(order))
        order[:] = dense.order_of(np, pivots, height)

    cuda = SimpleNamespace(
        cusolver=SimpleNamespace(setStream=lambda *given: None, dgetrf=getrf, dgetrf_bufferSize=lambda *given: 1, CUSOLVERError=RuntimeError),
        device=SimpleNamespace(get_cusolver_handle=lambda: 1))
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    monkeypatch.setattr(dense, "_order_of", lambda xp: kernel)
    xp = SimpleNamespace(ascontiguousarray=lambda x: kept(np.array(x, order="C")), empty=lambda count, kind: kept(np.empty(count, kind)), arange=np.arange,
                         concatenate=np.concatenate, cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=9)))
    whole = DRAW.standard_normal((rows, 5))
    want = whole.copy()
    moved = dense.pivoted_lu(np, want[:, 1:4])
    found = dense.pivoted_lu(xp, whole[:, 1:4])
    assert np.array_equal(whole, want) and all(np.array_equal(one, other) for one, other in zip(found, moved))
    assert asked == [(rows, 3, rows)] and shared == [(36, 1) if rows == 9 else (0, 0)]


def test_the_residual_of_hpl_is_of_the_types_epsilon():
    problem = hpl.make({"n": 4, "block": 2}, "drawn", 0)
    a, b = problem.inputs["a"], problem.inputs["b"]
    assert abs(a).max() <= 0.5 and a.min() < 0 and (a != a.astype(np.float32)).any()
    x = np.linalg.solve(a, b) * (1 + 1e-3)
    told = [problem.told(np, {"x": x.astype(dtype)}, problem.inputs)["residual"] for dtype in (np.float64, np.float32)]
    assert told[0] == pytest.approx(2.0**29 * told[1], rel=1e-3)
    assert told[0] == pytest.approx(abs(b - a @ x).max() / (2.0**-53 * (abs(a).sum(axis=1).max() * abs(x).max() + abs(b).max()) * 4))


# ---- QR


@TYPES
@pytest.mark.parametrize("block", [1, 7, 30])
def test_reflectors_are_lapacks(dtype, block):
    """A column that needs no reflector is among them: the last, and one of zeros."""
    a = DRAW.standard_normal((30, 30))
    a[:, 3] = 0
    kept = a.copy()
    found, tau = qr.factored(who.InNumpy("numpy", dtype), a, block)
    columns, want = np.linalg.qr(a, mode="raw")
    assert found.dtype == tau.dtype == dtype and np.array_equal(a, kept) and tau[-1] == 0
    np.testing.assert_allclose(found, columns.T, atol=2000 * np.finfo(dtype).eps)
    np.testing.assert_allclose(tau, want, atol=2000 * np.finfo(dtype).eps)


def test_the_errors_of_a_factorization_are_of_what_is_stored(monkeypatch):
    """By the whole Q, built from the reflectors one after another."""
    monkeypatch.setattr(qr, "SHOWN", 6)
    n = 13
    a = DRAW.standard_normal((n, n))
    found, tau = qr.factored(who.InNumpy("numpy", np.float64), a, 5)
    found[3, 9] += 1e-3  # of R
    tau[4] *= 1 + 1e-4
    q = np.eye(n)
    for column in range(n):
        v = np.concatenate([np.zeros(column), [1], found[column + 1 :, column]])
        q = q - tau[column] * np.outer(q @ v, v)
    last = slice(n - 6, None)
    told = qr.told(np, {"qr": found, "tau": tau}, {"a": a}, 5)
    norm = np.linalg.norm
    assert told["residual"] == pytest.approx(norm(q @ np.triu(found)[:, last] - a[:, last]) / norm(a[:, last]), rel=1e-6)
    assert told["residual"] > 1e-5 and told["orthogonality"] > 1e-6


# ---- who multiplies FP64


def test_cublas_gets_fp64s_routines_and_factors():
    told = {}

    def routine(name, *places):
        def call(*given):
            told[name] = [ctypes.cast(given[at], ctypes.POINTER(ctypes.c_double))[0] for at in places]
        return call

    vendor = object.__new__(who.Vendor)
    who.Matmul.__init__(vendor, "cublas-dgemm")
    vendor.xp, vendor.dtype, vendor._handle = np, np.float64, lambda: 1
    vendor._cublas = SimpleNamespace(dgemm=routine("gemm", 6, 11), dsyrk=routine("syrk", 5, 8), dtrsm=routine("trsm", 7))
    a, b, c = OnPaper(1000, (40, 64), 100), OnPaper(2000, (64, 40)), OnPaper(3000, (40, 40), 77)
    vendor._into(c, a, b, who.Shape(40, 40, 64, "nn"), -1 / 3, 0.1)
    vendor._syrk(c, a, -1 / 7, 0.3, False)
    vendor._solve(c, OnPaper(1000, (40, 64)), "left", True, False, True)
    assert told == {"gemm": [-1 / 3, 0.1], "syrk": [-1 / 7, 0.3], "trsm": [1.0]}


def kernels(monkeypatch, vendor, ratio):
    """Those of FP64 with a vendor beside, of which predictions say a ratio for a size."""
    asked, ran = [], []
    row = {"type": F64, "gpu": GPUS.get("h200")}
    monkeypatch.setattr(who.road, "plan", lambda spec: asked.append(spec) or SimpleNamespace(hints=who.Shape(0, 0, 0, ""), **row))
    monkeypatch.setattr(who, "replace", lambda one, **change: one._replace(**change) if isinstance(one, who.Shape) else SimpleNamespace(**row, **change))
    def told(plan, reads_c):
        """An element of C that is read is a nanosecond."""
        found = ratio(plan.hints)
        return None if found is None else SimpleNamespace(seconds=1e-6 + reads_c * 1e-9 * plan.hints.m * plan.hints.n, fp32_seconds=1e-6 * found)

    monkeypatch.setattr(who, "verdict", told)
    made = object.__new__(who.Kernels)
    who.Matmul.__init__(made, "as-fp64")
    made.xp, made.dtype, made._spec, made._vendor, made._plans, made._slower = np, np.float64, who.spec_of("as-fp64", "h200", "f64"), vendor, {}, {}
    made._kernel = lambda shape, **problem: SimpleNamespace(into=lambda out, *given: ran.append((shape[:3], problem.get("kind"))))
    return made, asked, ran


def test_as_fp64_multiplies_by_the_vendors_product_where_that_is_predicted_to_be_faster(monkeypatch):
    vendors = []
    vendor = SimpleNamespace(_into=lambda out, a, b, shape, *factors: vendors.append((shape[:3], None)), _syrk=lambda *given: vendors.append("syrk"))
    # Of products that share a kernel some win and some do not; what is not predicted is multiplied by the kernel.
    made, asked, ran = kernels(monkeypatch, vendor, lambda shape: None if shape.n == 3 else shape.m / 20)
    for m, n in ((30, 8), (18, 8), (30, 3), (18, 3), (18, 8)):
        made(np.ones((m, 5)), np.ones((5, n)))
    assert ran == [((30, 8, 5), None), ((30, 3, 5), None), ((18, 3, 5), None)] and vendors == [((18, 8, 5), None)] * 2
    assert len(asked) == 2  # one plan for a kernel, whatever the sizes
    made.syrk(np.ones((18, 5)), out=np.empty((18, 18)))
    made.syrk(np.ones((30, 5)), out=np.empty((30, 30)))
    assert vendors[2:] == ["syrk"] and ran[-1] == ((30, 30, 5), "syrk")
    # 240 elements of C that are read make 1.24 of a kernel's microsecond, and 1.5 of it where they are twice as many.
    made, _, ran = kernels(monkeypatch, vendor, lambda shape: 1.3)
    del vendors[:]
    for m in (30, 60):
        made(np.ones((m, 5)), np.ones((5, 8)), out=np.ones((m, 8)), alpha=-1.0, beta=1.0)
        made.syrk(np.ones((m, 5)), out=np.ones((m, m)), beta=1.0)
        made(np.ones((m, 5)), np.ones((5, 8)))
    assert ran == [((30, 8, 5), None), ((30, 8, 5), None), ((60, 8, 5), None)] and vendors == ["syrk", ((60, 8, 5), None), "syrk"]
    alone, asked, ran = kernels(monkeypatch, None, lambda shape: 0.1)
    alone(np.ones((18, 5)), np.ones((5, 8)))
    assert len(ran) == 1 and not asked


def test_fp64s_triangular_systems_are_the_vendors_where_it_is_faster_or_lapacks(monkeypatch):
    solved, triangle, c = [], np.eye(3), np.ones((3, 2))
    vendor = SimpleNamespace(_solve=lambda *given: solved.append(("vendor", *given[2:])))
    made, asked, _ = kernels(monkeypatch, vendor, lambda shape: 0.5)
    made._kernel = lambda shape, **problem: SimpleNamespace(solve=lambda out, given: solved.append((out is c, given is triangle, problem["kind"])))
    made.solve(triangle, c, unit=True)
    made._slower.clear()
    monkeypatch.setattr(who, "verdict", lambda plan, reads_c: SimpleNamespace(seconds=1.0, fp32_seconds=2.0))
    made.solve(triangle, c, unit=True)
    assert solved == [("vendor", "left", True, False, True), (True, True, "trsm")] and asked[-1].spec.problem.diag == "unit"
    triangle, c = np.tril(DRAW.standard_normal((4, 4))) + 4 * np.eye(4), DRAW.standard_normal((4, 3))
    x = who.Copied("mine", who.spec_of("residues14", "a100", "f64"), "emulator").solve(triangle, c.copy())
    np.testing.assert_allclose(triangle @ x, c, rtol=1e-12)


def test_who_multiplies_fp64_is_found_or_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(who, "gpu_here", lambda: None)
    assert [apps.multiplier(by, type="f64").dtype for by in ("numpy", "as-fp64", "residues12")] == [np.float64] * 3
    assert apps.multiplier("numpy", type="f64").name == "numpy FP64" and apps.multiplier("as-fp64", type="f64")._spec.spec.accuracy.asked == ["as"]
    path = tmp_path / "own.toml"
    path.write_text('[problem]\ntype = "f64"\n[split]\nscheme = "residues12"\n')
    assert apps.multiplier(str(path), type="f64").dtype == np.float64
    with pytest.raises(SpecError, match="elements of another type"):
        apps.multiplier(str(path))
    monkeypatch.setattr(who, "gpu_here", lambda: "h200")
    monkeypatch.setattr(who, "Kernels", lambda name, spec, vendor=None: vendor)
    monkeypatch.setattr(who, "Vendor", lambda dtype: dtype)
    assert [apps.multiplier(by, type="f64") for by in ("vendor", "as-fp64", "residues12")] == [np.float64, np.float64, None]
    assert apps.multiplier("vendor") == np.float32


def test_matrices_of_fp64_are_counted_in_their_own_bytes(monkeypatch):
    """Leading dimensions of a kernel's launches, beside the one for FP32 in tests/unit/test_apps.py."""
    from gemmgen import road

    told = []

    def prepared(symbol, blocks, args):
        told.append(args)
        return SimpleNamespace(point=lambda at, address: None, __call__=None)

    plan = road.plan({"problem": {"type": "f64", "m": 64, "n": 64, "k": 64}, "split": {"scheme": "residues12"}, "target": {"gpu": "a100"},
                      "tile": {"block": [32, 32, 64], "warp": [16, 32, 64], "group": 1}, "pipeline": {"stages": 2}})
    multiplier, _ = on_paper.multiplier(monkeypatch, plan, prepared, [])
    with pytest.raises(TypeError):  # what was prepared is not launched here
        multiplier.into(OnPaper(3000, (40, 24), 77), OnPaper(1000, (40, 64), 100), OnPaper(2000, (64, 24), 31), -1 / 3, 1.0)
    passed = {value for args in told for _, value in args if isinstance(value, int | float)}
    assert {100, 31, 77, -1 / 3} <= passed and not {50, 200, 154, 62} & passed


# ---- the race and the command


def test_what_comes_out_is_judged_beside_fp64_and_notes_are_told():
    asked, judged, a = [], [], np.full((2, 2), 1 / 3, np.float32)

    def judge(out, exact):
        judged.append((out["c"].dtype, exact["c"]))
        return {}

    problem = Problem({"a": a}, lambda matmul, of: {"c": matmul(of["a"], of["a"])}, judge, notes=("a note",))
    app = App("made", "", "", {"n": 1}, {"n": 1}, ("drawn",), {}, lambda *given: asked.append(given) or problem)
    outcome = race.run(app, by=["numpy"], device="emulator", seed=7)
    assert asked == [({"n": 1}, "drawn", 7)]
    assert [kind for kind, _ in judged] == [np.float32] * 2 and all(np.array_equal(exact, a.astype(float) @ a) for _, exact in judged)
    assert outcome.as_dict()["notes"] == ["a note"]


def test_whole_programs_of_the_vendors_are_raced_and_judged(monkeypatch):
    """In turns with the application, by the vendor's matmul; their products are not told apart."""
    ran = []

    def program(name, value):
        def run(matmul, of):
            ran.append((name, matmul.name))
            return {"x": value}
        return run

    problem = Problem({"a": np.eye(2)}, program("own", 1.0), lambda out, exact: {"x": out["x"]}, has_exact=False, others={"whole": program("whole", 2.0)})
    app = App("made", "", "", {"n": 1}, {"n": 1}, ("drawn",), {"x": ""}, lambda *given: problem, types=("f64",))
    monkeypatch.setattr(race, "gpu_here", lambda: "h200")
    monkeypatch.setattr(race, "multiplier", lambda by, **options: who.InNumpy(f"{by} {options['type']}"))
    monkeypatch.setattr(race, "_device", lambda *given: "a GPU")
    monkeypatch.setattr(race, "_of_products", lambda problem, one, inputs: 0.5)
    monkeypatch.setattr(race, "_once", lambda problem, one, inputs: problem.run(one, inputs)["x"])
    outcome = race.run(app, rounds=2)
    assert [(row.by, row.seconds, row.products, row.figures) for row in outcome.rows] == [
        ("vendor f64", 1.0, 0.5, {"x": 1.0}), ("as-fp64 f64", 1.0, 0.5, {"x": 1.0}), ("whole", 2.0, None, {"x": 2.0})]
    assert ran.count(("whole", "vendor f64")) == 1 + race.WARM_UPS + 2 and outcome.as_dict()["type"] == "f64"
    from gemmgen.workshop.verbs.apps import text

    told = text(outcome)
    assert "x FP64" in told and next(line for line in told.splitlines() if line.startswith("whole")).split() == ["whole", "2000", "-", "0.5", "2"]


def test_the_command_takes_a_type(gemmgen):
    for arguments, title in (([], "numpy FP64"), (["--type", "f32"], "numpy FP32")):
        ran = gemmgen("app", "hpl", "--by", "numpy", "--size", "n=40", "--device", "emulator", "--quiet", *arguments)
        assert ran.code == 0 and title in ran.out and "getrf" in ran.out
    ran = gemmgen("app", "kmeans", "--type", "f64", "--by", "numpy", "--quiet", "--device", "emulator")
    assert ran.code == 2 and "no type that kmeans computes in" in ran.err and "--type f32" in ran.err
