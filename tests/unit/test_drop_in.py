"""The preload library beside stand-ins: what is taken and passed on, workspaces, graphs, the log, and programs of every kind."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import dropped_in
import numpy as np
import pytest
from dropped_in import run, run_python
from programs import need
from programs import run as run_tool

from gemmgen.errors import GemmgenError
from gemmgen.library import dropped, shim
from gemmgen.workshop.tune.transformed import transformed

pytestmark = pytest.mark.slow

EVERY = """
blas, default = load(), ctypes.CDLL(None)
real = ctypes.CDLL("libcublas.so.13")
TYPES = [(F32, COMPUTE_32F), (F64, COMPUTE_64F), (C64, COMPUTE_32F), (C128, COMPUTE_64F)]
in_both = [(name, types) for name in GEMMS for types in (TYPES if name.startswith("cublasGemm") else [TYPES[element_of(name)]])]
for name, (kind, compute) in in_both:
    pairs = kind in (C64, C128)
    for ta, tb, beta in ((N, 2, 0.5j), (2, T, 1j - 1.0)) if pairs else ((N, N, 0.5), (T, N, 0.0), (N, 2, 1.0), (T, T, -1.0)):
        found = []
        for library, off in ((default, 0), (real, 1)):
            handle = create(default, stream=0x100, pointer_mode=MODE)
            given, c, kept = arguments(name, handle, ta=ta, tb=tb, alpha=2.0 + 1j * pairs, beta=beta, types=(kind,) * 3, compute=compute)
            before = kernels(), vendor(blas, name)
            status = typed(library, name)(*given)
            found.append((status, kernels() - before[0], vendor(blas, name) - before[1], list(c)))
        tell(**{f"{name} {ta}{tb} {kind}": [*found[0][:3], *found[1][:3], max(abs(x - y) for x, y in zip(found[0][3], found[1][3]))]})
"""


@pytest.mark.parametrize("mode", [0, 1])
def test_every_function_is_taken_or_passed_on_with_the_same_result(mode):
    """By the order of symbols, with scalars on the host and on the device; batches by strides and by arrays of pointers."""
    ran = run_python(EVERY.replace("MODE", str(mode)))
    assert len(ran.told) == 4 * (20 + 6) + 2 * (24 + 2 * 6)
    for name, (status, taken, passed, real_status, real_taken, real_passed, apart) in ran.told.items():
        assert (status, taken, passed) == (0, 1, 0), name
        assert (real_status, real_taken, real_passed) == (0, 0, 1) and apart < 1e-5, name
    kinds = {line["alpha"] for line in ran.log if line["taken"]}
    assert kinds == ({"device"} if mode else {"other"})
    assert {line["layout"] for line in ran.log if line.get("element") not in ("c64", "c128")} == {"nn", "tn", "nt", "tt"}
    assert {line["layout"] for line in ran.log if line.get("element") in ("c64", "c128")} == {"nc", "ct"}
    assert {line["routine"] for line in ran.log if line.get("element") == "c128"} == {
        name + suffix for name in ("cublasZgemm_v2", "cublasZgemmStridedBatched", "cublasZgemmBatched", "cublasZgemm3m", "cublasGemmEx",
                                   "cublasGemmStridedBatchedEx", "cublasGemmBatchedEx") for suffix in ("", "_64")}
    assert {line["routine"] for line in ran.log if line.get("element") == "f64"} == {
        name + suffix for name in ("cublasDgemm_v2", "cublasDgemmStridedBatched", "cublasDgemmBatched", "cublasGemmEx", "cublasGemmStridedBatchedEx",
                                   "cublasGemmBatchedEx") for suffix in ("", "_64")}


PASSED = """
blas, default = load(), ctypes.CDLL(None)
gpu = driver()

def one(told, name, handle, change=None, **how):
    given, c, kept = arguments(name, handle, **how)
    if change:
        change(given)
    before = kernels(), vendor(blas, name)
    status = typed(default, name)(*given)
    tell(**{told: [status, kernels() - before[0], vendor(blas, name) - before[1]]})

h = create(default, stream=0x100)
sgemm, ex = "cublasSgemm_v2", "cublasGemmEx"
for math in (0, 16):
    one(f"math {math}", sgemm, create(default, math=math))
for math in (1, 2, 3, 4, 18):
    one(f"math {math}", sgemm, create(default, math=math))
for math in (0, 1, 3, 19):
    one(f"wide math {math}", "cublasDgemm_v2", create(default, math=math))
for math in (2, 4, 8):
    one(f"wide math {math}", "cublasDgemm_v2", create(default, math=math))
one("wide", ex, h, types=(F64,) * 3, compute=COMPUTE_64F)
for compute in (COMPUTE_32F, 71):
    one(f"wide compute {compute}", ex, h, types=(F64,) * 3, compute=compute)
one("wide A", ex, h, types=(F64, F32, F32), compute=COMPUTE_64F)
one("wide C", ex, h, types=(F32, F32, F64))
one("wide in SgemmEx", "cublasSgemmEx", h, types=(F64,) * 3)
one("pairs", ex, h, types=(C64,) * 3)
one("wide pairs", ex, h, types=(C128,) * 3, compute=COMPUTE_64F)
for compute in (77, 70):
    one(f"pairs by {compute}", ex, h, types=(C64,) * 3, compute=compute)
one("wide pairs by 68", ex, h, types=(C128,) * 3)
for types in ((C64, C64, C128), (C64, F32, C64), (F32, C64, C64)):
    one(f"pairs beside {types}", ex, h, types=types)
one("reals in CgemmEx", "cublasCgemmEx", h)
one("wide pairs in CgemmEx", "cublasCgemm3mEx", h, types=(C128,) * 3)
for math in (0, 3):
    one(f"math {math} of pairs", "cublasCgemm3m", create(default, math=math))
    one(f"math {math} of wide pairs", "cublasZgemm3m", create(default, math=math))
one("half", ex, h, types=(F16, F16, F16))
one("half result", ex, h, types=(F32, F32, F16))
one("half A", ex, h, types=(F16, F32, F32))
one("half B", ex, h, types=(F32, F16, F32))
one("half in SgemmEx", "cublasSgemmEx", h, types=(F16, F16, F32))
one("half B in SgemmEx", "cublasSgemmEx", h, types=(F32, F16, F32))
for compute in (64, 69, 74, 75, 77, 78):
    one(f"compute {compute}", ex, h, compute=compute)
one("compute in a batch", "cublasGemmStridedBatchedEx_64", h, compute=77)
one("tensor op", ex, h, algo=99)
one("algorithm", ex, h, algo=7)
one("conjugate", sgemm, h, ta=3)
one("conjugate of B", sgemm, h, tb=3)
one("vectors of alpha", sgemm, create(default, pointer_mode=2))
one("no rows", sgemm, h, m=0)
one("no columns", sgemm, h, n=0)
one("no sums", sgemm, h, k=0)
one("no products", "cublasSgemmStridedBatched", h, batch=0)
one("few sums", sgemm, h, k=3)
one("bad lda", sgemm, h, lambda given: given.__setitem__(8, 2))
one("negative m", sgemm, h, lambda given: given.__setitem__(3, -1))
one("a stranger's handle", sgemm, ctypes.addressof(ctypes.create_string_buffer(64)))
one("other device", sgemm, create(default, stream=0x9000))
for stream in (0, 1, 2):
    one(f"stream {stream}", sgemm, create(default, stream=stream))
one("stream 3", sgemm, create(default, stream=3))
gpu.stand_in_context(0)
one("no device", sgemm, h)
gpu.stand_in_context(0xc0)
one("again", sgemm, h)
"""


def test_what_does_not_ask_for_fp32_is_passed_on():
    """Each with its reason; arguments that are wrong get the vendor's answer."""
    ran = run_python(PASSED)
    taken = {name for name, told in ran.told.items() if told[1]}
    assert taken == {"math 0", "math 16", "tensor op", "again", "stream 0", "stream 1", "stream 2", "wide", "pairs", "wide pairs", "math 0 of pairs",
                     "math 0 of wide pairs", "math 3 of wide pairs", *(f"wide math {math}" for math in (0, 1, 3, 19))}
    for name, (status, own, vendors) in ran.told.items():
        assert own + vendors == 1, name
        wrong = {"bad lda": 0, "negative m": 7, "a stranger's handle": 1}
        assert status == wrong.get(name, 0), name
    counts = ran.counts
    sgemm, ex = "cublasSgemm_v2", "cublasGemmEx"
    words = shim.REASONS
    assert counts[f"{sgemm}: {words['MATH_MODE']}"] == 5
    assert counts[f"{ex}: {words['TYPES']}"] == 9 and counts[f"cublasSgemmEx: {words['TYPES']}"] == 3
    assert counts[f"{ex}: {words['COMPUTE']}"] == 11 and counts[f"cublasGemmStridedBatchedEx_64: {words['COMPUTE']}"] == 1
    assert counts[f"{ex}: {words['ALGORITHM']}"] == 1 and counts[f"{sgemm}: {words['OPERATION']}"] == 2 and counts[f"{sgemm}: {words['POINTER_MODE']}"] == 1
    assert counts[f"{sgemm}: {words['EMPTY']}"] == 3 and counts[f"cublasSgemmStridedBatched: {words['EMPTY']}"] == 1
    assert counts[f"{sgemm}: {words['FALLBACK']}"] == 1 and counts[f"{sgemm}: {words['REFUSED']}"] == 2
    assert counts[f"{sgemm}: {words['HANDLE']}"] == 1
    assert counts[f"{sgemm}: {words['OTHER_DEVICE']}"] == 2 and counts[f"{sgemm}: {words['NO_CONTEXT']}"] == 1
    assert {line["detail"] for line in ran.log if line.get("reason") == words["REFUSED"]} == {"bad lda", "bad m"}
    lines = {(line["routine"], line.get("reason")): line for line in ran.log}
    assert lines["cublasSgemmStridedBatched", words["EMPTY"]]["batch"] == 0
    unasked, asked = lines[sgemm, words["MATH_MODE"]], lines[sgemm, words["FALLBACK"]]
    assert (unasked["alpha"], unasked["beta"], unasked["detail"] in (1, 2, 3, 4, 18)) == ("unknown", "unknown", True) and "kernel" not in unasked
    assert (asked["alpha"], asked["beta"], asked["kernel"]) == ("other", "other", "reference_fallback") and "detail" not in asked
    assert {line["detail"] for line in ran.log if line.get("reason") == words["COMPUTE"]} == {64, 68, 69, 70, 71, 74, 75, 77, 78}


