// kernel    gemmgen_fp32_fma_4x64x512_73d3a3e0
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    fp32: FP32 itself, no matrix unit: the yardstick
// words     1 x f32, 24 bits; products A0 B0; dropped none
// promote   never (fp32's own)
// special   exact
// fragment  fma.rn.f32
// decided   block 4x64x512, warp 4x32x128, split lane, loads streamed, 6 stages, group 1, 1 slice of k, promote 0
// block     256 threads, 114816 B of dynamic shared memory
// target    sm_90
// plan      73d3a3e0, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_73d3a3e0 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

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
// The same of four neighbours in a row.
GG_DEVICE void put_four(float* to, const float (&product)[4], float alpha, float beta) {
    float4 was = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
    if (beta != 0.0f) was = *(float4*)to;
    *(float4*)to = make_float4(fmaf(alpha, product[0], beta * was.x), fmaf(alpha, product[1], beta * was.y),
                               fmaf(alpha, product[2], beta * was.z), fmaf(alpha, product[3], beta * was.w));
}

// C has 4 rows in a block's tile, and operand b 64 columns: 2 warps with 32 each, and 4 such sets that share the k. Each element
// of b is copied once, by the lane that multiplies it and to a place of its own in shared memory, in steps of STEP_K k: 5 are on the way while one
// is multiplied. The other operand's part of BLOCK_K k lies there for all warps, and the next such part is on its way.
constexpr int BLOCK_M = 4, BLOCK_N = 64, BLOCK_K = 512;
constexpr int THREADS = 256;
constexpr int STAGES = 6;
constexpr int GROUP_ROWS = 1;  // row of tiles that is worked off together: a raster group
constexpr int THIN = 4, WARP_ROWS = 32;
constexpr int WARPS_K = 4;  // along n; those that take turns at the steps of k
constexpr int LANES_K = 4, LANES = 8;  // lanes of a warp with other k; with other columns
constexpr int LANE_ROWS = WARP_ROWS / LANES;
constexpr int STEP_K = LANES_K * 4, STEPS = BLOCK_K / (STEP_K * WARPS_K);  // k of a step; a warp's steps in BLOCK_K
constexpr int PITCH = BLOCK_K + 4;  // floats from one row of the thin operand's part to the next
constexpr int HELD_BYTES = THIN * PITCH * 4;  // of such a part
constexpr int SLOT_BYTES = LANE_ROWS * 512;  // of a step of a warp on its way
constexpr int ROW_FLOATS = BLOCK_N;  // of a row of sums in shared memory

// Zero where `there` is false.
GG_DEVICE void load_4_if(float& x, const float* from, bool there) {
    asm volatile(
        "{\n"
        ".reg .pred there;\n"
        "setp.ne.s32 there, %2, 0;\n"
        "mov.f32 %0, 0f00000000;\n"
        "@there ld.global.nc.f32 %0, [%1];\n"
        "}\n"
        : "=f"(x)
        : "l"(from), "r"((int)there));
}

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

