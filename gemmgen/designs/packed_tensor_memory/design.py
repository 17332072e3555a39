"""The tensor-memory design for products of many sizes."""

from __future__ import annotations

from gemmgen.designs.packed.design import PackedProducts, features_of, text_of
from gemmgen.designs.tensor_memory.design import TensorMemory


class PackedTensorMemory(PackedProducts, TensorMemory):
    name = "packed_tensor_memory"
    features = features_of(TensorMemory)
    text = text_of(TensorMemory)
    section = "tcgen05"
