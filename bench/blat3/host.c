/*
 * Level 3 of cuBLAS, and the driver as far as cublas.c calls it, by a BLAS of the CPU whose file BLAT3_BLAS names: memory of the device is the host's.
 * With it in place of libcublas and libcuda, bench/blat3.py shows without a GPU that programs, cublas.c and its error exits are right.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void (*blas(const char *name))(void)
{
    static void *library;
    void (*function)(void);
    if (library == NULL) library = dlopen(getenv("BLAT3_BLAS"), RTLD_NOW | RTLD_LOCAL);
    void *const found = library == NULL ? NULL : dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "blat3: %s\n", dlerror());
        exit(3);
    }
    memcpy(&function, &found, sizeof function);
    return function;
}

/* Of a routine of Fortran's; its letters' lengths are all 1, and none is read. */
#define CALL(name, ...) ((void (*)())blas(name))(__VA_ARGS__)
#define OP(op) (&"NTC"[op])
#define UPLO(uplo) (&"LU"[uplo])
#define SIDE(side) (&"LR"[side])
#define DIAG(diag) (&"NU"[diag])

int cuInit(unsigned flags);
int cuInit(unsigned flags) { return (int)flags; }
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)8; return device; }
int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context) { return context == NULL; }
int cuMemAlloc_v2(uintptr_t *memory, size_t bytes);
int cuMemAlloc_v2(uintptr_t *memory, size_t bytes) { *memory = (uintptr_t)malloc(bytes); return *memory == 0; }
int cuMemFree_v2(uintptr_t memory);
int cuMemFree_v2(uintptr_t memory) { free((void *)memory); return 0; }
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes);
int cuMemcpyHtoD_v2(uintptr_t to, const void *from, size_t bytes) { memcpy((void *)to, from, bytes); return 0; }
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uintptr_t from, size_t bytes) { memcpy(to, (const void *)from, bytes); return 0; }
int cublasCreate_v2(void **handle);
int cublasCreate_v2(void **handle) { *handle = (void *)8; return 0; }

typedef const void *in;
#define DEFINED(name, arguments, ...) \
    int name arguments; \
    int name arguments { (void)handle; __VA_ARGS__; return 0; }
#define SYMM(name, fortran) \
    DEFINED(name, (void *handle, int side, int uplo, int m, int n, in alpha, in a, int lda, in b, int ldb, in beta, void *c, int ldc), \
            CALL(fortran, SIDE(side), UPLO(uplo), &m, &n, alpha, a, &lda, b, &ldb, beta, c, &ldc))
#define SYRK(name, fortran) \
    DEFINED(name, (void *handle, int uplo, int op, int n, int k, in alpha, in a, int lda, in beta, void *c, int ldc), \
            CALL(fortran, UPLO(uplo), OP(op), &n, &k, alpha, a, &lda, beta, c, &ldc))
#define SYR2K(name, fortran) \
    DEFINED(name, (void *handle, int uplo, int op, int n, int k, in alpha, in a, int lda, in b, int ldb, in beta, void *c, int ldc), \
            CALL(fortran, UPLO(uplo), OP(op), &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc))
/* The whole product, of which the triangle is kept. */
#define SYRKX(name, fortran, size) \
    DEFINED(name, (void *handle, int uplo, int op, int n, int k, in alpha, in a, int lda, in b, int ldb, in beta, void *c, int ldc), \
            char *const whole = malloc((size_t)(size) * (size_t)n * (size_t)n); \
            for (int j = 0; j < n; ++j) memcpy(whole + (size_t)(size) * (size_t)j * (size_t)n, (char *)c + (size_t)(size) * (size_t)j * (size_t)ldc, \
                                               (size_t)(size) * (size_t)n); \
            CALL(fortran, OP(op), OP(!op), &n, &n, &k, alpha, a, &lda, b, &ldb, beta, whole, &n); \
            for (int j = 0; j < n; ++j) { \
                const size_t first = uplo == 1 ? 0 : (size_t)j, count = uplo == 1 ? (size_t)j + 1 : (size_t)(n - j); \
                memcpy((char *)c + (size_t)(size) * ((size_t)j * (size_t)ldc + first), whole + (size_t)(size) * ((size_t)j * (size_t)n + first), \
                       (size_t)(size) * count); \
            } \
            free(whole))
#define ALL_OF(x, X, size) \
    DEFINED(cublas##X##gemm_v2, (void *handle, int ta, int tb, int m, int n, int k, in alpha, in a, int lda, in b, int ldb, in beta, void *c, int ldc), \
            CALL(#x "gemm_", OP(ta), OP(tb), &m, &n, &k, alpha, a, &lda, b, &ldb, beta, c, &ldc)) \
    DEFINED(cublas##X##trmm_v2, (void *handle, int side, int uplo, int op, int diag, int m, int n, in alpha, in a, int lda, in b, int ldb, void *c, int ldc), \
            if (b != c || ldb != ldc) return 7; \
            CALL(#x "trmm_", SIDE(side), UPLO(uplo), OP(op), DIAG(diag), &m, &n, alpha, a, &lda, c, &ldc)) \
    DEFINED(cublas##X##trsm_v2, (void *handle, int side, int uplo, int op, int diag, int m, int n, in alpha, in a, int lda, void *b, int ldb), \
            CALL(#x "trsm_", SIDE(side), UPLO(uplo), OP(op), DIAG(diag), &m, &n, alpha, a, &lda, b, &ldb)) \
    SYMM(cublas##X##symm_v2, #x "symm_") \
    SYRK(cublas##X##syrk_v2, #x "syrk_") \
    SYR2K(cublas##X##syr2k_v2, #x "syr2k_") \
    SYRKX(cublas##X##syrkx, #x "gemm_", size)
#define HERMITIAN(x, X) \
    SYMM(cublas##X##hemm_v2, #x "hemm_") \
    SYRK(cublas##X##herk_v2, #x "herk_") \
    SYR2K(cublas##X##her2k_v2, #x "her2k_")

ALL_OF(s, S, 4)
ALL_OF(d, D, 8)
ALL_OF(c, C, 8)
ALL_OF(z, Z, 16)
HERMITIAN(c, C)
HERMITIAN(z, Z)
