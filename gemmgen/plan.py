"""The solved Plan: every decision a kernel rests on, and every number a template reads.

All arithmetic happens here; templates loop and substitute.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, make_dataclass
from functools import cached_property
from typing import Any

from gemmgen.batch import Batch
from gemmgen.catalog.element import F32, Element
from gemmgen.catalog.epilogue import NONE, Epilogue
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.output import USUAL, Output
from gemmgen.catalog.scheme import Scheme, Word
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.decisions import Decision
from gemmgen.designs import Design, Hints, all_decisions, design_called, designs_of
from gemmgen.designs.feature import PACKS_APART
from gemmgen.kinds import GEMM, Kind
from gemmgen.shown import Shown
from gemmgen.views import Geometry, Inputs, Launches, Packing, Promotion, Scales, Staging
from gemmgen.views.memory import Operand


def _field(one: Decision) -> tuple[Any, ...]:
    """A decision as a field of a dataclass; needed where every design has it."""
    kind = tuple[int, int, int] if one.is_tile else str if one.words else int
    return (one.name, kind) if one.neutral is None else (one.name, kind, field(default=one.neutral))


_Decided = make_dataclass("_Decided", [_field(one) for one in all_decisions()], frozen=True, kw_only=True)
"""A value for each decision that some design has."""


@dataclass(frozen=True, kw_only=True)
class _Asked(_Decided):
    """What a plan is for, as `Plan` says of each."""

    layout: str
    scheme: Scheme
    fragment: Fragment
    gpu: Gpu
    special: str
    allow_spills: bool
    hints: Hints
    designed: str | None = None
    type: Element = F32
    output: Output = USUAL
    epilogue: Epilogue = NONE
    kind: Kind = GEMM
    batch: Batch | None = None
    predicted_registers: int | None = None
    asked: tuple[str, ...] = ()
    fallback: Plan | None = None
    flagged: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan(Shown, _Asked):
    """Everything decided.

    Attributes:
        layout: nn, nt, tn or tt, row major: which operands lie transposed.
        scheme, fragment, gpu: the catalog rows.
        special: `exact` or `fast`.
        allow_spills: whether spilling fails the build.
        hints: sizes the plan was made for; not part of its identity.
        designed: the design's name; None for the fragment's usual one.
        type: of the numbers that kernels compute with: of the elements of A, B and C, or of their parts.
        output: how C is stored.
        epilogue: what becomes of an element of C before it is stored.
        kind: of product.
        batch: of a kernel for many products, what it knows of them; None for one product.
        predicted_registers: per thread, or None where no model says.
        asked: the spec's own objective and inequalities, in words; not part of its identity.
        fallback: the plan of the kernel that computes the tiles of C that this one leaves; None where it leaves none.
        flagged: of such a one, the tile of C that its plan's kernel leaves as a whole; None elsewhere.
    """

    # ---- identity

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What two equal kernels share: the decisions, without hints or sources, and what of the GPU shapes their text and launches."""
        prose = {"source"}  # and what `type` tells
        return {
            "layout": self.layout,
            "scheme": self.scheme.model_dump(mode="json", exclude={*prose, "element"}, exclude_none=True),
            "fragment": self.fragment.model_dump(mode="json", exclude={*prose, "also"}, exclude_none=True),  # whose target is `arch`
            "arch": self.arch,
            "special": self.special,
            **self.decided,
            **({} if self.type.is_usual else {"type": self.type.name}),
            **({} if self.inputs.stored_b.is_usual else {"b": self.inputs.stored_b.name}),
            **({} if self.output.is_usual else {"c": self.output.name}), **({"epilogue": self.epilogue.names} if self.epilogue else {}),
            **({"passes": self.launches.whole_shape} if self.launches.splits_whole else {}),
            **({"batch": {"kind": self.kind.name, **self.batch.identity}} if self.batch else {}),
            **({"kind": self.kind.name, **self.kind.options} if not self.kind.plain else {}),
            **({"fallback": self.fallback.identity} if self.fallback else {}), **({"flagged": self.flagged} if self.flagged else {}),
            **({"design": self.design.name} if self.design.is_brought else {}),  # those of this package differ in their fragments
            "gpu": {
                "lanes": self.lanes, "banks": self.gpu.limits.shared_banks, "flushing": self.launches.flushing_archs,
                **{symbol: self.numbers[symbol] for symbol in self.design.text.shaping},
            },
        }

    @cached_property
    def decided(self) -> dict[str, Any]:
        """The design's decisions by name, without those that are what they are in a design that has no such choice, and go unsaid then."""
        found = {one: getattr(self, one.name) for one in self.design.decisions}
        return {one.name: value for one, value in found.items() if not one.unsaid(value)}

    @property
    def summary(self) -> str:
        """The same in words."""
        return ", ".join(one.told(self.decided[one.name]) for one in self.design.decisions if one.name in self.decided)

    def _told(self) -> dict[str, Any]:
        sizes = self.hints.told
        return {"gpu": self.gpu.name, "scheme": self.scheme.name, "fragment": self.fragment.name, "layout": self.kind.layout_of(self.layout), "for": sizes,
                "decisions": self.summary, "hash": self.hash}

    @property
    def arch(self) -> str:
        """The compile target: the GPU's, or that of an instruction only it has."""
        return self.fragment.compiled_for(self.gpu.arch)

    @cached_property
    def hash(self) -> str:
        """Eight hex digits of the identity's SHA-256."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def standing(self) -> str | None:
        """How far such kernels have been checked, where none has ever run; None where some have."""
        return self.design.checked.standing or self.gpu.maker.checked.standing_of(self.arch)

    # ---- the design, and what its equations say

    @cached_property
    def design(self) -> Design:
        return design_called(self.designed, self.kind) if self.designed else designs_of(self.fragment, self.kind, self.scheme.family.sums)[0]

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The symbols of the design's equations that do not depend on sizes, with their values."""
        return self.design.resources(self)

    @cached_property
    def model(self) -> dict[str, Any]:
        """Every symbol's value, traffic and time at the sizes of the hints among them."""
        return self.design.model(self)

    @cached_property
    def own(self) -> Any:
        """What the design's own template asks besides."""
        return self.design.facts(self)

    @property
    def threads(self) -> int:
        return self.numbers["threads"]

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the main kernel."""
        return self.numbers["shared_bytes"]

    @property
    def lanes(self) -> int:
        """Threads of a warp; of AMD a wavefront."""
        return self.gpu.limits.warp_size

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return (
            Operand("a", "m", self.layout[0] == "n", self.block[0]),
            Operand("b", "n", self.layout[1] == "t", self.block[1]),
        )

    @property
    def solved(self) -> Operand:
        """The triangle, of a kind that solves."""
        return self.operands[self.kind.left is False]

    @property
    def unit(self) -> MatrixUnit:
        """The GPU's matrix unit as it sums these words by these instructions."""
        return self.gpu.unit.of(self.scheme.leading, self.fragment.policy)

    # ---- views

    @cached_property
    def geometry(self) -> Geometry:
        """The tile of a thread block: how it is divided among warps, fragments and elements."""
        return Geometry(self)

    @cached_property
    def launches(self) -> Launches:
        """What its launches compute, and what runs before the main kernel."""
        return Launches(self)

    @cached_property
    def inputs(self) -> Inputs:
        """The elements of A and B as they are given."""
        return Inputs(self)

    @cached_property
    def promotion(self) -> Promotion:
        """The accumulators of a stage, and when their sums move out of the matrix unit."""
        return Promotion(self)

    @cached_property
    def staging(self) -> Staging:
        """How tiles come to shared memory, and how they lie there."""
        return Staging(self)

    @cached_property
    def packing(self) -> Packing:
        """The packed words of the split kernel: bytes and places, in the workspace and in a stage."""
        return Packing(self)

    @cached_property
    def scales(self) -> Scales:
        """Powers of two of rows and columns, by their largest elements."""
        return Scales(self)

    def words_of(self, operand: str) -> tuple[Word, ...]:
        """The words that operand `a` or `b` is packed into: all, or no more than products read."""
        return self.scheme.words_of(operand, packed_alike=not self.design.has(PACKS_APART))

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data, for `--json`."""
        return {
            **{key: value for key, value in self.identity.items() if key not in ("scheme", "fragment", "gpu", "fallback")}, "design": self.design.name,
            "scheme": self.scheme.name,
            "fragment": self.fragment.name,
            "gpu": self.gpu.name,
            "threads": self.threads,
            "shared_bytes": self.shared_bytes,
            "hash": self.hash,
            "hints": dict(zip("mnk", self.hints.asked)),
            **({"asked": list(self.asked)} if self.asked else {}), **({"fallback": self.fallback.as_dict()} if self.fallback else {}),
        }


Plan.__doc__ = "\n".join([(Plan.__doc__ or "").rstrip(), *(f"        {one.name}: {one.description}." for one in all_decisions())])
