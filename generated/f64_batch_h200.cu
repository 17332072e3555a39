// kernel    gemmgen_residues14_wgmma_128x128x128_c69ecdc4
// computes  C = alpha A B + beta C in FP64, layout nn (row major), any m, n, k
// scheme    residues14: FP64 elements as residues modulo fourteen numbers, fourteen exact products (Ozaki scheme II)
// words     14 x s8, 55 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199; dropped none
// promote   never (residues14's own)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8
// decided   block 128x128x128, warpgroup 64x128x128, split prepass, loads bulk, 7 stages, group 2, 1 slice of k, promote 0, clusters of 2
// block     384 threads, 229488 B of dynamic shared memory
// target    sm_90a
// plan      c69ecdc4, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_c69ecdc4 {

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

constexpr int MODULI = 14;  // residues of an element, of which a stage has one

// The last bytes of four numbers.
GG_DEVICE u32 bytes_of(u32 x, u32 y, u32 z, u32 w) { return __byte_perm(__byte_perm(x, y, 0x0040), __byte_perm(z, w, 0x0040), 0x5410); }

constexpr int ASIDE = -0x40000000;  // in place of the power of two of a row or column that holds an Inf or a NaN: its integers do not count

// The bits of |x|, which are in the order of the numbers.
GG_DEVICE u64 magnitude_of(double x) { return (u64)((u32)__double2hiint(x) & 0x7fffffffu) << 32 | (u32)__double2loint(x); }

GG_DEVICE double power_of_two(int power) { return __hiloint2double((int)((u32)(1023 + power) << 20), 0); }

// x 2^power as an integer, ties to even: sums of one sign would add up what other ties leave. Products with the halves of the power are exact
// where the integer is not 0.
GG_DEVICE u64 integer_of(double x, int power) {
    const double scaled = x * power_of_two(power / 2) * power_of_two(power - power / 2);
    return (u64)__double2ll_rn(scaled);
}

// What an integer's digits d of base 256, of [-128, 127], are multiplied by, so that it is congruent to the sum of d_j (256^j modulo m): eight bytes; what
// sums begin with as the bits of FP32, and what makes quotients of them; 256 takes the last digit, whatever its quotient.
struct Digits {
    u32 first, last, start, m;
    float inverse, whole;
};
static __constant__ const Digits DIGITS[MODULI] = {
    {1u, 0u, 0x4b000000u, 256u, 0x1p-8f, 0x1.8p+23f},
    {0x01010101u, 0x01010101u, 0x4b2b8ec3u, 255u, 0x1.0101040000000p-8f, 12582914.0f},
    {0x1b090301u, 0xa6e2f651u, 0x4b415227u, 253u, 0x1.03091e0000000p-8f, 12582998.0f},
    {0x7d190501u, 0x403f717bu, 0x4b2f3a69u, 251u, 0x1.05197e0000000p-8f, 12582963.0f},
    {0xf4510901u, 0x3d991094u, 0x4b29c849u, 247u, 0x1.0953f20000000p-8f, 12583111.0f},
    {0x01f00f01u, 0x0f01f00fu, 0x4b392135u, 241u, 0x1.0fef040000000p-8f, 12583134.0f},
    {0x96321101u, 0x3303d66eu, 0x4b32162eu, 239u, 0x1.1235900000000p-8f, 12583153.0f},
    {0x333f1701u, 0xc626cf08u, 0x4b0fff25u, 233u, 0x1.19453a0000000p-8f, 12583079.0f},
    {0xf52a1b01u, 0x3d94fcbcu, 0x4b280a03u, 229u, 0x1.1e2ef20000000p-8f, 12583149.0f},
    {0x64bd1d01u, 0x960c6ecdu, 0x4b6bbd30u, 227u, 0x1.20b4720000000p-8f, 12582965.0f},
    {0x22e62101u, 0x0f290807u, 0x4b45fe53u, 223u, 0x1.25e22a0000000p-8f, 12583106.0f},
    {0x4e022701u, 0x5f08c304u, 0x4b1868c4u, 217u, 0x1.2e025e0000000p-8f, 12583063.0f},
    {0xe5ab2d01u, 0x6460e633u, 0x4b613545u, 211u, 0x1.3698e20000000p-8f, 12582986.0f},
    {0xb4413901u, 0x5605232eu, 0x4b3a2e0du, 199u, 0x1.4953a00000000p-8f, 12582921.0f}
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
#pragma unroll 1
    for (int modulus = 0; modulus < MODULI; ++modulus) {  // its text is short, so that instructions stay in the cache
        const Digits by = DIGITS[modulus];
#pragma unroll
        for (int i = 0; i < N; i += 4) packed[i / 4] = residues_of(low + i, high + i, by);
        put(modulus, packed);
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
    const u32 high = __shfl_xor_sync(0xffffffffu, (u32)(x >> 32), mask), low = __shfl_xor_sync(0xffffffffu, (u32)x, mask);
    return (u64)high << 32 | low;
}

// Powers of two of 16 rows of operand a, each of which 32 threads read, 1024 k at a time. Squares count from the largest exponent so
// far: where a later one is larger, the elements before it are read once more.
GG_DEVICE void norms_a(int block, const double* __restrict__ x, long long ld, int outer, int k, int* __restrict__ scales) {
    const int line = (int)threadIdx.x / 32, part = (int)threadIdx.x % 32;
    const int o = block * 16 + line, end = o < outer ? k : 0;
    const double* const from = x + (long long)o * ld;
    const auto at = [&](int kk) { return leading_of(from[kk]); };
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
        for (int mask = 1; mask < 32; mask *= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, mask));
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
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int line = (int)threadIdx.x % 16, part = (int)threadIdx.x / 16;
    const int o = block * 16 + line, end = o < outer ? k : 0;
    __shared__ u32 tops[512];  // of a span of k, and of the one before
    __shared__ u64 sums[256];
    const double* const from = x + o;
    const auto at = [&](int kk) { return leading_of(from[(long long)kk * ld]); };
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
        for (int mask = 16; mask < 32; mask *= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, mask));
        if (lane < 16) tops[other + warp * 16 + lane] = largest;
        __syncthreads();
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
    __syncthreads();
    squares = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) squares += sums[i * 16 + line];

    if (part == 0 && o < outer) scales[o] = power_of(most, squares);
}

