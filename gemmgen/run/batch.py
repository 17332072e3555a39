"""A batch of products on a device: `run.gemm`'s sequence, of kernels for many products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmgen.batch import Listed, problem_of
from gemmgen.catalog.element import F32, Element
from gemmgen.errors import SpecError
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.shown import Shown, shown_run
from gemmgen.run import Device, Placement, allocated, check_extents, counted, launch_all, stored, strided, unstored

APART = 8
"""Poisoned elements between one matrix of a strided batch and the next."""


@dataclass(frozen=True)
class Product:
    """One product of a batch: alpha A B + beta C.

    Attributes:
        a: [M, K] FP32, as the formula reads; it is stored as the plan's layout says.
        b: [K, N] FP32.
        c: [M, N] FP32; None is NaN everywhere, which beta = 0 must not let through.
        placement: how its matrices lie.
    """

    a: np.ndarray
    b: np.ndarray
    c: np.ndarray | None = None
    alpha: float = 1.0
    beta: float = 0.0
    placement: Placement = field(default_factory=Placement)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(m, n, k)."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]


@dataclass(frozen=True, repr=False)
class BatchResult(Shown):
    """What came out.

    Attributes:
        products: each one's C; their counters are the batch's.
        status: the kernels' counters by name, of all products together.
        seconds: where a real GPU ran it.
        intact: whether nothing was written outside the elements of any C.
    """

    products: tuple[np.ndarray, ...]
    status: dict[str, int]
    seconds: float | None
    intact: bool

    def _told(self) -> dict[str, object]:
        return {"products": len(self.products), **shown_run(self.status, self.seconds, self.intact)}


def sizes_of(products: Sequence[Product]) -> np.ndarray:
    """[products, 3] of m, n, k."""
    return np.array([one.sizes for one in products], np.int64).reshape(-1, 3)


def refuse_overlap(problems: np.ndarray, element: Element = F32) -> None:
    """Where the host can see the products, no two of them may write one place.

    Args:
        problems: [products] of PROBLEM.

    Raises:
        SpecError: the bytes between two products' first and last element of C overlap.
    """
    full = problems[(problems["m"] > 0) & (problems["n"] > 0)]
    begin = full["c"].astype(np.int64)
    end = begin + element.bytes * ((full["m"].astype(np.int64) - 1) * full["ldc"] + full["n"])
    order = np.argsort(begin, kind="stable")
    reaching: list[int] = []  # those before that end behind where this one begins
    for second in order:
        reaching = [first for first in reaching if end[first] > begin[second]]
        first = next((one for one in reaching if not _interleaved(full[one], full[second], element)), None)
        reaching.append(second)
        if first is None:
            continue
        where = np.flatnonzero((problems["m"] > 0) & (problems["n"] > 0))
        raise SpecError(
            "problems", "two products write the same place of C", got=f"products {where[first]} and {where[second]}",
            needs="matrices of C that do not overlap: products are computed at the same time", remedy="a C of its own for each, or two batches",
        )


def _interleaved(one: np.void, other: np.void, element: Element) -> bool:
    """Whether two matrices with one leading dimension lie side by side in the same rows."""
    if one["ldc"] != other["ldc"] or not one["ldc"]:
        return False
    offset = (int(other["c"]) - int(one["c"])) // element.bytes % int(one["ldc"])
    return offset >= one["n"] and offset + other["n"] <= one["ldc"]


def batch(device: Device, plan: Plan, source: Source, products: Sequence[Product], *, threshold: int | None = None) -> BatchResult:
    """All products on `device`.

    Args:
        threshold: threads at work from which on a tiling is parallel enough; None for the plan's, 0 for the largest tiles.

    Raises:
        SpecError: shapes or types do not fit, or kernels for products of one size get several.
        EmulationError, DeviceError: from the driver.
    """
    for one in products:
        check_extents(one.a, one.b, one.c, element=plan.kind.element_of(plan.type))
    sizes = sizes_of(products)
    if plan.kind.uniform and len(set(map(tuple, sizes))) > 1:
        raise SpecError("products", f"a kernel for problems of kind {plan.kind} has one size", got=f"{len(set(map(tuple, sizes)))} sizes",
                        needs="products of one size", remedy='[problem] kind = "grouped"')
    if plan.launches.repeated:
        return _alike(device, plan, source, products)
    interface = source.interface
    threshold = plan.own.threshold if threshold is None and plan.batch.tiles else threshold
    listed = plan.design.listed(plan, sizes, threshold)
    extents = listed.extents | interface.constants
    try:
        memory = allocated(device, interface, extents)
        held = _held(device, plan, products, APART) if plan.kind.strides else [x for one in products for x in _held(device, plan, [one])]
        given = _given(device, plan, products, held, listed) | {"threshold": threshold}
        launch_all(device, interface, extents, given, memory)
        status = counted(device, interface, memory)
        seconds = device.seconds()
        found = [one.result(device, plan) for one in held]
    finally:
        device.release()
    return BatchResult(tuple(c for c, _ in found), status, seconds, all(intact for _, intact in found))


def _alike(device: Device, plan: Plan, source: Source, products: Sequence[Product]) -> BatchResult:
    """Products of one size, for launches that are told one set of factors and leading dimensions.

    Raises:
        SpecError: they have several.
    """
    told = {(one.alpha, one.beta, one.placement) for one in products}
    if len(told) > 1:
        raise SpecError("products", f"of a kernel for problems of kind {plan.kind} share factors and leading dimensions", got=f"{len(told)} sets",
                        needs="one alpha, beta and placement", remedy='[problem] kind = "grouped"')
    if not products:
        products = [Product(*(np.zeros((0, 0), plan.kind.element_of(plan.type).dtype),) * 2)]
    alpha, beta, placement = products[0].alpha, products[0].beta, products[0].placement
    a, b = (np.stack([getattr(one, x) for one in products]) for x in "ab")
    missing = np.full((a.shape[1], b.shape[2]), np.nan, a.dtype)
    c = None if all(one.c is None for one in products) else np.stack([missing if one.c is None else one.c for one in products])
    found = strided(device, plan, source, a, b, c, alpha=alpha, beta=beta, placement=replace(placement, apart=tuple(APART + own for own in placement.apart)))
    return BatchResult(tuple(found.c) if told else (), found.status, found.seconds, found.intact)


@dataclass
class _Held:
    """One product on the device: addresses, leading dimensions, and what lay in C before."""

    a: int
    b: int
    c: int
    lda: int
    ldb: int
    ldc: int
    buffers: tuple[Any, ...]
    before: np.ndarray
    shape: tuple[int, int]
    stride: int
    offset: int

    def result(self, device: Device, plan: Plan) -> tuple[np.ndarray, bool]:
        """C's elements, and whether what lies between its rows, and between it and the next, is as it was."""
        read = self.offset + self.before.size if self.before.size else 0  # an empty C has no memory to read
        out = device.download(self.buffers[2], plan.output.dtype, read)[self.offset:]
        inside, intact = unstored(out, self.before, (1, *self.shape), self.ldc, self.stride)
        return plan.output.values(inside)[0], intact


