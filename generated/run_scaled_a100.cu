// kernel    gemmgen_run_scaled_mma_128x64x32_4faf83df
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    run_scaled: power-of-two scales for runs of k, residual scaled by 2^11, three products
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 128 k (run_scaled's own: every 16 k)
// special   exact
// fragment  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// decided   block 128x64x32, warp 64x32x32, split prepass, loads async, 2 stages, group 8, 1 slice of k, promote 128, 1 fragment buffer
// block     128 threads, 49152 B of dynamic shared memory
// target    sm_80
// plan      4faf83df, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_4faf83df {

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
        // word 1: to nearest, ties to even, of the residual times 2^11
        packed[1][i / 2] = round_nearest_even(low * 0x1p+11f, high * 0x1p+11f);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-14, 2^15): as integers, their bits are in the same order.
    // Nor of zeros, which stand where a run is short: less one their bits are the largest integer.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits - 1), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-14f) - 1 && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= (i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2]));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= (i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2])) * 0x1p-11f;
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

constexpr int RUN_K = 1024;  // k of a row of A or column of B that share a power of two
constexpr int RUN_STAGES = 32;  // the stages of k that those are
constexpr int NO_EXPONENT = 1 << 14;  // of a run of zeros, but for the first of a row or column

// The exponent of a run: its words stand for its elements times 2^that. Of zeros it is any; the first run's is near the others.
GG_DEVICE int exponent_of(const int* runs, int at) {
    const int e = runs[at], first = runs[0];  // both at once: neither load waits for the other
    return e == NO_EXPONENT ? first : e;
}

// By which power of two the next run's unit differs from a run's, of exponents that lie `apart` from run to run; 1 from the last run's.
GG_DEVICE int behind_run(const int* runs, int run, int apart, bool last) {
    const int next = exponent_of(runs, (last ? run : run + 1) * apart);
    return (last ? 0 : next) - exponent_of(runs, run * apart);
}

// Whether that is so much, or so far from the first run's unit, that a sum in one might not be a number in the other.
GG_DEVICE bool is_far(const int* runs, int run, int apart, bool last) {
    const int by = exponent_of(runs, (last ? run : run + 1) * apart) - (last ? 0 : runs[0]);
    const int most = last ? 60 : 18;
    return by > most || by < -most;
}

// The unit of a sum: 2^e, e the exponent of the run at hand; the next run's, too; the same for the last time; or 1.
enum { NEAR, SAME_NEXT, FAR_NEXT, APART };

// x 2^e of a sum, with one rounding. Where e is less than the two factors hold nothing is left of it.
GG_DEVICE float sum_times(float x, int e) { return scale_by(x, e); }

// The bits of |x|, which order as integers do; 0 of what is not finite.
GG_DEVICE u32 finite_magnitude(float x) {
    const u32 bits = __float_as_uint(x) & 0x7fffffffu;
    return bits < 0x7f800000u ? bits : 0;
}

// A warp takes a run of k of a row of operand a, and keeps it in registers while it finds its largest element and splits it.
// Of at most 64 k half a warp does.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,        // packed stages, edges zero: [m / 128][k / 32][word: 2][m: 128][k: 32], rows swizzled
    int* __restrict__ exponents,   // [m / 128][runs][m: 128]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int stages_k = (k + 31) / 32, lanes = stages_k * 32 <= 64 ? 16 : 32;
    if ((int)threadIdx.x / lanes >= 8) return;  // whole warps
    const int runs = (k + RUN_K - 1) / RUN_K, run = block % runs, mine = (int)threadIdx.x % lanes * 4;
    const int o = block / runs * 8 + (int)threadIdx.x / lanes, k0 = run * RUN_K, end = min(RUN_K, stages_k * 32 - k0);
    const bool inside = o < outer, pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && k % 4 == 0;  // of 16 bytes
    const float* from = x + (inside ? (long long)o * ld + k0 + mine : 0);
    const int left = inside ? k - k0 - mine : 0;
    float value[8][4] = {};
    if (pieces) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            if (i * 128 >= left) continue;
            const float4 four = *(const float4*)(from + i * 128);
            value[i][0] = four.x, value[i][1] = four.y, value[i][2] = four.z, value[i][3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) value[i][e] = i * 128 + e < left ? from[i * 128 + e] : 0.0f;
    }

    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (i * 128 >= end) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) largest = max(largest, finite_magnitude(value[i][e]));
    }
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) {
        const u32 other = __shfl_xor_sync(0xffffffffu, largest, mask);
        if (mask < lanes) largest = max(largest, other);
    }
    const int exponent = row_exponent(largest);
    const bool packs = o < (outer + 127) / 128 * 128;
    if (packs && mine == 0) {
        exponents[((long long)(o / 128) * runs + run) * 128 + o % 128] = largest || run == 0 ? row_exponent(largest) : NO_EXPONENT;
    }
    const int place = o % 128, chunk = mine % 32 * 2 / 16;  // of 16 bytes
    u8* const to = words + ((long long)(o / 128) * stages_k + (k0 + mine) / 32) * 16384
                   + place * 64 + swizzle(place, chunk) * 16 + mine * 2 % 16;
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        if (end - i * 128 <= 256) {  // for a warp alike: pieces that lie behind a short run are no work
#pragma unroll
            for (int own = i; own < i + 2; ++own) {
                if (own * 128 >= end) continue;
                float part[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) part[e] = scaled_element(value[own][e], exponent);
                u32 packed[WORDS][2];
                split_run(packed, part);
                if (packs && own * 128 + mine < end)
#pragma unroll
                    for (int w = 0; w < WORDS; ++w)
                        *(u64*)(to + own * 128 / 32 * 16384 + w * 8192) =
                            packed[w][0] | (u64)packed[w][1] << 32;
                count(counters, losses(packed, part));
            }
            continue;
        }
        float part[16];
