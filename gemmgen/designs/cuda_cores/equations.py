"""How many registers the compiler gives kernels of plain multiply-adds, which it orders as it likes.

What they must hold (G14) is little, and ptxas then fetches ahead into all registers that cost no block of the SM (F3).
A few round coefficients serve all generations.
"""

from __future__ import annotations

from typing import Any

from gemmgen.model import registers
from gemmgen.model.equation import Equation, Numbers, solved

UNROLLED = Equation(
    "F1", "unrolled", "where((fragment_buffers > 1) | (spread > 0), 1, 0)", "",
    "whether the steps of a stage are unrolled: two fragment buffers and loads with places of their own need it. Steps of plain multiply-adds"
    " are long: it is the other warps that hide a fetch",
)
MEANT_BLOCKS = Equation(
    "F2", "meant_blocks",
    "max(1, floor(partitions * floor(registers_per_sm / partitions"
    " / (register_allocation_unit * ceil(max(1, demand) * warp_size / register_allocation_unit))) / warps))",
    "blocks", "how many would share an SM if each took no more than it must, as R8 has it",
)
GRANTED = Equation(
    "F3", "granted",
    "register_allocation_unit / warp_size * floor(registers_per_sm / partitions"
    " / (register_allocation_unit * ceil(meant_blocks * warps / partitions)))",
    "registers a thread", "as many as leave room for those",
)
REGISTERS = Equation(
    "F4", "registers", "min(register_budget, min(granted, ceil(demand) + ahead))", "registers a thread", "plain arithmetic takes what is granted",
)
EQUATIONS = tuple(UNROLLED if one is registers.UNROLLED else one for one in registers.EQUATIONS)
ALL = (*EQUATIONS, registers.DEMAND, registers.BUDGET, MEANT_BLOCKS, GRANTED, REGISTERS, registers.UNEVEN)

SLOPES = {
    "per_sum": (0.95, 0.95, 1.0, 0.95, 1.0), "per_narrow": (1.0, 1.0, 2.0, 1.0, 1.0), "per_wide": (0.0, 0.5, 2.0, 0.0, 0.0),
    "per_staged": (1.0, 1.0, 1.0, 1.7, 1.0), "per_second": (0.0, 0.0, 0.0, 2.3, 0.0), "per_strided": (0.0, 0.0, 0.0, 5.0, 0.0),
}
OFFSET, AHEAD = (30.0, 30.0, 24.0, 22.0, 60.0), (70.0, 70.0, 40.0, 50.0, 70.0)
"""For each kind of loop; the other slopes are 0. Found by trial on 900 kernels compiled for seven generations: the sums, the
narrow fragments, and 30 registers for a piece of the wide ones, addresses and the loop; with two buffers all fragments twice."""


def coefficients(loop: Any) -> dict[str, Any]:
    """The symbols of G14, F4 and C12 for a kind of loop, or for columns of kinds."""
    none = (0.0,) * len(registers.LOOPS)
    slopes = dict.fromkeys(registers.SLOPE_OF, none) | SLOPES
    return registers.of_loops(slopes | {"generation": OFFSET, "squeeze": none, "ahead": AHEAD}, loop)


def predict(numbers: Numbers) -> dict[str, Any]:
    """`numbers` with the values of the register model."""
    known = solved(EQUATIONS, numbers)
    known |= coefficients(known["loop"])
    return solved(ALL[len(EQUATIONS):], known)
