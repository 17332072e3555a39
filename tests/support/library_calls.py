"""Random calls of a library's C functions: what each has to give and to ask of the driver, worked out from the header's text and the plans' own tables.

    replayed = Replay(folder, sanitiser="address,undefined")
    for call, answer in zip(drawn, replayed(drawn)):
        replayed.reference.check(call, answer)

tests/support/library_replay.c replays them under a sanitiser on tests/support/standin_driver.c, which records every call of the driver. Nothing here reads C.
The same kernels stand for both platforms: on HIP's the stand-in calls its devices `sm_80` and the like.

    python tests/support/library_calls.py            # 80,000 calls of each kind, as a table
    python tests/support/library_calls.py 4000       # fewer
"""

from __future__ import annotations

import argparse
import ctypes
import math
import random
import struct
import subprocess
import tempfile
import unittest.mock
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from standin import FINISH_KINDS, GCC, GUARD, LARGEST_EXTENT, written
from ways import WAYS, plan_of

from gemmgen.abi import interface
from gemmgen.build import Binary, Built
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.residues import SEGMENT_K
from gemmgen.export import prose
from gemmgen.library import kernel as kernel_module
from gemmgen.library import tables
from gemmgen.library.dispatch import Estimate, Rule
from gemmgen.library.kernel import FINISH, FINISH_THREADS, FINISH_TILE, Image, Kernel
from gemmgen.library.routines import LEVEL3, NUMBERS
from gemmgen.library.structures import Packed, Problem, Target, sized
from gemmgen.model.time import C_READS, FIRST_K, FIRST_SECONDS, VECTOR_SHARE
from gemmgen.naming import kernel_name
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.solve import solve
from gemmgen.spec import loads

HERE = Path(__file__).parent
OK, BAD_STRUCT, BAD_ORDER, BAD_M, BAD_N, BAD_K, BAD_LDA, BAD_LDB, BAD_LDC, BAD_BATCH, BAD_STRIDE_C, BAD_A, BAD_B, BAD_C, BAD_EPILOGUE, BAD_FLAGS, BAD_KERNEL, \
    BAD_WORKSPACE, BAD_PACKED, BAD_OPERAND, TOO_LARGE, NOT_SERVED, NO_DRIVER, NO_CONTEXT, NO_MEMORY, BAD_STRIDE_A, BAD_STRIDE_B, BAD_KIND = range(0, -28, -1)
ON_DEVICE, UNCOUNTED, POINTERS = 1, 2, 4
SYRK, SYR2K, GEMMT, SYMM, TRMM, TRSM = (NUMBERS[name] for name in LEVEL3[:6])  # of real elements
OF_TRIANGLE = SYRK, SYR2K, GEMMT
POINTER_STRIDE = -(2**63)
FAR = 2**62
"""Elements from the first row or matrix to the last one, of which there may be fewer only."""
MOST_TURNS = 2**20
MOST_BYTES = 2**61
MOST_POOL = 1 << 24
"""Bytes that the stand-in's pools give at once."""
PASSES = ("absmax", "norms", "split")
STATIC = {"fast_nt": 40000, "sliced": 101376 + 512 - 32768}
"""Bytes of shared memory that kernels have without asking for them: the first one has more than 48 KB together; the other one more than a block of sm_86
may have, and less than a multiprocessor has."""
USUAL_SHARED = 48 * 1024
BOUND_K = (64, 4096)
"""The k of which the library's tables tell bounds; tests of more are in tests/unit/test_library_runtime.py."""
FAILED = 77
"""The code of a driver call that a test lets fail."""

DEVICES = ((8, 0, 108, 166912), (9, 0, 150, 232448), (8, 6, 20, 101376), (9, 0, 7, 196752), (12, 0, 170, 101376), (7, 5, 40, 65536), (7, 0, 80, 98304))
"""(major, minor, multiprocessors, shared memory of a block) of the stand-in's; the fourth has what one of the kernels takes, to the byte."""

FUNCTIONS = GEMM, GEMM_PACKED, PACK, SELECT, SELECT_PACKED, PACK_BYTES, SGEMM, READ_STATUS, PREPARE, CURRENT_TARGET = range(10)
ALPHA_OF_HOST, BETA_OF_HOST, WITH_TARGET, OWN_MEMORY, MISALIGNED = 1, 2, 4, 8, 16
CALLS = ("version", "error_string", "initialize", "current", "retain", "release", "make_current", "attribute", "exchange", "load", "unload", "function", "allow",
         "launch", "overlapping", "fill", "copy", "synchronize", "pool_create", "pool_set", "pool_destroy", "take", "give")
WORK = {"launch", "overlapping", "fill", "copy", "synchronize", "take", "give"}
"""What a call of the library is for; the rest happens once for each device."""


class Call(ctypes.Structure):
    _fields_ = [
        *((one, ctypes.c_int32) for one in ("function", "device", "fails_in", "fails_with")), ("flags", ctypes.c_uint32),
        *((one, ctypes.c_char) for one in ("operand", "transa", "transb", "none")), ("alpha", ctypes.c_float), ("beta", ctypes.c_float),
        *((one, ctypes.c_uint64) for one in ("workspace", "bytes", "stream")), ("problem", Problem), ("packed", Packed), ("target", Target),
    ]

    def __str__(self) -> str:
        told = [f"{name}={getattr(self.problem, name)}" for name, _ in Problem._fields_]
        packed = [f"{name}={getattr(self.packed, name)}" for name, _ in Packed._fields_]
        return (f"function {self.function} device {self.device} fails {self.fails_in} flags {self.flags} operand {self.operand} alpha {self.alpha} beta {self.beta} "
                f"workspace {self.workspace:#x} bytes {self.bytes} {self.transa}{self.transb}\n  {' '.join(told)}\n  packed {' '.join(packed)} "
                f"target {self.target.arch} {self.target.units}")


class Result(ctypes.Structure):
    _fields_ = [
        *((one, ctypes.c_int32) for one in ("code", "failed", "mode", "kernel", "is_fallback", "named")),
        *((one, ctypes.c_int64) for one in ("memory", "retained", "pools", "modules")), *((one, ctypes.c_uint64) for one in ("bytes", "bytes_packed", "recorded")),
        *((one, ctypes.c_double) for one in ("seconds", "sgemm_seconds", "error", "worst_case")), ("packed", Packed), ("target", Target),
    ]


@dataclass(frozen=True)
class Event:
    """One call of the driver."""

    kind: str
    code: int
    device: int
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    result: Result
    events: tuple[Event, ...]


# ---- the library


def of_plan(label: str, plan: Plan, estimate: Estimate | None, is_fallback: bool = False) -> Kernel:
    """A kernel whose machine code is its label, or that and the architecture where there are two; some have shared memory of a fixed size besides."""
    source = Source(name=kernel_name(plan), text="", suffix=".cu", interface=interface(plan), arch=plan.arch, allow_spills=False)
    resources = {launch.symbol: SimpleNamespace(static_shared_bytes=STATIC.get(label, 0)) for launch in source.launches}
    archs = ("sm_80", "sm_86") if label == "small" else (plan.arch,)
    first, *others = (
        Binary(arch=arch, code=f"{label}{'_' + arch if len(archs) > 1 else ''}\0".encode(), assembly=label, kernels=resources, compiler="", log="", key="",
               source_name=source.file_name, from_cache=False, seconds=0.0) for arch in archs
    )
    return Kernel(label, Built(plan, source, first, tuple(others)), estimate, f'for "{label}"', is_fallback, packs_b=label != "deep")


def estimate(plan: Plan, number: int, share: float = 1.0) -> Estimate:
    """One that no other kernel has, so that each is the fastest somewhere."""
    draw = random.Random(number)
    terms = {"launch": 5e-6, "wave": 2e-6, "step": 2e-8, "operand": 1e-12, "output": 2e-12}
    return Estimate(tile=plan.block[:2], slices=plan.split_k, sms=plan.gpu.rates.sms, **{name: share * draw.uniform(0.2, 2) * one for name, one in terms.items()})


