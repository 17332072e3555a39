"""Reading AMDGPU assembly as clang writes it (`-S`): kernels, their descriptors and
metadata, variables, and statements with the source line each came from. What a
statement means is decided elsewhere (`decode`).

    parse(text) -> Module -> Kernel -> Statement

Line numbers are those of `.loc` directives (compile with -gline-tables-only); a
statement inlined from a helper keeps the lines of its callers, nearest first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from gemmgen.emulate.core.report import split_outside
from gemmgen.errors import EmulationError


_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)")


class Statement(NamedTuple):
    """One instruction as written. A tuple: a kernel has thousands, and a frozen dataclass takes four times as long to make.

    Attributes:
        mnemonic: with its encoding's suffix, `v_add_f32_e32`.
        operands: texts, in order.
        modifiers: name -> value, empty for a flag: `offset:16`, `glc`.
        text: the whole, comments removed.
        number: line of the assembly.
        line: source line, 0 when unknown; callers: lines it was inlined at.
        second: the other half of a dual-issue instruction.
    """

    mnemonic: str
    operands: tuple[str, ...]
    modifiers: dict[str, str]
    text: str
    number: int
    line: int = 0
    callers: tuple[int, ...] = ()
    second: Statement | None = None


@dataclass(frozen=True)
class Argument:
    """A kernel argument, or one the runtime passes unasked (`hidden_...`).

    Attributes:
        kind: `global_buffer`, `by_value` or `hidden_...`.
        offset, nbytes: its place in the kernel-argument segment.
    """

    kind: str
    offset: int
    nbytes: int

    @property
    def hidden(self) -> bool:
        return self.kind.startswith("hidden_")

    @property
    def pointer(self) -> bool:
        return self.kind == "global_buffer"


@dataclass
class Kernel:
    """One kernel.

    Attributes:
        body: its statements; labels: name -> index of the statement that follows.
        descriptor: the `.amdhsa_` directives, without that prefix.
        arguments: in order, hidden ones last.
        argument_bytes: length of the kernel-argument segment.
        most_threads: of a workgroup.
    """

    name: str
    body: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    descriptor: dict[str, str] = field(default_factory=dict)
    arguments: tuple[Argument, ...] = ()
    argument_bytes: int = 0
    most_threads: int = 1024

    def setting(self, name: str, default: int = 0) -> int:
        """The value of one directive of the descriptor."""
        text = self.descriptor.get(name)
        if text is not None and not _INTEGER.fullmatch(text):
            _refuse(f"directive .amdhsa_{name} of kernel {self.name} is no number", text)
        return default if text is None else int(text, 0)


@dataclass
class Module:
    """An assembly file: its target (`gfx90a`), kernels by name, the bytes of its
    variables by name, the name of its source file."""

    target: str
    kernels: dict[str, Kernel]
    variables: dict[str, bytes]
    source_name: str


def parse(text: str) -> Module:
    """Read a module.

    Raises:
        EmulationError: the text is not AMDGPU assembly of the supported kind.
    """
    target = re.search(r'^\s*\.amdgcn_target\s+"amdgcn-amd-amdhsa--(\w+)', text, re.M)
    if not target:
        _refuse("cannot be read as AMDGPU assembly", text.strip()[:60], 'a line .amdgcn_target "amdgcn-amd-amdhsa--..."')
    return _Reader(target[1]).read(text)


_LABEL = re.compile(r"([\w.$]+):")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_INLINED = re.compile(r"@\[\s*(\S+?):(\d+):\d+")
_DATA = {".byte": 1, ".short": 2, ".value": 2, ".2byte": 2, ".long": 4, ".4byte": 4, ".quad": 8, ".8byte": 8}


class _Reader:
    """Goes through the lines once, knowing whether they are code, a descriptor, data or metadata."""

    def __init__(self, target: str):
        self.module = Module(target, {}, {}, "kernel.s")
        self.files: dict[int, str] = {}
        self.main: str | None = None  # the source file, whose lines are told
        self.line, self.callers = 0, ()
        self.places: dict[tuple[str, str], tuple[int, tuple[int, ...]] | None] = {}  # of each `.loc` so far
        self.kernel: Kernel | None = None  # whose body this is
        self.described: Kernel | None = None  # whose descriptor this is
        self.functions: dict[str, Kernel] = {}
        self.objects: set[str] = set()
        self.variable: str | None = None
        self.metadata: list[str] | None = None

    def read(self, text: str) -> Module:
        for number, line in enumerate(text.splitlines(), 1):
            if self.metadata is not None and ".end_amdgpu_metadata" not in line:
                self.metadata.append(line)
                continue
            code, _, comment = line.partition(";")
            code = code.partition("//")[0].strip()
            if code:
                self._line(code, comment, number)
        module = self.module
        if not module.kernels:
            _refuse("holds no kernel", module.target, "a .amdhsa_kernel")
        _read_metadata(module.kernels, self.metadata or [])
        for kernel in module.kernels.values():
            if not kernel.body:
                _refuse("kernel has no code", kernel.name)
        return module

    def _line(self, code: str, comment: str, number: int) -> None:
        if ":" in code and (label := _LABEL.match(code)):
            self._label(label[1])
            code = code[label.end() :].strip()
        if code.startswith("."):
            self._directive(code, comment)
        elif code and self.kernel is not None:
            self.kernel.body.append(_statement(code, number, self.line, self.callers))

    def _label(self, name: str) -> None:
        if name in self.functions:
            self.kernel = self.functions[name]
        elif name in self.objects:
            self.variable = name
            self.module.variables[name] = b""
        elif self.kernel is not None:
            self.kernel.labels[name] = len(self.kernel.body)

    def _directive(self, code: str, comment: str) -> None:
        word, rest = [*code.split(None, 1), ""][:2]
        if word == ".loc":
            self._location(code, comment)
        elif word == ".file" and (match := _FILE.match(code)):
            self.files[int(match[1])] = match[3] or match[2]
            if self.main is None:
                self.main = self.module.source_name = os.path.basename(match[3] or match[2])
        elif word == ".type":
            name, _, kind = rest.partition(",")
            if kind.strip() == "@function":
                self.functions[name.strip()] = Kernel(name.strip())
            else:
                self.objects.add(name.strip())
        elif word == ".amdhsa_kernel":
            kernel = self.functions.get(rest)
            if kernel is None:
                _refuse("descriptor of a kernel that has no code", rest)
            self.described = self.module.kernels[rest] = kernel
        elif word == ".end_amdhsa_kernel":
            self.described = None
        elif word.startswith(".amdhsa_") and self.described is not None:
            self.described.descriptor[word.removeprefix(".amdhsa_")] = rest
        elif word == ".amdgpu_metadata":
            self.metadata = []
        elif word in (".section", ".text", ".data", ".bss"):
            self.kernel = self.variable = None
        elif word == ".size":
            self.variable = None
        elif self.variable is not None:
            self._data(word, rest)

    def _data(self, word: str, rest: str) -> None:
        variables, name = self.module.variables, self.variable
        if word == ".zero" or word == ".skip":
            variables[name] += bytes(int(rest.split(",")[0], 0))
        elif word in _DATA:
            size = _DATA[word]
            for value in rest.split(","):
                if not _INTEGER.fullmatch(value.strip()):
                    _refuse(f"variable {name} is initialised with what is no number", value.strip())
                variables[name] += (int(value, 0) & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif word not in (".p2align",):
            _refuse(f"variable {name} is declared in a way that is not supported", f"{word} {rest}")

    def _location(self, code: str, comment: str) -> None:
        """The lines of the source file among those that a `.loc` tells."""
        if (code, comment) in self.places:  # an inlined line stands in many places
            self.line, self.callers = self.places[code, comment] or (self.line, self.callers)
            return
        match = _LOC.match(code)
        chain = [(self.files.get(int(match[1]), ""), int(match[2]))]
        chain += [(path, int(line)) for path, line in _INLINED.findall(comment)]
        lines = [line for path, line in chain if os.path.basename(path) == self.main]
        place = (lines[0], tuple(lines[1:])) if int(match[2]) and lines else None  # line 0 means "as before"
        self.places[code, comment] = place
        self.line, self.callers = place or (self.line, self.callers)


# ---------------------------------------------------------------- statements

_WHOLE = ("s_waitcnt", "s_delay_alu", "s_wait_alu", "s_waitcnt_depctr", "s_sendmsg", "s_clause", "s_nop")
"""Mnemonics whose operand is an expression of its own."""
_MODIFIER = re.compile(r"([a-z_]\w*)(?::(.*))?$")


def _statement(text: str, number: int, line: int, callers: tuple[int, ...]) -> Statement:
    text = " ".join(text.split())
    first, _, other = text.partition(" :: ")
    second = _statement(other, number, line, callers) if other else None
    mnemonic, _, tail = first.partition(" ")
    if mnemonic in _WHOLE:
        operands, modifiers = ([tail] if tail else []), {}
    else:
        operands, modifiers = _operands(tail, number)
    return Statement(mnemonic, tuple(operands), modifiers, text, number, line, callers, second)


def _operands(tail: str, number: int) -> tuple[list[str], dict[str, str]]:
    """Operands stand between commas; modifiers follow the last one, between blanks."""
    operands, modifiers = [], {}
    for chunk in _split(tail, ","):
        if " " not in chunk:
            operands.append(chunk)
            continue
        first, *rest = _split(chunk, " ")
        operands.append(first)
        for word in rest:
            match = _MODIFIER.match(word)
            if not match:
                _refuse("modifier cannot be read", f"{word} in line {number}")
            modifiers[match[1]] = match[2] or ""
    return operands, modifiers


def _split(text: str, separator: str) -> list[str]:
    """The parts of `text` between separators that stand outside brackets."""
    if "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(separator) if part.strip()]
    return [part for part in split_outside(text, separator) if part]


# ---------------------------------------------------------------- metadata


def _read_metadata(kernels: dict[str, Kernel], lines: list[str]) -> None:
    """Arguments of each kernel, from the YAML that the runtime reads too."""
    for entry in _entries(lines, 2):
        fields = dict(_fields(entry, 4))
        kernel = kernels.get(fields.get(".name", ""))
        if kernel is None:
            continue
        kernel.argument_bytes = int(fields[".kernarg_segment_size"])
        kernel.most_threads = int(fields[".max_flat_workgroup_size"])
        kernel.arguments = tuple(
            Argument(each[".value_kind"], int(each[".offset"]), int(each[".size"]))
            for each in (dict(_fields(argument, 8)) for argument in _entries(entry, 6))
        )
    for kernel in kernels.values():
        if not kernel.arguments and kernel.setting("kernarg_size"):
            _refuse("the metadata do not tell the kernel's arguments", kernel.name)


def _entries(lines: list[str], indent: int) -> Iterator[list[str]]:
    """The items `- ...` at an indentation, each with the dash made blank."""
    entry: list[str] | None = None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if depth == indent and line.lstrip().startswith("- "):
            if entry:
                yield entry
            entry = [line.replace("- ", "  ", 1)]
        elif entry is not None and depth > indent:
            entry.append(line)
        elif entry is not None:
            yield entry
            entry = None
    if entry:
        yield entry


def _fields(lines: list[str], indent: int) -> Iterator[tuple[str, str]]:
    """`key: value` at an indentation."""
    for line in lines:
        if len(line) - len(line.lstrip()) == indent and ":" in line:
            key, _, value = line.strip().partition(":")
            yield key, value.strip().strip("'\"")


def _refuse(problem: str, got: str, needs: str | None = None) -> NoReturn:
    raise EmulationError("AMDGPU assembly", problem, got=got, needs=needs)
