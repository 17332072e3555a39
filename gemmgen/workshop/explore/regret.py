"""What a strategy is worth: replayed on stored measurements, how far the best kernel that it has found is behind the best of all after so many trials."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.workshop.explore.space import Pool
from gemmgen.workshop.explore.strategies import Outcome, strategy_called
from gemmgen.workshop.explore.studies import STRATEGIES
from gemmgen.workshop.explore.trial import ROUNDS
from gemmgen.workshop.explore.trial_row import Row

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
SEEDS = 5
REPLAYED = tuple(name for name in STRATEGIES if name != "all")
"""A store does not tell the order of the space, which `all` goes by."""
OVERHEAD = 0.14
"""Share of a trial's time on the GPU that a shorter timing takes, too: its judgement, its graphs (docs/results/explore.md)."""
LEAST_ROWS = 24
"""Measured candidates from which on a problem tells strategies apart."""


@dataclass(frozen=True)
class Regret:
    """A table of regret.

    Attributes:
        counts: numbers of trials for each problem; a short timing is the share of one that it takes of the GPU.
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


def regret(rows: Iterable[Row], counts: Sequence[int] = COUNTS, strategies: Sequence[str] = REPLAYED, seeds: int = SEEDS) -> Regret:
    """Replay strategies on measured rows, each problem by itself.

    Raises:
        SpecError: no problem has enough measured candidates.
    """
    groups: dict[tuple[object, ...], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row.verdict == "timed" and row.kind == "kernel" and '"effort":' not in row.extra:
            groups[row.gpu, row.m, row.n, row.k, row.layout, row.data].setdefault(row.identity, row)
    fields = [list(group.values()) for group in groups.values() if len(group) >= LEAST_ROWS]
    if not fields:
        raise SpecError("--regret", "has too little to replay", got=f"{sum(map(len, groups.values()))} timed kernels",
                        needs=f"a size with {LEAST_ROWS} timed kernels at least", remedy="gemmgen study run STUDY, on a GPU")
    most = max(map(len, fields))
    counts = tuple(count for count in counts if count <= most)
    logs: dict[str, np.ndarray] = {}
    for name in strategies:
        found = []
        for field in fields:
            best = min(row.seconds for row in field)
            for seed in range(seeds if name != "model" else 1):
                found.append([log(value / best) if value < inf else inf for value in _replayed(name, field, counts, seed)])
        logs[name] = np.array(found).mean(axis=0)
    return Regret(counts, len(fields), sum(map(len, fields)), most, {
        name: tuple(exp(value) - 1 if value < inf else inf for value in values) for name, values in logs.items()
    })


def _replayed(name: str, rows: Sequence[Row], counts: Sequence[int], seed: int) -> list[float]:
    """The seconds of the kernel that a strategy would choose after each number of trials: of the one that was timed fastest.

    A short timing is the whole one with more noise: by the spread of its rounds, of which it has fewer and shorter ones.
    """
    strategy, noise = strategy_called(name, pool_of(rows), seed), np.random.default_rng(seed)
    spent, chosen, seen = 0.0, inf, inf
    curve: list[tuple[float, float]] = []
    while spent < counts[-1] and (ask := strategy.ask()) is not None:
        row = rows[ask.at]
        spent += OVERHEAD + (1 - OVERHEAD) * ask.effort
        told = row.seconds * (1 + noise.standard_normal() * _noise(row, ask.effort))
        if told < seen:
            chosen, seen = row.seconds, told
        curve.append((spent, chosen))
        strategy.tell(ask, Outcome(told, row.error if row.error is not None else inf))
    return [next((value for at, value in reversed(curve) if at <= count + 1e-9), inf) for count in counts]


def _noise(row: Row, effort: float) -> float:
    """The relative standard deviation that a shorter timing has more than a whole one: rounds' own over the root of their number."""
    if effort >= 1 or not row.spread:
        return 0.0
    of_a_round = row.spread / 1.35  # of the normal distribution's interquartile range
    rounds = max(3, round((row.rounds or ROUNDS) * effort))
    return of_a_round / np.sqrt(effort) * 1.25 / np.sqrt(rounds)


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
    families = {family: at for at, family in enumerate(dict.fromkeys((row.scheme, row.design) for row in rows))}
    return Pool(nothing, nothing, np.argsort(seconds, kind="stable"), seconds, error, np.array([ways[word] for word in words]), names,
                lambda at: features[at], np.array([families[row.scheme, row.design] for row in rows]), nothing)


def _numbers(decided: Mapping[str, object]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in decided.items():
        values = value if isinstance(value, list) else [value]
        found |= {f"{name}{at}": float(one) for at, one in enumerate(values) if isinstance(one, int | float)}
    return found


def _words(decided: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(f"{name}={value}" for name, value in sorted(decided.items()) if isinstance(value, str))
