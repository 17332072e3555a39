// kernel    gemmgen_residues8_mfma_128x128x128_223f5aff
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    residues8: residues modulo eight numbers, eight exact products (Ozaki scheme II)
// words     8 x s8, 32 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233; dropped none
// promote   never (residues8's own)
// special   exact
// fragment  v_mfma_i32_32x32x16_i8
// decided   block 128x128x128, warp 64x32x128, split prepass, loads grouped, 2 stages, group 1, 1 slice of k, promote 0, 1 fragment buffer
// block     512 threads, 65536 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      223f5aff, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_223f5aff {

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
GG_DEVICE float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
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

GG_DEVICE double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
GG_DEVICE int __double2loint(double x) { return (int)__builtin_bit_cast(u64, x); }
GG_DEVICE int __double2hiint(double x) { return (int)(__builtin_bit_cast(u64, x) >> 32); }
GG_DEVICE double __hiloint2double(int high, int low) { return __builtin_bit_cast(double, (u64)(u32)high << 32 | (u32)low); }
GG_DEVICE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
GG_DEVICE double sqrt(double x) { return __builtin_sqrt(x); }
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

// What a wavefront's lanes have written to shared memory is there for its others: they go in step, so that only the compiler is told.
GG_DEVICE void wavefront_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// `x` of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u32 shuffle_xor(u32 x, int mask) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 1 row takes the 32 banks, so from row to row
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row & 7); }

constexpr int MODULI = 8, WORDS = 1;  // residues of an element, of which a stage has one

// The last bytes of four numbers.
GG_DEVICE u32 bytes_of(u32 x, u32 y, u32 z, u32 w) { return __byte_perm(__byte_perm(x, y, 0x0040), __byte_perm(z, w, 0x0040), 0x5410); }

// Residues modulo 256, 255, 253, 251, 247, 241, 239, 233 of N elements times `factor`, rounded to integers: of least
// magnitude, four to a register. An integer's digits d of base 256 are of [-128, 127], so that it is congruent to the sum of d_j (256^j modulo m).
// put(number of the modulus, residues) takes those of one modulus after the other, so that few registers hold any. The answer is whether something
// may be to be counted: an integer whose digits are 0, or a row that is set aside.
template <int N, typename Put>
GG_DEVICE bool split_run(const float (&x)[N], double factor, const Put& put) {
    u32 digits[N], least = ~0u;
    constexpr float WHOLE = 0x1.8p+23f;  // added to an integer, that is its low bits
    float above[N];  // what is above the first four
#pragma unroll
    for (int i = 0; i < N; ++i) {
        // One rounding: to an integer, and 128 added to each of four digits, which makes bytes of them.
        const double held = fma((double)x[i], factor, 0x1.8p+52 + 2155905152.0);
        digits[i] = (u32)__double2loint(held) ^ 0x80808080u;
        least = min(least, digits[i]);
        above[i] = __uint_as_float((u32)__double2hiint(held) - 0x43380000u + 0x4b400000u) - WHOLE;
    }
    u32 packed[N / 4];
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 256
        packed[i / 4] = bytes_of(digits[i], digits[i + 1], digits[i + 2], digits[i + 3]);
    }
    put(0, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 255
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x01010101u, 0x4b2b8ec3));
            sum = fmaf(above[i + part], 1.0f, sum);
            const float quotient = fmaf(sum, 0x1.0101040000000p-8f, 12582914.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 255u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(1, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 253
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x1b090301u, 0x4b415227));
            sum = fmaf(above[i + part], 81.0f, sum);
            const float quotient = fmaf(sum, 0x1.03091e0000000p-8f, 12582998.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 253u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(2, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 251
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x7d190501u, 0x4b2f3a69));
            sum = fmaf(above[i + part], 123.0f, sum);
            const float quotient = fmaf(sum, 0x1.05197e0000000p-8f, 12582963.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 251u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(3, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 247
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0xf4510901u, 0x4b29c849));
            sum = fmaf(above[i + part], -108.0f, sum);
            const float quotient = fmaf(sum, 0x1.0953f20000000p-8f, 12583111.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 247u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(4, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 241
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x01f00f01u, 0x4b392135));
            sum = fmaf(above[i + part], 15.0f, sum);
            const float quotient = fmaf(sum, 0x1.0fef040000000p-8f, 12583134.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 241u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(5, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 239
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x96321101u, 0x4b32162e));
            sum = fmaf(above[i + part], 110.0f, sum);
            const float quotient = fmaf(sum, 0x1.1235900000000p-8f, 12583153.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 239u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(6, packed);
#pragma unroll
    for (int i = 0; i < N; i += 4) {  // modulo 233
        u32 bits[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
            float sum = __uint_as_float((u32)__dp4a((int)digits[i + part], (int)0x333f1701u, 0x4b0fff25));
            sum = fmaf(above[i + part], 8.0f, sum);
            const float quotient = fmaf(sum, 0x1.19453a0000000p-8f, 12583079.0f);
            bits[part] = __float_as_uint(sum) - __float_as_uint(quotient) * 233u;  // of which the last byte counts
        }
        packed[i / 4] = bytes_of(bits[0], bits[1], bits[2], bits[3]);
    }
    put(7, packed);
    return least == 0 || factor != factor;
}

