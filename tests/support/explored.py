"""Rows of a study that never ran: kernels that the model ranks, timed as it predicts, with noise of a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache

import numpy as np

from gemmgen.naming import kernel_name
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.explore.rebuilt import Predictions
from gemmgen.workshop.explore.trial_row import Row, told

AT = datetime(2026, 1, 1, tzinfo=UTC)
GPU = "h200"


WARPGROUPS = (  # block, warp, slices of k, stages, cluster, group, consumers
    ((64, 64, 64), (64, 64, 64), 2, 7, 1, 16, "pingpong"), ((64, 128, 64), (64, 128, 64), 1, 4, 1, 16, "cooperative"),
    ((64, 128, 64), (64, 128, 64), 4, 4, 1, 16, "cooperative"), ((128, 64, 64), (64, 64, 64), 1, 4, 1, 8, "cooperative"),
    ((128, 128, 64), (64, 128, 64), 1, 3, 2, 16, "cooperative"), ((128, 128, 64), (64, 128, 64), 2, 3, 1, 4, "cooperative"),
)
STRAIGHT = (  # block, warp, slices of k, stages
    ((16, 32, 128), (16, 16, 32), 1, 2), ((32, 32, 64), (16, 16, 32), 2, 2),
)


@cache
def plans(gpu: str = GPU, scheme: str = "ootomo", layout: str = "nn", few: int = 8) -> tuple[Plan, ...]:
    """Kernels of two designs, for sizes large and small."""
    specs = [
        {"tile": {"block": block, "warp": warp, "split_k": slices, "cluster": cluster, "group": group}, "fragment": {"policy": "wgmma"},
         "pipeline": {"loads": "bulk", "stages": stages, "consumers": consumers}, "split": {"where": "prepass"}}
        for block, warp, slices, stages, cluster, group, consumers in WARPGROUPS
    ] + [
        {"tile": {"block": block, "warp": warp, "split_k": slices, "group": 1}, "fragment": {"policy": "mma"},
         "pipeline": {"stages": stages, "design": "straight"}} for block, warp, slices, stages in STRAIGHT
    ]
    problem, target = {"m": 1024, "n": 1024, "k": 1024, "layout": layout}, {"gpu": gpu}
    return tuple(solve(loads({**one, "problem": problem, "target": target, "split": {"scheme": scheme, "promote": 64, **one.get("split", {})}}))
                 for one in specs[:few])


def sizes(count: int, seed: int = 1, low: int = 64, high: int = 8192) -> list[tuple[int, int, int]]:
    """Products drawn evenly on a logarithmic scale."""
    found = np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), (count, 3))).round().astype(int)
    return [tuple(map(int, one)) for one in found]


def row_of(plan: Plan, size: Sequence[int], **more) -> Row:
    """A row of a plan's kernel at a size, with what a study knows before anything is timed."""
    known = dict(
        study="made up", trial=f"{plan.hash} {size}", kind="kernel", verdict="modelled", kernel=kernel_name(plan), gpu=plan.gpu.name,
        m=int(size[0]), n=int(size[1]), k=int(size[2]), layout=plan.layout, at=AT, spec=told({"split": {"scheme": plan.scheme.name}}),
        decided=told(plan.decided),
        identity=plan.hash, scheme=plan.scheme.name, promote=plan.promote, policy=plan.fragment.policy, design=plan.design.name,
        block="x".join(map(str, plan.block)), warp="x".join(map(str, plan.warp)), stages=plan.stages, split_k=plan.split_k, device="NVIDIA H200",
        compiler="NVRTC 13.3", data="U[-1, 1]", registers=plan.predicted_registers, predicted_error=2e-7,
    )
    return Row(**{**known, **more})


def timed(
    plans: Iterable[Plan], sizes: Iterable[Sequence[int]], seed: int = 1, noise: float = 0.02, gpu=None, verdict: str = "timed", rival: float | None = 3.0,
) -> list[Row]:
    """Every plan at every size, timed as the model of `gpu` (None: the plan's own) predicts, times a factor of `noise`; and cuBLAS SGEMM beside them.

    Args:
        rival: how often the fastest kernel's time SGEMM takes; None for no rival.
    """
    draw, sizes = np.random.default_rng(seed), np.array(list(sizes))
    own, other = Predictions(), Predictions(gpu)
    rows, least = [], np.full(len(sizes), np.inf)
    for plan in plans:
        row = row_of(plan, sizes[0])
        predicted, real = own.seconds(row, sizes), other.seconds(row, sizes) * np.exp(draw.normal(0, noise, len(sizes)))
        least = np.minimum(least, real)
        for size, one, seconds in zip(sizes, predicted, real):
            known = dict(seconds=float(seconds), spread=noise, rounds=11, error=2.1e-7) if verdict == "timed" else {}
            rows.append(row_of(plan, size, verdict=verdict, predicted_seconds=float(one), **known))
    if rival and verdict == "timed":
        rows += [Row(study="made up", trial=f"sgemm {size}", kind="rival", verdict="timed", kernel="cublas-sgemm", gpu=GPU, m=int(size[0]), n=int(size[1]),
                     k=int(size[2]), layout="nn", at=AT, seconds=float(rival * seconds), error=3e-7) for size, seconds in zip(sizes, least)]
    return rows
