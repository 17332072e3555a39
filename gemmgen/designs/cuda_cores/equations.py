"""How many registers the compiler gives kernels of plain multiply-adds, which it orders as it likes.

What they must hold (G14) is little, and ptxas then fetches ahead into all registers that cost no block of the SM (F3);
clang for AMD does not. A few round coefficients serve all generations of NVIDIA, and a few more each family of AMD's:
they are in the rows of specs/generations, under [registers.plain]. NVIDIA's were found by trial on 900 kernels compiled for seven
generations: the sums, the narrow fragments, and 30 registers for a piece of the wide ones, addresses and the loop; with two buffers all
fragments twice. AMD's were fitted to 220 kernels compiled for six targets: clang fetches all of a step's fragments at once, and from
CDNA 2 on it makes pairs of one of the two operands, which take registers of their own.
"""

from __future__ import annotations

from typing import Any

from gemmgen.catalog.registers import LOOPS, Registers
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


def coefficients(table: Registers, loop: Any) -> dict[str, Any]:
    """The symbols of G14, F4 and C12 for a GPU's constants and a kind of loop, or for columns of kinds."""
    own = table.plain
    slopes = {name: getattr(own.slopes, name) for name in registers.SLOPE_OF}
    return registers.of_loops(slopes | {"generation": own.offset, "squeeze": (0.0,) * len(LOOPS), "ahead": own.ahead}, loop)


def predict(numbers: Numbers, table: Registers) -> dict[str, Any]:
    """`numbers` with the values of the register model."""
    known = solved(EQUATIONS, numbers)
    known |= coefficients(table, known["loop"])
    return solved(ALL[len(EQUATIONS):], known)
