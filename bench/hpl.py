"""LU with partial pivoting as HPL does it, on one GPU: panels, row swaps and triangular solves of the program's own, and cuBLAS's SGEMM for the products.

    python bench/hpl.py [judge] [--size 16384] [--seeds 1,2,3] [--panel 256] [--tail 512] [--small 0]

A leaf of 32 columns is factored by one cluster of CTAs, whose threads hold its rows in registers; what is left of a panel of 256 columns is updated by
products of the program's own; above that columns are halved, as HPL's panels are, so that most products have long sums. The factorization is one CUDA graph.

`judge` prints the shortest time of a replay in ms and the mean of HPL's scaled residual over matrices of the seeds, computed in FP64; `time` in its place the
time alone; `parts` what a leaf takes by its kernel and its rows, and what the kinds of steps take by themselves. All print lines of JSON. The program needs
CuPy and a GPU of compute capability 9.0, and knows nothing of any other library.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json

LEAF, PANEL, TAIL = 32, 256, 512
"""Columns that a cluster factors at once, of a panel, and of the last panel, so that no small products are left for cuBLAS."""
SOLVED = 256
"""Rows of a triangle that one kernel solves for."""
STAGED = 2 * 32 * 256 * 4
"""Bytes of shared memory that it stages blocks in."""
SMS, MOST_ROWS = 132, 16384

KERNELS = r"""
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
"""


def schedule(steps, size: int, panel: int, tail: int) -> None:
    """Factor a matrix of `size` columns, in place: what is done, in order. `steps` does it.

    Args:
        steps: has `leaf(first, column, width)`: factors 32 columns of a panel of `width` columns from `first` on, moves rows in the panel and solves for the
            32 rows right of them in it; `rest(column, end)`: updates the panel's columns behind the leaf; `swap(of, column, columns, extra)`: moves rows from
            `of` on, in the order of what was factored there, in some columns and, where `extra` says so, in the order of the left neighbour;
            `solve(first, size, column, columns)`: rows from `first` on become U's; `product(row, rows, inner, k, column, columns)`: subtracts a product of
            L's `k` columns from `inner` on.
        panel: columns of a panel.
        tail: columns of the last panel.
    """
    def triangle(first: int, height: int, column: int, columns: int) -> None:
        if height <= panel:
            steps.solve(first, height, column, columns)
            return
        half = height // 2
        triangle(first, half, column, columns)
        steps.product(first + half, height - half, first, half, column, columns)
        triangle(first + half, height - half, column, columns)

    def factor(first: int, width: int) -> None:
        end = first + width
        if width <= (tail if end == size else panel):
            for column in range(first, end, LEAF):
                steps.leaf(first, column, width)
                if column + LEAF < end:
                    steps.rest(column, end)
            return
        half = width // 2
        middle = first + half
        factor(first, half)
        steps.swap(first, middle, width - half, None)
        triangle(first, half, middle, width - half)
        steps.product(middle, size - middle, first, half, middle, width - half)
        factor(middle, width - half)
        steps.swap(middle, first, half, first)

    factor(0, size)


def name_of(shape: tuple[int, int, int, int]) -> str:
    """Of a leaf's kernel: CTAs, threads, rows of a thread, columns of a loop's pass."""
    return "leaf_" + "_".join(map(str, shape))


def source(shapes) -> str:
    """The kernels' text, with leaves of these shapes."""
    text = "".join(f"LEAF({', '.join(map(str, shape))})\n" for shape in sorted(set(shapes)))
    return KERNELS.replace("LEAVES\n", text, 1)


