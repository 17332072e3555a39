"""Trials: what a stage gives, what becomes of one that goes wrong, who does it, and that nothing is lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gemmgen
from gemmgen.errors import GemmgenError
from gemmgen.workshop import explore
from gemmgen.workshop.explore import workers
from gemmgen.workshop.explore.child import Broken, Child, Died, Hung
from gemmgen.workshop.explore.running import TRIES_OF_REFERENCE, Progress, Running, outcome_of, reference_spec
from gemmgen.workshop.explore.store import Store
from gemmgen.workshop.explore.strategies import Outcome
from gemmgen.workshop.explore.trial import Task, beyond, compiled, emulated, first_to_build
from gemmgen.workshop.explore.trial_row import Row, told
from gemmgen.workshop.explore.workers import COMPILE, Cluster, OneProcess

SUPPORT = Path(__file__).parents[1] / "support"
BAD = {"study": {"name": "bad", "gpus": ["a100"], "sizes": [[m, 64, 64] for m in range(1, 7)], "trials": 6, "trial_seconds": 1.5},
       "space": {"split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32], "group": 1, "split_k": 1}}}
VERDICTS = {1: "failed", 2: "died", 3: "hung", 4: "died", 5: "compiled", 6: "compiled"}


@pytest.fixture(autouse=True)
def paths(monkeypatch):
    """Child processes find the stages of `bad_trials`, and no GPU."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(SUPPORT), str(Path(gemmgen.__file__).parents[1])]))
    monkeypatch.setattr(workers, "gpus_here", lambda: [])


def rows_of(store):
    return {row.m: row for row in Store(store).rows("kind = 'kernel'")}


def raises_broken():
    raise Broken("the context is lost")


def closes_its_line():
    os.closerange(3, 100)
    time.sleep(60)


def unpicklable():
    return lambda: None


def raises_unpicklable():
    error = ValueError("what went wrong")
    error.it = lambda: None
    raise error


# ---- a process of its own


@pytest.fixture
def child():
    child = Child({"PYTHONPATH": os.pathsep.join([str(SUPPORT), str(Path(__file__).parent), str(Path(gemmgen.__file__).parents[1])])})
    yield child
    child.stop()


@pytest.mark.slow
def test_a_child_answers_raises_dies_hangs_and_is_replaced(child):
    assert child.call("math:sqrt", 9.0, seconds=60) == 3.0
    first = child.pid
    with pytest.raises(ValueError):
        child.call("math:sqrt", -1.0, seconds=60)
    with pytest.raises(RuntimeError, match="can be sent"):
        child.call("test_explore_trials:unpicklable", seconds=60)
    with pytest.raises(RuntimeError, match="(?s)in raises_unpicklable.*ValueError: what went wrong"):
        child.call("test_explore_trials:raises_unpicklable", seconds=60)
    assert child.pid == first
    with pytest.raises(Hung, match="0.2 s"):
        child.call("time:sleep", 5, seconds=0.2)
    assert child.pid is None
    with pytest.raises(Died, match="SIGKILL"):
        child.call("os:kill", 0, 9, seconds=60)
    with pytest.raises(Died, match="context is lost"):
        child.call("test_explore_trials:raises_broken", seconds=60)
    assert child.pid is None and child.call("os:getppid", seconds=60) == os.getpid()


@pytest.mark.slow
@pytest.mark.timeout(30)
def test_a_child_that_stays_after_its_line_is_ended(child, monkeypatch):
    monkeypatch.setattr("gemmgen.workshop.explore.child.LAST_SECONDS", 0.2)
    with pytest.raises(Died, match="SIGKILL"):
        child.call("test_explore_trials:closes_its_line", seconds=60)
    assert child.pid is None


@pytest.mark.slow
def test_a_child_leaves_with_its_parent_whatever_it_does(tmp_path):
    program = (
        "import os, threading, time\nfrom gemmgen.workshop.explore.child import Child\nchild = Child()\nchild.call('math:sqrt', 1.0, seconds=60)\n"
        "print(child.pid, flush=True)\nthreading.Thread(target=child.call, args=('time:sleep', 60), kwargs={'seconds': 60}).start()\n"
        "time.sleep(0.5)\nos.kill(os.getpid(), 9)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    pid, until = int(told.stdout), time.monotonic() + 10
    while time.monotonic() < until and Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]


# ---- a study with trials that go wrong


@pytest.mark.slow
def test_a_trial_that_goes_wrong_costs_one_trial(tmp_path):
    pool = OneProcess()
    try:
        progress = Running(explore.study(BAD).candidates(), tmp_path, pool, stages={"compiled": "bad_trials:compiled"}).run()
    finally:
        pool.close()
    rows = rows_of(tmp_path)
    assert {m: row.verdict for m, row in rows.items()} == VERDICTS and progress.done == 6
    assert "planted" in rows[1].reason and "SIGSEGV" in rows[2].reason and "1.5 s" in rows[3].reason and "exit code 0" in rows[4].reason
    assert all(outcome_of(rows[m]) == Outcome() for m in range(1, 5)) and outcome_of(rows[5]).seconds == rows[5].predicted_seconds


