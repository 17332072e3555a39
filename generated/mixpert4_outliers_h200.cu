// kernel    gemmgen_mixpert4_wgmma_64x96x64_abaaba88
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    mixpert4: level IV: three integer words, all products but that of the last two
// words     3 x s8, 21 bits; products A2 B1 + A1 B2 + A2 B0 + A1 B1 + A0 B2 + A1 B0 + A0 B1 + A0 B0; dropped A2 B2
// promote   never (mixpert4's own)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8
// decided   block 64x96x64, warpgroup 64x96x64, split prepass, loads bulk, 7 stages, group 8, 1 slice of k, promote 0, clusters of 2, pingpong
// block     384 threads, 215152 B of dynamic shared memory
// target    sm_90a
// plan      abaaba88, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_abaaba88 {

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
                const float held = Tops || word == 0 ? fminf(fmaxf(rest[part] * places(word), -127.0f), 127.0f) + WHOLE
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
    const int outer0 = block / blocks_k * 32;
    const int k_end = min(k, k0 + 256);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    // A warp takes 4 m along k, all of which it reads before it compares any.
    const int first = outer0 + warp * 4;
    u32 largest[4] = {};
    if (k0 + 256 <= k && ld % 4 == 0 && ((u64)x & 15) == 0) {
#pragma unroll
        for (int row = 0; row < 4; ++row)
#pragma unroll
            for (int i = 0; i < 256; i += 128) {
                const int o = min(first + row, outer - 1);  // a row twice does no harm
                const float4 four = *(const float4*)(x + (long long)o * ld + k0 + i + lane * 4);
                largest[row] = max(max(max(largest[row], magnitude(four.x)), magnitude(four.y)),
                                   max(magnitude(four.z), magnitude(four.w)));
            }
    } else {
#pragma unroll
        for (int row = 0; row < 4; ++row)
            for (int kk = k0 + lane; first + row < outer && kk < k_end; kk += 32)
                largest[row] = max(largest[row], magnitude(x[(long long)(first + row) * ld + kk]));
    }
