"""Batches of products of many sizes on a CUDA GPU: what they are, who multiplies them, and how long it takes."""

from gemmgen.timing.batches.cells import SUITES, Cell, Product, cells
from gemmgen.timing.batches.contender import FP32_TOLERANCE, BatchContender, BatchReference, Prepared
from gemmgen.timing.batches.device import DeviceBatch, padded_extents
from gemmgen.timing.batches.race import prepared, race_batches
from gemmgen.timing.batches.rivals import NAMES, ONE_SIZE, PADDED, rivals, suited

__all__ = [
    "FP32_TOLERANCE", "NAMES", "ONE_SIZE", "PADDED", "SUITES", "BatchContender", "BatchReference", "Cell", "DeviceBatch", "Prepared", "Product", "cells",
    "padded_extents", "prepared", "race_batches", "rivals", "suited",
]