def test_the_same_command_goes_on_where_it_stopped(tmp_path):
    class Stops(InHere):
        left = 2

        def wait(self, seconds):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            return super().wait(seconds)

    study = explore.study({**BAD, "study": {**BAD["study"], "seed": 5, "strategy": "random"}})
    first = Running(study.candidates(), tmp_path, Stops()).run()
    assert first.interrupted and first.done == 2 and len(rows_of(tmp_path)) == 2
    rest = InHere()
    second = Running(study.candidates(), tmp_path, rest).run()
    assert not second.interrupted and second.done == 6 and second.kept == 2 and rest.calls == 4
    assert Running(study.candidates(), tmp_path, InHere()).run().kept == 6
    [space] = Store(tmp_path).rows("kind = 'space'")
    assert space.gpu == "a100" and json.loads(space.extra)["rejected"] == dict(study.candidates().rejected)


def test_a_modelled_row_does_not_stand_for_a_trial(tmp_path):
    study = {**BAD, "study": {**BAD["study"], "compile": False}}
    first, pool = explore.study(study).run(tmp_path), InHere()
    assert first.done == 6 and {row.verdict for row in rows_of(tmp_path).values()} == {"modelled"}
    second = Running(explore.study(BAD).candidates(), tmp_path, pool).run()
    assert second.kept == 0 and pool.calls == 6
    assert explore.study(study).run(tmp_path).kept == 6, "what was compiled is not modelled again"
    latest = Store(tmp_path).query("SELECT verdict, count(*) AS c FROM latest GROUP BY verdict").to_pylist()
    assert sum(one["c"] for one in latest) == 6 and "modelled" not in {one["verdict"] for one in latest}


def test_a_trial_is_another_with_another_compiler_kernel_problem_data_stage_or_effort():
    def named(compiler="NVRTC 12", identity="i", problem="h200 1x2x3 nn", data="uniform", how="timed", **effort):
        running = SimpleNamespace(_compilers={"sm_90a": compiler, "sm_80": "NVRTC 1"}, study=SimpleNamespace(head=SimpleNamespace(data=data)))
        return Running._id(running, identity, SimpleNamespace(told=problem), "sm_90a", how, **effort)

    names = [named(), named("NVRTC 13"), named(identity="j"), named(problem="h200 1x2x3 nt"), named(data="normal"), named(how="judged"), named(effort=0.25),
             named(effort=0.5)]
    assert len(set(names)) == len(names) and named() == named(effort=1.0)


def test_progress_by_hand():
    """The fastest right kernel of a problem, the first of equals; measured before predicted; and what GPUs took."""
    base = Row(study="x", trial="1", kind="kernel", verdict="timed", kernel="k", gpu="h200", m=1, n=1, k=1, layout="nn", uuid="GPU", seconds=2.0,
               judge_seconds=3.0, time_seconds=4.0)
    progress = Progress(9)
    for change in ({}, {"trial": "equal"}, {"verdict": "wrong", "seconds": 1.0}, {"kind": "rival", "seconds": 1.0}, {"uuid": "", "seconds": 3.0},
                   {"verdict": "compiled", "seconds": None, "predicted_seconds": 0.1}):
        progress.add(replace(base, **change), "problem")
    assert progress.best["problem"].trial == "1" and progress.gpu_seconds == 5 * 7
    progress.add(replace(base, seconds=1.5, trial="best"), "problem")
    assert progress.best["problem"].trial == "best"
    assert outcome_of(replace(base, error=1e-6, predicted_seconds=9.0)) == Outcome(2.0, 1e-6)
    assert outcome_of(replace(base, seconds=None, predicted_seconds=9.0, predicted_error=1e-5)) == Outcome(9.0, 1e-5)
    assert outcome_of(replace(base, verdict="wrong")) == Outcome()


def test_what_is_left_is_told_by_the_trials_that_were_tried():
    running = SimpleNamespace(progress=Progress(20, done=10, kept=6, seconds=8.0), _limit=None)
    Running._estimate(running)
    assert running.progress.left == 20.0  # 8 s of 4 trials, and ten more
    running._limit = 12.0
    Running._estimate(running)
    assert running.progress.left == 4.0


def test_time_that_is_up_begins_no_further_trial(tmp_path):
    class Slow(InHere):
        def wait(self, seconds):
            time.sleep(0.15)
            return super().wait(seconds)

    progress = Running(explore.study(BAD).candidates(), tmp_path, Slow(), seconds=0.1).run()
    assert 0 < progress.done < 6 and progress.done == len(rows_of(tmp_path))


class InHere:
    """A pool that gives every stage a good answer, one at a time."""

    name, gpus, compilers = "here", {}, 1

    def __init__(self):
        self.waiting, self.calls, self.tasks, self.specs_of_references = [], 0, [], []

    def submit(self, key, resource, target, *args, seconds):
        self.waiting.append((key, target))
        self.tasks += [one for one in args if isinstance(one, Task) and one.spec and not one.made]
        self.specs_of_references += args if target.endswith("first_to_build") else []

    def wait(self, seconds):
        self.calls += 1
        key, target = self.waiting.pop(0)
        return [(key, ("value", self.answer(target)))]

    def answer(self, target):
        return {"verdict": "compiled", "reason": "", "kernel": "k"}, b"made"

    def close(self):
        pass


