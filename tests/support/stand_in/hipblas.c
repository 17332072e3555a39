/*
 * Stands in for libhipblas.so and, with -DROCBLAS, for librocblas.so: the functions that the preload library defines or calls, on the host. hipBLAS calls
 * rocBLAS, as the real one does. The rocBLAS here is an old one without math modes.
 */
#include "blas.h"

typedef struct handle { uint32_t mark; int pointers, math; void *stream, *inner; } handle;
enum { MARK = 0xb1a5, OK = 0, NOT_INITIALIZED = 1, INVALID = 4, OP_N = 111 };

#ifdef ROCBLAS
#define NAME(hip, roc) roc
#else
#define NAME(hip, roc) hip
int rocblas_create_handle(handle **);
int rocblas_sgemm(handle *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
#endif

long long NAME(stand_in_calls, stand_in_roc_calls)(const char *name) { return count_of(name); }

int NAME(hipblasCreate, rocblas_create_handle)(handle **made)
{
    *made = calloc(1, sizeof **made);
    (*made)->mark = MARK;
#ifndef ROCBLAS
    rocblas_create_handle((handle **)&(*made)->inner);
#endif
    return OK;
}
int NAME(hipblasDestroy, rocblas_destroy_handle)(handle *h)
{
    called(__func__);
    if (!h || h->mark != MARK)
        return NOT_INITIALIZED;
    h->mark = 0;
    free(h);
    return OK;
}
int NAME(hipblasSetStream, rocblas_set_stream)(handle *h, void *stream) { h->stream = stream; return OK; }
int NAME(hipblasGetStream, rocblas_get_stream)(handle *h, void **stream) { if (!h || h->mark != MARK) return NOT_INITIALIZED; *stream = h->stream; return OK; }
int NAME(hipblasSetPointerMode, rocblas_set_pointer_mode)(handle *h, int mode) { h->pointers = mode; return OK; }
int NAME(hipblasGetPointerMode, rocblas_get_pointer_mode)(handle *h, int *mode)
{
    if (!h || h->mark != MARK)
        return NOT_INITIALIZED;
    *mode = h->pointers;
    return OK;
}
#ifndef ROCBLAS
int hipblasSetMathMode(handle *h, int mode) { h->math = mode; return OK; }
int hipblasGetMathMode(handle *h, int *mode) { if (!h || h->mark != MARK) return NOT_INITIALIZED; *mode = h->math; return OK; }
#endif

#define SGEMM(name, integer, real, body) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *a, integer lda, const real *b, integer ldb, \
             const real *beta, real *c, integer ldc) \
    { \
        called(__func__); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc) \
        if (!h || h->mark != MARK) \
            return NOT_INITIALIZED; \
        body; \
        return OK; \
    }
#define OWN product(ta - OP_N, tb - OP_N, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc)
#ifdef ROCBLAS
SGEMM(rocblas_sgemm, int, float, OWN)
SGEMM(rocblas_sgemm_64, int64_t, float, OWN)
SGEMM(rocblas_dgemm, int, double, OWN)
SGEMM(rocblas_dgemm_64, int64_t, double, OWN)
SGEMM(rocblas_cgemm, int, float complex, OWN)
SGEMM(rocblas_cgemm_64, int64_t, float complex, OWN)
SGEMM(rocblas_zgemm, int, double complex, OWN)
SGEMM(rocblas_zgemm_64, int64_t, double complex, OWN)
#else
SGEMM(hipblasSgemm, int, float, return rocblas_sgemm(h->inner, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
SGEMM(hipblasSgemm_64, int64_t, float, OWN)
SGEMM(hipblasDgemm, int, double, OWN)
SGEMM(hipblasDgemm_64, int64_t, double, OWN)
SGEMM(hipblasCgemm, int, float complex, OWN)
SGEMM(hipblasCgemm_64, int64_t, float complex, OWN)
SGEMM(hipblasZgemm, int, double complex, OWN)
SGEMM(hipblasZgemm_64, int64_t, double complex, OWN)
#endif

#define STRIDED(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *a, integer lda, int64_t sa, const real *b, \
             integer ldb, int64_t sb, const real *beta, real *c, integer ldc, int64_t sc, integer batch) \
    { \
        called(__func__); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(beta), AT(c), ldc, sc, batch) \
        for (integer i = 0; h && i < batch; ++i) \
            product(ta - OP_N, tb - OP_N, m, n, k, *alpha, a + i * sa, lda, b + i * sb, ldb, *beta, c + i * sc, ldc); \
        return h ? OK : NOT_INITIALIZED; \
    }
