"""Timing on a CUDA GPU: generated kernels and cuBLAS, interleaved, from CUDA graphs.

The chip is limited by power and its clock moves with what ran before, so only
figures taken side by side compare: in every round each contender runs for a
slice of time, the order turning from round to round. Inputs rotate so that the
cache does not serve the same matrices, and are random, since zeros draw less
power and run faster.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.errors import DeviceError
from gemmgen.plan import STATUS, Plan
from gemmgen.render import Source, param_type
from gemmgen.run.cuda import CudaDevice

CUBLAS = {  # name: (input type, compute type) of cublasGemmEx
    "cuBLAS SGEMM": ("float32", 68),  # CUBLAS_COMPUTE_32F
    "cuBLAS TF32": ("float32", 77),  # CUBLAS_COMPUTE_32F_FAST_TF32
    "cuBLAS FP16": ("float16", 68),
}


@dataclass
class Contender:
    """Something to time.

    Attributes:
        name: as the table says it.
        enqueue: puts the product of input set `index` on the current stream.
        layout: how it reads the operands' memory.
        seconds: one figure a round, of one product.
    """

    name: str
    enqueue: Callable[[int], None]
    layout: str = "nn"
    seconds: list[float] = field(default_factory=list)


class Inputs:
    """Rotating input sets on the GPU for one size: FP32, and FP16 for the rivals that take it.

    Args:
        size: (m, n, k).
        low, high: uniform data between them.
        sets: how many; enough that together they exceed L2 several times, at most 8.
    """

    def __init__(self, size: tuple[int, int, int], low: float = -1.0, high: float = 1.0, l2_bytes: int = 50 << 20):
        import cupy

        m, n, k = size
        self.size = size
        one = 4 * (m * k + k * n + m * n)
        self.sets = max(2, min(8, -(-4 * l2_bytes // max(one, 1))))
        draw = cupy.random.default_rng(0)
        # Drawn in FP64 and rounded: FP32 generators leave a 2^-23 grid that flatters a split.
        self.a = [self._uniform(draw, (m, k), low, high) for _ in range(self.sets)]
        self.b = [self._uniform(draw, (k, n), low, high) for _ in range(self.sets)]
        self.c = [cupy.empty((m, n), cupy.float32) for _ in range(self.sets)]
        self._half: list[tuple[Any, Any]] | None = None

    @staticmethod
    def _uniform(draw: Any, shape: tuple[int, int], low: float, high: float) -> Any:
        return (low + (high - low) * draw.random(shape)).astype(np.float32)

    @property
    def half(self) -> list[tuple[Any, Any]]:
        if self._half is None:
            self._half = [(a.astype(np.float16), b.astype(np.float16)) for a, b in zip(self.a, self.b)]
        return self._half


def generated(name: str, plan: Plan, source: Source, binary: Binary, inputs: Inputs) -> Contender:
    """A generated kernel with its split pass: all launches of the Source."""
    import cupy

    m, n, k = inputs.size
    device = CudaDevice(binary)
    work = plan.workspace(m, n, k)
    a_words, b_words = plan.words_bytes(m, n, k)
    zeroed = cupy.zeros(max(work.zeroed, 1), cupy.uint8)
    values: dict[str, Any] = {
        "lda": k if plan.layout[0] == "n" else m, "ldb": n if plan.layout[1] == "n" else k, "ldc": n,
        "alpha": 1.0, "beta": 0.0, **plan.extents(m, n, k),
        "a_words": cupy.empty(a_words, cupy.uint8), "b_words": cupy.empty(b_words, cupy.uint8),
        "a_absmax": zeroed[work.a_absmax :], "b_absmax": zeroed[work.b_absmax :],
        "arrived": zeroed[work.arrived :], "parts": cupy.empty(work.bytes - work.parts, cupy.uint8),
    }
    offset = 0
    for counter, fields in STATUS.items():
        values[counter] = zeroed[offset:]
        offset += 8 * len(fields)
    # The data are random, so storing A as A^T needs other numbers, not a transposition.
    launches = []
    for index in range(inputs.sets):
        values |= {"a": inputs.a[index], "b": inputs.b[index], "c": inputs.c[index]}
        launches.append([
            device.prepared(
                launch.symbol, launch.blocks(values), launch.threads, launch.shared_bytes,
                [(param_type(p), values[p]) for p in launch.params], launch.overlaps,
            )
            for launch in source.launches if launch.blocks(values)
        ])

    def enqueue(index: int) -> None:
        if work.arrived > work.a_absmax:  # schemes that normalise accumulate maxima from zero
            zeroed.fill(0)
        for launch in launches[index % inputs.sets]:
            launch()

    return Contender(name, enqueue, plan.layout)


def _cublas_library() -> ctypes.CDLL:
    """The cuBLAS that cupy has loaded; called directly, since cupy's own wrapper refuses stream capture."""
    for version in (13, 12):
        try:
            return ctypes.CDLL(f"libcublas.so.{version}")
        except OSError:
            continue
    raise DeviceError("bench", "cuBLAS cannot be found", remedy="pip install nvidia-cublas")


