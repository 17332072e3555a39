"""Two stores side by side: two GPUs, two compilers, before and after a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from typing import Any

from gemmgen.workshop.explore.headline import known, seconds_of
from gemmgen.workshop.explore.rebuilt import kernel_of
from gemmgen.workshop.explore.trial_row import Row

EQUAL = 0.02
"""Times that differ by less count as equal; by less than their own spread likewise."""
MOST_PAIRS = 2000
"""Lines of a table of pairs."""
ANY = "any"
"""Stands for the fastest of all schemes."""
Key = tuple[Any, ...]
Pair = tuple[str, Row, Row, float]
"""(scheme, row, other row, the row's seconds over the other's)."""


def beside(rows: Sequence[Row], others: Sequence[Row]) -> dict[str, Any]:
    """How the kernels of `others` compare with those of `rows`.

    A GPU that both have is compared with itself; those that one side alone has, with those that the other alone has. Measured times are compared with
    measured ones, predicted with predicted.

    Returns:
        `sizes`: (scheme, row, other row, ratio) of the fastest at each size, of any scheme and of each, the largest change first;
        `kernels`: the same of equal kernels, by scheme, design and decisions; `told`: lines of `told_of`;
        `verdicts`: [verdict, verdict of the other, count] of equal kernels that ended otherwise. A ratio above 1 says that the other is faster.
    """
    shared = {row.gpu for row in rows} & {row.gpu for row in others}

    def place(row: Row) -> Key:
        return row.gpu if row.gpu in shared else "", row.m, row.n, row.k, row.layout

    def by_scheme(row: Row) -> list[Key]:
        return [(ANY, *place(row)), (row.scheme, *place(row))]

    def by_kernel(row: Row) -> list[Key]:
        return [(row.scheme, *place(row), row.design, row.policy, row.decided if row.decided not in ("", "{}") else kernel_of(row))]

    sizes, alone = _pairs(rows, others, by_scheme)
    kernels, _ = _pairs(rows, others, by_kernel)
    any_scheme = [one for one in sizes if one[0] == ANY]
    schemes = {one[0] for one in sizes} - {ANY}
    return {
        "sizes": (any_scheme + [one for one in sizes if one[0] != ANY] if len(schemes) > 1 else any_scheme)[:MOST_PAIRS], "kernels": kernels[:MOST_PAIRS],
        "told": [told_of("the fastest at each size", any_scheme, alone), told_of("equal kernels at equal sizes", kernels, (0, 0))],
        "verdicts": _verdicts(rows, others, by_kernel),
    }


def _pairs(rows: Iterable[Row], others: Iterable[Row], keys: Callable[[Row], list[Key]]) -> tuple[list[Pair], tuple[int, int]]:
    """(pairs of the fastest rows of each key, furthest from 1 first; how many keys of any scheme one side alone has)."""
    sides: list[dict[Key, dict[bool, Row]]] = []
    for side in (rows, others):
        best: dict[Key, dict[bool, Row]] = {}
        for row in known(side):
            if row.kind != "kernel":
                continue
            for key in keys(row):
                of = best.setdefault(key, {})
                measured = row.verdict == "timed"
                if measured not in of or (seconds_of(row) or 0) < (seconds_of(of[measured]) or 0):
                    of[measured] = row
        sides.append(best)
    first, second = sides
    pairs = []
    for key in first.keys() & second.keys():
        for measured in (True, False):
            if measured in first[key] and measured in second[key]:
                one, other = first[key][measured], second[key][measured]
                pairs.append((key[0], one, other, (seconds_of(one) or 1) / (seconds_of(other) or 1)))
                break
    pairs.sort(key=lambda pair: (-abs(log(pair[3])), pair[0], pair[1].m, pair[1].n, pair[1].k, pair[1].layout, pair[1].kernel))
    paired = {(one.m, one.n, one.k, one.layout) for _, one, _, _ in pairs}
    alone = [len({key[2:6] for key in side if key[0] == ANY} - paired) for side in sides]
    return pairs, (alone[0], alone[1])


def change(pair: Pair) -> int:
    """1 where the other is faster, -1 where it is slower, 0 where the times differ by less than 2 % or their spread."""
    _, one, other, ratio = pair
    least = max(EQUAL, one.spread or 0, other.spread or 0)
    return 0 if abs(log(ratio)) <= least else 1 if ratio > 1 else -1


def told_of(what: str, pairs: Sequence[Pair], alone: tuple[int, int]) -> str:
    """A line: how much faster in geometric mean, how many faster, slower and equal, how the times are known, what one side alone has."""
    if not pairs:
        return f"{what}: none that both have"
    mean = exp(sum(log(one[3]) for one in pairs) / len(pairs))
    counts = Counter(map(change, pairs))
    measured = sum(one[1].verdict == "timed" for one in pairs)
    how = "measured" if measured == len(pairs) else "predicted" if not measured else f"{measured:,} measured, the others predicted"
    more = f"; sizes of one side alone: {alone[0]:,} of the first, {alone[1]:,} of the other" if any(alone) else ""
    return (f"{what}: the other is {mean:.3g} times as fast in the geometric mean of {len(pairs):,} pairs ({how}); "
            f"{counts[1]:,} faster, {counts[-1]:,} slower, {counts[0]:,} equal{more}")


def _verdicts(rows: Iterable[Row], others: Iterable[Row], keys: Callable[[Row], list[Key]]) -> list[list[Any]]:
    """[verdict, verdict of the other, count] of kernels whose newest rows ended otherwise."""
    newest: list[dict[Key, Row]] = []
    for side in (rows, others):
        found: dict[Key, Row] = {}
        for row in side:
            if row.kind == "kernel":
                [key] = keys(row)
                if key not in found or row.at >= found[key].at:
                    found[key] = row
        newest.append(found)
    first, second = newest
    counts = Counter((first[key].verdict, second[key].verdict) for key in first.keys() & second.keys() if first[key].verdict != second[key].verdict)
    return [[one, other, count] for (one, other), count in counts.most_common()]

