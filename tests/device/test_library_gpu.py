"""A library of kernels on a real GPU: numbers against FP64, packed operands, batches, scalars of the device, graphs, threads."""

from __future__ import annotations

import ctypes
import json
import math
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from gemmgen import library
from gemmgen.library.file import library_from
from gemmgen.library.made import made
from gemmgen.library.structures import Choice, Packed, Problem, Status, sized
from standin import GCC
from test_gpu import local_gpu

pytestmark = [pytest.mark.device, pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")]

BENCH = Path(__file__).parents[2] / "bench"
LAYOUTS = ("nn", "nt", "tn", "tt")
NONE = (None, ctypes.c_size_t(0))


class Library:
    """A library's folder, built by gcc and loaded."""

    def __init__(self, folder: Path):
        sys.path.insert(0, str(BENCH))
        from library import built

        self.folder = folder
        self.c = built(folder, folder)
        self.manifest = json.loads((folder / "manifest.json").read_text())
        for name in ("error_string", "kernel_name"):
            getattr(self.c, f"lab_{name}").restype = ctypes.c_char_p

    def __call__(self, name: str, *args) -> None:
        code = getattr(self.c, f"lab_{name}")(*args)
        assert code == 0, (name, code, self.c.lab_error_string(code))

    def choice(self, of: Problem) -> Choice:
        found = sized(Choice)
        self("select", ctypes.byref(of), None, ctypes.byref(found))
        return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Library:
    folder = tmp_path_factory.mktemp("library") / "lab"
    data = {"name": "lab", "gpus": [local_gpu()], "layouts": list(LAYOUTS), "kernels_at_most": 8, "packed": True, "use": [{"scheme": "scaled"}],
            "sizes": [(256, 256, 256), (1024, 1024, 1024), (4096, 4096, 4096), (64, 4096, 4096)]}
    library.write(made(library_from(data)), folder)
    return Library(folder)


class Call:
    """A product on the GPU: operands, its problem, what it should give in FP64."""

    def __init__(self, lab: Library, m: int, n: int, k: int, *, order=0, transpose=(0, 0), alpha=1.0, beta=0.0, batch=0, epilogue=0, bias=False,
                 on_device=False, seed=0, extra=3):
        import cupy

        rng = np.random.default_rng(seed)
        count = max(1, batch)
        self.lab, self.order, self.cupy = lab, order, cupy
        self.a, self.b, self.before = (rng.standard_normal((count, *shape)).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        self.stored = []
        for x, turned in ((self.a, transpose[0]), (self.b, transpose[1]), (self.before, 0)):
            x = x.transpose(0, 2, 1) if turned != order else x
            padded = np.full((*x.shape[:2], x.shape[2] + extra), np.nan, np.float32)
            padded[:, :, : x.shape[2]] = x
            self.stored.append(cupy.asarray(padded))
        self.bias = rng.standard_normal(n if order == 0 else m).astype(np.float32) if bias else None
        self.device_bias = cupy.asarray(self.bias) if bias else None
        self.scalars = (cupy if on_device else np).array([alpha, beta], np.float32)
        at = self.scalars.data.ptr if on_device else self.scalars.ctypes.data
        self.alpha, self.beta, self.epilogue, self.extra = alpha, beta, epilogue, extra
        self.problem = sized(
            Problem, order=order, transpose_a=transpose[0], transpose_b=transpose[1], epilogue=epilogue, m=m, n=n, k=k, batch=batch, flags=int(on_device),
            alpha=at, beta=at + 4, bias=self.device_bias.data.ptr if bias else None,
            **{x: s.data.ptr for x, s in zip("abc", self.stored)}, **{f"ld{x}": s.shape[2] for x, s in zip("abc", self.stored)},
            **{f"stride_{x}": s[0].size for x, s in zip("abc", self.stored)},
        )

    def by_pointers(self) -> Call:
        """The same with arrays of pointers in place of strides."""
        self.lists = [self.cupy.array([one.data.ptr for one in s], self.cupy.uint64) for s in self.stored]
        self.problem.flags |= 4
        self.problem.a, self.problem.b, self.problem.c = (one.data.ptr for one in self.lists)
        return self

    def run(self, workspace=None, stream=None) -> None:
        at = (ctypes.c_void_p(workspace.data.ptr), ctypes.c_size_t(workspace.nbytes)) if workspace is not None else NONE
        self.lab("gemm", ctypes.byref(self.problem), *at, ctypes.c_void_p(stream))

    def check(self, times: float = 4e-7) -> None:
        x = self.alpha * np.float64(self.a) @ np.float64(self.b) + self.beta * np.float64(self.before)
        if self.bias is not None:
            x = x + (self.bias if self.order == 0 else self.bias[:, None])
        if self.epilogue == 1:
            x = np.maximum(x, 0)
        elif self.epilogue == 2:
            x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
        elif self.epilogue == 3:
            x = x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2
        stored = self.stored[2].get()
        c = stored[:, :, : stored.shape[2] - self.extra]
        c = c if self.order == 0 else c.transpose(0, 2, 1)
        assert np.linalg.norm(c - x) <= times * np.linalg.norm(x) + 1e-30, np.linalg.norm(c - x) / np.linalg.norm(x)
        assert np.isnan(stored[:, :, stored.shape[2] - self.extra :]).all()


@pytest.mark.parametrize("transpose", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=LAYOUTS)
@pytest.mark.parametrize("order", [0, 1], ids=["row", "column"])
@pytest.mark.parametrize("size", [(1, 1, 1), (129, 65, 33), (777, 1001, 513), (2048, 256, 1024), (64, 4096, 4096)], ids=str)
def test_numbers(lab, transpose, order, size):
    call = Call(lab, *size, order=order, transpose=transpose, alpha=0.5, beta=2.0)
    call.run()
    call.check()


def test_every_kernel_of_the_library_serves_what_it_says(lab):
    """Each forced, at one size; the portable one, which the driver compiles, among them."""
    served = set()
    for transpose in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for number in range(lab.c.lab_kernels()):
            call = Call(lab, 300, 200, 500, transpose=transpose)
            call.problem.kernel = 1 + number
            if lab.c.lab_select(ctypes.byref(call.problem), None, ctypes.byref(sized(Choice))) == 0:
                call.run()
                call.check(1e-6)
                served.add(number)
    assert len(served) == lab.c.lab_kernels()


@pytest.mark.parametrize(("order", "epilogue", "bias", "on_device", "batch"), [
    (0, 1, True, False, 0), (1, 2, True, True, 0), (0, 3, False, True, 3), (1, 1, True, False, 2), (0, 0, False, True, 0),
])
def test_epilogues_batches_and_scalars_of_the_device(lab, order, epilogue, bias, on_device, batch):
    call = Call(lab, 300, 129, 200, order=order, epilogue=epilogue, bias=bias, on_device=on_device, batch=batch, alpha=-0.5, beta=2.0)
    call.run()
    call.check(1e-6)


@pytest.mark.parametrize(("order", "epilogue", "bias", "on_device", "batch"), [
    (0, 0, False, False, 3), (1, 0, False, True, 5), (0, 2, True, True, 3), (1, 1, True, False, 1),
])
def test_batches_of_pointers(lab, order, epilogue, bias, on_device, batch):
    """Which kernels that know of none get copies of."""
    call = Call(lab, 301, 129, 203, order=order, epilogue=epilogue, bias=bias, on_device=on_device, batch=batch, alpha=-0.5, beta=2.0).by_pointers()
    call.run()
    call.check(1e-6)


def test_a_scalar_0_of_the_device_lets_no_nan_through(lab):
    call = Call(lab, 100, 100, 100, on_device=True, alpha=0.0, beta=0.0)
    for one in call.stored[:2]:
        one[...] = call.cupy.nan
    call.stored[2][:, :, : -call.extra] = call.cupy.nan
    call.run()
    assert not call.stored[2][:, :, : -call.extra].any()


@pytest.mark.parametrize(("operand", "order"), [("b", 0), ("a", 0), ("b", 1)])
def test_an_operand_is_packed_once_and_used_with_any_other_extent(lab, operand, order):
    import cupy

    first = Call(lab, 1024, 1024, 777, order=order)
    nbytes = ctypes.c_size_t()
    lab("pack_bytes", ctypes.byref(first.problem), ctypes.c_char(operand.encode()), None, ctypes.byref(nbytes))
    memory, packed = cupy.empty(nbytes.value, cupy.uint8), sized(Packed)
    lab("pack", ctypes.byref(first.problem), ctypes.c_char(operand.encode()), ctypes.c_void_p(memory.data.ptr), nbytes, None, ctypes.byref(packed))
    for other in (1, 64, 333, 2048):
        m, n = (other, 1024) if operand == "b" else (1024, other)
        call = Call(lab, m, n, 777, order=order, seed=other, alpha=0.5, beta=1.0)
        index = "ab".index(operand)
        setattr(call, operand, getattr(first, operand))
        call.stored[index] = first.stored[index]
        setattr(call.problem, operand, first.stored[index].data.ptr)
        lab("gemm_packed", ctypes.byref(call.problem), ctypes.byref(packed), *NONE, None)
        call.check()


@pytest.mark.parametrize("pooled", [False, True], ids=["a workspace", "the pool"])
@pytest.mark.parametrize("by_pointers", [False, True], ids=["by strides", "by pointers"])
def test_calls_are_captured_into_a_graph(lab, pooled, by_pointers):
    import cupy

    lab("prepare")
    call = Call(lab, 500, 600, 700, bias=True, epilogue=1, alpha=2.0, batch=2)
    if by_pointers:
        call.by_pointers()
    call.run()
    workspace = None if pooled else cupy.empty(lab.choice(call.problem).workspace_bytes, cupy.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        call.run(workspace, stream.ptr)
        call.run(workspace, stream.ptr)
        graph = stream.end_capture()
        for _ in range(3):
            call.stored[2][:, :, : -call.extra] = 7.0
            graph.launch()
        stream.synchronize()
    call.check(1e-6)


def test_kernels_are_loaded_while_a_thread_captures(lab, tmp_path):
    """The first call of all may be one that is captured."""
    import cupy

    fresh = Library(lab.folder)
    call = Call(fresh, 300, 300, 300)
    workspace = cupy.empty(lab.choice(call.problem).workspace_bytes, cupy.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        call.run(workspace, stream.ptr)
        graph = stream.end_capture()
        graph.launch()
        stream.synchronize()
    call.check()


def test_eight_threads_each_with_a_stream(lab):
    import cupy

    calls = [Call(lab, 100 + 37 * i, 200, 300, seed=i, alpha=1.0 + i) for i in range(8)]
    cupy.cuda.Device().synchronize()
    errors = []

    def work(call: Call) -> None:
        try:
            cupy.cuda.Device(0).use()
            stream = cupy.cuda.Stream(non_blocking=True)
            for _ in range(50):
                call.run(None, stream.ptr)
            stream.synchronize()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for call in calls:
        call.check()


def test_counters_tell_what_words_could_not_hold(lab):
    import cupy

    call = Call(lab, 64, 64, 64)
    call.stored[0][0, 3, 4] = np.inf
    workspace = cupy.empty(lab.choice(call.problem).workspace_bytes, cupy.uint8)
    call.run(workspace)
    status = Status()
    lab("read_status", ctypes.c_void_p(workspace.data.ptr), None, ctypes.byref(status))
    assert status.a_nonfinite == 1 and status.repaired >= 64


def test_a_device_that_is_not_the_first(lab):
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("NOT RUN: one GPU")
    with cupy.cuda.Device(1):
        call = Call(lab, 300, 200, 100)
        call.run()
        call.check()


def test_a_call_takes_under_two_microseconds_more_than_its_launches(lab):
    done = subprocess.run([sys.executable, str(BENCH / "library.py"), "overhead", str(lab.folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    given = [float(row[-1]) for row in rows if "given" in row]
    assert given and max(given) < 2000, done.stdout
