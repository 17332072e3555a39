"""What an epilogue costs in the kernel that computes C, and what it would cost as a kernel of its own behind it.

It is not part of `seconds` (M18): all candidates of a spec have the same one. Registers are not, either: it runs where the main loop has ended, and what
that held is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gemmgen.catalog.epilogue import Epilogue
from gemmgen.model.equation import Equation, solved

END_SECONDS = Equation(
    "Y1", "end_seconds", "end_operations * batch * M * N / (f32_fma_per_clock * sms * clock_hz)", "s",
    "instructions of FP32 on every element, while nothing is multiplied in its block",
)
END_BYTES = Equation("Y2", "end_bytes", "4 * batch * (end_over_n * N + end_over_m * M)", "B", "the vectors that it is given, each read from DRAM once")
APART_SECONDS = Equation(
    "Y3", "apart_seconds", "launch_seconds + (8 * batch * M * N + end_bytes) / dram_rate", "s",
    "the same as a kernel of its own: a launch that reads C and writes it again",
)
EQUATIONS = (END_SECONDS, END_BYTES, APART_SECONDS)


def costs(epilogue: Epilogue, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """`numbers` with the values of these equations.

    Args:
        numbers: of a plan's model, sizes and rates among them.
    """
    over = [one.over for one in epilogue.arguments]
    given = {"batch": 1, "end_operations": epilogue.operations, "end_over_n": over.count("n"), "end_over_m": over.count("m")}
    return solved(EQUATIONS, given | dict(numbers))
