"""What a compile target determines of every GPU that has it: how much fits an SM, and two of its rates.

A row of specs/gpus tells these only where it knows better. In its words (`Limits` and `Rates` of gemmgen/catalog/gpu.py) a wavefront
is a warp, a compute unit of CDNA, and a workgroup processor of RDNA, is an SM, and LDS is shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Architecture:
    """One compile target.

    Attributes:
        name: `sm_87`.
        source: the documents that tell.
        limits: `[limits]` of a row, all that have no default.
        rates: of `[rates]` those that a target determines.
        cores: what data sheets count as CUDA cores or stream processors, of one SM.
        units: how many compute units, as data sheets count them, make one SM.
    """

    name: str
    source: str
    limits: Mapping[str, int]
    rates: Mapping[str, int]
    cores: int
    units: int


_CUDA = (
    "CUDA C++ Programming Guide, technical specifications per compute capability and throughput of arithmetic instructions, and the same in libcu++'s"
    " cuda/__device/arch_traits.h; the CUDA occupancy calculator's granularities"
)
_CDNA = (
    "LLVM's AMDGPU back end: registers, wavefronts, barriers and LDS of the target; AMD's CDNA architecture whitepapers: FP32 and LDS bytes a clock"
)
_RDNA = (
    "LLVM's AMDGPU back end: registers, wavefronts and LDS of the target; AMD RDNA architecture whitepaper: two halves of 32 banks; Mesa's ac_gpu_info.c:"
    " the granularity of LDS"
)


def _capability(name: str, threads: int, blocks: int, shared_kib: int, fma: int, shared_bytes_per_clock: int = 128) -> Architecture:
    """One of NVIDIA's.

    Args:
        threads, blocks: resident on an SM, at most.
        shared_kib: of an SM, KiB. From sm_80 on the system takes 1 KiB of each block, and a block may have the rest.
        fma: FP32 multiply-adds of an SM in a clock.
    """
    reserved = KIB if int(name[3:]) >= 80 else 0
    limits = {
        "warp_size": 32, "threads_per_block": 1024, "threads_per_sm": threads, "blocks_per_sm": blocks,
        "registers_per_sm": 65536, "registers_per_thread": 255, "register_allocation_unit": 256,
        "shared_bytes_per_sm": shared_kib * KIB, "shared_bytes_per_block": shared_kib * KIB - reserved,
        "shared_bytes_reserved_per_block": reserved, "shared_allocation_unit": 128 if reserved else 256, "shared_banks": 32,
    }
    return Architecture(name, _CUDA, limits, {"f32_fma_per_clock": fma, "shared_bytes_per_clock": shared_bytes_per_clock}, fma, 1)


def _target(
    name: str, lanes: int, waves: int, registers: int, most: int, granule: int, lds_kib: int, block_kib: int, unit: int, fma: int, shared_bytes_per_clock: int,
    *, blocks: int = 0, banks: int = 32,
) -> Architecture:
    """One of AMD's. An SM has four SIMDs.

    Args:
        lanes: of a wavefront; 32 of RDNA, whose SM are two compute units that a workgroup may share.
        waves: wavefronts of a SIMD.
        registers: of a lane of a SIMD; most: of those that one wavefront may have; granule: it gets multiples of this.
        lds_kib, block_kib: of an SM and of a workgroup, KiB; unit: a workgroup gets multiples of this, bytes.
        fma, shared_bytes_per_clock: of an SM in a clock.
        blocks: workgroups of an SM; by default one for each wavefront, for which its barriers are enough.
    """
    limits = {
        "warp_size": lanes, "threads_per_block": 1024, "threads_per_sm": 4 * waves * lanes, "blocks_per_sm": blocks or 4 * waves,
        "registers_per_sm": 4 * registers * lanes, "registers_per_thread": most, "register_allocation_unit": granule * lanes,
        "shared_bytes_per_sm": lds_kib * KIB, "shared_bytes_per_block": block_kib * KIB, "shared_bytes_reserved_per_block": 0,
        "shared_allocation_unit": unit, "shared_banks": banks,
    }
    units = 2 if lanes == 32 else 1
    source = _RDNA if lanes == 32 else _CDNA
    return Architecture(name, source, limits, {"f32_fma_per_clock": fma, "shared_bytes_per_clock": shared_bytes_per_clock}, 64 * units, units)


def _rdna(name: str, registers: int, granule: int) -> Architecture:
    """One of RDNA 3 or 4: those with half as many registers again get them in units half as large again. Two FP32 multiply-adds are one instruction."""
    return _target(name, 32, 16, registers, 256, granule, 128, 64, 1024, 256, 256)


ARCHITECTURES: dict[str, Architecture] = {row.name: row for row in (
    _capability("sm_70", 2048, 32, 96, 64),
    _capability("sm_75", 1024, 16, 64, 64, 64),  # uncertain: 64 B a clock by an SM's 16 load/store units; by its 32 banks it would be 128
    _capability("sm_80", 2048, 32, 164, 64),
    _capability("sm_86", 1536, 16, 100, 128),
    _capability("sm_87", 1536, 16, 164, 128),
    _capability("sm_88", 1536, 16, 100, 128),
    _capability("sm_89", 1536, 24, 100, 128),
    _capability("sm_90", 2048, 32, 228, 128),
    _capability("sm_100", 2048, 32, 228, 128),
    _capability("sm_103", 2048, 32, 228, 128),
    _capability("sm_110", 1536, 24, 228, 128),
    _capability("sm_120", 1536, 24, 100, 128),
    _capability("sm_121", 1536, 24, 100, 128),
    # Architectural and accumulation registers lie in two files of this size, side by side: a thread's registers are the larger of
    # its two counts, which is the number that the compiler reports. A compute unit has 16 barriers, which bind before 40 wavefronts
    # do; a lone wavefront, which needs none, could be there 40 times.
    _target("gfx908", 64, 10, 256, 256, 4, 64, 64, 512, 64, 128, blocks=16),
    # From here on both kinds share one file, 256 of each kind for a thread; 16 barriers are enough for workgroups of two wavefronts.
    _target("gfx90a", 64, 8, 512, 512, 8, 64, 64, 512, 64, 128),
    _target("gfx942", 64, 8, 512, 512, 8, 64, 64, 512, 128, 128),  # two multiply-adds to an instruction
    # Assumed: 256 B of LDS a clock, since AMD calls its read bandwidth twice CDNA 3's.
    _target("gfx950", 64, 8, 512, 512, 8, 160, 160, 1280, 128, 256, banks=64),
    *(_rdna(name, 1536, 24) for name in ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201")),  # for RDNA 4 the bytes a clock are assumed
    *(_rdna(name, 1024, 16) for name in ("gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153")),
)}
"""By compile target; where one is not named, nobody has looked it up."""


def architecture(arch: str) -> Architecture | None:
    """What a compile target determines; `sm_90a` has what `sm_90` has. None where the table does not know it."""
    return ARCHITECTURES.get(arch.rstrip("af") if arch.startswith("sm_") else arch)
