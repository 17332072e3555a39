// kernel    gemmgen_scaled_mfma_128x128x32_1f6cf446
// computes  C = alpha A B + beta C, B conjugated in memory, in complex FP32, layout nc (row major), any m, n, k
// scheme    scaled: power-of-two row and column scales, three products in one accumulator
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 256 k (scaled's own: never)
// special   exact
// fragment  v_mfma_f32_32x32x8_f16
// decided   block 128x128x32, warp 64x32x32, split prepass, loads grouped, 2 stages, group 16, 1 slice of k, promote 256, 2 fragment buffers
// block     512 threads, 65536 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      1f6cf446, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_1f6cf446 {

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
typedef float float2 __attribute__((ext_vector_type(2)));
GG_DEVICE float2 make_float2(float x, float y) { return float2{x, y}; }
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
// An element of B, of the real matrix that stands for the complex one.
GG_DEVICE float given_b(const float* x, long long ld, int o, int kk) {
    const auto at = [&](long long o, long long kk) { return x[o * ld + kk]; };
    return o & ~kk & 1 ? -at(o >> 1, kk ^ (o & 1)) : at(o >> 1, kk ^ (o & 1));
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
        // word 1: to nearest, ties to even
        packed[1][i / 2] = round_nearest_even(low, high);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words as they are multiplied leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^8, 2^15): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p+8f) && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= as_multiplied((i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2])));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= as_multiplied((i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2])));
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
    const int outer0 = block / blocks_k * 64;
    const int k_end = min(k, k0 + 256);
    const int lane = thread_id() % 64, warp = thread_id() / 64;

    // A warp takes 16 m along k, all of which it reads before it compares any.
    const int first = outer0 + warp * 16;
    u32 largest[16] = {};
    if (k0 + 256 <= k && ld % 4 == 0 && ((u64)x & 15) == 0) {
#pragma unroll
        for (int row = 0; row < 16; ++row)
#pragma unroll
            for (int i = 0; i < 256; i += 256) {
                const int o = min(first + row, outer - 1);  // a row twice does no harm
                const float4 four = *(const float4*)(x + (long long)o * ld + k0 + i + lane * 4);
                largest[row] = max(max(max(largest[row], finite_magnitude(four.x)), finite_magnitude(four.y)),
                                   max(finite_magnitude(four.z), finite_magnitude(four.w)));
            }
    } else {
#pragma unroll
        for (int row = 0; row < 16; ++row)
            for (int kk = k0 + lane; first + row < outer && kk < k_end; kk += 64)
                largest[row] = max(largest[row], finite_magnitude(x[(long long)(first + row) * ld + kk]));
    }
#pragma unroll
    for (int row = 0; row < 16; ++row) {
#pragma unroll
        for (int mask = 32; mask > 0; mask /= 2) largest[row] = max(largest[row], shuffle_xor(largest[row], mask));
        if (lane == 0 && first + row < outer) __hip_atomic_fetch_max(absmax + first + row, largest[row], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
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
    const float* __restrict__ x,   // operand b, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u32* __restrict__ absmax)      // [n], zero before the first launch
{
    const int blocks_k = (k + 255) / 256;
    const int k0 = block % blocks_k * 256;
    const int outer0 = block / blocks_k * 64;
    const int k_end = min(k, k0 + 256);
    const int lane = thread_id() % 64, warp = thread_id() / 64;

    // A warp takes 16 n along k, all of which it reads before it compares any.
    const int first = outer0 + warp * 16;
    u32 largest[16] = {};
    {
#pragma unroll
        for (int row = 0; row < 16; ++row)
            for (int kk = k0 + lane; first + row < outer && kk < k_end; kk += 64)
                largest[row] = max(largest[row], finite_magnitude(given_b(x, ld, (first + row), kk)));
    }
#pragma unroll
    for (int row = 0; row < 16; ++row) {
#pragma unroll
        for (int mask = 32; mask > 0; mask /= 2) largest[row] = max(largest[row], shuffle_xor(largest[row], mask));
        if (lane == 0 && first + row < outer) __hip_atomic_fetch_max(absmax + first + row, largest[row], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 32][word: 2][n: 128][k: 32], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = thread_id() % 4 * 8;
    const int my_outer = thread_id() / 4;
    const int o = outer0 + my_outer;
    float value[8];

    // Neighbouring threads read whole sectors: along k, or along n.
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

    count(counters, o % 2 ? 0u : losses(packed, value));
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_scaled_mfma_128x128x32_1f6cf446_absmax(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k, u32* __restrict__ a_absmax, u32* __restrict__ b_absmax)
{
    const int blocks_a = ((m + 63) / 64) * ((k + 255) / 256);
    if (block_id() < blocks_a)
        absmax_a(block_id(), a, lda, m, k, a_absmax);
    else
        absmax_b(block_id() - blocks_a, b, ldb, n, k, b_absmax);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_scaled_mfma_128x128x32_1f6cf446_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 127) / 128 * 128 + 63) / 64) * ((k + 31) / 32);
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_absmax, a_status);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_absmax, b_status);
}