class WithGpu(InHere):
    """The same with a GPU, whose times are those of the candidates' order."""

    gpus = {"a100": 1}

    def answer(self, target):
        if target.endswith("first_to_build"):
            return {"target": {"gpu": "a100"}}, {"kernel": "yardstick"}
        if target.endswith("timed"):
            return {"verdict": "timed", "seconds": 1e-3 * self.calls, "reference_seconds": 2e-3, "error": 1e-7, "uuid": "GPU-1"}
        return super().answer(target)


def test_on_a_gpu_each_size_has_a_reference_and_rivals(tmp_path):
    data = {**BAD, "study": {**BAD["study"], "sizes": [64, 128], "trials": 4, "rivals": ["cublas-sgemm"]}}
    pool = WithGpu()
    progress = Running(explore.study(data).candidates(), tmp_path, pool).run()
    rows = Store(tmp_path).rows("kind <> 'space'")
    assert Counter((row.kind, row.verdict, row.kernel) for row in rows) == {
        ("kernel", "timed", "k"): 4, ("reference", "timed", "yardstick"): 2, ("rival", "timed", "cublas-sgemm"): 2,
    }
    assert progress.done == 4 and len(progress.best) == 2 and all(row.kind == "kernel" for row in progress.best.values())
    found = explore.study(data).candidates()
    asked = {tuple(specs[0]["problem"][extent] for extent in "mnk"): specs for specs in pool.specs_of_references}
    for number, problem in enumerate(found.problems):  # the model's first choice of each size, and others behind it
        assert asked[problem.size][0] == found.spec(found.first(number)) and 1 < len(asked[problem.size]) <= TRIES_OF_REFERENCE
    assert pool.calls == 4 + 4 + 2 + 4  # compiles, times, references found, references and rivals timed
    assert Running(explore.study(data).candidates(), tmp_path, pool := WithGpu()).run().kept == 4 and pool.calls == 0


def test_rivals_are_timed_beside_the_reference_in_the_layout_that_they_have(tmp_path):
    asked = []

    class Seen(WithGpu):
        def submit(self, key, resource, target, *args, seconds):
            asked.extend([("sought", seconds)] if target.endswith("first_to_build") else [(one.rival, one.layout, one.reference) for one in args
                                                                                        if isinstance(one, Task) and one.rival])
            super().submit(key, resource, target, *args, seconds=seconds)

    data = {**BAD, "study": {**BAD["study"], "sizes": [64], "layouts": ["nn", "nt"], "trials": 2, "rivals": ["cublas-sgemm"]}}
    Running(explore.study(data).candidates(), tmp_path, Seen()).run()
    assert sorted(asked, key=str) == [("cublas-sgemm", "nn", {"target": {"gpu": "a100"}}), *[("sought", TRIES_OF_REFERENCE * 1.5)] * 2]


def test_a_studys_own_reference_is_the_only_one_that_is_sought(tmp_path):
    data = {**BAD, "study": {**BAD["study"], "sizes": [64, 128], "trials": 2, "reference": "sgemm_a100"}}
    Running((study := explore.study(data)).candidates(), tmp_path, pool := WithGpu()).run()
    assert pool.specs_of_references == [[reference_spec(study.study, problem)] for problem in study.candidates().problems]
    assert [specs[0]["problem"]["m"] for specs in pool.specs_of_references] == [64, 128]


def test_gpus_of_several_kinds_each_time_their_own_trials(tmp_path):
    """In one study: a stage is asked of a worker with the trial's GPU, and a kind that no worker has is compiled."""
    asked = []

    class Two(WithGpu):
        gpus = {"a100": 1, "h200": 2}

        def submit(self, key, resource, target, *args, seconds):
            asked.extend((resource, one.spec["target"]["gpu"]) for one in args if isinstance(one, Task) and target.endswith(":timed") and one.made)
            super().submit(key, resource, target, *args, seconds=seconds)

    data = {**BAD, "study": {**BAD["study"], "gpus": ["a100", "h200", "l4"], "sizes": [64], "trials": 3}}
    Running(explore.study(data).candidates(), tmp_path, pool := Two()).run()
    assert {row.gpu: row.verdict for row in Store(tmp_path).rows("kind = 'kernel'")} == {"a100": "timed", "h200": "timed", "l4": "compiled"}
    assert sorted(asked) == [("a100", "a100"), ("h200", "h200")]
    assert sorted(specs[0]["target"]["gpu"] for specs in pool.specs_of_references) == ["a100", "h200"], "none is sought for what is only compiled"
    assert {row.gpu for row in Store(tmp_path).rows("kind = 'reference'")} == {"a100", "h200"}


