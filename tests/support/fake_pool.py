"""Who solves, compiles and times for a bring-up, in this process: nothing is compiled, and times are those of a GPU whose constants are hidden."""

from __future__ import annotations

import importlib
import pickle
from concurrent.futures import Future
from typing import Any

import numpy as np

from gemmgen.catalog.gpu import Gpu
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.explore.trial import Task, facts
from gemmgen.workshop.fit import register_model


class FakePool:
    """`Processes` without any.

    Args:
        hidden: the GPU whose constants the times follow.
        noise: standard deviation of the times' logarithm.
        wrong: a word of the names of kernels that are judged wrong.
    """

    def __init__(self, hidden: Gpu, noise: float = 0.02, wrong: str | None = None):
        self.hidden, self.noise, self.wrong = hidden, noise, wrong
        self.draw = np.random.default_rng(0)
        self.timed: list[tuple[str, tuple[int, int, int]]] = []

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, target: str, *args: Any, seconds: float = 0.0) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(self._answer(target, args))
        return future

    def all(self, target: str, each: Any, seconds: float = 0.0) -> Any:
        return (self._answer(target, args) for args in each)

    def on_gpu(self, target: str, *args: Any, seconds: float = 0.0) -> Any:
        return self._answer(target, args)

    def _answer(self, target: str, args: Any) -> Any:
        module, _, name = target.partition(":")
        own = getattr(self, f"_{module.rpartition('.')[2]}_{name}", None)
        try:
            return "value", (own or getattr(importlib.import_module(module), name))(*args)
        except Exception as error:
            return "failed", f"{type(error).__name__}: {error}"

    def _trial_compiled(self, task: Task) -> Any:
        plan = solve(loads(dict(task.spec)))
        found = facts(plan, render(plan))
        return {**found, "verdict": "compiled", "reason": "", "registers": plan.predicted_registers}, pickle.dumps(dict(task.spec))

    def _register_model_compiled(self, spec: Any) -> Any:
        """As a compiler with the hidden GPU's constants would have it."""
        plan = solve(loads(dict(spec)))
        numbers = register_model.asked(plan)
        known = plan.design.registers({name: value for name, value in numbers.items() if name != "loop"}, self.hidden.registers)
        used = round(float(known["registers"]) * float(np.exp(self.draw.normal(0, self.noise))))
        return register_model.Compiled(spec, plan.design.name, plan.design.register_section, numbers, used, 0), "a made-up compiler"

    def _trial_timed(self, task: Task) -> Any:
        if task.rival:
            return {"verdict": "timed", "reason": "", "seconds": 1e-3, "rounds": 7, "spread": 0.0}
        m, n, k = task.size
        spec = pickle.loads(task.made)
        plan = solve(loads({**spec, "problem": {**spec["problem"], "m": m, "n": n, "k": k}}))
        design = plan.design
        known = design.constants(plan.layout, plan.scheme, plan.fragment, self.hidden, plan.hints) | design.encoded(plan)
        seconds = float(design.predicted(design.budgets(known, plan.gpu.registers))["seconds"]) * float(np.exp(self.draw.normal(0, self.noise)))
        self.timed.append((plan.hash, task.size))
        if self.wrong and self.wrong in plan.scheme.name:
            return {"verdict": "wrong", "reason": "probes: made up"}
        return {"verdict": "timed", "reason": "", "seconds": seconds, "rounds": 7, "spread": 0.01, "error": 1e-7, "device": "a made-up GPU"}

    def _kernels_verified(self, spec: Any, device: str) -> tuple[bool, str]:
        return True, "as if"
