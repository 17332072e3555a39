"""Kernels of a library for BLAS's level 3 beside GEMM: which ways there are, which kernel each gets, and what its estimate tells."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import road
from gemmgen.abi import interface
from gemmgen.catalog.element import C64, F32
from gemmgen.errors import GemmgenError, InfeasibleSpec, ResourceError, SpecError
from gemmgen.kinds import Kind, all_kinds, kind_of
from gemmgen.library import candidates as candidate_kernels
from gemmgen.library import choice as chosen_kernels
from gemmgen.library import tables
from gemmgen.library.candidates import like
from gemmgen.library.choice import pool
from gemmgen.library.file import library_from, load_library
from gemmgen.library.made import estimates
from gemmgen.library.routines import LEVEL3, NUMBERS, number, sized, stands, ways_of
from gemmgen.solve import applicable
from gemmgen.spec import Problem, loads
from library_calls import of_plan
from ways import plan_of


def loaded(*routines: str, **more):
    return library_from({"name": "lab", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 1, "sizes": [[2048, 1024, 4096]], "routines": list(routines),
                         "use": [{"scheme": "ootomo"}], **more})


def test_a_library_of_keys_and_values_is_what_its_file_would_be():
    keys = {"name": "lab", "gpus": ["h200"], "layouts": ["nn"], "kernels_at_most": 1, "sizes": [[2048, 1024, 4096]], "use": [{"scheme": "ootomo"}]}
    found = road.load_library(keys)
    assert found.name == "lab" and found.file == library_from(keys).file and road.load_library(found) is found


@pytest.fixture(scope="module")
def chosen():
    return pool(loaded("syrk", "trmm"))


def test_every_way_in_which_blas_may_find_operands_is_there_once():
    real = {"syrk": 4, "syr2k": 4, "gemmt": 8, "symm": 4, "trmm": 16, "trsm": 16}
    pairs = real | {"gemmt": 18, "trmm": 24, "hemm": 4, "herk": 4, "her2k": 4}
    assert {name: len(list(ways_of(name))) for name in LEVEL3} == real | {"hemm": 0, "herk": 0, "her2k": 0}
    assert {name: len(list(ways_of(name, C64))) for name in LEVEL3 if name != "trsm"} == {name: count for name, count in pairs.items() if name != "trsm"}
    for element, name in ((element, name) for element in (F32, C64) for name in LEVEL3 if element is F32 or name != "trsm"):
        found = [(number(kind := kind_of(Problem(**way))), *stands(kind), way["layout"]) for way in ways_of(name, element)]
        assert len(set(found)) == len(found) and {one[0] for one in found} <= {NUMBERS[name]}
        for way in ways_of(name, element):
            kind_of(Problem(**way)).check(Problem(**way), "way")
            if "side" in way:
                assert way["layout"][1 if way["side"] == "left" else 0] == "n", "BLAS transposes no operand beside A"


def test_a_kind_stands_as_its_options_say():
    kind = kind_of(Problem(kind="trmm", uplo="upper", side="right", diag="unit"))
    assert stands(kind) == (1, 1, 1) and stands(kind_of(Problem(kind="symm", uplo="upper"))) == (1, 0, 0)
    assert stands(all_kinds()["gemm"]) == stands(all_kinds()["strided"]) == (0, 0, 0) and number(all_kinds()["strided"]) == NUMBERS["gemm"] == 0
    assert sized(all_kinds()["syrk"], 5, 6, 7) == (5, 5, 7) and sized(kind, 5, 6, 7) == (5, 6, 6) and sized(all_kinds()["trmm"], 5, 6, 7) == (5, 6, 5)


def test_each_way_has_the_best_kernel(chosen):
    choice = chosen.choose()
    mine = [one for one in choice.kernels if one.candidate.routine]
    assert len(mine) == 4 + 16 and len(choice.kernels) == 1 + len(mine), "beyond kernels_at_most"
    assert {(one.plan.kind.name, *one.plan.kind.options.values(), one.plan.layout) for one in mine} == {
        tuple(way.values()) for name in ("syrk", "trmm") for way in ways_of(name)}
    for one in mine:
        group = next(group for group, candidates in chosen.routines.items() if one.candidate in candidates)
        assert one.candidate.seconds[0] == min(other.seconds[0] for other in chosen.routines[group])
        assert one.sizes == like(chosen.library, one.candidate.routine) and not one.plan.epilogue
    assert {one.sizes for one in mine} == {((2048, 2048, 4096, 1),), ((2048, 1024, 2048, 1),), ((2048, 1024, 1024, 1),)}
    assert choice.candidates == len(chosen.candidates) + sum(map(len, chosen.routines.values()))


def test_a_library_for_batches_has_kernels_of_routines_that_take_them():
    """The same number of kernels: a single product is a batch of one. Where a routine's kernels take no batch, they take products one by one."""
    plans, way = [], {"kind": "syrk", "uplo": "lower", "layout": "nt"}
    trmm = {"kind": "trmm", "uplo": "lower", "side": "left", "diag": "unit", "layout": "nn", "type": "f64"}
    for batched, scheme, gpu, way in ((False, "ootomo", "h200", way), (True, "ootomo", "h200", way), (True, "residues12", "a100", trmm)):
        library = loaded(way["kind"], batched=batched, use=[{"scheme": scheme}], gpus=[gpu])
        plans.append(candidate_kernels.of_routine(library, library.gpus[0], way)[0].plan)
    assert [interface(plan).batched for plan in plans] == [False, True, False] and plans[0].block == plans[1].block


