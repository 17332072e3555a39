"""Programs that know nothing of a library, under its preload library on a GPU: what they compute, and that kernels computed it."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gemmgen.library import dropped, shim

pytestmark = pytest.mark.device("nvidia")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> shim.Built:
    """A library for the GPU at hand, or the one whose folder GEMMGEN_LIBRARY names."""
    if given := os.environ.get("GEMMGEN_LIBRARY"):
        return shim.build(Path(given))
    from gemmgen import road
    from gemmgen.workshop.tune.on_gpu import gpu_here

    place = tmp_path_factory.mktemp("library")
    (place / "lab.toml").write_text(
        f'name = "lab"\ngpus = ["{gpu_here()}"]\nkernels_at_most = 8\nsizes = [[1024, 1024, 1024], [512, 512, 512, 8]]\nshim = ["cublas"]\n'
        '[[use]]\nscheme = "scaled"\n')
    road.library(place / "lab.toml", place / "lab")
    return shim.build(place / "lab")


def run(built: shim.Built, script: str, tmp_path: Path, **how) -> tuple[dict, dropped.Logged]:
    """What a script printed, and its log; every call that a kernel serves is taken."""
    log = tmp_path / "log.jsonl"
    log.unlink(missing_ok=True)
    environment = dropped.environment(built, dropped.Settings(log=log, **({"min_gain": 0} | how)), os.environ)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert not done.returncode, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), dropped.read_log(log)


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not installed")


TORCH = """
import copy, json, threading, torch
torch.manual_seed(0)
n = 1024
def error(found, exact):
    return float((found.double() - exact).norm() / exact.norm())
a, b, c = (torch.randn(n, n, device="cuda") for _ in range(3))
A, B, C = (x.double() for x in (a, b, c))
errors = {
    "mm": error(a @ b, A @ B), "mm t": error(a.T @ b, A.T @ B), "mm nt": error(a @ b.T, A @ B.T),
    "addmm": error(torch.addmm(c, a, b, beta=0.5, alpha=2), 0.5 * C + 2 * A @ B),
    "bmm": error(torch.bmm(a.view(4, 256, n), b.view(4, n, 256)), torch.bmm(A.view(4, 256, n), B.view(4, n, 256))),
}
layer = torch.nn.Linear(n, n).cuda()
wide = copy.deepcopy(layer).double()
for model, x in ((layer, a), (wide, A)):
    model(x).square().mean().backward()
errors["linear"] = error(layer(a), wide(A))
errors["gradient"] = error(layer.weight.grad, wide.weight.grad)
"""


def test_torch_by_kernels(built, tmp_path):
    """Products of all kinds, a layer and its gradient: as near to FP64 as FP32 is, and taken."""
    needs("torch")
    told, logged = run(built, TORCH + "print(json.dumps(errors))", tmp_path)
    assert max(told.values()) < 3e-6, told
    assert logged.taken >= 8, logged.as_dict()
    left = [line for line in logged.lines if not line["taken"]]
    assert left and {line.get("element") for line in left} == {"f64"}, left  # the products that these are judged by, for which the library has no kernels


def test_torch_graphs_keep_their_workspaces(built, tmp_path):
    """Two graphs captured one after the other on one stream, replayed at the same time on two, beside products outside."""
    needs("torch")
    told, logged = run(built, TORCH + """
stream = torch.cuda.Stream()
graphs, outputs = [], []
with torch.cuda.stream(stream):
    a @ b
for left, right in ((a, b), (b, c)):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        outputs.append(left @ right)
    graphs.append(graph)
worst = 0.0
for repeat in range(20):
    for graph, side in zip(graphs, (stream, torch.cuda.Stream())):
        with torch.cuda.stream(side):
            graph.replay()
    other = c @ a
    torch.cuda.synchronize()
    worst = max(worst, error(outputs[0], A @ B), error(outputs[1], B @ C), error(other, C @ A))
del graphs, graph
torch.cuda.synchronize()
again = torch.cuda.CUDAGraph()
with torch.cuda.graph(again, stream=stream):
    third = c @ b
again.replay()
torch.cuda.synchronize()
print(json.dumps({"worst": worst, "third": error(third, C @ B)}))
""", tmp_path)
    assert max(told.values()) < 3e-6 and logged.taken >= 24, (told, logged.as_dict())


def test_threads_with_streams_of_their_own(built, tmp_path):
    needs("torch")
    told, logged = run(built, TORCH + """
