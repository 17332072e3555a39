"""Which row of specs/units a unit is: every rule that such a row can say, told apart by products made for it, and proven by random ones.

In turns, those products are asked on whose answers the rules left differ most; a rule whose answer is another is out. When no product
made for it tells the rules left from one another, they are one rule for these words; the first of them is taken, and random products are
its proof: or, where none is left, tell how often the nearest is right, and where it is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gemmgen.catalog.conversion import RAW, decode
from gemmgen.catalog.number import FORMATS, Format
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core import units
from gemmgen.verify.unit_probe import drawn
from gemmgen.workshop.bringup.described import described
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.maps import exact_words
from gemmgen.workshop.bringup.rules import Traits
from gemmgen.workshop.bringup.sums import Order

WIDTHS = range(8, 41)
"""Of alignment, that a row can say: MatrixUnit.fraction_bits."""
SUM_WIDTHS = range(8, 23)
"""Of sums of fewer bits than FP32: MatrixUnit.sum_bits."""
_A_TURN = 16
"""Products asked before the rules are looked through again."""
_POOL = 96
"""Products among which those of a turn are chosen."""
_DRY = 2
"""Pools in a row that must tell no two rules apart before they count as one."""
_EXPLAINED = 20_000
"""Random products that a description is held against; it is slower than a rule."""
_SHOWN = 3
"""Products of each kind that contradict the nearest row, kept for the report."""
EXTREMES = "any bits"
_CANCEL = "sums that cancel"
_EXPONENTS = {"terms of one size": (-2, 0), "terms far apart": (-12, 12), _CANCEL: (-3, 3), "subnormal words": "subnormal", EXTREMES: "any"}
KINDS = tuple(_EXPONENTS)
"""Of random products, and the exponents of their words. Of any bits are Inf and NaN, and sums that overflow, of which a row says nothing."""


class Candidate(NamedTuple):
    """A rule as a row of specs/units says it, for one type of words.

    Attributes:
        rule, fraction_bits, sum_bits, block, flushes: as `MatrixUnit` has them.
        inner: block of FP16 words, of rule by_f16.
    """

    rule: str
    block: int
    fraction_bits: int | None = None
    sum_bits: int | None = None
    flushes: bool | None = None
    inner: int | None = None

    def unit(self, word: str) -> MatrixUnit:
        """A row that says so of these words, and nothing else; it need not be one that could be shipped."""
        block = {word: self.block} | ({"f16": self.inner} if self.inner else {})
        return MatrixUnit.model_construct(
            name="candidate", source="a bring-up", rule=self.rule, fraction_bits=self.fraction_bits, sum_bits=self.sum_bits, block=block,
            integers=(), variants=(), flushes_subnormals=self.flushes, verified="", unverified_words=(), unchecked=None,
        )

    @property
    def text(self) -> str:
        parts = [f"rule {self.rule}", f"block {self.block}"]
        parts += [f"fraction_bits {self.fraction_bits}"] if self.fraction_bits else []
        parts += [f"sum_bits {self.sum_bits}"] if self.sum_bits else []
        parts += ["flushes_subnormals"] if self.flushes else []
        return ", ".join(parts + ([f"on FP16 blocks of {self.inner}"] if self.inner else []))

    @classmethod
    def of(cls, unit: MatrixUnit, word: str, policy: str) -> Candidate:
        """What a row of the catalog says of words by an interface."""
        one = unit.of(word, policy)
        inner = unit.block.get("f16") if one.rule == "by_f16" else None
        return cls(one.rule, one.block[word], one.fraction_bits, one.sum_bits, one.flushes_subnormals or None, inner)


def every(word: str, block: int) -> list[Candidate]:
    """Every rule that a row can say of words of a type, of so many products at once; simplest first."""
    found = [Candidate("exact", block), Candidate("tree", block), Candidate("tree", block, flushes=True)]
    found += [Candidate("truncate", block, bits) for bits in WIDTHS]
    found += [Candidate("truncate", block, bits, fewer) for bits in WIDTHS for fewer in SUM_WIDTHS]
    found += [Candidate("floor", block, bits) for bits in WIDTHS]
    if block % 2 == 0:
        found += [Candidate("floor_apart", block, bits) for bits in WIDTHS]
    if FORMATS[word].bytes == 1 and block % 4 == 0:
        inner = [1 << bit for bit in range(6) if block // 2 % (1 << bit) == 0]
        found += [Candidate("by_f16", block, bits, inner=each) for bits in WIDTHS for each in inner]
    return found


def predicted(candidate: Candidate, word: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Bits [products] of the rule's answers, by its definition; any NaN is one."""
    return _bits(units.dot(candidate.unit(word), word, decode(word, a), decode(word, b), c))


def _bits(d: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(d), np.uint32(0x7FFFFFFF), np.ascontiguousarray(d).view(np.uint32))


