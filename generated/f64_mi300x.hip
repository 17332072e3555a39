// kernel    gemmgen_residues14_mfma_224x128x32_fc3004f2
// computes  C = alpha A B + beta C in FP64, layout nn (row major), any m, n, k
// scheme    residues14: FP64 elements as residues modulo fourteen numbers, fourteen exact products (Ozaki scheme II)
// words     14 x s8, 55 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199; dropped none
// promote   never (residues14's own)
// special   exact
// fragment  v_mfma_i32_32x32x16_i8
// decided   block 224x128x32, warp 224x32x32, split prepass, loads grouped, 2 stages, group 1, 1 slice of k, promote 0, 1 fragment buffer
// block     256 threads, 22528 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      fc3004f2, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_fc3004f2 {

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

typedef double double2 __attribute__((ext_vector_type(2)));
GG_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
GG_DEVICE int __double2loint(double x) { return (int)__builtin_bit_cast(u64, x); }
GG_DEVICE int __double2hiint(double x) { return (int)(__builtin_bit_cast(u64, x) >> 32); }
GG_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
GG_DEVICE int __clzll(long long x) { return __builtin_clzll((u64)x); }
GG_DEVICE u32 __umulhi(u32 x, u32 y) { return (u32)((u64)x * y >> 32); }
// The bytes of `x`, numbered 0 to 3, and `y`, 4 to 7, that four hex digits of the selector name.
GG_DEVICE u32 __byte_perm(u32 x, u32 y, u32 selector) {
    return __builtin_amdgcn_perm(y, x, (selector & 15) | (selector & 0xf0) << 4 | (selector & 0xf00) << 8 | (selector & 0xf000) << 12);
}
// z + the sum of the products of four numbers of 8 bits each.
GG_DEVICE int __dp4a(int x, int y, int z) {
#if defined(__GFX9__)
    return __builtin_amdgcn_sdot4(x, y, z, false);
#else
    return __builtin_amdgcn_sudot4(true, x, true, y, z, false);
#endif
}

// `x` of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u32 shuffle_xor(u32 x, int mask) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 4 rows share the 32 banks, so every 4 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 4 & 1); }

constexpr int MODULI = 14, WORDS = 1;  // residues of an element, of which a stage has one

// The last bytes of four numbers.
GG_DEVICE u32 bytes_of(u32 x, u32 y, u32 z, u32 w) { return __byte_perm(__byte_perm(x, y, 0x0040), __byte_perm(z, w, 0x0040), 0x5410); }

constexpr int ASIDE = -0x40000000;  // in place of the power of two of a row or column that holds an Inf or a NaN: its integers do not count

// The bits of |x|, which are in the order of the numbers.
GG_DEVICE u64 magnitude_of(double x) { return (u64)((u32)__double2hiint(x) & 0x7fffffffu) << 32 | (u32)__double2loint(x); }

// x 2^power as an integer, ties to even: sums of one sign would add up what other ties leave.
GG_DEVICE u64 integer_of(double x, int power) {
    const u64 magnitude = magnitude_of(x);
    const int exponent = (int)(magnitude >> 52), up = max(exponent, 1) - 1075 + power;
    const u64 significand = (magnitude & 0xfffffffffffffull) + (exponent > 0 ? 1ull << 52 : 0);
    u64 whole = 0;
    if (up >= 0)
        whole = significand << up;
    else if (up >= -54)
        whole = (significand + (1ull << (-up - 1)) - 1 + (significand >> -up & 1)) >> -up;
    return __double2hiint(x) < 0 ? 0 - whole : whole;
}

// What an integer's digits d of base 256, of [-128, 127], are multiplied by, so that it is congruent to the sum of d_j (256^j modulo m): eight bytes; what
// sums begin with as the bits of FP32, and what makes quotients of them; 256 takes the last digit, whatever its quotient.
struct Digits {
    u32 first, last, start, m;
    float inverse, whole;
};

// Four elements' residues of least magnitude modulo one number, of which the last byte counts.
GG_DEVICE u32 residues_of(const u32* low, const u32* high, const Digits& by) {
    u32 bits[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const u32 sum = (u32)__dp4a((int)low[i], (int)by.first, __dp4a((int)high[i], (int)by.last, (int)by.start));
        bits[i] = sum - __float_as_uint(fmaf(__uint_as_float(sum), by.inverse, by.whole)) * by.m;
    }
    return bytes_of(bits[0], bits[1], bits[2], bits[3]);
}

