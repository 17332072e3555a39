"""How the pass over FP64 elements that finds the norms of rows of A and columns of B divides them among its threads."""

from __future__ import annotations

THREADS = 512
HELD = 32
"""Elements of a span of k of which a thread keeps what their squares need until the span's largest exponent is known. With 64 an SM has one block, and an H200
takes 1.5 times as long (docs/results/f64.md)."""
BLOCKS = 2
"""Of the pass that an SM holds at once: the compiler is told how few registers that leaves. Told nothing, ptxas took 64 for complex elements
and spilled 40 B. Of batches of these an SM holds one block, as strides take registers: ptxas spilled 32 B for sm_100a."""
LINES = 16
"""Rows of A or columns of B whose norms a block finds, over all k; where k is not contiguous they are neighbours, which fill 128 bytes. With 8 an H200
takes 1.08 times as long at 8192 (docs/results/f64.md)."""
