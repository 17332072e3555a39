"""Who does the stages of trials: a process of this machine, or workers of dask.distributed on any number of machines.

| resource of a worker | what it does |
| --- | --- |
| `compile` | compiles, and judges on the emulator |
| the name of a GPU's row, such as `h200` | judges and times on that GPU, one trial at a time |

Every worker does its trials in a process of their own (`child.Child`), which it ends when a trial takes too long and replaces when it died. So a
worker that ends is a fault of the machine and not of a trial: whatever it had begun is begun again elsewhere.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from gemmgen.errors import GemmgenError
from gemmgen.workshop.explore.child import START_SECONDS, Child, Died, Hung
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.gpus import Here, gpus_here

COMPILE = "compile"
AHEAD = 3
"""Trials that wait for each GPU, compiled already."""

Answer = tuple[str, Any]
"""`value` and what a stage gave, or `hung`, `died` or `failed` and why."""


class Pool(Protocol):
    """Who does stages.

    Attributes:
        name: of it, for people.
        gpus: how many workers time on each kind of GPU, by the row's name.
        compilers: how many compile.
    """

    name: str
    gpus: Mapping[str, int]
    compilers: int

    def submit(self, key: Any, resource: str, target: str, *args: Any, seconds: float) -> None: ...
    def wait(self, seconds: float) -> list[tuple[Any, Answer]]: ...
    def close(self) -> None: ...


def answered(child: Child, target: str, args: tuple[Any, ...], seconds: float) -> Answer:
    """A call's answer, whatever becomes of its process."""
    try:
        return "value", child.call(target, *args, seconds=seconds)
    except Hung as error:
        return "hung", str(error)
    except Died as error:
        return "died", str(error)
    except GemmgenError as error:
        return "failed", f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"


class OneProcess:
    """This machine without a cluster: one trial after the other, in one process beside this one for each resource."""

    compilers = 1

    def __init__(self) -> None:
        here = gpus_here()
        self.gpus = Counter(dict.fromkeys([one.name for one in here], 1))
        self.name = "one process"
        self._children = {COMPILE: Child(), **{one.name: Child({"CUDA_VISIBLE_DEVICES": one.uuid}) for one in reversed(here)}}
        self._waiting: deque[tuple[Any, str, str, tuple[Any, ...], float]] = deque()

    def submit(self, key: Any, resource: str, target: str, *args: Any, seconds: float) -> None:
        entry = key, resource, target, args, seconds
        self._waiting.append(entry) if resource == COMPILE else self._waiting.appendleft(entry)  # what is begun is ended first

    def wait(self, seconds: float) -> list[tuple[Any, Answer]]:
        if not self._waiting:
            return []
        key, resource, target, args, limit = self._waiting.popleft()
        return [(key, answered(self._children[resource], target, args, limit))]

    def close(self) -> None:
        for child in self._children.values():
            child.stop()


# ---- dask.distributed

_own = threading.local()


def stage(target: str, args: tuple[Any, ...], seconds: float) -> Answer:
    """What a worker does: the call, in the process that belongs to the worker's thread."""
    if not hasattr(_own, "child"):
        _own.child = Child()
    return answered(_own.child, target, args, seconds)


