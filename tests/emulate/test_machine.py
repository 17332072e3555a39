"""The emulated machine on compiled kernels: control flow, memory, races, faults,
bank conflicts, and a split GEMM down to the bits."""

import multiprocessing
import os
import signal
import time
from functools import cache

import numpy as np
import pytest

import assembled
from awkward import assert_rolled, launched, line_of, sums_of_uneven_loops
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, SCHEDULES, TOGETHER, Emulator
from gemmgen.emulate.core import strips, units
from gemmgen.errors import EmulationError

KERNEL = 'extern "C" __global__ void __launch_bounds__(1024) k'
UNIT_OF = {"sm_80": "ampere", "sm_90": "hopper", "sm_120": "blackwell"}


@cache
def ptx_of(text, arch="sm_80"):
    return assembled.ptx_of(text, arch)


def emulator(text, arch="sm_80", **options):
    return Emulator(
        ptx_of(text, arch), UNITS.get(UNIT_OF[arch]), source=text, source_name="kernel.cu", **options
    )


def run(text, grid, block, shared, *args, out=None, arch="sm_80", **options):
    with emulator(text, arch, **options) as machine:
        return launched(machine, "k", grid, block, shared, args, out)


def fails(text, part, match, *args, **options):
    """Running it is an error whose place is the line with `part`."""
    with pytest.raises(EmulationError, match=match) as error:
        run(text, *args, **options)
    assert error.value.where.startswith(f"kernel.cu:{line_of(text, part)} (entry k"), error.value
    return error.value


# ---------------------------------------------------------------- control flow


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
@pytest.mark.parametrize("arch", sorted(UNIT_OF))
def test_loops_of_different_length_in_each_lane_and_cta(arch, schedule):
    text = KERNEL + """(const int* a, int n, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
  for (int j = 0; j < i % 7 + blockIdx.x; ++j) {
    if ((i + j) & 1) sum += a[j]; else sum -= 2 * j;
    if (sum > 1000) break;
  }
  if (i < n) out[i] = sum; else out[i] = -1;
}"""
    a = np.arange(100, dtype=np.int32) * 3
    got, _ = run(text, (5,), (96,), 0, a, 400, out=(np.int32, 480), arch=arch, schedule=schedule)
    assert got.tolist() == sums_of_uneven_loops(a)


def test_lanes_and_warps_that_end_early():
    text = KERNEL + """(int n, int* out) {
  __shared__ int tile[128];
  int i = threadIdx.x;
  out[blockIdx.x * 128 + i] = -1;
  if (i >= 96) return;                   // a whole warp, before the first barrier
  tile[i] = i * blockIdx.x;
  __syncthreads();
  int x = tile[95 - i];
  if (i % 32 > 20) return;               // parts of warps, after the last one
  out[blockIdx.x * 128 + i] = x + n;
}"""
    for schedule in SCHEDULES:
        got, _ = run(text, (3,), (128,), 0, 7, out=(np.int32, (3, 128)), schedule=schedule)
        for cta in range(3):
            for i in range(128):
                ended = i >= 96 or i % 32 > 20
                assert got[cta, i] == (-1 if ended else (95 - i) * cta + 7)


def test_barriers_in_a_loop_whose_length_differs_by_cta():
    text = KERNEL + """(int* out) {
  __shared__ int tile[64];
  int i = threadIdx.x;
  tile[i] = i;
  for (int step = 0; step < (int)blockIdx.x * 2 + 1; ++step) {
    __syncthreads();
    int x = tile[(i + 1) % 64];
    __syncthreads();
    tile[i] = x + step;
  }
  __syncthreads();
  out[blockIdx.x * 64 + i] = tile[63 - i];
}"""
    for schedule in SCHEDULES:
        got, _ = run(text, (4,), (64,), 0, out=(np.int32, (4, 64)), schedule=schedule)
        assert_rolled(got)


def test_partial_warps_and_blocks_of_three_dimensions():
    text = KERNEL + """(int* out) {
  int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  out[b * blockDim.x * blockDim.y * blockDim.z + t] = b * 1000 + threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z;
}"""
    got, stats = run(text, (2, 3, 2), (5, 4, 2), 0, out=(np.int32, (12, 2, 4, 5)))
    z, y, x = np.indices((2, 4, 5))
    assert (got == np.arange(12)[:, None, None, None] * 1000 + x + 10 * y + 100 * z).all()
    assert stats.ctas == 12


def test_a_loop_that_waits_for_another_warp_is_given_up(monkeypatch):
    monkeypatch.setattr("gemmgen.emulate.ptx.warp._PATIENCE", 2000)
    text = KERNEL + """(volatile int* flag) {
  while (flag[0] == 0) {}
}"""
    fails(text, "while", "runs on and on", (1,), (32,), 0, np.zeros(1, np.int32))


# ---------------------------------------------------------------- warps together


