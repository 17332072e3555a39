"""Rows as T4 results, and T4 results as rows.

T4 is the common format of auto-tuning results (https://github.com/odgaard/TuningSchema, results-schema.json, version 1.0.0), as Kernel Tuner writes it. A
result has a configuration, a validity, times and measurements. It knows no GPU, size or kernel of its own: these stand in the configuration of files that
gemmgen writes, and have to be told of others.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gemmgen import __version__, files
from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.store.reader import Store
from gemmgen.workshop.explore.store.writer import Writer
from gemmgen.workshop.explore.trial_row import VERDICTS, Row, row_from, told

VERSION = "1.0.0"
MOST_BYTES = 1 << 29
"""Of a file that is imported."""

INVALIDITY = {
    "timed": "correct", "right": "correct", "refused": "constraints", "wrong": "correctness", "hung": "timeout", "died": "runtime", "failed": "runtime",
}
"""T4's word for a verdict. Trials that were only modelled or compiled have none, and are not exported."""
VERDICT = {"correct": "timed", "constraints": "refused", "compile": "refused", "correctness": "wrong", "timeout": "hung", "runtime": "failed"}
UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanoseconds": 1e-9}

CONFIGURATION = (
    "kind", "kernel", "gpu", "m", "n", "k", "layout", "scheme", "promote", "sums", "policy", "design", "block", "warp", "stages", "split_k", "compiler", "data",
)
"""Columns that say what was tried."""
TIMES = {"compilation_time": "compile_seconds", "search_algorithm": "solve_seconds", "validation": "judge_seconds", "benchmark": "time_seconds"}
"""T4's times of a trial's parts. Kernel Tuner writes `compilation` where the schema has `compilation_time`."""
_KINDS = {one.name: str(one.type).partition(" | ")[0] for one in fields(Row)}
_ELSEWHERE = {*CONFIGURATION, *TIMES.values(), "at", "seconds"}
_REQUIRED = {"gpu": str, "m": int, "n": int, "k": int, "layout": str}


def t4_result(row: Row) -> dict[str, Any]:
    """A row whose verdict is one of INVALIDITY as a T4 result. Times are in milliseconds."""
    values = row.as_dict()
    times = {name: 1e3 * values[column] for name, column in TIMES.items() if values[column] is not None}
    measured = [{"name": "time", "value": 1e3 * row.seconds, "unit": "ms"}] if row.seconds is not None else []
    defaults = {one.name: one.default for one in fields(Row)}
    for name, value in values.items():
        if name not in _ELSEWHERE and value is not None and value != defaults[name] and (not isinstance(value, float) or math.isfinite(value)):
            unit = {"seconds": "s", "bytes": "B", "mhz": "MHz", "w": "W"}.get(name.rpartition("_")[2], "B" if name == "spills" else "")
            measured.append({"name": name, "value": value, "unit": unit})
    compiled = row.verdict == "refused" and row.compile_seconds is not None
    return {
        "timestamp": row.at.isoformat(), "configuration": {name: values[name] for name in CONFIGURATION}, "objectives": ["time"],
        "times": {**times, "runtimes": [1e3 * row.seconds] if row.seconds is not None else []},
        "invalidity": "compile" if compiled else INVALIDITY[row.verdict], "correctness": int(INVALIDITY[row.verdict] == "correct"), "measurements": measured,
    }


def export_file(store: Store, path: Path) -> int:
    """Write a store's trials to a T4 file, and tell how many. Those that were only modelled or compiled have no word in T4, and are left out.

    Raises:
        GemmgenError: the store cannot be read, or the file not be written.
    """
    rows = [row for row in store.rows() if row.verdict in INVALIDITY]
    metadata = {"autotuner": "gemmgen", "autotuner_version": __version__, "timeunit": "milliseconds"}
    if len(devices := {row.device or row.gpu for row in rows}) == 1:
        metadata["device"] = devices.pop()
    content = {"schema_version": VERSION, "metadata": metadata, "results": [t4_result(row) for row in rows]}
    try:
        with files.unfinished(path) as beside:
            beside.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
            beside.replace(path)
    except OSError as error:
        raise GemmgenError(str(path), "cannot be written", got=error.strerror, needs="a writable place with room", remedy="another file") from None
    return len(rows)


