"""What a design says of its kernels, by topic: equations, text, and how far they have been checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from gemmgen.designs.feature import Feature
from gemmgen.model.equation import Equation

Group = tuple[str, tuple[Equation, ...]]
"""Equations under a title."""
RESOURCES = "Resources"


@dataclass(frozen=True)
class Equations:
    """A design's model.

    Attributes:
        tiles, pipeline: what constraints ask for, once tiles and once all is decided.
        launch: what a plan's text and launches ask besides, after occupancy.
        predictions: traffic and time, after occupancy.
        groups: all of them, by title, as an explanation lists them.
    """

    tiles: tuple[Equation, ...] = ()
    pipeline: tuple[Equation, ...] = ()
    launch: tuple[Equation, ...] = ()
    predictions: tuple[Equation, ...] = ()
    groups: tuple[Group, ...] = ()

    @cached_property
    def all(self) -> dict[str, Equation]:
        """Each equation by its symbol; the last one where groups repeat a symbol."""
        return {one.symbol: one for _, group in self.groups for one in group}

    def of(self, symbol: str) -> Equation:
        """The equation for a symbol that the design has."""
        return next(one for _, group in self.groups for one in group if one.symbol == symbol)

    def grouped(self, title: str, equations: Sequence[Equation]) -> Equations:
        """The same with another group of that title."""
        return replace(self, groups=tuple((one, tuple(equations) if one == title else group) for one, group in self.groups))

    def extended(self, features: Sequence[Feature]) -> Equations:
        """The same with what features bring, told under resources."""
        tiles = tuple(one for feature in features for one in feature.tile_equations)
        pipeline = tuple(one for feature in features for one in feature.equations)
        if not tiles and not pipeline:
            return self
        known = dict(self.groups)
        more = replace(self, tiles=(*self.tiles, *tiles), pipeline=(*self.pipeline, *pipeline))
        return more.grouped(RESOURCES, (*known[RESOURCES], *tiles, *pipeline))


@dataclass(frozen=True)
class Text:
    """What a kernel's text rests on.

    Attributes:
        template: of the kernels, by its path; None: `kernel.j2` of the design's own folder.
        schedule: the template of the order of work, by its path: under templates/, or of the design's own `designs/<name>/...`.
        gatherer: what gathers its part of slices of k.
        parts: how the sums of the slices lie in the workspace.
        shaping: the symbols of `Equations.launch` and others before them that depend on the GPU and shape the text or the launches.
        places_itself: whether the kernels' own template says where chunks of a stage lie.
    """

    template: str | None = None
    schedule: str = "lib/schedule.j2"
    gatherer: str = "block"
    parts: str = "[blocks of C][SLICES][elements of a thread][THREADS]"
    shaping: tuple[str, ...] = ()
    places_itself: bool = False


@dataclass(frozen=True)
class Checked:
    """How far kernels of a design have been checked.

    Attributes:
        standing: how far they have been checked, where none has ever run; None where some have.
    """

    standing: str | None = None
