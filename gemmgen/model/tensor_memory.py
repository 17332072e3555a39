"""The tensor-memory skeleton's space: what it takes from its SM, and how long it works.

Copies, barriers and blocks that stay are the warp-specialised skeleton's, and so
are their equations. The unit's sums are in tensor memory instead of registers:
warpgroups only move them out. No such kernel has run here: every rate below is
the vendor's or assumed, and serves to compare candidates with one another.
"""

from __future__ import annotations

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.model import resources, space, specialised
from gemmgen.model.equation import Constraint, Equation
from gemmgen.model.space import Choices, Skeleton
from gemmgen.plan import ISSUER_REGISTERS, MOST_REGISTERS, TENSOR_COLUMNS, UNLOADED, Hints

BLOCK_N = (64, 96, 128, 160, 192, 224, 256)
"""Tiles that a search considers; an instruction is as wide as a tile."""
MOST_HELD = 128
"""Columns that a search gives one warpgroup, a register each."""

OTHER_REGISTERS = 24
"""Addresses, the loop and the barriers of a thread that moves sums, as compiled."""

CONSTANT_OF = {
    "mma_efficiency": "efficiency", "drain_wait": "drain_cycles", "stage_wait": "stage_wait_cycles", "turn_cycles_each": "turn_cycles",
    "store_cycles": "store_cycles_per_element", "overlap_seconds": "overlap_seconds", "split_power": "split_power_share",
}
"""Symbol: the constant of a GPU's row, under [measured.tcgen05], that it stands for."""

# ---- resources

BUFFERS = Equation(
    "B1", "buffers", f"where((promote > 0) & (promoted_sums > 0) & ((sums + promoted_sums) * BN <= {TENSOR_COLUMNS}), 2, 1)", "",
    "a sum that moves out has two places, if there is room: one is filled while the other is moved",
)
COLUMNS = Equation("B2", "columns", "(sums + where(promote > 0, promoted_sums, 0) * (buffers - 1)) * BN", "columns of tensor memory", "a sum takes n columns of 128 lanes")
SHARED_BYTES = Equation(
    "B3", "shared_bytes", "stages * (stage_bytes + 16) + 8 * (2 * buffers + 3) + where(split_k > 1, 8 * groups, 0)", "B",
    "as W5, with two barriers a buffer, two for sums that stay, and the address of tensor memory",
)
BUDGET = Equation(
    "B10", "register_budget", f"where(promote > 0, min({MOST_REGISTERS}, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8)), registers)",
    "registers a thread", "as W8; where nothing moves before a tile's end, registers stay where they are",
)
BUDGETS = (
    specialised.A_BYTES, specialised.STAGE_BYTES, BUFFERS, COLUMNS, SHARED_BYTES, specialised.LAUNCH_REGISTERS,
    BUDGET, specialised.ACCUMULATOR_REGISTERS,
)

_BY_NUMBER = {one.number: one for one in specialised.CONSTRAINTS}
CONSTRAINTS = (
    *(_BY_NUMBER[number] for number in ("C23", "C2", "C3", "C4", "C5", "C6")),
    Constraint("C26", "one instruction a tile", "(BM == FM) & (WM == BM) & (BN <= 256)", "a row of C is a lane of tensor memory, and an instruction as wide as the tile"),
    _BY_NUMBER["C7"],
    _BY_NUMBER["C9"],
    Constraint("C27", "tensor memory", f"columns <= {TENSOR_COLUMNS}", "128 lanes of 512 columns an SM"),
    *(_BY_NUMBER[number] for number in ("C10", "C11")),
    space.FEW_TILES,
)

# ---- traffic

FETCH_BYTES = Equation(
    "B4", "fetch_bytes", "BK * word_bytes * products * (BM + BN)", "B a tile and stage", "each instruction reads its operands from shared memory anew",
)
TRAFFIC = tuple(FETCH_BYTES if one is specialised.FETCH_BYTES else one for one in specialised.TRAFFIC)

# ---- time

