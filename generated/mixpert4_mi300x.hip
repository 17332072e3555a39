// kernel    gemmgen_mixpert4_mfma_64x64x32_344f77be
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    mixpert4: level IV: three integer words, all products but that of the last two
// words     3 x s8, 21 bits; products A2 B1 + A1 B2 + A2 B0 + A1 B1 + A0 B2 + A1 B0 + A0 B1 + A0 B0; dropped A2 B2
// promote   never (mixpert4's own)
// special   exact
// fragment  v_mfma_i32_32x32x16_i8
// decided   block 64x64x32, warp 32x32x32, split prepass, loads grouped, 2 stages, group 16, 1 slice of k, promote 0, 1 fragment buffer
// block     256 threads, 24576 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      344f77be, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_344f77be {

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

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 4 rows share the 32 banks, so every 4 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 4 & 1); }

constexpr int WORDS = 3;
// 2^e for -126 <= e <= 127.
GG_DEVICE float power_of_two(int e) { return __uint_as_float((u32)(e + 127) << 23); }

// What a row or column that holds an Inf or a NaN has for an exponent: no word stands for those, so the row is set aside.
constexpr int ASIDE = 1 << 16;

// x 2^e with one rounding: the factor that could round comes last. NaN where a row or column is set aside: what it takes part
// in is not known from words.
GG_DEVICE float scale_by(float x, int e) {
    if (e <= -ASIDE / 2) return __uint_as_float(0x7fffffffu);
    e = max(-252, min(254, e));
    const int last = max(-126, min(127, e));
    return x * power_of_two(e - last) * power_of_two(last);
}

// Exponent that brings a row's largest finite element into [2^6, 2^7).
GG_DEVICE int row_exponent(u32 absmax) {
    if (absmax == 0) return 0;
    if (absmax >= 0x7f800000u) return ASIDE;
    const int biased = (int)(absmax >> 23);
    // A subnormal's exponent is where its leading bit stands.
    const int exponent = biased > 0 ? biased - 127 : -118 - __clz((int)absmax);
    return 6 - exponent;
}

// 2^s of a word: what its last place is of the scaled element's 1, and the reverse.
GG_DEVICE float places(int word) { return word == 0 ? 0x1p+0f : word == 1 ? 0x1p+7f : 0x1p+14f; }
GG_DEVICE float place_of(int word) { return word == 0 ? 0x1p+0f : word == 1 ? 0x1p-7f : 0x1p-14f; }

// Splits N elements times 2^e into integers of [-127, 127], four to a register. Each word is to nearest, ties to even, of what
// the ones before it leave; one that saturates leaves the rest to the next. Without Tops, no element times 2^e is TOP or more, so
// that only the first word can saturate.
template <bool Tops, int Words, int N>
GG_DEVICE void split_run(u32 (&packed)[Words][N / 4], const float (&x)[N], int e) {
    constexpr float WHOLE = 0x1.8p+23f;  // added to an integer, that is its low bits
    const int last = max(-126, min(127, e));
    const float before = power_of_two(e == ASIDE ? 0 : e - last), after = e == ASIDE ? 0.0f : power_of_two(last);
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        float rest[4];  // what is not in the words yet
#pragma unroll
        for (int part = 0; part < 4; ++part) rest[part] = x[i + part] * before * after;
#pragma unroll
        for (int word = 0; word < Words; ++word) {
            u32 bits[4];
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const float held = Tops || word == 0 ? __builtin_amdgcn_fmed3f(rest[part] * places(word), -127.0f, 127.0f) + WHOLE
                                                     : fmaf(rest[part], places(word), WHOLE);
                bits[part] = __float_as_uint(held);
                rest[part] = fmaf(held - WHOLE, -place_of(word), rest[part]);
            }
            packed[word][i / 4] = (bits[0] & 0xffu) | (bits[1] & 0xffu) << 8 | (bits[2] & 0xffu) << 16 | bits[3] << 24;
        }
    }
}
template <int Words, int N>
GG_DEVICE void split_run(u32 (&packed)[Words][N / 4], const float (&x)[N], int e) {
    split_run<true>(packed, x, e);
}

