"""The front: buffers in, a launch, results out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from types import MappingProxyType

import numpy as np

from gemmgen.catalog.unit import MatrixUnit
from gemmgen.emulate.amdgpu import isa  # noqa: F401: its files register the instructions
from gemmgen.emulate.amdgpu.assembly import Argument, Kernel, Module, parse
from gemmgen.emulate.amdgpu.decode import Decoder
from gemmgen.emulate.amdgpu.program import Program
from gemmgen.emulate.amdgpu.strip import Launch
from gemmgen.emulate.amdgpu.target import target_named
from gemmgen.emulate.core.host import HostMemory
from gemmgen.emulate.core.launch import KEPT_PROGRAMS, LAZY_HIGHEST, LaunchStats, Schedule, checked_launch
from gemmgen.emulate.core.memory import Buffer
from gemmgen.emulate.core.report import Source
from gemmgen.emulate.core.strips import Progress, run_strips
from gemmgen.errors import EmulationError

Value = Buffer | int | float | bytes | None
_PACKET_BYTES = 64  # of a dispatch packet
_SEGMENT_ALIGN = 64  # the argument segment is read in such pieces, past its end


class AmdEmulator(HostMemory):
    """The kernels of an AMDGPU assembly on an emulated GPU.

    Args:
        assembly: the text that clang writes for `-S`, best with -gline-tables-only.
        unit: the matrix unit that computes its floating-point matrix instructions.
        schedule: which of the orders a GPU may choose.
        source: the HIP text, so that errors can quote it.
        source_name: how errors call it; by default the file named in the assembly.
        processes: workers for a large grid; by default one for each CPU.
        strip: workgroups computed together as one vector.

    Raises:
        EmulationError: the text cannot be read, or uses an instruction that is
            not supported.
        UnknownName: it is for a target that is not emulated.
    """

    def __init__(
        self,
        assembly: str,
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
        module = _parsed(assembly)
        self.target = target_named(module.target)
        self.source = Source(
            source_name or module.source_name, tuple((source or "").splitlines()), group="workgroup", member="work-item"
        )
        super().__init__([(name, len(content), content) for name, content in module.variables.items()])
        longest = max(kernel.argument_bytes for kernel in module.kernels.values())
        self._segment_bytes = -(-max(longest, 1) // _SEGMENT_ALIGN) * _SEGMENT_ALIGN
        symbols = self.forget()
        self.programs = _programs(assembly, tuple(symbols.items()), self.source)

    def forget(self) -> dict[str, int]:
        addresses = super().forget()
        self._segment = self.alloc(self._segment_bytes, name="kernel arguments")
        self._packet = self.alloc(_PACKET_BYTES, name="dispatch packet")
        return addresses

    def launch(
        self,
        entry: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        args: Sequence[Value],
        progress: Progress | None = None,
        ctas: Sequence[int] | None = None,
    ) -> LaunchStats:
        """Run a kernel to its end.

        Args:
            grid: workgroups, block: work-items of one; x, y, z.
            shared_bytes: dynamic LDS of a workgroup.
            args: in the order of the kernel's parameters. A pointer is a Buffer,
                None or an address; `bytes` fill a parameter that is a struct.
            progress: called as (workgroups done, workgroups in all).
            ctas: the workgroups that are run, by their linear numbers; None for all.

        Raises:
            EmulationError: the launch does not fit the kernel, or the kernel does
                something it must not.
        """
        self._open()
        program, grid, block = checked_launch(self.programs, self.source, entry, grid, block, lambda program: program.kernel.most_threads)
        kernel = program.kernel
        self._fill_segment(kernel, args, grid, block, int(shared_bytes))
        self._fill_packet(grid, block)
        launch = Launch(
            program=program,
            unit=self.unit,
            schedule=self.schedule,
            arena=self._arena,
            grid=grid,
            block=block,
            segment=self._segment.address,
            segment_bytes=self._segment_bytes,
            dispatch=self._packet.address,
            shared_bytes=kernel.setting("group_segment_fixed_size") + int(shared_bytes),
            lock=nullcontext(),
            source=self.source,
        )
        return run_strips(launch, self.strip, self.processes, progress, ctas)

    # ---- arguments
    def _fill_segment(self, kernel: Kernel, args: Sequence[Value], grid, block, shared_bytes: int) -> None:
        """The kernel's arguments; what it does not ask for, or what is not known, stays unwritten."""
        asked = [argument for argument in kernel.arguments if not argument.hidden]
        if len(args) != len(asked):
            raise EmulationError(
                f"entry {kernel.name}", "the number of arguments is wrong", got=len(args),
                needs=f"{len(asked)}: " + ", ".join(f"{each.kind} of {each.nbytes} bytes" for each in asked),
            )  # fmt: skip
        self._arena.clear(self._segment)
        for number, (argument, value) in enumerate(zip(asked, args, strict=True)):
            where = f"entry {kernel.name}: argument {number} ({argument.kind} of {argument.nbytes} bytes)"
            self._arena.write(self._segment, argument.offset, self._encode(where, argument, value))
        known = {"hidden_dynamic_lds_size": shared_bytes, "hidden_grid_dims": 1 + sum(size > 1 for size in grid[1:])}
        for axis, groups, threads in zip("xyz", grid, block, strict=True):
            known[f"hidden_block_count_{axis}"] = groups
            known[f"hidden_group_size_{axis}"] = threads
            known[f"hidden_remainder_{axis}"] = known[f"hidden_global_offset_{axis}"] = 0
        for argument in kernel.arguments:
            if argument.kind in known:
                content = known[argument.kind].to_bytes(argument.nbytes, "little")
                self._arena.write(self._segment, argument.offset, content)

    def _fill_packet(self, grid, block) -> None:
        """Sizes of the launch, where a dispatch packet has them (HSA system architecture, kernel dispatch packet)."""
        self._arena.clear(self._packet)
        for axis, (groups, threads) in enumerate(zip(grid, block, strict=True)):
            self._arena.write(self._packet, 4 + 2 * axis, threads.to_bytes(2, "little"))
            self._arena.write(self._packet, 12 + 4 * axis, (groups * threads).to_bytes(4, "little"))

    def _encode(self, where: str, argument: Argument, value: Value) -> bytes:
        size = argument.nbytes
        if isinstance(value, bytes) and len(value) == size and not argument.pointer:
            return value
        if value is None or isinstance(value, Buffer):
            if size != 8:
                raise EmulationError(where, "is not a pointer", got=value, needs=_kind(argument))
            if value is not None:
                self._arena.slice(value)  # that it is one of ours
            return (0 if value is None else value.address).to_bytes(8, "little")
        if isinstance(value, float | np.floating) and not argument.pointer and size in (2, 4, 8):
            return np.array(value, f"f{size}").tobytes()
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and size <= 8:
            if -(1 << 8 * size - 1) <= value < 1 << 8 * size:
                return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")
        raise EmulationError(where, "does not fit its declaration", got=value, needs=_kind(argument))


_parsed: Callable[[str], Module] = lru_cache(KEPT_PROGRAMS)(parse)


@lru_cache(KEPT_PROGRAMS)
def _programs(assembly: str, symbols: tuple[tuple[str, int], ...], source: Source) -> Mapping[str, Program]:
    """The kernels of an assembly, decoded; a run changes none of them, so that emulators of the same text share them.

    Args:
        symbols: names and addresses of the module's variables.
        source: what the instructions' places are told by.
    """
    module = _parsed(assembly)
    target = target_named(module.target)
    return MappingProxyType({name: Decoder(kernel, target, dict(symbols), source).decode() for name, kernel in module.kernels.items()})


def _kind(argument: Argument) -> str:
    if argument.pointer:
        return "a Buffer, None or an address"
    numbers = "an int or float" if argument.nbytes in (2, 4, 8) else "an int" if argument.nbytes == 1 else "bytes"
    return f"{numbers} of {argument.nbytes} bytes"