def test_shuffles_votes_and_reductions():
    text = KERNEL + """(const float* a, float* out) {
  int i = threadIdx.x;
  float x = a[blockIdx.x * 32 + i], sum = x;
  for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
  float up = __shfl_up_sync(~0u, x, 3), down = __shfl_down_sync(~0u, x, 5, 16);
  float first = __shfl_sync(~0u, x, 2, 8);
  unsigned ballot = __ballot_sync(~0u, x > 0);
  float half = 0;
  if (i < 16) half = __shfl_sync(0xffffu, x, 15 - i);
  float row[7] = {sum, up, down, first, (float)__popc(ballot), half, (float)__any_sync(~0u, x > 2)};
  for (int j = 0; j < 7; ++j) out[(blockIdx.x * 32 + i) * 7 + j] = row[j];
}"""
    a = np.random.default_rng(0).standard_normal((3, 32)).astype(np.float32)
    got, _ = run(text, (3,), (32,), 0, a, out=(np.float32, (3, 32, 7)))
    lane = np.arange(32)
    total = a
    for distance in (16, 8, 4, 2, 1):
        total = total + total[:, lane ^ distance]
    assert (got[..., 0] == total).all()
    assert (got[..., 1] == a[:, np.where(lane >= 3, lane - 3, lane)]).all()
    assert (got[..., 2] == a[:, np.where(lane % 16 < 11, lane + 5, lane)]).all()
    assert (got[..., 3] == a[:, lane // 8 * 8 + 2]).all()
    assert (got[..., 4] == (a > 0).sum(1)[:, None]).all()
    assert (got[..., 5] == np.where(lane < 16, a[:, np.where(lane < 16, 15 - lane, 0)], 0)).all()
    assert (got[..., 6] == (a > 2).any(1)[:, None]).all()


def test_a_shuffle_some_lanes_miss_is_an_error():
    text = KERNEL + """(int* out) {
  int x = threadIdx.x;
  if (x < 20)
    x = __shfl_xor_sync(0xffffffffu, x, 1);   // not all of them come
  out[threadIdx.x] = x;
}"""
    fails(text, "not all of them", "do not reach it", (1,), (32,), 0, out=(np.int32, 32))


# ---------------------------------------------------------------- memory


def test_atomics_are_right_across_processes():
    text = KERNEL + """(unsigned* count, unsigned long long* most, float* sum, int* out) {
  __shared__ int local;
  if (threadIdx.x == 0) local = 0;
  __syncthreads();
  atomicAdd(&local, threadIdx.x);
  unsigned ticket = atomicAdd(count, 1u);
  atomicMax(most, (unsigned long long)ticket << 20);
  atomicAdd(sum + threadIdx.x, 0.5f);
  atomicInc(count + 1, 9u);
  int old = atomicCAS((int*)count + 2, 0, 1 + (int)blockIdx.x);
  __syncthreads();
  out[blockIdx.x * 64 + threadIdx.x] = local;
  if (old == 0 && ticket == 0xffffffffu) out[0] = 0;
}"""
    for processes in (1, 2):
        with emulator(text, processes=processes, strip=5) as machine:
            count = machine.alloc(12, name="count", fill=0)
            most = machine.alloc(8, name="most", fill=0)
            total = machine.alloc(256, name="sum", fill=0)
            out = machine.alloc(40 * 256, name="out")
            stats = machine.launch("k", (40, 1, 1), (64, 1, 1), 0, [count, most, total, out])
            assert stats.ctas == 40
            counts = machine.read(count, np.uint32, 3)
            assert counts[:2].tolist() == [2560, 2560 % 10] and 1 <= counts[2] <= 40
            assert machine.read(most, np.uint64, 1)[0] == 2559 << 20
            assert (machine.read(total, np.float32, 64) == 20).all()
            assert (machine.read(out, np.int32, 2560) == 2016).all()


def test_widths_constants_and_local_conversions():
    text = """__constant__ short table[4] = {-7, 8, 300, 4};
__device__ int counter = 5;
extern "C" __global__ void k(const unsigned char* a, const double* d, short s, double* out) {
  int i = threadIdx.x;
  uchar4 q = ((const uchar4*)a)[i];
  double x = d[i] * s + table[i & 3] + counter;
  ((double2*)out)[i] = make_double2(x + (signed char)q.w, q.x + 256 * q.y + (double)(long long)x / 3);
}"""
    a = np.arange(128, dtype=np.uint8) * 2
    d = np.linspace(-3, 9, 32)
    got, _ = run(text, (1,), (32,), 0, a, d, -3, out=(np.float64, (32, 2)))
    q = a.reshape(32, 4).astype(np.float64)
    x = d * -3 + np.array([-7, 8, 300, 4])[np.arange(32) & 3] + 5
    assert np.allclose(got[:, 0], x + a.reshape(32, 4)[:, 3].astype(np.int8), rtol=1e-15)
    assert np.allclose(got[:, 1], q[:, 0] + 256 * q[:, 1] + np.trunc(x) / 3, rtol=1e-15)


def test_generic_pointers_reach_both_memories():
    text = KERNEL + """(const int* a, int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 100 + threadIdx.x;
  __syncthreads();
  const int* p = threadIdx.x & 1 ? tile : a;
  int x;
  asm volatile("ld.s32 %0, [%1];" : "=r"(x) : "l"(p + threadIdx.x));
  out[threadIdx.x] = x;
}"""
    a = np.arange(32, dtype=np.int32)
    got, _ = run(text, (1,), (32,), 0, a, out=(np.int32, 32))
    assert got.tolist() == [100 + i if i & 1 else i for i in range(32)]


def test_misaligned_buffers_and_partial_results():
    text = KERNEL + "(const float* a, float* out) { if (threadIdx.x % 2) out[threadIdx.x] = a[threadIdx.x]; }"
    with emulator(text) as machine:
        a = machine.upload(np.arange(32, dtype=np.float32), name="a", offset=4)
        assert a.address % 256 == 4
        out = machine.alloc(128, name="out")
        machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [a, out])
        with pytest.raises(EmulationError, match="did not write all of it") as error:
            machine.read(out, np.float32, 32)
        assert "(0,)" in error.value.got and "16 of 32" in error.value.got
        values, written = machine.read_partial(out, np.float32, 32)
        assert written.tolist() == [bool(i % 2) for i in range(32)]
        assert (values[written] == np.arange(1, 32, 2)).all()


def test_memory_can_grow_between_launches():
    text = KERNEL + "(const float* a, float* out) { out[threadIdx.x] = 2 * a[threadIdx.x]; }"
    with emulator(text) as machine:
        buffer = machine.upload(np.ones(32, np.float32), name="a")
        for size in (1 << 10, 1 << 22, 1 << 25):
            out = machine.alloc(size, name=f"out{size}")
            machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [buffer, out])
            buffer = out
        assert (machine.read(buffer, np.float32, 32) == 8).all()


COUNTED = """__device__ int counter = 5;
extern "C" __global__ void k(const int* a, int* out) {
  if (threadIdx.x == 0) atomicAdd(&counter, a[0]);
  __syncthreads();
  if (threadIdx.x < 31) out[threadIdx.x] = counter;
  if (a[0] == 9) out[31] += 1;         // nobody has been there
}"""


