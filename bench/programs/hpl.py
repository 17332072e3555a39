"""LU with partial pivoting as HPL does it, on one GPU: panels, row swaps and triangular solves of the program's own, and cuBLAS's SGEMM for the products.

    python bench/programs/hpl.py [judge] [--size 16384] [--seeds 1,2,3] [--panel 256] [--tail 512] [--small 0]

A leaf of 32 columns is factored by one cluster of CTAs, whose threads hold its rows in registers; what is left of a panel of 256 columns is updated by
products of the program's own; above that columns are halved, as HPL's panels are, so that most products have long sums. The factorization is one CUDA graph.

`judge` prints the shortest time of a replay in ms and the mean of HPL's scaled residual over matrices of the seeds, computed in FP64; `time` in its place the
time alone; `parts` what a leaf takes by its kernel and its rows, and what the kinds of steps take by themselves. All print lines of JSON. The program needs
CuPy and a GPU of compute capability 9.0, and knows nothing of any other library.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
from pathlib import Path

LEAF, PANEL, TAIL = 32, 256, 512
"""Columns that a cluster factors at once, of a panel, and of the last panel, so that no small products are left for cuBLAS."""
SOLVED = 256
"""Rows of a triangle that one kernel solves for."""
STAGED = 2 * 32 * 256 * 4
"""Bytes of shared memory that it stages blocks in."""
SMS, MOST_ROWS = 132, 16384

KERNELS = Path(__file__).with_suffix(".cu").read_text()


def schedule(steps, size: int, panel: int, tail: int) -> None:
    """Factor a matrix of `size` columns, in place: what is done, in order. `steps` does it.

    Args:
        steps: has `leaf(first, column, width)`: factors 32 columns of a panel of `width` columns from `first` on, moves rows in the panel and solves for the
            32 rows right of them in it; `rest(column, end)`: updates the panel's columns behind the leaf; `swap(of, column, columns, extra)`: moves rows from
            `of` on, in the order of what was factored there, in some columns and, where `extra` says so, in the order of the left neighbour;
            `solve(first, size, column, columns)`: rows from `first` on become U's; `product(row, rows, inner, k, column, columns)`: subtracts a product of
            L's `k` columns from `inner` on.
        panel: columns of a panel.
        tail: columns of the last panel.
    """
    def triangle(first: int, height: int, column: int, columns: int) -> None:
        if height <= panel:
            steps.solve(first, height, column, columns)
            return
        half = height // 2
        triangle(first, half, column, columns)
        steps.product(first + half, height - half, first, half, column, columns)
        triangle(first + half, height - half, column, columns)

    def factor(first: int, width: int) -> None:
        end = first + width
        if width <= (tail if end == size else panel):
            for column in range(first, end, LEAF):
                steps.leaf(first, column, width)
                if column + LEAF < end:
                    steps.rest(column, end)
            return
        half = width // 2
        middle = first + half
        factor(first, half)
        steps.swap(first, middle, width - half, None)
        triangle(first, half, middle, width - half)
        steps.product(middle, size - middle, first, half, middle, width - half)
        factor(middle, width - half)
        steps.swap(middle, first, half, first)

    factor(0, size)


def name_of(shape: tuple[int, int, int, int]) -> str:
    """Of a leaf's kernel: CTAs, threads, rows of a thread, columns of a loop's pass."""
    return "leaf_" + "_".join(map(str, shape))


def source(shapes) -> str:
    """The kernels' text, with leaves of these shapes."""
    text = "".join(f"LEAF({', '.join(map(str, shape))})\n" for shape in sorted(set(shapes)))
    return KERNELS.replace("LEAVES\n", text, 1)


