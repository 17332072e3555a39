/*
 * Level 3 of the BLAS as Fortran calls it, in all four types, by cuBLAS: for LAPACK's test programs (bench/blat3.py).
 *
 * Operands are the host's: each call copies them to the first GPU, and its result back. Arguments are checked in BLAS's order; xerbla_ gets the position of the
 * first wrong one. Functions are looked up in the global scope, so a preload library's come before cuBLAS's own.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void xerbla_(const char *routine, const int *argument, size_t length);

/* cuBLAS's functions take pointers and ints alone, so one prototype serves the four types of a form. */
typedef int gemm_call(void *, int, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
typedef int symm_call(void *, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);
typedef int trmm_call(void *, int, int, int, int, int, int, const void *, const void *, int, const void *, int, void *, int);
typedef int trsm_call(void *, int, int, int, int, int, int, const void *, const void *, int, void *, int);
typedef int syrk_call(void *, int, int, int, int, const void *, const void *, int, const void *, void *, int);
typedef int syr2k_call(void *, int, int, int, int, const void *, const void *, int, const void *, int, const void *, void *, int);

/* A Fortran routine: `real` of a part, `complex` numbers, whether it is one of a Hermitian matrix, and its function once it was called. */
typedef struct routine { const char *name, *function; size_t real; int complex, hermitian; void (*found)(void); } routine;

static void fails(const char *what, int code)
{
    fprintf(stderr, "blat3: %s gives %d\n", what, code);
    exit(3);
}

static void (*symbol(void *library, const char *name))(void)
{
    void (*function)(void);
    void *const found = dlsym(library, name);
    if (found == NULL) {
        fprintf(stderr, "blat3: there is no %s\n", name);
        exit(3);
    }
    memcpy(&function, &found, sizeof function);
    return function;
}

static struct {
    void *handle;
    int (*allocate)(uintptr_t *, size_t), (*release)(uintptr_t), (*put)(uintptr_t, const void *, size_t), (*get)(void *, uintptr_t, size_t);
    uintptr_t memory;
    size_t bytes;
} gpu;

static void *opened(const char *const *names, int flags)
{
    for (; *names != NULL; ++names) {
        void *const library = dlopen(*names, RTLD_NOW | flags);
        if (library != NULL) return library;
    }
    fprintf(stderr, "blat3: %s\n", dlerror());
    exit(3);
}

static void begin(void)
{
    static const char *const driver_names[] = {"libcuda.so.1", NULL};
    static const char *const blas_names[] = {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", NULL};
    void *context = NULL, *driver;
    int code;
    if (gpu.handle != NULL) return;
    driver = opened(driver_names, RTLD_LOCAL);
    opened(blas_names, RTLD_GLOBAL);
    code = ((int (*)(unsigned))symbol(driver, "cuInit"))(0);
    if (code == 0) code = ((int (*)(void **, int))symbol(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
    if (code == 0) code = ((int (*)(void *))symbol(driver, "cuCtxSetCurrent"))(context);
    if (code != 0) fails("the driver's start", code);
    gpu.allocate = (int (*)(uintptr_t *, size_t))symbol(driver, "cuMemAlloc_v2");
    gpu.release = (int (*)(uintptr_t))symbol(driver, "cuMemFree_v2");
    gpu.put = (int (*)(uintptr_t, const void *, size_t))symbol(driver, "cuMemcpyHtoD_v2");
    gpu.get = (int (*)(void *, uintptr_t, size_t))symbol(driver, "cuMemcpyDtoH_v2");
    code = ((int (*)(void **))symbol(RTLD_DEFAULT, "cublasCreate_v2"))(&gpu.handle);
    if (code != 0) fails("cublasCreate", code);
}

static void (*function_of(routine *r))(void)
{
    begin();
    if (r->found == NULL) r->found = symbol(RTLD_DEFAULT, r->function);
    return r->found;
}

static size_t size_of(const routine *r) { return r->real * (size_t)(1 + r->complex); }

/* A stored matrix: where it is on the host, its bytes, its place in the GPU's memory. */
typedef struct matrix { void *host; size_t bytes; uintptr_t there; } matrix;

static matrix stored(const routine *r, const void *host, int rows, int columns, int ld)
{
    matrix found = {(void *)(uintptr_t)host, 0, 0};
    if (rows > 0 && columns > 0) found.bytes = size_of(r) * ((size_t)ld * (size_t)(columns - 1) + (size_t)rows);
    return found;
}

static void put(matrix *first, int count)
{
    enum { ALIGNED = 256 };
    size_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += (first[i].bytes + ALIGNED) / ALIGNED * ALIGNED;
    if (bytes > gpu.bytes) {
        int code = gpu.memory == 0 ? 0 : gpu.release(gpu.memory);
        if (code == 0) code = gpu.allocate(&gpu.memory, gpu.bytes = 2 * bytes);
        if (code != 0) fails("cuMemAlloc", code);
    }
    bytes = 0;
    for (int i = 0; i < count; ++i) {
        const int code = first[i].bytes == 0 ? 0 : gpu.put(first[i].there = gpu.memory + bytes, first[i].host, first[i].bytes);
        if (code != 0) fails("cuMemcpyHtoD", code);
        first[i].there = gpu.memory + bytes;
        bytes += (first[i].bytes + ALIGNED) / ALIGNED * ALIGNED;
    }
}

static void get(const routine *r, const matrix *one, int code)
{
    if (code != 0) fails(r->function, code);
    if (one->bytes != 0) code = gpu.get(one->host, one->there, one->bytes);
    if (code != 0) fails("cuMemcpyDtoH", code);
}

#define AT(one) ((void *)(one).there)

/* The place of a letter, of either case, among others; -1 for none of them. */
static int code_of(const char *letter, const char *letters)
{
    const char upper = *letter >= 'a' && *letter <= 'z' ? (char)(*letter - 'a' + 'A') : *letter;
    const char *const at = upper == 0 ? NULL : strchr(letters, upper);
    return at == NULL ? -1 : (int)(at - letters);
}

static int side_of(const char *letter) { return code_of(letter, "LR"); }
static int uplo_of(const char *letter) { return code_of(letter, "LU"); }
static int diag_of(const char *letter) { return code_of(letter, "NU"); }
static int op_of(const char *letter) { return code_of(letter, "NTC"); }

/* SYRK and SYR2K of real numbers also have C, those of complex ones not; HERK and HER2K have N and C. */
static int rank_op_of(const routine *r, const char *letter) { return code_of(letter, r->hermitian ? "N?C" : r->complex ? "NT" : "NTC"); }

static int most(int one, int other) { return one > other ? one : other; }

/* Whether an argument is wrong, which xerbla_ is then told. */
static int wrong(const routine *r, const int *faults, const int *positions, int count)
{
    for (int i = 0; i < count; ++i)
        if (faults[i]) {
            xerbla_(r->name, &positions[i], strlen(r->name));
            return 1;
        }
    return 0;
}

#define WRONG(r, positions, ...) \
    wrong(r, (const int[]){__VA_ARGS__}, (const int[])positions, (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))
#define AS(...) {__VA_ARGS__}

static int is(const routine *r, const void *scalar, int value, int complex)
{
    double real, imaginary = 0;
    if (r->real == sizeof(float)) {
        real = ((const float *)scalar)[0];
        if (complex) imaginary = ((const float *)scalar)[1];
    } else {
        real = ((const double *)scalar)[0];
        if (complex) imaginary = ((const double *)scalar)[1];
    }
    return real == value && imaginary == 0;
}

/* Whether C is alpha 0 + 1 C: BLAS leaves it untouched, where cuBLAS may clear the imaginary parts of a Hermitian C's diagonal. */
static int stays(const routine *r, const void *alpha, int complex_alpha, int k, const void *beta, int complex_beta)
{
    return (k == 0 || is(r, alpha, 0, complex_alpha)) && is(r, beta, 1, complex_beta);
}

static void gemm(routine *r, const char *ta, const char *tb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                 const void *beta, void *c, int ldc)
{
    const int a_op = op_of(ta), b_op = op_of(tb), a_rows = a_op == 0 ? m : k, b_rows = b_op == 0 ? k : n;
    if (WRONG(r, AS(1, 2, 3, 4, 5, 8, 10, 13), a_op < 0, b_op < 0, m < 0, n < 0, k < 0, lda < most(1, a_rows), ldb < most(1, b_rows), ldc < most(1, m)))
        return;
    if (m == 0 || n == 0 || stays(r, alpha, r->complex, k, beta, r->complex)) return;
    gemm_call *const call = (gemm_call *)function_of(r);
    matrix x[] = {stored(r, a, a_rows, a_op == 0 ? k : m, lda), stored(r, b, b_rows, b_op == 0 ? n : k, ldb), stored(r, c, m, n, ldc)};
    put(x, 3);
    get(r, &x[2], call(gpu.handle, a_op, b_op, m, n, k, alpha, AT(x[0]), lda, AT(x[1]), ldb, beta, AT(x[2]), ldc));
}

static void symm(routine *r, const char *side, const char *uplo, int m, int n, const void *alpha, const void *a, int lda, const void *b, int ldb,
                 const void *beta, void *c, int ldc)
{
    const int right = side_of(side), upper = uplo_of(uplo), size = right == 0 ? m : n;
    if (WRONG(r, AS(1, 2, 3, 4, 7, 9, 12), right < 0, upper < 0, m < 0, n < 0, lda < most(1, size), ldb < most(1, m), ldc < most(1, m))) return;
    if (m == 0 || n == 0 || stays(r, alpha, r->complex, size, beta, r->complex)) return;
    symm_call *const call = (symm_call *)function_of(r);
    matrix x[] = {stored(r, a, size, size, lda), stored(r, b, m, n, ldb), stored(r, c, m, n, ldc)};
    put(x, 3);
    get(r, &x[2], call(gpu.handle, right, upper, m, n, alpha, AT(x[0]), lda, AT(x[1]), ldb, beta, AT(x[2]), ldc));
}

static void triangular(routine *r, int solves, const char *side, const char *uplo, const char *trans, const char *diag, int m, int n, const void *alpha,
                       const void *a, int lda, void *b, int ldb)
{
    const int right = side_of(side), upper = uplo_of(uplo), op = op_of(trans), unit = diag_of(diag), size = right == 0 ? m : n;
    if (WRONG(r, AS(1, 2, 3, 4, 5, 6, 9, 11), right < 0, upper < 0, op < 0, unit < 0, m < 0, n < 0, lda < most(1, size), ldb < most(1, m))) return;
    if (m == 0 || n == 0) return;
    void (*const call)(void) = function_of(r);
    matrix x[] = {stored(r, a, size, size, lda), stored(r, b, m, n, ldb)};
    put(x, 2);
    get(r, &x[1], solves ? ((trsm_call *)call)(gpu.handle, right, upper, op, unit, m, n, alpha, AT(x[0]), lda, AT(x[1]), ldb)
                         : ((trmm_call *)call)(gpu.handle, right, upper, op, unit, m, n, alpha, AT(x[0]), lda, AT(x[1]), ldb, AT(x[1]), ldb));
}

static void syrk(routine *r, const char *uplo, const char *trans, int n, int k, const void *alpha, const void *a, int lda, const void *beta, void *c, int ldc)
{
    const int upper = uplo_of(uplo), op = rank_op_of(r, trans), rows = op == 0 ? n : k, complex = r->complex && !r->hermitian;
    if (WRONG(r, AS(1, 2, 3, 4, 7, 10), upper < 0, op < 0, n < 0, k < 0, lda < most(1, rows), ldc < most(1, n))) return;
    if (n == 0 || stays(r, alpha, complex, k, beta, complex)) return;
    syrk_call *const call = (syrk_call *)function_of(r);
    matrix x[] = {stored(r, a, rows, op == 0 ? k : n, lda), stored(r, c, n, n, ldc)};
    put(x, 2);
    get(r, &x[1], call(gpu.handle, upper, op, n, k, alpha, AT(x[0]), lda, beta, AT(x[1]), ldc));
}

static void syr2k(routine *r, const char *uplo, const char *trans, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb,
                  const void *beta, void *c, int ldc)
{
    const int upper = uplo_of(uplo), op = rank_op_of(r, trans), rows = op == 0 ? n : k;
    if (WRONG(r, AS(1, 2, 3, 4, 7, 9, 12), upper < 0, op < 0, n < 0, k < 0, lda < most(1, rows), ldb < most(1, rows), ldc < most(1, n))) return;
    if (n == 0 || stays(r, alpha, r->complex, k, beta, r->complex && !r->hermitian)) return;
    syr2k_call *const call = (syr2k_call *)function_of(r);
    matrix x[] = {stored(r, a, rows, op == 0 ? k : n, lda), stored(r, b, rows, op == 0 ? k : n, ldb), stored(r, c, n, n, ldc)};
    put(x, 3);
    get(r, &x[2], call(gpu.handle, upper, op, n, k, alpha, AT(x[0]), lda, AT(x[1]), ldb, beta, AT(x[2]), ldc));
}

/* A matrix of its own, [rows, columns]: the stored one, transposed or not, its elements conjugate or not. */
static void *changed(const routine *r, const void *from, int rows, int columns, int ld, int transposed, int conjugate)
{
    const size_t size = size_of(r);
    char *const made = malloc(size * (size_t)most(1, rows) * (size_t)most(1, columns));
    for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) {
            char *const to = made + size * ((size_t)i + (size_t)j * (size_t)rows);
            memcpy(to, (const char *)from + size * (transposed ? (size_t)j + (size_t)i * (size_t)ld : (size_t)i + (size_t)j * (size_t)ld), size);
            if (conjugate && r->real == sizeof(float)) ((float *)(void *)to)[1] = -((float *)(void *)to)[1];
            if (conjugate && r->real == sizeof(double)) ((double *)(void *)to)[1] = -((double *)(void *)to)[1];
        }
    return made;
}

/* A triangle of a product of two matrices, which cuBLAS computes by SYRKX. That has one operation for both, A B^T or A^T B: B, or of A^H A, is changed here. */
static void gemmtr(routine *r, const char *uplo, const char *ta, const char *tb, int n, int k, const void *alpha, const void *a, int lda, const void *b,
                   int ldb, const void *beta, void *c, int ldc)
{
    const int upper = uplo_of(uplo), a_op = op_of(ta), b_op = op_of(tb), a_rows = a_op == 0 ? n : k, b_rows = b_op == 0 ? k : n, op = a_op == 0 ? 0 : 1;
    if (WRONG(r, AS(1, 2, 3, 4, 5, 8, 10, 13), upper < 0, a_op < 0, b_op < 0, n < 0, k < 0, lda < most(1, a_rows), ldb < most(1, b_rows), ldc < most(1, n)))
        return;
    if (n == 0 || stays(r, alpha, r->complex, k, beta, r->complex)) return;
    syr2k_call *const call = (syr2k_call *)function_of(r);
    const int rows = a_rows, columns = op == 0 ? k : n, turned = op == 0 ? b_op == 0 : b_op != 0;
    void *const own_a = r->complex && a_op == 2 ? changed(r, a, rows, columns, lda, 0, 1) : NULL;
    void *const own_b = turned || (r->complex && b_op == 2) ? changed(r, b, rows, columns, ldb, turned, r->complex && b_op == 2) : NULL;
    const int a_ld = own_a == NULL ? lda : most(1, rows), b_ld = own_b == NULL ? ldb : most(1, rows);
    matrix x[] = {stored(r, own_a == NULL ? a : own_a, rows, columns, a_ld), stored(r, own_b == NULL ? b : own_b, rows, columns, b_ld), stored(r, c, n, n, ldc)};
    put(x, 3);
    get(r, &x[2], call(gpu.handle, upper, op, n, k, alpha, AT(x[0]), a_ld, AT(x[1]), b_ld, beta, AT(x[2]), ldc));
    free(own_a), free(own_b);
}

/* Fortran's entries: every argument by its address. The lengths of letters, which stand last, are not read. */
typedef const char *letter;
typedef const int *integer;
typedef const void *in;
#define ENTRY(name, fortran, function, real, complex, hermitian, arguments, body) \
    void name##_ arguments; \
    void name##_ arguments \
    { \
        static routine r = {fortran, "cublas" function, sizeof(real), complex, hermitian, NULL}; \
        body; \
    }
#define SYMM(name, fortran, function, real, complex, hermitian) \
    ENTRY(name, fortran, function, real, complex, hermitian, (letter side, letter uplo, integer m, integer n, in alpha, in a, integer lda, in b, integer ldb, \
          in beta, void *c, integer ldc), symm(&r, side, uplo, *m, *n, alpha, a, *lda, b, *ldb, beta, c, *ldc))
#define TRIANGULAR(name, fortran, function, real, complex, solves) \
    ENTRY(name, fortran, function, real, complex, 0, (letter side, letter uplo, letter trans, letter diag, integer m, integer n, in alpha, in a, integer lda, \
          void *b, integer ldb), triangular(&r, solves, side, uplo, trans, diag, *m, *n, alpha, a, *lda, b, *ldb))
#define SYRK(name, fortran, function, real, complex, hermitian) \
    ENTRY(name, fortran, function, real, complex, hermitian, (letter uplo, letter trans, integer n, integer k, in alpha, in a, integer lda, in beta, void *c, \
          integer ldc), syrk(&r, uplo, trans, *n, *k, alpha, a, *lda, beta, c, *ldc))
#define SYR2K(name, fortran, function, real, complex, hermitian) \
    ENTRY(name, fortran, function, real, complex, hermitian, (letter uplo, letter trans, integer n, integer k, in alpha, in a, integer lda, in b, integer ldb, \
          in beta, void *c, integer ldc), syr2k(&r, uplo, trans, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc))
#define ALL_OF(x, X, real, complex) \
    ENTRY(x##gemm, #X "GEMM ", #X "gemm_v2", real, complex, 0, (letter ta, letter tb, integer m, integer n, integer k, in alpha, in a, integer lda, in b, \
          integer ldb, in beta, void *c, integer ldc), gemm(&r, ta, tb, *m, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc)) \
    ENTRY(x##gemmtr, #X "GEMMTR", #X "syrkx", real, complex, 0, (letter uplo, letter ta, letter tb, integer n, integer k, in alpha, in a, integer lda, in b, \
          integer ldb, in beta, void *c, integer ldc), gemmtr(&r, uplo, ta, tb, *n, *k, alpha, a, *lda, b, *ldb, beta, c, *ldc)) \
    SYMM(x##symm, #X "SYMM ", #X "symm_v2", real, complex, 0) \
    SYRK(x##syrk, #X "SYRK ", #X "syrk_v2", real, complex, 0) \
    SYR2K(x##syr2k, #X "SYR2K", #X "syr2k_v2", real, complex, 0) \
    TRIANGULAR(x##trmm, #X "TRMM ", #X "trmm_v2", real, complex, 0) \
    TRIANGULAR(x##trsm, #X "TRSM ", #X "trsm_v2", real, complex, 1)
#define HERMITIAN(x, X, real) \
    SYMM(x##hemm, #X "HEMM ", #X "hemm_v2", real, 1, 1) \
    SYRK(x##herk, #X "HERK ", #X "herk_v2", real, 1, 1) \
    SYR2K(x##her2k, #X "HER2K", #X "her2k_v2", real, 1, 1)

ALL_OF(s, S, float, 0)
ALL_OF(d, D, double, 0)
ALL_OF(c, C, float, 1)
ALL_OF(z, Z, double, 1)
HERMITIAN(c, C, float)
HERMITIAN(z, Z, double)
