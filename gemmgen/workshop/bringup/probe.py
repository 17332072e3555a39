"""What a bring-up may do with a device: launch kernels, of one matrix instruction on registers it fills or of any other text, read what came out,
and ask how many blocks an SM holds.

Nothing here knows which lane holds which element, nor how the unit rounds: `maps` finds the one, `sums` and `rules` the other,
`limits` and `rates` what the device holds and how fast it is, through these launches alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from gemmgen.build import Binary, build
from gemmgen.catalog.conversion import RAW
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.number import INTEGERS, sum_type
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import DeviceError
from gemmgen.fragment_header import fragment_header
from gemmgen.model.resources import occupancy
from gemmgen.render import Source, render_text
from gemmgen.run import Device, driver_facts, open_on, sensors_of
from gemmgen.run.emulator import UnplannedDevice
from gemmgen.run.sensors import Sensors

REGISTERS, LOADED = "bringup_registers", "bringup_loaded"
"""The kernels: an instruction on registers as they are; fragments of a library's type, loaded from memory."""

_PLATFORMS = {
    "cuda": {
        "kernel": "__global__ void __launch_bounds__({threads})", "holding": "__global__ void __maxnreg__({registers})", "any": "__global__ void",
        "block": "blockIdx.x", "thread": "threadIdx.x",
    },
    "hip": {
        "kernel": "__attribute__((global)) void __attribute__((amdgpu_flat_work_group_size({threads}, {threads})))",
        "holding": "__attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, 256), amdgpu_num_vgpr({registers})))",
        "any": "__attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, 1024)))",
        "block": "__builtin_amdgcn_workgroup_id_x()", "thread": "__builtin_amdgcn_workitem_id_x()",
    },
}
"""How kernels begin, of so many threads, of so many registers, or of any; and what the numbers of a block and a thread are."""
_VALUE = {"s32": ("int", np.dtype(np.int32)), "f32": ("float", np.dtype(np.float32))}

MOST_TILES = 1 << 13
"""Of one launch: what is uploaded for it stays below a GiB, and a launch on an emulator within minutes."""


class Kernels(Device, Protocol):
    """A device with the kernels of a source, as measurements of what it holds use them."""

    def registers(self, symbol: str) -> int:
        """32-bit registers of a thread, as loaded."""
        ...

    def takes(self, symbol: str, blocks: int, threads: int, shared_bytes: int = 0, cluster: int = 1, opt_in: bool = True) -> bool:
        """Whether a launch is not refused; its arguments are zeros.

        Args:
            cluster: blocks of a cluster.
            opt_in: ask for more dynamic shared memory than a launch gets by itself.
        """
        ...

    def resident(self, symbol: str, threads: int, shared_bytes: int = 0) -> int:
        """How many such blocks an SM holds at once, by the driver's occupancy query."""
        ...

    def series(self, symbol: str, blocks: int, threads: int, args: Sequence[Sequence[Any]], overlaps: bool = False) -> float:
        """Launches with nothing between them, one for each list of arguments; seconds from the first call to the end of all, seen from the host.

        Args:
            overlaps: each may start while the one before still runs.
        """
        ...

    def copy_seconds(self, nbytes: int, to_device: bool) -> float | None:
        """What a copy between page-locked memory of the host and the device takes; None where that is not measured."""
        ...


class Machine(Protocol):
    """A device as a bring-up sees it.

    Attributes:
        name: as reports say it.
        kind: `emulator`, `cuda`, `hip`.
        arch: the compile target.
    """

    name: str
    kind: str
    arch: str

    def open(self, fragment: Fragment) -> Device: ...
    def kernels(self, source: Source) -> Kernels | EmulatedKernels: ...
    def facts(self) -> Mapping[str, Any]: ...
    def sensors(self) -> Sensors | None: ...


class GpuMachine:
    """The GPU here, of which no row needs to be known.

    Args:
        kind: `cuda` or `hip`.

    Raises:
        DeviceError: there is none.
    """

    def __init__(self, kind: str):
        self.kind, self._told = kind, driver_facts(kind)
        self.arch, self.name = self._told["arch"], self._told["title"]

    def open(self, fragment: Fragment) -> Device:
        text = source(fragment, self.arch)
        return open_on(text, build(text))

    def kernels(self, source: Source) -> Kernels:
        return open_on(source, build(source))

    def facts(self) -> Mapping[str, Any]:
        return self._told

    def sensors(self) -> Sensors | None:
        return sensors_of(self.kind)


