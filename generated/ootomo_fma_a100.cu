// kernel    gemmgen_ootomo_fma_64x64x16_79257caa
// computes  C = alpha A B + beta C in FP32, layout nt (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   never (ootomo's own: every 8 k)
// special   exact
// fragment  fma.rn.f32
// decided   block 64x64x16, warp 32x32x16, split register, loads async, 2 stages, group 16, 1 slice of k, promote 0, 1 fragment buffer
// block     128 threads, 16384 B of dynamic shared memory
// target    sm_80
// plan      79257caa, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_79257caa {

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

// Operand a lies [m][k]: lanes of 8 rows read four k each together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [n][k]: lanes of 8 rows read four k each together.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }

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

// C = alpha product + beta C. As in BLAS, C is not read where beta is 0; then -0 is added, which changes no number.
GG_DEVICE void put_element(float* to, float product, float alpha, float beta) {
    float was = -0.0f;
    if (beta != 0.0f) was = *to;
    *to = fmaf(alpha, product, beta * was);
}

//                n0        BLOCK_N = 64
//            +---+----+----+ - -        A block computes C[m0 : m0 + 64, n0 : n0 + 64] with
//        m0  | w | w  | w  | WARP_M     2 x 2 warps of 32 x 32. Each keeps its part of C in registers
//   BLOCK_M  +---+----+----+ - -        for the whole loop over k, in 2 sets of 32 floats a thread.
//    = 64   | w | w  | w  |
//            +---+----+----+            Shared memory holds 2 stages of k, 16 deep: one is
//              WARP_N                   multiplied while 1 is on the way.
constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 16;
constexpr int WARP_M = 32, WARP_N = 32;
constexpr int WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int STAGES = 2;
constexpr int FRAGMENT_BUFFERS = 1;
constexpr int GROUP_ROWS = 16;  // rows of tiles that are worked off together: a raster group
constexpr int FRAGMENTS_M = 2, FRAGMENTS_N = 1;  // fragments of m16n32k8 in a warp
constexpr int K_STEPS = 2;  // instructions along k in a stage
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

GG_DEVICE void load_shared_16(float (&x)[4], u32 from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(from) : "memory");
}

// c += a b, this lane's 4 x 4 of [16, 32], one k after another, each rounded to nearest: the sums
// of a sequential dot product in FP32, whose factors are words: their products are exact.
GG_DEVICE void multiply_add(float (&c)[16], const u32 (&a)[16], const u32 (&b)[16]) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
        float x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            x[i] = k % 2 ? widen_high(a[4 * i + k / 2]) : widen_low(a[4 * i + k / 2]);
            y[i] = k % 2 ? widen_high(b[4 * i + k / 2]) : widen_low(b[4 * i + k / 2]);
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) c[4 * i + j] = fmaf(x[i], y[j], c[4 * i + j]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_ootomo_fma_64x64x16_79257caa(
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
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
    float acc_correction[FRAGMENTS_M][FRAGMENTS_N][16] = {};  // in FP32 registers; 2^11 too large

    // Stages are copied in the operands' own order; what lies outside them becomes zero.
    int k0 = first_stage * BLOCK_K;  // of the stage that is copied next
    const bool a_aligned = ((u64)a & 15) == 0 && (lda & 3) == 0;
    const int a_copy_row = (int)threadIdx.x / 4, a_copy_column = (int)threadIdx.x % 4 * 4;
    const float* a_from = a + (long long)(m0 + a_copy_row) * lda + k0 + a_copy_column;
    const bool b_aligned = ((u64)b & 15) == 0 && (ldb & 3) == 0;
    const int b_copy_row = (int)threadIdx.x / 4, b_copy_column = (int)threadIdx.x % 4 * 4;
    const float* b_from = b + (long long)(n0 + b_copy_row) * ldb + k0 + b_copy_column;

    // Starts the copies of the next stage of k into the place at `stage`.
    const auto fill = [&](u32 stage) {
        {
            const u32 to = stage;
            const int rows = m - m0, columns = k - k0;  // inside the operand
            if (a_aligned) {
                const float* from = a_from;
#pragma unroll
                for (int i = 0; i < 2; ++i, from += 32 * lda) {
                    const int row = a_copy_row + i * 32;
                    cp_async_16_part(to + at_a(row, a_copy_column / 4), from, row < rows ? max(0, min(4, columns - a_copy_column)) * 4 : 0);
                }
            } else {  // bases and rows that are not 16-byte aligned: by single elements
#pragma unroll 1
                for (int at = (int)threadIdx.x; at < 1024; at += THREADS) {
                    const int row = at / 16, column = at % 16;
                    const bool inside = row < rows && column < columns;
                    cp_async_4_part(to + at_a(row, column / 4) + column % 4 * 4,
                                    inside ? a + (long long)(m0 + row) * lda + k0 + column : a, inside ? 4 : 0);
                }
            }
            a_from += BLOCK_K;
        }
        {
            const u32 to = stage + A_BYTES;
            const int rows = n - n0, columns = k - k0;  // inside the operand
            if (b_aligned) {
                const float* from = b_from;
#pragma unroll
                for (int i = 0; i < 2; ++i, from += 32 * ldb) {
                    const int row = b_copy_row + i * 32;
                    cp_async_16_part(to + at_b(row, b_copy_column / 4), from, row < rows ? max(0, min(4, columns - b_copy_column)) * 4 : 0);
                }
            } else {  // bases and rows that are not 16-byte aligned: by single elements
#pragma unroll 1
                for (int at = (int)threadIdx.x; at < 1024; at += THREADS) {
                    const int row = at / 16, column = at % 16;
                    const bool inside = row < rows && column < columns;
                    cp_async_4_part(to + at_b(row, column / 4) + column % 4 * 4,
                                    inside ? b + (long long)(n0 + row) * ldb + k0 + column : b, inside ? 4 : 0);
                }
            }
            b_from += BLOCK_K;
        }
        k0 += BLOCK_K;
    };

    const int a_run_row = lane >> 3, b_run_row = lane & 7, run_k = 0;
    u32 a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M][16], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N][16];

    // Fetches and splits the fragments of step `step` of the stage at `stage`.
    const auto fetch = [&](int buffer, u32 stage, int step) {
        const int kk = step * 8 + run_k;
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int half = 0; half < 4; ++half) {
                const int row = warp_m + i * 16 + half * 4 + a_run_row;
                float x[8];
#pragma unroll
                for (int piece = 0; piece < 2; ++piece) load_shared_16((float (&)[4])x[4 * piece], stage + at_a(row, kk / 4 + piece));
                u32 packed[WORDS][4];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 4; ++r) a_fragments[buffer][word][i][4 * half + r] = packed[word][r];
            }
