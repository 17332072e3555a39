"""Applications over a matmul: what multiplies, what is told, and what is refused."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import numpy_cupy
import on_paper
import pytest
from on_paper import OnPaper

from gemmgen.catalog import output as outputs
from gemmgen.catalog.element import F32
from gemmgen.errors import DeviceError, GemmgenError, SpecError, UnknownName
from gemmgen.workshop import apps
from gemmgen.workshop.apps import bert, cholesky, data, dense, graph, inception, kmeans, knn, llm, lu, mlp, polar, race, tuned
from gemmgen.workshop.apps import matmul as who
from gemmgen.workshop.apps.problem import Problem
from gemmgen.workshop.verbs.apps import text

DRAW = np.random.default_rng(7)
SMALL = {
    "kmeans": {"points": 60, "features": 8, "clusters": 4}, "knn": {"points": 60, "queries": 20, "features": 8}, "mlp": {"batch": 20, "width": 16},
    "lu": {"n": 50, "block": 16}, "hpl": {"n": 50, "block": 16}, "qr": {"n": 50, "block": 16}, "cholesky": {"n": 48, "tiles": 4}, "bert": {}, "llm": {}, "inception": {},
    "graph": {"points": 60, "features": 8}, "polar": {"rows": 12, "columns": 20},
}


def matrices(*shapes):
    return [DRAW.standard_normal(shape).astype(np.float32) for shape in shapes]


# ---- who multiplies


@pytest.mark.parametrize("op", who.OPS)
def test_a_product_goes_into_a_part_of_a_matrix(op):
    a, b = matrices((6, 9) if op[0] == "n" else (9, 6), (9, 5) if op[1] == "n" else (5, 9))
    exact = (a if op[0] == "n" else a.T) @ (b if op[1] == "n" else b.T)
    [whole] = matrices((10, 8))
    before, part = whole.copy(), whole[2:8, 1:6]
    matmul = who.InNumpy("numpy")
    assert matmul(a, b, op=op, out=part, alpha=-1.0, beta=1.0) is part
    np.testing.assert_allclose(part, before[2:8, 1:6] - exact, rtol=1e-5, atol=1e-5)
    before[2:8, 1:6] = part
    assert np.array_equal(whole, before)
    [c] = matrices((6, 5))
    kept = c.copy()
    np.testing.assert_allclose(matmul(a, b, c, op=op), exact + c, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(matmul(a, b, c, op=op, beta=0.5, alpha=2.0), 2 * exact + 0.5 * c, rtol=1e-5, atol=1e-5)
    [out] = matrices((6, 5))
    np.testing.assert_allclose(matmul(a, b, c, op=op, out=out), exact + c, rtol=1e-5, atol=1e-5)
    assert np.array_equal(c, kept) and matmul.calls == {who.Shape(6, 5, 9, op): 4}


@pytest.mark.parametrize("both", [True, False])
def test_a_triangle_of_a_symmetric_product(both):
    """By square tiles as wide as A: of seven rows of three columns three on the diagonal, and three below it."""
    matmul, (a, whole) = who.InNumpy("numpy"), matrices((7, 3), (9, 9))
    before, out = whole.copy(), whole[1:8, 2:9]
    assert matmul.syrk(a, out=out, alpha=-1.0, beta=0.5, both=both) is out
    kept = np.tri(7, dtype=bool)
    want = np.tril(0.5 * before[1:8, 2:9] - a @ a.T)
    np.testing.assert_allclose(np.tril(out), want, rtol=1e-5, atol=1e-5)
    assert (out == out.T).all() == both and sum(matmul.calls.values()) == 6
    assert both or np.array_equal(out[0, 3:], before[1, 5:])  # of tiles above the diagonal
    assert np.array_equal(whole[8], before[8]) and kept.any()
    with pytest.raises(SpecError, match="do not fit"):
        matmul.syrk(a, out=whole)


@pytest.mark.parametrize(("side", "lower", "transposed", "unit"), [(*one,) for one in itertools.product(("left", "right"), *3 * ((True, False),))])
def test_a_triangle_is_solved_for_in_place_and_its_spec_says_the_same(side, lower, transposed, unit):
    """A kernel's triangle is op(T) as the formula reads it, stored as its layout says."""
    [t, c] = matrices((5, 5), (5, 3) if side == "left" else (3, 5))
    t += 4 * np.eye(5, dtype=np.float32)
    kept = (np.tril if lower else np.triu)(t, (-1 if lower else 1) if unit else 0) + (np.eye(5) if unit else 0)
    op = kept.T if transposed else kept
    x = c.copy()
    assert who.InNumpy("numpy").solve(t, x, side=side, lower=lower, transposed=transposed, unit=unit) is x
    np.testing.assert_allclose(op @ x if side == "left" else x @ op, c, rtol=1e-4, atol=1e-5)
    shape, problem = who.of_solve(c.shape, side, lower, transposed, unit)
    from gemmgen.kinds.solves import Trsm

    kind = Trsm(problem["uplo"], problem["side"], problem["diag"])
    as_read = t.T if shape.op[side == "right"] == "t" else t
    assert np.allclose(kind.whole(as_read) if kind.left else kind.whole(as_read.T).T, op) and shape[:3] == (*c.shape, 5) and shape.op in kind.layouts


def test_what_does_not_fit_is_refused():
    matmul, (a, b) = who.InNumpy("numpy"), matrices((4, 3), (3, 5))
    for call, said in (
        (lambda: matmul(a, b, op="xx"), "unknown op"), (lambda: matmul(a, b, op="nt"), "do not fit"),
        (lambda: matmul(a, b.astype(float)), "no matrix of float32"),
        (lambda: matmul(a, b, out=np.zeros((5, 4), np.float32).T), "not contiguous"),
        (lambda: matmul(a[:1], b, out=np.zeros((1, 10), np.float32)[:, ::2]), "not contiguous"), (lambda: matmul(a, b, np.zeros((4, 4), np.float32)), "do not fit"),
        (lambda: matmul.batch([(a, b, np.zeros((4, 4), np.float32))]), "do not fit"),
    ):
        with pytest.raises(SpecError, match=said):
            call()


def test_kernels_are_shared_by_sizes_of_one_power_of_four():
    assert [who.reached(extent) for extent in (0, 1, 2, 4, 5, 16, 17, 4096, 4097, 16384)] == [0, 0, 1, 1, 2, 2, 3, 6, 7, 7]


def test_leading_dimensions_and_copies_of_what_has_none():
    [a] = matrices((6, 8))
    assert [who.leading(x) for x in (a, a[:, 2:5], a[1:2, :3], a[:, :0])] == [8, 8, 3, 8]
    assert who.largest_of([(np.empty((2, 9)), np.empty((9, 3)), None), (np.empty((7, 1)), np.empty((1, 4)), None)]) == (7, 4, 9)
    assert who.rows_together(np, a[:, 2:5]).base is not None
    for x in (a.T, a[::-1], a[:, ::2], np.broadcast_to(a[0], (4, 8))):
        assert who.rows_together(np, x).flags.c_contiguous and np.array_equal(who.rows_together(np, x), x)


def test_who_multiplies_is_found_or_refused(monkeypatch):
    monkeypatch.setattr(who, "gpu_here", lambda: None)
    assert apps.multiplier("numpy").name == "numpy FP32"
    for by in ("ootomo", "auto", "as-fp32", {"split": {"scheme": "half"}}):
        made = apps.multiplier(by)
        assert isinstance(made, who.Copied) and made._spec.spec.target.gpu == "a100"
    assert apps.multiplier("as-fp32", gpu="h200")._spec.spec.accuracy.asked == ["as"]
    with pytest.raises(UnknownName, match="ootomoo"):
        apps.multiplier("ootomoo")
    with pytest.raises(SpecError, match="--device"):
        apps.multiplier("ootomo", device="gpu")
    for by in ("vendor", "library:lab"):
        with pytest.raises(DeviceError, match="needs a CUDA GPU"):
            apps.multiplier(by)
    with pytest.raises(DeviceError):
        apps.multiplier("ootomo", device="cuda")
    monkeypatch.setattr(who, "gpu_here", lambda: "h200")
    monkeypatch.setattr(who, "Kernels", lambda name, spec, *vendor: spec.spec.target.gpu)
    assert [apps.multiplier("ootomo"), apps.multiplier("ootomo", gpu="h100")] == ["h200", "h100"]  # the one that is named goes before the one that is here


