"""The driver of NVIDIA GPUs: what it answers where there is none, and what it asks of cupy and of CUDA's driver where there is one."""

from __future__ import annotations

import ctypes
import struct
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from numpy_cupy import Array

from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError
from gemmgen.run import cuda, driver_facts, why_not


class CUDARuntimeError(RuntimeError):
    """As cupy 14.2 raises it."""


NO_DRIVER = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
"""What cupy 14.2 says on a machine without a driver, and with one that is too old."""


def install(monkeypatch: pytest.MonkeyPatch, gpus: int | str, driver: int = 13000) -> None:
    """A stand-in for cupy: it counts so many GPUs, or raises that text."""

    def count() -> int:
        if isinstance(gpus, str):
            raise CUDARuntimeError(gpus)
        return gpus

    runtime = SimpleNamespace(getDeviceCount=count, driverGetVersion=lambda: driver, runtimeGetVersion=lambda: 13020)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))


def told(gpu: str = "a100") -> DeviceError:
    """The reason, which says where, what it got, what it needs, and what to try."""
    reason = why_not(GPUS.get(gpu))
    assert reason.where == "--device cuda" and reason.got and reason.needs and "--device emulator" in reason.remedy
    return reason


def test_cupy_without_a_driver_says_so(monkeypatch):
    install(monkeypatch, NO_DRIVER, driver=0)
    reason = told()
    assert reason.problem == "cupy is installed and there is no NVIDIA driver" and reason.got == NO_DRIVER
    assert "libcuda.so.1" in reason.needs and "CUDA 13 or later" in reason.needs and "nvidia-smi" in reason.remedy


def test_a_driver_that_is_too_old_is_told_with_its_version(monkeypatch):
    install(monkeypatch, NO_DRIVER, driver=12040)
    reason = told()
    assert "too old" in reason.problem and reason.got == "a driver for CUDA 12.4" and "CUDA 13 or later" in reason.needs
    assert reason.remedy.startswith("pip install 'gemmgen[cuda12]'")


@pytest.mark.parametrize("gpus", [0, "cudaErrorNoDevice: no CUDA-capable device is detected"])
def test_a_driver_without_a_gpu(monkeypatch, gpus):
    install(monkeypatch, gpus)
    reason = told()
    assert reason.problem == "no CUDA GPU answers" and reason.got.startswith("cudaErrorNoDevice") and "nvidia-smi" in reason.needs


def test_an_error_without_words_is_told_by_its_type(monkeypatch):
    install(monkeypatch, "")
    assert told().got == "CUDARuntimeError"


def test_cupy_that_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    reason = told()
    assert reason.problem == "cupy is not installed" and "pip install 'gemmgen[cuda13]'" in reason.remedy


