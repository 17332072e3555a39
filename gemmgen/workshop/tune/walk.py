"""Which level each GEMM gets: the paper's greedy rule, a step over the profile's frontier, and all combinations.

MixPert 3.4 in its own words: "it utilizes a greedy algorithm to incrementally decrease the precision of operators, guided
by the execution time predominance of each operator. If precision reduction compromises output quality, the tuner attempts
to elevate the precision of the immediate predecessor if its execution time is shorter."

`greedy` is that rule. What the paper leaves open is decided so: it starts with every GEMM at its most accurate level; one
step goes to the next faster level that the profile does not dominate; an exchange (one down, its predecessor up) also has
to make the program faster, so the walk ends; who can neither be lowered nor exchanged is passed over until something else
has been raised.

`refined` is gemmgen's: one rule of single steps does not reach a program in which one GEMM is best at the lowest level so
that others stay high. From the profile it knows the error of each GEMM alone; errors of different GEMMs are nearly independent
and add as squares, so the best combinations by that estimate are found one GEMM at a time, and run until one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, isfinite, prod, sqrt

Choice = tuple[int, ...]
"""The level of each GEMM, by its place in the list of levels."""

MOST_COMBINATIONS = 1 << 17
MOST_GEMMS = 4
"""Programs of so many GEMMs are searched whole."""
HOPELESS = 2.0
"""A combination whose estimated error is so many times the threshold is not run. GEMMs that split the same operand have errors
that cancel in part: estimates were up to 1.41 times what was then computed."""
NEAR = 1.5
"""The frontier's combinations are run up to this estimate of the threshold."""
MOST_TRIED = 24
"""Combinations of the frontier that are run."""
MOST_KEPT = 4000
"""Partial combinations that the frontier keeps."""
FINER = 0.01
"""By so large a share an error has to be smaller to count as more accurate: less is a matter of the data at hand."""


@dataclass(frozen=True)
class Question:
    """What a search knows.

    Attributes:
        seconds: [gemm][level], Inf where the level cannot be had.
        alone: [gemm][level], the output's error where this GEMM alone runs at the level and the others are exact.
        floor: the output's error where all are exact: FP32's rounding of what lies between.
        fed_by: for each GEMM its immediate predecessors.
        threshold: what the output's error may be.
        error: runs the program and gives the output's error; NaN and Inf meet no threshold.
    """

    seconds: Sequence[Sequence[float]]
    alone: Sequence[Sequence[float]]
    floor: float
    fed_by: Sequence[Sequence[int]]
    threshold: float
    error: Callable[[Choice], float]

    def time(self, choice: Choice) -> float:
        """Seconds of all GEMMs together."""
        return sum(own[level] for own, level in zip(self.seconds, choice))

    def meets(self, choice: Choice) -> bool:
        return self.error(choice) <= self.threshold

    def square(self, gemm: int, level: int) -> float:
        """What a GEMM at a level adds to the square of the output's error, by the profile."""
        alone = self.alone[gemm][level]
        return max(0.0, alone**2 - self.floor**2) if isfinite(alone) else inf

    def estimate(self, choice: Choice) -> float:
        """The output's error by the profile alone: squares add, as of independent errors."""
        return sqrt(self.floor**2 + sum(self.square(gemm, level) for gemm, level in enumerate(choice)))

    def ladder(self, gemm: int) -> tuple[int, ...]:
        """The levels that no other is both faster and more accurate than, from the fastest to the most accurate."""
        kept: list[int] = []
        known = [level for level, seconds in enumerate(self.seconds[gemm]) if isfinite(seconds)]
        for level in sorted(known, key=lambda one: (self.seconds[gemm][one], self.square(gemm, one))):
            if not kept or self.alone[gemm][level] < (1 - FINER) * self.alone[gemm][kept[-1]]:
                kept.append(level)
        return tuple(kept)


@dataclass(frozen=True)
class Step:
    """One attempt of the greedy rule.

    Attributes:
        gemm: the operator that is lowered.
        raised: its predecessor that is raised; None where none is.
        choice: what was run.
        kept: whether it is at work from here on.
    """

    gemm: int
    raised: int | None
    choice: Choice
    error: float
    seconds: float
    kept: bool


@dataclass(frozen=True)
class Walk:
    """Where the greedy rule came to.

    Attributes:
        highest: where it starts: each GEMM's most accurate level.
        choice: where it ends; None where even the start misses the threshold.
    """

    highest: Choice
    choice: Choice | None
    steps: tuple[Step, ...] = ()


