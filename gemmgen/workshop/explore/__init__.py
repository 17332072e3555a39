"""Exploring: many kernels from one study, tried, kept, looked at, and boiled down to the few that a program needs.

    from gemmgen.workshop import explore

    study = explore.study("small_cpu")                         # its store: explore-out/small_cpu, as `gemmgen study run` has it
    study.run(trials=40)
    study.resume(trials=80)
    study.table("best").to_pandas()                            # an Arrow table
    study.figure("frontier")                                   # plotly's, which notebooks show
    study.report("report.html")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.shown import Shown

if TYPE_CHECKING:
    import plotly.graph_objects
    import pyarrow

    from gemmgen.workshop.explore.running import Progress
    from gemmgen.workshop.explore.space import Candidates
    from gemmgen.workshop.explore.store import Store
    from gemmgen.workshop.explore.studies import Study
    from gemmgen.workshop.explore.trial_row import Row
    from gemmgen.workshop.explore.workers import Pool

__all__ = ["Explored", "study"]


@dataclass(frozen=True, repr=False)
class Explored(Shown):
    """A study as programs use it. Its files are those of the command `gemmgen study`.

    Attributes:
        study: what its file says.
        place: its store, a folder or a URI; None for `explore-out/NAME` in the working folder.
    """

    study: Study
    place: str | PathLike[str] | None = None

    def _told(self) -> dict[str, object]:
        head = self.study.file.study
        return {"name": head.name, "title": head.title, "gpus": ", ".join(map(str, head.gpus)), "sizes": len(head.sizes), "store": self.store}

    @property
    def store(self) -> str | Path:
        """Where trials are kept."""
        place = self.place if self.place is not None else f"explore-out/{self.study.name}"
        return place if isinstance(place, str) else Path(place)

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
        self, store: str | PathLike[str] | None = None, *, strategy: str | None = None, trials: int | None = None, seconds: float | None = None,
        scheduler: str | None = None, workers: int | None = 0, progress: Callable[[Progress], None] = lambda progress: None,
    ) -> Progress:
        """Try candidates and keep what comes of each in a store; what the store holds already is not tried again.

        Args:
            store: a folder, or a URI, instead of the study's own.
            strategy, trials, seconds: instead of the study's own.
            scheduler: address of a cluster of dask.distributed.
            workers: processes that compile on this machine, None for as many as there are processors, beside one for each GPU; 0: one
                process at a time.
            progress: is called after every trial.

        Raises:
            SpecError, UnknownName, InfeasibleSpec, GemmgenError: the study, the store or the cluster will not do.
        """
        from gemmgen.workshop.explore.running import Running

        place = self.store if store is None else store
        pool = pool_of(scheduler, workers)
        try:
            return Running(
                self.candidates(), Path(place) if isinstance(place, PathLike) else place, pool, trials=trials, seconds=seconds, strategy=strategy,
                told_progress=progress,
            ).run()
        finally:
            pool.close()

    def resume(self, **how: Any) -> Progress:
        """Go on with the study's store; arguments as `run`.

        Raises:
            GemmgenError: there is no such store; others as `run`.
        """
        self._opened("").listing()
        return self.run(**how)

    def table(self, question: str = "SELECT * FROM latest", where: str = "", **parameters: str) -> pyarrow.Table:
        """What the store answers, as an Arrow table; `.to_pandas()` makes it a data frame.

        Args:
            question: one SELECT, or the name of a ready-made question such as `best`, `frontier`, `model`.
            where: a condition, in SQL, on the rows that count.
            parameters: of the question.

        Raises:
            GemmgenError: there is no such store or question, or the SQL is refused.
        """
        opened = self._opened(where)
        try:
            return opened.query(question, parameters) if " " in question else opened.answer(question, **parameters)
        finally:
            opened.close()

    def rows(self, where: str = "") -> list[Row]:
        """The store's rows.

        Raises:
            GemmgenError: as `table`.
        """
        opened = self._opened(where)
        try:
            return opened.rows()
        finally:
            opened.close()

    def figure(self, name: str = "frontier", where: str = "") -> plotly.graph_objects.Figure:
        """A plot of the store: `frontier` (error against speed), `sizes` (the fastest of each scheme over the size), `model` (predicted against measured).

        Points with a predicted time are hollow.

        Raises:
            UnknownName: there is no such plot. GemmgenError: as `table`, or plotly is missing.
        """
        from gemmgen.workshop.explore.figures import figure

        return figure(name, self.rows(where), self.study.name)

    def report(self, path: str | PathLike[str] = "report.html", where: str = "", against: Explored | None = None) -> Path:
        """Write the report of `gemmgen study report`, and give its path.

        Args:
            against: a study whose store is compared with this one's, under the same condition.

        Raises:
            GemmgenError: as `table`, or plotly is missing.
        """
        from gemmgen.cli.output import write_paths
        from gemmgen.workshop.explore.report import Against, report

        other = Against(against.rows(where), f"{against.study.name}, {against.store}", f"{self.study.name}, {self.store}") if against else None
        return write_paths({Path(path): report(self.rows(where), title=self.study.name, against=other)})[0]

    def _opened(self, where: str) -> Store:
        from gemmgen.workshop.explore.store import Store

        return Store(self.store, where=where)


def study(source: str | PathLike[str] | Mapping[str, Any] | Study, store: str | PathLike[str] | None = None) -> Explored:
    """A study: a .toml file, the name of one under specs/studies, or a dictionary of its sections.

    Args:
        store: where its trials are kept, a folder or a URI; None for `explore-out/NAME`.

    Raises:
        SpecError, UnknownName: it is not acceptable.
    """
    from gemmgen.workshop.explore.studies import Study, load_study, study_from

    if isinstance(source, Study):
        return Explored(source, store)
    return Explored(study_from(source) if isinstance(source, Mapping) else load_study(Path(source)), store)


def pool_of(scheduler: str | None = None, workers: int | None = None) -> Pool:
    """Who tries: workers of a cluster that exists, or of one of this machine; of `workers` 0 one process.

    Raises:
        GemmgenError: there is no such cluster.
    """
    from gemmgen.workshop.explore.workers import Cluster, OneProcess

    return OneProcess() if workers == 0 and scheduler is None else Cluster(scheduler, workers or None)
