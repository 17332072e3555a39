"""The equations: each against numbers worked out by hand, and its two readings against each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from math import inf

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import Hints, all_designs, portable, specialised, tensor_memory
from gemmgen.designs.portable.design import BLOCK_K
from gemmgen.kinds import all_kinds
from gemmgen.kinds.triangles import UPPER, Syrk
from gemmgen.kinds.triangular import RIGHT, Trmm
from gemmgen.model import accuracy, epilogue, error, papers, registers, resources, time, traffic
from gemmgen.model.equation import Constraint, Equation, solved
from gemmgen.model.notation import FUNCTIONS, Unreadable, checked, degree, symbol
from gemmgen.cli import explain as explaining
from gemmgen.solve import explain, solve
from gemmgen.paths import SPECS
from gemmgen.spec import load, loads
from latex_reader import read, read_line
from random_specs import bulk_specs, random_plans, specs, tensor_memory_specs
from banks import bank_ways
from ways import AMD_WAYS, LIKE_OTHERS, WAYS, plan_of, shipped, tailed

MODULES = (resources, registers, traffic, time, error)
OURS = [value for module in MODULES for value in vars(module).values() if isinstance(value, Equation)]
BULK = [equation for _, group in specialised.DESIGN.equations.groups for equation in group]  # of the other design
DESIGNS = (portable.DESIGN, specialised.DESIGN, tensor_memory.DESIGN)
IN_USE = [statement for one in DESIGNS for group in (*(group for _, group in one.equations.groups), one.constraints) for statement in group]
CONSTRAINTS = [*portable.DESIGN.constraints, papers.EGEMM_BALANCE]
SHIPPED = shipped()
STATEMENTS = list({id(one): one for one in [*OURS, *IN_USE, *papers.PAPERS, *CONSTRAINTS]}.values())


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


def test_the_designs_share_numbers_only_for_the_same_equation():
    declared = [e for e in vars(specialised.equations).values() if isinstance(e, Equation)]
    by_number = {e.number: e for e in OURS}
    assert all(by_number.get(e.number, e) is e for e in [*BULK, *declared])
    for group in (declared, BULK):
        assert len({e.number for e in group}) == len({e.symbol for e in group}) == len({id(e) for e in group})
    assert set(map(id, declared)) <= set(map(id, BULK)), "an equation that no explanation shows"
    limits = specialised.DESIGN.constraints
    assert len({c.number for c in limits}) == len(limits)


def of(statement) -> Equation:
    """What a statement says as an equation."""
    return statement if isinstance(statement, Equation) else statement._equation


def said(statement, form: str) -> Equation:
    """Another form in a statement's place."""
    return Equation(statement.number, "", form, "", "")


def readings(statement) -> dict[str, Callable]:
    """What SymPy has of it, and what is typeset, each as a function of columns of numbers by name."""
    names = of(statement).variables
    sympys = sympy.lambdify([symbol(name) for name in names], statement.expression, "numpy")
    form = read(statement.latex.partition(" = ")[2] if isinstance(statement, Equation) else statement.latex)
    return {"SymPy's": lambda known: sympys(*(known[name] for name in names)), "the typeset one": said(statement, form).value}


def hold_equal(statement, known: dict[str, np.ndarray], computed: np.ndarray) -> None:
    """Every reading gives what is computed of columns of numbers."""
    for name, reading in readings(statement).items():
        with np.errstate(all="ignore"):
            got = np.broadcast_to(np.asarray(reading(known), dtype=float), computed.shape)
        np.testing.assert_allclose(got, computed.astype(float), rtol=1e-12, err_msg=f"{statement.number}, {name}")


DRAWN = (0, 0, 1, 1, 2, 3, 8, 16, 32, 64, 100, 128, 256, -4, 2.5)
"""Flags that are set and that are not, counts and extents, an offset and a slope."""


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: s.number)
def test_every_reading_says_what_is_computed(statement):
    equation, draw = of(statement), np.random.default_rng(1)
    columns = {name: draw.choice(DRAWN, size=3000) for name in equation.variables}
    divisors = [node.right for node in ast.walk(ast.parse(equation.form)) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mod)]
    with np.errstate(all="ignore"):
        defined = np.all([np.broadcast_to(said(statement, ast.unparse(one)).value(columns) != 0, 3000) for one in divisors] or [[True] * 3000], axis=0)
        columns = {name: column[defined] for name, column in columns.items()}
        computed = np.broadcast_to(equation.value(columns), defined.sum())
    assert defined.sum() > 200
    hold_equal(statement, columns, computed)
    for at in range(0, len(computed), 100):
        with np.errstate(invalid="ignore"):
            one = equation.value({name: column[at].item() for name, column in columns.items()})
        assert float(one) == pytest.approx(float(computed[at]), nan_ok=True)


