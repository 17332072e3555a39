"""How many registers the compiler gives the main kernel: ptxas, or clang for AMD.

A thread's demand is what it must hold at once: its accumulators (each in one
register, for the whole loop), the fragments of a step, and a rest that belongs
to the generation: addresses, loop state, what the scheduler keeps in flight.
How much of the fragments is alive at once depends on how the loop is written:

- `rolled`: one buffer, the steps of a stage in a loop. Only the fragments that a
  product needs next are alive.
- `ahead`: one buffer, the steps unrolled: the compiler fetches the next step's
  fragments while this one's are multiplied.
- `buffered`: two buffers, and both alive, with the addresses of both.
- `shared`, `register`: the loop splits, before shared memory or behind it.

The coefficients are values of the rows of specs/generations, or of a GPU's own: a
least-squares fit to compiled kernels, with a slope for what is held and an offset for
each generation (bench/fit_registers.py, or a bring-up). NVIDIA's generations share
their slopes, as do the CDNA's whose accumulation registers are part of one file, and
the RDNA's. AMD's count is that of both kinds, as the hardware
allocates them: a demand above 256 goes into accumulation registers by itself.
AMD's first three kinds of loop share their slopes, since clang orders
an unrolled stage as it likes: what it may fetch at once (G25) is a term instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gemmgen.catalog.registers import Registers
from gemmgen.model.equation import Equation, Numbers, solved

UNEVEN_GUARD = 12
UNROLL_BELOW = 192
"""Registers; from there on unrolled kernels were seen to spill on sm_80."""
UNROLL_SHARE = 0.75
"""Of a thread's share of the file, where operands are split on the way to fragments, and everywhere on AMD."""
ARCHITECTURAL = 256  # AMD's registers that every instruction can name