class Explained(NamedTuple):
    """A unit in words, and how many of so many random products that gives."""

    text: str
    proof: int
    agreeing: int


@dataclass
class Found:
    """What telling rules apart came to.

    Attributes:
        candidate: the rule that fits, or the nearest.
        fits: whether nothing contradicts it.
        same: rules that no product told from it.
        of: how many rules there were; turns: and what each turn left of them; asked: products of all turns.
        kinds: random products of each kind, (how many, how many of them are the rule's, bit for bit).
        described: of a unit that no row says, what its traits together give, and of how many random products.
        against: products that contradict it: their words, accumulator, answer and what the rule says, as hex digits; of kind AGAIN such as the device
            answered otherwise when it was asked a second time, with that answer in place of the rule's.
    """

    candidate: Candidate
    fits: bool
    same: list[Candidate]
    of: int
    turns: list[int]
    asked: int
    kinds: dict[str, tuple[int, int]] = field(default_factory=dict)
    against: list[dict[str, object]] = field(default_factory=list)
    described: Explained | None = None

    @property
    def proof(self) -> int:
        """Random products of the kinds that a row is about: all but those of any bits, of Inf, NaN and sums that overflow."""
        return sum(count for kind, (count, _) in self.kinds.items() if kind != EXTREMES)

    @property
    def agreeing(self) -> int:
        """How many of them are the rule's, bit for bit."""
        return sum(right for kind, (_, right) in self.kinds.items() if kind != EXTREMES)


def tell_apart(dots: Dots, order: Order, seed: int = 0) -> Found:
    """The rule of a unit, by products chosen so that the rules left disagree on them."""
    word, rng = dots.word, np.random.default_rng(seed)
    block = order.block or max(len(step) for step in order.steps)
    live = every(word, block)
    total, turns, before, dry = len(live), [], dots.asked, 0
    kept: list[tuple[np.ndarray, ...]] = []
    while len(live) > 1 and dry < _DRY:
        pool = _pool(rng, dots, order)
        said = np.stack([predicted(one, word, *_in_order(order, *pool)) for one in live])
        split = False
        while len(live) > 1:
            differing = [len(np.unique(column)) for column in said.T]
            best = [int(at) for at in np.argsort(differing)[::-1][:_A_TURN] if differing[at] > 1]
            if not best:
                break
            split = True
            answers = _bits(dots.ask(*(x[best] for x in pool)))
            kept.append((*(x[best] for x in pool), answers))
            right = (said[:, best] == answers).all(1)
            if not right.any():
                return _nearest(dots, order, live, kept, total, [*turns, 0], before)
            live, said = [one for one, good in zip(live, right) if good], said[right]
            turns.append(len(live))
        dry = 0 if split else dry + 1
    return Found(live[0], order.block is not None and (order.in_turn or not dots.maps.numbered), live[1:], total, turns, dots.asked - before)


def _nearest(dots: Dots, order: Order, live: list[Candidate], kept: list, total: int, turns: list[int], before: int) -> Found:
    """Of all rules the one that is right most often, on what was asked and on a pool more."""
    pool = _pool(np.random.default_rng(1), dots, order)
    kept = [*kept, (*pool, _bits(dots.ask(*pool)))]
    a, b, c, answers = (np.concatenate(parts) for parts in zip(*kept))
    block = order.block or max(len(step) for step in order.steps)
    rules = every(dots.word, block)
    right = [int((predicted(one, dots.word, *_in_order(order, a, b, c)) == answers).sum()) for one in rules]
    return Found(rules[int(np.argmax(right))], False, [], total, turns, dots.asked - before)


