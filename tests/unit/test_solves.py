"""Triangular systems: the rounds of a solve, what a spec may ask, what the model knows, and that the judge sees what is wrong."""

from __future__ import annotations

import importlib.util
import itertools
import pickle
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ways import plan_of

from gemmgen import abi, run
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.kinds import GEMM, TRSM, ComplexProduct, OfComplex, kind_of, solves
from gemmgen.kinds.solves import Trsm
from gemmgen.kinds.triangles import LOWER, UPPER
from gemmgen.kinds.triangular import LEFT, NONUNIT, RIGHT, UNIT, Trmm
from gemmgen.model import time
from gemmgen.render import render
from gemmgen.run import Result
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.timing import contender
from gemmgen.verdict import NATIVE, native_seconds, own_seconds, plain_seconds, verdict
from gemmgen.verify import solves as judging

ALL = [Trsm(*options) for options in itertools.product((LOWER, UPPER), (LEFT, RIGHT), (NONUNIT, UNIT))]


def named(kind) -> str:
    return "-".join(kind.options.values())


def spec(m: int = 512, n: int = 256, k: int = 512, gpu: str = "a100", split: dict | None = None, **problem):
    return loads({"problem": {"kind": "trsm", "m": m, "n": n, "k": k} | problem, "split": split or {"scheme": "ootomo"}, "target": {"gpu": gpu}})


def by_rounds(kind, stored: np.ndarray, c: np.ndarray, alpha: float, contiguous: bool, rounds) -> np.ndarray:
    """X by the rounds' launches, each done in FP64 with what it is told and nothing else.

    Args:
        stored: the triangle's operand as memory holds it.
    """
    c = c.copy()
    memory = {kind.operand: stored, "c": c}

    def told(one, name, rows, columns):
        of, row, column = one.at[name]
        assert 0 <= row and row + rows <= memory[of].shape[0] and 0 <= column and column + columns <= memory[of].shape[1]
        return memory[of][row : row + rows, column : column + columns]

    plain = (contiguous if kind.left else not contiguous)  # the operand is stored as the formula reads it
    for one in rounds:
        target = told(one, "c", one.m, one.n)
        if one.solves:
            square = told(one, kind.operand, one.k, one.k)
            square = kind.whole(square if plain else square.T) if kind.left else kind.whole(np.ascontiguousarray((square if plain else square.T).T)).T
            if one.alpha == 0:
                target[...] = 0
            else:
                target[...] = np.linalg.solve(square, one.alpha * target) if kind.left else np.linalg.solve(square.T, one.alpha * target.T).T
        else:
            size = (one.m, one.k) if kind.left else (one.k, one.n)
            square = told(one, kind.operand, *(size if plain else size[::-1]))
            square = square if plain else square.T
            a, b = (square, told(one, "b", one.k, one.n)) if kind.left else (told(one, "a", one.m, one.k), square)
            target[...] = one.alpha * (a @ b) + one.beta * target
    return c


