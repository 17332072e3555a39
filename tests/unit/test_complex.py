"""Complex numbers: the real matrices that stand for complex ones, by hand; what kernels are told of them; and who is refused."""

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
from test_export import HOST_RUNTIME, prepared
from ways import TINY, plan_of

from gemmgen import export as exporter
from gemmgen.abi import interface
from gemmgen.catalog.element import C64, C128, ELEMENTS, F32, F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.cli.inputs import matrix
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.export.prose import LARGEST_EXTENT, SAFETY, coefficients, rounded_up
from gemmgen.kinds import GEMM, ComplexProduct, kind_of
from gemmgen.kinds.kind import COMPLEX_LAYOUTS, LAYOUTS
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import Placement, check_extents, gemm
from gemmgen.solve import explain, solve
from gemmgen.solve.applicable import Case
from gemmgen.solve.why import smaller
from gemmgen.spec import loads
from gemmgen.verdict import OWN, VENDORS_CGEMM, plain_plan, plain_seconds, sgemm_seconds, verdict
from gemmgen.verify import Judge, default_size
from gemmgen.verify.oracles import Problem
from gemmgen.verify.complex import parts, question, share_of_worst


def drawn(rng, *shape, element=C64):
    return element.rounded(rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape))


def spec(gpu="a100", scheme="ootomo", **sections):
    problem = {"type": "c64"} | sections.pop("problem", {})
    return loads({"problem": problem, "split": {"scheme": scheme}, "target": {"gpu": gpu}} | sections)


# ---- elements


def test_complex_elements_by_hand():
    assert (C64.reals, C64.part, C64.bytes, C64.letter, C64.c_type) == (2, F32, 8, "c", "float")
    assert (C128.reals, C128.part, C128.bytes, C128.letter, C128.c_type) == (2, F64, 16, "z", "double")
    assert (F32.reals, F32.part, F32.letter, F64.letter) == (1, F32, "s", "d") and list(ELEMENTS) == ["f32", "f64", "c64", "c128"]
    a, b = np.array([[1 + 2j, 3 - 1j]], np.complex64), np.array([[5 - 1j], [2 + 4j]], np.complex64)
    assert C64.exact(a, b)[0, 0] == (1 + 2j) * (5 - 1j) + (3 - 1j) * (2 + 4j) and C64.exact(a, b).dtype == np.complex128


def test_parts_of_complex_fp64_are_exact():
    a, b = np.array([[1 + 2.0**-52 + 1j, 1j]]), np.array([[1 + 2.0**-52 + 0j], [1 + 2.0**-51 + 1j]])
    found = C128.exact(a, b)[0, 0]  # 1 + 2^-51 + 2^-104 - 1, and 1 + 2^-52 + 1 + 2^-51
    assert found.real == np.longdouble(2.0**-51) + np.longdouble(2.0**-104) and found.imag == np.longdouble(2.0) + 3 * np.longdouble(2.0**-52)


def test_an_infinite_part_does_not_reach_the_other():
    a, b = np.array([[complex(np.inf, 0)]], np.complex64), np.array([[1 + 0j]], np.complex64)
    with np.errstate(invalid="ignore"):
        found = C64.exact(a, b)[0, 0]
    assert found.real == np.inf and np.isnan(found.imag)  # Inf times 0, as real arithmetic has it


# ---- real matrices that stand for complex ones


@pytest.mark.parametrize("layout", COMPLEX_LAYOUTS)
def test_kernels_read_the_real_matrices_from_what_memory_holds(layout):
    """The C text of each element, evaluated here, of memory whose rows are longer than the matrix."""
    rng, kind = np.random.default_rng(1), ComplexProduct("c64", layout)
    m, n, k = 3, 4, 5
    a, b = drawn(rng, m, k), drawn(rng, k, n)
    real = dict(zip("ab", kind.completed(a, b)))
    assert np.allclose((real["a"] @ real["b"]).astype(np.float32).view(np.complex64), a @ b, atol=1e-5)
    for operand, x, letter, contiguous in (("a", a, layout[0], layout[0] == "n"), ("b", b, layout[1], layout[1] != "n")):
        rows = x if letter == "n" else x.T if letter == "t" else x.conj().T
        memory = np.full((rows.shape[0], 2 * rows.shape[1] + 6), np.nan, np.float32)
        memory[:, : 2 * rows.shape[1]] = kind.in_memory(x, letter)
        assert (memory[:, 0:2 * rows.shape[1]:2] == rows.real).all() and (memory[:, 1:2 * rows.shape[1]:2] == rows.imag).all()

        def at(o, kk):
            return memory[o, kk] if contiguous else memory[kk, o]

        condition, first, second = re.fullmatch(r"(?:(.*) \? (.*) : )?(.*)", kind.given.get(operand, "at(o, kk)")).groups()
        want = real[operand] if operand == "a" else real[operand].T
        for o, kk in np.ndindex(want.shape):
            names = {"at": at, "o": o, "kk": kk}
            taken = first if condition and eval(condition, names) else second
            assert eval(taken, names) == want[o, kk], (operand, o, kk)


