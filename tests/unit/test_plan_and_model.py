"""A fact of a plan is its design's equation: each against what the plan's own layouts and the rendered text count, on random plans of every design."""

from __future__ import annotations

import re

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import all_designs, cuda_cores, portable, residues, residues_portable, residues_tensor_memory, specialised, straight, tensor_memory, thin
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from random_specs import bulk_specs, random_plans, specs, straight_specs, tensor_memory_specs, thin_specs
from ways import AMD_WAYS, WAYS, plan_of

RESIDUES = tuple(row.name for row in SCHEMES.rows() if row.family.residues)


def of_residues(strategy):
    """Specs of which fewer are refused: residues are packed before and never promoted, and no warpgroups take turns."""
    def whole(spec: dict) -> dict:
        """Warpgroups of whole pieces of 16 residues a thread."""
        (bm, bn, bk), (wm, wn, wk) = spec["tile"]["block"], spec["tile"]["warp"]
        wide = max(32, wn // 32 * 32)
        return {**spec["tile"], "block": [bm, bn // wn * wide, bk], "warp": [wm, wide, wk], "split_k": 1} if "cluster" in spec["tile"] else spec["tile"]

    return strategy.map(lambda spec: spec | {
        "problem": spec["problem"] | {"type": SCHEMES.get(spec["split"]["scheme"]).element},
        "tile": whole(spec), "split": spec["split"] | {"where": "prepass", "promote": 0},
        "pipeline": {name: value for name, value in spec["pipeline"].items() if name not in ("consumers", "loads")},
    })


PLANS = {
    portable.DESIGN: (specs(gpus=GPUS.names()), 160), specialised.DESIGN: (bulk_specs(), 160), tensor_memory.DESIGN: (tensor_memory_specs(), 40),
    cuda_cores.DESIGN: (specs(gpus=GPUS.names(), schemes=("fp32",)), 120), straight.DESIGN: (straight_specs(), 60),
    thin.DESIGN: (thin_specs(), 60), residues.DESIGN: (of_residues(bulk_specs(schemes=RESIDUES)), 60),
    residues_portable.DESIGN: (of_residues(specs(sides=(16, 32, 48), gpus=GPUS.names(), schemes=RESIDUES)), 100),
    residues_tensor_memory.DESIGN: (of_residues(tensor_memory_specs(RESIDUES)), 24),
}


def plans_of(design) -> list:
    strategy, count = PLANS[design]
    found = [*random_plans(strategy, count), *(plan_of(**way) for way in (WAYS | AMD_WAYS).values())]
    return [plan for plan in found if plan.design is design and not plan.fallback]  # whose text is that of two kernels


def test_every_design_is_held():
    assert set(PLANS) == {one for one in all_designs() if "gemm" in one.kinds}  # the tiles of a batch's kernel are plans of these


def constants(text: str) -> dict[str, int]:
    """The kernel's own constants, as its compiler reads them."""
    known: dict[str, int] = {}
    for line in re.findall(r"^constexpr int ([^;]+);", text, re.M):
        for name, form in re.findall(r"(\w+) = ([^,]+)", line):
            known[name] = int(eval(form.replace("/", "//"), {"__builtins__": {}}, known))
    return known


def counted_registers(plan) -> dict[str, int]:
    """Registers of a thread, counted from the fragment's maps and from who loads what."""
    words, held = len(plan.promotion.stage_products) if plan.scheme.family.residues else len(plan.scheme.words), plan.fragment  # of a stage
    counted = {"accumulator_registers": plan.geometry.accumulator_sets * plan.geometry.elements}
    if held.from_shared:
        return counted
    if plan.design is thin.DESIGN:  # sums of each row that a lane has, by each of the thin operand; four elements of each row
        rows = max(plan.warp[:2]) * plan.own.lanes_k // plan.lanes
        return {"accumulator_registers": rows * min(plan.warp[:2]), "raw_registers": 4 * rows}
    if plan.design is straight.DESIGN:  # of one step; and all elements of a warp's stages
        raw = plan.stages * (plan.warp[0] + plan.warp[1]) * plan.warp[2] // plan.lanes
        one_word = plan.geometry.tiles_m * held.a.register_count + plan.geometry.tiles_n * held.b.register_count
        return counted | {"fragment_registers": words * one_word, "raw_registers": raw}
    of_a, of_b = (len(plan.words_of(operand)) if not plan.scheme.alike else words for operand in "ab")
    counted["fragment_registers"] = (of_a * plan.geometry.tiles_m * held.a.register_count + of_b * plan.geometry.tiles_n * held.b.register_count) * plan.fragment_buffers
    counted["staged"] = 0
    if plan.loads != "async":
        for operand in plan.operands:
            if plan.where == "register":
                copying = plan.staging.copying(operand)
                loads_of_a_thread, registers = copying.down_steps * copying.across_steps, 4
            else:
                chunks = operand.tile * plan.staging.row_chunks * (words if plan.where == "prepass" else 1)
                loads_of_a_thread, registers = -(-chunks // plan.threads), plan.staging.chunk_elements if plan.where == "shared" else 4
            assert plan.staging.parts(operand) == loads_of_a_thread
            counted["staged"] += loads_of_a_thread * registers
    return counted


@pytest.mark.parametrize("design", PLANS, ids=[one.name for one in PLANS])
def test_the_plan_the_model_and_the_text_agree(design):
    plans = plans_of(design)
    assert len(plans) >= 12
    for plan in plans:
        source, numbers = render(plan), plan.model
        # The text defines what it names, and some need neither of these.
        gemm, known = source.launches[-1], {"STAGES": plan.stages, "WARPS_K": plan.block[2] // plan.warp[2]} | constants(source.text)
        assert gemm.threads == known["THREADS"] == numbers["threads"] == plan.threads
        if design is straight.DESIGN:
            staged = known["SUMS_BYTES"] + 4 * plan.threads // plan.lanes * plan.warp[2] * max(plan.warp[:2])
            assert known["SUMS_BYTES"] == 4 * known["WARPS_K"] * plan.block[0] * known["ROW_FLOATS"]
        elif design is thin.DESIGN:
            staged = max(2 * known["HELD_BYTES"] + plan.threads // plan.lanes * plan.stages * known["SLOT_BYTES"], 4 * known["WARPS_K"] * plan.block[0] * known["ROW_FLOATS"])
        else:
            # The text of one stage needs no name for its bytes.
            of_words = sum(len(plan.words_of(one.name)) * one.tile * plan.staging.row_pitch for one in plan.operands) if plan.stages == 1 else 0
            staged = known["STAGES"] * known.get("STAGE_BYTES", of_words)
            if plan.geometry.sums_in_shared:
                staged += 4 * len(plan.scheme.accumulators) * plan.block[0] * plan.block[1]
            if design.stays and plan.scheme.family.tile_k:  # a factor for each row, column and tile of k beside the words
                staged += 4 * plan.stages * sum(plan.block[:2]) * plan.block[2] // plan.scheme.family.tile_k
        barriers = numbers["shared_bytes"] - staged
        assert barriers == 0 if not design.stays else 16 * plan.stages <= barriers < 16 * plan.stages + 256
        assert gemm.shared_bytes == (0 if plan.geometry.static_shared else numbers["shared_bytes"])
        assert gemm.most_blocks == plan.launches.most_blocks and (plan.launches.most_blocks is None) != design.stays
        if design.stays:
            limits, each = plan.gpu.limits, numbers["shared_bytes"] + plan.gpu.limits.shared_bytes_reserved_per_block
            fits = min(limits.shared_bytes_per_sm // each, limits.registers_per_sm // (numbers["registers"] * plan.threads))
            assert plan.launches.most_blocks <= fits * plan.gpu.rates.sms and plan.launches.most_blocks % plan.cluster == 0 < plan.launches.most_blocks
        if not plan.fragment.in_tensor_memory:
            for symbol, count in counted_registers(plan).items():
                assert numbers[symbol] == count, (symbol, plan)
        if not design.stays and design not in (straight.DESIGN, thin.DESIGN):
            rolled = any(f"#pragma unroll 1  // {why}" in source.text for why in ("unrolled", "no further ahead"))
            assert rolled != plan.geometry.unrolls_steps


def test_of_a_square_tile_model_and_text_take_the_same_operand_for_the_thin_one():
    """The text loads the large operand as its k lie, and the equations count its instructions by that. B's would lie apart."""
    plan = solve(loads({
        "problem": {"m": 16, "n": 16, "k": 4096, "layout": "nn"}, "split": {"scheme": "fp32"}, "target": {"gpu": "a100"},
        "pipeline": {"design": "thin"}, "tile": {"block": [16, 16, 256]},
    }))
    facts = plan.design.facts(plan)
    assert plan.block[0] == plan.block[1] and facts.large.name == "a" and facts.strided == bool(plan.numbers["large_strided"]) is False


@pytest.mark.parametrize(("spec", "symbol", "value"), [
    # Where a block has more threads than the file has registers for, G24 leaves a stage rolled, as the text does.
    ({"target": {"gpu": "a100"}, "tile": {"block": [128, 128, 32], "warp": [32, 32, 32]}, "split": {"where": "register", "promote": 64},
      "pipeline": {"fragment_buffers": 1}}, "unrolled", 0),
    # Each operand's loads are whole ones. A's 64 rows of 16 k are one of 16 bytes a thread; B, stored along n, is 16 rows of two lines
    # of 128 bytes, of which 256 threads load all rows of one at once.
    ({"target": {"gpu": "mi300x"}, "tile": {"block": [64, 64, 16], "warp": [32, 32, 16]}, "split": {"where": "register"}}, "staged", 12),
])
def test_where_two_tellings_of_a_fact_once_parted(spec, symbol, value):
    plan = solve(loads(spec | {"split": {"scheme": "ootomo", **spec["split"]}, "build": {"allow_spills": True}}))
    assert plan.numbers[symbol] == value
