#include "mma_m16n8k16_f16.cuh"

// C_b = u_b v_b^T for a batch of vectors [S], S = 16 or 32, one warp each.
//
// In registers: load_vector makes u the first column of A and v the first row of B; the rest is 0. Through shared memory: the warp writes both matrices
// there, zeros too, and loads them.
using u32 = unsigned;
#define GG_DEVICE __device__ __forceinline__

namespace outer {

using namespace mma_m16n8k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return (int)threadIdx.x / 32; }
GG_DEVICE int lane() { return (int)threadIdx.x % 32; }

constexpr int K = 16;  // of which one is used

template <int S, bool Registers>
GG_DEVICE void product(const float* u, const float* v, float* c, int batch, Element* shared) {
    const int at = (int)blockIdx.x * WARPS + warp_of_block();
    if (at >= batch) return;
    fragment<matrix_a, S, S, K, Word, col_major> column;
    fragment<matrix_b, S, S, K, Word, row_major> row;
    fragment<accumulator, S, S, K, float> sums;
    if constexpr (Registers) {
        load_vector(column, u + at * S);
        load_vector(row, v + at * S);
    } else {
        constexpr int LD = S + 8;
        Element* const columns = shared + warp_of_block() * 2 * K * LD;  // [k][i]
        Element* const rows = columns + K * LD;                         // [k][j]
        for (int e = lane(); e < K * S; e += 32) {
            const int k = e / S, i = e % S;
            columns[k * LD + i] = to_word(k == 0 ? u[at * S + i] : 0.0f);
            rows[k * LD + i] = to_word(k == 0 ? v[at * S + i] : 0.0f);
        }
        __syncwarp();
        load_matrix_sync(column, columns, LD);
        load_matrix_sync(row, rows, LD);
    }
    fill_fragment(sums, 0.0f);
    mma_sync(sums, column, row, sums);
    store_matrix_sync(c + at * S * S, sums, S, mem_row_major);
}

}  // namespace outer

// u and v [batch, 16], c [batch, 16, 16].
extern "C" __global__ void __launch_bounds__(128)
outer_16_registers(const float* u, const float* v, float* c, int batch) {
    outer::product<16, true>(u, v, c, batch, nullptr);
}

// u and v [batch, 16], c [batch, 16, 16].
extern "C" __global__ void __launch_bounds__(128)
outer_16_shared(const float* u, const float* v, float* c, int batch) {
    __shared__ outer::Element matrices[outer::WARPS * 2 * outer::K * 24];
    outer::product<16, false>(u, v, c, batch, matrices);
}

// u and v [batch, 32], c [batch, 32, 32].
extern "C" __global__ void __launch_bounds__(128)
outer_32_registers(const float* u, const float* v, float* c, int batch) {
    outer::product<32, true>(u, v, c, batch, nullptr);
}

// u and v [batch, 32], c [batch, 32, 32].
extern "C" __global__ void __launch_bounds__(128)
outer_32_shared(const float* u, const float* v, float* c, int batch) {
    __shared__ outer::Element matrices[outer::WARPS * 2 * outer::K * 40];
    outer::product<32, false>(u, v, c, batch, matrices);
}
