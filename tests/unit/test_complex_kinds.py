"""Triangles of complex elements: BLAS's herk and hemm, and the kinds that real elements have, too."""

from __future__ import annotations

import json
import pickle
import re
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from programs import Example, need, run, small
from schema_check import violations
from test_export import HOST_RUNTIME, stand_in
from ways import TINY, plan_of

from gemmgen import export as exporter
from gemmgen.abi import interface
from gemmgen.catalog.element import C64
from gemmgen.designs import design_called
from gemmgen.designs.feature import COMPLEX
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.export import prose
from gemmgen.kinds import GEMMT, HEMM, HER2K, HERK, SYMM, SYR2K, SYRK, TRMM, TRSM, OfComplex, kind_of
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.kinds.triangles import BOTH, LOWER, UPPER, Gemmt, Her2k, Herk, Syr2kInTurn, Syrk, hermitian
from gemmgen.kinds.triangular import LEFT, NONUNIT, RIGHT, UNIT, Hemm, Symm, Trmm
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import gemm
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verdict import plain_plan
from gemmgen.verify import Judge
from gemmgen.verify.complex import question
from gemmgen.verify.oracles import Problem

OF_C = [*((kind(uplo), layout) for kind, layouts in ((Herk, ("nc", "cn")), (Syrk, ("nt", "tn"))) for uplo in (LOWER, UPPER, BOTH) for layout in layouts),
        *((Gemmt(uplo), "cn") for uplo in (LOWER, UPPER))]
OF_OPERANDS = [
    *((kind(uplo, side), layout) for kind in (Hemm, Symm) for uplo in (LOWER, UPPER)
      for side, layouts in ((LEFT, ("nn", "nt", "nc")), (RIGHT, ("nn", "tn", "cn"))) for layout in layouts),
    *((Trmm(uplo, side, diag), layout) for uplo in (LOWER, UPPER) for side in (LEFT, RIGHT) for diag in (NONUNIT, UNIT) for layout in ("nn", "tc", "ct", "cn")),
]


def drawn(rng, *shape):
    return C64.rounded(rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape))


def value(text: str, names: dict):
    """What a C expression with ? and : comes to, of numbers and of the functions `names`."""
    depth, question_mark, nested = 0, None, 0
    for at, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and letter == "?" and question_mark is None:
            question_mark = at
        elif depth == 0 and letter == "?":
            nested += 1
        elif depth == 0 and letter == ":" and nested == 0:
            chosen = text[question_mark + 1:at] if value(text[:question_mark], names) else text[at + 1:]
            return value(chosen, names)
        elif depth == 0 and letter == ":":
            nested -= 1
    text = text.strip()
    if text.startswith("(") and "?" in text:
        return value(text[1:-1], names)
    return eval(re.sub(r"(\d)f\b", r"\1", text).replace("||", " or "), {}, names)


def test_c_choices_are_read_as_c_reads_them():
    assert value("x ? 1 : y ? 2.0f : 3", {"x": 0, "y": 1}) == 2 and value("(x ? (y ? 1 : 2) : 3)", {"x": 1, "y": 0}) == 2


# ---- elements


def memory_of(kind: OfComplex, operand: str, x: np.ndarray) -> np.ndarray:
    """[rows, columns] of reals, as memory has an operand: what is not to be read is NaN."""
    letter = kind.options["layout"]["ab".index(operand)]
    x = x.copy()
    if operand == kind.operand:
        unread = np.tri(len(x), k=0 if kind.options.get("diag") == UNIT else -1, dtype=bool)
        square = x if operand == "a" else x.T
        square[unread.T if kind.of_reals.below else unread] = complex(np.nan, np.nan)
        if kind.of_reals.conjugates:
            np.fill_diagonal(square, square.diagonal().real + complex(0, np.nan))
    return kind.in_memory(x, letter)


@pytest.mark.parametrize(("of", "layout"), [*OF_C, *OF_OPERANDS], ids=lambda one: one if isinstance(one, str) else "-".join([one.name, *one.options.values()]))
def test_kernels_read_the_real_matrices_of_the_elements_that_are_multiplied(of, layout):
    """The C text of each element, evaluated here; the matrices are those of NumPy's product."""
    rng, kind = np.random.default_rng(1), OfComplex("c64", layout, of)
    m, n, k = (4, 3, 4) if kind.operand == "a" else (3, 4, 4) if kind.operand == "b" else (4, 4, 3)
    a, b = drawn(rng, m, k), drawn(rng, k, n)
    whole = kind.multiplied(a, None if kind.one_operand else b)
    want = {Herk: lambda: a.conj().T, Syrk: lambda: a.T}.get(type(of), lambda: b)()
    assert (whole[1] == want).all() if kind.operand != "b" else (whole[0] == a).all()
    if kind.operand:
        x, square = (a, whole[0]) if kind.operand == "a" else (b, whole[1])
        below = np.tri(len(x), k=-1, dtype=bool)
        below = below if of.options["uplo"] == LOWER else below.T
        assert (square[below] == x[below]).all()
        others = {"hemm": square.conj().T, "symm": square.T, "trmm": np.zeros_like(x)}[of.name]
        assert (square[below.T] == others[below.T]).all()
        diagonal = {"hemm": x.diagonal().real, "symm": x.diagonal(), "trmm": np.ones(len(x)) if of.options.get("diag") == UNIT else x.diagonal()}[of.name]
        assert (square.diagonal() == diagonal).all()
    real = dict(zip("ab", kind.completed(a, None if kind.one_operand else b)))
    assert np.allclose((real["a"] @ real["b"]).astype(np.float32).view(np.complex64), whole[0] @ whole[1], atol=1e-5)
    for operand, x in (("a", a), ("b", whole[1] if kind.one_operand else b)):
        contiguous = (layout["ab".index(operand)] == "n") == (operand == "a")
        memory = memory_of(kind, operand, x)
        wanted = real[operand] if operand == "a" else real[operand].T
        if operand not in kind.given:
            assert (memory == wanted).all()
            continue
        for o, kk in np.ndindex(wanted.shape):
            names = {"at": lambda o, kk: memory[o, kk] if contiguous else memory[kk, o], "o": o, "kk": kk}
            assert value(kind.given[operand], names) == wanted[o, kk], (operand, o, kk)


