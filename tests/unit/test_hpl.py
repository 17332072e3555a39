"""What of `bench/programs/hpl.py` needs neither a GPU nor its kernels: the schedule factors a matrix, and at the size that is measured every address is in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

_FOUND = importlib.util.spec_from_file_location("hpl", Path(__file__).resolve().parents[2] / "bench" / "programs" / "hpl.py")
hpl = importlib.util.module_from_spec(_FOUND)
_FOUND.loader.exec_module(hpl)


class InNumPy:
    """The steps as they are meant, [size, size] in FP64; `orders` holds what each panel's rows, and those of what begins with it, became."""

    def __init__(self, matrix, panel):
        self.matrix, self.panel, self.size = matrix.copy(), panel, len(matrix)
        self.orders = {first: np.arange(first, self.size) for first in range(0, self.size, panel)}

    def leaf(self, first, column, width):
        order = self.orders[first]
        for j in range(column, column + hpl.LEAF):
            pivot = j + int(abs(self.matrix[j:, j]).argmax())
            if pivot != j:
                self.matrix[[j, pivot], first:first + width] = self.matrix[[pivot, j], first:first + width]
                order[[j - first, pivot - first]] = order[[pivot - first, j - first]]
            self.matrix[j + 1:, j] /= self.matrix[j, j]
            self.matrix[j + 1:, j + 1:column + hpl.LEAF] -= np.outer(self.matrix[j + 1:, j], self.matrix[j, j + 1:column + hpl.LEAF])
        self.solve(column, hpl.LEAF, column + hpl.LEAF, first + width - column - hpl.LEAF)

    def rest(self, column, end):
        row = column + hpl.LEAF
        self.product(row, self.size - row, column, hpl.LEAF, row, end - row)

    def swap(self, of, column, columns, extra):
        order = self.orders[of]
        self.matrix[of:, column:column + columns] = self.matrix[order, column:column + columns]
        if extra is not None:
            self.orders[extra][of - extra:] = self.orders[extra][of - extra:][order - of]

    def solve(self, first, height, column, columns):
        rows, block = slice(first, first + height), slice(column, column + columns)
        lower = np.tril(self.matrix[rows, rows], -1) + np.eye(height)
        self.matrix[rows, block] = np.linalg.solve(lower, self.matrix[rows, block])

    def product(self, row, rows, inner, k, column, columns):
        left, right = self.matrix[row:row + rows, inner:inner + k], self.matrix[inner:inner + k, column:column + columns]
        self.matrix[row:row + rows, column:column + columns] -= left @ right


@pytest.mark.parametrize(("size", "panel", "tail"), [(256, 64, 64), (256, 64, 128), (512, 32, 128), (256, 256, 256)])
def test_the_schedule_factors_a_matrix(size, panel, tail):
    matrix = np.random.default_rng(size + tail).uniform(-0.5, 0.5, (size, size))
    steps = InNumPy(matrix, panel)
    hpl.schedule(steps, size, panel, tail)
    lower, upper = np.tril(steps.matrix, -1), np.triu(steps.matrix)
    assert sorted(steps.orders[0]) == list(range(size)) and abs(lower).max() <= 1
    np.testing.assert_allclose((lower + np.eye(size)) @ upper, matrix[steps.orders[0]], atol=1e-10)


class Told(hpl.Steps):
    """What would be launched and multiplied, at addresses from 0 on."""

    def __init__(self, size, panel):
        self.launched, self.multiplied = [], []
        super().__init__(size, panel, 0, 1 << 40, 1 << 50)

    def launch(self, name, grid, threads, shared, *arguments):
        self.launched.append((name, grid, threads, shared, arguments))

    def sgemm(self, m, n, k, a, b, c):
        self.multiplied.append((m, n, k, a, b, c))


def test_at_the_size_that_is_measured():
    size = 16384
    steps = Told(size, hpl.PANEL)
    steps.clear()
    hpl.schedule(steps, size, hpl.PANEL, hpl.TAIL)
    # Of 2/3 size^3 multiplications and additions cuBLAS has nearly all, in few products with long sums.
    work = sum(2 * m * n * k for m, n, k, *_ in steps.multiplied)
    assert len(steps.multiplied) == 191 and min(k for _, _, k, *_ in steps.multiplied) == 256 and 0.95 < work / (2 / 3 * size ** 3) < 1
    for m, n, k, a, b, c in steps.multiplied:
        for address, rows, columns in ((a, m, k), (b, k, n), (c, m, n)):
            column, row = divmod(address // 4, size)
            assert row + rows <= size and column + columns <= size
    names = [name for name, *_ in steps.launched]
    assert sum(name.startswith("leaf") for name in names) == size // hpl.LEAF and names.count("identity") == 1
    for name, grid, threads, shared, arguments in steps.launched:
        assert all(extent > 0 for extent in grid) and threads <= 1024 and shared <= 227 << 10
        if name.startswith("leaf"):
            ctas, of_cta, each, _ = map(int, name.split("_")[1:])
            rows = arguments[2]
            assert grid == (ctas,) and threads == of_cta and rows <= ctas * of_cta * each and 0 < rows
            assert arguments[0] == 4 * (size - rows) * (size + 1)


@pytest.mark.parametrize(("size", "panel"), [(32768, 512), (1536, 512), (1024, 384), (256, 512)])
def test_sizes_that_the_kernels_do_not_take(size, panel):
    with pytest.raises(ValueError, match=f"size {size}, panel {panel}"):
        Told(size, panel)
