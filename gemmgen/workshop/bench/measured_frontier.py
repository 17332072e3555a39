"""The measured frontier: every scheme's error and time on one GPU, beside rivals, which no other beats, and whether a contract on the error chose well.

`solve/frontier.py` predicts it; here it runs. Each scheme takes part with its fastest plan at each interval of promotion that is worth
running. Errors are of three kinds of data, times of one interleaved race on U[-1, 1]. On data that a scheme's words do not hold it has no
error here: kernels compute such elements again in FP32, which is right, and takes far longer than what was raced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf, isfinite
from typing import Any

import numpy as np

from gemmgen import timing
from gemmgen.build import Built
from gemmgen.errors import SpecError
from gemmgen.model.accuracy import SPREAD, TOLD
from gemmgen.solve.contract import EVERYWHERE, Contract
from gemmgen.solve.frontier import Point
from gemmgen.timing import gemmul8
from gemmgen.timing.gemmul8 import Gemmul8
from gemmgen.workshop.bench import measure
from gemmgen.workshop.bench.race_table import by
from gemmgen.workshop.bench.statistics import F16_THIRD, SGEMM, Interval, Size, Timed, derived, paired

DRAWN: dict[str, dict[str, Any]] = {"spread": {"octaves": SPREAD}, "positive": {"low": 0.0, "high": 1.0}, "uniform": {}}
"""How a GPU draws each kind of data that `as` speaks of. The last one is raced on."""
RIVALS = (SGEMM, F16_THIRD, "cublas-int8/8", "triton-tf32x3", "triton-bf16x6")
SLOWER = 1.05
"""The most that a contract's choice may take, over the fastest that gives what is asked."""


@dataclass(frozen=True)
class Candidate:
    """A scheme with an interval of promotion, to run.

    Attributes:
        point: what was predicted of it.
        built: its kernel.
    """

    point: Point
    built: Built


@dataclass(frozen=True)
class Entry:
    """What was measured of a scheme, or of a rival.

    Attributes:
        name: `scaled, 64`, or the rival's.
        kind: `kernel`, `rival`, or `derived` from another's time.
        rounds: seconds of one product, a figure a round.
        errors: relative Frobenius, by data; NaN where C is not finite. None on data that the scheme's words do not hold.
        scaled: the largest |C - C*| / (|A||B|), by data.
        predicted: (seconds, relative Frobenius by data) of the model; None of rivals.
        detail: the kernel's name, or the rival's configuration.
    """

    name: str
    kind: str
    rounds: tuple[float, ...]
    errors: Mapping[str, float]
    scaled: Mapping[str, float]
    predicted: tuple[float, Mapping[str, float]] | None = None
    detail: str = ""

    @property
    def seconds(self) -> float:
        return float(np.median(self.rounds))

    def error(self, data: str) -> float:
        """Infinite where there is none."""
        value = self.errors.get(data, inf)
        return value if isfinite(value) else inf


@dataclass(frozen=True)
class Verdict:
    """Whether a contract's choice is right, by what was measured.

    Attributes:
        asked: in words.
        picked: the choice's name.
        excess: of each kind of data, its error over the one allowed: cuBLAS SGEMM's of the same run for `as = "fp32"`.
        meeting: names of all schemes that give what is asked, the fastest first.
        slower: the choice's time over that of the fastest of them: the median of the paired rounds and its 95 % interval; None where none does.
    """

    asked: str
    picked: str
    excess: Mapping[str, float]
    meeting: tuple[str, ...]
    slower: tuple[float, Interval] | None

    @property
    def kept(self) -> bool:
        """The error is no more than allowed, and the time is within 5 % of the fastest that gives it."""
        return all(ratio <= 1 for ratio in self.excess.values()) and self.slower is not None and self.slower[0] <= SLOWER

    @property
    def text(self) -> str:
        errs = ", ".join(f"{ratio:.2f} on {TOLD[name]}" for name, ratio in self.excess.items())
        if self.slower is None:
            fastest = "no scheme gives what is asked"
        else:
            ratio, (low, high) = self.slower
            fastest = f"its time {ratio:.3f} ({low:.3f}-{high:.3f}) of that of {self.meeting[0]}, the fastest that gives what is asked"
        return f"contract {self.asked}: picks {self.picked}: error over that allowed {errs}; {fastest}: {'kept' if self.kept else 'NOT KEPT'}"


