// kernel    gemmgen_run_scaled_wgmma_128x128x64_9d28476c
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    run_scaled: power-of-two scales for runs of k, residual scaled by 2^11, three products
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 64 k (run_scaled's own: every 16 k)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// decided   block 128x128x64, warpgroup 64x128x64, split prepass, loads bulk, 3 stages, group 8, 1 slice of k, promote 64, clusters of 2, cooperative
// block     384 threads, 196680 B of dynamic shared memory
// target    sm_90a
// plan      9d28476c, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_9d28476c {

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

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 1 row takes the 32 banks, so from row to row
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row & 7); }

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
constexpr int RUN_STAGES = 16;  // the stages of k that those are
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

// What the warp that looks ahead has left with a stage, for all lanes. Its arrival at `full` releases the write, and each lane's wait there acquires it. The
// one lane that reads, `reader`, is the one that arrives at this block's `free`: that releases the read before the next write, whose warp waits there.
GG_DEVICE int unit_told(const int* unit, int lane, int reader) {
    return (int)__shfl_sync(0xffffffffu, lane == reader ? *unit : 0, reader);
}

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
    u8* __restrict__ words,        // packed stages, edges zero: [m / 128][k / 64][word: 2][m: 128][k: 64], rows swizzled
    int* __restrict__ exponents,   // [m / 128][runs][m: 128]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int stages_k = (k + 63) / 64, lanes = stages_k * 64 <= 64 ? 16 : 32;
    if ((int)threadIdx.x / lanes >= 8) return;  // whole warps
    const int runs = (k + RUN_K - 1) / RUN_K, run = block % runs, mine = (int)threadIdx.x % lanes * 4;
    const int o = block / runs * 8 + (int)threadIdx.x / lanes, k0 = run * RUN_K, end = min(RUN_K, stages_k * 64 - k0);
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
    const int place = o % 128, chunk = mine % 64 * 2 / 16;  // of 16 bytes
    u8* const to = words + ((long long)(o / 128) * stages_k + (k0 + mine) / 64) * 32768
                   + place * 128 + swizzle(place, chunk) * 16 + mine * 2 % 16;
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
                        *(u64*)(to + own * 128 / 64 * 32768 + w * 16384) =
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
                    *(u64*)(to + kk / 64 * 32768 + w * 16384) =
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
    u8* __restrict__ words,        // packed stages, edges zero: [n / 128][k / 64][word: 2][n: 128][k: 64], rows swizzled
    int* __restrict__ exponents,   // [n / 128][runs][n: 128]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_outer = (((outer + 127) / 128 * 128 + 7) / 8), runs = (k + RUN_K - 1) / RUN_K, run = block / blocks_outer;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int mine = run * RUN_K + warp * 128 + lane / 2 * 8;
    const int first = block % blocks_outer * 8 + lane % 2 * 4;  // neighbouring blocks read what lies side by side
    const int stages_k = (k + 63) / 64, left = k - mine, end = min(RUN_K, stages_k * 64 - run * RUN_K);
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
            if (o < (outer + 127) / 128 * 128) {
                exponents[((long long)(o / 128) * runs + run) * 128 + o % 128] = largest[one] || run == 0 ? row_exponent(largest[one]) : NO_EXPONENT;
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
        const int stages_k = (k + 63) / 64, panels = (outer + 127) / 128;
        if (o < panels * 128 && kk < stages_k * 64) {
            const int row = o % 128, chunk = kk % 64 * 2 / 16;  // of 16 bytes
            u8* to = words + ((long long)(o / 128) * stages_k + kk / 64) * 32768 + row * 128;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) =
                    make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
        }
        count(counters, losses(packed, value));
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_run_scaled_wgmma_128x128x64_9d28476c_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    int* __restrict__ a_exponents, int* __restrict__ b_exponents,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
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

