"""From a kernel's statements to a program the machine can run.

Each statement is decoded once: its operands become slots of the register file
or constants, and the modules beside this one bind it to a function. Whatever is
not understood is refused here, before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from gemmgen.emulate.amdgpu.assembly import Kernel, Module, Statement
from gemmgen.emulate.amdgpu.names import canonical
from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.flow import entry_first
from gemmgen.emulate.memory import SHARED_WINDOW
from gemmgen.emulate.report import Source
from gemmgen.errors import EmulationError

if TYPE_CHECKING:
    from gemmgen.emulate.amdgpu.machine import Wave

V, A, S = 0, 256, 512
"""First slots of the vector, accumulation and scalar registers."""
VCC, TTMP, M0, EXEC = S + 106, S + 108, S + 124, S + 126
SLOTS = S + 128
NULL = -1
"""In place of a slot: what is written there is lost, what is read is 0."""

DTYPES = {
    "u16": np.dtype(np.uint16), "i16": np.dtype(np.int16), "f16": np.dtype(np.float16), "b16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32), "i32": np.dtype(np.int32), "f32": np.dtype(np.float32), "b32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "i64": np.dtype(np.int64), "f64": np.dtype(np.float64), "b64": np.dtype(np.uint64),
}  # fmt: skip

Read = Callable[["Wave"], np.ndarray]
"""Gives an operand's value: `[lanes, columns]`, `[columns]` or 0-d."""
Run = Callable[["Wave"], None]

_SPECIAL = {
    "vcc": (VCC, 2), "vcc_lo": (VCC, 1), "vcc_hi": (VCC + 1, 1),
    "exec": (EXEC, 2), "exec_lo": (EXEC, 1), "exec_hi": (EXEC + 1, 1),
    "m0": (M0, 1), "null": (NULL, 1),
}  # fmt: skip
_FILES = {"v": V, "a": A, "s": S, "ttmp": TTMP}
_REGISTER = re.compile(r"(v|a|s|ttmp)(?:(\d+)|\[(\d+)(?::(\d+))?\])(?:\.(l|h))?$")
_INTEGER = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)$")
_DECIMAL = re.compile(r"-?\d+\.\d*(e[-+]?\d+)?$")
_SYMBOL = re.compile(r"([A-Za-z_.$][\w.$]*)@(?:rel32|abs32)@(lo|hi)(?:\+\d+)?$")
_APERTURES = {"src_shared_base": SHARED_WINDOW, "src_shared_base_lo": 0, "src_shared_base_hi": SHARED_WINDOW >> 32}
_ONE_OVER_TWO_PI = 0.15915494


def slot_name(slot: int) -> str:
    """As the assembly writes it, for messages."""
    for name, (first, count) in _SPECIAL.items():
        if count == 1 and slot == first:
            return f"register {name}"
    if slot >= TTMP and slot < M0:
        return f"register ttmp{slot - TTMP}"
    letter, first = ("s", S) if slot >= S else ("a", A) if slot >= A else ("v", V)
    return f"register {letter}{slot - first}"


@dataclass(frozen=True)
class Operand:
    """An operand as written.

    Attributes:
        slot: of its first register, None for a constant; count: how many registers.
        constant: an int or float, or None; literal: whether it was written in hexadecimal,
            bits rather than a number.
        half: `l` or `h` where one half of the register is named.
        negated, absolute, extended: its modifiers.
        select: the byte or word of it that is used, `BYTE_2`; empty for all of it (SDWA).
        moved: from which lane each lane takes it (DPP).
    """

    slot: int | None
    count: int = 1
    constant: int | float | None = None
    literal: bool = False
    half: str = ""
    negated: bool = False
    absolute: bool = False
    extended: bool = False
    select: str = ""
    moved: Movement | None = None

    @property
    def plain(self) -> bool:
        """Whether it is a register as it stands."""
        return self.slot is not None and self.slot != NULL and not self.select and self.moved is None


