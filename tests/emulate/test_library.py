"""A library's functions give right numbers: its runtime launches through a stand-in for the driver into the emulator."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from assembled import assembled
from standin import GCC, Library

from gemmgen.build import Built
from gemmgen.library.dispatch import Estimate
from gemmgen.library.ends import FUSED
from gemmgen.library.kernel import Kernel
from gemmgen.library.structures import Choice, Packed, Problem, Status, sized
from gemmgen.plan import Plan
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

TILE = {"block": [64, 64, 32], "warp": [32, 32, 32]}
GROUP = {"block": [64, 16, 32], "warp": [64, 16, 32], "cluster": 1}
SECONDS = {"sms": 108, "launch": 5e-6, "wave": 1e-6, "step": 1e-8, "operand": 1e-12, "output": 2e-12}
OK, BAD_A, BAD_PACKED, NOT_SERVED = 0, -11, -18, -21
ROW, COLUMN = 0, 1
LONG = pytest.mark.long
IDENTITY, RELU, GELU_ERF, GELU_TANH = range(4)


@cache
def kernel(label: str, gpu="a100", scheme="ootomo", layout="nn", tile=None, kind="gemm", special="exact", fallback=False, seconds=1.0, fused=False,
           **split) -> Kernel:
    """A small kernel; estimates are so many times the usual one."""
    plan = solve(loads({
        "problem": {"layout": layout, "kind": kind}, "split": {"scheme": scheme, "special": special, **split}, "target": {"gpu": gpu},
        "tile": dict(tile or TILE), "build": {"allow_spills": True},
    }))
    return of_plan(label, replace(plan, epilogue=FUSED) if fused else plan, fallback, seconds)


def of_plan(label: str, plan: Plan, fallback: bool = False, seconds: float = 1.0) -> Kernel:
    """A plan's kernel, which only the emulator runs."""
    source = render(plan)
    resources = {launch.symbol: SimpleNamespace(static_shared_bytes=0) for launch in source.launches}
    estimate = Estimate(tile=plan.block[:2], slices=1, **{**SECONDS, "launch": seconds * SECONDS["launch"]})
    built = Built(plan, source, replace(assembled(source), kernels=resources))
    return Kernel(label, built, None if fallback else estimate, "for a test", fallback)


class Frozen(dict):
    """A tile that can be an argument of what is cached."""

    def __hash__(self):
        return hash(str(sorted(self.items())))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Library:
    """Kernels for an A100 by two schemes, one that scales rows, one without a split pass, one of batches; and a fallback."""
    return Library(tmp_path_factory.mktemp("library"), [
        kernel("nn"), kernel("tn", layout="tn"), kernel("scaled_nt", scheme="scaled", layout="nt", special="fast"),
        kernel("tt", layout="tt", where="shared"),
        kernel("any_nn", gpu="t4", scheme="fp32", tile=Frozen(block=[32, 64, 16], warp=[16, 32, 16]), special="fast", fallback=True),
    ], archs=["sm_80"], arch="sm_80")


@pytest.fixture(scope="module")
def fused(tmp_path_factory) -> Library:
    """Kernels that add a bias and apply an activation themselves: of one product, and of a batch; and a fallback that does not."""
    return Library(tmp_path_factory.mktemp("fused"), [
        kernel("nn", fused=True), kernel("batched_tn", kind="strided", layout="tn", tile=Frozen(TILE | {"split_k": 1}), fused=True),
        kernel("any_nt", gpu="t4", scheme="fp32", layout="nt", tile=Frozen(block=[32, 64, 16], warp=[16, 32, 16]), special="fast", fallback=True),
    ], archs=["sm_80"], arch="sm_80")


