"""A trial on a GPU: what is kept from trial to trial, what is judged and what is timed. The GPU is NumPy's."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import numpy_cupy
import pytest

from gemmgen import timing
from gemmgen.errors import SpecError
from gemmgen.run.sensors import Sample
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.explore import trial
from gemmgen.workshop.explore.child import Broken
from gemmgen.workshop.explore.trial import Made, Task

SPEC = {"problem": {"m": 64, "n": 64, "k": 64}, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}
SIZE = (40, 24, 16)
PLAN = solve(loads(SPEC))


class Contender(SimpleNamespace):
    """Multiplies the first of its inputs, and takes what its name says."""

    TIMES = {"kernel": (4e-6, 1e-6, 3e-6, 2e-6, 5e-6), "reference": (6e-6, 8e-6, 7e-6, 9e-6, 5e-6), "cublas-sgemm": (2e-6,) * 5}

    def enqueue(self, index):
        self.calls.append(index)
        self.outputs[0][...] = self.inputs.a[0].astype(np.float64) @ self.inputs.b[0] * self.factor


@pytest.fixture
def gpu(monkeypatch):
    """What happened on the GPU, and what is to go wrong there."""
    cupy = numpy_cupy.install(monkeypatch)
    seen = SimpleNamespace(races=[], made=[], references=[], released=0, probed=[], factor=1.0, samples=(), checks=(True, True), broken="", generates=None)
    properties = {"l2CacheSize": 1 << 10, "uuid": bytes(range(16)), "name": b"A GPU"}

    def synchronize():
        if seen.broken:
            raise RuntimeError(seen.broken)

    cupy.cuda.runtime = SimpleNamespace(getDeviceProperties=lambda at: properties, memGetInfo=lambda: (1 << 30, 1 << 14), deviceSynchronize=synchronize)
    cupy.zeros, seen.properties = (lambda count, dtype: numpy_cupy.array(np.zeros(count, dtype))), properties

    def contender(name, inputs, factor):
        seen.made.append(name)
        return Contender(name=name, layout="nn", inputs=inputs, outputs=inputs.c, calls=[], seconds=[9.0], samples=["old"], factor=factor)

    def generated(name, plan, source, binary, inputs):
        if seen.generates:
            raise seen.generates
        seen.references += [binary] if name == "reference" else []
        return contender(name, inputs, seen.factor)

    def race(contenders, **options):
        seen.races.append(([one.name for one in contenders], options))
        for one in contenders:
            one.seconds += Contender.TIMES[one.name]
            one.samples += seen.samples if one.name == "kernel" else ()

    class Device:
        def release(self):
            seen.released += 1

    class Judge:
        def __init__(self, plan, source, binary, device):
            assert isinstance(device, Device)

        def bits(self, name, problems):
            seen.probed.append(problems)
            return SimpleNamespace(name=name, passed=seen.checks[0], detail="7 bits")

        def edges(self):
            return SimpleNamespace(name="edges", passed=seen.checks[1], detail="a row")

    for name, value in {"generated": generated, "cublas": lambda name, inputs: contender(name, inputs, 1.0), "race": race, "sensors_here": lambda: "sensors",
                        "conditions": lambda: {"driver_version": "1.2"}}.items():
        monkeypatch.setattr(timing, name, value)
    monkeypatch.setattr("gemmgen.timing.products.arrays", lambda: cupy)
    monkeypatch.setattr("gemmgen.run.open_device", lambda kind, *made: Device() if kind == "cuda" else None)
    monkeypatch.setattr(trial, "Judge", Judge)
    monkeypatch.setattr(trial, "_built", lambda spec: (PLAN, None, "built"))
    monkeypatch.setattr(trial, "_made", lambda task: Made(PLAN, None, None, "the probes"))
    monkeypatch.setattr(trial, "_bench", None)
    assert sys.modules["cupy"] is cupy
    return seen


def test_a_kernel_is_judged_and_timed_beside_its_reference(gpu):
    gpu.samples = [Sample(1200, 300, 0), Sample(1400, 310, 0), Sample(1300, 400, 0)]
    told = trial.timed(Task(SPEC, SIZE, reference=SPEC, rounds=5, slice_ms=3.0))
    assert (told["verdict"], told["reason"], told["device"], told["driver"]) == ("timed", "", "A GPU", "1.2")
    assert told["uuid"] == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (told["seconds"], told["rounds"], told["reference_seconds"]) == (3e-6, 5, 7e-6) and told["spread"] == pytest.approx(2 / 3)
    assert (told["clock_mhz"], told["power_w"]) == (1300, 310) and 0 < told["error"] < 1e-7 and 0 < told["scaled"] < 1e-6
    assert told["judge_seconds"] > 0 and told["time_seconds"] > 0
    assert gpu.races == [(["kernel", "reference"], {"rounds": 5, "slice_ms": 3.0, "sensors": "sensors"})]
    assert gpu.probed == ["the probes"] and gpu.released == 1 and gpu.references == ["built"]
    gpu.samples = ()
    again = trial.timed(Task(SPEC, SIZE, reference=SPEC))
    assert gpu.probed == ["the probes"] and gpu.made.count("reference") == 1 and "clock_mhz" not in again  # each is asked and made once
    alone = trial.timed(Task(SPEC, SIZE))
    assert alone["reference_seconds"] is None and gpu.races[-1][0] == ["kernel"]


def test_a_rival_is_timed_without_probes_or_limits(gpu):
    told = trial.timed(Task({}, SIZE, rival="cublas-sgemm", relative_frobenius=1e-30))
    assert (told["verdict"], told["seconds"], told["spread"]) == ("timed", 2e-6, 0) and gpu.races[0][0] == ["cublas-sgemm"] and gpu.probed == []


def test_a_kernel_that_is_wrong_is_not_timed(gpu):
    gpu.checks = (False, False)
    told = trial.timed(Task(SPEC, SIZE))
    assert (told["verdict"], told["reason"]) == ("wrong", "probes: 7 bits; edges: a row") and not gpu.races and "seconds" not in told
    gpu.checks = (True, True)
    assert trial.timed(Task(SPEC, SIZE))["reason"] == "probes: 7 bits; edges: a row"  # it was found wrong once and for all
    trial.bench().judged.clear()
    told = trial.timed(Task(SPEC, SIZE, relative_frobenius=1e-12))
    assert told["verdict"] == "wrong" and told["reason"].endswith("is beyond [accept] relative_frobenius = 1e-12")
    gpu.factor = 1.5
    told = trial.timed(Task(SPEC, SIZE))
    assert told["verdict"] == "wrong" and told["reason"].startswith("bounds: ") and told["error"] == pytest.approx(0.5) and not gpu.races


def test_inputs_are_kept_until_they_take_too_much_and_the_last_used_go_last(gpu):
    here = trial.bench()
    assert trial.bench() is here and here.sensors == "sensors"
    data = next(iter(trial.DATA))
    first, products = here.inputs((8, 4, 2), data)
    assert here.inputs((8, 4, 2), data) == (first, products) and trial._bytes((first, products)) == 4 * first.sets * (8 * 2 + 2 * 4 + 8 * 4)
    other = here.inputs((4, 4, 4), data)
    here.reference(Task(SPEC, (8, 4, 2), data=data, reference=SPEC), first)
    here.reference(Task(SPEC, (4, 4, 4), data=data, reference=SPEC), other[0])
    assert here.inputs((8, 4, 2), data)[0] is first
    here._memory = trial.INPUTS_SHARE * trial._bytes((first, products))  # no more than this one
    here.inputs((2, 2, 2), data)
    assert [size for size, _ in here._inputs] == [(8, 4, 2), (2, 2, 2)] and [known[1] for known in here._references] == [(8, 4, 2)]
    low, high, octaves = trial.DATA[data]
    if not octaves:
        assert min(x.min() for x in first.a) >= low and max(x.max() for x in first.a) <= high
    gpu.properties["uuid"] = "00010203-aaaa"
    assert trial._Bench().uuid.startswith("GPU-00010203-")


def test_a_context_that_is_lost_ends_the_process_and_a_refusal_does_not(gpu):
    gpu.generates = SpecError("a place", "cannot be", got=7)
    with pytest.raises(SpecError, match="cannot be"):
        trial.timed(Task(SPEC, SIZE))
    gpu.broken = "illegal access\nof memory"
    with pytest.raises(Broken, match="^cannot be; got 7; the GPU's context is lost: illegal access$"):
        trial.timed(Task(SPEC, SIZE))
    gpu.generates = None  # the fault shows only when the GPU is waited for
    with pytest.raises(Broken, match="^illegal access; the GPU's context is lost: illegal access$"):
        trial.timed(Task(SPEC, SIZE))
    assert not gpu.races
    assert trial._line(ValueError("one\ntwo")) == "one" and trial._line(ValueError()) == "ValueError"
    assert trial.reason(SpecError("a", "is not", got=1, needs=2, has=3, remedy="b")) == "is not; got 1; needs 2; has 3"


def test_made_kernels_are_taken_from_the_task(monkeypatch):
    import pickle

    assert trial._made(Task(SPEC, SIZE, made=pickle.dumps("a kernel"))) == "a kernel"
    monkeypatch.setattr(trial, "_built", lambda spec: (spec["plan"], 2, 3))
    monkeypatch.setattr(trial.oracles, "probes", lambda plan: f"probes of {plan}")
    assert trial._made(Task({"plan": 1}, SIZE)) == Made(1, 2, 3, "probes of 1")
