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

// Where chunk `chunk` of a row of CHUNKS lies: from row to row, or every few of short ones, the chunks change places, so that eight neighbouring
// rows, as a phase reads them, touch each bank once.
template <int CHUNKS>
GG_DEVICE int swizzled(int row, int chunk) { return chunk ^ (row / (CHUNKS < 8 ? 8 / CHUNKS : 1) & ((CHUNKS < 8 ? CHUNKS : 8) - 1)); }

// 16 x 16 of C by 1 x 2 warps of 16 x 8, 16 of k a stage.
struct Tile0 {
    static constexpr int NUMBER = 0, THREADS = 128;
    static constexpr int BLOCK_M = 16, BLOCK_N = 16, BLOCK_K = 16, WARP_M = 16, WARP_N = 8;
};

// 16 x 32 of C by 1 x 2 warps of 16 x 16, 16 of k a stage.
struct Tile1 {
    static constexpr int NUMBER = 1, THREADS = 128;
    static constexpr int BLOCK_M = 16, BLOCK_N = 32, BLOCK_K = 16, WARP_M = 16, WARP_N = 16;
};

// 32 x 32 of C by 1 x 2 warps of 32 x 16, 16 of k a stage.
struct Tile2 {
    static constexpr int NUMBER = 2, THREADS = 128;
    static constexpr int BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 16, WARP_M = 32, WARP_N = 16;
};

// 32 x 64 of C by 1 x 4 warps of 32 x 16, 16 of k a stage.
struct Tile3 {
    static constexpr int NUMBER = 3, THREADS = 256;
    static constexpr int BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 16, WARP_M = 32, WARP_N = 16;
};

// 64 x 64 of C by 2 x 2 warps of 32 x 32, 16 of k a stage.
struct Tile4 {
    static constexpr int NUMBER = 4, THREADS = 256;
    static constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 16, WARP_M = 32, WARP_N = 32;
};

// What blocks do with tiles of one size.
template <class Tile>
struct TileKernel {
    static constexpr int NUMBER = Tile::NUMBER, THREADS = Tile::THREADS;
    static constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
    static constexpr int WARP_M = Tile::WARP_M, WARP_N = Tile::WARP_N, WARPS_N = BLOCK_N / WARP_N;
    static constexpr int FRAGMENT_M = WARP_M, FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // a warp's part is one fragment,
    static constexpr int LANE_ROWS = WARP_M / 8, LANE_COLUMNS = WARP_N / 8;  // of which a lane multiplies so much
    static constexpr int K_STEPS = BLOCK_K / 4;  // instructions along k in a stage
    static constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;

    static constexpr int LINE_ROWS = FRAGMENT_M / 2, LINE_PITCH = WARP_N + 4;  // of C, which a warp brings out at a time, padded: floats
    static constexpr int LINE_LANES = WARP_N < 64 ? WARP_N : 64;  // lanes side by side
    static constexpr int LINE_COLUMNS = WARP_N / LINE_LANES;  // of each
    static constexpr int LINES_TOGETHER = 64 / LINE_LANES;  // rows that lanes store at a time
    static constexpr int LINE_ELEMENTS = (LINE_ROWS + LINES_TOGETHER - 1) / LINES_TOGETHER * LINE_COLUMNS;  // that a lane stores of these rows

    // Operand a lies [m][k]: lanes read runs of 4 k of neighbouring rows together.
    GG_DEVICE u32 at_a(int row, int chunk) { return row * (BLOCK_K * 4) + swizzled<BLOCK_K / 4>(row, chunk) * 16; }

    // Operand b lies [k][n]: lanes read neighbours of one k.
    GG_DEVICE u32 at_b(int row, int chunk) { return row * (BLOCK_N * 4) + chunk * 16; }

    // Of a lane's element x of those rows: rows below its first one, and columns to the right of it.
    GG_DEVICE int below(int x) { return x / LINE_COLUMNS * LINES_TOGETHER; }
    GG_DEVICE int beside(int x) { return x % LINE_COLUMNS * LINE_LANES; }