def test_kernels_that_are_built_first_wait_for_the_reference_of_their_size(tmp_path):
    times = []

    class Late(WithGpu):
        def submit(self, key, resource, target, *args, seconds):
            times.extend((one.size, one.reference) for one in args if isinstance(one, Task) and one.made)
            super().submit(key, resource, target, *args, seconds=seconds)
            self.waiting.sort(key=lambda one: one[1].endswith("first_to_build"))  # found when nothing else is left to do

        def answer(self, target):
            found = super().answer(target)
            return ({"of": len(self.waiting)}, found[1]) if target.endswith("first_to_build") else found

    data = {**BAD, "study": {**BAD["study"], "sizes": [64, 128], "trials": 4}}
    progress = Running(explore.study(data).candidates(), tmp_path, pool := Late()).run()
    assert progress.done == 4 and Counter(row.verdict for row in Store(tmp_path).rows("kind = 'kernel'")) == {"timed": 4}
    assert sorted(size[0] for size, _ in times) == [64, 64, 128, 128] and len(pool.specs_of_references) == 2
    of = {size: {str(one) for other, one in times if other == size} for size, _ in times}
    assert all(len(found) == 1 for found in of.values()) and len(set.union(*of.values())) == 2, "each size has its own"


def test_what_no_gpu_times_is_judged_on_the_emulator_where_the_study_says_so(tmp_path):
    class Emulated(InHere):
        judged: list = []

        def submit(self, key, resource, target, *args, seconds):
            if target.endswith(":emulated"):
                self.judged = [*self.judged, (resource, args[0].made, args[0].spec["problem"]["m"])]
            super().submit(key, resource, target, *args, seconds=seconds)

        def answer(self, target):
            return {"verdict": "emulated", "reason": ""} if target.endswith(":emulated") else super().answer(target)

    data = {**BAD, "study": {**BAD["study"], "sizes": [64, 128], "trials": 2, "emulate": True}}
    Running(explore.study(data).candidates(), tmp_path, pool := Emulated()).run()
    assert {row.m: row.verdict for row in Store(tmp_path).rows("kind = 'kernel'")} == {64: "emulated", 128: "emulated"}
    assert sorted(pool.judged) == [(COMPILE, b"made", 64), (COMPILE, b"made", 128)]


def test_an_unknown_rival_is_refused(tmp_path):
    with pytest.raises(GemmgenError, match="library routine"):
        Running(explore.study({**BAD, "study": {**BAD["study"], "rivals": ["blas"]}}).candidates(), tmp_path, InHere())


def test_short_timings_are_rows_of_their_own(tmp_path):
    data = {**BAD, "study": {**BAD["study"], "sizes": [64], "trials": 40, "strategy": "halving"}, "space": {"split": {"scheme": "ootomo"}, "tile": {"block": [
        [64, 64, 32], [32, 32, 32], [64, 32, 32]], "warp": [32, 32, 32], "group": 1, "split_k": 1}}}
    Running(explore.study(data).candidates(), tmp_path, pool := WithGpu(), strategy="halving").run()
    rows = [row for row in Store(tmp_path).rows() if row.kind == "kernel"]
    assert len({row.trial for row in rows}) == len(rows) > len({row.identity for row in rows})
    assert {row.extra for row in rows} >= {'{"effort":0.1111}', '{"effort":0.3333}'}
    assert {(task.rounds, round(task.slice_ms, 3)) for task in pool.tasks} == {(3, 1.333), (4, 4.0), (11, 12.0)}


def test_one_process_ends_what_is_begun_first_and_tells_what_became_of_it():
    """A GPU's stage before those that compile, which come in their order."""
    answers = {"one": Hung("1 s"), "two": Died("gone"), "three": GemmgenError("here", "is refused", got="much"), "four": ValueError("odd"), "five": 5}

    def call(target, *args, seconds):
        if isinstance(answers[target], Exception):
            raise answers[target]
        return answers[target], args, seconds

    pool = object.__new__(OneProcess)
    pool._waiting, pool._children = deque(), dict.fromkeys((COMPILE, "h200"), SimpleNamespace(call=call))
    for key, resource in (("one", COMPILE), ("two", COMPILE), ("three", COMPILE), ("four", COMPILE), ("five", "h200")):
        pool.submit(key, resource, key, 7, seconds=3)
    assert pool.wait(0) == [("five", ("value", (5, (7,), 3)))]
    told = [pool.wait(0)[0] for _ in range(4)]
    assert [(key, kind) for key, (kind, _) in told] == [("one", "hung"), ("two", "died"), ("three", "failed"), ("four", "failed")]
    assert told[2][1][1] == "GemmgenError: here: is refused got 'much'" and told[3][1][1] == "ValueError: odd"
    assert pool.wait(0) == []


def test_one_process_has_a_child_for_each_kind_of_gpu_which_sees_the_first(monkeypatch):
    made, stopped = [], []
    monkeypatch.setattr(workers, "Child", lambda env=None: made.append(env) or SimpleNamespace(env=env, stop=lambda: stopped.append(env)))
    monkeypatch.setattr(workers, "gpus_here", lambda: [SimpleNamespace(name=name, uuid=f"GPU-{at}") for at, name in enumerate(("h200", "a100", "h200"))])
    pool = OneProcess()
    assert pool.gpus == {"h200": 1, "a100": 1} and {name: child.env for name, child in pool._children.items()} == {
        COMPILE: None, "h200": {"CUDA_VISIBLE_DEVICES": "GPU-0"}, "a100": {"CUDA_VISIBLE_DEVICES": "GPU-1"}}
    pool.close()
    assert len(stopped) == 3


