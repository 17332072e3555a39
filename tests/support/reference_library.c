/*
 * The C interface of a library (templates/library/header.h.j2, rendered as `lab`) on the CPU, for tests without a GPU: pointers of the device are the host's,
 * streams are not looked at, sums are in long double and rounded once. Two kernels, so that a choice can be seen: number 0, with a workspace, packs operands; number 1
 * is the fallback, needs no workspace, packs nothing, and serves products with k below REFERENCE_FALLBACK_BELOW. tests/support/reference.py compiles it.
 */
#define LAB_BUILDING
#include "lab.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCE = 0, FALLBACK = 1, KERNELS = 2 };

#define REFERENCE_FALLBACK_BELOW 4
#define REFERENCE_WORKSPACE 1024
#define REFERENCE_WORKSPACE_PACKED 512
#define REFERENCE_FORMAT 7
#define REFERENCE_PACKED_HEAD 256  /* bytes before a packed operand's elements: its counters */
#define IS_COMPLEX(type) ((type) == lab_C64 || (type) == lab_C128)
#define REFERENCE_ERROR(type) ((type) == lab_F64 || (type) == lab_C128 ? 0x1p-53 : 0x1p-24)  /* of the one rounding */

static const char *const NAMES[KERNELS] = {"reference", "reference_fallback"};

static struct { long long gemm, packed, sgemm, pack, taken, given; } counted;
static struct { lab_take take; lab_give give; void *user; } allocator;

#define COUNT(what) ((void)__atomic_fetch_add(&counted.what, 1, __ATOMIC_RELAXED))

/* Beyond the interface, for tests: products that were computed, by any function; how many of them of packed operands and by sgemm; operands packed;
 * workspaces that were taken and not yet given back. */
LAB_API long long lab_calls(void) { return __atomic_load_n(&counted.gemm, __ATOMIC_RELAXED); }
LAB_API long long lab_packed_calls(void) { return __atomic_load_n(&counted.packed, __ATOMIC_RELAXED); }
LAB_API long long lab_sgemm_calls(void) { return __atomic_load_n(&counted.sgemm, __ATOMIC_RELAXED); }
LAB_API long long lab_pack_calls(void) { return __atomic_load_n(&counted.pack, __ATOMIC_RELAXED); }
LAB_API long long lab_taken(void)
{
    return __atomic_load_n(&counted.taken, __ATOMIC_RELAXED) - __atomic_load_n(&counted.given, __ATOMIC_RELAXED);
}

int lab_version(void) { return LAB_VERSION; }
int lab_abi(void) { return LAB_ABI; }
int lab_kernels(void) { return KERNELS; }
const char *lab_kernel_name(int kernel) { return kernel >= 0 && kernel < KERNELS ? NAMES[kernel] : NULL; }

const char *lab_error_string(int code)
{
    static const char *const told[] = {
        "no error", "a struct is NULL or of an unknown size", "bad order or transpose", "bad m", "bad n", "bad k", "bad lda", "bad ldb", "bad ldc", "bad batch",
        "matrices of C overlap: bad stride_c", "A is NULL", "B is NULL", "C is NULL", "bad epilogue", "bad flags", "bad kernel",
        "workspace too small or not aligned", "bad packed operand", "operand is neither 'a' nor 'b'", "too large", "no kernel serves this", "no driver",
        "no device is current", "no memory", "bad stride_a", "bad stride_b", "bad kind",
    };
    if (code > 0)
        return "an error of the driver";
    return -code < (int)(sizeof told / sizeof *told) ? told[-code] : "an unknown code";
}

int lab_current_target(lab_target *target)
{
    if (!target || target->size != sizeof *target)
        return lab_BAD_STRUCT;
    memset(target->arch, 0, sizeof target->arch);
    strcpy(target->arch, "cpu");
    target->units = 1;
    return lab_OK;
}

static int64_t batch_of(const lab_problem *p) { return p->batch == lab_EMPTY_BATCH ? 0 : p->batch == 0 ? 1 : p->batch; }
static int is_flag(int32_t value) { return value == 0 || value == 1; }
static int is_operation(int32_t value, int type) { return is_flag(value) || (value == 2 && IS_COMPLEX(type)); }
static int is_extent(int64_t value) { return value >= 0 && value <= LAB_LARGEST_EXTENT; }
static int64_t at_least_1(int64_t value) { return value < 1 ? 1 : value; }