MATMUL = """
blas, lt, default = load(), load("libcublasLt.so.13"), ctypes.CDLL(None)
lt.stand_in_lt_calls.restype = ctypes.c_longlong
matmul, real = default.cublasLtMatmul, ctypes.CDLL("libcublasLt.so.13").cublasLtMatmul
for function in (matmul, real):
    function.argtypes = [P] * 14 + [ctypes.c_size_t, P]
WIDE = {8: P, 10: I64}

def description(compute=68, scale=0, attributes={}):
    made = P()
    lt.cublasLtMatmulDescCreate(ctypes.byref(made), compute, scale)
    for number, value in attributes.items():
        value = WIDE.get(number, I32)(value)
        assert not lt.cublasLtMatmulDescSetAttribute(made, number, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))
    return made

def layout(rows, columns, order=0, batch=1, kind=0, attributes={}):
    made, ld = P(), (columns if order else rows) + 1
    size = ld * (rows if order else columns)
    lt.cublasLtMatrixLayoutCreate(ctypes.byref(made), kind, ctypes.c_uint64(rows), ctypes.c_uint64(columns), I64(ld))
    for number, value in {1: I32(order), 5: I32(batch), 6: I64(size), **{n: I32(v) for n, v in attributes.items()}}.items():
        assert not lt.cublasLtMatrixLayoutSetAttribute(made, number, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))
    return made, size * batch

def one(told, ta=0, tb=0, orders=(0, 0, 0), batch=1, beta=0.0, attributes={}, compute=68, scale=0, kind=0, other_c=False, pointer_mode=0, of_layout={},
        other_k=0, workspace=0, kinds=None):
    m, n, k = 4, 5, 6
    real_of, tiny = (ctypes.c_double, 1e-9) if kind == F64 else (FLOAT, 0)
    bias = array(*(i / 2 - 1 for i in range(8)))
    attributes = {3: ta, 4: tb, 2: pointer_mode, **{key: ctypes.addressof(bias) if value == "bias" else value for key, value in attributes.items()}}
    la, size_a = layout(*((k, m) if ta else (m, k)), orders[0], batch, kind)
    kind_of_b, kind_of_c, kind_of_d = kinds or (kind,) * 3
    lb, size_b = layout(*((n, k + other_k) if tb else (k + other_k, n)), orders[1], batch, kind_of_b)
    ld, size_c = layout(m, n, orders[2], batch, kind_of_d, of_layout)
    lc = ld if kind_of_c == kind_of_d else layout(m, n, orders[2], batch, kind_of_c)[0]
    a, b = (array(*(((i * s) % 9 - 4) / 2 + tiny * i for i in range(size)), real=real_of) for size, s in ((size_a, 5), (size_b, 7)))
    alpha, scalar = array(1.5, real=real_of), array(beta, real=real_of)
    results, before = [], (kernels(), lt.stand_in_lt_calls(b"cublasLtMatmul"))
    memory = ctypes.create_string_buffer(8192)
    place = (ctypes.addressof(memory) + 255) // 256 * 256
    for function in (matmul, real):
        c, d = (array(*(i % 3 for i in range(size_c)), real=real_of) for _ in range(2))
        at = [ctypes.addressof(x) for x in (alpha, a, b, scalar, d if not other_c else c, d)]
        status = function(0x77, description(compute, scale, attributes), at[0], at[1], la, at[2], lb, at[3], at[4], lc, at[5], ld, None,
                          place if workspace else None, workspace, 0x100)
        results.append((status, list(d)))
        if function is matmul:
            after = (kernels(), lt.stand_in_lt_calls(b"cublasLtMatmul"))
    tell(**{told: [results[0][0], after[0] - before[0], after[1] - before[1], max(abs(x - y) for x, y in zip(results[0][1], results[1][1]))]})

for ta in (0, 1):
    for tb in (0, 1):
        for orders in ((0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1), (1, 1, 0)):
            one(f"taken {ta}{tb} {orders}", ta, tb, orders, beta=0.5)
one("taken of a batch", batch=3, beta=-1)
one("taken on the device", pointer_mode=1, beta=0.5)
for name, number in (("relu", 2), ("bias", 4), ("relu and bias", 6), ("gelu", 32), ("gelu and bias", 36)):
    one(f"taken with {name}", attributes={7: number, 8: "bias"})
one("taken with a bias in rows of another order", orders=(1, 1, 0), attributes={7: 4, 8: "bias"})
one("taken with another c that is not read", other_c=True)
one("taken with a workspace", workspace=4096)
one("taken with a small workspace", workspace=100)
wide = dict(kind=F64, compute=COMPUTE_64F, scale=F64)
for ta, tb, orders in ((0, 0, (0, 0, 0)), (1, 0, (0, 1, 0)), (0, 1, (1, 1, 1))):
    one(f"taken in fp64 {ta}{tb} {orders}", ta, tb, orders, beta=0.5, **wide)
one("taken in fp64 of a batch", batch=3, beta=-1, **wide)
one("taken in fp64 on the device", pointer_mode=1, beta=0.5, **wide)
one("taken in fp64 with another c that is not read", other_c=True, **wide)
one("fp64 with another c", other_c=True, beta=2.0, **wide)
for number in (2, 4, 32):
    one(f"fp64 with epilogue {number}", attributes={7: number, 8: "bias"}, **wide)
one("fp64 by fp32", kind=F64, compute=68, scale=F64)
one("fp64 scaled in fp32", kind=F64, compute=COMPUTE_64F)
one("fp32 by fp64", compute=COMPUTE_64F)
for kinds in ((F32, F64, F64), (F64, F32, F64), (F64, F64, F32)):
    one(f"fp64 beside {kinds}", kinds=kinds, **wide)
    one(f"fp32 beside {kinds}", kinds=[1 - one_of for one_of in kinds])
one("tf32", compute=77)
one("scale in fp64", scale=1)
one("half", kind=2)
one("vectors of alpha", pointer_mode=2)
one("other c", other_c=True, beta=1.0)
one("other c on the device", other_c=True, pointer_mode=1)
one("aux", attributes={7: 130})
one("gradient", attributes={7: 256})
one("bias of rows", orders=(1, 1, 1), attributes={7: 4, 8: "bias"})
one("bias of half", attributes={7: 4, 8: "bias", 26: 2})
one("no bias", attributes={7: 4})
one("a bias for each product", batch=2, attributes={7: 4, 8: "bias", 10: 4})
one("fewer multiprocessors", attributes={15: 100})
one("an attribute of a later version", attributes={45: 1})
one("a layout of a later version", of_layout={45: 1})
one("conjugate", ta=3)
"""


def test_matmul_with_its_descriptors():
    """Every layout, order and epilogue that the kernels have; any attribute that is not a new descriptor's is passed on."""
    ran = run_python(MATMUL)
    for name, (status, taken, passed, apart) in ran.told.items():
        is_taken = name.startswith("taken")
        assert (status, taken, passed) == (0, int(is_taken), int(not is_taken)), name
        assert apart < (1e-13 if "fp64" in name else 1e-5), name
    assert {(line["alpha"], line["beta"], line["batch"], line["taken"]) for line in ran.log if line.get("element") == "f64" and line["epilogue"] == "none"} >= {
        ("other", "other", 1, True), ("other", "other", 3, True), ("device", "device", 1, True), ("other", "zero", 1, True), ("other", "other", 1, False)}
    reasons = {line["reason"] for line in ran.log if not line["taken"]}
    told = ("TYPES", "COMPUTE", "OPERATION", "POINTER_MODE", "EPILOGUE", "BIAS", "OTHER_C", "ATTRIBUTE", "LAYOUT_ATTRIBUTE")
    assert reasons == {shim.REASONS[name] for name in told}
    assert {line["detail"] for line in ran.log if line.get("reason") == shim.REASONS["ATTRIBUTE"]} == {15, 45}
    assert {(line["epilogue"], line["bias"]) for line in ran.log if line["taken"]} == {
        ("none", False), ("none", True), ("relu", False), ("relu", True), ("gelu_tanh", False), ("gelu_tanh", True)}


def test_a_matmul_whose_descriptors_disagree_gets_the_vendors_answer():
    ran = run_python(MATMUL.split("for ta in")[0] + 'one("other k", other_k=1)')
    assert ran.told["other k"][1:3] == [0, 1] and ran.counts == {f"cublasLtMatmul: {shim.REASONS['SIZES']}": 1}


