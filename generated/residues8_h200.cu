// kernel    gemmgen_residues8_wgmma_128x256x128_53cec344
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    residues8: residues modulo eight numbers, eight exact products (Ozaki scheme II)
// words     8 x s8, 32 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233; dropped none
// promote   never (residues8's own)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8
// decided   block 128x256x128, warpgroup 64x256x128, split prepass, loads bulk, 4 stages, group 16, 1 slice of k, promote 0, clusters of 2
// block     384 threads, 196672 B of dynamic shared memory
// target    sm_90a
// plan      53cec344, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_53cec344 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 1 row takes the 32 banks, so from row to row
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row & 7); }

constexpr int MODULI = 8;  // residues of an element, of which a stage has one

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

GG_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
GG_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// Puts a number at this place of the shared memory of block `block` of the cluster.
GG_DEVICE void store_to_block(u32* place, int block, u32 x) {
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "st.shared::cluster.u32 [there], %2;\n"
        "}\n" :: "r"(shared_address(place)), "r"(block), "r"(x) : "memory");
}

// A block takes 2 rows of operand a, 4096 k at a time. 128 threads read each; a thread splits 16 neighbouring k.
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
    const int row = (int)threadIdx.x / 128, mine = (int)threadIdx.x % 128, o_read = block * 2 + row;
    const int end = (k + 127) / 128 * 128, panels = (outer + 127) / 128;
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
                const int at = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 128) * (end / 128) + kk / 128) * 131072 + at * 128 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) {
                    *(uint4*)(to + modulus * 16384) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
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

// A cluster of 8 blocks takes 32 columns of operand b, 2048 k at a time, of which each block has 256. A thread reads four neighbours, and splits 16 k of one.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,        // packed stages, edges zero: [n / 256][k / 128][modulus: 8][n: 256][k: 128], rows swizzled
    double* __restrict__ scales,   // factors, [n], and behind those of all panels one over each
    u64* __restrict__ counters,    // lossy, overflow, nonfinite
    float* const kept)             // shared memory
{
    const int rank = block % 8, panel = block / 8 * 32, begin = rank * 256;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int mine = (int)threadIdx.x / 8, first = panel + (int)threadIdx.x % 8 * 4;
    const int end = (k + 127) / 128 * 128, panels = (outer + 255) / 256;
    const bool pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && outer % 4 == 0;  // of 16 bytes
    // Element k of a column lies here: 32 neighbours together, and 16 bytes free after every 16 k, so that threads which read along k touch all banks.
    const auto place = [](int kk) { return kk * 32 + kk / 16 * 4; };
    u32 largest[4] = {};               // magnitudes
    u64 squares[4] = {}, most = 0;     // sums of squares: of the segment of k at hand, a part of it; the largest of a segment so far, of one column
    Unit unit[4] = {};
    const int column = (int)threadIdx.x;
    __shared__ u32 of_warps[768];
    __align__(16) __shared__ u32 told[1024];  // by each block: a part of its sums after the other, and its largest
    const int to = (int)threadIdx.x / 32;  // the block that this thread tells of column `at`
    const int at_column = (int)threadIdx.x % 32;
    cluster_arrive();
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
            if (k0 + 2048 < end) {
                k0 += 2048;
                continue;
            }
            __syncwarp();
            // Over a warp, the block, the cluster.
#pragma unroll
            for (int one = 0; one < 4; ++one) {
#pragma unroll
                for (int mask = 8; mask < 32; mask *= 2) largest[one] = max(largest[one], __shfl_xor_sync(0xffffffffu, largest[one], mask));
                if (lane < 8) of_warps[warp * 32 + lane * 4 + one] = largest[one];
            }
            __syncthreads();
            u32 top = 0;
            for (int i = 0; i < 8; ++i) top = max(top, of_warps[i * 32 + at_column]);
            cluster_wait();  // all blocks have begun
            if (to < 8) store_to_block(told + (rank * 4 + 3) * 32 + at_column, to, top);
            cluster_arrive();
            cluster_wait();
            for (int i = 0; i < 8; ++i) {
                const uint4 four = *(const uint4*)(told + (i * 4 + 3) * 32 + (int)threadIdx.x % 8 * 4);
                largest[0] = max(largest[0], four.x), largest[1] = max(largest[1], four.y);
                largest[2] = max(largest[2], four.z), largest[3] = max(largest[3], four.w);
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) unit[one] = unit_of(largest[one]);
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
            // Over a warp, the block, the cluster.
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
            if (to < 8)
#pragma unroll
                for (int part = 0; part < 3; ++part) {
                    u32 sum = 0;
                    for (int i = 0; i < 8; ++i) sum += of_warps[(i * 3 + part) * 32 + at_column];
                    store_to_block(told + (rank * 4 + part) * 32 + at_column, to, sum);
                }
            cluster_arrive();
            cluster_wait();
            if (column < 32)
#pragma unroll
                for (int part = 0; part < 3; ++part)
                    for (int i = 0; i < 8; ++i) parts[part] += told[(i * 4 + part) * 32 + column];
            if (k0 > 0) {  // before sums of the next segment are written over these
                cluster_arrive();
                cluster_wait();
            }
            most = max(most, whole_of(parts));
        }
        if (k0 == 0) break;
        k0 -= 2048;
    }
    if (column < 32) {
        u32 top = 0;
        for (int i = 0; i < 8; ++i) top = max(top, told[(i * 4 + 3) * 32 + column]);
        factors[column] = factor_of(top, most);
    }
    __syncthreads();
    if (rank == 0 && column < 32 && panel + column < panels * 256)  // of zeros behind the last, too: warps stay whole
        scales[panel + column] = factors[column], scales[panels * 256 + panel + column] = 1.0 / factors[column];
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
            if (o < panels * 256 && kk < end) {
                const int at = o % 256, chunk = kk % 128 / 16;  // of 16 bytes
                u8* const to = words + ((long long)(o / 256) * (end / 128) + kk / 128) * 262144 + at * 128 + swizzle(at, chunk) * 16;
                rare = split_run(value, factor, [&](int modulus, const u32 (&packed)[4]) {
                    *(uint4*)(to + modulus * 32768) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
                });
            }
            if (__any_sync(0xffffffffu, rare)) {
#pragma unroll
                for (int i = 0; i < 16; ++i) value[i] = kept[place(local) + i * 32 + line];
                count(counters, losses(value, factor));
            }
        }
        __syncwarp();
        if (k0 + 2048 >= end) break;
        k0 += 2048;
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

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256, 3)
gemmgen_residues8_wgmma_128x256x128_53cec344_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    double* __restrict__ a_scales, double* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    extern __shared__ __align__(128) unsigned char waiting[];
    float* const kept = (float*)waiting;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    const int blocks_a = (((m + 127) / 128 * 128 + 15) / 16) * 8;
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

