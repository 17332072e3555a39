"""The interval of promotion and how its sums are added up, where the spec leaves them open."""

from __future__ import annotations

from gemmgen.decisions import SUMS
from gemmgen.model.error import promote_for
from gemmgen.solve.applicable import Case
from gemmgen.solve.contract import Contract, Short

COMPENSATED = "compensated"


def promotion(case: Case, asked: Contract | None) -> tuple[int, str]:
    """The interval in k, 0 for none, and how sums are added up, a word of `SUMS`.

    Args:
        case: with its scheme, fragment and design.
        asked: the error that the spec asks for.

    Raises:
        Short: the scheme does not give that error.
    """
    if asked:
        return _as_asked(case, asked)
    split, fragment_k = case.spec.split, case.fragment.shape[2]
    sums = split.sums if split.sums != "auto" else SUMS.usual
    if split.promote is not None:
        return split.promote, sums
    if sums == COMPENSATED:
        # What is left is the unit's own error, which grows with the interval; but of cuts the larger part is given back.
        return (2 if case.unit.rounds_to_nearest else 4) * fragment_k, sums
    if not case.fragment.on_matrix_unit:
        return 0, sums
    return _hidden(case, promote_for(case.scheme, case.unit, fragment_k, case.spec.problem.extents[2])), sums


def _hidden(case: Case, wanted: int) -> int:
    """What the design takes of an interval that the error allows."""
    return wanted and case.design.promote(wanted, case.scheme, case.spec.tile.block, case.spec.problem.extents[2], case.fragment)


def _as_asked(case: Case, asked: Contract) -> tuple[int, str]:
    """The first of `Contract.promotions`, the cheapest first, with which the scheme gives the error that is asked.

    Raises:
        Short: there is none.
    """
    split, scheme = case.spec.split, case.scheme
    unit = case.unit if case.fragment.on_matrix_unit else None
    tried: dict[tuple[int, str], float] = {}
    for wanted, sums in asked.promotions(case.fragment.shape[2], unit is not None and SUMS in case.design.own):
        if split.sums not in ("auto", sums):
            continue
        if split.promote is not None:
            wanted = split.promote
        elif unit is None:
            wanted = 0
        elif sums == SUMS.usual:
            wanted = _hidden(case, wanted)
        if scheme.family.run_k and wanted <= case.fragment.shape[2] and split.promote is None:
            continue  # the sum that changes its unit from run to run stands in FP32 registers
        if (wanted, sums) not in tried:
            tried[wanted, sums] = asked.times(scheme, unit, wanted, sums == COMPENSATED)
        if tried[wanted, sums] <= 1:
            return wanted, sums
    if not tried:  # the sum ends before any of them: the least that is left
        least = 2 * case.fragment.shape[2], SUMS.usual if split.sums == "auto" else split.sums
        tried[least] = asked.times(scheme, unit, least[0], least[1] == COMPENSATED)
        if tried[least] <= 1:
            return least
    nearest = min(tried, key=tried.__getitem__)
    error = Short(f"{case.place}: [accuracy] {asked.key}", f"scheme {scheme.name} does not reach this", got=asked.asked, needs=asked.text)
    error.times, error.figure = tried[nearest], asked.told(scheme, unit, nearest[0], nearest[1] == COMPENSATED)
    raise error