/* A stored row's length of an operand with `rows` and `columns` after its transpose; of column major matrices a stored column's. */
static int64_t stored(int64_t rows, int64_t columns, int order, int transposed)
{
    return at_least_1((order == lab_ROW_MAJOR) != !!transposed ? columns : rows);
}

static int64_t element(int64_t row, int64_t column, int64_t ld, int order, int transposed)
{
    return (order == lab_ROW_MAJOR) != !!transposed ? row * ld + column : column * ld + row;
}

/* Element `at` of memory that holds elements of a problem's type, and a number put there. */
static double get(const void *from, int64_t at, int type) { return type == lab_F64 ? ((const double *)from)[at] : (double)((const float *)from)[at]; }

static void put(void *to, int64_t at, int type, long double x)
{
    if (type == lab_F64)
        ((double *)to)[at] = (double)x;
    else
        ((float *)to)[at] = (float)x;
}

static size_t bytes_of(int type) { return (IS_COMPLEX(type) ? 2 : 1) * (type == lab_F64 || type == lab_C128 ? sizeof(double) : sizeof(float)); }

static const void *moved(const void *from, int64_t elements, int type) { return from ? (const char *)from + elements * (int64_t)bytes_of(type) : NULL; }

static double value(const void *matrix, int64_t row, int64_t column, int64_t ld, int order, int transposed, int type)
{
    return get(matrix, element(row, column, ld, order, transposed), type);
}

static int of_triangle(const lab_problem *p) { return p->kind == lab_SYRK || p->kind == lab_SYR2K || p->kind == lab_GEMMT; }
static int of_side(const lab_problem *p) { return p->kind >= lab_SYMM; }

/* The same of kinds beside GEMM, whose operands have other shapes. */
static int check_kind(const lab_problem *p)
{
    int64_t side = p->side == lab_LEFT ? p->m : p->n;
    if (p->kind < lab_GEMM || p->kind > lab_TRSM || !is_flag(p->uplo) || !is_flag(p->side) || !is_flag(p->diag))
        return lab_BAD_KIND;
    if (!is_extent(p->m) || (of_triangle(p) && p->m != p->n))
        return lab_BAD_M;
    if (!is_extent(p->n))
        return lab_BAD_N;
    if (!of_side(p) && !is_extent(p->k))
        return lab_BAD_K;
    if (p->lda < (of_side(p) ? at_least_1(side) : stored(p->m, p->k, p->order, p->transpose_a)))
        return lab_BAD_LDA;
    if (p->kind == lab_SYR2K ? p->ldb < stored(p->n, p->k, p->order, p->transpose_a)
        : p->kind == lab_GEMMT ? p->ldb < stored(p->k, p->n, p->order, p->transpose_b) : of_side(p) && p->ldb < stored(p->m, p->n, p->order, 0))
        return lab_BAD_LDB;
    if (p->ldc < stored(p->m, p->n, p->order, 0))
        return lab_BAD_LDC;
    if (p->epilogue || p->bias)
        return lab_BAD_EPILOGUE;
    if (p->flags & lab_POINTERS && p->kind != lab_TRSM)
        return lab_BAD_FLAGS;
    return lab_OK;
}

