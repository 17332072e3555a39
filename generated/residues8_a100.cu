// kernel    gemmgen_residues8_mma_128x96x64_b7342151
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    residues8: residues modulo eight numbers, eight exact products (Ozaki scheme II)
// words     8 x s8, 32 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233; dropped none
// promote   never (residues8's own)
// special   exact
// fragment  mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
// decided   block 128x96x64, warp 32x48x64, split prepass, loads async, 4 stages, group 8, 1 slice of k, promote 0, 2 fragment buffers
// block     256 threads, 57344 B of dynamic shared memory
// target    sm_80
// plan      b7342151, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_b7342151 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 2 rows share the 32 banks, so every 2 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 2 & 3); }

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

// 16 bytes from global to shared memory, past the registers and the L1 cache; those after the first `bytes` become zero.
GG_DEVICE void copy_16(void* to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes) : "memory");
}

// Waits until this thread's copies are there.
GG_DEVICE void copies_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// The bits of a magnitude, which are in the order of the numbers.
GG_DEVICE u32 magnitude_of(float x) { return __float_as_uint(x) & 0x7fffffffu; }

// A block takes 2 rows of operand a, 4096 k at a time. 128 threads read each; a thread splits 16 neighbouring k.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,        // packed stages, edges zero: [m / 128][k / 64][modulus: 8][m: 128][k: 64], rows swizzled
    double* __restrict__ scales,   // factors, [m], and behind those of all panels one over each
    u64* __restrict__ counters,    // lossy, overflow, nonfinite
    float* const kept)             // shared memory
{
    const int row = (int)threadIdx.x / 128, mine = (int)threadIdx.x % 128, o_read = block * 2 + row;
    const int end = (k + 63) / 64 * 64, panels = (outer + 127) / 128;
    const bool inside = o_read < outer, pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && k % 4 == 0;  // of 16 bytes
    const float* const from = x + (inside ? (long long)o_read * ld : 0);
    // Four neighbours lie together. Eight threads that write neighbouring fours, or read every fourth, touch all banks.
    float4* const fours = (float4*)kept;
    const auto place = [](int four) { return four ^ (four >> 3 & 3); };
    u32 largest = 0;               // magnitude
    u64 squares = 0, most = 0;     // sums of squares: of the segment of k at hand, a part of it; the largest of a segment so far
    Unit unit = {};
    __shared__ u32 of_warps[24];
    __shared__ double factors[2];
    int k0 = 0;
    const auto k_of = [&](int i) { return k0 + (i * 128 + mine) * 4; };
    const auto is_inside = [&](int i) { return inside && k_of(i) < k; };
    const auto source = [&](int i) { return (const float4*)(is_inside(i) ? from + k_of(i) : x); };
    const auto there = [&](int i) { return fours + place(row * 1024 + i * 128 + mine); };
    const auto fetch = [&](int i) {
        const int kk = k_of(i), left = inside ? k - kk : 0;
        return make_float4(left > 0 ? from[kk] : 0.0f, left > 1 ? from[kk + 1] : 0.0f, left > 2 ? from[kk + 2] : 0.0f, left > 3 ? from[kk + 3] : 0.0f);
    };
    // Up along k for the largest, back for the squares, and up again to split: what was read last need not be read again.
#pragma unroll 1
    for (bool known = false;;) {
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 8; ++i) copy_16(there(i), source(i), is_inside(i) ? 16 : 0);
            copies_wait();
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; ++i) *there(i) = fetch(i);
        }
        __syncwarp();  // lanes that read element by element come together
        if (!known) {
#pragma unroll 4
            for (int i = 0; i < 8; ++i) {
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
            __syncwarp();
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, mask));
            if ((int)threadIdx.x % 32 == 0) of_warps[(int)threadIdx.x / 32] = largest;
            __syncthreads();
#pragma unroll
            for (int warp = 0; warp < 4; ++warp) largest = max(largest, of_warps[row * 4 + warp]);

            unit = unit_of(largest);
            known = true;
        }
#pragma unroll 4
        for (int i = 0; i < 8; ++i) {
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
                for (int mask = 16; mask > 0; mask /= 2) parts[part] += __shfl_xor_sync(0xffffffffu, parts[part], mask);
            }
            squares = 0;
            __syncthreads();  // all have read what was here
            if ((int)threadIdx.x % 32 == 0)
#pragma unroll
                for (int part = 0; part < 3; ++part) of_warps[(int)threadIdx.x / 32 * 3 + part] = parts[part];
            __syncthreads();
