"""A study is carried out: candidates are asked of its strategy, tried by a pool, and kept as rows.

Compiling runs ahead of the GPUs. Every trial has an id by what it is of, and one that the store holds already is not tried again but told to the
strategy: so the same command goes on where it was interrupted, whatever the strategy.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf, isfinite
from pathlib import Path
from typing import Any

from gemmgen import __version__
from gemmgen.errors import GemmgenError, SpecError, UnknownName
from gemmgen.paths import SPECS
from gemmgen.workshop.explore.own_rows import kept, row_name, without_paths
from gemmgen.workshop.explore.space import Candidates
from gemmgen.workshop.explore.store import Store, Writer
from gemmgen.workshop.explore.strategies import Ask, Outcome, left_out, strategy_called
from gemmgen.workshop.explore.studies import DATA_TOLD, Problem, Study
from gemmgen.workshop.explore.trial import ROUNDS, SLICE_MS, Task, facts
from gemmgen.workshop.explore.trial_row import Row, told
from gemmgen.workshop.explore.workers import AHEAD, COMPILE, Pool

TRIES_OF_REFERENCE = 8
"""Of the model's choices of a size, for its reference kernel."""
STAGES = {name: f"gemmgen.workshop.explore.trial:{name}" for name in ("compiled", "timed", "emulated", "first_to_build")}
GOOD = ("modelled", "compiled", "right", "timed")
"""Verdicts of kernels that count."""


@dataclass
class Progress:
    """How far a study is.

    Attributes:
        wanted: how many trials at most.
        done: how many ended, those that the store held among them; kept: these.
        verdicts: how the others ended.
        seconds: since the first was begun.
        left: seconds that the rest will take, by what the others took; None where that is not known yet.
        best: of each problem the fastest row.
        schemes: of kernels that ended, how many of each scheme.
        gpu_seconds: that GPUs judged and timed, of all workers together.
    """

    wanted: int
    done: int = 0
    kept: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    left: float | None = None
    best: dict[Problem, Row] = field(default_factory=dict)
    schemes: Counter[str] = field(default_factory=Counter)
    gpu_seconds: float = 0.0
    interrupted: bool = False

    def add(self, row: Row, problem: Problem) -> None:
        """A trial ended."""
        self.verdicts[row.verdict] += 1
        if row.kind == "kernel" and row.scheme:
            self.schemes[row.scheme] += 1
        self.gpu_seconds += (row.judge_seconds or 0) + (row.time_seconds or 0) if row.uuid else 0
        best = self.best.get(problem)
        if row.verdict in GOOD and row.kind == "kernel" and (best is None or _cost(row) < _cost(best)):
            self.best[problem] = row


def _cost(row: Row) -> tuple[bool, float]:
    """Measured times come before predicted ones."""
    return row.seconds is None, row.seconds if row.seconds is not None else row.predicted_seconds or inf


@dataclass
class _Trial:
    """One under way."""

    row: Row
    task: Task
    problem: int
    ask: Ask | None = None
    stage: str = "compiled"
    resource: str = COMPILE


