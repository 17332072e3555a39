"""Plain FP32 without a matrix unit, on CUDA cores or a VALU: the portable design's kernels with multiply-adds in the instruction's place."""

from __future__ import annotations

from gemmgen.designs.cuda_cores.design import CudaCores

DESIGN = CudaCores()
