"""Atomic operations on a memory: what they do to a value, and lanes that meet at one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.emulate.core.memory import Space


def updates(operation: str, dtype: np.dtype) -> Callable:
    """The new value, as a function of (old, operand, second operand)."""
    one = dtype.type(1)
    return {
        "add": lambda old, x, y: old + x,
        "sub": lambda old, x, y: old - x,
        "min": lambda old, x, y: np.minimum(old, x),
        "max": lambda old, x, y: np.maximum(old, x),
        "and": lambda old, x, y: old & x,
        "or": lambda old, x, y: old | x,
        "xor": lambda old, x, y: old ^ x,
        "exch": lambda old, x, y: x,
        "cas": lambda old, x, y: np.where(old == x, y, old),
        "inc": lambda old, x, y: np.where(old >= x, dtype.type(0), old + one),
        "dec": lambda old, x, y: np.where((old == 0) | (old > x), x, old - one),
    }[operation]


def take_turns(memory: Space, offsets: np.ndarray, x: np.ndarray, y: np.ndarray, update: Callable) -> np.ndarray:
    """Apply `update` at `[n]` offsets one after the other; the old values."""
    size = x.dtype.itemsize
    old = memory.load(offsets, size).view(x.dtype)
    raw = f"u{size}"
    if len(np.unique(offsets)) == len(offsets):
        memory.store(offsets, size, update(old, x, y).astype(x.dtype).view(raw))
        return old
    current: dict[int, np.generic] = {}
    old = old.copy()
    for i, offset in enumerate(offsets.tolist()):
        if offset in current:
            old[i] = current[offset]
        current[offset] = x.dtype.type(update(old[i], x[i], y[i]))
    places = np.fromiter(current, np.int64, len(current))
    memory.store(places, size, np.array(list(current.values()), x.dtype).view(raw))
    return old
