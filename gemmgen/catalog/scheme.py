"""Split schemes: how FP32 operands become words and which word products are kept.

A scheme is data. The device split, the NumPy reference split and the error
bound all derive from the row, so a new scheme is a new TOML file.

Word `i` of an element x (times its row's power of two, where the scheme
normalises) is

    w_i = round_i( (x - sum_{j<i} w_j 2^-s_j) * 2^s_i )

(or 0, where the word flushes and that is below its smallest normal number), and the product of word i of A with word j of B carries the factor
2^-(s_i + s_j). Products that share an accumulator must share that factor.

Words are numbers of a floating-point format or, of type `s8`, integers: fixed-point digits of the element, of which the last stands for
2^-s of its scaled row whatever the element's size. What such words leave out is therefore told relative to the largest element of the row
of A or column of B (`Scheme.fixed`), sums are INT32 and exact, and a word that saturates leaves the rest to the next one.

Where the exponent is that of a tile (`normalize = "tile"`), each `tile_k` consecutive k of one row or column have one of their own. Sums in INT32
then end with the tile: they are converted, recombined and added up in FP32, tile after tile (`Scheme.moved`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import log2
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.number import FORMATS, INTEGERS, ROUNDINGS, Format, Rounding, RoundingRule, WordType, sum_type, word_bytes
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
        type: of what it holds, a format or an integer type of `catalog.number`.
        promoted: whether promotion moves it into FP32 registers. Only an
            unscaled accumulator needs that: the truncation of one that is
            2^scale smaller is that much smaller too. Integers are exact.
    """

    name: str
    scale: int
    type: Literal["f32", "s32"] = "f32"

    @property
    def promoted(self) -> bool:
        return self.scale == 0 and self.type == "f32"


class Step(NamedTuple):
    """One step of a recombination: what there is so far, times 2^`exponent`, plus the sum of `accumulator`.

    The first step's exponent is 0: there is nothing so far.
    """

    accumulator: Accumulator
    exponent: int


T = TypeVar("T")

OFFSET_BITS = 0x4B400000
OFFSET = 1.5 * 2.0**23
"""INT32 sums of a tile begin at these bits, which are this number's: the bits of the sum s, |s| < 2^22, are then those of OFFSET + s."""
INTEGER_SHARE = 22
"""2^-22 of OFFSET is still an integer."""


