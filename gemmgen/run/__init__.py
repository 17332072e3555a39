"""Running a built kernel: one small protocol, and the sequence every driver shares.

A driver knows how to hold memory and launch one kernel. What is launched, in
which order and with which arguments is data in the Source, and is worked off
here, once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from gemmgen.interface import STATUS, Interface, Launch
from gemmgen.catalog.element import F32, Element
from gemmgen.catalog.epilogue import Epilogue
from gemmgen.catalog.input import Input
from gemmgen.catalog.output import Output
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import DeviceError, NotEmulated, SpecError
from gemmgen.kinds import Kind
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.shown import Shown, shown_run
from gemmgen.spec import MAX_EXTENT


class Target(Protocol):
    """What names a compile target: a GPU's row, or a Plan."""

    @property
    def arch(self) -> str: ...


class Device(Protocol):
    """What a driver provides.

    Attributes:
        name: as reports say it.
        kind: `emulator`, `cuda`, `hip`.
        clusters_at_once: of kernels whose blocks work off tiles, how many clusters to launch;
            None for as many as the plan's GPU holds.
    """

    name: str
    kind: str
    clusters_at_once: int | None

    def zeros(self, nbytes: int, name: str) -> Any: ...
    def empty(self, nbytes: int, name: str) -> Any: ...
    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> Any: ...
    def address(self, buffer: Any) -> int: ...
    def part(self, buffer: Any, nbytes: int) -> Any: ...
    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False) -> None: ...
    def download(self, buffer: Any, dtype: Any, count: int) -> np.ndarray: ...
    def seconds(self) -> float | None: ...
    def release(self) -> None: ...


def converted(kind: str, value: Any) -> Any:
    """A value as a kernel's parameter of that type takes it, whichever driver passes it: where one knows only a parameter's
    size, an int for a float would be its bits."""
    if kind == "float":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value if kind == "pointer" else float(value) if kind == "double" else int(value)


def allocated(device: Device, interface: Interface, extents: Mapping[str, int]) -> dict[tuple[str, int], Any]:
    """The workspace on a device, by buffer and offset: whatever a parameter points to is memory of its own, so that an access
    past it is an access out of bounds."""
    memory = {}
    for buffer in interface.buffers:
        places, allocate = interface.places(buffer), device.zeros if buffer.zeroed else device.empty
        for (offset, name), end in zip(places.items(), [*list(places)[1:], buffer.bytes(extents)]):
            memory[buffer.name, offset] = allocate(end - offset, name)
    return memory


def arguments(launch: Launch, given: Mapping[str, Any], memory: Mapping[tuple[str, int], Any]) -> list[tuple[str, Any]]:
    """A launch's arguments, (type, value) each as `Parameter.kind` names types.

    Args:
        given: the call's arguments by name.
        memory: what lies in the workspace, by buffer and offset.
    """
    return [
        (one.kind, memory[one.region, one.offset] if one.argument is None else converted(one.kind, given[one.argument]))
        for one in launch.parameters
    ]


def launch_all(
    device: Device, interface: Interface, extents: Mapping[str, int], given: Mapping[str, Any], memory: Mapping[tuple[str, int], Any],
) -> None:
    """Every launch that has blocks, in order.

    Args:
        extents: as grids call them.
        given: the call's arguments by name; `blocks`, how many a launch has, joins them.
        memory: what lies in the workspace, by buffer and offset.

    Raises:
        EmulationError, DeviceError: from the driver.
    """
    _launch_each(device, interface.launches, extents, given, memory)


def _launch_each(
    device: Device, launches: Sequence[Launch], extents: Mapping[str, int], given: Mapping[str, Any], memory: Mapping[Any, Any], follows: bool = False,
) -> None:
    """
    Args:
        follows: whether a launch that the first one may overlap stands directly before it.
    """
    for launch in launches:
        blocks = launch.blocks(extents)
        if launch.most_blocks and device.clusters_at_once:  # blocks that stay
            blocks = min(blocks, device.clusters_at_once * launch.cluster)
        if blocks:
            args = arguments(launch, {**given, "blocks": blocks}, memory)
            device.launch(launch.symbol, blocks, launch.threads, launch.shared_bytes, args, launch.overlaps and follows)
        follows = blocks > 0