// How many of N elements are lossy and how many are not finite, ten bits each, with ten of 0 between them: nothing overflows.
// Lossy are those that are not 0 and whose integer is; none where the row is set aside, which has no factor.
template <int N>
GG_DEVICE u32 losses(const float (&x)[N], double factor) {
    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        const bool lossy = magnitude > 0.0f && (double)magnitude * factor <= 0.5;
        counts += (lossy ? 1u : 0u) + (magnitude < __uint_as_float(0x7f800000u) ? 0u : 1u << 20);
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

constexpr int SEGMENT_K = 8192;  // k whose products are summed and joined by themselves

// What makes integers of a row's elements for its norm: two powers of two, multiplied one after the other, since FP32 does not hold their product for
// rows of subnormal numbers.
struct Unit {
    float up, scale;
};

// The unit of a row by the bits of its largest magnitude, which becomes an integer of [2^27, 2^28).
GG_DEVICE Unit unit_of(u32 largest) {
    const float up = largest < 0x2b800000u ? 0x1p64f : 1.0f;  // below 2^-40
    const u32 exponent = __float_as_uint(__uint_as_float(largest) * up) >> 23;
    return {up, __uint_as_float((281u - exponent) << 23)};
}

// What an element adds to the square of a row's norm, rounded toward zero: an integer, so that no order of k changes the sum. A thread adds up at most
// 256 of a segment, which is less than 2^64.
GG_DEVICE u64 square_of(float x, Unit unit) {
    const u32 whole = (u32)(fabsf(x) * unit.up * unit.scale);
    return (u64)whole * whole;
}

// The sum over all threads has up to 69 bits, so threads add up three parts of their sums: 22 bits each, from the last on.
GG_DEVICE u32 part_of(u64 squares, int part) { return (u32)(squares >> 22 * part) & 0x3fffffu; }

// A 64th of the sum that has these parts, rounded down.
GG_DEVICE u64 whole_of(const u32 (&parts)[3]) {
    return ((u64)parts[2] << 38) + ((((u64)parts[1] << 22) + parts[0]) >> 6);
}

// What a row or column is multiplied by, by its largest magnitude and that sum of squares, of the segment of the largest norm: its integers then have a
// norm of at most 2621235687, and a sum of their products over a segment is less than half of the product of all moduli. It is cut to
// 20 bits after the point, so that products with FP32 are exact.
GG_DEVICE double factor_of(u32 largest, u64 squares) {
    if (largest == 0) return 1.0;
    if (largest >= 0x7f800000u) return __longlong_as_double(0x7ff8000000000000ll);  // an Inf or a NaN: the row or column is set aside
    const u64 above = squares + 1;
    u32 root = (u32)sqrt((double)above);  // rounded down, but for one in either direction
    if ((u64)root * root > above) --root;
    if ((u64)(root + 1) * (root + 1) <= above) ++root;
    const Unit unit = unit_of(largest);
    const double found = 2621235687.0 / ((double)root * 8.0 + 99.0);
    return __hiloint2double(__double2hiint(found * (double)unit.up * (double)unit.scale), 0);
}

// The bits of a magnitude, which are in the order of the numbers.
GG_DEVICE u32 magnitude_of(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// A block takes a row of operand a, 4096 k at a time. 256 threads read each; a thread splits 16 neighbouring k.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,        // packed stages, edges zero: [m / 128][k / 128][modulus: 8][m: 128][k: 128], rows swizzled
    double* __restrict__ scales,   // factors, [m], and behind those of all panels one over each
    u64* __restrict__ counters,    // lossy, overflow, nonfinite
    float* const kept)             // shared memory
{
    const int mine = thread_id(), o_read = block;
    const int end = (k + 127) / 128 * 128, panels = (outer + 127) / 128;
    const bool inside = o_read < outer, pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && k % 4 == 0;  // of 16 bytes
    const float* const from = x + (inside ? (long long)o_read * ld : 0);
    // Four neighbours lie together. Eight threads that write neighbouring fours, or read every fourth, touch all banks.
    float4* const fours = (float4*)kept;
    const auto place = [](int four) { return four ^ (four >> 3 & 3); };
    u32 largest = 0;               // magnitude
    u64 squares = 0, most = 0;     // sums of squares: of the segment of k at hand, a part of it; the largest of a segment so far
    Unit unit = {};
    __attribute__((shared)) static u32 of_warps[12];
    __attribute__((shared)) static double factors[1];
    int k0 = 0;
    const auto k_of = [&](int i) __attribute__((always_inline)) { return k0 + (i * 256 + mine) * 4; };
    const auto is_inside = [&](int i) __attribute__((always_inline)) { return inside && k_of(i) < k; };
    const auto source = [&](int i) __attribute__((always_inline)) { return (const float4*)(is_inside(i) ? from + k_of(i) : x); };
    const auto there = [&](int i) __attribute__((always_inline)) { return fours + place(i * 256 + mine); };
    const auto fetch = [&](int i) __attribute__((always_inline)) {
        const int kk = k_of(i), left = inside ? k - kk : 0;
        return make_float4(left > 0 ? from[kk] : 0.0f, left > 1 ? from[kk + 1] : 0.0f, left > 2 ? from[kk + 2] : 0.0f, left > 3 ? from[kk + 3] : 0.0f);
    };
    // Up along k for the largest, back for the squares, and up again to split: what was read last need not be read again.
#pragma unroll 1
    for (bool known = false;;) {
#pragma unroll 1
        for (int i = 0; i < 4; i += 4) {
            float4 four[4];
            if (pieces) {
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    four[one] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (is_inside(i + one)) four[one] = *source(i + one);
                }
            } else {
#pragma unroll
                for (int one = 0; one < 4; ++one) four[one] = fetch(i + one);
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) *there(i + one) = four[one];
        }
        wavefront_barrier();  // lanes that read element by element come together
        if (!known) {
#pragma unroll 4
            for (int i = 0; i < 4; ++i) {
                const float4 four = *there(i);
                largest = max(largest, magnitude_of(four.x));
                largest = max(largest, magnitude_of(four.y));
                largest = max(largest, magnitude_of(four.z));
                largest = max(largest, magnitude_of(four.w));
            }
            if (k0 + 4096 < end) {
                k0 += 4096;
                continue;
            }
            wavefront_barrier();
#pragma unroll
            for (int mask = 32; mask > 0; mask /= 2) largest = max(largest, shuffle_xor(largest, mask));
            if (thread_id() % 64 == 0) of_warps[thread_id() / 64] = largest;
            block_barrier();
#pragma unroll
            for (int warp = 0; warp < 4; ++warp) largest = max(largest, of_warps[warp]);

            unit = unit_of(largest);
            known = true;
        }
#pragma unroll 4
        for (int i = 0; i < 4; ++i) {
            const float4 four = *there(i);
            squares += square_of(four.x, unit);
            squares += square_of(four.y, unit);
            squares += square_of(four.z, unit);
            squares += square_of(four.w, unit);
        }
        if (k0 % 8192 == 0) {
            u32 parts[3];
#pragma unroll
            for (int part = 0; part < 3; ++part) {
                parts[part] = part_of(squares, part);
#pragma unroll
                for (int mask = 32; mask > 0; mask /= 2) parts[part] += shuffle_xor(parts[part], mask);
            }
            squares = 0;
            block_barrier();  // all have read what was here
            if (thread_id() % 64 == 0)
#pragma unroll
                for (int part = 0; part < 3; ++part) of_warps[thread_id() / 64 * 3 + part] = parts[part];
            block_barrier();
#pragma unroll
            for (int part = 0; part < 3; ++part) {
                parts[part] = 0;
#pragma unroll
                for (int warp = 0; warp < 4; ++warp) parts[part] += of_warps[(warp) * 3 + part];
            }
            most = max(most, whole_of(parts));
        }
        if (k0 == 0) break;
        k0 -= 4096;
    }
    if (mine == 0) factors[0] = factor_of(largest, most);
    block_barrier();
    if (mine == 0 && inside) scales[o_read] = factors[0], scales[panels * 128 + o_read] = 1.0 / factors[0];
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        for (int run = thread_id(); run < 256; run += 256) {
            const int o = block, kk = k0 + run * 16;
            if (kk - run % 64 * 16 >= end) continue;  // for a warp alike
            const double factor = factors[0];
            float value[16];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 four = fours[place(run * 4 + i)];
                value[i * 4] = four.x, value[i * 4 + 1] = four.y, value[i * 4 + 2] = four.z, value[i * 4 + 3] = four.w;
            }

            bool rare = false;
            if (o < panels * 128 && kk < end) {
                const int at = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 128) * (end / 128) + kk / 128) * 131072 + at * 128 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) __attribute__((always_inline)) {
                    *(uint4*)(to + modulus * 16384) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
                });
            }
            if ((__builtin_amdgcn_ballot_w64(rare) != 0)) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float4 four = fours[place(run * 4 + i)];
                    value[i * 4] = four.x, value[i * 4 + 1] = four.y, value[i * 4 + 2] = four.z, value[i * 4 + 3] = four.w;
                }
                count(counters, losses(value, factor));
            }
        }
        wavefront_barrier();
        if (k0 + 4096 >= end) break;
        k0 += 4096;
        block_barrier();  // before others' elements are written over
