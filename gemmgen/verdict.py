"""What a kernel is worth: its time beside that of plain FP32, or of native FP64, on the same GPU at the same size.

    verdict(plan).sentence      on h200 at 4096 x 4096 x 4096: 4.3 x FP32 (predicted)
    verdict(plan).loses         whether plain FP32 is faster, with an error that is no worse by much

Plain FP32 is the faster of two: gemmgen's own kernel of scheme `fp32`, and the vendor's SGEMM (M24) where its constants were measured. Native FP64
is what M25 says of the GPU's FP64 rate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, inf, log
from typing import Any

from gemmgen.catalog.element import F32
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.errors import GemmgenError
from gemmgen.kinds import GEMM, STRIDED, Kind
from gemmgen.model import time
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.plan import Plan
from gemmgen.solve import explain, solve
from gemmgen.solve.contract import EVERYWHERE, own_estimate
from gemmgen.solve.lookup import PLAIN
from gemmgen.spec import LoadedSpec, loads

OWN, VENDORS_OWN, VENDORS_CGEMM, NATIVE = "gemmgen's FP32 kernel", "the vendor's SGEMM", "the vendor's CGEMM", "native FP64"
LOSING = 0.95
"""Of plain FP32's speed: predictions of two kernels do not tell more apart."""
FINER = 0.1
"""Times FP32's error, on all data that `[accuracy] as` speaks of: a kernel that errs no more serves who needs more
than FP32, and is not held against its speed."""


@dataclass(frozen=True)
class Verdict:
    """A kernel's time beside plain FP32's, or beside native FP64's, both for all products of a launch.

    Attributes:
        gpu: its name.
        m, n, k, products: the size.
        seconds, fp32_seconds: of the kernel, and of plain FP32, or native FP64.
        fp32: whose that is.
        error: the kernel's estimated relative Frobenius error over that of a sequential dot product in `element`, the worst of `EVERYWHERE`; infinite out
            of range.
        scheme: the kernel's.
        measured: the device on which both times were measured; empty where they are predicted.
        element: the type of elements, in words.
    """

    gpu: str
    m: int
    n: int
    k: int
    seconds: float
    fp32_seconds: float
    fp32: str = OWN
    error: float = 1.0
    scheme: str = ""
    products: int = 1
    measured: str = ""
    element: str = F32.title

    @property
    def ratio(self) -> float:
        """How many times as fast as plain FP32."""
        return self.fp32_seconds / self.seconds

    @property
    def plain(self) -> bool:
        """Whether the kernel is plain FP32 itself."""
        return self.scheme == PLAIN

    @property
    def loses(self) -> bool:
        """Whether plain FP32 serves better: it is faster, and the kernel's error is not far smaller."""
        return self.ratio < LOSING and self.error > FINER

    @property
    def how(self) -> str:
        return f"measured on {self.measured}" if self.measured else "predicted"

    @property
    def size(self) -> str:
        """`64 of 256 x 256 x 256`."""
        return (f"{self.products} of " if self.products > 1 else "") + f"{self.m} x {self.n} x {self.k}"

    @property
    def sentence(self) -> str:
        """The verdict in a line."""
        at = f"on {self.gpu} at {self.size}"
        if self.loses:
            return f"use {self.fp32 if self.plain else self.element}: this kernel runs at {self.ratio:.2f} of its speed {at} ({self.how})"
        if self.plain:
            return f"{at}: plain FP32 itself ({self.how})"
        finer = f" with {self.error:.1g} of its error" if self.ratio < LOSING else ""
        return f"{at}: {times(self.ratio)} x {self.element}{finer} ({self.how})"

    def as_dict(self) -> dict[str, Any]:
        """For `--json` and manifests."""
        return {
            "gpu": self.gpu, "m": self.m, "n": self.n, "k": self.k, "products": self.products, "seconds": self.seconds, "fp32_seconds": self.fp32_seconds,
            "ratio": round(self.ratio, 4), "fp32": self.fp32, "error_over_fp32s": round(self.error, 4) if self.error < inf else None,
            "loses": self.loses, "how": "measured" if self.measured else "predicted", "measured_on": self.measured or None, "sentence": self.sentence,
        }


