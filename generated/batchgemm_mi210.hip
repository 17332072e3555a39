// kernel    gemmgen_fp32_fma_64x64x16_97c546b2
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    fp32: FP32 itself, no matrix unit: the yardstick
// words     1 x f32, 24 bits; products A0 B0; dropped none
// promote   never (fp32's own)
// special   exact
// fragment  v_fma_f32
// decided   block 64x64x16, warp 32x32x16, split register, loads grouped, 2 stages, group 1, 1 slice of k, promote 0
// block     256 threads, 25600 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx90a
// plan      97c546b2, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_97c546b2 {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

#define GG_DEVICE static inline __attribute__((device, always_inline))
#define GG_SHARED __attribute__((address_space(3)))
#if __clang_major__ >= 20
#define GG_LOCAL , "local"  // fences that order shared memory alone
#else
#define GG_LOCAL
#endif

typedef float float4 __attribute__((ext_vector_type(4)));
typedef u32x4 uint4;
GG_DEVICE u32 __float_as_uint(float x) { return __builtin_bit_cast(u32, x); }
GG_DEVICE float __uint_as_float(u32 x) { return __builtin_bit_cast(float, x); }
GG_DEVICE float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
GG_DEVICE float fabsf(float x) { return __builtin_fabsf(x); }
template <typename T>
GG_DEVICE T min(T x, T y) { return x < y ? x : y; }
template <typename T>
GG_DEVICE T max(T x, T y) { return x < y ? y : x; }

GG_DEVICE int thread_id() { return (int)__builtin_amdgcn_workitem_id_x(); }
GG_DEVICE int block_id() { return (int)__builtin_amdgcn_workgroup_id_x(); }

// Address of shared memory (LDS), as 32 bits.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)(u64)(GG_SHARED const u8*)pointer; }

// Barrier of the block, which orders shared memory and lets loads from global memory go on.
GG_DEVICE void block_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup" GG_LOCAL);
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup" GG_LOCAL);
}

// What a wavefront's lanes have written to shared memory is there for its others: they go in step, so that only the compiler is told.
GG_DEVICE void wavefront_barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "wavefront");
    __builtin_amdgcn_wave_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "wavefront");
}

// `x` of the lane whose number differs from this one's in the bits of `mask`.
GG_DEVICE u32 shuffle_xor(u32 x, int mask) {
    const int lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    return (u32)__builtin_amdgcn_ds_bpermute((lane ^ mask) * 4, (int)x);
}

GG_DEVICE float widen(u32 bits) { return __uint_as_float(bits); }

GG_DEVICE u32 round_nearest_even(float x) { return __float_as_uint(x); }  // nothing is cut

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
    if (!(__builtin_amdgcn_ballot_w64(counts != 0) != 0)) return;
#pragma unroll
    for (int mask = 32; mask > 0; mask /= 2) counts += shuffle_xor(counts, mask);
    if (thread_id() % 64 == 0) {
#pragma unroll
        for (int i = 0; i < 3; ++i) {
            const u64 found = (counts >> 10 * i) & 1023u;
            if (found) __hip_atomic_fetch_add(counters + i, found, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }
    }
}

GG_DEVICE void load_16(u32 (&r)[4], const void* from) {
    const u32x4 four = *(const u32x4*)from;
    r[0] = four.x, r[1] = four.y, r[2] = four.z, r[3] = four.w;
}

GG_DEVICE float load_4(const float* from) { return *from; }

GG_DEVICE void store_shared_16(u32 to, const u32 (&r)[4]) { *(GG_SHARED u32x4*)to = u32x4{r[0], r[1], r[2], r[3]}; }

GG_DEVICE float load_shared_4(u32 from) { return *(GG_SHARED const float*)from; }

GG_DEVICE void load_shared_16(float* x, u32 from) {
    const float4 four = *(GG_SHARED const float4*)from;
    x[0] = four.x, x[1] = four.y, x[2] = four.z, x[3] = four.w;
}

// c += a b, this lane's rows and columns over four k, one after another, each rounded to nearest: the sums of a sequential dot product in FP32.
template <int ROWS, int COLUMNS>
GG_DEVICE void fma_outer(float (&c)[ROWS * COLUMNS], const float (&a)[4 * ROWS], const float (&b)[4 * COLUMNS]) {
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int i = 0; i < ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) c[COLUMNS * i + j] = fmaf(a[4 * i + k], b[4 * j + k], c[COLUMNS * i + j]);
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

// The tiles, the smallest first.

// A tile of C: of which product, its first row and column, and the tile's number; -1 where there is nothing more to do.
struct Work {
    Product product;
    int m0, n0, tile;
};

// One tile of the list that the host made: the product, first row and column, the tile's number.
struct alignas(16) Listed {
    int entry, m0, n0, tile;
};

// What a block has to do: one tile.
struct Works {
    const Products& from;
    const Listed* list;
    int turn;
};

GG_DEVICE bool is_next(const Works&, int at, int) { return at == 0; }
GG_DEVICE Work work_at(const Works& works, int at) {
    const Listed one = works.list[works.turn + at];
    return {product_at(works.from, one.entry), one.m0, one.n0, one.tile};
}
GG_DEVICE void look_up(const Works&, int) {}

// Whether one of these elements is neither zero nor of a magnitude that words surely hold.
template <int N>
GG_DEVICE bool unusual(const float (&x)[N]) {
    u32 most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        most = max(most, bits);
    }
    return most >= 0x7f800000u;
}

// Whether rows can be copied by 16 bytes.
GG_DEVICE bool is_aligned(const float* from, int pitch) { return (((u64)from | (u64)pitch * 4) & 15) == 0; }