@pytest.fixture(scope="module")
def growing() -> str:
    """What is preloaded where workspaces are to depend on the size: m MiB."""
    folder = dropped_in.folder()
    library = dropped_in.compile_c(dropped_in.SOURCES / "growing.c", folder / "libgrowing.so", "-shared", "-fPIC", f"-I{folder}", "-ldl")
    return f"{shim.build(folder).preload}:{library}"


WORKSPACES = """
blas, default = load(), ctypes.CDLL(None)
gpu = driver()

def one(told, handle, m):
    given, c, kept = arguments("cublasSgemm_v2", handle, m=m)
    before = kernels()
    typed(default, "cublasSgemm_v2")(*given)
    tell(**{told: [kernels() - before, gpu.counted("allocated"), gpu.counted("freed"), gpu.counted("bytes") >> 20, gpu.counted("waits"),
                   gpu.counted("forbidden")]})
"""


def test_one_workspace_for_a_handle_and_a_stream(growing):
    """It grows when the stream is done with what it had, serves another device apart, and goes with its handle."""
    ran = run_python(WORKSPACES + """
h, other = create(default, stream=0x100), create(default, stream=0x100)
one("first", h, 3)
one("smaller", h, 1)
one("larger", h, 5)
default.cublasSetStream_v2(h, P(0x200))
one("another stream", h, 2)
default.cublasSetStream_v2(h, P(0x100))
one("the first stream", h, 6)
one("another handle", other, 2)
gpu.stand_in_context(0xc9)
one("another device", other, 2)
gpu.stand_in_context(0xc0)
gpu.stand_in_out_of_memory(1)
one("no memory", h, 9)
gpu.stand_in_out_of_memory(0)
one("memory again", h, 9)
before, mark = gpu.counted("freed"), ctypes.c_uint32.from_address(h.value)
mark.value += 1
tell(**{"refused": [default.cublasDestroy_v2(h), gpu.counted("freed") - before]})
mark.value -= 1
default.cublasDestroy_v2(h)
tell(**{"gone": gpu.counted("freed") - before, "waited": gpu.counted("waits_for_all"), "vendor": vendor(blas, "cublasDestroy_v2") - 1})
default.cublasDestroy_v2(other)
tell(**{"of this device": gpu.counted("freed") - before, "waits": gpu.counted("waits_for_all")})
third, before = create(default), gpu.counted("allocated")
for stream in range(0x300, 0x340, 0x10):
    default.cublasSetStream_v2(third, P(stream))
    one("a new handle", third, 2)
tell(**{"its own": gpu.counted("allocated") - before})
""", LD_PRELOAD=growing)
    told = ran.told  # calls taken, allocations, frees, MiB in all, waits for a stream
    assert told["first"] == [1, 1, 0, 4, 0, 0]
    assert told["smaller"] == [1, 1, 0, 4, 0, 0]
    assert told["larger"] == [1, 2, 1, 10, 1, 0]
    assert told["another stream"] == [1, 3, 1, 12, 1, 0]
    assert told["the first stream"] == [1, 3, 1, 12, 1, 0]
    assert told["another handle"] == [1, 4, 1, 14, 1, 0]
    assert told["another device"] == [1, 5, 1, 16, 1, 0]
    assert told["no memory"][0] == 0 and told["memory again"][0] == 1
    assert (told["gone"], told["waited"], told["vendor"]) == (2, 2, 1)
    assert told["refused"] == [1, 0]
    # Memory of another device than the current one stays, and no new handle has it.
    assert (told["of this device"], told["waits"], told["its own"]) == (3, 3, 4)
    assert ran.summaries[0]["workspace_bytes"] == 10 << 20  # what stays, and the new handle's
    assert ran.counts[f"cublasSgemm_v2: {shim.REASONS['NO_MEMORY']}"] == 1


def test_graphs_keep_their_workspaces(growing):
    """A capture gets memory without a call that it forbids; no other capture has it until the graph and all that was made of it are gone."""
    ran = run_python(WORKSPACES + """
h = create(default, stream=0x100)
one("before", h, 3)
gpu.stand_in_capture(0x100, 1, 7, 0xf0)
one("captured", h, 3)
one("captured again", h, 3)
gpu.stand_in_exchange_fails(1)
one("its mode stays", h, 3)
tell(mode=gpu.stand_in_mode())
one("captured larger", h, 5)
gpu.stand_in_capture(0x100, 1, 8, 0xf1)
one("another graph", h, 3)
gpu.stand_in_capture(0, 0, 0, 0)
gpu.stand_in_destroy_graph(0xf0)
gpu.stand_in_capture(0x100, 1, 9, 0xf2)
one("after a graph is gone", h, 4)
one("the larger one is there, too", h, 5)
default.cublasSetStream_v2(h, P(0x200))
gpu.stand_in_capture(0x200, 1, 9, 0xf2)
one("another stream of the capture", h, 3)
gpu.stand_in_destroy_graph(0xf2)
gpu.stand_in_context(0xc9)
one("another device", h, 3)
gpu.stand_in_context(0xc0)
for capture in range(20, 28):
    gpu.stand_in_capture(0x200, 1, capture, 0)
    one("no graph", h, 3)
gpu.stand_in_capture(0x200, 1, 12, 0xf4)
one("a graph", h, 3)
default.cublasSetStream_v2(h, P(0x100))
gpu.stand_in_capture(0x100, 1, 13, 0xf5)
gpu.stand_in_out_of_memory(1)
one("no memory", h, 30)
gpu.stand_in_out_of_memory(0)
gpu.stand_in_capture(0x100, 2, 9, 0xf2)
one("broken", h, 3)
gpu.stand_in_capture(0x500, 1, 10, 0xf3)
one("another stream is captured", h, 3)
default.cublasSetStream_v2(h, P(0))
gpu.stand_in_capture(0, 0, 0, 0)
one("default stream", h, 3)
gpu.stand_in_exchange_fails(1)
one("grows in its mode", h, 40)
tell(mode_after_growth=gpu.stand_in_mode())
""", LD_PRELOAD=growing)
    told = ran.told
    assert told["before"] == [1, 1, 0, 4, 0, 0]
    assert told["captured"] == [1, 2, 0, 8, 0, 0]  # not the one of calls outside
    assert told["captured again"] == [1, 2, 0, 8, 0, 0]
    assert told["its mode stays"] == told["captured again"] and told["grows in its mode"][0] == 1
    assert told["mode"] == told["mode_after_growth"] == 0  # what could not be relaxed is not left relaxed
    assert told["captured larger"] == [1, 3, 0, 14, 0, 0]
    assert told["another graph"] == [1, 4, 0, 18, 0, 0]
    assert told["after a graph is gone"] == [1, 4, 0, 18, 0, 0]
    assert told["the larger one is there, too"] == [1, 4, 0, 18, 0, 0]
    assert told["another stream of the capture"] == [1, 5, 0, 22, 0, 0] and told["another device"] == [1, 6, 0, 26, 0, 0]
    # What no graph holds serves the next one.
    assert told["no graph"] == [0, 6, 0, 26, 0, 0] and told["a graph"] == [1, 6, 0, 26, 0, 0]
    assert told["no memory"][0] == 0 and told["broken"][0] == 0
    assert told["another stream is captured"] == [1, 6, 0, 26, 0, 0]
    assert ran.counts[f"cublasSgemm_v2: {shim.REASONS['NO_MEMORY']}"] == 9 and ran.summaries[0]["workspace_bytes"] == 66 << 20
    assert told["default stream"][0] == 1 and told["default stream"][-1] == 0
    assert ran.counts[f"cublasSgemm_v2: {shim.REASONS['CAPTURE']}"] == 1


CALLS = """
blas, default = load(), ctypes.CDLL(None)
h = create(default)
def one(name="cublasSgemm_v2", library=default, **how):
    given, c, kept = arguments(name, h, **how)
    before = kernels(), vendor(blas, name)
    typed(library, name)(*given)
    return [kernels() - before[0], vendor(blas, name) - before[1]]
"""


def test_settings():
    """Off, a gain that is asked for, an error, counters, and a log that nobody wants."""
    tell = CALLS + 'tell(found=[one(), one(m=300, n=2), one(k=2)])'
    assert run_python(tell).told["found"] == [[1, 0], [1, 0], [0, 1]]
    off = run_python(tell, LAB_OFF="1")
    assert off.told["found"] == [[0, 1]] * 3 and not off.log and not off.summaries
    slow = run_python(tell, LAB_MIN_GAIN="4.5")  # the reference says of itself that it is 4 times as fast
    assert slow.told["found"] == [[0, 1]] * 3 and slow.counts[f"cublasSgemm_v2: {shim.REASONS['SLOWER']}"] == 2
    for gain in ("3.5", "4", "0"):
        ran = run_python(tell, LAB_MIN_GAIN=gain, LAB_LEVELS="", LAB_RECORD="", LAB_OFF="0")
        assert ran.told["found"] == [[1, 0], [1, 0], [0, 1]] and not ran.stderr, gain
        assert ran.counts[f"cublasSgemm_v2: {shim.REASONS['FALLBACK']}"] == 1
    assert "kernel" not in next(line for line in run_python(tell, LAB_LARGEST_ERROR="1e-9").log)
    exact = run_python(tell, LAB_LARGEST_ERROR="1e-9")
    assert exact.told["found"] == [[0, 1]] * 3 and exact.counts == {f"cublasSgemm_v2: {shim.REASONS['REFUSED']}": 3}
    assert run_python(tell, LAB_MIN_GAIN="fast").stderr == "lab: LAB_MIN_GAIN=fast is not a number of 0 or above; it is 1 now\n"
    checked = run_python(tell, LAB_CHECK="1")
    assert [line["checked"] for line in checked.log if line["taken"]] == [1, 1] and all(line["repaired"] == 0 for line in checked.log if line["taken"])
    silent = run_python(tell, log=False)
    assert silent.told["found"] == [[1, 0], [1, 0], [0, 1]] and not silent.stderr
    loud = run_python(tell, LAB_LOG="stderr")
    assert [json.loads(line).get("m") for line in loud.stderr.splitlines()].count(300) == 1


