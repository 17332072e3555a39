"""A program under a library's preload library: its environment, its run, and what its log says.

The preload library reads a handful of environment variables, whose names begin with the library's own; this room sets them. What a program recorded can be
given levels, and the program run again under these: a kernel, an error, or the vendor's own, for each place.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gemmgen.abi import COUNTERS
from gemmgen.errors import GemmgenError
from gemmgen.files import read
from gemmgen.library.shim import Built

MOST_LOG = 1 << 28
"""Bytes of a log, or of a record."""
COUNTED = tuple(field for fields in COUNTERS.values() for field in fields)
"""What a log tells of a call's counters."""


@dataclass(frozen=True)
class Settings:
    """What the preload library is asked for.

    Attributes:
        log: where each process adds what it took and passed on, as JSON lines.
        record: where each call goes, in order, as JSON lines.
        levels: a file of levels.
        largest_error: the expected error that a call's kernel may have where no level says otherwise; 0 is any, None the preload library's own rule.
        min_gain: how many times as fast as the vendor's a call must be predicted to be; 0 takes all that a kernel serves.
        check: read each call's counters, which waits for the GPU.
        frames: of the call stack, how many a place is told by.
        audit: also lead functions here that the program looks up in the vendor's library itself.
    """

    log: Path | None = None
    record: Path | None = None
    levels: Path | None = None
    largest_error: float | None = None
    min_gain: float = 1
    check: bool = False
    frames: int = 1
    audit: bool = True


def environment(built: Built, settings: Settings, base: Mapping[str, str]) -> dict[str, str]:
    """The variables of a program that runs under the preload library, from those it would have without.

    Other libraries that are preloaded stay, behind ours; settings of an earlier run do not.
    """
    def first(path: Path, name: str) -> str:
        others = [one for one in base.get(name, "").replace(" ", ":").split(":") if one and one != str(path)]
        return ":".join([str(path), *others])

    wanted: dict[str, object] = {
        "LOG": settings.log, "RECORD": settings.record, "LEVELS": settings.levels, "LARGEST_ERROR": settings.largest_error,
        "MIN_GAIN": settings.min_gain if settings.min_gain != 1 else None, "CHECK": 1 if settings.check else None,
        "FRAMES": settings.frames if settings.frames != 1 else None,
    }
    own = tuple(f"{built.guard}_{name}" for name in (*wanted, "OFF"))
    return {
        **{name: value for name, value in base.items() if name not in own},
        "LD_PRELOAD": first(built.preload, "LD_PRELOAD"), **({"LD_AUDIT": first(built.audit, "LD_AUDIT")} if settings.audit else {}),
        **{f"{built.guard}_{name}": str(value) for name, value in wanted.items() if value is not None},
    }


@dataclass(frozen=True)
class Logged:
    """What the processes of a run told: a row for each kind of call.

    Attributes:
        lines: of the log, as objects.
        processes: that called a function which the preload library defines.
    """

    lines: tuple[Mapping[str, Any], ...]
    processes: int = 0
    untold: int = 0
    code: int = field(default=0, compare=False)

    @property
    def taken(self) -> int:
        """Calls that the library's kernels served."""
        return sum(line["count"] for line in self.lines if line["taken"])

    @property
    def passed(self) -> int:
        """Calls that the vendor's library served."""
        return sum(line["count"] for line in self.lines if not line["taken"])

    @property
    def reasons(self) -> dict[str, int]:
        """Calls passed on, by reason, the most frequent first."""
        return _counted((line["reason"], line["count"]) for line in self.lines if not line["taken"])

    @property
    def kernels(self) -> dict[str, int]:
        """Calls taken, by kernel, the most frequent first."""
        return _counted((line["kernel"], line["count"]) for line in self.lines if line["taken"])

    @property
    def counters(self) -> dict[str, int] | None:
        """Elements that the kernels counted, where calls were checked."""
        checked = [line for line in self.lines if "checked" in line]
        return {"checked": sum(line["checked"] for line in checked), **{name: sum(line[name] for line in checked) for name in COUNTED}} if checked else None

    def as_dict(self) -> dict[str, Any]:
        """All of it, for a program."""
        return {"taken": self.taken, "passed": self.passed, "reasons": self.reasons, "kernels": self.kernels, "counters": self.counters,
                "processes": self.processes, "untold": self.untold, "code": self.code, "calls": [dict(line) for line in self.lines]}


