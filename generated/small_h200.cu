// kernel    gemmgen_ootomo_mma_16x8x128_103ddaf2
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 128 k (ootomo's own: every 16 k)
// special   exact
// fragment  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// decided   block 16x8x128, warp 16x8x16, split lane, loads direct, 2 stages, group 1, 1 slice of k, promote 128
// block     256 threads, 12288 B of dynamic shared memory
// target    sm_90
// plan      103ddaf2, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_103ddaf2 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

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

constexpr int WORDS = 2;

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
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-14f) && most < __float_as_uint(0x1p+15f)) return 0;

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

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}
// The same of four neighbours in a row.
GG_DEVICE void put_four(float* to, const float (&product)[4], float alpha, float beta) {
    float4 was = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    if (beta != 0.0f) was = *(float4*)to;
    *(float4*)to = make_float4(fmaf(alpha, product[0], beta * was.x), fmaf(alpha, product[1], beta * was.y),
                               fmaf(alpha, product[2], beta * was.z), fmaf(alpha, product[3], beta * was.w));
}

//                n0        BLOCK_N = 8
//            +---+----+----+ - -        A block computes C[m0 : m0 + 16, n0 : n0 + 8] in parts of 16 x 8,
//        m0  | w | w  | w  | WARP_M     with 8 warps for each, which share the k of every stage.
//   BLOCK_M  +---+----+----+ - -        Each keeps its sums in registers, in 3 sets of 4 floats a thread.
//    = 16   | w | w  | w  |
//            +---+----+----+            Registers hold 2 stages' parts of k, 16 deep each: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 16, BLOCK_N = 8, BLOCK_K = 128;
constexpr int WARP_M = 16, WARP_N = 8, WARP_K = 16;
constexpr int WARPS_M = 1, WARPS_N = 1;
constexpr int THREADS = 256;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m16n8k16 in a warp
constexpr int K_STEPS = 1;  // instructions along k in a warp's part of a stage
constexpr int A_GROUPS = 2, A_TOGETHER = 1;  // groups of eight rows in a warp, and those of neighbours that are loaded together
constexpr int B_GROUPS = 1, B_TOGETHER = 1;  // groups of eight columns in a warp, and those of neighbours that are loaded together
constexpr int ROW_FLOATS = 8;  // of a row of sums in shared memory

constexpr int SUMS_BYTES = 4096;  // of shared memory; what a lane counts again follows

// From global memory to registers; these loads stay where they stand.
GG_DEVICE void load_4(float& x, const float* from) {
    asm volatile("ld.global.nc.f32 %0, [%1];"
                 : "=f"(x)
                 : "l"(from));
}

GG_DEVICE void load_16(float (&x)[4], const float* from) {
    asm volatile("ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
                 : "l"(from));
}

// Zero where `there` is false.
GG_DEVICE void load_4_if(float& x, const float* from, bool there) {
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "setp.ne.s32 there, %2, 0;\n"
        "mov.f32 %0, 0f00000000;\n"
        "@there ld.global.nc.f32 %0, [%1];\n"
        "}\n"
        : "=f"(x)
        : "l"(from), "r"((int)there));
}

