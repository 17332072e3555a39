"""The families of schemes: what floating-point words, integers, tiles of k and residues each change, told in one place.

Whoever has to know what kind of words a scheme has asks `Scheme.family`. A room that does different things for them registers one function for each
(`functools.singledispatch`), which is found by what the family is.

| family | words | scales | sums |
| --- | --- | --- | --- |
| `Family` | floating-point numbers; a scheme may have integers beside them | none, or one for each row | FP32, rounded by the matrix unit |
| `Integers` | integers | one for each row | INT32, exact |
| `Tiles` | integers | one for each `tile_k` k of a row | INT32 of a tile; FP32 over the tiles |
| `Runs` | floating-point numbers | one for each `run_k` k of a row | FP32, in units of the run at hand |
| `ResidueWords` | residues | a factor for each row | INT32 modulo each number, joined by the Chinese remainder theorem |
| `WideResidueWords` | residues of FP64 | a power of two for each row | the same, joined as an integer of 128 bits |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import ClassVar, TypeVar

from gemmgen.catalog.element import F64
from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.residues import Residues, WideResidues
from gemmgen.catalog.scheme.sums import OFFSET, OFFSET_BITS, Moved, Recombination, Step, Sums
from gemmgen.catalog.scheme.word import Accumulator, Row

T = TypeVar("T")

MOST_TILE_EXPONENT = 149
"""A tile's scale is an FP32 number; with this exponent words are multiples of the smallest one, which are all there are."""
OUTLIER = 3
"""A row of A or column of B stands out whose elements that are not 0 have, scaled, a root mean square below 2^OUTLIER, where the largest is at least
2^target_exponent: what integer words leave of it is then more than 2^(-s - OUTLIER) / sqrt(12) of the row's own norm, s the last word's scale."""
INTEGER_SHARE = 22
"""2^-22 of OFFSET is still an integer."""


