/*
 * Stands in for libcuda.so.1 and, with -DHIP, for libamdhip64.so, as far as the preload library calls these: memory of the device is the host's. Tests set the
 * state of captures and contexts, and read counters. A call that a capture would forbid fails.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef HIP
#define NAME(cuda, hip) hip
#else
#define NAME(cuda, hip) cuda
#endif

enum { INVALID = 1, FORBIDDEN = 900 };

static struct { long long allocated, freed, bytes, waits, waits_for_all, forbidden, exchanged; } counted;
long long stand_in_counted(const char *name)
{
    return !strcmp(name, "allocated") ? counted.allocated : !strcmp(name, "freed") ? counted.freed : !strcmp(name, "bytes") ? counted.bytes :
        !strcmp(name, "waits") ? counted.waits : !strcmp(name, "waits_for_all") ? counted.waits_for_all : counted.forbidden;
}

static uintptr_t current = 0xc0;        /* the context, or of HIP the device */
static struct { void *stream; int status; unsigned long long id; void *graph; } capture;
static __thread int mode;               /* 0 is the global one */
static int out_of_memory;
static int exchange_fails;              /* so many times from now on */

int stand_in_mode(void) { return mode; }

void stand_in_context(uintptr_t context) { current = context; }
void stand_in_capture(void *stream, int status, unsigned long long id, void *graph)
{
    capture.stream = stream, capture.status = status, capture.id = id, capture.graph = graph;
}
void stand_in_out_of_memory(int is) { out_of_memory = is; }
void stand_in_exchange_fails(int times) { exchange_fails = times; }

static int forbidden(void)
{
    if (!capture.status || mode == 2)
        return 0;
    ++counted.forbidden;
    return 1;
}

int NAME(cuMemAlloc_v2, hipMalloc)(void **memory, size_t bytes)
{
    if (forbidden())
        return FORBIDDEN;
    if (out_of_memory || posix_memalign(memory, 256, bytes))
        return 2;
    memset(*memory, 0xee, bytes);
    ++counted.allocated;
    counted.bytes += (long long)bytes;
    return 0;
}

int NAME(cuMemFree_v2, hipFree)(void *memory)
{
    if (forbidden())
        return FORBIDDEN;
    free(memory);
    ++counted.freed;
    return 0;
}

int NAME(cuStreamSynchronize, hipStreamSynchronize)(void *stream)
{
    (void)stream;
    ++counted.waits;
    return 0;
}

int NAME(cuCtxSynchronize, hipDeviceSynchronize)(void)
{
    ++counted.waits_for_all;
    return forbidden() ? FORBIDDEN : 0;
}

#ifdef HIP
int hipGetDevice(int *device) { *device = (int)current; return 0; }
int hipStreamGetDevice(void *stream, int *device)
{
    *device = (uintptr_t)stream >= 0x9000 || (uintptr_t)stream < 4 ? 7 : (int)current;
    return 0;
}
#else
int cuCtxGetCurrent(uintptr_t *context) { *context = current; return 0; }
/* NULL, 1 and 2 are no streams of their own, and 3 is another device's here. */
int cuStreamGetCtx(void *stream, uintptr_t *context)
{
    *context = (uintptr_t)stream >= 0x9000 || (uintptr_t)stream < 4 ? 0xc7 : current;
    return 0;
}
int cuStreamGetId(void *stream, unsigned long long *id) { *id = (uintptr_t)stream + 1; return 0; }
#endif

int NAME(cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2)(
    void *stream, int *status, unsigned long long *id, void **graph, const void **nodes, size_t *count)
{
    (void)nodes;
    (void)count;
    if (!capture.status || (capture.stream != stream && stream)) {
        *status = 0;
        return 0;
    }
    if (capture.stream != stream)
        return FORBIDDEN + 6;  /* the default stream, while another is captured */
    *status = capture.status;
    if (id)
        *id = capture.id;
    if (graph)
        *graph = capture.graph;
    return 0;
}

int NAME(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int *wanted)
{
    int before = mode;
    if (exchange_fails && exchange_fails--)
        return INVALID;
    mode = *wanted;
    *wanted = before;
    return 0;
}

enum { MOST = 64 };
static struct { void *pointer, *graph; void (*destroy)(void *); } objects[MOST];

int NAME(cuUserObjectCreate, hipUserObjectCreate)(void **object, void *pointer, void (*destroy)(void *), unsigned count, unsigned flags)
{
    for (int i = 0; i < MOST; ++i)
        if (!objects[i].pointer && count == 1 && flags == 1) {
            objects[i].pointer = pointer;
            objects[i].destroy = destroy;
            *object = &objects[i];
            return 0;
        }
    return INVALID;
}

int NAME(cuGraphRetainUserObject, hipGraphRetainUserObject)(void *graph, void *object, unsigned count, unsigned flags)
{
    if (!graph || count != 1 || flags != 1)
        return INVALID;
    ((__typeof__(&objects[0]))object)->graph = graph;
    return 0;
}

/* The graph and all that was made of it are gone. */
void stand_in_destroy_graph(void *graph)
{
    for (int i = 0; i < MOST; ++i)
        if (objects[i].pointer && objects[i].graph == graph) {
            objects[i].destroy(objects[i].pointer);
            objects[i].pointer = NULL;
        }
}
