"""Generations of GPUs: what kernels reach of the vendor's figures, and what they wait for, as the model of time takes it; and what compilers give threads.

A row tells all constants, or is `like` another and tells those that differ. Each has a source that says whether it was
measured, fitted, set by hand or assumed; what is taken over from another generation is assumed, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from gemmgen.catalog.registers import Registers
from gemmgen.catalog.table import LINE, File, Prose, Row, Strict, Table, Title
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import SpecError

ASSUMED = "assumed"
_KINDS = "measured", "fitted", "set by hand", ASSUMED


class Constant(Strict):
    """A number of the model.

    Attributes:
        source: where it comes from; begins with measured, fitted, set by hand or assumed.
    """

    value: Annotated[int, Field()] | Annotated[float, Field(allow_inf_nan=False)]
    source: Annotated[Prose, Field(pattern=f"^({'|'.join(_KINDS)})\\b", description=f"begins with one of: {', '.join(_KINDS)}")]

    @property
    def assumed(self) -> bool:
        return self.source.startswith(ASSUMED)


@dataclass(frozen=True)
class Within:
    """The bounds of a constant, that none of today comes near."""

    low: float
    high: float

    def __call__(self, constant: Constant) -> Constant:
        if not self.low <= constant.value <= self.high:
            raise ValueError(f"a value from {self.low:g} to {self.high:g}")
        return constant


def _constant(low: float, high: float, description: str) -> Any:
    """A constant within bounds that none of today comes near."""
    return Annotated[Constant, AfterValidator(Within(low, high)), Field(description=description)]


_Share = 0.01, 1


class Wgmma(Strict):
    """Of kernels whose matrix unit reads operands from shared memory, issued by warpgroups."""

    efficiency: _constant(*_Share, "the share of its cycles that the matrix unit is at work in a long loop")
    sustained_f16_tflops: _constant(0.1, 1e5, "FP16 products on random data, as fast as the chip's power allows")
    group_gap_cycles: _constant(0, 1e4, "cycles a stage in which one warpgroup has no product at work: promotion, the wait for the next stage")
    turn_cycles: _constant(0, 1e5, "cycles from one tile to the next: the first stage's way, the last product, C's way out")
    store_cycles_per_element: _constant(0, 100, "cycles an element of C beyond that")
    split_a_cycles: _constant(0, 1e5, "cycles from loading one step's A to its words in registers")
    gather_share: _constant(0, 100, "how much of the way of slices of k through L2 shows")
    overlap_seconds: _constant(0, 1e-3, "from a split pass's end to the first product of a kernel that was launched meanwhile")
    split_power_share: _constant(0, 1, "of the split pass's time, what a chip at its power limit is longer at work for it")
    cluster_seconds: _constant(0, 1e-3, "what forming clusters and their two barriers cost a launch")
    moving_share: _constant(*_Share, "of the FP32 units' rate, what moves sums reaches while the matrix unit works: ports of the register file bind both")
    compensated_cluster_share: _constant(0, 1, "how much longer blocks of a cluster take whose sums are compensated")
    alone_share: _constant(0, 1, "how much longer products take, as fast as power allows, of tiles that one warpgroup multiplies by itself")
    integers_beside_share: _constant(0, 1, "how much longer integer products of warpgroups side by side take than those of one at a time")
    integer_power_share: _constant(0.01, 10, "of the power of a 16-bit product at the same rate, what one of digits takes, which leave a bit of their byte")
    scaled_tile_operations: _constant(0, 100, "operations for each sum of a tile of k with scales of its own on its way out of the unit")
    uneven_store_cycles: _constant(0, 100, "cycles an element of C, of an SM, where rows do not all begin at 16 bytes and so leave in single elements")


class Straight(Strict):
    """Of kernels whose lanes load what they multiply straight from global memory, in one launch."""

    launch_seconds: _constant(0, 1e-3, "such a kernel in a graph, from the end of the one before to its own first load, and from its last store on")
    start_cycles: _constant(0, 1e5, "cycles from the first instruction to the first load, and from the last product to the first store")
    stage_instructions: _constant(0, 1e4, "instructions of a warp and stage beside those that split: addresses, whether all is inside, what is to be counted")
    cycles_per_instruction: _constant(1, 100, "what one of a warp's takes where it has its scheduler alone")
    issue_efficiency: _constant(*_Share, "the share of the schedulers' cycles in which they issue, with many warps")
    store_cycles_per_element: _constant(0, 100, "cycles an element of C, and as many for each warp that has a sum of it, from the last product to C")
    dram_efficiency: _constant(*_Share, "what they reach of dram_gb_per_s where an operand is read once")


class Thin(Strict):
    """Of kernels that read one operand once and multiply it by few rows in plain FP32, in one launch."""

    launch_seconds: _constant(0, 1e-3, "such a kernel in a graph, from the end of the one before to its own first load, and from its last store on")
    start_cycles: _constant(0, 1e5, "cycles from the first instruction to the first load, and from the last product to the first store")
    stage_instructions: _constant(0, 1e4, "instructions of a warp and step beside products, fetches and copies")
    cycles_per_instruction: _constant(1, 100, "what one of a warp's takes where it has its scheduler alone")
    issue_efficiency: _constant(*_Share, "the share of the schedulers' cycles in which they issue, with many warps")
    exposed_share: _constant(0, 1, "how much of the work's time shows although device memory binds")
    store_cycles_per_element: _constant(0, 100, "cycles an element of C, and as many for each warp that has a sum of it, from the last product to C")
    gather_cycles: _constant(0, 1e5, "cycles from a slice's last product to C that the sums' way through L2 adds: a fence, an arrival and the way back")
    dram_efficiency: _constant(*_Share, "what they reach of dram_gb_per_s where an operand is read once and little is done with it")


class Tcgen05(Strict):
    """Of kernels whose matrix unit keeps sums in tensor memory."""

    efficiency: _constant(*_Share, "the share of its cycles that the matrix unit is at work in a long loop")
    sustained_share: _constant(*_Share, "what the chip's power allows of the vendor's figure on random data")
    drain_cycles: _constant(0, 1e4, "from a sum's last product to its first element in a register, and from its last one to the next product")
    stage_wait_cycles: _constant(0, 1e4, "cycles from one stage's last product to the next one's first")
    turn_cycles: _constant(0, 1e5, "cycles of the first stage's way and C's way out that nothing hides, once a kernel")
    store_cycles_per_element: _constant(0, 100, "cycles an element of C takes on its way out, a thread a row")
    overlap_seconds: _constant(0, 1e-3, "from a split pass's end to the first product of a kernel that was launched meanwhile")
    split_power_share: _constant(0, 1, "of the split pass's time, what a chip at its power limit is longer at work for it")
    cluster_seconds: _constant(0, 1e-3, "what forming pairs and their two barriers cost a launch")
    uneven_store_cycles: _constant(0, 100, "cycles an element of C, of an SM, where rows do not all begin at 16 bytes and so leave in single elements")


class Residues(Strict):
    """Of the passes before kernels of residues."""

    pass_share: _constant(0.1, 100, "how long the passes take, over what their traffic asks for")
    pass_seconds: _constant(0, 1e-3, "what they take besides, and besides their launches")


class Sgemm(Strict):
    """Of the vendor's FP32 product, as cuBLAS's SGEMM."""

    share: _constant(*_Share, "the share of f32_tflops that large products reach")
    start_seconds: _constant(0, 1e-3, "what a product takes besides its work and C's way to memory")


class Batches(Strict):
    """Of batches that are divided between two kernels."""

    pass_seconds: _constant(0, 1e-3, "what a kernel with a pass before it takes longer, however little it is given")
    class_seconds: _constant(0, 1e-3, "what a second class of products takes beside its own work: launches, and an end of its own at which SMs idle")


class Measured(Strict):
    """The model's constants."""

    mma_efficiency: _constant(*_Share, "the rate of mma.sync in tensor_fma_per_clock, or of what stands in for it")
    fma_efficiency: _constant(*_Share, "what FP32 multiply-adds reach of f32_fma_per_clock")
    clock_efficiency: _constant(*_Share, "sustained clock in the boost clock, under power limit")
    dram_efficiency: _constant(*_Share, "what kernels reach of dram_gb_per_s")
    l2_bytes_per_clock: _constant(1, 1e4, "bytes an SM gets of L2 in a clock")
    fetch_share: _constant(0, 10, "how much of a fetch from shared memory the matrix unit feels although it overlaps")
    fill_share: _constant(0, 10, "how much of the copies' writes into shared memory it feels")
    fetch_exposed_share: _constant(0, 10, "how much of a step's fetch shows once a stage, with one fragment buffer")
    barrier_cycles: _constant(0, 1e4, "a stage's wait, barrier and loop")
    memory_cycles: _constant(1, 1e5, "from a copy's issue to its data, with all SMs copying")
    tile_cycles_per_element: _constant(0, 100, "cycles an element of C that a block spends outside the loop: first copies, epilogue, store")
    split_before_instructions: _constant(0, 1e3, "instructions a word that read and split an element before shared memory")
    split_behind_instructions: _constant(0, 1e3, "instructions a word that read and split an element behind shared memory")
    split_wait_cycles: _constant(0, 1e5, "cycles a warp waits for what it splits, once a stage before shared memory, once a step behind it")
    launch_seconds: _constant(0, 1e-3, "a kernel in a graph, from the end of the one before to its own first work")
    wgmma: Wgmma | None = None
    tcgen05: Tcgen05 | None = None
    straight: Straight | None = None
    thin: Thin | None = None
    residues: Residues | None = None
    batches: Batches | None = None
    sgemm: Sgemm | None = None

    def of(self, policy: Literal["wgmma", "tcgen05", "straight", "thin", "residues", "batches"], place: str) -> Any:
        """The constants of kernels of a policy, or of a design that has its own.

        Args:
            place: whose constants these are, for the message.

        Raises:
            SpecError: there are none.
        """
        found = getattr(self, policy)
        if found is None:
            raise SpecError(
                place, f"has no constants for {policy}", needs=f"a section [measured.{policy}]",
                remedy="such a section in the row of the GPU or of its generation, as those of specs/generations have",
            )
        return found


