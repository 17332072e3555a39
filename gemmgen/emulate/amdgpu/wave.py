"""Waves: what they hold at launch, what they execute, their memory operations and where they wait.

The waves of one index in all workgroups of a strip are the *columns* of arrays
`[lanes, columns]`, so that a step of the machine is one instruction for many
waves. A vector register is such an array, a scalar register an array `[columns]`.

**Branches** are a wave's own: columns that part keep their own position, and
those furthest back go first, in an order of the blocks that joins them again
as early as the program allows (`flow`). EXEC switches off lanes.

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

import numpy as np

from gemmgen.emulate.amdgpu.flights import Flight, Touched
from gemmgen.emulate.amdgpu.local import PrivateMemory
from gemmgen.emulate.amdgpu.operands import EXEC, S, TTMP, V, VCC
from gemmgen.emulate.amdgpu.program import Block
from gemmgen.emulate.amdgpu.registers import Registers, State
from gemmgen.emulate.core.memory import GLOBAL_BASE, Fault

_WAITING = 1 << 24  # added to a block number: the wave waits at that block's barrier
_ENDED = 1 << 28
_PATIENCE = 3_000_000  # blocks a wave may run without having to wait
SCRATCH_RESOURCE = (0, 0x5C7A, 0x7C4, 0x5C7A7C4)
"""What a kernel finds in place of the buffer resource of its scratch memory."""
_USER_SGPRS = (
    ("private_segment_buffer", 4), ("dispatch_ptr", 2), ("queue_ptr", 2), ("kernarg_segment_ptr", 2),
    ("dispatch_id", 2), ("flat_scratch_init", 2), ("private_segment_size", 1),
)  # fmt: skip
"""What the descriptor may ask for in scalar registers, in this order, and how many each takes (LLVM, AMDGPUUsage)."""


class Wave(Registers):
    """One wave index, or several, across workgroups of a strip.

    Args:
        strip: the `Strip` they are of.
        indices: of waves in their workgroup.

    Attributes:
        at: the block all columns are in, or `[columns]` int64 when they parted; with
            `_WAITING` added at a barrier, `_ENDED` after the end.
        cta: `[columns]`, each wave's workgroup within the strip; number: its index there.
        private: scratch memory.
        pending: flights in the order of issue, by the kinds they count as; issues: how many there were.
        arrived, passed: `[columns]`, barriers signalled, and passed.
    """

    def __init__(self, strip, indices: range):
        launch, ctas = strip.launch, strip.ctas
        super().__init__(launch.target, launch.source, len(indices) * ctas)
        self.strip, self.indices, self.instruction = strip, indices, None
        wave, columns = self.shape
        self.cta = np.tile(np.arange(ctas), len(indices))
        self.number = np.repeat(np.asarray(indices), ctas)
        self.lane = np.arange(wave, dtype=np.uint32)[:, None]
        self.local_base = self.cta * strip.local.pitch
        self.pending: dict[tuple[str, ...], list[Flight]] = {}
        self.issues = 0
        self.arrived, self.passed = np.zeros(columns, np.int64), np.zeros(columns, np.int64)
        self.at: int | np.ndarray = 0
        self.private = PrivateMemory(launch.program.kernel.setting("private_segment_fixed_size"), self.shape)
        self._set_up(launch)

    # ---- at launch
    def _set_up(self, launch) -> None:
        kernel, target = launch.program.kernel, self.target
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

    # ---- memory operations
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
        ordered = {kind for counter in self.target.counters.values() for kind in counter.ordered}
        return kinds == [kind for kind, _ in other.needs] and ordered.issuperset(kinds)

    def count(self, kind: str) -> None:
        """An operation that only counts: cache maintenance."""
        self.issued[kind] = self.issued[kind] + (1 if self.columns is None else self.columns)

    def wait(self, name: str, left: int) -> None:
        """Until at most `left` operations of a counter are under way."""
        counter = self.target.counters[name]
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
            if not np.count_nonzero(covered):
                if flight.columns.all():  # what each wave issued later is not covered either
                    break
                continue
            self._land(flight, covered)
            flight.columns = flying
            if np.count_nonzero(flying):
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
        if np.count_nonzero(columns):
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
