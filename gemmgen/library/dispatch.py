"""Dispatch tables: which of a few kernels a product gets, by its sizes, layout and GPU, as rules that a person can read.

    table = load_table("dispatch.json")
    select(table, "h200", "nn", 4096, 4096, 1024).spec

A rule asks that sizes be at most so large; the first of a list that holds counts, and the last asks for nothing. Beside the rules each kernel has an
estimate of its time, a sum of five terms, and a part of the table may say that the kernel with the least estimate is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from gemmgen.catalog.table import Strict, Title, parse, schema_of
from gemmgen.decisions import BLOCK, SPLIT_K
from gemmgen.errors import SpecError
from gemmgen.files import read

VERSION = 1
MOST_BYTES = 1 << 24

MEASURES = ("m", "n", "k", "mn")
"""What rules ask of a product: its sizes, and how many elements C has."""

Bound = Annotated[int, Field(ge=0, le=1 << 62)]
Label = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]
Ratio = Annotated[float, Field(ge=1, allow_inf_nan=False)]


class Rule(Strict):
    """`kernel` is taken where each measure is at most its bound and no rule before holds."""

    at_most: dict[Literal[MEASURES], Bound] = Field({}, description="the largest value of each measure that the rule asks something of; mn is m times n")
    kernel: Label = Field(description="a key of `kernels`")

    def holds(self, measures: Mapping[str, int]) -> bool:
        """Whether it serves a product of these measures."""
        return all(measures[name] <= most for name, most in self.at_most.items())

    def __str__(self) -> str:
        told = [f"{'m n' if name == 'mn' else name} <= {most}" for name, most in sorted(self.at_most.items(), key=lambda one: MEASURES.index(one[0]))]
        return " and ".join(told) or "otherwise"


Seconds = Annotated[float, Field(ge=0, le=1e3, allow_inf_nan=False)]
Extent = Annotated[int, Field(ge=BLOCK.least, le=BLOCK.most)]


class Estimate(Strict):
    """Seconds of a product: launch + waves (wave + step ceil(k / slices)) + operand (m k + k n) + output m n,
    where waves = ceil(ceil(m / tile m) ceil(n / tile n) slices / sms)."""

    tile: Annotated[tuple[Extent, Extent], Field(strict=False)] = Field(description="m and n of a thread block")
    slices: Annotated[int, Field(ge=SPLIT_K.least, le=SPLIT_K.most)] = Field(description="slices of k")
    sms: Annotated[int, Field(ge=1, le=4096)] = Field(description="of the GPU")
    launch: Seconds = Field(description="seconds of any product")
    wave: Seconds = Field(description="seconds of a wave of blocks")
    step: Seconds = Field(description="seconds of a wave and one k of a slice")
    operand: Seconds = Field(description="seconds of an element of A or B")
    output: Seconds = Field(description="seconds of an element of C")

    @staticmethod
    def terms(tile: Sequence[int], slices: int, sms: int, m: Any, n: Any, k: Any, batch: Any = 1) -> np.ndarray:
        """What the five coefficients are multiplied by, [5] or [5, sizes]; whole numbers up to 2^53 are exact."""
        m, n, k, batch = (np.asarray(one, float) for one in (m, n, k, batch))
        waves = np.ceil(np.ceil(m / tile[0]) * np.ceil(n / tile[1]) * slices * batch / sms)
        return np.stack([np.ones_like(m), waves, waves * np.ceil(k / slices), (m * k + k * n) * batch, m * n * batch])

    def seconds(self, m: Any, n: Any, k: Any, batch: Any = 1) -> np.ndarray:
        """Of `batch` products in one launch, of these sizes, numbers or [sizes] each: tiles, operands and outputs are those of all."""
        return np.array([self.launch, self.wave, self.step, self.operand, self.output]) @ self.terms(self.tile, self.slices, self.sms, m, n, k, batch)

    def __str__(self) -> str:
        told = [f"{1e6 * self.launch:.3g}"] if self.launch else []
        inner = [f"{1e6 * self.wave:.3g}"] * bool(self.wave) + [f"{1e9 * self.step:.3g} k / {1000 * self.slices}"] * bool(self.step)
        told += [f"waves ({' + '.join(inner)})"] if inner else []
        told += [f"{1e12 * self.operand:.3g} (m + n) k / 10^6"] * bool(self.operand) + [f"{1e12 * self.output:.3g} m n / 10^6"] * bool(self.output)
        tiles = f"ceil(m / {self.tile[0]}) ceil(n / {self.tile[1]})" + (f" {self.slices}" if self.slices > 1 else "")
        return f"{' + '.join(told) or '0'} us, waves = ceil({tiles} / {self.sms})"


class Kernel(Strict):
    """A kernel of the table.

    Attributes:
        spec: all its decisions, as a spec file's sections.
    """

    name: Annotated[str, Field(max_length=200)] = Field(description="the kernel's name where it was measured")
    identity: Annotated[str, Field(max_length=200)] = Field(description="the plan's hash")
    gpu: Annotated[str, Field(max_length=200)]
    layout: Literal["nn", "nt", "tn", "tt"]
    error: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(None, description="largest relative Frobenius error it was seen to have")
    estimate: Estimate
    spec: dict[str, dict[str, Any]] = Field(description="a spec with every decision fixed; its sizes are a hint, the kernel takes any")


class Regret(Strict):
    """How much longer products take than with the best kernel that is known, as ratios of times; means are geometric, by weight."""

    shapes: Annotated[int, Field(ge=0)] = Field(description="how many shapes")
    measured: Annotated[float, Field(ge=0, le=1)] = Field(
        description="the share of them where the kernel that is taken was timed; of the others it is predicted"
    )
    chosen: Ratio = Field(description="the best of the chosen kernels at each shape")
    rules: Ratio = Field(description="the kernels that the rules take")
    estimates: Ratio = Field(description="those with the least estimates")
    worst: Ratio = Field(description="the worst shape, of what the part takes: rules or estimates")
    alone: Ratio = Field(description="one kernel for all, the best one")


class Part(Strict):
    """The rules of a GPU and layout."""

    gpu: Annotated[str, Field(max_length=200)]
    layout: Literal["nn", "nt", "tn", "tt"]
    decided_by: Literal["rules", "estimates"] = Field("rules", description="what takes a kernel: the first rule that holds, or the least estimate")
    rules: Annotated[tuple[Rule, ...], Field(min_length=1, strict=False)]
    regret: Regret | None = None
    held_out: Regret | None = Field(None, description="of shapes that kernels and rules were not chosen by")

    @model_validator(mode="after")
    def _ends(self) -> Part:
        if self.rules[-1].at_most:
            raise ValueError("a last rule that asks for nothing, so that every product has a kernel")
        return self


class Table(Strict):
    """A dispatch table."""

    gemmgen_dispatch: Literal[VERSION] = Field(VERSION, description="the version of this format")
    title: Title
    generator: Annotated[str, Field(max_length=200)] = ""
    kernels: Annotated[dict[Label, Kernel], Field(min_length=1)]
    parts: Annotated[tuple[Part, ...], Field(min_length=1, strict=False)]

    @model_validator(mode="after")
    def _known(self) -> Table:
        for part in self.parts:
            for rule in part.rules:
                one = self.kernels.get(rule.kernel)
                if one is None or (one.gpu, one.layout) != (part.gpu, part.layout):
                    raise ValueError(f"rules of {part.gpu}, {part.layout} that name kernels for it, which {rule.kernel} is not")
        if len({(part.gpu, part.layout) for part in self.parts}) < len(self.parts):
            raise ValueError("one list of rules for each GPU and layout")
        return self


def json_schema() -> dict[str, Any]:
    """The JSON schema of a dispatch table."""
    return schema_of(Table, "gemmgen dispatch table")


def load_table(path: str | Path) -> Table:
    """A table that `gemmgen study choose` wrote.

    Raises:
        SpecError: it cannot be read, or is no such table.
    """
    import json

    try:
        value = json.loads(read(path, MOST_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(str(path), "cannot be read as a dispatch table", got=getattr(error, "strerror", None) or str(error)[:200],
                        needs="the JSON that gemmgen study choose writes", remedy="gemmgen study choose STORE -o dispatch.json") from None
    return parse(Table, value, str(path))


def select(table: Table, gpu: str, layout: str, m: int, n: int, k: int) -> Kernel:
    """The kernel of a product, [m, k] by [k, n].

    Raises:
        SpecError: the table has no rules for the GPU and layout.
    """
    part = next((one for one in table.parts if (one.gpu, one.layout) == (gpu, layout)), None)
    if part is None:
        raise SpecError("dispatch table", "has no rules for this GPU and layout", got=f"{gpu}, {layout}",
                        needs=" or ".join(f"{one.gpu}, {one.layout}" for one in table.parts), remedy="gemmgen study choose with rows of it")
    if part.decided_by == "estimates":
        mine = [one for one in table.kernels.values() if (one.gpu, one.layout) == (gpu, layout)]
        return min(mine, key=lambda one: float(one.estimate.seconds(m, n, k)))
    measures = {"m": m, "n": n, "k": k, "mn": m * n}
    return table.kernels[next(rule for rule in part.rules if rule.holds(measures)).kernel]


def as_lines(table: Table, part: Part) -> list[tuple[str, str]]:
    """What takes a kernel of a GPU and layout: (the rule, or the estimate; the kernel's label) each."""
    if part.decided_by == "rules":
        return [(str(rule), rule.kernel) for rule in part.rules]
    return [(str(one.estimate), label) for label, one in table.kernels.items() if (one.gpu, one.layout) == (part.gpu, part.layout)]


def as_text(table: Table, part: Part) -> str:
    """The same, a line each."""
    if part.decided_by == "estimates":
        return "\n".join(f"{label}  {told}" for told, label in as_lines(table, part))
    width = max(len(str(rule)) for rule in part.rules)
    return "\n".join(f"{str(rule):<{width}}  {rule.kernel}" for rule in part.rules)


# ---- learning rules and estimates


def estimated(seconds: np.ndarray, sizes: np.ndarray, weights: np.ndarray, tile: Sequence[int], slices: int, sms: int) -> Estimate:
    """The estimate whose relative errors have the least squares, by weight.

    Args:
        seconds: [shapes] of the kernel.
        sizes: [shapes, 3] of m, n, k, or [shapes, 4] with the products of one launch.
        weights: [shapes].

    """
    relative = Estimate.terms(tile, slices, sms, *sizes.T).T / seconds[:, None]
    scale = relative.max(axis=0)  # terms are of many magnitudes, and what solves for them compares with one
    root = np.sqrt(weights)
    found = non_negative(relative / scale * root[:, None], root) / scale
    named = zip(("launch", "wave", "step", "operand", "output"), (float(f"{one:.4g}") for one in found))
    return Estimate(tile=tuple(tile), slices=slices, sms=sms, **dict(named))


def non_negative(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """x >= 0, [few], with the least |matrix x - wanted|: where some of it is zero, the rest has the least squares of its own columns, so all ways are tried.

    Args:
        matrix: [rows, few]; 2^few least squares are solved.
        wanted: [rows].
    """
    few = matrix.shape[1]
    best, found = float(wanted @ wanted), np.zeros(few)
    for taken in itertools.product((False, True), repeat=few):
        columns = np.flatnonzero(taken)
        solved = np.linalg.lstsq(matrix[:, columns], wanted, rcond=None)[0] if len(columns) else np.zeros(0)
        if (solved < 0).any():
            continue
        off = matrix[:, columns] @ solved - wanted
        if float(off @ off) < best:
            best, found = float(off @ off), np.zeros(few)
            found[columns] = solved
    return found


def measures_of(sizes: np.ndarray) -> dict[str, np.ndarray]:
    """What rules ask of products.

    Args:
        sizes: [products, 3] of m, n, k.
    """
    m, n, k = sizes.astype(np.int64).T
    return {"m": m, "n": n, "k": k, "mn": m * n}


def learnt(costs: np.ndarray, sizes: np.ndarray, weights: np.ndarray, most: int, least: float = 5e-4, few: int = 1) -> list[tuple[dict[str, int], int]]:
    """Rules that take a kernel for every shape: [(largest measures, kernel)], the first that holds counts.

    A tree of thresholds, grown at the leaf that gains most, each leaf with the kernel that costs its shapes the least. Told from its small
    sides to its large ones it is a list in which a rule need only say how large measures may be: what is smaller has been served before.

    Args:
        costs: [kernels, shapes], of which the weighted mean is to be small.
        sizes: [shapes, 3] of m, n, k.
        weights: [shapes], adding up to 1.
        most: rules at the most.
        least: what a further rule must gain.
        few: shapes that each side of a threshold must have at least.
    """
    measures, weighed = measures_of(sizes), costs * weights
    root = _Leaf({}, np.arange(len(sizes)))
    leaves = [root]
    while len(leaves) < most:
        for leaf in leaves:
            leaf.split = leaf.split or _best_split(weighed, measures, leaf.shapes, few)
        leaf = max(leaves, key=lambda one: one.split[0])
        gain, name, threshold = leaf.split
        if gain <= least:
            break
        small = measures[name][leaf.shapes] <= threshold
        bound = {**leaf.at_most, name: min(threshold, leaf.at_most.get(name, threshold))}
        at = leaves.index(leaf)
        leaves[at : at + 1] = [_Leaf(bound, leaf.shapes[small]), _Leaf(leaf.at_most, leaf.shapes[~small])]
    return _without_idle([(leaf.at_most, int(weighed[:, leaf.shapes].sum(axis=1).argmin())) for leaf in leaves])


class _Leaf:
    """Shapes that one rule serves. `split`: (gain, measure, threshold) of the best way to part them, once that was sought."""

    def __init__(self, at_most: Mapping[str, int], shapes: np.ndarray):
        self.at_most, self.shapes = dict(at_most), shapes
        self.split: tuple[float, str, int] | None = None


def _best_split(weighed: np.ndarray, measures: Mapping[str, np.ndarray], shapes: np.ndarray, few: int) -> tuple[float, str, int]:
    """The measure and threshold that part shapes best, and what that gains; (0, "", 0) where nothing does."""
    best = (0.0, "", 0)
    whole = weighed[:, shapes].sum(axis=1).min()
    for name, values in measures.items():
        order = shapes[np.argsort(values[shapes], kind="stable")]
        sums, there = weighed[:, order].cumsum(axis=1), rounded_up(values[order])
        ends = np.flatnonzero(there[1:] > there[:-1])  # after which a threshold can stand
        ends = ends[(ends + 1 >= few) & (len(order) - ends - 1 >= few)]
        if not len(ends):
            continue
        gains = whole - sums[:, ends].min(axis=0) - (sums[:, -1:] - sums[:, ends]).min(axis=0)
        at = int(gains.argmax())
        if gains[at] > best[0]:
            best = float(gains[at]), name, int(there[ends[at]])
    return best


def rounded_up(values: np.ndarray) -> np.ndarray:
    """The least numbers of four binary digits, and noughts behind them, that are no smaller: thresholds that a person can remember."""
    digits = np.maximum(0, np.ceil(np.log2(np.maximum(1, values) + 0.5)).astype(np.int64) - 4)
    return -(-values >> digits) << digits


def _without_idle(rules: Sequence[tuple[dict[str, int], int]]) -> list[tuple[dict[str, int], int]]:
    """The same rules without those at the end that take what the last one would take."""
    found = list(rules)
    while len(found) > 1 and found[-2][1] == found[-1][1]:
        del found[-2]
    return found
