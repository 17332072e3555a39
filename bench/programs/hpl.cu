// A pivot that a CTA offers for a column: |value| + 1 as an integer, where its row stands and stood, 1 / value, and the row.
struct alignas(16) Offer { unsigned key; int place, source; float inverse; float row[32]; };

__device__ __forceinline__ unsigned shared_address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ unsigned cluster_rank()
{
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

__device__ __forceinline__ void expect(unsigned long long* barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(unsigned long long* barrier, unsigned phase)
{
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n"
        "}" :: "r"(shared_address(barrier)), "r"(phase) : "memory");
}

__device__ __forceinline__ unsigned there(const void* here, unsigned rank)
{
    unsigned found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(shared_address(here)), "r"(rank));
    return found;
}

__device__ __forceinline__ void send(unsigned to, float4 value, unsigned barrier)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
        :: "r"(to), "r"(__float_as_uint(value.x)), "r"(__float_as_uint(value.y)), "r"(__float_as_uint(value.z)), "r"(__float_as_uint(value.w)), "r"(barrier)
        : "memory");
}

// Of an offer, the first 16 bytes and the quads of the row from column + 1 on.
__device__ __forceinline__ int pieces(int column) { return 9 - ((column + 1) >> 2); }

template <int CTAS, int THREADS, int ROWS, int STEP>
struct Leaf {
    static constexpr int WARPS = THREADS / 32;
    Offer offers[4][CTAS];
    Offer own;
    unsigned long long arrived[4];
    unsigned best[2][WARPS];

