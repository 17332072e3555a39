"""What does a library's preload library do for programs that know nothing of it? Each runs as it is and with it, in turns.

    python bench/drop_in.py DIR [--programs torch,lu,hpl,cupy,jax,overhead] [--rounds 2] [--no-audit] [--json FILE]

DIR is a folder of `gemmgen library` with shim = ["cublas"]. The programs, all in FP32:

- torch: forward and backward of a perceptron of three layers (4096 x 4096, batch 4096) and of a transformer block (4096 wide, 32 heads, 4 x 1024 tokens);
  the errors are the largest relative Frobenius errors of a gradient against FP64's.
- lu: of a 16384 x 16384 matrix, by cupyx.scipy.linalg.lu_factor, and in blocks and recursively as HPL does it, by cuBLAS's own functions. The error is HPL's
  scaled residual, computed in FP64.
- hpl: the same with panels of its own, bench/hpl.py; the error is the mean residual of three matrices.
- cupy: products by the operator @ of all layouts. jax: products under jit. The errors are relative Frobenius errors against FP64.
- overhead: microseconds of the host for a call that is passed on and for one that is taken, beside the vendor's function and the library's own.

A program that is not installed is left out. Prints a table, whose last column has the GEMM calls of all runs of the program (of lu: of all three) that the
library took, of how many, and what was taken and passed on; about two minutes on an H200. Raises GemmgenError where DIR is no such library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gemmgen.library import dropped, shim

TORCH = '''
import copy, json, sys
import torch

torch.manual_seed(0)
torch.backends.cuda.matmul.allow_tf32 = False

class Block(torch.nn.Module):
    def __init__(self, width=4096, heads=32):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)])
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) * (w // self.heads) ** -0.5, -1)
        x = x + self.out(torch.matmul(scores, v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x))))

def layers(width=4096):
    # Not ReLU: a sign that rounding turns moves a gradient by far more than the rounding did.
    return torch.nn.Sequential(*(one for _ in range(2) for one in (torch.nn.Linear(width, width), torch.nn.GELU())), torch.nn.Linear(width, width))

def gradients(model, x, y):
    model.zero_grad(set_to_none=True)
    ((model(x) - y) ** 2).mean().backward()
    return [one.grad for one in model.parameters()]

def error(model, x, y):
    mine = [one.double() for one in gradients(model, x, y)]
    exact = gradients(copy.deepcopy(model).double(), x.double(), y.double())
    return max(float((a - b).norm() / b.norm()) for a, b in zip(mine, exact))

for name, model, shape in (("torch: 3 layers", layers(), (4096, 4096)), ("torch: transformer block", Block(), (4, 1024, 4096))):
    model = model.cuda()
    x, y = torch.randn(shape, device="cuda"), torch.randn(shape, device="cuda")
    times = []
    for repeat in range(13):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        gradients(model, x, y)
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    print(json.dumps({"name": name, "ms": sorted(times[3:])[5], "error": error(model, x, y) if sys.argv[1] == "judge" else None}), flush=True)
    del model, x, y
    torch.cuda.empty_cache()
'''

LU = '''
import json, sys
import cupy, numpy
import cupyx.scipy.linalg
from cupy.cuda import cublas, cusolver, device

N, WIDTH, LEAF = 16384, 512, 256
rng = cupy.random.default_rng(1)
a = cupy.asfortranarray(rng.random((N, N), dtype=cupy.float32) - 0.5)
b = rng.random(N, dtype=cupy.float32) - 0.5
one, minus = numpy.array(1, numpy.float32), numpy.array(-1, numpy.float32)

def residual(x):
    """HPL's, of a solution, [N]."""
    exact, rest = x.astype(cupy.float64), b.astype(cupy.float64)
    norm = 0.0
    for first in range(0, N, 2048):
        rows = a[first:first + 2048].astype(cupy.float64)
        rest[first:first + 2048] -= rows @ exact
        norm = max(norm, float(abs(rows).sum(axis=1).max()))
    return float(abs(rest).max()) / (2.0 ** -23 * (norm * float(abs(exact).max()) + float(abs(b).max())) * N)

