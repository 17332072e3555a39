// kernel    gemmgen_residues14_mma_256x128x64_b3e6d41e
// computes  C = alpha A B + beta C in FP64, layout nn (row major), any m, n, k
// scheme    residues14: FP64 elements as residues modulo fourteen numbers, fourteen exact products (Ozaki scheme II)
// words     14 x s8, 55 bits; products of the residues modulo 256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199; dropped none
// promote   never (residues14's own)
// special   exact
// fragment  mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32
// decided   block 256x128x64, warp 128x32x64, split prepass, loads async, 3 stages, group 8, 1 slice of k, promote 0, 2 fragment buffers
// block     256 threads, 73728 B of dynamic shared memory
// target    sm_80
// plan      b3e6d41e, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_b3e6d41e {

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

constexpr int MODULI = 14, WORDS = 1;  // residues of an element, of which a stage has one

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
gemmgen_residues14_mma_256x128x64_b3e6d41e_norms(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k, int* __restrict__ a_scales, int* __restrict__ b_scales)
{
    int block = (int)blockIdx.x;
    const int blocks_a = ((m + 15) / 16);
    if (block < blocks_a) {
        norms_a(block, a, lda, m, k, a_scales);
        return;
    }
    block -= blocks_a;
    norms_b(block, b, ldb, n, k, b_scales);
}

GG_DEVICE double* block_elements() {
    __shared__ uint4 elements[2304];  // two of them in each
    return (double*)elements;
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 256][k / 64][word: 14][m: 256][k: 64], rows swizzled, edges zero.
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
    const int stages_k = (k + 63) / 64, panels = (outer + 255) / 256;
    if (o < panels * 256 && kk < stages_k * 64) {
        const int row = o % 256, chunk = kk % 64 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 256) * stages_k + kk / 64) * 229376 + row * 64;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 64][word: 14][n: 128][k: 64], rows swizzled, edges zero.
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
    const int stages_k = (k + 63) / 64, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 64) {
        const int row = o % 128, chunk = kk % 64 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 64) * 114688 + row * 64;
        split_run(value, factor, [&](int w, const u32 (&packed)[4]) {
            *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) = make_uint4(packed[0], packed[1], packed[2], packed[3]);
        });
    }
}

extern "C" __global__ void __launch_bounds__(256, 3)
gemmgen_residues14_mma_256x128x64_b3e6d41e_split(
    const double* __restrict__ a, long long lda, const double* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 255) / 256 * 256 + 31) / 32) * ((k + 127) / 128);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_scales, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_scales, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(double* to, double product, double alpha, double beta) {
    double was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fma(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 256, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     2 x 4 warps of 128 x 32, modulo one number after the other. A thread has 128 sums in
//   BLOCK_M  +---+----+----+ - -        registers, which become bytes in the workspace after the whole loop over k.
//    = 256   | w | w  | w  |
//            +---+----+----+            Shared memory holds 3 stages of k, 64 deep: one is
//              WARP_N                   multiplied while 2 are on the way.
constexpr int BLOCK_M = 256, BLOCK_N = 128, BLOCK_K = 64;
constexpr int WARP_M = 128, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 256;
constexpr int STAGES = 3;
constexpr int FRAGMENT_BUFFERS = 2;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 8, FRAGMENTS_N = 4;  // fragments of m16n8k32 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
constexpr int ROW_BYTES = 64;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one residue of a stage
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int WORDS_KEPT = 32;  // of four residues, which a thread has modulo each number

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

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemmgen_residues14_mma_256x128x64_b3e6d41e(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][MODULI][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][MODULI][BLOCK_N][BLOCK_K]
    const int* __restrict__ a_scales, const int* __restrict__ b_scales,
    u8* __restrict__ residues,  // [blocks]: [modulus][tile]
    const double* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const double* __restrict__ b, long long ldb,  // words cannot carry
    double* __restrict__ c, long long ldc, int m, int n, int k, double alpha, double beta,
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
    u32* const kept = (u32*)residues + (long long)block * (BLOCK_M * BLOCK_N / 4 * MODULI) + (int)threadIdx.x;  // a thread's words are THREADS apart
    const auto reduce = [&]() {
        const Modulus by = modulus_of(multiplied.modulus);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) acc_of_256[i][j][r] = (int)reduced(acc_of_256[i][j][r], by);
        if (multiplied.left > 0) return;  // k goes on
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; r += 4) {
                    auto& four = acc_of_256[i][j];
                    kept[(multiplied.modulus * WORDS_KEPT + ((i * FRAGMENTS_N + j) * 4 + r) / 4) * THREADS] =
                        bytes_of((u32)four[r], (u32)four[r + 1], (u32)four[r + 2], (u32)four[r + 3]);
                    four[r] = four[r + 1] = four[r + 2] = four[r + 3] = 0;
                }
        next_modulus(multiplied, stages_k);
    };
    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 229376 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 114688 + copy_from;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            cp_async_16(stage + copy_to + i * (THREADS * 16), a_from + i * THREADS * 16);
