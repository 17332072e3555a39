"""The GPUs of this machine as NVIDIA's driver tells them, without cupy, and the rows of specs/gpus that describe them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.drivers import driver_version, named_in

_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76  # CUdevice_attribute


@dataclass(frozen=True)
class Here:
    """A GPU of this machine.

    Attributes:
        title: as its driver calls it.
        arch: `sm_90`, `gfx942`.
        units: multiprocessors or compute units.
        driver: the CUDA version of the driver: 13000; 0 of AMD's.
    """

    title: str
    arch: str
    units: int
    driver: int = 0

    @property
    def row(self) -> Gpu | None:
        """The row of specs/gpus that describes it, or another GPU of its architecture; None where there is none."""
        return described(self.title, (row for row in GPUS.rows() if row.arch == self.arch))


@cache
def cuda_gpus() -> tuple[Here, ...]:
    """NVIDIA's, by the numbers that CUDA gives them; none where there is no driver. CUDA_VISIBLE_DEVICES counts."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ()
    count, device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    found = []
    for number in range(count.value):
        told = []
        driver.cuDeviceGet(ctypes.byref(device), number)
        driver.cuDeviceGetName(name, len(name), device)
        for attribute in (_MAJOR, _MINOR, _MULTIPROCESSORS):
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            told.append(value.value)
        found.append(Here(name.value.decode(), f"sm_{told[0]}{told[1]}", told[2], driver_version()))
    return tuple(found)


def described(title: str, rows: Iterable[Gpu]) -> Gpu | None:
    """Of rows the one whose name stands in a GPU's title, by most of its letters; else the first; None of no rows."""
    fitting = list(rows)
    name = named_in(title, (row.name for row in fitting))
    return next((row for row in fitting if row.name == name), fitting[0] if fitting else None)
