"""`gemmgen study run`: the verb, what it says of a study's space, and its progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen.cli.output import duration, emit, emit_json, note, shown, tell
from gemmgen.cli.verb import SCHEMAS, SPACE, Json, Silent, group, names, verb
from gemmgen.errors import EXIT_OK

if TYPE_CHECKING:
    from gemmgen.workshop.explore.running import Progress
    from gemmgen.workshop.explore.space import Candidates
    from gemmgen.workshop.explore.studies import Problem
    from gemmgen.workshop.explore.trial_row import Row
    from gemmgen.workshop.explore.workers import Pool

INTERRUPTED = 130
MOST_NAMED = 4
EACH_LINE = 5.0
"""Seconds between two lines of progress where stderr is no terminal."""


class Strategy(StrEnum):
    cover = "cover"
    model = "model"
    all = "all"
    random = "random"
    halving = "halving"
    tpe = "tpe"
    nsga2 = "nsga2"


def _schema() -> dict[str, Any]:
    from gemmgen.workshop.explore.studies import json_schema

    return json_schema()


SCHEMAS["study"] = _schema


group("study", SPACE, "Try many kernels on many sizes, keep the trials, ask them.")


@verb(
    SPACE,
    "gemmgen study run small_cpu",
    "gemmgen study run sgemm_h200 --dry-run",
    "gemmgen study run my_study.toml --store results/mine --strategy tpe --trials 500 --seconds 600",
    "gemmgen study run my_study.toml --scheduler tcp://host:8786 --store s3://bucket/mine",
    name="study run", was={"explore": {}},
)
def explore(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study (.toml), or the name of a shipped one.", autocompletion=names("studies"))],
    store: Annotated[str | None, typer.Option(metavar="DIR|URI", help="Where trials are kept; default: explore-out/NAME.")] = None,
    strategy: Annotated[Strategy | None, typer.Option(help="Instead of the study's own.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many candidates are tried at most, instead of the study's own number.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="After how long no further trial begins.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list the candidates, what the model rejects, and how long the rest will take.")] = False,
    workers: Annotated[int | None, typer.Option(min=0, metavar="N", help=(
        "Processes that compile, beside one for each GPU; default: as many as there are processors; 0: one process, without a cluster."))] = None,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="A dask scheduler whose workers try, instead of this machine alone.")] = None,
    compiling: Annotated[bool | None, typer.Option("--compile/--no-compile", help=(
        "Whether kernels are compiled, instead of what the study says; without, the model's figures alone are kept, of 1,000 candidates in seconds."))] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="For this GPU instead of the study's own; see gemmgen list gpus.")] = None,
    as_json: Json = False,
    quiet: Silent = False,
) -> int:
    """Try many kernels of a study, and keep what comes of each.

    Candidates are enumerated and ranked by the model, compiled, held to their
    predicted resources, judged, and timed where a GPU of their kind is at hand.
    What hangs, crashes or is wrong costs one trial and is kept with its reason.
    Ctrl-C ends it in order, and the same command goes on where it stopped.
    """
    from gemmgen.workshop import explore as exploring
    from gemmgen.workshop.explore.running import Running, known_rows
    from gemmgen.workshop.explore.strategies import left_out

    explored = exploring.study(study)
    if gpu or compiling is not None:
        explored = exploring.study(explored.study.with_(gpus=[gpu] if gpu else None, compile=compiling))
    head = explored.study.head
    candidates = explored.candidates()
    place = store or f"explore-out/{explored.study.name}"
    known = known_rows(place, explored.study.name)
    pool = None if dry_run else exploring.pool_of(scheduler, workers if head.compile else 0)
    left = left_out(candidates, strategy or explored.study.strategy, trials or head.trials)
    try:
        estimate = estimated(candidates, pool, trials, seconds, list(known.values()))
        value: dict[str, Any] = {**space_dict(candidates), "left_out": left, "estimate": estimate, "store": place}
        if dry_run:
            emit_json(value) if as_json else emit(space_text(candidates, estimate, left, strategy or explored.study.strategy))
            return EXIT_OK
        assert pool is not None
        if not as_json:
            emit(space_text(candidates, estimate, left, strategy or explored.study.strategy))
        untimed = [name for name in explored.study.gpus() if name not in pool.gpus]
        if untimed and head.compile:
            note(f"no {' or '.join(untimed)} is at hand: its kernels are {'judged on the emulator' if head.emulate else 'compiled'}, "
                 "and ranked by the model; nothing of them is timed", quiet=quiet or as_json)
        if not pool.compilers:
            note(f"no worker of {pool.name} has the resource compile yet; trials begin when one joins", quiet=quiet or as_json)
        with showing(quiet or as_json, explored.study.name) as shown:
            running = Running(candidates, place, pool, trials=trials, seconds=seconds, strategy=strategy, told_progress=shown)
            progress = running.run()
    finally:
        if pool is not None:
            pool.close()
    value |= progress_dict(progress)
    emit_json(value) if as_json else emit(progress_text(progress, place))
    if progress.interrupted:
        note("interrupted; the same command goes on from here", quiet=quiet)
        return INTERRUPTED
    return EXIT_OK


# ---- what is said of the space


def estimated(candidates: Candidates, pool: Pool | None, trials: int | None, seconds: float | None, known: list[Any]) -> dict[str, Any]:
    """How long the study will take: by what its stored trials took, else by what is usual."""
    import os
    from statistics import median

    from gemmgen.workshop.explore.gpus import gpus_here

    def usual(name: str, otherwise: float) -> float:
        found = [getattr(row, name) for row in known if getattr(row, name)]
        return median(found) if found else otherwise

    count = min(trials or candidates.study.head.trials, len(candidates))
    left = max(0, count - sum(row.kind == "kernel" for row in known))
    compilers = max(1, pool.compilers if pool else os.cpu_count() or 1)
    gpus = pool.gpus if pool else {one.name: 1 for one in gpus_here()}
    timed = [name for name in candidates.study.gpus() if name in gpus and candidates.study.head.compile]
    compiling = left * (usual("compile_seconds", COMPILE_SECONDS) / compilers if candidates.study.head.compile else MODEL_SECONDS)
    running = left * (usual("judge_seconds", JUDGE_SECONDS) + usual("time_seconds", TIME_SECONDS)) / sum(gpus[name] for name in timed) if timed else (
        left * usual("judge_seconds", EMULATE_SECONDS) / compilers if candidates.study.head.emulate and candidates.study.head.compile else 0.0
    )
    limit = seconds or candidates.study.head.seconds
    whole = max(compiling, running)
    return {"trials": count, "left": left, "compile_seconds": compiling, "run_seconds": running, "seconds": min(whole, limit) if limit else whole,
            "timed": timed, "measured": bool(known)}


COMPILE_SECONDS, JUDGE_SECONDS, TIME_SECONDS, EMULATE_SECONDS, MODEL_SECONDS = 2.0, 0.4, 0.5, 5.0, 0.001
"""Of a trial, as long as a store tells nothing else."""


def space_text(candidates: Candidates, estimate: dict[str, Any], left_out: Mapping[str, str], strategy: str) -> str:
    """How many candidates there are, what the model rejects and why, and how long the rest will take."""
    from gemmgen.cli.show import LABEL

    study = candidates.study
    left, rejected = len(candidates), sum(candidates.rejected.values())
    lines = [
        f"{'study':<{LABEL}}{study.name}" + (f": {study.head.title}" if study.head.title else ""),
        f"{'space':<{LABEL}}{len(candidates.problems)} of GPU, size and layout, {len(candidates.combinations)} with all choices of listed values",
        f"{'candidates':<{LABEL}}{candidates.count:,}; the model rejects {rejected:,}; {left:,} remain, ranked in {candidates.seconds_taken:.2f} s",
    ]
    how = f"timed on {', '.join(estimate['timed'])}" if estimate["timed"] else (
        "not compiled" if not study.head.compile else "judged on the emulator, not timed" if study.head.emulate else "compiled, not timed"
    )
    lines.append(
        f"{'trials':<{LABEL}}{estimate['trials']:,} by strategy {strategy}, {how}; {estimate['left']:,} to do, about {_span(estimate['seconds'])} "
        f"({'by the stored trials' if estimate['measured'] else 'a guess: nothing is stored yet'})"
    )
    if left_out:
        lines.append(f"{'left out':<{LABEL}}{left_out_text(left_out)}")
    if candidates.rejected:
        lines += ["", "rejected", *(f"{count:>12,}  {label}" for label, count in sorted(candidates.rejected.items(), key=lambda one: -one[1]))]
    if candidates.refused:
        reasons: dict[str, list[str]] = {}
        for one in candidates.refused:
            if one.error.problem in left_out.values():
                continue  # said already
            reasons.setdefault(one.error.problem, []).append(", ".join(filter(None, (one.combination.problem.told, one.combination.told))))
        lines += [] if not reasons else ["", "combinations that no kernel serves", *(
            f"{len(which):>12,}  {why}: {'; '.join(which[:3])}{' ...' if len(which) > 3 else ''}" for why, which in reasons.items()
        )]
    return "\n".join(lines)


def left_out_text(left_out: Mapping[str, str]) -> str:
    """What no trial is of and why, in a line: `half (its predicted error 2.6e-04 is above ...), mixpert1 (...)`."""
    reasons: dict[str, list[str]] = {}
    for name, why in left_out.items():
        reasons.setdefault(why, []).append(name)
    parts = [f"{', '.join(names[:MOST_NAMED])}{f' and {len(names) - MOST_NAMED} more' if len(names) > MOST_NAMED else ''} ({why})"
             for why, names in reasons.items()]
    return "; ".join(parts)


def space_dict(candidates: Candidates) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "study": candidates.study.name, "problems": len(candidates.problems), "combinations": len(candidates.combinations), "candidates": candidates.count,
        "rejected": dict(candidates.rejected), "remain": len(candidates), "rank_seconds": candidates.seconds_taken,
        "refused": [{"problem": one.combination.problem.told, "listed": dict(one.combination.listed), **one.error.as_dict()} for one in candidates.refused],
    }


def _span(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


# ---- progress


@contextmanager
def showing(quiet: bool, name: str) -> Iterator[Any]:
    """What is printed after every trial, on stderr: on a terminal a bar that changes, elsewhere a line now and then."""
    if quiet:
        yield lambda progress: None
        return
    if not sys.stderr.isatty():
        last = [time.monotonic()]

        def line(progress: Progress) -> None:
            if time.monotonic() - last[0] >= EACH_LINE:
                last[0] = time.monotonic()
                tell(f"{name}: {_state(progress)}")

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    with Bar(TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[state]}", markup=False),
             console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(shown(name, sys.stderr), total=None, state="")

        def changed(progress: Progress) -> None:
            bar.update(task, total=progress.wanted, completed=progress.done, state=shown(_state(progress), sys.stderr))

        yield changed


def _state(progress: Progress) -> str:
    """`120 of 300, 4 refused; best 312 TFLOPS at h200 4096x4096x4096 nn; 2 min left`."""
    parts = [f"{progress.done} of {progress.wanted} trials"]
    bad = {verdict: count for verdict, count in progress.verdicts.items() if verdict not in ("timed", "right", "compiled")}
    parts += [", ".join(f"{count} {verdict}" for verdict, count in bad.items())] if bad else []
    if progress.best:
        def speed(one: tuple[Problem, Row]) -> tuple[float, float]:
            return one[1].tflops or 0.0, one[0].m * one[0].n * one[0].k / (one[1].predicted_seconds or 1.0)

        problem, row = max(progress.best.items(), key=speed)
        figure = f"{row.tflops:.3g} TFLOPS" if row.tflops else f"{1e6 * (row.predicted_seconds or 0):.3g} us predicted"
        parts.append(f"best {figure} at {problem.told}")
    parts.append(f"{_span(progress.left)} left" if progress.left is not None else "")
    return "; ".join(filter(None, parts))


def progress_text(progress: Progress, place: str) -> str:
    """What came of a run, with the fastest kernel of each problem."""
    from gemmgen.cli.show import LABEL, table

    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(progress.verdicts.items(), key=lambda one: -one[1]))
    lines = [
        "", f"{'tried':<{LABEL}}{progress.done} of {progress.wanted}, {progress.kept} of them before; all kernels, references and rivals: {verdicts or 'none'}",
        f"{'schemes':<{LABEL}}{', '.join(f'{count} {name}' for name, count in progress.schemes.most_common()) or 'none'}",
        f"{'took':<{LABEL}}{progress.seconds:.1f} s" + (f", GPUs at work {progress.gpu_seconds:.1f} s together" if progress.gpu_seconds else ""),
        f"{'store':<{LABEL}}{place}",
    ]
    if progress.best:
        timed = any(row.seconds is not None for row in progress.best.values())
        header = ("fastest of", "kernel", "microseconds", "TFLOPS", "over reference", "error") if timed else ("first of", "kernel", "us predicted", "error")
        rows = []
        for problem, row in progress.best.items():
            error = f"{row.error:.2g}" if row.error is not None else f"{row.predicted_error:.2g} predicted" if row.predicted_error is not None else "-"
            if timed:
                ratio = f"{row.reference_seconds / row.seconds:.3f}" if row.seconds and row.reference_seconds else "-"
                speed = (f"{1e6 * row.seconds:.4g}", f"{row.tflops:.4g}") if row.seconds else ("-", "-")
                rows.append((problem.told, row.kernel, *speed, ratio, error))
            else:
                rows.append((problem.told, row.kernel, f"{1e6 * (row.predicted_seconds or 0):.4g}", error))
        lines += ["", table(header, rows)]
    return "\n".join(lines)


def progress_dict(progress: Progress) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "tried": progress.done, "kept": progress.kept, "verdicts": dict(progress.verdicts), "schemes": dict(progress.schemes), "seconds": progress.seconds,
        "gpu_seconds": progress.gpu_seconds, "interrupted": progress.interrupted,
        "best": [{"problem": problem.told, "kernel": row.kernel, "trial": row.trial, "seconds": row.seconds, "predicted_seconds": row.predicted_seconds,
                  "reference_seconds": row.reference_seconds, "error": row.error} for problem, row in progress.best.items()],
    }
