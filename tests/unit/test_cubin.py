"""The cubin reader against cubins put together by hand; tests/compile has the real ones."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from types import SimpleNamespace

import pytest

from elf_file import elf
from gemmgen.build import cuda
from gemmgen.build.cubin import CubinResources, read_cubin
from gemmgen.build.ptxas import accounts_differ, with_logged_spills
from gemmgen.errors import BuildError

STORE, LOAD = 0x387, 0x983  # STL, LDL
WIDTH_64, WIDTH_128 = 5, 6
SPILL, SOMETHING_ELSE = 1, 2


NOTHING = {
    "registers": 8, "static_shared_bytes": 0, "stack_bytes": 0, "code_bytes": 64, "spill_store_bytes": 0, "spill_load_bytes": 0,
    "barriers": 0, "constant_bytes": 0, "max_threads": None,
}


def instruction(operation: int, width: int = 4) -> bytes:
    return struct.pack("<QQ", operation, width << 9)


def sized(attribute: int, *words: int) -> bytes:
    return struct.pack(f"<BBH{len(words)}I", 4, attribute, 4 * len(words), *words)


def short(form: int, attribute: int, value: int) -> bytes:
    return struct.pack("<BBH", form, attribute, value)


def cubin(
    *,
    code: bytes = instruction(0x918) * 4,
    attributes: bytes = b"",
    about_symbols: bytes | None = None,
    flags: int = 6,
    extra: tuple[dict, ...] = (),
) -> bytes:
    """One kernel, `k`, and one device function, `f`."""
    symbols = [(0, 0, 0), (1, 0x12, 0), (3, 0x12, 0x10)]  # none; f; k, the only entry
    table = b"".join(
        struct.pack("<IBBHQQ", name, info, other, 3, 0, 0) for name, info, other in symbols
    )
    if about_symbols is None:
        about_symbols = sized(0x2F, 2, 40) + sized(0x11, 1, 999) + sized(0x12, 2, 96)
    return elf(
        [
            {"name": ".strtab", "type": 3, "data": b"\0f\0k\0"},
            {"name": ".symtab", "type": 2, "data": table, "link": 1},
            {"name": ".text.k", "data": code, "flags": flags},
            {"name": ".nv.info", "data": about_symbols},
            {"name": ".nv.info.k", "data": attributes},
            *extra,
        ]
    )


def test_every_number_comes_from_its_place():
    code = (
        instruction(STORE)
        + instruction(LOAD, WIDTH_64)
        + instruction(STORE, WIDTH_128)
        + instruction(LOAD)  # not annotated: an array, not a spill
    )
    read = read_cubin(
        cubin(
            code=code,
            attributes=short(1, 0x35, 0)
            + short(2, 0x4C, 0xAB03)  # a byte value: the upper half means nothing
            + sized(0x55, SPILL, 0, SPILL, 16, SPILL, 32, SOMETHING_ELSE, 48)
            + short(3, 0x1B, 255)
            + sized(0x05, 128, 2, 1),
            extra=(
                {"name": ".nv.shared.k", "type": 8, "size": 4080},
                {"name": ".nv.constant0.k", "data": bytes(360)},
                {"name": ".nv.constant2.k", "data": bytes(8)},
                {"name": ".nv.constant0.kk", "data": bytes(5000)},
            ),
        )
    )
    assert read == {
        "k": CubinResources(
            registers=40,
            static_shared_bytes=4080,
            spill_store_bytes=4 + 16,
            spill_load_bytes=8,
            stack_bytes=96,
            barriers=3,
            constant_bytes=368,
            code_bytes=64,
            max_threads=(128, 2, 1),
        )
    }
    assert read["k"].spill_bytes == 28


def test_a_plain_kernel_uses_nothing():
    plain = read_cubin(cubin(about_symbols=sized(0x2F, 2, 8)))["k"]
    assert plain == CubinResources(**NOTHING)


def test_barriers_as_compilers_before_cuda_13_tell_them():
    assert read_cubin(cubin(flags=16 << 20 | 6))["k"].barriers == 16


def test_memory_that_cuda_reserves_is_not_the_kernels():
    shared = {"name": ".nv.shared.k", "type": 8, "size": 1024 + 512}
    reserved = {"name": ".nv.shared.reserved.0", "type": 8, "size": 64}
    assert read_cubin(cubin(extra=(shared,)))["k"].static_shared_bytes == 1536
    assert read_cubin(cubin(extra=(shared, reserved)))["k"].static_shared_bytes == 512


def test_recursion_has_no_bound():
    about = sized(0x2F, 2, 24) + sized(0x11, 2, 8) + sized(0x12, 2, 0xFFFFFFFF)
    assert read_cubin(cubin(about_symbols=about))["k"].stack_bytes is None


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        (b"", "not a little-endian 64-bit ELF"),
        (b"#!/bin/sh\n", "not a little-endian 64-bit ELF"),
        (b"\x7fELF\x02\x01", "refers to byte 64"),
        (elf([], machine=62), "another machine"),
        (cubin(about_symbols=b""), "no register count"),
        (cubin(about_symbols=short(9, 0x2F, 0)), "unknown format"),
        (cubin(attributes=struct.pack("<BBH", 4, 0x05, 12)), "runs past"),
        (cubin(attributes=sized(0x55, SPILL)), "inside a pair"),
        (cubin(attributes=sized(0x55, SPILL, 64)), "outside the code"),
        (cubin(attributes=sized(0x55, SPILL, 0xFFFFFFFF)), "outside the code"),
        (cubin(attributes=sized(0x05, 1)), "not three words"),
        (Path("/proc/self/exe").read_bytes(), "another machine"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_cubin_is_named(damaged, told):
    with pytest.raises(BuildError) as caught:
        read_cubin(damaged)
    assert told in str(caught.value)


def test_every_truncation_is_a_build_error():
    whole = cubin(attributes=sized(0x05, 1, 1, 1), extra=({"name": ".x", "data": b"abc"},))
    read_cubin(whole)
    for size in range(len(whole)):
        with pytest.raises(BuildError):
            read_cubin(whole[:size])


def test_random_damage_is_a_build_error_or_harmless():
    whole = cubin(
        attributes=sized(0x05, 1, 1, 1) + sized(0x55, SPILL, 0) + short(2, 0x4C, 1),
        extra=({"name": ".nv.shared.k", "type": 8, "size": 8},),
    )
    chance, refused = random.Random(1), 0
    for _ in range(5000):
        bad = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            bad[chance.randrange(len(bad))] = chance.choice(
                (0, 1, 0x7F, 0xFF, chance.randrange(256))
            )
        try:
            read_cubin(bytes(bad))
        except BuildError:
            refused += 1
    assert refused > 500


LOG = """\
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     96 bytes stack frame, 20 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 3 barriers
"""


@pytest.mark.parametrize(
    ("registers", "stores", "loads", "agrees"),
    [(40, 20, 8, True), (41, 20, 8, False), (40, 24, 0, True), (40, 0, 24, True), (40, 0, 0, False)],
)
def test_a_log_that_tells_another_story_is_noticed(registers, stores, loads, agrees):
    used = CubinResources(**NOTHING | {"registers": registers, "spill_store_bytes": stores, "spill_load_bytes": loads})
    kernels = {"k": used}
    assert (accounts_differ(LOG, kernels) is None) == agrees
    for count in (8, 20):  # a log that tells of stores alone, or of loads
        assert (accounts_differ(LOG.replace(f" {count} bytes", " 0 bytes"), kernels) is None) == agrees
    assert accounts_differ("", kernels) is None  # an assembler that tells nothing
    second = LOG.replace("'k'", "'l'").replace("for k", "for l").replace("40 reg", "8 reg")
    both = {"l": CubinResources(**NOTHING), "k": used}  # in another order than the log has them
    assert (accounts_differ(LOG + second, both) is None) == agrees


def test_spills_of_a_cubin_that_marks_none_are_the_logs():
    """As of CUDA 12.4, whose cubins mark no spills. Those of a function that a kernel calls are not its own."""
    silent = CubinResources(**NOTHING | {"registers": 40, "spill_store_bytes": 0, "spill_load_bytes": 0})
    log = LOG + LOG.replace("'k'", "'l'").replace("for k", "for l").replace("20 bytes", "0 bytes").replace(" 8 bytes", " 0 bytes")
    found = with_logged_spills(log + LOG.split("\n", 1)[1].replace("for k", "for called").replace("20 bytes", "400 bytes"), {"k": silent, "l": silent})
    assert (found["k"].spill_store_bytes, found["k"].spill_load_bytes, found["l"].spill_bytes) == (20, 8, 0) and found["k"].registers == 40
    stored, read = (with_logged_spills(LOG.replace(f" {count} bytes", " 0 bytes"), {"k": silent})["k"] for count in (8, 20))
    assert (stored.spill_store_bytes, stored.spill_load_bytes, read.spill_store_bytes, read.spill_load_bytes) == (20, 0, 0, 8)
    marked = CubinResources(**NOTHING | {"registers": 40, "spill_store_bytes": 12, "spill_load_bytes": 0})
    assert with_logged_spills(log, {"k": marked}) == {"k": marked} and with_logged_spills("", {"k": silent}) == {"k": silent}
    assert accounts_differ(LOG, found | {"l": silent}) is not None and accounts_differ(LOG, {"k": found["k"]}) is None


@pytest.mark.parametrize(("arch", "message", "bundles", "remedy"), [
    ("sm_90", "Instruction 'wgmma' not supported on .target 'sm_90'", True, "compile for sm_90a: some instructions exist for one chip only"),
    ("sm_80", "Instruction 'wgmma' not supported on .target 'sm_80'", True, None),
    ("sm_90", "syntax error", True, None),
    ("sm_90", "uses too much shared data", True, "dynamic shared memory (extern __shared__), which may be larger"),
    ("sm_90", 'cannot open source file "x.h"', True, "include only what NVRTC 13 brings, or name a folder with -I"),
    ("sm_90", 'could not open source file "x.h"', False, "for a compiler that brings the CUDA headers, or name a folder with -I"),
])
def test_the_remedy_for_what_the_compiler_refuses(arch, message, bundles, remedy):
    """A target for one chip is named where the compiler has it."""
    compiler = SimpleNamespace(name="NVRTC 13", archs=("sm_80", "sm_90", "sm_90a"), bundles_headers=bundles)
    found = cuda._remedy(compiler, arch, message)
    assert found == remedy if bundles else found.endswith(remedy)