STRIDED(NAME(hipblasSgemmStridedBatched, rocblas_sgemm_strided_batched), int, float)
STRIDED(NAME(hipblasSgemmStridedBatched_64, rocblas_sgemm_strided_batched_64), int64_t, float)
STRIDED(NAME(hipblasDgemmStridedBatched, rocblas_dgemm_strided_batched), int, double)
STRIDED(NAME(hipblasDgemmStridedBatched_64, rocblas_dgemm_strided_batched_64), int64_t, double)
STRIDED(NAME(hipblasCgemmStridedBatched, rocblas_cgemm_strided_batched), int, float complex)
STRIDED(NAME(hipblasCgemmStridedBatched_64, rocblas_cgemm_strided_batched_64), int64_t, float complex)
STRIDED(NAME(hipblasZgemmStridedBatched, rocblas_zgemm_strided_batched), int, double complex)
STRIDED(NAME(hipblasZgemmStridedBatched_64, rocblas_zgemm_strided_batched_64), int64_t, double complex)

#define BATCHED(name, integer, real) \
    int name(handle *h, int ta, int tb, integer m, integer n, integer k, const real *alpha, const real *const a[], integer lda, const real *const b[], \
             integer ldb, const real *beta, real *const c[], integer ldc, integer batch) \
    { \
        called(__func__); \
        NOTE(AT(h), ta, tb, m, n, k, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc, batch) \
        for (integer i = 0; h && i < batch; ++i) \
            product(ta - OP_N, tb - OP_N, m, n, k, *alpha, a[i], lda, b[i], ldb, *beta, c[i], ldc); \
        return h ? OK : NOT_INITIALIZED; \
    }
BATCHED(NAME(hipblasSgemmBatched, rocblas_sgemm_batched), int, float)
BATCHED(NAME(hipblasSgemmBatched_64, rocblas_sgemm_batched_64), int64_t, float)
BATCHED(NAME(hipblasDgemmBatched, rocblas_dgemm_batched), int, double)
BATCHED(NAME(hipblasDgemmBatched_64, rocblas_dgemm_batched_64), int64_t, double)
BATCHED(NAME(hipblasCgemmBatched, rocblas_cgemm_batched), int, float complex)
BATCHED(NAME(hipblasCgemmBatched_64, rocblas_cgemm_batched_64), int64_t, float complex)
BATCHED(NAME(hipblasZgemmBatched, rocblas_zgemm_batched), int, double complex)
BATCHED(NAME(hipblasZgemmBatched_64, rocblas_zgemm_batched_64), int64_t, double complex)

#define GOOD(h) ((h) && ((handle *)(h))->mark == MARK)
#define IS_T(op) ((op) != OP_N)
#define IS_UPPER(uplo) ((uplo) == 121)
#define IS_RIGHT(side) ((side) == 142)
#define IS_UNIT(diag) ((diag) == 132)
#include "level3.h"
#ifdef ROCBLAS
LEVEL3(rocblas_ssyrk, rocblas_ssyr2k, rocblas_ssyrkx, rocblas_ssymm, rocblas_strmm, rocblas_strsm)
LEVEL3_STRIDED(rocblas_ssyrk_strided_batched, rocblas_ssyr2k_strided_batched, rocblas_ssyrkx_strided_batched, rocblas_ssymm_strided_batched,
               rocblas_strmm_strided_batched, rocblas_strsm_strided_batched)
LEVEL3_OF_DOUBLE(rocblas_dsyrk, rocblas_dsyr2k, rocblas_dsyrkx, rocblas_dsymm, rocblas_dtrmm, rocblas_dtrsm)
LEVEL3_OF_PAIRS(rocblas_csyrk, rocblas_csyr2k, rocblas_csyrkx, rocblas_csymm, rocblas_ctrmm, rocblas_ctrsm, rocblas_chemm, rocblas_cherk,
                rocblas_cher2k)
