"""The specs of who multiplies, and the kernels of these that an application can have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gemmgen import road
from gemmgen.catalog.element import F32
from gemmgen.catalog.epilogue import require_none
from gemmgen.catalog.output import require_usual
from gemmgen.errors import SpecError

if TYPE_CHECKING:
    from gemmgen.build import Built
    from gemmgen.spec import LoadedSpec


def sized(spec: LoadedSpec, m: int, n: int, k: int, op: str = "nn", **problem: Any) -> LoadedSpec:
    """A spec with the sizes, the layout and what else its `[problem]` is to say."""
    hints = {"m": max(1, m), "n": max(1, n), "k": max(1, k), "layout": op, **problem}
    return spec.model_copy(update={"spec": spec.spec.model_copy(update={"problem": spec.spec.problem.model_copy(update=hints)})})


def taken(built: Built) -> Built:
    """The kernel, if an application can have it.

    Raises:
        SpecError: its C is not of its elements' type, or has an epilogue.
    """
    require_usual(built.plan.output, "applications take kernels that have")
    require_none(built.plan.epilogue, "applications take kernels that have")
    return built


def spec_of(by: str | Mapping[str, Any], gpu: str, type: str = F32.name) -> LoadedSpec:
    """The spec for who multiplies: a scheme, `auto`, `as-fp32`, `as-fp64`, a .toml file, or sections, on a GPU.

    Args:
        type: of the elements.

    Raises:
        SpecError, UnknownName: there is no such scheme or file, a value is not acceptable, or a file is of other elements.
    """
    if isinstance(by, Mapping) or by.endswith(".toml"):
        found = road.load(by, gpu)
        if (own := found.spec.problem.type) != type:
            raise SpecError("--by", "multiplies elements of another type", got=f"{found.place}: {own}", needs=type, remedy=f'type = "{type}" in [problem]')
        return found
    sections: dict[str, Any] = {"problem": {"type": type}}
    if by in ("auto", "as-fp32", "as-fp64"):
        return road.load(sections | ({} if by == "auto" else {"accuracy": {"as": by[3:]}}), gpu)
    from gemmgen.catalog.scheme import SCHEMES

    SCHEMES.get(by, where="--by")
    return road.load(sections | {"split": {"scheme": by}}, gpu)
