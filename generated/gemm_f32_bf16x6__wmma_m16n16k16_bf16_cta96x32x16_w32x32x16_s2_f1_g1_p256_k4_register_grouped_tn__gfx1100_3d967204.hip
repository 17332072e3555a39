// kernel    gemm_f32_bf16x6__wmma_m16n16k16_bf16_cta96x32x16_w32x32x16_s2_f1_g1_p256_k4_register_grouped_tn__gfx1100_3d967204
// computes  C = alpha A B + beta C in FP32, layout tn (row major), any m, n, k
// scheme    bf16x6: three bfloat16 words, the six products above 2^-24: FP32's range and bits
// words     3 x bf16, 24 bits; products A2 B0 + A1 B1 + A0 B2 + A1 B0 + A0 B1 + A0 B0; dropped A1 B2, A2 B1, A2 B2
// promote   every 256 k (bf16x6's own: never)
// special   exact
// fragment  v_wmma_f32_16x16x16_bf16
// tiles     block 96x32x16, warp 32x32, 2 stages, 96 threads
// shared    16384 B static
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD hardware
// target    gfx1100
// plan      3d967204, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_3d967204 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#define GG_DEVICE static inline __attribute__((device, always_inline))
#define GG_SHARED __attribute__((address_space(3)))
#if __clang_major__ >= 20
#define GG_LOCAL , "local"  // fences that order shared memory alone
#else
#define GG_LOCAL
#endif

typedef float float4 __attribute__((ext_vector_type(4)));
typedef u32x4 uint4;
GG_DEVICE uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return uint4{x, y, z, w}; }
GG_DEVICE u32 __float_as_uint(float x) { return __builtin_bit_cast(u32, x); }
GG_DEVICE float __uint_as_float(u32 x) { return __builtin_bit_cast(float, x); }
GG_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GG_DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
GG_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
GG_DEVICE int __clz(int x) { return __builtin_clz((u32)x); }
template <typename T>
GG_DEVICE T min(T x, T y) { return x < y ? x : y; }
template <typename T>
GG_DEVICE T max(T x, T y) { return x < y ? y : x; }

GG_DEVICE int thread_id() { return (int)__builtin_amdgcn_workitem_id_x(); }
GG_DEVICE int block_id() { return (int)__builtin_amdgcn_workgroup_id_x(); }

// Address of shared memory (LDS), as 32 bits.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)(u64)(GG_SHARED const u8*)pointer; }

// Barrier of the block, which orders shared memory and lets loads from global memory go on.
GG_DEVICE void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup" GG_LOCAL);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup" GG_LOCAL);
}

// `x` of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u32 shuffle_xor(u32 x, int mask) {
    const int lane = __builtin_amdgcn_mbcnt_lo(~0u, 0u);
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

GG_DEVICE float widen_low(u32 bits) { return __uint_as_float(bits << 16); }
GG_DEVICE float widen_high(u32 bits) { return __uint_as_float(bits & 0xffff0000u); }

GG_DEVICE u32 round_nearest_even(float low, float high) {
    const u32 bits[2] = {__float_as_uint(low), __float_as_uint(high)};
    u32 words[2];
    for (int i = 0; i < 2; ++i) {
        words[i] = (bits[i] + 0x7fffu + (bits[i] >> 16 & 1u)) >> 16;
        if ((bits[i] & 0x7fffffffu) > 0x7f800000u) words[i] = 0x7fffu;  // a NaN may have no bits above
    }
    return words[0] | words[1] << 16;
}

// Operand a lies [k][m]: lanes read 16 neighbours, of k that are 16 apart.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 384 + (chunk ^ (row / 16 & 1) * 4) * 16; }
// Operand b lies [k][n]: lanes read 16 neighbours, of k that are 16 apart.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 128 + (chunk ^ (row / 16 & 1) * 4) * 16; }

constexpr int WORDS = 3;

// Splits N elements into words, 2 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        float low = x[i], high = x[i + 1];  // what is not in the words yet
        // word 0: to nearest, ties to even
        const u32 word_0 = packed[0][i / 2] = round_nearest_even(low, high);
        low -= widen_low(word_0), high -= widen_high(word_0);
        // word 1: to nearest, ties to even
        const u32 word_1 = packed[1][i / 2] = round_nearest_even(low, high);
        low -= widen_low(word_1), high -= widen_high(word_1);
        // word 2: to nearest, ties to even
        const u32 word_2 = packed[2][i / 2] = round_nearest_even(low, high);
    }
}

