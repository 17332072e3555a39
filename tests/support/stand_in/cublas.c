/*
 * Stands in for libcublas.so.13: the functions that the preload library defines or calls, on the host, with that library's versions of symbols. FP32, FP64
 * and complex numbers of both are computed; calls of other types are counted. Device pointers to scalars are the host's, too.
 */
#include "blas.h"

typedef struct handle { uint32_t mark; int pointers, math; void *stream; } handle;
enum { MARK = 0xb1a5, OK = 0, NOT_INITIALIZED = 1, INVALID = 7 };

long long stand_in_calls(const char *name) { return count_of(name); }

int cublasCreate_v2(handle **made)
{
    *made = calloc(1, sizeof **made);
    (*made)->mark = MARK;
    return OK;
}
int cublasDestroy_v2(handle *h) { called(__func__); if (!h || h->mark != MARK) return NOT_INITIALIZED; h->mark = 0; free(h); return OK; }
int cublasSetStream_v2(handle *h, void *stream) { h->stream = stream; return OK; }
int cublasGetStream_v2(handle *h, void **stream) { if (!h || h->mark != MARK) return NOT_INITIALIZED; *stream = h->stream; return OK; }
int cublasSetPointerMode_v2(handle *h, int mode) { h->pointers = mode; return OK; }
int cublasGetPointerMode_v2(handle *h, int *mode) { if (!h || h->mark != MARK) return NOT_INITIALIZED; *mode = h->pointers; return OK; }
int cublasSetMathMode(handle *h, int mode) { h->math = mode; return OK; }
int cublasGetMathMode(handle *h, int *mode) { if (!h || h->mark != MARK) return NOT_INITIALIZED; *mode = h->math; return OK; }

static int check(const handle *h, int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc)
{
    return !h || h->mark != MARK ? NOT_INITIALIZED : m < 0 || n < 0 || k < 0 || lda < 1 || ldb < 1 || ldc < m ? INVALID : OK;
}

#define SGEMM(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *a, integer lda, const real *b, integer ldb, \
             const real *beta, real *c, integer ldc) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc) \
        if (!status) \
            product(ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc); \
        return status; \
    }
SGEMM(cublasSgemm_v2, int, float)
SGEMM(cublasSgemm_v2_64, int64_t, float)
SGEMM(cublasDgemm_v2, int, double)
SGEMM(cublasDgemm_v2_64, int64_t, double)
SGEMM(cublasCgemm_v2, int, float complex)
SGEMM(cublasCgemm_v2_64, int64_t, float complex)
SGEMM(cublasZgemm_v2, int, double complex)
SGEMM(cublasZgemm_v2_64, int64_t, double complex)
SGEMM(cublasCgemm3m, int, float complex)
SGEMM(cublasCgemm3m_64, int64_t, float complex)
SGEMM(cublasZgemm3m, int, double complex)
SGEMM(cublasZgemm3m_64, int64_t, double complex)

#define STRIDED(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *a, integer lda, long long sa, const real *b, \
             integer ldb, long long sb, const real *beta, real *c, integer ldc, long long sc, integer batch) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(beta), AT(c), ldc, sc, batch) \
        for (integer i = 0; !status && i < batch; ++i) \
            product(ta, tb, m, n, k, *alpha, a + i * sa, lda, b + i * sb, ldb, *beta, c + i * sc, ldc); \
        return status; \
    }
STRIDED(cublasSgemmStridedBatched, int, float)
STRIDED(cublasSgemmStridedBatched_64, int64_t, float)
STRIDED(cublasDgemmStridedBatched, int, double)
STRIDED(cublasDgemmStridedBatched_64, int64_t, double)
STRIDED(cublasCgemmStridedBatched, int, float complex)
STRIDED(cublasCgemmStridedBatched_64, int64_t, float complex)
STRIDED(cublasZgemmStridedBatched, int, double complex)
STRIDED(cublasZgemmStridedBatched_64, int64_t, double complex)
STRIDED(cublasCgemm3mStridedBatched, int, float complex)
STRIDED(cublasCgemm3mStridedBatched_64, int64_t, float complex)

#define BATCHED(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *const a[], integer lda, const real *const b[], \
             integer ldb, const real *beta, real *const c[], integer ldc, integer batch) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc, batch) \
        for (integer i = 0; !status && i < batch; ++i) \
            product(ta, tb, m, n, k, *alpha, a[i], lda, b[i], ldb, *beta, c[i], ldc); \
        return status; \
    }
