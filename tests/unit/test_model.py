"""The equations: each against numbers worked out by hand, and its two readings against each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen import plan as planning
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.model import error, papers, registers, resources, space, specialised, time, traffic
from gemmgen.model.equation import Constraint, Equation, solved
from gemmgen.solve import solve
from gemmgen.spec import loads

MODULES = (resources, registers, traffic, time, error, space)
OURS = [value for module in MODULES for value in vars(module).values() if isinstance(value, Equation)]
BULK = [equation for _, group in specialised.SPECIALISED.equations for equation in group]  # of the other skeleton
EQUATIONS = list({e.number: e for e in [*OURS, *BULK, *papers.PAPERS]}.values())
CONSTRAINTS = [*space.CONSTRAINTS, papers.EGEMM_BALANCE]
OTHERS = [c for c in specialised.SPECIALISED.constraints if c not in CONSTRAINTS]


def fixed(gpu: str = "h100", scheme: str = "ootomo", **more):
    """A spec that leaves nothing open, solved."""
    tile = {"block": [128, 128, 32], "warp": [64, 32, 32], "group": 8, "split_k": 1}
    pipeline = {"loads": "async", "stages": 3, "fragment_buffers": 1}
    split = {"scheme": scheme, "promote": 0, "where": "prepass"}
    for key, value in more.items():
        next(section for section in (tile, pipeline, split) if key in section)[key] = value
    return solve(loads({"split": split, "tile": tile, "pipeline": pipeline, "target": {"gpu": gpu}}))


# ---- one statement, two readings


def test_numbers_and_symbols_are_unique():
    numbers = [e.number for e in {id(e): e for e in OURS}.values()]
    assert len(numbers) == len(set(numbers))
    symbols = [e.symbol for e in {id(e): e for e in OURS}.values()]
    assert len(symbols) == len(set(symbols))
    assert len({c.number for c in CONSTRAINTS}) == len(CONSTRAINTS)


def test_the_skeletons_share_numbers_only_for_the_same_equation():
    declared = [e for e in vars(specialised).values() if isinstance(e, Equation)]
    by_number = {e.number: e for e in OURS}
    assert all(by_number.get(e.number, e) is e for e in [*BULK, *declared])
    for group in (declared, BULK):
        assert len({e.number for e in group}) == len({e.symbol for e in group}) == len({id(e) for e in group})
    assert set(map(id, declared)) <= set(map(id, BULK)), "an equation that no explanation shows"
    limits = specialised.SPECIALISED.constraints
    assert len({c.number for c in limits}) == len(limits)


@pytest.mark.parametrize("statement", [*EQUATIONS, *CONSTRAINTS, *OTHERS], ids=lambda s: s.number)
def test_sympy_reads_what_is_computed(statement):
    equation = statement if isinstance(statement, Equation) else statement._equation
    draw = np.random.default_rng(1)
    columns = {name: draw.choice([2, 3, 4, 8, 16, 32, 64, 100, 128], size=200) for name in equation.variables}
    names = list(columns)
    symbols = [sympy.Symbol(name, positive=True) for name in names]
    reading = sympy.lambdify(symbols, equation.expression, "numpy")
    with np.errstate(all="ignore"):
        computed = np.broadcast_to(equation.value(columns), 200)
        symbolic = np.broadcast_to(np.asarray(reading(*(columns[n].astype(float) for n in names)), dtype=float), 200)
    defined = np.isfinite(symbolic)  # not an integer divided by 0
    np.testing.assert_allclose(computed[defined].astype(float), symbolic[defined], rtol=1e-12)
    assert defined.sum() > 100
    for at in np.flatnonzero(defined)[::50]:
        one = equation.value({name: column[at].item() for name, column in columns.items()})
        assert float(one) == pytest.approx(float(computed[at]), nan_ok=True)


@pytest.mark.parametrize("statement", [*EQUATIONS, *CONSTRAINTS, *OTHERS], ids=lambda s: s.number)
def test_everything_can_be_typeset(statement):
    text = statement.latex
    assert text.count("{") == text.count("}") and "_" not in text.replace("_{", "")


def test_the_order_of_evaluation_is_the_order_of_the_lists():
    plan = fixed()
    known = specialised.model(plan)
    for equation in OURS:
        if equation.symbol in known and all(name in known for name in equation.variables):
            assert equation.value(known) == known[equation.symbol], equation.number


# ---- the papers, by hand


def test_wmmae_roofline():
    """Eq. 1 is n / 6, and its 52.0 and 104.0 TFLOP/s are 19.491 TB/s times 32/12 and 32/6."""
    intensity, held = papers.WMMAE
    n = sympy.Symbol("n", positive=True)
    assert sympy.simplify(intensity.expression - n / 6) == 0
    assert sympy.simplify(held.expression - n**2 / 16) == 0
    assert intensity.value({"n": 32}) * 19.491 == pytest.approx(104.0, abs=0.05)
    assert intensity.value({"n": 32}) / 2 * 19.491 == pytest.approx(52.0, abs=0.05)
    assert held.value({"n": 64}) == 256


def test_le_gemm_at_its_own_choice():
    known = {"M": 4096, "N": 4096, "BM": 128, "BN": 256, "BK": 32, "threads": 512, "warp_size": 32, "T_threads": 32, "Work_num": 512}
    values = [equation.value(known) for equation in papers.LE_GEMM]
    assert values[1:] == [49152, 6291456, 128, 88, 64]
    assert values[0] == 512 * 16 * 32  # 512 tiles of 16 warps
    m, n = sympy.symbols("BM BN", positive=True)
    assert sympy.simplify(papers.LE_GEMM[2].expression / papers.LE_GEMM[1].expression - 3 * m * n / (2 * (m + n))) == 0


def test_egemm_table_4():
    """Eq. 8 as printed asks 40 KB of Table 4's tile where the table says 36, and admits a larger tile."""
    tile = {"BM": 128, "BN": 128, "BK": 32, "WM": 64, "WN": 32, "WK": 8, "FK": 8}
    values = {e.number: e.value(tile) for e in papers.EGEMM if not set(e.variables) & set(papers.LATENCIES)}
    assert values["EGEMM eq. 2"] == 32768 and values["EGEMM eq. 3"] == 4194304 and values["EGEMM eq. 4"] == 128
    assert values["EGEMM eq. 8, shared memory"] == 40 * 1024
    assert 2 * (128 + 128) * (32 + 4) * 2 == 36 * 1024
    assert values["EGEMM eq. 1, not cached"] == values["EGEMM eq. 1, cached"] == 8192
    larger = {"BM": 256, "BN": 128, "BK": 32}
    assert papers.EGEMM[8].value(larger) == 180224 and papers.EGEMM[9].value(larger) == 61440
    blocks = papers.egemm_blocks(256 * 1024, 64 * 1024)
    assert blocks[0][0] == pytest.approx(170.67, abs=0.01) and (256, 128, 32) in [tile for _, tile in blocks]
    assert next(ratio for ratio, tile in blocks if tile == (128, 128, 32)) == 128