// How many of N elements their words lose more of than the scheme does by itself, how many overflow the first
// word and how many are not finite, ten bits each.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float rest = x[i];
        rest -= (i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2]));
        // Rounding leaves at most one ulp, 2^120 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+120f);
        rest -= (i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2]));
        rest -= (i % 2 ? widen_high(packed[2][i / 2]) : widen_low(packed[2][i / 2]));
        const bool finite = fabsf(x[i]) < __uint_as_float(0x7f800000u);
        const bool lossy = !(fabsf(rest) <= fabsf(x[i]) * 0x1p-24f);  // 2^-24: what the words leave
        counts += finite ? (overflow ? 1u << 10 : lossy ? 1u : 0u) : 1u << 20;
    }
    return counts;
}

// Adds a warp's counts up into an operand's counters: lossy, overflow, nonfinite.
GG_DEVICE void count(u64* counters, u32 counts) {
    if (!(__builtin_amdgcn_ballot_w64(counts != 0) != 0)) return;
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) counts += shuffle_xor(counts, mask);
    if (thread_id() % 32 == 0) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const u64 found = (counts >> 10 * i) & 1023u;
            if (found) __hip_atomic_fetch_add(counters + i, found, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }
    }
}

//                n0        BLOCK_N = 32
//            +---+----+----+ - -        A block computes C[m0 : m0 + 96, n0 : n0 + 32] with
//        m0  | w | w  | w  | WARP_M     3 x 1 warps of 32 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 32 floats a thread.
//    = 96   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 16 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 96, BLOCK_N = 32, BLOCK_K = 16;
constexpr int WARP_M = 32, WARP_N = 32;
constexpr int WARPS_N = 1;
constexpr int THREADS = 96;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP = 1;  // block rows of C that are worked on together
constexpr int SLICES = 4;  // parts of k that different blocks sum
constexpr int TILES_M = 2, TILES_N = 2;  // fragments of m16n16k16 in a warp
constexpr int K_STEPS = 1;  // instructions along k in a stage
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// What another block has written: past the caches that it does not share.
GG_DEVICE float load_of_other_blocks(const float* from) {
    return __hip_atomic_load(from, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}

GG_DEVICE void load_16(u32 (&r)[4], const void* from) {
    const u32x4 four = *(const u32x4*)from;
    r[0] = four.x, r[1] = four.y, r[2] = four.z, r[3] = four.w;
}

GG_DEVICE float load_4(const float* from) { return *from; }

GG_DEVICE void store_shared_16(u32 to, const u32 (&r)[4]) { *(GG_SHARED u32x4*)to = u32x4{r[0], r[1], r[2], r[3]}; }

GG_DEVICE float load_shared_4(u32 from) { return *(GG_SHARED const float*)from; }

GG_DEVICE void load_shared_16(float* x, u32 from) {
    const float4 four = *(GG_SHARED const float4*)from;
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

// A lane's part of an operand's fragment, and of C's.
typedef u32 fragment __attribute__((ext_vector_type(8)));
typedef float sums __attribute__((ext_vector_type(8)));

GG_DEVICE void load_fragment(fragment& r, u32 address) {
    // The swizzle keeps a pair of chunks together.
    const u32x4 first = *(GG_SHARED const u32x4*)address, second = *(GG_SHARED const u32x4*)(address ^ 16);
    r = __builtin_shufflevector(first, second, 0, 1, 2, 3, 4, 5, 6, 7);
}

// c[16, 16] += a[16, 16] b[16, 16] on the matrix unit.
typedef short operand __attribute__((ext_vector_type(16)));

GG_DEVICE void multiply_add(sums& c, fragment a, fragment b) {
    c = __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(__builtin_bit_cast(operand, a), __builtin_bit_cast(operand, b), c);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
gemm_f32_bf16x6__wmma_m16n16k16_bf16_cta96x32x16_w32x32x16_s2_f1_g1_p256_k4_register_grouped_tn__gfx1100_3d967204(
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    float* parts,  // [blocks of C][SLICES][elements of a thread][THREADS]
    u32* arrived,
    u64* __restrict__ repaired)
{
    __attribute__((shared, aligned(128))) static unsigned char shared[STAGES * STAGE_BYTES];
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 32, warp = thread_id() / 32;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // Blocks walk down GROUP rows of C before they move on to the next column, so that those at
    // work together share their operands in L2.
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int slice = block_id() / (blocks_m * blocks_n), block = block_id() % (blocks_m * blocks_n);
    const int group = block / (GROUP * blocks_n), in_group = block % (GROUP * blocks_n);
    const int group_rows = min(GROUP, blocks_m - group * GROUP);
    const int m0 = (group * GROUP + in_group % group_rows) * BLOCK_M;
    const int n0 = in_group / group_rows * BLOCK_N;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = (k + BLOCK_K - 1) / BLOCK_K;
    const int slice_tiles = (stages_k + SLICES - 1) / SLICES, first_tile = min(stages_k, slice * slice_tiles);
    const int tiles_k = alpha == 0.0f ? 0 : min(slice_tiles, stages_k - first_tile);

    sums acc_main[TILES_M][TILES_N] = {};  // in the matrix unit
    sums sum_main[TILES_M][TILES_N] = {};  // in FP32 registers

    // Short sums round less: every 256 k the matrix unit's sum moves over. Sums that are
    // scaled up err that much less and stay.
    const auto promote = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j)
#pragma unroll
                for (int r = 0; r < 8; ++r) {
                    sum_main[i][j][r] += acc_main[i][j][r];
                    acc_main[i][j][r] = 0.0f;
                }
    };

    // Tiles are copied in the operands' own order; what lies outside them becomes zero.
    int k0 = first_tile * BLOCK_K;  // of the tile that is loaded next
    const bool a_aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
    const int a_copy_row = thread_id() / 8, a_copy_column = thread_id() % 8 * 4;
    const float* a_from = a + (long long)(k0 + a_copy_row) * lda + m0 + a_copy_column;
    const bool b_aligned = ((u64)b & 15) == 0 && (ldb & 3) == 0;
    const int b_copy_row = thread_id() / 8, b_copy_column = thread_id() % 8 * 4;
    const float* b_from = b + (long long)(k0 + b_copy_row) * ldb + n0 + b_copy_column;

    float a_held[6][4], b_held[2][4];  // a tile on its way to shared memory

    // Starts the loads of part `part` of the tile at `k0`; what lies outside the operands is zero.
    const auto load = [&](int part) __attribute__((always_inline)) {
        if (part < 6) {
            const int i = part;
            const int row = a_copy_row + i / 3 * 12, column = a_copy_column + i % 3 * 32;
            const int rows = k - k0, columns = m - m0;  // inside the operand
            const float* from = a_from + (long long)(i / 3 * 12) * lda + i % 3 * 32;
            if (a_aligned && row < rows && column + 4 <= columns) {
                u32 four[4];
                load_16(four, from);
                for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
            } else {
                for (int e = 0; e < 4; ++e) a_held[i][e] = row < rows && column + e < columns ? load_4(from + e) : 0.0f;
            }
        } else {
            const int i = part - 6;
            const int row = b_copy_row + i / 1 * 12, column = b_copy_column + i % 1 * 32;
            const int rows = k - k0, columns = n - n0;  // inside the operand
            const float* from = b_from + (long long)(i / 1 * 12) * ldb + i % 1 * 32;
            if (b_aligned && row < rows && column + 4 <= columns) {
                u32 four[4];
                load_16(four, from);
                for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
            } else {
                for (int e = 0; e < 4; ++e) b_held[i][e] = row < rows && column + e < columns ? load_4(from + e) : 0.0f;
            }
        }
    };
    // Puts that tile into the stage at `stage`.
    const auto store = [&](u32 stage) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 6; ++i) {
            const int row = a_copy_row + i / 3 * 12;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
if (row < 16) store_shared_16(stage + at_a(row, a_copy_column / 4 + i % 3 * 8), four);
        }
        a_from += BLOCK_K * lda;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = b_copy_row + i / 1 * 12;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
if (row < 16) store_shared_16(stage + A_BYTES + at_b(row, b_copy_column / 4 + i % 1 * 8), four);
        }
        b_from += BLOCK_K * ldb;
        k0 += BLOCK_K;
    };

    const int run_row = (lane & 15), run_k = 0;
    fragment a_fragments[FRAGMENT_BUFFERS][WORDS][TILES_M], b_fragments[FRAGMENT_BUFFERS][WORDS][TILES_N];

    // Fetches and splits the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
        const int kk = step * 16 + run_k;
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
            {
                const int row = warp_m + i * 16 + run_row;
                float x[16];
#pragma unroll
                for (int e = 0; e < 16; ++e) x[e] = load_shared_4(stage + at_a(kk + e, row / 4) + row % 4 * 4);
                u32 packed[WORDS][8];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 8; ++r) a_fragments[buffer][word][i][r] = packed[word][r];
            }
