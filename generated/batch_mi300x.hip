// kernel    gemmgen_ootomo_mfma_64x64x32_ed17f5bf
// computes  C = alpha A B + beta C in FP32, layout nn (row major), any m, n, k
// scheme    ootomo: residual scaled by 2^11, three products, main sum added outside the unit
// words     2 x f16, 22 bits; products A1 B0 + A0 B1 + A0 B0; dropped A1 B1
// promote   never (ootomo's own: every 32 k)
// special   exact
// fragment  v_mfma_f32_16x16x16_f16
// decided   block 64x64x32, warp 64x32x32, split shared, loads grouped, 2 stages, group 1, 1 slice of k, promote 0
// block     128 threads, 40112 B of static shared memory
// checked   compiled by clang, resources read from the code object, every instruction executed by an interpreter, layouts checked; never run on AMD
//           hardware
// target    gfx942
// plan      ed17f5bf, rendered by gemmgen 0.1.0
// Generated: change the spec, not this file. It may be used without condition.
namespace gemmgen_ed17f5bf {

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

GG_DEVICE float widen_low(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)bits); }
GG_DEVICE float widen_high(u32 bits) { return (float)__builtin_bit_cast(_Float16, (u16)(bits >> 16)); }

GG_DEVICE u32 round_nearest_even(float low, float high) {
    return __builtin_bit_cast(u16, (_Float16)low) | (u32)__builtin_bit_cast(u16, (_Float16)high) << 16;
}

constexpr int WORDS = 2;

// What the matrix unit makes of a word: gfx90a takes a subnormal one for zero.
GG_DEVICE float as_multiplied(float word) {
#if defined(__gfx90a__)
    return fabsf(word) < 0x1p-14f ? 0.0f : word;
#else
    return word;
#endif
}

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
// words as they are multiplied leave more than 2^-22.
template <int N>
GG_DEVICE u32 losses(const u32 (&packed)[WORDS][N / 2], const float (&x)[N]) {
    // Nothing is counted where all magnitudes lie in [2^-3, 2^15): as integers, their bits are in the same order.
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits), most = max(most, bits);
    }
    if (least >= __float_as_uint(0x1p-3f) && most < __float_as_uint(0x1p+15f)) return 0;

    u32 counts = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const float magnitude = fabsf(x[i]);
        float rest = x[i];
        bool lossy = magnitude < 0x1p-14f && magnitude > 0.0f;
        rest -= as_multiplied((i % 2 ? widen_high(packed[0][i / 2]) : widen_low(packed[0][i / 2])));
        // Rounding leaves at most one ulp, 2^5 at the top of the range; saturation and Inf leave more.
        const bool overflow = !(fabsf(rest) <= 0x1p+5f);
        rest -= as_multiplied((i % 2 ? widen_high(packed[1][i / 2]) : widen_low(packed[1][i / 2]))) * 0x1p-11f;
        lossy = lossy || !(fabsf(rest) * 0x1p+22f <= magnitude);
        const bool finite = magnitude < __uint_as_float(0x7f800000u);
        counts += finite ? (overflow ? 1u << 10 : lossy ? 1u : 0u) : 1u << 20;
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

// N consecutive k of one row of operand a; zeros outside.
template <int N>
GG_DEVICE void read_a(float (&value)[N], const float* x, long long ld, int outer, int k, int o, int kk) {
    const float* from = x + (long long)o * ld + kk;
    if (o < outer && kk + N <= k && ((u64)from & 15) == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            u32 four[4];
            load_16(four, from + i);
            for (int e = 0; e < 4; ++e) value[i + e] = __uint_as_float(four[e]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) value[i] = o < outer && kk + i < k ? load_4(from + i) : 0.0f;
    }
}
// N consecutive k of one column of operand b; zeros outside.
template <int N>
GG_DEVICE void read_b(float (&value)[N], const float* x, long long ld, int outer, int k, int o, int kk) {
    const float* from = x + (long long)kk * ld + o;
#pragma unroll
    for (int i = 0; i < N; ++i) value[i] = o < outer && kk + i < k ? load_4(from + i * ld) : 0.0f;
}

// A lane's part of an operand's fragment, and of C's.
typedef u32 fragment __attribute__((ext_vector_type(4)));
typedef float sums __attribute__((ext_vector_type(4)));

GG_DEVICE void load_fragment(fragment& r, u32 address) {
    r = *(GG_SHARED const fragment*)address;
}