class Call:
    """A product with everything that a problem tells of it, and what it should give."""

    def __init__(self, library: Library, m: int, n: int, k: int, *, order=ROW, transpose=(0, 0), alpha=1.0, beta=0.0, batch=0, epilogue=IDENTITY, bias=False,
                 on_device=False, share=(), seed=0, pointers=False):
        self.library, rng = library, np.random.default_rng(seed)
        count = max(batch, 1)
        self.a, self.b, self.before = (rng.uniform(-1, 1, (count, *shape)).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        for one in share:
            getattr(self, one)[1:] = getattr(self, one)[0]
        stored = []
        for x, turned in ((self.a, transpose[0]), (self.b, transpose[1]), (self.before, 0)):
            x = x.transpose(0, 2, 1) if turned != (order == COLUMN) else x
            padded = np.full((*x.shape[:2], x.shape[2] + 3), np.nan, np.float32)
            padded[:, :, : x.shape[2]] = x
            # Matrices that an array of pointers tells begin at any multiple of 4 bytes.
            stored.append([library.put(one, misalign=4 * (at % 4)) for at, one in enumerate(padded)] if pointers else library.put(padded, misalign=4))
        self.stored, self.order = stored, order
        self.bias = rng.uniform(-1, 1, n if order == ROW else m).astype(np.float32) if bias else None
        self.scalars = library.put(np.array([alpha, beta], np.float32))
        self.alpha, self.beta, self.epilogue = np.float32(alpha), np.float32(beta), epilogue
        names = ("a", "b", "c")
        self.lists = [library.point_to(one) for one in stored] if pointers else []
        self.problem = sized(
            Problem, order=order, transpose_a=transpose[0], transpose_b=transpose[1], epilogue=epilogue, m=m, n=n, k=k, batch=batch,
            flags=int(on_device) + 4 * pointers,
            alpha=self.scalars.ctypes.data, beta=self.scalars[1:].ctypes.data, bias=library.put(self.bias).ctypes.data if bias else None,
            **{x: s.ctypes.data for x, s in zip(names, self.lists or stored)}, **{f"ld{x}": s[0].shape[1] for x, s in zip(names, stored)},
            **{f"stride_{x}": 0 if x in share or pointers else s[0].size for x, s in zip(names, stored)},
        )

    @property
    def choice(self) -> Choice:
        choice = sized(Choice)
        assert self.library("select", ctypes.byref(self.problem), None, ctypes.byref(choice)) == OK
        return choice

    @property
    def c(self) -> np.ndarray:
        """[batch, M, N] as it is now."""
        c = np.asarray(self.stored[2])[:, :, :-3]
        return c if self.order == ROW else c.transpose(0, 2, 1)

    def wanted(self) -> np.ndarray:
        """In FP64."""
        x = self.alpha * np.float64(self.a) @ np.float64(self.b) if self.alpha else 0
        if self.beta:
            x = x + self.beta * np.float64(self.before)
        x = x + np.zeros(self.before.shape)
        if self.bias is not None:
            x = x + (self.bias if self.order == ROW else self.bias[:, None])
        erf = np.vectorize(math.erf)
        return {IDENTITY: lambda: x, RELU: lambda: np.maximum(x, 0), GELU_ERF: lambda: x * (1 + erf(x / math.sqrt(2))) / 2,
                GELU_TANH: lambda: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2}[self.epilogue]()

    def check(self) -> None:
        off = np.abs(self.c - self.wanted()).max(axis=(1, 2)) / np.maximum(1, np.abs(self.a).max(axis=(1, 2)))
        assert (off < 3e-6 * math.sqrt(self.a.shape[2] + 4)).all(), off
        assert np.isnan(np.asarray(self.stored[2])[:, :, -3:]).all(), "elements beside C were written"

    def run(self, workspace: bool = True) -> np.ndarray:
        """Enqueues it; returns the workspace."""
        memory = self.library.empty(self.choice.workspace_bytes) if workspace else None
        code = self.library("gemm", ctypes.byref(self.problem), ctypes.c_void_p(memory.ctypes.data if workspace else None),
                            ctypes.c_size_t(memory.nbytes if workspace else 0), None)
        assert code == OK, self.library("error_string", code)
        return memory


@pytest.mark.parametrize(("order", "transpose", "name"), [
    (ROW, (0, 0), "nn"), pytest.param(ROW, (1, 0), "tn", marks=LONG), pytest.param(ROW, (0, 1), "scaled_nt", marks=LONG), (ROW, (1, 1), "tt"),
    (COLUMN, (0, 1), "tn"), pytest.param(COLUMN, (1, 0), "scaled_nt", marks=LONG),
])
def test_every_layout_and_order(made, order, transpose, name):
    call = Call(made, 70, 45, 50, order=order, transpose=transpose, alpha=0.5, beta=2.0)
    chosen = next(one for one in made.kernels if one.label == name)
    assert call.choice.name.decode() == chosen.built.source.name
    call.run()
    call.check()


@pytest.mark.parametrize(("order", "epilogue", "bias", "on_device", "alpha", "beta"), [
    (ROW, RELU, True, False, 1.0, 0.0), (COLUMN, GELU_ERF, True, True, -0.5, 2.0), (ROW, GELU_TANH, False, True, 0.5, 0.0),
    pytest.param(ROW, IDENTITY, False, True, 1.5, 1.0, marks=LONG),
])
def test_epilogues_and_scalars_of_the_device(made, order, epilogue, bias, on_device, alpha, beta):
    call = Call(made, 34, 130, 20, order=order, transpose=(0, 0) if order == ROW else (0, 1), alpha=alpha, beta=beta, epilogue=epilogue, bias=bias,
                on_device=on_device)
    if not beta:
        call.stored[2][...] = np.nan
    call.run()
    call.check()


@pytest.mark.parametrize(("name", "order", "transpose", "epilogue", "bias", "more", "finishes"), [
    ("nn", ROW, (0, 0), RELU, True, {}, 0), ("nn", COLUMN, (0, 0), RELU, True, {"beta": 2.0}, 0),
    ("nn", ROW, (0, 0), GELU_ERF, True, {"beta": 2.0}, 1), ("nn", ROW, (0, 0), GELU_TANH, False, {}, 1),
    ("nn", ROW, (0, 0), IDENTITY, True, {}, 0), ("nn", ROW, (0, 0), IDENTITY, False, {}, 0), ("nn", ROW, (0, 0), RELU, True, {"on_device": True}, 1),
    ("batched_tn", ROW, (1, 0), RELU, True, {"batch": 3}, 0), ("any_nt", ROW, (0, 1), RELU, True, {}, 1),
], ids=["relu", "of columns, with C", "gelu, with C", "gelu_tanh alone", "bias alone", "nothing", "scalars of the device", "a batch", "the fallback"])
def test_kernels_that_end_c_themselves_need_no_launch_for_it(fused, name, order, transpose, epilogue, bias, more, finishes):
    call = Call(fused, 70, 45, 50, order=order, transpose=transpose, alpha=0.5, epilogue=epilogue, bias=bias, **more)
    assert call.choice.name.decode() == next(one for one in fused.kernels if one.label == name).built.source.name
    before = len(fused.launched)
    call.run()
    call.check()
    assert [symbol for symbol, _ in fused.launched[before:]].count("finish") == finishes


@pytest.mark.parametrize("on_device", [False, True], ids=["scalars of the host", "of the device"])
def test_alpha_0_lets_no_nan_of_a_or_b_through(made, on_device):
    call = Call(made, 20, 30, 40, alpha=0.0, beta=0.5, on_device=on_device)
    call.stored[0][...] = np.nan
    if not on_device:
        call.problem.a = None
    call.run()
    call.check()


@pytest.mark.parametrize(("on_device", "share", "products"), [
    (True, (), 2), pytest.param(False, ("a",), 2, marks=LONG), (False, ("b",), 1),
], ids=["one after another", "that share A", "that share B, as one"])
def test_a_batch(made, on_device, share, products):
    """Of rows by one B it is one product of more rows."""
    call = Call(made, 20, 36, 20, transpose=(0, 1), batch=2, alpha=0.5, beta=-1.0, on_device=on_device, bias=on_device, share=share)
    if not share:  # the second product's maxima are its own
        call.stored[0][0, :, :-3] *= 2.0**40
        call.a[0] *= 2.0**40
    before = len(made.launched)
    memory = call.run()
    call.check()
    launched = [symbol for symbol, _ in made.launched[before:]]
    assert len(launched) == products * (len(made.kernels[2].built.source.launches) + on_device)
    assert status_of(made, memory)["a_nonfinite"] == 0


def status_of(library: Library, memory: np.ndarray) -> dict[str, int]:
    status = Status()
    assert library("read_status", ctypes.c_void_p(memory.ctypes.data), None, ctypes.byref(status)) == OK
    return {name: getattr(status, name) for name, _ in Status._fields_}


def test_counters_add_up_over_a_batch(made):
    call = Call(made, 20, 36, 20, batch=2)
    for one in range(2):
        call.stored[1][one, 5, 6] = np.inf
    memory = call.run()
    counted = status_of(made, memory)
    assert counted["b_nonfinite"] == 2 and counted["repaired"] == 2 * 20


def packed_by(call: Call, operand: str) -> Packed:
    """The call's operand, packed by the library; its memory is kept as the struct's attribute `held`."""
    library, needed = call.library, ctypes.c_size_t()
    assert library("pack_bytes", ctypes.byref(call.problem), ctypes.c_char(operand.encode()), None, ctypes.byref(needed)) == OK
    memory = library.empty(needed.value)
    packed = sized(Packed)
    code = library("pack", ctypes.byref(call.problem), ctypes.c_char(operand.encode()), ctypes.c_void_p(memory.ctypes.data), needed, None, ctypes.byref(packed))
    assert code == OK, library("error_string", code)
    packed.held = memory
    return packed


def run_packed(call: Call, packed: Packed) -> int:
    choice = sized(Choice)
    code = call.library("select_packed", ctypes.byref(call.problem), ctypes.byref(packed), None, ctypes.byref(choice))
    if code != OK:
        return code
    memory = call.library.empty(choice.workspace_bytes)
    at = ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes)
    return call.library("gemm_packed", ctypes.byref(call.problem), ctypes.byref(packed), *at, None)


