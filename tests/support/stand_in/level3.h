/*
 * The routines of level 3 beside GEMM, for the stand-ins for BLAS libraries. Who includes this defines GOOD(handle), IS_T(op), IS_UPPER(uplo), IS_RIGHT(side)
 * and IS_UNIT(diag), and NOT_INITIALIZED.
 */
#include "blas.h"

enum { SYRK, SYR2K, SYRKX, SYMM, TRMM, TRSM };

/* Element (i, j) of op(A) of a triangle, or of a symmetric A, of which one triangle lies in memory. */
#define OF_SQUARE(real) \
    static double of_square_##real(const real *a, int64_t ld, int64_t i, int64_t j, int symmetric, int upper, int transposed, int unit) \
    { \
        const int64_t row = transposed ? j : i, column = transposed ? i : j; \
        const int there = upper ? row <= column : column <= row; \
        if (symmetric) \
            return there ? a[row + column * ld] : a[column + row * ld]; \
        return unit && row == column ? 1 : there ? a[row + column * ld] : 0; \
    }
OF_SQUARE(float)
OF_SQUARE(double)

/* On the left; on the right rows and columns of B and C change places, and op(A) is transposed. */
#define BESIDE_SQUARE(name, real) \
    static void name( \
        int kind, int right, int upper, int transposed, int unit, int64_t m, int64_t n, double alpha, const real *a, int64_t lda, const real *b, int64_t ldb, \
        double beta, real *c, int64_t ldc) \
    { \
        const int64_t deep = right ? n : m, across = right ? m : n; \
        const int lower = upper == (kind != SYMM && transposed);  /* op(A) */ \
        double *x = malloc(sizeof *x * (size_t)(deep + 1)); \
        for (int64_t j = 0; j < across; ++j) { \
            for (int64_t step = 0; step < deep; ++step) { \
                const int64_t i = kind == TRSM && lower == right ? deep - 1 - step : step; \
                double sum = 0; \
                for (int64_t l = 0; l < deep; ++l) { \
                    const double square = of_square_##real(a, lda, right ? l : i, right ? i : l, kind == SYMM, upper, transposed, unit); \
                    const double other = right ? b[j + l * ldb] : b[l + j * ldb]; \
                    if (kind != TRSM) \
                        sum += square * other; \
                    else if (l != i && (lower == right ? l > i : l < i)) \
                        sum += square * x[l]; \
                } \
                x[i] = alpha == 0 ? 0 : kind != TRSM ? alpha * sum \
                    : (alpha * (right ? b[j + i * ldb] : b[i + j * ldb]) - sum) / of_square_##real(a, lda, i, i, 0, upper, transposed, unit); \
            } \
            for (int64_t i = 0; i < deep; ++i) { \
                real *to = right ? &c[j + i * ldc] : &c[i + j * ldc]; \
                *to = (real)(x[i] + (beta != 0 ? beta * *to : 0)); \
            } \
        } \
        free(x); \
    }
BESIDE_SQUARE(beside_square_of_float, float)
BESIDE_SQUARE(beside_square_of_double, double)
#define beside_square(kind, right, upper, transposed, unit, m, n, alpha, a, lda, b, ldb, beta, c, ldc) \
    _Generic((c), double *: beside_square_of_double, default: beside_square_of_float)( \
        kind, right, upper, transposed, unit, m, n, alpha, a, lda, b, ldb, beta, c, ldc)

/* Of elements of type `real`. */
#define TRIANGLE(name, real) \
    static void name( \
        int kind, int upper, int transposed, int64_t n, int64_t k, real alpha, const real *a, int64_t lda, const real *b, int64_t ldb, real beta, real *c, \
        int64_t ldc) \
    { \
        for (int64_t j = 0; j < n; ++j) \
            for (int64_t i = upper ? 0 : j; i < (upper ? j + 1 : n); ++i) { \
                double sum = 0; \
                for (int64_t l = 0; l < k; ++l) { \
                    const int64_t of_i = transposed ? l : i, of_j = transposed ? l : j, by_i = transposed ? i : l, by_j = transposed ? j : l; \
                    sum += (double)a[of_i + by_i * lda] * b[of_j + by_j * ldb]; \
                    if (kind == SYR2K) \
                        sum += (double)b[of_i + by_i * ldb] * a[of_j + by_j * lda]; \
                } \
                c[i + j * ldc] = (real)((alpha == 0 ? 0 : alpha * sum) + (beta != 0 ? (double)beta * c[i + j * ldc] : 0)); \
            } \
    }