//                n0        BLOCK_N = 128
//            +---------+---------+      A tile C[m0 : m0 + 128, n0 : n0 + 128] is computed by 2 x 1 warpgroups
//        m0  | wgroup  | wgroup  |      of 64 x 128. Each thread keeps its part of C in registers for the whole
//   BLOCK_M  |         |         |      loop over k, in 3 sets of 64 floats.
//    = 128   +---------+---------+
//              WARP_N                   Shared memory holds 3 stages of k, 64 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 64;
constexpr int WARP_M = 64;  // of a warpgroup
constexpr int WARPS_N = 1;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 3;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n128k16 in a warpgroup
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int A_STAGE = WORDS * A_BYTES, B_STAGE = WORDS * B_BYTES;
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int RELEASES = 16;  // arrivals that free a stage: one a warp that reads it, in every block that fills it

// An mbarrier whose phase ends after `arrivals` of them, and after the bytes that arrivals announced.
GG_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The copy engine and the other blocks see the mbarriers made so far.
GG_DEVICE void mbarrier_fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

// Arrives, and announces `bytes` that copies will bring.
GG_DEVICE void mbarrier_expect_tx(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Arrives at the mbarrier of the same address in block `block` of the cluster.
GG_DEVICE void mbarrier_arrive_at(u32 barrier, u32 block) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
        "}\n" ::"r"(barrier), "r"(block)
        : "memory");
}
GG_DEVICE void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of that parity has ended.
GG_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra again;\n"
        "}\n" ::"r"(barrier), "r"(parity)
        : "memory");
}

// `bytes`, a multiple of 16, from global to shared memory by the copy engine, which tells `barrier`.
GG_DEVICE void cp_async_bulk(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// `bytes`, a multiple of 16, by the copy engine to the same address in all blocks of the cluster, and each one's barrier.
GG_DEVICE void cp_async_bulk_multicast(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"((u16)((1 << CLUSTER) - 1)) : "memory");
}

GG_DEVICE int cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return (int)rank;
}

GG_DEVICE void cluster_barrier() {
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    asm volatile("barrier.cluster.wait;" ::: "memory");
}

// Moves registers between warpgroups: one gives up what it does not need, others take it.
template <int Registers>
GG_DEVICE void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
GG_DEVICE void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

// Where an operand's rows lie and how, as the unit wants to be told: rows of 128 bytes, swizzled, eight rows every
// 1024 bytes. The address is in units of 16 bytes.
GG_DEVICE u64 descriptor(u32 address) { return 0x4000004000010000ull | (u64)((address & 0x3ffff) >> 4); }

// Orders registers written before, which the products that follow read.
GG_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits the products issued since the last call: they are one group.
GG_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `Pending` of the newest commit groups are still at work.
template <int Pending>
GG_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// c[64, 128] (+)= a[64, 16] b[16, 128] on the matrix unit, which truncates as it accumulates; from zero where keep is 0.
GG_DEVICE void multiply_add(float (&c)[64], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
          "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "l"(a), "l"(b), "r"(keep));
}

// What a block works on: tile after tile, those of one turn near one another so that they share operands in L2.
struct Work {
    int m0, n0, panel_m, panel_n;  // of the tile; the panels of packed words it needs
    int first, count;              // stages of k
};