def handles():
    """Of cuBLAS and cuSOLVER, for the current stream."""
    blas, solver = device.get_cublas_handle(), device.get_cusolver_handle()
    cublas.setPointerMode(blas, cublas.CUBLAS_POINTER_MODE_HOST)
    stream = cupy.cuda.get_current_stream().ptr
    cublas.setStream(blas, stream)
    cusolver.setStream(solver, stream)
    return blas, solver

def whole(matrix):
    return cupyx.scipy.linalg.lu_factor(matrix, overwrite_a=True, check_finite=False)

def blocked(matrix):
    """Right-looking: panel, row swaps, triangular solve, update; matrix is overwritten. Gives (LU, rows' order)."""
    blas, solver = handles()
    order = cupy.arange(N)
    pivots, info = cupy.empty(WIDTH, numpy.int32), cupy.empty(1, numpy.int32)
    work = cupy.empty(cusolver.sgetrf_bufferSize(solver, N, WIDTH, matrix.data.ptr, N), numpy.float32)
    at = lambda i, j: matrix.data.ptr + 4 * (i + j * N)
    for j in range(0, N, WIDTH):
        rows, right = N - j, N - j - WIDTH
        cusolver.sgetrf(solver, rows, WIDTH, at(j, j), N, work.data.ptr, pivots.data.ptr, info.data.ptr)
        moved = numpy.arange(rows)
        for i, pivot in enumerate(pivots.get() - 1):
            moved[i], moved[pivot] = moved[pivot], moved[i]
        to = numpy.flatnonzero(moved != numpy.arange(rows))
        to, source = cupy.asarray(to + j), cupy.asarray(moved[to] + j)
        for part in (matrix[:, :j], matrix[:, j + WIDTH:]):
            if part.size:
                part[to] = part[source]
        order[to] = order[source]
        if right:
            cublas.strsm(blas, cublas.CUBLAS_SIDE_LEFT, cublas.CUBLAS_FILL_MODE_LOWER, cublas.CUBLAS_OP_N, cublas.CUBLAS_DIAG_UNIT, WIDTH, right,
                         one.ctypes.data, at(j, j), N, at(j, j + WIDTH), N)
            cublas.sgemm(blas, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, right, right, WIDTH, minus.ctypes.data, at(j + WIDTH, j), N,
                         at(j, j + WIDTH), N, one.ctypes.data, at(j + WIDTH, j + WIDTH), N)
    return matrix, order

ROWS = cupy.RawModule(code="""
extern "C" __global__ void order_of(const int* pivots, int first, int width, int rows, int* order)
{
    extern __shared__ int at[];
    for (int i = threadIdx.x; i < rows; i += blockDim.x) at[i] = i;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 0; i < width; ++i) {
            const int other = pivots[first + i] - first, kept = at[i];
            at[i] = at[other];
            at[other] = kept;
        }
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) order[i] = at[i];
}

extern "C" __global__ void reorder(float* matrix, long long stride, int rows, const int* order)
{
    extern __shared__ float column[];
    float* const here = matrix + blockIdx.x * stride;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) column[i] = here[i];
    __syncthreads();
    for (int i = threadIdx.x; i < rows; i += blockDim.x) here[i] = column[order[i]];
}
""")
order_of, reorder = ROWS.get_function("order_of"), ROWS.get_function("reorder")
order_of.max_dynamic_shared_size_bytes = reorder.max_dynamic_shared_size_bytes = 4 * N

