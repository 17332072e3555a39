"""The kernels that calibrate the models: which are compiled for their registers and which are timed, and what comes of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.policy import POLICIES
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import design_called
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.solve import alternatives
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import loads
from gemmgen.workshop.bringup.processes import Processes
from gemmgen.workshop.explore.own_rows import kept, row_name, without_paths
from gemmgen.workshop.explore.trial import Task
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit.register_model import Compiled

Size = tuple[int, int, int]

ROUNDS, SLICE_MS = 7, 8.0
"""Of a kernel's race with itself."""
BEST, DRAWN = 80, 40
"""Of the model's best candidates, and of candidates drawn from all others, that kernels are taken from."""
WORTH = 1.8
"""Predicted seconds over the best's, up to which a candidate is worth a trial: slower ones are never chosen, whatever the constants are."""

COMPILED: tuple[tuple[int, Mapping[str, Any]], ...] = (
    *((3, {"scheme": scheme, "where": "prepass", "layout": layout, "size": size}) for scheme, layout, size in (
        ("ootomo", "nn", 512), ("ootomo", "tn", 2048), ("markidis", "nn", 1024), ("half", "nt", 2048), ("bf16x6", "nn", 2048), ("ootomo4", "nn", 3072))),
    *((2, {"scheme": scheme, "where": "prepass", "layout": "nn", "size": size, "fragment_buffers": 2}) for scheme, size in (
        ("ootomo", 2048), ("half", 1024))),
    *((2, {"scheme": scheme, "where": "shared", "layout": layout, "size": 1024}) for scheme, layout in (("ootomo", "nn"), ("bf16x3", "tn"))),
    *((2, {"scheme": scheme, "where": "register", "layout": layout, "size": 1024}) for scheme, layout in (("ootomo", "nt"), ("half", "nn"))),
    *((2, {"scheme": "fp32", "where": where, "layout": "nn", "size": size}) for where, size in (("prepass", 512), ("prepass", 2048), ("shared", 1024))),
    (3, {"scheme": "ootomo", "layout": "nn", "size": 256}), (2, {"scheme": "half", "layout": "tn", "size": 256}),
    (3, {"scheme": "fp32", "layout": "nn", "m": 4, "n": 4096, "k": 4096}), (2, {"scheme": "fp32", "layout": "tt", "m": 4096, "n": 8, "k": 4096}),
)
"""Kernels of a cell whose registers are asked for, and what of its spec is fixed; what does not serve the GPU is passed over."""

_WHOLE: tuple[Size, ...] = (
    (512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096), (64, 8192, 1024), (512, 512, 8192), (1536, 2048, 768), (1280, 1280, 1280),
)
TIMED: tuple[tuple[str, int, tuple[Size, ...]], ...] = (
    ("ootomo", 3, _WHOLE),
    ("bf16x6", 2, ((1024, 1024, 1024), (3072, 3072, 3072))),
    ("ootomo", 5, ((256, 256, 256), (160, 160, 160), (8, 4096, 4096))),
    ("fp32", 2, ((1024, 1024, 1024), (3072, 3072, 3072), (4, 8192, 8192))),
)
"""Scheme, kernels of each policy and size, and sizes (m, n, k). A policy that does not serve a scheme or a size is passed over."""
BESIDE: Mapping[Size, Size] = {
    (512, 512, 512): (768, 640, 1024), (1024, 1024, 1024): (1920, 1664, 896), (2048, 2048, 2048): (2048, 6144, 1024), (4096, 4096, 4096): (3000, 3000, 2000),
    (64, 8192, 1024): (128, 4096, 4096), (512, 512, 8192): (256, 256, 16384), (1536, 2048, 768): (1024, 3072, 1536), (1280, 1280, 1280): (896, 4096, 512),
    (256, 256, 256): (384, 384, 384), (160, 160, 160): (128, 320, 256), (8, 4096, 4096): (16, 8192, 2048),
    (3072, 3072, 3072): (2048, 2304, 1024), (4, 8192, 8192): (8, 4096, 4096),
}
"""The other size at which a kernel is timed, that it was not chosen for. Rows are whole lines of memory everywhere: what others cost no equation tells."""


# ---- compiled


