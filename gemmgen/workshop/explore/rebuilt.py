"""Plans from rows: what a trial's kernel was, its text, and the time that the model tells of it at any size."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from gemmgen.catalog.gpu import Gpu
from gemmgen.designs import all_decisions
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.explore.own_rows import NAMED, named
from gemmgen.workshop.explore.trial_row import Row

LEFT_OUT = ("solve", "accuracy", "verify")
"""Sections of a spec that ask for a choice or a check: where everything is decided they decide nothing."""


def spec_of(row: Row) -> dict[str, Any]:
    """The row's spec with every decision fixed: sections of plain data, as `gemmgen.spec.loads` takes them.

    Names are those of shipped rows, and paths those of files that the row brings (`own_rows`), whatever the row says.

    Raises:
        SpecError: the row's columns are no JSON objects, or name what is no row.
    """
    spec = {name: dict(section) for name, section in _object(row, "spec").items() if name not in LEFT_OUT and isinstance(section, dict)}
    decided = _object(row, "decided")
    for one in all_decisions():
        if one.name in decided:
            spec.setdefault(one.section, {})[one.name] = decided[one.name]
    spec.setdefault("problem", {}).update(m=row.m, n=row.n, k=row.k, layout=row.layout)
    spec.setdefault("target", {})["gpu"] = row.gpu
    for section, key, value in (("split", "scheme", row.scheme), ("fragment", "policy", row.policy), ("pipeline", "design", row.design)):
        if value:
            spec.setdefault(section, {})[key] = value
    for what, (section, key) in NAMED.items():
        if key in spec.get(section, {}):
            spec[section][key] = named(row, what, spec[section][key])
    return spec


def _object(row: Row, column: str) -> dict[str, Any]:
    try:
        found = json.loads(getattr(row, column))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SpecError(f"row {row.trial or row.kernel}", f"has a column {column} that is no JSON object", got=getattr(row, column), needs="an object",
                        remedy="rows that gemmgen study run wrote")
    return found


def plan_of(row: Row) -> Plan:
    """The row's plan. Rows of one kernel share it: sizes are those of the first row that asked.

    Raises:
        GemmgenError: this version of gemmgen makes no such kernel.
    """
    spec = spec_of(row)
    return _solved(json.dumps(spec, sort_keys=True))


@lru_cache(maxsize=4096)
def _solved(spec: str) -> Plan:
    return solve(loads(json.loads(spec), "row"))


def kernel_of(row: Row) -> str:
    """What tells kernels apart: the plan's hash; where the row has none, its decisions."""
    return row.identity or f"{row.kernel} {row.decided}"


def timed_whole(row: Row) -> bool:
    """Whether the row's time is of as many rounds as the study has; a strategy may time some kernels more briefly (`effort` in `extra`)."""
    return row.verdict == "timed" and bool(row.seconds) and '"effort":' not in row.extra


class Predictions:
    """Seconds of kernels by the model, at any size.

    Args:
        gpu: whose constants to take instead of those of the plan's own GPU; None for its own.
    """

    def __init__(self, gpu: Gpu | None = None):
        self._gpu = gpu
        self._plans: dict[tuple[str, str], Plan | GemmgenError] = {}

    def plan(self, row: Row) -> Plan:
        """The plan of the row's kernel.

        Raises:
            GemmgenError: as `plan_of`.
        """
        key = (row.gpu, kernel_of(row))
        if key not in self._plans:
            try:
                plan = plan_of(row)
                self._plans[key] = replace(plan, gpu=self._gpu) if self._gpu else plan
            except GemmgenError as error:
                self._plans[key] = error
        found = self._plans[key]
        if isinstance(found, GemmgenError):
            raise found
        return found

    def seconds(self, row: Row, sizes: np.ndarray) -> np.ndarray:
        """[sizes] seconds of the row's kernel.

        Args:
            sizes: [sizes, 3] of m, n, k.

        Raises:
            GemmgenError: as `plan_of`.
        """
        plan = self.plan(row)
        numbers = budgets(plan, sizes, row.registers)
        return np.broadcast_to(plan.design.predicted(numbers)["seconds"], len(sizes)).astype(float)


def budgets(plan: Plan, sizes: np.ndarray, registers: int | None = None) -> dict[str, Any]:
    """What `Design.predicted` asks for a plan's kernel at these sizes: M, N and K are [sizes], all else is of the kernel.

    Args:
        registers: what the compiler used, where that is known.
    """
    known = {**plan.design.constants_of(plan), **plan.design.encoded(plan)}
    known |= {name: np.maximum(1.0, sizes[:, at].astype(float)) for at, name in enumerate("MNK")}
    numbers = plan.design.budgets(known, plan.gpu.registers)
    return numbers | ({"registers": registers} if registers else {})
