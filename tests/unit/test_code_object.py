"""The code object reader against code objects put together by hand; tests/compile has the real ones."""

from __future__ import annotations

import random
import struct

import pytest
from elf_file import BASE, elf
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen.build import msgpack
from gemmgen.build.code_object import Argument, CodeObjectResources, read_code_object
from gemmgen.build.elf import Elf
from gemmgen.errors import BuildError
from gemmgen.verify.record import resources

# --- MessagePack ------------------------------------------------------------------------------


def packed(value) -> bytes:
    """The shortest MessagePack of a value."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        data = value.encode()
        return counted(len(data), (0xA0, 32), (0xD9, 0xDA, 0xDB)) + data
    if isinstance(value, bytes):
        return counted(len(value), (0, 0), (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, list):
        return counted(len(value), (0x90, 16), (None, 0xDC, 0xDD)) + b"".join(map(packed, value))
    flat = [part for pair in value.items() for part in pair]
    return counted(len(value), (0x80, 16), (None, 0xDE, 0xDF)) + b"".join(map(packed, flat))


def number(value: int) -> bytes:
    if -32 <= value < 128:
        return struct.pack(">b", value)
    for code, form in ((0xCC, "B"), (0xCD, "H"), (0xCE, "I"), (0xCF, "Q"), (0xD0, "b"), (0xD1, "h"), (0xD2, "i"), (0xD3, "q")):
        try:
            return struct.pack(f">B{form}", code, value)
        except struct.error:
            pass
    raise AssertionError(value)


def counted(count: int, short: tuple[int, int], codes: tuple[int | None, int, int]) -> bytes:
    first, limit = short
    if count < limit:
        return bytes([first + count])
    code, form = next((c, f) for c, f in zip(codes, "BHI", strict=True) if c and count < 1 << 8 * struct.calcsize(f))
    return struct.pack(f">B{form}", code, count)


NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
SINGLE = st.none() | st.booleans() | NUMBERS | st.text() | st.binary(max_size=300)
VALUES = st.recursive(
    SINGLE, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner), max_leaves=20
)


@given(VALUES)
def test_what_is_packed_is_unpacked(value):
    read = msgpack.unpack(packed(value))
    assert read == value and type(read) is type(value)


def test_the_largest_number_of_each_width_has_its_sign():
    unsigned = [msgpack.unpack(bytes([code]) + b"\xff" * size) for code, size in ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8))]
    assert unsigned == [2**bits - 1 for bits in (8, 16, 32, 64)]
    assert [msgpack.unpack(bytes([code]) + b"\xff" * size) for code, size in ((0xD0, 1), (0xD1, 2), (0xD2, 4), (0xD3, 8))] == [-1] * 4


def test_counts_of_every_width():
    for size in (0, 15, 16, 31, 32, 255, 256, 65535, 65536):
        for value in ("x" * size, b"x" * size, [0] * size, {n: 0 for n in range(size)}):
            assert msgpack.unpack(packed(value)) == value
    assert msgpack.unpack(b"\xca\x3f\xc0\x00\x00") == 1.5  # binary32


@settings(max_examples=30)
@given(VALUES, st.data())
def test_truncated_values_are_refused(value, data):
    whole = packed(value)
    with pytest.raises(ValueError):
        msgpack.unpack(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"\x01\x02", "1 bytes follow"),
        (b"\xc1", "unknown type, 0xc1"),  # never used
        (b"\xd4\x01\x00", "unknown type, 0xd4"),  # an extension
        (b"\x91" * 40 + b"\x01", "deeper than 32"),
        (b"\x81\x90\x01", "no single value"),
        (b"\xdd\xff\xff\xff\xff\x01", "is referred to"),  # a list of 4 G values
        (b"\xa1\xff", "utf-8"),
    ],
)
def test_values_that_are_refused(data, told):
    with pytest.raises(ValueError, match=told):
        msgpack.unpack(data)


# --- code objects -----------------------------------------------------------------------------

ARGUMENTS = [
    {".offset": 0, ".size": 8, ".value_kind": "global_buffer", ".address_space": "global"},
    {".offset": 8, ".size": 4, ".value_kind": "by_value"},
]
KERNEL = {
    ".name": "k", ".symbol": "k.kd", ".args": ARGUMENTS, ".kernarg_segment_size": 12, ".kernarg_segment_align": 8,
    ".vgpr_count": 342, ".agpr_count": 86, ".sgpr_count": 20, ".vgpr_spill_count": 3, ".sgpr_spill_count": 2,
    ".group_segment_fixed_size": 4096, ".private_segment_fixed_size": 24, ".uses_dynamic_stack": False,
    ".wavefront_size": 64, ".max_flat_workgroup_size": 256,
}
READ = CodeObjectResources(
    registers=342, static_shared_bytes=4096, stack_bytes=24, code_bytes=48, agprs=86, sgprs=20, scratch_bytes=24, vgpr_spills=3,
    sgpr_spills=2, wavefront_size=64, max_flat_workgroup_size=256, kernarg_bytes=12,
    arguments=(Argument(0, 8, "global_buffer"), Argument(8, 4, "by_value")),
)
CODE_SIZE = 48
CODE = BASE + 64  # where the first section is loaded
DESCRIPTOR = CODE + CODE_SIZE


def note(content: bytes, kind: int = 32, owner: bytes = b"AMDGPU\0") -> bytes:
    padded = [part + bytes(-len(part) % 4) for part in (owner, content)]
    return struct.pack("<III", len(owner), len(content), kind) + b"".join(padded)


def code_object(
    *, lds: int = 4096, scratch: int = 24, kernarg: int = 12, entry: int = CODE - DESCRIPTOR, properties: int = 0,
    descriptor_size: int = 64, metadata: object = None, notes: bytes | None = None, machine: int = 224, **kernel,
) -> bytes:
    """One kernel, `k`, whose metadata entries `kernel` replaces, or removes where it says None; a
    name's leading point is left out."""
    told = KERNEL | {f".{key}": value for key, value in kernel.items()}
    told = {key: value for key, value in told.items() if value is not None}
    if metadata is None:
        metadata = {"amdhsa.version": [1, 2], "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a", "amdhsa.kernels": [told]}
    descriptor = struct.pack("<III4xq32xH6x", lds, scratch, kernarg, entry, properties)
    table = [(0, 0, 0, 0, 0, 0), (1, 0x12, 3, 1, CODE, CODE_SIZE), (3, 0x11, 3, 2, DESCRIPTOR, descriptor_size)]
    other = note(b"\x2a" * 5, 3, b"GNU\0")
    return elf(
        [
            {"name": ".text", "data": bytes(CODE_SIZE)},
            {"name": ".rodata", "data": descriptor},
            {"name": ".note", "type": 7, "data": other + (note(packed(metadata)) if notes is None else notes)},
            {"name": ".dynstr", "type": 3, "data": b"\0k\0k.kd\0"},
            {"name": ".dynsym", "type": 11, "data": b"".join(struct.pack("<IBBHQQ", *row) for row in table), "link": 4},
        ],
        machine=machine,
    )