def _in_order(order: Order, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Dot products with their k in the order in which they are summed."""
    return a[:, order.sequence], b[:, order.sequence], c


def _pool(rng: np.random.Generator, dots: Dots, order: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Products on which rules disagree: large terms that cancel beside smaller ones, sums with bits to lose, near ties, subnormal numbers."""
    form, k, raw = dots.form, dots.depth, RAW[dots.word]
    kinds = [_near_ties(rng, dots, order, _POOL // 4), _carries(rng, dots, order, _POOL // 8)]
    for number in range(4):
        count = _POOL // 4
        low, high = [(-3, 3), (-6, 6), (-12, 12), (-2, 0)][number]
        a, b = (drawn(rng, form, raw, (count, k), (low, high)) for _ in range(2))
        c = drawn(rng, FORMATS["f32"], np.dtype(np.uint32), (count, 1), (2 * low, 2 * high))[:, 0].view(np.float32).copy()
        if number < 2:  # a term that cancels another, or the accumulator, and is larger than the rest by up to 2**40
            _cancel(rng, form, order, a, b, c, dots)
        elif number == 3:
            c = -(decode(dots.word, a).astype(np.float64) * decode(dots.word, b)).sum(1).astype(np.float32)
        kinds.append((a, b, c))
    count = _POOL // 4
    b = drawn(rng, form, raw, (count, k), (0, 8))
    c = drawn(rng, FORMATS["f32"], np.dtype(np.uint32), (count, 1), (form.min_exponent - 12, form.min_exponent))[:, 0].view(np.float32).copy()
    kinds.append((drawn(rng, form, raw, (count, k), "subnormal"), b, c))
    return tuple(np.concatenate(parts) for parts in zip(*kinds))


def _near_ties(rng: np.random.Generator, dots: Dots, order: Order, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An accumulator, a product of half its last place or very nearly, and a far smaller product of the same step."""
    form, rows = dots.form, np.arange(count)
    a, b = np.zeros((2, count, dots.depth), np.float32)
    low, high = 2 * form.min_exponent + 6, dots.largest - 4
    exponents = rng.integers(max(low, -100), high, count)
    whole = [step for step in order.steps if len(step) == max(map(len, order.steps))]
    step = np.array([whole[int(which)][:2] for which in rng.integers(0, len(whole), count)])
    fine = 2.0**-form.fraction_bits
    first = exponents // 2
    near = rng.choice([1, 1 + fine, 1 - fine], count)
    sign = rng.choice([-1.0, 1.0], count)
    a[rows, step[:, 0]], b[rows, step[:, 0]] = np.ldexp(sign, first), np.ldexp(near, exponents - first)
    a[rows, step[:, 0]] *= rng.choice([1, 1 + fine, 1 - fine], count)
    if step.shape[1] > 1:
        small = np.maximum(exponents - rng.integers(1, 40, count), 2 * form.min_exponent)
        a[rows, step[:, 1]], b[rows, step[:, 1]] = np.ldexp(rng.choice([-1.0, 1.0], count), small // 2), np.ldexp(1.0, small - small // 2)
    c = np.ldexp(1 + rng.integers(0, 1 << 23, count) * 2.0**-23, exponents + 24) * rng.choice([-1, 1], count)
    return exact_words(dots.word, a), exact_words(dots.word, b), c.astype(np.float32)


def _carries(rng: np.random.Generator, dots: Dots, order: Order, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Terms of one step, of one size and sign, each nearly four, whose sum has as many bits above its largest term as can be."""
    form = dots.form
    fine = 2.0**-form.fraction_bits
    a, b = (2 - fine * rng.integers(1, 3, (count, dots.depth)) for _ in range(2))
    sign = rng.choice([-1.0, 1.0], count)
    a *= np.isin(np.arange(dots.depth), max(reversed(order.steps), key=len))  # no later step may cut the sum again
    c = sign * (2 - rng.integers(1, 1 << 12, count) * 2.0**-23)
    return exact_words(dots.word, a * sign[:, None]), exact_words(dots.word, b), c.astype(np.float32)


def _cancel(rng: np.random.Generator, form: Format, order: Order, a: np.ndarray, b: np.ndarray, c: np.ndarray, dots: Dots) -> None:
    """Into each dot product a large term and its negative, in place; of every second one the negative is the accumulator."""
    count, k = a.shape
    step = [list(order.steps[int(which)]) for which in rng.integers(0, len(order.steps), count)]
    places = [rng.choice(one, 2, replace=len(one) < 2) for one in step]
    exponents = rng.integers(0, dots.largest // 2 + 1, count)
    one = exact_words(dots.word, np.ldexp(np.float32(1), exponents))
    minus = exact_words(dots.word, np.ldexp(np.float32(-1), exponents))
    rows = np.arange(count)
    first, second = np.array(places).T
    a[rows, first], b[rows, first] = one, one
    by_sum = rows % 2 == 1
    c[by_sum] = -np.ldexp(np.float32(1), 2 * exponents[by_sum])
    rest = ~by_sum & (first != second)
    a[rows[rest], second[rest]], b[rows[rest], second[rest]] = minus[rest], one[rest]


AGAIN = "asked again, answered otherwise"
"""The kind of products by which a device contradicts itself."""


def prove(dots: Dots, order: Order, traits: Traits, found: Found, products: int, seed: int = 1) -> None:
    """Random products, beside what the rule says of them; into `found`.

    Where it does not give them all, the next of those that were not told from it is held against them; where none does, what the traits say.
    """
    _held_against(dots, order, found, products, seed)
    while found.fits and found.agreeing < found.proof and found.same:
        found.candidate, *found.same = found.same
        found.kinds, found.against = {}, []
        _held_against(dots, order, found, products, seed)
    found.fits = found.fits and found.agreeing == found.proof and not any(one["kind"] == AGAIN for one in found.against)
    unit = None if found.fits else described(order, traits, dots.form)
    if unit:
        agreeing = proof = 0
        for kinds, a, b, c in random_tiles(dots, min(products, _EXPLAINED), seed + 1):
            d = dots.tiles(a, b, c)
            said = unit(decode(dots.word, a)[:, :, None], decode(dots.word, b).transpose(0, 2, 1)[:, None], c)
            same = (_bits(d) == _bits(said))[kinds != KINDS.index(EXTREMES)]
            proof, agreeing = proof + same.size, agreeing + int(same.sum())
        found.described = Explained(unit.text, proof, agreeing)


def _held_against(dots: Dots, order: Order, found: Found, products: int, seed: int) -> None:
    for kinds, a, b, c in random_tiles(dots, products, seed):
        d = dots.tiles(a, b, c)
        again = dots.tiles(a, b, c)
        wavers = np.argwhere(_bits(again) != _bits(d))[: _SHOWN - sum(one["kind"] == AGAIN for one in found.against)]
        found.against += [{"kind": AGAIN} | _shown(dots, a[at, i], b[at, :, j], c[at, i, j], d[at, i, j], again[at, i, j]) for at, i, j in wavers]
        sequence = order.sequence
        with np.errstate(all="ignore"):
            said = units.mma(found.candidate.unit(dots.word), dots.word, a[:, :, sequence], b[:, sequence], c)
        same = _bits(d) == _bits(said)
        for number, kind in enumerate(KINDS):
            of_kind = kinds == number
            before, right = found.kinds.get(kind, (0, 0))
            found.kinds[kind] = before + same[of_kind].size, right + int(same[of_kind].sum())
            here = [one for one in found.against if one["kind"] == kind]
            for at, i, j in np.argwhere(~same[of_kind])[: _SHOWN - len(here)]:
                tile = np.flatnonzero(of_kind)[at]
                found.against.append({"kind": kind} | _shown(dots, a[tile, i], b[tile, :, j], c[tile, i, j], d[tile, i, j], said[tile, i, j]))


def _shown(dots: Dots, a: np.ndarray, b: np.ndarray, c: np.float32, d: np.float32, said: np.float32) -> dict[str, object]:
    digits = 2 * RAW[dots.word].itemsize
    words = {name: [f"{int(word):0{digits}x}" for word in x] for name, x in (("a", a), ("b", b))}
    return {**words, **{name: f"{int(x.view(np.uint32)):08x}" for name, x in (("c", c), ("d", d), ("rule", said))}}


def random_tiles(dots: Dots, products: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Tiles of random words and sums, of so many dot products together: the number of each tile's kind, A, B and C."""
    form, raw = dots.form, RAW[dots.word]
    m, n, k = dots.raw.fragment.shape
    rng = np.random.default_rng(seed)
    single = FORMATS["f32"]
    left = -(-products // (m * n))
    while left > 0:
        tiles = min(left, max(8, (1 << 22) // (m * n * k)))
        left -= tiles
        drawn_of, numbers = [], []
        for number, exponents in enumerate(_EXPONENTS.values()):
            count = (tiles + 4 - number) // 5
            if not count:
                continue
            if exponents == "any":
                a, b = (_any(rng, dots.word, shape) for shape in ((count, m, k), (count, k, n)))
                c = rng.integers(0, 1 << 32, (count, m, n), dtype=np.uint32).view(np.float32)
            else:
                a = drawn(rng, form, raw, (count * m, k), exponents).reshape(count, m, k)
                b = drawn(rng, form, raw, (count * k, n), (0, 8) if exponents == "subnormal" else exponents).reshape(count, k, n)
                span = (form.min_exponent - 12, form.min_exponent) if exponents == "subnormal" else (2 * exponents[0], 2 * exponents[1])
                c = drawn(rng, single, np.dtype(np.uint32), (count * m, n), span).view(np.float32).reshape(count, m, n)
                if number == KINDS.index(_CANCEL):
                    c = -(decode(dots.word, a) @ decode(dots.word, b))
            drawn_of.append((a, b, c))
            numbers += [number] * count
        yield np.array(numbers), *(np.concatenate(parts) for parts in zip(*drawn_of))


def _any(rng: np.random.Generator, word: str, shape: tuple[int, ...]) -> np.ndarray:
    """Any bits that words of a type can have; one in 64 of them, so that not every sum is a NaN, and the others without the largest exponents."""
    raw, form = RAW[word], FORMATS[word]
    low = 13 if word == "tf32" else 0
    bits = rng.integers(0, 1 << 8 * raw.itemsize, shape, dtype=np.uint64)
    numbers = drawn(rng, form, raw, (int(np.prod(shape[:-1])), shape[-1]), (form.min_exponent, form.max_exponent)).reshape(shape)
    return np.where(rng.integers(0, 64, shape) == 0, (bits >> np.uint64(low) << np.uint64(low)).astype(raw), numbers)
