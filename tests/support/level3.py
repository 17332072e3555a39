"""BLAS's level 3 in FP32 or FP64, asked of whoever computes it: what each routine has to give, what it may not read or write,
and which argument it finds at fault.

    assert not list(level3.faults(run, level3.calls("SSYRK", extents=(0, 1, 9), seed=0)))
    assert not list(level3.wrong_exits(run, "SSYRK"))

`run(call)` computes a call on the host's arrays and returns BLAS's code: 0, or minus the argument at fault. The questions are those that LAPACK's
sblat3 asks by its published description: every letter, extents, alphas and betas; leading dimensions beyond the extents; errors in units of 2^-23
(FP64: 2^-52) times the sums of magnitudes, threshold 16; TRSM's solution by its residual. Every element that a routine may not read is NaN besides,
and all memory is compared afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

THRESHOLD = 16.0
GAP = 3
"""Elements between two stored columns."""
EXTENTS, ALPHAS, BETAS = (0, 1, 2, 3, 5, 9, 33, 65), (0.0, 1.0, 0.7, -1.3), (0.0, 1.0, 1.3, -0.4)
"""What the whole test asks, as tests/support/sblat3.py does."""
UPLO, TRANS, SIDE, DIAG = "LU", "NT", "LR", "NU"


@dataclass(frozen=True)
class Routine:
    """A routine: its letters by name, its extents, whether it has a B, a beta, and a C beside its operands; `arguments` in BLAS's order, from 1."""

    letters: Mapping[str, str]
    extents: tuple[str, ...]
    arguments: tuple[str, ...]

    @property
    def writes(self) -> str:
        return "c" if "c" in self.arguments else "b"


_OPERANDS = ("alpha", "a", "lda", "b", "ldb", "beta", "c", "ldc")
_TRIANGULAR = Routine(
    {"side": SIDE, "uplo": UPLO, "trans": TRANS, "diag": DIAG}, ("m", "n"), ("side", "uplo", "trans", "diag", "m", "n", "alpha", "a", "lda", "b", "ldb"),
)
ROUTINES = {
    "SGEMM": Routine({"transa": TRANS, "transb": TRANS}, ("m", "n", "k"), ("transa", "transb", "m", "n", "k", *_OPERANDS)),
    "SSYMM": Routine({"side": SIDE, "uplo": UPLO}, ("m", "n"), ("side", "uplo", "m", "n", *_OPERANDS)),
    "STRMM": _TRIANGULAR, "STRSM": _TRIANGULAR,
    "SSYRK": Routine({"uplo": UPLO, "trans": TRANS}, ("n", "k"), ("uplo", "trans", "n", "k", "alpha", "a", "lda", "beta", "c", "ldc")),
    "SSYR2K": Routine({"uplo": UPLO, "trans": TRANS}, ("n", "k"), ("uplo", "trans", "n", "k", *_OPERANDS)),
    "SGEMMT": Routine({"uplo": UPLO, "transa": TRANS, "transb": TRANS}, ("n", "k"), ("uplo", "transa", "transb", "n", "k", *_OPERANDS)),
}


