"""What a compiler gives threads of a generation: the constants of the register model, in the rows of specs/generations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gemmgen.catalog.table import LINE, Prose, Strict

LOOPS = ("rolled", "ahead", "buffered", "shared", "register")
"""Kinds of loop (`gemmgen.model.registers`), in the order of every constant that has one for each."""
_Number = Annotated[float, Field(ge=-1e3, le=1e3, allow_inf_nan=False)]
Loops = Annotated[tuple[_Number, _Number, _Number, _Number, _Number], Field(strict=False, description=f"for each kind of loop: {', '.join(LOOPS)}")]
_NONE = (0.0,) * len(LOOPS)


class Slopes(Strict):
    """Registers a thread for each of what a kernel holds; by `gemmgen.model.registers.SLOPE_OF`."""

    per_sum: Loops = _NONE
    per_narrow: Loops = _NONE
    per_wide: Loops = _NONE
    per_word: Loops = _NONE
    per_short_sum: Loops = _NONE
    when_at_once: Loops = _NONE
    per_at_once_sum: Loops = _NONE
    per_step: Loops = _NONE
    when_shallow: Loops = _NONE
    when_promoting: Loops = _NONE
    when_both: Loops = _NONE
    per_staged: Loops = _NONE
    when_sliced: Loops = _NONE
    per_second: Loops = _NONE
    per_strided: Loops = _NONE
    per_hoisted: Loops = _NONE
    when_ring: Loops = _NONE


class Plain(Strict):
    """Of kernels of plain multiply-adds.

    Attributes:
        offset: registers beside what is held; ahead: beyond that, where they cost no block of the SM.
    """

    slopes: Slopes
    offset: Loops
    ahead: Loops = _NONE


class Kept(Strict):
    """Of portable kernels of residues: registers for each that holds sums of several moduli, which are on their way.

    Attributes:
        demand: that it must have; spare: that it takes besides, where some are left.
    """

    demand: _Number
    spare: _Number


class Straight(Strict):
    """Of kernels that load straight from global memory: for each register of sums, of elements on their way and of fragments; and the rest."""

    per_sum: _Number
    per_raw: _Number
    per_fragment: _Number
    offset: _Number


class Thin(Strict):
    """Of kernels that stream one operand: for each register of sums and of elements; the rest, and the same where the operand's k lie apart."""

    per_sum: _Number
    per_raw: _Number
    offset: _Number
    offset_strided: _Number


class Walk(Strict):
    """Of kernels for batches: registers for each that the largest tile takes by itself, and beside them.

    Attributes:
        walk_offset: what finds a product; when_apart: more of three tiles and more where products lie strides apart.
        when_staying: more where blocks stay; when_listed: and take products of a list; per_further_tile: and that for each tile but one.
        least_staying: at least, where blocks stay.
    """

    per_tile: _Number = 1.0
    walk_offset: _Number = 0.0
    when_apart: _Number = 0.0
    when_staying: _Number = 0.0
    when_listed: _Number = 0.0
    per_further_tile: _Number = 0.0
    least_staying: _Number = 0.0


class Walking(Strict):
    """Of kernels for batches, on a matrix unit and of plain multiply-adds."""

    matrix: Walk = Walk()
    plain: Walk = Walk()


class Registers(Strict):
    """The constants of the register model.

    Attributes:
        source: what they were fitted to, by which compiler, and how well they do on kernels that the fit did not see.
        like: the shipped generation whose constants hold where this row tells none; by default that of `Generation.like`.
        slopes, offset, squeeze: of kernels on a matrix unit; the demand over the budget from which one is taken to spill.
        since: offsets of targets of the generation that have their own, from an arch on.
    """

    source: Annotated[Prose, Field(min_length=1)]
    like: Annotated[str, Field(pattern=LINE)] | None = None
    slopes: Slopes
    offset: Loops
    squeeze: Loops
    plain: Plain
    kept: Kept
    straight: Straight
    thin: Thin
    walking: Walking = Walking()
    since: dict[Annotated[str, Field(pattern=r"^(sm_[0-9]{2,3}|gfx[0-9a-f]{3,4})$")], Loops] = {}
