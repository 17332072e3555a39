"""How the pass over FP64 elements that finds the norms of rows of A and columns of B divides them among its threads."""

from __future__ import annotations

from typing import Any

THREADS = 512
HELD = 32
"""Elements of a span of k of which a thread keeps what their squares need until the span's largest exponent is known. With 64 an SM has one block, and an H200
takes 1.5 times as long (docs/results/f64.md)."""
BLOCKS = 2
"""Of the pass that an SM holds at once: the compiler is told how few registers that leaves. Told nothing, ptxas took 64 for complex elements
and spilled 40 B."""
LINES = 16
"""Rows of A or columns of B whose norms a block finds, over all k; where k is not contiguous they are neighbours, which fill 128 bytes. With 8 an H200
takes 1.08 times as long at 8192 (docs/results/f64.md)."""


def blocks(plan: Any) -> int:
    """How many blocks of the pass an SM is to hold, which the compiler is told.

    Where a kind gives elements, of batches one: strides take registers, and ptxas spilled 32 B of complex ones for sm_100a. Of a complex operand of which a
    triangle is read one from sm_100 on: ptxas (NVRTC 13.5) spilled 156 to 388 B.
    """
    kind = plan.kind
    triangle = kind.reals > 1 and kind.operand is not None and not kind.solves and plan.gpu.arch_number >= 100
    return 1 if kind.given and (plan.launches.repeated or triangle) else BLOCKS
