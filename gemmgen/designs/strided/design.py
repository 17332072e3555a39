"""The portable design for strided batches: what differs in whom it serves, and in traffic."""

from __future__ import annotations

from gemmgen.designs.design import Hints
from gemmgen.designs.portable.design import Portable
from gemmgen.designs.strided import equations
from gemmgen.kinds import STRIDED
from gemmgen.model import time, traffic


class Strided(Portable):
    name = "strided"
    kinds = (STRIDED.name,)
    any_kind = False
    takes_stored_b = False
    of_papers = False
    narrow = True
    predictions = (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP, *time.EQUATIONS)
    equation_groups = tuple(
        (title, (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP) if title == "Traffic" else group) for title, group in Portable.equation_groups
    )

    @property
    def template(self) -> str:
        return "designs/portable/kernel.j2"

    def suits(self, hints: Hints) -> bool:
        """For who asks for it, and for schemes that no other design has batches of: the grouped one suits small products better."""
        return False
