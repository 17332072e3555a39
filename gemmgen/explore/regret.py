"""What a strategy is worth: replayed on stored measurements, how far the best kernel that it has found is behind the best of all after so many trials."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.explore.candidates import Pool
from gemmgen.explore.row import Row
from gemmgen.explore.strategies import ETA, RUNGS, Outcome, strategy_called
from gemmgen.explore.studies import STRATEGIES

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
SEEDS = 5
LEAST_ROWS = 4
"""Measured candidates from which on a problem tells strategies apart."""


@dataclass(frozen=True)
class Regret:
    """A table of regret.

    Attributes:
        counts: numbers of trials for each problem; a short timing is its share of one.
        problems: how many there are; rows: measured candidates of all of them; largest: most of one problem.
        table: strategy -> for each count the geometric mean, over problems and seeds, of the best time found over the best of all, less 1. Infinite
            where a strategy has nothing yet.
    """

    counts: tuple[int, ...]
    problems: int
    rows: int
    largest: int
    table: Mapping[str, tuple[float, ...]]

    @property
    def best(self) -> str:
        """The strategy to take: the least regret over all counts, in geometric mean; a simpler one where they are as good."""
        def cost(name: str) -> float:
            return sum(log(1 + value) if value < inf else log(2) for value in self.table[name])

        return min(self.table, key=lambda name: (round(cost(name), 3), list(STRATEGIES).index(name)))


def regret(rows: Iterable[Row], counts: Sequence[int] = COUNTS, strategies: Sequence[str] = tuple(STRATEGIES), seeds: int = SEEDS) -> Regret:
    """Replay strategies on measured rows, each problem by itself.

    Raises:
        SpecError: no problem has enough measured candidates.
    """
    groups: dict[tuple[object, ...], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row.verdict == "timed" and row.kind == "kernel" and "effort" not in row.extra:
            groups[row.gpu, row.m, row.n, row.k, row.layout, row.data].setdefault(row.identity, row)
    fields = [list(group.values()) for group in groups.values() if len(group) >= LEAST_ROWS]
    if not fields:
        raise SpecError("--regret", "has too little to replay", got=f"{sum(map(len, groups.values()))} timed kernels",
                        needs=f"a size with {LEAST_ROWS} timed kernels at least", remedy="gemmgen explore STUDY, on a GPU")
    most = max(map(len, fields))
    counts = tuple(count for count in counts if count <= most)
    logs: dict[str, np.ndarray] = {}
    for name in strategies:
        found = []
        for field in fields:
            best = min(row.seconds for row in field)
            for seed in range(seeds if name in ("random", "tpe", "nsga2") else 1):
                found.append([log(value / best) if value < inf else inf for value in _replayed(name, field, counts, seed)])
        logs[name] = np.array(found).mean(axis=0)
    return Regret(counts, len(fields), sum(map(len, fields)), most, {
        name: tuple(exp(value) - 1 if value < inf else inf for value in values) for name, values in logs.items()
    })


def _replayed(name: str, rows: Sequence[Row], counts: Sequence[int], seed: int) -> list[float]:
    """The best seconds that a strategy has found after each number of trials; short timings show what whole ones do."""
    strategy = strategy_called(name, pool_of(rows), seed)
    spent, best = 0.0, inf
    curve: list[tuple[float, float]] = []
    while (ask := strategy.ask()) is not None and spent < counts[-1]:
        row = rows[ask.at]
        spent += ask.effort
        best = min(best, row.seconds)
        curve.append((spent, best))
        strategy.tell(ask, Outcome(row.seconds, row.error if row.error is not None else inf))
    least_effort = 1.5 * float(ETA) ** (1 - RUNGS)  # what rounding leaves of a whole trial
    return [min((value for at, value in curve if at <= count + least_effort / 10), default=inf) for count in counts]


def pool_of(rows: Sequence[Row]) -> Pool:
    """Measured rows of one problem, as strategies see candidates."""
    decided = [_numbers(json.loads(row.decided)) for row in rows]
    names = tuple(sorted({name for one in decided for name in one}))
    features = np.array([[one.get(name, 0.0) for name in names] for one in decided])
    words = [(row.scheme, row.policy, row.design, *_words(json.loads(row.decided))) for row in rows]
    ways = {word: at for at, word in enumerate(sorted(set(words)))}
    seconds = np.array([row.predicted_seconds if row.predicted_seconds is not None else inf for row in rows])
    error = np.array([row.predicted_error if row.predicted_error is not None else inf for row in rows])
    nothing = np.zeros(len(rows), int)
    return Pool(nothing, nothing, np.argsort(seconds, kind="stable"), seconds, error, np.array([ways[word] for word in words]), names,
                lambda at: features[at])


def _numbers(decided: Mapping[str, object]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in decided.items():
        values = value if isinstance(value, list) else [value]
        found |= {f"{name}{at}": float(one) for at, one in enumerate(values) if isinstance(one, int | float)}
    return found


def _words(decided: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(decided.items()) if isinstance(value, str))
