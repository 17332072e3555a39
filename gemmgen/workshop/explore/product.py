"""One product tuned by one call: a study of its size, within a time, whose answer is kept for the next call.

    import gemmgen

    tuned = gemmgen.tune(4096, 4096, 4096, accuracy="fp32", budget="2 min")
    print(tuned)                                    # the kernel, its time, what it is worth beside plain FP32
    kernel = road.build(tuned.spec)
    tuned.study.table("frontier"), tuned.study.figure("frontier"), tuned.study.report("report.html")
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen import __version__
from gemmgen.cache import folder
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.plan import Plan
from gemmgen.shown import Shown
from gemmgen.verdict import Verdict
from gemmgen.workshop.explore import Explored, study
from gemmgen.workshop.explore.gpus import gpus_here
from gemmgen.workshop.explore.headline import SGEMM, fp32_times, known, seconds_of, verdict_of
from gemmgen.workshop.explore.rebuilt import plan_of, spec_of
from gemmgen.workshop.explore.running import compiler_name
from gemmgen.workshop.explore.trial_row import Row

if TYPE_CHECKING:
    from gemmgen.workshop.explore.running import Progress

UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
MOST_TRIALS = 10_000
UNTIMED_TRIALS = 8
"""Without the GPU the model's order decides: more are only tried because the compiler may refuse some."""


@dataclass(frozen=True, repr=False)
class TunedProduct(Shown):
    """The best kernel of one product.

    Attributes:
        row: its trial, with its times, its error and what it is of.
        study: all that was tried.
        kept: whether the answer is an earlier call's.
    """

    row: Row
    study: Explored
    kept: bool

    @property
    def seconds(self) -> float:
        """Of one product; `measured` says how they are known."""
        return seconds_of(self.row) or 0.0

    @property
    def measured(self) -> bool:
        return self.row.verdict == "timed"

    @property
    def spec(self) -> dict[str, Any]:
        """The kernel's spec, every decision fixed, for `gemmgen.road`."""
        return spec_of(self.row)

    @property
    def plan(self) -> Plan:
        return plan_of(self.row)

    @cached_property
    def verdict(self) -> Verdict | None:
        """Beside plain FP32; None where there is none to compare with."""
        return verdict_of(self.row, fp32_times(self.study.rows()))

    def _told(self) -> dict[str, object]:
        how = f"measured on {self.row.device}" if self.measured else f"predicted, {self.row.verdict}"
        return {"kernel": self.row.kernel, "time": f"{1e6 * self.seconds:.4g} us ({how})", "verdict": self.verdict and self.verdict.sentence,
                "store": f"{self.study.store}{', kept from an earlier call' if self.kept else ''}"}

    def __str__(self) -> str:
        return "\n".join(f"{name:<9}{text}" for name, text in self._rows())


def tuned(
    m: int, n: int, k: int, *, accuracy: str | float = "fp32", budget: str | float = "2 min", gpu: str | None = None, layout: str = "nn",
    store: str | PathLike[str] | None = None, again: bool = False, workers: int | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> TunedProduct:
    """The fastest kernel for A [m, k] times B [k, n] that a study of so long finds; an answer that the store holds is given at once.

    Without such a GPU nothing is timed: the answer is the model's first choice that compiles; without a compiler, its first choice.

    Args:
        accuracy: `fp32`, `tf32` or `fp32-rounded`, as `[accuracy] as` of a spec; or the largest relative Frobenius error.
        budget: of the trials: "90 s", "2 min", "1 h", or seconds.
        gpu: a name under specs/gpus or a .toml file; None for the GPU of this machine.
        layout: nn, nt, tn or tt: A and B as stored, row major.
        store: a folder or a URI; None for one in the cache folder, where other processes find it.
        again: try further candidates for so long, though the store holds an answer.
        workers: processes that compile, as `Explored.run` has them.
        progress: is called after every trial.

    Raises:
        SpecError: an argument is not acceptable, or no GPU is named and none is here.
        InfeasibleSpec: no kernel of the GPU gives such an error.
        GemmgenError: no kernel could be made; the store has the reasons.
    """
    if not isinstance(accuracy, str | int | float):
        raise SpecError("tune: accuracy", "is no accuracy", got=type(accuracy).__name__, needs="fp32, tf32, fp32-rounded, or the largest error",
                        remedy='accuracy="fp32"')
    if not (store is None or isinstance(store, str | PathLike)):
        raise SpecError("tune: store", "is no place", got=type(store).__name__, needs="a folder or a URI", remedy='store="my_store"')
    seconds, here = seconds_asked(budget), [one.name for one in gpus_here()]
    if gpu is None and not here:
        raise SpecError("tune: gpu", "is not given, and no GPU that the catalog knows is here", needs="a name under specs/gpus", remedy='gpu="h100"')
    gpu = gpu or here[0]
    row = GPUS.get(gpu, where="tune: gpu")
    figure = isinstance(accuracy, int | float)
    asked_of = f"{m}x{n}x{k}_{layout}_{accuracy}"
    name = f"tune_{hashlib.sha256(f'{gpu} {asked_of}'.encode()).hexdigest()[:12]}"
    timed = row.name in here
    head = {
        "name": name, "title": f"{m} x {n} x {k} {layout} on {row.name}, accuracy {accuracy}", "gpus": [gpu], "sizes": [[m, n, k]], "layouts": [layout],
        "strategy": "model", "seconds": seconds,
        "trials": MOST_TRIALS if timed else UNTIMED_TRIALS, "compile": bool(compiler_name(row.arch)), "rivals": [SGEMM] if timed and layout == "nn" else [],
    }
    asked = {"relative_frobenius" if figure else "as": accuracy}
    cache = folder()
    place = store if store is not None else cache / "tuned" / f"{row.name}_{asked_of}_{name[-12:]}" if cache else None
    made = study({"study": head, "space": {"accuracy": asked}, **({"accept": asked} if figure else {})}, place)
    found = None if again else _best(made, timed)
    if found is not None:
        return TunedProduct(found, made, True)
    made.run(workers=workers if head["compile"] and timed else 0, progress=progress)
    found = _best(made, timed)
    if found is None:
        raise GemmgenError(f"tune {m} x {n} x {k} on {row.name}", "found no kernel that is right", needs="a trial that is not refused, wrong or broken",
                           remedy=f"gemmgen study ask {made.store} --verdicts shows why, or a larger budget")
    return TunedProduct(found, made, False)


def _best(made: Explored, timed: bool) -> Row | None:
    """The fastest kernel that this version tried; measured times alone where there is such a GPU."""
    store = made.store
    if isinstance(store, Path) and not store.is_dir():
        return None
    rows = [row for row in known(made.rows("kind <> 'space'")) if row.kind == "kernel" and row.study == made.study.name and row.generator == __version__]
    rows = [row for row in rows if row.verdict == "timed"] or ([] if timed else rows)
    return min(rows, key=lambda row: seconds_of(row) or float("inf"), default=None)


def seconds_asked(budget: str | float) -> float:
    """A time in seconds: a number, or a number and `s`, `min` or `h`.

    Raises:
        SpecError: it is none.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*(s|min|h)\s*", budget) if isinstance(budget, str) else None
    seconds = float(found[1]) * UNITS[found[2]] if found else budget
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= 1e7:
        raise SpecError("tune: budget", "is no time", got=budget, needs="seconds above 0, or a number and s, min or h", remedy='budget="2 min"')
    return float(seconds)
