"""The error that promotion decides, relative in the Frobenius norm, on U[-1, 1].

What the words leave out does not depend on `promote` and is left to
`verify/bound.py`, which judges kernels and is wider on purpose. Here is the
expectation that a choice is made by.

With mantissas spread evenly over the logarithm, rounding x to nearest errs by
u |x| sqrt(3 / (8 ln 2)) / sqrt(3) in the root mean square, and cutting it errs by
u |x| / (2 ln 2) toward zero on average, where u = 2^-24.
"""

from __future__ import annotations

from gemmgen.catalog.scheme import Accumulator, Scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.model.equation import Equation, solved

LN2 = 0.6931471805599453
U = 2.0**-24

FP32_ERROR = Equation(
    "E1", "fp32_error", "u * sqrt(K / (16 * ln2))", "",
    "K roundings to nearest of partial sums whose square grows evenly to that of C",
)
UNIT_ERROR = Equation(
    "E2", "unit_error",
    "where(to_nearest > 0, u * sqrt(sums_in_unit * promote / unit_block / (16 * ln2)),"
    " u / (2 * ln2) * sums_in_unit * promote / unit_block / sqrt(3))", "",
    "the matrix unit rounds to nearest, as E1, or cuts after every block of products; within an interval all cuts point the same way",
)
PROMOTION_ERROR = Equation(
    "E3", "promotion_error", "u * sqrt(K / promote / (16 * ln2))", "", "E1, for the additions outside the unit",
)
ERROR = Equation("E4", "error", "sqrt(unit_error**2 + promotion_error**2)", "", "independent")
EQUATIONS = (FP32_ERROR, UNIT_ERROR, PROMOTION_ERROR, ERROR)

TARGET = 0.5
"""Of sequential FP32's error: what cuBLAS SGEMM shows (5.8e-7 at K = 4096 on an H100, where E1 gives 1.15e-6)."""

MEAN_CUT = {"bf16": 0.4}
"""Of (steps + 1) / 2 cuts of a sum of such words, what an interval loses on average; simulated on U[-1, 1], every 32 to 128 k. Others lose more."""
OTHER_MEAN_CUT = 0.8

LEAST_K, LARGEST_PROMOTE = 1024, 256
"""The choice serves sums this long at least, since a kernel takes any k. Data of one sign, whose cuts all
add up, err by 4.4e-9 of an interval on an H100: 1.1e-6 at the largest one."""


def error_numbers(scheme: Scheme, unit: MatrixUnit, promote: int, k: int) -> dict[str, float]:
    """The symbols of the equations above."""
    promoted = {accumulator.name for accumulator in scheme.accumulators if accumulator.promoted}
    return {
        "u": U, "ln2": LN2, "K": k, "promote": promote, "unit_block": unit.block[scheme.leading],
        "sums_in_unit": sum(product.into in promoted for product in scheme.products), "to_nearest": int(unit.rounds_to_nearest),
    }


def mean_cut(scheme: Scheme, unit: MatrixUnit, accumulator: Accumulator, promote: int) -> float:
    """What truncation takes off an accumulator on average, relative to what it has summed when it is promoted; 0 of a unit that rounds to nearest.

    Partial sums have the sign of the interval's sum more often than not, and the j-th of n steps has j / n of it. Low products come before the
    step's high one, and cut what there is by then.

    Args:
        unit: as it sums such words (`MatrixUnit.of`).
        promote: k between promotions.
    """
    if unit.rule != "truncate" or unit.sum_bits:
        return 0.0
    steps, products = max(1, promote // unit.block[accumulator.word]), sum(product.into == accumulator.name for product in scheme.products)
    share = MEAN_CUT.get(accumulator.word, OTHER_MEAN_CUT) if products == 1 else OTHER_MEAN_CUT
    return share * U * (1 - 2.0 ** (23 - unit.fraction_bits)) * ((steps + 1) / 2 + (products - 1) * (steps - 1) / 2)


def promote_for(scheme: Scheme, unit: MatrixUnit, fragment_k: int, k: int) -> int:
    """The largest interval whose expected error is no more than TARGET of sequential FP32's.

    0 for one product of words, which round far more coarsely than the unit cuts, and where a unit that
    rounds to nearest meets the target without; not where runs of k have scales of their own. Else at least two
    instructions: promoting each one's sum at once makes another, slower kernel, for
    those who ask for it. But where the unit's sums have fewer bits than FP32's and an instruction is one of its sums, every one is promoted: low
    products leave nothing in a sum that holds a high one.

    Args:
        unit: as it sums such words (`MatrixUnit.of`).
    """
    runs = scheme.family.run_k is not None  # their sum stands in FP32 registers, whatever the unit makes of it
    if len(scheme.products) == 1 and not runs or scheme.leading not in unit.block:
        return 0
    if unit.sum_bits and unit.block[scheme.leading] == fragment_k:
        return fragment_k
    k = max(k, LEAST_K)

    def good_enough(interval: int) -> bool:
        known = solved(EQUATIONS, error_numbers(scheme, unit, interval, k))
        in_the_end = known["unit_error"] if interval == k else known["error"]
        return in_the_end <= TARGET * known["fp32_error"]

    if unit.rounds_to_nearest and good_enough(k) and not runs:
        return 0
    interval = LARGEST_PROMOTE
    while interval > 2 * fragment_k and not good_enough(interval):
        interval //= 2
    return interval