def test_b_of_one_operand_lies_where_a_does():
    rng = np.random.default_rng(2)
    for of, layouts in ((Herk(), ("nc", "cn")), (Syrk(), ("nt", "tn"))):
        for layout in layouts:
            kind = OfComplex("c64", layout, of)
            a, b = kind.multiplied(drawn(rng, 3, 5), None)
            assert (kind.in_memory(a, layout[0]) == kind.in_memory(b, layout[1])).all()


@pytest.mark.parametrize("layout", ["nc", "cn", "nt", "tn"])
def test_the_second_product_is_that_of_the_memory_exchanged(layout):
    """What lies where B does, read as A is, is the second product's A, and the other way round; alpha is conjugated of a Hermitian C alone."""
    rng, hermitian = np.random.default_rng(4), "c" in layout
    kind = OfComplex("c64", layout, Her2k() if hermitian else Syr2kInTurn())
    a, b, alpha = drawn(rng, 3, 5), drawn(rng, 5, 3), 2 - 3j
    (first, *product), (second, *turned) = kind.terms(a, b, alpha)
    assert first == alpha and (product[0] == a).all() and (product[1] == b).all() and second == (2 + 3j if hermitian else alpha)
    assert (kind.in_memory(turned[0], layout[0]) == kind.in_memory(b, layout[1])).all()
    assert (kind.in_memory(turned[1], layout[1]) == kind.in_memory(a, layout[0])).all()
    other = turned[0] @ turned[1]
    assert np.allclose(other, (a @ b).conj().T if hermitian else (a @ b).T) and np.allclose(np.matmul(*kind.multiplied(a, b)), a @ b + other, atol=1e-5)


def test_rounds_exchange_a_and_b_and_add_to_what_is_stored():
    her2k, syr2k = (OfComplex("c64", layout, of) for layout, of in (("nc", HER2K), ("nt", SYR2K)))
    one, two = her2k.rounds(6, 12, 8, 2 - 3j, 0.5, False)
    assert (one.m, one.n, one.k, one.alpha, one.beta, one.at) == (6, 12, 8, 2 - 3j, 0.5, {}) and (two.m, two.n, two.k) == (6, 12, 8)
    assert (two.alpha, two.beta, syr2k.rounds(6, 12, 8, 2 - 3j, 1j, False)[1].alpha) == (2 + 3j, 1, 2 - 3j)
    call = {"a": 100, "lda": 5, "b": 200, "ldb": 7, "c": 300, "ldc": 9}
    given = [round.given(call, lambda operand, elements: operand + elements) for round in (one, two)]
    assert [[one[name] for name in ("a", "lda", "b", "ldb", "c", "ldc")] for one in given] == [[100, 5, 200, 7, 300, 9], [200, 7, 100, 5, 300, 9]]
    assert [[one[name] for name in ("alpha", "alpha_i", "beta", "beta_i")] for one in given] == [[2, -3, 0.5, 0], [2, 3, 1, 0]]
    assert len(her2k.rounds(6, 12, 0, 1, 1, False)) == len(her2k.rounds(6, 12, 8, 0, 1, False)) == 1, "C alone"


def test_a_hermitian_matrix_by_hand():
    x = np.array([[1 + 5j, 9], [2 - 3j, 4 + 7j]], np.complex64)
    assert hermitian(x, below=True).tolist() == [[1, 2 + 3j], [2 - 3j, 4]] and hermitian(x, below=False).tolist() == [[1, 9], [9, 4]]
    assert hermitian(x, below=True).dtype == np.complex64
    assert Herk(BOTH).read(x).tolist() == [[1, 2 + 3j], [2 - 3j, 4]] and Herk(LOWER).read(x).tolist() == [[1, 9], [2 - 3j, 4]]


