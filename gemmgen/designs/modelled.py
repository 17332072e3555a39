"""What a design's model says: symbols that no candidate changes, what a candidate takes, and how long it lasts."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.asked import Hints
from gemmgen.designs.decides import Decides
from gemmgen.designs.feature import PACKS_APART
from gemmgen.designs.parts import Equations
from gemmgen.model import resources, time
from gemmgen.model.equation import Numbers, solved


class Decided(Protocol):
    """A plan, as far as a design looks at it."""

    layout: str
    scheme: Scheme
    fragment: Fragment
    gpu: Gpu
    hints: Hints
    fallback: Any
    design: Any


class Modelled(Decides):
    """The model of a design.

    Attributes:
        forms: its equations, without those that features bring.
        register_section: of a row's [registers], the section whose constants its register model takes, the empty word for its top; None where it has none
            of its own.
    """

    forms: Equations = Equations()
    register_section: str | None = None

    @cached_property
    def equations(self) -> Equations:
        """All of its model, with what features bring."""
        return self.forms.extended(self.features)

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        """The symbols that no candidate changes."""
        fm, fn, fk = fragment.shape
        return {
            # Of a product without elements no equation tells anything; it is planned as the smallest that has some.
            # As FP64 they stay right where products of three overflow 64 bits, and integers up to 2^53 are exact.
            "M": float(max(1, hints.m)), "N": float(max(1, hints.n)), "K": float(max(1, hints.k)), "FM": fm, "FN": fn, "FK": fk,
            "batch": float(max(1, hints.matrices)), "products": len(scheme.products),
            "sums": len(scheme.accumulators), "promoted_sums": sum(acc.promoted for acc in scheme.accumulators),
            # But where the decisions are a design's own, and a candidate's.
            **{name: 0 for name in ("compensated", "padded", "uncached") if name not in self.symbols},
            **({} if "cluster" in self.symbols else {"cluster": 1}),
            **self.passes(scheme), **({"split_passes": 1} if self.splits_whole(scheme, gpu, hints) else {}),
            "amd": int(gpu.maker.hoists_fetches), "tile_k": scheme.family.tile_k or 0, "run": scheme.family.run_k or 0,
            "a_strided": int(layout[0] == "t"), "b_strided": int(layout[1] == "n"),
            **resources.limit_numbers(gpu.limits), **self.word_numbers(scheme, gpu),
        }

    def word_numbers(self, scheme: Scheme, gpu: Gpu) -> dict[str, Any]:
        """Those of them that words decide: how many, how large, and how fast they are multiplied; all of one type, where the design has no other."""
        of_a, of_b = (len(scheme.words_of(operand, packed_alike=not self.has(PACKS_APART))) for operand in "ab")
        return {
            "words": max(of_a, of_b), "word_bytes": scheme.word_bytes, "words_a": of_a, "words_b": of_b, **sizes(scheme),
            **time.rate_numbers(gpu, scheme.leading),
        }

    def passes(self, scheme: Scheme) -> dict[str, int]:
        """How often operands are read before the main kernel, and in how many launches where none does all of it.

        What a fallback has to know is told by a launch of its own, so that no single one does.
        """
        reads = 2 if scheme.normalize == "row" else 1
        return {"split_reads": reads, "split_passes": reads}

    def splits_whole(self, scheme: Scheme, gpu: Gpu, hints: Hints) -> bool:
        """Whether one pass before the main kernel finds the maxima of rows and columns and splits them, and not two."""
        return False

    def whole_from(self, gpu: Gpu) -> tuple[int, int]:
        """k and elements of A and B together from which on that is so."""
        return 0, 0

    def large_enough(self, gpu: Gpu, m: Any, n: Any, k: Any) -> Any:
        """Of products, numbers or arrays of them, whether they are of such sizes."""
        least_k, least = self.whole_from(gpu)
        return (k >= least_k) & (k * (m + n) >= least)

    def constants_of(self, plan: Decided) -> dict[str, Any]:
        """The same for a plan."""
        return self.constants(plan.layout, plan.scheme, plan.fragment, plan.gpu, plan.hints) | (self.passes(plan.scheme) if plan.fallback else {})

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        """`numbers` with what a register model says, by the constants of a GPU's row."""
        return dict(numbers)

    def looked_up(self, name: str, value: Any, table: Registers) -> dict[str, Any]:
        """What `registers` looks up in a table by a symbol's value; nothing by most symbols."""
        return {}

    def budgets(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        """`numbers` with all that the constraints ask for."""
        return self.registers(solved((*self.equations.tiles, *self.equations.pipeline), numbers), table)

    def predicted(self, numbers: Numbers) -> dict[str, Any]:
        """What `budgets` gives, with occupancy, traffic and time."""
        return solved(self.equations.predictions, resources.resident(numbers))

    def resources(self, plan: Decided) -> dict[str, Any]:
        """What a plan takes of its SM, by symbol: no number of these depends on the sizes that it was made for."""
        known = self.budgets(self.constants_of(plan) | self.encoded(plan), plan.gpu.registers)
        return solved(self.equations.launch, resources.resident(known))

    def model(self, plan: Decided) -> dict[str, Any]:
        """Every symbol's value for a plan."""
        return solved(self.equations.predictions, self.resources(plan))


def sizes(scheme: Scheme) -> dict[str, int]:
    """The symbols of the words' storage: of an element of A and of B, of A's factors of all products together, of the smallest word; how
    many types there are; and of an element of B as it is given."""
    of_a, of_b, each = scheme.words_of("a"), scheme.words_of("b"), [word_bytes(kind) for kind in scheme.types]
    return {
        "least_bytes": min(each), "types": len(each),
        "b_bytes": word_bytes(scheme.b or "f32"),
        "a_word_bytes": sum(word.bytes for word in of_a), "b_word_bytes": sum(word.bytes for word in of_b),
        "product_bytes": sum(of_a[p.a].bytes for p in scheme.products),
    }
