"""The host's side of an emulated GPU: buffers in global memory, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from gemmgen.emulate.core.memory import Arena, Buffer
from gemmgen.errors import EmulationError


class HostMemory:
    """Global memory as the host sees it.

    Args:
        variables: the module's variables: name, bytes, initial value or None for zeros.
    """

    def __init__(self, variables: Sequence[tuple[str, int, bytes | None]]):
        self._variables = tuple(variables)
        self._closed = False
        self._arena = Arena(1 << 12)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def forget(self) -> dict[str, int]:
        """As newly made, without reading the program again: no buffers, and the module's variables as they were.

        Returns:
            The addresses of the variables, which are the same each time.
        """
        self._open()
        self._arena = Arena()
        addresses = {}
        for name, nbytes, initial in self._variables:
            buffer = self.alloc(nbytes, name=name, fill=0)
            if initial:
                self._arena.fill(buffer, np.frombuffer(initial, np.uint8))
            addresses[name] = buffer.address
        return addresses

    def close(self) -> None:
        """Let go of the memory; the emulator is of no use afterwards."""
        self._closed = True
        self._arena = Arena(1 << 12)

    def _open(self) -> None:
        if self._closed:
            raise EmulationError("emulator", "it has been closed", remedy=f"make a new {type(self).__name__}")

    def alloc(self, nbytes: int, *, name: str, fill: int | None = None) -> Buffer:
        """A buffer in global memory.

        Args:
            nbytes: its length.
            name: as errors call it.
            fill: the value of every byte; None leaves it uninitialised, and
                reading it is an error until something is written there.
        """
        self._open()
        buffer = self._arena.allocate(int(nbytes), name)
        if fill is not None:
            self._arena.fill(buffer, fill)
        return buffer

    def alloc_end(self, nbytes: int, kept: int, *, name: str, fill: int | None = None) -> Buffer:
        """As `alloc`, of which only the last `kept` bytes may be touched, and take memory."""
        self._open()
        start = max(0, nbytes - kept)
        buffer = self._arena.allocate(int(nbytes), name, parts=[(start, nbytes - start)])
        if fill is not None:
            self._arena.write(buffer, start, bytes([fill]) * (nbytes - start))
        return buffer

    def upload(self, array: np.ndarray, *, name: str, offset: int = 0) -> Buffer:
        """A buffer with the bytes of `array` in it.

        Args:
            offset: bytes by which its address misses a multiple of 256.
        """
        self._open()
        data = np.ascontiguousarray(array)
        buffer = self._arena.allocate(data.nbytes, name, offset)
        self._arena.fill(buffer, data.reshape(-1).view(np.uint8))
        return buffer

    def upload_rows(self, array: np.ndarray, *, name: str, ld: int, stride: int = 0, offset: int = 0, origin: int = 0) -> Buffer:
        """A buffer that holds the rows of matrices and nothing else: what lies between two rows may not be touched, and takes no memory.

        Args:
            array: `[matrices, rows, columns]`.
            ld, stride: elements from row to row and from matrix to matrix, however many.
            offset: bytes by which its address misses a multiple of 256.
            origin: elements from the buffer's start to the first row.
        """
        self._open()
        places = list(_rows(array.shape, array.itemsize, ld, stride, origin))
        nbytes = array.shape[2] * array.itemsize
        buffer = self._arena.allocate(max(places, default=0) + nbytes, name, offset, [(at, nbytes) for at in places])
        for at, row in zip(places, array.reshape(len(places), array.shape[2])):
            self._arena.write(buffer, at, row.tobytes())
        return buffer

    def read_rows(self, buffer: Buffer, dtype, shape: tuple[int, int, int], *, ld: int, stride: int = 0, origin: int = 0) -> np.ndarray:
        """What `upload_rows` has put there, as it is now: `[matrices, rows, columns]`."""
        self._open()
        dtype = np.dtype(dtype)
        nbytes = shape[2] * dtype.itemsize
        rows = [self._arena.read(buffer, at, nbytes).view(dtype) for at in _rows(shape, dtype.itemsize, ld, stride, origin)]
        return np.array(rows, dtype).reshape(shape)

    def read(self, buffer: Buffer, dtype, shape) -> np.ndarray:
        """A buffer's content as an array.

        Raises:
            EmulationError: nothing has written some of its bytes, or the shape does not fit.
        """
        array, written = self.read_partial(buffer, dtype, shape)
        if not written.all():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmin(written)), written.shape))
            raise EmulationError(
                f"buffer `{buffer.name}`",
                "the kernel did not write all of it",
                got=f"element {at} is the first of {int((~written).sum())} of {written.size} missing",
                needs="every element to be written",
            )
        return array

    def read_partial(self, buffer: Buffer, dtype, shape) -> tuple[np.ndarray, np.ndarray]:
        """The array, and a bool array of the same shape: which elements were written."""
        self._open()
        data, written = self._arena.contents(buffer)
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = int(np.prod(shape)) * dtype.itemsize
        if nbytes > buffer.nbytes:
            raise EmulationError(
                f"buffer `{buffer.name}`", "is too short for that shape",
                got=f"{shape} of {dtype}", needs=f"{nbytes} bytes", has=f"{buffer.nbytes} bytes",
            )  # fmt: skip
        array = data[:nbytes].view(dtype).reshape(shape)
        return array, written[:nbytes].reshape(-1, dtype.itemsize).all(1).reshape(shape)


def _rows(shape: tuple[int, ...], itemsize: int, ld: int, stride: int, origin: int) -> Iterator[int]:
    """The bytes from a buffer's start at which each row of each matrix begins."""
    for matrix in range(shape[0]):
        for row in range(shape[1]):
            yield (origin + matrix * stride + row * ld) * itemsize
