#include "mfma_m16n16k16_f16.hip.hpp"

// C_b = (I - 2 v_b v_b^T) A_b for a batch of A_b [S, S], S = 16 or 32, one warp each (WMMAe eq. 4, codes 4 and 5).
//
// In registers: each lane makes the elements of the reflection that it holds, from v, in one mapping for all tiles. Through shared memory: the warp
// writes the matrix there, and loads it as it would from memory.
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

namespace householder {

using namespace mfma_m16n16k16_f16::wmma;
using Element = Word;

constexpr int WARPS = 4;
GG_DEVICE int warp_of_block() { return thread_id() / 64; }
GG_DEVICE int lane() { return thread_id() % 64; }

template <int S, bool Registers>
GG_DEVICE void reflect(const Element* a, const float* v, float* c, int batch, Element* shared) {
    const int at = block_id() * WARPS + warp_of_block();
    if (at >= batch) return;
    fragment<matrix_a, S, S, S, Word, row_major> h;
    fragment<matrix_b, S, S, S, Word, row_major> b;
    fragment<accumulator, S, S, S, float> sums;
    const float* const own = v + at * S;
    const auto rule = [&](int i, int j) { return -2.0f * own[i] * own[j] + (i == j ? 1.0f : 0.0f); };
    if constexpr (Registers) {
        generate(h, rule);
    } else {
        constexpr int LD = S + 8;
        Element* const mine = shared + warp_of_block() * S * LD;
        for (int e = lane(); e < S * S; e += 64) mine[e / S * LD + e % S] = to_word(rule(e / S, e % S));
        wavefront_barrier();
        load_matrix_sync(h, mine, LD);
    }
    load_matrix_sync(b, a + at * S * S, S);
    fill_fragment(sums, 0.0f);
    mma_sync(sums, h, b, sums);
    store_matrix_sync(c + at * S * S, sums, S, mem_row_major);
}

}  // namespace householder

// a [batch, 16, 16], v [batch, 16], c [batch, 16, 16].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
householder_16_registers(const householder::Element* a, const float* v, float* c, int batch) {
    householder::reflect<16, true>(a, v, c, batch, nullptr);
}

// a [batch, 16, 16], v [batch, 16], c [batch, 16, 16].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
householder_16_shared(const householder::Element* a, const float* v, float* c, int batch) {
    __attribute__((shared)) static householder::Element matrices[householder::WARPS * 16 * 24];
    householder::reflect<16, false>(a, v, c, batch, matrices);
}

// a [batch, 32, 32], v [batch, 32], c [batch, 32, 32].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
householder_32_registers(const householder::Element* a, const float* v, float* c, int batch) {
    householder::reflect<32, true>(a, v, c, batch, nullptr);
}

// a [batch, 32, 32], v [batch, 32], c [batch, 32, 32].
extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
householder_32_shared(const householder::Element* a, const float* v, float* c, int batch) {
    __attribute__((shared)) static householder::Element matrices[householder::WARPS * 32 * 40];
    householder::reflect<32, false>(a, v, c, batch, matrices);
}