def test_levels_go_by_the_place_of_a_call():
    one, other = who.InNumpy("one"), who.InNumpy("other")
    seen = []
    one._into = lambda *given: seen.append("one")
    other._into = lambda *given: seen.append("other")
    levels, (a, b) = who.ByCall("levels", [one, other, other]), matrices((3, 3), (3, 3))
    for _ in range(6):
        levels(a, b)
    assert seen == ["one", "other", "other"] * 2
    own = {"one": ("k1",), "other": ("k2", "k3")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(who.InNumpy, "kernels", property(lambda self: own[self.name]))
        assert levels.kernels == ("k1", "k2", "k3")  # each level's once


# ---- what applications compute


@pytest.mark.parametrize("name", apps.NAMES)
def test_an_application_runs_on_drawn_data_without_scikit_learn(name, monkeypatch):
    for module in ("sklearn", "sklearn.datasets", "torch"):
        monkeypatch.setitem(sys.modules, module, None)
    outcome = apps.run(name, by=["numpy"], sizes=SMALL[name], data="drawn", device="emulator")
    title, others = ("numpy FP64", {"hpl": ["getrf"], "qr": ["geqrf"]}[name]) if name in ("hpl", "qr") else ("numpy FP32", [])
    assert [row.by for row in outcome.rows] == [title] * 2 + others and not outcome.beside
    own = outcome.rows[1]
    assert outcome.app.name == name and own == outcome.rows[0] and all(set(row.figures) == set(outcome.app.figures) for row in outcome.rows)
    for figure, value in itertools.chain(*(row.figures.items() for row in outcome.rows)):
        if figure in ("error", "residual", "orthogonality", "factors' error", "over FP64's", "attention"):
            assert abs(value) < (2e-6 if title == "numpy FP32" else 4e-15), figure
        assert figure != "scaled residual" or 0 < value < 16
    assert outcome.as_dict()["sizes"] | SMALL[name] == outcome.as_dict()["sizes"]


@pytest.mark.parametrize("name", apps.NAMES)
def test_every_size_is_one_of_the_data_but_those_of_the_method(name):
    """A size that is asked for, 1 too, is the application's, and its arrays have other shapes with another size."""
    app = apps.find(name)
    known = app.sized(SMALL[name], small=True)
    assert [app.sized({size: 1}, small=False)[size] for size in app.sizes] == [1] * len(app.sizes)

    def shapes(**sizes):
        return {name: x.shape for name, x in app.make(known | sizes, "drawn", 0).inputs.items()}

    same = {size for size in app.sizes if shapes(**{size: 2 * known[size]}) == shapes()}
    assert same == {"iterations", "neighbours", "steps", "block", "tiles", "head"} & {*app.sizes}


@pytest.mark.parametrize("name", [name for name in apps.NAMES if "digits" in apps.find(name).data])
def test_data_are_those_that_are_named(name):
    app, of = apps.find(name), SMALL[name] | {"features": 24}
    made = {which: app.make(app.sized(of, small=True), which, 0).inputs for which in ("digits", "drawn")}
    x = "x" if name == "mlp" else "points"
    rows = len(made["digits"][x])
    assert rows == app.sized(of, small=True)["batch" if name == "mlp" else "points"]
    assert np.array_equal(made["digits"][x], data.digits(rows + of.get("queries", 0))[0][:rows]) and made["drawn"][x].shape == (rows, 24)


@pytest.mark.parametrize("name", ["bert", "llm", "inception"])
def test_torchs_modules_are_named_where_they_are_asked_for_and_missing(name, monkeypatch):
    app = apps.find(name)
    for found, which, notes in ((None, "torch", 1), (None, "drawn", 0), (object(), "torch", 0)):
        monkeypatch.setattr("importlib.util.find_spec", lambda module: found)
        problem = app.make(app.sized(SMALL[name], small=True), which, 0)
        assert len(problem.notes) == notes and all("torch is not installed" in note for note in problem.notes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert", "llm", "inception"])
def test_torchs_modules_get_the_same(name):
    pytest.importorskip("torch")
    [own], [beside] = (lambda one: (one.rows, one.beside.values()))(apps.run(name, by=[], data="torch", device="emulator"))
    assert set(beside) == set(own.figures) and 0 < beside["error"] < 1e-6 and own.figures["error"] < 1e-6


def test_berts_layer_by_hand():
    """One token of two elements and one of an inner layer, by math.erf; a norm leaves a mean of 0 and a deviation of 1."""
    of = {"w1": np.array([[0.5, -1.0]]), "b1": np.array([[0.25]]), "w2": np.array([[2.0], [-1.0]]), "b2": np.array([[0.125, 0.5]])}
    x = np.array([[3.0, 0.5]])
    inner = 3 * 0.5 - 0.5 + 0.25
    inner *= 0.5 * (1 + math.erf(inner / 2**0.5))
    before = np.array([3 + 2 * inner + 0.125, 0.5 - inner + 0.5])
    y = bert.layer(who.InNumpy("numpy", np.float64), x, of)
    np.testing.assert_allclose(y[0], (before - before.mean()) / before.std(), rtol=1e-12)
    assert bert.figures(np.float32([[1, 2]]), np.array([[1.0, 4.0]])) == {"error": pytest.approx((4 / 17) ** 0.5), "largest": 2.0}


def test_tokens_of_a_language_model_lie_where_the_paper_says():
    x = llm.make({"tokens": 64, "hidden": 32, "kv": 8, "head": 4}, "drawn", 0).inputs["x"]
    assert 0.5 <= x.min() < 0.55 and 2.45 < x.max() <= 2.5 and abs(x.mean() - 1.5) < 0.05


def test_a_perceptrons_step_is_a_tenth_of_64_over_its_widest_layer():
    """A wider layer in the middle, and one at the end."""
    for sizes, widest in (({"width": 40, "outputs": 12}, 40), ({"width": 16, "outputs": 32}, 32)):
        gemms = mlp.make({"batch": 4, "features": 8, "steps": 1, **sizes}, "drawn", 0).program("mlp", "one step").gemms
        assert [one.alpha for one in gemms if one.op == "tn"] == [pytest.approx(-0.1 * 64 / widest)] * mlp.LAYERS


def test_a_recorded_product_keeps_its_factors():
    a = np.eye(2, dtype=np.float32)
    problem = Problem({"a": a}, lambda matmul, of: {"c": matmul(of["a"], of["a"], 2 * of["a"], op="nt", alpha=2.0, beta=0.5)}, dict, output="c")
    [gemm] = problem.program("mine", "one product").gemms
    assert (gemm.op, gemm.alpha, gemm.beta) == ("nt", 2.0, 0.5)


def test_a_cycle_ends_after_as_many_iterations_as_it_may_take():
    a, r = np.diag(np.arange(1.0, 9)), np.ones(8)
    for most in (1, 3):
        step, taken = lu.cycle(np, lambda v: a @ v, r, most)
        assert taken == most
        krylov = np.array([np.linalg.matrix_power(a, power) @ r for power in range(1, most + 1)]).T  # no step of so many gets nearer
        least = np.linalg.lstsq(krylov, r, rcond=None)[0]
        assert np.linalg.norm(r - a @ step) == pytest.approx(np.linalg.norm(r - krylov @ least))
    assert lu.cycle(np, lambda v: 2 * v, r, 9)[1] == 1  # nothing is left after the first


def test_a_gpus_triangle_is_given_as_the_column_major_matrix_that_its_memory_is(monkeypatch):
    given = []

    def solve_triangular(triangle, right, *, lower, unit_diagonal, trans, check_finite):
        given.append(triangle.flags.f_contiguous)
        whole = (np.tril if lower else np.triu)(triangle, (-1 if lower else 1) if unit_diagonal else 0) + (np.eye(4) if unit_diagonal else 0)
        return np.linalg.solve(whole.T if trans else whole, right)

    monkeypatch.setattr(dense, "solver", lambda xp, where: SimpleNamespace(solve_triangular=solve_triangular))
    t, b = (DRAW.standard_normal(shape) for shape in ((4, 4), (4, 3)))
    t += 4 * np.eye(4)
    for lower, unit, transposed in itertools.product(*3 * ((True, False),)):
        by_numpy, by_gpu = (dense.triangular_solved(xp, t, b, lower=lower, unit=unit, transposed=transposed) for xp in (np, object()))
        np.testing.assert_allclose(by_gpu, by_numpy, rtol=1e-12)
        kept = (np.tril if lower else np.triu)(t, (-1 if lower else 1) if unit else 0) + (np.eye(4) if unit else 0)
        np.testing.assert_allclose((kept.T if transposed else kept) @ by_numpy, b, atol=1e-12)
    assert given == [False, True] * 8


@pytest.mark.parametrize(("images", "less"), [(3, 1), (2, 8), (1, 1 << 20)])
def test_the_layers_of_inception_are_the_papers_divided(images, less):
    inputs = inception.make({"images": images, "less": less, "first": 2, "last": 3}, "drawn", 0).inputs
    for number in (2, 3):
        pixels, filters, channels = inception.INCEPTION[number - 1]
        assert inputs[f"pixels{number}"].shape == (max(1, images * pixels // less), max(1, channels // less))
        assert [inputs.pop(f"weights{number}.{at}").shape for at in range(len(filters))] == [(max(1, channels // less), max(1, one // less)) for one in filters]
    assert list(inputs) == ["pixels2", "pixels3"]


def test_the_figures_of_inception_by_hand():
    """Two modules: the largest difference of all, and pixels whose strongest filter is another."""
    exact = {"one": np.array([[1.0, 2.0], [3.0, 0.0]]), "two": np.array([[5.0, 4.0, 0.0]])}
    found = {"one": np.array([[2.0, 1.5], [3.0, 0.25]], np.float32), "two": np.array([[5.0, 4.0, 0.0]], np.float32)}
    told = inception.figures(found, exact)
    assert told["largest"] == 1.0 and told["error"] == pytest.approx(((1 + 0.25 + 0.0625) / 55) ** 0.5) and told["other filter"] == "1 of 3"


def test_the_figures_of_neighbours_and_clusters_by_hand():
    """Two of six queries have other neighbours, and one of them another class; a point moves to a cluster of which it is farther."""
    x, classes = data.digits(206)
    app = apps.find("knn")
    problem = app.make({"points": 200, "queries": 6, "features": 64, "neighbours": 1}, "digits", 0)
    right = np.array([[np.flatnonzero(classes[:200] == one)[0]] for one in classes[200:]])
    other, wrong = right.copy(), right.copy()
    other[0] = np.flatnonzero(classes[:200] == classes[200])[1]
    wrong[:2, 0] = other[0, 0], np.flatnonzero(classes[:200] != classes[201])[0]
    assert problem.judge({"neighbours": other}, {"neighbours": right}) == {"wrong neighbours": "1 of 6", "wrong classes": "0 of 6"}
    assert problem.judge({"neighbours": wrong}, {"neighbours": right}) == {"wrong neighbours": "2 of 6", "wrong classes": "1 of 6"}
    assert graph.make({"points": 6, "features": 4, "neighbours": 1}, "drawn", 0).judge({"neighbours": wrong}, {"neighbours": right}) == {"wrong neighbours": "2 of 6"}
    clusters = kmeans.make({"points": 6, "features": 4, "clusters": 2, "iterations": 1}, "drawn", 0)
    points, near = clusters.inputs["points"].astype(np.float64), np.array([0, 0, 0, 1, 1, 1])
    centres, moved = np.array([points[0], points[5]]), np.array([0, 0, 0, 1, 1, 0])
    least, own = (sum(np.linalg.norm(point - centres[label]) ** 2 for point, label in zip(points, labels)) for labels in (near, moved))
    assert clusters.judge({"centres": centres, "labels": moved}, {"centres": centres, "labels": near}) == {
        "inertia": pytest.approx(own), "over FP64's": pytest.approx(own / least - 1), "other cluster": "1 of 6"}


def test_the_figures_of_a_perceptron_by_hand():
    """Of two rows the right classes have 3/4 and all, and in FP64 3/4 and 1/2; of four rows one has its logit in another place."""
    logits, exact = np.float32([[0, math.log(3)], [0, 1000]]), np.array([[0, math.log(3)], [0, 0]])
    assert mlp.cross_entropy(logits, np.array([1, 1])) == pytest.approx(-math.log(0.75) / 2)
    assert mlp.cross_entropy(exact, np.array([1, 1])) == pytest.approx((-math.log(0.75) + math.log(2)) / 2)
    problem = mlp.make({"batch": 4, "features": 8, "width": 16, "outputs": 12, "steps": 1}, "drawn", 0)
    classes = problem.inputs["target"].argmax(axis=1)
    best = np.eye(12)[classes]
    other = best.astype(np.float32)
    other[2] = np.roll(other[2], 1)
    told = problem.judge({"logits": other}, {"logits": best})
    assert told["wrong classes"] == "1 of 4" and told["error"] == pytest.approx((2 / 4) ** 0.5)
    assert told["over FP64's"] == pytest.approx(1 / 4) and told["loss"] == pytest.approx(math.log(math.e + 11) - 3 / 4)


def test_a_perceptron_steps_against_its_gradient():
    """Of each layer's weights and biases one, by the difference of the loss."""
    problem = mlp.make({"batch": 5, "features": 6, "width": 7, "outputs": 12, "steps": 1}, "drawn", 0)
    of = {name: x.astype(np.float64) for name, x in problem.inputs.items()}
    matmul, classes = who.InNumpy("numpy", np.float64), of["target"].argmax(axis=1)

    def loss(changed):
        return mlp.cross_entropy(mlp.forward(matmul, of["x"], *([(of | changed)[f"{name}{at}"] for at in range(mlp.LAYERS)] for name in "wb"))[-1], classes)

    weights, biases = ([of[f"{name}{at}"].copy() for at in range(mlp.LAYERS)] for name in "wb")
    mlp.step(matmul, mlp.forward(matmul, of["x"], weights, biases), of["target"], weights, biases, 0.5)
    for name, made in (("w", weights), ("b", biases)):
        for at, new in enumerate(made):
            old, place = of[f"{name}{at}"], np.unravel_index(abs(new - of[f"{name}{at}"]).argmax(), new.shape)
            bit = np.zeros_like(old)
            bit[place] = 1e-5
            slope = (loss({f"{name}{at}": old + bit}) - loss({f"{name}{at}": old - bit})) / 2e-5
            assert new[place] - old[place] == pytest.approx(-0.5 * slope, rel=1e-5) and abs(slope) > 1e-3


def test_the_error_of_factors_is_that_of_the_last_rows_and_columns(monkeypatch):
    """L [[1, 0], [0.5, 1]] and U [[2, 1], [0, 3]] are [[2, 1], [1, 3.5]]."""
    packed, a = np.array([[2, 1], [0.5, 3]]), np.array([[2, 5], [1, 4.0]])
    assert lu.factors_error(np, packed, a) == pytest.approx(((16 + 0.25) / (4 + 25 + 1 + 16)) ** 0.5)
    monkeypatch.setattr(lu, "SHOWN", 1)
    assert lu.factors_error(np, packed, a) == pytest.approx(0.5 / 4)


def test_the_figures_of_projections_by_hand():
    """MRED is the mean of q's, k's and v's; attention is of the first head's one dimension."""
    exact = {"q": np.array([[1.0, 4], [2, 4]]), "k": np.array([[1.0, 4], [-1, 4]]), "v": np.array([[2.0, 4], [2, 4]])}
    out = {name: x.astype(np.float32) for name, x in exact.items()}
    out["q"] = np.float32([[1.5, 5], [2, 4]])
    told = llm.figures(out, exact, 1)
    squares = sum(float((x**2).sum()) for x in exact.values())
    assert told["error"] == pytest.approx((1.25 / squares) ** 0.5) and told["MRED"] == pytest.approx((0.5 + 0.25) / 4 / 3)
    assert told["attention"] == pytest.approx(1 / (1 + math.exp(-3)) - 1 / (1 + math.exp(-2)))


def test_attention_by_hand():
    """Of two tokens and the first head's two dimensions: exp(q k / sqrt(2)), each row adding up to 1."""
    q, k = np.array([[1, 2, 9], [0, 3, 9]], np.float32), np.array([[2, 0, -9], [1, 1, 9]], np.float32)
    powers = np.exp(np.array([[2, 3], [0, 3]]) / 2**0.5)
    np.testing.assert_allclose(llm.attention(q, k, 2), powers / powers.sum(axis=1, keepdims=True), rtol=1e-14)


def test_clusters_without_points_stay_and_the_first_of_equals_is_nearest():
    points = np.array([[0.0, 0], [0, 2], [10, 0]], np.float32)
    first = np.array([[0.0, 1], [0, 1], [9, 0], [50, 50]], np.float32)
    centres, labels = kmeans.lloyd(who.InNumpy("numpy"), points, first, 1)
    assert labels.tolist() == [0, 0, 2] and centres.tolist() == [[0, 1], [0, 1], [10, 0], [50, 50]]
    assert kmeans.inertia(points, centres, labels) == 2.0
    many, far = np.zeros((4100, 1), np.float32), np.array([[0.0], [3.0]], np.float32)
    assert kmeans.inertia(many, far, np.arange(4100) // 4096) == 4 * 9.0  # points of the second part have labels of their own


def test_a_residual_is_relative_and_of_all_rows():
    lower = np.eye(2060)
    a = np.eye(2060)
    a[2055, 2055] = 3
    assert cholesky.residual(np, lower, a) == pytest.approx((4 / (2059 + 9)) ** 0.5)


def test_a_solution_is_refined_until_its_residual_is_a_tenth_of_what_is_valid(monkeypatch):
    told = iter([15.0, 1.7, 1.5])
    monkeypatch.setattr(lu, "scaled_residual", lambda *of: next(told))
    a = np.random.default_rng(1).random((8, 8)) + 8 * np.eye(8)
    rough = lu.factored(who.InNumpy("numpy"), a, 4) * np.float32(1.001)
    x, iterations, residual = lu.solved(np, a, a @ np.arange(8.0), rough)
    assert residual == 1.5 and iterations >= 2 and x.tolist() == pytest.approx(np.arange(8.0), abs=1e-8)


def test_probabilities_of_large_logits_are_numbers():
    found = mlp.probabilities(np, np.float32([[1000, 0], [-1000, -1000]]))
    assert found.tolist() == [[1.0, 0.0], [0.5, 0.5]]


def test_hpls_residual_by_hand():
    rows = np.array([[1.0, -2], [-3, 0.5]])
    for before in (0, 2047, 2048, 2050):
        assert [lu.largest_row(np.concatenate([np.ones((before, 2)), each])) for each in (rows, rows[::-1])] == [3.5, 3.5]
    assert lu.scaled_residual(np.array([1e-16, -4e-16]), np.array([2.0, -5]), np.array([1.0, 3]), 3.5) == pytest.approx(4e-16 / (2.0**-53 * (3.5 * 5 + 3) * 2))


def test_the_smallest_of_classes_with_as_many_votes_wins_and_features_without_spread_are_zero():
    assert knn.voted(np.array([1, 0, 2]), np.array([[0, 1, 2], [2, 0, 0]])).tolist() == [0, 1]
    made = data.standardised(np.array([[1.0, 5, 0], [1, 5.5, 4]]))
    assert made.tolist() == [[0, -1, -1], [0, 1, 1]] and made.dtype == np.float32


def test_cublas_sgemm_gets_the_transposes_of_row_major_matrices(monkeypatch):
    told = {}
    vendor = object.__new__(who.Vendor)
    who.Matmul.__init__(vendor, "cublas-sgemm")
    names = ("handle", "op_a", "op_b", "m", "n", "k", "alpha", "a", "lda", "b", "ldb", "beta", "c", "ldc")

    def sgemm(*given):
        told.update(zip(names, given))
        told.update({name: ctypes.cast(told[name], ctypes.POINTER(ctypes.c_float))[0] for name in ("alpha", "beta")})  # of the host, while the call lasts

    vendor._cublas = SimpleNamespace(setStream=lambda *given: told.update(stream=given), setMathMode=lambda *given: told.update(mode=given),
                                     setPointerMode=lambda *given: told.update(pointers=given), sgemm=sgemm)
    vendor.xp = SimpleNamespace(cuda=SimpleNamespace(device=SimpleNamespace(get_cublas_handle=lambda: 1), get_current_stream=lambda: SimpleNamespace(ptr=9)))
    a, b, out = OnPaper(1000, (40, 64), 100), OnPaper(2000, (24, 64), 70), OnPaper(3000, (40, 24), 77)
    vendor._into(out, a, b, who.Shape(40, 24, 64, "nt"), -0.5, 2.0)
    assert {name: told[name] for name in ("op_a", "op_b", "m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")} == {
        "op_a": 1, "op_b": 0, "m": 24, "n": 40, "k": 64, "a": 2000, "lda": 70, "b": 1000, "ldb": 100, "c": 3000, "ldc": 77}
    assert told["mode"] == (1, 0)  # no TF32
    assert (told["stream"], told["pointers"], told["alpha"], told["beta"]) == ((1, 9), (1, 0), -0.5, 2.0)


def test_cublas_gets_the_other_side_and_the_other_triangle(monkeypatch):
    told = {}
    vendor = object.__new__(who.Vendor)
    who.Matmul.__init__(vendor, "cublas-sgemm")
    vendor.xp = np
    vendor._handle = lambda: 1
    vendor._cublas = SimpleNamespace(strsm=lambda *given: told.update(strsm=given), ssyrk=lambda *given: told.update(ssyrk=given))
    vendor._solve(OnPaper(1000, (40, 40), 100), OnPaper(3000, (40, 24), 77), "left", True, False, True)
    assert told["strsm"][:7] == (1, 1, 1, 0, 1, 24, 40) and told["strsm"][8:] == (1000, 100, 3000, 77)
    vendor._solve(OnPaper(1000, (24, 24), 100), OnPaper(3000, (40, 24), 77), "right", False, True, False)
    assert told["strsm"][:7] == (1, 0, 0, 1, 0, 24, 40)
    vendor._syrk(OnPaper(3000, (40, 40), 77), OnPaper(1000, (40, 24), 100), -1.0, 1.0, False)
    given = told["ssyrk"]
    assert given[:5] == (1, 1, 1, 40, 24) and (given[6], given[7], given[9], given[10]) == (1000, 100, 3000, 77)
    assert vendor.calls == {who.Shape(40, 40, 24, "nt"): 1}


def test_a_kernel_of_another_device_gets_copies_and_is_built_once_for_a_kind(monkeypatch):
    """Operands row major whatever the op, C only where it is read, and a batch by a kernel of its own; all devices are released."""
    asked, layouts, released = [], [], []

    def build(spec):
        asked.append((spec.spec.problem.kind, spec.spec.problem.m, spec.spec.problem.matrices))
        layouts.append(spec.spec.problem.layout)
        none = SimpleNamespace(output=outputs.F32, epilogue=())
        return SimpleNamespace(plan=none, source=spec.spec.problem.kind)

    def gemm(device, plan, source, a, b, c, *, alpha=1.0, beta=0.0):
        assert all(x is None or x.flags.c_contiguous for x in (a, b, c))
        if source == "trsm":
            return SimpleNamespace(c=np.linalg.solve(np.tril(a), c))
        assert (c is None) == (beta == 0) and source == ("syrk" if b is None else "gemm")
        return SimpleNamespace(c=alpha * (a @ (a.T if b is None else b)) + (0 if c is None else beta * c))

    def batch(device, plan, source, products):
        assert source == "grouped"
        return SimpleNamespace(products=[one.a @ one.b for one in products])

    monkeypatch.setattr(who.road, "build", build)
    monkeypatch.setattr(who.road, "open_device", lambda built, kind: SimpleNamespace(
        name=f"{kind} {built.source}", kind=kind, release=lambda: released.append(built.source)))
    monkeypatch.setattr(who.road, "check_affordable", lambda size, kind: asked.append((size, kind)))
    monkeypatch.setattr(who, "gemm", gemm)
    monkeypatch.setattr("gemmgen.run.batch.batch", batch)
    copied = who.Copied("mine", who.spec_of("ootomo", "a100"), "emulator")
    a, b, c = matrices((3, 5), (5, 2), (3, 2))
    for op in who.OPS:
        out = c.copy()
        copied(a if op[0] == "n" else a.T, b if op[1] == "n" else b.T, op=op, alpha=-0.5, beta=2.0, out=out)
        assert np.allclose(out, -0.5 * (a @ b) + 2 * c)
    assert np.allclose(copied(a, b), a @ b) and copied.device_name == "emulator gemm"
    copied.batch([(a, b, out := np.empty((3, 2), np.float32)), (b.T, a.T, np.empty((2, 3), np.float32))])
    assert np.allclose(out, a @ b) and len(copied.kernels) == 2
    assert asked[0][:2] == ("gemm", 3)
    assert asked[-1] == ("grouped", 3, 2) and [one for one in asked if one[0] == (3, 2, 5)] == [((3, 2, 5), "emulator")] * 5
    square = np.empty((3, 3), np.float32)
    assert np.allclose(copied.syrk(a, out=square, alpha=-0.5, both=True), -0.5 * a @ a.T)
    triangle = a[:, :3] + 4 * np.eye(3, dtype=np.float32)
    assert np.allclose(np.tril(triangle) @ copied.solve(triangle, c.copy(), side="left"), c, atol=1e-5)
    assert layouts == ["nn", "nn", "nt", who.of_solve((3, 2), "left", True, False, False)[0].op]
    before = len(copied.kernels)
    assert np.allclose(copied.syrk(a, out=square, alpha=1.0, both=False), a @ a.T) and len(copied.kernels) == before + 1, "a triangle is another kernel"
    copied.batch([(a, b, np.empty((3, 2), np.float32))])
    assert len(copied.kernels) == before + 1, "a batch of one product is by the kernel for batches that is there"
    copied.release()
    assert sorted(released) == ["gemm", "grouped", "syrk", "syrk", "trsm"]


def test_the_command_tells_milliseconds_and_the_largest_products_first():
    app = apps.find("kmeans")
    rows = tuple(race.Row(by, seconds, products, {"inertia": 1.0}) for by, seconds, products in (("cublas-sgemm", 8e-3, 5e-3), ("ours", 2e-3, 1e-3)))
    calls = {who.Shape(at, 1, 1, "nn"): 1 for at in (1, 5, 3, 2, 4)}
    told = text(race.Outcome(app, "a GPU", {}, "drawn", rows, {}, calls))
    assert "1 of 5x1x1 nn, 1 of 4x1x1 nn, 1 of 3x1x1 nn, 1 of 2x1x1 nn and 1 other sizes" in told
    assert next(line for line in told.splitlines() if line.startswith("ours")).split() == ["ours", "2", "1", "4", "1"]


def test_neighbours_come_nearest_first_and_vote():
    points = np.array([[0.0], [3], [1], [-1], [7]], np.float32)
    found = knn.neighbours(who.InNumpy("numpy"), np.array([[0.0], [6]], np.float32), points, 3)
    assert found.tolist() == [[0, 2, 3], [4, 1, 2]]
    assert knn.voted(np.array([0, 1, 2, 2, 1]), found).tolist() == [2, 1]


def test_factors_are_scipys_without_pivots_and_refinement_is_needed():
    linalg = pytest.importorskip("scipy.linalg")
    n = 90
    a = DRAW.random((n, n)).astype(np.float32) + n * np.eye(n, dtype=np.float32)  # dominant: pivots would change nothing
    packed, pivots = linalg.lu_factor(a)
    assert pivots.tolist() == list(range(n))
    own = lu.factored(who.InNumpy("numpy"), a, 32)
    assert np.linalg.norm(own - packed) < 1e-6 * np.linalg.norm(packed)
    b = DRAW.random(n)
    double = a.astype(np.float64)
    x, iterations, residual = lu.solved(np, double, b, own)
    assert 1 <= iterations <= 3 and residual < 1.6 and np.allclose(x, np.linalg.solve(double, b), rtol=1e-13)
    worse = own + np.float32(1e-3) * abs(own)  # as of a scheme of few bits: more turns, the same answer
    x, more, residual = lu.solved(np, double, b, worse)
    assert iterations < more < lu.MOST_ITERATIONS and residual < 1.6
    x, _, residual = lu.solved(np, double, b, np.full_like(own, np.nan))
    assert np.isnan(residual)


@pytest.mark.parametrize(("kind", "letter"), [(np.float32, "s"), (np.float64, "d")])
def test_a_gpus_tile_is_factored_without_pivots_on_the_stream_of_the_program(monkeypatch, kind, letter):
    """By getrf of the column-major matrix, in the tile's type; a part of a matrix takes the factors, and nothing beside it changes."""
    asked, made = [], {}

    class CUSOLVERError(RuntimeError):
        pass

    def kept(x):
        made[x.ctypes.data] = x
        x = x.view(numpy_cupy.Array)
        return x

    def getrf(handle, m, n, a, lda, work, pivots, info):
        asked.append((handle, m, n, lda, pivots, made[work].size, made[info].dtype))
        if refused:
            raise CUSOLVERError("status 6")
        columns = made[a]  # [column, row]
        rows = np.ascontiguousarray(columns.T)
        dense.unpivoted_lu(np, rows)
        columns[...] = rows.T

    def never(*of):
        raise AssertionError("the other type's")

    other = "d" if letter == "s" else "s"
    cusolver = SimpleNamespace(setStream=lambda handle, stream: asked.append((handle, stream)), CUSOLVERError=CUSOLVERError, **{
        f"{letter}getrf": getrf, f"{letter}getrf_bufferSize": lambda handle, m, n, a, lda: 5 * m, f"{other}getrf": never, f"{other}getrf_bufferSize": never})
    device = SimpleNamespace(get_cusolver_handle=lambda: 77)
    cuda = SimpleNamespace(cusolver=cusolver, device=device)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    xp = SimpleNamespace(ascontiguousarray=lambda x: kept(np.array(x, order="C")), empty=lambda count, kind: kept(np.empty(count, kind)),
                         cuda=SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=9)))
    whole = DRAW.standard_normal((6, 7)).astype(kind)
    whole[1:5, 2:6] += 6 * np.eye(4, dtype=kind)
    before, refused = whole.copy(), False
    want = before[1:5, 2:6].copy()
    dense.unpivoted_lu(np, want)
    dense.unpivoted_lu(xp, whole[1:5, 2:6])
    assert asked == [(77, 9), (77, 4, 4, 4, 0, 20, np.int32)] and np.allclose(np.tril(want, -1) @ np.triu(want) + np.triu(want), before[1:5, 2:6], atol=1e-5)
    np.testing.assert_array_equal(whole[1:5, 2:6], want)
    whole[1:5, 2:6] = before[1:5, 2:6]
    assert np.array_equal(whole, before)
    refused = True
    with pytest.raises(DeviceError, match="refuses a tile"):
        dense.unpivoted_lu(xp, whole[1:5, 2:6])


def test_a_tile_that_is_not_positive_definite_is_told():
    with pytest.raises(GemmgenError, match="positive definite"):
        dense.cholesky(np, -np.eye(3, dtype=np.float32))


# ---- the race and the command


class Marks:
    """The little of cupy that a race asks for, over NumPy; a run's seconds are what a clock of ours says."""

    def __init__(self):
        ticks, waited = iter(range(10000)), []

        class Event:
            def record(self):
                self.at = next(ticks)
                waited.clear()

        def elapsed(one, other):
            assert waited, "CUDA has no time of an event that is not over"
            return 2.0 * (other.at - one.at)

        self.cuda = SimpleNamespace(Device=lambda: self, Event=Event, get_elapsed_time=elapsed)
        self.synchronize = lambda: waited.append(True)

    def __getattr__(self, name):
        return getattr(np, name)


def test_on_a_gpu_runs_are_timed_in_turns_and_products_beside(monkeypatch, gemmgen):
    xp, order, released, told, clock = Marks(), [], [], [], iter(range(1000))

    class Fake(who.InNumpy):
        def __init__(self, by, **options):
            super().__init__({"vendor": "cublas-sgemm"}.get(by, by), xp=xp)

        def _into(self, *given):
            order.append(self.name)
            super()._into(*given)

        def _batch(self, products):
            """All at once, as kernels do it."""

        def _solve(self, *given):
            """Likewise."""

        def release(self):
            released.append(self.name)

    monkeypatch.setattr(race, "gpu_here", lambda: "h200")
    monkeypatch.setattr(race, "multiplier", Fake)
    monkeypatch.setattr(race, "_device", lambda *given: "a GPU of paper")
    monkeypatch.setattr(race.time, "perf_counter", lambda: next(clock) * (1.0 if order[-1:] == ["cublas-sgemm"] else 0.5))
    small = {"tokens": 8, "hidden": 16, "kv": 8, "head": 4}
    outcome = apps.run("llm", by=["ootomo"], sizes=small, rounds=3, progress=told.append)
    assert told == ["data", "FP64", "cublas-sgemm (1 of 2)", "ootomo (2 of 2)", "race"]
    assert [row.by for row in outcome.rows] == ["cublas-sgemm", "ootomo"] and outcome.data == "drawn"
    assert released == ["cublas-sgemm", "ootomo"] and sum(outcome.calls.values()) == 3  # those of one run
    batch = SimpleNamespace(run=lambda matmul, inputs: matmul.batch([]))
    assert race._of_products(batch, Fake("ootomo"), {}) == pytest.approx(2e-3)
    assert all(row.seconds is not None and row.products == pytest.approx(3 * 2e-3) for row in outcome.rows)
    assert order.count("ootomo") == order.count("cublas-sgemm") == 3 * (2 + race.WARM_UPS + 3)
    turns = order[2 * 2 * 3 :: 3]  # of a race, in which each round has everybody once
    assert all(set(turns[at : at + 2]) == {"ootomo", "cublas-sgemm"} for at in range(0, len(turns), 2)) and len(set(zip(turns[::2], turns[1::2]))) == 2
    a, out = matrices((6, 3), (6, 6))
    triangle = SimpleNamespace(run=lambda matmul, inputs: matmul.solve(np.eye(6, dtype=np.float32), out))
    assert race._of_products(triangle, Fake("triangle"), {}) == pytest.approx(2e-3)
    of_tiles = SimpleNamespace(run=lambda matmul, inputs: matmul.syrk(a, out=out))  # whose tiles are products: it is timed, and not they besides
    assert race._of_products(of_tiles, Fake("tiles"), {}) == pytest.approx(2e-3) and order.count("tiles") > 1
    ran = gemmgen("app", "llm", "--quiet", *(part for name, value in small.items() for part in ("--size", f"{name}={value}")))
    assert ran.code == 0 and "x FP32" in ran.out and "a GPU of paper" in ran.out


def test_levels_are_chosen_for_the_gpu_that_is_named_or_here_and_multiply_in_turn(monkeypatch):
    asked = []

    def tune(program, threshold, *, gpu, device, exhaustive, progress):
        asked.append((program.name, program.title, len(program.gemms), threshold, gpu, device, exhaustive))
        return SimpleNamespace(choice=threshold > 1e-9 and (0,) or None, levels_of=lambda choice: dict.fromkeys("abc", "half") | {"d": "ootomo"},
                               error=lambda highest: 3e-8, found=SimpleNamespace(walk=SimpleNamespace(highest=(1,))))

    monkeypatch.setattr(tuned.tune, "tune", tune)
    made = []
    monkeypatch.setattr(race, "multiplier", lambda by, **options: made.append((by, options.get("gpu"))) or who.InNumpy(by))
    size, title = {"n": 12, "tiles": 3}, cholesky.APP.title
    for here, named, gpu in ((None, None, "a100"), (None, "h100", "h100"), ("h200", None, "h200"), ("h200", "h100", "h100")):
        monkeypatch.setattr(race, "gpu_here", lambda: here)
        outcome = apps.run("cholesky", by=[], sizes=size, data="drawn", device="emulator", gpu=named, threshold=1e-5)
        assert asked.pop() == ("cholesky", title, 4, 1e-5, gpu, "emulator", False)
        assert made == [("half", named), ("ootomo", named), ("numpy", None)] and not made.clear()
        assert outcome.levels == {"a": "half", "b": "half", "c": "half", "d": "ootomo"} and outcome.rows[-1].by == "levels for 1e-05"
    problem = cholesky.make(size, "drawn", 0)
    tuned.chosen_levels(cholesky.APP, problem, 1e-5, gpu="h200", on_gpu=True)
    assert asked.pop()[-2:] == ("cuda", False)
    with pytest.raises(SpecError, match="met by no level") as refusal:
        tuned.chosen_levels(cholesky.APP, problem, 1e-12, gpu=None, on_gpu=False)
    assert refusal.value.got == 1e-12 and refusal.value.has == "3e-08 of the most accurate" and "--threshold" in refusal.value.remedy


def test_a_runs_time_is_the_median_after_the_warm_up_from_idle_to_idle(monkeypatch):
    taken = {"a": iter([100, 100, 1, 5, 3]), "b": iter([0, 0, 2, 9, 4])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "_once", lambda problem, one, inputs: next(taken[one]))
        assert race._timed([(None, "a"), (None, "b")], {}, 3) == [3, 4]
    told = []
    monkeypatch.setattr(race.time, "perf_counter", lambda: told.append("clock") or 2.0 * len(told))
    gpu = SimpleNamespace(xp=SimpleNamespace(cuda=SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=lambda: told.append("wait")))))
    assert race._once(SimpleNamespace(run=lambda one, inputs: told.append("run")), gpu, {}) == 6.0
    assert told == ["wait", "clock", "run", "wait", "clock"]


def test_the_command_lists_runs_and_refuses(gemmgen, monkeypatch):
    assert all(name in gemmgen("app").out for name in apps.NAMES)
    ran = gemmgen("app", "lu", "--by", "numpy", "--size", "n=40", "--data", "drawn", "--device", "emulator", "--quiet")
    assert ran.code == 0 and "not timed" in ran.out and "scaled residual" in ran.out
    for arguments, said in (
        (["kmean"], "unknown application"), (["kmeans", "--size", "rows=3"], "no size of kmeans\n  got    'rows'"), (["kmeans", "--size", "points=0"], "out of range"),
        (["kmeans", "--data", "iris"], "unknown to kmeans"), (["kmeans", "--rounds", "0"], "--rounds"), (["kmeans", "--rounds", "1", "--data", "iris"], "unknown to kmeans"),
        (["cholesky", "--size", "tiles=5"], "tiles that divide n"),
        (["llm", "--by", "numpy", "--threshold", "1e-5"], "cannot be asked of llm"),
    ):
        ran = gemmgen("app", *arguments, "--device", "emulator", "--quiet")
        assert ran.code == 2 and said in ran.err, arguments


def test_what_is_not_said_of_an_application_is_left_to_it_and_a_race_has_seven_rounds(gemmgen, monkeypatch):
    from gemmgen.workshop.verbs import apps as verb

    asked = []
    monkeypatch.setattr(race, "run", lambda app, *, progress, **how: asked.append((app.name, how)))
    monkeypatch.setattr(verb, "text", lambda outcome: "told")
    assert gemmgen("app", "lu").out == "told\n"
    own = ("--by", " half, ,numpy", "--size", "n=40", "--type", "f32", "--data", "drawn", "--device", "hip", "--gpu", "h200",
           "--threshold", "1e-3", "--rounds", "3", "--seed", "5")
    assert gemmgen("app", "kmeans", *own).out == "told\n"
    usual = {"by": None, "sizes": {}, "data": None, "device": "auto", "gpu": None, "rounds": 7, "seed": 0, "threshold": None, "type": None}
    assert asked == [("lu", usual), ("kmeans", {
        "by": ["half", "numpy"], "sizes": {"n": 40}, "data": "drawn", "device": "hip", "gpu": "h200", "rounds": 3, "seed": 5, "threshold": 1e-3,
        "type": "f32"})]


def test_without_scikit_learn_it_is_said_what_to_do(gemmgen, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    ran = gemmgen("app", "kmeans", "--device", "emulator", "--quiet")
    assert ran.code == 2 and "scikit-learn is not installed" in ran.err and "gemmgen[apps]" in ran.err and "--data drawn" in ran.err


def test_scikit_learns_estimators_get_the_same_from_its_own_data():
    pytest.importorskip("sklearn")
    x, classes = data.digits(2000)
    assert x.shape == (2000, 64) and x.dtype == np.float32 and np.array_equal(x[1797:], x[:203]) and set(classes) == set(range(10))
    assert abs(x[:1797].mean(axis=0)).max() < 1e-5
    for name, sizes in (("kmeans", {"points": 400, "iterations": 4}), ("knn", {}), ("mlp", {"steps": 4})):
        outcome = apps.run(name, by=[], sizes=sizes, device="emulator")
        [own], [beside] = outcome.rows, outcome.beside.values()
        assert outcome.data == "digits" and beside
        for figure, value in beside.items():
            assert own.figures[figure] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value), (name, figure)


def test_scipys_factors_get_the_same(monkeypatch):
    pytest.importorskip("scipy")
    monkeypatch.setattr(cholesky, "SHOWN", 16)  # fewer rows than there are, as at usual sizes
    [own], [beside] = (lambda one: (one.rows, one.beside.values()))(apps.run("cholesky", by=[], device="emulator"))
    assert beside["residual"] < 3e-7 and beside["error"] < 3e-7 and own.figures["residual"] < 3e-7
    [own], [beside] = (lambda one: (one.rows, one.beside.values()))(apps.run("lu", by=[], device="emulator"))
    assert own.figures["scaled residual"] < lu.VALID < beside["scaled residual"]


def test_drawn_points_lie_around_their_centres():
    points, owner = data.blobs(5000, 6, 3, 1)
    assert points.shape == (5000, 6) and set(owner) == {0, 1, 2} and abs(points.std() - 17**0.5) < 0.3


def test_a_kernels_launches_get_addresses_and_leading_dimensions_and_are_prepared_once(monkeypatch):
    from gemmgen import road
    from gemmgen.timing import products

    prepared, launched, spaces = [], [], []

    class Launch:
        def __init__(self, args):
            self.args = args

        def point(self, at, address):
            assert self.args[at] == 0 or self.args[at] % 1000 == 0
            self.args[at] = address

        def __call__(self):
            launched.append(list(self.args))

    def launch(symbol, blocks, args):
        prepared.append(Launch([value for _, value in args]))
        return prepared[-1]

    def passed(since):
        return {value for args in launched[since:] for value in args if isinstance(value, int | float)}

    tile = {"block": [32, 32, 32], "warp": [16, 16, 32]}
    plan = road.plan({"problem": {"layout": "nt"}, "split": {"scheme": "ootomo", "where": "prepass"}, "tile": tile, "target": {"gpu": "a100"}})
    multiplier, source = on_paper.multiplier(monkeypatch, plan, launch, spaces)
    a, b, out = OnPaper(1000, (40, 64), 100), OnPaper(2000, (24, 64)), OnPaper(3000, (40, 24), 77)
    multiplier.into(out, a, b, -1.0, 1.0)
    used = len(prepared)
    assert 1 <= used <= len(source.interface.launches) and len(launched) == used and len(spaces) == 1
    assert {1000, 2000, 3000, 100, 64, 77, 40, 24, -1.0, 1.0} <= passed(0)
    work = source.interface.workspace(40, 24, 64)
    assert not spaces[0][: work.zeroed].any()
    places = {work.bytes - work.offsets[buffer.name] - at for buffer in source.interface.buffers for at in source.interface.places(buffer)}
    assert {part.size for args in launched for part in args if isinstance(part, np.ndarray)} <= places, "from where the workspace has them"
    multiplier.into(OnPaper(6000, (40, 24), 77), OnPaper(4000, (40, 64), 100), OnPaper(5000, (24, 64)), -1.0, 1.0)
    assert len(prepared) == used and {4000, 5000, 6000} <= passed(used) and not {1000, 2000, 3000} & passed(used)
    multiplier.into(out, a, b, 1.0, 0.0)
    assert len(prepared) == 2 * used and len(spaces) == 1  # another alpha is another launch, in the same workspace
    multiplier.into(OnPaper(3000, (40, 24)), a, b, 1.0, 0.0)
    assert len(prepared) == 3 * used and 77 not in passed(3 * used)
    for rows in (2, 1):  # those of one lie no way apart
        multiplier.into(OnPaper(3000, (rows, 24), 77), OnPaper(1000, (rows, 64), 100), b)
        assert ({77, 100} <= passed(-used)) == (rows == 2)
    multiplier.into(OnPaper(3000, (9000, 24)), OnPaper(1000, (9000, 64)), b)
    assert len(spaces) == 2
    for at in range(products.PREPARED + 5):
        multiplier.into(out, a, b, float(at), 0.0)
    assert len(multiplier._prepared) == products.PREPARED


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_kernels_product_is_a_new_array_of_the_stored_operands_extents(layout, monkeypatch):
    from gemmgen.timing import products

    waited, c = [], np.arange(15, dtype=np.float32).reshape(3, 5)
    stream = SimpleNamespace(synchronize=lambda: waited.append(True))
    cupy = SimpleNamespace(ascontiguousarray=np.ascontiguousarray, full=np.full, nan=np.nan, cuda=SimpleNamespace(get_current_stream=lambda: stream))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(products, "refusals", nullcontext)
    multiplier = object.__new__(products.Multiplier)
    multiplier._plan = SimpleNamespace(layout=layout, type=F32)

    def into(out, a, b, alpha, beta):
        assert a.flags.c_contiguous and b.flags.c_contiguous and out.dtype == np.float32
        left, right = a if layout[0] == "n" else a.T, b if layout[1] == "n" else b.T
        assert beta or np.isnan(out).all(), "what is not written shows"
        out[...] = alpha * left @ right + (beta * out if beta else 0)

    multiplier.into = into
    a, b = np.ones((3, 7), np.float32) * 2, np.ones((7, 5), np.float32)
    stored = (a if layout[0] == "n" else a.T), (b if layout[1] == "n" else b.T)
    assert np.array_equal(multiplier(*stored, None, 0.5, 9.0), np.full((3, 5), 7.0)), "beta counts only with C"
    assert np.array_equal(multiplier(*stored, c, 1.0, -1.0), 14 - c) and np.array_equal(c, np.arange(15).reshape(3, 5)) and waited == [True, True]


def test_k_of_a_strided_batch_is_its_matrices():
    """Arrays [batch, M, K] and [batch, N, K]: K is of the matrices, in every layout."""
    from gemmgen.timing.products import Multiplier

    put = []
    for layout, a in (("nt", (3, 40, 64)), ("tn", (3, 64, 40))):
        multiplier = object.__new__(Multiplier)
        multiplier._plan, multiplier._put = SimpleNamespace(layout=layout), lambda out, operands, k, *given: put.append(k)
        multiplier.into(np.empty((3, 40, 24)), np.empty(a), np.empty((3, 24, 64)))
    assert put == [64, 64]


def test_maxima_are_zero_before_each_product_of_a_solve(monkeypatch):
    """What the product before it found is not the next one's; blocks of unknowns lie behind one another."""
    from gemmgen import road
    from gemmgen.kinds.solves import BLOCK, Trsm

    ran, spaces = [], []

    class Launch:
        def __init__(self, symbol, args):
            self.symbol, self.args = symbol, args

        def point(self, at, address):
            self.args[at] = address

        def __call__(self):
            other, maxima = spaces[-1].copy(), []
            for name in ("a_absmax", "b_absmax"):
                part = other[work.offsets[name] : work.offsets[name] + work.lengths[name]]
                maxima.append(part.any())
                part[:] = 7
            cleared_alone = not any(maxima) and bool((other == 7).all())
            ran.append((roles[self.symbol].role, dict(zip(roles[self.symbol].params, self.args)), cleared_alone))
            spaces[-1][:] = 7

    tile = {"block": [32, 32, 32], "warp": [16, 16, 32]}
    plan = replace(road.plan({"split": {"scheme": "scaled", "where": "prepass"}, "tile": tile, "target": {"gpu": "a100"}}), kind=Trsm())
    multiplier, source = on_paper.multiplier(monkeypatch, plan, lambda symbol, blocks, args: Launch(symbol, [value for _, value in args]), spaces)
    roles = {launch.symbol: launch for launch in source.launches}
    work = source.interface.workspace(3 * BLOCK, 5, 3 * BLOCK)
    assert work.lengths["a_absmax"] and work.lengths["b_absmax"]
    for _ in range(2):  # the second time by what was prepared
        ran.clear()
        multiplier.solve(OnPaper(3000, (3 * BLOCK, 5), 7), OnPaper(1000, (3 * BLOCK, 3 * BLOCK), 800), 2.0)
        solves = [given for role, given, _ in ran if role == "solve"]
        assert [(one["c"], one["alpha"]) for one in solves] == [(3000 + 4 * at * BLOCK * 7, 2.0 if at == 0 else 1.0) for at in range(3)]
        assert [clean for before, (_, _, clean) in zip(ran, ran[1:]) if before[0] == "solve"] == [True, True]


def test_the_systems_of_a_batch_are_solved_by_the_launches_of_one(monkeypatch):
    """Each has the blocks of all, and is told how far systems lie apart: of a product between, B is C's."""
    from gemmgen import road
    from gemmgen.kinds.solves import BLOCK

    told = []

    def prepared(symbol, blocks, args):
        launch = next(one for one in source.launches if one.symbol == symbol)
        told.append((launch.role, blocks, dict(zip(launch.params, (value for _, value in args)))))
        return SimpleNamespace(point=lambda at, address: None, __call__=None)

    plan = road.plan({
        "problem": {"kind": "trsm", "m": 512, "n": 64, "k": 512, "matrices": 9}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64},
        "tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "split_k": 1, "group": 1}, "pipeline": {"stages": 3, "fragment_buffers": 1},
        "target": {"gpu": "a100"}})
    multiplier, source = on_paper.multiplier(monkeypatch, plan, prepared, [])
    with pytest.raises(TypeError):  # what was prepared is not launched here
        multiplier.solve(OnPaper(3000, (5, 2 * BLOCK, 40), 50, 99000), OnPaper(1000, (5, 2 * BLOCK, 2 * BLOCK), 800, 990000), 2.0)
    assert [role for role, _, _ in told] == ["solve", "split", "gemm", "solve"]
    assert all((one["stride_a"], one["stride_c"]) == (990000, 99000) for role, _, one in told if role != "split")
    split, product = told[1][2], told[2][2]
    assert (split["stride_a"], split["stride_b"], split["batch"], product["stride_b"]) == (990000, 99000, 5, 99000)
    assert [blocks for role, blocks, _ in told if role == "solve"] == [10, 10] and told[2][1] == 5 * (BLOCK // 64)


def test_neighbours_are_those_of_all_distances():
    """By another way than the application's own, which is what its figures compare with."""
    points = DRAW.standard_normal((40, 6)) + 3
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert np.array_equal(graph.graph(who.InNumpy("numpy", np.float64), points, 5), np.argsort(apart, axis=1)[:, :5])


def test_an_iteration_changes_singular_values_alone():
    x = DRAW.standard_normal((5, 9))
    u, s, v = np.linalg.svd(x / np.linalg.norm(x), full_matrices=False)
    for _ in range(3):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    np.testing.assert_allclose(polar.orthogonalised(who.InNumpy("numpy", np.float64), x, 3), u * s @ v, atol=1e-12)
    found = polar.make({"rows": 5, "columns": 9, "steps": 3}, "drawn", 0).run(who.InNumpy("numpy", np.float64), {"x": x})
    np.testing.assert_allclose(found["x"], u * s @ v, atol=1e-12)


def test_each_kind_and_way_of_a_product_has_a_kernel_of_its_own(monkeypatch):
    from gemmgen.timing import products

    monkeypatch.setattr(products, "Multiplier", lambda built: built)
    monkeypatch.setattr(who, "sized", lambda spec, *shape, **problem: (*shape, problem))
    kernels, shape = SimpleNamespace(_kernels={}, _spec=None, _made=lambda spec: spec), who.Shape(64, 64, 64, "nt")
    asked = [{}, who.of_syrk(True), who.of_syrk(False), who.of_solve((64, 64), "right", True, True, True)[1], who.of_solve((64, 64), "right", True, True, False)[1]]
    assert [who.Kernels._kernel(kernels, shape, **one)[-1] for one in asked * 2] == asked * 2 and len(kernels._kernels) == len(asked)
    assert (who.of_syrk(True)["uplo"], who.of_syrk(False)["uplo"]) == ("both", "lower")


class Apart(who.InNumpy):
    """Refuses a result in memory that the product, or solve, still reads, as a kernel stores tiles of it while others read."""

    def _into(self, out, a, b, shape, alpha, beta):
        assert not np.shares_memory(out, a) and not np.shares_memory(out, b)
        super()._into(out, a, b, shape, alpha, beta)

    def _syrk(self, out, a, alpha, beta, both):
        assert not np.shares_memory(out, a)
        super()._syrk(out, a, alpha, beta, both)

    def _solve(self, triangle, c, side, lower, transposed, unit):
        assert not np.shares_memory(triangle, c)
        super()._solve(triangle, c, side, lower, transposed, unit)


@pytest.mark.parametrize("name", SMALL)
def test_no_result_is_stored_over_an_operand(name):
    app = apps.find(name)
    problem = app.make(app.sized(SMALL[name], small=True), "drawn", 0)
    problem.run(Apart("numpy"), problem.inputs)


def test_a_librarys_package_multiplies(monkeypatch, tmp_path):
    import reference

    from gemmgen.timing import products

    reference.imported()  # whose functions are the CPU's, behind the same interface
    monkeypatch.setattr(products, "arrays", lambda: np)
    monkeypatch.setattr(who, "gpu_here", lambda: "h200")
    (tmp_path / "manifest.json").write_text('{"name": "lab"}')
    matmul = apps.multiplier(f"library:{tmp_path}")
    a, b, whole = matrices((6, 9), (5, 9), (10, 8))
    before = whole.copy()
    matmul(a, b, op="nt", out=whole[2:8, 1:6], alpha=-1.0, beta=0.5)
    np.testing.assert_allclose(whole[2:8, 1:6], 0.5 * before[2:8, 1:6] - a @ b.T, rtol=1e-5, atol=1e-5)
    with pytest.raises(SpecError, match="no library's folder"):
        apps.multiplier(f"library:{tmp_path / 'none'}")


class Placed:
    """An FP32 matrix somewhere on the GPU, whose rows begin `pitch` elements apart."""

    itemsize = 4

    def __init__(self, address, *shape, pitch=None):
        self.data, self.shape, self.strides = SimpleNamespace(ptr=address), shape, (4 * (pitch or shape[1]), 4)


@pytest.mark.parametrize("which", range(3))
def test_a_batch_is_prepared_anew_where_the_rows_of_a_matrix_lie_further_apart(which):
    """As of a part of a larger matrix that begins where a whole one of that size lay before."""
    prepared = []
    kernels = SimpleNamespace(_batches={}, _prepared=lambda products: prepared.append(products) or (lambda: None))
    whole = Placed(1, 3, 4), Placed(2, 4, 5), Placed(3, 3, 5)
    part = tuple(Placed(x.data.ptr, *x.shape, pitch=9) if at == which else x for at, x in enumerate(whole))
    for batch in ([whole], [part]):
        who.Kernels._batch(kernels, batch)
    assert prepared == [[whole], [part]]


def test_a_batch_is_prepared_once_for_the_same_matrices_of_the_same_sizes(monkeypatch):
    prepared, ran = [], []
    kernels = SimpleNamespace(_batches={}, _prepared=lambda products: prepared.append(products) or (lambda: ran.append(products)))
    monkeypatch.setattr(who, "BATCHES", 3)
    one, elsewhere, smaller = ([(Placed(a, *size), Placed(2, 4, 5), Placed(3, size[0], 5))] for a, size in ((1, (3, 4)), (9, (3, 4)), (1, (2, 4))))
    for batch in (one, one, elsewhere, smaller, one):
        who.Kernels._batch(kernels, batch)
    assert prepared == [one, elsewhere, smaller] and ran == [one, one, elsewhere, smaller, one]
    who.Kernels._batch(kernels, [*one, *elsewhere])  # a fourth: the oldest goes
    who.Kernels._batch(kernels, one)
    assert len(prepared) == 5 and len(kernels._batches) == 3
