"""Run the compiler's PTX on the CPU, over bit-exact models of matrix units."""

from gemmgen.emulate.emulator import Emulator
from gemmgen.emulate.launch import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES, TOGETHER, LaunchStats, Schedule
from gemmgen.emulate.memory import Buffer
from gemmgen.emulate.order import NOT_MODELLED
from gemmgen.emulate.tensor_map import TensorMap

__all__ = [
    "EAGER_LOWEST",
    "LAZY_HIGHEST",
    "NOT_MODELLED",
    "SCHEDULES",
    "TOGETHER",
    "Buffer",
    "Emulator",
    "LaunchStats",
    "Schedule",
    "TensorMap",
]
