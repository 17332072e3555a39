"""Words of a split, their products, and the accumulators of the matrix unit that sum these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from gemmgen.catalog.number import FORMATS, INTEGERS, ROUNDINGS, Format, Rounding, RoundingRule, WordType, sum_type, word_bytes
from gemmgen.catalog.table import IDENTIFIER, Strict

ELEMENT = "element"
"""What a word's `of` says of one that is taken from the element itself."""


class Word(Strict):
    """One word of the split.

    Attributes:
        type: of the word; left out, the scheme's `word`.
        of: what it is taken from: `element`, or the number of an earlier word, for what that one leaves. Left out, what the word
            before leaves.
        rounding: how FP32 becomes the word.
        scale: log2 of the scale of what it holds.
        bits: significant bits it keeps, to nearest, where those are fewer than it has: zeros
            at the end of every factor make a multiplier draw less power.
        flush: whether what is below the word's smallest normal number stays out of it, and in the
            residual: for matrix units that take subnormal words for zero.

    Of the words that `Scheme.words_of` gives, `type` and `of` are always told.
    """

    type: WordType | None = None
    of: Annotated[int, Field(ge=0, le=2)] | Literal["element"] | None = None
    rounding: Rounding
    scale: Annotated[int, Field(ge=0, le=40)] = 0
    bits: Annotated[int, Field(ge=2, le=11)] | None = None
    flush: bool | None = None

    @property
    def source(self) -> int:
        """What it is taken from, as a number: 0 the element, i + 1 what word i leaves."""
        return 0 if self.of == ELEMENT else self.of + 1

    @property
    def fixed(self) -> bool:
        """Whether it is an integer."""
        return self.type in INTEGERS

    @property
    def format(self) -> Format:
        """Of one that is no integer."""
        return FORMATS[self.type]

    @property
    def bytes(self) -> int:
        return word_bytes(self.type)

    @property
    def largest(self) -> float:
        """Its largest magnitude."""
        return INTEGERS[self.type].largest if self.fixed else self.format.largest

    @property
    def exact(self) -> bool:
        """Whether it holds every FP32 number as it is, so that rounding to it changes nothing."""
        return self.type == "f32"

    @property
    def left(self) -> RoundingRule:
        """What it leaves of what it is taken from, relative to that one's power of two. Not of integers."""
        rule, ulp = ROUNDINGS[self.rounding], 2.0**-self.format.fraction_bits
        if self.bits:
            rule, ulp = ROUNDINGS["nearest_even"], 2.0 ** (1 - self.bits)
        return RoundingRule(rule.worst * ulp, rule.mean * ulp, rule.rms * ulp, rule.text)


STORED = {"rounding": "nearest_even"}
"""The word of an operand that is stored as words: rounding to it changes nothing."""


class Product(Strict):
    """Word `a` of A times word `b` of B, added into the accumulator `into`."""

    a: Annotated[int, Field(ge=0, le=15)]
    b: Annotated[int, Field(ge=0, le=15)]
    into: Annotated[str, Field(pattern=IDENTIFIER)]


class Accumulator(Strict):
    """A set of accumulators of the matrix unit.

    Attributes:
        name: as the products call it.
        scale: log2 of the factor its sum is too large by.
        word: the type of the words whose products it sums.
        type: of what it holds, a format or an integer type of `catalog.number`: what a matrix unit sums such products in.
        small: whether it holds products of low words alone, and nothing of the size of C.
        promoted: whether promotion moves it into FP32 registers. Only an
            unscaled accumulator of C's size needs that: the truncation of one that is
            2^scale smaller is that much smaller too. Integers are exact.
    """

    name: str
    scale: int
    word: WordType
    small: bool = False

    @property
    def type(self) -> Literal["f32", "s32"]:
        return sum_type(self.word)

    @property
    def promoted(self) -> bool:
        return self.scale == 0 and not self.small and self.type == "f32"


class Row(Protocol):
    """A scheme (`row.Scheme`), as far as its family and its precision look at it."""

    normalize: str
    tile_k: int | None
    target_exponent: int
    words: Sequence[Word]
    products: Sequence[Product]
    moduli: tuple[int, ...] | None
    element: str
    exact: bool
    alike: bool
    leading: WordType
    types: tuple[WordType, ...]
    accumulators: tuple[Accumulator, ...]
    family: Any

    def words_of(self, operand: str, *, packed_alike: bool = False) -> tuple[Word, ...]: ...
    def stores(self, operand: str) -> bool: ...
