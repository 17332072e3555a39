"""Kinds of products: what each tells of itself, and what a launch of its kernels is told."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ways import plan_of

from gemmgen import abi
from gemmgen.batch import PROBLEM
from gemmgen.designs import all_designs, design_called
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.interface import given
from gemmgen.kinds import GEMM, GEMMT, GROUPED, HEMM, HER2K, HERK, POINTERS, STRIDED, SYMM, SYR2K, SYRK, TRMM, TRSM, Kind, Tiles, all_kinds, kind_called, require_plain
from gemmgen.model.equation import Constraint, Equation
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import kinds as of_kinds
from gemmgen.verify.bound import share_of_worst

MATRICES = tuple((given(x, "float", "", pointer=True, const=x != "c", restrict=True), given(f"ld{x}", "long long", "")) for x in "abc")
SIZES = tuple(given(x, "int", "") for x in ("m", "n", "k")) + tuple(given(x, "float", "") for x in ("alpha", "beta"))
BATCHES = [one for one in all_kinds().values() if one.batched]


class Held:
    """Names in place of memory."""

    def records(self) -> str:
        return "records"

    def pointers(self, operand: str) -> str:
        return f"pointers of {operand}"

    def first(self, operand: str) -> str:
        return f"first {operand}"


def problems(count: int) -> np.ndarray:
    """Products of 3 x 4 x 5 whose matrices lie 100, 200 and 300 elements of 4 bytes apart."""
    made = np.zeros(count, PROBLEM)
    for x, (start, apart) in {"a": (4096, 100), "b": (8192, 200), "c": (1 << 20, 300)}.items():
        made[x] = start + 4 * apart * np.arange(count)
    for name, value in {"m": 3, "n": 4, "k": 5, "lda": 5, "ldb": 4, "ldc": 0, "alpha": 2.0, "beta": -1.0}.items():
        made[name] = value
    return made


def test_kinds_are_found_by_name_and_stay_themselves():
    assert list(all_kinds()) == ["gemm", "syrk", "herk", "syr2k", "her2k", "gemmt", "trmm", "trsm", "symm", "hemm", "strided", "pointers", "grouped"]
    assert kind_called("gemm") is GEMM
    for kind in all_kinds().values():
        assert f"{kind}" == kind.name and pickle.loads(pickle.dumps(kind)) == kind == copy.deepcopy(kind)
        assert [other for other in all_kinds().values() if other == kind] == [kind]
        assert kind.plain == (kind not in (SYRK, HERK, SYR2K, HER2K, GEMMT, TRMM, TRSM, SYMM, HEMM))


@pytest.mark.parametrize("name", [name for name in all_kinds() if name not in ("gemm", "gemmt", "herk", "her2k", "hemm")])
def test_kinds_whose_b_is_fp32_refuse_another(name):
    """A pass, or a kernel that solves, reads it as FP32, or it is A."""
    for b in ("f16", "bf16"):
        with pytest.raises(InfeasibleSpec, match=r"\[problem\] b: .*") as error:
            solve(loads({"problem": {"kind": name, "b": b, "layout": kind_called(name).layouts[0]}, "target": {"gpu": "a100"}}))
        assert 'b = "f32"' in error.value.remedy and "f32" in error.value.needs


@pytest.mark.parametrize("c", ["f16", "bf16"])
def test_a_system_is_solved_in_a_c_of_fp32(c):
    with pytest.raises(InfeasibleSpec, match=r"\[problem\] c: .*") as error:
        solve(loads({"problem": {"kind": "trsm", "c": c}, "target": {"gpu": "a100"}}))
    assert error.value.remedy == 'c = "f32"'


@pytest.mark.parametrize("kind", BATCHES, ids=str)
def test_a_launch_is_told_what_its_signature_asks_for(kind):
    """Every parameter that passes on an argument gets one, and `Products` is filled with parameters."""
    names = {one.name for line in kind.lines(MATRICES, SIZES, given("batch", "int", "")) for one in line.parameters}
    assert names == {*kind.fields} and names - {"batch"} == set(kind.arguments(problems(2), Held()))


def test_strides_are_elements_between_one_product_and_the_next():
    told = STRIDED.arguments(problems(3), Held())
    assert (told["stride_a"], told["stride_b"], told["stride_c"]) == (100, 200, 300) and told["a"] == "first a"
    assert STRIDED.arguments(problems(1), Held())["stride_c"] == 0
    assert (told["m"], told["k"], told["alpha"], told["beta"], told["ldc"]) == (3, 5, 2.0, -1.0, 1)
    assert STRIDED.arguments(problems(0), Held())["m"] == 0


def test_pointers_and_records_are_what_the_device_holds():
    assert POINTERS.arguments(problems(2), Held())["b"] == "pointers of b"
    assert GROUPED.arguments(problems(2), Held()) == {"problems": "records"}
    [a, *_] = POINTERS.lines(MATRICES, SIZES, given("batch", "int", ""))
    assert a.parameters[0].type == "float**" and a.parameters[1].type == "long long"


class Halved(Kind):
    """Reads A as B, and computes half of the tiles."""

    name = "halved"
    layouts = ("nt",)
    aliases = {"b": "a", "ldb": "lda", "n": "m"}
    tiles = Tiles(lambda m, n, tile: -(-m // tile[0]) // 2, "tiles_m / 2", "GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n) { return {place, 0}; }")
    equations = (Equation("K1", "half_rows", "ceil(M / BM) / 2", "", ""), Equation("K2", "tiles", "floor(half_rows)", "tiles of C", ""))
    constraints = (Constraint("K3", "even", "BM == BN", "", None),)

    def completed(self, a, b):
        return a, a.T


def test_a_design_has_a_kinds_equations_and_constraints_and_keeps_its_own():
    kind, design = Halved(), design_called("portable")
    mine = design_called("portable", kind)
    assert mine is design_called("portable", Halved()) is not design and mine.name == "portable"
    symbols = [one.symbol for one in mine.equations.predictions]
    assert symbols.index("half_rows") + 1 == symbols.index("tiles") and symbols.count("tiles") == 1
    assert [one.number for one in mine.constraints if one not in design.constraints] == ["K3"]
    assert {"half_rows"} == mine.known_symbols - design.known_symbols and len(design.equations.predictions) + 1 == len(mine.equations.predictions)
    plan = replace(plan_of(layout="nt"), kind=kind)
    assert plan.model["tiles"] == -(-plan.hints.m // plan.block[0]) // 2 and plan.design is mine
    assert plan.identity["kind"] == "halved" and plan.hash != plan_of(layout="nt").hash


@pytest.mark.parametrize("k_range", [("", "m0 + BLOCK_M"), ("m0", ""), ("m0", "m0 + BLOCK_M")], ids=["end", "begin", "both"])
def test_a_tile_that_has_a_part_of_k_is_predicted_by_that_part(k_range):
    """Of a kind that says nothing else of its time."""
    design, kind = design_called("specialised"), type("Part", (Kind,), {"name": "part", "k_range": k_range})()
    assert "(stages_k * split_k * BK)" in design.of(kind).equations.of("unit_seconds").form
    assert "stages_k" not in design.of(Kind()).equations.of("unit_seconds").form == design.equations.of("unit_seconds").form


def test_designs_compute_kinds_that_they_ask():
    able = {one.name for one in all_designs() if one.computes(Halved())}
    assert able == {"portable", "cuda_cores", "specialised", "residues", "residues_portable", "residues_tensor_memory", "tensor_memory"}
    assert {one.name for one in all_designs() if one.computes(STRIDED)} == {
        "grouped", "specialised", "strided", "tensor_memory", "residues", "residues_portable", "residues_tensor_memory"}


def test_a_parameter_gets_the_argument_that_its_kind_passes_on():
    plan = replace(plan_of(layout="nt"), kind=Halved())
    table = abi.interface(plan)
    asked = {one.name: one.argument for launch in table.launches for one in launch.parameters if one.argument}
    assert (asked["b"], asked["ldb"], asked["n"], asked["c"]) == ("a", "lda", "m", "c") and not table.asks("b")
    assert table.launches[-1].blocks(table.extents(640, 640, 64)) == -(-640 // plan.block[0]) // 2


@pytest.mark.parametrize(("problem", "where", "needs"), [
    ({"layout": "nn"}, "layout", "nt"), ({"n": 64}, "n", "128"), ({"b": "f16"}, "b", "f32, as A is"), ({"uplo": "upper"}, "uplo", "a kind that has it"),
])
def test_what_a_kind_has_no_kernels_for_is_refused(problem, where, needs):
    asked = {"layout": "nt", "m": 128, "n": 128, "k": 64, "b": "f32", "uplo": None, "side": None, "diag": None, "model_fields_set": frozenset()} | problem
    with pytest.raises(InfeasibleSpec, match=rf"here: \[problem\] {where}\b") as error:
        Halved().check(SimpleNamespace(**asked), "here")
    assert needs in f"{error.value}"


def test_what_knows_products_of_two_operands_alone_refuses_others():
    require_plain(GEMM, "races are of")
    with pytest.raises(SpecError, match="products of a given A and a given B alone"):
        require_plain(Halved(), "races are of")
    with pytest.raises(SpecError, match="is missing"):
        GEMM.completed(np.zeros((1, 1), np.float32), None)


# ---- what the judge asks


class Triangle(Kind):
    """Of C the elements on the diagonal and below alone."""

    name = "triangle"

    def computed(self, m, n):
        return np.tri(m, n, dtype=bool)


def right_c(c, computed, beta):
    return True


def an_element_off(c, computed, beta):
    c[-1, 0] += 1e-3
    return True


def an_element_that_is_none(c, computed, beta):
    c[0, 0] = np.nan
    return True


def one_left_out_where_c_is_read(c, computed, beta):
    if beta:
        c[2, 1] = 0
    return True


def another_written(c, computed, beta):
    c[0, -1] = 0 if beta else c[0, -1]
    return True


def another_written_where_c_is_not_read(c, computed, beta):
    c[0, 1] = c[0, 1] if beta else 0
    return True


def beside_it(c, computed, beta):
    return False


@pytest.mark.parametrize(("solves", "reals", "who"), [(True, 1, "solves"), (True, 2, "solves"), (False, 2, "complex")])
def test_systems_and_complex_products_have_questions_of_their_own(solves, reals, who, monkeypatch):
    plan = SimpleNamespace(kind=SimpleNamespace(solves=solves, reals=reals))
    for name in ("solves", "complex"):
        monkeypatch.setattr(getattr(of_kinds, name), "question", lambda *given, name=name: (name, *given))
    assert of_kinds.question(plan, "source", "device") == (who, plan, "source", "device")


@pytest.mark.parametrize("fault", [
    right_c, an_element_off, an_element_that_is_none, one_left_out_where_c_is_read, another_written, another_written_where_c_is_not_read, beside_it,
], ids=lambda one: one.__name__)
def test_a_kinds_question_looks_at_every_element_that_is_computed_and_at_all_others(fault, monkeypatch):
    asked, found = [], []

    def noted(*given):
        found.append(share_of_worst(*given))
        return found[-1]

    def gemm(device, plan, source, a, b, before, *, alpha, beta, placement):
        asked.append((beta, before is None))
        computed = plan.kind.computed(a.shape[0], b.shape[1])
        old = np.full(computed.shape, np.nan, np.float32) if before is None else before
        c = np.where(computed, alpha * (a.astype(np.float64) @ b) + (beta * old if beta else 0), old).astype(np.float32)
        intact = fault(c, computed, beta)
        return SimpleNamespace(c=c, intact=intact)

    monkeypatch.setattr(of_kinds, "gemm", gemm)
    monkeypatch.setattr(of_kinds, "share_of_worst", noted)
    plan = replace(plan_of(scheme="fp32", promote=0), kind=Triangle())
    right, told = of_kinds.question(plan, None, None)
    assert right == (fault is right_c), told
    assert asked == [(0.5, False), (0.0, True), (0.0, True)]
    if right:
        computed = sum(int(Triangle().computed(*size).sum()) for size in ((plan.block[0] + 3, plan.block[1] + 5), (2 * plan.block[0] + 1, plan.block[1] - 1), (3, 2)))
        share = float(re.fullmatch(rf"{computed} elements, at most (0\.\d\d) of the worst case; no others are written", told)[1])
        assert share == pytest.approx(max(found), abs=0.005) and min(found) < share - 0.005, "the largest of the three products"


@pytest.mark.parametrize("scheme", ["bf16x3_bb16", "ootomo_b16"])
def test_a_kinds_question_asks_of_a_b_that_the_kernel_can_read(scheme, monkeypatch):
    """A runner refuses numbers that B's type has not."""
    plan, asked = replace(plan_of(scheme=scheme), kind=GEMMT), []

    def gemm(device, plan, source, a, b, before, *, alpha, beta, placement):
        asked.append(np.array_equal(plan.inputs.stored_b.rounded(b), b))
        computed = plan.kind.computed(a.shape[0], b.shape[1])
        old = np.full(computed.shape, np.nan, np.float32) if before is None else before
        return SimpleNamespace(c=np.where(computed, alpha * (a.astype(np.float64) @ b) + (beta * old if beta else 0), old).astype(np.float32), intact=True)

    monkeypatch.setattr(of_kinds, "gemm", gemm)
    right, told = of_kinds.question(plan, None, None)
    assert right and asked == [True] * 3, told
