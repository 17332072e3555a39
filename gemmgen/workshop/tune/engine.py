"""What multiplies at a level, and how long that takes: a simulation in NumPy, or a GPU.

| engine | errors | times |
| --- | --- | --- |
| `model` | simulated: reference split, word products and their sums in FP64, FP32 sums between promotions | the model's |
| `emulator` | by the bit-exact model of the GPU's matrix unit, without slices of k | the model's |
| `cuda` | of the built kernels, on the GPU | measured on the GPU |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Protocol, runtime_checkable

import numpy as np

from gemmgen.errors import SpecError
from gemmgen.plan import Plan
from gemmgen.split import as_multiplied, kept_products, split
from gemmgen.verdict import seconds_of
from gemmgen.workshop.tune.precisions import Level
from gemmgen.workshop.programs.program import Gemm, in_fp64
from gemmgen.workshop.tune.walk import Choice

MOST_EMULATED = 1 << 28
"""Multiply-adds of a GEMM that the emulator's matrix unit is asked for: it does some 10^7 a second."""


class Engine(Protocol):
    """What multiplies.

    Attributes:
        name: as reports say it.
        kind: `model`, `emulator` or `cuda`.
        errors, times: how they come about, in a line each.
        xp: the module of its arrays.
        memory_bytes: for results that are kept.
    """

    name: str
    kind: str
    errors: str
    times: str
    xp: Any
    memory_bytes: int

    def array(self, x: np.ndarray) -> Any: ...
    def host(self, x: Any) -> np.ndarray: ...
    def exact(self, gemm: Gemm, a: Any, b: Any, c: Any | None) -> Any: ...
    def product(self, gemm: Gemm, level: Level, a: Any, b: Any, c: Any | None) -> Any: ...
    def seconds(self, gemms: Sequence[Gemm], levels: Sequence[Level]) -> list[list[float]]: ...


@runtime_checkable
class Timed(Protocol):
    """An engine that measures.

    Attributes:
        sgemm_seconds: of cuBLAS SGEMM for all GEMMs of the last `seconds`.
    """

    sgemm_seconds: float

    def together(self, gemms: Sequence[Gemm], levels: Sequence[Level], choices: Sequence[Choice]) -> dict[Choice | None, float]: ...


def simulated(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A [M, K] B [K, N] in FP32 as a kernel of the plan computes it, but for what its matrix unit cuts off.

    The words are those of the reference split, and each word product and its sums are FP64's. Between promotions a sum is so
    far exact; each promotion adds it in FP32. What that leaves out is the unit's own rounding of its sums, and slices of k.
    """
    if plan.scheme.exact:
        return a @ b
    step = plan.promote or a.shape[1]
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], step):
        parts = {"a": a[:, k : k + step], "b": b[k : k + step].T}
        words = [split(np.ascontiguousarray(x), plan.scheme, plan.unit.flushes_subnormals, operand) for operand, x in parts.items()]
        left, right = (as_multiplied(x, plan.scheme, plan.unit) for x in words)
        total = total + kept_products(left, right, plan.scheme).astype(np.float32)
    return total


def emulated(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The same bit for bit as the matrix unit has it, of one slice of k.

    Raises:
        SpecError: it would take hours.
    """
    from gemmgen.emulate.core.product import product

    if plan.scheme.exact:
        return a @ b
    m, n, k = *a.shape[:1], b.shape[1], a.shape[1]
    if m * n * k > MOST_EMULATED:
        raise SpecError("--device emulator", "is too slow for this program", got=f"a GEMM of {m} x {n} x {k}", needs=f"m n k of at most {MOST_EMULATED}",
                        remedy="--size with smaller numbers, or --device model")
    return product(
        plan.scheme, plan.unit, a, b, promote=plan.promote, fragment_k=plan.fragment.shape[2], compensated=plan.promotion.compensates,
        to_the_end=plan.promotion.to_the_end,
    )


class Simulation:
    """Products simulated on the CPU, and times that the model predicts.

    Args:
        multiply: (plan, A, B) -> A B in FP32: `simulated` or `emulated`.
    """

    xp = np
    memory_bytes = 2 << 30
    times = "predicted by the model, not measured"

    def __init__(self, gpu: str, kind: str = "model"):
        self.kind, self.name = kind, f"{kind} of {gpu}"
        self._multiply: Callable[[Plan, np.ndarray, np.ndarray], np.ndarray] = emulated if kind == "emulator" else simulated
        self.errors = "by the model of the matrix unit, without slices of k" if kind == "emulator" else (
            "simulated, without what the matrix unit cuts off its sums"
        )

    def array(self, x: np.ndarray) -> np.ndarray:
        return x

    def host(self, x: np.ndarray) -> np.ndarray:
        return x

    def exact(self, gemm: Gemm, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
        return in_fp64(gemm, a, b, c)

    def product(self, gemm: Gemm, level: Level, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> np.ndarray:
        a, b = (np.ascontiguousarray(x if op == "n" else x.T) for x, op in zip((a, b), gemm.op))
        out = self._multiply(level.plans[gemm.shape], a, b)
        return out if c is None and gemm.alpha == 1.0 else (np.float32(gemm.alpha) * out + (0 if c is None else np.float32(gemm.beta) * c)).astype(np.float32)

    def seconds(self, gemms: Sequence[Gemm], levels: Sequence[Level]) -> list[list[float]]:
        return [[_predicted(level.plans, gemm) for level in levels] for gemm in gemms]


def _predicted(plans: Mapping[tuple[int, int, int, str], Plan], gemm: Gemm) -> float:
    return seconds_of(plans[gemm.shape], gemm.beta != 0) if gemm.shape in plans else inf