def import_file(path: Path, store: str | Path, facts: Mapping[str, str] | None = None) -> int:
    """Add a T4 file's results to a store, all of them or none, and tell how many.

    Args:
        facts: what the file does not say, by column: m, gpu, kernel, ...

    Raises:
        GemmgenError: the file is no T4 file, or has or lacks what a row cannot hold or needs.
    """
    rows = list(t4_rows(path, facts or {}))
    with Writer(store, batch_rows=10_000, batch_seconds=math.inf) as writer:
        for row in rows:
            writer.add(row)
    return len(rows)


def t4_rows(path: Path, facts: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a T4 file; as `import_file`."""
    try:
        content = json.loads(files.read(path, MOST_BYTES))
    except OSError as error:
        raise GemmgenError(str(path), "cannot be read", got=error.strerror or str(error), needs="a T4 file") from None
    except (ValueError, RecursionError) as error:
        raise GemmgenError(str(path), "is not JSON", got=str(error), needs="a T4 file: an object with results") from None
    given = {name: _fact(name, value) for name, value in facts.items()}
    content = _a(content, dict, str(path), "an object with results")
    version = _a(content.get("schema_version", VERSION), str, f"{path}: schema_version", "a version such as 1.0.0")
    if version.partition(".")[0] != "1":
        raise GemmgenError(f"{path}: schema_version", "is not one that gemmgen reads", got=version, needs="1.x of the T4 results schema")
    metadata = _a(content.get("metadata", {}), dict, f"{path}: metadata", "an object")
    results = _a(content.get("results"), list, f"{path}: results", "a list")
    for at, result in enumerate(results):
        yield _row(f"{path}: results[{at}]", _a(result, dict, f"{path}: results[{at}]", "an object"), metadata, given, path.stem)


def _row(where: str, result: dict[str, Any], metadata: dict[str, Any], given: Mapping[str, Any], stem: str) -> Row:
    configuration = _a(result.get("configuration"), dict, f"{where}.configuration", "an object")
    times = _a(result.get("times"), dict, f"{where}.times", "an object")
    invalidity = result.get("invalidity")
    if not isinstance(invalidity, str) or invalidity not in VERDICT:
        raise GemmgenError(f"{where}.invalidity", "is none of T4's", got=invalidity, needs=", ".join(VERDICT))
    if not _is_number(result.get("correctness")):
        raise GemmgenError(f"{where}.correctness", "is not a number", got=result.get("correctness"), needs="1, or less where the result is not correct")
    values: dict[str, Any] = {"study": stem, "kind": "rival", "kernel": stem, "verdict": VERDICT[invalidity]}
    if result["correctness"] < 1 and invalidity == "correct":
        raise GemmgenError(f"{where}.correctness", "contradicts invalidity", got=result["correctness"], needs="1 where invalidity is 'correct'")
    if "device" in metadata:
        values["device"] = _a(metadata["device"], str, "metadata.device", "a name")
    other, seconds = {}, None
    for at, one in enumerate(_a(result.get("measurements", []), list, f"{where}.measurements", "a list")):
        place = f"{where}.measurements[{at}]"
        one = _a(one, dict, place, "an object")
        name = _a(one.get("name"), str, f"{place}.name", "a name")
        if name == "time":
            seconds = _seconds(place, one.get("value"), one.get("unit") or metadata.get("timeunit"), invalidity)
        elif name in _KINDS and name not in _ELSEWHERE and _fits(name, one.get("value")):
            values[name] = one["value"]
        else:
            other[name] = one.get("value")
    if values["verdict"] not in VERDICTS:
        raise GemmgenError(f"{where}.measurements", "have a verdict that is none", got=values["verdict"], needs=", ".join(VERDICTS))
    unit = metadata.get("timeunit") or "ms"  # as Kernel Tuner has it, whose files do not say
    if seconds is None and invalidity == "correct" and (runtimes := _a(times.get("runtimes", []), list, f"{where}.times.runtimes", "a list")):
        seconds = statistics.median(_seconds(f"{where}.times.runtimes", one, unit, invalidity) or 0.0 for one in runtimes)
    for name, column in TIMES.items():
        value = times.get(name, times.get("compilation") if name == "compilation_time" else None)
        if value is not None:
            values[column] = _seconds(f"{where}.times.{name}", value, unit, "correct")
    values |= {name: value for name, value in configuration.items() if name in CONFIGURATION and _fits(name, value)} | given
    for name, kind in _REQUIRED.items():
        if not isinstance(values.get(name), kind) or isinstance(values[name], bool) or (kind is int and values[name] < 0):
            raise GemmgenError(f"{where}.configuration", f"does not tell {name}, which a row needs", got=configuration.get(name),
                               needs=f"{name} as {'a whole number' if kind is int else 'text'}", remedy=f"--with {name}=...")
    if values["verdict"] == "timed" and seconds is None:
        values["verdict"] = "right"
    own = {name: value for name, value in configuration.items() if name not in CONFIGURATION}
    if own:
        values["decided"] = told(own)
    if other:
        values["extra"] = told({"t4": other})
    if "trial" not in values:
        key = told({"values": {name: values.get(name) for name in (*CONFIGURATION, "device")}, "own": own})
        values["trial"] = hashlib.sha256(key.encode()).hexdigest()[:16]
    return row_from({**values, "seconds": seconds, "at": _time(f"{where}.timestamp", result.get("timestamp"))})


def _a(value: Any, kind: type, where: str, needs: str) -> Any:
    """A value of that type."""
    if not isinstance(value, kind):
        raise GemmgenError(where, "is missing" if value is None else "is of another type", got=value, needs=needs)
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fits(name: str, value: Any) -> bool:
    """Whether a column holds such a value."""
    kind = _KINDS[name]
    if kind == "str":
        return isinstance(value, str)
    if kind == "int":
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63
    return _is_number(value) and abs(value) <= sys.float_info.max  # which an integer may exceed


def _seconds(where: str, value: Any, unit: Any, invalidity: str) -> float | None:
    """A time in seconds; None for what tuners write where there was none."""
    if not _is_number(value) or not 0 <= value <= sys.float_info.max:
        if invalidity == "correct":
            raise GemmgenError(where, "is not a time", got=value, needs="a finite number that is not negative, since the result is correct")
        return None
    if not isinstance(unit, str) or unit not in UNITS:
        raise GemmgenError(where, "has no unit of time", got=unit, needs=f"a unit, or the file's metadata.timeunit: {', '.join(UNITS)}")
    return value * UNITS[unit]


def _time(where: str, value: Any) -> datetime:
    """A timestamp; of one without a zone, UTC's. Now where there is none."""
    if value is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(_a(value, str, where, "a time of ISO 8601"))
    except ValueError:
        raise GemmgenError(where, "is not a time", got=value, needs="a time of ISO 8601, such as 2026-01-31 23:59:59+00:00") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _fact(name: str, value: str) -> Any:
    """What somebody told of all results, as its column holds it."""
    kind = _KINDS.get(name)
    if kind not in ("str", "int", "float"):
        raise GemmgenError(f"--with {name}", "is no column of a trial", got=value, needs=", ".join(name for name, kind in _KINDS.items() if kind != "datetime"))
    try:
        found = {"str": str, "int": int, "float": float}[kind](value)
    except ValueError:
        found = None
    if not _fits(name, found):
        raise GemmgenError(f"--with {name}", "is not a number", got=value, needs=f"{name} as {'a whole number' if kind == 'int' else 'a finite number'}")
    return found
