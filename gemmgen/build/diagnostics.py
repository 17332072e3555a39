"""Compiler logs -> errors a person can act on, and the numbers of `ptxas -v`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gemmgen.build.cubin import CubinResources
from gemmgen.build.nvrtc import INSTALL, Compiler, Output
from gemmgen.errors import BuildError

_FRONT_END = re.compile(
    r"^(?P<file>\S.*?)\((?P<line>\d+)\): (?:\w+ )?error(?: #\S+)?: (?P<message>.*)$", re.M
)
_ASSEMBLER = re.compile(
    r"^\s*ptxas [^\n;]*, line (?P<line>\d+); (?:error|fatal)\s*: (?P<message>.*)$", re.M
)
_ELSEWHERE = re.compile(
    r"^\s*(?:ptxas|nvrtc|Command-line)[\s:]*(?:error|fatal)\s*: (?P<message>.*)$", re.M
)
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+(\d+)")
_NO_HEADER = re.compile(r"(?:could not|cannot) open source file")
_QUOTATION = re.compile(r"^(.*)\n *\^", re.M)  # a line of source above a caret
_NEXT = re.compile(r"^\S.*\(\d+\): ", re.M)

_ENTRY = re.compile(r"Compiling entry function '")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def refusal(output: Output, compiler: Compiler, arch: str, name: str) -> BuildError:
    """The error for a source that did not compile: the first diagnostic, the line it
    points at, and how many there are. The whole log is attached as a note.

    Args:
        output: what the compiler left.
        compiler: who refused.
        arch: what it compiled for.
        name: the source's name, as in the log.
    """
    what = f"does not compile for {arch}: "
    if found := list(_FRONT_END.finditer(output.log)):
        first = found[0]
        where, got = f"{first['file']}:{first['line']}", _quoted(output.log, first.end())
    elif found := list(_ASSEMBLER.finditer(output.log)):
        first = found[0]
        where, got = _behind_ptx(output.ptx, int(first["line"]), name)
    elif found := list(_ELSEWHERE.finditer(output.log)):
        first, where, got = found[0], name, None
    else:
        first, where, got = None, name, None
    message = first["message"].strip() if first else output.log or "no reason was given"
    count = f" (the first of {len(found)} errors)" if len(found) > 1 else ""
    error = BuildError(
        where, what + message + count, got=got, remedy=_remedy(message, compiler, arch)
    )
    error.add_note(output.log)
    return error


def _quoted(log: str, start: int) -> str | None:
    """The line of source that the diagnostic ending at `start` quotes."""
    following = _NEXT.search(log, start)
    quotation = _QUOTATION.search(log, start, following.start() if following else len(log))
    return quotation[1].strip() if quotation else None


def _behind_ptx(ptx: str, line: int, name: str) -> tuple[str, str | None]:
    """The place in the source that a line of PTX comes from, and that line of PTX."""
    lines = ptx.splitlines()[:line]
    if len(lines) < line:
        return name, None
    place = next((found[1] for text in reversed(lines) if (found := _LOC.match(text))), None)
    return f"{name}:{place}" if place else name, lines[-1].strip()


def _remedy(message: str, compiler: Compiler, arch: str) -> str | None:
    if _NO_HEADER.search(message):
        if compiler.bundles_headers:
            return f"include only what {compiler.name} brings, or name a folder with -I"
        return f"{INSTALL} for a compiler that brings the CUDA headers, or name a folder with -I"
    if "too much shared data" in message:
        return "dynamic shared memory (extern __shared__), which may be larger"
    if "not supported on .target" in message and f"{arch}a" in compiler.archs:
        return f"compile for {arch}a: some instructions exist for one chip only"
    return None


def accounts_differ(log: str, kernels: Mapping[str, CubinResources]) -> tuple[str, str] | None:
    """Compare the registers and spills that `ptxas -v` logs with those of the cubin.

    Where both tell of spills, how many bytes is no matter: for kernels that spill
    thousands, the two count differently, and either refuses them.

    Returns:
        None where they agree or the log tells nothing; else both accounts, the
        log's first.
    """
    registers = [int(number) for number in _REGISTERS.findall(log)]
    spills = [(int(stores), int(loads)) for stores, loads in _SPILLS.findall(log)]
    if not spills or len(registers) != len(_ENTRY.findall(log)):
        return None
    stores, loads = map(sum, zip(*spills, strict=True))
    marked = [kernel.registers for kernel in kernels.values()]
    marked_stores = sum(kernel.spill_store_bytes for kernel in kernels.values())
    marked_loads = sum(kernel.spill_load_bytes for kernel in kernels.values())
    if sorted(registers) == sorted(marked) and (stores + loads > 0) == (marked_stores + marked_loads > 0):
        return None
    return _account(registers, stores, loads), _account(marked, marked_stores, marked_loads)


def _account(registers: list[int], stores: int, loads: int) -> str:
    return f"registers {sorted(registers)}, {stores} B spill stores, {loads} B spill loads"