// What is summed of a product. BLAS: with alpha = 0 the operands are not looked at.
GG_DEVICE int summed(const Product& product) { return product.alpha == 0.0f ? 0 : max(product.k, 0); }

// Stages of k of a product, one of zeros where there is nothing to sum.
GG_DEVICE int stages_of(const Product& product, int block_k) { return max(1, (summed(product) + block_k - 1) / block_k); }

// ---- tile 0: 16 x 16 of C by 1 x 2 warps of 16 x 8, 16 of k a stage
namespace tile_0 {
constexpr int BLOCK_M = 16, BLOCK_N = 16, BLOCK_K = 16;
constexpr int WARP_M = 16, WARP_N = 8, WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m16n8k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int LANE_ROWS = 2, LANE_COLUMNS = 1;  // that a lane multiplies
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Operand a lies [m][k]: lanes of 8 rows read runs of 4 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 64 + chunk * 16; }

// Works off the block's tiles from work `at` on, as long as they are of this size.
GG_DEVICE void work_off(
    Works& works, int& at, unsigned char* shared,
    u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
{
    if (!is_next(works, at, 0)) return;
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // What is loaded next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
    // unaligned rows cost no more sectors than aligned ones.
    int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
    const float* a_from = nullptr;  // this tile's first element of the stage
    int a_outer = 0;  // rows or columns of a inside its matrix
    int a_pitch = 0;
    const float* b_from = nullptr;  // this tile's first element of the stage
    int b_outer = 0;  // rows or columns of b inside its matrix
    int b_pitch = 0;
    int k_left = 0;
    const auto take = [&]() __attribute__((always_inline)) {
        if (!is_next(works, ahead, 0)) return;
        const Work work = work_at(works, ahead);
        ahead_left = stages_of(work.product, BLOCK_K);
        k_left = summed(work.product);
        a_pitch = work.product.lda;
        a_from = work.product.a + (long long)work.m0 * a_pitch;
        a_outer = work.product.m - work.m0;
        b_pitch = work.product.ldb;
        b_from = work.product.b + work.n0;
        b_outer = work.product.n - work.n0;
        look_up(works, ahead + 1);
    };
    take();
    float a_held[1][4], b_held[1][4];  // a stage on its way to shared memory
    bool holds = false;
    const auto fill = [&]() __attribute__((always_inline)) {
        holds = ahead_left > 0;
        if (!holds) return;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = a_from + (long long)row0 * a_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 32;
                const bool inside = row < a_outer && row < 16;
                if (is_aligned(a_from, a_pitch) && inside && column + 4 <= k_left) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) a_held[i][e] = inside && column + e < k_left ? load_4(element + e) : 0.0f;
                }
            }
        }
        a_from += BLOCK_K;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = b_from + (long long)row0 * b_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 32;
                const bool inside = row < k_left && row < 16;
                if (is_aligned(b_from, b_pitch) && inside && column + 4 <= b_outer) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) b_held[i][e] = inside && column + e < b_outer ? load_4(element + e) : 0.0f;
                }
            }
        }
        b_from += (long long)BLOCK_K * b_pitch;
        k_left -= BLOCK_K;
        if (--ahead_left == 0) {
            ++ahead;
            take();
        }
    };
    // Puts that stage into the place at `stage`.
    const auto put = [&](u32 stage) __attribute__((always_inline)) {
        if (!holds) return;
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 32, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
            if (row < 16) store_shared_16(stage + at_a(row, chunk), four);
        }
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 32, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
            if (row < 16) store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
        }
    };

    fill();
    put(stages);
    block_barrier();
    int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
    for (; is_next(works, at, 0); ++at) {
        const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
        const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
        float acc_main[FRAGMENTS_M][FRAGMENTS_N][2] = {};  // in FP32 registers
        const int lane_row = (lane >> 3), lane_column = (lane & 7);
        float a_fragments[1][1][1][8], b_fragments[1][1][1][4];

        // Fetches what step `step` of the stage at `stage` multiplies.
        const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_m + lane_row + i * 8;
                float four[4];
                load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
            }
            {
                constexpr int i = 0;

                const int row = warp_n + lane_column + i * 8;
                float four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = load_shared_4(stage + A_BYTES + at_b(step * 4 + e, row / 4) + row % 4 * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) b_fragments[buffer][0][0][4 * i + e] = four[e];
            }
        };
        const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
            if (counts_a)
#pragma unroll 1
                for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(a_status, losses(packed, four));
                }
            if (counts_b)
#pragma unroll 1
                for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + A_BYTES + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(b_status, losses(packed, four));
                }
        };
        // One step of k: 1 word product for each fragment of C.
        const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
        };
