"""Programs of one's own in Python: a function that is given a multiplication, recorded once and then replayed.

    def program(matmul, inputs):
        hidden = numpy.maximum(matmul(inputs["x"], inputs["w1"]), 0)
        return matmul(hidden, inputs["w2"])

    tune.tune(tune.recorded(program, {"x": x, "w1": w1, "w2": w2}), 1e-5, gpu="h100")

Each call of `matmul` is a GEMM, known by its place among the calls, as MixPert's code transformer gives each an identifier.
Which result feeds which call is found by trial, whatever is done with arrays in between: one result at a time is changed
a little while every call returns what it returned before; a call whose operands then differ is fed by it.

A file that `gemmgen tune` takes has such a `program`, and `inputs(n=512)`, whose parameters are its sizes and which gives the inputs.
"""

from __future__ import annotations

import inspect
import os
import runpy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gemmgen.catalog.table import shown
from gemmgen.errors import GemmgenError, SpecError, UnknownName
from gemmgen.spec import MAX_EXTENT
from gemmgen.workshop.programs.program import Gemm, Runner, in_fp64

MOST_CALLS = 2000
_NUDGE = np.float32(1 + 2.0**-12)


class Matmul(Protocol):
    """What the function is given: alpha op(A) op(B) + beta C of two or three matrices; op as `nn`, `tn`, ... tells what is transposed."""

    def __call__(
        self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *, op: str = "nn", alpha: float = 1.0, beta: float | None = None,
    ) -> np.ndarray: ...


