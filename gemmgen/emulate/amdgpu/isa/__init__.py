"""What AMDGPU's instructions do. Each file registers decoders of its own (`decode.instruction`); importing this package loads them all."""

from gemmgen.emulate.amdgpu.isa import (  # noqa: F401
    access, alu, atomics, compare, control, conversion, floating, integer, lanes, lds, matrix, packed, scalar, scratch,
)
