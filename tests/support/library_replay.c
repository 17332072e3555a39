/*
 * Replays calls of a library's functions on the stand-in driver, and writes what each gave and what it asked of the driver.
 *
 *     replay CALLS RESULTS DESCRIPTIONS threads N     N threads take the calls in turn; each call fails where it says so
 *     replay CALLS RESULTS DESCRIPTIONS fresh 1       each call in processes of its own, in which one driver call after another fails, and then
 *                                                     once more in the same process, in which none does
 *
 * tests/support/library_calls.py draws the calls and knows what each has to give. The runtime is compiled together with this file, under a sanitiser.
 */
#include "lab.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GEMM, GEMM_PACKED, PACK, SELECT, SELECT_PACKED, PACK_BYTES, SGEMM, READ_STATUS, PREPARE, CURRENT_TARGET };
enum { ALPHA_OF_HOST = 1, BETA_OF_HOST = 2, WITH_TARGET = 4, OWN_MEMORY = 8, MISALIGNED = 16 };  /* memory of the caller's allocator, and where that begins */

struct call {
    int32_t function, device, fails_in, fails_with;
    uint32_t flags;
    char operand, transa, transb, none;
    float alpha, beta;
    uint64_t workspace, bytes, stream;
    lab_problem problem;
    lab_packed packed;
    lab_target target;
};

struct result {
    int32_t code, failed;                   /* whether the call that was to fail did */
    int32_t mode, kernel, is_fallback, named;
    int64_t memory, retained;               /* live afterwards: of the pool; of the first device's context */
    int64_t pools, modules;
    uint64_t bytes, bytes_packed, recorded;
    double seconds, sgemm_seconds, error, worst_case;
    lab_packed packed;
    lab_target target;
};

extern long standin_taken, standin_given, standin_pools, standin_modules, standin_retained;
extern size_t standin_most_pool;
extern struct { int major, minor, units, most_shared; } standin_devices[];
void *standin_allocate(void *user, size_t bytes, void *stream);
void standin_release(void *user, void *memory, size_t bytes, void *stream);
void standin_use(int device);
void standin_fail(int after, int code);
int standin_fails_in(void);
int standin_mode(void);
int standin_describe(const char *symbol, const char *kinds);
void standin_record(void);
const unsigned char *standin_recorded(size_t *bytes);

static struct call *calls;
static long count;
static int threads;
static struct { struct result *result; unsigned char *record; } *answers;

static int run(const struct call *one, struct result *to)
{
    lab_problem problem = one->problem;
    lab_choice choice;
    lab_packed packed = one->packed;
    lab_target target = one->target;
    const lab_target *const given = one->flags & WITH_TARGET ? &one->target : NULL;
    void *const workspace = (void *)(uintptr_t)one->workspace, *const stream = (void *)(uintptr_t)one->stream;
    float alpha = one->alpha, beta = one->beta;
    size_t bytes = 0;
    int code;
    if (one->flags & ALPHA_OF_HOST) problem.alpha = &alpha;
    if (one->flags & BETA_OF_HOST) problem.beta = &beta;
    memset(&choice, 0, sizeof choice);
    choice.size = sizeof choice;
    to->kernel = -1;
    switch (one->function) {
    case GEMM: return lab_gemm(&problem, workspace, one->bytes, stream);
    case GEMM_PACKED: return lab_gemm_packed(&problem, &packed, workspace, one->bytes, stream);
    case PACK:
        code = lab_pack(&problem, one->operand, workspace, one->bytes, stream, &packed);
        to->packed = packed;
        return code;
    case SELECT: case SELECT_PACKED:
        code = one->function == SELECT ? lab_select(&problem, given, &choice) : lab_select_packed(&problem, &packed, given, &choice);
        if (code == 0) {
            to->kernel = choice.kernel;
            to->is_fallback = choice.is_fallback;
            to->named = strcmp(choice.name, lab_kernel_name(choice.kernel)) == 0 && choice.reason != NULL;
        }
        to->bytes = choice.workspace_bytes, to->bytes_packed = choice.workspace_bytes_packed;
        to->seconds = choice.seconds, to->sgemm_seconds = choice.sgemm_seconds, to->error = choice.error, to->worst_case = choice.worst_case;
        return code;
    case PACK_BYTES:
        code = lab_pack_bytes(&problem, one->operand, given, &bytes);
        to->bytes = bytes;
        return code;
    case SGEMM:
        return lab_sgemm(
            one->transa, one->transb, (int)problem.m, (int)problem.n, (int)problem.k, problem.alpha, problem.a, (int)problem.lda, problem.b, (int)problem.ldb,
            problem.beta, problem.c, (int)problem.ldc, stream);
    case READ_STATUS: {
        static const uint64_t counted[32] __attribute__((aligned(256))) = {1, 2, 3, 4, 5, 6, 7, 8};
        lab_status status;
        memset(&status, 0, sizeof status);
        code = lab_read_status((const char *)counted + one->bytes, stream, one->workspace ? &status : NULL);
        to->bytes = status.a_lossy + 10 * status.a_overflow + 100 * status.a_nonfinite + 1000 * status.b_lossy + 10000 * status.b_overflow;
        to->bytes += 100000 * status.b_nonfinite + 1000000 * status.repaired;
        return code;
    }
    case PREPARE: return lab_prepare();
    case CURRENT_TARGET:
        code = lab_current_target(&target);
        to->target = target;
        return code;
    default: abort();
    }
}