def test_cupy_that_lacks_what_it_depends_on(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("from a_module_that_is_not_there import x\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    reason = told()
    assert "cannot be imported" in reason.problem and "a_module_that_is_not_there" in reason.got


def test_what_the_driver_tells_has_the_names_of_rows(monkeypatch):
    """And a driver that no longer tells a clock leaves it out."""
    with pytest.raises(DeviceError, match="cupy is installed and there is no NVIDIA driver"):
        install(monkeypatch, NO_DRIVER, driver=0)
        driver_facts("cuda")
    install(monkeypatch, 1)
    properties = {
        "name": b"a GPU", "major": 9, "minor": 0, "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024,
        "maxThreadsPerMultiProcessor": 2048, "maxBlocksPerMultiProcessor": 32, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472,
        "sharedMemPerBlockOptin": 232448, "reservedSharedMemPerBlock": 1024, "l2CacheSize": 50 << 20, "totalGlobalMem": 150 << 30,
    }
    attributes = {}
    cupy = sys.modules["cupy"]
    cupy.cuda.runtime.getDeviceProperties, cupy.cuda.Device = lambda number: properties, lambda: SimpleNamespace(id=0, attributes=attributes)
    told = driver_facts("cuda")
    limits = GPUS.get("h200").limits.model_dump()
    assert {name: told[name] for name in limits if name in told} == {name: value for name, value in limits.items() if name in told}
    assert (told["arch"], told["l2_mib"], told["sms"]) == ("sm_90", 50, 132) and len(told.keys() & limits.keys()) == 8
    assert "boost_mhz" not in told and "dram_gb_per_s" not in told
    attributes |= {"ClockRate": 1980000, "MemoryClockRate": 3201000, "GlobalMemoryBusWidth": 6144}
    told = driver_facts("cuda")
    assert told["boost_mhz"] == 1980 and told["dram_gb_per_s"] == pytest.approx(4916.7, abs=0.1)


# ---- launches


class Memory(Array):
    """Memory of the host in place of the device's, page-locked or not."""

    @property
    def data(self):  # noqa: D102
        return SimpleNamespace(ptr=self.ctypes.data, copy_from_host_async=self.log("to the device"), copy_to_host_async=self.log("to the host"))

    def log(self, way):
        return lambda host, nbytes, stream: Gpu.calls.append((way, host, nbytes))

    def set(self, x):
        self[:] = x


class Gpu:
    """cupy and libcuda in one: an event holds how many calls came before it, and between two calls lie 500 ms.

    Attributes:
        calls: what was asked for, in order; status: the driver's answer to a launch.
    """

    calls: list = []
    status = 0

    class CUDADriverError(RuntimeError):
        pass

    def __init__(self, monkeypatch):
        Gpu.calls, Gpu.status = [], 0
        calls = Gpu.calls

        def function(symbol):
            def launch(grid, block, values, shared_mem):
                calls.append((symbol, grid, block, values, shared_mem))

            launch.ptr = 77
            return launch

        def full(count, value, dtype):
            return np.full(count, value, dtype).view(Memory)

        def event():
            one = SimpleNamespace(at=None, record=lambda: setattr(one, "at", len(calls)), synchronize=lambda: calls.append("an event"))
            return one

        def occupancy(function, threads, shared_bytes):
            if threads > 1024:
                raise self.CUDADriverError("too many")
            return min(2048 // threads, (200 << 10) // max(shared_bytes, 1))

        driver = SimpleNamespace(
            funcSetAttribute=lambda *what: calls.append(("attribute", *what)), funcGetAttribute=lambda what, ptr: {4: 40}[what],
            occupancyMaxActiveBlocksPerMultiprocessor=occupancy, CUDADriverError=self.CUDADriverError,
        )
        stream = SimpleNamespace(ptr=0x5555, synchronize=lambda: calls.append("the stream"))
        self.cuda = SimpleNamespace(
            function=SimpleNamespace(Module=lambda: SimpleNamespace(load=lambda code: calls.append(code), get_function=function)), driver=driver, Event=event,
            Device=lambda: SimpleNamespace(id=0, compute_capability=self.capability), get_current_stream=lambda: stream,
            get_elapsed_time=lambda first, last: 500.0 * (last.at - first.at), alloc_pinned_memory=lambda nbytes: SimpleNamespace(ptr=nbytes + 1),
            runtime=SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda number: {"name": b"a GPU"},
                                    driverGetVersion=lambda: 13000),
        )
        self.capability, self.uint8, self.full, self.asnumpy = "90", np.uint8, full, np.asarray
        self.zeros, self.empty = (lambda count, dtype: full(count, 0, dtype)), (lambda count, dtype: full(count, 1, dtype))
        monkeypatch.setitem(sys.modules, "cupy", self)
        monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: SimpleNamespace(cuLaunchKernelEx=self.launched))

    def launched(self, config, function, arguments, extra):
        """Reads CUlaunchConfig, its attributes of 72 bytes, and four arguments as cuda.h lays them out."""
        raw = ctypes.string_at(ctypes.addressof(config._obj), 56)
        *extents, shared_bytes, _, stream, attributes, count, _ = struct.unpack("<7IIQQII", raw)
        told = [struct.unpack("<iiIII", ctypes.string_at(attributes + 72 * at, 20)) for at in range(count)]
        sizes = [8, 4, 8, 4][: len(arguments)]
        values = b"".join(ctypes.string_at(address, size) for address, size in zip(arguments, sizes))
        self.calls.append(("direct", tuple(extents), shared_bytes, stream, [(one[0], one[2:]) for one in told], function.value, extra, values))
        return self.status


@pytest.fixture
def gpu(monkeypatch):
    return Gpu(monkeypatch)


@pytest.fixture
def device(gpu):
    return cuda.open_device(SimpleNamespace(code=b"cubin", compiler="NVRTC 13.5"))


def four(device) -> list:
    return [("pointer", device.zeros(8, "x")), ("int", -3), ("long long", 1 << 40), ("float", 0.5)]


@pytest.mark.parametrize(("gpu_has", "arch", "runs"), [
    ("80", "sm_80", True), ("86", "sm_80", True), ("80", "sm_86", False), ("90", "sm_80", False), ("90", "sm_90a", True), ("103", "sm_100a", False),
    ("103", "sm_100", True), ("120", "sm_100", False),
])  # fmt: skip
def test_machine_code_runs_on_later_gpus_of_its_generation(gpu, gpu_has, arch, runs):
    gpu.capability = gpu_has
    reason = why_not(SimpleNamespace(arch=arch))
    assert (reason is None) == runs
    if not runs:
        needs = {"sm_86": "8.x", "sm_80": "8.x", "sm_100a": "10.0", "sm_100": "10.x"}[arch]
        assert reason.got == f"sm_{gpu_has}" and reason.needs == f"a GPU of compute capability {needs}" and arch in reason.problem


def test_memory_is_poisoned_zeroed_and_misaligned(gpu, device):
    assert (device.name, device.kind, gpu.calls) == ("a GPU", "cuda", [b"cubin"])
    assert device.zeros(12, "z").tolist() == [0] * 12 and device.empty(12, "e").tolist() == [255] * 12
    assert len(device.zeros(0, "z")) == len(device.empty(0, "e")) == 1
    x = np.arange(6, dtype=np.float32)
    held = device.upload(x, "x", misalign=12)
    around = np.asarray(held.base)
    assert held.nbytes == 24 and device.address(held) == around.ctypes.data + 12 and (device.download(held, np.float32, 6) == x).all()
    assert (around[:12] == 255).all() and (around[36:] == 255).all() and len(around) == 40
    assert (device.download(held, np.float32, 2) == x[:2]).all()


@pytest.mark.parametrize(("nbytes", "asks"), [(0, False), (1024, True), ((48 << 10) + 1, True)])
def test_a_launch_has_its_grid_its_arguments_and_leave_for_its_shared_memory(gpu, device, nbytes, asks):
    args = four(device)
    device.launch("k", 7, 256, nbytes, args)
    *before, (symbol, grid, block, values, shared) = gpu.calls[1:]
    assert before == [("attribute", 77, 8, nbytes)] * asks and (symbol, grid, block, shared) == ("k", (7,), (256,), nbytes)
    assert values[0] is args[0][1] and [(type(one), one) for one in values[1:]] == [(np.int32, -3), (np.int64, 1 << 40), (np.float32, 0.5)]
    device.prepared("k", 7, 256, nbytes, args, True)()
    assert gpu.calls[-1] == (
        "direct", (7, 1, 1, 256, 1, 1), nbytes, 0x5555, [(6, (1, 0, 0))], 77, None, struct.pack("<qiqf", args[0][1].ctypes.data, -3, 1 << 40, 0.5),
    )
    assert gpu.calls.count(("attribute", 77, 8, nbytes)) == 2 * asks


def test_a_direct_launch_takes_another_pointer_and_is_refused_aloud(gpu, device):
    first = device.zeros(8, "x")
    run = device.prepared("k", 1, 32, 0, [("pointer", first), ("int", 5), ("pointer", first)], direct=True)
    run.point(2, 0x1234)
    run()
    assert gpu.calls[-1][4] == [] and gpu.calls[-1][-1] == struct.pack("<qiq", first.ctypes.data, 5, 0x1234)
    Gpu.status = 719
    with pytest.raises(DeviceError, match="the driver refused it") as caught:
        run()
    assert (caught.value.where, caught.value.got) == ("launch", "CUresult 719")


def test_seconds_are_from_before_the_first_launch_to_after_the_last(gpu, device):
    assert device.seconds() is None
    for _ in range(3):
        device.launch("k", 1, 32, 0, [])
    assert device.seconds() == 1.5 and gpu.calls[-1] == "an event"
    device.release()
    assert device.seconds() is None
    device.launch("k", 1, 32, 0, [])
    assert device.seconds() == 0.5


def test_what_a_gpu_holds_is_asked_and_tried(gpu, device):
    assert device.registers("k") == 40
    assert device.resident("k", 256) == 8 and device.resident("k", 2048) == 0 and gpu.calls[1:] == []
    assert device.resident("k", 256, 1 << 10) == 8 and device.resident("k", 64, 50 << 10) == 4
    assert gpu.calls[1:] == [("attribute", 77, 8, 1 << 10), ("attribute", 77, 8, 50 << 10)]
    del gpu.calls[:]
    assert device.takes("k", 3, 64, 50 << 10, cluster=2)
    assert gpu.calls[:2] == [("attribute", 77, 8, 50 << 10), ("attribute", 77, 14, 1)] and gpu.calls[-1] == "the stream"
    assert gpu.calls[2] == ("direct", (3, 1, 1, 64, 1, 1), 50 << 10, 0x5555, [(4, (2, 1, 1))], 77, None, bytes(8))
    del gpu.calls[:]
    Gpu.status = 1
    assert not device.takes("k", 3, 64, 50 << 10, opt_in=False) and [one[0] for one in gpu.calls] == ["direct"]


def test_a_series_is_launched_at_once(gpu, device):
    buffers = [device.zeros(8, "x") for _ in range(3)]
    for overlaps in (False, True):
        del gpu.calls[:]
        assert device.series("k", 2, 64, [[("pointer", one)] for one in buffers], overlaps) > 0
        assert gpu.calls[0] == gpu.calls[-1] == "the stream" and [one[1:3] for one in gpu.calls[1:-1]] == [((2, 1, 1, 64, 1, 1), 0)] * 3
        assert [one[4] for one in gpu.calls[1:-1]] == [[], *[[(6, (1, 0, 0))] * overlaps] * 2]
        assert [one[-1] for one in gpu.calls[1:-1]] == [struct.pack("<q", one.ctypes.data) for one in buffers]


def test_copies_are_timed_both_ways(gpu, device):
    assert device.copy_seconds(64, True) == 0.5 and gpu.calls[1:] == [("to the device", 65, 64), "an event"]
    assert device.copy_seconds(64, False) == 0.5 and gpu.calls[3:] == [("to the host", 65, 64), "an event"]
    assert device.copy_seconds(128, False) == 0.5 and gpu.calls[5][1:] == (129, 128)
