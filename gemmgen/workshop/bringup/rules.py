"""How a matrix unit rounds, measured without a model: each trait by products made for it alone.

A trait is told in words even where no row of specs/units can say it, so that a unit of a kind that nobody has seen is described. Which
row fits is found by `candidates`, and has to agree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gemmgen.catalog.number import FORMATS
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.sums import Order

CUTS = {"zero": "cut toward zero", "down": "cut downwards", "nearest": "rounded to nearest, ties to even", "away": "rounded to nearest, ties away from zero",
        "up": "rounded upwards", "exact": "kept whole", "hidden": "not to be seen with these words", "other": "rounded in another way"}  # fmt: skip


@dataclass(frozen=True)
class Trait:
    """One thing found of a unit.

    Attributes:
        name: what; value: what was found, as plain data; text: in words; how: which products told it; asked: how many of them.
    """

    name: str
    value: object
    text: str
    how: str
    asked: int


@dataclass
class Traits:
    """All of them, by name."""

    found: dict[str, Trait] = field(default_factory=dict)

    def add(self, name: str, value: object, text: str, how: str, asked: int) -> None:
        self.found[name] = Trait(name, value, text, how, asked)

    def value(self, name: str, otherwise: object = None) -> object:
        return self.found[name].value if name in self.found else otherwise


def find_traits(dots: Dots, order: Order) -> Traits:
    """What there is to know of a unit of floating-point words."""
    traits = Traits()
    step = max(order.steps, key=len)
    _cuts(dots, step, traits)
    _sum(dots, step, traits)
    _subnormals(dots, step, order.steps[-1], traits)
    _specials(dots, step, traits)
    return traits


def _cuts(dots: Dots, step: tuple[int, ...], traits: Traits) -> None:
    """What becomes of a small term beside two large ones that cancel: ladders of terms of 2**-t of the large ones.

    Those are 1.5 M, so that the numbers on either side of them lie as far apart.
    """
    top, span = 1.5 * 2.0**dots.largest, dots.span
    if len(step) >= 3:
        _ladder(dots, "terms", span, traits, lambda x: ({step[0]: top, step[2]: -top, step[1]: x}, 0.0),
                "1.5 M at one k, -1.5 M at another and x = 2**-t M between them, of one step")
        _ladder(dots, "terms after", span, traits, lambda x: ({step[0]: top, step[1]: -top, step[2]: x}, 0.0),
                "1.5 M and -1.5 M at neighbouring k and x = 2**-t M behind them, of one step")
    if len(step) >= 2:
        _ladder(dots, "accumulator", span, traits, lambda x: ({step[0]: top, step[1]: -top}, x),
                "1.5 M and -1.5 M as products of one step and x = 2**-t M as the accumulator")


def _ladder(dots: Dots, name: str, span: int, traits: Traits, make, how: str) -> None:
    top = 2.0**dots.largest
    factors = (1.0, -1.0, 1.5, -1.5)
    made = [make(factor * top * 2.0**-t) for t in range(1, span + 1) for factor in factors]
    d = dots.terms([terms for terms, _ in made], [c for _, c in made]).astype(np.float64).reshape(span, 4)
    exact = np.array(factors) * top * 2.0 ** -np.arange(1.0, span + 1)[:, None]
    kept = (d[:, 0] == exact[:, 0]) & (d[:, 1] == exact[:, 1])
    bits = int(span if kept.all() else np.argmin(kept))
    if bits == span:
        cut = "exact"
    elif span - bits < 2:
        cut = "hidden"
    else:
        unit = top * 2.0**-bits
        got = {0.5: d[bits, :2], 0.75: d[bits, 2:], 0.25: d[bits + 1, :2]}
        cut = _classified({sign * x: values[i] / unit for x, values in got.items() for i, sign in enumerate((1, -1))})
    text = f"{CUTS[cut]} at {bits} bits" if cut not in ("exact", "hidden") else f"{CUTS['exact']}, as far as {bits} bits go"
    traits.add(name, {"bits": bits, "cut": cut}, text, how + f", t = 1 to {span}, x also 1.5 times as large and negative", len(made))


def _classified(got: dict[float, float]) -> str:
    """How numbers between 0 and 1 unit, of either sign, were rounded to whole units."""
    def all_of(rule) -> bool:
        return all(value == rule(x) for x, value in got.items())

    rules = {
        "zero": np.trunc, "down": np.floor, "up": np.ceil, "nearest": np.rint, "exact": lambda x: x,
        "away": lambda x: np.copysign(np.floor(abs(x) + 0.5), x),
    }
    return next((name for name, rule in rules.items() if all_of(rule)), "other")


def _sum(dots: Dots, step: tuple[int, ...], traits: Traits) -> None:
    """How many bits a sum has, and how it is rounded to them: 4 and some quarters of the last place of 4, of either sign."""
    depth = range(1, 24)
    alone = dots.terms([{}] * 23, [1 + 2.0**-t for t in depth])
    kept = alone == np.float32([1 + 2.0**-t for t in depth])
    bits = int(23 if kept.all() else np.argmin(kept))
    traits.add("sum bits", bits, f"{bits} fraction bits", "an accumulator 1 + 2**-t alone, t = 1 to 23", 23)
    if not bits:
        return
    unit = 2.0 ** (2 - bits)
    ones = dict.fromkeys(step[:3], 1.0) if len(step) >= 3 else {step[0]: 3.0}
    cases = [(sign, q) for sign in (1, -1) for q in range(8)]
    d = dots.terms(
        [{k: sign * x for k, x in ones.items()} for sign, _ in cases], [sign * (1 + q * 2.0**-bits) for sign, q in cases],
    ).astype(np.float64)
    got = {sign * q / 4: (value - sign * 4) / unit for (sign, q), value in zip(cases, d) if q}
    cut = _classified({x + np.copysign(4 / unit, x): value + np.copysign(4 / unit, x) for x, value in got.items()})
    traits.add("sum", {"bits": bits, "cut": cut}, f"{CUTS[cut]} at {bits} fraction bits",
               "products that add up to 3 and an accumulator 1 + q ulp, q = 0 to 7, and the same negative", len(cases))


def _subnormals(dots: Dots, step: tuple[int, ...], last: tuple[int, ...], traits: Traits) -> None:
    form, k = dots.form, step[0]
    least, most = 2.0 ** (form.min_exponent - form.fraction_bits), 2.0 ** min(form.max_exponent - 1, 120)
    a, b = np.zeros((2, 4, dots.depth), np.float32)
    a[0, k], b[0, k] = least, most
    a[1, k], b[1, k] = most, least
    a[2, k], b[2, k] = 2 * least, 1.0
    a[3, k], b[3, k] = 1.0, 2 * least
    d = dots.values(a, b, np.zeros(4, np.float32)).astype(np.float64)
    want = np.array([least * most] * 2 + [2 * least] * 2)
    inside = want >= 2.0**-126  # else what the sum does shows
    kept, lost = (d == want)[inside], (d == 0)[inside]
    word = "kept" if kept.all() else "flushed" if lost.all() else "kept on one side"
    traits.add("subnormal words", word, word, "the least subnormal word by a large one, as A and as B", 4)
    c = np.float32([2.0**-127, -1.5 * 2.0**-128, 2.0**-130])
    normal = 2.0**-126 if 2 * form.min_exponent <= -126 else 0.0  # beside which what becomes of a subnormal sum does not show
    d = dots.terms([{k: normal}] * 3, c)
    sums = "kept" if (d == c + np.float32(normal)).all() else "flushed" if (d == normal).all() else "otherwise"
    traits.add("subnormal accumulator", sums, sums, "a subnormal accumulator, by the least normal product where words can make one", 3)
    k = last[0]
    if 2 * form.min_exponent <= -140:
        d = dots.terms([{k: 2.0**-130}, {k: -(2.0**-140)}], [0.0, 0.0]).astype(np.float64)
        kept = "kept" if (d == [2.0**-130, -(2.0**-140)]).all() else "flushed" if (d == 0).all() else "otherwise"
        traits.add("subnormal products", kept, kept, "normal words whose product is subnormal, alone", 2)
        d = dots.terms([{k: -(2.0**-126)}], [1.5 * 2.0**-126]).astype(np.float64)
        kept = "kept" if d[0] == 2.0**-127 else "flushed" if d[0] == 0 else "otherwise"
        traits.add("subnormal sums", kept, kept, "a normal product and a normal accumulator whose sum is subnormal", 1)


def _specials(dots: Dots, step: tuple[int, ...], traits: Traits) -> None:
    form, k = dots.form, step[0]
    nan, inf = float("nan"), float("inf")
    cases: list[tuple[str, dict[int, tuple[float, float]], float]] = [
        ("NaN of a NaN accumulator", {}, nan), ("NaN of a NaN word", {k: (nan, 1.0)}, 0.0), ("-0 of negative zeros alone", {}, -0.0),
    ]
    if form.specials == "ieee":
        cases += [("NaN of Inf by 0", {k: (inf, 0.0)}, 0.0), ("NaN of Inf - Inf", {k: (inf, -1.0)}, inf), ("Inf as a word", {k: (inf, 1.0)}, 0.0)]
    a, b = np.zeros((2, len(cases), dots.depth), np.float32)
    for number, (name, at, _) in enumerate(cases):
        if name.startswith("-0") and form.specials != "unsigned_zero":
            a[number] = -0.0
            b[number] = 1.0
        for where, (x, y) in at.items():
            a[number, where], b[number, where] = x, y
    c = np.array([c for *_, c in cases], np.float32)
    d = dots.values(a, b, c)
    nans = {}
    for (name, *_), value, bits in zip(cases, d, d.view(np.uint32).tolist()):
        if name.startswith("NaN"):
            nans[name[4:]] = f"0x{bits:08x}"
        elif name.startswith("Inf"):
            traits.add("Inf", bool(np.isposinf(value)), "stays" if np.isposinf(value) else f"becomes {value}", "Inf by 1", 1)
        else:
            sign = "-0" if np.signbit(value) else "+0"
            traits.add("negative zeros", sign, f"sum to {sign}", "products and an accumulator that are all -0", 1)
    one = set(nans.values())
    traits.add("NaN", nans, one.pop() if len(one) == 1 else ", ".join(f"{bits} of {name}" for name, bits in nans.items()),
               "a NaN word, a NaN accumulator and, where words have Inf, Inf - Inf and Inf by 0", len(nans))
    if form.max_exponent >= 127 and len(step) >= 2:
        d = dots.terms([{step[0]: 2.0**127, step[1]: 2.0**127}], [0.0])
        most = np.float32(FORMATS["f32"].largest)
        text = "Inf" if np.isposinf(d[0]) else "the largest FP32 number" if d[0] == most else repr(float(d[0]))
        traits.add("overflow", text, f"gives {text}", "two products of 2**127", 1)
