// kernel    gemmgen_ootomo_wgmma_64x128x64_46e015c8
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   every 64 k (ootomo's own: every 16 k)
// special   exact
// fragment  wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16
// decided   block 64x128x64, warpgroup 64x128x64, split prepass, loads bulk, 4 stages, group 16, 1 slice of k, promote 64, clusters of 1, pingpong
// block     384 threads, 196672 B of dynamic shared memory
// target    sm_90a
// plan      46e015c8, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_46e015c8 {

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

// One turn of the main kernel: a tile of C.
struct alignas(16) Work {
    int entry;             // product of the batch
    int m0, n0;            // of the tile
    int count;             // stages of k
    int a_stage, b_stage;  // the first of its packed words
    int below;             // further tiles of the turn that C has
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
//     [m / 64][k / 64][word: 2][m: 64][k: 64], rows swizzled, edges zero.
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
        const int stages_k = (k + 63) / 64, panels = (outer + 63) / 64;
        if (o < panels * 64 && kk < stages_k * 64) {
            const int row = o % 64, chunk = kk % 64 * 2 / 16;  // of 16 bytes
            u8* to = words + ((long long)(o / 64) * stages_k + kk / 64) * 16384 + row * 128;
#pragma unroll
            for (int w = 0; w < WORDS; ++w)
                *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) =
                    make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
        }
        count(counters, losses(packed, value));
    }
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 64][word: 2][n: 128][k: 64], rows swizzled, edges zero.
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
    const int blocks_outer = ((outer + 127) / 128);
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

extern "C" __global__ void __launch_bounds__(256)
gemmgen_ootomo_wgmma_64x128x64_46e015c8_split(
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
    const int blocks_a = ((product.m + 63) / 64 * 64 + 127) / 128 * blocks_k;
    const int blocks_b = ((product.n + 127) / 128 * 128 + 127) / 128 * blocks_k;

    // The product's turns, divided among its blocks. Raster groups of 16 rows of tiles, down each column of tiles before the next.
    constexpr int GROUP_ROWS = 16;
    const int blocks_m = (product.m + 63) / 64, blocks_n = (product.n + 127) / 128;
    const int rows = blocks_m;
    const bool nothing = product.alpha == 0.0f;  // BLAS: with alpha = 0 the operands are not looked at
    for (int turn = block * 256 + (int)threadIdx.x; turn < rows * blocks_n; turn += max(1, blocks_a + blocks_b) * 256) {
        const int raster = turn / (GROUP_ROWS * blocks_n), in_raster = turn % (GROUP_ROWS * blocks_n);
        const int raster_rows = min(GROUP_ROWS, rows - raster * GROUP_ROWS);
        const int row = raster * GROUP_ROWS + in_raster % raster_rows, column = in_raster / raster_rows;
        works[place.turn + turn] = {place.entry, row * 64, column * 128, nothing ? 0 : stages_k,
                                    place.a_stage + row * stages_k, place.b_stage + column * stages_k, 0, 0};
    }
    if (nothing) return;
    if (block < blocks_a) {
        split_a(block, product.a, product.lda, product.m, product.k,
                a_words + (long long)place.a_stage * 16384, a_status);
        return;
    }
    if (block < blocks_a + blocks_b) {
        split_b(block - blocks_a, product.b, product.ldb, product.n, product.k,
                b_words + (long long)place.b_stage * 32768, b_status);
    }
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
//   BLOCK_M  |         |         |      loop over k, in 3 sets of 64 floats. The two warpgroups take turns: while
//    = 64    +---------+---------+      one stores its tile, the other multiplies the next.
//              WARP_N                   Shared memory holds 4 stages of k, 64 deep, which a further warpgroup fills.
constexpr int BLOCK_M = 64, BLOCK_N = 128;
constexpr int WARPGROUPS = 2;  // warpgroups that multiply; one more copies
constexpr int THREADS = 384;
constexpr int STAGES = 4;

constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m64n128k16 in a warpgroup
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = 128;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int A_STAGE = WORDS * A_BYTES, B_STAGE = WORDS * B_BYTES;
constexpr int STAGE_BYTES = A_STAGE + B_STAGE;
constexpr int RELEASES = 4;  // arrivals that free a stage: one a warp that reads it

// An mbarrier whose phase ends after `arrivals` of them, and after the bytes that arrivals announced.
GG_DEVICE void mbarrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The copy engine sees the mbarriers made so far.
GG_DEVICE void mbarrier_fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
}