#pragma unroll 1
        for (int index = 0; index < stage_count; ++index) {
            const u32 stage = stages + slot * STAGE_BYTES;
            fill();
            count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(0, stage, step);
                multiply(0);
            }
            put(stages + (slot ^ 1) * STAGE_BYTES);  // which no one has read since the last barrier
            block_barrier();
            slot ^= 1;
        }

        // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
        int again = at;
        asm volatile("" : "+v"(again));
        const Work work = work_at(works, again);
        const int m = work.product.m, n = work.product.n, k = work.product.k, m0 = work.m0, n0 = work.n0;
        const float *const a = work.product.a, *const b = work.product.b;
        float* const c = work.product.c;
        const long long lda = work.product.lda, ldb = work.product.ldb, ldc = work.product.ldc;
        const float alpha = work.product.alpha, beta = work.product.beta;
        const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
        const int my_row = (lane >> 3), my_column = (lane & 7);
        float* const line = (float*)(shared + 16384) + warp * 96;
        // A lane stores one column, of one row in 8.
        const int row0 = lane / 8, in_line = lane % 8;
        const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
        for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
            const int i = part / 2, first = part % 2 * 8;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const int in_row = my_row + r * 8, in_column = my_column + j * 8;
                    if (in_row < first || in_row >= first + 8) continue;
                    line[(in_row - first) * 12 + in_column] = acc_main[i][j][r];
                }
            wavefront_barrier();
            const int in_c = m0 + warp_m + i * 16 + first;  // this part's first row
            const int left = min(8, m - in_c);  // rows of it that C has
            float product[1];
            {
                constexpr int x = 0;

                product[x] = line[(row0 + x * 8) * 12 + in_line];
            }
            float zero = 0.0f;  // as long as all of them are finite
            {
                constexpr int x = 0;

                zero = fmaf(product[x], 0.0f, zero);
            }
            if (zero != 0.0f) {
                // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                // element is computed again from the operands themselves.
#pragma unroll 1
                for (int at = row0; at < left; at += 8)
#pragma unroll 1
                    for (int beside = 0; beside < min(8, columns); beside += 8) {
                        float* const element = line + at * 12 + in_line + beside;
                        if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                        const long long row = in_c + at, column = n0 + warp_n + in_line + beside;
                        float again = 0.0f;
#pragma unroll 1
                        for (long long kk = 0; kk < k; ++kk)
                            again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                        *element = again;
                        __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                    }
                {
                    constexpr int x = 0;

                    product[x] = line[(row0 + x * 8) * 12 + in_line];
                }
            }
            float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
            if (read_c) {
                {
                    constexpr int x = 0;

                    float* const element = to + x * 8 * ldc;
                    if (row0 + x * 8 < left && columns > 0) *element = fmaf(alpha, product[x], beta * *element);
                }
            } else {
                {
                    constexpr int x = 0;

                    float* const element = to + x * 8 * ldc;
                    if (row0 + x * 8 < left && columns > 0) *element = alpha * product[x];
                }
            }
            wavefront_barrier();
        }
    }
}
}  // namespace tile_0

// ---- tile 1: 16 x 32 of C by 1 x 2 warps of 16 x 16, 16 of k a stage
namespace tile_1 {
constexpr int BLOCK_M = 16, BLOCK_N = 32, BLOCK_K = 16;
constexpr int WARP_M = 16, WARP_N = 16, WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m16n16k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int LANE_ROWS = 2, LANE_COLUMNS = 2;  // that a lane multiplies
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Operand a lies [m][k]: lanes of 8 rows read runs of 4 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 128 + chunk * 16; }

// Works off the block's tiles from work `at` on, as long as they are of this size.
GG_DEVICE void work_off(
    Works& works, int& at, unsigned char* shared,
    u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
{
    if (!is_next(works, at, 1)) return;
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // What is loaded next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
    // unaligned rows cost no more sectors than aligned ones.
    int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
    const float* a_from = nullptr;  // this tile's first element of the stage
    int a_outer = 0;  // rows or columns of a inside its matrix
    int a_pitch = 0;
    const float* b_from = nullptr;  // this tile's first element of the stage
    int b_outer = 0;  // rows or columns of b inside its matrix
    int b_pitch = 0;
    int k_left = 0;
    const auto take = [&]() __attribute__((always_inline)) {
        if (!is_next(works, ahead, 1)) return;
        const Work work = work_at(works, ahead);
        ahead_left = stages_of(work.product, BLOCK_K);
        k_left = summed(work.product);
        a_pitch = work.product.lda;
        a_from = work.product.a + (long long)work.m0 * a_pitch;
        a_outer = work.product.m - work.m0;
        b_pitch = work.product.ldb;
        b_from = work.product.b + work.n0;
        b_outer = work.product.n - work.n0;
        look_up(works, ahead + 1);
    };
    take();
    float a_held[1][4], b_held[1][4];  // a stage on its way to shared memory
    bool holds = false;
    const auto fill = [&]() __attribute__((always_inline)) {
        holds = ahead_left > 0;
        if (!holds) return;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = a_from + (long long)row0 * a_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 32;
                const bool inside = row < a_outer && row < 16;
                if (is_aligned(a_from, a_pitch) && inside && column + 4 <= k_left) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) a_held[i][e] = inside && column + e < k_left ? load_4(element + e) : 0.0f;
                }
            }
        }
        a_from += BLOCK_K;
        {
            const int row0 = thread_id() / 8, column = thread_id() % 8 * 4;
            const float* element = b_from + (long long)row0 * b_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 16;
                const bool inside = row < k_left;
                if (is_aligned(b_from, b_pitch) && inside && column + 4 <= b_outer) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) b_held[i][e] = inside && column + e < b_outer ? load_4(element + e) : 0.0f;
                }
            }
        }
        b_from += (long long)BLOCK_K * b_pitch;
        k_left -= BLOCK_K;
        if (--ahead_left == 0) {
            ++ahead;
            take();
        }
    };
    // Puts that stage into the place at `stage`.
    const auto put = [&](u32 stage) __attribute__((always_inline)) {
        if (!holds) return;
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 32, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
            if (row < 16) store_shared_16(stage + at_a(row, chunk), four);
        }
        {
            constexpr int i = 0;

            const int row = thread_id() / 8 + i * 16, chunk = thread_id() % 8;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
            store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
        }
    };

    fill();
    put(stages);
    block_barrier();
    int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
    for (; is_next(works, at, 1); ++at) {
        const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
        const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
        float acc_main[FRAGMENTS_M][FRAGMENTS_N][4] = {};  // in FP32 registers
        const int lane_row = (lane >> 3), lane_column = (lane & 7);
        float a_fragments[1][1][1][8], b_fragments[1][1][1][8];

        // Fetches what step `step` of the stage at `stage` multiplies.
        const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_m + lane_row + i * 8;
                float four[4];
                load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_n + lane_column + i * 8;
                float four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = load_shared_4(stage + A_BYTES + at_b(step * 4 + e, row / 4) + row % 4 * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) b_fragments[buffer][0][0][4 * i + e] = four[e];
            }
        };
        const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
            if (counts_a)