static void answer(const struct call *one, struct result *to)
{
    int aside = one->flags & MISALIGNED ? 128 : 0;
    memset(to, 0, sizeof *to);
    if (threads > 1 && one->flags & OWN_MEMORY) abort();  /* one allocator serves all threads */
    standin_use(one->device);
    standin_record();
    standin_fail(one->fails_in, one->fails_with);
    if (one->flags & OWN_MEMORY && lab_set_allocator(standin_allocate, standin_release, &aside) != 0) abort();
    to->code = run(one, to);
    if (one->flags & OWN_MEMORY && lab_set_allocator(NULL, NULL, NULL) != 0) abort();
    to->failed = one->fails_in > 0 && standin_fails_in() == 0;
    standin_fail(0, 0);
    to->mode = standin_mode();
    if (threads > 1) return;                /* counts of all threads together tell nothing of one call */
    to->memory = standin_taken - standin_given, to->retained = standin_retained;
    to->pools = standin_pools, to->modules = standin_modules;
}

/* What the thread has recorded, behind a result that says how much it is. */
static unsigned char *kept(struct result *of)
{
    size_t bytes;
    const unsigned char *const record = standin_recorded(&bytes);
    unsigned char *const copy = malloc(bytes + 1);
    if (copy == NULL) abort();
    if (bytes > 0) memcpy(copy, record, bytes);
    of->recorded = bytes;
    return copy;
}

static void *work(void *number)
{
    long i;
    for (i = (long)(intptr_t)number; i < count; i += threads) {
        struct result *const result = malloc(sizeof *result);
        if (result == NULL) abort();
        answer(&calls[i], result);
        answers[i].result = result;
        answers[i].record = kept(result);
    }
    return NULL;
}

static void write_all(int file, const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        const ssize_t written = write(file, at, bytes);
        if (written <= 0) abort();
        at += written;
        bytes -= (size_t)written;
    }
}

static void write_answer(int file, struct result *result)
{
    unsigned char *const record = kept(result);
    write_all(file, result, sizeof *result);
    write_all(file, record, result->recorded);
    free(record);
}

/* One driver call after another fails, each in a process that has loaded nothing, until there is none left to fail. */
static void fresh(const struct call *one, int file)
{
    int fails_in, status = 0;
    for (fails_in = 1; status == 0; ++fails_in) {
        const pid_t child = fork();
        if (child < 0) abort();
        if (child == 0) {
            struct call again = *one;
            struct result result;
            again.fails_in = fails_in;
            answer(&again, &result);
            status = result.failed ? 0 : 1;
            write_answer(file, &result);
            again.fails_in = 0;
            answer(&again, &result);
            write_answer(file, &result);
            _exit(status);
        }
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1) abort();
        status = WEXITSTATUS(status);
    }
}

static char *whole(const char *path, long *bytes)
{
    FILE *const file = fopen(path, "rb");
    char *text;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (*bytes = ftell(file)) < 0) abort();
    rewind(file);
    text = malloc((size_t)*bytes + 1);
    if (text == NULL || fread(text, 1, (size_t)*bytes, file) != (size_t)*bytes) abort();
    text[*bytes] = 0;
    fclose(file);
    return text;
}

int main(int many, char **told)
{
    pthread_t others[64];
    FILE *file;
    char *descriptions, *at;
    long bytes, i;
    if (many != 6) return 2;
    calls = (struct call *)(void *)whole(told[1], &bytes);
    if (bytes % (long)sizeof *calls != 0) return 2;
    count = bytes / (long)sizeof *calls;
    descriptions = whole(told[3], &bytes);
    for (at = descriptions; *at != 0;) {    /* `symbol kinds`, or `@ device major minor units shared-memory` */
        char *const space = strchr(at, ' '), *const end = strchr(at, '\n');
        int device, major, minor, units, shared;
        *space = *end = 0;
        if (strcmp(at, "@") != 0) {
            standin_describe(at, space + 1);
        } else {
            if (sscanf(space + 1, "%d %d %d %d %d", &device, &major, &minor, &units, &shared) != 5) return 2;
            standin_devices[device].major = major, standin_devices[device].minor = minor;
            standin_devices[device].units = units, standin_devices[device].most_shared = shared;
        }
        at = end + 1;
    }
    standin_most_pool = (size_t)1 << 24;
    threads = atoi(told[5]);
    file = fopen(told[2], "wb");
    if (file == NULL || threads < 1 || threads > 64) return 2;
    if (strcmp(told[4], "fresh") == 0) {
        for (i = 0; i < count; ++i) fresh(&calls[i], fileno(file));
    } else {
        answers = calloc((size_t)count, sizeof *answers);
        if (answers == NULL) return 2;
        for (i = 1; i < threads; ++i)
            if (pthread_create(&others[i], NULL, work, (void *)(intptr_t)i) != 0) return 2;
        work(NULL);
        for (i = 1; i < threads; ++i) pthread_join(others[i], NULL);
        for (i = 0; i < count; ++i) {
            fwrite(answers[i].result, sizeof *answers[i].result, 1, file);
            fwrite(answers[i].record, 1, answers[i].result->recorded, file);
            free(answers[i].result);
            free(answers[i].record);
        }
        free(answers);
    }
    fclose(file);
    free(calls);
    return 0;
}
