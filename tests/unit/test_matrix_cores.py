"""AMD's fragments against their documents' formulas, written down independently, and what is made of several instructions."""

from __future__ import annotations


import pytest

from gemmgen.catalog.fragment import FRAGMENTS, Fragment, FragmentMap, candidates
from gemmgen.errors import SpecError
from broken_rows import assert_refused

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.vendor == "amd" and row.on_matrix_unit}

# CDNA: how many k, one after another, a lane holds of its row of A and its column of B; the next lanes of the
# same row hold the next as many. AMD matrix instruction calculator, `--matrix-entry` of gfx908, gfx90a and
# gfx942 ("k: RUN * floor(lane / M) + ..."); of gfx950 the ISA guide, and k_per_blk in xdlops_gemm.hpp of
# ROCm's Composable Kernel.
RUN = {
    "mfma_m16n16k8_tf32": 2, "mfma_m32n32k4_tf32": 2,
    "mfma_m16n16k8_bf16": 2, "mfma_m32n32k4_bf16": 2,
    "mfma_m16n16k16_f16": 4, "mfma_m32n32k8_f16": 4, "mfma_m16n16k16_bf16": 4, "mfma_m32n32k8_bf16": 4,
    "mfma_m16n16k32_f16": 8, "mfma_m32n32k16_f16": 8, "mfma_m16n16k32_bf16": 8, "mfma_m32n32k16_bf16": 8,
    "mfma_m16n16k16_s8": 4, "mfma_m32n32k8_s8": 4,
    "mfma_m16n16k32_s8": 8, "mfma_m32n32k16_s8": 8,
    "mfma_m16n16k64_s8": 16, "mfma_m32n32k32_s8": 16,
    **{f"{shape}_{word}": 8 for shape in ("mfma_m16n16k32", "mfma_m32n32k16") for word in ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz")},
}  # fmt: skip


def documented(name: str, lane: int, held: str, index: int) -> tuple[int, int]:
    """(row, column) of element `index` that a lane holds of A, B or C.

    WMMA of RDNA 3 and 4: AMD matrix instruction calculator (RDNA 4 in wave32, `InstCalcGfx12`); GPUOpen, "How to
    accelerate AI applications on RDNA 3 using WMMA"; RDNA 4's k of 16-bit words also iree-org/wave pull request 306,
    after the ISA guide. C: GPUOpen, "Using the Matrix Cores of AMD RDNA 4 architecture GPUs", too.
    """
    side = 32 if "_m32n32" in name else 16
    group, outer = lane // side, lane % side
    if held == "c":
        if name.startswith("rdna3"):
            return 2 * index + group, outer
        if name.startswith("rdna4"):
            return 8 * group + index, outer
        return 8 * (index // 4) + 4 * group + index % 4 if side == 32 else 4 * group + index, outer
    if name.startswith("rdna3"):
        k = index  # all of them; lanes 16 to 31 hold what lanes 0 to 15 hold
    elif name.startswith("rdna4"):
        k = 8 * group + index if ROWS[name].word_bytes == 1 else 8 * (index // 4) + 4 * group + index % 4
    else:
        k = RUN[name] * group + index
    return (outer, k) if held == "a" else (k, outer)


@pytest.mark.parametrize("name", ROWS)
def test_lanes_hold_what_amd_says(name):
    row = ROWS[name]
    for label in "abc":
        held = getattr(row, label)
        for lane, register, packed, i, j in held.foreach_ij():
            assert (i, j) == documented(name, lane, label, register * held.packed_count + packed)


def test_every_row_is_documented_once():
    assert {name for name in ROWS if name.startswith("mfma")} == set(RUN)
    assert len(ROWS) == 34


def test_kernels_close_the_gaps_of_rdna_4():
    """What a lane holds is one run of k then, the same lanes for A and B; other rows are taken as they are."""
    for name, row in ROWS.items():
        taken = row.by_runs
        if name not in ("rdna4_m16n16k16_f16", "rdna4_m16n16k16_bf16"):
            assert taken is row
            continue
        assert taken.map_source == "constructed" and taken.instructions is None and taken.whole_chunks
        assert (taken.shape, taken.c, taken.name, taken.by_runs) == (row.shape, row.c, row.name, taken)
        for label, axis in (("a", 1), ("b", 0)):
            for lane, register, packed, *element in getattr(taken, label).foreach_ij():
                assert element[axis] == 8 * (lane // 16) + 2 * register + packed and element[1 - axis] == lane % 16
        assert order(taken, row, "a", 0) == order(taken, row, "b", 0) != {k: k for k in range(16)}
        assert proven(taken) == taken
        assert taken in candidates("amd", row.word, "wmma") and row not in candidates("amd", row.word, "wmma")


# ---- several instructions, one after another


DEEP = {name: row.deep(row.deepest) for name, row in ROWS.items() if row.deepest}


def taken(row: Fragment, label: str, instruction: int) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Which element of A or B each place (lane, register, position) of one of its instructions takes."""
    held = getattr(row, label)
    each = held.register_count // (row.instructions or 1)
    return {
        (lane, register % each, packed): (i, j)
        for lane, register, packed, i, j in held.foreach_ij() if register // each == instruction
    }


def order(deep: Fragment, base: Fragment, label: str, instruction: int) -> dict[int, int]:
    """k of the single instruction -> k of the fragment that one of its instructions takes in its place; rows stay."""
    axis = {"a": 1, "b": 0}[label]
    stands_for: dict[int, int] = {}
    for place, element in taken(deep, label, instruction).items():
        own = getattr(base, label).element(*place)
        assert own[1 - axis] == element[1 - axis]
        assert stands_for.setdefault(own[axis], element[axis]) == element[axis]
    return stands_for


def proven(fragment: Fragment) -> Fragment:
    """The same as if it were a row of a table, which proves itself."""
    return Fragment.model_validate(fragment.model_dump() | {"instructions": None})


@pytest.mark.parametrize("name", DEEP)
def test_instructions_share_the_k_of_a_fragment(name):
    """Each takes as many k as it has, A and B the same ones, and together they take every k once."""
    base, deep = ROWS[name], DEEP[name]
    times, k = base.deepest, base.shape[2]
    assert deep.shape == (*base.shape[:2], k * times) and deep.instructions == times and deep.map_source == "constructed"
    every = []
    for instruction in range(times):
        orders = [order(deep, base, label, instruction) for label in "ab"]
        assert orders[0] == orders[1] and sorted(orders[0]) == list(range(k))
        every += orders[0].values()
    assert sorted(every) == list(range(k * times))
    assert deep.c == base.c
    assert proven(deep) == deep.model_copy(update={"instructions": None})


@pytest.mark.parametrize("name", DEEP)
def test_a_lane_holds_a_whole_chunk(name):
    deep = DEEP[name]
    assert not ROWS[name].whole_chunks and deep.whole_chunks
    size = {"f16": 2, "bf16": 2, "tf32": 4}.get(deep.word, 1)
    assert deep.a.elements * size == 16
    for lane in range(64):
        held = [deep.a.element(lane, r, p) for r in range(deep.a.register_count) for p in range(deep.a.packed_count)]
        (i, first) = held[0]
        assert held == [(i, first + e) for e in range(16 // size)] and first * size % 16 == 0


@pytest.mark.parametrize(("name", "native"), [
    ("mfma_m16n16k16_f16", "mfma_m16n16k32_f16"), ("mfma_m32n32k8_f16", "mfma_m32n32k16_f16"),
    ("mfma_m16n16k16_bf16", "mfma_m16n16k32_bf16"), ("mfma_m32n32k8_bf16", "mfma_m32n32k16_bf16"),
    ("mfma_m16n16k8_bf16", "mfma_m16n16k32_bf16"), ("mfma_m32n32k4_bf16", "mfma_m32n32k16_bf16"),
])
def test_several_are_held_as_the_one_of_gfx950(name, native):
    """A lane's chunk is eight k there too, so kernels differ in their instructions alone."""
    deep, one = DEEP[name], ROWS[native]
    assert (deep.shape, deep.a, deep.b, deep.c) == (one.shape, one.a, one.b, one.c)


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_and_b_not_is_seen(name):
    """Two instructions side by side cover B's tile too, but with other k than those of A."""
    base, deep = ROWS[name], DEEP[name]
    k, more = base.shape[2], base.deepest.bit_length() - 1
    registers = (*base.b.registers, *((k << bit, 0) for bit in range(more)))
    beside = FragmentMap(lanes=base.b.lanes, registers=registers, packed=base.b.packed)
    assert beside.prove(k * base.deepest, base.shape[1]) is None
    faulty = deep.model_copy(update={"b": beside})
    assert order(faulty, base, "a", 0) != order(faulty, base, "b", 0)
    with pytest.raises(ValueError, match="lanes of a and b that stand for the same k"):
        proven(faulty)


# ---- refusals


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("[8, 0], [16, 0], [0, 4]]", "[16, 0], [8, 0], [0, 2]]", "covers another tile"),
    ("registers = [[2, 0]]\npacked = [[1, 0]]", "registers = [[1, 0]]\npacked = [[2, 0]]", "registers of a and b that stand for the same k"),
    ('archs = ["gfx908", "gfx90a", "gfx942", "gfx950"]', "min_arch = 90", "archs and builtin, and no min_arch"),
    ('builtin = "__builtin_amdgcn_mfma_f32_32x32x8f16"', "", "archs and builtin, and no min_arch"),
    ('archs = ["gfx908", "gfx90a", "gfx942", "gfx950"]', "", "archs and builtin, and no min_arch"),
    ("deepest = 2", "deepest = 2\nmin_arch = 90", "archs and builtin, and no min_arch"),
    ("__builtin_amdgcn_mfma_f32_32x32x8f16", "__builtin_trap(); __builtin_amdgcn_mfma", "match pattern"),
    ('"gfx908", ', '"sm_80", ', "match pattern"),
    ("deepest = 2", "instructions = 2", "no number of instructions"),
    ('word = "f16"', 'word = "s8"', "4 to a 32-bit register in the map of a, not 2"),
    ('word = "f16"', 'word = "u8"', "'s8'"),
])
def test_a_row_that_cannot_be_is_refused(tmp_path, before, after, complaint):
    assert_refused(tmp_path, FRAGMENTS, "mfma_m32n32k8_f16", before, after, complaint)


def test_b_turned_alone_is_refused(tmp_path):
    """Lanes of B that count k the other way round cover their tile, too."""
    good = (FRAGMENTS.folder / "mfma_m16n16k16_f16.toml").read_text()
    path = tmp_path / "mfma_m16n16k16_f16.toml"
    own, turned = (f"[0, 8], {k}]\nregisters = [[2, 0]]" for k in ("[4, 0], [8, 0]", "[8, 0], [4, 0]"))
    path.write_text(good.replace(own, turned, 1))
    assert path.read_text() != good
    with pytest.raises(SpecError, match="lanes of a and b that stand for the same k"):
        FRAGMENTS.get(str(path))
