"""The order of global memory: between the CTAs of a grid, and between a grid and the one launched before it.

Emulated stores are seen at once by everybody. On a GPU another CTA may see them as
late as the program allows, so the machine remembers who wrote what, and a read
that a GPU may answer with something older is a fault, whatever the schedule:

- *Published* is a store that a fence of the GPU's scope (or a release) follows, by the thread
  that stored or by one that met it at a barrier in between. Nothing else makes it visible to
  other CTAs before the grid's end, a fence of the CTA's scope least of all.
- A thread has *acquired* what was published before a strong write (an atomic operation, or a store that says so,
  of the GPU's scope) that it, or one it met, has read by a strong access, once a fence of that
  scope follows the read, or if the read was an acquire.
- A read of what another CTA of the grid wrote must be of what was published and acquired.
- What the grid before may still be writing, where the launch overlaps it, must not be touched
  before `griddepcontrol.wait`, by the thread itself or one that it met at a barrier since.

Delaying stores instead would show a missing fence only where the delayed value makes a
difference, and would have to choose how long. `NOT_MODELLED` says what is taken on trust.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.emulate.core.memory import DTYPES, Fault, shared_bytes
from gemmgen.emulate.ptx.decode import Cursor
from gemmgen.emulate.ptx.program import Program

NOT_MODELLED = (
    "writes that overtake another CTA's reads or writes",
    "global memory exchanged inside a cluster",
    "global memory that a grid writes and its bulk copies read",
    "chains of more than two overlapping grids",
    "parts of a word of 4 bytes that several CTAs write",
)
"""What of the order of memory on PTX goes unnoticed where a kernel gets it wrong."""

_WIDE = ("gpu", "gl", "sys")
"""Scopes that reach every CTA of the grid."""
_PAGE = 12  # bits of an offset within what one byte of `Writes.dirty` tells of
_THREADS = 10  # bits of a thread's number in its CTA
_STRONG, _MIXED = np.uint32(1 << 31), np.uint32(1 << 30)
_NUMBER = np.uint32((1 << 24) - 1)  # of the instruction
_EVER = np.iinfo(np.int64).max


class Ordering:
    """How the modifiers of an access order it; they are taken from the cursor.

    Attributes:
        strong: whether other CTAs' strong accesses may meet it; acquires, releases: at the GPU's scope.
        read_only: whether it reads past the coherent caches.
    """

    def __init__(self, cursor: Cursor, atomic: bool = False):
        kind = cursor.choice(
            "weak", "relaxed", "acquire", "release", "acq_rel", "volatile", default="relaxed" if atomic else "weak"
        )
        usual = "sys" if kind == "volatile" else "gpu" if atomic else "cta"
        scope = cursor.choice("cta", "cluster", "gpu", "sys", default=usual)
        self.read_only = cursor.flag("nc")
        self.strong = kind != "weak" and scope in _WIDE
        self.acquires = self.strong and kind in ("acquire", "acq_rel")
        self.releases = self.strong and kind in ("release", "acq_rel")
        cursor.decoder.program.publishes |= self.releases


class _Words:
    """A number for each 4 bytes of global memory, addressed as those are."""

    def __init__(self, nbytes: int):
        data = shared_bytes(nbytes)
        self.all = data.view(np.uint32)
        self._of_size = {size: data.view(DTYPES[size]) for size in (4, 8, 16)}

    def get(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """`[n, words]` uint32 of accesses of `size` bytes."""
        size = max(size, 4)
        return self._of_size[size].take(offsets >> size.bit_length() - 1).view(np.uint32).reshape(len(offsets), -1)

    def set(self, offsets: np.ndarray, size: int, values: np.ndarray | np.uint32) -> None:
        """The same for all words of an access, `[n]` uint32 or one for all."""
        size = max(size, 4)
        if size > 4:
            values = np.repeat(np.atleast_1d(values), size // 4).view(DTYPES[size])
        self._of_size[size][offsets >> size.bit_length() - 1] = values


class Writes:
    """Who wrote what in one launch, in memory that forked workers share.

    Args:
        nbytes: of global memory.

    Attributes:
        who: of each 4 bytes, the CTA's number in the grid plus one, and the thread's in the CTA below it; 0 for nobody.
        what: the instruction that wrote, and how.
        when: the clock's reading from which on every CTA may see it; 0 if it need not.
        dirty: what a byte is not 0 of has been written somewhere.
        clock: `[1]`, how often a CTA has published what it wrote, plus one.
    """

    def __init__(self, program: Program, grid: tuple[int, int, int], block: tuple[int, int, int], nbytes: int):
        self.program, self.grid, self.block, self.nbytes = program, grid, block, nbytes
        self.who, self.what, self.when = _Words(nbytes), _Words(nbytes), _Words(nbytes)
        self.dirty = shared_bytes((nbytes >> _PAGE) + 1)
        self.clock = shared_bytes(8).view(np.uint32)[:1]
        self.clock[0] = 1

    def grown(self, nbytes: int) -> Writes:
        """The same for a global memory that has grown since."""
        if nbytes == self.nbytes:
            return self
        larger = Writes(self.program, self.grid, self.block, nbytes)
        for mine, its in ((self.who, larger.who), (self.what, larger.what)):
            its.all[: len(mine.all)] = mine.all
        larger.dirty[: len(self.dirty)] = self.dirty
        return larger

    def author(self, who: int, what: int, source) -> str:
        """`CTA (0, 0, 0), thread (1, 0, 0), at kernel.cu:12: st.global ...`."""
        cta, thread = (who >> _THREADS) - 1, who & (1 << _THREADS) - 1
        statement = self.program.entry.body[what & int(_NUMBER)]
        return (
            f"CTA {_unravelled(cta, self.grid)}, thread {_unravelled(thread, self.block)}, "
            f"at {source.where(self.program.entry.name, statement)} by {source.quote(statement)}"
        )


def _unravelled(number: int, shape: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = shape
    return number % x, number // x % y, number // (x * y)


def of_cta(who: np.ndarray) -> np.ndarray:
    return who >> np.uint32(_THREADS)


@dataclass
class _Stores:
    """Stores of one instruction that are not published: `[n]` each, and the strip's time when they were made."""

    offsets: np.ndarray
    size: int
    who: np.ndarray
    cta: np.ndarray
    thread: np.ndarray
    time: int

    def part(self, chosen: np.ndarray) -> _Stores:
        arrays = (each[chosen] for each in (self.who, self.cta, self.thread))
        return _Stores(self.offsets[chosen], self.size, *arrays, self.time)

    def words(self) -> np.ndarray:
        """`[n, words]`, the offsets of the words that each store touches."""
        return (self.offsets & ~3)[:, None] + 4 * np.arange(max(self.size, 4) // 4)

    def by_thread(self) -> np.ndarray:
        """`[n, words]`, a number for each word and the thread of the strip that stored it."""
        return self.words() << 24 | (self.who & np.uint32(0xFFFFFF)).astype(np.int64)[:, None]


class Order:
    """What the threads of a strip know of each other's and other CTAs' writes.

    Args:
        ctas: their numbers in the grid.
        warps: of a CTA.

    Attributes:
        time: counts what lets threads of the strip know of each other.
        heard: `[CTAs, warps, warps]`, the time until which the first warp knows what the second one stored.
        observed: `[CTAs, warps]`, the clock when the newest of the strong writes was done that a warp, or one it met, has read.
        acquired: `[CTAs, threads]`, the clock until which a thread sees what was published.
        waited: `[CTAs, threads]` bool, whether the grid before is known to be over.
        pending: stores that a fence may still publish, of each warp vector, as they were made.
    """

    def __init__(self, launch, ctas: np.ndarray, warps: int):
        self.launch, self.writes, self.before = launch, launch.writes, launch.before
        self.publishing = launch.program.publishes
        self.names = (ctas.astype(np.uint32) + np.uint32(1)) << np.uint32(_THREADS)
        self.time = 0
        self.heard = np.zeros((len(ctas), warps, warps), np.int64)
        self.observed = np.zeros((len(ctas), warps), np.uint32)
        self.acquired = np.zeros((len(ctas), 32 * warps), np.uint32)
        self.waited = np.zeros((len(ctas), 32 * warps), bool)
        self.pending: dict[Any, list[_Stores]] = {}
        self.idle = not self.publishing and self.before is None

    def who(self, cta: np.ndarray, thread: np.ndarray) -> np.ndarray:
        """`[lanes]` uint32, as `Writes.who` calls threads of the strip's CTAs."""
        return self.names[cta] | thread.astype(np.uint32)

    # ---- accesses: `[n]` offsets of lanes, None for all of them
    def read(self, warp, offsets: np.ndarray, size: int, lanes, ordering: Ordering | None = None, atomic: bool = False) -> None:
        """Fault where a read may find something older than what it finds here.

        Args:
            atomic: whether it is the read of an atomic operation: lanes that meet at one place see one another's.
        """
        strong = ordering is not None and ordering.strong
        if self.before is not None:
            self._check_before(warp, offsets, size, lanes, "read", strong)
        if np.count_nonzero(self.writes.dirty.take(offsets >> _PAGE)):
            self._check(warp, offsets, size, lanes, strong, ordering is not None and ordering.read_only)
        if strong:
            chosen = slice(None) if lanes is None else lanes
            written = self.writes.when.get(offsets, size).max(1)
            if atomic and len(np.unique(offsets)) < len(offsets):
                written = np.maximum(written, self.writes.clock[0])
            np.maximum.at(self.observed, (warp.cta[chosen], warp.number[chosen]), written)
            if ordering.acquires:
                self._acquire(warp, chosen)

    def read_range(self, warp, lane: int, offset: int, nbytes: int) -> None:
        """`read` of `nbytes` bytes for one lane."""
        pages = slice(offset >> _PAGE, (offset + nbytes - 1 >> _PAGE) + 1)
        if self.writes.dirty[pages].any() or self.before is not None and self.before.dirty[pages].any():
            offsets = np.arange(offset & ~3, offset + nbytes, 4)
            try:
                self.read(warp, offsets, 4, np.full(len(offsets), lane))
            except Fault as fault:
                fault.lane = lane
                raise

    def wrote(self, warp, offsets: np.ndarray, size: int, lanes, number: int, ordering: Ordering | None = None) -> None:
        """Remember what instruction `number` has stored."""
        writes, strong = self.writes, ordering is not None and ordering.strong
        if self.before is not None:
            self._check_before(warp, offsets, size, lanes, "written", strong)
        who = warp.who if lanes is None else warp.who[lanes]
        writes.dirty[offsets >> _PAGE] = 1
        what = np.uint32(number) | (_STRONG if strong else np.uint32(0))
        if size < 4:
            self._share(offsets, who, what)
        else:
            writes.who.set(offsets, size, who)
            writes.what.set(offsets, size, what)
        if self.publishing:
            writes.when.set(offsets, size, writes.clock[0] if strong else np.uint32(0))
            if not strong:
                chosen = slice(None) if lanes is None else lanes
                stores = _Stores(offsets, size, who, warp.cta[chosen], warp.tid[chosen], self.time)
                self.pending.setdefault(warp, []).append(stores)

    def _share(self, offsets: np.ndarray, who: np.ndarray, what: np.uint32) -> None:
        """Stores of part of a word, which several CTAs may hold."""
        writes = self.writes
        before, how = writes.who.get(offsets, 4)[:, 0], writes.what.get(offsets, 4)[:, 0]
        mixed = (before != 0) & ((of_cta(before) != of_cta(who)) | (how & _MIXED != 0))
        writes.who.set(offsets, 4, who)
        mixed |= of_cta(writes.who.get(offsets, 4)[:, 0]) != of_cta(who)
        writes.what.set(offsets, 4, what)
        writes.what.set(offsets[mixed], 4, what | _MIXED)

    def atomic(self, warp, offsets: np.ndarray, size: int, lanes, number: int, ordering: Ordering) -> None:
        """An atomic operation that these lanes have just done."""
        if ordering.strong:
            self.read(warp, offsets, size, lanes, ordering, atomic=True)
            return self.wrote(warp, offsets, size, lanes, number, ordering)
        problem, needs = "an atomic operation of the CTA's scope meets another CTA", "the GPU's scope, which atomicAdd has"
        try:
            self._check(warp, offsets, size, lanes, False, False)
        except Fault as fault:
            raise Fault(problem, lane=fault.lane, got=fault.got, needs=needs) from None
        self.wrote(warp, offsets, size, lanes, number, ordering)
        who = warp.who if lanes is None else warp.who[lanes]
        others = of_cta(self.writes.who.get(offsets, size)) != of_cta(who)[:, None]
        if others.any():  # in the same instruction
            self._refuse(others, offsets, size, problem, needs)

    # ---- the rules
    def _check(self, warp, offsets: np.ndarray, size: int, lanes, strong: bool, read_only: bool) -> None:
        """Reads of what this grid has written."""
        writes, cluster = self.writes, self.launch.cluster
        who = writes.who.get(offsets, size)
        chosen = slice(None) if lanes is None else lanes
        mine = of_cta(warp.who[chosen])[:, None]
        if read_only and (written := who != 0).any():
            self._refuse(
                written, offsets, size, "global memory is read past the coherent caches that the grid itself writes",
                "a load without .nc (__ldg, const __restrict__)",
            )
        theirs = of_cta(who)
        other = (who != 0) & (theirs != mine)
        if cluster > 1:
            other &= (theirs - np.uint32(1)) // cluster != (mine - np.uint32(1)) // cluster
        if not other.any():
            return
        trusted = writes.what.get(offsets, size) & (_MIXED | _STRONG if strong else _MIXED)
        when = writes.when.get(offsets, size)
        hidden, early = when == 0, when > self.acquired[warp.cta[chosen], warp.tid[chosen]][:, None]
        wrong = other & (trusted == 0) & (hidden | early)
        if not wrong.any():
            return
        if (never := wrong & hidden).any():
            self._refuse(
                never, offsets, size, "global memory is read that another CTA wrote, and that nothing has made visible to this one",
                "after the write a fence of the GPU's scope (__threadfence) or a release, by the thread that wrote "
                "or after a barrier with it",
            )  # fmt: skip
        self._refuse(
            wrong, offsets, size, "global memory is read that another CTA wrote, and that this one may have read before it was there",
            "an atomic operation of the GPU's scope that meets one which the other CTA did after its fence, then a fence of that scope, "
            "then the read",
        )  # fmt: skip

    def _check_before(self, warp, offsets: np.ndarray, size: int, lanes, verb: str, strong: bool) -> None:
        """Accesses of what the grid before may still be writing."""
        before = self.before
        if not before.dirty.take(offsets >> _PAGE).any():
            return
        chosen = slice(None) if lanes is None else lanes
        unsure = ~self.waited[warp.cta[chosen], warp.tid[chosen]]
        if not unsure.any():
            return
        wrong = (before.who.get(offsets, size) != 0) & unsure[:, None]
        if strong:  # strong accesses of both grids may meet
            wrong &= before.what.get(offsets, size) & _STRONG == 0
        if wrong.any():
            self._refuse(
                wrong, offsets, size, f"global memory is {verb} that the kernel before, which may still run, writes",
                "griddepcontrol.wait first, by this thread or before a barrier with it", before,
            )  # fmt: skip

    def _refuse(self, wrong: np.ndarray, offsets, size: int, problem: str, needs: str, writes: Writes | None = None) -> None:
        first, word = (int(each) for each in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
        raise Fault(problem, lane=first, got=self._told(writes or self.writes, offsets, size, first, word), needs=needs)

    def _told(self, writes: Writes, offsets: np.ndarray, size: int, access: int, word: int) -> str:
        """What was accessed, and who wrote it."""
        here = offsets[access : access + 1]
        who, what = (int(each.get(here, size)[0, word]) for each in (writes.who, writes.what))
        return f"{self.launch.arena.describe(int(here[0]) + 4 * word)}, written in {writes.author(who, what, self.launch.source)}"

    # ---- fences
    def fence(self, warp, mask: np.ndarray | None, release: bool, acquire: bool) -> None:
        """Lanes execute a fence of the GPU's scope."""
        chosen = slice(None) if mask is None else mask
        if release and self.pending:
            self._publish(warp, mask, chosen)
        if acquire:
            self._acquire(warp, chosen)

    def _acquire(self, warp, chosen) -> None:
        cta = warp.cta[chosen]
        self.acquired[cta, warp.tid[chosen]] = self.observed[cta, warp.number[chosen]]

    def _publish(self, warp, mask: np.ndarray | None, chosen) -> None:
        """What these lanes know to have been stored becomes visible to all CTAs."""
        cta, number = self._columns(warp, mask)
        until = np.zeros(self.heard.shape[:2], np.int64)
        np.maximum.at(until, cta, self.heard[cta, number])
        until = np.repeat(until, 32, axis=1)
        until[warp.cta[chosen], warp.tid[chosen]] = _EVER
        self._publish_until(until)

    def _publish_until(self, until: np.ndarray) -> None:
        """Stores that each thread, `[CTAs, threads]`, made before a time become visible to all CTAs."""
        with self.launch.lock:
            self.writes.clock += 1
            now = self.writes.clock[0]
        for warp, made in list(self.pending.items()):
            if until[warp.cta, warp.tid].max() <= made[0].time:
                continue
            shown, left = [], []
            for stores in made:
                due = stores.time < until[stores.cta, stores.thread]
                if due.any():
                    shown.append(stores if due.all() else stores.part(due))
                if not due.all():
                    left.append(stores.part(~due))
            later = np.concatenate([stores.by_thread().reshape(-1) for stores in left]) if shown and left else None
            for stores in shown:
                self._show(stores, now, later)
            del self.pending[warp]
            if left:
                self.pending[warp] = left

    def _show(self, stores: _Stores, now: np.uint32, later: np.ndarray | None) -> None:
        """Stores become visible, and nothing that has been stored there since.

        Args:
            later: `by_thread` of the stores of the same warp vector that stay pending, each later than all of its thread's that do not.
        """
        mine = self.writes.who.get(stores.offsets, stores.size) == stores.who[:, None]
        mine &= self.writes.what.get(stores.offsets, stores.size) & _STRONG == 0  # strong stores are never pending
        if later is not None:
            mine &= ~np.isin(stores.by_thread(), later)
        if mine.all():
            self.writes.when.set(stores.offsets, stores.size, now)
        elif mine.any():
            self.writes.when.set(stores.words()[mine], 4, now)

    # ---- meetings
    def meet(self, free: np.ndarray) -> None:
        """The warps `[warps, CTAs]` bool of each CTA pass a barrier together."""
        if self.idle:
            return
        self.time += 1
        whole = free.all(0)
        if whole.any():
            self._settle(np.flatnonzero(whole)[:, None])
        for cta in np.flatnonzero(free.any(0) & ~whole):
            warps = np.flatnonzero(free[:, cta])
            heard = self.heard[cta, warps].max(0)
            heard[warps] = self.time
            self.heard[cta, warps] = heard
            self.observed[cta, warps] = self.observed[cta, warps].max()
            threads = (32 * warps[:, None] + np.arange(32)).reshape(-1)
            self.acquired[cta, threads] = self.acquired[cta, threads].max()
            self.waited[cta, threads] = self.waited[cta, threads].any()

    def settle(self, ctas, cluster: bool = False) -> None:
        """All threads of each CTA, or of all of them together, know what any of them knew."""
        if self.idle:
            return
        self.time += 1
        ctas = np.asarray(ctas)
        self._settle(ctas[None] if cluster else ctas[:, None])
        if cluster and self.pending:  # a fence in one CTA publishes what the others stored before
            until = np.zeros(self.acquired.shape, np.int64)
            until[ctas] = _EVER
            self._publish_until(until)

    def _settle(self, groups: np.ndarray) -> None:
        """`settle` of `[groups, CTAs]`."""
        self.heard[groups] = self.time
        self.observed[groups] = self.observed[groups].max((1, 2), keepdims=True)
        self.acquired[groups] = self.acquired[groups].max((1, 2), keepdims=True)
        self.waited[groups] = self.waited[groups].any((1, 2), keepdims=True)

    def meet_warp(self, warp, mask: np.ndarray | None) -> None:
        """The lanes of each warp meet."""
        if self.idle:
            return
        self.time += 1
        cta, number = self._columns(warp, mask)
        shape = (*self.observed.shape, 32)
        self.heard[cta, number, number] = self.time
        for of_threads, most in ((self.acquired.reshape(shape), np.max), (self.waited.reshape(shape), np.any)):
            of_threads[cta, number] = most(of_threads[cta, number], 1, keepdims=True)

    def follow(self, warp, mask: np.ndarray | None) -> None:
        """Lanes go on after an mbarrier: their warps are taken to know what any thread of the cluster knew."""
        if self.idle:
            return
        self.time += 1
        cta, number = self._columns(warp, mask)
        clusters, shape = len(self.heard) // self.launch.cluster, (*self.observed.shape, 32)
        cluster = cta // self.launch.cluster
        self.heard[cta, number] = self.time
        self.observed[cta, number] = self.observed.reshape(clusters, -1).max(1)[cluster]
        for of_threads, most in ((self.acquired, np.max), (self.waited, np.any)):
            of_threads.reshape(shape)[cta, number] = most(of_threads.reshape(clusters, -1), 1)[cluster, None]

    @staticmethod
    def _columns(warp, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """CTA and number of each warp that takes part."""
        chosen = slice(None) if mask is None else mask.reshape(32, -1).any(0)
        return warp.cta[: warp.columns][chosen], warp.number[: warp.columns][chosen]

    def wait_for_previous(self, warp, mask: np.ndarray | None) -> None:
        """Lanes have waited until the grid before is over, and its writes are there."""
        chosen = slice(None) if mask is None else mask
        self.waited[warp.cta[chosen], warp.tid[chosen]] = True