#pragma unroll 1
        for (int i = 0; i < 4; i += 4) {
            float4 four[4];
            if (pieces) {
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    four[one] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (is_inside(i + one)) four[one] = *source(i + one);
                }
            } else {
#pragma unroll
                for (int one = 0; one < 4; ++one) four[one] = fetch(i + one);
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) *there(i + one) = four[one];
        }
        wavefront_barrier();  // lanes that read element by element come together
        block_barrier();
    }
}

// A block takes 32 columns of operand b, 128 k at a time. A thread reads four neighbours, and splits 16 k of one.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,        // packed stages, edges zero: [n / 128][k / 128][modulus: 8][n: 128][k: 128], rows swizzled
    double* __restrict__ scales,   // factors, [n], and behind those of all panels one over each
    u64* __restrict__ counters,    // lossy, overflow, nonfinite
    float* const kept)             // shared memory
{
    const int panel = block * 32, begin = 0;
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int mine = thread_id() / 8, first = panel + thread_id() % 8 * 4;
    const int end = (k + 127) / 128 * 128, panels = (outer + 127) / 128;
    const bool pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && outer % 4 == 0;  // of 16 bytes
    // Element k of a column lies here: 32 neighbours together, and 16 bytes free after every 16 k, so that threads which read along k touch all banks.
    const auto place = [](int kk) { return kk * 32 + kk / 16 * 4; };
    u32 largest[4] = {};               // magnitudes
    u64 squares[4] = {}, most = 0;     // sums of squares: of the segment of k at hand, a part of it; the largest of a segment so far, of one column
    Unit unit[4] = {};
    const int column = thread_id();
    __attribute__((shared)) static u32 of_warps[384];
    __attribute__((shared)) static u32 tops[32];
    __attribute__((shared)) static double factors[32];
    int k0 = 0;
    const auto k_of = [&](int i) __attribute__((always_inline)) { return k0 + begin + i * 32 + mine; };
    const auto is_inside = [&](int i) __attribute__((always_inline)) { return first < outer && k_of(i) < k; };
    const auto source = [&](int i) __attribute__((always_inline)) { return (const float4*)(is_inside(i) ? x + (long long)k_of(i) * ld + first : x); };
    const auto there = [&](int i) __attribute__((always_inline)) { return (float4*)(kept + place(i * 32 + mine) + thread_id() % 8 * 4); };
    const auto fetch = [&](int i) __attribute__((always_inline)) {
        const int kk = k_of(i), left = kk < k ? outer - first : 0;
        const float* const from = x + (long long)kk * ld + first;
        return make_float4(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
    };
    // Up along k for the largest, back for the squares, and up again to split: what was read last need not be read again.
#pragma unroll 1
    for (bool known = false;;) {
#pragma unroll 1
        for (int i = 0; i < 4; i += 4) {
            float4 four[4];
            if (pieces) {
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    four[one] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (is_inside(i + one)) four[one] = *source(i + one);
                }
            } else {
#pragma unroll
                for (int one = 0; one < 4; ++one) four[one] = fetch(i + one);
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) *there(i + one) = four[one];
        }
        wavefront_barrier();  // lanes that read element by element come together
        if (!known) {
#pragma unroll 4
            for (int i = 0; i < 4; ++i) {
                const float4 four = *there(i);
                largest[0] = max(largest[0], magnitude_of(four.x));
                largest[1] = max(largest[1], magnitude_of(four.y));
                largest[2] = max(largest[2], magnitude_of(four.z));
                largest[3] = max(largest[3], magnitude_of(four.w));
            }
            if (k0 + 128 < end) {
                k0 += 128;
                continue;
            }
            wavefront_barrier();
            // Over a warp, the block.
#pragma unroll
            for (int one = 0; one < 4; ++one) {
#pragma unroll
                for (int mask = 8; mask < 64; mask *= 2) largest[one] = max(largest[one], shuffle_xor(largest[one], mask));
                if (lane < 8) of_warps[warp * 32 + lane * 4 + one] = largest[one];
            }
            block_barrier();
            u32 top = 0;
            if (column < 32) {
                for (int i = 0; i < 4; ++i) top = max(top, of_warps[i * 32 + column]);
                tops[column] = top;
            }
            block_barrier();
#pragma unroll
            for (int one = 0; one < 4; ++one) unit[one] = unit_of(tops[thread_id() % 8 * 4 + one]);
            known = true;
        }
#pragma unroll 4
        for (int i = 0; i < 4; ++i) {
            const float4 four = *there(i);
            squares[0] += square_of(four.x, unit[0]);
            squares[1] += square_of(four.y, unit[1]);
            squares[2] += square_of(four.z, unit[2]);
            squares[3] += square_of(four.w, unit[3]);
        }
        if (k0 % 8192 == 0) {
            // Over a warp, the block.
#pragma unroll
            for (int one = 0; one < 4; ++one) {
#pragma unroll
                for (int part = 0; part < 3; ++part) {
                    u32 sum = part_of(squares[one], part);
#pragma unroll
                    for (int mask = 8; mask < 64; mask *= 2) sum += shuffle_xor(sum, mask);
                    if (lane < 8) of_warps[(warp * 3 + part) * 32 + lane * 4 + one] = sum;
                }
                squares[one] = 0;
            }
            block_barrier();
            u32 parts[3] = {};
            if (column < 32)
#pragma unroll
                for (int part = 0; part < 3; ++part)
                    for (int i = 0; i < 4; ++i) parts[part] += of_warps[(i * 3 + part) * 32 + column];
            if (k0 > 0) block_barrier();  // before sums of the next segment are written over these
            most = max(most, whole_of(parts));
        }
        if (k0 == 0) break;
        k0 -= 128;
    }
    if (column < 32) {
        factors[column] = factor_of(tops[column], most);
    }
    block_barrier();
    if (column < 32 && panel + column < panels * 128)  // of zeros behind the last, too: warps stay whole
        scales[panel + column] = factors[column], scales[panels * 128 + panel + column] = 1.0 / factors[column];
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        for (int run = thread_id(); run < 256; run += 256) {
            // Eight neighbouring threads write 128 bytes of a row of words.
            const int local = (run / 256 * 8 + run % 8) * 16, line = run / 8 % 32;
            const int o = panel + line, kk = k0 + begin + local;
            if (kk - run % 8 * 16 >= end) continue;  // for a warp alike
            const double factor = factors[line];
            float value[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) value[i] = kept[place(local) + i * 32 + line];

            bool rare = false;
            if (o < panels * 128 && kk < end) {
                const int at = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 128) * (end / 128) + kk / 128) * 131072 + at * 128 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) __attribute__((always_inline)) {
                    *(uint4*)(to + modulus * 16384) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
                });
            }
            if ((__builtin_amdgcn_ballot_w64(rare) != 0)) {
#pragma unroll
                for (int i = 0; i < 16; ++i) value[i] = kept[place(local) + i * 32 + line];
                count(counters, losses(value, factor));
            }
        }
        wavefront_barrier();
        if (k0 + 128 >= end) break;
        k0 += 128;
        block_barrier();  // before others' elements are written over