extern "C" __global__ void __launch_bounds__(THREADS)
gemmgen_fp32_fma_4x64x512_73d3a3e0(
    const float* __restrict__ a, long long lda,  // the operands themselves
    const float* __restrict__ b, long long ldb,
    float* __restrict__ c, long long ldc, int m, int n, int k, float alpha, float beta,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int warp_k = warp / 2, warp_row = warp % 2 * WARP_ROWS;
    const int lane_k = lane / LANES * 4, lane_row = lane % LANES * 4;

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

    const u32 held = shared_address(shared);
    const bool a_vectors = ((u64)a & 15) == 0 && lda % 4 == 0;
    // Starts the copies of a stage's part, zeros beyond m and k.
    const auto copy = [&](int stage) {
        const int stage_k = (first_stage + stage) * BLOCK_K;
        const u32 part = held + stage % 2 * HELD_BYTES;
        if (a_vectors) {
#pragma unroll 4
            for (int at = (int)threadIdx.x * 4; at < THIN * BLOCK_K; at += THREADS * 4) {
                const int row = at / BLOCK_K, in_k = at % BLOCK_K;
                const int there = m0 + row < m ? max(0, min(4, k - stage_k - in_k)) : 0;
                cp_async_16_part(part + (row * PITCH + in_k) * 4, there ? a + (long long)(m0 + row) * lda + stage_k + in_k : a, there * 4);
            }
        } else {
#pragma unroll 4
            for (int at = (int)threadIdx.x; at < THIN * BLOCK_K; at += THREADS) {
                const int row = at / BLOCK_K, in_k = at % BLOCK_K;
                const bool there = m0 + row < m && stage_k + in_k < k;
                cp_async_4_part(part + (row * PITCH + in_k) * 4, there ? a + (long long)(m0 + row) * lda + (stage_k + in_k) : a, there ? 4 : 0);
            }
        }
        cp_async_commit();
    };

    // [STAGES][LANE_ROWS][lanes] of four elements for each warp: four neighbours along n of one k.
    const unsigned char* const ring = shared + 2 * HELD_BYTES + (warp * STAGES * LANE_ROWS * 32 + lane) * 16;
    u32 to = shared_address(ring);
    const u32 ring_end = to + STAGES * SLOT_BYTES;
    int k_next = first_stage * BLOCK_K + warp_k * STEP_K;  // of this warp's next step
    const int k_end = min(k, (first_stage + stage_count) * BLOCK_K), first_k = k_next;
    // What lies beyond n is only ever multiplied into elements of C that are not stored: the last column stands in for it.
    const int first_row = n0 + warp_row + lane_row;
    const bool vectors = ((u64)b & 15) == 0 && ldb % 4 == 0 && n % 4 == 0;
    const float* from[LANE_ROWS / 4];
#pragma unroll
    for (int four = 0; four < LANE_ROWS / 4; ++four)
        from[four] = b + (long long)(k_next + lane_k) * ldb + min(first_row + four * (LANES * 4), n - 4);
    // Steps are copied in their order, zeros beyond k; each is a group, of which there are as many where nothing is left.
    const auto load = [&]() {
        if (k_next < k_end) {
            if (vectors) {
#pragma unroll
                for (int at = 0; at < LANE_ROWS; ++at)
                    cp_async_16_part(to + at * 512, from[at / 4] + at % 4 * ldb, k_next + lane_k + at % 4 < k ? 16 : 0);
            } else {  // one by one
#pragma unroll 1
                for (int at = 0; at < LANE_ROWS * 4; ++at) {
                    const int kk = k_next + lane_k + at / 4 % 4, row = min(first_row + at / 16 * (LANES * 4) + at % 4, n - 1);
                    const float* const element = b + (long long)kk * ldb + row;
                    cp_async_4_part(to + at / 4 * 512 + at % 4 * 4, kk < k ? element : b, kk < k ? 4 : 0);
                }
            }
#pragma unroll
            for (int four = 0; four < LANE_ROWS / 4; ++four) from[four] += STEP_K * WARPS_K * ldb;
            k_next += STEP_K * WARPS_K;
            to = to + SLOT_BYTES == ring_end ? ring_end - STAGES * SLOT_BYTES : to + SLOT_BYTES;
        }
        cp_async_commit();
    };

    // [row of the lane][row of the thin operand]
    float sum[LANE_ROWS * THIN] = {};
    const auto multiply = [&](const float (&raw)[LANE_ROWS][4], const float* thin) {
#pragma unroll
        for (int t = 0; t < THIN; ++t) {
            const float4 four = *(const float4*)(thin + t * PITCH);
            const float of_k[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int kk = 0; kk < 4; ++kk)
#pragma unroll
                for (int row = 0; row < LANE_ROWS; ++row)
                    sum[row * THIN + t] = fmaf(raw[row / 4 * 4 + kk][row % 4], of_k[kk], sum[row * THIN + t]);
        }
    };

    if (stage_count > 0) copy(0);  // in the first step's group
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) load();
    int slot = 0;
    int steps = k_end > first_k ? (k_end - first_k - 1) / (STEP_K * WARPS_K) + 1 : 0;  // of this warp that are left
#pragma unroll 1
    for (int stage = 0; stage < stage_count; ++stage, steps -= STEPS) {
        cp_async_wait<STAGES - 2>();
        __syncthreads();  // this stage's part is there, and all have done with the one before
        if (stage + 1 < stage_count) copy(stage + 1);  // in the next step's group, and so there when this stage is done
        const float* part = (const float*)(shared + stage % 2 * HELD_BYTES) + warp_k * STEP_K + lane_k;
#pragma unroll 1
        for (int step = min(STEPS, steps); step > 0; --step) {
            cp_async_wait<STAGES - 2>();
            float raw[LANE_ROWS][4];
#pragma unroll
            for (int at = 0; at < LANE_ROWS; ++at) {
                const float4 four = *(const float4*)(ring + slot * SLOT_BYTES + at * 512);
                raw[at][0] = four.x, raw[at][1] = four.y, raw[at][2] = four.z, raw[at][3] = four.w;
            }
            load();  // to where the step before this one lay
            multiply(raw, part);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
            part += STEP_K * WARPS_K;
        }
    }
    cp_async_wait<0>();
    __syncthreads();  // shared memory is free

    float zero = 0.0f;