def test_a_call_that_reads_c_is_predicted_as_one():
    """Calls of one size are decided apart by whether beta is 0: the reference library takes 1.25 times as long with one."""
    ran = run_python(CALLS + "one(alpha=1.0, beta=0.0); one(alpha=1.0, beta=1.0); one(alpha=1.0, beta=0.0)")
    without, reads = sorted(ran.log, key=lambda line: -line["count"])
    assert (without["beta"], without["count"], reads["beta"], reads["count"]) == ("zero", 2, "one", 1)
    assert without["seconds"] == pytest.approx(1e-9 * 5 * 6 * 7) and reads["seconds"] == pytest.approx(1.25e-9 * 5 * 6 * 7)


def test_the_log_tells_each_kind_of_call_once(tmp_path):
    """With its sizes, scalars, kernel, prediction, place and count; a forked child tells its own calls alone, and none of threads that were gone before.
    A record has each call once."""
    ran = run_python(CALLS + """
import threading, time
for repeat in range(3):
    one(alpha=1.0, beta=0.0)
one("cublasSgemmStridedBatched_64", ta=T, batch=4, alpha=0.0, beta=1.0)
thread = threading.Thread(target=one, kwargs={"m": 11})
thread.start()
while len(os.listdir("/proc/self/task")) > 1:  # joined, it may not have told yet what it called
    time.sleep(0.001)
child = os.fork()
if not child:
    one(m=9)
    sys.exit()
os.waitpid(child, 0)
one("cublasDgemm_v2", m=12, alpha=1.0, beta=0.0)
one("cublasCgemm_v2", m=13, ta=2, alpha=1.0 + 1j, beta=1.0)
""", LAB_RECORD=str(tmp_path / "record"))
    assert [(call.ordinal, call.m) for call in dropped.read_record(tmp_path / "record")] == [(0, 5), (1, 5), (2, 5), (3, 5), (4, 11), (5, 9), (5, 12), (6, 13)]
    first, second, third, fourth, wide, pairs = sorted(ran.log, key=lambda line: (line["m"], -line["count"]))
    told = {"routine": "cublasSgemm_v2", "m": 5, "n": 6, "k": 7, "layout": "nn", "order": "column", "batch": 1, "alpha": "one", "beta": "zero",
            "epilogue": "none", "bias": False, "taken": True, "kernel": "reference", "count": 3}
    assert {key: first[key] for key in told} == told
    assert 0 < first["seconds"] == first["sgemm_seconds"] / 4 and first["error"] > 0
    assert first["site"].startswith("libffi") and "+0x" in first["site"]
    assert (second["routine"], second["layout"], second["batch"], second["alpha"], second["beta"]) == ("cublasSgemmStridedBatched_64", "tn", 4, "zero", "one")
    assert (third["m"], third["count"]) == (9, 1) and third["pid"] != first["pid"] == second["pid"] == fourth["pid"]
    assert (fourth["m"], fourth["count"]) == (11, 1)
    assert [wide[key] for key in ("m", "element", "alpha", "beta")] == [12, "f64", "one", "zero"] and "element" not in first
    assert [pairs[key] for key in ("m", "element", "layout", "alpha", "beta")] == [13, "c64", "cn", "other", "one"]
    assert sorted(one["taken"] for one in ran.summaries) == [1, 7] and {one["passed"] for one in ran.summaries} == {0}


@pytest.fixture(scope="module")
def program() -> Path:
    """A program that is linked with the vendor's library."""
    folder = dropped_in.folder()
    vendor = folder / "vendor"
    return dropped_in.compile_c(
        dropped_in.SOURCES / "program.c", folder / "program", f"-L{vendor}", "-l:libcublas.so.13", "-lpthread", f"-Wl,-rpath-link,{vendor}")


def test_a_linked_program_and_its_threads(program):
    """Threads that share a handle and a stream share a workspace in turns; others have their own. What they called is told when they are gone."""
    assert run([str(program)]).counts == {"cublasSgemm_v2: taken": 1}
    untouched = run([str(program)], preload=False)
    assert untouched.told["wrong"] == 0 and not untouched.log
    shared = run([str(program), "8", "500"])
    assert shared.counts == {"cublasSgemm_v2: taken": 4000} and shared.told["wrong"] == 0
    assert shared.summaries[0]["workspace_bytes"] == 2 << 20
    own = run([str(program), "8", "500"], OWN_HANDLES="1")
    assert own.counts == {"cublasSgemm_v2: taken": 4000} and own.told["wrong"] == 0 and len(own.log) == 1
    assert own.summaries[0]["workspace_bytes"] == 0  # each went with its handle


def test_functions_that_are_looked_up_in_the_vendors_library():
    """Without the audit library they are the vendor's own; with it, those that the preload library defines lead there and the others do not."""
    names = [one.name for one in shim.INTERFACES[0].defined if one.library == "libcublas"]
    script = CALLS + """
own = ctypes.CDLL("libcublas.so.13")
tell(passed=one(library=own, k=2), gemm=one(library=own), wide=one("cublasSgemmStridedBatched_64", library=own), default=one())
y, x, a, s = array(0.0), array(2.0), array(3.0), array(1.0)
own.cublasSgemv_v2(h, 0, 1, 1, s, a, 1, x, 1, array(0.0), y, 1)
tell(gemv=y[0], handle=bool(h))
place = lambda library, name: ctypes.cast(getattr(library, name), P).value
tell(led=sum(place(own, name) == place(default, name) for name in NAMES))
""".replace("NAMES", repr(names))
    assert run_python(script).told == {"passed": [0, 1], "gemm": [0, 1], "wide": [0, 1], "default": [1, 0], "gemv": 6, "handle": True, "led": 0}
    audited = run_python(script, audit=True)
    assert not audited.stderr
    assert audited.told == {"passed": [0, 1], "gemm": [1, 0], "wide": [1, 0], "default": [1, 0], "gemv": 6, "handle": True, "led": len(names)}
    alone = run_python(script, audit=True, preload=False)
    assert alone.told == {"passed": [0, 1], "gemm": [0, 1], "wide": [0, 1], "default": [0, 1], "gemv": 6, "handle": True, "led": len(names)}


def test_the_audit_library_needs_no_other_one_and_neither_shows_more_than_it_has_to(tmp_path):
    """It needs not C's, though the compiler protects every function's stack unless it is told not to: there is none in its namespace."""
    place, compiler = tmp_path / "lab", tmp_path / "cc"
    shutil.copytree(dropped_in.folder(), place, ignore=shutil.ignore_patterns("vendor"))
    compiler.write_text('#!/bin/sh\nexec gcc -fstack-protector-all "$@"\n')
    compiler.chmod(0o755)
    (place / "liblab_audit.so").unlink()
    audit = str(shim.build(place, compiler=str(compiler)).audit)
    [nm, readelf] = need("nm", "readelf")
    assert run_tool(nm, "-D", "--undefined-only", audit) == "" and "NEEDED" not in run_tool(readelf, "-d", audit)
    seen = {line.split()[-1] for line in run_tool(nm, "-D", "--defined-only", audit).splitlines()}
    assert seen == {"la_version", "la_objopen", "la_objclose", "la_symbind64"}
    taken = {line.split()[-1] for line in run_tool(nm, "-D", "--defined-only", place / "liblab_cublas.so").splitlines()}
    assert taken == {one.name for one in shim.INTERFACES[0].defined}, "the preload library stands before the vendor's functions and no others"


def test_a_program_linked_with_the_vendors_library_under_audit(program):
    assert run([str(program), "2", "10"], audit=True).counts == {"cublasSgemm_v2: taken": 20}
    looked_up = run([str(program)], audit=True, LOOKED_UP="1")
    assert looked_up.counts == {"cublasSgemm_v2: taken": 1} and looked_up.told["wrong"] == 0, "the main program's own look-ups lead to the preload library"


def test_a_program_without_the_vendors_library_is_left_alone():
    ran = run(["/bin/sh", "-c", "echo '{\"said\": 1}'; exit 5"], audit=True)
    assert (ran.told, ran.returncode, ran.stderr, ran.log, ran.summaries) == ({"said": 1}, 5, "", [], [])


