"""What is done with a candidate: solve, render, compile, look at the resources, judge, time.

Each function here is one stage. It takes a `Task`, which travels to whatever process does it (`child.py`), and gives columns of the trial's row.
Compiling and running are stages of their own, so that processors compile ahead while the GPU is at work. What the first makes travels to the second
with the trial (`Made`), its exact oracles too, so that the GPU waits for as little as can be.
"""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gemmgen.build import build, first_that_builds
from gemmgen.build.binary import Binary
from gemmgen.errors import BuildError, GemmgenError, InfeasibleSpec, NotEmulated, ResourceError, SpecError
from gemmgen.naming import kernel_name
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.solve import solve
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import loads
from gemmgen.verify import Judge, oracles, resources
from gemmgen.verify.bound import allowance, bound, held_to
from gemmgen.verify.metrics import exact, relative_frobenius
from gemmgen.workshop.explore.child import Broken
from gemmgen.workshop.explore.studies import DATA
from gemmgen.workshop.explore.trial_row import told

ROUNDS, SLICE_MS = 11, 12.0
"""Of a trial's race with the reference kernel."""
SAMPLED = 32
"""Rows and columns of C that are held against their bound."""
MOST_EMULATED = 1 << 22
"""Multiply-adds of the study's own product on the emulator, some seconds; a larger one is judged by the probes and a small product."""
INPUTS_SHARE = 8
"""Inputs of how many sizes a process keeps on its GPU: as many as fit one part in so many of its memory."""


@dataclass(frozen=True)
class Task:
    """A trial, as it travels.

    Attributes:
        spec: sections of a spec whose one plan is the candidate.
        size: (m, n, k).
        data: a name of `studies.DATA`.
        reference: the spec of the kernel that is timed beside it; None for none.
        relative_frobenius, scaled: what the study accepts; None for any.
        rounds, slice_ms: of its race.
        rival: the library routine that is timed instead of a candidate; empty for a candidate.
        made: a pickled `Made` of the candidate, from its compile; empty where it is to be made again.
    """

    spec: Mapping[str, Any]
    size: tuple[int, int, int]
    layout: str = "nn"
    data: str = "uniform"
    reference: Mapping[str, Any] | None = None
    relative_frobenius: float | None = None
    scaled: float | None = None
    rounds: int = ROUNDS
    slice_ms: float = SLICE_MS
    rival: str = ""
    made: bytes = b""


Columns = dict[str, Any]
"""Of a row, by name."""


@dataclass(frozen=True)
class Made:
    """A kernel with what judges it."""

    plan: Plan
    source: Source
    binary: Binary
    probes: oracles.Problem


def reason(error: GemmgenError) -> str:
    """A refusal in one line."""
    parts = (("got", error.got), ("needs", error.needs), ("has", error.has))
    return "; ".join([error.problem, *(f"{label} {value}" for label, value in parts if value is not None)])


# ---- compiling


def compiled(task: Task, probed: bool = True) -> tuple[Columns, bytes]:
    """Solve, render and compile; what the compiler used, against what was predicted; and, pickled, the kernel where it is to be judged.

    Args:
        probed: whether it will be.
    """
    start = time.perf_counter()
    plan = solve(loads(dict(task.spec)))
    source = render(plan)
    columns = {**facts(plan, source), "solve_seconds": time.perf_counter() - start}
    try:
        probes = oracles.probes(plan) if probed else None
    except SpecError as error:  # no kernel with this plan can be judged
        return {**columns, "verdict": "refused", "reason": reason(error)}, b""
    try:
        # What spills is refused below, with its figures.
        binary = build(replace(source, allow_spills=True), line_info=False)
    except BuildError as error:
        return {**columns, "verdict": "refused", "reason": reason(error)}, b""
    used = resources(plan, source, binary)
    columns |= {
        "compiler": binary.compiler, "registers": used.registers, "spills": used.spill_bytes, "shared_bytes": used.shared_bytes,
        "blocks_per_sm": used.occupancy.blocks, "compile_seconds": binary.seconds if not binary.from_cache else 0.0,
    }
    check = Judge(plan, source, binary, None).resources()
    if not check.passed:
        return {**columns, "verdict": "refused", "reason": check.detail}, b""
    made = pickle.dumps(Made(plan, source, binary, probes)) if probes is not None else b""
    return {**columns, "verdict": "compiled", "reason": ""}, made