GG_DEVICE Work work_at(int turn, int m, int n, int stages_k, int rank) {
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int rows = (blocks_m + CLUSTER - 1) / CLUSTER;  // of clusters
    Work work;
    const int place = turn;
    const int raster = place / (GROUP_ROWS * blocks_n), in_raster = place % (GROUP_ROWS * blocks_n);
    const int raster_rows = min(GROUP_ROWS, rows - raster * GROUP_ROWS);
    const int row = raster * GROUP_ROWS + in_raster % raster_rows;
    const int block_m = row * CLUSTER + rank;
    work.panel_m = min(block_m, blocks_m - 1);  // the last cluster may reach below C: it stores nothing there
    work.panel_n = in_raster / raster_rows;
    work.m0 = block_m * BLOCK_M;
    work.n0 = work.panel_n * BLOCK_N;
    work.first = 0;
    work.count = stages_k;
    return work;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
gemmgen_run_scaled_wgmma_128x128x64_9d28476c(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_exponents, const int* __restrict__ b_exponents,  // of runs of 1024 k [outer / BLOCK][runs][BLOCK]
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * (STAGE_BYTES + 8), free = full + STAGES * 8;  // barriers, one a stage each
    int* const units = (int*)(shared + STAGES * STAGE_BYTES);  // behind the last stage of a run of k, of the sums of a tile
    const int thread = (int)threadIdx.x;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = alpha == 0.0f ? 0 : (k + BLOCK_K - 1) / BLOCK_K;
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int rank = cluster_rank();
    const int turns = (blocks_m + CLUSTER - 1) / CLUSTER * blocks_n;
    const int first_turn = (int)blockIdx.x / CLUSTER, all_blocks = (int)gridDim.x / CLUSTER;

    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 2);
            mbarrier_init(free + i * 8, RELEASES);
        }
        mbarrier_fence_init();
    }
    cluster_barrier();

    if (thread >= WARPGROUPS * 128) {
        // The copying warpgroup needs few registers; one thread of it does all, and
        // a warp looks ahead.
        setmaxnreg_dec<40>();
        if (thread == WARPGROUPS * 128) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the words
            int slot = 0;
            u32 phase = 1;  // a stage that has never been filled counts as free
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(turn, m, n, stages_k, rank);
                const u8* a_from = a_words + ((long long)work.panel_m * stages_k + work.first) * A_STAGE;
                const u8* b_from = b_words + ((long long)work.panel_n * stages_k + work.first) * B_STAGE + rank * (B_STAGE / CLUSTER);
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    const u32 stage = stages + slot * STAGE_BYTES, arrival = full + slot * 8;
                    mbarrier_wait(free + slot * 8, phase);
                    mbarrier_expect_tx(arrival, STAGE_BYTES);
                    cp_async_bulk(stage, a_from, A_STAGE, arrival);
                    cp_async_bulk_multicast(stage + A_STAGE + rank * (B_STAGE / CLUSTER), b_from, B_STAGE / CLUSTER, arrival);
                    a_from += A_STAGE;
                    b_from += B_STAGE;
                    if (++slot == STAGES) slot = 0, phase ^= 1;
                }
                if (beta != 0.0f && ldc % 4 == 0 && ((u64)c & 15) == 0 && work.n0 + BLOCK_N <= n) {
                    int row = work.m0;
                    const float* from = c + row * ldc + work.n0;
#pragma unroll 1
                    for (; row < min(work.m0 + BLOCK_M, m); ++row, from += ldc)
                        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(BLOCK_N * 4) : "memory");
                }
            }
        }
        else if (thread / 32 == WARPGROUPS * 4 + 1) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the exponents
            int slot = 0;
            u32 phase = 1;
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(turn, m, n, stages_k, rank);
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    int told = NEAR;
                    if (index + 1 == work.count || (index + 1) % RUN_STAGES == 0) {
                        const bool last = index + 1 == work.count;
                        const int now = (index) / 16;
                        const int runs = (k + RUN_K - 1) / RUN_K, own = thread % 32;
                        const int* const of_a = (long long)work.panel_m * runs * BLOCK_M + a_exponents;
                        const int* const of_b = (long long)work.panel_n * runs * BLOCK_N + b_exponents;
                        bool far = false, changes = last;
#pragma unroll 1
                        for (int row = own; row < 128; row += 32) {
                            far |= is_far(of_a + row, now, BLOCK_M, last);
                            changes |= behind_run(of_a + row, now, BLOCK_M, last) != 0;
                        }
#pragma unroll 1
                        for (int column = own; column < 128; column += 32) {
                            far |= is_far(of_b + column, now, BLOCK_N, last);
                            changes |= behind_run(of_b + column, now, BLOCK_N, last) != 0;
                        }
                        told = __any_sync(0xffffffffu, far) ? FAR_NEXT : __any_sync(0xffffffffu, changes) ? NEAR : SAME_NEXT;
                    }
                    mbarrier_wait(free + slot * 8, phase);
                    if (thread % 32 == 0) {
                        units[slot] = told;
                        mbarrier_arrive(full + slot * 8);
                    }
                    if (++slot == STAGES) slot = 0, phase ^= 1;
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int warpgroup = thread / 128, lane = thread % 128;  // lane of the warpgroup
        asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel has written the exponents of runs
        const int warp_m = warpgroup / WARPS_N * WARP_M, warp_n = 0;
        int slot = 0;
        u32 phase = 0;
        // Every warp that has read a stage says so, to every block that fills it.
        const auto release = [&](int which) {
            if (thread % 32 < CLUSTER) mbarrier_arrive_at(free + which * 8, thread % 32);
        };
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(turn, m, n, stages_k, rank);
            const int m0 = work.m0, n0 = work.n0;
            int run = 0;  // the run at hand
            int unit = NEAR;
            // Exponents of the rows and columns of this tile, those of one run after another's.
            const auto a_runs = [&]() { return a_exponents + (long long)work.panel_m * ((k + RUN_K - 1) / RUN_K) * BLOCK_M; };
            const auto b_runs = [&]() { return b_exponents + (long long)work.panel_n * ((k + RUN_K - 1) / RUN_K) * BLOCK_N; };
            float acc_main[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit
            float sum_main[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in FP32 registers
            float acc_correction[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit; 2^11 too large
            int held = -1;  // the stage that is still being read
            const auto advance = [&]() {
                held = slot;
                if (++slot == STAGES) slot = 0, phase ^= 1;
            };
            // The matrix unit truncates when it adds, FP32 rounds to nearest: every 64 k the
            // unit's sum moves over, while the products that stay in the unit are at work.
            const auto promote = [&]() {
                wgmma_wait<1>();
                if (unit == APART) {
                    int now = run, mine = lane;
                    asm volatile("" : "+r"(mine));
                    asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
                    const int* const of_a = a_runs() + warp_m;
                    const int* const of_b = b_runs() + warp_n;
                    int rows[FRAGMENTS_M][3];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int r = 0; r <= 2; ++r) {
                            if (r & ~2) continue;
                            const int row = ((mine >> 2) & 7) + (mine >> 5) * 16 + i * 64 + ((r >> 1) & 1) * 8;
                            rows[i][r] = exponent_of(of_a + row, now * BLOCK_M);
                        }

                    int columns[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int column = i * 32 + mine % 32;
                        columns[i] = exponent_of(of_b + column, now * BLOCK_N);
                    }

#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int in_row = 0; in_row < 64; ++in_row) {
                            if (in_row & 2) continue;
                            const int column = j * 128 + (in_row & 1) + (in_row >> 2) * 8;
                            const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                                for (int own = 0; own <= 2; ++own) {
                                    if (own & ~2) continue;
                                    const int of_row = rows[i][own];
                                    const int r = in_row | own;
                                    const int e = -(of_row + of_column);
                                    sum_main[i][j][r] += sum_times(acc_main[i][j][r], e);
                                }
                        }
                    return;
                }
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int r = 0; r < 64; ++r) {
                            sum_main[i][j][r] += acc_main[i][j][r];
                        }
            };
            // A run of k ends: the other sums join the promoted one, which goes on in the next run's unit. Between units lie powers of two, so
            // nothing is rounded. Where units are too far from one another the sum stands for itself from there on, as it does behind the last run.
            const auto end_run = [&](bool last) {
                if (unit == SAME_NEXT) {  // all sums go on as they are
                    ++run;
                    return;
                }
                wgmma_wait<0>();
                if (unit == APART) {
                    int now = run, mine = lane;
                    asm volatile("" : "+r"(mine));
                    asm volatile("" : "+r"(now));  // nothing that comes from here is worth a register in the loop over stages
                    const int* const of_a = a_runs() + warp_m;
                    const int* const of_b = b_runs() + warp_n;
                    int rows[FRAGMENTS_M][3];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int r = 0; r <= 2; ++r) {
                            if (r & ~2) continue;
                            const int row = ((mine >> 2) & 7) + (mine >> 5) * 16 + i * 64 + ((r >> 1) & 1) * 8;
                            rows[i][r] = exponent_of(of_a + row, now * BLOCK_M);
                        }

                    int columns[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int column = i * 32 + mine % 32;
                        columns[i] = exponent_of(of_b + column, now * BLOCK_N);
                    }

#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int in_row = 0; in_row < 64; ++in_row) {
                            if (in_row & 2) continue;
                            const int column = j * 128 + (in_row & 1) + (in_row >> 2) * 8;
                            const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                                for (int own = 0; own <= 2; ++own) {
                                    if (own & ~2) continue;
                                    const int of_row = rows[i][own];
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
                    int rows[FRAGMENTS_M][3];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int r = 0; r <= 2; ++r) {
                            if (r & ~2) continue;
                            const int row = ((mine >> 2) & 7) + (mine >> 5) * 16 + i * 64 + ((r >> 1) & 1) * 8;
                            rows[i][r] = exponent_of(of_a + row, now * BLOCK_M);
                        }

                    int columns[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int column = i * 32 + mine % 32;
                        columns[i] = exponent_of(of_b + column, now * BLOCK_N);
                    }

#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int in_row = 0; in_row < 64; ++in_row) {
                            if (in_row & 2) continue;
                            const int column = j * 128 + (in_row & 1) + (in_row >> 2) * 8;
                            const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                                for (int own = 0; own <= 2; ++own) {
                                    if (own & ~2) continue;
                                    const int of_row = rows[i][own];
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
                    int rows[FRAGMENTS_M][3];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int r = 0; r <= 2; ++r) {
                            if (r & ~2) continue;
                            const int row = ((mine >> 2) & 7) + (mine >> 5) * 16 + i * 64 + ((r >> 1) & 1) * 8;
                            rows[i][r] = behind_run(of_a + row, now, BLOCK_M, last);
                        }

                    int columns[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        const int column = i * 32 + mine % 32;
                        columns[i] = behind_run(of_b + column, now, BLOCK_N, last);
                    }

#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int in_row = 0; in_row < 64; ++in_row) {
                            if (in_row & 2) continue;
                            const int column = j * 128 + (in_row & 1) + (in_row >> 2) * 8;
                            const int of_column = (int)__shfl_sync(0xffffffffu, columns[column / 32], ((mine & 3) * 2 + column) % 32);
#pragma unroll
                            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                                for (int own = 0; own <= 2; ++own) {
                                    if (own & ~2) continue;
                                    const int of_row = rows[i][own];
                                    const int r = in_row | own;
                                    const float factor = power_of_two(of_row + of_column);
                                    sum_main[i][j][r] = fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]) * factor;
                                    acc_correction[i][j][r] = 0.0f;
                                }
                        }
                }
                ++run;
            };
            // Issues the products of steps [FIRST, LAST) of the stage at `stage`; they run on while this thread goes on.
            const auto issue = [&](u32 stage, int first, int last, u32 keep) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                wgmma_fence();
                // Sums that move out at the end of an interval come first, so that the others hide it.
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_main[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, step == first ? keep : 1);
                        }
                }
                wgmma_commit();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_correction[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_correction[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 128 * ROW_BYTES + step * 32) / 16, 1);
                        }
                }
                wgmma_commit();
            };