    // Sends this CTA's largest element of a column to all CTAs. Where a pivot was chosen before, a[][at] is up to date and what is right of it is not:
    // factors times the chosen pivot's row is still to be subtracted, which is done on the way.
    template <bool FIRST>
    __device__ __forceinline__ void offer(const float (&a)[ROWS][32], const float (&factors)[ROWS], const int (&place)[ROWS], int at, int column, int base,
                                          const Offer* chosen, unsigned rank)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        unsigned key = 0;
        int which = 0;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const unsigned other = place[r] >= column ? (__float_as_uint(a[r][at]) & 0x7fffffffu) + 1 : 0;
            if (other > key) { key = other; which = r; }
        }
        const unsigned top = __reduce_max_sync(~0u, key);
        const int leader = __ffs(__ballot_sync(~0u, key == top)) - 1;
        if (lane == 0) best[column & 1][warp] = top;
        __syncthreads();
        const unsigned seen = lane < WARPS ? best[column & 1][lane] : 0;
        const unsigned most = __reduce_max_sync(~0u, seen);
        if (warp != __ffs(__ballot_sync(~0u, seen == most)) - 1) return;
        float factor = 0;
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (r == which) factor = factors[r];
        factor = __shfl_sync(~0u, factor, leader);
        if (lane == leader) {
            #pragma unroll
            for (int r = 0; r < ROWS; ++r)
                if (r == which) {
                    own.key = top;
                    own.place = place[r];
                    own.source = rank * (THREADS * ROWS) + r * THREADS + threadIdx.x;
                    own.inverse = a[r][at] != 0 ? 1 / a[r][at] : 0;
                    #pragma unroll
                    for (int q = (at + 1) / 4; q < 8; ++q)
                        if (base + 4 * q < 32)
                            *reinterpret_cast<float4*>(own.row + base + 4 * q) = make_float4(a[r][4 * q], a[r][4 * q + 1], a[r][4 * q + 2], a[r][4 * q + 3]);
                }
        }
        __syncwarp();
        const unsigned to = there(&offers[column % 4][rank], lane % CTAS), signal = there(&arrived[column % 4], lane % CTAS);
        const int first = (column + 1) >> 2, count = pieces(column);
        for (int p = lane / CTAS; p < count; p += 32 / CTAS) {
            const int at_byte = p ? 16 * (p + first) : 0;
            float4 value = *reinterpret_cast<const float4*>(reinterpret_cast<const char*>(&own) + at_byte);
            if (!FIRST && p) {
                const float4 u = *reinterpret_cast<const float4*>(reinterpret_cast<const char*>(chosen) + at_byte);
                value.x -= factor * u.x;
                value.y -= factor * u.y;
                value.z -= factor * u.z;
                value.w -= factor * u.w;
            }
            send(to + at_byte, value, signal);
        }
    }

    // Factors columns 0..31 of `rows` rows from `corner` on, in place. Rows change places in `before` columns left of these, in `after` columns right of
    // them and in `order` as well; of those on the right the first 32 rows become U's. `inverses` gets the inverse of the unit lower triangle, [32, 32].
    __device__ __forceinline__ void run(float* corner, long long stride, int rows, int before, int after, int* order, float* inverses)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const unsigned rank = cluster_rank();
        if (threadIdx.x == 0) {
            for (int slot = 0; slot < 4; ++slot) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(&arrived[slot])) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
            for (int slot = 0; slot < 4; ++slot) expect(&arrived[slot], CTAS * 16 * pieces(slot));
        }
        __syncwarp();
        cluster_arrive();
        float a[ROWS][32], factors[ROWS];
        int place[ROWS];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const int row = rank * (THREADS * ROWS) + r * THREADS + threadIdx.x;
            place[r] = row < rows ? row : -1;
            factors[r] = 0;
            #pragma unroll
            for (int c = 0; c < 32; ++c) a[r][c] = row < rows ? corner[row + c * stride] : 0;
        }
        cluster_wait();
        // Of this lane's number: the row that came to stand there, and where the row that stood there went.
        int source = 0, went = lane;
        offer<true>(a, factors, place, 0, 0, 0, nullptr, rank);
        #pragma unroll 1
        for (int base = 0; base < 32; base += STEP) {
            #pragma unroll
            for (int s = 0; s < STEP; ++s) {
                const int j = base + s;
                wait(&arrived[s % 4], (j >> 2) & 1);
                if (threadIdx.x == 0 && j + 4 < 32) expect(&arrived[s % 4], CTAS * 16 * pieces(j + 4));
                const Offer* pivot = offers[s % 4];
                const unsigned key = lane < CTAS ? pivot[lane].key : 0;
                const unsigned top = __reduce_max_sync(~0u, key);
                pivot += __ffs(__ballot_sync(~0u, key == top)) - 1;
                const uint4 head = *reinterpret_cast<const uint4*>(pivot);
                const int from = head.y;
                const float inverse = __uint_as_float(head.w);
                const float* const row = pivot->row + base;
                if (lane == j) source = head.z;
                went = went == from ? j : went == j ? from : went;
                #pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    place[r] = place[r] == from ? j : place[r] == j ? from : place[r];
                    const bool active = place[r] > j;
                    factors[r] = active ? a[r][s] * inverse : 0;
                    if (active) a[r][s] = factors[r];
                }
                if (j == 31) break;
                if (s + 1 < 32) {
                    const float u = row[s + 1];
                    #pragma unroll
                    for (int r = 0; r < ROWS; ++r) a[r][(s + 1) % 32] -= factors[r] * u;
                    offer<false>(a, factors, place, (s + 1) % 32, j + 1, base, pivot, rank);
                }
                #pragma unroll
                for (int q = (s + 2) / 4; q < 8; ++q)
                    if (4 * q < STEP || base + 4 * q < 32) {
                        const float4 u = *reinterpret_cast<const float4*>(row + 4 * q);
                        #pragma unroll
                        for (int r = 0; r < ROWS; ++r) {
                            if (4 * q >= s + 2) a[r][4 * q] -= factors[r] * u.x;
                            if (4 * q + 1 >= s + 2) a[r][4 * q + 1] -= factors[r] * u.y;
                            if (4 * q + 2 >= s + 2) a[r][4 * q + 2] -= factors[r] * u.z;
                            if (4 * q + 3 >= s + 2) a[r][4 * q + 3] -= factors[r] * u.w;
                        }
                    }
            }
            // The columns move by STEP, so that one text serves all steps; after the last they stand as at first.
            #pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                float kept[STEP];
                #pragma unroll
                for (int c = 0; c < STEP; ++c) kept[c] = a[r][c];
                #pragma unroll
                for (int c = 0; c < 32; ++c) a[r][c] = c + STEP < 32 ? a[r][(c + STEP) % 32] : kept[c + STEP - 32];
            }
        }
        #pragma unroll
        for (int r = 0; r < ROWS; ++r)
            if (place[r] >= 0) {
                #pragma unroll
                for (int c = 0; c < 32; ++c) corner[place[r] + c * stride] = a[r][c];
            }
        cluster_arrive();
        cluster_wait();
        float lower[32];
        #pragma unroll
        for (int k = 0; k < 32; ++k) {
            const float value = __ldcg(corner + lane + k * stride);
            lower[k] = lane > k ? value : 0;
        }
        // Columns that are solved for (those on the right, and the identity's), then those whose rows only move. A warp has four at a time, as each waits long.
        const int solved = after + 32, tasks = solved + before + 1;
        for (int begin = rank * WARPS + warp; begin < tasks; begin += 4 * CTAS * WARPS) {
            float x[4], was[4], displaced[4];
            float* column[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int task = begin + i * CTAS * WARPS;
                column[i] = task < after ? corner + (32 + task) * stride : task < solved ? inverses + (task - after) * 32
                    : task < tasks - 1 ? corner - (task - solved + 1) * stride : reinterpret_cast<float*>(order);
                const bool moves = task < tasks && (task < after || task >= solved);
                x[i] = moves ? __ldcg(column[i] + source) : lane == task - after ? 1 : 0;
                displaced[i] = moves ? __ldcg(column[i] + lane) : 0;
                was[i] = x[i];
            }
            if (begin < solved) {
                #pragma unroll
                for (int k = 0; k < 31; ++k)
                    #pragma unroll
                    for (int i = 0; i < 4; ++i) x[i] -= lower[k] * __shfl_sync(~0u, x[i], k);
            }
            __syncwarp();
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int task = begin + i * CTAS * WARPS;
                if (task >= tasks) break;
                column[i][lane] = task < solved ? x[i] : was[i];
                if (went >= 32 && (task < after || task >= solved)) column[i][went] = displaced[i];
            }
        }
    }
};

