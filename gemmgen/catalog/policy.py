"""Policies: the programming interfaces through which kernels multiply, a row each.

A file elsewhere asks a row for a fact and never compares a policy's name. Vendors may give one name to two
interfaces: NVIDIA's `wmma` and AMD's are two rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """One programming interface of one vendor.

    Attributes:
        name: as fragments and specs write it.
        vendor: whose it is.
        atom: the template under `templates/atoms` that fetches operands and multiplies; none where no kernel is made of it.
        on_matrix_unit: whether a matrix unit multiplies, and rounds as its row in specs/units says; else FP32 arithmetic does.
        arithmetic: what multiplies where no matrix unit does, one of many.
        from_shared: whether the unit itself reads operands from shared memory, as a descriptor tells it.
        in_tensor_memory: whether the unit keeps C in a memory of its own, and is told types and extents in a word of 32 bits.
        by_lanes: whether lanes may fill fragments themselves: the maps are documented, and no fetch instruction is needed.
        splits: whether the atom tells where lanes find what they split on their way into fragments, though nobody documents the maps.
        by_stride: whether fetches tell rows by one distance, so that these are padded, not swizzled.
        by_place: whether the unit multiplies what lies at the same place of A and B, so that both must have the same k there;
            lanes then fetch runs of k, in whole 16-byte chunks, each from a row of its own.
        fetched_together: fragments of B, side by side along n, that one fetch from shared memory brings.
        lanes_along_k: lanes that share a row's k in runs of our choice; None where the map of a tells what a lane holds of a row.
        rows_together: neighbouring rows whose elements of one k the lanes read at once; None for all rows of the fragment.
        builtin_call: how the builtin is called, with `{builtin}`, `{a}`, `{b}`, `{c}`; builtin_call_s8: on 8-bit words.
        pair_is_number: whether two registers of 8-bit words are one 64-bit number to the builtin, instead of a vector.
        library_fragment: the library's type whose elements have the same order in a lane, if there is one.
    """

    name: str
    vendor: str
    atom: str | None
    on_matrix_unit: bool = True
    arithmetic: str | None = None
    from_shared: bool = False
    in_tensor_memory: bool = False
    by_lanes: bool = False
    splits: bool = False
    by_stride: bool = False
    by_place: bool = False
    fetched_together: int = 1
    lanes_along_k: int | None = None
    rows_together: int | None = None
    builtin_call: str | None = None
    builtin_call_s8: str | None = None
    pair_is_number: bool = False
    library_fragment: str | None = None

    @property
    def engine(self) -> str:
        """What multiplies, in words, one of many."""
        return self.arithmetic or "matrix unit"

    def call(self, word: str, **parts: str) -> str:
        """The builtin's call on words of a type; `parts` are its name and operands."""
        return (self.builtin_call_s8 if word == "s8" else self.builtin_call).format(**parts)


@dataclass(frozen=True)
class Unavailable:
    """A policy that specs may name and that no kernel can be made with.

    Attributes:
        problem: what there is not; needs: what it would take; remedy: what serves instead, of the policy that it stands beside.
    """

    name: str
    problem: str
    needs: str
    remedy: str


_NEITHER_PERMUTED_NOR_NEGATED = "{builtin}({a}, {b}, {c}, 0, 0, 0)"

_ROWS = (
    Policy("mma", "nvidia", "mma.j2", by_lanes=True, fetched_together=2, lanes_along_k=4, rows_together=8),
    Policy("wmma", "nvidia", "wmma.j2", splits=True, by_stride=True, lanes_along_k=4, rows_together=8, library_fragment="nvcuda::wmma::fragment"),
    Policy("fma", "nvidia", "fma.j2", splits=True, on_matrix_unit=False, arithmetic="FP32 CUDA core"),
    Policy("wgmma", "nvidia", "wgmma.j2", from_shared=True),
    Policy("tcgen05", "nvidia", "tcgen05.j2", from_shared=True, in_tensor_memory=True),
    Policy(
        "mfma", "amd", "matrix_core.j2", by_lanes=True, by_place=True,
        builtin_call=_NEITHER_PERMUTED_NOR_NEGATED, builtin_call_s8=_NEITHER_PERMUTED_NOR_NEGATED, pair_is_number=True,
    ),
    Policy(
        "wmma", "amd", "matrix_core.j2", by_lanes=True, by_place=True,
        builtin_call="{builtin}({a}, {b}, {c})", builtin_call_s8="{builtin}(true, {a}, true, {b}, {c}, false)",  # both signed; sums wrap
    ),
    Policy("fma", "amd", "valu.j2", on_matrix_unit=False, arithmetic="FP32 VALU lane", builtin_call="{builtin}({a}, {b}, {c})"),
)
POLICIES: dict[tuple[str, str], Policy] = {(row.vendor, row.name): row for row in _ROWS}
"""By vendor and name."""

UNAVAILABLE: dict[str, Unavailable] = {row.name: row for row in (
    Unavailable(
        "rocwmma", "there are no kernels on rocWMMA's fragments",
        "rocWMMA's headers, which come with ROCm alone: without them no such kernel could be compiled or checked here",
        "on the matrix instructions themselves",
    ),
)}

NAMES = tuple(dict.fromkeys(row.name for row in _ROWS))
"""Of policies that fragments have, each once."""


def owners(name: str) -> tuple[str, ...]:
    """The vendors that have a policy of that name."""
    return tuple(row.vendor for row in _ROWS if row.name == name)
