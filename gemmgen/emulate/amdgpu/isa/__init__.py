"""What AMDGPU's instructions do. Each file registers decoders of its own (`decode.instruction`); importing this package loads them all."""

from gemmgen.emulate.amdgpu.isa import access, alu, atomics, compare, control, floating, integer, lanes, lds, matrix, scalar, scratch  # noqa: F401