extern "C" __global__ void __launch_bounds__(512, 2)
gemmgen_residues14_wgmma_128x128x128_c69ecdc4_norms(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k, int* __restrict__ a_scales, int* __restrict__ b_scales,
    long long stride_a, long long stride_b, int batch)  // elements from matrix to matrix, and how many products there are
{
    int block = (int)blockIdx.x;
    const int blocks_a = ((m + 15) / 16);  // of a product
    if (block < blocks_a * batch) {
        const long long entry = block / blocks_a;
        norms_a(block % blocks_a, a + entry * stride_a, lda, m, k,
                a_scales + entry * (((m + 127) / 128) * 128));
        return;
    }
    block -= blocks_a * batch;
    const int blocks_b = ((n + 15) / 16);  // of a product
    {
        const long long entry = block / blocks_b;
        norms_b(block % blocks_b, b + entry * stride_b, ldb, n, k,
                b_scales + entry * (((n + 127) / 128) * 128));
    }
}

GG_DEVICE double* block_elements() {
    __shared__ uint4 elements[2304];  // two of them in each
    return (double*)elements;
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 128][word: 14][m: 128][k: 128], rows swizzled, edges zero.
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
    const int my_k = (int)threadIdx.x % 8 * 16;
    const int my_outer = (int)threadIdx.x / 8;
    const int o = outer0 + my_outer;
    double value[16];

    // Two neighbours at a time, and 16 bytes free after every 16 k: threads that read along k touch all banks.
    double2* const held = (double2*)block_elements();
    const int place = (int)threadIdx.x % 64, first = (int)threadIdx.x / 64, from_k = k0 + place * 2;
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
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const double2 one = held[(int)threadIdx.x * 9 + i];
        value[2 * i] = one.x, value[2 * i + 1] = one.y;
    }

    const int factor = o < outer ? scales[o] : 0;  // log2 of it
    count(counters, losses(value, factor));

    const int kk = k0 + my_k;
    const int stages_k = (k + 127) / 128, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 128) {
        const int row = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 128) * 229376 + row * 128;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 128][word: 14][n: 128][k: 128], rows swizzled, edges zero.
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
    const int my_k = (int)threadIdx.x % 8 * 16;
    const int my_outer = (int)threadIdx.x / 8;
    const int o = outer0 + my_outer;
    double value[16];

    // Read along n, where neighbours lie together; 16 bytes are free after every 16 k: threads that read along k touch all banks.
    double* const held = block_elements();
    const int place = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32;
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
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) value[i] = held[(my_k + i) * 32 + my_k / 16 * 2 + my_outer];

    const int factor = o < outer ? scales[o] : 0;  // log2 of it
    count(counters, losses(value, factor));

    const int kk = k0 + my_k;
    const int stages_k = (k + 127) / 128, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 128) {
        const int row = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 128) * 229376 + row * 128;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
