/*
 * A driver for tests: what a library's runtime asks of libcuda.so.1 or, with -DHIP, of libamdhip64.so, without a GPU.
 *
 * Device memory is the host's. A launch is counted and, where a test sets `standin_on_launch`, handed to it. What a GPU would do wrong in
 * silence is refused: more shared memory than a kernel was allowed, a grid of nothing, memory that the pool does not have, a pool or a module
 * of another device.
 *
 * A thread may have a device of its own (`standin_use`), have a call of its own fail (`standin_fail`), and keep a record of its calls
 * (`standin_record`).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define ADD(what, number) __atomic_add_fetch(&(what), number, __ATOMIC_RELAXED)
#define SET(what, value) __atomic_store_n(&(what), value, __ATOMIC_RELAXED)
enum { MOST_FUNCTIONS = 4096, MOST_DESCRIBED = 256, OUT_OF_MEMORY = 2, INVALID = 1, DEVICES = 16, GLOBAL = -2 };

/* What tests set and read. */
EXPORT int standin_major = 9, standin_minor = 0, standin_units = 4, standin_most_shared = 232448, standin_version = 13000, standin_current = 0, standin_gpus = 1;
EXPORT char standin_arch[256] = "gfx90a:sramecc+:xnack-";
EXPORT int standin_fails_load = 0, standin_refuses_overlap = 0;
EXPORT long standin_launches, standin_fills, standin_taken, standin_given, standin_loaded, standin_asked, standin_overlapped;
EXPORT long standin_pools, standin_modules, standin_retained;  /* made and not given back */
EXPORT int standin_last_blocks;
EXPORT size_t standin_filled_bytes, standin_taken_bytes, standin_most_pool = (size_t)1 << 40;
EXPORT const void *standin_last_fill;
EXPORT void *standin_last_taken;
EXPORT int (*standin_on_launch)(
    const void *code, const char *symbol, unsigned blocks, unsigned threads, unsigned shared_bytes, int overlaps, void *stream, void **parameters);

/* Of a device where its units are not 0; else the variables above tell of every one. */
EXPORT struct { int major, minor, units, most_shared; } standin_devices[DEVICES];

/* ---- What a thread's calls are, and which of them fails ---- */

enum call {
    VERSION, ERROR_STRING, INITIALIZE, CURRENT, RETAIN, RELEASE, MAKE_CURRENT, ATTRIBUTE, EXCHANGE, LOAD, UNLOAD, FUNCTION, ALLOW, LAUNCH, LAUNCH_OVERLAPPING,
    FILL, COPY, SYNCHRONIZE, POOL_CREATE, POOL_SET, POOL_DESTROY, TAKE, GIVE
};

static __thread struct {
    int told, device, mode, fails_in, fails_with, records;
    unsigned char *record;
    size_t bytes, room;
} mine;

static int device_here(void) { return mine.told ? mine.device : standin_current; }

/* The device that is current in this thread, whose captures are global ones; GLOBAL: `standin_current`, as at the start. */
EXPORT void standin_use(int device)
{
    mine.mode = 0;
    mine.told = device != GLOBAL;
    mine.device = device;
}

/* The call of this thread that comes so many after this one fails with a code; 0: none does. */
EXPORT void standin_fail(int after, int code)
{
    mine.fails_in = after;
    mine.fails_with = code;
}

/* What is left of that number: 0 where the call has failed. */
EXPORT int standin_fails_in(void) { return mine.fails_in; }

/* How this thread's captures go: 0 global, 2 relaxed. */
EXPORT int standin_mode(void) { return mine.mode; }

static struct { const char *symbol, *kinds; } described[MOST_DESCRIBED];
static int describes;

/* What a kernel's parameters are, in order (p, l, i, f), for the record; of machine code "". */
EXPORT int standin_describe(const char *symbol, const char *kinds)
{
    described[describes].symbol = symbol;
    described[describes].kinds = kinds;
    return describes++;
}

static int number_of(const char *symbol)
{
    const size_t length = strcspn(symbol, " \n");
    int i;
    for (i = 0; i < describes; ++i)
        if (strlen(described[i].symbol) == length && strncmp(described[i].symbol, symbol, length) == 0) return i;
    return -1;
}