#pragma unroll 1
            for (int index = 0; index < work.count; ++index) {
                mbarrier_wait(full + slot * 8, phase);
                issue(stages + slot * STAGE_BYTES, 0, K_STEPS, 0);
                if (unit < FAR_NEXT && (index + 1 == work.count || (index + 1) % RUN_STAGES == 0)) unit = unit_told(units + slot, thread % 32, rank);
                promote();
                if (held >= 0) release(held);  // all that read it is done
                advance();
                if (index + 1 == work.count || (index + 1) % RUN_STAGES == 0) end_run(index + 1 == work.count);
            }
            wgmma_wait<0>();
            if (held >= 0) release(held);

            // Element r of fragment (i, j) is C[row, column]; every second one is its neighbour's right hand.
            const int row0 = m0 + warp_m + ((lane >> 2) & 7) + (lane >> 5) * 16;
            const int column0 = n0 + warp_n + (lane & 3) * 2;
            const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
            const bool together = ldc % 2 == 0 && ((u64)c & 7) == 0;
            const bool quads = ldc % 4 == 0 && ((u64)c & 15) == 0;
            // A tile that is whole or that nothing is added to, whose rows end between two stores, is stored by the same few instructions for all.
            bool done = quads && (n % 4 == 0 || n0 + BLOCK_N <= n);
            if (done) {
                // The even lane of two takes the first of two groups of eight columns, the odd one the second.
                const bool odd = lane & 1;
                float* const corner = c + row0 * ldc + column0 + (odd ? 6 : 0);  // all that this lane stores is so many rows and columns from it
                float zeros[4] = {};  // products times 0: NaN where one is not finite
                if (read_c) {
                    done = m0 + BLOCK_M <= m && n0 + BLOCK_N <= n;
                    if (done) {
                        float4 was[2][4];
                        const auto read = [&](int begin) {
#pragma unroll
                            for (int q = 0; q < 4; ++q) {
                                const int p = begin + q;
                                if (p >= 16) continue;
                                const int i = p / (FRAGMENTS_N * 16), j = p / 16 % FRAGMENTS_N, at = p % 16;
                                const int r = at / 2 * 8 + at % 2 * 2;
                                const int down = i * 64 + ((r >> 1) & 1) * 8;
                                const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                was[p / 4 % 2][q] = *(const float4*)(corner + down * ldc + right);
                            }
                        };
                        read(0);
                        // What is computed again is added to C as it was: all products are looked at before any is stored.
#pragma unroll
                        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    float product[4] = {sum_main[i][j][r],
                                                        sum_main[i][j][r + 1],
                                                        sum_main[i][j][r + 4],
                                                        sum_main[i][j][r + 5]};
#pragma unroll
                                    for (int e = 0; e < 4; ++e) zeros[e] = fmaf(product[e], 0.0f, zeros[e]);
                                }
                        done = !__any_sync(0xffffffffu, !(zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f));
                        if (done) {
#pragma unroll
                            for (int begin = 0; begin < 16; begin += 4) {
                                read(begin + 4);
#pragma unroll
                                for (int q = 0; q < 4; ++q) {
                                    const int p = begin + q;
                                    if (p >= 16) continue;
                                    const int i = p / (FRAGMENTS_N * 16), j = p / 16 % FRAGMENTS_N, at = p % 16;
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {sum_main[i][j][r],
                                                        sum_main[i][j][r + 1],
                                                        sum_main[i][j][r + 4],
                                                        sum_main[i][j][r + 5]};
                                    const float first = __shfl_xor_sync(0xffffffffu, odd ? product[0] : product[2], 1);
                                    const float second = __shfl_xor_sync(0xffffffffu, odd ? product[1] : product[3], 1);
                                    const float4 quad = odd ? make_float4(first, second, product[2], product[3])
                                                            : make_float4(product[0], product[1], first, second);
                                    const float4 old = was[p / 4 % 2][q];
                                    *(float4*)(corner + down * ldc + right) = make_float4(fmaf(alpha, quad.x, beta * old.x), fmaf(alpha, quad.y, beta * old.y),
                                                                                          fmaf(alpha, quad.z, beta * old.z), fmaf(alpha, quad.w, beta * old.w));
                                }
                            }
                        }
                    }
                } else {
                    if (m0 + BLOCK_M > m || n0 + BLOCK_N > n) {
#pragma unroll
                        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    const int row = row0 + down;
                                    const int column = column0 + right;
                                    const bool inside = row < m && (odd ? column + 6 : column) < n;
                                    float product[4] = {sum_main[i][j][r],
                                                        sum_main[i][j][r + 1],
                                                        sum_main[i][j][r + 4],
                                                        sum_main[i][j][r + 5]};
#pragma unroll
                                    for (int e = 0; e < 4; ++e) {
                                        zeros[e] = fmaf(product[e], 0.0f, zeros[e]);
                                        product[e] = alpha * product[e];
                                    }
                                    const float first = __shfl_xor_sync(0xffffffffu, odd ? product[0] : product[2], 1);
                                    const float second = __shfl_xor_sync(0xffffffffu, odd ? product[1] : product[3], 1);
                                    const float4 quad = odd ? make_float4(first, second, product[2], product[3])
                                                            : make_float4(product[0], product[1], first, second);
                                    if (inside) *(float4*)(corner + down * ldc + right) = quad;
                                }
                    } else {
#pragma unroll
                        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {sum_main[i][j][r],
                                                        sum_main[i][j][r + 1],
                                                        sum_main[i][j][r + 4],
                                                        sum_main[i][j][r + 5]};
#pragma unroll
                                    for (int e = 0; e < 4; ++e) {
                                        zeros[e] = fmaf(product[e], 0.0f, zeros[e]);
                                        product[e] = alpha * product[e];
                                    }
                                    const float first = __shfl_xor_sync(0xffffffffu, odd ? product[0] : product[2], 1);
                                    const float second = __shfl_xor_sync(0xffffffffu, odd ? product[1] : product[3], 1);
                                    const float4 quad = odd ? make_float4(first, second, product[2], product[3])
                                                            : make_float4(product[0], product[1], first, second);
                                    *(float4*)(corner + down * ldc + right) = quad;
                                }
                    }
                    __syncwarp();  // what is computed again follows what the other lane has stored
                    done = zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f;
                }
            }
            if (done) continue;
            u32 bad[2] = {};  // a bit an element: not finite
            // A load of C does not overtake a store to it, as the compiler does not know that they are of other elements. So that not every
            // element waits for its own, a run of pairs is on its way while the run before it is stored.
            float2 was[2][8];
