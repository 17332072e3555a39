// kernel    gemmgen_fp32_fma_112x128x16_d25f4684
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    fp32: FP32 itself, no matrix unit: the yardstick
// words     1 x f32, 24 bits; products A0 B0; dropped none
// promote   never (fp32's own)
// special   exact
// fragment  fma.rn.f32
// decided   block 112x128x16, warp 112x32x16, split prepass, loads async, 2 stages, group 1, 1 slice of k, promote 0, 1 fragment buffer
// block     128 threads, 30720 B of dynamic shared memory
// target    sm_80
// plan      d25f4684, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_d25f4684 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

GG_DEVICE float widen(u32 bits) { return __uint_as_float(bits); }

GG_DEVICE u32 round_nearest_even(float x) { return __float_as_uint(x); }  // nothing is cut

// Chunk `c` of row `r` lies at chunk `swizzle(r, c)`. 2 rows share the 32 banks, so every 2 rows
// the chunks change places: eight neighbouring rows, as a phase reads them, touch each bank once.
GG_DEVICE int swizzle(int row, int chunk) { return chunk ^ (row / 2 & 3); }

constexpr int WORDS = 1;

// Splits N elements into words, 1 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
        float rest = x[i];  // what is not in the words yet
        // word 0: to nearest, ties to even
        packed[0][i] = round_nearest_even(rest);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// A word holds every finite element as it is.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [0, Inf): as integers, their bits are in the same order.
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        most = max(most, bits);
    }
    if (most < 0x7f800000u) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        rest -= widen(packed[0][i]);
        // Rounding leaves at most one ulp, 2^104 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+104f);
        const bool finite = magnitude < __uint_as_float(0x7f800000u);
        counts += finite ? (overflow ? 1u << 10 : 0u) : 1u << 20;
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

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 112][k / 16][word: 1][m: 112][k: 16], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one row.
GG_DEVICE void split_a(
    int block,                     // this block's number among those of operand a
    const float* __restrict__ x,   // operand a, k contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: m and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = (int)threadIdx.x % 4 * 8;
    const int my_outer = (int)threadIdx.x / 4;
    const int o = outer0 + my_outer;
    float value[8];

    const float* from = x + (long long)o * ld + (k0 + my_k);
    const bool inside = o < outer;
    if (inside && k0 + my_k + 8 <= k && ((u64)from & 15) == 0) {
        for (int i = 0; i < 8; i += 4) {
            const float4 four = *(const float4*)(from + i);
            value[i] = four.x, value[i + 1] = four.y, value[i + 2] = four.z, value[i + 3] = four.w;
        }
    } else {
        for (int i = 0; i < 8; ++i)
            value[i] = inside && k0 + my_k + i < k ? from[i] : 0.0f;
    }

    u32 packed[WORDS][8];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 15) / 16, panels = (outer + 111) / 112;
    if (o < panels * 112 && kk < stages_k * 16) {
        const int row = o % 112, chunk = kk % 16 * 4 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 112) * stages_k + kk / 16) * 7168 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                *(uint4*)(to + w * 7168 + swizzle(row, chunk + i) * 16) =
                    make_uint4(packed[w][4 * i], packed[w][4 * i + 1], packed[w][4 * i + 2], packed[w][4 * i + 3]);
    }

    count(counters, losses(packed, value));
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 16][word: 1][n: 128][k: 16], rows swizzled, edges zero.
// A thread takes 8 consecutive k of one column.
GG_DEVICE void split_b(
    int block,                     // this block's number among those of operand b
    const float* __restrict__ x,   // operand b, n contiguous
    long long ld,                  // its leading dimension in elements
    int outer, int k,              // extents: n and k
    u8* __restrict__ words,
    u64* __restrict__ counters)    // lossy, overflow, nonfinite
{
    const int blocks_k = ((k + 31) / 32);
    const int k0 = block % blocks_k * 32;
    const int outer0 = block / blocks_k * 64;
    const int my_k = (int)threadIdx.x % 4 * 8;
    const int my_outer = (int)threadIdx.x / 4;
    const int o = outer0 + my_outer;
    float value[8];

    // Read along n, where neighbours lie together, and turn the block's part in shared memory. Rows of
    // 65 floats: a warp's stores hit 32 neighbouring banks, and its loads, 8 outer by 4 k that are
    // 8 apart, hit banks 8 k + outer, all different.
    __shared__ float turned[32 * 65];
    for (int i = (int)threadIdx.x; i < 2048; i += 256) {
        const int column = i % 64, row = i / 64;
        const bool inside = outer0 + column < outer && k0 + row < k;
        turned[row * 65 + column] = inside ? x[(long long)(k0 + row) * ld + (outer0 + column)] : 0.0f;
    }
    __syncthreads();
    for (int i = 0; i < 8; ++i) value[i] = turned[(my_k + i) * 65 + my_outer];

    u32 packed[WORDS][8];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 15) / 16, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 16) {
        const int row = o % 128, chunk = kk % 16 * 4 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 16) * 8192 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
