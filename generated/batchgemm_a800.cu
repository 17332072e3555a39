// kernel    gemmgen_fp32_fma_64x64x16_053ca2ea
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    fp32: FP32 itself, no matrix unit: the yardstick
// words     1 x f32, 24 bits; products A0 B0; dropped none
// promote   never (fp32's own)
// special   exact
// fragment  fma.rn.f32
// decided   block 64x64x16, warp 32x16x16, split register, loads async, 2 stages, group 1, 1 slice of k, promote 0
// block     256 threads, 26624 B of dynamic shared memory
// target    sm_80
// plan      053ca2ea, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_053ca2ea {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define GG_DEVICE static __device__ __forceinline__

// Address of shared memory as the asynchronous copies and ldmatrix take it.
GG_DEVICE u32 shared_address(const void* pointer) { return (u32)__cvta_generic_to_shared(pointer); }

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

GG_DEVICE float load_shared_4(u32 from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

GG_DEVICE void load_shared_16(float (&x)[4], u32 from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3]) : "r"(from) : "memory");
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

// 16 x 16 of C by 2 x 2 warps of 8 x 8, 16 of k a stage.
struct Tile0 {
    static constexpr int NUMBER = 0, THREADS = 128, STAGES = 8;
    static constexpr int BLOCK_M = 16, BLOCK_N = 16, BLOCK_K = 16, WARP_M = 8, WARP_N = 8;
};

// 16 x 32 of C by 1 x 4 warps of 16 x 8, 16 of k a stage.
struct Tile1 {
    static constexpr int NUMBER = 1, THREADS = 128, STAGES = 5;
    static constexpr int BLOCK_M = 16, BLOCK_N = 32, BLOCK_K = 16, WARP_M = 16, WARP_N = 8;
};

// 32 x 32 of C by 2 x 2 warps of 16 x 16, 16 of k a stage.
struct Tile2 {
    static constexpr int NUMBER = 2, THREADS = 128, STAGES = 4;
    static constexpr int BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 16, WARP_M = 16, WARP_N = 16;
};

// 32 x 64 of C by 2 x 4 warps of 16 x 16, 16 of k a stage.
struct Tile3 {
    static constexpr int NUMBER = 3, THREADS = 256, STAGES = 2;
    static constexpr int BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 16, WARP_M = 16, WARP_N = 16;
};

// 64 x 64 of C by 2 x 4 warps of 32 x 16, 16 of k a stage.
struct Tile4 {
    static constexpr int NUMBER = 4, THREADS = 256, STAGES = 2;
    static constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 16, WARP_M = 32, WARP_N = 16;
};

// What blocks do with tiles of one size.
template <class Tile>
struct TileKernel {
    static constexpr int NUMBER = Tile::NUMBER, THREADS = Tile::THREADS, STAGES = Tile::STAGES;
    static constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
    static constexpr int WARP_M = Tile::WARP_M, WARP_N = Tile::WARP_N, WARPS_N = BLOCK_N / WARP_N;
    static constexpr int FRAGMENT_M = WARP_M, FRAGMENTS_M = 1, FRAGMENTS_N = 1;  // a warp's part is one fragment,
    static constexpr int LANE_ROWS = WARP_M / 4, LANE_COLUMNS = WARP_N / 8;  // of which a lane multiplies so much
    static constexpr int K_STEPS = BLOCK_K / 4;  // instructions along k in a stage
    static constexpr int A_BYTES = BLOCK_M * BLOCK_K * 4, B_BYTES = BLOCK_N * BLOCK_K * 4;  // FP32 as it comes
    static constexpr int STAGE_BYTES = A_BYTES + B_BYTES;
    static constexpr int LINE_ROWS = FRAGMENT_M / 2, LINE_PITCH = WARP_N + 4;  // of C, which a warp brings out at a time, padded: floats
    static constexpr int LINE_LANES = WARP_N < 32 ? WARP_N : 32;  // lanes side by side
    static constexpr int LINE_COLUMNS = WARP_N / LINE_LANES;  // of each
    static constexpr int LINES_TOGETHER = 32 / LINE_LANES;  // rows that lanes store at a time
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
        const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
        const int warp_m = warp / WARPS_N * WARP_M, warp_n = warp % WARPS_N * WARP_N;

