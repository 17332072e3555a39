// kernel    gemmgen_mixpert_triangle_wgmma_64x128x64_58392bec
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    mixpert_triangle: three integer words, six products in three sums
// words     3 x s8, 21 bits; products A2 B0 + A1 B1 + A0 B2 + A1 B0 + A0 B1 + A0 B0; dropped A1 B2, A2 B1, A2 B2
// promote   never (mixpert_triangle's own)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8
// decided   block 64x128x64, warpgroup 64x128x64, split prepass, loads bulk, 6 stages, group 8, 1 slice of k, promote 0, clusters of 2, pingpong
// block     384 threads, 221280 B of dynamic shared memory
// target    sm_90a
// plan      58392bec, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_58392bec {

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
constexpr float TOP = 127.0f + 127.5f * 0x1p-7f;
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

GG_DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
GG_DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

// What block `block` of the cluster has at this place of its shared memory.
GG_DEVICE u32 load_of_block(const u32* place, int block) {
    u32 x;
    asm volatile(
        "{\n"
        ".reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %1, %2;\n"
        "ld.shared::cluster.u32 %0, [there];\n"
        "}\n" : "=r"(x) : "r"(shared_address(place)), "r"(block) : "memory");
    return x;
}

// A block takes 2 rows of operand a: 128 threads walk along the k of each, four at a time, and keep the last 8192 that they read.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,        // packed stages, edges zero: [m / 64][k / 64][word: 3][m: 64][k: 64], rows swizzled
    u32* __restrict__ absmax,      // largest magnitudes, [m]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int row = (int)threadIdx.x / 128, mine = (int)threadIdx.x % 128 * 4;
    const int o = block * 2 + row;
    const int stages_k = (k + 63) / 64, end = stages_k * 64;
    const bool inside = o < outer, pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && k % 4 == 0;  // of 16 bytes
    const float* from = x + (inside ? (long long)o * ld + mine : 0);
    float value[16][4];
    const auto read = [&](int k0) {
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (inside && k0 + i * 512 + mine < k) four = *(const float4*)(from + k0 + i * 512);
                value[i][0] = four.x, value[i][1] = four.y, value[i][2] = four.z, value[i][3] = four.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 16; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) value[i][e] = inside && k0 + i * 512 + mine + e < k ? from[k0 + i * 512 + e] : 0.0f;
        }
    };

    u32 largest = 0;
    int exponent = 0, k0 = 0;
    u32 own = 0;       // the largest of this thread's
    float top = 0.0f;  // what is smaller saturates no word but the first
    __shared__ u32 most[8];  // of each warp
    const int place = o % 64, chunk = mine % 64 / 16;  // of 16 bytes
    const bool packs = o < (outer + 63) / 64 * 64;
    u8* to = words + ((long long)(o / 64) * stages_k + mine / 64) * 12288
             + place * 64 + swizzle(place, chunk) * 16 + mine % 16;
    // Up along k for the maximum, and back: what was read last need not be read again.
    bool known = false;
    for (;;) {
        read(k0);
        if (!known) {
#pragma unroll
            for (int i = 0; i < 16; ++i)
#pragma unroll
                for (int e = 0; e < 4; ++e) largest = max(largest, magnitude(value[i][e]));
            if (k0 + 8192 < end) {
                k0 += 8192;
                continue;
            }
            own = largest;
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2) largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, mask));
            if ((int)threadIdx.x % 32 == 0) most[(int)threadIdx.x / 32] = largest;
            __syncthreads();
#pragma unroll
            for (int warp = 0; warp < 4; ++warp) largest = max(largest, most[row * 4 + warp]);
            if (inside && mine == 0) absmax[o] = largest;
            exponent = row_exponent(largest);
            top = scale_by(TOP, -exponent);
            known = true;
        }
#pragma unroll
        for (int i = 0; i < 16; i += 4) {
            if (k0 + i * 512 >= end) continue;  // for all threads alike
            float run[16];
#pragma unroll
            for (int e = 0; e < 16; ++e) run[e] = value[i + e / 4][e % 4];

            u32 packed[WORDS][4];
            if (__uint_as_float(own) < top)
                split_run<false>(packed, run, exponent);
            else
                split_run<true>(packed, run, exponent);
#pragma unroll
            for (int part = 0; part < 4; ++part) {
                const int kk = k0 + (i + part) * 512;
                if (packs && kk + mine < end)
#pragma unroll
                    for (int w = 0; w < WORDS; ++w)
                        *(u32*)(to + (long long)(kk / 64) * 12288 + w * 4096) =
                            packed[w][part];
            }
            count(counters, losses(packed, run, exponent));
        }
        if (k0 == 0) break;
        k0 -= 8192;
    }
}