#pragma unroll
        for (int i = 0; i < TILES_N; ++i)
            {
                const int row = warp_n + i * 16 + run_row;
                float x[16];
#pragma unroll
                for (int e = 0; e < 16; ++e) x[e] = load_shared_4(stage + A_BYTES + at_b(kk + e, row / 4) + row % 4 * 4);
                u32 packed[WORDS][8];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 8; ++r) b_fragments[buffer][word][i][r] = packed[word][r];
            }
    };

    // Counts what words cannot hold of the stage at `stage`.
    int a_turn = first_tile % blocks_n, b_turn = first_tile % blocks_m;  // which block along n, along m
    const auto next_turn = [&]() {
        a_turn = a_turn + 1 == blocks_n ? 0 : a_turn + 1;
        b_turn = b_turn + 1 == blocks_m ? 0 : b_turn + 1;
    };

    const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
        if (a_turn == n0 / BLOCK_N)
#pragma unroll 1
            for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                float four[4];
                load_shared_16(four, stage + at);
                u32 packed[WORDS][2];
                split_run(packed, four);
                count(a_status, losses(packed, four));
            }
        if (b_turn == m0 / BLOCK_M)
#pragma unroll 1
            for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                float four[4];
                load_shared_16(four, stage + A_BYTES + at);
                u32 packed[WORDS][2];
                split_run(packed, four);
                count(b_status, losses(packed, four));
            }
        next_turn();
    };

    // One step of k: 6 word products for each fragment of C.
    const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][2][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][1][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][2][j]);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < TILES_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
    };

    const auto load_all = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (int part = 0; part < 8; ++part) load(part);
    };
    if (tiles_k > 0) {
        load_all();
        store(stages);
    }
    block_barrier();
    int slot = 0;  // the stage that tile `tile` lies in
    int until_promotion = 16;