#pragma unroll
        for (int i = 0; i < FRAGMENTS_N; ++i)
#pragma unroll
            for (int half = 0; half < 4; ++half) {
                const int row = warp_n + i * 32 + half * 8 + b_run_row;
                float x[8];
#pragma unroll
                for (int piece = 0; piece < 2; ++piece) load_shared_16((float (&)[4])x[4 * piece], stage + A_BYTES + at_b(row, kk / 4 + piece));
                u32 packed[WORDS][4];
                split_run(packed, x);
#pragma unroll
                for (int word = 0; word < WORDS; ++word)
#pragma unroll
                    for (int r = 0; r < 4; ++r) b_fragments[buffer][word][i][4 * half + r] = packed[word][r];
            }
    };

    // Counts what words cannot hold of the stage at `stage`.
    int a_turn = first_stage % blocks_n, b_turn = first_stage % blocks_m;  // which block along n, along m
    const auto next_turn = [&]() {
        a_turn = a_turn + 1 == blocks_n ? 0 : a_turn + 1;
        b_turn = b_turn + 1 == blocks_m ? 0 : b_turn + 1;
    };

    const auto count_stage = [&](u32 stage) {
        if (a_turn == n0 / BLOCK_N)
#pragma unroll 1
            for (int at = (int)threadIdx.x * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                float four[4];
                load_shared_16(four, stage + at);
                u32 packed[WORDS][2];
                split_run(packed, four);
                count(a_status, losses(packed, four));
            }
        if (b_turn == m0 / BLOCK_M)
#pragma unroll 1
            for (int at = (int)threadIdx.x * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                float four[4];
                load_shared_16(four, stage + A_BYTES + at);
                u32 packed[WORDS][2];
                split_run(packed, four);
                count(b_status, losses(packed, four));
            }
        next_turn();
    };

    // One step of k: 3 word products for each fragment of C.
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_correction[i][j], a_fragments[buffer][1][i], b_fragments[buffer][0][j]);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j) multiply_add(acc_correction[i][j], a_fragments[buffer][0][i], b_fragments[buffer][1][j]);
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
    u32 bad = 0;  // a bit an element: not finite
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
            for (int r = 0; r < 16; ++r) {
                const int row = row0 + i * 16 + (r >> 2) * 4;
                const int column = column0 + j * 32 + (r & 3) * 8;
                if (row >= m || column >= n) continue;
                float product = fmaf(acc_correction[i][j][r], 0x1p-11f, acc_main[i][j][r]);
                if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                    const int element = (i * FRAGMENTS_N + j) * 16 + r;
                    bad |= 1u << element;
                    continue;
                }
                put_element(c + row * ldc + column, product, alpha, beta);
            }

    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
    // does not: these elements are computed again from the operands themselves.
    while (bad) {
        const int element = __ffs((int)bad) - 1;
        bad &= bad - 1;
        const int r = element % 16;
        const int j = element / 16 % FRAGMENTS_N, i = element / (16 * FRAGMENTS_N);
        const long long row = row0 + i * 16 + (r >> 2) * 4;
        const long long column = column0 + j * 32 + (r & 3) * 8;
        float product = 0.0f;
        for (long long kk = 0; kk < k; ++kk)
            product = fmaf(a[row * lda + kk], b[column * ldb + kk], product);
        put_element(c + row * ldc + column, product, alpha, beta);
        atomicAdd(repaired, 1ull);
    }
}

}  // namespace gemmgen_79257caa
