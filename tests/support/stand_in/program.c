/*
 * A program that is linked with cuBLAS: threads, calls of each, rows and columns and sums of the product. It prints what a call takes and the first element.
 * With OWN_HANDLES each thread has a handle and a stream of its own, else all share one. With LOOKED_UP it looks the product up in the library by its name.
 * Threads meet before their first call and after it, so that what belongs to one is never another's that came later.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cublasCreate_v2(void **handle);
int cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasSgemm_v2(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);

static int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int) = cublasSgemm_v2;
static int calls, m, n, k, own;
static void *shared;
static int wrong;
static pthread_barrier_t all;

static void *work(void *data)
{
    float alpha = 1, beta = 0, *a = malloc(4 * (size_t)(m * k)), *b = malloc(4 * (size_t)(k * n)), *c = calloc(4, (size_t)(m * n));
    void *handle = shared;
    if (own) {
        cublasCreate_v2(&handle);
        cublasSetStream_v2(handle, data);
    }
    for (int i = 0; i < m * k; ++i)
        a[i] = 1;
    for (int i = 0; i < k * n; ++i)
        b[i] = 2;
    pthread_barrier_wait(&all);
    for (int i = 0; i < calls; ++i) {
        if (sgemm(handle, 0, 0, m, n, k, &alpha, a, m, b, k, &beta, c, m) || c[0] != 2 * k || c[m * n - 1] != 2 * k)
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        if (!i)
            pthread_barrier_wait(&all);
    }
    if (own)
        cublasDestroy_v2(handle);
    free(a), free(b), free(c);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    struct timespec start, end;
    int count = argc > 1 ? atoi(argv[1]) : 1;
    calls = argc > 2 ? atoi(argv[2]) : 1, m = argc > 3 ? atoi(argv[3]) : 4, n = argc > 4 ? atoi(argv[4]) : 4, k = argc > 5 ? atoi(argv[5]) : 8;
    own = getenv("OWN_HANDLES") != NULL;
    if (getenv("LOOKED_UP"))
        *(void **)&sgemm = dlsym(dlopen("libcublas.so.13", RTLD_NOW), "cublasSgemm_v2");
    if (!own)
        cublasCreate_v2(&shared);
    pthread_barrier_init(&all, NULL, count);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (long i = 0; i < count; ++i)
        pthread_create(&threads[i], NULL, work, (void *)(0x100 + 0x10 * i));
    for (int i = 0; i < count; ++i)
        pthread_join(threads[i], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("{\"ns\": %.1f, \"wrong\": %d}\n", (1e9 * (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec)) / calls, wrong);
    return 0;
}