def cublas(name: str, inputs: Inputs) -> Contender:
    """One of CUBLAS: row-major C = A B as column-major C^T = B^T A^T.

    Raises:
        DeviceError: cuBLAS is absent or refuses.
    """
    import cupy
    from cupy.cuda import device as cupy_device

    dtype, compute = CUBLAS[name]
    handle = ctypes.c_void_p(cupy_device.get_cublas_handle())
    library = _cublas_library()
    m, n, k = inputs.size
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    pairs = inputs.half if dtype == "float16" else list(zip(inputs.a, inputs.b))
    kind = {"float32": 0, "float16": 2}[dtype]  # cudaDataType: CUDA_R_32F, CUDA_R_16F
    default_algorithm = -1

    def enqueue(index: int) -> None:
        a, b = pairs[index % inputs.sets]
        c = inputs.c[index % inputs.sets]
        stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
        status = library.cublasSetStream_v2(handle, stream) or library.cublasGemmEx(
            handle, 0, 0, n, m, k, ctypes.byref(one), ctypes.c_void_p(b.data.ptr), kind, n,
            ctypes.c_void_p(a.data.ptr), kind, k, ctypes.byref(zero), ctypes.c_void_p(c.data.ptr), 0, n,
            compute, default_algorithm,
        )
        if status:
            raise DeviceError("bench", f"{name} failed", got=f"cublasStatus {status}")

    return Contender(name, enqueue)


def race(contenders: Sequence[Contender], *, rounds: int, slice_ms: float) -> None:
    """Time all of them, `rounds` times each for about `slice_ms`, turning the order.

    Raises:
        DeviceError: a launch failed.
    """
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    prepared = []
    try:
        with stream:
            for contender in contenders:
                for index in range(3):
                    contender.enqueue(index)
                repeats = _repeats(contender, stream, start, stop, slice_ms)
                stream.begin_capture()
                for index in range(repeats):
                    contender.enqueue(index)
                prepared.append((contender, stream.end_capture(), repeats))
            for turn in range(rounds + 1):
                at = turn % len(prepared)
                for contender, graph, repeats in prepared[at:] + prepared[:at]:
                    start.record(stream)
                    graph.launch(stream)
                    stop.record(stream)
                    stop.synchronize()
                    if turn:  # the first round warms up
                        contender.seconds.append(cupy.cuda.get_elapsed_time(start, stop) / 1e3 / repeats)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError("bench", "the GPU refused", got=str(error), remedy="smaller sizes") from error


def _repeats(contender: Contender, stream: Any, start: Any, stop: Any, slice_ms: float) -> int:
    """How many products fill a slice: measured, after the warm-up."""
    import cupy

    start.record(stream)
    for index in range(4):
        contender.enqueue(index)
    stop.record(stream)
    stop.synchronize()
    one = max(cupy.cuda.get_elapsed_time(start, stop) / 4, 1e-3)
    return int(max(4, min(200, slice_ms / one)))


def error_of(contender: Contender, inputs: Inputs) -> float:
    """||C - C*||_F / ||C*||_F of the first input set, against an FP64 product on the GPU."""
    import cupy

    inputs.c[0].fill(cupy.nan)
    contender.enqueue(0)
    m, n, k = inputs.size
    a, b = inputs.a[0].astype(cupy.float64), inputs.b[0].astype(cupy.float64)
    a = a if contender.layout[0] == "n" else a.reshape(k, m).T
    b = b if contender.layout[1] == "n" else b.reshape(n, k).T
    exact = a @ b
    difference = cupy.linalg.norm(inputs.c[0].astype(cupy.float64) - exact)
    return float(difference / cupy.linalg.norm(exact))


def device_name() -> str:
    """The current CUDA device's name."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()


def conditions() -> dict[str, str]:
    """What the card says of itself right now; empty where nvidia-smi is absent."""
    fields = ("name", "driver_version", "clocks.sm", "power.draw", "power.limit", "temperature.gpu")
    try:
        answer = subprocess.run(
            ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader"],
            capture_output=True, text=True, timeout=10, check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields, (value.strip() for value in answer.splitlines()[0].split(","))))