gemmgen_residues14_wgmma_128x128x128_c69ecdc4_split(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    long long stride_a, long long stride_b, int batch)  // elements from matrix to matrix, and how many products there are
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    int block = (int)blockIdx.x;
    const int blocks_a = (((m + 127) / 128 * 128 + 31) / 32) * ((k + 127) / 128);  // of a product
    if (block < blocks_a * batch) {
        const long long entry = block / blocks_a;
        split_a(block % blocks_a, a + entry * stride_a, lda, m, k,
            a_words + entry * ((m + 127) / 128) * ((k + 127) / 128) * 229376,
            a_scales + entry * ((m + 127) / 128) * 128,
            a_status);
        return;
    }
    block -= blocks_a * batch;
    const int blocks_b = (((n + 127) / 128 * 128 + 31) / 32) * ((k + 127) / 128);  // of a product
    {
        const long long entry = block / blocks_b;
        split_b(block % blocks_b, b + entry * stride_b, ldb, n, k,
            b_words + entry * ((n + 127) / 128) * ((k + 127) / 128) * 229376,
            b_scales + entry * ((n + 127) / 128) * 128,
            b_status);
    }
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(double* to, double product, double alpha, double beta) {
    double was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fma(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---------+---------+      A tile C[m0 : m0 + 128, n0 : n0 + 128] is computed by 2 x 1 warpgroups
//        m0  | wgroup  | wgroup  |      of 64 x 128, modulo one number after the other: each thread has 64 sums in
//   BLOCK_M  |         |         |      registers, which become bytes in the workspace after the whole loop over k.
//    = 128   +---------+---------+
//              WARP_N                   Shared memory holds 7 stages of k, 128 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 128;
constexpr int WARP_M = 64, WARP_N = 128;  // of a warpgroup
constexpr int WARPS_N = 1;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 7;
constexpr int GROUP_ROWS = 2;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n128k32 in a warpgroup
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_STAGE = BLOCK_M * ROW_BYTES, B_STAGE = BLOCK_N * ROW_BYTES;  // one residue
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int RELEASES = 16;  // arrivals that free a stage: one a warp that reads it, in every block that fills it
constexpr int SUMS = 64;  // of a thread
constexpr int PIECES = SUMS / 16;  // of 16 bytes that they become
constexpr int EXACT_STAGES = SEGMENT_K / BLOCK_K;  // after which sums are reduced where they stand
constexpr int SEGMENT_STAGES = 1 << 30;  // all of k is one segment: its residues add up

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

// c[64, 128] (+)= a[64, 32] b[32, 128] on the matrix unit, exactly; from zero where keep is 0.
GG_DEVICE void multiply_add(int (&c)[64], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p;\n"
        "}\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
          "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
          "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
          "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31]),
          "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]),
          "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47]),
          "+r"(c[48]), "+r"(c[49]), "+r"(c[50]), "+r"(c[51]), "+r"(c[52]), "+r"(c[53]), "+r"(c[54]), "+r"(c[55]),
          "+r"(c[56]), "+r"(c[57]), "+r"(c[58]), "+r"(c[59]), "+r"(c[60]), "+r"(c[61]), "+r"(c[62]), "+r"(c[63])
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
    if (modulus == 7) return {0u - 233u, 2359467013u, 1073742055u};
    if (modulus == 8) return {0u - 229u, 2400680410u, 1073741841u};
    if (modulus == 9) return {0u - 227u, 2421831780u, 1073742007u};
    if (modulus == 10) return {0u - 223u, 2465272709u, 1073741878u};
    if (modulus == 11) return {0u - 217u, 2533436931u, 1073742040u};
    if (modulus == 12) return {0u - 211u, 2605477791u, 1073741864u};
    return {0u - 199u, 2762592030u, 1073741912u};
}

// A sum modulo m, in [0, m): the offset is a multiple of m that makes it no negative number, and the quotient is exact.
GG_DEVICE u32 reduced(int sum, const Modulus& by) {
    const u32 whole = (u32)sum + by.offset;
    return whole + (__umulhi(whole, by.reciprocal) >> 7) * by.minus;
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

// What a block works on: tile after tile, those of one turn near one another so that they share operands in L2.
struct Work {
    int entry;                     // product of the batch
    int m0, n0, panel_m, panel_n;  // of the tile; the panels of packed words it needs
    int first, count;              // stages of k
};

GG_DEVICE Work work_at(int turn, int m, int n, int stages_k, int rank) {
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const int rows = (blocks_m + CLUSTER - 1) / CLUSTER;  // of clusters
    Work work;
    const int turns_each = rows * blocks_n;  // of a product
    work.entry = turn / turns_each;
    turn %= turns_each;
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
gemmgen_residues14_wgmma_128x128x128_c69ecdc4(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u8* __restrict__ residues,  // [blocks]: [modulus][tile]
    const double* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const double* __restrict__ b, long long ldb,  // words cannot carry
    double* __restrict__ c, long long ldc, int m, int n, int k, double alpha, double beta,
    long long stride_a, long long stride_b, long long stride_c, int batch,  // elements from matrix to matrix, and how many products there are
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * STAGE_BYTES, free = full + STAGES * 8;  // barriers, one a stage each
    const int thread = (int)threadIdx.x;
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = alpha == 0.0f ? 0 : (k + BLOCK_K - 1) / BLOCK_K;
    const int blocks_m = (m + BLOCK_M - 1) / BLOCK_M, blocks_n = (n + BLOCK_N - 1) / BLOCK_N;
    const double* const batch_a = a;
    const double* const batch_b = b;
    double* const batch_c = c;
    const int* const batch_a_scales = a_scales;
    const int* const batch_b_scales = b_scales;
    const int rank = cluster_rank();
    const int turns = (blocks_m + CLUSTER - 1) / CLUSTER * blocks_n * batch;
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
                const u8* const a_panel = a_words + (((long long)work.entry * blocks_m + work.panel_m) * stages_k + work.first) * (MODULI * A_STAGE);
                const u8* const b_panel = b_words + (((long long)work.entry * blocks_n + work.panel_n) * stages_k + work.first)
                    * (MODULI * B_STAGE) + rank * (B_STAGE / CLUSTER);
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
        uint4* const kept = (uint4*)(residues + (long long)(int)blockIdx.x * (BLOCK_M * BLOCK_N * MODULI)) + thread;
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
                int acc[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // sums of a segment; each modulus's first products begin from zero
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
                                    multiply_add(acc[i][j], a_at + (i * 64 * ROW_BYTES + step * 32) / 16, b_at + (j * 128 * ROW_BYTES + step * 32) / 16,
                                                 step > 0 || index > begin);
                        wgmma_commit();
                        wgmma_wait<1>();
                        if (held >= 0) release(held);
                        held = slot;
                        if (++slot == STAGES) slot = 0, phase ^= 1;
                        if ((index + 1) % EXACT_STAGES == 0) {  // sums stay below 2^31
                            wgmma_wait<0>();
                            const Modulus by = modulus_of(modulus);
#pragma unroll
                            for (int at = 0; at < SUMS; ++at) {
                                int& sum = acc[at / (FRAGMENTS_N * 64)][at / 64 % FRAGMENTS_N][at % 64];
                                sum = (int)reduced(sum, by);
                            }
                        }
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
                                left[e] = reduced(acc[at / (FRAGMENTS_N * 64)][at / 64 % FRAGMENTS_N][at % 64], by);
                            }
                            bytes[part] = bytes_of(left[0], left[1], left[2], left[3]);
                        }
                        kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
                    }
                }
            }
            first = false;

            auto* const a_scales = batch_a_scales + work.entry * ((long long)blocks_m * BLOCK_M);
            auto* const b_scales = batch_b_scales + work.entry * ((long long)blocks_n * BLOCK_N);
            auto* const c = batch_c + work.entry * stride_c;
            const int row0 = m0 + warp_m + ((lane >> 2) & 7) + (lane >> 5) * 16;
            const int column0 = n0 + warp_n + (lane & 3) * 2;
            // Some residues of the next piece, on their way while one is joined: device memory holds what L2 does not. Registers do not hold all of them.
            constexpr int EARLY = 4;
            uint4 next[EARLY];
            const auto fetch = [&](int piece) {
#pragma unroll
                for (int modulus = 0; modulus < EARLY; ++modulus) next[modulus] = kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)];
            };
            if (work.count > 0) fetch(0);
