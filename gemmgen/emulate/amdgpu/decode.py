"""From a kernel's statements to a program the machine can run.

Each statement is decoded once: its operands become slots of the register file
or constants, and the modules in `isa` bind it to a function. Whatever is
not understood is refused here, before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NoReturn

import numpy as np

from gemmgen.emulate.amdgpu.assembly import Kernel, Statement
from gemmgen.emulate.amdgpu.names import canonical
from gemmgen.emulate.amdgpu.operands import DTYPES, NULL, PARTS, Movement, Read, constant, parse_operand, reads, reads_loosely
from gemmgen.emulate.amdgpu.program import Block, Instruction, Program, Run
from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.core.flow import entry_first
from gemmgen.emulate.core.report import Source
from gemmgen.errors import EmulationError

_STEERS = {
    "s_branch": ("branch", ""), "s_cbranch_scc0": ("branch", "scc"), "s_cbranch_scc1": ("branch", "sccn"),
    "s_cbranch_vccz": ("branch", "vcc"), "s_cbranch_vccnz": ("branch", "vccn"),
    "s_cbranch_execz": ("branch", "exec"), "s_cbranch_execnz": ("branch", "execn"),
    "s_barrier": ("barrier", ""), "s_barrier_wait": ("wait", ""), "s_endpgm": ("exit", ""), "s_trap": ("trap", ""),
}  # fmt: skip
"""Mnemonics that end a block: how, and on what condition."""


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
        self.operands = [parse_operand(text) for text in statement.operands]
        for i, operand in enumerate(self.operands):
            if operand.symbol:
                self.operands[i] = replace(operand, constant=decoder.symbol(*operand.symbol, self))
        self.movement: Movement | None = None
        self.into = self.unused = ""
        first = 2 if "_co_" in self.name else 1  # of the sources
        if self.encoding.endswith(("dpp", "sdwa")) and len(self.operands) <= first:
            self.refuse(f"instruction has {len(self.operands)} operands")
        if "dpp" in self.encoding:
            first -= self.name.startswith("v_cmpx") and not self.target.cdna
            self.movement = self._movement()
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
        if not re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)", text):
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

    def _movement(self) -> Movement:
        """The movement between lanes that the modifiers tell."""
        wave = self.target.wave
        lane = np.arange(wave)
        row, within = lane // 16 * 16, lane % 16
        if "quad_perm" in self.modifiers:
            source = lane // 4 * 4 + np.array(self.bits("quad_perm", ()))[lane % 4]
        elif "dpp8" in self.modifiers:
            source = lane // 8 * 8 + np.array(self.bits("dpp8", ()))[lane % 8]
        elif self.flag("row_mirror"):
            source = row + 15 - within
        elif self.flag("row_half_mirror"):
            source = lane // 8 * 8 + 7 - lane % 8
        else:
            name = next((name for name in _MOVEMENTS if name in self.modifiers), None)
            if name is None:
                self.refuse("movement between lanes is not supported")
            source = _MOVEMENTS[name](lane, row, within, self.number(name))
        rows, banks = self.number("row_mask", 15), self.number("bank_mask", 15)
        return Movement(source, wave, rows, banks, self.flag("bound_ctrl"), self.number("fi") == 1)

    # ---- operands
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
        operand, dtype = self.operands[index], DTYPES[type_]
        value = self._without_register(index, dtype)
        if value is not None:
            return lambda wave: value
        return reads(operand, dtype, half or int(operand.half == "h"))

    def loose(self, index: int, type_: str = "u32"):
        """How to read an operand with what is undefined in it: (value, undefined bits or None)."""
        value = self._without_register(index, DTYPES[type_])
        if value is not None:
            return lambda wave: (value, None)
        return reads_loosely(self.operands[index])

    def _without_register(self, index: int, dtype: np.dtype) -> np.ndarray | None:
        """The value of an operand that is no register; None for a register of the right width."""
        operand = self.operands[index]
        if operand.slot == NULL:
            return np.zeros((), dtype)
        if operand.slot is None:
            if operand.constant is None:
                self.refuse(f"operand {self.text(index)} is not known")
            return constant(operand, dtype)
        if operand.count != max(1, dtype.itemsize // 4):
            self.refuse(f"operand {self.text(index)} is not {dtype.itemsize} bytes wide")
        return None

    def put(self, index: int):
        """How to write 32 bits to an operand: (wave, value, undefined bits or None)."""
        slot = self.slot(index)
        if not self.into:
            return lambda wave, value, undefined=None: wave.put(slot, value, undefined)
        shift, bits = PARTS[self.into]
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

    def refuse(self, problem: str, needs: str | None = None) -> NoReturn:
        raise EmulationError(
            self.decoder.where(self.statement),
            problem,
            got=self.statement.text,
            needs=needs,
            has=f"line {self.statement.number} of the assembly, for {self.target.name}",
        )


# ---------------------------------------------------------------- kernels


class Decoder:
    """Decodes one kernel.

    Args:
        symbols: addresses of the module's variables.
        source: names a statement's place for messages.
    """

    def __init__(self, kernel: Kernel, target: Target, symbols: Mapping[str, int], source: Source):
        self.kernel, self.target, self.symbols, self.source = kernel, target, symbols, source

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
            block.code = tuple(block.code)
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
            first, second = self._built(statement._replace(second=None)), self._built(statement.second)
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