#pragma unroll 1
        for (int i = 0; i < 4; i += 4) {
            float4 four[4];
            if (pieces) {
#pragma unroll
                for (int one = 0; one < 4; ++one) {
                    four[one] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (is_inside(i + one)) four[one] = *source(i + one);
                }
            } else {
#pragma unroll
                for (int one = 0; one < 4; ++one) four[one] = fetch(i + one);
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) *there(i + one) = four[one];
        }
        wavefront_barrier();  // lanes that read element by element come together
        block_barrier();
    }
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_residues8_mfma_128x128x128_223f5aff_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    double* __restrict__ a_scales, double* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    __attribute__((shared, aligned(128))) static unsigned char waiting[16512];
    float* const kept = (float*)waiting;
    const int blocks_a = ((m + 127) / 128 * 128);
    if (block_id() < blocks_a)
        split_a(block_id(), a, lda, m, k, a_words, a_scales, a_status, kept);
    else
        split_b(block_id() - blocks_a, b, ldb, n, k, b_words, b_scales, b_status, kept);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 128, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     2 x 4 warps of 64 x 32, modulo one number after the other. A thread has 32 sums in
//   BLOCK_M  +---+----+----+ - -        registers, and beside each 64 bits for what the sums before left.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 128 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 128;
constexpr int WARP_M = 64, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 512;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 1;  // fragments of m32n32k32 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one residue of a stage
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

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

