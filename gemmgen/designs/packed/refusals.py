"""What to tell whoever asks for a batch's kernel with packed words that cannot be."""

from __future__ import annotations

from typing import Any

from gemmgen.errors import InfeasibleSpec, SpecError


def refuse_choices(spec: Any, place: str) -> None:
    """It has one tile, which [tile] fixes, one walk, and nothing to step down."""
    asked = spec.batch
    for name, value, neutral in (
        ("tiles", asked.tiles, None), ("walk", asked.walk, "auto"), ("tlp", asked.tlp, "wavefront"), ("threshold", asked.threshold, None),
    ):
        if value != neutral:
            raise InfeasibleSpec(
                f"{place}: [batch] {name}", "is a choice of kernels with several tiles", got=value,
                needs="no [batch] section: kernels on packed words have one tile, that of [tile]", remedy='leave it out, or [fragment] policy = "mma"',
            )
    if spec.tile.split_k not in (None, "auto", 1):
        raise InfeasibleSpec(
            f"{place}: [tile] split_k", "the tiles of all products fill the GPU without slices of k", got=spec.tile.split_k, needs="1", remedy="leave it out",
        )


def too_many(what: str, count: int) -> SpecError:
    return SpecError(
        "products", f"have more {what} than a launch can count", got=count, needs="fewer than 2^31", remedy="several batches",
    )
