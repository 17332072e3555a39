"""Reading PTX text: entries, declarations, and statements with the source line
each came from. What a statement means is decided elsewhere (`decode`).

    parse(text) -> Module -> Entry -> Statement

Line numbers are those of `.loc` directives (compile with -lineinfo); a
statement inlined from a helper keeps the lines of its callers, nearest first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, NoReturn

from gemmgen.emulate.core.report import split_outside
from gemmgen.errors import EmulationError

SIZES = {
    "pred": 1, "b8": 1, "u8": 1, "s8": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "e4m3x2": 2, "e5m2x2": 2,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8,
}  # fmt: skip
"""Bytes of each PTX type."""


@dataclass(frozen=True)
class Param:
    """A kernel parameter: `count` is 0 for a scalar, else the length of its array."""

    name: str
    type: str
    count: int
    align: int
    pointer: bool

    @property
    def nbytes(self) -> int:
        return SIZES[self.type] * max(self.count, 1)


@dataclass(frozen=True)
class Variable:
    """A variable in a memory space, outside or inside an entry. An `extern`
    shared variable has no size of its own: it is the dynamic shared memory."""

    name: str
    space: str
    nbytes: int
    align: int
    initial: bytes | None = None
    extern: bool = False


class Statement(NamedTuple):
    """One instruction as written. A tuple: a kernel has thousands, and a frozen dataclass takes four times as long to make.

    Attributes:
        opcode: with all its modifiers, `ld.global.v4.f32`.
        operands: texts; `{...}` and `[...]` are one operand each.
        guard: predicate register, or empty.
        negated: the guard is `@!p`.
        line: source line, 0 when unknown; callers: lines it was inlined at.
    """

    opcode: str
    operands: tuple[str, ...]
    guard: str
    negated: bool
    text: str
    line: int
    callers: tuple[int, ...] = ()


@dataclass
class Entry:
    """One kernel.

    Attributes:
        body: its statements; labels: name -> index of the statement that follows.
        registers: name -> type; tables: branch tables of `brx.idx`.
        shared, local: its static shared variables, and those that each thread has for itself.
        threads: `.maxntid` or `.reqntid`, None when the text states neither.
        cluster: `.reqnctapercluster`, None when there is none.
        registers_at_launch: `.maxnreg`, 0 when there is none; ctas_per_sm: `.minnctapersm`.
    """

    name: str
    params: tuple[Param, ...] = ()
    registers: dict[str, str] = field(default_factory=dict)
    shared: list[Variable] = field(default_factory=list)
    local: list[Variable] = field(default_factory=list)
    body: list[Statement] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    registers_at_launch: int = 0
    ctas_per_sm: int = 1


@dataclass
class Module:
    """A PTX file: its entries by name, its variables, its source files by number."""

    target: str
    entries: dict[str, Entry]
    variables: list[Variable]
    files: dict[int, str]


def parse(text: str) -> Module:
    """Read a PTX module.

    Raises:
        EmulationError: the text is not PTX of the supported kind.
    """
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))
    files = {
        int(number): path for number, path in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M)
    }
    module = Module("", {}, [], files)
    position = 0
    while match := re.compile(r"\s*(\.[a-z_]+)").match(text, position):
        word = match[1]
        if word in (".version", ".target", ".address_size", ".file", ".loc"):
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            if word == ".target":
                module.target = text[match.end() : end].strip()
            position = end
        elif word == ".section":
            position = _matching(text, text.index("{", position)) + 1
        else:
            position = _module_item(text, match.start(1), module)
    if text[position:].strip():
        _refuse("cannot be read as PTX", text[position:].strip().splitlines()[0])
    if not module.entries:
        _refuse("holds no kernel", text.strip()[:60])
    return module


def _module_item(text: str, position: int, module: Module) -> int:
    """One entry, function or variable from `position`; the position after it."""
    head = re.compile(r"[^;{=(]*").match(text, position)
    if re.search(r"\.entry\b", head[0]):
        opening = text.index("{", text.index("(", position)) if "(" in text[position:] else position
        header = text[position:opening]
        end = _matching(text, opening)
        entry = _entry(header, text[opening + 1 : end])
        module.entries[entry.name] = entry
        return end + 1
    if re.search(r"\.func\b", head[0]):
        stop = re.compile(r"[^;{]*").match(text, position).end()
        return (_matching(text, stop) if text[stop] == "{" else stop) + 1
    end = text.find(";", position)
    if end < 0:
        _refuse("cannot be read as PTX", text[position : position + 80].strip())
    declaration = text[position:end]
    if ".global" in declaration or ".const" in declaration or ".shared" in declaration:
        module.variables.append(_variable(declaration))
    return end + 1


def _matching(text: str, opening: int) -> int:
    """Index of the brace that closes the one at `opening`."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    _refuse("ends inside a block", text[opening : opening + 60].strip())