class Steps:
    """The steps of `schedule`: which kernel does each, and on what. How a kernel is launched, and who multiplies, a subclass says.

    Args:
        size, panel: columns of the matrix and of a panel.
        matrix: address of [size, size] in column order.
        orders: of [size / panel, size] int32, the order of rows of each panel and of what begins with it; the first row is the matrix's in the end.
        inverses: of [size / 32, 32, 32], of the diagonal blocks.
        leaves: a leaf's kernel by the most rows that it takes.
        only: kinds of steps to do, to see what they cost; all where it is None.
        small: products of fewer multiplications are the program's own.

    Raises:
        ValueError: the kernels are not made for such a matrix or panel.
    """

    LEAVES = {16384: (16, 512, 2, 4), 8192: (16, 256, 2, 8), 4096: (16, 256, 1, 8), 2048: (8, 256, 1, 8)}

    def __init__(self, size: int, panel: int, matrix: int, orders: int, inverses: int, *, leaves=None, only=None, small: int = 0):
        halvings = max(0, (size // panel).bit_length() - 1)
        if panel % SOLVED or size != panel << halvings or size > MOST_ROWS:
            raise ValueError(f"size {size}, panel {panel}: needs a multiple of {SOLVED} columns, a power of two of such panels, {MOST_ROWS} rows at most")
        self.size, self.panel, self.matrix, self.orders, self.inverses, self.only, self.small = size, panel, matrix, orders, inverses, only, small
        self.leaves = dict(sorted((leaves or self.LEAVES).items()))

    def launch(self, name: str, grid: tuple[int, ...], threads: int, shared: int, *arguments: int) -> None:
        """Launch a kernel, with bytes of dynamic shared memory."""
        raise NotImplementedError

    def sgemm(self, m: int, n: int, k: int, a: int, b: int, c: int) -> None:
        """C -= A B, of addresses in the matrix."""
        raise NotImplementedError

    def at(self, row: int, column: int) -> int:
        return self.matrix + 4 * (row + column * self.size)

    def order(self, first: int, row: int = 0) -> int:
        return self.orders + 4 * (first // self.panel * self.size + row)

    def skips(self, kind: str) -> bool:
        return self.only is not None and kind not in self.only

    def clear(self) -> None:
        """Rows in order."""
        self.launch("identity", (self.size // 256, self.size // self.panel), 256, 0, self.orders, self.size)

    def leaf(self, first: int, column: int, width: int) -> None:
        if self.skips("leaf"):
            return
        shape = next(shape for most, shape in self.leaves.items() if most >= self.size - column)
        before = column - first
        self.launch(name_of(shape), (shape[0],), shape[1], 0, self.at(column, column), self.size, self.size - column, before, width - LEAF - before,
                    self.order(first, before), self.inverses + 4 * LEAF * column)

    def own_product(self, row: int, rows: int, inner: int, k: int, column: int, columns: int) -> None:
        self.launch("multiply", (-(-rows // 128), -(-columns // 64)), 256, 0, self.at(row, inner), self.at(inner, column), self.at(row, column), self.size,
                    rows, columns, k)

    def rest(self, column: int, end: int) -> None:
        row = column + LEAF
        if not self.skips("rest") and row < self.size:
            self.own_product(row, self.size - row, column, LEAF, row, end - row)

    def swap(self, of: int, column: int, columns: int, extra: int | None) -> None:
        if self.skips("swap"):
            return
        each = -(-(columns + 1) // SMS)
        self.launch("reorder", (-(-(columns + 1) // each),), 1024, 4 * (self.size - of), self.at(of, column), self.size, self.size - of, columns, each,
                    self.order(of), 0 if extra is None else self.order(extra, of - extra))

    def solve(self, first: int, height: int, column: int, columns: int) -> None:
        if self.skips("solve"):
            return
        for row in range(first, first + height, SOLVED):
            each = 4 if columns <= 32 * SMS else 8
            self.launch(f"solve_{each}", (-(-columns // (8 * each)),), 256, STAGED, self.at(row, row), self.inverses + 4 * LEAF * row, self.at(row, column),
                        self.size, columns)
            below = first + height - row - SOLVED
            if below:
                self.own_product(row + SOLVED, below, row, SOLVED, column, columns)

    def product(self, row: int, rows: int, inner: int, k: int, column: int, columns: int) -> None:
        if rows * columns * k < self.small:
            if not self.skips("small"):
                self.own_product(row, rows, inner, k, column, columns)
        elif not self.skips("product"):
            self.sgemm(rows, columns, k, self.at(row, inner), self.at(inner, column), self.at(row, column))


class Device(Steps):
    """On a GPU by CuPy, enqueued in the current stream; `begin` is called once that is current.

    Args:
        shapes: of leaves that are compiled, so that several of these share a module; those of `leaves` where it is None.

    Attributes:
        here: the matrix, overwritten; rows: the order of its rows, once it is factored.
    """

    def __init__(self, size: int, panel: int, *, shapes=None, **options):
        import cupy
        import numpy

        self.here, self.of_panels = cupy.zeros((size, size), numpy.float32, order="F"), cupy.empty((size // panel, size), numpy.int32)
        self.blocks, self.workspace = cupy.empty((size // LEAF, LEAF, LEAF), numpy.float32), cupy.empty(32 << 20, numpy.uint8)
        self.rows = self.of_panels[0]
        super().__init__(size, panel, *(array.data.ptr for array in (self.here, self.of_panels, self.blocks)), **options)
        names = ["multiply", "solve_4", "solve_8", "reorder", "identity", *map(name_of, set(self.leaves.values()))]
        module = cupy.RawModule(code=source(shapes or self.leaves.values()), options=("-std=c++17",), backend="nvrtc")
        self.kernels = {name: module.get_function(name) for name in names}
        for name, kernel in self.kernels.items():
            if name.startswith("leaf"):
                # 14: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, which clusters of more than 8 CTAs need.
                status = ctypes.CDLL("libcuda.so.1").cuFuncSetAttribute(ctypes.c_void_p(kernel.kernel.ptr), 14, 1)
                assert not status, f"cuFuncSetAttribute: {status}"
        self.kernels["solve_4"].max_dynamic_shared_size_bytes = self.kernels["solve_8"].max_dynamic_shared_size_bytes = STAGED
        self.kernels["reorder"].max_dynamic_shared_size_bytes = 4 * size
        # CuPy's own functions refuse a stream that is being captured.
        cupy.cuda.device.get_cublas_handle()
        with open("/proc/self/maps") as maps:
            self.blas = ctypes.CDLL(next(line.split()[-1] for line in maps if "/libcublas.so" in line))
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self.blas.cublasSgemm_v2.argtypes = [pointer, *[integer] * 5, pointer, pointer, integer, pointer, integer, pointer, pointer, integer]
        self.handle, self.one, self.minus = pointer(), ctypes.c_float(1), ctypes.c_float(-1)
        status = self.blas.cublasCreate_v2(ctypes.byref(self.handle))
        assert not status, f"cublasCreate: {status}"

    def begin(self) -> None:
        """To the stream that is current now; not during a capture."""
        import cupy

        assert not self.blas.cublasSetStream_v2(self.handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
        assert not self.blas.cublasSetWorkspace_v2(self.handle, ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(self.workspace.nbytes))

    def launch(self, name: str, grid: tuple[int, ...], threads: int, shared: int, *arguments: int) -> None:
        self.kernels[name](grid, (threads,), arguments, shared_mem=shared)

    def sgemm(self, m: int, n: int, k: int, a: int, b: int, c: int) -> None:
        status = self.blas.cublasSgemm_v2(self.handle, 0, 0, m, n, k, ctypes.addressof(self.minus), a, self.size, b, self.size, ctypes.addressof(self.one), c,
                                          self.size)
        assert not status, f"cublasSgemm: {status}"


def captured(steps: Device, stream, enqueue):
    """What `enqueue` enqueues, as a CUDA graph; it is done once before, as functions are loaded when they are first called."""
    import cupy

    cupy.cuda.Device().synchronize()
    with stream:
        steps.begin()
        enqueue()
        stream.synchronize()
        stream.begin_capture()
        enqueue()
        return stream.end_capture()


def graph_of(steps: Device, stream, tail: int):
    """The factorization as a CUDA graph."""
    def enqueue():
        steps.clear()
        schedule(steps, steps.size, steps.panel, tail)

    return captured(steps, stream, enqueue)


def milliseconds(graph, stream, before, repeats: int) -> float:
    """The shortest time of a replay; `before` is enqueued ahead of each, and is not timed."""
    import cupy

    times = []
    for _ in range(repeats):
        with stream:
            before()
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            graph.launch(stream)
            end.record(stream)
        end.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, end)))
    return min(times)


def random_matrix(size: int, seed: int):
    """A and b with elements in [-1/2, 1/2)."""
    import cupy

    rng = cupy.random.default_rng(seed)
    return cupy.asfortranarray(rng.random((size, size), dtype=cupy.float32) - 0.5), rng.random(size, dtype=cupy.float32) - 0.5


def residual(a, b, lu, rows) -> float:
    """HPL's scaled residual of the solution that the factors give."""
    import cupyx.scipy.linalg

    y = cupyx.scipy.linalg.solve_triangular(lu, b[rows], lower=True, unit_diagonal=True)
    return residual_of(a, b, cupyx.scipy.linalg.solve_triangular(lu, y))


def residual_of(a, b, x) -> float:
    """HPL's scaled residual of a solution x [n], computed in FP64."""
    import cupy

    exact, rest, norm = x.astype(cupy.float64), b.astype(cupy.float64), 0.0
    for first in range(0, len(a), 2048):
        part = a[first:first + 2048].astype(cupy.float64)
        rest[first:first + 2048] -= part @ exact
        norm = max(norm, float(abs(part).sum(axis=1).max()))
    return float(abs(rest).max()) / (2.0 ** -23 * (norm * float(abs(exact).max()) + float(abs(b).max())) * len(a))


SHAPES = {16384: ((16, 256, 4, 8), (16, 512, 2, 8), (16, 512, 2, 4)), 8192: ((16, 256, 2, 8), (16, 512, 1, 8), (8, 512, 2, 8)),
          4096: ((16, 256, 1, 8), (8, 512, 1, 8), (8, 256, 2, 8)), 2048: ((16, 128, 1, 8), (8, 256, 1, 8), (4, 512, 1, 8))}
"""Kernels of a leaf that `parts` compares."""


def parts(size: int, panels, tails, smalls) -> None:
    """Print lines of JSON: a leaf's time by its kernel, and the factorization's by kinds of steps."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    source_matrix, _ = random_matrix(size, 1)
    compiled = [*Steps.LEAVES.values(), *itertools.chain(*SHAPES.values())]
    for rows, shapes in SHAPES.items():
        for shape in shapes if rows <= size else ():
            steps = Device(size, 256, leaves={rows: shape}, shapes=compiled)
            column, leaves = size - rows, 8
            try:
                # Eight leaves in one place, each over what the last one left: rows stay as many, and times do not depend on values.
                graph = captured(steps, stream, lambda: [steps.leaf(column, column, 256) for _ in range(leaves)])
                ms = milliseconds(graph, stream, lambda: cupy.copyto(steps.here, source_matrix), 5) / leaves
            except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
                print(json.dumps({"leaf": rows, "shape": shape, "error": str(error)}), flush=True)
                continue
            print(json.dumps({"leaf": rows, "shape": shape, "us": 1e3 * ms, "us a column": 1e3 * ms / LEAF}), flush=True)
    # Small, so that nothing overflows where steps are left out.
    source_matrix *= 1e-6
    cupy.cuda.Device().synchronize()
    for panel, tail, small in itertools.product(panels, tails, smalls):
        if tail < panel:
            continue
        found = {}
        for kinds in (None, {"leaf"}, {"rest"}, {"swap"}, {"solve"}, {"small"}, {"product"}):
            steps = Device(size, panel, only=kinds, small=small, shapes=compiled)
            graph = graph_of(steps, stream, tail)
            found[", ".join(kinds or ["all"])] = milliseconds(graph, stream, lambda: cupy.copyto(steps.here, source_matrix), 3)
        print(json.dumps({"panel": panel, "tail": tail, "small": small, "ms": found}), flush=True)


def main() -> None:
    import cupy
    import numpy

    numbers = lambda text: [int(float(one)) for one in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="judge", choices=("judge", "time", "parts"))
    parser.add_argument("others", nargs="*", help="not looked at")
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--panel", type=numbers, default=[PANEL], help="columns of a panel; of `parts`, several")
    parser.add_argument("--tail", type=numbers, default=[TAIL], help="columns of the last panel; likewise")
    parser.add_argument("--small", type=numbers, default=[0], help="products of fewer multiplications are the program's own; likewise")
    options = parser.parse_args()
    if options.what == "parts":
        parts(options.size, options.panel, options.tail, options.small)
        return
    stream = cupy.cuda.Stream(non_blocking=True)
    steps = Device(options.size, options.panel[0], small=options.small[0])
    graph = graph_of(steps, stream, options.tail[0])
    found, errors = [], []
    for seed in options.seeds:
        a, b = random_matrix(options.size, seed)
        cupy.cuda.Device().synchronize()
        found.append(milliseconds(graph, stream, lambda: cupy.copyto(steps.here, a), 3))
        if options.what == "judge":
            errors.append(residual(a, b, steps.here, steps.rows.astype(numpy.int64)))
    error = sum(errors) / len(errors) if errors else None
    print(json.dumps({"name": "LU, as HPL: own panels", "ms": min(found), "error": error, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