// How many of N elements are lossy and how many are not finite, ten bits each, with ten of 0 between them: nothing overflows.
// Lossy are those that are not 0 and, times 2^e, too small for any word to hold a part of them; none where the row is set aside.
template <int Words, int N>
GG_DEVICE u32 losses(const float (&x)[N], int e) {
    const u32 lowest = e == ASIDE ? 0 : __float_as_uint(scale_by(0.5f * place_of(Words - 1), -e));
    // As integers, magnitudes' bits are in the same order; a 0 less 1 is above all.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits - 1), most = max(most, bits);
    }
    if (least >= lowest && most < 0x7f800000u) return 0;
    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        counts += (bits - 1 < lowest ? 1u : 0u) + (bits < 0x7f800000u ? 0u : 1u << 20);
    }
    return counts;
}

// The same where the words are at hand, and no row that is not finite is left but set aside: an element is lossy where all of its are 0.
template <int Words, int N>
GG_DEVICE u32 losses(const u32 (&packed)[Words][N / 4], const float (&x)[N], int e) {
    u32 zeros = e == ASIDE;
#pragma unroll
    for (int i = 0; i < N / 4; ++i) {
        u32 any = 0;
#pragma unroll
        for (int word = 0; word < Words; ++word) any |= packed[word][i];
        zeros |= (any - 0x01010101u) & ~any & 0x80808080u;  // not 0 where one of four bytes is
    }
    return zeros ? losses<Words>(x, e) : 0;
}

// Adds half a warp's counts up into an operand's counters: lossy, overflow, nonfinite.
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

// The bits of |x|, which order as integers do.
GG_DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// Largest magnitude in each row of operand a, as FP32 bits, which order as integers do: Inf above all numbers, and NaN above it.
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
                largest[row] = max(max(max(largest[row], magnitude(four.x)), magnitude(four.y)),
                                   max(magnitude(four.z), magnitude(four.w)));
            }
    } else {
#pragma unroll
        for (int row = 0; row < 16; ++row)
            for (int kk = k0 + lane; first + row < outer && kk < k_end; kk += 64)
                largest[row] = max(largest[row], magnitude(x[(long long)(first + row) * ld + kk]));
    }
#pragma unroll
    for (int row = 0; row < 16; ++row) {
#pragma unroll
        for (int mask = 32; mask > 0; mask /= 2) largest[row] = max(largest[row], shuffle_xor(largest[row], mask));
        if (lane == 0 && first + row < outer) __hip_atomic_fetch_max(absmax + first + row, largest[row], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 64][k / 32][word: 3][m: 64][k: 32], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 63) / 64);
    const int k0 = block % blocks_k * 64;
    const int outer0 = block / blocks_k * 64;
    const int my_k = thread_id() % 4 * 16;
    const int my_outer = thread_id() / 4;
    const int o = outer0 + my_outer;
    float value[16];

    const float* from = x + (long long)o * ld + (k0 + my_k);
    const bool inside = o < outer;
    if (inside && k0 + my_k + 16 <= k && ((u64)from & 15) == 0) {
        for (int i = 0; i < 16; i += 4) {
            const float4 four = *(const float4*)(from + i);
            value[i] = four.x, value[i + 1] = four.y, value[i + 2] = four.z, value[i + 3] = four.w;
        }
    } else {
        for (int i = 0; i < 16; ++i)
            value[i] = inside && k0 + my_k + i < k ? from[i] : 0.0f;
    }

    const int exponent = o < outer ? row_exponent(absmax[o]) : 0;
    u32 packed[WORDS][4];
    split_run(packed, value, exponent);

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 63) / 64;
    if (o < panels * 64 && kk < stages_k * 32) {
        const int row = o % 64, chunk = kk % 32 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 64) * stages_k + kk / 32) * 6144 + row * 32;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 2048 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses<WORDS>(value, exponent));
}

