/*
 * For bench/library.py: what a call of a library costs on the host.
 *
 * With -DRECORDS this is a library that stands before the driver's launches and fills: it keeps those of one call, and repeats them. The difference
 * between a call of the library and its repeated launches is what the library itself takes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

#ifndef RECORDS

/* Nanoseconds of a call, of `count` of them; below 0: the code that one returned. */
double time_calls(int (*gemm)(const void *, void *, size_t, void *), const void *problem, void *workspace, size_t bytes, void *stream, int count)
{
    const double start = now();
    int i;
    for (i = 0; i < count; ++i) {
        const int code = gemm(problem, workspace, bytes, stream);
        if (code != 0) return code < 0 ? code : -code;
    }
    return (now() - start) / count;
}

#else

enum { MOST = 64, MOST_PARAMETERS = 64 };
enum { FILL, LAUNCH, LAUNCH_CONFIGURED };

typedef struct { unsigned dims[7]; void *stream; void *attributes; unsigned count; } configuration;

static struct operation {
    int kind;
    void *function;
    configuration how;
    char attribute[72];
    uint64_t values[MOST_PARAMETERS];
    void *parameters[MOST_PARAMETERS];
    uint64_t to;
    unsigned char value;
    size_t bytes;
} operations[MOST];
static int count, recording;

typedef int (*fill_function)(uint64_t, unsigned char, size_t, void *);
typedef int (*launch_function)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int (*configured_function)(const void *, void *, void **, void **);
typedef int (*size_function)(void *, size_t, size_t *, size_t *);

static void *real(const char *symbol) { return dlsym(RTLD_NEXT, symbol); }
static fill_function fill;
static launch_function launch;
static configured_function configured;

static void find(void)
{
    if (fill != NULL) return;
    fill = (fill_function)real("cuMemsetD8Async");
    launch = (launch_function)real("cuLaunchKernel");
    configured = (configured_function)real("cuLaunchKernelEx");
}

static struct operation *kept(int kind, void *function, void **parameters)
{
    struct operation *const one = &operations[count++ % MOST];
    const size_function size_of = (size_function)real("cuKernelGetParamInfo");
    size_t offset, size, i;
    memset(one, 0, sizeof *one);
    one->kind = kind;
    one->function = function;
    for (i = 0; parameters != NULL && size_of != NULL && i < MOST_PARAMETERS && size_of(function, i, &offset, &size) == 0; ++i) {
        memcpy(&one->values[i], parameters[i], size);
        one->parameters[i] = &one->values[i];
    }
    return one;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t bytes, void *stream)
{
    find();
    if (recording) {
        struct operation *const one = kept(FILL, NULL, NULL);
        one->to = to, one->value = value, one->bytes = bytes, one->how.stream = stream;
    }
    return fill(to, value, bytes, stream);
}

int cuLaunchKernel(
    void *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **p, void **extra)
{
    find();
    if (recording) {
        struct operation *const one = kept(LAUNCH, function, p);
        const unsigned dims[7] = {x, y, z, bx, by, bz, shared};
        memcpy(one->how.dims, dims, sizeof dims);
        one->how.stream = stream;
    }
    return launch(function, x, y, z, bx, by, bz, shared, stream, p, extra);
}

int cuLaunchKernelEx(const void *how, void *function, void **p, void **extra)
{
    find();
    if (recording) {
        struct operation *const one = kept(LAUNCH_CONFIGURED, function, p);
        memcpy(&one->how, how, sizeof one->how);
        memcpy(one->attribute, one->how.attributes, sizeof one->attribute);
        one->how.attributes = one->attribute;
    }
    return configured(how, function, p, extra);
}

void record(int on) { recording = on; if (on) count = 0; }
int recorded(void) { return count; }

/* Nanoseconds of what was recorded, once, of `times` of it; below 0: the code that one returned. */
double time_recorded(int times)
{
    const double start = now();
    int i, j;
    for (i = 0; i < times; ++i)
        for (j = 0; j < count; ++j) {
            struct operation *const one = &operations[j];
            const unsigned *const d = one->how.dims;
            const int code = one->kind == FILL ? fill(one->to, one->value, one->bytes, one->how.stream)
                             : one->kind == LAUNCH ? launch(one->function, d[0], d[1], d[2], d[3], d[4], d[5], d[6], one->how.stream, one->parameters, NULL)
                             : configured(&one->how, one->function, one->parameters, NULL);
            if (code != 0) return -code;
        }
    return (now() - start) / times;
}
#endif
