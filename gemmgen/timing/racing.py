"""The race: every contender runs for a slice of time in every round, from CUDA graphs or enqueued anew.

What is enqueued anew is timed as a program waits for it: two events around the slice enclose the products
and whatever time the GPU waits for the host between them. The host's own time is kept beside it: a
contender whose two times are the same is bound by its host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.errors import DeviceError
from gemmgen.run.sensors import Sensors
from gemmgen.timing.contender import Contender

LEAST_ROUNDS = 5
GRAPH_PRODUCTS = 200  # at most, in one graph; slices that hold more launch it again
SAMPLE_SECONDS = 4e-3  # between two looks at the sensors


@contextmanager
def refusals() -> Iterator[None]:
    """What the GPU refuses inside, as a DeviceError."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError("bench", "the GPU's memory is too small", got=str(error), remedy="smaller sizes") from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise DeviceError("bench", "the GPU refused", got=str(error), remedy="smaller sizes") from error


class Stopwatch:
    """Times what is put on one stream: one of its own, or the default one."""

    def __init__(self, default: bool = False) -> None:
        import cupy

        self._elapsed = cupy.cuda.get_elapsed_time
        self.stream = cupy.cuda.Stream.null if default else cupy.cuda.Stream(non_blocking=True)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()

    def seconds(self, action: Callable[[], None], look: Callable[[], None] | None = None, lasts: float = 0.0) -> float:
        """Of everything that `action` puts on the stream.

        Args:
            look: called now and then while it runs, for most of the `lasts` seconds that it is known to take.
        """
        self._start.record(self.stream)
        action()
        self._stop.record(self.stream)
        until = time.perf_counter() + 0.9 * lasts - SAMPLE_SECONDS
        while look and time.perf_counter() < until:  # an event that is asked whether it is done leaves an error behind
            time.sleep(SAMPLE_SECONDS)
            look()
        self._stop.synchronize()
        return self._elapsed(self._start, self._stop) / 1e3

    def graph(self, enqueue: Callable[[int], None], products: int) -> Any:
        """A CUDA graph of products of one input set after the other."""
        self.stream.begin_capture()
        try:
            for index in range(products):
                enqueue(index)
        finally:
            graph = self.stream.end_capture()
        return graph

    def one(self, enqueue: Callable[[int], None], capturable: bool = True, sets: int = 0) -> float:
        """Seconds of one product, roughly, as it takes in a graph; `enqueue` is warm afterwards."""
        for index in range(max(2, sets)):
            enqueue(index)
        alone, count = self.seconds(lambda: enqueue(0)), 2 * sets or 20
        if alone > 2e-3:
            return alone
        if not capturable:
            return self.seconds(lambda: [enqueue(index) for index in range(count)]) / count
        graph = self.graph(enqueue, count)
        return min(self.seconds(lambda: graph.launch(self.stream)) / count for _ in range(3))


def estimate(enqueue: Callable[[int], None]) -> float:
    """Seconds of one product, roughly: to choose between configurations, not to report.

    Raises:
        DeviceError: a launch failed.
    """
    import cupy

    with refusals():
        # The inputs were made on another stream. What draws them frees its memory before it has run, and a contender's workspace may be given that memory.
        cupy.cuda.Device().synchronize()
        watch = Stopwatch()
        with watch.stream:
            return watch.one(enqueue)


def filling(slice_seconds: float, one: float, captured: bool = True, sets: int = 0) -> tuple[int, int]:
    """(products enqueued or captured in a row, how often) that fill a slice: one product at least, or one of each of the sets."""
    if captured and sets:
        return sets, max(1, round(slice_seconds / (one * sets)))
    products = max(1, sets, round(slice_seconds / one))
    launches = -(-products // GRAPH_PRODUCTS) if captured else 1
    return -(-products // launches), launches


def slices(count: int, *, rounds: int, slice_ms: float, seconds: float | None) -> float:
    """Seconds of a slice: as asked, or shorter so that all rounds and the warm-up fit into `seconds`."""
    return min(slice_ms / 1e3, seconds / ((rounds + 1) * max(count, 1))) if seconds else slice_ms / 1e3


@dataclass(frozen=True)
class _Turn:
    """What one contender does in each round: `action` enqueues `products`, which take about `lasts` seconds."""

    contender: Contender
    watch: Stopwatch
    action: Callable[[], None]
    products: int
    lasts: float

    def run(self, sensors: Sensors | None = None) -> tuple[float, float]:
        """Seconds of a product, and of the host for it."""
        host = 0.0

        def enqueue() -> None:
            nonlocal host
            began = time.perf_counter()
            self.action()
            host = time.perf_counter() - began

        def look() -> None:
            sample = sensors.read() if sensors else None
            if sample:
                self.contender.samples.append(sample)

        with self.watch.stream:
            taken = self.watch.seconds(enqueue, look if sensors else None, self.lasts)
        return taken / self.products, host / self.products


def race(
    contenders: Sequence[Contender], *, rounds: int, slice_ms: float, seconds: float | None = None, warm_up: float = 0.0,
    sensors: Sensors | None = None, watch: Stopwatch | None = None, captured: bool = True,
) -> None:
    """Time all of them, `rounds` times each for about `slice_ms`, in an order drawn anew for each round.

    Args:
        seconds: what the race may take. Slices are shortened to fit; one holds a whole product all the
            same, so when the time is over it also ends after fewer rounds, LEAST_ROUNDS at least.
        warm_up: seconds to run before anything counts; one round at least.
        sensors: looked at while each contender runs.
        watch: on whose stream all run; None for a new stream, and the default one where a contender cannot be captured.
        captured: replay CUDA graphs of those that can be captured: the GPU's time without the host's.

    Raises:
        DeviceError: a launch failed, or a contender cannot be captured.
    """
    import cupy

    until = time.perf_counter() + seconds if seconds else None
    slice_seconds = slices(len(contenders), rounds=rounds, slice_ms=slice_ms, seconds=seconds)
    with refusals():
        cupy.cuda.Device().synchronize()  # as in `estimate`
        watches = {kind: watch or Stopwatch(default=not kind) for kind in {one.capturable for one in contenders}}
        turns = [_turn(one, watches[one.capturable], slice_seconds, captured and one.capturable) for one in contenders]
        draw = np.random.default_rng(0)
        warm = time.perf_counter() + warm_up
        while True:
            for at in draw.permutation(len(turns)):
                turns[at].run()
            if time.perf_counter() >= warm:
                break
        for number in range(rounds):
            if until and number >= LEAST_ROUNDS and time.perf_counter() > until:
                break
            for at in draw.permutation(len(turns)):
                taken, host = turns[at].run(sensors)
                turns[at].contender.seconds.append(taken)
                turns[at].contender.host_seconds.append(host)


def _turn(contender: Contender, watch: Stopwatch, slice_seconds: float, captured: bool) -> _Turn:
    """A slice of a contender: its graph several times, or product by product."""
    with watch.stream:
        one = watch.one(contender.enqueue, captured, contender.sets)
        products, launches = filling(slice_seconds, one, captured, contender.sets)
        graph = watch.graph(contender.enqueue, products) if captured else None

    def action() -> None:
        if graph is None:
            for index in range(products):
                contender.enqueue(index)
        else:
            for _ in range(launches):
                graph.launch(watch.stream)

    return _Turn(contender, watch, action, products * launches, one * products * launches)