#pragma unroll 1
    for (int tile = 0; tile < tiles_k; ++tile) {
        const u32 stage = stages + slot * STAGE_BYTES, other = stages + (slot ^ 1) * STAGE_BYTES;
        const bool next = tile + 1 < tiles_k;
        if (next) load_all();
        count_stage(stage);
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0);
        }
        if (next) store(other);  // which no one has read since the last barrier
        block_barrier();
        slot ^= 1;
        if (--until_promotion == 0) {
            promote();
            until_promotion = 16;
        }
    }
    promote();

    // Each slice of k leaves its part of the sum in the workspace. The block that arrives last adds them
    // up, always in the order of the slices, so that the same operands give the same bits.
    float* const part = parts + ((long long)block * SLICES) * (BLOCK_M * BLOCK_N) + thread_id();
#pragma unroll
    for (int i = 0; i < TILES_M; ++i)
#pragma unroll
        for (int j = 0; j < TILES_N; ++j)
#pragma unroll
            for (int r = 0; r < 8; ++r)
                part[(slice * 32 + (i * TILES_N + j) * 8 + r) * THREADS] = sum_main[i][j][r];
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    block_barrier();  // all of this block's part is there, and shared memory is free
    if (thread_id() == 0) {
        const u32 before = __hip_atomic_fetch_add(arrived + block, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        *(u32*)shared = before;
        if (before == SLICES - 1) arrived[block] = 0;  // as the next launch wants it
    }
    block_barrier();
    if (*(u32*)shared != SLICES - 1) return;
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    float total[32] = {};
#pragma unroll 1
    for (int s = 0; s < SLICES; ++s)
#pragma unroll
        for (int e = 0; e < 32; ++e) total[e] += load_of_other_blocks(part + (s * 32 + e) * THREADS);

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 4);
    const int column0 = n0 + warp_n + (lane & 15);
    const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
    u32 bad[1] = {};  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < TILES_M; ++i)
#pragma unroll
        for (int j = 0; j < TILES_N; ++j)
#pragma unroll
            for (int r = 0; r < 8; ++r) {
                const int row = row0 + i * 16 + r * 2;
                const int column = column0 + j * 16 + 0;
                if (row >= m || column >= n) continue;
                float product = total[(i * TILES_N + j) * 8 + r];
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * TILES_N + j) * 8 + r;
                    bad[element / 32] |= 1u << element % 32;
                    continue;
                }
                float* to = c + row * ldc + column;
                *to = read_c ? fmaf(alpha, product, beta * *to) : alpha * product;
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
#pragma unroll
    for (int group = 0; group < 1; ++group)
        while (bad[group]) {
            const int element = group * 32 + __ffs((int)bad[group]) - 1;
            bad[group] &= bad[group] - 1;
            const int r = element % 8;
            const int j = element / 8 % TILES_N, i = element / (8 * TILES_N);
            const long long row = row0 + i * 16 + r * 2;
            const long long column = column0 + j * 16 + 0;
            float product = 0.0f;
            for (long long kk = 0; kk < k; ++kk) product = fmaf(a[kk * lda + row], b[kk * ldb + column], product);
            float* to = c + row * ldc + column;
            *to = read_c ? fmaf(alpha, product, beta * *to) : alpha * product;
            __hip_atomic_fetch_add(repaired, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }

}

}  // namespace gemmgen_3d967204