def test_every_number_comes_from_its_place():
    assert read_code_object(code_object()) == {"k": READ}
    assert READ.spill_bytes == 24
    recorded = resources(READ)
    assert "arguments" not in recorded and recorded["registers"] == READ.registers
    assert READ.spill_account == "3 stores of spilled registers, 24 B of scratch"


def test_what_only_some_kernels_have():
    plain = read_code_object(code_object(agpr_count=None, args=None))["k"]
    assert (plain.agprs, plain.arguments) == (0, ())
    wave32 = read_code_object(code_object(wavefront_size=32, properties=1 << 10 | 8))["k"]
    assert wave32.wavefront_size == 32
    recursive = read_code_object(code_object(uses_dynamic_stack=True))["k"]
    assert recursive.stack_bytes is None and recursive.spill_bytes == 24
    assert "without a bound" in recursive.spill_account


def test_a_code_object_without_kernels():
    assert read_code_object(code_object(metadata={"amdhsa.kernels": []})) == {}


@pytest.mark.parametrize("changed", [{"lds": 0}, {"scratch": 28}, {"kernarg": 16}, {"entry": 64}, {"properties": 1 << 10}])
def test_a_descriptor_that_tells_another_story_is_noticed(changed):
    with pytest.raises(BuildError, match="damaged: a kernel's descriptor and its metadata disagree"):
        read_code_object(code_object(**changed))