_VARIABLE = re.compile(
    r"(?P<extern>\.extern\s+)?(?:\.visible\s+|\.weak\s+|\.common\s+)?\.(?P<space>global|const|shared|local)\b"
    r"(?:\s*\.attribute\([^)]*\))?(?:\s*\.align\s+(?P<align>\d+))?\s*(?:\.v(?P<vector>[24])\s*)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$%.]+)\s*(?P<dims>(?:\[\d*\]\s*)*)(?:=\s*(?P<value>.*))?$",
    re.S,
)


def _variable(declaration: str) -> Variable:
    match = _VARIABLE.match(declaration.strip())
    if not match:
        _refuse("declaration cannot be read", declaration)
    item = SIZES[match["type"]]
    count = int(match["vector"] or 1)
    for dimension in re.findall(r"\[(\d*)\]", match["dims"]):
        count *= int(dimension or 0)
    initial = None
    if match["value"]:
        initial = _initial(match["value"], match["type"], count * item, declaration)
    return Variable(
        match["name"],
        match["space"],
        count * item,
        int(match["align"] or item),
        initial,
        bool(match["extern"]),
    )


def _initial(value: str, type_: str, nbytes: int, declaration: str) -> bytes:
    size = SIZES[type_]
    parts = [part.strip() for part in value.strip().strip("{}").split(",") if part.strip()]
    out = bytearray()
    for part in parts:
        if re.fullmatch(r"0[fFdD][0-9a-fA-F]+", part):
            number = int(part[2:], 16)
        elif re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", part):
            number = int(part.rstrip("U"), 0)
        else:
            _refuse("initial value cannot be read", f"{part} in {declaration[:60]}")
        out += (number & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(out.ljust(nbytes, b"\0"))


_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?P<ptr>\.ptr(?:\s+\.(?:global|const|shared|local))?(?:\s+\.align\s+\d+)?\s+)?"
    r"(?P<name>[\w$%]+)\s*(?:\[(?P<count>\d+)\])?\s*$"
)


def _entry(header: str, body: str) -> Entry:
    match = re.search(r"\.entry\s+([\w$]+)\s*(?:\((.*?)\))?(.*)$", header, re.S)
    if not match:
        _refuse("entry cannot be read", header)
    entry = Entry(match[1])
    params = []
    for text in filter(None, (part.strip() for part in (match[2] or "").split(","))):
        found = _PARAM.match(text)
        if not found or found["type"] not in SIZES:
            _refuse("parameter cannot be read", text, entry.name)
        size = SIZES[found["type"]]
        params.append(
            Param(
                found["name"],
                found["type"],
                int(found["count"] or 0),
                int(found["align"] or size),
                bool(found["ptr"]),
            )
        )
    entry.params = tuple(params)
    if limit := re.search(r"\.(?:maxntid|reqntid)\s+([\d, ]+)", match[3]):
        sizes = [int(size) for size in limit[1].split(",")]
        entry.threads = tuple(sizes + [1] * (3 - len(sizes)))
    if cluster := re.search(r"\.reqnctapercluster\s+([\d, ]+)", match[3]):
        sizes = [int(size) for size in cluster[1].split(",")]
        entry.cluster = tuple(sizes + [1] * (3 - len(sizes)))
    if registers := re.search(r"\.maxnreg\s+(\d+)", match[3]):
        entry.registers_at_launch = int(registers[1])
    if resident := re.search(r"\.minnctapersm\s+(\d+)", match[3]):
        entry.ctas_per_sm = int(resident[1])
    _Body(entry).read(body)
    return entry


_LOCATION = re.compile(r"\.(?:loc|file)\b")  # and not .local
_LOC = re.compile(r"\.loc\s+\d+\s+(\d+)[^\n]*?(?:inlined_at\s+\d+\s+(\d+)[^\n]*)?$", re.M)
_SPACE = re.compile(r"\s*")
_UNEVEN = re.compile(r"\s\s|[^\S ]")  # white space that is more than one blank
_LABEL = re.compile(r"([$%\w.]+)\s*:(?!:)")
_GUARD = re.compile(r"@\s*(!?)\s*([%$\w]+)\s*")
_REGISTER = re.compile(r"([%$\w]+)\s*(?:<(\d+)>)?")
_IDENTIFIER = re.compile(r"(?<![.\w])[%$A-Za-z_][\w$]*")  # not the x of %tid.x, nor that of 0x1F


