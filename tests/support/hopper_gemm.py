"""A persistent GEMM for Hopper whose warps have different jobs, its operands and its bits: what the
emulator's tests and those on a GPU share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmgen.catalog.unit import UNITS
from gemmgen.emulate.core import units

UNIT = UNITS.get("hopper")

HELPERS = r"""
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ __forceinline__ u32 peer(u32 address, u32 rank) {
  u32 r; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank)); return r; }
__device__ __forceinline__ u32 cluster_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
__device__ __forceinline__ void barrier_init(u32 b, u32 n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
__device__ __forceinline__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ __forceinline__ void expect(u32 b, u32 n) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive(u32 b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(b) : "memory"); }
__device__ __forceinline__ void arrive_cluster(u32 b) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" :: "r"(b) : "memory"); }
__device__ __forceinline__ void wait(u32 b, u32 parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra OVER;\nbra AGAIN;\nOVER:\n}" :: "r"(b), "r"(parity) : "memory"); }
__device__ __forceinline__ void copy(u32 to, const void* from, u32 n, u32 b) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(to), "l"(from), "r"(n), "r"(b) : "memory"); }
__device__ __forceinline__ void copy_to(u32 to, const void* from, u32 n, u32 b, unsigned short ctas) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
               :: "r"(to), "l"(from), "r"(n), "r"(b), "h"(ctas) : "memory"); }
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
template <int N> __device__ __forceinline__ void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> __device__ __forceinline__ void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
__device__ __forceinline__ u64 descriptor(u32 address, u32 leading, u32 stride, u64 mode) {
  return (u64)(address >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | mode << 62; }
"""


def wgmma_function(word: str, n: int, in_registers: bool = False, signs=(1, 1), turned=(0, 0)) -> str:
    """`multiply(d, a, b, keep)`: one wgmma as a CUDA function."""
    count = n // 2
    d = ", ".join(f"%{i}" for i in range(count))
    if in_registers:
        a, b, keep = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}", f"%{count + 4}", f"%{count + 5}"
        inputs = ", ".join(f'"r"(a[{i}])' for i in range(4))
    else:
        a, b, keep, inputs = f"%{count}", f"%{count + 1}", f"%{count + 2}", '"l"(a)'
    turns = "" if word == "tf32" else "".join(f", {turn}" for turn in turned[in_registers:])
    shape = f"m64n{n}k{8 if word == 'tf32' else 16}"
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    kind = "u32 (&a)[4]" if in_registers else "u64 a"
    return (
        f"__device__ __forceinline__ void multiply(float (&d)[{count}], {kind}, u64 b, int keep) {{\n"
        f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, {keep}, 0;\\n"\n'
        f'    "wgmma.mma_async.sync.aligned.{shape}.f32.{word}.{word} {{{d}}}, {a}, {b}, p, {signs[0]}, {signs[1]}{turns};\\n}}"\n'
        f'    : {outputs} : {inputs}, "l"(b), "r"(keep)); }}\n'
    )


# ---------------------------------------------------------------- packing


def swizzled(tile: np.ndarray, swizzle: int) -> np.ndarray:
    """Rows of `swizzle` bytes as they lie in shared memory: `[rows, swizzle]` uint8."""
    rows, chunks = len(tile), swizzle // 16
    place = np.arange(rows * chunks).reshape(rows, chunks)
    address = place * 16
    moved = (address ^ (address >> 7 & chunks - 1) << 4) // 16
    out = np.empty((rows * chunks, 16), np.uint8)
    out[moved.reshape(-1)] = tile.reshape(-1, 16)
    return out.reshape(rows, swizzle)


def packed(words: np.ndarray, rows: int, swizzle: int) -> np.ndarray:
    """`[outer, k]` words as tiles `[outer / rows][k / width][rows][width]`, each swizzled."""
    width = swizzle // words.itemsize
    tiles = words.reshape(len(words) // rows, rows, -1, width).transpose(0, 2, 1, 3)
    flat = np.ascontiguousarray(tiles).reshape(-1, rows, width)
    return np.stack([swizzled(np.ascontiguousarray(tile).view(np.uint8).reshape(rows, -1), swizzle) for tile in flat])


def random_words(word: str, shape, seed: int) -> np.ndarray:
    x = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    if word == "f16":
        return x.astype(np.float16).view(np.uint16)
    bits = x.view(np.uint32)
    return (bits >> 16).astype(np.uint16) if word == "bf16" else bits & np.uint32(0xFFFFE000)


def expected(word: str, a: np.ndarray, b: np.ndarray, promote: int) -> np.ndarray:
    """The product of `[m, k]` and `[n, k]` words; every `promote` k the sum goes to a register."""
    total = np.zeros((len(a), len(b)), np.float32)
    for k in range(0, a.shape[1], promote):
        part = slice(k, k + promote)
        zero = np.zeros((1, *total.shape), np.float32)
        total = total + units.mma(UNIT, word, a[None, :, part], b[None, :, part].transpose(0, 2, 1), zero)[0]
    return total


# ---------------------------------------------------------------- the kernel


@dataclass(frozen=True)
class Case:
    """One persistent GEMM: C[m, n] of tiles 64 * groups x n, a stage of `swizzle` bytes along k."""

    word: str = "f16"
    n: int = 64
    groups: int = 2
    swizzle: int = 128
    stages: int = 3
    cluster: int = 1
    in_registers: bool = False
    tiles: tuple[int, int] = (2, 2)
    steps: int = 5
    promote: int = 2  # steps
    ctas: int = 2

    @property
    def width(self) -> int:
        return self.swizzle // (4 if self.word == "tf32" else 2)

    @property
    def text(self) -> str:
        return HELPERS + wgmma_function(self.word, self.n, self.in_registers) + KERNEL % {
            "threads": 128 * (self.groups + 1), "n": self.n, "groups": self.groups, "swizzle": self.swizzle,
            "stages": self.stages, "cluster": self.cluster, "in_registers": int(self.in_registers),
            "mode": {128: 1, 64: 2, 32: 3}[self.swizzle],
        }  # fmt: skip


KERNEL = r"""
constexpr int N = %(n)d, GROUPS = %(groups)d, ROW = %(swizzle)d, STAGES = %(stages)d, CLUSTER = %(cluster)d;
constexpr int A_BYTES = 64 * GROUPS * ROW, B_BYTES = N * ROW, STAGE = A_BYTES + B_BYTES, STEPS_K = ROW / 32;
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(%(threads)d, 1)
k(const unsigned char* a, const unsigned char* b, float* c, int tiles_m, int tiles_n, int steps, int promote) {
  extern __shared__ __align__(1024) unsigned char smem[];
  const u32 base = shared_address(smem), full = base + STAGES * STAGE, empty = full + 8 * STAGES;
  const u32 rank = cluster_rank();
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) { barrier_init(full + 8 * s, 1); barrier_init(empty + 8 * s, 4 * GROUPS * CLUSTER); }
    fence_init();
  }
  if (CLUSTER > 1) cluster_sync(); else __syncthreads();  // barriers are there
  const int group = threadIdx.x / 128;
  // The CTAs of a cluster work on tiles below one another and share B, of which each fetches a part.
  const int pairs = tiles_m / CLUSTER * tiles_n;
  if (group == 0) {
    fewer_registers<40>();
    if (threadIdx.x == 0) {
      int s = 0; u32 phase = 1;
      asm volatile("griddepcontrol.wait;" ::: "memory");
      for (int tile = blockIdx.x / CLUSTER; tile < pairs; tile += gridDim.x / CLUSTER) {
        const int m = tile / tiles_n * CLUSTER + rank, n = tile %% tiles_n;
        for (int step = 0; step < steps; ++step) {
          wait(empty + 8 * s, phase);  // stage is free
          const u32 to = base + s * STAGE;
          expect(full + 8 * s, STAGE);  // bytes of a stage
          copy(to, a + (size_t)(m * steps + step) * A_BYTES, A_BYTES, full + 8 * s);
          const unsigned char* from = b + (size_t)(n * steps + step) * B_BYTES;
          if (CLUSTER == 1) copy(to + A_BYTES, from, B_BYTES, full + 8 * s);
          else { const u32 part = rank * (B_BYTES / CLUSTER);
            copy_to(to + A_BYTES + part, from + part, B_BYTES / CLUSTER, full + 8 * s, (1 << CLUSTER) - 1); }
          if (++s == STAGES) { s = 0; phase ^= 1; }
        }
      }
    }
  } else {
    more_registers<152>();
    const int lane = threadIdx.x %% 32, warp = threadIdx.x / 32 %% 4, rows = 64 * (group - 1);
    float sum[N / 2], d[N / 2];
    int s = 0; u32 phase = 0;
    auto release = [&](int stage) {
      if (lane < CLUSTER) { if (CLUSTER == 1) arrive(empty + 8 * stage); else arrive_cluster(peer(empty + 8 * stage, lane)); } };
    for (int tile = blockIdx.x / CLUSTER; tile < pairs; tile += gridDim.x / CLUSTER) {
      const int m = tile / tiles_n * CLUSTER + rank, n = tile %% tiles_n;
      #pragma unroll
      for (int i = 0; i < N / 2; ++i) sum[i] = 0;
      for (int first = 0; first < steps; first += promote) {
        int keep = 0, before = -1;
        for (int step = first; step < min(first + promote, steps); ++step) {
          wait(full + 8 * s, phase);  // stage is filled
          const u32 at = base + s * STAGE;
          const u64 db = descriptor(at + A_BYTES, 16, 8 * ROW, %(mode)d);  // of B
          #pragma unroll
          for (int k = 0; k < STEPS_K; ++k) {
#if %(in_registers)d
              u32 f[4];
              #pragma unroll
              for (int j = 0; j < 4; ++j) {
                const int row = rows + 16 * warp + lane / 4 + 8 * (j %% 2);
                const int from = row * ROW + 32 * k + 16 * (j / 2) + 4 * (lane %% 4);
                f[j] = *(const u32*)(smem + s * STAGE + (from ^ (from >> 7 & ROW / 16 - 1) << 4));
              }
              wg_fence();
              multiply(d, f, db + 2 * k, keep);
#else
              const u64 da = descriptor(at + rows * ROW, 16, 8 * ROW, %(mode)d);  // of A
              if (k == 0) wg_fence();
              multiply(d, da + 2 * k, db + 2 * k, keep);
#endif
            keep = 1;
          }
          wg_commit();
          wg_wait<%(in_registers)d ? 0 : 1>();  // the stage before this one; all where fragments are loaded anew
          if (before >= 0) release(before);
          before = s;
          if (++s == STAGES) { s = 0; phase ^= 1; }
        }
        wg_wait<0>();  // all
        release(before);
        #pragma unroll
        for (int i = 0; i < N / 2; ++i) sum[i] += d[i];
      }
      asm volatile("bar.sync 1, %%0;" :: "n"(128 * GROUPS) : "memory");
      float* out = c + (size_t)(m * 64 * GROUPS + rows + 16 * warp + lane / 4) * (tiles_n * N) + n * N + 2 * (lane %% 4);
      #pragma unroll
      for (int i = 0; i < N / 2; ++i) out[(size_t)(i / 2 %% 2) * 8 * tiles_n * N + i / 4 * 8 + i %% 2] = sum[i];
    }
  }
  if (CLUSTER > 1) cluster_sync();  // before the end
}
"""


@dataclass(frozen=True)
class Problem:
    """The operands of a case as words, and how to launch it.

    Attributes:
        a, b: `[m, k]` and `[n, k]` words.
        scalars: the kernel's last arguments.
        threads, shared_bytes: of a CTA.
    """

    a: np.ndarray
    b: np.ndarray
    scalars: tuple[int, ...]
    threads: int
    shared_bytes: int

    @classmethod
    def of(cls, case: Case) -> Problem:
        tiles_m, tiles_n = case.tiles
        a = random_words(case.word, (tiles_m * 64 * case.groups, case.steps * case.width), 1)
        b = random_words(case.word, (tiles_n * case.n, case.steps * case.width), 2)
        shared = case.stages * (case.swizzle * (64 * case.groups + case.n) + 16)
        return cls(a, b, (tiles_m, tiles_n, case.steps, case.promote), 128 * (case.groups + 1), shared)

    def packed(self, case: Case) -> tuple[np.ndarray, np.ndarray]:
        return packed(self.a, 64 * case.groups, case.swizzle), packed(self.b, case.n, case.swizzle)

    def expected(self, case: Case) -> np.ndarray:
        return expected(case.word, self.a, self.b, case.promote * case.width)


CASES = {
    "f16": Case(),
    "bf16, one group": Case(word="bf16", groups=1, tiles=(3, 2)),
    "tf32": Case(word="tf32", n=8),
    "64 bytes": Case(swizzle=64, n=128),
    "32 bytes": Case(swizzle=32, n=16, stages=2),
    "tf32, 64 bytes": Case(word="tf32", swizzle=64, n=24),
    "256 columns": Case(n=256, groups=1, stages=2, tiles=(1, 2), steps=3),
    "registers": Case(in_registers=True),
    "registers, tf32": Case(in_registers=True, word="tf32", n=32),
    "clusters": Case(cluster=2, ctas=4, tiles=(2, 3)),
    "clusters of uneven work": Case(cluster=2, ctas=4, tiles=(2, 3), promote=1, stages=2, n=16),
    "a cluster of four": Case(cluster=4, ctas=4, tiles=(4, 1), n=32, groups=1),
}
