"""The registers of a wave: their values, which of their bits are undefined, and the loads that will write them.

**Undefined values.** Beside a register that is not wholly defined stands which
of its bits are not. Moves and operations that only shuffle bits carry undefined
bits along, exactly, since compilers merge halves and copy registers that hold
nothing yet; any other use of an undefined bit by an active lane is a fault.

**Loads in flight.** To read or overwrite a register that a load in flight will
write is a fault, until a wait covers the load.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.amdgpu.flights import Flight
from gemmgen.emulate.amdgpu.operands import EXEC, S, SLOTS, slot_name
from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.core.memory import Fault
from gemmgen.emulate.core.report import Source

_EVERY_BIT = np.array(0xFFFFFFFF, np.uint32)
_EXEC_SLOTS = (EXEC, EXEC + 1)
_BITS = np.arange(32, dtype=np.uint32)[:, None]
ACTIVE = np.empty(0, bool)
"""In place of a mask: the lanes that execute."""


@dataclass
class State:
    """What there is to know about a register beside its value.

    Attributes:
        undefined: which of its bits nothing has written, an array like the register; None for none.
        flights: loads that will write it.
        origin: slot of the register that such bits came from, where they were moved here; -1 for none.
    """

    undefined: np.ndarray | None = None
    flights: tuple[Flight, ...] = ()
    origin: int = -1


NOTHING = State(_EVERY_BIT)
"""Of a register that has never been written."""


class Registers:
    """The registers of waves side by side.

    Args:
        target: the GPU; source: names a load's place for messages.
        columns: how many waves.

    Attributes:
        shape: (lanes, columns).
        r: the register file, by slot: `[lanes, columns]` or `[columns]` uint32.
        state: by slot, None for a register that is wholly defined and at rest.
        origin: slot of the register from which undefined bits were last read.
        scc: `[columns]` bool, None before it is first written.
        columns: `[columns]` bool, the waves that execute the instruction at hand, None for all.
        lanes: `[lanes, columns]` bool, their lanes that EXEC leaves on, None for all; executed: the
            same while an instruction runs that moves values between lanes and has fewer.
        issued, done: by kind, `[columns]`: memory operations issued, and of those known to be complete.
        mode: `[columns]`, the MODE register; flush32: `[2, columns]` bool, whether FP32 subnormals are
            flushed as inputs, as results, None where neither is; flush16: the same for FP16 and FP64.
    """

    def __init__(self, target: Target, source: Source, columns: int):
        self.target, self.source = target, source
        self.shape = target.wave, columns
        vector, scalar = np.zeros(self.shape, np.uint32), np.zeros(columns, np.uint32)
        self.r: list[np.ndarray] = [vector] * S + [scalar] * (SLOTS - S)
        self.state: list[State | None] = [NOTHING] * SLOTS
        self.origin = -1
        self.scc: np.ndarray | None = None
        self.columns: np.ndarray | None = None
        self.lanes: np.ndarray | None = None
        self.executed: np.ndarray | None = None
        kinds = {kind for counter in target.counters.values() for kind in (*counter.ordered, *counter.unordered)}
        self.issued = {kind: np.zeros(columns, np.int64) for kind in kinds}
        self.done = {kind: np.zeros(columns, np.int64) for kind in kinds}
        self.flush32 = self.flush16 = None
        self.mode = np.zeros(columns, np.uint32)

    def _define(self, slot: int, value, undefined: int = 0) -> None:
        shape = self.shape if slot < S else self.shape[1:]
        self.r[slot] = np.broadcast_to(np.asarray(value).astype(np.uint32), shape).copy()
        self.state[slot] = State(np.full(shape, undefined, np.uint32)) if undefined else None

    def check(self, slot: int, bits: int = 0xFFFFFFFF, lanes: np.ndarray | None = ACTIVE) -> None:
        """Fault where a register is not ready to be read.

        Args:
            bits: the ones that are read.
            lanes: `[lanes, columns]` bool, who reads; None for all lanes, by default the active ones.
        """
        state = self.state[slot]
        if state is None:
            return
        if lanes is ACTIVE:
            lanes = self.lanes if slot < S else self.columns
        for flight in state.flights:
            self._refuse_flight(slot, flight, lanes, "read")
        if state.undefined is not None:
            self.refuse_undefined(slot, state.undefined, bits, lanes)

    def refuse_undefined(self, slot: int, undefined: np.ndarray, bits: int, lanes: np.ndarray | None) -> None:
        """Fault where one of those bits of a register, as it is read, is undefined in one of those lanes."""
        wrong = undefined & np.uint32(bits) != 0
        wrong = wrong if lanes is None else wrong & lanes
        if np.count_nonzero(wrong):
            first = self.first_of(wrong)
            whole = np.broadcast_to(undefined, wrong.shape).flat[first] == _EVERY_BIT
            problem = "is read, which nothing has written" if whole else "is read, part of which nothing has written"
            origin = self.state[slot].origin
            got = f"bits that came from {slot_name(origin)}" if origin >= 0 else None
            raise Fault(f"{slot_name(slot)} {problem}", lane=first, got=got)

    def undefined(self, slot: int, lanes: np.ndarray | None = ACTIVE) -> np.ndarray | None:
        """The undefined bits of a register about to be read, and moved elsewhere; None for none. `lanes`: as of `check`."""
        state = self.state[slot]
        if state is None:
            return None
        if lanes is ACTIVE:
            lanes = self.lanes if slot < S else self.columns
        for flight in state.flights:
            self._refuse_flight(slot, flight, lanes, "read")
        if state.undefined is not None:
            self.origin = state.origin if state.origin >= 0 else slot
        return state.undefined

    @staticmethod
    def first_of(wrong: np.ndarray) -> int:
        """Index in `[lanes, columns]`, flat, of the first offender; `wrong` is that, `[columns]` or 0-d."""
        return int(np.argmax(wrong))

    def _refuse_flight(self, slot: int, flight: Flight, lanes: np.ndarray | None, verb: str) -> None:
        flying = self.flying(flight)
        if not flying.any():
            return
        if slot < S:
            flying = np.broadcast_to(flying if flight.lanes is None else flying & flight.lanes, self.shape)
        wrong = flying if lanes is None else flying & lanes
        if not wrong.any():
            return
        first = self.first_of(wrong)
        column = first % self.shape[1]
        source = self.source
        raise Fault(
            f"{slot_name(slot)} is {verb} while a load into it is in flight",
            lane=first,
            got=f"the load {source.quote(flight.instruction.statement)} at {source.place(flight.instruction.statement)}",
            needs=" and ".join(self._wait_for(kind, int(number[column]), column) for kind, number in flight.needs),
        )

    def _wait_for(self, kind: str, number: int, column: int) -> str:
        """The wait that covers operation `number` of a kind."""
        counter = next(c for c in self.target.counters.values() if kind in (*c.ordered, *c.unordered))
        left = int(self.issued[kind][column]) - number if kind in counter.ordered else 0
        return counter.wait.format(left)

    def flying(self, flight: Flight) -> np.ndarray:
        """`[columns]` bool: the waves for which a wait must still cover it."""
        flying = np.zeros(self.shape[1], bool)
        for kind, number in flight.needs:
            flying |= number > self.done[kind]
        return flying & flight.columns

    def put(self, slot: int, value: np.ndarray, undefined: np.ndarray | None = None) -> None:
        """Write a register in the active lanes.

        Args:
            value: uint32, of the register's shape or one that spreads to it.
            undefined: likewise, the bits of it that are not defined.
        """
        if slot < 0:
            return
        vector = slot < S
        shape = self.shape if vector else self.shape[1:]
        lanes = self.lanes if vector else self.columns
        if value.shape != shape:
            value = np.broadcast_to(value, shape) if value.ndim else np.full(shape, value)  # a tenth of the time
        if self.state[slot] is not None or undefined is not None:
            self._replace_state(slot, lanes, undefined, shape)
        self.r[slot] = value if lanes is None else np.where(lanes, value, self.r[slot])
        if slot in _EXEC_SLOTS:
            self._exec_changed()

    def _replace_state(self, slot: int, lanes: np.ndarray | None, undefined: np.ndarray | None, shape) -> None:
        state = self.state[slot] or State()
        for flight in state.flights:
            self._refuse_flight(slot, flight, lanes, "overwritten")
        if lanes is not None and (undefined is not None or state.undefined is not None):
            zero = np.uint32(0)
            new = zero if undefined is None else undefined
            undefined = np.where(lanes, new, zero if state.undefined is None else state.undefined)
        if undefined is not None:
            undefined = np.broadcast_to(undefined, shape) if np.count_nonzero(undefined) else None
        origin = state.origin if self.origin == slot else self.origin
        self.state[slot] = State(undefined, state.flights, origin) if undefined is not None or state.flights else None

    def put_mask(self, slot: int, mask: np.ndarray) -> None:
        """Write `[lanes, columns]` bool to a scalar register, or a pair of them, a bit a lane."""
        words = np.packbits(np.broadcast_to(mask, self.shape), axis=0, bitorder="little")
        words = np.ascontiguousarray(words.T).view(np.uint32)
        for word in range(words.shape[1]):
            self.put(slot + word if slot >= 0 else slot, np.ascontiguousarray(words[:, word]))

    def mask_of(self, slot: int) -> np.ndarray:
        """A scalar register, or a pair, as `[lanes, columns]` bool."""
        parts = []
        for word in range(slot, slot + self.shape[0] // 32):
            if self.state[word] is not None:
                self.check(word)
            parts.append((self.r[word] >> _BITS & np.uint32(1)).astype(bool))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def load(self, slot: int, value: np.ndarray, lanes: np.ndarray | None, undefined: np.ndarray | None = None) -> None:
        """What a load brings lands in its register.

        Args:
            value: of the register's shape.
            lanes: bool, where; None for everywhere.
            undefined: of its shape, the bits of it that are not defined; None for none.
        """
        state = self.state[slot]
        if state.undefined is not None or undefined is not None:
            zero = np.uint32(0)
            old = zero if state.undefined is None else state.undefined
            new = zero if undefined is None else undefined
            left = np.broadcast_to(new if lanes is None else np.where(lanes, new, old), value.shape)
            self.state[slot] = State(left if left.any() else None, state.flights, state.origin)
        self.r[slot] = value if lanes is None else np.where(lanes, value, self.r[slot])
        if slot in _EXEC_SLOTS:
            self._exec_changed()

    def scc_now(self) -> np.ndarray:
        """`[columns]` bool."""
        if self.scc is None:
            raise Fault("SCC is read, which nothing has written")
        return self.scc

    def put_scc(self, value: np.ndarray) -> None:
        value = np.broadcast_to(value, self.shape[1:])
        if self.columns is not None and self.scc is not None:
            value = np.where(self.columns, value, self.scc)
        self.scc = value

    # ---- who executes
    def _set_exec(self, mask: np.ndarray) -> None:
        words = np.ascontiguousarray(np.packbits(mask, axis=0, bitorder="little").T).view(np.uint32)
        for word in range(words.shape[1]):
            self._define(EXEC + word, words[:, word])
        self._exec_changed()

    def _exec_changed(self) -> None:
        words = self.shape[0] // 32
        if self.columns is None and all((self.r[EXEC + word] == _EVERY_BIT).all() for word in range(words)):
            self.lanes = None
            return
        mask = np.concatenate([(self.r[EXEC + word] >> _BITS & np.uint32(1)).astype(bool) for word in range(words)])
        self.lanes = mask if self.columns is None else mask & self.columns

    @property
    def column_lanes(self) -> np.ndarray | None:
        """Every lane of the waves that execute, whatever EXEC says; None for all."""
        return None if self.columns is None else np.broadcast_to(self.columns, self.shape)

    # ---- the mode
    def flushed(self, x: np.ndarray, which: int = 0) -> np.ndarray:
        """Subnormal numbers as 0 of the same sign, in the waves whose mode says so.

        Args:
            which: 0 for inputs, 1 for results.
        """
        mode = self.flush32 if x.dtype == np.float32 else self.flush16
        if mode is None:
            return x
        small = (np.abs(x) < np.finfo(x.dtype).smallest_normal) & mode[which]
        return np.where(small, np.copysign(x.dtype.type(0), x), x)

    def set_mode(self, shift: int, bits: int, value: np.ndarray) -> None:
        """Change a field of the MODE register in the waves that execute.

        Args:
            shift, bits: where the field is; value: `[columns]` or 0-d.
        """
        field = np.uint32((1 << bits) - 1) << np.uint32(shift)
        mode = self.mode & ~field | value.astype(np.uint32) << np.uint32(shift) & field
        self.mode = np.broadcast_to(mode if self.columns is None else np.where(self.columns, mode, self.mode), self.shape[1:])
        if (self.mode & np.uint32(15)).any():
            raise Fault("a rounding mode other than to nearest is not supported")
        # a bit allows subnormal inputs, the next one subnormal results
        flush = [[self.mode >> np.uint32(first + which) & np.uint32(1) == 0 for which in (0, 1)] for first in (4, 6)]
        self.flush32, self.flush16 = (None if not np.any(each) else np.array(each) for each in flush)
