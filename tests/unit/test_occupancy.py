"""Occupancy against NVIDIA's own rule, cuda_occupancy.h: a table made with it, and the header itself.

The table: python tests/unit/test_occupancy.py > tests/data/occupancy_cases.csv
"""

from __future__ import annotations

import csv
import importlib.util
import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.model.resources import limit_numbers, occupancy, resident

NVIDIA = [gpu for gpu in GPUS.rows() if gpu.vendor == "nvidia"]
CASES = Path(__file__).resolve().parents[1] / "data" / "occupancy_cases.csv"

HARNESS = r"""
#include <cstdio>
#include "cuda_occupancy.h"
int main() {
    cudaOccDeviceProp device;
    int threads, registers;
    unsigned long shared, optin, reserved, per_sm;
    while (scanf("%d %d %d %d %d %lu %lu %lu %d %d %lu", &device.computeMajor, &device.computeMinor,
                 &device.maxThreadsPerBlock, &device.maxThreadsPerMultiprocessor, &device.regsPerMultiprocessor,
                 &per_sm, &optin, &reserved, &threads, &registers, &shared) == 11) {
        device.regsPerBlock = device.regsPerMultiprocessor;  // as cudaGetDeviceProperties says on all of them
        device.warpSize = 32, device.numSms = 1;
        device.sharedMemPerBlock = 48 * 1024, device.sharedMemPerMultiprocessor = per_sm;
        device.sharedMemPerBlockOptin = optin, device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes kernel;
        kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers, kernel.numBlockBarriers = 1;
        kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, kernel.maxDynamicSharedSizeBytes = optin;
        cudaOccDeviceState state;
        cudaOccResult result;
        int status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, threads, shared);
        printf("%d\n", status == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -status);
    }
}
"""


def header() -> Path | None:
    """cuda_occupancy.h of the nvidia-cuda-runtime wheel."""
    found = importlib.util.find_spec("nvidia")
    folders = found.submodule_search_locations if found else []
    return next((path for folder in folders for path in sorted(Path(folder).glob("*/include/cuda_occupancy.h"))), None)


def random_cases(count: int, seed: int) -> list[tuple[Gpu, int, int, int]]:
    """(GPU, threads, registers, shared bytes), with more than chance at what lies on the edges."""
    draw, gpus = random.Random(seed), NVIDIA

    def one() -> tuple[Gpu, int, int, int]:
        gpu = draw.choice(gpus)
        most = gpu.limits.shared_bytes_per_block
        threads = draw.choice([draw.randint(1, 1100), 32 * draw.randint(1, 33), 2 ** draw.randint(5, 10)])
        registers = draw.choice([draw.randint(0, 260), 8 * draw.randint(1, 32), draw.choice([0, 24, 32, 64, 128, 168, 255, 256, 257])])
        shared = draw.choice([
            0, draw.randint(0, most + 2048), 1024 * draw.randint(0, most // 1024 + 1), draw.randint(0, 8192),
            max(0, most // draw.randint(1, 8) - draw.choice([0, 1, 128, 1024])),
        ])
        return gpu, threads, registers, shared

    return [one() for _ in range(count)]


def by_the_header(cases: list[tuple[Gpu, int, int, int]], include: Path) -> list[int]:
    lines = []
    for gpu, threads, registers, shared in cases:
        limits = gpu.limits
        lines.append(" ".join(map(str, (
            *divmod(gpu.arch_number, 10), limits.threads_per_block, limits.threads_per_sm, limits.registers_per_sm,
            limits.shared_bytes_per_sm, limits.shared_bytes_per_block, limits.shared_bytes_reserved_per_block,
            threads, registers, shared,
        ))))
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "occupancy.cpp", Path(folder) / "occupancy"
        source.write_text(HARNESS)
        subprocess.run(["g++", "-w", f"-I{include}", str(source), "-o", str(program)], check=True)
        done = subprocess.run([str(program)], input="\n".join(lines), capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]


def ours(case: tuple[Gpu, int, int, int]) -> int:
    gpu, threads, registers, shared = case
    return occupancy(gpu.limits, threads, registers, shared).blocks


def test_the_recorded_cases():
    with CASES.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 500 and len({int(row["blocks"]) for row in rows}) > 10
    for row in rows:
        case = (GPUS.get(row["gpu"]), int(row["threads"]), int(row["registers"]), int(row["shared_bytes"]))
        assert ours(case) == int(row["blocks"]), row


def test_ten_thousand_random_cases_against_the_header_itself():
    path = header()
    if path is None:
        pytest.skip("no cuda_occupancy.h: pip install nvidia-cuda-runtime")
    if shutil.which("g++") is None:
        pytest.skip("no g++ to compile cuda_occupancy.h with; the recorded cases were compared")
    cases = random_cases(10_000, seed=1)
    expected = np.array(by_the_header(cases, path.parent))
    found = np.empty_like(expected)
    for gpu in NVIDIA:
        at = [i for i, case in enumerate(cases) if case[0] is gpu]
        found[at] = in_columns(gpu, [cases[i][1:] for i in at])
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), f"{len(wrong)} differ; the first: {cases[wrong[0]]}: {found[wrong[0]]}, not {expected[wrong[0]]}"


def in_columns(gpu: Gpu, cases: list[tuple[int, int, int]]) -> np.ndarray:
    threads, registers, shared = map(np.array, zip(*cases))
    return resident(limit_numbers(gpu.limits) | {
        "threads": threads, "registers": registers, "shared_bytes": shared, "warps": -(-threads // 32),
    })["resident_blocks"]


def test_columns_give_what_single_kernels_give():
    gpu = GPUS.get("a100")
    cases = [case[1:] for case in random_cases(300, seed=2)]
    assert list(in_columns(gpu, cases)) == [ours((gpu, *case)) for case in cases]


def _print_table() -> None:
    cases = random_cases(500, seed=0)
    print("gpu,threads,registers,shared_bytes,blocks")
    for (gpu, *numbers), blocks in zip(cases, by_the_header(cases, header().parent)):
        print(gpu.name, *numbers, blocks, sep=",")


if __name__ == "__main__":
    _print_table()