#pragma unroll
        for (int e = 0; e < 16; ++e) part[e] = scaled_element(value[i + e / 4][e % 4], exponent);
        u32 packed[WORDS][8];
        split_run(packed, part);
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            const int kk = (i + at) * 128;
            if (packs && kk + mine < end)
#pragma unroll
                for (int w = 0; w < WORDS; ++w)
                    *(u64*)(to + kk / 32 * 16384 + w * 8192) =
                        packed[w][2 * at] | (u64)packed[w][2 * at + 1] << 32;
        }
        count(counters, losses(packed, part));
    }
}

// A block takes a run of k of 8 columns of operand b: a thread 8 k of four neighbours, which it keeps in registers.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,        // packed stages, edges zero: [n / 64][k / 32][word: 2][n: 64][k: 32], rows swizzled
    int* __restrict__ exponents,   // [n / 64][runs][n: 64]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_outer = (((outer + 63) / 64 * 64 + 7) / 8), runs = (k + RUN_K - 1) / RUN_K, run = block / blocks_outer;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int mine = run * RUN_K + warp * 128 + lane / 2 * 8;
    const int first = block % blocks_outer * 8 + lane % 2 * 4;  // neighbouring blocks read what lies side by side
    const int stages_k = (k + 31) / 32, left = k - mine, end = min(RUN_K, stages_k * 32 - run * RUN_K);
    const bool alone = end <= 128;  // one warp holds the whole run, and waits for no other
    if (alone && warp > 0) return;
    const float* at = x + (long long)mine * ld + first;
    float values[4][8] = {};
    if (warp * 128 >= end) {  // behind a short run
    } else if (((u64)x & 15) == 0 && ld % 4 == 0 && first + 4 <= outer) {  // pieces of 16 bytes
#pragma unroll
        for (int i = 0; i < 8; ++i, at += ld) {
            if (i >= left) continue;
            const float4 four = *(const float4*)at;
            values[0][i] = four.x, values[1][i] = four.y, values[2][i] = four.z, values[3][i] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i, at += ld)
#pragma unroll
            for (int one = 0; one < 4; ++one) values[one][i] = i < left && first + one < outer ? at[one] : 0.0f;
    }

    __shared__ uint4 most[16];  // of each warp and four columns
    u32 largest[4] = {};
#pragma unroll
    for (int one = 0; one < 4; ++one) {
        if (warp * 128 >= end) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) largest[one] = max(largest[one], finite_magnitude(values[one][i]));
#pragma unroll
        for (int mask = 2; mask < 32; mask *= 2) largest[one] = max(largest[one], __shfl_xor_sync(0xffffffffu, largest[one], mask));
    }
    if (!alone) {
        if (lane < 2) most[warp * 2 + lane] = make_uint4(largest[0], largest[1], largest[2], largest[3]);
        __syncthreads();
#pragma unroll
        for (int other = 0; other < 8; ++other) {
            const uint4 found = most[other * 2 + lane % 2];
            largest[0] = max(largest[0], found.x), largest[1] = max(largest[1], found.y);
            largest[2] = max(largest[2], found.z), largest[3] = max(largest[3], found.w);
        }
    }
    if ((int)threadIdx.x < 2) {
#pragma unroll
        for (int one = 0; one < 4; ++one) {
            const int o = first + one;
            if (o < (outer + 63) / 64 * 64) {
                exponents[((long long)(o / 64) * runs + run) * 64 + o % 64] = largest[one] || run == 0 ? row_exponent(largest[one]) : NO_EXPONENT;
            }
        }
    }