/* What can be said of a problem without its pointers. */
static int check_sizes(const lab_problem *p)
{
    if (!p || p->size != sizeof *p)
        return lab_BAD_STRUCT;
    if (p->element < lab_F32 || p->element > lab_C128 || (IS_COMPLEX(p->element) && p->kind != lab_GEMM))
        return lab_BAD_KIND;
    if (p->kind != lab_GEMM && check_kind(p))
        return check_kind(p);
    if (!is_flag(p->order) || !is_operation(p->transpose_a, p->element) || !is_operation(p->transpose_b, p->element))
        return lab_BAD_ORDER;
    if (!is_extent(p->m))
        return lab_BAD_M;
    if (!is_extent(p->n))
        return lab_BAD_N;
    if (!is_extent(p->k))
        return lab_BAD_K;
    if (p->kind == lab_GEMM && p->lda < stored(p->m, p->k, p->order, p->transpose_a))
        return lab_BAD_LDA;
    if (p->kind == lab_GEMM && p->ldb < stored(p->k, p->n, p->order, p->transpose_b))
        return lab_BAD_LDB;
    if (p->ldc < stored(p->m, p->n, p->order, 0))
        return lab_BAD_LDC;
    if (p->batch < lab_EMPTY_BATCH)
        return lab_BAD_BATCH;
    if (batch_of(p) > 1 && p->m && p->n && !(p->flags & lab_POINTERS)) {
        int64_t lines = p->order == lab_ROW_MAJOR ? p->m : p->n, line = p->order == lab_ROW_MAJOR ? p->n : p->m;
        int64_t apart = p->stride_c < 0 ? -p->stride_c : p->stride_c;
        if (apart < (lines - 1) * p->ldc + line)
            return lab_BAD_STRIDE_C;
    }
    if (p->epilogue < lab_IDENTITY || p->epilogue > lab_GELU_TANH || (p->epilogue && p->element != lab_F32))
        return lab_BAD_EPILOGUE;
    if (p->flags & ~(uint32_t)(lab_SCALARS_ON_DEVICE | lab_UNCOUNTED | lab_POINTERS))
        return lab_BAD_FLAGS;
    if (p->kernel < 0 || p->kernel > KERNELS || !(p->largest_error >= 0))
        return lab_BAD_KERNEL;
    if (p->largest_error > 0 && p->largest_error < REFERENCE_ERROR(p->element))
        return lab_NOT_SERVED;
    return lab_OK;
}

static int chosen(const lab_problem *p)
{
    return p->kernel ? p->kernel - 1 : p->k < REFERENCE_FALLBACK_BELOW ? FALLBACK : REFERENCE;
}

int lab_select(const lab_problem *problem, const lab_target *target, lab_choice *choice)
{
    int code = check_sizes(problem);
    if (code)
        return code;
    if ((target && target->size != sizeof *target) || !choice || choice->size != sizeof *choice)
        return lab_BAD_STRUCT;
    choice->kernel = chosen(problem);
    choice->is_fallback = choice->kernel == FALLBACK;
    choice->name = NAMES[choice->kernel];
    choice->reason = problem->kernel ? "asked for" : choice->is_fallback ? "k is small" : "the fastest";
    choice->workspace_bytes = choice->is_fallback ? 0 : REFERENCE_WORKSPACE;
    choice->workspace_bytes_packed = choice->is_fallback ? 0 : REFERENCE_WORKSPACE_PACKED;
    choice->seconds = 1e-9 * (double)problem->m * (double)problem->n * (double)problem->k * (double)batch_of(problem);
    if (problem->beta) choice->seconds *= 1.25;  /* C is read */
    choice->sgemm_seconds = 4 * choice->seconds;
    choice->error = choice->worst_case = REFERENCE_ERROR(problem->element);
    return lab_OK;
}

static double activated(int epilogue, double x)
{
    switch (epilogue) {
    case lab_RELU: return x < 0 ? 0 : x;
    case lab_GELU_ERF: return x * (1 + erf(x / sqrt(2.0))) / 2;
    case lab_GELU_TANH: return x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x))) / 2;
    default: return x;
    }
}

/* op(A) or op(B) of a product, stored as it is in the problem or copied by lab_pack(). */
typedef struct operand { const void *data; int64_t ld, stride; int order, transposed; } operand;

static long double complex pair(const void *from, int64_t at, int type)
{
    return type == lab_C128 ? (long double complex)((const double complex *)from)[at] : (long double complex)((const float complex *)from)[at];
}

/* Of complex elements. A factor without an imaginary part multiplies each part by itself. */
static long double complex scaled(long double complex factor, long double complex x) { return cimagl(factor) == 0 ? creall(factor) * x : factor * x; }

