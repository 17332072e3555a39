"""What multiplies a batch, as a contender of a race, and whether it is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from gemmgen.errors import GemmgenError
from gemmgen.timing.batches.device import DeviceBatch
from gemmgen.timing.contender import Contender
from gemmgen.timing.racing import refusals
from gemmgen.timing.reference import sampled_rows

FP32_TOLERANCE = 2.0**-20
"""Of |C - C*| / (|A| |B|), for uniform data of both signs: about ten times what cuBLAS SGEMM shows, a hundredth of what FP16 alone does."""
CHECKED, CHECKED_ROWS = 8, 64


class Multiplier(Protocol):
    """Something that multiplies a batch.

    It may also have `tolerance`, the largest scaled error at which it counts as right (FP32_TOLERANCE
    where it has none), and `result(batch, set_index, number)`, the C [M, N] that it wrote, where that
    is not the batch's own.

    Attributes:
        name: what it calls itself; a table may know it by another.
    """

    name: str

    def prepare(self, batch: DeviceBatch, set_index: int) -> Callable[[], Any]:
        """A call that enqueues all products of one set on the stream that is current now, and will be then.

        Everything that a program does once for a batch belongs here: workspaces, graphs, look-ups.

        Raises:
            DeviceError: it has no way for this batch.
        """
        ...


def prepared(
    field: Mapping[str, Multiplier], batch: DeviceBatch, told: Callable[[str], None] = lambda note: None,
) -> list[Contender]:
    """Contenders of those that have a way for the batch and are right; why others have not or are not goes to `told`.

    Args:
        field: by the names that the table gives them.

    To be called with the stream current that they will be timed on.

    Raises:
        DeviceError: a launch failed, after which no other works.
    """
    import cupy

    with refusals():
        cupy.cuda.Device().synchronize()  # the batch was made on another stream
        reference = BatchReference(batch)
        out = []
        for name, one in field.items():
            try:
                entry = Contender(name, _in_turn(one, batch), outputs=batch.c, sets=batch.sets)
                entry.scaled = reference.scaled_error(entry.enqueue, getattr(one, "result", None))
            except GemmgenError as error:
                told(f"{name}: not timed: {error.problem}" + ("" if error.got is None else f": {error.got}"))
                continue
            tolerance = getattr(one, "tolerance", FP32_TOLERANCE)
            if entry.scaled > tolerance:
                told(f"{name}: not timed: it is wrong: |C - C*| / (|A| |B|) is {entry.scaled:.1e}, at most {tolerance:.1e} is right")
                continue
            out.append(entry)
        return out


def _in_turn(one: Multiplier, batch: DeviceBatch) -> Callable[[int], None]:
    """Enqueues the call of a set. It keeps the multiplier: a call knows only addresses, which are freed with the multiplier's arrays, handles and streams."""
    calls = [one.prepare(batch, at) for at in range(batch.sets)]

    def enqueue(index: int, kept: Multiplier = one) -> None:
        calls[index % batch.sets]()

    return enqueue


def checked(batch: DeviceBatch, most: int = CHECKED) -> list[int]:
    """Numbers of the products that are compared: the one of most and that of least work, the rest evenly spread; none is empty."""
    whole = [number for number, (m, n, _) in enumerate(batch.products) if m and n]
    if not whole:
        return []
    by_work = sorted(whole, key=lambda number: (np.prod(batch.products[number], dtype=np.int64), number))
    spread = [whole[at] for at in np.linspace(0, len(whole) - 1, min(len(whole), most - 2)).round().astype(int)]
    return sorted({by_work[0], by_work[-1], *spread})


class BatchReference:
    """FP64 products of sampled rows of some matrices of a batch, of its first and last set."""

    def __init__(self, batch: DeviceBatch):
        import cupy

        self._batch = batch
        self.sets = sorted({0, batch.sets - 1})
        self._known: dict[tuple[int, int], tuple[Any, Any, Any]] = {}
        for at in self.sets:
            for number in checked(batch):
                a, b, _ = batch.matrices(at, number)
                rows = cupy.asarray(sampled_rows(a.shape[0], CHECKED_ROWS))
                a, b = a[rows].astype(np.float64), b.astype(np.float64)
                self._known[at, number] = rows, a @ b, abs(a) @ abs(b)

    def scaled_error(self, enqueue: Callable[[int], Any], own: Callable[[DeviceBatch, int, int], Any] | None = None) -> float:
        """Largest |C - C*| / (|A| |B|) of what a contender computes now; Inf where it left an element unwritten or wrote beside its matrices.

        Args:
            own: C of a product, where the contender does not write the batch's.
        """
        import cupy

        worst = 0.0
        for at in self.sets:
            c = self._batch.c[at]
            c.fill(np.nan)
            enqueue(at)
            if own is None and (int(cupy.isnan(c).sum()) != self._batch.gaps or bool(cupy.isinf(c).any())):
                return float("inf")
            for (of, number), (rows, exact, magnitude) in self._known.items():
                if of == at:
                    got = (own(self._batch, at, number) if own else self._batch.matrices(at, number)[2])[rows].astype(np.float64)
                    error = float((abs(got - exact) / cupy.maximum(magnitude, np.finfo(np.float64).tiny)).max())
                    worst = max(worst, error if np.isfinite(error) else float("inf"))
        return worst