DRAIN = Equation(
    "B5", "drain_cycles", "where(promote > 0, promoted_sums * BM * BN / f32_fma_per_clock + drain_wait, 0)", "cycles an interval",
    "an addition for each element, while the unit is at other sums",
)
CHAIN_CYCLES = Equation(
    "B6", "chain_cycles",
    "where(promote > 0, BK / max(promote, 1) * where(buffers > 1, drain_cycles,"
    " drain_cycles + products_moving * BM * BN * promote / (tensor_fma_per_clock * mma_efficiency)), 0)", "cycles a stage",
    "two buffers: moving out is no slower than the unit; one: it is filled and moved in turn, and only sums that stay hide it",
)
STAGE_CYCLES = Equation(
    "B7", "stage_cycles", "max(tensor_cycles, shared_cycles, l2_cycles, chain_cycles, latency_cycles) + stage_wait", "cycles a tile and stage", "the slowest binds",
)
TILE_CYCLES = Equation(
    "B8", "turn_cycles", "max(0, store_cycles * BM * BN - stages_k * stage_cycles) + where(sums > where(promote > 0, promoted_sums, 0), sums * BM * BN / f32_fma_per_clock, 0)",
    "cycles a tile", "C's way out is hidden behind the next tile; sums that stay are moved out before it begins",
)
KERNEL_CYCLES = Equation(
    "B9", "kernel_cycles", "turns * (stages_k * stage_cycles + turn_cycles) + turn_cycles_each + store_cycles * BM * BN"
    " + where(split_k > 1, turns * (4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles), 0)", "cycles", "one piece of work after another, and the last one's C",
)
_OWN = {specialised.CHAIN_CYCLES: CHAIN_CYCLES, specialised.STAGE_CYCLES: STAGE_CYCLES, specialised.TILE_CYCLES: TILE_CYCLES, specialised.KERNEL_CYCLES: KERNEL_CYCLES}
TIME = (DRAIN, *(_OWN.get(one, one) for one in specialised.TIME))


def constants(layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, float]:
    """The symbols that no candidate changes."""
    rates, measured = gpu.rates, gpu.measured.of("tcgen05", gpu.name)
    moving = {acc.name for acc in scheme.accumulators if acc.promoted}
    return space.constants(layout, scheme, fragment, gpu, hints) | {
        "FN": 16, "unit_rate": measured.sustained_share.value * 1e12 * (rates.tensor_tflops(scheme.word) or rates.f16_tflops),
        **{symbol: getattr(measured, constant).value for symbol, constant in CONSTANT_OF.items()},
        "products_moving": sum(product.into in moving for product in scheme.products),
        # Registers hold the sums that have moved out, combined, and the columns that are on their way.
        "accumulators": 1, "fragment_registers": UNLOADED, "producer_registers": ISSUER_REGISTERS,
        "cluster_seconds": 0, "other_registers": OTHER_REGISTERS,
    }


def _axes(choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
    """Tiles; slices of k; promotion and stages; groups."""
    block, warp = choices.block, choices.warp
    bm = fragment.shape[0]
    tiles = []
    for bn in (block[1],) if block else BLOCK_N:
        halves = [wn for wn in (bn, bn // 2) if wn <= MOST_HELD and wn % 16 == 0 or wn == bn // 2]
        for wn in (warp[1],) if warp else halves:
            for bk in ((block or warp)[2],) if block or warp else (16, 32, 64):
                tiles.append((block[0] if block else bm, warp[0] if warp else bm, bn, wn, bk, (warp or block or (0, 0, bk))[2]))
    slices = (choices.split_k,) if choices.split_k else specialised.SLICES
    pipelines = [(promote, stages) for promote in choices.promote for stages in ((choices.stages,) if choices.stages else space.STAGES)]
    return [
        dict(zip(("BM", "WM", "BN", "WN", "BK", "WK"), np.array(tiles).T)),
        dict(zip(("split_k", "mixed", "cluster", "pingpong"), np.array([(count, 0, 1, 0) for count in slices]).T)),
        dict(zip(("promote", "stages"), np.array(pipelines).T)),
        {"group": np.array((choices.group,) if choices.group else space.GROUPS)},
    ]


TENSOR_MEMORY = Skeleton(
    "tensor memory", specialised.SPECIALISED.decisions, (), (*specialised.RESOURCES, *BUDGETS), lambda numbers, arch_number: dict(numbers),
    (*TRAFFIC, *TIME), CONSTRAINTS, (space.FEW_TILES,), _axes,
    (
        ("Resources", (*specialised.RESOURCES, *BUDGETS)), ("Occupancy", resources.OCCUPANCY_EQUATIONS), ("Traffic", TRAFFIC), ("Time", TIME),
    ),
    specialised.SPECIALISED.preference,
)