// c[16, 16] += a[16, 32] b[32, 16] on the matrix unit, by 2 of v_mfma_f32_16x16x16_f16: each
// takes 16 of the 32 k, 4 of every lane.
typedef _Float16 operand __attribute__((ext_vector_type(4)));
typedef u32 part __attribute__((ext_vector_type(2)));

GG_DEVICE void multiply_add(sums& c, fragment a, fragment b) {
    const part a0 = __builtin_shufflevector(a, a, 0, 1), b0 = __builtin_shufflevector(b, b, 0, 1);
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(operand, a0), __builtin_bit_cast(operand, b0), c, 0, 0, 0);
    const part a1 = __builtin_shufflevector(a, a, 2, 3), b1 = __builtin_shufflevector(b, b, 2, 3);
    c = __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(operand, a1), __builtin_bit_cast(operand, b1), c, 0, 0, 0);
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
constexpr int TILES = 2;
GG_DEVICE int tile_rows(int tile) { return tile == 0 ? 32 : 64; }  // of C
GG_DEVICE int tile_columns(int tile) { return tile == 0 ? 32 : 64; }  // of C
GG_DEVICE int tile_wavefronts(int tile) { return tile == 0 ? 2 : 2; }  // that compute it, BatchGEMM eq. 4

GG_DEVICE int tile_blocks(int tile, int m, int n) {
    return m <= 0 || n <= 0 ? 0 : ((m - 1) / tile_rows(tile) + 1) * ((n - 1) / tile_columns(tile) + 1);
}

// BatchGEMM eq. 10: the largest tile that is no larger than C. C of other sizes than whole tiles is cut at the edges.
GG_DEVICE int largest_tile(int m, int n) {
    int found = 0;
#pragma unroll
    for (int tile = 1; tile < TILES; ++tile)
        if (tile_rows(tile) <= m && tile_columns(tile) <= n) found = tile;
    return found;
}

// Wavefronts of one product that count: more than any GPU holds, and few enough that a sum of them fits an integer.
GG_DEVICE u32 wavefronts_of(int tile, int m, int n) {
    const u64 count = m <= 0 || n <= 0 ? 0 : (u64)((m - 1) / tile_rows(tile) + 1) * (u64)((n - 1) / tile_columns(tile) + 1) * (u64)tile_wavefronts(tile);
    return count < 1048576u ? (u32)count : 1048576u;
}

// Threads at work: those of the wavefronts that are active, of which the GPU holds so many at once, BatchGEMM eqs. 4 and 9.
GG_DEVICE long long threads_at_work(u32 wavefronts) {
    return (long long)min(wavefronts, 608u) * 64;
}

// A tile of C: of which product, its first row and column, and the tile's number; -1 where there is nothing more to do.
struct Work {
    Product product;
    int m0, n0, tile;
};

constexpr int LISTED = 256;  // products of a list; those of a longer batch follow in another one

// The products in the order in which their tiles are worked off: those with the largest tiles first, and of these those with the longest k.
struct List {
    u32 keys[LISTED];      // what the order goes by
    int blocks[LISTED];    // tiles of each product
    int first[LISTED];     // in that order: turns before each product
    unsigned short order[LISTED];
    unsigned char tile[LISTED];
    u32 wavefronts[TILES];  // if every tile steps down so many sizes
    int sums[2];
    int begin, count, turns;
};

