// kernel    gemmgen_egemm_mma_256x128x32_c257b68b
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    egemm: round-split as printed (bit 21 decides), four products in one accumulator
// words     2 x f16, 21 bits; products A1 B1 + A1 B0 + A0 B1 + A0 B0; dropped none
// promote   never (egemm's own)
// special   exact
// fragment  mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32
// decided   block 256x128x32, warp 64x64x8, split prepass, loads spread, 1 stage, group 4, 1 slice of k, promote 0, 1 fragment buffer, padded rows
// block     256 threads, 55296 B of dynamic shared memory
// chosen    tile by EGEMM-TC's eqs. 4 to 8
// target    sm_75
// plan      c257b68b, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_c257b68b {

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
    u16 low_bits, high_bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(low_bits) : "f"(low));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(high_bits) : "f"(high));
    asm("mov.b32 %0, {%1, %2};" : "=r"(bits) : "h"(low_bits), "h"(high_bits));
    return bits;
}

// Cut to the word's bits, then one ulp away from zero if mantissa bit 21 of x is set.
GG_DEVICE u32 round_split(float low, float high) {
    u32 bits;
    u16 low_bits, high_bits;
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(low_bits) : "f"(low));
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(high_bits) : "f"(high));
    asm("mov.b32 %0, {%1, %2};" : "=r"(bits) : "h"(low_bits), "h"(high_bits));
    // a NaN must not count on into another number
    if ((bits & 0x7fffu) < 0x7c00u) bits += __float_as_uint(low) >> 2 & 1u;
    if ((bits >> 16 & 0x7fffu) < 0x7c00u) bits += (__float_as_uint(high) >> 2 & 1u) << 16;
    return bits;
}

// Rows are padded, so that eight neighbouring ones touch each bank once; their chunks stay in order.
GG_DEVICE int swizzle(int row, int chunk) { return chunk; }

// Where a row begins in a stage: 16 bytes follow every 2 rows, which are 128 bytes.
GG_DEVICE u32 row_at(int row) { return row * 64 + row / 2 * 16; }

constexpr int WORDS = 2;

// Splits N elements into words, 2 to a register.
template <int N>
GG_DEVICE void split_run(u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        float low = x[i], high = x[i + 1];  // what is not in the words yet
        // word 0: cut to the word's bits, then one ulp away from zero if bit 21 of the FP32 mantissa is set
        const u32 word_0 = packed[0][i / 2] = round_split(low, high);
        low -= widen_low(word_0), high -= widen_high(word_0);
        // word 1: to nearest, ties to even
        packed[1][i / 2] = round_nearest_even(low, high);
    }
}

// How many of N elements are lossy, how many overflow the first word and how many are not finite, ten bits each.
// Lossy are those below f16's smallest normal number, of which the first word has too few bits, and those of which the
// words leave more than 2^-21.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-4, 2^15): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-4f) && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= (i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2]));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= (i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2]));
        lossy = lossy || !(fabsf(rest) * 0x1p+21f <= magnitude);
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

// Splits operand a into words and packs them as the main kernel's stages want them:
//     [m / 256][k / 32][word: 2][m: 256][k: 32], rows swizzled, edges zero.
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

    u32 packed[WORDS][4];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 255) / 256;
    if (o < panels * 256 && kk < stages_k * 32) {
        const int row = o % 256, chunk = kk % 32 * 2 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 256) * stages_k + kk / 32) * 32768 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 16384 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses(packed, value));
}

// Splits operand b into words and packs them as the main kernel's stages want them:
//     [n / 128][k / 32][word: 2][n: 128][k: 32], rows swizzled, edges zero.
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

    u32 packed[WORDS][4];
    split_run(packed, value);

    const int kk = k0 + my_k;
    const int stages_k = (k + 31) / 32, panels = (outer + 127) / 128;
    if (o < panels * 128 && kk < stages_k * 32) {
        const int row = o % 128, chunk = kk % 32 * 2 / 16;  // of 16 bytes
        u8* to = words + ((long long)(o / 128) * stages_k + kk / 32) * 16384 + row * 64;
#pragma unroll
        for (int w = 0; w < WORDS; ++w)
            *(uint4*)(to + w * 8192 + swizzle(row, chunk) * 16) =
                make_uint4(packed[w][0], packed[w][1], packed[w][2], packed[w][3]);
    }

    count(counters, losses(packed, value));
}

extern "C" __global__ void __launch_bounds__(256)
gemmgen_egemm_mma_256x128x32_c257b68b_split(
    const float* __restrict__ a, long long lda, const float* __restrict__ b, long long ldb,
    int m, int n, int k,
    u8* __restrict__ a_words, u8* __restrict__ b_words,
    u64* __restrict__ a_status, u64* __restrict__ b_status)
{
    const int blocks_a = (((m + 255) / 256 * 256 + 63) / 64) * ((k + 31) / 32);
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
//            +---+----+----+ - -        A block computes C[m0 : m0 + 256, n0 : n0 + 128] with
//        m0  | w | w  | w  | WARP_M     4 x 2 warps of 64 x 64. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 1 set of 128 floats a thread.
//    = 256   | w | w  | w  |
//            +---+----+----+            Shared memory holds one stage of k, 32 deep: while it is
//              WARP_N                   multiplied, the next one waits in registers.
constexpr int BLOCK_M = 256, BLOCK_N = 128, BLOCK_K = 32;
constexpr int WARP_M = 64, WARP_N = 64;
constexpr int WARPS_N = 2;
constexpr int THREADS = 256;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 4;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 4, FRAGMENTS_N = 8;  // fragments of m16n8k8 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int ROW_BYTES = BLOCK_K * 2 + 8;  // one row of a stage, padding shared out
constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage

// Loads stay where they stand among the matrix instructions.
GG_DEVICE void load_16(u32 (&r)[4], const void* from) {
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "l"(from));
}