def counted(device: Device, interface: Interface, memory: Mapping[tuple[str, int], Any]) -> dict[str, int]:
    """The kernels' counters by name, as they stand in a workspace on a device."""
    return {
        field.name: int(value)
        for one in interface.counters
        for field, value in zip(one.fields, device.download(memory[STATUS, one.offset], np.uint64, len(one.fields)))
    }


class KernelArguments:
    """A kernel's arguments as both vendors' launches take them: an array of the addresses of values.

    Args:
        args: (type, value) each, as `Parameter.kind` names types; a pointer's value is an address.

    Attributes:
        array: it.
        addresses: where it lies. All of it lives as long as this object.
    """

    _TYPES = {"pointer": ctypes.c_void_p, "int": ctypes.c_int, "long long": ctypes.c_longlong, "float": ctypes.c_float, "double": ctypes.c_double}

    def __init__(self, args: Sequence[tuple[str, Any]]):
        self._values = [self._TYPES[kind](value) for kind, value in args]
        self.array = (ctypes.c_void_p * len(self._values))(*map(ctypes.addressof, self._values))

    @property
    def addresses(self) -> int:
        return ctypes.addressof(self.array)

    def point(self, at: int, address: int) -> None:
        """Have argument `at`, a pointer, be this address from the next launch on: a launch reads arguments while it is enqueued."""
        self._values[at].value = address


@dataclass(frozen=True)
class Placement:
    """How a test lays matrices in memory.

    Attributes:
        extra: elements of the product added to each leading dimension (A, B, C).
        misalign: bytes by which each base address misses 256-byte alignment;
            multiples of an element's.
        apart: elements between a matrix of a batch and the next (A, B, C).
    """

    extra: tuple[int, int, int] = (0, 0, 0)
    misalign: tuple[int, int, int] = (0, 0, 0)
    apart: tuple[int, int, int] = (0, 0, 0)


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """What came out.

    Attributes:
        c: [M, N] of the plan's elements, or [batch, M, N]; of another type of C, what its elements say.
        status: the kernels' counters by name.
        seconds: of all kernels together, where a real GPU ran them.
        intact: whether nothing was written outside C's elements.
    """

    c: np.ndarray
    status: dict[str, int] = field(default_factory=dict)
    seconds: float | None = None
    intact: bool = True

    def _told(self) -> dict[str, object]:
        return {"c": f"{self.c.dtype} {list(self.c.shape)}", **shown_run(self.status, self.seconds, self.intact)}


