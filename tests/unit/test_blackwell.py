"""Tensor memory and tcgen05: rows, budgets, what is chosen and what refused. What compiles: tests/compile/test_tcgen05.py."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.designs import specialised, tensor_memory
from gemmgen.fragment_header import fragment_header
from gemmgen.model.equation import Equation
from gemmgen.naming import kernel_name, parse_name
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import explain, solve
from gemmgen.spec import load, loads
from gemmgen.verify import Judge, standing
from gemmgen.workshop.fit.time_model import with_constants
from broken_rows import assert_refused

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.in_tensor_memory}
TILE = {"block": [128, 256, 32], "warp": [128, 128, 32]}


def asked(gpu: str = "b200", policy: str = "tcgen05", **sections):
    split = {"scheme": "ootomo"} | sections.pop("split", {})
    return loads({"split": split, "fragment": {"policy": policy}, "target": {"gpu": gpu}} | sections)


def refused(**sections) -> InfeasibleSpec:
    with pytest.raises(InfeasibleSpec) as caught:
        solve(asked(**sections))
    return caught.value


# ---- the rows


@pytest.mark.parametrize("name", ROWS)
def test_a_row_says_what_the_ptx_isa_does(name):
    row = ROWS[name]
    m, n, k = row.shape
    kind, depth = {"tf32": ("tf32", 8), "e4m3": ("f8f6f4", 32), "s8": ("i8", 32)}.get(row.word, ("f16", 16))
    assert (name, row.instruction) == (f"tcgen05_m128n16k{k}_{row.word}", f"tcgen05.mma.cta_group::1.kind::{kind}")
    assert (m, n, k) == (128, 16, depth)
    assert (row.min_arch, row.arch, row.a, row.b, row.threads) == (100, "sm_100a", None, None, 128)
    assert [one.shape[1] for one in row.shapes.values()] == list(range(16, 257, 16))
    assert {arch: row.compiled_for(arch) for arch in ("sm_100", "sm_103", "sm_110", "sm_90", "sm_101", "sm_120") if row.runs_on(arch)} == {
        "sm_100": "sm_100a", **({"sm_103": "sm_103a"} if row.word != "s8" else {}), "sm_110": "sm_110a"}


def test_a_lane_is_a_row_and_a_register_a_column():
    held = ROWS["tcgen05_m128n16k16_f16"].wide(16).c
    for lane in range(128):
        assert [held.element(lane, register) for register in range(256)] == [(lane, column) for column in range(256)]


@pytest.mark.parametrize("word, m, n, value", [
    # "Instruction descriptor", .kind::f16 and .kind::tf32: D's type in bits 4-5, A's in 7-9, B's in 10-12, N / 8 in 17-22, M / 16 in 24-28.
    ("f16", 128, 64, 1 << 4 | 8 << 17 | 8 << 24),
    ("bf16", 128, 256, 1 << 4 | 1 << 7 | 1 << 10 | 32 << 17 | 8 << 24),
    ("tf32", 128, 16, 1 << 4 | 2 << 7 | 2 << 10 | 2 << 17 | 8 << 24),
    ("e4m3", 128, 64, 1 << 4 | 8 << 17 | 8 << 24),  # of .kind::f8f6f4, whose code for e4m3 is 0
    ("f16", 256, 256, 1 << 4 | 32 << 17 | 16 << 24),  # of a pair of blocks
    ("s8", 256, 32, 2 << 4 | 1 << 7 | 1 << 10 | 4 << 17 | 16 << 24),  # of .kind::i8: signed operands, INT32, and bit 3 not set, which would saturate
])
def test_the_instruction_descriptor(word, m, n, value):
    [row] = [row for row in ROWS.values() if row.word == word]
    assert row.instruction_word.value(m, n) == value


@pytest.mark.parametrize("row_bytes, swizzle", [(128, 2), (64, 4), (32, 6)])
@pytest.mark.parametrize("name", ROWS)
def test_the_shared_memory_descriptor(name, row_bytes, swizzle):
    """Leading 1, eight rows in units of 16 bytes, 0b001 in bits 46-48, no base offset, the swizzle from bit 61 on."""
    assert ROWS[name].descriptor.constant(row_bytes) == 1 << 16 | row_bytes // 2 << 32 | 1 << 46 | swizzle << 61


@pytest.mark.parametrize("before, after, complaint", [
    ("fixed = [46, 3, 1]", "fixed = [44, 3, 1]", "do not overlap"),
    ("fixed = [46, 3, 1]", "fixed = [46, 3, 8]", "codes that fit"),
    ("swizzle = [61, 3]", "swizzle = [61, 2]", "codes that fit"),
    ("n = [17, 6, 8]", "n = [17, 5, 8]", "extents that fit"),
    ("m = [24, 5, 16]", "m = [24, 5, 256]", "extents that fit"),
    ("n = [17, 6, 8]", "n = [12, 6, 8]", "do not overlap"),
    ('arch = "sm_100a"', "", "the first of the targets, beside also"),
    ("a = [7, 3, 0]", "a = [7, 3, 9]", "codes that fit"),
    ('policy = "tcgen05"', 'policy = "wgmma"', "the instruction's own word"),
    ("registers = [[0, 1], [0, 2], [0, 4], [0, 8]]", "registers = [[0, 1], [0, 2], [0, 4]]", "covers another tile"),
])
def test_a_wrong_row_is_refused(tmp_path, before, after, complaint):
    assert_refused(tmp_path, FRAGMENTS, "tcgen05_m128n16k16_f16", before, after, complaint)


@pytest.mark.parametrize(("scheme", "moving"), [("ootomo", 1), ("half", 1), ("markidis", 4), ("bf16x6", 6)])
def test_products_whose_sums_move_out_of_the_unit(scheme, moving):
    """Of ootomo, whose corrections stay, one of three."""
    assert tensor_memory.equations.constants(SCHEMES.get(scheme), GPUS.get("b200"))["products_moving"] == moving


def test_the_packed_words_lie_as_the_unit_reads_them():
    """The swizzle that the split kernels write is the descriptor's, for each length of row."""
    for block_k, row_bytes in ((16, 32), (32, 64), (64, 128)):
        plan = solve(asked(tile={"block": [128, 128, block_k], "warp": [128, 128, block_k]}, split={"promote": block_k}))
        assert plan.staging.row_bytes == row_bytes
        for row in range(16):
            for chunk in range(plan.staging.row_chunks):
                ours = row * row_bytes + (chunk ^ (row // plan.staging.swizzle_rows & plan.staging.swizzle_mask)) * 16
                assert ours == plan.fragment.descriptor.place(row, chunk, row_bytes)


def test_tiles_start_where_the_swizzle_does():
    """Every word's tile of every stage starts at whole eight rows, so the descriptor's base offset is 0."""
    for n, k in ((16, 16), (48, 32), (256, 64)):
        plan = solve(asked(tile={"block": [128, n, k], "warp": [128, n if n <= 128 else n // 2, k]}, split={"promote": k}, pipeline={"stages": 2}))
        a, b = plan.operands
        for size in (plan.packing.packed_tile_bytes(a), plan.packing.packed_tile_bytes(b), plan.packing.packed_stage_bytes(a) + plan.packing.packed_stage_bytes(b)):
            assert size % (8 * plan.staging.row_bytes) == 0


# ---- tensor memory


@pytest.mark.parametrize("scheme, n, promote, columns, buffers, allocated", [
    ("ootomo", 128, 32, 384, 2, 512), ("ootomo", 160, 32, 480, 2, 512), ("ootomo", 192, 32, 384, 1, 512), ("ootomo", 256, 32, 512, 1, 512),
    ("ootomo", 256, 0, 512, 1, 512), ("ootomo", 64, 32, 192, 2, 256), ("half", 16, 0, 16, 1, 32), ("scaled", 256, 32, 512, 2, 512),
    ("bf16x3", 64, 32, 128, 2, 128), ("ootomo4", 128, 32, 512, 2, 512), ("ootomo4", 160, 32, 480, 1, 512),
])
def test_columns_of_tensor_memory(scheme, n, promote, columns, buffers, allocated):
    """Worked out by hand: a sum takes n columns, one that moves twice that where it fits."""
    tile = {"block": [128, n, 32], "warp": [128, n if n <= 128 else n // 2, 32]}
    plan = solve(asked(split={"scheme": scheme, "promote": promote}, tile=tile))
    assert (plan.own.columns, plan.own.buffers, plan.own.allocated) == (columns, buffers, allocated)
    known = plan.model
    assert (known["columns"], known["buffers"], known["shared_bytes"]) == (columns, buffers, plan.shared_bytes)
    assert (known["registers"], known["threads"], known["register_budget"]) == (plan.numbers["registers"], plan.threads, plan.numbers["register_budget"])


def test_sums_lie_beside_one_another():
    plan = solve(asked(split={"scheme": "ootomo4", "promote": 32}, tile={"block": [128, 128, 32], "warp": [128, 64, 32]}))
    taken = {acc.name: plan.own.column_of(acc) for acc in (*plan.own.staying, *plan.own.moving)}
    assert sorted(taken.values()) == [0, 128, 256] and taken[plan.own.moving[0].name] == 256


def test_registers_that_move_are_there():
    for groups in (1, 2, 3):
        plan = solve(asked(tile={"block": [128, 48 * groups, 32], "warp": [128, 48, 32]}, split={"promote": 32}))
        held = plan.numbers["register_budget"] * groups + plan.numbers["producer_registers"]
        assert held <= plan.numbers["registers"] * (groups + 1) and held * 128 <= plan.gpu.limits.registers_per_sm
        assert plan.numbers["register_budget"] % 8 == plan.numbers["producer_registers"] % 8 == 0


@pytest.mark.parametrize("cluster, stage, fetched, instruction", [
    (1, 32 * (128 + 256) * 4, 32 * 6 * (128 + 256), "tcgen05.mma.cta_group::1.kind::f16"),
    (2, 32 * (128 + 128) * 4, 32 * 6 * (128 + 128), "tcgen05.mma.cta_group::2.kind::f16"),
])
def test_a_block_of_a_pair_has_half_of_b(cluster, stage, fetched, instruction):
    """Worked out by hand: two words of 2 B, three products; what L2 gives and what the unit reads of each SM's shared memory fall by a third."""
    plan = solve(asked(split={"promote": 32}, tile=TILE | {"cluster": cluster}, pipeline={"stages": 4}))
    known = plan.model
    assert (known["stage_bytes"], known["fill_bytes"], known["fetch_bytes"], plan.fragment.instruction) == (stage, stage, fetched, instruction)
    assert plan.shared_bytes == 4 * (stage + 16) + 8 * 5 and known["blocks_at_once"] == 148
    assert plan.own.columns == 512  # a row of the sums is where it was


@pytest.mark.parametrize("cluster, resident, columns, blocks", [(1, 1, 512, 147), (2, 1, 512, 146), (2, 2, 512, 146), (2, 3, 256, 294), (2, 3, 128, 440)])
def test_an_sm_without_a_partner_has_no_block_of_a_pair(cluster, resident, columns, blocks):
    """Of 147 SMs; as many blocks an SM as its registers and its 512 columns allow."""
    assert tensor_memory.equations.AT_ONCE.value({"resident_blocks": resident, "allocated_columns": columns, "sms": 147, "cluster": cluster}) == blocks


@pytest.mark.parametrize("cluster, more", [(1, 0), (2, 1e-5)])
def test_forming_pairs_costs_what_the_row_says(cluster, more):
    plan = solve(asked(tile={"cluster": cluster}))
    slow = replace(plan, gpu=with_constants(plan.gpu, {("tcgen05", "cluster_seconds"): 1.1e-5}))
    assert slow.model["seconds"] - plan.model["seconds"] == pytest.approx(more, abs=1e-9)


# ---- what is chosen


def test_auto_takes_the_faster_and_both_are_weighed():
    best = solve(asked(policy="auto"))
    assert best.fragment.policy == "tcgen05" and best.arch == "sm_100a"
    seconds = {policy: solve(asked(policy=policy)).model["seconds"] for policy in ("mma", "tcgen05")}
    assert best.model["seconds"] == min(seconds.values())


def test_auto_takes_pairs_where_shared_memory_would_bind():
    """At 4096 the unit binds with pairs, shared memory without; their launch costs a microsecond, which a small product does not win back."""
    best, alone = solve(asked()), solve(asked(tile={"cluster": 1}))
    assert (best.cluster, best.design.binding(best.model), alone.design.binding(alone.model)) == (2, "the matrix unit", "shared memory")
    assert best.model["seconds"] < 0.95 * alone.model["seconds"]
    assert solve(asked(problem={"m": 256, "n": 256, "k": 256})).cluster == 1


@pytest.mark.parametrize("gpu", ["rtx5090", "h100", "a100"])
def test_auto_elsewhere_is_not_touched(gpu):
    assert solve(asked(gpu, "auto")).fragment.policy != "tcgen05"


@pytest.mark.parametrize("gpu, arch", [("gb200", "sm_100a"), ("b300", "sm_103a"), ("jetson_thor", "sm_110a")])
def test_other_gpus_with_tensor_memory_have_kernels_of_their_own_target(gpu, arch):
    best = solve(asked(gpu, "auto"))
    assert (best.fragment.policy, best.arch, best.cluster) == ("tcgen05", arch, 2)
    assert "never run" in standing(best)


def test_an_instruction_is_as_wide_as_the_tile():
    plan = solve(load(SPECS / "kernels" / "blackwell_b200.toml"))
    assert plan.fragment.shape[:2] == plan.block[:2]
    assert plan.own.of_group.fragment.shape[1] == plan.own.of_group.geometry.elements == plan.warp[1]
    parts = parse_name(kernel_name(plan))
    assert (parts["policy"], parts["block"], plan.arch) == ("tcgen05", plan.block, "sm_100a")


def test_the_explanation_says_that_rates_are_assumed(gemmgen):
    ran = gemmgen("explain", SPECS / "kernels" / "blackwell_b200.toml", "--full")
    assert ran.code == 0 and "assumed, not measured" in ran.out and "C27" in ran.out
    assert explain(asked()).feasible > 100


def test_equations_have_numbers_of_their_own():
    def equations(module):
        return [value for value in vars(module).values() if isinstance(value, Equation)]

    own = [e.number for e in equations(tensor_memory.equations)]
    assert own and len(own) == len(set(own)) and not set(own) & {e.number for e in equations(specialised.equations)}
    for constraint in tensor_memory.DESIGN.constraints:
        assert constraint.latex


# ---- runs of k, batches and kinds


RUNS = {"scheme": "run_scaled", "promote": 32, "run": 256}


def test_where_a_run_ends_all_sums_leave_the_unit_and_begin_again():
    """The thread that multiplies and the warps that move sums agree about where: those of 256 k are 8 stages, of a slice counted from its first."""
    for slices, sofar in ((1, "index"), (2, "(work.first + index)")):
        text = render(solve(asked(split=RUNS, tile=TILE | {"split_k": slices}, problem={"m": 256, "n": 256, "k": 4096}))).text
        ending = sofar.replace("index", "index + 1") if slices > 1 else "(index + 1)"
        assert "constexpr int RUN_STAGES = 8;" in text
        assert f"const bool run_begins = index == 0 || {sofar if slices > 1 else '(index)'} % RUN_STAGES == 0;" in text
        assert f"if (index + 1 == work.count || {ending} % RUN_STAGES == 0) tcgen05_commit(complete);" in text
        assert text.count("tcgen05_commit(complete)") == 1 and text.count("tell(taken)") == 1
        assert ("(run + 1) * RUN_STAGES - work.first - index" in text) is (slices > 1)
        assert "if (thread / 32 == WARPGROUPS * 4 + 1)" not in text, "the warp that multiplies does not look ahead"


def test_warps_that_move_sums_wait_for_the_exponents():
    moving = "const int warp_m = 0, warp_n = warpgroup * WARP_N;"
    for scheme, waits in (("run_scaled", True), ("ootomo", False)):
        behind = render(solve(asked(split={"scheme": scheme}))).text.partition(moving)[2]
        assert behind.partition("const u32 mine")[0].count("griddepcontrol.wait") == waits


def test_the_end_of_a_run_takes_time():
    """Worked out by hand: 16 operations of FP32 for each of 128 x 256 elements, by 128 lanes, for each of four runs."""
    plan = solve(asked(split=RUNS | {"run": 1024}, tile=TILE | {"cluster": 2}))
    assert plan.model["run_cycles"] == 4 * 16 * 128 * 256 / 128
    without = replace(plan, scheme=solve(asked()).scheme)
    assert plan.model["kernel_cycles"] - without.model["kernel_cycles"] == pytest.approx(plan.model["turns"] * plan.model["run_cycles"])


def test_fp32s_range_costs_less_than_two_passes():
    """So `as = "fp32"` takes it; by mma.sync it takes three times as long and more."""
    runs, rows, warps = (
        solve(asked(policy=policy, split={"scheme": scheme}, problem={"m": 8192, "n": 8192, "k": 8192})).model
        for scheme, policy in (("run_scaled", "tcgen05"), ("scaled", "tcgen05"), ("run_scaled", "mma")))
    assert runs["tflops"] > 450 and runs["seconds"] < rows["seconds"] < warps["seconds"] / 3


@pytest.mark.parametrize("problem", [
    {"kind": "strided", "m": 512, "n": 512, "k": 512, "matrices": 64}, {"kind": "syrk", "layout": "nt"}, {"type": "c64"},
    *(pytest.param(one, marks=pytest.mark.long) for one in (
        {"kind": "syr2k", "layout": "tn"}, {"kind": "gemmt"}, {"kind": "trmm"}, {"kind": "symm"}, {"kind": "trsm"})),
], ids=lambda problem: problem.get("kind", "c64"))
def test_batches_kinds_and_complex_products_have_kernels(problem):
    """And faster ones than by mma.sync, which are weighed beside them."""
    assert solve(asked("b200", "auto", problem=problem)).design.name == "tensor_memory"


def test_a_whole_four_of_a_triangle_is_computed():
    """Where the diagonal crosses four neighbours each is asked by itself, and what is mirrored is what was stored."""
    text = render(solve(asked(problem={"kind": "syrk", "uplo": "both", "layout": "nt"}))).text
    assert re.search(r"if \(column \+ e >= n \|\| !\(column \+ e <= row\)\) \{\s+whole = false;\s+continue;", text)
    assert "if (store >> e & 1) c[(column + e) * ldc + row] = to[e];" in text
    assert "whole = false;\n                            continue;\n                        }\n                        if (!" not in render(solve(asked())).text


@pytest.mark.parametrize("kind, bound", [("symm", ", 3)"), ("gemmt", ")")])
def test_the_compiler_is_told_what_registers_a_triangles_split_has(kind, bound):
    """By itself it takes 40 for bf16x6 and 48 for e4m3x6, and spills for sm_100a."""
    source = render(solve(asked(split={"scheme": "bf16x6"}, problem={"kind": kind})))
    assert f"__launch_bounds__(256{bound}\n{source.name}_split(" in source.text


# ---- what is refused


@pytest.mark.parametrize("gpu", ["h100", "rtx5090", "a100"])
def test_other_gpus_do_not_have_it(gpu):
    error = refused(gpu=gpu)
    assert (error.got, error.needs, error.remedy) == ("tcgen05", "sm_100a or sm_103a or sm_110a", 'gpu = "b200", or policy = "auto"')
    assert error.has == solve(asked(gpu, "mma")).gpu.arch


@pytest.mark.parametrize("sections, problem", [
    ({"tile": {"block": [256, 128, 32], "warp": [128, 128, 32]}}, "a tile is not one instruction"),
    ({"tile": {"block": [128, 272, 32], "warp": [128, 16, 32]}}, "a tile is not one instruction"),
    ({"tile": {"block": [128, 256, 32], "warp": [128, 256, 32]}}, "the accumulators leave no room in the register file"),
    ({"tile": {"block": [128, 256, 128], "warp": [128, 128, 128]}}, "the matrix unit has no swizzle for rows of this length"),
    ({"tile": TILE, "split": {"scheme": "ootomo4"}}, "the sums do not fit the tensor memory of b200"),
    ({"tile": TILE, "split": {"promote": 48}}, "promotion falls between two instructions or drifts against the stages"),
    ({"tile": TILE | {"cluster": 1}, "pipeline": {"stages": 5}}, "stages = 5 does not fit b200"),
    ({"tile": TILE | {"cluster": 2}, "pipeline": {"stages": 8}}, "stages = 8 does not fit b200"),
    ({"tile": TILE | {"cluster": 4}}, "an instruction multiplies what two blocks have, and no more"),
    ({"tile": {"block": [128, 48, 32], "warp": [128, 48, 32], "cluster": 2}}, "the halves of B that a pair of blocks has are no whole steps of n"),
    ({"pipeline": {"consumers": "pingpong"}}, "tcgen05 does not go with this pipeline"),
    ({"pipeline": {"loads": "async"}}, "tcgen05 does not go with this pipeline"),
    ({"pipeline": {"fragment_buffers": 2}}, "tcgen05 does not go with this pipeline"),
    ({"split": {"where": "mixed"}}, "tcgen05 does not go with this pipeline"),
    ({"split": {"scheme": "fp32"}}, "no tcgen05 fragment of f32 is known for nvidia"),
])
def test_what_cannot_be(sections, problem):
    error = refused(**sections)
    assert error.problem == problem and error.remedy


def test_the_emulator_says_that_the_rule_of_the_sums_is_assumed():
    """Of tcgen05, not of warps' instructions, whose products a B200 has returned."""
    named = {policy: EmulatorDevice(plan, None, None).name for policy in ("tcgen05", "mma") for plan in [solve(asked(policy=policy))]}
    assert named == {
        "tcgen05": "emulator (blackwell matrix unit, assumed of tcgen05 as of warps' instructions, hardware unconfirmed)",
        "mma": "emulator (blackwell matrix unit)",
    }


def test_a_gpus_answers_are_not_held_to_an_assumed_rule():
    for policy, simulates in (("tcgen05", False), ("mma", True)):
        plan = solve(asked(policy=policy))
        assert Judge(plan, None, None, SimpleNamespace(kind="cuda")).simulates == simulates
        assert Judge(plan, None, None, SimpleNamespace(kind="emulator")).simulates


def test_every_report_says_how_far_it_was_checked():
    plan = solve(load(SPECS / "kernels" / "blackwell_b200.toml"))
    told = "compiled, every instruction executed by an interpreter; hardware unconfirmed: never run, and the rule of tcgen05's sums is assumed"
    assert standing(plan) == standing(plan, SimpleNamespace(kind="emulator", name="emulator")) == told
    assert standing(plan, SimpleNamespace(kind="cuda", name="NVIDIA B200")) == "compiled, resources checked; run on NVIDIA B200"
    assert standing(solve(asked(policy="mma"))) == ""


def test_a_header_of_its_own_is_refused():
    with pytest.raises(SpecError, match="has no header"):
        fragment_header(ROWS["tcgen05_m128n16k16_f16"])


def test_the_source_says_what_was_checked():
    text = render(solve(load(SPECS / "kernels" / "blackwell_b200.toml"))).text
    assert "// checked   compiled, every instruction executed by an interpreter; hardware unconfirmed: never run, and the rule of" in text


def test_every_row_loads_strictly():
    assert isinstance(ROWS["tcgen05_m128n16k16_f16"], Fragment) and len(ROWS) == 5
    dumped = json.loads(json.dumps(ROWS["tcgen05_m128n16k16_f16"].model_dump(mode="json")))
    assert dumped["a"] is None and np.array(dumped["c"]["lanes"]).shape == (7, 2)
    assert Path(FRAGMENTS.folder).is_dir()


# ---- integers: residues, and words by row


def residues(scheme: str = "residues8", **sections):
    return asked(split={"scheme": scheme}, problem={"type": SCHEMES.get(scheme).element} | sections.pop("problem", {}), **sections)


@pytest.mark.parametrize("cluster, stage, shared, columns", [(1, 128 * (128 + 256), 4 * (49152 + 16) + 56, 512), (2, 128 * (128 + 128), 4 * (32768 + 16) + 56, 512)])
def test_residues_have_one_byte_an_element_in_a_stage_and_two_buffers(cluster, stage, shared, columns):
    """Worked out by hand: of a pair each block has half of B; the barriers of four stages and two buffers, and the address of tensor memory."""
    plan = solve(residues(tile={"block": [128, 256, 128], "warp": [128, 128, 128], "cluster": cluster}, pipeline={"stages": 4}))
    known = plan.model
    assert (known["stage_bytes"], known["fetch_bytes"], plan.shared_bytes) == (stage, stage, shared)
    assert (plan.own.columns, plan.own.buffers, plan.own.allocated, known["stages_k"]) == (columns, 2, 512, 4096 // 128 * 8)
    assert plan.design.name == "residues_tensor_memory" and plan.fragment.instruction.endswith(f"cta_group::{cluster}.kind::i8")
    # A byte modulo each of eight numbers and an FP64 sum for each element of the tiles at work.
    assert known["blocks_at_once"] == 148 and known["kept_bytes"] == 148 * 128 * 256 * (8 + 8)


@pytest.mark.parametrize("scheme, k, segments, join", [("residues8", 4096, 1, 24 + 5 * 8), ("residues8", 8193, 2, 24 + 5 * 8), ("residues14", 1 << 17, 1, 90 + 12 * 14)])
def test_moving_out_costs_time_where_it_takes_longer_than_the_products(scheme, k, segments, join):
    """Worked out by hand: six issue slots a sum by 128 lanes and 150 cycles a buffer, and what joining takes, for each segment of k of FP32 elements."""
    known = solve(residues(scheme, problem={"m": 8192, "n": 8192, "k": k})).model
    elements, moduli = known["BM"] * known["BN"] / 128, known["moduli"]
    reducing, joining = known["reduce_cycles"], known["join_cycles"]
    assert reducing == 6 * elements and joining >= join * elements
    moving = segments * (moduli * (reducing + 150) + joining)
    assert known["moving_cycles"] == pytest.approx(moving)
    tail = known["turn_cycles_each"] + reducing + joining
    assert known["kernel_cycles"] == pytest.approx(known["turns"] * max(known["stages_k"] * known["stage_cycles"], moving) + tail)
    assert known["stage_cycles"] == max(known["tensor_cycles"], known["shared_cycles"], known["l2_cycles"], known["latency_cycles"]) + 30


@pytest.mark.parametrize("m, k, binds", [(2048, 128, "sums on their way out of the unit"), (16384, 16384, "power")])
def test_a_short_k_is_bound_by_what_leaves_the_unit(m, k, binds):
    plan = solve(residues(problem={"m": m, "n": m, "k": k}, tile={"block": [128, 256, 64], "warp": [128, 128, 64], "cluster": 2}))
    assert plan.design.binding(plan.model) == binds


@pytest.mark.parametrize("gpu, scheme", [pytest.param("b200", "residues14", marks=pytest.mark.long), ("gb200", "mixpert4"), ("jetson_thor", "residues6")])
def test_integers_take_tensor_memory_where_the_unit_multiplies_them(gpu, scheme):
    problem = {"type": SCHEMES.get(scheme).element}
    best, by_warps = (solve(asked(gpu, policy, split={"scheme": scheme}, problem=problem)) for policy in ("auto", "mma"))
    assert best.fragment.instruction.endswith("kind::i8") and best.staging.row_bytes == 128 and best.model["seconds"] < by_warps.model["seconds"]


@pytest.mark.parametrize("gpu", ["b300", "gb300"])
def test_blackwell_ultra_multiplies_integers_by_warps_alone(gpu):
    """ptxas refuses .kind::i8 for sm_103a, whose integers are slow by any instruction: so are the predicted kernels."""
    error = refused(gpu=gpu, split={"scheme": "residues8"})
    assert (error.problem, error.needs, error.has) == (f"{gpu} has no tcgen05 for s8", "sm_100a or sm_110a", "sm_103")
    best = solve(asked(gpu, "auto", split={"scheme": "residues8"}))
    assert best.fragment.policy == "mma" and best.model["tflops"] < 10


@pytest.mark.parametrize("scheme, problem, remedy", [
    ("mixpert4_tile", "kernels of policy tcgen05 and design tensor_memory have no scales of tiles of k", 'policy = "auto"'),
    ("f16_s8", "kernels of policy tcgen05 and design tensor_memory have no words of several types: f16, s8", 'gpu = "gh200"'),
])
def test_what_tensor_memory_does_not_hold_is_refused(scheme, problem, remedy):
    error = refused(split={"scheme": scheme})
    assert (error.problem, error.remedy) == (problem, f'{remedy}, or scheme = "auto"')


@pytest.mark.parametrize("sections, problem", [
    ({"tile": {"split_k": 2}}, "slices of k are not for residues, which do not add up to less than their moduli"),
    ({"tile": {"block": [128, 192, 64], "warp": [128, 64, 64]}}, "the accumulators leave no room in the register file"),
])
def test_what_residues_in_tensor_memory_cannot_be(sections, problem):
    """Three warpgroups that move sums have 128 registers a thread: fourteen residues of sixteen columns spilled 24 B there, eight did not."""
    with pytest.raises(InfeasibleSpec) as caught:
        solve(residues("residues14", **sections))
    assert caught.value.problem == problem
    assert solve(residues("residues8", tile={"block": [128, 192, 64], "warp": [128, 64, 64]})).model["registers"] == 128


def test_parts_of_a_complex_element_that_lie_apart_are_stored_apart():
    """NVRTC 13.5 made one store of eight bytes of both ways, where c64 by integers computes an element again: an address need not be a multiple of 8."""
    text = render(solve(asked(split={"scheme": "mixpert1"}, problem={"type": "c64"}))).text
    assert re.search(r'to\[0\] = real;\s+asm volatile\("" ::: "memory"\);[^\n]*\s+to\[1\] = imaginary;', text)


def test_sums_of_integers_are_not_said_to_be_assumed():
    """Whatever the order, INT32 sums are exact; nothing of it has run for all that."""
    plan = solve(residues())
    assert EmulatorDevice(plan, None, None).name == "emulator (blackwell matrix unit)"
    assert standing(plan) == "compiled, every instruction executed by an interpreter; hardware unconfirmed: never run"