worst = [0.0] * 8
def work(index):
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.full((n, n), float(index + 1), device="cuda")
        for repeat in range(30):
            y = x @ b
        torch.cuda.current_stream().synchronize()
        worst[index] = error(y, x.double() @ B)
threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps({"worst": max(worst)}))
""", tmp_path)
    assert told["worst"] < 3e-6 and logged.taken >= 240


def test_tf32_and_half_are_passed_on(built, tmp_path):
    needs("torch")
    _, logged = run(built, """
import torch
a = torch.randn(1024, 1024, device="cuda")
torch.backends.cuda.matmul.allow_tf32 = True
a @ a
a.half() @ a.half()
a.double() @ a.double()
torch.cuda.synchronize()
print("{}")
""", tmp_path)
    assert not logged.taken and logged.passed


def test_cupy_and_counters(built, tmp_path):
    """Each call's counters are read."""
    needs("cupy")
    told, logged = run(built, """
import cupy, json
rng = cupy.random.default_rng(1)
a, b = (rng.random((1024, 1024), dtype=cupy.float32) - 0.5 for _ in range(2))
c = a @ b
exact = a.astype(cupy.float64) @ b.astype(cupy.float64)
print(json.dumps({"error": float(cupy.linalg.norm(c - exact) / cupy.linalg.norm(exact))}))
""", tmp_path, check=True)
    assert told["error"] < 3e-6 and logged.taken >= 1
    assert logged.counters is None or logged.counters["checked"] >= 1


POINTERS = """
import cupy, json
import numpy as np
from cupy.cuda import cublas, device

handle, rng, worst = device.get_cublas_handle(), cupy.random.default_rng(1), {}
cublas.setMathMode(handle, cublas.CUBLAS_DEFAULT_MATH)

def one(ta, tb, m, n, k, batch, alpha, beta, on_device):
    # Column major; matrices begin at any multiple of 4 bytes.
    stored = [(k, m) if ta else (m, k), (n, k) if tb else (k, n), (m, n)]
    lds = [rows + 3 for rows, _ in stored]
    held = [[rng.standard_normal(ld * columns + 4, dtype=cupy.float32)[i % 4 :][: ld * columns] for i in range(batch)] for (_, columns), ld in zip(stored, lds)]
    if beta == 0:
        for x in held[2]:
            x[...] = cupy.nan
    lists = [cupy.array([x.data.ptr for x in part], dtype=cupy.uint64) for part in held]
    wide = [[x.reshape(columns, ld)[:, :rows].T.astype(cupy.float64) for x in part] for part, (rows, columns), ld in zip(held, stored, lds)]
    want = [alpha * (a.T if ta else a) @ (b.T if tb else b) + (beta * c if beta else 0) for a, b, c in zip(*wide)]
    told = np.array([alpha, beta], np.float32)
    scalars = cupy.asarray(told) if on_device else told
    at = scalars.data.ptr if on_device else scalars.ctypes.data
    cublas.setPointerMode(handle, int(on_device))
    cublas.sgemmBatched(handle, ta, tb, m, n, k, at, lists[0].data.ptr, lds[0], lists[1].data.ptr, lds[1], at + 4, lists[2].data.ptr, lds[2], batch)
    cublas.setPointerMode(handle, 0)
    found = [x.reshape(n, lds[2])[:, :m].T for x in held[2]]
    return max(float(cupy.linalg.norm(x - y) / cupy.linalg.norm(y)) for x, y in zip(found, want))

for ta in (0, 1):
    for tb in (0, 1):
        for m, n, k, batch in ((512, 512, 512, 8), (515, 301, 1001, 5), (70, 45, 50, 3), (1024, 768, 640, 1)):
            for alpha, beta, on_device in ((1.0, 0.0, False), (-0.5, 2.0, False), (1.5, 1.0, True), (0.5, 0.0, True)):
                worst[f"{ta}{tb} {m} {on_device}"] = max(worst.get(f"{ta}{tb} {m} {on_device}", 0), one(ta, tb, m, n, k, batch, alpha, beta, on_device))
print(json.dumps(worst))
"""


