// kernel    gemmgen_ootomo_mfma_128x128x16_fe87603b
// computes  the upper triangle of C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   never (ootomo's own: every 16 k)
// special   exact
// fragment  v_mfma_f32_32x32x8_f16
// decided   block 128x128x16, warp 64x64x16, split prepass, loads grouped, 2 stages, group 1, 1 slice of k, promote 0, 1 fragment buffer
// block     256 threads, 32768 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      fe87603b, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_fe87603b {

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

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 4 rows share the 32 banks, so every 4 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 4 & 1); }

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

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 16][word: 2][m: 128][k: 16], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = thread_id() % 4 * 8;
    const int my_outer = thread_id() / 4;
    const int o = outer0 + my_outer;
    float value[8];

    const float* from = x + (long long)o * ld + (k0 + my_k);
    const bool inside = o < outer;
    if (inside && k0 + my_k + 8 <= k && ((u64)from & 15) == 0) {
        for (int i = 0; i < 8; i += 4) {
            const float4 four = *(const float4*)(from + i);
            value[i] = four.x, value[i + 1] = four.y, value[i + 2] = four.z, value[i + 3] = four.w;
        }
    } else {
        for (int i = 0; i < 8; ++i)
            value[i] = inside && k0 + my_k + i < k ? from[i] : 0.0f;
    }

    u32 packed[WORDS][4];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 15) / 16, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 16) {
        const int row = o % 128, chunk = kk % 16 * 2 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 16) * 8192 + row * 32;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 4096 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses(packed, value));
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 16][word: 2][n: 128][k: 16], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = thread_id() % 4 * 8;
    const int my_outer = thread_id() / 4;
    const int o = outer0 + my_outer;
    float value[8];

    // Read along n, where neighbours lie together, and turn the block's part in shared memory. Rows of
    // 65 floats: a warp's stores hit 32 neighbouring banks, and its loads, 8 outer by 4 k that are
    // 8 apart, hit banks 8 k + outer, all different.
    __attribute__((shared)) static float turned[32 * 65];
    for (int i = thread_id(); i < 2048; i += 256) {
        const int column = i % 64, row = i / 64;
        const bool inside = outer0 + column < outer && k0 + row < k;
        turned[row * 65 + column] = inside ? x[(long long)(k0 + row) * ld + (outer0 + column)] : 0.0f;
    }
    block_barrier();
    for (int i = 0; i < 8; ++i) value[i] = turned[(my_k + i) * 65 + my_outer];

    u32 packed[WORDS][4];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 15) / 16, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 16) {
        const int row = o % 128, chunk = kk % 16 * 2 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 16) * 8192 + row * 32;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 4096 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses(packed, value));
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_ootomo_mfma_128x128x16_fe87603b_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 127) / 128 * 128 + 63) / 64) * ((k + 31) / 32);
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_status);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 128, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     2 x 2 warps of 64 x 64. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 64 floats a thread.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 16 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 16;
constexpr int WARP_M = 64, WARP_N = 64;
constexpr int WARPS_N = 2;
constexpr int THREADS = 256;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int TILE_M = BLOCK_M, TILE_N = BLOCK_N;  // what the kind of product calls a tile
struct Tile {
    int row, column;
};
// The tiles of a triangle: each row of them has EACH tiles more than the row above, and the first EACH - less.
constexpr int EACH = TILE_M / TILE_N;
// Tiles of the rows above.
GG_DEVICE long long tiles_above(int row, int less) { return (long long)row * (EACH * (row + 1) - 2 * less) / 2; }
// The row of tile `place`: the last one with no more than `place` tiles above it.
GG_DEVICE int row_of(int place, int less) {
    int row = 0;
#pragma unroll
    for (int step = 1 << 14; step > 0; step /= 2)
        if (tiles_above(row + step, less) <= place) row += step;
    return row;
}
// Tiles are worked off as those of a whole C are: a raster group of GROUP_ROWS rows, down each column of tiles that all of its rows have before the
// next, and then what lower rows have more, row by row.
GG_DEVICE Tile tile_in_triangle(int place, int tiles_m, int less) {
    const int first = row_of(place, less) / GROUP_ROWS * GROUP_ROWS, rows = min(GROUP_ROWS, tiles_m - first);
    const int in_group = place - (int)tiles_above(first, less), common = EACH * (first + 1) - less;
    if (in_group < rows * common || rows == 1) return {first + in_group % rows, in_group / rows};
    const int more = in_group - rows * common, below = row_of(more, 0);
    return {first + 1 + below, common + more - (int)tiles_above(below, 0)};
}
// The last row of tiles of an upper triangle is the first one here, from right to left.
GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n) {
    const Tile tile = tile_in_triangle(place, tiles_m, tiles_m * EACH - tiles_n);
    return {tiles_m - 1 - tile.row, tiles_n - 1 - tile.column};
}
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 2;  // fragments of m32n32k16 in a warp
constexpr int K_STEPS = 1;  // instructions along k in a stage
constexpr int ROW_BYTES = BLOCK_K * 2;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int STAGE_BYTES = WORDS * (A_BYTES + B_BYTES);