static void compute_pairs(const lab_problem *p, operand a, operand b)
{
    int type = p->element, listed = (p->flags & lab_POINTERS) != 0;
    long double complex alpha = p->alpha ? pair(p->alpha, 0, type) : 1, beta = p->beta ? pair(p->beta, 0, type) : 0;
    for (int64_t product = 0; product < batch_of(p); ++product) {
        const void *of_a = listed ? ((const void *const *)a.data)[product] : moved(a.data, product * a.stride, type);
        const void *of_b = listed ? ((const void *const *)b.data)[product] : moved(b.data, product * b.stride, type);
        void *of_c = listed ? ((void *const *)p->c)[product] : (void *)(uintptr_t)moved(p->c, product * p->stride_c, type);
        for (int64_t i = 0; i < p->m; ++i)
            for (int64_t j = 0; j < p->n; ++j) {
                long double complex sum = 0;
                int64_t at = element(i, j, p->ldc, p->order, 0);
                for (int64_t l = 0; alpha != 0 && l < p->k; ++l) {
                    long double complex x = pair(of_a, element(i, l, a.ld, a.order, a.transposed), type);
                    long double complex y = pair(of_b, element(l, j, b.ld, b.order, b.transposed), type);
                    sum += (a.transposed == 2 ? conjl(x) : x) * (b.transposed == 2 ? conjl(y) : y);
                }
                sum = alpha != 0 ? scaled(alpha, sum) : 0;
                if (beta != 0)
                    sum += scaled(beta, pair(of_c, at, type));
                if (p->bias)
                    sum += pair(p->bias, p->order == lab_ROW_MAJOR ? j : i, type);
                if (type == lab_C128)
                    ((double complex *)of_c)[at] = (double complex)sum;
                else
                    ((float complex *)of_c)[at] = (float complex)sum;
            }
    }
}

static void compute(const lab_problem *p, operand a, operand b)
{
    int type = p->element;
    if (IS_COMPLEX(type)) {
        compute_pairs(p, a, b);
        return;
    }
    long double alpha = p->alpha ? get(p->alpha, 0, type) : 1, beta = p->beta ? get(p->beta, 0, type) : 0;
    for (int64_t product = 0; product < batch_of(p); ++product) {
        int listed = (p->flags & lab_POINTERS) != 0;
        const void *of_a = listed ? ((const void *const *)a.data)[product] : moved(a.data, product * a.stride, type);
        const void *of_b = listed ? ((const void *const *)b.data)[product] : moved(b.data, product * b.stride, type);
        void *of_c = listed ? ((void *const *)p->c)[product] : (void *)(uintptr_t)moved(p->c, product * p->stride_c, type);
        for (int64_t i = 0; i < p->m; ++i)
            for (int64_t j = 0; j < p->n; ++j) {
                long double sum = 0;
                int64_t at = element(i, j, p->ldc, p->order, 0);
                if (alpha != 0)
                    for (int64_t l = 0; l < p->k; ++l)
                        sum += (long double)value(of_a, i, l, a.ld, a.order, a.transposed, type) * value(of_b, l, j, b.ld, b.order, b.transposed, type);
                sum = alpha != 0 ? alpha * sum : 0;
                if (beta != 0)
                    sum += beta * get(of_c, at, type);
                if (p->bias)
                    sum += get(p->bias, p->order == lab_ROW_MAJOR ? j : i, type);
                put(of_c, at, type, p->epilogue ? activated(p->epilogue, (double)sum) : sum);
            }
    }
}

/* An element of a symmetric or triangular A, or of op(A), of which one triangle lies in memory. */
static double of_square(const lab_problem *p, const void *a, int64_t row, int64_t column)
{
    int64_t from = row, to = column;
    int there;
    if (p->kind >= lab_TRMM && p->transpose_a)
        from = column, to = row;
    there = p->uplo == lab_UPPER ? from <= to : to <= from;
    if (p->kind == lab_SYMM && !there)
        return get(a, element(to, from, p->lda, p->order, 0), p->element);
    return p->kind >= lab_TRMM && from == to && p->diag == lab_UNIT ? 1 : there ? get(a, element(from, to, p->lda, p->order, 0), p->element) : 0;
}

/* X of op(A) X = alpha B, or of X op(A) = alpha B; C may be B. */
static int compute_systems(const lab_problem *p)
{
    const int type = p->element;
    const double alpha = p->alpha ? get(p->alpha, 0, type) : 1;
    const int left = p->side == lab_LEFT, forward = (p->uplo == lab_LOWER) == (left != p->transpose_a);
    const int64_t deep = left ? p->m : p->n, across = left ? p->n : p->m;
    double *x = malloc(sizeof *x * (size_t)(deep + 1));
    if (!x)
        return lab_NO_MEMORY;
    for (int64_t at = 0; at < batch_of(p) * across; ++at) {
        const int64_t product = at / across, other = at % across;
        const int listed = (p->flags & lab_POINTERS) != 0;
        const void *a = listed ? ((const void *const *)p->a)[product] : moved(p->a, product * p->stride_a, type);
        const void *b = listed ? ((const void *const *)p->b)[product] : moved(p->b, product * p->stride_b, type);
        void *c = listed ? ((void *const *)p->c)[product] : (void *)(uintptr_t)moved(p->c, product * p->stride_c, type);
        for (int64_t step = 0; step < deep; ++step) {
            const int64_t i = forward ? step : deep - 1 - step;
            double left_over = 0;
            x[i] = 0;
            if (alpha == 0)
                continue;
            left_over = alpha * get(b, element(left ? i : other, left ? other : i, p->ldb, p->order, 0), type);
            for (int64_t l = 0; l < deep; ++l)
                if (forward ? l < i : l > i)
                    left_over -= (left ? of_square(p, a, i, l) : of_square(p, a, l, i)) * x[l];
            x[i] = left_over / of_square(p, a, i, i);
        }
        for (int64_t i = 0; i < deep; ++i)
            put(c, element(left ? i : other, left ? other : i, p->ldc, p->order, 0), type, x[i]);
    }
    free(x);
    return lab_OK;
}