// Largest magnitude in each column of operand b, as FP32 bits, which order as integers do: Inf above all numbers, and NaN above it.
GG_DEVICE void absmax_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u32* __restrict__ absmax)      // [n], zero before the first launch
{
    const int blocks_k = (k + 255) / 256;
    const int k0 = block % blocks_k * 256;
    const int outer0 = block / blocks_k * 64;
    const int k_end = min(k, k0 + 256);
    const int lane = thread_id() % 64, warp = thread_id() / 64;

    // A lane walks along k of one n; the warps take every 4th k.
    const int o = outer0 + lane;
    if (o < outer) {
        u32 largest = 0;
        if (k0 + 256 <= k) {
#pragma unroll
            for (int i = 0; i < 256; i += 4)
                largest = max(largest, magnitude(x[(long long)(k0 + warp + i) * ld + o]));
        } else {
            for (int kk = k0 + warp; kk < k_end; kk += 4)
                largest = max(largest, magnitude(x[(long long)kk * ld + o]));
        }
        __hip_atomic_fetch_max(absmax + o, largest, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 64][k / 32][word: 3][n: 64][k: 32], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 63) / 64);
    const int k0 = block % blocks_k * 64;
    const int outer0 = block / blocks_k * 64;
    const int my_k = thread_id() % 4 * 16;
    const int my_outer = thread_id() / 4;
    const int o = outer0 + my_outer;
    float value[16];

    // Read along n, where neighbours lie together, and turn the block's part in shared memory. Rows of
    // 65 floats, and 8 more after every 16: a warp's stores hit 32 neighbouring banks, and its loads, 8 outer by 4 k that are 16 apart, all different ones.
    __attribute__((shared)) static float turned[64 * 65 + 24];
    for (int i = thread_id(); i < 4096; i += 256) {
        const int column = i % 64, row = i / 64;
        const bool inside = outer0 + column < outer && k0 + row < k;
        turned[row * 65 + row / 16 * 8 + column] = inside ? x[(long long)(k0 + row) * ld + (outer0 + column)] : 0.0f;
    }
    block_barrier();
    for (int i = 0; i < 16; ++i) value[i] = turned[(my_k + i) * 65 + my_k / 16 * 8 + my_outer];

    const int exponent = o < outer ? row_exponent(absmax[o]) : 0;
    u32 packed[WORDS][4];
    split_run(packed, value, exponent);

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 63) / 64;
    if (o < panels * 64 && kk < stages_k * 32) {
        const int row = o % 64, chunk = kk % 32 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 64) * stages_k + kk / 32) * 6144 + row * 32;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 2048 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses<WORDS>(value, exponent));
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_mixpert4_mfma_64x64x32_344f77be_absmax(
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
gemmgen_mixpert4_mfma_64x64x32_344f77be_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = ((m + 63) / 64) * ((k + 63) / 64);
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_absmax, a_status);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_absmax, b_status);
}