GG_DEVICE void load_16(u32 (&r)[4], const void* from) {
    const u32x4 four = *(const u32x4*)from;
    r[0] = four.x, r[1] = four.y, r[2] = four.z, r[3] = four.w;
}

GG_DEVICE void store_shared_16(u32 to, const u32 (&r)[4]) { *(GG_SHARED u32x4*)to = u32x4{r[0], r[1], r[2], r[3]}; }

// A lane's part of an operand's fragment, and of C's.
typedef u32 fragment __attribute__((ext_vector_type(4)));
typedef float sums __attribute__((ext_vector_type(16)));

GG_DEVICE void load_fragment(fragment& r, u32 address) {
    r = *(GG_SHARED const fragment*)address;
}

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
gemmgen_ootomo_mfma_128x128x16_fe87603b(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ repaired)
{
    __attribute__((shared, aligned(128))) static unsigned char shared[STAGES * STAGE_BYTES];
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // Blocks are numbered through the tiles of C that are computed.
    [[maybe_unused]] const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    const int block = block_id();
    const Tile tile = tile_at(block, tiles_m, tiles_n);
    const int m0 = tile.row * BLOCK_M, n0 = tile.column * BLOCK_N;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = (k + BLOCK_K - 1) / BLOCK_K;
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k;

    sums acc_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
    sums acc_correction[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^11 too large

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = thread_id() * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 8192 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 8192 + copy_from;

    u32 a_held[2][4], b_held[2][4];  // a stage on its way to shared memory

    // Starts the loads of part `part` of the next stage of k.
    const auto load = [&](int part) __attribute__((always_inline)) {
        if (part < 2) {
            const int i = part;
            load_16(a_held[i], a_from + i * THREADS * 16);
        } else {
            const int i = part - 2;
            load_16(b_held[i], b_from + i * THREADS * 16);
        }
    };
    // Puts that stage of k into the place at `stage`.
    const auto store = [&](u32 stage) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            store_shared_16(stage + copy_to + i * (THREADS * 16), a_held[i]);
        a_from += 8192;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            store_shared_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_held[i]);
        b_from += 8192;
    };

    // The part of a fragment's address that is this lane's own.
    const int a_row = (lane & 31), a_chunk = (lane >> 5);
    const int b_row = (lane & 31), b_chunk = (lane >> 5);
    const u32 a_offset = (warp_m + a_row) * ROW_BYTES;
    const u32 b_offset = (warp_n + b_row) * ROW_BYTES + WORDS * A_BYTES;
    fragment a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N];

    // Fetches the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            // Fragments start at rows that are multiples of 8, which the swizzle does not see.
            const u32 a_at = stage + a_offset + word * A_BYTES + swizzle(a_row, step * 2 + a_chunk) * 16;
            const u32 b_at = stage + b_offset + word * B_BYTES + swizzle(b_row, step * 2 + b_chunk) * 16;
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) load_fragment(a_fragments[buffer][word][i], a_at + i * 32 * ROW_BYTES);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                load_fragment(b_fragments[buffer][word][j], b_at + j * 32 * ROW_BYTES);
            }
        }
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
        for (int part = 0; part < 4; ++part) load(part);
    };
    if (stage_count > 0) {
        load_all();
        store(stages);
    }
    block_barrier();
    int slot = 0;  // where stage `index` of k lies
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages + slot * STAGE_BYTES, other = stages + (slot ^ 1) * STAGE_BYTES;
        const bool next = index + 1 < stage_count;
        if (next) load_all();
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0);
        }
        if (next) store(other);  // which no one has read since the last barrier
        block_barrier();
        slot ^= 1;
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 5) * 4;
    const int column0 = n0 + warp_n + (lane & 31);
    u32 bad[2] = {};  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 16; ++r) {
                const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                const int column = column0 + j * 32;
                if (row >= m || column >= n || !(row <= column)) continue;
                float product = fmaf(acc_correction[i][j][r], 0x1p-11f, acc_main[i][j][r]);
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 16 + r;
                    bad[element / 32] |= 1u << element % 32;
                    continue;
                }
                put_element(c + row * ldc + column, product, alpha, beta);
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
#pragma unroll
    for (int part = 0; part < 2; ++part)
        while (bad[part]) {
            const int element = part * 32 + __ffs((int)bad[part]) - 1;
            bad[part] &= bad[part] - 1;
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

}  // namespace gemmgen_fe87603b