def test_an_a_that_is_not_transposed_is_read_as_it_lies():
    assert set(ComplexProduct("c64", "nc").given) == {"b"} and set(ComplexProduct("c64", "tn").given) == {"a", "b"}


@pytest.mark.parametrize("k", [4, 7])
def test_any_real_product_is_a_part_of_a_complex_one(k):
    """Real parts of even columns, and imaginary parts of odd ones."""
    rng, kind = np.random.default_rng(2), ComplexProduct()
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((3, k), (k, 5), (3, 5)))
    given = kind.embedded(a, b, c)
    assert given.a.shape == (3, (k + 1) // 2) and given.b.shape == ((k + 1) // 2, 5) and given.c.dtype == np.complex64
    product = given.a.astype(complex) @ given.b.astype(complex)
    assert np.allclose(kind.part(product.astype(np.complex64), 3, 5), a.astype(float) @ b, atol=1e-6)
    assert (kind.part(given.c, 3, 5) == c).all() and np.isnan(kind.in_memory(given.c, "n")).sum() == c.size  # all other parts
    whole = kind.completed(given.a, given.b)
    assert np.allclose(kind.part(whole[0] @ whole[1], 3, 5), a @ b, atol=1e-5)


def test_the_kind_of_a_spec_with_complex_elements():
    kind = kind_of(spec(problem={"layout": "nc"}).spec.problem)
    assert (kind.name, kind.options) == ("cgemm", {"type": "c64", "layout": "nc"}) and kind != ComplexProduct("c64", "nt") and kind != GEMM
    assert kind == pickle.loads(pickle.dumps(kind)) and kind.formula.endswith("B conjugated in memory,")
    assert kind_of(spec(problem={"type": "c128"}).spec.problem).name == "zgemm" and kind.extents(3, 5, 7) == (3, 10, 14)
    assert kind.stored_layout("cc") == "tt" and kind_of(loads({"target": {"gpu": "a100"}}).spec.problem) == GEMM


# ---- plans


def test_a_plan_is_of_the_real_product_and_tells_of_the_complex_one():
    plan = plan_of(type="c64", layout="cn", size=300)
    assert (plan.type, plan.kind.element_of(plan.type), plan.layout, plan.kind.layout_of(plan.layout)) == (F32, C64, "tn", "cn")
    assert (plan.hints.m, plan.hints.n, plan.hints.k, plan.hints.asked) == (300, 600, 600, (300, 300, 300)) and plan.hints.told == "300 x 300 x 300"
    assert plan.as_dict()["hints"] == {"m": 300, "n": 300, "k": 300} and plan.identity["layout"] == "cn" and plan.identity["kind"] == "cgemm"
    others = {plan_of(type="c64", layout=layout).hash for layout in COMPLEX_LAYOUTS} | {plan_of().hash}
    assert len(others) == 1 + len(COMPLEX_LAYOUTS)
    assert plan_of().hints.asked == (4096, 4096, 4096) and plan_of().kind.layout_of(plan_of().layout) == "nn"


def test_kernels_are_told_both_parts_of_factors_and_count_parts():
    found = interface(plan_of(type="c64"))
    names = [one.name for one in found.launches[-1].parameters]
    assert names[names.index("alpha"):][:4] == ["alpha", "beta", "alpha_i", "beta_i"] and "alpha_i" not in [
        one.name for launch in interface(plan_of()).launches for one in launch.parameters]
    meanings = {field.name: field.meaning for one in found.counters for field in one.fields}
    assert meanings["a_nonfinite"] == "parts of elements of A that are Inf or NaN" and meanings["b_lossy"].startswith("finite parts of elements of B")
    wide = interface(plan_of("residues14", type="c128", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}))
    assert [one.element for one in wide.launches[-1].parameters if one.name in ("alpha_i", "beta_i")] == ["double", "double"]