#pragma unroll 1
                for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(a_status, losses(packed, four));
                }
            if (counts_b)
#pragma unroll 1
                for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + A_BYTES + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(b_status, losses(packed, four));
                }
        };
        // One step of k: 1 word product for each fragment of C.
        const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
        };
#pragma unroll 1
        for (int index = 0; index < stage_count; ++index) {
            const u32 stage = stages + slot * STAGE_BYTES;
            fill();
            count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(0, stage, step);
                multiply(0);
            }
            put(stages + (slot ^ 1) * STAGE_BYTES);  // which no one has read since the last barrier
            block_barrier();
            slot ^= 1;
        }

        // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
        int again = at;
        asm volatile("" : "+v"(again));
        const Work work = work_at(works, again);
        const int m = work.product.m, n = work.product.n, k = work.product.k, m0 = work.m0, n0 = work.n0;
        const float *const a = work.product.a, *const b = work.product.b;
        float* const c = work.product.c;
        const long long lda = work.product.lda, ldb = work.product.ldb, ldc = work.product.ldc;
        const float alpha = work.product.alpha, beta = work.product.beta;
        const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
        const int my_row = (lane >> 3), my_column = (lane & 7);
        float* const line = (float*)(shared + 16384) + warp * 160;
        // A lane stores one column, of one row in 4.
        const int row0 = lane / 16, in_line = lane % 16;
        const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
        for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
            const int i = part / 2, first = part % 2 * 8;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 4; ++r) {
                    const int in_row = my_row + (r >> 1) * 8, in_column = my_column + j * 16 + (r & 1) * 8;
                    if (in_row < first || in_row >= first + 8) continue;
                    line[(in_row - first) * 20 + in_column] = acc_main[i][j][r];
                }
            wavefront_barrier();
            const int in_c = m0 + warp_m + i * 16 + first;  // this part's first row
            const int left = min(8, m - in_c);  // rows of it that C has
            float product[2];
#pragma unroll
            for (int x = 0; x < 2; ++x) {
                product[x] = line[(row0 + x * 4) * 20 + in_line];
            }
            float zero = 0.0f;  // as long as all of them are finite
#pragma unroll
            for (int x = 0; x < 2; ++x) {
                zero = fmaf(product[x], 0.0f, zero);
            }
            if (zero != 0.0f) {
                // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                // element is computed again from the operands themselves.
#pragma unroll 1
                for (int at = row0; at < left; at += 4)
#pragma unroll 1
                    for (int beside = 0; beside < min(16, columns); beside += 16) {
                        float* const element = line + at * 20 + in_line + beside;
                        if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                        const long long row = in_c + at, column = n0 + warp_n + in_line + beside;
                        float again = 0.0f;
#pragma unroll 1
                        for (long long kk = 0; kk < k; ++kk)
                            again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                        *element = again;
                        __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                    }
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    product[x] = line[(row0 + x * 4) * 20 + in_line];
                }
            }
            float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
            if (read_c) {
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = fmaf(alpha, product[x], beta * *element);
                }
            } else {
#pragma unroll
                for (int x = 0; x < 2; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = alpha * product[x];
                }
            }
            wavefront_barrier();
        }
    }
}
}  // namespace tile_1

// ---- tile 2: 32 x 32 of C by 1 x 2 warps of 32 x 16, 16 of k a stage
namespace tile_2 {
constexpr int BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 16;
constexpr int WARP_M = 32, WARP_N = 16, WARPS_N = 2;
constexpr int THREADS = 128;
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m32n16k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int LANE_ROWS = 4, LANE_COLUMNS = 2;  // that a lane multiplies
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Operand a lies [m][k]: lanes of 8 rows read runs of 4 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 128 + chunk * 16; }