#pragma unroll
    for (int row = 0; row < 4; ++row) {
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) largest[row] = max(largest[row], __shfl_xor_sync(0xffffffffu, largest[row], mask));
        if (lane == 0 && first + row < outer) atomicMax(absmax + first + row, largest[row]);
    }
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 64][k / 64][word: 3][m: 64][k: 64], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ energy,      // [m]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 63) / 64);
    const int k0 = block % blocks_k * 64;
    const int outer0 = block / blocks_k * 64;
    const int my_k = (int)threadIdx.x % 4 * 16;
    const int my_outer = (int)threadIdx.x / 4;
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
    const int stages_k = (k + 63) / 64, panels = (outer + 63) / 64;
    if (o < panels * 64 && kk < stages_k * 64) {
        const int row = o % 64, chunk = kk % 64 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 64) * stages_k + kk / 64) * 12288 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 4096 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    // What a row's elements come to: how many are not 0, and the squares of their leading words, both exact in whatever order they are added.
    u32 squares = 0, elements = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int word = (int)(packed[0][i / 4] << (24 - i % 4 * 8)) >> 24;
        squares += (u32)(word * word), elements += value[i] != 0.0f ? 1u : 0u;
    }
    squares += __shfl_xor_sync(0xffffffffu, squares, 1), elements += __shfl_xor_sync(0xffffffffu, elements, 1);
    squares += __shfl_xor_sync(0xffffffffu, squares, 2), elements += __shfl_xor_sync(0xffffffffu, elements, 2);
    if (my_k == 0 && o < outer) {
        const u64 found = (u64)elements << 32 | squares;
        if (found) atomicAdd(energy + o, found);
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
    const int outer0 = block / blocks_k * 32;
    const int k_end = min(k, k0 + 256);
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;

    // A lane walks along k of one n; the warps take every 8th k.
    const int o = outer0 + lane;
    if (o < outer) {
        u32 largest = 0;
        if (k0 + 256 <= k) {
#pragma unroll
            for (int i = 0; i < 256; i += 8)
                largest = max(largest, magnitude(x[(long long)(k0 + warp + i) * ld + o]));
        } else {
            for (int kk = k0 + warp; kk < k_end; kk += 8)
                largest = max(largest, magnitude(x[(long long)kk * ld + o]));
        }
        atomicMax(absmax + o, largest);
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 96][k / 64][word: 3][n: 96][k: 64], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    const u32* __restrict__ absmax,
    u64* __restrict__ energy,      // [n]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 63) / 64);
    const int k0 = block % blocks_k * 64;
    const int outer0 = block / blocks_k * 64;
    const int my_k = (int)threadIdx.x % 4 * 16;
    const int my_outer = (int)threadIdx.x / 4;
    const int o = outer0 + my_outer;
    float value[16];

    // Read along n, where neighbours lie together, and turn the block's part in shared memory. Rows of
    // 65 floats, and 8 more after every 16: a warp's stores hit 32 neighbouring banks, and its loads, 8 outer by 4 k that are 16 apart, all different ones.
    __shared__ float turned[64 * 65 + 24];
    for (int i = (int)threadIdx.x; i < 4096; i += 256) {
        const int column = i % 64, row = i / 64;
        const bool inside = outer0 + column < outer && k0 + row < k;
        turned[row * 65 + row / 16 * 8 + column] = inside ? x[(long long)(k0 + row) * ld + (outer0 + column)] : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < 16; ++i) value[i] = turned[(my_k + i) * 65 + my_k / 16 * 8 + my_outer];

    const int exponent = o < outer ? row_exponent(absmax[o]) : 0;
    u32 packed[WORDS][4];
    split_run(packed, value, exponent);

    const int kk = k0 + my_k;
    const int stages_k = (k + 63) / 64, panels = (outer + 95) / 96;
    if (o < panels * 96 && kk < stages_k * 64) {
        const int row = o % 96, chunk = kk % 64 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 96) * stages_k + kk / 64) * 18432 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 6144 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    // What a row's elements come to: how many are not 0, and the squares of their leading words, both exact in whatever order they are added.
    u32 squares = 0, elements = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
        const int word = (int)(packed[0][i / 4] << (24 - i % 4 * 8)) >> 24;
        squares += (u32)(word * word), elements += value[i] != 0.0f ? 1u : 0u;
    }
    squares += __shfl_xor_sync(0xffffffffu, squares, 1), elements += __shfl_xor_sync(0xffffffffu, elements, 1);
    squares += __shfl_xor_sync(0xffffffffu, squares, 2), elements += __shfl_xor_sync(0xffffffffu, elements, 2);
    if (my_k == 0 && o < outer) {
        const u64 found = (u64)elements << 32 | squares;
        if (found) atomicAdd(energy + o, found);
    }

    count(counters, losses<WORDS>(value, exponent));
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_mixpert4_wgmma_64x96x64_abaaba88_absmax(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k, u32* __restrict__ a_absmax, u32* __restrict__ b_absmax)
{
    const int blocks_a = ((m + 31) / 32) * ((k + 255) / 256);
    if ((int)blockIdx.x < blocks_a)
        absmax_a((int)blockIdx.x, a, lda, m, k, a_absmax);
    else
        absmax_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_absmax);
}

// Whether a row's or column's largest element stands out: scaled, the others' root mean square is below 8, where that one is 2^6 or more.
GG_DEVICE bool stands_out(u32 absmax, u64 energy) {
    return absmax < 0x7f800000u && (energy & 0xffffffffu) < (energy >> 32) * 64;
}