# ---- dask workers


def test_workers_of_this_machine_see_their_own_gpu_and_those_that_compile_see_none(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "SpecCluster", lambda workers, **more: workers)
    made = workers._cluster(2, [SimpleNamespace(name="h200", uuid="GPU-1"), SimpleNamespace(name="h200", uuid="GPU-2")])
    told = {name: (one["options"]["resources"], one["options"]["env"]["CUDA_VISIBLE_DEVICES"], one["options"]["nthreads"]) for name, one in made.items()}
    assert told == {"compile-0": ({COMPILE: 1}, "", 1), "compile-1": ({COMPILE: 1}, "", 1), "h200-0": ({"h200": 1}, "GPU-1", 1), "h200-1": ({"h200": 1}, "GPU-2", 1)}
    assert {one["options"]["memory_limit"] for one in made.values()} == {0}, "a worker is not ended for what its compiler takes"


@pytest.mark.parametrize("asked, cores, gpus, compile_", [(None, 10, 3, 4), (None, 10, 0, 10), (None, 4, 3, 1), (None, None, 1, 1), (5, 10, 3, 5)])
def test_a_cluster_of_this_machine_leaves_cores_to_the_gpus_and_waits_for_all_its_workers(monkeypatch, asked, cores, gpus, compile_):
    """Two cores feed a GPU; one process compiles at least. Each GPU has a worker more."""
    distributed, waited = pytest.importorskip("distributed"), []
    here = [SimpleNamespace(name="h200", uuid=f"GPU-{at}") for at in range(gpus)]
    ended, made = [], SimpleNamespace(close=lambda timeout: ended.append("cluster"))
    client = SimpleNamespace(wait_for_workers=lambda count, timeout: waited.append(count), close=lambda timeout: ended.append("client"),
                             cancel=lambda futures, force: ended.append((futures, force)))
    monkeypatch.setattr(distributed, "Client", lambda cluster, **how: waited.append(cluster) or client)
    monkeypatch.setattr(workers, "gpus_here", lambda: here)
    monkeypatch.setattr(workers, "_cluster", lambda count, found: waited.append((count, found)) or made)
    monkeypatch.setattr(workers.os, "cpu_count", lambda: cores)
    cluster = Cluster(workers=asked)
    assert waited == [(compile_, here), made, compile_ + gpus]
    assert cluster.name == f"{compile_} compile workers{f', {gpus} GPUs' if gpus else ''} of this machine"
    cluster._futures = {"a trial": "its future"}
    cluster.close()
    assert ended == [(["its future"], True), "client", "cluster"] and not cluster._futures, "what is not done is given up"


def test_a_cluster_tells_all_that_is_done_and_asks_each_stage_of_a_worker_that_has_what_it_needs(monkeypatch):
    """Answers that come between two looks come together; workers that ended with a trial made it die; what joins is seen after a while."""
    distributed = pytest.importorskip("distributed")
    futures, asked, there = [], [], {"a": {COMPILE: 1}}

    def submit(*given, key, resources, pure):
        asked.append((given, resources, pure))
        futures.append(SimpleNamespace(add_done_callback=lambda call, at=len(futures): setattr(futures[at], "call", call)))
        return futures[-1]

    cluster = object.__new__(Cluster)
    cluster._client = SimpleNamespace(submit=submit, scheduler_info=lambda n_workers: {"workers": {name: {"resources": one} for name, one in there.items()}})
    cluster._futures, cluster._lock, cluster._done, cluster._event = {}, threading.Lock(), [], threading.Event()
    cluster._looked, cluster._resources = 0.0, Counter()
    for key, resource in (("one", COMPILE), ("two", "h200"), ("three", COMPILE)):
        cluster.submit(key, resource, "x:y", 7, seconds=3)
    assert asked == [((workers.stage, "x:y", (7,), 3), {resource: 1}, False) for resource in (COMPILE, "h200", COMPILE)]

    def killed(timeout):
        raise distributed.KilledWorker("x", SimpleNamespace(address="tcp://gone"), 3)

    for future, result in zip(futures, (lambda timeout: ("value", 1), killed, lambda timeout: 1 / 0)):
        future.result = result
        future.call(future)
    told = dict(cluster.wait(0))
    assert [told[key][0] for key in ("one", "two", "three")] == ["value", "died", "failed"] and not cluster._futures and cluster.wait(0) == []
    waited = []
    cluster._event = SimpleNamespace(wait=waited.append, clear=lambda: None)
    assert cluster.wait(2.5) == [] and waited == [2.5]
    now = [100.0]
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert cluster.compilers == 1 and cluster.gpus == {}
    there |= {"b": {COMPILE: 1, "h200": 1}}
    assert (cluster.compilers, cluster.gpus) == (1, {})
    now[0] += 3
    assert (cluster.compilers, cluster.gpus) == (2, {"h200": 1})


