"""What the words of a scheme leave of an element, and what the kept products of words miss of a product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2

from gemmgen.catalog.number import FORMATS, ROUNDINGS
from gemmgen.catalog.scheme.word import Row, Word


@dataclass(frozen=True, eq=False)  # a scheme keeps it: compared by its scheme, each would compare the other without end
class Precision:
    """Bits, rests and ranges of a scheme's words."""

    scheme: Row

    @property
    def chain(self) -> bool:
        """Whether each word is taken from what the word before leaves."""
        return all(word.source == index for operand in "ab" for index, word in enumerate(self.scheme.words_of(operand)))

    @property
    def whole_range(self) -> bool:
        """Whether it serves rows of any magnitude that FP32 has, and not only those near 1."""
        return self.scheme.exact or self.scheme.normalize != "none"

    @property
    def spans_fp32(self) -> bool:
        """Whether every normal FP32 number is in its words' range: by scales, or as the leading words have FP32's exponents."""
        return self.whole_range or FORMATS[self.scheme.leading].max_exponent >= FORMATS["f32"].max_exponent

    @property
    def dropped(self) -> tuple[tuple[int, int], ...]:
        """Word pairs (i, j) whose product is not computed, by these words or by others that stand for them; of residues those of two
        moduli mean nothing."""
        if self.scheme.family.residues:
            return ()
        first = {operand: stands(self.scheme, operand) for operand in "ab"}
        kept = {(first["a"][p.a], first["b"][p.b]) for p in self.scheme.products}
        of_a, of_b = (sorted(set(first[operand][: len(self.scheme.words_of(operand))])) for operand in "ab")
        return tuple((i, j) for i in of_a for j in of_b if (i, j) not in kept)

    @cached_property
    def missing(self) -> tuple[tuple[int, int], ...]:
        """What the kept products fall short of x y: pairs (p, q) of D_p of A and E_q of B, of which 0 is the element itself.

        Of a residual chain what all words of either operand leave, and each dropped product of words, each of which is about as large as what
        it is taken from; but for the product of both rests. Of other words every term that is left when the kept products are multiplied out.
        """
        if self.chain:
            rests = {operand: len(self.scheme.words_of(operand)) for operand in "ab"}
            return ((rests["a"], 0), (0, rests["b"]), *self.dropped)
        of_a, of_b = (told(self.scheme, operand) for operand in "ab")
        terms: dict[tuple[int, int], int] = {(0, 0): 1}
        for product in self.scheme.products:
            one, other = of_a[product.a].source, of_b[product.b].source
            for p, sign in ((one, -1), (product.a + 1, 1)):
                for q, other_sign in ((other, 1), (product.b + 1, -1)):
                    terms[p, q] = terms.get((p, q), 0) + sign * other_sign
        return tuple(sorted(pair for pair, times in terms.items() if times))

    def remainder(self, index: int, operand: str = "a") -> float:
        """Largest |D_index| / |x| for an element in range: of what word `index` - 1 leaves; 1 of index 0. Behind integer words over the largest
        element of its row; of all residues, fewer of which tell nothing, over its row's Euclidean norm."""
        if self.scheme.family.residues:
            return 2.0**-self.scheme.family.residues.bits if index == len(self.scheme.words) else 1.0
        if index == 0:
            return 1.0
        words = told(self.scheme, operand)
        word = words[index - 1]
        if word.exact or self.scheme.stores(operand):
            return 0.0
        if not word.fixed:
            return self.remainder(word.source, operand) * word.left.worst
        # Half a last place of a row whose largest element is at the bottom of its binade; or what a saturated word leaves: of the first and of
        # those behind saturated ones that is of an element at the top.
        at = word.source
        while at and words[at - 1].fixed:
            at = words[at - 1].source
        least = word.largest + 0.5 if at == 0 else 2.0**self.scheme.target_exponent
        over = max(0.0, reaches(self.scheme, operand)[index - 1] - word.largest) / least
        return max(0.5 / 2.0**self.scheme.target_exponent, over) * 2.0**-word.scale

    def rest(self, operand: str) -> int:
        """Which D all words of an operand leave together: that of the last word."""
        return len(self.scheme.words_of(operand))

    @property
    def bits(self) -> int:
        """Mantissa bits that all words together carry: |x - words| <= 2^-bits |x|; of the operand that has fewer. Behind integers of its row's largest."""
        return min(self.bits_of(self.rest(operand), operand) for operand in "ab")

    def bits_of(self, words: int, operand: str = "a") -> int:
        """The same of the first `words` words of an operand, at least one: of the last of them, and those it is taken behind."""
        if self.scheme.family.residues:
            return int(self.scheme.family.residues.bits)
        return FORMATS["f32"].fraction_bits + 1 if self.scheme.exact or self.scheme.stores(operand) else round(-log2(self.remainder(words, operand)))

    def checkpoints_of(self, operand: str) -> tuple[int, ...]:
        """After how many words what is left of an element is held against `bits_of` them, so that it is counted where it is more.

        After all of them; and where a dropped product supposes that a word is small, and the words before it may leave more
        than that because their smallest step is too large, which a word of a larger scale takes up. After the first word
        that asks for nothing: an element whose first word is below its normal range is counted for that. Where words are integers after none.
        """
        if self.scheme.family.by_row:
            return ()
        of_it, side = self.scheme.words_of(operand), "ab".index(operand)
        words = range(2, len(of_it))
        before = {i for i in words if any(i == pair[side] or self.scheme.alike and i in pair for pair in self.dropped) and of_it[-1].scale > of_it[i - 1].scale}
        return (*sorted(before), len(of_it))

    def lowest(self, flushes: bool = False, operand: str = "a") -> int | None:
        """log2 of the magnitude above which no element that the first word can hold is counted as lossy.

        Of an element as it is, or as its row is scaled. None where every number is held as it is. Where words are integers, above which some
        word holds a part of it.

        Args:
            flushes: whether the matrix unit takes subnormal words for zero.
        """
        if self.scheme.exact:
            return None
        words = told(self.scheme, operand)
        if self.scheme.family.by_row:
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


def told(scheme: Row, operand: str) -> tuple[Word, ...]:
    """All words of an operand, those that no product reads too."""
    return scheme.words_of(operand, packed_alike=True)


def stands(scheme: Row, operand: str) -> tuple[int, ...]:
    """For each word the first one that is taken from the same: another word of that stands for it in a product."""
    words = told(scheme, operand)
    return tuple(next(i for i, other in enumerate(words) if other.source == word.source) for word in words)


def reaches(scheme: Row, operand: str) -> tuple[float, ...]:
    """How large each word could be if it did not saturate, of normalised rows."""
    left, found = [2.0 ** (scheme.target_exponent + 1)], []  # the largest magnitudes of D
    for word in told(scheme, operand):
        reach = left[word.source] * 2.0**word.scale
        found.append(reach)
        if word.fixed:
            left.append(max(0.5, reach - word.largest) * 2.0**-word.scale)
        else:  # of a number below a power of two the last place is half of that power's
            left.append(left[word.source] / 2 * word.left.worst if word.source == 0 else left[word.source] * word.left.worst)
    return tuple(found)
