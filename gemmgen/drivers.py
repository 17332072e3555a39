"""Which NVIDIA drivers load the machine code of which NVRTC.

A driver loads cubins of its own CUDA major version and of older ones, whatever the minor version: cubins of NVRTC 12.9 run on every driver from
CUDA 12.0 on, and cubins of NVRTC 13 need a driver for CUDA 13.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from functools import cache

from gemmgen.errors import DeviceError

NEWEST = 13
"""The newest CUDA major version that an extra of this package installs."""


def cuda_major(compiler: str) -> int | None:
    """13 of `NVRTC 13.5`; None of a compiler that is no NVRTC."""
    found = re.match(r"NVRTC (\d+)", compiler)
    return int(found[1]) if found else None


def least_driver(compilers: Iterable[str]) -> int | None:
    """The oldest driver that loads the machine code of all these compilers, as the driver tells its version: 13000. None where none is an NVRTC."""
    return max((1000 * major for one in compilers if (major := cuda_major(one))), default=None)


@cache
def driver_version() -> int:
    """The CUDA version of this machine's driver: 12040 for CUDA 12.4. 0 where there is no driver."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 0
    return version.value


def named_in(title: str, names: Iterable[str]) -> str | None:
    """Of names of GPUs the one that stands in what a driver calls a GPU, by most of its letters: `h200` and not `h20` of `NVIDIA H200`."""
    plain = re.sub(r"[^a-z0-9]", "", title.lower())
    return max((name for name in names if all(part in plain for part in name.split("_"))), key=len, default=None)


def told(version: int) -> str:
    """`CUDA 12.4` of 12040."""
    return f"CUDA {version // 1000}.{version % 1000 // 10}"


def extra() -> str:
    """The extra of this package whose compiler's machine code this machine's driver loads: `cuda12` or `cuda13`, the latter where there is no driver."""
    major = driver_version() // 1000
    return f"cuda{min(max(major, NEWEST - 1), NEWEST) if major else NEWEST}"


def install() -> str:
    """What to type for that extra."""
    return f"pip install 'gemmgen[{extra()}]'"


def check_driver(compiler: str, driver: int, where: str) -> None:
    """
    Args:
        compiler: who made the machine code, as `NVRTC 13.5`.
        driver: as the driver tells its version: 12040.

    Raises:
        DeviceError: the driver is too old for the compiler's machine code.
    """
    least = least_driver([compiler])
    if least is not None and 0 < driver < least:
        raise DeviceError(
            where, f"the driver does not load machine code of {compiler}", got=f"a driver for {told(driver)}",
            needs=f"a driver for {told(least)} or later, or machine code of NVRTC {driver // 1000}",
            remedy=f"pip install 'gemmgen[cuda{driver // 1000}]', whose NVRTC is then taken; or update the driver",
        )
