"""Single AMDGPU instructions against exact arithmetic, on values chosen to go wrong."""

import math
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from awkward import AWKWARD, TINY
from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES
from gemmgen.emulate.amdgpu import TARGETS, AmdEmulator
from gemmgen.emulate.amdgpu.local import banks_of, phases
from gemmgen.emulate.amdgpu.strip import Strip
from gemmgen.emulate.core.banks import extra_wavefronts
from gemmgen.emulate.core.rounding import fma
from gemmgen.errors import EmulationError

U16, U32, U64, I16, I32, I64 = np.uint16, np.uint32, np.uint64, np.int16, np.int32, np.int64
F16, F32, F64 = np.float16, np.float32, np.float64
HALVES = np.array([0, -0.0, 1, -1, 6e-8, -6e-8, 6.1e-5, 65504, -65504, np.inf, -np.inf, np.nan, 1.001, 0.333, 2049, 1e-3], F16)
WORDS = np.array(
    [0, 1, 2, 3, 5, 31, 32, 33, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x123456, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xDEADBEEF,
     0xFFFFFFFE, 0xFFFFFFFF, 0x00FF00FF, 0x0C040D07], U32
)  # fmt: skip
LONGS = np.array([0, 1, 5, 0xFFFFFFFF, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 0x123456789ABCDEF0], U64)

DESCRIPTOR = """
	.section	.rodata,"a",@progbits
	.amdhsa_kernel k
		.amdhsa_group_segment_fixed_size 4096
		.amdhsa_kernarg_size 32
		.amdhsa_user_sgpr_count 2
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_wavefront_size32 {narrow}
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_float_denorm_mode_32 {denormals}
		.amdhsa_float_denorm_mode_16_64 {denormals}
	.end_amdhsa_kernel
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .offset:         24
        .size:           8
        .value_kind:     global_buffer
    .kernarg_segment_size: 32
    .max_flat_workgroup_size: 64
    .name:           k
...
	.end_amdgpu_metadata
"""
WAITS = {"gfx90a": "s_waitcnt vmcnt(0) lgkmcnt(0)", "gfx1100": "s_waitcnt vmcnt(0) lgkmcnt(0)",
         "gfx1201": "s_wait_loadcnt 0x0\n\ts_wait_kmcnt 0x0"}  # fmt: skip
WAITS |= {"gfx942": WAITS["gfx90a"], "gfx950": WAITS["gfx90a"]}