#pragma unroll
            for (int i = 0; i < 2; ++i)
                *(uint4*)(to + w * 8192 + swizzle(row, chunk + i) * 16) =
                    make_uint4(packed[w][4 * i], packed[w][4 * i + 1], packed[w][4 * i + 2], packed[w][4 * i + 3]);
    }

    count(counters, losses(packed, value));
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_fp32_fma_112x128x16_d25f4684_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 111) / 112 * 112 + 63) / 64) * ((k + 31) / 32);
    if ((int)blockIdx.x < blocks_a)
        split_a((int)blockIdx.x, a, lda, m, k, a_words, a_status);
    else
        split_b((int)blockIdx.x - blocks_a, b, ldb, n, k, b_words, b_status);
}

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 128
//            +---+----+----+ - -        A block computes C[m0 : m0 + 112, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     1 x 4 warps of 112 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 1 set of 112 floats a thread.
//    = 112   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 16 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 112, BLOCK_N = 128, BLOCK_K = 16;
constexpr int WARP_M = 112, WARP_N = 32;
constexpr int WARPS_N = 4;
constexpr int THREADS = 128;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int FRAGMENTS_M = 7, FRAGMENTS_N = 1;  // fragments of m16n32k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = BLOCK_K * 4;  // one row of a stage
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
constexpr int STAGE_BYTES = WORDS * (A_BYTES + B_BYTES);

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

// Four k of one row of a stage.
GG_DEVICE void load_four(float* r, u32 address) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(r[0]), "=f"(r[1]), "=f"(r[2]), "=f"(r[3])
                 : "r"(address)
                 : "memory");
}

// Every fourth row from the one at `address` on. The swizzle repeats every 8 rows, and 4 rows on
// it has this step's chunk `turn` chunks further; eight lanes read the same row.
GG_DEVICE void load_a_rows(float (&r)[16], u32 address, int turn) {
    load_four(r, address);
    load_four(r + 4, address + 4 * ROW_BYTES + turn * 16);
    load_four(r + 8, address + 8 * ROW_BYTES);
    load_four(r + 12, address + 12 * ROW_BYTES + turn * 16);
}

// Every eighth row from the one at `address` on; eight lanes read eight neighbours.
GG_DEVICE void load_b_rows(float (&r)[16], u32 address) {
#pragma unroll
    for (int j = 0; j < 4; ++j) load_four(r + 4 * j, address + 8 * j * ROW_BYTES);
}

// c += a b, this lane's 4 x 4 of [16, 32], one k after another, each rounded to nearest: the sums
// of a sequential dot product in FP32.
GG_DEVICE void multiply_add(float (&c)[16], const float (&a)[16], const float (&b)[16]) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) c[4 * i + j] = fmaf(a[4 * i + k], b[4 * j + k], c[4 * i + j]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_fp32_fma_112x128x16_d25f4684(
    const u8* __restrict__ a_words,  // packed stages [m / BLOCK_M][k / BLOCK_K][WORDS][BLOCK_M][BLOCK_K]
    const u8* __restrict__ b_words,  // packed stages [n / BLOCK_N][k / BLOCK_K][WORDS][BLOCK_N][BLOCK_K]
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
    const int first_stage = 0, stage_count = alpha == 0.0f ? 0 : stages_k;

    float acc_main[FRAGMENTS_M][FRAGMENTS_N][16] = {};  // in FP32 registers

    // Stages lie packed in the workspace, word after word and already swizzled, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = copy_from;
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 7168 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 8192 + copy_from;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if ((int)threadIdx.x + i * THREADS < 448) cp_async_16(stage + copy_to + i * (THREADS * 16), a_from + i * THREADS * 16);
        a_from += 7168;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            cp_async_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS * 16), b_from + i * THREADS * 16);
        b_from += 8192;
    };

    // The part of a fragment's address that is this lane's own.
    const int a_row = lane >> 3, a_chunk = 0;
    const int b_row = lane & 7, b_chunk = 0;
    const u32 a_offset = (warp_m + a_row) * ROW_BYTES;
    const u32 b_offset = (warp_n + b_row) * ROW_BYTES + WORDS * A_BYTES;
    float a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][16], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][16];

    // Fetches the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            // Fragments start at rows that are multiples of 8, which the swizzle does not see.
            const u32 a_at = stage + a_offset + word * A_BYTES + swizzle(a_row, step + a_chunk) * 16;
            const u32 b_at = stage + b_offset + word * B_BYTES + swizzle(b_row, step + b_chunk) * 16;
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) load_a_rows(a_fragments[buffer][word][i], a_at + i * 16 * ROW_BYTES, swizzle(4, step) - step);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) {
                load_b_rows(b_fragments[buffer][word][j], b_at + j * 32 * ROW_BYTES);
            }
        }
    };

    // One step of k: 1 word product for each fragment of C.
    const auto multiply = [&](int buffer) {
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
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0);
        }
        free_slot = slot;
        slot = next_slot;
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 3);
    const int column0 = n0 + warp_n + (lane & 7);
    u32 bad[4] = {};  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 16; ++r) {
                const int row = row0 + i * 16 + (r >> 2) * 4;
                const int column = column0 + j * 32 + (r & 3) * 8;
                if (row >= m || column >= n) continue;
                float product = acc_main[i][j][r];
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 16 + r;
                    bad[element / 32] |= 1u << element % 32;
                    continue;
                }
                put_element(c + row * ldc + column, product, alpha, beta);
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
#pragma unroll
    for (int part = 0; part < 4; ++part)
        while (bad[part]) {
            const int element = part * 32 + __ffs((int)bad[part]) - 1;
            bad[part] &= bad[part] - 1;
            const int r = element % 16;
            const int j = element / 16 % FRAGMENTS_N, i = element / (16 * FRAGMENTS_N);
            const long long row = row0 + i * 16 + (r >> 2) * 4;
            const long long column = column0 + j * 32 + (r & 3) * 8;
            float product = 0.0f;
            for (long long kk = 0; kk < k; ++kk)
                product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
            put_element(c + row * ldc + column, product, alpha, beta);
            atomicAdd(repaired, 1ull);
        }
}

}  // namespace gemmgen_d25f4684
