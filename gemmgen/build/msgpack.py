"""MessagePack, the encoding of a code object's metadata, decoded without trust.

The format: https://github.com/msgpack/msgpack/blob/master/spec.md. Extension
types are refused, since no code object has any.
"""

from __future__ import annotations

import struct
from typing import Any

_NUMBERS = {
    0xCA: ">f", 0xCB: ">d",
    0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_COUNTS = (">B", ">H", ">I")
_BINARY, _TEXT, _ARRAY, _MAP = 0xC4, 0xD9, 0xDC, 0xDE  # the first code of each, with its smallest count
_DEEPEST = 32  # levels; metadata has five


def unpack(data: bytes) -> Any:
    """The one value that `data` holds: None, a bool, number, str, bytes, list or dict.

    Raises:
        ValueError: truncated, followed by more, nested deeper than 32 levels, an unknown
            type, text that is not UTF-8, or a map with a key that cannot be one.
    """
    reader = _Reader(data)
    value = reader.value(_DEEPEST)
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes follow the value")
    return value


class _Reader:
    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def value(self, levels: int) -> Any:
        if not levels:
            raise ValueError(f"values nested deeper than {_DEEPEST} levels")
        code = self.take(1)[0]
        if code < 0x80:
            return code
        if code < 0x90:
            return self.map(code & 0x0F, levels)
        if code < 0xA0:
            return self.array(code & 0x0F, levels)
        if code < 0xC0:
            return self.take(code & 0x1F).decode()
        if code >= 0xE0:
            return code - 0x100
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self.number(_NUMBERS[code])
        if _BINARY <= code < _BINARY + 3:
            return self.take(self.number(_COUNTS[code - _BINARY]))
        if _TEXT <= code < _TEXT + 3:
            return self.take(self.number(_COUNTS[code - _TEXT])).decode()
        if _ARRAY <= code < _ARRAY + 2:
            return self.array(self.number(_COUNTS[1 + code - _ARRAY]), levels)
        if _MAP <= code < _MAP + 2:
            return self.map(self.number(_COUNTS[1 + code - _MAP]), levels)
        raise ValueError(f"an unknown type, {code:#04x}")

    def take(self, size: int) -> bytes:
        taken = self.data[self.at : self.at + size]
        if len(taken) < size:
            raise ValueError(f"{len(self.data)} bytes, where byte {self.at + size} is referred to")
        self.at += size
        return taken

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def array(self, count: int, levels: int) -> list:
        return [self.value(levels - 1) for _ in range(count)]

    def map(self, count: int, levels: int) -> dict:
        result = {}
        for _ in range(count):
            key = self.value(levels - 1)
            if isinstance(key, (list, dict)):
                raise ValueError("a map with a key that is no single value")
            result[key] = self.value(levels - 1)
        return result
