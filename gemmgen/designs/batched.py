"""What a design knows of batches, for those whose kernels compute some."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gemmgen.batch import Batch, Listed
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.errors import InfeasibleSpec


class Batched:
    """Batches, as a design's kernels take them; here of products of one size, with the tile that the search finds.

    Attributes:
        lists: whether the host lists the products one by one, whatever their kind, where no formula tells a block's product and tile.
    """

    lists = False

    def batch(self, spec: Any, gpu: Gpu, scheme: Scheme, fragment: Fragment, place: str) -> Batch:
        """What a plan knows of the batch that a spec describes, of a kind that the design has kernels for.

        Raises:
            InfeasibleSpec: what the spec says of it cannot be.
        """
        refuse_batch(spec, place)
        return Batch(matrices=spec.problem.matrices)

    def smaller(self, batch: Batch, fragment: Fragment, lanes: int) -> Iterator[Batch]:
        """The same batch with smaller tiles, the largest first, for a spec that leaves them open and whose kernel the compiler refuses."""
        return iter(())

    def settled(self, batch: Batch) -> dict[str, Any]:
        """Decisions by name that follow from a batch's description."""
        return {}

    def listed(self, plan: Any, sizes: np.ndarray, threshold: int | None = None) -> Listed:
        """What the host tells the kernels of a batch of products, each of its own size.

        Args:
            sizes: [products, 3] of m, n, k.
            threshold: threads at work that are enough, of kernels with several tiles; None for the plan's.

        Raises:
            SpecError: the batch is larger than a launch can be.
        """
        raise NotImplementedError

    def each_seconds(self, plan: Any, sizes: np.ndarray) -> np.ndarray:
        """[products] seconds by which each makes a batch longer that fills the GPU, by the model.

        Args:
            sizes: [products, 3] of m, n, k.
        """
        raise NotImplementedError

    def told_of(self, plan: Any) -> dict[str, str]:
        """What an explanation tells of a plan beside its decisions, by title."""
        return {}


def refuse_batch(spec: Any, place: str) -> None:
    """Kernels of one tile have nothing that a spec's section [batch] tells of.

    Raises:
        InfeasibleSpec: it says something else than it means by itself.
    """
    for name, known in type(spec.batch).model_fields.items():
        value = getattr(spec.batch, name)
        if value != known.default:
            raise InfeasibleSpec(
                f"{place}: [batch] {name}", "is for kernels that have several tiles", got=value,
                needs="a batch, [problem] kind = grouped, pointers or strided, and a design with tiles for it", remedy="leave it out",
            )


def refuse_arguments(spec: Any, place: str) -> None:
    """Where each product of a batch is told by itself, nothing tells what its epilogue is given.

    Raises:
        InfeasibleSpec: a step of the epilogue takes arguments.
    """
    given = [step.name for step in epilogue_of(spec.epilogue.do).steps if step.arguments]
    if given:
        raise InfeasibleSpec(
            f"{place}: [epilogue] do", "takes arguments, which products of a batch that are listed one by one do not have", got=", ".join(given),
            needs="steps without arguments", remedy='leave it out, or kind = "strided" with design = "auto", whose products have one each, or one for all',
        )


def refuse_scales(scheme: Scheme, place: str, why: str) -> None:
    """Kernels for products of many sizes have no scales of rows or of tiles of k.

    Raises:
        InfeasibleSpec: the scheme has some.
    """
    if scheme.normalize != "none":
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"{scheme.name} scales {scheme.family.shared_by}, so a pass over the operands comes first", got=scheme.name,
            needs=f"a scheme with normalize = none: {why}", remedy='scheme = "ootomo", or kind = "strided" with design = "auto"',
        )
