#include "mfma_m16n16k16_f16.hip.hpp"

// C_b = G(p, q, theta_b) A_b for a batch of A_b [S, S], S = 16 or 32, one warp each (WMMAe eq. 5): G is the identity but for
// (p, p) = (q, q) = cos theta_b, (p, q) = sin theta_b, (q, p) = -sin theta_b.
//
// In registers: the identity by its rule, and four elements where map says that they are; with p and q as arguments of the kernel, or embedded as
// constants, so that the compiler knows who holds them. Through shared memory: the warp writes G there and loads it.
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

namespace givens {

using namespace mfma_m16n16k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return thread_id() / 64; }
GG_DEVICE int lane() { return thread_id() % 64; }

constexpr int P = 3, Q = 12;  // where they are embedded

template <int S, bool Registers>
GG_DEVICE void rotate(const Element* a, const float* angles, float* c, int batch, int p, int q, Element* shared) {
    const int at = block_id() * WARPS + warp_of_block();
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
        for (int e = lane(); e < S * S; e += 64) {
            const int i = e / S, j = e % S;
            const float one = (i == p || i == q) && (j == p || j == q) ? (i == j ? cosine : i == p ? sine : -sine) : i == j ? 1.0f : 0.0f;
            mine[i * LD + j] = to_word(one);
        }
        wavefront_barrier();
        load_matrix_sync(g, mine, LD);
    }
    load_matrix_sync(b, a + at * S * S, S);
    fill_fragment(sums, 0.0f);
    mma_sync(sums, g, b, sums);
    store_matrix_sync(c + at * S * S, sums, S, mem_row_major);
}

}  // namespace givens

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16]; p and q are not looked at.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_16_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    givens::rotate<16, true>(a, angles, c, batch, givens::P, givens::Q, nullptr);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_16_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    givens::rotate<16, true>(a, angles, c, batch, p, q, nullptr);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16]; p and q are not looked at.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_16_shared_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    __attribute__((shared)) static givens::Element matrices[givens::WARPS * 16 * 24];
    givens::rotate<16, false>(a, angles, c, batch, givens::P, givens::Q, matrices);
}

// a [batch, 16, 16], angles [batch, 2] as cosine and sine, c [batch, 16, 16].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_16_shared_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    __attribute__((shared)) static givens::Element matrices[givens::WARPS * 16 * 24];
    givens::rotate<16, false>(a, angles, c, batch, p, q, matrices);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32]; p and q are not looked at.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_32_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    givens::rotate<32, true>(a, angles, c, batch, givens::P, givens::Q, nullptr);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_32_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    givens::rotate<32, true>(a, angles, c, batch, p, q, nullptr);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32]; p and q are not looked at.
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_32_shared_embedded(const givens::Element* a, const float* angles, float* c, int batch, int , int) {
    __attribute__((shared)) static givens::Element matrices[givens::WARPS * 32 * 40];
    givens::rotate<32, false>(a, angles, c, batch, givens::P, givens::Q, matrices);
}

// a [batch, 32, 32], angles [batch, 2] as cosine and sine, c [batch, 32, 32].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
givens_32_shared_arguments(const givens::Element* a, const float* angles, float* c, int batch, int p, int q) {
    __attribute__((shared)) static givens::Element matrices[givens::WARPS * 32 * 40];
    givens::rotate<32, false>(a, angles, c, batch, p, q, matrices);
}