@pytest.mark.parametrize(("operand", "order", "transpose"), [
    ("b", ROW, (0, 1)), pytest.param("a", ROW, (0, 1), marks=LONG), pytest.param("b", COLUMN, (1, 0), marks=LONG),
])
def test_an_operand_is_packed_once_and_serves_any_other_extent(made, operand, order, transpose):
    first = Call(made, 20, 36, 20, order=order, transpose=transpose)
    packed = packed_by(first, operand)
    assert (packed.rows, packed.columns) == ((20, 20) if operand == "a" else (20, 36))
    m, n = (75, 36) if operand == "b" else (20, 75)
    call = Call(made, m, n, 20, order=order, transpose=transpose, alpha=2.0, beta=1.0, seed=1)
    x = first.a if operand == "a" else first.b
    setattr(call, operand, x)
    setattr(call.problem, operand, None)  # scaled, fast: only its words are read
    before = len(made.launched)
    assert run_packed(call, packed) == OK
    call.check()
    passes = [launch for launch in made.kernels[2].built.source.launches if launch.role != "gemm"]
    half = [blocks for symbol, blocks in made.launched[before:] if symbol != made.kernels[2].built.source.name]
    whole = [launch.blocks(made.kernels[2].built.source.interface.extents(m if order == ROW else n, n if order == ROW else m, 20)) for launch in passes]
    assert all(one < two for one, two in zip(half, whole, strict=True)), "the other operand's blocks alone"


