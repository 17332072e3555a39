"""Loops over a library's call in compiled code: what a C program enqueues, free of the interpreter's time between two products."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = r"""
#include <stdint.h>
typedef struct { const float *a, *b; float *c; int32_t lda, ldb, ldc, m, n, k; float alpha, beta; int32_t reserved[2]; } problem;
typedef int (*sgemm)(void *, int, int, int, int, int, const float *, const float *, int, const float *, int, const float *, float *, int);
typedef int (*record)(void *, void *);
typedef int (*wait)(void *, void *, unsigned);

/* Row-major C = A B is column-major C^T = B^T A^T. A product without elements is not called for. */
static int one(sgemm gemm, void *handle, const problem *p) {
    if (!p->m || !p->n) return 0;
    return gemm(handle, 0, 0, p->n, p->m, p->k, &p->alpha, p->b, p->ldb, p->a, p->lda, &p->beta, p->c, p->ldc);
}

int loop(sgemm gemm, void *handle, const problem *problems, int count) {
    int status = 0;
    for (int i = 0; i < count && !status; i++) status = one(gemm, handle, problems + i);
    return status;
}

/* Round robin over streams, each with a handle of its own. They wait for the main stream, and it for them. */
int spread(sgemm gemm, record mark, wait hold, void **handles, void **streams, void **joins, int width, void *main_stream, void *fork,
           const problem *problems, int count) {
    int status = mark(fork, main_stream);
    for (int s = 0; s < width && !status; s++) status = hold(streams[s], fork, 0);
    for (int i = 0; i < count && !status; i++) status = one(gemm, handles[i % width], problems + i);
    for (int s = 0; s < width && !status; s++) status = mark(joins[s], streams[s]);
    for (int s = 0; s < width && !status; s++) status = hold(main_stream, joins[s], 0);
    return status;
}
"""
COMPILERS = (("cc",), ("gcc",), ("clang",), ("nvcc", "-Xcompiler"))
"""Tried in this order, each with what leads in its host compiler's options."""


@cache
def library() -> ctypes.CDLL | None:
    """SOURCE, compiled into a folder that is gone again when this returns; None where no C compiler is found or none serves."""
    with tempfile.TemporaryDirectory(prefix="gemmgen-") as folder:
        source, binary = Path(folder) / "loops.c", Path(folder) / "loops.so"
        source.write_text(SOURCE)
        for name, *lead in COMPILERS:
            found = shutil.which(name)
            if not found:
                continue
            command = [found, "-O2", "-shared", *lead, "-fPIC", "-o", str(binary), str(source)]
            try:
                subprocess.run(command, capture_output=True, timeout=60, check=True)
                loaded = ctypes.CDLL(str(binary))
            except (OSError, subprocess.SubprocessError):
                continue
            pointer, count = ctypes.c_void_p, ctypes.c_int
            loaded.loop.argtypes = [pointer, pointer, pointer, count]
            loaded.spread.argtypes = [pointer, pointer, pointer, pointer, pointer, pointer, count, pointer, pointer, pointer, count]
            return loaded
    return None