BATCHED(cublasSgemmBatched, int, float)
BATCHED(cublasSgemmBatched_64, int64_t, float)
BATCHED(cublasDgemmBatched, int, double)
BATCHED(cublasDgemmBatched_64, int64_t, double)
BATCHED(cublasCgemmBatched, int, float complex)
BATCHED(cublasCgemmBatched_64, int64_t, float complex)
BATCHED(cublasZgemmBatched, int, double complex)
BATCHED(cublasZgemmBatched_64, int64_t, double complex)
BATCHED(cublasCgemm3mBatched, int, float complex)
BATCHED(cublasCgemm3mBatched_64, int64_t, float complex)

#define TYPE_OF(scalar) _Generic((scalar), const float complex *: 4, default: 0)

#define SGEMM_EX(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const void *a, int at, integer lda, const void *b, int bt, \
             integer ldb, const real *beta, void *c, int ct, integer ldc) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), at, lda, AT(b), bt, ldb, AT(beta), AT(c), ct, ldc) \
        if (!status && at == TYPE_OF(alpha) && bt == at && ct == at) \
            product(ta, tb, m, n, k, *alpha, (const real *)a, lda, (const real *)b, ldb, *beta, (real *)c, ldc); \
        return status; \
    }
SGEMM_EX(cublasSgemmEx, int, float)
SGEMM_EX(cublasSgemmEx_64, int64_t, float)
SGEMM_EX(cublasCgemmEx, int, float complex)
SGEMM_EX(cublasCgemmEx_64, int64_t, float complex)
SGEMM_EX(cublasCgemm3mEx, int, float complex)
SGEMM_EX(cublasCgemm3mEx_64, int64_t, float complex)

#define WIDE(scalar) (*(const double *)(const void *)(scalar))
#define PAIR(type, scalar) (*(const type complex *)(const void *)(scalar))

#define GEMM_EX(name, integer) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const float *alpha, const void *a, int at, integer lda, const void *b, int bt, \
             integer ldb, const float *beta, void *c, int ct, integer ldc, int compute, int algo) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        (void)algo; \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), at, lda, AT(b), bt, ldb, AT(beta), AT(c), ct, ldc, compute, algo) \
        if (!status && !at && !bt && !ct && compute == 68) \
            product(ta, tb, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc); \
        if (!status && at == 1 && bt == 1 && ct == 1 && compute == 70) \
            product_of_double(ta, tb, m, n, k, WIDE(alpha), a, lda, b, ldb, WIDE(beta), c, ldc); \
        if (!status && at == 4 && bt == 4 && ct == 4 && compute == 68) \
            product_of_pairs(ta, tb, m, n, k, PAIR(float, alpha), a, lda, b, ldb, PAIR(float, beta), c, ldc); \
        if (!status && at == 5 && bt == 5 && ct == 5 && compute == 70) \
            product_of_wide_pairs(ta, tb, m, n, k, PAIR(double, alpha), a, lda, b, ldb, PAIR(double, beta), c, ldc); \
        return status; \
    }
GEMM_EX(cublasGemmEx, int)
GEMM_EX(cublasGemmEx_64, int64_t)

#define STRIDED_EX(name, integer) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const float *alpha, const void *a, int at, integer lda, long long sa, const void *b, \
             int bt, integer ldb, long long sb, const float *beta, void *c, int ct, integer ldc, long long sc, integer batch, int compute, int algo) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        (void)algo; \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), at, lda, sa, AT(b), bt, ldb, sb, AT(beta), AT(c), ct, ldc, sc, batch, compute, algo) \
        for (integer i = 0; !status && !at && !bt && !ct && compute == 68 && i < batch; ++i) \
            product(ta, tb, m, n, k, *alpha, (const float *)a + i * sa, lda, (const float *)b + i * sb, ldb, *beta, (float *)c + i * sc, ldc); \
        for (integer i = 0; !status && at == 1 && bt == 1 && ct == 1 && compute == 70 && i < batch; ++i) \
            product_of_double(ta, tb, m, n, k, WIDE(alpha), (const double *)a + i * sa, lda, (const double *)b + i * sb, ldb, WIDE(beta), \
                              (double *)c + i * sc, ldc); \
        for (integer i = 0; !status && at == 4 && bt == 4 && ct == 4 && compute == 68 && i < batch; ++i) \
            product_of_pairs(ta, tb, m, n, k, PAIR(float, alpha), (const float complex *)a + i * sa, lda, (const float complex *)b + i * sb, ldb, \
                             PAIR(float, beta), (float complex *)c + i * sc, ldc); \
        for (integer i = 0; !status && at == 5 && bt == 5 && ct == 5 && compute == 70 && i < batch; ++i) \
            product_of_wide_pairs(ta, tb, m, n, k, PAIR(double, alpha), (const double complex *)a + i * sa, lda, (const double complex *)b + i * sb, ldb, \
                                  PAIR(double, beta), (double complex *)c + i * sc, ldc); \
        return status; \
    }
