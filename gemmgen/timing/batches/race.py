"""The race of batches: every contender enqueues one batch after the other for a slice of time in every round.

What is timed is what a program waits for: two events around the slice enclose the products and whatever
time the GPU waits for the host between them, so that a loop of library calls is told with its enqueueing
and a graph, or one launch, without. The host's own time is kept beside it: a contender whose two times
are the same is bound by its host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gemmgen.errors import GemmgenError
from gemmgen.timing.batches.contender import BatchContender, BatchReference, Prepared
from gemmgen.timing.batches.device import DeviceBatch
from gemmgen.timing.racing import LEAST_ROUNDS, Stopwatch, refusals, slices


def prepared(
    contenders: Mapping[str, BatchContender], batch: DeviceBatch, told: Callable[[str], None] = lambda note: None,
) -> list[Prepared]:
    """Those that have a way for the batch and are right; why others have not or are not goes to `told`.

    Args:
        contenders: by the names that the table gives them.

    To be called with the stream current that they will be timed on.

    Raises:
        DeviceError: a launch failed, after which no other works.
    """
    import cupy

    with refusals():
        cupy.cuda.Device().synchronize()  # the batch was made on another stream
        reference = BatchReference(batch)
        out = []
        for name, contender in contenders.items():
            try:
                entry = Prepared(name, contender, batch, [contender.prepare(batch, at) for at in range(batch.sets)])
                entry.scaled = reference.scaled_error(entry)
            except GemmgenError as error:
                told(f"{name}: not timed: {error.problem}" + ("" if error.got is None else f": {error.got}"))
                continue
            if entry.scaled > entry.tolerance:
                told(f"{name}: not timed: it is wrong: |C - C*| / (|A| |B|) is {entry.scaled:.1e}, at most {entry.tolerance:.1e} is right")
                continue
            out.append(entry)
        return out


def repeats(slice_seconds: float, one: float, calls: int) -> int:
    """Calls in a slice: so many that it is filled, and that each is made once at least."""
    return max(calls, round(slice_seconds / one))


@dataclass(frozen=True)
class _Turn:
    """What one contender does again and again.

    Attributes:
        calls: after one another; each enqueues `batches` of them, on the next sets.
    """

    entry: Prepared
    calls: Sequence[Callable[[], Any]]
    batches: int

    def run(self, watch: Stopwatch, count: int) -> tuple[float, float]:
        """(seconds of a batch, seconds of the host for it), the mean of `count` calls in a row."""
        order = [self.calls[at % len(self.calls)] for at in range(count)]
        host = 0.0

        def enqueue() -> None:
            nonlocal host
            began = time.perf_counter()
            for call in order:
                call()
            host = time.perf_counter() - began

        taken = watch.seconds(enqueue)
        return taken / count / self.batches, host / count / self.batches


def _turns(entries: Sequence[Prepared], watch: Stopwatch, captured: bool) -> list[_Turn]:
    """Each contender's calls, or in their place one CUDA graph of them all."""
    turns = [_Turn(entry, entry.calls, 1) for entry in entries]
    for turn in turns:
        turn.run(watch, len(turn.calls))  # what a call loads and allocates the first time
    return [_Turn(entry, [replay(entry.calls, watch)], len(entry.calls)) for entry in entries] if captured else turns


def replay(calls: Sequence[Callable[[], Any]], watch: Stopwatch) -> Callable[[], Any]:
    """Launches a CUDA graph of the calls, captured here, on the watch's stream."""
    graph = watch.graph(lambda number: calls[number](), len(calls))
    return partial(graph.launch, watch.stream)


def race_batches(
    entries: Sequence[Prepared], watch: Stopwatch, *, rounds: int, slice_ms: float, seconds: float | None = None, warm_up: float = 0.0,
    captured: bool = False,
) -> None:
    """Time all of them on the watch's stream, `rounds` times each for about `slice_ms`, in an order drawn anew for each round.

    Args:
        seconds: what the race may take; slices are shortened to fit, then rounds, to LEAST_ROUNDS.
        warm_up: seconds to run before anything counts; one round at least.
        captured: replay a CUDA graph of each contender's calls, one of each set: the GPU's time without the host's.

    Raises:
        DeviceError: a launch failed, or a contender cannot be captured.
    """
    until = time.perf_counter() + seconds if seconds else None
    slice_seconds = slices(max(len(entries), 1), rounds=rounds, slice_ms=slice_ms, seconds=seconds)
    with refusals():
        field = []
        for turn in _turns(entries, watch, captured):
            once = turn.run(watch, 2 * len(turn.calls))[0] * turn.batches
            field.append((turn, repeats(slice_seconds, once, len(turn.calls))))
        draw = np.random.default_rng(0)
        warm = time.perf_counter() + warm_up
        while True:
            for at in draw.permutation(len(field)):
                field[at][0].run(watch, field[at][1])
            if time.perf_counter() >= warm:
                break
        for number in range(rounds):
            if until and number >= LEAST_ROUNDS and time.perf_counter() > until:
                break
            for at in draw.permutation(len(field)):
                turn, count = field[at]
                taken, host = turn.run(watch, count)
                turn.entry.seconds.append(taken)
                turn.entry.host_seconds.append(host)