class _Body:
    """Reads the statements of one entry, block scopes and all.

    Registers and labels declared inside braces (inline assembly) get names of
    their own, so two blocks may use the same ones.
    """

    def __init__(self, entry: Entry):
        self.entry = entry
        self.scopes: list[dict[str, str]] = [{}]  # innermost last: declared name -> unique name
        self.blocks: list[tuple[int, ...]] = []  # scope path of each statement
        self.path: tuple[int, ...] = (0,)
        self.opened = 0
        self.line, self.callers = 0, ()

    def read(self, text: str) -> None:
        position, end = 0, len(text)
        while (position := _SPACE.match(text, position).end()) < end:
            char = text[position]
            if char == "{":
                self.opened += 1
                self.path += (self.opened,)
                self.scopes.append({})
                position += 1
            elif char == "}":
                self.path = self.path[:-1]
                self.scopes.pop()
                position += 1
            elif char == ";":
                position += 1
            elif char == "." and _LOCATION.match(text, position):
                stop = text.find("\n", position)
                stop = end if stop < 0 else stop
                if place := _place(text[position:stop]):
                    self.line, self.callers = place
                position = stop
            else:
                stop = text.find(";", position)
                statement = text[position : stop if stop >= 0 else end]
                if ":" in statement and (label := _LABEL.match(text, position)):
                    position = self._label(label, text)
                    continue
                if stop < 0:
                    _refuse("statement does not end", statement.strip()[:60], self.entry.name)
                self._statement(statement.strip())
                position = stop + 1
        self._resolve_labels()

    def _label(self, match: re.Match, text: str) -> int:
        table = re.compile(r"\s*\.branchtargets\s+([^;]*);").match(text, match.end())
        if table:
            names = tuple(name.strip() for name in table[1].split(","))
            self.entry.tables[match[1]] = names
            return table.end()
        self.entry.labels[self._unique(match[1], self.path)] = len(self.entry.body)
        return match.end()

    @staticmethod
    def _unique(name: str, path: tuple[int, ...]) -> str:
        return name if len(path) == 1 else f"{name}@{path[-1]}"

    def _statement(self, text: str) -> None:
        if text.startswith("."):
            return self._directive(text)
        if _UNEVEN.search(text):
            text = " ".join(text.split())
        rest, name, negated = text, "", False
        if text.startswith("@"):
            guard = _GUARD.match(text)
            rest, name, negated = text[guard.end() :], guard[2], bool(guard[1])
        opcode, _, tail = rest.partition(" ")
        operands = split_operands(tail)
        if len(self.scopes) > 1:
            operands = [_IDENTIFIER.sub(self._lookup, operand) for operand in operands]
            name = _IDENTIFIER.sub(self._lookup, name)
        self.blocks.append(self.path)
        self.entry.body.append(Statement(opcode, tuple(operands), name, negated, text, self.line, self.callers))

    def _lookup(self, match: re.Match) -> str:
        for scope in reversed(self.scopes[1:]):
            if match[0] in scope:
                return scope[match[0]]
        return match[0]

    def _directive(self, text: str) -> None:
        if text.startswith(".reg"):
            _, type_, names = re.split(r"\s+", text, maxsplit=2)
            if type_[1:] not in SIZES:
                _refuse("register type is not supported", text, self.entry.name, self.line)
            for name, count in _REGISTER.findall(names):
                for each in [f"{name}{i}" for i in range(int(count))] if count else [name]:
                    unique = self._unique(each, self.path)
                    self.scopes[-1][each] = unique
                    self.entry.registers[unique] = type_[1:]
        elif ".shared" in text.split("[")[0]:
            self.entry.shared.append(_variable(text))
        elif text.startswith(".local"):
            self.entry.local.append(_variable(text))
        elif not text.startswith((".pragma", ".maxn", ".minn", ".align")):
            _refuse("declaration is not supported", text, self.entry.name, self.line)

    def _resolve_labels(self) -> None:
        """Point each branch at the nearest enclosing block's label of that name."""
        body, labels = self.entry.body, self.entry.labels
        for index, (statement, path) in enumerate(zip(body, self.blocks, strict=True)):
            if statement.opcode.split(".")[0] != "bra" or not statement.operands:
                continue
            name = statement.operands[0]
            for depth in range(len(path), 0, -1):
                unique = self._unique(name, path[:depth])
                if unique in labels:
                    break
            else:
                _refuse("branch to a label that is not there", statement.text, self.entry.name, statement.line)
            if unique != name:
                body[index] = statement._replace(operands=(unique,))


@lru_cache(1 << 14)  # an inlined line stands in many places
def _place(text: str) -> tuple[int, tuple[int, ...]] | None:
    """The line and the callers that a `.loc` tells; None for line 0, which means "as before", and for other directives."""
    match = _LOC.match(text)
    return (int(match[1]), (int(match[2]),) if match[2] else ()) if match and int(match[1]) else None


def split_operands(text: str) -> list[str]:
    """Operand texts, split at the commas outside brackets and braces."""
    if "{" not in text and "[" not in text:
        return [part.strip() for part in text.split(",")] if text.strip() else []
    return split_outside(text, ",")


def _refuse(problem: str, got: str, entry: str = "", line: int = 0) -> NoReturn:
    where = f"PTX entry {entry}" if entry else "PTX module"
    raise EmulationError(where + (f", source line {line}" if line else ""), problem, got=got)