def first_to_build(specs: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], Columns] | None:
    """The first of these specs that the compiler accepts, settled, with what plan and source tell; None where it accepts none."""
    for spec in specs:
        loaded = loads(dict(spec))
        try:
            built = first_that_builds(loaded)
        except (ResourceError, BuildError, InfeasibleSpec):
            continue
        return settled_spec(loaded, built.plan), {**facts(built.plan, built.source), "compiler": built.binary.compiler}
    return None


def facts(plan: Plan, source: Source | None = None) -> Columns:
    """The columns that a plan and, where it was rendered, its source tell."""
    launches = [
        {"symbol": one.symbol, "grid": [list(factor) for factor in one.grid], "threads": one.threads, "shared_bytes": one.shared_bytes,
         "params": list(one.params)} for one in source.launches
    ] if source else []
    return {
        "kernel": kernel_name(plan), "identity": plan.hash, "launches": _hash(told({"launches": launches})) if source else "", "decided": told(plan.decided),
        "scheme": plan.scheme.name, "promote": plan.promote, "sums": plan.sums, "policy": plan.fragment.policy, "design": plan.design.name,
        "block": "x".join(map(str, plan.block)), "warp": "x".join(map(str, plan.warp)), "stages": plan.stages, "split_k": plan.split_k,
        "predicted_registers": plan.predicted_registers,
    }


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _made(task: Task) -> Made:
    if task.made:
        return pickle.loads(task.made)
    plan, source, binary = _built(task.spec)
    return Made(plan, source, binary, oracles.probes(plan))


def _built(spec: Mapping[str, Any]) -> tuple[Plan, Source, Binary]:
    plan = solve(loads(dict(spec)))
    source = render(plan)
    return plan, source, build(source, line_info=False)


# ---- judging on the emulator


def emulated(task: Task) -> Columns:
    """Judged right, or not, on the emulator; nothing is timed there."""
    from gemmgen.run import open_device

    made, start = _made(task), time.perf_counter()
    plan = made.plan
    try:
        device = open_device("emulator", plan, made.source, made.binary)
    except NotEmulated as error:
        return {"verdict": "compiled", "reason": error.problem}
    judge = Judge(plan, made.source, made.binary, device)
    probes = judge.bits("probes", made.probes)
    m, n, k = task.size
    shape = task.size if m * n * k <= MOST_EMULATED else (plan.block[0] + 13, max(1, plan.block[1] - 7), oracles.wrapping_k(plan) + 5)
    low, high, octaves = DATA[task.data]
    problem = oracles.uniform(plan, low, high, shape, 0) if not octaves else oracles.all_ranges(plan)
    accuracy = judge.accuracy("accuracy", problem)
    columns = {"error": accuracy.errors.relative_frobenius, "scaled": accuracy.errors.scaled, "judge_seconds": time.perf_counter() - start,
               "device": device.name}
    wrong = [f"{check.name}: {check.detail}" for check in (probes, accuracy.check) if not check.passed] + beyond(task, columns)
    return {**columns, "verdict": "wrong" if wrong else "right", "reason": "; ".join(wrong)}


def beyond(task: Task, columns: Columns) -> list[str]:
    """What of the study's limits an error is beyond."""
    limits = {"relative_frobenius": ("error", task.relative_frobenius), "scaled": ("scaled", task.scaled)}
    return [
        f"error {columns[column]:.3g} is beyond [accept] {name} = {limit:g}" for name, (column, limit) in limits.items()
        if limit is not None and not columns[column] <= limit
    ]