def test_what_the_compiler_refuses_is_replaced_by_the_next_one(chosen):
    again = replace(chosen, refused={})
    group, candidates = next(iter(again.routines.items()))
    first = again.choose()
    assert candidates[0].plan.hash in {one.plan.hash for one in first.kernels}
    again.refuse(candidates[0].plan, ResourceError("kernel", "spills"))
    second = again.choose()
    hashes = {one.plan.hash for one in second.kernels}
    assert candidates[0].plan.hash not in hashes and candidates[1].plan.hash in hashes and len(second.kernels) == len(first.kernels)
    for one in candidates:
        again.refuse(one.plan, ResourceError("kernel", "spills"))
    with pytest.raises(InfeasibleSpec, match=" ".join(group)):
        again.choose()


def test_a_kernel_serves_small_and_large_sizes_by_two_passes():
    """Row scales are found in a pass of their own, as one pass has no time for small sizes; and no size of 64 decides which tile there is."""
    found = pool(loaded("syrk", sizes=[[64] * 3, [1024] * 3, [8192] * 3], use=[{"scheme": "scaled"}]))
    assert len(found.routines) == 4
    for mine in found.routines.values():
        assert all(np.isfinite(one.seconds).all() and one.seconds.shape == (3,) and not one.plan.launches.splits_whole for one in mine)
        assert mine[0].plan.block[0] == 128 and mine[0].plan.fragment.policy == "wgmma"


def test_on_its_own_gpu_a_spec_stays_as_it_is_fixed():
    spec = loads({"problem": {"m": 64, "n": 64, "k": 64}, "split": {"scheme": "scaled"}, "target": {"gpu": "h200"}})
    own, other = (candidate_kernels.retargeted(spec, gpu, "nt") for gpu in ("h200", "a100"))
    assert [told for told, _ in own] == [""] and len(other) > 1 and other[0][0] == ""
    assert [(one.spec.target.gpu, one.spec.problem.layout) for _, one in own] == [("h200", "nt")]


def test_large_products_decide_which_kernel_a_way_has(monkeypatch):
    """A size weighs as its mean extent to 1.5: 5 % of a large product is worth more than two thirds of a small one."""
    monkeypatch.setattr(candidate_kernels, "retargeted", lambda *_: [("", None)])
    library = loaded("syrk", sizes=[[64] * 3, [8192] * 3])
    for slower, large_first in ((3, True), (1e30, True), (1e31, False)):  # 1.05 to the power of 128^1.5, which is 5e30
        fast_when_small, fast_when_large = (SimpleNamespace(seconds=np.array(one), symbols=()) for one in ((1e-6, 1.05e-3), (1e-6 * slower, 1e-3)))
        monkeypatch.setattr(candidate_kernels, "_of_way", lambda *_: [fast_when_small, fast_when_large])  # noqa: B023
        first, second = candidate_kernels.of_routine(library, library.gpus[0], {"kind": "syrk", "layout": "nt"})
        assert (first is fast_when_large, second is fast_when_small) == (large_first, large_first), slower


def test_and_which_comes_first_of_one_spec(monkeypatch):
    of_specs = []
    whole = candidate_kernels._of_way
    monkeypatch.setattr(candidate_kernels, "_of_way", lambda *asked: of_specs.append((asked[4], [*whole(*asked)])) or of_specs[-1][1])
    library = loaded("syrk", sizes=[[64] * 3, [8192] * 3], use=[{"scheme": "scaled"}])
    candidate_kernels.of_routine(library, library.gpus[0], {"kind": "syrk", "layout": "nt"})
    for sizes, found in of_specs:
        costs = [np.log(one.seconds) @ candidate_kernels.weights(sizes) ** 3 for one in found]
        assert len(found) > 1 and costs[0] == min(costs) < costs[-1]
    assert of_specs


def test_an_estimate_is_of_the_kind_s_own_work(chosen):
    """Of half of the tiles: of sizes that the kind has, within a fifth of the model."""
    choice = chosen.choose()
    for served, estimate in zip(choice.kernels, estimates(choice)):
        if served.candidate.routine:
            sizes = np.array([(*sized(served.plan.kind, *size), 1) for size in ((2048, 2048, 2048), (4096, 2048, 3000), (2048, 4096, 4096))])
            own = served.candidate.seconds_of(sizes)
            assert np.allclose(estimate.seconds(*sizes.T[:3]), own, rtol=0.2), (served.plan.kind.options, estimate.seconds(*sizes.T[:3]) / own)


