"""The emulated AMD machine on kernels compiled for all its targets: control flow, memory, waits,
and faults planted by editing the assembly."""

import itertools
import re
from functools import cache

import numpy as np
import pytest

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES, TOGETHER
from gemmgen.emulate.amdgpu import TARGETS, AmdEmulator
from gemmgen.errors import EmulationError
from assembled import gcn_of
from awkward import assert_rolled, launched, line_of, sums_of_uneven_loops
from ways import covering

UNIT_OF = {"gfx90a": "cdna2", "gfx942": "cdna3", "gfx950": "cdna4", "gfx1100": "rdna3", "gfx1201": "rdna4"}
ALL = sorted(UNIT_OF)
CDNA = [name for name in ALL if TARGETS[name].cdna]


def test_a_family_is_one_machine():
    """Its targets differ in nothing but their names, so one of each stands for the others below."""
    families = {TARGETS[name].family: TARGETS[name] for name in ALL}
    for name, target in TARGETS.items():
        assert (target.name, vars(target) | {"name": ""}) == (name, vars(families[target.family]) | {"name": ""})

HEAD = """
#define KERNEL(n) extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(1, n)))
#define SHARED __attribute__((shared))
#define DEVICE __attribute__((device))
typedef unsigned u32; typedef long long i64; typedef unsigned long long u64; typedef _Float16 f16; typedef __bf16 bf16;
typedef f16 f16x2 __attribute__((ext_vector_type(2))); typedef f16 f16x4 __attribute__((ext_vector_type(4)));
typedef float f32x2 __attribute__((ext_vector_type(2))); typedef float f32x4 __attribute__((ext_vector_type(4)));
typedef int i32x4 __attribute__((ext_vector_type(4)));
static inline DEVICE int tid() { return __builtin_amdgcn_workitem_id_x(); }
static inline DEVICE int gid() { return __builtin_amdgcn_workgroup_id_x(); }
static inline DEVICE int lane() { return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); }
static inline DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup", "local");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup", "local");
}
"""

