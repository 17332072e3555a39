// kernel    gemmgen_ootomo_tcgen05_128x256x64_0ccbf927
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 64 k (ootomo's own: every 16 k)
// special   exact
// fragment  tcgen05.mma.cta_group::2.kind::f16
// decided   block 128x256x64, warpgroup 128x128x64, split prepass, loads bulk, 3 stages, group 16, 1 slice of k, promote 64, clusters of 2
// block     384 threads, 196696 B of dynamic shared memory
// checked   compiled, every instruction executed by an interpreter; hardware unconfirmed: never run, and the rule of tcgen05's sums is assumed
// target    sm_100a
// plan      0ccbf927, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_0ccbf927 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

GG_DEVICE float widen_low(u32 bits) {
    u16 halves[2];
    float x;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves[0]), "=h"(halves[1]) : "r"(bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(halves[0]));
    return x;
}

GG_DEVICE float widen_high(u32 bits) {
    u16 halves[2];
    float x;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(halves[0]), "=h"(halves[1]) : "r"(bits));
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(halves[1]));
    return x;
}

GG_DEVICE u32 round_nearest_even(float low, float high) {
    u32 bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 1 row takes the 32 banks, so from row to row
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row & 7); }

constexpr int WORDS = 2;

// Splits N elements into words, 2 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        float low = x[i], high = x[i + 1];  // what is not in the words yet
        // word 0: to nearest, ties to even
        const u32 word_0 = packed[0][i / 2] = round_nearest_even(low, high);
        low -= widen_low(word_0), high -= widen_high(word_0);
        // word 1: to nearest, ties to even, of the residual times 2^11
        packed[1][i / 2] = round_nearest_even(low * 0x1p+11f, high * 0x1p+11f);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-14, 2^15): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-14f) && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= (i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2]));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= (i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2])) * 0x1p-11f;
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

// One product: C = alpha A B + beta C.
struct Product {
    const float *a, *b;
    float* c;
    int lda, ldb, ldc;  // elements from one stored row to the next
    int m, n, k;
    float alpha, beta;
};

// The same as the caller's array has it.
struct alignas(16) Problem {
    const float *a, *b;
    float* c;
    int lda, ldb, ldc;
    int m, n, k;
    float alpha, beta;
    int reserved[2];
};
static_assert(sizeof(Problem) == 64, "as gemmgen.batch.PROBLEM tells it");

struct Products {
    const Problem* problems;
    int batch;
};

GG_DEVICE Product product_at(const Products& from, int entry) {
    const Problem one = from.problems[entry];
    return {one.a, one.b, one.c, one.lda, one.ldb, one.ldc, one.m, one.n, one.k, one.alpha, one.beta};
}

// Where the host has placed a product: its number, its first block of the split pass and first turn of the main kernel, and the stages
// of packed words before its own.
struct alignas(16) Placed {
    int entry, block, turn, a_stage, b_stage;
    int reserved[3];
};
static_assert(sizeof(Placed) == 32, "as gemmgen.batch.PLACED tells it");

// One turn of the main kernel: a tile of C, or a cluster's tiles below one another.
struct alignas(16) Work {
    int entry;             // product of the batch
    int m0, n0;            // of the first tile
    int count;             // stages of k
    int a_stage, b_stage;  // the first of its packed words
    int below;             // further tiles of the cluster that C has
    int reserved;
};
static_assert(sizeof(Work) == 32, "as the workspace has room for it");

