"""Split schemes: how FP32 operands become words and which word products are kept.

A scheme is data. The device split, the NumPy reference split and the error
bound all derive from the row, so a new scheme is a new TOML file.

Word `i` of an element x (times its row's power of two, where the scheme
normalises) is

    w_i = round_i( D_f(i) * 2^s_i ),     D_0 = x,   D_(i+1) = D_f(i) - w_i 2^-s_i

(or 0, where the word flushes and that is below its smallest normal number): it is taken from D_f(i), which a word's `of` names: what the word
before leaves, as a rule (f(i) = i: the residual chain), what another earlier word leaves, or the element again (f(i) = 0). The product of
word i of A with word j of B carries the factor 2^-(s_i + s_j). Products that share an accumulator must share that factor, and the words' type.

Words have a type each, and B may have other words than A. They are numbers of a floating-point format or, of type `s8`, integers: fixed-point
digits of the element, of which the last stands for 2^-s of its scaled row whatever the element's size. What such words leave out is therefore
told relative to the largest element of the row of A or column of B (`Scheme.by_row`), their sums are INT32 and exact, and a word that saturates
leaves the rest to the next one.

Where the exponent is that of a tile (`normalize = "tile"`), each `tile_k` consecutive k of one row or column have one of their own. Sums in INT32
then end with the tile: they are converted, recombined and added up in FP32, tile after tile (`Scheme.moved`).

With w_i = D_f(i) - D_(i+1), and E for B's, what the kept products fall short of x y is a sum of terms D_p E_q (`Scheme.missing`).

A row with `moduli` in place of words and products is of the other family (`gemmgen.catalog.residues`): word i of an element, scaled to an integer, is
its residue modulo m_i, products are those of words of one modulus, and the sums are put together by the Chinese remainder theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from math import log2
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.number import FORMATS, INTEGERS, ROUNDINGS, Format, Rounding, RoundingRule, WordType, sum_type, word_bytes
from gemmgen.catalog.residues import Residues
from gemmgen.catalog.table import IDENTIFIER, Row, Strict, Table, Title
from gemmgen.catalog.unit import MatrixUnit


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


class Step(NamedTuple):
    """One step of a recombination: what there is so far, times 2^`exponent`, plus the sum of `accumulator`.

    The first step's exponent is 0: there is nothing so far.
    """

    accumulator: Accumulator
    exponent: int


T = TypeVar("T")
Family = Literal["residual chain", "residues"]
"""What a scheme's accumulators hold of its result (`Recombination`)."""

