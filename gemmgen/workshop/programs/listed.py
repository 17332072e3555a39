"""Programs as TOML files: a list of GEMMs with what feeds what, and what the host does between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gemmgen.catalog.table import IDENTIFIER, Strict, Title, absolute, file_of, parse, read_toml, shown
from gemmgen.errors import SpecError, UnknownName
from gemmgen.spec import MAX_EXTENT
from gemmgen.workshop.programs.operations import OPERATIONS, Shape
from gemmgen.workshop.programs.program import Gemm, Runner

MOST_ELEMENTS = 1 << 34
"""Of an input, a result or a step's work: 64 GB in FP32."""


Word = Annotated[str, Field(pattern=IDENTIFIER)]
Count = Annotated[int, Field(ge=1, le=MAX_EXTENT)]
Extent = Annotated[int | str, Field(description="a number, or a name under [sizes]")]
Real = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
Place = Annotated[tuple[Annotated[int, Field(ge=0, le=4096)], Annotated[int, Field(ge=0, le=4096)]], Field(strict=False)]


class Input(Strict):
    """A matrix that comes from outside."""

    shape: Annotated[tuple[Extent, Extent], Field(strict=False, description="rows and columns, each a number or a name under [sizes]")] | None = None
    distribution: Literal["uniform", "normal", "covariance"] = Field("uniform", description=(
        "uniform: between low and high; normal: of mean and deviation; covariance: exp(-distance / length) of random points of the unit cube, "
        "with nugget added on the diagonal, which is symmetric and positive definite"
    ))
    low: Real = Field(-1.0, description="least value of uniform data")
    high: Real = Field(1.0, description="largest value of uniform data")
    mean: Real = Field(0.0, description="of normal data")
    deviation: Annotated[float, Field(gt=0, le=1e30)] = Field(1.0, description="of normal data")
    nugget: Annotated[float, Field(gt=0, le=1e6)] = Field(0.1, description="what is added to a covariance's diagonal")
    length: Annotated[float, Field(gt=0, le=1e6)] = Field(0.1, description="over which a covariance falls to 1 / e")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(0, description="of the random numbers; two inputs want different ones")
    file: Annotated[str, Field(min_length=1, max_length=1000)] | None = Field(None, description="a .npy file, from the program's folder on")

    @model_validator(mode="after")
    def _one_source(self) -> Input:
        given = self.model_fields_set
        if self.file is not None and given != {"file"}:
            raise ValueError("a file alone, or a shape and a distribution")
        if self.file is None and self.shape is None:
            raise ValueError("a shape, or a file")
        belongs = {"low": "uniform", "high": "uniform", "mean": "normal", "deviation": "normal", "nugget": "covariance", "length": "covariance"}
        for name, distribution in belongs.items():
            if name in given and self.distribution != distribution:
                raise ValueError(f"{name} with distribution = {distribution!r} alone")
        if self.low >= self.high:
            raise ValueError("low below high")
        return self


class Step(Strict):
    """A GEMM, or an operation of the host."""

    name: Word = Field(description="what later steps call its result")
    gemm: Annotated[tuple[Word, ...], Field(strict=False, min_length=2, max_length=3)] | None = Field(None, description="A, B and, where beta C is added, C")
    op: Literal["nn", "nt", "tn", "tt"] = Field("nn", description="A, B as stored (n) or transposed (t)")
    alpha: Real = Field(1.0, description="factor of the product")
    beta: Real | None = Field(None, description="factor of C, 1 where nothing is said")
    host: Literal[*OPERATIONS] | None = Field(None, description="; ".join(f"{name}: {one.meaning}" for name, one in OPERATIONS.items()))
    of: Annotated[tuple[Word, ...], Field(strict=False, min_length=1, max_length=2000)] | None = Field(None, description="what the host's operation takes")
    grid: Place | None = Field(None, description="rows and columns of tiles that a matrix is cut into")
    at: Place | None = Field(None, description="row and column of the tile")

    @model_validator(mode="after")
    def _one_kind(self) -> Step:
        given = self.model_fields_set - {"name"}
        if (self.gemm is None) == (self.host is None):
            raise ValueError("gemm or host")
        allowed = {"gemm", "op", "alpha", "beta"} if self.gemm is not None else {"host", "of", "grid", "at"}
        if given - allowed:
            raise ValueError(f"{'gemm' if self.gemm is not None else 'host'} without {', '.join(sorted(given - allowed))}")
        if self.gemm is not None:
            if len(self.gemm) == 2 and self.beta is not None:
                raise ValueError("beta with a third matrix alone, C")
            return self
        assert self.host is not None
        one = OPERATIONS[self.host]
        if self.of is None or one.takes not in (None, len(self.of)):
            raise ValueError(f"{self.host} of {one.needs}")
        if one.places and (self.grid is None or self.at is None or 0 in self.grid):
            raise ValueError(f"{self.host} with grid, of 1 x 1 tiles at least, and at")
        if not one.places and (self.grid or self.at):
            raise ValueError(f"{self.host} without grid and at")
        return self


