"""The decisions that a plan consists of: each declared once, for the spec, its JSON schema, the search, the plan and the explanation.

Here are those that every design has. A design declares its own, and further words of these, beside its equations (`gemmgen/designs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Word:
    """A value that is a word.

    Attributes:
        code: the value of the decision's symbol; None where a `Way` tells it.
    """

    name: str
    meaning: str
    code: int | None = None


@dataclass(frozen=True)
class Decision:
    """One choice that a spec may fix or leave "auto".

    Attributes:
        name: as in a spec, a `Plan` and the text of an explanation.
        section: of the spec.
        meaning: in words; the schema prints it.
        symbols: what the equations know of it, one number each, three of a tile. None where a `Way` tells it.
        label: how an explanation says a value: a text with {}, and (s) for a plural.
        least, most: of a number, or of each extent of a tile.
        among: the numbers that are allowed, where they are few.
        words: the words that are allowed, where it is one.
        neutral: what it is in a design that has no such choice; None where every design has it.
        usual: the value that a refusal supposes where the user fixed none.
        quiet: whether its neutral value goes unsaid, in words and in a plan's identity, as in a design that has no such choice.
    """

    name: str
    section: str
    meaning: str
    symbols: tuple[str, ...] = ()
    label: str = "{}"
    least: int | None = None
    most: int | None = None
    among: tuple[int, ...] = ()
    words: tuple[Word, ...] = ()
    neutral: Any = None
    usual: Any = None
    quiet: bool = False

    def unsaid(self, value: Any) -> bool:
        """Whether a value goes unsaid."""
        return self.quiet and value == self.neutral

    @property
    def is_tile(self) -> bool:
        """Whether it is m, n and k."""
        return len(self.symbols) == 3

    @property
    def description(self) -> str:
        """What it means, and each word of it."""
        return ". ".join(filter(None, (self.meaning, "; ".join(f"{word.name}: {word.meaning}" for word in self.words))))

    def encoded(self, value: Any) -> dict[str, int]:
        """The symbols' values for the decision's."""
        if self.words:
            value = next(word.code for word in self.words if word.name == value)
        return dict(zip(self.symbols, value if self.is_tile else (value,)))

    def decoded(self, numbers: Mapping[str, Any]) -> Any:
        """The way back."""
        found = tuple(int(numbers[symbol]) for symbol in self.symbols)
        if self.words:
            return next(word.name for word in self.words if word.code == found[0])
        return found if self.is_tile else found[0]

    def told(self, value: Any) -> str:
        """A value in words: `3 stages`, `1 slice of k`."""
        shown = "x".join(map(str, value)) if self.is_tile else str(value)
        return self.label.format(shown).replace("(s)", "" if value == 1 else "s")

    def with_words(self, words: tuple[Word, ...]) -> Decision:
        """The same with further words that a design has."""
        return replace(self, words=(*self.words, *words))


EXTENT = 1, 4096
"""The least and the most of an extent of a tile."""
BLOCK = Decision("block", "tile", "m, n, k of a thread block", ("BM", "BN", "BK"), "block {}", *EXTENT)
WARP = Decision(
    "warp", "tile", "m, n, k of a warp, with policy wgmma and tcgen05 of a warpgroup; its k is the block's k, or less where a warp takes a stage in pieces"
    " whose fragments it fetches together and no earlier", ("WM", "WN", "WK"), "warp {}", *EXTENT,
)
WHERE = Decision("where", "split", "where operands are split", label="split {}", words=(
    Word("prepass", "a split kernel writes packed words to global memory"),
))
LOADS = Decision("loads", "pipeline", "how tiles reach shared memory", label="loads {}")
STAGES = Decision(
    "stages", "pipeline", "shared-memory buffers of the main loop; one where the next tile waits in registers until all have multiplied this one",
    ("stages",), "{} stage(s)", 1, 64, usual=2,
)
GROUP = Decision("group", "tile", "block rows of C that are worked on together, so that L2 serves them", ("group",), "group {}", 1, 64, usual=1)
SPLIT_K = Decision("split_k", "tile", "slices of k that different blocks sum, for few tiles of C", ("split_k",), "{} slice(s) of k", 1, 64, usual=1)
PROMOTE = Decision(
    "promote", "split", "k between moves of the matrix unit's accumulator into FP32 registers; 0 never", ("promote",), "promote {}", 0, 1 << 20,
)
SUMS = Decision(
    "sums", "split", "how sums that leave the matrix unit are added up in FP32", ("compensated",), "{} sums", neutral="plain", usual="plain", quiet=True,
    words=(
        Word("plain", "one addition, rounded to nearest", 0),
        Word("compensated", "the unit's accumulator keeps all but the leading bits, which FP32 adds without rounding: the error does not grow with k", 1),
    ),
)
"""Of designs that promote by keeping the unit's accumulator in registers."""
SHARED = (BLOCK, WARP, WHERE, LOADS, STAGES, GROUP, SPLIT_K, PROMOTE)
"""Those that every design has."""