def standing(measured: Measured) -> tuple[int, int]:
    """How many constants somebody measured, fitted or set, all that are not assumed; and how many there are, those of policies and designs among them."""
    found: list[Constant] = []
    for one in dict(measured).values():
        found += [one] if isinstance(one, Constant) else dict(one).values() if one is not None else []
    return sum(not one.assumed for one in found), len(found)


def merged(base: Mapping[str, Any], own: Any) -> Any:
    """Constants with those that a row tells itself; sections one by one. What is no table is left for its model to refuse."""
    if not isinstance(own, dict):
        return own
    result = dict(base)
    for key, value in own.items():
        inner = result.get(key)
        section = isinstance(inner, dict) and "source" not in inner
        result[key] = merged(inner, value) if section else value
    return result


def _taken_over(constants: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The constants of another generation: assumed."""

    def one(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "source" not in value:
            return _taken_over(value, name)
        return value if value["source"].startswith(ASSUMED) else {**value, "source": f"{ASSUMED} as {name}'s, {value['source']}"}

    return {key: one(value) for key, value in constants.items()}


class Generation(Row):
    """The GPUs of one generation.

    Attributes:
        title: its full name.
        like: the shipped generation whose constants hold where this row tells none.
        registers: constants of the register model.
    """

    title: Title
    vendor: Literal[tuple(VENDORS)]
    like: Annotated[str, Field(pattern=LINE)] | None = None
    measured: Measured
    registers: Registers

    @model_validator(mode="before")
    @classmethod
    def _inherits(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        place = info.context.place if isinstance(info.context, File) else "generation"
        like, own = data.get("like"), data.get("registers", {})
        of_registers = own.get("like", like) if isinstance(own, dict) else like
        if isinstance(like, str):
            base = _shipped(like, f"{place}: like").measured.model_dump()
            data = {**data, "measured": merged(_taken_over(base, like), data.get("measured", {}))}
        if isinstance(of_registers, str):
            base = _shipped(of_registers, f"{place}: [registers] like" if of_registers != like else f"{place}: like").registers
            data = {**data, "registers": with_own(base, own, f"as {of_registers}'s: {base.source}")}
        return data


def _shipped(name: str, place: str) -> Generation:
    """The row that another is like."""
    if name.endswith(".toml"):
        raise SpecError(place, "is a file", got=name, needs="a shipped generation", remedy=", ".join(GENERATION_TABLE.names()))
    return GENERATION_TABLE.get(name, where=place, hidden=True)


def with_own(base: Registers, own: Any, source: str) -> Any:
    """The constants of the register model with those that a row tells itself; offsets of single targets hold where a row tells none.

    Args:
        source: of all where the row tells none.
    """
    if not isinstance(own, dict):
        return own
    known = base.model_dump(exclude={"since"} if "offset" in own else None)
    return merged({**known, "source": source}, own)


GENERATION_TABLE = Table("generation", "generations", Generation)
