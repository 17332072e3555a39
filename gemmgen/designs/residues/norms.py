"""How the pass over FP64 elements that finds the norms of rows of A and columns of B divides them among its threads."""

from __future__ import annotations

THREADS = 512
HELD = 32
"""Elements of which a thread keeps what the second look at a row needs: it reads others once more. With 64 an SM has one block, and an H200 takes 1.5 times as
long (docs/results/f64.md)."""
ROWS, COLUMNS = 2, 8
"""Whose norms a block finds, over all k: where k is contiguous, and where not, neighbours of which fill 64 bytes."""


def lines(contiguous: bool) -> int:
    """Rows of A or columns of B of a block, by whether their k is contiguous."""
    return ROWS if contiguous else COLUMNS


def held(contiguous: bool) -> int:
    """Elements of a row or column that a block's threads keep."""
    return HELD * THREADS // lines(contiguous)
