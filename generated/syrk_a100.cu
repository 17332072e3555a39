// kernel    gemmgen_scaled_mma_128x128x32_7de36979
// computes  the lower triangle of C = alpha A A^T + beta C, stored to the upper one too in FP32, layout tn (row major), any m, n, k
// scheme    scaled: power-of-two row and column scales, three products in one accumulator
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 32 k (scaled's own: never)
// special   exact
// fragment  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// decided   block 128x128x32, warp 64x32x32, split prepass, loads async, 2 stages, group 8, 1 slice of k, promote 32, 2 fragment buffers
// block     256 threads, 65536 B of dynamic shared memory
// target    sm_80
// plan      7de36979, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_7de36979 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

GG_DEVICE float widen_low(u32 bits) {
    u16 halves[2];
    float x;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves[0]), "=h"(halves[1]) : "r"(bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(halves[0]));
    return x;
}

GG_DEVICE float widen_high(u32 bits) {
    u16 halves[2];
    float x;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves[0]), "=h"(halves[1]) : "r"(bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(halves[1]));
    return x;
}

GG_DEVICE u32 round_nearest_even(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 2 rows share the 32 banks, so every 2 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 2 & 3); }

constexpr int WORDS = 2;
// 2^e for -126 <= e <= 127.
GG_DEVICE float power_of_two(int e) { return __uint_as_float((u32)(e + 127) << 23); }

// x 2^e with one rounding: the factor that could round comes last.
GG_DEVICE float scale_by(float x, int e) {
    e = max(-252, min(254, e));
    const int last = max(-126, min(127, e));
    return x * power_of_two(e - last) * power_of_two(last);
}

// The same of an element on its way to words. What is too small for that is held as the smallest number: words are zero
// then, too, but it is counted.
GG_DEVICE float scaled_element(float x, int e) {
    const float y = scale_by(x, e);
    return y == 0.0f && x != 0.0f ? __uint_as_float(1u) : y;
}

// Exponent that brings a row's largest finite element into [2^14, 2^15).
GG_DEVICE int row_exponent(u32 absmax) {
    if (absmax == 0) return 0;
    const int biased = (int)(absmax >> 23);
    // A subnormal's exponent is where its leading bit stands.
    const int exponent = biased > 0 ? biased - 127 : -118 - __clz((int)absmax);
    return 14 - exponent;
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
        // word 1: to nearest, ties to even
        packed[1][i / 2] = round_nearest_even(low, high);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words leave more than 2^-22.
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
        rest -= (i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2]));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= (i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2]));
        lossy = lossy || !(fabsf(rest) * 0x1p+22f <= magnitude);
        const bool finite = magnitude < __uint_as_float(0x7f800000u);
        counts += finite ? (overflow ? 1u << 10 : lossy ? 1u : 0u) : 1u << 20;
    }
    return counts;
}

// Adds a warp's counts up into an operand's counters: lossy, overflow, nonfinite.
GG_DEVICE void count(u64* counters, u32 counts) {
    if (!__any_sync(0xffffffffu, counts != 0)) return;
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) counts += __shfl_xor_sync(0xffffffffu, counts, mask);
    if ((int)threadIdx.x % 32 == 0) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const u64 found = (counts >> 10 * i) & 1023u;
            if (found) atomicAdd(counters + i, found);
        }
    }
}