def _matrices(plan: Plan, products: Sequence[Product]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, B and C of products of one size as their rows lie in memory: [products, rows, columns] each, C poisoned where there is none."""
    a, b = (np.stack([getattr(one, name) for one in products]) for name in "ab")
    c = np.stack([np.full((one.sizes[0], one.sizes[1]), plan.type.poison) if one.c is None else one.c for one in products])
    return tuple(x if layout == "n" else x.transpose(0, 2, 1) for x, layout in zip((a, b, c), (*plan.layout, "n")))  # type: ignore[return-value]


def _held(device: Device, plan: Plan, products: Sequence[Product], apart: int = 0) -> list[_Held]:
    """Products of one size and placement, in one buffer for each of A, B and C.

    Args:
        apart: elements between a matrix and the next, besides the placement's own.
    """
    if not products:
        return []
    placement = replace(products[0].placement, apart=tuple(own + apart for own in products[0].placement.apart))
    kept = [stored(x, placement, which, plan.type) for which, x in enumerate(_matrices(plan, products))]
    buffers = tuple(device.upload(x, name, misalign) for (x, _, _), name, misalign in zip(kept, "abc", placement.misalign))
    (_, lda, _), (_, ldb, _), (before, ldc, stride) = kept
    addresses = [(device.address(buffer), step) for buffer, (_, _, step) in zip(buffers, kept)]
    return [
        _Held(*(address + plan.type.bytes * at * step for address, step in addresses), lda, ldb, ldc, buffers, before[at * stride:][:stride],
              products[0].sizes[:2], stride, at * stride)
        for at in range(len(products))
    ]


def _given(device: Device, plan: Plan, products: Sequence[Product], held: Sequence[_Held], listed: Listed) -> dict[str, Any]:
    """The call's arguments by name, those of all kinds of kernels."""
    problems = np.zeros(len(products), problem_of(plan.type))
    told = list(problems.dtype.names[:-1] if "reserved" in problems.dtype.names else problems.dtype.names)
    for at, (one, place) in enumerate(zip(products, held)):
        problems[told][at] = (place.a, place.b, place.c, place.lda, place.ldb, place.ldc, *one.sizes, one.alpha, one.beta)
    refuse_overlap(problems, plan.type)
    given: dict[str, Any] = {
        "batch": len(products), "list": device.upload(listed.rows, "list"), "listed": len(listed.rows), "turns": listed.extents["turns"],
    }
    return given | plan.kind.arguments(problems, _Uploads(device, problems, held))


@dataclass
class _Uploads:
    """A batch on the device, as `gemmgen.kinds.kind.Held` asks for it."""

    device: Device
    problems: np.ndarray
    held: Sequence[_Held]

    def records(self) -> Any:
        return self.device.upload(self.problems, "problems")

    def pointers(self, operand: str) -> Any:
        return self.device.upload(self.problems[operand].copy(), f"{operand}_list")

    def first(self, operand: str) -> Any:
        return self.held[0].buffers["abc".index(operand)] if self.held else self.device.empty(1, operand)