def test_forgetting_leaves_a_module_as_newly_made():
    """No buffer, content, variable or count of one use is seen in the next."""
    def use(machine, number):
        a = machine.upload(np.full(1, number, np.int32), name="a")
        out = machine.alloc(128, name="out")
        stats = [machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [a, out])]
        values, written = machine.read_partial(out, np.int32, 32)
        return a, out, stats, values[:31].tolist(), written.tolist()

    with emulator(COUNTED) as machine:
        first = use(machine, 2)
        programs = machine.programs
        again = use(machine, 2)
        assert first[3] == [7] * 31 and again[3] == [9] * 31
        for schedule in (*SCHEDULES, LAZY_HIGHEST):
            machine.forget()
            with pytest.raises(EmulationError, match="not a buffer of this emulator"):
                machine.read(again[1], np.int32, 32)
            machine.schedule = schedule
            assert use(machine, 2) == first
        assert machine.programs is programs
        machine.forget()
        with pytest.raises(EmulationError) as error:
            use(machine, 9)
        machine.forget()
        assert use(machine, 2) == first
    with emulator(COUNTED) as fresh, pytest.raises(EmulationError) as same:
        use(fresh, 9)
    assert str(error.value) == str(same.value) and "nothing has written" in str(same.value)
    with pytest.raises(EmulationError, match="closed"):
        fresh.forget()


LOCAL = """extern "C" __global__ void __launch_bounds__(1024) before(const int* a, int* out) {
  int mine[4];
  for (int j = 0; j < 4; ++j) mine[j] = a[j];
  out[threadIdx.x] = mine[a[threadIdx.x] & 3];
}
""" + KERNEL + """(const int* a, int* out) {
  int mine[8], other[8];
  for (int j = 0; j < 8; ++j) { mine[j] = 1000 * threadIdx.x + a[j]; other[j] = -a[j]; }
  int i = threadIdx.x;
  mine[a[i] & 7] += 5;
  out[2 * i] = mine[a[i] & 7];
  const int* p = i & 1 ? other : mine;
  asm volatile("" : "+l"(p));            // of which the compiler knows nothing
  out[2 * i + 1] = p[a[i] & 7];
}"""


@pytest.mark.parametrize("schedule", [*SCHEDULES, TOGETHER], ids=lambda s: s.name)
def test_arrays_that_are_indexed_at_run_time_are_each_threads_own(schedule):
    """Each entry has a local memory; the second one's is called `__local_depot1`."""
    assert "__local_depot0" in ptx_of(LOCAL) and "__local_depot1" in ptx_of(LOCAL) and "cvta.local" in ptx_of(LOCAL)
    a = np.random.default_rng(0).integers(0, 8, 96, dtype=np.int32)
    got, _ = run(LOCAL, (2,), (96,), 0, a, out=(np.int32, (96, 2)), schedule=schedule)
    i = np.arange(96)
    raised = 1000 * i + a[a] + 5
    assert (got == np.stack([raised, np.where(i % 2, -a[a], raised)], 1)).all()


def test_local_memory_has_its_bounds_and_nothing_in_it():
    text = KERNEL + """(const int* a, int* out) {
  int mine[8];
  mine[a[0] & 7] = 1;
  out[threadIdx.x] = mine[a[threadIdx.x]];  // the access
}"""
    assert "ld.local" in ptx_of(text)
    for index, problem in ((5, "memory that nothing has written"), (8, "reaches outside local memory"), (-1, "reaches outside local memory")):
        a = np.full(32, 3, np.int32)
        a[9] = index
        error = fails(text, "the access", problem, (1,), (32,), 0, a, out=(np.int32, 32))
        assert error.got == f"local memory + {4 * index} of 32 bytes" and "thread (9, 0, 0)" in str(error)


# ---------------------------------------------------------------- faults

SCALE = KERNEL + """(const float* a, int n, float* out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (i < n)
    out[i] = a[i] * 2;                 // the access
}"""


def test_one_element_too_many_is_found_and_named():
    error = fails(SCALE, "the access", "a read of 4 bytes reaches outside its buffer", (3,), (32,), 0,
                  np.ones(70, np.float32), 71, out=(np.float32, 71))  # fmt: skip
    assert error.got == "buffer `arg0` + 280 of 280 bytes"
    assert "in CTA (2, 0, 0), thread (6, 0, 0)" in error.problem
    assert "ld.global" in error.has and "out[i] = a[i] * 2;" in error.has
    error = fails(SCALE, "the access", "a write of 4 bytes", (3,), (32,), 0,
                  np.ones(71, np.float32), 71, out=(np.float32, 70))  # fmt: skip
    assert error.got == "buffer `out` + 280 of 280 bytes"


def test_a_null_pointer_is_named():
    error = fails(SCALE, "the access", "outside", (1,), (32,), 0, None, 3, out=(np.float32, 70))
    assert "null pointer" in error.got


def test_memory_nothing_has_written_is_not_read():
    text = KERNEL + """(float* out) {
  out[threadIdx.x + 32] += 1;          // nobody has been there
}"""
    error = fails(text, "nobody", "nothing has written", (1,), (32,), 0, out=(np.float32, 64))
    assert error.got == "buffer `out` + 128 of 256 bytes"
    text = KERNEL + """(float* out) {
  extern __shared__ float tile[];
  if (threadIdx.x) tile[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];  // tile[0] is missing
}"""
    error = fails(text, "is missing", "nothing has written", (1,), (32,), 128, out=(np.float32, 32))
    assert error.got == "shared memory + 0 of 128 bytes"
    error = fails(text, "if (threadIdx.x)", "outside shared memory", (1,), (64,), 252, out=(np.float32, 64))
    assert "thread (63, 0, 0)" in error.problem  # although thread 0 takes no part