@pytest.mark.slow
def test_workers_that_die_and_join_lose_nothing(tmp_path):
    """Of two processes that try, one is killed with its dask worker in the middle, and replaced."""
    sizes = [[m, 64, 64] for m in range(64, 80)]
    study = explore.study({**BAD, "study": {**BAD["study"], "sizes": sizes, "trials": 16, "trial_seconds": 60}})
    pool = Cluster(workers=2)
    killed = []
    try:
        pids = list(pool._client.run(os.getpid).values())

        def kill(progress):
            if progress.done == 4 and not killed:
                killed.append(pids[0])
                os.kill(pids[0], signal.SIGKILL)

        progress = Running(study.candidates(), tmp_path, pool, stages={"compiled": "bad_trials:slow"}, told_progress=kill).run()
        joined = Cluster(scheduler=pool._cluster.scheduler_address)  # as who has a cluster that exists does
        assert 1 <= joined.compilers <= 2 and not joined.gpus  # the one that was killed may be starting again
        other = Running(study.candidates(), tmp_path / "other", joined, stages={"compiled": "bad_trials:slow"}, trials=3).run()
        joined.close()
    finally:
        pool.close()
    assert other.verdicts == {"compiled": 3}
    assert killed and progress.done == 16 and progress.verdicts == {"compiled": 16}
    assert sorted(rows_of(tmp_path)) == list(range(64, 80)) and len(Store(tmp_path).rows("kind = 'kernel'")) == 16


def test_a_scheduler_that_is_not_there_is_a_message():
    with pytest.raises(GemmgenError, match="does not answer"):
        Cluster("no address")


SRUN = """#!/bin/sh
echo "$@" >> "$LOG"
while case $1 in --*) true;; *) false;; esac; do shift; done
exec "$@"
"""


