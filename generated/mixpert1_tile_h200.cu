// kernel    gemmgen_mixpert1_tile_wgmma_128x64x128_c3ca9f41
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    mixpert1_tile: level I: two integer words of A and B, four products; an exponent for every 32 k
// words     2 x s8, 14 bits; products A1 B1 + A1 B0 + A0 B1 + A0 B0; dropped none
// promote   never (mixpert1_tile's own)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8
// decided   block 128x64x128, warpgroup 64x64x128, split prepass, loads bulk, 4 stages, group 4, 1 slice of k, promote 0, clusters of 2, cooperative
// block     384 threads, 208960 B of dynamic shared memory
// target    sm_90a
// plan      c3ca9f41, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_c3ca9f41 {

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

constexpr int WORDS = 2;
// 2^e for -126 <= e <= 127.
GG_DEVICE float power_of_two(int e) { return __uint_as_float((u32)(e + 127) << 23); }

// What a tile that holds an Inf or a NaN has for an exponent: no word stands for those, so it is set aside.
constexpr int ASIDE = 1 << 16;

// x 2^e with one rounding: the factor that could round comes last. NaN where a tile is set aside: what it takes part
// in is not known from words.
GG_DEVICE float scale_by(float x, int e) {
    if (e <= -ASIDE / 2) return __uint_as_float(0x7fffffffu);
    e = max(-252, min(254, e));
    const int last = max(-126, min(127, e));
    return x * power_of_two(e - last) * power_of_two(last);
}

// Exponent that brings the largest element of 32 k of a row or column into [2^6, 2^7); at most 149, where words are
// multiples of FP32's smallest number.
GG_DEVICE int tile_exponent(u32 absmax) {
    if (absmax == 0) return 0;
    if (absmax >= 0x7f800000u) return ASIDE;
    const int biased = (int)(absmax >> 23);
    // A subnormal's exponent is where its leading bit stands.
    const int exponent = biased > 0 ? biased - 127 : -118 - __clz((int)absmax);
    return min(149, 6 - exponent);
}

// What the sums of such a tile are multiplied by: 2^-e, a NaN where it is set aside.
GG_DEVICE float tile_scale(int e) {
    if (e == ASIDE) return __uint_as_float(0x7fffffffu);
    return e <= 126 ? power_of_two(-e) : __uint_as_float(1u << (149 - e));
}

// 2^s of a word: what its last place is of the scaled element's 1, and the reverse.
GG_DEVICE float places(int word) { return word == 0 ? 0x1p+0f : 0x1p+7f; }
GG_DEVICE float place_of(int word) { return word == 0 ? 0x1p+0f : 0x1p-7f; }

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

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 128][word: 2][m: 128][k: 128], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    float* __restrict__ scales,    // [m / 128][k / 32][m: 128]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = (((k + 127) / 128 * 128 + 63) / 64);
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

    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) largest = max(largest, magnitude(value[i]));
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    const int exponent = tile_exponent(largest);
    u32 packed[WORDS][4];
    split_run(packed, value, exponent);

    const int kk = k0 + my_k;
    const int stages_k = (k + 127) / 128, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 128) {
        const int row = o % 128, chunk = kk % 128 / 16;  // of 16 bytes
        const long long stage = (long long)(o / 128) * stages_k + kk / 128;
        if (kk % 32 == 0)
            scales[stage * 512 + kk % 128 / 32 * 128 + row] = tile_scale(exponent);
        u8* to = words + stage * 32768 + row * 128;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses<WORDS>(value, exponent));
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 64][k / 128][word: 2][n: 64][k: 128], rows swizzled, edges zero.
// A thread takes 16 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    float* __restrict__ scales,    // [n / 64][k / 32][n: 64]
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = (((k + 127) / 128 * 128 + 63) / 64);
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

    u32 largest = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) largest = max(largest, magnitude(value[i]));
    largest = max(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    const int exponent = tile_exponent(largest);
    u32 packed[WORDS][4];
    split_run(packed, value, exponent);

    const int kk = k0 + my_k;
    const int stages_k = (k + 127) / 128, panels = (outer + 63) / 64;
    if (o < panels * 64 && kk < stages_k * 128) {
        const int row = o % 64, chunk = kk % 128 / 16;  // of 16 bytes
        const long long stage = (long long)(o / 64) * stages_k + kk / 128;
        if (kk % 32 == 0)
            scales[stage * 256 + kk % 128 / 32 * 64 + row] = tile_scale(exponent);
        u8* to = words + stage * 16384 + row * 128;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses<WORDS>(value, exponent));
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_mixpert1_tile_wgmma_128x64x128_c3ca9f41_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    float* __restrict__ a_scales, float* __restrict__ b_scales,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    const int blocks_a = (((m + 127) / 128 * 128 + 63) / 64) * (((k + 127) / 128 * 128 + 63) / 64);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_scales, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_scales, b_status);
}