@dataclass(frozen=True, eq=False)  # a scheme keeps it: compared by its scheme, each would compare the other without end
class Family:
    """Floating-point words, and integers beside them.

    Attributes:
        wide: whether elements are FP64.
        reproducible: whether C is the same bits on every GPU, whatever the layout, the tile and the order of blocks.
        shared_by, sharing: what shares a scale, in words, where there are scales: all of them, and one.
        sums: what the accumulators hold of the result. A design is for one kind of these.
        exact: whether all words are integers: there is none for an Inf or a NaN, and every INT32 sum is exact.
        tile_k: the consecutive k of a row of A or column of B that have an exponent of their own, of integers; None where the whole row has one, or none has.
        run_k: the same of floating-point words.
        residues: the system of residues that the words are; None where they are digits or floating-point numbers.
    """

    scheme: Row
    wide: ClassVar[bool] = False
    reproducible: ClassVar[bool] = False
    shared_by: ClassVar[str] = "rows"
    sharing: ClassVar[str] = "row or column"
    sums: Sums = "residual chain"
    exact: bool = False
    tile_k: int | None = None
    run_k: int | None = None
    residues: Residues | None = None

    @property
    def shared_k(self) -> int | None:
        """The consecutive k that share an exponent, whatever the words; None where a whole row does, or there are no exponents."""
        return self.tile_k or self.run_k

    @cached_property
    def by_row(self) -> bool:
        """Whether some words are integers: what they leave of an element is relative to the largest of its row, not to the element."""
        return any(kind in INTEGERS for kind in self.scheme.types)

    @property
    def takes_maxima(self) -> bool:
        """Whether rows and columns have powers of two by their largest elements."""
        return self.scheme.normalize == "row"

    @property
    def largest_k(self) -> int | None:
        """The largest K that no INT32 sum can overflow at; None where sums are FP32, or end before they could.

        Words are at most 127 in magnitude, so an accumulator of n products reaches n K 127^2.
        """
        exact = [acc for acc in self.scheme.accumulators if acc.word in INTEGERS]
        reached = (INTEGERS[acc.type].largest // (into(self.scheme, acc) * INTEGERS[acc.word].largest ** 2) for acc in exact)
        return min(reached, default=None)

    @cached_property
    def recombination(self) -> Recombination:
        """How the accumulators' sums become one: the only place that says so."""
        chain = self.scheme.accumulators[::-1]
        before = (chain[0], *chain)
        return Recombination(self.sums, tuple(Step(acc, acc.scale - last.scale) for last, acc in zip(before, chain)))

    @property
    def converts(self) -> bool:
        """Whether INT32 sums are converted to FP32 as they are."""
        return self.exact

    def of_stage(self, each: Sequence[T]) -> tuple[T, ...]:
        """Those of a scheme's words, products or accumulators that one stage of shared memory is about: all."""
        return tuple(each)

    def scales(self, rows: int, k: int) -> int:
        """Scales of tiles of k in `rows` rows of `k` elements each."""
        return 0

    def tiles(self, k: int) -> int:
        """Tiles of `k` k with scales of their own; 0 where rows have them, or nothing has."""
        return 0

    def tile_steps(self, fragment_k: int) -> int:
        """Instructions of `fragment_k` k whose sums share their scales; 0 where no tile of k has its own."""
        return 0


class Integers(Family):
    """Integers, with one exponent a row."""


class Tiles(Integers):
    """Integers, with one exponent for every `tile_k` k of a row."""

    shared_by: ClassVar[str] = "tiles of k"
    sharing: ClassVar[str] = "tile"

    @property
    def largest_k(self) -> int | None:
        return None

    @cached_property
    def moved(self) -> Moved:
        """How a tile's INT32 sums become one FP32 number."""
        sums = self.scheme.accumulators
        taken = [acc for acc in sums if acc.scale <= INTEGER_SHARE]
        return Moved(sum(OFFSET * 2.0**-acc.scale for acc in taken), tuple(taken), tuple(acc for acc in sums if acc.scale > INTEGER_SHARE))

    @property
    def offset(self) -> float:
        """What sums of a tile begin at, as FP32 numbers read their bits."""
        return OFFSET

    @property
    def offset_bits(self) -> int:
        """The bits of the same."""
        return OFFSET_BITS

    def scales(self, rows: int, k: int) -> int:
        return rows * k // self.tile_k

    def tiles(self, k: int) -> int:
        return ceil(max(k, 1) / self.tile_k)

    def tile_steps(self, fragment_k: int) -> int:
        return self.tile_k // fragment_k


class Runs(Family):
    """Floating-point numbers, with one exponent for every `run_k` k of a row."""

    shared_by: ClassVar[str] = "runs of k"
    sharing: ClassVar[str] = "run"

    near: ClassVar[int] = 18
    """Exponents of a row's runs, or of a column's, differ by at most this from the first run's as long as a sum goes on in their units. Two units of an
    element then differ by at most 2^72: sums of 2^24 products of at most 2^30 stay below 2^127, and multiples of 2^-59, as products of words of f16
    scaled by 2^11 are, stay multiples of FP32's smallest number."""
    usual: ClassVar[int] = 60
    """Exponents of a row and a column up to which a sum, multiplied by both powers of two one after the other, is rounded once."""

    def runs(self, k: int) -> int:
        """Runs of `k` k."""
        return ceil(k / self.run_k)


class ResidueWords(Integers):
    """Residues modulo several numbers, of rows that have factors, which need more than their largest elements."""

    reproducible: ClassVar[bool] = True
    scale_type: ClassVar[str] = "double"
    """The C type of what a row's scale is told by."""

    @property
    def converts(self) -> bool:
        return False

    @property
    def takes_maxima(self) -> bool:
        return False

    @property
    def largest_k(self) -> int | None:
        """None: residues are summed over segments of k."""
        return None

    @cached_property
    def recombination(self) -> Recombination:
        return Recombination(self.sums, ())

    def of_stage(self, each: Sequence[T]) -> tuple[T, ...]:
        """The first: a stage is about one modulus, and goes through them one after the other in the same registers."""
        return tuple(each[:1])


class WideResidueWords(ResidueWords):
    """The same of FP64 elements, of rows that have powers of two by their norms."""

    wide: ClassVar[bool] = True
    scale_type: ClassVar[str] = "int"


def into(scheme: Row, accumulator: Accumulator) -> int:
    """How many products an accumulator takes."""
    return sum(product.into == accumulator.name for product in scheme.products)


def family_of(scheme: Row) -> Family:
    """The family of a row."""
    if scheme.moduli and scheme.element == F64.name:
        return WideResidueWords(scheme, sums="residues", exact=True, residues=WideResidues(scheme.moduli))
    if scheme.moduli:
        return ResidueWords(scheme, sums="residues", exact=True, residues=Residues(scheme.moduli))
    if scheme.normalize == "tile":
        return Tiles(scheme, exact=all(kind in INTEGERS for kind in scheme.types), tile_k=scheme.tile_k)
    if scheme.normalize == "run":
        return Runs(scheme, run_k=scheme.tile_k)
    if all(kind in INTEGERS for kind in scheme.types):
        return Integers(scheme, exact=True)
    return Family(scheme)