#define LEAF(CTAS, THREADS, ROWS, STEP) \
extern "C" __global__ void __cluster_dims__(CTAS, 1, 1) __launch_bounds__(THREADS, 1) \
leaf_##CTAS##_##THREADS##_##ROWS##_##STEP(float* corner, long long stride, int rows, int before, int after, int* order, float* inverses) \
{ \
    __shared__ Leaf<CTAS, THREADS, ROWS, STEP> here; \
    here.run(corner, stride, rows, before, after, order, inverses); \
}
LEAVES

// C -= A B, all in one matrix: tiles of 128 x 64, k a multiple of 32, m of 4.
extern "C" __global__ void __launch_bounds__(256) multiply(const float* a, const float* b, float* c, long long stride, int m, int n, int k)
{
    __shared__ float4 rows_of_a[32][32];
    __shared__ float4 columns_of_b[32][17];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, x = threadIdx.x % 16, y = threadIdx.x / 16;
    const int first = blockIdx.x * 128, column = blockIdx.y * 64;
    a += first;
    b += column * stride;
    c += first + column * stride;
    m -= first;
    n -= column;
    float4 sums[4][2];
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int h = 0; h < 2; ++h)
            sums[i][h] = 4 * x + 64 * h < m && 4 * y + i < n ? *reinterpret_cast<const float4*>(c + 4 * x + 64 * h + (4 * y + i) * stride)
                : make_float4(0, 0, 0, 0);
    float4 next_a[4], next_b[2];
    const int of_b = lane + warp % 2 * 32;
    const auto load = [&](int from) {
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            next_a[i] = 4 * lane < m ? *reinterpret_cast<const float4*>(a + 4 * lane + (from + warp + 8 * i) * stride) : make_float4(0, 0, 0, 0);
        #pragma unroll
        for (int i = 0; i < 2; ++i)
            next_b[i] = of_b < n ? *reinterpret_cast<const float4*>(b + from + 4 * (warp / 2 + 4 * i) + of_b * stride) : make_float4(0, 0, 0, 0);
    };
    load(0);
    for (int from = 0; from < k; from += 32) {
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 4; ++i) rows_of_a[warp + 8 * i][lane] = next_a[i];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int at = 4 * (warp / 2 + 4 * i);
            reinterpret_cast<float*>(columns_of_b[at])[of_b] = next_b[i].x;
            reinterpret_cast<float*>(columns_of_b[at + 1])[of_b] = next_b[i].y;
            reinterpret_cast<float*>(columns_of_b[at + 2])[of_b] = next_b[i].z;
            reinterpret_cast<float*>(columns_of_b[at + 3])[of_b] = next_b[i].w;
        }
        __syncthreads();
        if (from + 32 < k) load(from + 32);
        #pragma unroll 8
        for (int i = 0; i < 32; ++i) {
            const float4 u = columns_of_b[i][y], low = rows_of_a[i][x], high = rows_of_a[i][x + 16];
            const float factor[4] = {u.x, u.y, u.z, u.w};
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums[j][0].x -= low.x * factor[j];
                sums[j][0].y -= low.y * factor[j];
                sums[j][0].z -= low.z * factor[j];
                sums[j][0].w -= low.w * factor[j];
                sums[j][1].x -= high.x * factor[j];
                sums[j][1].y -= high.y * factor[j];
                sums[j][1].z -= high.z * factor[j];
                sums[j][1].w -= high.w * factor[j];
            }
        }
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int h = 0; h < 2; ++h)
            if (4 * x + 64 * h < m && 4 * y + i < n) *reinterpret_cast<float4*>(c + 4 * x + 64 * h + (4 * y + i) * stride) = sums[i][h];
}

