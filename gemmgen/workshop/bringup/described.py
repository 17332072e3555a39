"""A unit that aligns its terms, as its traits describe it, where no row of specs/units can say it: another rounding, another order, subnormal
numbers that count as zero. It is a hypothesis as a row is, and random products are held against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.number import FORMATS, Format
from gemmgen.emulate.core.unit_rules import exponent
from gemmgen.workshop.bringup.rules import CUTS, Traits
from gemmgen.workshop.bringup.sums import Order

_WHOLE = {
    "zero": np.trunc, "down": np.floor, "up": np.ceil, "nearest": np.rint, "away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
_NO_EXPONENT = -20000
_SINGLE = FORMATS["f32"]


@dataclass(frozen=True)
class Described:
    """Terms aligned to the largest exponent of a step and rounded, summed exactly, and the sum rounded.

    Attributes:
        order: of the sum.
        terms, accumulator, sums: (bits, a key of CUTS) of each.
        flushed: whether subnormal words, accumulators and sums count as zero.
        saturates: whether what is larger than the largest FP32 number becomes that.
    """

    order: Order
    form: Format
    terms: tuple[int, str]
    accumulator: tuple[int, str]
    sums: tuple[int, str]
    flushed: tuple[bool, bool, bool]
    saturates: bool

    @property
    def text(self) -> str:
        words = [f"terms {CUTS[self.terms[1]]} at {self.terms[0]} bits"]
        if self.accumulator != self.terms:
            words.append(f"the accumulator {CUTS[self.accumulator[1]]} at {self.accumulator[0]}")
        words.append(f"sums {CUTS[self.sums[1]]} at {self.sums[0]}")
        words += [f"subnormal {what} as zero" for what, so in zip(("words", "accumulators", "sums"), self.flushed) if so]
        words += ["no Inf, but the largest number"] * self.saturates
        return f"as described ({'; '.join(words)}; steps: {self.order.text})"

    def __call__(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """a, b: [..., k] values that broadcast; c: [...] FP32; the sums, FP32."""
        a, b = (np.asarray(x, np.float64) for x in (a, b))
        least = 2.0**self.form.min_exponent
        a, b = (np.where(np.abs(x) < least, 0.0, x) if self.flushed[0] else x for x in (a, b))
        result = np.asarray(c, np.float32)
        with np.errstate(all="ignore"):
            for step in self.order.steps:
                result = self._step(a[..., list(step)], b[..., list(step)], result)
        return result

    def _step(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        small = _SINGLE.min_exponent
        c = c.astype(np.float64)
        c = np.where(np.abs(c) < 2.0**small, 0.0, c) if self.flushed[1] else c
        products = a * b
        exponents = np.where(products == 0, _NO_EXPONENT, exponent(a, self.form.min_exponent) + exponent(b, self.form.min_exponent))
        top = np.maximum(exponents.max(-1), np.where(c == 0, _NO_EXPONENT, exponent(c, small)))
        total = np.ldexp(_WHOLE[self.terms[1]](np.ldexp(products, (self.terms[0] - top)[..., None])).sum(-1), top - self.terms[0])
        total = total + np.ldexp(_WHOLE[self.accumulator[1]](np.ldexp(c, self.accumulator[0] - top)), top - self.accumulator[0])
        place = exponent(total, small) - self.sums[0]
        result = np.ldexp(_WHOLE[self.sums[1]](np.ldexp(total, -place)), place)
        result = np.where(np.abs(result) < 2.0**small, 0.0, result) if self.flushed[2] else result
        if self.saturates:
            result = np.clip(result, -_SINGLE.largest, _SINGLE.largest)
        special = ~(np.isfinite(products).all(-1) & np.isfinite(c))
        return np.where(special, products.sum(-1) + c, result).astype(np.float32) + np.float32(0)


def described(order: Order, traits: Traits, form: Format) -> Described | None:
    """The unit that traits describe; None where they do not describe one that aligns its terms."""
    def known(name: str) -> tuple[int, str] | None:
        value = traits.value(name)
        return (value["bits"], value["cut"]) if value and value["cut"] in _WHOLE else None

    terms, accumulator, sums = known("terms"), known("accumulator"), known("sum")
    if not order.consistent or terms is None or sums is None or traits.value("terms") != traits.value("terms after"):
        return None
    flushed = tuple(traits.value(name) == "flushed" for name in ("subnormal words", "subnormal accumulator", "subnormal sums"))
    return Described(order, form, terms, accumulator or terms, sums, flushed, traits.value("overflow", "Inf") != "Inf")
