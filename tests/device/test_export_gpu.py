"""Exported folders on a real GPU: the example, the C functions, and the cubin by its manifest."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import foreign
from gemmgen.abi import COUNTERS
from gemmgen.build import build
from gemmgen.catalog.fragment import shapes
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.export import export
from gemmgen.render import render
from gemmgen.run import cuda, gemm
from gemmgen.solve import solve
from gemmgen.spec import loads
from test_gpu import local_gpu
from ways import FP32_SCHEMES

pytestmark = pytest.mark.device
FIELDS = [field for fields in COUNTERS.values() for field in fields]


@cache
def prepared(scheme: str, layout: str, special: str = "exact", policy: str = "auto", where: str = "auto", cluster: int = 1):
    tile = {"cluster": cluster, "split_k": 2} if cluster > 1 else {}
    plan = solve(loads({
        "problem": {"layout": layout, "b": SCHEMES.get(scheme).b or "f32"}, "split": {"scheme": scheme, "special": special, "where": where},
        "fragment": {"policy": policy}, "tile": tile, "target": {"gpu": local_gpu()},
    }))
    source = render(plan)
    return plan, source, build(source)


def nvcc(*arguments: object, cwd: Path) -> None:
    compiler = shutil.which("nvcc")
    if not compiler:
        pytest.skip("NOT RUN: no nvcc on PATH to build the exported launcher with")
    done = subprocess.run([compiler, *map(str, arguments)], cwd=cwd, capture_output=True, text=True)
    assert not done.returncode, done.stderr


def compiled_for(plan) -> list[str]:
    """What the export's README says to nvcc."""
    return ["-std=c++17", "-gencode", f"arch=compute_{plan.arch[3:]},code={plan.arch}"]


def assert_example_passes(kernel, checks: int, folder: Path, told: str = "") -> None:
    """The example of an export of a plan, its source and binary: so many checks, and what it prints besides."""
    export(*kernel, folder, name="lab_gemm")
    nvcc(*compiled_for(kernel[0]), "lab_gemm.cu", "example.cpp", "-o", "example", cwd=folder)
    done = subprocess.run([folder / "example"], capture_output=True, text=True)
    print(done.stdout)
    assert not done.returncode and done.stdout.count("ok ") == checks and told in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize(("scheme", "layout"), zip((row.name for row in FP32_SCHEMES), ["nn", "nt", "tn", "tt"] * 10))
def test_the_example_passes(scheme, layout, tmp_path):
    assert_example_passes(prepared(scheme, layout, "fast" if layout == "nt" else "exact"), 6, tmp_path / "out")


@pytest.mark.parametrize("problem", [
    {"kind": "syr2k", "layout": "nt"}, {"kind": "gemmt", "uplo": "upper"}, {"kind": "trmm", "uplo": "upper", "layout": "tn"},
    {"kind": "symm", "side": "right"}, {"kind": "trsm"}, {"kind": "trsm", "side": "right", "layout": "nt", "diag": "unit"},
], ids=lambda problem: " ".join(problem.values()))
def test_the_example_of_a_kind_passes(problem, tmp_path):
    plan = solve(loads({"problem": {**dict.fromkeys("mnk", 1024), **problem}, "split": {"scheme": "scaled"}, "target": {"gpu": local_gpu()}}))
    source = render(plan)
    assert_example_passes((plan, source, build(source)), 5 if problem["kind"] == "trsm" else 6, tmp_path / "out")