TRIANGLE(triangle_of_float, float)
TRIANGLE(triangle_of_double, double)
#define triangle(kind, upper, transposed, n, k, alpha, a, lda, b, ldb, beta, c, ldc) \
    _Generic((c), double *: triangle_of_double, default: triangle_of_float)(kind, upper, transposed, n, k, alpha, a, lda, b, ldb, beta, c, ldc)

#define SYRK_OF(name, integer, real) \
    int name(void *h, int uplo, int op, integer n, integer k, const real *alpha, const real *a, integer lda, const real *beta, real *c, integer ldc) \
    { \
        called(#name); \
        NOTE(AT(h), uplo, op, n, k, AT(alpha), AT(a), lda, AT(beta), AT(c), ldc) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        triangle(SYRK, IS_UPPER(uplo), IS_T(op), n, k, *alpha, a, lda, a, lda, *beta, c, ldc); \
        return 0; \
    }
#define OF_TWO(name, integer, real, kind) \
    int name(void *h, int uplo, int op, integer n, integer k, const real *alpha, const real *a, integer lda, const real *b, integer ldb, \
             const real *beta, real *c, integer ldc) \
    { \
        called(#name); \
        NOTE(AT(h), uplo, op, n, k, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        triangle(kind, IS_UPPER(uplo), IS_T(op), n, k, *alpha, a, lda, b, ldb, *beta, c, ldc); \
        return 0; \
    }
#define SYMM_OF(name, integer, real) \
    int name(void *h, int side, int uplo, integer m, integer n, const real *alpha, const real *a, integer lda, const real *b, integer ldb, \
             const real *beta, real *c, integer ldc) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, m, n, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        beside_square(SYMM, IS_RIGHT(side), IS_UPPER(uplo), 0, 0, m, n, *alpha, a, lda, b, ldb, *beta, c, ldc); \
        return 0; \
    }
#define TRMM_OF(name, integer, real) \
    int name(void *h, int side, int uplo, int op, int diag, integer m, integer n, const real *alpha, const real *a, integer lda, const real *b, \
             integer ldb, real *c, integer ldc) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb, AT(c), ldc) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        beside_square(TRMM, IS_RIGHT(side), IS_UPPER(uplo), IS_T(op), IS_UNIT(diag), m, n, *alpha, a, lda, b, ldb, 0, c, ldc); \
        return 0; \
    }
#define TRSM_OF(name, integer, real) \
    int name(void *h, int side, int uplo, int op, int diag, integer m, integer n, const real *alpha, const real *a, integer lda, real *b, integer ldb) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        beside_square(TRSM, IS_RIGHT(side), IS_UPPER(uplo), IS_T(op), IS_UNIT(diag), m, n, *alpha, a, lda, b, ldb, 0, b, ldb); \
        return 0; \
    }
