"""Split schemes: how FP32 operands become words and which word products are kept.

A scheme is data. The device split, the NumPy reference split and the error
bound all derive from the row, so a new scheme is a new TOML file.

Word `i` of an element x (times its row's power of two, where the scheme
normalises) is

    w_i = round_i( (x - sum_{j<i} w_j 2^-s_j) * 2^s_i )

(or 0, where the word flushes and that is below its smallest normal number), and the product of word i of A with word j of B carries the factor
2^-(s_i + s_j). Products that share an accumulator must share that factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import log2
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.number import FORMATS, ROUNDINGS, Format, Rounding, RoundingRule, WordType
from gemmgen.catalog.table import IDENTIFIER, Row, Strict, Table, Title
from gemmgen.catalog.unit import MatrixUnit


class Word(Strict):
    """One word of the split.

    Attributes:
        rounding: how FP32 becomes the word.
        scale: log2 of the scale of what it holds.
        bits: significant bits it keeps, to nearest, where those are fewer than it has: zeros
            at the end of every factor make a multiplier draw less power.
        flush: whether what is below the word's smallest normal number stays out of it, and in the
            residual: for matrix units that take subnormal words for zero.
    """

    rounding: Rounding
    scale: Annotated[int, Field(ge=0, le=40)] = 0
    bits: Annotated[int, Field(ge=2, le=11)] | None = None
    flush: bool | None = None

    def left(self, form: Format) -> RoundingRule:
        """What it leaves of an element, relative to the element's power of two."""
        rule, ulp = ROUNDINGS[self.rounding], 2.0**-form.fraction_bits
        if self.bits:
            rule, ulp = ROUNDINGS["nearest_even"], 2.0 ** (1 - self.bits)
        return RoundingRule(rule.worst * ulp, rule.mean * ulp, rule.rms * ulp, rule.text)


class Product(Strict):
    """Word `a` of A times word `b` of B, added into the accumulator `into`."""

    a: Annotated[int, Field(ge=0, le=3)]
    b: Annotated[int, Field(ge=0, le=3)]
    into: Annotated[str, Field(pattern=IDENTIFIER)]


class Accumulator(Strict):
    """A set of accumulators of the matrix unit.

    Attributes:
        name: as the products call it.
        scale: log2 of the factor its sum is too large by.
        type: of what it holds, a format of `catalog.number`.
        promoted: whether promotion moves it into FP32 registers. Only an
            unscaled accumulator needs that: the truncation of one that is
            2^scale smaller is that much smaller too.
    """

    name: str
    scale: int
    type: Literal["f32"] = "f32"

    @property
    def promoted(self) -> bool:
        return self.scale == 0


class Step(NamedTuple):
    """One step of a recombination: what there is so far, times 2^`exponent`, plus the sum of `accumulator`.

    The first step's exponent is 0: there is nothing so far.
    """

    accumulator: Accumulator
    exponent: int


T = TypeVar("T")


class Recombination(NamedTuple):
    """How the sums of a scheme's accumulators become one.

    Attributes:
        family: `residual chain`: each accumulator holds what the ones of larger contributions left out, scaled up, and one
            multiply-add takes it in.
        steps: from the smallest contribution to the largest.
    """

    family: Literal["residual chain"]
    steps: tuple[Step, ...]

    @property
    def roundings(self) -> int:
        """How often an element is rounded on the way: the first step takes a sum as it is."""
        return len(self.steps) - 1

    def share(self, accumulator: Accumulator) -> float:
        """What the sum of an accumulator is multiplied by in the end."""
        at = next(i for i, step in enumerate(self.steps) if step.accumulator == accumulator)
        return 2.0 ** sum(step.exponent for step in self.steps[at + 1 :])

    def combine(self, sums: Mapping[str, T], add: Callable[[T, float, T], T]) -> T:
        """Take the steps.

        Args:
            sums: by the accumulators' names.
            add: (so far, factor, sum) -> so far * factor + sum, rounded as whoever computes it rounds.
        """
        so_far = sums[self.steps[0].accumulator.name]
        for accumulator, exponent in self.steps[1:]:
            so_far = add(so_far, 2.0**exponent, sums[accumulator.name])
        return so_far


