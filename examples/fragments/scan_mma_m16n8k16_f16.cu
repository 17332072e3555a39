#include "mma_m16n8k16_f16.cuh"

// y[b][j] = x[b][0] + ... + x[b][j] for rows x [rows, length], 16 of them a warp, length a multiple of 16: a tile of 16 columns times the
// upper triangle of ones (WMMAe eq. 3, code 3) scans its rows, and times all ones gives what the tiles behind it begin with.
//
// In registers: both matrices by their rules. Through shared memory: the warp writes them there and loads them.
using u32 = unsigned;
#define GG_DEVICE __device__ __forceinline__

namespace scan {

using namespace mma_m16n8k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return (int)threadIdx.x / 32; }
GG_DEVICE int lane() { return (int)threadIdx.x % 32; }

constexpr int S = 16;

template <bool Registers>
GG_DEVICE void sum_up(const Element* x, float* y, int rows, int length, Element* shared) {
    const int first = ((int)blockIdx.x * WARPS + warp_of_block()) * S;
    if (first >= rows) return;
    fragment<matrix_a, S, S, S, Word, row_major> tile;
    fragment<matrix_b, S, S, S, Word, row_major> upper, ones;
    fragment<accumulator, S, S, S, float> sums, before;
    if constexpr (Registers) {
        generate(upper, [](int i, int j) { return i <= j ? 1.0f : 0.0f; });
        fill_fragment(ones, 1.0f);
    } else {
        constexpr int LD = S + 8;
        Element* const mine = shared + warp_of_block() * 2 * S * LD;
        for (int e = lane(); e < S * S; e += 32) {
            mine[e / S * LD + e % S] = to_word(e / S <= e % S ? 1.0f : 0.0f);
            mine[(S + e / S) * LD + e % S] = to_word(1.0f);
        }
        __syncwarp();
        load_matrix_sync(upper, mine, LD);
        load_matrix_sync(ones, mine + S * LD, LD);
    }
    fill_fragment(before, 0.0f);
    for (int column = 0; column < length; column += S) {
        load_matrix_sync(tile, x + (long long)first * length + column, length);
        mma_sync(sums, tile, upper, before);
        store_matrix_sync(y + (long long)first * length + column, sums, length, mem_row_major);
        mma_sync(before, tile, ones, before);
    }
}

}  // namespace scan

// x and y [rows, length]; rows a multiple of 16.
extern "C" __global__ void __launch_bounds__(128)
scan_registers(const scan::Element* x, float* y, int rows, int length) {
    scan::sum_up<true>(x, y, rows, length, nullptr);
}

// x and y [rows, length]; rows a multiple of 16.
extern "C" __global__ void __launch_bounds__(128)
scan_shared(const scan::Element* x, float* y, int rows, int length) {
    __shared__ scan::Element matrices[scan::WARPS * 2 * scan::S * (scan::S + 8)];
    scan::sum_up<false>(x, y, rows, length, matrices);
}
