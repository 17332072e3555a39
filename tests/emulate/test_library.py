"""A library's functions give right numbers: its runtime launches through a stand-in for the driver into the emulator."""

from __future__ import annotations

import ctypes
import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.build import Built
from gemmgen.explore.dispatch import Estimate
from gemmgen.library.kernel import Kernel
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from assembled import assembled
from standin import GCC, Choice, Library, Packed, Problem, Status, sized

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")

TILE = {"block": [64, 64, 32], "warp": [32, 32, 32]}
GROUP = {"block": [64, 16, 32], "warp": [64, 16, 32], "cluster": 1}
SECONDS = {"sms": 108, "launch": 5e-6, "wave": 1e-6, "step": 1e-8, "operand": 1e-12, "output": 2e-12}
OK, BAD_A, BAD_PACKED, NOT_SERVED = 0, -11, -18, -21
ROW, COLUMN = 0, 1
IDENTITY, RELU, GELU_ERF, GELU_TANH = range(4)


@cache
def kernel(label: str, gpu="a100", scheme="ootomo", layout="nn", tile=None, kind="gemm", special="exact", fallback=False, seconds=1.0, **split) -> Kernel:
    """A small kernel; estimates are so many times the usual one."""
    plan = solve(loads({
        "problem": {"layout": layout, "kind": kind}, "split": {"scheme": scheme, "special": special, **split}, "target": {"gpu": gpu},
        "tile": dict(tile or TILE), "build": {"allow_spills": True},
    }))
    source = render(plan)
    resources = {launch.symbol: SimpleNamespace(static_shared_bytes=0) for launch in source.launches}
    estimate = Estimate(tile=plan.block[:2], slices=1, **{**SECONDS, "launch": seconds * SECONDS["launch"]})
    return Kernel(label, Built(plan, source, replace(assembled(source), kernels=resources)), None if fallback else estimate, "for a test", fallback)


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


class Call:
    """A product with everything that a problem tells of it, and what it should give."""

    def __init__(self, library: Library, m: int, n: int, k: int, *, order=ROW, transpose=(0, 0), alpha=1.0, beta=0.0, batch=0, epilogue=IDENTITY, bias=False,
                 on_device=False, share=(), seed=0):
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
            stored.append(library.put(padded, misalign=4))
        self.stored, self.order = stored, order
        self.bias = rng.uniform(-1, 1, n if order == ROW else m).astype(np.float32) if bias else None
        self.scalars = library.put(np.array([alpha, beta], np.float32))
        self.alpha, self.beta, self.epilogue = np.float32(alpha), np.float32(beta), epilogue
        names = ("a", "b", "c")
        self.problem = sized(
            Problem, order=order, transpose_a=transpose[0], transpose_b=transpose[1], epilogue=epilogue, m=m, n=n, k=k, batch=batch, flags=int(on_device),
            alpha=self.scalars.ctypes.data, beta=self.scalars[1:].ctypes.data, bias=library.put(self.bias).ctypes.data if bias else None,
            **{x: s.ctypes.data for x, s in zip(names, stored)}, **{f"ld{x}": s.shape[2] for x, s in zip(names, stored)},
            **{f"stride_{x}": 0 if x in share else s[0].size for x, s in zip(names, stored)},
        )

    @property
    def choice(self) -> Choice:
        choice = sized(Choice)
        assert self.library("select", ctypes.byref(self.problem), None, ctypes.byref(choice)) == OK
        return choice

    @property
    def c(self) -> np.ndarray:
        """[batch, M, N] as it is now."""
        c = self.stored[2][:, :, :-3]
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
        off = np.abs(self.c - self.wanted()).max()
        assert off < 3e-6 * math.sqrt(self.a.shape[2] + 4), off
        assert np.isnan(self.stored[2][:, :, -3:]).all(), "elements beside C were written"

    def run(self, workspace: bool = True) -> np.ndarray:
        """Enqueues it; returns the workspace."""
        memory = self.library.empty(self.choice.workspace_bytes) if workspace else None
        code = self.library("gemm", ctypes.byref(self.problem), ctypes.c_void_p(memory.ctypes.data if workspace else None),
                            ctypes.c_size_t(memory.nbytes if workspace else 0), None)
        assert code == OK, self.library("error_string", code)
        return memory


@pytest.mark.parametrize(("order", "transpose", "name"), [
    (ROW, (0, 0), "nn"), (ROW, (1, 0), "tn"), (ROW, (0, 1), "scaled_nt"), (ROW, (1, 1), "tt"), (COLUMN, (0, 1), "tn"), (COLUMN, (1, 0), "scaled_nt"),
])
def test_every_layout_and_order(made, order, transpose, name):
    call = Call(made, 70, 45, 50, order=order, transpose=transpose, alpha=0.5, beta=2.0)
    chosen = next(one for one in made.kernels if one.label == name)
    assert call.choice.name.decode() == chosen.built.source.name
    call.run()
    call.check()
