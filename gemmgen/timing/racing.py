"""The race: every contender runs for a slice of time in every round, from CUDA graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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

    def one(self, enqueue: Callable[[int], None], capturable: bool = True) -> float:
        """Seconds of one product, roughly, as it takes in a graph; `enqueue` is warm afterwards."""
        for index in range(2):
            enqueue(index)
        alone = self.seconds(lambda: enqueue(0))
        if alone > 2e-3:
            return alone
        if not capturable:
            return self.seconds(lambda: [enqueue(index) for index in range(20)]) / 20
        graph = self.graph(enqueue, 20)
        return min(self.seconds(lambda: graph.launch(self.stream)) / 20 for _ in range(3))


def estimate(enqueue: Callable[[int], None]) -> float:
    """Seconds of one product, roughly: to choose between configurations, not to report.

    Raises:
        DeviceError: a launch failed.
    """
    with refusals():
        watch = Stopwatch()
        with watch.stream:
            return watch.one(enqueue)


def filling(slice_seconds: float, one: float) -> tuple[int, int]:
    """(products in a graph, launches of it) that fill a slice; one product at least."""
    products = max(1, round(slice_seconds / one))
    launches = -(-products // GRAPH_PRODUCTS)
    return -(-products // launches), launches


def slices(count: int, *, rounds: int, slice_ms: float, seconds: float | None) -> float:
    """Seconds of a slice: as asked, or shorter so that all rounds and the warm-up fit into `seconds`."""
    return min(slice_ms / 1e3, seconds / ((rounds + 1) * count)) if seconds else slice_ms / 1e3


def race(
    contenders: Sequence[Contender], *, rounds: int, slice_ms: float, seconds: float | None = None, warm_up: float = 0.0,
    sensors: Sensors | None = None,
) -> None:
    """Time all of them, `rounds` times each for about `slice_ms`.

    Args:
        seconds: what the race may take. Slices are shortened to fit; one holds a whole product all the
            same, so when the time is over it also ends after fewer rounds, LEAST_ROUNDS at least.
        warm_up: seconds to run before anything counts; one round at least.
        sensors: looked at while each contender runs.

    Raises:
        DeviceError: a launch failed.
    """
    import cupy

    until = time.perf_counter() + seconds if seconds else None
    slice_seconds = slices(len(contenders), rounds=rounds, slice_ms=slice_ms, seconds=seconds)
    with refusals():
        cupy.cuda.Device().synchronize()  # the inputs were made on another stream
        watches = {True: Stopwatch(), **({} if all(one.capturable for one in contenders) else {False: Stopwatch(default=True)})}
        prepared = []
        for contender in contenders:
            watch = watches[contender.capturable]
            with watch.stream:
                one = watch.one(contender.enqueue, contender.capturable)
                products, launches = filling(slice_seconds, one)
                graph = watch.graph(contender.enqueue, products) if contender.capturable else None
            prepared.append((contender, watch, _action(contender, watch, graph, products, launches), products * launches, one * products * launches))

        def run(entry: tuple[Contender, Stopwatch, Callable[[], None], int, float], counts: bool) -> None:
            contender, watch, action, products, lasts = entry

            def look() -> None:
                sample = sensors.read() if sensors else None
                if sample:
                    contender.samples.append(sample)

            with watch.stream:
                taken = watch.seconds(action, look if counts and sensors else None, lasts)
            if counts:
                contender.seconds.append(taken / products)

        draw = np.random.default_rng(0)
        warm = time.perf_counter() + warm_up
        while True:
            for at in draw.permutation(len(prepared)):
                run(prepared[at], counts=False)
            if time.perf_counter() >= warm:
                break
        for turn in range(rounds):
            if until and turn >= LEAST_ROUNDS and time.perf_counter() > until:
                break
            for at in draw.permutation(len(prepared)):
                run(prepared[at], counts=True)


def _action(contender: Contender, watch: Stopwatch, graph: Any, products: int, launches: int) -> Callable[[], None]:
    """What puts a slice on the watch's stream: the graph several times, or where there is none, product by product."""
    def one_by_one() -> None:
        for index in range(products * launches):
            contender.enqueue(index)

    def replayed() -> None:
        for _ in range(launches):
            graph.launch(watch.stream)

    return one_by_one if graph is None else replayed