extern "C" __global__ void __launch_bounds__(32)
gemmgen_mixpert4_wgmma_64x96x64_abaaba88_flags(
    int m, int n,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    const u64* __restrict__ a_energy, const u64* __restrict__ b_energy,
    u32* __restrict__ a_flags, u32* __restrict__ b_flags)
{
    const int panels = (m + 63) / 64, panel = (int)blockIdx.x, lane = (int)threadIdx.x;
    const bool of_a = panel < panels;
    const int first = of_a ? panel * 64 : (panel - panels) * 96;
    const int end = of_a ? min(m, first + 64) : min(n, first + 96);
    bool found = false;
    for (int o = first + lane; o < end; o += 32)
        found = found || (of_a ? stands_out(a_absmax[o], a_energy[o]) : stands_out(b_absmax[o], b_energy[o]));
    const u32 flag = __any_sync(0xffffffffu, found) ? 1 : 0;
    if (lane == 0) (of_a ? a_flags + panel : b_flags + (panel - panels))[0] = flag;
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_mixpert4_wgmma_64x96x64_abaaba88_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    u64* __restrict__ a_energy, u64* __restrict__ b_energy,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    const int blocks_a = ((m + 63) / 64) * ((k + 63) / 64);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_absmax, a_energy, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_absmax, b_energy, b_status);
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

//                n0        BLOCK_N = 96
//            +---------+---------+      A tile C[m0 : m0 + 64, n0 : n0 + 96] is computed by a warpgroup
//        m0  | wgroup  | wgroup  |      of 64 x 96. Each thread keeps its part of C in registers for the whole
//   BLOCK_M  |         |         |      loop over k, in 4 sets of 48 ints. The two warpgroups take turns: while
//    = 64    +---------+---------+      one stores its tile, the other multiplies the next.
//              WARP_N                   Shared memory holds 7 stages of k, 64 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 64, BLOCK_N = 96, BLOCK_K = 64;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 7;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n96k32 in a warpgroup
constexpr int K_STEPS = 2;  // instructions along k in a stage
constexpr int ROW_BYTES = 64;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int A_STAGE = WORDS * A_BYTES, B_STAGE = WORDS * B_BYTES;
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int RELEASES = 8;  // arrivals that free a stage: one a warp that reads it, in every block that fills it

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

// Where an operand's rows lie and how, as the unit wants to be told: rows of 64 bytes, swizzled, eight rows every
// 512 bytes. The address is in units of 16 bytes.
GG_DEVICE u64 descriptor(u32 address) { return 0x8000002000010000ull | (u64)((address & 0x3ffff) >> 4); }

