"""The tensor-memory design for residues: what differs in its columns, registers and time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Accumulator, Scheme
from gemmgen.designs import common
from gemmgen.designs.design import Hints
from gemmgen.designs.feature import ANY_KIND, COMBINED_SUMS, COMPLEX, PERSISTENT, Feature
from gemmgen.designs.parts import Checked, Equations
from gemmgen.designs.residues import design as residues
from gemmgen.designs.residues_tensor_memory import equations
from gemmgen.designs.specialised import design as specialised
from gemmgen.designs.tensor_memory import design as tensor_memory
from gemmgen.kinds import GEMM, POINTERS, STRIDED
from gemmgen.model import resources
from gemmgen.model.equation import Constraint, Numbers

ACCUMULATORS = Feature("a few elements of C in registers", spills=True, constraints=(Constraint(
    "C75", "accumulators", "accumulator_registers + other_registers <= registers", "the compiler has what a thread has when the block starts",
    common.accumulators("other_registers"),
),))


class TensorMemoryResidues(residues.OfResidues, tensor_memory.TensorMemory):
    name = "residues_tensor_memory"
    kinds = (GEMM.name, STRIDED.name, POINTERS.name)
    family = "residues"
    features = (
        specialised.SWIZZLED_ROWS, specialised.WARPGROUPS, common.RING, tensor_memory.ONE_INSTRUCTION, tensor_memory.PAIRS, specialised.FEW_WARPGROUPS,
        Feature("residues, one modulus after the other", constraints=(residues.SLICES,)), common.STAGES_IN_SHARED, ACCUMULATORS, PERSISTENT, COMBINED_SUMS,
        ANY_KIND, COMPLEX,
    )
    forms = Equations(
        pipeline=(*specialised.equations.RESOURCES, *equations.BUDGETS), launch=equations.LAUNCH, predictions=(*equations.TRAFFIC, *equations.TIME),
        groups=(
            ("Resources", (*specialised.equations.RESOURCES, *equations.BUDGETS)), ("Occupancy", (*resources.OCCUPANCY_EQUATIONS, *equations.LAUNCH)),
            ("Traffic", tuple(one for one in equations.TRAFFIC if one not in equations.LAUNCH)), ("Time", equations.TIME),
        ),
    )
    text = replace(tensor_memory.TensorMemory.text, template="designs/tensor_memory/kernel.j2")
    checked = Checked(standing="compiled, every instruction executed by an interpreter; hardware unconfirmed: never run")

    def facts(self, plan: Any) -> Columns:
        return Columns(plan)

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        return super().constants(layout, scheme, fragment, gpu, hints) | {
            "buffers": equations.BUFFERS, "other_registers": equations.OTHER_REGISTERS, **residues.pass_constants(scheme, gpu),
        }

    # ---- search

    def preference(self, known: Numbers) -> tuple[np.ndarray, ...]:
        """As residues by wgmma."""
        return residues.ResidueKernels.preference(self, known)

    def binding(self, known: Numbers) -> str:
        return specialised.slowest(known, {
            "the matrix unit": known["tensor_cycles"], "shared memory": known["shared_cycles"], "L2": known["l2_cycles"],
            "a copy's latency": known["latency_cycles"], "sums on their way out of the unit": known["moving_cycles"] / known["stages_k"],
        })


class Columns(tensor_memory.Columns):
    """Where a block's sums are in tensor memory: those of one modulus, in one buffer of two."""

    @property
    def staying(self) -> tuple[Accumulator, ...]:
        return ()

    @property
    def moving(self) -> tuple[Accumulator, ...]:
        return self._plan.promotion.stage_accumulators

    @property
    def of_piece(self) -> Any:
        """The plan with the columns that a thread joins and stores at once in place of its warpgroup's."""
        return self._with_columns(self.unloaded)