//                n0        BLOCK_N = 256
//            +---------+---------+      A tile C[m0 : m0 + 128, n0 : n0 + 256] is computed by 2 x 1 warpgroups
//        m0  | wgroup  | wgroup  |      of 64 x 256, modulo one number after the other: each thread has 128 sums in
//   BLOCK_M  |         |         |      registers, which become bytes in the workspace after the whole loop over k.
//    = 128   +---------+---------+
//              WARP_N                   Shared memory holds 4 stages of k, 128 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 128, BLOCK_N = 256, BLOCK_K = 128;
constexpr int WARP_M = 64, WARP_N = 256;  // of a warpgroup
constexpr int WARPS_N = 1;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 4;
constexpr int GROUP_ROWS = 16;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n256k32 in a warpgroup
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_STAGE = BLOCK_M * ROW_BYTES, B_STAGE = BLOCK_N * ROW_BYTES;  // one residue
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int RELEASES = 16;  // arrivals that free a stage: one a warp that reads it, in every block that fills it
constexpr int SUMS = 128;  // of a thread
constexpr int PIECES = SUMS / 16;  // of 16 bytes that they become
constexpr int SEGMENT_STAGES = SEGMENT_K / BLOCK_K;

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

// c[64, 256] (+)= a[64, 32] b[32, 256] on the matrix unit, exactly; from zero where keep is 0.
GG_DEVICE void multiply_add(int (&c)[128], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, p;\n"
        "}\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
          "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
          "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
          "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31]),
          "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]),
          "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]),
          "+r"(c[48]), "+r"(c[49]), "+r"(c[50]), "+r"(c[51]), "+r"(c[52]), "+r"(c[53]), "+r"(c[54]), "+r"(c[55]),
          "+r"(c[56]), "+r"(c[57]), "+r"(c[58]), "+r"(c[59]), "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63]),
          "+r"(c[64]), "+r"(c[65]), "+r"(c[66]), "+r"(c[67]), "+r"(c[68]), "+r"(c[69]), "+r"(c[70]), "+r"(c[71]),
          "+r"(c[72]), "+r"(c[73]), "+r"(c[74]), "+r"(c[75]), "+r"(c[76]), "+r"(c[77]), "+r"(c[78]), "+r"(c[79]),
          "+r"(c[80]), "+r"(c[81]), "+r"(c[82]), "+r"(c[83]), "+r"(c[84]), "+r"(c[85]), "+r"(c[86]), "+r"(c[87]),
          "+r"(c[88]), "+r"(c[89]), "+r"(c[90]), "+r"(c[91]), "+r"(c[92]), "+r"(c[93]), "+r"(c[94]), "+r"(c[95]),
          "+r"(c[96]), "+r"(c[97]), "+r"(c[98]), "+r"(c[99]), "+r"(c[100]), "+r"(c[101]), "+r"(c[102]), "+r"(c[103]),
          "+r"(c[104]), "+r"(c[105]), "+r"(c[106]), "+r"(c[107]), "+r"(c[108]), "+r"(c[109]), "+r"(c[110]), "+r"(c[111]),
          "+r"(c[112]), "+r"(c[113]), "+r"(c[114]), "+r"(c[115]), "+r"(c[116]), "+r"(c[117]), "+r"(c[118]), "+r"(c[119]),
          "+r"(c[120]), "+r"(c[121]), "+r"(c[122]), "+r"(c[123]), "+r"(c[124]), "+r"(c[125]), "+r"(c[126]), "+r"(c[127])
        : "l"(a), "l"(b), "r"(keep));
}

