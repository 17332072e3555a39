"""Tensor maps: what tells a bulk copy where the boxes of a tensor lie.

The driver's encoding of a map is its own affair, so the emulator has one of its own. A kernel only
hands the 128 bytes on, and cannot tell the difference.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from gemmgen.emulate.core.memory import GLOBAL_BASE, Arena, Buffer, Fault
from gemmgen.errors import EmulationError

_MAGIC = b"gemmgen tensor"
_FORMAT = "<14sBBHxxxxxxQ5I4Q5H"  # magic, dimensions, element bytes, swizzle, base, extents, strides, box
_SWIZZLES = (0, 32, 64, 128)
_DIMENSIONS, _LONGEST_BOX, _GRAIN = 5, 256, 16


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory, and the box of it that one copy brings; the innermost dimension first.

    Attributes:
        base: where it begins.
        element_bytes: of an element.
        extents: elements along each dimension.
        strides: bytes from one element to the next along each dimension but the first,
            which is contiguous.
        box: elements of a box along each dimension.
        swizzle: 0, 32, 64 or 128: how many bytes of shared memory each row of a box may
            fill, the 16-byte chunks of which are permuted.

    Raises:
        EmulationError: a GPU would not take such a map.
    """

    base: Buffer | int
    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0

    def __post_init__(self):
        count = len(self.extents)
        if not 1 <= count <= _DIMENSIONS or len(self.box) != count or len(self.strides) != count - 1:
            needs = f"1 to {_DIMENSIONS} extents, as many sizes of the box, one stride less"
            self._refuse("its dimensions do not fit", needs)
        if self.swizzle not in _SWIZZLES:
            self._refuse("no such swizzle", f"one of {_SWIZZLES}")
        if self.address % _GRAIN or any(stride % _GRAIN for stride in self.strides):
            self._refuse("base or strides are not aligned", f"multiples of {_GRAIN} bytes")
        if min(self.extents) < 1 or min(self.box) < 1 or max(self.box) > _LONGEST_BOX:
            needs = f"extents of at least 1, boxes of 1 to {_LONGEST_BOX} elements a side"
            self._refuse("an extent or a side of the box does not fit", needs)
        row = self.box[0] * self.element_bytes
        if row % _GRAIN or self.swizzle and row > self.swizzle:
            needs = f"a multiple of {_GRAIN} bytes" + (f", {self.swizzle} at the most" if self.swizzle else "")
            self._refuse(f"rows of a box have {row} bytes", needs)

    def _refuse(self, problem: str, needs: str):
        raise EmulationError("tensor map", problem, got=self, needs=needs)

    @property
    def address(self) -> int:
        return self.base.address if isinstance(self.base, Buffer) else self.base

    @property
    def nbytes(self) -> int:
        """Of a box."""
        return int(np.prod(self.box)) * self.element_bytes

    def encode(self) -> bytes:
        """The 128 bytes of a kernel's parameter."""
        return struct.pack(
            _FORMAT, _MAGIC, len(self.extents), self.element_bytes, self.swizzle, self.address,
            *_filled(self.extents, 5), *_filled(self.strides, 4), *_filled(self.box, 5),
        ).ljust(128, b"\0")  # fmt: skip

    @classmethod
    def decode(cls, content: bytes) -> TensorMap:
        magic, count, element, swizzle, base, *rest = struct.unpack(_FORMAT, content[: struct.calcsize(_FORMAT)])
        if magic != _MAGIC:
            raise Fault(
                "the bytes of a tensor map are not one of the emulator's",
                needs="gemmgen.emulate.TensorMap(...).encode() as the parameter",
            )
        extents, strides, box = rest[:5], rest[5:9], rest[9:]
        return cls(base, element, tuple(extents[:count]), tuple(strides[: count - 1]), tuple(box[:count]), swizzle)

    def fetch(self, arena: Arena, at: tuple[int, ...]) -> np.ndarray:
        """The bytes of the box whose first element is `at`; zero outside the tensor."""
        out = np.zeros((*self.box[:0:-1], self.box[0] * self.element_bytes), np.uint8)
        for where, source, nbytes in self.pieces(at):
            out[where] = arena.load_range(source, nbytes)
        return out.reshape(-1)

    def pieces(self, at: tuple[int, ...]) -> Iterator[tuple[tuple, int, int]]:
        """What of that box lies in the tensor: its place in the box, its offset in global memory and its bytes."""
        first, past = max(at[0], 0), min(at[0] + self.box[0], self.extents[0])
        if past <= first:
            return
        inside = slice((first - at[0]) * self.element_bytes, (past - at[0]) * self.element_bytes)
        start = self.address - GLOBAL_BASE + first * self.element_bytes
        for index in product(*(range(size) for size in self.box[1:])):
            place = [here + step for here, step in zip(at[1:], index, strict=True)]
            if all(0 <= each < extent for each, extent in zip(place, self.extents[1:], strict=True)):
                source = start + sum(each * stride for each, stride in zip(place, self.strides, strict=True))
                yield (*index[::-1], inside), source, (past - first) * self.element_bytes

    def swizzled(self, content: np.ndarray, target: int) -> np.ndarray:
        """A box's bytes in the order they have in shared memory from address `target` on."""
        if not self.swizzle:
            return content
        address = target + _GRAIN * np.arange(len(content) // _GRAIN)
        place = ((address ^ (address >> 7 & self.swizzle // 16 - 1) << 4) - target) // _GRAIN
        out = np.empty((len(content) // _GRAIN, _GRAIN), np.uint8)
        out[place] = content.reshape(-1, _GRAIN)
        return out.reshape(-1)


def _filled(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return (*values, *(0,) * (count - len(values)))