/* Begins a record of this thread's calls: for each its kind, what it gave, the device, how many numbers follow, and those. */
EXPORT void standin_record(void)
{
    mine.records = 1;
    mine.bytes = 0;
}

EXPORT const unsigned char *standin_recorded(size_t *bytes)
{
    *bytes = mine.bytes;
    return mine.record;
}

static void put(const void *from, size_t bytes)
{
    if (mine.bytes + bytes > mine.room) {
        mine.room = 2 * (mine.bytes + bytes);
        if (mine.room > (size_t)1 << 28) abort();  /* a call that does not end */
        mine.record = realloc(mine.record, mine.room);
        if (mine.record == NULL) abort();
    }
    memcpy(mine.record + mine.bytes, from, bytes);
    mine.bytes += bytes;
}

static void note(enum call kind, int code, int count, const uint64_t *numbers)
{
    const int32_t head[4] = {(int32_t)kind, code, device_here(), count};
    if (!mine.records) return;
    put(head, sizeof head);
    if (count > 0) put(numbers, (size_t)count * sizeof *numbers);
}

/* The code that a call fails with because a test wants it to. */
static int failing(void) { return mine.fails_in > 0 && --mine.fails_in == 0 ? mine.fails_with : 0; }

/* A call that has nothing to tell but its code; `ELSE` is what it gives where it is not to fail. */
#define PLAIN(kind, ELSE) int code = failing(); if (code == 0) code = (ELSE); note(kind, code, 0, NULL); return code

/* ---- What both vendors' functions do ---- */

typedef struct function {
    const void *code;
    const char *symbol;
    int device, number, allowed[DEVICES];
} function;

static char nothing;                        /* what is left where a call fails, and of no use to anybody */
static function functions[MOST_FUNCTIONS];
static int function_count;

static int load(void **library, const void *code)
{
    const uint64_t told[2] = {(uint64_t)(int64_t)(describes > 0 ? number_of(code) : -1), (uint64_t)mine.mode};
    int failed = failing();
    ADD(standin_loaded, 1);
    if (failed == 0) failed = standin_fails_load;
    if (failed == 0) {
        ADD(standin_modules, 1);
        *library = (void *)code;
    } else {
        *library = &nothing;
    }
    note(LOAD, failed, 2, told);
    return failed;
}

static int find(void **found, void *code, const char *symbol)
{
    const int known = number_of(symbol);
    const uint64_t told[2] = {(uint64_t)(int64_t)known, (uint64_t)(int64_t)(describes > 0 && code != &nothing ? number_of(code) : -1)};
    int failed = failing(), number;
    if (failed == 0 && code == &nothing) failed = INVALID;
    if (failed == 0) {
        number = __atomic_fetch_add(&function_count, 1, __ATOMIC_RELAXED);
        if (number >= MOST_FUNCTIONS) return OUT_OF_MEMORY;
        functions[number].code = code;
        functions[number].symbol = symbol;
        functions[number].device = device_here();
        functions[number].number = known;
        *found = &functions[number];
    }
    note(FUNCTION, failed, 2, told);
    return failed;
}

static void note_launch(int code, const function *one, unsigned blocks, unsigned threads, unsigned shared_bytes, void *stream, void **parameters, int overlaps)
{
    uint64_t told[64] = {(uint64_t)(int64_t)one->number, blocks, threads, shared_bytes, (uint64_t)(uintptr_t)stream};
    const char *kinds = one->number < 0 ? "" : described[one->number].kinds;
    int count = 5;
    if (!mine.records) return;
    for (; *kinds != 0; ++kinds, ++parameters) {
        if (*kinds == 'p' || *kinds == 'l') memcpy(&told[count], *parameters, 8);
        if (*kinds == 'i' || *kinds == 'f') {
            int32_t value;
            memcpy(&value, *parameters, 4);
            told[count] = (uint64_t)(int64_t)value;
        }
        ++count;
    }
    note(overlaps ? LAUNCH_OVERLAPPING : LAUNCH, code, count, told);
}

