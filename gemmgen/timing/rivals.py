"""Triton's own FP32 matrix products, to race against. The only importer of triton.

A plain kernel with pointers and tl.dot, whose `input_precision` says how FP32
operands reach the matrix unit. No `from __future__ import annotations`: Triton
reads the kernel's annotations.
"""

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from gemmgen import timing
from gemmgen.errors import DeviceError

GROUP = 8  # block rows of C that are worked on together, for L2
TUNED_EXTENT = 8192  # configurations are compared on at most this much of each dimension


class Config(NamedTuple):
    """What the tuner chooses from."""

    block_m: int
    block_n: int
    block_k: int
    warps: int
    stages: int

    @property
    def label(self) -> str:
        return f"{self.block_m}x{self.block_n}x{self.block_k}, {self.warps} warps, {self.stages} stages"


CONFIGS = (
    Config(64, 64, 32, 4, 4), Config(64, 128, 32, 4, 4), Config(128, 64, 32, 4, 4), Config(128, 128, 32, 4, 3),
    Config(128, 128, 32, 8, 3), Config(128, 128, 64, 8, 2), Config(128, 256, 32, 8, 3), Config(256, 128, 32, 8, 3),
)


@triton.jit
def _matmul(
    a, b, c, m, n, k,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    PRECISION: tl.constexpr, EVEN: tl.constexpr,
):
    """C [m, n] = A [m, k] B [k, n], row major, FP32. EVEN: the blocks cover all three extents exactly."""
    tile = tl.program_id(0)
    across = tl.cdiv(n, BLOCK_N)
    band = GROUP_M * across
    first = tile // band * GROUP_M
    height = min(tl.cdiv(m, BLOCK_M) - first, GROUP_M)
    rows = (first + tile % band % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tile % band // height * BLOCK_N + tl.arange(0, BLOCK_N)
    summed = tl.arange(0, BLOCK_K)
    at_a = a + rows.to(tl.int64)[:, None] * k + summed[None, :]
    at_b = b + summed.to(tl.int64)[:, None] * n + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for done in range(0, k, BLOCK_K):
        if EVEN:
            left = tl.load(at_a)
            right = tl.load(at_b)
        else:
            left = tl.load(at_a, mask=(rows[:, None] < m) & (summed[None, :] < k - done), other=0.0)
            right = tl.load(at_b, mask=(summed[:, None] < k - done) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision=PRECISION)
        at_a += BLOCK_K
        at_b += BLOCK_K * n
    at_c = c + rows.to(tl.int64)[:, None] * n + columns[None, :]
    if EVEN:
        tl.store(at_c, total)
    else:
        tl.store(at_c, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def _launch(a: Any, b: Any, c: Any, size: tuple[int, int, int], precision: str, config: Config) -> None:
    m, n, k = size
    even = all(extent % block == 0 for extent, block in zip(size, config))
    blocks = triton.cdiv(m, config.block_m) * triton.cdiv(n, config.block_n)
    _matmul[(blocks,)](
        a, b, c, m, n, k, BLOCK_M=config.block_m, BLOCK_N=config.block_n, BLOCK_K=config.block_k, GROUP_M=GROUP,
        PRECISION=precision, EVEN=even, num_warps=config.warps, num_stages=config.stages,
    )


# ---- compiling ahead, in processes of their own: Triton keeps what it compiled on disk


Job = tuple[str, Config, tuple[int, int, int]]


def jobs_for(precisions: Sequence[str], sizes: Sequence[tuple[int, int, int]]) -> list[Job]:
    """One small product for each variant that Triton would compile: it looks at divisibility by 16, and so does EVEN."""
    jobs = {}
    for precision in precisions:
        for config in CONFIGS:
            for size in sizes:
                stand_in = tuple(_stand_in(extent, block) for extent, block in zip(size, config))
                jobs[precision, config, stand_in] = None
    return list(jobs)


def _stand_in(extent: int, block: int) -> int:
    """A small extent that the same compiled kernel serves."""
    return 256 if extent % block == 0 else 272 if extent % 16 == 0 else 257


def _compiled(job: Job) -> str:
    """Compile by running; what went wrong, or nothing. Runs in a worker process."""
    precision, config, (m, n, k) = job
    try:
        a, b, c = (torch.zeros(shape, device="cuda") for shape in ((m, k), (k, n), (m, n)))
        _launch(a, b, c, (m, n, k), precision, config)
        torch.cuda.synchronize()
    except Exception as error:  # Triton's compiler raises what it likes; the tuner meets it again and passes on
        return f"{precision}, {config.label}: {str(error).splitlines()[0][:200] if str(error) else type(error).__name__}"
    return ""


def compile_all(precisions: Sequence[str], sizes: Sequence[tuple[int, int, int]]) -> list[str]:
    """Fill Triton's cache for all configurations, side by side; what did not compile."""
    jobs = jobs_for(precisions, sizes)
    workers = min(12, os.cpu_count() or 1, len(jobs))
    try:
        # This process holds a CUDA context, which a forked child could not use.
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            return [told for told in pool.map(_compiled, jobs) if told]
    except BrokenProcessPool as error:
        return [f"compiling side by side failed, the tuner compiles instead: {error}"]


# ---- the contender


def triton_matmul(name: str, precision: str, inputs: timing.Inputs) -> timing.Contender:
    """Triton's kernel with the configuration that is fastest at this size.

    Raises:
        DeviceError: none of them runs.
    """
    import cupy

    sets = [
        tuple(torch.as_tensor(array, device="cuda") for array in arrays) for arrays in zip(inputs.a, inputs.b, inputs.c)
    ]

    def enqueued(config: Config, size: tuple[int, int, int]) -> Any:
        def enqueue(index: int) -> None:
            stream = cupy.cuda.get_current_stream().ptr
            here = torch.cuda.ExternalStream(stream) if stream else torch.cuda.default_stream()
            with torch.cuda.stream(here):
                _launch(*sets[index % len(sets)], size, precision, config)

        return enqueue

    cupy.cuda.Device().synchronize()  # the inputs were made on another stream
    part = tuple(min(extent, TUNED_EXTENT) for extent in inputs.size)  # the operands' memory read as smaller matrices
    times, refused = {}, ""
    for config in CONFIGS:
        try:
            times[config] = timing.estimate(enqueued(config, part))
        except Exception as error:  # as above: too much shared memory, a precision it does not know
            refused = str(error).splitlines()[0] if str(error) else type(error).__name__
    if not times:
        raise DeviceError(name, "Triton runs none of its configurations", got=refused, needs=f"a Triton with {precision}",
                          remedy="a newer Triton, or leave it out of --against")
    best = min(times, key=times.__getitem__)
    return timing.Contender(name, enqueued(best, inputs.size), outputs=inputs.c, detail=f"{best.label}, Triton {triton.__version__}")