// An element from its sums, from the smallest contribution to the largest: each is rounded to FP32 once.
GG_DEVICE float summed(int sum21, int sum14, int sum7, int sum0) {
    float so_far = (float)sum21;
    so_far = fmaf(so_far, 0x1p-7f, (float)sum14);
    so_far = fmaf(so_far, 0x1p-7f, (float)sum7);
    so_far = fmaf(so_far, 0x1p-7f, (float)sum0);
    return so_far;
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
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 4 sets of 16 floats a thread.
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
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m32n32k32 in a warp
constexpr int K_STEPS = 1;  // instructions along k in a stage
constexpr int ROW_BYTES = BLOCK_K;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int STAGE_BYTES = WORDS * (A_BYTES + B_BYTES);

GG_DEVICE void load_16(u32 (&r)[4], const void* from) {
    const u32x4 four = *(const u32x4*)from;
    r[0] = four.x, r[1] = four.y, r[2] = four.z, r[3] = four.w;
}

GG_DEVICE void store_shared_16(u32 to, const u32 (&r)[4]) { *(GG_SHARED u32x4*)to = u32x4{r[0], r[1], r[2], r[3]}; }

// A lane's part of an operand's fragment, and of C's.
typedef u32 fragment __attribute__((ext_vector_type(4)));
typedef int sums __attribute__((ext_vector_type(16)));

GG_DEVICE void load_fragment(fragment& r, u32 address) {
    r = *(GG_SHARED const fragment*)address;
}

// c[32, 32] += a[32, 32] b[32, 32] on the matrix unit, by 2 of v_mfma_i32_32x32x16_i8: each
// takes 16 of the 32 k, 8 of every lane.
typedef __INT64_TYPE__ operand;
typedef u32 part __attribute__((ext_vector_type(2)));

GG_DEVICE void multiply_add(sums& c, fragment a, fragment b) {
    const part a0 = __builtin_shufflevector(a, a, 0, 1), b0 = __builtin_shufflevector(b, b, 0, 1);
    c = __builtin_amdgcn_mfma_i32_32x32x16_i8(__builtin_bit_cast(operand, a0), __builtin_bit_cast(operand, b0), c, 0, 0, 0);
    const part a1 = __builtin_shufflevector(a, a, 2, 3), b1 = __builtin_shufflevector(b, b, 2, 3);
    c = __builtin_amdgcn_mfma_i32_32x32x16_i8(__builtin_bit_cast(operand, a1), __builtin_bit_cast(operand, b1), c, 0, 0, 0);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
gemmgen_mixpert4_mfma_64x64x32_344f77be(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
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

    sums acc_sum0[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
    sums acc_sum7[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^7 too large
    sums acc_sum14[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^14 too large
    sums acc_sum21[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^21 too large

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = thread_id() * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 6144 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 6144 + copy_from;

    u32 a_held[2][4], b_held[2][4];  // a stage on its way to shared memory

    // Starts the loads of part `part` of the next stage of k.
    const auto load = [&](int part) __attribute__((always_inline)) {
        if (part < 2) {
            const int i = part;
            if (thread_id() + i * THREADS < 384) load_16(a_held[i], a_from + i * THREADS * 16);
        } else {
            const int i = part - 2;
            if (thread_id() + i * THREADS < 384) load_16(b_held[i], b_from + i * THREADS * 16);
        }
    };
    // Puts that stage of k into the place at `stage`.
    const auto store = [&](u32 stage) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (thread_id() + i * THREADS < 384) store_shared_16(stage + copy_to + i * (THREADS * 16), a_held[i]);
        a_from += 6144;
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (thread_id() + i * THREADS < 384) store_shared_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_held[i]);
        b_from += 6144;
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

    // One step of k: 8 word products for each fragment of C.
    const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum21[i][j], a_fragments[buffer][2][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum21[i][j], a_fragments[buffer][1][i], b_fragments[buffer][2][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum14[i][j], a_fragments[buffer][2][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum14[i][j], a_fragments[buffer][1][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum14[i][j], a_fragments[buffer][0][i], b_fragments[buffer][2][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum7[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum7[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_sum0[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
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
    constexpr int ROW_BITS = 15;  // of r: they say the row, the others the column
    int row_scales[FRAGMENTS_M][16];
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int r = 0; r < 16; ++r) {
            if (r & ~ROW_BITS) continue;
            const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
            row_scales[i][r] = row < m ? -row_exponent(a_absmax[row]) : 0;
        }
    int column_scales[FRAGMENTS_N][16];
#pragma unroll
    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
        for (int r = 0; r < 16; ++r) {
            if (r & ROW_BITS) continue;
            const int column = column0 + j * 32;
            column_scales[j][r] = column < n ? -row_exponent(b_absmax[column]) : 0;
        }
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
                float product = summed(acc_sum21[i][j][r], acc_sum14[i][j][r],
                    acc_sum7[i][j][r], acc_sum0[i][j][r]);
                product = scale_by(product, row_scales[i][r & ROW_BITS] + column_scales[j][r & ~ROW_BITS]);
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
        for (long long kk = 0; kk < (alpha == 0.0f ? 0 : k); ++kk)
            product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
        put_element(c + row * ldc + column, product, alpha, beta);
        if (alpha != 0.0f) __hip_atomic_fetch_add(repaired, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    }
}

}  // namespace gemmgen_344f77be