// Makes the list, the same in every block; with `threshold` threads at work a tiling is parallel enough.
GG_DEVICE void make_list(List& list, const Products& from, int begin, int count, int threshold) {
    constexpr int EACH = LISTED / 128;  // products of a thread
    const int thread = thread_id();
    if (thread < TILES) list.wavefronts[thread] = 0;
    if (thread == 0) list.begin = begin, list.count = count;
    int m[EACH], n[EACH], k[EACH];
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int i = thread + e * 128;
        m[e] = n[e] = k[e] = 0;
        if (i < count) m[e] = from.problems[begin + i].m, n[e] = from.problems[begin + i].n, k[e] = from.problems[begin + i].k;
    }
    block_barrier();

    // BatchGEMM's Algorithm 1, the parallelism of each step at once.
    if (thread / 64 * 64 < count) {
        u32 wavefronts[TILES] = {};
#pragma unroll
        for (int e = 0; e < EACH; ++e) {
            const int largest = largest_tile(m[e], n[e]);
#pragma unroll
            for (int tile = 0; tile < TILES; ++tile) {
                const u32 own = wavefronts_of(tile, m[e], n[e]);
#pragma unroll
                for (int level = 0; level < TILES; ++level)
                    if (max(largest - level, 0) == tile) wavefronts[level] += own;
            }
        }
#pragma unroll
        for (int mask = 32; mask > 0; mask /= 2)
#pragma unroll
            for (int level = 0; level < TILES; ++level) wavefronts[level] += shuffle_xor(wavefronts[level], mask);
        if (thread % 64 == 0) {
#pragma unroll
            for (int level = 0; level < TILES; ++level)
                __hip_atomic_fetch_add(list.wavefronts + level, wavefronts[level], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
        }
    }
    block_barrier();
    int level = 0;
    while (level < TILES - 1 && threads_at_work(list.wavefronts[level]) < threshold) ++level;

    // A product's key: larger tiles come first, then longer k, then whatever comes first in the batch.
    int padded = 1;  // a power of two
    while (padded < count) padded *= 2;
#pragma unroll
    for (int e = 0; e < EACH; ++e) {
        const int i = thread + e * 128, tile = max(largest_tile(m[e], n[e]) - level, 0);
        if (i < count) {
            list.tile[i] = (unsigned char)tile;
            list.blocks[i] = tile_blocks(tile, m[e], n[e]);
        }
        if (i < padded) list.keys[i] = i < count ? (u32)(tile + 1) << 28 | (u32)min(max(k[e], 0), (1 << 20) - 1) << 8 | (u32)(LISTED - 1 - i) : 0;
    }
    // Sorted by exchanges at fixed places (bitonic), which is the same in every block.
#pragma unroll 1
    for (int size = 2; size <= padded; size *= 2)
#pragma unroll 1
        for (int apart = size / 2; apart > 0; apart /= 2) {
            block_barrier();
            for (int i = thread; i < padded / 2; i += 128) {
                const int low = 2 * i - (i & (apart - 1)), high = low + apart;
                const u32 first = list.keys[low], second = list.keys[high];
                if ((first < second) == ((low & size) == 0)) list.keys[low] = second, list.keys[high] = first;
            }
        }
    block_barrier();

    // Turns before each product, in that order: each thread has neighbouring ones.
    const int each = (count + 127) / 128, mine = min(thread * each, count), after = min(mine + each, count);
    int own = 0;
    for (int at = mine; at < after; ++at) own += list.blocks[LISTED - 1 - (int)(list.keys[at] & (LISTED - 1))];
    int sum = own;
#pragma unroll
    for (int step = 1; step < 64; step *= 2) {
        const int other = (int)(u32)__builtin_amdgcn_ds_bpermute((max(thread % 64 - step, 0)) * 4, (int)((u32)sum));
        if (thread % 64 >= step) sum += other;
    }
    if (thread % 64 == 63) list.sums[thread / 64] = sum;
    block_barrier();
    int turns = sum - own;
    for (int other = 0; other < thread / 64; ++other) turns += list.sums[other];
    for (int at = mine; at < after; ++at) {
        const int i = LISTED - 1 - (int)(list.keys[at] & (LISTED - 1));
        list.order[at] = (unsigned short)i;
        list.first[at] = turns;
        turns += list.blocks[i];
    }
    if (mine < after && after == count) list.turns = turns;
    block_barrier();
}

// The tile of a turn of the list. All lanes of a wavefront ask together: each looks at one product of as many.
GG_DEVICE Work work_of(const Products& from, const List& list, int turn) {
    if (turn >= list.turns) return {{}, 0, 0, -1};
    const int lane = thread_id() % 64;
    int low = 0;  // the last product that has no more turns before it than this one's number
#pragma unroll
    for (int apart = LISTED / 64; apart > 0; apart = apart > 64 ? apart / 64 : apart > 1 ? 1 : 0) {
        const int at = low + lane * apart;
        low += (__builtin_popcountll(__builtin_amdgcn_ballot_w64(at < list.count && list.first[at] <= turn)) - 1) * apart;
    }
    const int i = list.order[low], in_product = turn - list.first[low], tile = list.tile[i];
    const Product product = product_at(from, list.begin + i);
    const int blocks_m = (product.m - 1) / tile_rows(tile) + 1;
    return {product, in_product % blocks_m * tile_rows(tile), in_product / blocks_m * tile_columns(tile), tile};
}

constexpr int RING = 16;  // works that a block knows at a time: those on their way, and the one after them

// What a block has to do: its first wavefront looks up the next work while the one before is brought.
struct Works {
    const Products& from;
    const List& list;
    Work* ring;
    u32* queue;  // turns taken beside each block's first one
    int blocks;
    int base;    // turns of the lists before this one
    int turn;    // the block's next one, as the first lane knows it
};

