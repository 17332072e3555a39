"""Strips of CTAs in several processes.

Workers are forked for each launch: they share the arena's mappings and inherit
everything else, so nothing has to be sent to them. Strips are handed out in
order; the parent collects counts and the first error.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait

from gemmgen.emulate.core.launch import GridLaunch, LaunchStats
from gemmgen.errors import EmulationError

_WORTH_SPLITTING = 16  # CTAs, from which a second process pays

Progress = Callable[[int, int], None]
"""Called as (CTAs done, CTAs in all)."""


def partition(ctas: int, strip: int, processes: int, cluster: int = 1) -> list[range]:
    """The grid's linear CTA numbers in strips of at most `strip`, at least two of
    them where a second process pays; none divides a cluster."""
    size = strip
    if processes > 1 and ctas >= _WORTH_SPLITTING:
        size = min(strip, -(-ctas // processes))
    size = max(1, size // cluster) * cluster
    return [range(first, min(first + size, ctas)) for first in range(0, ctas, size)]


def run_strips(
    launch: GridLaunch, strip: int, processes: int, progress: Progress | None = None, ctas: Sequence[int] | None = None
) -> LaunchStats:
    """Run every CTA of the grid, or those alone.

    Args:
        ctas: linear numbers, whole clusters.

    Raises:
        EmulationError: of the first strip that failed.
    """
    x, y, z = launch.grid
    whole = range(x * y * z) if ctas is None else ctas
    strips = [whole[each.start : each.stop] for each in partition(len(whole), strip, processes, launch.cluster)]
    workers = min(processes, len(strips))
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        total = LaunchStats()
        for ctas in strips:
            total.add(launch.run_strip(ctas))
            if progress:
                progress(total.ctas, len(whole))
        return total
    return _Workers(launch, strips, workers).run(progress)


class _Workers:
    """Processes that run strips until none is left."""

    def __init__(self, launch: GridLaunch, strips: list[Sequence[int]], count: int):
        context = multiprocessing.get_context("fork")
        self.launch = replace(launch, lock=context.Lock())
        self.strips = strips
        self.next = context.Value("i", 0)
        self.total = sum(len(ctas) for ctas in strips)
        self.parent = os.getpid()
        pipes = [context.Pipe(duplex=False) for _ in range(count)]
        self.readers, self.writers = zip(*pipes, strict=True)
        self.processes = [
            context.Process(target=self._work, args=(writer,), daemon=True)
            for writer in self.writers
        ]

    def _start(self) -> None:
        with warnings.catch_warnings():
            # The child only computes with numpy; it takes no lock another thread may hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            for process in self.processes:
                process.start()
        for writer in self.writers:  # else a worker's end would not close its pipe
            writer.close()

    def _work(self, writer: Connection) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and ends us
        while os.getppid() == self.parent:
            with self.next.get_lock():
                number = self.next.value
                self.next.value += 1
            if number >= len(self.strips):
                break
            try:
                writer.send((number, self.launch.run_strip(self.strips[number])))
            except Exception as error:
                with self.next.get_lock():
                    self.next.value = len(self.strips)  # strips not yet begun need not be
                writer.send((number, error))
        writer.close()

    def run(self, progress: Progress | None) -> LaunchStats:
        outcomes: dict[int, LaunchStats | Exception] = {}
        try:
            self._start()
            self._collect(outcomes, progress)
        finally:
            for process in self.processes:
                if process.pid is not None:
                    process.terminate()  # it has ended, unless something went wrong here
                    process.join(10)
                    process.kill()  # where a handler of signals that it has from us does not end it
                    process.join()
            for reader in self.readers:
                reader.close()
        total = LaunchStats()
        for number in sorted(outcomes):  # whichever worker was first: the first strip's error
            if isinstance(outcomes[number], Exception):
                raise outcomes[number]
            total.add(outcomes[number])
        if len(outcomes) < len(self.strips):
            raise EmulationError(
                f"entry {self.launch.name}",
                "a worker process ended before its work was done",
                got=f"exit codes {[process.exitcode for process in self.processes]}",
                remedy="give the machine more memory, or use fewer processes or shorter strips",
            )
        return total

    def _collect(
        self, outcomes: dict[int, LaunchStats | Exception], progress: Progress | None
    ) -> None:
        done, open_ = 0, list(self.readers)
        while open_:
            alive = [process.sentinel for process in self.processes if process.exitcode is None]  # one that ends from now on is heard
            if any(process.exitcode for process in self.processes):
                return  # it may have held a lock that the others wait for
            ready = wait([*open_, *alive])
            for reader in open_[:]:
                if reader not in ready:
                    continue
                try:
                    number, outcomes[number] = reader.recv()
                except EOFError:
                    open_.remove(reader)
                    continue
                if isinstance(outcomes[number], LaunchStats):
                    done += outcomes[number].ctas
                    if progress:
                        progress(done, self.total)