class ProgramFile(Strict):
    """A program as its file says it. See `specs/programs` for examples."""

    title: Title = Field(description="what it computes, in one line")
    output: Word = Field(description="the result whose error counts")
    gpu: Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,200}$")] | None = Field(None, description="a name under specs/gpus; --gpu overrides it")
    sizes: dict[Word, Count] = Field({}, description="extents by name, so that --size changes them")
    inputs: dict[Word, Input] = Field(min_length=1, description="matrices that come from outside")
    steps: Annotated[tuple[Step, ...], Field(strict=False, min_length=1, max_length=2000)] = Field(description="what is done, in order")


# ---- a program out of it


Read = Callable[[str, Path], np.ndarray]
"""(place for messages, path) -> the FP32 matrix of a .npy file."""


class Inputs(Mapping[str, np.ndarray]):
    """A program's inputs, each made when it is asked for and kept."""

    def __init__(self, made: Mapping[str, Callable[[], np.ndarray]]):
        self._made, self._kept = made, {}

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._kept:
            self._kept[name] = self._made[name]()
        return self._kept[name]

    def __iter__(self) -> Any:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def drawn(given: Input, shape: Shape) -> np.ndarray:
    """Random data [rows, columns], drawn in FP64 and rounded to FP32."""
    draw = np.random.default_rng(given.seed)
    if given.distribution == "uniform":
        return draw.uniform(given.low, given.high, shape).astype(np.float32)
    if given.distribution == "normal":
        return draw.normal(given.mean, given.deviation, shape).astype(np.float32)
    points, out = draw.random((shape[0], 3)), np.empty(shape, np.float32)
    squares = (points**2).sum(axis=1)
    for at in range(0, shape[0], 1024):
        rows = slice(at, at + 1024)
        distance = np.sqrt(np.maximum(squares[rows, None] + squares - 2 * points[rows] @ points.T, 0.0))
        out[rows] = np.exp(-distance / given.length)
    out[np.arange(shape[0]), np.arange(shape[0])] = 1.0 + given.nugget
    return out


@dataclass(frozen=True)
class Listed:
    """A program of a file, its shapes checked: satisfies `Program`."""

    name: str
    title: str
    output: str
    gpu: str | None
    inputs: Mapping[str, np.ndarray]
    gemms: tuple[Gemm, ...]
    steps: tuple[Step, ...] = field(repr=False)

    @cached_property
    def _behind(self) -> Mapping[str, frozenset[int]]:
        """Of each value's name, the GEMMs whose levels it depends on."""
        return _traced(self.steps, self.inputs, through=True)

    def run(self, runner: Runner) -> Any:
        """The output, by who computes."""
        values: dict[str, Any] = {name: runner.input(name) for name in self.inputs}
        at = 0
        for step in self.steps:
            if step.gemm:
                a, b, *c = (values[name] for name in step.gemm)
                values[step.name] = runner.gemm(at, a, b, c[0] if c else None)
                at += 1
            else:
                of = [values[name] for name in step.of]
                values[step.name] = runner.host(step.name, self._behind[step.name], step.host, of, step.grid, step.at)
        return values[self.output]