def test_batches_of_pointers(built, tmp_path):
    """cublasSgemmBatched of every layout, alignment and place of the scalars, as near to FP64 as FP32 is."""
    needs("cupy")
    told, logged = run(built, POINTERS, tmp_path)
    assert max(told.values()) < 3e-6, told
    taken = sum(line["count"] for line in logged.lines if line["taken"] and line["routine"] == "cublasSgemmBatched")
    assert taken == 64, logged.as_dict()


def test_batches_of_pointers_touch_no_memory_but_their_own(built, tmp_path):
    """Under compute-sanitizer, which looks at every access."""
    needs("cupy")
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("compute-sanitizer is not installed")
    script = POINTERS.replace("(512, 512, 512, 8), (515, 301, 1001, 5), ", "").replace("(1024, 768, 640, 1)", "(130, 257, 129, 2)")
    program = tmp_path / "program.py"
    program.write_text(f"import cupy\ncupy.cuda.set_allocator(None)\n{script}")  # each array has an allocation of its own
    log = tmp_path / "log.jsonl"
    environment = dropped.environment(built, dropped.Settings(log=log, min_gain=0), os.environ)
    done = subprocess.run(["compute-sanitizer", "--tool", "memcheck", "--error-exitcode", "99", sys.executable, str(program)], capture_output=True, text=True,
                          env=environment, check=False)
    assert not done.returncode and "ERROR SUMMARY: 0 errors" in done.stdout, done.stdout[-3000:] + done.stderr[-3000:]
    assert dropped.read_log(log).taken == 32


def test_jax(built, tmp_path):
    needs("jax")
    told, logged = run(built, """
import jax, json, numpy
jax.config.update("jax_default_matmul_precision", "highest")
a, b = (jax.random.normal(jax.random.PRNGKey(i), (1024, 1024)) for i in range(2))
c = numpy.asarray(jax.jit(lambda a, b: a @ b)(a, b))
exact = numpy.asarray(a, dtype="float64") @ numpy.asarray(b, dtype="float64")
print(json.dumps({"error": float(numpy.linalg.norm(c - exact) / numpy.linalg.norm(exact))}))
""", tmp_path)
    assert told["error"] < 3e-6 and logged.taken + logged.passed


def test_declarations_agree_with_the_vendors_headers(tmp_path):
    """The values that the preload library names, where the toolkit's headers are."""
    headers = next((place for place in (Path("/usr/local/cuda/include"),) if (place / "cublasLt.h").exists()), None)
    if headers is None:
        pytest.skip("there are no headers of cuBLAS")
    values = {
        "CUBLAS_STATUS_NOT_INITIALIZED": 1, "CUBLAS_STATUS_EXECUTION_FAILED": 13, "CUBLAS_OP_T": 1, "CUBLAS_OP_C": 2, "CUBLAS_POINTER_MODE_DEVICE": 1,
        "CUBLAS_DEFAULT_MATH": 0, "CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION": 16, "CUDA_R_32F": 0, "CUBLAS_COMPUTE_32F": 68,
        "CUBLAS_GEMM_DEFAULT": -1, "CUBLAS_GEMM_DEFAULT_TENSOR_OP": 99, "CUBLASLT_MATMUL_DESC_POINTER_MODE": 2, "CUBLASLT_MATMUL_DESC_TRANSB": 4,
        "CUBLASLT_MATMUL_DESC_EPILOGUE": 7, "CUBLASLT_MATMUL_DESC_BIAS_POINTER": 8, "CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE": 10,
        "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE": 26, "CUBLASLT_MATRIX_LAYOUT_LD": 4, "CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET": 6,
        "CUBLASLT_ORDER_ROW": 1, "CUBLASLT_EPILOGUE_DEFAULT": 1, "CUBLASLT_EPILOGUE_RELU_BIAS": 6, "CUBLASLT_EPILOGUE_BIAS": 4,
        "CUBLASLT_EPILOGUE_GELU": 32, "CUBLASLT_EPILOGUE_GELU_BIAS": 36, "CUBLASLT_POINTER_MODE_DEVICE": 1,
    }
    source = tmp_path / "agree.c"
    asserted = "".join(f'_Static_assert({name} == {value}, "{name}");\n' for name, value in values.items())
    source.write_text(f"#include <cublas_v2.h>\n#include <cublasLt.h>\n{asserted}")
    done = subprocess.run(["gcc", f"-I{headers}", "-c", str(source), "-o", str(tmp_path / "agree.o")], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