class Scheme(Row):
    """A split scheme.

    Attributes:
        title: one line for a listing.
        word: the type of every word.
        normalize: `row` multiplies each row of A and column of B by the power
            of two that brings its largest finite element into
            [2^`target_exponent`, 2^(`target_exponent`+1)); `none` does not.
        own_promote: the promotion the scheme's authors use: `fragment` (every
            k of one instruction) or `never`.
        words: from most to least significant.
        products: in the order the kernel issues them.
    """

    title: Title
    word: WordType
    normalize: Literal["none", "row"] = "none"
    target_exponent: Annotated[int, Field(ge=-14, le=126)] = 14
    own_promote: Literal["fragment", "never"]
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=4, strict=False)]
    products: Annotated[tuple[Product, ...], Field(min_length=1, max_length=16, strict=False)]

    @field_validator("words")
    @classmethod
    def _first_word_unscaled(cls, words: tuple[Word, ...]) -> tuple[Word, ...]:
        if words[0].scale != 0:
            raise ValueError("word 0 holds x itself, so its scale is 0")
        if any(later.scale < earlier.scale for earlier, later in zip(words, words[1:])):
            raise ValueError("scales that do not decrease from word to word")
        return words

    @model_validator(mode="after")
    def _products_fit(self) -> Scheme:
        seen: set[tuple[int, int]] = set()
        scales: dict[str, int] = {}
        for product in self.products:
            pair = (product.a, product.b)
            if max(pair) >= len(self.words):
                raise ValueError(f"products of words 0 to {len(self.words) - 1}; {pair} names another")
            if pair in seen:
                raise ValueError(f"each product once; {pair} stands twice")
            seen.add(pair)
            scale = self.words[product.a].scale + self.words[product.b].scale
            if scales.setdefault(product.into, scale) != scale:
                raise ValueError(
                    f"one scale in accumulator {product.into!r}: product {pair} carries 2^-{scale}, "
                    f"earlier ones 2^-{scales[product.into]}"
                )
        if (0, 0) not in seen:
            raise ValueError("the product of the leading words, (0, 0)")
        if any(word.bits and (word.bits > self.format.fraction_bits or word.rounding != "nearest_even") for word in self.words):
            raise ValueError(f"bits of at most {self.format.fraction_bits}, fewer than {self.word} has, of words that round nearest_even")
        if self.word != "f16" and any(word.rounding == "round_split" for word in self.words):
            raise ValueError("round_split with f16 words: it looks at the bit below two of them")
        if self.exact and (len(self.words) > 1 or self.normalize != "none"):
            raise ValueError(f"one word of {self.word} and no scales: it holds every x as it is")
        if self.normalize == "row" and not -14 <= self.target_exponent < self.format.max_exponent:
            raise ValueError(f"target_exponent below {self.format.max_exponent}, so that rounding up cannot overflow")
        return self

    @property
    def format(self) -> Format:
        return FORMATS[self.word]

    @property
    def exact(self) -> bool:
        """Whether a word holds every FP32 number as it is, so that rounding to it changes nothing."""
        return self.format == FORMATS["f32"]

    @property
    def whole_range(self) -> bool:
        """Whether it serves rows of any magnitude that FP32 has, and not only those near 1."""
        return self.exact or self.normalize == "row"

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """From the largest contribution to the smallest."""
        scales = {
            p.into: self.words[p.a].scale + self.words[p.b].scale for p in self.products
        }
        return tuple(
            Accumulator(name=name, scale=scale)
            for name, scale in sorted(scales.items(), key=lambda item: item[1])
        )

    @cached_property
    def recombination(self) -> Recombination:
        """How their sums become one: the only place that says so."""
        chain = self.accumulators[::-1]
        before = (chain[0], *chain)
        return Recombination("residual chain", tuple(Step(acc, acc.scale - last.scale) for last, acc in zip(before, chain)))

    def accumulator(self, name: str) -> Accumulator:
        """The accumulator of that name."""
        return next(acc for acc in self.accumulators if acc.name == name)

    @property
    def dropped(self) -> tuple[tuple[int, int], ...]:
        """Word pairs (i, j) whose product is not computed."""
        kept = {(p.a, p.b) for p in self.products}
        count = len(self.words)
        return tuple((i, j) for i in range(count) for j in range(count) if (i, j) not in kept)

    def remainder(self, words: int) -> float:
        """Largest |x - first `words` words| / |x| for an element in range."""
        bound = 0.0 if self.exact and words else 1.0
        for word in self.words[:words]:
            bound *= word.left(self.format).worst
        return bound

    @property
    def bits(self) -> int:
        """Mantissa bits that all words together carry: |x - words| <= 2^-bits |x|."""
        return self.bits_of(len(self.words))

    def bits_of(self, words: int) -> int:
        """The same of the first `words` words, at least one."""
        return self.format.fraction_bits + 1 if self.exact else round(-log2(self.remainder(words)))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """After how many words what is left of an element is held against `bits_of` them, so that it is counted where it is more.

        After all of them; and where a dropped product supposes that a word is small, and the words before it may leave more
        than that because their smallest step is too large, which a word of a larger scale takes up. After the first word
        that asks for nothing: an element whose first word is below its normal range is counted for that.
        """
        words = range(2, len(self.words))
        before = {i for i in words if any(i in pair for pair in self.dropped) and self.words[-1].scale > self.words[i - 1].scale}
        return (*sorted(before), len(self.words))

    def lowest(self, flushes: bool = False) -> int | None:
        """log2 of the magnitude above which no element that the first word can hold is counted as lossy.

        Of an element as it is, or as its row is scaled. None where every number is held as it is.

        Args:
            flushes: whether the matrix unit takes subnormal words for zero.
        """
        if self.exact:
            return None
        found, form = [self.format.min_exponent], self.format
        for count in self.checkpoints:
            word = self.words[count - 1]
            later = [w.scale for w in self.words[1:count] if not w.flush or w is word]  # the first word is not subnormal here
            if flushes and later:
                step = form.min_exponent - min(later)
            else:
                step = form.min_exponent - form.fraction_bits - word.scale + round(log2(ROUNDINGS[word.rounding].worst))
            found.append(step + self.bits_of(count))
        return max(found)


SCHEMES = Table("scheme", "schemes", Scheme)


class Preferred(NamedTuple):
    """A scheme for those who name none, and why."""

    name: str
    reason: str


def preferred_scheme(unit: MatrixUnit) -> Preferred:
    """Which scheme of FP32's accuracy a matrix unit is best served with."""
    if unit.flushes_subnormals:
        return Preferred("scaled", (
            f"{unit.name} takes subnormal words for zero, and only words that row and column scales hold near the top of FP16's range never are"
        ))
    return Preferred("ootomo", f"{unit.name} multiplies subnormal words, and a residual scaled by 2^11 loses least, in one pass over the operands")