// Works off the block's tiles from work `at` on, as long as they are of this size.
GG_DEVICE void work_off(
    Works& works, int& at, unsigned char* shared,
    u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
{
    if (!is_next(works, at, 2)) return;
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // What is loaded next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
    // unaligned rows cost no more sectors than aligned ones.
    int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
    const float* a_from = nullptr;  // this tile's first element of the stage
    int a_outer = 0;  // rows or columns of a inside its matrix
    int a_pitch = 0;
    const float* b_from = nullptr;  // this tile's first element of the stage
    int b_outer = 0;  // rows or columns of b inside its matrix
    int b_pitch = 0;
    int k_left = 0;
    const auto take = [&]() __attribute__((always_inline)) {
        if (!is_next(works, ahead, 2)) return;
        const Work work = work_at(works, ahead);
        ahead_left = stages_of(work.product, BLOCK_K);
        k_left = summed(work.product);
        a_pitch = work.product.lda;
        a_from = work.product.a + (long long)work.m0 * a_pitch;
        a_outer = work.product.m - work.m0;
        b_pitch = work.product.ldb;
        b_from = work.product.b + work.n0;
        b_outer = work.product.n - work.n0;
        look_up(works, ahead + 1);
    };
    take();
    float a_held[1][4], b_held[1][4];  // a stage on its way to shared memory
    bool holds = false;
    const auto fill = [&]() __attribute__((always_inline)) {
        holds = ahead_left > 0;
        if (!holds) return;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = a_from + (long long)row0 * a_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 32;
                const bool inside = row < a_outer;
                if (is_aligned(a_from, a_pitch) && inside && column + 4 <= k_left) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) a_held[i][e] = inside && column + e < k_left ? load_4(element + e) : 0.0f;
                }
            }
        }
        a_from += BLOCK_K;
        {
            const int row0 = thread_id() / 8, column = thread_id() % 8 * 4;
            const float* element = b_from + (long long)row0 * b_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 16;
                const bool inside = row < k_left;
                if (is_aligned(b_from, b_pitch) && inside && column + 4 <= b_outer) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) b_held[i][e] = inside && column + e < b_outer ? load_4(element + e) : 0.0f;
                }
            }
        }
        b_from += (long long)BLOCK_K * b_pitch;
        k_left -= BLOCK_K;
        if (--ahead_left == 0) {
            ++ahead;
            take();
        }
    };
    // Puts that stage into the place at `stage`.
    const auto put = [&](u32 stage) __attribute__((always_inline)) {
        if (!holds) return;
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 32, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
            store_shared_16(stage + at_a(row, chunk), four);
        }
        {
            constexpr int i = 0;

            const int row = thread_id() / 8 + i * 16, chunk = thread_id() % 8;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
            store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
        }
    };

    fill();
    put(stages);
    block_barrier();
    int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
    for (; is_next(works, at, 2); ++at) {
        const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
        const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
        float acc_main[FRAGMENTS_M][FRAGMENTS_N][8] = {};  // in FP32 registers
        const int lane_row = (lane >> 3), lane_column = (lane & 7);
        float a_fragments[1][1][1][16], b_fragments[1][1][1][8];

        // Fetches what step `step` of the stage at `stage` multiplies.
        const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp_m + lane_row + i * 8;
                float four[4];
                load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_n + lane_column + i * 8;
                float four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = load_shared_4(stage + A_BYTES + at_b(step * 4 + e, row / 4) + row % 4 * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) b_fragments[buffer][0][0][4 * i + e] = four[e];
            }
        };
        const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
            if (counts_a)
#pragma unroll 1
                for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(a_status, losses(packed, four));
                }
            if (counts_b)
#pragma unroll 1
                for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + A_BYTES + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(b_status, losses(packed, four));
                }
        };
        // One step of k: 1 word product for each fragment of C.
        const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
        };
#pragma unroll 1
        for (int index = 0; index < stage_count; ++index) {
            const u32 stage = stages + slot * STAGE_BYTES;
            fill();
            count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(0, stage, step);
                multiply(0);
            }
            put(stages + (slot ^ 1) * STAGE_BYTES);  // which no one has read since the last barrier
            block_barrier();
            slot ^= 1;
        }

        // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
        int again = at;
        asm volatile("" : "+v"(again));
        const Work work = work_at(works, again);
        const int m = work.product.m, n = work.product.n, k = work.product.k, m0 = work.m0, n0 = work.n0;
        const float *const a = work.product.a, *const b = work.product.b;
        float* const c = work.product.c;
        const long long lda = work.product.lda, ldb = work.product.ldb, ldc = work.product.ldc;
        const float alpha = work.product.alpha, beta = work.product.beta;
        const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
        const int my_row = (lane >> 3), my_column = (lane & 7);
        float* const line = (float*)(shared + 16384) + warp * 320;
        // A lane stores one column, of one row in 4.
        const int row0 = lane / 16, in_line = lane % 16;
        const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
        for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
            const int i = part / 2, first = part % 2 * 16;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 8; ++r) {
                    const int in_row = my_row + (r >> 1) * 8, in_column = my_column + j * 16 + (r & 1) * 8;
                    if (in_row < first || in_row >= first + 16) continue;
                    line[(in_row - first) * 20 + in_column] = acc_main[i][j][r];
                }
            wavefront_barrier();
            const int in_c = m0 + warp_m + i * 32 + first;  // this part's first row
            const int left = min(16, m - in_c);  // rows of it that C has
            float product[4];
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                product[x] = line[(row0 + x * 4) * 20 + in_line];
            }
            float zero = 0.0f;  // as long as all of them are finite
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                zero = fmaf(product[x], 0.0f, zero);
            }
            if (zero != 0.0f) {
                // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                // element is computed again from the operands themselves.
#pragma unroll 1
                for (int at = row0; at < left; at += 4)
#pragma unroll 1
                    for (int beside = 0; beside < min(16, columns); beside += 16) {
                        float* const element = line + at * 20 + in_line + beside;
                        if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                        const long long row = in_c + at, column = n0 + warp_n + in_line + beside;
                        float again = 0.0f;
#pragma unroll 1
                        for (long long kk = 0; kk < k; ++kk)
                            again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                        *element = again;
                        __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                    }
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    product[x] = line[(row0 + x * 4) * 20 + in_line];
                }
            }
            float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
            if (read_c) {
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = fmaf(alpha, product[x], beta * *element);
                }
            } else {
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = alpha * product[x];
                }
            }
            wavefront_barrier();
        }
    }
}
}  // namespace tile_2

// ---- tile 3: 32 x 64 of C by 1 x 4 warps of 32 x 16, 16 of k a stage
namespace tile_3 {
constexpr int BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 16;
constexpr int WARP_M = 32, WARP_N = 16, WARPS_N = 4;
constexpr int THREADS = 256;
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m32n16k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int LANE_ROWS = 4, LANE_COLUMNS = 2;  // that a lane multiplies
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Operand a lies [m][k]: lanes of 8 rows read runs of 4 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 256 + chunk * 16; }

