"""A batch divided between two kernels: each product goes to the one that the model says is faster with its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.model.batch import divided
from gemmgen.plan import Plan
from gemmgen.run import Device
from gemmgen.run.batch import BatchResult, Product, batch, sizes_of

if TYPE_CHECKING:
    from gemmgen.build import Built


def check_pair(first: Plan, second: Plan) -> None:
    """Whether two kernels can share a batch.

    Raises:
        SpecError: one is not for products of any size, or they store matrices differently.
    """
    for plan in (first, second):
        if plan.kind.uniform:
            raise SpecError("kernels", "cannot share a batch", got=f"one for problems of kind {plan.kind}", needs='[problem] kind = "grouped" of both',
                            remedy="two specs of grouped batches")
    for name in ("layout", "output", "special"):
        one, other = getattr(first, name), getattr(second, name)
        if one != other:
            words = [value if isinstance(value, str) else value.title for value in (one, other)]
            raise SpecError("kernels", "cannot share a batch", got=f"{name} {' and '.join(words)}",
                            needs=f"the same {name} of both", remedy="one more spec")


def division(first: Plan, second: Plan, sizes: np.ndarray) -> np.ndarray:
    """[products] whether each goes to the second kernel.

    Args:
        sizes: [products, 3] of m, n, k.
    """
    told = first.gpu.measured.of("batches", first.gpu.name)
    return divided(*(plan.design.each_seconds(plan, sizes) for plan in (first, second)), told.pass_seconds.value, told.class_seconds.value)


def mixed(devices: Sequence[Device], kernels: Sequence[Built], products: Sequence[Product]) -> BatchResult:
    """All products, each by one of two kernels, one kernel's after the other's.

    Args:
        devices: for each kernel, one that has its code.

    Raises:
        SpecError: the kernels cannot share a batch; others as `run.batch.batch`.
    """
    check_pair(kernels[0].plan, kernels[1].plan)
    second = division(kernels[0].plan, kernels[1].plan, sizes_of(products))
    found: dict[int, np.ndarray] = {}
    parts: list[BatchResult] = []
    for which, (device, one) in enumerate(zip(devices, kernels)):
        mine = np.flatnonzero(second == bool(which))
        if len(mine):
            parts.append(batch(device, one.plan, one.source, [products[at] for at in mine]))
            found |= dict(zip(mine.tolist(), parts[-1].products))
    seconds = [one.seconds for one in parts]
    return BatchResult(
        tuple(found[at] for at in range(len(products))), _summed([one.status for one in parts]),
        None if None in seconds else float(sum(seconds)), all(one.intact for one in parts),  # type: ignore[arg-type]
    )


def _summed(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Counters of several batches as of one."""
    return {name: sum(one.get(name, 0) for one in counts) for name in dict.fromkeys(name for one in counts for name in one)}