def test_a_file_names_each_routine_once_and_of_those_there_are():
    for wrong, told in ((("gemm",), "routines"), (("syrk", "syrk"), "each once")):
        with pytest.raises(SpecError, match=told):
            loaded(*wrong)
    with pytest.raises(SpecError, match="is not what a library's functions compute") as refused:
        loaded(use=[{"spec": "syrk_h200"}])
    assert "routines" in str(refused.value)


def test_a_kind_whose_launches_the_runtime_does_not_know_is_refused():
    """As one of another package."""
    class Solves(Kind):
        name, stored = "own", "column <= row"

    plan = plan_of()
    tables.check(of_plan("kernel", replace(plan, kind=all_kinds()["syrk"]), None))
    with pytest.raises(GemmgenError, match="a kind that the runtime does not launch"):
        tables.check(SimpleNamespace(label="kernel", built=SimpleNamespace(plan=replace(plan, kind=Solves()))))


def test_routines_of_fp64_are_those_that_have_kernels(monkeypatch):
    """Beside FP32's a routine without any is told; alone it is refused, as of FP32."""
    monkeypatch.setattr(chosen_kernels, "ways_of", lambda name, element: islice(ways_of(name, element), 2))
    monkeypatch.setattr(applicable.Case, "serves_kind", property(lambda case: not case.kind.solves or case.spec.problem.type == "f32"))
    two = {"gpus": ["a100"], "kernels_at_most": 2, "sizes": [[512, 512, 512]]}
    both = pool(loaded("syr2k", "trsm", **two, use=[{"scheme": "ootomo"}, {"scheme": "residues12"}]))
    assert len(both.routines) == 2 + 2 + 2 and both.notes == ("routines: there is no trsm of FP64 on a100",)
    assert all((one.element == "f64") == ("f64" in group) for group, mine in both.routines.items() for one in mine)
    kernels = both.choose().kernels
    assert [(one.plan.type.name, one.plan.kind.name) for one in kernels[:2]] == [("f32", "gemm"), ("f64", "gemm")]
    assert {(one.plan.type.name, one.candidate.element, one.plan.kind.name) for one in kernels[2:]} == {
        ("f32", "f32", "syr2k"), ("f32", "f32", "trsm"), ("f64", "f64", "syr2k")}
    alone = loaded("trsm", **two, use=[{"scheme": "residues12"}])
    with pytest.raises(InfeasibleSpec, match="no .* has a kernel for a100 trsm lower left nonunit nn f64"):
        pool(alone).choose()
    beside = pool(loaded("trsm", **two, use=[{"scheme": "ootomo"}, {"scheme": "residues12"}]))
    assert beside.notes == both.notes and {"f64" in group for group in beside.routines} == {False}, "FP32 has it, in whatever kinds"
    monkeypatch.setattr(chosen_kernels, "of_routine", lambda library, gpu, way: [] if way.get("type") else candidate_kernels.of_routine(library, gpu, way))
    none = pool(loaded("syr2k", **two, use=[{"scheme": "ootomo"}, {"scheme": "residues12"}]))
    assert none.notes == ("routines: there is no syr2k of FP64 on a100",)
    monkeypatch.undo()
    monkeypatch.setattr(chosen_kernels, "ways_of", lambda name, element: islice(ways_of(name, element), 2))
    pairs = [{"type": "c64", "scheme": "run_scaled"}, {"scheme": "residues12"}]
    monkeypatch.setattr(chosen_kernels, "of_routine", lambda library, gpu, way: [] if way["type"] == "c64" else candidate_kernels.of_routine(library, gpu, way))
    assert pool(loaded("syr2k", **two, use=pairs)).notes == ("routines: there is no syr2k of complex FP32 on a100",), "FP64 has it"
    assert candidate_kernels.of_routine(alone, alone.gpus[0], next(ways_of("syrk"))) == [], "FP32's"
    symm = loaded("symm", **two, use=[{"scheme": "residues12"}])
    assert {one.element for one in candidate_kernels.of_routine(symm, symm.gpus[0], {**next(ways_of("symm")), "type": "f64"})} == {"f64"}


def test_a_routines_candidates_are_of_several_warp_tiles():
    """Those of one tile spill together."""
    of = candidate_kernels._of_several_warps
    assert of([3, 0, 1, 2, 4], [(64, 128), (64, 64), (64, 128), (64, 128), (32, 32)]) == [3, 0, 1, 4]
    assert len(of(range(100), [(at // 3, 0) for at in range(100)])) == candidate_kernels.MOST_TILES
    library = load_library("general")
    found = candidate_kernels.of_routine(library, library.gpus[0], {"kind": "syrk", "uplo": "upper", "layout": "nt"})
    assert len({one.plan.warp[:2] for one in found}) >= 3 and found[0].plan.warp[:2] == (64, 128)