// Works off the block's tiles from work `at` on, as long as they are of this size.
GG_DEVICE void work_off(
    Works& works, int& at, unsigned char* shared,
    u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
{
    if (!is_next(works, at, 3)) return;
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // What is loaded next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
    // unaligned rows cost no more sectors than aligned ones.
    int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
    const float* a_from = nullptr;  // this tile's first element of the stage
    int a_outer = 0;  // rows or columns of a inside its matrix
    int a_pitch = 0;
    const float* b_from = nullptr;  // this tile's first element of the stage
    int b_outer = 0;  // rows or columns of b inside its matrix
    int b_pitch = 0;
    int k_left = 0;
    const auto take = [&]() __attribute__((always_inline)) {
        if (!is_next(works, ahead, 3)) return;
        const Work work = work_at(works, ahead);
        ahead_left = stages_of(work.product, BLOCK_K);
        k_left = summed(work.product);
        a_pitch = work.product.lda;
        a_from = work.product.a + (long long)work.m0 * a_pitch;
        a_outer = work.product.m - work.m0;
        b_pitch = work.product.ldb;
        b_from = work.product.b + work.n0;
        b_outer = work.product.n - work.n0;
        look_up(works, ahead + 1);
    };
    take();
    float a_held[1][4], b_held[1][4];  // a stage on its way to shared memory
    bool holds = false;
    const auto fill = [&]() __attribute__((always_inline)) {
        holds = ahead_left > 0;
        if (!holds) return;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = a_from + (long long)row0 * a_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 64;
                const bool inside = row < a_outer && row < 32;
                if (is_aligned(a_from, a_pitch) && inside && column + 4 <= k_left) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) a_held[i][e] = inside && column + e < k_left ? load_4(element + e) : 0.0f;
                }
            }
        }
        a_from += BLOCK_K;
        {
            const int row0 = thread_id() / 16, column = thread_id() % 16 * 4;
            const float* element = b_from + (long long)row0 * b_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 16;
                const bool inside = row < k_left;
                if (is_aligned(b_from, b_pitch) && inside && column + 4 <= b_outer) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) b_held[i][e] = inside && column + e < b_outer ? load_4(element + e) : 0.0f;
                }
            }
        }
        b_from += (long long)BLOCK_K * b_pitch;
        k_left -= BLOCK_K;
        if (--ahead_left == 0) {
            ++ahead;
            take();
        }
    };
    // Puts that stage into the place at `stage`.
    const auto put = [&](u32 stage) __attribute__((always_inline)) {
        if (!holds) return;
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 64, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
            if (row < 32) store_shared_16(stage + at_a(row, chunk), four);
        }
        {
            constexpr int i = 0;

            const int row = thread_id() / 16 + i * 16, chunk = thread_id() % 16;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
            store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
        }
    };

    fill();
    put(stages);
    block_barrier();
    int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
    for (; is_next(works, at, 3); ++at) {
        const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
        const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
        float acc_main[FRAGMENTS_M][FRAGMENTS_N][8] = {};  // in FP32 registers
        const int lane_row = (lane >> 3), lane_column = (lane & 7);
        float a_fragments[1][1][1][16], b_fragments[1][1][1][8];

        // Fetches what step `step` of the stage at `stage` multiplies.
        const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp_m + lane_row + i * 8;
                float four[4];
                load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int row = warp_n + lane_column + i * 8;
                float four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = load_shared_4(stage + A_BYTES + at_b(step * 4 + e, row / 4) + row % 4 * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) b_fragments[buffer][0][0][4 * i + e] = four[e];
            }
        };
        const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
            if (counts_a)
#pragma unroll 1
                for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(a_status, losses(packed, four));
                }
            if (counts_b)
#pragma unroll 1
                for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + A_BYTES + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(b_status, losses(packed, four));
                }
        };
        // One step of k: 1 word product for each fragment of C.
        const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
        };
#pragma unroll 1
        for (int index = 0; index < stage_count; ++index) {
            const u32 stage = stages + slot * STAGE_BYTES;
            fill();
            count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(0, stage, step);
                multiply(0);
            }
            put(stages + (slot ^ 1) * STAGE_BYTES);  // which no one has read since the last barrier
            block_barrier();
            slot ^= 1;
        }

        // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
        int again = at;
        asm volatile("" : "+v"(again));
        const Work work = work_at(works, again);
        const int m = work.product.m, n = work.product.n, k = work.product.k, m0 = work.m0, n0 = work.n0;
        const float *const a = work.product.a, *const b = work.product.b;
        float* const c = work.product.c;
        const long long lda = work.product.lda, ldb = work.product.ldb, ldc = work.product.ldc;
        const float alpha = work.product.alpha, beta = work.product.beta;
        const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
        const int my_row = (lane >> 3), my_column = (lane & 7);
        float* const line = (float*)(shared + 16384) + warp * 320;
        // A lane stores one column, of one row in 4.
        const int row0 = lane / 16, in_line = lane % 16;
        const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
        for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
            const int i = part / 2, first = part % 2 * 16;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 8; ++r) {
                    const int in_row = my_row + (r >> 1) * 8, in_column = my_column + j * 16 + (r & 1) * 8;
                    if (in_row < first || in_row >= first + 16) continue;
                    line[(in_row - first) * 20 + in_column] = acc_main[i][j][r];
                }
            wavefront_barrier();
            const int in_c = m0 + warp_m + i * 32 + first;  // this part's first row
            const int left = min(16, m - in_c);  // rows of it that C has
            float product[4];
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                product[x] = line[(row0 + x * 4) * 20 + in_line];
            }
            float zero = 0.0f;  // as long as all of them are finite