// The last product that begins no later than `block`. All lanes of a warp ask together: each looks at one product of as many.
GG_DEVICE int placed_at(const Placed* list, int listed, int block) {
    const int lane = (int)threadIdx.x % 32;
    int low = 0, among = listed;
    while (among > 1) {
        const int apart = (among + 31) / 32, at = lane * apart;
        const int last = __popc((u32)((u64)__ballot_sync(0xffffffffu, at < among && list[low + at].block <= block))) - 1;
        low += last * apart;
        among = min(apart, among - last * apart);
    }
    return low;
}

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 128][k / 64][word: 2][m: 128][k: 64], rows swizzled, edges zero.
// A thread takes 8 consecutive k of 4 rows, all of which it reads before it splits the first.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    // Neighbouring blocks read what lies side by side.
    const int blocks_k = ((k + 63) / 64);
    const int k0 = block % blocks_k * 64, outer0 = block / blocks_k * 128;
    float values[4][8];
    const int kk = k0 + (int)threadIdx.x % 8 * 8, first = outer0 + (int)threadIdx.x / 8;
    const float* from = x + (long long)first * ld + kk;
    if (outer0 + 128 <= outer && kk + 8 <= k && ((u64)x & 15) == 0 && ld % 4 == 0) {
#pragma unroll
        for (int one = 0; one < 4; ++one, from += 32 * ld)
#pragma unroll
            for (int i = 0; i < 8; i += 4) {
                const float4 four = *(const float4*)(from + i);
                values[one][i] = four.x, values[one][i + 1] = four.y, values[one][i + 2] = four.z, values[one][i + 3] = four.w;
            }
    } else {
#pragma unroll
        for (int one = 0; one < 4; ++one, from += 32 * ld)
#pragma unroll
            for (int i = 0; i < 8; ++i) values[one][i] = first + one * 32 < outer && kk + i < k ? from[i] : 0.0f;
    }
#pragma unroll
    for (int one = 0; one < 4; ++one) {
        const int o = first + one * 32;
        float (&value)[8] = values[one];
        u32 packed[WORDS][4];
        split_run(packed, value);
        const int stages_k = (k + 63) / 64, panels = (outer + 127) / 128;
        if (o < panels * 128 && kk < stages_k * 64) {
            const int row = o % 128, chunk = kk % 64 * 2 / 16;  // of 16 bytes
            u8* to = words + ((long long)(o / 128) * stages_k + kk / 64) * 32768 + row * 128;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) =
                    make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
        }
        count(counters, losses(packed, value));
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 256][k / 64][word: 2][n: 256][k: 64], rows swizzled, edges zero.
// A thread takes 8 consecutive k of 4 neighbouring columns, which lie together.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    // Neighbouring blocks read what lies side by side.
    const int blocks_outer = (((outer + 255) / 256 * 256 + 127) / 128);
    const int k0 = block / blocks_outer * 64, outer0 = block % blocks_outer * 128;
    float values[4][8];
    // Eight neighbouring threads read 128 bytes of a row; four such write 64 bytes of a word's row.
    const int place = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int kk = k0 + (place % 2 * 4 + lane / 8) * 8;
    const int first = outer0 + (place / 2 * 8 + lane % 8) * 4;
    const float* from = x + (long long)kk * ld + first;
    if (first + 4 <= outer && kk + 8 <= k && ((u64)x & 15) == 0 && ld % 4 == 0) {
#pragma unroll
        for (int i = 0; i < 8; ++i, from += ld) {
            const float4 four = *(const float4*)from;
            values[0][i] = four.x, values[1][i] = four.y, values[2][i] = four.z, values[3][i] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i, from += ld)
#pragma unroll
            for (int one = 0; one < 4; ++one) values[one][i] = kk + i < k && first + one < outer ? from[one] : 0.0f;
    }