@pytest.mark.long
@pytest.mark.slow
def test_the_slurm_example_in_small(tmp_path):
    """One node, one processor, an srun that starts what it is told: the study is done by the workers, and nothing is left behind."""
    pytest.importorskip("distributed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "srun").write_text(SRUN)
    (tmp_path / "bin" / "srun").chmod(0o755)
    (tmp_path / "mine.toml").write_text('[study]\nname = "mine"\ngpus = ["a100"]\nsizes = [64]\ntrials = 2\n\n[space.split]\nscheme = "half"\n\n'
                                        "[space.tile]\nblock = [32, 32, 32]\nwarp = [32, 32, 32]\n")
    env = os.environ | {"PATH": f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}", "LOG": str(tmp_path / "log"),
                        "SLURM_CPUS_ON_NODE": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_GPUS_ON_NODE": "8"}
    script = Path(gemmgen.__file__).parents[1] / "examples" / "study.slurm"
    ran = subprocess.run(["bash", script, "mine.toml", "store"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert [row.verdict for row in Store(tmp_path / "store").rows("kind = 'kernel'")] == ["compiled"] * 2
    [line] = (tmp_path / "log").read_text().splitlines()
    assert "--nworkers 1 " in line and "--resources compile=1" in line and "tcp://" in ran.stdout + ran.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"bin", "log", "mine.toml", "store"}


# ---- stages


SPEC = {"problem": {"m": 64, "n": 64, "k": 64}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64}, "target": {"gpu": "a100"},
        "tile": {"block": [32, 32, 32], "warp": [32, 32, 32], "group": 1, "split_k": 1}, "fragment": {"policy": "mma"},
        "pipeline": {"stages": 2, "loads": "async", "fragment_buffers": 1}}


@pytest.mark.slow
def test_a_kernel_is_compiled_and_judged_on_the_emulator():
    columns, made = compiled(Task(SPEC, (64, 64, 64)))
    assert columns["verdict"] == "compiled" and columns["spills"] == 0 and columns["registers"] > 32 and columns["shared_bytes"] > 0 and made
    assert columns["block"] == "32x32x32" and columns["scheme"] == "ootomo" and columns["compiler"].startswith("NVRTC")
    judged = emulated(Task(SPEC, (64, 64, 64), made=made))
    assert judged["verdict"] == "right" and 0 < judged["error"] < 1e-6 and judged["scaled"] < 1e-6
    strict = emulated(Task(SPEC, (64, 64, 64), made=made, relative_frobenius=1e-9))
    assert strict["verdict"] == "wrong" and "relative_frobenius = 1e-09" in strict["reason"]


def test_what_spills_is_refused_with_its_figures_and_no_reference():
    spills = {**SPEC, "split": {"scheme": "half", "where": "lane", "promote": 0}, "pipeline": {"design": "straight", "loads": "direct", "stages": 3}}
    columns, made = compiled(Task(spills, (64, 64, 64)))
    assert columns["verdict"] == "refused" and columns["spills"] > 0 and "spilled" in columns["reason"] and not made
    spec, told = first_to_build([spills, SPEC])
    assert spec["tile"]["block"] == [32, 32, 32] and told["kernel"].startswith("gemmgen_ootomo")


def test_a_kernel_that_no_question_can_judge_is_refused_and_may_be_a_reference(monkeypatch):
    """It promotes so seldom that a question would have to be longer than any that is asked."""
    from gemmgen.workshop.explore import trial

    seldom = {**SPEC, "split": {**SPEC["split"], "promote": 1 << 17}}
    binary = SimpleNamespace()
    monkeypatch.setattr(trial, "build", lambda source, **how: binary)
    columns, made = compiled(Task(seldom, (64, 64, 64)))
    assert columns["verdict"] == "refused" and "too large for a kernel to be verified" in columns["reason"] and "131072" in columns["reason"] and not made
    assert columns["promote"] == 1 << 17
    timing = SimpleNamespace(generated=lambda name, plan, source, built, inputs: (name, plan.promote, built is binary, inputs))
    here = SimpleNamespace(_references={}, timing=timing)
    assert trial._Bench.reference(here, Task(SPEC, (64, 64, 64), reference=seldom), "inputs") == ("reference", 1 << 17, True, "inputs")


@pytest.mark.parametrize("layout", ["nn", "tt", "nt"])
def test_a_sample_is_held_to_what_words_hold_of_it(layout):
    """Small elements beside a large one have few bits in words of FP8: a product of few is held to the words' own as well."""
    from gemmgen.solve import solve
    from gemmgen.spec import loads
    from gemmgen.verify.bound import held_to
    from gemmgen.workshop.explore import trial

    plan = solve(loads({**SPEC, "problem": {**SPEC["problem"], "layout": layout}, "split": {**SPEC["split"], "scheme": "half", "promote": 0}}))
    m, n, k = size = 40, 35, 2
    draw = np.random.default_rng(3)
    a, b = (draw.uniform(1, 2, shape).astype(np.float32) for shape in ((m, k), (k, n)))
    a[:, 0] *= np.float32(2.0**-22)
    a[:, 1] = 0
    stored = [x if op == "n" else np.ascontiguousarray(x.T).reshape(x.shape) for x, op in zip((a, b), layout)]
    inputs, out = SimpleNamespace(a=stored[:1], b=stored[1:]), np.zeros((m, n), np.float32)
    contender = SimpleNamespace(enqueue=lambda index: None, outputs=[out])
    here = SimpleNamespace(cupy=SimpleNamespace(asarray=np.asarray, asnumpy=np.asarray))

    def wrong(c):
        out[...] = c
        return trial._bounded(Task(SPEC, size), plan, contender, inputs, here)

    reference = a.astype(np.float64) @ b
    wants = list(held_to(plan, a, b, reference))
    assert len(wants) == 2 and np.linalg.norm(wants[1] - reference) > 1e-3 * np.linalg.norm(reference)
    assert wrong(wants[1]) == []
    assert "beyond" in wrong(2 * reference)[0]
    for value in (np.nan, 1.0):
        c = wants[1].copy()
        c[:, :] = np.where(np.arange(n) % 2, c, value)
        assert "worst case" in wrong(c)[0]


def test_what_does_not_build_or_has_no_emulator_costs_no_more_than_its_trial(monkeypatch):
    from gemmgen.errors import BuildError, NotEmulated
    from gemmgen.workshop.explore import trial

    asked, check = [], SimpleNamespace(passed=True, detail="spills")
    used = SimpleNamespace(registers=99, spill_bytes=16, shared_bytes=4096, occupancy=SimpleNamespace(blocks=2))

    @dataclass(frozen=True)
    class Text:
        allow_spills: bool = False

    def build(source, line_info):
        asked.append((source.allow_spills, line_info))
        if failing:
            raise BuildError("NVRTC", "does not know sm_1")
        return SimpleNamespace(compiler="NVRTC 13", seconds=3.0, from_cache=from_cache)

    for name, value in {"loads": dict, "solve": lambda spec: "plan", "render": lambda plan: Text(), "facts": lambda plan, source: {"kernel": "k"}, "build": build,
                        "reason": lambda error: error.problem, "resources": lambda *given: used,
                        "Judge": lambda *given: SimpleNamespace(resources=lambda: check), "oracles": SimpleNamespace(probes=lambda plan: "probes"),
                        "pickle": SimpleNamespace(dumps=lambda made: made)}.items():
        monkeypatch.setattr(trial, name, value)
    failing, from_cache = True, False
    columns, made = compiled(Task(SPEC, (1, 1, 1)))
    assert columns.pop("solve_seconds") >= 0 and (columns, made) == ({"kernel": "k", "verdict": "refused", "reason": "does not know sm_1"}, b"")
    failing = False
    for probed, from_cache, passed in ((True, False, True), (False, True, True), (True, False, False)):
        check.passed = passed
        columns, made = compiled(Task(SPEC, (1, 1, 1)), probed)
        columns.pop("solve_seconds")
        verdict = {"verdict": "compiled", "reason": ""} if passed else {"verdict": "refused", "reason": "spills"}
        assert columns == {"kernel": "k", "compiler": "NVRTC 13", "registers": 99, "spills": 16, "shared_bytes": 4096, "blocks_per_sm": 2,
                           "compile_seconds": 0.0 if from_cache else 3.0, **verdict}
        assert (made.probes == "probes" and made.source == Text()) if probed and passed else made == b""
    assert set(asked) == {(True, False)}, "spills are told with their figures, so the compiler may spill"

    def refuses(kind, *given):
        raise NotEmulated("here", "no model of this unit")

    monkeypatch.setattr(trial, "_made", lambda task: SimpleNamespace(plan=None, source=None, binary=None))
    monkeypatch.setattr("gemmgen.run.open_device", refuses)
    assert emulated(Task(SPEC, (1, 1, 1))) == {"verdict": "compiled", "reason": "no model of this unit"}


@pytest.mark.slow
def test_a_wrong_kernel_is_found(monkeypatch):
    """Whose C is a tenth of a thousandth too large."""
    from gemmgen.workshop.explore import trial

    render = trial.render
    monkeypatch.setattr(trial, "render", lambda plan: _too_large(render(plan)))
    _, made = compiled(Task(SPEC, (64, 64, 64)))
    assert made and emulated(Task(SPEC, (64, 64, 64), made=made))["verdict"] == "wrong"


def _too_large(source):
    lines = source.text.splitlines(keepends=True)
    at = [number for number, line in enumerate(lines) if "fmaf(alpha, product" in line][0]
    lines[at] = lines[at].replace("alpha, product", "1.0001f * alpha, product")
    return replace(source, text="".join(lines))


def test_limits_hold_what_is_not_a_number_for_wrong():
    task = Task(SPEC, (64, 64, 64), relative_frobenius=1e-6, scaled=1e-6)
    assert beyond(task, {"error": 1e-6, "scaled": 1e-6}) == []
    assert beyond(task, {"error": 1e-7, "scaled": 1e-7}) == []
    assert len(beyond(task, {"error": float("nan"), "scaled": 2e-6})) == 2


@pytest.mark.long
def test_ctrl_c_ends_in_order_and_keeps_rows(tmp_path):
    """The command itself, interrupted while its workers compile."""
    spec = tmp_path / "long.toml"
    spec.write_text('[study]\nname = "long"\ngpus = ["a100"]\nsizes = [64, 96, 128]\ntrials = 500\n[space.split]\nscheme = "ootomo"\n[space.tile]\n'
                    'block = [32, 32, 32]\nwarp = [32, 32, 32]\n')
    process = subprocess.Popen([sys.executable, "-m", "gemmgen", "study", "run", str(spec), "--store", str(tmp_path / "store"), "--workers", "1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # which a background job of a shell inherits ignored
    threading.Timer(60, process.kill).start()
    time.sleep(8)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "goes on from here" in err and "Traceback" not in err


@pytest.mark.slow
@pytest.mark.long
def test_the_example_of_the_documentation_goes_from_start_to_frontier(tmp_path, capsys):
    import importlib.util

    path = Path(gemmgen.__file__).parents[1] / "docs" / "explore_example.py"
    spec = importlib.util.spec_from_file_location("explore_example", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(tmp_path / "store"))
    out = capsys.readouterr().out
    assert "4 tried, 0 of them before: {'right': 4}" in out and "us predicted, error" in out.partition("frontier")[2] and "gemmgen_ootomo" in out


def test_the_same_data_are_the_same_text_whatever_their_order():
    """Names of trials are hashes of such texts."""
    assert told({"b": {"y": 1, "x": [2.5, "z"]}, "a": None}) == told({"a": None, "b": {"x": [2.5, "z"], "y": 1}}) == '{"a":null,"b":{"x":[2.5,"z"],"y":1}}'


@pytest.mark.parametrize("asked, wanted", [
    ((None, 0), "one"), (("tcp://x:1", 0), ("tcp://x:1", None)), (("tcp://x:1", None), ("tcp://x:1", None)), ((None, None), (None, None)), ((None, 3), (None, 3)),
])
def test_who_tries(monkeypatch, asked, wanted):
    """A cluster where there is one, however many processes of this machine are asked for."""
    monkeypatch.setattr(workers, "Cluster", lambda *given: given)
    monkeypatch.setattr(workers, "OneProcess", lambda: "one")
    assert explore.pool_of(*asked) == wanted


def test_a_study_runs_in_one_process_unless_more_are_asked_for(monkeypatch, tmp_path):
    asked, closed = [], []
    explored = explore.study(BAD)
    monkeypatch.setattr(type(explored), "candidates", lambda self: "candidates")
    monkeypatch.setattr(explore, "pool_of", lambda *given: asked.append(given) or SimpleNamespace(close=lambda: closed.append(True)))
    monkeypatch.setattr("gemmgen.workshop.explore.running.Running", lambda *given, **how: SimpleNamespace(run=lambda: (given[0], given[1], how["trials"])))
    assert explored.run(tmp_path, trials=3) == ("candidates", tmp_path, 3) and explored.run("s3://a", scheduler="tcp://x:1", workers=None)[1] == "s3://a"
    assert asked == [(None, 0), ("tcp://x:1", None)] and len(closed) == 2
