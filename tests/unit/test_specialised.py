"""The warp-specialised design: its instruction's row, the road from spec to plan, budgets, launches."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from ways import NVIDIA, SPLITTING, covering

from gemmgen import abi
from gemmgen.catalog.fragment import FRAGMENTS, Descriptor
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.emulate.core.banks import extra_wavefronts
from gemmgen.emulate.ptx.banks import BANKS
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.designs import Hints, specialised
from gemmgen.designs.specialised.design import widest
from gemmgen.naming import kernel_name, parse_name
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import check, explain, solve
from gemmgen.spec import loads
from broken_rows import assert_refused

ROWS = [row for row in FRAGMENTS.rows() if row.policy == "wgmma"]
WORDS = [row.word for row in ROWS]


def spec(scheme="ootomo", gpu="h100", size=4096, layout="nn", policy="wgmma", **sections):
    return loads({
        "problem": {"m": size, "n": size, "k": size, "layout": layout}, "fragment": {"policy": policy}, "target": {"gpu": gpu},
        **sections, "split": {"scheme": scheme, **sections.get("split", {})},
    })


def settled(block=(128, 128, 64), warp=(64, 128, 64), where="prepass", promote=64, stages=2, cluster=1, consumers="cooperative",
            split_k=1, group=4, **more) -> Plan:
    """A spec that leaves nothing open, solved."""
    return solve(spec(
        tile={"block": list(block), "warp": list(warp), "group": group, "split_k": split_k, "cluster": cluster},
        pipeline={"stages": stages, "consumers": consumers}, split={"where": where, "promote": promote}, **more,
    ))


def several() -> list[Plan]:
    """Plans of every kind, each that the constraints allow."""
    found = []
    for (block, warp), consumers, where, promote, cluster, split_k in itertools.product(
        (((128, 128, 64), (64, 128, 64)), ((64, 128, 32), (64, 128, 32)), ((192, 64, 64), (64, 64, 64)), ((128, 128, 16), (128, 64, 16))),
        ("cooperative", "pingpong"), ("prepass", "mixed"), (0, 16, 64, 256), (1, 2), (1, 3),
    ):
        try:
            found.append(settled(block, warp, where, promote, 2, cluster, consumers, split_k))
        except InfeasibleSpec:
            continue
    assert len(found) > 60
    return found


PLANS = several()


# ---- the instruction's row


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("128 = 1, 64 = 2", "128 = 1, 64 = 1", "a code of its own"),
    ("128 = 1, 64 = 2", "128 = 1, 64 = 4", "codes that fit their fields"),
    ("128 = 1, 64 = 2", "256 = 1, 64 = 2", "'128', '64' or '32'"),
    ("stride = [32, 14]", "stride = [29, 14]", "do not overlap; stride does"),
    ("swizzle = [62, 2]", "swizzle = [63, 2]", "do not overlap; swizzle does"),
    ("swizzle = [62, 2]", "swizzle = [64, 2]", "less than 64"),
    ("rows = 8", "rows = 16", "keep eight neighbouring rows apart; that of 128 bytes does not"),
    ("rows = 8\n", "", "is missing"),
    ("widest = 32", "widest = 33", "less than or equal to 32"),
    ('arch = "sm_90a"', 'arch = "sm_90"', "pattern"),
])
def test_a_row_that_cannot_be_is_refused(tmp_path, before, after, complaint):
    assert_refused(tmp_path, FRAGMENTS, "wgmma_m64n8k16_f16", before, after, complaint)


def test_an_operand_is_in_registers_or_described(tmp_path):
    good = (FRAGMENTS.folder / "wgmma_m64n8k16_f16.toml").read_text()
    path = tmp_path / "wgmma_m64n8k16_f16.toml"
    path.write_text(good.partition("[descriptor]")[0])
    with pytest.raises(SpecError, match="a descriptor where the policy has operands read from shared memory"):
        FRAGMENTS.get(str(path))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_descriptor_is_the_ptx_isas(row):
    """"Matrix Descriptor Format": address in bits 0 to 13, leading offset in 16 to 29, stride in 32 to 45, each in
    units of 16 bytes, swizzle in 62 and 63: 1, 2, 3 for 128, 64, 32 bytes."""
    for row_bytes, code in ((128, 1), (64, 2), (32, 3)):
        assert row.descriptor.constant(row_bytes) == code << 62 | (8 * row_bytes >> 4) << 32 | 1 << 16


def test_a_swizzle_that_leaves_two_rows_on_a_bank_does_not_load(monkeypatch):
    fields = ROWS[0].descriptor.model_dump()
    assert Descriptor(**fields)
    monkeypatch.setattr(Descriptor, "place", staticmethod(lambda row, chunk, row_bytes: row * row_bytes + chunk * 16))
    with pytest.raises(ValueError, match="keep eight neighbouring rows apart"):
        Descriptor(**fields)


@pytest.mark.parametrize("block_k", [16, 32, 64])
@pytest.mark.parametrize("scheme", ["ootomo", "tf32x3"])
def test_words_lie_where_the_unit_looks(scheme, block_k):
    """The split kernel's `swizzle(row, chunk)` is the unit's own."""
    if scheme == "tf32x3" and block_k == 64:
        with pytest.raises(InfeasibleSpec, match="no swizzle"):
            settled((64, 64, 64), (64, 64, 64), scheme=scheme, promote=0)
        return
    plan = settled((64, 64, block_k), (64, 64, block_k), scheme=scheme, promote=0)
    text = render(plan).text
    assert f"return chunk ^ (row / {plan.staging.swizzle_rows} & {plan.staging.swizzle_mask});".replace("(row / 1 &", "(row &") in text
    for row in range(64):
        for chunk in range(plan.staging.row_chunks):
            ours = row * plan.staging.row_bytes + (chunk ^ (row // plan.staging.swizzle_rows & plan.staging.swizzle_mask)) * 16
            assert ours == Descriptor.place(row, chunk, plan.staging.row_bytes)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_width_has_a_map_that_covers_its_tile(row):
    assert [one.shape[1] for one in row.shapes.values()] == [n for n in range(8, 257, 8) if n <= (row.sparse_from or n) or n % 16 == 0]
    for name, one in row.shapes.items():
        m, n, k = one.shape
        assert one.c.prove(m, n) is None and one.a.prove(m, k) is None
        assert one.c.register_count == n // 2 and name in one.instruction
        assert (one.threads, one.from_shared) == (128, True)
        for lane, register in ((0, 0), (37, n // 2 - 1), (127, n // 4)):  # element 4 i + j of a thread, by the PTX ISA
            i, j = register // 4, register % 4
            assert one.c.element(lane, register) == (lane // 32 * 16 + lane % 32 // 4 + j // 2 * 8, i * 8 + lane % 4 * 2 + j % 2)


def test_it_runs_on_one_target_alone():
    row = ROWS[0]
    assert [arch for arch in ("sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120") if row.runs_on(arch)] == ["sm_90", "sm_90a"]
    assert FRAGMENTS.get("mma_m16n8k16_f16").runs_on("sm_100")


# ---- from spec to plan


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h100", "h200"])
def test_auto_takes_the_faster_policy(gpu):
    for size in (128, 1024, 4096):
        by = {policy: solve(spec(gpu=gpu, size=size, policy=policy)).model["seconds"] for policy in ("auto", "mma", "wgmma")}
        assert by["auto"] == min(by["mma"], by["wgmma"])
    assert solve(spec(gpu=gpu, policy="auto")).fragment.policy == "wgmma"
    assert solve(spec(gpu=gpu, policy="auto")).arch == "sm_90a"
    assert solve(spec(gpu=gpu, policy="auto", pipeline={"loads": "async"})).fragment.policy == "mma"
    assert solve(spec(gpu=gpu, policy="auto", tile={"cluster": 2})).fragment.policy == "wgmma"
    assert solve(spec("fp32", gpu=gpu, policy="auto")).fragment.policy == "fma"


@pytest.mark.parametrize("gpu", [name for name in NVIDIA if GPUS.get(name).arch != "sm_90"])
def test_other_gpus_do_not_have_it(gpu):
    with pytest.raises(InfeasibleSpec, match=f"{gpu} has no wgmma for f16") as caught:
        solve(spec(gpu=gpu))
    assert (caught.value.where, caught.value.needs) == ("spec: [fragment] policy", "sm_90a")
    assert caught.value.has == GPUS.get(gpu).arch and "auto" in caught.value.remedy
    if GPUS.get(gpu).arch_number >= 80:
        assert solve(spec(gpu=gpu, policy="auto")).fragment.policy == ("tcgen05" if gpu in ("b200", "gb200", "b300", "gb300", "jetson_thor") else "mma")


TILE = {"block": [128, 128, 64], "warp": [64, 128, 64]}
REFUSED = {
    "split before shared memory": ({"split": {"where": "shared"}}, "[fragment] policy", "does not go with this pipeline"),
    "split to fragments": ({"split": {"where": "register"}}, "[fragment] policy", "does not go with this pipeline"),
    "cp.async": ({"pipeline": {"loads": "async"}}, "[fragment] policy", "does not go with this pipeline"),
    "two fragment buffers": ({"pipeline": {"fragment_buffers": 2}}, "[fragment] policy", "does not go with this pipeline"),
    "turns with parts of a tile": ({"tile": TILE, "pipeline": {"consumers": "pingpong"}}, "[pipeline] consumers", "compute a tile each"),
    "rows too long": ({"tile": {"block": [128, 128, 128]}}, "[tile] block", "no swizzle for rows of this length"),
    "rows too odd": ({"tile": {"block": [128, 128, 24]}}, "[tile] block", "no swizzle for rows of this length"),
    "rows too short": ({"tile": {"block": [128, 128, 8]}}, "[tile] block", "no swizzle for rows of this length"),
    "four warpgroups": ({"tile": {"block": [256, 128, 64], "warp": [64, 128, 64]}}, "[tile]", "too many warpgroups in a block"),
    "stages": ({"tile": TILE, "pipeline": {"stages": 20}}, "[pipeline]", "stages = 20 does not fit h100"),
    "accumulators": ({"tile": {"block": [128, 192, 16], "warp": [128, 192, 16]}}, "[tile] warp", "leave no room in the register file"),
    "warp m": ({"tile": {"block": [96, 128, 64], "warp": [48, 128, 64]}}, "[tile] warp", "warp m is not a whole number of fragments"),
    "warp n": ({"tile": {"warp": [64, 100, 64]}}, "[tile] warp", "warp n is not a whole number of fragments"),
    "warp k": ({"tile": {"block": [64, 128, 64], "warp": [64, 128, 32]}}, "[tile] warp", "warp k differs from block k"),
    "block m": ({"tile": {"block": [96, 128, 64], "warp": [64, 128, 64]}}, "[tile] block", "not a whole number of warps"),
    "drifting promotion": ({"tile": TILE, "split": {"promote": 96}}, "[split] promote", "drifts against the stages"),
    "A of wide words": ({"scheme": "tf32x3", "split": {"where": "mixed"}}, "[split] where", "cannot be split on its way to the registers"),
    "A with row scales": ({"scheme": "scaled", "split": {"where": "mixed"}}, "[split] where", "cannot be split on its way to the registers"),
    "A of one step": ({"split": {"where": "mixed"}, "tile": {"block": [64, 64, 16]}}, "[split] where", "cannot be split on its way to the registers"),
    "words it does not take": ({"scheme": "fp32"}, "[fragment] policy", "no wgmma fragment of f32"),
    "clusters without it": ({"policy": "mma", "tile": {"cluster": 2}}, "[tile] cluster", "kernels of policy mma have no such choice"),
    "turns without it": ({"policy": "mma", "pipeline": {"consumers": "pingpong"}}, "[pipeline] consumers", "kernels of policy mma have no such choice"),
    "mixed without it": ({"policy": "mma", "split": {"where": "mixed"}}, "[split] where", "kernels of policy mma have no such choice"),
    "bulk without it": ({"policy": "mma", "pipeline": {"loads": "bulk"}}, "[pipeline] loads", "kernels of policy mma have no such choice"),
    "bulk elsewhere": ({"policy": "auto", "gpu": "rtx5090", "pipeline": {"loads": "bulk"}}, "[pipeline] loads", "kernels of policy mma"),
}


@pytest.mark.parametrize(("fixed", "place", "words"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_with_its_reason(fixed, place, words):
    with pytest.raises(InfeasibleSpec, match=words) as caught:
        solve(spec(**fixed))
    assert caught.value.where == f"spec: {place}"
    assert caught.value.needs and caught.value.remedy
    assert caught.value.got is not None or caught.value.has


@pytest.mark.parametrize(("scheme", "block_k", "lengths"), [("mixpert3", 256, "32, 64 or 128"), ("ootomo", 128, "16, 32 or 64"), ("tf32x3", 64, "8, 16 or 32")])
def test_rows_that_no_swizzle_permutes_are_refused_with_those_that_one_does(scheme, block_k, lengths):
    with pytest.raises(InfeasibleSpec, match="no swizzle") as refused:
        solve(spec(scheme=scheme, tile={"block": [128, 128, block_k]}))
    assert refused.value.needs == f"32, 64 or 128 B: block k = {lengths}"


def test_remedies_help():
    """What a message says to write makes a plan."""
    for case, fixed in {
        "warp n": {"tile": {"warp": [64, 96, 64]}}, "rows too long": {"tile": {"block": [128, 128, 64]}},
        "stages": {"tile": TILE, "pipeline": {"stages": 3}}, "A with row scales": {"scheme": "scaled", "split": {"where": "prepass"}},
        "turns with parts of a tile": {"tile": {**TILE, "block": [64, 128, 64]}, "pipeline": {"consumers": "pingpong"}},
    }.items():
        assert REFUSED[case] and solve(spec(**fixed)).design is specialised.DESIGN


@pytest.mark.parametrize("cluster", [0, 3, 7, 16])
def test_a_cluster_divides_any_stage_of_b(cluster):
    """Each block copies as many bytes of it, in pieces of 16."""
    with pytest.raises(SpecError, match="1, 2, 4 or 8"):
        spec(tile={"cluster": cluster})
    for count, row_bytes in itertools.product((1, 2, 4, 8), (32, 64, 128)):
        assert 8 * row_bytes % (16 * count) == 0


def test_a_wide_tile_takes_as_few_instructions_as_can_be():
    for wn, width in ((8, 8), (136, 136), (256, 256), (264, 88), (272, 136)):
        plan = settled((64, wn, 16), (64, wn, 16), promote=0, scheme="half")
        assert plan.fragment.shape == (64, width, 16) and plan.geometry.tiles_n == wn // width
    assert solve(spec(fragment={"policy": "wgmma", "shape": "m64n64k16"}, tile={"warp": [64, 128, 64]})).geometry.tiles_n == 2


def test_columns_that_no_whole_instructions_make_get_the_row_as_it_is():
    row, bytes_of = FRAGMENTS.get("wgmma_m64n8k16_f16"), FRAGMENTS.get("wgmma_m64n8k32_s8")
    assert [widest(row, extent) for extent in (0, 4, 12, 20, 137)] == [row] * 5 and widest(row, 24).shape == (64, 24, 16)
    assert [widest(bytes_of, extent).shape[1] for extent in (24, 40, 48, 80)] == [24, 8, 48, 80], "above 32 in steps of 16"
    own = bytes_of.model_copy(update={"sparse_from": 24})
    assert [widest(own, extent).shape[1] for extent in (24, 40)] == [24, 8], "the last of those that are dense, too"
    alone = FRAGMENTS.get("mma_m16n8k16_f16")
    assert widest(alone, 64) is alone


def test_what_a_fallback_knows_is_told_by_a_launch_of_its_own():
    """Integer words are split in one pass over the operands, or in two where a fallback asks about the maxima."""
    usual, falling = (solve(spec("mixpert2", fragment={"policy": "wgmma"}, split={"fallback": fallback})) for fallback in ("none", "bf16x6"))
    assert [one.design.constants_of(one)["split_passes"] for one in (usual, falling)] == [1, 2] == [one.numbers["split_passes"] for one in (usual, falling)]
    assert falling.fallback and usual.launches.splits_whole and not falling.launches.splits_whole


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "size"), covering(itertools.product(["auto", "wgmma"], [0, 1, 2, 7, 61, 127, 1009, 7919, 65537])))
def test_tiny_and_prime_sizes_have_a_plan(size, policy):
    explanation = explain(spec(size=size, policy=policy))
    assert 0 < explanation.numbers["seconds"] < math.inf
    assert explanation.plan.hints.m == size
    check(explanation.plan)


@pytest.mark.parametrize(("layout", "scheme"), covering(itertools.product(
    # Nine products of tiles of k take seven sets of registers, for which the narrowest tile is too wide.
    ["nn", "nt", "tn", "tt"],
    [name for name in SPLITTING if SCHEMES.get(name).word in WORDS and not SCHEMES.get(name).family.residues and name != "mixpert_full_tile"],
)))
def test_every_scheme_and_layout_has_a_plan_within_every_constraint(scheme, layout):
    plan = solve(spec(scheme, layout=layout))
    known = plan.model
    assert all(constraint.holds(known) for constraint in specialised.DESIGN.constraints)
    assert plan.predicted_registers == known["registers"] == plan.numbers["registers"]


def test_what_is_decided_can_be_declared():
    plan = solve(spec())
    again = settled(
        plan.block, plan.warp, plan.where, plan.promote, plan.stages, plan.cluster, plan.consumers, plan.split_k, plan.group,
    )
    assert again == plan and explain(spec(
        tile={"block": list(plan.block), "warp": list(plan.warp), "group": plan.group, "split_k": plan.split_k, "cluster": plan.cluster},
        pipeline={"stages": plan.stages, "consumers": plan.consumers, "loads": plan.loads, "fragment_buffers": 1},
        split={"where": plan.where, "promote": plan.promote},
    )).candidates == 1


# ---- identity


def test_clusters_and_turns_are_part_of_the_identity():
    plan = settled((64, 128, 64), (64, 128, 64))
    others = [replace(plan, cluster=2), replace(plan, consumers="pingpong"), replace(plan, cluster=2, consumers="pingpong")]
    assert len({one.hash for one in (plan, *others)}) == len({kernel_name(one) for one in (plan, *others)}) == 4
    assert {"cluster", "consumers"} <= set(plan.identity)
    portable = solve(spec(policy="mma"))
    assert not {"cluster", "consumers"} & set(portable.identity)


def test_names_read_back():
    assert len({kernel_name(plan) for plan in PLANS}) == len(PLANS)
    for plan in PLANS:
        said = parse_name(kernel_name(plan))
        assert (said["policy"], said["block"], said["hash"]) == ("wgmma", plan.block, plan.hash)


# ---- what it takes from its SM


def test_registers_move_within_the_file():
    for plan in PLANS:
        limits = plan.gpu.limits
        launched = plan.numbers["registers"] * plan.threads
        assert launched <= limits.registers_per_sm
        after = 128 * (plan.numbers["producer_registers"] + plan.numbers["groups"] * plan.numbers["register_budget"])
        assert after <= launched
        for registers in (plan.numbers["registers"], plan.numbers["producer_registers"], plan.numbers["register_budget"]):
            assert registers % 8 == 0 and 24 <= registers <= 256  # what setmaxnreg takes
        assert plan.numbers["producer_registers"] <= plan.numbers["registers"] <= plan.numbers["register_budget"]
        text = render(plan).text
        assert f"setmaxnreg_dec<{plan.numbers['producer_registers']}>()" in text and f"setmaxnreg_inc<{plan.numbers['register_budget']}>()" in text


def test_what_copies_and_counts_has_more_registers_for_three_words_and_for_the_strides_of_an_a_that_is_not_transposed():
    """However many products the batch is expected to have; the warpgroups that multiply have what is left of 168 each."""
    def registers(kind, layout, scheme="ootomo", **problem):
        numbers = solve(loads({"problem": {"kind": kind, "layout": layout, "m": 1024, "n": 1024, "k": 256, **problem}, "target": {"gpu": "h100"},
                               "split": {"scheme": scheme, "where": "mixed"}, "tile": {"block": [128, 96, 64], "warp": [64, 96, 64]}})).numbers
        return numbers["producer_registers"], numbers["register_budget"]

    assert {layout: registers("gemm", layout) for layout in ("nn", "nt", "tn", "tt")} == dict.fromkeys(("nn", "nt", "tn", "tt"), (56, 224))
    strided = {layout: registers("strided", layout, matrices=count) for layout in ("nn", "nt", "tn", "tt") for count in (64, 1)}
    assert strided == {"nn": (64, 216), "nt": (64, 216), "tn": (56, 224), "tt": (56, 224)}
    assert registers("gemm", "nn", "bf16x6") == (64, 216)


def test_a_plan_and_the_model_agree():
    for plan in PLANS:
        known = plan.model
        assert known["threads"] == plan.threads and known["groups"] == plan.numbers["groups"]
        assert known["shared_bytes"] == plan.shared_bytes <= plan.gpu.limits.shared_bytes_per_block
        assert known["stage_bytes"] == plan.numbers["stage_bytes"]
        assert (known["registers"], known["register_budget"]) == (plan.numbers["registers"], plan.numbers["register_budget"])
        assert known["producer_registers"] == plan.numbers["producer_registers"]
        assert known["accumulators"] == plan.geometry.accumulator_sets
        assert known["accumulator_registers"] == plan.numbers["accumulator_registers"]
        assert (known["split_bytes"] > 0) and known["resident_blocks"] * plan.gpu.rates.sms // plan.cluster * plan.cluster == plan.launches.most_blocks


# ---- launches and workspace


def test_a_launch_is_whole_clusters_and_no_more_than_the_gpu_holds():
    for plan in PLANS:
        *before, gemm = (source := render(plan)).launches
        extents = source.interface.extents
        assert (gemm.most_blocks, gemm.cluster, gemm.overlaps) == (plan.launches.most_blocks, plan.cluster, True)
        assert plan.launches.most_blocks % plan.cluster == 0 < plan.launches.most_blocks
        for m, n in ((1, 1), (129, 7), (5000, 5000), (100_000, 3)):
            blocks = gemm.blocks(extents(m, n, 64))
            assert blocks % plan.cluster == 0
            tiles = -(-m // (plan.block[0] * plan.cluster)) * plan.cluster * -(-n // plan.block[1])
            assert blocks == min(plan.launches.most_blocks, tiles * plan.split_k)
        assert [gemm.blocks(extents(m, n, 64)) for m, n in ((0, 5), (5, 0))] == [0, 0]
        assert not any(launch.overlaps or launch.most_blocks for launch in before)
    for launch in render(solve(spec(policy="mma"))).launches:
        assert (launch.most_blocks, launch.cluster, launch.overlaps) == (None, 1, False)


def test_a_kernel_that_overlaps_follows_one_of_ours_or_waits():
    """Without k there is no split pass: what ran before belongs to others, and is to be waited for."""
    import numpy as np

    from gemmgen.run import gemm as product

    class Recorder:
        name = kind = "recorder"
        clusters_at_once = None

        def __init__(self):
            self.launched = []

        def zeros(self, nbytes, name):
            return np.zeros(max(nbytes, 1), np.uint8)

        empty = zeros

        def upload(self, array, name, misalign=0):
            return array

        def launch(self, symbol, blocks, threads, shared_bytes, args, overlaps=False):
            self.launched.append((symbol, overlaps))

        def download(self, buffer, dtype, count):
            return np.zeros(count, dtype)

        def seconds(self):
            return None

        def release(self):
            pass

    plan = settled()
    source = render(plan)
    a, b = np.zeros((5, 3), np.float32), np.zeros((3, 4), np.float32)
    for k, wanted in ((3, [(f"{source.name}_split", False), (source.name, True)]), (0, [(source.name, False)])):
        device = Recorder()
        product(device, plan, source, a[:, :k], b[:k])
        assert device.launched == wanted


def test_slices_leave_room_for_clusters_that_reach_below_c():
    for plan in PLANS:
        m, n, k = 3 * plan.block[0] + 1, plan.block[1] - 1, 1000
        table = abi.interface(plan)
        lengths, extents = table.workspace(m, n, k).lengths, table.extents(m, n, k)
        tiles = 4 * 1  # rows of tiles are even with clusters of two, too
        words = len(plan.scheme.words) * 2 * extents["k_padded"]
        assert (lengths["a_words"], lengths["b_words"]) == (words * extents["m_padded"] * (plan.where == "prepass"), words * extents["n_padded"])
        if plan.split_k > 1:
            sharers = 1 if plan.consumers == "pingpong" else plan.numbers["groups"]
            assert lengths["arrived"] == 4 * tiles * sharers
            assert lengths["parts"] == 4 * tiles * plan.split_k * plan.block[0] * plan.block[1]
            assert table.workspace(1, n, k).lengths["parts"] == 4 * plan.cluster * plan.split_k * plan.block[0] * plan.block[1]
        else:
            assert lengths["arrived"] == lengths["parts"] == 0


def test_the_text_takes_what_the_launch_gives():
    """Parameters in the launch's order, one dimension of clusters, registers and barriers as planned."""
    for plan in PLANS:
        source = render(plan)
        gemm = source.launches[-1]
        head = source.text.partition(f"\n{gemm.symbol}(")[2].partition(")\n{")[0]
        lines = [line.partition("//")[0] for line in head.splitlines()]
        said = [part.replace("*", " ").split()[-1] for line in lines for part in line.split(",") if part.strip()]
        assert said == list(gemm.params)
        assert (f"__cluster_dims__({plan.cluster}, 1, 1)" in source.text) == (plan.cluster > 1)
        assert f"constexpr int RELEASES = {plan.numbers['releases']};" in source.text
        assert source.text.count("griddepcontrol.wait") == source.text.count("griddepcontrol.launch_dependents") == 1
        assert "Undefined" not in source.text and "None" not in source.text


