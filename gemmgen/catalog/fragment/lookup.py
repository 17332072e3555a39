"""The table of fragments, and those that serve a word type and policy."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from pathlib import Path

from gemmgen.catalog.fragment.fragment import Fragment
from gemmgen.catalog.table import Table
from gemmgen.paths import TEMPLATES

FRAGMENTS = Table("fragment", "fragments", Fragment)


def find(name: str, where: str) -> Fragment:
    """A row of the table, or, by a name with its own shape, a wider instruction of one: `wgmma_m64n128k16_f16`.

    Raises:
        UnknownName, SpecError: as `Table.get`.
    """
    for row in FRAGMENTS.rows() if name not in FRAGMENTS.names() else ():
        for shape, wide in row.shapes.items():
            if name == row.name.replace(row.shape_name, shape):
                return wide.model_copy(update={"name": name})
    return FRAGMENTS.get(name, where=where)


def candidates(vendor: str, word: str, policy: str = "mma") -> list[Fragment]:
    """The fragments of a vendor and policy for a word type that kernels can be made of, those of one instruction first.

    Those are the ones with a template and whole chunks, each by runs; the others serve as `gemmgen list fragments NAME --header`.
    """
    found = [
        one for row in FRAGMENTS.rows()
        if (row.vendor, row.word, row.policy) == (vendor, word, policy) and (TEMPLATES / "atoms" / row.interface.atom).is_file()
        for one in _for_kernels(FRAGMENTS.folder, row.name)
    ]
    return sorted(found, key=lambda one: one.instructions or 1)


@cache
def _for_kernels(folder: Path, name: str) -> tuple[Fragment, ...]:
    """The shapes of a row that kernels can be made of. Each proves itself when it is made, and every search asks for them all."""
    return tuple(one for one in map(attrgetter("by_runs"), FRAGMENTS.get(name).shapes.values()) if one.whole_chunks)


def shapes(vendor: str, word: str, policy: str = "mma") -> dict[str, Fragment]:
    """The same by shape name, where several have one the first of them."""
    return {one.shape_name: one for one in reversed(candidates(vendor, word, policy))}