static int launch(
    void *what, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **parameters, int overlaps)
{
    const function *const one = what;
    const int device = device_here();
#ifdef HIP
    const int allowed = device >= 0 && device < DEVICES && standin_devices[device].units != 0 ? standin_devices[device].most_shared : standin_most_shared;
#else
    const int allowed = device >= 0 && device < DEVICES && one->allowed[device] ? one->allowed[device] : 48 * 1024;
#endif
    int code = failing();
    if (code == 0 && (x == 0 || y != 1 || z != 1 || bx == 0 || bx > 1024 || by != 1 || bz != 1 || shared_bytes > (unsigned)allowed)) code = INVALID;
#ifdef HIP
    if (code == 0 && one->device != device) code = INVALID;
#endif
    note_launch(code, one, x, bx, shared_bytes, stream, parameters, overlaps);
    if (code != 0) return code;
    ADD(standin_launches, 1);
    ADD(standin_overlapped, overlaps);
    SET(standin_last_blocks, (int)x);
    return standin_on_launch ? standin_on_launch(one->code, one->symbol, x, bx, shared_bytes, overlaps, stream, parameters) : 0;
}

static int fill(void *to, int value, size_t bytes, void *stream)
{
    const uint64_t told[4] = {(uint64_t)(uintptr_t)to, (uint64_t)value, bytes, (uint64_t)(uintptr_t)stream};
    const int code = failing();
    note(FILL, code, 4, told);
    if (code != 0) return code;
    ADD(standin_fills, 1);
    ADD(standin_filled_bytes, bytes);
    SET(standin_last_fill, to);
    if (standin_on_launch) memset(to, value, bytes);
    return 0;
}

static int take(void **memory, size_t bytes, void *pool, void *stream)
{
    int code = failing();
    uint64_t told[3] = {bytes, (uint64_t)(uintptr_t)stream, 0};
    if (code == 0 && pool != (void *)(intptr_t)(device_here() + 1)) code = INVALID;
    if (code == 0 && (bytes > standin_most_pool || posix_memalign(memory, 256, bytes ? bytes : 256))) code = OUT_OF_MEMORY;
    if (code == 0) {
        ADD(standin_taken, 1);
        SET(standin_taken_bytes, bytes);
        SET(standin_last_taken, *memory);
        if (standin_on_launch) memset(*memory, 0xff, bytes);
        told[2] = (uint64_t)(uintptr_t)*memory;
    }
    note(TAKE, code, 3, told);
    return code;
}

static int give(void *memory, void *stream)
{
    const uint64_t told[2] = {(uint64_t)(uintptr_t)memory, (uint64_t)(uintptr_t)stream};
    const int code = failing();
    note(GIVE, code, 2, told);
    ADD(standin_given, 1);  /* also where the driver says that it could not: nobody else will */
    free(memory);
    return code;
}

/* ---- A caller's own allocator: `user` points to how many bytes its memory misses 256-byte alignment by ---- */

EXPORT void *standin_allocate(void *user, size_t bytes, void *stream)
{
    const int failed = failing();
    uint64_t told[3] = {bytes, (uint64_t)(uintptr_t)stream, 0};
    void *memory = NULL;
    if (failed == 0 && bytes <= standin_most_pool && posix_memalign(&memory, 256, bytes + 256) == 0) {
        ADD(standin_taken, 1);
        memory = (char *)memory + *(const int *)user;
        told[2] = (uint64_t)(uintptr_t)memory;
    }
    note(TAKE, memory == NULL ? (failed ? failed : OUT_OF_MEMORY) : 0, 3, told);
    return memory;
}

EXPORT void standin_release(void *user, void *memory, size_t bytes, void *stream)
{
    const uint64_t told[3] = {(uint64_t)(uintptr_t)memory, (uint64_t)(uintptr_t)stream, bytes};
    note(GIVE, 0, 3, told);
    ADD(standin_given, 1);
    free((char *)memory - *(const int *)user);
}

static int asked(int *to, int value)
{
    ADD(standin_asked, 1);
    *to = value;
    return 0;
}

static int pool_create(void **pool, const void *properties)
{
    const int *const told = properties;
    const uint64_t mode = (uint64_t)mine.mode;
    int code = failing();
    *pool = &nothing;
    if (code == 0 && (told[0] != 1 || told[1] != 0 || told[2] != 1 || told[3] != device_here())) code = INVALID;
    if (code == 0) {
        ADD(standin_pools, 1);
        *pool = (void *)(intptr_t)(device_here() + 1);
    }
    note(POOL_CREATE, code, 1, &mode);
    return code;
}

