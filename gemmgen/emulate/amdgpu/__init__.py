"""AMDGPU assembly, as clang writes it, executed on the CPU."""

from gemmgen.emulate.amdgpu.emulator import AmdEmulator
from gemmgen.emulate.amdgpu.target import TARGETS, Target

__all__ = ["TARGETS", "AmdEmulator", "Target"]
