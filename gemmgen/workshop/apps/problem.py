"""What an application is: sizes, inputs, a run over a matmul, and what a user of it looks at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.catalog.element import F32
from gemmgen.errors import SpecError
from gemmgen.workshop.apps.matmul import Matmul, Shape
from gemmgen.workshop.programs.recorded import Recorded, recorded

Arrays = Mapping[str, Any]
Figures = dict[str, float | int | str]


class Recording(Matmul):
    """A matmul over the one that `gemmgen.workshop.programs.recorded` hands a function."""

    def __init__(self, called: Callable[..., Any]):
        super().__init__("recorded")
        self._called = called

    def __call__(self, a: Any, b: Any, c: Any | None = None, **how: Any) -> Any:
        self.dtype = a.dtype  # FP64 where the tuner computes the exact result
        return super().__call__(a, b, c, **how)

    def syrk(self, a: Any, **how: Any) -> Any:
        self.dtype = a.dtype
        return super().syrk(a, **how)

    def _into(self, out: Any, a: Any, b: Any, shape: Shape, alpha: float, beta: float) -> None:
        c = None if beta == 0.0 else np.ascontiguousarray(out)
        out[...] = self._called(np.ascontiguousarray(a), np.ascontiguousarray(b), c, op=shape.op, alpha=alpha, beta=None if c is None else beta)


@dataclass(frozen=True)
class Problem:
    """One instance of an application.

    Attributes:
        inputs: arrays of the host; FP32 ones are what is computed with, in FP64 where the exact result is.
        run: (matmul, inputs as arrays of matmul.xp) -> what comes out, by name. It draws nothing and changes no input.
        judge: (what is told of what came out, the same of FP64's, or None), arrays of the host -> the figures that a user looks at.
        told: (module of the arrays, what came out, inputs) -> what is brought to the host of it, and what is computed for that where the arrays are.
        has_exact: whether `judge` wants the same in FP64; not where it knows the answer itself.
        output: the matrix whose error a threshold is of (`gemmgen.workshop.apps.tuned`), where the products are the same in every run;
            None where they are not.
        beside: figures of other programs for the same, by who computed them: scikit-learn's, SciPy's, torch's.
        others: whole programs of the vendor's for the same, by name, as `run`, which are timed in turns with it.
        notes: what a reader has to know of the data.
    """

    inputs: Mapping[str, np.ndarray]
    run: Callable[[Matmul, Arrays], Arrays]
    judge: Callable[[Arrays, Arrays | None], Figures]
    told: Callable[[Any, Arrays, Arrays], Arrays] = lambda xp, out, inputs: out
    has_exact: bool = True
    output: str | None = None
    beside: Callable[[], Mapping[str, Figures]] = dict
    others: Mapping[str, Callable[[Matmul, Arrays], Arrays]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def program(self, name: str, title: str, asked: str = "PROGRAM") -> Recorded:
        """The products of a run and what feeds what, as `gemmgen tune` takes programs.

        Args:
            asked: what asks for it, for messages.

        Raises:
            SpecError: its result is not one matrix by the same products in every run.
        """
        output = self.output
        if output is None:
            raise SpecError(asked, f"cannot be asked of {name}", needs="an application whose result is one matrix, by the same products in every run",
                            remedy="gemmgen app with --by and a scheme")

        def function(called: Callable[..., Any], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
            return np.ascontiguousarray(self.run(Recording(called), inputs)[output])

        return recorded(function, self.inputs, name, title)


@dataclass(frozen=True)
class App:
    """An application.

    Attributes:
        name: as the command says it; title: what it is; papers: which of them measure it, and where.
        sizes: on a GPU; small: on the emulator.
        data: where its data may come from; the last is `drawn`, which needs NumPy alone.
        figures: what the figures mean, by name.
        make: (sizes, data, seed) -> an instance.
        types: of elements that it computes in; the first, unless another is asked for.
    """

    name: str
    title: str
    papers: str
    sizes: Mapping[str, int]
    small: Mapping[str, int]
    data: tuple[str, ...]
    figures: Mapping[str, str]
    make: Callable[[Mapping[str, int], str, int], Problem]
    types: tuple[str, ...] = (F32.name,)

    def sized(self, asked: Mapping[str, int], small: bool) -> dict[str, int]:
        """All sizes, those that are asked for in place of the usual.

        Raises:
            SpecError: one is unknown, or not positive.
        """
        for name, value in asked.items():
            if name not in self.sizes:
                raise SpecError("--size", f"is no size of {self.name}", got=name, needs=", ".join(self.sizes), remedy=f"--size {next(iter(self.sizes))}=...")
            if value < 1:
                raise SpecError("--size", "is out of range", got=f"{name}={value}", needs="1 or more", remedy="leave it out")
        return {**(self.small if small else self.sizes), **asked}

    def typed(self, asked: str | None) -> str:
        """The type of elements: as asked, else the first.

        Raises:
            SpecError: the application does not compute in it.
        """
        if asked is not None and asked not in self.types:
            raise SpecError("--type", f"is no type that {self.name} computes in", got=asked, needs=", ".join(self.types), remedy=f"--type {self.types[0]}")
        return asked or self.types[0]

    def sourced(self, asked: str | None, small: bool) -> str:
        """Where the data come from: as asked, else real ones of a small problem, and drawn ones of a large.

        Raises:
            SpecError: there are no such data.
        """
        if asked is not None and asked not in self.data:
            raise SpecError("--data", f"is unknown to {self.name}", got=asked, needs=", ".join(self.data), remedy=f"--data {self.data[0]}")
        return asked or self.data[0 if small else -1]


def relative(x: np.ndarray, exact: np.ndarray) -> float:
    """||X - X*||_F / ||X*||_F (MixPert eq. 10)."""
    from gemmgen.verify.metrics import relative_frobenius

    return relative_frobenius(np.asarray(x), np.asarray(exact, np.float64))


def differing(x: np.ndarray, y: np.ndarray) -> str:
    """`3 of 640` elements."""
    return f"{int((x != y).sum())} of {x.size}"
