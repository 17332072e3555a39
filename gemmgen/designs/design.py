"""What a design is: one kind of main kernel, with its decisions, equations, constraints, axes of search and template.

A design is one object in a package of its own under `gemmgen/designs`, beside the template `kernel.j2`. Whoever needs
to know something of a design asks that object; nobody asks which one it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme, Sums
from gemmgen.designs.asked import Asked, Choices, Hints, Way
from gemmgen.designs.batched import Batched, refuse_arguments, refuse_batch, refuse_scales
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, PERSISTENT, Feature
from gemmgen.designs.modelled import Decided
from gemmgen.designs.parts import Checked, Text
from gemmgen.designs.searched import Searched
from gemmgen.errors import InfeasibleSpec
from gemmgen.kinds import GEMM, POINTERS, STRIDED, Kind
from gemmgen.model.equation import Constraint, Equation

__all__ = ["Asked", "Choices", "Decided", "Design", "Hints", "Way", "refuse_arguments", "refuse_batch", "refuse_pipeline", "refuse_scales"]


class Design(Searched, Batched):
    """One kind of main kernel.

    Attributes:
        name: of its package.
        features: what its kernels have and do, in the order in which their decisions and constraints are listed.
        kinds: names of the kinds of products that its kernels compute.
        family: of the schemes that its kernels compute, as their recombination says it.
        text: what the kernels' text rests on.
        checked: how far they have been checked.
    """

    name: str
    features: tuple[Feature, ...] = ()
    kinds: tuple[str, ...] = (GEMM.name,)
    family: Sums = "residual chain"
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

    def computes(self, kind: Kind) -> bool:
        """Whether it has kernels for products of this kind."""
        if kind.plain:
            return kind.name in self.kinds
        read = self.has(GIVEN_TRIANGLES) or self.has(COMPLEX) and not kind.twice
        given = (self.has(COMPLEX) or kind.reals == 1) and (read or not kind.packs)
        return (POINTERS if kind.indirect else STRIDED if kind.batched else GEMM).name in self.kinds and self.has(ANY_KIND) and given

    def of(self, kind: Kind) -> Design:
        """The design with the kind's equations of traffic and time in place of its own of the same symbols, and the kind's constraints besides its own."""
        return _of_kind(self, kind)

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

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        """The interval of promotion to take where the error allows `best`."""
        return best

    def stages(self, gpu: Gpu) -> int | None:
        """How many stages to take where the spec leaves them open; None for the search."""
        return None

    def preferred(self, usable: Sequence[Fragment], usual: Fragment) -> Fragment:
        """Which of the fragments of its policy it takes where a spec leaves that open."""
        return usual

    def instruction(self, fragment: Fragment, block: tuple[int, int, int], warp: tuple[int, int, int], cluster: int = 1) -> Fragment:
        """The fragment as such tiles take it: instructions that come in several widths are as wide as they can be."""
        return fragment

    def atom(self, fragment: Fragment) -> str:
        """The template of what multiplies, by its path."""
        return f"atoms/{fragment.interface.atom}"

    def facts(self, plan: Any) -> Any:
        """What its template asks of a plan beyond what every design has; the template's name for it is `own`."""
        return None

    # ---- features

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


@cache
def _of_kind(design: Design, kind: Kind) -> Design:
    if not (kind.equations or kind.constraints or kind.shares_words or any(kind.k_range)):
        return design
    own: dict[str, tuple[Equation, ...]] = {}
    before: tuple[Equation, ...] = ()  # equations of symbols that the design does not have, which the next one asks for
    for one in kind.equations:
        before += (one,)
        if one.symbol in design.known_symbols:
            own[one.symbol], before = before, ()

    def replaced(equations: tuple[Equation, ...]) -> tuple[Equation, ...]:
        return tuple(new for one in equations for new in (*(before if one.symbol == "seconds" else ()), *of_kind(one)))

    def of_kind(one: Equation) -> tuple[Equation, ...]:
        """The kind's own equations in its place, or the equation as the kind has it. Residues are summed for one modulus after another."""
        *others, last = own.get(one.symbol, (for_kind(one),))
        if one.symbol == "stages_k" and "moduli" in one.form and "moduli" not in last.form:
            last = replace(last, form=f"moduli * {last.form}")
        return (*others, last)

    def for_kind(one: Equation) -> Equation:
        """The equation as kinds have it that do not say it themselves.

        A kind that exchanges A and B runs all launches twice. A kind that solves has half of all k in its products, and takes the time of its last equation
        besides. Of a kind of one operand no words of B are made or read besides A's, but where products read more words of one than of the other. Of a kind
        whose tiles have a part of k, the matrix unit has that part alone.
        """
        if kind.exchanged and one.symbol == "seconds":
            return replace(one, form=f"2 * ({one.form})")
        if kind.solves and one.symbol == "seconds":
            return replace(one, form=f"{one.form} + {before[-1].symbol}")
        if kind.solves and one.symbol in ("stages_k", "unit_seconds"):
            return replace(one, form=re.sub(r"\bK\b", "(K / 2)", one.form))
        if (any(kind.k_range) or kind.twice) and one.symbol == "unit_seconds":
            return replace(one, form=re.sub(r"\bK\b", "(stages_k * split_k * BK)" + " / moduli" * ("moduli" in one.form), one.form))
        if not (kind.one_operand and kind.shares_words) or one.symbol not in ("plane_bytes", "split_bytes"):
            return one
        return replace(one, form=re.sub(r"\bN\b", "where(words_a == words_b, 0, N)", one.form))

    made = type(design)()
    made.features = (*design.features, Feature(f"products of kind {kind}", constraints=kind.constraints))
    made.forms = replace(
        design.forms, tiles=replaced(design.forms.tiles), pipeline=replaced(design.forms.pipeline), predictions=replaced(design.forms.predictions),
        groups=tuple((title, replaced(group)) for title, group in design.forms.groups),
    )
    return made


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