def times(ratio: float) -> str:
    """A ratio with two digits that count."""
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 0.995 else f"{ratio:.2f}"


def verdict(plan: Plan, reads_c: bool = False) -> Verdict | None:
    """Of a plan at the sizes of its hints; None where there is nothing to compare with, as on a GPU whose FP64 rate is unknown, and of batches whose
    products get tiles of their own (`untold` says why).

    Args:
        reads_c: whether beta is not 0, so that both read C.
    """
    if plan.batch and plan.batch.tiles:
        return None
    found = plain_seconds(plan, reads_c)
    if found is None:
        return None
    seconds, whose = found
    h = plan.hints
    own = seconds_of(plan, reads_c)
    return Verdict(plan.gpu.name, *h.asked, own, seconds, whose, error_over_fp32s(plan), plan.scheme.name, h.matrices if plan.kind.batched else 1,
                   element=plan.kind.element_of(plan.type).title)


def seconds_of(plan: Plan, reads_c: bool = False) -> float:
    """Predicted seconds of a plan's kernel at the sizes of its hints, with C's way in where beta is not 0."""
    reads = 0.0 if not reads_c else _reading(plan, time.C_READS if plan.type.is_usual else 1.0)
    return own_seconds(plan) + reads


def _reading(plan: Plan, reads: float) -> float:
    h = plan.hints
    return time.c_seconds(plan.gpu, h.m, h.n, h.matrices if plan.kind.batched else 1, plan.output.bytes, reads, 0.5 if plan.kind.tiles else 1.0)


def own_seconds(plan: Plan) -> float:
    """Predicted seconds of a plan's launches.

    Of a kind that solves they add up over rounds, as a library's do: products of few unknowns leave SMs idle, which half of one large product does not show.
    """
    h, kind = plan.hints, plan.kind
    if not kind.solves:
        return float(plan.model["seconds"])
    products = Counter((one.m, one.n, one.k) for one in kind.rounds(h.m, h.n, h.k, 1.0, 0.0, True) if not one.solves)
    between = replace(plan, kind=kind.between)
    launches = 2 * plan.model["launch_seconds"]  # of a product, which K12 has, too
    return float(plan.model["solve_seconds"] + sum(
        count * (replace(between, hints=replace(h, m=m, n=n, k=k)).model["seconds"] - launches) for (m, n, k), count in products.items()))


def untold(plan: Plan) -> str:
    """Why a plan has no verdict."""
    if plan.batch and plan.batch.tiles:
        # docs/results/batches.md: on an H200 they were measured to be 1.5 times as fast, and are predicted to be slower.
        return "none: predicted times of batches whose products get tiles of their own do not rank matrix unit and FP32 units; gemmgen bench --suite does"
    return f"none: {plan.gpu.name}'s row has no rate of {plan.type.title} to compare with"


def plain_seconds(plan: Plan, reads_c: bool = False) -> tuple[float, str] | None:
    """(seconds of plain FP32 for a plan's problem, whose), the faster of both, or those of native FP64; None where there is none."""
    vendors_reading = _reading(plan, 1.0) if reads_c else 0.0
    if not plan.type.is_usual:
        h = plan.hints
        seconds = native_seconds(plan.gpu, h.m, h.n, h.k, h.matrices if plan.kind.batched else 1)
        if seconds is not None and plan.kind.solves:
            return _of_routine(plan.kind, seconds, time.NATIVE_START + time.NATIVE_FIRST_SECONDS * min(h.k, time.NATIVE_FIRST_K), h.m, h.k, h.matrices), NATIVE
        # Of a triangle of C the vendor computes half, at the same rate.
        return None if seconds is None else ((seconds / 2 if plan.kind.tiles else seconds) + vendors_reading, NATIVE)
    try:
        own = plan if plan.scheme.name == PLAIN else plain_plan(plan)
    except GemmgenError:
        own = None
    found = [(seconds_of(own, reads_c), OWN)] if own else []
    vendors = None if plan.epilogue else vendor_seconds(plan)
    found += [] if vendors is None else [(vendors + vendors_reading, VENDORS_CGEMM if plan.kind.reals > 1 else VENDORS_OWN)]
    return min(found, default=None)