static int pool_destroy(void *pool)
{
    const int code = failing();
    note(POOL_DESTROY, code, 0, NULL);
    if (pool == NULL) return INVALID;
    ADD(standin_pools, -1);
    return code;
}

static int keeps_all(int attribute, const void *value) { return attribute == 4 && *(const uint64_t *)value == UINT64_MAX ? 0 : INVALID; }

static int exchange(int *mode)
{
    const int code = failing(), before = mine.mode;
    note(EXCHANGE, code, 0, NULL);
    if (code != 0) return code;
    if (*mode < 0 || *mode > 2) return INVALID;
    mine.mode = *mode;
    *mode = before;
    return 0;
}

static int copy(void *to, const void *from, size_t bytes, void *stream)
{
    const uint64_t told[3] = {(uint64_t)(uintptr_t)from, bytes, (uint64_t)(uintptr_t)stream};
    const int code = failing();
    note(COPY, code, 3, told);
    if (code == 0) memcpy(to, from, bytes);
    return code;
}

static int fact(int *value, int attribute, int device)
{
    const int own = device >= 0 && device < DEVICES && standin_devices[device].units != 0;
    switch (attribute) {
    case 16: case 63: return asked(value, own ? standin_devices[device].units : standin_units);
    case 75: return asked(value, own ? standin_devices[device].major : standin_major);
    case 76: return asked(value, own ? standin_devices[device].minor : standin_minor);
    case 97: case 74: return asked(value, own ? standin_devices[device].most_shared : standin_most_shared);
    default: return INVALID;
    }
}

static int told_version(int *version) { *version = standin_version; return 0; }
static int told_current(int *device, int none) { *device = device_here(); return device_here() < 0 ? none : 0; }

#ifndef HIP

typedef uint64_t pointer;

static int allow(function *one, int value, int device)
{
    const uint64_t told[3] = {(uint64_t)(int64_t)one->number, (uint64_t)value, (uint64_t)device};
    int code = failing();
    if (code == 0 && (value > standin_most_shared || device >= DEVICES)) code = INVALID;
    if (code == 0) one->allowed[device] = value;
    note(ALLOW, code, 3, told);
    return code;
}

static void make_device(int device)
{
    if (mine.told) mine.device = device;
    else standin_current = device;
}

static int retain(void **context, int device)
{
    if (device != 0) return INVALID;
    ADD(standin_retained, 1);
    *context = &standin_current;
    return 0;
}
static int initialized;
static int initialize(int code) { SET(initialized, code == 0); return code; }
static int make_current(void *context) { make_device(context == &standin_current ? 0 : -1); return 0; }

EXPORT int cuDriverGetVersion(int *version) { PLAIN(VERSION, told_version(version)); }
EXPORT int cuGetErrorString(int code, const char **text) { *text = code == 999 ? "a made-up error" : NULL; return code == 999 ? 0 : INVALID; }
EXPORT int cuInit(unsigned flags) { (void)flags; PLAIN(INITIALIZE, initialize(standin_gpus > 0 ? 0 : 100)); }
EXPORT int cuCtxGetDevice(int *device) { PLAIN(CURRENT, told_current(device, __atomic_load_n(&initialized, __ATOMIC_RELAXED) ? 201 : 3)); }
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) { PLAIN(RETAIN, retain(context, device)); }
EXPORT int cuDevicePrimaryCtxRelease_v2(int device) { PLAIN(RELEASE, device == 0 ? (ADD(standin_retained, -1), 0) : INVALID); }
EXPORT int cuCtxSetCurrent(void *context) { PLAIN(MAKE_CURRENT, make_current(context)); }
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    PLAIN(ATTRIBUTE, attribute == 63 || attribute == 74 ? INVALID : fact(value, attribute, device));
}
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) { return exchange(mode); }
EXPORT int cuLibraryLoadData(void **library, const void *code, int *a, void **b, unsigned c, int *d, void **e, unsigned f)
{
    (void)a; (void)b; (void)c; (void)d; (void)e; (void)f;
    return load(library, code);
}
EXPORT int cuLibraryGetKernel(void **found, void *library, const char *symbol) { return find(found, library, symbol); }
EXPORT int cuKernelSetAttribute(int attribute, int value, void *what, int device) { return attribute == 8 ? allow(what, value, device) : INVALID; }
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
EXPORT int cuMemsetD8Async(pointer to, unsigned char value, size_t bytes, void *stream) { return fill((void *)(uintptr_t)to, value, bytes, stream); }
EXPORT int cuMemcpyDtoHAsync_v2(void *to, pointer from, size_t bytes, void *stream) { return copy(to, (void *)(uintptr_t)from, bytes, stream); }
EXPORT int cuStreamSynchronize(void *stream) { (void)stream; PLAIN(SYNCHRONIZE, 0); }
EXPORT int cuMemPoolCreate(void **pool, const void *properties) { return pool_create(pool, properties); }
EXPORT int cuMemPoolSetAttribute(void *pool, int attribute, void *value) { (void)pool; PLAIN(POOL_SET, keeps_all(attribute, value)); }
EXPORT int cuMemPoolDestroy(void *pool) { return pool_destroy(pool); }
EXPORT int cuMemAllocFromPoolAsync(pointer *memory, size_t bytes, void *pool, void *stream)
{
    void *found = NULL;
    const int code = take(&found, bytes, pool, stream);
    *memory = (pointer)(uintptr_t)found;
    return code;
}
EXPORT int cuMemFreeAsync(pointer memory, void *stream) { return give((void *)(uintptr_t)memory, stream); }