OFFSET_BITS = 0x4B400000
OFFSET = 1.5 * 2.0**23
"""INT32 sums of a tile begin at these bits, which are this number's: the bits of the sum s, |s| < 2^22, are then those of OFFSET + s."""
MOST_TILE_EXPONENT = 149
"""A tile's scale is an FP32 number; with this exponent words are multiples of the smallest one, which are all there are."""
OUTLIER = 3
"""A row of A or column of B stands out whose elements that are not 0 have, scaled, a root mean square below 2^OUTLIER, where the largest is at least
2^target_exponent: what integer words leave of it is then more than 2^(-s - OUTLIER) / sqrt(12) of the row's own norm, s the last word's scale."""
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
            multiply-add takes it in. `residues`: each holds the result modulo a number of its own, and all are as important as one another.
        steps: from the smallest contribution to the largest; none of residues.
    """

    family: Family
    steps: tuple[Step, ...]

    @property
    def roundings(self) -> int:
        """How often an element is rounded on the way: the first step takes a sum as it is."""
        return max(0, len(self.steps) - 1)

    def share(self, accumulator: Accumulator) -> float:
        """What the sum of an accumulator is multiplied by in the end; of residues none is more than another."""
        if self.family == "residues":
            return 1.0
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
        word: the type of every word that does not say its own.
        normalize: `row` multiplies each row of A and column of B by the power
            of two that brings its largest finite element into
            [2^`target_exponent`, 2^(`target_exponent`+1)); `tile` does so for each `tile_k` k of one,
            of integer words; `none` does not. Integer words want one of the two.
        tile_k: with normalize = tile, the consecutive k that share an exponent.
        own_promote: the promotion the scheme's authors use: `fragment` (every
            k of one instruction) or `never`.
        words: from most to least significant, of A, and of B where `words_b` does not tell others. `words_of` has them.
        words_b: of B, where they differ from A's.
        products: in the order the kernel issues them.
        b: the type that B's elements are stored in already; None where B is FP32. `words_b` is then one word, B's element itself, which leaves
            nothing, and is not written.
        moduli: of the residues that words are, in place of `words` and `products`, which follow; None of other schemes.
    """

    title: Title
    word: WordType
    normalize: Literal["none", "row", "tile"] = "none"
    tile_k: Literal[32] | None = None
    target_exponent: Annotated[int, Field(ge=-14, le=126)] = 14
    own_promote: Literal["fragment", "never"]
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=16, strict=False)]
    words_b: Annotated[tuple[Word, ...], Field(min_length=1, max_length=4, strict=False)] | None = None
    b: Literal["f16", "bf16"] | None = None
    products: Annotated[tuple[Product, ...], Field(min_length=1, max_length=16, strict=False)]
    moduli: Annotated[tuple[int, ...], Field(min_length=2, max_length=16, strict=False)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _words_of_moduli(cls, row: Any) -> Any:
        """A word for each modulus, and its product with the same of the other operand."""
        if not isinstance(row, dict) or not isinstance(row.get("moduli"), list | tuple) or "words" in row or "products" in row:
            return row
        count = len(row["moduli"])
        return row | {
            "words": [{"rounding": "nearest_even"}] * count, "products": [{"a": i, "b": i, "into": f"of_{m}"} for i, m in enumerate(row["moduli"])],
        }

    @model_validator(mode="before")
    @classmethod
    def _word_of_stored_b(cls, row: Any) -> Any:
        """B's element itself."""
        return row | {"words_b": [STORED]} if isinstance(row, dict) and row.get("b") and "words_b" not in row else row

    # ---- what could not be right

    @field_validator("words", "words_b")
    @classmethod
    def _words_in_order(cls, words: tuple[Word, ...] | None) -> tuple[Word, ...] | None:
        if words is None:
            return None
        if words[0].scale != 0 or words[0].of not in (None, ELEMENT):
            raise ValueError("word 0 holds x itself, so its scale is 0")
        for index, word in enumerate(words):
            before = index - 1 if word.of is None else None if word.of == ELEMENT else word.of
            if before is not None and before >= max(index, 1):
                raise ValueError(f"words that are taken from what earlier ones leave; word {index} names {before}")
            if before is not None and before >= 0 and word.scale < words[before].scale:
                raise ValueError("scales that do not decrease from word to word")
        return words

    @model_validator(mode="after")
    def _products_fit(self) -> Scheme:
        if self.moduli:
            return self._residues_fit()
        if len(self.words) > 4:
            raise ValueError("at most four words")
        seen: set[tuple[int, int]] = set()
        into: dict[str, tuple[int, WordType]] = {}
        of_a, of_b = (self._told[operand] for operand in "ab")
        for product in self.products:
            pair = (product.a, product.b)
            if product.a >= len(of_a) or product.b >= len(of_b):
                most = str(len(of_a) - 1) if len(of_a) == len(of_b) else f"{len(of_a) - 1} of A and 0 to {len(of_b) - 1} of B"
                raise ValueError(f"products of words 0 to {most}; {pair} names another")
            if pair in seen:
                raise ValueError(f"each product once; {pair} stands twice")
            seen.add(pair)
            one, other = of_a[product.a], of_b[product.b]
            if one.type != other.type:
                raise ValueError(f"products of two words of one type, as matrix instructions take them; {pair} is of {one.type} and {other.type}")
            scale = one.scale + other.scale
            before, word = into.setdefault(product.into, (scale, one.type))
            if before != scale:
                raise ValueError(
                    f"one scale in accumulator {product.into!r}: product {pair} carries 2^-{scale}, earlier ones 2^-{before}"
                )
            if word != one.type:
                raise ValueError(f"words of one type in accumulator {product.into!r}: product {pair} is of {one.type}, earlier ones of {word}")
        if (0, 0) not in seen:
            raise ValueError("the product of the leading words, (0, 0)")
        stood = [tuple(self._stands(operand)[i] for operand, i in zip("ab", pair)) for pair in seen]
        if twice := sorted({pair for pair in stood if stood.count(pair) > 1}):
            raise ValueError(f"each part of the product once; words taken from the same as those of {twice[0]} meet twice")
        for words in (of_a, of_b):
            for word in words:
                self._word_fits(word, len(words))
        if self.b and (self.types != (self.b,) or self.words_b != (Word(**STORED),) or self.normalize != "none"):
            raise ValueError(f'words of {self.b} alone, no words_b and normalize = "none" with b = "{self.b}": B is one word as it is stored')
        if (self.normalize == "tile") != (self.tile_k is not None):
            raise ValueError('tile_k with normalize = "tile", and with nothing else')
        if self.tiled and not self.fixed:
            raise ValueError('normalize = "row" or "none" with words that are no integers: they have exponents of their own')
        if self.by_row:
            self._fixed_words_fit()
        return self

    def _residues_fit(self) -> Scheme:
        """The row proves its own system of residues."""
        if self.word != "s8" or self.normalize != "row" or self.own_promote != "never" or self.words_b:
            raise ValueError('word = "s8", normalize = "row" and own_promote = "never" with moduli: residues are integers, and their sums are exact')
        if refusal := self.residues.refusal():
            raise ValueError(refusal)
        diagonal = [(i, i, f"of_{m}") for i, m in enumerate(self.moduli)]
        if [(p.a, p.b, p.into) for p in self.products] != diagonal or any(word != Word(rounding="nearest_even") for word in self.words):
            raise ValueError("moduli alone: words and products follow from them")
        return self

    def _word_fits(self, word: Word, count: int) -> None:
        if word.fixed:
            if word.rounding != "nearest_even" or word.bits or word.flush:
                raise ValueError(f"words of {word.type} that round nearest_even, of all their bits")
            return
        if word.bits and (word.bits > word.format.fraction_bits or word.rounding != "nearest_even"):
            raise ValueError(f"bits of at most {word.format.fraction_bits}, fewer than {word.type} has, of words that round nearest_even")
        if word.type != "f16" and word.rounding == "round_split":
            raise ValueError("round_split with f16 words: it looks at the bit below two of them")
        if word.format.saturates and (self.normalize != "row" or word.rounding != "nearest_even" or word.bits or word.flush):
            raise ValueError(f'normalize = "row" and rounding nearest_even, of all their bits, with words of {word.type}: their range is short, '
                             "and conversions to them saturate")
        if word.exact and (count > 1 or self.normalize != "none"):
            raise ValueError(f"one word of {word.type} and no scales: it holds every x as it is")
        if self.normalize == "row" and not -14 <= self.target_exponent < word.format.max_exponent:
            raise ValueError(f"target_exponent below {word.format.max_exponent}, so that rounding up cannot overflow")

    def _fixed_words_fit(self) -> None:
        kind = next(word.type for operand in "ab" for word in self._told[operand] if word.fixed)
        if self.normalize == "none":
            raise ValueError(f'normalize = "row" or "tile" with words of {kind}: they have no exponent')
        if self.tiled and any(self.tile_k * self._count(acc) * INTEGERS[acc.word].largest ** 2 >= 2**22 for acc in self.accumulators):
            raise ValueError("sums of a tile below 2^22, whose bits stand in an FP32 number's fraction")
        if self.fixed and self.own_promote != "never":
            raise ValueError(f'own_promote = "never" with words of {kind}: their sums are exact')
        for operand in "ab":
            for index, (word, reach) in enumerate(zip(self._told[operand], self._reaches(operand))):
                most = word.largest
                if word.fixed and reach > most + 1:
                    raise ValueError(
                        f"words of at most {most + 1} in magnitude, of which a next one can hold what {most} leave; word {index} reaches {reach:g}"
                    )
        for operands in (("a", "b"),) if self.alike else (("a",), ("b",)):
            read = {getattr(product, operand) for product in self.products for operand in operands}
            if unread := set(range(len(self._told[operands[0]]))) - read:
                raise ValueError(f"words that some product reads; {min(unread)} is not")

    # ---- the words

    @cached_property
    def _told(self) -> dict[str, tuple[Word, ...]]:
        """The words of each operand as the row tells them, each with its type and what it is taken from."""
        def told(words: tuple[Word, ...]) -> tuple[Word, ...]:
            return tuple(word.model_copy(update={
                "type": word.type or self.word, "of": (index - 1 if index else ELEMENT) if word.of is None else word.of,
            }) for index, word in enumerate(words))

        of_a = told(self.words)
        return {"a": of_a, "b": of_a if self.words_b is None else told(self.words_b)}

    @cached_property
    def _read(self) -> dict[str, tuple[Word, ...]]:
        found = {}
        for operand, words in self._told.items():
            count, most = len(words), 1 + max(getattr(product, operand) for product in self.products)
            while count > most and words[count - 1].fixed:
                count -= 1
            found[operand] = words[:count]
        return found

    @cached_property
    def residues(self) -> Residues | None:
        """The system of residues that its words are; None where they are digits or floating-point numbers."""
        return Residues(self.moduli) if self.moduli else None

    def words_of(self, operand: str, *, packed_alike: bool = False) -> tuple[Word, ...]:
        """The words that operand `a` or `b` is packed into: of integers none after the last that a product reads, of others all.

        Args:
            packed_alike: by a kernel that packs the same words of A and B, whichever products read: those too.
        """
        return (self._told if packed_alike else self._read)[operand]

    @property
    def alike(self) -> bool:
        """Whether A and B have the same words, though products may read fewer of one."""
        return self.words_b is None

    def stores(self, operand: str) -> bool:
        """Whether the elements of operand `a` or `b` are words as they are stored."""
        return operand == "b" and self.b is not None

    @cached_property
    def types(self) -> tuple[WordType, ...]:
        """The types of its words, the leading ones' first."""
        return tuple(dict.fromkeys(word.type for operand in "ab" for word in self._told[operand]))

    @property
    def uniform(self) -> bool:
        """Whether all words are of one type."""
        return len(self.types) == 1

    @property
    def leading(self) -> WordType:
        """The type of the leading words, whose product is the largest."""
        return self._told["a"][0].type

    @property
    def fixed(self) -> bool:
        """Whether all words are integers: there is none for an Inf or a NaN, and every sum is exact."""
        return all(kind in INTEGERS for kind in self.types)

    @property
    def by_row(self) -> bool:
        """Whether some words are integers: what they leave of an element is relative to the largest of its row, not to the element."""
        return any(kind in INTEGERS for kind in self.types)

    @property
    def tiled(self) -> bool:
        """Whether each `tile_k` k of a row of A or column of B have an exponent of their own."""
        return self.normalize == "tile"

    @property
    def takes_maxima(self) -> bool:
        """Whether rows and columns have powers of two by their largest elements; residues have factors, which need more than these."""
        return self.normalize == "row" and not self.residues

    def _only(self, what: str) -> WordType:
        if not self.uniform:
            raise ValueError(f"the words of {self.name} have no {what} in common: they are of {', '.join(self.types)}")
        return self.types[0]

    @property
    def format(self) -> Format:
        """Of its words, where they are floating-point numbers of one type; else each word has its own."""
        return FORMATS[self._only("format")]

    @property
    def word_bytes(self) -> int:
        """Of a word, where all have one type; else each has its own."""
        return word_bytes(self._only("size"))

    def bytes_of(self, operand: str) -> int:
        """What all words together take of an element of operand `a` or `b`."""
        return sum(word.bytes for word in self.words_of(operand))

    @property
    def chain(self) -> bool:
        """Whether each word is taken from what the word before leaves."""
        return all(word.source == index for operand in "ab" for index, word in enumerate(self.words_of(operand)))

    def _stands(self, operand: str) -> tuple[int, ...]:
        """For each word the first one that is taken from the same: another word of that stands for it in a product."""
        words = self._told[operand]
        return tuple(next(i for i, other in enumerate(words) if other.source == word.source) for word in words)

    def _reaches(self, operand: str) -> tuple[float, ...]:
        """How large each word could be if it did not saturate, of normalised rows."""
        left, found = [2.0 ** (self.target_exponent + 1)], []  # the largest magnitudes of D
        for word in self._told[operand]:
            reach = left[word.source] * 2.0**word.scale
            found.append(reach)
            if word.fixed:
                left.append(max(0.5, reach - word.largest) * 2.0**-word.scale)
            else:  # of a number below a power of two the last place is half of that power's
                left.append(left[word.source] / 2 * word.left.worst if word.source == 0 else left[word.source] * word.left.worst)
        return tuple(found)

    @property
    def largest_k(self) -> int | None:
        """The largest K that no INT32 sum can overflow at; None where sums are FP32, or of a tile, or of residues, which are summed over segments of k.

        Words are at most 127 in magnitude, so an accumulator of n products reaches n K 127^2.
        """
        exact = [acc for acc in self.accumulators if acc.word in INTEGERS]
        if not exact or self.tiled or self.residues:
            return None
        return min(INTEGERS[acc.type].largest // (self._count(acc) * INTEGERS[acc.word].largest ** 2) for acc in exact)

    def _count(self, accumulator: Accumulator) -> int:
        """How many products an accumulator takes."""
        return sum(p.into == accumulator.name for p in self.products)

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
        return self.leading == "f32"

    @property
    def whole_range(self) -> bool:
        """Whether it serves rows of any magnitude that FP32 has, and not only those near 1."""
        return self.exact or self.normalize != "none"

    @property
    def spans_fp32(self) -> bool:
        """Whether every normal FP32 number is in its words' range: by scales, or as the leading words have FP32's exponents."""
        return self.whole_range or FORMATS[self.leading].max_exponent >= FORMATS["f32"].max_exponent

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """From the largest contribution to the smallest."""
        of_a, of_b = (self._told[operand] for operand in "ab")
        high = {p.into for p in self.products if p.a == p.b == 0}
        found = {
            p.into: Accumulator(name=p.into, scale=of_a[p.a].scale + of_b[p.b].scale, word=of_a[p.a].type, small=p.into not in high) for p in self.products
        }
        return tuple(sorted(found.values(), key=lambda acc: (acc.scale, acc.small)))

    @cached_property
    def recombination(self) -> Recombination:
        """How their sums become one: the only place that says so."""
        if self.residues:
            return Recombination("residues", ())
        chain = self.accumulators[::-1]
        before = (chain[0], *chain)
        return Recombination("residual chain", tuple(Step(acc, acc.scale - last.scale) for last, acc in zip(before, chain)))

    def accumulator(self, name: str) -> Accumulator:
        """The accumulator of that name."""
        return next(acc for acc in self.accumulators if acc.name == name)

    @property
    def dropped(self) -> tuple[tuple[int, int], ...]:
        """Word pairs (i, j) whose product is not computed, by these words or by others that stand for them; of residues those of two
        moduli mean nothing."""
        if self.residues:
            return ()
        stands = {operand: self._stands(operand) for operand in "ab"}
        kept = {(stands["a"][p.a], stands["b"][p.b]) for p in self.products}
        of_a, of_b = (sorted(set(stands[operand][: len(self.words_of(operand))])) for operand in "ab")
        return tuple((i, j) for i in of_a for j in of_b if (i, j) not in kept)

    @cached_property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """What the kept products fall short of x y: pairs (p, q) of D_p of A and E_q of B, of which 0 is the element itself.

        Of a residual chain what all words of either operand leave, and each dropped product of words, each of which is about as large as what
        it is taken from; but for the product of both rests. Of other words every term that is left when the kept products are multiplied out.
        """
        if self.chain:
            rests = {operand: len(self.words_of(operand)) for operand in "ab"}
            return ((rests["a"], 0), (0, rests["b"]), *self.dropped)
        terms: dict[tuple[int, int], int] = {(0, 0): 1}
        for product in self.products:
            one, other = self._told["a"][product.a].source, self._told["b"][product.b].source
            for p, sign in ((one, -1), (product.a + 1, 1)):
                for q, other_sign in ((other, 1), (product.b + 1, -1)):
                    terms[p, q] = terms.get((p, q), 0) + sign * other_sign
        return tuple(sorted(pair for pair, times in terms.items() if times))

    def remainder(self, index: int, operand: str = "a") -> float:
        """Largest |D_index| / |x| for an element in range: of what word `index` - 1 leaves; 1 of index 0. Behind integer words over the largest
        element of its row; of all residues, fewer of which tell nothing, over its row's Euclidean norm."""
        if self.residues:
            return 2.0**-self.residues.bits if index == len(self.words) else 1.0
        if index == 0:
            return 1.0
        word = self._told[operand][index - 1]
        if word.exact or self.stores(operand):
            return 0.0
        if not word.fixed:
            return self.remainder(word.source, operand) * word.left.worst
        # Half a last place of a row whose largest element is at the bottom of its binade; or what a saturated word leaves: of the first and of
        # those behind saturated ones that is of an element at the top.
        at = word.source
        while at and self._told[operand][at - 1].fixed:
            at = self._told[operand][at - 1].source
        least = word.largest + 0.5 if at == 0 else 2.0**self.target_exponent
        over = max(0.0, self._reaches(operand)[index - 1] - word.largest) / least
        return max(0.5 / 2.0**self.target_exponent, over) * 2.0**-word.scale

    def rest(self, operand: str) -> int:
        """Which D all words of an operand leave together: that of the last word."""
        return len(self.words_of(operand))

    @property
    def bits(self) -> int:
        """Mantissa bits that all words together carry: |x - words| <= 2^-bits |x|; of the operand that has fewer. Behind integers of its row's largest."""
        return min(self.bits_of(self.rest(operand), operand) for operand in "ab")

    def bits_of(self, words: int, operand: str = "a") -> int:
        """The same of the first `words` words of an operand, at least one: of the last of them, and those it is taken behind."""
        if self.residues:
            return int(self.residues.bits)
        return FORMATS["f32"].fraction_bits + 1 if self.exact or self.stores(operand) else round(-log2(self.remainder(words, operand)))

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """The same of A and B, where they have the same words."""
        if not self.alike:
            raise ValueError(f"the words of A and B of {self.name} differ: each has its own")
        return self.checkpoints_of("a")

    def checkpoints_of(self, operand: str) -> tuple[int, ...]:
        """After how many words what is left of an element is held against `bits_of` them, so that it is counted where it is more.

        After all of them; and where a dropped product supposes that a word is small, and the words before it may leave more
        than that because their smallest step is too large, which a word of a larger scale takes up. After the first word
        that asks for nothing: an element whose first word is below its normal range is counted for that. Where words are integers after none.
        """
        if self.by_row:
            return ()
        of_it, side = self.words_of(operand), "ab".index(operand)
        words = range(2, len(of_it))
        before = {i for i in words if any(i == pair[side] or self.alike and i in pair for pair in self.dropped) and of_it[-1].scale > of_it[i - 1].scale}
        return (*sorted(before), len(of_it))

    def lowest(self, flushes: bool = False, operand: str = "a") -> int | None:
        """log2 of the magnitude above which no element that the first word can hold is counted as lossy.

        Of an element as it is, or as its row is scaled. None where every number is held as it is. Where words are integers, above which some
        word holds a part of it.

        Args:
            flushes: whether the matrix unit takes subnormal words for zero.
        """
        if self.exact:
            return None
        words = self._told[operand]
        if self.by_row:
            def least(word: Word) -> int:
                if word.fixed:
                    return -word.scale - 1
                return (word.format.min_exponent if flushes else word.format.min_exponent - word.format.fraction_bits - 1) - word.scale

            return min(map(least, words))
        form = words[0].format
        found = [form.min_exponent]
        for count in self.checkpoints_of(operand):
            word = words[count - 1]
            later = [w.scale for w in words[1:count] if not w.flush or w is word]  # the first word is not subnormal here
            if flushes and later:
                step = form.min_exponent - min(later)
            else:
                step = word.format.min_exponent - word.format.fraction_bits - word.scale + round(log2(ROUNDINGS[word.rounding].worst))
            found.append(step + self.bits_of(count, operand))
        return max(found)


SCHEMES = Table("scheme", "schemes", Scheme)


class Preferred(NamedTuple):
    """A scheme for those who name none, and why."""

    name: str
    reason: str


def preferred_scheme(unit: MatrixUnit, b: str = "f32") -> Preferred:
    """Which scheme of FP32's accuracy a matrix unit is best served with, for a B of this type."""
    if b == "f16":
        return Preferred("ootomo_b16", "B is one FP16 word as it is stored, and a residual of A scaled by 2^11 loses least")
    if b == "bf16":
        return Preferred("bf16x3_bb16", "B is one bfloat16 word as it is stored, and three of A hold all of it")
    if unit.flushes_subnormals:
        return Preferred("scaled", (
            f"{unit.name} takes subnormal words for zero, and only words that row and column scales hold near the top of FP16's range never are"
        ))
    return Preferred("ootomo", f"{unit.name} multiplies subnormal words, and a residual scaled by 2^11 loses least, in one pass over the operands")
