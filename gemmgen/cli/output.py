"""Everything that leaves the process: text, errors, progress, files."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, ClassVar

from gemmgen.errors import GemmgenError, shortened
from gemmgen.files import resolved, unfinished

GREEN, RED, BOLD = "32", "31", "1"
WRITTEN_BY_HAND = (".toml", ".npy")
"""How files end that gemmgen reads and never writes: `render x.toml -o x.toml` is a slip."""


class ReaderGone(Exception):
    """Whoever read our output has closed it: no fault, and nothing more to say."""


_COLOURED = os.urandom(6).hex()
"""Marks colours of `paint` until they are printed, unlike all that text from a file can hold."""
_MARK = re.compile(f"\0{_COLOURED}([0-9]+)m")


def shown(text: str, stream: IO[str]) -> str:
    """`text` as it is printed: what a terminal would obey is told by its number, but for the colours of `paint`.

    All text goes this way: rows of a store, specs, file names and messages of compilers come from elsewhere.
    """
    parts = _MARK.split(text)  # text, colour, text, colour, ...
    parts[::2] = [shortened(part, len(part)) for part in parts[::2]]
    parts[1::2] = [f"\x1b[{colour}m" for colour in parts[1::2]]
    return "".join(parts).encode(stream.encoding or "utf-8", "backslashreplace").decode(stream.encoding or "utf-8")


def tell(text: str, end: str = "\n") -> None:
    """Print to stderr."""
    print(shown(text, sys.stderr), end=end, file=sys.stderr, flush=True)


def columns() -> float:
    """How wide text on stdout may be: as the terminal is, without end elsewhere."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf


