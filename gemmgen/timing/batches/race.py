"""The race of batches: every contender enqueues one batch after the other for a slice of time in every round.

What is timed is what a program waits for: two events around the slice enclose the products and whatever
time the GPU waits for the host between them, so that a loop of library calls is told with its enqueueing
and a graph, or one launch, without. The host's own time is kept beside it: a contender whose two times
are the same is bound by its host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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
                entry = Prepared(name, contender, [contender.prepare(batch, at) for at in range(batch.sets)])
                entry.scaled = reference.scaled_error(entry)
            except GemmgenError as error:
                told(f"{name}: not timed: {error.problem}" + ("" if error.got is None else f": {error.got}"))
                continue
            if entry.scaled > entry.tolerance:
                told(f"{name}: not timed: it is wrong: |C - C*| / (|A| |B|) is {entry.scaled:.1e}, at most {entry.tolerance:.1e} is right")
                continue
            out.append(entry)
        return out


def repeats(slice_seconds: float, one: float, sets: int) -> int:
    """Batches in a slice: so many that it is filled, and that each set is used once at least."""
    return max(sets, round(slice_seconds / one))


def race_batches(
    entries: Sequence[Prepared], watch: Stopwatch, *, rounds: int, slice_ms: float, seconds: float | None = None, warm_up: float = 0.0,
) -> None:
    """Time all of them on the watch's stream, `rounds` times each for about `slice_ms`, in an order drawn anew for each round.

    Args:
        seconds: what the race may take; slices are shortened to fit, then rounds, to LEAST_ROUNDS.
        warm_up: seconds to run before anything counts; one round at least.

    Raises:
        DeviceError: a launch failed.
    """
    until = time.perf_counter() + seconds if seconds else None
    slice_seconds = slices(max(len(entries), 1), rounds=rounds, slice_ms=slice_ms, seconds=seconds)
    with refusals():
        counts = []
        for entry in entries:
            _slice(entry, watch, len(entry.calls))
            counts.append(repeats(slice_seconds, _slice(entry, watch, 2 * len(entry.calls))[0], len(entry.calls)))
        draw = np.random.default_rng(0)
        warm = time.perf_counter() + warm_up
        while True:
            for at in draw.permutation(len(entries)):
                _slice(entries[at], watch, counts[at])
            if time.perf_counter() >= warm:
                break
        for turn in range(rounds):
            if until and turn >= LEAST_ROUNDS and time.perf_counter() > until:
                break
            for at in draw.permutation(len(entries)):
                taken, hosts = _slice(entries[at], watch, counts[at])
                entries[at].seconds.append(taken)
                entries[at].host_seconds.append(hosts)


def _slice(entry: Prepared, watch: Stopwatch, count: int) -> tuple[float, float]:
    """(seconds of a batch, seconds of the host for it), the mean of `count` batches in a row."""
    order: list[Callable[[], Any]] = [entry.calls[at % len(entry.calls)] for at in range(count)]
    host = 0.0

    def enqueue() -> None:
        nonlocal host
        began = time.perf_counter()
        for call in order:
            call()
        host = time.perf_counter() - began

    taken = watch.seconds(enqueue)
    return taken / count, host / count
