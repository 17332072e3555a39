"""Numbers and loops that both machines of the emulator are asked about."""

from __future__ import annotations

import math

import numpy as np

TINY, LARGEST = 2.0**-149, (2 - 2.0**-23) * 2.0**127
AWKWARD = np.array(
    [
        0.0, -0.0, 1.0, -1.0, TINY, -TINY, 3 * TINY, 2.0**-126, 2.0**-127, LARGEST, -LARGEST, math.inf,
        -math.inf, math.nan, 1 + 2.0**-23, 1 - 2.0**-24, 2.0**-12, 1 + 2.0**-12, 2.0**24, 2.0**24 + 2,
        1.5, 0.1, -3.3333333, 65504, 65519.996, 65520, 65536, 2.0**-24, 2.0**-25, 2.0**-25 * 1.0000001,
        6.1e-5, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.5, -2.5, 3.5, 2147483648.0, 4294967296.0, 1e-30, 1e30,
    ],
    np.float32,
)  # fmt: skip


def launched(machine, entry: str, grid: tuple, block: tuple, shared: int, args: tuple, out: tuple | None = None):
    """What a launch leaves in `out` = (dtype, shape), which is appended to `args` as an uninitialised buffer, and its counts; arrays are uploaded."""
    values = [machine.upload(one, name=f"arg{at}") if isinstance(one, np.ndarray) else one for at, one in enumerate(args)]
    result = machine.alloc(int(np.prod(out[1])) * np.dtype(out[0]).itemsize, name="out") if out else None
    stats = machine.launch(entry, (*grid, 1, 1)[:3], (*block, 1, 1)[:3], shared, [*values, *([result] if out else [])])
    return (machine.read(result, *out) if out else None), stats


def line_of(text: str, part: str) -> int:
    """The number of the one source line that holds `part`."""
    (line,) = (number for number, line in enumerate(text.splitlines(), 1) if part in line)
    return line


def assert_rolled(got: np.ndarray) -> None:
    """Of each block [blocks, threads]: 2 b + 1 steps, each of which took a neighbour's number and added the step's; then the other end's."""
    for block, mine in enumerate(got):
        tile = np.arange(len(mine))
        for step in range(2 * block + 1):
            tile = np.roll(tile, -1) + step
        assert mine.tolist() == tile[::-1].tolist()


def sums_of_uneven_loops(a: np.ndarray) -> list[int]:
    """What 480 threads, of which 400 have an element, sum of `a` [>= 11] in loops whose length differs between neighbours, and that some leave early."""
    found = []
    for i in range(480):
        total = 0
        for j in range(i % 7 + i // 96):
            total += a[j] if (i + j) & 1 else -2 * j
            if total > 1000:
                break
        found.append(total if i < 400 else -1)
    return found
