"""Memory that knows which of its bytes may be touched.

Beside every byte lies its state: guard, allocated, written, the target of a
copy still in flight, or part of an mbarrier. Each access is checked, as one vector, for bounds,
alignment and state; the first lane that errs becomes a `Fault`.
"""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gemmgen.errors import EmulationError

ALLOCATED, WRITTEN, FLYING, OPAQUE = 1, 2, 4, 8  # bits of a byte's state
GLOBAL_BASE = 1 << 36
"""Address of the arena's first byte; small integers used as pointers miss it."""
SHARED_WINDOW = 1 << 47
"""Where shared memory lies among generic addresses."""
_GUARD_BYTES = 1 << 20  # between buffers: a stride error of a whole row still lands in it
_ALIGN = 256
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python's module does not name everywhere

DTYPES = {size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)} | {16: np.dtype(np.complex128)}
"""What an access of each size moves; complex128 is only ever moved, as 16 bytes."""


def _repeat(state: int) -> dict[int, np.generic]:
    return {size: np.array([state] * min(size, 8), np.uint8).view(DTYPES[min(size, 8)])[0] for size in DTYPES}


_READY = _repeat(ALLOCATED | WRITTEN)
_STORE_MASK, _STORE_OK = _repeat(ALLOCATED | FLYING | OPAQUE), _repeat(ALLOCATED)
_IN_FLIGHT = _repeat(FLYING)
_READY_16 = np.array([ALLOCATED | WRITTEN] * 16, np.uint8).view(np.complex128)[0]


class Fault(Exception):
    """What a lane did wrong; the machine adds where and turns it into an EmulationError.

    Attributes:
        lane: index of the first offender in the warp vector, or None for the whole warp.
        part: which of the instructions that run as one erred.
    """

    part = 0

    def __init__(self, problem: str, *, lane=None, got=None, needs=None, remedy=None):
        super().__init__(problem)
        self.problem, self.lane, self.got, self.needs, self.remedy = problem, lane, got, needs, remedy


class at_part:
    """Tells a fault which of the instructions that run as one it is of."""

    def __init__(self, part: int):
        self.part = part

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, trace):
        if isinstance(fault, Fault):
            fault.part = self.part
        return False


class at_lane:
    """Tells a fault which lane it is of, where it does not say itself."""

    def __init__(self, lane: int):
        self.lane = lane

    def __enter__(self):
        return self

    def __exit__(self, kind, fault, trace):
        if isinstance(fault, Fault) and fault.lane is None:
            fault.lane = self.lane
        return False