@dataclass
class Call:
    """One call.

    Attributes:
        letters, extents: by argument.
        real: the type of elements.
        stored: by operand, [columns, ld] of that type: column by column as BLAS has it, NaN where nothing may be read.
        given: by operand, the matrix that is meant, FP64: a triangle is completed, and what counts for nothing is 0.
        before: by operand, what memory held.
        ld: leading dimensions, by argument.
    """

    routine: str
    letters: dict[str, str]
    extents: dict[str, int]
    alpha: float
    beta: float
    stored: dict[str, np.ndarray]
    given: dict[str, np.ndarray] = field(default_factory=dict)
    before: dict[str, np.ndarray] = field(default_factory=dict)
    ld: dict[str, int] = field(default_factory=dict)
    real: type[np.floating] = np.float32

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in (self.letters | self.extents).items())
        return f"{self.routine} {told} alpha={self.alpha} beta={self.beta} ld={self.ld}"

    def value(self, name: str) -> object:
        """Of one of BLAS's arguments: a letter, an integer, a number, or an array."""
        if name in self.letters:
            return self.letters[name]
        if name in self.extents:
            return self.extents[name]
        return self.ld[name] if name in self.ld else self.stored[name] if name in self.stored else getattr(self, name)

    @property
    def arguments(self) -> list[object]:
        return [self.value(name) for name in ROUTINES[self.routine].arguments]

    # ---- what it should give

    def triangle(self) -> np.ndarray | None:
        """[n, n]: which elements of C are computed; None: all."""
        if "uplo" not in self.letters or "side" in self.letters:
            return None
        kept = np.tri(self.extents["n"], dtype=bool)
        return kept if self.letters["uplo"] == "L" else kept.T

    def _op(self, operand: str, letter: str) -> np.ndarray:
        x = self.given[operand]
        return x.T if self.letters.get(letter, "N") == "T" else x

    def _sum(self, of: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The product without alpha, of operands or of their magnitudes."""
        a = of(self._op("a", {"SGEMM": "transa", "SGEMMT": "transa"}.get(self.routine, "trans")))
        if self.routine == "SSYRK":
            return a @ a.T
        b = of(self._op("b", "transb" if "transb" in self.letters else "trans" if self.routine == "SSYR2K" else ""))
        if self.routine == "SSYR2K":
            return a @ b.T + b @ a.T
        return b @ a if self.letters.get("side") == "R" else a @ b

    def error(self) -> float:
        """The largest error in units of the type's epsilon times the sum of magnitudes, of elements that are computed; inf where one is not finite."""
        written = ROUTINES[self.routine].writes
        rows, columns = self.given[written].shape
        found = np.float64(self.stored[written][:, :rows].T)
        if self.routine == "STRSM":
            solved = replace(self, given=self.given | {"b": found})
            off = solved._sum(lambda x: x) - self.alpha * self.given["b"]
            gauge = solved._sum(np.abs) + abs(self.alpha) * np.abs(self.given["b"])
        else:
            wanted, gauge = np.zeros((rows, columns)), np.zeros((rows, columns))
            if self.alpha and min(self.given["a"].shape):
                wanted, gauge = wanted + self.alpha * self._sum(lambda x: x), gauge + abs(self.alpha) * self._sum(np.abs)
            if written == "c" and self.beta:
                wanted, gauge = wanted + self.beta * self.given["c"], gauge + np.abs(self.beta * self.given["c"])
            off = found - wanted
        kept = self.triangle()
        off, gauge = (off, gauge) if kept is None else (off[kept], gauge[kept])
        if not np.isfinite(off).all():
            return np.inf
        return float(np.divide(np.abs(off), np.finfo(self.real).eps * gauge, out=np.where(off == 0, 0.0, np.inf), where=gauge > 0).max(initial=0.0))

    def touched(self) -> list[str]:
        """Operands of which memory changed that may not: all but the elements that are computed."""
        found = []
        for name, x in self.stored.items():
            bits = np.dtype(f"u{x.itemsize}")
            same = (x.view(bits) == self.before[name].view(bits)).copy()
            if name == ROUTINES[self.routine].writes:
                rows, _ = self.given[name].shape
                kept = self.triangle()
                same[:, :rows] |= True if kept is None else kept.T
            if not same.all():
                found.append(name)
        return found


def call(routine: str, letters: Mapping[str, str], extents: Mapping[str, int], alpha: float, beta: float, seed: int = 0,
         real: type[np.floating] = np.float32) -> Call:
    """A call on random numbers in [-1/2, 1/2]."""
    rng = np.random.default_rng(seed)
    one = Call(routine, dict(letters), dict(extents), real(alpha), real(beta), {}, real=real)
    m, n, k = (extents.get(name, 0) for name in "mnk")
    side = m if letters.get("side") == "L" else n
    shapes = {
        "SGEMM": {"a": (m, k), "b": (k, n), "c": (m, n)}, "SGEMMT": {"a": (n, k), "b": (k, n), "c": (n, n)},
        "SSYMM": {"a": (side, side), "b": (m, n), "c": (m, n)}, "SSYRK": {"a": (n, k), "c": (n, n)}, "SSYR2K": {"a": (n, k), "b": (n, k), "c": (n, n)}, "STRMM": {"a": (side, side), "b": (m, n)},
        "STRSM": {"a": (side, side), "b": (m, n)},
    }[routine]
    of_b = letters.get("trans", "N") if routine == "SSYR2K" else letters.get("transb", "N")
    turned = {"a": letters.get("transa", letters.get("trans", "N")) == "T", "b": of_b == "T", "c": False}
    for name, shape in shapes.items():
        rows, columns = shape[::-1] if turned[name] and "side" not in letters else shape
        x = rng.uniform(-0.5, 0.5, (rows, columns)).astype(real)
        meant, memory = x, x.copy()
        if name == "a" and "side" in letters:
            meant, memory = _square(x, letters, routine)
        unread = one.alpha == 0 and name in "ab" and not (name == "b" and routine == "STRSM") or name == "c" and one.beta == 0
        one.given[name] = np.float64(meant)
        stored = np.full((columns, max(rows, 1) + GAP), np.nan, real)
        if not unread:
            stored[:, :rows] = memory.T
        if name == "c" and (kept := one.triangle()) is not None:
            stored[:, :rows][~kept.T] = np.nan
        one.stored[name], one.ld[f"ld{name}"] = stored, stored.shape[1]
    one.before = {name: x.copy() for name, x in one.stored.items()}
    return one


def _square(x: np.ndarray, letters: Mapping[str, str], routine: str) -> tuple[np.ndarray, np.ndarray]:
    """(the matrix that a triangle stands for, what memory holds of it)."""
    kept = np.tri(len(x), dtype=bool) if letters["uplo"] == "L" else np.tri(len(x), dtype=bool).T
    if routine == "STRSM" and len(x):  # so that its solution is no larger than the right side
        x = (x / len(x)).astype(np.float32) + np.eye(len(x), dtype=np.float32)
    memory = np.where(kept, x, np.nan).astype(np.float32)
    if routine == "SSYMM":
        half = np.where(kept, x, 0)
        return half + half.T - np.diag(np.diag(x)), memory
    meant = np.where(kept, x, 0)
    if letters["diag"] == "U":
        np.fill_diagonal(memory, np.nan)
        np.fill_diagonal(meant, 1)
    return meant, memory


def calls(routine: str, extents: Sequence[int] = EXTENTS, alphas: Sequence[float] = ALPHAS, betas: Sequence[float] = BETAS, seed: int = 0,
          real: type[np.floating] = np.float32) -> Iterator[Call]:
    """Every letter with every extent, alpha and beta."""
    of = ROUTINES[routine]
    for number, (letters, sizes, alpha, beta) in enumerate(product(
        product(*of.letters.values()), product(extents, repeat=len(of.extents)), alphas, betas if "beta" in of.arguments else (0.0,),
    )):
        yield call(routine, dict(zip(of.letters, letters)), dict(zip(of.extents, sizes)), alpha, beta, seed + number, real)


def some(routine: str, extents: Sequence[int], seed: int = 0, real: type[np.floating] = np.float32) -> Iterator[Call]:
    """Every letter once or twice, with extents, alphas and betas in turn."""
    of, rng = ROUTINES[routine], np.random.default_rng(seed)
    for number, letters in enumerate(product(*of.letters.values())):
        for alpha, beta in ((0.7, -0.4), (-1.3, 0.0)):
            sizes = {name: int(rng.choice(extents)) for name in of.extents}
            yield call(routine, dict(zip(of.letters, letters)), sizes, alpha, beta, seed + number, real)


def fault(run: Callable[[Call], int], one: Call) -> str:
    """What is wrong with a call; empty where nothing is."""
    if code := run(one):
        return f"{one}: code {code}"
    if touched := one.touched():
        return f"{one}: wrote to {' and '.join(touched)} where it may not"
    error = one.error()
    return f"{one}: error {error:.3g} of {THRESHOLD}" if not error <= THRESHOLD else ""


def faults(run: Callable[[Call], int], asked: Iterator[Call]) -> Iterator[str]:
    return filter(None, (fault(run, one) for one in asked))


def wrong_exits(run: Callable[[Call], int], routine: str) -> Iterator[str]:
    """Each argument that may be at fault, alone: a letter that is none, an extent below 0, a leading dimension below its extent."""
    of = ROUTINES[routine]
    for letters in product(*of.letters.values()):
        usual = call(routine, dict(zip(of.letters, letters)), dict.fromkeys(of.extents, 2), 1.0, 0.0)
        for place, name in enumerate(of.arguments, 1):
            one = replace(usual, letters=dict(usual.letters), extents=dict(usual.extents), ld=dict(usual.ld))
            if name in of.letters:
                one.letters[name] = "/"
            elif name in of.extents:
                one.extents[name] = -1
            elif name in one.ld:
                one.ld[name] = 1
            else:
                continue
            if (code := run(one)) != -place:
                yield f"{one}: {name}: code {code} and not {-place}"
            if touched := [x for x, y in one.stored.items() if not np.array_equal(y, usual.before[x], equal_nan=True)]:
                yield f"{one}: {name}: wrote to {touched}"