// Sums of a tile of k begin at these bits, which are the number 12582912: the bits of a sum s, |s| < 2^22, are then that number + s.
constexpr int OFFSET = 0x4b400000;

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 64
//            +---------+---------+      A tile C[m0 : m0 + 128, n0 : n0 + 64] is computed by 2 x 1 warpgroups
//        m0  | wgroup  | wgroup  |      of 64 x 64. Each thread keeps its part of C in registers for the whole
//   BLOCK_M  |         |         |      loop over k, in 5 sets of 32 ints.
//    = 128   +---------+---------+
//              WARP_N                   Shared memory holds 4 stages of k, 128 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 128, BLOCK_N = 64, BLOCK_K = 128;
constexpr int WARP_M = 64;  // of a warpgroup
constexpr int WARPS_N = 1;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 4;
constexpr int GROUP_ROWS = 4;  // rows of tiles that are worked off together: a raster group
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n64k32 in a warpgroup
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int A_STAGE = WORDS * A_BYTES, B_STAGE = WORDS * B_BYTES;
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int A_SCALES = 512, B_SCALES = 256;  // of the tiles of 32 k of a stage
constexpr int SCALE_BYTES = (A_SCALES + B_SCALES) * 4;  // they lie behind all stages
constexpr int RELEASES = 264;  // arrivals that free a stage: one a lane that reads it, in every block that fills it

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
GG_DEVICE void mbarrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
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

