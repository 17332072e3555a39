"""What a design is composed of: each feature with the decisions, equations and constraints that it brings.

A design lists its features and has what they bring, in their order. A design without a feature has nothing of it: there is no constraint to take away.
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmgen.decisions import Decision
from gemmgen.model.equation import Constraint, Equation


@dataclass(frozen=True)
class Feature:
    """One thing that the kernels of a design have or do.

    Attributes:
        name: in words.
        decisions: choices of a plan that it brings.
        tile_equations, equations: what its constraints ask for, once tiles and once all is decided.
        of_tiles: its constraints on tiles, which come before all other constraints of a design.
        constraints: its other constraints, each with the refusal of a spec that breaks it.
        steers: whether its constraints only steer a choice, and refuse nothing that a spec asks for.
        spills: whether a kernel that breaks its constraints can be built, with registers that spill.
    """

    name: str
    decisions: tuple[Decision, ...] = ()
    tile_equations: tuple[Equation, ...] = ()
    equations: tuple[Equation, ...] = ()
    of_tiles: tuple[Constraint, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    steers: bool = False
    spills: bool = False

    @property
    def absent(self) -> dict[str, int]:
        """The symbols of its decisions, by name, with their values in a design that does not have it."""
        return {symbol: value for one in self.decisions for symbol, value in one.encoded(one.neutral).items()}


PACKS_APART = Feature("A and B are packed into different numbers of words, where products read fewer words of one operand")
SPLITS_APART = Feature("A and B are split into different words, and not only into more of the same words")
STORED_B = Feature("B may be words as it is stored (`Scheme.b`)")
PROMOTES_AT_ONCE = Feature("a sum that is promoted after every instruction needs no array of its own")
PROMOTES_TO_THE_END = Feature("an interval that k ends short of is promoted, too, where what moves of a sum is less than all of it")
COMBINED_SUMS = Feature("the accumulators are added up before the output asks for them")
ANY_KIND = Feature("products of any kind: the schedule is asked for a tile and its k, and the output for the elements that are stored")
GIVEN_TRIANGLES = Feature("kinds whose operands a pass has to split before: of which only a triangle is read, or whose words follow one another")
COMPLEX = Feature("products of complex numbers: a pass writes elements of B as blocks of real ones, and the output stores both parts of an element together")
PERSISTENT = Feature("blocks stay and work off one tile after another, and each launch overlaps the launch before it")