def fitted(text: str, columns: int) -> str:
    """`text` with no line longer than that, where it has spaces to break at: a line goes on below the start of its last column."""
    lines = []
    for line in text.split("\n"):
        if len(_MARK.sub("", line)) <= columns:
            lines.append(line)
            continue
        indent = len(line) - len(line.lstrip())
        columns_at = [found.end() for found in re.finditer(r"(?<=\S) {2,}(?=\S)", line) if found.end() <= columns * 0.6]
        hang = columns_at[-1] if columns_at else min(indent + 2, columns // 2)
        lines += textwrap.wrap(line, columns, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
    return "\n".join(lines)


def emit(text: str, end: str = "\n", *, as_is: bool = False) -> None:
    """Print to stdout; on a terminal as wide as that is.

    Args:
        as_is: leave lines as long as they are: source, JSON.

    Raises:
        ReaderGone: nobody reads it any more.
        GemmgenError: it cannot be written, as on a full disk.
    """
    try:
        text = text if as_is or columns() == math.inf else fitted(text, int(columns()))
        print(shown(text, sys.stdout), end=end, flush=True)
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise _unwritable("standard output", error) from None


def emit_json(value: Any) -> None:
    emit(json_text(value), as_is=True)


def json_text(value: Any) -> str:
    return json.dumps(_standard(value), indent=2, allow_nan=False)


def _standard(value: Any) -> Any:
    """JSON has no NaN and no Inf: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _standard(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_standard(inner) for inner in value]
    return value


def emit_error(error: GemmgenError, as_json: bool) -> None:
    if as_json:
        emit_json(error.as_dict())
    else:
        tell(f"{paint('error', RED, sys.stderr)}: {error}")


def note(text: str, quiet: bool = False) -> None:
    if not quiet:
        tell(f"note: {text}")


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """What a room warns of while the command runs, told as a note: once each."""
    from gemmgen.errors import CacheWarning

    with warnings.catch_warnings():
        warnings.filterwarnings("default", category=CacheWarning)
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any) -> None:
            note(str(message)) if issubclass(category, CacheWarning) else others(message, category, *place)

        warnings.showwarning = show
        yield


def paint(text: str, colour: str, stream: IO[str] | None = None) -> str:
    """`text` in a colour, as `shown` prints it, where `stream` (stdout by default) is a terminal and NO_COLOR is not set."""
    stream = stream or sys.stdout
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\0{_COLOURED}{colour}m{text}\0{_COLOURED}0m"


EACH = 5.0
"""Seconds after which a line says that a step goes on, where stderr is no terminal; on one the line changes every second."""
OFTEN = 0.1
"""Seconds between two states of a terminal's line."""
_SHARE = re.compile(r"(\d+) of (\d+)\b")


class Progress:
    """What is being done, on stderr: on a terminal one line that changes, elsewhere a line a step, and one every `EACH` seconds of a long one.

    Of steps that say `3 of 12`, and of the thread blocks of a launch, the share that is done and the time that the rest takes are shown.

    Args:
        subject: what the steps belong to.
        quiet: say nothing.
        late: of a command that mostly ends soon: nothing before `EACH` seconds, on a terminal before one.
    """

    _live: ClassVar[set[Progress]] = set()

    def __init__(self, subject: str, quiet: bool = False, *, late: bool = False):
        self._subject, self._quiet, self._late = subject, quiet, late
        self._tty = sys.stderr.isatty()
        self._step = self._launch = ""
        self._counted, self._done = 0, 0
        """Of how many steps this is one, 0 where nobody counts; and of a launch, the blocks that have run."""
        self._share = 0.0
        self._begun = self._shown = time.monotonic()
        """When that began of which the share is, and when a line was last shown."""
        self._stop: threading.Event | None = None

    def step(self, text: str) -> None:
        if self._quiet:
            return
        now, found = time.monotonic(), _SHARE.search(text)
        number, total = (int(found[1]), int(found[2])) if found else (1, 0)
        new = not total or total != self._counted
        self._begun = now if new else self._begun
        self._step, self._launch, self._counted, self._share = f"{self._subject}: {text}", "", total, (number - 1) / total if total else 0.0
        if not self._late and (self._tty or new or now - self._shown >= EACH):
            self._show()
        self._watch()

    def blocks(self, symbol: str, done: int, total: int) -> None:
        """Thread blocks of the kernel `symbol` that have run."""
        if self._quiet:
            return
        now = time.monotonic()
        if not self._counted:
            if not self._launch or done < self._done:
                self._begun = now
            self._share = done / max(total, 1)
        self._launch, self._done = f" ({done} of {total} blocks of {_short(symbol)})", done
        if not self._late and now - self._shown >= (OFTEN if self._tty else EACH):
            self._show()

    def clear(self) -> None:
        """No step goes on any more."""
        if self._stop is not None:
            self._stop.set()
            self._stop = None
        Progress._live.discard(self)
        if self._tty and not self._quiet:
            _direct("\r\x1b[K")

    @classmethod
    def clear_all(cls) -> None:
        """The same of all whose command has ended, however it did."""
        for one in tuple(cls._live):
            one.clear()

    def _state(self) -> str:
        """The step, what of it is done, and how long that took and the rest takes."""
        seconds, share = time.monotonic() - self._begun, self._share
        parts = [f"{100 * share:.0f} %"] if share else []
        parts += [duration(seconds)] if seconds >= 1 else []
        parts += [f"about {duration(seconds * (1 - share) / share)} left"] if share and seconds >= 1 else []
        return ", ".join([self._step + self._launch, *parts])

    def _watch(self) -> None:
        """Shows steps that go on for long without a word."""
        if self._stop is not None:
            return
        self._stop = stop = threading.Event()
        Progress._live.add(self)
        each = 1.0 if self._tty else EACH

        def watch() -> None:
            while not stop.wait(max(each - (time.monotonic() - self._shown), 0.1)):
                if time.monotonic() - self._shown >= each:
                    self._show()

        threading.Thread(target=watch, daemon=True).start()

    def _show(self) -> None:
        self._shown, text = time.monotonic(), shown(self._state(), sys.stderr)
        _direct(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}" if self._tty else f"{text}\n")


def duration(seconds: float) -> str:
    """`40 s`, `3 min`, `1.5 h`."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _direct(text: str) -> None:
    """To stderr without its lock, which a process that is forked in this moment would keep."""
    try:
        sys.stderr.flush()
        os.write(sys.stderr.fileno(), text.encode(sys.stderr.encoding or "utf-8", "backslashreplace"))
    except (OSError, ValueError, AttributeError):  # no file behind it, as in tests; or nobody reads it
        with contextlib.suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)


def _short(symbol: str) -> str:
    """A kernel's role: what follows the hash in its name, and `gemm` for the main kernel."""
    role = re.search(r"_[0-9a-f]{8}_(\w+)$", symbol)
    return role[1] if role else "gemm"


def write_files(folder: Path, files: Mapping[str, str | bytes], *, rows: bool = False) -> dict[str, Path]:
    """Write files into `folder`, made if it is not there: each is whole or absent, and an
    error leaves none of them.

    Args:
        files: by their names, which may lie in folders of `folder`.
        rows: whether rows and specs may be among them, as nowhere else.

    Raises:
        GemmgenError: they cannot be written.
    """
    try:
        for inner in {Path(name).parent for name in files} | {Path()}:
            resolved(folder / inner).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return {name: path for name, path in zip(files, write_paths({folder / n: c for n, c in files.items()}, rows=rows))}


def write_paths(contents: Mapping[Path, str | bytes], *, rows: bool = False) -> list[Path]:
    """Write each content beside its final path first, and move all into place when all are complete.

    Args:
        rows: as `write_files` takes it.

    Raises:
        GemmgenError: a path cannot be written, or is a device or a folder.
    """
    path = Path()
    try:
        with contextlib.ExitStack() as written:
            moves: list[tuple[Path, Path]] = []
            for path, content in contents.items():
                # A link's target is what gets replaced, never a device such as /dev/null.
                final = resolved(path)
                if final.suffix in WRITTEN_BY_HAND and not rows:
                    raise GemmgenError(str(path), "is named as a spec, a row or a matrix", got=final.name,
                                       needs=f"another ending than {' and '.join(WRITTEN_BY_HAND)}: such files are only read", remedy="another -o")
                if final.exists() and not final.is_file():
                    raise GemmgenError(str(path), "is not a regular file", needs="a file that may be replaced",
                                       remedy="another -o, or none and a redirection of the output")
                beside = written.enter_context(unfinished(final))
                moves.append((beside, final))
                beside.write_bytes(content.encode() if isinstance(content, str) else content)
            for path, (beside, final) in zip(contents, moves):
                os.replace(beside, final)
    except OSError as error:
        raise _unwritable(path, error) from None
    return list(contents)


def is_folder(path: str | Path) -> bool:
    """Whether a folder is there; a name that no file can have is none."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False


def _unwritable(place: str | Path, error: OSError) -> GemmgenError:
    return GemmgenError(str(place), "cannot be written", got=error.strerror or str(error),
                        needs="a writable place with room", remedy="another -o, or other permissions")