// Residues modulo 256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199 of N elements times 2^power,
// rounded to integers: four to a register. put(number of the modulus, residues) takes those of one modulus after the other, so that few registers hold any.
template <int N, typename Put>
GG_DEVICE void split_run(const double (&x)[N], int power, const Put& put) {
    u32 low[N], high[N], packed[N / 4];
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u64 digits = (integer_of(x[i], power) + 0x8080808080808080ull) ^ 0x8080808080808080ull;
        low[i] = (u32)digits, high[i] = (u32)(digits >> 32);
    }
    {
        const Digits by = {1u, 0u, 0x4b000000u, 256u, 0x1p-8f, 0x1.8p+23f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(0, packed);
    }
    {
        const Digits by = {0x01010101u, 0x01010101u, 0x4b2b8ec3u, 255u, 0x1.0101040000000p-8f, 12582914.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(1, packed);
    }
    {
        const Digits by = {0x1b090301u, 0xa6e2f651u, 0x4b415227u, 253u, 0x1.03091e0000000p-8f, 12582998.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(2, packed);
    }
    {
        const Digits by = {0x7d190501u, 0x403f717bu, 0x4b2f3a69u, 251u, 0x1.05197e0000000p-8f, 12582963.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(3, packed);
    }
    {
        const Digits by = {0xf4510901u, 0x3d991094u, 0x4b29c849u, 247u, 0x1.0953f20000000p-8f, 12583111.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(4, packed);
    }
    {
        const Digits by = {0x01f00f01u, 0x0f01f00fu, 0x4b392135u, 241u, 0x1.0fef040000000p-8f, 12583134.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(5, packed);
    }
    {
        const Digits by = {0x96321101u, 0x3303d66eu, 0x4b32162eu, 239u, 0x1.1235900000000p-8f, 12583153.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(6, packed);
    }
    {
        const Digits by = {0x333f1701u, 0xc626cf08u, 0x4b0fff25u, 233u, 0x1.19453a0000000p-8f, 12583079.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(7, packed);
    }
    {
        const Digits by = {0xf52a1b01u, 0x3d94fcbcu, 0x4b280a03u, 229u, 0x1.1e2ef20000000p-8f, 12583149.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(8, packed);
    }
    {
        const Digits by = {0x64bd1d01u, 0x960c6ecdu, 0x4b6bbd30u, 227u, 0x1.20b4720000000p-8f, 12582965.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(9, packed);
    }
    {
        const Digits by = {0x22e62101u, 0x0f290807u, 0x4b45fe53u, 223u, 0x1.25e22a0000000p-8f, 12583106.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(10, packed);
    }
    {
        const Digits by = {0x4e022701u, 0x5f08c304u, 0x4b1868c4u, 217u, 0x1.2e025e0000000p-8f, 12583063.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(11, packed);
    }
    {
        const Digits by = {0xe5ab2d01u, 0x6460e633u, 0x4b613545u, 211u, 0x1.3698e20000000p-8f, 12582986.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(12, packed);
    }
    {
        const Digits by = {0xb4413901u, 0x5605232eu, 0x4b3a2e0du, 199u, 0x1.4953a00000000p-8f, 12582921.0f};
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(13, packed);
    }
}

// How many of N elements are lossy and how many are not finite, ten bits each, with ten of 0 between them: nothing overflows.
// Lossy are those that are not 0 and whose integer is, since 2^power times them is at most 1/2; none where the row is set aside, which is
// the only kind that holds an Inf or a NaN.
template <int N>
GG_DEVICE u32 losses(const double (&x)[N], int power) {
    const int exponent = 1022 - power;  // of the largest element that is lost, biased
    const u64 most = power == ASIDE ? 0 : exponent > 0 ? (u64)exponent << 52 : exponent > -52 ? 1ull << (exponent + 51) : 0;
    u32 counts = 0, least = ~0u;
#pragma unroll
    for (int i = 0; i < N; ++i) least = min(least, (u32)__double2hiint(x[i]) & 0x7fffffffu);
    if (power != ASIDE && least > (u32)(most >> 32)) return 0;  // by the leading halves alone
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u64 magnitude = magnitude_of(x[i]);
        counts += (magnitude > 0 && magnitude <= most ? 1u : 0u) + (magnitude < 0x7ffull << 52 ? 0u : 1u << 20);
    }
    return counts;
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

constexpr int SEGMENT_K = 65536;  // k whose products of residues INT32 sums hold

// What counts of |x|: the exponent, the leading bits of its significand, and whether it is 0.
GG_DEVICE u32 leading_of(double x) { return ((u32)__double2hiint(x) & 0x7fffffffu) | ((u32)__double2loint(x) > 0 ? 1u : 0u); }

// The exponent of the largest element of a row, as FP64 stores it, but that of subnormal numbers as they count: 1.
GG_DEVICE int exponent_of(u32 leading) { return max((int)(leading >> 20), 1); }

// What an element adds to the bound of the square of its row's norm, in units of 2^(2 (top - 1038)), from the leading 16 bits of its
// significand: an integer, so that no order of k changes the sum.
GG_DEVICE u64 square_of(u32 leading, int top) {
    const u32 significand = ((leading & 0xfffffu) + (leading >> 20 > 0 ? 1u << 20 : 0)) >> 5;
    const u32 bound = (significand >> min(top - exponent_of(leading), 31)) + 1;
    return leading > 0 ? (u64)bound * bound : 0;
}

// log2 of what a row or column is multiplied by, by its largest element and the bound of the square of its norm: its integers then have a norm
// of at most 26939230275633369, and a sum of their products is less than half of the product of all moduli.
GG_DEVICE int power_of(u32 largest, u64 squares) {
    constexpr u64 MOST = 2578282930598169010ull;  // 4^24 of it are the square of that norm
    if (largest == 0) return 0;
    if (largest >= 0x7ffu << 20) return ASIDE;
    int up = -1;
    if (squares <= MOST) {
        up = (__clzll((long long)squares) - 2) / 2;
        if (squares << 2 * up > MOST) --up;
    }
    return 1062 + up - exponent_of(largest);
}

// A number of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u64 of_other(u64 x, int mask) {
    const u32 high = shuffle_xor((u32)(x >> 32), mask), low = shuffle_xor((u32)x, mask);
    return (u64)high << 32 | low;
}

// Powers of two of 16 rows of operand a, each of which 32 threads read, 1024 k at a time. Squares count from the largest exponent so
// far: where a later one is larger, the elements before it are read once more.
GG_DEVICE void norms_a(int block, const double* __restrict__ x, long long ld, int outer, int k, int* __restrict__ scales) {
    const int line = thread_id() / 32, part = thread_id() % 32;
    const int o = block * 16 + line, end = o < outer ? k : 0;
    const double* const from = x + (long long)o * ld;
    const auto at = [&](int kk) __attribute__((always_inline)) { return leading_of(from[kk]); };
    u32 most = 0;
    int again = 0;  // k that are read once more
    u64 squares = 0;
#pragma unroll 1
    for (int k0 = 0; k0 < k; k0 += 1024) {
        u32 held[32], largest = 0;
#pragma unroll
        for (int first = 0; first < 32; first += 8) {
            if (first * 32 < k - k0) {
#pragma unroll
                for (int i = first; i < first + 8; ++i) held[i] = i * 32 + part < end - k0 ? at(k0 + i * 32 + part) : 0;
            } else {
#pragma unroll
                for (int i = first; i < first + 8; ++i) held[i] = 0;
            }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) largest = max(largest, held[i]);
#pragma unroll
        for (int mask = 1; mask < 32; mask *= 2) largest = max(largest, shuffle_xor(largest, mask));
        if (k0 > 0 && exponent_of(largest) > exponent_of(most)) squares = 0, again = k0;
        most = max(most, largest);
#pragma unroll
        for (int first = 0; first < 32; first += 8) {
            if (first * 32 >= k - k0) break;
#pragma unroll
            for (int i = first; i < first + 8; ++i) squares += square_of(held[i], exponent_of(most));
        }
    }
#pragma unroll 8
    for (int kk = part; kk < min(again, end); kk += 32) squares += square_of(at(kk), exponent_of(most));
#pragma unroll
    for (int mask = 1; mask < 32; mask *= 2) squares += of_other(squares, mask);

    if (part == 0 && o < outer) scales[o] = power_of(most, squares);
}

// Powers of two of 16 columns of operand b, each of which 32 threads read, 1024 k at a time. Squares count from the largest exponent so
// far: where a later one is larger, the elements before it are read once more.
GG_DEVICE void norms_b(int block, const double* __restrict__ x, long long ld, int outer, int k, int* __restrict__ scales) {
    const int lane = thread_id() % 32, warp = thread_id() / 32;
    const int line = thread_id() % 16, part = thread_id() / 16;
    const int o = block * 16 + line, end = o < outer ? k : 0;
    __attribute__((shared)) static u32 tops[512];  // of a span of k, and of the one before
    __attribute__((shared)) static u64 sums[256];
    const double* const from = x + o;
    const auto at = [&](int kk) __attribute__((always_inline)) { return leading_of(from[(long long)kk * ld]); };
    u32 most = 0;
    int again = 0;  // k that are read once more
    u64 squares = 0;
#pragma unroll 1
    for (int k0 = 0; k0 < k; k0 += 1024) {
        u32 held[32], largest = 0;
#pragma unroll
        for (int first = 0; first < 32; first += 8) {
            if (first * 32 < k - k0) {
#pragma unroll
                for (int i = first; i < first + 8; ++i) held[i] = i * 32 + part < end - k0 ? at(k0 + i * 32 + part) : 0;
            } else {
#pragma unroll
                for (int i = first; i < first + 8; ++i) held[i] = 0;
            }
        }
#pragma unroll
        for (int i = 0; i < 32; ++i) largest = max(largest, held[i]);
        const int other = k0 / 1024 % 2 * 256;
#pragma unroll
        for (int mask = 16; mask < 32; mask *= 2) largest = max(largest, shuffle_xor(largest, mask));
        if (lane < 16) tops[other + warp * 16 + lane] = largest;
        block_barrier();
        largest = 0;
#pragma unroll
        for (int i = 0; i < 16; ++i) largest = max(largest, tops[other + i * 16 + line]);
        if (k0 > 0 && exponent_of(largest) > exponent_of(most)) squares = 0, again = k0;
        most = max(most, largest);
#pragma unroll
        for (int first = 0; first < 32; first += 8) {
            if (first * 32 >= k - k0) break;
#pragma unroll
            for (int i = first; i < first + 8; ++i) squares += square_of(held[i], exponent_of(most));
        }
    }
#pragma unroll 8
    for (int kk = part; kk < min(again, end); kk += 32) squares += square_of(at(kk), exponent_of(most));
#pragma unroll
    for (int mask = 16; mask < 32; mask *= 2) squares += of_other(squares, mask);
    if (lane < 16) sums[warp * 16 + lane] = squares;
    block_barrier();
    squares = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) squares += sums[i * 16 + line];

    if (part == 0 && o < outer) scales[o] = power_of(most, squares);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(512, 512)))
gemmgen_residues14_mfma_224x128x32_fc3004f2_norms(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k, int* __restrict__ a_scales, int* __restrict__ b_scales)
{
    int block = block_id();
    const int blocks_a = ((m + 15) / 16);
    if (block < blocks_a) {
        norms_a(block, a, lda, m, k, a_scales);
        return;
    }
    block -= blocks_a;
    norms_b(block, b, ldb, n, k, b_scales);
}

GG_DEVICE double* block_elements() {
    __attribute__((shared)) static uint4 elements[2304];  // two of them in each
    return (double*)elements;
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 224][k / 32][word: 14][m: 224][k: 32], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const double* __restrict__ x, // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    const int* __restrict__ scales,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 127) / 128);
    const int k0 = block % blocks_k * 128;
    const int outer0 = block / blocks_k * 32;
    const int my_k = thread_id() % 8 * 16;
    const int my_outer = thread_id() / 8;
    const int o = outer0 + my_outer;
    double value[16];

    // Two neighbours at a time, and 16 bytes free after every 16 k: threads that read along k touch all banks.
    double2* const held = (double2*)block_elements();
    const int place = thread_id() % 64, first = thread_id() / 64, from_k = k0 + place * 2;
    const bool pieces = (((u64)x | (u64)ld * 8) & 15) == 0 && from_k + 1 < k;
    double2 two[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int from_o = outer0 + first + i * 4;
        const double* const from = x + (long long)from_o * ld + from_k;
        two[i].x = two[i].y = 0.0;
        if (pieces && from_o < outer)
            two[i] = *(const double2*)from;
        else if (from_o < outer && from_k < k) {
            two[i].x = *from;
            if (from_k + 1 < k) two[i].y = from[1];
        }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) held[(first + i * 4) * 72 + place + place / 8] = two[i];
    block_barrier();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const double2 one = held[thread_id() * 9 + i];
        value[2 * i] = one.x, value[2 * i + 1] = one.y;
    }

    const int factor = o < outer ? scales[o] : 0;  // log2 of it
    count(counters, losses(value, factor));

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 223) / 224;
    if (o < panels * 224 && kk < stages_k * 32) {
        const int row = o % 224, chunk = kk % 32 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 224) * stages_k + kk / 32) * 100352 + row * 32;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 7168 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 32][word: 14][n: 128][k: 32], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const double* __restrict__ x, // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    const int* __restrict__ scales,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 127) / 128);
    const int k0 = block % blocks_k * 128;
    const int outer0 = block / blocks_k * 32;
    const int my_k = thread_id() % 8 * 16;
    const int my_outer = thread_id() / 8;
    const int o = outer0 + my_outer;
    double value[16];

    // Read along n, where neighbours lie together; 16 bytes are free after every 16 k: threads that read along k touch all banks.
    double* const held = block_elements();
    const int place = thread_id() % 32, first = thread_id() / 32;
    double one[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int from_k = k0 + first + i * 8;
        one[i] = outer0 + place < outer && from_k < k ? x[(long long)from_k * ld + (outer0 + place)] : 0.0;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int row = first + i * 8;
        held[row * 32 + row / 16 * 2 + place] = one[i];
    }
    block_barrier();
#pragma unroll
    for (int i = 0; i < 16; ++i) value[i] = held[(my_k + i) * 32 + my_k / 16 * 2 + my_outer];

    const int factor = o < outer ? scales[o] : 0;  // log2 of it
    count(counters, losses(value, factor));

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 32) {
        const int row = o % 128, chunk = kk % 32 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 32) * 57344 + row * 32;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 4096 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_residues14_mfma_224x128x32_fc3004f2_split(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 223) / 224 * 224 + 31) / 32) * ((k + 127) / 128);
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_scales, a_status);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_scales, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(double* to, double product, double alpha, double beta) {
    double was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fma(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 224, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     1 x 4 warps of 224 x 32, modulo one number after the other. A thread has 112 sums in
//   BLOCK_M  +---+----+----+ - -        registers, which become bytes in the workspace after the whole loop over k.
//    = 224   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 224, BLOCK_N = 128, BLOCK_K = 32;
constexpr int WARP_M = 224, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 256;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int FRAGMENTS_M = 7, FRAGMENTS_N = 1;  // fragments of m32n32k32 in a warp
constexpr int K_STEPS = 1;  // instructions along k in a stage
constexpr int ROW_BYTES = 32;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one residue of a stage
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int WORDS_KEPT = 28;  // of four residues, which a thread has modulo each number

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

// What sums are reduced with, modulo the number at hand.
struct Modulus {
    u32 m, reciprocal, offset;
};
GG_DEVICE Modulus modulus_of(int modulus) {
    if (modulus == 0) return {256u, 2147483648u, 1073741824u};
    if (modulus == 1) return {255u, 2155905153u, 1073742015u};
    if (modulus == 2) return {253u, 2172947881u, 1073741867u};
    if (modulus == 3) return {251u, 2190262207u, 1073741856u};
    if (modulus == 4) return {247u, 2225732041u, 1073741851u};
    if (modulus == 5) return {241u, 2281144456u, 1073742001u};
    if (modulus == 6) return {239u, 2300233531u, 1073741916u};
    if (modulus == 7) return {233u, 2359467013u, 1073742055u};
    if (modulus == 8) return {229u, 2400680410u, 1073741841u};
    if (modulus == 9) return {227u, 2421831780u, 1073742007u};
    if (modulus == 10) return {223u, 2465272709u, 1073741878u};
    if (modulus == 11) return {217u, 2533436931u, 1073742040u};
    if (modulus == 12) return {211u, 2605477791u, 1073741864u};
    return {199u, 2762592030u, 1073741912u};
}

// A sum modulo m, in [0, m): the offset is a multiple of m that makes it no negative number, and the quotient is exact.
GG_DEVICE u32 reduced(int sum, const Modulus& by) {
    const u32 whole = (u32)sum + by.offset;
    return whole - (__umulhi(whole, by.reciprocal) >> 7) * by.m;
}

// An integer of 128 bits times 2^exponent as FP64: one rounding to nearest, ties to even, also of what is subnormal.
GG_DEVICE double rounded(u64 high, u64 low, int exponent) {
    const bool negative = (long long)high < 0;
    if (negative) high = ~high + (low == 0 ? 1 : 0), low = 0 - low;
    if (high == 0) {
        if (low == 0) return 0.0;
        high = low, low = 0, exponent -= 64;
    }
    const int lead = __clzll((long long)high);
    if (lead > 0) high = high << lead | low >> (64 - lead), low <<= lead;
    // The number is `high` 2^(exponent + 64 - lead), and a little more where `low` is not 0. FP64 keeps 53 bits, or those from 2^-1074 on.
    int biased = exponent - lead + 127 + 1023;
    const int drop = biased > 0 ? 11 : min(12 - biased, 65);
    biased = max(biased, 1);
    if (biased > 2046) biased = 2047, high = 1ull << 63, low = 0;
    u64 kept = drop < 64 ? high >> drop : 0;
    const u64 rest = drop < 65 ? high << (64 - drop) : 1;
    kept += rest > 1ull << 63 || (rest == 1ull << 63 && (low > 0 || (kept & 1) > 0)) ? 1 : 0;
    const u64 bits = ((u64)(biased - 1) << 52) + kept;  // the leading one adds 1 to the exponent, and so does a carry
    return __longlong_as_double((long long)(bits | (negative ? 1ull << 63 : 0)));
}

// The integer that leaves byte `at` of each word, by the Chinese remainder theorem: two residues make a number of 32 bits, and such
// numbers times the limbs of their weights are summed, less as many products of all moduli as the sum of their shares tells.
GG_DEVICE void whole_of(const u32 (&residues)[MODULI], int at, u64& high, u64& low) {
    u64 sums[4] = {}, shares = 1ull << 46;
    {
        const u64 both = __byte_perm(residues[0], 0, 0x4440 | at) * 9435u + __byte_perm(residues[1], 0, 0x4440 | at) * 54784u;
        shares += both * 2155905153u;
        sums[0] += both * 1246937427u;
        sums[1] += both * 1613851977u;
        sums[2] += both * 1205324005u;
    }
    {
        const u64 both = __byte_perm(residues[2], 0, 0x4440 | at) * 45933u + __byte_perm(residues[3], 0, 0x4440 | at) * 3795u;
        shares += both * 2216233695u;
        sums[0] += both * 1681818368u;
        sums[1] += both * 2463452090u;
        sums[2] += both * 1239052502u;
    }
    {
        const u64 both = __byte_perm(residues[4], 0, 0x4440 | at) * 42175u + __byte_perm(residues[5], 0, 0x4440 | at) * 48659u;
        shares += both * 2364263080u;
        sums[0] += both * 4096076544u;
        sums[1] += both * 3543597578u;
        sums[2] += both * 1321812808u;
    }
    {
        const u64 both = __byte_perm(residues[6], 0, 0x4440 | at) * 22135u + __byte_perm(residues[7], 0, 0x4440 | at) * 35611u;
        shares += both * 2527295210u;
        sums[0] += both * 3350735616u;
        sums[1] += both * 3850040076u;
        sums[2] += both * 1412960853u;
    }
    {
        const u64 both = __byte_perm(residues[8], 0, 0x4440 | at) * 47670u + __byte_perm(residues[9], 0, 0x4440 | at) * 35037u;
        shares += both * 2707375264u;
        sums[0] += both * 4073161472u;
        sums[1] += both * 3295088682u;
        sums[2] += both * 1513640056u;
    }
    {
        const u64 both = __byte_perm(residues[10], 0, 0x4440 | at) * 44702u + __byte_perm(residues[11], 0, 0x4440 | at) * 30328u;
        shares += both * 2908340153u;
        sums[0] += both * 2277681920u;
        sums[1] += both * 2108052582u;
        sums[2] += both * 1625995558u;
    }
    {
        const u64 both = __byte_perm(residues[12], 0, 0x4440 | at) * 34228u + __byte_perm(residues[13], 0, 0x4440 | at) * 29962u;
        shares += both * 3351770425u;
        sums[0] += both * 412059904u;
        sums[1] += both * 1051236828u;
        sums[2] += both * 1873908668u;
    }
    shares >>= 47;
    sums[0] += shares * 2439926528u;
    sums[1] += shares * 3290693367u;
    sums[2] += shares * 249791790u;
    sums[3] += shares * 4294948976u;
    sums[1] += sums[0] >> 32, sums[2] += sums[1] >> 32, sums[3] += sums[2] >> 32;
    high = sums[3] << 32 | (u32)sums[2], low = sums[1] << 32 | (u32)sums[0];
}

// The same of numbers in the range of normal ones, without a branch, so that a thread rounds several at once; `usual` is whether it is one, or 0.
GG_DEVICE double rounded_usually(u64 high, u64 low, int exponent, bool& usual) {
    const u64 sign = high >> 63, flip = 0 - sign;
    high = (high ^ flip) + (low == 0 ? sign : 0), low = (low ^ flip) + sign;
    const bool short_one = high == 0, zero = (high | low) == 0;
    high = short_one ? low : high, low = short_one ? 0 : low;
    const int lead = __clzll((long long)(high | 1));
    high = high << lead | low >> 1 >> (63 - lead), low <<= lead;
    const int biased = exponent - lead + 1150 - (short_one ? 64 : 0);
    const u64 kept = high >> 11;
    const u32 rest = ((u32)high & 0x7ffu) | (low > 0 ? 1u : 0u);
    const u64 bits = ((u64)(biased - 1) << 52) + kept + ((rest + 0x3ffu + ((u32)kept & 1u)) >> 11);
    usual = zero || (biased > 0 && biased < 2047);
    return __longlong_as_double((long long)(zero ? 0 : bits | sign << 63));
}

// log2 of what the integers of a row and a column are multiplied by; a row or column that is set aside shows.
GG_DEVICE int power_of_both(int of_row, int of_column) { return of_row == ASIDE || of_column == ASIDE ? ASIDE : -of_row - of_column; }

constexpr int EXACT_STAGES = SEGMENT_K / BLOCK_K;  // after which sums are reduced where they stand

// Where a block is among its stages: all of k for each modulus.
struct Turn {
    int modulus, left;  // stages that are left for this modulus
};
GG_DEVICE Turn first_turn(int stages_k) { return {0, stages_k}; }
GG_DEVICE void next_modulus(Turn& turn, int stages_k) { ++turn.modulus, turn.left = stages_k; }

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
gemmgen_residues14_mfma_224x128x32_fc3004f2(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u8* __restrict__ residues,  // [blocks]: [modulus][tile]
    const double* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const double* __restrict__ b, long long ldb,  // words cannot carry
    double* __restrict__ c, long long ldc, int m, int n, int k, double alpha, double beta,
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
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k * MODULI;

    sums acc_of_256[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit

    Turn filled = first_turn(stages_k), multiplied = filled;
    u32* const kept = (u32*)residues + (long long)block * (BLOCK_M * BLOCK_N / 4 * MODULI) + thread_id();  // a thread's words are THREADS apart
    const auto reduce = [&]() __attribute__((always_inline)) {
        Modulus by = modulus_of(multiplied.modulus);
        asm("" : "+s"(by.m), "+s"(by.reciprocal), "+s"(by.offset));  // for the compiler: all lanes share them
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 16; ++r) acc_of_256[i][j][r] = (int)reduced(acc_of_256[i][j][r], by);
        if (multiplied.left > 0) return;  // k goes on
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 16; r += 4) {
                    auto& four = acc_of_256[i][j];
                    kept[(multiplied.modulus * WORDS_KEPT + ((i * FRAGMENTS_N + j) * 16 + r) / 4) * THREADS] =
                        bytes_of((u32)four[r], (u32)four[r + 1], (u32)four[r + 2], (u32)four[r + 3]);
                    four[r] = four[r + 1] = four[r + 2] = four[r + 3] = 0;
                }
        next_modulus(multiplied, stages_k);
    };
    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = thread_id() * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 100352 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 57344 + copy_from;

    u32 a_held[2][4], b_held[1][4];  // a stage on its way to shared memory

    // Starts the loads of part `part` of the next stage of k.
    const auto load = [&](int part) __attribute__((always_inline)) {
        if (part < 2) {
            const int i = part;
            if (thread_id() + i * THREADS < 448) load_16(a_held[i], a_from + i * THREADS * 16);
        } else {
            const int i = part - 2;
            load_16(b_held[i], b_from + i * THREADS * 16);
        }
    };
    // Puts that stage of k into the place at `stage`.
    const auto store = [&](u32 stage) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if (thread_id() + i * THREADS < 448) store_shared_16(stage + copy_to + i * (THREADS * 16), a_held[i]);
        store_shared_16(stage + WORDS * A_BYTES + copy_to, b_held[0]);
        a_from += MODULI * A_BYTES, b_from += MODULI * B_BYTES;
        if (--filled.left == 0) {
            const long long back = stages_k * MODULI - 1;  // residues
            a_from -= back * A_BYTES, b_from -= back * B_BYTES;
            next_modulus(filled, stages_k);
        }
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

    // One step of k: 1 word product for each fragment of C.
    const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_of_256[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
    };

    const auto load_all = [&]() __attribute__((always_inline)) {
#pragma unroll
        for (int part = 0; part < 3; ++part) load(part);
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
        if (--multiplied.left % EXACT_STAGES == 0) reduce();
    }

    const int row0 = m0 + warp_m + (lane >> 5) * 4;
    const int column0 = n0 + warp_n + (lane & 31);
#pragma unroll 1
    for (int piece = 0; piece < WORDS_KEPT; ++piece) {
        u32 held[MODULI][1];
        if (stage_count > 0) {
#pragma unroll
            for (int modulus = 0; modulus < MODULI; ++modulus) {
                held[modulus][0] = kept[(modulus * WORDS_KEPT + piece) * THREADS];
            }
        }
        // All of a piece at once, and then their stores: nothing waits for a branch.
        double product[4] = {};
        u32 unusual = 0;  // a bit an element: beyond the range of normal numbers
        u32 bad = 0;  // the same: not finite
        if (stage_count > 0) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int at = piece * 4 + e, r = at % 16;
                const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
                const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                const int column = column0 + j * 32;
                u32 word[MODULI];
#pragma unroll
                for (int modulus = 0; modulus < MODULI; ++modulus) word[modulus] = held[modulus][e / 4];
                u64 high, low;
                bool usual;
                whole_of(word, e % 4, high, low);
                const int power = power_of_both(a_scales[min(row, m - 1)], b_scales[min(column, n - 1)]);
                product[e] = rounded_usually(high, low, power, usual);
                unusual |= usual && power != ASIDE ? 0 : 1u << e;
            }
            while (unusual) {  // one after the other, from the workspace again
                const int e = __ffs((int)unusual) - 1, at = piece * 4 + e, r = at % 16;
                unusual &= unusual - 1;
                const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
                const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                const int column = column0 + j * 32;
                u32 word[MODULI];
                for (int modulus = 0; modulus < MODULI; ++modulus)
                    word[modulus] = kept[(modulus * WORDS_KEPT + piece) * THREADS];
                u64 high, low;
                whole_of(word, e % 4, high, low);
                const int power = power_of_both(a_scales[min(row, m - 1)], b_scales[min(column, n - 1)]);
                const double found = power == ASIDE ? __longlong_as_double(0x7ff8000000000000ll) : rounded(high, low, power);
#pragma unroll
                for (int other = 0; other < 4; ++other) product[other] = other == e ? found : product[other];
            }
        }
        u32 wanted = 0;  // a bit an element: it is one of C, and finite
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int at = piece * 4 + e, r = at % 16;
            const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
            const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
            const int column = column0 + j * 32;
            const bool inside = row < m && column < n;
            const bool finite = magnitude_of(product[e]) < 0x7ffull << 52;
            wanted |= inside && finite ? 1u << e : 0;
            bad |= inside && !finite ? 1u << e : 0;
        }
        double was[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) was[e] = -0.0;  // which changes no number
        if (beta != 0.0) {  // as in BLAS, C is not read where beta is 0
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int at = piece * 4 + e, r = at % 16;
                const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
                const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                const int column = column0 + j * 32;
                const double* const from = c + row * ldc + column;
                if (wanted >> e & 1) was[e] = *from;
            }
        }
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int at = piece * 4 + e, r = at % 16;
            const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
            const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
            const int column = column0 + j * 32;
            double* const to = c + row * ldc + column;
            if (wanted >> e & 1) {
                *to = fma(alpha, product[e], beta * was[e]);
            }
        }
        // Integers have no Inf and no NaN, and what a sum in FP64 comes to beyond its range depends on the order: these elements are
        // computed again from the operands themselves.
        while (bad) {
            const int at = piece * 4 + __ffs((int)bad) - 1, r = at % 16;
            bad &= bad - 1;
            const int j = at / 16 % FRAGMENTS_N, i = at / (16 * FRAGMENTS_N);
            const long long row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
            const long long column = column0 + j * 32;
            double sum = 0.0;
            for (long long kk = 0; kk < k; ++kk)
                sum = fma(a[row * lda + kk], b[kk * ldb + column], sum);
            put_element(c + row * ldc + column, sum, alpha, beta);
            __hip_atomic_fetch_add(repaired, 1ull, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }
    }
}

}  // namespace gemmgen_fc3004f2