@pytest.mark.parametrize("kind", ALL, ids=named)
@pytest.mark.parametrize("contiguous", [True, False])
def test_rounds_solve_the_system(monkeypatch, kind, contiguous):
    """Every element of the triangle is read in one round at most; those of the other one, and a diagonal of ones, are NaN."""
    monkeypatch.setattr(solves, "BLOCK", 4)
    rng = np.random.default_rng(1)
    for size, others, alpha in ((0, 3, 1.0), (3, 0, 1.0), (9, 0, 1.0), (3, 2, -1.5), (4, 2, 2.0), (5, 3, 2.0), (16, 2, -0.5), (23, 3, 3.0), (33, 1, 1.0)):
        given = rng.uniform(-1, 1, (size, size)) / max(size, 1) + 2 * np.eye(size)
        kept = np.tri(size, k=-1 if kind.unit else 0, dtype=bool)
        given[~(kept if kind.options["uplo"] == LOWER else kept.T)] = np.nan
        whole = kind.whole(given) if kind.left else kind.whole(given.T).T
        c = rng.uniform(-1, 1, (size, others) if kind.left else (others, size))
        want = np.linalg.solve(whole, alpha * c) if kind.left else np.linalg.solve(whole.T, alpha * c.T).T
        stored = given if contiguous == kind.left else np.ascontiguousarray(given.T)
        rounds = kind.rounds(*c.shape, 0, alpha, 0.0, contiguous)
        found = by_rounds(kind, stored, c, alpha, contiguous, rounds)
        assert np.allclose(found, want)
        assert [one.solves for one in rounds].count(True) == (-(-size // 4) if others else 0)
        zeros = by_rounds(kind, np.full_like(stored, np.nan), np.full_like(c, np.nan), 0.0, contiguous, kind.rounds(*c.shape, 0, 0.0, 0.0, contiguous))
        assert not zeros.any() and all(one.solves for one in kind.rounds(*c.shape, 0, 0.0, 0.0, contiguous))
        largest = kind.largest(*c.shape)
        products = [(one.m, one.n, one.k) for one in rounds if not one.solves]
        assert largest == (tuple(map(max, zip(*products))) if products else (0, 0, 0))


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_what_a_unit_flushes_of_complex_systems_falls_on_both_parts_of_an_unknown(side, monkeypatch):
    """Of the second block's unknowns: parts of a product lie side by side, those of each element together."""
    plan = solve(spec(512, 512, gpu="mi210", split={"scheme": "bf16x3"}, type="c64", side=side))
    assert plan.launches.flushes_words
    monkeypatch.setattr(judging, "lost", lambda plan, a, b, product, lossy: np.arange(product.size, dtype=float).reshape(product.shape))
    size, others = solves.BLOCK + 3, 2
    _, _, fallen = judging._limits(plan, np.eye(size, dtype=np.complex64), np.ones((size, others), np.complex64), np.ones((size, others), np.complex128))
    parts = np.arange(2.0 * 3 * others).reshape((3, 2 * others) if side == LEFT else (others, 6))
    lost = parts[:, ::2] + 1j * parts[:, 1::2]
    assert not fallen[: solves.BLOCK].any() and np.array_equal(fallen[solves.BLOCK :], lost if side == LEFT else lost.T)


@pytest.mark.parametrize("kind", [OfComplex("c64", "cn", Trsm(UPPER)), OfComplex("c128", "nt", Trsm(LOWER, RIGHT, UNIT))], ids=str)
@pytest.mark.parametrize("contiguous", [True, False])
def test_rounds_of_complex_elements_are_those_of_elements(kind, contiguous):
    """As kernels of the real product have them: twice the columns and k, and columns that begin twice as far."""
    m, n = (1300, 70) if kind.left else (70, 1300)
    own, alpha = kind.of_reals.rounds(m, n, 0, -0.5 + 2j, 0.0, contiguous), -0.5 + 2j
    found = kind.rounds(m, 2 * n, 0, alpha, 0.0, contiguous)
    assert len(found) == len(own) == 11
    for real, one in zip(found, own):
        assert (real.solves, real.m, real.n, real.k, real.alpha, real.beta) == (one.solves, one.m, 2 * one.n, 2 * one.k, one.alpha, one.beta)
        assert real.at == {name: (of, row, 2 * column) for name, (of, row, column) in one.at.items()}
    assert kind.largest(m, 2 * n) == tuple(times * one for times, one in zip((1, 2, 2), kind.of_reals.largest(m, n)))
    assert kind.between == ComplexProduct(kind.options["type"], kind.options["layout"]) and TRSM.between == GEMM
    assert kind.vendor_few == kind.of_reals.vendor_few and bool(kind.vendor_few) is not kind.left
    told = found[0].given({"a": 0, "b": 0, "c": 0, "lda": 7, "ldb": 7, "ldc": 13}, lambda operand, elements: elements)
    assert (told["alpha"], told["alpha_i"]) == (-0.5, 2.0)


@pytest.mark.parametrize(("type", "systems", "part", "threads", "together"), [("f32", 32, 64, 256, 1), ("f64", 16, 32, 128, 2), ("c64", 16, 32, 128, 2),
                                                                              ("c128", 8, 32, 64, 4)])
def test_larger_elements_have_fewer_right_hand_sides(type, systems, part, threads, together):
    """So that their unknowns take 32 KiB, and every GPU has room for them and a part of the triangle."""
    own = Trsm(type=type).own
    assert tuple(Trsm.chains) == tuple(ELEMENTS) and Trsm(type=type).vendor_chain == Trsm.chains[type]
    assert (own.systems, own.part, own.threads, own.together, own.element.name) == (systems, part, threads, together, type)
    assert own.element.bytes * solves.BLOCK * systems == 32 << 10 and own.shared_bytes <= min(gpu.limits.shared_bytes_per_block for gpu in GPUS.rows())
    assert own.multiplied == sum(first for first in range(0, 256, part)) * part * systems * (4 if type[0] == "c" else 1)


@pytest.mark.parametrize(("others", "systems", "pair"), [(2112, "16", 1), (2113, None, 1), (4224, None, 1), (4225, "64", 2)])
def test_thread_blocks_have_as_few_right_hand_sides_as_every_sm_has_one(others, systems, pair):
    """On Hopper; a plan's identity says so, as its text is another."""
    plan = solve(spec(512, others, 512, "h200"))
    assert (plan.kind.options.get("systems"), plan.identity.get("systems"), plan.kind.own.pair) == (systems, systems, pair)
    assert f"SYSTEMS = {systems or 32}, EACH = {pair};" in render(plan).text and pickle.loads(pickle.dumps(plan.kind)) == plan.kind
    batch = solve(spec(512, 64, 512, "h200", matrices=100))
    assert batch.kind.batched and batch.kind.own.systems == 64 and batch.launches.repeated
    assert solve(spec(512, others, 512)).kind == Trsm() and solve(spec(512, others, 512, "h200", {"scheme": "residues14"}, type="f64")).kind.own.systems == 16


def test_races_know_no_rounds(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    plan = replace(plan_of(stages=3), kind=Trsm())
    source = render(plan)
    with pytest.raises(SpecError, match="races are of products of a given A"):
        contender.generated("trsm", plan, source, None, None, judged=False)


@pytest.mark.parametrize("kind", ["syrk", "gemmt", "trsm"])
def test_scales_of_runs_of_k_are_found_of_whole_operands(kind):
    assert solve(spec(kind=kind, n=512, split={"scheme": "run_scaled"}, layout="nt" if kind == "syrk" else "nn")).scheme.family.run_k


def test_half_of_all_multiplications_are_in_one_product():
    rounds = [one for one in TRSM.rounds(16 * solves.BLOCK, 8, 0, 1.0, 0.0, True) if not one.solves]
    sizes = [(one.m // solves.BLOCK, one.k // solves.BLOCK) for one in rounds]
    assert sizes == [(low, low) for low in (1, 2, 1, 4, 1, 2, 1, 8, 1, 2, 1, 4, 1, 2, 1)]


def test_a_spec_decides_what_is_solved():
    kind = kind_of(spec(uplo="upper", side="right", k=256, n=256, diag="unit").spec.problem)
    assert kind == Trsm(UPPER, RIGHT, UNIT) != Trsm(UPPER, RIGHT) and kind != Trmm(UPPER, RIGHT, UNIT)
    assert kind.formula == "X in place of C, where X B = alpha C, of the upper triangle of B, whose diagonal is 1"
    plans = [solve(spec()), solve(spec(uplo="upper")), solve(spec(diag="unit"))]
    assert len({plan.hash for plan in plans}) == 3 and not any(plan.kind.plain for plan in plans)


@pytest.mark.parametrize(("asked", "where"), [
    (spec(uplo="both"), "uplo"), (spec(layout="nt"), "layout"), (spec(side="right", n=512, layout="tn"), "layout"), (spec(k=256), "k"),
    (spec(side="right"), "k"),
    (spec(gpu="h200", split={"scheme": "mixpert2", "fallback": "fp32"}), "fallback"),
    (spec(kind="trmm", split={"scheme": "run_scaled"}), "scheme"),
], ids=["both", "layout", "layout from the right", "not square", "not square from the right", "fallback", "runs of a triangle"])
def test_what_has_no_kernels_is_refused(asked, where):
    with pytest.raises(InfeasibleSpec, match=rf"\] ({where})\b"):
        solve(asked)


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_each_round_tells_a_launch_its_operands(side):
    plan = replace(plan_of(stages=3), kind=Trsm(LOWER if side == LEFT else UPPER, side))
    interface = abi.interface(plan)
    roles = [launch.role for launch in interface.launches]
    assert roles == ["solve", "split", "gemm"] and [one.role for one in interface.of_products.launches] == ["split", "gemm"]
    own, given = interface.launches[0], "a" if side == LEFT else "b"
    assert own.params == (given, f"ld{given}", "c", "ldc", "n" if side == LEFT else "m", "k", "alpha")
    assert own.blocks({"m": 33, "n": 33, "k": 9}) == 2
    assert all(one.argument == one.name for launch in interface.launches for one in launch.parameters if one.argument)
    assert interface.launches[1].same_b is None and interface.of_products.rounds is None
    size = (5 * solves.BLOCK, 40) if side == LEFT else (40, 5 * solves.BLOCK)
    most = max(interface.laid_out(interface.extents(one.m, one.n, one.k)).bytes for one in interface.rounds(*size, 0, 1.0, 0.0) if not one.solves)
    assert interface.workspace(*size, 5 * solves.BLOCK).bytes == interface.laid_out(interface.extents(*plan.kind.largest(*size))).bytes >= most
    assert interface.of_products.workspace(64, 64, 64).bytes == interface.laid_out(interface.extents(64, 64, 64)).bytes, "of one product, not of a solve"
    one = interface.rounds(*size, 0, 1.0, 0.0)[-1]
    told = one.given({"a": 1000, "b": 2000, "c": 3000, "lda": 7, "ldb": 11, "ldc": 13}, lambda operand, elements: operand + elements)
    last = 4 * solves.BLOCK
    assert told["c"] == 3000 + (last * 13 if side == LEFT else last) and told[given] == (1000 + last * 8 if side == LEFT else 2000 + last * 12)
    assert told["k"] == solves.BLOCK and told["alpha"] == 1.0


def test_a_round_tells_leading_dimensions_and_strides():
    (product,) = [one for one in Trsm(LOWER, LEFT).rounds(2 * solves.BLOCK, 3, 0, 2.0, 0.0, True) if not one.solves]
    told = product.given({"a": 0, "c": 0, "lda": 7, "ldb": -1, "ldc": 13, "stride_a": 70, "stride_c": 130}, lambda operand, elements: elements)
    assert (told["ldb"], told["b"], told["beta"], told["alpha"]) == (13, 0, 2.0, -1.0)
    assert (told["stride_a"], told["stride_b"], told["stride_c"]) == (70, 130, 130)


@pytest.mark.parametrize(("problem", "triangle"), [({}, "a"), ({"side": "right", "n": 512, "layout": "nt"}, "b")], ids=["left", "right"])
def test_a_batch_of_systems_is_solved_in_one_launch_of_each_kernel(problem, triangle):
    """Its rounds are those of one system; each launch has all systems' blocks, and is told strides."""
    tiled = {"block": [64, 64, 32], "warp": [32, 32, 32], "split_k": 1, "group": 1}
    batch, one = (solve(loads({
        "problem": {"kind": "trsm", "m": 512, "n": 256, "k": 512, **problem, **more}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64},
        "tile": tiled, "pipeline": {"stages": 3, "fragment_buffers": 1}, "target": {"gpu": "a100"}})) for more in ({"matrices": 40}, {}))
    interface, alone = abi.interface(batch), abi.interface(one)
    assert batch.launches.repeated and batch.hash != one.hash and interface.batched and not alone.batched
    own = interface.launches[0]
    assert own.role == "solve" and own.params == (*alone.launches[0].params, f"stride_{triangle}", "stride_c")
    assert own.blocks(interface.extents(33, 33, 9, 7)) == 7 * alone.launches[0].blocks(alone.extents(33, 33, 9)) == 14
    size = (3 * solves.BLOCK + 1, 40) if batch.kind.left else (40, 3 * solves.BLOCK + 1)
    assert interface.rounds(*size, 0, 2.0, 0.0) == alone.rounds(*size, 0, 2.0, 0.0)
    few, many = (interface.workspace(*size, size[0], count).bytes for count in (1, 9))
    assert many > 8 * few
    assert {"stride_a", "stride_b"} <= {given.argument for launch in interface.of_products.launches for given in launch.parameters}


def test_the_systems_of_a_batch_wait_for_one_another_s_unknowns_at_once():
    """K12: as many thread blocks as there are SMs solve at the same time, whosever right-hand sides they have."""
    of = solves.equations("M", "N")[2]
    known = {"solved_blocks": 2, "launch_seconds": 0, "sms": 100, "substitution_cycles": 7, "clock_hz": 1, "dram_rate": 1e30, "N": 33}
    assert [of.value(known | {"batch": batch}) for batch in (1, 50, 51, 150)] == pytest.approx([14, 14, 28, 42])


@pytest.mark.parametrize("given", [(True, False, False), (False, True, True), (True, True, True)], ids=["no C", "the other operand", "two operands"])
def test_operands_that_a_solve_does_not_have_are_refused(given):
    plan = replace(plan_of(stages=3), kind=Trsm())
    a, b, c = (np.eye(4, dtype=np.float32) if one else None for one in given)
    with pytest.raises(SpecError, match="one triangle and right-hand sides"):
        run.gemm(SimpleNamespace(), plan, render(plan), a, b, c)


def test_a_triangle_that_is_not_square_is_refused():
    plan = replace(plan_of(stages=3), kind=Trsm())
    with pytest.raises(SpecError, match="is not square"):
        run.gemm(SimpleNamespace(), plan, render(plan), np.zeros((5, 4), np.float32), None, np.zeros((4, 2), np.float32))


@pytest.mark.parametrize(("gpu", "scheme"), [("h200", "ootomo"), ("h200", "residues8"), ("a100", "fp32"), ("mi300x", "ootomo")])
def test_the_model_knows_a_solve(gpu, scheme):
    """Half of a product's k, and the blocks' own time besides."""
    plan = solve(spec(4096, 2048, 4096, gpu, {"scheme": scheme}))
    whole = replace(plan, kind=GEMM)
    assert plan.model["solved_blocks"] == 16
    assert plan.model["stages_k"] * plan.split_k == pytest.approx(whole.model["stages_k"] * plan.split_k / 2, abs=plan.split_k)
    assert 0 < plan.model["solve_seconds"] <= plan.model["seconds"] - plan.model["kernel_seconds"]
    turned = solve(spec(2048, 4096, 4096, gpu, {"scheme": scheme}, side="right"))
    assert turned.model["solved_blocks"] == 16
    assert plan.model["seconds"] - plan.model["solve_seconds"] < whole.model["seconds"]


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_the_time_of_blocks_by_hand(side):
    """Of two blocks of unknowns, each with one thread block more than the H200 has SMs."""
    others = 132 * 64 + 1
    of = solve(spec(*((512, others) if side == LEFT else (others, 512)), gpu="h200", side=side)).model
    cycles = 256 * 230 + 6 * 64 * 64 * 64 / 128
    wanted = 2 * (3 * of["launch_seconds"] + 2 * cycles / of["clock_hz"] + 8 * 256 * others / of["dram_rate"])
    assert (of["sms"], of["solve_seconds"]) == (132, pytest.approx(wanted))


def test_systems_of_fp64_are_compared_with_native_fp64():
    """Half of a product at the native rate, and what unknowns wait for one another."""
    plan = solve(spec(4096, 4096, 4096, "rtx5090", {"scheme": "residues14"}, type="f64"))
    whole, start = native_seconds(plan.gpu, 4096, 4096, 4096), time.NATIVE_START + time.NATIVE_FIRST_SECONDS * time.NATIVE_FIRST_K
    assert plain_seconds(plan) == (pytest.approx(start + (whole - start) / 2 + 3.8e-7 * 4096), NATIVE)
    many, whole = solve(spec(256, 256, 256, "rtx5090", {"scheme": "residues14"}, type="f64", matrices=3)), native_seconds(plan.gpu, 256, 256, 256, 3)
    start = time.NATIVE_START + time.NATIVE_FIRST_SECONDS * 256
    assert plain_seconds(many) == (pytest.approx(start + many.kind.vendor_together * ((whole - start) / 2 + 3.8e-7 * 256)), NATIVE) and many.kind.vendor_together > 1
    own, numbers = plan.kind.own, time.rate_numbers(plan.gpu, "s8")
    assert numbers["f64_fma_per_clock"] == pytest.approx(2, rel=0.05) and time.rate_numbers(GPUS.get("h200"), "s8")["f64_fma_per_clock"] == 64
    assert own.cycles.value(numbers) == pytest.approx(256 * solves.UNKNOWN_CYCLES["f64", 16] + own.multiplied / numbers["f64_fma_per_clock"])
    blocks = 4 * -(-4096 // 32 // 170) * own.cycles.value(numbers) / numbers["clock_hz"] * 4
    assert plan.model["solve_seconds"] == pytest.approx(blocks + 16 * (3 * numbers["launch_seconds"] + 16 * 256 * 4096 / numbers["dram_rate"]))


def test_a_verdict_adds_up_rounds():
    """Products of 256 unknowns by residues leave most of an H200 idle: 8192 unknowns took 16.1 ms there (docs/results/level3.md), native FP64's 13.0."""
    plan = solve(spec(8192, 8192, 8192, "h200", {"scheme": "residues14"}, type="f64"))
    told = verdict(plan)
    assert told.seconds == own_seconds(plan) == pytest.approx(16.1e-3, rel=0.05) and plan.model["seconds"] < 0.8 * told.seconds
    assert told.fp32_seconds == pytest.approx(13.0e-3, rel=0.05) and told.ratio < 1
    one = replace(plan, hints=replace(plan.hints, m=200, k=200))
    assert own_seconds(one) == one.model["solve_seconds"], "a single block has no products"
    two = replace(plan, hints=replace(plan.hints, m=512, k=512))  # with one product between, whose two launches are those of the blocks' own
    product = replace(plan, kind=plan.kind.between, hints=replace(plan.hints, m=256, k=256)).model
    assert own_seconds(two) == pytest.approx(two.model["solve_seconds"] + product["seconds"] - 2 * product["launch_seconds"], rel=1e-9)
    batch = solve(spec(512, 64, 512, "h200", matrices=100))
    assert own_seconds(batch) > batch.model["solve_seconds"]


@pytest.mark.parametrize(("layout", "side", "sign"), [("cn", LEFT, "-"), ("tn", LEFT, ""), ("nc", RIGHT, "-"), ("nn", RIGHT, "")])
def test_a_conjugated_triangle_is_read_so(layout, side, sign):
    plan = solve(spec(512, 512, 512, split={"scheme": "scaled"}, type="c64", layout=layout, side=side))
    text = render(plan).text
    assert f"ahead[i] = {{from[0], {sign}from[1]}};" in text
    own = abi.interface(plan).launches[0]
    assert own.params[-4:] == ("n" if side == LEFT else "m", "k", "alpha", "alpha_i")
    assert own.blocks({"m": 33, "n": 66, "k": 9}) == 3, "of 16 complex right-hand sides"


@pytest.mark.parametrize(("side", "waits"), [(LEFT, ">="), (RIGHT, "<")])
def test_a_round_overlaps_the_one_before(side, waits):
    """The pass splits the triangle while a block is solved, and waits for X; the block's first part of the triangle is read while a product runs."""
    tile = {"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}
    way, problem = dict(gpu="h200", fragment={"policy": "wgmma"}, tile=tile), {"kind": "trsm", "side": side}
    plan, batch = (plan_of(**way, problem=problem | more) for more in ({}, {"matrices": 3}))
    assert [launch.overlaps for launch in abi.interface(plan).launches] == [True, True, True]
    text = render(plan).text
    wait, go = (f'asm volatile("griddepcontrol.{one};" ::: "memory");' for one in ("wait", "launch_dependents"))
    assert re.search(rf"if \(\(int\)blockIdx.x {waits} blocks_a\) \{{ {re.escape(wait)} \}}", text)
    solving = text[text.index("fetch(0, 0);"):text.index("known[unknown_at(p, j)] = scaled")]
    assert 0 < solving.index(wait) < solving.index(go) < solving.index("given[")
    for other in (replace(plan, kind=GEMM), batch, replace(plan_of(stages=3), kind=Trsm())):
        assert not abi.overlaps_rounds(other)


@pytest.mark.parametrize("kind", [Trsm(LOWER), Trsm(LOWER, RIGHT, UNIT)], ids=named)
def test_the_kernel_is_one_of_its_side_and_order(kind):
    text = render(replace(plan_of(stages=3), kind=kind)).text
    assert ("return k - 1 - p;" in text) != kind.below and ("quotient(" in text) != kind.unit
    assert "gemmgen_ootomo" in text and text.count("_solve(") == 1
    assert re.search(rf"const float\* __restrict__ {kind.operand}, long long ld{kind.operand},\n    float\* __restrict__ c", text)


def test_threads_read_shared_memory_without_bank_conflicts():
    """Eight rows in a line, as products read them, and eight that are four apart, as substitution does: their chunks of 16 bytes lie in all 32 banks."""
    text = render(replace(plan_of(stages=3), kind=Trsm())).text
    moved = re.search(r"exchanged\(int row, int groups\) \{ return \((.*) & \(.*; \}", text)[1].replace("/", "//")
    of = [(eval(moved, {"row": row}) & 7) * 4 for row in range(TRSM.own.part)]  # noqa: S307
    for first in range(0, TRSM.own.part, 8):
        assert {chunk // 4 for chunk in of[first : first + 8]} == set(range(8))
    for first in (*range(4), *range(32, 36)):
        assert {chunk // 4 for chunk in of[first : first + 32 : 4]} == set(range(8))


# ---- figures of the scripts in bench


def script(name: str):
    found = importlib.util.spec_from_file_location(f"bench_{name}", Path(__file__).resolve().parents[2] / "bench" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_a_residual_is_of_the_triangle_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", np)
    rng = np.random.default_rng(2)
    t, x = rng.uniform(1, 2, (6, 6)).astype(np.float32), rng.uniform(1, 2, (6, 3)).astype(np.float32)
    lower = np.tril(t).astype(np.float64)
    off = np.full((6, 3), 0.5)
    wanted = np.linalg.norm(off) / (np.linalg.norm(lower) * np.linalg.norm(x))
    assert script("solve").residual(t, lower @ x + off, x) == pytest.approx(wanted)


def test_an_error_of_syrk_is_of_the_lower_triangle_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(
        **{name: getattr(np, name) for name in ("nan", "float64", "abs", "arange", "asarray", "where")},
        cuda=SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=lambda: None))))
    a, c = np.full((5, 3), 2.0, np.float32), np.zeros(25, np.float32)

    def enqueue(index):
        held = c.reshape(5, 5)
        held[...] = np.where(np.tri(5, dtype=bool), 12.0, np.nan)
        held[0, 4], held[wrong] = 1e9, 12.75

    inputs = SimpleNamespace(size=(5, 5, 3), a=[a.ravel()], c=[c])
    for wrong in ((3, 1), (2, 2)):
        assert script("level3").largest_error(SimpleNamespace(enqueue=enqueue), inputs) == pytest.approx(0.75 / 12)


# ---- the judge of solves


def right(plan, a, b, c, alpha, solver):
    """What a kernel returns whose substitution is `solver`, of (T, C) lower."""
    kind = plan.kind
    given, rhs = (a, c) if kind.left else (b.T, c.T)
    t = kind.whole(given)
    order = slice(None) if kind.below else slice(None, None, -1)
    with np.errstate(all="ignore"):
        x = np.zeros_like(rhs) if alpha == 0 else solver(t[order, order], rhs.dtype.type(alpha) * rhs[order])[order]
    return x if kind.left else x.T


def asked(monkeypatch, solver=judging.substituted, kind=Trsm(), change=lambda result, **told: result, **way):
    plan = replace(plan_of(**way), kind=kind)

    def gemm(device, plan, source, a, b, c, *, alpha, placement):
        return change(Result(right(plan, a, b, c, alpha, solver)), a=a, b=b, c=c, alpha=alpha)

    monkeypatch.setattr(judging, "gemm", gemm)
    return judging.question(plan, None, SimpleNamespace(kind="cuda"))


@pytest.mark.parametrize("kind", [Trsm(), Trsm(UPPER, RIGHT), Trsm(UPPER, LEFT, UNIT), Trsm(LOWER, RIGHT, UNIT)], ids=named)
def test_substitution_in_fp32_passes(monkeypatch, kind):
    passed, told = asked(monkeypatch, kind=kind)
    share, forward = map(float, re.fullmatch(
        r"residuals of at most (0\.\d\d) of the worst case, 1\.00 times FP32's own; (0\.\d\d) of the worst case beside the exact solution", told).groups())
    assert passed and share > 0 and forward > 0


def in_own(t, c):
    return judging.substituted(t, c, c.dtype)


@pytest.mark.parametrize(("type", "scheme", "kind"), [
    ("f64", "residues14", Trsm(type="f64")), ("c64", "ootomo", OfComplex("c64", "cn", Trsm(UPPER, LEFT))),
    ("c128", "residues14", OfComplex("c128", "nc", Trsm(LOWER, RIGHT, UNIT))),
])
@pytest.mark.long
def test_substitution_in_the_elements_own_arithmetic_passes(monkeypatch, type, scheme, kind):
    """And nothing coarser: the last bit of an element of FP32, or of a part, in the place of its own."""
    way = dict(type=type, scheme=scheme, kind=kind, **({"promote": 0} if scheme == "residues14" else {}))
    passed, told = asked(monkeypatch, in_own, **way)
    assert passed and "1.00 times" in told, told
    if type != "c64":
        passed, told = asked(monkeypatch, lambda t, c: in_own(t, c.astype(np.complex64 if type[0] == "c" else np.float32)).astype(c.dtype), **way)
        assert not passed and "times FP64's own" in told


def with_inverse(t, c):
    return (np.linalg.inv(t.astype(np.float64)).astype(np.float32) @ c) if np.isfinite(t).all() and np.all(np.diag(t)) else judging.substituted(t, c)


def in_half(t, c):
    """Products of one word of 11 bits behind each block."""
    x = c.copy()
    for begin in range(0, len(t), solves.BLOCK):
        at, done = slice(begin, begin + solves.BLOCK), slice(0, begin)
        x[at] = judging.substituted(t[at, at], c[at] - (t[at, done].astype(np.float16).astype(np.float32) @ x[done].astype(np.float16).astype(np.float32)))
    return x


def last_off(t, c):
    """The last unknown of a long solve by a factor of 1 + 1e-3."""
    x = judging.substituted(t, c)
    if len(x) > 3 * solves.BLOCK:
        x[-1] *= 1.001
    return x


@pytest.mark.parametrize(("solver", "told"), [(with_inverse, "times FP32's own"), (in_half, "times FP32's own"), (last_off, "worst case")],
                         ids=["an inverse", "half", "one element"])
def test_a_solve_that_is_not_stable_fails(monkeypatch, solver, told):
    with np.errstate(all="ignore"):
        passed, said = asked(monkeypatch, solver)
    assert not passed and told in said


def finite(result, **told):
    return replace(result, c=np.where(np.isinf(result.c), np.float32(3e38), result.c))


def turned(result, **told):
    return replace(result, c=np.where(np.isinf(result.c), -result.c, result.c))


def read(result, *, alpha, c, **told):
    return replace(result, c=alpha * c) if alpha == 0 else result


def outside(result, **told):
    return replace(result, intact=False)


def without_alpha(result, *, alpha, **told):
    return replace(result, c=result.c / alpha) if alpha else result


@pytest.mark.parametrize(("change", "told"), [(finite, "Inf and NaN"), (turned, "Inf and NaN"), (read, "something was read"), (outside, "beside C were written"),
                                              (without_alpha, "of the worst case;")],
                         ids=["no infinity", "infinities of another sign", "read", "outside", "without alpha"])
def test_a_solve_that_is_wrong_fails(monkeypatch, change, told):
    with np.errstate(all="ignore"):
        passed, said = asked(monkeypatch, change=change)
    assert not passed and told in said


def test_kernels_without_repair_are_asked_for_infinities_of_one_block(monkeypatch):
    sizes = []
    asked(monkeypatch, change=lambda result, c, **told: sizes.append(len(c)) or result)
    asked_fast = len(sizes)
    asked(monkeypatch, special="fast", change=lambda result, c, **told: sizes.append(len(c)) or result)
    assert solves.BLOCK + TRSM.own.part + 3 in sizes[:asked_fast] and max(size for size in sizes[asked_fast:] if size < 3 * solves.BLOCK) == solves.BLOCK + 5


@pytest.mark.parametrize(("unknowns", "sides", "measured"), [(8192, 4096, 2754.8e-6), (2048, 2048, 344.2e-6), (8192, 8192, 4792.7e-6)])
def test_the_model_has_the_time_that_was_measured(unknowns, sides, measured):
    """On an H200, docs/results/level3.md, with a copy of the right-hand sides."""
    of = solve(spec(unknowns, sides, unknowns, gpu="h200")).model
    assert of["seconds"] == pytest.approx(measured, rel=0.2)


def test_an_unknown_is_written_by_one_thread_when_all_have_read_it():
    """Threads of a warp may run apart, which the emulator's do not: so its text is read."""
    text = render(solve(loads({"problem": {"kind": "trsm"}, "split": {"scheme": "half"}, "target": {"gpu": "a100"}}))).text
    loop = text.partition("const Number x = divided(known")[2]
    steps = [line.strip() for line in loop.splitlines()[1:12]]
    assert steps[0].startswith("__syncwarp();") and steps[1].startswith("if (mine == 0) known[")
    assert steps.index("__syncwarp();") > steps.index(next(one for one in steps if one.startswith("*to = less(")))
