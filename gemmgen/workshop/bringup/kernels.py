"""The reference set on the rows found: solved, built, verified, and timed beside the vendor's own SGEMM where there is one.

Of each scheme and size the model's first choice is taken, and beside it a few others that the model holds equal or nearly so; the fastest of
those that are right is the spec that the folder gets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.catalog.vendor import vendor_of
from gemmgen.workshop.bringup import sample, toml_values
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.sample import Proposed, Size
from gemmgen.workshop.explore.trial import Columns, Task

REFERENCE: tuple[tuple[str, tuple[Size, ...]], ...] = (
    ("ootomo", ((256, 256, 256), (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (64, 8192, 1024), (1536, 2048, 768))),
    ("bf16x6", ((1024, 1024, 1024), (4096, 4096, 4096))),
    ("tf32x3", ((1024, 1024, 1024), (4096, 4096, 4096))),
    ("fp32", ((1024, 1024, 1024), (4096, 4096, 4096), (8, 8192, 4096))),
    ("half", ((4096, 4096, 4096),)),
)
"""Scheme and sizes (m, n, k). What does not fit the GPU is told with its reason."""
EMULATED: tuple[tuple[str, tuple[Size, ...]], ...] = (("ootomo", ((256, 256, 256),)), ("fp32", ((256, 256, 256),)))
"""The same where the emulator is the device, which takes half a minute of a processor for a kernel."""
CHOICES, WORTH = 4, 1.12
"""Candidates that are timed of a scheme and size, and predicted seconds over the first choice's up to which one is."""
RIVAL = "cublas-sgemm"
VERIFY_SECONDS = 900.0


@dataclass
class Kernel:
    """One of the reference set.

    Attributes:
        tried: (candidate, what came of it), the first choice first.
        verified: of the chosen one, whether it passed every check, and in words.
        rival: seconds of the vendor's own; None where it was not timed.
    """

    scheme: str
    size: Size
    tried: list[tuple[Proposed, Columns]] = field(default_factory=list)
    reason: str = ""
    verified: tuple[bool, str] | None = None
    rival: float | None = None

    @property
    def name(self) -> str:
        return f"{self.scheme}_{'x'.join(map(str, self.size))}"

    @property
    def best(self) -> tuple[Proposed, Columns] | None:
        """The fastest that is right; where nothing was timed, the first that was compiled."""
        good = [one for one in self.tried if one[1]["verdict"] in ("timed", "compiled", "right")]
        return min(good, key=lambda one: one[1].get("seconds") or 0.0, default=None)

    @property
    def first(self) -> Columns | None:
        """What came of the model's first choice that builds."""
        return next((columns for _, columns in self.tried if columns["verdict"] != "refused"), None)


Begun = tuple[Kernel, list[tuple[Proposed, Future[Any]]]]
"""A kernel, and its candidates on their way through the compiler."""


def measure(session: Session) -> None:
    """Solve, build, verify, time; the specs and the table."""
    if not session.kernels or session.gpu_row not in session.rows:
        session.not_sought["kernels"] = "the reference set solved, built, verified and timed on the rows found"
        return
    machine = session.machine
    timing = machine.kind == "cuda" and vendor_of(machine.arch).checked.timed
    place = str(session.place())
    with Processes() as pool:
        found = solved(place, EMULATED if machine.kind == "emulator" else REFERENCE, CHOICES if timing else 1, pool, session.seed)
        race(found, pool, timing, session.progress)
        verify(found, pool, machine.kind, session.progress)
    keep(session, found, timing)


def solved(gpu: str, reference: Sequence[tuple[str, Sequence[Size]]], choices: int, pool: Processes, seed: int) -> list[Begun]:
    """The kernels, each with its candidates, on their way through the compiler."""
    wanted = [Kernel(scheme, size) for scheme, sizes in reference for size in sizes]
    asked = [
        ({"problem": dict(zip("mnk", one.size)), "split": {"scheme": one.scheme}, "target": {"gpu": gpu}}, one.size, choices, seed, WORTH, True)
        for one in wanted
    ]
    found = []
    for kernel, (kind, answer) in zip(wanted, pool.all("gemmgen.workshop.bringup.sample:proposed", asked)):
        if kind != "value":
            kernel.reason = str(answer)
        begun = [(one, pool.begin("gemmgen.workshop.explore.trial:compiled", Task(one.spec, one.size))) for one in (answer if kind == "value" else [])]
        found.append((kernel, begun))
    return found


def race(found: Sequence[Begun], pool: Processes, timing: bool, progress: Any) -> None:
    """What became of every candidate; timed, one after another, where that counts."""
    rivals: dict[Size, float | None] = {}
    for number, (kernel, begun) in enumerate(found, 1):
        progress(f"kernels: {kernel.name} ({number} of {len(found)})")
        for one, future in begun:
            kind, answer = future.result()
            columns, made = answer if kind == "value" else ({"verdict": "failed", "reason": str(answer)}, b"")
            if made and timing:
                task = Task(one.spec, one.size, made=made, rounds=sample.ROUNDS, slice_ms=sample.SLICE_MS)
                kind, answer = pool.on_gpu("gemmgen.workshop.explore.trial:timed", task)
                columns = {**columns, **(answer if kind == "value" else {"verdict": "failed", "reason": str(answer)})}
            kernel.tried.append((one, columns))
        if timing:
            if kernel.size not in rivals:
                task = Task({}, kernel.size, rival=RIVAL, rounds=sample.ROUNDS, slice_ms=sample.SLICE_MS)
                kind, answer = pool.on_gpu("gemmgen.workshop.explore.trial:timed", task)
                rivals[kernel.size] = answer.get("seconds") if kind == "value" else None
            kernel.rival = rivals[kernel.size]