SOURCE = HEAD + """
KERNEL(96) loops(const int* a, int n, int* out) {
  int i = gid() * 96 + tid(), sum = 0;
  for (int j = 0; j < i % 7 + gid(); ++j) {
    if ((i + j) & 1) sum += a[j]; else sum -= 2 * j;
    if (sum > 1000) break;
  }
  if (i < n) out[i] = sum; else out[i] = -1;
}
KERNEL(128) ends(int n, int* out) {
  SHARED int tile[128];
  int i = tid();
  out[gid() * 128 + i] = -1;
  if (i >= 64) return;                   // whole waves, before the first barrier
  tile[i] = i * gid();
  barrier();
  int x = tile[63 - i];
  if (i % 32 > 20) return;               // parts of waves, after it
  out[gid() * 128 + i] = x + n;
}
KERNEL(128) uneven(int* out) {           // barriers in a loop whose length differs by workgroup
  SHARED int tile[128];
  int i = tid();
  tile[i] = i;
  for (int step = 0; step < gid() * 2 + 1; ++step) {
    barrier();
    int x = tile[(i + 1) % 128];
    barrier();
    tile[i] = x + step;
  }
  barrier();
  out[gid() * 128 + i] = tile[127 - i];
}
KERNEL(1024) where(int* out) {
  int x = __builtin_amdgcn_workitem_id_x(), y = __builtin_amdgcn_workitem_id_y(), z = __builtin_amdgcn_workitem_id_z();
  int nx = __builtin_amdgcn_workgroup_size_x(), ny = __builtin_amdgcn_workgroup_size_y(), nz = __builtin_amdgcn_workgroup_size_z();
  int gx = __builtin_amdgcn_grid_size_x() / nx, gy = __builtin_amdgcn_grid_size_y() / ny;
  int b = __builtin_amdgcn_workgroup_id_x() + gx * (__builtin_amdgcn_workgroup_id_y() + gy * __builtin_amdgcn_workgroup_id_z());
  out[(b * nz + z) * nx * ny + y * nx + x] = b * 1000 + x + 10 * y + 100 * z;
}
struct Packed { int a[5]; float* p; };
KERNEL(64) arguments(Packed s, signed char c, f16 h, float f, double d, i64 n, const float* q) {
  s.p[tid()] = s.a[tid() & 3] + c + (float)h + f + (float)d + (float)n + q[tid()];
}
DEVICE int counter = 5;
__attribute__((constant)) short table[4] = {-7, 8, 300, 4};
KERNEL(64) variables(int* out) {
  out[tid()] = table[tid() & 3] + counter;
  barrier();
  if (tid() == 0) counter += 2;
}
KERNEL(64) dynamic(const float* a, float* out) {
  extern SHARED float tile[];
  tile[tid()] = a[tid()];
  barrier();
  out[tid()] = tile[63 - tid()];
}
KERNEL(256) ballots(const int* a, int n, u64* out) {
  int i = tid();
  u64 up = __builtin_amdgcn_ballot_w64(a[i] > n);
  u64 inside = 7;
  if (a[i] & 1) inside = __builtin_amdgcn_ballot_w64(a[i] > 0);
  out[i * 4] = up;
  out[i * 4 + 1] = inside;
  out[i * 4 + 2] = __builtin_popcountll(up);
  out[i * 4 + 3] = lane();
}
KERNEL(256) shuffles(const float* a, float* out) {
  int i = tid(), l = lane();
  float x = a[i], sum = x;
  for (int d = 16; d; d >>= 1)
    sum += __builtin_bit_cast(float, __builtin_amdgcn_ds_bpermute((l ^ d) * 4, __builtin_bit_cast(int, sum)));
  int bits = __builtin_bit_cast(int, x);
  out[i * 6] = sum;
  out[i * 6 + 1] = __builtin_bit_cast(float, __builtin_amdgcn_readfirstlane(bits));
  out[i * 6 + 2] = __builtin_bit_cast(float, __builtin_amdgcn_readlane(bits, 5));
  out[i * 6 + 3] = __builtin_bit_cast(float, __builtin_amdgcn_update_dpp(0, bits, 0x111, 0xf, 0xf, true));
  out[i * 6 + 4] = __builtin_bit_cast(float, __builtin_amdgcn_mov_dpp(bits, 0xb1, 0xf, 0xf, false));
  out[i * 6 + 5] = __builtin_bit_cast(float, __builtin_amdgcn_ds_swizzle(bits, 0x401f));
}
#define ADD(p, x) __hip_atomic_fetch_add(p, x, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT)
KERNEL(64) atomics(u32* count, u64* most, float* sum, int* out) {
  SHARED int local; SHARED int top;
  if (tid() == 0) { local = 0; top = 0; }
  barrier();
  __hip_atomic_fetch_add(&local, tid(), __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  int before = __hip_atomic_fetch_max(&top, tid() * 3, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
  u32 ticket = __hip_atomic_fetch_add(count, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
  __hip_atomic_fetch_max(most, (u64)ticket << 20, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
  ADD(most + 1, (u64)ticket + (1ull << 40));
  ADD(sum + tid(), 0.5f);
  ADD(count + 1, 3u);
  int expected = 0;
  __hip_atomic_compare_exchange_strong((int*)count + 2, &expected, 1 + gid(), __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                       __HIP_MEMORY_SCOPE_AGENT);
  barrier();
  out[gid() * 64 + tid()] = local + 100000 * top + (before > 189 ? 7 : 0);
}
KERNEL(64) bits(const u32* a, u32* out) {
  u32 x = a[tid()], y = x, n = 0;
  while (y) { n += __builtin_ffs(y) * n + 1; y &= y - 1; }
  u32 row[6] = {x ? (u32)__builtin_clz(x) : 99, x ? (u32)__builtin_ctz(x) : 99, (u32)__builtin_popcount(x),
                __builtin_bitreverse32(x), n, (x >> 5 & 63) | (x << 11 & 0xff000) | (x << (x & 31))};
  for (int j = 0; j < 6; ++j) out[tid() * 6 + j] = row[j];
}
KERNEL(64) floats(const float* a, const float* b, float* out) {
  float x = a[tid()], y = b[tid()];
  u32 flags = (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | !(x < y) << 4 | __builtin_isnan(x) << 5
            | __builtin_isinf(x) << 6 | __builtin_isfinite(y) << 7 | __builtin_isunordered(x, y) << 8;
  int e = (__builtin_bit_cast(int, x) >> 23 & 255) - 127;
  float row[8] = {(float)flags, x / y, __builtin_fmaf(x, y, -x), __builtin_isfinite(x) && __builtin_fabsf(x) > 3 ? x : y,
                  x * __builtin_bit_cast(float, (u32)(127 - e / 2) << 23),
                  __builtin_bit_cast(float, (__builtin_bit_cast(u32, x) + 0x1000u) & 0xffffe000u),
                  (float)((double)x * 1.1 + y), __builtin_floorf(x) + __builtin_rintf(y)};
  for (int j = 0; j < 8; ++j) out[tid() * 8 + j] = row[j];
}
KERNEL(64) narrow(const float* a, f16* h, u32* b, short* s, const signed char* c, f16x2* p, f32x2* q) {
  int i = tid();
  float x = a[i];
  f16 high = (f16)x;
  h[i * 2] = high;
  h[i * 2 + 1] = (f16)((x - (float)high) * 2048.f);
  bf16 up = (bf16)x;
  b[i] = __builtin_bit_cast(unsigned short, up) | (u32)__builtin_bit_cast(unsigned short, (bf16)(x - (float)up)) << 16;
  s[i] = (short)(c[i] * c[i + 1] + (short)x);
  f16x2 pair = {high, (f16)(x * 3)};
  p[i] = pair * pair + (f16)2 * pair;
  f32x2 two = {x, x + 1};
  q[i] = two * two.yx - (float)c[i];
}
KERNEL(64) divisions(const int* a, const u32* b, int* out) {
  int x = a[tid()];
  u32 y = b[tid()];
  out[tid() * 6] = x / (int)(y % 1000 + 1);
  out[tid() * 6 + 1] = y % 7;
  out[tid() * 6 + 2] = y / (u32)(x | 1);
  out[tid() * 6 + 3] = x % 100;
  out[tid() * 6 + 4] = ((i64)x * (i64)y) >> 20;
  out[tid() * 6 + 5] = ((u64)(u32)x * y) >> 32;
}
KERNEL(64) arrays(const int* a, int* out, int n) {  // indexed at run time, so in scratch memory
  int r[40]; short s[40];
  for (int j = 0; j < 40; ++j) { r[j] = a[tid() + j]; s[j] = (short)(r[j] * 3); }
  for (int j = 0; j < n; ++j) { int at = (r[j % 40] & 0xffff) % 40; r[at] += j; s[at] ^= (short)r[j % 7]; }
  for (int j = 0; j < 40; ++j) out[tid() * 40 + j] = r[j] + s[j];
}
KERNEL(64) indices(const float* a, i64 lda, i64 n, i64 m, float* out) {  // 64-bit index arithmetic, predicated edges
  i64 r = (i64)gid() * 64 + tid();
  for (i64 j = 0; j < n; ++j)
    if (r < m && j + r < n * m) out[r * lda + j] = a[j * lda + r] * 2.f + (float)(r % 7);
}
KERNEL(256) tiles(const f32x4* a, f32x4* out, float* single) {  // wide and strided accesses to LDS
  SHARED f32x4 tile[256]; SHARED float column[1024 + 64];
  int i = tid();
  tile[i] = a[gid() * 256 + i];
  barrier();
  f32x4 x = tile[i ^ 3];
  column[i] = x.x; column[i + 256] = x.y; column[i + 512] = x.z; column[i + 768] = x.w;
  barrier();
  out[gid() * 256 + i] = tile[255 - i];
  single[gid() * 256 + i] = column[i * 4 % 1024] + column[1023 - i] * 2.f;
}
"""