/* Kinds beside GEMM; C may be B, so that sums of all elements come before the first of them is stored. */
static int compute_kind(const lab_problem *p)
{
    int type = p->element;
    double alpha = p->alpha ? get(p->alpha, 0, type) : 1, beta = p->beta && p->kind != lab_TRMM ? get(p->beta, 0, type) : 0;
    double *sums = malloc(sizeof *sums * (size_t)(p->m * p->n));
    int64_t deep = of_side(p) ? p->side == lab_LEFT ? p->m : p->n : p->k;
    if (!sums)
        return lab_NO_MEMORY;
    for (int64_t product = 0; product < batch_of(p); ++product) {
        const void *a = moved(p->a, product * p->stride_a, type), *b = p->kind == lab_SYRK ? a : moved(p->b, product * p->stride_b, type);
        void *c = (void *)(uintptr_t)moved(p->c, product * p->stride_c, type);
        int64_t ldb = p->kind == lab_SYRK ? p->lda : p->ldb;
        for (int64_t i = 0; i < p->m; ++i)
            for (int64_t j = 0; j < p->n; ++j) {
                double sum = 0;
                for (int64_t l = 0; alpha != 0 && l < deep; ++l) {
                    if (of_side(p) && p->side == lab_LEFT)
                        sum += of_square(p, a, i, l) * get(b, element(l, j, ldb, p->order, 0), type);
                    else if (of_side(p))
                        sum += get(b, element(i, l, ldb, p->order, 0), type) * of_square(p, a, l, j);
                    else if (p->kind == lab_GEMMT)
                        sum += value(a, i, l, p->lda, p->order, p->transpose_a, type) * value(b, l, j, ldb, p->order, p->transpose_b, type);
                    else
                        sum += value(a, i, l, p->lda, p->order, p->transpose_a, type) * value(b, j, l, ldb, p->order, p->transpose_a, type);
                    if (p->kind == lab_SYR2K)
                        sum += value(b, i, l, ldb, p->order, p->transpose_a, type) * value(a, j, l, p->lda, p->order, p->transpose_a, type);
                }
                sums[i * p->n + j] = alpha != 0 ? alpha * sum : 0;
            }
        for (int64_t i = 0; i < p->m; ++i)
            for (int64_t j = 0; j < p->n; ++j) {
                int64_t at = element(i, j, p->ldc, p->order, 0);
                if (!of_triangle(p) || (p->uplo == lab_UPPER ? i <= j : j <= i))
                    put(c, at, type, sums[i * p->n + j] + (beta != 0 ? beta * get(c, at, type) : 0));
            }
    }
    free(sums);
    return lab_OK;
}

/* Of a problem with a packed operand, whose kernel is the one that packs. */
static int select_packed(const lab_problem *p, const lab_packed *packed, lab_choice *choice)
{
    int of_a, of_b, code = lab_select(p, NULL, choice);
    if (code)
        return code;
    if (!packed || packed->size != sizeof *packed)
        return lab_BAD_STRUCT;
    if (!packed->memory || packed->format != REFERENCE_FORMAT || packed->order != p->order)
        return lab_BAD_PACKED;
    of_a = packed->operand == 'a', of_b = packed->operand == 'b';
    if (!(of_a && packed->rows == p->m && packed->columns == p->k) && !(of_b && packed->rows == p->k && packed->columns == p->n))
        return lab_BAD_PACKED;
    if (packed->bytes < REFERENCE_PACKED_HEAD + bytes_of(p->element) * (size_t)packed->rows * (size_t)packed->columns)
        return lab_BAD_PACKED;
    if (p->kernel && choice->is_fallback)
        return lab_BAD_KERNEL;
    choice->kernel = REFERENCE, choice->is_fallback = 0;
    choice->name = NAMES[REFERENCE];
    choice->reason = "the operand is packed";
    choice->workspace_bytes = choice->workspace_bytes_packed = REFERENCE_WORKSPACE_PACKED;
    return lab_OK;
}

