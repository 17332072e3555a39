"""ELF64 containers: the sections and symbols of a cubin, a code object or a library.

Every offset is checked before it is followed, so a truncated or foreign file is
a BuildError and never an IndexError. The layout is the System V ABI's.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from gemmgen.errors import BuildError

SYMBOL_TABLE = 2  # SHT_SYMTAB
NOTE = 7  # SHT_NOTE
NO_BITS = 8  # SHT_NOBITS: has a size, but no bytes in the file
DYNAMIC_SYMBOLS = 11  # SHT_DYNSYM: those a loader may ask for
FUNCTION = 2  # STT_FUNC

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")


@dataclass(frozen=True)
class Section:
    """One section header; `offset` (in the file) and `size` are in bytes, `address` is where it is loaded."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int


@dataclass(frozen=True)
class Symbol:
    """One symbol; `section` is an index into `Elf.sections`, `value` an address where the file
    is one that is loaded, `size` in bytes."""

    name: str
    kind: int
    other: int
    section: int
    value: int
    size: int


class Elf:
    """A little-endian ELF64 file.

    Args:
        data: the whole file, in memory or mapped.
        where: what messages call the file.
        machine: which it has to be for, (number, name of the constant); None for any.

    Raises:
        BuildError: not ELF64, for another machine, or some header points outside the file.
    """

    def __init__(self, data: bytes | mmap.mmap, where: str, machine: tuple[int, str] | None = None):
        self._data = memoryview(data)
        self._where = where
        magic = bytes(self._data[:6])
        if magic != b"\x7fELF\x02\x01":
            raise BuildError(where, "is not a little-endian 64-bit ELF file", got=magic)
        header = _HEADER.unpack(self.slice(0, _HEADER.size))
        if machine and header[2] != machine[0]:
            raise BuildError(where, "is an ELF file for another machine", got=header[2], needs=f"{machine[0]} ({machine[1]})")
        program_offset, section_offset = header[5:7]
        program_size, programs, section_size, sections, names = header[9:14]
        if sections and section_size != _SECTION.size:
            raise self.damaged("its section headers have a foreign size", got=section_size)
        self.slice(program_offset, programs * program_size)
        rows = list(_SECTION.iter_unpack(self.slice(section_offset, sections * _SECTION.size)))
        if rows and names >= len(rows):
            raise self.damaged("its section names are in a section that is not there", got=names)
        strings = self.slice(rows[names][4], rows[names][5]) if rows else b""
        self.sections = tuple(
            Section(self._string(strings, row[0]), row[1], row[2], *row[3:8]) for row in rows
        )
        for section in self.sections:
            self.content(section)  # all of them lie inside the file

    def damaged(self, problem: str, got: object = None) -> BuildError:
        return BuildError(self._where, f"is damaged: {problem}", got=got)

    def slice(self, offset: int, size: int) -> memoryview:
        """Bytes [offset, offset + size); a BuildError where the file is shorter."""
        end = offset + size
        if end > len(self._data):
            raise self.damaged(f"it has {len(self._data)} bytes and refers to byte {end}")
        return self._data[offset:end]

    def content(self, section: Section) -> memoryview:
        return self.slice(section.offset, 0 if section.type == NO_BITS else section.size)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """The symbol table in file order, because attributes refer to an index into it."""
        return self._symbols(SYMBOL_TABLE)

    @cached_property
    def dynamic_symbols(self) -> tuple[Symbol, ...]:
        """What a loader may ask for; it is there in a stripped file, too."""
        return self._symbols(DYNAMIC_SYMBOLS)

    def _symbols(self, kind: int) -> tuple[Symbol, ...]:
        table = next((s for s in self.sections if s.type == kind), None)
        if table is None:
            return ()
        if table.size % _SYMBOL.size:
            raise self.damaged("its symbol table ends inside a row")
        if table.link >= len(self.sections):
            raise self.damaged("its symbol names are in a section that is not there")
        strings = self.content(self.sections[table.link])
        return tuple(
            Symbol(self._string(strings, name), info & 0xF, *rest)
            for name, info, *rest in _SYMBOL.iter_unpack(self.content(table))
        )

    def loaded(self, symbol: Symbol) -> memoryview:
        """The bytes a symbol of a loaded file names."""
        if symbol.section >= len(self.sections):
            raise self.damaged("a symbol is in a section that is not there", got=symbol.name)
        home = self.sections[symbol.section]
        start = symbol.value - home.address
        if home.type == NO_BITS or start < 0 or start + symbol.size > home.size:
            raise self.damaged("a symbol lies outside its section", got=symbol.name)
        return self.slice(home.offset + start, symbol.size)

    def notes(self) -> Iterator[tuple[bytes, int, memoryview]]:
        """Owner, type and content of every note."""
        for section in self.sections:
            if section.type != NOTE:
                continue
            data, at = self.content(section), 0
            while at + _NOTE.size <= len(data):
                name_size, size, kind = _NOTE.unpack_from(data, at)
                start = at + _NOTE.size + _padded(name_size)
                if start + size > len(data):
                    raise self.damaged("a note runs past its section")
                owner = bytes(data[at + _NOTE.size : at + _NOTE.size + name_size]).rstrip(b"\0")
                yield owner, kind, data[start : start + size]
                at = start + _padded(size)

    def _string(self, strings: memoryview, start: int) -> str:
        # Names end at a zero byte; the limit keeps a damaged table from costing quadratic time.
        text, end, _ = bytes(strings[start : start + 4096]).partition(b"\0")
        if not end:
            raise self.damaged("a name runs past its table")
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise self.damaged("a name is not text", got=text) from None


def _padded(size: int) -> int:
    return -(-size // 4) * 4