class EmulatedMachine:
    """The emulator as a GPU of a row.

    Args:
        gpu: the row; its matrix unit is what a bring-up is to find.

    Raises:
        DeviceError: the emulator does not know its instructions.
    """

    kind = "emulator"

    def __init__(self, gpu: Gpu):
        if not gpu.maker.checked.emulates(gpu.arch):
            raise DeviceError("--device emulator", "does not know the instructions of that GPU", got=gpu.arch,
                              remedy=f"another --gpu, or --device {gpu.maker.platform} where there is one")
        self._gpu, self.arch, self.name = gpu, gpu.arch, f"emulator of {gpu.title}"

    def open(self, fragment: Fragment) -> Device:
        text = source(fragment, self.arch)
        return UnplannedDevice(self._gpu, text, build(text))

    def kernels(self, source: Source) -> EmulatedKernels:
        return EmulatedKernels(self._gpu, build(source))

    def facts(self) -> Mapping[str, Any]:
        told = self._gpu.limits.model_dump() | self._gpu.rates.model_dump()
        known = ("sms", "l2_mib", "dram_gb_per_s", "boost_mhz", *type(self._gpu.limits).model_fields)
        return {"title": self.name, "arch": self.arch} | {name: told[name] for name in known}

    def sensors(self) -> None:
        return None


class EmulatedKernels:
    """What an emulated GPU takes and holds, by its row. Nothing runs: there is no clock, and whether a launch is refused takes none."""

    def __init__(self, gpu: Gpu, binary: Binary):
        self._limits, self._used = gpu.limits, binary.kernels

    def registers(self, symbol: str) -> int:
        return self._used[symbol].registers

    def takes(self, symbol: str, blocks: int, threads: int, shared_bytes: int = 0, cluster: int = 1, opt_in: bool = True) -> bool:
        """As `Kernels` says; a row says nothing of clusters."""
        limits, registers = self._limits, self._used[symbol].registers
        fits = registers <= limits.registers_per_thread and threads <= limits.threads_per_block and shared_bytes <= limits.shared_bytes_per_block
        return cluster == 1 and fits and self.resident(symbol, threads, shared_bytes) > 0

    def resident(self, symbol: str, threads: int, shared_bytes: int = 0) -> int:
        used = self._used[symbol]
        return occupancy(self._limits, threads, used.registers, used.static_shared_bytes + shared_bytes).blocks


def plain_source(template: str, arch: str, name: str, **values: Any) -> Source:
    """A text of any other kernels for a target.

    Args:
        template: under templates/bringup; `begins` in it makes how a kernel begins, `platform` is the vendor's words for the rest.
    """
    maker = vendor_of(arch)
    words = _PLATFORMS[maker.platform]
    begins = {kind: partial(_begins, words[kind]) for kind in ("kernel", "holding", "any")}
    text = render_text(f"bringup/{template}", platform={**words, "name": maker.platform}, begins=begins, **values)
    return Source(name=name, text=text, suffix=maker.files.source_suffix, interface=None, arch=arch, allow_spills=True)


