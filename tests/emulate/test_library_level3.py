"""BLAS's level 3 through a library's C functions: each way of each routine on the emulator, in small, as tests/support/level3.py asks it."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from standin import GCC, Library

import level3
from gemmgen.catalog.element import ELEMENTS
from gemmgen.library.kernel import Kernel
from gemmgen.library.routines import LEVEL3, NUMBERS, ways_of
from gemmgen.library.structures import Choice, Problem, sized
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.kinds.triangles import LOWER, UPPER, Syrk
from test_library import NOT_SERVED, OK, of_plan
from ways import TINY, plan_of

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")
EXTENTS = (1, 3, 9, 33)
BAD_M, BAD_EPILOGUE, BAD_FLAGS, BAD_KIND = -3, -14, -15, -27


def kernel(way: dict[str, str], special: str = "exact", scheme: str = "ootomo") -> Kernel:
    plan = solve(loads({
        "problem": way, "split": {"scheme": scheme, "special": special}, "target": {"gpu": "a100"}, "tile": TINY, "build": {"allow_spills": True},
    }))
    return of_plan("_".join(map(str, way.values())), plan)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Of each routine's kernels a library of its own, built where a test asks for it."""
    @cache
    def made(name: str) -> Library:
        return Library(tmp_path_factory.mktemp(name), [kernel(way) for way in ways_of(name)], archs=["sm_80"], arch="sm_80")
    return made


def runs(library: Library):
    def run(one: level3.Call) -> int:
        given, held = [], {}
        for name in level3.ROUTINES[one.routine].arguments:
            value = one.value(name)
            if isinstance(value, str):
                given.append(ctypes.c_char(value.encode()))
            elif isinstance(value, (int, np.integer)):
                given.append(ctypes.c_int(value))
            elif isinstance(value, np.ndarray):
                held[name] = library.put(value, misalign=4)
                given.append(ctypes.c_void_p(held[name].ctypes.data))
            else:
                given.append(ctypes.byref(ctypes.c_float(value)))
        code = library(one.routine.lower(), *given, None)
        for name, x in held.items():
            one.stored[name][...] = x
        return code
    return run


@pytest.mark.parametrize("routine", ["SSYRK", "SSYR2K", "SSYMM", "STRMM", "SGEMMT", pytest.param("STRSM", marks=pytest.mark.long)])
def test_every_letter_of_a_routine(library, routine):
    made = library(routine[1:].lower())
    assert not list(level3.faults(runs(made), level3.some(routine, EXTENTS)))
    assert {symbol for symbol, _ in made.launched} >= {one.built.source.launches[0 if routine == "STRSM" else -1].symbol for one in made.kernels}
    assert not list(level3.wrong_exits(runs(made), routine))