GG_DEVICE const Work& work_at(const Works& works, int at) { return works.ring[at % RING]; }
GG_DEVICE bool is_next(const Works& works, int at, int tile) { return works.ring[at % RING].tile == tile; }

// Looks up work `at`, and asks for the turn after it, which need not be there before the next time.
GG_DEVICE void look_up(Works& works, int at) {
    if (thread_id() >= 64) return;
    const int turn = (int)(u32)__builtin_amdgcn_ds_bpermute((0) * 4, (int)((u32)works.turn));
    const Work work = work_of(works.from, works.list, turn - works.base);
    if (thread_id() > 0) return;
    works.ring[at % RING] = work;
    if (work.tile >= 0) works.turn = (int)__hip_atomic_fetch_add(works.queue, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) + works.blocks;
}

// The last block to end leaves the queue as the next launch wants it.
GG_DEVICE void end_queue(const Works& works) {
    if (thread_id() > 0) return;
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent");
    if (__hip_atomic_fetch_add(works.queue + 1, 1u, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT) != (u32)works.blocks - 1) return;
    works.queue[0] = 0;
    works.queue[1] = 0;
}

// Whether one of these elements is neither zero nor of a magnitude that words surely hold.
template <int N>
GG_DEVICE bool unusual(const float (&x)[N]) {
    u32 least = ~0u, most = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
        const u32 bits = __float_as_uint(x[i]) & 0x7fffffffu;
        least = min(least, bits - 1), most = max(most, bits);
    }
    return least < __float_as_uint(0x1p-3f) - 1 || most >= __float_as_uint(0x1p+15f);
}

// What is summed of a product. BLAS: with alpha = 0 the operands are not looked at.
GG_DEVICE int summed(const Product& product) { return product.alpha == 0.0f ? 0 : max(product.k, 0); }

// Stages of k of a product, one of zeros where there is nothing to sum.
GG_DEVICE int stages_of(const Product& product, int block_k) { return max(1, (summed(product) + block_k - 1) / block_k); }

// Where chunk `chunk` of a row of CHUNKS lies: from row to row, or every few of short ones, the chunks change places, so that eight neighbouring
// rows, as a phase reads them, touch each bank once.
template <int CHUNKS>
GG_DEVICE int swizzled(int row, int chunk) { return chunk ^ (row / (CHUNKS < 8 ? 8 / CHUNKS : 1) & ((CHUNKS < 8 ? CHUNKS : 8) - 1)); }

// 32 x 32 of C by 1 x 2 warps of 32 x 16, 32 of k a stage.
struct Tile0 {
    static constexpr int NUMBER = 0, THREADS = 128;
    static constexpr int BLOCK_M = 32, BLOCK_N = 32, BLOCK_K = 32, WARP_M = 32, WARP_N = 16;
};

// 64 x 64 of C by 1 x 2 warps of 64 x 32, 32 of k a stage.
struct Tile1 {
    static constexpr int NUMBER = 1, THREADS = 128;
    static constexpr int BLOCK_M = 64, BLOCK_N = 64, BLOCK_K = 32, WARP_M = 64, WARP_N = 32;
};

// What blocks do with tiles of one size.
template <class Tile>
struct TileKernel {
    static constexpr int NUMBER = Tile::NUMBER, THREADS = Tile::THREADS;
    static constexpr int BLOCK_M = Tile::BLOCK_M, BLOCK_N = Tile::BLOCK_N, BLOCK_K = Tile::BLOCK_K;
    static constexpr int WARP_M = Tile::WARP_M, WARP_N = Tile::WARP_N, WARPS_N = BLOCK_N / WARP_N;
    static constexpr int FRAGMENT_M = 16, FRAGMENTS_M = WARP_M / FRAGMENT_M, FRAGMENTS_N = WARP_N / 16;  // fragments of m16n16k32 in a warp
    static constexpr int FRAGMENT_BUFFERS = 1;
    static constexpr int K_STEPS = BLOCK_K / 32;  // instructions along k in a stage
    static constexpr int ROW_BYTES = BLOCK_K * 2, ROW_CHUNKS = ROW_BYTES / 16;  // of one word
    static constexpr int A_BYTES = BLOCK_M * ROW_BYTES, B_BYTES = BLOCK_N * ROW_BYTES;  // one word of a stage
    static constexpr int STAGE_BYTES = WORDS * (A_BYTES + B_BYTES);
    static constexpr int A_PARTS = (BLOCK_M * BLOCK_K / 8 + THREADS - 1) / THREADS;  // of A's part of a stage, that a thread takes
    static constexpr int B_PARTS = (BLOCK_N * BLOCK_K / 8 + THREADS - 1) / THREADS;  // of B's part of a stage, that a thread takes

