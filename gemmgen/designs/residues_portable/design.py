"""The portable design for residues: what differs in its ways, registers, traffic and time."""

from __future__ import annotations

from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs import common
from gemmgen.designs.design import Asked, Hints, Way, refuse_pipeline
from gemmgen.designs.portable import design as portable
from gemmgen.designs.residues.design import SLICES
from gemmgen.designs.residues_portable import equations
from gemmgen.model import registers, resources, traffic
from gemmgen.model.equation import Constraint, Numbers, solved

ACCUMULATORS = Constraint(
    "C60", "accumulators", "accumulator_registers + kept_registers + other_registers <= register_budget",
    "C11, and the two words that stand for the residues of each element so far", common.accumulators("kept_registers + other_registers"),
)
OF_WORDS_ALONE = {"C16", "C17", "C18", "C19", "C20", "C59", common.PROMOTION.number, common.TILE_OF_K.number, common.COMPENSATION.number}
"""Constraints on what such kernels do not do: splits in the main kernel, promotion, scales of tiles of k."""
PREDICTED = tuple(one for one in portable.PREDICTED if one.number != "C13")


class PortableResidues(portable.Portable):
    name = "residues_portable"
    register_section = None
    family = "residues"
    any_kind = False
    own = (portable.FRAGMENT_BUFFERS,)
    takes_stored_b = False
    takes_pieces = False
    of_papers = False
    words = {"loads": portable.Portable.words["loads"]}
    all_ways = tuple(way for way in portable.Portable.all_ways if way.where == "prepass")
    held_ways = tuple(way for way in portable.HELD_WAYS if way.where == "prepass")
    slices = (1,)
    pipeline_equations = (*portable.PIPELINE_EQUATIONS, equations.KEPT_REGISTERS)
    predictions = (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP, *equations.TIME)
    constraints = (
        *(common.WHOLE_STAGE if one is portable.PIECES else one for one in portable.TILE_CONSTRAINTS),
        *(one for one in (*portable.WAY_CONSTRAINTS, *portable.PIPELINE_CONSTRAINTS) if one.number not in {*OF_WORDS_ALONE, *portable.OF_WORDS, "C11"}),
        ACCUMULATORS, SLICES, *PREDICTED,
    )
    steering = PREDICTED
    equation_groups = (
        ("Resources", (*portable.TILE_EQUATIONS, *portable.PIPELINE_EQUATIONS, equations.KEPT_REGISTERS)),
        ("Registers", (*registers.EQUATIONS, equations.DEMAND, registers.BUDGET, equations.REGISTERS, equations.UNEVEN)),
        ("Occupancy", resources.OCCUPANCY_EQUATIONS),
        ("Traffic", (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP)), ("Time", equations.TIME),
    )
    sums_come_combined = True

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        if asked.fixed.get("where") not in (None, "prepass"):
            raise refuse_pipeline(asked, "where = prepass: residues are packed before", "where")
        return super().ways(asked)

    def promote(self, best: int, scheme: Scheme, block: tuple[int, int, int] | None, k: int, fragment: Fragment) -> int:
        return 0

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        """Of a stage, which knows one product of one word of each operand; `moduli` is how often there are such stages."""
        return super().constants(layout, scheme, fragment, gpu, hints) | {
            "moduli": len(scheme.words), "words": 1, "words_a": 1, "words_b": 1, "products": 1, "sums": 1,
        }

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        known = solved(registers.EQUATIONS, numbers)
        known |= registers.coefficients(table, known["loop"]) | {"per_kept": table.kept.demand, "spare_kept": table.kept.spare}
        return solved((equations.DEMAND, registers.BUDGET, equations.REGISTERS, equations.UNEVEN), known)