def vendor_seconds(plan: Plan) -> float | None:
    """Predicted seconds of the vendor's FP32 routine of a plan's kind; None where there is none, or nobody measured SGEMM on such a GPU."""
    kind, h = plan.kind, plan.hints
    return vendor_seconds_of(plan.gpu, kind, h.m, h.n, h.k, h.matrices if kind.batched else 1)


def vendor_seconds_of(gpu: Gpu, kind: Kind, m: int, n: int, k: int, products: int = 1) -> float | None:
    """The same of a kind at a size."""
    whole = sgemm_seconds(gpu, m, n, k, products)
    if whole is None or kind in (GEMM, STRIDED):
        return whole
    if kind.vendor_share is None:
        return None
    known = time.sgemm_numbers(gpu)
    return _of_routine(kind, whole, known["sgemm_start"] + known["sgemm_first"] * min(k, time.FIRST_K), m, k, products)


def _of_routine(kind: Kind, whole: float, start: float, m: int, k: int, matrices: int) -> float:
    """Seconds of the vendor's own routine of a kind, of those of the whole product."""
    together = kind.vendor_together if matrices > 1 else 1
    waits = next((share for most, share in kind.vendor_few if m <= most and matrices == 1), 1.0)
    return start + together * (kind.vendor_share * (whole - start) + waits * kind.vendor_chain * k)


def plain_plan(plan: Plan) -> Plan:
    """gemmgen's own FP32 kernel for the problem of a plan.

    Raises:
        GemmgenError: there is none.
    """
    h = plan.hints
    layout, element = plan.kind.layout_of(plan.layout), plan.kind.element_of(plan.type).name
    return _plain(_named(plan.gpu), plan.kind.asked, layout, plan.output.name, tuple(plan.epilogue.names), h.asked, h.matrices, element)


def plain_of(gpu: Gpu, m: int, n: int, k: int, layout: str = "nn") -> tuple[float, str]:
    """(seconds of plain FP32 for one product, whose), the faster of both.

    Raises:
        GemmgenError: there is no FP32 kernel for it.
    """
    own = float(_plain(_named(gpu), GEMM.name, layout, "f32", (), (m, n, k), 1).model["seconds"]), OWN
    vendors = sgemm_seconds(gpu, m, n, k)
    return own if vendors is None else min(own, (vendors, VENDORS_OWN))


@lru_cache(256)
def _plain(gpu: str, kind: str, layout: str, c: str, epilogue: tuple[str, ...], size: tuple[int, int, int], matrices: int, type: str = F32.name) -> Plan:
    problem = {"kind": kind, "layout": layout, "type": type, "c": c, **dict(zip("mnk", size)), "matrices": matrices}
    return solve(loads({"problem": problem, "split": {"scheme": PLAIN}, "target": {"gpu": gpu}, "epilogue": {"do": list(epilogue)}}, "plain FP32"))


def _named(gpu: Gpu) -> str:
    """How a spec names a GPU: a row of one's own by its file."""
    shipped = gpu.name in GPUS.names() and GPUS.get(gpu.name) == gpu
    return gpu.name if shipped or gpu._folder is None else str(gpu._folder / f"{gpu.name}.toml")


def sgemm_seconds(gpu: Gpu, m: int, n: int, k: int, batch: int = 1) -> float | None:
    """M24: the vendor's SGEMM; None where nobody measured it on such a GPU."""
    if not time.sgemm_measured(gpu):
        return None
    return float(time.SGEMM_SECONDS.value({**time.sgemm_numbers(gpu), "M": float(m), "N": float(n), "K": float(k), "batch": float(batch)}))