@pytest.mark.parametrize("name", ["LEVELS", "RECORD", "LOG"])
def test_a_file_that_is_none_neither_stops_nor_ends_the_program(tmp_path, program, name):
    """A FIFO with and without its other end, a device, a folder, a file without end, one that is not there, and one that may not grow."""
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    with large.open("wb") as file:
        file.truncate((64 << 20) + 1)
    places = [fifo, tmp_path, "/dev/zero", large] if name == "LEVELS" else [fifo, tmp_path, "/dev/null", tmp_path / "none" / "file"]

    def right(place: object, *command: str) -> None:
        ran = run(command or [str(program), "1", "3"], **{f"LAB_{name}": str(place)})
        assert (ran.returncode, ran.told["wrong"]) == (0, 0), ran.stderr
        assert ran.stderr.count(f"lab: {place} cannot be") == 1, ran.stderr
        assert name == "LOG" or ran.counts == {"cublasSgemm_v2: taken": 3} or command

    for place in places:
        right(place)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    right(fifo)
    os.close(reader)
    if name != "LEVELS":
        right(tmp_path / "file", "/bin/sh", "-c", f"ulimit -f 0; exec {program} 1 300")
    else:
        large.write_bytes(b"all vendor\n" + bytes(1000) + b"\nall error\n" * 40)
        ran = run([str(program)], LAB_LEVELS=str(large))
        assert ran.counts == {f"cublasSgemm_v2: {shim.REASONS['LEVEL']}": 1} and ran.stderr.count("the line is left out") == 20


def test_a_log_to_a_pipe_that_nobody_reads(program):
    """The program ends as it would; a signal that it was sent before is still its own."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([str(program)], stdout=subprocess.PIPE, stderr=writer, env=dropped_in.environment(LAB_LOG="stderr"), restore_signals=True, timeout=60)
    os.close(writer)
    assert done.returncode == 0 and json.loads(done.stdout)["wrong"] == 0


def test_signals_of_the_program_stay_its_own(tmp_path):
    ran = run_python(CALLS + """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
os.kill(os.getpid(), signal.SIGPIPE)
one()
tell(pending=sorted(signal.sigpending()), blocked=sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))
""", LAB_RECORD=str(tmp_path / "record"))
    assert ran.told == {"pending": [13], "blocked": [13]}


@pytest.mark.parametrize(("kind", "functions"), [
    ("cublas", ("cublasDestroy_v2", "cublasSgemm_v2", "cublasLtDestroy", "cublasLtMatmul")),
    ("hipblas", ("hipblasDestroy", "hipblasSgemm", "rocblas_destroy_handle", "rocblas_sgemm")),
])
def test_a_vendors_library_that_is_not_there_is_an_error_of_the_vendors(kind, functions):
    """Its first one: the handle is none of the library's."""
    calls = "".join(f"tell({name}=ctypes.CDLL(None).{name}(*[P(0)] * 18))\n" for name in functions)
    ran = run_python(calls, kind=kind, LD_LIBRARY_PATH=str(dropped_in.folder()))
    assert ran.told == dict.fromkeys(functions, 1)


HIP = """
as_hip()
hip, roc, default = load("libhipblas.so.3"), load("librocblas.so.5"), ctypes.CDLL(None)
real = {"h": ctypes.CDLL("libhipblas.so.3"), "r": ctypes.CDLL("librocblas.so.5")}
gpu = driver("libamdhip64.so.7")
counted = {"h": hip.stand_in_calls, "r": roc.stand_in_roc_calls}
for count in counted.values():
    count.restype = ctypes.c_longlong

def create_of(name, mode=0, stream=0x100):
    made = P()
    words = ("hipblasCreate", "hipblasSetStream", "hipblasSetPointerMode") if name[0] == "h" else (
        "rocblas_create_handle", "rocblas_set_stream", "rocblas_set_pointer_mode")
    make, set_stream, set_mode = (getattr(default, word) for word in words)
    make(ctypes.byref(made)), set_stream(made, P(stream)), set_mode(made, mode)
    return made

def one(told, name, handle, **how):
    found = []
    for library in (default, real[name[0]]):
        given, c, kept = arguments(name, handle, **how)
        before = kernels(), counted[name[0]](name.encode())
        status = typed(library, name)(*given)
        found.append((status, kernels() - before[0], counted[name[0]](name.encode()) - before[1], list(c)))
    tell(**{told: [*found[0][:3], max(abs(x - y) for x, y in zip(found[0][3], found[1][3]))]})
"""


def test_the_same_for_hipblas_and_rocblas():
    """Functions of both, of which one calls the other; scalars on the device; math modes, where the library has them; graphs and handles."""
    ran = run_python(HIP + """
for name in GEMMS:
    for mode in (0, 1):
        for ta, tb in ((N, T), (2, N)):
            one(f"{name} {mode} {ta}{tb}", name, create_of(name, mode), ta=ta, tb=tb)
h = create_of("h")
hip.hipblasSetMathMode(h, 1)
one("xf32", "hipblasSgemm", h)
one("wide beside xf32", "hipblasDgemm", h)
one("few sums", "rocblas_sgemm", create_of("r"), k=3)
inner = counted["r"](b"rocblas_sgemm")
one("few sums by way of the other", "hipblasSgemm", create_of("h"), k=3)
tell(inner=counted["r"](b"rocblas_sgemm") - inner)
one("other device", "rocblas_sgemm", create_of("r", stream=0x9000))
gpu.stand_in_capture(0x100, 1, 7, 0xf0)
one("captured", "rocblas_sgemm", create_of("r"))
gpu.stand_in_capture(0, 0, 0, 0)
last = create_of("r")
one("last", "rocblas_sgemm_64", last)
freed = gpu.counted("freed")
tell(destroyed=default.rocblas_destroy_handle(last), freed=gpu.counted("freed") - freed, forbidden=gpu.counted("forbidden"))
""", kind="hipblas")
    told, words = ran.told, shim.REASONS
    assert (told.pop("inner"), told.pop("destroyed"), told.pop("freed"), told.pop("forbidden")) == (2, 0, 1, 0)
    for name, (status, taken, passed, apart) in told.items():
        is_passed = name in ("xf32", "few sums", "few sums by way of the other", "other device")
        assert (status, taken, passed) == (0, int(not is_passed), int(is_passed)) and apart < 1e-5, name
    assert ran.counts[f"hipblasSgemm: {words['MATH_MODE']}"] == 1 and ran.counts[f"rocblas_sgemm: {words['OTHER_DEVICE']}"] == 1
    # What hipBLAS calls in rocBLAS is not told again, unless the program calls hipBLAS past the preload library, as the comparison does.
    assert ran.counts[f"hipblasSgemm: {words['FALLBACK']}"] == 1
    assert {line["alpha"] for line in ran.log if line["taken"]} == {"other", "device"}


# ---- Recorded programs and levels ----

PROGRAM = CALLS + """
for step in range(2):
    for m in (5, 6, 7):
        found = one(m=m)
        tell(**{f"{step} {m}": found})
"""


def test_a_recorded_program_runs_again_under_levels(tmp_path):
    """record -> levels of its calls -> the same program, each call with its kernel."""
    record, levels = tmp_path / "record.jsonl", tmp_path / "levels"
    run_python(PROGRAM, LAB_RECORD=str(record))
    calls = dropped.read_record(record)
    assert [(call.ordinal, call.m, call.kernel, call.taken) for call in calls] == [(i, 5 + i % 3, "reference", True) for i in range(6)]
    assert all(call.sgemm_seconds == pytest.approx(4 * call.seconds) for call in calls) and len({call.site for call in calls}) == 1
    levels.write_text(dropped.levels_text({0: "kernel reference_fallback", 1: "vendor", 5: "error 1e-9"}))
    ran = run_python(PROGRAM, LAB_LEVELS=str(levels))
    assert sorted((line["m"], line["kernel"] if line["taken"] else line["reason"]) for line in ran.log) == sorted([
        (5, "reference_fallback"), (5, "reference"), (6, shim.REASONS["LEVEL"]), (6, "reference"), (7, "reference"), (7, shim.REASONS["REFUSED"])])
    levels.write_text(dropped.levels_text({1: "vendor"}, period=3))
    assert run_python(PROGRAM, LAB_LEVELS=str(levels)).told == {f"{step} {m}": [0, 1] if m == 6 else [1, 0] for step in range(2) for m in (5, 6, 7)}
    levels.write_text(f"# a comment\nsize 7 6 7 vendor\nsite {calls[0].site} = kernel reference_fallback  # every call\nall vendor\n")
    assert {(line["kernel"], line["taken"]) for line in run_python(PROGRAM, LAB_LEVELS=str(levels)).log} == {("reference_fallback", True)}
    levels.write_text("size 7 6 7 vendor\nsize 6 7 7 vendor\nsize 5 6 6 vendor\nordinal 3 kernel reference_fallback\nordinal 3 vendor\n"
                      "site nowhere+0x1 = vendor\nall kernel reference\nall vendor\n")
    assert sorted((line["m"], line.get("kernel") or line["reason"]) for line in run_python(PROGRAM, LAB_LEVELS=str(levels)).log) == [
        (5, "reference"), (5, "reference_fallback"), (6, "reference"), (7, shim.REASONS["LEVEL"])]
    # Of as many frames as are asked for.
    run_python(PROGRAM, LAB_RECORD=str(record.with_name("deep")), LAB_FRAMES="3")
    deep = {call.site for call in dropped.read_record(record.with_name("deep"))}
    assert len(deep) == 1 and (frames := deep.pop().split(" < ")) and len(frames) == 3 and frames[0] == calls[0].site and len(set(frames)) == 3
    levels.write_text(f"site {' < '.join(frames)} = vendor\n")
    assert set(run_python(PROGRAM, LAB_LEVELS=str(levels), LAB_FRAMES="3").counts) == {f"cublasSgemm_v2: {shim.REASONS['LEVEL']}"}
    assert set(run_python(PROGRAM, LAB_LEVELS=str(levels), LAB_FRAMES="1").counts) == {"cublasSgemm_v2: taken"}
    for frames, count in (("1e300", 8), ("-1", 1)):
        record.unlink()
        run_python(PROGRAM, LAB_RECORD=str(record), LAB_FRAMES=frames)
        assert {call.site.count("+0x") for call in dropped.read_record(record)} == {count}