def recursive(matrix):
    """Recursive over columns, as HPL factors its panels (and Toledo whole matrices): most products have long sums. Gives (LU, rows' order)."""
    blas, solver = handles()
    pivots, order, info = cupy.empty(N, numpy.int32), cupy.empty(N, numpy.int32), cupy.empty(1, numpy.int32)
    work = cupy.empty(cusolver.sgetrf_bufferSize(solver, N, LEAF, matrix.data.ptr, N), numpy.float32)
    at = lambda i, j: matrix.data.ptr + 4 * (i + j * N)

    def update(m, n, k, a, b, c):
        cublas.sgemm(blas, cublas.CUBLAS_OP_N, cublas.CUBLAS_OP_N, m, n, k, minus.ctypes.data, a, N, b, N, one.ctypes.data, c, N)

    def triangle(first, size, column, columns):
        """Rows from `first` on of some columns become those of U."""
        if size <= LEAF:
            cublas.strsm(blas, cublas.CUBLAS_SIDE_LEFT, cublas.CUBLAS_FILL_MODE_LOWER, cublas.CUBLAS_OP_N, cublas.CUBLAS_DIAG_UNIT, size, columns,
                         one.ctypes.data, at(first, first), N, at(first, column), N)
            return
        half = size // 2
        triangle(first, half, column, columns)
        update(size - half, columns, half, at(first + half, first), at(first, column), at(first + half, column))
        triangle(first + half, size - half, column, columns)

    def factor(first, width):
        rows = N - first
        if width <= LEAF:
            cusolver.sgetrf(solver, rows, width, at(first, first), N, work.data.ptr, pivots.data.ptr + 4 * first, info.data.ptr)
            pivots[first:first + width] += first - 1
            return
        half = width // 2
        factor(first, half)
        order_of((1,), (1024,), (pivots, first, half, rows, order), shared_mem=4 * rows)
        reorder((width - half,), (1024,), (at(first, first + half), N, rows, order), shared_mem=4 * rows)
        triangle(first, half, first + half, width - half)
        update(rows - half, width - half, half, at(first + half, first), at(first, first + half), at(first + half, first + half))
        factor(first + half, width - half)
        order_of((1,), (1024,), (pivots, first + half, width - half, rows - half, order), shared_mem=4 * rows)
        reorder((half,), (1024,), (at(first + half, first), N, rows - half, order), shared_mem=4 * rows)

    factor(0, N)
    order_of((1,), (1024,), (pivots, 0, N, N, order), shared_mem=4 * N)
    return matrix, order.astype(numpy.int64)

def solved(factors):
    lu, rows = factors
    if len(rows) == N and rows.dtype == numpy.int64:
        y = cupyx.scipy.linalg.solve_triangular(lu, b[rows], lower=True, unit_diagonal=True)
        return cupyx.scipy.linalg.solve_triangular(lu, y)
    return cupyx.scipy.linalg.lu_solve(factors, b)

for name, factor in (("lu_factor of cupyx", whole), ("LU in blocks, as HPL", blocked), ("LU, recursive", recursive)):
    times = []
    for repeat in range(3):
        matrix = a.copy(order="F")
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        factors = factor(matrix)
        end.record()
        end.synchronize()
        times.append(float(cupy.cuda.get_elapsed_time(start, end)))
    judged = residual(solved(factors)) if sys.argv[1] == "judge" else None
    print(json.dumps({"name": name, "ms": min(times), "error": judged}), flush=True)
'''

CUPY = '''
import json, sys
import cupy

rng = cupy.random.default_rng(1)
m = n = k = 4096
times, worst = [], 0.0
for order_a in "CF":
    for order_b in "CF":
        a = cupy.array(rng.random((m, k), dtype=cupy.float32) - 0.5, order=order_a)
        b = cupy.array(rng.random((k, n), dtype=cupy.float32) - 0.5, order=order_b)
        for repeat in range(4):
            start, end = cupy.cuda.Event(), cupy.cuda.Event()
            start.record()
            c = a @ b
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(start, end))
        exact = a.astype(cupy.float64) @ b.astype(cupy.float64)
        worst = max(worst, float(cupy.linalg.norm(c - exact) / cupy.linalg.norm(exact)))
