"""The models' constants, fitted to kernels for this very target: registers to compiled ones, times to timed ones.

What was held out tells how well, in the row and in the report. Where nothing can be timed, times stay the priors they were.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from gemmgen.catalog.generation import Constant
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import GemmgenError
from gemmgen.workshop.bringup import registers, row, times
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.times import Fit, Timed

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
    return session.machine.kind == "cuda" and vendor_of(session.machine.arch).timed


def registers_of(place: Path, most: int, seed: int = 0) -> registers.Fit:
    """The register model's constants for the GPU of a row, by its compiler alone.

    Args:
        place: the path of the row, in a folder with all that it names; a copy of these is read, since the row is to change and tables keep what they read.
        most: kernels to compile.

    Raises:
        GemmgenError: there is no such row, or no compiler for its target.
    """
    with TemporaryDirectory(prefix="gemmgen-bringup-") as folder, Processes() as pool:
        copy = shutil.copytree(place.parent, Path(folder).resolve() / "rows") / place.name
        gpu = GPUS.get(str(copy))
        rows, refused, compiler = registers.measured(gpu, str(copy), pool, most=most, seed=seed)
        return registers.fit(rows, refused, gpu, compiler)


def fit_registers(session: Session, pool: Processes) -> None:
    """The register model's constants, into the generation's row; whatever the device is."""
    session.progress("registers: kernels compiled for the target")
    place = session.place()
    gpu = GPUS.get(str(place))
    others = times.candidates(str(place), gpu.vendor, pool, most=session.kernels, seed=session.seed) if _timed(session) else []
    rows, refused, compiler = registers.measured(gpu, str(place), pool, most=session.kernels, others=[one.spec for one in others], seed=session.seed)
    try:
        fit = registers.fit(rows, refused, gpu, compiler)
    except GemmgenError as error:
        session.put(Value("registers", None, str(error), "not found"))
        return
    session.registers = fit.section
    row.write(session)
    told = "mean relative error of registers, of kernels that a fit had not seen"
    session.put(Value("registers error", round(fit.after, 4), told, proof=f"{fit.kernels} kernels compiled by {compiler}", tolerance=0.5))
    lines = [
        f"{fit.kernels} kernels were compiled by {compiler} for {gpu.arch}; {fit.refused} were refused or spill, and tell nothing. Each of the others was left"
        " out of one of four fits, and told by it.", "",
        "| design, loop | kernels | error with the prior | fitted |", "| --- | --- | --- | --- |",
        *(f"| {name} | {count} | {100 * before:.1f} % | {100 * after:.1f} % |" for name, (count, before, after) in fit.groups.items()),
        f"| all | {fit.kernels - fit.refused} | {100 * fit.before:.1f} % | {100 * fit.after:.1f} % |",
        f"| all that the launch bound does not limit | {fit.free[0]} | {100 * fit.free[1]:.1f} % | {100 * fit.free[2]:.1f} % |",
    ]
    session.sections.append(("The register model", "\n".join(lines)))


def fit_times(session: Session, pool: Processes) -> None:
    """The constants of the model of time, likewise; where kernels can be timed."""
    vendor = vendor_of(session.machine.arch)
    if not _timed(session):
        text = f"Not timed: {session.machine.name} tells no times that count. Its constants are {row.prior(session)}'s, priors."
        session.sections.append(("The model of time", text))
        return
    place = str(session.place())
    found = times.timed(place, vendor.name, pool, most=session.kernels, seed=session.seed, progress=session.progress)
    fit = _kept(session, found, place, pool, held_out=False)
    for _ in range(ROUNDS_OF_CHOICE if fit and not fit.learnt.reason else 0):  # what it would choose now may be what it knows least of
        done = {(one.identity, (one.m, one.n, one.k)) for one in found.rows}
        more = times.timed(str(session.place()), vendor.name, pool, firsts=True, done=done, seed=session.seed, progress=session.progress)
        if not more.rows:
            break
        found = found.beside(more, place)
        fit = _kept(session, found, place, pool, held_out=False)
        if fit is None:
            return
    fit = _kept(session, found, place, pool) if fit else None
    if fit:
        session.sections.append(("The model of time", told(found, fit)))


def _kept(session: Session, found: Timed, place: str, pool: Processes, held_out: bool = True) -> Fit | None:
    """A fit to these times, which the session keeps; None where it came to no end."""
    session.rows["times.json"] = listed(found)
    session.progress("times: fitting")
    try:
        fit = times.fitted(found.rows, place, pool, held_out)
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
    row.write(session)


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
        f"Constants are fitted to all; {len(times.SEEDS)} times a fifth of kernels and of sizes was held out of a fit:", "",
        "| times | error with the priors | fitted |", "| --- | --- | --- |",
        *(f"| of {name} ({fit.rows[name]}) | {100 * before:.1f} % | {100 * after:.1f} % |" for name, (before, after) in fit.held.items()),
    ]
    all_rows = learnt.errors["fitted"]
    lines += [f"| all ({all_rows.rows}), fitted to them | {100 * all_rows.before:.1f} % | {100 * all_rows.after:.1f} % |", "",
              "| constant | prior | fitted | deviation of its logarithm |", "| --- | --- | --- | --- |"]
    lines += [f"| {'.'.join(filter(None, one.place))} | {one.before:.4g} | {one.after:.4g} | {one.deviation:.2g} |" for one in learnt.constants]
    lines += ["", *(f"- not timed: {reason}" for reason in found.refused)]
    return "\n".join(lines).rstrip()
