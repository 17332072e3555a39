"""What a spec asks of the error instead of naming a scheme, `[accuracy]`, and whether a scheme gives it.

The figures are those of `model/accuracy.py`, at the spec's k. `relative_frobenius` is held against the estimate, `scaled` against the worst case. `as` asks
for the error of arithmetic that people know, on all the data of `EVERYWHERE`, or on `data` alone where the spec says one:

- `fp32`: no more than the estimate of a sequential FP32 dot product;
- `tf32`: no more than the estimate of one TF32 word, whose range is FP32's, exactly summed;
- `fp32-rounded`: what rounding the exact result to FP32 costs, but for a quarter;
- `fp64`: of elements of FP64, no more than the estimate of a sequential FP64 dot product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from math import sqrt

from gemmgen.catalog.element import F32, F64, Element
from gemmgen.catalog.number import FORMATS, ROUNDINGS
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, TOLD, Distribution, predicted
from gemmgen.model.error import LARGEST_PROMOTE, LN2, U
from gemmgen.spec import LoadedSpec

EVERYWHERE = ("uniform", "positive", "spread")
"""The data that `as` speaks of, where the spec names none."""
ROUNDED = 1.25 * U / sqrt(8 * LN2)
"""3.2e-8: one rounding to FP32, and a quarter."""


class Short(InfeasibleSpec):
    """A scheme that does not reach what is asked.

    Attributes:
        figure: what it reaches, in words; times: its figure over the one asked, the worst of the data.
    """

    figure: str
    times: float


@dataclass(frozen=True)
class Contract:
    """What is asked.

    Attributes:
        key: of `[accuracy]`.
        asked: its value.
        data: names of the distributions on which it is asked.
        k: of the sum.
        roundoff: of C's type.
    """

    key: str
    asked: float | str
    data: tuple[str, ...]
    k: int
    roundoff: float

    @property
    def text(self) -> str:
        """`relative_frobenius <= 1e-06 on U[-1, 1]`."""
        on = ", ".join(TOLD[name] for name in self.data)
        if self.key == "scaled":
            return f"|C - C*| <= {self.asked:g} (|A||B|)"
        return f"as {self.asked} on {on}" if self.key == "as" else f"{self.key} <= {self.asked:g} on {on}"

    def most(self, name: str) -> float:
        """The largest error allowed on a distribution."""
        data = DISTRIBUTIONS[name]
        if self.asked == "fp32":
            return fp32_estimate(self.k, data)
        if self.asked == "fp64":
            return fp64_estimate(self.k, data)
        if self.asked == "tf32":
            return tf32_estimate(self.k, data)
        return ROUNDED if self.asked == "fp32-rounded" else float(self.asked)

    def reached(self, scheme: Scheme, unit: MatrixUnit | None, promote: int, compensated: bool = False) -> list[tuple[str, float, float]]:
        """(distribution, figure, the largest allowed) of a scheme; `unit` None for FP32 arithmetic."""
        return list(_reached(self, scheme, unit, promote, compensated))

    def times(self, scheme: Scheme, unit: MatrixUnit | None, promote: int, compensated: bool = False) -> float:
        """The figure over the one asked, the worst of the data: at most 1 where the scheme gives what is asked."""
        return max(figure / most for _, figure, most in self.reached(scheme, unit, promote, compensated))

    def told(self, scheme: Scheme, unit: MatrixUnit | None, promote: int, compensated: bool = False) -> str:
        """`scaled, promote 64: 2.7e-07 on U[-1, 1] (1e-06 asked)`, of the data it is worst on."""
        name, figure, most = max(self.reached(scheme, unit, promote, compensated), key=lambda one: one[1] / one[2])
        on = f" on {TOLD[name]}" if self.key != "scaled" else ""
        return f"{scheme.name}{f', promote {promote}' if promote else ''}{', compensated' if compensated else ''}: {figure:.3g}{on} ({most:.3g} asked)"

    def intervals(self, fragment_k: int) -> list[int]:
        """Intervals of promotion to try, the cheapest first."""
        return [0, *sorted({max(LARGEST_PROMOTE >> step, fragment_k) for step in range(8)}, reverse=True)]

    def promotions(self, fragment_k: int, compensates: bool) -> list[tuple[int, str]]:
        """(interval, how sums are added up) to try, the cheapest first.

        Args:
            compensates: whether there is a choice of the latter.
        """
        intervals = self.intervals(fragment_k)
        return [(each, "plain") for each in intervals] + [(each, "compensated") for each in intervals if compensates and each > fragment_k]


@lru_cache(maxsize=1024)  # each policy and design of a scheme asks the same, and so does each size that an explanation looks at
def _reached(asked: Contract, scheme: Scheme, unit: MatrixUnit | None, promote: int, compensated: bool) -> tuple[tuple[str, float, float], ...]:
    found = []
    for name in asked.data:
        prediction = predicted(scheme, unit, asked.k, promote, DISTRIBUTIONS[name], asked.roundoff, compensated)
        found.append((name, prediction.worst if asked.key == "scaled" else prediction.estimate, asked.most(name)))
    return tuple(found)


def contract(loaded: LoadedSpec, roundoff: float = 0.0) -> Contract | None:
    """What the spec asks of the error; None where it asks nothing.

    Args:
        roundoff: of C's type.
    """
    asked, k = loaded.spec.accuracy, max(loaded.spec.problem.extents[2], 1)
    for key in ("relative_frobenius", "scaled", "as"):
        value = getattr(asked, key)
        if value is not None:
            everywhere = key == "as" and "data" not in asked.model_fields_set
            return Contract(key, value, EVERYWHERE if everywhere else (asked.data,), k, roundoff)
    return None


@cache
def fp32_estimate(k: int, data: Distribution) -> float:
    """Of a sequential FP32 dot product."""
    return predicted(SCHEMES.get("fp32"), None, k, 0, data).estimate


def fp64_estimate(k: int, data: Distribution) -> float:
    """Of a sequential FP64 dot product: the roundings are FP32's but for their size."""
    return fp32_estimate(k, data) * F64.roundoff / F32.roundoff


def own_estimate(element: Element, k: int, data: Distribution) -> float:
    """Of a sequential dot product in the elements' own type."""
    return fp32_estimate(k, data) if element == F32 else fp64_estimate(k, data)


def tf32_estimate(k: int, data: Distribution) -> float:
    """Of one TF32 word to nearest and exact sums: of random sign, so that only what is left of the products' squares counts."""
    form, rule = FORMATS["tf32"], ROUNDINGS["nearest_even"]
    numbers = predicted(SCHEMES.get("fp32"), None, k, 0, data).numbers
    return sqrt(2 * numbers["scattered"] * 3 / 7) * rule.rms * 2.0**-form.fraction_bits
