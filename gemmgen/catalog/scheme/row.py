"""A scheme: a row of words and products that proves itself when it is loaded."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.element import ELEMENTS, F32
from gemmgen.catalog.number import FORMATS, Format, WordType, word_bytes
from gemmgen.catalog.scheme.family import Family, family_of
from gemmgen.catalog.scheme.precision import Precision, reaches, stands
from gemmgen.catalog.scheme.word import ELEMENT, STORED, Accumulator, Product, Word
from gemmgen.catalog.table import Row, Title


RUNS = (256, 512, 1024, 2048)
"""k of a run: whole stages of every kernel, and at most what the threads of one block hold in registers."""


class Scheme(Row):
    """A split scheme.

    Attributes:
        title: one line for a listing.
        word: the type of every word that does not say its own.
        normalize: `row` multiplies each row of A and column of B by the power
            of two that brings its largest finite element into
            [2^`target_exponent`, 2^(`target_exponent`+1)); `tile` does so for each `tile_k` k of one,
            of integer words; `run` for each `tile_k` k of one, of words of f16; `none` does not. Integer words want `row` or `tile`.
        tile_k: with normalize = tile or run, the consecutive k that share an exponent: 32, or one of `RUNS`.
        own_promote: the promotion the scheme's authors use: `fragment` (every
            k of one instruction) or `never`.
        words: from most to least significant, of A, and of B where `words_b` does not tell others. `words_of` has them.
        words_b: of B, where they differ from A's.
        products: in the order the kernel issues them.
        b: the type that B's elements are stored in already; None where B is FP32. `words_b` is then one word, B's element itself, which leaves
            nothing, and is not written.
        moduli: of the residues that words are, in place of `words` and `products`, which follow; None of other schemes.
        element: the type of the elements that are split, of A and of B.
    """

    title: Title
    word: WordType
    normalize: Literal["none", "row", "tile", "run"] = "none"
    tile_k: Literal[32, *RUNS] | None = None
    target_exponent: Annotated[int, Field(ge=-14, le=126)] = 14
    own_promote: Literal["fragment", "never"]
    words: Annotated[tuple[Word, ...], Field(min_length=1, max_length=16, strict=False)]
    words_b: Annotated[tuple[Word, ...], Field(min_length=1, max_length=4, strict=False)] | None = None
    b: Literal["f16", "bf16"] | None = None
    products: Annotated[tuple[Product, ...], Field(min_length=1, max_length=16, strict=False)]
    moduli: Annotated[tuple[int, ...], Field(min_length=2, max_length=16, strict=False)] | None = None
    element: Literal[*ELEMENTS] = F32.name

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

    def __copy__(self) -> Scheme:
        """A copy that remembers nothing of what followed from this row: `model_copy` changes fields of it."""
        fresh = super().__copy__()
        for name in set(fresh.__dict__) - set(type(self).model_fields):
            del fresh.__dict__[name]
        return fresh

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
        if self.element != F32.name:
            raise ValueError(f'moduli with element = "{self.element}": residues alone hold as many bits')
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
        stood = [tuple(stands(self, operand)[i] for operand, i in zip("ab", pair)) for pair in seen]
        if twice := sorted({pair for pair in stood if stood.count(pair) > 1}):
            raise ValueError(f"each part of the product once; words taken from the same as those of {twice[0]} meet twice")
        for words in (of_a, of_b):
            for word in words:
                self._word_fits(word, len(words))
        if self.b and (self.types != (self.b,) or self.words_b != (Word(**STORED),) or self.normalize != "none"):
            raise ValueError(f'words of {self.b} alone, no words_b and normalize = "none" with b = "{self.b}": B is one word as it is stored')
        if self.tile_k not in {"tile": (32,), "run": RUNS}.get(self.normalize, (None,)):
            raise ValueError('tile_k with normalize = "tile", 32, or with "run", 256, 512, 1024 or 2048, and with nothing else')
        if self.normalize == "run" and (self.types != ("f16",) or not self.alike):
            raise ValueError('words of f16 alone, the same of A and B, with normalize = "run"')
        if self.normalize == "tile" and not self.family.exact:
            raise ValueError('normalize = "row" or "none" with words that are no integers: they have exponents of their own')
        if self.family.by_row:
            self._fixed_words_fit()
        return self

    def _residues_fit(self) -> Scheme:
        """The row proves its own system of residues."""
        if self.word != "s8" or self.normalize != "row" or self.own_promote != "never" or self.words_b:
            raise ValueError('word = "s8", normalize = "row" and own_promote = "never" with moduli: residues are integers, and their sums are exact')
        if refusal := self.family.residues.refusal():
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
        if self.normalize in ("row", "run") and not -14 <= self.target_exponent < word.format.max_exponent:
            raise ValueError(f"target_exponent below {word.format.max_exponent}, so that rounding up cannot overflow")

    def _fixed_words_fit(self) -> None:
        kind = next(word.type for operand in "ab" for word in self._told[operand] if word.fixed)
        if self.normalize == "none":
            raise ValueError(f'normalize = "row" or "tile" with words of {kind}: they have no exponent')
        if self.family.exact and self.own_promote != "never":
            raise ValueError(f'own_promote = "never" with words of {kind}: their sums are exact')
        for operand in "ab":
            for index, (word, reach) in enumerate(zip(self._told[operand], reaches(self, operand))):
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

    @property
    def exact(self) -> bool:
        """Whether a word holds every FP32 number as it is, so that rounding to it changes nothing."""
        return self.leading == "f32"

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """From the largest contribution to the smallest."""
        of_a, of_b = (self._told[operand] for operand in "ab")
        high = {p.into for p in self.products if p.a == p.b == 0}
        found = {
            p.into: Accumulator(name=p.into, scale=of_a[p.a].scale + of_b[p.b].scale, word=of_a[p.a].type, small=p.into not in high) for p in self.products
        }
        return tuple(sorted(found.values(), key=lambda acc: (acc.scale, acc.small)))

    def accumulator(self, name: str) -> Accumulator:
        """The accumulator of that name."""
        return next(acc for acc in self.accumulators if acc.name == name)

    # ---- what follows from the words, by topic

    @cached_property
    def family(self) -> Family:
        """What kind of words it has, and what follows from that."""
        return family_of(self)

    @cached_property
    def precision(self) -> Precision:
        """What words leave of an element."""
        return Precision(self)
