"""What an NVIDIA GPU says of itself while it works: clock, power, and what slows it. NVML through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

SM_CLOCK = 1  # NVML_CLOCK_SM
POWER_INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT, mW
THROTTLES = {  # of nvmlClocksEventReasons; an idle GPU and clocks that somebody set are no complaint
    0x04: "power cap", 0x08: "hardware", 0x10: "sync boost", 0x20: "thermal", 0x40: "hardware thermal", 0x80: "power brake",
}


@dataclass(frozen=True)
class Sample:
    """One look at the sensors.

    Attributes:
        clock_mhz: of the SMs.
        power_w: of the board, at that moment; where the driver cannot tell, averaged over up to a second.
        throttles: nvmlClocksEventReasons, as bits.
    """

    clock_mhz: float
    power_w: float
    throttles: int


def throttle_names(bits: int) -> str:
    """`power cap, thermal`; empty where nothing slows the GPU."""
    return ", ".join(name for bit, name in THROTTLES.items() if bits & bit)


class _Value(ctypes.Union):
    _fields_ = (("double", ctypes.c_double), ("uint", ctypes.c_uint), ("ulonglong", ctypes.c_ulonglong))


class _Field(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("field", ctypes.c_uint), ("scope", ctypes.c_uint), ("timestamp", ctypes.c_longlong), ("latency", ctypes.c_longlong),
        ("type", ctypes.c_int), ("status", ctypes.c_int), ("value", _Value),
    )


class Sensors:
    """The sensors of one GPU.

    Args:
        pci_bus_id: as CUDA tells it, `0000:1B:00.0`.

    Raises:
        OSError: there is no NVML, or it does not know the GPU.
    """

    def __init__(self, pci_bus_id: str):
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._handle = ctypes.c_void_p()
        status = self._nvml.nvmlInit_v2() or self._nvml.nvmlDeviceGetHandleByPciBusId_v2(
            pci_bus_id.encode(), ctypes.byref(self._handle)
        )
        if status or self.read() is None:
            raise OSError(f"NVML answers {status}")

    def read(self) -> Sample | None:
        """A look at them now; None where one does not answer."""
        clock, bits = ctypes.c_uint(), ctypes.c_ulonglong()
        if self._nvml.nvmlDeviceGetClockInfo(self._handle, SM_CLOCK, ctypes.byref(clock)):
            return None
        power = self._power()
        if power is None:
            return None
        if self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self._handle, ctypes.byref(bits)):
            bits.value = 0
        return Sample(float(clock.value), power, int(bits.value))

    def power_limit(self) -> float | None:
        """Watts that the board may draw; None where the driver does not tell."""
        milliwatts = ctypes.c_uint()
        failed = self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._handle, ctypes.byref(milliwatts))
        return None if failed else milliwatts.value / 1e3

    def _power(self) -> float | None:
        field = _Field(field=POWER_INSTANT)
        if not self._nvml.nvmlDeviceGetFieldValues(self._handle, 1, ctypes.byref(field)) and not field.status:
            return field.value.uint / 1e3
        milliwatts = ctypes.c_uint()
        failed = self._nvml.nvmlDeviceGetPowerUsage(self._handle, ctypes.byref(milliwatts))
        return None if failed else milliwatts.value / 1e3


def open_sensors(pci_bus_id: str) -> Sensors | None:
    """The sensors of a GPU, or None where they cannot be read."""
    try:
        return Sensors(pci_bus_id)
    except (OSError, AttributeError):  # AttributeError: an NVML too old for one of the calls
        return None
