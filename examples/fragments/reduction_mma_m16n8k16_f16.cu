#include "mma_m16n8k16_f16.cuh"

// sums[b] = the sum of row b of x [batch, length], one warp each, length a multiple of 256: a matrix of ones times 256 elements, as
// [16, 16], adds up columns, and what they come to is in every row of C.
//
// In registers: fill_fragment makes the ones. Through shared memory: the warp writes them there and loads them.
using u32 = unsigned;
#define GG_DEVICE __device__ __forceinline__

namespace reduction {

using namespace mma_m16n8k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return (int)threadIdx.x / 32; }
GG_DEVICE int lane() { return (int)threadIdx.x % 32; }

constexpr int S = 16, K = 16;

template <bool Registers>
GG_DEVICE void reduce(const Element* x, float* sums, int batch, int length, Element* shared) {
    const int at = (int)blockIdx.x * WARPS + warp_of_block();
    if (at >= batch) return;
    fragment<matrix_a, S, S, K, Word, row_major> ones;
    fragment<matrix_b, S, S, K, Word, row_major> part;
    fragment<accumulator, S, S, K, float> columns;
    if constexpr (Registers) {
        fill_fragment(ones, 1.0f);
    } else {
        constexpr int LD = K + 8;
        Element* const mine = shared + warp_of_block() * S * LD;
        for (int e = lane(); e < S * K; e += 32) mine[e / K * LD + e % K] = to_word(1.0f);
        __syncwarp();
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
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane() == 0) sums[at] = sum;
}

}  // namespace reduction

// x [batch, length], sums [batch].
extern "C" __global__ void __launch_bounds__(128)
reduction_registers(const reduction::Element* x, float* sums, int batch, int length) {
    reduction::reduce<true>(x, sums, batch, length, nullptr);
}

// x [batch, length], sums [batch].
extern "C" __global__ void __launch_bounds__(128)
reduction_shared(const reduction::Element* x, float* sums, int batch, int length) {
    __shared__ reduction::Element ones[reduction::WARPS * reduction::S * (reduction::K + 8)];
    reduction::reduce<false>(x, sums, batch, length, ones);
}