#pragma unroll
            for (int x = 0; x < 4; ++x) {
                zero = fmaf(product[x], 0.0f, zero);
            }
            if (zero != 0.0f) {
                // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                // element is computed again from the operands themselves.
#pragma unroll 1
                for (int at = row0; at < left; at += 4)
#pragma unroll 1
                    for (int beside = 0; beside < min(16, columns); beside += 16) {
                        float* const element = line + at * 20 + in_line + beside;
                        if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                        const long long row = in_c + at, column = n0 + warp_n + in_line + beside;
                        float again = 0.0f;
#pragma unroll 1
                        for (long long kk = 0; kk < k; ++kk)
                            again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                        *element = again;
                        __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                    }
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    product[x] = line[(row0 + x * 4) * 20 + in_line];
                }
            }
            float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
            if (read_c) {
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = fmaf(alpha, product[x], beta * *element);
                }
            } else {
#pragma unroll
                for (int x = 0; x < 4; ++x) {
                    float* const element = to + x * 4 * ldc;
                    if (row0 + x * 4 < left && columns > 0) *element = alpha * product[x];
                }
            }
            wavefront_barrier();
        }
    }
}
}  // namespace tile_3

// ---- tile 4: 64 x 64 of C by 2 x 2 warps of 32 x 32, 16 of k a stage
namespace tile_4 {
constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 16;
constexpr int WARP_M = 32, WARP_N = 32, WARPS_N = 2;
constexpr int THREADS = 256;
constexpr int FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // fragments of m32n32k4 in a warp
constexpr int K_STEPS = 4;  // instructions along k in a stage
constexpr int LANE_ROWS = 4, LANE_COLUMNS = 4;  // that a lane multiplies
constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

// Operand a lies [m][k]: lanes of 8 rows read runs of 4 k together.
GG_DEVICE u32 at_a(int row, int chunk) { return row * 64 + (chunk ^ (row / 2 & 3)) * 16; }
// Operand b lies [k][n]: lanes read neighbours of one k.
GG_DEVICE u32 at_b(int row, int chunk) { return row * 256 + chunk * 16; }

// Works off the block's tiles from work `at` on, as long as they are of this size.
GG_DEVICE void work_off(
    Works& works, int& at, unsigned char* shared,
    u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
{
    if (!is_next(works, at, 4)) return;
    const u32 stages = shared_address(shared);
    const int lane = thread_id() % 64, warp = thread_id() / 64;
    const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

    // What is loaded next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
    // unaligned rows cost no more sectors than aligned ones.
    int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
    const float* a_from = nullptr;  // this tile's first element of the stage
    int a_outer = 0;  // rows or columns of a inside its matrix
    int a_pitch = 0;
    const float* b_from = nullptr;  // this tile's first element of the stage
    int b_outer = 0;  // rows or columns of b inside its matrix
    int b_pitch = 0;
    int k_left = 0;
    const auto take = [&]() __attribute__((always_inline)) {
        if (!is_next(works, ahead, 4)) return;
        const Work work = work_at(works, ahead);
        ahead_left = stages_of(work.product, BLOCK_K);
        k_left = summed(work.product);
        a_pitch = work.product.lda;
        a_from = work.product.a + (long long)work.m0 * a_pitch;
        a_outer = work.product.m - work.m0;
        b_pitch = work.product.ldb;
        b_from = work.product.b + work.n0;
        b_outer = work.product.n - work.n0;
        look_up(works, ahead + 1);
    };
    take();
    float a_held[1][4], b_held[1][4];  // a stage on its way to shared memory
    bool holds = false;
    const auto fill = [&]() __attribute__((always_inline)) {
        holds = ahead_left > 0;
        if (!holds) return;
        {
            const int row0 = thread_id() / 4, column = thread_id() % 4 * 4;
            const float* element = a_from + (long long)row0 * a_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 64;
                const bool inside = row < a_outer;
                if (is_aligned(a_from, a_pitch) && inside && column + 4 <= k_left) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) a_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) a_held[i][e] = inside && column + e < k_left ? load_4(element + e) : 0.0f;
                }
            }
        }
        a_from += BLOCK_K;
        {
            const int row0 = thread_id() / 16, column = thread_id() % 16 * 4;
            const float* element = b_from + (long long)row0 * b_pitch + column;
            {
                constexpr int i = 0;

                const int row = row0 + i * 16;
                const bool inside = row < k_left;
                if (is_aligned(b_from, b_pitch) && inside && column + 4 <= b_outer) {
                    u32 four[4];
                    load_16(four, element);
                    for (int e = 0; e < 4; ++e) b_held[i][e] = __uint_as_float(four[e]);
                } else {
                    for (int e = 0; e < 4; ++e) b_held[i][e] = inside && column + e < b_outer ? load_4(element + e) : 0.0f;
                }
            }
        }
        b_from += (long long)BLOCK_K * b_pitch;
        k_left -= BLOCK_K;
        if (--ahead_left == 0) {
            ++ahead;
            take();
        }
    };
    // Puts that stage into the place at `stage`.
    const auto put = [&](u32 stage) __attribute__((always_inline)) {
        if (!holds) return;
        {
            constexpr int i = 0;

            const int row = thread_id() / 4 + i * 64, chunk = thread_id() % 4;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
            store_shared_16(stage + at_a(row, chunk), four);
        }
        {
            constexpr int i = 0;

            const int row = thread_id() / 16 + i * 16, chunk = thread_id() % 16;
            u32 four[4];
            for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
            store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
        }
    };

    fill();
    put(stages);
    block_barrier();
    int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
    for (; is_next(works, at, 4); ++at) {
        const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
        const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
        float acc_main[FRAGMENTS_M][FRAGMENTS_N][16] = {};  // in FP32 registers
        const int lane_row = (lane >> 3), lane_column = (lane & 7);
        float a_fragments[1][1][1][16], b_fragments[1][1][1][16];

        // Fetches what step `step` of the stage at `stage` multiplies.
        const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp_m + lane_row + i * 8;
                float four[4];
                load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = warp_n + lane_column + i * 8;
                float four[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) four[e] = load_shared_4(stage + A_BYTES + at_b(step * 4 + e, row / 4) + row % 4 * 4);
#pragma unroll
                for (int e = 0; e < 4; ++e) b_fragments[buffer][0][0][4 * i + e] = four[e];
            }
        };
        const auto count_stage = [&](u32 stage) __attribute__((always_inline)) {
            if (counts_a)
#pragma unroll 1
                for (int at = thread_id() * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(a_status, losses(packed, four));
                }
            if (counts_b)
#pragma unroll 1
                for (int at = thread_id() * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                    float four[4];
                    load_shared_16(four, stage + A_BYTES + at);
                    if (!(__builtin_amdgcn_ballot_w64(unusual(four)) != 0)) continue;
                    u32 packed[WORDS][4];
                    split_run(packed, four);
                    count(b_status, losses(packed, four));
                }
        };
        // One step of k: 1 word product for each fragment of C.
        const auto multiply = [&](int buffer) __attribute__((always_inline)) {
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
        };
