/*
 * Level 3 of the BLAS in FP32, as Fortran calls it, by a library's lab_sgemm and the others: for LAPACK's test program sblat3.f and whatever else calls sgemm_.
 *
 * Operands are the host's. With HOST_POINTERS the library takes those (tests/support/reference_library.c); else they are copied to the first GPU and back.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lab.h"

void xerbla_(const char *routine, const int *argument, size_t length);

#ifdef HOST_POINTERS
static void *put(const void *host, size_t bytes) { (void)bytes; return (void *)(uintptr_t)host; }
static void get(void *host, void *there, size_t bytes) { (void)host, (void)there, (void)bytes; }
static void drop(void *there) { (void)there; }
#else
static void *driver;

static void *symbol(const char *name)
{
    if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOW);
    return driver == NULL ? NULL : dlsym(driver, name);
}

#define CALL(name, types, ...) \
    do { \
        int (*function) types; \
        void *const found = symbol(name); \
        memcpy(&function, &found, sizeof function); \
        const int code = found == NULL ? -1 : function(__VA_ARGS__); \
        if (code != 0) { fprintf(stderr, "blas.c: %s gives %d\n", name, code); exit(3); } \
    } while (0)

static void *put(const void *host, size_t bytes)
{
    unsigned long long there = 0;
    static int begun;
    if (!begun) {
        void *context = NULL;
        CALL("cuInit", (unsigned), 0u);
        CALL("cuDevicePrimaryCtxRetain", (void **, int), &context, 0);
        CALL("cuCtxSetCurrent", (void *), context);
        begun = 1;
    }
    CALL("cuMemAlloc_v2", (unsigned long long *, size_t), &there, bytes);
    CALL("cuMemcpyHtoD_v2", (unsigned long long, const void *, size_t), there, host, bytes);
    return (void *)(uintptr_t)there;
}

static void get(void *host, void *there, size_t bytes) { CALL("cuMemcpyDtoH_v2", (void *, unsigned long long, size_t), host, (uintptr_t)there, bytes); }
static void drop(void *there) { CALL("cuMemFree_v2", (unsigned long long), (uintptr_t)there); }
#endif

/* Bytes of a stored matrix, column by column. */
static size_t stored(int rows, int columns, int ld) { return rows > 0 && columns > 0 ? sizeof(float) * ((size_t)ld * (size_t)(columns - 1) + (size_t)rows) : 4; }

static int is(char told, const char *letters) { return told != 0 && strchr(letters, told) != NULL; }

/* An operand of the host's and where it lies for the library, [rows, columns] as it is stored. */
typedef struct operand { const float *host; void *there; size_t bytes; } operand;

static operand put_matrix(const float *host, int rows, int columns, int ld)
{
    operand found;
    found.host = host, found.bytes = stored(rows, columns, ld), found.there = put(host, found.bytes);
    return found;
}

/* Ends a routine: its result comes back to `to`, or xerbla_ is told of the argument at fault. */
static void end(const char *routine, int code, operand *result, float *to, operand *a, operand *b)
{
    if (code == 0) get(to, result->there, result->bytes);
    if (a != NULL) drop(a->there);
    if (b != NULL) drop(b->there);
    drop(result->there);
    if (code > 0 || code < -13) {
        fprintf(stderr, "blas.c: %s: %s\n", routine, lab_error_string(code));
        exit(3);
    }
    if (code < 0) {
        const int argument = -code;
        xerbla_(routine, &argument, 6);
    }
}

void sgemm_(
    const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b,
    const int *ldb, const float *beta, float *c, const int *ldc);
void ssymm_(
    const char *side, const char *uplo, const int *m, const int *n, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
    const float *beta, float *c, const int *ldc);
void strmm_(
    const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const float *alpha, const float *a, const int *lda,
    float *b, const int *ldb);
void strsm_(
    const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const float *alpha, const float *a, const int *lda,
    float *b, const int *ldb);
void ssyrk_(
    const char *uplo, const char *trans, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *beta, float *c,
    const int *ldc);
void ssyr2k_(
    const char *uplo, const char *trans, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
    const float *beta, float *c, const int *ldc);

void sgemm_(
    const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b,
    const int *ldb, const float *beta, float *c, const int *ldc)
{
    const int ta = is(*transa, "tTcC"), tb = is(*transb, "tTcC");
    operand x = put_matrix(a, ta ? *k : *m, ta ? *m : *k, *lda), y = put_matrix(b, tb ? *n : *k, tb ? *k : *n, *ldb), z = put_matrix(c, *m, *n, *ldc);
    end("SGEMM ", lab_sgemm(*transa, *transb, *m, *n, *k, alpha, x.there, *lda, y.there, *ldb, beta, z.there, *ldc, NULL), &z, c, &x, &y);
}

void ssymm_(
    const char *side, const char *uplo, const int *m, const int *n, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
    const float *beta, float *c, const int *ldc)
{
    const int square = is(*side, "rR") ? *n : *m;
    operand x = put_matrix(a, square, square, *lda), y = put_matrix(b, *m, *n, *ldb), z = put_matrix(c, *m, *n, *ldc);
    end("SSYMM ", lab_ssymm(*side, *uplo, *m, *n, alpha, x.there, *lda, y.there, *ldb, beta, z.there, *ldc, NULL), &z, c, &x, &y);
}

void strmm_(
    const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const float *alpha, const float *a, const int *lda,
    float *b, const int *ldb)
{
    const int square = is(*side, "rR") ? *n : *m;
    operand x = put_matrix(a, square, square, *lda), y = put_matrix(b, *m, *n, *ldb);
    end("STRMM ", lab_strmm(*side, *uplo, *transa, *diag, *m, *n, alpha, x.there, *lda, y.there, *ldb, NULL), &y, b, &x, NULL);
}

void strsm_(
    const char *side, const char *uplo, const char *transa, const char *diag, const int *m, const int *n, const float *alpha, const float *a, const int *lda,
    float *b, const int *ldb)
{
    const int square = is(*side, "rR") ? *n : *m;
    operand x = put_matrix(a, square, square, *lda), y = put_matrix(b, *m, *n, *ldb);
    end("STRSM ", lab_strsm(*side, *uplo, *transa, *diag, *m, *n, alpha, x.there, *lda, y.there, *ldb, NULL), &y, b, &x, NULL);
}

void ssyrk_(
    const char *uplo, const char *trans, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *beta, float *c,
    const int *ldc)
{
    const int turned = is(*trans, "tTcC");
    operand x = put_matrix(a, turned ? *k : *n, turned ? *n : *k, *lda), z = put_matrix(c, *n, *n, *ldc);
    end("SSYRK ", lab_ssyrk(*uplo, *trans, *n, *k, alpha, x.there, *lda, beta, z.there, *ldc, NULL), &z, c, &x, NULL);
}

void ssyr2k_(
    const char *uplo, const char *trans, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b, const int *ldb,
    const float *beta, float *c, const int *ldc)
{
    const int turned = is(*trans, "tTcC"), rows = turned ? *k : *n, columns = turned ? *n : *k;
    operand x = put_matrix(a, rows, columns, *lda), y = put_matrix(b, rows, columns, *ldb), z = put_matrix(c, *n, *n, *ldc);
    end("SSYR2K", lab_ssyr2k(*uplo, *trans, *n, *k, alpha, x.there, *lda, y.there, *ldb, beta, z.there, *ldc, NULL), &z, c, &x, &y);
}