def problem(
    library: Library, name: str, order: int, upper: int = 0, right: int = 0, unit: int = 0, transpose: int = 0, batch: int = 0, n: int = 40, **more,
) -> tuple[Problem, dict]:
    """A problem of a kind, [m, n] = [70, n] or [n, n], k = 36, whose stored matrices are NaN where nothing may be read, and its operands in FP64."""
    rng = np.random.default_rng(5)
    triangle = name in ("syrk", "syr2k", "gemmt")
    m, k, count = n if triangle else 70, 36, max(batch, 1)
    side = n if right else m
    if triangle:
        shapes = {"a": (n, k), "b": (k, n) if name == "gemmt" else (n, k), "c": (n, n)}
    else:
        shapes = {"a": (side, side), "b": (m, n), "c": (m, n)}
    turned = {"a": transpose, "b": transpose * (name == "syr2k"), "c": 0}
    meant, held, fields = {}, {}, {}
    for x, shape in shapes.items():
        meant[x] = rng.uniform(-1, 1, (count, *shape))
        meant[x] = np.float64(np.float32(meant[x]))
        memory = meant[x].copy()
        if x == "a" and not triangle:
            kept = np.tri(side, dtype=bool)
            kept = kept.T if upper else kept
            half = np.where(kept, meant[x], 0)
            memory = np.where(kept, memory, np.nan)
            if name == "symm":
                meant[x] = half + half.transpose(0, 2, 1) - np.eye(side) * meant[x]
            else:
                meant[x] = half
                if unit:
                    memory[:, np.arange(side), np.arange(side)], meant[x][:, np.arange(side), np.arange(side)] = np.nan, 1
                meant[x] = meant[x].transpose(0, 2, 1) if transpose else meant[x]
        elif turned[x]:
            memory = memory.transpose(0, 2, 1)
        if order:
            memory = memory.transpose(0, 2, 1)
        padded = np.full((*memory.shape[:2], memory.shape[2] + 3), np.nan, np.float32)
        padded[:, :, :-3] = memory
        held[x] = library.put(padded)
        fields |= {x: held[x].ctypes.data, f"ld{x}": padded.shape[2], f"stride_{x}": padded[0].size}
    stands = {"uplo": upper, "side": right, "diag": unit, "transpose_a": transpose}
    made = sized(Problem, order=order, kind=NUMBERS[name], m=m, n=n, k=k, batch=batch, **(stands | fields | more))
    return made, {"meant": meant, "held": held, "before": {x: y.copy() for x, y in held.items()}, "order": order}


def product(name: str, right: int, meant: dict) -> np.ndarray:
    a, b = meant["a"], meant["b"]
    if name == "syrk":
        return a @ a.transpose(0, 2, 1)
    if name == "syr2k":
        return a @ b.transpose(0, 2, 1) + b @ a.transpose(0, 2, 1)
    return b @ a if right else a @ b


def check(name: str, upper: int, right: int, alpha: float, beta: float, told: dict) -> None:
    c = told["held"]["c"][:, :, :-3]
    c = c.transpose(0, 2, 1) if told["order"] else c
    wanted = alpha * product(name, right, told["meant"]) + beta * told["meant"]["c"]
    kept = np.ones(wanted.shape[1:], bool)
    if name in ("syrk", "syr2k", "gemmt"):
        kept = np.tri(wanted.shape[1], dtype=bool).T if upper else np.tri(wanted.shape[1], dtype=bool)
    assert np.abs(c - wanted)[:, kept].max() < 3e-5
    before = told["before"]["c"][:, :, :-3]
    before = before.transpose(0, 2, 1) if told["order"] else before
    assert (c == before)[:, ~kept].all(), "the other triangle was written"
    assert np.isnan(told["held"]["c"][:, :, -3:]).all(), "elements beside C were written"


def enqueued(library: Library, asked: Problem) -> Choice:
    choice = sized(Choice)
    code = library("select", ctypes.byref(asked), None, ctypes.byref(choice))
    assert code == OK, library("error_string", code)
    memory = library.empty(choice.workspace_bytes)
    code = library("gemm", ctypes.byref(asked), ctypes.c_void_p(memory.ctypes.data), ctypes.c_size_t(memory.nbytes), None)
    assert code == OK, library("error_string", code)
    return choice


@pytest.mark.parametrize("name", ["syrk", "symm", "trmm", *(pytest.param(one, marks=pytest.mark.long) for one in ("syr2k", "gemmt"))])
def test_rows_and_columns_batches_and_scalars_of_the_device(library, name):
    """Each order with a side, a triangle and a transpose; alpha and beta on the device, which a second launch applies to the triangle alone."""
    made = library(name)
    for order, upper, right, transpose, on_device, batch in ((0, 0, 0, 0, 1, 0), (0, 1, 1, 1, 0, 2), (1, 0, 1, 0, 1, 0), (1, 1, 0, 1, 1, 2)):
        transpose, right = transpose * (name not in ("symm", "gemmt")), right * (name in ("symm", "trmm"))
        scalars = made.put(np.array([0.5, -2.0], np.float32))
        beside = {"symm": {"transpose_a": upper, "transpose_b": upper}, "trmm": {"transpose_b": upper}}.get(name, {})  # which a side has no use for
        asked, told = problem(made, name, order, upper, right, unit=upper, transpose=transpose, batch=batch, flags=on_device, alpha=scalars.ctypes.data,
                              beta=scalars[1:].ctypes.data, **beside)
        before = len(made.launched)
        enqueued(made, asked)
        check(name, upper, right, 0.5, 0.0 if name == "trmm" else -2.0, told)
        assert [symbol for symbol, _ in made.launched[before:]].count("finish") == on_device * max(batch, 1)