// A cluster of 8 blocks takes 32 columns of operand b, of which it keeps the last 4096 k that it read: a thread 16 k of four neighbours.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,        // packed stages, edges zero: [n / 128][k / 64][word: 3][n: 128][k: 64], rows swizzled
    u32* __restrict__ absmax,      // largest magnitudes, [n]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int rank = block % 8, lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int mine = (warp * 8 + rank) * 64 + lane / 8 * 16;
    const int first = block / 8 * 32 + lane % 8 * 4;
    const int stages_k = (k + 63) / 64, end = stages_k * 64;
    const bool pieces = ((u64)x & 15) == 0 && ld % 4 == 0 && first + 4 <= outer;  // of 16 bytes
    const float* from = x + (long long)mine * ld + first;
    float values[4][16];
    const auto read = [&](int k0) {
        const float* at = from + (long long)k0 * ld;
        const int left = k - k0 - mine;
        if (pieces) {
#pragma unroll
            for (int i = 0; i < 16; ++i, at += ld) {
                float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                if (i < left) four = *(const float4*)at;
                values[0][i] = four.x, values[1][i] = four.y, values[2][i] = four.z, values[3][i] = four.w;
            }
        } else {
#pragma unroll
            for (int i = 0; i < 16; ++i, at += ld)
#pragma unroll
                for (int one = 0; one < 4; ++one) values[one][i] = i < left && first + one < outer ? at[one] : 0.0f;
        }
    };

    u32 largest[4] = {};
    u32 own[4] = {};  // the largest of this thread's
    int k0 = 0;
    __shared__ u32 most[8 * 32];
    __shared__ u32 ours[32];
    __shared__ u32 all[32];
    // Up along k for the maxima, and back: what was read last need not be read again.
    bool known = false;
    for (;;) {
        read(k0);
        if (!known) {
#pragma unroll
            for (int one = 0; one < 4; ++one)
#pragma unroll
                for (int i = 0; i < 16; ++i) largest[one] = max(largest[one], magnitude(values[one][i]));
            if (k0 + 4096 < end) {
                k0 += 4096;
                continue;
            }
#pragma unroll
            for (int one = 0; one < 4; ++one) own[one] = largest[one];
            // Over a warp, the block, the cluster.
#pragma unroll
            for (int one = 0; one < 4; ++one) {
#pragma unroll
                for (int mask = 8; mask < 32; mask *= 2) largest[one] = max(largest[one], __shfl_xor_sync(0xffffffffu, largest[one], mask));
                if (lane < 8) most[warp * 32 + lane * 4 + one] = largest[one];
            }
            __syncthreads();
            const int column = (int)threadIdx.x;
            if (column < 32) {
                u32 found = 0;
                for (int i = 0; i < 8; ++i) found = max(found, most[i * 32 + column]);
                ours[column] = found;
            }
            cluster_arrive();
            cluster_wait();
            if (column < 32) {
                u32 found = 0;
                for (int i = 0; i < 8; ++i) found = max(found, load_of_block(ours + column, i));
                all[column] = found;
                const int o = block / 8 * 32 + column;
                if (rank == 0 && o < outer) absmax[o] = found;
            }
            __syncthreads();
            cluster_arrive();  // nobody is read any more
            known = true;
        }
#pragma unroll
        for (int at = 0; at < 64; at += 16) {
            if (k0 + mine / 64 * 64 >= end) continue;  // for a warp alike
            const int o = first + at / 16, kk = k0 + mine + at % 16;
            const int exponent = row_exponent(all[lane % 8 * 4 + at / 16]);
            const float top = scale_by(TOP, -exponent);  // what is smaller saturates no word but the first
            float value[16];  // what makes 16 bytes of a word
#pragma unroll
            for (int i = 0; i < 16; ++i) value[i] = values[at / 16][at % 16 + i];

            u32 packed[WORDS][4];
            if (__uint_as_float(own[at / 16]) < top)
                split_run<false>(packed, value, exponent);
            else
                split_run<true>(packed, value, exponent);
            const int stages_k = (k + 63) / 64, panels = (outer + 127) / 128;
            if (o < panels * 128 && kk < stages_k * 64) {
                const int row = o % 128, chunk = kk % 64 / 16;  // of 16 bytes
                u8* to = words + ((long long)(o / 128) * stages_k + kk / 64) * 24576 + row * 64;
#pragma unroll
                for (int w = 0; w < WORDS; ++w)
                    *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) =
                        make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
            }
            count(counters, losses(packed, value, exponent));
        }
        if (k0 == 0) break;
        k0 -= 4096;
    }
    cluster_wait();  // before this block's shared memory goes
}