class Running:
    """A study under way.

    Args:
        candidates: of the study.
        store: where rows go, and where those of an earlier run are.
        pool: who tries.
        trials, seconds: instead of the study's own.
        strategy: likewise.
        told_progress: is told after every trial, and now and then.
        stages: target of each stage, for tests of what may become of one.
    """

    def __init__(
        self, candidates: Candidates, store: str | Path, pool: Pool, *, trials: int | None = None, seconds: float | None = None,
        strategy: str | None = None, told_progress: Callable[[Progress], None] = lambda progress: None, stages: Mapping[str, str] | None = None,
    ):
        from gemmgen.timing.blas import CUBLAS

        self.candidates, self.pool, self.study = candidates, pool, candidates.study
        head = self.study.head
        for name in head.rivals:
            if name not in CUBLAS:
                raise UnknownName(f"{self.study.place}: [study] rivals", "library routine", name, CUBLAS)
        self._left_out = left_out(candidates, strategy or self.study.strategy, trials or head.trials)
        self._limit = seconds if seconds is not None else head.seconds
        self._strategy = strategy_called(strategy or self.study.strategy, candidates.pool, head.seed)
        self._stages = STAGES | dict(stages or {})
        self._told = told_progress
        wanted = trials or head.trials  # of successive halving several of one candidate
        self.progress = Progress(wanted if (strategy or self.study.strategy) == "halving" else min(wanted, len(candidates)))
        self.writer = Writer(store)
        self.writer.place.put(probe := f"{self.writer.id}.begun", b"")  # whether it can be written shows before anything is compiled
        self.writer.place.remove(probe)
        self._known = known_rows(store, self.study.name)
        self._asked = 0
        self._open: dict[int, _Trial] = {}
        self._number = 0
        self._references: dict[int, Mapping[str, Any] | None] = {}
        self._wait_for_reference: dict[int, list[_Trial]] = defaultdict(list)
        self._looking: dict[Any, int] = {}
        self._compilers: dict[str, str] = {}
        self._commit = commit()

    def run(self) -> Progress:
        """Until the trials, the time or the candidates are used up, or Ctrl-C; rows are flushed whatever happens."""
        self._start = time.monotonic()
        try:
            self._keep_rejected()
            while True:
                self._begin_more()
                if not self._busy:
                    break
                for key, answer in self.pool.wait(0.5):
                    self._advance(key, answer)
                self._clock()
                self._estimate()
                self._told(self.progress)
        except KeyboardInterrupt:
            self.progress.interrupted = True
        finally:
            self.writer.close()
        return self.progress

    def _keep_rejected(self) -> None:
        """A row for each GPU, of what the model rejects before it becomes a trial, for reports."""
        for gpu, rejected in self.candidates.rejected_on.items():
            extra = told({"rejected": dict(rejected), "left_out": self._left_out})
            key = hashlib.sha256(f"{self.study.name} {gpu} {extra}".encode()).hexdigest()[:16]
            if (rejected or self._left_out) and key not in self._known:
                self.writer.add(Row(
                    study=self.study.name, trial=key, kind="space", verdict="modelled", kernel="", gpu=row_name(gpu), m=0, n=0, k=0, layout="",
                    generator=__version__, commit=self._commit, extra=extra,
                ))

    def _clock(self) -> None:
        self.progress.seconds = time.monotonic() - self._start

    @property
    def _busy(self) -> bool:
        return bool(self._open or self._looking)

    def _estimate(self) -> None:
        tried = self.progress.done - self.progress.kept
        if tried >= 2:
            each = self.progress.seconds / tried
            by_trials = each * (self.progress.wanted - self.progress.done)
            self.progress.left = max(0.0, min(by_trials, self._limit - self.progress.seconds if self._limit else inf))

    # ---- beginning

    def _begin_more(self) -> None:
        gpus = self.pool.gpus
        ahead = self.pool.compilers + 1 + AHEAD * sum(gpus.values())
        self._clock()
        while self._asked < self.progress.wanted and len(self._open) < ahead and not (self._limit and self.progress.seconds >= self._limit):
            ask = self._strategy.ask()
            if ask is None:
                return
            self._asked += 1
            self._begin(ask, gpus)
            self._clock()

    def _begin(self, ask: Ask, gpus: Mapping[str, int]) -> None:
        candidates, head, accept = self.candidates, self.study.head, self.study.file.accept
        problem, part, plan = candidates.problem_of(ask.at), candidates.part_of(ask.at), candidates.plan(ask.at)
        how = "timed" if problem.gpu in gpus else "emulated" if head.emulate else "compiled"
        spec, own = candidates.spec(ask.at), kept(part.request.loaded)
        row = Row(
            study=self.study.name, trial=self._id(plan.hash, problem, plan.gpu.arch, how, ask.effort), kind="kernel", verdict="modelled",
            gpu=plan.gpu.name, m=problem.m, n=problem.n, k=problem.k, layout=problem.layout, writer=self.writer.id, generator=__version__,
            commit=self._commit, spec=told(without_paths(spec)), data=DATA_TOLD[head.data], predicted_seconds=float(candidates.seconds[ask.at]),
            predicted_error=part.error if isfinite(part.error) else None, **facts(plan),
            extra=told(({"effort": round(ask.effort, 4)} if ask.effort < 1 else {}) | ({"own": own} if own else {})),
        )
        known = self._known.get(row.trial)
        if known is not None and (known.verdict != "modelled" or not head.compile):
            self.progress.kept += 1
            self._end(known, ask, problem, kept=True)
            return
        task = Task(
            spec, problem.size, problem.layout, head.data, None, accept.relative_frobenius, accept.scaled,
            rounds=max(3, round(ROUNDS * ask.effort)), slice_ms=max(1.0, SLICE_MS * ask.effort),
        )
        trial = _Trial(row, task, part.problem, ask)
        if not head.compile:
            self._finish(trial, {})
            return
        if how == "timed":
            self._want_reference(part.problem)
        self._submit(trial, "compiled", COMPILE, task, how != "compiled")

    def _submit(self, trial: _Trial, stage: str, resource: str, *args: Any) -> None:
        self._number += 1
        trial.stage, trial.resource = stage, resource
        self._open[self._number] = trial
        self.pool.submit(self._number, resource, self._stages[stage], *args, seconds=self.study.head.trial_seconds)

    def _id(self, identity: str, problem: Problem, arch: str, how: str, effort: float = 1.0) -> str:
        if arch not in self._compilers:
            self._compilers[arch] = compiler_name(arch)
        parts = {"identity": identity, "problem": problem.told, "compiler": self._compilers[arch], "data": self.study.head.data, "how": how}
        return hashlib.sha256(told(parts | ({"effort": round(effort, 4)} if effort < 1 else {})).encode()).hexdigest()[:16]

    # ---- the reference kernel of each problem, and rivals

    def _want_reference(self, number: int) -> None:
        """Find it, once: the study's own, or the model's first choice that builds; and time it and the rivals by themselves."""
        if number in self._references or number in self._looking.values():
            return
        problem = self.candidates.problems[number]
        if self.study.head.reference:
            specs = [reference_spec(self.study, problem)]
        else:
            of = [at for at in self.candidates.order[: 64 * len(self.candidates.problems)] if self.candidates.part_of(at).problem == number]
            specs = [self.candidates.spec(int(at)) for at in of[:TRIES_OF_REFERENCE]]
        self._number += 1
        self._looking[self._number] = number
        self.pool.submit(self._number, COMPILE, self._stages["first_to_build"], specs, seconds=TRIES_OF_REFERENCE * self.study.head.trial_seconds)

    def _reference_found(self, number: int, spec: Mapping[str, Any] | None, columns: Mapping[str, Any]) -> None:
        self._references[number] = spec
        problem, head = self.candidates.problems[number], self.study.head
        rows: list[tuple[str, str, Mapping[str, Any], Mapping[str, Any]]] = [
            ("rival", name, {}, {"kernel": name}) for name in head.rivals if problem.layout == "nn"
        ]
        rows += [("reference", "", spec, columns)] if spec else []
        for kind, name, own, known in rows:
            key = self._id(name or told(own), problem, "", kind)
            if key in self._known or problem.gpu not in self.pool.gpus:
                continue
            row = Row(
                study=self.study.name, trial=key, kind=kind, verdict="modelled", gpu=problem.gpu, m=problem.m, n=problem.n, k=problem.k,
                layout=problem.layout, writer=self.writer.id, generator=__version__, commit=self._commit, spec=told(without_paths(own)),
                data=DATA_TOLD[head.data], **known,
            )
            task = Task(own, problem.size, problem.layout, head.data, spec if name else None, rival=name)
            self._submit(_Trial(row, task, number), "timed", problem.gpu, task)
        for trial in self._wait_for_reference.pop(number, []):
            self._time(trial)

    def _time(self, trial: _Trial) -> None:
        if trial.problem not in self._references:
            self._wait_for_reference[trial.problem].append(trial)
            self._want_reference(trial.problem)
            return
        task = replace(trial.task, reference=self._references[trial.problem])
        self._submit(trial, "timed", trial.row.gpu, task)

    # ---- what comes back

    def _advance(self, key: Any, answer: tuple[str, Any]) -> None:
        kind, value = answer
        if key in self._looking:
            self._reference_found(self._looking.pop(key), *(value if kind == "value" and value else (None, {})))
            return
        trial = self._open.pop(key, None)
        if trial is None:
            return
        if kind != "value":
            self._finish(trial, {"verdict": kind, "reason": f"{trial.stage}: {value}"})
            return
        columns, made = value if trial.stage == "compiled" else (value, b"")
        trial.row = replace(trial.row, **columns)
        if trial.stage != "compiled" or columns["verdict"] != "compiled":
            self._finish(trial, {})
        elif trial.row.gpu in self.pool.gpus and made:
            trial.task = replace(trial.task, made=made)
            self._time(trial)
        elif self.study.head.emulate and made:
            trial.task = replace(trial.task, made=made)
            self._submit(trial, "emulated", COMPILE, trial.task)
        else:
            self._finish(trial, {})

    def _finish(self, trial: _Trial, columns: Mapping[str, Any]) -> None:
        trial.row = replace(trial.row, **columns, at=datetime.now(UTC))
        self.writer.add(trial.row)
        self._known[trial.row.trial] = trial.row
        self._end(trial.row, trial.ask, self.candidates.problems[trial.problem])

    def _end(self, row: Row, ask: Ask | None, problem: Problem, kept: bool = False) -> None:
        if ask is not None:
            self._strategy.tell(ask, outcome_of(row))
            self.progress.done += 1
        self.progress.add(row, problem)
        self._told(self.progress)