        // What is copied next: the first of `ahead_left` stages of work `ahead`. Neighbouring threads take neighbours in memory, so that
        // unaligned rows cost no more sectors than aligned ones.
        int ahead = at, ahead_left = 0;  // no stages are left where there is no more work of this size
        const float* a_from = nullptr;  // this tile's first element of the stage
        int a_outer = 0;  // rows or columns of a inside its matrix
        int a_pitch = 0;
        const float* b_from = nullptr;  // this tile's first element of the stage
        int b_outer = 0;  // rows or columns of b inside its matrix
        int b_pitch = 0;
        int k_left = 0;
        const auto take = [&]() {
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
        const auto fill = [&](u32 stage) {
            if (ahead_left == 0) return;
            {
                const u32 to = stage;
                if (is_aligned(a_from, a_pitch)) {
                    constexpr int ACROSS = BLOCK_K / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                    const int row0 = (int)threadIdx.x / ACROSS, chunk = (int)threadIdx.x % ACROSS;
                    const int inside = max(0, min(4, k_left - chunk * 4)) * 4;
                    const float* element = a_from + (long long)row0 * a_pitch + chunk * 4;
#pragma unroll
                    for (int row = row0; row < row0 + BLOCK_M; row += DOWN, element += (long long)DOWN * a_pitch) {
                        if (BLOCK_M % DOWN && row >= BLOCK_M) break;
                        const int bytes = row < a_outer ? inside : 0;
                        cp_async_16_part(to + at_a(row, chunk), element, bytes);
                    }
                } else {
                    constexpr int ACROSS = BLOCK_K, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                    const int row0 = (int)threadIdx.x / ACROSS, column = (int)threadIdx.x % ACROSS;
                    const int inside = column < k_left ? a_outer : 0;
                    const float* element = a_from + (long long)row0 * a_pitch + column;
#pragma unroll 8
                    for (int row = row0; row < row0 + BLOCK_M; row += DOWN, element += (long long)DOWN * a_pitch) {
                        cp_async_4_part(to + at_a(row, column / 4) + column % 4 * 4, element, row < inside ? 4 : 0);
                    }
                }
            }
            a_from += BLOCK_K;
            {
                const u32 to = stage + A_BYTES;
                if (is_aligned(b_from, b_pitch)) {
                    constexpr int ACROSS = BLOCK_N / 4, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                    const int row0 = (int)threadIdx.x / ACROSS, chunk = (int)threadIdx.x % ACROSS;
                    const int inside = max(0, min(4, b_outer - chunk * 4)) * 4;
                    const float* element = b_from + (long long)row0 * b_pitch + chunk * 4;
#pragma unroll
                    for (int row = row0; row < row0 + BLOCK_K; row += DOWN, element += (long long)DOWN * b_pitch) {
                        if (BLOCK_K % DOWN && row >= BLOCK_K) break;
                        const int bytes = row < k_left ? inside : 0;
                        cp_async_16_part(to + at_b(row, chunk), element, bytes);
                    }
                } else {
                    constexpr int ACROSS = BLOCK_N, DOWN = THREADS / ACROSS;  // threads along a row, and rows that they take at a time
                    const int row0 = (int)threadIdx.x / ACROSS, column = (int)threadIdx.x % ACROSS;
                    const int inside = column < b_outer ? k_left : 0;
                    const float* element = b_from + (long long)row0 * b_pitch + column;
#pragma unroll 8
                    for (int row = row0; row < row0 + BLOCK_K; row += DOWN, element += (long long)DOWN * b_pitch) {
                        cp_async_4_part(to + at_b(row, column / 4) + column % 4 * 4, element, row < inside ? 4 : 0);
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

#pragma unroll 1
        for (int i = 0; i < STAGES - 1; ++i) {
            fill(stages + i * STAGE_BYTES);
            cp_async_commit();
        }
        int slot = 0, free_slot = STAGES - 1;  // where the stage lies that is multiplied next, and the one that was last

#pragma unroll 1
        for (; is_next(works, at, NUMBER); ++at) {
            const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
            const bool counts_a = work_at(works, at).n0 == 0, counts_b = work_at(works, at).m0 == 0;  // once for each element
            float acc_main[FRAGMENTS_M][FRAGMENTS_N][LANE_ROWS * LANE_COLUMNS] = {};  // in FP32 registers
            const int lane_row = (lane >> 3), lane_column = (lane & 7);
            float a_fragments[1][1][1][4 * LANE_ROWS], b_fragments[1][1][1][4 * LANE_COLUMNS];

            // Fetches what step `step` of the stage at `stage` multiplies.
            const auto fetch = [&](int buffer, u32 stage, int step) {
#pragma unroll
                for (int i = 0; i < LANE_ROWS; ++i) {
                    const int row = warp_m + lane_row + i * 4;
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
            const auto count_stage = [&](u32 stage) {
                if (counts_a)
#pragma unroll 1
                    for (int at = (int)threadIdx.x * 16; at < A_BYTES; at += THREADS * 16) {  // in whatever order they lie
                        float four[4];
                        load_shared_16(four, stage + at);
                        if (!__any_sync(0xffffffffu, unusual(four))) continue;
                        u32 packed[WORDS][4];
                        split_run(packed, four);
                        count(a_status, losses(packed, four));
                    }
                if (counts_b)
#pragma unroll 1
                    for (int at = (int)threadIdx.x * 16; at < B_BYTES; at += THREADS * 16) {  // in whatever order they lie
                        float four[4];
                        load_shared_16(four, stage + A_BYTES + at);
                        if (!__any_sync(0xffffffffu, unusual(four))) continue;
                        u32 packed[WORDS][4];
                        split_run(packed, four);
                        count(b_status, losses(packed, four));
                    }
            };
            // One step of k: 1 word product for each fragment of C.
            const auto multiply = [&](int buffer) {
#pragma unroll
                for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j)
                        fma_outer<LANE_ROWS, LANE_COLUMNS>(acc_main[i][j], a_fragments[buffer][0][i], b_fragments[buffer][0][j]);
            };
#pragma unroll 1
            for (int index = 0; index < stage_count; ++index) {
                const u32 stage = stages + slot * STAGE_BYTES;
                cp_async_wait<STAGES - 2>();  // this thread's part of the stage is there,
                __syncthreads();  // everyone's is, and no one reads `free_slot` any more
                fill(stages + free_slot * STAGE_BYTES);
                cp_async_commit();  // an empty commit group keeps their count in step
                count_stage(stage);
#pragma unroll 1  // unrolled, the next step's fragments would not fit the registers
                for (int step = 0; step < K_STEPS; ++step) {
                    fetch(0, stage, step);
                    multiply(0);
                }
                free_slot = slot;
                slot = slot + 1 == STAGES ? 0 : slot + 1;
            }

            // What it becomes in C. Here the work is asked for again, so that it takes no registers before.
            int again = at;
            asm volatile("" : "+r"(again));
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
                        const int in_row = my_row + r / LANE_COLUMNS * 4, in_column = my_column + r % LANE_COLUMNS * 8;
                        if (in_row < first || in_row >= first + LINE_ROWS) continue;
                        line[(in_row - first) * LINE_PITCH + in_column] = acc_main[i][j][r];
                    }
                __syncwarp();
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
                            atomicAdd(repaired, (u64)1);
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
                __syncwarp();
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(256, 2)
gemmgen_fp32_fma_64x64x16_053ca2ea(
    const Problem* __restrict__ problems, int batch,
    const Listed* __restrict__ list,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    extern __shared__ __align__(128) unsigned char shared[];
    const Products from = {problems, batch};
    // Blocks have as many threads as the largest tile needs; of a smaller one's the other warps end before the first barrier.
    Works works = {from, list, (int)blockIdx.x};
    const int tile = list[works.turn].tile;
    int at = 0;
    if (tile == 0) {
        if ((int)threadIdx.x >= 128) return;
        TileKernel<Tile0>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 1) {
        if ((int)threadIdx.x >= 128) return;
        TileKernel<Tile1>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 2) {
        if ((int)threadIdx.x >= 128) return;
        TileKernel<Tile2>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 3) {
        TileKernel<Tile3>::work_off(works, at, shared, a_status, b_status, repaired);
    }
    if (tile == 4) {
        TileKernel<Tile4>::work_off(works, at, shared, a_status, b_status, repaired);
    }
}

}  // namespace gemmgen_053ca2ea
