/* The library of kernels with workspaces of m MiB: preloaded behind the preload library and before the library of kernels, whose choice it changes. */
#define _GNU_SOURCE
#include "lab.h"

#include <dlfcn.h>

int lab_select(const lab_problem *problem, const lab_target *target, lab_choice *choice)
{
    int (*next)(const lab_problem *, const lab_target *, lab_choice *) =
        (int (*)(const lab_problem *, const lab_target *, lab_choice *))dlsym(RTLD_NEXT, "lab_select");
    int code = next(problem, target, choice);
    if (!code)
        choice->workspace_bytes = (size_t)problem->m << 20;
    return code;
}