extern "C" __global__ void __cluster_dims__(8, 1, 1) __launch_bounds__(256, 2)
gemmgen_mixpert_triangle_wgmma_64x128x64_58392bec_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    u32* __restrict__ a_absmax, u32* __restrict__ b_absmax,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    const int blocks_a = (((m + 63) / 64 * 64 + 15) / 16) * 8;
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_absmax, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_absmax, b_status);
}

// An element from its sums, from the smallest contribution to the largest: each is rounded to FP32 once.
GG_DEVICE float summed(int sum14, int sum7, int sum0) {
    float so_far = (float)sum14;
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

//                n0        BLOCK_N = 128
//            +---------+---------+      A tile C[m0 : m0 + 64, n0 : n0 + 128] is computed by a warpgroup
//        m0  | wgroup  | wgroup  |      of 64 x 128. Each thread keeps its part of C in registers for the whole
//   BLOCK_M  |         |         |      loop over k, in 3 sets of 64 ints. The two warpgroups take turns: while
//    = 64    +---------+---------+      one stores its tile, the other multiplies the next.
//              WARP_N                   Shared memory holds 6 stages of k, 64 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 64, BLOCK_N = 128, BLOCK_K = 64;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 6;
constexpr int GROUP_ROWS = 8;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n128k32 in a warpgroup
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
gemmgen_mixpert_triangle_wgmma_64x128x64_58392bec(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const u32* __restrict__ a_absmax, const u32* __restrict__ b_absmax,
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
        asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel has written the maxima; a sum over no k waits for no words
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
            int acc_sum0[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit
            int acc_sum7[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit; 2^7 too large
            int acc_sum14[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit; 2^14 too large
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
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum7[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum7[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (A_BYTES * 2 + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_sum14[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES * 2 + j * 128 * ROW_BYTES + step * 32) / 16, 1);
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
                        for (int at = 0; at < 16; ++at) {
                            const int r = at / 2 * 8 + at % 2 * 2;
                            const int down = i * 64 + ((r >> 1) & 1) * 8;
                            const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                            int row = row0 + down;
                            const int column = column0 + right;
                            const bool inside = row < m && (odd ? column + 6 : column) < n;
                            row = min(row, m - 1);  // what is looked up for lanes that store nothing is that of the last row and column
                            float product[4] = {summed(acc_sum14[i][j][r], acc_sum7[i][j][r], acc_sum0[i][j][r]),
                                                summed(acc_sum14[i][j][r + 1], acc_sum7[i][j][r + 1], acc_sum0[i][j][r + 1]),
                                                summed(acc_sum14[i][j][r + 4], acc_sum7[i][j][r + 4], acc_sum0[i][j][r + 4]),
                                                summed(acc_sum14[i][j][r + 5], acc_sum7[i][j][r + 5], acc_sum0[i][j][r + 5])};
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
                    for (int r = 0; r < 64; r += 2) {
                        const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                        const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                        if (row >= m || column >= n) continue;
                        float product[2] = {summed(acc_sum14[i][j][r], acc_sum7[i][j][r], acc_sum0[i][j][r]),
                                            summed(acc_sum14[i][j][r + 1], acc_sum7[i][j][r + 1], acc_sum0[i][j][r + 1])};
                        product[0] = scale_by(product[0], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[column]));
                        if (column + 1 < n) product[1] = scale_by(product[1], -row_exponent(a_absmax[row]) - row_exponent(b_absmax[column + 1]));
#pragma unroll
                        for (int e = 0; e < 2; ++e) {
                            if (column + e >= n) continue;
                            if (!(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                                const int element = (i * FRAGMENTS_N + j) * 64 + r + e;
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
                    const int r = element % 64;
                    const int j = element / 64 % FRAGMENTS_N, i = element / (64 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
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

}  // namespace gemmgen_58392bec
