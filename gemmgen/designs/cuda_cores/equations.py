"""How many registers the compiler gives kernels of plain multiply-adds, which it orders as it likes.

What they must hold (G14) is little, and ptxas then fetches ahead into all registers that cost no block of the SM (F3);
clang for AMD does not. A few round coefficients serve all generations of NVIDIA, and a few more each family of AMD's.
"""

from __future__ import annotations

from dataclasses import dataclass
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

NONE = (0.0,) * len(registers.LOOPS)


@dataclass(frozen=True)
class Coefficients:
    """What a family of generations takes, for each kind of loop; the other slopes are 0.

    Attributes:
        slopes: by symbol.
        offset: registers of a thread beside what it must hold; ahead: beyond that, where they cost no block of the SM.
    """

    slopes: dict[str, tuple[float, ...]]
    offset: tuple[float, ...]
    ahead: tuple[float, ...] = NONE


def _amd(rolled: tuple[float, ...], shared: tuple[float, ...]) -> Coefficients:
    """Of sums, both operands' fragments, a tile on its way and the rest: of the two kinds of loop that AMD's kernels have.

    Their compiler takes what it needs, whatever occupancy would grant.
    """
    *slopes, offset = ((one, one, one, other, one) for one, other in zip(rolled, shared))
    return Coefficients(dict(zip(("per_sum", "per_narrow", "per_wide", "per_staged"), slopes)), offset)


COEFFICIENTS = {
    "nvidia": Coefficients(
        {
            "per_sum": (0.95, 0.95, 1.0, 0.95, 1.0), "per_narrow": (1.0, 1.0, 2.0, 1.0, 1.0), "per_wide": (0.0, 0.5, 2.0, 0.0, 0.0),
            "per_staged": (1.0, 1.0, 1.0, 1.7, 1.0), "per_second": (0.0, 0.0, 0.0, 2.3, 0.0), "per_strided": (0.0, 0.0, 0.0, 5.0, 0.0),
        },
        (30.0, 30.0, 24.0, 22.0, 60.0), (70.0, 70.0, 40.0, 50.0, 70.0),
    ),
    "cdna1": _amd((1.0, 1.0, 1.0, 0.95, 16.0), (0.95, 1.0, 1.1, 1.9, 20.0)),
    "cdna": _amd((0.95, 1.35, 1.35, 0.95, 14.0), (1.05, 1.3, 1.0, 1.6, 26.0)),
    "rdna": _amd((0.4, 1.8, 1.55, 1.0, 6.0), (0.9, 0.3, 1.0, 1.9, 32.0)),
}
"""By family of generations. NVIDIA's were found by trial on 900 kernels compiled for seven generations: the sums, the narrow
fragments, and 30 registers for a piece of the wide ones, addresses and the loop; with two buffers all fragments twice. AMD's were
fitted to 220 kernels compiled for six targets: clang fetches all of a step's fragments at once, and from CDNA 2 on it makes
pairs of one of the two operands, which take registers of their own."""


def coefficients(arch_number: int, loop: Any) -> dict[str, Any]:
    """The symbols of G14, F4 and C12 for a generation and a kind of loop, or for columns of kinds."""
    own = COEFFICIENTS[registers.family_of(arch_number)]
    slopes = dict.fromkeys(registers.SLOPE_OF, NONE) | own.slopes
    return registers.of_loops(slopes | {"generation": own.offset, "squeeze": NONE, "ahead": own.ahead}, loop)


def predict(numbers: Numbers, arch_number: int) -> dict[str, Any]:
    """`numbers` with the values of the register model."""
    known = solved(EQUATIONS, numbers)
    known |= coefficients(arch_number, known["loop"])
    return solved(ALL[len(EQUATIONS):], known)
