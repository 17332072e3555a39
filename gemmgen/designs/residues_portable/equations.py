"""The equations of portable kernels of residues, where they are not those of all portable kernels.

A stage holds one residue of each element, and a tile goes through all of k once for each modulus. Behind each such turn a thread reduces its sums and
adds them up with the modulus's weights, two registers for each element of C whatever the number of moduli.
"""

from __future__ import annotations

from gemmgen.designs.residues.equations import WIDE_PASS_SECONDS, WIDE_PASS_SHARE
from gemmgen.designs.strided.equations import WAVE_PRODUCTS
from gemmgen.model import registers, time, traffic
from gemmgen.model.equation import Equation

REDUCE_INSTRUCTIONS = 7
"""Issue slots for each sum that is reduced: an addition, a high and a low product, a shift, and two multiply-adds with the weight's parts; and its zero."""
JOIN_INSTRUCTIONS = 16
"""Issue slots for each element of C beside its store: the fraction to FP64, two products there, and to FP32. Of FP64 elements those of all residues too
(`residues.equations.of_elements`)."""

STORE_REGISTERS, STORE_SPARE, COMPLEX_STORE = 80, 108, 60
"""Registers that ptxas stores FP64's elements with and spills none, at least, and those it takes where the launch leaves them: 76 to 92 and 92 to 128, by
a hundred compiled kernels of sm_75 to sm_120; and what it stores complex elements of FP32 with beside the guards below: with 72 it spilled 8 B."""
KEPT_GUARD, COMPLEX_GUARD = 0.4, 10
"""Registers for each that holds sums of several moduli, beside two fragment buffers, and of complex elements of FP32, which both parts are stored with;
ptxas spilled 8 to 588 B where the model had up to as many left."""

KEPT_REGISTERS = Equation(
    "Q25", "kept_registers", "where(total_bytes > 0, 2 * WM * WN / warp_size, 0)", "registers a thread",
    "sums of residues with their weights: 64 bits for each element; FP64's residues are bytes in the workspace",
)
TURN_REGISTERS = Equation(
    "Q59", "turn_registers", "where((total_bytes > 0) | (amd > 0), 0, 7)", "registers a thread",
    "of FP64's loop beside G14: the modulus and the stages left of it, of the copies and of the products; stages of k; and where residues lie",
)
LEAST_STORE = Equation(
    "Q61", "least_store",
    f"where(amd > 0, 0, where(total_bytes > 0, where(reals > 1, {COMPLEX_STORE}, 0), {STORE_REGISTERS} + 4 * (reals - 1)))", "registers a thread",
    "ptxas stores FP64 elements with no less, and complex ones with the imaginary parts of two factors",
)
DEMAND = Equation(
    "Q26", "demand", f"max({registers.DEMAND.form} + per_kept * kept_registers + turn_registers, least_store)",
    "registers a thread", "G14, and what is kept; AMD's compiler reduces many sums at a time; by compiled kernels",
)
LAUNCH_SHARE = Equation(
    "Q60", "launch_share", "register_allocation_unit / warp_size * floor(registers_per_sm / threads"
    " / max(1, floor(registers_per_sm / threads / (register_allocation_unit / warp_size * ceil(demand * warp_size / register_allocation_unit))))"
    " * warp_size / register_allocation_unit)",
    "registers a thread", "that as many blocks as fit an SM leave: ptxas is told how many of FP64's do",
)
REGISTERS = Equation(
    "Q33", "registers", "min(register_budget, ceil(max(demand + spare_kept * kept_registers, where((total_bytes > 0) | (amd > 0), 0,"
    f" min(launch_share, max(min({STORE_SPARE}, 72 + accumulator_registers), demand + where(loop == 1, fragment_registers / 2, 0)))))))", "registers a thread",
    "ptxas joins and stores several elements at a time where registers are left, and fetches a part of the next step's fragments ahead in unrolled loops."
    " By a hundred compiled kernels",
)
UNEVEN = Equation(
    "Q34", "uneven", f"{registers.UNEVEN.form} + where(fragment_buffers > 1, where(amd > 0, 0, {KEPT_GUARD} * kept_registers), 0)"
    f" + where((amd == 0) & (total_bytes > 0) & (reals > 1), {COMPLEX_GUARD}, 0) + where(least_store > 0, max(0, least_store + squeeze - demand), 0)",
    "registers a thread", "G17; two fragment buffers were seen to spill where one did not, and complex elements of FP32 where others did not; stores"
    " cannot be squeezed",
)
REGISTER_EQUATIONS = (TURN_REGISTERS, LEAST_STORE, DEMAND, registers.BUDGET, LAUNCH_SHARE, REGISTERS, UNEVEN)
STAGES_K = Equation("Q27", "stages_k", "ceil(K / BK) * moduli", "stages a block", "all of k for each modulus")
PLANE_BYTES = Equation("Q28", "plane_bytes", "batch * (M + N) * K * moduli", "B", "both operands' residues, a byte each, of all products")
DRAM_BYTES = Equation(
    "Q29", "dram_bytes",
    "c_bytes * batch * M * N + where(plane_bytes + c_bytes * batch * M * N <= l2_size, 0,"
    " max(plane_bytes, waves * wave_products * (wave_rows * BM + wave_columns * BN) * K * moduli))"
    " + where(total_bytes > 0, where(K > segment_k, 16 * batch * M * N * (ceil(K / segment_k) - 1), 0),"
    " where(moduli * batch * M * N > l2_size, 2 * moduli * batch * M * N, 0))",
    "B", "T13 of all residues; and FP64 sums of the segments of k, where there are several, written and read; or the residues of FP64's C",
)
SPLIT_BYTES = Equation(
    "Q30", "split_bytes", "batch * K * (M + N) * (pass_bytes + moduli)", "B",
    "elements in once, FP64 twice, for norms and for residues, which go out",
)
REDUCE_CYCLES = Equation(
    "Q31", "reduce_cycles",
    f"ceil(K / segment_k) * ({REDUCE_INSTRUCTIONS} * moduli + where(total_bytes > 0, {JOIN_INSTRUCTIONS}, store_slots + join_slots * moduli))"
    " * BM * BN / f32_fma_per_clock", "cycles a block",
    "every sum modulo each number, and every element of C, while the matrix unit waits",
)
SPLIT_SECONDS = Equation(
    "Q42", "split_seconds", f"where(total_bytes > 0, split_bytes / dram_rate, {WIDE_PASS_SHARE} * split_bytes / dram_rate + {2 * WIDE_PASS_SECONDS})", "s",
    "of FP32 by device memory; of FP64 as long as the same passes take on an H200",
)
KERNEL_CYCLES = Equation(
    "Q32", "kernel_cycles",
    "stages_k * (full_waves * stage_cycles + tail_cycles)"
    " + (full_waves * resident_blocks + tail_blocks) * (tile_cycles * BM * BN + reduce_cycles)",
    "cycles", "M15, and the reductions of a block",
)
_OWN = {one.symbol: (one,) for one in (STAGES_K, PLANE_BYTES, SPLIT_BYTES)} | {"dram_bytes": (WAVE_PRODUCTS, DRAM_BYTES)}
TRAFFIC = tuple(new for one in traffic.PROBLEM_EQUATIONS for new in _OWN.get(one.symbol, (one,)))
TIME = tuple(
    new for one in time.EQUATIONS
    for new in ((REDUCE_CYCLES, KERNEL_CYCLES) if one is time.KERNEL_CYCLES else (SPLIT_SECONDS,) if one is time.SPLIT_SECONDS else (one,))
)