def verify(found: Sequence[Begun], pool: Processes, device: str, progress: Any) -> None:
    """`gemmgen verify` of every chosen kernel, each once."""
    begun: dict[str, Any] = {}
    for number, (kernel, _) in enumerate(found, 1):
        if kernel.best is None:
            continue
        one, columns = kernel.best
        if columns["identity"] not in begun:
            progress(f"verify: {kernel.name} ({number} of {len(found)})")
            args = "gemmgen.workshop.bringup.kernels:verified", one.spec, device
            begun[columns["identity"]] = pool.begin(*args, seconds=VERIFY_SECONDS) if device == "emulator" else pool.on_gpu(*args, seconds=VERIFY_SECONDS)
    for kernel, _ in found:
        if kernel.best is not None:
            answer = begun[kernel.best[1]["identity"]]
            kind, value = answer.result() if isinstance(answer, Future) else answer
            kernel.verified = value if kind == "value" else (False, f"{kind}: {value}")


def verified(spec: Mapping[str, Any], device: str) -> tuple[bool, str]:
    """Whether a kernel passes every check of `gemmgen verify`, and in words what did not."""
    from gemmgen import road

    report = road.verify(dict(spec), device=device)
    failed = [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]
    error = f", error {report.errors.relative_frobenius:.2g}" if report.errors else ""
    return report.passed, f"{len(report.checks)} checks{error}" if report.passed else "; ".join(failed) or report.unverified


# ---- what is kept


def keep(session: Session, found: Sequence[Begun], timing: bool) -> None:
    """Specs, values and the table of the report."""
    kernels = [kernel for kernel, _ in found]
    for kernel in kernels:
        name = f"kernel {kernel.name}"
        if kernel.best is None or not (kernel.verified and kernel.verified[0]):
            reason = kernel.verified[1] if kernel.verified else kernel.reason or "; ".join(columns["reason"] for _, columns in kernel.tried)
            session.values.append(Value(name, None, reason, "not found" if kernel.tried else "told"))
            continue
        one, columns = kernel.best
        session.rows[f"specs/{kernel.name}.toml"] = spec_text(one.spec, session, columns)
        seconds = columns.get("seconds")
        how = f"verified: {kernel.verified[1]}" + (f"; {columns['rounds']} rounds" if seconds else "; not timed")
        proof = f"spread {100 * columns['spread']:.1f} %" if seconds else ""
        session.put(Value(name, round(seconds * 1e6, 3) if seconds else "verified", how, proof=proof, tolerance=0.1))
    session.sections.append(("The reference set", table(kernels, timing)))


def table(kernels: Sequence[Kernel], timing: bool) -> str:
    """The ranked table: sizes in turn, of each the fastest first."""
    if not timing:
        lines = ["Not timed: this device has no times that count. Solved, built and verified:", "", "| kernel | chosen | verified |", "| --- | --- | --- |"]
        return "\n".join(lines + [f"| {one.name} | {_chosen(one)} | {_verified(one)} |" for one in kernels])
    lines = [
        "Of each scheme and size the fastest of the model's first choice and others that it holds nearly as fast, beside the vendor's SGEMM;"
        " ranked by time at each size.", "",
        "| size | scheme | us | TFLOP/s | over SGEMM | first choice over it | predicted over measured | error | kernel | verified |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for size in sorted({kernel.size for kernel in kernels}, key=lambda size: (float(np.prod(size)), size)):
        mine = [one for one in kernels if one.size == size]
        for one in sorted(mine, key=lambda kernel: (kernel.best[1].get("seconds") if kernel.best else None) or np.inf):
            lines.append(f"| {'x'.join(map(str, size))} | {one.scheme} | {_timed(one)} | {_chosen(one)} | {_verified(one)} |")
        rival = mine[0].rival
        if rival:
            lines.append(f"| {'x'.join(map(str, size))} | {RIVAL} | {rival * 1e6:.4g} | {2e-12 * np.prod(size, dtype=float) / rival:.4g} | 1 | | | | | |")
    return "\n".join(lines)


def _timed(one: Kernel) -> str:
    if one.best is None or not one.best[1].get("seconds"):
        return "not timed | | | | |"
    proposed, columns = one.best
    seconds, first = columns["seconds"], one.first.get("seconds") if one.first else None
    parts = [f"{seconds * 1e6:.4g}", f"{2e-12 * np.prod(one.size, dtype=float) / seconds:.4g}", f"{one.rival / seconds:.2f}" if one.rival else "",
             f"{first / seconds:.3f}" if first else "", f"{proposed.seconds / seconds:.2f}", f"{columns['error']:.2g}"]
    return " | ".join(parts)


def _chosen(one: Kernel) -> str:
    if one.best is None:
        return one.reason or "; ".join(dict.fromkeys(columns["reason"] for _, columns in one.tried)) or "none fits the GPU"
    return f"`{one.best[1]['kernel']}`"


def _verified(one: Kernel) -> str:
    if one.verified is None:
        return ""
    return one.verified[1] if one.verified[0] else f"FAILED: {one.verified[1]}"


def spec_text(spec: Mapping[str, Any], session: Session, columns: Columns) -> str:
    """A chosen kernel's spec, from its folder on."""
    measured = f", {columns['seconds'] * 1e6:.4g} us on {session.machine.name}" if columns.get("seconds") else ""
    lines = [f"# {columns['kernel']}: chosen by gemmgen gpu probe{measured}."]
    for section, values in spec.items():
        lines += ["", f"[{section}]"]
        for name, value in values.items():
            lines.append(f"{name} = {toml_values.told(f'../{session.gpu_row}' if (section, name) == ('target', 'gpu') else value)}")
    return "\n".join(lines) + "\n"
