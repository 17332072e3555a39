"""Timing on a CUDA GPU: generated kernels and their rivals, interleaved, from CUDA graphs.

The chip is limited by power and its clock moves with what ran before, so only
figures taken side by side compare: in every round each contender runs for a
slice of time, in an order drawn anew for each round. Inputs rotate so that the
cache does not serve the same matrices, and are random, since zeros draw less
power and run faster.
"""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gemmgen.build import Binary
from gemmgen.errors import DeviceError
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import arguments
from gemmgen.run.cuda import CudaDevice
from gemmgen.run.sensors import Sample, Sensors, open_sensors


@dataclass(frozen=True)
class GemmEx:
    """The types of one cublasGemmEx.

    Attributes:
        operands: of A and B; converted beforehand, outside the timing.
        result: of C.
        scalars: of alpha and beta, which the compute type prescribes.
        compute: cublasComputeType_t.
    """

    operands: str
    result: str
    scalars: str
    compute: int


CUBLAS = {
    "cublas-sgemm": GemmEx("float32", "float32", "float32", 68),  # CUBLAS_COMPUTE_32F
    "cublas-tf32": GemmEx("float32", "float32", "float32", 77),  # CUBLAS_COMPUTE_32F_FAST_TF32
    "cublas-f16": GemmEx("float16", "float32", "float32", 68),
    "cublas-fast-f16": GemmEx("float32", "float32", "float32", 74),  # _32F_FAST_16F: cuBLAS may take half or TF32
    "cublas-hgemm": GemmEx("float16", "float16", "float16", 64),  # CUBLAS_COMPUTE_16F
    "cublas-dgemm": GemmEx("float64", "float64", "float64", 70),  # CUBLAS_COMPUTE_64F
}
_CUDA_TYPES = {"float32": 0, "float64": 1, "float16": 2}  # cudaDataType: CUDA_R_32F, CUDA_R_64F, CUDA_R_16F
_DEFAULT_ALGORITHM = -1  # CUBLAS_GEMM_DEFAULT
_CUBLAS_WORKSPACE = 32 << 20  # what cuBLAS recommends for Hopper; with its own, a captured call allocates in the graph

LEAST_ROUNDS = 5
GRAPH_PRODUCTS = 200  # at most, in one graph; slices that hold more launch it again
SAMPLE_SECONDS = 4e-3  # between two looks at the sensors
REFERENCE_ROWS = 256
_SLAB_BYTES = 1 << 30


@dataclass
class Contender:
    """Something to time.

    Attributes:
        name: as the table says it.
        enqueue: puts the product of input set `index` on the current stream.
        layout: how it reads the operands' memory.
        outputs: where it leaves C of each input set.
        detail: which kernel or configuration it is.
        seconds: one figure a round, of one product.
        samples: the sensors while it ran.
    """

    name: str
    enqueue: Callable[[int], None]
    layout: str = "nn"
    outputs: Sequence[Any] = ()
    detail: str = ""
    seconds: list[float] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)


# ---- inputs


