// kernel    gemmgen_run_scaled_mfma_64x64x32_cb31023e
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    run_scaled: power-of-two scales for runs of k, residual scaled by 2^11, three products
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 256 k (run_scaled's own: every 16 k)
// special   exact
// fragment  v_mfma_f32_32x32x8_f16
// decided   block 64x64x32, warp 32x32x32, split prepass, loads grouped, 2 stages, group 16, 1 slice of k, promote 256, 1 fragment buffer
// block     256 threads, 32768 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      cb31023e, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_cb31023e {

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
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

GG_DEVICE float widen_low(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)bits); }
GG_DEVICE float widen_high(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)(bits >> 16)); }

GG_DEVICE u32 round_nearest_even(float low, float high) {
    return __builtin_bit_cast(u16, (_Float16)low) | (u32)__builtin_bit_cast(u16, (_Float16)high) << 16;
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
    // Nor of zeros, which stand where a run is short: less one their bits are the largest integer.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits - 1), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-3f) - 1 && most < __float_as_uint(0x1p+15f)) return 0;

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
// Of at most 128 k half a warp does.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,        // packed stages, edges zero: [m / 64][k / 32][word: 2][m: 64][k: 32], rows swizzled
    int* __restrict__ exponents,   // [m / 64][runs][m: 64]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int stages_k = (k + 31) / 32, lanes = stages_k * 32 <= 128 ? 32 : 64;
    if (thread_id() / lanes >= 4) return;  // whole warps
    const int runs = (k + RUN_K - 1) / RUN_K, run = block % runs, mine = thread_id() % lanes * 4;
    const int o = block / runs * 4 + thread_id() / lanes, k0 = run * RUN_K, end = min(RUN_K, stages_k * 32 - k0);
    const bool inside = o < outer, pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && k % 4 == 0;  // of 16 bytes
    const float* from = x + (inside ? (long long)o * ld + k0 + mine : 0);
    const int left = inside ? k - k0 - mine : 0;
    float value[4][4] = {};
    if (pieces) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i * 256 >= left) continue;
            const float4 four = *(const float4*)(from + i * 256);
            value[i][0] = four.x, value[i][1] = four.y, value[i][2] = four.z, value[i][3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) value[i][e] = i * 256 + e < left ? from[i * 256 + e] : 0.0f;
    }

    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i * 256 >= end) continue;
#pragma unroll
        for (int e = 0; e < 4; ++e) largest = max(largest, finite_magnitude(value[i][e]));
    }
#pragma unroll
    for (int mask = 32; mask > 0; mask /= 2) {
        const u32 other = shuffle_xor(largest, mask);
        if (mask < lanes) largest = max(largest, other);
    }
    const int exponent = row_exponent(largest);
    const bool packs = o < (outer + 63) / 64 * 64;
    if (packs && mine == 0) {
        exponents[((long long)(o / 64) * runs + run) * 64 + o % 64] = largest || run == 0 ? row_exponent(largest) : NO_EXPONENT;
    }
    const int place = o % 64, chunk = mine % 32 * 2 / 16;  // of 16 bytes
    u8* const to = words + ((long long)(o / 64) * stages_k + (k0 + mine) / 32) * 8192
                   + place * 64 + swizzle(place, chunk) * 16 + mine * 2 % 16;