// Orders registers written before, which the products that follow read.
GG_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits the products issued since the last call: they are one group.
GG_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most `Pending` of the newest commit groups are still at work.
template <int Pending>
GG_DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// c[64, 96] (+)= a[64, 32] b[32, 96] on the matrix unit, exactly; from zero where keep is 0.
GG_DEVICE void multiply_add(int (&c)[48], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %50, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n96k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
        "}, %48, %49, p;\n"
        "}\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
          "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
          "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
          "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31]),
          "+r"(c[32]), "+r"(c[33]), "+r"(c[34]), "+r"(c[35]), "+r"(c[36]), "+r"(c[37]), "+r"(c[38]), "+r"(c[39]),
          "+r"(c[40]), "+r"(c[41]), "+r"(c[42]), "+r"(c[43]), "+r"(c[44]), "+r"(c[45]), "+r"(c[46]), "+r"(c[47])
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
gemmgen_mixpert4_wgmma_64x96x64_abaaba88(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
    const u32* __restrict__ a_flags, const u32* __restrict__ b_flags,  // tiles that another kernel computes
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
    } else {
        setmaxnreg_inc<232>();
        const int warpgroup = thread / 128, lane = thread % 128;  // lane of the warpgroup
        const int warp_m = 0, warp_n = 0;
        int slot = 0;
        u32 phase = 0;
        // Every warp that has read a stage says so, to every block that fills it.
        const auto release = [&](int which) {
            if (thread % 32 < CLUSTER) mbarrier_arrive_at(free + which * 8, thread % 32);
        };
        // Whose turn it is to multiply. A warpgroup that ran ahead could take a stage's last filling for its own.
        int tiles = 0;  // that this block has come to
        if (warpgroup == 1) asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(256) : "memory");
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(turn, m, n, stages_k, rank);
            if (tiles++ % WARPGROUPS != warpgroup) {  // the other warpgroup's tile: its stages pass by
                slot += work.count;
                phase ^= slot / STAGES & 1;
                slot %= STAGES;
                continue;
            }
            const int m0 = work.m0, n0 = work.n0;
            asm volatile("bar.sync %0, %1;" ::"r"(1 + warpgroup), "r"(256) : "memory");
            int acc_sum0[FRAGMENTS_M][FRAGMENTS_N][48] = {};  // in the matrix unit
            int acc_sum7[FRAGMENTS_M][FRAGMENTS_N][48] = {};  // in the matrix unit; 2^7 too large
            int acc_sum14[FRAGMENTS_M][FRAGMENTS_N][48] = {};  // in the matrix unit; 2^14 too large
            int acc_sum21[FRAGMENTS_M][FRAGMENTS_N][48] = {};  // in the matrix unit; 2^21 too large
            int held = -1;  // the stage that is still being read
            const auto advance = [&]() {
                held = slot;
                if (++slot == STAGES) slot = 0, phase ^= 1;
            };
            // Issues the products of steps [FIRST, LAST) of the stage at `stage`; they run on while this thread goes on.
            const auto issue = [&](u32 stage, int first, int last) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                wgmma_fence();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_sum0[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum7[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum7[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (A_BYTES * 2 + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES * 2 + j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum21[i][j],
                                         a_at + (A_BYTES * 2 + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 96 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum21[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES * 2 + j * 96 * ROW_BYTES + step * 32) / 16, 1);
                        }
                }
                wgmma_commit();
            };
#pragma unroll 1
            for (int index = 0; index < work.count; ++index) {
                mbarrier_wait(full + slot * 8, phase);
                issue(stages + slot * STAGE_BYTES, 0, K_STEPS);
                wgmma_wait<1>();
                if (held >= 0) release(held);
                advance();
            }
            if (turn + all_blocks < turns) asm volatile("bar.arrive %0, %1;" ::"r"(2 - warpgroup), "r"(256) : "memory");
            wgmma_wait<0>();
            if (held >= 0) release(held);

            // A tile that falls back is another kernel's.
            if (a_flags[min(work.m0, m - 1) / BLOCK_M] | b_flags[work.n0 / BLOCK_N]) continue;
            // Element r of fragment (i, j) is C[row, column]; every second one is its neighbour's right hand.
            const int row0 = m0 + warp_m + ((lane >> 2) & 7) + (lane >> 5) * 16;
            const int column0 = n0 + warp_n + (lane & 3) * 2;
            const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
            const bool quads = ldc % 4 == 0 && ((u64)c & 15) == 0;
            // A tile that nothing is added to, whose rows end between two stores, is stored by the same few instructions for all.
            bool done = !read_c && quads && (n % 4 == 0 || n0 + BLOCK_N <= n);
            if (done) {
                // The even lane of two takes the first of two groups of eight columns, the odd one the second.
                const bool odd = lane & 1;
                float* const corner = c + row0 * ldc + column0 + (odd ? 6 : 0);  // all that this lane stores is so many rows and columns from it
                float zeros[4] = {};  // products times 0: NaN where one is not finite
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int at = 0; at < 12; ++at) {
                            const int r = at / 2 * 8 + at % 2 * 2;
                            const int down = i * 64 + ((r >> 1) & 1) * 8;
                            const int right = j * 96 + (r & 1) + (r >> 2) * 8;
                            int row = row0 + down;
                            const int column = column0 + right;
                            const bool inside = row < m && (odd ? column + 6 : column) < n;
                            row = min(row, m - 1);  // what is looked up for lanes that store nothing is that of the last row and column
                            float product[4] = {summed(acc_sum21[i][j][r], acc_sum14[i][j][r],
                                                acc_sum7[i][j][r], acc_sum0[i][j][r]),
                                                summed(acc_sum21[i][j][r + 1], acc_sum14[i][j][r + 1],
                                                acc_sum7[i][j][r + 1], acc_sum0[i][j][r + 1]),
                                                summed(acc_sum21[i][j][r + 4], acc_sum14[i][j][r + 4],
                                                acc_sum7[i][j][r + 4], acc_sum0[i][j][r + 4]),
                                                summed(acc_sum21[i][j][r + 5], acc_sum14[i][j][r + 5],
                                                acc_sum7[i][j][r + 5], acc_sum0[i][j][r + 5])};
#pragma unroll
                            for (int e = 0; e < 4; ++e) {
                                const int beside = min(column + e / 2 * 8 + e % 2, n - 1);
                                product[e] = scale_by(product[e], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[beside]));
                            }
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
                __syncwarp();  // what is computed again follows what the other lane has stored
                done = zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f;
            }
            if (done) continue;
            u32 bad[2] = {};  // a bit an element: not finite
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                    for (int r = 0; r < 48; r += 2) {
                        const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                        const int column = column0 + j * 96 + (r & 1) + (r >> 2) * 8;
                        if (row >= m || column >= n) continue;
                        float product[2] = {summed(acc_sum21[i][j][r], acc_sum14[i][j][r],
                                            acc_sum7[i][j][r], acc_sum0[i][j][r]),
                                            summed(acc_sum21[i][j][r + 1], acc_sum14[i][j][r + 1],
                                            acc_sum7[i][j][r + 1], acc_sum0[i][j][r + 1])};
                        product[0] = scale_by(product[0], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[column]));
                        if (column + 1 < n) product[1] = scale_by(product[1], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[column + 1]));
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            if (column + e >= n) continue;
                            if (!(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                                const int element = (i * FRAGMENTS_N + j) * 48 + r + e;
                                bad[element / 32] |= 1u << element % 32;
                                continue;
                            }
                            put_element(c + row * ldc + column + e, product[e], alpha, beta);
                        }
                    }

            // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
            // does not: these elements are computed again from the operands themselves.