// The same of a complex element: two neighbours, the real part first. A factor whose imaginary part is 0 multiplies each part by itself, so
// that an Inf or a NaN of one does not reach the other.
GG_DEVICE void put_complex(float* to, const float (&product)[2], float alpha, float alpha_i, float beta, float beta_i) {
    const bool together = ((u64)to & 7) == 0;
    float real = alpha * product[0], imaginary = alpha * product[1];
    if (alpha_i != 0.0f) real = fmaf(-alpha_i, product[1], real), imaginary = fmaf(alpha_i, product[0], imaginary);
    if (beta != 0.0f || beta_i != 0.0f) {
        float2 was;
        if (together) was = *(float2*)to;
        else was = make_float2(to[0], to[1]);
        real = fmaf(beta, was.x, real), imaginary = fmaf(beta, was.y, imaginary);
        if (beta_i != 0.0f) real = fmaf(-beta_i, was.y, real), imaginary = fmaf(beta_i, was.x, imaginary);
    }
    if (together) *(float2*)to = make_float2(real, imaginary);
    else to[0] = real, to[1] = imaginary;
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
constexpr int GROUP_ROWS = 16;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 1;  // fragments of m32n32k16 in a warp
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
gemmgen_scaled_mfma_128x128x32_1f6cf446(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta, float alpha_i, float beta_i,
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
    const int first_stage = 0, stage_count = alpha == 0.0f && alpha_i == 0.0f ? 0 : stages_k;

    sums acc_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
    sums sum_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in FP32 registers

    // Short sums round less: every 256 k the matrix unit's sum moves over. Sums that are
    // scaled up err that much less and stay.
    const auto promote = [&]() __attribute__((always_inline)) {
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

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = thread_id() * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 16384 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 16384 + copy_from;

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
        a_from += 16384;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            store_shared_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_held[i]);
        b_from += 16384;
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
    if (stage_count > 0) fetch(0, stages, 0);
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages + slot * STAGE_BYTES, other = stages + (slot ^ 1) * STAGE_BYTES;
        const bool next = index + 1 < stage_count;
        if (next) load_all();
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
        if (--until_promotion == 0) {
            promote();
            until_promotion = 8;
        }
    }
    promote();

    // Element r of fragment (i, j) is C[row, column], in real columns. The lane of an even column stores both parts.
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
                const float own = sum_main[i][j][r];
                float product[2] = {own, __uint_as_float(shuffle_xor(__float_as_uint(own), 1))};
                if (row >= m || column >= n || column % 2) continue;
#pragma unroll
                for (int e = 0; e < 2; ++e) product[e] = scale_by(product[e], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[column + e]));
                if (!(fabsf(product[0]) < __uint_as_float(0x7f800000u) && fabsf(product[1]) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 16 + r;
                    bad |= 1u << element;
                    continue;
                }
                put_complex(c + row * ldc + column, product, alpha, alpha_i, beta, beta_i);
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
        float product[2] = {};
        for (long long kk = 0; kk < k; ++kk) {
            const float x = a[row * lda + kk];
            product[0] = fmaf(x, given_b(b, ldb, column, kk), product[0]);
            product[1] = fmaf(x, given_b(b, ldb, column + 1, kk), product[1]);
        }
        put_complex(c + row * ldc + column, product, alpha, alpha_i, beta, beta_i);
        __hip_atomic_fetch_add(repaired, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

}  // namespace gemmgen_1f6cf446