def test_packed_words_serve_kernels_of_other_layouts_and_repairs_read_the_operand(made):
    """B's words for nn and tn are the same; those kernels repair, so that B is needed besides, as it is stored."""
    first = Call(made, 20, 36, 40)
    packed = packed_by(first, "b")
    assert status_of(made, packed.held)["b_nonfinite"] == 0
    call = Call(made, 50, 36, 40, transpose=(1, 0), seed=1)
    call.b, call.problem.b, call.problem.ldb = first.b, first.problem.b, first.problem.ldb
    assert run_packed(call, packed) == OK
    call.check()
    call.problem.b = None
    assert run_packed(call, packed) == -12
    wrong = Call(made, 50, 44, 40)
    assert run_packed(wrong, packed) == BAD_PACKED


def test_what_is_split_inside_the_kernel_is_not_packed(made):
    call = Call(made, 20, 36, 40, transpose=(1, 1))
    needed = ctypes.c_size_t()
    assert made("pack_bytes", ctypes.byref(call.problem), ctypes.c_char(b"b"), None, ctypes.byref(needed)) == NOT_SERVED


def test_what_no_kernel_serves_goes_to_the_fallback(made):
    call = Call(made, 33, 45, 50, alpha=0.5, beta=2.0)
    made.current("sm_120", device=1)
    try:
        assert call.choice.is_fallback == 1
        call.run()
        call.check()
        call = Call(made, 33, 45, 50, transpose=(0, 1))
        assert made("gemm", ctypes.byref(call.problem), None, ctypes.c_size_t(0), None) == NOT_SERVED
    finally:
        made.current("sm_80")