@dataclass(frozen=True)
class Instruction:
    """A decoded statement; `run` is None for those that steer."""

    run: Run | None
    statement: Statement


@dataclass
class Block:
    """Instructions in a row, and how control leaves.

    Attributes:
        length: how many those are in the program.
        end: `next`, `branch`, `barrier`, `wait`, `exit` or `trap`.
        condition: of a branch: `scc`, `vcc` or `exec`, with `n` where it is taken when that
            is set; empty for always.
        last: the instruction that ends it, None for `next`.
        target: block a branch leads to; following: the one control falls into; -1 for none.
    """

    code: list[Instruction]
    length: int = 0
    end: str = "next"
    condition: str = ""
    last: Instruction | None = None
    target: int = -1
    following: int = -1


@dataclass
class Program:
    """A kernel ready to run; blocks are in the order waves are preferred in, block 0 the entry."""

    kernel: Kernel
    target: Target
    blocks: list[Block]


_STEERS = {
    "s_branch": ("branch", ""), "s_cbranch_scc0": ("branch", "scc"), "s_cbranch_scc1": ("branch", "sccn"),
    "s_cbranch_vccz": ("branch", "vcc"), "s_cbranch_vccnz": ("branch", "vccn"),
    "s_cbranch_execz": ("branch", "exec"), "s_cbranch_execnz": ("branch", "execn"),
    "s_barrier": ("barrier", ""), "s_barrier_wait": ("wait", ""), "s_endpgm": ("exit", ""), "s_trap": ("trap", ""),
}  # fmt: skip
"""Mnemonics that end a block: how, and on what condition."""

BUILDERS: dict[str, Callable[[Cursor], Run]] = {}
"""Canonical name -> the function that decodes it."""


def instruction(*names: str):
    """Register a decoder of instructions."""

    def register(build: Callable[[Cursor], Run]):
        for name in names:
            if name in BUILDERS:
                raise ValueError(f"{name} is decoded twice")
            BUILDERS[name] = build
        return build

    return register


