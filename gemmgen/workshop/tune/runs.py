"""Running a program at chosen levels: with a memory, so that what did not change is not computed again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.workshop.tune.engine import Engine
from gemmgen.workshop.tune.precisions import Level
from gemmgen.workshop.programs.program import Program, behind
from gemmgen.workshop.tune.walk import Choice

EXACT = -1
"""In place of a level: the product in FP64, rounded once."""


class Memory:
    """Results by what they depend on, those used longest ago forgotten first.

    Args:
        most_bytes: what it may hold.
    """

    def __init__(self, most_bytes: int):
        self._most, self._held, self._kept = most_bytes, 0, OrderedDict[Any, Any]()

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is kept under a key, or is made now."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made = make()
        self._kept[key] = made
        self._held += made.nbytes
        while self._held > self._most and len(self._kept) > 1:
            self._held -= self._kept.popitem(last=False)[1].nbytes
        return made


class _Exactly:
    """Who computes everything in FP64: what errors are measured against."""

    def __init__(self, engine: Engine, program: Program):
        self._engine, self._program = engine, program

    def input(self, name: str) -> Any:
        return self._engine.array(self._program.inputs[name].astype(np.float64))

    def gemm(self, at: int, a: Any, b: Any, c: Any | None) -> Any:
        return self._engine.exact(self._program.gemms[at], a, b, c)

    def to_host(self, x: Any) -> np.ndarray:
        return self._engine.host(x)

    def from_host(self, x: np.ndarray) -> Any:
        return self._engine.array(np.asarray(x, np.float64))


class _AtLevels:
    """Who computes in FP32, each GEMM at a level."""

    def __init__(self, runs: Runs, choice: Choice):
        self._runs, self._choice = runs, choice

    def _key(self, name: Any, behind: frozenset[int]) -> Any:
        return name, tuple((gemm, self._choice[gemm]) for gemm in sorted(behind))

    def input(self, name: str) -> Any:
        engine, inputs = self._runs.engine, self._runs.program.inputs
        return self._runs.memory.get(self._key(("input", name), frozenset()), lambda: engine.array(inputs[name]))

    def gemm(self, at: int, a: Any, b: Any, c: Any | None) -> Any:
        runs, gemm, level = self._runs, self._runs.program.gemms[at], self._choice[at]

        def multiplied() -> Any:
            if level == EXACT:
                return runs.engine.exact(gemm, *(None if x is None else x.astype(np.float64) for x in (a, b, c))).astype(np.float32)
            return runs.engine.product(gemm, runs.levels[level], a, b, c)

        return runs.memory.get(self._key(at, runs.behind[at]), multiplied)

    def to_host(self, x: Any) -> np.ndarray:
        return self._runs.engine.host(x)

    def from_host(self, x: np.ndarray) -> Any:
        return self._runs.engine.array(np.asarray(x, np.float32))


class Runs:
    """A program's runs at levels, and the errors of its output.

    Attributes:
        behind: for each GEMM all whose levels its result depends on.
        count: runs so far.
    """

    def __init__(self, program: Program, levels: Sequence[Level], engine: Engine):
        self.program, self.levels, self.engine = program, levels, engine
        self.memory, self.behind, self.count = Memory(engine.memory_bytes), behind(program.gemms), 0
        self._reference = program.run(_Exactly(engine, program))
        self._errors: dict[Choice, float] = {}
        self._norm = float(engine.xp.linalg.norm(self._reference))
        if not np.isfinite(self._norm):
            raise SpecError(program.name, "has an output that is not finite, even in FP64", got=program.output,
                            needs="finite numbers; a positive definite matrix for cholesky", remedy="other inputs")
        if not self._norm:
            raise SpecError(program.name, "has an output of zeros", got=program.output, needs="an output that errors can be related to", remedy="other inputs")

    def error(self, choice: Choice) -> float:
        """||X - X*||_F / ||X*||_F of the output (MixPert eq. 10; X* in FP64), Inf where an element is not finite."""
        if choice not in self._errors:
            self.count += 1
            with np.errstate(all="ignore"):
                output = self.program.run(_AtLevels(self, choice))
                error = float(self.engine.xp.linalg.norm(output - self._reference)) / self._norm
            self._errors[choice] = error if np.isfinite(error) else float("inf")
        return self._errors[choice]

    def alone(self, gemm: int, level: int) -> float:
        """The output's error where one GEMM runs at a level and the others are exact."""
        exact = [EXACT] * len(self.program.gemms)
        exact[gemm] = level
        return self.error(tuple(exact))
