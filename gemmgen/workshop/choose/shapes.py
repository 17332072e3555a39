"""Distributions of sizes: which products a program asks for, and how often."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from gemmgen.catalog.table import Row as TableRow
from gemmgen.catalog.table import Table, Title
from gemmgen.errors import SpecError
from gemmgen.files import read
from gemmgen.spec import MAX_EXTENT
from gemmgen.workshop.explore.trial_row import Row

Layout = Literal["nn", "nt", "tn", "tt"]
Extent = Annotated[int, Field(ge=1, le=MAX_EXTENT)]
Weight = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
MOST_CSV = 1 << 24
MOST_WORK = 1 << 36
"""Multiply-adds of a shape that is drawn."""
ROUND = 64
COLUMNS = "m,n,k"


@dataclass(frozen=True)
class Shape:
    """A product, [m, k] by [k, n]; `weight` is its share among the others, in any unit."""

    m: int
    n: int
    k: int
    layout: str = "nn"
    weight: float = 1.0
    name: str = ""

    @property
    def size(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.m, self.n, self.k

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.layout}"


class Sizes(TableRow):
    """A distribution as a file under specs/shapes tells it.

    Attributes:
        title: in words.
        shapes: [m, n, k, layout, weight, name] each.
    """

    title: Title
    shapes: Annotated[tuple[tuple[Extent, Extent, Extent, Layout, Weight, Title], ...], Field(min_length=1, max_length=4096, strict=False)]

    @field_validator("shapes", mode="before")
    @classmethod
    def _tuples(cls, value: object) -> object:
        """TOML has arrays, where strict fields want tuples, and 1 for 1.0."""
        if not isinstance(value, list):
            return value
        return tuple((*one[:4], float(one[4]), *one[5:]) if isinstance(one, list) and len(one) > 4 and isinstance(one[4], int) else
                     tuple(one) if isinstance(one, list) else one for one in value)


SHAPES = Table("distribution of sizes", "shapes", Sizes)


def load_shapes(name: str | Path) -> list[Shape]:
    """The shapes of a distribution.

    Args:
        name: of a file under specs/shapes, or the path of a .toml file like those, or of a .csv with columns m, n, k and, where it says
            so, layout, weight and name; or `drawn:N`, N shapes as `drawn` has them.

    Raises:
        UnknownName: no shipped file has that name.
        SpecError: the file cannot be read, or something in it is no shape.
    """
    if found := re.fullmatch("drawn:([1-9][0-9]{0,3})", str(name)):
        return drawn(int(found[1]))
    if str(name).endswith(".csv"):
        return _from_csv(Path(name))
    return [Shape(m, n, k, layout, weight, title) for m, n, k, layout, weight, title in SHAPES.get(str(name), where="--shapes").shapes]


def drawn(count: int, seed: int = 1, low: int = 64, high: int = 8192) -> list[Shape]:
    """Shapes drawn evenly on a logarithmic scale, each once; every other one has multiples of ROUND, as layers of programs mostly have."""
    draw = np.random.default_rng(seed)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        size = np.exp(draw.uniform(np.log(low), np.log(high), 3))
        size = np.rint(size / ROUND) * ROUND if len(found) % 2 else np.rint(size)
        if size.prod() <= MOST_WORK:
            found[tuple(map(int, size))] = None
    return [Shape(*size) for size in found]


def _from_csv(path: Path) -> list[Shape]:
    try:
        text = read(path, MOST_CSV).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(str(path), "cannot be read", got=getattr(error, "strerror", None) or str(error), needs="a table of sizes",
                        remedy="check the path") from None
    table = csv.DictReader(io.StringIO("".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))))
    names = set(table.fieldnames or ())
    if not set("mnk") <= names or names - {"m", "n", "k", "layout", "weight", "name"}:
        raise SpecError(str(path), "has other columns", got=",".join(table.fieldnames or ())[:200], needs="m,n,k and, at will, layout, weight and name",
                        remedy=f"a first line {COLUMNS},layout,weight")
    found = []
    for line, row in enumerate(table, 2):
        try:
            extents = [int(row[name]) if re.fullmatch("[0-9]{1,10}", row[name] or "") else 0 for name in "mnk"]
            weight, layout = float(row.get("weight") or 1), row.get("layout") or "nn"
            good = all(1 <= one <= MAX_EXTENT for one in extents) and 0 < weight <= 1e12 and layout in Layout.__args__
        except ValueError:
            good = False
        if not good:
            raise SpecError(f"{path}: row {line}", "is no shape", got=",".join(str(one) for one in row.values()),
                            needs="three sizes from 1 on, a layout nn, nt, tn or tt, a weight above 0", remedy="mend the row")
        found.append(Shape(*extents, layout, weight, row.get("name") or ""))
    if not found:
        raise SpecError(str(path), "has no shapes", needs="a row at least", remedy=f"{COLUMNS}")
    return found


def shapes_of(rows: Iterable[Row]) -> list[Shape]:
    """The sizes and layouts at which kernels were tried, each once and with the same weight."""
    found = dict.fromkeys((row.m, row.n, row.k, row.layout) for row in rows if row.kind == "kernel" and min(row.m, row.n, row.k) > 0)
    return [Shape(m, n, k, layout) for m, n, k, layout in found]


def merged(shapes: Iterable[Shape], layout: str | None = None) -> list[Shape]:
    """Shapes with equal sizes and layout as one, their weights added up.

    Args:
        layout: of all of them, instead of their own.
    """
    found: dict[tuple[int, int, int, str], Shape] = {}
    for one in shapes:
        key = (*one.size, layout or one.layout)
        found[key] = replace(found[key], weight=found[key].weight + one.weight) if key in found else replace(one, layout=key[3])
    return list(found.values())


def parted(shapes: Sequence[Shape], share: float, seed: int) -> tuple[list[Shape], list[Shape]]:
    """(shapes to learn from, shapes held out), drawn by a seed; at least one to learn from."""
    order = np.random.default_rng(seed).permutation(len(shapes))
    held = set(order[: min(len(shapes) - 1, round(share * len(shapes)))].tolist())
    return [one for at, one in enumerate(shapes) if at not in held], [shapes[at] for at in sorted(held)]