@cache
def assembly(text, target):
    return gcn_of(text, target)


def emulator(target, text=SOURCE, edited=None, **options):
    unit = UNITS.get(UNIT_OF[target])
    return AmdEmulator(edited or assembly(text, target), unit, source=text, source_name="kernel.hip", **options)


def run(target, entry, grid, block, shared, *args, out=None, text=SOURCE, edited=None, **options):
    with emulator(target, text, edited, **options) as machine:
        return launched(machine, entry, grid, block, shared, args, out)


# ---------------------------------------------------------------- control flow


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("schedule", (*SCHEDULES, TOGETHER), ids=lambda s: s.name)
def test_loops_of_different_length_in_each_lane_and_workgroup(target, schedule):
    a = np.arange(100, dtype=np.int32) * 3
    got, _ = run(target, "loops", (5,), (96,), 0, a, 400, out=(np.int32, 480), schedule=schedule)
    assert got.tolist() == sums_of_uneven_loops(a)


@pytest.mark.parametrize("target", ALL)
def test_lanes_and_waves_that_end_early(target):
    for schedule in SCHEDULES:
        got, _ = run(target, "ends", (3,), (128,), 0, 7, out=(np.int32, (3, 128)), schedule=schedule)
        for group in range(3):
            for i in range(128):
                ended = i >= 64 or i % 32 > 20
                assert got[group, i] == (-1 if ended else (63 - i) * group + 7)


@pytest.mark.parametrize("target", ALL)
def test_barriers_in_a_loop_whose_length_differs_by_workgroup(target):
    for schedule in (*SCHEDULES, TOGETHER):
        got, _ = run(target, "uneven", (4,), (128,), 0, out=(np.int32, (4, 128)), schedule=schedule)
        assert_rolled(got)


@pytest.mark.parametrize("target", ALL)
def test_partial_waves_and_blocks_of_three_dimensions(target):
    got, stats = run(target, "where", (2, 3, 2), (5, 4, 3), 0, out=(np.int32, (12, 3, 4, 5)))
    z, y, x = np.indices((3, 4, 5))
    assert (got == np.arange(12)[:, None, None, None] * 1000 + x + 10 * y + 100 * z).all()
    assert stats.ctas == 12


def test_a_loop_that_waits_for_another_wave_is_given_up(monkeypatch):
    monkeypatch.setattr("gemmgen.emulate.amdgpu.wave._PATIENCE", 2000)
    text = HEAD + "KERNEL(64) k(volatile int* flag) {\n  while (flag[0] == 0) {}\n}"
    with pytest.raises(EmulationError, match="runs on and on") as error:
        run("gfx942", "k", (1,), (64,), 0, np.zeros(1, np.int32), text=text)
    assert error.value.where.startswith(f"kernel.hip:{text.splitlines().index('  while (flag[0] == 0) {}') + 1} (entry k")


@pytest.mark.parametrize("target", ALL)
def test_a_trap_is_an_error(target):
    text = HEAD + "KERNEL(64) k(const int* a, int* out) {\n  if (a[tid()] > 50) __builtin_trap();\n  out[tid()] = a[tid()];\n}"
    a = np.arange(64, dtype=np.int32)
    assert (run(target, "k", (1,), (64,), 0, a % 40, text=text, out=(np.int32, 64))[0] == a % 40).all()
    with pytest.raises(EmulationError, match="the kernel executes a trap") as error:
        run(target, "k", (1,), (64,), 0, a, text=text, out=(np.int32, 64))
    assert error.value.where == f"kernel.hip:{line_of(text, 'trap')} (entry k)"


# ---------------------------------------------------------------- arguments and memory


@pytest.mark.parametrize("target", ALL)
def test_arguments_of_every_kind(target):
    q = np.linspace(0, 1, 64, dtype=np.float32)
    with emulator(target) as machine:
        out = machine.alloc(256, name="out")
        packed = np.array([1, 2, 3, 4, 5, 0], np.int32).tobytes() + out.address.to_bytes(8, "little")
        machine.launch("arguments", (1, 1, 1), (64, 1, 1), 0, [packed, -3, 0.5, 1.25, 2.5, -7, machine.upload(q, name="q")])
        got = machine.read(out, np.float32, 64)
    want = np.arange(64) % 4 + 1 - 3 + np.float32(0.5) + np.float32(1.25) + np.float32(2.5) - 7 + q
    assert np.allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("target", ALL)
def test_variables_keep_their_values_until_forgotten(target):
    table = np.array([-7, 8, 300, 4])
    with emulator(target) as machine:
        for start in (5, 7):
            out = machine.alloc(256, name="out")
            machine.launch("variables", (1, 1, 1), (64, 1, 1), 0, [out])
            assert (machine.read(out, np.int32, 64) == table[np.arange(64) % 4] + start).all()
        machine.forget()
        out = machine.alloc(256, name="out")
        machine.launch("variables", (1, 1, 1), (64, 1, 1), 0, [out])
        assert machine.read(out, np.int32, 64)[0] == -2