#pragma unroll
            for (int part = 0; part < 3; ++part) {
                parts[part] = 0;
#pragma unroll
                for (int warp = 0; warp < 4; ++warp) parts[part] += of_warps[(row * 4 + warp) * 3 + part];
            }
            most = max(most, whole_of(parts));
        }
        if (k0 == 0) break;
        k0 -= 4096;
    }
    if (mine == 0) factors[row] = factor_of(largest, most);
    __syncthreads();
    if (mine == 0 && inside) scales[o_read] = factors[row], scales[panels * 128 + o_read] = 1.0 / factors[row];
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        for (int run = (int)threadIdx.x; run < 512; run += 256) {
            const int one = run / 256, o = block * 2 + one, kk = k0 + run % 256 * 16;
            if (kk - run % 32 * 16 >= end) continue;  // for a warp alike
            const double factor = factors[one];
            float value[16];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float4 four = fours[place(run * 4 + i)];
                value[i * 4] = four.x, value[i * 4 + 1] = four.y, value[i * 4 + 2] = four.z, value[i * 4 + 3] = four.w;
            }

            bool rare = false;
            if (o < panels * 128 && kk < end) {
                const int at = o % 128, chunk = kk % 64 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 128) * (end / 64) + kk / 64) * 65536 + at * 64 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) {
                    *(uint4*)(to + modulus * 8192) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
                });
            }
            if (__any_sync(0xffffffffu, rare)) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const float4 four = fours[place(run * 4 + i)];
                    value[i * 4] = four.x, value[i * 4 + 1] = four.y, value[i * 4 + 2] = four.z, value[i * 4 + 3] = four.w;
                }
                count(counters, losses(value, factor));
            }
        }
        __syncwarp();
        if (k0 + 4096 >= end) break;
        k0 += 4096;
        __syncthreads();  // before others' elements are written over
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 8; ++i) copy_16(there(i), source(i), is_inside(i) ? 16 : 0);
            copies_wait();
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; ++i) *there(i) = fetch(i);
        }
        __syncwarp();  // lanes that read element by element come together
        __syncthreads();
    }
}

// A block takes 32 columns of operand b, 256 k at a time. A thread reads four neighbours, and splits 16 k of one.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,        // packed stages, edges zero: [n / 96][k / 64][modulus: 8][n: 96][k: 64], rows swizzled
    double* __restrict__ scales,   // factors, [n], and behind those of all panels one over each
    u64* __restrict__ counters,    // lossy, overflow, nonfinite
    float* const kept)             // shared memory
{
    const int panel = block * 32, begin = 0;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int mine = (int)threadIdx.x / 8, first = panel + (int)threadIdx.x % 8 * 4;
    const int end = (k + 63) / 64 * 64, panels = (outer + 95) / 96;
    const bool pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && outer % 4 == 0;  // of 16 bytes
    // Element k of a column lies here: 32 neighbours together, and 16 bytes free after every 16 k, so that threads which read along k touch all banks.
    const auto place = [](int kk) { return kk * 32 + kk / 16 * 4; };
    u32 largest[4] = {};               // magnitudes
    u64 squares[4] = {}, most = 0;     // sums of squares: of the segment of k at hand, a part of it; the largest of a segment so far, of one column
    Unit unit[4] = {};
    const int column = (int)threadIdx.x;
    __shared__ u32 of_warps[768];
    __shared__ u32 tops[32];
    __shared__ double factors[32];
    int k0 = 0;
    const auto k_of = [&](int i) { return k0 + begin + i * 32 + mine; };
    const auto is_inside = [&](int i) { return first < outer && k_of(i) < k; };
    const auto source = [&](int i) { return (const float4*)(is_inside(i) ? x + (long long)k_of(i) * ld + first : x); };
    const auto there = [&](int i) { return (float4*)(kept + place(i * 32 + mine) + (int)threadIdx.x % 8 * 4); };
    const auto fetch = [&](int i) {
        const int kk = k_of(i), left = kk < k ? outer - first : 0;
        const float* const from = x + (long long)kk * ld + first;
        return make_float4(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f, left > 3 ? from[3] : 0.0f);
    };
    // Up along k for the largest, back for the squares, and up again to split: what was read last need not be read again.
#pragma unroll 1
    for (bool known = false;;) {
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 8; ++i) copy_16(there(i), source(i), is_inside(i) ? 16 : 0);
            copies_wait();
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; ++i) *there(i) = fetch(i);
        }
        __syncwarp();  // lanes that read element by element come together
        if (!known) {
#pragma unroll 4
            for (int i = 0; i < 8; ++i) {
                const float4 four = *there(i);
                largest[0] = max(largest[0], magnitude_of(four.x));
                largest[1] = max(largest[1], magnitude_of(four.y));
                largest[2] = max(largest[2], magnitude_of(four.z));
                largest[3] = max(largest[3], magnitude_of(four.w));
            }
            if (k0 + 256 < end) {
                k0 += 256;
                continue;
            }
            __syncwarp();
            // Over a warp, the block.
#pragma unroll
            for (int one = 0; one < 4; ++one) {
#pragma unroll
                for (int mask = 8; mask < 32; mask *= 2) largest[one] = max(largest[one], __shfl_xor_sync(0xffffffffu, largest[one], mask));
                if (lane < 8) of_warps[warp * 32 + lane * 4 + one] = largest[one];
            }
            __syncthreads();
            u32 top = 0;
            if (column < 32) {
                for (int i = 0; i < 8; ++i) top = max(top, of_warps[i * 32 + column]);
                tops[column] = top;
            }
            __syncthreads();
#pragma unroll
            for (int one = 0; one < 4; ++one) unit[one] = unit_of(tops[(int)threadIdx.x % 8 * 4 + one]);
            known = true;
        }