class Library:
    """An exported folder built as a shared library, called as C."""

    def __init__(self, folder: Path, plan, source, binary):
        export(plan, source, binary, folder, name="lab_gemm")
        nvcc(*compiled_for(plan), "-shared", "-Xcompiler=-fPIC", "lab_gemm.cu", "-o", "lib.so", cwd=folder)
        library = ctypes.CDLL(str(folder / "lib.so"))
        i, f, p, l, z = ctypes.c_int, ctypes.c_float, ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
        self.workspace_bytes, self.call = library.lab_gemm_workspace_bytes, library.lab_gemm
        self.read_status, self.error_string = library.lab_gemm_read_status, library.lab_gemm_error_string
        self.workspace_bytes.argtypes, self.workspace_bytes.restype = (i, i, i), z
        self.again = getattr(library, "lab_gemm_same_b", None)
        for function in filter(None, (self.call, self.again)):
            function.argtypes = (i, i, i, f, p, l, p, l, f, p, l, p, z, p)
        self.read_status.argtypes = (p, p, p)
        self.error_string.argtypes, self.error_string.restype = (i,), ctypes.c_char_p
        self.plan, self.source, self.binary = plan, source, binary
        self.stored = json.loads((folder / "manifest.json").read_text())

    def product(self, a, b, c, alpha=1.0, beta=0.0, *, read=True, repeat=1, then=None):
        """C and the counters, through the C functions, on a stream of its own and a dirty workspace.

        With `then`, another A, C is that of a second call that splits no B.
        """
        import cupy

        (m, k), n = a.shape, b.shape[1]
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            held = {}
            for name, x in (("a", a), ("b", b), ("c", c)):
                array, ld = foreign.stored(self.stored, name, x, 3)
                held[name] = (cupy.asarray(array), max(ld, 1))
            nbytes = self.workspace_bytes(m, n, k)
            workspace = cupy.full(nbytes, 0xFF, cupy.uint8)
            (da, lda), (db, ldb), (dc, ldc) = held.values()
            pointers = (da.data.ptr, db.data.ptr) if read else (None, None)
            for _ in range(repeat):
                code = self.call(m, n, k, alpha, pointers[0], lda, pointers[1], ldb, beta, dc.data.ptr, ldc,
                                 workspace.data.ptr, nbytes, stream.ptr)
                assert code == 0, self.error_string(code)
            if then is not None:
                da.set(foreign.stored(self.stored, "a", then, 3)[0])
                db.fill(cupy.nan)
                code = self.again(m, n, k, alpha, da.data.ptr, lda, db.data.ptr, ldb, beta, dc.data.ptr, ldc,
                                  workspace.data.ptr, nbytes, stream.ptr)
                assert code == 0, self.error_string(code)
            counted = np.zeros(len(FIELDS), np.uint64)
            assert self.read_status(workspace.data.ptr, stream.ptr, counted.ctypes.data) == 0
            out = cupy.asnumpy(dc)
        assert np.isnan(out[:, n:]).all()
        return out[:, :n], dict(zip(FIELDS, map(int, counted)))


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return Library(tmp_path_factory.mktemp("library") / "out", *prepared("ootomo", "nt"))


@pytest.fixture(scope="module")
def scaled(tmp_path_factory):
    return Library(tmp_path_factory.mktemp("scaled") / "out", *prepared("scaled", "tn"))


@pytest.fixture(scope="module")
def clusters(tmp_path_factory):
    """A warp-specialised kernel with clusters and slices of k, whose launch overlaps the split pass."""
    if not any(row.runs_on(GPUS.get(local_gpu()).arch) for row in shapes("nvidia", "f16", "wgmma").values()):
        pytest.skip("this GPU has no wgmma")
    return Library(tmp_path_factory.mktemp("clusters") / "out", *prepared("ootomo", "nt", policy="wgmma", where="mixed", cluster=2))


def matrices(m, n, k, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))]


@pytest.mark.parametrize("made", ["library", "clusters"])
def test_b_need_not_be_split_again(made, request):
    library = request.getfixturevalue(made)
    a, b, c = matrices(203, 131, 300)
    other = matrices(203, 131, 300, seed=1)[0]
    got, _ = library.product(a, b, c, then=other)
    want, _ = ours(library, other, b, c, 1.0, 0.0)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def ours(library: Library, a, b, c, alpha, beta):
    device = cuda.CudaDevice(library.binary)
    result = gemm(device, library.plan, library.source, a, b, c, alpha=alpha, beta=beta)
    return result.c, result.status


@pytest.mark.parametrize("which", ["library", "scaled", "clusters"])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-0.5, 2.0)])
@pytest.mark.parametrize("size", [(1, 1, 1), (129, 65, 33), (500, 300, 1031), (5, 7, 0), (0, 5, 7), (5, 0, 7), (1, 4099, 17)])
def test_the_c_function_gives_gemmgens_bits(which, alpha, beta, size, request):
    """nvcc and NVRTC are two builds of one source: sums are the same, bit for bit."""
    library = request.getfixturevalue(which)
    a, b, c = matrices(*size)
    got, status = library.product(a, b, c, alpha, beta, repeat=2)
    if beta:  # the second call adds to the first one's result
        first, _ = ours(library, a, b, c, alpha, beta)
        want, counted = ours(library, a, b, first, alpha, beta)
    else:
        want, counted = ours(library, a, b, c, alpha, beta)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
    assert status == counted  # of the last call, not of both


