"""Dot products on a device: words into the places that the found maps name, sums out of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gemmgen.catalog.conversion import RAW
from gemmgen.catalog.number import FORMATS, Format
from gemmgen.workshop.bringup.maps import Maps, exact_words, joined_words
from gemmgen.workshop.bringup.probe import Raw


@dataclass
class Dots:
    """What `probe(fragment, A words, B words, C) -> D` asks of a device, counted.

    Attributes:
        raw: the instruction on the device.
        maps: where its elements are.
        asked: dot products so far.
    """

    raw: Raw
    maps: Maps
    asked: int = field(default=0)

    @property
    def word(self) -> str:
        return self.raw.fragment.word

    @property
    def form(self) -> Format:
        return FORMATS[self.word]

    @property
    def depth(self) -> int:
        """Products of one instruction's dot product."""
        return self.raw.fragment.shape[2]

    @cached_property
    def _kind(self) -> np.dtype:
        return RAW[self.word]

    def tiles(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """A B + C of tiles.

        Args:
            a: [tiles, m, k], b: [tiles, k, n] words; c: [tiles, m, n] FP32, INT32 of integers.

        Returns:
            [tiles, m, n], as c.
        """
        self.asked += c.size
        left = joined_words(self.maps.a.placed(a))
        right = joined_words(self.maps.b.placed(b)) if self.maps.b else b
        d = self.raw(left, right, self.maps.c.placed(c)[..., 0])
        return self.maps.c.gathered(d[..., None])

    def ask(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """Dot products that have nothing to do with one another: on the diagonals of tiles.

        Args:
            a, b: [products, k] words; c: [products].

        Returns:
            [products].
        """
        m, n, k = self.raw.fragment.shape
        side, count = min(m, n), len(c)
        tiles = -(-count // side)
        tile, at = np.divmod(np.arange(count), side)
        left, right = np.zeros((tiles, m, k), self._kind), np.zeros((tiles, k, n), self._kind)
        sums = np.zeros((tiles, m, n), c.dtype)
        left[tile, at], right[tile, :, at], sums[tile, at, at] = a, b, c
        before = self.asked
        d = self.tiles(left, right, sums)[tile, at, at]
        self.asked = before + count
        return d

    def values(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """`ask` of numbers that words of the type are."""
        return self.ask(exact_words(self.word, a), exact_words(self.word, b), np.asarray(c, np.float32))

    def terms(self, terms: list[dict[int, float]], c: list[float] | np.ndarray) -> np.ndarray:
        """`ask` of products given as numbers by their k, each of two words: a power of two of about the root of its size, and the rest.

        Args:
            terms: of each dot product, what stands at which k; zeros elsewhere.
            c: [products].
        """
        a, b = np.zeros((2, len(terms), self.depth), np.float32)
        for number, one in enumerate(terms):
            for k, value in one.items():
                a[number, k], b[number, k] = halves(value, self.form)
        return self.values(a, b, np.asarray(c, np.float32))

    @property
    def largest(self) -> int:
        """Exponent of a power of two that is a product of words, far enough from the largest to be added to itself a few times."""
        return 2 * min(self.form.max_exponent, 15)

    @property
    def span(self) -> int:
        """By how many powers of two below `largest` products of normal words go, at most 60."""
        return min(60, self.largest - 2 * self.form.min_exponent)


def halves(value: float, form: Format) -> tuple[float, float]:
    """Two words whose product is a number of few bits: the first a power of two."""
    if value == 0:
        return 0.0, 0.0
    exponent = int(np.frexp(abs(value))[1]) - 1
    first = min(max(exponent // 2, form.min_exponent), form.max_exponent)
    return float(np.ldexp(1.0, first)), float(np.ldexp(value, -first))