// What sums are reduced with, modulo the number at hand. It is negated, so that no quotient has to be.
struct Modulus {
    u32 minus, reciprocal, offset;
};
GG_DEVICE Modulus modulus_of(int modulus) {
    if (modulus == 0) return {0u - 256u, 2147483648u, 1073741824u};
    if (modulus == 1) return {0u - 255u, 2155905153u, 1073742015u};
    if (modulus == 2) return {0u - 253u, 2172947881u, 1073741867u};
    if (modulus == 3) return {0u - 251u, 2190262207u, 1073741856u};
    if (modulus == 4) return {0u - 247u, 2225732041u, 1073741851u};
    if (modulus == 5) return {0u - 241u, 2281144456u, 1073742001u};
    if (modulus == 6) return {0u - 239u, 2300233531u, 1073741916u};
    return {0u - 233u, 2359467013u, 1073742055u};
}

// A sum modulo m, in [0, m): the offset is a multiple of m that makes it no negative number, and the quotient is exact.
GG_DEVICE u32 reduced(int sum, const Modulus& by) {
    const u32 whole = (u32)sum + by.offset;
    return whole + (__umulhi(whole, by.reciprocal) >> 7) * by.minus;
}

// An integer over the product of all moduli, in units of 2^-52: by the Chinese remainder theorem, a fraction in [-1/2, 1/2),
// from the sum of what it leaves times the weights, of which the leading 32 bits and the last 20 are summed apart.
GG_DEVICE double fraction_of(u32 high, u32 low) {
    const long long fraction = (long long)(((u64)high << 32) + ((u64)low << 12)) >> 12;
    // Below 2^51 in magnitude, it is the last bits of such a number.
    return __longlong_as_double(0x4338000000000000ll + fraction) - 0x1.8p+52;
}

