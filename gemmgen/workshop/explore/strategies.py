"""Which candidate is tried next: strategies that are asked, and told what came of it.

    strategy = strategy_called("tpe", pool, seed=0)
    while (ask := strategy.ask()) is not None:
        strategy.tell(ask, Outcome(seconds=..., error=...))

Several asks may be open at once, and answers may come in any order. None says that there is nothing to ask now: for good, once all open asks are
answered. Candidates of a pool compete within their stratum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import Any, Protocol

import numpy as np

from gemmgen.errors import UnknownName
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.space import Candidates, Pool
from gemmgen.workshop.explore.studies import STRATEGIES

ETA = 3
"""Of successive halving: one in so many goes on to the next rung, which takes so many times the time."""
RUNGS = 3


@dataclass(frozen=True)
class Ask:
    """What to try.

    Attributes:
        at: number of the candidate.
        effort: share of a whole timing.
    """

    at: int
    effort: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        seconds: of one product, measured or, where nothing is timed, predicted; infinite of a kernel that is none, or not right.
        error: relative; infinite likewise.
    """

    seconds: float = inf
    error: float = inf


class Strategy(Protocol):
    """Asked and told."""

    def ask(self) -> Ask | None: ...
    def tell(self, ask: Ask, outcome: Outcome) -> None: ...


class InOrder:
    """Candidates in an order that is known beforehand.

    Args:
        order: their numbers.
    """

    def __init__(self, order: Sequence[int] | np.ndarray):
        self._left: Iterator[Any] = iter(order)

    def ask(self) -> Ask | None:
        at = next(self._left, None)
        return None if at is None else Ask(int(at))

    def tell(self, ask: Ask, outcome: Outcome) -> None:
        pass


class Random(InOrder):
    """Drawn without putting back, each stratum in turn."""

    def __init__(self, pool: Pool, seed: int = 0):
        from gemmgen.workshop.explore.space import in_turn

        super().__init__(in_turn(pool.stratum, np.random.default_rng(seed).random(len(pool))))


def covering(pool: Pool) -> np.ndarray:
    """[N] candidates in turn of each problem and listed scheme, which get equal shares. Of each first the predicted frontier of error and time, then the best
    of every other scheme and design, then the model's ranking.

    Schemes take turns along a diagonal of problems and schemes, so that fewer trials than both together still reach every problem and every scheme.
    """
    if not len(pool):
        return pool.order
    key = _key(pool)
    schemes, scheme = np.unique(pool.listed, return_inverse=True)
    stratum = pool.problem * len(schemes) + scheme
    phase = np.full(len(pool), 2)
    by_time = np.lexsort((pool.error, key, stratum))
    _, starts = np.unique(stratum[by_time], return_index=True)
    for start, end in zip(starts, [*starts[1:], len(by_time)]):
        mine = by_time[start:end]
        phase[mine[np.unique(pool.family[mine], return_index=True)[1]]] = 1
        least = np.minimum.accumulate(pool.error[mine])
        phase[mine[np.concatenate([[True], pool.error[mine][1:] < least[:-1]])]] = 0
    order = np.lexsort((key, phase, stratum))
    rank = np.empty(len(pool), int)
    rank[order] = np.arange(len(pool)) - np.searchsorted(stratum[order], stratum[order])
    return np.lexsort((pool.problem, (scheme - pool.problem) % len(schemes), rank))


def _key(pool: Pool) -> np.ndarray:
    """[N] predicted seconds that keep the model's order within each stratum, where nearly equal times are ranked by other things."""
    strata = pool.stratum[pool.order]
    grouped = np.argsort(strata, kind="stable")
    key, mine = np.empty(len(pool)), pool.order[grouped]
    _, starts = np.unique(strata[grouped], return_index=True)
    for start, end in zip(starts, [*starts[1:], len(mine)]):
        seconds = np.maximum.accumulate(pool.seconds[mine[start:end]])
        key[mine[start:end]] = seconds * (1 + 1e-12 * np.arange(len(seconds)))
    return key


def left_out(candidates: Candidates, strategy: str, trials: int) -> dict[str, str]:
    """What a study lists, or the model has a kernel of, and no trial will be of, with the reason: schemes by name, `scheme by design` for designs."""
    found, families = dict(candidates.unserved), candidates.families
    if strategy in ORDERS and trials < len(candidates):
        tried = {families[at] for at in np.unique(candidates.pool.family[ORDERS[strategy](candidates.pool)[:trials]])}
        schemes = {scheme for scheme, _ in tried}
        for scheme, design in families:
            if scheme not in schemes:
                found[scheme] = f"other kernels come first in the {trials} trials of strategy {strategy}"
            elif (scheme, design) not in tried:
                found[f"{scheme} by design {design}"] = f"slower by the model than the {trials} trials"
    return found


