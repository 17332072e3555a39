"""The portable design without a matrix unit: what differs in its registers, loads and constraints."""

from __future__ import annotations

from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.registers import Registers
from gemmgen.catalog.scheme import Scheme
from gemmgen.decisions import SUMS
from gemmgen.designs import common
from gemmgen.designs.cuda_cores import equations
from gemmgen.designs.design import Hints
from gemmgen.designs.portable import refusals
from gemmgen.designs.portable.design import FRAGMENT_BUFFERS, OF_WORDS, PIECES, Portable
from gemmgen.model import time
from gemmgen.model.equation import Constraint, Numbers

SINGLE_BUFFER = Constraint(
    "C21", "loads between steps", "held * fragment_buffers < 2", "the next tile, on its way through registers, leaves none for a second buffer of plain FP32",
    refusals.single_step,
)


class CudaCores(Portable):
    name = "cuda_cores"
    register_section = "plain"
    own = (FRAGMENT_BUFFERS, SUMS)
    takes_pieces = False
    of_papers = False
    constraints = tuple(
        {SINGLE_BUFFER.number: SINGLE_BUFFER, PIECES.number: common.WHOLE_STAGE}.get(one.number, one)
        for one in Portable.constraints if one.number not in OF_WORDS
    )
    equation_groups = tuple((title, equations.ALL if title == "Registers" else group) for title, group in Portable.equation_groups)
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
