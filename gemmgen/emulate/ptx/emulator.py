"""The front: buffers in, a launch, results out."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from math import prod
from types import MappingProxyType

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.core.host import HostMemory
from gemmgen.emulate.core.launch import KEPT_PROGRAMS, LAZY_HIGHEST, LaunchStats, Schedule, checked_launch
from gemmgen.emulate.core.memory import Buffer
from gemmgen.emulate.core.report import Source
from gemmgen.emulate.core.strips import Progress, run_strips
from gemmgen.emulate.ptx import isa  # noqa: F401: its files register the instructions
from gemmgen.emulate.ptx.decode import DTYPES, Decoder
from gemmgen.emulate.ptx.order import Writes
from gemmgen.emulate.ptx.parse import Module, Param, parse
from gemmgen.emulate.ptx.program import Program
from gemmgen.emulate.ptx.strip import Launch
from gemmgen.errors import EmulationError

Argument = Buffer | int | float | bytes | None


class Emulator(HostMemory):
    """A PTX module on an emulated GPU.

    Args:
        ptx: the module's text, best compiled with -lineinfo.
        unit: the matrix unit that computes its `mma` instructions.
        schedule: which of the orders a GPU may choose.
        source: the CUDA text, so that errors can quote it.
        source_name: how errors call it; by default the file named in the PTX.
        processes: workers for a large grid; by default one for each CPU.
        strip: CTAs computed together as one vector.

    Raises:
        EmulationError: the text cannot be read, or uses an instruction that is
            not supported.
    """

    def __init__(
        self,
        ptx: str,
        unit: MatrixUnit,
        *,
        schedule: Schedule = LAZY_HIGHEST,
        source: str | None = None,
        source_name: str | None = None,
        processes: int | None = None,
        strip: int = 60,
    ):
        self.unit, self.schedule, self.strip = unit, schedule, max(1, strip)
        self.processes = processes or os.cpu_count() or 1
        module = _parsed(ptx)
        named = os.path.basename(module.files[min(module.files)]) if module.files else "kernel.ptx"
        self.source = Source(source_name or named, tuple((source or "").splitlines()))
        super().__init__([(v.name, v.nbytes, v.initial) for v in module.variables if v.space != "shared"])
        symbols = self.forget()
        self.programs = _programs(ptx, tuple(symbols.items()), self.source)

    def forget(self) -> dict[str, int]:
        self._writes: Writes | None = None  # of the last launch
        return super().forget()

    def close(self) -> None:
        self._writes = None
        super().close()

    # ---- running
    def launch(
        self,
        entry: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        args: Sequence[Argument],
        progress: Progress | None = None,
        overlaps: bool = False,
        ctas: Sequence[int] | None = None,
    ) -> LaunchStats:
        """Run a kernel to its end.

        Args:
            grid, block: x, y, z.
            shared_bytes: dynamic shared memory of a CTA.
            args: in the order of the kernel's parameters. A pointer is a Buffer
                or None; `bytes` fill a parameter that is a struct.
            progress: called as (CTAs done, CTAs in all).
            overlaps: whether it may begin before the launch before it is over (a programmatic dependent
                launch); what that one writes it may then not touch before griddepcontrol.wait.
            ctas: of the grid, those that are run, by their linear numbers, whole clusters; None for all.

        Raises:
            EmulationError: the launch does not fit the kernel, or the kernel does
                something it must not.
        """
        self._open()
        program, grid, block = checked_launch(self.programs, self.source, entry, grid, block, lambda program: prod(program.entry.threads or (1024,)))
        cluster = self._cluster(program, grid)
        before = self._writes.grown(self._arena.nbytes) if overlaps and self._writes else None
        self._writes = Writes(program, grid, block, self._arena.nbytes)
        launch = Launch(
            program=program,
            unit=self.unit,
            schedule=self.schedule,
            arena=self._arena,
            grid=grid,
            block=block,
            shared_bytes=program.static_shared + int(shared_bytes),
            params=self._pack(program, args),
            lock=nullcontext(),
            source=self.source,
            writes=self._writes,
            before=before,
            cluster=cluster,
        )
        return run_strips(launch, self.strip, self.processes, progress, ctas)

    @staticmethod
    def _cluster(program: Program, grid: tuple[int, int, int]) -> int:
        """CTAs of a cluster, after checking that the grid holds whole ones."""
        x, y, z = program.entry.cluster or (1, 1, 1)
        where = f"entry {program.entry.name}"
        if (y, z) != (1, 1):
            raise EmulationError(where, "clusters are supported along x only", got=(x, y, z), needs="(x, 1, 1)")
        if program.cta_group and x % program.cta_group:
            raise EmulationError(where, "a pair of CTAs does not lie in one cluster", got=f"clusters of {x}", needs="clusters of an even number of CTAs")
        if grid[0] % x:
            raise EmulationError(
                where, "the grid does not hold whole clusters", got=grid, needs=f"a multiple of {x} CTAs along x"
            )
        return x

    def _pack(self, program: Program, args: Sequence[Argument]) -> np.ndarray:
        """The parameter bytes, each argument checked against its declaration."""
        params = program.entry.params
        if len(args) != len(params):
            raise EmulationError(
                f"entry {program.entry.name}", "the number of arguments is wrong",
                got=len(args), needs=f"{len(params)}: " + ", ".join(f".{p.type} {p.name}" for p in params),
            )  # fmt: skip
        blob = np.zeros(program.param_bytes, np.uint8)
        for number, (param, value) in enumerate(zip(params, args, strict=True)):
            start = program.param_offsets[param.name]
            where = f"entry {program.entry.name}: argument {number} (.{param.type} {param.name})"
            blob[start : start + param.nbytes] = np.frombuffer(self._encode(where, param, value), np.uint8)
        return blob

    def _encode(self, where: str, param: Param, value: Argument) -> bytes:
        if param.count:
            if not isinstance(value, bytes) or len(value) != param.nbytes:
                raise EmulationError(where, "does not fit", got=value, needs=f"{param.nbytes} bytes")
            return value
        if value is None or isinstance(value, Buffer):
            if param.type not in ("u64", "b64", "s64"):
                raise EmulationError(where, "is not a pointer", got=value, needs=_kind(param))
            if value is not None:
                self._arena.slice(value)  # that it is one of ours
            return (0 if value is None else value.address).to_bytes(8, "little")
        dtype = DTYPES[param.type]
        if isinstance(value, float | np.floating) and param.type in ("f32", "f64", "f16", "b32"):
            return np.array(value, np.float32 if param.type == "b32" else dtype).tobytes()
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and not param.pointer:
            bits = 8 * dtype.itemsize
            # PTX declares signed parameters unsigned too, so both ranges are taken
            if re.match(r"[sub]\d+$", param.type) and -(1 << bits - 1) <= value < 1 << bits:
                return (int(value) & (1 << bits) - 1).to_bytes(dtype.itemsize, "little")
        raise EmulationError(where, "does not fit its declaration", got=value, needs=_kind(param))


_parsed: Callable[[str], Module] = lru_cache(KEPT_PROGRAMS)(parse)


@lru_cache(KEPT_PROGRAMS)
def _programs(ptx: str, symbols: tuple[tuple[str, int], ...], source: Source) -> Mapping[str, Program]:
    """The entries of a module, decoded; a run changes none of them, so that emulators of the same text share them.

    Args:
        symbols: names and addresses of the module's variables.
        source: what the instructions' places are told by.
    """
    module = _parsed(ptx)
    return MappingProxyType({name: Decoder(module, entry, dict(symbols), source).decode() for name, entry in module.entries.items()})


def _kind(param: Param) -> str:
    if param.pointer or param.type == "u64":
        return "a Buffer or None" if param.pointer else "a Buffer, None or an int"
    if param.type.startswith("f"):
        return "a float"
    return f"an int of {8 * DTYPES[param.type].itemsize} bits"