#else

/* Devices that a test tells of keep their numbers, so that one set of kernels serves both platforms: `sm_80`, with a feature behind it as gfx targets have. */
static int told_properties(void *properties, int device)
{
    memset(properties, 0, 1472);
    strcpy((char *)properties, "AMD Radeon Graphics");
    memcpy((char *)properties + 1160, standin_arch, sizeof standin_arch);
    if (device >= 0 && device < DEVICES && standin_devices[device].units != 0)
        snprintf((char *)properties + 1160, 256, "sm_%d%d:xnack-", standin_devices[device].major, standin_devices[device].minor);
    return 0;
}

static int unload(void *module)
{
    const uint64_t told = (uint64_t)(int64_t)(describes > 0 ? number_of(module) : -1);
    const int code = failing();
    ADD(standin_modules, -1);
    note(UNLOAD, code, 1, &told);
    return code;
}

EXPORT int hipDriverGetVersion(int *version) { PLAIN(VERSION, told_version(version)); }
EXPORT const char *hipGetErrorString(int code) { return code == 999 ? "a made-up error" : "unknown"; }
EXPORT int hipGetDevice(int *device) { PLAIN(CURRENT, told_current(device, 100)); }
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    PLAIN(ATTRIBUTE, attribute == 63 || attribute == 74 ? fact(value, attribute, device) : INVALID);
}
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) { PLAIN(ATTRIBUTE, told_properties(properties, device)); }
EXPORT int hipThreadExchangeStreamCaptureMode(int *mode) { return exchange(mode); }
EXPORT int hipModuleLoadData(void **module, const void *code) { return load(module, code); }
EXPORT int hipModuleUnload(void *module) { return unload(module); }
EXPORT int hipModuleGetFunction(void **found, void *module, const char *symbol) { return find(found, module, symbol); }
EXPORT int hipModuleLaunchKernel(
    void *what, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared_bytes, void *stream, void **parameters, void **extra)
{
    (void)extra;
    return launch(what, x, y, z, bx, by, bz, shared_bytes, stream, parameters, 0);
}
EXPORT int hipMemsetAsync(void *to, int value, size_t bytes, void *stream) { return fill(to, value, bytes, stream); }
EXPORT int hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) { return kind == 2 ? copy(to, from, bytes, stream) : INVALID; }
EXPORT int hipStreamSynchronize(void *stream) { (void)stream; PLAIN(SYNCHRONIZE, 0); }
EXPORT int hipMemPoolCreate(void **pool, const void *properties) { return pool_create(pool, properties); }
EXPORT int hipMemPoolSetAttribute(void *pool, int attribute, void *value) { (void)pool; PLAIN(POOL_SET, keeps_all(attribute, value)); }
EXPORT int hipMemPoolDestroy(void *pool) { return pool_destroy(pool); }
EXPORT int hipMallocFromPoolAsync(void **memory, size_t bytes, void *pool, void *stream) { return take(memory, bytes, pool, stream); }
EXPORT int hipFreeAsync(void *memory, void *stream) { return give(memory, stream); }

#endif
