"""Plans of kernels for batches: tables of tiles, BatchGEMM's equations and its tiling algorithm, refusals, the ABI."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen import abi, spec
from gemmgen.batch import PROBLEM, Tile
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.generation import GENERATION_TABLE
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.output import USUAL
from gemmgen.designs.grouped import equations, refusals
from gemmgen.designs.grouped.design import Grouped, warp_of
from gemmgen.designs.grouped.tile_of_each import TileOfEach
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.kinds import GEMM, all_kinds
from gemmgen.model import batch as tilings
from gemmgen.model.equation import solved
from gemmgen.render import render
from gemmgen.run.batch import refuse_overlap
from gemmgen.solve import applicable, explain, judged, request, solve

TABLE_3 = ((16, 16, 16, 128), (16, 32, 16, 128), (32, 32, 16, 128), (32, 64, 16, 256), (64, 64, 16, 256))


def asked(gpu="h200", scheme="ootomo", kind="grouped", **sections):
    data = {"problem": {"kind": kind, "m": 264, "n": 264, "k": 264}, "split": {"scheme": scheme}, "target": {"gpu": gpu}}
    for name, values in sections.items():
        data[name] = data.get(name, {}) | values
    return spec.loads(data)


def planned(*args, **sections):
    return solve(asked(*args, **sections))


# ---- plans


@pytest.mark.parametrize("gpu", ["h200", "a100", "t4", "mi210", "mi300x", "rx7900xtx"])
@pytest.mark.parametrize("kind", ["grouped", "pointers"])
@pytest.mark.parametrize("walk", ["persistent", "workgroups"])
def test_every_gpu_has_plans_for_batches(gpu, kind, walk):
    for scheme in ("ootomo", "fp32"):
        plan = planned(gpu, scheme, kind, batch={"walk": walk})
        assert plan.kind.name == kind and plan.design.name == "grouped" and plan.batch.walk == walk
        assert plan.threads == max(tile.threads for tile in plan.batch.tiles)
        assert plan.shared_bytes <= plan.gpu.limits.shared_bytes_per_block
        assert plan.model["seconds"] > 0


def test_fp32_has_table_3_where_the_paper_has_it():
    plan = planned("a800", "fp32", batch={"walk": "workgroups"})
    assert tuple((tile.m, tile.n, tile.k, tile.threads) for tile in plan.batch.tiles) == TABLE_3
    work = {tile: (tile.m * tile.n / tile.threads, (tile.m * tile.n + tile.m * tile.k + tile.k * tile.n) / tile.threads) for tile in plan.batch.tiles}
    assert [work[tile] for tile in plan.batch.tiles] == [(2, 6), (4, 10), (8, 16), (8, 14), (16, 24)]  # as Table 3 prints them


def test_tiles_are_data_of_the_spec_and_part_of_the_identity():
    one = planned(batch={"tiles": [[32, 32, 32, 128], [64, 64, 32, 128]]})
    other = planned(batch={"tiles": [[32, 32, 32, 128], [64, 64, 16, 128]]})
    listed = planned(batch={"tiles": [[32, 32, 32, 128], [64, 64, 32, 128]], "walk": "workgroups"})
    assert len({one.hash, other.hash, listed.hash}) == 3
    assert render(one).text != render(other).text


def test_hints_and_how_many_products_are_no_part_of_the_identity():
    assert planned(problem={"m": 10, "matrices": 3}).hash == planned(problem={"m": 1000, "matrices": 300}).hash


def test_smaller_tiles_have_more_stages_in_the_same_shared_memory():
    plan = planned(batch={"tiles": [[32, 32, 32, 128], [64, 64, 32, 128]]})
    small, large = plan.own.tiles
    assert small.stages > large.stages
    from gemmgen.designs.grouped.design import stage_bytes

    assert stage_bytes(small) <= stage_bytes(large)
    # FP32: two stages of 64 x 64 are 16384 bytes; of 16 x 16 that is eight of 2048, of 16 x 32 five of 3072, of 32 x 32 four of 4096
    assert [one.stages for one in planned(scheme="fp32").own.tiles] == [8, 5, 4, 2, 2]


def test_one_product_has_no_batch():
    plan = solve(spec.loads({"target": {"gpu": "h200"}}))
    assert plan.batch is None and plan.kind is GEMM and "batch" not in plan.identity


@pytest.mark.parametrize("tiles, what", [
    ([[64, 64, 32, 128], [32, 32, 32, 128]], "larger"), ([[32, 32, 32, 256], [64, 64, 32, 128]], "threads"), ([[32, 40, 32, 128]], "warps"),
    ([[32, 32, 20, 128]], "warps"), ([[32, 32, 32, 128], [64, 64, 32, 256]], "one number of threads"), ([[16, 16, 32, 256]], "warps"),
    ([[256, 256, 32, 128]], "rows of more elements"),
])
def test_tables_that_are_none_are_refused_with_their_place(tiles, what):
    with pytest.raises(InfeasibleSpec) as caught:
        planned(batch={"tiles": tiles})
    assert what in str(caught.value) and "[batch] tiles" in caught.value.where and caught.value.remedy


MMA = {"fragment": {"policy": "mma"}}
"""Of the grouped design alone."""


@pytest.mark.parametrize("sections, where", [
    ({"tile": {"block": [64, 64, 32]}, **MMA}, "[tile] block"), ({"tile": {"split_k": 2}}, "[tile] split_k"),
    ({"pipeline": {"loads": "bulk"}, **MMA}, "[fragment] policy"), ({"split": {"where": "prepass"}, **MMA}, "[fragment] policy"),
    ({"fragment": {"policy": "wmma"}}, "[problem] kind"),
])
def test_what_a_batch_has_no_kernels_for_is_refused(sections, where):
    with pytest.raises(InfeasibleSpec) as caught:
        planned(**sections)
    assert where in caught.value.where


def test_a_c_of_another_type_is_refused(monkeypatch):
    """As another package may bring one: what tells a product has a pointer to FP32."""
    monkeypatch.setattr(request, "output_of", lambda element, c: replace(USUAL, name=c))
    monkeypatch.setattr(applicable, "all_outputs", lambda: {"f32": USUAL, "half": replace(USUAL, name="half")})
    loaded = asked()

    def changed(kind: str, **pipeline) -> LoadedSpec:  # a copy: specs share the sections that nothing is said of
        spec = loaded.spec
        sections = {"problem": spec.problem.model_copy(update={"c": "half", "kind": kind}), "pipeline": spec.pipeline.model_copy(update=pipeline)}
        return loaded.model_copy(update={"spec": spec.model_copy(update=sections)})

    for kind in ("gemm", "strided"):  # other designs serve these
        assert solve(changed(kind)).output.name == "half"
    for kind, one in all_kinds().items():
        if one.batched:
            with pytest.raises(InfeasibleSpec) as caught:
                solve(changed(kind, design="grouped"))
            assert caught.value.where.endswith("[problem] c") and caught.value.got == "half" and "f32" in caught.value.remedy


@pytest.mark.parametrize("name, value", [("tiles", [[32, 32, 32, 128]]), ("walk", "workgroups"), ("tlp", "workgroup"), ("threshold", 5)])
@pytest.mark.parametrize("kind, policy", [("gemm", "auto"), ("strided", "wgmma")])
def test_what_is_said_of_tiles_is_refused_where_a_kernel_has_one(name, value, kind, policy):
    with pytest.raises(InfeasibleSpec) as caught:
        planned(kind=kind, batch={name: value}, fragment={"policy": policy})
    assert caught.value.where.endswith(f"[batch] {name}") and caught.value.remedy
    usual = {"tiles": "auto", "walk": "auto", "tlp": "wavefront", "threshold": "auto"}
    assert planned(kind=kind, batch=usual, fragment={"policy": policy}).hash == planned(kind=kind, fragment={"policy": policy}).hash


def test_a_strided_batch_of_which_tiles_are_told_is_the_grouped_designs():
    assert planned(kind="strided").design.name != "grouped"
    assert planned(kind="strided", batch={"tiles": [[32, 32, 32, 128]]}).design.name == "grouped"


def test_row_scales_are_refused():
    with pytest.raises(InfeasibleSpec, match="scale"):
        planned(scheme="scaled")


@pytest.mark.parametrize("gpu, stages, number", [
    ("h200", 9, "C41"), ("mi210", 3, "C42"), ("t4", 3, "C42"), ("h200", 8, None), ("mi210", 2, None), ("b200", 9, "C69"), ("b200", 8, None),
])
def test_stages_that_a_kernel_would_not_have_are_refused(gpu, stages, number):
    loaded = asked(gpu, "fp32" if gpu == "h200" else "ootomo", pipeline={"stages": stages})
    if gpu == "b200":  # the straight design's, of one product
        loaded = spec.loads({"problem": {"m": 17, "n": 64, "k": 64}, "split": {"scheme": "ootomo"}, "target": {"gpu": gpu},
                             "pipeline": {"design": "straight", "stages": stages}, "tile": {"block": [16, 8, 16], "warp": [16, 8, 16]}})
    if number is None:
        assert judged(loaded).plan.stages == stages
        return
    for decide in (solve, judged):
        with pytest.raises(InfeasibleSpec) as caught:
            decide(loaded)
        assert caught.value.where.endswith("[pipeline] stages") and caught.value.got == stages and "stages = " in caught.value.remedy
    assert f"it breaks {number}" in caught.value.problem


def test_a_candidate_of_a_batchs_kernel_is_judged(gemmgen, write_spec):
    path = write_spec('[problem]\nkind = "grouped"\n[target]\ngpu = "h200"\n')
    ran = gemmgen("explain", path, "--candidate", "stages=3", "--full")
    assert ran.code == 0 and "64x64x32 on 128 threads, warps of 32x32, 3 stages" in ran.out
    ran = gemmgen("explain", write_spec('[problem]\nkind = "grouped"\n[target]\ngpu = "h200"\n[solve]\nrequire = ["shared_bytes < 9"]\n'), "--candidate", "stages=3")
    assert ran.code and "it breaks U1, shared_bytes < 9" in ran.err and "Traceback" not in ran.err


# ---- BatchGEMM's equations


def test_active_wavefronts_of_the_mi210_are_the_papers():
    """Eqs. 5 to 9 with an MI210's numbers as the paper writes them: 16 workgroups, 4 SIMDs of 512 registers a lane, 64 KB of LDS."""
    plan = planned("mi210", "fp32", batch={"walk": "workgroups"})
    known = plan.numbers
    threads, registers, lds = known["threads"], known["registers"], known["shared_bytes"]
    vgprs = 512 * 64
    used = -(-registers // 8) * 8
    wg = known["blocks_per_sm"] * -(-threads // 64)
    assert known["WF_wg"] == wg
    assert known["WF_V"] == 4 * (vgprs // (used * 64))
    assert known["WF_L"] == (65536 // lds) * -(-threads // 64)
    assert known["WF"] == min(wg, known["WF_V"], known["WF_S"], known["WF_L"], 32)
    assert known["most_wavefronts"] == known["WF"] * plan.gpu.rates.sms
    assert known["kernel_occupancy"] == known["WF"] * 64 / 2048


def test_new_and_old_tlp():
    known = {"workgroups": 100, "T_workgroup": 256, "wavefronts": 400, "WF": 12, "sms": 8, "warp_size": 64}
    known = solved((tilings.TLP_OLD, tilings.TLP_NEW), known)
    assert known["tlp_old"] == 25600 and known["tlp_new"] == 12 * 8 * 64
    assert tilings.TLP_NEW.value(known | {"wavefronts": 40}) == 40 * 64


def test_of_every_tile_count_its_own_wavefronts_or_those_of_a_workgroup():
    new, old = (planned("mi210", "fp32", batch={"tiles": TABLE_3, "walk": "workgroups", "tlp": tlp}) for tlp in ("wavefront", "workgroup"))
    assert new.own.tile_wavefronts == (2, 2, 2, 4, 4) and old.own.tile_wavefronts == (4,) * 5
    one = np.array([[16, 16, 16]])
    assert new.design.tiling(new, one).tlp == 2 * 64 and old.design.tiling(old, one).tlp == 4 * 64


TILES = tuple(Tile(m, n, k, threads, (m, n)) for m, n, k, threads in TABLE_3)
WAVEFRONTS = [tile.threads // 64 for tile in TILES]


def by_hand(sizes, threshold, lanes, most, workgroup=None):
    """Algorithm 1, step by step as its text has it."""
    tile = [max([at for at, one in enumerate(TILES) if one.m <= m and one.n <= n], default=0) for m, n, _ in sizes]
    for step in range(len(TILES)):
        count = 0
        for (m, n, _), at in zip(sizes, tile):
            if m and n:
                count += -(-m // TILES[at].m) * -(-n // TILES[at].n) * (workgroup or TILES[at].threads) // lanes
        tlp = (count if workgroup else min(count, most)) * lanes
        if tlp >= threshold or step == len(TILES) - 1:
            return tile, tlp
        tile = [max(at - 1, 0) for at in tile]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("workgroup", [None, 256])
def test_the_tiling_algorithm_as_its_text_has_it(seed, workgroup):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 300, (int(rng.integers(1, 40)), 3))
    threshold = int(rng.integers(0, 60000))
    found = tilings.tiling(TILES, sizes, threshold, wavefronts=WAVEFRONTS if workgroup is None else [workgroup // 64] * len(TILES), lanes=64,
                           most_wavefronts=700 if workgroup is None else None)
    tile, tlp = by_hand([tuple(map(int, row)) for row in sizes], threshold, 64, 700, workgroup)
    whole = (sizes[:, 0] > 0) & (sizes[:, 1] > 0)
    assert found.tlp == tlp and found.tile[whole].tolist() == np.array(tile)[whole].tolist() and (found.tile[~whole] == -1).all()


def test_a_threshold_of_nothing_gives_the_largest_tiles_and_one_out_of_reach_the_smallest():
    sizes = np.array([[64, 64, 9], [33, 70, 9], [5, 5, 9]])
    assert tilings.tiling(TILES, sizes, 0, wavefronts=WAVEFRONTS, lanes=64, most_wavefronts=700).tile.tolist() == [4, 3, 0]
    assert tilings.tiling(TILES, sizes, 1 << 30, wavefronts=WAVEFRONTS, lanes=64, most_wavefronts=700).tile.tolist() == [0, 0, 0]


def test_a_threshold_that_is_just_reached_is_enough():
    """One tile of 64 x 64 is four wavefronts of 64; and of many products no more count than the GPU holds."""
    def level(count, threshold):
        return tilings.tiling(TILES, np.array([[64, 64, 9]] * count), threshold, wavefronts=WAVEFRONTS, lanes=64, most_wavefronts=700).level

    assert [level(1, threshold) for threshold in (255, 256, 257)] == [0, 0, 1] and [level(999, threshold) for threshold in (700 * 64, 700 * 64 + 1)] == [0, 4]


def test_the_list_covers_every_c_once_and_goes_from_large_to_small():
    rng = np.random.default_rng(3)
    sizes = np.tile(rng.integers(0, 150, (30, 3)), (2, 1))
    chosen = tilings.tiling(TILES, sizes, 3000, wavefronts=WAVEFRONTS, lanes=64, most_wavefronts=700)
    rows = tilings.listed(TILES, sizes, chosen)
    covered = [np.zeros((m, n), int) for m, n, _ in sizes]
    for entry, m0, n0, tile in rows:
        covered[entry][m0:m0 + TILES[tile].m, n0:n0 + TILES[tile].n] += 1
    assert all((one == 1).all() for one in covered)
    keys = [(-tile, -sizes[entry, 2], entry, m0, n0) for entry, m0, n0, tile in rows]
    assert keys == sorted(keys), "those that are alike in the order in which they were given"
    assert tilings.listed(TILES, np.zeros((0, 3), int), tilings.tiling(TILES, np.zeros((0, 3), int), 5, wavefronts=WAVEFRONTS, lanes=64, most_wavefronts=7)).shape == (0, 4)


def test_the_threshold_is_the_gpus_and_never_out_of_reach():
    plan = planned()
    assert plan.batch.threshold == plan.gpu.batch_threads == 45000 and plan.own.threshold <= plan.numbers["most_wavefronts"] * 32
    assert planned(batch={"threshold": 77}).own.threshold == 77
    assert planned("a100").batch.threshold == 108 * 2048 // 4
    new, old = (planned("mi210", "fp32", batch={"tiles": TABLE_3, "walk": "workgroups", "tlp": tlp, "threshold": 10**7}) for tlp in ("wavefront", "workgroup"))
    most = new.numbers["most_wavefronts"] * 64
    assert (new.own.threshold, old.own.threshold) == (most, 10**7) and f"enough are {most} of {most} threads" in new.design.told_of(new)["tlp"]


@pytest.mark.parametrize(("matrices", "listed"), [(0, 1), (1, 1), (256, 256), (257, 256)])
def test_an_explanation_is_of_as_many_products_as_a_list_holds(matrices, listed):
    plan = planned("h200", "fp32", problem={"matrices": matrices} if matrices else {})
    assert len(plan.design.tiling_of_hints(replace(plan, batch=replace(plan.batch, matrices=matrices))).tile) == listed


# ---- ABI


@pytest.mark.parametrize("kind, walk, wanted", [
    ("grouped", "persistent", ["problems", "batch", "blocks", "threshold", "queue", "a_status", "b_status", "repaired"]),
    ("grouped", "workgroups", ["problems", "batch", "list", "a_status", "b_status", "repaired"]),
    ("strided", "persistent", ["a", "lda", "b", "ldb", "c", "ldc", "stride_a", "stride_b", "stride_c", "m", "n", "k", "alpha", "beta", "batch", "blocks",
                               "threshold", "queue", "a_status", "b_status", "repaired"]),
    ("pointers", "workgroups", ["a", "lda", "b", "ldb", "c", "ldc", "m", "n", "k", "alpha", "beta", "batch", "list", "a_status", "b_status", "repaired"]),
])
def test_what_a_launch_is_given(kind, walk, wanted):
    plan = planned(kind=kind, batch={"walk": walk}, fragment={"policy": "mma"})
    interface = abi.interface(plan)
    assert [one.name for one in interface.launches[0].parameters] == wanted
    text = render(plan).text
    assert all(name in text for name in wanted)


def test_a_problem_is_64_bytes_as_the_kernel_reads_it():
    assert PROBLEM.itemsize == 64 and "sizeof(Problem) == 64" in render(planned()).text


def problems(*rows):
    found = np.zeros(len(rows), PROBLEM)
    for at, (c, m, n, ldc) in enumerate(rows):
        found[at]["c"], found[at]["m"], found[at]["n"], found[at]["ldc"] = c, m, n, ldc
    return found


def test_matrices_of_c_that_overlap_are_refused():
    refuse_overlap(problems((4096, 3, 5, 5), (4096 + 60, 2, 2, 2)))
    refuse_overlap(problems((4096, 3, 5, 12), (4096 + 20, 3, 7, 12)))  # side by side in the same rows
    refuse_overlap(problems((4096, 3, 5, 12), (4096 + 20, 2, 7, 12)))
    refuse_overlap(problems((4096, 2, 5, 12), (4096 + 68, 1, 7, 7)))  # behind the last row's last element
    refuse_overlap(problems((4096, 3, 5, 5), (4096, 0, 5, 5)))  # an empty one writes nothing
    with pytest.raises(SpecError) as caught:
        refuse_overlap(problems((4096, 3, 0, 5), (8192, 3, 5, 12), (8192 + 24, 3, 7, 12)))  # a column of both, in the row behind
    assert caught.value.got == "products 1 and 2"
    for rows in (((4096, 3, 5, 5), (4096 + 56, 2, 2, 2)), ((4096, 9, 5, 12), (4096 + 20, 1, 7, 12), (4096 + 48, 1, 1, 1)), ((4096, 3, 5, 12), (4096 + 16, 3, 7, 12)), ((4096, 1, 1, 1), (4096, 1, 1, 1)),
                 ((4096, 1, 5, 0), (4096, 1, 5, 0))):  # fmt: skip
        with pytest.raises(SpecError, match="same place"):
            refuse_overlap(problems(*rows))


def test_an_explanation_tells_the_tiles():
    plan = explain(asked()).plan
    told = plan.design.told_tiles(plan)
    assert [tile.name in line for tile, line in zip(plan.batch.tiles, told)] == [True] * len(plan.batch.tiles)
    table_3 = planned("mi210", "fp32", batch={"tiles": TABLE_3, "walk": "workgroups"})
    asks = [line.partition(": ")[2].partition(";")[0] for line in table_3.design.told_tiles(table_3)]
    assert asks == ["any smaller C", *(f"C of at least {m} x {n}" for m, n, *_ in TABLE_3[1:])]


@pytest.mark.parametrize(("threshold", "size", "told"), [
    (1, 64, "64x64x16 on 256, the largest that C allows: threads at work with the largest and each step down 256"),
    (257, 64, "32x64x16 on 256, 1 size below the largest that C allows: threads at work with the largest and each step down 256, 512"),
    (513, 64, "16x32x16 on 128, 3 sizes below the largest that C allows: threads at work with the largest and each step down 256, 512, 512, 1024"),
    (1, 0, "none: C has no elements"),
])
def test_an_explanation_tells_the_steps_to_the_tile(threshold, size, told):
    """Down to the first of enough threads and no further."""
    one = {"m": size, "n": size, "k": 64, "matrices": 1}
    plan = planned("mi210", "fp32", problem=one, batch={"tiles": TABLE_3, "walk": "workgroups", "threshold": threshold})
    assert plan.design.told_of(plan)["for"] == (told if not size else f"1 products of {size}x{size}x64 the tile is {told}")


def test_one_product_is_refused_by_a_kernel_for_batches():
    from gemmgen.run import gemm

    plan = planned()
    ones = np.ones((2, 2), np.float32)
    with pytest.raises(SpecError, match="is for batches"):
        gemm(None, plan, render(plan), ones, ones)


def test_thresholds_of_a_race_are_numbers():
    from gemmgen.cli.inputs import numbers_of

    assert numbers_of("--thresholds", "0,45000") == [0, 45000] and numbers_of("--thresholds", "") == []
    with pytest.raises(SpecError, match="--thresholds"):
        numbers_of("--thresholds", "many")


def test_registers_of_a_kernel_for_batches_by_hand():
    """A tile of 100 registers, constants that no row has, and every way to walk a batch (Q40)."""
    constants = {
        "per_tile": 1.5, "walk_offset": 10.0, "when_apart": 7.0, "when_staying": 20.0, "when_listed": 3.0, "per_further_tile": 5.0, "least_staying": 0.0,
        "registers_per_thread": 255, "tile_registers": 100,
    }

    def registers(staying, of_list, further_tiles, **others):
        return equations.REGISTERS.value(constants | {"staying": staying, "of_list": of_list, "further_tiles": further_tiles} | others)

    assert [registers(0, 1, 3), registers(0, 0, 1), registers(0, 0, 2)] == [160, 160, 167]
    assert [registers(1, 1, 0), registers(1, 1, 1), registers(1, 1, 4), registers(1, 0, 1), registers(1, 0, 2)] == [183, 188, 203, 180, 187]
    assert [registers(1, 1, 0, least_staying=200.0), registers(0, 1, 0, least_staying=200.0), registers(0, 1, 0, tile_registers=250)] == [200, 160, 255]
    assert registers(0, 1, 0, per_tile=1.001) == 111  # of a part of a register a whole one


def test_a_kernel_for_batches_has_its_generations_constants():
    """Of tiles on a matrix unit, and of plain multiply-adds; and what each walk asks of Q40."""
    plans = [planned(gpu, scheme, kind, batch={"walk": walk}, pipeline={"design": "grouped"}).numbers for gpu, scheme, walk, kind in (
        ("mi300x", "ootomo", "persistent", "grouped"), ("mi300x", "fp32", "workgroups", "grouped"), ("h200", "fp32", "persistent", "grouped"),
        ("h200", "ootomo", "workgroups", "strided"),
    )]
    walking = GPUS.get("mi300x").registers.walking
    assert walking == GENERATION_TABLE.get("cdna2").registers.walking and walking.matrix != walking.plain
    found = [(one["staying"], one["of_list"], one["further_tiles"], one["per_tile"], one["registers"] - one["tile_registers"]) for one in plans]
    assert found == [(1, 1, 1, walking.matrix.per_tile, 92), (0, 1, 4, walking.plain.per_tile, 27), (1, 1, 4, 1.0, 72), (0, 0, 3, 1.0, 12)]


@pytest.mark.parametrize(("rows", "walk", "problem"), [
    ([(32, 32, 64, 64), (64, 64, 64, 64)], "persistent", None),
    ([(32, 32, 128, 64)], "persistent", "tiles 1: has rows of more elements"),
    ([(32, 32, 32, 64), (128, 32, 32, 64)], "persistent", "tiles 2: has rows of more elements"),
    ([(32, 64, 32, 128), (64, 32, 32, 128)], "persistent", "tiles 2: is not larger"),
    ([(64, 32, 32, 128), (32, 64, 32, 128)], "persistent", "tiles 2: is not larger"),
    ([(64, 64, 32, 128), (64, 64, 64, 128)], "persistent", "tiles 2: is not larger"),
    ([(32, 64, 32, 128), (64, 64, 32, 128)], "persistent", None),
    ([(32, 32, 32, 256), (64, 64, 32, 128)], "workgroups", "tiles 2: has fewer threads"),
    ([(32, 32, 32, 128), (64, 64, 32, 256)], "workgroups", None),
    ([(32, 32, 32, 128), (64, 64, 32, 256)], "persistent", "tiles: blocks that stay have one number of threads"),
])
def test_a_table_of_tiles_grows(rows, walk, problem):
    tiles = tuple(Tile(*row, (16, 16)) for row in rows)
    if problem is None:
        assert refusals.check_tiles(tiles, walk, "spec") is None
    else:
        with pytest.raises(InfeasibleSpec) as caught:
            refusals.check_tiles(tiles, walk, "spec")
        assert str(caught.value).startswith(f"spec: [batch] {problem}") and caught.value.needs and caught.value.remedy


def test_what_a_tile_is_told_to_be_can_be_one():
    """The remedy's own tile has warps."""
    fragment = next(row for row in FRAGMENTS.rows() if row.name == "mma_m16n8k16_f16")
    error = refusals.no_warps((16, 16, 32, 512), (16, 8, 16), 32, 1, "spec")
    *tile, threads = map(int, re.search(r"such as (\d+) x (\d+) x (\d+) on (\d+)", error.remedy).groups())
    assert error.got == "16 x 16 x 32 on 512 threads" and "each of 16 warps of 32" in error.needs and warp_of((*tile, threads), fragment, 32)


# ---- one text for all tiles

CONSTANT = re.compile(r"    static constexpr int (.*?);(?:  //.*)?$", re.M)
TERNARY = re.compile(r"\(?(\w+) < (\d+) \? ([^:]+?) : (\w+)\)?(?=[,;]|$| - | &)")


def as_python(expression):
    """An expression of integers that are not negative, as Python has it."""
    return TERNARY.sub(r"(\3 if \1 < \2 else \4)", expression).replace("::", "_").replace("/", "//")


def constants_of(text, number):
    """The constants of one tile's kernel, by name."""
    own, kernel = (text.split(f"struct {name} {{\n")[1].split("\n};")[0] for name in (f"Tile{number}", "TileKernel"))
    known = {"WORDS": int(found[1])} if (found := re.search(r"constexpr int WORDS = (\d+)", text)) else {}
    for prefix, part in (("Tile_", own), ("", kernel)):
        for line in CONSTANT.findall(part):
            for name, expression in (one.split(" = ", 1) for one in line.split(", ")):
                known[prefix + name] = eval(as_python(expression), {}, known)
    return {name: value for name, value in known.items() if not name.startswith("Tile_")}


SHAPES = {
    "words": ("h200", "ootomo", "nn", None, {}), "lanes": ("a800", "fp32", "nn", [list(row) for row in TABLE_3], {}),
    "held words": ("mi300x", "ootomo", "tn", None, {}), "held lanes": ("mi210", "fp32", "nt", [list(row) for row in TABLE_3], {}),
    "promoted inside and outside": ("a100", "ootomo", "nn", [[16, 32, 64, 128], [64, 64, 32, 128]], {"promote": 32}),
    "promoted outside": ("a100", "ootomo", "nn", [[16, 32, 64, 128], [64, 64, 32, 128]], {"promote": 64}),
    "more threads than chunks": ("a100", "ootomo", "nn", [[16, 32, 32, 128], [48, 64, 32, 128]], {}),
    "wide warps": ("a100", "ootomo", "nn", [[32, 32, 32, 128], [128, 128, 32, 128]], {}),
}


def shaped(name):
    gpu, scheme, layout, tiles, split = SHAPES[name]
    more = {"batch": {"walk": "workgroups"} | ({"tiles": tiles} if tiles else {}), "split": split, "problem": {"layout": layout}}
    return planned(gpu, scheme, build={"allow_spills": True}, **more)


@pytest.mark.parametrize("name", SHAPES)
def test_what_follows_from_a_tile_in_the_text_follows_from_it_in_its_plan(name):
    plan = shaped(name)
    text = render(plan).text
    for number, tile in enumerate(plan.own.tiles):
        known, fragment, geometry, lanes = constants_of(text, number), tile.fragment, tile.geometry, plan.lanes
        wanted = {
            "NUMBER": number, "THREADS": tile.threads, "WARPS_N": geometry.warps_n, "FRAGMENTS_M": geometry.tiles_m, "FRAGMENTS_N": geometry.tiles_n,
            "K_STEPS": geometry.k_steps, "LINE_ROWS": geometry.line_rows, "LINE_PITCH": geometry.line_pitch, "FRAGMENT_M": fragment.shape[0],
        }
        wanted |= dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K", "WARP_M", "WARP_N"), (*tile.block, *tile.warp)))
        raw = [4 * extent * tile.block[2] for extent in tile.block[:2]]
        if tile.loads == "async":
            wanted["STAGES"] = tile.stages
        if fragment.on_matrix_unit:
            each = [tile.packing.packed_tile_bytes(operand) for operand in tile.operands]
            wanted |= {"ROW_BYTES": tile.staging.row_bytes, "ROW_CHUNKS": tile.staging.row_chunks, "STAGE_BYTES": known["WORDS"] * sum(each)}
            wanted |= {"RAW_A_BYTES": raw[0], "RAW_BYTES": sum(raw)} if tile.loads == "async" else {}
        else:
            each = raw
            wanted |= {"STAGE_BYTES": sum(raw), "LANE_ROWS": fragment.a.register_count // 4, "LANE_COLUMNS": fragment.b.register_count // 4}
        wanted |= {"A_BYTES": each[0], "B_BYTES": each[1]}
        stored = -(-geometry.line_rows * min(tile.warp[1], lanes) // lanes) * -(-tile.warp[1] // lanes)
        wanted |= {"LINE_ELEMENTS": stored, "LINE_LANES": min(tile.warp[1], lanes)}
        if plan.promote and not tile.promotion.promotes_at_once:
            wanted["PROMOTE_STAGES"] = tile.promotion.promote_stages
            if tile.promotion.promote_steps:
                wanted["PROMOTE_STEPS"] = tile.promotion.promote_steps
        assert {key: known[key] for key in wanted} == wanted
        for x, operand in zip("AB", tile.operands):
            parts = -(-operand.tile * tile.block[2] // (tile.threads * (tile.staging.chunk_elements if fragment.on_matrix_unit else 4)))
            assert known.get(f"{x}_PARTS", 1) == parts or tile.loads == "async" and not fragment.on_matrix_unit


@pytest.mark.parametrize("name", ["words", "held words", "lanes"])
def test_chunks_of_a_row_change_places_as_its_plan_says(name):
    plan = shaped(name)
    moved = re.search(r"int swizzled\(int row, int chunk\) \{ return (.*); \}", render(plan).text)[1]
    for tile in plan.own.tiles:
        rows = tile.staging.leading_rows
        chunks, line, mask = (rows.chunks, rows.swizzle_rows, rows.swizzle_mask) if tile.fragment.on_matrix_unit else (
            tile.block[2] // 4, tile.staging.run_swizzle.line, tile.staging.run_swizzle.mask)
        for row in range(32):
            known = {"CHUNKS": chunks, "row": row, "chunk": 1}
            assert eval(as_python(moved), {}, known) == 1 ^ (row // line & mask)


def test_a_further_tile_is_a_type_and_a_call():
    """What computes it is there once."""
    few, more = (
        render(planned("a100", "ootomo", batch={"walk": "workgroups", "tiles": tiles})).text
        for tiles in ([[32, 32, 32, 128], [64, 64, 32, 128]], [[32, 32, 32, 128], [32, 64, 32, 128], [64, 64, 32, 128]])
    )
    assert more.count("\n") - few.count("\n") <= 11
    assert few.count("void work_off(") == more.count("void work_off(") == 1 and more.count("::work_off(") == 3


def test_what_only_some_tiles_need_is_there_where_one_does():
    texts = {name: render(shaped(name)).text for name in SHAPES}
    asked_of = {"is_part_of_a(row, chunk))": {"more threads than chunks"}, "if constexpr (FRAGMENTS_N == 1)": {
        "words", "promoted inside and outside", "promoted outside", "more threads than chunks"},
        "#pragma unroll UNROLLED": {"wide warps"}, "DOWN && row >=": {"lanes"}, "% DOWN == 0 || row <": {"held lanes"},
        "until_promotion": {"promoted inside and outside", "promoted outside"}}
    assert {part: {name for name, text in texts.items() if part in text} for part in asked_of} == asked_of


@pytest.mark.parametrize("part", [Grouped, TileOfEach])
def test_the_design_is_in_parts_that_one_takes_in_at_a_glance(part):
    assert len([name for name in vars(part) if not name.startswith("_")]) <= 25