def native_seconds(gpu: Gpu, m: int, n: int, k: int, batch: int = 1) -> float | None:
    """M25: native FP64; None where the GPU's row has no rate of it."""
    rates = time.native_numbers(gpu)
    return None if rates is None else float(time.NATIVE_SECONDS.value({**rates, "M": float(m), "N": float(n), "K": float(k), "batch": float(batch)}))


def error_over_fp32s(plan: Plan) -> float:
    """The estimated error over that of a sequential dot product in the elements' type, the worst of `EVERYWHERE`."""
    unit, k = plan.unit if plan.fragment.on_matrix_unit else None, plan.hints.k
    found = []
    for name in EVERYWHERE:
        data = DISTRIBUTIONS[name]
        own = predicted(plan.scheme, unit, k, plan.promote, data, plan.output.roundoff, plan.promotion.compensates).estimate
        found.append(own / own_estimate(plan.type, k, data))
    return max(found)


def accepts_fp32(loaded: LoadedSpec) -> bool:
    """Whether plain FP32 may stand in for what a spec asks of the error: an `[accuracy]` that FP32 gives, or a scheme that is not far finer."""
    from gemmgen.catalog.scheme import SCHEMES
    from gemmgen.solve.contract import contract

    asked = contract(loaded)
    if asked is not None:
        return asked.times(SCHEMES.get(PLAIN), None, 0) <= 1
    try:
        return error_over_fp32s(solve(loaded)) > FINER
    except GemmgenError:
        return True


def summary(verdicts: Sequence[Verdict], otherwise: str = "use FP32") -> str:
    """Several sizes on one GPU in a line: the geometric mean, and where plain FP32 is faster.

    Args:
        otherwise: what is said of those sizes.
    """
    mean = exp(sum(log(one.ratio) for one in verdicts) / len(verdicts))
    measured = sorted({one.measured for one in verdicts if one.measured})
    count = sum(bool(one.measured) for one in verdicts)
    how = "predicted" if not measured else f"measured on {', '.join(measured)}" + ("" if count == len(verdicts) else f" at {count}, else predicted")
    sizes = f"{len(verdicts)} sizes" if len(verdicts) > 1 else "1 size"
    lost = [one for one in verdicts if one.loses]
    told = f"on {verdicts[0].gpu}: {times(mean)} x {verdicts[0].element} in the mean of {sizes} ({how})"
    if lost:
        shown = ", ".join(one.size for one in lost[:3]) + (f" and {len(lost) - 3} more" if len(lost) > 3 else "")
        told += f"; {otherwise} at {shown}"
    return told


# ---- the map of worth

WORTH_SIZES = (256, 1024, 4096, 16384)
"""Rows, columns and sum of the products of the map."""


def worth(gpus: Sequence[Gpu], sizes: Sequence[int] = WORTH_SIZES, progress: Callable[[str], None] = lambda step: None) -> list[Verdict]:
    """Of each GPU and size, the fastest kernel with FP32's error (`[accuracy] as = "fp32"`) that is not plain FP32 itself, beside plain FP32.

    A GPU on which no scheme reaches that error, or which has no plain FP32 kernel, is left out.
    """
    found = []
    for gpu in gpus:
        for number, size in enumerate(sizes):
            progress(f"{gpu.name}, size {number + 1} of {len(sizes)}")
            try:
                loaded = loads({"problem": dict.fromkeys("mnk", size), "accuracy": {"as": "fp32"}, "target": {"gpu": _named(gpu)}}, "worth")
                weighed = {name.split()[0]: seconds for name, seconds in sorted(explain(loaded).weighed.items(), key=lambda one: -one[1])}
                fp32, whose = plain_of(gpu, size, size, size)
            except GemmgenError:
                continue
            others = [(seconds, scheme) for scheme, seconds in weighed.items() if scheme != PLAIN]
            if others:
                seconds, scheme = min(others)
                found.append(Verdict(gpu.name, size, size, size, seconds, fp32, whose, 1.0, scheme))
    return found
