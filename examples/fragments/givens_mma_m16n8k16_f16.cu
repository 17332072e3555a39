#include "mma_m16n8k16_f16.cuh"

// C_b = G(p, q, theta_b) A_b for a batch of A_b [S, S], S = 16 or 32, one warp each (WMMAe eq. 5): G is the identity but for
// (p, p) = (q, q) = cos theta_b, (p, q) = sin theta_b, (q, p) = -sin theta_b.
//
// In registers: the identity by its rule, and four elements where map says that they are; with p and q as arguments of the kernel, or embedded as
// constants, so that the compiler knows who holds them. Through shared memory: the warp writes G there and loads it.
using u32 = unsigned;
#define GG_DEVICE __device__ __forceinline__

namespace givens {

using namespace mma_m16n8k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return (int)threadIdx.x / 32; }
GG_DEVICE int lane() { return (int)threadIdx.x % 32; }

constexpr int P = 3, Q = 12;  // where they are embedded

template <int S, bool Registers>
GG_DEVICE void rotate(const Element* a, const float* angles, float* c, int batch, int p, int q, Element* shared) {
    const int at = (int)blockIdx.x * WARPS + warp_of_block();
    if (at >= batch) return;
    fragment<matrix_a, S, S, S, Word, row_major> g;
    fragment<matrix_b, S, S, S, Word, row_major> b;
    fragment<accumulator, S, S, S, float> sums;
    const float cosine = angles[2 * at], sine = angles[2 * at + 1];
    if constexpr (Registers) {
        generate(g, [&](int i, int j) { return i == j ? 1.0f : 0.0f; });
        set_ij(g, p, p, cosine);
        set_ij(g, q, q, cosine);
        set_ij(g, p, q, sine);
        set_ij(g, q, p, -sine);
    } else {
        constexpr int LD = S + 8;
        Element* const mine = shared + warp_of_block() * S * LD;
        for (int e = lane(); e < S * S; e += 32) {
            const int i = e / S, j = e % S;
            const float one = (i == p || i == q) && (j == p || j == q) ? (i == j ? cosine : i == p ? sine : -sine) : i == j ? 1.0f : 0.0f;
            mine[i * LD + j] = to_word(one);
        }
        __syncwarp();
        load_matrix_sync(g, mine, LD);
    }
    load_matrix_sync(b, a + at * S * S, S);
    fill_fragment(sums, 0.0f);
    mma_sync(sums, g, b, sums);
    store_matrix_sync(c + at * S * S, sums, S, mem_row_major);
}

}  // namespace givens

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16]; p and q are not looked at.
extern "C" __global__ void __launch_bounds__(128)
givens_16_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    givens::rotate<16, true>(a, angles, c, batch, givens::P, givens::Q, nullptr);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16].
extern "C" __global__ void __launch_bounds__(128)
givens_16_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    givens::rotate<16, true>(a, angles, c, batch, p, q, nullptr);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16]; p and q are not looked at.
extern "C" __global__ void __launch_bounds__(128)
givens_16_shared_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    __shared__ givens::Element matrices[givens::WARPS * 16 * 24];
    givens::rotate<16, false>(a, angles, c, batch, givens::P, givens::Q, matrices);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16].
extern "C" __global__ void __launch_bounds__(128)
givens_16_shared_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    __shared__ givens::Element matrices[givens::WARPS * 16 * 24];
    givens::rotate<16, false>(a, angles, c, batch, p, q, matrices);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32]; p and q are not looked at.
extern "C" __global__ void __launch_bounds__(128)
givens_32_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    givens::rotate<32, true>(a, angles, c, batch, givens::P, givens::Q, nullptr);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32].
extern "C" __global__ void __launch_bounds__(128)
givens_32_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    givens::rotate<32, true>(a, angles, c, batch, p, q, nullptr);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32]; p and q are not looked at.
extern "C" __global__ void __launch_bounds__(128)
givens_32_shared_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    __shared__ givens::Element matrices[givens::WARPS * 32 * 40];
    givens::rotate<32, false>(a, angles, c, batch, givens::P, givens::Q, matrices);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32].
extern "C" __global__ void __launch_bounds__(128)
givens_32_shared_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    __shared__ givens::Element matrices[givens::WARPS * 32 * 40];
    givens::rotate<32, false>(a, angles, c, batch, p, q, matrices);
}