def _traced(steps: Sequence[Step], inputs: Mapping[str, Any], through: bool) -> dict[str, frozenset[int]]:
    """Of each value's name the GEMMs that it depends on; of those behind another GEMM only where `through` says so."""
    found: dict[str, frozenset[int]] = dict.fromkeys(inputs, frozenset())
    at = 0
    for step in steps:
        reached = frozenset().union(*(found[name] for name in step.gemm or step.of))
        if step.gemm:
            found[step.name] = frozenset({at}) | (reached if through else frozenset())
            at += 1
        else:
            found[step.name] = reached
    return found


def load_program(
    path: str | Path, *, sizes: Mapping[str, int] | None = None, arrays: Mapping[str, np.ndarray] | None = None, read: Read | None = None,
) -> Listed:
    """A program from its file.

    Args:
        path: a .toml file, or the name of one under specs/programs.
        sizes: instead of those under [sizes].
        arrays: inputs of one's own by name, FP32, instead of the file's.
        read: reads the .npy files that inputs name.

    Raises:
        SpecError, UnknownName: the file, a size or a shape in it is not acceptable.
    """
    path = file_of(path, "program", "programs")
    place = shown(path)
    file = parse(ProgramFile, read_toml(path), place)
    return listed(file, place, path.stem, folder=absolute(path).parent, sizes=sizes, arrays=arrays, read=read)


def listed(
    file: ProgramFile, place: str, name: str, *, folder: Path | None = None, sizes: Mapping[str, int] | None = None,
    arrays: Mapping[str, np.ndarray] | None = None, read: Read | None = None,
) -> Listed:
    """A program out of what its file says; arguments and errors as `load_program`."""
    known = dict(file.sizes)
    for size, value in (sizes or {}).items():
        if size not in known:
            raise UnknownName("--size", "size", size, known)
        if not 1 <= value <= MAX_EXTENT:
            raise SpecError(f"--size {size}", "is out of range", got=value, needs=f"1 to {MAX_EXTENT}", remedy=f"--size {size}={known[size]}")
        known[size] = value
    made, shapes = {}, {}
    for which in arrays or {}:
        if which not in file.inputs:
            raise UnknownName("arrays", "input", which, file.inputs)
    for which, given in file.inputs.items():
        made[which], shapes[which] = _input(f"{place}: [inputs] {which}", which, given, known, folder, arrays or {}, read)
    for number, step in enumerate(file.steps):
        where = f"{place}: [steps] {number} ({step.name})"
        for of in step.gemm or step.of:
            if of not in shapes:
                raise UnknownName(where, "matrix", of, shapes)
        if step.name in shapes:
            raise SpecError(where, "has the name of another matrix", got=step.name, needs="a name that no input and no step before it has",
                            remedy="another name")
        shapes[step.name] = _gemm_shape(where, step, shapes) if step.gemm else _host_shape(where, step, shapes)
    if file.output not in shapes:
        raise UnknownName(f"{place}: output", "matrix", file.output, shapes)
    feeders, behind_output = _traced(file.steps, made, through=False), _traced(file.steps, made, through=True)[file.output]
    gemms = tuple(_gemm(step, shapes, feeders) for step in file.steps if step.gemm)
    if not gemms:
        raise SpecError(f"{place}: steps", "have no GEMM", needs="a step with gemm = [A, B]", remedy="see specs/programs for examples")
    for at, gemm in enumerate(gemms):
        if at not in behind_output:
            raise SpecError(f"{place}: output", f"does not depend on the GEMM {gemm.name}", got=file.output, needs="an output that every GEMM reaches",
                            remedy=f"another output, or leave {gemm.name} out")
    return Listed(name, file.title, file.output, file.gpu, Inputs(made), gemms, file.steps)


