"""Plain FP32 on the CUDA cores, no matrix unit: the portable design's kernels with multiply-adds in the instruction's place."""

from __future__ import annotations

from gemmgen.designs.cuda_cores.design import CudaCores

DESIGN = CudaCores()