#pragma unroll
    for (int one = 0; one < 4; ++one) {
        const int o = first + one;
        float (&value)[8] = values[one];
        u32 packed[WORDS][4];
        split_run(packed, value);
        const int stages_k = (k + 63) / 64, panels = (outer + 255) / 256;
        if (o < panels * 256 && kk < stages_k * 64) {
            const int row = o % 256, chunk = kk % 64 * 2 / 16;  // of 16 bytes
            u8* to = words + ((long long)(o / 256) * stages_k + kk / 64) * 65536 + row * 128;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                *(uint4*)(to + w * 32768 + swizzle(row, chunk) * 16) =
                    make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
        }
        count(counters, losses(packed, value));
    }
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_ootomo_tcgen05_128x256x64_0ccbf927_split(
    const Problem* __restrict__ problems, int batch,
    const Placed* __restrict__ list, int listed,
    Work* works,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");  // it waits for the words before it reads any
    const Products products = {problems, batch};

    const Placed place = list[placed_at(list, listed, (int)blockIdx.x)];
    const Product product = product_at(products, place.entry);
    const int block = (int)blockIdx.x - place.block;  // of the product's
    const int stages_k = (product.k + 63) / 64;
    const int blocks_k = (stages_k * 64 + 63) / 64;
    const int blocks_a = ((product.m + 127) / 128 * 128 + 127) / 128 * blocks_k;
    const int blocks_b = ((product.n + 255) / 256 * 256 + 127) / 128 * blocks_k;

    // The product's turns, divided among its blocks. Raster groups of 16 rows of tiles, down each column of tiles before the next.
    constexpr int GROUP_ROWS = 16;
    const int blocks_m = (product.m + 127) / 128, blocks_n = (product.n + 255) / 256;
    const int rows = (blocks_m + 1) / 2;
    const bool nothing = product.alpha == 0.0f;  // BLAS: with alpha = 0 the operands are not looked at
    for (int turn = block * 256 + (int)threadIdx.x; turn < rows * blocks_n; turn += max(1, blocks_a + blocks_b) * 256) {
        const int raster = turn / (GROUP_ROWS * blocks_n), in_raster = turn % (GROUP_ROWS * blocks_n);
        const int raster_rows = min(GROUP_ROWS, rows - raster * GROUP_ROWS);
        const int row = (raster * GROUP_ROWS + in_raster % raster_rows) * 2, column = in_raster / raster_rows;
        works[place.turn + turn] = {place.entry, row * 128, column * 256, nothing ? 0 : stages_k,
                                    place.a_stage + row * stages_k, place.b_stage + column * stages_k, min(2, blocks_m - row) - 1, 0};
    }
    if (nothing) return;
    if (block < blocks_a) {
        split_a(block, product.a, product.lda, product.m, product.k,
                a_words + (long long)place.a_stage * 32768, a_status);
        return;
    }
    if (block < blocks_a + blocks_b) {
        split_b(block - blocks_a, product.b, product.ldb, product.n, product.k,
                b_words + (long long)place.b_stage * 65536, b_status);
    }
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}
// The same of four neighbours in a row.
GG_DEVICE void put_four(float* to, const float (&product)[4], float alpha, float beta) {
    float4 was = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    if (beta != 0.0f) was = *(float4*)to;
    *(float4*)to = make_float4(fmaf(alpha, product[0], beta * was.x), fmaf(alpha, product[1], beta * was.y),
                               fmaf(alpha, product[2], beta * was.z), fmaf(alpha, product[3], beta * was.w));
}

//                n0        BLOCK_N = 256
//            +---------+---------+      A block computes tiles C[m0 : m0 + 128, n0 : n0 + 256] one after another.
//        m0  |         |         |      The unit's sums are in tensor memory, a row a lane; each of 2 warpgroups
//   BLOCK_M  | wgroup  | wgroup  |      moves 128 columns into registers, a thread a row. A further warpgroup has
//    = 128   |         |         |      one warp that copies and one that multiplies: one thread of each.
//            +---------+---------+
//              WARP_N                   Shared memory holds 3 stages of k, 64 deep.
// Two blocks, one below the other in C, are a pair: each has its rows of A and half of the columns of B in shared memory, and one
// instruction of the first block multiplies for both, each row into its own block's tensor memory.
constexpr int BLOCK_M = 128, BLOCK_N = 256;
constexpr int WARP_N = 128;  // columns of a warpgroup
constexpr int WARPGROUPS = 2;  // warpgroups that move sums; one more copies and multiplies
constexpr int THREADS = 384;
constexpr int STAGES = 3;
constexpr int CLUSTER = 2;  // blocks whose tiles lie below one another: each copies a part of B to all
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // an instruction is as large as a tile
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N / CLUSTER * ROW_BYTES;  // one word of a stage
constexpr int A_STAGE = WORDS * A_BYTES, B_STAGE = WORDS * B_BYTES;
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int COLUMNS = 512;  // of tensor memory, of which the sums take 512: correction from 0 (2^11 too large), main from 256
constexpr int BUFFERS = 1;  // of the sums that promotion empties
constexpr int BUFFER = 1 * BLOCK_N;  // columns of one

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
GG_DEVICE u64 descriptor(u32 address) { return 0x4000404000010000ull | (u64)((address & 0x3ffff) >> 4); }

