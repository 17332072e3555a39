"""Tensor memory of one CTA or of a pair, and the order in which its threads may use it.

The memory of a CTA is 128 lanes of 512 columns of 32 bits. `tcgen05.mma` writes whole columns, some time after it is issued; a
warp reads and writes the quarter of the lanes that its number names. An access is right only where its thread knows
that earlier accesses to the same columns are over. That knowledge is a number for each agent: a warp's loads and stores,
or the products that a warp issues, until a time.

- *Settled*: a load or store is over for its own thread after `tcgen05.wait::ld` or `::st`.
- *Told*: what a thread knows at its last `tcgen05.fence::before_thread_sync` is what its arrivals pass on. A commit passes on
  that the products before it are done, without a fence.
- *Heard*: what a thread has learned at barriers. It counts as *known* after `tcgen05.fence::after_thread_sync`.

These rules do not depend on the order in which warps happen to run, so a missing fence or wait is a fault under every schedule.

Two CTAs of a pair (`cta_group::2`) are one such memory, as products of either write both: warps, threads and lanes of the second CTA
are numbered behind those of the first. Each CTA allocates and gives back for itself, the latter when both are through; its warps touch its own lanes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.core.memory import Fault

LANES, COLUMNS = 128, 512
LEAST = 32
"""Columns of the smallest allocation."""


@dataclass
class Operands:
    """What a product reads of shared memory, until a commit says that it is done.

    Attributes:
        time: of the product.
        offsets, values: `[chunks]`, what it read, 16 bytes each.
        place: where it was issued.
    """

    time: int
    offsets: np.ndarray
    values: np.ndarray
    place: str


class TensorMemory:
    """Of one CTA, or of two.

    Args:
        warps: of a CTA.
        ctas: that share it.

    Attributes:
        each: warps of a CTA; warps: of all.
        data: `[128 ctas, 512]` uint32; written: which of them hold anything.
        allocated: of each CTA, first column -> number of columns; takers: CTA and first column -> the warp; permitted: whether more may be allocated.
        time: counts accesses.
        read, stored: `[warps, 512]`, when a warp last did so; multiplied: the same of products that it issued.
        taken: `[warps, 512]`, when a warp allocated the column.
        known, told, heard: `[threads, 2 warps]`, see the module; agents are warps, then their products.
        last: `[threads]`, the last load or store; pending: `[2, threads]`, the first load and the first store that no wait covers, 0 for none.
        issued: `[threads]`, the last product; committed: until which a commit covers them.
        reading: of each thread, operands of products that need not be done.
        places: agent -> where it last did something.
    """

    def __init__(self, warps: int, ctas: int = 1):
        self.each, self.ctas, self.warps = warps, ctas, warps * ctas
        warps = self.warps
        self.data = np.zeros((LANES * ctas, COLUMNS), np.uint32)
        self.written = np.zeros((LANES * ctas, COLUMNS), bool)
        self.allocated: list[dict[int, int]] = [{} for _ in range(ctas)]
        self.takers: dict[tuple[int, int], int] = {}
        self.permitted = [True] * ctas
        cta = np.arange(warps) // self.each
        self._quarter = 4 * cta + np.arange(warps) % self.each % 4
        self._beside, self._alike = cta[:, None] == cta, self._quarter[:, None] == self._quarter
        self.time = 0
        self.read, self.stored, self.multiplied, self.taken = (np.zeros((warps, COLUMNS), np.int64) for _ in range(4))
        self.known, self.told, self.heard = (np.zeros((32 * warps, 2 * warps), np.int64) for _ in range(3))
        self.last, self.issued, self.committed = (np.zeros(32 * warps, np.int64) for _ in range(3))
        self.pending = np.zeros((2, 32 * warps), np.int64)
        self.reading: dict[int, list[Operands]] = {}
        self.places: dict[int, str] = {}

    # ---- allocation
    def allocate(self, warp: int, columns: int, place: str) -> int:
        """The first column of a new allocation: the highest that is free, so that a kernel cannot take 0 for granted."""
        if not LEAST <= columns <= COLUMNS or columns & columns - 1:
            raise Fault("an allocation of tensor memory has a wrong size", got=f"{columns} columns", needs=f"a power of two from {LEAST} to {COLUMNS}")
        cta = warp // self.each
        if not self.permitted[cta]:
            raise Fault("tensor memory is allocated after the right to do so was given up", needs="tcgen05.alloc before tcgen05.relinquish_alloc_permit")
        free = np.ones(COLUMNS, bool)
        for base, count in self.allocated[cta].items():
            free[base : base + count] = False
        base = next((base for base in range(COLUMNS - columns, -1, -columns) if free[base : base + columns].all()), None)
        if base is None:
            raise Fault(
                "tensor memory is allocated that no other thread of the CTA can give back in time", got=f"{columns} columns",
                needs=f"at most {COLUMNS} columns at once, or tcgen05.dealloc before",
            )
        self.allocated[cta][base], self.takers[cta, base] = columns, warp
        self.written[self.lanes(cta), base : base + columns] = False
        self.time += 1
        self.taken[warp, base : base + columns] = self.known[32 * warp : 32 * warp + 32, warp] = self.time
        self.places[warp] = place
        return base

    def free(self, threads: np.ndarray, address: int, columns: int) -> None:
        """The threads of a warp give an allocation back."""
        cta = int(threads[0]) // (32 * self.each)
        if self.allocated[cta].get(address) != columns:
            raise Fault(
                "tensor memory is given back that is not one whole allocation", got=f"{columns} columns from {_address(address)} on",
                needs=" or ".join(f"{count} from {_address(base)} on" for base, count in self.allocated[cta].items()) or "tcgen05.alloc first",
            )
        warp, taker = int(threads[0]) // 32, self.takers[cta, address]
        if warp != taker:
            raise Fault(
                "tensor memory is given back by another warp than took it", got=f"warp {warp % self.each}",
                needs=f"warp {taker % self.each}, which allocated it",
            )
        span = slice(address, address + columns)
        known = self.known[threads].min(0)
        self._check_products(threads, known, span, "given back")
        self._check(threads, known, span, self.read, "given back", "read")
        self._check(threads, known, span, self.stored, "given back", "written")
        del self.allocated[cta][address]

    def lanes(self, cta: int) -> slice:
        """Of a CTA."""
        return slice(LANES * cta, LANES * (cta + 1))

    def span(self, address: int, columns: int, cta: int | None = None) -> slice:
        """Columns from an address on, of which only the column matters here, all of one allocation of a CTA; None is for every CTA."""
        first = address & 0xFFFF
        for allocated in self.allocated if cta is None else self.allocated[cta : cta + 1]:
            if not any(base <= first and first + columns <= base + count for base, count in allocated.items()):
                raise Fault(
                    "tensor memory is used that is not allocated", got=f"columns {first} to {first + columns - 1}",
                    needs=" or ".join(f"columns {base} to {base + count - 1}" for base, count in allocated.items()) or "tcgen05.alloc first",
                )
        return slice(first, first + columns)

    # ---- accesses
    def quarter(self, warp: int, address: int, columns: int) -> tuple[slice, slice]:
        """The lanes and columns that a warp may touch from an address on."""
        cta, lane = warp // self.each, 32 * (int(self._quarter[warp]) % 4)
        if address >> 16 != lane:
            raise Fault(
                "a warp touches lanes of tensor memory that are another one's", got=f"lane {address >> 16} by {self._name(warp)}",
                needs=f"lanes {lane} to {lane + 31}, a quarter by the warp's number modulo 4",
            )
        lane += LANES * cta
        return slice(lane, lane + 32), self.span(address, columns, cta)

    def load(self, warp: int, threads: np.ndarray, address: int, columns: int, place: str) -> np.ndarray:
        """`[columns, 32]` uint32, which are there after a wait."""
        lanes, span = self.quarter(warp, address, columns)
        known = self.known[threads].min(0)
        self._check_products(threads, known, span, "read")
        self._check(threads, known, span, self.stored, "read", "written", self._alike[warp])
        self._check(threads, known, span, self.taken, "read", "allocated", self._beside[warp])
        if not self.written[lanes, span].all():
            raise Fault("tensor memory is read that nothing has written", got=_columns(span))
        self._did(warp, threads, 0, span, place)
        return self.data[lanes, span].T

    def store(self, warp: int, threads: np.ndarray, address: int, values: np.ndarray, place: str) -> None:
        """`[columns, 32]` uint32, which are there after a wait."""
        lanes, span = self.quarter(warp, address, len(values))
        known = self.known[threads].min(0)
        self._check_products(threads, known, span, "written")
        for when, did in ((self.read, "read"), (self.stored, "written")):
            self._check(threads, known, span, when, "written", did, self._alike[warp])
        self._check(threads, known, span, self.taken, "written", "allocated", self._beside[warp])
        self.data[lanes, span], self.written[lanes, span] = values.T, True
        self._did(warp, threads, 1, span, place)

    def _did(self, warp: int, threads: np.ndarray, kind: int, span: slice, place: str) -> None:
        self.time += 1
        (self.read, self.stored)[kind][warp, span] = self.last[threads] = self.time
        self.pending[kind, threads] = np.where(self.pending[kind, threads], self.pending[kind, threads], self.time)
        self.places[warp] = place

    def begin(self, thread: int, span: slice, keep: bool, place: str) -> int:
        """A thread issues a product into columns, which it adds to where `keep` says so; the product's time."""
        only, known, warp, deed = np.array([thread]), self.known[thread], thread // 32, "multiplied into"
        self._check_products(only, known, span, deed)
        self._check(only, known, span, self.read, deed, "read")
        self._check(only, known, span, self.stored, deed, "written")
        self._check(only, known, span, self.taken, deed, "allocated")
        if keep and not self.written[:, span].all():
            raise Fault("a product is added to tensor memory that nothing has written", got=_columns(span), needs="enable-input-d false the first time")
        self.time += 1
        self.multiplied[:, span] = 0
        self.multiplied[warp, span] = self.issued[thread] = self.time
        self.written[:, span] = True
        self.places[self.warps + warp] = place
        return self.time

    # ---- what is known
    def settle(self, threads: np.ndarray, kind: int) -> None:
        """Loads, or stores where `kind` is 1, of these threads are over."""
        self.pending[kind, threads] = 0
        other = self.pending[1 - kind, threads]
        until, own = np.where(other, other - 1, self.last[threads]), threads // 32
        self.known[threads, own] = np.maximum(self.known[threads, own], until)

    def fence_before(self, threads: np.ndarray) -> None:
        self.told[threads] = self.known[threads]

    def fence_after(self, threads: np.ndarray) -> None:
        self.known[threads] = np.maximum(self.known[threads], self.heard[threads])

    def passed_on(self, thread: int) -> np.ndarray:
        """`[2 warps]`, what an arrival of a thread tells: of its warp's accesses, what all of the warp's lanes have told."""
        warp, told = thread // 32, self.told[thread].copy()
        told[warp] = self.told[32 * warp : 32 * warp + 32, warp].min()
        return told

    def commit(self, thread: int) -> np.ndarray:
        """`[2 warps]`, what the arrival of a commit by a thread tells."""
        told, own = self.passed_on(thread), self.warps + thread // 32
        self.committed[thread] = self.issued[thread]
        told[own] = max(told[own], self.issued[thread])
        return told

    def hear(self, threads: np.ndarray, told: np.ndarray) -> None:
        """Threads go on after a barrier at which this was told. That its own products are done a thread knows without a fence."""
        self.heard[threads] = np.maximum(self.heard[threads], told)
        own = self.warps + threads // 32
        mine = self.issued[threads] > 0
        self.known[threads[mine], own[mine]] = np.maximum(self.known[threads[mine], own[mine]], told[own[mine]])

    def meet(self, warps: np.ndarray) -> None:
        """Warps of these numbers go on after a barrier of the CTA."""
        every = (32 * warps[:, None] + np.arange(32)).reshape(-1)
        told = self.told[every].max(0)
        told[warps] = self.told[every].reshape(len(warps), 32, -1).min(1)[np.arange(len(warps)), warps]
        self.hear(every, told)

    def check_end(self, cta: int) -> None:
        if allocated := self.allocated[cta]:
            raise Fault(
                "a CTA ends while tensor memory is allocated", got=", ".join(f"{count} columns from {base} on" for base, count in allocated.items()),
                needs="tcgen05.dealloc by the warp that allocated",
            )

    # ---- the rules
    def _check(
        self, threads: np.ndarray, known: np.ndarray, span: slice, when: np.ndarray, deed: str, did: str, of: np.ndarray | bool = True,
    ) -> None:
        """Fault where threads, which together have `known`, need not know what a warp did to columns; `of` these, `[warps]`."""
        times = when[:, span].max(1)
        early = (times > known[: self.warps]) & of
        if not early.any():
            return
        warp = int(np.argmax(early))
        theirs, time = slice(32 * warp, 32 * warp + 32), int(times[warp])
        if did != "allocated" and self.known[theirs, warp].min() < time:
            needs = f"tcgen05.wait::{'ld' if did == 'read' else 'st'} by {self._name(warp)} before it says so"
        elif self.told[theirs, warp].min() < time and threads[0] // 32 != warp:
            needs = f"tcgen05.fence::before_thread_sync by all threads of {self._name(warp)} before their barrier"
        else:
            needs = self._after(threads, warp, time)
        raise Fault(
            f"tensor memory is {deed} that another warp need not have {did} yet" if did != "allocated" else
            f"tensor memory is {deed} that need not be allocated yet",
            got=f"{_columns(span)}, {did} by {self._name(warp)} at {self.places.get(warp, '?')}", needs=needs,
        )

    def _check_products(self, threads: np.ndarray, known: np.ndarray, span: slice, deed: str) -> None:
        """Fault where threads, as `_check`, need not know that the products into columns are done. Products of one thread are done in order."""
        times = self.multiplied[:, span].max(1)
        early = times > known[self.warps :]
        if deed == "multiplied into":
            early[threads[0] // 32] = False
        if not early.any():
            return
        warp = int(np.argmax(early))
        time, agent = int(times[warp]), self.warps + warp
        uncommitted = self.committed[32 * warp : 32 * warp + 32].max() < time
        needs = "tcgen05.commit by the thread that issued them, and a wait for its mbarrier" if uncommitted else self._after(threads, agent, time)
        raise Fault(
            f"tensor memory is {deed} before the products into it are known to be done",
            got=f"{_columns(span)}, multiplied into at {self.places[agent]}{', which no commit covers' if uncommitted else ''}", needs=needs,
        )

    def _name(self, warp: int) -> str:
        return f"warp {warp % self.each}{f' of CTA {warp // self.each} of the pair' if self.ctas > 1 else ''}"

    def _after(self, threads: np.ndarray, agent: int, time: int) -> str:
        if self.heard[threads, agent].min() >= time:
            return "tcgen05.fence::after_thread_sync after the barrier"
        return "a wait for the mbarrier at which the commit arrives" if agent >= self.warps else "a barrier that orders the two"


def _columns(span: slice) -> str:
    return f"columns {span.start} to {span.stop - 1}"


def _address(address: int) -> str:
    return f"column {address}" if address < COLUMNS else f"{address:#x}"