FORMS = sorted({of(one).form for one in [
    *STATEMENTS, *accuracy.EQUATIONS, *epilogue.EQUATIONS,
    *(one for design in all_designs() for group in (*(group for _, group in design.equations.groups), design.constraints) for one in group),
    *(one for kind in (*all_kinds().values(), Syrk(UPPER), Trmm(side=RIGHT)) for one in (*kind.equations, *kind.constraints)),
]})


@pytest.mark.parametrize("kind", ["whole", "real", "mixed"])
def test_code_computes_the_bits_that_the_form_says(kind):
    """In the order in which it is written, of 64-bit integers and FP64 alike: another order rounds otherwise, and `ceil` may give another register."""
    draw = np.random.default_rng(5)
    for form in FORMS:
        equation, columns = Equation("", "", form, "", ""), {}
        for at, name in enumerate(equation.variables):
            whole = kind == "whole" or kind == "mixed" and at % 2 == 0
            columns[name] = draw.integers(1, 300, 500) * draw.integers(0, 2, 500) if whole else draw.uniform(-3, 300, 500)
        with np.errstate(all="ignore"):
            plain = eval(form, {"__builtins__": {}, **FUNCTIONS}, columns)
            got = equation.value(columns)
        assert plain.dtype == got.dtype, form
        assert np.array_equal(plain, got, equal_nan=plain.dtype.kind == "f"), form


def test_another_order_is_other_bits():
    """The test above can fail."""
    columns = {"a": np.array([0.1]), "b": np.array([0.2]), "c": np.array([0.3])}
    assert Equation("", "", "a + b + c", "", "").value(columns) != eval("b + c + a", {}, columns)


@pytest.mark.parametrize(("form", "values"), [
    ("a < b < 3", [True, False, False]), ("not a < b", [False, False, True]), ("~(a < b)", [False, False, True]), ("a < b and b < 5 and a < 1", [True, False, False]),
    ("a > b or b > 4 or a < 1", [True, True, True]), ("b // a", [1, 5, 0]), ("where(a < b, b > 4, a > 1)", [False, True, True]),
])
def test_code_takes_columns_where_python_takes_one_truth_value(form, values):
    """And a whole quotient is an integer, of real numbers too."""
    got = Equation("", "", form, "", "").value({"a": np.array([0.5, 1.0, 2.0]), "b": np.array([0.6, 5.0, 1.0])})
    assert got.tolist() == values and got.dtype == (np.int64 if "//" in form else bool)


def test_only_a_form_is_compiled():
    with pytest.raises(Unreadable):
        Equation("", "", "a.__class__", "", "").value({"a": 1})


@pytest.mark.parametrize(("form", "expected"), [
    ("3 * x + b", 1), ("-x", 1), ("x * x", 2), ("x / b", 1), ("b / x", inf), ("b * max(c, 1) - 2", 0), ("max(x, 1)", inf), ("x ** 2", inf), ("x // 2", inf),
    ("where(b > 1, x, 4 * y)", 2), ("where(x > 1, 1, 2)", inf), ("x < b", inf), ("x * y * b", 3), ("b < c", 0),
])
def test_the_degree_of_a_form(form, expected):
    assert degree(checked(form), {"x": 1, "y": 2}) == expected