@dataclass(frozen=True)
class SizeFrontier:
    """One size.

    Attributes:
        entries: by time.
        verdict: None where the contract's choice did not run, or there is nothing to hold it against.
    """

    size: Size
    entries: tuple[Entry, ...]
    verdict: Verdict | None

    def beaten(self, entry: Entry, data: str) -> str:
        """Another that is as fast and errs as little on a kind of data, and is better in one; empty where there is none. Derived lines beat none."""
        for other in self.entries:
            at, its = (other.seconds, other.error(data)), (entry.seconds, entry.error(data))
            if other.kind != "derived" and at != its and at[0] <= its[0] and at[1] <= its[1]:
                return other.name
        return ""

    def best_on(self, entry: Entry) -> tuple[str, ...]:
        """The kinds of data on which no other beats it."""
        return tuple(data for data in EVERYWHERE if entry.error(data) < inf and not self.beaten(entry, data))

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        entries = [
            asdict(entry) | {"seconds": entry.seconds, "beaten_by": {data: self.beaten(entry, data) for data in EVERYWHERE if entry.errors}}
            for entry in self.entries
        ]
        return {"size": list(self.size), "entries": entries, "contract": self.verdict and asdict(self.verdict) | {"kept": self.verdict.kept}}


@dataclass(frozen=True)
class Frontiers:
    """A run's outcome."""

    device: str
    environment: Mapping[str, str]
    sizes: tuple[SizeFrontier, ...]
    notes: tuple[str, ...] = ()

    @property
    def kept(self) -> bool:
        """Whether the contract's choice was right at every size where it was judged."""
        return all(one.verdict.kept for one in self.sizes if one.verdict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "device": self.device, "environment": dict(self.environment), "sizes": [one.as_dict() for one in self.sizes], "notes": list(self.notes),
        }


