"""What is on its way into shared memory and signals an mbarrier there when it has come: bulk copies, and stores to another CTA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmgen.emulate.core.memory import Fault


@dataclass
class Flight:
    """What one instruction brings to one CTA.

    Attributes:
        cta: in whose shared memory it lands.
        target: `nbytes` bytes from this offset on; read: gives them.
        barrier: offset of the mbarrier it signals.
        place: where it was issued.
        what: it is, for messages.
    """

    cta: int
    target: int
    read: Callable[[], np.ndarray]
    nbytes: int
    barrier: int
    place: str
    what = "a copy into its shared memory"

    def signals(self, barrier: int) -> bool:
        return self.barrier == barrier

    def land(self, strip) -> None:
        """The bytes come, as they are where they are read from now."""
        strip.shared.land_range(self.target, self.read())
        strip.barriers.come(self.barrier, self.nbytes)


def issue(warp, lane: int, target: int, read, nbytes: int, barrier: int, place: str, what: str = "a bulk copy") -> None:
    """A flight into one CTA begins; it lands now or, where copies are lazy, when somebody waits for it."""
    strip = warp.strip
    pitch = strip.shared.pitch
    cta = target // pitch
    if barrier // pitch != cta:
        raise Fault(f"{what} signals an mbarrier of another CTA than it goes to")
    if target % pitch + nbytes > strip.shared.each:
        raise Fault(f"{what} of {nbytes} bytes reaches outside shared memory", got=strip.shared.describe(target))
    strip.check_remote(warp.cta[lane : lane + 1], np.array([cta]))
    strip.barriers.check_use(barrier, int(warp.cta[lane]), place, asynchronous=True)
    strip.shared.reserve_range(target, nbytes)
    flight = Flight(cta, target, read, nbytes, barrier, place)
    if strip.lazy:
        strip.flights.append(flight)
    else:
        flight.land(strip)