// c[256, 256] (+)= a[256, 16] b[16, 256] on the matrix unit, which truncates as it accumulates; from zero where keep is 0.
// Addresses are those of either block of the pair, the same in both.
// 0x10400010u says FP32 += f16 x f16, and the extents.
GG_DEVICE void multiply_add(u32 c, u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %4, 0;\n"
        "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p;\n"
        "}\n" ::"r"(c), "l"(a), "l"(b), "r"(0x10400010u), "r"(keep)
        : "memory");
}

// Arrives at `barrier` of both blocks when all products that this thread has issued are done.
GG_DEVICE void tcgen05_commit(u32 barrier) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(barrier), "h"((u16)((1 << CLUSTER) - 1)) : "memory");
}

// What threads tell one another orders tensor memory only between these two: before the one tells, after the other has heard.
GG_DEVICE void tcgen05_fence_before_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
GG_DEVICE void tcgen05_fence_after_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

// A warp takes COLUMNS of tensor memory and leaves their address at `to` in shared memory; the block takes no more.
GG_DEVICE void tcgen05_alloc(u32 to) {
    asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(COLUMNS) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

// The same warp gives them back.
GG_DEVICE void tcgen05_dealloc(u32 columns) {
    asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(columns), "n"(COLUMNS) : "memory");
}

// 16 columns of this thread's row. They are there when this returns.
GG_DEVICE void tcgen05_load(float (&x)[16], u32 from) {
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x16.b32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, [%16];\n"
        "tcgen05.wait::ld.sync.aligned;\n"
        : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]), "=f"(x[4]), "=f"(x[5]), "=f"(x[6]), "=f"(x[7]),
          "=f"(x[8]), "=f"(x[9]), "=f"(x[10]), "=f"(x[11]), "=f"(x[12]), "=f"(x[13]), "=f"(x[14]), "=f"(x[15])
        : "r"(from) : "memory");
}

