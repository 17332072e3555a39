"""Running a strip of workgroups.

The waves of one index in all workgroups of a strip are the *columns* of arrays
`[lanes, columns]`, so that a step of the machine is one instruction for many
waves. A vector register is such an array, a scalar register an array
`[columns]`. Waves with different indices run one after the other, each until it
must wait, in the order the `Schedule` says, or all side by side.

**Branches** are a wave's own: columns that part keep their own position, and
those furthest back go first, in an order of the blocks that joins them again
as early as the program allows (`flow`). EXEC switches off lanes.

**Undefined values.** Beside a register that is not wholly defined stands which
of its bits are not. Moves and operations that only shuffle bits carry undefined
bits along, exactly, since compilers merge halves and copy registers that hold
nothing yet; any other use of an undefined bit by an active lane is a fault.

**Waits.** Each memory operation is a `Flight` until a wait covers it. To read or
overwrite a register that a load in flight will write is a fault, but for a later
load of the same ordered kind, which lands later. A store has read its registers
when it is issued, so those are free. Under a lazy schedule memory is read and
written only when the wait comes, under an eager one at once; what a wave
never waits for lands when nothing else can go on.

**Not modelled**: time. What hardware interlocks or the compiler's s_nop keep
apart (results of matrix instructions among them) happens here in the order of
the text; an s_nop too few shows on no schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.amdgpu.decode import Block, Instruction, Program
from gemmgen.emulate.amdgpu.local import LocalMemory, PrivateMemory, banks_of
from gemmgen.emulate.amdgpu.operands import EXEC, S, SLOTS, TTMP, V, VCC, slot_name
from gemmgen.emulate.amdgpu.target import Target
from gemmgen.emulate.core.banks import ConflictCounter
from gemmgen.emulate.core.launch import LaunchStats, Schedule
from gemmgen.emulate.core.memory import GLOBAL_BASE, Arena, Fault
from gemmgen.emulate.core.report import Source

_WAITING = 1 << 24  # added to a block number: the wave waits at that block's barrier
_ENDED = 1 << 28
_PATIENCE = 3_000_000  # blocks a wave may run without having to wait
_EVERY_BIT = np.array(0xFFFFFFFF, np.uint32)
ACTIVE = np.empty(0, bool)
"""In place of a mask: the lanes that execute."""
_BITS = np.arange(32, dtype=np.uint32)[:, None]


@dataclass(frozen=True)
class Launch:
    """What all strips of a launch share.

    Attributes:
        segment: address of the kernel's arguments, with padding; segment_bytes: how many those are.
        dispatch: address of the dispatch packet.
        shared_bytes: LDS of a workgroup, static and dynamic.
        lock: held around atomic operations on global memory.
    """

    program: Program
    unit: MatrixUnit
    schedule: Schedule
    arena: Arena
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    segment: int
    segment_bytes: int
    dispatch: int
    shared_bytes: int
    lock: AbstractContextManager
    source: Source
    cluster: int = 1

    @property
    def name(self) -> str:
        return self.program.kernel.name

    @property
    def target(self) -> Target:
        return self.program.target

    def run_strip(self, ctas: Sequence[int]) -> LaunchStats:
        return Strip(self, ctas).run()


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


class Touched:
    """What an operation on global memory touches.

    Args:
        addresses: `[n]`, of its lanes; columns: `[n]`, whose those are; size: bytes of each.
        writes: whether they may be written.
        width: columns of the wave.

    Attributes:
        words: `[m]`, a number for each word of memory and wave that touches it.
    """

    def __init__(self, addresses: np.ndarray, columns: np.ndarray, size: int, writes: bool, width: int):
        self.addresses, self.columns, self.size, self.writes, self.width = addresses, columns, size, writes, width

    @cached_property
    def words(self) -> np.ndarray:
        words = (self.addresses[:, None] + np.arange(0, max(self.size, 4), 4)) // 4
        return (words * self.width + self.columns[:, None]).reshape(-1)


class Flight:
    """A memory operation under way.

    Attributes:
        instruction: the one that issued it.
        needs: (kind, `[columns]` its number among those of its kind) for each count that must pass it.
        issuers: `[columns]` bool, the waves that issued it.
        columns: likewise, those for which no wait has covered it yet.
        undone: `[columns]` bool, the waves for which memory has not been read or written yet.
        lanes: `[lanes, columns]` bool, who takes part, None for every lane of those waves.
        slots: registers it writes.
        perform: reads or writes memory, for the columns it is given or, for None, all that take part.
        touched: of global memory; None for others.
        serial: its place in the order of issue.
    """

    __slots__ = ("instruction", "needs", "issuers", "columns", "undone", "lanes", "slots", "perform", "touched", "serial")

    def __init__(
        self, instruction: Instruction, needs: list, columns: np.ndarray, lanes: np.ndarray | None,
        slots: tuple[int, ...], perform: Callable[[np.ndarray | None], None], touched: Touched | None, serial: int,
    ):
        self.instruction, self.needs = instruction, needs
        self.issuers = self.columns = self.undone = columns
        self.lanes, self.slots, self.perform, self.touched, self.serial = lanes, slots, perform, touched, serial


class Wave:
    """One wave index, or several, across workgroups of a strip.

    Args:
        indices: of waves in their workgroup.

    Attributes:
        shape: (lanes, columns).
        r: the register file, by slot: `[lanes, columns]` or `[columns]` uint32.
        state: by slot, None for a register that is wholly defined and at rest.
        origin: slot of the register from which undefined bits were last read.
        scc: `[columns]` bool, None before it is first written.
        at: the block all columns are in, or `[columns]` int64 when they parted; with
            `_WAITING` added at a barrier, `_ENDED` after the end.
        columns: `[columns]` bool, the waves that execute the instruction at hand, None for all.
        lanes: `[lanes, columns]` bool, their lanes that EXEC leaves on, None for all; executed: the
            same while an instruction runs that moves values between lanes and has fewer.
        cta: `[columns]`, each wave's workgroup within the strip; number: its index there.
        private: scratch memory.
        issued, done: by kind, `[columns]`: operations issued, and of those known to be complete.
        pending: flights in the order of issue, by the kinds they count as; issues: how many there were.
        arrived, passed: `[columns]`, barriers signalled, and passed.
        mode: `[columns]`, the MODE register; flush32: `[2, columns]` bool, whether FP32 subnormals are
            flushed as inputs, as results, None where neither is; flush16: the same for FP16 and FP64.
    """

    def __init__(self, strip: Strip, indices: range):
        launch = strip.launch
        self.strip, self.indices, self.instruction = strip, indices, None
        wave, ctas = launch.target.wave, strip.ctas
        self.shape = wave, len(indices) * ctas
        self.cta = np.tile(np.arange(ctas), len(indices))
        self.number = np.repeat(np.asarray(indices), ctas)
        self.lane = np.arange(wave, dtype=np.uint32)[:, None]
        self.local_base = self.cta * strip.local.pitch
        columns = self.shape[1]
        vector, scalar = np.zeros(self.shape, np.uint32), np.zeros(columns, np.uint32)
        self.r: list[np.ndarray] = [vector] * S + [scalar] * (SLOTS - S)
        self.state: list[State | None] = [NOTHING] * SLOTS
        self.origin = -1
        self.scc: np.ndarray | None = None
        self.columns: np.ndarray | None = None
        self.lanes: np.ndarray | None = None
        self.executed: np.ndarray | None = None
        kinds = {kind for counter in launch.target.counters.values() for kind in (*counter.ordered, *counter.unordered)}
        self.issued = {kind: np.zeros(columns, np.int64) for kind in kinds}
        self.done = {kind: np.zeros(columns, np.int64) for kind in kinds}
        self.pending: dict[tuple[str, ...], list[Flight]] = {}
        self.issues = 0
        self.arrived, self.passed = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        self.flush32 = self.flush16 = None
        self.mode = np.zeros(columns, np.uint32)
        self.at: int | np.ndarray = 0
        self.private = PrivateMemory(launch.program.kernel.setting("private_segment_fixed_size"), self.shape)
        self._set_up(launch)

    # ---- at launch
    def _set_up(self, launch: Launch) -> None:
        kernel, target = launch.program.kernel, launch.target
        x, y, z = launch.block
        thread = self.lane.astype(np.int64) + target.wave * self.number
        self.thread = (thread % x, thread // x % y, thread // (x * y))
        self._set_exec(thread < x * y * z)
        for shift, name, default in ((4, "float_denorm_mode_32", 0), (6, "float_denorm_mode_16_64", 3)):
            self.set_mode(shift, 2, np.array(kernel.setting(name, default)))
        packed = self.thread[0].copy()
        for axis in range(kernel.setting("system_vgpr_workitem_id")):
            packed |= self.thread[axis + 1] << 10 * (axis + 1)
        self._define(V, packed)
        slot = S
        for name, words in _USER_SGPRS:
            if kernel.setting(f"user_sgpr_{name}"):
                if name in ("kernarg_segment_ptr", "dispatch_ptr"):
                    address = launch.segment if name == "kernarg_segment_ptr" else launch.dispatch
                    self._define(slot, address & 0xFFFFFFFF)
                    self._define(slot + 1, address >> 32)
                if name == "private_segment_buffer":
                    for word, value in enumerate(SCRATCH_RESOURCE):
                        self._define(slot + word, value)
                slot += words
        for word in range(kernel.setting("user_sgpr_kernarg_preload_length")):
            offset = launch.segment + 4 * (kernel.setting("user_sgpr_kernarg_preload_offset") + word)
            value, undefined = launch.arena.load_partly(np.array([offset - GLOBAL_BASE]))
            self._define(slot + word, value[0], int(undefined[0]))
        ids = [np.asarray(axis)[self.cta] for axis in self.strip.cta_ids]
        if target.family == "rdna4":
            self._define(TTMP + 9, ids[0])
            self._define(TTMP + 7, ids[1] | ids[2] << 16)
            return
        slot = S + kernel.setting("user_sgpr_count")
        for axis, value in zip("xyz", ids, strict=True):
            if kernel.setting(f"system_sgpr_workgroup_id_{axis}", int(axis == "x")):
                self._define(slot, value)
                slot += 1
        if kernel.setting("system_sgpr_private_segment_wavefront_offset"):
            self._define(slot + kernel.setting("system_sgpr_workgroup_info"), 0)

    def _define(self, slot: int, value, undefined: int = 0) -> None:
        shape = self.shape if slot < S else self.shape[1:]
        self.r[slot] = np.broadcast_to(np.asarray(value).astype(np.uint32), shape).copy()
        self.state[slot] = State(np.full(shape, undefined, np.uint32)) if undefined else None

    # ---- registers
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
        if wrong.any():
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
        source = self.strip.launch.source
        raise Fault(
            f"{slot_name(slot)} is {verb} while a load into it is in flight",
            lane=first,
            got=f"the load {source.quote(flight.instruction.statement)} at {source.place(flight.instruction.statement)}",
            needs=" and ".join(self._wait_for(kind, int(number[column]), column) for kind, number in flight.needs),
        )

    def _wait_for(self, kind: str, number: int, column: int) -> str:
        """The wait that covers operation `number` of a kind."""
        counter = next(c for c in self.strip.launch.target.counters.values() if kind in (*c.ordered, *c.unordered))
        left = int(self.issued[kind][column]) - number if kind in counter.ordered else 0
        return counter.wait.format(left)

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
            value = np.broadcast_to(value, shape)
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
            undefined = np.broadcast_to(undefined, shape) if undefined.any() else None
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

    # ---- memory operations
    def flying(self, flight: Flight) -> np.ndarray:
        """`[columns]` bool: the waves for which a wait must still cover it."""
        flying = np.zeros(self.shape[1], bool)
        for kind, number in flight.needs:
            flying |= number > self.done[kind]
        return flying & flight.columns

    def issue(
        self, kinds: Sequence[str], slots: Sequence[int], perform: Callable[[np.ndarray | None], None],
        lanes: np.ndarray | None, touched: Touched | None = None,
    ) -> None:
        """A memory operation begins.

        Args:
            kinds: what it counts as.
            slots: registers it will write.
            perform, lanes, touched: see Flight.
        """
        columns = np.ones(self.shape[1], bool) if self.columns is None else self.columns
        needs = []
        for kind in kinds:
            self.issued[kind] = self.issued[kind] + columns
            needs.append((kind, self.issued[kind]))
        self.issues += 1
        flight = Flight(self.instruction, needs, columns, lanes, tuple(slots), perform, touched, self.issues)
        for slot in flight.slots:
            state = self.state[slot] or State()
            for other in state.flights:
                if not self._follows(flight, other):
                    self._refuse_flight(slot, other, lanes if slot < S else columns, "overwritten")
            self.state[slot] = State(state.undefined, (*state.flights, flight), state.origin)
        self.pending.setdefault(tuple(kinds), []).append(flight)
        if not self.strip.lazy:
            self._perform(flight, columns)

    def _follows(self, flight: Flight, other: Flight) -> bool:
        """Whether one surely lands after the other: both of one ordered kind."""
        kinds = [kind for kind, _ in flight.needs]
        ordered = {kind for counter in self.strip.launch.target.counters.values() for kind in counter.ordered}
        return kinds == [kind for kind, _ in other.needs] and ordered.issuperset(kinds)

    def count(self, kind: str) -> None:
        """An operation that only counts: cache maintenance."""
        self.issued[kind] = self.issued[kind] + (1 if self.columns is None else self.columns)

    def wait(self, name: str, left: int) -> None:
        """Until at most `left` operations of a counter are under way."""
        counter = self.strip.launch.target.counters[name]
        for kind in counter.ordered + (counter.unordered if left == 0 else ()):
            done = np.maximum(self.done[kind], self.issued[kind] - left)
            self.done[kind] = done if self.columns is None else np.where(self.columns, done, self.done[kind])
        for kinds, flights in self.pending.items():
            if flights and not {*kinds}.isdisjoint((*counter.ordered, *counter.unordered)):
                self._complete(flights)

    def _complete(self, flights: list[Flight]) -> None:
        """Let go of the flights of one sort that waits have covered; they land now at the latest."""
        gone = 0
        for flight in flights:
            flying = self.flying(flight)
            covered = flight.columns & ~flying
            if not covered.any():
                if flight.columns.all():  # what each wave issued later is not covered either
                    break
                continue
            self._land(flight, covered)
            flight.columns = flying
            if flying.any():
                continue
            gone += 1
            for slot in flight.slots:
                state = self.state[slot]
                others = tuple(each for each in state.flights if each is not flight)
                left = others or state.undefined is not None
                self.state[slot] = State(state.undefined, others, state.origin) if left else None
        if gone:
            flights[:] = [flight for flight in flights if flight.columns.any()]

    def _land(self, flight: Flight, columns: np.ndarray) -> None:
        """Read or write memory for some columns, unless that is done."""
        columns = columns & flight.undone
        if columns.any():
            if flight.touched is not None:
                self._land_before(flight, columns)
            self._perform(flight, columns)

    def _land_before(self, flight: Flight, columns: np.ndarray) -> None:
        """What the same waves did before in the same places comes first, though it counts as something else."""
        mine = tuple(kind for kind, _ in flight.needs)
        touched = flight.touched
        for kinds, flights in self.pending.items():
            if kinds == mine:
                continue
            earlier = [
                each for each in flights
                if each.serial < flight.serial and each.touched is not None and (touched.writes or each.touched.writes)
                and each.undone.any()
            ]  # fmt: skip
            if not earlier or not np.isin(touched.words, np.concatenate([each.touched.words for each in earlier])).any():
                continue
            for each in earlier:
                if (both := each.undone & columns).any() and np.isin(touched.words, each.touched.words).any():
                    self._perform(each, both)

    def _perform(self, flight: Flight, columns: np.ndarray) -> None:
        executing, self.instruction = self.instruction, flight.instruction
        flight.perform(None if (columns == flight.issuers).all() else columns)
        flight.undone = flight.undone & ~columns
        self.instruction = executing

    def land_all(self) -> None:
        """What is still in flight lands."""
        for flight in sorted((flight for flights in self.pending.values() for flight in flights), key=lambda f: f.serial):
            if flight.undone.any():
                self._perform(flight, flight.undone)
        self.pending.clear()

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

    # ---- control flow
    def run(self) -> None:
        """Run until every wave waits or has ended."""
        strip = self.strip
        blocks, stats = strip.launch.program.blocks, strip.stats
        for _ in range(_PATIENCE):
            columns = None
            if isinstance(self.at, np.ndarray):
                here = int(self.at.min())
                if here >= _WAITING:
                    return
                columns = self.at == here
                if columns.all():
                    columns, self.at = None, here
            elif (here := self.at) >= _WAITING:
                return
            if columns is not None or self.columns is not None:
                self.columns = columns
                self._exec_changed()
            block = blocks[here]
            stats.instructions += block.length * (self.shape[1] if columns is None else int(columns.sum()))
            try:
                for self.instruction in block.code:
                    self.instruction.run(self)
                self._leave(block, here)
            except Fault as fault:
                strip.fail(self, self.instruction, fault)
        strip.fail(
            self,
            blocks[here].last or blocks[here].code[0],
            Fault(
                "a wave runs on and on without ever having to wait",
                needs="an end: a loop that waits for another wave never ends here",
            ),
        )

    def _leave(self, block: Block, here: int) -> None:
        """Move the waves on to the block each goes to next."""
        if block.end == "next":
            return self._move(self.columns, block.following)
        self.instruction = block.last
        if block.end == "branch":
            taken = self._taken(block.condition)
            if taken is None:
                return self._move(self.columns, block.target)
            taken = taken if self.columns is None else taken & self.columns
            self._move(self.columns, block.following)
            if taken.any():
                self._move(None if taken.all() else taken, block.target)
        elif block.end == "exit":
            self._move(self.columns, _ENDED)
        elif block.end == "trap":
            raise Fault("the kernel executes a trap")
        else:  # s_barrier, and s_barrier_wait where the signal is an instruction of its own
            if block.end == "barrier":
                self.signal()
            if (self.arrived == self.passed)[self.columns if self.columns is not None else slice(None)].any():
                raise Fault("a wave waits at a barrier that it has not signalled", needs="s_barrier_signal before it")
            self._move(self.columns, _WAITING + here)

    def _taken(self, condition: str) -> np.ndarray | None:
        """`[columns]` bool: who takes a branch; None for all."""
        if not condition:
            return None
        register, wanted = condition.removesuffix("n"), condition.endswith("n")
        if register == "scc":
            return self.scc_now() == wanted
        some = self.mask_of(VCC if register == "vcc" else EXEC).any(0)
        return some == wanted

    def _move(self, columns: np.ndarray | None, to: int) -> None:
        if to < 0:
            raise Fault("control runs past the end of the kernel")
        if columns is None:
            self.at = to
            return
        if not isinstance(self.at, np.ndarray):
            self.at = np.full(self.shape[1], self.at, np.int64)
        self.at[columns] = to

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

    # ---- barriers
    def signal(self) -> None:
        """The waves come to a barrier."""
        columns = slice(None) if self.columns is None else self.columns
        if (self.arrived != self.passed)[columns].any():
            raise Fault("a wave signals a barrier twice", needs="s_barrier_wait in between")
        self.arrived[columns] += 1

    def standing(self) -> np.ndarray:
        """`[columns]`, the block at whose barrier each wave waits, -1 for those that have ended."""
        at = np.broadcast_to(np.asarray(self.at), self.shape[1:])
        return np.where(at >= _ENDED, -1, at - _WAITING)

    def release(self, free: np.ndarray) -> None:
        """Let waves pass the barrier they wait at, `[columns]` bool."""
        if not free.any():
            return
        following = np.array([block.following for block in self.strip.launch.program.blocks])
        at = np.broadcast_to(np.asarray(self.at), self.shape[1:])
        self.at = np.where(free, following[np.where(free, at - _WAITING, 0)], at)
        self.passed[free] += 1


SCRATCH_RESOURCE = (0, 0x5C7A, 0x7C4, 0x5C7A7C4)
"""What a kernel finds in place of the buffer resource of its scratch memory."""
_EXEC_SLOTS = (EXEC, EXEC + 1)
_USER_SGPRS = (
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1),
)  # fmt: skip
"""What the descriptor may ask for in scalar registers, in this order, and how many each takes (LLVM, AMDGPUUsage)."""


class Strip:
    """Workgroups that run together.

    Args:
        launch: what they share with other strips.
        ctas: their linear numbers in the grid.
    """

    def __init__(self, launch: Launch, ctas: Sequence[int]):
        self.launch, self.ctas = launch, len(ctas)
        linear = np.asarray(ctas)
        x, y, _ = launch.grid
        self.cta_ids = (linear % x, linear // x % y, linear // (x * y))
        self.local = LocalMemory(len(ctas), launch.shared_bytes)
        self.stats = LaunchStats(ctas=len(ctas))
        self.lazy = launch.schedule.copies == "lazy"
        threads, wave = int(np.prod(launch.block)), launch.target.wave
        indices = range(-(-threads // wave))
        if launch.schedule.warps == "together":
            self.waves = [Wave(self, indices)]
        else:
            self.waves = [Wave(self, range(index, index + 1)) for index in indices]
        self.conflicts = ConflictCounter(len(ctas), banks_of(launch.target))

    def run(self) -> LaunchStats:
        """Run all workgroups to their end.

        Raises:
            EmulationError: see there.
        """
        order = self.waves[::-1] if self.launch.schedule.warps == "highest" else self.waves
        with np.errstate(all="ignore"):
            while True:
                for wave in order:
                    wave.run()
                if not self._open_barriers():
                    break
            for wave in order:
                self._land_all(wave)
        self.stats.bank_conflicts = sum(self.conflicts.extra.values())
        self.stats.conflict_sites = self.conflicts.extra
        return self.stats

    def _land_all(self, wave: Wave) -> None:
        try:
            wave.land_all()
        except Fault as fault:
            self.fail(wave, wave.instruction, fault)

    def _of_waves(self, function) -> np.ndarray:
        """`[indices, workgroups]`, of what `function` says of each wave, `[columns]`."""
        return np.concatenate([function(wave).reshape(len(wave.indices), self.ctas) for wave in self.waves])

    def _open_barriers(self) -> bool:
        """Open the barrier of each workgroup to which all its waves have come; whether any is left to run.

        A wave that has ended is not waited for, as in hardware; but one that ended after
        it had passed barriers ends too early.
        """
        standing, arrived = self._of_waves(Wave.standing), self._of_waves(lambda wave: wave.arrived)
        waiting = standing >= 0
        if not waiting.any():
            return False
        never = ~waiting & (arrived == 0)
        due = np.where(waiting, arrived, 0).max(0)
        stuck = waiting.any(0) & ~(never | (arrived >= due) & waiting).all(0)
        if stuck.any():
            self._deadlock(standing, int(np.argmax(stuck)), "waves wait at a barrier that others never reach")
        self._check_alike(standing)
        first = 0
        for wave in self.waves:
            wave.release(waiting[first : first + len(wave.indices)].reshape(-1))
            first += len(wave.indices)
        return True

    def _check_alike(self, standing: np.ndarray) -> None:
        """The waves of a workgroup meet at one barrier of the source."""
        blocks = self.launch.program.blocks
        for block in np.unique(standing[standing >= 0]):
            statement = blocks[block].last.statement
            for other in np.unique(standing[(standing >= 0) & (standing == block).any(0)]):
                one = blocks[other].last.statement
                if (one.line, one.callers) != (statement.line, statement.callers):
                    both = ((standing == block).any(0) & (standing == other).any(0)).argmax()
                    self._deadlock(standing, int(both), "waves of one workgroup meet at different barriers")

    # ---- errors
    def _deadlock(self, standing: np.ndarray, cta: int, problem: str) -> None:
        blocks, source = self.launch.program.blocks, self.launch.source
        told: dict[str, list[int]] = {}
        for index, block in enumerate(standing[:, cta]):
            where = "has ended" if block < 0 else f"waits at {source.site(blocks[block].last.statement)}"
            told.setdefault(where, []).append(index)
        index = int(np.argmax(standing[:, cta] >= 0))
        wave = next(wave for wave in self.waves if index in wave.indices)
        self.fail(
            wave,
            blocks[standing[index, cta]].last,
            Fault(
                problem,
                lane=wave.indices.index(index) * self.ctas + cta,
                got="; ".join(f"wave {', '.join(map(str, waves))} {where}" for where, waves in told.items()),
                needs="every wave of the workgroup at the same barrier",
            ),
        )

    def fail(self, wave: Wave, instruction: Instruction, fault: Fault):
        """Turn a fault into the error a person reads."""
        cta = thread = None
        if fault.lane is not None:
            lane, column = divmod(fault.lane, wave.shape[1])
            cta = tuple(int(ids[wave.cta[column]]) for ids in self.cta_ids)
            thread = tuple(int(axis[lane, column]) for axis in wave.thread)
        launch = self.launch
        raise launch.source.located(launch.name, instruction.statement, fault, cta, thread) from None