@pytest.mark.parametrize("target", ALL)
def test_dynamic_lds(target):
    a = np.arange(64, dtype=np.float32)
    assert (run(target, "dynamic", (1,), (64,), 256, a, out=(np.float32, 64))[0] == a[::-1]).all()
    with pytest.raises(EmulationError, match="reaches outside LDS") as error:
        run(target, "dynamic", (1,), (64,), 252, a, out=(np.float32, 64))
    assert error.value.got == "LDS + 252 of 252 bytes"


def test_arguments_that_do_not_fit():
    with emulator("gfx942") as machine:
        out = machine.alloc(4096, name="out")
        for entry, args, match in (
            ("loops", [out, 1], "number of arguments"), ("loops", [out, out, out], "not a pointer"),
            ("loops", [1.5, 1, out], "does not fit"), ("loops", [out, 2**40, out], "does not fit"),
            ("arguments", [b"123", 1, 0.5, 1.0, 1.0, 1, out], "does not fit"),
        ):  # fmt: skip
            with pytest.raises(EmulationError, match=match):
                machine.launch(entry, (1, 1, 1), (64, 1, 1), 0, args)
        with pytest.raises(EmulationError, match="more threads than the kernel allows"):
            machine.launch("ends", (1, 1, 1), (129, 1, 1), 0, [1, out])
        with pytest.raises(EmulationError, match="not three positive sizes"):
            machine.launch("ends", (1, 0, 1), (128, 1, 1), 0, [1, out])
        with pytest.raises(EmulationError, match="not a buffer of this emulator"):
            machine.launch("ends", (1, 1, 1), (128, 1, 1), 0, [1, emulator("gfx942").alloc(4, name="other")])


def test_a_hidden_argument_that_is_not_passed_may_not_be_used():
    text = HEAD + """KERNEL(64) k(int* out) {
  out[tid()] = ((const int*)__builtin_amdgcn_implicitarg_ptr())[20];   // where the host's mailbox is told
}"""
    with pytest.raises(EmulationError, match=r"register \w+ is read, which nothing has written"):
        run("gfx942", "k", (1,), (64,), 0, text=text, out=(np.int32, 64))


@pytest.mark.parametrize(("processes", "target"), covering(itertools.product([1, 2], ALL)))
def test_atomics_are_right_across_processes(target, processes):
    with emulator(target, processes=processes, strip=5) as machine:
        count = machine.alloc(12, name="count", fill=0)
        most = machine.alloc(16, name="most", fill=0)
        total = machine.alloc(256, name="sum", fill=0)
        out = machine.alloc(40 * 256, name="out")
        stats = machine.launch("atomics", (40, 1, 1), (64, 1, 1), 0, [count, most, total, out])
        assert stats.ctas == 40
        counts = machine.read(count, np.uint32, 3)
        assert counts[:2].tolist() == [2560, 7680] and 1 <= counts[2] <= 40
        assert machine.read(most, np.uint64, 2).tolist() == [2559 << 20, 2559 * 1280 + (2560 << 40)]
        assert (machine.read(total, np.float32, 64) == 20).all()
        assert (machine.read(out, np.int32, 2560) == 2016 + 18900000).all()


@pytest.mark.parametrize("target", ALL)
def test_wide_and_strided_accesses_to_lds(target):
    a = np.arange(2 * 1024, dtype=np.float32).reshape(2, 256, 4)
    for schedule in SCHEDULES:
        with emulator(target, schedule=schedule) as machine:
            out, single = machine.alloc(8192, name="out"), machine.alloc(2048, name="single")
            machine.launch("tiles", (2, 1, 1), (256, 1, 1), 0, [machine.upload(a, name="a"), out, single])
            assert (machine.read(out, np.float32, a.shape) == a[:, ::-1]).all()
            i = np.arange(256)
            column = a[:, i ^ 3].transpose(0, 2, 1).reshape(2, 1024)
            assert (machine.read(single, np.float32, (2, 256)) == column[:, i * 4 % 1024] + column[:, 1023 - i] * 2).all()


# ---------------------------------------------------------------- arithmetic, as it is compiled