@pytest.mark.parametrize("name", ["syrk", "trmm"])
def test_alpha_0_reads_neither_operand_and_beta_0_no_c(library, name):
    made = library(name)
    for alpha, beta in ((0.0, 0.5), (0.0, 0.0), (0.5, 0.0)):
        scalars = made.put(np.array([alpha, beta], np.float32))
        asked, told = problem(made, name, 1, alpha=scalars.ctypes.data, beta=scalars[1:].ctypes.data)
        if not beta:
            told["held"]["c"][...] = np.nan
            told["before"]["c"][...] = told["held"]["c"]
        if not alpha:
            asked.a = asked.b = None
        enqueued(made, asked)
        c = told["held"]["c"][0, :, :-3].T
        kept = np.tri(len(c), dtype=bool) if name == "syrk" else np.ones(c.shape, bool)
        wanted = alpha * product(name, 0, told["meant"])[0] + (beta if name == "syrk" else 0) * told["meant"]["c"][0]
        assert np.abs(c - wanted)[kept].max() < 3e-5
        assert np.array_equal(c[~kept], told["before"]["c"][0, :, :-3].T[~kept], equal_nan=True)


@pytest.mark.parametrize("special", ["exact", pytest.param("fast", marks=pytest.mark.long)])
def test_trmm_in_place_keeps_b_until_it_is_read(tmp_path, special):
    """A kernel that repairs reads B again, where another tile may have stored C: a row with an Inf is that of the product in memory of its own."""
    way = {"kind": "trmm", "uplo": "lower", "side": "right", "layout": "nn"}
    made = Library(tmp_path, [kernel(way, special)], archs=["sm_80"], arch="sm_80")
    found, choices = [], []
    for in_place in (True, False):
        asked, told = problem(made, "trmm", 0, right=1, n=100)
        if special == "exact":
            told["held"]["b"][0, 3, 70] = np.inf
        if in_place:
            asked.c, asked.ldc = asked.b, asked.ldb
        choices.append(enqueued(made, asked))
        found.append(told["held"]["b" if in_place else "c"][0])
    assert np.array_equal(*found, equal_nan=True) and (special == "fast" or np.isinf(found[0][3, :70]).all())
    assert (choices[0].workspace_bytes > choices[1].workspace_bytes) == (special == "exact")


