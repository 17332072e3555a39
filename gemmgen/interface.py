"""What kernels agree on with whoever calls them, as data: buffers of the workspace, counters, launches and their parameters.

`gemmgen.abi` derives the table of a plan's kernels; a kind of product adds parameters of its own (`gemmgen.kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

WORKSPACE_ALIGNMENT = 256
"""Bytes: of the workspace and of every buffer in it."""
STATUS = "status"
"""The buffer of the counters."""
BATCH = "batch"
"""The argument and the extent that tell how many products a launch is for."""
TILES = "tiles"
"""The extent that tells how many tiles of C a launch computes, of a kind of product that does not compute all."""
SOLVE = "solve"
"""The role of a launch that solves for a block of unknowns."""
COUNTER_BYTES = 8
Grid = tuple[tuple[tuple[str, int], ...], ...]


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Buffer:
    """A part of the workspace. Buffers follow one another, each aligned.

    Attributes:
        element: the C type of what lies there.
        factor, of, per: its bytes are the factor times these extents, divided by `per`.
        above_k: it is there only where k is larger.
        zeroed: whether it must be zero before the first kernel runs.
        zeroed_again: whether it must be zero before each further product in the same workspace, too; where not,
            the kernels leave it as the next product wants it, or count on.
    """

    name: str
    element: str
    factor: int
    of: tuple[str, ...]
    zeroed: bool
    meaning: str
    per: int = 1
    zeroed_again: bool = False
    above_k: int = 0

    def bytes(self, extents: Mapping[str, int]) -> int:
        if self.above_k and extents["k"] <= self.above_k:
            return 0
        return self.factor * prod(extents[extent] for extent in self.of) // self.per


@dataclass(frozen=True)
class Counter:
    """A 64-bit integer among the counters."""

    name: str
    meaning: str


@dataclass(frozen=True)
class Counters:
    """Counters that one kernel parameter points to, `offset` bytes from the start of theirs."""

    name: str
    offset: int
    fields: tuple[Counter, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel, and where its value comes from: the call, or the workspace.

    Attributes:
        element: the C type of the value, or of what a pointer points to.
        argument: the argument of the call that is passed on; None where `region` is.
        region, offset: the buffer of the workspace that it points to, and bytes from its start.
    """

    name: str
    element: str
    meaning: str
    pointer: bool = False
    const: bool = False
    restrict: bool = False
    argument: str | None = None
    region: str | None = None
    offset: int = 0

    @property
    def type(self) -> str:
        """The C type."""
        return f"{'const ' * self.const}{self.element}{'*' * self.pointer}"

    @property
    def kind(self) -> str:
        """How it is passed: as a `pointer`, `int`, `long long`, `float` or `double`."""
        return "pointer" if self.pointer else self.element

    @property
    def value(self) -> dict[str, Any]:
        """Where the value comes from, as plain data."""
        return {"argument": self.argument} if self.region is None else {"region": self.region, "offset": self.offset}


@dataclass(frozen=True)
class Line:
    """Parameters that stand on one line of the kernel's signature, and the comment after them."""

    parameters: tuple[Parameter, ...]
    comment: str = ""


