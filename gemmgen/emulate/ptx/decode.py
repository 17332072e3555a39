"""From a PTX entry to a program the machine can run.

Each statement is decoded once: its operands become slots of the register file
(constants, symbols and special registers have slots too), and the modules
in `isa` bind it to a function. Whatever is not understood is refused here,
before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import NoReturn

import numpy as np

from gemmgen.emulate.core.flow import entry_first
from gemmgen.emulate.core.report import Source
from gemmgen.emulate.ptx.parse import SIZES, Entry, Module, Statement, Variable
from gemmgen.emulate.ptx.program import Block, Instruction, Program, Run
from gemmgen.errors import EmulationError

DTYPES = {
    "pred": np.dtype(np.bool_),
    "b8": np.dtype(np.uint8), "u8": np.dtype(np.uint8), "s8": np.dtype(np.int8),
    "b16": np.dtype(np.uint16), "u16": np.dtype(np.uint16), "s16": np.dtype(np.int16),
    "f16": np.dtype(np.float16), "bf16": np.dtype(np.uint16),
    "b32": np.dtype(np.uint32), "u32": np.dtype(np.uint32), "s32": np.dtype(np.int32),
    "f32": np.dtype(np.float32), "f16x2": np.dtype(np.uint32), "bf16x2": np.dtype(np.uint32),
    "tf32": np.dtype(np.uint32), "e4m3x2": np.dtype(np.uint16), "e5m2x2": np.dtype(np.uint16),
    "b64": np.dtype(np.uint64), "u64": np.dtype(np.uint64), "s64": np.dtype(np.int64),
    "f64": np.dtype(np.float64), "f32x2": np.dtype(np.uint64),
}  # fmt: skip
"""How the value of each PTX type is held; bfloat16 as its bits."""

_TRIPLES = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
SPECIALS = (
    {f"%{name}.{axis}" for name in _TRIPLES for axis in "xyz"}
    | {"%laneid", "%warpid", "%nwarpid", "%cluster_ctarank", "%cluster_nctarank"}
    | {f"%lanemask_{kind}" for kind in ("eq", "lt", "le", "gt", "ge")}
)  # fmt: skip
"""Special registers the machine provides; all are 32 bits wide."""

_INTEGER = re.compile(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_DECIMAL = re.compile(r"-?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?$")
_SINGLE, _DOUBLE = re.compile(r"0[fF][0-9a-fA-F]{8}$"), re.compile(r"0[dD][0-9a-fA-F]{16}$")
_SYMBOL = re.compile(r"([A-Za-z_$][\w$.]*)(?:\+(\d+))?$")
_ADDRESS = re.compile(r"\[\s*([^+\s\]]+)\s*(?:\+\s*(-?\w+))?\s*\]$")


class Cursor:
    """One statement while it is decoded: its modifiers are taken one by one, and
    none may be left."""

    def __init__(self, decoder: Decoder, statement: Statement, number: int):
        self.decoder, self.statement, self.number = decoder, statement, number
        self.base, *self.modifiers = statement.opcode.split(".")
        self.operands = statement.operands

    # ---- modifiers
    def flag(self, name: str) -> bool:
        """Whether the modifier is there; it is taken."""
        if name in self.modifiers:
            self.modifiers.remove(name)
            return True
        return False

    def choice(self, *names: str, default: str | None = None) -> str:
        """The one of `names` that is there; refused when none is and there is no default."""
        for name in names:
            if self.flag(name):
                return name
        if default is None:
            self.refuse("instruction needs a modifier it does not have", needs="one of: " + ", ".join(names))
        return default

    def type(self) -> str:
        """The last modifier, which must be a type."""
        if not self.modifiers or self.modifiers[-1] not in SIZES:
            self.refuse("instruction has no type that is supported")
        return self.modifiers.pop()

    def drop(self, *names: str) -> None:
        """Accept modifiers that change speed or visibility, not values."""
        for name in names:
            self.flag(name)

    def finish(self) -> None:
        if self.modifiers:
            self.refuse("modifier is not supported", needs="nothing but what emulate/ptx/isa/*.py takes")

    # ---- operands
    def count(self, *allowed: int) -> int:
        if len(self.operands) not in allowed:
            self.refuse(f"instruction has {len(self.operands)} operands")
        return len(self.operands)

    def source(self, operand: int | str, type_: str) -> int:
        """Slot of a register, constant, symbol or special register read as `type_`."""
        text = self.operands[operand] if isinstance(operand, int) else operand
        return self.decoder.value(text, type_, self)

    def target(self, operand: int | str) -> int:
        """Slot of the register written; -1 for the sink `_`."""
        text = self.operands[operand] if isinstance(operand, int) else operand
        if text == "_":
            return -1
        if text not in self.decoder.entry.registers:
            self.refuse("result is not a declared register", needs="a register")
        return self.decoder.slot(text)

    def width(self, operand: int | str) -> int:
        """Bytes of a register; 0 for the sink `_`."""
        text = self.operands[operand] if isinstance(operand, int) else operand
        return SIZES[self.decoder.entry.registers[text]] if text in self.decoder.entry.registers else 0

    def vector(self, operand: int | str) -> list[str]:
        """The members of `{a, b}`, or the operand alone."""
        text = self.operands[operand] if isinstance(operand, int) else operand
        if text.startswith("{"):
            return [part.strip() for part in text.strip("{} ").split(",")]
        return [text]

    def address(self, operand: int, type_: str) -> tuple[int, int]:
        """(slot of the base, byte offset) of `[base+offset]`."""
        match = _ADDRESS.match(self.operands[operand])
        if not match:
            self.refuse("address cannot be read")
        return self.source(match[1], type_), int(match[2] or "0", 0)

    def constant(self, operand: int) -> int:
        """An operand that must be a literal integer."""
        if not _INTEGER.match(self.operands[operand]):
            self.refuse("operand must be a constant here", needs="an integer literal")
        return int(self.operands[operand].rstrip("U"), 0)

    def refuse(self, problem: str, needs: str | None = None, remedy: str | None = None) -> NoReturn:
        raise EmulationError(
            self.decoder.where(self.statement),
            problem,
            got=self.statement.text,
            needs=needs,
            remedy=remedy,
        )


BUILDERS: dict[str, Callable[[Cursor], Run]] = {}
"""Opcode, without modifiers, -> the function that decodes it."""


def instruction(*names: str):
    """Register a decoder of instructions."""

    def register(build: Callable[[Cursor], Run]):
        for name in names:
            BUILDERS[name] = build
        return build

    return register


class Decoder:
    """Decodes one entry.

    Args:
        symbols: addresses of the module's variables.
        source: names a statement's place for messages.
    """

    def __init__(
        self, module: Module, entry: Entry, symbols: Mapping[str, int], source: Source
    ):
        self.entry, self.source = entry, source
        self.program = Program(entry)
        self._slots: dict[str, int] = {}
        self._constants: dict[tuple[str, str], int] = {}
        self.symbols = dict(symbols)
        self._layout_shared(module)
        self.program.local = self._one_after_another(entry.local)
        offset = 0
        for param in entry.params:
            offset = -(-offset // param.align) * param.align
            self.program.param_offsets[param.name] = self.symbols[param.name] = offset
            offset += param.nbytes
        self.program.param_bytes = offset

    def _layout_shared(self, module: Module) -> None:
        """Static variables one after the other, then the dynamic shared memory."""
        outside = [variable for variable in module.variables if variable.space == "shared"]
        body = " ".join(" ".join(statement.operands) for statement in self.entry.body)
        used = [v for v in outside if re.search(rf"(?<![\w$]){re.escape(v.name)}(?![\w$])", body)]
        offset = self._one_after_another([v for v in used if not v.extern] + self.entry.shared)
        dynamic = [v for v in used if v.extern]
        if dynamic:
            align = max(v.align for v in dynamic)
            offset = -(-offset // align) * align
            self.symbols.update({v.name: offset for v in dynamic})
        self.program.static_shared = offset

    def _one_after_another(self, variables: list[Variable]) -> int:
        """Variables of one space get their addresses, the first of them 0; the address after the last."""
        offset = 0
        for variable in variables:
            offset = -(-offset // variable.align) * variable.align
            self.symbols[variable.name] = offset
            offset += variable.nbytes
        return offset

    def where(self, statement: Statement) -> str:
        return self.source.where(self.entry.name, statement)

    def place(self, statement: Statement) -> str:
        return self.source.place(statement)

    def slot(self, name: str) -> int:
        found = self._slots.get(name)
        if found is None:
            found = self._slots[name] = len(self._slots)
        return found

    def value(self, text: str, type_: str, cursor: Cursor) -> int:
        declared = self.entry.registers.get(text)
        if declared is not None:
            if declared != type_:
                if (type_ == "pred") != (declared == "pred"):
                    cursor.refuse(f"register {text} is of the wrong kind")
                if SIZES[declared] < SIZES[type_]:
                    cursor.refuse(f"register {text} is narrower than the instruction's type {type_}")
            return self.slot(text)
        if text in SPECIALS:
            slot = self.slot(text)
            self.program.specials[text] = slot
            return slot
        slot = self._constants.get((text, type_))
        if slot is None:
            constant = self._constant(text, type_)
            if constant is None:
                cursor.refuse(f"operand {text} is not known", needs="a declared register, a constant or a symbol")
            constant.setflags(write=False)
            slot = self._constants[text, type_] = self.slot(f"{text}:{type_}")
            self.program.constants[slot] = constant
        return slot

    def _constant(self, text: str, type_: str) -> np.ndarray | None:
        dtype = DTYPES[type_]
        symbol = _SYMBOL.match(text)
        if symbol and symbol[1] in self.symbols:
            number = self.symbols[symbol[1]] + int(symbol[2] or 0)
        elif _INTEGER.match(text):
            number = int(text.rstrip("U"), 0)
            if dtype.kind == "f":
                return np.array(number, dtype)
        elif _SINGLE.match(text):
            single = np.array(int(text[2:], 16), np.uint32)
            if dtype == np.float64:
                return single.view(np.float32).astype(dtype)
            return single.view(dtype) if dtype.itemsize == 4 else None
        elif _DOUBLE.match(text):
            double = np.array(int(text[2:], 16), np.uint64)
            if dtype == np.float32:
                return double.view(np.float64).astype(dtype)
            return double.view(dtype) if dtype.itemsize == 8 else None
        elif _DECIMAL.match(text) and dtype.kind == "f":
            return np.array(float(text), dtype)
        else:
            return None
        if type_ == "pred":
            return np.array(bool(number))
        bits = number & (1 << 8 * dtype.itemsize) - 1
        return np.array(bits, f"u{dtype.itemsize}").view(dtype)

    def decode(self) -> Program:
        """The whole entry, block by block.

        Raises:
            EmulationError: an instruction, modifier or operand is not supported.
        """
        body, labels = self.entry.body, self.entry.labels
        starts = {0} | set(labels.values())
        for number, statement in enumerate(body):
            if _ends_block(statement.opcode):
                starts.add(number + 1)
            if _waits(statement.opcode):  # it may be tried again, and what is before it may not
                starts.add(number)
        bounds = sorted(start for start in starts if start < len(body))
        block_at = {start: index for index, start in enumerate(bounds)}
        blocks = []
        for index, start in enumerate(bounds):
            stop = bounds[index + 1] if index + 1 < len(bounds) else len(body)
            block = Block([], following=index + 1 if index + 1 < len(bounds) else -1)
            for number in range(start, stop):
                self._add(block, number, block_at)
            block.length, block.code = len(block.code), tuple(_joined(block.code))
            blocks.append(block)
        self.program.blocks = _in_order(blocks)
        self.program.slots = len(self._slots)
        return self.program

    def _add(self, block: Block, number: int, block_at: Mapping[int, int]) -> None:
        statement = self.entry.body[number]
        cursor = Cursor(self, statement, number)
        guard = self.value(statement.guard, "pred", cursor) if statement.guard else -1
        if not _ends_block(statement.opcode):
            run = self._built(cursor)
            cursor.finish()
            block.code.append(Instruction(run, guard, statement.negated, statement, number))
            return
        block.last = Instruction(None, guard, statement.negated, statement, number)
        if _waits(statement.opcode):
            block.end = "wait"
            block.last = block.last._replace(run=self._built(cursor))
        elif _signals(statement.opcode):
            block.code.append(Instruction(self._built(cursor), guard, statement.negated, statement, number))
            block.last = None
        elif cursor.base in ("bra", "brx"):
            cursor.drop("uni")
            if cursor.base == "brx":
                cursor.choice("idx")
                if guard >= 0:
                    cursor.refuse("guarded branch table is not supported")
                block.selector = cursor.source(0, "u32")
                names = self.entry.tables.get(statement.operands[1])
                if names is None:
                    cursor.refuse("branch table is not declared")
            else:
                names = (statement.operands[0],)
            if any(self.entry.labels[name] not in block_at for name in names):
                cursor.refuse("branch leads past the end")
            block.end = "table" if cursor.base == "brx" else "branch"
            block.targets = tuple(block_at[self.entry.labels[name]] for name in names)
        elif cursor.base in ("ret", "exit"):
            cursor.drop("uni")
            block.end = "exit"
        elif cursor.base == "trap":
            block.end = "trap"
        else:
            block.end = "barrier"
            block.barrier = self._barrier(cursor)
        cursor.finish()

    @staticmethod
    def _built(cursor: Cursor) -> Run:
        build = BUILDERS.get(cursor.base)
        if build is None:
            cursor.refuse("instruction is not supported")
        try:
            return build(cursor)
        except (IndexError, ValueError):
            cursor.refuse("operands do not fit the instruction")

    @staticmethod
    def _barrier(cursor: Cursor) -> tuple[int, int]:
        cursor.drop("cta")
        cursor.choice("sync")
        cursor.drop("aligned", "all")
        count = cursor.count(1, 2)
        if count == 2 and _INTEGER.match(cursor.operands[1]) and cursor.constant(1) % 32:
            cursor.refuse("barrier for part of a warp", needs="a multiple of 32 threads")
        return cursor.source(0, "u32"), cursor.source(1 if count == 2 else "0", "u32")


def _joined(code: list[Instruction]) -> list[Instruction]:
    """The same code, with neighbours as one instruction where the first knows how to run both."""
    result: list[Instruction] = []
    for each in code:
        last = result[-1] if result else each
        run = last.run.joined(each.run) if hasattr(last.run, "joined") and last is not each else None
        if run is None or (last.guard, last.negated) != (each.guard, each.negated):
            result.append(each)
        else:
            result[-1] = last._replace(run=run, others=(*last.others, each.statement))
    return result


@cache
def _ends_block(opcode: str) -> bool:
    base, _, kind = opcode.partition(".")
    if base in ("bar", "barrier"):
        return "sync" in kind and "warp" not in kind or _waits(opcode)
    return base in ("bra", "brx", "ret", "exit", "trap") or _waits(opcode) or _signals(opcode)


@cache
def _waits(opcode: str) -> bool:
    """Whether a warp may be parked here until others have done something."""
    return opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait", "barrier.cluster.wait", "setmaxnreg.inc"))


@cache
def _signals(opcode: str) -> bool:
    """Whether others may be let go here, and go first."""
    return opcode.startswith(("mbarrier.arrive", "mbarrier.complete_tx", "cp.async.mbarrier.arrive"))


def _in_order(blocks: list[Block]) -> list[Block]:
    """The blocks renumbered in weak topological order; unreachable ones keep a place at the end."""
    successors = []
    for block in blocks:
        following = list(block.targets)
        leaves = block.end in ("exit", "branch", "trap", "table") and block.last.guard < 0
        if not leaves and block.following >= 0:
            following.append(block.following)
        successors.append(following)
    order = entry_first(successors)
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    for block in blocks:
        block.targets = tuple(place[target] for target in block.targets)
        block.following = place[block.following]
    return [blocks[old] for old in order]
