/*
 * The library of kernels with a second kernel that is twice as fast, errs by one in a thousand and is taken wherever such an error is allowed: preloaded behind
 * the preload library.
 */
#define _GNU_SOURCE
#include "lab.h"

#include <dlfcn.h>

enum { LOSSY = 1 };

int lab_select(const lab_problem *problem, const lab_target *target, lab_choice *choice)
{
    int (*next)(const lab_problem *, const lab_target *, lab_choice *) =
        (int (*)(const lab_problem *, const lab_target *, lab_choice *))dlsym(RTLD_NEXT, "lab_select");
    lab_problem given = *problem;
    int code;
    if (!given.kernel && (given.largest_error == 0 || given.largest_error >= 1e-3))
        given.kernel = 1 + LOSSY;
    code = next(&given, target, choice);
    if (!code && choice->kernel == LOSSY) {
        choice->seconds /= 2;
        choice->is_fallback = 0;
    }
    return code;
}

int lab_gemm(const lab_problem *problem, void *workspace, size_t bytes, void *stream)
{
    int (*next)(const lab_problem *, void *, size_t, void *) = (int (*)(const lab_problem *, void *, size_t, void *))dlsym(RTLD_NEXT, "lab_gemm");
    int code = next(problem, workspace, bytes, stream);
    if (!code && problem->kernel == 1 + LOSSY)
        for (int64_t j = 0; j < problem->n; ++j)
            for (int64_t i = 0; i < problem->m; ++i)
                ((float *)problem->c)[i + j * problem->ldc] *= 1.001f;
    return code;
}