def test_a_misaligned_vector_access_is_refused():
    text = KERNEL + """(const float* a, float* out) {
  float4 x = *(const float4*)(a + threadIdx.x * 4);   // four at once
  out[threadIdx.x] = x.x + x.w;
}"""
    with emulator(text) as machine:
        a = machine.upload(np.ones(128, np.float32), name="a", offset=4)
        out = machine.alloc(128, name="out")
        with pytest.raises(EmulationError, match="access of 16 bytes is not aligned") as error:
            machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [a, out])
    assert error.value.where == f"kernel.cu:{line_of(text, 'four at once')} (entry k)"
    assert "multiple of 16" in error.value.needs


def test_barriers_in_divergent_code_are_refused():
    text = KERNEL + """(int* out) {
  if (threadIdx.x & 1)
    __syncthreads();                   // the odd ones only
  out[threadIdx.x] = 1;
}"""
    fails(text, "odd ones only", "barrier in divergent code", (2,), (64,), 0, out=(np.int32, 64))
    text = KERNEL + """(int* out) {
  if (threadIdx.x < 32) __syncthreads();  // the first warp only
  out[threadIdx.x] = 1;
}"""
    text = KERNEL + """(int* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x < 40) {
    __syncthreads();                   // one
    out[threadIdx.x] = 2;
  } else {
    __syncthreads();                   // two
    out[threadIdx.x] = 3;
  }
}"""
    with pytest.raises(EmulationError, match="divergent|different barriers"):
        run(text, (1,), (64,), 0, out=(np.int32, 64))


def test_warps_that_meet_at_different_barriers_are_refused():
    text = KERNEL + """(volatile int* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1;");       // warp 0
    out[threadIdx.x] = 2;
  } else {
    asm volatile("bar.sync 2;");       // warp 1
    out[threadIdx.x] = 3;
  }
}"""
    error = fails(text, "// warp 0", "others never reach", (1,), (64,), 0, out=(np.int32, 64))
    assert "warp 1 waits at kernel.cu" in error.got


