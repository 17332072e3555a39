"""Exported batches on a real GPU: the example of every kind and walk, and the C functions beside gemmgen's own launch."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from gemmgen.abi import COUNTERS
from gemmgen.batch import PROBLEM
from gemmgen.build import build
from gemmgen.export import export
from gemmgen.render import render
from gemmgen.run import cuda
from gemmgen.run.batch import Product, batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from test_export_gpu import assert_example_passes, compiled_for, nvcc
from test_gpu import local_gpu

pytestmark = pytest.mark.device
FIELDS = [field for fields in COUNTERS.values() for field in fields]


@cache
def prepared(kind: str, walk: str, scheme: str, layout: str = "nn"):
    plan = solve(loads({
        "problem": {"kind": kind, "layout": layout, "m": 264, "n": 264, "k": 264, "matrices": 64}, "split": {"scheme": scheme}, "batch": {"walk": walk},
        "pipeline": {"design": "grouped"}, "target": {"gpu": local_gpu()},
    }))
    source = render(plan)
    return plan, source, build(source)


@pytest.mark.parametrize(("kind", "walk", "scheme", "layout"), [
    ("grouped", "persistent", "ootomo", "nn"), ("grouped", "workgroups", "fp32", "tn"), ("strided", "persistent", "fp32", "nt"),
    ("strided", "workgroups", "ootomo", "nn"), ("pointers", "persistent", "ootomo", "tt"), ("pointers", "workgroups", "fp32", "nn"),
])
def test_the_example_passes(kind, walk, scheme, layout, tmp_path):
    assert_example_passes(prepared(kind, walk, scheme, layout), 6 if kind == "grouped" else 5, tmp_path / "out", "microseconds a batch")


class Library:
    """An exported grouped batch as a shared library."""

    def __init__(self, walk: str, folder):
        self.plan, self.source, self.binary = prepared("grouped", walk, "ootomo")
        export(self.plan, self.source, self.binary, folder, name="lab_gemm")
        nvcc(*compiled_for(self.plan), "-shared", "-Xcompiler=-fPIC", "lab_gemm.cu", "-o", "lib.so", cwd=folder)
        self.library = ctypes.CDLL(str(folder / "lib.so"))
        self.library.lab_gemm_workspace_bytes.restype = ctypes.c_size_t
        self.bytes = self.library.lab_gemm_workspace_bytes()

    def enqueue(self, problems, device_problems, workspace, stream) -> None:
        """One launch; where it needs a list, that is made before and kept."""
        place, wide, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
        given = [place(device_problems.data.ptr), len(problems)]
        if self.plan.batch.walk == "workgroups":
            given += [place(self.list.data.ptr), wide(len(self.list))]
        function = self.library.lab_gemm if self.plan.batch.walk == "persistent" else self.library.lab_gemm_listed
        assert function(*given, place(workspace.data.ptr), size(self.bytes), place(stream.ptr)) == 0

    def make_list(self, problems) -> None:
        import cupy

        count, wide, place = ctypes.c_int64(), ctypes.c_int64, ctypes.c_void_p(problems.ctypes.data)
        assert self.library.lab_gemm_tiles(place, len(problems), None, wide(0), ctypes.byref(count)) == 0
        rows = np.zeros((count.value, 4), np.int32)
        assert self.library.lab_gemm_tiles(place, len(problems), ctypes.c_void_p(rows.ctypes.data), count, ctypes.byref(count)) == 0
        self.list = cupy.asarray(rows)


@pytest.mark.parametrize("walk", ["persistent", "workgroups"])
def test_the_c_function_gives_gemmgens_bits_and_can_be_captured(walk, tmp_path):
    """Twice into one workspace, then twice more as a graph: the counters go on, the queue is as it was."""
    import cupy

    library, rng = Library(walk, tmp_path / "out"), np.random.default_rng(3)
    sizes = [*map(tuple, rng.integers(1, 200, (300, 3))), (0, 5, 5), (5, 0, 5), (5, 5, 0)]
    products = [Product(*(rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n))), 1.5, 0.0) for m, n, k in sizes]
    products[7].a[0, 0] = 1e6
    wanted = batch(cuda.CudaDevice(library.binary), library.plan, library.source, products)
    held = [[cupy.asarray(np.append(x, np.float32(0))) for x in (one.a, one.b, one.c)] for one in products]
    problems = np.zeros(len(products), PROBLEM)
    for at, ((m, n, k), arrays) in enumerate(zip(sizes, held)):
        problems[at] = (*(x.data.ptr for x in arrays), max(k, 1), max(n, 1), max(n, 1), m, n, k, 1.5, 0.0, (0, 0))
    device_problems, workspace = cupy.asarray(problems.view(np.uint8)), cupy.full(library.bytes, 0xFF, cupy.uint8)
    library.make_list(problems)
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    place = ctypes.c_void_p(workspace.data.ptr)
    assert library.library.lab_gemm_prepare(place, ctypes.c_size_t(library.bytes), ctypes.c_void_p(stream.ptr)) == 0

    def counted() -> dict[str, int]:
        found = np.zeros(len(FIELDS), np.uint64)
        assert library.library.lab_gemm_read_status(place, ctypes.c_void_p(stream.ptr), ctypes.c_void_p(found.ctypes.data)) == 0
        return dict(zip(FIELDS, map(int, found)))

    def right() -> bool:
        stream.synchronize()
        out = [cupy.asnumpy(arrays[2]) for arrays in held]
        for arrays in held:
            arrays[2].fill(np.float32(np.nan))
        cupy.cuda.Device().synchronize()
        return all(np.array_equal(x[:-1].view(np.uint32), want.ravel().view(np.uint32)) for x, want in zip(out, wanted.products))

    for times in (1, 2):
        library.enqueue(problems, device_problems, workspace, stream)
        assert right() and counted() == {name: times * value for name, value in wanted.status.items()}
    assert wanted.status["a_overflow"] == 1
    with stream:
        stream.begin_capture()
        library.enqueue(problems, device_problems, workspace, stream)
        graph = stream.end_capture()
        for times in (3, 4):
            graph.launch(stream)
            assert right() and counted() == {name: times * value for name, value in wanted.status.items()}
