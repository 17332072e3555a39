"""The emulator as a device: runs the compiler's assembly, PTX or AMD's, on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.emulate import NOT_MODELLED, TOGETHER, Emulator, Schedule
from gemmgen.plan import Plan
from gemmgen.render import Source

if TYPE_CHECKING:
    from gemmgen.catalog.gpu import Gpu
    from gemmgen.emulate.amdgpu import AmdEmulator


class EmulatorDevice:
    """Executes a Binary's assembly over the bit-exact model of the plan's matrix unit, where it has one.

    Args:
        schedule: the order in which warps run and copies land; all in step, which takes the least time, unless races are looked for.
        progress: called with (symbol, blocks done, blocks).
        processes: workers; None is one a core.

    Attributes:
        clusters_at_once: a GPU so small that blocks work off several tiles each, as they do on a real one; where slices of k
            meet, of so many blocks that they seldom divide the tiles, since else one block would get all slices of a tile.
        only: of launches, by the kernel's name, the blocks that are run: a sample of C's (`gemmgen.verify.sample`); the others are left out.
        not_modelled: what of the order of memory goes unnoticed where a kernel gets it wrong.
    """

    kind = "emulator"
    def __init__(
        self, plan: Plan, source: Source, binary: Binary, *, schedule: Schedule = TOGETHER,
        progress: Callable[[str, int, int], None] | None = None, processes: int | None = None,
    ):
        self.plan, self.source, self.binary, self.processes = plan, source, binary, processes
        self.progress = progress
        self.conflicts: dict[str, int] = {}
        self.only: Mapping[str, Sequence[int]] = {}
        self.clusters_at_once = 2 if plan.split_k == 1 else 5
        self.not_modelled = NOT_MODELLED if plan.gpu.maker.checked.orders_memory else ()
        self.schedule = schedule
        types, policy, row = plan.scheme.types, plan.fragment.policy, plan.gpu.unit
        unit, comma, unchecked = row.label(next((one for one in types if not row.checked(one, policy)), types[0]), policy).partition(",")
        engine = f"{unit} matrix unit{comma}{unchecked}" if plan.fragment.on_matrix_unit else f"{plan.fragment.interface.engine}s"
        self.name = f"emulator ({engine})"
        self._emulator: Emulator | AmdEmulator | None = None  # made when first used, and kept: assembly is decoded once

    def facts(self) -> dict[str, Any]:
        """What runs the kernels, as a record of a run keeps it."""
        return {"name": self.name, "target": self.plan.arch, "wavefront_size": self.plan.lanes}

    def set_schedule(self, schedule: Schedule) -> None:
        """Use `schedule` from the next run on."""
        self.schedule = schedule

    @property
    def emulator(self) -> Emulator | AmdEmulator:
        if self._emulator is None:
            package, name = self.plan.gpu.maker.checked.emulator
            made_for = getattr(import_module(package), name)
            self._emulator = made_for(
                self.binary.assembly, self.plan.gpu.unit, source=self.source.text,
                source_name=self.source.file_name, processes=self.processes, schedule=self.schedule,
            )
        return self._emulator

    def zeros(self, nbytes: int, name: str) -> Any:
        return self.emulator.alloc(nbytes, name=name, fill=0)

    def empty(self, nbytes: int, name: str) -> Any:
        return self.emulator.alloc(nbytes, name=name)

    def upload(self, array: np.ndarray, name: str, misalign: int = 0) -> Any:
        return self.emulator.upload(array, name=name, offset=misalign)

    def address(self, buffer: Any) -> int:
        return buffer.address

    def part(self, buffer: Any, nbytes: int) -> Any:
        return replace(buffer, address=buffer.address + nbytes, nbytes=buffer.nbytes - nbytes)

    def launch(self, symbol: str, blocks: int, threads: int, shared_bytes: int, args: Sequence[Any], overlaps: bool = False) -> None:
        report = partial(self.progress, symbol) if self.progress else None
        self.emulator.schedule = self.schedule
        options: dict[str, Any] = {"overlaps": True} if overlaps else {}  # which AMD's launches cannot
        if symbol in self.only:
            options["ctas"] = self.only[symbol]
        if report:
            report(0, len(self.only.get(symbol, range(blocks))))  # else the launch before it is shown as done until the first of this one's blocks are
        stats = self.emulator.launch(
            symbol, (blocks, 1, 1), (threads, 1, 1), shared_bytes, [value for _, value in args], progress=report, **options
        )
        for site, count in stats.conflict_sites.items():
            self.conflicts[site] = self.conflicts.get(site, 0) + count

    def download(self, buffer: Any, dtype: Any, count: int) -> np.ndarray:
        return self.emulator.read(buffer, dtype, (count,))

    def seconds(self) -> float | None:
        return None

    def release(self) -> None:
        if self._emulator is not None:
            self._emulator.forget()


class UnplannedDevice(EmulatorDevice):
    """The emulator as a device for a kernel that no plan made, as one that probes an instruction.

    Args:
        gpu: the row whose matrix unit multiplies.
    """

    def __init__(self, gpu: Gpu, source: Source, binary: Binary):
        self.conflicts: dict[str, int] = {}
        self.clusters_at_once, self.progress, self.schedule = None, None, TOGETHER
        self.only = {}
        self.name = f"emulator of {gpu.title}"
        package, name = gpu.maker.checked.emulator
        made_for = getattr(import_module(package), name)
        self._emulator = made_for(binary.assembly, gpu.unit, source=source.text, source_name=source.file_name, processes=1)
        self._facts = {"name": self.name, "target": source.arch, "wavefront_size": gpu.limits.warp_size}

    def facts(self) -> dict[str, Any]:
        return self._facts