@pytest.mark.parametrize(("layout", "rows", "depth"), [("nn", 64, 32), ("nt", 128, 64), ("tn", 64, 32), ("tn", 192, 64), ("tt", 128, 64)])
def test_a_of_mixed_is_read_and_copied_without_bank_conflicts(layout, rows, depth):
    """Where an element lies is what the kernel's text says; who reads it, what the instruction's row says."""
    plan = settled((rows, 64, depth), (64, 64, depth), "mixed", layout=layout)
    line, address = re.search(r"u32 at_a\(int (\w+), int chunk\) { return (.*); }", render(plan).text).groups()
    at = eval(f"lambda {line}, chunk: {address}", {"BLOCK_M": rows, "BLOCK_K": depth})
    along_k = plan.operands[0].k_contiguous
    lines, chunks = (rows, depth // 4) if along_k else (depth, rows // 4)
    assert sorted(at(line, chunk) for line in range(lines) for chunk in range(chunks)) == list(range(0, rows * depth * 4, 16))

    def extra(pairs, size: int, place) -> int:
        return extra_wavefronts(np.array([place(line, one // 4) + one % 4 * 4 for line, one in pairs]), None, size, BANKS)

    a, reads = plan.fragment.a, []
    for warp, k, register, packed in itertools.product(range(4), range(0, depth, 16), range(a.register_count), (0,) if along_k else (0, 1)):
        held = [a.element(lane, register, packed) for lane in range(32 * warp, 32 * warp + 32)]
        reads.append([(row, k + kk) if along_k else (k + kk, row) for row, kk in held])
    across = depth // 4 if along_k else 16  # lanes that copy neighbours
    copies = [[((32 * warp + lane) // across, lane % across * 4) for lane in range(32)] for warp in range(4)]
    assert all(extra(pairs, 8 if along_k else 4, at) == 0 for pairs in reads) and all(extra(pairs, 16, at) == 0 for pairs in copies)
    assert any(extra(pairs, 8 if along_k else 4, lambda line, chunk: line * chunks * 16 + chunk * 16) for pairs in reads), "no swizzle was needed"


@pytest.mark.parametrize(("wm", "depth"), [(64, 32), (128, 64)])
def test_a_transposed_a_takes_four_more_loads_a_step(wm, depth):
    """A lane's four registers of A take a load each where k lies together, and two where it does not; the bytes are as many."""
    along, across = (settled((wm, 32, depth), (wm, 32, depth), "mixed", layout=layout).model for layout in ("nn", "tn"))
    assert across["chain_cycles"] - along["chain_cycles"] == pytest.approx(depth // 16 * 4 * wm // 64)
    follows = {"a_strided", "chain_cycles", "stage_cycles", "kernel_cycles", "kernel_seconds", "seconds", "tflops"}
    assert {name for name in along if along[name] != across[name]} <= follows


# ---- the command


def test_explain_prints_the_designs_own_equations(gemmgen, write_spec):
    path = write_spec('[split]\nscheme = "ootomo"\n[fragment]\npolicy = "wgmma"\n[target]\ngpu = "h100"\n')
    ran = gemmgen("explain", path, "--full")
    assert ran.code == 0
    for part in ("W5 ", "W27", "W32", "M1 ", "C23", "C25", "binds", "cluster", "rejected", "front of W12", "the least W13 a FLOP wins"):
        assert part in ran.out, part
    for part in ("R3 ", "M11", "C15", "G1 "):
        assert f"\n  {part}" not in ran.out, part
    [bound] = [line for line in ran.out.splitlines() if line.startswith("binds")]
    assert bound.removeprefix("binds").strip() in (
        "power", "device memory", "the matrix unit", "shared memory", "L2", "a warpgroup's own chain", "a copy's latency",
    )
    told = json.loads(gemmgen("explain", path, "--json").out)
    assert {"W27", "M1", "M17", "R12"} <= {one["number"] for one in told["equations"]}
    assert told["plan"]["cluster"] in (1, 2) and told["best"][0]["consumers"] in ("cooperative", "pingpong")
    assert gemmgen("explain", path, "--latex").out.count(r"\tag{W") >= 30


def test_what_binds_is_the_largest():
    known = settled().model
    zero = {name: 0.0 for name in ("unit_seconds", "dram_bytes", "tensor_cycles", "shared_cycles", "l2_cycles", "chain_cycles", "latency_cycles")}
    for name, words in {
        "unit_seconds": "power", "dram_bytes": "device memory", "tensor_cycles": "the matrix unit", "shared_cycles": "shared memory",
        "l2_cycles": "L2", "chain_cycles": "a warpgroup's own chain", "latency_cycles": "a copy's latency",
    }.items():
        assert specialised.DESIGN.binding({**known, **zero, name: 1e30}) == words


def test_a_candidate_of_the_design(gemmgen, write_spec):
    path = write_spec('[split]\nscheme = "ootomo"\n[target]\ngpu = "h100"\n')
    ran = gemmgen("explain", path, "--candidate", "cluster=2", "--candidate", "consumers=pingpong", "--candidate", "where=prepass")
    assert ran.code == 0 and "clusters of 2, pingpong" in ran.out
    ran = gemmgen("explain", path, "--candidate", "loads=bulk", "--candidate", "block=256x256x64")
    assert ran.code == 2 and "it breaks C" in ran.err


def test_every_refusal_is_one_of_ours():
    """Nothing that a spec can say of this design ends in anything but a plan or a typed refusal."""
    plans = refusals = 0
    for block, warp, consumers, where, promote, stages, cluster in itertools.product(
        ((64, 8, 16), (128, 256, 64), (57, 40, 32), (512, 64, 16)), ((64, 8, 16), (64, 256, 64), (128, 40, 32)),
        ("cooperative", "pingpong"), ("prepass", "mixed"), (0, 16, 48), (2, 64), (1, 8),
    ):
        try:
            settled(block, warp, where, promote, stages, cluster, consumers)
            plans += 1
        except GemmgenError as refusal:
            assert isinstance(refusal, InfeasibleSpec) and refusal.needs and refusal.remedy
            refusals += 1
    assert plans and refusals


def test_where_power_binds_a_tile_of_one_warpgroup_takes_longer():
    """By what was measured of such kernels; whether two take turns or there is one."""
    def unit_seconds(block_m: int, consumers: str) -> float:
        return solve(loads({
            "problem": dict.fromkeys("mnk", 8192), "split": {"scheme": "ootomo"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
            "tile": {"block": [block_m, 128, 64], "warp": [64, 128, 64], "split_k": 1}, "pipeline": {"consumers": consumers},
        })).model["unit_seconds"]

    two = unit_seconds(128, "cooperative")
    assert [unit_seconds(64, consumers) / two for consumers in ("cooperative", "pingpong")] == pytest.approx([1.08, 1.08])


def test_operands_that_l2_holds_are_read_twice_and_larger_ones_once():
    """One pass where it pays; its kernels have names of their own, and want no maxima zeroed."""
    small, large = (solve(loads({
        "problem": dict.fromkeys("mnk", size), "split": {"scheme": "mixpert1"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
        "tile": {"block": [64, 128, 64], "warp": [64, 128, 64], "group": 8}, "pipeline": {"consumers": "pingpong"},
    })) for size in (1024, 8192))
    assert (small.launches.splits_whole, large.launches.splits_whole) == (False, True) and small.hash != large.hash
    roles = [[launch.role for launch in abi.interface(plan).launches] for plan in (small, large)]
    assert roles == [["absmax", "split", "gemm"], ["split", "gemm"]]
    zeroed = [{buffer.name for buffer in abi.interface(plan).buffers if buffer.zeroed_again} for plan in (small, large)]
    assert zeroed == [{"a_absmax", "b_absmax"}, set()]
    assert large.model["split_bytes"] < small.model["split_bytes"] * 64
    # of one product, and of words of four bytes an element at most, of which a thread keeps 64
    once = [large.design.splits_whole(SCHEMES.get(name), large.gpu, Hints(8192, 8192, 8192, count)) for name, count in (
        ("scaled", 1), ("scaled", 2), ("scaled_f16x6", 1), ("ootomo", 1))]
    assert once == [True, False, False, False]
    # from 2048 k on, and from a quarter of 50 MiB of elements on: 2048 k of 6400 rows and columns
    sizes = {(3200, 3200, 2048): True, (3200, 3199, 2048): False, (9000, 9000, 2047): False}
    assert {size: bool(large.design.large_enough(large.gpu, *size)) for size in sizes} == sizes


@pytest.mark.parametrize("scheme, block", [("mixpert1", (64, 128, 64)), ("mixpert_triangle", (64, 128, 64)), ("mixpert4", (64, 96, 64))])
def test_integer_words_get_the_tiles_that_were_measured_fastest(scheme, block):
    plan = solve(loads({
        "problem": dict.fromkeys("mnk", 8192), "split": {"scheme": scheme}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"},
    }))
    assert (plan.block, plan.warp, plan.consumers) == (block, block, "pingpong")


def test_fp8_words_take_two_passes():
    """To count what they leave, they go by way of FP16: with what one pass keeps, more registers than there are."""
    plan = solve(loads({"split": {"scheme": "e4m3x6"}, "target": {"gpu": "h200"}}))
    assert not plan.launches.splits_whole and sum(word.bytes for word in plan.scheme.words_of("a")) < 4


def test_every_lane_that_reads_scales_lets_its_stage_go():
    """To the block that it reads in; to others of the cluster a warp does, whose products have read what they filled."""
    plan = solved_tile("mixpert4_tile", (64, 128, 64), cluster=2)
    assert plan.numbers["releases"] == 2 * 4 * (32 + 1)


@pytest.mark.parametrize(("consumers", "block_k", "more"), [("cooperative", 64, 0), ("cooperative", 128, 12), ("pingpong", 64, 12)])
def test_tiles_of_k_leave_registers_for_turns_and_long_stages(consumers, block_k, more):
    """Three sums and two sets of FP32 numbers fit beside them."""
    plan = solved_tile("mixpert1_tile", (64, 64 if consumers == "pingpong" else 128, block_k), consumers=consumers)
    assert plan.numbers["other_registers"] == 32 + more


def solved_tile(scheme, block, cluster=1, consumers="cooperative"):
    return solve(loads({
        "split": {"scheme": scheme}, "fragment": {"policy": "wgmma"}, "tile": {"block": block, "warp": [64, 64, block[2]], "cluster": cluster},
        "pipeline": {"consumers": consumers}, "target": {"gpu": "h200"},
    }))