@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_blocks_of_clusters_find_the_tiles_of_a_triangle(tmp_path, uplo):
    """Whole clusters, of which some reach below the triangle; blocks that stay."""
    way = dict(gpu="h200", fragment={"policy": "wgmma"}, tile={"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 2, "group": 2}, promote=32, stages=3)
    plan = replace(plan_of(**way, layout="nt" if uplo == LOWER else "tn"), kind=Syrk(uplo))
    made = Library(tmp_path, [of_plan("kernel", plan)], archs=["sm_90"])
    made.current("sm_90", units=132)
    for n in (40, 200):
        asked, told = problem(made, "syrk", 0, upper=int(uplo == UPPER), transpose=int(uplo == UPPER), n=n)
        enqueued(made, asked)
        check("syrk", int(uplo == UPPER), 0, 1.0, 0.0, told)
        main = made.kernels[0].built.source.launches[-1]
        assert made.launched[-1] == (main.symbol, main.blocks(made.kernels[0].built.source.interface.extents(n, n, 36)))


def test_what_is_wrong_with_a_problem_of_a_kind(library):
    made = library("syrk")

    def code(function="gemm", **fields) -> int:
        asked, _ = problem(made, "syrk", 0)
        for name, value in fields.items():
            setattr(asked, name, value)
        if function == "gemm":
            return made("gemm", ctypes.byref(asked), None, ctypes.c_size_t(0), None)
        return made("pack_bytes", ctypes.byref(asked), ctypes.c_char(b"a"), None, ctypes.byref(ctypes.c_size_t()))

    assert [code(kind=kind) for kind in (-1, 7)] == [BAD_KIND] * 2
    assert [code(**{name: value}) for name in ("uplo", "side", "diag") for value in (-1, 2)] == [BAD_KIND] * 6
    assert code(m=39) == BAD_M
    assert code(epilogue=1) == code(bias=64) == BAD_EPILOGUE
    assert code(flags=4) == BAD_FLAGS
    assert code("pack_bytes") == NOT_SERVED
    asked, _ = problem(made, "syrk", 0, batch=2)
    asked.b, asked.ldb, asked.stride_b = None, 0, 2**62
    assert made("gemm", ctypes.byref(asked), None, ctypes.c_size_t(0), None) == OK, "syrk has no B"
    for kind, transpose in (("trsm", 0), ("symm", 0), ("gemm", 1)):
        asked, _ = problem(made, "symm", 0)
        asked.kind, asked.transpose_a = NUMBERS[kind], transpose
        asked.m = asked.k = asked.n
        assert made("gemm", ctypes.byref(asked), None, ctypes.c_size_t(0), None) == NOT_SERVED, kind
    made.current("sm_90", device=1)
    try:
        assert code() == NOT_SERVED, "no portable kernel has this kind"
    finally:
        made.current("sm_80")


def test_the_vendor_s_time_is_that_of_the_routine(library):
    """A triangle takes half of the product's time, but for what a launch takes."""
    seconds = {}
    for name in ("syrk", "symm"):
        made = library(name)
        asked, _ = problem(made, name, 0)
        asked.m = asked.n = asked.k = 4096
        asked.lda = asked.ldb = asked.ldc = 4096
        choice = sized(Choice)
        assert made("select", ctypes.byref(asked), None, ctypes.byref(choice)) == OK
        seconds[name] = choice.sgemm_seconds - 2.14e-6 - 256 * 15e-9
    assert seconds["syrk"] == pytest.approx(seconds["symm"] / 2)


def test_the_header_numbers_the_kinds_as_the_tables_do(library):
    text = (library("syrk").folder / "lab.h").read_text()
    for name, number in NUMBERS.items():
        assert f"lab_{name.upper()} = {number}" in text
    assert set(LEVEL3) == set(NUMBERS) - {"gemm"}


SYSTEMS = (
    ({"kind": "trsm", "uplo": "lower", "side": "left", "diag": "nonunit", "layout": "nn"}, "ootomo"),
    ({"kind": "trsm", "uplo": "upper", "side": "right", "diag": "unit", "layout": "nt"}, "scaled"),  # whose maxima are cleared before each product
)


PADDED = {"a": 3, "b": 3, "c": 5}
"""Elements between two stored rows."""


@pytest.fixture(scope="module")
def systems(tmp_path_factory):
    made = Library(tmp_path_factory.mktemp("systems"), [kernel(way, scheme=scheme) for way, scheme in SYSTEMS], archs=["sm_80"], arch="sm_80")
    made.current("sm_80", units=108)
    return made


def system(library: Library, right: int, order: int, size: int, others: int = 5, batch: int = 0, in_place: bool = False, **more):
    """A problem that the kernel of that side serves, by rows, or by columns the same memory's other side and triangle; its operands; and what its result is."""
    rng, count = np.random.default_rng(7), max(batch, 1)
    t = np.tril(rng.uniform(-1, 1, (count, size, size))) / np.sqrt(size) / 2
    t[:, np.arange(size), np.arange(size)] = 1 if right else rng.uniform(1, 2, (count, size))
    # On the right, whose scheme scales rows, magnitudes of later ones are small, so that maxima of those before would show.
    t, b = np.float64(np.float32(t)), np.float64(np.float32(rng.uniform(-1, 1, (count, size, others)))) * 2.0 ** -(24 * right * np.arange(count))[:, None, None]
    memory = t.copy()  # on the right X T^T = B, and the upper T^T is stored transposed
    memory[:, *np.triu_indices(size, 0 if right else 1)] = np.nan
    sides = b.transpose(0, 2, 1) if right else b
    held = {}
    for name, x in (("a", memory), ("b", sides), ("c", sides * np.nan)):
        held[name] = np.full((*x.shape[:2], x.shape[2] + PADDED[name]), np.nan, np.float32)
        held[name][:, :, : x.shape[2]] = x
        held[name] = library.put(held[name])
    m, n = sides.shape[1:][::-1] if order else sides.shape[1:]
    fields = {key: value for x in held for key, value in (
        (x, held[x].ctypes.data), (f"ld{x}", held[x].shape[2]), (f"stride_{x}", held[x][0].size))}
    if in_place:
        fields |= {"c": fields["b"], "ldc": fields["ldb"], "stride_c": fields["stride_b"]}
    stands = {"kind": NUMBERS["trsm"], "side": right ^ order, "diag": right, "transpose_a": right, "uplo": order}
    asked = sized(Problem, order=order, m=m, n=n, k=3, batch=batch, **(stands | fields | more))

    def solution(alpha: float) -> float:
        """The largest error beside the exact solution's largest element; whether anything else was written is looked at, too."""
        c, width = held["b" if in_place else "c"], sides.shape[2]
        assert np.isnan(c[:, :, width:]).all() and np.array_equal(held["a"][:, :, :-3], np.float32(memory), equal_nan=True)
        if not in_place:
            assert np.array_equal(held["b"][:, :, :-3], np.float32(sides))
        x = c[:, :, :width].transpose(0, 2, 1) if right else c[:, :, :width]
        want = np.linalg.solve(t, alpha * b)
        return float((np.abs(x - want).max((1, 2)) / np.abs(want).max((1, 2))).max())

    return asked, held, solution


def of_scalars(library: Library, *values: float) -> dict[str, int]:
    """alpha and beta of a problem in memory that kernels may read."""
    held = library.put(np.array(values, np.float32))
    return {"alpha": held.ctypes.data, "beta": held[1:].ctypes.data}


@pytest.mark.parametrize(("right", "order", "in_place", "on_device", "batch"), [
    (0, 0, False, 0, 0), (1, 1, True, 1, 2), *(pytest.param(*one, marks=pytest.mark.long) for one in ((0, 1, True, 1, 2), (1, 0, False, 0, 0))),
])
def test_a_system_of_several_blocks_is_solved_in_rounds(systems, right, order, in_place, on_device, batch):
    """Beside B and in its place, of either order; alpha of the host or of the device, which is applied last; a batch one after another; on a second device."""
    systems.current("sm_80", units=108, device=right)
    size = 276 if batch else 532
    asked, _, solution = system(systems, right, order, size=size, in_place=in_place, batch=batch, flags=on_device, **of_scalars(systems, -0.5, np.nan))
    before = len(systems.launched)
    choice = enqueued(systems, asked)
    own = systems.kernels[right].built.source
    assert (choice.kernel, choice.workspace_bytes) == (right, own.interface.workspace(*((5, size) if right else (size, 5)), size).bytes)
    assert solution(-0.5) < 5e-6
    solve, *between = (one.symbol for one in own.launches)
    wanted = [solve, *between] * (size // 256) + [solve]
    assert [symbol for symbol, _ in systems.launched[before:]] == (["finish"] * (not in_place) + wanted + ["finish"] * on_device) * max(batch, 1)


@pytest.mark.parametrize("on_device", [0, 1])
def test_with_alpha_0_a_system_is_0_whatever_its_operands_are(systems, on_device):
    """Of the host, neither is read, and both may be missing; of the device, one that has no solution."""
    systems.current("sm_80", units=108)
    asked, held, _ = system(systems, 0, 0, size=40 if on_device else 260, others=3, flags=on_device, **of_scalars(systems, 0.0, np.nan))
    if on_device:
        held["a"][...] = 0
    else:
        asked.a = asked.b = None
    before = len(systems.launched)
    enqueued(systems, asked)
    assert (held["c"][:, :, :3] == 0).all() and np.isnan(held["c"][:, :, 3:]).all()
    assert len(systems.launched) - before == (3 if on_device else 2)


def test_systems_without_unknowns_or_right_hand_sides_need_nothing(systems):
    for size, others, batch in ((0, 3, 0), (3, 0, 0), (3, 3, -1)):
        asked, _, _ = system(systems, 0, 0, size=3, others=3, batch=0)
        asked.m, asked.n, asked.batch = size, others, batch
        asked.a = asked.b = asked.c = None
        before = len(systems.launched)
        assert enqueued(systems, asked).workspace_bytes == 0 and len(systems.launched) == before


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """Of launches that take all systems of a batch."""
    kernels = [kernel(way | {"matrices": 2}, scheme=scheme) for way, scheme in SYSTEMS]
    made = Library(tmp_path_factory.mktemp("together"), kernels, archs=["sm_80"], arch="sm_80")
    made.current("sm_80", units=108)
    return made


@pytest.mark.parametrize(("right", "order", "in_place", "on_device", "pointers", "size"), [
    (1, 0, False, 0, False, 260), (0, 1, True, 1, True, 40),
    *(pytest.param(*one, 260, marks=pytest.mark.long) for one in (
        (0, 1, True, 1, True), (0, 1, False, 1, False), (1, 0, False, 0, True), (1, 1, True, 0, False), (0, 0, False, 0, True))),
])
def test_the_systems_of_a_batch_are_solved_together(together, right, order, in_place, on_device, pointers, size):
    """Each launch for all of them, a stride apart; what arrays of pointers tell is copied first, and X back."""
    asked, held, solution = system(together, right, order, size=size, others=3, in_place=in_place, batch=2, flags=on_device + 4 * pointers,
                                   **of_scalars(together, -0.5, np.nan))
    if pointers:
        lists = {x: together.point_to(list(held[x])) for x in ("ab" if in_place else "abc")}
        asked.a, asked.b, asked.c = (lists[x].ctypes.data for x in ("abb" if in_place else "abc"))
        asked.stride_a = asked.stride_b = asked.stride_c = 1 << 40  # not looked at
    before = len(together.launched)
    choice = enqueued(together, asked)
    own = together.kernels[right].built.source
    needed = own.interface.workspace(*((3, size) if right else (size, 3)), size, 2).bytes
    copies = (size * size, 3 * size if right else size * 4) if pointers else ()  # whose rows are multiples of 4
    assert (choice.kernel, choice.workspace_bytes) == (right, needed + sum(-(-2 * 4 * one // 256) * 256 for one in copies))
    assert solution(-0.5) < 5e-6
    solve, *between = (one.symbol for one in own.launches)
    assert [symbol for symbol, _ in together.launched[before:]] == [
        *["finish"] * (2 if pointers else not in_place), solve, *(between + [solve] if size > 256 else []), *["finish"] * (on_device or pointers)]


def test_with_alpha_0_what_pointers_tell_is_not_read(together):
    asked, held, _ = system(together, 0, 0, size=40, others=3, batch=2, flags=4, **of_scalars(together, 0.0, np.nan))
    lists = together.point_to(list(held["c"]))
    asked.a = asked.b = None
    asked.c = lists.ctypes.data
    assert together("gemm", ctypes.byref(asked), None, ctypes.c_size_t(0), None) == OK, "in memory of the library's own, as much as it needs"
    assert (held["c"][:, :, :3] == 0).all() and np.isnan(held["c"][:, :, 3:]).all()


@pytest.mark.parametrize(("type", "layout", "right", "conjugated", "size"), [
    ("c64", "cn", 0, 1, 276),
    *(pytest.param(*one, marks=pytest.mark.long) for one in (
        ("c64", "cn", 0, 1, 40), ("c64", "nn", 1, 0, 276), ("c128", "nc", 1, 1, 276), ("f64", "nn", 0, 0, 40), ("f64", "nt", 1, 0, 532))),
])
@pytest.mark.parametrize("on_device", [0, pytest.param(1, marks=pytest.mark.long)])
def test_systems_of_other_elements_are_solved(tmp_path, type, layout, right, conjugated, size, on_device):
    """op(A) is lower; C is beside B, of a complex alpha where elements are; nothing that is not to be read is, nor anything else written."""
    element, rng, others = ELEMENTS[type], np.random.default_rng(8), 3
    wide = dict(scheme="residues12", promote=0, tile={"block": [32, 32, 64], "warp": [16, 16, 64]}, stages=2)
    plan = plan_of(**(wide if element.part.bytes == 8 else dict(scheme="scaled", tile=TINY)), type=type, layout=layout,
                   problem={"kind": "trsm", "side": "right" if right else "left"})
    made = Library(tmp_path, [of_plan("system", plan)], archs=["sm_80"], arch="sm_80")

    def drawn(*shape: int) -> np.ndarray:
        x = rng.uniform(-1, 1, shape)
        return element.rounded(x + 1j * rng.uniform(-1, 1, shape) if element.reals > 1 else x)

    t = np.tril(drawn(size, size)) / element.dtype.type(2 * size**0.5)
    t[np.arange(size), np.arange(size)] = 1.5 + 0.5j if element.reals > 1 else 1.5
    turned = layout[right] != "n"
    stored = (t.conj() if conjugated else t).T if turned else t
    stored = np.where(np.tri(size, dtype=bool).T if turned else np.tri(size, dtype=bool), stored, np.nan)
    b = drawn(*((others, size) if right else (size, others)))
    alpha = -0.5 + 2j if element.reals > 1 else -0.5
    held = {}
    for name, x in (("a", stored), ("b", b), ("c", b * np.nan)):
        held[name] = np.full((x.shape[0], x.shape[1] + 3), np.nan, element.dtype)
        held[name][:, : x.shape[1]] = x
        held[name] = made.put(held[name])
    factor = made.put(np.array([alpha], element.dtype))
    m, n = b.shape
    asked = sized(Problem, kind=NUMBERS["trsm"], m=m, n=n, side=right, uplo=int(turned), transpose_a=(1 + conjugated) * turned, element=element.number,
                  alpha=factor.ctypes.data, flags=on_device,
                  **{key: value for x in held for key, value in ((x, held[x].ctypes.data), (f"ld{x}", held[x].shape[1]))})
    assert enqueued(made, asked).kernel == 0
    wide = [x.astype(np.clongdouble if element.reals > 1 else np.longdouble) for x in (t, b, held["c"][:, : n])]
    residual = alpha * wide[1] - (wide[2] @ wide[0] if right else wide[0] @ wide[2])
    gauge = np.abs(alpha * wide[1]) + (np.abs(wide[2]) @ np.abs(wide[0]) if right else np.abs(wide[0]) @ np.abs(wide[2]))
    bound = (1024 if element.part.bytes == 8 else 64) * element.part.roundoff  # twelve moduli keep less than FP64
    assert (np.abs(residual) < bound * gauge).all() and np.isnan(held["c"][:, n:]).all()
