"""What is asked of a design: sizes, ways of operands, and what a spec fixes and leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.decisions import Decision
from gemmgen.kinds import GEMM, Kind


@dataclass(frozen=True)
class Hints:
    """Sizes that a plan was made for, and how many products; the kernel takes any.

    Attributes:
        strides: whether products are of a batch, whose matrices lie a stride apart.
        reals: real numbers in an element of the product that is asked for; m, n and k are those of the real product.
    """

    m: int
    n: int
    k: int
    matrices: int = 1
    strides: bool = False
    reals: int = 1

    @property
    def asked(self) -> tuple[int, int, int]:
        """m, n and k of the product that is asked for."""
        return self.m, self.n // self.reals, self.k // self.reals

    @property
    def told(self) -> str:
        """The same in words."""
        return " x ".join(map(str, self.asked))


FULL = 1024
"""Products of one size that surely fill a GPU."""


@dataclass(frozen=True)
class Way:
    """Where operands are split and how their tiles reach shared memory."""

    where: str
    loads: str


@dataclass(frozen=True)
class Choices:
    """What a spec fixes, and what is left.

    Attributes:
        fixed: values by a decision's name; a decision that the spec leaves open is not there.
        promote, ways: what is left of these, which other rules narrow first.
        small: whether the problem is too small for warps of the usual size to use every SM.
    """

    fixed: Mapping[str, Any] = field(default_factory=dict)
    promote: Sequence[int] = (0,)
    ways: Sequence[Way] = (Way("prepass", "async"),)
    small: bool = False

    def __getitem__(self, name: str) -> Any:
        """What the spec fixes of a decision; None where it is open."""
        return self.fixed.get(name)

    def opened(self, decisions: Sequence[Decision]) -> tuple[Decision, ...]:
        """The decisions that the spec leaves open."""
        return tuple(one for one in decisions if one.symbols and self[one.name] is None)

    def settle(self, decisions: Sequence[Decision]) -> bool:
        """Whether nothing is left to choose."""
        return all(one.name == "promote" for one in self.opened(decisions)) and len(self.promote) == len(self.ways) == 1

    def among(self, name: str, usual: Sequence[Any]) -> Sequence[Any]:
        """The values of an axis: the fixed one, or all that a search considers."""
        return usual if self[name] is None else (self[name],)


@dataclass(frozen=True)
class Asked:
    """What a spec says about the way of its operands, for `Design.ways`.

    Attributes:
        place: of the spec, for messages.
        fixed: as in `Choices`; `where` and `loads` are among it.
        foreign: what of that the fragment's design does not have: (decision, policy of a design that has it) each.
        kind: of the problem.
    """

    place: str
    gpu: Gpu
    fragment: Fragment
    fixed: Mapping[str, Any]
    foreign: tuple[tuple[Decision, str], ...] = ()
    kind: Kind = GEMM

    def said(self, name: str) -> Any:
        """A decision as the spec says it."""
        return self.fixed.get(name, "auto")