def compiled_cells(gpu: str, policies: Mapping[bool, str]) -> Iterator[tuple[dict[str, Any], int]]:
    """(spec, kernels) of every cell.

    Args:
        policies: whether on the matrix unit: the policy of portable kernels, and of plain multiply-adds.
    """
    for count, cell in COMPILED:
        sizes = {axis: cell.get(axis, cell.get("size")) for axis in "mnk"}
        spec: dict[str, Any] = {
            "problem": {"layout": cell["layout"], **sizes}, "split": {"scheme": cell["scheme"], **({"where": cell["where"]} if "where" in cell else {})},
            "fragment": {"policy": policies[cell["scheme"] != "fp32"]}, "target": {"gpu": gpu},
        }
        if "fragment_buffers" in cell:
            spec["pipeline"] = {"fragment_buffers": cell["fragment_buffers"]}
        yield spec, count


def drawn(spec: Mapping[str, Any], count: int, seed: int) -> list[dict[str, Any]]:
    """Settled specs of the model's first choice, and of others drawn; none where the spec cannot be."""
    loaded = loads(dict(spec))
    try:
        best, drawn = alternatives(loaded, 1, count - 1, seed)
    except GemmgenError:
        return []
    return [settled_spec(loaded, plan) for plan in (*best, *drawn) if plan.design.register_section is not None]


def compiled(
    gpu: Gpu, place: str, pool: Processes, *, most: int | None = None, others: Sequence[Mapping[str, Any]] = (), seed: int = 0,
) -> tuple[list[Compiled], int, str]:
    """The kernels of the cells, how many were refused, and the compiler's name.

    Args:
        most: kernels of the cells; None for all.
        others: settled specs of further kernels, those of which count that the register model has constants for.
    """
    policies = {True: gpu.portable_policy, False: "fma"}
    specs = [
        one for kind, found in pool.all("gemmgen.workshop.bringup.sample:drawn", [(spec, count, seed) for spec, count in compiled_cells(place, policies)])
        for one in (found if kind == "value" else [])
    ]
    specs = _spread(specs, most) + [spec for spec in others if design_called(spec["pipeline"]["design"]).register_section is not None]
    answers = list(pool.all("gemmgen.workshop.fit.register_model:compiled", [(spec,) for spec in specs]))
    found = [answer for kind, answer in answers if kind == "value"]
    return [one for one, _ in found], len(answers) - len(found), found[0][1] if found else ""


# ---- timed


@dataclass(frozen=True)
class Proposed:
    """A kernel to time: its settled spec, and its predicted seconds at the size it was chosen for."""

    spec: Mapping[str, Any]
    size: Size
    seconds: float


@dataclass(frozen=True)
class Timed:
    """What came of the kernels.

    Attributes:
        rows: of all trials, as a store has them; of kernels that are right, or not.
        kernels: how many were compiled.
        refused: reasons of those without a time, each once.
    """

    rows: tuple[Row, ...]
    kernels: int
    refused: tuple[str, ...]

    def beside(self, other: Timed) -> Timed:
        """Both, as kernels of the GPU's row that the first of them was timed by."""
        rows = (*self.rows, *other.rows)
        of_one = tuple(replace(row, gpu=rows[0].gpu, extra=rows[0].extra) for row in rows)
        return Timed(of_one, self.kernels + other.kernels, tuple(dict.fromkeys((*self.refused, *other.refused))))


def timed_cells(gpu: str, vendor: str, firsts: bool) -> Iterator[tuple[dict[str, Any], Size, int]]:
    """(spec, size, kernels) of every cell, for each policy of the vendor's that a search might take for it: split words on plain multiply-adds are slower than
    FP32 itself, so that what such kernels tell is worth nothing, and hides what others tell.

    Args:
        firsts: one kernel each, of the other sizes, too.
    """
    policies = [row for row in POLICIES.values() if row.vendor == vendor and row.atom and not row.library_fragment]
    for scheme, count, sizes in TIMED:
        for size in dict.fromkeys((*sizes, *(BESIDE[one] for one in sizes if one in BESIDE and firsts))):
            for policy in policies:
                if policy.on_matrix_unit != SCHEMES.get(scheme).exact:
                    yield {
                        "problem": dict(zip("mnk", size)), "split": {"scheme": scheme}, "fragment": {"policy": policy.name}, "target": {"gpu": gpu},
                    }, size, 1 if firsts else count