// What sums are reduced with, modulo the number at hand, and the weight of what is left.
struct Modulus {
    u32 m, reciprocal, offset, high, low;
};
GG_DEVICE Modulus modulus_of(int modulus) {
    if (modulus == 0) return {256u, 2147483648u, 1073741824u, 3774873600u, 0u};
    if (modulus == 1) return {255u, 2155905153u, 1073742015u, 1397969747u, 341301u};
    if (modulus == 2) return {253u, 2172947881u, 1073741867u, 3055707957u, 658986u};
    if (modulus == 3) return {251u, 2190262207u, 1073741856u, 2703604911u, 447003u};
    if (modulus == 4) return {247u, 2225732041u, 1073741851u, 1182420146u, 280186u};
    if (modulus == 5) return {241u, 2281144456u, 1073742001u, 2352430220u, 226249u};
    if (modulus == 6) return {239u, 2300233531u, 1073741916u, 593028957u, 197431u};
    return {233u, 2359467013u, 1073742055u, 2119833643u, 994572u};
}

// A sum modulo m, in [0, m): the offset is a multiple of m that makes it no negative number, and the quotient is exact.
GG_DEVICE u32 reduced(int sum, const Modulus& by) {
    const u32 whole = (u32)sum + by.offset;
    return whole - (__umulhi(whole, by.reciprocal) >> 7) * by.m;
}