// c[16, 8] += a[16, 16] b[16, 8] on the matrix unit, which truncates as it accumulates.
GG_DEVICE void multiply_add(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Nothing is lost of elements whose magnitude lies in [2^-14, 2^15): twice their
// bits, less the lower end's, are an unsigned number below RANGE.
GG_DEVICE u32 outside(float x) { return __float_as_uint(x) * 2 - 113u * 0x1000000u; }
constexpr u32 RANGE = 142u * 0x1000000u - 113u * 0x1000000u;

// Where row `row` of group `group` of eight rows lies in a warp's tile: a lane that loads neighbours together has the same row of
// as many groups.
template <int Together>
GG_DEVICE int place_of(int group, int row) { return group / Together * (8 * Together) + row * Together + group % Together; }

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_ootomo_mma_16x8x128_103ddaf2(
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warp_k = warp / (WARPS_M * WARPS_N), place = warp % (WARPS_M * WARPS_N);
    const int warp_m = place / WARPS_N * WARP_M, warp_n = place % WARPS_N * WARP_N;

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
    float acc_correction[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit; 2^11 too large

    // The matrix unit truncates when it adds, FP32 rounds to nearest: every 128 k the
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

    // Elements on their way: [buffer][step][group of eight rows][consecutive k].
    float a_raw[STAGES][K_STEPS][A_GROUPS][4] = {};
    float b_raw[STAGES][K_STEPS][B_GROUPS][4];
    const int run_row = lane >> 2, run_k = (lane & 3) * 4;
    int k_next = first_stage * BLOCK_K + warp_k * WARP_K;  // of what this warp loads next
    // What lies beyond m is only ever multiplied into elements of C that are not stored: the last row stands in for it.
    const int a_first = m0 + warp_m + run_row;
    const bool a_vectors = ((u64)a & 15) == 0 && lda % 4 == 0;
    const float* a_from[A_GROUPS];
#pragma unroll
    for (int group = 0; group < A_GROUPS; ++group)
        a_from[group] = a + (long long)min(a_first + group * 8, m - 1) * lda + k_next + run_k;
    // What lies beyond n is only ever multiplied into elements of C that are not stored: the last column stands in for it.
    const int b_first = n0 + warp_n + run_row;
    const bool b_vectors = true;
    const float* b_from[B_GROUPS / B_TOGETHER];
#pragma unroll
    for (int part = 0; part < B_GROUPS / B_TOGETHER; ++part)
        b_from[part] = b + (long long)(k_next + run_k) * ldb + min(b_first + part * 8, n - 1);
    const bool a_lower = m0 + 8 < m;  // whether the lower half of the tile has rows of A
    // Stages are loaded in their order.
    const auto load = [&](int buffer) {
        const bool whole = k_next + WARP_K <= k;
        if (a_vectors && whole) {
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int group = 0; group < A_GROUPS; ++group)
                    if (group == 0 || a_lower) load_16(a_raw[buffer][step][group], a_from[group] + step * 16);
        } else {  // one by one, zeros beyond k
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int group = 0; group < A_GROUPS; ++group)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int kk = k_next + run_k + step * 16 + e, o = min(a_first + place_of<A_TOGETHER>(group, 0), m - 1);
                        load_4_if(a_raw[buffer][step][group][e], a + (long long)o * lda + kk, kk < k);
                    }
        }
#pragma unroll
        for (int group = 0; group < A_GROUPS; ++group) a_from[group] += BLOCK_K;
        if (b_vectors && whole) {
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int part = 0; part < B_GROUPS / B_TOGETHER; ++part)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        load_4(b_raw[buffer][step][part][e], b_from[part] + (step * 16 + e) * ldb);
                    }
        } else {  // one by one, zeros beyond k
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int group = 0; group < B_GROUPS; ++group)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int kk = k_next + run_k + step * 16 + e, o = min(b_first + place_of<B_TOGETHER>(group, 0), n - 1);
                        load_4_if(b_raw[buffer][step][group][e], b + (long long)kk * ldb + o, kk < k);
                    }
        }