GG_DEVICE Work work_at(const Work* works, int turn, int rank) {
    Work work = works[turn];
    work.m0 += rank * BLOCK_M;  // the last cluster may reach below C: it stores nothing there
    work.a_stage += min(rank, work.below) * work.count;
    return work;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(THREADS, 1)
gemmgen_ootomo_tcgen05_128x256x64_0ccbf927(
    const Problem* __restrict__ problems, int batch,
    Work* works, int turns,  // tiles of C, in clusters
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * STAGE_BYTES, free = full + STAGES * 8;  // barriers, one a stage each
    constexpr int REST = STAGES * (STAGE_BYTES + 16);
    const u32 filled = stages + REST, emptied = filled + BUFFERS * 8;  // barriers of the buffers
    constexpr int OTHERS = REST + BUFFERS * 16;
    const u32 complete = stages + OTHERS, taken = complete + 8;  // of the sums that stay for a whole tile
    const int thread = (int)threadIdx.x;
    const Products products = {problems, batch};

    const int rank = cluster_rank();
    const int first_turn = (int)blockIdx.x / CLUSTER, all_blocks = (int)gridDim.x / CLUSTER;

    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, rank == 0 ? 2 : 1);  // its own bytes, and for the one that multiplies the other's
            mbarrier_init(free + i * 8, 1);
        }
        for (int i = 0; i < BUFFERS; ++i) {
            mbarrier_init(filled + i * 8, 1);
            mbarrier_init(emptied + i * 8, WARPGROUPS * 4 * CLUSTER);  // every warp that moves sums
        }
        mbarrier_init(complete, 1);
        mbarrier_init(taken, WARPGROUPS * 4 * CLUSTER);
        mbarrier_fence_init();
    }
    const bool multiplies = thread / 32 == WARPGROUPS * 4 + 1;  // the warp that does, and whose tensor memory it is
    if (multiplies) tcgen05_alloc(stages + OTHERS + 16);
    tcgen05_fence_before_sync();
    cluster_barrier();
    tcgen05_fence_after_sync();
    const u32 sums = *(volatile u32*)(shared + OTHERS + 16);

    if (thread >= WARPGROUPS * 128) {
        // One thread copies and one multiplies: they need few registers.
        setmaxnreg_dec<80>();
        if (thread == WARPGROUPS * 128) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the words
            int slot = 0;
            u32 phase = 1;  // a stage that has never been filled counts as free
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(works, turn, rank);
                const u8* a_from = a_words + (long long)work.a_stage * A_STAGE;
                const u8* b_from = b_words + (long long)work.b_stage * (CLUSTER * B_STAGE) + rank * B_BYTES;
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    const u32 stage = stages + slot * STAGE_BYTES, arrival = full + slot * 8;
                    mbarrier_wait(free + slot * 8, phase);
                    mbarrier_expect_tx(arrival, STAGE_BYTES);
                    cp_async_bulk(stage, a_from, A_STAGE, arrival);
#pragma unroll
                    for (int word = 0; word < WORDS; ++word)
                        cp_async_bulk(stage + A_STAGE + word * B_BYTES, b_from + word * CLUSTER * B_BYTES, B_BYTES, arrival);
                    a_from += A_STAGE;
                    b_from += (CLUSTER * B_STAGE);
                    if (++slot == STAGES) slot = 0, phase ^= 1;
                }
            }
        }

        if (thread == WARPGROUPS * 128 + 32) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the turns
            int slot = 0;
            u32 phase = 0;
            int buffer = 0;
            u32 buffer_phase = 1;  // a buffer that has never been filled counts as emptied
            u32 tile_phase = 1;
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(works, turn, rank);
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    mbarrier_wait(full + slot * 8, phase);
                    if (rank > 0) {  // the first block multiplies, when it has been told that this one's stage is full, too
                        mbarrier_arrive_at(full + slot * 8, 0);
                        if (++slot == STAGES) slot = 0, phase ^= 1;
                        continue;
                    }
                    tcgen05_fence_after_sync();
                    const u32 stage = stages + slot * STAGE_BYTES;
                    const u64 a_at = descriptor(stage), b_at = descriptor(stage + A_STAGE);
