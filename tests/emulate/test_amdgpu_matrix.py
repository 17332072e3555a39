"""Each matrix instruction of each AMD target, compiled and executed, with operands laid
out as AMD documents it: an error in the emulator's maps, or in their order of k, is a wrong product."""

from functools import cache

import numpy as np
import pytest

from assembled import gcn_of
from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import SCHEDULES
from gemmgen.emulate.amdgpu import AmdEmulator
from gemmgen.emulate.core import units
from gemmgen.errors import EmulationError

HEAD = """
#define DEVICE(n) extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, n)))
typedef _Float16 f16; typedef __bf16 bf16; typedef short i16; typedef long long i64;
#define VECTOR(type, n) typedef type type##x##n __attribute__((ext_vector_type(n)));
VECTOR(f16, 4) VECTOR(f16, 8) VECTOR(f16, 16) VECTOR(bf16, 8) VECTOR(i16, 2) VECTOR(i16, 4) VECTOR(i16, 8) VECTOR(i16, 16)
VECTOR(float, 2) VECTOR(float, 4) VECTOR(float, 8) VECTOR(float, 16) VECTOR(int, 2) VECTOR(int, 4) VECTOR(int, 8) VECTOR(int, 16)
"""
UNIT_OF = {"gfx90a": "cdna2", "gfx942": "cdna3", "gfx950": "cdna4", "gfx1100": "rdna3", "gfx1201": "rdna4"}
CDNA, CDNA_3_4 = ("gfx90a", "gfx942", "gfx950"), ("gfx942", "gfx950")

# builtin: (targets, m, k, word, type of a lane's A and B, type of its C)
MFMA = {
    "mfma_f32_32x32x8f16": (CDNA, 32, 8, "f16", "f16x4", "floatx16"),
    "mfma_f32_16x16x16f16": (CDNA, 16, 16, "f16", "f16x4", "floatx4"),
    "mfma_f32_32x32x8bf16_1k": (CDNA, 32, 8, "bf16", "i16x4", "floatx16"),
    "mfma_f32_16x16x16bf16_1k": (CDNA, 16, 16, "bf16", "i16x4", "floatx4"),
    "mfma_f32_32x32x4bf16": (("gfx90a",), 32, 4, "bf16", "i16x2", "floatx16"),
    "mfma_f32_16x16x8bf16": (("gfx90a",), 16, 8, "bf16", "i16x2", "floatx4"),
    "mfma_i32_32x32x8i8": (("gfx90a",), 32, 8, "s8", "int", "intx16"),
    "mfma_i32_16x16x16i8": (("gfx90a",), 16, 16, "s8", "int", "intx4"),
    "mfma_i32_32x32x16_i8": (CDNA_3_4, 32, 16, "s8", "i64", "intx16"),
    "mfma_i32_16x16x32_i8": (CDNA_3_4, 16, 32, "s8", "i64", "intx4"),
    "mfma_f32_32x32x4_xf32": (("gfx942",), 32, 4, "tf32", "floatx2", "floatx16"),
    "mfma_f32_16x16x8_xf32": (("gfx942",), 16, 8, "tf32", "floatx2", "floatx4"),
    "mfma_f32_32x32x16_f16": (("gfx950",), 32, 16, "f16", "f16x8", "floatx16"),
    "mfma_f32_16x16x32_f16": (("gfx950",), 16, 32, "f16", "f16x8", "floatx4"),
    "mfma_f32_32x32x16_bf16": (("gfx950",), 32, 16, "bf16", "bf16x8", "floatx16"),
    "mfma_f32_16x16x32_bf16": (("gfx950",), 16, 32, "bf16", "bf16x8", "floatx4"),
    "mfma_i32_32x32x32_i8": (("gfx950",), 32, 32, "s8", "intx4", "intx16"),
    "mfma_i32_16x16x64_i8": (("gfx950",), 16, 64, "s8", "intx4", "intx4"),
}
WMMA = {
    "wmma_f32_16x16x16_f16_w32": (("gfx1100",), 16, 16, "f16", "f16x16", "floatx8"),
    "wmma_f32_16x16x16_bf16_w32": (("gfx1100",), 16, 16, "bf16", "i16x16", "floatx8"),
    "wmma_i32_16x16x16_iu8_w32": (("gfx1100",), 16, 16, "s8", "intx4", "intx8"),
    "wmma_f32_16x16x16_f16_w32_gfx12": (("gfx1201",), 16, 16, "f16", "f16x8", "floatx8"),
    "wmma_f32_16x16x16_bf16_w32_gfx12": (("gfx1201",), 16, 16, "bf16", "i16x8", "floatx8"),
    "wmma_i32_16x16x16_iu8_w32_gfx12": (("gfx1201",), 16, 16, "s8", "intx2", "intx8"),
    "wmma_f32_16x16x16_fp8_fp8_w32_gfx12": (("gfx1201",), 16, 16, "e4m3", "intx2", "floatx8"),
    "wmma_f32_16x16x16_bf8_bf8_w32_gfx12": (("gfx1201",), 16, 16, "e5m2", "intx2", "floatx8"),
}
ALL = MFMA | WMMA
CASES = [(name, target) for name, row in ALL.items() for target in row[0]]
FLOATING = [(name, target) for name, target in CASES if ALL[name][3] != "s8"]