def test_a_line_of_levels_that_cannot_be_is_told_and_left_out(tmp_path):
    levels = tmp_path / "levels"
    # As an error, 0 would be any.
    levels.write_text("ordinal 0 vendor\nordinal 1 kernel none\nsize 1 2 error 1\nperiod 0\nall error -1\nordinal 99999999 vendor\nordinal -1 vendor\n"
                      "all error 1x\nall error 1 2\nall\n \nsite here kernel reference\nordinal 1048576 vendor\nall error 0\nall error nan\n")
    ran = run_python(PROGRAM, LAB_LEVELS=str(levels))
    assert [line.split(":")[2] for line in ran.stderr.splitlines()] == ["2", "3", "4", "5", "6", "7", "8", "9", "10", "12", "13", "14", "15"]
    assert ran.told["0 5"] == [0, 1] and ran.told["0 6"] == [1, 0]
    assert "cannot be read" in run_python(PROGRAM, LAB_LEVELS=str(tmp_path / "none")).stderr


SOLVER = CALLS + """
import struct
first, second = (arguments("cublasSgemm_v2", h, alpha=1.0, beta=0.0, seed=seed) for seed in (1, 2))
for given, c, kept in (first, second):
    typed(default, "cublasSgemm_v2")(*given)
values = [x + 1e-4 * y for x, y in zip(first[1], second[1])]
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%d,), }" % len(values)
head = head.ljust(117) + chr(10)
with open(sys.argv[1], "wb") as file:
    file.write(b"\\x93NUMPY\\x01\\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}f", *values))
"""


@pytest.fixture(scope="module")
def solver(tmp_path_factory) -> dict[str, str]:
    """What a program of two products runs under: a library whose second kernel is faster and errs by 1e-3."""
    folder = dropped_in.folder()
    library = dropped_in.compile_c(dropped_in.SOURCES / "lossy.c", folder / "liblossy.so", "-shared", "-fPIC", f"-I{folder}", "-ldl")
    return dropped_in.environment(preload=False, LD_PRELOAD=str(library))


def test_kernels_less_accurate_than_fp32_are_taken_where_they_are_asked_for(solver):
    """A mixed library's fast kernel is not what a program that asks for FP32 gets."""
    for how, kernel in (({}, "reference"), ({"LAB_LARGEST_ERROR": "1e-4"}, "reference"), ({"LAB_LARGEST_ERROR": "0"}, "reference_fallback")):
        ran = run_python(CALLS + "one()", LD_PRELOAD=f"{shim.build(dropped_in.folder()).preload}:{solver['LD_PRELOAD']}", **how)
        assert [line["kernel"] for line in ran.log] == [kernel]


def program_of(script: str, tmp_path: Path) -> list[str]:
    return [sys.executable, "-S", "-c", f"{dropped_in.PRELUDE.read_text()}\n{script}", str(tmp_path / "result.npy")]


def test_a_program_is_transformed_for_an_error_of_its_output(tmp_path, solver, monkeypatch):
    """The product that hardly shows in the output gets the fast kernel, the other one that is exact; a place of a period has one level for all its calls."""
    monkeypatch.setattr(os, "environ", solver)
    built, result = shim.build(dropped_in.folder()), tmp_path / "result.npy"
    found = transformed(built, program_of(SOLVER, tmp_path), result, 1e-5)
    assert found.text == "ordinal 0 kernel reference\nordinal 1 kernel reference_fallback\nall vendor\n"
    assert found.levels == ("kernel reference", "kernel reference_fallback", "vendor")
    exact, lossy, vendor = found.question.alone[0]
    assert exact == vendor == 0 and lossy == pytest.approx(1e-3, rel=0.2) and 1e-8 < found.question.alone[1][1] < 1e-6
    assert found.error == pytest.approx(found.question.alone[1][1]) and found.seconds() == pytest.approx(4 / 0.75 * found.seconds(found.found.choice))
    repeated = transformed(built, program_of(SOLVER, tmp_path), result, 1e-2, period=1)
    assert repeated.text == "period 1\nordinal 0 kernel reference_fallback\nall vendor\n" and len(repeated.calls) == 1
    assert transformed(built, program_of(SOLVER, tmp_path), result, 1e-2, kernels=["reference"]).levels == ("kernel reference", "vendor")
    nothing = SOLVER.replace('typed(default, "cublasSgemm_v2")(*given)', "pass")
    for script, message in (("raise SystemExit(3)", "fails under the preload library"), ("pass", "is no output of the program"), (nothing, "calls no GEMM")):
        with pytest.raises(GemmgenError, match=message):
            transformed(built, program_of(script, tmp_path), result, 1)


def test_distances():
    """Relative to the reference; of a reference of zeros as it is; of other shapes and what is not finite, infinite."""
    from gemmgen.workshop.tune.transformed import distance

    one = np.array([3.0, 4.0])
    assert distance(one, one) == 0 and distance(one * 1.5, one) == pytest.approx(0.5) and distance(one, 0 * one) == 5
    assert {distance(one[:1], one), distance(one[None], one), distance(one * np.nan, one), distance(one * np.inf, one)} == {np.inf}


class Pretended:
    """Runs of a program of four calls, in two periods of two, without a process. Kernel `exact` serves all, `rough` errs, `never` serves none,
    `partly` all but one; with `odd` the program calls less."""

    command, period = ["program"], 2

    def __init__(self, **answers):
        from types import SimpleNamespace

        self.built, self.count, self.asked, self.answers = SimpleNamespace(), 0, [], answers

    def place(self, call):
        return call.ordinal % self.period

    def under(self, levels, step):
        self.asked.append(levels)
        self.count += 1
        kernel = levels.split()[2] if levels.startswith("all kernel") else ""
        wrong = 1e-3 * levels.count("kernel rough") + 1e-6 * levels.count("ordinal 0 kernel exact")
        calls = [dropped.Call(i, "r", 5 + i % 2, 6, 7, "nn", 1, "s", bool(kernel) and kernel != "never" and not (kernel == "partly" and i == 3), kernel or None,
                              float(1 + i % 2), 8.0 + i % 2) for i in range(3 if kernel == "odd" else 0 if self.answers.get("nothing") else 4)]
        return np.array([1.0, 0.0]) * (1 + wrong), calls


def test_levels_are_chosen_among_what_serves(monkeypatch):
    from gemmgen.workshop.tune import transformed as room

    def chosen(threshold, known, runs=None, **how):
        monkeypatch.setattr(room, "kernel_names", lambda built: list(known))
        return room.transform(runs or Pretended(), threshold, **how)

    found = chosen(1e-4, ("exact", "rough", "never", "partly"))
    assert found.levels == ("kernel exact", "kernel rough", "kernel partly", "vendor")
    assert found.question.seconds == [[2, 2, 2, 16], [4, 4, np.inf, 18]]
    assert [[pytest.approx(x, abs=1e-12) for x in row] for row in found.question.alone] == [[1e-6, 1e-3, 0, 0], [0, 1e-3, np.inf, 0]]
    assert found.text.startswith("period 2\nordinal ") and found.text.endswith("all vendor\n") and "rough" not in found.text
    assert found.seconds() == 34 and [call.ordinal for call in found.calls] == [0, 1] and found.error <= 1e-4
    far = chosen(0.6, ("exact",), reference=np.array([2.0, 0.0]))
    assert far.question.floor == pytest.approx(0.5) and far.text is not None
    assert [row[-1] for row in far.question.alone] == pytest.approx([0.5, 0.5]) and far.question.fed_by == [[], [0]]
    assert dropped.levels_text({2: "vendor", 0: "kernel a"}, 3) == "period 3\nordinal 0 kernel a\nordinal 2 vendor\n"
    none = chosen(0.1, ("exact",), reference=np.array([2.0, 0.0]))
    assert none.text is None and none.error == np.inf
    assert chosen(1e-2, ("exact", "rough"), kernels=["rough"]).levels == ("kernel rough", "vendor")
    for kernels, how, told in ((("exact",), {"kernels": ["other"]}, "is no kernel of the library"), (("odd",), {}, "does not call the same"),
                               (("never",), {}, "has no GEMM that a kernel"), (("exact",), {"runs": Pretended(nothing=True)}, "calls no GEMM")):
        with pytest.raises(GemmgenError, match=told):
            chosen(1, kernels, **how)


def test_gemmgen_tune_of_an_unmodified_program(tmp_path, solver):
    """What it prints and writes; and exit code 2 where nothing meets the threshold."""
    levels, other = tmp_path / "solver.levels", tmp_path / "other.npy"
    np.save(other, np.ones((1, 54), np.float32))

    def gemmgen(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "gemmgen", "tune", "--library", str(dropped_in.folder()), "--result", str(tmp_path / "result.npy"), *arguments, "--",
             *program_of(SOLVER, tmp_path)], capture_output=True, text=True, env=solver, check=False)

    said = gemmgen("--threshold", "1e-5", "-o", str(levels), "--quiet")
    assert not said.returncode, said.stderr
    assert levels.read_text() == "ordinal 0 kernel reference\nordinal 1 kernel reference_fallback\nall vendor\n"
    assert "2 GEMMs" in said.stdout and "5.33 times as fast as the vendor's" in said.stdout
    told = gemmgen("--threshold", "1e-5", "--reference", str(other), "--json", "--levels", "reference")
    assert told.returncode == 2 and json.loads(told.stdout)["text"] is None, told.stderr


