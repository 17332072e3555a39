"""What a program of GEMMs is: the products in their order, what feeds what, inputs, and a run by whoever computes.

| a program from | is made by |
| --- | --- |
| a function over a multiplication, given in Python or by a file | `gemmgen.workshop.programs.recorded` |
| an application | `gemmgen.workshop.apps.problem.Problem.program` |

`gemmgen tune` chooses a precision for each GEMM of any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


@dataclass(frozen=True)
class Gemm:
    """One GEMM of a program: alpha op(A) op(B) + beta C.

    Attributes:
        name: unique in its program.
        op: `n` as stored or `t` transposed, of A and of B, as a spec's layout is.
        fed_by: places of the GEMMs whose results reach it without passing through another GEMM, ascending.
    """

    name: str
    m: int
    n: int
    k: int
    op: str = "nn"
    alpha: float = 1.0
    beta: float = 0.0
    fed_by: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, int, int, str]:
        """What its time depends on: (m, n, k, op)."""
        return self.m, self.n, self.k, self.op


class Runner(Protocol):
    """Who computes: with what arrays, at which levels, and what of it is remembered."""

    def input(self, name: str) -> Any: ...
    def gemm(self, at: int, a: Any, b: Any, c: Any | None) -> Any: ...
    def to_host(self, x: Any) -> np.ndarray: ...
    def from_host(self, x: np.ndarray) -> Any: ...


class Program(Protocol):
    """What is tuned.

    Attributes:
        name, title: for people.
        output: what the error is measured of.
        gemms: in the order in which they run.
        inputs: by name, FP32.
    """

    name: str
    title: str
    output: str
    gemms: tuple[Gemm, ...]
    inputs: Mapping[str, np.ndarray]

    def run(self, runner: Runner) -> Any: ...


def behind(gemms: Sequence[Gemm]) -> list[frozenset[int]]:
    """For each GEMM the places of all whose levels its result depends on, its own among them."""
    found: list[frozenset[int]] = []
    for at, gemm in enumerate(gemms):
        found.append(frozenset({at}).union(*(found[feeder] for feeder in gemm.fed_by)))
    return found


def in_fp64(gemm: Gemm, a: Any, b: Any, c: Any | None) -> Any:
    """alpha op(A) op(B) + beta C of FP64 matrices, NumPy's or cupy's."""
    out = (a if gemm.op[0] == "n" else a.T) @ (b if gemm.op[1] == "n" else b.T)
    if gemm.alpha != 1.0:
        out *= gemm.alpha
    return out if c is None else out + gemm.beta * c