// An integer over the product of all moduli, in units of 2^-52: by the Chinese remainder theorem, a fraction in [-1/2, 1/2),
// from the sum of what it leaves times the weights, of which the leading 32 bits and the last 20 are summed apart.
GG_DEVICE double fraction_of(u32 high, u32 low) {
    const long long fraction = (long long)(((u64)high << 32) + ((u64)low << 12)) >> 12;
    // Below 2^51 in magnitude, it is the last bits of such a number.
    return __longlong_as_double(0x4338000000000000ll + fraction) - 0x1.8p+52;
}

constexpr int SEGMENT_STAGES = SEGMENT_K / BLOCK_K;

// Where a block is among its stages: all of a segment of k for each modulus, one segment after another.
struct Turn {
    int modulus, left, begin;  // stages of the segment that are left for this modulus, and stages of segments before
};
GG_DEVICE int segment_of(const Turn& turn, int stages_k) { return min(stages_k - turn.begin, SEGMENT_STAGES); }
GG_DEVICE Turn first_turn(int stages_k) { return {0, min(stages_k, SEGMENT_STAGES), 0}; }
GG_DEVICE void next_modulus(Turn& turn, int stages_k) {
    if (++turn.modulus == MODULI) turn.modulus = 0, turn.begin += SEGMENT_STAGES;
    turn.left = segment_of(turn, stages_k);
}

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(THREADS, THREADS)))
gemmgen_residues8_mfma_128x128x128_223f5aff(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const double* __restrict__ a_scales, const double* __restrict__ b_scales,
    double* __restrict__ segments,  // [blocks of C][elements of a thread][THREADS]
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
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k * MODULI;

    sums acc_of_256[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit

    Turn filled = first_turn(stages_k), multiplied = filled;
    u32 high[FRAGMENTS_M][FRAGMENTS_N][16] = {}, low[FRAGMENTS_M][FRAGMENTS_N][16] = {};
    double* const totals = segments + (long long)block * (BLOCK_M * BLOCK_N);  // a thread's elements are THREADS apart
    const auto reduce = [&]() __attribute__((always_inline)) {
        const Modulus by = modulus_of(multiplied.modulus);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 16; ++r) {
                    const u32 residue = reduced(acc_of_256[i][j][r], by);
                    high[i][j][r] += residue * by.high, low[i][j][r] += residue * by.low;
                    acc_of_256[i][j][r] = 0;
                }
        if (stages_k > SEGMENT_STAGES && multiplied.modulus == MODULI - 1) {
            const bool first = multiplied.begin == 0;
            int mine = thread_id();
            asm volatile("" : "+v"(mine));
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                    for (int r = 0; r < 16; ++r) {
                        double* const total = totals + mine + ((i * FRAGMENTS_N + j) * 16 + r) * THREADS;
                        const double found = fraction_of(high[i][j][r], low[i][j][r]);
                        *total = first ? found : *total + found;
                        high[i][j][r] = low[i][j][r] = 0;
                    }
                }
        }
        next_modulus(multiplied, stages_k);
    };
    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = thread_id() * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 131072 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 131072 + copy_from;

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
#pragma unroll
        for (int i = 0; i < 2; ++i)
            store_shared_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_held[i]);
        a_from += MODULI * A_BYTES, b_from += MODULI * B_BYTES;
        if (--filled.left == 0) {
            const long long back = filled.modulus + 1 < MODULI ? segment_of(filled, stages_k) * MODULI - 1 : MODULI - 1;  // residues
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
        if (--multiplied.left == 0) reduce();
    }

    float sum[FRAGMENTS_M][FRAGMENTS_N][16] = {};
    if (stage_count > 0) {
        if (stages_k > SEGMENT_STAGES) {
            int mine = thread_id();
            asm volatile("" : "+v"(mine));
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                    for (int r = 0; r < 16; ++r) {
                        const double found = totals[mine + ((i * FRAGMENTS_N + j) * 16 + r) * THREADS];
                        high[i][j][r] = (u32)__double2hiint(found), low[i][j][r] = (u32)__double2loint(found);
                    }
                }
        } else {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                    for (int r = 0; r < 16; ++r) {
                        const double found = fraction_of(high[i][j][r], low[i][j][r]);
                        high[i][j][r] = (u32)__double2hiint(found), low[i][j][r] = (u32)__double2loint(found);
                    }
                }
        }
        const int row0 = m0 + warp_m + (lane >> 5) * 4;
        const int column0 = n0 + warp_n + (lane & 31);
        const double* const a_steps = a_scales + (long long)blocks_m * BLOCK_M;
        const double* const b_steps = b_scales + (long long)blocks_n * BLOCK_N;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                for (int r = 0; r < 16; ++r) {
                    const int row = row0 + i * 32 + (r & 3) + (r >> 2) * 8;
                    const int column = column0 + j * 32;
                    const double found = __hiloint2double((int)high[i][j][r], (int)low[i][j][r]);
                    sum[i][j][r] = (float)(found * (a_steps[min(row, m - 1)] * 0x1.7d690b03a3244p+11) * b_steps[min(column, n - 1)]);
                }
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
                float product = sum[i][j][r];
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

}  // namespace gemmgen_223f5aff