def chain_forms(fragment: Fragment) -> tuple[tuple[int, int], tuple[int, int]]:
    """(chains, threads of a block) of the kernels that measure an instruction: one chain of one warp or warpgroup, and as many as keep an SM at work."""
    if fragment.from_shared:  # the unit works off a warpgroup's products one after another
        return (1, fragment.threads), (2, 2 * fragment.threads)
    return (1, fragment.threads), (max(2, min(8, 64 // fragment.c.register_count)), 512)


def varies(fragment: Fragment) -> bool:
    """Whether products of one kernel must differ: of an instruction that the target has not, a compiler makes others, and works out once what is the same."""
    return fragment.word_bytes == 1 and fragment.word not in INTEGERS and not fragment.from_shared


def multiply_source(fragment: Fragment, arch: str) -> Source:
    """The kernels that measure an instruction.

    Raises:
        SpecError: lanes hold none of its operands.
    """
    m, n, _ = fragment.shape
    return plain_source("multiply.j2", fragment.compiled_for(arch), f"bringup_{fragment.name}", fragment=fragment, header=fragment_header(fragment),
                        forms=chain_forms(fragment), varies=varies(fragment), registers=register_counts(fragment), m=m, n=n)


def _begins(words: str, **numbers: int) -> str:
    return 'extern "C" ' + words.format(**numbers)


def register_counts(fragment: Fragment) -> dict[str, int]:
    """Registers that a lane gives the instruction for each operand it holds; none of an operand in shared memory."""
    return {label: held.register_count for label in "abc" if (held := getattr(fragment, label))}


def source(fragment: Fragment, arch: str) -> Source:
    """The kernels of an instruction.

    Raises:
        SpecError: lanes hold none of its operands.
    """
    _, n, k = fragment.shape
    threads = fragment.threads
    platform = _PLATFORMS[fragment.maker.platform]
    platform = {**platform, "kernel": platform["kernel"].format(threads=threads)}
    text = render_text(
        "bringup.j2", header=fragment_header(fragment), fragment=fragment, threads=threads, n=n, k=k, platform=platform,
        registers=register_counts(fragment), names={"registers": REGISTERS, "loaded": LOADED}, value=_VALUE[sum_type(fragment.word)][0],
        loads=_loads(fragment) if loads_fragments(fragment) else None,
    )
    arch = fragment.compiled_for(arch)
    return Source(name="bringup", text=text, suffix=fragment.maker.files.source_suffix, interface=None, arch=arch, allow_spills=False)


def loads_fragments(fragment: Fragment) -> bool:
    """Whether a library's opaque type stands for it, which instructions load from memory."""
    return fragment.interface.library_fragment is not None


def _loads(fragment: Fragment) -> list[dict[str, str]]:
    shape = fragment.shape_name
    found = []
    for operand, name, kind in (("a", "left", "r"), ("b", "right", "r"), ("c", "sums", "f")):
        count = getattr(fragment, operand).register_count
        word = "f32" if operand == "c" else fragment.word
        listed = ", ".join(f"%{i}" for i in range(count))
        found.append({
            "text": f"wmma.load.{operand}.sync.aligned.row.{shape}.global.{word} {{{listed}}}, [%{count}], 16;",
            "outputs": ", ".join(f'"={kind}"({name}.r[{i}])' for i in range(count)), "memory": operand,
        })
    return found


@dataclass(frozen=True)
class Raw:
    """One instruction on a device.

    Attributes:
        fragment: which; of its maps only the numbers of registers are used.
        device: one that `source` of it was built for.
    """

    fragment: Fragment
    device: Device

    @property
    def sums(self) -> np.dtype:
        """Type of C and D."""
        return _VALUE[sum_type(self.fragment.word)][1]

    def shape(self, operand: str) -> tuple[int, ...]:
        """[threads, registers] of an operand; [k, n] words of one in shared memory."""
        _, n, k = self.fragment.shape
        counts = register_counts(self.fragment)
        return (self.fragment.threads, counts[operand]) if operand in counts else (k, n)

    def __call__(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """D of each tile.

        Args:
            a, b: [tiles, *shape], uint32 registers; words of an operand in shared memory.
            c: [tiles, threads, registers], `sums`.

        Returns:
            As c.
        """
        parts = [slice(at, at + MOST_TILES) for at in range(0, len(c), MOST_TILES)]
        return np.concatenate([self._launch(a[part], b[part], c[part]) for part in parts])

    def _launch(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        buffers = [self.device.upload(np.ascontiguousarray(x), name) for x, name in ((a, "a"), (b, "b"), (c, "c"))]
        buffers.append(self.device.empty(c.nbytes, "d"))
        self.device.launch(REGISTERS, len(c), self.fragment.threads, 0, [("pointer", buffer) for buffer in buffers])
        d = self.device.download(buffers[-1], c.dtype, c.size).reshape(c.shape)
        self.device.release()
        return d

    def loaded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The registers [threads, registers] of fragments loaded from matrices [16, 16] in memory, of a library's type."""
        arrays = [np.ascontiguousarray(x) for x in (a, b, c)]
        buffers = [self.device.upload(x, name) for x, name in zip(arrays, "abc")]
        shapes = [self.shape(operand) for operand in "abc"]
        buffers += [self.device.empty(4 * int(np.prod(shape)), f"of_{name}") for shape, name in zip(shapes, "abc")]
        self.device.launch(LOADED, 1, self.fragment.threads, 0, [("pointer", buffer) for buffer in buffers])
        kinds = (np.dtype(np.uint32), np.dtype(np.uint32), self.sums)
        found = [self.device.download(x, kind, int(np.prod(s))).reshape(s) for x, kind, s in zip(buffers[3:], kinds, shapes)]
        self.device.release()
        return tuple(found)


def split_registers(fragment: Fragment, registers: np.ndarray) -> np.ndarray:
    """[..., registers] uint32 as [..., registers, words in one], the lowest bits first."""
    return np.ascontiguousarray(registers).view(RAW[fragment.word])[..., None].reshape(*registers.shape, -1)


def joined_words(words: np.ndarray) -> np.ndarray:
    """The way back: [..., registers, words in one] as [..., registers] uint32."""
    return np.ascontiguousarray(words).view(np.uint32)[..., 0]