// The integer that leaves byte `at` of each word, over the product of all moduli.
GG_DEVICE double joined(const u32 (&residues)[MODULI], int at) {
    u32 high = 0, low = 0;
    {
        const u32 residue = __byte_perm(residues[0], 0, 0x4440 | at);
        high += residue * 3774873600u;
        low += residue * 0u;
    }
    {
        const u32 residue = __byte_perm(residues[1], 0, 0x4440 | at);
        high += residue * 1397969747u;
        low += residue * 341301u;
    }
    {
        const u32 residue = __byte_perm(residues[2], 0, 0x4440 | at);
        high += residue * 3055707957u;
        low += residue * 658986u;
    }
    {
        const u32 residue = __byte_perm(residues[3], 0, 0x4440 | at);
        high += residue * 2703604911u;
        low += residue * 447003u;
    }
    {
        const u32 residue = __byte_perm(residues[4], 0, 0x4440 | at);
        high += residue * 1182420146u;
        low += residue * 280186u;
    }
    {
        const u32 residue = __byte_perm(residues[5], 0, 0x4440 | at);
        high += residue * 2352430220u;
        low += residue * 226249u;
    }
    {
        const u32 residue = __byte_perm(residues[6], 0, 0x4440 | at);
        high += residue * 593028957u;
        low += residue * 197431u;
    }
    {
        const u32 residue = __byte_perm(residues[7], 0, 0x4440 | at);
        high += residue * 2119833643u;
        low += residue * 994572u;
    }
    return fraction_of(high, low);
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
gemmgen_residues8_wgmma_128x256x128_53cec344(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const double* __restrict__ a_scales, const double* __restrict__ b_scales,
    u8* __restrict__ residues,  // [blocks]: [modulus][tile], and sums of segments
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * STAGE_BYTES, free = full + STAGES * 8;  // barriers, one a stage each
    const int thread = (int)threadIdx.x;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = alpha == 0.0f ? 0 : (k + BLOCK_K - 1) / BLOCK_K;
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int rank = cluster_rank();
    const int turns = (blocks_m + CLUSTER - 1) / CLUSTER * blocks_n;
    const int first_turn = (int)blockIdx.x / CLUSTER, all_blocks = (int)gridDim.x / CLUSTER;

    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(free + i * 8, RELEASES);
        }
        mbarrier_fence_init();
    }
    cluster_barrier();

    if (thread >= WARPGROUPS * 128) {
        // The copying warpgroup needs few registers; one thread of it does all.
        setmaxnreg_dec<40>();
        if (thread == WARPGROUPS * 128) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel, which writes the residues, has finished
            int slot = 0;
            u32 phase = 1;  // a stage that has never been filled counts as free
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(turn, m, n, stages_k, rank);
                const u8* const a_panel = a_words + ((long long)work.panel_m * stages_k + work.first) * (MODULI * A_STAGE);
                const u8* const b_panel = b_words + ((long long)work.panel_n * stages_k + work.first) * (MODULI * B_STAGE) + rank * (B_STAGE / CLUSTER);
#pragma unroll 1
                for (int turn_of_k = 0; turn_of_k < (work.count + SEGMENT_STAGES - 1) / SEGMENT_STAGES * MODULI; ++turn_of_k) {
                    const int modulus = turn_of_k % MODULI, begin = turn_of_k / MODULI * SEGMENT_STAGES, end = min(work.count, begin + SEGMENT_STAGES);
                    const u8* a_from = a_panel + ((long long)begin * MODULI + modulus) * A_STAGE;
                    const u8* b_from = b_panel + ((long long)begin * MODULI + modulus) * B_STAGE;
#pragma unroll 1
                    for (int index = begin; index < end; ++index) {
                        const u32 stage = stages + slot * STAGE_BYTES, arrival = full + slot * 8;
                        mbarrier_wait(free + slot * 8, phase);
                        mbarrier_expect_tx(arrival, STAGE_BYTES);
                        cp_async_bulk(stage, a_from, A_STAGE, arrival);
                        cp_async_bulk_multicast(stage + A_STAGE + rank * (B_STAGE / CLUSTER), b_from, B_STAGE / CLUSTER, arrival);
                        a_from += MODULI * A_STAGE;
                        b_from += MODULI * B_STAGE;
                        if (++slot == STAGES) slot = 0, phase ^= 1;
                    }
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int warpgroup = thread / 128, lane = thread % 128;  // lane of the warpgroup
        const int warp_m = warpgroup / WARPS_N * WARP_M, warp_n = warpgroup % WARPS_N * WARP_N;
        // Residues of this thread's sums lie here, modulus by modulus: pieces of neighbouring threads side by side. Nobody else reads them.
        u8* const mine = residues + (long long)(int)blockIdx.x * (BLOCK_M * BLOCK_N * (MODULI + 8));
        uint4* const kept = (uint4*)mine + thread;
        double* const totals = (double*)(mine + BLOCK_M * BLOCK_N * MODULI) + thread * 2;  // of segments before, two by two
        int slot = 0;
        u32 phase = 0;
        // Every warp that has read a stage says so, to every block that fills it.
        const auto release = [&](int which) {
            if (thread % 32 < CLUSTER) mbarrier_arrive_at(free + which * 8, thread % 32);
        };
        bool first = true;  // of this block's tiles
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(turn, m, n, stages_k, rank);
            const int m0 = work.m0, n0 = work.n0;
            // The second warpgroup starts when the first is a few stages ahead, so that one of them multiplies while the other reduces.
            if (first && warpgroup == 1 && work.count > 0) asm volatile("bar.sync %0, %1;" ::"r"(1), "r"(256) : "memory");
#pragma unroll 1
            for (int begin = 0; begin < work.count; begin += SEGMENT_STAGES) {
                const int end = min(work.count, begin + SEGMENT_STAGES);
                int acc[FRAGMENTS_M][FRAGMENTS_N][128] = {};  // sums of a segment; each modulus's first products begin from zero
#pragma unroll 1
                for (int modulus = 0; modulus < MODULI; ++modulus) {
                    int held = -1;  // the stage that is still being read
#pragma unroll 1
                    for (int index = begin; index < end; ++index) {
                        mbarrier_wait(full + slot * 8, phase);
                        const u32 stage = stages + slot * STAGE_BYTES;
                        const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                        wgmma_fence();
#pragma unroll
                        for (int step = 0; step < K_STEPS; ++step)
#pragma unroll
                            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                                for (int j = 0; j < FRAGMENTS_N; ++j)
                                    multiply_add(acc[i][j], a_at + (i * 64 * ROW_BYTES + step * 32) / 16, b_at + (j * 256 * ROW_BYTES + step * 32) / 16,
                                                 step > 0 || index > begin);
                        wgmma_commit();
                        wgmma_wait<1>();
                        if (held >= 0) release(held);
                        held = slot;
                        if (++slot == STAGES) slot = 0, phase ^= 1;
                        if (first && warpgroup == 0 && (index == STAGES - 2 || index == end - 1)) {
                            asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(256) : "memory");
                            first = false;
                        }
                    }
                    wgmma_wait<0>();
                    if (held >= 0) release(held);
                    const Modulus by = modulus_of(modulus);
#pragma unroll
                    for (int piece = 0; piece < PIECES; ++piece) {
                        u32 bytes[4];
#pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            u32 left[4];
#pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                const int at = piece * 16 + part * 4 + e;
                                left[e] = reduced(acc[at / (FRAGMENTS_N * 128)][at / 128 % FRAGMENTS_N][at % 128], by);
                            }
                            bytes[part] = bytes_of(left[0], left[1], left[2], left[3]);
                        }
                        kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
                    }
                }
                if (work.count > SEGMENT_STAGES) {  // the only segment's are joined below
#pragma unroll 1
                    for (int piece = 0; piece < PIECES; ++piece) {
                        uint4 read[MODULI];
#pragma unroll
                        for (int modulus = 0; modulus < MODULI; ++modulus) read[modulus] = kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)];
#pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            u32 word[MODULI];
#pragma unroll
                            for (int modulus = 0; modulus < MODULI; ++modulus)
                                word[modulus] = part == 0 ? read[modulus].x : part == 1 ? read[modulus].y : part == 2 ? read[modulus].z : read[modulus].w;
#pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                const int at = piece * 16 + part * 4 + e;
                                const double found = joined(word, e);
                                double* const total = totals + at / 2 * (WARPGROUPS * 256) + at % 2;
                                *total = begin > 0 ? *total + found : found;
                            }
                        }
                    }                }
            }
            first = false;

            float sum[FRAGMENTS_M][FRAGMENTS_N][128];  // elements of A B
            if (work.count > 0) {
                const int row0 = m0 + warp_m + ((lane >> 2) & 7) + (lane >> 5) * 16;
                const int column0 = n0 + warp_n + (lane & 3) * 2;
                const double* const a_steps = a_scales + (long long)blocks_m * BLOCK_M;
                const double* const b_steps = b_scales + (long long)blocks_n * BLOCK_N;
                double row_step[FRAGMENTS_M][2];
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        row_step[i][half] = a_steps[min(row0 + i * 64 + half * 8, m - 1)] * 0x1.7d690b03a3244p+11;
                const auto put = [&](int at, double found) {
                    const int i = at / (FRAGMENTS_N * 128), j = at / 128 % FRAGMENTS_N, r = at % 128;
                    const int column = column0 + j * 256 + (r & 1) + (r >> 2) * 8;
                    sum[i][j][r] = (float)(found * row_step[i][r / 2 % 2] * b_steps[min(column, n - 1)]);
                };
                if (work.count > SEGMENT_STAGES) {
#pragma unroll
                    for (int at = 0; at < SUMS; at += 2) {
                        if (at % 32 == 0) __syncwarp();  // for the compiler: no loads from farther down
                        const double2 two = *(const double2*)(totals + at / 2 * (WARPGROUPS * 256));
                        put(at, two.x), put(at + 1, two.y);
                    }
                } else {
#pragma unroll
                    for (int piece = 0; piece < PIECES; ++piece) {
                        uint4 read[MODULI];
#pragma unroll
                        for (int modulus = 0; modulus < MODULI; ++modulus) read[modulus] = kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)];
#pragma unroll
                        for (int part = 0; part < 4; ++part) {
                            u32 word[MODULI];
#pragma unroll
                            for (int modulus = 0; modulus < MODULI; ++modulus)
                                word[modulus] = part == 0 ? read[modulus].x : part == 1 ? read[modulus].y : part == 2 ? read[modulus].z : read[modulus].w;
#pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                const int at = piece * 16 + part * 4 + e;
                                const double found = joined(word, e);
                                put(at, found);
                            }
                        }
                    }                }
            } else {
#pragma unroll
                for (int at = 0; at < SUMS; ++at) sum[at / (FRAGMENTS_N * 128)][at / 128 % FRAGMENTS_N][at % 128] = 0.0f;
            }
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
                        float4 was[2][2];
                        const auto read = [&](int begin) {
#pragma unroll
                            for (int q = 0; q < 2; ++q) {
                                const int p = begin + q;
                                if (p >= 32) continue;
                                const int i = p / (FRAGMENTS_N * 32), j = p / 32 % FRAGMENTS_N, at = p % 32;
                                const int r = at / 2 * 8 + at % 2 * 2;
                                const int down = i * 64 + ((r >> 1) & 1) * 8;
                                const int right = j * 256 + (r & 1) + (r >> 2) * 8;
                                was[p / 2 % 2][q] = *(const float4*)(corner + down * ldc + right);
                            }
                        };
                        read(0);
                        // What is computed again is added to C as it was: all products are looked at before any is stored.