print(json.dumps({"name": "cupy: a @ b at 4096", "ms": sorted(times)[len(times) // 2], "error": worst}), flush=True)
'''

JAX = '''
import json, sys, time
import jax, numpy

jax.config.update("jax_default_matmul_precision", "highest")
a, b = (jax.random.normal(jax.random.PRNGKey(i), (4096, 4096), dtype="float32") for i in range(2))
product = jax.jit(lambda a, b: a @ b)
c = product(a, b).block_until_ready()
times = []
for repeat in range(10):
    start = time.perf_counter()
    product(a, b).block_until_ready()
    times.append(1e3 * (time.perf_counter() - start))
rows = slice(0, 512)
exact = numpy.asarray(a, dtype="float64")[rows] @ numpy.asarray(b, dtype="float64")
error = float(numpy.linalg.norm(numpy.asarray(c)[rows] - exact) / numpy.linalg.norm(exact))
print(json.dumps({"name": "jax: a @ b at 4096", "ms": sorted(times)[5], "error": error}), flush=True)
'''

OVERHEAD = '''
import ctypes, json, os, statistics, sys, time
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
                ("flags", ctypes.c_uint32), ("kernel", ctypes.c_int32), ("error", ctypes.c_double)]
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
'''

HPL = Path(__file__).with_name("hpl.py").read_text()

PROGRAMS = {"torch": TORCH, "lu": LU, "hpl": HPL, "cupy": CUPY, "jax": JAX, "overhead": OVERHEAD}
NEEDS = {"torch": "torch", "lu": "cupy", "hpl": "cupy", "cupy": "cupy", "jax": "jax", "overhead": "torch"}


def installed(module: str) -> bool:
    return not subprocess.run([sys.executable, "-c", f"import importlib.util as u; raise SystemExit(u.find_spec({module!r}) is None)"], check=False).returncode


def told(program: str, arguments: list[str], environment: dict[str, str], where: str) -> list[dict]:
    """What a program printed."""
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, env=environment, check=False)
    print(f"{where}: {time.monotonic() - begun:.1f} s", file=sys.stderr, flush=True)
    if done.returncode:
        print(f"{where} fails with {done.returncode}:\n{done.stderr[-2000:]}", file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-audit", action="store_true", help="preload alone")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    built = shim.build(options.library)
    found: dict[str, dict] = {}
    logs: dict[str, dropped.Logged] = {}
    base = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.programs.split(","):
            if not installed(NEEDS[name]):
                print(f"{name}: {NEEDS[name]} is not installed", file=sys.stderr)
                continue
            log = Path(folder) / f"{name}.jsonl"
            # To compare with the vendor's function it has to be found in the vendor's library.
            settings = dropped.Settings(log=log, audit=name != "overhead" and not options.no_audit)
            with_shim = dropped.environment(built, settings, base)
            for turn in range(1 if name == "overhead" else options.rounds):
                given = ["judge" if not turn else "time", built.name]
                for side, environment in (("without", base), ("with", with_shim)):
                    if name == "overhead" and side == "without":
                        continue
                    for one in told(PROGRAMS[name], given, environment, f"{name} {side}"):
                        row = found.setdefault(one.pop("name"), {"program": name})
                        for key, value in one.items():
                            if value is not None:
                                row.setdefault(f"{key} {side}", []).append(value)
            logs[name] = dropped.read_log(log)
    print(f"{'program':<46} {'ms without':>10} {'ms with':>9} {'ratio':>6}  {'error without':>13} {'error with':>11} {'GEMMs taken':>13}")
    for name, row in found.items():
        if "us with" in row:
            print(f"{name:<50} {row['us with'][0]:.2f} us, {row['beside with'][0]:.2f} us: {row['us with'][0] - row['beside with'][0]:+.2f} us")
            continue
        before, after = (statistics.median(row.get(f"ms {side}", [float("nan")])) for side in ("without", "with"))
        errors = [row.get(f"error {side}", [float("nan")])[0] for side in ("without", "with")]
        logged = logs[row["program"]]
        print(f"{name:<46} {before:>10.2f} {after:>9.2f} {before / after:>6.2f}  {errors[0]:>13.3g} {errors[1]:>11.3g}"
              f" {f'{logged.taken}/{logged.taken + logged.passed}':>13}")
    for name, logged in logs.items():
        print(f"\n{name}: taken {logged.taken} of {logged.taken + logged.passed} calls; {logged.kernels}; passed on: {logged.reasons}")
        for line in sorted((line for line in logged.lines if not line["taken"]), key=lambda line: -line["count"] * line["m"] * line["n"] * line["k"])[:8]:
            print(f"    {line['routine']} {line['m']}x{line['n']}x{line['k']} {line['layout']} batch {line['batch']}, {line['count']} times: {line['reason']}"
                  f" {line.get('detail', '')} {line.get('seconds', '')} {line.get('sgemm_seconds', '')}")
    if options.json:
        options.json.write_text(json.dumps({"programs": found, "logs": {name: logged.as_dict() for name, logged in logs.items()}}, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
