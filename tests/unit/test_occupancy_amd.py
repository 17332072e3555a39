"""Occupancy of AMD's GPUs: against clang's own figures, LLVM's rule written down again, and BatchGEMM eqs. 5-9.

The table of clang's figures: python tests/unit/test_occupancy_amd.py > tests/data/occupancy_amd.csv
"""

from __future__ import annotations

import csv
import importlib.util
import re
import subprocess
import tempfile
from itertools import product
from math import ceil, floor
from pathlib import Path

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.model.resources import limit_numbers, occupancy, resident

AMD = [gpu for gpu in GPUS.rows() if gpu.vendor == "amd"]
ONE_OF_EACH_TARGET = list({gpu.arch: gpu for gpu in AMD}.values())
CASES = Path(__file__).resolve().parents[1] / "data" / "occupancy_amd.csv"
REGISTERS = (1, 24, 25, 32, 40, 41, 48, 64, 65, 72, 84, 85, 96, 97, 120, 128, 129, 168, 169, 192, 193, 240, 248, 256)
SHARED = tuple(5120 * n for n in (1, 2, 3, 4, 6, 8, 12, 20, 32))
"""Multiples of every granule of LDS, which the compiler's figure leaves out."""


# ---- the compiler: the wavefronts of a SIMD that it notes beside each kernel


def by_clang(arch: str, threads: int, cases: list[tuple[int, int]]) -> list[int]:
    """Wavefronts of a SIMD for (registers, shared bytes) of a kernel with so many threads a workgroup."""
    kernels = []
    for number, (registers, shared) in enumerate(cases):
        held = f'__attribute__((shared)) static char lds[{shared}]; asm volatile("" :: "v"((int)(__SIZE_TYPE__)&lds[0]));' if shared else ""
        kernels.append(
            f'extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size({threads}, {threads}))) '
            f'void kernel_{number}() {{ {held} asm volatile("" ::: "v{registers - 1}"); }}'
        )
    zig = Path(importlib.util.find_spec("ziglang").origin).parent / "zig"
    with tempfile.TemporaryDirectory() as folder:
        source, text = Path(folder) / "kernels.hip", Path(folder) / "kernels.s"
        source.write_text("\n".join(kernels))
        subprocess.run([
            str(zig), "clang", "-x", "hip", f"--offload-arch={arch}", "--cuda-device-only", "--no-gpu-bundle-output", "-nostdinc",
            "-nogpuinc", "-nogpulib", "-O3", "-S", str(source), "-o", str(text),
        ], check=True, capture_output=True)  # fmt: skip
        return [int(found) for found in re.findall(r"^; Occupancy: (\d+)$", text.read_text(), re.MULTILINE)]


def asked(arch: str) -> list[tuple[int, int]]:
    """Every count of registers, and every size of shared memory with few registers."""
    most = 163840 if arch == "gfx950" else 65536
    return [(registers, 0) for registers in REGISTERS] + [(24, shared) for shared in SHARED if shared <= most]


def in_a_simd(gpu, registers: int, shared: int) -> int:
    """Ours, of workgroups with one wavefront for each SIMD."""
    return occupancy(gpu.limits, 4 * gpu.limits.warp_size, registers, shared).warps // 4


def test_clangs_recorded_figures():
    with CASES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["arch"] for row in rows} == {gpu.arch for gpu in AMD} - {"gfx1151"}  # of which there are none
    assert len(rows) > 150 and len({row["wavefronts"] for row in rows}) > 10
    for row in rows:
        for gpu in AMD:
            if gpu.arch == row["arch"]:
                assert in_a_simd(gpu, int(row["registers"]), int(row["shared_bytes"])) == int(row["wavefronts"]), (gpu.name, row)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ONE_OF_EACH_TARGET, ids=lambda gpu: gpu.arch)
def test_clang_itself(gpu):
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no clang for AMD's targets: pip install ziglang; the recorded figures were compared")
    cases = asked(gpu.arch)
    assert [in_a_simd(gpu, *case) for case in cases] == by_clang(gpu.arch, 4 * gpu.limits.warp_size, cases)


# ---- LLVM's rule: getNumWavesPerEUWithNumVGPRs, getMaxWavesPerEU and getMaxWorkGroupsPerCU of AMDGPUBaseInfo.cpp.
# Wavefronts and registers of a SIMD, granule of registers, barriers, and KiB of LDS with its granule in bytes.