// Arrives, and announces `bytes` that copies will bring.
GG_DEVICE void mbarrier_expect_tx(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
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

// c[64, 128] (+)= a[64, 16] b[16, 128] on the matrix unit, which truncates as it accumulates; from zero where keep is 0.
GG_DEVICE void multiply_add(float (&c)[64], u64 a, u64 b, u32 keep) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, p, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
          "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
          "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]),
          "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]),
          "+f"(c[32]), "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]),
          "+f"(c[40]), "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]),
          "+f"(c[48]), "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]),
          "+f"(c[56]), "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
        : "l"(a), "l"(b), "r"(keep));
}

GG_DEVICE Work work_at(const Work* works, int turn) {
    Work work = works[turn];
    return work;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemmgen_ootomo_wgmma_64x128x64_46e015c8(
    const Problem* __restrict__ problems, int batch,
    Work* works, int turns,  // tiles of C
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 stages = shared_address(shared);
    const u32 full = stages + STAGES * STAGE_BYTES, free = full + STAGES * 8;  // barriers, one a stage each
    const int thread = (int)threadIdx.x;
    const Products products = {problems, batch};

    const int first_turn = (int)blockIdx.x, all_blocks = (int)gridDim.x;

    if (thread == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbarrier_init(full + i * 8, 1);
            mbarrier_init(free + i * 8, RELEASES);
        }
        mbarrier_fence_init();
    }
    __syncthreads();

    if (thread >= WARPGROUPS * 128) {
        // The copying warpgroup needs few registers; one thread of it does all.
        setmaxnreg_dec<40>();
        if (thread == WARPGROUPS * 128) {
            asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel writes the words
            int slot = 0;
            u32 phase = 1;  // a stage that has never been filled counts as free
#pragma unroll 1
            for (int turn = first_turn; turn < turns; turn += all_blocks) {
                const Work work = work_at(works, turn);
                const u8* a_from = a_words + (long long)work.a_stage * A_STAGE;
                const u8* b_from = b_words + (long long)work.b_stage * B_STAGE;
#pragma unroll 1
                for (int index = 0; index < work.count; ++index) {
                    const u32 stage = stages + slot * STAGE_BYTES, arrival = full + slot * 8;
                    mbarrier_wait(free + slot * 8, phase);
                    mbarrier_expect_tx(arrival, STAGE_BYTES);
                    cp_async_bulk(stage, a_from, A_STAGE, arrival);
                    cp_async_bulk(stage + A_STAGE, b_from, B_STAGE, arrival);
                    a_from += A_STAGE;
                    b_from += B_STAGE;
                    if (++slot == STAGES) slot = 0, phase ^= 1;
                }
            }
        }
    } else {
        setmaxnreg_inc<232>();
        const int warpgroup = thread / 128, lane = thread % 128;  // lane of the warpgroup
        const int warp_m = 0, warp_n = 0;
        int slot = 0;
        u32 phase = 0;
        // Every warp that has read a stage says so.
        const auto release = [&](int which) {
            if (thread % 32 == 0) mbarrier_arrive(free + which * 8);
        };
        // Whose turn it is to multiply. A warpgroup that ran ahead could take a stage's last filling for its own.
        int tiles = 0;  // that this block has come to
        if (warpgroup == 1) asm volatile("bar.arrive %0, %1;" ::"r"(1), "r"(256) : "memory");
        asm volatile("griddepcontrol.wait;" ::: "memory");  // the split kernel, which writes the turns, has finished
#pragma unroll 1
        for (int turn = first_turn; turn < turns; turn += all_blocks) {
            const Work work = work_at(works, turn);
            if (tiles++ % WARPGROUPS != warpgroup) {  // the other warpgroup's tile: its stages pass by
                slot += work.count;
                phase ^= slot / STAGES & 1;
                slot %= STAGES;
                continue;
            }
            const int m0 = work.m0, n0 = work.n0;
            asm volatile("bar.sync %0, %1;" ::"r"(1 + warpgroup), "r"(256) : "memory");
            float acc_main[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit
            float sum_main[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in FP32 registers
            float acc_correction[FRAGMENTS_M][FRAGMENTS_N][64] = {};  // in the matrix unit; 2^11 too large
            int held = -1;  // the stage that is still being read
            const auto advance = [&]() {
                held = slot;
                if (++slot == STAGES) slot = 0, phase ^= 1;
            };
            // The matrix unit truncates when it adds, FP32 rounds to nearest: every 64 k the
            // unit's sum moves over, while the products that stay in the unit are at work.
            const auto promote = [&]() {
                wgmma_wait<1>();
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                        for (int r = 0; r < 64; ++r) {
                            sum_main[i][j][r] += acc_main[i][j][r];
                        }
            };
            // Issues the products of steps [FIRST, LAST) of the stage at `stage`; they run on while this thread goes on.
            const auto issue = [&](u32 stage, int first, int last, u32 keep) {
                const u64 a_at = descriptor(stage + warp_m * ROW_BYTES), b_at = descriptor(stage + A_STAGE + warp_n * ROW_BYTES);
                wgmma_fence();
                // Sums that move out at the end of an interval come first, so that the others hide it.
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_main[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, step == first ? keep : 1);
                        }
                }
                wgmma_commit();
#pragma unroll
                for (int step = first; step < last; ++step) {
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                        for (int j = 0; j < FRAGMENTS_N; ++j) {
                            multiply_add(acc_correction[i][j],
                                         a_at + (A_BYTES + i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (j * 128 * ROW_BYTES + step * 32) / 16, 1);
                            multiply_add(acc_correction[i][j],
                                         a_at + (i * 64 * ROW_BYTES + step * 32) / 16,
                                         b_at + (B_BYTES + j * 128 * ROW_BYTES + step * 32) / 16, 1);
                        }
                }
                wgmma_commit();
            };
#pragma unroll 1
            for (int index = 0; index < work.count; ++index) {
                mbarrier_wait(full + slot * 8, phase);
                issue(stages + slot * STAGE_BYTES, 0, K_STEPS, 0);
                promote();
                if (held >= 0) release(held);  // all that read it is done
                advance();
            }
            if (turn + all_blocks < turns) asm volatile("bar.arrive %0, %1;" ::"r"(2 - warpgroup), "r"(256) : "memory");
            wgmma_wait<0>();
            if (held >= 0) release(held);

            const Product product = product_at(products, work.entry);
            float* const c = product.c;
            const long long ldc = product.ldc;
            const int m = product.m, n = product.n;
            const float alpha = product.alpha, beta = product.beta;
            const float *const a = product.a, *const b = product.b;
            const long long lda = product.lda, ldb = product.ldb;
            const int k = product.k;
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
                                if (p >= 16) continue;
                                const int i = p / (FRAGMENTS_N * 16), j = p / 16 % FRAGMENTS_N, at = p % 16;
                                const int r = at / 2 * 8 + at % 2 * 2;
                                const int down = i * 64 + ((r >> 1) & 1) * 8;
                                const int right = j * 128 + (r & 1) + (r >> 2) * 8;
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
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    float product[4] = {fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]),
                                                        fmaf(acc_correction[i][j][r + 1], 0x1p-11f, sum_main[i][j][r + 1]),
                                                        fmaf(acc_correction[i][j][r + 4], 0x1p-11f, sum_main[i][j][r + 4]),
                                                        fmaf(acc_correction[i][j][r + 5], 0x1p-11f, sum_main[i][j][r + 5])};
#pragma unroll
                                    for (int e = 0; e < 4; ++e) zeros[e] = fmaf(product[e], 0.0f, zeros[e]);
                                }
                        done = !__any_sync(0xffffffffu, !(zeros[0] + zeros[1] + zeros[2] + zeros[3] == 0.0f));
                        if (done) {
#pragma unroll
                            for (int begin = 0; begin < 16; begin += 2) {
                                read(begin + 2);
#pragma unroll
                                for (int q = 0; q < 2; ++q) {
                                    const int p = begin + q;
                                    if (p >= 16) continue;
                                    const int i = p / (FRAGMENTS_N * 16), j = p / 16 % FRAGMENTS_N, at = p % 16;
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]),
                                                        fmaf(acc_correction[i][j][r + 1], 0x1p-11f, sum_main[i][j][r + 1]),
                                                        fmaf(acc_correction[i][j][r + 4], 0x1p-11f, sum_main[i][j][r + 4]),
                                                        fmaf(acc_correction[i][j][r + 5], 0x1p-11f, sum_main[i][j][r + 5])};
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
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    const int row = row0 + down;
                                    const int column = column0 + right;
                                    const bool inside = row < m && (odd ? column + 6 : column) < n;
                                    float product[4] = {fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]),
                                                        fmaf(acc_correction[i][j][r + 1], 0x1p-11f, sum_main[i][j][r + 1]),
                                                        fmaf(acc_correction[i][j][r + 4], 0x1p-11f, sum_main[i][j][r + 4]),
                                                        fmaf(acc_correction[i][j][r + 5], 0x1p-11f, sum_main[i][j][r + 5])};
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
                                for (int at = 0; at < 16; ++at) {
                                    const int r = at / 2 * 8 + at % 2 * 2;
                                    const int down = i * 64 + ((r >> 1) & 1) * 8;
                                    const int right = j * 128 + (r & 1) + (r >> 2) * 8;
                                    float product[4] = {fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]),
                                                        fmaf(acc_correction[i][j][r + 1], 0x1p-11f, sum_main[i][j][r + 1]),
                                                        fmaf(acc_correction[i][j][r + 4], 0x1p-11f, sum_main[i][j][r + 4]),
                                                        fmaf(acc_correction[i][j][r + 5], 0x1p-11f, sum_main[i][j][r + 5])};
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
            u32 bad[2] = {};  // a bit an element: not finite
            // A load of C does not overtake a store to it, as the compiler does not know that they are of other elements. So that not every
            // element waits for its own, a run of pairs is on its way while the run before it is stored.
            float2 was[2][4];
