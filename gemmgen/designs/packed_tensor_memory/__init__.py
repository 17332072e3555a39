"""Batches of large products whose sums are in tensor memory: the packed design's pass and list, the tensor-memory design's kernel (tcgen05)."""

from __future__ import annotations

from gemmgen.designs.packed_tensor_memory.design import PackedTensorMemory

DESIGN = PackedTensorMemory()
