"""What the numbers of a data sheet say of one another: each missing one that others determine, and those that contradict each other.

A relation is a product: `f32_tflops = 2e-6 sms boost_mhz f32_fma_per_clock`. Whatever is the only unknown of one is computed; a relation
without unknowns is a check.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gemmgen.catalog.architecture import Architecture
from gemmgen.catalog.gpu import RATE_TOLERANCE

Standing = Literal["given", "determined", "computed", "prior"]
"""Of a value: given by the reader, determined by the architecture, computed from others, or a prior: taken from elsewhere until somebody measures it."""
WORD_RATE = "tensor_fma_per_clock."
_TOLD = ("cores", "compute_units", "memory_bus_bits", "memory_gbit_per_pin", "register_file_kib", "shared_kib_per_sm")


@dataclass(frozen=True)
class Known:
    """A value.

    Attributes:
        how: where it is from.
        powers: of the given values, of whose powers it is a product: `{"boost_mhz": 1}`.
    """

    value: Any
    standing: Standing
    how: str
    powers: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Relation:
    """`left = constant * product of factors`, within a share of the product."""

    left: str
    constant: float
    factors: tuple[str, ...]
    tolerance: float = RATE_TOLERANCE

    @property
    def names(self) -> tuple[str, ...]:
        return (self.left, *self.factors)

    @property
    def product(self) -> str:
        """Its right side in words."""
        return " * ".join((*([] if self.constant == 1 else [f"{self.constant:.4g}".replace("e-0", "e-")]), *self.factors))

    def gives(self, known: Container[str]) -> str | None:
        """Its only unknown, where that is a value of a row, or a figure without sparsity by the one with it; lines of a data sheet are else only told."""
        unknown = [name for name in self.names if name not in known]
        if len(unknown) != 1:
            return None
        [name] = unknown
        return None if name in _TOLD or name.startswith("sparse_") or name.startswith("tflops.") and name == self.left else name

    def solved(self, name: str, known: Mapping[str, Known]) -> float:
        """What `name` is by the values of the others."""
        product = self.constant * math.prod(known[factor].value for factor in self.factors if factor != name)
        return product if name == self.left else known[self.left].value / product


@dataclass(frozen=True)
class Check:
    """A relation whose values are all known.

    Attributes:
        right: its product.
        defines: the value that was computed by it, of which it says nothing then.
    """

    relation: Relation
    left: float
    right: float
    defines: str | None = None

    @property
    def share(self) -> float:
        """How much more the left side is than the product."""
        return self.left / self.right - 1

    @property
    def holds(self) -> bool:
        return abs(self.share) <= self.relation.tolerance + 1e-12

    @property
    def text(self) -> str:
        one = self.relation
        how = "as much" if abs(self.share) < 1e-9 else f"{abs(100 * self.share):.3g} % {'more' if self.share > 0 else 'less'}"
        return f"{one.left} is {self.left:g}, and {one.product} is {self.right:.5g}: {how}"


@dataclass
class Numbers:
    """The numbers of one GPU.

    Attributes:
        known: by key, those of the row and lines of the data sheet.
        relations: between them; exact ones first.
        failed: what could have been computed, and is no number that there can be; the reason by key.
    """

    known: dict[str, Known]
    relations: list[Relation]
    failed: dict[str, str] = field(default_factory=dict)
    _defined: dict[Relation, str] = field(default_factory=dict)

    def compute(self) -> None:
        """Everything that follows from what is known."""
        while self._step():
            pass

    def _step(self) -> bool:
        for one in self.relations:
            name = one.gives(self.known)
            if name is None or one in self._defined or self._zero(one):
                continue
            value = _whole(name, one.solved(name, self.known), one.tolerance)
            if value is None:
                self.failed[name] = f"{one.product} = {one.left} gives {one.solved(name, self.known):.5g}"
                continue
            self.failed.pop(name, None)
            self._defined[one] = name
            # A power of two that was rounded to hides errors of what it is from.
            sign = 1 if name == one.left else -1
            powers = {} if name.startswith(WORD_RATE) else {root: -sign * power for root, power in self._powers(one, name).items()}
            self.known[name] = Known(value, "computed", f"{one.left} = {one.product}", powers)
            return True
        return False

    def _zero(self, relation: Relation) -> bool:
        """Whether it is of a word type that the chip does not take."""
        return any(self.known[name].value == 0 for name in relation.names if name in self.known)

    def _powers(self, relation: Relation, but: str | None = None) -> Counter[str]:
        """The powers of given values in the left side over the product, without one name."""
        found: Counter[str] = Counter()
        for name in relation.names:
            for root, power in self.known[name].powers.items() if name != but else ():
                found[root] += power if name == relation.left else -power
        return found

    def checks(self) -> list[Check]:
        """Every relation whose values are all known."""
        return [
            Check(one, self.known[one.left].value, one.solved(one.left, self.known), self._defined.get(one))
            for one in self.relations if all(name in self.known for name in one.names) and not self._zero(one)
        ]

    def suspects(self) -> list[tuple[str, float]]:
        """Given numbers of which a single one may be wrong, each with what it had to be: it would mend all that fails, and spoil nothing that holds."""
        checks = self.checks()
        wrong = [one for one in checks if not one.holds]
        right = [self._powers(one.relation) for one in checks if one.holds]
        found = []
        for name in sorted(self._powers(wrong[0].relation)) if wrong else ():
            powers = [self._powers(one.relation)[name] for one in wrong]
            if not all(powers) or any(one[name] for one in right):
                continue
            shares = [(one.right / one.left) ** (1 / power) for one, power in zip(wrong, powers)]
            if max(shares) - min(shares) <= 2 * RATE_TOLERANCE * max(shares):
                found.append((name, shares[0] * self.known[name].value))  # by the strictest: exact relations are first
        return found

    def needed(self, wanted: Sequence[str]) -> list[str]:
        """Those of `wanted`, in that order, that are neither known nor follow once those before them are told."""
        there, asked = set(self.known), []

        def follow() -> None:
            count = -1
            while count != len(there):
                count = len(there)
                for one in self.relations:
                    name = one.gives(there)
                    if name is not None and name not in self.failed:
                        there.add(name)
                if "boost_mhz" in there and "tensor_boost_mhz" not in self.failed:
                    there.add("tensor_boost_mhz")

        follow()
        for name in wanted:
            if name not in there:
                asked.append(name)
                there.add(name)
                follow()
        return asked


def _whole(name: str, value: float, tolerance: float) -> float | None:
    """A computed value as a row has it: counts and clocks are whole, multiply-adds of a matrix unit in a clock a power of two."""
    if name.startswith(WORD_RATE):
        near = 2 ** round(math.log2(value)) if value > 0 else 0
        return near if near >= 1 and abs(value - near) <= tolerance * near else None
    if not name.endswith(("_tflops", "dram_gb_per_s")) and not name.startswith("tflops."):
        near = round(value)
        return near if near >= 1 and abs(value - near) <= max(tolerance, 1e-9) * near else None
    return float(f"{value:.4g}")


def relations_of(target: Architecture | None, words: Iterable[str]) -> list[Relation]:
    """What holds of the numbers of a GPU.

    Args:
        target: what its arch determines; None where nobody knows.
        words: that its matrix unit takes.
    """
    exact = [Relation("cores", target.cores, ("sms",), 0), Relation("compute_units", target.units, ("sms",), 0)] if target else []
    exact += [
        Relation("register_file_kib", 4 / 1024, ("sms", "registers_per_sm"), 0), Relation("shared_kib_per_sm", 1 / 1024, ("shared_bytes_per_sm",), 0),
    ]
    rates = [
        Relation("dram_gb_per_s", 1 / 8, ("memory_bus_bits", "memory_gbit_per_pin")),
        Relation("f32_tflops", 2e-6, ("sms", "boost_mhz", "f32_fma_per_clock")),
        Relation("tflops.f16", 1, ("f16_tflops",)), Relation("sparse_tflops.f16", 2, ("f16_tflops",)),
        Relation("f16_tflops", 2e-6, ("sms", "tensor_boost_mhz", f"{WORD_RATE}f16")),
    ]
    for word in words:
        if word != "f16":
            rates += [
                Relation(f"sparse_tflops.{word}", 2, (f"tflops.{word}",)),
                Relation(f"tflops.{word}", 2e-6, ("sms", "tensor_boost_mhz", f"{WORD_RATE}{word}")),
            ]
    return exact + rates