A_FRAGMENTS = Equation(
    "G1", "a_fragments", "where(uncached > 0, 1, words_a) * a_lanes * WM * FK * word_bytes / (4 * warp_size)", "registers a thread",
    "WMMAe eq. 2, one operand: every word, or one where each product fetches its own",
)
B_FRAGMENTS = Equation(
    "G2", "b_fragments", "where(uncached > 0, 1, words_b) * b_lanes * WN * FK * word_bytes / (4 * warp_size)", "registers a thread",
    "the same of B's",
)
HELD_WORDS = Equation(
    "G32", "held_words", "where(uncached > 0, 1, words)", "words", "of an operand, whose fragments are there together",
)
SHARE = Equation(
    "G28", "unroll_share", f"floor({UNROLL_SHARE} * registers_per_sm / threads)", "registers a thread",
    "of a block that has its SM alone; it may be less than a thread can name",
)
UNROLLED = Equation(
    "G24", "unrolled",
    "where((fragment_buffers > 1) | (spread > 0) | (WK == BK) & where(amd > 0,"
    f" accumulator_registers + fragment_registers * BK / FK < min({UNROLL_SHARE} * registers_per_thread, unroll_share),"
    f" accumulator_registers + fragment_registers < where(split_register > 0, min({UNROLL_BELOW}, unroll_share), {UNROLL_BELOW})), 1, 0)",
    "", "whether the steps of a stage are unrolled: two fragment buffers and loads with places of their own need it. Else it lets the compiler fetch"
    " ahead, which costs registers; where few are left it would spill instead. AMD's compiler may begin an unrolled stage with all of its fetches",
)
LOOP = Equation(
    "G3", "loop",
    "where(split_register > 0, 4, where(split_shared > 0, 3, where(fragment_buffers > 1, 2, where(BK > FK, unrolled, 0))))",
    "", "0 rolled, 1 ahead, 2 buffered, 3 shared, 4 register: how the steps of a stage are written",
)
NARROW = Equation(
    "G4", "narrow", "min(a_fragments, b_fragments)", "registers a thread", "the operand a product's inner loop can keep",
)
WIDE = Equation(
    "G5", "wide", "max(a_fragments, b_fragments)", "registers a thread", "the operand it can take one by one",
)
UNIT_SUMS = Equation(
    "G6", "unit_sums", "promoted_sums * WM * WN / warp_size", "registers a thread", "the sums that promotion empties",
)
SHORT_SUMS = Equation(
    "G7", "short_sums", "where((promote > FK) & (promote == BK), unit_sums, 0)", "registers a thread",
    "emptied at every stage's end, they are dead while the next stage is waited for",
)
AT_ONCE = Equation("G8", "at_once", "where((promote == FK) | (tile_k == FK), 1, 0)", "", "every step's sum is promoted at once")
AT_ONCE_SUMS = Equation("G9", "at_once_sums", "at_once * unit_sums", "registers a thread", "many such sums are on their way at a time")
STEPS = Equation("G10", "steps", "BK / FK", "steps a stage", "unrolled, each has addresses of its own")
SHALLOW = Equation("G11", "shallow", "where(BK == FK, 1, 0)", "", "a stage of one step has nothing to fetch ahead")
PROMOTES = Equation("G12", "promotes", "where(promote > FK, 1, 0)", "", "a counter, and the second set's zeros")
SHALLOW_PROMOTES = Equation(
    "G13", "shallow_promotes", "shallow * promotes", "", "both: the next stage's fragments wait until the sums have moved",
)
A_PARTS = Equation(
    "G29", "a_parts",
    "where(split_register > 0, where(a_strided > 0, BM / 32 * ceil(BK / max(1, floor(threads / 8))), ceil(BM / max(1, floor(4 * threads / BK)))),"
    " ceil(BM * BK * word_bytes * where(split_shared > 0, 1, words_a) / (16 * threads)))",
    "loads a thread", "of A's tile: 16 bytes of words, or of FP32 in whole rows or lines of 128 bytes, or a chunk's FP32 elements",
)
B_PARTS = Equation(
    "G30", "b_parts",
    "where(split_register > 0, where(b_strided > 0, BN / 32 * ceil(BK / max(1, floor(threads / 8))), ceil(BN / max(1, floor(4 * threads / BK)))),"
    " ceil(BN * BK * word_bytes * where(split_shared > 0, 1, words_b) / (16 * threads)))",
    "loads a thread", "the same of B's",
)
STAGED = Equation(
    "G18", "staged", "held * (a_parts + b_parts) * where(split_shared > 0, 16 / word_bytes, 4)",
    "registers a thread", "the next tile, on its way through registers",
)
SLICED = Equation("G19", "sliced", "where(split_k > 1, 1, 0)", "", "the slice's first stage, and the gathering of the parts")
SECOND = Equation("G20", "second", "where(fragment_buffers > 1, a_fragments + b_fragments, 0)", "registers a thread", "the second buffer's fragments")
STRIDED = Equation(
    "G21", "strided", "split_shared * (a_strided + b_strided) + split_register * (a_strided * WM + b_strided * WN) * FK / warp_size", "",
    "operands stored along m or n; behind shared memory a lane reads a step's elements of them one by one",
)
HOISTED = Equation(
    "G25", "hoisted", "amd * unrolled * where(fragment_buffers > 1, 0, max(0, BK / FK - 1) * fragment_registers)", "registers a thread",
    "the other steps' fragments, which clang may fetch when an unrolled stage begins",
)
RING = Equation("G26", "ring", "rings * where(stages > 2, 1, 0)", "", "stages that go round, and tiles put away before the loop")
TILE_SUMS = Equation(
    "G31", "tile_sums",
    "where(tile_k > 0, where((tile_k == FK) & ((amd == 0) | (warp_size > 32)),"
    " where(amd > 0, WM * WN * where(unrolled > 0, BK / FK, 1), 2 * FM * FN) * sums / warp_size, 0)"
    " + fragment_buffers * (WM / FM * c_rows + WN / FN * c_columns), 0)", "registers a thread",
    "the integer sums on their way, of two fragments, and of all where clang orders the steps of a stage; and the scales of a thread's rows and"
    " columns, where tiles of k have their own; on RDNA those sums are accumulators; not fitted",
)
RUN_SUMS = Equation(
    "G33", "run_sums", "where(run > 0, amd * 1.7 * WM * WN / warp_size, 0)", "registers a thread",
    "what clang holds of all sums at once where a run of k ends; of compiled kernels of gfx942 and gfx1100, not fitted",
)
WAITING = Equation("G27", "waiting", "promotes * unit_sums", "registers a thread", "the FP32 sums that promotion adds to, idle between two of them")
DEMAND = Equation(
    "G14", "demand",
    "per_sum * accumulator_registers + per_narrow * narrow + per_wide * wide + per_word * held_words + per_short_sum * short_sums"
    " + when_at_once * at_once + per_at_once_sum * at_once_sums + per_step * steps + when_shallow * shallow"
    " + when_promoting * promotes + when_both * shallow_promotes + per_staged * staged + when_sliced * sliced"
    " + per_second * second + per_strided * strided + per_hoisted * hoisted + when_ring * ring + tile_sums + run_sums + generation",
    "registers a thread", "a slope for what is held, an offset for each generation; fitted for each kind of loop",
)
BUDGET = Equation(
    "G15", "register_budget",
    "min(registers_per_thread, register_allocation_unit / warp_size"
    " * floor(registers_per_sm / (partitions * ceil(warps / partitions)) / register_allocation_unit))",
    "registers a thread", "a block must fit its SM, as R8 has it: what the launch bound tells ptxas",
)
REGISTERS = Equation(
    "G16", "registers", "min(register_budget, ceil(demand))", "registers a thread", "ptxas keeps to its budget, and spills the rest",
)
EQUATIONS = (
    A_FRAGMENTS, B_FRAGMENTS, HELD_WORDS, SHARE, UNROLLED, LOOP, NARROW, WIDE, UNIT_SUMS, SHORT_SUMS, AT_ONCE, AT_ONCE_SUMS, STEPS, SHALLOW, PROMOTES,
    SHALLOW_PROMOTES, A_PARTS, B_PARTS, STAGED, SLICED, SECOND, STRIDED, HOISTED, RING, TILE_SUMS, RUN_SUMS, WAITING,
)
SLOPE_OF = {  # symbol of a slope, as rows of specs/generations have them: what it multiplies
    "per_sum": "accumulator_registers", "per_narrow": "narrow", "per_wide": "wide", "per_word": "held_words",
    "per_short_sum": "short_sums", "when_at_once": "at_once", "per_at_once_sum": "at_once_sums", "per_step": "steps",
    "when_shallow": "shallow", "when_promoting": "promotes", "when_both": "shallow_promotes",
    "per_staged": "staged", "when_sliced": "sliced", "per_second": "second", "per_strided": "strided",
    "per_hoisted": "hoisted", "when_ring": "ring",
}
UNEVEN = Equation(
    "G17", "uneven", f"where((256 % WM == 0) & (256 % WN == 0), 0, where(tile_k + run > 0, 3, 1) * {UNEVEN_GUARD})"
    f" + where(held * fragment_buffers > 1, {UNEVEN_GUARD}, 0) + where(tile_k > 0, {2 * UNEVEN_GUARD}, 0)",
    "registers a thread",
    "a guard: near the limit, warps that are no powers of two, and two fragment buffers beside a tile on its way through"
    " registers, and tiles and runs of k with scales of their own, of such warps above all, were seen to spill where others of the same demand did not",
)


def coefficients(table: Registers, loop: Any) -> dict[str, Any]:
    """The symbols of DEMAND and C12 for a GPU's constants and a kind of loop, or for columns of kinds."""
    return of_loops({name: getattr(table.slopes, name) for name in SLOPE_OF} | {"generation": table.offset, "squeeze": table.squeeze}, loop)


def of_loops(tables: Mapping[str, Sequence[float]], loop: Any) -> dict[str, Any]:
    """Each table's value for a kind of loop, or for columns of kinds."""
    return {name: np.array(values)[loop] for name, values in tables.items()}


def predict(numbers: Numbers, table: Registers) -> dict[str, Any]:
    """`numbers` with the values of the register model."""
    known = solved(EQUATIONS, numbers)
    known |= coefficients(table, known["loop"])
    return solved((DEMAND, BUDGET, REGISTERS, UNEVEN), known)
