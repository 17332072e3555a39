/*
 * A driver for tests: what a library's runtime asks of libcuda.so.1 or, with -DHIP, of libamdhip64.so, without a GPU.
 *
 * Device memory is the host's. A launch is counted and, where a test sets `standin_on_launch`, handed to it. What a GPU would do wrong in
 * silence is refused: more shared memory than a kernel was allowed, a grid of nothing, memory that the pool does not have.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
enum { MOST_CODES = 1024, MOST_FUNCTIONS = 4096, OUT_OF_MEMORY = 2, INVALID = 1, NOT_FOUND = 500 };

/* What tests set and read. */
EXPORT int standin_major = 9, standin_minor = 0, standin_units = 4, standin_most_shared = 232448, standin_version = 13000, standin_current = 0, standin_gpus = 1;
EXPORT char standin_arch[256] = "gfx90a:sramecc+:xnack-";
EXPORT int standin_fails_load = 0, standin_refuses_overlap = 0;
EXPORT long standin_launches, standin_fills, standin_taken, standin_given, standin_loaded, standin_asked, standin_overlapped;
EXPORT int standin_last_blocks;
EXPORT size_t standin_filled_bytes, standin_taken_bytes, standin_most_pool = (size_t)1 << 40;
EXPORT const void *standin_last_fill;
EXPORT void *standin_last_taken;
EXPORT int (*standin_on_launch)(
    const void *code, const char *symbol, unsigned blocks, unsigned threads, unsigned shared_bytes, int overlaps, void *stream, void **parameters);

typedef struct function {
    const void *code;
    const char *symbol;
    int allowed[16];
} function;

static function functions[MOST_FUNCTIONS];
static int function_count;

static int load(void **library, const void *code)
{
    __atomic_add_fetch(&standin_loaded, 1, __ATOMIC_RELAXED);
    if (standin_fails_load) return standin_fails_load;
    *library = (void *)code;
    return 0;
}

static int find(void **found, void *code, const char *symbol)
{
    const int number = __atomic_fetch_add(&function_count, 1, __ATOMIC_RELAXED);
    if (number >= MOST_FUNCTIONS) return OUT_OF_MEMORY;
    functions[number].code = code;
    functions[number].symbol = symbol;
    *found = &functions[number];
    return 0;
}

static int launch(
    void *what, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **parameters, int overlaps)
{
    const function *const one = what;
    const int allowed = standin_current < 16 && one->allowed[standin_current] ? one->allowed[standin_current] : 48 * 1024;
    if (x == 0 || y != 1 || z != 1 || bx == 0 || bx > 1024 || by != 1 || bz != 1) return INVALID;
    if (shared_bytes > (unsigned)allowed) return INVALID;
    __atomic_add_fetch(&standin_launches, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&standin_overlapped, overlaps, __ATOMIC_RELAXED);
    standin_last_blocks = (int)x;
    return standin_on_launch ? standin_on_launch(one->code, one->symbol, x, bx, shared_bytes, overlaps, stream, parameters) : 0;
}

static int fill(void *to, int value, size_t bytes)
{
    __atomic_add_fetch(&standin_fills, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&standin_filled_bytes, bytes, __ATOMIC_RELAXED);
    standin_last_fill = to;
    if (standin_on_launch) memset(to, value, bytes);
    return 0;
}

static int take(void **memory, size_t bytes)
{
    if (bytes > standin_most_pool) return OUT_OF_MEMORY;
    __atomic_add_fetch(&standin_taken, 1, __ATOMIC_RELAXED);
    standin_taken_bytes = bytes;
    if (posix_memalign(memory, 256, bytes ? bytes : 256)) return OUT_OF_MEMORY;
    standin_last_taken = *memory;
    if (standin_on_launch) memset(*memory, 0xff, bytes);
    return 0;
}

static int give(void *memory)
{
    __atomic_add_fetch(&standin_given, 1, __ATOMIC_RELAXED);
    free(memory);
    return 0;
}

static int asked(int *to, int value)
{
    __atomic_add_fetch(&standin_asked, 1, __ATOMIC_RELAXED);
    *to = value;
    return 0;
}

static int keeps_all(int attribute, const void *value) { return attribute == 4 && *(const uint64_t *)value == UINT64_MAX ? 0 : INVALID; }

#ifndef HIP

typedef uint64_t pointer;

