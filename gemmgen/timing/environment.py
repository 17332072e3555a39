"""The GPU that times run on: its name, sensors, versions and condition."""

from __future__ import annotations

import ctypes
import subprocess

from gemmgen.run.sensors import Sensors, open_sensors
from gemmgen.timing.blas import load_library


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
    load_library().cublasGetVersion_v2(handle, ctypes.byref(number))
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
