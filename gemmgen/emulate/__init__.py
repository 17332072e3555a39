"""Bit-exact matrix units, and GPUs that run the compiler's PTX or AMDGPU assembly on the CPU, instruction by instruction.

`core` is what both machines share, and imports neither of them: how matrix units round, memory that knows its state, launches and schedules.
`ptx` executes PTX, `amdgpu` AMDGPU assembly.

Names are imported when they are first used, so that whoever wants a matrix unit loads no machine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmgen.emulate.core.launch import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES, TOGETHER, LaunchStats, Schedule
    from gemmgen.emulate.core.memory import Buffer
    from gemmgen.emulate.ptx.emulator import Emulator
    from gemmgen.emulate.ptx.order import NOT_MODELLED
    from gemmgen.emulate.ptx.tensor_map import TensorMap

_HOMES = {
    "EAGER_LOWEST": "core.launch",
    "LAZY_HIGHEST": "core.launch",
    "SCHEDULES": "core.launch",
    "TOGETHER": "core.launch",
    "LaunchStats": "core.launch",
    "Schedule": "core.launch",
    "Buffer": "core.memory",
    "Emulator": "ptx.emulator",
    "NOT_MODELLED": "ptx.order",
    "TensorMap": "ptx.tensor_map",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