int lab_select_packed(const lab_problem *problem, const lab_packed *packed, const lab_target *target, lab_choice *choice)
{
    return target && target->size != sizeof *target ? lab_BAD_STRUCT : select_packed(problem, packed, choice);
}

/* All products of this library. packed: NULL, or one of the operands. */
static int run(const lab_problem *p, const lab_packed *packed, void *workspace, size_t workspace_bytes, void *stream)
{
    lab_choice choice = {sizeof choice};
    int code = packed && p->kind != lab_GEMM ? lab_NOT_SERVED : packed ? select_packed(p, packed, &choice) : lab_select(p, NULL, &choice), reads;
    int of_a = packed && packed->operand == 'a', of_b = packed && packed->operand == 'b';
    size_t needed = choice.workspace_bytes;
    const void *elements = of_a || of_b ? (const char *)packed->memory + REFERENCE_PACKED_HEAD : NULL;
    void *own = NULL;
    if (code)
        return code;
    if (!p->m || !p->n || !batch_of(p))
        return lab_OK;
    /* Scalars on a GPU cannot be looked at, and this library must fail where a GPU's would. */
    reads = (p->k || of_side(p)) && ((p->flags & lab_SCALARS_ON_DEVICE) || !p->alpha || (IS_COMPLEX(p->element) ? pair(p->alpha, 0, p->element) != 0 : get(p->alpha, 0, p->element) != 0));
    if (reads && !of_a && !p->a)
        return lab_BAD_A;
    if (reads && !of_b && p->kind != lab_SYRK && !p->b)
        return lab_BAD_B;
    if (!p->c)
        return lab_BAD_C;
    if (needed && !workspace && !workspace_bytes) {
        workspace = own = allocator.take ? allocator.take(allocator.user, needed, stream) : malloc(needed);
        if (!own)
            return lab_NO_MEMORY;
        COUNT(taken);
    } else if (needed && (!workspace || workspace_bytes < needed || (uintptr_t)workspace % LAB_WORKSPACE_ALIGNMENT))
        return lab_BAD_WORKSPACE;
    if (needed)
        memset(workspace, 0, sizeof(lab_status));
    if (p->kind != lab_GEMM)
        code = p->kind == lab_TRSM ? compute_systems(p) : compute_kind(p);
    else compute(
        p,
        of_a ? (operand){elements, at_least_1(p->k), 0, lab_ROW_MAJOR, 0} : (operand){p->a, p->lda, p->stride_a, p->order, p->transpose_a},
        of_b ? (operand){elements, at_least_1(p->n), 0, lab_ROW_MAJOR, 0} : (operand){p->b, p->ldb, p->stride_b, p->order, p->transpose_b});
    if (own) {
        if (allocator.give)
            allocator.give(allocator.user, own, needed, stream);
        else
            free(own);
        COUNT(given);
    }
    COUNT(gemm);
    if (packed)
        COUNT(packed);
    return code;
}

int lab_prepare(void) { return lab_OK; }

int lab_gemm(const lab_problem *problem, void *workspace, size_t workspace_bytes, void *stream)
{
    return run(problem, NULL, workspace, workspace_bytes, stream);
}

int lab_gemm_packed(const lab_problem *problem, const lab_packed *packed, void *workspace, size_t workspace_bytes, void *stream)
{
    return packed ? run(problem, packed, workspace, workspace_bytes, stream) : lab_BAD_STRUCT;
}

int lab_pack_bytes(const lab_problem *problem, char operand, const lab_target *target, size_t *bytes)
{
    int code = check_sizes(problem);
    if (code)
        return code;
    if ((target && target->size != sizeof *target) || !bytes)
        return lab_BAD_STRUCT;
    if (operand != 'a' && operand != 'b')
        return lab_BAD_OPERAND;
    if (problem->kernel - 1 == FALLBACK || IS_COMPLEX(problem->element))
        return lab_NOT_SERVED;
    *bytes = REFERENCE_PACKED_HEAD + bytes_of(problem->element) * (size_t)(operand == 'a' ? problem->m : problem->n) * (size_t)problem->k;
    return lab_OK;
}