// X = L^-1 X for 256 rows of X and a unit lower triangle, whose blocks of 32 x 32 on the diagonal are given inverted. A warp has EACH columns.
template <int EACH>
__device__ __forceinline__ void solve(const float* triangle, const float* inverses, float* x, long long stride, int columns)
{
    extern __shared__ float staged[];  // two of [32][256]
    __shared__ alignas(16) float shared_columns[8][32][EACH];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = (blockIdx.x * 8 + warp) * EACH;
    float (&mine)[32][EACH] = shared_columns[warp];
    const auto stage = [&](int i) {
        // Column k of block i: the inverse's, then what is below the diagonal block.
        for (int k = warp; k < 32; k += 8)
            for (int quad = lane; quad < 64 - 8 * i; quad += 32) {
                const float* from = quad < 8 ? inverses + i * 1024 + k * 32 + 4 * quad : triangle + (32 * i + k) * stride + 32 * i + 4 * quad;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                    :: "r"(shared_address(staged + (i & 1) * 8192 + k * 256 + 32 * i + 4 * quad)), "l"(from) : "memory");
            }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    stage(0);
    float sums[8][EACH];
    #pragma unroll
    for (int b = 0; b < 8; ++b)
        #pragma unroll
        for (int c = 0; c < EACH; ++c) sums[b][c] = first + c < columns ? x[32 * b + lane + (first + c) * stride] : 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (i < 7) stage(i + 1);
        const float* const block = staged + (i & 1) * 8192 + lane;
        #pragma unroll
        for (int c = 0; c < EACH; ++c) mine[lane][c] = sums[i][c];
        __syncwarp();
        float found[EACH] = {};
        #pragma unroll 8
        for (int k = 0; k < 32; ++k) {
            const float value = block[k * 256 + 32 * i];
            #pragma unroll
            for (int c = 0; c < EACH; ++c) found[c] += value * mine[k][c];
        }
        __syncwarp();
        #pragma unroll
        for (int c = 0; c < EACH; ++c) mine[lane][c] = sums[i][c] = found[c];
        __syncwarp();
        #pragma unroll 4
        for (int k = 0; k < 32; ++k) {
            float value[EACH];
            #pragma unroll
            for (int c = 0; c < EACH; ++c) value[c] = mine[k][c];
            #pragma unroll
            for (int b = i + 1; b < 8; ++b) {
                const float l = block[k * 256 + 32 * b];
                #pragma unroll
                for (int c = 0; c < EACH; ++c) sums[b][c] -= l * value[c];
            }
        }
    }
    #pragma unroll
    for (int b = 0; b < 8; ++b)
        #pragma unroll
        for (int c = 0; c < EACH; ++c)
            if (first + c < columns) x[32 * b + lane + (first + c) * stride] = sums[b][c];
}
extern "C" __global__ void __launch_bounds__(256) solve_4(const float* triangle, const float* inverses, float* x, long long stride, int columns)
{
    solve<4>(triangle, inverses, x, stride, columns);
}
extern "C" __global__ void __launch_bounds__(256) solve_8(const float* triangle, const float* inverses, float* x, long long stride, int columns)
{
    solve<8>(triangle, inverses, x, stride, columns);
}

