// C = A B in FP32, row major, any m, n, k: one thread for each element of C, tiles of A and B in shared memory.
// Launch with 256 threads and ceil(m / 16) ceil(n / 16) blocks.

#define TILE 16

extern "C" __global__ void __launch_bounds__(TILE * TILE)
by_hand(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = (int)threadIdx.x % TILE, y = (int)threadIdx.x / TILE;
    const int tiles_n = (n + TILE - 1) / TILE;
    const int row = (int)blockIdx.x / tiles_n * TILE + y;
    const int column = (int)blockIdx.x % tiles_n * TILE + x;

    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        // Each thread brings one element of A and one of B; neighbours read neighbours.
        a_tile[y][x] = row < m && k0 + x < k ? a[(long long)row * k + k0 + x] : 0.0f;
        b_tile[y][x] = column < n && k0 + y < k ? b[(long long)(k0 + y) * n + column] : 0.0f;
        __syncthreads();

        // Two loads from shared memory for one multiply-add: this is what limits the kernel.
#pragma unroll
        for (int i = 0; i < TILE; ++i)
            sum = fmaf(a_tile[y][i], b_tile[i][x], sum);

        // Nobody overwrites a tile that another thread still reads.
        __syncthreads();
    }

    if (row < m && column < n)
        c[(long long)row * n + column] = sum;
}

// Not here: alpha and beta, transposed operands, leading dimensions, Inf and NaN in words, counters.
// Step 2 has all of them, and keeps 32 elements of C in each thread's registers.
