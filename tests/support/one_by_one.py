"""A contender of a race of batches that is right and slow: what the race itself is tried with."""

from __future__ import annotations

from collections.abc import Callable

from gemmgen.timing.batches import DeviceBatch


class OneByOne:
    """cupy's product of each matrix, one after the other."""

    name = "one by one"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        triples = [batch.matrices(set_index, number) for number in range(len(batch.products))]
        whole = [(a, b, c) for a, b, c in triples if c.size]

        def enqueue() -> None:
            for a, b, c in whole:
                cupy.matmul(a, b, out=c)

        return enqueue
