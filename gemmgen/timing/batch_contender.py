"""A built kernel as a contender of a race of batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gemmgen.errors import InfeasibleSpec
from gemmgen.timing.batches.contender import BatchContender
from gemmgen.timing.batches.device import DeviceBatch

if TYPE_CHECKING:
    from gemmgen.build import Built


class OneByOne:
    """cupy's product of each matrix, one after the other: right and slow, what the race itself is tried with."""

    name = "one by one"

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], None]:
        import cupy

        triples = [batch.matrices(set_index, number) for number in range(len(batch.products))]
        whole = [(a, b, c) for a, b, c in triples if c.size]

        def enqueue() -> None:
            for a, b, c in whole:
                cupy.matmul(a, b, out=c)

        return enqueue


def contender(built: Built) -> BatchContender:
    """What multiplies a batch with this kernel.

    Raises:
        InfeasibleSpec: it multiplies one pair of matrices a launch.
    """
    raise InfeasibleSpec("bench-batches", "is given a kernel of one product", got=built.source.name, needs="one whose launch takes many",
                         remedy="gemmgen bench, for kernels of one product")