def assembly(body, sizes, size, target="gfx942", scalar=False, denormals=3, settings=""):
    """A kernel around some instructions: a, b and c are loaded to v[2:3], v[4:5] and v[6:7], and what they leave in
    v[8:9] is stored; or, for scalar ones, s[12:13], s[14:15], s[16:17] and s[18:19], one workgroup a case."""
    wave, group = (64 if target.startswith("gfx9") else 32), "ttmp9" if target == "gfx1201" else "s2"
    shift = 6 if wave == 64 else 5
    load = {4: "dword", 8: "dwordx2"} if wave == 64 else {4: "b32", 8: "b64"}
    lines = [
        f"s_load_{'dwordx8' if wave == 64 else 'b256'} s[4:11], s[0:1], 0x0",
        f"v_mov_b32_e32 v20, {group}" if scalar else f"v_mov_b32_e32 v20, {group}\n\tv_lshl_add_u32 v20, v20, {shift}, v0",
        WAITS[target],
    ]
    for number, each in enumerate(sizes):
        first = 2 + 2 * number
        lines += [f"v_lshlrev_b32_e32 v21, {each.bit_length() - 1}, v20",
                  f"global_load_{load[each]} {registers('v', first, each)}, v21, s[{4 + 2 * number}:{5 + 2 * number}]"]  # fmt: skip
    lines.append(WAITS[target])
    if scalar:
        words = [2 * n + w for n, each in enumerate(sizes) for w in range(each // 4)]
        lines += [f"v_readfirstlane_b32 s{12 + word}, v{2 + word}" for word in words]
    lines += body.split("\n")
    if scalar:
        lines += [f"v_mov_b32_e32 v{8 + w}, s{18 + w}" for w in range(size // 4)]
    lines += [f"v_lshlrev_b32_e32 v21, {size.bit_length() - 1}, v20",
              f"global_store_{load[size]} v21, {registers('v', 8, size)}, s[10:11]", "s_endpgm"]  # fmt: skip
    code = "\n".join(f"\t{line.strip()}" for line in lines)
    return (
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{target}"\n\t.text\n\t.type\tk,@function\nk:\n{code}\n'
        + DESCRIPTOR.format(narrow=int(wave == 32), denormals=denormals).replace("\t.end_amdhsa_kernel", f"\t\t{settings}\n\t.end_amdhsa_kernel")
    )


def registers(file, first, size):
    return f"{file}{first}" if size == 4 else f"{file}[{first}:{first + 1}]"


def run(body, out, *inputs, target="gfx942", scalar=False, denormals=3, schedule=LAZY_HIGHEST, settings=""):
    """What the instructions make of arrays whose elements are 4 or 8 bytes (2 are stored in 4)."""
    inputs = [np.ascontiguousarray(x) if x.dtype.itemsize > 2 else x.view(U16).astype(U32) for x in inputs]
    count = len(inputs[0])
    size = max(4, np.dtype(out).itemsize)
    text = assembly(body, [x.dtype.itemsize for x in inputs], size, target, scalar, denormals, settings)
    wave = 64 if target.startswith("gfx9") else 32
    with AmdEmulator(text, UNITS.get("ampere"), processes=1, schedule=schedule) as machine:
        groups = count if scalar else -(-count // wave)
        padded = groups * (1 if scalar else wave)
        buffers = []
        for x in [*inputs, *[inputs[0]] * (3 - len(inputs))]:
            whole = np.zeros(padded, x.dtype)
            whole[:count] = x
            buffers.append(machine.upload(whole, name="in"))
        result = machine.alloc(padded * size, name="out")
        machine.launch("k", (groups, 1, 1), (wave, 1, 1), 0, [*buffers, result])
        got = machine.read(result, f"u{size}", padded)[:count]
    if np.dtype(out).itemsize < 4:
        return (got & 0xFFFF).astype(U16).view(out)
    return got.view(out)


def pairs(values, count=2):
    return [grid.ravel() for grid in np.meshgrid(*[values] * count, indexing="ij")]


def same(got, want):
    """Equal bits, all NaNs taken as one."""
    got, want = np.asarray(got), np.asarray(want).astype(got.dtype)
    if got.dtype.kind == "f":
        assert ((got != got) == (want != want)).all()
        number = want == want
        got, want = (x[number].view(f"u{x.dtype.itemsize}") for x in (got, want))
    assert (got == want).all(), np.flatnonzero(got != want)[:5]


def python(function, *arrays):
    """`function` of Python integers, for each element; the lowest 64 bits."""
    return np.array([function(*map(int, values)) % 2**64 for values in zip(*arrays, strict=True)], U64)


def signed(x, bits=32):
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


# ---------------------------------------------------------------- integers and bits

INTEGERS = {
    "v_add_u32_e32 v8, v2, v4": lambda x, y: x + y,
    "v_sub_u32_e32 v8, v2, v4": lambda x, y: x - y,
    "v_subrev_u32_e32 v8, v2, v4": lambda x, y: y - x,
    "v_add_u32_e64 v8, v2, v4 clamp": lambda x, y: min(x + y, 2**32 - 1),
    "v_sub_u32_e64 v8, v2, v4 clamp": lambda x, y: max(x - y, 0),
    "v_add_i32 v8, v2, v4 clamp": lambda x, y: max(-(2**31), min(signed(x) + signed(y), 2**31 - 1)),
    "v_mul_lo_u32 v8, v2, v4": lambda x, y: x * y,
    "v_mul_hi_u32 v8, v2, v4": lambda x, y: x * y >> 32,
    "v_mul_hi_i32 v8, v2, v4": lambda x, y: signed(x) * signed(y) >> 32,
    "v_mul_u32_u24_e32 v8, v2, v4": lambda x, y: (x % 2**24) * (y % 2**24),
    "v_mul_i32_i24_e32 v8, v2, v4": lambda x, y: signed(x, 24) * signed(y, 24),
    "v_mul_hi_u32_u24_e32 v8, v2, v4": lambda x, y: (x % 2**24) * (y % 2**24) >> 32,
    "v_lshlrev_b32_e32 v8, v2, v4": lambda x, y: y << x % 32,
    "v_lshrrev_b32_e32 v8, v2, v4": lambda x, y: y >> x % 32,
    "v_ashrrev_i32_e32 v8, v2, v4": lambda x, y: signed(y) >> x % 32,
    "v_and_b32_e32 v8, v2, v4": lambda x, y: x & y,
    "v_or_b32_e32 v8, v2, v4": lambda x, y: x | y,
    "v_xor_b32_e32 v8, v2, v4": lambda x, y: x ^ y,
    "v_xnor_b32_e32 v8, v2, v4": lambda x, y: ~(x ^ y),
    "v_min_u32_e32 v8, v2, v4": min,
    "v_max_u32_e32 v8, v2, v4": max,
    "v_min_i32_e32 v8, v2, v4": lambda x, y: min(signed(x), signed(y)),
    "v_max_i32_e32 v8, v2, v4": lambda x, y: max(signed(x), signed(y)),
    "v_bcnt_u32_b32 v8, v2, v4": lambda x, y: x.bit_count() + y,
    "v_bfm_b32 v8, v2, v4": lambda x, y: (2 ** (x % 32) - 1) << y % 32,
    "v_lshl_add_u32 v8, v2, 3, v4": lambda x, y: (x << 3) + y,
    "v_add_lshl_u32 v8, v2, v4, 7": lambda x, y: (x + y) % 2**32 << 7,
    "v_lshl_or_b32 v8, v2, 16, v4": lambda x, y: x << 16 | y,
    "v_and_or_b32 v8, v2, 0xff00, v4": lambda x, y: x & 0xFF00 | y,
    "v_bfi_b32 v8, 0xf0f0f0f, v2, v4": lambda x, y: x & 0x0F0F0F0F | y & 0xF0F0F0F0,
    "v_alignbit_b32 v8, v2, v4, 7": lambda x, y: (x << 32 | y) >> 7,
    "v_alignbyte_b32 v8, v2, v4, 3": lambda x, y: (x << 32 | y) >> 24,
    "v_perm_b32 v8, v2, v4, 0x0c060301": lambda x, y: (y >> 8 & 255) | (y >> 24) << 8 | (x >> 16 & 255) << 16,
    "v_add_u16_e32 v8, v2, v4": lambda x, y: (x + y) % 2**16,
    "v_lshrrev_b16_e32 v8, v2, v4": lambda x, y: y % 2**16 >> x % 16,
    "v_ashrrev_i16_e32 v8, v2, v4": lambda x, y: (signed(y, 16) >> x % 16) % 2**16,
    "v_pk_add_u16 v8, v2, v4": lambda x, y: (x + y) % 2**16 | ((x >> 16) + (y >> 16)) % 2**16 << 16,
    "v_pk_mul_lo_u16 v8, v2, v4 op_sel:[1,0] op_sel_hi:[0,1]": lambda x, y: (x >> 16) * y % 2**16 | x * (y >> 16) % 2**16 << 16,
    "v_pk_max_i16 v8, v2, v4": lambda x, y: max(signed(x, 16), signed(y, 16)) % 2**16
    | max(signed(x >> 16, 16), signed(y >> 16, 16)) % 2**16 << 16,
    "v_add_i16 v8, v2, v4 clamp": lambda x, y: max(-(2**15), min(signed(x, 16) + signed(y, 16), 2**15 - 1)) % 2**16,
    "v_pk_sub_u16 v8, v2, v4 clamp": lambda x, y: max(x % 2**16 - y % 2**16, 0) | max((x >> 16) - (y >> 16), 0) << 16,
    "v_pack_b32_f16 v8, v2, v4 op_sel:[1,0,0]": lambda x, y: x >> 16 | y << 16,
    "v_pack_b32_f16 v8, v2, 1.0": lambda x, y: x & 0xFFFF | 0x3C000000, "v_pack_b32_f16 v8, 3, v4": lambda x, y: 3 | y << 16,
    "v_sad_u32 v8, v2, v4, 9": lambda x, y: abs(x - y) + 9,
    "v_mad_u32_u24 v8, v2, v4, v2": lambda x, y: (x % 2**24) * (y % 2**24) + x,
    "v_mad_i32_i24 v8, v2, v4, -5": lambda x, y: signed(x, 24) * signed(y, 24) - 5,
    "v_mov_b32_e32 v8, v4\nv_dot4c_i32_i8_e32 v8, v2, v4": lambda x, y: y + sum(signed(x >> at, 8) * signed(y >> at, 8) for at in (0, 8, 16, 24)),
    "v_dot4_i32_i8 v8, v2, v4, -5": lambda x, y: sum(signed(x >> at, 8) * signed(y >> at, 8) for at in (0, 8, 16, 24)) - 5,
    "v_med3_i32 v8, v2, v4, 5": lambda x, y: sorted([signed(x), signed(y), 5])[1],
    "v_max3_u32 v8, v2, v4, 40": lambda x, y: max(x, y, 40),
    "v_cvt_pk_u16_u32 v8, v2, v4": lambda x, y: min(x, 65535) | min(y, 65535) << 16,
    "v_or_b32_sdwa v8, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_1":
        lambda x, y: x >> 16 | y >> 8 & 255,
    "v_lshlrev_b32_sdwa v8, v2, sext(v4) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:WORD_0":
        lambda x, y: signed(y, 16) << x % 32,
    "v_mov_b32_e32 v8, v2\nv_mov_b32_sdwa v8, v4 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:DWORD":
        lambda x, y: x & 0xFF00FFFF | (y & 255) << 16,
    "v_mov_b32_sdwa v8, v4 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD": lambda x, y: y % 2**16 << 16,
    "v_cmp_eq_u32_e32 vcc, v2, v2\nv_cndmask_b32_sdwa v8, v2, v4, vcc dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:WORD_1":
        lambda x, y: y >> 16 << 16,
    "v_cmp_eq_u32_e32 vcc, v2, v2\nv_cndmask_b32_sdwa v8, v2, v4, vcc dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD":
        lambda x, y: y % 2**16 << 16,
}  # fmt: skip


@pytest.mark.parametrize("body", INTEGERS)
def test_integers_of_two(body):
    x, y = pairs(WORDS)
    assert (run(body, U32, x, y) == python(INTEGERS[body], x, y).astype(U32)).all()


def leading_zeros(x, bits=32):
    return bits - x.bit_length() if x else -1


ONE = {
    "v_not_b32_e32 v8, v2": lambda x: ~x,
    "v_bfrev_b32_e32 v8, v2": lambda x: int(f"{x:032b}"[::-1], 2),
    "v_ffbh_u32_e32 v8, v2": leading_zeros,
    "v_ffbl_b32_e32 v8, v2": lambda x: (x & -x).bit_length() - 1,
    "v_ffbh_i32_e32 v8, v2": lambda x: leading_zeros(x ^ (2**32 - 1 if x >> 31 else 0)),
    "v_bfe_u32 v8, v2, 5, 9": lambda x: x >> 5 & 511,
    "v_bfe_i32 v8, v2, 3, 7": lambda x: signed(x >> 3, 7),
    "v_bfe_u32 v8, v2, 4, 0": lambda x: 0,
}


@pytest.mark.parametrize("body", ONE)
def test_integers_of_one(body):
    assert (run(body, U32, WORDS) == python(ONE[body], WORDS).astype(U32)).all()


LONG = {
    "v_lshlrev_b64 v[8:9], 5, v[2:3]": lambda x, y: x << 5,
    "v_lshrrev_b64 v[8:9], v4, v[2:3]": lambda x, y: x >> y % 64,
    "v_ashrrev_i64 v[8:9], v4, v[2:3]": lambda x, y: signed(x, 64) >> y % 64,
    "v_lshl_add_u64 v[8:9], v[2:3], 3, v[4:5]": lambda x, y: (x << 3) + y,
    "v_mad_u64_u32 v[8:9], s[20:21], v2, v4, v[2:3]": lambda x, y: (x % 2**32) * (y % 2**32) + x,
    "v_mad_i64_i32 v[8:9], s[20:21], v2, v4, v[4:5]": lambda x, y: signed(x) * signed(y) + y,
    "v_add_co_u32_e32 v8, vcc, v2, v4\nv_addc_co_u32_e32 v9, vcc, v3, v5, vcc": lambda x, y: x + y,
    "v_sub_co_u32_e64 v8, s[20:21], v2, v4\nv_subb_co_u32_e64 v9, s[22:23], v3, v5, s[20:21]": lambda x, y: x - y,
    "v_subrev_co_u32_e32 v8, vcc, v2, v4\nv_subbrev_co_u32_e32 v9, vcc, v3, v5, vcc": lambda x, y: y - x,
    "v_mov_b64_e32 v[8:9], v[2:3]": lambda x, y: x,
    "v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]": lambda x, y: x >> 32 | y % 2**32 << 32,
    "v_pk_mov_b32 v[8:9], v[2:3], 5 op_sel:[1,0]": lambda x, y: x >> 32 | 5 << 32,
}


@pytest.mark.parametrize("body", LONG)
def test_integers_of_64_bits(body):
    x, y = pairs(LONGS)
    assert (run(body, U64, x, y) == python(LONG[body], x, y)).all()


@pytest.mark.parametrize("table", [0x00, 0x6C, 0xE8, 0x96, 0xFE, 0x1B])
def test_any_function_of_three_bits(table):
    x, y, z = pairs(WORDS[::3], 3)
    rows = [4 * (x >> bit & 1) + 2 * (y >> bit & 1) + (z >> bit & 1) for bit in range(32)]
    want = sum((table >> row & 1).astype(U32) << U32(bit) for bit, row in enumerate(rows))
    assert (run(f"v_bitop3_b32 v8, v2, v4, v6 bitop3:{table:#x}", U32, x, y, z, target="gfx950") == want).all()
    half = f"v_bitop3_b16 v8, v2, v4, v6 bitop3:{table:#x} op_sel:[0,0,0,0]"
    assert (run(half, U32, x, y, z, target="gfx950") == want & 0xFFFF).all()


SCALAR = {
    "s_add_u32 s18, s12, s14\ns_addc_u32 s19, s13, s15": lambda x, y: x + y,
    "s_sub_u32 s18, s12, s14\ns_subb_u32 s19, s13, s15": lambda x, y: x - y,
    "s_lshl_b64 s[18:19], s[12:13], s14": lambda x, y: x << y % 64,
    "s_ashr_i64 s[18:19], s[12:13], s14": lambda x, y: signed(x, 64) >> y % 64,
    "s_andn2_b64 s[18:19], s[12:13], s[14:15]": lambda x, y: x & ~y,
    "s_xnor_b64 s[18:19], s[12:13], s[14:15]": lambda x, y: ~(x ^ y),
    "s_mul_i32 s18, s12, s14\ns_mul_hi_u32 s19, s12, s14": lambda x, y: (x % 2**32) * (y % 2**32),
    "s_mul_hi_i32 s18, s12, s14\ns_bcnt1_i32_b64 s19, s[14:15]":
        lambda x, y: (signed(x) * signed(y) >> 32) % 2**32 | y.bit_count() << 32,
    "s_bfe_u32 s18, s12, 0x70005\ns_bfe_i32 s19, s12, 0x70005": lambda x, y: (x >> 5 & 127) | signed(x >> 5, 7) % 2**32 << 32,
    "s_bfe_u64 s[18:19], s[12:13], 0x240008": lambda x, y: x >> 8 & 2**36 - 1,
    "s_bfe_i64 s[18:19], s[12:13], 0x200000": lambda x, y: signed(x),
    "s_lshl2_add_u32 s18, s12, s14\ns_cselect_b32 s19, 1, 0": lambda x, y: (4 * (x % 2**32) + y % 2**32) % 2**32
    | (4 * (x % 2**32) + y % 2**32 >= 2**32) << 32,
    "s_add_i32 s18, s12, s14\ns_cselect_b32 s19, 1, 0": lambda x, y: (x + y) % 2**32
    | (signed(x) + signed(y) != signed(x + y)) << 32,
    "s_min_i32 s18, s12, s14\ns_max_u32 s19, s12, s14": lambda x, y: min(signed(x), signed(y)) % 2**32
    | max(x % 2**32, y % 2**32) << 32,
    "s_cmp_lt_i32 s12, s14\ns_cselect_b64 s[18:19], s[12:13], s[14:15]": lambda x, y: x if signed(x) < signed(y) else y,
    "s_cmp_eq_u64 s[12:13], s[14:15]\ns_cselect_b64 s[18:19], -1, 0": lambda x, y: -1 if x == y else 0,
    "s_bitcmp1_b64 s[12:13], 33\ns_cselect_b64 s[18:19], 7, 9": lambda x, y: 7 if x >> 33 & 1 else 9,
    "s_ff1_i32_b64 s18, s[12:13]\ns_flbit_i32_b32 s19, s14": lambda x, y: ((x & -x).bit_length() - 1) % 2**32
    | leading_zeros(y % 2**32) % 2**32 << 32,
    "s_sext_i32_i16 s18, s12\ns_sext_i32_i8 s19, s14": lambda x, y: signed(x, 16) % 2**32 | signed(y, 8) % 2**32 << 32,
    "s_pack_lh_b32_b16 s18, s12, s14\ns_pack_hl_b32_b16 s19, s12, s14": lambda x, y: x & 0xFFFF | y & 0xFFFF0000
    | (x >> 16 & 0xFFFF | (y & 0xFFFF) << 16) << 32,
    "s_movk_i32 s18, 0x8001\ns_mov_b32 s19, s14\ns_addk_i32 s19, 0xfffe": lambda x, y: 0xFFFF8001 | (y - 2) % 2**32 << 32,
    "s_brev_b64 s[18:19], s[12:13]": lambda x, y: int(f"{x:064b}"[::-1], 2),
    "s_abs_i32 s18, s12\ns_absdiff_i32 s19, s12, s14":
        lambda x, y: abs(signed(x)) % 2**32 | abs(signed(signed(x) - signed(y))) % 2**32 << 32,
    "s_bfm_b64 s[18:19], s12, s14": lambda x, y: (2 ** (x % 64) - 1) << y % 64,
    "s_mov_b64 s[18:19], 0\ns_bitset1_b64 s[18:19], s12": lambda x, y: 1 << x % 64,
    "s_cmp_gt_u32 s12, s14\ns_mov_b64 s[18:19], s[14:15]\ns_cmov_b64 s[18:19], s[12:13]":
        lambda x, y: x if x % 2**32 > y % 2**32 else y,
}  # fmt: skip


@pytest.mark.parametrize("body", SCALAR)
def test_scalars(body):
    x, y = pairs(LONGS)
    assert (run(body, U64, x, y, scalar=True) == python(SCALAR[body], x, y)).all()


# ---------------------------------------------------------------- floating point

FLOATS = {
    "v_add_f32_e32 v8, v2, v4": np.add,
    "v_sub_f32_e32 v8, v2, v4": np.subtract,
    "v_subrev_f32_e32 v8, v2, v4": lambda x, y: y - x,
    "v_mul_f32_e32 v8, v2, v4": np.multiply,
    "v_add_f32_e64 v8, -v2, |v4|": lambda x, y: -x + np.abs(y),
    "v_mul_f32_e64 v8, v2, -|v4| mul:2": lambda x, y: x * -np.abs(y) * F32(2),
    "v_add_f32_e64 v8, v2, v4 clamp": lambda x, y: np.where((x + y) != (x + y), 0, np.clip(x + y, 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("body", FLOATS)
def test_floats(body):
    x, y = pairs(AWKWARD)
    with np.errstate(all="ignore"):
        want = FLOATS[body](x, y).astype(F32)
    same(run(body, F32, x, y), want)


@pytest.mark.parametrize("name", ["max", "min"])
def test_a_maximum_prefers_numbers_and_knows_signed_zeros(name):
    x, y = pairs(AWKWARD)
    got = run(f"v_{name}_f32_e32 v8, v2, v4", F32, x, y)
    pick = max if name == "max" else min
    for a, b, c in zip(x.tolist(), y.tolist(), got.tolist(), strict=True):
        if a != a or b != b:
            expected = b if a != a else a
        else:
            expected = pick((a, b), key=lambda v: (v, math.copysign(1, v)))
        assert (c != c and expected != expected) or (c == expected and math.copysign(1, c) == math.copysign(1, expected))


def rounded(exact):
    """A fraction to FP32, ties to even."""
    if not exact:
        return F32(0)
    exponent = max(math.floor(math.log2(abs(exact))) if abs(exact) >= TINY else -149, -126)
    while abs(exact) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while exponent > -126 and abs(exact) < Fraction(2) ** exponent:
        exponent -= 1
    ulp = Fraction(2) ** (exponent - 23)
    if abs(exact) >= Fraction(2) ** 128 - Fraction(2) ** 103:
        return F32(math.copysign(math.inf, exact))
    return F32(float(round(exact / ulp) * ulp))


def test_a_fused_multiply_add_rounds_once():
    finite = AWKWARD[np.isfinite(AWKWARD)][:26]
    x, y, z = pairs(finite, 3)
    want = [rounded(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))) for a, b, c in zip(x, y, z, strict=True)]
    pair = "v_mov_b32_e32 v3, v2\nv_mov_b32_e32 v5, v4\nv_mov_b32_e32 v7, v6\n"
    for body in (
        "v_fma_f32 v8, v2, v4, v6",
        "v_mov_b32_e32 v8, v6\nv_fmac_f32_e32 v8, v2, v4",
        pair + "v_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7]\nv_mov_b32_e32 v8, v9",
        pair + "v_mov_b32_e32 v3, 0\nv_pk_fma_f32 v[8:9], v[2:3], v[4:5], v[6:7] op_sel_hi:[0,1,1]\nv_mov_b32_e32 v8, v9",
    ):
        assert (run(body, F32, x, y, z) == np.array(want, F32)).all()


def test_two_multiply_adds_in_one():
    """As clang makes them of plain FP32: one operand for both halves, from either of its registers; and two of a dual instruction, of which
    neither sees what the other writes."""
    finite = AWKWARD[np.isfinite(AWKWARD) & (np.abs(AWKWARD) < 2.0**60)]
    x, y = pairs(finite)
    low, high = fma(x, y, np.ones_like(x)), fma(x, x, np.full_like(x, 2))
    registers = "v_mov_b32_e32 v3, 0\nv_mov_b32_e32 v10, v4\nv_mov_b32_e32 v11, v2\nv_mov_b32_e32 v12, 1.0\nv_mov_b32_e32 v13, 2.0\n"
    turned = "v_mov_b32_e32 v3, v2\nv_mov_b32_e32 v2, 0\n"
    for packed in (
        "v_pk_fma_f32 v[12:13], v[2:3], v[10:11], v[12:13] op_sel_hi:[0,1,1]",
        turned + "v_pk_fma_f32 v[12:13], v[2:3], v[10:11], v[12:13] op_sel:[1,0,0]",
        turned + "v_pk_fma_f32 v[12:13], v[10:11], v[2:3], v[12:13] op_sel:[0,1,0]",
    ):
        assert np.array_equal(run(registers + packed + "\nv_mov_b32_e32 v8, v12", F32, x, y), low), packed
        assert np.array_equal(run(registers + packed + "\nv_mov_b32_e32 v8, v13", F32, x, y), high), packed
    dual = registers + "v_dual_fmac_f32 v12, v2, v4 :: v_dual_fmac_f32 v13, v2, v11\n"
    for target in ("gfx1100", "gfx1201"):
        assert np.array_equal(run(dual + "v_mov_b32_e32 v8, v12", F32, x, y, target=target), low)
        assert np.array_equal(run(dual + "v_mov_b32_e32 v8, v13", F32, x, y, target=target), high)
    crossed = registers + "v_dual_fmac_f32 v12, v2, v4 :: v_dual_fmac_f32 v13, v2, v12\nv_mov_b32_e32 v8, v13"
    assert np.array_equal(run(crossed, F32, x, y, target="gfx1100"), fma(x, np.ones_like(x), np.full_like(x, 2)))


def test_the_older_multiply_add_rounds_twice_and_knows_no_subnormals():
    x, y = pairs(AWKWARD[np.isfinite(AWKWARD)])
    flush = lambda v: np.where(np.abs(v) < F32(2.0**-126), np.copysign(F32(0), v), v)  # noqa: E731
    with np.errstate(all="ignore"):
        want = flush(flush(flush(x) * flush(y)) + F32(0.1))
    same(run("v_mov_b32_e32 v8, 0x3dcccccd\nv_mac_f32_e32 v8, v2, v4", F32, x, y, target="gfx90a"), want)
    same(run("v_madak_f32 v8, v2, v4, 0x3dcccccd", F32, x, y, target="gfx90a"), want)


def test_nans_come_out_quiet_and_the_first_one():
    signalling, quiet = np.array([0x7F800001], U32).view(F32), np.array([0xFFC12345], U32).view(F32)
    one = np.ones(1, F32)
    assert run("v_add_f32_e32 v8, v2, v4", U32, signalling, quiet)[0] == 0x7FC00001
    assert run("v_mul_f32_e32 v8, v2, v4", U32, one, quiet)[0] == 0xFFC12345
    assert run("v_sub_f32_e32 v8, v2, v2", U32, np.array([np.inf], F32))[0] == 0x7FC00000
    assert run("v_fma_f32 v8, v2, v4, v6", U32, np.zeros(1, F32), np.array([np.inf], F32), one)[0] == 0x7FC00000
    assert run("v_max_f32_e32 v8, v2, v2", U32, signalling)[0] == 0x7FC00001


@pytest.mark.parametrize(("name", "word"), [("fp8", "e4m3"), ("bf8", "e5m2")])
@pytest.mark.parametrize("target", ["gfx942", "gfx950", "gfx1201"])
def test_words_of_8_bits(target, name, word):
    """Each byte of a register widened, by SDWA or RDNA 4's `byte_sel`; two numbers rounded into either half, the other of which stays."""
    word += "fnuz" if target == "gfx942" else ""
    bits = np.arange(256, dtype=U32) * U32(0x01030507)  # every word in each place
    for byte in range(4):
        choice = f"_e64 v8, v2 byte_sel:{byte}" if target == "gfx1201" else f"_sdwa v8, v2 src0_sel:BYTE_{byte}"
        same(run(f"v_cvt_f32_{name}{choice}", F32, bits, target=target), decode(word, (bits >> U32(8 * byte) & U32(255)).astype(np.uint8)))
    same(run(f"v_cvt_f32_{name}_e32 v8, v2", F32, bits, target=target), decode(word, (bits & U32(255)).astype(np.uint8)))
    x, y = (np.linspace(low, low + 16, 300).astype(F32) for low in (-7, -9))
    packed = to_float8(x, word).astype(U32) | to_float8(y, word).astype(U32) << U32(8)
    before = np.full(300, 0xABCD1234, U32)
    for half, want in ((0, packed | U32(0xABCD0000)), (1, packed << U32(16) | U32(0x1234))):
        body = f"v_mov_b32_e32 v8, v6\nv_cvt_pk_{name}_f32 v8, v2, v4" + " op_sel:[0,0,1]" * half
        assert np.array_equal(run(body, U32, x, y, before, target=target), want)


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_subnormals_are_flushed_where_the_mode_says_so(target):
    x, y = pairs(AWKWARD)
    flush = lambda v: np.where(np.abs(v) < F32(2.0**-126), np.copysign(F32(0), v), v)  # noqa: E731
    with np.errstate(all="ignore"):
        same(run("v_add_f32_e32 v8, v2, v4", F32, x, y, denormals=0, target=target), flush(flush(x) + flush(y)))
        same(run("v_mul_f32_e32 v8, v2, v4", F32, x, y, denormals=2, target=target), flush(x) * flush(y))
        same(run("v_mul_f32_e32 v8, v2, v4", F32, x, y, denormals=1, target=target), flush(x * y))
        same(run("s_denorm_mode 0\nv_mul_f32_e32 v8, v2, v4", F32, x, y, target=target), flush(flush(x) * flush(y)))
        set_mode = "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mul_f32_e32 v8, v2, v4"
        same(run(set_mode, F32, x, y, target=target), flush(flush(x) * flush(y)))
        same(run(set_mode.replace("4, 2", "4, 4"), F32, x, y, target=target), flush(flush(x) * flush(y)))
        same(run("s_round_mode 0\nv_mul_f32_e32 v8, v2, v4", F32, x, y, target=target), x * y)
        same(run("v_mov_b32_e32 v8, v2", F32, x, denormals=0, target=target), x)
        # The quotient that a division ends with was flushed, or not, where it was computed.
        small = x[(x != 0) & (np.abs(x) < F32(2.0**-126))]
        same(run("v_div_fixup_f32 v8, v2, v4, v2", F32, small, np.ones_like(small), denormals=0, target=target), small)
        # A comparison of floats flushes its inputs; that of integers and a class are of the bits.
        mask = "vcc" if target == "gfx942" else "vcc_lo"
        for compare, want in (
            ("v_cmp_lt_f32_e32 {}, v2, v4", flush(x) < flush(y)), ("v_cmp_lt_u32_e32 {}, v2, v4", x.view(U32) < y.view(U32)),
            ("v_cmp_lt_i32_e32 {}, v2, v4", x.view(I32) < y.view(I32)), ("v_cmp_class_f32_e64 {}, v2, 0x90", (x != 0) & (np.abs(x) < F32(2.0**-126))),
        ):
            body = f"{compare.format(mask)}\nv_cndmask_b32_e64 v8, 0, 1, {mask}"
            assert (run(body, U32, x, y, denormals=0, target=target) == want).all(), compare
    for body in ("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 3", "s_round_mode 4"):
        with pytest.raises(EmulationError, match="a rounding mode other than to nearest"):
            run(body, F32, x, y, target=target)


UNARY = {
    "v_floor_f32_e32 v8, v2": np.floor, "v_ceil_f32_e32 v8, v2": np.ceil, "v_trunc_f32_e32 v8, v2": np.trunc,
    "v_rndne_f32_e32 v8, v2": np.rint, "v_sqrt_f32_e32 v8, v2": lambda x: np.sqrt(x.astype(F64)),
    "v_rcp_f32_e32 v8, v2": lambda x: 1 / x.astype(F64),
    "v_ldexp_f32 v8, v2, -140": lambda x: np.ldexp(x.astype(F64), -140),
    "v_ldexp_f32 v8, v2, 0x7fffffff": lambda x: np.where(x == 0, x, x * np.inf),
    "v_frexp_mant_f32_e32 v8, v2": lambda x: np.where(np.isfinite(x), np.frexp(x)[0], x),
    "v_fract_f32_e32 v8, v2": lambda x: np.minimum(x - np.floor(x), F32(1 - 2.0**-24)),
}  # fmt: skip


@pytest.mark.parametrize("body", UNARY)
def test_functions_of_one_float(body):
    with np.errstate(all="ignore"):
        same(run(body, F32, AWKWARD), UNARY[body](AWKWARD).astype(F32))


def saturated(x, low, high):
    return 0 if x != x else int(max(low, min(high, x)) if abs(x) == math.inf else max(low, min(high, math.trunc(x))))


def test_conversions_saturate_and_round():
    got = run("v_cvt_i32_f32_e32 v8, v2", I32, AWKWARD)
    assert got.tolist() == [saturated(x, -(2**31), 2**31 - 1) for x in AWKWARD.tolist()]
    got = run("v_cvt_u32_f32_e32 v8, v2", U32, AWKWARD)
    assert got.tolist() == [saturated(x, 0, 2**32 - 1) for x in AWKWARD.tolist()]
    same(run("v_cvt_f32_i32_e32 v8, v2", F32, WORDS), WORDS.view(I32).astype(F32))
    same(run("v_cvt_f32_u32_e32 v8, v2", F32, WORDS), WORDS.astype(F32))
    same(run("v_cvt_f32_ubyte2_e32 v8, v2", F32, WORDS), (WORDS >> 16 & 255).astype(F32))
    with np.errstate(all="ignore"):
        same(run("v_cvt_f16_f32_e32 v8, v2", F16, AWKWARD), AWKWARD.astype(F16))
        same(run("v_cvt_f64_f32_e32 v[8:9], v2", F64, AWKWARD), AWKWARD.astype(F64))
    same(run("v_cvt_f32_f16_e32 v8, v2", F32, HALVES), HALVES.astype(F32))
    upper = "v_cvt_f32_f16_sdwa v8, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1"
    same(run(upper, F32, HALVES.view(U16).astype(U32) << 16), HALVES.astype(F32))
    same(run("v_frexp_exp_i32_f32_e32 v8, v2", I32, AWKWARD), np.where(np.isfinite(AWKWARD), np.frexp(AWKWARD)[1], 0))
    same(run("v_mov_b32_e32 v8, -1\nv_frexp_exp_i16_f16_e32 v8, v2", I16, HALVES), np.where(np.isfinite(HALVES), np.frexp(HALVES)[1], 0))


def test_packing_toward_zero_and_to_bfloat16():
    low = run("v_cvt_pkrtz_f16_f32 v8, v2, 0", F16, AWKWARD)
    for x, h in zip(AWKWARD.tolist(), low.tolist(), strict=True):
        if x != x:
            assert h != h
        elif abs(x) == math.inf:
            assert h == x
        else:
            assert abs(h) <= abs(x) and h * x >= 0
            assert abs(h) == 65504 or float(np.nextafter(F16(abs(h)), F16(math.inf))) > abs(x)
    high = run("v_cvt_pk_bf16_f32 v8, 0, v2", U32, AWKWARD, target="gfx950") >> 16
    bits = AWKWARD.view(U32).astype(U64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    number = AWKWARD == AWKWARD
    assert (high[number] == nearest[number]).all() and (high[~number] & 0x7FC0 == 0x7FC0).all()


def test_halves_in_their_places():
    x, y = pairs(HALVES)
    both = x.view(U16).astype(U32) | y.view(U16).astype(U32) << 16
    with np.errstate(all="ignore"):
        same(run("v_mul_f16_e32 v8, v2, v4", F16, x, y), x * y)
        same(run("v_fma_f16 v8, v2, v4, v2", F16, x, y), (x.astype(F64) * y + x).astype(F16))
        packed = run("v_pk_add_f16 v8, v2, v2 op_sel:[0,1] op_sel_hi:[1,0] neg_lo:[0,1]", U32, both)
        same((packed & 0xFFFF).astype(U16).view(F16), x - y)
        same((packed >> 16).astype(U16).view(F16), y + x)
        packed = run("v_pk_fma_f16 v8, v2, 2.0, v2 op_sel_hi:[1,0,1]", U32, both)
        same((packed >> 16).astype(U16).view(F16), (y.astype(F64) * 2 + y).astype(F16))
        packed = run("v_pk_mul_f16 v8, v2, 2.0", U32, both)  # a constant's upper half is 0
        same((packed >> 16).astype(U16).view(F16), y * F16(0))
        body = "v_mov_b32_e32 v8, -1\nv_fma_mixlo_f16 v8, v2, v4, -v2 op_sel:[1,0,0] op_sel_hi:[1,0,1]"
        mixed = run(body, U32, both, np.full(len(x), 3, F32))
        same((mixed & 0xFFFF).astype(U16).view(F16), (y.astype(F32) * 3 - x.astype(F32)).astype(F16))
        assert (mixed >> 16 == 0xFFFF).all()


def test_16_bits_and_the_other_half_of_the_register():
    """GFX9 clears it, later generations leave it."""
    x = np.array([0x12345678], U32)
    body = "v_mov_b32_e32 v8, -1\nv_add_{}u16{} v8, v2, v2"
    assert run(body.format("", "_e32"), U32, x)[0] == 0xACF0
    assert run(body.format("nc_", ""), U32, x, target="gfx1201")[0] == 0xFFFFACF0
    assert run("v_mov_b32_e32 v8, v2\nv_mov_b16_e32 v8.h, v2.l", U32, x, target="gfx1100")[0] == 0x56785678
    assert run("v_mov_b32_e32 v8, v2\nv_add_nc_u16 v8.l, v2.h, v2.l", U32, x, target="gfx1100")[0] == 0x123468AC


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_division_as_the_compiler_does_it(target):
    x, y = pairs(np.concatenate([AWKWARD, np.array([1e38, 3e-39, 7.0, 1e-20], F32)]))
    vcc = "vcc" if target == "gfx942" else "vcc_lo"
    body = f"""v_div_scale_f32 v10, s[20:21], v4, v4, v2
v_rcp_f32_e32 v11, v10
v_div_scale_f32 v12, {vcc}, v2, v4, v2
v_fma_f32 v13, -v10, v11, 1.0
v_fma_f32 v11, v13, v11, v11
v_mul_f32_e32 v13, v12, v11
v_fma_f32 v14, -v10, v13, v12
v_fma_f32 v13, v14, v11, v13
v_fma_f32 v14, -v10, v13, v12
v_div_fmas_f32 v13, v14, v11, v13
v_div_fixup_f32 v8, v13, v4, v2"""
    body = body if target == "gfx942" else body.replace("s[20:21]", "s20")
    with np.errstate(all="ignore"):
        same(run(body, F32, x, y, target=target), x / y)


@pytest.mark.parametrize(("type_", "far", "scale"), [(F32, 96, 64), (F64, 768, 128)])
def test_a_divisor_is_scaled_from_an_exponent_on_that_is_far_from_the_numerators(type_, far, scale):
    """And VCC, which is set in the lanes whose quotient is scaled back."""
    numerator, denominator = np.exp2(np.array([far, far - 1, far - 2], F64)).astype(type_), np.array([1, 1, 0.5], type_)
    width, (first, last) = (32, ("v4", "v2")) if type_ is F32 else (64, ("v[4:5]", "v[2:3]"))
    body = f"v_div_scale_f{width} {'v8' if type_ is F32 else 'v[8:9]'}, vcc, {first}, {first}, {last}"
    assert run(body, type_, numerator, denominator).tolist() == [2.0**scale, 1, 0.5]
    assert run(f"{body}\nv_cndmask_b32_e64 v8, 0, 1, vcc", U32, numerator, denominator).tolist() == [1, 0, 0]


COMPARES = {
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "eq": lambda x, y: x == y, "ge": lambda x, y: x >= y,
    "gt": lambda x, y: x > y, "lg": lambda x, y: (x < y) | (x > y), "neq": lambda x, y: ~(x == y),
    "nlt": lambda x, y: ~(x < y), "nge": lambda x, y: ~(x >= y), "u": lambda x, y: (x != x) | (y != y),
    "o": lambda x, y: (x == x) & (y == y),
}  # fmt: skip


@pytest.mark.parametrize("kind", COMPARES)
def test_comparisons_with_nans(kind):
    x, y = pairs(AWKWARD)
    body = f"v_cmp_{kind}_f32_e64 s[20:21], v2, v4\nv_cndmask_b32_e64 v8, 0, 1, s[20:21]"
    assert (run(body, U32, x, y) == COMPARES[kind](x, y)).all()
    body = f"v_cmp_{kind}_f32_e32 vcc_lo, v2, v4\nv_cndmask_b32_e32 v8, 5, v4, vcc_lo"
    assert (run(body, U32, x, y, target="gfx1100") == np.where(COMPARES[kind](x, y), y.view(U32), 5)).all()


def test_comparisons_of_integers_and_classes():
    x, y = pairs(WORDS)
    choose = "\nv_cndmask_b32_e64 v8, 0, 1, vcc"
    for kind, want in (
        ("lt_i32", x.view(I32) < y.view(I32)), ("gt_u32", x > y), ("ne_u16", x.astype(U16) != y.astype(U16)),
    ):  # fmt: skip
        assert (run(f"v_cmp_{kind}_e32 vcc, v2, v4" + choose, U32, x, y) == want).all()
    x, y = pairs(LONGS)
    assert (run("v_cmp_le_i64_e32 vcc, v[2:3], v[4:5]" + choose, U32, x, y) == (x.view(I64) <= y.view(I64))).all()
    subnormal = (AWKWARD != 0) & (np.abs(AWKWARD) < F32(2.0**-126))
    wanted = {0x3: AWKWARD != AWKWARD, 0x204: np.isinf(AWKWARD), 0x90: subnormal, 0x20: (AWKWARD == 0) & np.signbit(AWKWARD)}
    for mask, want in wanted.items():
        body = f"v_cmp_class_f32_e64 s[20:21], v2, {mask:#x}\nv_cndmask_b32_e64 v8, 0, 1, s[20:21]"
        assert (run(body, U32, AWKWARD) == want).all()


# ---------------------------------------------------------------- between lanes

LANE = np.arange(64)


def lanes(body, target="gfx942", values=None):
    values = LANE.astype(U32) + 100 if values is None else values
    return run(body, U32, values[:64] if target == "gfx942" else values[:32], target=target)


def test_movements_between_lanes():
    x = LANE + 100
    assert (lanes("v_mov_b32_dpp v8, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf") == (LANE ^ 1) + 100).all()
    shifted = np.where(LANE % 16 >= 3, x - 3, 0)
    assert (lanes("v_mov_b32_dpp v8, v2 row_shr:3 row_mask:0xf bank_mask:0xf bound_ctrl:1") == shifted).all()
    kept = np.where(LANE % 16 >= 3, x - 3, 7)
    assert (lanes("v_mov_b32_e32 v8, 7\nv_mov_b32_dpp v8, v2 row_shr:3 row_mask:0xf bank_mask:0xf") == kept).all()
    rows = np.where(LANE // 16 == 1, LANE // 16 * 16 + (LANE - 5) % 16 + 100, 7)
    assert (lanes("v_mov_b32_e32 v8, 7\nv_mov_b32_dpp v8, v2 row_ror:5 row_mask:0x2 bank_mask:0xf") == rows).all()
    assert (lanes("v_add_u32_dpp v8, v2, v2 row_mirror row_mask:0xf bank_mask:0xf") == (LANE ^ 15) + 100 + x).all()
    wide = np.where(LANE // 16 % 2 == 1, LANE // 16 * 16 - 1 + 100, 7)
    assert (lanes("v_mov_b32_e32 v8, 7\nv_mov_b32_dpp v8, v2 row_bcast:15 row_mask:0xa bank_mask:0xf") == wide).all()
    narrow = LANE[:32]
    assert (lanes("v_mov_b32_dpp v8, v2 dpp8:[7,6,5,4,3,2,1,0]", "gfx1100") == (narrow ^ 7) + 100).all()
    assert (lanes("v_mov_b32_dpp v8, v2 row_xmask:9 row_mask:0xf bank_mask:0xf", "gfx1201") == (narrow ^ 9) + 100).all()
    assert (lanes("v_mov_b32_dpp v8, v2 row_share:4 row_mask:0xf bank_mask:0xf", "gfx1201") == narrow // 16 * 16 + 4 + 100).all()
    turned = "s_mov_b32 s20, 0x76543210\ns_mov_b32 s21, 0xfedcba98\nv_permlanex16_b32 v8, v2, s20, s21"
    assert (lanes(turned, "gfx1100") == (narrow ^ 16) + 100).all()


def test_a_movement_from_a_lane_that_is_off():
    body = """v_mov_b32_e32 v8, 7
s_mov_b64 exec, 0xfffe
v_mov_b32_dpp v8, v2 row_shr:1 row_mask:0xf bank_mask:0xf{}
s_mov_b64 exec, -1"""
    want = np.where((LANE >= 2) & (LANE < 16), LANE + 99, 7)
    assert (lanes(body.format("")) == want).all()
    want[1] = 0
    assert (lanes(body.format(" bound_ctrl:1")) == want).all()


def test_permutations_through_lds_and_single_lanes():
    wait = "\ns_waitcnt lgkmcnt(0)"
    reverse = "v_sub_u32_e32 v10, 63, v0\nv_lshlrev_b32_e32 v10, 2, v10\n"
    assert (lanes(reverse + "ds_bpermute_b32 v8, v10, v2" + wait) == 163 - LANE).all()
    assert (lanes(reverse + "ds_permute_b32 v8, v10, v2" + wait) == 163 - LANE).all()
    assert (lanes("ds_swizzle_b32 v8, v2 offset:swizzle(SWAP,16)" + wait) == (LANE ^ 16) + 100).all()
    masked = (LANE & 0b110001) | (~LANE & 0b100) | 0b10
    assert (lanes('ds_swizzle_b32 v8, v2 offset:swizzle(BITMASK_PERM,"p0i1p")' + wait) == masked + 100).all()
    fours = LANE // 4 * 4 + np.array([3, 3, 0, 1])[LANE % 4]
    assert (lanes("ds_swizzle_b32 v8, v2 offset:swizzle(QUAD_PERM,3,3,0,1)" + wait) == fours + 100).all()
    off = "s_mov_b64 exec, 0xff\nds_bpermute_b32 v8, v10, v2\ns_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1"
    assert (lanes("v_mov_b32_e32 v8, 5\n" + reverse + off) == np.where(LANE < 8, 0, 5)).all()
    body = "v_readlane_b32 s20, v2, 9\ns_mov_b32 m0, 33\nv_mov_b32_e32 v8, v2\nv_writelane_b32 v8, s20, m0\n"
    assert (lanes(body) == np.where(LANE == 33, 109, LANE + 100)).all()
    body = "s_mov_b64 exec, 0xff00\nv_readfirstlane_b32 s20, v2\ns_mov_b64 exec, -1\nv_mov_b32_e32 v8, s20"
    assert (lanes(body) == 108).all()
    below = "v_mbcnt_lo_u32_b32 v8, s20, 3\nv_mbcnt_hi_u32_b32 v8, s21, v8"
    mask = 0xF0F00000FFFF0001
    got = lanes(f"s_mov_b32 s20, {mask % 2**32:#x}\ns_mov_b32 s21, {mask >> 32:#x}\n" + below)
    assert got.tolist() == [(mask & (1 << lane) - 1).bit_count() + 3 for lane in range(64)]


def test_both_halves_of_a_dual_instruction_read_first():
    x = np.array([3.0], F32)
    body = "v_mov_b32_e32 v8, 1.0\nv_dual_mov_b32 v8, v2 :: v_dual_add_f32 v3, v8, v8\nv_sub_f32_e32 v8, v8, v3"
    assert run(body, F32, x, target="gfx1100")[0] == 1.0


# ---------------------------------------------------------------- undefined bits

HALF_LOADED = "v_lshlrev_b32_e32 v10, 2, v0\nds_write_b32 v10, v2\nds_read_u16_d16 v12, v10\ns_waitcnt lgkmcnt(0)"
UNDEFINED_AND_FINE = {
    "halves merged": "v_and_b32_e32 v10, 0xffff, v2\nv_lshl_or_b32 v8, v11, 16, v10\nv_and_b32_e32 v8, 0xffff, v8",
    "a field inserted twice": "v_bfi_b32 v8, 0xffff, v2, v11\nv_bfi_b32 v8, 0xffff, v8, v2",
    "bytes picked": "v_perm_b32 v8, v11, v2, 0x03020100",
    "moved, then not used": "v_mov_b32_e32 v12, v11\nv_mov_b32_e32 v8, v2",
    "not chosen": "s_mov_b64 vcc, -1\nv_cndmask_b32_e32 v8, v11, v2, vcc",
    "masked by a zero": "v_and_b32_e32 v10, 0, v11\nv_or_b32_e32 v8, v10, v2",
    "shifted out": "v_lshlrev_b32_e32 v10, 16, v2\nv_alignbit_b32 v8, v11, v10, 16\nv_and_b32_e32 v8, 0xffff, v8",
    "the unused upper half of a product": "v_mad_u64_u32 v[8:9], s[20:21], v2, 1, v[10:11]",
    "scalar, spilled to a lane and back": "v_mov_b32_e32 v12, v2\nv_writelane_b32 v12, s27, 5\nv_writelane_b32 v12, s28, 6\n"
    "v_readlane_b32 s29, v12, 5\ns_mov_b32 s30, s29\nv_mov_b32_e32 v8, v2",
    "a spilled scalar overwritten": "v_mov_b32_e32 v8, v2\nv_readlane_b32 s20, v2, 5\nv_writelane_b32 v8, s27, 5\nv_writelane_b32 v8, s20, 5",
    "the first lane's": "v_readfirstlane_b32 s29, v11\nv_mov_b32_e32 v8, v2",
    "the half that a load leaves": f"{HALF_LOADED}\nv_and_b32_e32 v8, 0xffff, v12",
    "in a lane that is not moved": "v_mov_b32_e32 v8, v2\ns_mov_b64 exec, 1\nv_mov_b32_e32 v12, v2\ns_mov_b64 exec, 3\n"
    "v_mov_b32_dpp v8, v12 quad_perm:[0,0,0,0]\ns_mov_b64 exec, -1",
    "in lanes that are off": "s_mov_b64 exec, 0\nv_add_u32_e32 v8, v11, v11\ns_mov_b64 exec, -1\nv_mov_b32_e32 v8, v2",
}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED_AND_FINE)
def test_undefined_bits_that_do_not_matter(name):
    body = UNDEFINED_AND_FINE[name]
    if "product" in name:
        body = "v_mov_b32_e32 v10, 0\n" + body
    x = np.array([0x1234], U32)
    assert run(body, U32, x)[0] == 0x1234


UNDEFINED_AND_USED = {
    "added": ("v_add_u32_e32 v8, v2, v11", "register v11 is read, which nothing has written"),
    "compared": ("v_cmp_eq_u32_e32 vcc, v2, v11", "register v11 is read"),
    "stored": ("v_mov_b32_e32 v8, v11", "register v8 is read"),
    "chosen": ("s_mov_b64 vcc, 1\nv_cndmask_b32_e32 v8, v11, v2, vcc", "register v8 is read"),
    "merged and used": ("v_lshl_or_b32 v8, v11, 16, v2", "register v8 is read, part of which nothing has written"),
    "a half": ("v_and_b32_e32 v10, 0xffff, v11\nv_add_f16_e32 v8, v10, v10", "register v10 is read, part"),
    "a carry into what is used": (
        "v_lshl_or_b32 v10, v2, 16, v2\nv_lshlrev_b32_e32 v12, 8, v11\nv_add_u32_e32 v8, v10, v12", "register v8 is read, part"
    ),
    "a carry beyond it": (
        "v_and_b32_e32 v12, 0xff, v11\nv_add_u32_e32 v8, v2, v12\nv_lshrrev_b32_e32 v8, 8, v8", "register v8 is read"
    ),
    "scalar": ("s_add_u32 s20, s21, 1\nv_mov_b32_e32 v8, s20", "register s21 is read, which nothing has written"),
    "scalar, after a lane": (
        "v_mov_b32_e32 v12, v2\nv_writelane_b32 v12, s27, 5\nv_readlane_b32 s29, v12, 5\ns_add_u32 s29, s29, 1", "register s29 is read, which nothing"
    ),
    "moved from another lane": (
        "s_mov_b64 exec, 1\nv_mov_b32_e32 v12, v2\ns_mov_b64 exec, 3\nv_mov_b32_dpp v8, v12 quad_perm:[1,1,1,1]\n"
        "v_add_u32_e32 v8, v8, v2", "register v8 is read"
    ),
    "a lane of a spilled scalar": ("v_mov_b32_e32 v12, v2\nv_writelane_b32 v12, s27, 1\nv_add_u32_e32 v8, v12, v2", "register v12 is read, which nothing"),
    "half a lane": (
        "v_and_b32_e32 v10, 0xffff, v11\nv_readfirstlane_b32 s29, v10\ns_add_u32 s29, s29, 1", "register s29 is read, part of which nothing"
    ),
    "the half that a load leaves": (f"{HALF_LOADED}\nv_add_u32_e32 v8, v12, v2", "register v8 is read, part of which nothing"),
    "which lane": ("v_writelane_b32 v2, s20, s27", "register s27 is read, which nothing"),
    "mask": ("v_cndmask_b32_e64 v8, 0, 1, s[22:23]", "register s22 is read"),
    "accumulator": ("v_accvgpr_read_b32 v8, a3\nv_add_u32_e32 v8, v8, v2", "register v8 is read"),
    "branch": ("s_cbranch_scc1 .L1\n.L1:\nv_mov_b32_e32 v8, v2", "SCC is read"),
    "one lane's": ("s_mov_b64 exec, 1\nv_mov_b32_e32 v8, v2\ns_mov_b64 exec, -1\nv_add_u32_e32 v8, v8, v2", "register v8 is read"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNDEFINED_AND_USED)
def test_undefined_bits_that_are_used_are_a_fault(name):
    body, message = UNDEFINED_AND_USED[name]
    with pytest.raises(EmulationError, match=message):
        run(body, U32, np.array([0x1234, 5], U32))


# ---------------------------------------------------------------- waits

ADDRESS = "v_lshlrev_b32_e32 v21, 2, v20\nv_lshlrev_b32_e32 v10, 2, v0\nds_write_b32 v10, v2\ns_waitcnt lgkmcnt(0)\n"
COVERED = {
    "the first of two in order": "ds_read_b32 v8, v10\nds_read_b32 v9, v10\ns_waitcnt lgkmcnt(1)",
    "behind others that may be slower": "s_load_dword s20, s[4:5], 0x0\n"
    "ds_read_b32 v8, v10\nds_read_b32 v9, v10\ns_waitcnt lgkmcnt(1)",
    "behind a write of caches": "global_load_dword v8, v21, s[4:5]\nbuffer_wbl2 sc1\nbuffer_inv sc1\ns_waitcnt vmcnt(1)",
    "every counter by a plain number": "ds_read_b32 v9, v10\nglobal_load_dword v8, v21, s[4:5]\ns_waitcnt 0\nv_mov_b32_e32 v9, v9",
    "among loads and stores": "global_load_dword v8, v21, s[4:5]\nglobal_store_dword v21, v2, s[10:11]\ns_waitcnt vmcnt(1)",
    "over a load of the same kind": "global_load_dword v8, v21, s[6:7]\nglobal_load_dword v8, v21, s[4:5]\ns_waitcnt vmcnt(0)",
    "flat, of global memory": "v_mov_b32_e32 v12, s4\nv_mov_b32_e32 v13, s5\nv_add_co_u32_e32 v12, vcc, v12, v21\n"
    "v_addc_co_u32_e32 v13, vcc, 0, v13, vcc\nflat_load_dword v8, v[12:13]\ns_waitcnt vmcnt(0)",
    "flat, of LDS": "v_mov_b32_e32 v12, v10\nv_mov_b32_e32 v13, src_shared_base_hi\nflat_load_dword v8, v[12:13]\n"
    "s_waitcnt vmcnt(0) lgkmcnt(0)",
}  # fmt: skip
NOT_COVERED = {
    "the second of two": ("ds_read_b32 v9, v10\nds_read_b32 v8, v10\ns_waitcnt lgkmcnt(1)", "v8 is read", "lgkmcnt(0)"),
    "one of two before": (
        "global_load_dword v8, v21, s[4:5]\nglobal_load_dword v9, v21, s[4:5]\ns_waitcnt vmcnt(2)", "v8 is read", "vmcnt(1)",
    ),
    "scalar loads, which keep no order": (
        "s_load_dword s20, s[4:5], 0x0\ns_load_dword s21, s[4:5], 0x0\ns_waitcnt lgkmcnt(1)\nv_mov_b32_e32 v8, s20",
        "s20 is read", "lgkmcnt(0)",
    ),
    "another counter": ("global_load_dword v8, v21, s[4:5]\ns_waitcnt lgkmcnt(0)", "v8 is read", "vmcnt(0)"),
    "flat, of LDS": (
        "v_mov_b32_e32 v12, v10\nv_mov_b32_e32 v13, src_shared_base_hi\nflat_load_dword v8, v[12:13]\ns_waitcnt vmcnt(0)",
        "v8 is read", "s_waitcnt vmcnt(0) and s_waitcnt lgkmcnt(0)",
    ),
    "over a load of another kind": ("global_load_dword v8, v21, s[4:5]\nds_read_b32 v8, v10", "v8 is overwritten", "vmcnt(0)"),
    "over a scalar load": (
        "s_load_dword s20, s[4:5], 0x0\ns_load_dword s20, s[4:5], 0x0", "s20 is overwritten", "lgkmcnt(0)",
    ),
    "of another lane's": (
        "s_mov_b64 exec, 1\nds_read_b32 v8, v10\ns_mov_b64 exec, 2\nv_mov_b32_e32 v8, v2\ns_mov_b64 exec, -1\n"
        "v_readlane_b32 s20, v8, 0", "v8 is read", "lgkmcnt(0)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_waits_cover_what_their_counters_promise(schedule):
    x = np.arange(64, dtype=U32) + 7
    for body in COVERED.values():
        assert (run(ADDRESS + body, U32, x, x, x, schedule=schedule) == x).all()
    for body, problem, wait in NOT_COVERED.values():
        with pytest.raises(EmulationError, match=f"register {problem} while a load into it is in flight") as error:
            run(ADDRESS + body, U32, x, x, x, schedule=schedule)
        assert wait in error.value.needs


# ---------------------------------------------------------------- memory

UPDATES = {
    # name before GFX11: (after it, the new value of (old, data))
    "add_u32": ("add_u32", lambda old, x: old + x), "sub_u32": ("sub_u32", lambda old, x: old - x),
    "min_i32": ("min_i32", lambda old, x: min(signed(old), signed(x))),
    "max_i32": ("max_i32", lambda old, x: max(signed(old), signed(x))),
    "min_u32": ("min_u32", min), "max_u32": ("max_u32", max), "and_b32": ("and_b32", lambda old, x: old & x),
    "or_b32": ("or_b32", lambda old, x: old | x), "xor_b32": ("xor_b32", lambda old, x: old ^ x),
    "inc_u32": ("inc_u32", lambda old, x: 0 if old >= x else old + 1),
    "dec_u32": ("dec_u32", lambda old, x: x if old == 0 or old > x else old - 1),
}  # fmt: skip
GLOBAL_NAMES = {"min_i32": "smin", "max_i32": "smax", "min_u32": "umin", "max_u32": "umax"}
LOCAL = {"gfx942": ("ds_write", "ds_read"), "gfx1201": ("ds_store", "ds_load")}


def waits(target):
    return "s_waitcnt vmcnt(0) lgkmcnt(0)" if target == "gfx942" else "s_wait_loadcnt 0x0\ns_wait_storecnt 0x0\ns_wait_dscnt 0x0"


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("name", UPDATES)
def test_atomic_operations_on_lds_and_global_memory(name, target):
    """Lanes meet in pairs, even ones first: old values come back, the new one stays."""
    old, x = pairs(WORDS)
    old, x = old[:64], x[::-1][:64]
    old = np.repeat(old[::2], 2)
    later, function = UPDATES[name]
    store, load = LOCAL[target]
    body = f"""v_lshrrev_b32_e32 v10, 1, v0
v_lshlrev_b32_e32 v10, 2, v10
{store}_b32 v10, v2
{waits(target)}
ds_{{}}_rtn_{{}} v11, v10, v4
{load}_b32 v12, v10
{waits(target)}
v_cndmask_b32_e64 v8, v12, v11, vcc{"" if target == "gfx942" else "_lo"}"""
    operation, type_ = (name if target == "gfx942" else later).split("_")
    for first in (1, 0):
        chosen = body.format(operation, type_)
        vcc = f"v_cmp_eq_u32_e32 vcc{'' if target == 'gfx942' else '_lo'}, {1 - first}, v21\n"
        got = run("v_mov_b32_e32 v21, 0\n" + vcc + chosen, U32, old, x, target=target)
        want = []
        for before, one, other in zip(old[::2].tolist(), x[::2].tolist(), x[1::2].tolist(), strict=True):
            between = function(before, one) % 2**32
            after = function(between, other) % 2**32
            want += [before, between] if first else [after, after]
        assert got.tolist() == want
    vector = f"global_atomic_{GLOBAL_NAMES.get(name, name.split('_')[0])} v11, v21, v4, s[4:5] sc0"
    if target != "gfx942":
        vector = f"global_atomic_{later} v11, v21, v4, s[4:5] th:TH_ATOMIC_RETURN scope:SCOPE_DEV"
    body = f"v_lshrrev_b32_e32 v21, 1, v20\nv_lshlrev_b32_e32 v21, 3, v21\n{vector}\n{waits(target)}\nv_mov_b32_e32 v8, v11"
    got = run(body, U32, old, x, target=target)
    want = [(before, function(before, one) % 2**32) for before, one in zip(old[::2].tolist(), x[::2].tolist(), strict=True)]
    assert got.reshape(-1, 2).tolist() == [list(pair) for pair in want]


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_compare_and_swap_and_exchange(target):
    """The order of the two data differs between LDS of two generations, and from global memory."""
    old, new = np.arange(64, dtype=U32), np.arange(64, dtype=U32) + 1000
    store, load = LOCAL[target]
    swap = "ds_cmpst_rtn_b32 v11, v10, v12, v4" if target == "gfx942" else "ds_cmpstore_rtn_b32 v11, v10, v4, v12"
    body = f"""v_lshlrev_b32_e32 v10, 2, v0
{store}_b32 v10, v2
v_and_b32_e32 v12, 62, v0
{waits(target)}
{swap}
{load}_b32 v8, v10
{waits(target)}
v_lshl_add_u32 v8, v11, 16, v8"""
    wave = 64 if target == "gfx942" else 32
    lane = np.arange(64) % wave
    want = np.where(old == lane & 62, new, old) + (old << 16)
    assert (run(body, U32, old[:wave], new[:wave], target=target) == want[:wave]).all()
    returns = "sc0" if target == "gfx942" else "th:TH_ATOMIC_RETURN scope:SCOPE_DEV"
    name = "global_atomic_cmpswap" if target == "gfx942" else "global_atomic_cmpswap_b32"
    body = f"""v_lshlrev_b32_e32 v21, 2, v20
v_mov_b32_e32 v14, v4
v_and_b32_e32 v15, 62, v0
{name} v11, v21, v[14:15], s[4:5] {returns}
{waits(target)}
global_load_{"dword" if target == "gfx942" else "b32"} v8, v21, s[4:5]
{waits(target)}
v_lshl_add_u32 v8, v11, 16, v8"""
    assert (run(body, U32, old[:wave], new[:wave], target=target) == want[:wave]).all()
    exchange = "ds_wrxchg_rtn_b32" if target == "gfx942" else "ds_storexchg_rtn_b32"
    body = f"v_lshlrev_b32_e32 v10, 2, v0\n{store}_b32 v10, v2\n{exchange} v8, v10, v4\n{waits(target)}"
    assert (run(body, U32, old[:wave], new[:wave], target=target) == old[:wave]).all()


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_widths_offsets_and_halves_in_lds(target):
    store, load = LOCAL[target]
    two = ("ds_write2_b32", "ds_read2_b32", "ds_write2st64_b32", "ds_read2st64_b32")
    if target != "gfx942":
        two = ("ds_store_2addr_b32", "ds_load_2addr_b32", "ds_store_2addr_stride64_b32", "ds_load_2addr_stride64_b32")
    wave = 64 if target == "gfx942" else 32
    x, y = np.arange(wave, dtype=U32) * 0x01010101 + 0x80, np.arange(wave, dtype=U32) + 0x5A000000
    lane = np.arange(wave)
    address = "v_lshlrev_b32_e32 v10, {}, v0\n"
    both = f"{address.format(2)}{two[0]} v10, v2, v4 offset0:1 offset1:100\n{two[1]} v[12:13], v10 offset0:100 offset1:1\n"
    assert (run(both + waits(target) + "\nv_sub_u32_e32 v8, v12, v13", U32, x, y, target=target) == y - x).all()
    both = f"{address.format(2)}{two[2]} v10, v2, v4 offset1:3\n{load}_b32 v8, v10 offset:768\n"
    assert (run(both + waits(target), U32, x, y, target=target) == y).all()
    bytes_ = f"{address.format(0)}{store}_b8 v10, v2\n{load}_i8 v8, v10\n{waits(target)}"
    assert (run(bytes_, U32, x, target=target).view(I32) == x.astype(np.int8)).all()
    body = f"{address.format(1)}{store}_b16_d16_hi v10, v2 offset:2\n{load}_u16 v8, v10 offset:2\n{waits(target)}"
    assert (run(body, U32, x, target=target) == x >> 16).all()
    body = f"v_mov_b32_e32 v8, v4\n{address.format(1)}{store}_b16 v10, v2\n{load}_u16_d16_hi v8, v10\n{waits(target)}"
    assert (run(body, U32, x, y, target=target) == (y & 0xFFFF | x << 16)).all()
    body = f"""{address.format(4)}v_mov_b32_e32 v12, v2
v_mov_b32_e32 v13, v4
v_mov_b32_e32 v14, v0
v_mov_b32_e32 v15, 7
{store}_b128 v10, v[12:15]
{load}_b96 v[16:18], v10 offset:4
{waits(target)}
v_add3_u32 v8, v16, v17, v18"""
    assert (run(body, U32, x, y, target=target) == y + lane.astype(U32) + 7).all()


# ---------------------------------------------------------------- LDS


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_every_lane_is_in_one_phase_whose_words_fill_the_banks(target):
    row = TARGETS[target]
    for kind in ("read", "write"):
        for size in (1, 2, 4, 8, 12, 16):
            groups = phases(row, kind, size)
            assert sorted(lane for group in groups for lane in group) == list(range(row.wave))
            assert all(len(group) * -(-size // 4) <= row.banks for group in groups)


def test_conflicts_are_counted_within_phases():
    lane = np.arange(64)
    count = lambda target, kind, size, words: extra_wavefronts(  # noqa: E731
        words[: TARGETS[target].wave] * 4, None, size, banks_of(TARGETS[target]), kind
    )
    for target in TARGETS:
        assert count(target, "read", 4, lane) == count(target, "read", 8, lane * 2) == count(target, "read", 16, lane * 4) == 0
        assert count(target, "read", 4, lane * 0) == 0  # one word for all
    assert count("gfx942", "read", 4, lane * 2) == 2 and count("gfx950", "read", 4, lane * 2) == 1
    assert count("gfx942", "read", 4, lane * 32) == 62 and count("gfx1100", "read", 4, lane * 32) == 31
    # rows of 16 bytes, lanes 0 to 7 of a column of 8 rows, then the next column: consecutive phases have no
    # conflict where the fours that MI300X and RDNA 3 mix have
    words = (lane % 8 * 32 + (lane // 8 + lane % 8) % 8 * 4)
    assert count("gfx942", "write", 16, words) == 0 == count("gfx1201", "read", 16, words)
    assert count("gfx942", "read", 16, words) == 8 and count("gfx1100", "read", 16, words) == 4


# ---------------------------------------------------------------- three operands, all of them vectors

ENDS = np.array([0, 1, 4, 7, 12, 31, 32, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x89ABCDEF], U32)


def signed_field(x, position, width):
    position, width = position % 32, width % 32
    return signed(x >> position, width) if width and position + width < 32 else signed(x) >> position if width else 0


def picked(x, y, selector):
    both, result = x << 32 | y, 0
    for i in range(4):
        pick = selector >> 8 * i & 255
        byte = both >> 8 * pick & 255 if pick < 8 else 255 * (both >> 16 * (pick - 8) + 15 & 1) if pick < 12 else 0 if pick == 12 else 255
        result |= byte << 8 * i
    return result


def both_halves(function, sign=False):
    """Of the lower and of the upper half of each operand, as one word."""
    return lambda *words: sum(function(*(signed(word >> at & 0xFFFF, 16) if sign else word >> at & 0xFFFF for word in words)) % 2**16 << at for at in (0, 16))


def short(function):
    return lambda *words: function(*(signed(word, 16) for word in words)) % 2**16


def middle(*values):
    return sorted(values)[1]


THREE = {
    "v_or3_b32 v8, v2, v4, v6": lambda x, y, z: x | y | z,
    "v_xor3_b32 v8, v2, v4, v6": lambda x, y, z: x ^ y ^ z,
    "v_and_or_b32 v8, v2, v4, v6": lambda x, y, z: x & y | z,
    "v_add3_u32 v8, v2, v4, v6": lambda x, y, z: x + y + z,
    "v_xad_u32 v8, v2, v4, v6": lambda x, y, z: (x ^ y) + z,
    "v_lshl_or_b32 v8, v2, v4, v6": lambda x, y, z: x << y % 32 | z,
    "v_lshl_add_u32 v8, v2, v4, v6": lambda x, y, z: (x << y % 32) + z,
    "v_add_lshl_u32 v8, v2, v4, v6": lambda x, y, z: (x + y) << z % 32,
    "v_bfi_b32 v8, v2, v4, v6": lambda x, y, z: x & y | ~x & z,
    "v_bfe_u32 v8, v2, v4, v6": lambda x, y, z: x >> y % 32 & (1 << z % 32) - 1,
    "v_bfe_i32 v8, v2, v4, v6": signed_field,
    "v_alignbit_b32 v8, v2, v4, v6": lambda x, y, z: (x << 32 | y) >> z % 32,
    "v_alignbyte_b32 v8, v2, v4, v6": lambda x, y, z: (x << 32 | y) >> 8 * (z % 4),
    "v_perm_b32 v8, v2, v4, 0x08090a0b": lambda x, y, z: picked(x, y, 0x08090A0B),
    "v_perm_b32 v8, v2, v4, 0x0d0c0704": lambda x, y, z: picked(x, y, 0x0D0C0704),
    "v_perm_b32 v8, v2, v4, v6": picked,
    "v_min3_u32 v8, v2, v4, v6": min, "v_max3_u32 v8, v2, v4, v6": max,
    "v_med3_u32 v8, v2, v4, v6": middle,
    "v_min3_i32 v8, v2, v4, v6": lambda *words: min(map(signed, words)), "v_max3_i32 v8, v2, v4, v6": lambda *words: max(map(signed, words)),
    "v_med3_i32 v8, v2, v4, v6": lambda *words: middle(*map(signed, words)),
    "v_maxmin_u32 v8, v2, v4, v6": lambda x, y, z: min(max(x, y), z), "v_minmax_u32 v8, v2, v4, v6": lambda x, y, z: max(min(x, y), z),
    "v_maxmin_i32 v8, v2, v4, v6": lambda x, y, z: min(max(signed(x), signed(y)), signed(z)),
    "v_minmax_i32 v8, v2, v4, v6": lambda x, y, z: max(min(signed(x), signed(y)), signed(z)),
    "v_mad_u32_u24 v8, v2, v4, v6": lambda x, y, z: (x % 2**24) * (y % 2**24) + z,
    "v_mad_i32_i24 v8, v2, v4, v6": lambda x, y, z: signed(x, 24) * signed(y, 24) + z,
    "v_sad_u32 v8, v2, v4, v6": lambda x, y, z: abs(x - y) + z,
    "v_mad_u16 v8, v2, v4, v6": lambda x, y, z: (x * y + z) % 2**16,
    "v_mad_i16 v8, v2, v4, v6": lambda x, y, z: (x * y + z) % 2**16,
    "v_mad_legacy_u16 v8, v2, v4, v6": lambda x, y, z: (x * y + z) % 2**16,
    "v_mad_u32_u16 v8, v2, v4, v6": lambda x, y, z: (x % 2**16) * (y % 2**16) + z,
    "v_mad_u32_u16 v8, v2, v4, v6 op_sel:[1,0,0,0]": lambda x, y, z: (x >> 16) * (y % 2**16) + z,
    "v_mad_i32_i16 v8, v2, v4, v6": lambda x, y, z: signed(x, 16) * signed(y, 16) + z,
    "v_dot4_i32_i8 v8, v2, v4, v6": lambda x, y, z: z + sum(signed(x >> at, 8) * signed(y >> at, 8) for at in (0, 8, 16, 24)),
    "v_pk_mad_u16 v8, v2, v4, v6": both_halves(lambda x, y, z: x * y + z),
    "v_pk_mad_i16 v8, v2, v4, v6": both_halves(lambda x, y, z: x * y + z, sign=True),
    "v_cmp_lt_u32_e32 vcc, v2, v4\nv_cndmask_b32_e64 v8, -v2, |v6|, vcc": lambda x, y, z: z & 0x7FFFFFFF if x < y else x ^ 1 << 31,
}  # fmt: skip


@pytest.mark.parametrize("body", THREE)
def test_integers_of_three(body):
    x, y, z = pairs(ENDS, 3)
    assert (run(body, U32, x, y, z) == python(THREE[body], x, y, z).astype(U32)).all()


MORE = {
    "v_add_i32 v8, v2, v4": lambda x, y: x + y, "v_sub_i32 v8, v2, v4": lambda x, y: x - y,
    "v_sub_i32 v8, v2, v4 clamp": lambda x, y: max(-(2**31), min(signed(x) - signed(y), 2**31 - 1)),
    "v_subrev_u32_e64 v8, v2, v4 clamp": lambda x, y: max(y - x, 0),
    "v_sub_u16_e32 v8, v2, v4": lambda x, y: (x - y) % 2**16, "v_subrev_u16_e32 v8, v2, v4": lambda x, y: (y - x) % 2**16,
    "v_add_u16_e64 v8, v2, v4 clamp": lambda x, y: min(x % 2**16 + y % 2**16, 2**16 - 1),
    "v_sub_i16 v8, v2, v4 clamp": lambda x, y: max(-(2**15), min(signed(x, 16) - signed(y, 16), 2**15 - 1)) % 2**16,
    "v_mul_lo_u16_e32 v8, v2, v4": lambda x, y: x * y % 2**16, "v_lshlrev_b16_e32 v8, v2, v4": lambda x, y: (y << x % 16) % 2**16,
    "v_min_u16_e32 v8, v2, v4": lambda x, y: min(x % 2**16, y % 2**16), "v_max_u16_e32 v8, v2, v4": lambda x, y: max(x % 2**16, y % 2**16),
    "v_min_i16_e32 v8, v2, v4": short(min), "v_max_i16_e32 v8, v2, v4": short(max),
    "v_mad_u32_u16 v8, v2, v4, 0 op_sel:[0,1,0,0]": lambda x, y: x % 2**16 * (y >> 16),
    "v_mul_u32_u24_sdwa v8, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3 src1_sel:BYTE_2": lambda x, y: (x >> 24) * (y >> 16 & 255),
    "v_add_u32_sdwa v8, sext(v2), sext(v4) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1":
        lambda x, y: signed(x >> 8, 8) + signed(y >> 16, 16),
    "v_mov_b32_e32 v8, -1\nv_mov_b32_sdwa v8, v4 dst_sel:BYTE_1 dst_unused:UNUSED_PAD src0_sel:DWORD": lambda x, y: (y & 255) << 8,
    "v_pk_sub_u16 v8, v2, v4": both_halves(lambda x, y: x - y), "v_pk_add_i16 v8, v2, v4 clamp":
        both_halves(lambda x, y: max(-(2**15), min(x + y, 2**15 - 1)), sign=True),
    "v_pk_max_u16 v8, v2, v4": both_halves(max), "v_pk_min_u16 v8, v2, v4": both_halves(min), "v_pk_min_i16 v8, v2, v4": both_halves(min, sign=True),
    "v_pk_lshlrev_b16 v8, v2, v4": both_halves(lambda n, x: x << n % 16), "v_pk_lshrrev_b16 v8, v2, v4": both_halves(lambda n, x: x >> n % 16),
    "v_pk_ashrrev_i16 v8, v2, v4": both_halves(lambda n, x: x >> n % 16, sign=True),
    "v_pk_add_u16 v8, v2, -3": lambda x, y: both_halves(lambda a, b: a + b)(x, 0xFFFFFFFD),
    "v_pk_add_u16 v8, v2, 5": lambda x, y: both_halves(lambda a, b: a + b)(x, 5),
    "v_pk_add_u16 v8, v2, 0x10002": lambda x, y: both_halves(lambda a, b: a + b)(x, 0x10002),
    "v_cvt_pk_i16_i32 v8, v2, v4": lambda x, y: sum(max(-(2**15), min(signed(v), 2**15 - 1)) % 2**16 << at for v, at in ((x, 0), (y, 16))),
    "v_cvt_pk_u16_u32 v8, v4, v2": lambda x, y: min(y, 65535) | min(x, 65535) << 16,
    "v_pack_b32_f16 v8, v2, v4 op_sel:[0,1,0]": lambda x, y: x & 0xFFFF | y & 0xFFFF0000,
    "v_mov_b32_e32 v8, v2\nv_mov_b32_e32 v9, v4\nv_swap_b32 v8, v9\nv_lshl_add_u32 v8, v8, 1, v9": lambda x, y: 2 * y + x,
    "v_add_co_u32_e32 v8, vcc, v2, v4\nv_cndmask_b32_e64 v8, 0, 1, vcc": lambda x, y: int(x + y >= 2**32),
    "v_sub_co_u32_e32 v8, vcc, v2, v4\nv_cndmask_b32_e64 v8, 0, 1, vcc": lambda x, y: int(x < y),
    "v_cmp_lt_u32_e32 vcc, v2, v4\nv_addc_co_u32_e32 v8, vcc, v2, v4, vcc\nv_cndmask_b32_e64 v8, 0, 1, vcc": lambda x, y: int(x + y + (x < y) >= 2**32),
    "v_cmp_ge_u32_e32 vcc, v2, v4\nv_subb_co_u32_e32 v8, vcc, v2, v4, vcc\nv_cndmask_b32_e64 v8, 0, 1, vcc": lambda x, y: int(x - y - (x >= y) < 0),
    "v_mov_b32_e32 v8, 7\nv_cmpx_lt_i32_e32 vcc, v2, v4\nv_mov_b32_e32 v8, v4\ns_mov_b64 exec, -1": lambda x, y: y if signed(x) < signed(y) else 7,
    "v_cmp_gt_u32_e32 vcc, 40, v2\ns_mov_b64 exec, vcc\nv_cmp_ne_u32_e32 vcc, v2, v4\ns_mov_b64 exec, -1\nv_cndmask_b32_e64 v8, 0, 1, vcc":
        lambda x, y: int(x < 40 and x != y),
    "v_cmp_gt_u32_e32 vcc, 40, v2\nv_mov_b32_e32 v8, v4\ns_and_saveexec_b64 s[20:21], vcc\nv_add_u32_e32 v8, v8, v2\ns_xor_b64 exec, exec, s[20:21]\n"
    "v_sub_u32_e32 v8, v8, v2\ns_or_b64 exec, exec, s[20:21]": lambda x, y: y + x if x < 40 else y - x,
}  # fmt: skip


@pytest.mark.parametrize("body", MORE)
def test_more_integers_of_two(body):
    x, y = pairs(WORDS)
    if "exec" in body:  # its scalar registers must be written, and whole waves
        x, y = x[:384], y[:384]
    assert (run(body, U32, x, y) == python(MORE[body], x, y).astype(U32)).all()


def test_the_carry_of_a_wide_multiply_add():
    x, y, z = (grid.ravel() for grid in np.meshgrid(ENDS, ENDS, LONGS, indexing="ij"))
    choose = "\nv_cndmask_b32_e64 v8, 0, 1, s[20:21]"
    got = run("v_mad_u64_u32 v[8:9], s[20:21], v2, v4, v[6:7]" + choose, U32, x, y, z)
    assert (got == python(lambda a, b, c: a * b + c >= 2**64, x, y, z)).all()
    got = run("v_mad_i64_i32 v[8:9], s[20:21], v2, v4, v[6:7]", U64, x, y, z)
    assert (got == python(lambda a, b, c: signed(a) * signed(b) + c, x, y, z)).all()
    got = run("v_mad_i64_i32 v[8:9], s[20:21], v2, v4, v[6:7]" + choose, U32, x, y, z)
    assert (got == python(lambda a, b, c: not -(2**63) <= signed(a) * signed(b) + signed(c, 64) < 2**63, x, y, z)).all()


# ---------------------------------------------------------------- comparisons of every type

ORDERS = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y, "le": lambda x, y: x <= y, "gt": lambda x, y: x > y,
          "ge": lambda x, y: x >= y}  # fmt: skip


@pytest.mark.parametrize("kind", ORDERS)
def test_comparisons_of_every_integer(kind):
    for values, types in ((WORDS, ("u16", "i16", "u32", "i32")), (LONGS, ("u64", "i64"))):
        x, y = pairs(values)
        first, second = ("v[2:3]", "v[4:5]") if values is LONGS else ("v2", "v4")
        for type_ in types:
            dtype = {"u": "u", "i": "i"}[type_[0]] + str(int(type_[1:]) // 8)
            a, b = (each.astype(f"u{dtype[1:]}").view(dtype) for each in (x, y))
            got = run(f"v_cmp_{kind}_{type_}_e32 vcc, {first}, {second}\nv_cndmask_b32_e64 v8, 0, 1, vcc", U32, x, y)
            assert (got == ORDERS[kind](a, b)).all(), type_
    x, y = pairs(LONGS)
    for name, type_ in (("u32", U32), ("i32", I32)):
        got = run(f"s_cmp_{'lg' if kind == 'ne' else kind}_{name} s12, s14\ns_cselect_b32 s18, 1, 0", U32, x, y, scalar=True)
        a, b = (each.astype(U32).view(type_) for each in (x, y))
        assert (got == ORDERS[kind](a, b)).all(), name
        for constant in (0x7FFF, 0x8000):
            got = run(f"s_cmpk_{'lg' if kind == 'ne' else kind}_{name} s12, {constant:#x}\ns_cselect_b32 s18, 1, 0", U32, x, scalar=True)
            assert (got == ORDERS[kind](a, type_(signed(constant, 16) if name == "i32" else constant))).all(), name


@pytest.mark.parametrize(
    ("kind", "function"),
    [("nle", lambda x, y: ~(x <= y)), ("ngt", lambda x, y: ~(x > y)), ("nlg", lambda x, y: ~((x < y) | (x > y))), ("nlt", lambda x, y: ~(x < y)),
     ("ge", lambda x, y: x >= y), ("lg", lambda x, y: (x < y) | (x > y)), ("neq", lambda x, y: x != y), ("o", lambda x, y: (x == x) & (y == y))],
)  # fmt: skip
def test_comparisons_of_every_float(kind, function):
    x, y = pairs(AWKWARD)
    choose = "\nv_cndmask_b32_e64 v8, 0, 1, vcc"
    assert (run(f"v_cmp_{kind}_f32_e32 vcc, v2, v4" + choose, U32, x, y) == function(x, y)).all()
    got = run(f"s_cmp_{kind}_f32 s12, s14\ns_cselect_b32 s18, 1, 0", U32, x[:400], y[:400], target="gfx1201", scalar=True)
    assert (got == function(x, y)[:400]).all()
    flush = lambda v: np.where(np.abs(v) < F32(2.0**-126), F32(0), v)  # noqa: E731
    assert (run(f"v_cmp_{kind}_f32_e32 vcc, v2, v4" + choose, U32, x, y, denormals=0) == function(flush(x), flush(y))).all()
    a, b = pairs(HALVES)
    assert (run(f"v_cmp_{kind}_f16_e32 vcc, v2, v4" + choose, U32, a, b) == function(a, b)).all()
    a, b = x.astype(F64), y.astype(F64)
    assert (run(f"v_cmp_{kind}_f64_e32 vcc, v[2:3], v[4:5]" + choose, U32, a, b) == function(a, b)).all()


def test_every_class_of_floats():
    words = np.array([0x7F800001, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000], U32)
    for bit in range(10):
        got = run(f"v_cmp_class_f32_e64 s[20:21], v2, {1 << bit:#x}\nv_cndmask_b32_e64 v8, 0, 1, s[20:21]", U32, words)
        assert got.tolist() == [int(i == bit) for i in range(10)]


# ---------------------------------------------------------------- scalars: results, carries and SCC

FLAG = "\ns_cselect_b32 s19, 1, 0"


def with_scc(value, scc=None):
    return value % 2**32 | int(value % 2**32 != 0 if scc is None else scc) << 32


def low(*words):
    return (word % 2**32 for word in words)


def field(x, y, bits, sign):
    position, width = y & bits - 1, min(y >> 16 & 127, bits)
    if not width:
        return 0
    value = (signed(x, bits) >> position if sign else x % 2**bits >> position)
    return signed(value, width) if sign and width < bits else value & (1 << width) - 1


MORE_SCALARS = {
    "s_and_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x & y), "s_or_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x | y),
    "s_xor_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x ^ y), "s_nand_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(~(x & y)),
    "s_nor_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(~(x | y)), "s_orn2_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x | ~y),
    "s_andn2_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x & ~y), "s_not_b32 s18, s12" + FLAG: lambda x, y: with_scc(~x),
    "s_xnor_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(~(x ^ y)),
    "s_lshl_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x << y % 32),
    "s_lshr_b32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x % 2**32 >> y % 32),
    "s_ashr_i32 s18, s12, s14" + FLAG: lambda x, y: with_scc(signed(x) >> y % 32),
    "s_lshr_b64 s[18:19], s[12:13], s14": lambda x, y: x >> y % 64,
    "s_or_b64 s[20:21], s[12:13], s[14:15]\ns_mov_b32 s18, s20" + FLAG: lambda x, y: with_scc(x | y, (x | y) != 0),
    "s_sub_i32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x - y, signed(x) - signed(y) != signed(x - y)),
    "s_sub_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x - y, x % 2**32 < y % 2**32),
    "s_add_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(x + y, x % 2**32 + y % 2**32 >= 2**32),
    "s_add_u32 s20, s12, s12\ns_addc_u32 s18, s12, s14" + FLAG:
        lambda x, y: with_scc(x + y + (x >> 31 & 1), x % 2**32 + y % 2**32 + (x >> 31 & 1) >= 2**32),
    "s_add_u32 s20, s12, s12\ns_subb_u32 s18, s12, s14" + FLAG:
        lambda x, y: with_scc(x - y - (x >> 31 & 1), x % 2**32 - y % 2**32 - (x >> 31 & 1) < 0),
    "s_min_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(min(low(x, y)), x % 2**32 <= y % 2**32),
    "s_max_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(max(low(x, y)), x % 2**32 >= y % 2**32),
    "s_min_i32 s18, s12, s14" + FLAG: lambda x, y: with_scc(min(signed(x), signed(y)), signed(x) <= signed(y)),
    "s_max_i32 s18, s12, s14" + FLAG: lambda x, y: with_scc(max(signed(x), signed(y)), signed(x) >= signed(y)),
    "s_abs_i32 s18, s12" + FLAG: lambda x, y: with_scc(abs(signed(x))),
    "s_absdiff_i32 s18, s12, s14" + FLAG: lambda x, y: with_scc(abs(signed(signed(x) - signed(y)))),
    "s_bcnt1_i32_b32 s18, s12" + FLAG: lambda x, y: with_scc((x % 2**32).bit_count()),
    "s_bcnt0_i32_b32 s18, s12" + FLAG: lambda x, y: with_scc(32 - (x % 2**32).bit_count()),
    "s_bcnt0_i32_b64 s18, s[12:13]" + FLAG: lambda x, y: with_scc(64 - x.bit_count()),
    "s_ff1_i32_b32 s18, s12\ns_ff0_i32_b64 s19, s[14:15]": lambda x, y: ((x % 2**32 & -x).bit_length() - 1) % 2**32
    | (((y ^ 2**64 - 1) & -(y ^ 2**64 - 1)).bit_length() - 1) % 2**32 << 32,
    "s_ff0_i32_b32 s18, s12\ns_flbit_i32_b64 s19, s[14:15]": lambda x, y: ((~x % 2**32 & -(~x % 2**32)).bit_length() - 1) % 2**32
    | leading_zeros(y, 64) % 2**32 << 32,
    "s_flbit_i32 s18, s12\ns_flbit_i32_i64 s19, s[14:15]": lambda x, y: leading_zeros(x % 2**32 ^ (2**32 - 1 if x >> 31 & 1 else 0)) % 2**32
    | leading_zeros(y ^ (2**64 - 1 if y >> 63 else 0), 64) % 2**32 << 32,
    "s_brev_b32 s18, s12\ns_mulk_i32 s14, 0xfffd\ns_mov_b32 s19, s14": lambda x, y: int(f"{x % 2**32:032b}"[::-1], 2) | -3 * y % 2**32 << 32,
    "s_mov_b32 s18, s12\ns_addk_i32 s18, 0x7fff" + FLAG: lambda x, y: with_scc(x + 0x7FFF, signed(x) + 0x7FFF >= 2**31),
    "s_cmp_lt_u32 s12, s14\ns_mov_b32 s18, s12\ns_cmovk_i32 s18, 0x8002\ns_mov_b32 s19, 0": lambda x, y: 0xFFFF8002 if x % 2**32 < y % 2**32 else x % 2**32,
    "s_cmp_lt_u32 s12, s14\ns_mov_b32 s18, s12\ns_cmov_b32 s18, s14\ns_mov_b32 s19, 0": lambda x, y: max(low(x, y)),
    "s_bfm_b32 s18, s12, s14\ns_mov_b32 s19, 0": lambda x, y: ((1 << x % 32) - 1 << y % 32) % 2**32,
    "s_mov_b64 s[18:19], -1\ns_bitset0_b64 s[18:19], s12": lambda x, y: 2**64 - 1 ^ 1 << x % 64,
    "s_mov_b32 s18, 5\ns_bitset1_b32 s18, s12\ns_bitcmp0_b32 s14, s12\ns_cselect_b32 s19, 1, 0": lambda x, y: 5 | 1 << x % 32 | int(not y >> x % 32 & 1) << 32,
    "s_bitcmp0_b64 s[12:13], s14\ns_cselect_b64 s[18:19], 7, 9": lambda x, y: 9 if x >> y % 64 & 1 else 7,
    "s_pack_ll_b32_b16 s18, s12, s14\ns_pack_hh_b32_b16 s19, s12, s14": lambda x, y: x & 0xFFFF | (y & 0xFFFF) << 16
    | (x >> 16 & 0xFFFF | y & 0xFFFF0000) << 32,
    "s_lshl1_add_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(2 * x + y, 2 * (x % 2**32) + y % 2**32 >= 2**32),
    "s_lshl4_add_u32 s18, s12, s14" + FLAG: lambda x, y: with_scc(16 * x + y, 16 * (x % 2**32) + y % 2**32 >= 2**32),
    "s_cmp_lg_u64 s[12:13], s[14:15]\ns_cselect_b64 s[18:19], -1, 0": lambda x, y: -1 if x != y else 0,
}  # fmt: skip


@pytest.mark.parametrize("body", MORE_SCALARS)
def test_more_scalars(body):
    x, y = pairs(LONGS)
    assert (run(body, U64, x, y, scalar=True) == python(MORE_SCALARS[body], x, y)).all()


def test_scalar_fields_of_every_place_and_width():
    places = np.array([position | width << 16 for position in (0, 5, 31, 32, 63) for width in (0, 1, 7, 31, 32, 33, 63, 64)], U64)
    x, y = (grid.ravel() for grid in np.meshgrid(LONGS[1:], places, indexing="ij"))
    for name, bits, sign in (("u32", 32, False), ("i32", 32, True), ("u64", 64, False), ("i64", 64, True)):
        if bits == 32:
            body = f"s_bfe_{name} s18, s12, s14\ns_cselect_b32 s19, 1, 0"
            want = python(lambda a, b: with_scc(field(a, b, 32, sign)), x, y)
        else:
            body, want = f"s_bfe_{name} s[18:19], s[12:13], s14", python(lambda a, b: field(a, b, 64, sign), x, y)
        assert (run(body, U64, x, y, scalar=True) == want).all(), name


EXECS = {
    "and": lambda x, e: x & e, "or": lambda x, e: x | e, "xor": lambda x, e: x ^ e, "andn1": lambda x, e: ~x & e, "andn2": lambda x, e: x & ~e,
    "orn1": lambda x, e: ~x | e, "orn2": lambda x, e: x | ~e,
}  # fmt: skip


@pytest.mark.parametrize("name", EXECS)
def test_exec_is_saved_or_written_through(name):
    x, e = pairs(LONGS)
    new = python(EXECS[name], x, e)
    for saves, left in (("saveexec", e), ("wrexec", new)):
        body = f"s_mov_b64 exec, s[14:15]\ns_{name}_{saves}_b64 s[18:19], s[12:13]\ns_cselect_b32 s22, 1, 0\ns_mov_b64 s[20:21], exec\ns_mov_b64 exec, -1"
        assert (run(body, U64, x, e, scalar=True) == left).all()
        assert (run(body + "\ns_mov_b64 s[18:19], s[20:21]", U64, x, e, scalar=True) == new).all()
        assert (run(body + "\ns_mov_b32 s18, s22", U32, x, e, scalar=True) == (new != 0)).all()


def test_scalars_of_rdna_4():
    x, y = pairs(LONGS)
    for name, function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b)):
        got = run(f"s_{name}_{'nc_' * (name != 'mul')}u64 s[18:19], s[12:13], s[14:15]", U64, x, y, target="gfx1201", scalar=True)
        assert (got == python(function, x, y)).all()
    a, b = pairs(AWKWARD[:20])
    with np.errstate(all="ignore"):
        for name, function in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("min_num", np.fmin), ("max_num", np.fmax)):
            got = run(f"s_{name}_f32 s18, s12, s14", F32, a, b, target="gfx1201", scalar=True)
            want = function(a, b)
            number = (a != 0) | (b != 0)
            same(got[number], want[number])
        for name, function in (("ceil", np.ceil), ("floor", np.floor), ("trunc", np.trunc), ("rndne", np.rint)):
            same(run(f"s_{name}_f32 s18, s12", F32, AWKWARD, target="gfx1201", scalar=True), function(AWKWARD))
        for kind in ("eq", "gt", "le", "lt", "nge", "u"):
            got = run(f"s_cmp_{kind}_f32 s12, s14\ns_cselect_b32 s18, 1, 0", U32, a[::3], b[::3], target="gfx1201", scalar=True)
            assert (got == COMPARES[kind](a, b)[::3]).all(), kind
        same(run("s_mov_b32 s18, s14\ns_fmac_f32 s18, s12, s12", F32, a, b, target="gfx1201", scalar=True), fma(a, a, b))
        same(run("s_fmaak_f32 s18, s12, s14, 0x3f800000", F32, a, b, target="gfx1201", scalar=True), fma(a, b, np.ones_like(a)))
        same(run("s_cvt_f16_f32 s18, s12", F16, AWKWARD, target="gfx1201", scalar=True), AWKWARD.astype(F16))
    halves = HALVES.view(U16).astype(U32)
    same(run("s_cvt_f32_f16 s18, s12", F32, halves, target="gfx1201", scalar=True), HALVES.astype(F32))
    same(run("s_cvt_hi_f32_f16 s18, s12", F32, halves << U32(16), target="gfx1201", scalar=True), HALVES.astype(F32))
    same(run("s_cvt_f32_i32 s18, s12", F32, WORDS, target="gfx1201", scalar=True), WORDS.view(I32).astype(F32))
    same(run("s_cvt_f32_u32 s18, s12", F32, WORDS, target="gfx1201", scalar=True), WORDS.astype(F32))
    got = run("s_cvt_i32_f32 s18, s12", I32, AWKWARD, target="gfx1201", scalar=True)
    assert got.tolist() == [saturated(x, -(2**31), 2**31 - 1) for x in AWKWARD.tolist()]
    got = run("s_cvt_u32_f32 s18, s12", U32, AWKWARD, target="gfx1201", scalar=True)
    assert got.tolist() == [saturated(x, 0, 2**32 - 1) for x in AWKWARD.tolist()]


# ---------------------------------------------------------------- more floating point


def picks(*steps):
    """Minimum and maximum one after the other: numbers before NaNs, -0 below +0."""

    def step(pick, a, b):
        return b if a != a else a if b != b else pick((a, b), key=lambda v: (v, math.copysign(1, v)))

    def function(*columns):
        result = []
        for values in zip(*(column.tolist() for column in columns), strict=True):
            total = values[0]
            for pick, value in zip(steps, values[1:], strict=True):
                total = step(pick, total, value)
            result.append(total)
        return np.array(result)

    return function


FLOATS_OF_THREE = {
    "v_max3_f32 v8, v2, v4, v6": picks(max, max), "v_min3_f32 v8, v2, v4, v6": picks(min, min),
    "v_maxmin_f32 v8, v2, v4, v6": picks(max, min), "v_minmax_f32 v8, v2, v4, v6": picks(min, max),
    "v_med3_f32 v8, v2, v4, v6": lambda x, y, z: np.where((x != x) | (y != y) | (z != z), picks(min, min)(x, y, z), np.sort([x, y, z], 0)[1]),
    "v_mul_legacy_f32_e32 v8, v2, v4": lambda x, y, z: np.where((x == 0) | (y == 0), F32(0), x * y),
    "v_add_f32_e64 v8, v2, v4 div:2": lambda x, y, z: (x + y) * F32(0.5), "v_mul_f32_e64 v8, v2, v4 mul:4": lambda x, y, z: x * y * F32(4),
    "v_fma_f32 v8, -v2, |v4|, -|v6|": lambda x, y, z: fma(-x, np.abs(y), -np.abs(z)),
    "v_fma_f32 v8, v2, v4, v6 clamp": lambda x, y, z: np.where(fma(x, y, z) != fma(x, y, z), 0, np.clip(fma(x, y, z), 0, 1)),
    "v_fmamk_f32 v8, v2, 0x40400000, v6": lambda x, y, z: fma(x, np.full_like(x, 3), z),
    "v_fmaak_f32 v8, v2, v4, 0x40400000": lambda x, y, z: fma(x, y, np.full_like(x, 3)),
    "v_fma_mix_f32 v8, v2, -v4, -|v6|": lambda x, y, z: fma(x, -y, -np.abs(z)),
    "v_fma_mix_f32 v8, |v2|, v4, v6": lambda x, y, z: fma(np.abs(x), y, z),
}  # fmt: skip


@pytest.mark.parametrize("body", FLOATS_OF_THREE)
def test_floats_of_three(body):
    x, y, z = pairs(AWKWARD[[0, 2, 3, 4, 8, 9, 11, 12, 13, 15, 22]], 3)
    x = np.concatenate([x, [F32(-0.0), F32(0)]])
    y, z = np.concatenate([y, [F32(0), F32(-0.0)]]), np.concatenate([z, [F32(1), F32(-1)]])
    modifiers = {"v_fma_mix_f32 v8, v2, -v4, -|v6|": "v_fma_mix_f32 v8, v2, v4, v6 neg_lo:[0,1,1] neg_hi:[0,0,1]",
                 "v_fma_mix_f32 v8, |v2|, v4, v6": "v_fma_mix_f32 v8, v2, v4, v6 neg_hi:[1,0,0]"}  # fmt: skip
    got = run(modifiers.get(body, body), F32, x, y, z)
    with np.errstate(all="ignore"):
        want = FLOATS_OF_THREE[body](x, y, z).astype(F32)
    if "med3" in body:  # of two zeros the sign may be either's
        got, want = got + F32(0), want + F32(0)
    same(got, want)


def test_conversions_of_other_types():
    halfway = np.array([0.5, 1.5, -0.5, -1.5, 2.5, 0.49999997, -2.4, 3e9, -3e9, np.nan, 65535.5, 70000.0, -40000.0, 32767.9], F32)
    got = run("v_cvt_rpi_i32_f32_e32 v8, v2", I32, halfway).tolist()
    assert got == [saturated(math.floor(x + 0.5) if not math.isnan(x) else x, -(2**31), 2**31 - 1) for x in halfway.tolist()]
    got = run("v_cvt_flr_i32_f32_e32 v8, v2", I32, halfway).tolist()
    assert got == [saturated(math.floor(x) if not math.isnan(x) else x, -(2**31), 2**31 - 1) for x in halfway.tolist()]
    wide = halfway.astype(F64) * 1.0000000001
    assert run("v_cvt_i32_f64_e32 v8, v[2:3]", I32, wide).tolist() == [saturated(x, -(2**31), 2**31 - 1) for x in wide.tolist()]
    assert run("v_cvt_u32_f64_e32 v8, v[2:3]", U32, wide).tolist() == [saturated(x, 0, 2**32 - 1) for x in wide.tolist()]
    with np.errstate(all="ignore"):
        same(run("v_cvt_f32_f64_e32 v8, v[2:3]", F32, np.append(wide, [1e39, 2.0**-150, 1 + 2.0**-24])), np.append(wide, [1e39, 2.0**-150, 1 + 2.0**-24]).astype(F32))
    same(run("v_cvt_f64_i32_e32 v[8:9], v2", F64, WORDS), WORDS.view(I32).astype(F64))
    same(run("v_cvt_f64_u32_e32 v[8:9], v2", F64, WORDS), WORDS.astype(F64))
    for byte in range(4):
        same(run(f"v_cvt_f32_ubyte{byte}_e32 v8, v2", F32, WORDS), (WORDS >> U32(8 * byte) & U32(255)).astype(F32))
    same(run("v_cvt_f16_u16_e32 v8, v2", F16, WORDS[:10]), WORDS[:10].astype(F16))
    same(run("v_cvt_f16_i16_e32 v8, v2", F16, WORDS), WORDS.astype(U16).view(I16).astype(F16))
    assert run("v_cvt_u16_f16_e32 v8, v2", U16, HALVES).tolist() == [saturated(x, 0, 65535) for x in HALVES.tolist()]
    assert run("v_cvt_i16_f16_e32 v8, v2", I16, HALVES).tolist() == [saturated(x, -(2**15), 2**15 - 1) for x in HALVES.tolist()]
    low_and_high = run("v_cvt_pkrtz_f16_f32 v8, 1.0, v2", U32, np.array([1 - 2.0**-12, -(1 - 2.0**-12)], F32))
    assert low_and_high.tolist() == [0x3BFF3C00, 0xBBFF3C00]
    nans = np.array([0xFFC02000, 0x7F800001], U32)
    assert run("v_cvt_f16_f32_e32 v8, v2", U16, nans).tolist() == [0xFE01, 0x7E00]
    assert run("v_cvt_f64_f32_e32 v[8:9], v2", U64, nans).tolist() == [0xFFF8040000000000, 0x7FF8000020000000]


def test_other_functions_of_one_float():
    x = AWKWARD[np.isfinite(AWKWARD)]
    doubles = np.append(x.astype(F64), [5e-324, 1.7e308, -0.75])
    with np.errstate(all="ignore"):
        for name, function in (("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("rndne", np.rint), ("sqrt", np.sqrt), ("rcp", lambda v: 1 / v)):
            same(run(f"v_{name}_f64_e32 v[8:9], v[2:3]", F64, doubles), function(doubles))
            same(run(f"v_{name}_f16_e32 v8, v2", F16, HALVES), function(HALVES.astype(F64)).astype(F16))
        same(run("v_rsq_f32_e32 v8, v2", F32, x), (1 / np.sqrt(x.astype(F64))).astype(F32))
        same(run("v_exp_f32_e32 v8, v2", F32, x), np.exp2(x.astype(F64)).astype(F32))
        same(run("v_log_f32_e32 v8, v2", F32, x), np.log2(x.astype(F64)).astype(F32))
        power = np.array([3, -3, 200, -200, 2000, -2000, 0, 1074], I32)
        a, n = (grid.ravel() for grid in np.meshgrid(doubles, power))
        same(run("v_ldexp_f64 v[8:9], v[2:3], v4", F64, a, n), np.ldexp(a, n))
        b, m = (grid.ravel() for grid in np.meshgrid(HALVES, power))
        same(run("v_ldexp_f16_e32 v8, v2, v4", F16, b, m.view(U32)), np.ldexp(b.astype(F64), m).astype(F16))
        assert run("v_frexp_exp_i32_f64_e32 v8, v[2:3]", I32, doubles).tolist() == np.frexp(doubles)[1].tolist()
        same(run("v_frexp_mant_f64_e32 v[8:9], v[2:3]", F64, doubles), np.frexp(doubles)[0])


def test_arithmetic_of_doubles():
    x, y = pairs(AWKWARD.astype(F64))
    x, y = x * (1 + 2.0**-40), y * (1 - 2.0**-45)
    with np.errstate(all="ignore"):
        same(run("v_add_f64 v[8:9], v[2:3], v[4:5]", F64, x, y), x + y)
        same(run("v_mul_f64 v[8:9], v[2:3], -v[4:5]", F64, x, y), x * -y)
    a, b = (each[np.isfinite(x) & np.isfinite(y)] for each in (x, y))
    want = [float(Fraction(p) * Fraction(q) + Fraction(p)) for p, q in zip(a.tolist(), b.tolist(), strict=True)]
    got = run("v_fma_f64 v[8:9], v[2:3], v[4:5], v[2:3]", F64, a, b)
    assert got.tolist() == want


def test_doubles_of_lanes_that_are_off_take_no_fractions(monkeypatch):
    """Such lanes hold any bits: products that underflow among them, which are computed one at a time."""
    x = np.where(LANE < 8, LANE + 1.5, (LANE + 3) * 5e-324)
    body = "v_add_f64 v[8:9], v[2:3], 1.0\ns_mov_b64 exec, 0xff\nv_fma_f64 v[8:9], v[2:3], v[2:3], v[2:3]\ns_mov_b64 exec, -1"
    monkeypatch.setattr("gemmgen.emulate.core.rounding.Fraction", None)
    same(run(body, F64, x), np.where(LANE < 8, x * x + x, x + 1))


# ---------------------------------------------------------------- more between lanes

NARROW = LANE[:32]
MOVES = {
    "row_shl:3": np.where(LANE % 16 < 13, LANE + 3, -1), "row_shr:15": np.where(LANE % 16 == 15, LANE - 15, -1),
    "row_half_mirror": LANE ^ 7, "row_mirror": LANE ^ 15, "row_newbcast:5": LANE // 16 * 16 + 5, "row_ror:1": LANE // 16 * 16 + (LANE - 1) % 16,
    "row_bcast:31": np.where(LANE >= 32, 31, -1), "row_bcast:15": np.where(LANE >= 16, LANE // 16 * 16 - 1, -1),
    "wave_shr:1": LANE - 1, "wave_shl:1": np.where(LANE < 63, LANE + 1, -1), "wave_ror:1": (LANE - 1) % 64, "wave_rol:1": (LANE + 1) % 64,
    "quad_perm:[3,0,0,2]": LANE // 4 * 4 + np.array([3, 0, 0, 2])[LANE % 4],
}  # fmt: skip


@pytest.mark.parametrize("move", MOVES)
def test_every_movement_between_lanes(move):
    source = MOVES[move]
    got = lanes(f"v_mov_b32_dpp v8, v2 {move} row_mask:0xf bank_mask:0xf bound_ctrl:1")
    assert (got == np.where(source >= 0, source + 100, 0)).all()
    banks = np.isin(LANE // 4 % 4, (0, 2)) & np.isin(LANE // 16, (1, 2, 3)) & (source >= 0)
    got = lanes(f"v_mov_b32_e32 v8, 7\nv_mov_b32_dpp v8, v2 {move} row_mask:0xe bank_mask:0x5")
    assert (got == np.where(banks, source + 100, 7)).all()


def test_patterns_of_swizzles_and_rows():
    wait = "\ns_waitcnt lgkmcnt(0)"
    for pattern, source in (
        ("swizzle(REVERSE,8)", LANE ^ 7), ("swizzle(BROADCAST,8,3)", LANE & ~7 | 3), ("swizzle(SWAP,4)", LANE ^ 4), ('swizzle(BITMASK_PERM,"01pip")',
         LANE & 32 | 8 | LANE & 4 | ~LANE & 2 | LANE & 1), ("0x801f", LANE // 4 * 4 + np.array([3, 3, 1, 0])[LANE % 4]), ("0x0c3e", (LANE & 30 | 1) ^ 3 | LANE & 32),
    ):  # fmt: skip
        assert (lanes(f"ds_swizzle_b32 v8, v2 offset:{pattern}" + wait) == source + 100).all(), pattern
    turned = "s_mov_b32 s20, 0x3210fedc\ns_mov_b32 s21, 0x76543210\nv_permlane16_b32 v8, v2, s20, s21"
    nibbles = [0xC, 0xD, 0xE, 0xF, 0, 1, 2, 3, *range(8)]
    turn = NARROW // 16 * 16 + np.array(nibbles)[NARROW % 16]
    assert (lanes(turned, "gfx1100") == turn + 100).all()
    for move, source in ((turned, turn), (turned.replace("permlane16", "permlanex16"), turn ^ 16)):  # op_sel: lanes that are off are read; else give zero
        on = (0x00FFF0F3 >> NARROW & 1) != 0
        for bits, of_off in (("", 7), (" op_sel:[0,1]", 0), (" op_sel:[1,0]", source + 100), (" op_sel:[1,1]", source + 100)):
            got = lanes(f"v_mov_b32_e32 v8, 7\ns_mov_b32 exec_lo, 0xfff0f3\n{move}{bits}\ns_mov_b32 exec_lo, -1", "gfx1100")
            assert (got == np.where(on, np.where(on[source], source + 100, of_off), 7)).all(), (move, bits)
    body = "v_add_u32_e32 v8, 0, v2\nv_add_u32_e32 v9, 64, v2\nv_permlane32_swap_b32 v8, v9"
    swap = np.where(LANE < 32, LANE + 100, LANE - 32 + 164)
    assert (run(body, U32, LANE.astype(U32) + 100, target="gfx950") == swap).all()
    assert (run(body + "\nv_mov_b32_e32 v8, v9", U32, LANE.astype(U32) + 100, target="gfx950") == np.where(LANE < 32, LANE + 132, LANE + 164)).all()
    body = body.replace("permlane32", "permlane16")
    assert (run(body, U32, LANE.astype(U32) + 100, target="gfx950") == np.where(LANE % 32 < 16, LANE + 100, LANE - 16 + 164)).all()
    offset = "v_lshlrev_b32_e32 v10, 2, v0\nds_bpermute_b32 v8, v10, v2 offset:12"
    assert (lanes(offset + wait) == (LANE + 3) % 64 + 100).all()
    one = "s_mov_b64 exec, 0xf0\nv_mov_b32_e32 v10, 0x104\nds_permute_b32 v8, v10, v2\ns_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1"
    assert (lanes("v_mov_b32_e32 v8, 5\n" + one) == np.where((LANE >= 4) & (LANE < 8), 0, 5)).all()
    assert (lanes("v_mov_b32_e32 v8, 5\n" + one.replace("0x104", "0x114")) == np.where(LANE == 5, 107, np.where((LANE >= 4) & (LANE < 8), 0, 5))).all()


def test_a_permutation_in_rows_reads_what_its_lanes_need_and_switches_none_off():
    """Lanes 4 to 7 read the four below them, which alone hold something; then every lane moves again."""
    start = "v_mov_b32_e32 v8, 5\ns_mov_b32 s20, 0x32103210\ns_mov_b32 s21, 0\ns_mov_b32 exec_lo, 0xf\nv_mov_b32_e32 v12, v2\n"
    move = "v_permlane16_b32 v8, v12, s20, s21"
    for on, bits, moved in (("0xff", "", range(8)), ("0xf0", " op_sel:[1,0]", range(4, 8))):
        got = lanes(f"{start}s_mov_b32 exec_lo, {on}\n{move}{bits}\ns_mov_b32 exec_lo, -1", "gfx1100")
        assert got.tolist() == [lane % 4 + 100 if lane in moved else 5 for lane in range(32)]
    behind = f"{start}s_mov_b32 exec_lo, 0xf0\n{move}\nv_add_nc_u32_e32 v8, 1, v8\ns_mov_b32 exec_lo, -1"  # no lane that is read is on
    assert lanes(behind, "gfx1100").tolist() == [6 if 4 <= lane < 8 else 5 for lane in range(32)]
    with pytest.raises(EmulationError, match="register v12 is read, which nothing has written"):
        lanes(f"{start}s_mov_b32 exec_lo, 0x1ff\n{move.replace('s20, s21', 's20, 0x44')}\ns_mov_b32 exec_lo, -1", "gfx1100")


@pytest.mark.parametrize(("target", "body", "problem"), [
    ("gfx950", "s_mov_b64 exec, 1\nv_permlane32_swap_b32 v2, v4", "rows are swapped while EXEC switches lanes off"),
    ("gfx950", "v_permlane16_swap_b32 v2, v11", "register v11 is read, which nothing has written"),
    ("gfx950", "v_permlane16_swap_b32 v2, v4, v6", "instruction has 3 operands"),
    ("gfx1100", "v_permlane16_b32 v8, v2, s20, s21, v4", "instruction has 5 operands"),
    ("gfx942", "v_readfirstlane_b32 s20, s0", "operand s0 is not a vector register"),
    ("gfx1100", "v_mov_b16_e32 v12.l, v2.l\nv_add_f32_e32 v8, v12, v2", "register v12 is read, part of which nothing has written"),
    ("gfx942", "s_waitcnt 1", "wait cannot be read"),
    ("gfx942", "s_waitcnt vscnt(0)", "gfx942 has no counter vscnt"),
    ("gfx1201", "s_barrier_signal 1", "barrier other than the workgroup's"),
    ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, 4, 4), 0", "hardware register is not supported"),
    ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 8, 1), 0", "only the rounding and subnormal modes can be set"),
    ("gfx942", "s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0", "only the rounding and subnormal modes can be set"),
    ("gfx1100", "v_dot4_i32_iu8 v8, v2, v4, v2 neg_lo:[1,0,0]", "bytes without a sign are not supported here"),
    ("gfx1100", "v_dot4_i32_iu8 v8, v2, v4, v2", "bytes without a sign are not supported here"),
    ("gfx942", "v_mov_b32_e32 v12, v2\nv_mov_b32_e32 v13, src_shared_base_hi\nflat_atomic_add v[12:13], v2", "a flat atomic operation on LDS"),
    ("gfx942", "global_atomic_add v21, v2, s[4:5], s20", "instruction has 4 operands"),
])
def test_what_is_not_done_here_is_told(target, body, problem):
    with pytest.raises(EmulationError, match=problem):
        lanes(f"{body}\nv_mov_b32_e32 v8, v2\n{WAITS[target]}", target, np.arange(64, dtype=U32) * 4)


def test_a_permutation_from_a_lane_that_is_off_gives_zero_whatever_that_lane_holds():
    """Of four lanes each reads the one four farther on, whose register nothing has written."""
    body = "v_mov_b32_e32 v8, 5\nv_lshlrev_b32_e32 v10, 2, v0\ns_mov_b64 exec, 0xff\nv_mov_b32_e32 v12, v2\ns_mov_b64 exec, 0xf0\nPERMUTE\n"
    for permute, source in (("ds_bpermute_b32 v8, v10, v12 offset:8", LANE + 2), ("ds_swizzle_b32 v8, v12 offset:swizzle(SWAP,8)", LANE ^ 8)):
        got = lanes(body.replace("PERMUTE", permute) + "s_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1")
        on = (LANE >= 4) & (LANE < 8)
        assert (got == np.where(on, np.where(source < 8, source + 100, 0), 5)).all(), permute


# ---------------------------------------------------------------- parts of words in memory

PARTS = {
    "ubyte": lambda x: x & 255, "sbyte": lambda x: signed(x, 8), "ushort": lambda x: x & 0xFFFF, "sshort": lambda x: signed(x, 16),
    "ubyte_d16": lambda x: 0x12340000 | x & 255, "sbyte_d16": lambda x: 0x12340000 | signed(x, 8) & 0xFFFF, "short_d16": lambda x: 0x12340000 | x & 0xFFFF,
    "ubyte_d16_hi": lambda x: 0x5678 | (x & 255) << 16, "sbyte_d16_hi": lambda x: 0x5678 | (signed(x, 8) & 0xFFFF) << 16,
    "short_d16_hi": lambda x: 0x5678 | (x & 0xFFFF) << 16,
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_loads_of_parts_of_words(name):
    """At each place of a word, from global memory, LDS and scratch."""
    x = np.resize(WORDS, 64)
    size = 1 if "byte" in name else 2
    ds = {"ubyte": "u8", "sbyte": "i8", "ushort": "u16", "sshort": "i16", "short_d16": "u16_d16", "short_d16_hi": "u16_d16_hi"}.get(
        name, name.replace("ubyte", "u8").replace("sbyte", "i8"))
    for offset in range(0, 4, size):
        want = python(lambda word: PARTS[name](word >> 8 * offset) % 2**32, x)  # noqa: B023
        keep = "v_lshlrev_b32_e32 v21, 2, v20\nv_mov_b32_e32 v8, 0x12345678\n"
        assert (run(keep + f"global_load_{name} v8, v21, s[4:5] offset:{offset}\ns_waitcnt vmcnt(0)", U32, x) == want).all()
        body = f"{keep}v_lshlrev_b32_e32 v10, 2, v0\nds_write_b32 v10, v2\nds_read_{ds} v8, v10 offset:{offset}\ns_waitcnt lgkmcnt(0)"
        assert (run(body, U32, x) == want).all()


def test_stores_of_parts_of_words():
    x, y = np.resize(WORDS, 64), np.resize(WORDS[::-1], 64)
    for name, ds, function in (
        ("byte", "b8", lambda a, b: a & ~0xFF00 | (b & 255) << 8), ("byte_d16_hi", "b8_d16_hi", lambda a, b: a & ~0xFF00 | (b >> 16 & 255) << 8),
    ):  # fmt: skip
        want = python(function, x, y)
        body = f"v_lshlrev_b32_e32 v10, 2, v0\nds_write_b32 v10, v2\nds_write_{ds} v10, v4 offset:1\nds_read_b32 v8, v10\ns_waitcnt lgkmcnt(0)"
        assert (run(body, U32, x, y) == want).all()
        body = f"v_lshlrev_b32_e32 v21, 2, v20\nglobal_store_{name} v21, v4, s[4:5] offset:1\nglobal_load_dword v8, v21, s[4:5]\ns_waitcnt vmcnt(0)"
        assert (run(body, U32, x, y) == want).all()
    body = "v_lshlrev_b32_e32 v21, 2, v20\nglobal_store_short_d16_hi v21, v4, s[4:5] offset:2\nglobal_load_dword v8, v21, s[4:5]\ns_waitcnt vmcnt(0)"
    assert (run(body, U32, x, y) == (x & U32(0xFFFF) | y & U32(0xFFFF0000))).all()


SCRATCH = ".amdhsa_private_segment_fixed_size 16"


def test_words_and_parts_of_words_in_scratch_memory():
    """Of each lane by itself, at addresses of a register, of a scalar one, and constant; what no store has written is undefined."""
    x, y = np.resize(WORDS, 64), np.resize(WORDS[::-1], 64)
    store = "v_and_b32_e32 v10, 1, v0\nv_lshlrev_b32_e32 v10, 2, v10\nscratch_store_dword v10, v2, off offset:8\n"  # odd lanes to 12, even ones to 8
    assert (run(f"{store}scratch_load_dword v8, v10, off offset:8\ns_waitcnt vmcnt(0)", U32, x, settings=SCRATCH) == x).all()
    body = "scratch_store_dword off, v2, off sc0 sc1\nscratch_load_dword v8, off, off nt\ns_waitcnt vmcnt(0)"  # what caches do changes nothing
    assert (run(body, U32, x, settings=SCRATCH) == x).all()
    store = "scratch_store_dwordx2 off, v[2:3], off offset:8\nscratch_store_short off, v4, off offset:10\nscratch_store_byte off, v4, off offset:13\n"
    longs = x.astype(U64) | y.astype(U64) << U64(32)
    want = python(lambda word, half: word & ~0xFF00FFFF0000 | (half & 0xFFFF) << 16 | (half & 255) << 40, longs, y)
    for load in ("off, off offset:8", "off, s20 offset:4"):
        body = f"{store}s_mov_b32 s20, 4\nscratch_load_dwordx2 v[8:9], {load}\ns_waitcnt vmcnt(0)"
        assert (run(body, U64, longs, y, settings=SCRATCH) == want).all(), load
    body = "scratch_store_dword off, v2, off\nscratch_load_sbyte v8, off, off offset:1\nscratch_load_ushort v9, off, off offset:2\ns_waitcnt vmcnt(0)"
    assert (run(f"{body}\nv_add_u32_e32 v8, v8, v9", U32, x, settings=SCRATCH) == python(lambda word: (signed(word >> 8 & 255, 8) + (word >> 16)) % 2**32, x)).all()
    for unwritten in ("", "scratch_store_dword off, v9, off offset:4\n", "scratch_store_short off, v2, off offset:4\n"):  # not at all, with nothing, the half of it
        with pytest.raises(EmulationError, match="register v8 is read, (part of )?which nothing has written"):
            run(f"{unwritten}scratch_load_dword v8, off, off offset:4\ns_waitcnt vmcnt(0)\nv_add_u32_e32 v8, v8, v8", U32, x, settings=SCRATCH)


@pytest.mark.parametrize(("access", "problem"), [
    ("scratch_load_dword v8, off, off offset:16", "a read of 4 bytes reaches outside scratch memory"),
    ("scratch_load_dwordx2 v[8:9], off, off offset:12", "a read of 8 bytes reaches outside scratch memory"),
    ("scratch_load_dword v8, off, off offset:6", "a read of 4 bytes reaches outside scratch memory, or is not aligned"),
    ("scratch_store_dword off, v2, off offset:-4", "a write of 4 bytes reaches outside scratch memory"),
    ("scratch_store_short off, v2, off offset:15", "a write of 2 bytes reaches outside scratch memory"),
    ("buffer_load_dword v8, v10, s[12:15], 0 offen", "buffer instruction is not supported"),
    ("scratch_load_ubyte_d16 v8, off, off", "half of a register in scratch memory"),
    ("scratch_store_short_d16_hi off, v2, off", "half of a register in scratch memory"),
    ("scratch_store_dword off, v2, off, s20", "instruction has 4 operands"),
])
def test_what_is_no_place_of_scratch_memory(access, problem):
    with pytest.raises(EmulationError, match=problem):
        run(f"{access}\ns_waitcnt vmcnt(0)", U32, np.resize(WORDS, 64), settings=SCRATCH)


@pytest.mark.parametrize(("mode", "problem"), [("offen", None), ("idxen", "buffer instruction is not supported")])
def test_a_buffer_is_scratch_memory_by_byte_addresses_alone(mode, problem):
    """CDNA 2's, whose resource stands in the first scalar registers; the arguments' address comes behind it."""
    x = np.resize(WORDS, 64)
    settings = f"{SCRATCH}\n\t\t.amdhsa_user_sgpr_private_segment_buffer 1"
    body = f"v_mov_b32_e32 v10, 4\nbuffer_store_dword v2, v10, s[0:3], 0 {mode}\nbuffer_load_dword v8, off, s[0:3], 0 offset:4\ns_waitcnt vmcnt(0)"
    text = assembly(body, [4], 4, "gfx90a", settings=settings).replace("user_sgpr_count 2", "user_sgpr_count 6")
    text = text.replace("s[4:11], s[0:1]", "s[4:11], s[4:5]").replace("v20, s2", "v20, s6", 1)
    text = text.replace("s_load_dwordx8", "s_mov_b32 s20, s6\n\ts_load_dwordx8", 1).replace("v20, s6", "v20, s20", 1)
    if problem:
        with pytest.raises(EmulationError, match=problem):
            AmdEmulator(text, UNITS.get("ampere"), processes=1)
        return
    with AmdEmulator(text, UNITS.get("ampere"), processes=1) as machine:
        buffers = [machine.upload(x, name="in") for _ in range(3)]
        out = machine.alloc(256, name="out")
        machine.launch("k", (1, 1, 1), (64, 1, 1), 0, [*buffers, out])
        assert (machine.read(out, U32, 64) == x).all()


def test_waits_for_one_counter():
    """RDNA 3's, which count behind `null`: too high a count covers nothing."""
    x = np.arange(32, dtype=U32) + U32(7)
    load = "v_lshlrev_b32_e32 v21, 2, v20\nglobal_load_b32 v8, v21, s[4:5]\n"
    add = "\nv_add_nc_u32_e32 v8, v8, v2"
    assert (run(f"{load}s_waitcnt_vmcnt null, 0x0{add}", U32, x, target="gfx1100") == 2 * x).all()
    for wait in ("s_waitcnt_vmcnt null, 0x1", "s_waitcnt_vscnt null, 0x0", "s_waitcnt_lgkmcnt null, 0x0"):
        with pytest.raises(EmulationError, match="is read while a load into it is in flight"):
            run(f"{load}{wait}{add}", U32, x, target="gfx1100")
    # RDNA 4's caches are emptied as a load, and written back as a store.
    for caches, fine in (("global_inv", True), ("global_wb", False), ("global_wbinv", False)):
        body = f"{load}{caches} scope:SCOPE_DEV\ns_wait_loadcnt 0x1{add}"
        if fine:
            assert (run(body, U32, x, target="gfx1201") == 2 * x).all()
        else:
            with pytest.raises(EmulationError, match="is read while a load into it is in flight"):
                run(body, U32, x, target="gfx1201")
    with pytest.raises(EmulationError, match="wait for a number in a register is not supported"):
        run(f"{load}s_waitcnt_vmcnt s4, 0x0{add}", U32, x, target="gfx1100")


def test_scalar_loads_of_several_words():
    x = np.arange(64, dtype=U32) * U32(0x01010101)
    for name, words in (("dword", 1), ("dwordx2", 2), ("dwordx4", 4), ("dwordx8", 8), ("dwordx16", 16)):
        to = f"s[20:{19 + words}]" if words > 1 else "s20"
        for offset in (0, 12):
            body = f"s_load_{name} {to}, s[4:5], {offset:#x}\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v8, s{19 + words}"
            assert (run(body, U32, x) == x[words - 1 + offset // 4]).all()
    body = "s_mov_b32 s19, 8\ns_load_dword s20, s[4:5], s19 offset:0x4\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v8, s20"
    assert (run(body, U32, x) == x[3]).all()
    assert (run(body.replace("s19, 8", "s19, 11"), U32, x) == x[3]).all()  # the last two bits of an address do not count


@pytest.mark.parametrize("target", ["gfx942", "gfx1201"])
def test_atomic_operations_on_64_bits_of_global_memory(target):
    """The old value comes back where it is asked for; the new one stays."""
    old, x = (each[:64] for each in pairs(LONGS))
    names = {"add": (U64, lambda o, y: o + y), "umax": (U64, np.maximum), "smin": (I64, np.minimum), "swap": (U64, lambda o, y: y)}
    later = {"add": "add_u64", "umax": "max_u64", "smin": "min_i64", "swap": "swap_b64"}
    for name, (dtype, function) in names.items():
        for returns in (True, False):
            if target == "gfx942":
                atomic = f"global_atomic_{name}_x2 " + ("v[8:9], v21, v[4:5], s[4:5] sc0" if returns else "v21, v[4:5], s[4:5]")
                end = "" if returns else "\nglobal_load_dwordx2 v[8:9], v21, s[4:5]"
            else:
                atomic = f"global_atomic_{later[name]} " + ("v[8:9], v21, v[4:5], s[4:5] th:TH_ATOMIC_RETURN" if returns else "v21, v[4:5], s[4:5]")
                end = "" if returns else "\nglobal_load_b64 v[8:9], v21, s[4:5]"
            got = run(f"v_lshlrev_b32_e32 v21, 3, v20\n{atomic}{end}\n{WAITS[target]}", U64, old, x, target=target)
            want = old if returns else function(old.view(dtype), x.view(dtype)).view(U64)
            assert got.tolist() == want.tolist(), (name, returns)


def test_two_counters_in_one_wait():
    x = np.arange(32, dtype=U32) + U32(7)
    start = "v_lshlrev_b32_e32 v21, 2, v20\nv_lshlrev_b32_e32 v10, 2, v0\nds_store_b32 v10, v2\ns_wait_dscnt 0x0\n"
    two = start + "global_load_b32 v8, v21, s[4:5]\nglobal_load_b32 v9, v21, s[6:7]\nds_load_b32 v11, v10\nds_load_b32 v12, v10\n"
    for wait, fine in (("0x101", True), ("0x201", False), ("0x102", False), ("0x1", True)):
        body = f"{two}s_wait_loadcnt_dscnt {wait}\nv_add_nc_u32_e32 v8, v8, v11"
        if fine:
            assert (run(body, U32, x, x, target="gfx1201") == 2 * x).all()
        else:
            with pytest.raises(EmulationError, match="is read while a load into it is in flight"):
                run(body, U32, x, x, target="gfx1201")


def test_emulators_of_one_text_share_its_program_and_nothing_else():
    """A decoded program is kept: it cannot be changed, and it tells places by the source that it was decoded with."""
    text = assembly("v_mov_b32_e32 v8, 42", [4], 4).replace("\nk:\n", '\n\t.file\t0 "." "k.hip"\nk:\n\t.loc\t0 7 0\n')
    first, again, other = (AmdEmulator(text, UNITS.get("ampere"), source_name=name, processes=1) for name in ("a.hip", "a.hip", "b.hip"))
    assert again.programs is first.programs and other.programs is not first.programs
    for machine in (first, again):
        buffers = [machine.upload(np.zeros(64, U32), name="in") for _ in range(3)]
        out = machine.alloc(256, name="out")
        with pytest.raises(EmulationError):
            machine.read(out, U32, 64)
        machine.launch("k", (1, 1, 1), (64, 1, 1), 0, [*buffers, out])
        assert set(machine.read(out, U32, 64).tolist()) == {42}
    for machine, name in ((first, "a.hip"), (other, "b.hip")):
        with pytest.raises(EmulationError) as error:
            machine.launch("k", (1, 1, 1), (64, 1, 1), 0, [None] * 4)
        assert error.value.where == f"{name}:7 (entry k)"
    program = first.programs["k"]
    with pytest.raises(TypeError):
        first.programs["k"] = program
    with pytest.raises(TypeError):
        program.blocks[0].code[0] = None


def test_a_barrier_that_waves_miss_is_told_of_their_own_workgroup():
    """A fault's lane counts over the columns of a wave of the program: those of its first wave in each workgroup, then those of its second."""
    told = []
    waves = [SimpleNamespace(indices=[0]), SimpleNamespace(indices=[1, 2])]
    blocks = [SimpleNamespace(last=SimpleNamespace(statement=f"barrier {at}")) for at in range(2)]
    strip = SimpleNamespace(
        ctas=4, waves=waves, fail=lambda wave, instruction, fault: told.append((wave, instruction.statement, fault.lane, fault.got)),
        launch=SimpleNamespace(program=SimpleNamespace(blocks=blocks), source=SimpleNamespace(site=lambda statement: statement)),
    )
    standing = np.zeros((3, 4), int)
    standing[:, 2], standing[:, 3] = (-1, -1, 1), (0, -1, 1)
    for cta in (2, 3):
        Strip._deadlock(strip, standing, cta, "waves wait")
    assert told == [(waves[1], "barrier 1", 1 * 4 + 2, "wave 0, 1 has ended; wave 2 waits at barrier 1"),
                    (waves[0], "barrier 0", 3, "wave 0 waits at barrier 0; wave 1 has ended; wave 2 waits at barrier 1")]


# ---------------------------------------------------------------- who takes part in an access


@pytest.mark.parametrize("size", [4, 8, 12, 16])
def test_a_flat_access_of_lanes_in_lds_and_in_global_memory(size):
    """Odd lanes have their place in LDS, even ones in global memory; each reads there what it has stored, of its own words and no other's."""
    x, words = np.arange(64, dtype=U32) + 7, size // 4
    data = "v12" if words == 1 else f"v[12:{11 + words}]"
    back = "v16" if words == 1 else f"v[16:{15 + words}]"
    suffix = "dword" if words == 1 else f"dwordx{words}"
    fill = "\n".join(f"v_add_u32_e32 v{12 + word}, {word << 4}, v2" for word in range(words))
    add = "\n".join(f"v_add_u32_e32 v8, v8, v{16 + word}" for word in range(words))
    body = f"""{fill}
v_and_b32_e32 v10, 1, v0
v_cmp_eq_u32_e32 vcc, 1, v10
v_lshlrev_b32_e32 v10, 4, v0
v_mov_b32_e32 v22, s4
v_mov_b32_e32 v23, s5
v_mov_b32_e32 v24, 0
v_cndmask_b32_e32 v22, v22, v24, vcc
v_mov_b32_e32 v24, src_shared_base_hi
v_cndmask_b32_e32 v23, v23, v24, vcc
v_add_u32_e32 v22, v22, v10
flat_store_{suffix} v[22:23], {data}
s_waitcnt vmcnt(0) lgkmcnt(0)
flat_load_{suffix} {back}, v[22:23]
s_waitcnt vmcnt(0) lgkmcnt(0)
{add}"""
    padded = np.zeros(256, U32)  # 16 bytes for each lane of the first workgroup
    padded[:64] = x
    got = run(f"v_mov_b32_e32 v8, 0\ns_cmp_lg_u32 s2, 0\ns_cbranch_scc1 .LEND\n{body}\n.LEND:", U32, padded)
    assert got[:64].tolist() == [words * one + sum(word << 4 for word in range(words)) for one in x.tolist()]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.name)
def test_accesses_land_for_the_waves_that_wait_and_once(schedule):
    """Waves of two workgroups add to words of their own and wait one after the other; no lane that is off takes part."""
    x = np.arange(128, dtype=U32) * U32(3) + U32(7)
    body = """v_lshlrev_b32_e32 v21, 2, v20
global_atomic_add v21, v2, s[4:5]
s_cmp_lg_u32 s2, 0
s_cbranch_scc1 .LOTHER
s_waitcnt vmcnt(0)
.LOTHER:
s_waitcnt vmcnt(0)
global_load_dword v8, v21, s[4:5]
s_waitcnt vmcnt(0)"""
    assert (run(body, U32, x, schedule=schedule) == 2 * x).all()
    off = """v_mov_b32_e32 v8, v2
v_lshlrev_b32_e32 v21, 2, v20
v_mov_b32_e32 v12, s4
v_mov_b32_e32 v13, s5
s_mov_b64 exec, 0
global_load_dwordx4 v[8:11], v21, s[4:5]
flat_load_dwordx4 v[16:19], v[12:13]
global_store_dwordx2 v21, v[12:13], s[4:5]
flat_store_dwordx2 v[12:13], v[12:13]
ds_write_b64 v21, v[12:13]
ds_read_b128 v[16:19], v21
s_waitcnt vmcnt(0) lgkmcnt(0)
s_mov_b64 exec, -1
global_load_dword v9, v21, s[4:5]
s_waitcnt vmcnt(0)
v_add_u32_e32 v8, v8, v9"""
    assert (run(off, U32, x, schedule=schedule) == 2 * x).all()


def test_a_load_waits_for_the_stores_to_its_own_place_alone():
    """RDNA 3's stores count apart. A late one to another place has not landed where a scalar load looks for it."""
    x, y = np.arange(32, dtype=U32) + U32(7), np.arange(32, dtype=U32) + U32(1000)
    body = """v_lshlrev_b32_e32 v21, 2, v20
v_mov_b32_e32 v12, 5
global_store_b32 v21, v12, s[6:7]
global_store_b32 v21, v12, s[4:5]
global_load_b32 v8, v21, s[4:5]
s_waitcnt vmcnt(0)
s_load_b32 s20, s[6:7], 0x0
s_waitcnt lgkmcnt(0)
v_add_nc_u32_e32 v8, s20, v8"""
    for schedule, seen in ((LAZY_HIGHEST, 1000), (EAGER_LOWEST, 5)):
        assert (run(body, U32, x, y, target="gfx1100", schedule=schedule) == 5 + seen).all()


def test_what_a_wave_finds_in_its_first_scalar_registers():
    """Everything that a descriptor may ask for, in AMDGPUUsage's order: 4, 2, 2, 2, 2, 2 and 1 registers, then arguments that are loaded before."""
    asked = ("private_segment_buffer", "dispatch_ptr", "queue_ptr", "dispatch_id", "flat_scratch_init", "private_segment_size")
    settings = [f".amdhsa_user_sgpr_{name} 1" for name in asked]
    settings += [".amdhsa_user_sgpr_kernarg_preload_offset 6", ".amdhsa_user_sgpr_kernarg_preload_length 2"]  # the last of four addresses
    text = assembly("v_mov_b32_e32 v8, v2", [4], 4, settings="\n\t\t".join(settings)).replace("user_sgpr_count 2", "user_sgpr_count 17")
    text = text.replace("s_load_dwordx8 s[4:11], s[0:1]", "s_mov_b32 s30, s17\n\ts_mov_b32 s32, s15\n\ts_mov_b32 s33, s16\n\ts_load_dwordx8 s[4:11], s[8:9]")
    text = text.replace("v_mov_b32_e32 v20, s2\n", "v_mov_b32_e32 v20, s30\n").replace("s[10:11]", "s[32:33]")
    with AmdEmulator(text, UNITS.get("ampere"), processes=1) as machine:
        given, out = machine.upload(WORDS[:16].repeat(8), name="in"), machine.alloc(512, name="out")
        machine.launch("k", (2, 1, 1), (64, 1, 1), 0, [given, given, given, out])
        assert machine.read(out, U32, 128).tolist() == WORDS[:16].repeat(8).tolist()


def test_a_kernel_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr("gemmgen.emulate.amdgpu.wave._PATIENCE", 100)
    with AmdEmulator(assembly("v_mov_b32_e32 v8, v2", [4], 4).replace("s_endpgm", "s_nop 0"), UNITS.get("ampere"), processes=1) as machine:
        memory = machine.upload(WORDS.repeat(4), name="in")
        with pytest.raises(EmulationError, match="control runs past the end of the kernel"):
            machine.launch("k", (1, 1, 1), (64, 1, 1), 0, [memory] * 4)


def test_waves_that_part_have_registers_and_loads_of_their_own():
    """The first workgroup loads, and multiplies matrices, where the second goes past it with another load under way."""
    x, first = np.arange(128, dtype=U32) + U32(100), np.arange(128) < 64
    apart = "s_mov_b32 s20, 7\ns_load_dword s22, s[4:5], 0x0\nv_mov_b32_e32 v15, v2\ns_cmp_lg_u32 s2, 0\ns_cbranch_scc1 .LOTHER\n"
    load = "s_load_dword s20, s[4:5], 0x4\ns_waitcnt lgkmcnt(0)\n.LOTHER:\nv_mov_b32_e32 v8, s20"
    assert (run(apart + load, U32, x) == np.where(first, x[1], 7)).all()
    multiply = "\n".join(f"v_mov_b32_e32 v{v}, {'v2' if v < 16 else '0x01010101'}" for v in range(12, 20))
    multiply += "\nv_mfma_i32_16x16x32_i8 v[12:15], v[16:17], v[18:19], v[12:15]\n.LOTHER:\nv_mov_b32_e32 v8, v15"
    assert (run(apart + multiply, U32, x) == np.where(first, x + 32, x)).all()


@pytest.mark.parametrize("access", ["global_load_dword v8, v11, s[4:5]", "global_store_dword v11, v2, s[4:5]", "ds_read_b32 v8, v11", "ds_write_b32 v11, v2"])
def test_a_place_that_is_not_there_is_told_of_its_work_item(access):
    """Of lane 12 of those from 8 on, the others being off."""
    body = f"""v_mov_b32_e32 v11, 0
v_cmp_eq_u32_e32 vcc, 12, v0
v_cndmask_b32_e64 v11, 0, 1, vcc
v_lshlrev_b32_e32 v11, 20, v11
s_mov_b64 exec, 0xff00
{access}
{WAITS["gfx942"]}
s_mov_b64 exec, -1"""
    with pytest.raises(EmulationError, match=r"reaches outside .*, in workgroup \(0, 0, 0\), work-item \(12, 0, 0\)"):
        run(body, U32, np.arange(64, dtype=U32))


def test_a_workgroup_s_numbers_stand_in_the_registers_that_the_descriptor_asks_for():
    """Those along y and z alone: behind the arguments' address, one after the other."""
    body = "s_lshl_b32 s20, s3, 7\nv_add_u32_e32 v20, s20, v20\nv_mov_b32_e32 v8, v20"
    ids = ".amdhsa_system_sgpr_workgroup_id_y 1\n\t\t.amdhsa_system_sgpr_workgroup_id_z 1"
    text = assembly(body, [], 4, settings=ids).replace("workgroup_id_x 1", "workgroup_id_x 0")
    with AmdEmulator(text, UNITS.get("ampere"), processes=1) as machine:
        out = machine.alloc(384 * 4, name="out")
        machine.launch("k", (1, 2, 3), (64, 1, 1), 0, [out] * 4)
        assert machine.read(out, U32, 384).tolist() == list(range(384))