#pragma unroll
            for (int first = -4; first < 32; first += 4) {
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    const int p = first + 4 + q;
                    if (p >= 32) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 64), j = 2 * p / 64 % FRAGMENTS_N, r = 2 * p % 64;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
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
                    if (p < 0 || p >= 32) continue;
                    const int i = 2 * p / (FRAGMENTS_N * 64), j = 2 * p / 64 % FRAGMENTS_N, r = 2 * p % 64;
                    const int row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const int column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    float* const to = c + row * ldc + column;
                    const bool inside = row < m && column + 1 < n;
                    const float2 old = was[p / 4 % 2][q];
                    if (row >= m || column >= n) continue;
                    float product[2] = {fmaf(acc_correction[i][j][r], 0x1p-11f, sum_main[i][j][r]),
                                        fmaf(acc_correction[i][j][r + 1], 0x1p-11f, sum_main[i][j][r + 1])};
                    bool store[2] = {true, inside};
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (store[e] && !(fabsf(product[e]) < __uint_as_float(0x7f800000u))) {
                            const int element = (i * FRAGMENTS_N + j) * 64 + r + e;
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
            for (int part = 0; part < 2; ++part)
                while (bad[part]) {
                    const int element = part * 32 + __ffs((int)bad[part]) - 1;
                    bad[part] &= bad[part] - 1;
                    const int r = element % 64;
                    const int j = element / 64 % FRAGMENTS_N, i = element / (64 * FRAGMENTS_N);
                    const long long row = row0 + i * 64 + ((r >> 1) & 1) * 8;
                    const long long column = column0 + j * 128 + (r & 1) + (r >> 2) * 8;
                    float product = 0.0f;
                    for (long long kk = 0; kk < k; ++kk)
                        product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                    put_element(c + row * ldc + column, product, alpha, beta);
                    atomicAdd(repaired, 1ull);
                }
        }
    }
}

}  // namespace gemmgen_46e015c8
