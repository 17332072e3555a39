"""The model's first choice of residues builds: neither its main kernel nor its passes spill."""

from __future__ import annotations

import pytest

from gemmgen import road
from gemmgen.build import build
from gemmgen.render import render
from gemmgen.solve import solve

SCHEMES = {"f32": "residues8", "c64": "residues8", "f64": "residues14", "c128": "residues14"}
BATCHES = ("strided", "pointers", "grouped")
SHORT = {("rtx5090", "c128", "strided", "nn", 4096)}
FIRST = [  # what spilled: the norms of complex FP64, passes along k, and main kernels
    *SHORT, ("a100", "c128", "gemm", "nn", 256), ("l40s", "c64", "gemm", "nt", 256), ("h200", "c64", "gemm", "nt", 1024), ("rtx5090", "c64", "gemm", "tt", 1024), ("b200", "c128", "strided", "nn", 1024),
    ("a100", "c64", "gemm", "nn", 4096), ("rtx3090", "c64", "strided", "nn", 256), ("rtx3090", "c128", "strided", "nn", 256),
    ("l40s", "c128", "strided", "nn", 256), ("t4", "c128", "syrk", "nt", 256), ("rtx5090", "c128", "gemm", "nn", 4096), ("t4", "c128", "gemm", "nn", 1024),
    ("h200", "c128", "trmm", "nn", 4096), ("h200", "c128", "trsm", "nn", 4096), ("h200", "c128", "strided", "nn", 256), ("h200", "c128", "strided", "nn", 2048),
    ("h200", "c128", "pointers", "nn", 512), ("h200", "c64", "strided", "nt", 1024), ("h200", "c64", "pointers", "nt", 1024), ("h200", "f64", "pointers", "nn", 4096),
    ("b200", "c128", "gemm", "nn", 1024), ("b200", "f64", "strided", "nn", 4096), ("b200", "f64", "pointers", "nn", 1024), ("b200", "c128", "hemm", "nn", 1024),
    ("b200", "f64", "grouped", "nn", 4096), ("h200", "f64", "grouped", "nn", 4096), ("gb300", "c128", "strided", "nn", 1024), ("gb300", "c128", "trmm", "nn", 1024),
    ("a100", "f32", "syrk", "nt", 4096), ("rtx3090", "f32", "syrk", "nt", 4096), ("t4", "c128", "gemm", "nn", 4096), ("rtx5090", "c128", "strided", "nn", 1024),
    ("rtx5090", "f64", "strided", "nn", 4096), ("rtx5090", "f64", "gemm", "nt", 1024), ("rtx5090", "f64", "strided", "nn", 256),
    ("rtx3090", "c64", "gemm", "nn", 512), ("h200", "f32", "gemm", "nt", 512), ("h200", "f32", "gemm", "nt", 256),
    ("mi300x", "f64", "gemm", "nn", 4096), ("mi300x", "c128", "gemm", "nn", 4096), ("mi210", "f64", "gemm", "nn", 4096),
]


@pytest.mark.parametrize(("gpu", "type_", "kind", "layout", "size"), [
    pytest.param(*one, marks=() if one in SHORT else pytest.mark.long, id="-".join(map(str, one))) for one in FIRST
])
def test_the_first_choice_of_residues_builds(gpu, type_, kind, layout, size):
    problem = {"kind": kind, "type": type_, "layout": layout, **dict.fromkeys("mnk", size), **({"matrices": 4} if kind in BATCHES else {})}
    plan = solve(road.load({"problem": problem, "split": {"scheme": SCHEMES[type_]}, "target": {"gpu": gpu}}))
    source = render(plan)
    assert not source.allow_spills
    used = build(source).kernels[source.name].registers
    assert 0.8 * used <= plan.numbers["registers"] <= 1.25 * used


@pytest.mark.parametrize(("gpu", "type_", "kind", "size", "told"), [
    ("h200", "c128", "pointers", 512, "uint4 four[MODULI];  // residues of 4 pieces"), ("h200", "c128", "trsm", 4096, "constexpr int EARLY = 2;"),
    ("b200", "f64", "strided", 4096, "uint4 four[MODULI];  // residues of 4 pieces"), ("b200", "f64", "strided", 4096, "four[modulus].x = four[modulus].y, "),
    ("b200", "f64", "strided", 4096, "fetch(piece + 4);"),
    ("a100", "f32", "gemm", 4096, "__syncwarp();  // for the compiler: no loads from farther down"),
    ("mi300x", "f64", "gemm", 4096, 'asm("" : "+s"(by.m), "+s"(by.reciprocal), "+s"(by.offset));'),
], ids=["batches of complex elements", "beside 192 sums", "tensor memory", "one piece after the other", "four pieces after four", "sums of segments",
        "a pair each"])
def test_residues_are_joined_by_as_few_as_registers_hold(gpu, type_, kind, size, told):
    """Four elements at a time, beside 192 sums of complex elements two moduli ahead, and one sum of a segment before the next is read."""
    problem = {"kind": kind, "type": type_, "layout": "nn", **dict.fromkeys("mnk", size), **({"matrices": 4} if kind in BATCHES else {})}
    plan = solve(road.load({"problem": problem, "split": {"scheme": SCHEMES[type_]}, "target": {"gpu": gpu}}))
    assert told in render(plan).text


@pytest.mark.parametrize(("size", "least"), [(512, 2), (1024, 3)])
def test_a_pass_along_k_that_a_thread_reads_at_once_has_registers(size, least):
    """With three blocks an SM ptxas spilled 8 B."""
    plan = solve(road.load({"problem": {"layout": "nt", **dict.fromkeys("mnk", size)}, "split": {"scheme": "residues8"}, "target": {"gpu": "h200"}}))
    assert f"__launch_bounds__(256, {least})" in render(plan).text


def test_complex_elements_are_stored_with_more_registers_than_28_warps_leave():
    """72 a thread, where ptxas spilled 8 B."""
    problem = {"type": "c64", **dict.fromkeys("mnk", 512)}
    plan = solve(road.load({"problem": problem, "split": {"scheme": "residues8"}, "target": {"gpu": "rtx3090"}}))
    assert plan.numbers["register_budget"] > 72