#pragma unroll
            for (int part = 0; part < 2; ++part)
                while (bad[part]) {
                    const int element = part * 32 + __ffs((int)bad[part]) - 1;
                    bad[part] &= bad[part] - 1;
                    const int r = element % 48;
                    const int j = element / 48 % FRAGMENTS_N, i = element / (48 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 96 + (r & 1) + (r >> 2) * 8;
                    float product = 0.0f;
                    for (long long kk = 0; kk < (alpha == 0.0f ? 0 : k); ++kk)
                        product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                    put_element(c + row * ldc + column, product, alpha, beta);
                    if (alpha != 0.0f) atomicAdd(repaired, 1ull);
                }
        }
    }
    cluster_barrier();  // no block ends while another may still write to its shared memory
}

}  // namespace gemmgen_abaaba88

// kernel    gemmgen_mixpert4_wgmma_64x96x64_abaaba88_fallback
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    tf32x3: two tf32 words, three products: FP32's range at 22 bits
// words     2 x tf32, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 32 k (tf32x3's own: never)
// special   exact
// fragment  mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32
// decided   block 64x96x32, warp 32x48x32, split register, loads async, 2 stages, group 16, 1 slice of k, promote 32, 1 fragment buffer
// block     128 threads, 40960 B of dynamic shared memory
// target    sm_90
// plan      fabc38a8, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_fabc38a8 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

GG_DEVICE float widen(u32 bits) { return __uint_as_float(bits); }

// 13 bits of FP32 are not tf32's; a NaN may have no others set and must not become Inf.
GG_DEVICE u32 round_nearest_even(float x) {
    const u32 bits = __float_as_uint(x);
    if (x != x) return 0x7fffe000u;
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return (finite ? bits + 0xfffu + (bits >> 13 & 1u) : bits) & ~0x1fffu;
}

// Operand a lies [m][k]: lanes of 4 rows read runs of 2 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 128 + (chunk ^ (row & 3) * 2) * 16; }
// Operand b lies [k][n]: four lanes read 8 neighbours each, of k that are 2 apart.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 384 + (chunk ^ (row / 2 & 3) * 2) * 16; }

constexpr int WORDS = 2;

// Splits N elements into words, 1 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float rest = x[i];  // what is not in the words yet
        // word 0: to nearest, ties to even
        packed[0][i] = round_nearest_even(rest);
        rest -= widen(packed[0][i]);
        // word 1: to nearest, ties to even
        packed[1][i] = round_nearest_even(rest);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below tf32's smallest normal number, of which the first word has too few bits, and those of which the