def from_json(text: str, place: str = "JSON") -> Frontiers:
    """What `Frontiers.as_dict` became as JSON.

    Raises:
        SpecError: it is something else.
    """
    try:
        flat = json.loads(text)
        return Frontiers(flat["device"], flat["environment"], tuple(_size_from(one) for one in flat["sizes"]), tuple(flat["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(place, "is not what gemmgen bench --frontier wrote", got=f"{type(error).__name__}: {error}", needs="its frontier.json",
                        remedy="gemmgen bench SPEC --frontier --out DIR writes DIR/frontier.json") from None


def _size_from(flat: Mapping[str, Any]) -> SizeFrontier:
    def figures(of: Mapping[str, float | None]) -> dict[str, float]:
        return {name: inf if value is None else float(value) for name, value in of.items()}  # JSON has no Inf and no NaN

    entries = tuple(
        Entry(
            str(one["name"]), str(one["kind"]), tuple(map(float, one["rounds"])), figures(one["errors"]), figures(one["scaled"]),
            one["predicted"] and (float(one["predicted"][0]), figures(one["predicted"][1])), str(one["detail"]),
        )
        for one in flat["entries"]
    )
    verdict, m, n, k = flat["contract"], *map(int, flat["size"])
    return SizeFrontier((m, n, k), entries, verdict and Verdict(
        verdict["asked"], verdict["picked"], figures(verdict["excess"]), tuple(verdict["meeting"]),
        verdict["slower"] and (float(verdict["slower"][0]), (float(verdict["slower"][1][0]), float(verdict["slower"][1][1]))),
    ))


# ---- judging


def judged(entries: Sequence[Entry], size: Size, asked: Contract, picked: str) -> SizeFrontier:
    """Order them by time, and hold the contract's choice against what was measured.

    Args:
        picked: the choice's name; empty where there is none.
    """
    entries = sorted(entries, key=lambda entry: entry.seconds)
    choice = next((entry for entry in entries if entry.name == picked), None)
    sgemm = next((entry for entry in entries if entry.name == SGEMM), None)
    if choice is None or (asked.asked == "fp32" and sgemm is None):
        return SizeFrontier(size, tuple(entries), None)

    def excess(entry: Entry) -> dict[str, float]:
        most = {name: sgemm.error(name) if sgemm and asked.asked == "fp32" else asked.most(name) for name in asked.data}
        if asked.key == "scaled":
            return {name: value / most[name] if isfinite(value) else inf for name, value in entry.scaled.items() if name in most}
        return {name: entry.error(name) / most[name] for name in most}

    meeting = [entry for entry in entries if entry.kind == "kernel" and all(ratio <= 1 for ratio in excess(entry).values())]
    slower = paired(np.array(choice.rounds), np.array(meeting[0].rounds)) if meeting else None
    verdict = Verdict(asked.text, picked, excess(choice), tuple(entry.name for entry in meeting), slower)
    return SizeFrontier(size, tuple(entries), verdict)


# ---- running


@dataclass
class _Field:
    """What one size's contenders have shown so far."""

    candidates: Sequence[Candidate]
    against: Sequence[str]
    libraries: Sequence[tuple[Gemmul8, gemmul8.Shim]]
    triton: Any
    note: Callable[[str], None]
    errors: dict[str, dict[str, timing.Accuracy]] = field(default_factory=dict)

    def contenders(self, inputs: timing.Inputs) -> list[tuple[str, timing.Contender]]:
        """(kind, contender) of all that can run at this size."""
        kernels = [
            (one.point.told, partial(timing.generated, one.point.told, one.built.plan, one.built.source, one.built.binary, inputs)) for one in self.candidates
        ]
        rivals = measure.product_rivals(self.against, self.triton, self.libraries, inputs)
        return measure.made("rival", rivals, inputs.size, self.note) + measure.made("kernel", kernels, inputs.size, self.note)

    def judge(self, contenders: Sequence[tuple[str, timing.Contender]], inputs: timing.Inputs, data: str) -> None:
        """The errors of all on a kind of data."""
        reference = timing.Reference(inputs)
        beyond = {one.point.told for one in self.candidates if one.point.errors[data] == inf}
        for _, contender in contenders:
            if contender.judged and contender.name not in beyond:
                self.errors.setdefault(contender.name, {})[data] = reference.accuracy(contender)


def run(
    fields: Mapping[Size, tuple[Sequence[Candidate], Contract, str]], *, against: Sequence[str] = RIVALS, rounds: int = 9, slice_ms: float = 10.0,
    seconds: float | None = None, libraries: Sequence[Gemmul8] = (), notes: Sequence[str] = (), progress: Callable[[str], None] = lambda text: None,
    measured: Callable[[Frontiers], None] = lambda found: None,
) -> Frontiers:
    """Measure the frontier at each size.

    Args:
        fields: of each size (m, n, k): what to run, what is asked of the error, and the name of the contract's choice.
        against: names of BASELINES.
        rounds, slice_ms, seconds, libraries, notes, progress: as of `bench.bench`.
        measured: is given what there is so far, after each size.

    Raises:
        DeviceError: no CUDA GPU, it cannot run one of the kernels, or nothing could be measured.
        SpecError, BuildError: a library is not there, or cannot be called.
    """
    for candidates, _, _ in fields.values():
        for one in candidates:
            measure.require_timed(one.built.plan, "bench --frontier")
    note = measure.Notes(notes)
    opened, triton = measure.opened(libraries, progress), measure.compiled_triton(against, list(fields), progress, note)

    def at(found: Frontiers, size: Size, left: Callable[[], float | None], warm_up: float) -> Frontiers:
        candidates, asked, picked = fields[size]
        entries = _entries(_Field(candidates, against, opened, triton, note), size, left, rounds, slice_ms, warm_up)
        return replace(found, sizes=(*found.sizes, judged(entries, size, asked, picked)))

    found = Frontiers(timing.device_name(), measure.environment(), (), tuple(note))
    return measure.each({by(size): size for size in fields}, found, at, note=note, seconds=seconds, progress=progress, measured=measured)


def _entries(
    field_: _Field, size: Size, left: Callable[[], float | None], rounds: int, slice_ms: float, warm_up: float,
) -> list[Entry]:
    """One size: errors of all on every kind of data, then the race."""
    contenders: list[tuple[str, timing.Contender]] = []
    with timing.refusals():
        for data, drawn in DRAWN.items():
            contenders.clear()
            timing.release_memory()
            inputs = timing.Inputs(size, **drawn, b=measure.type_of_b([one.built.plan for one in field_.candidates]))
            contenders = field_.contenders(inputs)
            field_.judge(contenders, inputs, data)
    timing.race([one for _, one in contenders], rounds=rounds, slice_ms=slice_ms, warm_up=warm_up, seconds=left())
    points = {one.point.told: one.point for one in field_.candidates}
    timed = derived([Timed(one.name, kind, np.array(one.seconds), one.detail) for kind, one in contenders], field_.against)
    return [
        Entry(
            one.name, one.kind, tuple(map(float, one.seconds)), {data: of.relative_frobenius for data, of in field_.errors.get(one.name, {}).items()},
            {data: of.scaled for data, of in field_.errors.get(one.name, {}).items()},
            (points[one.name].seconds, points[one.name].errors) if one.name in points else None, one.detail,
        )
        for one in timed
    ]


# ---- telling


def as_text(found: Frontiers) -> str:
    """A table for each size, by time; what no other beats is marked for each kind of data, and the contract's verdict follows."""
    told = ", ".join(f"{key} {value}" for key, value in found.environment.items())
    lines = [
        f"device  {found.device}" + (f"; {told}" if told else ""),
        "every scheme with the promotions worth running; times of one interleaved race on U[-1, 1], total with the split pass; relative Frobenius errors",
        f"against FP64 on {timing.REFERENCE_ROWS} rows, * where nothing as fast errs as little; x f16/3: speed against three products of cublas-f16;",
        "predicted: time and error on U[-1, 1] over what was measured",
    ]
    for one in found.sizes:
        base = {entry.name: np.array(entry.rounds) for entry in one.entries}
        m, n, k = one.size
        head = ("", "us", "TFLOP/s", "x SGEMM", "x f16/3", *(TOLD[data] for data in EVERYWHERE), "predicted us", "error")
        rows = [head]
        for entry in one.entries:
            seconds, best = entry.seconds, one.best_on(entry)
            rows.append((
                entry.name, f"{1e6 * seconds:.1f}", f"{2e-12 * m * n * k / seconds:.1f}",
                *(f"{paired(base[name], np.array(entry.rounds))[0]:.2f}" if name in base else "" for name in (SGEMM, F16_THIRD)),
                *(_error(entry, data) + ("*" if data in best else " ") for data in EVERYWHERE),
                *((f"{entry.predicted[0] / seconds:.2f}", _ratio(entry)) if entry.predicted else ("", "")),
            ))
        widths = [max(len(row[at]) for row in rows) for at in range(len(head))]
        lines += ["", by(one.size)]
        lines += ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip() for row in rows]
        lines += [one.verdict.text] if one.verdict else []
    return "\n".join([*lines, *(f"note: {note}" for note in found.notes)])


def _error(entry: Entry, data: str) -> str:
    return "" if not entry.errors else f"{entry.error(data):.1e}" if entry.error(data) < inf else "not finite" if data in entry.errors else "out of range"


def _ratio(entry: Entry) -> str:
    """Of the predicted error over the measured one."""
    assert entry.predicted
    of, measured_ = entry.predicted[1].get("uniform", inf), entry.error("uniform")
    return f"{of / measured_:.2f}" if of < inf and 0 < measured_ < inf else ""
