"""What a design is: one kind of main kernel, with its decisions, equations, constraints, axes of search and template.

A design is one object in a package of its own under `gemmgen/designs`, beside the template `kernel.j2`. Whoever needs
to know something of a design asks that object; nobody asks which one it is.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gemmgen.batch import Batch, Listed
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.scheme import Family, Scheme
from gemmgen.decisions import SHARED, Decision, Word
from gemmgen.designs.feature import PACKS_APART, PERSISTENT, Feature
from gemmgen.designs.parts import Checked, Equations, Text
from gemmgen.errors import InfeasibleSpec
from gemmgen.model import resources, time
from gemmgen.model.equation import Constraint, Numbers, solved


@dataclass(frozen=True)
class Hints:
    """Sizes that a plan was made for, and how many products; the kernel takes any."""

    m: int
    n: int
    k: int
    matrices: int = 1


FULL = 1024
"""Products of one size that surely fill a GPU."""


@dataclass(frozen=True)
class Way:
    """Where operands are split and how their tiles reach shared memory."""

    where: str
    loads: str


@dataclass(frozen=True)
class Choices:
    """What a spec fixes, and what is left.

    Attributes:
        fixed: values by a decision's name; a decision that the spec leaves open is not there.
        promote, ways: what is left of these, which other rules narrow first.
        small: whether the problem is too small for warps of the usual size to use every SM.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    promote: Sequence[int] = (0,)
    ways: Sequence[Way] = (Way("prepass", "async"),)
    small: bool = False

    def __getitem__(self, name: str) -> Any:
        """What the spec fixes of a decision; None where it is open."""
        return self.fixed.get(name)

    def among(self, name: str, usual: Sequence[Any]) -> Sequence[Any]:
        """The values of an axis: the fixed one, or all that a search considers."""
        return usual if self[name] is None else (self[name],)


@dataclass(frozen=True)
class Asked:
    """What a spec says about the way of its operands, for `Design.ways`.

    Attributes:
        place: of the spec, for messages.
        fixed: as in `Choices`; `where` and `loads` are among it.
        foreign: what of that the fragment's design does not have: (decision, policy of a design that has it) each.
        kind: of the problem.
    """

    place: str
    gpu: Gpu
    fragment: Fragment
    fixed: Mapping[str, Any]
    foreign: tuple[tuple[Decision, str], ...] = ()
    kind: str = "gemm"

    def said(self, name: str) -> Any:
        """A decision as the spec says it."""
        return self.fixed.get(name, "auto")


class Decided(Protocol):
    """A plan, as far as a design looks at it."""

    layout: str
    scheme: Scheme
    fragment: Fragment
    gpu: Gpu
    hints: Hints
    fallback: Any
    design: Design