    // Works off the block's tiles from work `at` on, as long as they are of this size.
    GG_DEVICE void work_off(
        Works& works, int& at, unsigned char* shared,
        u64* __restrict__ a_status, u64* __restrict__ b_status, u64* __restrict__ repaired)
    {
        if (!is_next(works, at, NUMBER)) return;
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
            if (!is_next(works, ahead, NUMBER)) return;
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
                constexpr int ACROSS = BLOCK_K / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                const int row0 = thread_id() / ACROSS, column = thread_id() % ACROSS * 4;
                const float* element = a_from + (long long)row0 * a_pitch + column;
                {
                    constexpr int i = 0;

                    const int row = row0 + i * DOWN;
                    const bool inside = row < a_outer && (BLOCK_M % DOWN == 0 || row < BLOCK_M);
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
                constexpr int ACROSS = BLOCK_N / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                const int row0 = thread_id() / ACROSS, column = thread_id() % ACROSS * 4;
                const float* element = b_from + (long long)row0 * b_pitch + column;
                {
                    constexpr int i = 0;

                    const int row = row0 + i * DOWN;
                    const bool inside = row < k_left && (BLOCK_K % DOWN == 0 || row < BLOCK_K);
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

                constexpr int ACROSS = BLOCK_K / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                const int row = thread_id() / ACROSS + i * DOWN, chunk = thread_id() % ACROSS;
                u32 four[4];
                for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(a_held[i][e]);
                if (BLOCK_M % DOWN == 0 || row < BLOCK_M) store_shared_16(stage + at_a(row, chunk), four);
            }
            {
                constexpr int i = 0;

                constexpr int ACROSS = BLOCK_N / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                const int row = thread_id() / ACROSS + i * DOWN, chunk = thread_id() % ACROSS;
                u32 four[4];
                for (int e = 0; e < 4; ++e) four[e] = __float_as_uint(b_held[i][e]);
                if (BLOCK_K % DOWN == 0 || row < BLOCK_K) store_shared_16(stage + A_BYTES + at_b(row, chunk), four);
            }
        };

        fill();
        put(stages);
        block_barrier();
        int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
        for (; is_next(works, at, NUMBER); ++at) {
            const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
            const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
            float acc_main[FRAGMENTS_M][FRAGMENTS_N][LANE_ROWS * LANE_COLUMNS] = {};  // in FP32 registers
            const int lane_row = (lane >> 3), lane_column = (lane & 7);
            float a_fragments[1][1][1][4 * LANE_ROWS], b_fragments[1][1][1][4 * LANE_COLUMNS];

            // Fetches what step `step` of the stage at `stage` multiplies.
            const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
                for (int i = 0; i < LANE_ROWS; ++i) {
                    const int row = warp_m + lane_row + i * 8;
                    float four[4];
                    load_shared_16(four, stage + at_a(row, step));
#pragma unroll
                    for (int e = 0; e < 4; ++e) a_fragments[buffer][0][0][4 * i + e] = four[e];
                }
#pragma unroll
                for (int i = 0; i < LANE_COLUMNS; ++i) {
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
                    for (int j = 0; j < FRAGMENTS_N; ++j)
                        fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
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
            float* const line = (float*)(shared + 16384) + warp * LINE_ROWS * LINE_PITCH;
            // A lane stores one column, of one row in LINES_TOGETHER, or every LINE_LANES columns one.
            const int row0 = lane / LINE_LANES, in_line = lane % LINE_LANES;
            const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
            for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
                const int i = part / 2, first = part % 2 * LINE_ROWS;
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                    for (int r = 0; r < LANE_ROWS * LANE_COLUMNS; ++r) {
                        const int in_row = my_row + r / LANE_COLUMNS * 8, in_column = my_column + r % LANE_COLUMNS * 8;
                        if (in_row < first || in_row >= first + LINE_ROWS) continue;
                        line[(in_row - first) * LINE_PITCH + in_column] = acc_main[i][j][r];
                    }
                wavefront_barrier();
                const int in_c = m0 + warp_m + i * FRAGMENT_M + first;  // this part's first row
                const int left = min(LINE_ROWS, m - in_c);  // rows of it that C has
                float product[LINE_ELEMENTS];
#pragma unroll
                for (int x = 0; x < LINE_ELEMENTS; ++x) {
                    product[x] = line[(row0 + below(x)) * LINE_PITCH + in_line + beside(x)];
                }
                float zero = 0.0f;  // as long as all of them are finite
#pragma unroll
                for (int x = 0; x < LINE_ELEMENTS; ++x) {
                    zero = fmaf(product[x], 0.0f, zero);
                }
                if (zero != 0.0f) {
                    // A low word of 0 times Inf is NaN where FP32 has Inf, and a word may overflow where FP32 does not: such an
                    // element is computed again from the operands themselves.
#pragma unroll 1
                    for (int at = row0; at < left; at += LINES_TOGETHER)
#pragma unroll 1
                        for (int right = 0; right < min(WARP_N, columns); right += LINE_LANES) {
                            float* const element = line + at * LINE_PITCH + in_line + right;
                            if (fabsf(*element) < __uint_as_float(0x7f800000u)) continue;
                            const long long row = in_c + at, column = n0 + warp_n + in_line + right;
                            float again = 0.0f;
#pragma unroll 1
                            for (long long kk = 0; kk < k; ++kk)
                                again = fmaf(a[row * lda + kk], b[kk * ldb + column], again);
                            *element = again;
                            __hip_atomic_fetch_add(repaired, (u64)1, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
                        }
#pragma unroll
                    for (int x = 0; x < LINE_ELEMENTS; ++x) {
                        product[x] = line[(row0 + below(x)) * LINE_PITCH + in_line + beside(x)];
                    }
                }
                float* const to = c + (long long)(in_c + row0) * ldc + n0 + warp_n + in_line;
                if (read_c) {
#pragma unroll
                    for (int x = 0; x < LINE_ELEMENTS; ++x) {
                        float* const element = to + below(x) * ldc + beside(x);
                        if (row0 + below(x) < left && columns > beside(x)) *element = fmaf(alpha, product[x], beta * *element);
                    }
                } else {
#pragma unroll
                    for (int x = 0; x < LINE_ELEMENTS; ++x) {
                        float* const element = to + below(x) * ldc + beside(x);
                        if (row0 + below(x) < left && columns > beside(x)) *element = alpha * product[x];
                    }
                }
                wavefront_barrier();
            }
        }
    }
};

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
        TileKernel<Tile0>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 1) {
        if (thread_id() >= 128) return;
        TileKernel<Tile1>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 2) {
        if (thread_id() >= 128) return;
        TileKernel<Tile2>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 3) {
        TileKernel<Tile3>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 4) {
        TileKernel<Tile4>::work_off(works, at, shared, a_status, b_status, repaired);
    }
}

}  // namespace gemmgen_97c546b2
