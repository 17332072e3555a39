// kernel    gemmgen_ootomo_mfma_128x128x32_8b349362
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   never (ootomo's own: every 16 k)
// special   exact
// fragment  v_mfma_f32_32x32x8_f16
// decided   block 128x128x32, warp 64x32x32, split register, loads grouped, 2 stages, group 1, 1 slice of k, promote 0, 2 fragment buffers
// block     512 threads, 65536 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      8b349362, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_8b349362 {

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
GG_DEVICE u32 __float_as_uint(float x) { return __builtin_bit_cast(u32, x); }
GG_DEVICE float __uint_as_float(u32 x) { return __builtin_bit_cast(float, x); }
GG_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GG_DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
GG_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
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
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

GG_DEVICE float widen_low(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)bits); }
GG_DEVICE float widen_high(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)(bits >> 16)); }

GG_DEVICE u32 round_nearest_even(float low, float high) {
    return __builtin_bit_cast(u16, (_Float16)low) | (u32)__builtin_bit_cast(u16, (_Float16)high) << 16;
}

// Operand a lies [m][k]: lanes of 8 rows read four k each together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 128 + (chunk ^ (row & 7)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 512 + chunk * 16; }

constexpr int WORDS = 2;

// What the matrix unit makes of a word: gfx90a takes a subnormal one for zero.
GG_DEVICE float as_multiplied(float word) {
#if defined(__gfx90a__)
    return fabsf(word) < 0x1p-14f ? 0.0f : word;
#else
    return word;
#endif
}

// Splits N elements into words, 2 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        float low = x[i], high = x[i + 1];  // what is not in the words yet
        // word 0: to nearest, ties to even
        const u32 word_0 = packed[0][i / 2] = round_nearest_even(low, high);
        low -= widen_low(word_0), high -= widen_high(word_0);
        // word 1: to nearest, ties to even, of the residual times 2^11
        packed[1][i / 2] = round_nearest_even(low * 0x1p+11f, high * 0x1p+11f);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words as they are multiplied leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-3, 2^15): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-3f) && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= as_multiplied((i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2])));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= as_multiplied((i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2]))) * 0x1p-11f;
        lossy = lossy || !(fabsf(rest) * 0x1p+22f <= magnitude);
        const bool finite = magnitude < __uint_as_float(0x7f800000u);
        counts += finite ? (overflow ? 1u << 10 : lossy ? 1u : 0u) : 1u << 20;
    }
    return counts;
}

// Adds a warp's counts up into an operand's counters: lossy, overflow, nonfinite.
GG_DEVICE void count(u64* counters, u32 counts) {
    if (!(__builtin_amdgcn_ballot_w64(counts != 0) != 0)) return;
#pragma unroll
    for (int mask = 32; mask > 0; mask /= 2) counts += shuffle_xor(counts, mask);
    if (thread_id() % 64 == 0) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const u64 found = (counts >> 10 * i) & 1023u;
            if (found) __hip_atomic_fetch_add(counters + i, found, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }
    }
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 128, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     2 x 4 warps of 64 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 32 floats a thread.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 32;
constexpr int WARP_M = 64, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 512;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 2;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 1;  // fragments of m32n32k16 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

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
typedef u32 fragment __attribute__((ext_vector_type(4)));
typedef float sums __attribute__((ext_vector_type(16)));

// c[32, 32] += a[32, 16] b[16, 32] on the matrix unit, by 2 of v_mfma_f32_32x32x8_f16: each
// takes 8 of the 16 k, 4 of every lane.
typedef _Float16 operand __attribute__((ext_vector_type(4)));
typedef u32 part __attribute__((ext_vector_type(2)));

GG_DEVICE void multiply_add(sums& c, fragment a, fragment b) {
    const part a0 = __builtin_shufflevector(a, a, 0, 1), b0 = __builtin_shufflevector(b, b, 0, 1);
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(operand, a0), __builtin_bit_cast(operand, b0), c, 0, 0, 0);
    const part a1 = __builtin_shufflevector(a, a, 2, 3), b1 = __builtin_shufflevector(b, b, 2, 3);
    c = __builtin_amdgcn_mfma_f32_32x32x8f16(__builtin_bit_cast(operand, a1), __builtin_bit_cast(operand, b1), c, 0, 0, 0);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