class Design:
    """One kind of main kernel.

    Attributes:
        name: of its package.
        features: what its kernels have and do, in the order in which their decisions and constraints are told.
        decisions: all of them, the shared ones first.
        own: those of them that are this design's alone: its features'.
        kinds: of problems, as `[problem] kind` says them, that its kernels solve.
        family: of the schemes that its kernels compute, as their recombination says it.
        labels: how it says shared decisions, by name, where it says them in a way of its own.
        words: further words of shared decisions, by the decision's name.
        all_ways: the ways of operands that a search considers.
        forms: its equations, without those that features bring.
        order: in words, which of the candidates wins that the model cannot tell apart; {symbol} stands for an equation's number.
        of_registers: the symbols that a thread's demand for registers rests on, and what there is of them: where the compiler spills, another
            value of one of these may help most.
        register_section: of a row's [registers], the section whose constants its register model takes, the empty word for its top; None where it has none
            of its own.
        telling: all that changes a kernel's main loop for the compiler; groups and slices of k hardly do.
        text: what the kernels' text rests on.
        checked: how far they have been checked.
    """

    name: str
    features: tuple[Feature, ...] = ()
    kinds: tuple[str, ...] = ("gemm",)
    family: Family = "residual chain"
    labels: Mapping[str, str] = {}
    words: Mapping[str, tuple[Word, ...]] = {}
    all_ways: tuple[Way, ...] = ()
    forms: Equations = Equations()
    order: str = ""
    of_registers: tuple[str, ...] = ("WM", "WN", "BK", "register_budget")
    register_section: str | None = None
    text: Text = Text()
    checked: Checked = Checked()

    @cached_property
    def folder(self) -> Path:
        """Where its files lie, `kernel.j2` among them."""
        return Path(inspect.getfile(type(self))).parent

    @property
    def template(self) -> str:
        """The template of its kernels, by its path: as a rule `kernel.j2` of its own folder."""
        return self.text.template or f"designs/{self.name}/kernel.j2"

    @property
    def is_brought(self) -> bool:
        """Whether another package brings it."""
        return not type(self).__module__.startswith("gemmgen.")

    # ---- what it is for

    def serves(self, fragment: Fragment) -> bool:
        """Whether kernels with this fragment are of this design."""
        raise NotImplementedError

    def mixes(self, scheme: Scheme) -> bool:
        """Whether it multiplies words of these several types, each by its own instruction."""
        return False

    def suits(self, hints: Hints) -> bool:
        """Whether it is weighed at such sizes where a spec leaves the design open."""
        return True

    @property
    def is_narrow(self) -> bool:
        """Whether it is for some sizes alone: it has a `suits` of its own."""
        return type(self).suits is not Design.suits

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        """The ways that a spec leaves open.

        Raises:
            InfeasibleSpec: it asks for a way, or another decision, that the design does not have.
        """
        raise NotImplementedError

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        """The interval of promotion to take where the error allows `best`."""
        return best

    def stages(self, gpu: Gpu) -> int | None:
        """How many stages to take where the spec leaves them open; None for the search."""
        return None

    def preferred(self, usable: Sequence[Fragment], usual: Fragment) -> Fragment:
        """Which of the fragments of its policy it takes where a spec leaves that open."""
        return usual

    def instruction(self, fragment: Fragment, block: tuple[int, int, int], warp: tuple[int, int, int]) -> Fragment:
        """The fragment as such tiles take it: instructions that come in several widths are as wide as they can be."""
        return fragment

    def batch(self, spec: Any, gpu: Gpu, scheme: Scheme, fragment: Fragment, place: str) -> Batch:
        """What a plan knows of the batch that a spec describes, of a kind that the design has kernels for.

        Raises:
            InfeasibleSpec: what the spec says of it cannot be.
        """
        refuse_batch(spec, place)
        return Batch(spec.problem.kind, matrices=spec.problem.matrices)

    def smaller(self, batch: Batch, fragment: Fragment, lanes: int) -> Iterator[Batch]:
        """The same batch with smaller tiles, the largest first, for a spec that leaves them open and whose kernel the compiler refuses."""
        return iter(())

    def settled(self, batch: Batch) -> dict[str, Any]:
        """Decisions by name that follow from a batch's description."""
        return {}

    def listed(self, plan: Any, sizes: np.ndarray, threshold: int | None = None) -> Listed:
        """What the host tells the kernels of a batch of products, each of its own size.

        Args:
            sizes: [products, 3] of m, n, k.
            threshold: threads at work that are enough, of kernels with several tiles; None for the plan's.

        Raises:
            SpecError: the batch is larger than a launch can be.
        """
        raise NotImplementedError

    def each_seconds(self, plan: Any, sizes: np.ndarray) -> np.ndarray:
        """[products] seconds by which each makes a batch longer that fills the GPU, by the model.

        Args:
            sizes: [products, 3] of m, n, k.
        """
        raise NotImplementedError

    def atom(self, fragment: Fragment) -> str:
        """The template of what multiplies, by its path."""
        return f"atoms/{fragment.atom}"

    def told_of(self, plan: Any) -> dict[str, str]:
        """What an explanation tells of a plan beside its decisions, by title."""
        return {}

    def facts(self, plan: Any) -> Any:
        """What its template asks of a plan beyond what every design has; the template's name for it is `own`."""
        return None

    def left(self, asked: Asked, ways: tuple[Way, ...] | None = None) -> tuple[Way, ...]:
        """Those of `ways`, or of `all_ways`, that a spec leaves open; none where it asks for others."""
        where, loads = asked.fixed.get("where"), asked.fixed.get("loads")
        return tuple(way for way in (self.all_ways if ways is None else ways) if where in (None, way.where) and loads in (None, way.loads))

    # ---- features

    def has(self, feature: Feature) -> bool:
        """Whether a feature is one of its own."""
        return feature in self.features

    @property
    def stays(self) -> bool:
        """Whether blocks stay and work off one tile after another, each launch overlapping the one before."""
        return self.has(PERSISTENT)

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """What every candidate must satisfy: what features ask of tiles, then the rest."""
        return (*(one for feature in self.features for one in feature.of_tiles), *(one for feature in self.features for one in feature.constraints))

    @cached_property
    def steering(self) -> tuple[Constraint, ...]:
        """Those of the constraints that steer a choice and refuse nothing that a spec asks for."""
        return tuple(one for feature in self.features if feature.steers for one in feature.constraints)

    def certain(self, allow_spills: bool) -> tuple[Constraint, ...]:
        """The constraints that no kernel can break, without what is only predicted.

        Args:
            allow_spills: whether registers may spill.
        """
        doubtful = [feature for feature in self.features if feature.steers or allow_spills and feature.spills]
        return tuple(one for one in self.constraints if not any(one in feature.constraints for feature in doubtful))

    # ---- decisions

    @cached_property
    def own(self) -> tuple[Decision, ...]:
        return tuple(one for feature in self.features for one in feature.decisions)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return (*(replace(one, label=self.labels.get(one.name, one.label)) for one in SHARED), *self.own)

    @cached_property
    def telling(self) -> tuple[str, ...]:
        return (*self.of_registers, "BM", "BN", "stages")

    def values_of(self, decision: Decision) -> set[str]:
        """The words that the design has of a decision; none of one that it does not have."""
        declared = next((one for one in self.decisions if one.name == decision.name), None)
        return {word.name for word in (*declared.words, *self.words.get(decision.name, ()))} if declared else set()

    def way_symbols(self, way: Way) -> dict[str, int]:
        """What the equations know of a way."""
        raise NotImplementedError

    def way_of(self, numbers: Numbers) -> Way:
        """The way that a candidate's symbols stand for."""
        raise NotImplementedError

    @cached_property
    def way_names(self) -> tuple[str, ...]:
        """The symbols of a way."""
        return tuple(self.way_symbols(Way("prepass", "async")))

    @cached_property
    def known_symbols(self) -> frozenset[str]:
        """Those of decisions and equations: all that a user's expression may name besides constants."""
        return frozenset((*self.symbols, *self.equations.all))

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that stand for a plan's decisions."""
        return (*(symbol for one in self.decisions for symbol in one.symbols), *self.way_names)

    def encoded(self, plan: Any) -> dict[str, int]:
        """The symbols of a plan's decisions."""
        numbers: dict[str, int] = {}
        for one in self.decisions:
            numbers |= one.encoded(getattr(plan, one.name)) if one.symbols else {}
        return numbers | self.way_symbols(Way(plan.where, plan.loads))

    def decoded(self, numbers: Numbers) -> dict[str, Any]:
        """Decisions by name, as a candidate's symbols tell them."""
        way = self.way_of(numbers)
        return {one.name: one.decoded(numbers) if one.symbols else getattr(way, one.name) for one in self.decisions}

    # ---- numbers

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
            **self.passes(scheme), **({"split_passes": 1} if self.splits_whole(scheme, gpu, hints) else {}),
            "tile_k": scheme.tile_k or 0, "a_strided": int(layout[0] == "t"), "b_strided": int(layout[1] == "n"),
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

    # ---- search

    def axes(self, choices: Choices, fragment: Fragment) -> list[dict[str, np.ndarray]]:
        """The steps in which candidates are enumerated: tiles; ways and slices; pipelines; groups."""
        raise NotImplementedError

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """Keys that order candidates whose times the model cannot tell apart, the first weighing most."""
        raise NotImplementedError

    def binding(self, known: Numbers) -> str | None:
        """What limits the main kernel, in words; None where the model does not tell."""
        return None

    @cached_property
    def order_told(self) -> str:
        """`order` with the equations' numbers."""
        return self.order.format_map({symbol: one.number for symbol, one in self.equations.all.items()})


