"""Products of kernels on arrays of a GPU that is not there: what their launches are told."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.timing import products


class OnPaper:
    """An array: an address and strides.

    Args:
        row, apart: elements from row to row, and from matrix to matrix of a batch.
    """

    def __init__(self, address: int, shape: tuple[int, ...], row: int | None = None, apart: int | None = None, itemsize: int = 4):
        self.data, self.shape, self.itemsize = SimpleNamespace(ptr=address), shape, itemsize
        self.strides = tuple(itemsize * one for one in (*([] if apart is None else [apart]), row or shape[-1], 1))


def multiplier(monkeypatch, plan: Plan, prepared: Callable[[str, int, list[Any]], Any], spaces: list[np.ndarray]) -> tuple[products.Multiplier, Source]:
    """The plan's, and its source.

    Args:
        prepared: what stands for a launch, of its symbol, its blocks and its arguments (kind, value).
        spaces: gets each workspace, bytes of 7.
    """

    class Device:
        def __init__(self, binary: Any):
            pass

        def prepared(self, symbol, blocks, threads, shared, args, overlaps, *, direct):
            return prepared(symbol, blocks, args)

    def empty(count, kind):
        spaces.append(np.full(count, 7, np.uint8))
        return spaces[-1]

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(empty=empty, uint8=np.uint8))
    monkeypatch.setattr(products, "CudaDevice", Device)
    source = render(plan)
    return products.Multiplier(SimpleNamespace(plan=plan, source=source, binary=None)), source