def test_le_gemm_on_the_a800_fills_the_register_file():
    """With a warp's tile given, eq. 12 is the same for every block, so eq. 15 alone decides: for a block
    whose two sums are the whole register file, with nothing left for a fragment."""
    front = papers.legemm_front(256 * 1024, 4096, 4096, 32, accumulators=2, warp=(64, 32))
    assert {(row["BM"], row["BN"]) for row in front} == {(128, 256), (256, 128)}
    assert {row["accumulator_bytes"] for row in front} == {256 * 1024}
    plan = {"accumulators": 2, "WM": 64, "WN": 32, "warp_size": 32}
    # 16 warps of 64x32: 128 registers of sums, and the file has 65536 / 512 = 128 for each thread.
    assert resources.ACCUMULATOR_REGISTERS.value(plan) == 128 == 65536 // 512


# ---- this kernel, by hand: 128x128x32 of 64x32 warps, two words, three products


def test_the_headline_tile_on_the_h100():
    known = specialised.model(fixed())
    expected = {
        "warps": 8, "threads": 256, "shared_bytes": 98304, "accumulators": 2, "accumulator_registers": 128,
        "fragment_registers": 48, "a_fragments": 32, "b_fragments": 16, "register_budget": 255, "resident_blocks": 1,
        "stage_flops": 3145728, "stage_bytes": 32768, "intensity": 96, "fetch_bytes": 98304, "unswizzled_ways": 4,
        "tiles": 1024, "stages_k": 128, "fetch_cycles": 768, "fill_cycles": 256, "full_waves": 7, "tail_blocks": 1,
        "tlp": 262144, "split_bytes": 268435456,
    }
    assert {name: known[name] for name in expected} == expected
    assert known["tensor_cycles"] == pytest.approx(3 * 128 * 128 * 32 / (2048 * 0.66))


def test_a_plan_and_the_model_agree():
    for scheme, promote, buffers, block_k in itertools.product(("half", "ootomo", "scaled"), (0, 16, 64), (1, 2), (32, 64)):
        plan = fixed("a100", scheme, promote=promote, fragment_buffers=buffers, block=[128, 64, block_k], warp=[32, 32, block_k], stages=2)
        known = specialised.model(plan)
        assert known["threads"] == plan.threads and known["shared_bytes"] == plan.shared_bytes
        assert known["accumulators"] == plan.accumulator_sets and known["stage_bytes"] == plan.stage_bytes
        assert known["accumulator_registers"] == plan.accumulator_registers
        assert known["fragment_registers"] == plan.fragment_registers
        assert (known["loop"] == 2) == (buffers == 2)
        assert (known["loop"] > 0) == plan.unrolls_steps
    for where, loads, split_k in (("prepass", "spread", 1), ("shared", "spread", 2), ("shared", "grouped", 1), ("register", "async", 4)):
        plan = fixed("a100", "ootomo", promote=64, block=[128, 64, 32], warp=[32, 32, 32], stages=2, where=where, loads=loads, split_k=split_k)
        known = specialised.model(plan)
        assert known["shared_bytes"] == plan.shared_bytes and known["staged"] == plan.staging_registers
        assert known["blocks"] == known["tiles"] * split_k and (known["split_bytes"] > 0) == (where == "prepass")
    assert registers.UNROLL_BELOW == planning.UNROLL_BELOW


