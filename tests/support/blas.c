/*
 * SGEMM of the BLAS, as Fortran calls it, by a library's lab_sgemm: for LAPACK's test program sblat3.f and whatever else calls sgemm_.
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

static int transposed(char told) { return strchr("tTcC", told) != NULL; }

static void fault(int code)
{
    const int argument = -code;
    if (code > 0 || code < -13) {
        fprintf(stderr, "blas.c: lab_sgemm: %s\n", lab_error_string(code));
        exit(3);
    }
    xerbla_("SGEMM ", &argument, 6);
}

void sgemm_(
    const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b,
    const int *ldb, const float *beta, float *c, const int *ldc);

void sgemm_(
    const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha, const float *a, const int *lda, const float *b,
    const int *ldb, const float *beta, float *c, const int *ldc)
{
    const int ta = transposed(*transa), tb = transposed(*transb);
    lab_problem problem;
    lab_target target;
    lab_choice choice;
    int code;
    memset(&problem, 0, sizeof problem);
    memset(&target, 0, sizeof target);
    memset(&choice, 0, sizeof choice);
    problem.size = sizeof problem, target.size = sizeof target, choice.size = sizeof choice;
    problem.order = lab_COLUMN_MAJOR;
    problem.transpose_a = ta, problem.transpose_b = tb;
    problem.m = *m, problem.n = *n, problem.k = *k, problem.lda = *lda, problem.ldb = *ldb, problem.ldc = *ldc;
    strcpy(target.arch, "sm_90");
    target.units = 132;
    if (strchr("nNtTcC", *transa) == NULL || strchr("nNtTcC", *transb) == NULL || lab_select(&problem, &target, &choice) < 0) {
        /* What is at fault is lab_sgemm's to say, which looks at no operand before. */
        code = lab_sgemm(*transa, *transb, *m, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc, NULL);
        fault(code != 0 ? code : -99);
        return;
    }
    {
        const size_t bytes_c = stored(*m, *n, *ldc);
        void *const there_a = put(a, stored(ta ? *k : *m, ta ? *m : *k, *lda)), *const there_b = put(b, stored(tb ? *n : *k, tb ? *k : *n, *ldb));
        void *const there_c = put(c, bytes_c);
        code = lab_sgemm(*transa, *transb, *m, *n, *k, alpha, there_a, *lda, there_b, *ldb, beta, there_c, *ldc, NULL);
        if (code == 0 && *m > 0 && *n > 0) get(c, there_c, bytes_c);
        drop(there_a), drop(there_b), drop(there_c);
        if (code != 0) fault(code);
    }
}