# ---- on the GPU


class _Bench:
    """What a process keeps on its GPU from trial to trial: inputs, their FP64 products, reference kernels, which kernels were found right."""

    def __init__(self) -> None:
        from gemmgen import timing
        from gemmgen.timing.products import arrays

        cupy = arrays()
        self.cupy, self.timing = cupy, timing
        self._memory = cupy.cuda.runtime.memGetInfo()[1]
        properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
        raw = bytes(properties["uuid"]).hex() if not isinstance(properties["uuid"], str) else properties["uuid"]
        self.uuid = f"GPU-{raw[:8]}-{raw[8:12]}-{raw[12:16]}-{raw[16:20]}-{raw[20:32]}"
        self.name = properties["name"].decode()
        self.driver = timing.conditions().get("driver_version", "")
        self.sensors = timing.sensors_here()
        self.judged: dict[str, str] = {}
        self._inputs: dict[tuple[tuple[int, int, int], str], tuple[Any, Any]] = {}
        self._references: dict[Any, Any] = {}

    def inputs(self, size: tuple[int, int, int], data: str) -> tuple[Any, Any]:
        """(inputs, FP64 products of sampled rows) of a size."""
        key = size, data
        if key not in self._inputs:
            while sum(map(_bytes, self._inputs.values())) > self._memory // INPUTS_SHARE:
                gone = next(iter(self._inputs))
                self._inputs.pop(gone)
                self._references = {known: one for known, one in self._references.items() if known[1:] != gone}
                self.timing.release_memory()
            low, high, octaves = DATA[data]
            made = self.timing.Inputs(size, low, high, octaves=octaves)
            self._inputs[key] = made, self.timing.Reference(made)
        self._inputs[key] = self._inputs.pop(key)  # the one used last is dropped last
        return self._inputs[key]

    def reference(self, task: Task, inputs: Any) -> Any:
        """The reference kernel as a contender."""
        if task.reference is None:
            return None
        key = told(dict(task.reference)), task.size, task.data
        if key not in self._references:
            # A reference is only timed, so it needs no probes, which kernels that promote very seldom do not have.
            self._references[key] = self.timing.generated("reference", *_built(task.reference), inputs)
        return self._references[key]

    def check(self) -> None:
        """Whether the context still works.

        Raises:
            Broken: it does not, as after an access out of bounds.
        """
        try:
            self.cupy.cuda.runtime.deviceSynchronize()
            one = self.cupy.zeros(8, self.cupy.float32)
            one.fill(1)
            float(one.sum())
        except Exception as error:
            raise Broken(f"the GPU's context is lost: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error


def _bytes(kept: tuple[Any, Any]) -> int:
    m, n, k = kept[0].size
    return 4 * kept[0].sets * (m * k + k * n + m * n)


_bench: _Bench | None = None


def bench() -> _Bench:
    """The GPU of this process."""
    global _bench
    if _bench is None:
        _bench = _Bench()
    return _bench


def timed(task: Task) -> Columns:
    """Judge a candidate on the GPU and, if it is right, time it beside the reference kernel.

    Raises:
        Broken: the GPU's context is lost, and this process of no more use.
    """
    here = bench()
    try:
        return _timed(task, here)
    except Exception as error:
        try:
            here.check()
        except Broken as lost_context:
            raise Broken(f"{_line(error)}; {lost_context}") from error
        raise


def _line(error: Exception) -> str:
    return reason(error) if isinstance(error, GemmgenError) else (str(error).splitlines() or [type(error).__name__])[0]


def _timed(task: Task, here: _Bench) -> Columns:
    start = time.perf_counter()
    columns: Columns = {"device": here.name, "uuid": here.uuid, "driver": here.driver}
    inputs, products = here.inputs(task.size, task.data)
    if task.rival:
        contender = here.timing.cublas(task.rival, inputs)
        wrong: list[str] = []
    else:
        made = _made(task)
        wrong = _probed(made, here)
        contender = here.timing.generated("kernel", made.plan, made.source, made.binary, inputs)
    accuracy = products.accuracy(contender)
    columns |= {"error": accuracy.relative_frobenius, "scaled": accuracy.scaled}
    if not task.rival:
        wrong += _bounded(task, made.plan, contender, inputs, here) + beyond(task, columns)
    here.cupy.cuda.runtime.deviceSynchronize()
    columns["judge_seconds"] = time.perf_counter() - start
    if wrong:
        return {**columns, "verdict": "wrong", "reason": "; ".join(wrong)}
    start = time.perf_counter()
    reference = here.reference(task, inputs)
    racing = [contender, *([reference] if reference else [])]
    for one in racing:
        one.seconds.clear()
        one.samples.clear()
    here.timing.race(racing, rounds=task.rounds, slice_ms=task.slice_ms, sensors=here.sensors)
    low, median, high = np.percentile(contender.seconds, [25, 50, 75])
    columns |= {
        "seconds": float(median), "spread": float((high - low) / median), "rounds": len(contender.seconds),
        "reference_seconds": float(np.median(reference.seconds)) if reference else None,
    }
    if contender.samples:
        columns |= {"clock_mhz": float(np.median([one.clock_mhz for one in contender.samples])),
                    "power_w": float(np.median([one.power_w for one in contender.samples]))}
    return {**columns, "verdict": "timed", "reason": "", "time_seconds": time.perf_counter() - start}


def _probed(made: Made, here: _Bench) -> list[str]:
    """What exact oracles and odd shapes find wrong; each kernel is asked once."""
    plan, source, binary = made.plan, made.source, made.binary
    if plan.hash not in here.judged:
        from gemmgen.run import open_device

        device = open_device("cuda", plan, source, binary)
        judge = Judge(plan, source, binary, device)
        try:
            checks = [judge.bits("probes", made.probes), judge.edges()]
        finally:
            device.release()
        here.judged[plan.hash] = "; ".join(f"{check.name}: {check.detail}" for check in checks if not check.passed)
    return [here.judged[plan.hash]] if here.judged[plan.hash] else []


def _bounded(task: Task, plan: Plan, contender: Any, inputs: Any, here: _Bench) -> list[str]:
    """What a sample of the study's own product has beyond its bounds, the statistical one of the whole and the worst case of each element."""
    m, n, k = task.size
    draw = np.random.default_rng(0)
    rows, columns = (np.sort(draw.permutation(extent)[:SAMPLED]) for extent in (m, n))
    a, b = inputs.a[0], inputs.b[0]
    at_rows, at_columns = here.cupy.asarray(rows), here.cupy.asarray(columns)
    a = here.cupy.asnumpy((a if plan.layout[0] == "n" else a.reshape(k, m).T)[at_rows])
    b = here.cupy.asnumpy((b if plan.layout[1] == "n" else b.reshape(n, k).T)[:, at_columns])
    contender.enqueue(0)
    c = here.cupy.asnumpy(contender.outputs[0][at_rows][:, at_columns])
    reference, magnitude = exact(a, b), exact(np.abs(a), np.abs(b))
    allowed, worst = bound(plan, a, b, reference).relative_frobenius, allowance(plan, a, b, magnitude)
    wrong = ""
    for want in held_to(plan, a, b, reference):
        found = relative_frobenius(c, want)
        if not (np.abs(c - want) <= worst).all():  # an element that is NaN is not within anything
            wrong = f"bounds: an element of {rows.size} x {columns.size} sampled ones is beyond the worst case"
        elif not found <= allowed:
            wrong = f"bounds: the relative error {found:.3g} of a sample is beyond {allowed:.3g}"
        else:
            return []
    return [wrong]
