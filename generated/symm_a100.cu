// kernel    gemmgen_scaled_mma_128x128x32_88f12d85
// computes  C = alpha A B + beta C of a symmetric B, of which the upper triangle is read in FP32, layout nn (row major), any m, n, k
// scheme    scaled: power-of-two row and column scales, three products in one accumulator
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 32 k (scaled's own: never)
// special   exact
// fragment  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// decided   block 128x128x32, warp 64x32x32, split prepass, loads async, 2 stages, group 8, 1 slice of k, promote 32, 2 fragment buffers
// block     256 threads, 65536 B of dynamic shared memory
// target    sm_80
// plan      88f12d85, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_88f12d85 {

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
// An element of B, of which a triangle is read.
GG_DEVICE float given_b(const float* x, long long ld, int o, int kk) {
    const auto at = [&](long long o, long long kk) { return x[kk * ld + o]; };
    return kk < o ? at(o, kk) : at(kk, o);
}
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
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u32* __restrict__ absmax)      // [m], zero before the first launch
{
    const int blocks_k = (k + 255) / 256;
    const int k0 = block % blocks_k * 256;
    const int outer0 = block / blocks_k * 32;
    const int k_end = min(k, k0 + 256);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    // A warp takes 4 m along k, all of which it reads before it compares any.
    const int first = outer0 + warp * 4;
    u32 largest[4] = {};
    if (k0 + 256 <= k && ld % 4 == 0 && ((u64)x & 15) == 0) {
#pragma unroll
        for (int row = 0; row < 4; ++row)
#pragma unroll
            for (int i = 0; i < 256; i += 128) {
                const int o = min(first + row, outer - 1);  // a row twice does no harm
                const float4 four = *(const float4*)(x + (long long)o * ld + k0 + i + lane * 4);
                largest[row] = max(max(max(largest[row], finite_magnitude(four.x)), finite_magnitude(four.y)),
                                   max(finite_magnitude(four.z), finite_magnitude(four.w)));
            }
    } else {
#pragma unroll
        for (int row = 0; row < 4; ++row)
            for (int kk = k0 + lane; first + row < outer && kk < k_end; kk += 32)
                largest[row] = max(largest[row], finite_magnitude(x[(long long)(first + row) * ld + kk]));
    }
#pragma unroll
    for (int row = 0; row < 4; ++row) {
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) largest[row] = max(largest[row], __shfl_xor_sync(0xffffffffu, largest[row], mask));
        if (lane == 0 && first + row < outer) atomicMax(absmax + first + row, largest[row]);
    }
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 32][word: 2][m: 128][k: 32], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
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

// Largest finite magnitude in each column of operand b, as FP32 bits, which order as integers do.
GG_DEVICE void absmax_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u32* __restrict__ absmax)      // [n], zero before the first launch
{
    const int blocks_k = (k + 255) / 256;
    const int k0 = block % blocks_k * 256;
    const int outer0 = block / blocks_k * 32;
    const int k_end = min(k, k0 + 256);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    // A lane walks along k of one n; the warps take every 8th k.
    const int o = outer0 + lane;
    if (o < outer) {
        u32 largest = 0;
        {
            for (int kk = k0 + warp; kk < k_end; kk += 8)
                largest = max(largest, finite_magnitude(given_b(x, ld, o, kk)));
        }
        atomicMax(absmax + o, largest);
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 32][word: 2][n: 128][k: 32], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
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

    // Neighbouring threads read whole sectors in either triangle: along k, or along n.
#pragma unroll
    for (int i = 0; i < 8; ++i)
        value[i] = o < outer && k0 + my_k + i < k ? given_b(x, ld, o, k0 + my_k + i) : 0.0f;

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
gemmgen_scaled_mma_128x128x32_88f12d85_absmax(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k, u32* __restrict__ a_absmax, u32* __restrict__ b_absmax)
{
    const int blocks_a = ((m + 31) / 32) * ((k + 255) / 256);
    if ((int)blockIdx.x < blocks_a)
        absmax_a((int)blockIdx.x, a, lda, m, k, a_absmax);
    else
        absmax_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_absmax);
}

extern "C" __global__ void __launch_bounds__(256, 3)
gemmgen_scaled_mma_128x128x32_88f12d85_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 127) / 128 * 128 + 63) / 64) * ((k + 31) / 32);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_absmax, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_absmax, b_status);
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
gemmgen_scaled_mma_128x128x32_88f12d85(
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

    // Blocks walk down the GROUP_ROWS rows of tiles of a raster group before they move on to the next column, so
    // that those at work together share their operands in L2.
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int block = (int)blockIdx.x;
    const int raster = block / (GROUP_ROWS * blocks_n), in_raster = block % (GROUP_ROWS * blocks_n);
    const int raster_rows = min(GROUP_ROWS, blocks_m - raster * GROUP_ROWS);
    const int m0 = (raster * GROUP_ROWS + in_raster % raster_rows) * BLOCK_M;
    const int n0 = in_raster / raster_rows * BLOCK_N;
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
                if (row >= m || column >= n) continue;
                float product = sum_main[i][j][r];
                product = scale_by(product, row_scales[i][r & ROW_BITS] + column_scales[j][r & ~ROW_BITS]);
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 4 + r;
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
            const int r = element % 4;
            const int j = element / 4 % FRAGMENTS_N, i = element / (4 * FRAGMENTS_N);
            const long long row = row0 + i * 16 + (r >> 1) * 8;
            const long long column = column0 + j * 8 + (r & 1);
            float product = 0.0f;
            for (long long kk = 0; kk < k; ++kk)
                product = fmaf(a[row * lda + kk], given_b(b, ldb, column, kk), product);
            put_element(c + row * ldc + column, product, alpha, beta);
            atomicAdd(repaired, 1ull);
        }
}

}  // namespace gemmgen_88f12d85
