"""Damaged input, drawn from a seed: whatever a file holds, the command line ends in one of its exit codes.

    python tests/support/fuzz.py 5000 --seed 1        # every kind, as many cases in all; prints what each ended in

Each case writes one file and runs one command in this process: a spec, a row of one of the four tables, a matrix, or an
entry of the cache, whole or changed: bytes, lines, values and types at random, and values that are known to hurt. The
command must return 0, 1 or 2; 2 with a message of bounded size that has place and remedy, and nothing written. A traceback, a case that
takes more than MOST_SECONDS, and more memory than MOST_MEMORY are faults. What failed is told by its kind and seed, with
which `case` makes it again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gemmgen.paths import SPECS

MOST_SECONDS = 120
"""Of processor time, for one case: a hang, and not a slow machine."""
MOST_MEMORY = 6 << 30
"""Bytes of address space that a case may add."""
MOST_MESSAGE = 20_000
"""Characters of what a refusal prints."""

VALUES = (
    "0", "-1", "1", "2", "3", "7", "28", "1048576", "2147483647", "2147483648", "4294967296", "99999999999999999999", "9" * 4000, "9" * 5000,
    "0.0", "-0.0", "1e30", "1e-30", "1e400", "inf", "-inf", "nan", "true", '""', '"auto"', '"1"', '"1e9"', "[]", "{}", "[[]]", "[1, 2]",
    "1979-05-27", "[" * 6 + "]" * 6, "[" * 5000 + "]" * 5000, '"\\u0000"', '"\\u001b[31m"', '"\\u202e"', '"*/ int evil(void); /*"', '"a\\nb"', '"x\\\\"',
    '"' + "y" * 30_000 + '"', '"../../../etc/passwd"', '"/dev/zero"', '"fifo.toml"', '"/dev/zero/x.toml"', '"missing.toml"', '"row.toml"',
    '"a100"', '"cdna3"', '"sm_90"', '"gfx942"', '"f16"', '"f32"', '"prepass"', '"register"', '"mma"', '"wgmma"', '"row"',
)
"""What stands in a value's place."""
KEYS = ("name", "extra", "a.b.c", '"k"', '"' + "k" * 5000 + '"', "limits", "rates", "words", "m", ".".join("a" * 2000))


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code, or the traceback of what it raised instead."""

    code: int | None
    out: str
    err: str
    fault: str = ""


def run(arguments: list[str]) -> Ran:
    """The command line, in this process."""
    from gemmgen.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code, fault = main(arguments), ""
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            code, fault = None, "".join(traceback.format_exception(error, limit=-8))
    return Ran(code, out.getvalue(), err.getvalue(), fault)


# ---- changing texts


def changed_toml(draw: random.Random, text: str) -> bytes:
    """A TOML file with one to three things wrong, or none that matters."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        text = draw.choice((_near, _near, _near, _near, _other_value, _inside, _other_key, _less, _twice))(draw, text)
    content = text.encode("utf-8", "surrogatepass")
    return draw.choice((*[_as_it_is] * 8, _other_bytes, _other_encoding))(draw, content)


def _near(draw: random.Random, text: str) -> str:
    """One number a little, or by powers of two, other than it was: what a row or a spec may still say."""
    numbers = list(re.finditer(r"(?<![\w.])\d+(\.\d+)?(?![\w.])", re.sub(r'"[^"\n]*"', lambda found: "_" * len(found[0]), text)))
    if not numbers:
        return text
    number = draw.choice(numbers)
    value = float(number[0]) if "." in number[0] else int(number[0])
    other = draw.choice((value * 2, value + 1, value - 1, value // 2, value * 1.01 if "." in number[0] else value * 3, value * 16, 0))
    return text[: number.start()] + str(other) + text[number.end() :]


def _lines_with_values(lines: list[str]) -> list[int]:
    return [at for at, line in enumerate(lines) if "=" in line and not line.lstrip().startswith("#")]


def _other_value(draw: random.Random, text: str) -> str:
    lines = text.splitlines()
    if places := _lines_with_values(lines):
        at = draw.choice(places)
        lines[at] = f"{lines[at].partition('=')[0]}= {draw.choice(VALUES)}"
    return "\n".join(lines) + "\n"


def _inside(draw: random.Random, text: str) -> str:
    """Another number or word within a line, so that most of a row stays."""
    words = list(re.finditer(r"-?\d+(\.\d+)?|\"[^\"\n]*\"", text))
    if not words:
        return text
    word = draw.choice(words)
    return text[: word.start()] + draw.choice(VALUES) + text[word.end() :]


def _other_key(draw: random.Random, text: str) -> str:
    lines = text.splitlines()
    if places := _lines_with_values(lines):
        at = draw.choice(places)
        lines[at] = f"{draw.choice(KEYS)} ={lines[at].partition('=')[2]}"
    return "\n".join(lines) + "\n"


def _less(draw: random.Random, text: str) -> str:
    lines = text.splitlines()
    if lines:
        del lines[draw.randrange(len(lines))]
    return "\n".join(lines) + "\n"


def _twice(draw: random.Random, text: str) -> str:
    lines = text.splitlines() or [""]
    return "\n".join([*lines, draw.choice(lines)]) + "\n"


def _as_it_is(draw: random.Random, content: bytes) -> bytes:
    return content


def _other_bytes(draw: random.Random, content: bytes) -> bytes:
    """Some bytes changed, the end cut off, or more behind it."""
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 6)):
        if changed:
            changed[draw.randrange(len(changed))] = draw.randrange(256)
    cut = draw.choice((len(changed), len(changed), draw.randrange(len(changed) + 1)))
    return bytes(changed[:cut]) + draw.choice((b"", b"", b"\0" * 8, draw.randbytes(40)))