@dataclass(frozen=True)
class Launch:
    """One kernel launch, as data: what a runner or another project's host code does.

    Attributes:
        symbol: the kernel's name in the binary.
        role: what it is for: `absmax`, `norms`, `split`, `flags`, `gemm`, `fallback` or `solve`; `meaning` says it in words.
        grid: the (one-dimensional) grid as a sum of products: each factor is a
            (dimension, tile) that stands for ceil(extent / tile), where dimension
            is m, n, k, or m_padded, n_padded, k_padded, the extents the packed
            stages cover, or split_k, the slices of k, or cluster, blocks of one,
            or batch, the products of a batch.
        threads: of a block.
        shared_bytes: dynamic shared memory.
        lines: the kernel's parameters in order, by lines of its signature.
        most_blocks: where blocks work off one tile after another, as many as the GPU
            holds at once; more do not help.
        cluster: blocks of a cluster, which the kernel declares itself.
        overlaps: whether it may start while the launch before it in this list still runs, of a
            round's first launch the last one of the round before: it waits for that one's
            results itself. Where that one is skipped, or memory is set between them, it may not.
        same_b: of a split pass whose B may be that of the launch before: the part of its grid
            that takes A; None elsewhere.
    """

    symbol: str
    role: str
    meaning: str
    grid: Grid
    threads: int
    shared_bytes: int
    lines: tuple[Line, ...]
    most_blocks: int | None = None
    cluster: int = 1
    overlaps: bool = False
    same_b: Grid | None = None

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(parameter for line in self.lines for parameter in line.parameters)

    @property
    def params(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(parameter.name for parameter in self.parameters)

    def blocks(self, extents: Mapping[str, int]) -> int:
        """Blocks to launch; 0 means that there is nothing to do."""
        return self._blocks(self.grid, extents)

    def blocks_same_b(self, extents: Mapping[str, int]) -> int:
        """The same where B's words are there from the launch before: a split pass's first blocks take A."""
        return self._blocks(self.grid if self.same_b is None else self.same_b, extents)

    def _blocks(self, grid: Grid, extents: Mapping[str, int]) -> int:
        wanted = sum(prod(-(-extents[dimension] // tile) for dimension, tile in product) for product in grid)
        return min(wanted, self.most_blocks or wanted)


@dataclass(frozen=True)
class Round:
    """One of several times that a call's launches run, each for parts of its operands.

    Attributes:
        solves: whether its launch is that of the role `solve`; else its launches are all others.
        m, n, k, alpha, beta: in place of the call's.
        at: by argument, the operand of the call that it points into, and the stored row and column there; without those that stay as they are.
    """

    solves: bool
    m: int
    n: int
    k: int
    alpha: complex
    beta: complex
    at: Mapping[str, tuple[str, int, int]]

    def given(self, call: Mapping[str, Any], moved: Callable[[Any, int], Any]) -> dict[str, Any]:
        """The call's arguments by name with the round's in place of them.

        Args:
            call: its operands, their leading dimensions and, of a batch, their strides among them.
            moved: (operand, elements) -> what points so far into it.
        """
        parts = {name: moved(call[of], row * call[f"ld{of}"] + column) for name, (of, row, column) in self.at.items()}
        steps = {f"{step}{name}": call[f"{step}{of}"] for name, (of, _, _) in self.at.items() for step in ("ld", "stride_") if step + of in call}
        factors = {"alpha": self.alpha.real, "alpha_i": self.alpha.imag, "beta": self.beta.real, "beta_i": self.beta.imag}
        return {**call, **parts, **steps, **factors, "m": self.m, "n": self.n, "k": self.k}


@dataclass(frozen=True)
class Workspace:
    """Where everything lies for one problem size.

    Attributes:
        offsets, lengths: bytes, by buffer.
        zeroed: bytes from the start that must be zero before the first kernel runs.
        bytes: of the whole.
    """

    offsets: Mapping[str, int]
    lengths: Mapping[str, int]
    zeroed: int
    bytes: int


@dataclass(frozen=True)
class Interface:
    """All of it, for one plan.

    Attributes:
        constants: what grids ask besides extents: `split_k`, the slices of k, and `cluster`, blocks of one.
        padded: each extent that is rounded up: from what, and to a multiple of what.
        tiles: (m, n) -> the extent `tiles`, of a kind of product that does not compute all tiles of C; None where it does.
        buffers: of the workspace, those to be zeroed first.
        launches: in order.
        rounds: (m, n, k, alpha, beta) -> how often the launches run and for which parts of the operands, in order; None where they run once.
        largest: (m, n) -> m, n and k that no round exceeds, which the workspace is for.
    """

    constants: Mapping[str, int]
    padded: Mapping[str, tuple[str, int]]
    buffers: tuple[Buffer, ...]
    counters: tuple[Counters, ...]
    launches: tuple[Launch, ...]
    tiles: Callable[[int, int], int] | None = None
    rounds: Callable[[int, int, int, complex, complex], Sequence[Round]] | None = None
    largest: Callable[[int, int], tuple[int, int, int]] | None = None

    def __post_init__(self) -> None:
        names = [buffer.name for buffer in self.buffers]
        zeroed = [buffer.zeroed for buffer in self.buffers]
        if names[0] != STATUS:
            raise ValueError(f"the counters do not come first: {names}")
        if sorted(zeroed, reverse=True) != zeroed:
            raise ValueError(f"buffers that are zeroed do not come first: {names}")
        for parameter in (parameter for launch in self.launches for parameter in launch.parameters):
            if (parameter.argument is None) == (parameter.region is None):
                raise ValueError(f"parameter {parameter.name} comes from one of the call and the workspace")
            if parameter.region is not None and parameter.region not in names:
                raise ValueError(f"parameter {parameter.name} points to {parameter.region}, which is not in the workspace")

    @property
    def batched(self) -> bool:
        """Whether a launch is for a batch of products, which its extent `batch` tells."""
        return self.asks(BATCH) or any(extent == BATCH for launch in self.launches for product in launch.grid for extent, _ in product)

    def asks(self, argument: str) -> bool:
        """Whether a launch passes on this argument of the call."""
        return any(parameter.argument == argument for launch in self.launches for parameter in launch.parameters)

    @property
    def of_products(self) -> Interface:
        """The launches of its rounds' products alone, for one product."""
        return replace(self, launches=self.launches_of(solves=False), rounds=None, largest=None)

    def launches_of(self, solves: bool) -> tuple[Launch, ...]:
        """Those of the rounds that solve, or of the others, in order."""
        return tuple(launch for launch in self.launches if (launch.role == SOLVE) == solves)

    def extents(self, m: int, n: int, k: int, batch: int = 1) -> dict[str, int]:
        """What grids and buffers call the sizes: m, n, k, the padded ones, the products of a batch and the constants.

        Where C has no elements, all sizes count as 0.
        """
        if not (m and n and batch):
            m = n = k = batch = 0
        sizes = {"m": m, "n": n, "k": k} | ({BATCH: batch} if self.batched else {}) | ({TILES: self.tiles(m, n)} if self.tiles else {})
        return sizes | {name: round_up(sizes[of], unit) for name, (of, unit) in self.padded.items()} | self.constants

    def workspace(self, m: int, n: int, k: int, batch: int = 1) -> Workspace:
        """Layout of the workspace for a problem [m, n, k], or for `batch` of them."""
        m, n, k = self.largest(m, n) if self.largest else (m, n, k)
        return self.laid_out(self.extents(m, n, k, batch))

    def laid_out(self, extents: Mapping[str, int]) -> Workspace:
        """Layout of the workspace for these extents, as grids and buffers call them."""
        offsets: dict[str, int] = {}
        lengths = {buffer.name: buffer.bytes(extents) for buffer in self.buffers}
        end = zeroed = 0
        for buffer in self.buffers:
            offsets[buffer.name] = end = round_up(end, WORKSPACE_ALIGNMENT)
            end += lengths[buffer.name]
            zeroed = end if buffer.zeroed else zeroed
        return Workspace(offsets, lengths, zeroed, round_up(end, WORKSPACE_ALIGNMENT))

    def places(self, buffer: Buffer) -> dict[int, str]:
        """Offsets in a buffer at which something of its own begins, and its name: parameters point there."""
        named = [(one.offset, one.name) for one in self.counters if buffer.name == STATUS]
        pointing = [(one.offset, one.name) for launch in self.launches for one in launch.parameters if one.region == buffer.name]
        return dict(sorted({0: buffer.name, **dict(pointing), **dict(named)}.items()))


def given(name: str, element: str, meaning: str, **pointer: bool) -> Parameter:
    """A parameter that passes on the argument of its name."""
    return Parameter(name, element, meaning, argument=name, **pointer)