@cache
def kernels() -> tuple[Kernel, ...]:
    """Of every kind that a library may hold: with and without passes, scales, slices, clusters, blocks that stay, batches, formats, estimates."""
    large = {"block": [128, 128, 32], "warp": [64, 32, 32]}
    strided = solve(loads({
        "problem": {"kind": "strided", "layout": "tn", "m": 256, "n": 256, "k": 256, "matrices": 64}, "split": {"scheme": "scaled", "promote": 64},
        "tile": {"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 1, "split_k": 1}, "pipeline": {"stages": 3}, "fragment": {"policy": "wgmma"},
        "target": {"gpu": "h100"}, "build": {"allow_spills": True},
    }))
    made = [
        ("small", plan_of()), ("large", plan_of(tile=large)), ("sliced", plan_of(split_k=3, scheme="scaled", special="fast")),
        ("deep", plan_of(tile=large, stages=4)), ("tn", plan_of(layout="tn", tile={"block": [32, 128, 32], "warp": [32, 32, 32]})),
        ("fast_nt", plan_of(layout="nt", special="fast", tile={"block": [128, 32, 32], "warp": [32, 32, 32]})),
        ("inside_tt", plan_of(layout="tt", where="shared")), ("lanes", plan_of(**WAYS["residues by lanes"])),
        ("k_tiles", plan_of(**WAYS["tiles of k"])), ("outliers", plan_of(**WAYS["outliers fall back"])),
        ("groups", plan_of(**WAYS["warpgroups, clusters"])), ("turns", plan_of(**WAYS["warpgroups that take turns, slices, clusters"])),
        ("residues", plan_of(**WAYS["residues"])), ("whole_nt", plan_of(**WAYS["warpgroups, row scales of whole rows"])),
        ("groups_nt", plan_of(**WAYS["warpgroups"] | {"layout": "nt"})),
        ("mixed", plan_of(**WAYS["warpgroups that split A"] | {"special": "fast"})),
        ("batch", strided), ("listed", replace(strided, batch=replace(strided.batch, pointers=True))),
        ("old", plan_of(gpu="t4", scheme="egemm", promote=0)),
    ]
    numbers = [1 if label == "deep" else at for at, (label, _) in enumerate(made)]  # of "large", whose equal comes later
    # Of "whole_nt" all times are short: it is taken wherever its estimate counts.
    estimates = [None if label in ("tn", "residues") else estimate(plan, at, 1e-3 if label == "whole_nt" else 1.0) for at, (label, plan) in zip(numbers, made)]
    found = [of_plan(label, plan, one) for (label, plan), one in zip(made, estimates)]
    plain = [
        (f"any_{layout}", plan_of(scheme="fp32", promote=0, gpu="t4", loads="grouped", where="shared", layout=layout,
                                  tile={"block": [64, 64, 16], "warp": [32, 32, 16]})) for layout in ("nn", "tn")
    ]
    return (*found, *(of_plan(label, plan, None, is_fallback=True) for label, plan in plain))


RULES = (
    tables.Rules("sm_80", "tn", (Rule(at_most={"m": 200}, kernel="k_tiles"),)), tables.Rules("sm_80", "nt", (Rule(at_most={"n": 200}, kernel="lanes"),)),
    tables.Rules("sm_80", "nn", (Rule(at_most={"m": 40, "mn": 2000}, kernel="large"), Rule(at_most={"n": 33, "k": 300}, kernel="sliced"),
                                 Rule(at_most={"k": 9}, kernel="deep"))),
    tables.Rules("sm_90", "nn", (Rule(at_most={"m": 100}, kernel="groups"),)),
)
"""What no rule takes goes by the estimates, as a library's own last rule takes everything."""


# ---- what calls have to do


@dataclass(frozen=True)
class Operand:
    """As it lies in memory: rows of `length` elements, `lines` of them."""

    address: int | None
    ld: int
    stride: int
    transposed: bool


@dataclass(frozen=True)
class Asked:
    """A problem, row major."""

    m: int
    n: int
    k: int
    batch: int
    a: Operand
    b: Operand
    c: Operand
    exchanged: bool
    pointers: bool
    on_device: bool
    alpha: float
    beta: float
    alpha_at: int | None
    beta_at: int | None
    bias: int | None
    epilogue: int
    largest_error: float
    forced: int | None
    packed: str = ""
    format: int = 0
    adds: bool = False

    @property
    def depth(self) -> int:
        """k as far as it is read."""
        return 0 if self.alpha == 0 else self.k


def stored_shapes(p: Problem) -> dict[str, tuple[int, int]]:
    """Rows and columns of each operand of a kind, as memory holds it row by row."""
    a, b = ((p.m, p.k), (p.k, p.n)) if p.kind not in (SYRK, SYR2K) else ((p.m, p.k), (p.n, p.k))
    turned = {"a": p.transpose_a, "b": p.transpose_a if p.kind == SYR2K else p.transpose_b}
    if p.kind >= SYMM:
        a, b, turned = ((p.n, p.n) if p.side else (p.m, p.m)), (p.m, p.n), {"a": 0, "b": 0}
    found = {x: shape[::-1] if turned[x] else shape for x, shape in (("a", a), ("b", b))} | {"c": (p.m, p.n)}
    return {x: shape for x, shape in found.items() if x != "b" or p.kind != SYRK}


def up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def runs(code: str, arch: str) -> int:
    """How well code for one architecture suits another; -1: it does not run there."""
    kind, _, number = code.partition("_")
    made_for, here = int(number.rstrip("a")), int(arch.partition("_")[2])
    if made_for > here:
        return -1
    if kind == "compute":
        return 0
    if made_for // 10 != here // 10 or number.endswith("a") and made_for != here:
        return -1
    return made_for


def bound(plan: Plan, k: int, archs: Sequence[str]) -> tuple[float, float]:
    """(expected error, worst case) of a sum of k on the architectures."""
    if (plan.hash, k) not in BOUNDS:
        found = prose.coefficients(plan, k, archs)
        BOUNDS[plan.hash, k] = prose.rounded_up(tables.SAFETY * found.random), prose.rounded_up(found.scaled)
    return BOUNDS[plan.hash, k]


BOUNDS: dict[tuple[str, int], tuple[float, float]] = {}
"""What was found before."""


class Known:
    """A kernel of the library as the reference sees it."""

    def __init__(self, number: int, kernel: Kernel):
        plan, source = kernel.built.plan, kernel.built.source
        self.number, self.kernel, self.plan, self.estimate, self.is_fallback = number, kernel, plan, kernel.estimate, kernel.is_fallback
        self.interface = source.interface
        self.launches = source.launches
        self.transposed = plan.layout[0] == "t", plan.layout[1] == "t"
        built = [binary.arch for binary in (kernel.built.binary, *kernel.built.others)]
        self.archs = [arch.replace("sm_", "compute_") if kernel.is_fallback else arch for arch in built]
        self.codes = {arch: kernel.label + (f"_{arch}" if len(self.archs) > 1 else "") for arch in self.archs}
        self.static = STATIC.get(kernel.label, 0)
        self.batched = bool(plan.launches.repeated)
        self.takes_pointers = bool(plan.batch and plan.batch.pointers)
        self.made = {one.region for launch in source.launches if launch.role in PASSES for one in launch.parameters if one.region}
        self.largest_k = plan.scheme.family.largest_k
        self.largest_grid, _ = prose.largest_grid(plan, source)
        self.least = plan.design.whole_from(plan.gpu) if plan.launches.splits_whole else (0, 0)
        main = {one.argument for launch in source.launches if launch.role not in PASSES for one in launch.parameters}
        self.reads = {x: x in main for x in "ab"}
        self.bounds = [(k, *bound(plan, k, built)) for k in BOUND_K]

    def shared(self) -> int:
        return max(launch.shared_bytes for launch in self.launches) + self.static

    def suits(self, arch: str) -> int:
        """How well the best of its machine code suits an architecture; -1: none runs there."""
        return max(runs(one, arch) for one in self.archs)

    def code(self, arch: str) -> str:
        """What the machine code is called that runs there."""
        return self.codes[max(self.archs, key=lambda one: runs(one, arch))]

    def error(self, k: int) -> tuple[float, float]:
        """(expected, worst case) of a sum of k."""
        for most, error, worst in self.bounds:
            if k <= most:
                return error, worst
        return error * (k / most), worst * (k / most)

    def extents(self, m: int, n: int, k: int, batch: int) -> dict[str, int]:
        bm, bn, bk = self.plan.block
        found = {"m": m, "n": n, "k": k, "batch": batch, "m_padded": up(m, bm), "n_padded": up(n, bn), "k_padded": up(k, bk)}
        return found | {"m_clusters": up(m, bm * self.plan.cluster)} | dict(self.interface.constants)

    def without(self, extents: dict[str, int], operand: str) -> dict[str, int]:
        """What a pass is told that leaves an operand alone."""
        gone = {"a": ("m", "m_padded", "m_clusters"), "b": ("n", "n_padded"), "": ()}[operand]
        return extents | dict.fromkeys(gone, 0)

    def tiles(self, launch: Any, extents: dict[str, int]) -> int:
        return sum(math.prod(-(-extents[name] // tile) for name, tile in product) for product in launch.grid)

    def blocks(self, launch: Any, extents: dict[str, int], units: int) -> int:
        tiles = self.tiles(launch, extents)
        if launch.most_blocks is None:
            return tiles
        held = max(1, launch.most_blocks * units // self.plan.gpu.rates.sms // launch.cluster) * launch.cluster
        if any(buffer.name == "residues" for buffer in self.interface.buffers):  # with room for the plan's number alone
            held = min(held, launch.most_blocks)
        return min(tiles, held)

    def made_of(self, buffer: str) -> str:
        """The operand whose words, maxima or scales lie in a buffer."""
        x, _, what = buffer.partition("_")
        return x if buffer in self.made and what in ("words", "absmax", "scales", "energy") else ""

    def lay_out(self, extents: dict[str, int], there: Any) -> SimpleNamespace:
        """Offsets of the buffers that are there, and what of them is to be zero."""
        offsets, end, zeroed, counters, again = {}, 0, 0, 0, []
        for buffer in self.interface.buffers:
            if not there(buffer.name):
                continue
            offsets[buffer.name] = start = up(end, 256)
            end = start + buffer.bytes(extents)
            counters = counters or up(end, 256)
            if buffer.zeroed:
                zeroed = end
            if buffer.zeroed_again:
                again += [start, end]
        return SimpleNamespace(offsets=offsets, bytes=up(end, 256), zeroed=zeroed, counters=counters, again=(again[0], again[-1]) if again else (0, 0))

    def workspace(self, extents: dict[str, int], packed: str = "") -> SimpleNamespace:
        return self.lay_out(extents, lambda name: not packed or self.made_of(name) != packed)

    def words(self, extents: dict[str, int], packed: str) -> SimpleNamespace:
        return self.lay_out(extents, lambda name: name == "status" or self.made_of(name) == packed)


@dataclass
class Wanted:
    """What a call has to do.

    Attributes:
        codes: any of these is right.
        work: what the driver is asked for, in order; None in its numbers is anything.
        kernel: that it takes; needs: labels of machine code without which it cannot be done.
        exact: fields of the result.
    """

    codes: set[int]
    work: list[tuple[str, tuple[int | float | None, ...]]] = field(default_factory=list)
    needs: frozenset[str] = frozenset()
    exact: dict[str, Any] = field(default_factory=dict)
    asks_device: bool = True


class Reference:
    """What a library of `kernels()` with `RULES` has to do with calls.

    Args:
        platform: `cuda` or `hip`.
    """

    def __init__(self, platform: str = "cuda"):
        self.hip = platform == "hip"
        self.known = [Known(number, one) for number, one in enumerate(kernels())]
        self.formats = self._formats()
        self.finish_archs = ("sm_80", "sm_90")
        symbols = {launch.symbol: launch for one in self.known for launch in one.launches}
        letters = {"pointer": "p", "long long": "l", "int": "i", "float": "f"}
        self.described = [(symbol, "".join(letters[one.kind] for one in launch.parameters)) for symbol, launch in symbols.items()]
        self.described += [(FINISH, "".join(letters[kind] for kind in FINISH_KINDS)), *((label, "") for one in self.known for label in one.codes.values())]
        self.described += [(f"{FINISH}_{arch}", "") for arch in self.finish_archs]
        self.number = {name: number for number, (name, _) in enumerate(self.described)}
        rows = {gpu.arch: gpu for gpu in reversed(GPUS.rows()) if gpu.vendor == "nvidia"}
        self.rows = rows | {one.plan.gpu.arch: one.plan.gpu for one in reversed(self.known) if not one.is_fallback}

    def _formats(self) -> dict[tuple[int, str], int]:
        """By (kernel, operand): numbered in order of the keys that plans have."""
        keys: list[str] = []
        found = {}
        for one in self.known:
            for x in "ab":
                key = None if one.is_fallback or x == "b" and not one.kernel.packs_b else tables.pack_key(one.plan, interface(one.plan), x)
                if key is not None and key not in keys:
                    keys.append(key)
                found[one.number, x] = 0 if key is None else 1 + keys.index(key)
        return found

    # ---- reading a problem

    def wrong(self, p: Problem) -> set[int]:
        """Codes of everything that is wrong with a problem's numbers."""
        if p.size != ctypes.sizeof(Problem):
            return {BAD_STRUCT}
        found = set()
        if not 0 <= p.kind <= TRSM or not {p.uplo, p.side, p.diag} <= {0, 1}:
            found.add(BAD_KIND)
        bad_order = p.order not in (0, 1) or p.transpose_a not in (0, 1) or p.transpose_b not in (0, 1)
        extents = {BAD_M: p.m, BAD_N: p.n} | ({} if p.kind >= SYMM else {BAD_K: p.k})
        bad_extents = {code for code, extent in extents.items() if not 0 <= extent <= LARGEST_EXTENT}
        found |= bad_extents | ({BAD_ORDER} if bad_order else set()) | ({BAD_M} if p.kind in OF_TRIANGLE and p.m != p.n else set())
        if not found:
            shapes = stored_shapes(p)
            for x, code in (("a", BAD_LDA), ("b", BAD_LDB), ("c", BAD_LDC)):
                if x not in shapes:
                    continue
                lines, length = shapes[x] if p.order == 0 else shapes[x][::-1]
                ld = getattr(p, f"ld{x}")
                if ld < max(1, length) or lines > 1 and (lines - 1) * ld >= FAR:
                    found.add(code)
                if x == "c" and p.batch > 1 and not p.flags & POINTERS and lines and length and abs(p.stride_c) < (lines - 1) * ld + length:
                    found.add(BAD_STRIDE_C)
        if p.batch < -1:
            found.add(BAD_BATCH)
        if p.batch > 1 and not p.flags & POINTERS:
            found |= {code for code, stride in ((BAD_STRIDE_A, p.stride_a), (BAD_STRIDE_B, p.stride_b if p.kind != SYRK else 0), (BAD_STRIDE_C, p.stride_c))
                      if (p.batch - 1) * abs(stride) >= FAR}
        if p.kind and (p.epilogue or p.bias):
            found.add(BAD_EPILOGUE)
        if p.kind not in (0, TRSM) and p.flags & POINTERS:
            found.add(BAD_FLAGS)
        found |= {code for code, bad in ((BAD_EPILOGUE, not 0 <= p.epilogue <= 3), (BAD_FLAGS, p.flags & ~7), (BAD_KERNEL, not 0 <= p.kernel <= len(self.known)))
                  if bad}
        return found

    @staticmethod
    def missing(of: Asked) -> set[int]:
        """Codes of pointers that are to be read or written and are NULL."""
        if not of.batch:
            return set()
        codes = (BAD_B, BAD_A) if of.exchanged else (BAD_A, BAD_B)
        found = {code for code, x, operand in zip(codes, "ab", (of.a, of.b)) if of.depth and not operand.address and of.packed != x}
        return found | (set() if of.c.address else {BAD_C})

    def asked(self, call: Call) -> Asked:
        """A problem that nothing is wrong with."""
        p = call.problem
        column = p.order == 1
        batch = 0 if p.batch == -1 or not p.m or not p.n else max(1, p.batch)
        pointers = bool(p.flags & POINTERS)
        stride = (lambda one: POINTER_STRIDE) if pointers else (lambda one: one if batch > 1 else 0)
        a = Operand(p.a, p.lda, stride(p.stride_a), bool(p.transpose_a))
        b = Operand(p.b, p.ldb, stride(p.stride_b), bool(p.transpose_b))
        alpha, beta = self.scalars(call)
        on_device = bool(p.flags & ON_DEVICE) and (alpha is not None or beta is not None)
        host = not on_device
        return Asked(
            *((p.n, p.m) if column else (p.m, p.n)), p.k, batch, *((b, a) if column else (a, b)), Operand(p.c, p.ldc, stride(p.stride_c), False), column, pointers,
            on_device, call.alpha if host and alpha is not None else 1.0, call.beta if host and beta is not None else 0.0, alpha if on_device else None,
            beta if on_device else None, p.bias, p.epilogue, p.largest_error, p.kernel - 1 if p.kernel else None, adds=beta is not None,
        )

    def scalars(self, call: Call) -> tuple[int | None, int | None]:
        """Where alpha and beta are; of the host's somewhere."""
        return tuple(1 if call.flags & flag else at for flag, at in ((ALPHA_OF_HOST, call.problem.alpha), (BETA_OF_HOST, call.problem.beta)))

    @staticmethod
    def folded(of: Asked) -> Asked:
        """A batch whose A and C lie in one piece each, by one B, is one product of more rows."""
        if of.batch < 2 or of.pointers or of.packed == "a" or of.a.transposed or of.b.stride or of.m * of.batch > LARGEST_EXTENT:
            return of
        if (of.a.stride, of.c.stride) != (of.m * of.a.ld, of.m * of.c.ld):
            return of
        a, c = replace(of.a, stride=of.a.stride), replace(of.c, stride=of.c.stride)
        return replace(of, m=of.m * of.batch, batch=1, a=a, c=c)

    # ---- the choice

    def finishes(self, one: Known, of: Asked) -> bool:
        return of.on_device or of.bias is not None or of.epilogue != 0 or self.copies(one, of)

    @staticmethod
    def copies(one: Known, of: Asked) -> bool:
        return of.pointers and not one.takes_pointers

    def beside(self, one: Known, of: Asked) -> bool:
        return of.beta_at is not None or self.copies(one, of)

    @staticmethod
    def together(one: Known, of: Asked) -> int:
        return of.batch if one.batched else 1

    @staticmethod
    def stored(of: Asked, k: int) -> dict[str, tuple[int, int, int]]:
        """(rows, columns, elements from row to row of the copy) of A and B."""
        shapes = {"a": (k, of.m) if of.a.transposed else (of.m, k), "b": (of.n, k) if of.b.transposed else (k, of.n)}
        return {x: (*shape, up(shape[1], 4)) for x, shape in shapes.items()}

    @staticmethod
    def finish_blocks(m: int, n: int, batch: int) -> int:
        return -(-m // FINISH_TILE[0]) * -(-n // FINISH_TILE[1]) * batch

    def takes(self, one: Known, of: Asked) -> bool:
        for at, (x, operand) in enumerate((("a", of.a), ("b", of.b))):
            if of.packed == x:
                own = self.formats[one.number, x]
                if own == 0 or of.format and own != of.format:
                    return False
            if one.transposed[at] != operand.transposed and (of.packed != x or one.reads[x]):
                return False
        return True

    def runs_on(self, one: Known, device: tuple[str, int, int]) -> bool:
        return one.suits(device[0]) >= 0 and one.shared() <= device[2]

    def serves(self, one: Known, of: Asked, device: tuple[str, int, int]) -> int:
        if not self.runs_on(one, device) or not self.takes(one, of) or one.largest_k and of.k > one.largest_k:
            return NOT_SERVED
        if of.largest_error != 0 and not one.error(of.k)[0] <= of.largest_error:
            return NOT_SERVED
        batch = self.together(one, of)
        if batch >= 2**31 or batch and of.batch // batch > MOST_TURNS:
            return TOO_LARGE
        if self.finishes(one, of):
            shapes = [(of.m, of.n)] + [one[:2] for one in self.stored(of, of.k).values()] * self.copies(one, of)
            if any(self.finish_blocks(*shape, batch) >= 2**31 for shape in shapes):
                return TOO_LARGE
            if max(runs(arch, device[0]) for arch in self.finish_archs) < 0:
                return NOT_SERVED
        extents = one.extents(of.m, of.n, of.k, batch)
        if any(one.tiles(launch, extents) > one.largest_grid for launch in one.launches):
            return TOO_LARGE
        return TOO_LARGE if one.workspace(extents).bytes >= MOST_BYTES else OK

    def seconds(self, by: Estimate, of: Asked, batch: int, units: int) -> float:
        m, n, k = of.m, of.n, of.k
        waves = math.ceil(-(-m // by.tile[0]) * -(-n // by.tile[1]) * by.slices * batch / units)
        operands = (m * k if of.packed != "a" else 0) + (k * n if of.packed != "b" else 0)
        return by.launch + waves * (by.wave + by.step * -(-k // by.slices)) + batch * (by.operand * operands + by.output * m * n)

    def of_vendor(self, by: Estimate, of: Asked, units: int) -> float:
        """M24."""
        step = by.step * (VECTOR_SHARE if min(of.m, of.n) <= 1 else 1)
        by = by.model_copy(update={"launch": by.launch + min(of.k, FIRST_K) * FIRST_SECONDS, "step": step})
        return self.seconds(by, replace(of, packed=""), of.batch, units)

    def vendors(self, arch: str) -> Estimate | None:
        best = max(self.rows, key=lambda row: runs(row, arch))
        return tables.sgemm_estimate(self.rows[best]) if runs(best, arch) >= 0 else None

    def finish_seconds(self, one: Known, of: Asked, arch: str) -> float:
        vendor = self.vendors(arch)
        if not self.finishes(one, of) or vendor is None:
            return 0.0
        launches = of.batch // max(1, self.together(one, of)) * (3 if self.copies(one, of) else 1)
        elements = 3 * of.m * of.n + (2 * (of.m + of.n) * of.k if self.copies(one, of) else 0)
        return launches * vendor.launch + of.batch * elements * vendor.output

    def taken(self, one: Known, of: Asked, device: tuple[str, int, int]) -> float:
        batch = self.together(one, of)
        return self.seconds(one.estimate, of, batch, device[1]) * (of.batch // max(1, batch) if of.batch else 1) + self.finish_seconds(one, of, device[0])

    def chosen(self, of: Asked, device: tuple[str, int, int]) -> Known | int:
        """The kernel that a product gets, or the refusal's code."""
        if of.forced is not None:
            one = self.known[of.forced]
            return one if self.serves(one, of, device) == OK else BAD_KERNEL
        layout = "".join("nt"[one.transposed] for one in (of.a, of.b))
        parts = [part for part in RULES if part.layout == layout and runs(part.arch, device[0]) >= 0]
        if of.batch < 2 and not of.pointers and parts:
            for rule in max(parts, key=lambda part: runs(part.arch, device[0])).rules:
                one = next(one for one in self.known if one.kernel.label == rule.kernel)
                if rule.holds({"m": of.m, "n": of.n, "k": of.k, "mn": of.m * of.n}) and self.serves(one, of, device) == OK:
                    return one
        ranked: list[tuple[int, float, Known]] = []
        refusal = NOT_SERVED
        for one in self.known:
            code = self.serves(one, of, device)
            refusal = TOO_LARGE if code == TOO_LARGE else refusal
            if code != OK:
                continue
            told = one.estimate is not None and not (one.batched and of.batch < 2 and not of.pointers)
            told = told and of.k >= one.least[0] and of.k * (of.m + of.n) >= one.least[1]
            rank = 0 if one.is_fallback else 1 if not told else 2 + one.suits(device[0])
            ranked.append((rank, self.taken(one, of, device) if one.estimate else 0.0, one))
        if not ranked:
            return refusal
        best = max(rank for rank, _, _ in ranked)
        least = min(seconds for rank, seconds, _ in ranked if rank == best)
        return next(one for rank, seconds, one in ranked if rank == best and seconds <= least * (1 + 1e-12))

    def needed(self, one: Known, of: Asked, k: int) -> tuple[int, int, int, int]:
        """Where the product lies beside C, and copies of A and B; bytes of everything."""
        batch = self.together(one, of)
        beside = one.workspace(one.extents(of.m, of.n, k, batch), of.packed).bytes
        end = beside + (up(4 * of.m * of.n * batch, 256) if self.beside(one, of) else 0)
        copies = {x: up(4 * rows * ld * batch, 256) for x, (rows, _, ld) in self.stored(of, k).items()} if self.copies(one, of) else {"a": 0, "b": 0}
        return beside, end, end + copies["a"], end + copies["a"] + copies["b"]

    # ---- what is asked of the driver

    def launch(self, one: Known, launch: Any, blocks: int, arguments: dict[str, Any], region: Any, overlaps: bool, stream: int) -> tuple[str, tuple]:
        values = [arguments[it.argument] if it.argument is not None else region(it.region, it.offset) for it in launch.parameters]
        return ("overlapping" if overlaps else "launch", (self.number[launch.symbol], blocks, launch.threads, launch.shared_bytes, stream, *values))

    def finish(self, stream: int, batch: int, **values: Any) -> list[tuple[str, tuple]]:
        blocks = self.finish_blocks(values["m"], values["n"], batch)
        names = ("c", "ldc", "stride_c", "t", "ldt", "stride_t", "alpha", "beta", "beta_value", "bias", "m", "n", "triangle", "epilogue")
        usual = {"alpha": 0, "beta": 0, "beta_value": 0.0, "bias": 0, "epilogue": 0, "triangle": 0}
        told = [(usual | values)[name] or 0 for name in names]
        told[8] = float(told[8])
        return [("launch", (self.number[FINISH], blocks, FINISH_THREADS, 0, stream, *told))] if blocks else []

    def work(self, call: Call, of: Asked, one: Known, units: int, base: int, words: int = 0) -> list[tuple[str, tuple]]:
        """Everything between the workspace's coming and going."""
        k, batch, stream = of.depth, self.together(one, of), call.stream
        extents = one.extents(of.m, of.n, k, batch)
        layout = one.workspace(extents, of.packed)
        packed = one.words(one.extents(of.m, of.n, of.k, 1), of.packed) if of.packed else None
        beside_at, copy_a, copy_b, _ = self.needed(one, of, k)
        beside, copied = self.beside(one, of), self.copies(one, of)
        counted = call.workspace and not call.problem.flags & UNCOUNTED
        first = 0 if counted else layout.counters
        found: list[tuple[str, tuple]] = []

        def region(name: str, offset: int) -> int:
            inside = packed if packed and one.made_of(name) == of.packed else None
            return (words + inside.offsets[name] if inside else base + layout.offsets[name]) + offset

        def at(operand: Operand, turn: int) -> int:
            if not operand.address:
                return 0
            return (operand.address + turn * (8 if of.pointers else 4 * operand.stride)) % 2**64

        for turn in range(0, of.batch, max(1, batch)):
            if turn == 0 and layout.zeroed > first:
                found.append(("fill", (base + first, 0, layout.zeroed - first, stream)))
            if turn and layout.again[1] > layout.again[0]:
                found.append(("fill", (base + layout.again[0], 0, layout.again[1] - layout.again[0], stream)))
            a, b, c = at(of.a, turn), at(of.b, turn), at(of.c, turn)
            arguments = {
                "a": a, "lda": of.a.ld, "stride_a": of.a.stride, "b": b, "ldb": of.b.ld, "stride_b": of.b.stride,
                "c": c, "ldc": of.c.ld, "stride_c": of.c.stride, "m": of.m, "n": of.n, "k": k, "batch": batch,
                "alpha": 1.0 if of.on_device else of.alpha, "beta": 0.0 if of.on_device else of.beta,
            }
            if of.pointers and k == 0:
                arguments |= {"a": 0, "b": 0, "stride_a": 0, "stride_b": 0}
            if copied:
                for x, operand, place in (("a", of.a, copy_a), ("b", of.b, copy_b)):
                    rows, columns, ld = self.stored(of, k)[x]
                    if k:
                        found += self.finish(stream, batch, c=base + place, ldc=ld, stride_c=rows * ld, t=at(operand, turn), ldt=operand.ld,
                                             stride_t=POINTER_STRIDE, m=rows, n=columns)
                    arguments |= {x: base + place, f"ld{x}": max(1, ld), f"stride_{x}": rows * ld}
                arguments["beta"] = 0.0
            if beside:
                arguments |= {"c": base + beside_at, "ldc": of.n, "stride_c": of.m * of.n}
            before = False
            for launch in one.launches:
                is_pass = launch.role in PASSES
                told = one.without(extents, of.packed) if is_pass else extents
                blocks = one.blocks(launch, told, units)
                mine = arguments | ({"m": told["m"], "n": told["n"]} if is_pass else {})
                if blocks:
                    found.append(self.launch(one, launch, blocks, mine, region, launch.overlaps and before and not self.hip, stream))
                before = blocks > 0
            if self.finishes(one, of):
                found += self.finish(
                    stream, batch, c=c, ldc=of.c.ld, stride_c=of.c.stride, t=arguments["c"], ldt=arguments["ldc"], stride_t=arguments["stride_c"],
                    alpha=of.alpha_at, beta=of.beta_at, beta_value=of.beta if copied and not of.on_device else 0.0, bias=of.bias, m=of.m, n=of.n,
                    epilogue=of.epilogue)
        return found

    # ---- functions

    def target(self, call: Call) -> tuple[str, int, int] | int:
        """(architecture, units, shared memory of a block) that a call is for, or why there is none."""
        if call.flags & WITH_TARGET and call.function in (SELECT, SELECT_PACKED, PACK_BYTES):
            if call.target.size != ctypes.sizeof(Target) or call.target.units < 1:
                return BAD_STRUCT
            arch = call.target.arch.decode()
            rows = [row for row in self.rows if runs(row, arch) >= 0]
            return arch, call.target.units, self.rows[max(rows, key=lambda row: runs(row, arch))].limits.shared_bytes_per_block if rows else 48 * 1024
        major, minor, units, shared = DEVICES[max(0, call.device)]
        return f"sm_{10 * major + minor}", units, shared

    def wanted(self, call: Call, base: int) -> Wanted:
        """Of a call in which no driver call fails; `base` is the pool's memory where it gives some, or the caller's allocator's."""
        found = self.wanted_there(call, base)
        if self.hip and call.device < 0 and call.function != READ_STATUS and found.asks_device:  # HIP's runtime says so where there is no device
            return Wanted({NO_CONTEXT})
        return found

    def wanted_there(self, call: Call, base: int) -> Wanted:
        """Of a call where there is a device."""
        p, function = call.problem, call.function
        if function == READ_STATUS:
            bad = {BAD_STRUCT} if not call.workspace else {BAD_WORKSPACE} if call.bytes else set()
            return Wanted(bad, asks_device=False) if bad else Wanted({OK}, [("copy", (None, 56, call.stream)), ("synchronize", ())], exact={"bytes": 7654321})
        if function == PREPARE:
            return Wanted({OK}, needs=frozenset([FINISH, *self.code_of(self.target(call), portable=True)]))
        if function == CURRENT_TARGET:
            if call.target.size != ctypes.sizeof(Target):
                return Wanted({BAD_STRUCT}, asks_device=False)
            arch, units, _ = self.target(call)
            return Wanted({OK}, exact={"target.arch": arch.encode(), "target.units": units})
        if function == SGEMM:
            return self.of_sgemm(call, base)
        packs = function in (PACK, PACK_BYTES)
        with_packed = function in (GEMM_PACKED, SELECT_PACKED)
        if bad := self.wrong(p):
            return Wanted(bad, asks_device=False)
        if p.kind:
            return self.of_kind(call)
        of = self.asked(call)
        if with_packed:
            code = self.packed_code(call, of)
            if code != OK:
                return Wanted({code}, asks_device=False)
            of = replace(of, packed=self.inner(of, chr(call.packed.operand)), format=call.packed.format)
        if function in (GEMM, GEMM_PACKED) and (bad := self.missing(of)):
            return Wanted(bad, asks_device=False)
        device = self.target(call)
        if device == BAD_STRUCT:
            return Wanted({BAD_STRUCT}, asks_device=False)
        arch, units, _ = device
        if packs:
            return self.of_packing(call, of, device)
        if function in (GEMM, GEMM_PACKED) and of.batch == 0:
            return Wanted({OK}, asks_device=False)
        of = self.folded(of)
        one = self.chosen(of, device)
        if isinstance(one, int):
            return Wanted({one})
        if function in (SELECT, SELECT_PACKED):
            return self.of_select(of, one, device)
        *_, needed = self.needed(one, of, of.depth)
        if needed >= MOST_BYTES:
            return Wanted({TOO_LARGE})
        if with_packed:
            if call.packed.bytes < one.words(one.extents(of.m, of.n, of.k, 1), of.packed).bytes:
                return Wanted({BAD_PACKED})
            address = {"a": of.a.address, "b": of.b.address}[of.packed]
            if one.reads[of.packed] and not address and of.depth:
                return Wanted({BAD_A if call.packed.operand == ord("a") else BAD_B})
        if not call.workspace and call.bytes or call.workspace and (call.workspace % 256 or call.bytes < needed):
            return Wanted({BAD_WORKSPACE})
        own, needs = bool(call.flags & OWN_MEMORY), frozenset([one.code(arch), *([FINISH] if self.finishes(one, of) else [])])
        if not call.workspace and needed > MOST_POOL:
            return Wanted({NO_MEMORY}, [("take", (needed, call.stream))], needs)
        given = ("give", (base, call.stream, *((needed,) if own else ())))
        if not call.workspace and own and call.flags & MISALIGNED:
            return Wanted({NO_MEMORY}, [("take", (needed, call.stream)), given], needs)
        work = self.work(call, of, one, units, call.workspace or base, call.packed.memory or 0)
        if not call.workspace:
            work = [("take", (needed, call.stream)), *work, given]
        return Wanted({OK}, work, needs)

    def of_kind(self, call: Call) -> Wanted:
        """Of a routine beside GEMM, of which these libraries have no kernels, and the portable ones are none."""
        p = call.problem
        empty = p.batch == -1 or not p.m or not p.n
        if call.function == GEMM and not empty:
            alpha, beta = self.scalars(call)
            on_host = not (p.flags & ON_DEVICE and (alpha is not None or beta is not None))
            reads = ((p.n if p.side else p.m) if p.kind >= SYMM else p.k) and not (on_host and alpha is not None and call.alpha == 0)
            wants = {BAD_A: reads and not p.a, BAD_B: reads and not p.b and p.kind != SYRK, BAD_C: not p.c}
            if missing := {code for code, is_missing in wants.items() if is_missing}:
                return Wanted(missing, asks_device=False)
        if self.target(call) == BAD_STRUCT:
            return Wanted({BAD_STRUCT}, asks_device=False)
        if call.function == GEMM and empty:
            return Wanted({OK}, asks_device=False)
        return Wanted({BAD_KERNEL if p.kernel else NOT_SERVED})

    def of_select(self, of: Asked, one: Known, device: tuple[str, int, int]) -> Wanted:
        arch, units, _ = device
        *_, needed = self.needed(one, of, of.k)
        if needed >= MOST_BYTES:
            return Wanted({TOO_LARGE})
        beside, *_ = self.needed(one, of, of.k)
        vendor = self.vendors(arch)
        sgemm = self.of_vendor(vendor, of, units) if vendor and of.batch else 0.0
        seconds = self.taken(one, of, device) if one.estimate else 1.5 * sgemm + self.finish_seconds(one, of, arch)
        reading = of.batch * of.m * of.n * vendor.output if of.adds and vendor else 0.0
        sgemm, seconds = sgemm + reading, seconds + (0.0 if self.finishes(one, of) else C_READS * reading)
        extents = one.extents(of.m, of.n, of.k, self.together(one, of))
        packed = [one.workspace(extents, x).bytes for x in "ab" if self.formats[one.number, x]]
        error, worst = one.error(of.k)
        return Wanted({OK}, exact={
            "kernel": one.number, "is_fallback": int(one.is_fallback), "named": 1, "bytes": needed if of.batch else 0,
            "bytes_packed": max(packed) + needed - beside if packed and of.batch and not of.pointers else 0,
            "sgemm_seconds": sgemm, "seconds": seconds if of.batch else 0.0, "error": error, "worst_case": worst,
        })

    @staticmethod
    def inner(of: Asked, operand: str) -> str:
        return operand if not of.exchanged else {"a": "b", "b": "a"}[operand]

    def packed_code(self, call: Call, of: Asked) -> int:
        """What is wrong with packed words."""
        p, told = call.problem, call.packed
        if told.size != ctypes.sizeof(Packed):
            return BAD_STRUCT
        if of.pointers:
            return BAD_FLAGS
        if told.operand not in (ord("a"), ord("b")):
            return BAD_OPERAND
        shape = (p.m, p.k) if told.operand == ord("a") else (p.k, p.n)
        mine = of.a if self.inner(of, chr(told.operand)) == "a" else of.b
        bad = (told.rows, told.columns) != shape or told.order != p.order or told.format < 1 or told.reserved or not told.memory or told.memory % 256
        return BAD_PACKED if bad or of.batch > 1 and mine.stride else OK

    def packing(self, of: Asked, operand: str, device: tuple[str, int, int]) -> tuple[Known, Asked, SimpleNamespace] | int:
        """The kernel that packs, what it packs of, and how the words lie."""
        packed = self.inner(of, operand)
        if of.batch > 1 and (of.a if packed == "a" else of.b).stride:
            return NOT_SERVED
        m, n = of.m, of.n
        if packed == "a":
            n = n or m
        else:
            m = m or n
        of = replace(of, packed=packed, m=m, n=n, batch=1, on_device=False, alpha_at=None, beta_at=None, bias=None, epilogue=0)
        one = self.chosen(of, device)
        if isinstance(one, int):
            return one
        if self.needed(one, of, of.k)[-1] >= MOST_BYTES:
            return TOO_LARGE
        return one, of, one.words(one.extents(m, n, of.k, 1), packed)

    def of_packing(self, call: Call, of: Asked, device: tuple[str, int, int]) -> Wanted:
        operand = call.operand.decode()
        if operand not in "ab":
            return Wanted({BAD_OPERAND})
        if of.pointers:
            return Wanted({BAD_FLAGS})
        found = self.packing(of, operand, device)
        if isinstance(found, int):
            return Wanted({found})
        one, of, words = found
        if call.function == PACK_BYTES:
            return Wanted({OK}, exact={"bytes": words.bytes})
        if call.packed.size != ctypes.sizeof(Packed):
            return Wanted({BAD_STRUCT})
        if not call.workspace or call.workspace % 256 or call.bytes < words.bytes:
            return Wanted({BAD_WORKSPACE})
        mine, outer = (of.a, of.m) if of.packed == "a" else (of.b, of.n)
        if not mine.address and outer and of.k:
            return Wanted({BAD_A if operand == "a" else BAD_B})
        other = "b" if of.packed == "a" else "a"
        extents = one.extents(of.m, of.n, of.k, 1)
        told = one.without(extents, other)
        arguments = {
            "a": of.a.address or 0, "lda": of.a.ld, "stride_a": of.a.stride, "b": of.b.address or 0, "ldb": of.b.ld, "stride_b": of.b.stride, "c": None,
            "ldc": None, "stride_c": None, "m": told["m"], "n": told["n"], "k": of.k, "batch": 1, "alpha": None, "beta": None,
        }

        def region(name: str, offset: int) -> int | None:
            return call.workspace + words.offsets[name] + offset if name in words.offsets else None

        work = [("fill", (call.workspace, 0, words.zeroed, call.stream))]
        for launch in one.launches:
            if launch.role in PASSES and (blocks := one.blocks(launch, told, device[1])):
                work.append(self.launch(one, launch, blocks, arguments, region, False, call.stream))
        p = call.problem
        shape = (p.m, p.k) if operand == "a" else (p.k, p.n)
        return Wanted({OK}, work, frozenset([one.code(device[0])]), exact={
            "packed.operand": ord(operand), "packed.format": self.formats[one.number, of.packed], "packed.rows": shape[0], "packed.columns": shape[1],
            "packed.order": p.order, "packed.reserved": 0, "packed.memory": call.workspace, "packed.bytes": call.bytes,
        })

    def of_sgemm(self, call: Call, base: int) -> Wanted:
        """By the same problem, and BLAS's numbers of arguments."""
        p = call.problem
        turned = {b"n": 0, b"N": 0, b"t": 1, b"T": 1, b"c": 1, b"C": 1}
        alpha, beta = self.scalars(call)
        bad = {code for code, is_bad in ((-1, call.transa not in turned), (-2, call.transb not in turned), (-6, alpha is None), (-11, beta is None)) if is_bad}
        if bad:
            return Wanted(bad, asks_device=False)
        again = Call.from_buffer_copy(call)
        again.function, again.workspace, again.bytes = GEMM, 0, 0
        again.problem = sized(Problem, order=1, transpose_a=turned[call.transa], transpose_b=turned[call.transb],
                              **{name: getattr(p, name) for name in ("m", "n", "k", "lda", "ldb", "ldc", "a", "b", "c", "alpha", "beta")})
        found = self.wanted(again, base)
        blas = {BAD_M: -3, BAD_N: -4, BAD_K: -5, BAD_A: -7, BAD_LDA: -8, BAD_B: -9, BAD_LDB: -10, BAD_C: -12, BAD_LDC: -13}
        found.codes = {blas.get(code, code) for code in found.codes}
        return found

    def code_of(self, device: tuple[str, int, int], portable: bool) -> set[str]:
        """What a device's machine code is called, with or without that of kernels which its driver has to compile."""
        return {one.code(device[0]) for one in self.known if self.runs_on(one, device) and (portable or not one.is_fallback)}

    def loading(self, events: Sequence[Event]) -> None:
        """A kernel that has more than the usual shared memory is allowed it, before it is launched."""
        for event, after in zip(events, [*events[1:], None]):
            if event.kind == "function" and event.code == 0:
                symbol = self.described[event.numbers[0]][0]
                major, minor, *_ = DEVICES[event.device]
                arch, label = f"sm_{10 * major + minor}", self.described[event.numbers[1]][0]
                mine = [one.code(arch) for one in self.known if symbol in [launch.symbol for launch in one.launches]]
                assert label in mine or symbol == FINISH and label.startswith(FINISH), f"{symbol} is asked of {label}"
                told = next(((launch.shared_bytes, one.static) for one in self.known for launch in one.launches if launch.symbol == symbol), (0, 0))
                wanted = (event.numbers[0], told[0], event.device) if sum(told) > USUAL_SHARED and not self.hip else None
                assert (after.numbers if after and after.kind == "allow" else None) == wanted, f"{symbol} has {told} bytes"

    # ---- judging

    def check(self, call: Call, answer: Answer, alone: bool = True) -> str:
        """Raises AssertionError unless the call gave and did what it had to; returns the kind of driver call that failed, or "".

        Args:
            alone: whether no other thread ran, so that what is live can be counted.
        """
        result, events = answer.result, answer.events
        failed = next((event for event in events if event.code not in (0, 3, 201, 801) and event.code == call.fails_with), None) if result.failed else None
        assert (failed is not None) == bool(result.failed), "the call that failed is not in the record"
        work = [(event.kind, event.numbers) for event in events if event.kind in WORK]
        base = next((event.numbers[2] for event in events if event.kind == "take" and event.code == 0), 0)
        wanted = self.wanted(call, base)
        if not wanted.asks_device:
            assert not events, f"the driver was asked: {events}"
        kind = failed.kind if failed else ""
        codes, expected, exact = wanted.codes, wanted.work, wanted.exact
        if kind in ("load", "function", "allow"):
            label = self.described[failed.numbers[0]][0] if kind == "load" else None
            symbol, arch = self.described[failed.numbers[0]][0], self.target(call)[0]
            mine = {FINISH if label.startswith(f"{FINISH}_") else label} if label else {FINISH} if symbol == FINISH else {
                one.code(arch) for one in self.known if symbol in [launch.symbol for launch in one.launches]}
            # Two kernels of one plan have functions of one name: then either may be meant. What is prepared, and the kernel of epilogues, is tried again.
            if mine & wanted.needs:
                again = len(mine) > 1 or FINISH in mine or call.function == PREPARE
                assert result.code == call.fails_with or again and result.code in wanted.codes, f"{label or mine} is not there"
                codes = {result.code}
                expected, exact = ([], {}) if result.code == call.fails_with else (expected, exact)
        elif kind in ("version", "initialize", "retain", "make_current", "current", "attribute", "pool_create", "pool_set"):
            given = NO_MEMORY if kind.startswith("pool") and call.fails_with == 2 else call.fails_with
            codes = {NO_DRIVER if kind == "version" else NO_CONTEXT if kind in ("initialize", "retain", "make_current") else given}
            expected, exact = [], {}
        elif kind == "take":
            codes = {NO_MEMORY if call.fails_with == 2 or call.flags & OWN_MEMORY else call.fails_with}
            expected = [("take", expected[0][1])]
        elif kind in ("fill", "launch", "copy", "synchronize"):
            at = next(at for at, event in enumerate(event for event in events if event.kind in WORK) if event is failed)
            codes, exact = {call.fails_with}, {}
            expected = expected[: at + 1] + [one for one in expected if one[0] == "give"]
        elif kind == "overlapping":  # then a plain launch does
            at = next(at for at, event in enumerate(event for event in events if event.kind in WORK) if event is failed)
            expected = [*expected[: at + 1], ("launch", expected[at][1]), *expected[at + 1 :]]
        elif kind == "give":
            codes = {call.fails_with}
        assert result.code in codes, f"code {result.code}, not {codes}, after {kind or 'no'} failure"
        assert [name for name, _ in work] == [name for name, _ in expected], f"the driver was asked for {work}, not {expected}"
        for (name, found), (_, numbers) in zip(work, expected):
            found = found[: len(numbers)]
            assert len(found) == len(numbers) and all(same(x, y) for x, y in zip(found, numbers)), f"{name}: {self.told(found)}, not {self.told(numbers)}"
        if result.code == OK:
            for name, value in exact.items():
                of = result
                for part in name.split("."):
                    of = getattr(of, part)
                close = of == value or isinstance(value, float) and math.isclose(of, value, rel_tol=1e-11)
                assert close, f"{name} is {of}, not {value}"
        self.loading(events)
        if kind != "exchange":
            assert all(event.numbers[-1] == 2 for event in events if event.kind in ("load", "pool_create")), "a thread that captures may not load so"
        restores = [event for event in events if event.kind == "exchange"]
        kept = kind == "exchange" and restores.index(failed) % 2 == 1
        assert result.mode == 0 or kept, "captures of this thread go another way now"
        if call.flags & OWN_MEMORY:
            assert not any(event.kind.startswith("pool") for event in events), "a pool stands beside the caller's allocator"
        if alone:
            assert result.memory == 0, "memory of the pool was not given back"
            assert result.pools <= 1 + len({event.device for event in events}) + len(DEVICES) and result.pools >= 0
        return kind

    def told(self, numbers: Sequence[Any]) -> str:
        return f"{self.described[numbers[0]][0] if isinstance(numbers[0], int) and 0 <= numbers[0] < len(self.described) else ''} {list(numbers)}"


def same(found: int, wanted: int | float | None) -> bool:
    if wanted is None:
        return True
    if isinstance(wanted, float):
        return struct.pack("<i", found - 2**32 if found >= 2**31 and found < 2**32 else found if found < 2**31 else found - 2**64) == struct.pack("<f", wanted)
    return found == wanted % 2**64


# ---- drawing calls


class Draw:
    """Calls, most of which are right, and of the others most wrong in one thing.

    Args:
        allocators: whether some of them have memory of the caller's allocator, which threads cannot have each for itself.
    """

    def __init__(self, seed: int, reference: Reference, allocators: bool = False):
        self.of, self.reference = random.Random(seed), reference
        self.memory = random.Random(-1 - seed) if allocators else None
        self.kinds = random.Random(f"kinds {seed}")

    def extent(self) -> int:
        """None, one, few, about a tile, many, as many as there may be."""
        kind = self.of.random()
        if kind < 0.03:
            return 0
        if kind < 0.75:
            return self.of.randint(1, 300)
        if kind < 0.9:
            return self.of.choice((32, 64, 128, 256, 1024)) * self.of.randint(1, 3) + self.of.choice((-1, 0, 1))
        if kind < 0.985:
            return int(2 ** self.of.uniform(8, 17))
        return self.of.choice((LARGEST_EXTENT, LARGEST_EXTENT - 1, 2**30 + 1, 2**24))

    def depth(self) -> int:
        """Of a sum: where something changes, too."""
        if self.of.random() < 0.88:
            return self.extent()
        known = self.reference.known
        edges = [SEGMENT_K, *BOUND_K, *(one.largest_k for one in known if one.largest_k), *(one.least[0] for one in known if one.least[0])]
        return max(0, self.of.choice(edges) + self.of.choice((-1, 0, 1)))

    def address(self) -> int:
        """Of the device, which nobody reads."""
        return (1 << 40) + 4 * self.of.randrange(1 << 36)

    def problem(self) -> Problem:
        """One that nothing is wrong with."""
        of = self.of
        m, n, k = self.extent(), self.extent(), self.depth()
        order, ta, tb = of.randint(0, 1), of.randint(0, 1), of.randint(0, 1)
        shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n), "c": (m, n)}
        batch = of.choice((0, 0, 0, 1, 2, 3, 5, -1)) if of.random() < 0.93 else of.choice((2**20 + 1, 2**31, 2**40, 70000))
        pointers = of.random() < 0.15
        fields: dict[str, int] = {}
        tight = of.random() < 0.4
        for x, shape in shapes.items():
            lines, length = shape if order == 0 else shape[::-1]
            ld = max(1, length) + (0 if tight else of.choice((0, 1, 5, 1000, 2**31 + 7)))
            apart = lines * ld if tight or of.random() < 0.5 else lines * ld + of.choice((1, 64, 2**31, 2**33))
            if lines * ld * max(1, batch) >= 2**61:
                ld, apart = max(1, length), lines * max(1, length)
            fields |= {f"ld{x}": ld, f"stride_{x}": apart if of.random() < 0.9 else -apart}
        for x in "ab":
            if of.random() < 0.25:
                fields[f"stride_{x}"] = 0
        if batch > 5 and not pointers and of.random() < 0.5:  # that may be one product of many rows
            fields |= {"stride_a": m * fields["lda"], "stride_b": 0, "stride_c": m * fields["ldc"]} if order == 0 else {
                "stride_b": n * fields["ldb"], "stride_a": 0, "stride_c": n * fields["ldc"]}
        flags = POINTERS * pointers + of.choice((0, 0, 0, ON_DEVICE, UNCOUNTED, ON_DEVICE | UNCOUNTED))
        return sized(
            Problem, order=order, transpose_a=ta, transpose_b=tb, m=m, n=n, k=k, batch=batch, a=self.address(), b=self.address(), c=self.address(),
            bias=self.address() if of.random() < 0.15 else None, epilogue=of.choice((0, 0, 0, 0, 1, 2, 3)), flags=flags,
            kernel=of.randint(1, len(self.reference.known)) if of.random() < 0.2 else 0,
            largest_error=of.choice((1e-3, 1e-5, 3e-7, 1e-9)) if of.random() < 0.1 else 0.0, **fields)

    def spoil(self, p: Problem) -> None:
        """One thing that may be wrong."""
        of = self.of
        lines = {"a": (p.k if p.transpose_a else p.m, p.m if p.transpose_a else p.k), "b": (p.n if p.transpose_b else p.k, p.k if p.transpose_b else p.n),
                 "c": (p.m, p.n)}
        x = of.choice("abc")
        length = lines[x][1 - p.order]
        far = [-(-FAR // max(1, count - 1)) - of.choice((0, 1)) for count in (lines[x][p.order], p.batch)]  # the first that is too far, and the last that is not
        name, value = of.choice((
            (f"ld{x}", far[0]), (f"ld{x}", far[0]), (f"stride_{x}", min(far[1], 2**63 - 1)), (f"stride_{x}", -far[1]),
            ("size", 8), ("order", 2), ("order", -1), ("transpose_a", 2), ("transpose_b", -1), (of.choice("mnk"), -1), (of.choice("mnk"), LARGEST_EXTENT + 1),
            (of.choice("mnk"), 2**40), (f"ld{x}", length - 1), (f"ld{x}", 0), (f"ld{x}", 2**62), (f"ld{x}", 2**63 - 1), (f"ld{x}", 2**61), ("batch", -2),
            ("batch", 2**62), ("batch", 2**63 - 1), (f"stride_{x}", POINTER_STRIDE), (f"stride_{x}", 2**63 - 1), (f"stride_{x}", 2**61), (f"stride_{x}", -(2**62)),
            ("stride_c", max(0, lines["c"][p.order] - 1) * p.ldc + lines["c"][1 - p.order] - 1), ("stride_c", 0), ("epilogue", 4), ("epilogue", -1),
            ("flags", 8), ("flags", 2**31), ("kernel", -1), ("kernel", len(self.reference.known) + 1), (x, None), (x, None), (x, None),
        ))
        setattr(p, name, value)

    def __call__(self) -> Call:
        of, reference = self.of, self.reference
        function = of.choices(FUNCTIONS, (50, 12, 10, 14, 4, 4, 8, 1, 1, 1))[0]
        p = self.problem()
        scalars = of.choice((0, ALPHA_OF_HOST, BETA_OF_HOST, ALPHA_OF_HOST | BETA_OF_HOST, ALPHA_OF_HOST | BETA_OF_HOST))
        if p.flags & ON_DEVICE:
            scalars = 0
            p.alpha, p.beta = of.choice((None, self.address())), of.choice((None, self.address()))
        call = Call(
            function=function, device=of.choice((0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, -1)), fails_with=of.choice((FAILED, FAILED, 2)), flags=scalars,
            operand=of.choice((b"a", b"b", b"b", b"c") if of.random() < 0.1 else (b"a", b"b")), transa=of.choice((b"n", b"N", b"t", b"T", b"c", b"C")),
            transb=of.choice((b"n", b"N", b"t", b"T", b"c", b"C")), alpha=of.choice((1.0, -0.5, 2.5, 0.0)), beta=of.choice((0.0, 1.0, 0.25)),
            stream=8 * of.randint(0, 3), problem=p, packed=sized(Packed), target=sized(Target, arch=b"sm_80", units=108),
        )
        p = call.problem  # of which the call has a copy
        if of.random() < 0.6:
            call.flags |= WITH_TARGET
            call.target.arch, call.target.units = of.choice((b"sm_75", b"sm_80", b"sm_86", b"sm_89", b"sm_90", b"sm_90", b"sm_100", b"sm_120")), of.randint(1, 200)
        if function == SGEMM:
            self.make_sgemm(call)
        elif function == READ_STATUS:
            call.workspace, call.bytes = of.choice((0, 1, 1, 1)), of.choice((0, 0, 0, 8))
        elif function == CURRENT_TARGET and of.random() < 0.2:
            call.target.size = 8
        if function in (GEMM_PACKED, SELECT_PACKED):
            self.make_packed(call)
        if function in (SELECT, SELECT_PACKED, PACK_BYTES):
            call.device = max(call.device, 0)
            if call.flags & WITH_TARGET and of.random() < 0.05:
                call.target.units = 0
        elif 5 < p.batch <= MOST_TURNS:
            p.batch = 5
        if function not in (SGEMM, GEMM_PACKED, SELECT_PACKED) and p.kernel and of.random() < 0.8:
            one = of.choice(reference.known)
            self.fit(call, one)
            p.kernel = 1 + one.number
        if function != SGEMM and of.random() < 0.15:
            self.spoil(p)
        if function in (GEMM, GEMM_PACKED, PACK):
            self.make_workspace(call)
        if function in (GEMM, GEMM_PACKED, PACK, SGEMM, PREPARE) and of.random() < 0.25:
            call.fails_in = of.randint(1, 9)
        if self.memory and self.memory.random() < 0.2:
            call.flags |= OWN_MEMORY | (MISALIGNED if self.memory.random() < 0.2 else 0)
        if function in (SELECT, GEMM) and self.kinds.random() < 0.06:
            self.make_kind(p)
        return call

    def make_kind(self, p: Problem) -> None:
        """A routine beside GEMM, of which most is right where the product's extents are."""
        of = self.kinds
        p.kind = of.choice((SYRK, SYR2K, GEMMT, SYMM, TRMM, TRSM, TRSM)) if of.random() < 0.95 else of.choice((-1, TRSM + 1))
        p.uplo, p.side, p.diag = (of.randint(0, 1) for _ in range(3))
        if p.kind in OF_TRIANGLE and of.random() < 0.9:
            p.n = p.m
        if of.random() < 0.9:
            p.epilogue, p.bias = 0, None
        most = max(1, *(extent for extent in (p.m, p.n, p.k) if extent <= LARGEST_EXTENT))
        p.lda, p.ldb, p.ldc = (most + of.choice((0, 1, 5)) for _ in range(3))
        p.stride_a, p.stride_b, p.stride_c = (of.choice((1, -1)) * most * ld for ld in (p.lda, p.ldb, p.ldc))
        if of.random() < 0.3:
            name, value = of.choice((("lda", max(p.m, p.n) - 1), ("ldb", p.n - 1), ("ldc", min(p.m, p.n) - 1), ("uplo", 2), ("side", -1), ("diag", 2),
                                     ("stride_b", 2**62), ("stride_c", 0), ("a", None), ("b", None), ("c", None), ("ldb", 0), ("flags", p.flags ^ POINTERS)))
            setattr(p, name, value)

    def make_sgemm(self, call: Call) -> None:
        of, p = self.of, call.problem
        turned = [one in b"tTcC" for one in (call.transa, call.transb)]
        call.workspace = call.bytes = 0
        p.m, p.n, p.k = (min(one, 2**31 - 1) for one in (p.m, p.n, p.k))
        p.lda = max(1, p.k if turned[0] else p.m) + of.choice((0, 0, 3))
        p.ldb = max(1, p.n if turned[1] else p.k) + of.choice((0, 0, 3))
        p.ldc = max(1, p.m) + of.choice((0, 0, 3))
        p.alpha = p.beta = None
        call.flags = ALPHA_OF_HOST | BETA_OF_HOST
        if of.random() < 0.2:
            spoilt = of.randrange(6)
            if spoilt == 0:
                call.transa = b"x"
            elif spoilt == 1:
                call.transb = b"1"
            elif spoilt == 2:
                call.flags = of.choice((ALPHA_OF_HOST, BETA_OF_HOST))
            elif spoilt == 3:
                setattr(p, of.choice("abc"), None)
            elif spoilt == 4:
                setattr(p, of.choice(("lda", "ldb", "ldc")), 0)
            else:
                setattr(p, of.choice("mnk"), -5)

    def make_packed(self, call: Call) -> None:
        """Words as packing leaves them, or nearly."""
        of, p, reference = self.of, call.problem, self.reference
        p.flags &= ~POINTERS
        operand = of.choice("ab")
        if p.batch > 1 and of.random() < 0.9:
            setattr(p, f"stride_{operand}", 0)
        side = operand if p.order == 0 else {"a": "b", "b": "a"}[operand]
        known = [number for (_, x), number in reference.formats.items() if x == side and number]
        rows, columns = (p.m, p.k) if operand == "a" else (p.k, p.n)
        call.packed = sized(Packed, operand=ord(operand), format=of.choice(known), rows=rows, columns=columns, order=p.order,
                            memory=(1 << 42) + 256 * of.randrange(1 << 20), bytes=1 << 62)
        if of.random() < 0.8:  # of a kernel that there is, in its layout
            one = of.choice([one for one in reference.known if reference.formats[one.number, side]])
            call.packed.format = reference.formats[one.number, side]
            self.fit(call, one)
        if of.random() < 0.4:
            setattr(p, operand, None)
        if of.random() < 0.1:
            name, value = of.choice((("size", 8), ("operand", 99), ("format", 0), ("format", 99), ("rows", rows + 1), ("columns", columns - 1),
                                     ("order", 1 - p.order), ("reserved", 1), ("memory", None), ("memory", 1 << 42 | 128), ("bytes", 255), ("rows", p.k), ("rows", p.m),
                                     ("rows", p.n), ("columns", p.k), ("columns", p.m), ("columns", p.n)))
            setattr(call.packed, name, value)

    def fit(self, call: Call, one: Known) -> None:
        """A device and a layout that a kernel is for."""
        of, p = self.of, call.problem
        p.transpose_a, p.transpose_b = one.transposed if p.order == 0 else one.transposed[::-1]
        shapes = {"a": (p.k, p.m) if p.transpose_a else (p.m, p.k), "b": (p.n, p.k) if p.transpose_b else (p.k, p.n)}
        for x, shape in shapes.items():
            setattr(p, f"ld{x}", max(1, shape[1 - p.order]) + of.choice((0, 3)))
        call.device = of.choice([at for at, (major, minor, *_) in enumerate(DEVICES) if one.suits(f"sm_{10 * major + minor}") >= 0])
        call.target.arch = of.choice(one.archs).replace("compute_", "sm_").rstrip("a").encode()

    def make_workspace(self, call: Call) -> None:
        """The caller's, as large as it has to be or a byte less, or the pool's."""
        of, needed = self.of, self.needed(call)
        if needed is None:
            return
        if call.function == GEMM_PACKED and needed[1] and of.random() < 0.5:
            call.packed.bytes = needed[1] - of.choice((0, 0, 1))
        kind = of.random()
        small = needed[0] <= 1 << 26
        if call.function != PACK and small and kind < 0.5:
            call.bytes = of.choice((0, 0, 0, 0, 0, 0, 0, 0, 1))
            return
        call.workspace = (1 << 41) + 256 * of.randrange(1 << 20)
        call.bytes = needed[0] + of.choice((0, 0, 0, 0, 256, 1 << 30, -1))
        if of.random() < 0.05:
            call.workspace += 128

    def needed(self, call: Call) -> tuple[int, int] | None:
        """Bytes of a workspace, and of packed words; None where the call does not come so far."""
        reference = self.reference
        if reference.wrong(call.problem):
            return None
        of, device = reference.asked(call), reference.target(call)
        if call.function == PACK:
            found = reference.packing(of, call.operand.decode(), device) if call.operand in b"ab" and not of.pointers else BAD_OPERAND
            return None if isinstance(found, int) else (found[2].bytes, 0)
        if call.function == GEMM_PACKED:
            if reference.packed_code(call, of) != OK:
                return None
            of = replace(of, packed=reference.inner(of, chr(call.packed.operand)), format=call.packed.format)
        of = reference.folded(of)
        one = reference.chosen(of, device)
        if isinstance(one, int) or of.batch == 0:
            return None
        words = one.words(one.extents(of.m, of.n, of.k, 1), of.packed).bytes if of.packed else 0
        return reference.needed(one, of, of.depth)[-1], words


def edges(reference: Reference) -> list[Call]:
    """Choices where something changes: the last k of a scheme, the last product of a rule, a grid that is one too large, one turn too many."""
    found: list[Call] = []

    def add(m: int, n: int, k: int, one: Known | None = None, arch: str = "", layout: str | None = None, function: int = SELECT,
            operand: bytes = b"b", **fields: int | None) -> None:
        ta, tb = one.transposed if one else (x == "t" for x in layout or "nn")
        ld = {"lda": m if ta else k, "ldb": k if tb else n, "ldc": n}
        p = sized(Problem, m=m, n=n, k=k, transpose_a=ta, transpose_b=tb, kernel=1 + one.number if one else 0,
                  **{"stride_a": m * k, "stride_b": k * n, "stride_c": m * n} | {name: max(1, value) for name, value in ld.items()} | fields)
        found.append(Call(function=function, operand=operand, flags=WITH_TARGET, problem=p, packed=sized(Packed), workspace=1 << 41, bytes=1 << 50,
                          target=sized(Target, arch=(arch or (one.archs[0].replace("compute", "sm").rstrip("a") if one else "sm_80")).encode(), units=108)))

    for one in reference.known:
        for arch in ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_91", "sm_120"):  # sm_91: a later chip of sm_90a's generation
            add(70, 45, 100, one, arch)
        for k in {SEGMENT_K, *BOUND_K, one.largest_k or 1, one.least[0] or 1}:
            for off in (-1, 0, 1):
                add(70, 45, k + off, one)
        for m, n, k in ((2**22, 2**22, 1), (2**21, 1, 2**30), (1, 2**21, 2**30), (LARGEST_EXTENT, LARGEST_EXTENT, 1)):
            add(m, n, k, one)
            add(m, n, k, one, flags=POINTERS)
        for batch in (MOST_TURNS, MOST_TURNS + 1):
            add(70, 45, 100, one, batch=batch, flags=POINTERS)
            add(70, 45, 100, one, batch=batch)
        for m, n in ((3200, 1), (32, 3200), (2000, 2000), (33, 1)):  # whose epilogue has as many blocks as there may be, or a few more
            most = (2**31 - 1) // reference.finish_blocks(m, n, 1)
            for batch in (most, most + 1):
                add(m, n, 1, one, batch=batch, epilogue=1)
    for part in RULES:
        for rule in part.rules:
            told = {"m": 30, "n": 30, "k": 30} | {name: most for name, most in rule.at_most.items() if name != "mn"}
            for name in "mnk":
                for off in (-1, 0, 1):
                    add(**told | {name: told[name] + off}, arch=part.arch, layout=part.layout)
            if "mn" in rule.at_most:
                for n in (49, 50, 51):
                    add(rule.at_most["mn"] // 50, n, 30, arch=part.arch, layout=part.layout)
    for one in reference.known:
        least_k, least = map(int, one.least)
        for m in ([least // least_k // 3, least // least_k // 2, least // least_k] if least_k else []):
            for off in (-1, 0, 1):
                for k in (least_k - 1, least_k):
                    add(m, least // least_k - m + off, k, arch="sm_90", layout=one.plan.layout)
    for arch in ("sm_80", "sm_90", "sm_75"):
        for outer in (1, 33, 300, 5000):
            for k in (1, 64, 700, 9000):
                for order in (0, 1):
                    bias = 64 if outer == 33 else None
                    add(outer, 0, k, arch=arch, function=PACK_BYTES, operand=b"a", order=order, bias=bias, lda=outer + k, ldb=k + 1, ldc=outer)
                    add(0, outer, k, arch=arch, function=PACK_BYTES, operand=b"b", order=order, bias=bias, lda=k + 1, ldb=outer + k, ldc=outer)
    for operand in (b"a", b"b"):  # of no elements there need be nothing
        for order in (0, 1):
            add(0 if operand == b"a" else 20, 0 if operand == b"b" else 20, 30, function=PACK, operand=operand, order=order, lda=50, ldb=50, ldc=20)
    divisor = next(one for one in range(3, 50000) if LARGEST_EXTENT % one == 0)
    for m in (LARGEST_EXTENT // divisor - 1, LARGEST_EXTENT // divisor, LARGEST_EXTENT // divisor + 1):
        add(m, 3, 5, batch=divisor, stride_b=0)
    for gaps in ({}, {"stride_a": 7045}, {"stride_c": 3160}):  # one product of more rows only where neither A nor C has gaps
        add(70, 45, 100, batch=3, **{"stride_b": 0, **gaps})
    return found


# ---- replaying them


class Replay:
    """A library, the stand-in driver and what replays calls, compiled under a sanitiser.

    Args:
        sanitiser: gcc's word for it; "" for none.
        platform: `cuda` or `hip`.
    """

    def __init__(self, folder: Path, sanitiser: str, platform: str = "cuda"):
        self.folder, self.reference = folder, Reference(platform)
        extra = f'#define {GUARD}_DRIVER_FILES "{folder}/libdriver.so"\n'
        finish = [Image(f"{FINISH}_{arch}", arch, ".bin", f"{FINISH}_{arch}\0".encode()) for arch in self.reference.finish_archs]
        with (
            unittest.mock.patch.object(kernel_module, "without_line_info", lambda source, binary: binary),
            unittest.mock.patch.object(tables, "BOUND_K", BOUND_K), unittest.mock.patch.object(tables, "_bound", self._bound),
        ):
            files = written(folder, kernels(), platform=platform, finish=finish, rules=RULES, extra=extra)
        checks = [f"-fsanitize={sanitiser}", "-fno-sanitize-recover=all"] if sanitiser else []
        flags = [GCC, "-std=gnu99", "-g", "-O1", "-Wall", "-Wextra", "-Werror", *checks]
        hip = ["-DHIP"] * self.reference.hip
        driver = subprocess.Popen([*flags, *hip, "-fPIC", "-shared", str(HERE / "standin_driver.c"), "-o", "libdriver.so"], cwd=folder)
        objects = subprocess.Popen([*flags, f"-D{GUARD}_STATIC", "-I.", "-c", "runtime.c", "-o", "runtime.o"], cwd=folder)
        assert driver.wait() == objects.wait() == 0
        subprocess.run([*flags, f"-D{GUARD}_STATIC", "-I.", str(HERE / "library_replay.c"), "runtime.o", files[1], "-o", "replay", "-L.", "-ldriver", "-ldl",
                        "-lpthread", f"-Wl,-rpath,{folder}"], check=True, cwd=folder)
        (folder / "described").write_text("".join(f"{symbol} {kinds}\n" for symbol, kinds in self.reference.described)
                                         + "".join(f"@ {number} {' '.join(map(str, one))}\n" for number, one in enumerate(DEVICES)))

    @staticmethod
    def _bound(plan: Plan, archs: Sequence[str], k: int) -> str:
        """What a table holds of a bound, which takes long to find."""
        error, worst = bound(plan, k, archs)
        return f"{{{k}, {error!r}, {worst!r}}}"

    def __call__(self, calls: Sequence[Call], mode: str = "threads", threads: int = 1) -> list[Answer]:
        """What each call gives; of `fresh` several for each.

        Raises:
            AssertionError: a sanitiser has found something.
        """
        (self.folder / "calls").write_bytes(b"".join(map(bytes, calls)))
        ran = subprocess.run([str(self.folder / "replay"), "calls", "results", "described", mode, str(threads)], cwd=self.folder, capture_output=True, text=True,
                             timeout=300)
        assert ran.returncode == 0, ran.stderr[-4000:]
        return list(answers((self.folder / "results").read_bytes()))


def answers(data: bytes) -> Iterator[Answer]:
    at = 0
    while at < len(data):
        result = Result.from_buffer_copy(data, at)
        at += ctypes.sizeof(Result)
        end, events = at + result.recorded, []
        while at < end:
            kind, code, device, count = struct.unpack_from("<4i", data, at)
            events.append(Event(CALLS[kind], code, device, struct.unpack_from(f"<{count}Q", data, at + 16)))
            at += 16 + 8 * count
        yield Answer(result, tuple(events))


# ---- judging many


def drawn(replay: Replay, seed: int, count: int, allocators: bool = False) -> list[Call]:
    """In the first ones nothing fails: a driver that does not tell its version stays unknown."""
    draw = Draw(seed, replay.reference, allocators)
    calls = [draw() for _ in range(count)]
    for call in calls[:40]:
        call.fails_in = 0
    return calls


def judged(replay: Replay, calls: Sequence[Call], answers: Sequence[Answer], alone: bool = True) -> Counter[str]:
    """How often which driver call failed.

    Raises:
        AssertionError: a call did something else than it has to; the first one is told.
    """
    found: Counter[str] = Counter()
    for number, (call, answer) in enumerate(zip(calls, answers, strict=True)):
        try:
            found[replay.reference.check(call, answer, alone)] += 1
        except AssertionError as error:
            raise AssertionError(f"call {number}: {error}\n{call}") from None
    return found


def once(replay: Replay, answers: Sequence[Answer]) -> None:
    """Machine code is loaded once, by HIP's runtime once for each device, and a device has one pool.

    Raises:
        AssertionError: not so.
    """
    events = [event for answer in answers for event in answer.events if event.code == 0]
    created, set_, destroyed = (Counter(event.device for event in events if event.kind == kind) for kind in ("pool_create", "pool_set", "pool_destroy"))
    assert set(set_.values()) <= {1}, "a device has several pools"
    loaded: Counter[tuple[int, int]] = Counter()
    for event in events:
        if event.kind in ("load", "unload"):
            loaded[event.numbers[0], event.device if replay.reference.hip else 0] += 1 if event.kind == "load" else -1
    assert set(loaded.values()) <= {0, 1}, "machine code is loaded again, or what was unloaded was not there"
    assert all(created[device] - set_[device] <= destroyed[device] + 1 for device in created)


def first_calls(replay: Replay, more: int) -> list[Call]:
    """A call of each function that asks the driver for something: in a thread without a device, by the pool, of packed words, with epilogues; and drawn ones."""
    problem = sized(Problem, m=70, n=45, k=100, lda=100, ldb=45, ldc=45, a=1 << 40, b=1 << 41, c=1 << 42)
    scalars, none = ALPHA_OF_HOST | BETA_OF_HOST, 0 if replay.reference.hip else -1
    found = [
        Call(function=GEMM, device=none, flags=scalars, alpha=1.0, problem=problem), Call(function=PREPARE, device=1), Call(function=CURRENT_TARGET, device=none),
        Call(function=PACK, device=1, operand=b"b", workspace=1 << 43, bytes=1 << 30, problem=problem, packed=sized(Packed)),
        Call(function=READ_STATUS, device=0, workspace=1), Call(function=PREPARE, device=2),
        Call(function=GEMM, device=0, flags=scalars | OWN_MEMORY, alpha=1.0, problem=problem),
    ]
    found[2].target.size = 40
    batch = Problem.from_buffer_copy(problem)
    batch.batch, batch.stride_a, batch.stride_b, batch.stride_c, batch.epilogue, batch.flags = 2, 7000, 4500, 3150, 1, 1
    batch.alpha = batch.beta = 1 << 44
    found.append(Call(function=GEMM, device=1, flags=0, problem=batch))
    draw, fixed = Draw(99, replay.reference, allocators=True), len(found)
    while len(found) < fixed + more:
        call = draw()
        if call.function in (GEMM, PACK, GEMM_PACKED) and replay.reference.wanted(call, 0).codes == {OK} and replay.reference.wanted(call, 0).needs:
            found.append(call)
    for call in found:
        call.fails_in, call.fails_with = 0, FAILED
    return found


def failing_in_turn(replay: Replay, calls: Sequence[Call]) -> Counter[str]:
    """How often which driver call failed, where each of a first call does in turn; and that the same call once more does all that it has to.

    Raises:
        AssertionError: a call did something else than it has to, or left something behind.
    """
    answers = iter(replay(calls, mode="fresh"))
    of, found = replay.reference, Counter[str]()
    for call in calls:
        is_left = True
        while is_left:
            broken, again = next(answers), next(answers)
            is_left = bool(broken.result.failed)
            call.fails_in = int(is_left)
            found += judged(replay, [call], [broken])
            call.fails_in = 0
            kind = next((event.kind for event in broken.events if event.code == FAILED), "")
            if kind == "version":
                assert again.result.code == broken.result.code, "a driver that does not tell its version stays unknown"
                continue
            judged(replay, [call], [again])
            if call.function == PREPARE and broken.result.code == OK:
                symbols = [event.numbers[0] for event in broken.events if event.kind == "function" and event.code == 0]
                ready = {of.described[number][0] for number in symbols}
                assert ready == {FINISH} | {launch.symbol for one in of.known if of.runs_on(one, of.target(call)) for launch in one.launches}
            if call.function in (GEMM, PREPARE):  # whoever comes first loads all that was made for the device; the driver compiles when it has to
                device = of.target(call)
                loaded = {of.described[event.numbers[0]][0] for event in (*broken.events, *again.events) if event.kind == "load"}
                own, every = (of.code_of(device, portable) for portable in (False, True))
                assert {label for label in loaded if not label.startswith(f"{FINISH}_")} == own | every & of.wanted(call, 0).needs
            events = [*broken.events, *again.events]
            once(replay, [broken, again])
            live = [sum((event.kind == more) - (event.kind == less) for event in events if event.code == 0) for more, less in (
                ("pool_create", "pool_destroy"), ("retain", "release"))]
            pools = any(event.kind == "take" for event in events) and not call.flags & OWN_MEMORY
            assert [again.result.pools, again.result.retained] == live == [
                int(pools), sum(event.kind == "make_current" and event.code == 0 for event in events)]
    return found


# ---- the record

AT_ONCE = 4000
"""Calls of one process; the next one begins with nothing loaded."""
SANITISERS = {"address,undefined": 1, "thread": 4}
"""And threads, which take the calls in turn."""


def record(count: int, progress: Callable[[str], None]) -> str:
    """A Markdown table of so many calls for each platform and sanitiser, all of which did what they have to; what depends on the order of threads is left out.

    Raises:
        AssertionError: a call did something else, or a sanitiser has found something.
    """
    lines = ["| runtime | sanitiser | threads | calls | driver calls | that failed | first calls | with one failing driver call after another |",
             "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for platform in ("cuda", "hip"):
        for sanitiser, threads in SANITISERS.items():
            alone, failed, asked, told = threads == 1, Counter[str](), 0, [""] * 4
            with tempfile.TemporaryDirectory() as folder:
                replay = Replay(Path(folder), sanitiser, platform)
                for at in range(0, count, AT_ONCE):
                    progress(f"{platform}, {sanitiser}: {at} of {count}")
                    calls = drawn(replay, 1000 + at, min(AT_ONCE, count - at), allocators=alone)
                    given = replay(calls, threads=threads)
                    failed += judged(replay, calls, given, alone)
                    once(replay, given)
                    asked += sum(len(one.events) for one in given)
                if alone:
                    first = first_calls(replay, count // 1000)
                    turns = failing_in_turn(replay, first)
                    numbers = asked, failed.total() - failed[""], len(first), turns.total() - turns[""]
                    told = [f"{number:,}" for number in numbers]
            lines.append(f"| {' | '.join((platform.upper(), sanitiser.replace(',', ', '), str(threads), f'{count:,}', *told))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    import sys

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=80_000, help="calls of each platform and sanitiser")
    print(record(parser.parse_args().count, lambda text: print(text, file=sys.stderr)))