#pragma unroll
    for (int at = 0; at < 32; at += 8) {
        if (warp * 128 >= end) continue;  // for a warp alike
        const int o = first + at / 8, kk = mine + at % 8;
        const int exponent = row_exponent(largest[at / 8]);
        float value[8];  // what makes 16 bytes of a word
#pragma unroll
        for (int i = 0; i < 8; ++i) value[i] = scaled_element(values[at / 8][at % 8 + i], exponent);
        u32 packed[WORDS][4];
        split_run(packed, value);
        const int stages_k = (k + 31) / 32, panels = (outer + 63) / 64;
        if (o < panels * 64 && kk < stages_k * 32) {
            const int row = o % 64, chunk = kk % 32 * 2 / 16;  // of 16 bytes
            u8* to = words + ((long long)(o / 64) * stages_k + kk / 32) * 8192 + row * 64;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                *(uint4*)(to + w * 4096 + swizzle(row, chunk) * 16) =
                    make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
        }
        count(counters, losses(packed, value));
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_run_scaled_mma_128x64x32_4faf83df_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    int* __restrict__ a_exponents, int* __restrict__ b_exponents,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int runs = (k + RUN_K - 1) / RUN_K;
    const int blocks_a = (((m + 127) / 128 * 128 + 7) / 8) * runs;
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_exponents, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_exponents, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 64
//            +---+----+----+ - -        A block computes C[m0 : m0 + 128, n0 : n0 + 64] with
//        m0  | w | w  | w  | WARP_M     2 x 2 warps of 64 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 3 sets of 64 floats a thread.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 64, BLOCK_K = 32;
constexpr int WARP_M = 64, WARP_N = 32;
constexpr int WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
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
gemmgen_run_scaled_mma_128x64x32_4faf83df(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_exponents, const int* __restrict__ b_exponents,  // of runs of 1024 k [outer / BLOCK][runs][BLOCK]
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

    int run = first_stage / 32;  // the run at hand
    int unit = NEAR;
    // Exponents of the rows and columns of this tile, those of one run after another's.
    const auto a_runs = [&]() { return a_exponents + (long long)(m0 / BLOCK_M) * ((k + RUN_K - 1) / RUN_K) * BLOCK_M; };
    const auto b_runs = [&]() { return b_exponents + (long long)(n0 / BLOCK_N) * ((k + RUN_K - 1) / RUN_K) * BLOCK_N; };
    // What becomes of the unit where the run at hand ends, by the rows and columns of this warp's tile.
    const auto look_ahead = [&](bool last) {
        int own = lane, now = run;
        asm volatile("" : "+r"(own));
        asm volatile("" : "+r"(now));  // as in `by_row_and_column`
        const int* const of_a = a_runs() + warp_m;
        const int* const of_b = b_runs() + warp_n;
        bool far = false, changes = last;
#pragma unroll 1
        for (int row = own; row < 64; row += 32) {
            far |= is_far(of_a + row, now, BLOCK_M, last);
            changes |= behind_run(of_a + row, now, BLOCK_M, last) != 0;
        }
#pragma unroll 1
        for (int column = own; column < 32; column += 32) {
            far |= is_far(of_b + column, now, BLOCK_N, last);
            changes |= behind_run(of_b + column, now, BLOCK_N, last) != 0;
        }
        unit = __any_sync(0xffffffffu, far) ? FAR_NEXT : __any_sync(0xffffffffu, changes) ? NEAR : SAME_NEXT;
    };
    float acc_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit
    float sum_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in FP32 registers
    float acc_correction[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit; 2^11 too large

    // The matrix unit truncates when it adds, FP32 rounds to nearest: every 128 k the
    // unit's sum moves over. Sums that are scaled up err that much less and stay.
    const auto promote = [&]() {
        if (unit == APART) {
            int now = run, mine = lane;
            asm volatile("" : "+r"(mine));
            asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = i * 32 + mine % 32;
                rows[i] = exponent_of(of_a + row, now * BLOCK_M);
            }

            int columns[1];
            columns[0] = exponent_of(of_b + mine % 32, now * BLOCK_N);

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 4; ++in_row) {
                    if (in_row & 2) continue;
                    const int column = j * 8 + (in_row & 1);
                    const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 2; ++own) {
                            if (own & ~2) continue;
                            const int row = i * 16 + (own >> 1) * 8;
                            const int of_row = (int)__shfl_sync(0xffffffffu, rows[row / 32], ((mine >> 2) + row) % 32);
                            const int r = in_row | own;
                            const int e = -(of_row + of_column);
                            sum_main[i][j][r] += sum_times(acc_main[i][j][r], e);
                            acc_main[i][j][r] = 0.0f;
                        }
                }
            return;
        }
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
    // A run of k ends: the other sums join the promoted one, which goes on in the next run's unit. Between units lie powers of two, so
    // nothing is rounded. Where units are too far from one another the sum stands for itself from there on, as it does behind the last run.
    const auto end_run = [&](bool last) {
        if (unit == SAME_NEXT) {  // all sums go on as they are
            ++run;
            return;
        }
        if (unit == APART) {
            int now = run, mine = lane;
            asm volatile("" : "+r"(mine));
            asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = i * 32 + mine % 32;
                rows[i] = exponent_of(of_a + row, now * BLOCK_M);
            }

            int columns[1];
            columns[0] = exponent_of(of_b + mine % 32, now * BLOCK_N);

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 4; ++in_row) {
                    if (in_row & 2) continue;
                    const int column = j * 8 + (in_row & 1);
                    const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 2; ++own) {
                            if (own & ~2) continue;
                            const int row = i * 16 + (own >> 1) * 8;
                            const int of_row = (int)__shfl_sync(0xffffffffu, rows[row / 32], ((mine >> 2) + row) % 32);
                            const int r = in_row | own;
                            const int e = -(of_row + of_column);
                            const float rest = sum_times(acc_correction[i][j][r] * 0x1p-11f, e);
                            sum_main[i][j][r] += rest;
                            acc_correction[i][j][r] = 0.0f;
                        }
                }
        } else if (unit == FAR_NEXT) {
            unit = APART;
            int now = run, mine = lane;
            asm volatile("" : "+r"(mine));
            asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = i * 32 + mine % 32;
                rows[i] = exponent_of(of_a + row, now * BLOCK_M);
            }

            int columns[1];
            columns[0] = exponent_of(of_b + mine % 32, now * BLOCK_N);

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 4; ++in_row) {
                    if (in_row & 2) continue;
                    const int column = j * 8 + (in_row & 1);
                    const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 2; ++own) {
                            if (own & ~2) continue;
                            const int row = i * 16 + (own >> 1) * 8;
                            const int of_row = (int)__shfl_sync(0xffffffffu, rows[row / 32], ((mine >> 2) + row) % 32);
                            const int r = in_row | own;
                            const int e = -(of_row + of_column);
                            sum_main[i][j][r] = sum_times(fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]), e);
                            acc_correction[i][j][r] = 0.0f;
                        }
                }
        } else {
            int now = run, mine = lane;
            asm volatile("" : "+r"(mine));
            asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = i * 32 + mine % 32;
                rows[i] = behind_run(of_a + row, now, BLOCK_M, last);
            }

            int columns[1];
            columns[0] = behind_run(of_b + mine % 32, now, BLOCK_N, last);

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 4; ++in_row) {
                    if (in_row & 2) continue;
                    const int column = j * 8 + (in_row & 1);
                    const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 2; ++own) {
                            if (own & ~2) continue;
                            const int row = i * 16 + (own >> 1) * 8;
                            const int of_row = (int)__shfl_sync(0xffffffffu, rows[row / 32], ((mine >> 2) + row) % 32);
                            const int r = in_row | own;
                            const float factor = power_of_two(of_row + of_column);
                            sum_main[i][j][r] = fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]) * factor;
                            acc_correction[i][j][r] = 0.0f;
                        }
                }
        }
        ++run;
    };

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 16384 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 8192 + copy_from;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            cp_async_16(stage + copy_to + i * (THREADS * 16), a_from + i * THREADS * 16);
        a_from += 16384;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            cp_async_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_from + i * THREADS * 16);
        b_from += 8192;
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

    // Prologue: all stages but one are on their way.
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < stage_count) fill(stages + stage * STAGE_BYTES);
        cp_async_commit();
    }
    int slot = 0;                // where stage `index` of k lies
    int free_slot = STAGES - 1;  // the stage that was multiplied last
    int until_promotion = 4;
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        if (unit < FAR_NEXT && (index + 1 == stage_count || (first_stage + index + 1) % RUN_STAGES == 0)) look_ahead(index + 1 == stage_count);
        const u32 stage = stages + slot * STAGE_BYTES;
        const int next_slot = slot + 1 == STAGES ? 0 : slot + 1;
        cp_async_wait<STAGES - 2>();  // this thread's part of stage `index` is there,
        __syncthreads();  // everyone's is, and no one reads `free_slot` any more
        if (index + STAGES - 1 < stage_count) fill(stages + free_slot * STAGE_BYTES);
        cp_async_commit();  // an empty commit group keeps their count in step
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0);
        }
        free_slot = slot;
        slot = next_slot;
        if (--until_promotion == 0) {
            promote();
            until_promotion = 4;
        }
        if (index + 1 == stage_count || (first_stage + index + 1) % RUN_STAGES == 0) {
            if (until_promotion != 4) promote();  // what the last interval has
            until_promotion = 4;
            end_run(index + 1 == stage_count);
        }
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 2);
    const int column0 = n0 + warp_n + (lane & 3) * 2;
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
                product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
            put_element(c + row * ldc + column, product, alpha, beta);
            atomicAdd(repaired, 1ull);
        }
}

}  // namespace gemmgen_4faf83df