class Moved(NamedTuple):
    """How the INT32 sums of one tile of k become one FP32 number: conversions cost more than additions, so the sums begin at OFFSET_BITS.

    The first takes `least` off, the offsets of all of `taken` at once: integers, so that nothing is rounded. The others are added by one multiply-add
    each, from the largest contribution to the smallest, `apart` after their own offset is taken off.

    Attributes:
        taken: from the largest contribution on.
    """

    least: float
    taken: tuple[Accumulator, ...]
    apart: tuple[Accumulator, ...]

    @property
    def roundings(self) -> int:
        return len(self.taken) + len(self.apart) - 1

    def number(self, sums: Mapping[str, T], add: Callable[[T, float, T], T], less: Callable[[T, float], T]) -> T:
        """The tile's number, in units of the first word's last places.

        Args:
            sums: by the accumulators' names, OFFSET more than they are.
            add: (so far, factor, sum) -> so far + factor * sum, rounded as whoever computes it rounds.
            less: (sum, number) -> sum - number.
        """
        so_far = less(sums[self.taken[0].name], self.least)
        for accumulator in self.taken[1:]:
            so_far = add(so_far, 2.0**-accumulator.scale, sums[accumulator.name])
        for accumulator in self.apart:
            so_far = add(so_far, 2.0**-accumulator.scale, less(sums[accumulator.name], OFFSET))
        return so_far


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
            [2^`target_exponent`, 2^(`target_exponent`+1)); `tile` does so for each `tile_k` k of one,
            of integer words; `none` does not. Integer words want one of the two.
        tile_k: with normalize = tile, the consecutive k that share an exponent.
        own_promote: the promotion the scheme's authors use: `fragment` (every
            k of one instruction) or `never`.
        words: from most to least significant.
        products: in the order the kernel issues them.
    """

    title: Title
    word: WordType
    normalize: Literal["none", "row", "tile"] = "none"
    tile_k: Literal[32] | None = None
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
        if (self.normalize == "tile") != (self.tile_k is not None):
            raise ValueError('tile_k with normalize = "tile", and with nothing else')
        if self.fixed:
            return self._fixed_words_fit()
        if self.tiled:
            raise ValueError(f'normalize = "row" or "none" with words of {self.word}: they have exponents of their own')
        if any(word.bits and (word.bits > self.format.fraction_bits or word.rounding != "nearest_even") for word in self.words):
            raise ValueError(f"bits of at most {self.format.fraction_bits}, fewer than {self.word} has, of words that round nearest_even")
        if self.word != "f16" and any(word.rounding == "round_split" for word in self.words):
            raise ValueError("round_split with f16 words: it looks at the bit below two of them")
        if self.exact and (len(self.words) > 1 or self.normalize != "none"):
            raise ValueError(f"one word of {self.word} and no scales: it holds every x as it is")
        if self.normalize == "row" and not -14 <= self.target_exponent < self.format.max_exponent:
            raise ValueError(f"target_exponent below {self.format.max_exponent}, so that rounding up cannot overflow")
        return self

    def _fixed_words_fit(self) -> Scheme:
        if any(word.rounding != "nearest_even" or word.bits or word.flush for word in self.words):
            raise ValueError(f"words of {self.word} that round nearest_even, of all their bits")
        if self.normalize == "none" or self.own_promote != "never":
            raise ValueError(
                f'normalize = "row" or "tile" and own_promote = "never" with words of {self.word}: they have no exponent, and their sums are exact'
            )
        if self.tiled and self.tile_k * self._most_products * INTEGERS[self.word].largest ** 2 >= 2**22:
            raise ValueError("sums of a tile below 2^22, whose bits stand in an FP32 number's fraction")
        most = INTEGERS[self.word].largest
        for index, reach in enumerate(self._reaches):
            if reach > most + 1:
                raise ValueError(f"words of at most {most + 1} in magnitude, of which a next one can hold what {most} leave; word {index} reaches {reach:g}")
        if unread := set(range(len(self.words))) - {i for p in self.products for i in (p.a, p.b)}:
            raise ValueError(f"words that some product reads; {min(unread)} is not")
        return self

    @property
    def fixed(self) -> bool:
        """Whether words are integers: what they leave of an element is relative to the largest of its row, not to the element."""
        return self.word in INTEGERS

    @property
    def tiled(self) -> bool:
        """Whether each `tile_k` k of a row of A or column of B have an exponent of their own."""
        return self.normalize == "tile"

    @property
    def format(self) -> Format:
        """Of its words, where they are floating-point numbers."""
        return FORMATS[self.word]

    @property
    def largest_word(self) -> float:
        """The largest magnitude of a word."""
        return INTEGERS[self.word].largest if self.fixed else self.format.largest

    @property
    def word_bytes(self) -> int:
        return word_bytes(self.word)

    def words_of(self, operand: str) -> tuple[Word, ...]:
        """The words that operand `a` or `b` is packed into: of integers none after the last that a product reads, of others all."""
        return self.words[: 1 + max(getattr(product, operand) for product in self.products)] if self.fixed else self.words

    @property
    def _reaches(self) -> tuple[float, ...]:
        """How large each word could be if it did not saturate, of integers."""
        reach, found = 2.0 ** (self.target_exponent + 1), []
        for word, after in zip(self.words, (*self.words[1:], None)):
            found.append(reach)
            left = max(0.5, reach - INTEGERS[self.word].largest)  # of a unit of this word
            reach = left * 2.0 ** (after.scale - word.scale) if after else 0.0
        return tuple(found)

    @property
    def largest_k(self) -> int | None:
        """The largest K that no INT32 sum can overflow at; None where sums are FP32, or of a tile.

        Words are at most 127 in magnitude, so an accumulator of n products reaches n K 127^2.
        """
        if not self.fixed or self.tiled:
            return None
        return INTEGERS["s32"].largest // (self._most_products * INTEGERS[self.word].largest ** 2)

    @property
    def _most_products(self) -> int:
        """Of one accumulator."""
        return max(sum(p.into == acc.name for p in self.products) for acc in self.accumulators)

    @property
    def offset(self) -> float:
        """What sums of a tile begin at, as FP32 numbers read their bits."""
        return OFFSET

    @property
    def offset_bits(self) -> int:
        return OFFSET_BITS

    @cached_property
    def moved(self) -> Moved:
        """How a tile's INT32 sums become one FP32 number, where exponents are those of tiles."""
        taken = [acc for acc in self.accumulators if acc.scale <= INTEGER_SHARE]
        return Moved(sum(OFFSET * 2.0**-acc.scale for acc in taken), tuple(taken), tuple(acc for acc in self.accumulators if acc.scale > INTEGER_SHARE))

    @property
    def exact(self) -> bool:
        """Whether a word holds every FP32 number as it is, so that rounding to it changes nothing."""
        return self.word == "f32"

    @property
    def whole_range(self) -> bool:
        """Whether it serves rows of any magnitude that FP32 has, and not only those near 1."""
        return self.exact or self.normalize != "none"

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """From the largest contribution to the smallest."""
        scales = {
            p.into: self.words[p.a].scale + self.words[p.b].scale for p in self.products
        }
        return tuple(
            Accumulator(name=name, scale=scale, type=sum_type(self.word))
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
        of_a, of_b = (range(len(self.words_of(operand))) for operand in "ab")
        return tuple((i, j) for i in of_a for j in of_b if (i, j) not in kept)

    def remainder(self, words: int) -> float:
        """Largest |x - first `words` words| / |x| for an element in range; of integer words over the largest element of its row."""
        if self.fixed and words:
            # Half a last place of a row whose largest element is at the bottom of its binade; or what a saturated word leaves of one at the top.
            most = INTEGERS[self.word].largest
            left = max(0.5 / 2.0**self.target_exponent, max(0.0, self._reaches[words - 1] - most) / (most + 0.5))
            return left * 2.0 ** -self.words[words - 1].scale
        bound = 0.0 if self.exact and words else 1.0
        for word in self.words[:words]:
            bound *= word.left(self.format).worst
        return bound

    @property
    def bits(self) -> int:
        """Mantissa bits that all words together carry: |x - words| <= 2^-bits |x|; of integers, of the operand that has fewer."""
        return self.bits_of(min(len(self.words_of(operand)) for operand in "ab"))

    def bits_of(self, words: int) -> int:
        """The same of the first `words` words, at least one."""
        return self.format.fraction_bits + 1 if self.exact else round(-log2(self.remainder(words)))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """After how many words what is left of an element is held against `bits_of` them, so that it is counted where it is more.

        After all of them; and where a dropped product supposes that a word is small, and the words before it may leave more
        than that because their smallest step is too large, which a word of a larger scale takes up. After the first word
        that asks for nothing: an element whose first word is below its normal range is counted for that. Of integers after none.
        """
        if self.fixed:
            return ()
        words = range(2, len(self.words))
        before = {i for i in words if any(i in pair for pair in self.dropped) and self.words[-1].scale > self.words[i - 1].scale}
        return (*sorted(before), len(self.words))

    def lowest(self, flushes: bool = False) -> int | None:
        """log2 of the magnitude above which no element that the first word can hold is counted as lossy.

        Of an element as it is, or as its row is scaled. None where every number is held as it is. Of integers what lies above half a last place.

        Args:
            flushes: whether the matrix unit takes subnormal words for zero.
        """
        if self.exact:
            return None
        if self.fixed:
            return -self.words[-1].scale - 1
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