#pragma unroll 4
        for (int i = 0; i < 8; ++i) {
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
                    for (int mask = 8; mask < 32; mask *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
                    if (lane < 8) of_warps[(warp * 3 + part) * 32 + lane * 4 + one] = sum;
                }
                squares[one] = 0;
            }
            __syncthreads();
            u32 parts[3] = {};
            if (column < 32)
#pragma unroll
                for (int part = 0; part < 3; ++part)
                    for (int i = 0; i < 8; ++i) parts[part] += of_warps[(i * 3 + part) * 32 + column];
            if (k0 > 0) __syncthreads();  // before sums of the next segment are written over these
            most = max(most, whole_of(parts));
        }
        if (k0 == 0) break;
        k0 -= 256;
    }
    if (column < 32) {
        factors[column] = factor_of(tops[column], most);
    }
    __syncthreads();
    if (column < 32 && panel + column < panels * 96)  // of zeros behind the last, too: warps stay whole
        scales[panel + column] = factors[column], scales[panels * 96 + panel + column] = 1.0 / factors[column];
#pragma unroll 1
    for (;;) {
#pragma unroll 1
        for (int run = (int)threadIdx.x; run < 512; run += 256) {
            // Eight neighbouring threads write 128 bytes of a row of words.
            const int local = (run / 256 * 8 + run % 8) * 16, line = run / 8 % 32;
            const int o = panel + line, kk = k0 + begin + local;
            if (kk - run % 8 * 16 >= end) continue;  // for a warp alike
            const double factor = factors[line];
            float value[16];
#pragma unroll
            for (int i = 0; i < 16; ++i) value[i] = kept[place(local) + i * 32 + line];

            bool rare = false;
            if (o < panels * 96 && kk < end) {
                const int at = o % 96, chunk = kk % 64 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 96) * (end / 64) + kk / 64) * 49152 + at * 64 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) {
                    *(uint4*)(to + modulus * 6144) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
                });
            }
            if (__any_sync(0xffffffffu, rare)) {
#pragma unroll
                for (int i = 0; i < 16; ++i) value[i] = kept[place(local) + i * 32 + line];
                count(counters, losses(value, factor));
            }
        }
        __syncwarp();
        if (k0 + 256 >= end) break;
        k0 += 256;
        __syncthreads();  // before others' elements are written over
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 8; ++i) copy_16(there(i), source(i), is_inside(i) ? 16 : 0);
            copies_wait();
        } else {
#pragma unroll 1
            for (int i = 0; i < 8; ++i) *there(i) = fetch(i);
        }
        __syncwarp();  // lanes that read element by element come together
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(256, 3)
gemmgen_residues8_mma_128x96x64_b7342151_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    double* __restrict__ a_scales, double* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    extern __shared__ __align__(128) unsigned char waiting[];
    float* const kept = (float*)waiting;
    const int blocks_a = (((m + 127) / 128 * 128 + 1) / 2);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_scales, a_status, kept);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_scales, b_status, kept);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 96