// words leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-115, 2^127): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-115f) && most < __float_as_uint(0x1p+127f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-126f && magnitude > 0.0f;
        rest -= widen(packed[0][i]);
        // Rounding leaves at most one ulp, 2^117 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+117f);
        rest -= widen(packed[1][i]);
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

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 96
//            +---+----+----+ - -        A block computes C[m0 : m0 + 64, n0 : n0 + 96] with
//        m0  | w | w  | w  | WARP_M     2 x 2 warps of 32 x 48. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 48 floats a thread.
//    = 64   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 32 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 64, BLOCK_N = 96, BLOCK_K = 32;
constexpr int WARP_M = 32, WARP_N = 48;
constexpr int WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 16;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 6;  // fragments of m16n8k8 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// 16 bytes from global to shared memory, past the registers and the L1 cache; those after the first `bytes` become zero.
GG_DEVICE void cp_async_16_part(u32 to, const void* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// The same of 4 bytes.
GG_DEVICE void cp_async_4_part(u32 to, const void* from, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Commits the copies issued since the last call: they are one group.
GG_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `Pending` of this thread's newest commit groups are still under way.
template <int Pending>
GG_DEVICE void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

GG_DEVICE float load_shared_4(u32 from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

GG_DEVICE void load_shared_16(float (&x)[4], u32 from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(from) : "memory");
}

GG_DEVICE void load_shared_8(float (&x)[2], u32 from) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x[0]), "=f"(x[1]) : "r"(from) : "memory");
}