def wave_of(target):
    return 64 if target in CDNA else 32


def call(name):
    if name.startswith("mfma"):
        return f"__builtin_amdgcn_{name}(a[l], b[l], c[l], 0, 0, 0)"
    if "iu8" in name:
        return f"__builtin_amdgcn_{name}(true, a[l], true, b[l], c[l], false)"
    return f"__builtin_amdgcn_{name}(a[l], b[l], c[l])"


def kernel(name, symbol, expression):
    _, _, _, _, ab, c = ALL[name]
    wave = wave_of(ALL[name][0][0])
    return f"""DEVICE({wave}) {symbol}(const {ab}* a, const {ab}* b, const {c}* c, {c}* d) {{
  int l = __builtin_amdgcn_workgroup_id_x() * {wave} + __builtin_amdgcn_workitem_id_x();
  d[l] = {expression};
}}
"""


SIGNS = {"both_unsigned": "false, a[l], false, b[l], c[l], false", "left_signed": "true, a[l], false, b[l], c[l], false",
         "right_signed": "false, a[l], true, b[l], c[l], false", "clamped": "true, a[l], true, b[l], c[l], true"}  # fmt: skip


@cache
def assembly(target):
    names = [name for name, there in CASES if there == target]
    text = HEAD + "".join(kernel(name, name, call(name)) for name in names)
    for name in (name for name in names if "iu8" in name):
        text += "".join(kernel(name, symbol, f"__builtin_amdgcn_{name}({operands})") for symbol, operands in SIGNS.items())
    return gcn_of(text, target)


# ---------------------------------------------------------------- AMD's maps, as formulas


