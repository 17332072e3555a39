"""What a matrix unit returns, bit for bit.

Two routes to the same bits. `dot` says the unit's rule in float64, one sentence a
line, and is the definition; NVIDIA's is compared with products returned by real
GPUs. `mma` computes whole fragments for many warps at once in float32 and
int32, and falls back on `dot` for the few warps whose numbers leave the range
in which that is exact; tests hold the two together.

The rules themselves are in `unit_rules`. Whatever the rule, a NaN comes out as the
canonical 0x7fffffff; the bits of AMD's are not published.
"""

from __future__ import annotations

import numpy as np

from gemmgen.catalog.conversion import RAW, decode
from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core.rounding import canonical
from gemmgen.emulate.core.unit_rules import RULES, Rule
from gemmgen.errors import EmulationError

def _rule(unit: MatrixUnit, word: str) -> Rule:
    """The unit's rule for that word type, or the reason why there is none."""
    unit = unit.of(word)
    if word not in unit.block:
        raise EmulationError(
            f"matrix unit {unit.name}",
            "the unit has no such words",
            got=word,
            needs="one of: " + ", ".join(sorted(unit.words)),
        )
    return RULES[unit.rule](unit, word)


# ---------------------------------------------------------------- the definition


def dot(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """sum_k a_k b_k + c as the unit computes it, block after block.

    Args:
        unit: its row; where that has more than one rule for the word, `unit.of(word, policy)`.
        a, b: `[..., k]` float32, holding values of the word type, which is none of integers.
        c: `[...]` float32, the accumulator.

    Returns:
        `[...]` float32.

    Raises:
        EmulationError: the unit has no such words.
    """
    rule = _rule(unit, word)
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    result = np.asarray(c, np.float32)
    with np.errstate(all="ignore"):
        for k in range(0, a.shape[-1], rule.length):
            step = slice(k, k + rule.length)
            result = canonical(rule.one_block(a[..., step], b[..., step], result))
    return result


# ---------------------------------------------------------------- many warps at once

_CHUNK_BYTES = 1 << 18  # of what is worked on together: with what is known of the factors it stays in the L2 cache


def mma(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """D = A B + C for many warps, bit-identical to `dot`.

    Args:
        unit: its row; where that has more than one rule for the word, `unit.of(word, policy)`.
        a: `[W, m, k]` raw words (uint16; uint32 for tf32; uint8 or int8 for those of 8 bits).
        b: `[W, k, n]` raw words.
        c: `[W, m, n]` float32, int32 of integers.

    Returns:
        `[W, m, n]`, as c.
    """
    columns = mma_columns(
        unit,
        word,
        np.ascontiguousarray(np.transpose(a, (2, 1, 0))),
        np.ascontiguousarray(np.transpose(b, (1, 2, 0))),
        np.ascontiguousarray(np.transpose(c, (1, 2, 0))),
    )
    return np.ascontiguousarray(np.transpose(columns, (2, 0, 1)))


def mma_columns(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """`mma` with the warps in the last axis, where long vectors want them.

    Args:
        a: `[k, m, W]` raw words, contiguous.
        b: `[k, n, W]` raw words, contiguous.
        c: `[m, n, W]` float32, int32 of integers, contiguous.

    Returns:
        `[m, n, W]`, as c. Sums of integers wrap around.
    """
    if word in INTEGERS:
        return integer_product(*(x.view(RAW[word]) for x in (a, b)), c)
    rule = _rule(unit, word)
    a, b = decode(word, a), decode(word, b)
    if not rule.has_fast_blocks:
        return _by_dot(unit, word, a, b, c)
    # Whichever is longer makes the vectors: the warps or the columns.
    turned = b.shape[1] > b.shape[2]
    result, elements = (_turn(c), (0, 2)) if turned else (np.array(c, np.float32), (0, 1))
    with np.errstate(all="ignore"):
        left, odd_left = rule.factor(a[:, :, :, None] if turned else a[:, :, None])
        right, odd_right = rule.factor(_turn(b)[:, None] if turned else b[:, None])
        doubtful = np.zeros(a.shape[2], bool)
        for odd in (odd_left, odd_right):
            if odd is not None:
                doubtful |= odd.any((0, 1, 3) if turned else (0, 1, 2))
        rows = max(1, _CHUNK_BYTES // (rule.bytes_at_once * b.shape[1] * b.shape[2]))
        for m in range(0, a.shape[1], rows):
            part = slice(m, m + rows)
            for k in range(0, a.shape[0], rule.length):
                step = slice(k, k + rule.length)
                result[part], doubt = rule.fast_block(
                    tuple(known[step, part] for known in left), tuple(known[step] for known in right), result[part],
                )  # fmt: skip
                if doubt is not None:
                    doubtful |= doubt.any(elements)
    result = canonical(_turn(result) if turned else result)
    if doubtful.any():
        result[..., doubtful] = _by_dot(
            unit, word, a[..., doubtful], b[..., doubtful], c[..., doubtful]
        )
    return result


_ALONE = 1 << 18
"""Multiply-adds up to which NumPy's OpenBLAS multiplies by the calling thread alone. The emulator's processes fill the cores, and further threads for so small
products wait for one another: one of 128 x 256 x 32 took 16 ms of CPU time beside other work, and 0.07 ms by pieces."""


def integer_product(a: np.ndarray, b: np.ndarray, c: np.ndarray, *, saturate: bool = False) -> np.ndarray:
    """Exact sums of products of 8-bit integers.

    Args:
        a: `[k, m, W]`, b: `[k, n, W]`, int8 or uint8; k of at most 256, whose sums FP32 holds exactly: 256 * 255 * 255 < 2**24.
        c: `[m, n, W]` int32.
        saturate: stop at the ends of INT32 instead of wrapping around.

    Returns:
        `[m, n, W]` int32.
    """
    left, right = (np.ascontiguousarray(x.astype(np.float32).transpose(2, 1, 0)) for x in (a, b))
    columns = max(1, _ALONE // (a.shape[0] * a.shape[1]))
    parts = [left @ right[:, first : first + columns].transpose(0, 2, 1) for first in range(0, b.shape[1], columns)]
    total = np.concatenate(parts, 2).transpose(1, 2, 0).astype(np.int64) + c
    if saturate:
        ends = np.iinfo(np.int32)
        total = np.clip(total, ends.min, ends.max)
    return np.ascontiguousarray(total.astype(np.int32))


def _turn(x: np.ndarray) -> np.ndarray:
    """A copy of `[..., n, W]` as `[..., W, n]`, or back."""
    return x.swapaxes(-1, -2).copy()


def _by_dot(unit: MatrixUnit, word: str, a, b, c) -> np.ndarray:
    """`[k, m, W]`, `[k, n, W]` float32 and `[m, n, W]` through the definition."""
    a, b = np.moveaxis(a, 0, -1), np.moveaxis(b, 0, -1)
    return dot(unit, word, a[:, None], b[None], c)