gemmgen_ootomo_mfma_128x128x32_8b349362(
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    __attribute__((shared, aligned(128))) static unsigned char shared[STAGES * STAGE_BYTES];
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // Blocks walk down the GROUP_ROWS rows of tiles of a raster group before they move on to the next column, so
    // that those at work together share their operands in L2.
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int block = block_id();
    const int raster = block / (GROUP_ROWS * blocks_n), in_raster = block % (GROUP_ROWS * blocks_n);
    const int raster_rows = min(GROUP_ROWS, blocks_m - raster * GROUP_ROWS);
    const int m0 = (raster * GROUP_ROWS + in_raster % raster_rows) * BLOCK_M;
    const int n0 = in_raster / raster_rows * BLOCK_N;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = (k + BLOCK_K - 1) / BLOCK_K;
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k;

    sums acc_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
    sums acc_correction[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^11 too large

    // Stages are copied in the operands' own order; what lies outside them becomes zero.
    int k0 = first_stage * BLOCK_K;  // of the stage that is loaded next
    const bool a_aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
    const int a_copy_row = thread_id() / 8, a_copy_column = thread_id() % 8 * 4;
    const float* a_from = a + (long long)(m0 + a_copy_row) * lda + k0 + a_copy_column;
    const bool b_aligned = ((u64)b & 15) == 0 && (ldb & 3) == 0;
    const int b_copy_row = thread_id() / 8, b_copy_column = thread_id() % 8 * 4;
    const float* b_from = b + (long long)(k0 + b_copy_row) * ldb + n0 + b_copy_column;

    float a_held[2][4], b_held[4][4];  // a stage on its way to shared memory

    // Starts the loads of part `part` of the stage at `k0`; what lies outside the operands is zero.
    const auto load = [&](int part) __attribute__((always_inline)) {
        if (part < 2) {
            const int i = part;
            const int row = a_copy_row + i * 64;
            const int column = a_copy_column;
            const int rows = m - m0, columns = k - k0;  // inside the operand
            const float* from = a_from + (long long)(i * 64) * lda;
            if (a_aligned && row < rows && column + 4 <= columns) {
                u32 four[4];
                load_16(four, from);
                for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
            } else {
                for (int e = 0; e < 4; ++e) a_held[i][e] = row < rows && column + e < columns ? load_4(from + e) : 0.0f;
            }
        } else {
            const int i = part - 2;
            const int row = b_copy_row + i / 4 * 64;
            const int column = b_copy_column + i % 4 * 32;
            const int rows = k - k0, columns = n - n0;  // inside the operand
            const float* from = b_from + (long long)(i / 4 * 64) * ldb + i % 4 * 32;
            if (b_aligned && row < rows && column + 4 <= columns) {
                u32 four[4];
                load_16(four, from);
                for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
            } else {
                for (int e = 0; e < 4; ++e) b_held[i][e] = row < rows && column + e < columns ? load_4(from + e) : 0.0f;
            }
        }
    };
    // Puts that stage of k into the place at `stage`.
    const auto store = [&](u32 stage) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            {
                const int row = a_copy_row + i * 64;
                u32 four[4];
                for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
                store_shared_16(stage + at_a(row, a_copy_column / 4), four);
            }
        a_from += BLOCK_K;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            {
                const int row = b_copy_row + i / 4 * 64;
                u32 four[4];
                for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
                if (row < 32) store_shared_16(stage + A_BYTES + at_b(row, b_copy_column / 4 + i % 4 * 8), four);
            }
        b_from += BLOCK_K * ldb;
        k0 += BLOCK_K;
    };

    const int run_row = (lane & 31), run_k = (lane >> 5) * 8;
    fragment a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N];

    // Fetches and splits the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
        const int kk = step * 16 + run_k;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
            {
                const int row = warp_m + i * 32 + run_row;
                float x[8];
#pragma unroll
                for (int piece = 0; piece < 2; ++piece) load_shared_16((float (&)[4])x[4 * piece], stage + at_a(row, kk / 4 + piece));
                u32 packed[WORDS][4];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 4; ++r) a_fragments[buffer][word][i][r] = packed[word][r];
            }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i)
            {
                const int row = warp_n + i * 32 + run_row;
                float x[8];
#pragma unroll
                for (int e = 0; e < 8; ++e) x[e] = load_shared_4(stage + A_BYTES + at_b(kk + e, row / 4) + row % 4 * 4);
                u32 packed[WORDS][4];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 4; ++r) b_fragments[buffer][word][i][r] = packed[word][r];
            }
    };

    // Counts what words cannot hold of the stage at `stage`.
    int a_turn = first_stage % blocks_n, b_turn = first_stage % blocks_m;  // which block along n, along m
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

    // One step of k: 3 word products for each fragment of C.
    const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_correction[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_correction[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
    };

    const auto load_all = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (int part = 0; part < 6; ++part) load(part);
    };
    if (stage_count > 0) {
        load_all();
        store(stages);
    }
    block_barrier();
    int slot = 0;  // where stage `index` of k lies
    if (stage_count > 0) fetch(0, stages, 0);
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages + slot * STAGE_BYTES, other = stages + (slot ^ 1) * STAGE_BYTES;
        const bool next = index + 1 < stage_count;
        if (next) load_all();
        count_stage(stage);
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            // While one buffer's fragments are multiplied, the next step's are fetched into the other.
            if (step + 1 < K_STEPS) {
                fetch((step + 1) % 2, stage, step + 1);
            } else {
                if (next) store(other);  // which no one has read since the last barrier
                block_barrier();
                if (next) fetch(0, other, 0);
            }
            multiply(step % 2);
        }
        slot ^= 1;
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 5) * 4;
    const int column0 = n0 + warp_n + (lane & 31);
    u32 bad = 0;  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 16; ++r) {
                const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                const int column = column0 + j * 32;
                if (row >= m || column >= n) continue;
                float product = fmaf(acc_correction[i][j][r], 0x1p-11f, acc_main[i][j][r]);
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 16 + r;
                    bad |= 1u << element;
                    continue;
                }
                put_element(c + row * ldc + column, product, alpha, beta);
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
    while (bad) {
        const int element = __ffs((int)bad) - 1;
        bad &= bad - 1;
        const int r = element % 16;
        const int j = element / 16 % FRAGMENTS_N, i = element / (16 * FRAGMENTS_N);
        const long long row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
        const long long column = column0 + j * 32;
        float product = 0.0f;
        for (long long kk = 0; kk < k; ++kk)
            product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
        put_element(c + row * ldc + column, product, alpha, beta);
        __hip_atomic_fetch_add(repaired, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

}  // namespace gemmgen_8b349362
