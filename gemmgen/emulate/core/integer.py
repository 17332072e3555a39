"""Integer operations that numpy does not offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def highest_bit(x: np.ndarray) -> np.ndarray:
    """Position of the highest set bit, -1 for zero, int32."""
    result = np.full(x.shape, -1, np.int32)
    for bit in range(8 * x.dtype.itemsize):
        result = np.where(x >> x.dtype.type(bit) != 0, np.int32(bit), result)
    return result


def reversed_bits(x: np.ndarray) -> np.ndarray:
    bits = 8 * x.dtype.itemsize
    result = np.zeros((), x.dtype)
    for bit in range(bits):
        result = result | (x >> x.dtype.type(bit) & x.dtype.type(1)) << x.dtype.type(bits - 1 - bit)
    return result


def function_of_bits(table: int, dtype: np.dtype) -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """A function of each three bits a, b and c, which is bit 4 a + 2 b + c of its table."""

    def function(a, b, c):
        result = np.zeros((), dtype)
        for row in range(8):
            if table >> row & 1:
                result = result | (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        return result

    return function


def high_half(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The upper half of the product of two integers."""
    bits = x.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}{x.dtype.itemsize * 2}")
        return ((x.astype(wide) * y.astype(wide)) >> wide.type(bits)).astype(x.dtype)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b = x.view(np.uint64), y.view(np.uint64)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    high = a1 * b1 + (middle >> half) + ((a0 * b1 + (middle & low)) >> half)
    if x.dtype.kind == "i":  # a negative factor was taken 2**64 too large
        zero = np.uint64(0)
        high = high - np.where(x < 0, b, zero) - np.where(y < 0, a, zero)
    return high.view(x.dtype)


def dot_of_bytes(x: np.ndarray, y: np.ndarray, z: np.ndarray, kinds: tuple[str, str] = ("i1", "i1")) -> np.ndarray:
    """z plus the four products of the bytes of each lane's x and y, as int32 that wraps around.

    Args:
        x, y: of 32 bits, their bytes `i1` or `u1` as `kinds` says.
        z: int32.
    """
    left, right = (np.ascontiguousarray(word)[..., None].view(kind) for word, kind in zip((x, y), kinds, strict=True))
    products = np.multiply(left, right, dtype=np.int32)
    total = products[..., 0] + products[..., 1]  # three sums of columns take a fifth of the time of one along the bytes
    for at in (2, 3):
        total = total + products[..., at]
    return total + z


def picked_bytes(words: Sequence[np.ndarray], picks: Sequence[int]) -> np.ndarray:
    """A word of bytes of others, for lanes that all pick the same.

    Args:
        words: uint32; byte 4 w + i is the one from bit 8 i of words[w].
        picks: four of those bytes, the lowest first.
    """
    kept: dict[tuple[int, int], int] = {}  # what moves by one distance moves at once
    for to, pick in enumerate(picks):
        word, byte = divmod(pick, 4)
        kept[word, to - byte] = kept.get((word, to - byte), 0) | 0xFF << 8 * to
    result = None
    for (word, up), mask in kept.items():
        moved = words[word] << np.uint32(8 * up) if up >= 0 else words[word] >> np.uint32(-8 * up)
        moved = moved & np.uint32(mask)
        result = moved if result is None else result | moved
    return result