def _other_encoding(draw: random.Random, content: bytes) -> bytes:
    text = content.decode("utf-8", "replace")
    return draw.choice((b"\xef\xbb\xbf" + content, text.encode("utf-16"), text.replace("\n", "\r\n").encode(), content * 200))


# ---- the kinds


def _shipped(folder: str) -> list[Path]:
    return sorted((SPECS / folder).glob("*.toml"))


def _own_name(text: str) -> str:
    return re.sub(r'(?m)^name = ".*"', 'name = "row"', text)


def _special_file(draw: random.Random, path: Path) -> None:
    """What is no regular file, or one too large, in place of `path`."""
    kind = draw.randrange(5)
    if kind == 0:
        os.mkfifo(path)
    elif kind == 1:
        path.mkdir()
    elif kind == 2:
        path.symlink_to("/dev/zero")
    elif kind == 3:
        path.symlink_to(path)
    else:
        with path.open("wb") as file:
            file.truncate(2 << 30)  # without taking the room


def _written(draw: random.Random, path: Path, content: bytes) -> None:
    _special_file(draw, path) if draw.random() < 0.03 else path.write_bytes(content)


def spec(draw: random.Random, folder: Path) -> list[str]:
    """A changed spec, rendered or explained."""
    path = folder / "row.toml"
    _written(draw, path, changed_toml(draw, draw.choice(_shipped("kernels")).read_text()))
    verb = draw.choice((["build", "--source"], ["build", "--source", "-o", str(folder / "out" / "x.cu")], ["explain"], ["explain", "--json"], ["build", "--source", "-o", str(path)],
                        ["build", "--source", "-o", "n" * 300], ["build", "--source", "--gpu", draw.choice(("t4", "h100", "mi300x", "row.toml", "x" * 3000))]))
    return [verb[0], str(path), *verb[1:]]


def _row(table: str, verb: str) -> Callable[[random.Random, Path], list[str]]:
    def made(draw: random.Random, folder: Path) -> list[str]:
        path = folder / "row.toml"
        _written(draw, path, changed_toml(draw, _own_name(draw.choice(_shipped(table)).read_text())))
        extra = draw.choice(([], ["--json"], ["--header"] if verb == "fragments" else []))
        return [verb, str(path), *extra]
    return made


def _spec_with(key: str, table: str) -> Callable[[random.Random, Path], list[str]]:
    """A spec that a changed row is used in."""
    def made(draw: random.Random, folder: Path) -> list[str]:
        text = _own_name(draw.choice(_shipped(table)).read_text())
        _written(draw, folder / "row.toml", changed_toml(draw, text))
        other = {"gpu": '[split]\nscheme = "ootomo"\n', "scheme": '[target]\ngpu = "a100"\n'}[key]
        section = {"gpu": "target", "scheme": "split"}[key]
        (folder / "spec.toml").write_text(f'{other}[{section}]\n{key} = "row.toml"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n')
        return ["build", "--source", str(folder / "spec.toml")]
    return made


def unit(draw: random.Random, folder: Path) -> list[str]:
    """A changed row of a matrix unit, through a GPU that names it as a file beside it."""
    (folder / "units").mkdir()
    _written(draw, folder / "units" / "row.toml", changed_toml(draw, _own_name(draw.choice(_shipped("units")).read_text())))
    gpu = (SPECS / "gpus" / "a100.toml").read_text().replace('name = "a100"', 'name = "own"').replace('"ampere"', '"units/row.toml"')
    (folder / "own.toml").write_text(gpu)
    if draw.random() < 0.5:
        return ["gpus", str(folder / "own.toml"), *draw.choice(([], ["--json"]))]
    (folder / "spec.toml").write_text('[split]\nscheme = "ootomo"\n[target]\ngpu = "own.toml"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n')
    return ["build", "--source", str(folder / "spec.toml")]


HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, True), }", "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -4), }", "{'descr': '<f8', 'fortran_order': True, 'shape': (4, 2), }",
    "{'descr': '|O', 'fortran_order': False, 'shape': (4, 4), }", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 4), }",
    "{'descr': ('<f4', (2, 2)), 'fortran_order': False, 'shape': (2, 2), }", "{'descr': '<f4', 'fortran_order': 0, 'shape': (4, 4), }",
    "{'descr': '<f4', 'shape': (4, 4), }", "{'descr': '>f4', 'fortran_order': False, 'shape': (4, 4), }", "(" * 9000 + ")" * 9000, "[" * 900 + "]" * 900,
    "{" * 300, "-" * 9000 + "1", "{'descr': '" + "f" * 60000 + "'}", "{{}: 1}", "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ", 4), }",
    "__import__('os').abort()", "\0", "{'descr': '<M8[s]', 'fortran_order': False, 'shape': (4, 4), }", "{'descr': '<f16', 'fortran_order': False, 'shape': (2, 2), }",
)


def matrix(draw: random.Random, folder: Path) -> list[str]:
    """A changed matrix beside a good one; what fits is stopped by a third that does not."""
    good, path = folder / "good.npy", folder / "bad.npy"
    np.save(good, np.ones((4, 4), np.float32))
    buffer = io.BytesIO()
    np.save(buffer, np.ones((4, 4), draw.choice((np.float32, np.float64, np.float16, np.int32))))
    content = buffer.getvalue()
    if draw.random() < 0.5:
        header = draw.choice(HEADERS).encode("latin-1")
        version = draw.choice((1, 2, 3, 9))
        length = len(header).to_bytes(2 if version == 1 else 4, "little") if len(header) < 1 << 16 else b"\xff\xff\xff\xff"
        content = b"\x93NUMPY" + bytes((version, 0)) + length + header + content[-64:]
    content = draw.choice((_as_it_is, _other_bytes))(draw, content)
    _written(draw, path, content)
    (folder / "spec.toml").write_text('[split]\nscheme = "half"\n[target]\ngpu = "nonesuch"\n')
    return ["verify", str(folder / "spec.toml"), "--a", str(good), "--b", str(path), "--quiet"]


TINY = '[split]\nscheme = "half"\n[tile]\nblock = [32, 32, 16]\nwarp = [32, 16, 16]\ngroup = 1\nsplit_k = 1\n[pipeline]\nstages = 2\nfragment_buffers = 1\n[target]\ngpu = "a100"\n'