def greedy(question: Question) -> Walk:
    """The paper's rule."""
    ladders = [question.ladder(gemm) for gemm in range(len(question.seconds))]
    highest = tuple(ladder[-1] for ladder in ladders)
    if not question.meets(highest):
        return Walk(highest, None)
    current, steps, passed = highest, [], set()

    def attempt(gemm: int, raised: int | None, trial: Choice) -> bool:
        error = question.error(trial)
        kept = error <= question.threshold
        steps.append(Step(gemm, raised, trial, error, question.time(trial), kept))
        return kept

    while True:
        own = [question.seconds[gemm][level] for gemm, level in enumerate(current)]
        left = [gemm for gemm, ladder in enumerate(ladders) if gemm not in passed and current[gemm] != ladder[0]]
        if not left:
            return Walk(highest, current, tuple(steps))
        gemm = max(left, key=lambda one: own[one])  # the largest share of the time; the first of equals
        lowered = _with(current, gemm, _lower(ladders[gemm], current[gemm]))
        if attempt(gemm, None, lowered):
            current = lowered
            continue
        for raised, trial in _exchanges(question, ladders, current, lowered, gemm):
            if attempt(gemm, raised, trial):
                current = trial
                passed.clear()
                break
        else:
            passed.add(gemm)


def _exchanges(
    question: Question, ladders: Sequence[Sequence[int]], current: Choice, lowered: Choice, gemm: int,
) -> Iterator[tuple[int, Choice]]:
    """The immediate predecessors whose time is shorter, from the shortest, each raised level by level while the program gets faster."""
    own = {one: question.seconds[one][current[one]] for one in question.fed_by[gemm]}
    for before in sorted((one for one in own if own[one] < question.seconds[gemm][current[gemm]]), key=lambda one: own[one]):
        for level in ladders[before][ladders[before].index(current[before]) + 1 :]:
            trial = _with(lowered, before, level)
            if question.time(trial) < question.time(current):
                yield before, trial


def _with(choice: Choice, gemm: int, level: int) -> Choice:
    return (*choice[:gemm], level, *choice[gemm + 1 :])


def _lower(ladder: Sequence[int], level: int) -> int:
    return ladder[ladder.index(level) - 1]


def frontier(question: Question) -> list[Choice]:
    """The combinations that no other is estimated to be both faster and more accurate than, from the fastest."""
    kept: list[tuple[float, float, Choice]] = [(0.0, question.floor**2, ())]
    for gemm in range(len(question.seconds)):
        grown = sorted(
            (seconds + question.seconds[gemm][level], square + question.square(gemm, level), (*choice, level))
            for seconds, square, choice in kept for level in question.ladder(gemm)
        )
        kept = []
        for one in grown:
            if not kept or one[1] < kept[-1][1]:
                kept.append(one)
        kept = kept[:: -(-len(kept) // MOST_KEPT)]
    return [choice for _, _, choice in kept]


def refined(question: Question, found: Choice) -> Choice:
    """The fastest combination of the frontier that holds and is faster than the one found; else that one."""
    tried = 0
    for choice in frontier(question):
        if question.time(choice) >= question.time(found) or tried == MOST_TRIED:
            break
        if question.estimate(choice) <= NEAR * question.threshold:
            tried += 1
            if question.meets(choice):
                return choice
    return found


@dataclass(frozen=True)
class Whole:
    """What the search of all combinations found.

    Attributes:
        choice: the fastest that meets the threshold; None where none does.
        combinations: how many there are.
        run: how many had to be run until the first one held, in order of their time.
    """

    choice: Choice | None
    combinations: int
    run: int


def searched_whole(question: Question) -> bool:
    """Whether a program is small enough for `exhaustive`."""
    return len(question.seconds) <= MOST_GEMMS and prod(len(own) for own in question.seconds) <= MOST_COMBINATIONS


def exhaustive(question: Question) -> Whole:
    """All combinations of all levels, dominated ones too, from the fastest on (of equals the more accurate) until one meets the threshold.

    A combination whose estimate is HOPELESS is passed over.
    """
    every = sorted(product(*(range(len(own)) for own in question.seconds)), key=lambda choice: (question.time(choice), question.estimate(choice)))
    run = 0
    for choice in every:
        if not isfinite(question.time(choice)):
            break
        if question.estimate(choice) > HOPELESS * question.threshold:
            continue
        run += 1
        if question.meets(choice):
            return Whole(choice, len(every), run)
    return Whole(None, len(every), run)


@dataclass(frozen=True)
class Found:
    """All that a search answers.

    Attributes:
        choice: what is recommended; None where nothing meets the threshold.
        walk: the greedy rule's.
        whole: of all combinations; None where there are too many.
    """

    choice: Choice | None
    walk: Walk
    whole: Whole | None = field(default=None)


def search(question: Question, whole: bool = True) -> Found:
    """The greedy rule, the frontier, and where `whole` asks for it and the program is small, all combinations beside.

    The whole search is for comparison, but where the greedy rule's start misses the threshold: then what it finds is recommended.
    """
    walk = greedy(question)
    choice = None if walk.choice is None else refined(question, walk.choice)
    all_of_them = exhaustive(question) if whole and searched_whole(question) else None
    if choice is None and all_of_them is not None:
        choice = all_of_them.choice
    return Found(choice, walk, all_of_them)