int lab_pack(const lab_problem *problem, char operand, void *memory, size_t bytes, void *stream, lab_packed *packed)
{
    size_t needed;
    int of_a = operand == 'a';
    int64_t at = 0;
    int code = lab_pack_bytes(problem, operand, NULL, &needed);
    (void)stream;
    if (code)
        return code;
    if (!packed || packed->size != sizeof *packed)
        return lab_BAD_STRUCT;
    packed->rows = of_a ? problem->m : problem->k;
    packed->columns = of_a ? problem->k : problem->n;
    if (packed->rows && packed->columns && !(of_a ? problem->a : problem->b))
        return of_a ? lab_BAD_A : lab_BAD_B;
    if (!memory || bytes < needed || (uintptr_t)memory % LAB_WORKSPACE_ALIGNMENT)
        return lab_BAD_WORKSPACE;
    memset(memory, 0, REFERENCE_PACKED_HEAD);
    for (int64_t row = 0; row < packed->rows; ++row)
        for (int64_t column = 0; column < packed->columns; ++column)
            put((char *)memory + REFERENCE_PACKED_HEAD, at++, problem->element, value(
                of_a ? problem->a : problem->b, row, column, of_a ? problem->lda : problem->ldb, problem->order,
                of_a ? problem->transpose_a : problem->transpose_b, problem->element));
    packed->operand = operand;
    packed->format = REFERENCE_FORMAT;
    packed->order = problem->order;
    packed->reserved = 0;
    packed->memory = memory;
    packed->bytes = needed;
    COUNT(pack);
    return lab_OK;
}

int lab_read_status(const void *workspace, void *stream, lab_status *status)
{
    (void)stream;
    if (!workspace || (uintptr_t)workspace % LAB_WORKSPACE_ALIGNMENT)
        return lab_BAD_WORKSPACE;
    if (!status)
        return lab_BAD_STRUCT;
    memcpy(status, workspace, sizeof *status);
    return lab_OK;
}

static int transposes(char letter, int32_t *transposed)
{
    *transposed = letter == 't' || letter == 'T' || letter == 'c' || letter == 'C';
    return *transposed || letter == 'n' || letter == 'N';
}

static int blas_gemm(
    int type, char transa, char transb, int m, int n, int k, const void *alpha, const void *a, int lda, const void *b, int ldb, const void *beta, void *c,
    int ldc, void *stream)
{
    lab_problem p = {.size = sizeof p, .element = type};
    int code;
    if (!transposes(transa, &p.transpose_a))
        return -1;
    if (!transposes(transb, &p.transpose_b))
        return -2;
    if (m < 0)
        return -3;
    if (n < 0)
        return -4;
    if (k < 0)
        return -5;
    if (IS_COMPLEX(type)) {
        if (transa == 'c' || transa == 'C') p.transpose_a = 2;
        if (transb == 'c' || transb == 'C') p.transpose_b = 2;
    }
    if (lda < at_least_1(p.transpose_a ? k : m))
        return -8;
    if (ldb < at_least_1(p.transpose_b ? n : k))
        return -10;
    if (ldc < at_least_1(m))
        return -13;
    p.order = lab_COLUMN_MAJOR;
    p.m = m, p.n = n, p.k = k;
    p.lda = lda, p.ldb = ldb, p.ldc = ldc;
    p.a = a, p.b = b, p.c = c;
    p.alpha = alpha, p.beta = beta;
    code = run(&p, NULL, NULL, 0, stream);
    if (!code && m && n)
        COUNT(sgemm);
    return code;
}

int lab_sgemm(
    char transa, char transb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc,
    void *stream)
{
    return blas_gemm(lab_F32, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream);
}

int lab_dgemm(
    char transa, char transb, int m, int n, int k, const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta, double *c,
    int ldc, void *stream)
{
    return blas_gemm(lab_F64, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream);
}

int lab_cgemm(
    char transa, char transb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc,
    void *stream)
{
    return blas_gemm(lab_C64, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream);
}

int lab_zgemm(
    char transa, char transb, int m, int n, int k, const double *alpha, const double *a, int lda, const double *b, int ldb, const double *beta, double *c,
    int ldc, void *stream)
{
    return blas_gemm(lab_C128, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, stream);
}