def test_workspaces_of_the_pool_and_of_the_callers_allocator(made):
    call = Call(made, 33, 45, 50)
    taken, given = made["taken"], made["given"]
    call.run(workspace=False)
    call.check()
    assert (made["taken"], made["given"]) == (taken + 1, given + 1) and made["taken_bytes"] == call.choice.workspace_bytes
    made["most_pool"] = 0
    assert made("gemm", ctypes.byref(call.problem), None, ctypes.c_size_t(0), None) == -24
    made["most_pool"] = 1 << 40


@pytest.mark.parametrize(("transa", "transb"), ["nt", pytest.param("c", "n", marks=LONG)])
def test_sgemm_of_blas(made, transa, transb):
    turned = (transa != "n", transb != "n")
    call = Call(made, 21, 34, 20, order=COLUMN, transpose=tuple(map(int, turned)), alpha=0.5, beta=2.0)
    p = call.problem
    code = made("sgemm", ctypes.c_char(transa.encode()), ctypes.c_char(transb.upper().encode()), 21, 34, 20, ctypes.c_void_p(p.alpha), ctypes.c_void_p(p.a),
                int(p.lda), ctypes.c_void_p(p.b), int(p.ldb), ctypes.c_void_p(p.beta), ctypes.c_void_p(p.c), int(p.ldc), None)
    assert code == OK
    call.check()


@pytest.mark.parametrize(("order", "transpose", "epilogue", "on_device", "beta"), [
    (ROW, (0, 0), IDENTITY, False, 0.0), pytest.param(ROW, (1, 0), IDENTITY, False, 2.0, marks=LONG), (COLUMN, (1, 0), RELU, True, -1.0),
    pytest.param(ROW, (1, 1), IDENTITY, True, 0.0, marks=LONG), pytest.param(COLUMN, (0, 1), GELU_ERF, False, 0.5, marks=LONG),
], ids=["nn", "tn", "of columns, on the device", "tt", "of columns, tn"])
def test_a_batch_of_pointers_is_copied_for_kernels_that_know_of_none(made, order, transpose, epilogue, on_device, beta):
    """Of every layout and alignment; with beta 0 a NaN of C does no harm."""
    call = Call(made, 21, 37, 19, order=order, transpose=transpose, batch=3, alpha=0.5, beta=beta, epilogue=epilogue, on_device=on_device, pointers=True)
    if not beta:
        for one in call.stored[2]:
            one[:, :-3] = np.nan
    before = len(made.launched)
    call.run()
    call.check()
    launched = [symbol for symbol, _ in made.launched[before:]]
    number = call.choice.kernel
    assert len(launched) == 3 * (3 + len(made.kernels[number].built.source.launches)) and launched.count("finish") == 9


def test_a_batch_of_pointers_without_a_product_or_with_alpha_0(made):
    call = Call(made, 20, 30, 40, alpha=0.0, beta=0.5, batch=2, pointers=True)
    call.problem.a = call.problem.b = None
    call.run()
    call.check()
    launched = len(made.launched)
    call = Call(made, 20, 30, 40, batch=1, alpha=2.0, pointers=True)
    call.run()
    call.check()
    assert len(made.launched) > launched
    launched, call.problem.batch = len(made.launched), -1
    call.run(workspace=False)
    assert len(made.launched) == launched