@pytest.mark.parametrize("key", sorted(set(KERNEL) - {".args", ".agpr_count", ".uses_dynamic_stack", ".kernarg_segment_align"}))
def test_metadata_must_be_complete_and_of_its_type(key):
    for wrong in (None, [], True, -1):
        with pytest.raises(BuildError, match=key.replace(".", r"\.")):
            read_code_object(code_object(**{key[1:]: wrong}))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"machine": 190}, "another machine"),
        ({"notes": b""}, "no metadata"),
        ({"notes": note(b"\x81\xa1")}, "metadata cannot be read"),
        ({"notes": note(b"\x80")[:-4]}, "runs past its section"),
        ({"metadata": [1]}, "amdhsa.kernels"),
        ({"metadata": {"amdhsa.kernels": [1]}}, ".name"),
        ({"args": [{".offset": 8, ".size": 8, ".value_kind": "by_value"}]}, "outside its segment"),
        ({"args": [{".offset": 8, ".size": 4}]}, ".value_kind"),
        ({"name": "f"}, "has no symbol"),
        ({"symbol": "f.kd"}, "has no symbol"),
        ({"symbol": "k"}, "foreign size"),
        ({"descriptor_size": 65}, "outside its section"),
    ],
)
def test_damage_is_told(changed, told):
    with pytest.raises(BuildError) as caught:
        read_code_object(code_object(**changed))
    assert told in str(caught.value)


def test_what_points_one_past_an_end_or_before_a_start_is_damage():
    """Of an ELF file that is whole: indices of sections, and the bytes that a symbol of a loaded file names, up to the section's last."""
    home = BASE + 64

    def file(*symbol: int, link: int = 3, kind: int = 1) -> Elf:
        rows = struct.pack("<IBBHQQ", 1, 0x11, 0, *symbol)
        return Elf(elf([{"name": ".text", "data": b"\xee" * 8}, {"name": ".data", "type": kind, "data": b"abcdefgh"},
                        {"name": ".names", "type": 3, "data": b"\0s\0"}, {"name": ".dynsym", "type": 11, "data": rows, "link": link}]), "a file")

    def loaded(*symbol: int, **more: int) -> bytes:
        made = file(*symbol, **more)
        return bytes(made.loaded(made.dynamic_symbols[0]))

    assert loaded(2, home + 8, 8) == b"abcdefgh" and loaded(2, home + 15, 1) == b"h"
    outside, absent = "outside its section", "not there"
    for wrong, told in (((2, home + 7, 2), outside), ((2, home + 9, 8), outside), ((6, home, 1), absent), ((7, 0, 1), absent)):
        with pytest.raises(BuildError, match=told):
            loaded(*wrong)
    with pytest.raises(BuildError, match="outside its section"):
        loaded(2, home + 8, 8, kind=8)  # which has no bytes in the file
    with pytest.raises(BuildError, match="symbol names are in a section that is not there"):
        loaded(2, home + 8, 8, link=6)
    whole = bytearray(elf([]))
    for names, is_there in ((1, True), (2, False)):
        whole[62:64] = struct.pack("<H", names)
        if is_there:
            assert len(Elf(bytes(whole), "a file").sections) == 2
        else:
            with pytest.raises(BuildError, match="section names are in a section that is not there"):
                Elf(bytes(whole), "a file")


def test_truncated_code_objects_are_build_errors():
    whole = code_object()
    for size in range(len(whole)):
        with pytest.raises(BuildError):
            read_code_object(whole[:size])


def test_damaged_code_objects_are_build_errors_or_harmless():
    whole, chance, refused = code_object(), random.Random(1), 0
    for _ in range(3000):
        bad = bytearray(whole)
        for _ in range(chance.randrange(1, 8)):
            bad[chance.randrange(len(bad))] = chance.randrange(256)
        try:
            read_code_object(bytes(bad))
        except BuildError:
            refused += 1
    assert 1000 < refused < 3000


@given(st.binary(max_size=400))
def test_metadata_of_any_bytes_is_a_build_error(content):
    with pytest.raises(BuildError):
        read_code_object(code_object(notes=note(content)))
