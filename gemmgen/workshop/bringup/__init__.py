"""From a device that nobody has described to rows that describe it, by launches and memory alone.

`PARTS` has the parts in order, each a file with a function `measure(session)`; the first line of each file says what it finds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.gpu import arch_number, generation
from gemmgen.catalog.unit import UNITS
from gemmgen.workshop.bringup import calibrate, facts, findings, fragments, gpu_row, kernels, launch_limits, rates, unit_row
from gemmgen.workshop.bringup.probe import Machine
from gemmgen.workshop.bringup.session import Session

PARTS: tuple[Callable[[Session], None], ...] = (
    facts.measure, launch_limits.measure, rates.measure, fragments.measure, unit_row.measure, gpu_row.measure, calibrate.measure, kernels.measure,
)
"""In order; a part may read what those before it found."""
REPORT = "report.json"


def instructions_of(arch: str) -> list[Fragment]:
    """Every instruction of the catalog that a target has and whose operands lanes hold."""
    return [row for row in FRAGMENTS.rows() if row.on_matrix_unit and not row.in_tensor_memory and row.runs_on(arch)]


def bring_up(
    machine: Machine, name: str, *, products: int, chosen: Sequence[Fragment] | None = None, seed: int = 0, kernels: int = 0, before: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> tuple[Session, dict[str, Any], dict[str, str]]:
    """Find out what there is to know of a device.

    Args:
        name: of the rows.
        products: random products of proof an instruction.
        chosen: instructions; None for all of the catalog that it has.
        kernels: how many calibrate the models; 0 leaves the calibration and the reference set out.
        before: the JSON report of the last time.
        progress: called with the name of what is done next.

    Returns:
        What was found, the report as plain data, and the files to write by their paths, the reports among them.
    """
    start = time.perf_counter()
    shipped = generation(arch_number(machine.arch))
    session = Session(
        machine, UNITS.get(shipped) if shipped in UNITS.names() else None, name, list(chosen if chosen is not None else instructions_of(machine.arch)),
        products, seed, kernels, progress,
    )
    try:
        for part in PARTS:
            begun = time.perf_counter()
            part(session)
            session.seconds[part.__module__.rpartition(".")[2]] = round(time.perf_counter() - begun, 1)
    finally:
        session.clear()
    told = findings.as_dict(session, time.perf_counter() - start, json.loads(before) if before else None)
    return session, told, {**session.rows, "report.md": findings.markdown(told, session), REPORT: json.dumps(told, indent=1, default=str) + "\n"}
