"""The tensor-memory design's equations: what it takes from its SM, and how long it works.

Copies, barriers and blocks that stay are the warp-specialised design's, and so
are their equations. The unit's sums are in tensor memory instead of registers:
warpgroups only move them out. No such kernel has run here: every rate below is
the vendor's or assumed, and serves to compare candidates with one another.
"""

from __future__ import annotations

from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.specialised import equations as specialised
from gemmgen.designs.specialised.equations import MOST_REGISTERS
from gemmgen.model import time
from gemmgen.model.equation import Equation

TENSOR_COLUMNS = 512
"""Of tensor memory, 128 lanes of 32 bits each."""
UNLOADED = 16
"""Columns that a thread reads of tensor memory at a time."""
ISSUER_REGISTERS = 80
"""A thread of the warpgroup that issues copies and products."""
OTHER_REGISTERS = 24
"""Addresses, the loop and the barriers of a thread that moves sums, as compiled."""

CONSTANT_OF = {
    "mma_efficiency": "efficiency", "drain_wait": "drain_cycles", "stage_wait": "stage_wait_cycles", "turn_cycles_each": "turn_cycles",
    "store_cycles": "store_cycles_per_element", "overlap_seconds": "overlap_seconds", "split_power": "split_power_share",
    "cluster_seconds": "cluster_seconds",
}
"""Symbol: the constant of a GPU's row, under [measured.tcgen05], that it stands for."""

# ---- resources

BUFFERS = Equation(
    "B1", "buffers", f"where((promote > 0) & (promoted_sums > 0) & ((sums + promoted_sums) * BN <= {TENSOR_COLUMNS}), 2, 1)", "",
    "a sum that moves out has two places, if there is room: one is filled while the other is moved",
)
COLUMNS = Equation(
    "B2", "columns", "(sums + where(promote > 0, promoted_sums, 0) * (buffers - 1)) * BN", "columns of tensor memory",
    "a sum takes n columns of 128 lanes",
)
STAGE_BYTES = Equation(
    "B13", "stage_bytes", "BK * (BM * a_bytes + BN * b_word_bytes / cluster)", "B a stage", "as W4; of a pair each block has half of B",
)
SHARED_BYTES = Equation(
    "B3", "shared_bytes", "stages * (stage_bytes + 16) + 8 * (2 * buffers + 3) + where(split_k > 1, 8 * groups, 0)", "B",
    "as W5, with two barriers a buffer, two for sums that stay, and the address of tensor memory",
)
BUDGET = Equation(
    "B10", "register_budget", f"where(promote > 0, min({MOST_REGISTERS}, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8)), registers)",
    "registers a thread", "as W8; where nothing moves before a tile's end, registers stay where they are",
)
BUDGETS = (
    specialised.A_BYTES, STAGE_BYTES, BUFFERS, COLUMNS, SHARED_BYTES, specialised.LAUNCH_REGISTERS,
    BUDGET, specialised.ACCUMULATOR_REGISTERS,
)

ALLOCATED = Equation(
    "B11", "allocated_columns", "where(columns <= 32, 32, where(columns <= 64, 64, where(columns <= 128, 128, where(columns <= 256, 256, 512))))",
    "columns of tensor memory", "an allocation is a power of two",
)
AT_ONCE = Equation(
    "B12", "blocks_at_once", f"floor(min(max(resident_blocks, 1), floor({TENSOR_COLUMNS} / allocated_columns)) * sms / cluster) * cluster", "blocks",
    "as W38, and so many as have their columns",
)
LAUNCH = (specialised.SHARERS, ALLOCATED, AT_ONCE)

# ---- traffic

FETCH_BYTES = Equation(
    "B4", "fetch_bytes", "BK * word_bytes * products * (BM + BN / cluster)", "B a tile and stage",
    "each instruction reads its operands from shared memory anew, of a pair half of B in each",
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
    "B7", "stage_cycles", "max(tensor_cycles, shared_cycles, l2_cycles, chain_cycles, latency_cycles) + stage_wait", "cycles a tile and stage",
    "the slowest binds",
)
TILE_CYCLES = Equation(
    "B8", "turn_cycles",
    "max(0, store_cycles * BM * BN - stages_k * stage_cycles)"
    " + where(sums > where(promote > 0, promoted_sums, 0), sums * BM * BN / f32_fma_per_clock, 0)",
    "cycles a tile", "C's way out is hidden behind the next tile; sums that stay are moved out before it begins",
)
KERNEL_CYCLES = Equation(
    "B9", "kernel_cycles", "turns * (stages_k * stage_cycles + run_cycles + turn_cycles) + turn_cycles_each + store_cycles * BM * BN"
    " + where(split_k > 1, turns * (4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles), 0)", "cycles",
    "one piece of work after another, and the last one's C",
)
_OWN = {
    specialised.CHAIN_CYCLES: CHAIN_CYCLES, specialised.STAGE_CYCLES: STAGE_CYCLES, specialised.TILE_CYCLES: TILE_CYCLES,
    specialised.KERNEL_CYCLES: KERNEL_CYCLES, specialised.KERNEL_SECONDS: time.KERNEL_SECONDS,
}
TIME = (DRAIN, *(_OWN.get(one, one) for one in specialised.TIME))


def constants(scheme: Scheme, gpu: Gpu) -> dict[str, float]:
    """The symbols that no candidate changes, beside those that every design has."""
    rates, measured = gpu.rates, gpu.measured.of("tcgen05", gpu.name)
    moving = {acc.name for acc in scheme.accumulators if acc.promoted}
    return {
        "FN": 16, "unit_rate": measured.sustained_share.value * 1e12 * (rates.tensor_tflops(scheme.leading) or rates.f16_tflops),
        **{symbol: getattr(measured, constant).value for symbol, constant in CONSTANT_OF.items()},
        "products_moving": sum(product.into in moving for product in scheme.products),
        # Registers hold the sums that have moved out, combined, and the columns that are on their way.
        "accumulators": 1, "fragment_registers": UNLOADED, "producer_registers": ISSUER_REGISTERS,
        "other_registers": OTHER_REGISTERS,
    }
