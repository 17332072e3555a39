"""The models' constants, fitted to kernels for this very target: registers to compiled ones, times to timed ones.

What was held out tells how well, in the row and in the report. Where nothing can be timed, times stay the priors they were.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gemmgen.catalog.generation import Constant
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.registers import LOOPS
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import GemmgenError
from gemmgen.workshop.bringup import gpu_row, sample, toml_values
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.bringup.sample import Timed
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit import register_model
from gemmgen.workshop.fit.register_model import Held
from gemmgen.workshop.fit.time_model import HELD_OUT, Learnt, learn

SEEDS = (1, 2, 3)
"""Draws of what is held out: with about 40 kernels, one alone holds out 8."""
LEARN_SECONDS = 240.0
ROUNDS_OF_CHOICE = 4
"""How often what the fitted model would choose is timed, and the fit made anew; fewer where it chooses what was timed."""


def measure(session: Session) -> None:
    """Fit what can be fitted, and write the rows anew."""
    if not session.kernels or session.gpu_row not in session.rows:
        session.not_sought["calibration"] = "the constants of the register model and of the time model, and their error on held-out kernels"
        return
    with Processes() as pool:
        fit_registers(session, pool)
        fit_times(session, pool)


def _timed(session: Session) -> bool:
    """Whether kernels can be timed on the device."""
    return session.machine.kind == "cuda" and vendor_of(session.machine.arch).checked.timed


# ---- registers


def registers_of(place: Path, most: int, seed: int = 0) -> str:
    """The section [registers] for the GPU of a row, fitted to kernels of its compiler alone.

    Args:
        place: the path of the row, in a folder with all that it names; a copy of these is read, since the row is to change and tables keep what they read.
        most: kernels to compile.

    Raises:
        GemmgenError: there is no such row, or no compiler for its target.
    """
    with TemporaryDirectory(prefix="gemmgen-bringup-") as folder, Processes() as pool:
        copy = shutil.copytree(place.parent, Path(folder).resolve() / "rows") / place.name
        gpu = GPUS.get(str(copy))
        rows, _, compiler = sample.compiled(gpu, str(copy), pool, most=most, seed=seed)
        return registers_section(register_model.fit(rows, gpu.registers), gpu, compiler)


def fit_registers(session: Session, pool: Processes) -> None:
    """The register model's constants, into the generation's row; whatever the device is."""
    session.progress("registers: kernels compiled for the target")
    place = session.place()
    gpu = GPUS.get(str(place))
    others = sample.candidates(str(place), gpu.vendor, pool, most=session.kernels, seed=session.seed) if _timed(session) else []
    rows, refused, compiler = sample.compiled(gpu, str(place), pool, most=session.kernels, others=[one.spec for one in others], seed=session.seed)
    try:
        fit = register_model.fit(rows, gpu.registers)
    except GemmgenError as error:
        session.put(Value("registers", None, str(error), "not found"))
        return
    session.registers = registers_section(fit, gpu, compiler)
    gpu_row.write(session)
    told = "mean relative error of registers, of kernels that a fit had not seen"
    session.put(Value("registers error", round(fit.after, 4), told, proof=f"{fit.kernels} kernels compiled by {compiler}", tolerance=0.5))
    lines = [
        f"{fit.kernels} kernels were compiled by {compiler} for {gpu.arch}; {refused + fit.spilled} were refused or spill, and tell nothing. Each of the others"
        " was left out of one of four fits, and told by it.", "",
        "| design, loop | kernels | error with the prior | fitted |", "| --- | --- | --- | --- |",
        *(f"| {name} | {count} | {100 * before:.1f} % | {100 * after:.1f} % |" for name, (count, before, after) in fit.groups.items()),
        f"| all | {fit.kernels - fit.spilled} | {100 * fit.before:.1f} % | {100 * fit.after:.1f} % |",
        f"| all that the launch bound does not limit | {fit.free[0]} | {100 * fit.free[1]:.1f} % | {100 * fit.free[2]:.1f} % |",
    ]
    session.sections.append(("The register model", "\n".join(lines)))


def registers_section(found: Held, gpu: Gpu, compiler: str) -> str:
    """The section [registers] of a row: what differs from the prior."""
    table, prior, (count, _, free) = found.table, gpu.registers, found.free
    lines = [
        f'[registers]  # of each kind of loop: {", ".join(LOOPS)}',
        f'source = "fitted to {found.kernels} kernels compiled by {compiler} for {gpu.arch}; mean error {100 * found.after:.1f} % of kernels that a fit'
        f' had not seen, {100 * free:.1f} % of the {count} that the launch bound does not limit"',
        f"offset = {toml_values.told(table.offset, _number)}", f"squeeze = {toml_values.told(table.squeeze, _number)}",
    ]
    for section, of, before in (
        ("slopes", table.slopes, prior.slopes), ("plain", table.plain, prior.plain), ("plain.slopes", table.plain.slopes, prior.plain.slopes),
        ("straight", table.straight, prior.straight), ("thin", table.thin, prior.thin),
    ):
        own = [
            f"{name} = {toml_values.told(value, _number)}"
            for name in type(of).model_fields if name != "slopes" and (value := getattr(of, name)) != getattr(before, name)
        ]
        lines += ["", f"[registers.{section}]", *own] if own else []
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{float(value):.3g}" if "." in f"{float(value):.3g}" else f"{float(value):.1f}"


# ---- times


def fit_times(session: Session, pool: Processes) -> None:
    """The constants of the model of time, likewise; where kernels can be timed."""
    vendor = vendor_of(session.machine.arch)
    if not _timed(session):
        text = f"Not timed: {session.machine.name} has no times that count. Its constants are {gpu_row.prior(session)}'s, priors."
        session.sections.append(("The model of time", text))
        return
    place = str(session.place())
    found = sample.timed(place, vendor.name, pool, most=session.kernels, seed=session.seed, progress=session.progress)
    fit = _kept(session, found, place, pool, held_out=False)
    for _ in range(ROUNDS_OF_CHOICE if fit and not fit.learnt.reason else 0):  # what it would choose now may be what it knows least of
        done = {(one.identity, (one.m, one.n, one.k)) for one in found.rows}
        more = sample.timed(str(session.place()), vendor.name, pool, firsts=True, done=done, seed=session.seed, progress=session.progress)
        if not more.rows:
            break
        found = found.beside(more)
        fit = _kept(session, found, place, pool, held_out=False)
        if fit is None:
            return
    fit = _kept(session, found, place, pool) if fit else None
    if fit:
        session.sections.append(("The model of time", told(found, fit)))


@dataclass(frozen=True)
class Fit:
    """What the times told.

    Attributes:
        learnt: the constants, fitted to all rows.
        held: of what was held out, mean |log(measured / predicted)| before and after by `new kernels` and `new sizes`, mean of the draws,
            fitted to the others; rows: how many were held out in all draws.
    """

    learnt: Learnt
    held: Mapping[str, tuple[float, float]]
    rows: Mapping[str, int]


def fitted(rows: Sequence[Row], gpu: str, pool: Processes, held_out: bool = True) -> Fit:
    """The constants of the GPU's row, fitted to the rows, and how well a part of the rows tells the others.

    Args:
        held_out: whether to find out the latter.

    Raises:
        GemmgenError: a fit came to no end.
    """
    asked = [(tuple(rows), gpu, seed, share) for seed, share in ((0, 0.0), *((seed, HELD_OUT) for seed in SEEDS if held_out))]
    answers = list(pool.all("gemmgen.workshop.bringup.calibrate:learnt", asked, seconds=LEARN_SECONDS))
    for kind, answer in answers:
        if kind != "value":
            raise GemmgenError("gemmgen gpu probe", "the constants of the model of time could not be fitted", got=str(answer), remedy="report this")
    (_, whole), *others = answers
    held: dict[str, tuple[float, float]] = {}
    counts: dict[str, int] = {}
    for name in ("new kernels", "new sizes"):
        found = [(one.errors[name].rows, one.errors[name].before, one.errors[name].after) for _, one in others if name in one.errors]
        if found:
            weights, before, after = np.array(found).T
            held[name] = float(np.average(before, weights=weights)), float(np.average(after, weights=weights))
            counts[name] = int(weights.sum())
    return Fit(whole, held, counts)


def learnt(rows: Sequence[Row], gpu: str, seed: int, held_out: float) -> Learnt:
    """One fit."""
    return learn(rows, gpu, seed=seed, held_out=held_out)


def _kept(session: Session, found: Timed, place: str, pool: Processes, held_out: bool = True) -> Fit | None:
    """A fit to these times, which the session keeps; None where it came to no end."""
    session.rows["times.json"] = listed(found)
    session.progress("times: fitting")
    try:
        fit = fitted(found.rows, place, pool, held_out)
    except GemmgenError as error:
        session.put(Value("model of time", None, str(error), "not found"))
        return None
    if fit.learnt.reason:
        session.put(Value("model of time", None, fit.learnt.reason, "not found"))
    else:
        keep(session, found, fit)
    return fit


def keep(session: Session, found: Timed, fit: Fit) -> None:
    """Put what was fitted into the session's values and rows."""
    learnt = fit.learnt
    session.constants.clear()
    session.values[:] = [value for value in session.values if not value.name.startswith("time ")]  # of an earlier fit
    session.told_of_times = [errors(fit)]
    how = f"fitted to {learnt.rows} times of {found.kernels} kernels on {learnt.device}"
    for one in learnt.constants:
        told_before = f"; {one.before:.4g} before, deviation of its logarithm {one.deviation:.2g}"
        session.constants[one.place] = Constant(value=float(f"{one.after:.4g}"), source=how + told_before)
        name = f"time {'.'.join(filter(None, one.place))}"
        proof = f"deviation of its logarithm {one.deviation:.2g}"
        session.put(Value(name, float(f"{one.after:.4g}"), how, proof=proof, tolerance=max(0.05, 2 * one.deviation)))
    for name, (_, after) in fit.held.items():
        how, proof = "mean |log(measured / predicted)| of what was held out", f"{fit.rows[name]} times"
        session.put(Value(f"time error of {name}", round(after, 4), how, proof=proof, tolerance=0.5))
    gpu_row.write(session)


