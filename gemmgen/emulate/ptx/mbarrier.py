"""Barriers in shared memory: phases, arrivals and bytes.

A phase of an mbarrier is complete when as many threads arrived as it was made
for and the bytes it was told to expect have come (`tx` is their balance: it
may be negative when they come first). The next phase begins at once.

Beside that, each barrier remembers what order its users are in, so that a use
which might come too early or too late on a GPU is an error whatever the schedule:

- who made it, and whether that thread fenced its making (`fenced`), which the
  asynchronous proxy and other CTAs need;
- the barriers of the cluster that were passed when it was made (`epoch`): another
  CTA may use it only after a later one;
- the last phase that another CTA took part in (`signalled`) and the phases its own
  CTA has waited for (`seen`): a CTA that ends must know that no signal is under way.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.core.memory import ALLOCATED, OPAQUE, WRITTEN, Fault

MOST = (1 << 20) - 1
"""The largest count of arrivals, and of bytes either way, of a phase."""


@dataclass
class Barrier:
    """One mbarrier; see the module.

    Attributes:
        expected: arrivals a phase needs; pending: those still to come in this one.
        tx: bytes expected less bytes come.
        phase: phases completed.
        maker: (CTA, thread) that initialised it.
        place: of the last signal from another CTA.
        telling: what its arrivals so far tell of tensor memory; told: the same of those until its last complete phase.
    """

    expected: int
    pending: int
    maker: tuple[int, int]
    epoch: int
    tx: int = 0
    phase: int = 0
    fenced: bool = False
    signalled: int = -1
    seen: int = 0
    place: str = ""
    telling: np.ndarray | None = None
    told: np.ndarray | None = None


class Barriers:
    """The mbarriers of a strip, by their offset in its shared memory."""

    def __init__(self, strip):
        self.strip = strip
        self.all: dict[int, Barrier] = {}

    def at(self, offset: int) -> Barrier:
        barrier = self.all.get(offset)
        if barrier is None:
            raise Fault(
                "an mbarrier is used that nothing has initialised",
                got=self.strip.shared.describe(offset),
                needs="mbarrier.init, then a barrier between it and this",
            )
        return barrier

    def describe(self, offset: int) -> str:
        where = f"the mbarrier at {self.strip.shared.describe(offset)}"
        barrier = self.all.get(offset)
        if barrier is None:
            return where
        return (
            f"{where} (phase {barrier.phase}, {barrier.pending} of {barrier.expected} arrivals pending, "
            f"{barrier.tx} bytes pending)"
        )

    # ---- making
    def init(self, offset: int, count: int, cta: int, thread: int) -> None:
        if not 1 <= count <= MOST:
            raise Fault("an mbarrier cannot count so many arrivals", got=count, needs=f"1 to {MOST}")
        if offset in self.all:
            raise Fault(
                "an mbarrier is initialised where one is alive",
                got=self.strip.shared.describe(offset),
                needs="mbarrier.inval first",
            )
        self.all[offset] = Barrier(count, count, (cta, thread), self._epoch(cta))
        self.strip.shared.state[1][offset : offset + 8] = ALLOCATED | WRITTEN | OPAQUE

    def invalidate(self, offset: int) -> None:
        self.at(offset)
        del self.all[offset]
        self.strip.shared.state[1][offset : offset + 8] = ALLOCATED

    def fence(self, warp, mask: np.ndarray | None) -> None:
        """Lanes order the barriers they made before other CTAs' and the asynchronous proxy's use."""
        chosen = slice(None) if mask is None else mask
        threads = set(zip(warp.cta[chosen].tolist(), warp.tid[chosen].tolist(), strict=True))
        for barrier in self.all.values():
            barrier.fenced |= barrier.maker in threads

    def _epoch(self, cta: int) -> int:
        return int(self.strip.cluster_phase[cta // self.strip.launch.cluster])

    # ---- signals
    def arrive(self, offset: int, count: int) -> int:
        """Threads arrive; the phase they arrived in."""
        barrier = self.at(offset)
        phase = barrier.phase
        if count > barrier.pending:
            raise Fault(
                "more arrivals at an mbarrier than its phase expects",
                got=f"{count} more at {self.describe(offset)}",
                needs="as many in each phase as mbarrier.init said",
            )
        barrier.pending -= count
        self._complete(barrier)
        return phase

    def tell(self, offset: int, told: np.ndarray) -> None:
        """What the next arrival tells of tensor memory, see `TensorMemory`."""
        barrier = self.at(offset)
        barrier.telling = told if barrier.telling is None else np.maximum(barrier.telling, told)

    def expect(self, offset: int, nbytes: int) -> None:
        """`nbytes` more are to come in this phase; a negative number has come."""
        barrier = self.at(offset)
        barrier.tx += nbytes
        if not -MOST <= barrier.tx <= MOST:
            raise Fault(
                "an mbarrier cannot count so many bytes", got=self.describe(offset), needs=f"at most {MOST} either way"
            )

    def come(self, offset: int, nbytes: int) -> None:
        """Bytes have come."""
        self.expect(offset, -nbytes)
        self._complete(self.all[offset])

    def _complete(self, barrier: Barrier) -> None:
        if barrier.pending == 0 and barrier.tx == 0:
            barrier.phase += 1
            barrier.pending = barrier.expected
            barrier.told = barrier.telling
            self.strip.changes += 1

    def check_use(self, offset: int, cta: int, place: str, asynchronous: bool = False) -> Barrier:
        """A barrier that a thread of `cta` signals, or, `asynchronous`, has a copy signal."""
        barrier = self.at(offset)
        home = offset // self.strip.shared.pitch
        if (asynchronous or home != cta) and not barrier.fenced:
            raise Fault(
                "an mbarrier is signalled by "
                + ("the asynchronous proxy" if asynchronous else "another CTA")
                + ", which may not see that it was initialised",
                got=self.describe(offset),
                needs="fence.mbarrier_init or fence.proxy.async by the thread that initialised it",
            )
        if home != cta:
            if self._epoch(cta) <= barrier.epoch:
                raise Fault(
                    "an mbarrier of another CTA is signalled that may not be initialised yet",
                    got=self.describe(offset),
                    needs="a barrier of the cluster after mbarrier.init",
                )
            barrier.signalled, barrier.place = barrier.phase, place
        return barrier

    # ---- the order of things
    def ordered(self, ctas: Iterable[int]) -> None:
        """A barrier of the cluster: what came before it is known to all of its CTAs."""
        pitch, inside = self.strip.shared.pitch, set(ctas)
        for offset, barrier in self.all.items():
            if offset // pitch in inside:
                barrier.signalled = -1

    def check_end(self, cta: int) -> None:
        """A CTA may end only when no other one's signal to it can be under way."""
        pitch = self.strip.shared.pitch
        for offset, barrier in self.all.items():
            if offset // pitch == cta and barrier.signalled >= barrier.seen:
                raise Fault(
                    "a CTA ends while another one may still be signalling its mbarrier",
                    got=f"{self.describe(offset)}, signalled at {barrier.place}",
                    needs="a barrier of the cluster before its CTAs end",
                )