/* A routine of BLAS's; `code` is that of its letters, and then come the places of m, n, k, lda, ldb and ldc among its arguments. */
static int level3(lab_problem *p, int code, const int at[6])
{
    p->size = sizeof *p;
    p->order = lab_COLUMN_MAJOR;
    if (!code)
        code = run(p, NULL, NULL, 0, NULL);
    else
        return code;
    return code <= lab_BAD_M && code >= lab_BAD_LDC ? -at[lab_BAD_M - code] : code;
}

static int one_of(char told, const char *zeros, const char *ones, int32_t *to)
{
    *to = told && strchr(ones, told);
    return *to || (told && strchr(zeros, told));
}

int lab_ssyrk(
    char uplo, char trans, int n, int k, const float *alpha, const float *a, int lda, const float *beta, float *c, int ldc, void *stream)
{
    lab_problem p = {.kind = lab_SYRK, .m = n, .n = n, .k = k, .lda = lda, .ldc = ldc, .a = a, .c = c, .alpha = alpha, .beta = beta};
    int code = !one_of(uplo, "lL", "uU", &p.uplo) ? -1 : !transposes(trans, &p.transpose_a) ? -2 : 0;
    (void)stream;
    return level3(&p, code, (const int[]){3, 3, 4, 7, 0, 10});
}

int lab_ssyr2k(
    char uplo, char trans, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc,
    void *stream)
{
    lab_problem p = {.kind = lab_SYR2K, .m = n, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
    int code = !one_of(uplo, "lL", "uU", &p.uplo) ? -1 : !transposes(trans, &p.transpose_a) ? -2 : 0;
    (void)stream;
    return level3(&p, code, (const int[]){3, 3, 4, 7, 9, 12});
}

int lab_sgemmt(
    char uplo, char transa, char transb, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c,
    int ldc, void *stream)
{
    lab_problem p = {.kind = lab_GEMMT, .m = n, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
    int code = !one_of(uplo, "lL", "uU", &p.uplo) ? -1 : !transposes(transa, &p.transpose_a) ? -2 : !transposes(transb, &p.transpose_b) ? -3 : 0;
    (void)stream;
    return level3(&p, code, (const int[]){4, 4, 5, 8, 10, 13});
}

int lab_ssymm(
    char side, char uplo, int m, int n, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc,
    void *stream)
{
    lab_problem p = {.kind = lab_SYMM, .m = m, .n = n, .lda = lda, .ldb = ldb, .ldc = ldc, .a = a, .b = b, .c = c, .alpha = alpha, .beta = beta};
    int code = !one_of(side, "lL", "rR", &p.side) ? -1 : !one_of(uplo, "lL", "uU", &p.uplo) ? -2 : 0;
    (void)stream;
    return level3(&p, code, (const int[]){3, 4, 0, 7, 9, 12});
}

static int triangular(
    int kind, char side, char uplo, char transa, char diag, int m, int n, const float *alpha, const float *a, int lda, float *b, int ldb)
{
    lab_problem p = {.kind = kind, .m = m, .n = n, .lda = lda, .ldb = ldb, .ldc = ldb, .a = a, .b = b, .c = b, .alpha = alpha};
    int code = !one_of(side, "lL", "rR", &p.side) ? -1 : !one_of(uplo, "lL", "uU", &p.uplo) ? -2 : !transposes(transa, &p.transpose_a) ? -3
        : !one_of(diag, "nN", "uU", &p.diag) ? -4 : 0;
    return level3(&p, code, (const int[]){5, 6, 0, 9, 11, 11});
}

int lab_strmm(
    char side, char uplo, char transa, char diag, int m, int n, const float *alpha, const float *a, int lda, float *b, int ldb, void *stream)
{
    (void)stream;
    return triangular(lab_TRMM, side, uplo, transa, diag, m, n, alpha, a, lda, b, ldb);
}

int lab_strsm(
    char side, char uplo, char transa, char diag, int m, int n, const float *alpha, const float *a, int lda, float *b, int ldb, void *stream)
{
    (void)stream;
    return triangular(lab_TRSM, side, uplo, transa, diag, m, n, alpha, a, lda, b, ldb);
}

int lab_set_allocator(lab_take take, lab_give give, void *user)
{
    allocator.take = take;
    allocator.give = give;
    allocator.user = user;
    return lab_OK;
}
