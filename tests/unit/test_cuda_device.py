"""What the driver of NVIDIA GPUs answers where there is none: with and without cupy, and with a driver that is too old."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError
from gemmgen.run import driver_facts, why_not


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
    assert reason.problem == "cupy is not installed" and "pip install 'gemmgen[cuda-gpu]'" in reason.remedy


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
