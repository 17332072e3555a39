"""What the report computes of all rows of a GPU, drawn or not: the model against measurements with its outliers, and the roofs of a roofline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS, F32
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.workshop.explore.trial_row import Row, possible

NEAR = 1.1
"""A predicted time counts as near within this factor, and is no outlier."""
DEVIATIONS = 3.0
"""From the median of its design, in robust standard deviations, an outlier lies at least so far."""
MOST_OUTLIERS = 200


def model_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Predicted against measured times of one GPU's timed kernels.

    Returns:
        `designs`: of each design and of all [name, points, mean error, bias, share within 10 %], ratios as factors over 1;
        `outliers`: rows whose measured time over the predicted one lies far from their design's median, the furthest first, as
        (row, ratio, how far from the median as a factor); `more`: how many further ones there are.
    """
    found = [row for row in rows if row.kind == "kernel" and row.verdict == "timed" and possible("seconds", row.seconds)
             and possible("predicted_seconds", row.predicted_seconds)]
    logs = np.log([(row.seconds or 1) / (row.predicted_seconds or 1) for row in found])
    names = np.array([row.design or row.policy for row in found], object)
    designs: list[list[Any]] = []
    far = np.zeros(len(found))
    for name in dict.fromkeys(sorted(names)):
        mine = names == name
        designs.append([name, *_summed(logs[mine])])
        middle = np.median(logs[mine])
        far[mine] = logs[mine] - middle
        reach = max(np.log(NEAR), DEVIATIONS * 1.4826 * float(np.median(np.abs(far[mine]))))
        far[mine & (np.abs(far) <= reach)] = 0.0
    if len(designs) > 1:
        designs.append(["all", *_summed(logs)])
    order = [at for at in np.argsort(-np.abs(far), kind="stable") if far[at]]
    return {"designs": designs, "more": max(0, len(order) - MOST_OUTLIERS),
            "outliers": [(found[at], float(np.exp(logs[at])), float(np.exp(abs(far[at])))) for at in order[:MOST_OUTLIERS]]}


def _summed(logs: np.ndarray) -> list[float]:
    return [len(logs), float(np.exp(np.abs(logs).mean())), float(np.exp(logs.mean())), float((np.abs(logs) < np.log(NEAR)).mean())]


def roofs(gpu: str, schemes: Sequence[str]) -> dict[str, Any] | None:
    """What a GPU's data sheet allows a product: `memory` in 10^12 bytes a second, and `units`, [scheme, TFLOP/s of the product] by the rate of its words
    over its products, the highest first. None of a GPU without a description; schemes that are unknown, or whose words it does not multiply, are left out.
    """
    if gpu not in GPUS.names():  # a name in a store may be a path
        return None
    row, units = GPUS.get(gpu), []
    for name in schemes:
        if name not in SCHEMES.names():
            continue
        try:
            units.append([name, roof(row, SCHEMES.get(name))])
        except KeyError:
            continue
    return {"memory": row.rates.dram_gb_per_s * 1e-3, "units": sorted(units, key=lambda one: (-one[1], one[0]))}


def roof(gpu: Gpu, scheme: Scheme) -> float:
    """TFLOP/s of a product that nothing but the units' rate limits.

    Raises:
        KeyError: the GPU's matrix units do not multiply the scheme's words.
    """
    words = [scheme.accumulator(product.into).word for product in scheme.products]
    rates = gpu.rates
    if set(words) == {"f32"}:
        return rates.f32_tflops
    return 2e-6 * rates.sms * rates.tensor_boost_mhz / sum(1 / rates.tensor_fma_per_clock[word] for word in words)


@cache
def _element_bytes(scheme: str) -> int:
    """Of an element of A, B and C."""
    return ELEMENTS[SCHEMES.get(scheme).element if scheme in SCHEMES.names() else F32.name].bytes


def intensity_of(row: Row) -> float:
    """FLOP a byte of A, B and C, each moved once; of an unknown scheme elements are FP32."""
    size = _element_bytes(row.scheme)
    return 2.0 * row.m * row.n * row.k / (size * max(1, row.m * row.k + row.k * row.n + row.m * row.n))