#pragma unroll 1
        for (int index = 0; index < stage_count; ++index) {
            const u32 stage = stages + slot * STAGE_BYTES;
            fill();
            count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
            for (int step = 0; step < K_STEPS; ++step) {
                fetch(0, stage, step);
                multiply(0);
            }
            put(stages + (slot ^ 1) * STAGE_BYTES);  // which no one has read since the last barrier
            block_barrier();
            slot ^= 1;
        }

        // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
        int again = at;
        asm volatile("" : "+v"(again));
        const Work work = work_at(works, again);
        const int m = work.product.m, n = work.product.n, k = work.product.k, m0 = work.m0, n0 = work.n0;
        const float *const a = work.product.a, *const b = work.product.b;
        float* const c = work.product.c;
        const long long lda = work.product.lda, ldb = work.product.ldb, ldc = work.product.ldc;
        const float alpha = work.product.alpha, beta = work.product.beta;
        const bool read_c = beta != 0.0f;  // BLAS: with beta = 0, C is not read
        const int my_row = (lane >> 3), my_column = (lane & 7);
        float* const line = (float*)(shared + 16384) + warp * 576;
        // A lane stores one column, of one row in 2.
        const int row0 = lane / 32, in_line = lane % 32;
        const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
        for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
            const int i = part / 2, first = part % 2 * 16;
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                for (int r = 0; r < 16; ++r) {
                    const int in_row = my_row + (r >> 2) * 8, in_column = my_column + j * 32 + (r & 3) * 8;
                    if (in_row < first || in_row >= first + 16) continue;
                    line[(in_row - first) * 36 + in_column] = acc_main[i][j][r];
                }
            wavefront_barrier();
            const int in_c = m0 + warp_m + i * 32 + first;  // this part's first row
            const int left = min(16, m - in_c);  // rows of it that C has
            float product[8];
#pragma unroll
            for (int x = 0; x < 8; ++x) {
                product[x] = line[(row0 + x * 2) * 36 + in_line];
            }
            float zero = 0.0f;  // as long as all of them are finite
#pragma unroll
            for (int x = 0; x < 8; ++x) {
                zero = fmaf(product[x], 0.0f, zero);
            }
            if (zero != 0.0f) {
                // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                // element is computed again from the operands themselves.
#pragma unroll 1
                for (int at = row0; at < left; at += 2)
#pragma unroll 1
                    for (int beside = 0; beside < min(32, columns); beside += 32) {
                        float* const element = line + at * 36 + in_line + beside;
                        if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                        const long long row = in_c + at, column = n0 + warp_n + in_line + beside;
                        float again = 0.0f;
#pragma unroll 1
                        for (long long kk = 0; kk < k; ++kk)
                            again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                        *element = again;
                        __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                    }
#pragma unroll
                for (int x = 0; x < 8; ++x) {
                    product[x] = line[(row0 + x * 2) * 36 + in_line];
                }
            }
            float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
            if (read_c) {
#pragma unroll
                for (int x = 0; x < 8; ++x) {
                    float* const element = to + x * 2 * ldc;
                    if (row0 + x * 2 < left && columns > 0) *element = fmaf(alpha, product[x], beta * *element);
                }
            } else {
#pragma unroll
                for (int x = 0; x < 8; ++x) {
                    float* const element = to + x * 2 * ldc;
                    if (row0 + x * 2 < left && columns > 0) *element = alpha * product[x];
                }
            }
            wavefront_barrier();
        }
    }
}
}  // namespace tile_4

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(256, 256)))
gemmgen_fp32_fma_64x64x16_97c546b2(
    const Problem* __restrict__ problems, int batch,
    const Listed* __restrict__ list,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    __attribute__((shared, aligned(128))) static unsigned char shared[25600];
    const Products from = {problems, batch};
    // Blocks have as many threads as the largest tile needs; of a smaller one's the other warps end before the first barrier.
    Works works = {from, list, block_id()};
    const int tile = list[works.turn].tile;
    int at = 0;
    if (tile == 0) {
        if (thread_id() >= 128) return;
        tile_0::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 1) {
        if (thread_id() >= 128) return;
        tile_1::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 2) {
        if (thread_id() >= 128) return;
        tile_2::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 3) {
        tile_3::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 4) {
        tile_4::work_off(works, at, shared, a_status, b_status, repaired);
    }
}

}  // namespace gemmgen_97c546b2