#pragma unroll
        for (int i = 0; i < 2; ++i)
            cp_async_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_from + i * THREADS * 16);
        a_from += MODULI * A_BYTES, b_from += MODULI * B_BYTES;
        if (--filled.left == 0) {
            const long long back = stages_k * MODULI - 1;  // residues
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
        if (--multiplied.left % EXACT_STAGES == 0) reduce();
    }

    const int row0 = m0 + warp_m + (lane >> 2);
    const int column0 = n0 + warp_n + (lane & 3) * 2;
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
                const int at = piece * 4 + e, r = at % 4;
                const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
                const int row = row0 + i * 16 + (r >> 1) * 8;
                const int column = column0 + j * 8 + (r & 1);
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
                const int e = __ffs((int)unusual) - 1, at = piece * 4 + e, r = at % 4;
                unusual &= unusual - 1;
                const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
                const int row = row0 + i * 16 + (r >> 1) * 8;
                const int column = column0 + j * 8 + (r & 1);
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
            const int at = piece * 4 + e, r = at % 4;
            const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
            const int row = row0 + i * 16 + (r >> 1) * 8;
            const int column = column0 + j * 8 + (r & 1);
            const bool inside = row < m && column < n;
            const bool finite = magnitude_of(product[e]) < 0x7ffull << 52;
            wanted |= inside && finite ? 1u << e : 0;
            bad |= inside && !finite ? 1u << e : 0;
        }
        double was[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) was[e] = -0.0;  // which changes no number
        const bool together = (((u64)c | (u64)ldc * 8) & 15) == 0;  // neighbours
        if (beta != 0.0) {  // as in BLAS, C is not read where beta is 0
#pragma unroll
            for (int e = 0; e < 4; e += 2) {
                const int at = piece * 4 + e, r = at % 4;
                const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
                const int row = row0 + i * 16 + (r >> 1) * 8;
                const int column = column0 + j * 8 + (r & 1);
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
        for (int e = 0; e < 4; e += 2) {
            const int at = piece * 4 + e, r = at % 4;
            const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
            const int row = row0 + i * 16 + (r >> 1) * 8;
            const int column = column0 + j * 8 + (r & 1);
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
            const int at = piece * 4 + __ffs((int)bad) - 1, r = at % 4;
            bad &= bad - 1;
            const int j = at / 4 % FRAGMENTS_N, i = at / (4 * FRAGMENTS_N);
            const long long row = row0 + i * 16 + (r >> 1) * 8;
            const long long column = column0 + j * 8 + (r & 1);
            double sum = 0.0;
            for (long long kk = 0; kk < k; ++kk)
                sum = fma(a[row * lda + kk], b[kk * ldb + column], sum);
            put_element(c + row * ldc + column, sum, alpha, beta);
            atomicAdd(repaired, 1ull);
        }
    }
}

}  // namespace gemmgen_b3e6d41e