    static constexpr int LINE_ROWS = FRAGMENT_M / 2, LINE_PITCH = WARP_N + 4;  // of C, which a warp brings out at a time, padded: floats
    static constexpr int LINE_LANES = WARP_N < 64 ? WARP_N : 64;  // lanes side by side
    static constexpr int LINE_COLUMNS = WARP_N / LINE_LANES;  // of each
    static constexpr int LINES_TOGETHER = 64 / LINE_LANES;  // rows that lanes store at a time
    static constexpr int LINE_ELEMENTS = (LINE_ROWS + LINES_TOGETHER - 1) / LINES_TOGETHER * LINE_COLUMNS;  // that a lane stores of these rows

    GG_DEVICE int swizzle(int row, int chunk) { return swizzled<ROW_CHUNKS>(row, chunk); }

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
        bool counts_a = false, counts_b = false;  // what words cannot hold is counted once for each element
        const auto take = [&]() __attribute__((always_inline)) {
            if (!is_next(works, ahead, NUMBER)) return;
            const Work work = work_at(works, ahead);
            ahead_left = stages_of(work.product, BLOCK_K);
            k_left = summed(work.product);
            counts_a = work.n0 == 0, counts_b = work.m0 == 0;
            a_pitch = work.product.lda;
            a_from = work.product.a + (long long)work.m0 * a_pitch;
            a_outer = work.product.m - work.m0;
            b_pitch = work.product.ldb;
            b_from = work.product.b + work.n0;
            b_outer = work.product.n - work.n0;
            look_up(works, ahead + 1);
        };
        take();
        float a_held[A_PARTS][8], b_held[B_PARTS][8];  // a stage on its way to shared memory
        bool holds = false, held_a = false, held_b = false;
        const auto fill = [&]() __attribute__((always_inline)) {
            holds = ahead_left > 0;
            if (!holds) return;
            held_a = counts_a, held_b = counts_b;
#pragma unroll
            for (int i = 0; i < A_PARTS; ++i) {
                const int row = (thread_id() + i * THREADS) / ROW_CHUNKS, chunk = (thread_id() + i * THREADS) % ROW_CHUNKS;
                read_a(a_held[i], a_from, a_pitch, a_outer, k_left, row, chunk * 8);
            }
            a_from += BLOCK_K;
#pragma unroll
            for (int i = 0; i < B_PARTS; ++i) {
                const int row = (thread_id() + i * THREADS) % BLOCK_N, chunk = (thread_id() + i * THREADS) / BLOCK_N;
                read_b(b_held[i], b_from, b_pitch, b_outer, k_left, row, chunk * 8);
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
#pragma unroll
            for (int i = 0; i < A_PARTS; ++i) {
                const int row = (thread_id() + i * THREADS) / ROW_CHUNKS, chunk = (thread_id() + i * THREADS) % ROW_CHUNKS;
                {
                    const u32 words = stage;
                    u32 packed[WORDS][4];
                    split_run(packed, a_held[i]);
                    if (held_a && (__builtin_amdgcn_ballot_w64(unusual(a_held[i])) != 0)) count(a_status, losses(packed, a_held[i]));
#pragma unroll
                    for (int word = 0; word < WORDS; ++word)
                        store_shared_16(words + word * A_BYTES + row * ROW_BYTES + swizzle(row, chunk) * 16,
                                        packed[word]);
                }
            }
#pragma unroll
            for (int i = 0; i < B_PARTS; ++i) {
                const int row = (thread_id() + i * THREADS) % BLOCK_N, chunk = (thread_id() + i * THREADS) / BLOCK_N;
                {
                    const u32 words = stage;
                    u32 packed[WORDS][4];
                    split_run(packed, b_held[i]);
                    if (held_b && (__builtin_amdgcn_ballot_w64(unusual(b_held[i])) != 0)) count(b_status, losses(packed, b_held[i]));
#pragma unroll
                    for (int word = 0; word < WORDS; ++word)
                        store_shared_16(words + WORDS * A_BYTES + word * B_BYTES + row * ROW_BYTES + swizzle(row, chunk) * 16,
                                        packed[word]);
                }
            }
        };

        block_barrier();  // no one reads stages of another tile any more
        fill();
        put(stages);
        block_barrier();
        int slot = 0;  // where the stage lies that is multiplied next

#pragma unroll 1
        for (; is_next(works, at, NUMBER); ++at) {
            const int stage_count = stages_of(work_at(works, at).product, BLOCK_K);
            sums acc_main[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit
            sums acc_correction[FRAGMENTS_M][FRAGMENTS_N] = {};  // in the matrix unit; 2^11 too large
            // The part of a fragment's address that is this lane's own.
            const int a_row = (lane & 15), a_chunk = (lane >> 4);
            const int b_row = (lane & 15), b_chunk = (lane >> 4);
            const u32 a_offset = (warp_m + a_row) * ROW_BYTES;
            const u32 b_offset = (warp_n + b_row) * ROW_BYTES + WORDS * A_BYTES;
            fragment a_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_M], b_fragments[FRAGMENT_BUFFERS][WORDS][FRAGMENTS_N];

            // Fetches the fragments of step `step` of the stage at `stage`.
            const auto fetch = [&](int buffer, u32 stage, int step) __attribute__((always_inline)) {
#pragma unroll
                for (int word = 0; word < WORDS; ++word) {
                    // Fragments start at rows that are multiples of 8, which the swizzle does not see.
                    const u32 a_at = stage + a_offset + word * A_BYTES + swizzle(a_row, step * 4 + a_chunk) * 16;
                    const u32 b_at = stage + b_offset + word * B_BYTES + swizzle(b_row, step * 4 + b_chunk) * 16;
#pragma unroll
                    for (int i = 0; i < FRAGMENTS_M; ++i) load_fragment(a_fragments[buffer][word][i], a_at + i * 16 * ROW_BYTES);
#pragma unroll
                    for (int j = 0; j < FRAGMENTS_N; ++j) {
                        load_fragment(b_fragments[buffer][word][j], b_at + j * 16 * ROW_BYTES);
                    }
                }
            };
            // One step of k: 3 word products for each fragment of C.
            const auto multiply = [&](int buffer) __attribute__((always_inline)) {
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
#pragma unroll 1
            for (int index = 0; index < stage_count; ++index) {
                const u32 stage = stages + slot * STAGE_BYTES;
                fill();
#pragma unroll 1  // unrolled, the next step's fragments and the queue would not fit the registers together
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
            const int my_row = (lane >> 4) * 4, my_column = (lane & 15);
            float* const line = (float*)(shared + 32768) + warp * LINE_ROWS * LINE_PITCH;
            // A lane stores one column, of one row in LINES_TOGETHER, or every LINE_LANES columns one.
            const int row0 = lane / LINE_LANES, in_line = lane % LINE_LANES;
            const int columns = n - n0 - warp_n - in_line;  // from its first one to the end of C's row
#pragma unroll
            for (int part = 0; part < FRAGMENTS_M * 2; ++part) {
                const int i = part / 2, first = part % 2 * LINE_ROWS;
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j)
#pragma unroll
                    for (int r = 0; r < 4; ++r) {
                        const int in_row = my_row + r, in_column = my_column + j * 16;
                        if (in_row < first || in_row >= first + LINE_ROWS) continue;
                        line[(in_row - first) * LINE_PITCH + in_column] = fmaf(acc_correction[i][j][r], 0x1p-11f, acc_main[i][j][r]);
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

extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(128, 128)))
gemmgen_ootomo_mfma_64x64x32_ed17f5bf(
    const Problem* __restrict__ problems, int batch,
    int blocks, int threshold,
    u32* queue,
    u64* __restrict__ a_status, u64* __restrict__ b_status,
    u64* __restrict__ repaired)
{
    __attribute__((shared, aligned(128))) static unsigned char shared[40112];
    const Products from = {problems, batch};
    int at = 0;
    List& list = *(List*)(shared + 36224);
    Works works = {from, list, (Work*)(shared + 35072), queue, blocks, 0, block_id()};
    for (int begin = 0; begin < batch; begin += LISTED) {
        block_barrier();  // no one reads the list before any more
        make_list(list, from, begin, min(LISTED, batch - begin), threshold);
        look_up(works, at);
        block_barrier();
        TileKernel<Tile1>::work_off(works, at, shared, a_status, b_status, repaired);
        TileKernel<Tile0>::work_off(works, at, shared, a_status, b_status, repaired);
        works.base += list.turns;
    }
    end_queue(works);
}

}  // namespace gemmgen_ed17f5bf
