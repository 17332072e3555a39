"""Vendors: what NVIDIA's and AMD's toolchains, targets and habits are, a row each.

A file elsewhere asks a row for a fact and never compares a vendor's name: another vendor is another row,
and what it has of its own are the templates and modules that its row names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Files:
    """How a vendor's sources and machine code are called.

    Attributes:
        source_suffix: of generated kernels; header_suffix: of a fragment's header.
        header_template: of that header.
        code_suffixes: (of the compiler's assembly, of machine code).
        code: its machine code in a sentence; code_of: the same in a list of files, with the target as `{arch}`.
        code_per_arch: whether files of machine code always tell their target; else only where there are several.
        register_kinds: resources of a kernel that its machine code tells besides those that all tell.
    """

    source_suffix: str
    header_suffix: str
    header_template: str
    code_suffixes: tuple[str, str]
    code: str
    code_of: str
    code_per_arch: bool
    register_kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checked:
    """How kernels of a vendor are checked.

    Attributes:
        timed: whether kernels are timed beside other libraries'.
        recorded: whether a run leaves a record, and reports tell how far kernels have been checked: none was ever run here.
        emulator: the package of `gemmgen` that executes the compiler's assembly, and its class.
        emulated: targets whose instructions it knows; None for all.
        orders_memory: whether the emulator models the order in which copies land, so that what it leaves out is worth telling.
        standing: how far kernels have been checked where none has ever run, with what emulation adds as `{emulated}`.
    """

    timed: bool
    recorded: bool
    emulator: tuple[str, str]
    emulated: tuple[str, ...] | None
    orders_memory: bool
    standing: str | None

    def emulates(self, arch: str) -> bool:
        """Whether the emulator knows the instructions of a target."""
        return self.emulated is None or arch in self.emulated

    def standing_of(self, arch: str) -> str | None:
        """How far kernels for a target have been checked, where none has ever run; None where some have."""
        emulated = "every instruction executed by an interpreter, layouts checked" if self.emulates(arch) else "not emulated"
        return self.standing and self.standing.format(emulated=emulated)


@dataclass(frozen=True)
class Frameworks:
    """What frameworks call a vendor's devices.

    Attributes:
        dlpack_type: the number in DLPack.
        torch_device, xla_platform: the names in torch and XLA.
        wheel_suffix: what the name of a library's wheel ends with, with the compiler's major version as `{major}`.
    """

    dlpack_type: int
    torch_device: str
    xla_platform: str
    wheel_suffix: str = ""


@dataclass(frozen=True)
class Vendor:
    """One vendor.

    Attributes:
        name: as GPU rows, fragments and specs write it.
        owner: as sentences write it.
        arch_prefix: how its compile targets begin; arch_pattern: a regular expression for all of one.
        api: the programming interface's name.
        platform: the word that names its templates under `templates/platform` and `templates/export/platform`, its driver
            in `gemmgen/run` and its kind of device.
        warp: what it calls threads that go in step.
        warp_sizes: threads of one, by the first `arch_number` that has so many.
        most_registers: of a thread, as its instructions can name them; None where a GPU's own row is all there is to say.
        shared_banks: how many banks shared memory may have.
        first_async: the first `arch_number` that copies from global to shared memory past the registers; None where none does.
        portable_policies: by threads of a warp, the policy that the portable design's kernels use on its matrix units.
        preferred_policies: those that a search tries before the portable one, where a GPU has them.
        lists_targets: whether a fragment lists its targets and names a builtin; else it tells the first target that has it.
        multiplies_integers: whether its fragments have sums of two types.
        tiles_held: whether tiles reach shared memory through registers alone, in rings of as many stages as one likes.
        hoists_fetches: whether the compiler may begin an unrolled stage with all of its fetches.
        static_shared: whether kernels declare their shared memory with its size, so that the compiler counts it.
        most_blocks, most_threads: of one launch; None where that does not bind.
        files, checked, frameworks: what is about these.
    """

    name: str
    owner: str
    arch_prefix: str
    arch_pattern: str
    api: str
    platform: str
    warp: str
    warp_sizes: tuple[tuple[int, int], ...]
    most_registers: int | None
    shared_banks: tuple[int, ...]
    first_async: int | None
    portable_policies: Mapping[int, str]
    preferred_policies: tuple[str, ...]
    lists_targets: bool
    multiplies_integers: bool
    tiles_held: bool
    hoists_fetches: bool
    static_shared: bool
    most_blocks: int | None
    most_threads: int | None
    files: Files
    checked: Checked
    frameworks: Frameworks

    def warp_size(self, arch_number: int) -> int:
        """Threads of a warp."""
        return next(size for first, size in reversed(self.warp_sizes) if arch_number >= first)

    def largest_grid(self, threads: int) -> tuple[int, str]:
        """Blocks of so many threads that a launch may have, and the limit behind that in words."""
        if self.most_threads is not None:
            return self.most_threads // threads, f"2^{(self.most_threads + 1).bit_length() - 1} - 1 threads"
        return self.most_blocks, f"2^{(self.most_blocks + 1).bit_length() - 1} - 1 blocks"


VENDORS: dict[str, Vendor] = {row.name: row for row in (
    Vendor(
        name="nvidia", owner="NVIDIA", arch_prefix="sm_", arch_pattern="sm_[0-9]{2,3}[af]?", api="CUDA", platform="cuda",
        warp="warp", warp_sizes=((0, 32),), most_registers=255, shared_banks=(32,), first_async=80,
        portable_policies={32: "mma"}, preferred_policies=("wgmma", "tcgen05"),
        lists_targets=False, multiplies_integers=False, tiles_held=False, hoists_fetches=False, static_shared=False,
        most_blocks=2**31 - 1, most_threads=None,
        files=Files(
            ".cu", ".cuh", "fragment_header.j2", (".ptx", ".cubin"), code="the cubin",
            code_of="the kernels' machine code for {arch}, for the driver API", code_per_arch=False,
        ),
        checked=Checked(timed=True, recorded=False, emulator=("gemmgen.emulate", "Emulator"), emulated=None, orders_memory=True, standing=None),
        frameworks=Frameworks(dlpack_type=2, torch_device="cuda", xla_platform="CUDA", wheel_suffix="-cu{major}"),
    ),
    Vendor(
        name="amd", owner="AMD", arch_prefix="gfx", arch_pattern="gfx[0-9a-f]{3,4}", api="HIP", platform="hip",
        warp="wavefront", warp_sizes=((0, 64), (0x1000, 32)),  # CDNA, and RDNA from gfx10 on
        most_registers=None, shared_banks=(32, 64), first_async=None,
        portable_policies={64: "mfma", 32: "wmma"}, preferred_policies=(),
        lists_targets=True, multiplies_integers=True, tiles_held=True, hoists_fetches=True, static_shared=True,
        most_blocks=None, most_threads=2**32 - 1,
        files=Files(
            ".hip", ".hip.hpp", "fragment_header_hip.j2", (".s", ".co"), code="a code object",
            code_of="the kernels' code object for {arch}, for hipModuleLoad", code_per_arch=True, register_kinds=("agprs", "sgprs"),
        ),
        checked=Checked(
            timed=False, recorded=True, emulator=("gemmgen.emulate.amdgpu", "AmdEmulator"),
            emulated=("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1102", "gfx1151", "gfx1200", "gfx1201"), orders_memory=False,
            standing="compiled by clang, resources read from the code object, {emulated}; never run on AMD hardware",
        ),
        frameworks=Frameworks(dlpack_type=10, torch_device="cuda", xla_platform="ROCM"),
    ),
)}


def vendor_of(arch: str) -> Vendor:
    """Whose compile target `arch` is.

    Raises:
        KeyError: nobody's.
    """
    for row in VENDORS.values():
        if arch.startswith(row.arch_prefix):
            return row
    raise KeyError(arch)
