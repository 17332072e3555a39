"""Batches: the struct that lists a grouped kernel's products, the tiles that such a kernel has, and how it walks them.

Which kinds of batches there are: `gemmgen.kinds`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from gemmgen.catalog.element import Element

WALKS = {
    "persistent": "blocks stay and walk a list that they make themselves, the longest tiles first",
    "workgroups": "a block for each tile of a list that the host made, as BatchGEMM has it: of a tile for fewer threads the other warps end at once",
}

TLPS = {
    "wavefront": "threads of the wavefronts that can be active at once, BatchGEMM eqs. 4 to 9",
    "workgroup": "threads of all workgroups, BatchGEMM eq. 3",
}

POINTERS = "(-0x7fffffffffffffffll - 1)"
"""As the stride of a strided batch's operand, in C: the operand is an array of pointers, one for each product, in the device's memory."""

PROBLEM = np.dtype([
    ("a", np.uint64), ("b", np.uint64), ("c", np.uint64), ("lda", np.int32), ("ldb", np.int32), ("ldc", np.int32),
    ("m", np.int32), ("n", np.int32), ("k", np.int32), ("alpha", np.float32), ("beta", np.float32), ("reserved", np.int32, 2),
])
"""One product of a grouped batch as kernels read it, 64 bytes: addresses of A, B and C, elements from one stored row to the next, sizes, factors."""



def problem_of(element: Element) -> np.dtype:
    """The same with factors of another type of elements: those of FP64 take the reserved bytes as well."""
    fields = [(name, *PROBLEM.fields[name]) for name in PROBLEM.names if not (element.bytes == 8 and name == "reserved")]
    own, at = {"alpha": element.dtype, "beta": element.dtype}, PROBLEM.fields["alpha"][1]
    offsets = {"alpha": at, "beta": at + element.bytes}
    return np.dtype({
        "names": [name for name, *_ in fields], "formats": [own.get(name, kind) for name, kind, _ in fields],
        "offsets": [offsets.get(name, offset) for name, _, offset in fields], "itemsize": PROBLEM.itemsize,
    })


PLACED = np.dtype([(name, np.int32) for name in ("entry", "block", "turn", "a_stage", "b_stage", "a_panel", "b_panel", "norm")])
"""One product of the host's list for kernels that pack words first, 32 bytes: its number in the batch; its first block of the split pass; its first
turn of the main kernel; the stages of packed words of A and of B that come before its own. Of residues besides: panels of rows of A and of columns of B
before its own, whose factors come before its own; its first block of the pass that finds norms. 0 of other schemes."""


@dataclass(frozen=True)
class Listed:
    """What the host passes to the kernels of a batch besides its products.

    Attributes:
        rows: the list, as the design's kernels read it.
        extents: what grids and buffers ask (`gemmgen.abi`): `turns`, of a kernel that packs words also `split_blocks`, `a_stages`, `b_stages`, of residues
            `a_panels`, `b_panels`, `norm_blocks`, and the largest `k`.
    """

    rows: np.ndarray
    extents: dict[str, int]


@dataclass(frozen=True)
class Tile:
    """What one block computes of C at a time.

    Attributes:
        m, n: its extents; k: of one stage.
        threads: that compute it.
        warp: m and n of a warp's part.
    """

    m: int
    n: int
    k: int
    threads: int
    warp: tuple[int, int]

    @property
    def name(self) -> str:
        return f"{self.m}x{self.n}x{self.k} on {self.threads}"


@dataclass(frozen=True)
class Batch:
    """What a plan knows of the batch that its kernels are for.

    Attributes:
        tiles: of a grouped kernel, the smallest first; none of a kernel whose one tile is the plan's own.
        walk: a key of WALKS; tlp: of TLPS.
        threshold: threads at work from which on a tiling is parallel enough (BatchGEMM, Algorithm 1).
        matrices: hint: how many products a batch has; not part of a plan's identity.
        pointers: of a strided batch, whether the stride POINTERS marks an operand that an array of pointers locates.
    """

    tiles: tuple[Tile, ...] = ()
    walk: str = "persistent"
    tlp: str = "wavefront"
    threshold: int = 0
    matrices: int = field(default=1, compare=False)
    pointers: bool = False

    @property
    def identity(self) -> dict[str, Any]:
        """What of it shapes text and launches."""
        known = asdict(self)
        del known["matrices"]
        pointers = {"pointers": True} if known.pop("pointers") else {}
        return (known if self.tiles else {}) | pointers