def sizes(scheme: Scheme) -> dict[str, int]:
    """The symbols of the words' storage: of an element of A and of B, of A's factors of all products together, of the smallest word; how
    many types there are; and of an element of B as it is given."""
    of_a, each = scheme.words_of("a"), [word_bytes(kind) for kind in scheme.types]
    return {
        "least_bytes": min(each), "types": len(each),
        "b_bytes": word_bytes(scheme.b or "f32"),
        "a_word_bytes": scheme.bytes_of("a"), "b_word_bytes": scheme.bytes_of("b"), "product_bytes": sum(of_a[p.a].bytes for p in scheme.products),
    }


def refuse_batch(spec: Any, place: str) -> None:
    """Kernels of one tile have nothing that a spec's section [batch] tells of.

    Raises:
        InfeasibleSpec: it says something else than it means by itself.
    """
    for name, known in type(spec.batch).model_fields.items():
        value = getattr(spec.batch, name)
        if value != known.default:
            raise InfeasibleSpec(
                f"{place}: [batch] {name}", "is for kernels that have several tiles", got=value,
                needs="a batch, [problem] kind = grouped, pointers or strided, and a design with tiles for it", remedy="leave it out",
            )


def refuse_arguments(spec: Any, place: str) -> None:
    """Where each product of a batch is told by itself, nothing tells what its epilogue is given.

    Raises:
        InfeasibleSpec: a step of the epilogue takes arguments.
    """
    given = [step.name for step in epilogue_of(spec.epilogue.do).steps if step.arguments]
    if given:
        raise InfeasibleSpec(
            f"{place}: [epilogue] do", "takes arguments, which products of a batch that are told one by one do not have", got=", ".join(given),
            needs="steps without arguments", remedy='leave it out, or kind = "strided" with design = "auto", whose products have one each, or one for all',
        )


def refuse_scales(scheme: Scheme, place: str, why: str) -> None:
    """Kernels for products of many sizes have no scales of rows or of tiles of k.

    Raises:
        InfeasibleSpec: the scheme has some.
    """
    if scheme.normalize != "none":
        what = "tiles of k" if scheme.tiled else "rows"
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"{scheme.name} scales {what}, so a pass over the operands comes first", got=scheme.name,
            needs=f"a scheme with normalize = none: {why}", remedy='scheme = "ootomo", or kind = "strided" with design = "auto"',
        )


def refuse_pipeline(asked: Asked, needs: str, *names: str) -> InfeasibleSpec:
    """The refusal of a pipeline that does not go with the fragment.

    Args:
        names: the decisions that matter.
    """
    said = ", ".join(f"{name} = {asked.said(name)}" for name in names)
    return InfeasibleSpec(
        f"{asked.place}: [fragment] policy", f"{asked.fragment.policy} does not go with this pipeline", got=said, needs=needs,
        remedy='leave them "auto", or policy = "mma"',
    )
