"""Strided batches: their table, their sizes by hand and in exported C, and what is refused."""

from __future__ import annotations

import json
import pickle
import subprocess
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import abi
from gemmgen import export as exporter
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.run import Placement, check_apart, gemm, strided
from gemmgen.solve import explain, solve
from gemmgen.spec import loads
from gemmgen.verify import strided as judged
from programs import need, run
from schema_check import violations
from test_export import ENDED, HOST_LIBRARY, ran, stand_in

TILES = {"tile": {"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2, "split_k": 1, "group": 2}, "pipeline": {"stages": 3}}


def loaded(kind="strided", **more):
    problem = {"kind": kind, "m": 1024, "n": 1024, "k": 256, "matrices": 256}
    return loads({"target": {"gpu": "h100"}, "split": {"scheme": "ootomo"}, **more, "problem": problem | more.get("problem", {})})


def plan_of(kind="strided", **more):
    return solve(loaded(kind, **{**TILES, **more}))


@pytest.mark.parametrize("fault", ["none", "all have the first one's vector"])
def test_the_judge_gives_each_product_of_a_batch_its_own_vector(monkeypatch, fault):
    plan = plan_of(epilogue={"do": ["bias"]})

    def computed(device, plan, source, a, b, *, ends, c=None, alpha=1.0, beta=0.0, strides=None, placement=None):
        assert ends["bias"].shape == (len(a), b.shape[2])
        b, bias = np.broadcast_to(b[:1], b.shape) if strides else b, np.broadcast_to(ends["bias"][:1], ends["bias"].shape) if fault != "none" else ends["bias"]
        found = alpha * (a.astype(np.float64) @ b) + (0 if c is None else beta * c.astype(np.float64)) + bias[:, None]
        return SimpleNamespace(c=found.astype(np.float32), intact=True)

    monkeypatch.setattr(judged, "strided", computed)
    told, wrong = judged.questions(plan, None, SimpleNamespace(kind="a GPU"))
    assert bool(wrong) == (fault != "none") and "7 of up to 4 products" in told, wrong


# ---- the table


def test_grids_and_buffers_by_hand():
    """Five products of [130, 200, 70]: A in panels of 128 rows, B of 128 columns, two stages of k; clusters of two tiles below one another."""
    table = abi.interface(plan_of())
    extents = table.extents(130, 200, 70, 5)
    assert table.batched and (extents["m_padded"], extents["n_padded"], extents["k_padded"], extents["batch"]) == (256, 256, 128, 5)
    split, main = table.launches
    # a block of the split pass takes 128 rows or columns of 64 k; one of the GPU's 132 blocks takes tile after tile
    assert split.blocks(extents) == 5 * (2 * 2) * 2 and split.blocks_same_b(extents) == 5 * (2 * 2)
    assert main.blocks(extents) == 5 * (1 * 2) * 2 and main.blocks(table.extents(1024, 1024, 256, 256)) == 132
    lengths = table.workspace(130, 200, 70, 5).lengths
    assert (lengths["a_words"], lengths["b_words"], lengths["status"]) == (5 * 256 * 128 * 4, 5 * 256 * 128 * 4, 7 * 8)
    assert all(one.blocks(table.extents(130, 200, 70, 0)) == 0 for one in table.launches)


def test_one_product_has_nothing_of_it():
    table = abi.interface(plan_of("gemm"))
    assert not table.batched and "batch" not in table.extents(1, 1, 1) and table.launches[0].params[-1] == "b_status"
    assert plan_of("gemm").hash != plan_of().hash and not plan_of("gemm").launches.repeated


def test_slices_and_scales_grow_with_the_batch():
    plan = plan_of(problem={"m": 64, "n": 64, "matrices": 2}, split={"scheme": "scaled"}, tile={"block": [64, 64, 32], "warp": [64, 64, 32], "split_k": 2})
    one, three = (dict(abi.interface(plan).workspace(64, 64, 64, batch).lengths) for batch in (1, 3))
    assert {name for name in one if three[name] == 3 * one[name] > 0} == {"a_absmax", "b_absmax", "arrived", "a_words", "b_words", "parts"}


def test_how_many_products_there_are_is_a_hint():
    few, many = (plan_of(problem={"matrices": count}) for count in (2, 256))
    assert few.hash == many.hash and few.model["seconds"] < many.model["seconds"]


def test_the_search_takes_packed_words_and_fills_the_gpu_with_tiles_of_all_products():
    plan = explain(loaded()).plan
    assert plan.where == "prepass" and plan.split_k == 1 and plan.block == (128, 128, 64)
    assert plan.model["tiles"] == 256 * 64 and plan_of(split={"scheme": "ootomo", "where": "mixed"}, tile={}, pipeline={}).where == "mixed"


# ---- the text


def test_each_product_has_operands_of_its_own():
    text = render(plan_of()).text
    for x in "abc":
        assert f"batch_{x} + work.entry * stride_{x};" in text
    assert "a_words + entry * " in text and "turns = (blocks_m + CLUSTER - 1) / CLUSTER * blocks_n * batch;" in text
    fast = render(plan_of(split={"scheme": "ootomo", "special": "fast"})).text
    assert "stride_a" not in fast.partition("GG_DEVICE Work work_at")[2] and "batch_c + work.entry * stride_c" in fast


# ---- what is refused


@pytest.mark.parametrize(("stride", "batch", "fine"), [
    (33, 2, True), (32, 2, False), (-33, 2, True), (-32, 2, False), (0, 1, True), (0, 2, False), (0, 0, True), (1 << 40, 9, True),
])
def test_matrices_of_c_lie_apart(stride, batch, fine):
    """[4, 3] with rows 10 apart: 33 elements."""
    if fine:
        check_apart(4, 3, 10, stride, batch)
    else:
        with pytest.raises(SpecError, match="overlap"):
            check_apart(4, 3, 10, stride, batch)
    check_apart(0, 3, 10, 0, 2)


def test_a_runner_refuses_what_overlaps_and_what_is_no_batch():
    plan = plan_of()
    source = render(plan)
    a, b = np.zeros((2, 4, 5), np.float32), np.zeros((2, 5, 6), np.float32)
    with pytest.raises(SpecError, match="overlap"):
        strided(None, plan, source, a, b, placement=Placement(apart=(0, 0, -1)))
    with pytest.raises(SpecError, match="not a batch of matrices"):
        strided(None, plan, source, a[0], b[0])
    with pytest.raises(SpecError, match="shapes do not fit"):
        strided(None, plan, source, a, b[:1])
    with pytest.raises(SpecError, match="not a matrix"):
        gemm(None, plan, source, a, b)
    single = plan_of("gemm")
    with pytest.raises(SpecError, match="for no batch of one size"):
        strided(None, single, render(single), a, b)


def test_a_policy_without_such_kernels_is_refused():
    with pytest.raises(InfeasibleSpec, match="no kernels for such problems"):
        solve(loaded(fragment={"policy": "fma"}, target={"gpu": "a100"}))


def test_where_copies_are_the_threads_own_batches_have_a_design_beside_the_grouped_one():
    """For who asks for it, and for schemes that scale rows: of these a pass over the operands comes first."""
    assert solve(loaded(target={"gpu": "a100"})).design.name == "grouped"
    asked, scaled = solve(loaded(target={"gpu": "a100"}, pipeline={"design": "strided"})), solve(loaded(target={"gpu": "a100"}, split={"scheme": "scaled"}))
    for plan in (asked, scaled):
        assert plan.design.name == "strided" and plan.launches.repeated and plan.model["tiles"] == 256 * -(-1024 // plan.block[0]) * -(-1024 // plan.block[1])
    table = abi.interface(scaled)
    assert [launch.role for launch in table.launches] == ["absmax", "split", "gemm"] and table.batched
    one, many = (table.launches[-1].blocks(table.extents(1000, 500, 64, batch)) for batch in (1, 7))
    assert many == 7 * one


def test_traffic_grows_with_the_batch():
    """Of one product it is what the portable design's is."""
    def model(kind: str, matrices: int, design: str):
        problem = {"kind": kind, "m": 1024, "n": 1024, "k": 512, **({"matrices": matrices} if kind == "strided" else {})}
        return solve(loads({"problem": problem, "split": {"scheme": "ootomo", "promote": 64, "where": "prepass"}, "target": {"gpu": "a100"},
                            "tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "split_k": 1, "group": 2},
                            "pipeline": {"stages": 3, "design": design, "fragment_buffers": 1}})).model

    single, one, many = model("gemm", 1, "portable"), model("strided", 1, "strided"), model("strided", 64, "strided")
    assert one["seconds"] == single["seconds"] and one["dram_bytes"] == single["dram_bytes"]
    assert all(many[name] == 64 * single[name] for name in ("plane_bytes", "split_bytes")) and many["dram_bytes"] >= 64 * 4 * 1024 * 1024 + many["plane_bytes"]
    assert 30 * single["seconds"] < many["seconds"] < 64 * single["seconds"]


# ---- exported


def exported(tmp_path, **more):
    plan = plan_of(**more)
    source = render(plan)
    exporter.export(plan, source, stand_in(plan, source, plan.arch), tmp_path / "out", name="lab_gemm")
    return plan, source, tmp_path / "out"


def test_the_manifest_keeps_to_its_schema_and_tells_strides(tmp_path):
    _, _, folder = exported(tmp_path)
    told = json.loads((folder / "manifest.json").read_text())
    schema = json.loads((SPECS / "manifest.schema.json").read_text())
    assert violations(told, schema, schema) == []
    assert told["plan"]["kind"] == "strided" and told["operands"]["b"]["stride"] == "stride_b"
    assert {"extent": "batch", "tile": 1} in told["launches"][-1]["grid"][0]


PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    int m, n, k, batch;
    static float x[4];
    static char memory[1 << 20];
    void *w = memory + (256 - (uintptr_t)memory % 256) % 256;
    lab_gemm_gg_layout at;
    while (scanf("%d %d %d %d", &m, &n, &k, &batch) == 4) {
        const int code = lab_gemm_gg_lay_out(m, n, k, batch, &at);
        if ((code == 0) != (lab_gemm_workspace_bytes(m, n, k, batch) > 0)) return 1;
        printf("%d", code);
        if (code == 0) printf(" %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64, at.b_words, at.bytes, at.blocks[0], at.blocks[1]);
        printf("\\n");
    }
#define E(code, ...) if (lab_gemm_gg_check(__VA_ARGS__, &at) != (code)) { printf("line %d\\n", __LINE__); return 2; }
    E(0, 4, 3, 5, 1, x, 5, x, 3, x, 10, 33, 2, w, 1 << 19)
    E(0, 4, 3, 5, 1, x, 5, x, 3, x, 10, -33, 2, w, 1 << 19)
    E(lab_gemm_BAD_STRIDE_C, 4, 3, 5, 1, x, 5, x, 3, x, 10, 32, 2, w, 1 << 19)
    E(-14, 4, 3, 5, 1, x, 5, x, 3, x, 10, -32, 2, w, 1 << 19)
    E(-14, 4, 3, 5, 1, x, 5, x, 3, x, INT64_MAX, INT64_MAX, 2, w, 1 << 19)
    E(0, 1, 3, 5, 1, x, 5, x, 3, x, INT64_MAX, INT64_MIN, 2, w, 1 << 19)
    E(0, 4, 3, 5, 1, x, 5, x, 3, x, 10, 0, 1, w, 1 << 19)
    E(-15, 4, 3, 5, 1, x, 5, x, 3, x, 10, 33, -1, w, 1 << 19)
    E(0, 4, 3, 5, 1, NULL, 5, NULL, 3, NULL, 10, 33, 0, w, 1 << 19)
    E(-12, 4, 3, 5, 1, x, 5, x, 3, NULL, 10, 33, 2, w, 1 << 19)
    E(-17, 4, 3, 5, 1, x, 5, x, 3, x, 10, 33, 2, w, 8)
    return 0;
}
"""


def test_the_c_sizes_are_the_plans_and_what_overlaps_is_refused(tmp_path):
    [gcc] = need("gcc")
    plan, source, folder = exported(tmp_path)
    (folder / "sizes.c").write_text(PROGRAM)
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover",
        "sizes.c", "-o", "sizes", cwd=folder)
    large = 2**31 - 1
    asked = [(m, n, k, batch) for m in (0, 1, 130, 1024) for n in (0, 200) for k in (0, 70) for batch in (0, 1, 5, 256)]
    refused = [(128, 128, 64, large), (exporter.prose.LARGEST_EXTENT,) * 3 + (large,), (1 << 20, 1 << 20, 1, 1 << 20), (1, 1, 1, -1)]
    text = "".join(" ".join(map(str, one)) + "\n" for one in asked + refused)
    done = subprocess.run([folder / "sizes"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    table = source.interface
    for one, row in zip(asked, rows):
        work, extents = table.workspace(*one), table.extents(*one)
        assert row == [0, work.offsets["b_words"], work.bytes, *(launch.blocks(extents) for launch in table.launches)], one
    assert [row[0] for row in rows[len(asked):]] == [-100, -100, -100, -15]


def test_a_vector_of_the_epilogue_is_needed_where_c_has_elements(tmp_path):
    [gcc] = need("gcc")
    *_, folder = exported(tmp_path, epilogue={"do": ["bias"]})
    (folder / "sizes.c").write_text("""
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    static float x[4];
    static char memory[1 << 20];
    void *w = memory + (256 - (uintptr_t)memory % 256) % 256;
    lab_gemm_gg_layout at;
    for (int i = 0; i < 8; ++i) printf("%d ", -lab_gemm_gg_check(4 * (i > 0), 3 * (i != 1), 5, 1, x, 5, x, 3, x, 10, 33, 2 * (i != 2), i % 4 == 3 ? x : NULL, w, 1 << 19, &at));
    printf("%d", -lab_gemm_BAD_BIAS);
    return 0;
}
""")
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "sizes.c", "-o", "sizes", cwd=folder)
    *told, bias = map(int, run(folder / "sizes").split())
    assert told == [0, 0, 0, 0, bias, bias, bias, 0] and bias == 16


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_the_header_is_c_and_cxx_and_tells_the_strides(tmp_path, layout):
    [gcc] = need("gcc")
    _, _, folder = exported(tmp_path, problem={"layout": layout})
    for language in ("c", "c++"):
        run(gcc, "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "lab_gemm.h", cwd=folder)
    assert "stride_c         the same of C" in (folder / "lab_gemm.h").read_text()
    assert "(int64_t)m * n, batch,\n" in (folder / "README.md").read_text()


# ---- batches of kinds


OF_KINDS = {
    "syrk": {"layout": "nt", "n": 1024}, "gemmt": {"uplo": "upper"}, "syr2k": {"layout": "nt"}, "trmm": {"k": 1024}, "symm": {"side": "right", "k": 1024},
}


@pytest.mark.parametrize("kind", OF_KINDS)
def test_a_kind_whose_matrices_are_counted_is_a_strided_batch(kind):
    """Of its own hash, with the tiles of each product; of one matrix, or where nothing is said of matrices, it is one product."""
    plan, one = solve(loaded(kind, problem=OF_KINDS[kind])), solve(loaded(kind, problem=OF_KINDS[kind] | {"matrices": 1}))
    assert plan.launches.repeated and plan.kind != one.kind and not one.launches.repeated and plan.hash != one.hash
    assert pickle.loads(pickle.dumps(plan.kind)) == plan.kind and hash(plan.kind) == hash(pickle.loads(pickle.dumps(plan.kind)))
    table, alone = abi.interface(plan), abi.interface(one)
    extents = table.extents(300, 300, 300, 7)
    if plan.kind.tiles:
        assert extents["tiles"] == plan.kind.tiles.number(300, 300, (plan.block[0] * plan.cluster, plan.block[1]))
    blocks = [launch.blocks(table.extents(300, 300, 300, 1)) for launch in table.launches]
    assert [replace(launch, most_blocks=None).blocks(extents) for launch in table.launches] == [
        7 * replace(launch, most_blocks=None).blocks(table.extents(300, 300, 300, 1)) for launch in table.launches] and all(blocks)
    assert {"stride_a", "stride_c", "batch"} <= {given.argument for launch in table.launches for given in launch.parameters}
    assert not alone.batched and any(given.argument == "stride_b" for launch in table.launches for given in launch.parameters) == (kind != "syrk")


def test_what_a_batch_of_a_kind_is_not():
    with pytest.raises(InfeasibleSpec):
        solve(loaded("syrk", split={"scheme": "fp32"}, problem=OF_KINDS["syrk"]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("syrk", marks=pytest.mark.long), "symm"])
def test_the_example_of_a_batch_of_a_kind_takes_what_is_right(kind, tmp_path):
    """The host's library computes one product after another from where its matrices begin."""
    plan = solve(loaded(kind, problem=OF_KINDS[kind], target={"gpu": "a100"}))
    source = render(plan)
    exporter.export(plan, source, stand_in(plan, source, plan.arch), folder := tmp_path / "out", name="lab_gemm")
    manifest = json.loads((folder / "manifest.json").read_text())
    schema = json.loads((SPECS / "manifest.schema.json").read_text())
    assert violations(manifest, schema, schema) == [] and manifest["plan"]["kind"] == kind
    known = {"syrk": ("int m, int k", "const int n = m", "A(i, l)", "A(i, l) * A(j, l)", "j <= i"),
             "symm": ("int m, int n", "const int k = n", "A(i, l)", "A(i, l) * (l >= j ? B(l, j) : B(j, l))", "1")}[kind]
    defines = "".join(f"#define {name} {value}\n" for name, value in zip(("SIZES", "KNOWN", "LEFT", "TERM", "STORED"), known))
    library = HOST_LIBRARY.replace("workspace_bytes(SIZES)", "workspace_bytes(SIZES, int batch)").replace("(m && n && k)", "(m && n && k && batch)")
    library = library.replace("int64_t lda,", "int64_t lda, int64_t stride_a,").replace("int64_t ldb,", "int64_t ldb, int64_t stride_b,")
    library = library.replace("int64_t ldc ENDS", "int64_t ldc, int64_t stride_c, int batch")
    library = library.replace("    if (!workspace ||", "    if (stride_c < m * ldc) return lab_gemm_BAD_STRIDE_C;\n    if (!workspace ||")
    loop = "    for (; batch > 0; --batch, a += stride_a, b += stride_b, c += stride_c) {\n"
    library = library.replace("    counted = lab_gemm_status();\n", f"    counted = lab_gemm_status();\n{loop}")
    library = library.replace("    switch (getenv", "    }\n    c -= 3 * stride_c;\n    switch (getenv")
    if kind == "syrk":
        for gone in ("const float *b, int64_t ldb, int64_t stride_b, ", "    if (ldb <= (TB ? k : n)) return lab_gemm_BAD_LDB;\n", ", b += stride_b"):
            library = library.replace(gone, "")
    (folder / "library.cpp").write_text(f"#include <math.h>\n{defines}{ENDED[()]}{library}")
    example = ran(folder, f"-DTA={int(plan.layout[0] == 't')}", f"-DTB={int(plan.layout[1] == 't')}")
    right = example()
    assert (right.returncode, right.stdout.count("FAILED")) == (0, 0) and right.stdout.count("within its bound") == 6, right.stdout + right.stderr
    for fault in range(1, 6):
        assert example(FAULT=str(fault)).returncode == 1, fault
