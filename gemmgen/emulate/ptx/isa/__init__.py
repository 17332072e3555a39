"""What the instructions of PTX do. Each file registers decoders of its own (`decode.instruction`); importing this package loads them all."""

from gemmgen.emulate.ptx.isa import bulk, cluster, copy, float, integer, mbarrier, memory, tcgen05, warp, wgmma, wmma  # noqa: F401