#pragma unroll
    for (int at = 0; at < LANE_ROWS * THIN; ++at) zero = fmaf(sum[at], 0.0f, zero);
    if (__any_sync(0xffffffffu, zero != 0.0f)) {
        // An Inf or a NaN leaves no sum finite that it goes into. Those blocks count an operand's that have the first tile of the other.
        const auto count_if = [&](u64* counters, const float* from, bool there) {
            float element;
            load_4_if(element, from, there);
            count(counters, (__float_as_uint(element) & 0x7f800000u) == 0x7f800000u ? 1u << 20 : 0u);
        };
#pragma unroll 1
        for (int step_k = first_k; step_k < k_end; step_k += STEP_K * WARPS_K) {
#pragma unroll 1
            for (int at = lane; at - lane < WARP_ROWS * STEP_K; at += 32) {
                const int kk = step_k + at / WARP_ROWS;
                const int row = n0 + warp_row + at % WARP_ROWS;
                count_if(b_status, b + (long long)kk * ldb + (long long)row, m0 == 0 && row < n && kk < k);
            }
#pragma unroll 1
            for (int at = lane; at - lane < THIN * STEP_K; at += 32) {
                const int kk = step_k + at % STEP_K;
                const int row = m0 + at / STEP_K;
                count_if(a_status, a + (long long)row * lda + (long long)kk,
                         at < THIN * STEP_K && n0 == 0 && warp_row == 0 && row < m && kk < k);
            }
        }
    }

    int first_sum = 0;  // of those that this lane has at the end
    {  // with the lane whose number differs by 8: each keeps one half of the sums
        const bool upper = lane & 8;
#pragma unroll
        for (int at = 0; at < 8; ++at) {
            const float kept = upper ? sum[at + 8] : sum[at], sent = upper ? sum[at] : sum[at + 8];
            sum[at] = kept + __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(sent), 8));
        }
        first_sum += upper ? 8 : 0;
    }
    {  // with the lane whose number differs by 16: each keeps one half of the sums
        const bool upper = lane & 16;
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            const float kept = upper ? sum[at + 4] : sum[at], sent = upper ? sum[at] : sum[at + 4];
            sum[at] = kept + __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(sent), 16));
        }
        first_sum += upper ? 4 : 0;
    }
    // [WARPS_K][BLOCK_M][BLOCK_N]: each warp's sums.
    float* const sums = (float*)shared;
    {
#pragma unroll
        for (int at = 0; at < 4; ++at) {
            const int of_lane = (first_sum + at) / THIN, t = (first_sum + at) % THIN;
            const int row = warp_row + lane_row + of_lane / 4 * (LANES * 4) + of_lane % 4;
            sums[warp_k * (BLOCK_M * BLOCK_N) + t * BLOCK_N + row] = sum[at];
        }
    }
    __syncthreads();

    const auto element = [&](int in_row, int in_column) {
        const float* const from = sums + in_row * ROW_FLOATS + in_column;
        return from[0] + from[1 * 256] + from[2 * 256] + from[3 * 256];
    };
    const bool vectors_of_c = ldc % 4 == 0 && ((u64)c & 15) == 0;
#pragma unroll 1
    for (int at = (int)threadIdx.x * 4; at < BLOCK_M * BLOCK_N; at += THREADS * 4) {
        const int in_row = at / BLOCK_N, in_column = at % BLOCK_N;
        const long long row = m0 + in_row, first_column = n0 + in_column;
        if (row >= m) continue;
        // Four neighbours together where they all are in C, and finite.
        if (vectors_of_c && first_column + 4 <= n) {
            float product[4];
            const float* const from = sums + in_row * ROW_FLOATS + in_column;
            float4 sum = *(const float4*)from;
            const float4 part_1 = *(const float4*)(from + 1 * 256);
            sum.x += part_1.x, sum.y += part_1.y, sum.z += part_1.z, sum.w += part_1.w;
            const float4 part_2 = *(const float4*)(from + 2 * 256);
            sum.x += part_2.x, sum.y += part_2.y, sum.z += part_2.z, sum.w += part_2.w;
            const float4 part_3 = *(const float4*)(from + 3 * 256);
            sum.x += part_3.x, sum.y += part_3.y, sum.z += part_3.z, sum.w += part_3.w;
            product[0] = sum.x, product[1] = sum.y, product[2] = sum.z, product[3] = sum.w;
            if (fabsf(product[0]) < __uint_as_float(0x7f800000u) && fabsf(product[1]) < __uint_as_float(0x7f800000u) &&
                fabsf(product[2]) < __uint_as_float(0x7f800000u) && fabsf(product[3]) < __uint_as_float(0x7f800000u)) {
                put_four(c + row * ldc + first_column, product, alpha, beta);
                continue;
            }
        }
#pragma unroll 1
        for (int e = 0; e < 4; ++e) {
            const long long column = first_column + e;
            if (column >= n) break;
            float product = element(in_row, in_column + e);
            // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32
            // does not: these elements are computed again from the operands themselves.
            if (!(fabsf(product) < __uint_as_float(0x7f800000u))) {
                product = 0.0f;
#pragma unroll 1
                for (long long kk = 0; kk < k; ++kk)
                    product = fmaf(a[row * lda + kk], b[kk * ldb + column], product);
                atomicAdd(repaired, 1ull);
            }
            put_element(c + row * ldc + column, product, alpha, beta);
        }
    }
}

}  // namespace gemmgen_73d3a3e0
