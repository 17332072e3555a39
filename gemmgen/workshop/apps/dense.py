"""What stands between products: tiles factored and solved for, in FP32 on the CPU (SciPy) or on a CUDA GPU (cuSOLVER, cuBLAS through cupy)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gemmgen.errors import DeviceError, GemmgenError


def scipy_linalg(where: str) -> Any:
    """SciPy's factorizations.

    Raises:
        GemmgenError: it is not installed.
    """
    try:
        from scipy import linalg
    except ImportError as error:
        raise GemmgenError(where, "SciPy is not installed; it factors the tiles", got=str(error).splitlines()[0], needs="scipy",
                           remedy="pip install 'gemmgen[apps]'") from None
    return linalg


def special(xp: Any) -> Any:
    """SciPy's special functions, or cupy's of the same names.

    Raises:
        GemmgenError: SciPy is not installed.
    """
    if xp is not np:
        import cupyx.scipy.special

        return cupyx.scipy.special
    scipy_linalg("gemmgen app")
    from scipy import special as found

    return found


def solver(xp: Any, where: str) -> Any:
    """SciPy's factorizations and solvers, or cupy's of the same names.

    Raises:
        GemmgenError: SciPy is not installed.
    """
    if xp is np:
        return scipy_linalg(where)
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg


def triangular_solved(xp: Any, triangle: Any, right: Any, *, lower: bool, unit: bool = False, transposed: bool = False) -> Any:
    """X [n, columns] of op(T) X = B for a triangle T [n, n] and B [n, columns], in their type."""
    if xp is not np:  # what it would copy is the row-major matrix; the memory of its transpose is column major
        triangle, lower, transposed = triangle.T, not lower, not transposed
    return solver(xp, "triangular_solved").solve_triangular(
        triangle, right, lower=lower, unit_diagonal=unit, trans=int(transposed), check_finite=False,
    )


def cholesky(xp: Any, tile: Any) -> Any:
    """The lower factor L [n, n] of a tile A = L L^T, in its type.

    Raises:
        GemmgenError: the tile is not positive definite.
    """
    try:
        lower = np.linalg.cholesky(tile) if xp is np else xp.linalg.cholesky(tile)
    except np.linalg.LinAlgError as error:
        raise GemmgenError("cholesky", "a tile is not positive definite", got=str(error), needs="a positive definite matrix, and products near enough to it",
                           remedy="--by a scheme of more bits") from None
    return lower


def unpivoted_lu(xp: Any, tile: Any) -> None:
    """A tile [n, n] becomes its factors in place, without pivots: U on and above the diagonal, L, whose diagonal is 1, below.

    Rows of the tile are contiguous.

    Raises:
        DeviceError: cuSOLVER refuses.
    """
    if xp is np:
        for at in range(len(tile) - 1):
            tile[at + 1 :, at] /= tile[at, at]
            tile[at + 1 :, at + 1 :] -= np.outer(tile[at + 1 :, at], tile[at, at + 1 :])
    else:
        _getrf(xp, tile, 0)


def pivoted_lu(xp: Any, panel: Any) -> tuple[Any, Any]:
    """A panel [rows, columns], no wider than high, becomes its factors in place, with partial pivots.

    Returns:
        (to, source), [2 columns] each: in other columns of the same rows, row `source[i]` goes to `to[i]`. Rows that stay, and rows twice, are among them.

    Raises:
        GemmgenError: SciPy is not installed; DeviceError: cuSOLVER refuses.
    """
    rows, columns = panel.shape
    if xp is np:
        [getrf] = scipy_linalg("pivoted_lu").get_lapack_funcs(("getrf",), (panel,))
        panel[...], pivots, _ = getrf(panel)
    else:
        pivots = xp.empty(columns, np.int32)
        _getrf(xp, panel, pivots.data.ptr)
        pivots -= 1
    to = xp.concatenate([xp.arange(columns), pivots])
    return to, order_of(xp, pivots, rows)[to]


def order_of(xp: Any, pivots: Any, rows: int) -> Any:
    """[rows], which row comes to stand where, after each row has changed places with its pivot's in turn; pivots as SciPy counts them, from 0."""
    if xp is np:
        order = np.arange(rows)
        for at, pivot in enumerate(pivots):
            order[[at, pivot]] = order[[pivot, at]]
        return order
    order, fits = xp.empty(rows, np.int32), 4 * rows <= ORDERS_BYTES
    _order_of(xp)((1,), (1024,), (pivots, np.int32(len(pivots)), np.int32(rows), order, np.int32(fits)), shared_mem=4 * rows * fits)
    return order


ORDERS_BYTES = 200 << 10
"""Of shared memory, for the order of a panel's rows; a longer one lies in the GPU's memory."""
ORDER_OF = """
extern "C" __global__ void order_of(const int* pivots, int count, int rows, int* order, int fits)
{
    extern __shared__ int shared[];
    int* const here = fits ? shared : order;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) here[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < count; ++i) {
            const int other = pivots[i], kept = here[i];
            here[i] = here[other];
            here[other] = kept;
        }
    __syncthreads();
    if (fits) for (int i = threadIdx.x; i < rows; i += blockDim.x) order[i] = here[i];
}
"""


@cache
def _order_of(xp: Any) -> Any:
    kernel = xp.RawKernel(ORDER_OF, "order_of")
    kernel.max_dynamic_shared_size_bytes = ORDERS_BYTES
    return kernel


def _getrf(xp: Any, tile: Any, pivots: int) -> None:
    """cuSOLVER's factors of a matrix, in place.

    Args:
        pivots: address of a place for them; without one, 0, there are none.
    """
    from cupy.cuda import cusolver, device

    # getrf takes column-major matrices: the transpose's memory.
    (m, n), handle = tile.shape, device.get_cusolver_handle()
    columns = xp.ascontiguousarray(tile.T)
    cusolver.setStream(handle, xp.cuda.get_current_stream().ptr)
    get, size = (cusolver.dgetrf, cusolver.dgetrf_bufferSize) if tile.dtype == np.float64 else (cusolver.sgetrf, cusolver.sgetrf_bufferSize)
    work, info = xp.empty(size(handle, m, n, columns.data.ptr, m), tile.dtype), xp.empty(1, np.int32)
    try:
        get(handle, m, n, columns.data.ptr, m, work.data.ptr, pivots, info.data.ptr)
    except cusolver.CUSOLVERError as error:
        raise DeviceError("getrf", "cuSOLVER refuses a tile", got=str(error), needs="a tile without zeros on its diagonal, where it has no pivots") from error
    tile[...] = columns.T


@cache
def _beside(cuda: Any) -> Any:
    """A stream whose blocks go before those of the product that runs; one, as cupy keeps memory apart for each."""
    return cuda.Stream(non_blocking=True, priority=-1)


class Ahead:
    """Work beside the current stream of a GPU, as `with` says it; it begins after what was enqueued so far, and `join` has what follows wait for it.

    Without a GPU it is done at once.
    """

    def __init__(self, xp: Any):
        self._cuda = None if xp is np else xp.cuda
        self._stream = None if self._cuda is None else _beside(self._cuda)

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.wait_event(self._cuda.get_current_stream().record())
            self._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.__exit__(*error)

    def join(self) -> None:
        if self._stream is not None:
            self._cuda.get_current_stream().wait_event(self._stream.record())