GG_DEVICE void store_shared_16(u32 to, const u32 (&r)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

// Two matrices of eight 16-byte rows; lane l gives the address of row l % 8 of matrix l / 8.
GG_DEVICE void ldmatrix(u32 (&r)[2], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
}

// c[16, 8] += a[16, 8] b[8, 8] on the matrix unit, which truncates as it accumulates.
GG_DEVICE void multiply_add(float (&c)[4], const u32 (&a)[2], const u32 (&b)[1]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_egemm_mma_256x128x32_c257b68b(
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

    float acc_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in the matrix unit

    // Stages lie packed in the workspace, word after word, so filling one is
    // a straight copy, and every address is one pointer and constants.
    const int copy_from = (int)threadIdx.x * 16;
    const u32 copy_to = (int)threadIdx.x * 16 + (int)threadIdx.x / 8 * 16;  // 16 bytes follow every 128
    const u8* a_from = a_words + ((long long)(m0 / BLOCK_M) * stages_k + first_stage) * 32768 + copy_from;
    const u8* b_from = b_words + ((long long)(n0 / BLOCK_N) * stages_k + first_stage) * 16384 + copy_from;

    u32 a_held[8][4], b_held[4][4];  // a stage on its way to shared memory

    // Starts the loads of part `part` of the next stage of k.
    const auto load = [&](int part) {
        if (part < 8) {
            const int i = part;
            load_16(a_held[i], a_from + i * THREADS * 16);
        } else {
            const int i = part - 8;
            load_16(b_held[i], b_from + i * THREADS * 16);
        }
    };
    // Puts that stage of k into the place at `stage`.
    const auto store = [&](u32 stage) {
#pragma unroll
        for (int i = 0; i < 8; ++i)
            store_shared_16(stage + copy_to + i * (THREADS / 8 * 144), a_held[i]);
        a_from += 32768;
#pragma unroll
        for (int i = 0; i < 4; ++i)
            store_shared_16(stage + WORDS * A_BYTES + copy_to + i * (THREADS / 8 * 144), b_held[i]);
        b_from += 16384;
    };

    // The part of a fragment's address that is this lane's own.
    const int a_row = lane & 15, a_chunk = 0;
    const int b_row = lane & 15, b_chunk = 0;
    const u32 a_offset = row_at(warp_m + a_row);
    const u32 b_offset = row_at(warp_n + b_row) + WORDS * A_BYTES;
    u32 a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][2], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][1];

    // Fetches the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) {
#pragma unroll
        for (int word = 0; word < WORDS; ++word) {
            // Fragments start at rows that are multiples of 8, which the swizzle does not see.
            const u32 a_at = stage + a_offset + word * A_BYTES + swizzle(a_row, step + a_chunk) * 16;
            const u32 b_at = stage + b_offset + word * B_BYTES + swizzle(b_row, step + b_chunk) * 16;
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i) ldmatrix(a_fragments[buffer][word][i], a_at + i * 16 * ROW_BYTES);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j += 2) {
                u32 pair[2];
                ldmatrix(pair, b_at + j * 8 * ROW_BYTES);
                b_fragments[buffer][word][j][0] = pair[0];
                b_fragments[buffer][word][j + 1][0] = pair[1];
            }
        }
    };

    // One step of k: 4 word products for each fragment of C.
    // Between them, one by one and early in the stage, stand the loads of the next stage (EGEMM section 5).
    const auto multiply = [&](int buffer, int step, bool next) {
        int place = step * 16;
        const auto spread = [&]() {
#pragma unroll
            for (int part = 0; part < 12; ++part)
                if (part * 32 / 12 == place && next) load(part);
            ++place;
        };
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][1][i], b_fragments[buffer][1][j]);
            spread();
        }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
            spread();
        }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
            spread();
        }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
            spread();
        }
    };

    const auto load_all = [&]() {
#pragma unroll
        for (int part = 0; part < 12; ++part) load(part);
    };
    if (stage_count > 0) {
        load_all();
        store(stages);
    }
    __syncthreads();
#pragma unroll 1
    for (int index = 0; index < stage_count; ++index) {
        const u32 stage = stages, other = stages;
        const bool next = index + 1 < stage_count;
#pragma unroll
        for (int step = 0; step < K_STEPS; ++step) {
            fetch(0, stage, step);
            multiply(0, step, next);
        }
        __syncthreads();  // everyone has multiplied this stage
        if (next) store(other);  // which no one has read since the last barrier
        __syncthreads();
    }

    // Element r of fragment (i, j) is C[row, column]:
    const int row0 = m0 + warp_m + (lane >> 2);
    const int column0 = n0 + warp_n + (lane & 3) * 2;
    u32 bad[4] = {};  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                const int row = row0 + i * 16 + (r >> 1) * 8;
                const int column = column0 + j * 8 + (r & 1);
                if (row >= m || column >= n) continue;
                float product = acc_main[i][j][r];
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
    for (int part = 0; part < 4; ++part)
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

}  // namespace gemmgen_c257b68b