#pragma unroll
                        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                                for (int at = 0; at < 32; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    float product[4] = {sum[i][j][r],
                                                        sum[i][j][r + 1],
                                                        sum[i][j][r + 4],
                                                        sum[i][j][r + 5]};
#pragma unroll
                                    for (int e = 0; e < 4; ++e) zeros[e] = fmaf(product[e], 0.0f, zeros[e]);
                                }
                        done = !__any_sync(0xffffffffu, !(zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f));
                        if (done) {
#pragma unroll
                            for (int begin = 0; begin < 32; begin += 2) {
                                read(begin + 2);
#pragma unroll
                                for (int q = 0; q < 2; ++q) {
                                    const int p = begin + q;
                                    if (p >= 32) continue;
                                    const int i = p / (FRAGMENTS_N * 32), j = p / 32 % FRAGMENTS_N, at = p % 32;
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 256 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {sum[i][j][r],
                                                        sum[i][j][r + 1],
                                                        sum[i][j][r + 4],
                                                        sum[i][j][r + 5]};
                                    const float first = __shfl_xor_sync(0xffffffffu, odd ? product[0] : product[2], 1);
                                    const float second = __shfl_xor_sync(0xffffffffu, odd ? product[1] : product[3], 1);
                                    const float4 quad = odd ? make_float4(first, second, product[2], product[3])
                                                            : make_float4(product[0], product[1], first, second);
                                    const float4 old = was[p / 2 % 2][q];
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
                                for (int at = 0; at < 32; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 256 + (r & 1) + (r >> 2) * 8;
                                    const int row = row0 + down;
                                    const int column = column0 + right;
                                    const bool inside = row < m && (odd ? column + 6 : column) < n;
                                    float product[4] = {sum[i][j][r],
                                                        sum[i][j][r + 1],
                                                        sum[i][j][r + 4],
                                                        sum[i][j][r + 5]};
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
                                for (int at = 0; at < 32; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 256 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {sum[i][j][r],
                                                        sum[i][j][r + 1],
                                                        sum[i][j][r + 4],
                                                        sum[i][j][r + 5]};
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
            u32 bad[4] = {};  // a bit an element: not finite
            // A load of C does not overtake a store to it, as the compiler does not know that they are of other elements. So that not every
            // element waits for its own, a run of pairs is on its way while the run before it is stored.
            float2 was[2][4];
#pragma unroll
            for (int first = -4; first < 64; first += 4) {
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const int p = first + 4 + q;
                    if (p >= 64) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 128), j = 2 * p / 128 % FRAGMENTS_N, r = 2 * p % 128;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 256 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    float2& old = was[p / 4 % 2][q];
                    old = make_float2(-0.0f, -0.0f);
                    if (read_c && together && inside) {
                        old = *(const float2*)to;
                    } else if (read_c) {
                        if (row < m && column < n) old.x = to[0];
                        if (inside) old.y = to[1];
                    }
                }
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const int p = first + q;
                    if (p < 0 || p >= 64) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 128), j = 2 * p / 128 % FRAGMENTS_N, r = 2 * p % 128;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 256 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    const float2 old = was[p / 4 % 2][q];
                    if (row >= m || column >= n) continue;
                    float product[2] = {sum[i][j][r],
                                        sum[i][j][r + 1]};
                    bool store[2] = {true, inside};
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (store[e] && !(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                            const int element = (i * FRAGMENTS_N + j) * 128 + r + e;
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
            for (int part = 0; part < 4; ++part)
                while (bad[part]) {
                    const int element = part * 32 + __ffs((int)bad[part]) - 1;
                    bad[part] &= bad[part] - 1;
                    const int r = element % 128;
                    const int j = element / 128 % FRAGMENTS_N, i = element / (128 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 256 + (r & 1) + (r >> 2) * 8;
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

}  // namespace gemmgen_53cec344