#pragma unroll
    for (int i = 0; i < 4; i += 4) {
        if (end - i * 256 <= 512) {  // for a warp alike: pieces that lie behind a short run are no work
#pragma unroll
            for (int own = i; own < i + 2; ++own) {
                if (own * 256 >= end) continue;
                float part[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) part[e] = scaled_element(value[own][e], exponent);
                u32 packed[WORDS][2];
                split_run(packed, part);
                if (packs && own * 256 + mine < end)
#pragma unroll
                    for (int w = 0; w < WORDS; ++w)
                        *(u64*)(to + own * 256 / 32 * 8192 + w * 4096) =
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
            const int kk = (i + at) * 256;
            if (packs && kk + mine < end)
#pragma unroll
                for (int w = 0; w < WORDS; ++w)
                    *(u64*)(to + kk / 32 * 8192 + w * 4096) =
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
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int mine = run * RUN_K + warp * 256 + lane / 2 * 8;
    const int first = block % blocks_outer * 8 + lane % 2 * 4;  // neighbouring blocks read what lies side by side
    const int stages_k = (k + 31) / 32, left = k - mine, end = min(RUN_K, stages_k * 32 - run * RUN_K);
    const bool alone = end <= 256;  // one warp holds the whole run, and waits for no other
    if (alone && warp > 0) return;
    const float* at = x + (long long)mine * ld + first;
    float values[4][8] = {};
    if (warp * 256 >= end) {  // behind a short run
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

    __attribute__((shared)) static uint4 most[8];  // of each warp and four columns
    u32 largest[4] = {};
#pragma unroll
    for (int one = 0; one < 4; ++one) {
        if (warp * 256 >= end) continue;
#pragma unroll
        for (int i = 0; i < 8; ++i) largest[one] = max(largest[one], finite_magnitude(values[one][i]));
#pragma unroll
        for (int mask = 2; mask < 64; mask *= 2) largest[one] = max(largest[one], shuffle_xor(largest[one], mask));
    }
    if (!alone) {
        if (lane < 2) most[warp * 2 + lane] = make_uint4(largest[0], largest[1], largest[2], largest[3]);
        block_barrier();
#pragma unroll
        for (int other = 0; other < 4; ++other) {
            const uint4 found = most[other * 2 + lane % 2];
            largest[0] = max(largest[0], found.x), largest[1] = max(largest[1], found.y);
            largest[2] = max(largest[2], found.z), largest[3] = max(largest[3], found.w);
        }
    }
    if (thread_id() < 2) {
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
        if (warp * 256 >= end) continue;  // for a warp alike
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

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_run_scaled_mfma_64x64x32_cb31023e_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    int* __restrict__ a_exponents, int* __restrict__ b_exponents,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int runs = (k + RUN_K - 1) / RUN_K;
    const int blocks_a = (((m + 63) / 64 * 64 + 3) / 4) * runs;
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_exponents, a_status);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_exponents, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 64
//            +---+----+----+ - -        A block computes C[m0 : m0 + 64, n0 : n0 + 64] with
//        m0  | w | w  | w  | WARP_M     2 x 2 warps of 32 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 3 sets of 16 floats a thread.
//    = 64   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 32;
constexpr int WARP_M = 32, WARP_N = 32;
constexpr int WARPS_N = 2;
constexpr int THREADS = 256;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 16;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m32n32k16 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
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
gemmgen_run_scaled_mfma_64x64x32_cb31023e(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_exponents, const int* __restrict__ b_exponents,  // of runs of 1024 k [outer / BLOCK][runs][BLOCK]
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
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

    int run = first_stage / 32;  // the run at hand
    int unit = NEAR;
    // Exponents of the rows and columns of this tile, those of one run after another's.
    const auto a_runs = [&]() __attribute__((always_inline)) { return a_exponents + (long long)(m0 / BLOCK_M) * ((k + RUN_K - 1) / RUN_K) * BLOCK_M; };
    const auto b_runs = [&]() __attribute__((always_inline)) { return b_exponents + (long long)(n0 / BLOCK_N) * ((k + RUN_K - 1) / RUN_K) * BLOCK_N; };
    // What becomes of the unit where the run at hand ends, by the rows and columns of this warp's tile.
    const auto look_ahead = [&](bool last) __attribute__((always_inline)) {
        int own = lane, now = run;
        asm volatile("" : "+v"(own));
        asm volatile("" : "+v"(now));  // as in `by_row_and_column`
        const int* const of_a = a_runs() + warp_m;
        const int* const of_b = b_runs() + warp_n;
        bool far = false, changes = last;
#pragma unroll 1
        for (int row = own; row < 32; row += 64) {
            far |= is_far(of_a + row, now, BLOCK_M, last);
            changes |= behind_run(of_a + row, now, BLOCK_M, last) != 0;
        }
#pragma unroll 1
        for (int column = own; column < 32; column += 64) {
            far |= is_far(of_b + column, now, BLOCK_N, last);
            changes |= behind_run(of_b + column, now, BLOCK_N, last) != 0;
        }
        unit = (__builtin_amdgcn_ballot_w64(far) != 0) ? FAR_NEXT : (__builtin_amdgcn_ballot_w64(changes) != 0) ? NEAR : SAME_NEXT;
    };
    sums acc_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
    sums sum_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in FP32 registers
    sums acc_correction[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^11 too large

    // Short sums round less: every 256 k the matrix unit's sum moves over. Sums that are
    // scaled up err that much less and stay.
    const auto promote = [&]() __attribute__((always_inline)) {
        if (unit == APART) {
            int now = run, mine = lane;
            asm volatile("" : "+v"(mine));
            asm volatile("" : "+v"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[1];
            rows[0] = exponent_of(of_a + min(mine % 64, 31), now * BLOCK_M);

            int columns[FRAGMENTS_N][1];
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r <= 0; ++r) {
                    if (r & ~0) continue;
                    const int column = (mine & 31) + j * 32;
                    columns[j][r] = exponent_of(of_b + column, now * BLOCK_N);
                }

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 16; ++in_row) {
                    if (in_row & 15) continue;
                    const int of_column = columns[j][in_row];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 15; ++own) {
                            if (own & ~15) continue;
                            const int row = i * 32 + (own & 3) + (own >> 2) * 8;
                            const int of_row = (int)(u32)__builtin_amdgcn_ds_bpermute((((mine >> 5) * 4 + row) % 64) * 4, (int)(rows[row / 64]));
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
                for (int r = 0; r < 16; ++r) {
                    sum_main[i][j][r] += acc_main[i][j][r];
                    acc_main[i][j][r] = 0.0f;
                }
    };
    // A run of k ends: the other sums join the promoted one, which goes on in the next run's unit. Between units lie powers of two, so
    // nothing is rounded. Where units are too far from one another the sum stands for itself from there on, as it does behind the last run.
    const auto end_run = [&](bool last) __attribute__((always_inline)) {
        if (unit == SAME_NEXT) {  // all sums go on as they are
            ++run;
            return;
        }
        if (unit == APART) {
            int now = run, mine = lane;
            asm volatile("" : "+v"(mine));
            asm volatile("" : "+v"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[1];
            rows[0] = exponent_of(of_a + min(mine % 64, 31), now * BLOCK_M);

            int columns[FRAGMENTS_N][1];
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r <= 0; ++r) {
                    if (r & ~0) continue;
                    const int column = (mine & 31) + j * 32;
                    columns[j][r] = exponent_of(of_b + column, now * BLOCK_N);
                }

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 16; ++in_row) {
                    if (in_row & 15) continue;
                    const int of_column = columns[j][in_row];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 15; ++own) {
                            if (own & ~15) continue;
                            const int row = i * 32 + (own & 3) + (own >> 2) * 8;
                            const int of_row = (int)(u32)__builtin_amdgcn_ds_bpermute((((mine >> 5) * 4 + row) % 64) * 4, (int)(rows[row / 64]));
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
            asm volatile("" : "+v"(mine));
            asm volatile("" : "+v"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[1];
            rows[0] = exponent_of(of_a + min(mine % 64, 31), now * BLOCK_M);

            int columns[FRAGMENTS_N][1];
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r <= 0; ++r) {
                    if (r & ~0) continue;
                    const int column = (mine & 31) + j * 32;
                    columns[j][r] = exponent_of(of_b + column, now * BLOCK_N);
                }

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 16; ++in_row) {
                    if (in_row & 15) continue;
                    const int of_column = columns[j][in_row];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 15; ++own) {
                            if (own & ~15) continue;
                            const int row = i * 32 + (own & 3) + (own >> 2) * 8;
                            const int of_row = (int)(u32)__builtin_amdgcn_ds_bpermute((((mine >> 5) * 4 + row) % 64) * 4, (int)(rows[row / 64]));
                            const int r = in_row | own;
                            const int e = -(of_row + of_column);
                            sum_main[i][j][r] = sum_times(fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]), e);
                            acc_correction[i][j][r] = 0.0f;
                        }
                }
        } else {
            int now = run, mine = lane;
            asm volatile("" : "+v"(mine));
            asm volatile("" : "+v"(now));  // nothing that comes from here is worth a register in the loop over stages
            const int* const of_a = a_runs() + warp_m;
            const int* const of_b = b_runs() + warp_n;
            int rows[1];
            rows[0] = behind_run(of_a + min(mine % 64, 31), now, BLOCK_M, last);

            int columns[FRAGMENTS_N][1];
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r <= 0; ++r) {
                    if (r & ~0) continue;
                    const int column = (mine & 31) + j * 32;
                    columns[j][r] = behind_run(of_b + column, now, BLOCK_N, last);
                }

#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int in_row = 0; in_row < 16; ++in_row) {
                    if (in_row & 15) continue;
                    const int of_column = columns[j][in_row];
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int own = 0; own <= 15; ++own) {
                            if (own & ~15) continue;
                            const int row = i * 32 + (own & 3) + (own >> 2) * 8;
                            const int of_row = (int)(u32)__builtin_amdgcn_ds_bpermute((((mine >> 5) * 4 + row) % 64) * 4, (int)(rows[row / 64]));
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
    int until_promotion = 8;
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        if (unit < FAR_NEXT && (index + 1 == stage_count || (first_stage + index + 1) % RUN_STAGES == 0)) look_ahead(index + 1 == stage_count);
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
        if (--until_promotion == 0) {
            promote();
            until_promotion = 8;
        }
        if (index + 1 == stage_count || (first_stage + index + 1) % RUN_STAGES == 0) {
            if (until_promotion != 8) promote();  // what the last interval has
            until_promotion = 8;
            end_run(index + 1 == stage_count);
        }
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
                float product = sum_main[i][j][r];
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

}  // namespace gemmgen_cb31023e