#pragma unroll
        for (int part = 0; part < B_GROUPS / B_TOGETHER; ++part) b_from[part] += BLOCK_K * ldb;
        k_next += BLOCK_K;
    };

    u32 a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][4], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][2];

    // Splits the fragments of a step of a buffer.
    u32 a_outside = 0;
    u32 b_outside = 0;
    const auto fetch = [&](int buffer, int step) {
#pragma unroll
        for (int group = 0; group < A_GROUPS; ++group) {
            u32 packed[WORDS][2] = {};
            if (group == 0 || a_lower) {
                split_run(packed, a_raw[buffer][step][group]);
#pragma unroll
                for (int e = 0; e < 4; ++e) a_outside = max(a_outside, outside(a_raw[buffer][step][group][e]));
            }
            const int i = group / 2, half = group % 2;
#pragma unroll
            for (int word = 0; word < WORDS; ++word)
#pragma unroll
                for (int r = 0; r < 2; ++r) a_fragments[0][word][i][half + 2 * r] = packed[word][r];
        }
#pragma unroll
        for (int group = 0; group < B_GROUPS; ++group) {
            u32 packed[WORDS][2];
            split_run(packed, b_raw[buffer][step][group]);
#pragma unroll
            for (int e = 0; e < 4; ++e) b_outside = max(b_outside, outside(b_raw[buffer][step][group][e]));
            const int i = group;
#pragma unroll
            for (int word = 0; word < WORDS; ++word)
#pragma unroll
                for (int r = 0; r < 2; ++r) b_fragments[0][word][i][r] = packed[word][r];
        }
    };

    // Those blocks and warps count what is lost of an operand that have its first tiles of the other one.
    const bool counts_a = n0 == 0 && warp_n == 0, counts_b = m0 == 0 && warp_m == 0;
    // Counts what words cannot hold of a buffer whose stage has elements where that may be.
    const auto count_stage = [&](int buffer) {
        const bool a_loses = counts_a && a_outside >= RANGE, b_loses = counts_b && b_outside >= RANGE;
        a_outside = b_outside = 0;
        if (!__any_sync(0xffffffffu, a_loses || b_loses)) return;
        if (__any_sync(0xffffffffu, a_loses)) {
            // This lane's elements go through shared memory, so that one loop over them does.
            float4* const held = (float4*)(shared + SUMS_BYTES) + (int)threadIdx.x;
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int group = 0; group < A_GROUPS; ++group) {
                    const float (&x)[4] = a_raw[buffer][step][group];
                    held[(step * A_GROUPS + group) * THREADS] = make_float4(x[0], x[1], x[2], x[3]);
                }
            u32 lost = 0;
#pragma unroll 1
            for (int at = 0; at < K_STEPS * A_GROUPS; ++at) {
                const float4 again = held[at * THREADS];
                const float x[4] = {again.x, again.y, again.z, again.w};
                u32 packed[WORDS][2];
                split_run(packed, x);
                if (a_first + place_of<A_TOGETHER>(at % A_GROUPS, 0) < m) lost += losses(packed, x);
            }
            count(a_status, lost);
        }
        if (__any_sync(0xffffffffu, b_loses)) {
            // This lane's elements go through shared memory, so that one loop over them does.
            float4* const held = (float4*)(shared + SUMS_BYTES) + (int)threadIdx.x;
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                for (int group = 0; group < B_GROUPS; ++group) {
                    const float (&x)[4] = b_raw[buffer][step][group];
                    held[(step * B_GROUPS + group) * THREADS] = make_float4(x[0], x[1], x[2], x[3]);
                }
            u32 lost = 0;
#pragma unroll 1
            for (int at = 0; at < K_STEPS * B_GROUPS; ++at) {
                const float4 again = held[at * THREADS];
                const float x[4] = {again.x, again.y, again.z, again.w};
                u32 packed[WORDS][2];
                split_run(packed, x);
                if (b_first + place_of<B_TOGETHER>(at % B_GROUPS, 0) < n) lost += losses(packed, x);
            }
            count(b_status, lost);
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

#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage)
        if (stage < stage_count) load(stage);
    int until_promotion = 8;
#pragma unroll 1
    for (int first = 0; first < stage_count; first += STAGES)
#pragma unroll
        for (int buffer = 0; buffer < STAGES; ++buffer) {
            const int index = first + buffer;
            if (index + STAGES - 1 < stage_count) load((buffer + STAGES - 1) % STAGES);
            if (index >= stage_count) break;
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(buffer, step);
                multiply(0);
            }
            count_stage(buffer);
            if (--until_promotion == 0) {
                promote();
                until_promotion = 8;
            }
        }
    promote();

    // [WARPS_K][BLOCK_M][ROW_FLOATS]: each warp's sums; neighbours of a row that a lane has go together.
    float* const sums = (float*)shared;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = warp_m + place_of<A_TOGETHER>(i * 2 + half, lane >> 2), column = warp_n + (lane & 3) * 2;
            float* const to = sums + (warp_k * BLOCK_M + row) * ROW_FLOATS + column;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j += B_TOGETHER) {
                float neighbours[2][B_TOGETHER];
#pragma unroll
                for (int part = 0; part < B_TOGETHER; ++part)
#pragma unroll
                    for (int odd = 0; odd < 2; ++odd) {
                        const int r = half * 2 + odd;
                        neighbours[odd][part] = fmaf(acc_correction[i][j + part][r], 0x1p-11f, sum_main[i][j + part][r]);
                    }
                *(float2*)(to + j * 8) = make_float2(neighbours[0][0], neighbours[1][0]);
            }
        }
    __syncthreads();
    const auto element = [&](int in_row, int in_column) {
        const float* const from = sums + in_row * ROW_FLOATS + in_column;
        return from[0] + from[1 * 128] + from[2 * 128] + from[3 * 128] + from[4 * 128] + from[5 * 128] + from[6 * 128] + from[7 * 128];
    };
    const bool vectors_of_c = ldc % 4 == 0 && ((u64)c & 15) == 0;
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < BLOCK_M * BLOCK_N; at += THREADS * 4) {
        const int in_row = at / BLOCK_N, in_column = at % BLOCK_N;
        const long long row = m0 + in_row, first_column = n0 + in_column;
        if (row >= m) continue;
        // Four neighbours together where they all are in C, and finite.
        if (vectors_of_c && first_column + 4 <= n) {
            float product[4];
            const float* const from = sums + in_row * ROW_FLOATS + in_column;
            float4 sum = *(const float4*)from;
            const float4 part_1 = *(const float4*)(from + 1 * 128);
            sum.x += part_1.x, sum.y += part_1.y, sum.z += part_1.z, sum.w += part_1.w;
            const float4 part_2 = *(const float4*)(from + 2 * 128);
            sum.x += part_2.x, sum.y += part_2.y, sum.z += part_2.z, sum.w += part_2.w;
            const float4 part_3 = *(const float4*)(from + 3 * 128);
            sum.x += part_3.x, sum.y += part_3.y, sum.z += part_3.z, sum.w += part_3.w;
            const float4 part_4 = *(const float4*)(from + 4 * 128);
            sum.x += part_4.x, sum.y += part_4.y, sum.z += part_4.z, sum.w += part_4.w;
            const float4 part_5 = *(const float4*)(from + 5 * 128);
            sum.x += part_5.x, sum.y += part_5.y, sum.z += part_5.z, sum.w += part_5.w;
            const float4 part_6 = *(const float4*)(from + 6 * 128);
            sum.x += part_6.x, sum.y += part_6.y, sum.z += part_6.z, sum.w += part_6.w;
            const float4 part_7 = *(const float4*)(from + 7 * 128);
            sum.x += part_7.x, sum.y += part_7.y, sum.z += part_7.z, sum.w += part_7.w;
            product[0] = sum.x, product[1] = sum.y, product[2] = sum.z, product[3] = sum.w;
            if (fabsf(product[0]) < __uint_as_float(0x7f800000u) && fabsf(product[1]) < __uint_as_float(0x7f800000u) &&
                fabsf(product[2]) < __uint_as_float(0x7f800000u) && fabsf(product[3]) < __uint_as_float(0x7f800000u)) {
                put_four(c + row * ldc + first_column, product, alpha, beta);
                continue;
            }
        }
#pragma unroll 1
        for (int e = 0; e < 4; ++e) {
            const long long column = first_column + e;
            if (column >= n) break;
            float product = element(in_row, in_column + e);
            // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
            // does not: these elements are computed again from the operands themselves.
            if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                product = 0.0f;
#pragma unroll 1
                for (long long kk = 0; kk < k; ++kk)
                    product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                atomicAdd(repaired, 1ull);
            }
            put_element(c + row * ldc + column, product, alpha, beta);
        }
    }
}

}  // namespace gemmgen_103ddaf2
