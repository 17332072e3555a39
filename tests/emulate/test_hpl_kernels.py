"""The LU of `bench/programs/hpl.py`: its kernels as compiled, its schedule and its addresses, with the emulator in a GPU's place and NumPy in cuBLAS's."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import assembled
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER, Emulator

PATH = Path(__file__).resolve().parents[2] / "bench" / "programs" / "hpl.py"


def _program():
    found = importlib.util.spec_from_file_location("hpl", PATH)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


hpl = _program()


@cache
def ptx_of(shapes):
    # Addresses within a matrix are numbers here, which a parameter that is declared a pointer would not take.
    return re.sub(r"\.ptr (\.global )?\.align \d+ ", "", assembled.ptx_of(hpl.source(shapes), "sm_90a", "hpl.cu"))


class Emulated(hpl.Steps):
    """The steps on the emulator; a matrix is [size, size]."""

    def __init__(self, matrix, panel, leaves, schedule=TOGETHER, **options):
        size = len(matrix)
        shapes = tuple(leaves.values())
        self.machine = Emulator(ptx_of(shapes), UNITS.get("hopper"), schedule=schedule, source=hpl.source(shapes), source_name="hpl.cu", processes=1)
        self.buffers = (
            self.machine.upload(matrix.T, name="matrix"), self.machine.alloc(4 * size * size // panel, name="orders"),
            self.machine.alloc(4 * size * hpl.LEAF, name="inverses", fill=255),
        )
        self.products = 0
        super().__init__(size, panel, *(buffer.address for buffer in self.buffers), leaves=leaves, **options)

    def launch(self, name, grid, threads, shared, *arguments):
        self.machine.launch(name, (*grid, 1, 1)[:3], (threads, 1, 1), shared, arguments)

    def sgemm(self, m, n, k, a, b, c):
        self.products += 1
        matrix = self.found().copy()
        (row, inner), (also, column), to = (divmod((x - self.matrix) // 4, self.size)[::-1] for x in (a, b, c))
        assert also == inner and to == (row, column)
        matrix[row:row + m, column:column + n] -= matrix[row:row + m, inner:inner + k] @ matrix[inner:inner + k, column:column + n]
        self.machine._arena.fill(self.buffers[0], np.ascontiguousarray(matrix.T).reshape(-1).view(np.uint8))

    def found(self):
        return self.machine.read(self.buffers[0], np.float32, (self.size, self.size)).T

    def rows(self):
        return self.machine.read_partial(self.buffers[1], np.int32, (self.size // self.panel, self.size))[0][0]


def matrix_of(size, seed=1):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, (size, size)).astype(np.float32)


def judged(matrix, lu, rows, width=None):
    """Checks P A = L U of the first columns, and that L has no element above 1."""
    width = width or len(matrix)
    assert sorted(rows) == list(range(len(matrix)))
    lower, upper = np.tril(lu[:, :width], -1).astype(np.float64), np.triu(lu[:width, :width]).astype(np.float64)
    assert abs(lower).max() <= 1 + 1e-6
    np.testing.assert_allclose((lower + np.eye(len(lu), width)) @ upper, matrix[rows][:, :width], atol=1e-4)


def first_and_long(*cases):
    """The first case in every run, the others in long ones."""
    return [cases[0], *(pytest.param(*case, marks=pytest.mark.long) if isinstance(case, tuple) else pytest.param(case, marks=pytest.mark.long)
                        for case in cases[1:])]


ALL = pytest.mark.parametrize("schedule", first_and_long(LAZY_HIGHEST, TOGETHER, EAGER_LOWEST), ids=lambda s: s.name)


@ALL
@pytest.mark.parametrize(("ctas", "threads", "each", "step"), first_and_long((2, 64, 2, 8), (4, 64, 1, 8), (1, 64, 4, 8), (2, 128, 1, 4), (8, 32, 1, 16)))
def test_a_leaf(ctas, threads, each, step, schedule):
    """The second of a panel of three, of 256 rows all but 32: rows move on both sides, U's rows come out on the right, and the order is kept."""
    matrix = matrix_of(256)
    steps = Emulated(matrix, 256, {256: (ctas, threads, each, step)}, schedule)
    with steps.machine:
        steps.clear()
        steps.leaf(0, 32, 96)
        lu, rows = steps.found(), steps.rows()
        inverse = steps.machine.read(steps.buffers[2], np.float32, (8, 32, 32))[1].T
    judged(matrix[32:, 32:], lu[32:, 32:], rows[32:] - 32, 32)
    lower = np.tril(lu[32:64, 32:64], -1) + np.eye(32)
    np.testing.assert_allclose(inverse @ lower, np.eye(32), atol=1e-4)
    assert (lu[:, :32] == matrix[rows][:, :32]).all() and (lu[:, 96:] == matrix[:, 96:]).all()
    np.testing.assert_allclose(lower @ lu[32:64, 64:96], matrix[rows][32:64, 64:96], atol=1e-5)
    assert (lu[64:, 64:96] == matrix[rows][64:, 64:96]).all()


