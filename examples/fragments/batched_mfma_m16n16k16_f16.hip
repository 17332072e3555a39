#include "mfma_m16n16k16_f16.hip.hpp"

// C_b [m, n] = A_b [m, k] B_b [k, n] for a batch of FP32 matrices (WMMAe 4.4.2): m, n and k multiples of the block's.
//
// In registers: a stage of shared memory holds FP32, and elements are split on their way into fragments (figure 6, bottom). Through shared memory: they
// are split before, and a stage holds their words (figure 6, top).
using u32 = unsigned;
#define GG_DEVICE inline __attribute__((device, always_inline))
#if __clang_major__ >= 20
#define GG_LOCAL , "local"  // fences that order shared memory alone
#else
#define GG_LOCAL
#endif

GG_DEVICE int thread_id() { return (int)__builtin_amdgcn_workitem_id_x(); }
GG_DEVICE int block_id() { return (int)__builtin_amdgcn_workgroup_id_x(); }

// Barrier of the block, which orders shared memory and lets loads from global memory go on.
GG_DEVICE void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup" GG_LOCAL);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup" GG_LOCAL);
}

namespace batched {

using namespace mfma_m16n16k16_f16::tcec;

constexpr int BLOCK_M = 128, BLOCK_N = 64, BLOCK_K = 32;
constexpr int WARP_M = 32, WARP_N = 32, WARP_K = 16;
constexpr int WARPS_N = BLOCK_N / WARP_N, THREADS = 64 * (BLOCK_M / WARP_M) * WARPS_N;
using Policy = policy<op_mma, with_ec, add_outside>;  // what multiplies, and in which words; without one, the namespace's own
using Scheme = Policy::scheme;
constexpr int WORDS = Scheme::words;
constexpr int RUNS_A = BLOCK_M * BLOCK_K / 4 / THREADS, RUNS_B = BLOCK_K * BLOCK_N / 4 / THREADS;  // of four elements, of a thread

typedef float Four __attribute__((ext_vector_type(4)));

// Four elements' words, in four elements' room each.
template <int Room>
GG_DEVICE void put(Word* to, const Four& four) {
    constexpr int run = 2;
#pragma unroll
    for (int i = 0; i < 4; i += run) {
        float x[run];
        u32 packed[WORDS][1];
#pragma unroll
        for (int one = 0; one < run; ++one) x[one] = four[i + one];
        Scheme::split(packed, x);
#pragma unroll
        for (int word = 0; word < WORDS; ++word) *reinterpret_cast<detail::Bits*>(to + word * Room + i) = packed[word][0];
    }
}

template <bool Registers, class Stage>
GG_DEVICE void multiply(const float* a, const float* b, float* c, int m, int n, int k, Stage* shared) {
    constexpr int LD_A = BLOCK_K + 8, LD_B = BLOCK_N + 4;
    constexpr int ROOM_A = BLOCK_M * LD_A, ROOM_B = BLOCK_K * LD_B;
    Stage* const stage_a = shared;
    Stage* const stage_b = shared + (Registers ? 1 : WORDS) * ROOM_A;

    const int blocks_n = n / BLOCK_N, blocks = m / BLOCK_M * blocks_n;
    const int product = block_id() / blocks, m0 = block_id() % blocks / blocks_n * BLOCK_M, n0 = block_id() % blocks_n * BLOCK_N;
    a += (long long)product * m * k + (long long)m0 * k;
    b += (long long)product * k * n + n0;
    c += (long long)product * m * n + (long long)m0 * n + n0;
    const int thread = thread_id(), warp = thread / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    fragment<accumulator, WARP_M, WARP_N, WARP_K, float, void, Policy> sums;
    fill_fragment(sums, 0.0f);
    Four next_a[RUNS_A], next_b[RUNS_B];  // what the next stage holds, on its way
    const auto fetch = [&](int k0) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < RUNS_A; ++i) {
            const int at = (thread + i * THREADS) * 4;
            next_a[i] = *reinterpret_cast<const Four*>(a + (long long)(at / BLOCK_K) * k + k0 + at % BLOCK_K);
        }
#pragma unroll
        for (int i = 0; i < RUNS_B; ++i) {
            const int at = (thread + i * THREADS) * 4;
            next_b[i] = *reinterpret_cast<const Four*>(b + (long long)(k0 + at / BLOCK_N) * n + at % BLOCK_N);
        }
    };
    fetch(0);
    for (int k0 = 0; k0 < k; k0 += BLOCK_K) {
#pragma unroll
        for (int i = 0; i < RUNS_A; ++i) {
            const int at = (thread + i * THREADS) * 4;
            Stage* const to = stage_a + at / BLOCK_K * LD_A + at % BLOCK_K;
            if constexpr (Registers) *reinterpret_cast<Four*>(to) = next_a[i];
            else put<ROOM_A>(to, next_a[i]);
        }
#pragma unroll
        for (int i = 0; i < RUNS_B; ++i) {
            const int at = (thread + i * THREADS) * 4;
            Stage* const to = stage_b + at / BLOCK_N * LD_B + at % BLOCK_N;
            if constexpr (Registers) *reinterpret_cast<Four*>(to) = next_b[i];
            else put<ROOM_B>(to, next_b[i]);
        }
        block_barrier();
        if (k0 + BLOCK_K < k) fetch(k0 + BLOCK_K);
#pragma unroll
        for (int step = 0; step < BLOCK_K; step += WARP_K) {
            fragment<matrix_a, WARP_M, WARP_N, WARP_K, Word, row_major, Policy> of_a;
            fragment<matrix_b, WARP_M, WARP_N, WARP_K, Word, row_major, Policy> of_b;
            const Stage* const from_a = stage_a + warp_m * LD_A + step;
            const Stage* const from_b = stage_b + step * LD_B + warp_n;
            if constexpr (Registers) {
                load_matrix_sync(of_a, from_a, LD_A);
                load_matrix_sync(of_b, from_b, LD_B);
            } else {
                load_matrix_sync<0>(of_a, from_a + 0 * ROOM_A, LD_A);
                load_matrix_sync<0>(of_b, from_b + 0 * ROOM_B, LD_B);
                load_matrix_sync<1>(of_a, from_a + 1 * ROOM_A, LD_A);
                load_matrix_sync<1>(of_b, from_b + 1 * ROOM_B, LD_B);
            }
            mma_sync(sums, of_a, of_b, sums);
        }
        block_barrier();
    }
    store_matrix_sync(c + warp_m * n + warp_n, sums, n, mem_row_major);
}

}  // namespace batched

// a [batch, m, k], b [batch, k, n], c [batch, m, n]; a block each for m / 128 * n / 64 tiles of every product.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(512, 512)))
batched_registers(const float* a, const float* b, float* c, int m, int n, int k) {
    using namespace batched;
    __attribute__((shared)) static float stage[BLOCK_M * (BLOCK_K + 8) + BLOCK_K * (BLOCK_N + 8)];
    multiply<true>(a, b, c, m, n, k, stage);
}

// a [batch, m, k], b [batch, k, n], c [batch, m, n]; a block each for m / 128 * n / 64 tiles of every product.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(512, 512)))
batched_shared(const float* a, const float* b, float* c, int m, int n, int k) {
    using namespace batched;
    __attribute__((shared)) static Word stage[WORDS * (BLOCK_M * (BLOCK_K + 8) + BLOCK_K * (BLOCK_N + 8))];
    multiply<false>(a, b, c, m, n, k, stage);
}
