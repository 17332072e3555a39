"""Cholesky's factor of a 16384 x 16384 matrix by cuSOLVER's spotrf, as cupy.linalg.cholesky calls it.

    python bench/programs/cholesky.py [judge]
"""

import json, sys
import cupy, numpy
from cupy.cuda import cublas, cusolver, device

N = 16384
random = cupy.random.default_rng(7)
a = random.random((N, N), dtype=numpy.float32) - numpy.float32(0.5)
a = a @ a.T / N
a[cupy.arange(N), cupy.arange(N)] += 1

solver = device.get_cusolver_handle()
cusolver.setStream(solver, cupy.cuda.get_current_stream().ptr)
info = cupy.empty(1, numpy.int32)
work = cupy.empty(cusolver.spotrf_bufferSize(solver, cublas.CUBLAS_FILL_MODE_LOWER, N, a.data.ptr, N), numpy.float32)
times = []
for repeat in range(4):
    factor = a.copy(order="F")
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    cusolver.spotrf(solver, cublas.CUBLAS_FILL_MODE_LOWER, N, factor.data.ptr, N, work.data.ptr, work.size, info.data.ptr)
    end.record()
    end.synchronize()
    times.append(float(cupy.cuda.get_elapsed_time(start, end)))
judged = None
if "judge" in sys.argv:
    lower = cupy.tril(factor).astype(numpy.float64)
    judged = float(cupy.linalg.norm(lower @ lower.T - a) / cupy.linalg.norm(a))
assert not int(info[0]), "the matrix is not positive definite"
# The first call loads kernels.
print(json.dumps({"name": "Cholesky of cuSOLVER", "ms": min(times[1:]), "error": judged}), flush=True)
