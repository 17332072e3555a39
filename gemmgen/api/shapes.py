"""Shapes of a product as `a @ b` has them: what fits, and m, n, k and the number of products."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from math import prod

from gemmgen.errors import SpecError


def check_shapes(a: Sequence[int], b: Sequence[int]) -> None:
    """
    Raises:
        SpecError: there is no product of arrays of these shapes.
    """
    if not a or not b:
        raise SpecError("matmul: a, b", "has a number for an operand", got=_told(a, b), needs="arrays of one dimension or more", remedy="a * b")
    rows = b[-2] if len(b) > 1 else b[0]
    if a[-1] != rows:
        turned = len(b) > 1 and a[-1] == b[-1]
        raise SpecError("matmul: a, b", "have shapes that do not fit", got=_told(a, b), needs=f"b of {a[-1]} rows, as a has columns",
                        remedy="b transposed: gemmgen.matmul(a, b.swapaxes(-1, -2))" if turned else "a[..., m, k] and b[..., k, n]")
    for x, y in zip(reversed(a[:-2]), reversed(b[:-2])):
        if x != y and 1 not in (x, y):
            raise SpecError("matmul: a, b", "have batches that do not broadcast", got=_told(a, b), needs="extents before the last two that are equal or 1",
                            remedy="a dimension of extent 1 where one operand is to be repeated")


def _told(a: Sequence[int], b: Sequence[int]) -> str:
    return f"{list(a)} and {list(b)}"


def extents(a: Sequence[int], b: Sequence[int]) -> tuple[int, int, int, int]:
    """m, n, k and the number of products, of shapes that fit."""
    products = prod(y if x == 1 else x for x, y in zip_longest(reversed(a[:-2]), reversed(b[:-2]), fillvalue=1))
    return a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1, a[-1], products