def test_the_text_of_a_kernel_says_complex_and_its_layout():
    text = render(plan_of(type="c64", layout="nc")).text
    assert "C = alpha A B + beta C, B conjugated in memory, in complex FP32, layout nc (row major), any m, n, k" in text
    assert "GG_DEVICE float given_b(" in text and "given_a" not in text and "put_element" not in text
    assert "alpha == 0.0f && alpha_i == 0.0f ? 0 : stages_k" in text and "alpha_i" not in render(plan_of()).text


def test_a_thread_holds_both_parts_where_its_registers_have_neighbouring_columns():
    pairs, lanes = plan_of(type="c64"), plan_of(type="c64", gpu="mi300x", loads="grouped")
    assert pairs.fragment.c.holds_pairs and not lanes.fragment.c.holds_pairs
    assert "r += 2" in render(pairs).text and "column % 2) continue;" in render(lanes).text


def test_the_verdict_is_beside_native_complex_arithmetic(monkeypatch):
    """Four real products take four times as long natively, too."""
    plan = solve(spec("h200", "run_scaled", problem=dict.fromkeys("mnk", 4096)))
    found = verdict(plan)
    assert (found.m, found.n, found.k, found.element) == (4096, 4096, 4096, "complex FP32") and "x complex FP32 (predicted)" in found.sentence
    vendors = sgemm_seconds(plan.gpu, 4096, 8192, 8192)
    assert plain_seconds(plan) == min((float(plain_plan(plan).model["seconds"]), OWN), (vendors, VENDORS_CGEMM))
    monkeypatch.setattr("gemmgen.verdict.plain_plan", Mock(side_effect=GemmgenError("here", "has none")))
    assert plain_seconds(plan) == (vendors, VENDORS_CGEMM)
    monkeypatch.undo()
    own = plain_plan(solve(spec("h200", "run_scaled", problem={"layout": "cn"})))
    assert own.kind.element_of(own.type) == C64 and own.kind.layout_of(own.layout) == "cn" and own.scheme.name == "fp32"


def test_the_model_counts_eight_operations_a_product():
    known = explain(spec(problem={"m": 1000, "n": 500, "k": 200})).numbers
    assert known["tflops"] == pytest.approx(8 * 1000 * 500 * 200 / known["seconds"] / 1e12)


def test_the_product_that_would_change_a_plan_is_a_quarter_of_the_complex_one():
    [change] = smaller(explain(spec("a100", problem=dict.fromkeys("mnk", 4096))))
    assert change.what == "a product of 1024 x 1024 x 1024"