def outcome_of(row: Row) -> Outcome:
    """What a strategy is told of a row."""
    if row.verdict not in GOOD:
        return Outcome()
    seconds = row.seconds if row.seconds is not None else row.predicted_seconds
    error = row.error if row.error is not None else row.predicted_error
    return Outcome(seconds if seconds is not None else inf, error if error is not None else inf)


def known_rows(store: str | Path, study: str) -> dict[str, Row]:
    """The rows of a study by their trials' ids; none where there is no store yet."""
    reader = Store(store)
    if not reader.place.exists():
        return {}
    return {row.trial: row for row in reader.rows("study = ?", (study,))}


def reference_spec(study: Study, problem: Problem) -> dict[str, Any]:
    """The study's reference kernel's spec, for a problem.

    Raises:
        SpecError, UnknownName: it will not do.
    """
    from gemmgen.spec import load

    name = study.head.reference or ""
    path = SPECS / "kernels" / f"{name}.toml" if not name.endswith(".toml") else (study.folder or Path()) / name
    if not path.is_file():
        raise SpecError(f"{study.place}: [study] reference", "is no spec that is there", got=name, needs="a name under specs/kernels, or a .toml file",
                        remedy="leave it out: the model's first choice of each size is taken")
    data = load(path).spec.model_dump(mode="json", exclude_defaults=True)
    data["problem"] = data.get("problem", {}) | {"layout": problem.layout, **dict(zip("mnk", problem.size))}
    data["target"] = {"gpu": problem.gpu}
    return data


def compiler_name(arch: str) -> str:
    """The compiler at hand for an architecture; empty where there is none, or none is asked for."""
    from gemmgen.build import find_clang, find_compiler

    if not arch:
        return ""
    try:
        return (find_clang() if arch.startswith("gfx") else find_compiler()).name
    except GemmgenError:
        return ""


def commit() -> str:
    """Of the tree that gemmgen runs from; empty where it is no checkout."""
    try:
        answer = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], cwd=SPECS, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