class Halving:
    """Asynchronous successive halving: candidates in the model's order are timed briefly; whenever a third more of a rung is known, its best go on.

    Every rung takes ETA times the time of the one below, the last a whole timing.
    """

    def __init__(self, pool: Pool, seed: int = 0):
        self._pool, self._left = pool, iter(pool.order)
        self._known: dict[tuple[int, int], dict[int, float]] = defaultdict(dict)
        self._risen: dict[tuple[int, int], set[int]] = defaultdict(set)

    def ask(self) -> Ask | None:
        for rung in reversed(range(RUNGS - 1)):
            for (stratum, of), known in self._known.items():
                if of != rung:
                    continue
                risen = self._risen[stratum, rung]
                best = sorted((at for at, seconds in known.items() if seconds < inf), key=known.__getitem__)[: len(known) // ETA]
                for at in best:
                    if at not in risen:
                        risen.add(at)
                        return Ask(at, self._effort(rung + 1))
        at = next(self._left, None)
        return None if at is None else Ask(int(at), self._effort(0))

    @staticmethod
    def _effort(rung: int) -> float:
        return float(ETA) ** (rung - RUNGS + 1)

    def tell(self, ask: Ask, outcome: Outcome) -> None:
        rung = round(log(ask.effort, ETA)) + RUNGS - 1
        self._known[int(self._pool.stratum[ask.at]), rung][ask.at] = outcome.seconds


class Sampled:
    """One of Optuna's samplers for each stratum, in turn. It suggests values of the decisions, and the nearest candidate that is left is tried.

    Args:
        directions: 1 for the time alone, 2 for error and time.
    """

    def __init__(self, pool: Pool, make: Callable[[Any, int], Any], directions: int, seed: int = 0):
        self._optuna, self._directions = library("optuna"), directions
        self._optuna.logging.set_verbosity(self._optuna.logging.ERROR)
        strata = list(dict.fromkeys(pool.stratum[pool.order].tolist()))
        self._spaces = [_Stratum(pool, np.flatnonzero(pool.stratum == stratum), self._optuna) for stratum in strata]
        self._studies = [
            self._optuna.create_study(directions=["minimize"] * directions, sampler=make(self._optuna, seed + number)) for number in range(len(strata))
        ]
        self._turn = 0
        self._open: dict[int, tuple[int, Any]] = {}

    def ask(self) -> Ask | None:
        for _ in range(len(self._spaces)):
            number, self._turn = self._turn, (self._turn + 1) % len(self._spaces)
            if self._spaces[number].left:
                return self._ask_of(number)
        return None

    def _ask_of(self, number: int) -> Ask:
        space, study = self._spaces[number], self._studies[number]
        trial = study.ask(space.distributions)
        at = space.take(trial.params)
        self._open[at] = number, trial
        return Ask(at)

    def _values(self, outcome: Outcome) -> list[float]:
        # An error may be 0, which is the best; what is infinite or no number is the worst.
        seconds, error = (log(max(value, 1e-300)) if value < inf else 50.0 for value in (outcome.seconds, outcome.error))
        return [error, seconds][-self._directions :]

    def tell(self, ask: Ask, outcome: Outcome) -> None:
        number, trial = self._open.pop(ask.at)
        self._studies[number].tell(trial, self._values(outcome))


class _Stratum:
    """The candidates that compete, as a sampler sees them: the way, and of each symbol that varies the place among its values."""

    def __init__(self, pool: Pool, rows: np.ndarray, optuna: Any):
        features = pool.features(rows)
        varied = [at for at in range(features.shape[1]) if len(features) and (features[:, at] != features[0, at]).any()]
        levels = [np.unique(features[:, at], return_inverse=True) for at in varied]
        self._ways, ways = np.unique(pool.way[rows], return_inverse=True)
        self._rows = rows
        self._names = [pool.names[at] for at in varied]
        counts = [len(values) for values, _ in levels]
        self._places = np.stack([place / max(1, count - 1) for (_, place), count in zip(levels, counts)], axis=1) if varied else np.zeros((len(rows), 0))
        self._way, self._counts = ways, counts
        self._left = np.ones(len(rows), bool)
        self.distributions: dict[str, Any] = {
            name: optuna.distributions.IntDistribution(0, count - 1) for name, count in zip(self._names, counts)
        }
        if len(self._ways) > 1:
            self.distributions["way"] = optuna.distributions.CategoricalDistribution(list(range(len(self._ways))))

    @property
    def left(self) -> bool:
        return bool(self._left.any())

    def take(self, params: dict[str, Any]) -> int:
        """The candidate nearest to suggested values of those that are left, which it then is not any more."""
        wanted = np.array([params[name] / max(1, count - 1) for name, count in zip(self._names, self._counts)])
        distance = np.abs(self._places - wanted).sum(axis=1) + (self._way != params.get("way", 0))
        place = int(np.argmin(np.where(self._left, distance, inf)))
        self._left[place] = False
        return int(self._rows[place])


def _tpe(optuna: Any, seed: int) -> Any:
    return optuna.samplers.TPESampler(seed=seed, constant_liar=True, multivariate=True, n_startup_trials=8)


def _nsga2(optuna: Any, seed: int) -> Any:
    return optuna.samplers.NSGAIISampler(seed=seed, population_size=16)


ORDERS: dict[str, Callable[[Pool], np.ndarray]] = {"cover": covering, "model": lambda pool: pool.order, "all": lambda pool: np.arange(len(pool))}
"""Strategies whose order is known beforehand."""
_MAKERS: dict[str, Callable[[Pool, int], Strategy]] = {
    **{name: (lambda pool, seed, order=order: InOrder(order(pool))) for name, order in ORDERS.items()},
    "random": Random,
    "halving": Halving,
    "tpe": lambda pool, seed: Sampled(pool, _tpe, 1, seed),
    "nsga2": lambda pool, seed: Sampled(pool, _nsga2, 2, seed),
}
assert _MAKERS.keys() == STRATEGIES.keys()


def strategy_called(name: str, pool: Pool, seed: int = 0) -> Strategy:
    """A strategy on a pool.

    Raises:
        UnknownName: there is none of that name.
        GemmgenError: its library is not installed.
    """
    if name not in _MAKERS:
        raise UnknownName("--strategy", "strategy", name, _MAKERS)
    return _MAKERS[name](pool, seed)