def proposed(spec: Mapping[str, Any], size: Size, count: int, seed: int, worth: float = WORTH, strict: bool = False) -> list[Proposed]:
    """The model's first choice of a spec, and others that it holds worth a trial; none where the spec cannot be.

    Args:
        count: of them all.
        worth: predicted seconds of the others over the first's.

    Raises:
        GemmgenError: the spec cannot be; if `strict`.
    """
    loaded = loads(dict(spec))
    try:
        best, drawn = alternatives(loaded, BEST, DRAWN, seed)
    except GemmgenError:
        if strict:
            raise
        return []
    first = _seconds(best[0])
    other = {(plan.block, plan.warp, plan.where): plan for plan in reversed(best) if plan is not best[0]}  # of those that differ little the best
    equal = [plan for key, plan in reversed(other.items()) if key != (best[0].block, best[0].warp, best[0].where)]
    near = sorted({id(plan): plan for plan in (*equal, *drawn) if _seconds(plan) <= worth * first}.values(), key=_seconds) or best[1:]
    others = [near[at] for at in np.unique(np.linspace(0, len(near) - 1, count - 1).astype(int))] if near and count > 1 else []
    return [Proposed(settled_spec(loaded, plan), size, _seconds(plan)) for plan in (best[0], *others)]


def _seconds(plan: Plan) -> float:
    return float(plan.model["seconds"])


def timed(
    gpu: str, vendor: str, pool: Processes, *, most: int | None = None, firsts: bool = False, done: Collection[tuple[str, Size]] = (), seed: int = 0,
    progress: Any = lambda text: None, wanted: Sequence[Proposed] | None = None,
) -> Timed:
    """Solve, compile, judge and time the kernels of the cells.

    Args:
        gpu: the path of its row.
        most: kernels; None for all.
        firsts: of each cell the first choice alone, at the size that it was chosen for; and of the other sizes, too.
        done: kernels to pass over, by their plans' hashes, at sizes.
        wanted: these kernels instead of the cells'.
    """
    if wanted is None:
        wanted = candidates(gpu, vendor, pool, most=most, firsts=firsts, seed=seed)
    rows: list[Row] = []
    refused: dict[str, None] = {}
    kernels = 0
    begun = [(one, pool.begin("gemmgen.workshop.explore.trial:compiled", Task(one.spec, one.size))) for one in wanted]
    for number, (one, future) in enumerate(begun, 1):
        progress(f"times: kernel {number} of {len(begun)}")
        kind, answer = future.result()
        columns, made = answer if kind == "value" else ({"verdict": "failed", "reason": answer}, b"")
        if not made:
            refused[columns["reason"]] = None
            continue
        if (columns["identity"], one.size) in done:
            continue
        kernels += 1
        for size in (one.size, *(() if firsts or one.size not in BESIDE else (BESIDE[one.size],))):
            task = Task(one.spec, size, made=made, rounds=ROUNDS, slice_ms=SLICE_MS)
            kind, answer = pool.on_gpu("gemmgen.workshop.explore.trial:timed", task)
            own = answer if kind == "value" else {"verdict": "failed", "reason": str(answer)}
            rows.append(_row(one, size, {**columns, **own, "predicted_seconds": one.seconds if size == one.size else None}))
            if own["verdict"] != "timed":
                refused[own["reason"]] = None
    return Timed(tuple(rows), kernels, tuple(refused))


def candidates(gpu: str, vendor: str, pool: Processes, *, most: int | None = None, firsts: bool = False, seed: int = 0) -> list[Proposed]:
    """The kernels of the cells; as `timed` has it."""
    wanted: list[Proposed] = []
    asked = [(spec, size, count, seed) for spec, size, count in timed_cells(gpu, vendor, firsts)]
    for kind, found in pool.all("gemmgen.workshop.bringup.sample:proposed", asked):
        wanted += found if kind == "value" else []
    return _spread(wanted, most)


def _spread(wanted: Sequence[Any], most: int | None) -> list[Any]:
    """At most so many, from all places."""
    if most is None or len(wanted) <= most:
        return list(wanted)
    return [wanted[at] for at in np.unique(np.linspace(0, len(wanted) - 1, most).astype(int))]


def _row(one: Proposed, size: Size, columns: Mapping[str, Any]) -> Row:
    (m, n, k), own = size, kept(loads(one.spec))
    row = Row(
        study="bringup", trial="", kind="kernel", verdict="failed", kernel="", gpu=row_name(one.spec["target"]["gpu"]), m=m, n=n, k=k, layout="nn",
        spec=json.dumps(without_paths(one.spec)), extra=json.dumps({"own": own}) if own else "",
    )
    return replace(row, **{name: value for name, value in columns.items() if hasattr(row, name)})