#pragma unroll
            for (int first = -8; first < 32; first += 8) {
#pragma unroll
                for (int q = 0; q < 8; ++q) {
                    const int p = first + 8 + q;
                    if (p >= 32) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 64), j = 2 * p / 64 % FRAGMENTS_N, r = 2 * p % 64;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    float2& old = was[p / 8 % 2][q];
                    old = make_float2(-0.0f, -0.0f);
                    if (read_c && together && inside) {
                        old = *(const float2*)to;
                    } else if (read_c) {
                        if (row < m && column < n) old.x = to[0];
                        if (inside) old.y = to[1];
                    }
                }
#pragma unroll
                for (int q = 0; q < 8; ++q) {
                    const int p = first + q;
                    if (p < 0 || p >= 32) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 64), j = 2 * p / 64 % FRAGMENTS_N, r = 2 * p % 64;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    const float2 old = was[p / 8 % 2][q];
                    if (row >= m || column >= n) continue;
                    float product[2] = {sum_main[i][j][r],
                                        sum_main[i][j][r + 1]};
                    bool store[2] = {true, inside};
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (store[e] && !(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                            const int element = (i * FRAGMENTS_N + j) * 64 + r + e;
                            bad[element / 32] |= 1u << element % 32;
                            store[e] = false;
                        }
                    const float2 now = make_float2(fmaf(alpha, product[0], beta * old.x), fmaf(alpha, product[1], beta * old.y));
                    if (together && store[0] && store[1]) {
                        *(float2*)to = now;
                    } else {
                        if (store[0]) to[0] = now.x;
                        if (store[1]) to[1] = now.y;
                    }
                }
            }

            // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
            // does not: these elements are computed again from the operands themselves.
#pragma unroll
            for (int part = 0; part < 2; ++part)
                while (bad[part]) {
                    const int element = part * 32 + __ffs((int)bad[part]) - 1;
                    bad[part] &= bad[part] - 1;
                    const int r = element % 64;
                    const int j = element / 64 % FRAGMENTS_N, i = element / (64 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    float product = 0.0f;
                    for (long long kk = 0; kk < k; ++kk)
                        product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                    put_element(c + row * ldc + column, product, alpha, beta);
                    atomicAdd(repaired, 1ull);
                }
        }
    }
    cluster_barrier();  // no block ends while another may still write to its shared memory
}

}  // namespace gemmgen_9d28476c
