"""The equations of kernels of residues whose sums are in tensor memory, where they are not those of residues by wgmma or of the tensor-memory design.

The unit fills one buffer while warpgroups reduce what is in the other, so that reducing costs time only where it takes longer than all of k for one modulus.
Joining does, too, unless the products of the next tile hide it. No such kernel has run here: rates are the vendor's or assumed.
"""

from __future__ import annotations

from gemmgen.designs.residues import equations as residues
from gemmgen.designs.specialised import equations as specialised
from gemmgen.designs.tensor_memory import equations as tensor_memory
from gemmgen.designs.tensor_memory.equations import UNLOADED
from gemmgen.model.equation import Equation

OTHER_REGISTERS = residues.OTHER_REGISTERS
BUFFERS = 2
"""Of the sums modulo one number: a tile of the widest instruction fills half of the columns."""

COLUMNS = Equation("Q51", "columns", "buffers * BN", "columns of tensor memory", "sums modulo one number take n columns of 128 lanes, in each buffer")
STAGE_BYTES = Equation(
    "Q52", "stage_bytes", "BK * (BM + BN / cluster)", "B a stage", "as Q1; of a pair each block has half of B",
)
ACCUMULATOR_REGISTERS = Equation(
    "Q53", "accumulator_registers", f"{2 * UNLOADED} + {UNLOADED} / 4 * moduli", "registers a thread",
    "FP64 numbers of the columns that a thread stores at once, and their residues; sums modulo one number take fewer",
)
BUDGETS = (
    STAGE_BYTES, COLUMNS, tensor_memory.SHARED_BYTES, specialised.LAUNCH_REGISTERS, specialised.BUDGET, specialised.ACCUMULATORS, ACCUMULATOR_REGISTERS,
)
LAUNCH = (*tensor_memory.LAUNCH, residues.KEPT_BYTES)

FETCH_BYTES = Equation(
    "Q54", "fetch_bytes", "BK * (BM + BN / cluster)", "B a stage", "each instruction reads its operands from shared memory anew, of a pair half of B in each",
)

STAGE_CYCLES = Equation(
    "Q55", "stage_cycles", "max(tensor_cycles, shared_cycles, l2_cycles, latency_cycles) + stage_wait", "cycles a stage", "as B7",
)
MOVING_CYCLES = Equation(
    "Q56", "moving_cycles", "ceil(K / segment_k) * (moduli * (reduce_cycles + drain_wait) + join_cycles)", "cycles a tile",
    "every sum becomes a byte, and those elements of C",
)
KERNEL_CYCLES = Equation(
    "Q57", "kernel_cycles",
    "turns * max(stages_k * stage_cycles, moving_cycles) + turn_cycles_each + reduce_cycles + join_cycles", "cycles",
    "two buffers: moving out is no slower than the unit; the last tile's last residues and its elements of C follow",
)
_OWN = {
    residues.FETCH_BYTES: (FETCH_BYTES,), specialised.AT_ONCE: (tensor_memory.ALLOCATED, tensor_memory.AT_ONCE), residues.STAGE_CYCLES: (STAGE_CYCLES,),
    residues.CHAIN_CYCLES: (), residues.HIDDEN_CYCLES: (MOVING_CYCLES,), residues.KERNEL_CYCLES: (KERNEL_CYCLES,),
}
TRAFFIC, TIME = (tuple(new for one in part for new in _OWN.get(one, (one,))) for part in (residues.TRAFFIC, residues.TIME))
