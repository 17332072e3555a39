"""Instructions that no row of specs/fragments has, by their mnemonics: what a name tells, and maps that only count registers until the real ones are found."""

from __future__ import annotations

import re
from typing import get_args

from gemmgen.catalog.fragment import FRAGMENTS, Fragment, FragmentMap, find
from gemmgen.catalog.number import UnitWord, sum_type, word_bytes
from gemmgen.errors import SpecError

_LANES = 5
_MNEMONIC = re.compile(rf"mma\.sync\.aligned\.m(\d+)n(\d+)k(\d+)\.row\.col\.(f32|s32)\.({'|'.join(get_args(UnitWord))})\.\5\.\4")


def instruction(name: str, arch: str, where: str = "--only") -> Fragment:
    """A row of the catalog by its name, or an instruction by its mnemonic, as PTX writes it.

    Args:
        arch: the target, which is taken to have it: the compiler says where it has not.

    Raises:
        UnknownName, SpecError: it is neither, or of a shape whose registers are not told by it.
    """
    if "." not in name or name.endswith(".toml"):
        return find(name, where)
    if known := next((row for row in FRAGMENTS.rows() if row.instruction == name), None):
        return known
    found = _MNEMONIC.fullmatch(name)
    if found is None or sum_type(found[5]) != found[4]:
        raise SpecError(where, "is no instruction whose name has its registers", got=name,
                        needs="a name of gemmgen list fragments, or mma.sync.aligned.mMnNkK.row.col.f32.WORD.WORD.f32 (s32 of s8)",
                        remedy="gemmgen list fragments")
    m, n, k = (int(found[group]) for group in (1, 2, 3))
    word = found[5]
    try:
        return Fragment(
            name=f"mma_m{m}n{n}k{k}_{word}", source="its mnemonic", vendor="nvidia", policy="mma", map_source="constructed",
            min_arch=int(re.sub(r"\D", "", arch)), instruction=name, shape=(m, n, k), word=word,
            a=_counting(m, k, 4 // word_bytes(word)), b=_counting(k, n, 4 // word_bytes(word)), c=_counting(m, n, 1),
        )
    except ValueError:  # of a map or of the instruction
        raise SpecError(where, "is of a shape that lanes cannot share out evenly", got=name,
                        needs="extents of powers of two up to 256, a word for every place of a register of every lane, at most 256 registers a lane",
                        remedy="gemmgen list fragments") from None


def _counting(rows: int, columns: int, words: int) -> FragmentMap:
    """Some map of a tile: the numbers of a lane's registers and words are right, and nothing else of it."""
    offsets = [(0, 1 << bit) for bit in range(columns.bit_length() - 1)] + [(1 << bit, 0) for bit in range(rows.bit_length() - 1)]
    packed = words.bit_length() - 1
    return FragmentMap(packed=offsets[:packed], lanes=offsets[packed : packed + _LANES], registers=offsets[packed + _LANES :])