def _counted(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, count in pairs:
        found[name] = found.get(name, 0) + count
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a log or a record, without lines that a process which was ended left unfinished.

    Raises:
        GemmgenError: it cannot be read.
    """
    try:
        text = read(path, MOST_LOG).decode(errors="replace")
    except OSError as error:
        raise GemmgenError(str(path), "cannot be read", got=error.strerror or str(error), needs="a regular file of JSON lines, at most 256 MiB",
                           remedy="another file's name") from None
    found = []
    for line in text.splitlines():
        try:
            one = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(one, dict):
            found.append(one)
    return found


def read_log(path: Path, code: int = 0) -> Logged:
    """What a log holds; nothing where there is none: then no process called anything.

    Raises:
        GemmgenError: it cannot be read.
    """
    if not path.exists():
        return Logged((), code=code)
    objects = json_lines(path)
    summaries = [one for one in objects if one.get("summary")]
    lines = tuple(one for one in objects if "count" in one and "taken" in one)
    return Logged(lines, len(summaries), sum(one.get("untold", 0) for one in summaries), code)


def check_program(command: Sequence[str]) -> None:
    """
    Raises:
        GemmgenError: there is no such program, or it is none. The remedy is a command that starts what was meant, where that is known.
    """
    name, rest = command[0], command[1:]
    path = Path(name)
    if shutil.which(name):
        return
    if not path.is_file():
        raise GemmgenError(name, "cannot be started",
                           got="a folder" if path.is_dir() else "no such file" if os.sep in name else "nothing of that name on the PATH",
                           needs="a program", remedy="the program's path behind --, such as: gemmgen run --library lab -- ./program")
    if os.access(path, os.X_OK):  # beside us, and named without a folder
        started = [f"./{name}", *rest]
    else:
        started = ["python" if path.suffix == ".py" else "sh", name, *rest]
    raise GemmgenError(name, "cannot be started", got="a file that is not on the PATH" if os.access(path, os.X_OK) else "a file that is no program",
                       needs="a program", remedy=f"behind --: {shlex.join(started)}")


def run(built: Built, command: Sequence[str], settings: Settings, *, stdout: int | None = None) -> Logged:
    """Run a program to its end, whatever its exit code is, and read its log.

    Args:
        stdout: a file descriptor for the program's output instead of our own.

    Raises:
        GemmgenError: the program cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="gemmgen-run-") as folder:
        log = settings.log or Path(folder) / "log.jsonl"
        asked = replace(settings, log=log)
        before = log.stat().st_size if log.exists() else 0
        try:
            code = subprocess.run(list(command), env=environment(built, asked, os.environ), stdout=stdout, check=False).returncode
        except OSError as error:
            started = shlex.join(["python" if command[0].endswith(".py") else "sh", *command])  # a script that does not say what reads it, mostly
            raise GemmgenError(command[0], "cannot be started", got=error.strerror or str(error), needs="a program", remedy=f"behind --: {started}") from None
        if before:
            # Of a log that was there before, what this run added.
            added = Path(folder) / "added.jsonl"
            added.write_bytes(read(log, MOST_LOG)[before:])
            log = added
        return read_log(log, 128 - code if code < 0 else code)


@dataclass(frozen=True)
class Call:
    """One call of a recorded program: its place in the order, what it multiplies, where it comes from, and what it cost by the model, in seconds."""

    ordinal: int
    routine: str
    m: int
    n: int
    k: int
    layout: str
    batch: int
    site: str
    taken: bool
    kernel: str | None
    seconds: float
    sgemm_seconds: float


def read_record(path: Path) -> list[Call]:
    """The calls of a record, in order.

    Raises:
        GemmgenError: it cannot be read, or is no record.
    """
    found = []
    for one in json_lines(path):
        try:
            found.append(Call(
                int(one["ordinal"]), str(one["routine"]), int(one["m"]), int(one["n"]), int(one["k"]), str(one["layout"]), int(one["batch"]),
                str(one["site"]), bool(one["taken"]), one.get("kernel"), float(one.get("seconds", 0)), float(one.get("sgemm_seconds", 0))))
        except (KeyError, TypeError, ValueError):
            raise GemmgenError(str(path), "is no record", got=json.dumps(one)[:200], needs="what NAME_RECORD made",
                               remedy="gemmgen run --library DIR --record FILE -- program") from None
    return sorted(found, key=lambda call: call.ordinal)


def levels_text(levels: Mapping[int, str], period: int = 0) -> str:
    """A file of levels: of each ordinal `kernel NAME`, `error NUMBER` or `vendor`; with a period, of each place in it."""
    head = [f"period {period}"] if period else []
    return "\n".join([*head, *(f"ordinal {ordinal} {level}" for ordinal, level in sorted(levels.items()))]) + "\n"
