"""What is kept of a trial: one row of the store, and how it stands in Parquet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

SCHEMA_VERSION = 1

VERDICTS = {
    "modelled": "the model's figures alone; nothing was compiled",
    "refused": "the compiler, or an inequality, refuses the kernel",
    "compiled": "compiled, and its resources are the predicted ones; not run",
    "right": "judged right; not timed, since no GPU was there",
    "timed": "judged right, and timed",
    "wrong": "judged, and not right",
    "hung": "it took longer than a trial may take",
    "died": "the process of the trial ended, or the GPU's context with it",
    "failed": "another error, named by the reason",
}
"""How a trial ended. Only rows that are `timed` have a measured time."""


@dataclass(frozen=True)
class Row:
    """One trial: a kernel on a GPU at a size.

    Attributes:
        study: the study's name.
        trial: of what was tried: equal for the same kernel, GPU, compiler, size and data, so that a study goes on where it stopped.
        kind: `kernel`, `reference` (the study's own yardstick on that GPU), `rival` (cuBLAS and others, by `kernel`), or `space` (no trial: what
            the model rejects of the study's candidates on that GPU, by inequality, as `rejected` in `extra`).
        verdict: one of VERDICTS.
        reason: why, where the verdict is not a good one: an error's problem, got and needs.
        at: when it ended, UTC.
        writer: the process that wrote it, unlike all others.
        generator, commit: version of gemmgen, and the commit of its tree where that is known.
        spec: the candidate's spec, JSON.
        decided: the design's decisions by name, JSON (`Plan.decided`).
        identity: the plan's hash; launches: hash of the launch facts (grid, threads, shared memory, parameters).
        kernel: the kernel's name, or the rival's.
        block, warp: the tiles as text, such as `128x128x32`; empty where there are none.
        gpu: name of the row under specs/gpus; device, uuid, driver: of the GPU that ran it.
        compiler: its name and version.
        m, n, k, layout: the problem. data: what inputs were drawn from, such as `U[-1, 1]`.
        predicted_registers, registers, spills (bytes), shared_bytes, blocks_per_sm: resources.
        predicted_seconds, seconds: of one product with all its passes; seconds is the median of `rounds`.
        spread: interquartile range over the median.
        reference_seconds: of the study's reference kernel, measured beside it on that GPU; a slow or hot card shows in it.
        predicted_error, error: relative Frobenius, ||C - C*|| / ||C*||; scaled: max |C - C*| / (|A||B|).
        clock_mhz, power_w: medians while it ran.
        solve_seconds, compile_seconds, judge_seconds, time_seconds: what the trial's parts took.
        extra: anything else, JSON.
    """

    study: str
    trial: str
    kind: str
    verdict: str
    kernel: str
    gpu: str
    m: int
    n: int
    k: int
    layout: str
    reason: str = ""
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    writer: str = ""
    generator: str = ""
    commit: str = ""
    spec: str = "{}"
    decided: str = "{}"
    identity: str = ""
    launches: str = ""
    scheme: str = ""
    promote: int = 0
    sums: str = ""
    policy: str = ""
    design: str = ""
    block: str = ""
    warp: str = ""
    stages: int = 0
    split_k: int = 1
    device: str = ""
    uuid: str = ""
    driver: str = ""
    compiler: str = ""
    data: str = ""
    predicted_registers: int | None = None
    registers: int | None = None
    spills: int | None = None
    shared_bytes: int | None = None
    blocks_per_sm: int | None = None
    predicted_seconds: float | None = None
    seconds: float | None = None
    spread: float | None = None
    rounds: int | None = None
    reference_seconds: float | None = None
    predicted_error: float | None = None
    error: float | None = None
    scaled: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    solve_seconds: float | None = None
    compile_seconds: float | None = None
    judge_seconds: float | None = None
    time_seconds: float | None = None
    extra: str = "{}"

    @property
    def tflops(self) -> float | None:
        """2 m n k / seconds / 1e12."""
        return 2e-12 * self.m * self.n * self.k / self.seconds if self.seconds else None

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("m", "n", "k", "promote", "stages", "split_k"), (0, 2**31 - 1)),
    **dict.fromkeys(("predicted_registers", "registers", "spills", "shared_bytes", "blocks_per_sm", "rounds"), (0, 2**31 - 1)),
    **dict.fromkeys(("predicted_seconds", "seconds", "reference_seconds"), (1e-12, 1e9)),
    **dict.fromkeys(("spread", "clock_mhz", "power_w", "solve_seconds", "compile_seconds", "judge_seconds", "time_seconds"), (0.0, 1e9)),
    **dict.fromkeys(("predicted_error", "error", "scaled"), (0.0, inf)),
}
"""The least and the greatest value that a number of a row can have. NaN is within no limits."""
ERRORS = ("predicted_error", "error", "scaled")
"""Columns whose impossible values count as infinite: an error that is not a number is no small one. Of other columns they count as absent."""


def possible(column: str, value: float | None) -> bool:
    """Whether a number lies within its column's limits; an absent one does not."""
    low, high = LIMITS[column]
    return value is not None and low <= value <= high


def row_from(values: Mapping[str, Any]) -> Row:
    """A row of what the store holds; columns of other versions are left out."""
    known = {one.name for one in fields(Row)}
    return Row(**{name: value for name, value in values.items() if name in known})


def told(values: Mapping[str, Any]) -> str:
    """A JSON column of plain data, the same text for the same data."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


_ARROW = {"str": "string", "int": "int64", "float": "float64", "datetime": "timestamp"}


def schema() -> pyarrow.Schema:
    """The columns of the store, in the order of Row's fields; the schema's version is in its metadata."""
    import pyarrow

    kinds = {"string": pyarrow.string(), "int64": pyarrow.int64(), "float64": pyarrow.float64(), "timestamp": pyarrow.timestamp("us", tz="UTC")}
    columns = []
    for one in fields(Row):
        name, optional, _ = str(one.type).partition(" | None")
        columns.append(pyarrow.field(one.name, kinds[_ARROW[name]], nullable=bool(optional)))
    return pyarrow.schema(columns, metadata={"gemmgen_row": str(SCHEMA_VERSION)})