def set_count(set_bytes: int, l2_bytes: int, free_bytes: int) -> int:
    """Input sets to rotate: so many that together they exceed L2 four times, 2 to 8, in a quarter of the memory that is free.

    The rest is for the rivals' converted operands and for packed words.
    """
    enough = max(2, min(8, -(-4 * l2_bytes // max(set_bytes, 1))))
    return max(1, min(enough, free_bytes // 4 // max(set_bytes, 1)))


class Inputs:
    """Rotating input sets on the GPU for one size, FP32, with C of each; other types as rivals ask for them.

    Args:
        size: (m, n, k).
        low, high: uniform data between them.
        l2_bytes: cache to exceed; None for this GPU's.
    """

    def __init__(self, size: tuple[int, int, int], low: float = -1.0, high: float = 1.0, l2_bytes: int | None = None):
        import cupy

        m, n, k = size
        self.size = size
        if l2_bytes is None:
            l2_bytes = int(cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["l2CacheSize"])
        free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
        self.sets = set_count(4 * (m * k + k * n + m * n), l2_bytes, free)
        draw = cupy.random.default_rng(0)
        self.a = [self._uniform(draw, (m, k), low, high) for _ in range(self.sets)]
        self.b = [self._uniform(draw, (k, n), low, high) for _ in range(self.sets)]
        self.c = [cupy.empty((m, n), cupy.float32) for _ in range(self.sets)]

    @staticmethod
    def _uniform(draw: Any, shape: tuple[int, int], low: float, high: float) -> Any:
        """Drawn in FP64 and rounded: FP32 generators leave a 2^-23 grid that flatters a split."""
        import cupy

        out = cupy.empty(shape, cupy.float32)
        step = max(1, _SLAB_BYTES // (8 * shape[1]))
        for at in range(0, shape[0], step):
            rows = out[at : at + step]
            rows[...] = low + (high - low) * draw.random(rows.shape)
        return out

    def operands(self, dtype: str) -> list[tuple[Any, Any]]:
        """(A, B) of each set in another type; converted once, and kept."""
        kept: dict[str, list[tuple[Any, Any]]] = self.__dict__.setdefault("_operands", {})
        if dtype not in kept:
            kept[dtype] = [(a.astype(dtype, copy=False), b.astype(dtype, copy=False)) for a, b in zip(self.a, self.b)]
        return kept[dtype]

    def results(self, dtype: str) -> list[Any]:
        """C of each set: the FP32 ones, which all share, or new ones."""
        import cupy

        m, n, _ = self.size
        return self.c if dtype == "float32" else [cupy.empty((m, n), dtype) for _ in self.c]


# ---- contenders


def generated(name: str, plan: Plan, source: Source, binary: Binary, inputs: Inputs, *, main_only: bool = False) -> Contender:
    """A generated kernel with its split pass: all launches of the Source.

    Args:
        main_only: time the last launch alone. The others run here, once for each input set, into words of the set's own.
    """
    import cupy

    m, n, k = inputs.size
    device = CudaDevice(binary)
    interface = source.interface
    extents, work = interface.extents(m, n, k), interface.workspace(m, n, k)
    # The data are random, so storing A as A^T needs other numbers, not a transposition.
    launches, spaces = [], []
    for index in range(inputs.sets):
        if main_only or not spaces:
            spaces.append(cupy.empty(work.bytes, cupy.uint8))
            spaces[-1][: work.zeroed].fill(0)
            memory = {
                (buffer.name, offset): spaces[-1][work.offsets[buffer.name] + offset :]
                for buffer in interface.buffers for offset in interface.places(buffer)
            }
        given = {
            "a": inputs.a[index], "b": inputs.b[index], "c": inputs.c[index], "m": m, "n": n, "k": k,
            "lda": k if plan.layout[0] == "n" else m, "ldb": n if plan.layout[1] == "n" else k, "ldc": n, "alpha": 1.0, "beta": 0.0,
        }
        launches.append([
            device.prepared(
                launch.symbol, launch.blocks(extents), launch.threads, launch.shared_bytes, arguments(launch, given, memory), launch.overlaps,
            )
            for launch in interface.launches if launch.blocks(extents)
        ])
    zeroed_again = any(work.lengths[buffer.name] for buffer in interface.buffers if buffer.zeroed_again)

    def enqueue(index: int) -> None:
        at = index % inputs.sets
        if zeroed_again:
            spaces[at % len(spaces)][: work.zeroed].fill(0)
        for launch in launches[at]:
            launch()

    if main_only:
        for index in range(inputs.sets):
            enqueue(index)
        zeroed_again, launches = False, [steps[-1:] for steps in launches]
    return Contender(name, enqueue, plan.layout, inputs.c, source.name)


def _cublas_library() -> ctypes.CDLL:
    """The cuBLAS that cupy has loaded; called directly, since cupy's own wrapper refuses stream capture."""
    for version in (13, 12):
        try:
            return ctypes.CDLL(f"libcublas.so.{version}")
        except OSError:
            continue
    raise DeviceError("bench", "cuBLAS cannot be found", needs="libcublas.so.13 or .12", remedy="pip install nvidia-cublas")


def cublas(kind: str, inputs: Inputs, name: str | None = None) -> Contender:
    """One of CUBLAS: row-major C = A B as column-major C^T = B^T A^T.

    Args:
        name: in the table; None for `kind` itself.

    Raises:
        DeviceError: cuBLAS is absent; when it runs, that it refuses.
    """
    import cupy
    from cupy.cuda import device as cupy_device

    name, gemm = name or kind, CUBLAS[kind]
    handle = ctypes.c_void_p(cupy_device.get_cublas_handle())  # first: it loads the library
    library = _cublas_library()
    m, n, k = inputs.size
    one, zero = np.ones(1, gemm.scalars), np.zeros(1, gemm.scalars)
    pairs, results = inputs.operands(gemm.operands), inputs.results(gemm.result)
    given, returned = _CUDA_TYPES[gemm.operands], _CUDA_TYPES[gemm.result]
    workspace = cupy.empty(_CUBLAS_WORKSPACE, np.uint8)

    def enqueue(index: int) -> None:
        (a, b), c = pairs[index % len(pairs)], results[index % len(pairs)]
        at_a, at_b, at_c, at_workspace = (ctypes.c_void_p(x.data.ptr) for x in (a, b, c, workspace))
        stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
        status = (
            library.cublasSetStream_v2(handle, stream)
            or library.cublasSetWorkspace_v2(handle, at_workspace, ctypes.c_size_t(_CUBLAS_WORKSPACE))
            or library.cublasGemmEx(
                handle, 0, 0, n, m, k, one.ctypes, at_b, given, n, at_a, given, k, zero.ctypes, at_c, returned, n,
                gemm.compute, _DEFAULT_ALGORITHM,
            )
            or library.cublasSetStream_v2(handle, stream)  # which gives the handle, cupy's, its own workspace back
        )
        if status:
            raise DeviceError("bench", f"{name} failed", got=f"cublasStatus {status}")

    return Contender(name, enqueue, outputs=results)


# ---- the race


@contextmanager
def refusals() -> Iterator[None]:
    """What the GPU refuses inside, as a DeviceError."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise DeviceError("bench", "the GPU's memory is too small", got=str(error), remedy="smaller sizes") from error
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        raise DeviceError("bench", "the GPU refused", got=str(error), remedy="smaller sizes") from error


class _Stopwatch:
    """Times what is put on one stream."""

    def __init__(self) -> None:
        import cupy

        self._elapsed = cupy.cuda.get_elapsed_time
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self._start, self._stop = cupy.cuda.Event(), cupy.cuda.Event()

    def seconds(self, action: Callable[[], None], look: Callable[[], None] | None = None, lasts: float = 0.0) -> float:
        """Of everything that `action` puts on the stream.

        Args:
            look: called now and then while it runs, for most of the `lasts` seconds that it is known to take.
        """
        self._start.record(self.stream)
        action()
        self._stop.record(self.stream)
        until = time.perf_counter() + 0.9 * lasts - SAMPLE_SECONDS
        while look and time.perf_counter() < until:  # an event that is asked whether it is done leaves an error behind
            time.sleep(SAMPLE_SECONDS)
            look()
        self._stop.synchronize()
        return self._elapsed(self._start, self._stop) / 1e3

    def graph(self, enqueue: Callable[[int], None], products: int) -> Any:
        """A CUDA graph of products of one input set after the other."""
        self.stream.begin_capture()
        try:
            for index in range(products):
                enqueue(index)
        finally:
            graph = self.stream.end_capture()
        return graph

    def one(self, enqueue: Callable[[int], None]) -> float:
        """Seconds of one product, roughly, as it takes in a graph; `enqueue` is warm afterwards."""
        for index in range(2):
            enqueue(index)
        alone = self.seconds(lambda: enqueue(0))
        if alone > 2e-3:
            return alone
        graph = self.graph(enqueue, 20)
        return min(self.seconds(lambda: graph.launch(self.stream)) / 20 for _ in range(3))


def estimate(enqueue: Callable[[int], None]) -> float:
    """Seconds of one product, roughly: to choose between configurations, not to report.

    Raises:
        DeviceError: a launch failed.
    """
    with refusals():
        watch = _Stopwatch()
        with watch.stream:
            return watch.one(enqueue)


def filling(slice_seconds: float, one: float) -> tuple[int, int]:
    """(products in a graph, launches of it) that fill a slice; one product at least."""
    products = max(1, round(slice_seconds / one))
    launches = -(-products // GRAPH_PRODUCTS)
    return -(-products // launches), launches


def slices(count: int, *, rounds: int, slice_ms: float, seconds: float | None) -> float:
    """Seconds of a slice: as asked, or shorter so that all rounds and the warm-up fit into `seconds`."""
    return min(slice_ms / 1e3, seconds / ((rounds + 1) * count)) if seconds else slice_ms / 1e3


def race(
    contenders: Sequence[Contender], *, rounds: int, slice_ms: float, seconds: float | None = None, warm_up: float = 0.0,
    sensors: Sensors | None = None,
) -> None:
    """Time all of them, `rounds` times each for about `slice_ms`.

    Args:
        seconds: what the race may take. Slices are shortened to fit; one holds a whole product all the
            same, so when the time is over it also ends after fewer rounds, LEAST_ROUNDS at least.
        warm_up: seconds to run before anything counts; one round at least.
        sensors: looked at while each contender runs.

    Raises:
        DeviceError: a launch failed.
    """
    import cupy

    until = time.perf_counter() + seconds if seconds else None
    slice_seconds = slices(len(contenders), rounds=rounds, slice_ms=slice_ms, seconds=seconds)
    with refusals():
        cupy.cuda.Device().synchronize()  # the inputs were made on another stream
        watch = _Stopwatch()
        with watch.stream:
            prepared = []
            for contender in contenders:
                one = watch.one(contender.enqueue)
                products, launches = filling(slice_seconds, one)
                graph = watch.graph(contender.enqueue, products)
                prepared.append((contender, graph, products, launches, one * products * launches))

            def run(entry: tuple[Contender, Any, int, int, float], counts: bool) -> None:
                contender, graph, products, launches, lasts = entry

                def look() -> None:
                    sample = sensors.read() if sensors else None
                    if sample:
                        contender.samples.append(sample)

                taken = watch.seconds(
                    lambda: [graph.launch(watch.stream) for _ in range(launches)], look if counts and sensors else None, lasts,
                )
                if counts:
                    contender.seconds.append(taken / (products * launches))

            draw = np.random.default_rng(0)
            warm = time.perf_counter() + warm_up
            while True:
                for at in draw.permutation(len(prepared)):
                    run(prepared[at], counts=False)
                if time.perf_counter() >= warm:
                    break
            for turn in range(rounds):
                if until and turn >= LEAST_ROUNDS and time.perf_counter() > until:
                    break
                for at in draw.permutation(len(prepared)):
                    run(prepared[at], counts=True)


# ---- errors


@dataclass(frozen=True)
class Accuracy:
    """Errors of C's sampled rows against FP64; NaN where any element of the whole C is not finite.

    Attributes:
        relative_frobenius: ||C - C*||_F / ||C*||_F (MixPert eq. 10).
        max_error: max |C - C*| / (|C| + |C*|) (LE-GEMM eq. 19).
        scaled: max |C - C*| / (|A| |B|), the figure that cancellation cannot inflate.
    """

    relative_frobenius: float
    max_error: float
    scaled: float


def sampled_rows(m: int, count: int = REFERENCE_ROWS) -> np.ndarray:
    """Rows of C that errors are computed on: the first, the last, and evenly spaced ones between; all where there are few."""
    return np.unique(np.linspace(0, m - 1, min(m, count)).round().astype(int))


class Reference:
    """FP64 products of sampled rows of the first input set, computed on the GPU once for each layout."""

    def __init__(self, inputs: Inputs, rows: int = REFERENCE_ROWS):
        self._inputs = inputs
        self.rows = sampled_rows(inputs.size[0], rows)
        self._known: dict[str, tuple[Any, Any]] = {}

    def product(self, layout: str) -> tuple[Any, Any]:
        """(A B, |A| |B|) of the sampled rows."""
        import cupy

        if layout not in self._known:
            m, n, k = self._inputs.size
            a, b = self._inputs.a[0], self._inputs.b[0]
            a = (a if layout[0] == "n" else a.reshape(k, m).T)[cupy.asarray(self.rows)].astype(cupy.float64)
            b = b if layout[1] == "n" else b.reshape(n, k).T
            exact, magnitude = (cupy.empty((len(self.rows), n), cupy.float64) for _ in range(2))
            step = max(1, _SLAB_BYTES // (8 * k))
            for at in range(0, n, step):
                slab = b[:, at : at + step].astype(cupy.float64)
                exact[:, at : at + step] = a @ slab
                magnitude[:, at : at + step] = abs(a) @ abs(slab)
            self._known[layout] = exact, magnitude
        return self._known[layout]

    def accuracy(self, contender: Contender) -> Accuracy:
        """Of the product that the contender computes now."""
        import cupy

        exact, magnitude = self.product(contender.layout)
        whole = contender.outputs[0]
        whole.fill(cupy.nan)
        contender.enqueue(0)
        if not bool(cupy.isfinite(whole).all()):
            return Accuracy(float("nan"), float("nan"), float("nan"))
        c = whole[cupy.asarray(self.rows)].astype(cupy.float64)
        difference = abs(c - exact)
        tiny = np.finfo(np.float64).tiny  # 0 / 0 is no error
        return Accuracy(
            float(cupy.linalg.norm(difference) / cupy.linalg.norm(exact)),
            float((difference / cupy.maximum(abs(c) + abs(exact), tiny)).max()),
            float((difference / cupy.maximum(magnitude, tiny)).max()),
        )


def error_of(contender: Contender, inputs: Inputs) -> float:
    """||C - C*||_F / ||C*||_F on sampled rows of the first input set, against an FP64 product on the GPU."""
    return Reference(inputs).accuracy(contender).relative_frobenius


# ---- where it runs


def device_name() -> str:
    """The current CUDA device's name."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)["name"].decode()


def sensors_here() -> Sensors | None:
    """The sensors of the current CUDA device, where they can be read."""
    import cupy

    return open_sensors(cupy.cuda.Device().pci_bus_id)


def versions() -> dict[str, str]:
    """Of the driver, CUDA, cuBLAS and cupy."""
    import cupy
    from cupy.cuda import device as cupy_device

    runtime = cupy.cuda.runtime
    handle, number = ctypes.c_void_p(cupy_device.get_cublas_handle()), ctypes.c_int()
    _cublas_library().cublasGetVersion_v2(handle, ctypes.byref(number))
    return {
        "driver": conditions().get("driver_version", "unknown"), "CUDA driver": str(runtime.driverGetVersion()),
        "CUDA runtime": str(runtime.runtimeGetVersion()), "cuBLAS": str(number.value), "cupy": cupy.__version__,
    }


def release_memory() -> None:
    """Give back what no array holds any more."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


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