#pragma unroll
                    for (int first = 0; first < K_STEPS; first += 4) {
                        // Sums that move out at the end of an interval come first, so that the others hide it.
                        {
                            mbarrier_wait(emptied + buffer * 8, buffer_phase);
                            tcgen05_fence_after_sync();
                        }
                        const u32 moving = sums + buffer * BUFFER;
#pragma unroll
                        for (int step = first; step < first + 4; ++step) {
                            multiply_add(moving + 256, a_at + (step * 32) / 16,
                                         b_at + (step * 32) / 16, step > first);
                        }
                        {
                            tcgen05_commit(filled + buffer * 8);
                            if (++buffer == BUFFERS) buffer = 0, buffer_phase ^= 1;
                        }
                        if (first == 0 && index == 0) {  // the last tile's have been taken
                            mbarrier_wait(taken, tile_phase);
                            tcgen05_fence_after_sync();
                            tile_phase ^= 1;
                        }
#pragma unroll
                        for (int step = first; step < first + 4; ++step) {
                            multiply_add(sums, a_at + (A_BYTES + step * 32) / 16,
                                         b_at + (step * 32) / 16, index > 0 || step > 0);
                            multiply_add(sums, a_at + (step * 32) / 16,
                                         b_at + (B_BYTES + step * 32) / 16, 1);
                        }
                    }
                    tcgen05_commit(free + slot * 8);
                    if (++slot == STAGES) slot = 0, phase ^= 1;
                }
                if (work.count > 0 && rank == 0) tcgen05_commit(complete);
            }
            // Nothing may arrive at a barrier of a block that has ended: commits need not arrive in order.
            for (int i = 0; i < STAGES; ++i) mbarrier_wait(free + i * 8, i < slot ? phase : phase ^ 1);
        }
    } else {
        setmaxnreg_inc<208>();
        const int warpgroup = thread / 128, lane = thread % 128;  // lane of the warpgroup, and of tensor memory
        const int warp_m = 0, warp_n = warpgroup * WARP_N;
        const u32 mine = sums + (lane / 32 * 32 << 16) + warp_n;  // a warp reads its own quarter of the lanes
        // Every warp that has moved sums out says so, to the block that multiplies.
        const auto tell = [&](u32 barrier) {
            tcgen05_fence_before_sync();
            __syncwarp();
            if (thread % 32 == 0) mbarrier_arrive_at(barrier, 0);
        };
        int buffer = 0;
        u32 phase = 0;
        u32 tile_phase = 0;
        asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel, which writes the turns, has finished
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(works, turn, rank);
            const int m0 = work.m0, n0 = work.n0;
            float sum[FRAGMENTS_M][FRAGMENTS_N][WARP_N] = {};
            // The matrix unit truncates when it adds, FP32 rounds to nearest: every 64 k the
            // unit's sum moves over. Sums that are scaled up err that much less and stay.
            const int intervals = work.count;
#pragma unroll 1
            for (int interval = 0; interval < intervals; ++interval) {
                mbarrier_wait(filled + buffer * 8, phase);
                tcgen05_fence_after_sync();
#pragma unroll
                for (int column = 0; column < WARP_N; column += 16) {
                    float x[16];
                    tcgen05_load(x, mine + buffer * BUFFER + 256 + column);
#pragma unroll
                    for (int e = 0; e < 16; ++e) sum[0][0][column + e] += x[e];
                }
                tell(emptied + buffer * 8);
                if (++buffer == BUFFERS) buffer = 0, phase ^= 1;
            }
            if (work.count > 0) {
                mbarrier_wait(complete, tile_phase);
                tcgen05_fence_after_sync();
                tile_phase ^= 1;
#pragma unroll
                for (int column = 0; column < WARP_N; column += 16) {
                    float x[16];
                    tcgen05_load(x, mine + column);
#pragma unroll
                    for (int e = 0; e < 16; ++e) sum[0][0][column + e] = fmaf(x[e], 0x1p-11f, sum[0][0][column + e]);
                }
                tell(taken);
            }

            const Product product = product_at(products, work.entry);
            float* const c = product.c;
            const long long ldc = product.ldc;
            const int m = product.m, n = product.n;
            const float alpha = product.alpha, beta = product.beta;
            const float *const a = product.a, *const b = product.b;
            const long long lda = product.lda, ldb = product.ldb;
            const int k = product.k;
            // Element r of a thread is C[row, column]; four at a time are stored together.
            const int row0 = m0 + warp_m + lane;
            const int column0 = n0 + warp_n;
            const bool runs = ldc % 4 == 0 && ((u64)c & 15) == 0;
            u32 bad[4] = {};  // a bit an element: not finite
            if (row0 < m) {
#pragma unroll
                for (int r0 = 0; r0 < 128; r0 += 4) {
                    const int column = column0 + r0;
                    if (column >= n) continue;
                    float* const to = c + row0 * ldc + column;
                    float product[4];
                    bool whole = runs && column + 4 <= n;
                    u32 store = 0;  // a bit an element
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        product[e] = sum[0][0][r0 + e];
                        if (column + e >= n) continue;
                        if (!(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                            bad[(r0 + e) / 32] |= 1u << (r0 + e) % 32;
                            whole = false;
                            continue;
                        }
                        store |= 1u << e;
                    }
                    if (whole) {
                        put_four(to, product, alpha, beta);
                    } else {
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            if (store >> e & 1) put_element(to + e, product[e], alpha, beta);
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
                    const long long row = row0 + i * 128;
                    const long long column = column0 + j * 128 + (r & 15) + (r >> 4) * 16;
                    float product = 0.0f;
                    for (long long kk = 0; kk < k; ++kk)
                        product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                    put_element(c + row * ldc + column, product, alpha, beta);
                    atomicAdd(repaired, 1ull);
                }
        }
    }
    // No warp of either block reads tensor memory any more when it is given back.
    tcgen05_fence_before_sync();
    __syncwarp();
    cluster_barrier();
    tcgen05_fence_after_sync();
    if (multiplies) tcgen05_dealloc(sums);
}

}  // namespace gemmgen_0ccbf927