def holder_of_word(target, m, k, word):
    """(lanes, position) that hold element (i, kk) of A, or of B transposed."""
    if target == "gfx1100":
        return lambda i, kk: ((i, i + 16), kk)
    if target == "gfx1201" and np.dtype(RAW[word]).itemsize == 2:
        return lambda i, kk: ((i + 16 * (kk // 4 % 2),), kk // 8 * 4 + kk % 4)
    each = k * m // wave_of(target)
    return lambda i, kk: ((i + m * (kk // each),), kk % each)


def holder_of_sum(target, m):
    """(lane, register) that holds element (i, j) of C."""
    if target == "gfx1100":
        return lambda i, j: (j + 16 * (i % 2), i // 2)
    if target == "gfx1201":
        return lambda i, j: (j + 16 * (i // 8), i % 8)
    if m == 16:
        return lambda i, j: (j + 16 * (i // 4), i % 4)
    return lambda i, j: (j + 32 * (i // 4 % 2), i % 4 + 4 * (i // 8))


RAW = {"f16": np.float16, "bf16": np.uint16, "tf32": np.float32, "s8": np.int8, "e4m3": np.uint8, "e5m2": np.uint8}
FLOAT8 = ("e4m3", "e5m2")


def stored(word, x):
    if word == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return to_float8(x, word) if word in FLOAT8 else x.astype(RAW[word])


def lay_out(target, m, k, word, matrix):
    """`[m, k]` as the lanes hold it, `[lanes, words]`."""
    wave = wave_of(target)
    place = holder_of_word(target, m, k, word)
    words = k if target == "gfx1100" else k * m // wave
    out = np.zeros((wave, words), RAW[word])
    values = stored(word, matrix)
    for i in range(m):
        for kk in range(k):
            lanes, position = place(i, kk)
            out[list(lanes), position] = values[i, kk]
    return out


def spread(target, m, matrix):
    place = holder_of_sum(target, m)
    out = np.zeros((wave_of(target), m * m // wave_of(target)), matrix.dtype)
    for i in range(m):
        for j in range(m):
            out[place(i, j)] = matrix[i, j]
    return out


def gathered(target, m, lanes):
    place = holder_of_sum(target, m)
    return np.array([[lanes[place(i, j)] for j in range(m)] for i in range(m)])


def product(target, symbol, name, a, b, c, schedule=SCHEDULES[0], text=None, groups=1):
    """D of the kernel, `[groups, m, m]`, for A `[groups, m, k]`, B `[groups, k, m]` and C."""
    _, m, k, word, _, _ = ALL[name]
    with AmdEmulator(text or assembly(target), UNITS.get(UNIT_OF[target]), schedule=schedule) as machine:
        sides = [np.stack([lay_out(target, m, k, word, x if side == "a" else x.T) for x in matrix])
                 for side, matrix in (("a", a), ("b", b))]  # fmt: skip
        start = np.stack([spread(target, m, x) for x in c])
        buffers = [machine.upload(x, name=name) for x, name in zip((*sides, start), "abc", strict=True)]
        d = machine.alloc(c.nbytes, name="d")
        stats = machine.launch(symbol, (groups, 1, 1), (wave_of(target), 1, 1), 0, [*buffers, d])
        assert stats.mma == groups
        out = machine.read(d, c.dtype, (groups, wave_of(target), m * m // wave_of(target)))
    return np.stack([gathered(target, m, each) for each in out])


def operands(name, groups=1, seed=0, low=-9, high=10):
    _, m, k, word, _, _ = ALL[name]
    rng = np.random.default_rng(seed)
    low, high = (low, high) if word != "e5m2" else (-4, 5)  # which it has all
    a, b = rng.integers(low, high, (groups, m, k)), rng.integers(low, high, (groups, k, m))
    return a, b, rng.integers(-500, 500, (groups, m, m)).astype(np.int32 if word == "s8" else np.float32)


@pytest.mark.parametrize(("name", "target"), CASES)
def test_products_of_integers_are_exact(name, target):
    a, b, c = operands(name, groups=3)
    if c.dtype == np.int32:  # INT32 sums wrap around
        c[1] += 2**31 - 600
    for schedule in SCHEDULES:
        d = product(target, name, name, a, b, c, schedule, groups=3)
        assert (d == (a @ b + c).astype(c.dtype)).all()


@pytest.mark.parametrize(("name", "target"), CASES)
def test_each_k_is_met_by_its_own(name, target):
    """One element of A and one of B that is not 0: they meet only where their k are the same."""
    _, m, k, word, _, _ = ALL[name]
    rng = np.random.default_rng(1)
    groups = 2 * k
    a, b = np.zeros((groups, m, k), int), np.zeros((groups, k, m), int)
    c = np.zeros((groups, m, m), np.int32 if word == "s8" else np.float32)
    for group in range(groups):
        mine, theirs = group % k, (group + (group >= k)) % k
        a[group, rng.integers(m), mine] = 3
        b[group, theirs, rng.integers(m)] = -5
    assert (product(target, name, name, a, b, c, groups=groups) == a @ b).all()


@pytest.mark.parametrize(("target", "suffix"), [("gfx1100", ""), ("gfx1201", "_gfx12")])
def test_signs_and_saturation_of_wmma_on_bytes(target, suffix):
    name = f"wmma_i32_16x16x16_iu8_w32{suffix}"
    a, b, c = operands(name, low=-128, high=128)
    for symbol, left, right in (("both_unsigned", 256, 256), ("left_signed", 0, 256), ("right_signed", 256, 0)):
        want = (a % left if left else a) @ (b % right if right else b) + c
        assert (product(target, symbol, name, a, b, c) == want).all()
    c = np.full_like(c, 2**31 - 1000)
    total = (a @ b).astype(np.int64) + c
    assert (total > 2**31 - 1).any()
    assert (product(target, "clamped", name, a, b, c) == np.minimum(total, 2**31 - 1)).all()
    assert (product(target, name, name, a, b, c) == total.astype(np.int32)).all()


def test_halves_of_an_rdna3_wave_must_agree():
    name = "wmma_f32_16x16x16_f16_w32"
    with AmdEmulator(assembly("gfx1100"), UNITS.get("rdna3")) as machine:
        a = lay_out("gfx1100", 16, 16, "f16", np.ones((16, 16)))
        a[20, 3] = 2
        b = lay_out("gfx1100", 16, 16, "f16", np.ones((16, 16)))
        buffers = [machine.upload(x, name="x") for x in (a, b, np.zeros((32, 8), np.float32))]
        d = machine.alloc(1024, name="d")
        with pytest.raises(EmulationError, match="two halves of the wave hold different operands") as error:
            machine.launch(name, (1, 1, 1), (32, 1, 1), 0, [*buffers, d])
    assert "word 3 of lane 4 is 0x3c00, of lane 20 0x4000" in error.value.got


@pytest.mark.parametrize("target", ["gfx1100", "gfx1201"])
def test_wmma_wants_every_lane(target):
    name = next(name for name, there in CASES if there == target)
    _, m, k, word, _, _ = ALL[name]
    a, b, c = operands(name)
    edited = assembly(target).replace("\tv_wmma_", "\ts_mov_b32 exec_lo, 0xffff\n\tv_wmma_", 1)
    with pytest.raises(EmulationError, match="while EXEC switches lanes off"):
        product(target, name, name, a, b, c, text=edited)


@pytest.mark.parametrize("target", CDNA)
def test_mfma_does_not_look_at_exec(target):
    name = "mfma_f32_32x32x8f16"
    a, b, c = operands(name)
    lines = assembly(target).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("\tv_mfma_f32_32x32x8"))
    lines[at : at + 1] = ["\ts_mov_b64 exec, 3", lines[at], "\ts_mov_b64 exec, -1"]
    assert (product(target, name, name, a, b, c, text="\n".join(lines)) == a @ b + c).all()


@pytest.mark.parametrize(("name", "target"), FLOATING)
def test_rounding_is_the_unit_s(name, target):
    _, m, k, word, _, _ = ALL[name]
    rng = np.random.default_rng(2)
    a, b = (as_words(word, rng.standard_normal(shape).astype(np.float32)) for shape in ((1, m, k), (1, k, m)))
    c = rng.standard_normal((1, m, m)).astype(np.float32)
    got = product(target, name, name, a, b, c)
    unit = UNITS.get(UNIT_OF[target])
    if name.endswith("4bf16") or name.endswith("8bf16"):  # as CDNA 1 has them: two products at once
        unit = unit.model_copy(update={"block": {"bf16": 2}})
    want = units.dot(unit, word, a[0][:, None], b[0].T[None], c[0])
    assert (got[0].view(np.uint32) == want.view(np.uint32)).all()


def as_words(word, x):
    """The nearest numbers that are words, or for bfloat16 and tf32 those cut off."""
    if word == "f16":
        return x.astype(np.float16).astype(np.float32)
    if word in FLOAT8:
        return decode(word, to_float8(x, word))
    return (x.view(np.uint32) & (0xFFFF0000 if word == "bf16" else 0xFFFFE000)).view(np.float32)
