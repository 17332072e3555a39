"""What stands between products: tiles factored and solved for, in FP32 on the CPU (SciPy) or on a CUDA GPU (cuSOLVER, cuBLAS through cupy)."""

from __future__ import annotations

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


def _solver(xp: Any, where: str) -> Any:
    if xp is np:
        return scipy_linalg(where)
    import cupyx.scipy.linalg

    return cupyx.scipy.linalg


def triangular_solved(xp: Any, triangle: Any, right: Any, *, lower: bool, unit: bool = False, transposed: bool = False) -> Any:
    """X [n, columns] of op(T) X = B for a triangle T [n, n] and B [n, columns], in their type."""
    if xp is not np:  # what it would copy is the row-major matrix; the memory of its transpose is column major
        triangle, lower, transposed = triangle.T, not lower, not transposed
    return _solver(xp, "triangular_solved").solve_triangular(
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
        return
    from cupy.cuda import cusolver, device

    # getrf takes column-major matrices: the transpose's memory. No pivots where it is given no place for them.
    n, handle = len(tile), device.get_cusolver_handle()
    columns = xp.ascontiguousarray(tile.T)
    cusolver.setStream(handle, xp.cuda.get_current_stream().ptr)
    get, size = (cusolver.dgetrf, cusolver.dgetrf_bufferSize) if tile.dtype == np.float64 else (cusolver.sgetrf, cusolver.sgetrf_bufferSize)
    work, info = xp.empty(size(handle, n, n, columns.data.ptr, n), tile.dtype), xp.empty(1, np.int32)
    try:
        get(handle, n, n, columns.data.ptr, n, work.data.ptr, 0, info.data.ptr)
    except cusolver.CUSOLVERError as error:
        raise DeviceError("unpivoted_lu", "cuSOLVER refuses a tile", got=str(error), needs="a tile without zeros on its diagonal") from error
    tile[...] = columns.T
