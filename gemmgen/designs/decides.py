"""How a design decides: its decisions, their symbols, and the ways of its operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from gemmgen.decisions import SHARED, Decision, Word
from gemmgen.designs.asked import Asked, Way
from gemmgen.designs.feature import Feature
from gemmgen.designs.parts import Equations
from gemmgen.model.equation import Numbers


class Decides:
    """The decisions of a design.

    Attributes:
        decisions: all of them, the shared ones first.
        own: those of them that are this design's alone: its features'.
        labels: how it says shared decisions, by name, where it says them in a way of its own.
        words: further words of shared decisions, by the decision's name.
        all_ways: the ways of operands that a search considers.
    """

    features: tuple[Feature, ...]
    equations: Equations
    labels: Mapping[str, str] = {}
    words: Mapping[str, tuple[Word, ...]] = {}
    all_ways: tuple[Way, ...] = ()

    def has(self, feature: Feature) -> bool:
        """Whether a feature is one of its own."""
        return feature in self.features

    @cached_property
    def own(self) -> tuple[Decision, ...]:
        return tuple(one for feature in self.features for one in feature.decisions)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        return (*(replace(one, label=self.labels.get(one.name, one.label)) for one in SHARED), *self.own)

    def values_of(self, decision: Decision) -> set[str]:
        """The words that the design has of a decision; none of one that it does not have."""
        declared = next((one for one in self.decisions if one.name == decision.name), None)
        return {word.name for word in (*declared.words, *self.words.get(decision.name, ()))} if declared else set()

    def way_symbols(self, way: Way) -> dict[str, int]:
        """What the equations know of a way; nothing where a design has one alone."""
        return {}

    def way_of(self, numbers: Numbers) -> Way:
        """The way that a candidate's symbols stand for; the only one where a design has one alone."""
        return self.all_ways[0]

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

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        """The ways that a spec leaves open.

        Raises:
            InfeasibleSpec: it asks for a way, or another decision, that the design does not have.
        """
        raise NotImplementedError

    def left(self, asked: Asked, ways: tuple[Way, ...] | None = None) -> tuple[Way, ...]:
        """Those of `ways`, or of `all_ways`, that a spec leaves open; none where it asks for others."""
        where, loads = asked.fixed.get("where"), asked.fixed.get("loads")
        return tuple(way for way in (self.all_ways if ways is None else ways) if where in (None, way.where) and loads in (None, way.loads))
