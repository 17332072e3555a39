"""What is timed: anything that puts its product on a stream; generated kernels here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gemmgen.build import Binary
from gemmgen.catalog.output import require_f32
from gemmgen.kinds import require_plain
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import arguments, check_sums
from gemmgen.run.cuda import CudaDevice
from gemmgen.run.sensors import Sample
from gemmgen.timing.inputs import Inputs


@dataclass
class Contender:
    """Something to time.

    Attributes:
        name: as the table says it.
        enqueue: puts the product of input set `index` on the current stream.
        layout: how it reads the operands' memory.
        outputs: where it leaves C of each input set.
        judged: whether C is the product of the operands, so that its error tells something.
        detail: which kernel or configuration it is.
        capturable: whether all of it goes to the current stream and nothing waits. What does otherwise is enqueued anew each time, on the default stream.
        sets: numbers after which `enqueue` begins anew, all of which a slice holds; 0 where any slice does.
        seconds: one figure a round, of one product, or of one batch of products.
        host_seconds: the same of the host's own time until everything was enqueued.
        scaled: of a batch, the largest |C - C*| / (|A| |B|).
        samples: the sensors while it ran.
    """

    name: str
    enqueue: Callable[[int], None]
    layout: str = "nn"
    outputs: Sequence[Any] = ()
    judged: bool = True
    detail: str = ""
    capturable: bool = True
    sets: int = 0
    seconds: list[float] = field(default_factory=list)
    host_seconds: list[float] = field(default_factory=list)
    scaled: float = float("nan")
    samples: list[Sample] = field(default_factory=list)


def generated(name: str, plan: Plan, source: Source, binary: Binary, inputs: Inputs, *, main_only: bool = False, only: str = "",
              judged: bool = True) -> Contender:
    """A generated kernel with its split pass: all launches of the Source.

    Args:
        main_only: time the last launch alone. The others run here, once for each input set, into words of the set's own.
        only: the same of the launch of this role (`gemmgen.abi.Launch.role`).
        judged: whether C is to be A B of the inputs; else the plan may be of any kind of product.

    Raises:
        SpecError: C is of another type than FP32, or not A B.
    """
    import cupy

    only = "gemm" if main_only else only
    require_f32(plan.output, "races are between kernels that have")
    if judged or plan.kind.solves:  # whose launches run in rounds
        require_plain(plan.kind, "races are of")
    of_b = inputs.b_for(plan.inputs.stored_b)
    m, n, k = inputs.size
    check_sums(plan, k)
    device = CudaDevice(binary)
    interface = source.interface
    extents, work = interface.extents(m, n, k), interface.workspace(m, n, k)
    # The data are random, so storing A as A^T needs other numbers, not a transposition.
    launches, spaces = [], []
    for index in range(inputs.sets):
        if only or not spaces:
            spaces.append(cupy.empty(work.bytes, cupy.uint8))
            spaces[-1][: work.zeroed].fill(0)
            memory = {
                (buffer.name, offset): spaces[-1][work.offsets[buffer.name] + offset :]
                for buffer in interface.buffers for offset in interface.places(buffer)
            }
        given = {
            "a": inputs.a[index], "b": of_b[index], "c": inputs.c[index], "m": m, "n": n, "k": k,
            "lda": k if plan.layout[0] == "n" else m, "ldb": n if plan.layout[1] == "n" else k, "ldc": n, "alpha": 1.0, "beta": 0.0,
            "stride_a": m * k, "stride_b": k * n, "stride_c": m * n, "batch": 1,  # of a strided kernel one product
            **_ends(plan, m, n),
        }
        launches.append([
            device.prepared(
                launch.symbol, launch.blocks(extents), launch.threads, launch.shared_bytes, arguments(launch, given, memory), launch.overlaps,
            )
            for launch in interface.launches if launch.blocks(extents)
        ])
    zeroed_again = any(work.lengths[buffer.name] for buffer in interface.buffers if buffer.zeroed_again)

    def enqueue(index: int) -> None:
        at = index % inputs.sets
        if zeroed_again:
            spaces[at % len(spaces)][: work.zeroed].fill(0)
        for launch in launches[at]:
            launch()

    if only:
        for index in range(inputs.sets):
            enqueue(index)
        at = [launch.role for launch in interface.launches if launch.blocks(extents)].index(only)
        zeroed_again, launches = False, [[steps[at]] for steps in launches]
    return Contender(name, enqueue, plan.layout, inputs.c, judged=judged and not plan.epilogue, detail=source.name)


def _ends(plan: Plan, m: int, n: int) -> dict[str, Any]:
    """What an epilogue is given: vectors of 0, and numbers of 1. C is no product then, whatever they are."""
    import cupy

    found: dict[str, Any] = {}
    for one in plan.epilogue.arguments:
        found[one.name] = cupy.zeros({"n": n, "m": m}[one.over], cupy.float32) if one.is_vector else 1
        found |= {one.stride: 0} if one.is_vector else {}
    return found
