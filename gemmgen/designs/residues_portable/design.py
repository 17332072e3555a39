"""The portable design for residues: what differs in its ways, registers, traffic and time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Hints, Way, refuse_pipeline
from gemmgen.designs.feature import ANY_KIND, COMBINED_SUMS, COMPLEX, PROMOTES_AT_ONCE, Feature
from gemmgen.designs.portable import design as portable
from gemmgen.designs.residues.design import SLICES, OfResidues
from gemmgen.designs.residues_portable import equations
from gemmgen.kinds import GEMM, POINTERS, STRIDED
from gemmgen.model import registers, traffic
from gemmgen.model.equation import Constraint, Numbers, solved

RESIDUES = Feature("residues, one modulus after the other", equations=(equations.KEPT_REGISTERS,), constraints=(
    Constraint(
        "C60", "accumulators", "accumulator_registers + kept_registers + other_registers <= register_budget",
        "C11, and the two words that stand for the residues of each element so far", common.accumulators("kept_registers + other_registers"),
    ),
    SLICES,
))


class PortableResidues(OfResidues, portable.Portable):
    name = "residues_portable"
    kinds = (GEMM.name, STRIDED.name, POINTERS.name)
    register_section = None
    family = "residues"
    features = (
        portable.CHUNKS, common.WHOLE_STAGES, portable.FRAGMENTS, portable.COPIES, portable.TWO_BUFFERS, common.STAGES_IN_SHARED, RESIDUES,
        portable.PREDICTED_SPILLS, portable.UNMOVED_SUMS, PROMOTES_AT_ONCE, COMBINED_SUMS, ANY_KIND, COMPLEX,
    )
    words = {"loads": portable.Portable.words["loads"]}
    all_ways = tuple(way for way in portable.Portable.all_ways if way.where == "prepass")
    held_ways = tuple(way for way in portable.HELD_WAYS if way.where == "prepass")
    slices = (1,)
    forms = replace(
        portable.Portable.forms.grouped("Registers", (*registers.EQUATIONS, *equations.REGISTER_EQUATIONS))
        .grouped("Traffic", (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP)).grouped("Time", equations.TIME),
        predictions=(*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP, *equations.TIME),
    )

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        if asked.fixed.get("where") not in (None, "prepass"):
            raise refuse_pipeline(asked, "where = prepass: residues are packed before", "where")
        return super().ways(asked)

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | {"reals": hints.reals}

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        known = solved(registers.EQUATIONS, numbers)
        known |= registers.coefficients(table, known["loop"]) | {"per_kept": table.kept.demand, "spare_kept": table.kept.spare}
        return solved(equations.REGISTER_EQUATIONS, known)
