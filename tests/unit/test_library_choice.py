"""Which kernels a library gets: the choice against all sets, what it may rest on, and specs on GPUs that they were not written for."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from ways import plan_of

from gemmgen.abi import STATUS, interface
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.cli.libraries import choice_text, choice_value
from gemmgen.errors import InfeasibleSpec, ResourceError, SpecError
from gemmgen.library import candidates as candidate_kernels
from gemmgen.library import choice, made
from gemmgen.library.candidates import Candidate
from gemmgen.library.choice import Pool
from gemmgen.library.cover import UNSERVED
from gemmgen.library.dispatch import Estimate, non_negative
from gemmgen.library.ends import FUSED
from gemmgen.library.file import BATCHES, library_from
from gemmgen.library.made import choose, estimates
from gemmgen.solve import solve
from gemmgen.solve.request import requests
from gemmgen.spec import loads
from gemmgen.verdict import OWN, VENDORS_OWN, sgemm_seconds

SIZES = ((64, 64, 64, 1), (512, 512, 512, 1), (4096, 4096, 4096, 1), (64, 4096, 4096, 1))


def library(sizes=SIZES, **more):
    return library_from({"name": "lab", "gpus": ["a100", "h100"], "layouts": ["nn", "nt"], "sizes": [list(size[:3]) for size in sizes],
                         "use": [{"scheme": "ootomo"}], **more})


def candidates(seed: int, of: choice.LoadedLibrary, each: int = 5) -> list[Candidate]:
    """Some for each GPU and layout, with drawn times and plans of which only the hash is asked for."""
    draw = np.random.default_rng(seed)
    found = []
    for gpu in of.gpus:
        for layout in of.file.layouts:
            for number in range(each):
                seconds = np.exp(draw.normal(0, 1, len(of.sizes)))
                plan = SimpleNamespace(hash=f"{gpu.name} {layout} {number}", gpu=gpu, layout=layout)
                found.append(Candidate("here", gpu, layout, seconds, seconds, settled=plan))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_no_set_is_much_better_than_what_is_chosen(seed):
    of = library(kernels_at_most=6)
    pool = Pool(of, candidates(seed, of))
    chosen = pool.choose()
    groups = [(gpu.name, layout, "f32") for gpu in of.gpus for layout in of.file.layouts]
    assert {one.candidate.group for one in chosen.kernels} == set(groups)
    assert len(chosen.kernels) == 6
    logs, weights = choice.costs(pool.candidates, groups, of.sizes)
    best = min(float(logs[list(some)].min(axis=0) @ weights) for some in combinations(range(len(pool.candidates)), 6))
    assert np.log(chosen.least) <= best + 1e-12
    assert best - 1e-12 <= np.log(chosen.ratio) <= best + 0.35


def test_each_size_is_served_by_the_fastest_of_its_group():
    of = library(kernels_at_most=8)
    chosen = Pool(of, candidates(7, of)).choose()
    for gpu in of.gpus:
        for layout in of.file.layouts:
            mine = [one for one in chosen.kernels if (one.candidate.gpu.name, one.candidate.layout) == (gpu.name, layout)]
            assert sorted(size for one in mine for size in one.sizes) == sorted(of.sizes)
            for one in mine:
                for size in one.sizes:
                    at = of.sizes.index(size)
                    assert one.candidate.seconds[at] == min(other.candidate.seconds[at] for other in mine)


def test_a_library_is_judged_by_its_fastest_kernel_beside_the_faster_fp32(monkeypatch):
    """At each size: gemmgen's FP32 or the vendor's; nothing is said where neither is known, nor of a GPU that has no FP32 kernels."""
    vendors = dict(zip(SIZES, (2.0, 0.5, None, 1.5)))
    monkeypatch.setattr(choice, "sgemm_seconds", lambda gpu, *size: vendors[size])
    monkeypatch.setattr(choice, "error_over_fp32s", lambda plan: float(plan.hash[-1]))
    of = library(kernels_at_most=8)
    found = Pool(of, candidates(1, of), plain={("a100", "nn", "f32"): np.array([1.0, 1.0, np.inf, 1.0]), ("a100", "nt"): np.full(4, 1e-9)})
    for one in found.candidates:
        one.plan.scheme = SimpleNamespace(name=f"scheme {one.plan.hash}")
    chosen = found.choose()
    told = {(one.m, one.n, one.k, one.products): one for one in chosen.verdicts}
    assert {size: (one.gpu, one.fp32_seconds, one.fp32) for size, one in told.items()} == {
        SIZES[0]: ("a100", 1.0, OWN), SIZES[1]: ("a100", 0.5, VENDORS_OWN), SIZES[3]: ("a100", 1.0, OWN)}
    mine = [one.candidate for one in chosen.kernels if (one.candidate.gpu.name, one.candidate.layout) == ("a100", "nn")]
    assert len({one.scheme for one in told.values()}) > 1
    for size, one in told.items():
        best = min(mine, key=lambda candidate: candidate.seconds[of.sizes.index(size)])
        assert (one.seconds, one.error, one.scheme) == (best.seconds[of.sizes.index(size)], float(best.plan.hash[-1]), best.plan.scheme.name)


def test_estimates_of_batches_are_fitted_to_a_quarter_and_four_times_as_many_products_and_to_two_at_least(monkeypatch):
    fitted = {}
    monkeypatch.setattr(made, "_fitted", lambda one, sizes, seconds, heavy: fitted.update({one.name: [tuple(map(int, size)) for size in sizes]}))
    one = SimpleNamespace(name="strided", estimate=None, routine={}, strided=True, seconds_of=lambda sizes: np.ones(len(sizes)))
    made.estimates(SimpleNamespace(sizes=((64, 32, 16, 1), (64, 32, 16, 2), (8, 8, 8, 16)), kernels=(SimpleNamespace(candidate=one, plan=None),)))
    assert fitted == {"strided": [(8, 8, 8, 4), (8, 8, 8, 16), (8, 8, 8, 64), (64, 32, 16, 2), (64, 32, 16, 8)]}


def test_the_first_kernel_is_the_one_for_large_products():
    """One that is good at all small sizes gains more, and would leave large products to a bad one."""
    of = library(kernels_at_most=4)
    found = candidates(1, of, each=1)
    for gpu in of.gpus:
        for layout in of.file.layouts:
            seconds = np.array([9.0, 9.0, 0.5, 9.0])
            found.append(Candidate("here", gpu, layout, seconds, seconds, settled=SimpleNamespace(hash=f"large {gpu.name} {layout}", gpu=gpu, layout=layout)))
    assert all(one.plan.hash.startswith("large") for one in Pool(of, found).choose().kernels)


def test_near_ties_go_to_the_solvers_own_choice():
    of = library(kernels_at_most=4)
    found = []
    for gpu in of.gpus:
        for layout in of.file.layouts:
            for name, seconds, preferred in (("other", 1.0, ()), ("own", 1.01, range(4))):
                times = np.full(4, seconds)
                found.append(Candidate("here", gpu, layout, times, times, frozenset(preferred), settled=SimpleNamespace(hash=name, gpu=gpu, layout=layout)))
    assert {one.plan.hash for one in Pool(of, found).choose().kernels} == {"own"}


def test_near_ties_of_a_format_go_to_the_solvers_choice_among_its_tiles(monkeypatch):
    """Its own choice has other tiles, whose words nobody else reads."""
    monkeypatch.setattr(Candidate, "format", property(lambda self: None if self.unpacked else self.label or None))
    of = library(kernels_at_most=4, packed=True)
    found = [
        Candidate("here", gpu, layout, np.full(4, seconds), np.full(4, seconds), alike=frozenset(alike), label="x",
                  settled=SimpleNamespace(hash=name, gpu=gpu, layout=layout))
        for gpu in of.gpus for layout in of.file.layouts for name, seconds, alike in (("other", 1.0, ()), ("own", 1.01, range(4)))
    ]
    assert {one.plan.hash for one in Pool(of, found).choose().kernels} == {"own"}


def test_large_products_with_packed_operands_are_read_once_by_tiles_that_two_warpgroups_share():
    """One pass leaves the words of two, so that kernels of both are of one format; and where power binds, a warpgroup alone is slower."""
    use = [{"split": {"scheme": "scaled"}, "fragment": {"policy": "wgmma"}, "tile": {"split_k": 1}}]
    of = solved(use=use, gpus=["h200"], layouts=["nn"], kernels_at_most=3, packed=True, sizes=[[size] * 3 for size in (512, 1024, 2048, 4096, 8192)])
    kernels = own(choice.pool(of)).choose().kernels
    assert len({one.candidate.format for one in kernels}) == 1
    assert {one.plan.launches.splits_whole for one in kernels} == {False, True}
    [large] = [one.plan for one in kernels if (8192, 8192, 8192, 1) in one.sizes]
    assert large.launches.splits_whole and large.block[0] * large.block[1] >= 2 * large.warp[0] * large.warp[1]


def test_what_the_compiler_refuses_is_not_chosen_again():
    of = library(kernels_at_most=4)
    pool = Pool(of, candidates(3, of, each=2))
    refused = ResourceError("kernel", "spills registers to memory")
    first = pool.choose().kernels[0].plan
    pool.refuse(first, refused)
    again = pool.choose()
    assert first.hash not in {one.plan.hash for one in again.kernels}
    assert again.refused == ((first, refused),)
    pool.refuse(again.kernels[0].plan, refused)
    with pytest.raises(InfeasibleSpec) as caught:
        pool.choose()
    assert caught.value.problem.startswith("no [[use]] has a kernel for a100, nn")


def test_kernels_end_c_themselves():
    """Those of specs, for one product and for batches, and those of dispatch tables (below)."""
    of = solved(use=[{"scheme": "ootomo"}], gpus=["a100"], layouts=["nt"], kernels_at_most=4, batched=True, sizes=[[512] * 3, [64, 64, 64, 100]])
    kernels = choice.pool(of).choose().kernels
    assert {one.candidate.strided for one in kernels} == {False, True} and {one.plan.epilogue for one in kernels} == {FUSED}


def test_fewer_kernels_than_groups_are_refused():
    of = library(kernels_at_most=3)
    with pytest.raises(SpecError) as caught:
        Pool(of, candidates(0, of)).choose()
    assert caught.value.needs == "at least 4"


def test_packed_use_takes_kernels_of_one_format(monkeypatch):
    """The format whose kernels are best together, though others have faster ones at some size."""
    monkeypatch.setattr(Candidate, "format", property(lambda self: None if self.unpacked else self.label or None))
    of = library(kernels_at_most=8, packed=True)
    times = {"x1": (1, 9, 9, 9), "x2": (9, 1, 9, 9), "y1": (2, 2, 9, 9), "y2": (9, 9, 1, 1)}
    found = [
        Candidate("here", gpu, layout, np.array(seconds, float), np.array(seconds, float), label=name[:1],
                  settled=SimpleNamespace(hash=f"{name} {gpu.name} {layout}", gpu=gpu, layout=layout))
        for gpu in of.gpus for layout in of.file.layouts for name, seconds in times.items()
    ]
    assert {one.plan.hash.split()[0] for one in Pool(of, found).choose().kernels} == {"y1", "y2"}


def test_kernels_that_split_on_the_way_stand_beside_those_of_the_format(monkeypatch):
    """They are taken where they gain, and packed products of few rows still have a kernel of their own."""
    monkeypatch.setattr(Candidate, "format", property(lambda self: None if self.unpacked else self.label or None))
    times = {"x1": (9, 9, 1, 9), "x2": (9, 3, 9, 2), "": (1, 1, 9, 1.9)}

    def hashes(packed: bool) -> set[str]:
        of = library(kernels_at_most=12, packed=packed)
        found = [
            Candidate("here", gpu, layout, np.array(seconds, float), np.array(seconds, float), label=name[:1],
                      settled=SimpleNamespace(hash=name, gpu=gpu, layout=layout))
            for gpu in of.gpus for layout in of.file.layouts for name, seconds in times.items()
        ]
        kernels = Pool(of, found).choose().kernels
        assert all(one.reason == "for products whose B is packed" for one in kernels if one.plan.hash == "x2")
        return {one.plan.hash for one in kernels}

    assert hashes(packed=True) == {"", "x1", "x2"}
    assert hashes(packed=False) == {"", "x1"}


def strided_among(of: choice.LoadedLibrary) -> list[Candidate]:
    """For each GPU and layout three kernels of two formats for single products, and two for strided batches alone, of no format."""
    times = {"x1": (1, 9, 9, 9), "x2": (9, 1, 9, 9), "y1": (8, 8, 9, 9), "small batches": (np.inf, np.inf, 7, 9), "large batches": (np.inf, np.inf, 9, 8)}
    return [
        Candidate("here", gpu, layout, np.array(seconds, float), np.array(seconds, float), label=name[:1], strided="batches" in name,
                  settled=SimpleNamespace(hash=f"{name} {gpu.name} {layout}", gpu=gpu, layout=layout))
        for gpu in of.gpus for layout in of.file.layouts for name, seconds in times.items()
    ]


BATCHED = ((64, 64, 64, 1), (4096, 4096, 4096, 1), (64, 64, 64, 8), (4096, 4096, 256, 8))


@pytest.mark.parametrize(("most", "batches"), [(4, 0), (6, 2), (8, 4)])
def test_with_packed_words_each_group_gets_a_kernel_for_batches_where_there_is_room(most, batches, monkeypatch):
    """Those for large products of either kind, however much smaller ones gain; single products have one format all the same."""
    monkeypatch.setattr(Candidate, "format", property(lambda self: None if self.strided or self.unpacked else self.label))
    of = library(kernels_at_most=most, packed=True, batched=True)
    monkeypatch.setattr(type(of), "sizes", BATCHED)
    chosen = Pool(of, strided_among(of)).choose().kernels
    strided = [one for one in chosen if one.candidate.strided]
    assert [one.plan.hash.split()[0] for one in strided] == ["large"] * batches
    assert not any(size[3] == 1 for one in strided for size in one.sizes)
    assert {one.plan.hash[0] for one in chosen if not one.candidate.strided} == {"x"} and len(chosen) == most


def test_where_kernels_for_batches_alone_are_left_there_is_none():
    of = library(kernels_at_most=4)
    found = [one for one in candidates(3, of, each=1)]
    with pytest.raises(InfeasibleSpec):
        Pool(of, [replace(one, strided=one.layout == "nt") for one in found]).choose()


# ---- with the solver


SMALL = ((128, 128, 128), (1024, 1024, 1024))


def own(pool: Pool) -> Pool:
    """The same without plain FP32, which every library may take."""
    return replace(pool, candidates=[one for one in pool.candidates if one.place != choice.PLAIN_PLACE])


def solved(**more):
    return library_from({"name": "lab", "gpus": ["a100"], "layouts": ["nn"], "sizes": [list(size) for size in SMALL], "kernels_at_most": 2, **more})


FIXED = {"split": {"scheme": "ootomo", "where": "prepass"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "pipeline": {"stages": 3}}


def test_candidates_times_are_the_models_at_every_size():
    [pool_of] = [choice.pool(solved(use=[FIXED]))]
    one = pool_of.candidates[0]
    assert one.plan.block == (64, 64, 32)
    for at, (m, n, k, _) in enumerate(pool_of.library.sizes):
        hints = type(one.plan.hints)(m, n, k)
        assert one.seconds[at] == pytest.approx(replace(one.plan, hints=hints).model["seconds"], rel=1e-9)


@pytest.mark.parametrize(("scheme", "policy", "more"), [
    ("bf16x6_apart", "mma", {"split_k": 4}), ("bf16x6_apart", "mma", {"split_k": 1}), ("scaled", "mma", {"split_k": 1}), ("scaled", "wgmma", {"split_k": 1}),
])
def test_what_is_set_to_zero_is_counted_as_an_operation(scheme, policy, more):
    """Slices of k count, and blocks raise maxima, in memory that is zero first; the counters' is not for calls of which nobody reads them."""
    use = [{"split": {"scheme": scheme}, "fragment": {"policy": policy}, "tile": more}]
    for one in choice.pool(solved(use=use, gpus=["h200"], sizes=[[256, 256, 256], [4096, 4096, 4096]])).candidates[::7]:
        hints = type(one.plan.hints)(256, 256, 256)
        apart = one.single[0] - replace(one.plan, hints=hints).model["seconds"]
        zeroed = [buffer.name for buffer in interface(one.plan).buffers if buffer.zeroed and buffer.factor and buffer.name != STATUS]
        if np.isfinite(apart):  # a single pass is for large products alone
            assert apart == pytest.approx(one.gpu.measured.launch_seconds.value if zeroed else 0.0, abs=1e-9), zeroed
        else:
            assert not zeroed