def cache(draw: random.Random, folder: Path) -> list[str]:
    """A changed entry of the cache: another checksum, other content under the right one, or what is no file; then the kernel is built."""
    from gemmgen import cache as store

    root = folder / "cache"
    os.environ["GEMMGEN_CACHE"] = str(root)
    (folder / "spec.toml").write_text(TINY)
    command = ["build", str(folder / "spec.toml"), "-o", str(folder / "out")]
    for path, content in _tiny_entry(command, root):
        (root / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (root / path).write_bytes(content)
        (root / path).chmod(0o600)
    [entry] = [path for path in (root / "binaries").rglob("*") if path.is_file()]
    whole, secret = entry.read_bytes(), (root / store.SECRET).read_bytes()
    parts = store._unpack(entry.name, whole, secret)
    kind = draw.randrange(7)
    if kind == 0:
        entry.write_bytes(_other_bytes(draw, whole))
    elif kind == 1:
        name = draw.choice(sorted(parts))
        entry.write_bytes(store._pack(entry.name, parts | {name: _other_bytes(draw, parts[name])}, secret))
    elif kind == 2:
        parts.pop(draw.choice(sorted(parts)))
        entry.write_bytes(store._pack(entry.name, parts, secret))
    elif kind == 3:
        body = draw.choice((b"[]", b"{}", b'{"code": -1}', b'{"code": "x"}', b"[" * 100_000, b'{"code": 1e999}', b"\xff", b"7", b'{"code": 10}')) + b"\nabc"
        entry.write_bytes(store._MAGIC + store._checksum(entry.name, body, secret) + b"\n" + body)
    elif kind == 4:
        entry.unlink()
        _special_file(draw, entry)
    elif kind == 5:
        draw.choice((entry, root / "secret", root, root / "binaries", entry.parent)).chmod(draw.choice((0o666, 0o777, 0o622, 0o700)))
    else:
        (root / "secret").unlink()
        draw.choice((lambda: (root / "secret").write_bytes(draw.randbytes(draw.choice((0, 8, 32, 99)))), lambda: _special_file(draw, root / "secret"), lambda: None))()
    return command


_ENTRY: list[tuple[str, bytes]] = []


def _tiny_entry(command: list[str], root: Path) -> list[tuple[str, bytes]]:
    """The files of a cache that holds the one kernel; compiled once."""
    if not _ENTRY:
        assert run(command).code == 0
        _ENTRY.extend((str(path.relative_to(root)), path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file())
        shutil.rmtree(command[-1])
    return _ENTRY


KINDS: dict[str, Callable[[random.Random, Path], list[str]]] = {
    "spec": spec, "gpu": _row("gpus", "gpus"), "scheme": _row("schemes", "schemes"), "fragment": _row("fragments", "fragments"), "unit": unit,
    "spec with a gpu": _spec_with("gpu", "gpus"), "spec with a scheme": _spec_with("scheme", "schemes"), "matrix": matrix, "cache": cache,
}


# ---- one case


def case(kind: str, seed: int) -> str:
    """What a case ended in: its exit code; `fault: ...` for what must not be."""
    draw = random.Random(f"{kind} {seed}")
    before, cached = os.getcwd(), os.environ.get("GEMMGEN_CACHE")
    folder = Path(tempfile.mkdtemp(prefix="gemmgen-fuzz-"))
    try:
        os.chdir(folder)
        arguments = KINDS[kind](draw, folder)
        there = _names(folder)
        with _guarded():
            ran = run(arguments)
        return _verdict(ran, _names(folder) - there)
    finally:
        os.chdir(before)
        os.environ.pop("GEMMGEN_CACHE") if cached is None and "GEMMGEN_CACHE" in os.environ else cached and os.environ.update(GEMMGEN_CACHE=cached)
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if "cache" not in path.relative_to(folder).parts}


def _verdict(ran: Ran, left: set[str]) -> str:
    if ran.fault or ran.code not in (0, 1, 2):
        return f"fault: {ran.fault or f'exit code {ran.code}'}"
    if "Traceback" in ran.err:
        return f"fault: {ran.err}"
    if ran.code == 2:
        if left:
            return f"fault: refused, and left {sorted(left)}"
        if len(ran.out) + len(ran.err) > MOST_MESSAGE:
            return f"fault: {len(ran.out) + len(ran.err)} characters to refuse"
        if "error" not in ran.err and '"error"' not in ran.out:
            return f"fault: refused without a reason: {ran.err}"
        if any(char < " " and char not in "\n\t" for char in ran.err):
            return f"fault: a control character in {ran.err!r}"
    if any(".unfinished" in name for name in left):
        return f"fault: half-written {sorted(left)}"
    return str(ran.code)


@contextlib.contextmanager
def _guarded():
    """Ends what takes too long by TimeoutError, and what takes too much by MemoryError."""
    def stop(*_):
        raise TimeoutError(f"more than {MOST_SECONDS} s of processor time")

    def used() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = used() + MOST_MEMORY
    handler = signal.signal(signal.SIGVTALRM, stop)
    waiting = signal.signal(signal.SIGALRM, stop)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        limit = signal.setitimer(signal.ITIMER_REAL, 20 * MOST_SECONDS)  # what waits, as for a FIFO, takes no processor time
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, handler)
        signal.signal(signal.SIGALRM, waiting)
        signal.setitimer(signal.ITIMER_REAL, *limit)  # the test's own, which the same signal tells
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def check_many(kinds: dict[str, int], seed: int) -> tuple[Counter, list[str]]:
    """(how many cases of each kind ended in what, those that must not be).

    Args:
        kinds: how many cases of each.
        seed: another sequence for each.
    """
    ends: Counter = Counter()
    faults: list[str] = []
    for kind, count in kinds.items():
        for number in range(count):
            end = case(kind, (seed << 32) + number)
            ends[kind, end.partition(":")[0]] += 1
            if end.startswith("fault"):
                faults.append(f"case({kind!r}, {(seed << 32) + number}): {end}")
    return ends, faults


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    asked.add_argument("count", type=int, help="cases in all")
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--kind", choices=KINDS, action="append")
    options = asked.parse_args()
    chosen = options.kind or list(KINDS)
    faults = []
    for kind in chosen:
        ends, found = check_many({kind: -(-options.count // len(chosen))}, options.seed)
        for (_, end), count in sorted(ends.items()):
            print(f"{kind:<20} {end:<6} {count}", *(f"\n{fault}\n" for fault in found if end == "fault"), flush=True)
        faults += found
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