Function = Callable[[Matmul, Mapping[str, np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class Recorded:
    """A function's calls, in their order: satisfies `program.Program`."""

    name: str
    title: str
    inputs: Mapping[str, np.ndarray]
    gemms: tuple[Gemm, ...]
    function: Function = field(repr=False)
    output: str = "what it returns"

    def run(self, runner: Runner) -> Any:
        """The output, by who computes: NumPy's arrays between the calls."""
        known, calls = self.gemms, 0

        def matmul(
            a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None, *, op: str = "nn", alpha: float = 1.0, beta: float | None = None,
        ) -> np.ndarray:
            nonlocal calls
            called = _called(self.name, calls, a, b, c, op, alpha, beta)
            if calls == len(known) or called.shape != known[calls].shape:
                raise _changed(self.name, calls)
            calls += 1
            return runner.to_host(runner.gemm(calls - 1, *(None if x is None else runner.from_host(x) for x in (a, b, c))))

        inputs = {name: runner.to_host(runner.input(name)) for name in self.inputs}
        output = self.function(matmul, inputs)
        if calls != len(known):
            raise _changed(self.name, calls)
        return runner.from_host(output)


def load_program(path: str | os.PathLike[str], *, sizes: Mapping[str, int] | None = None) -> Recorded:
    """A program from its file, whose code is run.

    Args:
        path: a .py file with `inputs(n=512)`, FP32 matrices by name, and `program(matmul, inputs)`; the first line of its docstring is the title.
        sizes: instead of the defaults of `inputs`.

    Raises:
        SpecError: it is no such file, its code raises, a size is out of range, or as `recorded`.
        UnknownName: `inputs` has no parameter of a size's name.
    """
    path = Path(path)
    place, needs = shown(path), "a .py file with inputs(n=512), FP32 matrices by name, and program(matmul, inputs)"
    remedy = "see examples/perceptron.py"
    if path.suffix != ".py":
        raise SpecError(place, "is no program", got=path.name, needs=f"{needs}; or the name of an application", remedy=remedy)
    try:
        found = runpy.run_path(str(path))
        made, function = found.get("inputs"), found.get("program")
        if not callable(made) or not callable(function):
            raise SpecError(place, "lacks a function", got=" and ".join(name for name in ("inputs", "program") if not callable(found.get(name))), needs=needs,
                            remedy=remedy)
        known = list(inspect.signature(made).parameters)
        for name, value in (sizes or {}).items():
            if name not in known:
                raise UnknownName("--size", "size", name, known)
            if not 1 <= value <= MAX_EXTENT:
                raise SpecError(f"--size {name}", "is out of range", got=value, needs=f"1 to {MAX_EXTENT}", remedy="leave it out")
        return recorded(function, made(**sizes or {}), path.stem, (found.get("__doc__") or path.stem).splitlines()[0].rstrip("."))
    except GemmgenError:
        raise
    except Exception as error:  # whatever the file's own code raises
        raise SpecError(place, "cannot be run", got=f"{type(error).__name__}: {error}", needs=needs, remedy=remedy) from error


def recorded(function: Function, inputs: Mapping[str, np.ndarray], name: str = "", title: str = "a function") -> Recorded:
    """A program out of a function.

    Args:
        function: takes the multiplication and the inputs by name, gives the output [M, N]; it does the same in every run.
        inputs: FP32 matrices.

    Raises:
        SpecError: an input is no FP32 matrix, no GEMM is called, an operand does not fit, or two runs differ.
    """
    name = name or getattr(function, "__name__", "program")
    for which, x in inputs.items():
        if x.dtype != np.float32 or x.ndim != 2:
            raise SpecError(f"{name}: input {which}", "is not a matrix of float32", got=f"{x.dtype} of shape {x.shape}", needs="two dimensions",
                            remedy="x.astype(numpy.float32)")
    calls: list[Gemm] = []
    results: list[np.ndarray] = []
    operands: list[bytes] = []

    def first(a: Any, b: Any, c: Any = None, *, op: str = "nn", alpha: float = 1.0, beta: float | None = None) -> np.ndarray:
        if len(calls) == MOST_CALLS:
            raise SpecError(name, "calls too many products", got=f"more than {MOST_CALLS}", needs=f"at most {MOST_CALLS}", remedy="a part of the program")
        called = _called(name, len(calls), a, b, c, op, alpha, beta)
        calls.append(called)
        operands.append(_digest(a, b, c))
        results.append(in_fp64(called, *(None if x is None else np.asarray(x, np.float64) for x in (a, b, c))).astype(np.float32))
        return results[-1].copy()

    output = function(first, dict(inputs))
    if not calls:
        raise SpecError(name, "calls no product", needs="a call of the matmul it is given", remedy="matmul(a, b) in place of a @ b")
    if not isinstance(output, np.ndarray) or output.ndim != 2:
        raise SpecError(name, "returns no matrix", got=type(output).__name__, needs="an array of two dimensions", remedy="x.reshape(rows, columns)")

    def replayed(nudged: int) -> list[int]:
        """Places of the calls whose operands differ where one result does; -1 changes none."""
        differ: list[int] = []
        at = 0

        def again(a: Any, b: Any, c: Any = None, *, op: str = "nn", alpha: float = 1.0, beta: float | None = None) -> np.ndarray:
            nonlocal at
            if at == len(calls) or _called(name, at, a, b, c, op, alpha, beta).shape != calls[at].shape:
                raise _changed(name, at)
            if _digest(a, b, c) != operands[at]:
                differ.append(at)
            at += 1
            return results[at - 1] * _NUDGE if at - 1 == nudged else results[at - 1].copy()

        function(again, dict(inputs))
        return differ

    if differing := replayed(-1):
        raise SpecError(name, "does not do the same in every run", got=f"call {differing[0]} has other operands in the second run",
                        needs="a function without random numbers of its own, which leaves its inputs as they are", remedy="draw them before, as inputs")
    fed = [set[int]() for _ in calls]
    for feeder in range(len(calls) - 1):
        for at in replayed(feeder):
            fed[at].add(feeder)
    gemms = tuple(Gemm(one.name, one.m, one.n, one.k, one.op, one.alpha, one.beta, tuple(sorted(feeders))) for one, feeders in zip(calls, fed))
    return Recorded(name, title, dict(inputs), gemms, function)


def _called(name: str, at: int, a: Any, b: Any, c: Any, op: str, alpha: float, beta: float | None) -> Gemm:
    """The GEMM of a call."""
    where = f"{name}: call {at}"
    for x in (a, b, c):
        if x is not None and getattr(x, "ndim", 0) != 2:
            raise SpecError(where, "multiplies what is no matrix", got=f"shape {getattr(x, 'shape', None)}", needs="arrays of two dimensions",
                            remedy="x.reshape(rows, columns)")
    if op not in ("nn", "nt", "tn", "tt"):
        raise SpecError(where, "has an unknown op", got=op, needs="nn, nt, tn or tt", remedy='op="nt" for A B^T')
    (m, k), (inner, n) = a.shape if op[0] == "n" else a.shape[::-1], b.shape if op[1] == "n" else b.shape[::-1]
    if k != inner or c is not None and c.shape != (m, n):
        raise SpecError(where, "multiplies matrices that do not fit", got=f"{a.shape}, {b.shape}, {None if c is None else c.shape}, op {op}",
                        needs="[M, K], [K, N], [M, N]", remedy="another op")
    return Gemm(f"call{at}", m, n, k, op, float(alpha), 0.0 if c is None else 1.0 if beta is None else float(beta))


def _changed(name: str, at: int) -> SpecError:
    return SpecError(name, "calls other products than when it was recorded", got=f"from call {at} on", needs="the same calls of the same sizes in every run",
                     remedy="a function whose calls do not depend on values")


def _digest(*of: Any) -> bytes:
    return sha256(b"".join(b"-" if x is None else np.ascontiguousarray(x).tobytes() for x in of)).digest()