// c[64, 64] (+)= a[64, 32] b[32, 64] on the matrix unit, exactly; from zero where keep is 0.
GG_DEVICE void multiply_add(int (&c)[32], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, p;\n"
        "}\n"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3]), "+r"(c[4]), "+r"(c[5]), "+r"(c[6]), "+r"(c[7]),
          "+r"(c[8]), "+r"(c[9]), "+r"(c[10]), "+r"(c[11]), "+r"(c[12]), "+r"(c[13]), "+r"(c[14]), "+r"(c[15]),
          "+r"(c[16]), "+r"(c[17]), "+r"(c[18]), "+r"(c[19]), "+r"(c[20]), "+r"(c[21]), "+r"(c[22]), "+r"(c[23]),
          "+r"(c[24]), "+r"(c[25]), "+r"(c[26]), "+r"(c[27]), "+r"(c[28]), "+r"(c[29]), "+r"(c[30]), "+r"(c[31])
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
gemmgen_mixpert1_tile_wgmma_128x64x128_c3ca9f41(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    const float* __restrict__ a_scales, const float* __restrict__ b_scales,  // of tiles [outer / BLOCK][k / 32][BLOCK]
    const float* __restrict__ a, long long lda,  // the operands themselves, for elements the
    const float* __restrict__ b, long long ldb,  // words cannot carry
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * (STAGE_BYTES + SCALE_BYTES), free = full + STAGES * 8;  // barriers, one a stage each
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
                const float* a_scales_from = a_scales + ((long long)work.panel_m * stages_k + work.first) * A_SCALES;
                const float* b_scales_from = b_scales + ((long long)work.panel_n * stages_k + work.first) * B_SCALES;
                const u8* a_from = a_words + ((long long)work.panel_m * stages_k + work.first) * A_STAGE;
                const u8* b_from = b_words + ((long long)work.panel_n * stages_k + work.first) * B_STAGE + rank * (B_STAGE / CLUSTER);
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    const u32 stage = stages + slot * STAGE_BYTES, arrival = full + slot * 8;
                    mbarrier_wait(free + slot * 8, phase);
                    mbarrier_expect_tx(arrival, STAGE_BYTES + SCALE_BYTES);
                    const u32 scales = stages + STAGES * STAGE_BYTES + slot * SCALE_BYTES;
                    cp_async_bulk(scales, a_scales_from, A_SCALES * 4, arrival);
                    cp_async_bulk(scales + A_SCALES * 4, b_scales_from, B_SCALES * 4, arrival);
                    a_scales_from += A_SCALES;
                    b_scales_from += B_SCALES;
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
        const int warp_m = warpgroup / WARPS_N * WARP_M, warp_n = 0;
        int slot = 0;
        u32 phase = 0;
        // Every lane that has read a stage says so, to every block that fills it.
        const auto release = [&](int which) {
            mbarrier_arrive(free + which * 8);
            if (thread % 32 < CLUSTER && thread % 32 != rank) mbarrier_arrive_at(free + which * 8, thread % 32);
        };
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(turn, m, n, stages_k, rank);
            const int m0 = work.m0, n0 = work.n0;
            float sum[FRAGMENTS_M][FRAGMENTS_N][32] = {}, number[FRAGMENTS_M][FRAGMENTS_N][32];  // in FP32 registers
            int acc_sum0[FRAGMENTS_M][FRAGMENTS_N][32] = {};  // in the matrix unit
            int acc_sum7[FRAGMENTS_M][FRAGMENTS_N][32] = {};  // in the matrix unit; 2^7 too large
            int acc_sum14[FRAGMENTS_M][FRAGMENTS_N][32] = {};  // in the matrix unit; 2^14 too large
            const int scaled_row = warp_m + ((lane >> 2) & 7) + (lane >> 5) * 16, scaled_column = warp_n + (lane & 3) * 2;
            // Issue a sum's products of tile `tile` of the stage at `stage`; they run on while this thread goes on.
            const auto issue_sum0 = [&](u32 stage, int tile) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                const int first = tile, last = first + 1;
                const u32 keep = 0;
                wgmma_fence();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_sum0[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 64 * ROW_BYTES + step * 32) / 16, step == first ? keep : 1);
                        }
                }
                wgmma_commit();
            };
            const auto issue_sum7 = [&](u32 stage, int tile) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                const int first = tile, last = first + 1;
                const u32 keep = 0;
                wgmma_fence();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_sum7[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 64 * ROW_BYTES + step * 32) / 16, step == first ? keep : 1);
                            multiply_add(acc_sum7[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 64 * ROW_BYTES + step * 32) / 16, 1);
                        }
                }
                wgmma_commit();
            };
            const auto issue_sum14 = [&](u32 stage, int tile) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                const int first = tile, last = first + 1;
                const u32 keep = 0;
                wgmma_fence();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_sum14[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 64 * ROW_BYTES + step * 32) / 16, step == first ? keep : 1);
                        }
                }
                wgmma_commit();
            };
            // Adds a tile's numbers up, with its scales.
            const auto add = [&](int tile) {
                const float* const scales = (const float*)(shared + STAGES * STAGE_BYTES + slot * SCALE_BYTES);
                const float* const of_a = scales + tile * BLOCK_M + scaled_row;
                const float* const of_b = scales + A_SCALES + tile * BLOCK_N + scaled_column;
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int r = 0; r < 32; ++r)
                            sum[i][j][r] = fmaf(number[i][j][r], of_a[i * 64 + ((r >> 1) & 1) * 8] * of_b[j * 64 + (r & 1) + (r >> 2) * 8], sum[i][j][r]);
            };
