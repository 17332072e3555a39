"""The driver of AMD GPUs: what it answers where there is none, and how it takes a runtime's refusals."""

from __future__ import annotations

import platform
import sys
from ctypes.util import find_library
from types import SimpleNamespace

import numpy as np
import pytest
from fake_hip import APU, MI210, FakeHip, Status, install

from gemmgen.build import build
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError, NotEmulated
from gemmgen.run import hip, open_device, why_not
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import standing
from gemmgen.workshop.bringup.probe import plain_source

ANY = SimpleNamespace(arch="gfx90a", code=b"code object", assembly="", kernels={})


def refusal_of(call, *args) -> DeviceError:
    with pytest.raises(DeviceError) as caught:
        call(*args)
    return caught.value


def plan_for(gpu: str):
    return solve(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": gpu}, "build": {"allow_spills": True}}))


def test_without_hip_python_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hip", None)
    reason = why_not(GPUS.get("mi210"))
    assert reason.where == "--device hip" and "hip-python is not installed" in reason.problem
    assert "pip install 'gemmgen[rocm]'" in reason.remedy and "--device emulator" in reason.remedy


@pytest.mark.skipif(find_library("amdhip64") is not None, reason="ROCm is installed here")
def test_hip_python_without_rocm_says_so():
    if platform.machine() != "x86_64":
        pytest.skip("NOT RUN: hip-python has no wheel for this processor")
    reason = why_not(GPUS.get("mi210"))
    assert "no ROCm" in reason.problem and "libamdhip64.so" in reason.got and "--device emulator" in reason.remedy


def test_a_function_that_the_library_lacks_is_told_as_rocm_s(monkeypatch):
    fake = install(monkeypatch, FakeHip())

    def absent(self):
        raise RuntimeError("failed to dlsym 'hipGetDeviceCount'")

    monkeypatch.setattr(FakeHip, "hipGetDeviceCount", absent)
    assert why_not(GPUS.get("mi210")).got == "failed to dlsym 'hipGetDeviceCount'"
    assert fake.calls == ["hipGetDeviceCount"]


def test_a_status_that_hip_python_does_not_know_is_told_as_it_is(monkeypatch):
    install(monkeypatch, FakeHip())
    device = hip.HipDevice(ANY)

    def unknown(self, size):
        raise ValueError("99999 is not a valid hipError_t")

    monkeypatch.setattr(FakeHip, "hipMalloc", unknown)
    error = refusal_of(device.zeros, 8, "c")
    assert error.problem == "hipMalloc failed" and error.got == "99999 is not a valid hipError_t"


def test_no_gpu(monkeypatch):
    install(monkeypatch, FakeHip(gpus=()))
    reason = why_not(GPUS.get("mi210"))
    assert reason.problem == "no AMD GPU answers" and "/dev/kfd" in reason.needs


def test_a_gpu_of_another_architecture_is_named(monkeypatch):
    install(monkeypatch, FakeHip(gpus=(APU,)))
    reason = why_not(GPUS.get("mi210"))
    assert reason.problem == "no GPU here runs gfx90a machine code"
    assert reason.got == "AMD Radeon Graphics (gfx1036, wavefronts of 32)" and reason.needs == "a GPU of gfx90a"


@pytest.mark.parametrize("target", ["gfx90a", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc-:xnack+"])
def test_what_is_switched_on_does_not_matter(monkeypatch, target):
    install(monkeypatch, FakeHip(gpus=(("AMD Instinct MI250X", target, 64, 110),)))
    assert why_not(GPUS.get("mi210")) is None and why_not(GPUS.get("mi250x")) is None
    assert "gfx942" in why_not(GPUS.get("mi300x")).problem


def test_the_gpu_that_suits_is_taken_though_another_comes_first(monkeypatch):
    fake = install(monkeypatch, FakeHip(gpus=(APU, MI210)))
    device = hip.HipDevice(ANY)
    assert fake.device == 1 and fake.modules == [ANY.code] and device.kind == "hip"
    assert device.name == "AMD Instinct MI210 (gfx90a:sramecc+:xnack-)"
    assert device.facts()["compute_units"] == 104 and device.facts()["driver_version"] == 70253211


def test_memory_is_poisoned_zeroed_misaligned_and_given_back(monkeypatch):
    fake = install(monkeypatch, FakeHip())
    device = hip.HipDevice(ANY)
    assert (device.download(device.zeros(12, "z"), np.uint8, 12) == 0).all()
    assert np.isnan(device.download(device.empty(12, "e"), np.float32, 3)).all()
    x = np.arange(6, dtype=np.float32)
    buffer = device.upload(x, "x", misalign=12)
    assert buffer.address % 256 == 12 and (device.download(buffer, np.float32, 6) == x).all()
    around = fake.memory[buffer.address - 12]
    assert (around[:12] == 0xFF).all() and (around[-4:] == 0xFF).all(), "what lies beside an operand is poison"
    assert device.download(device.upload(x[:0], "empty"), np.float32, 0).size == 0
    assert "holds" in refusal_of(device.download, buffer, np.float32, 7).problem
    assert device.seconds() is None
    device.release()
    assert not fake.memory


def test_too_little_memory_and_other_refusals(monkeypatch):
    fake = install(monkeypatch, FakeHip(refuse={"hipMalloc": Status.hipErrorOutOfMemory}))
    device = hip.HipDevice(ANY)
    error = refusal_of(device.zeros, 1 << 40, "c")
    assert "memory is too small" in error.problem and "--m" in error.remedy
    fake.refuse = {"hipMemcpy": Status.hipErrorLaunchFailure}
    error = refusal_of(device.upload, np.zeros(4, np.float32), "a")
    assert error.problem == "hipMemcpy failed" and error.got == "hipErrorLaunchFailure"
    fake.refuse = {"hipFree": Status.hipErrorLaunchFailure}
    device.release()  # says nothing again


@pytest.mark.slow
def test_what_a_gpu_holds_is_asked_and_tried(monkeypatch):
    """Registers as loaded, blocks that reside, and whether a launch is refused."""
    fake = install(monkeypatch, FakeHip())
    source = plain_source("limits.j2", "gfx90a", "limits", needs=[40])
    device = hip.open_device(build(source))
    assert 40 <= device.registers("hold_40") <= 44 and device.registers("idle") < 16
    assert device.resident("idle", 256) == 8 and device.resident("idle", 64, 70000) == 0
    assert device.takes("idle", 1, 64) and not device.takes("idle", 2, 64, cluster=2)
    assert [one.symbol for one in fake.launches] == ["idle"]
    device.series("idle", 1, 64, [[("pointer", device.zeros(64, "x"))]] * 3)
    assert len(fake.launches) == 4 and device.copy_seconds(64, True) is None and hip.sensors() is None
    assert fake.calls.count("hipDeviceSynchronize") == 2 and device.seconds() == 4 * 0.5e-3  # from before the first launch to after the last
    device.release()
    assert fake.calls.count("hipEventDestroy") == 2 and device.seconds() is None
    device.launch("idle", 3, 64, 512, [("pointer", device.zeros(64, "x"))])
    assert device.seconds() == 0.5e-3 and (fake.launches[-1].blocks, fake.launches[-1].threads, fake.launches[-1].shared_bytes) == (3, 64, 512)
    fake.refuse["hipDeviceSynchronize"] = Status.hipErrorLaunchFailure
    assert not device.takes("idle", 1, 64)
    fake.refuse["hipModuleLaunchKernel"] = Status.hipErrorInvalidValue
    assert not device.takes("idle", 1, 2048)


def test_a_code_object_that_cannot_be_loaded(monkeypatch):
    install(monkeypatch, FakeHip(refuse={"hipModuleLoadData": Status.hipErrorInvalidImage}))
    assert refusal_of(hip.HipDevice, ANY).got == "hipErrorInvalidImage"


def test_more_threads_than_a_launch_has_are_refused_before_it(monkeypatch):
    fake = install(monkeypatch, FakeHip())
    error = refusal_of(hip.HipDevice(ANY).launch, "k", 1 << 24, 256, 0, [])
    assert error.got == "16777216 blocks of 256" and "hipModuleLaunchKernel" not in fake.calls
    fake.refuse = {"hipModuleGetFunction": Status.hipErrorNotFound}
    assert refusal_of(hip.HipDevice(ANY).launch, "k", 65537, 65535, 0, []).got == "hipErrorNotFound"  # 2^32 - 1 are taken


def test_what_the_driver_tells_has_the_names_of_rows(monkeypatch):
    """And of what it does not tell nothing is said."""
    fake = install(monkeypatch, FakeHip())
    told = hip.driver_facts()
    assert {"title", "arch", "warp_size", "compute_units", "sms", "driver_version", "runtime_version"} == told.keys()
    assert (told["title"], told["arch"], told["warp_size"], told["sms"]) == ("AMD Instinct MI210", "gfx90a", 64, 104)
    more = {"maxThreadsPerBlock": 1024, "maxThreadsPerMultiProcessor": 2048, "sharedMemPerBlock": 65536, "sharedMemPerMultiprocessor": 70000,
            "totalGlobalMem": 64 << 30, "l2CacheSize": 8 << 20, "clockRate": 1700000}  # fmt: skip
    properties = FakeHip.hipGetDeviceProperties
    monkeypatch.setattr(FakeHip, "hipGetDeviceProperties", lambda self, at: (Status.hipSuccess, SimpleNamespace(**vars(properties(self, at)[1]), **more)))
    told = hip.driver_facts()
    assert [told[name] for name in ("threads_per_block", "threads_per_sm", "shared_bytes_per_block", "device_memory_bytes", "l2_mib", "boost_mhz")] == [
        1024, 2048, 65536, 64 << 30, 8, 1700]  # fmt: skip
    fake.gpus = ()
    assert refusal_of(hip.driver_facts).got == "hipErrorNoDevice"


@pytest.mark.parametrize(("gpu", "kind"), [("a100", "hip"), ("mi210", "cuda")])
def test_a_kernel_is_not_for_the_other_vendor_s_gpus(gpu, kind):
    plan = plan_for(gpu)
    error = refusal_of(open_device, kind, plan, None, None)
    assert error.where == f"--device {kind}" and f"no {plan.arch} machine code" in error.problem
    assert f"--device {plan.gpu.maker.platform}" in error.needs


def test_an_architecture_that_nothing_emulates_is_not_verified(monkeypatch):
    install(monkeypatch, FakeHip(gpus=()))
    plan = plan_for("mi100")
    with pytest.raises(NotEmulated, match="gfx908 kernels are compiled, not emulated") as refused:
        open_device("auto", plan, None, None)
    assert "--device hip where there is one" in refused.value.remedy
    assert standing(plan).endswith("not emulated; never run on AMD hardware")


def test_auto_takes_the_gpu_where_one_runs_the_kernel(monkeypatch):
    install(monkeypatch, FakeHip(gpus=(APU, MI210)))
    assert open_device("auto", plan_for("mi210"), None, ANY).kind == "hip"
