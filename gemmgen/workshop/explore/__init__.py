"""Exploring: many kernels from one study, tried, kept, looked at, and boiled down to the few that a program needs.

    from gemmgen.workshop import explore

    study = explore.study("specs/studies/small_cpu.toml")
    print(len(study.candidates()))
    progress = study.run("explore-out/small_cpu")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmgen.workshop.explore.running import Progress
    from gemmgen.workshop.explore.space import Candidates
    from gemmgen.workshop.explore.studies import Study
    from gemmgen.workshop.explore.workers import Pool

__all__ = ["Explored", "study"]


@dataclass(frozen=True)
class Explored:
    """A study as programs use it.

    Attributes:
        study: what its file says.
    """

    study: Study

    @cached_property
    def _candidates(self) -> Candidates:
        from gemmgen.workshop.explore.space import candidates

        return candidates(self.study)

    def candidates(self) -> Candidates:
        """All of them, ranked by the model; nothing is compiled.

        Raises:
            SpecError, UnknownName, InfeasibleSpec: as `gemmgen.workshop.explore.space.candidates`.
        """
        return self._candidates

    def run(
        self, store: str | PathLike[str], *, strategy: str | None = None, trials: int | None = None, seconds: float | None = None,
        scheduler: str | None = None, workers: int | None = 0, progress: Callable[[Progress], None] = lambda progress: None,
    ) -> Progress:
        """Try candidates and keep what comes of each in a store; what the store holds already is not tried again.

        Args:
            store: a folder, or a URI.
            strategy, trials, seconds: instead of the study's own.
            scheduler: address of a cluster of dask.distributed.
            workers: processes that compile on this machine, None for as many as there are processors, beside one for each GPU; 0: one
                process at a time.
            progress: is told after every trial.

        Raises:
            SpecError, UnknownName, InfeasibleSpec, GemmgenError: the study, the store or the cluster will not do.
        """
        from gemmgen.workshop.explore.running import Running

        pool = pool_of(scheduler, workers)
        try:
            return Running(
                self.candidates(), Path(store) if isinstance(store, PathLike) else store, pool, trials=trials, seconds=seconds, strategy=strategy,
                told_progress=progress,
            ).run()
        finally:
            pool.close()


def study(source: str | PathLike[str] | Mapping[str, Any] | Study) -> Explored:
    """A study: a .toml file, the name of one under specs/studies, or a dictionary of its sections.

    Raises:
        SpecError, UnknownName: it is not acceptable.
    """
    from gemmgen.workshop.explore.studies import Study, load_study, study_from

    if isinstance(source, Study):
        return Explored(source)
    return Explored(study_from(source) if isinstance(source, Mapping) else load_study(Path(source)))


def pool_of(scheduler: str | None = None, workers: int | None = None) -> Pool:
    """Who tries: workers of a cluster that exists, or of one of this machine; of `workers` 0 one process.

    Raises:
        GemmgenError: there is no such cluster.
    """
    from gemmgen.workshop.explore.workers import Cluster, OneProcess

    return OneProcess() if workers == 0 and scheduler is None else Cluster(scheduler, workers or None)
