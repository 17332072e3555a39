"""ELF64 files made by hand, to be read by what reads real ones."""

from __future__ import annotations

import struct

BASE = 0x1000  # a loaded file's addresses are its offsets and this


def elf(sections: list[dict], machine: int = 190) -> bytes:
    """An ELF64 file; a section is name, data, and optionally type, flags, size and link."""
    sections = [{"name": ""}, *sections, {"name": ".shstrtab", "type": 3}]
    names = b"".join(section["name"].encode() + b"\0" for section in sections)
    sections[-1]["data"] = names
    body, headers, at_name = b"", b"", 0
    for section in sections:
        data = section.get("data", b"")
        headers += struct.pack(
            "<IIQQQQIIQQ",
            at_name,
            section.get("type", 1),
            section.get("flags", 0),
            BASE + 64 + len(body),
            64 + len(body),
            section.get("size", len(data)),
            section.get("link", 0),
            *(0, 1, 0),
        )
        body += data
        at_name += len(section["name"]) + 1
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01" + bytes(9),
        *(2, machine, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, len(sections), len(sections) - 1),
    )
    return header + body + headers