//            +---+----+----+ - -        A block computes C[m0 : m0 + 128, n0 : n0 + 96] with
//        m0  | w | w  | w  | WARP_M     4 x 2 warps of 32 x 48, modulo one number after the other. A thread has 48 sums in
//   BLOCK_M  +---+----+----+ - -        registers, and beside each 64 bits for what the sums before left.
//    = 128   | w | w  | w  |
//            +---+----+----+            Shared memory holds 4 stages of k, 64 deep: one is
//              WARP_N                   multiplied while 3 are on the way.
constexpr int BLOCK_M = 128, BLOCK_N = 96, BLOCK_K = 64;
constexpr int WARP_M = 32, WARP_N = 48;
constexpr int WARPS_N = 2;
constexpr int THREADS = 256;
constexpr int STAGES = 4;
constexpr int FRAGMENT_BUFFERS = 2;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 6;  // fragments of m16n8k32 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
constexpr int ROW_BYTES = 64;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one residue of a stage
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

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

// c[16, 8] += a[16, 32] b[32, 8] on the matrix unit, exactly.
GG_DEVICE void multiply_add(int (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
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

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_residues8_mma_128x96x64_b7342151(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const double* __restrict__ a_scales, const double* __restrict__ b_scales,
    double* __restrict__ segments,  // [blocks of C][elements of a thread][THREADS]
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
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k * MODULI;

    int acc_of_256[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit

    Turn filled = first_turn(stages_k), multiplied = filled;
    u32 high[FRAGMENTS_M][FRAGMENTS_N][4] = {}, low[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    double* const totals = segments + (long long)block * (BLOCK_M * BLOCK_N);  // a thread's elements are THREADS apart
    const auto reduce = [&]() {
        const Modulus by = modulus_of(multiplied.modulus);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const u32 residue = reduced(acc_of_256[i][j][r], by);
                    high[i][j][r] += residue * by.high, low[i][j][r] += residue * by.low;
                    acc_of_256[i][j][r] = 0;
                }
        if (stages_k > SEGMENT_STAGES && multiplied.modulus == MODULI - 1) {
            const bool first = multiplied.begin == 0;
            int mine = (int)threadIdx.x;
            asm volatile("" : "+r"(mine));
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    __syncwarp();  // for the compiler: no loads from farther down
#pragma unroll
                    for (int r = 0; r < 4; ++r) {
                        double* const total = totals + mine + ((i * FRAGMENTS_N + j) * 4 + r) * THREADS;
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
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 65536 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 49152 + copy_from;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
            cp_async_16(stage + copy_to + i * (THREADS * 16), a_from + i * THREADS * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            if ((int)threadIdx.x + i * THREADS < 384) cp_async_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_from + i * THREADS * 16);
        a_from += MODULI * A_BYTES, b_from += MODULI * B_BYTES;
        if (--filled.left == 0) {
            const long long back = filled.modulus + 1 < MODULI ? segment_of(filled, stages_k) * MODULI - 1 : MODULI - 1;  // residues
            a_from -= back * A_BYTES, b_from -= back * B_BYTES;
            next_modulus(filled, stages_k);
        }
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

    // One step of k: 1 word product for each fragment of C.
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_of_256[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
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
        if (--multiplied.left == 0) reduce();
    }

    float sum[FRAGMENTS_M][FRAGMENTS_N][4] = {};
    if (stage_count > 0) {
        if (stages_k > SEGMENT_STAGES) {
            int mine = (int)threadIdx.x;
            asm volatile("" : "+r"(mine));
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
                    asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                    for (int r = 0; r < 4; ++r) {
                        const double found = totals[mine + ((i * FRAGMENTS_N + j) * 4 + r) * THREADS];
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
                    for (int r = 0; r < 4; ++r) {
                        const double found = fraction_of(high[i][j][r], low[i][j][r]);
                        high[i][j][r] = (u32)__double2hiint(found), low[i][j][r] = (u32)__double2loint(found);
                    }
                }
        }
        const int row0 = m0 + warp_m + (lane >> 2);
        const int column0 = n0 + warp_n + (lane & 3) * 2;
        const double* const a_steps = a_scales + (long long)blocks_m * BLOCK_M;
        const double* const b_steps = b_scales + (long long)blocks_n * BLOCK_N;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                asm volatile("" ::: "memory");  // for the compiler: no loads from farther down
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const int row = row0 + i * 16 + (r >> 1) * 8;
                    const int column = column0 + j * 8 + (r & 1);
                    const double found = __hiloint2double((int)high[i][j][r], (int)low[i][j][r]);
                    sum[i][j][r] = (float)(found * (a_steps[min(row, m - 1)] * 0x1.7d690b03a3244p+11) * b_steps[min(column, n - 1)]);
                }
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
                float product = sum[i][j][r];
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

}  // namespace gemmgen_b7342151