@pytest.mark.parametrize(("of", "layout"), [
    (Herk(LOWER), "nc"), (Herk(UPPER), "cn"), (Syrk(UPPER), "nt"), (Gemmt(UPPER), "nc"), (Hemm(LOWER, LEFT), "nn"), (Hemm(UPPER, RIGHT), "nn"),
    (Her2k(LOWER), "nc"), (Her2k(UPPER), "cn"), (Syr2kInTurn(UPPER), "tn"), (Trmm(UPPER, LEFT), "nn"),
])
def test_any_real_product_is_a_part_of_one_of_the_kind(of, layout):
    rng, kind = np.random.default_rng(3), OfComplex("c64", layout, of)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, 7), (7, 5), (3, 5)))
    given = kind.embedded(a, b, c)
    product = np.matmul(*kind.multiplied(given.a, given.b))
    assert np.allclose(kind.part(product, 3, 5), a @ b, atol=1e-5) and (kind.part(given.c, 3, 5) == c).all()
    computed = np.repeat(kind.computed(*product.shape), 2, axis=1)
    assert kind.part(computed, 3, 5).all()
    assert np.isnan(given.a if kind.operand == "a" else given.b if kind.operand else 0).any() == bool(kind.operand)


# ---- tiles of real columns


@pytest.mark.parametrize("uplo", [LOWER, UPPER])
def test_tiles_are_those_that_hold_a_computed_element(uplo):
    """Of one to two columns of tiles for each row of them, and of clusters."""
    kind = OfComplex("c64", "nc", Herk(uplo))
    for m in range(1, 20):
        row, column = np.indices((m, 2 * m))
        computed = eval(kind.stored.replace("/", "//"), {}, {"row": row, "column": column})
        assert (computed == np.repeat(kind.computed(m, m), 2, axis=1)).all()
        for tile in ((4, 4), (4, 8), (8, 4)):
            touched = {(i // tile[0], j // tile[1]) for i, j in np.argwhere(computed)}
            found = kind.tiles.number(m, 2 * m, tile)
            tiles_m, tiles_n = -(-m // tile[0]), -(-2 * m // tile[1])
            assert len(touched) <= found == eval(kind.tiles.count.replace("/", "//"), {}, {
                "TILE_M": tile[0], "TILE_N": tile[1], "tiles_m": tiles_m, "tiles_n": tiles_n})
            # A row of tiles is as long as the longest of its rows of elements, where it ends with whole ones.
            assert found == len(touched) if m % tile[0] == 0 else found <= len(touched) + 2 * tile[0] // tile[1]


def made(kind: str, layout: str = "nn", **more):
    """One plan of each kind serves all tests."""
    return plan_of(type="c64", layout=layout, size=1000, tile=TINY, stages=3, problem={"kind": kind, **more})


def test_the_model_counts_the_tiles_that_are_launched():
    plan, whole = made("herk", "nc"), made("gemm")
    for uplo in (LOWER, UPPER):
        kind = OfComplex("c64", "nc", Herk(uplo))
        model = replace(plan, kind=kind).model
        assert model["tiles"] == kind.tiles.number(1000, 2000, plan.block[:2]) < 0.55 * whole.model["tiles"]
        assert model["split_bytes"] == whole.model["split_bytes"]
        twice = replace(plan, kind=OfComplex("c64", "nc", Her2k(uplo))).model
        assert twice["seconds"] == 2 * model["seconds"] and twice["stages_k"] == model["stages_k"]


# ---- plans


def spec(kind, layout, gpu="a100", type="c64", split=None, **problem):
    return loads({"problem": {"kind": kind, "layout": layout, "type": type, **problem}, "target": {"gpu": gpu}, "split": split or {}})


@pytest.mark.parametrize(("of", "layout", "name"), [
    (HERK, "nc", "cherk"), (HER2K, "cn", "cher2k"), (SYR2K, "nt", "csyr2k"), (SYRK, "nt", "csyrk"), (GEMMT, "cc", "cgemmt"),
    (HEMM, "nc", "chemm"), (SYMM, "nn", "csymm"), (TRMM, "tc", "ctrmm"), (TRSM, "cn", "ctrsm"),
])
def test_a_spec_of_complex_elements_has_the_kind(of, layout, name):
    kind = kind_of(spec(of.name, layout).spec.problem)
    again = pickle.loads(pickle.dumps(kind))
    assert (kind.name, kind.asked, kind.of_reals.name) == (name, of.name, of.name) and kind == again == OfComplex("c64", layout, of)
    assert kind != OfComplex("c128", layout, of) and hash(kind) == hash(again) and (again.tiles is None or "2 * TILE_M" in again.tiles.count)
    assert kind.layout_of(kind.stored_layout(layout)) == layout and (kind.vendor_share, kind.hermitian) == (of.vendor_share, of in (HERK, HER2K))
    assert kind.exchanged == (of in (HER2K, SYR2K)) and not kind.twice


def test_a_plan_says_its_kind_and_so_does_the_plain_one_beside_it():
    plan = made("herk", "nc")
    assert plan.identity["kind"] == "cherk" and plan.identity["uplo"] == "lower" and plan.kind.layout_of(plan.layout) == "nc"
    assert plain_plan(plan).kind == plan.kind


def test_a_batch_is_asked_for_by_its_own_word_only_where_it_is_of_whole_products():
    """`kind = "strided"` is A B + C itself; of a triangle of C, or of an operand, a spec names the kind, and strides."""
    plain, *others = (kind_of(spec(name, layout).spec.problem).strided() for name, layout in (("gemm", "nc"), ("herk", "nc"), ("hemm", "nc"), ("trmm", "cn")))
    assert plain.asked == "strided" and [one.asked for one in others] == ["herk", "hemm", "trmm"]


def test_choices_of_the_real_kind_are_options():
    kind = kind_of(spec("trmm", "cn", side="right", diag="unit", uplo="upper").spec.problem)
    assert kind.options == {"type": "c64", "layout": "cn", "uplo": "upper", "side": "right", "diag": "unit"} and kind.operand == "b"
    assert kind.formula == "C = alpha A B + beta C of the upper triangle of B, whose diagonal is 1, A conjugated in memory,"
    assert OfComplex("c64", "nc", Herk(BOTH)).formula == "the lower triangle of C = alpha A A^H + beta C, stored conjugated to the upper one too"
    assert OfComplex("c64", "cn", Her2k(UPPER)).formula == "the upper triangle of C = alpha A B + conj(alpha) B^H A^H + beta C, A conjugated in memory,"
    assert OfComplex("c64", "nn", Hemm()).formula.startswith("C = alpha A B + beta C of a Hermitian A, of which the lower")
    assert OfComplex("c64", "nn", TRMM).layouts == COMPLEX_LAYOUTS and TRMM.layouts != COMPLEX_LAYOUTS
    assert OfComplex("c64", "nn", Hemm()).layouts == ("nn", "nt", "nc") and OfComplex("c64", "nn", Symm(side=RIGHT)).layouts == ("nn", "tn", "cn")


@pytest.mark.parametrize("side", [LEFT, RIGHT])
def test_a_tile_of_trmm_sums_two_real_k_for_each_complex_one(side):
    """Whole real k up to its last row, or its last column, which are real already."""
    kind = OfComplex("c64", "nn", Trmm(LOWER if side == LEFT else UPPER, side))
    assert kind.k_range == (("", "2 * (m0 + TILE_M)") if side == LEFT else ("", "n0 + TILE_N"))
    assert [kind.summed(64, 96, (80, 32), k) for k in (1000, 70)] == [(0, 288 if side == LEFT else 128), (0, 70)]
    plan = replace(made("hemm"), kind=kind)
    stages = -(-2000 // plan.block[2])
    tile = (2 * plan.block[0] if side == LEFT else plan.block[1]) / plan.block[2]
    assert plan.model["stages_k"] == np.ceil((stages + tile) / 2)


@pytest.mark.parametrize(("asked", "key", "remedy"), [
    (dict(kind="herk", layout="nt"), "[problem] layout", 'layout = "nc"'), (dict(kind="syrk", layout="nc"), "[problem] layout", 'layout = "nt"'),
    (dict(kind="hemm", layout="tn"), "[problem] layout", 'layout = "nn"'),
    (dict(kind="herk", layout="nc", type="f32"), "[problem] kind", 'type = "c64", or kind = "syrk"'),
    (dict(kind="hemm", layout="nn", type="f64"), "[problem] kind", 'type = "c64", or kind = "symm"'),
    (dict(kind="her2k", layout="nc", matrices=3), "[problem] kind", 'kind = "gemm", or type = "f32"'),
    (dict(kind="trmm", layout="nn", type="f64", matrices=3), "[problem] kind", 'kind = "gemm", or type = "f32"'),
    (dict(kind="trsm", layout="nc"), "[problem] layout", 'layout = "nn"'),
    (dict(kind="syr2k", layout="nc"), "[problem] layout", 'layout = "nt"'),
    (dict(kind="her2k", layout="nc", type="f32"), "[problem] kind", 'type = "c64", or kind = "syr2k"'),
    (dict(kind="hemm", layout="nn", uplo="both"), "[problem] uplo", 'uplo = "lower"'), (dict(kind="herk", layout="nc", n=17), "[problem] n", "n = 4096"),
])
def test_what_is_not_served_is_refused_with_a_remedy(asked, key, remedy):
    with pytest.raises(InfeasibleSpec) as error:
        solve(spec(**asked))
    assert key in str(error.value) and error.value.remedy == remedy


def test_a_tile_has_as_many_real_columns_as_rows_or_twice_as_many():
    tile = {"block": [32, 64, 32], "warp": [16, 32, 32]}
    assert plan_of(type="c64", layout="nc", tile=tile, stages=3, problem={"kind": "herk"}).block == (32, 64, 32)
    with pytest.raises(InfeasibleSpec, match="32 or 64 columns") as error:
        plan_of(type="c64", layout="nc", tile={"block": [32, 16, 32], "warp": [16, 16, 32]}, problem={"kind": "herk"})
    assert error.value.remedy == "block = [32, 32, 32]"


def test_a_hermitian_c_has_real_factors():
    plan = made("herk", "nc")
    names = [one.name for one in interface(plan).launches[-1].parameters]
    assert "alpha" in names and not {"alpha_i", "beta_i"} & {*names} and "alpha_i" not in render(plan).text
    with pytest.raises(SpecError, match="would not be Hermitian"):
        gemm(None, plan, None, drawn(np.random.default_rng(1), 3, 4), None, alpha=1j)
    assert "alpha_i" in [one.name for one in interface(made("hemm")).launches[-1].parameters]
    plan = made("her2k", "nc")
    names = [one.name for one in interface(plan).launches[-1].parameters]
    assert names[names.index("alpha"):][:3] == ["alpha", "beta", "alpha_i"] and "beta_i" not in render(plan).text and "alpha_i == 0.0f" in render(plan).text
    with pytest.raises(SpecError, match="beta: is complex, and C would not be Hermitian"):
        x = drawn(np.random.default_rng(1), 3, 3)
        gemm(None, plan, None, x, x, alpha=1j, beta=1j)


def test_kernels_get_the_real_extents_and_as_memory_as():
    """n of the real product is twice m: no parameter of it gets another's argument; B's words are blocks, which A's do not serve as."""
    plan = made("herk", "nc")
    given = {one.name: one.argument for launch in interface(plan).launches for one in launch.parameters}
    assert (given["n"], given["b"], given["ldb"]) == ("n", "a", "lda") and not plan.launches.shares_words
    assert {one.name: one.argument for launch in interface(made("hemm")).launches for one in launch.parameters}["k"] == "k"


def test_a_design_that_stores_real_elements_alone_has_no_complex_kinds():
    design = type(design_called("portable"))
    real = type("Real", (design,), {"features": tuple(one for one in design.features if one is not COMPLEX)})()
    assert real.computes(SYMM) and not real.computes(OfComplex("c64", "nn", SYMM)) and design().computes(OfComplex("c64", "nn", SYMM))


def test_residues_are_of_one_product_and_of_a_tiles_own_k():
    """Whose stages the model counts once for each modulus, and the kernel goes through as often."""
    for design in ("residues", "residues_portable"):
        able = [kind.name for kind in (GEMMT, SYRK, SYMM, TRMM, SYR2K, Syr2kInTurn()) if design_called(design).computes(kind)]
        assert able == ["gemmt", "syrk", "symm", "trmm", "syr2k"]
        assert all(design_called(design).computes(OfComplex("c128", "nc", kind)) for kind in (HERK, HEMM, TRMM, HER2K))
    with pytest.raises(InfeasibleSpec, match="gemm, gemmt, syrk, symm, trsm, strided, pointers or grouped; syr2k and trmm of single products"):
        solve(spec("trmm", "nn", "h200", "f64", matrices=3))
    tile = {"block": [32, 32, 64], "warp": [16, 16, 64]}
    for gpu, own in (("a100", tile), ("h200", {"block": [64, 64, 128], "warp": [64, 64, 128], "cluster": 1})):
        gemm, trmm = (plan_of("residues12", gpu=gpu, promote=0, tile=own, problem={"kind": kind}) for kind in ("gemm", "trmm"))
        stages, m, k = 4096 // own["block"][2], own["block"][0], own["block"][2]
        assert gemm.model["stages_k"] == 12 * stages and trmm.model["stages_k"] == 12 * np.ceil((stages + m / k) / 2)
        assert 0.5 < trmm.model["seconds"] / gemm.model["seconds"] < 0.75
        if "unit_seconds" in trmm.model:
            assert trmm.model["unit_seconds"] == gemm.model["unit_seconds"] * trmm.model["stages_k"] / gemm.model["stages_k"]
    text = render(plan_of("residues12", promote=0, tile=tile, problem={"kind": "trmm"})).text
    assert "stage_count = alpha == 0.0f ? 0 : part_stages * MODULI;" in text and "first_turn(part_stages)" in text


# ---- exports


def exported(folder, kind="herk", layout="nc", **more):
    plan = made(kind, layout, **more)
    source = render(plan)
    exporter.export(plan, source, stand_in(plan, source, plan.arch), folder, name="lab_gemm")
    return plan, source


def test_an_export_of_herk_takes_one_operand_and_real_factors(tmp_path):
    exported(folder := tmp_path / "out", uplo="both")
    header, source, example = ((folder / name).read_text() for name in ("lab_gemm.h", "lab_gemm.cu", "example.cpp"))
    assert re.search(r"int lab_gemm\(\s*int m, int k, float alpha, const float \*a, int64_t lda,\s*float beta, float \*c, int64_t ldc", header)
    assert "B   is A^H, from A's memory" in header and "BAD_N" not in header and "BAD_B " not in header and "const int n = m;" in source
    launches = source[source.index("// the product of the words"):]
    for passed in ("(long long)2 * lda,", "(long long)2 * ldc,", "(int)m,", "(int)2 * n,", "(int)2 * k,", "(float)alpha,", "(float)beta,"):
        assert passed in launches, passed
    assert "constexpr int M = 300, N = 300, K = 250;" in example
    assert "alpha[0]" not in source and "its own conjugate transpose" in example and "the imaginary parts of C's diagonal are 0" in example
    told, schema = json.loads((folder / "manifest.json").read_text()), json.loads((SPECS / "manifest.schema.json").read_text())
    assert violations(told, schema, schema) == [] and told["plan"]["kind"] == "cherk" and told["aliases"] == {"b": "a", "ldb": "lda", "n": "m"}


def test_an_export_of_her2k_takes_a_pair_for_alpha_and_a_number_for_beta(tmp_path):
    plan, _ = exported(folder := tmp_path / "out", "her2k", "nc")
    header, source = ((folder / name).read_text() for name in ("lab_gemm.h", "lab_gemm.cu"))
    assert re.search(
        r"int lab_gemm\(\s*int m, int k, const float \*alpha, const float \*a, int64_t lda, const float \*b, int64_t ldb,\s*float beta, float", header)
    assert "alpha            host pointer to two floats" in header and "lab_gemm_BAD_ALPHA = -3" in header and "BAD_BETA" not in header
    assert "exchange A with B" in header and "parts of elements of A, and of B in its place, that are Inf or NaN" in header
    told, schema = json.loads((folder / "manifest.json").read_text()), json.loads((SPECS / "manifest.schema.json").read_text())
    assert violations(told, schema, schema) == [] and "alpha conjugated" in told["exchanged"] and "rounds" not in told
    one, two = prose.coefficients(replace(plan, kind=OfComplex("c64", "nc", GEMMT)), 2000), prose.coefficients(plan, 1000)
    assert two.scaled == one.scaled + 2.0**-24 and two.random == pytest.approx(np.hypot(one.random, 2.0**-24))


def test_an_export_of_hemm_says_what_is_read(tmp_path):
    plan, _ = exported(folder := tmp_path / "out", "hemm", "cn", side="right", uplo="upper")
    header = (folder / "lab_gemm.h").read_text()
    assert re.search(r"int m, int n, const float \*alpha,\s*const float \*a", header) and "B   stored [n, n]" in header
    assert "The upper triangle of B is read, without the imaginary parts of its diagonal: nothing else." in header
    m, n, k = prose.example_size(plan)
    assert k == n == prose.EXAMPLE_SIZE[1] // 2 and f"constexpr int M = {m}, N = {n}, K = {k};" in (folder / "example.cpp").read_text()
    a, b = prose.example_matrices(plan)
    assert (a.shape, b.shape, a.dtype) == ((m, k), (k, n), np.complex64)
    state = 1664525 + 1013904223  # the first two numbers that the example draws are an element's parts
    assert a[0, 0] == np.complex64(complex((state >> 8) / 2**23 - 1, ((state * 1664525 + 1013904223) % 2**32 >> 8) / 2**23 - 1))


def test_an_example_of_a_gpu_that_takes_subnormal_words_for_zero():
    plan = plan_of(type="c64", gpu="mi210", loads="grouped")
    assert prose.example_losses(plan, (plan.arch,))["lost"] > 0


SIZES = """
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    lab_gemm_gg_layout at;
    if (lab_gemm_gg_lay_out(500, 500, 300, &at)) return 1;
    printf("%zu %d ", lab_gemm_workspace_bytes(500, 300), (int)at.tiles);
    for (size_t i = 0; i < sizeof at.blocks / sizeof at.blocks[0]; ++i) printf("%d ", (int)at.blocks[i]);
    return 0;
}
"""


def test_the_c_sizes_are_those_of_the_real_product(tmp_path):
    [gcc] = need("gcc")
    plan, source = exported(folder := tmp_path / "out")
    (folder / "sizes.c").write_text(SIZES)
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "sizes.c", "-o", "sizes", cwd=folder)
    told = list(map(int, run(folder / "sizes").split()))
    extents = source.interface.extents(500, 1000, 600)
    assert told == [source.interface.workspace(500, 1000, 600).bytes, plan.kind.tiles.number(500, 1000, plan.block[:2]),
                    *(launch.blocks(extents) for launch in source.launches)]


HOST_HERK = """
#include <complex>
#include <cstdlib>
#include "lab_gemm.h"
using Complex = std::complex<float>;
size_t lab_gemm_workspace_bytes(int, int) { return 512; }
int lab_gemm(int m, int k, float alpha, const float *a, int64_t lda, float beta, float *c, int64_t ldc, void *workspace, size_t, void *)
{
    const int fault = getenv("FAULT") ? atoi(getenv("FAULT")) : 0;
    if (!a) return lab_gemm_BAD_A;
    if (!workspace || lda <= k || ldc <= m) return -99;
    const Complex *const x = (const Complex *)a;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j <= i; ++j) {
            std::complex<double> sum = 0;
            for (int l = 0; l < k; ++l) sum += std::complex<double>(x[i * lda + l]) * std::conj(std::complex<double>(x[j * lda + l]));
            Complex &to = ((Complex *)c)[i * ldc + j], &again = ((Complex *)c)[j * ldc + i];
            Complex old = beta == 0 ? Complex(0) : beta * to;
            if (i == j) old.imag(0);
            to = Complex((double)alpha * sum) + old;
            if (i == j) to.imag(fault == 1 ? 1e-9f : 0);
            again = fault == 2 ? to : std::conj(to);
        }
    if (fault == 3) c[2 * m] = 0;
    return 0;
}
int lab_gemm_read_status(const void *, void *, lab_gemm_status *status) { *status = lab_gemm_status(); return 0; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""


@pytest.mark.slow
def test_the_example_of_herk_takes_what_is_right_and_nothing_else(tmp_path):
    """The diagonal has imaginary parts; the mirror image is not conjugated; what lies beside C is written."""
    [gxx] = need("g++")
    exported(folder := tmp_path / "out", uplo="both")
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    (folder / "library.cpp").write_text(HOST_HERK)
    small(folder / "example.cpp", 30, 30, 25)
    run(gxx, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I.", "example.cpp", "library.cpp", "-o", "example", cwd=folder)
    example = Example(folder)
    example.assert_right(10)
    for fault, told in enumerate(("the imaginary parts of C's diagonal", "C is its own conjugate transpose", "nothing was written"), 1):
        assert f"FAILED {told}" in example.assert_fails(fault)


OF_TWO = {
    "hemm": ({"layout": "cn", "side": "right", "uplo": "upper"}, "int m, int n", "const int k = n", "const float *", "Complex(beta[0], beta[1])", "true",
             "factor * std::conj(A(l, i)) * (l == j ? B(l, l).real() : l < j ? B(l, j) : std::conj(B(j, l)))", "BETA"),
    "her2k": ({"layout": "cn"}, "int m, int k", "const int n = m", "float ", "beta", "j <= i",
              "factor * std::conj(A(l, i)) * B(l, j) + std::conj(factor) * std::conj(B(l, i)) * A(l, j)", "A"),
}
"""Of a kind: what its plan is made of, its C function's sizes, the one that it has not, beta, where C is stored, a term of the sum, and what is refused."""
HOST_OF_TWO = """
#include <complex>
#include <cstdlib>
#include "lab_gemm.h"
using Complex = std::complex<float>;
#define A(l, i) std::complex<double>(((const Complex *)a)[(l) * lda + (i)])
#define B(l, j) std::complex<double>(((const Complex *)b)[(l) * ldb + (j)])
size_t lab_gemm_workspace_bytes(SIZES) { return 512; }
int lab_gemm(SIZES, const float *alpha, const float *a, int64_t lda, const float *b, int64_t ldb, BETA beta, float *c, int64_t ldc,
             void *workspace, size_t, void *)
{
    KNOWN;
    const int fault = getenv("FAULT") ? atoi(getenv("FAULT")) : 0;
    if (!a) return lab_gemm_BAD_REFUSED;
    if (!workspace || lda <= m || ldb <= n || ldc <= n) return -99;
    const std::complex<double> factor(alpha[0], alpha[1]);
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            if (!(STORED)) continue;
            std::complex<double> sum = 0;
            for (int l = 0; l < k; ++l) sum += TERM;
            Complex &to = ((Complex *)c)[i * ldc + j];
            Complex old = OLD == Complex(0) ? Complex(0) : OLD * to;
            if (i == j && SAME) old.imag(0), sum.imag(0);
            to = Complex(sum) + old;
        }
    if (fault == 1) c[2 * ((m - 1) * ldc) + 1] += 2e-3f;
    if (fault == 2) c[2 * n + 1] = 0;
    return 0;
}
int lab_gemm_read_status(const void *, void *, lab_gemm_status *status) { *status = lab_gemm_status(); return 0; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_TWO)
def test_the_example_of_two_operands_takes_what_is_right_and_nothing_else(kind, tmp_path):
    """An operand that is read in part, and the second product of an exchange: an element off by little; what lies beside C. No index leaves its vector."""
    [gxx] = need("g++")
    made_of, sizes, known, beta, old, stored, term, refused = OF_TWO[kind]
    exported(folder := tmp_path / "out", kind, **made_of)
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    (folder / "library.cpp").write_text(
        f"#define SIZES {sizes}\n#define KNOWN {known}\n#define BETA {beta}\n#define OLD {old}\n#define STORED {stored}\n#define TERM {term}\n"
        f"#define SAME {int(kind == 'her2k')}\n{HOST_OF_TWO.replace('REFUSED', refused)}")
    small(folder / "example.cpp", 30, *((30, 25) if kind == "her2k" else (20, 20)))
    run(gxx, "-std=c++17", "-D_GLIBCXX_ASSERTIONS", "-I.", "example.cpp", "library.cpp", "-o", "example", cwd=folder)
    example = Example(folder)
    example.assert_right(8 if kind == "her2k" else 6)
    for fault, told in enumerate(("both parts", "nothing was written"), 1):
        assert f"FAILED {told}" in example.assert_fails(fault)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("kind", "layout", "more"), [
    ("herk", "cn", {"uplo": "upper"}), ("hemm", "nn", {}), ("hemm", "cn", {"side": "right", "uplo": "upper"}), ("trmm", "cn", {"diag": "unit"}),
    ("trmm", "tc", {"side": "right"}), ("symm", "nt", {}), ("gemmt", "nc", {}), ("her2k", "cn", {"uplo": "both"}), ("syr2k", "nt", {}),
])
def test_the_example_of_each_kind_compiles_without_a_warning(kind, layout, more, tmp_path):
    [gxx] = need("g++")
    exported(folder := tmp_path / "out", kind, layout, **more)
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    run(gxx, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I.", "example.cpp", cwd=folder)


# ---- the judge

FAULTS = {
    "both": {"a NaN": "inf of the worst case", "a diagonal": "diagonal are not 0", "one side": "is not Hermitian", "beside C": "memory beside C",
             "the diagonal's old imaginary parts": "of the worst case", "A^T": "of the worst case"},
    "upper": {"the other triangle": "are not computed were written", "a NaN": "inf of the worst case"},
}


@pytest.mark.parametrize(("uplo", "fault"), [("both", None), ("upper", None), *((uplo, fault) for uplo, faults in FAULTS.items() for fault in faults)])
def test_the_judges_question_sees_each_fault(uplo, fault, monkeypatch):
    def product(device, plan, source, a, b, c, *, alpha, beta, placement):
        kind, m = plan.kind, a.shape[0]
        assert b is None and isinstance(alpha + beta, int | float) and (c is None or np.isnan(c.diagonal().imag).all())
        a = a.astype(np.complex128)
        held = np.zeros((m, m)) if c is None else c if fault == "the diagonal's old imaginary parts" else kind.read(c)
        made = (alpha * (a @ (a.T if fault == "A^T" else a.conj().T)) if alpha else 0) + beta * held
        if fault != "the diagonal's old imaginary parts":
            np.fill_diagonal(made, made.diagonal().real + (1e-9j if fault == "a diagonal" else 0))
        made = made.astype(np.complex64)
        if kind.mirrored:
            made = np.where(np.tri(m, dtype=bool), made, made.conj().T)
        if fault == "one side":
            made[0, -1] *= 1 + 1e-7
        if fault == "a NaN":
            made[0, 0] = complex(np.nan, 0)
        old = np.full((m, m), complex(np.nan, np.nan), np.complex64) if c is None else c
        out = np.where(kind.computed(m, m), made, old)
        if fault == "the other triangle":
            out[-1, 0] = made[-1, 0]
        return Mock(c=out, intact=fault != "beside C")

    monkeypatch.setattr("gemmgen.verify.complex.gemm", product)
    plan = replace(made("herk", "nc"), kind=OfComplex("c64", "nc", Herk(uplo)))
    right, line = question(plan, None, None)
    assert right == (fault is None) and (FAULTS[uplo].get(fault) or "complex elements, both parts") in line, line
    assert fault or 0 < float(re.search(r"at most (0\.\d\d) of the worst case$", line)[1])


@pytest.mark.parametrize("fault", [None, "one product", "alpha as it is"])
def test_the_judge_asks_for_both_products(fault, monkeypatch):
    def product(device, plan, source, a, b, c, *, alpha, beta, placement):
        assert isinstance(beta, int | float)
        other = alpha if fault == "alpha as it is" else alpha.conjugate()
        first, second = a.astype(np.complex128) @ b, (a.astype(np.complex128) @ b).conj().T
        made = (alpha * first + (0 if fault == "one product" else other * second) if alpha else 0 * np.eye(len(a))) + (beta * plan.kind.read(c) if beta else 0)
        np.fill_diagonal(made, made.diagonal().real)
        old = np.full(made.shape, complex(np.nan, np.nan), np.complex64) if c is None else c
        return Mock(c=np.where(plan.kind.computed(*made.shape), made, old).astype(np.complex64), intact=True)

    monkeypatch.setattr("gemmgen.verify.complex.gemm", product)
    right, line = question(made("her2k", "nc"), None, None)
    assert right == (fault is None) and "of the worst case" in line, line


def test_counters_of_two_rounds_are_expected_of_both():
    """The rows of A and, in the second round, those of B^H are split as A's are, and likewise columns: a small element of each counts in both."""
    plan = made("her2k", "nc")
    a, b = np.ones((3, 4), np.float32), np.ones((4, 2), np.float32)
    a[1, 1] = b[2, 1] = b[3, 0] = np.inf
    status = {f"{x}_{what}": 3 * (what == "nonfinite") for x in "ab" for what in ("lossy", "overflow", "nonfinite")}
    assert Judge(plan, None, None, Mock(kind="emulator")).miscounted(Problem(a, b, None), status) == ""


def test_the_judge_knows_the_hermitian_operand(monkeypatch):
    """What is not to be read is NaN; a product with the triangle alone is wrong."""
    def product(device, plan, source, a, b, c, *, alpha, beta, placement):
        assert alpha == 0 or np.isnan(a.diagonal().imag).all() and not (np.abs(a[np.triu_indices(len(a), 1)].real) <= 1).any()
        x, y = plan.kind.multiplied(a, b)
        if whole is False:
            x = np.tril(x)
        made = (alpha * (x.astype(complex) @ y) if alpha else np.zeros((len(x), y.shape[1]))) + (0 if c is None else beta * c)
        return Mock(c=made.astype(np.complex64), intact=True)

    monkeypatch.setattr("gemmgen.verify.complex.gemm", product)
    plan = made("hemm")
    for whole in (True, False):
        assert question(plan, None, None)[0] == whole