def test_a_design_that_does_not_have_the_scheme_takes_none_from_the_others():
    """The straight design is asked about small products, and has no scales of rows."""
    asked = [("", loads({"split": {"scheme": "scaled"}, "target": {"gpu": "a100"}}))]
    [one] = {one.request.design.name for one in choice.candidates_of("here", asked, GPUS.get("a100"), [(128, 128, 128, 1)])[1]}
    assert one == "portable"


def test_small_products_get_kernels_of_one_launch():
    """Which the large sizes that decide a library's schemes and intervals of promotion do not have."""
    use, sizes = [{"scheme": "scaled"}, {"scheme": "bf16x6_apart"}], [[size] * 3 for size in (64, 256, 4096)]
    chosen = choice.pool(solved(use=use, gpus=["h200"], sizes=sizes, kernels_at_most=4, packed=True)).choose()
    small = next(one for one in chosen.kernels if (64, 64, 64, 1) in one.sizes)
    assert (small.plan.design.name, small.plan.scheme.name, small.plan.split_k) == ("straight", "bf16x6_apart", 1)


def test_all_kernels_promote_as_the_specs_own_sizes_ask():
    """A kernel for short sums serves long ones, too: it must not err more because it was chosen at a short one."""
    found = own(choice.pool(solved(use=[{"split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32]}}])))
    assert {one.plan.promote for one in found.candidates} == {128}


def test_a_use_that_asks_for_an_accuracy_has_kernels_of_each_scheme_that_gives_it():
    """Not of the one that the solver prefers where nothing is asked."""
    use = loads({"problem": {"type": "f64"}, "accuracy": {"as": "fp64"}, "target": {"gpu": "t4"}})
    schemes = [one.scheme.name for one in requests(use)]
    assert len({*schemes}) > 1 and [one.spec.split.scheme for one in candidate_kernels._variants(use, [{}])] == schemes


def test_a_spec_on_another_gpu_keeps_what_is_there(tmp_path):
    (tmp_path / "hopper.toml").write_text(
        '[split]\nscheme = "ootomo"\n[fragment]\npolicy = "wgmma"\n[tile]\nblock = [64, 64, 64]\nwarp = [64, 64, 64]\n[target]\ngpu = "h100"\n'
    )
    use = [{"spec": str(tmp_path / "hopper.toml")}]
    on_a100 = own(choice.pool(solved(use=use)))
    assert on_a100.relaxed and "left open" in on_a100.relaxed[0]
    assert {one.request.fragment.policy for one in on_a100.candidates} == {"mma"}
    on_h100 = own(choice.pool(solved(use=use, gpus=["h100"])))
    assert not on_h100.relaxed
    assert {(one.request.fragment.policy, one.plan.block) for one in on_h100.candidates} == {("wgmma", (64, 64, 64))}


def test_where_no_kernel_is_found_the_reason_is_told():
    with pytest.raises(InfeasibleSpec) as caught:
        choose(solved(use=[{"scheme": "ootomo", "gpus": ["a100"]}, ], gpus=["a100", "h100"], kernels_at_most=4))
    assert "no [[use]] has a kernel for h100, nn" in caught.value.problem
    with pytest.raises(InfeasibleSpec) as caught:
        choose(solved(use=[{"scheme": "bf16x3"}], gpus=["t4"]))
    assert "bf16" in caught.value.got


def test_kernels_of_a_library_of_the_same_bits_have_one_scheme():
    """Where plain FP32 is faster at every size, too, and where scheme = "auto" would be words."""
    chosen = choose(solved(use=[{"scheme": "auto"}], gpus=["rtx4090"], reproducible=True, sizes=[[512] * 3]))
    assert {one.plan.scheme.name for one in chosen.kernels} == {"residues7"}


def test_strided_batches_are_weighed_as_one_launch():
    fixed = {"split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "tile": {"block": [64, 64, 64]}}
    found = choice.pool(solved(use=[fixed], gpus=["h100"], batched=True, sizes=[[128, 128, 128], [128, 128, 128, 64]]))
    kinds = {one.plan.kind.name: one for one in found.candidates}
    assert set(kinds) == {"gemm", "strided"}
    assert {(one.plan.kind.name, *one.alike) for one in found.candidates} == {("gemm", 0), ("strided", 1)}, "each is asked at its own sizes"
    assert kinds["gemm"].seconds[1] == pytest.approx(64 * kinds["gemm"].seconds[0])
    assert np.isinf(kinds["strided"].seconds[0]), "it is for batches alone"
    assert kinds["strided"].seconds[1] < kinds["gemm"].seconds[1] / 4
    grouped = choice.pool(solved(use=[{"scheme": "ootomo"}], gpus=["mi300x"], batched=True, sizes=[[128, 128, 128], [128, 128, 128, 64]]))
    assert {one.plan.launches.of_products for one in grouped.candidates} == {False}
    chosen = found.choose()
    assert {one.plan.kind.name: one.sizes for one in chosen.kernels} == {"gemm": ((128, 128, 128, 1),), "strided": ((128, 128, 128, 64),)}
    assert chosen.kernels[0].reason.startswith("predicted to be the fastest here at")


def test_estimates_tell_the_models_times():
    found = choice.pool(solved(use=[FIXED], sizes=[[size, size, size] for size in (128, 256, 512, 1024, 2048, 4096)]))
    chosen = found.choose()
    told = estimates(chosen)[0].seconds(*np.array(chosen.sizes)[:, :3].T)
    assert np.abs(np.log(told / chosen.kernels[0].candidate.single)).max() < 0.25


def test_by_its_estimates_a_library_takes_kernels_that_are_nearly_the_best_of_its_own():
    """At sizes that nobody told it, on the line of those that decide between kernels of one pass and of two, of few and of many warps."""
    of = solved(use=[{"scheme": "scaled"}, {"scheme": "bf16x6_apart"}], gpus=["h200"], kernels_at_most=12, packed=True,
                sizes=[[size] * 3 for size in (64, 128, 256, 512, 1024, 2048, 4096, 8192)] + [[64, 4096, 4096], [4096, 64, 4096], [4096, 4096, 256]])
    chosen = choice.pool(of).choose()
    sizes = np.rint(np.exp(np.random.default_rng(7).uniform(np.log(64), np.log(8192), (500, 3)))).astype(int)
    seconds = np.stack([one.candidate.seconds_of(np.column_stack([sizes, np.ones(500, int)])) for one in chosen.kernels])
    told = np.where(np.isfinite(seconds), np.stack([one.seconds(*sizes.T) for one in estimates(chosen)]), np.inf)
    regret = seconds[told.argmin(axis=0), np.arange(500)] / seconds.min(axis=0)
    assert np.exp(np.log(regret).mean()) < 1.008 and np.quantile(regret, 0.95) < 1.05


@pytest.mark.parametrize(("gpu", "scheme"), [("a100", "scaled"), ("rtx4090", "ootomo"), ("mi300x", "scaled")])
def test_gpus_without_wgmma_have_kernels_for_strided_batches_and_those_take_arrays_of_pointers(gpu, scheme):
    """Of the portable design's, by whose side the grouped one has products told one by one."""
    of = solved(use=[{"scheme": scheme}], gpus=[gpu], kernels_at_most=2, batched=True, sizes=[[128, 128, 128], [128, 128, 128, 64]])
    chosen = choice.pool(of).choose()
    [strided] = [one.plan for one in chosen.kernels if one.candidate.strided]
    assert (strided.design.name, strided.launches.repeated, strided.batch.pointers) == ("strided", True, True)
    assert not any(one.plan.batch for one in chosen.kernels if not one.candidate.strided)


def test_estimates_of_kernels_for_batches_tell_the_models_times_of_batches():
    fixed = {"split": {"scheme": "scaled"}, "fragment": {"policy": "wgmma"}, "tile": {"block": [128, 128, 64]}}
    found = choice.pool(solved(use=[fixed], gpus=["h100"], packed=True, batched=True, sizes=[[4096, 4096, 4096], *map(list, BATCHES)]))
    chosen = found.choose()
    [(one, estimate)] = [(one.candidate, estimate) for one, estimate in zip(chosen.kernels, estimates(chosen)) if one.plan.kind.name == "strided"]
    more = [(1024, 128, 1024, 32), (1024, 1024, 128, 200), (300, 300, 300, 100), (2048, 128, 2048, 64)]
    sizes = np.array([*BATCHES, *more])
    off = estimate.seconds(*sizes.T) / one.seconds_of(sizes)
    assert one.seconds_of(sizes[:1])[0] == pytest.approx(one.seconds[1])
    assert 1 / 1.2 < off.min() and off.max() < 1.2


def test_words_that_do_not_span_fp32_behind_a_shim_are_told(gemmgen, tmp_path):
    (tmp_path / "lab.toml").write_text(
        'name = "lab"\ngpus = ["a100"]\nlayouts = ["nn"]\nkernels_at_most = 1\nsizes = [[512, 512, 512]]\nshim = ["cublas"]\n'
        '[[use]]\n[use.split]\nscheme = "ootomo"\nwhere = "prepass"\n[use.tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n[use.pipeline]\nstages = 3\n')
    ran = gemmgen("library", tmp_path / "lab.toml", "--dry-run")
    assert ran.code == 0 and "[[use]] 1: ootomo has f16 words" in ran.err and "above 6.55e+04" in ran.err and 'scheme = "scaled"' in ran.err
    assert not choose(solved(use=[FIXED])).notes, "no shim, no program that does not know what it calls"
    narrow = {one.name for one in SCHEMES.rows() if not one.precision.spans_fp32}
    assert {"ootomo", "half", "egemm"} <= narrow and not narrow & {"scaled", "bf16x3", "tf32x3", "fp32", "mixpert3", "e4m3x6", "residues8"}


def test_least_squares_that_are_not_negative():
    draw = np.random.default_rng(5)
    for _ in range(20):
        matrix, wanted = draw.normal(size=(12, 4)), draw.normal(size=12)
        found = non_negative(matrix, wanted)
        gradient = matrix.T @ (matrix @ found - wanted)
        assert (found >= 0).all() and (gradient >= -1e-9).all() and np.abs(gradient * found).max() < 1e-9  # Karush, Kuhn and Tucker's conditions


# ---- by hand


def of_seconds(seconds, *, gpu="a100", layout="nn", **more) -> Candidate:
    times = np.array(seconds, float)
    return Candidate("here", GPUS.get(gpu), layout, times, times, preferred=frozenset(range(len(times))), settled=SimpleNamespace(hash=str(seconds)), **more)


def test_what_a_kernel_is_for_is_told():
    sizes = ((64, 32, 16, 1), (64, 32, 16, 256), (1, 2, 3, 2), (4, 5, 6, 1), (7, 8, 9, 1))
    assert choice.told(sizes[0]) == "64x32x16" and choice.told(sizes[1]) == "256 of 64x32x16"
    served = choice.Served(SimpleNamespace(routine=None), None, sizes)
    assert served.reason == "predicted to be the fastest here at 64x32x16, 256 of 64x32x16, 2 of 1x2x3 and 2 more"
    assert replace(served, sizes=sizes[:3]).reason.endswith("2 of 1x2x3")
    assert replace(served, sizes=(), packed=True).reason == "for products whose B is packed"
    assert replace(served, sizes=()).reason == "taken where the library is asked for it"
    assert choice.Served(SimpleNamespace(routine={"kind": "syrk"}), None, sizes).reason == "the best kernel of its routine for 5 sizes together"


def test_what_the_compiler_refuses_gives_way_and_nothing_is_compiled_twice(monkeypatch):
    plans = {name: SimpleNamespace(hash=name) for name in "abcdp"}
    spills = {name: ResourceError("kernel", f"{name} spills") for name in "abcd"}

    class Found:
        def __init__(self, *choices):
            self.choices, self.refused = iter(choices), []

        def choose(self):
            return SimpleNamespace(kernels=[SimpleNamespace(plan=plans[name]) for name in next(self.choices)])

        def refuse(self, plan, error):
            self.refused.append((plan.hash, error))

    def each(target, left):
        assert target is made.compiled
        asked.append([one.hash for one in left])
        return [bad.get(one.hash, f"built {one.hash}") for one in left]

    asked, told, bad, found = [], [], {"b": spills["b"]}, Found("aba", "ac", "ac")
    choice, built = made._accepted(found, [plans["p"]], each, told.append)
    assert asked == [["a", "b", "p"], ["c"]] and found.refused == [("b", spills["b"])] and [one.plan.hash for one in choice.kernels] == ["a", "c"]
    assert built == {name: f"built {name}" for name in "apc"}
    assert told == ["compile kernel 1 of 3", "compile kernel 2 of 3", "compile kernel 3 of 3", "compile kernel 1 of 1"]
    monkeypatch.setattr(made, "TRIES", 2)
    bad.update(spills)
    with pytest.raises(ResourceError) as refused:
        made._accepted(found := Found("a", "b", "c"), [], each, told.append)
    assert refused.value is spills["b"] and [name for name, _ in found.refused] == ["a", "b"]


def test_a_kernel_is_compiled_without_lines_or_the_refusal_is_its_value(monkeypatch):
    plan, error = SimpleNamespace(), ResourceError("kernel", "spills")
    monkeypatch.setattr(made, "render", lambda one: ("source of", one))
    monkeypatch.setattr(made, "build", lambda source, line_info: ("binary of", source, line_info))
    assert made.compiled(plan) == made.Built(plan, ("source of", plan), ("binary of", ("source of", plan), False))

    def refuse(source, line_info):
        raise error

    monkeypatch.setattr(made, "build", refuse)
    assert made.compiled(plan) is error


def test_a_size_counts_by_the_square_root_of_its_mean_extent_and_all_of_its_products():
    assert choice.weights(((64, 64, 64, 1), (256, 64, 16, 1), (16, 16, 16, 1), (16, 16, 16, 64))) == pytest.approx([8, 8, 4, 8])


def test_costs_are_logarithms_over_the_best_of_each_group_and_size(monkeypatch):
    """A kernel of another group, and one that does not serve a size, cost more than the slowest of those that do."""
    monkeypatch.setattr(Candidate, "format", property(lambda self: self.label or None))
    groups, sizes = [("a100", "nn", "f32"), ("a100", "nt", "f32")], ((64, 64, 64, 1), (16, 16, 16, 64))
    found = [of_seconds((1, 8)), of_seconds((4, 2), label="x"), of_seconds((np.inf, 4)), of_seconds((3, 5), layout="nt")]
    logs, heavy = choice.costs(found, groups, sizes)
    ratios = np.exp(logs)
    assert ratios[:2, :2] == pytest.approx(np.array([[1, 4], [4, 1]])) and ratios[2, 1] == pytest.approx(2) and ratios[3, 2:] == pytest.approx([1, 1])
    assert ratios[2, 0] == pytest.approx(UNSERVED * 4) and ratios[3, 1] == pytest.approx(UNSERVED * 4)
    assert ratios[:3, 2:] == pytest.approx(np.full((3, 2), UNSERVED))
    assert heavy == pytest.approx([0.25] * 4)
    # with words that were packed once, a single product counts once more, for those alone that read them
    logs, heavy = choice.costs(found[:3], groups[:1], sizes, packed=True)
    assert np.exp(logs)[:, 2] == pytest.approx([UNSERVED, 1, UNSERVED]) and heavy == pytest.approx([1 / 3] * 3)


def test_of_each_n_and_k_of_a_tile_the_best_is_a_candidate_unless_it_is_slow():
    columns = {"seconds": np.array([3, 1, 1.2, 1.4, 1.6, 1.5]), "BN": np.array([64, 64, 64, 32, 16, 64]), "BK": np.array([16, 32, 32, 32, 32, 64])}
    order = np.argsort(columns["seconds"], kind="stable")
    assert candidate_kernels._best_of_tiles(columns, order) == [1, 3, 5], "1.5 times the best is not slow"
    many = {"seconds": np.ones(20), "BN": np.arange(20), "BK": np.ones(20, int)}
    assert candidate_kernels._best_of_tiles(many, np.arange(20)) == list(range(candidate_kernels.MOST_TILES)) == list(range(12))


def test_a_dispatch_tables_kernels_take_what_it_tells_for_each_product():
    told = {"tile": [64, 32], "slices": 2, "sms": 108, "launch": 1e-6, "wave": 2e-6, "step": 1e-9, "operand": 1e-12, "output": 2e-12}
    spec = {**FIXED, "target": {"gpu": "a100"}}
    table = SimpleNamespace(kernels={
        label: SimpleNamespace(gpu=gpu, layout="nn", spec=spec, estimate=Estimate(**told)) for label, gpu in (("k1", "a100"), ("k2", "h100"))})
    [one] = candidate_kernels.of_table("here", table, GPUS.get("a100"), "nn", ((128, 64, 100, 1), (1000, 1000, 64, 5)))
    waves = -(-16 * 32 * 2 // 108)
    single = [1e-6 + 2e-6 + 50e-9 + 1e-12 * 192 * 100 + 2e-12 * 128 * 64, 1e-6 + waves * (2e-6 + 32e-9) + 1e-12 * 2000 * 64 + 2e-12 * 1e6]
    assert one.single == pytest.approx(single) and one.seconds == pytest.approx([single[0], 5 * single[1]])
    assert (one.label, one.plan.block, one.estimate.slices, one.strided, one.plan.epilogue) == ("k1", (64, 64, 32), 2, False, FUSED)


def test_sizes_that_are_drawn_lie_among_the_librarys_and_half_of_them_on_multiples_of_32():
    drawn = made._drawn(np.array([[64, 128, 256], [4096, 512, 1024]]))
    assert drawn.shape == (made.DRAWN, 3) and drawn.min() >= 64 and drawn.max() <= 4096
    assert (drawn[::2] % 32 == 0).all() and (drawn[1::2] % 32 == 0).mean() < 0.2
    logs = np.log(drawn) - np.log(64)
    assert 0.4 < (logs / np.log(64)).mean() < 0.6, "evenly on a logarithmic scale"


def test_complex_products_are_chosen_by_the_real_ones_that_stand_for_them():
    """By letters, without an end; seconds, estimates and verdicts are of m x 2n x 2k."""
    of = library_from({"name": "lab", "gpus": ["h200"], "layouts": ["cn"], "kernels_at_most": 1, "sizes": [[512, 512, 512], [4096, 2048, 1024]],
                       "use": [{"scheme": "run_scaled", "type": "c64"}]})
    chosen = choice.pool(of).choose()
    assert {one.candidate.group for one in chosen.kernels} == {("h200", "cn", "c64")}
    *_, one = chosen.kernels
    assert not any(one.plan.epilogue or one.plan.kind.layout_of(one.plan.layout) != one.candidate.layout for one in chosen.kernels)
    problem = {"type": "c64", "layout": one.candidate.layout, "m": 4096, "n": 2048, "k": 1024}
    best = solve(loads({"problem": problem, "split": {"scheme": "run_scaled"}, "target": {"gpu": "h200"}}))
    assert one.candidate.seconds[1] == pytest.approx(float(best.model["seconds"]), rel=0.1)
    estimate = made.estimates(chosen)[list(chosen.kernels).index(one)]
    assert float(estimate.seconds(4096, 4096, 2048)) == pytest.approx(one.candidate.seconds[1], rel=0.1)
    told = {one.m: one for one in chosen.verdicts if one.element == "complex FP32"}[4096]
    assert (told.fp32, told.fp32_seconds) == ("the vendor's CGEMM", sgemm_seconds(GPUS.get("h200"), 4096, 4096, 2048))
    [line] = [line for line in choice_text(of, chosen).splitlines() if line.startswith("h200 ")]
    assert line.split()[1:6] == ["cn", "run_scaled", one.plan.fragment.policy, "cgemm", "c64"] and choice_value(chosen)["kernels"][0]["layout"] == "cn"


def test_words_of_complex_numbers_that_lose_magnitudes_are_told():
    served = [choice.Served(replace(candidate, element=element), plan_of("half", type=element), ()) for element in ("f32", "c64")
              for candidate in candidates(0, library(), 1)[:1]]
    assert len(choice.narrow(served[1:])) == len(choice.narrow(served[:1])) == 1


def test_types_of_elements_are_groups_of_their_own():
    """Each gets a kernel, of FP64 without the end that a call asks of FP32, and whatever native FP64 takes; verdicts are beside it."""
    of = library_from({"name": "lab", "gpus": ["mi300x"], "layouts": ["nn"], "kernels_at_most": 2, "sizes": [[512, 512, 512], [4096, 4096, 4096]],
                       "use": [{"scheme": "residues14"}, {"scheme": "scaled"}]})
    assert [one.name for one in of.elements] == ["f32", "f64"]
    found = choice.pool(of)
    chosen = found.choose()
    assert [(one.candidate.group, one.plan.scheme.name, bool(one.plan.epilogue)) for one in chosen.kernels] == [
        (("mi300x", "nn", "f32"), "scaled", True), (("mi300x", "nn", "f64"), "residues14", False)]
    assert {one.element for one in chosen.verdicts} == {"FP32", "FP64"} and all(one.fp32 == "native FP64" and one.loses for one in chosen.verdicts if one.element == "FP64")
    assert not choice.narrow(chosen.kernels)
    for one in (one for one in found.candidates if one.element == "f64"):
        found.refuse(one.plan, ResourceError("kernel", "spills", needs="0", has="9"))
    with pytest.raises(InfeasibleSpec, match="has a kernel for mi300x, nn, f64") as refused:
        found.choose()
    assert refused.value.got == "spills"
    with pytest.raises(SpecError, match="times types of elements"):
        choice.pool(library_from({"name": "lab", "gpus": ["mi300x"], "layouts": ["nn"], "kernels_at_most": 1, "sizes": [[512, 512, 512]],
                                  "use": [{"scheme": "residues14"}, {"scheme": "scaled"}]})).choose()
