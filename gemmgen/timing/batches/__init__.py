"""Batches of products of many sizes on a CUDA GPU: what they are, who multiplies them, and how long it takes."""

from gemmgen.timing.batches.cells import SUITES, Cell, Product, cells
from gemmgen.timing.batches.contender import FP32_TOLERANCE, BatchReference, Multiplier, prepared
from gemmgen.timing.batches.device import DeviceBatch, padded_extents
from gemmgen.timing.batches.rivals import NAMES, ONE_SIZE, PADDED, rivals, suited

__all__ = [
    "FP32_TOLERANCE", "NAMES", "ONE_SIZE", "PADDED", "SUITES", "BatchReference", "Cell", "DeviceBatch", "Multiplier", "Product", "cells", "padded_extents",
    "prepared", "rivals", "suited",
]