class Cursor:
    """One statement while it is decoded: its modifiers are taken one by one, and none may be left.

    Attributes:
        name: canonical mnemonic; encoding: `e32`, `e64`, `e64_dpp`, ... or empty.
    """

    def __init__(self, decoder: Decoder, statement: Statement):
        self.decoder, self.statement, self.target = decoder, statement, decoder.target
        self.name, self.encoding = canonical(statement.mnemonic)
        self.modifiers = dict(statement.modifiers)
        self.operands = [self._operand(text) for text in statement.operands]
        self.movement: Movement | None = None
        self.into = self.unused = ""
        first = 2 if "_co_" in self.name else 1  # of the sources
        if "dpp" in self.encoding:
            first -= self.name.startswith("v_cmpx") and not self.target.cdna
            self.movement = Movement.of(self)
            self.operands[first] = replace(self.operands[first], moved=self.movement)
        elif self.encoding == "sdwa":
            for i, name in ((first, "src0_sel"), (first + 1, "src1_sel")):
                select = self.modifiers.pop(name, "DWORD")
                if select != "DWORD":
                    self.operands[i] = replace(self.operands[i], select=select)
            self.into = self.modifiers.pop("dst_sel", "DWORD").removeprefix("DWORD")
            self.unused = self.modifiers.pop("dst_unused", "UNUSED_PAD")

    # ---- modifiers
    def flag(self, name: str) -> bool:
        """Whether the modifier is there; it is taken."""
        return self.modifiers.pop(name, None) is not None

    def number(self, name: str, default: int = 0) -> int:
        """The value of `name:4`; it is taken."""
        text = self.modifiers.pop(name, None)
        if text is None:
            return default
        if not _INTEGER.match(text):
            self.refuse(f"modifier {name} is no number")
        return int(text, 0)

    def bits(self, name: str, default: tuple[int, ...]) -> tuple[int, ...]:
        """The values of `name:[0,1,0]`; they are taken, and filled up from the default."""
        text = self.modifiers.pop(name, None)
        if text is None:
            return default
        got = tuple(int(bit) for bit in text.strip("[]").split(","))
        return got + default[len(got) :]

    def drop(self, *names: str) -> None:
        """Accept modifiers that change speed or visibility, not values."""
        for name in names:
            self.modifiers.pop(name, None)

    def finish(self) -> None:
        if self.modifiers:
            self.refuse("modifier is not supported: " + ", ".join(self.modifiers))

    # ---- operands
    def _operand(self, text: str) -> Operand:
        negated = absolute = extended = False
        while True:
            if text.startswith("-") and not (_INTEGER.match(text) or _DECIMAL.match(text)):
                negated, text = not negated, text[1:]
            elif text.startswith("|"):
                absolute, text = True, text.strip("|")
            elif match := re.match(r"(neg|abs|sext)\((.*)\)$", text):
                negated ^= match[1] == "neg"
                absolute |= match[1] == "abs"
                extended |= match[1] == "sext"
                text = match[2]
            else:
                break
        flags = {"negated": negated, "absolute": absolute, "extended": extended}
        if text in _SPECIAL:
            slot, count = _SPECIAL[text]
            return Operand(slot, count, **flags)
        if match := _REGISTER.match(text):
            first = int(match[2] or match[3])
            last = int(match[4] or first)
            return Operand(_FILES[match[1]] + first, last - first + 1, half=match[5] or "", **flags)
        if _INTEGER.match(text):
            return Operand(None, constant=int(text, 0), literal="x" in text, **flags)
        if _DECIMAL.match(text):
            return Operand(None, constant=float(text), **flags)
        if text in _APERTURES:
            return Operand(None, constant=_APERTURES[text], literal=True, **flags)
        if match := _SYMBOL.match(text):
            return Operand(None, constant=self.decoder.symbol(match[1], match[2], self), literal=True)
        return Operand(None, constant=None)  # a label, `off`, an expression: its builder looks at the text

    def count(self, *allowed: int) -> int:
        if len(self.operands) not in allowed:
            self.refuse(f"instruction has {len(self.operands)} operands")
        return len(self.operands)

    def text(self, index: int) -> str:
        return self.statement.operands[index]

    def integer(self, index: int) -> int:
        """An operand that must be a literal integer."""
        value = self.operands[index].constant
        if not isinstance(value, int):
            self.refuse("operand must be a constant here")
        return value

    def slot(self, index: int, registers: int = 1) -> int:
        """First slot of an operand that must be registers, so many of them."""
        operand = self.operands[index]
        if operand.slot is None or (operand.count != registers and operand.slot != NULL):
            self.refuse(f"operand {self.text(index)} is not {registers} register{'s' * (registers > 1)}")
        return operand.slot

    def mask_slot(self, index: int) -> int:
        """Slot of a scalar register, or a pair of them, that holds a bit for each lane."""
        return self.slot(index, self.target.wave // 32)

    def read(self, index: int, type_: str, half: int = 0) -> Read:
        """How to read an operand; it is a fault if what is read is not defined.

        Args:
            type_: a key of DTYPES.
            half: which half of a register a 16-bit operand is in, where its name does not tell.
        """
        operand = self.operands[index]
        dtype = DTYPES[type_]
        if operand.slot is None:
            value = self._constant(operand, index, type_)
            return lambda wave: value
        if operand.slot == NULL:
            zero = np.zeros((), dtype)
            return lambda wave: zero
        if operand.count != max(1, dtype.itemsize // 4):
            self.refuse(f"operand {self.text(index)} is not {dtype.itemsize} bytes wide")
        high = half or int(operand.half == "h")
        if not operand.plain:
            read = _reads_picked(_picked(operand), operand.slot, dtype, high)
        elif dtype.itemsize == 8:
            read = _reads_pair(operand.slot, dtype)
        elif dtype.itemsize == 4:
            read = _reads_word(operand.slot, dtype)
        else:
            read = _reads_half(operand.slot, dtype, high)
        return _modified(read, operand, dtype)

    def loose(self, index: int, type_: str = "u32"):
        """How to read an operand with what is undefined in it: (value, undefined bits or None)."""
        operand = self.operands[index]
        if operand.slot is None or operand.slot == NULL:
            read = self.read(index, type_)
            return lambda wave: (read(wave), None)
        if operand.count != DTYPES[type_].itemsize // 4:
            self.refuse(f"operand {self.text(index)} is not {DTYPES[type_].itemsize} bytes wide")
        slot = operand.slot
        if operand.count == 2:
            return lambda wave: _loose_pair(wave, slot)
        return _picked(operand)

    def put(self, index: int):
        """How to write 32 bits to an operand: (wave, value, undefined bits or None)."""
        slot = self.slot(index)
        if not self.into:
            return lambda wave, value, undefined=None: wave.put(slot, value, undefined)
        shift, bits = _PARTS[self.into]
        field, keep = np.uint32((1 << bits) - 1), self.unused == "UNUSED_PRESERVE"
        if self.unused == "UNUSED_SEXT":
            self.refuse("a sign-extended part of a result is not supported")

        def put(wave, value, undefined=None):
            inside = (value & field) << np.uint32(shift)
            unknown = None if undefined is None else (undefined & field) << np.uint32(shift)
            if keep:
                outside = ~(field << np.uint32(shift))
                old = None if wave.state[slot] is None else wave.undefined(slot)
                inside = inside | wave.r[slot] & outside
                if old is not None:
                    unknown = old & outside if unknown is None else unknown | old & outside
            wave.put(slot, inside, unknown)

        return put

    def _constant(self, operand: Operand, index: int, type_: str) -> np.ndarray:
        """A constant as an operand of a type takes it: integers as they are, floating-point numbers in
        the type's own format, literals as bits (of an FP64 operand the upper ones)."""
        value, dtype = operand.constant, DTYPES[type_]
        if value is None:
            self.refuse(f"operand {self.text(index)} is not known")
        bits = 8 * dtype.itemsize
        if isinstance(value, float):
            floats = {16: np.float16, 32: np.float32, 64: np.float64}
            result = np.array(value if value != _ONE_OVER_TWO_PI else 1 / (2 * np.pi), floats[bits])
            result = result.view(f"u{dtype.itemsize}")
        else:
            if operand.literal and type_ == "f64":
                value <<= 32
            result = np.array(value & (1 << bits) - 1, f"u{dtype.itemsize}")
        result = result.view(dtype)
        if operand.absolute:
            result = np.abs(result)
        return np.negative(result) if operand.negated else result

    def refuse(self, problem: str, needs: str | None = None) -> NoReturn:
        raise EmulationError(
            self.decoder.where(self.statement),
            problem,
            got=self.statement.text,
            needs=needs,
            has=f"line {self.statement.number} of the assembly, for {self.target.name}",
        )


# ---------------------------------------------------------------- reading registers

_PARTS = {f"BYTE_{i}": (8 * i, 8) for i in range(4)} | {f"WORD_{i}": (16 * i, 16) for i in range(2)}
"""Selections of SDWA: (first bit, bits)."""


class Movement:
    """From which lane each lane takes its first operand (DPP).

    Attributes:
        index: `[lanes, 1]`, the source; valid: `[lanes, 1]` bool, whether there is one.
        enabled: `[lanes, 1]` bool, lanes that take part at all.
        zero: whether lanes without a source read 0; else they are not written.
        inactive: whether lanes that EXEC switches off are sources too.
    """

    def __init__(self, source: np.ndarray, wave: int, rows: int, banks: int, zero: bool, inactive: bool):
        lane = np.arange(wave)
        self.valid = ((source >= 0) & (source < wave))[:, None]
        self.index = np.clip(source, 0, wave - 1)[:, None]
        self.enabled = ((rows >> lane // 16 & 1) & (banks >> lane % 16 // 4 & 1)).astype(bool)[:, None]
        self.zero, self.inactive = zero, inactive

    @classmethod
    def of(cls, cursor: Cursor) -> Movement:
        """The one its modifiers tell."""
        wave = cursor.target.wave
        lane = np.arange(wave)
        row, within = lane // 16 * 16, lane % 16
        if "quad_perm" in cursor.modifiers:
            source = lane // 4 * 4 + np.array(cursor.bits("quad_perm", ()))[lane % 4]
        elif "dpp8" in cursor.modifiers:
            source = lane // 8 * 8 + np.array(cursor.bits("dpp8", ()))[lane % 8]
        elif cursor.flag("row_mirror"):
            source = row + 15 - within
        elif cursor.flag("row_half_mirror"):
            source = lane // 8 * 8 + 7 - lane % 8
        else:
            name = next((name for name in _MOVEMENTS if name in cursor.modifiers), None)
            if name is None:
                cursor.refuse("movement between lanes is not supported")
            source = _MOVEMENTS[name](lane, row, within, cursor.number(name))
        rows, banks = cursor.number("row_mask", 15), cursor.number("bank_mask", 15)
        return cls(source, wave, rows, banks, cursor.flag("bound_ctrl"), cursor.number("fi") == 1)

    def source(self, wave) -> np.ndarray:
        """`[lanes, columns]` bool: the lanes that have a source."""
        valid, lanes = np.broadcast_to(self.valid, wave.shape), wave.executed
        if self.inactive or lanes is None:
            return valid
        return valid & np.take_along_axis(lanes, np.broadcast_to(self.index, wave.shape), 0)

    def within(self, run: Run) -> Run:
        """The instruction, executed by the lanes that take part and have a source."""

        def moved(wave):
            lanes = wave.executed = wave.lanes
            mask = np.broadcast_to(self.enabled, wave.shape)
            if not self.zero:
                mask = mask & self.source(wave)
            wave.lanes = mask if lanes is None else mask & lanes
            try:
                run(wave)
            finally:
                wave.lanes = lanes

        return moved


def _within_row(source: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.where((source >= row) & (source < row + 16), source, -1)


_MOVEMENTS = {
    "row_shl": lambda lane, row, within, n: _within_row(lane + n, row),
    "row_shr": lambda lane, row, within, n: _within_row(lane - n, row),
    "row_ror": lambda lane, row, within, n: row + (within - n) % 16,
    "row_share": lambda lane, row, within, n: row + n,
    "row_newbcast": lambda lane, row, within, n: row + n,
    "row_xmask": lambda lane, row, within, n: row + (within ^ n),
    "row_bcast": lambda lane, row, within, n: np.where(lane > n, lane // (n + 1) * (n + 1) - 1, -1),
    "wave_shr": lambda lane, row, within, n: lane - n,
    "wave_shl": lambda lane, row, within, n: np.where(lane + n < len(lane), lane + n, -1),
    "wave_ror": lambda lane, row, within, n: (lane - n) % len(lane),
    "wave_rol": lambda lane, row, within, n: (lane + n) % len(lane),
}


def _picked(operand: Operand):
    """How to read a word with what is undefined in it, moved between lanes and cut as its modifiers say."""
    slot, moved, select = operand.slot, operand.moved, operand.select

    def read(wave):
        value, undefined = wave.r[slot], None if wave.state[slot] is None else wave.undefined(slot)
        if moved is not None:
            index, source = np.broadcast_to(moved.index, wave.shape), moved.source(wave)
            value = np.where(source, np.take_along_axis(value, index, 0), np.uint32(0))
            if undefined is not None:
                undefined = np.take_along_axis(np.broadcast_to(undefined, wave.shape), index, 0)
                undefined = np.where(source, undefined, np.uint32(0))
        if select:
            value = _cut(value, select, operand.extended)
            undefined = None if undefined is None else _cut(undefined, select, operand.extended)
        return value, undefined

    return read


def _cut(value: np.ndarray, select: str, signed: bool) -> np.ndarray:
    shift, bits = _PARTS[select]
    up, down = np.uint32(32 - bits - shift), np.uint32(32 - bits)
    if signed:
        return ((value << up).view(np.int32) >> down.astype(np.int32)).view(np.uint32)
    return value << up >> down


def _reads_picked(pick, slot: int, dtype: np.dtype, high: int) -> Read:
    bits = 0xFFFF << 16 * high if dtype.itemsize == 2 else 0xFFFFFFFF

    def read(wave):
        value, undefined = pick(wave)
        if undefined is not None:
            wave.refuse_undefined(slot, undefined, bits, wave.lanes)
        if dtype.itemsize == 2:
            return (value >> np.uint32(16 * high)).astype(np.uint16).view(dtype)
        return value.view(dtype)

    return read


def _reads_word(slot: int, dtype: np.dtype) -> Read:
    if dtype == np.uint32:

        def plain(wave):
            if wave.state[slot] is not None:
                wave.check(slot)
            return wave.r[slot]

        return plain

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot)
        return wave.r[slot].view(dtype)

    return read


def _reads_pair(slot: int, dtype: np.dtype) -> Read:
    high = slot + 1

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot)
        if wave.state[high] is not None:
            wave.check(high)
        return join(wave.r[slot], wave.r[high]).view(dtype)

    return read


def _reads_half(slot: int, dtype: np.dtype, high: int) -> Read:
    bits, shift = 0xFFFF << 16 * high, np.uint32(16)

    def read(wave):
        if wave.state[slot] is not None:
            wave.check(slot, bits)
        value = wave.r[slot]
        return (value >> shift if high else value).astype(np.uint16).view(dtype)

    return read


def _modified(read: Read, operand: Operand, dtype: np.dtype) -> Read:
    """With the operand's negation and absolute value, which act on the sign bit."""
    if dtype.kind != "f":
        return read
    if operand.absolute and operand.negated:
        return lambda wave: -np.abs(read(wave))
    if operand.absolute:
        return lambda wave: np.abs(read(wave))
    return (lambda wave: -read(wave)) if operand.negated else read


def join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two uint32 as one uint64."""
    return high.astype(np.uint64) << np.uint64(32) | low


def _loose_pair(wave: Wave, slot: int):
    parts = [None if wave.state[each] is None else wave.undefined(each) for each in (slot, slot + 1)]
    undefined = None
    if parts[0] is not None or parts[1] is not None:
        undefined = join(*(np.zeros((), np.uint32) if part is None else part for part in parts))
    return join(wave.r[slot], wave.r[slot + 1]), undefined


# ---------------------------------------------------------------- kernels


class Decoder:
    """Decodes one kernel.

    Args:
        symbols: addresses of the module's variables.
        source: names a statement's place for messages.
    """

    def __init__(self, module: Module, kernel: Kernel, target: Target, symbols: Mapping[str, int], source: Source):
        self.kernel, self.target, self.symbols, self.source = kernel, target, symbols, source
        self.module = module

    def where(self, statement: Statement) -> str:
        return self.source.where(self.kernel.name, statement)

    def place(self, statement: Statement) -> str:
        return self.source.place(statement)

    def symbol(self, name: str, part: str, cursor: Cursor) -> int:
        """Half of a variable's address. It is given relative to the program counter, which reads as 0 here."""
        if name not in self.symbols:
            cursor.refuse(f"symbol {name} is not a variable of the module")
        address = self.symbols[name]
        return address & 0xFFFFFFFF if part == "lo" else address >> 32

    def decode(self) -> Program:
        """The whole kernel, block by block.

        Raises:
            EmulationError: an instruction, modifier or operand is not supported.
        """
        self._check_descriptor()
        body, labels = self.kernel.body, self.kernel.labels
        starts = {0}
        for number, statement in enumerate(body):
            if statement.mnemonic in _STEERS:
                starts.add(number + 1)
                if _STEERS[statement.mnemonic][0] == "branch":
                    if statement.operands[0] not in labels:
                        Cursor(self, statement).refuse("branch to a label that is not there")
                    starts.add(labels[statement.operands[0]])
        bounds = sorted(start for start in starts if start < len(body))
        block_at = {start: index for index, start in enumerate(bounds)}
        blocks = []
        for index, start in enumerate(bounds):
            stop = bounds[index + 1] if index + 1 < len(bounds) else len(body)
            block = Block([], stop - start, following=index + 1 if index + 1 < len(bounds) else -1)
            for statement in body[start:stop]:
                self._add(block, statement, block_at)
            blocks.append(block)
        return Program(self.kernel, self.target, _in_order(blocks))

    def _add(self, block: Block, statement: Statement, block_at: Mapping[int, int]) -> None:
        if statement.mnemonic in _STEERS:
            block.end, block.condition = _STEERS[statement.mnemonic]
            block.last = Instruction(None, statement)
            if block.end == "branch":
                block.target = block_at.get(self.kernel.labels[statement.operands[0]], -1)
        else:
            block.code.append(Instruction(self.built(statement), statement))

    def built(self, statement: Statement) -> Run:
        """The function of one statement, or of the two halves of a dual one."""
        if statement.second:
            first, second = self._built(replace(statement, second=None)), self._built(statement.second)
            if not (hasattr(first, "compute") and hasattr(second, "compute")):
                Cursor(self, statement).refuse("dual instruction is not supported")
            return _both(first, second)
        return self._built(statement)

    def _built(self, statement: Statement) -> Run:
        cursor = Cursor(self, statement)
        build = BUILDERS.get(cursor.name)
        if build is None:
            cursor.refuse("instruction is not supported")
        try:
            run = build(cursor)
        except (IndexError, ValueError):
            cursor.refuse("operands do not fit the instruction")
        cursor.finish()
        return cursor.movement.within(run) if cursor.movement else run

    def _check_descriptor(self) -> None:
        kernel = self.kernel
        for name, meaning in (("round_mode_32", "FP32"), ("round_mode_16_64", "FP16 and FP64")):
            if kernel.setting(f"float_{name}"):
                self._refuse(f"rounding mode of {meaning} is not to nearest", f".amdhsa_float_{name} 0")
        if kernel.setting("uses_dynamic_stack"):
            self._refuse("a stack of unknown size is not supported", ".amdhsa_uses_dynamic_stack 0")
        if kernel.setting("wavefront_size32", int(self.target.wave == 32)) != (self.target.wave == 32):
            self._refuse("compiled for another wave size", f"waves of {self.target.wave} lanes on {self.target.name}")

    def _refuse(self, problem: str, needs: str) -> NoReturn:
        raise EmulationError(f"entry {self.kernel.name}", problem, needs=needs)


def _both(first, second) -> Run:
    """Two instructions that both read before either writes."""

    def run(wave):
        x, y = first.compute(wave), second.compute(wave)
        first.write(wave, x)
        second.write(wave, y)

    return run


def _in_order(blocks: list[Block]) -> list[Block]:
    """The blocks renumbered in weak topological order; unreachable ones keep a place at the end."""
    successors = []
    for block in blocks:
        following = [block.target] if block.target >= 0 else []
        leaves = block.end in ("exit", "trap") or (block.end == "branch" and not block.condition)
        if not leaves and block.following >= 0:
            following.append(block.following)
        successors.append(following)
    order = entry_first(successors)
    place = {old: new for new, old in enumerate(order)} | {-1: -1}
    for block in blocks:
        block.target, block.following = place[block.target], place[block.following]
    return [blocks[old] for old in order]