@pytest.mark.parametrize("which", ["library", "scaled", "clusters"])
def test_alpha_zero_reads_no_operand(which, request):
    library = request.getfixturevalue(which)
    a, b, c = matrices(130, 70, 90)
    got, status = library.product(a, b, c, 0.0, 3.0, read=False)
    assert np.array_equal(got, np.float32(3) * c) and not any(status.values())
    got, _ = library.product(a, b, np.full_like(c, np.nan), 0.0, 0.0, read=False)
    assert not got.any()


def test_the_caller_sees_what_the_words_could_not_hold(library):
    a, b, c = matrices(70, 50, 60)
    _, status = library.product(a, b, c)
    assert status["a_overflow"] == status["b_nonfinite"] == status["repaired"] == 0
    a[3, 4], a[5, 6], b[7, 8], b[1, 2] = 1e6, -7e4, np.inf, 1e-20
    got, status = library.product(a, b, c)
    assert (status["a_overflow"], status["a_nonfinite"], status["b_overflow"], status["b_nonfinite"]) == (2, 0, 0, 1)
    assert status["b_lossy"] >= 1 and status["repaired"] >= 2 * 50 + 70 - 2
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    finite = np.isfinite(want)
    assert np.array_equal(finite, np.isfinite(got)) and (np.abs(got - want)[finite] <= 1e-5 * scale[finite]).all()


@pytest.mark.parametrize("which", ["library", "clusters"])
def test_a_call_can_be_captured_into_a_graph(which, request):
    import cupy

    library = request.getfixturevalue(which)
    m, n, k = 200, 100, 300
    a, b, c = matrices(m, n, k)
    da, db = cupy.asarray(a), cupy.asarray(np.ascontiguousarray(b.T))  # layout nt
    dc = cupy.zeros((m, n), cupy.float32)
    nbytes = library.workspace_bytes(m, n, k)
    workspace = cupy.zeros(nbytes, cupy.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        code = library.call(m, n, k, 1.0, da.data.ptr, k, db.data.ptr, k, 0.0, dc.data.ptr, n, workspace.data.ptr, nbytes, stream.ptr)
        graph = stream.end_capture()
        assert code == 0
        stream.synchronize()
        assert not dc.any()  # captured, not run
        graph.launch(stream)
        graph.launch(stream)
        stream.synchronize()
    want, _ = ours(library, a, b, c, 1.0, 0.0)
    assert np.array_equal(cupy.asnumpy(dc), want)


def test_threads_may_call_at_once(library):
    problems = [matrices(300 + 10 * i, 200, 500, i) for i in range(8)]
    want = [ours(library, *problem, 1.0, 0.0)[0] for problem in problems]
    good = [False] * len(problems)

    def work(i):
        good[i] = all(np.array_equal(library.product(*problems[i])[0], want[i]) for _ in range(5))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(problems))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(good)


def test_refusals_reach_the_caller(library):
    assert library.call(8, 9, 10, 1.0, 256, 3, 256, 10, 0.0, 256, 9, 256, 1 << 20, None) == -6
    assert b"lda" in library.error_string(-6)
    assert library.workspace_bytes(-1, 1, 1) == 0
    assert b"invalid" in library.error_string(1)  # CUDA's own text


@pytest.mark.parametrize(("scheme", "layout", "policy"), [("ootomo", "nt", "auto"), ("scaled", "tn", "auto"), ("ootomo", "nt", "mma")])
def test_the_manifest_is_enough_to_launch_the_cubin(scheme, layout, policy, tmp_path):
    plan, source, binary = prepared(scheme, layout, policy=policy)
    export(plan, source, binary, tmp_path / "out", name="lab_gemm")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())

    class Cubin:
        code = (tmp_path / "out" / "lab_gemm.cubin").read_bytes()

    a, b, c = matrices(200, 130, 170)
    a[1, 2] = 1e6
    got, status = foreign.product(manifest, cuda.CudaDevice(Cubin), lambda buffer: buffer.data.ptr, a, b, c, 0.5, 2.0)
    device = cuda.CudaDevice(binary)
    want = gemm(device, plan, source, a, b, c, alpha=0.5, beta=2.0)
    assert np.array_equal(got.view(np.uint32), want.c.view(np.uint32))
    assert status == want.status