STRIDED_EX(cublasGemmStridedBatchedEx, int)
STRIDED_EX(cublasGemmStridedBatchedEx_64, int64_t)

#define BATCHED_EX(name, integer) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const float *alpha, const void *const a[], int at, integer lda, \
             const void *const b[], int bt, integer ldb, const float *beta, void *const c[], int ct, integer ldc, integer batch, int compute, int algo) \
    { \
        int status = check(h, m, n, k, lda, ldb, ldc); \
        (void)algo; \
        called(#name); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), at, lda, AT(b), bt, ldb, AT(beta), AT(c), ct, ldc, batch, compute, algo) \
        for (integer i = 0; !status && !at && !bt && !ct && compute == 68 && i < batch; ++i) \
            product(ta, tb, m, n, k, *alpha, a[i], lda, b[i], ldb, *beta, c[i], ldc); \
        for (integer i = 0; !status && at == 1 && bt == 1 && ct == 1 && compute == 70 && i < batch; ++i) \
            product_of_double(ta, tb, m, n, k, WIDE(alpha), a[i], lda, b[i], ldb, WIDE(beta), c[i], ldc); \
        for (integer i = 0; !status && at == 4 && bt == 4 && ct == 4 && compute == 68 && i < batch; ++i) \
            product_of_pairs(ta, tb, m, n, k, PAIR(float, alpha), a[i], lda, b[i], ldb, PAIR(float, beta), c[i], ldc); \
        for (integer i = 0; !status && at == 5 && bt == 5 && ct == 5 && compute == 70 && i < batch; ++i) \
            product_of_wide_pairs(ta, tb, m, n, k, PAIR(double, alpha), a[i], lda, b[i], ldb, PAIR(double, beta), c[i], ldc); \
        return status; \
    }
BATCHED_EX(cublasGemmBatchedEx, int)
BATCHED_EX(cublasGemmBatchedEx_64, int64_t)

#define GOOD(h) ((h) && ((handle *)(h))->mark == MARK)
#define IS_T(op) ((op) != 0)
#define IS_UPPER(uplo) ((uplo) == 1)
#define IS_RIGHT(side) ((side) == 1)
#define IS_UNIT(diag) ((diag) == 1)
#include "level3.h"
LEVEL3(cublasSsyrk_v2, cublasSsyr2k_v2, cublasSsyrkx, cublasSsymm_v2, cublasStrmm_v2, cublasStrsm_v2)
LEVEL3_OF_DOUBLE(cublasDsyrk_v2, cublasDsyr2k_v2, cublasDsyrkx, cublasDsymm_v2, cublasDtrmm_v2, cublasDtrsm_v2)
LEVEL3_OF_PAIRS(cublasCsyrk_v2, cublasCsyr2k_v2, cublasCsyrkx, cublasCsymm_v2, cublasCtrmm_v2, cublasCtrsm_v2, cublasChemm_v2, cublasCherk_v2,
                cublasCher2k_v2)
LEVEL3_OF_PAIRS(cublasZsyrk_v2, cublasZsyr2k_v2, cublasZsyrkx, cublasZsymm_v2, cublasZtrmm_v2, cublasZtrsm_v2, cublasZhemm_v2, cublasZherk_v2,
                cublasZher2k_v2)
LEVEL3_BATCHED(cublasStrsmBatched, cublasDtrsmBatched, cublasCtrsmBatched, cublasZtrsmBatched)

/* Another function, which the preload library leaves alone. */
int cublasSgemv_v2(
    handle *h, int op, int m, int n, const float *alpha, const float *a, int lda, const float *x, int incx, const float *beta, float *y, int incy)
{
    called(__func__);
    for (int i = 0; h && i < m; ++i) {
        double sum = 0;
        for (int j = 0; j < n; ++j)
            sum += (double)element(a, op != 0, i, j, lda) * x[j * incx];
        y[i * incy] = (float)(*alpha * sum + *beta * y[i * incy]);
    }
    return OK;
}