@pytest.mark.parametrize("block_k", space.BLOCK_K)
def test_the_swizzle_leaves_no_bank_conflict(block_k):
    plan = fixed("h100", "half", block=[64, 64, block_k], warp=[32, 32, block_k], stages=2)
    assert traffic.bank_ways(plan) == 1
    assert traffic.bank_ways(plan, swizzled=False) == traffic.UNSWIZZLED_WAYS.value({"BK": block_k, "word_bytes": 2, "shared_banks": 32})


# ---- what must hold of any plan


@settings(deadline=None)  # the first example loads the tables
@given(
    scale=st.sampled_from([(64, 64), (128, 64), (128, 128), (128, 256)]), depth=st.sampled_from([16, 32, 64]),
    stages=st.integers(2, 6), gpu=st.sampled_from(["a100", "h100", "rtx3090", "rtx4090", "rtx5090"]),
)
def test_more_of_everything_costs_more(scale, depth, stages, gpu):
    def known(block, k, count, size=4096, promote=0):
        fragment = fixed().fragment
        symbols = space.constants("nn", SCHEMES.get("ootomo"), fragment, GPUS.get(gpu), planning.Hints(size, size, size))
        symbols |= dict(zip(space.DECISIONS, (*block, k, 64, 32, k, count, 1, 8, 1, promote, 0, 0, 0, 0)))
        return space.predictions(space.budgets(symbols, GPUS.get(gpu).arch_number))

    here = known(scale, depth, stages)
    assert known(scale, depth, stages + 1)["shared_bytes"] > here["shared_bytes"]
    assert known(scale, 2 * depth, stages)["shared_bytes"] == 2 * here["shared_bytes"]
    assert known((2 * scale[0], scale[1]), depth, stages)["intensity"] > here["intensity"]
    assert known(scale, depth, stages, promote=128)["demand"] >= here["demand"]
    assert known(scale, depth, stages)["resident_blocks"] >= known(scale, depth, stages + 1)["resident_blocks"]
    if here["resident_blocks"]:
        assert known(scale, depth, stages, 8192)["seconds"] > here["seconds"]
        assert 0 < here["tflops"] < GPUS.get(gpu).rates.f16_tflops / 3


# ---- the error that promotion decides


def test_promotion_follows_the_error():
    """Simulated at K = 4096 on a unit that sums 16 products at once: 2.0e-7, 2.5e-7, 4.2e-7 for 64, 128, 256."""
    h100, a100 = GPUS.get("h100"), GPUS.get("a100")
    ootomo, scaled, half = (SCHEMES.get(name) for name in ("ootomo", "scaled", "half"))

    def predicted(scheme, promote, k=4096):
        return solved(error.EQUATIONS, error.error_numbers(scheme, h100.unit, promote, k))

    for promote, simulated in ((64, 2.0e-7), (128, 2.5e-7), (256, 4.2e-7)):
        assert predicted(ootomo, promote)["error"] == pytest.approx(simulated, rel=0.15)
    assert predicted(scaled, 64)["error"] == pytest.approx(3.3e-7, rel=0.05)
    assert predicted(ootomo, 256)["fp32_error"] == pytest.approx(1.15e-6, rel=0.05)  # sequential FP32, simulated: 1.1e-6
    assert error.promote_for(ootomo, h100.unit, 16, 4096) == 256
    assert error.promote_for(ootomo, a100.unit, 16, 4096) == 128
    assert error.promote_for(scaled, h100.unit, 16, 4096) == 64
    assert error.promote_for(half, h100.unit, 16, 4096) == 0
    assert error.promote_for(ootomo, h100.unit, 16, 1 << 20) == error.LARGEST_PROMOTE


@given(k=st.integers(1, 1 << 20))
def test_longer_sums_never_ask_for_more_promotion(k):
    unit, scheme = GPUS.get("a100").unit, SCHEMES.get("ootomo")
    assert error.promote_for(scheme, unit, 16, 2 * k) >= error.promote_for(scheme, unit, 16, k) >= 32


def test_a_constraint_reads_as_it_is_written():
    constraint = Constraint("X1", "test", "BM % WM == 0", "whole warps")
    assert constraint.holds({"BM": 128, "WM": 64}) and not constraint.holds({"BM": 96, "WM": 64})
    assert constraint.filled({"BM": 96, "WM": 64}) == "96 % 64 == 0"
    assert list(constraint.holds({"BM": np.array([96, 128]), "WM": 64})) == [False, True]