def test_solving_imports_no_sympy():
    program = (
        "import sys\nfrom gemmgen.solve import solve\nfrom gemmgen.spec import loads\n"
        "for gpu in ('a100', 'h100', 'b200', 'mi300x'):\n    solve(loads({'target': {'gpu': gpu}}))\n"
        "print('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["False"]


def test_no_branch_is_left_out():
    """Not even where a flag is 0 in every plan that one could think of."""
    for statement in STATEMENTS:
        assert {one.name for one in statement.expression.free_symbols} == set(of(statement).variables), statement.number
        assert {"True", "False"}.isdisjoint(re.findall(r"\w+", statement.latex)), statement.number


def known_of(plan) -> dict[str, float]:
    """Every symbol's value at a plan, the papers' and the error's among them."""
    own = error.error_numbers(plan.scheme, plan.unit, plan.promote, max(plan.hints.k, 1)) if plan.promote else {}
    return papers.numbers(plan.model) | (solved(error.EQUATIONS, own) if own else {})


@pytest.mark.slow
@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
@pytest.mark.parametrize(("design", "strategy", "ways"), [
    (portable.DESIGN, specs(gpus=GPUS.names()), WAYS | AMD_WAYS), (specialised.DESIGN, bulk_specs(), WAYS),
    (tensor_memory.DESIGN, tensor_memory_specs(), {}),
], ids=[one.name for one in DESIGNS])
def test_every_reading_gives_the_numbers_of_plans(design, strategy, ways, count):
    """Of random plans and of those that go every way, with flags as they really are."""
    drawn = [*random_plans(strategy, count), *(plan_of(**way) for way in ways.values())]
    plans = [plan for plan in drawn if plan.design is design]
    assert len(plans) > 0.28 * count
    rows = [known_of(plan) for plan in plans]
    for statement in [*(one for _, group in design.equations.groups for one in group), *error.EQUATIONS, *design.constraints, *papers.PAPERS]:
        equation = of(statement)
        told = [row for row in rows if all(name in row for name in equation.variables)]
        assert told or set(equation.variables) & set(papers.LATENCIES), statement.number
        columns = {name: np.array([row[name] for row in told], dtype=float) for name in equation.variables}
        hold_equal(statement, columns, np.array([equation.value(row) for row in told]))


def worth(numbers: str) -> float:
    """What an expression without symbols comes to."""
    return float(eval(numbers, dict(FUNCTIONS)))


def close(text: str, value: float) -> bool:
    """Whether a figure is a number's, written to four digits."""
    return float(text) == pytest.approx(value, rel=5.1e-4, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", tailed(SHIPPED, LIKE_OTHERS))
def test_what_an_explanation_prints_is_true(name):
    """Of every shipped spec: each `symbol = numbers = value`, in text and typeset, each inequality with its numbers."""
    explanation = explain(SHIPPED[name])
    known = papers.numbers(explaining._numbers(explanation) | explaining._latencies(explanation))
    design = explanation.plan.design
    groups = explaining._groups(explanation, known)
    predicted = {one.number: own for _, group, own in groups if own is not known for one in group}  # whose symbols have values of their own
    numbers_of = {one.form: own for _, group, own in groups if own is not known for one in group}

    printed = explaining.text(explanation)
    chains = re.findall(r"^  \S.*?  (\S+) = (\S+).*\n +  = (.+)\n +  = (.+)$", printed, re.M)
    symbols = {(one.number, one.symbol) for group in [*(group for _, group, _ in groups), papers.PAPERS] for one in group}
    assert {name for name, *_ in chains} >= {one.symbol for _, group in design.equations.groups for one in group}
    for name, value, form, numbers in chains:
        assert close(value, Equation("", "", form, "", "").value(numbers_of.get(form, known))), (name, value, form)
        assert close(value, worth(numbers)), (name, value, numbers)
    inequalities = re.findall(r"^  ([CK]\d+) +(.+)\n +(.+)$", printed.partition("\nconstraints\n")[2], re.M)
    assert [number for number, *_ in inequalities] == [one.number for one in design.constraints]
    for (number, _, numbers), constraint in zip(inequalities, design.constraints):
        assert worth(numbers) == constraint.holds(known), (number, numbers)

    rows = [row.removesuffix(r" \\") for row in explaining.latex(explanation).splitlines() if r"\tag" in row]
    lines = [read_line(row) for row in rows if not row.startswith("& ")]
    assert len(lines) >= len(chains)
    for line in lines:
        equation = Equation(line.tag, line.symbol, line.form, "", "")
        assert (line.tag, line.symbol) in symbols
        have = predicted.get(line.tag, known)
        if line.sign is None:
            assert not have.keys() >= set(equation.variables), line  # it lacks a number: a latency, or what sums in FP32 alone have
        elif line.sign == "=":
            assert line.figure == pytest.approx(equation.value(have), rel=1e-12, abs=0), line
        else:
            assert close(line.figure, equation.value(have)), line
    typeset = [re.fullmatch(r"& (.*) \\tag\{(.*)\}", row).groups() for row in rows if row.startswith("& ")]
    assert [number for _, number in typeset] == [one.number for one in design.constraints]
    for (condition, number), constraint in zip(typeset, design.constraints):
        assert said(constraint, read(condition)).value(known) == constraint.holds(known), number


def test_the_order_of_evaluation_is_the_order_of_the_lists():
    plan = fixed()
    known = plan.model
    for equation in (one for _, group in portable.DESIGN.equations.groups for one in group):
        assert equation.value(known) == known[equation.symbol], equation.number


# ---- the papers, by hand


def test_wmmae_roofline():
    """Eq. 1 is n / 6, and its 52.0 and 104.0 TFLOP/s are 19.491 TB/s times 32/12 and 32/6."""
    intensity, held = papers.WMMAE
    n = symbol("n")
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
    m, n = symbol("BM"), symbol("BN")
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
    known = fixed().model
    expected = {
        "warps": 8, "threads": 256, "shared_bytes": 98304, "accumulators": 2, "accumulator_registers": 128,
        "fragment_registers": 48, "a_fragments": 32, "b_fragments": 16, "register_budget": 255, "resident_blocks": 1,
        "stage_flops": 3145728, "stage_bytes": 32768, "intensity": 96, "fetch_bytes": 98304, "unswizzled_ways": 4,
        "tiles": 1024, "stages_k": 128, "fetch_cycles": 768, "fill_cycles": 256, "full_waves": 7, "tail_blocks": 1,
        "tlp": 262144, "split_bytes": 268435456,
    }
    assert {name: known[name] for name in expected} == expected
    assert known["tensor_cycles"] == pytest.approx(3 * 128 * 128 * 32 / (2048 * 0.66))


@pytest.mark.parametrize("block_k", BLOCK_K)
def test_the_swizzle_leaves_no_bank_conflict(block_k):
    plan = fixed("h100", "half", block=[64, 64, block_k], warp=[32, 32, block_k], stages=2)
    assert bank_ways(plan) == 1
    assert bank_ways(plan, swizzled=False) == traffic.UNSWIZZLED_WAYS.value({"BK": block_k, "word_bytes": 2, "shared_banks": 32})


# ---- what must hold of any plan


@settings(deadline=None)  # the first example loads the tables
@given(
    scale=st.sampled_from([(64, 64), (128, 64), (128, 128), (128, 256)]), depth=st.sampled_from([16, 32, 64]),
    stages=st.integers(2, 6), gpu=st.sampled_from(["a100", "h100", "rtx3090", "rtx4090", "rtx5090"]),
)
def test_more_of_everything_costs_more(scale, depth, stages, gpu):
    def known(block, k, count, size=4096, promote=0):
        symbols = portable.DESIGN.constants("nn", SCHEMES.get("ootomo"), FRAGMENTS.get("mma_m16n8k16_f16"), GPUS.get(gpu), Hints(size, size, size))
        symbols |= dict(zip(portable.DESIGN.symbols, (*block, k, 64, 32, k, count, 8, 1, promote, 1, *[0] * 8), strict=True))
        return portable.DESIGN.predicted(portable.DESIGN.budgets(symbols, GPUS.get(gpu).registers))

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


def test_registers_that_compilers_gave_shipped_specs():
    """Of specs that hold what others do not; tests/compile/test_register_model.py compiles all. The bars are what the model errs by, and a little."""
    for name, registers_given, within in (
        ("mixpert4_tile_mi300x", 162, 0.03), ("batch_mi300x", 260, 0.02), ("batchgemm_mi210", 106, 0.06), ("egemm_uncached_t4", 124, 0.09),
        ("egemm_nothing_cached_a100", 125, 0.03), ("mixpert4_tile_a100", 186, 0.07),
    ):
        assert solve(load(SPECS / "kernels" / f"{name}.toml")).predicted_registers == pytest.approx(registers_given, rel=within), name
    spec = {"split": {"scheme": "mixpert4_tile"}, "target": {"gpu": "mi300x"}, "build": {"allow_spills": True}, "pipeline": {"stages": 2}}
    found = [solve(loads({**spec, "tile": {"block": [2 * m, 2 * n, 32], "warp": [m, n, 32]}})).model["registers"] for m, n in ((32, 32), (64, 32), (64, 64))]
    assert found == pytest.approx([162, 264, 448], rel=0.05)  # of one, two and four fragments a warp