def test_an_error_is_asked_of_sums_of_twice_as_many_terms():
    """INT32 sums hold 2k real products, and the estimate is that of 2k."""
    largest = plan_of("mixpert4", promote=0, tile={}).scheme.family.largest_k
    with pytest.raises(InfeasibleSpec) as error:
        solve(spec(scheme="mixpert4", problem={"k": largest // 2 + 1}))
    assert f"at most {largest // 2}" in str(error.value) and solve(spec(scheme="mixpert4", problem={"k": largest // 2}))
    asked = loads({"problem": {"type": "c64", "k": 1024}, "accuracy": {"relative_frobenius": 1e-6}, "target": {"gpu": "a100"}})
    assert explain(asked).request.contract.k == 2048


# ---- refusals


@pytest.mark.parametrize(("problem", "more", "key"), [
    ({"kind": "grouped"}, {}, "[problem] kind"),
    ({"kind": "grouped"}, {"split": {"scheme": "residues8"}}, "[problem] kind"), ({"b": "f16"}, {}, "[problem] b"),
    ({"c": "bf16"}, {}, "[problem] c"), ({}, {"epilogue": {"do": ["relu"]}}, "[epilogue] do"), ({"type": "c128"}, {}, "[split] scheme"),
    ({}, {"accuracy": {"as": "fp64"}, "split": {}}, "[accuracy] as"), ({"type": "f32", "layout": "nc"}, {}, "[problem] layout"),
    ({}, {"split": {"scheme": "ootomo", "where": "shared"}}, "[split] where"),
    ({}, {"split": {"scheme": "mixpert4", "fallback": "ootomo"}}, "[split] fallback"),
])
def test_what_is_not_served_is_refused_with_its_reason(problem, more, key):
    with pytest.raises(InfeasibleSpec, match=re.escape(key)):
        solve(spec(problem=problem, **more))


@pytest.mark.parametrize(("kind", "served"), [("grouped", False), ("strided", True), ("syrk", True), ("trsm", True)])
def test_kernels_of_complex_elements_are_of_complex_kinds(kind, served):
    """Whatever refusal says it first."""
    loaded = loads({"problem": {"type": "c64", "kind": kind}, "target": {"gpu": "h200"}}).spec
    assert Case("here", loaded, GPUS.get("h200")).serves_kind is served


def test_schemes_are_those_of_the_parts():
    with pytest.raises(InfeasibleSpec) as error:
        solve(spec(scheme="residues14"))
    assert '[problem] type = "f64"' in str(error.value)
    assert solve(loads({"problem": {"type": "c64"}, "target": {"gpu": "h200"}})).scheme.element == "f32"
    assert solve(loads({"problem": {"type": "c128"}, "target": {"gpu": "h200"}})).scheme.name == "residues14"


def test_designs_without_blocks_of_elements_are_refused():
    for design in ("straight", "thin"):
        with pytest.raises(InfeasibleSpec):
            solve(spec(scheme="auto", pipeline={"design": design}))


def test_arrays_and_factors_are_checked():
    rng = np.random.default_rng(3)
    a, b = drawn(rng, 3, 4), drawn(rng, 4, 2)
    with pytest.raises(SpecError, match="complex64"):
        gemm(None, plan_of(type="c64"), None, a.real.copy(), b)
    with pytest.raises(SpecError, match="complex64"):
        gemm(None, plan_of(type="c64"), None, a, b.astype(np.complex128))
    with pytest.raises(SpecError, match="alpha, beta"):
        gemm(None, plan_of(), None, a.real.copy(), b.real.copy(), alpha=1j)
    wide = np.broadcast_to(np.complex64(0), (1, 2**30))
    with pytest.raises(SpecError, match="too large"):
        check_extents(wide, wide.reshape(2**30, 1), None, element=C64)


def test_a_users_matrices_are_complex(tmp_path):
    x = np.array([[1 + 2j, 3 - 1e-30j]])
    for name, given in (("c128", x), ("c64", x.astype(np.complex64)), ("real", x.real)):
        np.save(tmp_path / f"{name}.npy", given)
        found = matrix("--a", tmp_path / f"{name}.npy", quiet=True, element=C64)
        assert found.dtype == np.complex64 and (found == given.astype(np.complex64)).all()
    np.save(tmp_path / "halves.npy", x.real.astype(np.float16))
    for name, element, remedy in (("c64", F32, "x.real.astype(numpy.float32)"), ("c64", F64, "x.real.astype(numpy.float64)"),
                                  ("halves", C64, "x.astype(numpy.complex64)")):
        with pytest.raises(SpecError, match="holds another type") as error:
            matrix("--a", tmp_path / f"{name}.npy", quiet=True, element=element)
        assert error.value.remedy == remedy and str(element.dtype) in error.value.needs


# ---- exports

HOST_LIBRARY = """
#include <complex>
#include <cstdlib>
#include "lab_gemm.h"
static lab_gemm_status counted;
size_t lab_gemm_workspace_bytes(int, int, int) { return 512; }
int lab_gemm(int m, int n, int k, const float *alpha, const float *a, int64_t lda, const float *b, int64_t ldb, const float *beta, float *c, int64_t ldc,
             void *workspace, size_t, void *)
{
    using Complex = std::complex<float>;
    if (!beta) return lab_gemm_BAD_BETA;
    if (!workspace || lda <= m || ldb <= n || ldc <= n) return -99;
    const Complex *const x = (const Complex *)a, *const y = (const Complex *)b;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            std::complex<double> sum = 0;
            for (int l = 0; l < k; ++l) sum += std::conj(std::complex<double>(x[l * lda + i])) * std::complex<double>(y[l * ldb + j]);
            Complex &to = ((Complex *)c)[i * ldc + j];
            const Complex old = beta[0] == 0 && beta[1] == 0 ? Complex(0) : Complex(beta[0], beta[1]) * to;
            to = Complex(std::complex<double>(alpha[0], alpha[1]) * sum) + old;
        }
    switch (getenv("FAULT") ? atoi(getenv("FAULT")) : 0) {
    case 1: c[2 * ((m - 1) * ldc + n - 1) + 1] += 0.01f; break;
    case 2: c[0] = 0.0f / 0.0f; break;
    case 3: c[2 * n] = 0; break;
    case 4: ++counted.b_nonfinite; break;
    }
    return 0;
}
int lab_gemm_read_status(const void *, void *, lab_gemm_status *status) { *status = counted; return 0; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""


def exported(folder, layout="cn", **more):
    exporter.export(*prepared(problem={"type": "c64", "layout": layout}, **more), folder, name="lab_gemm")
    return folder


def test_an_exports_c_function_takes_pairs_and_computes_the_real_product(tmp_path):
    folder = exported(tmp_path / "out")
    header, source = ((folder / name).read_text() for name in ("lab_gemm.h", "lab_gemm.cu"))
    assert "int m, int n, int k, const float *alpha, const float *a, int64_t lda, const float *b" in header
    assert "BAD_BETA = -9," in header and "BAD_ALPHA = -4," in header
    assert "in complex FP32" in header and "A   stored [k, m]" in header and f"LARGEST_EXTENT {LARGEST_EXTENT // 2}" in header and "_same_b" not in header
    launches = source[source.index("// the product of the words"):]
    for passed in ("(long long)2 * lda,", "(long long)2 * ldc,", "(int)m,", "(int)2 * n,", "(int)2 * k,", "alpha[0],", "beta[0],", "alpha[1],", "beta[1],"):
        assert passed in launches
    assert all(f"2 * {one}," in source for one in ("lda", "ldb", "ldc")) and not re.search(r"\((?:int|long long)\)(?:n|k|ld[abc]),", source)
    assert "if (alpha[0] == 0 && alpha[1] == 0) {" in source
    told = json.loads((folder / "manifest.json").read_text())
    schema = json.loads((SPECS / "manifest.schema.json").read_text())
    assert violations(told, schema, schema) == []
    assert told["reals"]["count"] == 2 and told["plan"]["layout"] == "cn" and told["plan"]["kind"] == "cgemm" and "complex FP32" in told["computes"]
    plan = prepared(problem={"type": "c64", "layout": "cn"})[0]
    for row in told["bound"]["rows"]:
        k, at = 2 * row["k"], coefficients(plan, 2 * row["k"])
        assert row["worst_case"] == rounded_up(at.scaled) and row["one_sign"] == rounded_up(SAFETY * max(at.coherent, at.random / k**0.5))
    assert told["limits"]["largest_extent"] == LARGEST_EXTENT // 2


def test_an_export_of_complex_fp64_takes_pairs_of_doubles(tmp_path):
    tile = {"block": [64, 64, 64], "warp": [32, 32, 64]}
    exporter.export(*prepared(problem={"type": "c128", "layout": "nc"}, split={"scheme": "residues14"}, tile=tile), folder := tmp_path / "out", name="lab_gemm")
    header, example = ((folder / name).read_text() for name in ("lab_gemm.h", "example.cpp"))
    assert "const double *alpha, const double *a, int64_t lda" in header and "const double *beta, double *c, int64_t ldc" in header
    assert "An element is two doubles" in header and "using Complex = std::complex<double>;" in example
    assert "using Exact = std::complex<long double>;" in example
    told, schema = (json.loads(path.read_text()) for path in (folder / "manifest.json", SPECS / "manifest.schema.json"))
    assert violations(told, schema, schema) == [] and "in complex FP64" in told["computes"]


def test_an_exports_k_is_half_of_what_int32_sums_hold(tmp_path):
    made = prepared(problem={"type": "c64"}, split={"scheme": "mixpert4"}, tile={"block": [64, 64, 64], "warp": [32, 32, 64]})
    exporter.export(*made, folder := tmp_path / "out", name="lab_gemm")
    most = made[0].scheme.family.largest_k // 2
    assert re.search(r"#define LAB_GEMM_LARGEST_K (\d+)", (folder / "lab_gemm.h").read_text())[1] == str(most)
    assert json.loads((folder / "manifest.json").read_text())["limits"]["largest_k"] == most


SIZES = """
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    lab_gemm_gg_layout at;
    printf("%zu %zu ", lab_gemm_workspace_bytes(100, 70, 300), lab_gemm_workspace_bytes(1, 1, LAB_GEMM_LARGEST_EXTENT + 1));
    if (lab_gemm_gg_lay_out(100, 70, 300, &at)) return 1;
    for (size_t i = 0; i < sizeof at.blocks / sizeof at.blocks[0]; ++i) printf("%d ", (int)at.blocks[i]);
    static const float real[] = {1, 0}, imaginary[] = {0, 1}, none[] = {0, 0}, *const alphas[] = {real, imaginary, none};
    static float c[2];
    for (int i = 0; i < 3; ++i)
        if (lab_gemm_gg_check(1, 1, 1, alphas[i], NULL, 1, NULL, 1, c, 1, c, 0, &at) != (i < 2 ? lab_gemm_BAD_A : lab_gemm_BAD_WORKSPACE)) return 2;
    return 0;
}
"""


def test_the_c_sizes_are_those_of_the_real_product(tmp_path):
    """And A is read where a part of alpha is not 0."""
    [gcc] = need("gcc")
    folder, (_, source, _) = exported(tmp_path / "out"), prepared(problem={"type": "c64", "layout": "cn"})
    (folder / "sizes.c").write_text(SIZES)
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "sizes.c", "-o", "sizes", cwd=folder)
    told = list(map(int, run(folder / "sizes").split()))
    extents = source.interface.extents(100, 140, 600)
    assert told == [source.interface.workspace(100, 140, 600).bytes, 0, *(launch.blocks(extents) for launch in source.launches)]


@pytest.mark.slow
def test_the_example_takes_what_is_right_and_nothing_else(tmp_path):
    """A part that is off, or no number; what lies beside C; a count too many."""
    [gxx] = need("g++")
    folder = exported(tmp_path / "out")
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    (folder / "library.cpp").write_text(HOST_LIBRARY)
    small(folder / "example.cpp", 30, 20, 25)
    run(gxx, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I.", "example.cpp", "library.cpp", "-o", "example", cwd=folder)

    example = Example(folder)
    example.assert_right(6)
    for fault, told in enumerate(("both parts", "both parts", "nothing was written", "nothing was outside"), 1):
        assert f"FAILED {told}" in example.assert_fails(fault)


# ---- the judge


@pytest.mark.parametrize("fault", [None, "conjugate of A", "conjugate of B", "alpha's imaginary part", "beta's imaginary part", "parts exchanged", "one NaN"])
def test_the_judge_sees_each_part(fault):
    rng, plan = np.random.default_rng(5), plan_of(type="c64")
    a, b, c = drawn(rng, 6, 9), drawn(rng, 9, 5), drawn(rng, 6, 5)
    alpha, beta = 1.5 - 0.5j, 0.25 + 2j
    x = a.conj() if fault == "conjugate of A" else a
    y = b.conj() if fault == "conjugate of B" else b
    made = (alpha.real if fault == "alpha's imaginary part" else alpha) * (x @ y) + (beta.real if fault == "beta's imaginary part" else beta) * c
    made = (1j * made.conj() if fault == "parts exchanged" else made).astype(np.complex64)
    if fault == "one NaN":
        made[5, 4] = complex(made[5, 4].real, np.nan)
    assert (share_of_worst(plan, [(alpha, a, b)], c, made, beta) <= 1) == (fault is None)


@pytest.mark.parametrize(("fault", "told"), [
    (None, "complex elements, both parts"), ("a NaN", "inf of the worst case"), ("beta's imaginary part", "of the worst case"), ("alpha of 0", "alpha 0 beta"),
    ("C with beta 0", "beta 0: inf"), ("no k", "7x3x0"), ("beside C", "memory beside C was overwritten"),
])
def test_the_judges_question_sees_each_fault(fault, told, monkeypatch):
    def product(device, plan, source, a, b, c, *, alpha, beta, placement):
        unread = np.full((a.shape[0], b.shape[1]), np.nan) if fault == "C with beta 0" else 0
        held = unread if c is None else (beta.real if fault == "beta's imaginary part" else beta) * c
        seen = (alpha != 0 or fault == "alpha of 0") and (a.shape[1] > 0 or fault != "no k")
        with np.errstate(invalid="ignore"):
            made = (alpha * (a.astype(complex) @ b) if seen else np.zeros((a.shape[0], b.shape[1]))) + (0 if fault == "no k" and not a.size else held)
        if fault == "a NaN":
            made[-1, -1] = complex(made[-1, -1].real, np.nan)
        return Mock(c=made.astype(np.complex64), intact=fault != "beside C" or a.shape[0] > 3)

    monkeypatch.setattr("gemmgen.verify.complex.gemm", product)
    right, line = question(plan_of(type="c64", tile=TINY), None, None)
    assert right == (fault is None) and told in line


def test_parts_lie_side_by_side_and_each_factor_brings_its_own_error():
    assert parts(np.array([[1 + 2j, 3 + 4j]])).tolist() == [[1, 2, 3, 4]]
    rng, plan = np.random.default_rng(6), plan_of(type="c64")
    a, b = drawn(rng, 4, 40), drawn(rng, 40, 4)
    off = (a.astype(complex) @ b) * (1 + 1e-6)
    shares = [share_of_worst(plan, [(alpha, a, b)], None, (alpha * off).astype(np.complex64)) for alpha in (1, 1j, 1 + 1j)]
    assert shares[0] == pytest.approx(shares[1], rel=0.05) and shares[2] < 1.5 * shares[0]


def test_a_run_lays_complex_matrices_out_in_whole_elements():
    """Leading dimensions and what lies between rows count in complex elements, and the judge's default sizes are of the complex product."""
    plan, told = plan_of(type="c64", layout="nt"), {}

    class Recorder:
        kind = "emulator"

        def upload(self, x, name, misalign=0):
            told[name] = x
            return name

        def __getattr__(self, name):
            return lambda *given, **more: told["c"] if name == "download" and given[0] == "c" else np.zeros(3, np.uint64) if name == "download" else 0

    rng = np.random.default_rng(7)
    a, b, c = drawn(rng, 3, 4), drawn(rng, 4, 2), drawn(rng, 3, 2)
    result = gemm(Recorder(), plan, render(plan), a, b, c, alpha=2j, beta=1, placement=Placement((3, 5, 1)))
    assert told["a"].dtype == np.float32 and told["a"].size == 2 * (2 * 7 + 4) and told["b"].size == 2 * (9 + 4) and told["c"].size == 2 * (2 * 3 + 2)
    assert (told["b"][:8].view(np.complex64) == b[:, 0]).all() and np.isnan(told["a"][8:14]).all()
    assert (result.c == c).all() and result.intact and result.c.dtype == np.complex64
    assert default_size(plan, "emulator")[1:] == tuple(-(-x // 2) for x in default_size(plan_of(layout="nt"), "emulator")[1:])


def test_both_columns_of_an_element_count_once():
    """A part of B that is NaN is in two columns of the real matrix."""
    plan = plan_of(type="c64")
    a, b = np.ones((2, 2), np.float32), np.ones((2, 3), np.float32)
    b[0, 1] = np.nan
    judge = Judge(plan, None, None, None)
    assert judge.miscounted(Problem(a, b), {f"{x}_{kind}": 0 for x in "ab" for kind in ("lossy", "overflow", "nonfinite")} | {"b_nonfinite": 1}) == ""


def test_layouts_of_real_products_are_as_before():
    assert GEMM.layouts == LAYOUTS and GEMM.extents(3, 4, 5) == (3, 4, 5) and GEMM.reals == 1
    x = np.arange(6.0).reshape(2, 3)
    assert (GEMM.in_memory(x, "t") == x.T).all() and GEMM.in_memory(x, "n") is x and GEMM.from_memory(x) is x
    assert replace(plan_of().hints, reals=2).asked == (4096, 2048, 2048)