def gemm(
    device: Device, plan: Plan, source: Source, a: np.ndarray, b: np.ndarray | None, c: np.ndarray | None = None,
    *, alpha: complex = 1.0, beta: complex = 0.0, placement: Placement = Placement(), ends: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """alpha A B + beta C on `device`, and of that what the plan's epilogue makes.

    Args:
        a: [M, K] of the plan's elements, as the formula reads; it is stored as the plan's layout says.
        b: [K, N] likewise, stored as the plan's type of B, whose numbers they are; None where the plan's kind of product has no B.
        c: [M, N] likewise, stored as the plan's type of C; None is NaN everywhere, which beta = 0 must not let through. Of a kind
            that solves the right-hand sides: the result's C is X, and the operand that is not the triangle None.
        ends: the epilogue's arguments by name, vectors [N] or [M] of FP32, and numbers.

    Raises:
        SpecError: shapes or types do not fit, right-hand sides are missing, an argument of the epilogue is missing or unknown, or the
            kernel's launch takes a whole batch.
        EmulationError, DeviceError: from the driver.
    """
    if plan.kind.solves:
        one = _solved(device, plan, source, *(None if x is None else x[None] for x in (a, b, c)), alpha, placement)
        return replace(one, c=one.c[0])
    if a is None:
        raise SpecError("a", f"is missing: kind {plan.kind.name} has it", needs=f"[M, K] {plan.type.dtype}", remedy="a matrix as a")
    whole = plan.kind.multiplied(a, b)
    check_extents(*whole, c, element=plan.kind.element_of(plan.type))
    _check_factors(plan, alpha, beta)
    b = whole[1] if b is None else b
    if plan.launches.of_products:
        raise SpecError("plan", "is for batches", got=f"kind {plan.kind}", needs='[problem] kind = "gemm"', remedy="gemmgen.run.batch.batch, of any number")
    one = _products(device, plan, source, a[None], b[None], None if c is None else c[None], alpha, beta, placement, ends=ends)
    return replace(one, c=one.c[0])


def _check_factors(plan: Plan, alpha: complex, beta: complex) -> None:
    real = {name: complex(factor) for name, factor in (("alpha", alpha), ("beta", beta)) if name not in plan.kind.imaginary}
    if any(factor.imag for factor in real.values()):
        problem, remedy = ("complex, and C would not be Hermitian", "real numbers") if plan.kind.hermitian else (
            "complex, and C is not", '[problem] type = "c64"')
        raise SpecError(", ".join(real), f"{'is' if len(real) == 1 else 'are'} {problem}", got=(alpha, beta), needs=f"a real {' and '.join(real)}",
                        remedy=remedy)


def _solved(
    device: Device, plan: Plan, source: Source, a: np.ndarray | None, b: np.ndarray | None, c: np.ndarray | None, alpha: complex, placement: Placement,
    shared: int | None = None,
) -> Result:
    """X [batch, ...] of A X = alpha C, or of X B = alpha C, in rounds: the workspace of each is memory of its own, but for the counters."""
    kind, which = plan.kind, "ab".index(plan.solved.name)
    triangle, other = (a, b) if kind.left else (b, a)
    if c is None or triangle is None or other is not None:
        raise SpecError("a, b, c", f"kind {kind.name} has one triangle and right-hand sides", got=[None if x is None else x.shape for x in (a, b, c)],
                        needs=f"{plan.solved.name} [size, size] and c, and no other operand")
    check_extents(*((triangle, c) if kind.left else (c, triangle)), None, batched=True, element=kind.element_of(plan.type))
    _check_factors(plan, alpha, 0.0)
    if triangle.shape[1] != triangle.shape[2]:
        raise SpecError(plan.solved.name, f"is not square, as kind {kind.name} has it", got=triangle.shape, needs="as many rows as columns")
    c = kind.in_memory(c, "n")
    placement = _of_parts(kind, placement)
    batch, m, n = c.shape
    check_apart(m, n, *_steps(m, n, placement, 2), batch)
    stored_x, ld, stride = stored(kind.in_memory(triangle, kind.layout_of(plan.layout)[which]), placement, which, plan.type)
    stored_c, ldc, stride_c = stored(c, placement, 2, plan.output)
    interface = source.interface
    try:
        memory = allocated(device, interface, interface.extents(0, 0, 0))
        counters = {place: held for place, held in memory.items() if place[0] == STATUS}
        call = {
            plan.solved.name: device.upload(stored_x, plan.solved.name, placement.misalign[which]), f"ld{plan.solved.name}": ld,
            f"stride_{plan.solved.name}": stride if shared is None else shared,
            "c": device.upload(stored_c, "c", placement.misalign[2]), "ldc": ldc, "stride_c": stride_c, "batch": batch,
        }
        for number, one in enumerate(interface.rounds(m, n, 0, complex(alpha), 0.0)):
            extents = interface.extents(one.m, one.n, one.k, batch)
            memory = {} if one.solves else allocated(device, interface, extents)
            given = one.given(call, lambda operand, elements: device.part(operand, elements * plan.type.bytes))
            # A GPU fills the memory of a product's own before its launches.
            follows = number > 0 and (one.solves or device.kind == "emulator")
            _launch_each(device, interface.launches_of(one.solves), extents, given, memory | counters, follows)
        out, status, seconds = device.download(call["c"], plan.output.dtype, stored_c.size), counted(device, interface, counters), device.seconds()
    finally:
        device.release()
    inside, intact = unstored(out, stored_c, (batch, m, n), ldc, stride_c)
    return Result(kind.from_memory(plan.output.values(inside)), status, seconds, intact)


def _of_parts(kind: Kind, placement: Placement) -> Placement:
    """The placement of elements as one of the numbers that they consist of."""
    return replace(placement, extra=tuple(kind.reals * one for one in placement.extra), apart=tuple(kind.reals * one for one in placement.apart))


def strided(
    device: Device, plan: Plan, source: Source, a: np.ndarray | None, b: np.ndarray | None, c: np.ndarray | None = None,
    *, alpha: complex = 1.0, beta: complex = 0.0, placement: Placement = Placement(), strides: tuple[int | None, int | None] = (None, None),
    ends: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """alpha A B + beta C of each product of a batch, in one launch of each kernel of a plan of a strided batch.

    Args:
        a: [batch, M, K] of the plan's elements; each matrix is stored as the plan's layout says. None where the plan's kind solves for a triangular B.
        b: [batch, K, N] likewise; None where the plan's kind of product has no B.
        c: [batch, M, N] likewise; None is NaN everywhere, which beta = 0 must not let through. Of a kind that solves the right-hand sides.
        placement: where the matrices lie; they follow one another. Where arrays of pointers locate them, the last product's come first.
        strides: 0 for an A or B of which all products take the first matrix.
        ends: the epilogue's arguments by name: vectors [batch, N] or [batch, M] of FP32, or [N] or [M] for all products, and numbers.

    Raises:
        SpecError: shapes or types do not fit, matrices of C would overlap, or the plan is for one product.
        EmulationError, DeviceError: from the driver.
    """
    if not plan.launches.repeated:
        raise SpecError("plan", "is for no batch of one size", got=plan.kind.name, needs='[problem] kind = "strided"',
                        remedy="gemmgen.run.gemm for one product")
    if plan.kind.solves:
        return _solved(device, plan, source, a, b, c, alpha, placement, strides["ab".index(plan.solved.name)])
    _check_factors(plan, alpha, beta)
    if not plan.kind.plain:
        for at, one in enumerate(a):
            check_extents(*plan.kind.multiplied(one, None if b is None else b[at]), None if c is None else c[at], element=plan.kind.element_of(plan.type))
        b = a.transpose(0, 2, 1) if b is None else b  # of one operand
    else:
        check_extents(a, b, c, batched=True, element=plan.type)
    return _products(device, plan, source, a, b, c, alpha, beta, placement, strides, ends)


def check_apart(m: int, n: int, ldc: int, stride_c: int, batch: int) -> None:
    """Whether the matrices of C of a strided batch lie apart, as kernels that write all of them at once need it.

    Args:
        ldc, stride_c: elements from row to row and from matrix to matrix.

    Raises:
        SpecError: two of them share an element.
    """
    least = (m - 1) * ldc + n
    if batch > 1 and m > 0 and n > 0 and abs(stride_c) < least:
        raise SpecError("stride_c", "lets two matrices of C overlap", got=stride_c, needs=f"at least {least} elements, up or down, which a matrix takes",
                        remedy=f"stride_c = {m * ldc}")


def _products(
    device: Device, plan: Plan, source: Source, a: np.ndarray, b: np.ndarray, c: np.ndarray | None, alpha: complex, beta: complex, placement: Placement,
    strides: tuple[int | None, int | None] = (None, None), ends: Mapping[str, Any] = MappingProxyType({}),
) -> Result:
    """Every product of a batch: [batch, M, K], [batch, K, N] and [batch, M, N]."""
    (batch, m, k), n = a.shape, b.shape[2]
    ends = plan.epilogue.checked(ends, m, n, batch if plan.launches.repeated else None)
    kind, layout = plan.kind, plan.kind.layout_of(plan.layout)
    m, n, k = kind.extents(m, n, k)
    placement = _of_parts(kind, placement)
    check_sums(plan, k)
    check_apart(m, n, *_steps(m, n, placement, 2), batch)
    c = np.full((batch, m, n), plan.type.poison) if c is None else kind.in_memory(c, "n")
    turned = slice(None, None, -1 if kind.indirect else 1)  # the last product's matrices first, where no stride tells where the next one's are
    stored_a, lda, stride_a = stored(kind.in_memory(a, layout[0])[turned], placement, 0, plan.type)
    plan.inputs.stored_b.require(b)
    stored_b, ldb, stride_b = stored(kind.in_memory(b, layout[1])[turned], placement, 1, plan.inputs.stored_b)
    stored_c, ldc, stride_c = stored(c[turned], placement, 2, plan.output)
    own = {"a": stride_a, "b": stride_b, "c": stride_c}
    stride_a, stride_b = (own if asked is None else asked for own, asked in zip((stride_a, stride_b), strides))
    interface = source.interface
    extents = interface.extents(m, n, k, batch)
    try:
        memory = allocated(device, interface, extents)
        c_buffer = device.upload(stored_c, "c", placement.misalign[2])
        given: dict[str, Any] = {
            "a": device.upload(stored_a, "a", placement.misalign[0]), "lda": lda, "stride_a": stride_a,
            "b": None if "b" in plan.kind.aliases else device.upload(stored_b, "b", placement.misalign[1]), "ldb": ldb, "stride_b": stride_b,
            "c": c_buffer, "ldc": ldc, "stride_c": stride_c, "m": m, "n": n, "k": k, "batch": batch, "alpha": alpha.real, "beta": beta.real,
            "alpha_i": alpha.imag, "beta_i": beta.imag,
            **ended(device, plan.epilogue, ends),
        }
        if kind.indirect:
            for x in "abc":
                at = np.arange(batch)[turned] if given[f"stride_{x}"] else np.full(batch, batch - 1)
                given[x] = device.upload((device.address(given[x]) + at * own[x] * plan.type.bytes).astype(np.uint64), f"{x}_list")
        if interface.rounds:
            counters = {place: held for place, held in memory.items() if place[0] == STATUS}
            for number, one in enumerate(interface.rounds(m, n, k, complex(alpha), complex(beta))):
                workspace = (allocated(device, interface, extents) if number else memory) | counters
                launch_all(device, interface, extents, one.given(given, lambda operand, elements: operand), workspace)
        else:
            launch_all(device, interface, extents, given, memory)
        out = device.download(c_buffer, plan.output.dtype, stored_c.size)
        status = counted(device, interface, memory)
        seconds = device.seconds()
    finally:
        device.release()
    inside, intact = unstored(out, stored_c, (batch, m, n), ldc, stride_c)
    return Result(kind.from_memory(plan.output.values(inside[turned])), status, seconds, intact)


def ended(device: Device, epilogue: Epilogue, ends: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a launch has of an epilogue's, vectors uploaded.

    Args:
        ends: as `Epilogue.checked` gave them.
    """
    found: dict[str, Any] = {}
    for one in epilogue.arguments:
        value = ends[one.name]
        told = one.is_vector and value is not None
        found[one.name] = device.upload(np.ascontiguousarray(value).ravel(), one.name) if told else value
        if one.is_vector:
            found[one.stride] = value.shape[-1] if told and value.ndim > 1 else 0
    return found


def check_sums(plan: Plan, k: int) -> None:
    """Whether no sum of a kernel can overflow.

    Raises:
        SpecError: K is beyond what INT32 sums hold.
    """
    most = plan.scheme.family.largest_k
    if most is not None and k > most:
        raise SpecError("a, b", f"have too large a K for sums of {plan.scheme.name}", got=k, needs=f"K of at most {most}, whose INT32 sums cannot overflow",
                        remedy="products of parts of K that add up, with beta = 1")


def check_array(name: str, x: Any) -> None:
    """
    Raises:
        SpecError: it is no array of NumPy, or has masked elements.
    """
    if not isinstance(x, np.ndarray):
        raise SpecError(name, "is no array of NumPy", got=type(x).__name__, needs="a NumPy array", remedy=f"numpy.asarray({name}, 'float32')")
    if np.ma.is_masked(x):
        raise SpecError(name, "has masked elements, which a product would count", got=f"{x.mask.sum()} masked", needs="numbers everywhere",
                        remedy=f"{name}.filled(0)")


def check_extents(a: np.ndarray, b: np.ndarray, c: np.ndarray | None, batched: bool = False, element: Element = F32) -> None:
    what, lead = ("a batch of matrices", "batch, ") if batched else ("a matrix", "")
    for name, x in (("a", a), ("b", b)) + ((("c", c),) if c is not None else ()):
        if x.ndim != 2 + batched or x.dtype != element.dtype:
            remedy = f"{name}.astype({str(element.dtype)!r})" if x.ndim == 2 + batched else None
            raise SpecError(name, f"is not {what} of {element.dtype}", got=f"{x.dtype} of shape {x.shape}",
                            needs=f"{2 + batched} dimensions of {element.dtype}", remedy=remedy)
    (*batch, m, k), n = a.shape, b.shape[-1]
    if b.shape != (*batch, k, n) or (c is not None and c.shape != (*batch, m, n)):
        raise SpecError("a, b, c", "shapes do not fit", got=f"{a.shape}, {b.shape}, {None if c is None else c.shape}",
                        needs=f"[{lead}m, k], [{lead}k, n], [{lead}m, n]")
    most = (MAX_EXTENT - 4096) // element.reals
    if max(m, n, k) > most:
        raise SpecError("a, b", "are too large", got=(m, n, k), needs=f"extents below {most}")


def _steps(rows: int, columns: int, placement: Placement, which: int) -> tuple[int, int]:
    """Elements from row to row and from matrix to matrix."""
    ld = max(1, columns + placement.extra[which])
    return ld, rows * ld + placement.apart[which]


def stored(x: np.ndarray, placement: Placement, which: int, kind: Output | Input | Element = F32) -> tuple[np.ndarray, int, int]:
    """Row major with a leading dimension and a stride, poisoned between rows and matrices, ending with the last element.

    Args:
        kind: what the elements are stored as.
    """
    as_stored = kind.rounded if isinstance(kind, Element) else kind.stored
    batch, rows, columns = x.shape
    ld, stride = _steps(rows, columns, placement, which)
    flat = np.full(batch * stride, as_stored(np.full(1, np.nan, x.dtype))[0])
    _matrices(flat, (batch, rows, columns), ld, stride)[...] = as_stored(x)
    return flat[: (batch - 1) * stride + (rows - 1) * ld + columns] if x.size else flat[:0], ld, stride


def _matrices(flat: np.ndarray, shape: tuple[int, int, int], ld: int, stride: int) -> np.ndarray:
    """The elements of a batch in the memory that holds it, of whole strides."""
    batch, rows, columns = shape
    return flat.reshape(batch, stride)[:, : rows * ld].reshape(batch, rows, ld)[:, :, :columns]


def unstored(flat: np.ndarray, before: np.ndarray, shape: tuple[int, int, int], ld: int, stride: int) -> tuple[np.ndarray, bool]:
    """C's elements, and whether what lies between its rows and matrices is as it was, bit for bit."""
    if not before.size:
        return np.zeros(shape, before.dtype), True
    padded = np.zeros(shape[0] * stride, before.dtype)
    old = padded.copy()
    padded[: flat.size], old[: before.size] = flat, before
    inside = _matrices(padded, shape, ld, stride).copy()
    for each in (padded, old):
        _matrices(each, shape, ld, stride)[...] = 0
    return inside, padded.tobytes() == old.tobytes()


def why_not(target: Target) -> DeviceError | None:
    """None when a GPU that runs `target`'s machine code is here, else the reason it cannot be used."""
    return _driver(target).why_not(target)


def emulated(plan: Plan) -> bool:
    """Whether the emulator has a model of the kernel's instructions."""
    return plan.gpu.maker.checked.emulates(plan.arch)


def _driver(target: Target) -> Any:
    """The module that drives the GPUs of `target`'s vendor."""
    return import_module(f"gemmgen.run.{vendor_of(target.arch).platform}")


def driver_facts(kind: str) -> dict[str, Any]:
    """What the driver of `cuda` or `hip` tells of the GPU here without a measurement: its name as `title`, its `arch`, and limits as rows name them.

    Raises:
        DeviceError: there is no such GPU.
    """
    return import_module(f"gemmgen.run.{kind}").driver_facts()


def sensors_of(kind: str) -> Any:
    """The sensors of the GPU here, of `cuda` or `hip`; None where they cannot be read."""
    return import_module(f"gemmgen.run.{kind}").sensors()


def open_on(target: Target, binary: Any) -> Device:
    """A driver for a binary on the GPU here, which `why_not` has nothing against."""
    return _driver(target).open_device(binary)


def open_device(kind: str, plan: Plan, source: Source, binary: Any, *, where: str = "--device") -> Device:
    """A driver for `binary`.

    Args:
        kind: `emulator`; `cuda` or `hip`; or `auto`: a GPU of the plan's vendor if one can run the binary, else the emulator.

    Raises:
        DeviceError: the asked GPU is not there, or the kernel is not for its vendor's.
        NotEmulated: there is none, and the emulator cannot execute the kernel.
    """
    own = plan.gpu.maker.platform
    if kind not in ("auto", "emulator", own):
        raise DeviceError(
            f"{where} {kind}", f"runs no {plan.arch} machine code", got=plan.gpu.title, needs=f"{where} {own} for this kernel",
            remedy=f"{where} auto, or another [target] gpu",
        )
    if kind in ("auto", own):
        reason = why_not(plan)
        if reason is None:
            return open_on(plan, binary)
        if kind == own:
            raise reason
    if not emulated(plan):
        raise NotEmulated(
            where, f"{plan.arch} kernels are compiled, not emulated", got=kind,
            needs=f"a GPU of {plan.arch}; no kernel of this kind has ever been run",
            remedy=f"a GPU of another architecture, or {where} {own} where there is one",
        )
    from gemmgen.run.emulator import EmulatorDevice

    return EmulatorDevice(plan, source, binary)