# ---- gemmgen run ----


def test_gemmgen_run_tells_what_was_taken_and_returns_the_programs_code(tmp_path, program):
    folder = dropped_in.folder()
    base = {name: value for name, value in os.environ.items() if not name.startswith("LD_")} | {"LD_LIBRARY_PATH": f"{folder}/vendor"}

    def gemmgen(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "gemmgen", "run", "--library", str(folder), *arguments], capture_output=True, text=True, env=base, check=False)

    said = gemmgen("--log", str(tmp_path / "log.jsonl"), "--", str(program), "1", "7")
    assert not said.returncode and json.loads(said.stdout)["wrong"] == 0
    assert said.stderr.split() == ["taken", "7", "of", "7", "calls", "reference", "7"]
    assert dropped.read_log(tmp_path / "log.jsonl").taken == 7
    told = gemmgen("--json", "--check", "--log", str(tmp_path / "log.jsonl"), "--record", str(tmp_path / "record.jsonl"),
                   "/bin/sh", "-c", f"{program} 1 2; exit 4")
    assert told.returncode == 4
    found = json.loads(told.stdout)
    assert (found["taken"], found["passed"], found["code"], found["counters"]["checked"]) == (2, 0, 4, 2)
    assert len(dropped.read_record(tmp_path / "record.jsonl")) == 2 and dropped.read_log(tmp_path / "log.jsonl").taken == 9
    missing = gemmgen("--", "no-such-program")
    assert missing.returncode == 2 and "no-such-program: cannot be started" in missing.stderr


@pytest.mark.parametrize(("code", "told"), [(0, 0), (3, 3), (-11, 139)])
def test_a_run_tells_its_own_lines_of_a_log_that_was_there(tmp_path, monkeypatch, code, told):
    log = tmp_path / "log.jsonl"

    def program(command, *, env, stdout, check):
        assert command == ["program", "x"] and stdout == 5 and not check
        with log.open("a") as file:
            file.write('{"call": %d}\n' % calls)
        return SimpleNamespace(returncode=code)

    monkeypatch.setattr(dropped, "environment", lambda built, settings, of: {"LOG": str(settings.log)})
    monkeypatch.setattr(dropped.subprocess, "run", program)
    monkeypatch.setattr(dropped, "read_log", lambda path, code: (path.read_text(), code))
    for calls in range(3):
        assert dropped.run(None, ("program", "x"), dropped.Settings(log=log), stdout=5) == ('{"call": %d}\n' % calls, told)
    assert len(log.read_text().splitlines()) == 3


def test_a_record_begins_anew_and_a_log_goes_on(tmp_path, monkeypatch):
    """A record's lines are places in one run of the program; a log's are added up."""
    from gemmgen.cli import main

    paths, seen = [tmp_path / name for name in ("record", "log")], []

    def run(built, command, settings, **how):
        assert (settings.record, settings.log) == tuple(paths) and command == ["true"]
        seen.append([path.read_text() if path.exists() else None for path in paths])
        for path in paths:
            path.open("a").write("new")
        return dropped.Logged(())

    monkeypatch.setattr(shim, "recipe_of", lambda library: {})
    monkeypatch.setattr(shim, "build", lambda library: "built")
    monkeypatch.setattr(dropped, "run", run)
    for _ in range(2):
        assert main(["run", "--library", str(tmp_path), "--record", str(paths[0]), "--log", str(paths[1]), "--quiet", "true"]) == 0
    assert seen == [[None, None], [None, "new"]] and [path.read_text() for path in paths] == ["new", "newnew"]


def test_a_preload_library_that_is_older_than_the_kernels_is_built_again(tmp_path, monkeypatch):
    """It is linked with them; the audit library is not."""
    kernels, built = tmp_path / "liblab.so", []
    (tmp_path / shim.FOLDER).mkdir()
    (tmp_path / shim.FOLDER / "calls.c").touch()
    parts = {part: {"file": f"{part}.so", "sources": ["calls.c"], "compile": [], "link": []} for part in ("preload", "audit")}
    monkeypatch.setattr(shim, "recipe_of", lambda folder: {"name": "lab", "guard": "LAB", **parts})

    def ran(command, folder):
        place = Path(command[command.index("-o") + 1])
        place.touch()
        built.append(place.stem)

    monkeypatch.setattr(shim, "_run", ran)
    for changed, again in ((None, ["preload", "audit"]), ("", []), ("liblab.so", ["preload"]), ("shim/calls.c", ["preload", "audit"])):
        if changed is None:
            kernels.touch()
        elif changed:
            later = (tmp_path / "audit.so").stat().st_mtime + 10
            os.utime(tmp_path / changed, (later, later))
        shim.build(tmp_path)
        assert built == again, changed
        built.clear()


@pytest.mark.parametrize(("typed", "problem", "remedy"), [
    ("level3", "is no folder", "gemmgen library level3 -o level3"), ("third/level3", "is no folder", "gemmgen library level3 -o third/level3"),
    ("levl3", "is no folder", "gemmgen library level3 -o levl3"), ("an other", "is no folder", "gemmgen library lab -o 'an other'"),
    ("gemmgen_blas", "is no folder", "gemmgen library lab -o lab_2"),  # has no preload library, and lab is taken
    ("lab", "is no library with", "gemmgen library lab -o lab_2"), ("wide", "is no library with", "gemmgen library wide -o wide"),
    ("mine.toml", "is the file of a library", "gemmgen library mine.toml -o mine"),
    ("bare.toml", "is the file of a library", 'shim = ["cublas"] in bare.toml, then gemmgen library bare.toml -o bare'),
    ("wrong.toml", "is the file of a library", 'shim = ["cublas"] in wrong.toml, then gemmgen library wrong.toml -o wrong'),
    ("file", "is no library with", "gemmgen library lab -o lab_2"),
])
def test_a_place_without_a_preload_library_is_refused_with_the_command_that_makes_one(tmp_path, monkeypatch, typed, problem, remedy):
    """The command names a library that has a preload library, and a place that `gemmgen library` does not refuse; what has one is named."""
    from gemmgen.library.file import load_library

    monkeypatch.chdir(tmp_path)
    for folder in ("lab", "wide"):
        Path(folder).mkdir()
    Path("lab", "notes").write_text("a person's own")
    Path("wide", "manifest.json").write_text("{}")  # made by an earlier release
    for name, text in (("mine", 'shim = ["rocblas"]'), ("bare", 'shim = ["torch"]'), ("wrong", "=")):
        Path(f"{name}.toml").write_text(text)
    Path("file").write_text("")
    with pytest.raises(GemmgenError, match=problem) as refused:
        shim.build(Path(typed))
    assert refused.value.where == typed and refused.value.remedy == remedy
    assert "general (cublas), lab (cublas), lab_amd (hipblas, rocblas), level3 (cublas), wide (cublas)" in refused.value.needs
    assert (refused.value.got is not None) == (typed == "gemmgen_blas")
    source, place = shlex.split(remedy.partition("gemmgen library ")[2])[::2]
    assert source.endswith(".toml") or shim.interface_of(load_library(source).file)
    assert not Path(place).exists() or Path(place, "manifest.json").is_file()


def test_every_library_with_a_preload_library_is_named_in_the_help():
    from gemmgen.catalog.table import shipped

    told = inspect.getsource(import_module("gemmgen.verbs.run"))
    having = [name for name, path in shipped("libraries").items() if shim._stands_before(path)]
    assert having and f"the shipped {', '.join(having[:-1])} and {having[-1]} are" in told


@pytest.mark.parametrize(("command", "got", "remedy"), [
    (["no-such-program"], "nothing of that name on the PATH", "-- ./program"), (["./none"], "no such file", "-- ./program"), (["."], "a folder", "-- ./program"),
    (["./train.py", "1 2"], "a file that is no program", "behind --: python ./train.py '1 2'"), (["go"], "a file that is not on the PATH", "behind --: ./go"),
    (["./plain"], "a file that is no program", "behind --: sh ./plain"), (["./started.py"], "Exec format error", "behind --: python ./started.py"),
])
def test_a_program_that_cannot_be_started_has_a_remedy_that_starts(tmp_path, monkeypatch, command, got, remedy):
    monkeypatch.chdir(tmp_path)
    for name, mode in (("train.py", 0o644), ("plain", 0o644), ("go", 0o755), ("started.py", 0o755)):
        Path(name).write_text("" if name.endswith(".py") else "#!/bin/sh\n")
        Path(name).chmod(mode)
    with pytest.raises(GemmgenError, match="cannot be started") as refused:
        dropped.check_program(command)
        dropped.run(dropped_in.built(), command, dropped.Settings())
    assert refused.value.got == got and remedy in refused.value.remedy and refused.value.needs
    if "behind" in remedy:
        dropped.check_program(shlex.split(remedy.removeprefix("behind --: ")))


