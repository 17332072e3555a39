"""Matrix units as numerical devices: how one rounds while it accumulates.

A k longer than a unit's block is worked off block by block, each block's result
being the next one's accumulator. What happens within a block is the row's `rule`:

- `truncate` (NVIDIA, measured on hardware; see tests/data): the exact products and the
  accumulator are aligned to the largest exponent among them, each is truncated to
  `fraction_bits`, they are summed exactly, and the sum is rounded toward zero to FP32.
- `floor` (CDNA 3): the exact products are aligned to the largest exponent among them,
  truncated to `fraction_bits` and summed exactly; the sum and the accumulator are aligned
  to the larger of their exponents and cut downwards, the accumulator to `fraction_bits`;
  their sum is rounded to nearest.
- `tree` (CDNA 2): FP32 arithmetic to nearest: products, sums of neighbours, sums of those,
  and the last one onto the accumulator.
- `floor_apart` (CDNA 3 on 8-bit words): as `floor`, but the products of even and of odd k are aligned and summed apart,
  and the two sums to each other before the accumulator joins them.
- `by_f16` (NVIDIA's `mma.sync` on 8-bit floating-point words where the unit has no such instruction): the compiler converts the words to
  FP16, which is exact, and multiplies as of those, under the unit's own rule and block: first the first two of every four k, from zero, then the
  others; what comes of it is added to the accumulator, to nearest.
- `exact` (CDNA 1): products and accumulator are summed exactly and rounded to nearest once.

Products of integers are exact, and so is their sum, which wraps around in INT32: no rule is needed.

The AMD rules are those that MMA-Sim (arXiv 2511.10909) publishes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gemmgen.catalog.number import INTEGERS, UnitWord
from gemmgen.catalog.policy import NAMES
from gemmgen.catalog.table import Prose, Row, Strict, Table, Title

ALIGNING = ("truncate", "by_f16", "floor", "floor_apart")
"""Rules that align terms and cut them; the others round as FP32 arithmetic does."""
Rule = Literal["truncate", "by_f16", "floor", "floor_apart", "tree", "exact"]
_Block = Annotated[int, Field(ge=1, le=64)]


class Variant(Strict):
    """How a unit sums products of some words, where it is not as of its others.

    Attributes:
        words: their types.
        policies: the programming interfaces of whose instructions it is true; of all where there is none.
        rule, fraction_bits: as of the unit.
        sum_bits: fraction bits of the sums, where they have fewer than FP32's 23.
        block: how many products are summed at once.
        source, verified, unchecked: as of the unit.
    """

    words: Annotated[tuple[UnitWord, ...], Field(min_length=1, strict=False)]
    policies: Annotated[tuple[Literal[NAMES], ...], Field(strict=False)] = ()
    rule: Rule
    fraction_bits: Annotated[int, Field(ge=8, le=40)] | None = None
    sum_bits: Annotated[int, Field(ge=8, le=22)] | None = None
    block: _Block
    source: Prose
    verified: Prose
    unchecked: Title | None = None

    def of(self, word: str, policy: str | None) -> bool:
        """Whether it tells how words of a type are summed by an interface; None stands for any."""
        return word in self.words and (not self.policies or policy is None or policy in self.policies)


class MatrixUnit(Row):
    """Numerical behaviour of one generation of matrix units.

    Attributes:
        rule: the family of arithmetic, one of those above.
        fraction_bits: bits kept after the binary point when terms are aligned
            (23 would be FP32's own; Ampere keeps 24, Hopper 25); of the rules that align.
        sum_bits: fraction bits of the sums, where they have fewer than FP32's 23; of rule truncate.
        block: for each word type, how many products are summed at once.
        integers: words whose sums are INT32 and exact.
        variants: how it sums products of other words; the first that fits a word and an interface holds.
        assumed: interfaces whose instructions are assumed to sum as the checked ones do, and why, as `unchecked` says it.
        flushes_subnormals: whether subnormal words, and subnormal FP32 numbers on the way,
            count as zero.
        verified: what the row was checked against, or empty when it was not;
            reports then say `unchecked`.
        unverified_words: word types that this check did not cover.
        unchecked: what an unchecked row rests on, where there is more to say than "unverified".
    """

    rule: Rule
    fraction_bits: Annotated[int, Field(ge=8, le=40)] | None = None
    sum_bits: Annotated[int, Field(ge=8, le=22)] | None = None
    block: dict[UnitWord, _Block]
    integers: Annotated[tuple[Literal[tuple(INTEGERS)], ...], Field(strict=False)] = ()
    variants: Annotated[tuple[Variant, ...], Field(strict=False)] = ()
    assumed: dict[Literal[NAMES], Title] = {}
    flushes_subnormals: bool | None = None
    verified: Prose
    unverified_words: Annotated[tuple[UnitWord, ...], Field(strict=False)] = ()
    unchecked: Title | None = None

    def __hash__(self) -> int:
        """Its name's, as a table of words has none: equal rows have equal names."""
        return hash(self.name)

    @model_validator(mode="after")
    def _consistent(self) -> MatrixUnit:
        if (self.fraction_bits is not None) != (self.rule in ALIGNING):
            raise ValueError(f"fraction_bits with the rules that align, {' and '.join(ALIGNING)}, and with no other")
        if self.flushes_subnormals and self.rule != "tree":
            raise ValueError("flushes_subnormals with rule tree, of which alone it is known")
        for one in self.variants:
            if one.rule == "by_f16" and (self.rule != "truncate" or (one.fraction_bits, one.block % self.block["f16"]) != (self.fraction_bits, 0)):
                raise ValueError("rule by_f16 with the fraction_bits of a unit of rule truncate, and a block of whole blocks of f16")
            if (one.fraction_bits is not None) != (one.rule in ALIGNING):
                raise ValueError(f"fraction_bits with the rules that align, {' and '.join(ALIGNING)}, and with no other, in variants too")
        for one in (self, *self.variants):
            if one.sum_bits is not None and one.rule != "truncate":
                raise ValueError("sum_bits with rule truncate, of which alone it is known")
            if one.verified and one.unchecked:
                raise ValueError("verified or unchecked, not both")
        if twice := {word for one in self.variants for word in one.words} & self.block.keys():
            raise ValueError(f"words in block or in a variant, not in both; {' and '.join(sorted(twice))} are")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """Every word type that it multiplies."""
        return tuple(dict.fromkeys((*self.block, *self.integers, *(word for one in self.variants for word in one.words))))

    def of(self, word: str, policy: str | None = None) -> MatrixUnit:
        """The unit as it sums products of words of a type, by the instructions of an interface: one rule, and a block for that word.

        Words of a variant are not in `block` of the unit itself, so that nobody takes the unit's rule for theirs. Itself
        where no variant is of them.
        """
        found = next((one for one in self.variants if one.of(word, policy)), None)
        if found is None:
            return self
        told = {name: getattr(found, name) for name in ("rule", "fraction_bits", "sum_bits", "verified", "unchecked", "source")}
        return self.model_copy(update={**told, "block": {**self.block, word: found.block}, "variants": (), "unverified_words": (), "assumed": {}})

    @property
    def rounds_to_nearest(self) -> bool:
        """Whether the accumulator is rounded to nearest, and not cut."""
        return self.rule != "truncate"

    def checked(self, word: str | None = None, policy: str | None = None) -> bool:
        """Whether the row was checked against hardware: for `word`, or for any word at all; by the instructions of `policy`, or by any.
        Sums of integers have no rule to be checked."""
        unit = self if word is None else self.of(word, policy)
        return word in self.integers or bool(unit.verified) and word not in unit.unverified_words and policy not in unit.assumed

    def label(self, word: str | None = None, policy: str | None = None) -> str:
        """The name, and whether the row was checked, as `checked` has it."""
        unit = self if word is None else self.of(word, policy)
        return self.name if self.checked(word, policy) else f"{self.name}, {unit.assumed.get(policy) or unit.unchecked or 'unverified'}"


UNITS = Table("matrix unit", "units", MatrixUnit)