class Cluster:
    """Workers of dask.distributed.

    Args:
        scheduler: address of a cluster that exists; None starts one of this machine's processors and GPUs.
        workers: processes that compile, of a cluster of one's own; None for as many as there are processors.

    Raises:
        GemmgenError: there is no cluster at that address.
    """

    def __init__(self, scheduler: str | None = None, workers: int | None = None):
        library("distributed")
        import dask
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.ERROR)  # what its workers meet is told by the rows
        self._futures: dict[Any, Any] = {}
        self._lock = threading.Lock()
        self._done: list[tuple[Any, Any]] = []
        self._event = threading.Event()
        self._cluster = None
        self._looked = 0.0
        self._resources: Counter[str] = Counter()
        if scheduler is None:
            here = gpus_here()
            # What feeds the GPUs and this process want some of the processors' time, too.
            count = workers or max(1, (os.cpu_count() or 1) - 2 * len(here))
            with _ctrl_c_for_us(), dask.config.set({"distributed.worker.daemon": False}):
                self._cluster = _cluster(count, here)
                self._client = Client(self._cluster, set_as_default=False)
                self._client.wait_for_workers(count + len(here), timeout=300)
            self.name = f"{count} compile workers" + (f", {len(here)} GPUs" if here else "") + " of this machine"
        else:
            try:
                self._client = Client(scheduler, timeout=30, set_as_default=False)
            except (OSError, ValueError) as error:
                raise GemmgenError("--scheduler", "does not answer", got=scheduler, needs="the address of a dask scheduler, such as tcp://host:8786",
                                   has=str(error) or None, remedy="dask scheduler, and dask worker ADDRESS --resources compile=1") from None
            self.name = f"cluster {scheduler}"

    def _look(self) -> None:
        """Which resources the workers have now: some die, others join."""
        if time.monotonic() - self._looked > 2 or not self._resources:
            found: Counter[str] = Counter()
            for worker in self._client.scheduler_info(n_workers=-1)["workers"].values():
                found.update({name: int(amount) for name, amount in worker["resources"].items()})
            self._resources, self._looked = found, time.monotonic()

    @property
    def gpus(self) -> Mapping[str, int]:
        self._look()
        return {name: count for name, count in self._resources.items() if name != COMPILE}

    @property
    def compilers(self) -> int:
        self._look()
        return self._resources[COMPILE]

    def submit(self, key: Any, resource: str, target: str, *args: Any, seconds: float) -> None:
        # What a trial did is in its answer. A worker that ends takes none with it: the scheduler gives what it had to others.
        future = self._client.submit(stage, target, args, seconds, key=f"{target}-{os.urandom(8).hex()}", resources={resource: 1}, pure=False)
        with self._lock:
            self._futures[key] = future
        future.add_done_callback(lambda done: self._tell(key, done))

    def _tell(self, key: Any, future: Any) -> None:
        with self._lock:
            self._done.append((key, future))
        self._event.set()

    def wait(self, seconds: float) -> list[tuple[Any, Answer]]:
        self._event.wait(seconds)
        with self._lock:
            done, self._done = self._done, []
            self._event.clear()
            for key, _ in done:
                self._futures.pop(key, None)
        return [(key, _result(future)) for key, future in done]

    def close(self) -> None:
        with self._lock:
            futures, self._futures = list(self._futures.values()), {}
        if futures:
            self._client.cancel(futures, force=True)
        self._client.close(timeout=10)
        if self._cluster is not None:
            self._cluster.close(timeout=20)


def _result(future: Any) -> Answer:
    from distributed import KilledWorker

    try:
        return future.result(timeout=60)
    except KilledWorker as error:
        return "died", f"workers ended while they had it, one after another: {error}"
    except Exception as error:
        return "failed", f"{type(error).__name__}: {error}"


def _cluster(count: int, here: list[Here]) -> Any:
    """Workers that compile, and one for each GPU, each restarted when it ends."""
    from distributed import Nanny, Scheduler, SpecCluster

    def worker(name: str, resources: Mapping[str, int], env: Mapping[str, str]) -> dict[str, Any]:
        return {"cls": Nanny, "options": {
            "name": name, "nthreads": 1, "resources": dict(resources), "env": {
                "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "DASK_LOGGING__DISTRIBUTED": "critical", **env,
            },
            "memory_limit": 0, "death_timeout": START_SECONDS, "dashboard": False, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1",
            "silence_logs": logging.CRITICAL,
        }}

    workers = {f"compile-{at}": worker(f"compile-{at}", {COMPILE: 1}, {"CUDA_VISIBLE_DEVICES": ""}) for at in range(count)}
    for at, gpu in enumerate(here):
        name = f"{gpu.name}-{at}"
        workers[name] = worker(name, {gpu.name: 1}, {"CUDA_VISIBLE_DEVICES": gpu.uuid})
    scheduler = {"cls": Scheduler, "options": {"dashboard": False, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1", "port": 0}}
    return SpecCluster(workers=workers, scheduler=scheduler, silence_logs=logging.CRITICAL, name="gemmgen-explore")


@contextmanager
def _ctrl_c_for_us() -> Iterator[None]:
    """Processes that are started meanwhile leave Ctrl-C to this one, which ends them in order."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