@pytest.mark.parametrize(("option", "path", "problem"), [
    ("--log", "folder", "is a folder"), ("--record", "folder", "is a folder"), ("--record", "fifo", "is no regular file"),
    ("--log", "none/log", "is in no folder"), ("--levels", "none", "is no file that can be read"), ("--levels", "folder", "is no file that can be read"),
])
def test_files_of_a_run_are_looked_at_before_anything_is_built(tmp_path, monkeypatch, capsys, option, path, problem):
    """The preload library would write nothing to them and say nothing. The record of an earlier run stays until there is another."""
    from gemmgen.cli import main

    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    os.mkfifo("fifo")
    Path("earlier").write_text("a record")
    monkeypatch.setattr(shim, "recipe_of", lambda library: {})
    monkeypatch.setattr(shim, "build", lambda library: pytest.fail("built"))
    more = [] if option == "--record" else ["--record", "earlier"]
    assert main(["run", "--library", "my lab", option, path, *more, "--json", "--", "echo", "a b"]) == 2
    told = json.loads(capsys.readouterr().out)
    file = {"--log": "--log calls.jsonl", "--record": "--record program.jsonl", "--levels": "--record program.jsonl"}[option]
    assert told["problem"] == problem and told["try"].startswith(f"gemmgen run --library 'my lab' {file} -- echo 'a b'")
    assert Path("earlier").read_text() == "a record"


def test_the_shim_is_built_again_only_when_something_changed():
    folder = dropped_in.folder()
    first = shim.build(folder)
    before = [path.stat().st_mtime_ns for path in (first.preload, first.audit)]
    assert shim.build(folder) == first and [path.stat().st_mtime_ns for path in (first.preload, first.audit)] == before
    for changed, again in ((folder / "liblab.so", (True, False)), (folder / "shim" / "core.h", (True, True))):
        later = max(path.stat().st_mtime_ns for path in (first.preload, first.audit)) + 1_000_000
        os.utime(changed, ns=(later, later))
        shim.build(folder)
        after = [path.stat().st_mtime_ns for path in (first.preload, first.audit)]
        assert tuple(x > y for x, y in zip(after, before)) == again, changed
        before = after


def test_settings_of_an_earlier_run_do_not_stay(tmp_path):
    """And other preloaded libraries do, behind the preload library, which is named once."""
    built = shim.Built("lab", "LAB", tmp_path / "liblab.so", tmp_path / "p.so", tmp_path / "a.so")
    base = {"LAB_OFF": "1", "LAB_LEVELS": "old", "LAB_OTHER": "kept", "LD_PRELOAD": f"other.so {tmp_path}/p.so", "PATH": "/bin"}
    assert dropped.environment(built, dropped.Settings(log=tmp_path / "log", min_gain=0, audit=False), base) == {
        "LAB_OTHER": "kept", "PATH": "/bin", "LD_PRELOAD": f"{tmp_path}/p.so:other.so", "LAB_LOG": f"{tmp_path}/log", "LAB_MIN_GAIN": "0"}


def test_every_setting_is_a_variable(tmp_path):
    built = shim.Built("lab", "LAB", tmp_path / "liblab.so", tmp_path / "p.so", tmp_path / "a.so")
    asked = dropped.Settings(tmp_path / "log", tmp_path / "record", tmp_path / "levels", largest_error=0, min_gain=2.5, check=True, frames=3)
    assert dropped.environment(built, asked, {"LD_AUDIT": "b.so", "LAB_FRAMES": "8"}) == {
        "LD_PRELOAD": f"{tmp_path}/p.so", "LD_AUDIT": f"{tmp_path}/a.so:b.so", "LAB_LOG": f"{tmp_path}/log", "LAB_RECORD": f"{tmp_path}/record",
        "LAB_LEVELS": f"{tmp_path}/levels", "LAB_LARGEST_ERROR": "0", "LAB_MIN_GAIN": "2.5", "LAB_CHECK": "1", "LAB_FRAMES": "3"}
    assert dropped.environment(built, dropped.Settings(frames=2), {})["LAB_FRAMES"] == "2"
    assert dropped.environment(built, dropped.Settings(), {}) == {"LD_PRELOAD": f"{tmp_path}/p.so", "LD_AUDIT": f"{tmp_path}/a.so"}


def test_what_a_log_holds(tmp_path):
    """Sums over kinds and processes, the most frequent first; lines that are none are left out."""
    counts = dict.fromkeys(dropped.COUNTED, 0)
    lines = [
        {"taken": True, "kernel": "few", "count": 2, "checked": 2, **counts, "a_lossy": 3},
        {"taken": True, "kernel": "many", "count": 5, "checked": 4, **counts, "a_lossy": 4},
        {"taken": True, "kernel": "few", "count": 1}, {"taken": False, "reason": "rare", "count": 1}, {"taken": False, "reason": "often", "count": 4},
        {"taken": False, "reason": "often", "count": 3}, {"summary": True, "untold": 2}, {"summary": True, "untold": 5}, {"summary": True}, [1], 5]
    (tmp_path / "log").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"taken": true, "cou')
    found = dropped.read_log(tmp_path / "log", code=9)
    assert (found.taken, found.passed, found.processes, found.untold, found.code) == (8, 8, 3, 7, 9)
    assert list(found.kernels.items()) == [("many", 5), ("few", 3)] and list(found.reasons.items()) == [("often", 7), ("rare", 1)]
    assert found.counters == {"checked": 6, **counts, "a_lossy": 7}
    told = found.as_dict()
    assert {key: told[key] for key in ("taken", "passed", "processes", "untold", "code")} == {"taken": 8, "passed": 8, "processes": 3, "untold": 7, "code": 9}
    assert (told["reasons"], told["kernels"], told["counters"], len(told["calls"])) == (found.reasons, found.kernels, found.counters, 6)
    nothing = dropped.read_log(tmp_path / "none", code=3)
    assert (nothing.taken, nothing.passed, nothing.counters, nothing.processes, nothing.code) == (0, 0, None, 0, 3)
    record = {"ordinal": 1, "routine": "r", "m": 2, "n": 3, "k": 4, "layout": "nt", "batch": 5, "site": "s", "taken": False}
    (tmp_path / "record").write_text("\n".join(json.dumps(one) for one in (record, record | {"ordinal": 0, "taken": True, "kernel": "few", "seconds": 1e-3,
        "sgemm_seconds": 2e-3})))
    assert dropped.read_record(tmp_path / "record") == [
        dropped.Call(0, "r", 2, 3, 4, "nt", 5, "s", True, "few", 1e-3, 2e-3), dropped.Call(1, "r", 2, 3, 4, "nt", 5, "s", False, None, 0.0, 0.0)]
    with pytest.raises(GemmgenError, match="is no record"):
        dropped.read_record(tmp_path / "log")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(GemmgenError, match="cannot be read"):
        dropped.read_log(tmp_path / "fifo")


def test_a_program_that_a_signal_ends():
    assert dropped.run(dropped_in.built(), ["/bin/sh", "-c", "kill -9 $$"], dropped.Settings()).code == 137


def test_what_a_library_is_built_from(tmp_path, monkeypatch):
    """Without CMake by the compiler alone, of both sources; what the compiler says where it fails; a recipe that is not whole is none."""
    import ctypes

    for name, text in (("lab.c", "int other(void);\n__attribute__((visibility(\"default\"))) int lab_kernels(void) { return other(); }\n"),
                       ("code.c", "int other(void);\nint other(void) { return 3; }\n")):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / name).write_text(text)
    which = shim.shutil.which
    monkeypatch.setattr(shim.shutil, "which", lambda name: None if name == "cmake" else which(name))
    assert shim.kernels_of(tmp_path, "lab") is None
    shim._build_kernels(tmp_path, {"name": "lab", "guard": "LAB"}, "gcc")
    assert shim.kernels_of(tmp_path, "lab") == tmp_path / "build" / "liblab.so" and ctypes.CDLL(str(tmp_path / "build" / "liblab.so")).lab_kernels() == 3
    (tmp_path / "src" / "code.c").write_text("#error nothing\n")
    with pytest.raises(GemmgenError, match="fails in"):
        shim._build_kernels(tmp_path, {"name": "lab", "guard": "LAB"}, "gcc")
    with pytest.raises(GemmgenError, match="no-such-compiler: is not installed"):
        shim._build_kernels(tmp_path, {"name": "lab", "guard": "LAB"}, "no-such-compiler")
    recipe = json.loads((dropped_in.folder() / shim.RECIPE).read_text())
    (tmp_path / "shim").mkdir()
    for wrong in (recipe | {"audit": {}}, recipe | {"preload": {**recipe["preload"], "sources": [3]}}, {key: recipe[key] for key in recipe if key != "guard"},
                  [1]):
        (tmp_path / shim.RECIPE).write_text(json.dumps(wrong))
        with pytest.raises(GemmgenError, match="is no library with a preload library"):
            shim.recipe_of(tmp_path)
    (tmp_path / shim.RECIPE).write_text(json.dumps(recipe))
    assert shim.recipe_of(tmp_path) == recipe


def test_the_page_tells_every_reason_and_function():
    page = (Path(__file__).parents[2] / "docs" / "drop-in.md").read_text()
    assert not [words for words in shim.REASONS.values() if f"`{words}`" not in page]
    forms = [form for one in shim.INTERFACES for forms in one.forms.values() for form in forms if form.macro != "BATCHED"]
    # AMD's routines of other elements are told by their FP32's names, and those of Hermitian matrices by an example.
    plain = [re.sub("(?<=hipblas)[DCZ]|(?<=rocblas_)[dcz]", lambda letter: "S" if letter[0].isupper() else "s", form.name) for form in forms]
    assert not [form.name for form, name in zip(forms, plain) if name not in page and not re.search("he(mm|rk|r2k)", name)]
    assert all(name in page for name in ("HEMM, HERK and HER2K", "hipblasCherk", "rocblas_zher2k_strided_batched"))
