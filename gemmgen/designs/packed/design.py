"""Packed words for products of many sizes: a design's kernel of strided batches, walking a list in place of a formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gemmgen.batch import PLACED, Batch, Listed
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs.asked import FULL
from gemmgen.designs.common import RUNS_OF_K, SLICES_OF_RUNS
from gemmgen.designs.design import Asked, Design, Hints, Way, refuse_arguments, refuse_pipeline, refuse_scales
from gemmgen.designs.feature import ANY_KIND, COMPLEX, GIVEN_TRIANGLES, Feature
from gemmgen.designs.packed import refusals
from gemmgen.designs.parts import Text
from gemmgen.designs.specialised.design import Specialised
from gemmgen.kinds import GROUPED, POINTERS
from gemmgen.model import traffic
from gemmgen.model.equation import solved


EXTENTS = {"block": "split_blocks", "norm": "norm_blocks"}
"""What grids and buffers call the sum of a field of the host's list, where that is not the field with an s."""


class PackedProducts(Design):
    """What a design of strided batches becomes where each product has a size of its own.

    Attributes:
        section: of a GPU's constants, its kernels'.
    """

    kinds = (GROUPED.name, POINTERS.name)
    section: ClassVar[str]
    lists = True

    def suits(self, hints: Hints) -> bool:
        """For who asks for it: the hints of a batch tell one size of many, and small ones lose most of a tile."""
        return False

    def batch(self, spec: Any, gpu: Gpu, scheme: Scheme, fragment: Fragment, place: str) -> Batch:
        refusals.refuse_choices(spec, place)
        refuse_arguments(spec, place)
        refuse_scales(scheme, place, "words of products of many sizes are packed without scales")
        return super().batch(spec, gpu, scheme, fragment, place)

    def settled(self, batch: Batch) -> dict[str, Any]:
        return {"split_k": 1}

    def listed(self, plan: Any, sizes: np.ndarray, threshold: int | None = None) -> Listed:
        """The products that have a C, those with the longest k first, each with its place in the split pass, the main kernel and the packed words.

        Raises:
            SpecError: there are more blocks, turns or stages than 32 bits count.
        """
        bm, bn, bk = plan.block
        m, n, k = (np.maximum(sizes[:, at], 0).astype(np.int64) for at in range(3))
        order = np.lexsort((np.arange(len(sizes)), -(-(-k // bk))))
        order = order[(m[order] > 0) & (n[order] > 0)]
        m, n, k = m[order], n[order], k[order]
        rows, columns, stages = -(-m // bm), -(-n // bn), -(-k // bk)
        counts = {
            "block": self.split_blocks(plan, rows * bm, columns * bn, stages * bk),
            "turn": -(-rows // plan.cluster) * columns, "a_stage": rows * stages, "b_stage": columns * stages, **self.counts_besides(rows, columns, m, n, k),
        }
        listed = np.zeros(len(order), PLACED)
        listed["entry"] = order
        for field, count in counts.items():
            if count.sum() >= 2**31:
                raise refusals.too_many(field.replace("_", " ") + "s", int(count.sum()))
            listed[field] = np.cumsum(count) - count
        extents = {EXTENTS.get(field, f"{field}s"): int(count.sum()) for field, count in counts.items()}
        return Listed(listed, extents | self.extents_besides(k))

    def split_blocks(self, plan: Any, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> np.ndarray:
        """[products] blocks of the split pass, of padded sizes. A product without k has nothing to split, and turns that a block has to write."""
        outer, along = plan.launches.split_tile
        return np.maximum(1, (-(-m // outer) + -(-n // outer)) * -(-k // along))

    def counts_besides(self, rows: np.ndarray, columns: np.ndarray, m: np.ndarray, n: np.ndarray, k: np.ndarray) -> dict[str, np.ndarray]:
        """What the list counts besides, by its field: [products] of each.

        Args:
            rows, columns: of tiles.
        """
        return {}

    def extents_besides(self, k: np.ndarray) -> dict[str, int]:
        """What grids and buffers ask that is no sum over the list."""
        return {}

    def each_seconds(self, plan: Any, sizes: np.ndarray) -> np.ndarray:
        m, n, k = np.maximum(sizes, 1).astype(np.float64).T
        known = solved((traffic.TILES, *self.equations.predictions), self.resources(plan) | {"M": m, "N": n, "K": k, "batch": FULL})
        uneven = self.uneven_store_cycles(plan.gpu)
        return known["seconds"] / FULL + np.where(n % 4 > 0, m * n * uneven / (known["sms"] * known["clock_hz"]), 0)

    def uneven_store_cycles(self, gpu: Gpu) -> float:
        """Of an element of C whose rows do not begin at 16 bytes."""
        return gpu.measured.of(self.section, gpu.name).uneven_store_cycles.value

    def told_of(self, plan: Any) -> dict[str, str]:
        bm, bn, _ = plan.block
        return {
            "batch": f"{plan.kind}: {plan.kind.meaning}",
            "walk": "a pass packs the words of all products and lists their tiles; blocks stay and take every so many turns of that list, the longest k first",
            "tiles": f"{bm}x{bn} for all products; the edges of C are cut, those of A and B are zeros",
        }


def features_of(design: type[Design]) -> tuple[Feature, ...]:
    """A design's, less those of kinds of one product and of scales of rows and of runs of k."""
    return tuple(one for one in design.features if one not in (ANY_KIND, COMPLEX, GIVEN_TRIANGLES, RUNS_OF_K, SLICES_OF_RUNS))


def text_of(design: type[Design]) -> Text:
    """A design's, with the list as schedule."""
    return replace(design.text, template=design.text.template or f"designs/{design.name}/kernel.j2", schedule="lib/products.j2")


class Packed(PackedProducts, Specialised):
    name = "packed"
    all_ways = (Way("prepass", "bulk"),)
    features = features_of(Specialised)
    words = {"loads": Specialised.words["loads"]}
    text = text_of(Specialised)
    section = "wgmma"

    def ways(self, asked: Asked) -> tuple[Way, ...]:
        found = self.left(asked)
        if not found or asked.foreign:
            raise refuse_pipeline(asked, "where = prepass, loads = bulk: words are packed before", "where", "loads", "fragment_buffers")
        return found