RULES = {
    "gfx908": (10, 256, 4, 16, 64, 512), "gfx90a": (8, 512, 8, 16, 64, 512), "gfx942": (8, 512, 8, 16, 64, 512),
    "gfx950": (8, 512, 8, 16, 160, 1280), **dict.fromkeys(("gfx1100", "gfx1101", "gfx1200", "gfx1201"), (16, 1536, 24, 32, 128, 1024)),
    "gfx1102": (16, 1024, 16, 32, 128, 1024), "gfx1151": (16, 1536, 24, 32, 128, 1024),
}


def by_llvm(arch: str, wavefronts: int, registers: int, shared: int) -> int:
    """Workgroups of a compute unit, or of a workgroup processor."""
    waves, total, granule, barriers, lds, lds_granule = RULES[arch]
    taken = granule * ceil(max(registers, 1) / granule)
    by_registers = 4 * min(waves, total // taken) // wavefronts
    by_barriers = 4 * waves if wavefronts == 1 else barriers
    by_shared = lds * 1024 // (lds_granule * ceil(shared / lds_granule)) if shared else by_registers
    return min(by_registers, by_barriers, by_shared)


@pytest.mark.slow
@pytest.mark.parametrize("gpu", AMD, ids=lambda gpu: gpu.name)
def test_llvms_rule_over_a_grid(gpu):
    limits = gpu.limits
    # The one thing left out: MI100 holds more lone wavefronts, which need no barrier, than the row lets in.
    wavefronts = range(2 if gpu.name == "mi100" else 1, 1024 // limits.warp_size + 1)
    cases = list(product(
        wavefronts, range(0, limits.registers_per_thread + 1, 3), range(0, limits.shared_bytes_per_block + 1, 2008),
    ))  # fmt: skip
    warps, registers, shared = map(np.array, zip(*cases))
    known = limit_numbers(limits) | {"threads": warps * limits.warp_size, "warps": warps, "registers": registers, "shared_bytes": shared}
    found = resident(known)["resident_blocks"]
    expected = np.array([by_llvm(gpu.arch, *case) for case in cases])
    assert (found == expected).all()
    assert len(np.unique(found)) > 10


def test_a_lone_wavefront_of_an_mi100_is_let_in_less_often_than_it_could_be():
    assert by_llvm("gfx908", 1, 24, 0) == 40 > occupancy(GPUS.get("mi100").limits, 64, 24, 0).blocks == 16


@pytest.mark.parametrize("gpu", AMD, ids=lambda gpu: gpu.name)
def test_what_no_block_may_take(gpu):
    limits = gpu.limits
    fits = (limits.threads_per_block // 4, limits.registers_per_thread, limits.shared_bytes_per_block)
    assert occupancy(limits, *fits).blocks >= 1
    unit = limits.register_allocation_unit // limits.warp_size
    assert occupancy(limits, limits.threads_per_block + 1, 8, 0).blocks == 0
    assert occupancy(limits, 256, limits.registers_per_thread + unit, 0).blocks == 0
    assert occupancy(limits, 256, 8, limits.shared_bytes_per_block + 1).blocks == 0


# ---- BatchGEMM eqs. 5 to 9, with its numbers of an MI210


@pytest.mark.slow
def test_batchgemms_wavefronts_of_an_mi210():
    """Its equations know no granularity, so the counts here are multiples of one, and workgroups are whole.

    Its 16 workgroups a CU bind only where each is a lone wavefront, which needs none of the 16
    barriers behind that number, and scalar registers (eq. 7) leave 7 of a SIMD's 8 wavefronts at least.
    """
    limits, compared, bound_by = GPUS.get("mi210").limits, 0, set()
    for threads, registers, shared in product(range(128, 1025, 64), range(8, 257, 8), range(512, 65537, 2048)):
        of_group = 16 * ceil(threads / 64)  # eq. 5
        by_registers = 4 * floor(32768 / (registers * 64))  # eq. 6
        by_shared = floor(65536 / shared) * ceil(threads / 64)  # eq. 8
        wavefronts = min(of_group, by_registers, by_shared, 32)  # eq. 9
        found = occupancy(limits, threads, registers, shared)
        assert found.blocks == wavefronts // ceil(threads / 64), (threads, registers, shared)
        compared, bound_by = compared + 1, bound_by | {found.limited_by}
    assert compared > 10_000 and bound_by == {"threads", "registers", "shared memory"}


def _print_table() -> None:
    print("arch,registers,shared_bytes,wavefronts")
    for gpu in ONE_OF_EACH_TARGET:
        cases = asked(gpu.arch)
        for (registers, shared), wavefronts in zip(cases, by_clang(gpu.arch, 4 * gpu.limits.warp_size, cases)):
            print(gpu.arch, registers, shared, wavefronts, sep=",")


if __name__ == "__main__":
    _print_table()