// c[16, 8] += a[16, 8] b[8, 8] on the matrix unit, which truncates as it accumulates.
GG_DEVICE void multiply_add(float (&c)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_mixpert4_wgmma_64x96x64_abaaba88_fallback(
    const u32* __restrict__ a_flags, const u32* __restrict__ b_flags,  // which tiles to compute
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired,
    u64* __restrict__ fallen)
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
    // Only in those tiles of another kernel that fall back.
    if ((a_flags[m0 / 64] | b_flags[n0 / 96]) == 0) return;
    if ((int)threadIdx.x == 0) atomicAdd(fallen, 1ull);
    // BLAS: with alpha = 0 the operands are not looked at.
    const int stages_k = (k + BLOCK_K - 1) / BLOCK_K;
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k;

    float acc_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit
    float sum_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in FP32 registers

    // The matrix unit truncates when it adds, FP32 rounds to nearest: every 32 k the
    // unit's sum moves over. Sums that are scaled up err that much less and stay.
    const auto promote = [&]() {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    sum_main[i][j][r] += acc_main[i][j][r];
                    acc_main[i][j][r] = 0.0f;
                }
    };

    // Stages are copied in the operands' own order; what lies outside them becomes zero.
    int k0 = first_stage * BLOCK_K;  // of the stage that is copied next
    const bool a_aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
    const int a_copy_row = (int)threadIdx.x / 8, a_copy_column = (int)threadIdx.x % 8 * 4;
    const float* a_from = a + (long long)(m0 + a_copy_row) * lda + k0 + a_copy_column;
    const bool b_aligned = ((u64)b & 15) == 0 && (ldb & 3) == 0;
    const int b_copy_row = (int)threadIdx.x / 8, b_copy_column = (int)threadIdx.x % 8 * 4;
    const float* b_from = b + (long long)(k0 + b_copy_row) * ldb + n0 + b_copy_column;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
        {
            const u32 to = stage;
            const int rows = m - m0, columns = k - k0;  // inside the operand
            if (a_aligned) {
                const float* from = a_from;
#pragma unroll
                for (int i = 0; i < 4; ++i, from += 16 * lda) {
                    const int row = a_copy_row + i * 16;
                    cp_async_16_part(to + at_a(row, a_copy_column / 4), from, row < rows ? max(0, min(4, columns - a_copy_column)) * 4 : 0);
                }
            } else {  // bases and rows that are not 16-byte aligned: by single elements
#pragma unroll 1
                for (int at = (int)threadIdx.x; at < 2048; at += THREADS) {
                    const int row = at / 32, column = at % 32;
                    const bool inside = row < rows && column < columns;
                    cp_async_4_part(to + at_a(row, column / 4) + column % 4 * 4,
                                    inside ? a + (long long)(m0 + row) * lda + k0 + column : a, inside ? 4 : 0);
                }
            }
            a_from += BLOCK_K;
        }
        {
            const u32 to = stage + A_BYTES;
            const int rows = k - k0, columns = n - n0;  // inside the operand
            if (b_aligned) {
                const float* from = b_from;
#pragma unroll
                for (int i = 0; i < 2; ++i, from += 16 * ldb) {
                    const int row = b_copy_row + i * 16;
#pragma unroll
                    for (int j = 0; j < 3; ++j)
                        cp_async_16_part(to + at_b(row, b_copy_column / 4 + j * 8), from + j * 32,
                                         row < rows ? max(0, min(4, columns - b_copy_column - j * 32)) * 4 : 0);
                }
            } else {  // bases and rows that are not 16-byte aligned: by single elements
#pragma unroll 1
                for (int at = (int)threadIdx.x; at < 3072; at += THREADS) {
                    const int row = at / 96, column = at % 96;
                    const bool inside = row < rows && column < columns;
                    cp_async_4_part(to + at_b(row, column / 4) + column % 4 * 4,
                                    inside ? b + (long long)(k0 + row) * ldb + n0 + column : b, inside ? 4 : 0);
                }
            }
            b_from += BLOCK_K * ldb;
        }
        k0 += BLOCK_K;
    };

    const int run_row = lane >> 2, run_k = (lane & 3) * 2;
    u32 a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][4], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][2];

    // Fetches and splits the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) {
        const int kk = step * 8 + run_k;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = warp_m + i * 16 + half * 8 + run_row;
                float x[2];
                load_shared_8(x, stage + at_a(row, kk / 4) + kk % 4 * 4);
                u32 packed[WORDS][2];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 2; ++r) a_fragments[buffer][word][i][half + 2 * r] = packed[word][r];
            }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i)
            {
                const int row = warp_n + i * 8 + run_row;
                float x[2];
#pragma unroll
                for (int e = 0; e < 2; ++e) x[e] = load_shared_4(stage + A_BYTES + at_b(kk + e, row / 4) + row % 4 * 4);
                u32 packed[WORDS][2];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 2; ++r) b_fragments[buffer][word][i][r] = packed[word][r];
            }
    };

    // Counts what words cannot hold of the stage at `stage`.
    const auto count_stage = [&](u32 stage) {
#pragma unroll 1
        for (int at = (int)threadIdx.x * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
            float four[4];
            load_shared_16(four, stage + at);
            u32 packed[WORDS][4];
            split_run(packed, four);
            count(a_status, losses(packed, four));
        }
#pragma unroll 1
        for (int at = (int)threadIdx.x * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
            float four[4];
            load_shared_16(four, stage + A_BYTES + at);
            u32 packed[WORDS][4];
            split_run(packed, four);
            count(b_status, losses(packed, four));
        }
    };

    // One step of k: 3 word products for each fragment of C.
    const auto multiply = [&](int buffer) {
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

    // Prologue: all stages but one are on their way.
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < stage_count) fill(stages + stage * STAGE_BYTES);
        cp_async_commit();
    }
    int slot = 0;                // where stage `index` of k lies
    int free_slot = STAGES - 1;  // the stage that was multiplied last
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages + slot * STAGE_BYTES;
        const int next_slot = slot + 1 == STAGES ? 0 : slot + 1;
        cp_async_wait<STAGES - 2>();  // this thread's part of stage `index` is there,
        __syncthreads();  // everyone's is, and no one reads `free_slot` any more
        if (index + STAGES - 1 < stage_count) fill(stages + free_slot * STAGE_BYTES);
        cp_async_commit();  // an empty commit group keeps their count in step
        count_stage(stage);
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0);
        }
        free_slot = slot;
        slot = next_slot;
        promote();
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
                float product = sum_main[i][j][r];
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

}  // namespace gemmgen_fabc38a8