// The bits of |x|, which order as integers do; 0 of what is not finite.
GG_DEVICE u32 finite_magnitude(float x) {
    const u32 bits = __float_as_uint(x) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

// Largest finite magnitude in each row of operand a, as FP32 bits, which order as integers do.
GG_DEVICE void absmax_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, m contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u32* __restrict__ absmax)      // [m], zero before the first launch
{
    const int blocks_k = (k + 255) / 256;
    const int k0 = block % blocks_k * 256;
    const int outer0 = block / blocks_k * 32;
    const int k_end = min(k, k0 + 256);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    // A lane walks along k of one m; the warps take every 8th k.
    const int o = outer0 + lane;
    if (o < outer) {
        u32 largest = 0;
        if (k0 + 256 <= k) {
#pragma unroll
            for (int i = 0; i < 256; i += 8)
                largest = max(largest, finite_magnitude(x[(long long)(k0 + warp + i) * ld + o]));
        } else {
            for (int kk = k0 + warp; kk < k_end; kk += 8)
                largest = max(largest, finite_magnitude(x[(long long)kk * ld + o]));
        }
        atomicMax(absmax + o, largest);
    }
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 32][word: 2][m: 128][k: 32], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, m contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = (int)threadIdx.x % 4 * 8;
    const int my_outer = (int)threadIdx.x / 4;
    const int o = outer0 + my_outer;
    float value[8];

    // Read along m, where neighbours lie together, and turn the block's part in shared memory. Rows of
    // 65 floats: a warp's stores hit 32 neighbouring banks, and its loads, 8 outer by 4 k that are
    // 8 apart, hit banks 8 k + outer, all different.
    __shared__ float turned[32 * 65];
    for (int i = (int)threadIdx.x; i < 2048; i += 256) {
        const int column = i % 64, row = i / 64;
        const bool inside = outer0 + column < outer && k0 + row < k;
        turned[row * 65 + column] = inside ? x[(long long)(k0 + row) * ld + (outer0 + column)] : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < 8; ++i) value[i] = turned[(my_k + i) * 65 + my_outer];

    const int exponent = o < outer ? row_exponent(absmax[o]) : 0;
    for (int i = 0; i < 8; ++i) value[i] = scaled_element(value[i], exponent);
    u32 packed[WORDS][4];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 32) {
        const int row = o % 128, chunk = kk % 32 * 2 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 32) * 16384 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses(packed, value));
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_scaled_mma_128x128x32_7de36979_absmax(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k, u32* __restrict__ a_absmax, u32* __restrict__ b_absmax)
{
    absmax_a((int)blockIdx.x, a, lda, m, k, a_absmax);
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_scaled_mma_128x128x32_7de36979_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    u64* __restrict__ a_status)
{
    split_a((int)blockIdx.x, a, lda, m, k, a_words, a_absmax, a_status);
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
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 64 floats a thread.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 32;
constexpr int WARP_M = 64, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 256;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 2;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
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
GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n) { return tile_in_triangle(place, tiles_m, 0); }
constexpr int FRAGMENTS_M = 4, FRAGMENTS_N = 4;  // fragments of m16n8k16 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
constexpr int ROW_BYTES = BLOCK_K * 2;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int STAGE_BYTES = WORDS * (A_BYTES + B_BYTES);

