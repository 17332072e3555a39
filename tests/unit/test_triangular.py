"""Kinds of which a triangle of one operand is read: what they multiply, what a spec may ask of them, and what the model and the judge know."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from ways import plan_of

from gemmgen import verify
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.kinds import GEMM, SYMM, TRMM, kind_of
from gemmgen.kinds.triangles import LOWER, UPPER
from gemmgen.kinds.triangular import LEFT, NONUNIT, RIGHT, UNIT, Symm, Trmm
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads

ALL = [*(Trmm(*options) for options in itertools.product((LOWER, UPPER), (LEFT, RIGHT), (NONUNIT, UNIT))),
       *(Symm(*options) for options in itertools.product((LOWER, UPPER), (LEFT, RIGHT)))]


def named(kind) -> str:
    return "-".join((kind.name, *kind.options.values()))


def spec(kind: str, m: int = 256, n: int = 256, k: int = 256, gpu: str = "a100", split: dict | None = None, **problem):
    return loads({"problem": {"kind": kind, "m": m, "n": n, "k": k} | problem, "split": split or {"scheme": "ootomo"}, "target": {"gpu": gpu}})


@pytest.mark.parametrize("kind", ALL, ids=named)
def test_any_product_is_a_part_of_one_and_the_other_triangle_is_not_read(kind):
    rng = np.random.default_rng(3)
    for m, n, k in ((3, 5, 4), (5, 2, 3), (1, 1, 1), (0, 3, 2), (2, 0, 2), (2, 3, 0)):
        a, b, c = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        given = kind.embedded(a, b, c)
        square = given.a if kind.left else given.b
        read = np.tri(len(square), k=-1 if kind.options.get("diag") == UNIT else 0, dtype=bool)
        unread = square[~(read if kind.options["uplo"] == LOWER else read.T)]
        assert (np.isnan(unread) | (unread > 1e38)).all() and (len(unread) < 2 or np.isnan(unread).any())
        whole = np.matmul(*kind.completed(given.a, given.b))
        assert (kind.part(whole, m, n) == a @ b).all() and (kind.part(given.c, m, n) == c).all()


def test_what_is_multiplied():
    x = np.arange(1, 10, dtype=np.float32).reshape(3, 3)
    other = np.eye(3, dtype=np.float32)
    assert (Trmm(LOWER).completed(x, other)[0] == np.tril(x)).all() and (Trmm(UPPER).completed(x, other)[0] == np.triu(x)).all()
    assert (Trmm(LOWER, RIGHT).completed(other, x)[1] == np.tril(x)).all() and (Trmm(UPPER, RIGHT).completed(other, x)[1] == np.triu(x)).all()
    assert (Trmm(LOWER, LEFT, UNIT).completed(x, other)[0] == np.tril(x, -1) + other).all()
    assert (Symm(LOWER).completed(x, other)[0] == np.tril(x) + np.tril(x, -1).T).all()
    assert (Symm(UPPER, RIGHT).completed(other, x)[1] == np.triu(x) + np.triu(x, 1).T).all()
    with pytest.raises(SpecError, match="is not square"):
        TRMM.completed(np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("kind", ALL, ids=named)
def test_options_make_a_kind(kind):
    assert kind == pickle.loads(pickle.dumps(kind)) == copy.deepcopy(kind) and [one for one in ALL if one == kind] == [kind]
    assert kind_of(spec(kind.name, **kind.options).spec.problem) == kind and kind_of(spec(kind.name).spec.problem) in (TRMM, SYMM)
    assert kind.given and not kind.plain and f"{kind.options['uplo']} triangle" in kind.formula


@pytest.mark.parametrize(("asked", "where"), [
    (spec("trmm", uplo="both"), "uplo"), (spec("syrk", layout="nt", side="left"), "side"), (spec("gemm", diag="unit"), "diag"), (spec("symm", diag="unit"), "diag"),
    (spec("trmm", k=128), "k"), (spec("symm", layout="tn"), "layout"), (spec("trmm", split={"scheme": "ootomo", "where": "shared"}), "where"),
    (spec("symm", gpu="h200", split={"scheme": "ootomo", "where": "mixed"}), "where|policy"), (spec("trmm", gpu="h200", split={"scheme": "residues8"}), "scheme"),
], ids=["both", "side of syrk", "diag of gemm", "diag of symm", "not square", "layout of symm", "split on the way", "mixed", "residues"])
def test_what_has_no_kernels_is_refused(asked, where):
    with pytest.raises(InfeasibleSpec, match=rf"\] ({where})\b"):
        solve(asked)


def test_words_that_a_pass_has_split_may_be_loaded_in_any_way():
    with pytest.raises(InfeasibleSpec, match="has operands that a pass before splits") as refused:
        solve(spec("symm", split={"scheme": "ootomo", "where": "register"}))
    assert (refused.value.got, refused.value.needs) == ("register", "prepass")
    plan = solve(loads({"problem": {"kind": "symm"}, "split": {"scheme": "ootomo"}, "pipeline": {"loads": "async"}, "target": {"gpu": "a100"}}))
    assert (plan.where, plan.loads) == ("prepass", "async")


@pytest.mark.parametrize("kind", [Trmm(LOWER), Trmm(UPPER, RIGHT)], ids=named)
@pytest.mark.parametrize("gpu", ["h200", "mi300x"])
def test_the_models_stages_are_those_of_the_mean_tile(kind, gpu):
    asked = spec("trmm", 4096, 4096, 4096, gpu, **kind.options)
    plan = solve(loads(asked.spec.model_dump(mode="json", exclude_unset=True) | {"fragment": {"policy": "wgmma" if gpu == "h200" else "mfma"}}))
    bk, height = plan.block[2], plan.block[0] * plan.cluster if kind.left else plan.block[1]
    each = [-(-min(4096, (at + 1) * height) // bk) for at in range(-(-4096 // height))]
    assert abs(plan.model["stages_k"] * plan.split_k - np.mean(each)) <= plan.split_k + 1
    whole = replace(plan, kind=GEMM)
    if gpu == "h200":
        assert plan.model["unit_seconds"] / whole.model["unit_seconds"] == pytest.approx(plan.model["stages_k"] * plan.split_k * bk / 4096)
    assert 0.45 < plan.model["l2_bytes"] / whole.model["l2_bytes"] < 0.6


def test_the_longest_tiles_come_first():
    def text(kind):
        return render(replace(plan_of(gpu="h200", fragment={"policy": "wgmma"}, tile={"block": [64, 64, 32], "warp": [64, 64, 32]}, promote=32), kind=kind)).text

    assert [("work_at(turns - 1 - turn," in text(kind)) for kind in (Trmm(LOWER), Trmm(UPPER), Trmm(LOWER, RIGHT), SYMM, GEMM)] == [True, False, False, False, False]


def test_scales_are_by_all_of_a_row_that_is_multiplied():
    """The judge knows that a diagonal of ones stands beside what it asks."""
    plan = replace(plan_of(scheme="scaled"), kind=Trmm(UPPER, LEFT, UNIT))
    judge = verify.Judge(plan, None, None, None)
    problem = verify.oracles.uniform(plan, -1, 1, (4, 5, 3), 1)
    found = judge._completed(problem)
    assert found.a.shape == (4, 7) and (found.a[:, :4] == np.eye(4)).all() and (found.a[:, 4:] == problem.a).all()
    assert (found.b[:4] == 0).all() and (found.b[4:] == problem.b).all()
    assert judge.__class__(plan_of(scheme="scaled"), None, None, None)._completed(problem) is problem


def test_large_products_are_split_by_a_pass_that_knows_triangles():
    whole, plan = (solve(spec(kind, 16384, 16384, 16384, "h200", {"scheme": "scaled"})) for kind in ("gemm", "trmm"))
    assert whole.launches.splits_whole and not plan.launches.splits_whole


@pytest.mark.parametrize("k", [4, 5])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_a_nan_of_the_problem_stays_in_what_holds_it(uplo, k):
    """In rows of either parity: only what is not to be read may be replaced."""
    kind, a = Trmm({"lower": LOWER, "upper": UPPER}[uplo]), np.full((6, k), np.nan, np.float32)
    held = kind.embedded(a, np.ones((k, 3), np.float32), None).a
    at = slice(k, None) if uplo == "lower" else slice(0, 6)
    rest = slice(0, k) if uplo == "lower" else slice(6, None)
    assert np.isnan(held[at, rest]).all() and np.isnan(held).sum() < held.size
    assert (held == np.finfo(np.float32).max).any()