def listed(found: Timed) -> str:
    """The trials as JSON, one a line: what `Row`s of them have of spec, size and time."""
    kept = (
        "verdict", "reason", "kernel", "identity", "gpu", "device", "scheme", "promote", "policy", "design", "m", "n", "k", "layout", "registers", "seconds",
        "spread", "predicted_seconds", "error", "clock_mhz", "power_w", "decided", "spec", "compile_seconds", "judge_seconds", "time_seconds",
    )
    lines = [json.dumps({name: getattr(row, name) for name in kept}) for row in found.rows]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def errors(fit: Fit) -> str:
    """How well times are told of what a fit had not seen."""
    parts = [f"{100 * after:.1f} % of {name} ({fit.rows[name]} times)" for name, (_, after) in fit.held.items()]
    return "mean error of times that a fit had not seen: " + ", ".join(parts) if parts else "too few times to hold any out"


def told(found: Timed, fit: Fit) -> str:
    """The section of the report."""
    learnt = fit.learnt
    if learnt.reason:
        return f"Nothing was fitted: {learnt.reason}."
    lines = [
        f"{found.kernels} kernels of the reference schemes were compiled, judged and timed, each at the size that it was chosen for and at another:"
        f" {learnt.rows} times. The last of them are what the model chose once it had been fitted to the others.",
        f"Constants are fitted to all; {len(SEEDS)} times a fifth of kernels and of sizes was held out of a fit:", "",
        "| times | error with the priors | fitted |", "| --- | --- | --- |",
        *(f"| of {name} ({fit.rows[name]}) | {100 * before:.1f} % | {100 * after:.1f} % |" for name, (before, after) in fit.held.items()),
    ]
    all_rows = learnt.errors["fitted"]
    lines += [f"| all ({all_rows.rows}), fitted to them | {100 * all_rows.before:.1f} % | {100 * all_rows.after:.1f} % |", "",
              "| constant | prior | fitted | deviation of its logarithm |", "| --- | --- | --- | --- |"]
    lines += [f"| {'.'.join(filter(None, one.place))} | {one.before:.4g} | {one.after:.4g} | {one.deviation:.2g} |" for one in learnt.constants]
    lines += ["", *(f"- not timed: {reason}" for reason in found.refused)]
    return "\n".join(lines).rstrip()