#pragma unroll 1
            for (int piece = 0; piece < PIECES; ++piece) {
                u32 held[MODULI][4];
                if (work.count > 0) {
#pragma unroll
                    for (int modulus = 0; modulus < MODULI; ++modulus) {
                        const uint4 four = modulus < EARLY ? next[modulus < EARLY ? modulus : 0] : kept[(modulus * PIECES + piece) * (WARPGROUPS * 128)];
                        held[modulus][0] = four.x, held[modulus][1] = four.y, held[modulus][2] = four.z, held[modulus][3] = four.w;
                    }
                    if (piece + 1 < PIECES) fetch(piece + 1);
                }
                // All of a piece at once, and then their stores: nothing waits for a branch.
                double product[16] = {};
                u32 unusual = 0;  // a bit an element: beyond the range of normal numbers
                u32 bad = 0;  // the same: not finite
                if (work.count > 0) {
#pragma unroll
                    for (int e = 0; e < 16; ++e) {
                        const int at = piece * 16 + e, r = at % 64;
                        const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                        const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                        const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
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
                        const int e = __ffs((int)unusual) - 1, at = piece * 16 + e, r = at % 64;
                        unusual &= unusual - 1;
                        const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                        const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                        const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                        u32 word[MODULI];
                        for (int modulus = 0; modulus < MODULI; ++modulus)
                            word[modulus] = ((const u32*)(kept + (modulus * PIECES + piece) * (WARPGROUPS * 128)))[e / 4];
                        u64 high, low;
                        whole_of(word, e % 4, high, low);
                        const int power = power_of_both(a_scales[min(row, m - 1)], b_scales[min(column, n - 1)]);
                        const double found = power == ASIDE ? __longlong_as_double(0x7ff8000000000000ll) : rounded(high, low, power);
#pragma unroll
                        for (int other = 0; other < 16; ++other) product[other] = other == e ? found : product[other];
                    }
                }
                u32 wanted = 0;  // a bit an element: it is one of C, and finite
#pragma unroll
                for (int e = 0; e < 16; ++e) {
                    const int at = piece * 16 + e, r = at % 64;
                    const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    const bool inside = row < m && column < n;
                    const bool finite = magnitude_of(product[e]) < 0x7ffull << 52;
                    wanted |= inside && finite ? 1u << e : 0;
                    bad |= inside && !finite ? 1u << e : 0;
                }
                double was[16];
#pragma unroll
                for (int e = 0; e < 16; ++e) was[e] = -0.0;  // which changes no number
                const bool together = (((u64)c | (u64)ldc * 8) & 15) == 0;  // neighbours
                if (beta != 0.0) {  // as in BLAS, C is not read where beta is 0
#pragma unroll
                    for (int e = 0; e < 16; e += 2) {
                        const int at = piece * 16 + e, r = at % 64;
                        const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                        const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                        const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                        const double* const from = c + row * ldc + column;
                        if (together && (wanted >> e & 3) == 3) {
                            const double2 two = *(const double2*)from;
                            was[e] = two.x, was[e + 1] = two.y;
                        } else {
                            if (wanted >> e & 1) was[e] = *from;
                            if (wanted >> e & 2) was[e + 1] = from[1];
                        }
                    }
                }
#pragma unroll
                for (int e = 0; e < 16; e += 2) {
                    const int at = piece * 16 + e, r = at % 64;
                    const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    double* const to = c + row * ldc + column;
                    const double2 two = make_double2(fma(alpha, product[e], beta * was[e]), fma(alpha, product[e + 1], beta * was[e + 1]));
                    if (together && (wanted >> e & 3) == 3) {
                        *(double2*)to = two;
                    } else {
                        if (wanted >> e & 1) *to = two.x;
                        if (wanted >> e & 2) to[1] = two.y;
                    }
                }
                // Integers have no Inf and no NaN, and what a sum in FP64 comes to beyond its range depends on the order: these elements are
                // computed again from the operands themselves.
                while (bad) {
                    auto* const a = batch_a + work.entry * stride_a;
                    auto* const b = batch_b + work.entry * stride_b;
                    const int at = piece * 16 + __ffs((int)bad) - 1, r = at % 64;
                    bad &= bad - 1;
                    const int j = at / 64 % FRAGMENTS_N, i = at / (64 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    double sum = 0.0;
                    for (long long kk = 0; kk < k; ++kk)
                        sum = fma(a[row * lda + kk], b[kk * ldb + column], sum);
                    put_element(c + row * ldc + column, sum, alpha, beta);
                    atomicAdd(repaired, 1ull);
                }
            }
        }
    }
    cluster_barrier();  // no block ends while another may still write to its shared memory
}

}  // namespace gemmgen_c69ecdc4