LEVEL3_OF_PAIRS(rocblas_zsyrk, rocblas_zsyr2k, rocblas_zsyrkx, rocblas_zsymm, rocblas_ztrmm, rocblas_ztrsm, rocblas_zhemm, rocblas_zherk,
                rocblas_zher2k)
LEVEL3_STRIDED_OF_DOUBLE(rocblas_dsyrk_strided_batched, rocblas_dsyr2k_strided_batched, rocblas_dsyrkx_strided_batched, rocblas_dsymm_strided_batched,
                         rocblas_dtrmm_strided_batched, rocblas_dtrsm_strided_batched)
LEVEL3_STRIDED_OF_PAIRS(rocblas_csyrk_strided_batched, rocblas_csyr2k_strided_batched, rocblas_csyrkx_strided_batched, rocblas_csymm_strided_batched,
                        rocblas_ctrmm_strided_batched, rocblas_ctrsm_strided_batched, rocblas_chemm_strided_batched, rocblas_cherk_strided_batched,
                        rocblas_cher2k_strided_batched)
LEVEL3_STRIDED_OF_PAIRS(rocblas_zsyrk_strided_batched, rocblas_zsyr2k_strided_batched, rocblas_zsyrkx_strided_batched, rocblas_zsymm_strided_batched,
                        rocblas_ztrmm_strided_batched, rocblas_ztrsm_strided_batched, rocblas_zhemm_strided_batched, rocblas_zherk_strided_batched,
                        rocblas_zher2k_strided_batched)
LEVEL3_BATCHED(rocblas_strsm_batched, rocblas_dtrsm_batched, rocblas_ctrsm_batched, rocblas_ztrsm_batched)
#else
LEVEL3(hipblasSsyrk, hipblasSsyr2k, hipblasSsyrkx, hipblasSsymm, hipblasStrmm, hipblasStrsm)
LEVEL3_STRIDED(hipblasSsyrkStridedBatched, hipblasSsyr2kStridedBatched, hipblasSsyrkxStridedBatched, hipblasSsymmStridedBatched,
               hipblasStrmmStridedBatched, hipblasStrsmStridedBatched)
LEVEL3_OF_DOUBLE(hipblasDsyrk, hipblasDsyr2k, hipblasDsyrkx, hipblasDsymm, hipblasDtrmm, hipblasDtrsm)
LEVEL3_OF_PAIRS(hipblasCsyrk, hipblasCsyr2k, hipblasCsyrkx, hipblasCsymm, hipblasCtrmm, hipblasCtrsm, hipblasChemm, hipblasCherk,
                hipblasCher2k)
LEVEL3_OF_PAIRS(hipblasZsyrk, hipblasZsyr2k, hipblasZsyrkx, hipblasZsymm, hipblasZtrmm, hipblasZtrsm, hipblasZhemm, hipblasZherk,
                hipblasZher2k)
LEVEL3_STRIDED_OF_DOUBLE(hipblasDsyrkStridedBatched, hipblasDsyr2kStridedBatched, hipblasDsyrkxStridedBatched, hipblasDsymmStridedBatched,
                         hipblasDtrmmStridedBatched, hipblasDtrsmStridedBatched)
LEVEL3_STRIDED_OF_PAIRS(hipblasCsyrkStridedBatched, hipblasCsyr2kStridedBatched, hipblasCsyrkxStridedBatched, hipblasCsymmStridedBatched,
                        hipblasCtrmmStridedBatched, hipblasCtrsmStridedBatched, hipblasChemmStridedBatched, hipblasCherkStridedBatched,
                        hipblasCher2kStridedBatched)
LEVEL3_STRIDED_OF_PAIRS(hipblasZsyrkStridedBatched, hipblasZsyr2kStridedBatched, hipblasZsyrkxStridedBatched, hipblasZsymmStridedBatched,
                        hipblasZtrmmStridedBatched, hipblasZtrsmStridedBatched, hipblasZhemmStridedBatched, hipblasZherkStridedBatched,
                        hipblasZher2kStridedBatched)
LEVEL3_BATCHED(hipblasStrsmBatched, hipblasDtrsmBatched, hipblasCtrsmBatched, hipblasZtrsmBatched)
#endif
