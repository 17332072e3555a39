"""Levels: split schemes in the order of their cost, and the kernel that each gives a GEMM on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import LoadedSpec, loads
from gemmgen.verdict import seconds_of
from gemmgen.workshop.programs.program import Gemm

USUAL = ("half", "mixpert1", "mixpert2", "mixpert3", "mixpert4", "bf16x3", "legemm", "scaled", "ootomo", "tf32x3", "bf16x6", "fp32")
"""Schemes that are levels where nothing is said, as far as the catalog has them and the GPU serves them."""
YARDSTICK = "fp32"
"""The scheme that the speed-up is also told against, where it is among the levels."""

Shape = tuple[int, int, int, str]


@dataclass(frozen=True)
class Level:
    """One precision that a GEMM may have.

    Attributes:
        name: of its scheme.
        plans: the kernel for each shape of GEMM; a shape that the GPU does not serve so is absent.
        specs: what the plans were made of.
    """

    name: str
    scheme: Scheme
    plans: dict[Shape, Plan]
    specs: dict[Shape, LoadedSpec]


def spec_of(scheme: str, shape: Shape, gpu: str) -> LoadedSpec:
    """The spec of one GEMM's kernel: a scheme, a size and a GPU; the model decides the rest."""
    m, n, k, op = shape
    return loads({"problem": {"layout": op, "m": m, "n": n, "k": k}, "split": {"scheme": scheme}, "target": {"gpu": gpu}}, f"level {scheme}")


def levels_for(
    gemms: Sequence[Gemm], gpu: str, names: Sequence[str] = (), *, progress: Callable[[str], None] = lambda text: None,
) -> tuple[tuple[Level, ...], tuple[str, ...]]:
    """(levels from the cheapest on, why others are left out), by the model's time of all GEMMs.

    Args:
        names: schemes by name, or .toml files; none for the usual ones that the catalog has.

    Raises:
        UnknownName, SpecError: there is no such scheme or GPU, or a scheme is named twice.
        InfeasibleSpec: the GPU serves none of them for every GEMM.
    """
    known = SCHEMES.names()
    asked = tuple(names) or tuple(name for name in USUAL if name in known)
    if len(set(asked)) < len(asked):
        raise SpecError("--levels", "name a scheme twice", got=",".join(asked), needs="each scheme once", remedy="gemmgen list schemes")
    made, left_out = [], []
    for number, name in enumerate(asked, 1):
        progress(f"plan {name} ({number} of {len(asked)})")
        scheme = SCHEMES.get(name, where="--levels", relative_to=Path())
        specs = {shape: spec_of(name, shape, gpu) for shape in dict.fromkeys(gemm.shape for gemm in gemms)}
        plans, refused = {}, None
        for shape, spec in specs.items():
            try:
                plans[shape] = solve(spec)
            except InfeasibleSpec as error:
                refused = error
        if refused is not None:
            left_out.append(f"{name}: {refused.problem}")
        if plans:
            made.append(Level(scheme.name, scheme, plans, specs))
    served = {shape for level in made for shape in level.plans}
    for gemm in gemms:
        if gemm.shape not in served:
            raise InfeasibleSpec("--levels", f"none serves the GEMM {gemm.name} on {gpu}", got=",".join(asked), needs="a scheme that this GPU serves",
                                 has="; ".join(left_out) or None, remedy="gemmgen list schemes, or another --gpu")

    def cost(level: Level) -> float:
        return sum(seconds_of(level.plans[gemm.shape], gemm.beta != 0) for gemm in gemms if gemm.shape in level.plans)

    return tuple(sorted(made, key=cost)), tuple(left_out)