@pytest.mark.parametrize("target", ALL)
def test_ballots_and_shuffles(target):
    wave = TARGETS[target].wave
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, 256).astype(np.int32)
    got, _ = run(target, "ballots", (1,), (256,), 0, a, 2, out=(np.uint64, (256, 4)))
    for first in range(0, 256, wave):
        here = a[first : first + wave]
        up = sum(1 << i for i in range(wave) if here[i] > 2)
        inside = sum(1 << i for i in range(wave) if here[i] > 0 and here[i] & 1)
        for i in range(wave):
            assert got[first + i].tolist() == [up, inside if here[i] & 1 else 7, up.bit_count(), i]
    x = rng.standard_normal(256).astype(np.float32)
    got, _ = run(target, "shuffles", (1,), (256,), 0, x, out=(np.float32, (256, 6)))
    i = np.arange(256)
    total = x
    for distance in (16, 8, 4, 2, 1):
        total = total + total[i ^ distance]
    assert (got[:, 0] == total).all()
    assert (got[:, 1] == x[i // wave * wave]).all() and (got[:, 2] == x[i // wave * wave + 5]).all()
    assert (got[:, 3] == np.where(i % 16 > 0, x[i - 1], 0)).all()
    assert (got[:, 4] == x[i ^ 1]).all() and (got[:, 5] == x[i ^ 16]).all()


@pytest.mark.parametrize("target", ALL)
def test_bits(target):
    a = np.random.default_rng(1).integers(0, 2**32, 64, np.uint32)
    a[:5] = [0, 1, 0x80000000, 0xFFFFFFFF, 0xDEADBEEF]
    got, _ = run(target, "bits", (1,), (64,), 0, a, out=(np.uint32, (64, 6)))
    for x, row in zip(a.tolist(), got.tolist(), strict=True):
        y, n = x, 0
        while y:
            n = (n + (y & -y).bit_length() * n + 1) % 2**32
            y &= y - 1
        leading = 32 - x.bit_length() if x else 99
        trailing = (x & -x).bit_length() - 1 if x else 99
        fields = (x >> 5 & 63) | (x << 11 & 0xFF000) | (x << x % 32) % 2**32
        assert row == [leading, trailing, x.bit_count(), int(f"{x:032b}"[::-1], 2), n, fields]


@pytest.mark.parametrize("target", ALL)
def test_floats(target):
    special = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-40, 3e38, 1e-20, 5.5, 2.5, -3.5, 1 / 3, 65504, 1e10]
    special = np.array(special, np.float32)
    rng = np.random.default_rng(2)
    x = np.concatenate([special, special, rng.standard_normal(32).astype(np.float32)])
    y = np.concatenate([special, special[::-1], rng.standard_normal(32).astype(np.float32)])
    got, _ = run(target, "floats", (1,), (64,), 0, x, y, out=(np.float32, (64, 8)))
    with np.errstate(all="ignore"):
        flags = (x < y) | (x <= y) << 1 | (x == y) << 2 | (x != y) << 3 | ~(x < y) << 4 | np.isnan(x) << 5 | np.isinf(x) << 6
        flags = flags | np.isfinite(y) << 7 | (np.isnan(x) | np.isnan(y)) << 8
        exponent = (x.view(np.int32) >> 23 & 255) - 127
        half = np.trunc(exponent / 2).astype(int)
        fused = (x.astype(np.longdouble) * y - x).astype(np.float32)
        want = [flags, x / y, fused, np.where(np.isfinite(x) & (np.abs(x) > 3), x, y), x * np.exp2(-half).astype(np.float32),
                ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32), (x.astype(float) * 1.1 + y).astype(np.float32),
                np.floor(x) + np.rint(y)]  # fmt: skip
    for column, expected in enumerate(want):
        assert np.array_equal(got[:, column], np.asarray(expected, np.float32), equal_nan=True), column


@pytest.mark.parametrize("target", ALL)
def test_narrow_words(target):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal(64) * 10.0 ** rng.integers(-4, 3, 64)).astype(np.float32)
    c = rng.integers(-128, 128, 65).astype(np.int8)
    with emulator(target) as machine:
        h, b, s, p, q = (machine.alloc(n, name=name) for name, n in (("h", 256), ("b", 256), ("s", 128), ("p", 256), ("q", 512)))
        args = [machine.upload(x, name="x"), h, b, s, machine.upload(c, name="c"), p, q]
        machine.launch("narrow", (1, 1, 1), (64, 1, 1), 0, args)
        high = x.astype(np.float16)
        low = ((x - high.astype(np.float32)) * np.float32(2048)).astype(np.float16)
        assert (machine.read(h, np.float16, (64, 2)) == np.stack([high, low], 1)).all()
        up = bfloat(x)
        rest = bfloat(x - (up << 16).view(np.float32))
        assert (machine.read(b, np.uint32, 64) == (up | rest << 16)).all()
        assert (machine.read(s, np.int16, 64) == (c[:64].astype(int) * c[1:] + np.trunc(x).astype(int)).astype(np.int16)).all()
        with np.errstate(all="ignore"):
            pair = np.stack([high, (x * np.float32(3)).astype(np.float16)], 1)
            twice = (pair * np.float16(2)).astype(np.float64)
            want = (pair.astype(np.float64) * pair + twice).astype(np.float16)
        assert (machine.read(p, np.float16, (64, 2)) == want).all()
        product = x.astype(np.float64) * (x + np.float32(1)) - c[:64]
        assert (machine.read(q, np.float32, (64, 2)) == product.astype(np.float32)[:, None]).all()


def bfloat(x):
    bits = x.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint32)


