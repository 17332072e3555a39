"""Residues of products of many sizes: a design's kernel of strided batches, walking a list in place of a formula."""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmgen.batch import Batch
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.batched import Batched
from gemmgen.designs.design import Hints, refuse_arguments
from gemmgen.designs.packed import refusals
from gemmgen.designs.packed.design import PackedProducts, features_of, text_of
from gemmgen.designs.residues import norms
from gemmgen.designs.residues.design import ResidueKernels
from gemmgen.kinds import GROUPED


class ResiduesOfProducts(PackedProducts):
    """What a design of residues becomes where each product has a size of its own. Arrays of pointers to products of one size need no list."""

    kinds = (GROUPED.name,)

    def suits(self, hints: Hints) -> bool:
        """At all sizes: no other design has residues of such products."""
        return True

    def batch(self, spec: Any, gpu: Gpu, scheme: Scheme, fragment: Fragment, place: str) -> Batch:
        refusals.refuse_choices(spec, place)
        refuse_arguments(spec, place)
        return Batched.batch(self, spec, gpu, scheme, fragment, place)

    def split_blocks(self, plan: Any, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        of = plan.launches
        if not of.splits_whole:
            return super().split_blocks(plan, m, n, k)
        return sum(-(-outer // of.whole_taken(operand)) * of.whole_cluster for operand, outer in zip(plan.operands, (m, n)))

    def counts_besides(self, rows: np.ndarray, columns: np.ndarray, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
        return {"a_panel": rows, "b_panel": columns, "norm": np.where(k > 0, -(-m // norms.LINES) + -(-n // norms.LINES), 0)}

    def extents_besides(self, k: np.ndarray) -> dict[str, int]:
        return {"k": int(k.max(initial=0))}

    def uneven_store_cycles(self, gpu: Gpu) -> float:
        return 0.0


class PackedResidues(ResiduesOfProducts, ResidueKernels):
    name = "packed_residues"
    features = features_of(ResidueKernels)
    text = text_of(ResidueKernels)
