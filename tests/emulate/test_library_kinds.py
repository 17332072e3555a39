"""A library's runtime and every kind of kernel that it may launch: blocks that stay, launches that overlap, clusters, slices of k, residues, batches, AMD's."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from gemmgen import abi
from gemmgen.emulate import TOGETHER
from gemmgen.library import tables
from gemmgen.library.kernel import FINISH, FINISH_THREADS, FINISH_TILE, finish_source
from assembled import assembled
from standin import GCC, Library
from test_library import NOT_SERVED, OK, Call, of_plan, packed_by, run_packed, status_of
from test_strided_batches import PORTABLE, planned, portable
from ways import AMD_WAYS, WAYS, plan_of

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

SHORT = ("warpgroups, clusters", "warpgroups that split A, clusters, slices", "wmma of RDNA3, integer words")
"""What differs most from the kernels of test_library.py."""
LONG = (
    "warpgroups, row scales of whole rows", "warpgroups that take turns, slices, clusters", "residues, whole rows", "residues, two warpgroups, cluster",
    "residues by lanes", "warpgroups, outliers fall back", "warpgroups, tiles of k, slices", "packed integers, tiles of k, level II",
    "warpgroups, words of several types", "slices with row scales", "straight, transposed, slices", "thin columns, k apart, slices", "register, slices",
    "fp32, between multiply-adds", "wmma", "mfma, row scales", "mfma, outliers fall back", "mfma, tiles of k",
)
KINDS = {**WAYS, **AMD_WAYS}


def made_of(name: str, folder) -> Library:
    plan = plan_of(**KINDS[name])
    one = of_plan("kernel", plan)
    return Library(folder, [one], archs=[plan.gpu.arch], platform=plan.gpu.maker.platform, arch=plan.gpu.arch)


@pytest.mark.parametrize("name", [*SHORT, *(pytest.param(one, marks=pytest.mark.long) for one in LONG)])
def test_every_kind_of_kernel_is_launched_as_it_wants_and_packed_words_give_the_same_bits(name, tmp_path):
    """Each pass with one operand alone leaves the words that it leaves with both."""
    library = made_of(name, tmp_path)
    plan, source = library.kernels[0].built.plan, library.kernels[0].built.source
    transpose = tuple(int(one == "t") for one in plan.layout)
    size = (20, 36, 40) if name in SHORT else (70, 45, 100)
    call = Call(library, *size, transpose=transpose, alpha=0.5, beta=2.0)
    memory = call.run()
    assert np.abs(call.c - call.wanted()).max() < 0.02
    assert [symbol for symbol, _ in library.launched] == [one.symbol for one in source.launches]
    follows = [one for one in source.launches[1:] if one.overlaps]
    assert library["overlapped"] == (len(follows) if plan.gpu.vendor == "nvidia" else 0)
    counted, wanted = status_of(library, memory), call.c.copy()
    packable = [one.name for one in plan.launches.split_before] if plan.launches.split_before else []
    for operand in packable:
        again = Call(library, *size, transpose=transpose, alpha=0.5, beta=2.0)
        packed = packed_by(again, operand)
        overlapped = library["overlapped"]
        assert run_packed(again, packed) == OK
        assert np.array_equal(again.c.view(np.uint32), wanted.view(np.uint32))
        assert library["overlapped"] - overlapped == (len(follows) if len(packable) > 1 and plan.gpu.vendor == "nvidia" else 0), "nothing to overlap with"
        found = status_of(library, packed.held)
        assert {name: value for name, value in found.items() if value} == {name: counted[name] for name in counted if name[0] == operand and counted[name]}


@pytest.mark.parametrize("way", [pytest.param("packed words", marks=pytest.mark.long), pytest.param("A in registers, clusters", marks=pytest.mark.long)])
def test_a_kernel_for_strided_batches_takes_them_in_one_launch(way, tmp_path):
    plan = planned(way)
    library = Library(tmp_path, [of_plan("kernel", plan)], archs=["sm_90"], arch="sm_90")
    transpose = tuple(int(one == "t") for one in plan.layout)
    call = Call(library, 70, 45, 50, transpose=transpose, batch=3, alpha=0.5, beta=2.0, bias=True, on_device=True)
    call.run()
    call.check()
    assert len(library.launched) == len(plan_launches(library)) + 1
    needed = ctypes.c_size_t()
    assert library("pack_bytes", ctypes.byref(call.problem), ctypes.c_char(b"b"), None, ctypes.byref(needed)) == NOT_SERVED


@pytest.mark.parametrize(("way", "batch"), [
    ("packed words", 2), ("mfma, row scales", 2), pytest.param("packed words", 1, marks=pytest.mark.long),
    pytest.param("slices with row scales", 2, marks=pytest.mark.long),
    *(pytest.param(way, 3, marks=pytest.mark.long) for way in ("row scales", "A in registers, clusters", "shared, grouped, slices", "tiles of k")),
])
@pytest.mark.parametrize("on_device", [False, pytest.param(True, marks=pytest.mark.long)], ids=["scalars of the host", "of the device"])
def test_a_kernel_for_strided_batches_takes_arrays_of_pointers_in_one_launch(way, batch, on_device, tmp_path):
    """Matrices that begin at multiples of 4 bytes and of 16; one that is not finite is repaired from its own operands."""
    plan = portable(way) if way in PORTABLE else planned(way)
    plan = replace(plan, batch=replace(plan.batch, pointers=True))
    library = Library(tmp_path, [of_plan("kernel", plan)], archs=[plan.gpu.arch], platform=plan.gpu.maker.platform, arch=plan.gpu.arch)
    transpose = tuple(int(one == "t") for one in plan.layout)
    call = Call(library, 70, 45, 50, transpose=transpose, batch=batch, alpha=0.5, beta=2.0, bias=on_device, on_device=on_device, pointers=True)
    call.run()
    call.check()
    assert len(library.launched) == len(plan_launches(library)) + on_device
    # the same kernel, of matrices that lie a stride apart
    other = Call(library, 70, 45, 50, transpose=transpose, batch=batch, alpha=0.5, beta=2.0, bias=on_device, on_device=on_device)
    other.run()
    other.check()
    assert np.array_equal(other.c, call.c)
    zero = Call(library, 20, 30, 40, transpose=transpose, batch=batch, alpha=0.0, beta=0.5, pointers=True)
    zero.problem.a = zero.problem.b = None
    zero.run()
    zero.check()
    clean = Call(library, 20, 30, 40, transpose=transpose, batch=batch, beta=0.0, pointers=True)
    for one in clean.stored[2]:
        one[...] = np.nan
    clean.run()
    clean.check()


@pytest.mark.parametrize("scalars", [False, True], ids=["beta of the host", "scalars of the device"])
def test_the_kernel_of_epilogues_finds_each_product_of_a_batch(scalars):
    """Of several blocks in each direction; rows and matrices lie further apart than they are long, and nothing between them is written."""
    source = finish_source("sm_80")
    package, name = (gpu := plan_of().gpu).maker.checked.emulator
    emulator = getattr(import_module(package), name)(assembled(source).assembly, gpu.unit, source=source.text, source_name=source.file_name, schedule=TOGETHER)
    batch, m, n, ldc, ldt, apart_c, apart_t = 3, 35, 131, 133, 140, 4800, 5000
    rng = np.random.default_rng(3)
    c, t, bias = (rng.uniform(-1, 1, size).astype(np.float32) for size in (batch * apart_c, batch * apart_t, n))

    def matrices(x: np.ndarray, ld: int, apart: int) -> np.ndarray:
        return np.lib.stride_tricks.as_strided(x, (batch, m, n), (4 * apart, 4 * ld, 4))

    wanted = c.copy()
    alpha, beta = (0.5, -2.0) if scalars else (1.0, 0.25)
    matrices(wanted, ldc, apart_c)[...] = np.maximum(alpha * matrices(t, ldt, apart_t) + beta * matrices(c, ldc, apart_c) + bias, 0)
    held = {name: emulator.upload(x, name=name) for name, x in (("c", c), ("t", t), ("bias", bias), ("scalars", np.array([0.5, -2.0], np.float32)))}
    at = {name: one.address for name, one in held.items()}
    given = (at["scalars"], at["scalars"] + 4, 9.0) if scalars else (0, 0, 0.25)
    blocks = batch * -(-m // FINISH_TILE[0]) * -(-n // FINISH_TILE[1])
    emulator.launch(FINISH, (blocks, 1, 1), (FINISH_THREADS, 1, 1), 0, [at["c"], ldc, apart_c, at["t"], ldt, apart_t, *given, at["bias"], m, n, 0, 1])
    assert np.abs(emulator.read(held["c"], np.float32, c.shape) - wanted).max() < 1e-6


def plan_launches(library: Library):
    return library.kernels[0].built.source.launches


def groups() -> dict[str, list[tuple[str, str]]]:
    """(way, operand) of NVIDIA's that have the same key of packed words, by the first way's name and operand."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, way in WAYS.items():
        plan = plan_of(**way)
        if plan.fragment.policy == "tcgen05":  # the stand-in tells addresses by number, which the PTX of sm_100 does not take for a pointer
            continue
        for operand in "ab":
            if plan.inputs.stored_b.is_usual and (key := tables.pack_key(plan, abi.interface(plan), operand)):
                found.setdefault(key, []).append((name, operand))
    return {f"{one[0][0]}: {one[0][1]}": one for one in found.values() if len(one) > 1}


@pytest.mark.long
def test_kernels_that_agree_in_the_key_of_their_packed_words_pack_the_same_bytes(tmp_path):
    """So that one may read what another has packed."""
    for number, members in enumerate(groups().values()):
        packed = []
        for name, operand in members:
            folder = tmp_path / f"{number} {len(packed)}"
            folder.mkdir()
            library = made_of(name, folder)
            plan = library.kernels[0].built.plan
            transpose = tuple(int(one == "t") for one in plan.layout)
            memory = packed_by(Call(library, 70, 45, 100, transpose=transpose), operand).held[256:].copy()  # behind the counters
            if plan.scales.takes_maxima:  # they come first; behind the last row is no element that could be the largest
                rows, tile = {"a": (70, plan.block[0]), "b": (45, plan.block[1])}[operand]
                memory[4 * rows : 4 * tile * -(-rows // tile)] = 0
            packed.append(memory.tobytes())
        for (name, operand), one in zip(members, packed):
            assert one == packed[0], f"{members[0][0]} and {name}: {operand}"