def test_named_barriers_for_some_of_the_warps():
    text = KERNEL + """(int* out) {
  __shared__ int tile[128];
  int i = threadIdx.x, half = i / 64;
  tile[i] = i;
  if (half) asm volatile("bar.sync 1, 64;" ::: "memory"); else asm volatile("bar.sync 2, 64;" ::: "memory");
  out[i] = tile[half * 64 + 63 - i % 64];
}"""
    for schedule in SCHEDULES:
        got, _ = run(text, (2,), (128,), 0, out=(np.int32, 128), schedule=schedule)
        assert got.tolist() == [i // 64 * 64 + 63 - i % 64 for i in range(128)]


def test_a_trap_and_a_division_by_zero_are_errors():
    text = KERNEL + """(const int* a, int* out) {
  if (a[threadIdx.x] == 5)
    __trap();                          // five
  out[threadIdx.x] = 100 / a[threadIdx.x];
}"""
    error = fails(text, "// five", "trap", (1,), (32,), 0, np.arange(32, dtype=np.int32), out=(np.int32, 32))
    assert "thread (5, 0, 0)" in error.problem
    fails(text, "100 /", "divided by zero", (1,), (5,), 0, np.arange(32, dtype=np.int32), out=(np.int32, 32))


def test_launches_that_do_not_fit_the_kernel():
    text = KERNEL.replace("1024", "128") + "(const float* a, int n, float x) { }"
    with emulator(text) as machine:
        a = machine.upload(np.ones(4, np.float32), name="a")
        launch = lambda *args, block=(32, 1, 1): machine.launch("k", (1, 1, 1), block, 0, args)  # noqa: E731
        launch(a, 3, 1.5)
        for wrong in [(a, 3), (a, 3.0, 1.5), (a, 3, 1), (3.5, 3, 1.0), (a, 1 << 32, 1.0), (a, a, 1.0), (a, True, 1.0)]:
            with pytest.raises(EmulationError, match="argument"):
                launch(*wrong)
        with pytest.raises(EmulationError, match="more threads"):
            launch(a, 3, 1.5, block=(256, 1, 1))
        with pytest.raises(Exception, match="unknown entry"):
            machine.launch("j", (1, 1, 1), (32, 1, 1), 0, [])
        for what, grid, block in (("grid", (1, 0, 1), (32, 1, 1)), ("grid", (1, 1), (32, 1, 1)), ("block", (1, 1, 1), (32, 1, -1))):
            with pytest.raises(EmulationError, match=f"the {what} is not three positive sizes") as error:
                machine.launch("k", grid, block, 0, [a, 3, 1.5])
            assert error.value.where == "entry k"
    with pytest.raises(EmulationError, match="closed"):
        machine.alloc(4, name="late")


# ---------------------------------------------------------------- processes


def test_an_error_in_a_worker_is_the_same_error():
    n = 32 * 100
    arguments = ((100,), (32,), 0, np.ones(n - 1, np.float32), n)
    errors = [
        fails(SCALE, "the access", "outside", *arguments, out=(np.float32, n), processes=processes, strip=10)
        for processes in (1, 2)
    ]
    assert str(errors[0]) == str(errors[1])
    assert not multiprocessing.active_children()


def test_interrupting_leaves_no_worker_behind():
    """Which would go on for hours."""
    text = KERNEL + """(int n, int* out) {
  int x = threadIdx.x;
  for (int i = 0; i < n; ++i) { x = x * 1664525 + 1013904223; if (x == 77) __syncthreads(); }
  out[blockIdx.x * 32 + threadIdx.x] = x;
}"""
    def interrupt(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        limit = signal.setitimer(signal.ITIMER_REAL, 0.7, 5)  # again, since one that comes while Python forks is lost
        with pytest.raises(KeyboardInterrupt):
            run(text, (64,), (32,), 0, 1 << 30, out=(np.int32, 2048), processes=2)
    finally:
        signal.signal(signal.SIGALRM, previous)
        signal.setitimer(signal.ITIMER_REAL, *limit)  # the test's own, which the same signal tells
    assert not multiprocessing.active_children()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("held", [False, True], ids=["with nothing", "with a lock"])
@pytest.mark.parametrize("first", [False, True], ids=["at any time", "before it is waited for"])
def test_a_worker_that_dies_is_noticed(monkeypatch, held, first):
    """Where it held a lock, the other worker would wait for ever."""
    collect = strips._Workers._collect

    def later(workers, *given):
        while first and not any(process.exitcode for process in workers.processes):
            time.sleep(0.01)
        collect(workers, *given)

    monkeypatch.setattr(strips._Workers, "_collect", later)
    lock = multiprocessing.get_context("fork").Lock()

    def dies(strip):
        assert not held or lock.acquire()
        os._exit(9)

    monkeypatch.setattr("gemmgen.emulate.ptx.strip.Strip.run", dies)
    with pytest.raises(EmulationError, match="worker process ended"):
        run(SCALE, (64,), (32,), 0, np.ones(9, np.float32), 9, out=(np.float32, 9), processes=2)


def test_progress_counts_every_cta():
    for processes in (1, 2):
        seen = []
        with emulator(SCALE, processes=processes, strip=9) as machine:
            a, out = machine.upload(np.ones(1280, np.float32), name="a"), machine.alloc(5120, name="out")
            machine.launch("k", (40, 1, 1), (32, 1, 1), 0, [a, 1280, out], progress=lambda *x: seen.append(x))
        assert seen[-1] == (40, 40) and [done for done, _ in seen] == sorted(done for done, _ in seen)


# ---------------------------------------------------------------- bank conflicts

PITCH = KERNEL + """(float* out) {
  __shared__ float tile[32 * PITCH];
  for (int i = threadIdx.x; i < 32 * PITCH; i += 32) tile[i] = i;
  __syncthreads();
  float sum = 0;
  for (int c = 0; c < 32; ++c)
    sum += tile[threadIdx.x * PITCH + c];   // a column at a time
  out[threadIdx.x] = sum;
}"""


@pytest.mark.parametrize(("pitch", "extra"), [(32, 31), (33, 0), (34, 1), (36, 3)])
def test_conflicts_of_columns(pitch, extra):
    text = PITCH.replace("PITCH", str(pitch))
    _, stats = run(text, (2,), (32,), 0, out=(np.float32, 32))
    assert stats.bank_conflicts == 2 * 32 * extra
    place = f"kernel.cu:{line_of(text, 'a column at a time')}"
    assert stats.conflict_sites == ({place: 2 * 32 * extra} if extra else {})


@pytest.mark.parametrize("schedule", [*SCHEDULES, TOGETHER], ids=lambda s: s.name)
@pytest.mark.parametrize(("power", "by_warp", "by_cta"), [("warp", 1, 0), ("blockIdx.x", 0, 1), ("warp + blockIdx.x", 1, 1)])
def test_conflicts_of_warps_and_ctas_that_differ(power, by_warp, by_cta, schedule):
    """A stride of 2^p words makes 2^p wavefronts of one; CTA 4 has no part in it."""
    text = KERNEL + """(float* out) {
  __shared__ float tile[32 * 64];
  for (int i = threadIdx.x; i < 32 * 64; i += 96) tile[i] = i;
  __syncthreads();
  int warp = threadIdx.x / 32;
  out[blockIdx.x * 96 + threadIdx.x] = 0;
  if (blockIdx.x < 4)
    out[blockIdx.x * 96 + threadIdx.x] = tile[threadIdx.x % 32 << (POWER)];   // strided
}""".replace("POWER", power)
    got, stats = run(text, (5,), (96,), 0, out=(np.float32, (5, 3, 32)), schedule=schedule, processes=1)
    powers = by_cta * np.arange(4)[:, None] + by_warp * np.arange(3)
    assert (got[:4] == np.arange(32) << powers[..., None]).all() and (got[4] == 0).all()
    assert stats.bank_conflicts == (2**powers - 1).sum()


LDMATRIX = KERNEL + """(unsigned* out) {
  __shared__ __align__(128) unsigned tile[32 * 16];
  for (int i = threadIdx.x; i < 32 * 16; i += 32) tile[i] = i;
  __syncthreads();
  int lane = threadIdx.x, row = lane & 15, chunk = lane >> 4;
  unsigned at = (unsigned)__cvta_generic_to_shared(tile) + row * 64 + SWIZZLE * 16, a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at));
  out[lane] = a; out[lane + 32] = b; out[lane + 64] = c; out[lane + 96] = d;
}"""


@pytest.mark.parametrize(("swizzle", "extra"), [("chunk", 4 * 3), ("(chunk ^ ((row >> 1) & 3))", 0)])
def test_conflicts_of_ldmatrix_with_rows_of_64_bytes(swizzle, extra):
    """Eight rows 64 bytes apart fall on two groups of banks, four deep; the usual
    exclusive-or of chunk and row spreads them."""
    text = LDMATRIX.replace("SWIZZLE", swizzle)
    got, stats = run(text, (1,), (32,), 0, out=(np.uint32, (4, 8, 4)))
    assert stats.bank_conflicts == extra
    for matrix in range(4):
        for g in range(8):
            row, chunk = (matrix & 1) * 8 + g, matrix >> 1
            column = chunk ^ ((row >> 1) & 3) if extra == 0 else chunk
            assert got[matrix, g].tolist() == [row * 16 + column * 4 + t for t in range(4)]


# ---------------------------------------------------------------- a split GEMM

GEMM = """
#define BM 32
#define BN 32
#define BK 32
#define STAGES 3
#define PITCH_A 40
#define PITCH_B 40
typedef unsigned u32;
typedef unsigned short u16;
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void product(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
struct Stage { u16 a[2][BM * PITCH_A], b[2][BK * PITCH_B]; };

// A: two planes [2, M, K]; B: two planes [2, K, N]; four warps of 16 x 16 in two by two
extern "C" __global__ void __launch_bounds__(128) k(const u16* A, const u16* B, int M, int N, int K, float* C) {
  extern __shared__ __align__(128) unsigned char memory[];
  Stage* stages = (Stage*)memory;
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int wm = (warp >> 1) * 16, wn = (warp & 1) * 16, bm = blockIdx.y * BM, bn = blockIdx.x * BN;
  auto load = [&](int kt) {
    Stage& s = stages[kt % STAGES];
    for (int p = 0; p < 2; ++p) {
      int r = tid / 4, c = tid % 4 * 8;
      copy16(shared_address(&s.a[p][r * PITCH_A + c]), A + (size_t)p * M * K + (size_t)(bm + r) * K + kt * BK + c);
      copy16(shared_address(&s.b[p][r * PITCH_B + c]), B + (size_t)p * K * N + (size_t)(kt * BK + r) * N + bn + c);
    }
  };
  float hi[2][4] = {}, lo[2][4] = {};
  const int steps = K / BK;
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < steps) load(s);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  for (int kt = 0; kt < steps; ++kt) {
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
    __syncthreads();  // data there, last stage free
    if (kt + STAGES - 1 < steps) load(kt + STAGES - 1);
    asm volatile("cp.async.commit_group;" ::: "memory");
    Stage& s = stages[kt % STAGES];
    for (int kk = 0; kk < BK; kk += 16) {
      u32 a[2][4], b[2][2][2];
      for (int p = 0; p < 2; ++p) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
          : "=r"(a[p][0]), "=r"(a[p][1]), "=r"(a[p][2]), "=r"(a[p][3])
          : "r"(shared_address(&s.a[p][(wm + (lane & 15)) * PITCH_A + kk + (lane >> 4) * 8])));
        for (int j = 0; j < 2; ++j)
          asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
            : "=r"(b[p][j][0]), "=r"(b[p][j][1])
            : "r"(shared_address(&s.b[p][(kk + (lane & 15)) * PITCH_B + wn + j * 8])));
      }
      for (int j = 0; j < 2; ++j) {
        product(lo[j], a[0], b[1][j]);
        product(lo[j], a[1], b[0][j]);
        product(hi[j], a[0], b[0][j]);
      }
    }
  }
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 4; ++i) {
      int r = bm + wm + (lane >> 2) + (i >> 1) * 8, c = bn + wn + j * 8 + (lane & 3) * 2 + (i & 1);
      C[(size_t)r * N + c] = __fmaf_rn(lo[j][i], 1.0f / 2048, hi[j][i]);
    }
}
"""
SHARED = 3 * 2 * (32 * 40 + 32 * 40) * 2


def split(x):
    high = x.astype(np.float16)
    return np.stack([high, ((x - high.astype(np.float32)) * 2048).astype(np.float16)])


def problem(m, n, k):
    rng = np.random.default_rng(m + n + k)
    return split(rng.uniform(-1, 1, (m, k)).astype(np.float32)), split(rng.uniform(-1, 1, (k, n)).astype(np.float32))


def composed(unit, a, b):
    """The same GEMM, put together from the unit's dot products in numpy."""
    (a_high, a_low), (b_high, b_low) = a.astype(np.float32), b.astype(np.float32)
    high = low = np.zeros((a.shape[1], b.shape[2]), np.float32)
    for k in range(0, a.shape[2], 16):
        step = lambda x, y, c, k=k: units.dot(unit, "f16", x[:, None, k : k + 16], y.T[None, :, k : k + 16], c)  # noqa: E731
        low = step(a_low, b_high, step(a_high, b_low, low))
        high = step(a_high, b_high, high)
    return high + low * np.float32(1 / 2048)


def gemm(text, a, b, arch="sm_80", **options):
    m, k, n = a.shape[1], a.shape[2], b.shape[2]
    return run(
        text, (n // 32, m // 32), (128,), SHARED, a.view(np.uint16), b.view(np.uint16), m, n, k,
        out=(np.float32, (m, n)), arch=arch, **options,
    )  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_a_split_gemm_equals_the_composition_of_dots(arch):
    a, b = problem(128, 128, 192)
    want = composed(UNITS.get(UNIT_OF[arch]), a, b)
    exact = (a[0] + a[1].astype(float) / 2048) @ (b[0] + b[1].astype(float) / 2048)
    assert np.abs(want - exact).max() < 1e-4
    results = [
        gemm(GEMM, a, b, arch, schedule=schedule, processes=processes, strip=strip)
        for schedule, processes, strip in [
            (LAZY_HIGHEST, 1, 60), (LAZY_HIGHEST, 2, 60), (EAGER_LOWEST, 2, 5), (EAGER_LOWEST, 1, 7),
        ]
    ]  # fmt: skip
    for got, stats in results:
        assert got.tobytes() == want.tobytes()
        assert stats.mma == 16 * 4 * 12 * 6
        assert stats == results[0][1]


def test_ctas_of_one_strip_may_run_different_numbers_of_steps():
    """As in a grouped or split-K kernel: copies, fragments and products of some CTAs only."""
    a, b = problem(64, 96, 256)
    text = sabotaged("const int steps = K / BK;", "const int steps = K / BK - 2 * blockIdx.x - blockIdx.y;")
    for schedule in SCHEDULES:
        got, stats = gemm(text, a, b, schedule=schedule)
        total = 0
        for y in range(2):
            for x in range(3):
                k = 256 - 32 * (2 * x + y)
                rows, columns = slice(32 * y, 32 * y + 32), slice(32 * x, 32 * x + 32)
                want = composed(UNITS.get("ampere"), a[:, rows, :k], b[:, :k, columns])
                assert got[rows, columns].tobytes() == want.tobytes()
                total += k // 16 * 4 * 6
        assert stats.mma == total


LAYOUT = """
typedef unsigned u32;
extern "C" __global__ void k(const WORD* A, const WORD* B, const float* C, float* D) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const WORD *a_of[] = {A_ELEMENTS}, *b_of[] = {B_ELEMENTS};
  u32 a[NA] = {}, b[NB] = {};
  const int per = 4 / sizeof(WORD);
  for (int i = 0; i < NA * per; ++i) a[i / per] |= (u32)*a_of[i] << 16 * (i % per);
  for (int i = 0; i < NB * per; ++i) b[i / per] |= (u32)*b_of[i] << 16 * (i % per);
  float c[4], d[4];
  for (int i = 0; i < 4; ++i) c[i] = C[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2];
  asm volatile("mma.sync.aligned.SHAPE.row.col.f32.TYPE.TYPE.f32 {%0,%1,%2,%3}, {A_REGS}, {B_REGS}, {C_REGS};"
    : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
    : A_INPUTS, B_INPUTS, "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  for (int i = 0; i < 4; ++i) D[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = d[i];
}
"""
# element i of a lane's fragments, in the words of the PTX ISA: (row, column)
HALF_A = [(f"g + {8 * (i // 2 % 2)}", f"2 * t + {i % 2 + 8 * (i // 4)}") for i in range(8)]
HALF_B = [(f"2 * t + {i % 2 + 8 * (i // 2)}", "g") for i in range(4)]
TF32_A = [("g", "t"), ("g + 8", "t"), ("g", "t + 4"), ("g + 8", "t + 4")]
TF32_B = [("t", "g"), ("t + 4", "g")]


@pytest.mark.parametrize(
    ("shape", "word", "a_elements", "b_elements"),
    [
        ("m16n8k16", "f16", HALF_A, HALF_B), ("m16n8k8", "f16", HALF_A[:4], HALF_B[:2]),
        ("m16n8k16", "bf16", HALF_A, HALF_B), ("m16n8k8", "bf16", HALF_A[:4], HALF_B[:2]),
        ("m16n8k8", "tf32", TF32_A, TF32_B), ("m16n8k4", "tf32", TF32_A[:2], TF32_B[:1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_fragments_lie_where_the_isa_says(arch, shape, word, a_elements, b_elements):
    k = int(shape.split("k")[1])
    per = 1 if word == "tf32" else 2
    na, nb = len(a_elements) // per, len(b_elements) // per
    numbers = iter(range(4, 4 + na + nb + 4))
    registers = lambda count: ",".join(f"%{next(numbers)}" for _ in range(count))  # noqa: E731
    text = LAYOUT
    for old, new in {
        "WORD": "unsigned" if word == "tf32" else "unsigned short",
        "A_ELEMENTS": ", ".join(f"A + ({r}) * {k} + {c}" for r, c in a_elements),
        "B_ELEMENTS": ", ".join(f"B + ({r}) * 8 + {c}" for r, c in b_elements),
        "NA": str(na), "NB": str(nb), "SHAPE": shape, "TYPE": word,
        "A_REGS": registers(na), "B_REGS": registers(nb), "C_REGS": registers(4),
        "A_INPUTS": ", ".join(f'"r"(a[{i}])' for i in range(na)),
        "B_INPUTS": ", ".join(f'"r"(b[{i}])' for i in range(nb)),
    }.items():  # fmt: skip
        text = text.replace(old, new)
    rng = np.random.default_rng(k)
    a, b = rng.standard_normal((16, k)).astype(np.float32), rng.standard_normal((k, 8)).astype(np.float32)
    c = rng.standard_normal((16, 8)).astype(np.float32)
    if word == "f16":
        a, b = (x.astype(np.float16).view(np.uint16) for x in (a, b))
    elif word == "bf16":
        a, b = ((x.view(np.uint32) >> 16).astype(np.uint16) for x in (a, b))
    else:
        a, b = (x.view(np.uint32) for x in (a, b))
    got, _ = run(text, (1,), (32,), 0, a, b, c, out=(np.float32, (16, 8)), arch=arch)
    left, right = units.decode(word, a), units.decode(word, b)
    want = units.dot(UNITS.get(UNIT_OF[arch]), word, left[:, None], right.T[None], c)
    assert got.tobytes() == want.tobytes()


IN_A_ROW = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 out)
{{
.reg .b32 %a<4>; .reg .b32 %b<8>; .reg .f32 %c<4>; .reg .f32 %d<8>; .reg .f32 %u; .reg .b32 %t; .reg .b64 %p<4>;
ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [out]; mov.u32 %t, %tid.x;
mad.wide.u32 %p0, %t, 16, %p0; mad.wide.u32 %p1, %t, 32, %p1; mad.wide.u32 %p2, %t, 32, %p2;
ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%p0];
ld.global.v4.b32 {{%b0, %b1, %b2, %b3}}, [%p1]; ld.global.v4.b32 {{%b4, %b5, %b6, %b7}}, [%p1+16];
mov.f32 %c0, 0f3F800000; mov.f32 %c1, 0f40000000; mov.f32 %c2, 0f40400000; mov.f32 %c3, 0f40800000;
{products}
st.global.v4.f32 [%p2], {{%d0, %d1, %d2, %d3}}; st.global.v4.f32 [%p2+16], {{%d4, %d5, %d6, %d7}};
ret;
}}"""


def mma(d, a, b, c):
    """One product; each operand is the registers' numbers, or their names."""
    vector = lambda x, letter: "{" + ", ".join(f"%{letter}{i}" if isinstance(i, int) else i for i in x) + "}"  # noqa: E731
    operands = ", ".join(vector(x, letter) for x, letter in ((d, "d"), (a, "a"), (b, "b"), (c, "c")))
    return f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {operands};"


FIRST, SECOND, ALL = (0, 1, 2, 3), (4, 5, 6, 7), (0, 1, 2, 3)
D_FIRST, D_SECOND = ("%d0", "%d1", "%d2", "%d3"), ("%d4", "%d5", "%d6", "%d7")


@pytest.mark.parametrize(
    ("products", "together"),
    [
        ([mma(FIRST, ALL, (0, 1), ALL), mma(SECOND, ALL, (2, 3), ALL)], 1),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(SECOND, ALL, (2, 3), ALL), mma(FIRST, ALL, (4, 5), D_SECOND)], 2),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(FIRST, ALL, (2, 3), D_FIRST), mma(SECOND, ALL, (4, 5), D_FIRST)], 3),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(SECOND, ALL, ("%d0", "%d1"), ALL)], 2),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(SECOND, (1, 0, 2, 3), (0, 1), ALL)], 2),
        ([mma(("%a0", "%d1", "%d2", "%d3"), ALL, (0, 1), ALL), mma(SECOND, ALL, (2, 3), ALL), "mov.f32 %d0, %a0;"], 2),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(FIRST, ALL, (2, 3), ALL), mma(SECOND, ALL, (6, 7), ALL)], 1),
        ([mma(FIRST, ALL, (0, 1), ALL), mma(SECOND, ALL, (2, 3), ALL), mma(("_", "%d1", "_", "_"), ALL, (6, 7), ALL)], 1),
    ],
    ids=["independent", "reads a result as C", "chain", "reads a result as B", "another A", "writes A", "same result", "sink"],
)  # fmt: skip
def test_products_in_a_row_are_those_of_one_after_the_other(products, together):
    """Neighbours that share A run as one where that cannot be told; something between them keeps them apart."""
    rng = np.random.default_rng(3)
    a = rng.standard_normal((32, 8)).astype(np.float16).view(np.uint16)
    b = rng.standard_normal((32, 16)).astype(np.float16).view(np.uint16)

    def outcome(between):
        text = IN_A_ROW.format(products=between.join(products))
        with Emulator(text, UNITS.get("ampere")) as machine:
            code = machine.programs["k"].blocks[0].code
            out = machine.alloc(1024, name="out")
            buffers = [machine.upload(x, name="x") for x in (a, b)]
            stats = machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [*buffers, out])
            issued = sum(each.statement.opcode.startswith("mma") for each in code)
            return machine.read(out, np.uint32, 256).tolist(), stats.mma, stats.instructions, issued

    bits, count, executed, issued = outcome(" ")
    apart_bits, apart_count, apart_executed, apart_issued = outcome(" mov.u32 %t, 0; ")
    moves = len(products) - 1
    assert (bits, count, executed) == (apart_bits, apart_count, apart_executed - moves)
    assert (issued, apart_issued) == (together, sum("mma" in text for text in products))


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_fault_in_products_in_a_row_is_that_of_its_own(wrong):
    """The register that nothing has written is named with the instruction that reads it."""
    c = [("%u", 1, 2, 3) if wrong == number else ALL for number in range(3)]
    products = [mma(FIRST, ALL, (0, 1), c[0]), mma(SECOND, ALL, (2, 3), c[1]), mma(FIRST, ALL, (4, 5), c[2])]
    text = IN_A_ROW.format(products="\n".join(f".loc 1 {10 + i} 0\n{product}" for i, product in enumerate(products)))
    with Emulator(text, UNITS.get("ampere"), source_name="k.cu") as machine:
        assert len([each for each in machine.programs["k"].blocks[0].code if each.others]) == 1
        buffers = [machine.upload(np.zeros(size, np.uint8), name="x") for size in (512, 1024, 1024)]
        with pytest.raises(EmulationError, match="register is read before it was written") as error:
            machine.launch("k", (1, 1, 1), (32, 1, 1), 0, buffers)
    assert error.value.where == f"k.cu:{10 + wrong} (entry k)"
    assert products[wrong].rstrip(";") in error.value.has


