/*
 * What the preload library asks of the library of kernels: preloaded between the two, it keeps the last problem of lab_select() and what lab_gemm() was given,
 * counts both, and answers with a code where a test wants one. It may forget its predictions. Counters of a call are 1, 10, 100, ...
 */
#define _GNU_SOURCE
#include "lab.h"

#include <dlfcn.h>

static struct { lab_problem problem; long long selects, gemms; int answer, gemm_answer, unpredicted; } watched;
static __thread int inside;  /* of lab_gemm(), which may select, too */
static struct { lab_problem problem; void *memory; size_t bytes; void *stream; int mode; } ran;

const lab_problem *watched_problem(void) { return &watched.problem; }
const lab_problem *watched_run(void) { return &ran.problem; }
long long watched_selects(void) { return watched.selects; }
long long watched_gemms(void) { return watched.gemms; }
void *watched_memory(void) { return ran.memory; }
size_t watched_bytes(void) { return ran.bytes; }
void *watched_stream(void) { return ran.stream; }
int watched_mode(void) { return ran.mode; }
void watched_answer(int select, int gemm) { watched.answer = select, watched.gemm_answer = gemm; }
void watched_unpredicted(int is) { watched.unpredicted = is; }

int lab_select(const lab_problem *problem, const lab_target *target, lab_choice *choice)
{
    int (*next)(const lab_problem *, const lab_target *, lab_choice *) =
        (int (*)(const lab_problem *, const lab_target *, lab_choice *))dlsym(RTLD_NEXT, "lab_select");
    int code;
    if (inside)
        return next(problem, target, choice);
    watched.problem = *problem;
    ++watched.selects;
    if (watched.answer)
        return watched.answer;
    code = next(problem, target, choice);
    if (watched.unpredicted)
        choice->seconds = choice->sgemm_seconds = 0;
    return code;
}

int lab_read_status(const void *workspace, void *stream, lab_status *status)
{
    (void)workspace;
    status->a_lossy = 1, status->a_overflow = 10, status->a_nonfinite = 100, status->b_lossy = 1000, status->b_overflow = 10000;
    status->b_nonfinite = 100000, status->repaired = stream ? 1000000 : 0;
    return 0;
}

int lab_gemm(const lab_problem *problem, void *workspace, size_t bytes, void *stream)
{
    int (*next)(const lab_problem *, void *, size_t, void *) = (int (*)(const lab_problem *, void *, size_t, void *))dlsym(RTLD_NEXT, "lab_gemm");
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    int (*mode)(void) = driver ? (int (*)(void))dlsym(driver, "stand_in_mode") : NULL;
    int code;
    ran.problem = *problem, ran.memory = workspace, ran.bytes = bytes, ran.stream = stream, ran.mode = mode ? mode() : -1;
    ++watched.gemms;
    inside = 1;
    code = watched.gemm_answer ? watched.gemm_answer : next(problem, workspace, bytes, stream);
    inside = 0;
    return code;
}
