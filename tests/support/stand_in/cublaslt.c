/*
 * Stands in for libcublasLt.so.13: descriptors with attributes of the real sizes and defaults, one more that no header knows, and cublasLtMatmul of
 * FP32 and FP64.
 */
#include "blas.h"

enum { OK = 0, INVALID = 7, ATTRIBUTES = 48, LATER = 45 };

long long stand_in_lt_calls(const char *name) { return count_of(name); }

typedef struct descriptor { int is_layout; int64_t value[ATTRIBUTES]; } descriptor;

/* Bytes of an attribute; 0: there is none of that number. */
static size_t bytes_of(int is_layout, int attribute)
{
    static const char MATMUL[ATTRIBUTES] = {
        4, 4, 4, 4, 4, 4, 4, 4, 8, 0, 8, 8, 8, 8, 8, 4, 0, 8, 8, 8, 8, 8, 4, 8, 8, 1, 4, 4, 4, 8, 8, 4, 4, 4, 4, 4, 8, 4, [LATER] = 4};
    static const char LAYOUT[ATTRIBUTES] = {4, 4, 8, 8, 8, 4, 8, 8, 4, [LATER] = 4};
    return attribute < 0 || attribute >= ATTRIBUTES ? 0 : (size_t)(is_layout ? LAYOUT : MATMUL)[attribute];
}

int cublasLtCreate(void **handle) { *handle = malloc(1); return OK; }
int cublasLtDestroy(void *handle) { called(__func__); free(handle); return OK; }

int cublasLtMatmulDescCreate(descriptor **made, int compute, int scale)
{
    *made = calloc(1, sizeof **made);
    (*made)->value[0] = compute, (*made)->value[1] = scale, (*made)->value[6] = 2, (*made)->value[7] = 1;
    (*made)->value[22] = (*made)->value[26] = -1;
    return OK;
}
int cublasLtMatmulDescDestroy(descriptor *one) { free(one); return OK; }
int cublasLtMatrixLayoutCreate(descriptor **made, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    *made = calloc(1, sizeof **made);
    (*made)->is_layout = 1;
    (*made)->value[0] = type, (*made)->value[2] = (int64_t)rows, (*made)->value[3] = (int64_t)columns, (*made)->value[4] = ld, (*made)->value[5] = 1;
    return OK;
}
int cublasLtMatrixLayoutDestroy(descriptor *one) { free(one); return OK; }

static int set(descriptor *one, int attribute, const void *value, size_t bytes)
{
    if (!bytes || bytes != bytes_of(one->is_layout, attribute))
        return INVALID;
    memcpy(&one->value[attribute], value, bytes);
    return OK;
}
static int get(const descriptor *one, int attribute, void *value, size_t bytes, size_t *written)
{
    size_t needed = bytes_of(one->is_layout, attribute);
    if (!needed || (bytes && bytes < needed))
        return INVALID;
    *written = needed;
    if (bytes)
        memcpy(value, &one->value[attribute], needed);
    return OK;
}
int cublasLtMatmulDescSetAttribute(descriptor *one, int attribute, const void *value, size_t bytes) { return set(one, attribute, value, bytes); }
int cublasLtMatrixLayoutSetAttribute(descriptor *one, int attribute, const void *value, size_t bytes) { return set(one, attribute, value, bytes); }
int cublasLtMatmulDescGetAttribute(const descriptor *one, int attribute, void *value, size_t bytes, size_t *written)
{
    return get(one, attribute, value, bytes, written);
}
int cublasLtMatrixLayoutGetAttribute(const descriptor *one, int attribute, void *value, size_t bytes, size_t *written)
{
    return get(one, attribute, value, bytes, written);
}

/* Where element (i, j) of a matrix lies. */
static int64_t place(const descriptor *layout, int64_t i, int64_t j) { return layout->value[1] == 1 ? i * layout->value[4] + j : i + j * layout->value[4]; }

/* Element `at` of a matrix, or a scalar. */
static double value(const void *of, int64_t at, int wide) { return wide ? ((const double *)of)[at] : ((const float *)of)[at]; }

int cublasLtMatmul(
    void *handle, const descriptor *d, const void *alpha, const void *a, const descriptor *la, const void *b, const descriptor *lb, const void *beta,
    const void *c, const descriptor *lc, void *result, const descriptor *ld, const void *algo, void *workspace, size_t bytes, void *stream)
{
    int64_t ta, tb, epilogue, k;
    const float *bias;
    int wide;
    (void)algo, (void)workspace, (void)bytes, (void)stream;
    called(__func__);
    NOTE(AT(handle), AT(d), AT(alpha), AT(a), AT(la), AT(b), AT(lb), AT(beta), AT(c), AT(lc), AT(result), AT(ld), AT(algo), AT(workspace), (long long)bytes,
         AT(stream))
    if (!handle)
        return 1;
    ta = d->value[3], tb = d->value[4], epilogue = d->value[7], k = ta ? la->value[2] : la->value[3];
    bias = (const float *)(uintptr_t)d->value[8];
    wide = la->value[0] == 1;
    if (la->value[0] > 1 || d->value[0] != (wide ? 70 : 68))
        return OK;
    for (int64_t batch = 0; batch < ld->value[5]; ++batch)
        for (int64_t i = 0; i < ld->value[2]; ++i)
            for (int64_t j = 0; j < ld->value[3]; ++j) {
                double sum = 0;
                for (int64_t l = 0; l < k; ++l)
                    sum += value(a, batch * la->value[6] + (ta ? place(la, l, i) : place(la, i, l)), wide) *
                        value(b, batch * lb->value[6] + (tb ? place(lb, j, l) : place(lb, l, j)), wide);
                sum *= value(alpha, 0, wide);
                if (value(beta, 0, wide) != 0)
                    sum += value(beta, 0, wide) * value(c, batch * lc->value[6] + place(lc, i, j), wide);
                if (bias && epilogue & 4)
                    sum += bias[i];
                if (epilogue & 2)
                    sum = sum < 0 ? 0 : sum;
                if (epilogue & 32)
                    sum = sum * (1 + tanh(sqrt(2 / acos(-1.0)) * (sum + 0.044715 * sum * sum * sum))) / 2;
                if (wide)
                    ((double *)result)[batch * ld->value[6] + place(ld, i, j)] = sum;
                else
                    ((float *)result)[batch * ld->value[6] + place(ld, i, j)] = (float)sum;
            }
    return OK;
}
