"""How operands, tiles and rows of words lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmgen.catalog.fragment import Fragment

COPY_BYTES = 16  # one cp.async


@dataclass(frozen=True)
class View:
    """Numbers of a plan that are about one thing.

    Attributes:
        plan: whose they are.
    """

    plan: Any


@dataclass(frozen=True)
class Swizzle:
    """How 16-byte chunks of a row change places: `chunk ^ (row / line & mask) * stride`.

    Attributes:
        line: rows that share one 128-byte line of banks.
        stride: chunks that one row's lanes read together.
        mask: how many rows' worth of them a phase reads, less one.
    """

    line: int
    mask: int
    stride: int

    @property
    def rows(self) -> int:
        return self.line * (self.mask + 1)


@dataclass(frozen=True)
class Copying:
    """How a block's threads copy a tile of FP32 in 16-byte chunks, [rows, columns] as the operand is stored.

    Attributes:
        across: chunks of one row that neighbouring threads take together.
        across_steps: how often, for a whole row.
        down: rows that the block takes together.
    """

    rows: int
    columns: int
    across: int
    down: int

    @property
    def across_steps(self) -> int:
        return self.columns // 4 // self.across

    @property
    def down_steps(self) -> int:
        return -(-self.rows // self.down)


@dataclass(frozen=True)
class Rows:
    """How rows of words of one type lie in a stage, and what multiplies them.

    Attributes:
        fragment: the instruction, whose words they are.
        suffix: of the names in the text that are this type's; empty of the leading words'.
        extent: k of a stage.
        line_chunks: 16-byte chunks that shared memory serves at once, one of each of as many lanes.
    """

    fragment: Fragment
    suffix: str
    extent: int
    line_chunks: int

    @property
    def type(self) -> str:
        return self.fragment.word

    @property
    def bytes(self) -> int:
        """One row."""
        return self.extent * self.fragment.word_bytes

    @property
    def chunks(self) -> int:
        """16-byte chunks in one row."""
        return self.bytes // COPY_BYTES

    @property
    def step_chunks(self) -> int:
        """Of them that one instruction takes."""
        return self.fragment.shape[2] * self.fragment.word_bytes // COPY_BYTES

    @property
    def swizzle_rows(self) -> int:
        """Rows that share one line of banks. The swizzle parts the rows of one chunk; on 64 banks (gfx950) a phase of
        fragments 16 high takes rows of two chunks, some of which then meet."""
        return max(1, self.line_chunks // self.chunks)

    @property
    def swizzle_mask(self) -> int:
        return min(self.chunks, self.line_chunks) - 1


@dataclass(frozen=True)
class Operand:
    """How one operand lies in memory and in its tile.

    Attributes:
        name: `a` or `b`.
        outer: the dimension that is not summed: `m` or `n`.
        k_contiguous: whether consecutive k are neighbours in memory.
        tile: outer extent of a thread block's tile.
    """

    name: str
    outer: str
    k_contiguous: bool
    tile: int

    def offset(self, outer: str, k: str) -> str:
        """The element's offset from the operand's base, as C."""
        ld = f"ld{self.name}"
        return f"{outer} * {ld} + {k}" if self.k_contiguous else f"{k} * {ld} + {outer}"