class Steps:
    """The steps of `schedule`: which kernel does each, and on what. How a kernel is launched, and who multiplies, a subclass says.

    Args:
        size, panel: columns of the matrix and of a panel.
        matrix: address of [size, size] in column order.
        orders: of [size / panel, size] int32, the order of rows of each panel and of what begins with it; the first row is the matrix's in the end.
        inverses: of [size / 32, 32, 32], of the diagonal blocks.
        leaves: a leaf's kernel by the most rows that it takes.
        only: kinds of steps to do, to see what they cost; all where it is None.
        small: products of fewer multiplications are the program's own.

    Raises:
        ValueError: the kernels are not made for such a matrix or panel.
    """

    LEAVES = {16384: (16, 512, 2, 4), 8192: (16, 256, 2, 8), 4096: (16, 256, 1, 8), 2048: (8, 256, 1, 8)}

    def __init__(self, size: int, panel: int, matrix: int, orders: int, inverses: int, *, leaves=None, only=None, small: int = 0):
        halvings = max(0, (size // panel).bit_length() - 1)
        if panel % SOLVED or size != panel << halvings or size > MOST_ROWS:
            raise ValueError(f"size {size}, panel {panel}: needs a multiple of {SOLVED} columns, a power of two of such panels, {MOST_ROWS} rows at most")
        self.size, self.panel, self.matrix, self.orders, self.inverses, self.only, self.small = size, panel, matrix, orders, inverses, only, small
        self.leaves = dict(sorted((leaves or self.LEAVES).items()))

    def launch(self, name: str, grid: tuple[int, ...], threads: int, shared: int, *arguments: int) -> None:
        """Launch a kernel, with bytes of dynamic shared memory."""
        raise NotImplementedError

    def sgemm(self, m: int, n: int, k: int, a: int, b: int, c: int) -> None:
        """C -= A B, of addresses in the matrix."""
        raise NotImplementedError

    def at(self, row: int, column: int) -> int:
        return self.matrix + 4 * (row + column * self.size)

    def order(self, first: int, row: int = 0) -> int:
        return self.orders + 4 * (first // self.panel * self.size + row)

    def skips(self, kind: str) -> bool:
        return self.only is not None and kind not in self.only

    def clear(self) -> None:
        """Rows in order."""
        self.launch("identity", (self.size // 256, self.size // self.panel), 256, 0, self.orders, self.size)

    def leaf(self, first: int, column: int, width: int) -> None:
        if self.skips("leaf"):
            return
        shape = next(shape for most, shape in self.leaves.items() if most >= self.size - column)
        before = column - first
        self.launch(name_of(shape), (shape[0],), shape[1], 0, self.at(column, column), self.size, self.size - column, before, width - LEAF - before,
                    self.order(first, before), self.inverses + 4 * LEAF * column)

    def own_product(self, row: int, rows: int, inner: int, k: int, column: int, columns: int) -> None:
        self.launch("multiply", (-(-rows // 128), -(-columns // 64)), 256, 0, self.at(row, inner), self.at(inner, column), self.at(row, column), self.size,
                    rows, columns, k)

    def rest(self, column: int, end: int) -> None:
        row = column + LEAF
        if not self.skips("rest") and row < self.size:
            self.own_product(row, self.size - row, column, LEAF, row, end - row)

    def swap(self, of: int, column: int, columns: int, extra: int | None) -> None:
        if self.skips("swap"):
            return
        each = -(-(columns + 1) // SMS)
        self.launch("reorder", (-(-(columns + 1) // each),), 1024, 4 * (self.size - of), self.at(of, column), self.size, self.size - of, columns, each,
                    self.order(of), 0 if extra is None else self.order(extra, of - extra))

    def solve(self, first: int, height: int, column: int, columns: int) -> None:
        if self.skips("solve"):
            return
        for row in range(first, first + height, SOLVED):
            each = 4 if columns <= 32 * SMS else 8
            self.launch(f"solve_{each}", (-(-columns // (8 * each)),), 256, STAGED, self.at(row, row), self.inverses + 4 * LEAF * row, self.at(row, column),
                        self.size, columns)
            below = first + height - row - SOLVED
            if below:
                self.own_product(row + SOLVED, below, row, SOLVED, column, columns)

    def product(self, row: int, rows: int, inner: int, k: int, column: int, columns: int) -> None:
        if rows * columns * k < self.small:
            if not self.skips("small"):
                self.own_product(row, rows, inner, k, column, columns)
        elif not self.skips("product"):
            self.sgemm(rows, columns, k, self.at(row, inner), self.at(inner, column), self.at(row, column))


class Device(Steps):
    """On a GPU by CuPy, enqueued in the current stream; `begin` is called once that is current.

    Args:
        shapes: of leaves that are compiled, so that several of these share a module; those of `leaves` where it is None.

    Attributes:
        here: the matrix, overwritten; rows: the order of its rows, once it is factored.
    """

    def __init__(self, size: int, panel: int, *, shapes=None, **options):
        import cupy
        import numpy

        self.here, self.of_panels = cupy.zeros((size, size), numpy.float32, order="F"), cupy.empty((size // panel, size), numpy.int32)
        self.blocks, self.workspace = cupy.empty((size // LEAF, LEAF, LEAF), numpy.float32), cupy.empty(32 << 20, numpy.uint8)
        self.rows = self.of_panels[0]
        super().__init__(size, panel, *(array.data.ptr for array in (self.here, self.of_panels, self.blocks)), **options)
        names = ["multiply", "solve_4", "solve_8", "reorder", "identity", *map(name_of, set(self.leaves.values()))]
        module = cupy.RawModule(code=source(shapes or self.leaves.values()), options=("-std=c++17",), backend="nvrtc")
        self.kernels = {name: module.get_function(name) for name in names}
        for name, kernel in self.kernels.items():
            if name.startswith("leaf"):
                # 14: CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, which clusters of more than 8 CTAs need.
                status = ctypes.CDLL("libcuda.so.1").cuFuncSetAttribute(ctypes.c_void_p(kernel.kernel.ptr), 14, 1)
                assert not status, f"cuFuncSetAttribute: {status}"
        self.kernels["solve_4"].max_dynamic_shared_size_bytes = self.kernels["solve_8"].max_dynamic_shared_size_bytes = STAGED
        self.kernels["reorder"].max_dynamic_shared_size_bytes = 4 * size
        # CuPy's own functions refuse a stream that is being captured.
        cupy.cuda.device.get_cublas_handle()
        with open("/proc/self/maps") as maps:
            self.blas = ctypes.CDLL(next(line.split()[-1] for line in maps if "/libcublas.so" in line))
        pointer, integer = ctypes.c_void_p, ctypes.c_int
        self.blas.cublasSgemm_v2.argtypes = [pointer, *[integer] * 5, pointer, pointer, integer, pointer, integer, pointer, pointer, integer]
        self.handle, self.one, self.minus = pointer(), ctypes.c_float(1), ctypes.c_float(-1)
        status = self.blas.cublasCreate_v2(ctypes.byref(self.handle))
        assert not status, f"cublasCreate: {status}"

    def begin(self) -> None:
        """To the stream that is current now; not during a capture."""
        import cupy

        assert not self.blas.cublasSetStream_v2(self.handle, ctypes.c_void_p(cupy.cuda.get_current_stream().ptr))
        assert not self.blas.cublasSetWorkspace_v2(self.handle, ctypes.c_void_p(self.workspace.data.ptr), ctypes.c_size_t(self.workspace.nbytes))

    def launch(self, name: str, grid: tuple[int, ...], threads: int, shared: int, *arguments: int) -> None:
        self.kernels[name](grid, (threads,), arguments, shared_mem=shared)

    def sgemm(self, m: int, n: int, k: int, a: int, b: int, c: int) -> None:
        status = self.blas.cublasSgemm_v2(self.handle, 0, 0, m, n, k, ctypes.addressof(self.minus), a, self.size, b, self.size, ctypes.addressof(self.one), c,
                                          self.size)
        assert not status, f"cublasSgemm: {status}"


def captured(steps: Device, stream, enqueue):
    """What `enqueue` enqueues, as a CUDA graph; it is done once before, as functions are loaded when they are first called."""
    import cupy

    cupy.cuda.Device().synchronize()
    with stream:
        steps.begin()
        enqueue()
        stream.synchronize()
        stream.begin_capture()
        enqueue()
        return stream.end_capture()


def graph_of(steps: Device, stream, tail: int):
    """The factorization as a CUDA graph."""
    def enqueue():
        steps.clear()
        schedule(steps, steps.size, steps.panel, tail)

    return captured(steps, stream, enqueue)


def milliseconds(graph, stream, before, repeats: int) -> float:
    """The shortest time of a replay; `before` is enqueued ahead of each, and is not timed."""
    import cupy

    times = []
    for _ in range(repeats):
        with stream:
            before()
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record(stream)
            graph.launch(stream)
            end.record(stream)
        end.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, end)))
    return min(times)


def random_matrix(size: int, seed: int):
    """A and b with elements in [-1/2, 1/2)."""
    import cupy

    rng = cupy.random.default_rng(seed)
    return cupy.asfortranarray(rng.random((size, size), dtype=cupy.float32) - 0.5), rng.random(size, dtype=cupy.float32) - 0.5


def residual(a, b, lu, rows) -> float:
    """HPL's scaled residual of the solution that the factors give."""
    import cupy
    import cupyx.scipy.linalg

    y = cupyx.scipy.linalg.solve_triangular(lu, b[rows], lower=True, unit_diagonal=True)
    exact, rest, norm = cupyx.scipy.linalg.solve_triangular(lu, y).astype(cupy.float64), b.astype(cupy.float64), 0.0
    for first in range(0, len(a), 2048):
        part = a[first:first + 2048].astype(cupy.float64)
        rest[first:first + 2048] -= part @ exact
        norm = max(norm, float(abs(part).sum(axis=1).max()))
    return float(abs(rest).max()) / (2.0 ** -23 * (norm * float(abs(exact).max()) + float(abs(b).max())) * len(a))


SHAPES = {16384: ((16, 256, 4, 8), (16, 512, 2, 8), (16, 512, 2, 4)), 8192: ((16, 256, 2, 8), (16, 512, 1, 8), (8, 512, 2, 8)),
          4096: ((16, 256, 1, 8), (8, 512, 1, 8), (8, 256, 2, 8)), 2048: ((16, 128, 1, 8), (8, 256, 1, 8), (4, 512, 1, 8))}
"""Kernels of a leaf that `parts` compares."""


def parts(size: int, panels, tails, smalls) -> None:
    """Print lines of JSON: a leaf's time by its kernel, and the factorization's by kinds of steps."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    source_matrix, _ = random_matrix(size, 1)
    compiled = [*Steps.LEAVES.values(), *itertools.chain(*SHAPES.values())]
    for rows, shapes in SHAPES.items():
        for shape in shapes if rows <= size else ():
            steps = Device(size, 256, leaves={rows: shape}, shapes=compiled)
            column, leaves = size - rows, 8
            try:
                # Eight leaves in one place, each over what the last one left: rows stay as many, and times do not depend on values.
                graph = captured(steps, stream, lambda: [steps.leaf(column, column, 256) for _ in range(leaves)])
                ms = milliseconds(graph, stream, lambda: cupy.copyto(steps.here, source_matrix), 5) / leaves
            except (cupy.cuda.driver.CUDADriverError, cupy.cuda.runtime.CUDARuntimeError) as error:
                print(json.dumps({"leaf": rows, "shape": shape, "error": str(error)}), flush=True)
                continue
            print(json.dumps({"leaf": rows, "shape": shape, "us": 1e3 * ms, "us a column": 1e3 * ms / LEAF}), flush=True)
    # Small, so that nothing overflows where steps are left out.
    source_matrix *= 1e-6
    cupy.cuda.Device().synchronize()
    for panel, tail, small in itertools.product(panels, tails, smalls):
        if tail < panel:
            continue
        found = {}
        for kinds in (None, {"leaf"}, {"rest"}, {"swap"}, {"solve"}, {"small"}, {"product"}):
            steps = Device(size, panel, only=kinds, small=small, shapes=compiled)
            graph = graph_of(steps, stream, tail)
            found[", ".join(kinds or ["all"])] = milliseconds(graph, stream, lambda: cupy.copyto(steps.here, source_matrix), 3)
        print(json.dumps({"panel": panel, "tail": tail, "small": small, "ms": found}), flush=True)


def main() -> None:
    import cupy
    import numpy

    numbers = lambda text: [int(float(one)) for one in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="judge", choices=("judge", "time", "parts"))
    parser.add_argument("others", nargs="*", help="not looked at")
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--seeds", type=numbers, default=[1, 2, 3])
    parser.add_argument("--panel", type=numbers, default=[PANEL], help="columns of a panel; of `parts`, several")
    parser.add_argument("--tail", type=numbers, default=[TAIL], help="columns of the last panel; likewise")
    parser.add_argument("--small", type=numbers, default=[0], help="products of fewer multiplications are the program's own; likewise")
    options = parser.parse_args()
    if options.what == "parts":
        parts(options.size, options.panel, options.tail, options.small)
        return
    stream = cupy.cuda.Stream(non_blocking=True)
    steps = Device(options.size, options.panel[0], small=options.small[0])
    graph = graph_of(steps, stream, options.tail[0])
    found, errors = [], []
    for seed in options.seeds:
        a, b = random_matrix(options.size, seed)
        cupy.cuda.Device().synchronize()
        found.append(milliseconds(graph, stream, lambda: cupy.copyto(steps.here, a), 3))
        if options.what == "judge":
            errors.append(residual(a, b, steps.here, steps.rows.astype(numpy.int64)))
    error = sum(errors) / len(errors) if errors else None
    print(json.dumps({"name": "LU, as HPL: own panels", "ms": min(found), "error": error, "errors": errors}), flush=True)


if __name__ == "__main__":
    main()
