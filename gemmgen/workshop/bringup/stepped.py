"""What steps in measured costs tell: banks of shared memory, capacities of caches, and the power of two that a rate is near."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

STEP = 1.08
"""How much longer a read takes, from one working set to one a fifth larger, where a cache ends."""


def power_of_two(raw: float) -> int:
    """The least that is not below, but for what clocks cannot tell."""
    return 1 << max(0, math.ceil(math.log2(raw / 1.02)))


@dataclass(frozen=True)
class Banks:
    """Shared memory's.

    Attributes:
        count: how many.
        width: bytes of one.
        costs: cycles of a warp's read, by words between its lanes.
    """

    count: int
    width: int
    costs: dict[int, float]


def find_banks(cost: Callable[[int, int], float], most: int = 128) -> Banks | None:
    """Banks of shared memory, from what reads cost whose lanes are so many words apart; None where the cost still grows at the end, or never.

    Lanes all of one bank wait for one another, so that the cost no longer grows: so many words are a round of all banks. Moved apart by some words in every
    other lane they are in two banks, once those words leave a bank's width.

    Args:
        cost: of (words from lane to lane, words more in odd lanes), cycles.
        most: of the strides tried, a power of two.
    """
    strides = [1 << bit for bit in range(most.bit_length())]
    costs = {stride: cost(stride, 0) for stride in strides}
    worst = costs[most]
    if costs[most // 2] < 0.75 * worst or costs[1] > 0.75 * worst:
        return None
    around = next(stride for stride in strides if costs[stride] > 0.75 * worst)
    width = next((words for words in strides if words < around and cost(around, words) < 0.75 * worst), around)
    return Banks(around // width, 4 * width, costs)


def find_capacities(latency: Callable[[float], float], most: float, first: float = 1.0) -> list[float]:
    """MiB of the working sets from which on reads that follow one another take longer: the last is the cache's size, those before are of its nearer parts.

    Args:
        latency: of a working set of so many MiB.
        most: MiB of the largest working set.
    """
    sizes = [first * 2 ** (at / 4) for at in range(int(4 * math.log2(most / first)) + 1)]
    costs = [latency(size) for size in sizes]
    found, at = [], 0
    while at + 1 < len(sizes):
        end = at
        while end + 1 < len(sizes) and costs[end + 1] > STEP * costs[end]:
            end += 1
        if end > at:
            level, low, high = (costs[at] * costs[end]) ** 0.5, sizes[at], sizes[end]
            while high / low > 1.02:
                between = (low * high) ** 0.5
                low, high = (between, high) if latency(between) < level else (low, between)
            found.append((low * high) ** 0.5)
        at = max(end, at + 1)
    return found
