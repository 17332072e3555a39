"""Microseconds of the host for a call that is passed on and for one that is taken, beside the vendor's function and the library's own.

    LD_PRELOAD=... python bench/programs/overhead.py time NAME    # the name of the library behind the preload library
"""

import ctypes, json, statistics, sys, time
import torch

NAME = sys.argv[2]
torch.zeros(1, device="cuda") @ torch.zeros(1, device="cuda")
a = torch.randn(2048, 2048, device="cuda")
c = torch.empty_like(a)
a @ a
handle = ctypes.c_void_p(torch.cuda.current_blas_handle())
path = next(line.split()[-1] for line in open("/proc/self/maps") if "/libcublas.so" in line)
own, vendor = ctypes.CDLL(None).cublasSgemm_v2, ctypes.CDLL(path).cublasSgemm_v2
P, I = ctypes.c_void_p, ctypes.c_int
one, zero = ctypes.c_float(1), ctypes.c_float(0)
for function in (own, vendor):
    function.argtypes = [P, I, I, I, I, I, P, P, I, P, I, P, P, I]

def sgemm(function, size):
    given = (handle, 0, 0, size, size, size, ctypes.addressof(one), a.data_ptr(), 2048, a.data_ptr(), 2048, ctypes.addressof(zero), c.data_ptr(), 2048)
    return lambda: function(*given)

class Problem(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("order", ctypes.c_int32), ("ta", ctypes.c_int32), ("tb", ctypes.c_int32), ("epilogue", ctypes.c_int32),
                *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc", "batch", "sa", "sb", "sc")),
                *((name, P) for name in ("a", "b", "c", "alpha", "beta", "bias")),
                ("flags", ctypes.c_uint32), ("kernel", ctypes.c_int32), ("error", ctypes.c_double), *((name, ctypes.c_int32) for name in ("kind", "uplo", "side", "diag", "element"))]
class Choice(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kernel", ctypes.c_int32), ("fallback", ctypes.c_int32), ("name", P), ("reason", P),
                ("workspace", ctypes.c_size_t),
                ("packed", ctypes.c_size_t), *((name, ctypes.c_double) for name in ("seconds", "sgemm_seconds", "error", "worst"))]

def direct(size):
    p = Problem(size=ctypes.sizeof(Problem), order=1, m=size, n=size, k=size, lda=2048, ldb=2048, ldc=2048, a=a.data_ptr(), b=a.data_ptr(), c=c.data_ptr(),
                alpha=ctypes.addressof(one), beta=ctypes.addressof(zero))
    choice = Choice(size=ctypes.sizeof(Choice))
    library = ctypes.CDLL(None)
    select, gemm = getattr(library, NAME + "_select"), getattr(library, NAME + "_gemm")
    gemm.argtypes = [P, P, ctypes.c_size_t, P]
    assert not select(ctypes.byref(p), None, ctypes.byref(choice))
    p.kernel = 1 + choice.kernel
    work = torch.empty(choice.workspace + 256, dtype=torch.uint8, device="cuda")
    at = (work.data_ptr() + 255) // 256 * 256
    given = (ctypes.addressof(p), at, choice.workspace, torch.cuda.current_stream().cuda_stream)
    return lambda keep=(p, work): gemm(*given)

def microseconds(function):
    """Of the host, in a queue that never fills."""
    found = []
    for repeat in range(15):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for call in range(40):
            status = function()
            assert not status, status
        found.append(1e6 * (time.perf_counter() - start) / 40)
    torch.cuda.synchronize()
    return statistics.median(found[3:])

def both(first, second):
    first_found, second_found = zip(*((microseconds(first), microseconds(second)) for _ in range(3)))
    return statistics.median(first_found), statistics.median(second_found)

small = both(sgemm(own, 8), sgemm(vendor, 8))
large = both(sgemm(own, 1024), direct(1024))
print(json.dumps({"name": "host: passed on (8^3), beside cuBLAS itself", "us": small[0], "beside": small[1]}), flush=True)
print(json.dumps({"name": "host: taken (1024^3), beside the library itself", "us": large[0], "beside": large[1]}), flush=True)
