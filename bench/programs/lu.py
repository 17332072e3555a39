"""LU of a 16384 x 16384 matrix by cupyx.scipy.linalg.lu_factor, and in blocks and recursively as HPL does it, by cuBLAS's own functions.

    python bench/programs/lu.py [judge]
"""

import json, sys
import cupy, numpy
import cupyx.scipy.linalg
from cupy.cuda import cublas, cusolver, device

from hpl import random_matrix, residual_of

N, WIDTH, LEAF = 16384, 512, 256
a, b = random_matrix(N, 1)
one, minus = numpy.array(1, numpy.float32), numpy.array(-1, numpy.float32)

def handles():
    """Of cuBLAS and cuSOLVER, for the current stream."""
    blas, solver = device.get_cublas_handle(), device.get_cusolver_handle()
    cublas.setPointerMode(blas, cublas.CUBLAS_POINTER_MODE_HOST)
    stream = cupy.cuda.get_current_stream().ptr
    cublas.setStream(blas, stream)
    cusolver.setStream(solver, stream)
    return blas, solver

def whole(matrix):
    return cupyx.scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)

def blocked(matrix):
    """Right-looking: panel, row swaps, triangular solve, update; matrix is overwritten. Gives (LU, rows' order)."""
    blas, solver = handles()
    order = cupy.arange(N)
    pivots, info = cupy.empty(WIDTH, numpy.int32), cupy.empty(1, numpy.int32)
    work = cupy.empty(cusolver.sgetrf_bufferSize(solver, N, WIDTH, matrix.data.ptr, N), numpy.float32)
    at = lambda i, j: matrix.data.ptr + 4 * (i + j * N)
    for j in range(0, N, WIDTH):
        rows, right = N - j, N - j - WIDTH
        cusolver.sgetrf(solver, rows, WIDTH, at(j, j), N, work.data.ptr, pivots.data.ptr, info.data.ptr)
        moved = numpy.arange(rows)
        for i, pivot in enumerate(pivots.get() - 1):
            moved[i], moved[pivot] = moved[pivot], moved[i]
        to = numpy.flatnonzero(moved != numpy.arange(rows))
        to, source = cupy.asarray(to + j), cupy.asarray(moved[to] + j)
        for part in (matrix[:, :j], matrix[:, j + WIDTH:]):
            if part.size:
                part[to] = part[source]
        order[to] = order[source]
        if right:
            cublas.strsm(blas, cublas.CUBLAS_SIDE_LEFT, cublas.CUBLAS_FILL_MODE_LOWER, cublas.CUBLAS_OP_N, cublas.CUBLAS_DIAG_UNIT, WIDTH, right,
                         one.ctypes.data, at(j, j), N, at(j, j + WIDTH), N)
            cublas.sgemm(blas, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, right, right, WIDTH, minus.ctypes.data, at(j + WIDTH, j), N,
                         at(j, j + WIDTH), N, one.ctypes.data, at(j + WIDTH, j + WIDTH), N)
    return matrix, order

ROWS = cupy.RawModule(code="""
extern "C" __global__ void order_of(const int* pivots, int first, int width, int rows, int* order)
{
    extern __shared__ int at[];
    for (int i = threadIdx.x; i < rows; i += blockDim.x) at[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < width; ++i) {
            const int other = pivots[first + i] - first, kept = at[i];
            at[i] = at[other];
            at[other] = kept;
        }
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) order[i] = at[i];
}

extern "C" __global__ void reorder(float* matrix, long long stride, int rows, const int* order)
{
    extern __shared__ float column[];
    float* const here = matrix + blockIdx.x * stride;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) column[i] = here[i];
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) here[i] = column[order[i]];
}
""")
order_of, reorder = ROWS.get_function("order_of"), ROWS.get_function("reorder")
order_of.max_dynamic_shared_size_bytes = reorder.max_dynamic_shared_size_bytes = 4 * N

def recursive(matrix):
    """Recursive over columns, as HPL factors its panels (and Toledo whole matrices): most products have long sums. Gives (LU, rows' order)."""
    blas, solver = handles()
    pivots, order, info = cupy.empty(N, numpy.int32), cupy.empty(N, numpy.int32), cupy.empty(1, numpy.int32)
    work = cupy.empty(cusolver.sgetrf_bufferSize(solver, N, LEAF, matrix.data.ptr, N), numpy.float32)
    at = lambda i, j: matrix.data.ptr + 4 * (i + j * N)

    def update(m, n, k, a, b, c):
        cublas.sgemm(blas, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, m, n, k, minus.ctypes.data, a, N, b, N, one.ctypes.data, c, N)

    def triangle(first, size, column, columns):
        """Rows from `first` on of some columns become those of U."""
        if size <= LEAF:
            cublas.strsm(blas, cublas.CUBLAS_SIDE_LEFT, cublas.CUBLAS_FILL_MODE_LOWER, cublas.CUBLAS_OP_N, cublas.CUBLAS_DIAG_UNIT, size, columns,
                         one.ctypes.data, at(first, first), N, at(first, column), N)
            return
        half = size // 2
        triangle(first, half, column, columns)
        update(size - half, columns, half, at(first + half, first), at(first, column), at(first + half, column))
        triangle(first + half, size - half, column, columns)

    def factor(first, width):
        rows = N - first
        if width <= LEAF:
            cusolver.sgetrf(solver, rows, width, at(first, first), N, work.data.ptr, pivots.data.ptr + 4 * first, info.data.ptr)
            pivots[first:first + width] += first - 1
            return
        half = width // 2
        factor(first, half)
        order_of((1,), (1024,), (pivots, first, half, rows, order), shared_mem=4 * rows)
        reorder((width - half,), (1024,), (at(first, first + half), N, rows, order), shared_mem=4 * rows)
        triangle(first, half, first + half, width - half)
        update(rows - half, width - half, half, at(first + half, first), at(first, first + half), at(first + half, first + half))
        factor(first + half, width - half)
        order_of((1,), (1024,), (pivots, first + half, width - half, rows - half, order), shared_mem=4 * rows)
        reorder((half,), (1024,), (at(first + half, first), N, rows - half, order), shared_mem=4 * rows)

    factor(0, N)
    order_of((1,), (1024,), (pivots, 0, N, N, order), shared_mem=4 * N)
    return matrix, order.astype(numpy.int64)

def solved(factors):
    lu, rows = factors
    if len(rows) == N and rows.dtype == numpy.int64:
        y = cupyx.scipy.linalg.solve_triangular(lu, b[rows], lower=True, unit_diagonal=True)
        return cupyx.scipy.linalg.solve_triangular(lu, y)
    return cupyx.scipy.linalg.lu_solve(factors, b)

for name, factor in (("lu_factor of cupyx", whole), ("LU in blocks, as HPL", blocked), ("LU, recursive", recursive)):
    times = []
    for repeat in range(3):
        matrix = a.copy(order="F")
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        factors = factor(matrix)
        end.record()
        end.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, end)))
    judged = residual_of(a, b, solved(factors)) if "judge" in sys.argv else None
    print(json.dumps({"name": name, "ms": min(times), "error": judged}), flush=True)