def _input(
    where: str, name: str, given: Input, known: Mapping[str, int], folder: Path | None, arrays: Mapping[str, np.ndarray], read: Read | None,
) -> tuple[Callable[[], np.ndarray], Shape]:
    """What makes an input, and its shape."""
    if name in arrays:
        array = arrays[name]
        if array.ndim != 2 or array.dtype != np.float32 or not array.size:
            raise SpecError(where, "is not a matrix of float32", got=f"{array.dtype} of shape {array.shape}", needs="two dimensions",
                            remedy="x.astype(numpy.float32)")
        return lambda: array, array.shape
    if given.file is not None:
        if read is None:
            raise SpecError(where, "is in a file that nobody here reads", got=given.file, needs="the matrix", remedy=f"arrays={{{name!r}: numpy.load(path)}}")
        array = read(where, (folder or Path()) / given.file)
        return lambda: array, array.shape
    extents = []
    for extent in given.shape or ():
        if isinstance(extent, str) and extent not in known:
            raise UnknownName(f"{where}.shape", "size", extent, known)
        value = known[extent] if isinstance(extent, str) else extent
        if not 1 <= value <= MAX_EXTENT:
            raise SpecError(f"{where}.shape", "is out of range", got=value, needs=f"1 to {MAX_EXTENT}", remedy="another extent")
        extents.append(value)
    rows, columns = extents
    if rows * columns > MOST_ELEMENTS:
        raise SpecError(f"{where}.shape", "is too large", got=f"{rows} x {columns}", needs=f"at most {MOST_ELEMENTS} elements", remedy="smaller sizes")
    if given.distribution == "covariance" and rows != columns:
        raise SpecError(f"{where}.shape", "is not square", got=f"{rows} x {columns}", needs="a square shape for a covariance", remedy="one size for both")
    return lambda: drawn(given, (rows, columns)), (rows, columns)


def _factors(step: Step, shapes: Mapping[str, Shape]) -> tuple[Shape, Shape]:
    """[M, K] and [K, N] as the formula reads."""
    (a, b), op = (shapes[name] for name in step.gemm[:2]), step.op
    return a if op[0] == "n" else a[::-1], b if op[1] == "n" else b[::-1]


def _gemm_shape(where: str, step: Step, shapes: Mapping[str, Shape]) -> Shape:
    left, right = _factors(step, shapes)
    if left[1] != right[0]:
        raise SpecError(where, "multiplies matrices that do not fit", got=f"op(A) {list(left)}, op(B) {list(right)}", needs="[M, K] and [K, N]",
                        remedy="another op, or other matrices")
    out = left[0], right[1]
    if len(step.gemm) == 3 and shapes[step.gemm[2]] != out:
        raise SpecError(where, "adds a C that does not fit", got=list(shapes[step.gemm[2]]), needs=str(list(out)), remedy="another C")
    if out[0] * out[1] > MOST_ELEMENTS:
        raise SpecError(where, "is too large", got=f"{out[0]} x {out[1]}", needs=f"at most {MOST_ELEMENTS} elements", remedy="smaller sizes")
    return out


def _host_shape(where: str, step: Step, shapes: Mapping[str, Shape]) -> Shape:
    of = [shapes[name] for name in step.of]
    out = OPERATIONS[step.host].shape(of, step.grid, step.at)
    if out is None:
        placed = f", grid {list(step.grid)}, at {list(step.at)}" if step.grid and step.at else ""
        raise SpecError(where, f"{step.host} does not take such matrices", got=", ".join(str(list(shape)) for shape in of) + placed,
                        needs=OPERATIONS[step.host].needs, remedy="other sizes or matrices")
    return out


def _gemm(step: Step, shapes: Mapping[str, Shape], feeders: Mapping[str, frozenset[int]]) -> Gemm:
    (m, k), (_, n) = _factors(step, shapes)
    beta = 0.0 if len(step.gemm) == 2 else 1.0 if step.beta is None else step.beta
    return Gemm(step.name, m, n, k, step.op, step.alpha, beta, tuple(sorted(frozenset().union(*(feeders[name] for name in step.gemm)))))
