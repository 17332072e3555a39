"""The portable design for strided batches: what differs in whom it serves, and in traffic."""

from __future__ import annotations

from dataclasses import replace

from gemmgen.designs.common import COMPENSATION, PROMOTION, RUNS_OF_K, SLICES_OF_K, STAGES_IN_SHARED, TILES_OF_K
from gemmgen.designs.design import Hints
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, PROMOTES_AT_ONCE
from gemmgen.designs.portable.design import (
    ACCUMULATORS, CACHED_FRAGMENTS, CHUNKS, COPIES, FRAGMENTS, PADDED_ROWS, PIECES, PIECES_HELD, PREDICTED_SPILLS, SPLIT_ON_THE_WAY, TWO_BUFFERS, UNMOVED_SUMS,
    WITHIN_THE_FIT, Portable,
)
from gemmgen.designs.strided import equations
from gemmgen.kinds import STRIDED
from gemmgen.model import time, traffic


class Strided(Portable):
    name = "strided"
    kinds = (STRIDED.name,)
    features = (
        CHUNKS, PIECES, FRAGMENTS, COPIES, SPLIT_ON_THE_WAY, TWO_BUFFERS, PIECES_HELD, COMPENSATION, PADDED_ROWS, CACHED_FRAGMENTS, PROMOTION,
        TILES_OF_K, RUNS_OF_K, STAGES_IN_SHARED, ACCUMULATORS, PREDICTED_SPILLS, WITHIN_THE_FIT, UNMOVED_SUMS, SLICES_OF_K, PROMOTES_AT_ONCE,
        ANY_KIND, GIVEN_TRIANGLES, COMPLEX,
    )
    forms = replace(
        Portable.forms.grouped("Traffic", (*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP)),
        predictions=(*traffic.BLOCK_EQUATIONS, *equations.TRAFFIC, traffic.TLP, *time.EQUATIONS),
    )
    text = replace(Portable.text, template="designs/portable/kernel.j2")

    def suits(self, hints: Hints) -> bool:
        """For who asks for it, and for schemes that no other design has batches of: the grouped one suits small products better."""
        return False