EXPORT int cuDriverGetVersion(int *version) { *version = standin_version; return 0; }
EXPORT int cuGetErrorString(int code, const char **text) { *text = code == 999 ? "a made-up error" : NULL; return code == 999 ? 0 : INVALID; }
EXPORT int cuInit(unsigned flags) { (void)flags; return standin_gpus > 0 ? 0 : 100; }
EXPORT int cuCtxGetDevice(int *device) { *device = standin_current; return standin_current < 0 ? 201 : 0; }
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &standin_current; return device == 0 ? 0 : INVALID; }
EXPORT int cuCtxSetCurrent(void *context) { standin_current = context == &standin_current ? 0 : -1; return 0; }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    switch (attribute) {
    case 16: return asked(value, standin_units);
    case 75: return asked(value, standin_major);
    case 76: return asked(value, standin_minor);
    case 97: return asked(value, standin_most_shared);
    default: return INVALID;
    }
}
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return 0; }
EXPORT int cuLibraryLoadData(void **library, const void *code, int *a, void **b, unsigned c, int *d, void **e, unsigned f)
{
    (void)a; (void)b; (void)c; (void)d; (void)e; (void)f;
    return load(library, code);
}
EXPORT int cuLibraryGetKernel(void **found, void *library, const char *symbol) { return find(found, library, symbol); }
EXPORT int cuKernelSetAttribute(int attribute, int value, void *what, int device)
{
    if (attribute != 8 || value > standin_most_shared || device > 15) return INVALID;
    ((function *)what)->allowed[device] = value;
    return 0;
}
EXPORT int cuLaunchKernel(
    void *what, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    (void)extra;
    return launch(what, x, y, z, bx, by, bz, shared_bytes, stream, parameters, 0);
}
typedef struct { int id; char padding[4]; int value; char rest[60]; } attribute;
typedef struct { unsigned x, y, z, bx, by, bz, shared_bytes; void *stream; attribute *attributes; unsigned count; } configuration;
EXPORT int cuLaunchKernelEx(const configuration *how, void *what, void **parameters, void **extra)
{
    (void)extra;
    if (standin_refuses_overlap || how->count != 1 || how->attributes->id != 6 || how->attributes->value != 1) return 801;
    return launch(what, how->x, how->y, how->z, how->bx, how->by, how->bz, how->shared_bytes, how->stream, parameters, 1);
}
EXPORT int cuMemsetD8Async(pointer to, unsigned char value, size_t bytes, void *stream) { (void)stream; return fill((void *)(uintptr_t)to, value, bytes); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, pointer from, size_t bytes, void *stream)
{
    (void)stream;
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}
EXPORT int cuStreamSynchronize(void *stream) { (void)stream; return 0; }
EXPORT int cuMemPoolCreate(void **pool, const void *properties)
{
    const int *const told = properties;
    if (told[0] != 1 || told[1] != 0 || told[2] != 1 || told[3] != standin_current) return INVALID;
    *pool = (void *)1;
    return 0;
}
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value) { (void)pool; return keeps_all(attribute, value); }
EXPORT int cuMemAllocFromPoolAsync(pointer *memory, size_t bytes, void *pool, void *stream)
{
    void *found = NULL;
    const int code = pool == (void *)1 ? take(&found, bytes) : INVALID;
    (void)stream;
    *memory = (pointer)(uintptr_t)found;
    return code;
}
EXPORT int cuMemFreeAsync(pointer memory, void *stream) { (void)stream; return give((void *)(uintptr_t)memory); }

#else

EXPORT int hipDriverGetVersion(int *version) { *version = standin_version; return 0; }
EXPORT const char *hipGetErrorString(int code) { return code == 999 ? "a made-up error" : "unknown"; }
EXPORT int hipGetDevice(int *device) { *device = standin_current; return standin_current < 0 ? 100 : 0; }
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    return attribute == 63 ? asked(value, standin_units) : attribute == 74 ? asked(value, standin_most_shared) : INVALID;
}
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device)
{
    (void)device;
    memset(properties, 0, 1472);
    strcpy((char *)properties, "AMD Radeon Graphics");
    memcpy((char *)properties + 1160, standin_arch, sizeof standin_arch);
    return 0;
}
EXPORT int hipThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return 0; }
EXPORT int hipModuleLoadData(void **module, const void *code) { return load(module, code); }
EXPORT int hipModuleGetFunction(void **found, void *module, const char *symbol) { return find(found, module, symbol); }
EXPORT int hipModuleLaunchKernel(
    void *what, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    (void)extra;
    return launch(what, x, y, z, bx, by, bz, shared_bytes, stream, parameters, 0);
}
EXPORT int hipMemsetAsync(void *to, int value, size_t bytes, void *stream) { (void)stream; return fill(to, value, bytes); }
EXPORT int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
    (void)stream;
    if (kind != 2) return INVALID;
    memcpy(to, from, bytes);
    return 0;
}
EXPORT int hipStreamSynchronize(void *stream) { (void)stream; return 0; }
EXPORT int hipMemPoolCreate(void **pool, const void *properties) { (void)properties; *pool = (void *)1; return 0; }
EXPORT int hipMemPoolSetAttribute(void *pool, int attribute, void *value) { (void)pool; return keeps_all(attribute, value); }
EXPORT int hipMallocFromPoolAsync(void **memory, size_t bytes, void *pool, void *stream)
{
    (void)stream;
    return pool == (void *)1 ? take(memory, bytes) : INVALID;
}
EXPORT int hipFreeAsync(void *memory, void *stream) { (void)stream; return give(memory); }

#endif