def test_units_differ():
    """Else the test above could not tell that the right one was used."""
    a, b = problem(32, 32, 64)
    assert composed(UNITS.get("ampere"), a, b).tobytes() != composed(UNITS.get("hopper"), a, b).tobytes()


def sabotaged(old, new):
    assert GEMM.count(old) == 1
    return GEMM.replace(old, new)


FAULTS = {
    "no barrier": ("__syncthreads();  // data there, last stage free", "// data there, last stage free"),
    "waits for too few copies": ('"n"(STAGES - 2)', '"n"(STAGES - 1)'),
    "never waits": ('asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");', ""),
    "overwrites the stage in use": ("if (kt + STAGES - 1 < steps) load(kt + STAGES - 1);",
                                    "if (kt + STAGES < steps) load(kt + STAGES);"),
    "copies before the barrier": ("""__syncthreads();  // data there, last stage free
    if (kt + STAGES - 1 < steps) load(kt + STAGES - 1);""", """if (kt + STAGES - 1 < steps) load(kt + STAGES - 1);
    __syncthreads();"""),
    "fragment rows one off": ("(wm + (lane & 15)) * PITCH_A", "(wm + (lane + 1 & 15)) * PITCH_A"),
    "ldmatrix without its transposition": ("x2.trans.shared", "x2.shared"),
    "drops a product": ("product(lo[j], a[1], b[0][j]);", ""),
    "reads past the row": ("bn + c);", "bn + c + 8);"),
    "misaligned copies": ("kt * BK + c);\n      copy16(shared_address(&s.b", "kt * BK + c + 1);\n      copy16(shared_address(&s.b"),
    "stores past the end": ("C[(size_t)r * N + c]", "C[(size_t)r * N + c + 1]"),
    "too little shared memory": ("#define STAGES 3", "#define STAGES 4"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_do_not_pass(fault):
    """Each is refused, or gives other bits, under one of the two schedules."""
    a, b = problem(32, 64, 320)
    want = composed(UNITS.get("ampere"), a, b).tobytes()
    caught = []
    for schedule in SCHEDULES:
        try:
            got, _ = gemm(sabotaged(*FAULTS[fault]), a, b, schedule=schedule)
            if got.tobytes() != want:
                caught.append("bits")
        except EmulationError as error:
            assert error.where.startswith(("kernel.cu:", "buffer `out`")), error
            caught.append(error.problem)
    assert caught


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s.name)
def test_a_copy_by_some_lanes_names_the_one_that_errs(schedule):
    text = KERNEL + """(const int* a, int* out) {
  __shared__ int x[64];
  unsigned to = (unsigned)__cvta_generic_to_shared(x + threadIdx.x);
  if (threadIdx.x >= 40)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(to), "l"(a + threadIdx.x) : "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  if (threadIdx.x >= 40) out[threadIdx.x] = x[threadIdx.x];
}"""
    error = fails(
        text, "cp.async.ca", "reaches outside its buffer", (1,), (64,), 0, np.zeros(63, np.int32), out=(np.int32, 64), schedule=schedule
    )
    assert "thread (63, 0, 0)" in error.problem