#pragma unroll 1
            for (int index = 0; index < work.count; ++index) {
                const u32 stage = stages + slot * STAGE_BYTES;
                mbarrier_wait(full + slot * 8, phase);
                issue_sum0(stage, 0);
                issue_sum7(stage, 0);
                issue_sum14(stage, 0);
#pragma unroll
                for (int tile = 0; tile < 4; ++tile) {
                    tile < 3 ? wgmma_wait<2>() : wgmma_wait<2>();  // its products are done
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                            for (int r = 0; r < 32; ++r)
                                number[i][j][r] = __uint_as_float((u32)(acc_sum0[i][j][r] + OFFSET)) - 12681984.0f;
                    if (tile < 3) issue_sum0(stage, tile + 1);
                    tile < 3 ? wgmma_wait<2>() : wgmma_wait<1>();  // its products are done
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                            for (int r = 0; r < 32; ++r)
                                number[i][j][r] = fmaf(__uint_as_float((u32)(acc_sum7[i][j][r] + OFFSET)), 0x1p-7f, number[i][j][r]);
                    if (tile < 3) issue_sum7(stage, tile + 1);
                    tile < 3 ? wgmma_wait<2>() : wgmma_wait<0>();  // its products are done
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                            for (int r = 0; r < 32; ++r)
                                number[i][j][r] = fmaf(__uint_as_float((u32)(acc_sum14[i][j][r] + OFFSET)), 0x1p-14f, number[i][j][r]);
                    if (tile < 3) issue_sum14(stage, tile + 1);
                    add(tile);
                }
                release(slot);
                if (++slot == STAGES) slot = 0, phase ^= 1;
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
                        float4 was[2][4];
                        const auto read = [&](int begin) {
#pragma unroll
                            for (int q = 0; q < 4; ++q) {
                                const int p = begin + q;
                                if (p >= 8) continue;
                                const int i = p / (FRAGMENTS_N * 8), j = p / 8 % FRAGMENTS_N, at = p % 8;
                                const int r = at / 2 * 8 + at % 2 * 2;
                                const int down = i * 64 + ((r >> 1) & 1) * 8;
                                const int right = j * 64 + (r & 1) + (r >> 2) * 8;
                                was[p / 4 % 2][q] = *(const float4*)(corner + down * ldc + right);
                            }
                        };
                        read(0);
                        // What is computed again is added to C as it was: all products are looked at before any is stored.
#pragma unroll
                        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                                for (int at = 0; at < 8; ++at) {
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
                            for (int begin = 0; begin < 8; begin += 4) {
                                read(begin + 4);
#pragma unroll
                                for (int q = 0; q < 4; ++q) {
                                    const int p = begin + q;
                                    if (p >= 8) continue;
                                    const int i = p / (FRAGMENTS_N * 8), j = p / 8 % FRAGMENTS_N, at = p % 8;
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 64 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {sum[i][j][r],
                                                        sum[i][j][r + 1],
                                                        sum[i][j][r + 4],
                                                        sum[i][j][r + 5]};
                                    const float first = __shfl_xor_sync(0xffffffffu, odd ? product[0] : product[2], 1);
                                    const float second = __shfl_xor_sync(0xffffffffu, odd ? product[1] : product[3], 1);
                                    const float4 quad = odd ? make_float4(first, second, product[2], product[3])
                                                            : make_float4(product[0], product[1], first, second);
                                    const float4 old = was[p / 4 % 2][q];
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
                                for (int at = 0; at < 8; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 64 + (r & 1) + (r >> 2) * 8;
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
                                for (int at = 0; at < 8; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 64 + (r & 1) + (r >> 2) * 8;
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
            u32 bad = 0;  // a bit an element: not finite
            // A load of C does not overtake a store to it, as the compiler does not know that they are of other elements. So that not every
            // element waits for its own, a run of pairs is on its way while the run before it is stored.
            float2 was[2][8];
#pragma unroll
            for (int first = -8; first < 16; first += 8) {
#pragma unroll
                for (int q = 0; q < 8; ++q) {
                    const int p = first + 8 + q;
                    if (p >= 16) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 32), j = 2 * p / 32 % FRAGMENTS_N, r = 2 * p % 32;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 64 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    float2& old = was[p / 8 % 2][q];
                    old = make_float2(-0.0f, -0.0f);
                    if (read_c && together && inside) {
                        old = *(const float2*)to;
                    } else if (read_c) {
                        if (row < m && column < n) old.x = to[0];
                        if (inside) old.y = to[1];
                    }
                }
#pragma unroll
                for (int q = 0; q < 8; ++q) {
                    const int p = first + q;
                    if (p < 0 || p >= 16) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 32), j = 2 * p / 32 % FRAGMENTS_N, r = 2 * p % 32;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 64 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    const float2 old = was[p / 8 % 2][q];
                    if (row >= m || column >= n) continue;
                    float product[2] = {sum[i][j][r],
                                        sum[i][j][r + 1]};
                    bool store[2] = {true, inside};
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (store[e] && !(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                            const int element = (i * FRAGMENTS_N + j) * 32 + r + e;
                            bad |= 1u << element;
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
            while (bad) {
                const int element = __ffs((int)bad) - 1;
                bad &= bad - 1;
                const int r = element % 32;
                const int j = element / 32 % FRAGMENTS_N, i = element / (32 * FRAGMENTS_N);
                const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                const long long column = column0 + j * 64 + (r & 1) + (r >> 2) * 8;
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

}  // namespace gemmgen_c3ca9f41