// 16 bytes from global to shared memory, past the registers and the L1 cache.
GG_DEVICE void cp_async_16(u32 to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Commits the copies issued since the last call: they are one group.
GG_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of this thread's newest commit groups are still under way.
template <int Pending>
GG_DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

// Four matrices of eight 16-byte rows; lane l gives the address of row l % 8 of matrix l / 8.
GG_DEVICE void ldmatrix(u32 (&r)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}

// c[16, 8] += a[16, 16] b[16, 8] on the matrix unit, which truncates as it accumulates.
GG_DEVICE void multiply_add(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_scaled_mma_128x128x32_7de36979(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // Blocks are numbered through the tiles of C that are computed.
    [[maybe_unused]] const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    const int block = (int)blockIdx.x;
    const Tile tile = tile_at(block, tiles_m, tiles_n);
    const int m0 = tile.row * BLOCK_M, n0 = tile.column * BLOCK_N;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = (k + BLOCK_K - 1) / BLOCK_K;
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k;

    float acc_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit
    float sum_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in FP32 registers

    // The matrix unit truncates when it adds, FP32 rounds to nearest: every 32 k the
    // unit's sum moves over. Sums that are scaled up err that much less and stay.
    const auto promote = [&]() {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    sum_main[i][j][r] += acc_main[i][j][r];
                    acc_main[i][j][r] = 0.0f;
                }
    };

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 16384 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 16384 + copy_from;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            cp_async_16(stage + copy_to + i * (THREADS * 16), a_from + i * THREADS * 16);
        a_from += 16384;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            cp_async_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_from + i * THREADS * 16);
        b_from += 16384;
    };

    // The part of a fragment's address that is this lane's own.
    const int a_row = lane & 15, a_chunk = lane >> 4;
    const int b_row = (lane & 7) + (lane >> 4) * 8, b_chunk = (lane >> 3) & 1;
    const u32 a_offset = (warp_m + a_row) * ROW_BYTES;
    const u32 b_offset = (warp_n + b_row) * ROW_BYTES + WORDS * A_BYTES;
    u32 a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][4], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][2];

    // Fetches the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            // Fragments start at rows that are multiples of 8, which the swizzle does not see.
            const u32 a_at = stage + a_offset + word * A_BYTES + swizzle(a_row, step * 2 + a_chunk) * 16;
            const u32 b_at = stage + b_offset + word * B_BYTES + swizzle(b_row, step * 2 + b_chunk) * 16;
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) ldmatrix(a_fragments[buffer][word][i], a_at + i * 16 * ROW_BYTES);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j += 2) {
                u32 pair[4];
                ldmatrix(pair, b_at + j * 8 * ROW_BYTES);
                b_fragments[buffer][word][j][0] = pair[0], b_fragments[buffer][word][j][1] = pair[1];
                b_fragments[buffer][word][j + 1][0] = pair[2], b_fragments[buffer][word][j + 1][1] = pair[3];
            }
        }
    };

    // One step of k: 3 word products for each fragment of C.
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
    };

    // Prologue: all stages but one are on their way.
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < stage_count) fill(stages + stage * STAGE_BYTES);
        cp_async_commit();
    }
    int slot = 0;                // where stage `index` of k lies
    int free_slot = STAGES - 1;  // the stage that was multiplied last
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    if (stage_count > 0) fetch(0, stages, 0);
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages + slot * STAGE_BYTES;
        const int next_slot = slot + 1 == STAGES ? 0 : slot + 1;
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            // While one buffer's fragments are multiplied, the next step's are fetched into the other.
            if (step + 1 < K_STEPS) {
                fetch((step + 1) % 2, stage, step + 1);
            } else {
                cp_async_wait<STAGES - 2>();  // this thread's part of the next stage is there,
                __syncthreads();  // everyone's is, and no one reads `stage` any more
                if (index + 1 < stage_count) fetch(0, stages + next_slot * STAGE_BYTES, 0);
            }
            if (step == 0) {
                if (index + STAGES - 1 < stage_count) fill(stages + free_slot * STAGE_BYTES);
                cp_async_commit();  // an empty commit group keeps their count in step
            }
            multiply(step % 2);
        }
        free_slot = slot;
        slot = next_slot;
        promote();
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 2);
    const int column0 = n0 + warp_n + (lane & 3) * 2;
    constexpr int ROW_BITS = 2;  // of r: they say the row, the others the column
    int row_scales[FRAGMENTS_M][4];
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r & ~ROW_BITS) continue;
            const int row = row0 + i * 16 + (r >> 1) * 8;
            row_scales[i][r] = row < m ? -row_exponent(a_absmax[row]) : 0;
        }
    int column_scales[FRAGMENTS_N][4];
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r & ROW_BITS) continue;
            const int column = column0 + j * 8 + (r & 1);
            column_scales[j][r] = column < n ? -row_exponent(b_absmax[column]) : 0;
        }
    u32 bad[2] = {};  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + i * 16 + (r >> 1) * 8;
                const int column = column0 + j * 8 + (r & 1);
                if (row >= m || column >= n || !(column <= row)) continue;
                float product = sum_main[i][j][r];
                product = scale_by(product, row_scales[i][r & ROW_BITS] + column_scales[j][r & ~ROW_BITS]);
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 4 + r;
                    bad[element / 32] |= 1u << element % 32;
                    continue;
                }
                put_element(c + row * ldc + column, product, alpha, beta);
                c[column * ldc + row] = c[row * ldc + column];
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
#pragma unroll
    for (int part = 0; part < 2; ++part)
        while (bad[part]) {
            const int element = part * 32 + __ffs((int)bad[part]) - 1;
            bad[part] &= bad[part] - 1;
            const int r = element % 4;
            const int j = element / 4 % FRAGMENTS_N, i = element / (4 * FRAGMENTS_N);
            const long long row = row0 + i * 16 + (r >> 1) * 8;
            const long long column = column0 + j * 8 + (r & 1);
            float product = 0.0f;
            for (long long kk = 0; kk < k; ++kk)
                product = fmaf(a[kk * lda + row], b[kk * ldb + column], product);
            put_element(c + row * ldc + column, product, alpha, beta);
            c[column * ldc + row] = c[row * ldc + column];
            atomicAdd(repaired, 1ull);
        }
}

}  // namespace gemmgen_7de36979
