"""The portable design without a matrix unit: what differs in its registers, loads and constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.common import COMPENSATION, PROMOTION, SLICES_OF_K, STAGES_IN_SHARED, TILES_OF_K, WHOLE_STAGES
from gemmgen.designs.cuda_cores import equations
from gemmgen.designs.design import Hints
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, PROMOTES_AT_ONCE, STORED_B, Feature
from gemmgen.designs.portable import refusals
from gemmgen.designs.portable.design import (
    ACCUMULATORS, BUFFERED, CHUNKS, COPIES, FRAGMENT_BUFFERS, FRAGMENTS, PREDICTED_SPILLS, SPLIT_ON_THE_WAY, UNMOVED_SUMS, WITHIN_THE_FIT, Portable,
)
from gemmgen.model import time
from gemmgen.model.equation import Constraint, Numbers

TWO_BUFFERS = Feature("two buffers of fragments", (FRAGMENT_BUFFERS,), constraints=(
    Constraint(
        "C21", "loads between steps", "held * fragment_buffers < 2",
        "the next tile, on its way through registers, leaves none for a second buffer of plain FP32", refusals.single_step,
    ),
    *BUFFERED,
))


class CudaCores(Portable):
    name = "cuda_cores"
    register_section = "plain"
    features = (
        CHUNKS, WHOLE_STAGES, FRAGMENTS, COPIES, SPLIT_ON_THE_WAY, TWO_BUFFERS, PROMOTION, TILES_OF_K, COMPENSATION, STAGES_IN_SHARED, ACCUMULATORS,
        PREDICTED_SPILLS, WITHIN_THE_FIT, UNMOVED_SUMS, SLICES_OF_K, STORED_B, PROMOTES_AT_ONCE, ANY_KIND, GIVEN_TRIANGLES, COMPLEX,
    )
    forms = Portable.forms.grouped("Registers", equations.ALL)
    held = "grouped"
    """Spread among multiply-adds, loads would take far more registers, as their steps are unrolled then."""

    def serves(self, fragment: Fragment) -> bool:
        return not fragment.on_matrix_unit

    def constants(self, layout: str, scheme: Scheme, fragment: Fragment, gpu: Gpu, hints: Hints) -> dict[str, Any]:
        """Words of any type are multiplied as FP32 is."""
        return super().constants(layout, scheme, fragment, gpu, hints) | time.rate_numbers(gpu, "f32")

    def registers(self, numbers: Numbers, table: Registers) -> dict[str, Any]:
        return equations.predict(numbers, table)

    def looked_up(self, name: str, value: Any, table: Registers) -> dict[str, Any]:
        return equations.coefficients(table, value) if name == "loop" else {}