// Row i of each column becomes row order[i]; of `extra`, a column by itself, likewise. A CTA has `each` columns, of at most 16384 rows.
extern "C" __global__ void __launch_bounds__(1024) reorder(float* matrix, long long stride, int rows, int columns, int each, const int* order, float* extra)
{
    extern __shared__ float4 column[];
    int4 from[4] = {};
    bool moves[4];
    float4 next[4] = {};
    #pragma unroll
    for (int q = 0; q < 4; ++q) {
        const int at = threadIdx.x + 1024 * q;
        moves[q] = 4 * at < rows;
        if (!moves[q]) continue;
        from[q] = reinterpret_cast<const int4*>(order)[at];
        // Where nothing moves nothing is read, either: rows only move among themselves.
        moves[q] = from[q].x != 4 * at || from[q].y != 4 * at + 1 || from[q].z != 4 * at + 2 || from[q].w != 4 * at + 3;
    }
    const auto where = [&](int c) { return reinterpret_cast<float4*>(c < columns ? matrix + c * stride : extra); };
    const auto load = [&](int c) {
        #pragma unroll
        for (int q = 0; q < 4; ++q)
            if (moves[q]) next[q] = where(c)[threadIdx.x + 1024 * q];
    };
    const int first = blockIdx.x * each, all = columns + (extra ? 1 : 0), last = min(first + each, all);
    if (first < last) load(first);
    for (int c = first; c < last; ++c) {
        __syncthreads();
        #pragma unroll
        for (int q = 0; q < 4; ++q)
            if (moves[q]) column[threadIdx.x + 1024 * q] = next[q];
        __syncthreads();
        if (c + 1 < last) load(c + 1);
        const float* const old = reinterpret_cast<const float*>(column);
        #pragma unroll
        for (int q = 0; q < 4; ++q)
            if (moves[q]) where(c)[threadIdx.x + 1024 * q] = make_float4(old[from[q].x], old[from[q].y], old[from[q].z], old[from[q].w]);
    }
}

extern "C" __global__ void identity(int* orders, int size)
{
    orders[blockIdx.y * static_cast<long long>(size) + blockIdx.x * 256 + threadIdx.x] = blockIdx.x * 256 + threadIdx.x;
}
