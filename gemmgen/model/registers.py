"""How many registers ptxas gives the main kernel.

A thread's demand is what it must hold at once: its accumulators (each in one
register, for the whole loop), the fragments of a step, and a rest that belongs
to the generation: addresses, loop state, what the scheduler keeps in flight.
How much of the fragments is alive at once depends on how the loop is written:

- `rolled`: one buffer, the steps of a stage in a loop. Only the fragments that a
  product needs next are alive.
- `ahead`: one buffer, the steps unrolled: the compiler fetches the next step's
  fragments while this one's are multiplied.
- `buffered`: two buffers, and both alive, with the addresses of both.

The coefficients are a least-squares fit to compiled kernels, with a slope for
what is held and an offset for each generation (bench/fit_registers.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.model.equation import Constraint, Equation, Numbers
from gemmgen.model.register_table import OFFSETS, SLOPES

UNROLL_BELOW = 192  # as in plan.Plan.unrolls_steps, which the tests hold equal

A_FRAGMENTS = Equation(
    "G1", "a_fragments", "words * WM * FK * word_bytes / (4 * warp_size)", "registers a thread", "WMMAe eq. 2, one operand",
)
B_FRAGMENTS = Equation(
    "G2", "b_fragments", "words * WN * FK * word_bytes / (4 * warp_size)", "registers a thread", "WMMAe eq. 2, one operand",
)
LOOP = Equation(
    "G3", "loop",
    f"where(fragment_buffers > 1, 2, where((BK > FK) & (accumulator_registers + fragment_registers < {UNROLL_BELOW}), 1, 0))",
    "", "0 rolled, 1 ahead, 2 buffered: how the steps of a stage are written",
)
DEMAND = Equation(
    "G4", "demand",
    "per_accumulator * accumulator_registers + per_a_fragment * a_fragments + per_b_fragment * b_fragments"
    " + where(promote == FK, per_step_sum, 0) + per_word * words + generation",
    "registers a thread", "a slope for what is held, an offset for each generation; fitted for each kind of loop",
)
BUDGET = Equation(
    "G5", "register_budget",
    "min(registers_per_thread, floor(registers_per_sm / threads * warp_size / register_allocation_unit)"
    " * register_allocation_unit / warp_size)",
    "registers a thread", "a block must fit its SM: what the launch bound tells ptxas",
)
REGISTERS = Equation(
    "G6", "registers", "min(register_budget, ceil(demand))", "registers a thread", "ptxas keeps to its budget, and spills the rest",
)
EQUATIONS = (A_FRAGMENTS, B_FRAGMENTS, LOOP)
LOOPS = ("rolled", "ahead", "buffered")

NO_SPILL = Constraint(
    "C12", "predicted to spill", "demand + guard <= register_budget + squeeze",
    "what ptxas cannot hold it spills; it can squeeze a demand somewhat, and the guard covers the model's error",
)


def coefficients(arch_number: int, loop: Any) -> dict[str, Any]:
    """The symbols of DEMAND for a generation and a kind of loop, or for columns of kinds."""
    known = [number for number in OFFSETS if number <= arch_number]
    offsets = OFFSETS[max(known) if known else min(OFFSETS)]

    def pick(values: list[float]) -> Any:
        return np.array(values)[loop]

    return {
        "per_accumulator": pick([SLOPES[name]["accumulators"] for name in LOOPS]),
        "per_a_fragment": pick([SLOPES[name]["a"] for name in LOOPS]),
        "per_b_fragment": pick([SLOPES[name]["b"] for name in LOOPS]),
        "per_step_sum": pick([SLOPES[name]["at_once"] for name in LOOPS]),
        "per_word": pick([SLOPES[name]["words"] for name in LOOPS]),
        "generation": pick([offsets[name] for name in LOOPS]),
    }


def predict(numbers: Numbers, arch_number: int) -> dict[str, Any]:
    """`numbers` with the values of the register model."""
    known = dict(numbers)
    for equation in EQUATIONS:
        known[equation.symbol] = equation.value(known)
    known |= coefficients(arch_number, known["loop"])
    for equation in (DEMAND, BUDGET, REGISTERS):
        known[equation.symbol] = equation.value(known)
    return known


def guards(arch_number: int) -> dict[str, float]:
    """The symbols of NO_SPILL."""
    return {"guard": 8, "squeeze": 8}