@ALL
def test_equal_elements_and_columns_of_zeros(schedule):
    """A column of zeros has no pivot, and one of equal elements any."""
    matrix = matrix_of(256)
    matrix[:, 5], matrix[:, 9] = 0, 0.25
    steps = Emulated(matrix, 256, {256: (2, 64, 2, 8)}, schedule)
    with steps.machine:
        steps.clear()
        steps.leaf(0, 0, 32)
        judged(matrix, steps.found(), steps.rows(), 32)


@pytest.mark.long
def test_a_leaf_as_it_is_on_a_gpu():
    """16 CTAs of 512 threads, of which most have no row here."""
    matrix = matrix_of(512)
    steps = Emulated(matrix, 256, {512: hpl.Steps.LEAVES[16384]})
    with steps.machine:
        steps.clear()
        steps.leaf(0, 0, 64)
        judged(matrix, steps.found(), steps.rows(), 32)


@pytest.mark.long
@pytest.mark.parametrize(("size", "panel", "tail", "small"), (
    (512, 256, 256, 0), (512, 256, 256, 1 << 30), (512, 256, 512, 0), (1024, 256, 512, 1 << 25), (1024, 512, 512, 0),
))
def test_a_whole_matrix(size, panel, tail, small):
    """Panels, a longer last one, products of the program's own; two blocks of a triangle."""
    matrix = matrix_of(size)
    steps = Emulated(matrix, panel, {size: (4, 128, size // 512, 8)}, small=small)
    with steps.machine:
        steps.clear()
        hpl.schedule(steps, size, panel, tail)
        judged(matrix, steps.found(), steps.rows())
    assert bool(steps.products) == (small < 1 << 30 and tail < size)


@pytest.mark.parametrize("fits", [True, False])
def test_the_order_of_rows_of_the_application(fits):
    """Of `gemmgen app hpl`: in shared memory, or where the order is to be."""
    from gemmgen.workshop.apps import dense

    pivots, rows = np.array([3, 2999, 2, 3, 17, 2999], np.int32), 3000
    machine = Emulator(assembled.ptx_of(dense.ORDER_OF, "sm_90a", "order_of.cu"), UNITS.get("hopper"), schedule=EAGER_LOWEST, source=dense.ORDER_OF,
                       source_name="order_of.cu", processes=1)
    with machine:
        given, order = machine.upload(pivots, name="pivots"), machine.alloc(4 * rows, name="order", fill=255)
        machine.launch("order_of", (1, 1, 1), (128, 1, 1), 4 * rows * fits, (given.address, len(pivots), rows, order.address, int(fits)))
        assert np.array_equal(machine.read(order, np.int32, (rows,)), dense.order_of(np, pivots, rows))