class Space:
    """Bytes and their states, addressed by offset.

    Args:
        data, state: `[nbytes]` uint8, a multiple of 16 long.
    """

    def __init__(self, data: np.ndarray, state: np.ndarray):
        self.bind(data, state)

    def bind(self, data: np.ndarray, state: np.ndarray) -> None:
        self.nbytes = len(data)
        self.data = {size: data.view(dtype) for size, dtype in DTYPES.items()}
        self.state = {size: state.view(dtype) for size, dtype in DTYPES.items()}

    def describe(self, offset: int) -> str:
        raise NotImplementedError

    def load(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """`size` bytes at each of `[n]` int64 offsets, as an unsigned integer
        (complex128 for 16 bytes)."""
        index = self._index(offsets, size, "read")
        state = self.state[size].take(index)
        ready = (state.view(np.uint64) if size == 16 else state) == _READY[size]
        if np.count_nonzero(ready) != ready.size:
            self._refuse(offsets, ready, size, "read")
        return self.data[size].take(index)

    def store(self, offsets: np.ndarray, size: int, values: np.ndarray) -> None:
        """Write `[n]` values; of lanes that write the same place the last one wins."""
        index = self._index(offsets, size, "write")
        state = self.state[size].take(index)
        open_ = (state.view(np.uint64) if size == 16 else state) & _STORE_MASK[size] == _STORE_OK[size]
        if np.count_nonzero(open_) != open_.size:
            self._refuse(offsets, open_, size, "write")
        self.data[size][index] = values
        self.state[size][index] = _READY_16 if size == 16 else _READY[size]

    def reserve(self, offsets: np.ndarray, size: int) -> None:
        """Mark the targets of copies in flight: nobody may touch them until they land."""
        index = self._index(offsets, size, "write")
        state = self.state[size].take(index)
        words = state.view(np.uint64) if size == 16 else state
        open_ = words & _STORE_MASK[size] == _STORE_OK[size]
        if not open_.all():
            self._refuse(offsets, open_, size, "write")
        self.state[size][index] = (words | _IN_FLIGHT[size]).view(state.dtype)

    def land(self, offsets: np.ndarray, size: int, values: np.ndarray) -> None:
        """The copies arrive."""
        index = offsets // size
        self.data[size][index] = values
        self.state[size][index] = _READY_16 if size == 16 else _READY[size]

    # Ranges of bytes, as bulk copies have them:
    def load_range(self, offset: int, nbytes: int) -> np.ndarray:
        """`nbytes` bytes from `offset` on."""
        self._check_range(offset, nbytes, _READY[1], np.uint8(255), "read")
        return self.data[1][offset : offset + nbytes]

    def reserve_range(self, offset: int, nbytes: int) -> None:
        """`reserve` of `nbytes` bytes."""
        self._check_range(offset, nbytes, _STORE_OK[1], _STORE_MASK[1], "write")
        self.state[1][offset : offset + nbytes] |= FLYING

    def land_range(self, offset: int, values: np.ndarray) -> None:
        self.data[1][offset : offset + len(values)] = values
        self.state[1][offset : offset + len(values)] = _READY[1]

    def _check_range(self, offset: int, nbytes: int, wanted, mask, verb: str) -> None:
        good = np.zeros(nbytes, bool)
        if 0 <= offset <= self.nbytes:
            state = self.state[1][offset : offset + nbytes]
            good[: len(state)] = state & mask == wanted
        if not good.all():
            try:
                self._refuse(np.array([offset + int(np.argmin(good))]), np.zeros(1, bool), 1, verb)
            except Fault as fault:
                fault.lane = None
                fault.got = f"{fault.got}, in a copy of {nbytes} bytes from {self.describe(offset)} on"
                raise

    def _index(self, offsets: np.ndarray, size: int, verb: str) -> np.ndarray:
        """Element index of each access, after checking bounds and alignment."""
        if offsets.view(np.uint64).max() > self.nbytes - size:  # a negative one is huge
            good = (offsets >= 0) & (offsets <= self.nbytes - size)
            self._refuse(offsets, good, size, verb)
        if size == 1:
            return offsets
        if np.bitwise_or.reduce(offsets) & (size - 1):
            lane = int(np.argmax(offsets & (size - 1) != 0))
            raise Fault(
                f"an access of {size} bytes is not aligned",
                lane=lane,
                got=self.describe(int(offsets[lane])),
                needs=f"an address that is a multiple of {size}",
            )
        return offsets >> (size.bit_length() - 1)

    def _refuse(self, offsets: np.ndarray, good: np.ndarray, size: int, verb: str):
        """Say what is wrong with the first access that is not good."""
        lane = int(np.argmin(good.reshape(len(offsets), -1).all(1)))
        offset = int(offsets[lane])
        states = np.zeros(size, np.uint8)
        inside = np.arange(max(offset, 0), max(0, min(offset + size, self.nbytes)))
        states[inside - offset] = self.state[1][inside]
        if not (states & ALLOCATED).all():
            problem = f"a {verb} of {size} bytes reaches outside its buffer"
            at = offset + int(np.argmax(states & ALLOCATED == 0))
        elif (states & FLYING).any():
            problem = f"a {verb} touches shared memory that a copy in flight has not yet filled for certain"
            at = offset + int(np.argmax(states & FLYING != 0))
        elif (states & OPAQUE).any():
            problem = f"a {verb} touches an mbarrier, which only mbarrier instructions may"
            at = offset + int(np.argmax(states & OPAQUE != 0))
        else:
            problem = f"a {verb} of memory that nothing has written"
            at = offset + int(np.argmax(states & WRITTEN == 0))
        if at != offset:
            got = f"{self.describe(offset)}; byte {at - offset} of the access is the first wrong one"
        else:
            got = self.describe(offset)
        raise Fault(problem, lane=lane, got=got)


class SharedMemory(Space):
    """Memory of the blocks of a strip, one after the other.

    Args:
        blocks: how many.
        nbytes: of each, static and dynamic together.

    Attributes:
        each: bytes of a block; pitch: bytes from one block's to the next one's.
        name: as messages call it.
    """

    name = "shared memory"

    def __init__(self, blocks: int, nbytes: int):
        self.each, self.pitch = nbytes, max(16, -(-nbytes // 16) * 16)
        state = np.zeros((blocks, self.pitch), np.uint8)
        state[:, :nbytes] = ALLOCATED
        super().__init__(np.zeros(blocks * self.pitch, np.uint8), state.reshape(-1))

    def offsets(self, addresses: np.ndarray, base: np.ndarray, size: int) -> np.ndarray:
        """Offsets of each block's own addresses; `base` is its block times the pitch."""
        if addresses.view(np.uint64).max() > self.each - size:  # a negative one is huge
            lane = int(np.argmax((addresses < 0) | (addresses > self.each - size)))
            raise Fault(
                f"an access of {size} bytes reaches outside {self.name}",
                lane=lane,
                got=f"{self.name} + {int(addresses[lane])} of {self.each} bytes",
            )
        return addresses + base

    def describe(self, offset: int) -> str:
        return f"{self.name} + {offset % self.pitch} of {self.each} bytes"


@dataclass(frozen=True)
class Buffer:
    """A piece of global memory.

    Attributes:
        name: as messages call it.
        address: as the kernel sees it.
    """

    name: str
    address: int
    nbytes: int


class Arena(Space):
    """Global memory: buffers between guards, in mappings that forked workers share.

    It grows by moving to a larger mapping, which is why nothing may be
    allocated while a kernel runs. Only pages that something touches take memory.
    """

    def __init__(self, nbytes: int = 1 << 22):
        self.buffers: list[Buffer] = []
        self._pieces: dict[Buffer, list[slice]] = {}  # of buffers that are allocated in parts
        self._next = _GUARD_BYTES
        super().__init__(shared_bytes(nbytes), shared_bytes(nbytes))

    def allocate(self, nbytes: int, name: str, misalign: int = 0, parts: Sequence[tuple[int, int]] | None = None) -> Buffer:
        """A new buffer, `misalign` bytes past a multiple of 256.

        Args:
            parts: (offset, bytes) of those parts that may be touched, where the rest may not; None for the whole buffer.
        """
        start = self._next + misalign
        following = -(-(start + nbytes + _GUARD_BYTES) // _ALIGN) * _ALIGN
        if following + 16 > self.nbytes:
            self._grow(max(2 * self.nbytes, following + 4096))
        self._next = following
        buffer = Buffer(name, GLOBAL_BASE + start, nbytes)
        self.buffers.append(buffer)
        pieces = [slice(start, start + nbytes)] if parts is None else [slice(start + at, start + at + size) for at, size in parts]
        for piece in pieces:
            self.state[1][piece] = ALLOCATED
        if parts is not None:
            self._pieces[buffer] = pieces
        return buffer

    def _grow(self, nbytes: int) -> None:
        old_data, old_state = self.data[1], self.state[1]
        nbytes = -(-nbytes // 4096) * 4096
        self.bind(shared_bytes(nbytes), shared_bytes(nbytes))
        for buffer in self.buffers:
            for part in self._pieces.get(buffer, [self.slice(buffer)]):
                self.data[1][part], self.state[1][part] = old_data[part], old_state[part]

    def slice(self, buffer: Buffer) -> slice:
        """Where a buffer of its own lies, or a part of one."""
        if buffer not in self.buffers and not any(
            isinstance(buffer, Buffer) and one.name == buffer.name
            and one.address <= buffer.address <= buffer.address + buffer.nbytes <= one.address + one.nbytes for one in self.buffers
        ):
            raise EmulationError(
                f"buffer `{getattr(buffer, 'name', buffer)}`", "is not a buffer of this emulator"
            )
        start = buffer.address - GLOBAL_BASE
        return slice(start, start + buffer.nbytes)

    def fill(self, buffer: Buffer, content: np.ndarray | int) -> None:
        """Set all bytes of a buffer, which then counts as written."""
        part = self.slice(buffer)
        self.data[1][part] = content
        self.state[1][part] = ALLOCATED | WRITTEN

    def contents(self, buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
        """`[nbytes]` uint8 and `[nbytes]` bool: the bytes, and which were written."""
        part = self.slice(buffer)
        return self.data[1][part].copy(), (self.state[1][part] & WRITTEN) != 0

    def write(self, buffer: Buffer, offset: int, content: bytes) -> None:
        """Set some bytes of a buffer."""
        start = self.slice(buffer).start + offset
        self.data[1][start : start + len(content)] = np.frombuffer(content, np.uint8)
        self.state[1][start : start + len(content)] = ALLOCATED | WRITTEN

    def read(self, buffer: Buffer, offset: int, nbytes: int) -> np.ndarray:
        """`[nbytes]` uint8: some bytes of a buffer, whether or not something has written them."""
        start = self.slice(buffer).start + offset
        return self.data[1][start : start + nbytes].copy()

    def clear(self, buffer: Buffer) -> None:
        """Nothing has written the buffer any more."""
        self.state[1][self.slice(buffer)] = ALLOCATED

    def load_partly(self, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """4 bytes at each of `[n]` offsets as uint32, and likewise which of their bits nothing has written."""
        index = self._index(offsets, 4, "read")
        written = self.state[4].take(index) >> np.uint32(1) & np.uint32(0x01010101)
        return self.data[4].take(index), ~(written * np.uint32(0xFF))

    def describe(self, offset: int) -> str:
        address = offset + GLOBAL_BASE
        index = bisect_right([buffer.address for buffer in self.buffers], address) - 1
        if index >= 0:
            below = self.buffers[index]
            past = address - below.address
            if index + 1 < len(self.buffers) and past >= below.nbytes:
                above = self.buffers[index + 1]
                if above.address - address < past - below.nbytes:
                    return f"{above.address - address} bytes before buffer `{above.name}`"
            return f"buffer `{below.name}` + {past} of {below.nbytes} bytes"
        if address == 0:
            return "address 0, the null pointer"
        if self.buffers and 0 <= self.buffers[0].address - address <= 2 * _GUARD_BYTES:
            return f"{self.buffers[0].address - address} bytes before buffer `{self.buffers[0].name}`"
        return f"address {address:#x}, far from every buffer"


def shared_bytes(nbytes: int) -> np.ndarray:
    """Zeroed memory that processes forked later share; it goes when they do, and takes none before it is touched."""
    return np.frombuffer(mmap.mmap(-1, nbytes, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | _NO_RESERVE), np.uint8)