/* Of both widths. */
#define LEVEL3(syrk, syr2k, syrkx, symm, trmm, trsm) \
    SYRK_OF(syrk, int, float) OF_TWO(syr2k, int, float, SYR2K) OF_TWO(syrkx, int, float, SYRKX) SYMM_OF(symm, int, float) TRMM_OF(trmm, int, float) \
    TRSM_OF(trsm, int, float) \
    SYRK_OF(syrk##_64, int64_t, float) OF_TWO(syr2k##_64, int64_t, float, SYR2K) OF_TWO(syrkx##_64, int64_t, float, SYRKX) SYMM_OF(symm##_64, int64_t, float) \
    TRMM_OF(trmm##_64, int64_t, float) TRSM_OF(trsm##_64, int64_t, float)
#define LEVEL3_OF_DOUBLE(syrk, syr2k, syrkx, symm, trmm, trsm) \
    TRMM_OF(trmm, int, double) TRMM_OF(trmm##_64, int64_t, double) TRSM_OF(trsm, int, double) TRSM_OF(trsm##_64, int64_t, double) \
    SYRK_OF(syrk, int, double) OF_TWO(syr2k, int, double, SYR2K) OF_TWO(syrkx, int, double, SYRKX) SYMM_OF(symm, int, double) \
    SYRK_OF(syrk##_64, int64_t, double) OF_TWO(syr2k##_64, int64_t, double, SYR2K) OF_TWO(syrkx##_64, int64_t, double, SYRKX) \
    SYMM_OF(symm##_64, int64_t, double)

/* Of complex elements: arguments are noted, and nothing is computed. */
#define NOTED(name, arguments, ...) \
    int name arguments \
    { \
        called(#name); \
        NOTE(AT(h), __VA_ARGS__) \
        return NOT_INITIALIZED; \
    }
#define PAIRS_OF_ONE(name, integer) \
    NOTED(name, (void *h, int uplo, int op, integer n, integer k, const void *alpha, const void *a, integer lda, const void *beta, void *c, integer ldc), \
          uplo, op, n, k, AT(alpha), AT(a), lda, AT(beta), AT(c), ldc)
#define PAIRS_OF_TWO(name, integer) \
    NOTED(name, (void *h, int first, int second, integer m, integer n, const void *alpha, const void *a, integer lda, const void *b, integer ldb, \
                 const void *beta, void *c, integer ldc), first, second, m, n, AT(alpha), AT(a), lda, AT(b), ldb, AT(beta), AT(c), ldc)
#define PAIRS_OF_A_TRIANGLE(name, integer) \
    NOTED(name, (void *h, int side, int uplo, int op, int diag, integer m, integer n, const void *alpha, const void *a, integer lda, const void *b, \
                 integer ldb, void *c, integer ldc), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb, AT(c), ldc)
#define PAIRS_OF_A_SYSTEM(name, integer) \
    NOTED(name, (void *h, int side, int uplo, int op, int diag, integer m, integer n, const void *alpha, const void *a, integer lda, void *b, integer ldb), \
          side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb)
#define LEVEL3_OF_PAIRS(syrk, syr2k, syrkx, symm, trmm, trsm, hemm, herk, her2k) \
    PAIRS_OF_A_SYSTEM(trsm, int) PAIRS_OF_A_SYSTEM(trsm##_64, int64_t) \
    PAIRS_OF_ONE(syrk, int) PAIRS_OF_ONE(herk, int) PAIRS_OF_TWO(syr2k, int) PAIRS_OF_TWO(syrkx, int) PAIRS_OF_TWO(symm, int) \
    PAIRS_OF_ONE(syrk##_64, int64_t) PAIRS_OF_ONE(herk##_64, int64_t) PAIRS_OF_TWO(syr2k##_64, int64_t) PAIRS_OF_TWO(syrkx##_64, int64_t) \
    PAIRS_OF_TWO(symm##_64, int64_t) \
    PAIRS_OF_TWO(hemm, int) PAIRS_OF_TWO(her2k, int) PAIRS_OF_A_TRIANGLE(trmm, int) PAIRS_OF_TWO(hemm##_64, int64_t) PAIRS_OF_TWO(her2k##_64, int64_t) \
    PAIRS_OF_A_TRIANGLE(trmm##_64, int64_t)

/* ---- Strided batches ---- */

#define SYRK_STRIDED_OF(name, integer, real) \
    int name(void *h, int uplo, int op, integer n, integer k, const real *alpha, const real *a, integer lda, int64_t sa, const real *beta, real *c, \
             integer ldc, int64_t sc, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), uplo, op, n, k, AT(alpha), AT(a), lda, sa, AT(beta), AT(c), ldc, sc, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            triangle(SYRK, IS_UPPER(uplo), IS_T(op), n, k, *alpha, a + at * sa, lda, a + at * sa, lda, *beta, c + at * sc, ldc); \
        return 0; \
    }
#define OF_TWO_STRIDED(name, integer, real, kind) \
    int name(void *h, int uplo, int op, integer n, integer k, const real *alpha, const real *a, integer lda, int64_t sa, const real *b, integer ldb, \
             int64_t sb, const real *beta, real *c, integer ldc, int64_t sc, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), uplo, op, n, k, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(beta), AT(c), ldc, sc, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            triangle(kind, IS_UPPER(uplo), IS_T(op), n, k, *alpha, a + at * sa, lda, b + at * sb, ldb, *beta, c + at * sc, ldc); \
        return 0; \
    }
#define SYMM_STRIDED_OF(name, integer, real) \
    int name(void *h, int side, int uplo, integer m, integer n, const real *alpha, const real *a, integer lda, int64_t sa, const real *b, integer ldb, \
             int64_t sb, const real *beta, real *c, integer ldc, int64_t sc, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(beta), AT(c), ldc, sc, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            beside_square(SYMM, IS_RIGHT(side), IS_UPPER(uplo), 0, 0, m, n, *alpha, a + at * sa, lda, b + at * sb, ldb, *beta, c + at * sc, ldc); \
        return 0; \
    }
#define TRMM_STRIDED_OF(name, integer, real) \
    int name(void *h, int side, int uplo, int op, int diag, integer m, integer n, const real *alpha, const real *a, integer lda, int64_t sa, const real *b, \
             integer ldb, int64_t sb, real *c, integer ldc, int64_t sc, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(c), ldc, sc, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            beside_square(TRMM, IS_RIGHT(side), IS_UPPER(uplo), IS_T(op), IS_UNIT(diag), m, n, *alpha, a + at * sa, lda, b + at * sb, ldb, 0, c + at * sc, ldc); \
        return 0; \
    }
#define TRSM_STRIDED_OF(name, integer, real) \
    int name(void *h, int side, int uplo, int op, int diag, integer m, integer n, const real *alpha, const real *a, integer lda, int64_t sa, real *b, \
             integer ldb, int64_t sb, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            beside_square(TRSM, IS_RIGHT(side), IS_UPPER(uplo), IS_T(op), IS_UNIT(diag), m, n, *alpha, a + at * sa, lda, b + at * sb, ldb, 0, \
                          b + at * sb, ldb); \
        return 0; \
    }
#define LEVEL3_STRIDED(syrk, syr2k, syrkx, symm, trmm, trsm) \
    SYRK_STRIDED_OF(syrk, int, float) OF_TWO_STRIDED(syr2k, int, float, SYR2K) OF_TWO_STRIDED(syrkx, int, float, SYRKX) SYMM_STRIDED_OF(symm, int, float) \
    TRMM_STRIDED_OF(trmm, int, float) TRSM_STRIDED_OF(trsm, int, float) SYRK_STRIDED_OF(syrk##_64, int64_t, float) OF_TWO_STRIDED(syr2k##_64, int64_t, float, SYR2K) \
    OF_TWO_STRIDED(syrkx##_64, int64_t, float, SYRKX) SYMM_STRIDED_OF(symm##_64, int64_t, float) TRMM_STRIDED_OF(trmm##_64, int64_t, float) \
    TRSM_STRIDED_OF(trsm##_64, int64_t, float)
#define LEVEL3_STRIDED_OF_DOUBLE(syrk, syr2k, syrkx, symm, trmm, trsm) \
    TRSM_STRIDED_OF(trsm, int, double) TRSM_STRIDED_OF(trsm##_64, int64_t, double) \
    TRMM_STRIDED_OF(trmm, int, double) TRMM_STRIDED_OF(trmm##_64, int64_t, double) \
    SYRK_STRIDED_OF(syrk, int, double) OF_TWO_STRIDED(syr2k, int, double, SYR2K) OF_TWO_STRIDED(syrkx, int, double, SYRKX) SYMM_STRIDED_OF(symm, int, double) \
    SYRK_STRIDED_OF(syrk##_64, int64_t, double) OF_TWO_STRIDED(syr2k##_64, int64_t, double, SYR2K) OF_TWO_STRIDED(syrkx##_64, int64_t, double, SYRKX) \
    SYMM_STRIDED_OF(symm##_64, int64_t, double)
#define PAIRS_OF_ONE_STRIDED(name, integer) \
    NOTED(name, (void *h, int uplo, int op, integer n, integer k, const void *alpha, const void *a, integer lda, int64_t sa, const void *beta, void *c, \
                 integer ldc, int64_t sc, integer batch), uplo, op, n, k, AT(alpha), AT(a), lda, sa, AT(beta), AT(c), ldc, sc, batch)
#define PAIRS_OF_TWO_STRIDED(name, integer) \
    NOTED(name, (void *h, int first, int second, integer m, integer n, const void *alpha, const void *a, integer lda, int64_t sa, const void *b, integer ldb, \
                 int64_t sb, const void *beta, void *c, integer ldc, int64_t sc, integer batch), \
          first, second, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(beta), AT(c), ldc, sc, batch)
#define PAIRS_OF_A_TRIANGLE_STRIDED(name, integer) \
    NOTED(name, (void *h, int side, int uplo, int op, int diag, integer m, integer n, const void *alpha, const void *a, integer lda, int64_t sa, \
                 const void *b, integer ldb, int64_t sb, void *c, integer ldc, int64_t sc, integer batch), \
          side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, AT(c), ldc, sc, batch)
#define PAIRS_OF_A_SYSTEM_STRIDED(name, integer) \
    NOTED(name, (void *h, int side, int uplo, int op, int diag, integer m, integer n, const void *alpha, const void *a, integer lda, int64_t sa, void *b, \
                 integer ldb, int64_t sb, integer batch), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, sa, AT(b), ldb, sb, batch)
#define LEVEL3_STRIDED_OF_PAIRS(syrk, syr2k, syrkx, symm, trmm, trsm, hemm, herk, her2k) \
    PAIRS_OF_A_SYSTEM_STRIDED(trsm, int) PAIRS_OF_A_SYSTEM_STRIDED(trsm##_64, int64_t) \
    PAIRS_OF_ONE_STRIDED(syrk, int) PAIRS_OF_ONE_STRIDED(herk, int) PAIRS_OF_TWO_STRIDED(syr2k, int) PAIRS_OF_TWO_STRIDED(syrkx, int) \
    PAIRS_OF_TWO_STRIDED(symm, int) PAIRS_OF_TWO_STRIDED(hemm, int) PAIRS_OF_TWO_STRIDED(her2k, int) PAIRS_OF_A_TRIANGLE_STRIDED(trmm, int) \
    PAIRS_OF_ONE_STRIDED(syrk##_64, int64_t) PAIRS_OF_ONE_STRIDED(herk##_64, int64_t) PAIRS_OF_TWO_STRIDED(syr2k##_64, int64_t) \
    PAIRS_OF_TWO_STRIDED(syrkx##_64, int64_t) PAIRS_OF_TWO_STRIDED(symm##_64, int64_t) PAIRS_OF_TWO_STRIDED(hemm##_64, int64_t) \
    PAIRS_OF_TWO_STRIDED(her2k##_64, int64_t) PAIRS_OF_A_TRIANGLE_STRIDED(trmm##_64, int64_t)

/* ---- Arrays of pointers ---- */

#define TRSM_BATCHED_OF(name, integer, real) \
    int name(void *h, int side, int uplo, int op, int diag, integer m, integer n, const real *alpha, const real *const a[], integer lda, \
             real *const b[], integer ldb, integer batch) \
    { \
        called(#name); \
        NOTE(AT(h), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb, batch) \
        if (!GOOD(h)) \
            return NOT_INITIALIZED; \
        for (integer at = 0; at < batch; ++at) \
            beside_square(TRSM, IS_RIGHT(side), IS_UPPER(uplo), IS_T(op), IS_UNIT(diag), m, n, *alpha, a[at], lda, b[at], ldb, 0, b[at], ldb); \
        return 0; \
    }
#define PAIRS_OF_SYSTEMS(name, integer) \
    NOTED(name, (void *h, int side, int uplo, int op, int diag, integer m, integer n, const void *alpha, const void *const a[], integer lda, void *const b[], \
                 integer ldb, integer batch), side, uplo, op, diag, m, n, AT(alpha), AT(a), lda, AT(b), ldb, batch)
#define LEVEL3_BATCHED(of_float, of_double, of_pairs, of_wide_pairs) \
    TRSM_BATCHED_OF(of_float, int, float) TRSM_BATCHED_OF(of_float##_64, int64_t, float) TRSM_BATCHED_OF(of_double, int, double) \
    TRSM_BATCHED_OF(of_double##_64, int64_t, double) PAIRS_OF_SYSTEMS(of_pairs, int) PAIRS_OF_SYSTEMS(of_pairs##_64, int64_t) \
    PAIRS_OF_SYSTEMS(of_wide_pairs, int) PAIRS_OF_SYSTEMS(of_wide_pairs##_64, int64_t)
