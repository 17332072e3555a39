#include "mfma_m16n16k16_f16.hip.hpp"

// sums[b] = the sum of row b of x [batch, length], one warp each, length a multiple of 256: a matrix of ones times 256 elements, as
// [16, 16], adds up columns, and what they come to is in every row of C.
//
// In registers: fill_fragment makes the ones. Through shared memory: the warp writes them there and loads them.
using u32 = unsigned;
#define GG_DEVICE inline __attribute__((device, always_inline))
#if __clang_major__ >= 20
#define GG_LOCAL , "local"  // fences that order shared memory alone
#else
#define GG_LOCAL
#endif

GG_DEVICE int thread_id() { return (int)__builtin_amdgcn_workitem_id_x(); }
GG_DEVICE int block_id() { return (int)__builtin_amdgcn_workgroup_id_x(); }

// What a wavefront's lanes have written to shared memory is there for its others: they go in step, so that only the compiler is told.
GG_DEVICE void wavefront_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// `x` of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u32 shuffle_xor(u32 x, int mask) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

namespace reduction {

using namespace mfma_m16n16k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return thread_id() / 64; }
GG_DEVICE int lane() { return thread_id() % 64; }

constexpr int S = 16, K = 16;

template <bool Registers>
GG_DEVICE void reduce(const Element* x, float* sums, int batch, int length, Element* shared) {
    const int at = block_id() * WARPS + warp_of_block();
    if (at >= batch) return;
    fragment<matrix_a, S, S, K, Word, row_major> ones;
    fragment<matrix_b, S, S, K, Word, row_major> part;
    fragment<accumulator, S, S, K, float> columns;
    if constexpr (Registers) {
        fill_fragment(ones, 1.0f);
    } else {
        constexpr int LD = K + 8;
        Element* const mine = shared + warp_of_block() * S * LD;
        for (int e = lane(); e < S * K; e += 64) mine[e / K * LD + e % K] = to_word(1.0f);
        wavefront_barrier();
        load_matrix_sync(ones, mine, LD);
    }
    fill_fragment(columns, 0.0f);
    for (int first = 0; first < length; first += S * K) {
        load_matrix_sync(part, x + (long long)at * length + first, S);
        mma_sync(columns, ones, part, columns);
    }
    float sum = 0.0f;  // of what this lane holds of the first row
    foreach_v<mem_row_major>(columns, [&](int index, int) { sum += columns.get(index); });
#pragma unroll
    for (int mask = 32; mask > 0; mask /= 2) sum += __builtin_bit_cast(float, shuffle_xor(__builtin_bit_cast(u32, sum), mask));
    if (lane() == 0) sums[at] = sum;
}

}  // namespace reduction

// x [batch, length], sums [batch].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
reduction_registers(const reduction::Element* x, float* sums, int batch, int length) {
    reduction::reduce<true>(x, sums, batch, length, nullptr);
}

// x [batch, length], sums [batch].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
reduction_shared(const reduction::Element* x, float* sums, int batch, int length) {
    __attribute__((shared)) static reduction::Element ones[reduction::WARPS * reduction::S * (reduction::K + 8)];
    reduction::reduce<false>(x, sums, batch, length, ones);
}
