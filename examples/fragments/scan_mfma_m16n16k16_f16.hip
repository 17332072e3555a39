#include "mfma_m16n16k16_f16.hip.hpp"

// y[b][j] = x[b][0] + ... + x[b][j] for rows x [rows, length], 16 of them a warp, length a multiple of 16: a tile of 16 columns times the
// upper triangle of ones (WMMAe eq. 3, code 3) scans its rows, and times all ones gives what the tiles behind it begin with.
//
// In registers: both matrices by their rules. Through shared memory: the warp writes them there and loads them.
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

namespace scan {

using namespace mfma_m16n16k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return thread_id() / 64; }
GG_DEVICE int lane() { return thread_id() % 64; }

constexpr int S = 16;

template <bool Registers>
GG_DEVICE void sum_up(const Element* x, float* y, int rows, int length, Element* shared) {
    const int first = (block_id() * WARPS + warp_of_block()) * S;
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
        for (int e = lane(); e < S * S; e += 64) {
            mine[e / S * LD + e % S] = to_word(e / S <= e % S ? 1.0f : 0.0f);
            mine[(S + e / S) * LD + e % S] = to_word(1.0f);
        }
        wavefront_barrier();
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
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
scan_registers(const scan::Element* x, float* y, int rows, int length) {
    scan::sum_up<true>(x, y, rows, length, nullptr);
}

// x and y [rows, length]; rows a multiple of 16.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
scan_shared(const scan::Element* x, float* y, int rows, int length) {
    __attribute__((shared)) static scan::Element matrices[scan::WARPS * 2 * scan::S * (scan::S + 8)];
    scan::sum_up<false>(x, y, rows, length, matrices);
}