@pytest.mark.parametrize("target", ALL)
def test_divisions(target):
    rng = np.random.default_rng(4)
    a, b = rng.integers(-(2**31), 2**31, 64, np.int64).astype(np.int32), rng.integers(0, 2**32, 64, np.uint32)
    a[:8] = [0, 1, -1, 2**31 - 1, -(2**31), 99, -100, 12345]
    b[:8] = [0, 1, 6, 7, 2**32 - 1, 2**31, 999, 1000]
    got, _ = run(target, "divisions", (1,), (64,), 0, a, b, out=(np.int32, (64, 6)))
    for x, y, row in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        quotient = abs(x) // (y % 1000 + 1) * (1 if x >= 0 else -1)
        want = [quotient, y % 7, y // ((x | 1) % 2**32), abs(x) % 100 * (1 if x >= 0 else -1), x * y >> 20, x % 2**32 * y >> 32]
        assert row == [(v + 2**31) % 2**32 - 2**31 for v in want]


@pytest.mark.parametrize("target", ALL)
def test_arrays_in_scratch_memory(target):
    a = np.random.default_rng(6).integers(-(2**20), 2**20, 104).astype(np.int32)
    assert re.search(r"\.private_segment_fixed_size: [1-9]", assembly(SOURCE, target))
    with emulator(target) as machine:
        out = machine.alloc(64 * 160, name="out")
        machine.launch("arrays", (1, 1, 1), (64, 1, 1), 0, [machine.upload(a, name="a"), out, 90])
        got = machine.read(out, np.int32, (64, 40))
    short = lambda x: (x + 2**15) % 2**16 - 2**15  # noqa: E731
    for lane in range(64):
        r = a[lane : lane + 40].tolist()
        s = [short(x * 3) for x in r]
        for j in range(90):
            at = (r[j % 40] & 0xFFFF) % 40
            r[at] += j
            s[at] = short(s[at] ^ short(r[j % 7]))
        assert got[lane].tolist() == [x + y for x, y in zip(r, s, strict=True)]


@pytest.mark.parametrize("word", [1, 3])
def test_a_buffer_other_than_scratch_memory_is_refused(word):
    """Each word of the resource tells one buffer from another."""
    text = assembly(SOURCE, "gfx90a")
    first = re.search(r"\tbuffer_store_dword \w+, \w+, s\[(\d+):\d+\]", text)
    text = text[: first.start()] + f"\ts_mov_b32 s{int(first[1]) + word}, 5\n" + text[first.start() :]
    with emulator("gfx90a", SOURCE, text) as machine:
        arguments = [machine.alloc(4 * 104, name="a", fill=0), machine.alloc(64 * 160, name="out"), 9]
        with pytest.raises(EmulationError, match="another buffer than scratch memory"):
            machine.launch("arrays", (1, 1, 1), (64, 1, 1), 0, arguments)


@pytest.mark.parametrize("target", ALL)
def test_indices_of_64_bits_and_edges(target):
    n, m, lda = 5, 100, 128
    a = np.arange(n * lda, dtype=np.float32)
    with emulator(target) as machine:
        out = machine.alloc(m * lda * 4, name="out")
        machine.launch("indices", (2, 1, 1), (64, 1, 1), 0, [machine.upload(a, name="a"), lda, n, m, out])
        got, written = machine.read_partial(out, np.float32, (m, lda))
    j, r = np.meshgrid(np.arange(n), np.arange(m))
    inside = j + r < n * m
    assert (written[:, :n] == inside).all() and not written[:, n:].any()
    assert (got[:, :n][inside] == (a[j * lda + r] * 2 + r % 7)[inside]).all()


# ---------------------------------------------------------------- faults

STAGED = HEAD + """
KERNEL(256) staged(const float* a, float* out) {
  SHARED float tile[256];
  float x = a[gid() * 256 + tid()], y = a[tid()];
  tile[tid()] = x * 2.f + y;           // the store
  barrier();                           // the barrier
  float z = tile[255 - tid()];
  out[gid() * 256 + tid()] = z + 1.f;  // the end
}
"""
A = np.arange(512, dtype=np.float32)
WANT = (np.arange(512).reshape(2, 256)[:, ::-1] * 2 + np.arange(256)[::-1] + 1).astype(np.float32)


def staged(target, change=lambda text: text, **options):
    """Run it, the assembly changed."""
    edited = change(assembly(STAGED, target))
    return run(target, "staged", (2,), (256,), 0, A, text=STAGED, edited=edited, out=(np.float32, (2, 256)), **options)[0]


def without(pattern, count=1):
    """Removes the first lines that match; there must be one."""

    def change(text):
        lines = text.splitlines()
        found = [i for i, line in enumerate(lines) if re.match(rf"\t(?:{pattern})", line)]
        assert found, pattern
        for i in found[:count]:
            lines[i] = ""
        return "\n".join(lines)

    return change


def replaced(pattern, by, last=False):
    def change(text):
        found = list(re.finditer(pattern, text))
        assert found, pattern
        match = found[-1 if last else 0]
        return text[: match.start()] + match.expand(by) + text[match.end() :]

    return change


LOAD_WAIT = r"s_waitcnt vmcnt|s_wait_loadcnt"
LDS_WAIT = r"s_waitcnt lgkmcnt\(0\)|s_wait_dscnt 0x0"
SCALAR_WAIT = r"s_waitcnt lgkmcnt\(0\)|s_wait_kmcnt 0x0"
BARRIER = r"s_barrier\b|s_barrier_signal|s_barrier_wait"


@pytest.mark.parametrize("target", ALL)
def test_the_staged_kernel_is_right_as_it_is(target):
    for schedule in (*SCHEDULES, TOGETHER):
        assert (staged(target, schedule=schedule) == WANT).all()


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_a_missing_wait_for_a_load_is_found(target, schedule):
    with pytest.raises(EmulationError, match=r"register v\d+ is read while a load into it is in flight") as error:
        staged(target, without(LOAD_WAIT, 9), schedule=schedule)
    assert "global_load" in error.value.got and "kernel.hip:" in error.value.got
    assert re.match(r"s_waitcnt vmcnt\(\d\)$|s_wait_loadcnt \d$", error.value.needs)


@pytest.mark.parametrize("target", ALL)
def test_a_wait_that_covers_too_little_is_found(target):
    one = "s_waitcnt vmcnt(1)" if target != "gfx1201" else "s_wait_loadcnt 0x1"
    loosened = replaced(r"s_waitcnt vmcnt\(0\)|s_wait_loadcnt 0x0", one)
    with pytest.raises(EmulationError, match="in flight") as error:
        staged(target, loosened)
    assert error.value.needs.endswith(("vmcnt(0)", "loadcnt 0"))


@pytest.mark.parametrize("target", ALL)
def test_a_missing_wait_for_arguments_is_found(target):
    with pytest.raises(EmulationError, match=r"register s\d+ is read while a load into it is in flight") as error:
        staged(target, without(SCALAR_WAIT))
    assert error.value.needs in ("s_waitcnt lgkmcnt(0)", "s_wait_kmcnt 0")


@pytest.mark.parametrize("target", ALL)
def test_a_register_may_not_be_overwritten_under_a_load(target):
    clobbered = replaced(r"(\tglobal_load_\w+ (v\d+), .*\n)", r"\1\tv_mov_b32_e32 \2, 0\n", last=True)
    with pytest.raises(EmulationError, match=r"register v\d+ is overwritten while a load into it is in flight"):
        staged(target, clobbered)
    again = replaced(r"(\tglobal_load_\w+ v\d+, .*\n)", r"\1\1", last=True)
    assert (staged(target, again) == WANT).all()  # a later load lands later


@pytest.mark.parametrize("target", ALL)
def test_a_store_has_read_its_registers_when_it_is_issued(target):
    changed = replaced(r"(\tglobal_store_\w+ [^,]+, (v\d+),.*\n)", r"\1\tv_mov_b32_e32 \2, 0\n", last=True)
    changed_local = replaced(r"(\tds_(?:write|store)_b32 v\d+, (v\d+).*\n)", r"\1\tv_mov_b32_e32 \2, 0\n")
    for schedule in SCHEDULES:
        assert (staged(target, changed, schedule=schedule) == WANT).all()
        assert (staged(target, changed_local, schedule=schedule) == WANT).all()


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_a_missing_barrier_is_found(target, schedule):
    with pytest.raises(EmulationError, match="a read of memory that nothing has written"):
        staged(target, without(BARRIER, 2 if target == "gfx1201" else 1), schedule=schedule)


@pytest.mark.parametrize("target", ALL)
def test_a_missing_wait_before_the_barrier_is_found(target):
    """The store to LDS is issued, but may land after the barrier."""
    text = assembly(STAGED, target)
    lines = text.splitlines()
    barrier = next(i for i, line in enumerate(lines) if re.match(rf"\t(?:{BARRIER})", line))
    wait = max(i for i in range(barrier) if re.match(rf"\t(?:{LDS_WAIT})", lines[i]))
    lines[wait] = ""
    edited = "\n".join(lines)
    with pytest.raises(EmulationError, match="a read of memory that nothing has written"):
        staged(target, lambda _: edited, schedule=LAZY_HIGHEST)
    assert (staged(target, lambda _: edited, schedule=EAGER_LOWEST) == WANT).all()  # which is why there are two schedules


@pytest.mark.parametrize("target", ALL)
def test_a_read_that_may_come_after_the_next_barrier_is_found(target):
    """LDS is read without waiting, and overwritten beyond a barrier: late reads see the new value."""
    text = HEAD + """
KERNEL(128) k(int* out) {
  SHARED int tile[128];
  tile[tid()] = tid();
  barrier();
  int x = tile[127 - tid()];
  barrier();
  tile[tid()] = -1;
  out[tid()] = x;
}"""
    good = assembly(text, target)
    parts = re.split(r"(?<=\n)(?=\tds_(?:read|load)_)", good)
    assert len(parts) == 2
    bad = parts[0] + re.sub(rf"\t(?:{LDS_WAIT})\n", "", parts[1], count=1)
    read = re.match(r"\tds_\w+ (v\d+)", parts[1])[1]
    wait = "s_wait_dscnt 0x0" if target == "gfx1201" else "s_waitcnt lgkmcnt(0)"
    bad = re.sub(rf"(\tglobal_store_\w+ v\d+, {read},)", rf"\t{wait}\n\1", bad)
    want = np.arange(128)[::-1]
    assert (run(target, "k", (1,), (128,), 0, text=text, edited=good, out=(np.int32, 128))[0] == want).all()
    got = {s.name: run(target, "k", (1,), (128,), 0, text=text, edited=bad, out=(np.int32, 128), schedule=s)[0] for s in SCHEDULES}
    assert (got[EAGER_LOWEST.name] == want).all()
    assert (got[LAZY_HIGHEST.name] != want).any()


@pytest.mark.parametrize("target", ALL)
def test_accesses_out_of_bounds_are_found(target):
    far = replaced(r"(\tglobal_store_\w+ [^,]+, v\d+, [^\n;]*)", r"\1 offset:4", last=True)
    with pytest.raises(EmulationError, match="a write of 4 bytes reaches outside its buffer") as error:
        staged(target, far)
    assert "buffer `out` + 2048 of 2048 bytes" in error.value.got
    assert error.value.where.startswith(f"kernel.hip:{line_of(STAGED, 'the end')} (entry staged")
    assert "out[gid() * 256 + tid()] = z + 1.f;" in error.value.has
    with pytest.raises(EmulationError, match="reaches outside LDS"):
        staged(target, replaced(r"(\tds_(?:write|store)_b32 v\d+, v\d+[^\n;]*)", r"\1 offset:64"))
    with pytest.raises(EmulationError, match="a read of 4 bytes reaches outside its buffer"):
        staged(target, replaced(r"(\tglobal_load_\w+ v\d+, [^\n;]*)", r"\1 offset:-4"))


@pytest.mark.parametrize("target", ALL)
def test_a_register_that_nothing_wrote_is_found(target):
    with pytest.raises(EmulationError, match="register v100 is read, which nothing has written") as error:
        staged(target, replaced(r"(\tv_add_f32_e32 v\d+, 1.0, )v\d+", r"\1v100"))
    assert error.value.where.startswith(f"kernel.hip:{line_of(STAGED, 'the end')} (entry staged")
    with pytest.raises(EmulationError, match="is read, part of which nothing has written") as error:
        staged(target, replaced(r"(\tv_lshl_or_b32 v\d+, )(?:s\d+|ttmp9)", r"\1s60"))
    assert error.value.got == "bits that came from register s60"


def test_stores_that_land_late_do_not_overtake_the_wave_s_own_accesses():
    """A wave sees its own stores, and what it read before them, whatever it waited for."""
    text = HEAD + """
KERNEL(64) k(volatile int* a, int* out) {
  a[tid()] = 7;
  int x = a[tid()];
  a[tid()] = 9;
  out[tid()] = x;
}"""
    for target in ALL:
        edited = re.sub(r"\ts_waitcnt_vscnt null, 0x0.*\n|\ts_wait_storecnt 0x0.*\n", "", assembly(text, target))
        if target in CDNA:  # the loads' waits cover the stores too
            edited = assembly(text, target)
        for schedule in SCHEDULES:
            options = {"text": text, "edited": edited, "schedule": schedule}
            got, _ = run(target, "k", (1,), (64,), 0, np.zeros(64, np.int32), out=(np.int32, 64), **options)
            assert (got == 7).all()


# ---------------------------------------------------------------- barriers


@pytest.mark.parametrize("target", ALL)
def test_waves_that_miss_a_barrier_are_found(target):
    text = HEAD + """
KERNEL(128) k(int* out, int n) {
  SHARED int tile[128];
  tile[tid()] = 1;
  barrier();
  if (__builtin_amdgcn_readfirstlane(tid()) < n) {
    tile[tid()] += 1;
    barrier();                             // only some waves
    out[tid()] = tile[n - 1 - tid()];
  } else
    out[tid()] = 0;
}"""
    line = line_of(text, "only some waves")
    with pytest.raises(EmulationError, match="waves wait at a barrier that others never reach") as error:
        run_k(target, text, 64)
    assert error.value.where.startswith("kernel.hip:")
    assert f"inlined at line {line}" in error.value.where + error.value.got and "has ended" in error.value.got
    assert run_k(target, text, 128).tolist() == [2] * 128


def run_k(target, text, n):
    with emulator(target, text) as machine:
        out = machine.alloc(512, name="out")
        machine.launch("k", (1, 1, 1), (128, 1, 1), 0, [out, n])
        return machine.read(out, np.int32, 128)


def test_waves_that_meet_at_different_barriers_are_found():
    text = HEAD + """
KERNEL(128) k(int* out, int n) {
  SHARED int tile[128];
  if (__builtin_amdgcn_readfirstlane(tid()) < n) {
    tile[tid()] = 1;
    barrier();
    out[tid()] = tile[0];
  } else {
    tile[tid()] = 2;
    barrier();
    out[tid()] = tile[127];
  }
}"""
    # which of the source's lines each barrier is of is told by the inlined helper's callers
    with pytest.raises(EmulationError, match="meet at different barriers"):
        run_k("gfx942", text, 64)


def test_a_barrier_is_signalled_once_before_it_is_waited_for():
    text = assembly(STAGED, "gfx1201")
    with pytest.raises(EmulationError, match="signals a barrier twice"):
        staged("gfx1201", lambda _: text.replace("\ts_barrier_signal -1\n", "\ts_barrier_signal -1\n\ts_barrier_signal -1\n"))
    with pytest.raises(EmulationError, match="waits at a barrier that it has not signalled"):
        staged("gfx1201", without("s_barrier_signal"))


# ---------------------------------------------------------------- what is not supported


def test_an_unknown_instruction_is_refused_when_the_text_is_read():
    text = assembly(STAGED, "gfx942")
    added = text.replace("\ts_barrier\n", "\ts_barrier\n\tv_frobnicate_b32 v0, v1\n")
    number = added[: added.index("\tv_frobnicate")].count("\n") + 1
    with pytest.raises(EmulationError, match="instruction is not supported") as error:
        emulator("gfx942", STAGED, added)
    assert error.value.got == "v_frobnicate_b32 v0, v1"
    assert error.value.where.startswith("kernel.hip:") and f"line {number} of the assembly" in error.value.has


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("\ts_barrier\n", "\ts_barrier\n\tv_add_u32_e32 v0, v1, v2 wobble\n", "modifier is not supported: wobble"),
        ("\ts_barrier\n", "\ts_barrier\n\tv_add_u32_e32 v0, v1\n", "instruction has 2 operands"),
        ("\ts_barrier\n", "\ts_barrier\n\tv_add_u32_e32 v0, v[1:2], v3\n", "is not 4 bytes wide"),
        ("\ts_barrier\n", "\ts_barrier\n\tv_mfma_f32_16x16x16_f16 v[0:3], v[4:5], v[6:7], v[0:3] cbsz:1\n", "cbsz other than 0"),
        ("\ts_barrier\n", "\ts_barrier\n\ts_branch .LBB9_9\n", "a label that is not there"),
        ("\ts_barrier\n", "\ts_barrier\n\ts_swappc_b64 s[30:31], s[16:17]\n", "instruction is not supported"),
        (".amdhsa_float_round_mode_32 0", ".amdhsa_float_round_mode_32 3", "rounding mode of FP32 is not to nearest"),
        (".amdhsa_uses_dynamic_stack 0", ".amdhsa_uses_dynamic_stack 1", "a stack of unknown size"),
        ("amdgcn-amd-amdhsa--gfx942", "amdgcn-amd-amdhsa--gfx906", "unknown target"),
        (".amdgcn_target", ".other_target", "cannot be read as AMDGPU assembly"),
        (".amdhsa_kernel staged", ".amdhsa_kernel other", "a kernel that has no code"),
    ],
)  # fmt: skip
def test_what_is_refused(old, new, match):
    text = assembly(STAGED, "gfx942")
    assert old in text
    with pytest.raises(Exception, match=match) as error:
        emulator("gfx942", STAGED, text.replace(old, new, 1))
    assert type(error.value).__name__ in ("EmulationError", "UnknownName")


def test_a_closed_emulator_is_of_no_use():
    machine = emulator("gfx942", STAGED)
    machine.close()
    with pytest.raises(EmulationError, match="it has been closed") as error:
        machine.alloc(4, name="x")
    assert error.value.remedy == "make a new AmdEmulator"
