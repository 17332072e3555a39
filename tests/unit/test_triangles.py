"""Kinds that compute a triangle of C: which tiles, in which order, from which words, and what is told of them."""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from programs import Example, need, run
from schema_check import violations
from test_export import ENDED, HOST_LIBRARY, HOST_RUNTIME, SCHEMA, SMALL, stand_in
from ways import plan_of

from gemmgen import abi, verify
from gemmgen import export as exporter
from gemmgen.errors import InfeasibleSpec
from gemmgen.export import prose
from gemmgen.kinds import GEMMT, SYRK, kind_of
from gemmgen.kinds.triangles import BOTH, LOWER, UPPER, Gemmt, Syr2k, Syrk
from gemmgen.render import render
from gemmgen.run import Result
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import kinds

SIDES = (LOWER, UPPER, BOTH)
WGMMA = {"target": {"gpu": "h200"}, "tile": {"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 2}, "split": {"scheme": "ootomo", "where": "prepass"}}


def spec(kind: str = "syrk", m: int = 300, layout: str = "nt", uplo: str | None = None, **more):
    problem = {"kind": kind, "layout": layout, "m": m, "n": m, "k": 64} | ({"uplo": uplo} if uplo else {})
    return loads({"problem": problem, "split": {"scheme": "ootomo", "where": "prepass"}, "target": {"gpu": "a100"}, "tile": SMALL, **more})


# ---- tiles

PROGRAM = """
#include <algorithm>
#include <cstdio>
using std::min;
#define GG_DEVICE static
struct Tile { int row, column; };
constexpr int TILE_M = %(tile_m)d, TILE_N = %(tile_n)d, GROUP_ROWS = %(group)d;
%(functions)s
int main()
{
    for (int blocks = 0; blocks < 40; ++blocks) {
        const int tiles_m = (blocks * TILE_N + TILE_M - 1) / TILE_M, tiles_n = blocks;
        const int count = %(count)s;
        std::printf("%%d", count);
        for (int place = 0; place < count; ++place) {
            const Tile tile = tile_at(place, tiles_m, tiles_n);
            std::printf(" %%d,%%d", tile.row, tile.column);
        }
        std::printf("\\n");
    }
    const int tiles_m = 20000, tiles_n = 20000 * (TILE_M / TILE_N);
    const Tile last = tile_at((int)(tiles_above(tiles_m, 0) / (TILE_M / TILE_N)) - 1, tiles_m, tiles_n);
    return last.row < 0 || last.row >= tiles_m || last.column < 0 || last.column >= tiles_n;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("uplo", [LOWER, UPPER])
@pytest.mark.parametrize(("each", "group"), [(1, 1), (1, 4), (2, 1), (2, 3), (4, 8)])
def test_every_tile_of_the_triangle_is_worked_off_once_and_columns_of_a_group_together(uplo, each, group, tmp_path):
    """As the C says it, of 0 to 39 rows of tiles, where a cluster of 1, 2 and 4 blocks has one tile."""
    [gxx] = need("g++")
    tiles = Syrk(uplo).tiles
    (tmp_path / "tiles.cpp").write_text(PROGRAM % {
        "tile_m": 64 * each, "tile_n": 64, "group": group, "functions": tiles.functions, "count": tiles.count,
    })
    run(gxx, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unknown-pragmas", "tiles.cpp", "-o", "tiles", cwd=tmp_path)
    lines = subprocess.run([tmp_path / "tiles"], capture_output=True, text=True, check=True).stdout.splitlines()
    for blocks, line in enumerate(lines):
        count, *places = line.split(" ")
        m = blocks * 64
        found = [tuple(map(int, place.split(","))) for place in places if place]
        touching = {
            (row, column) for row in range(-(-blocks // each)) for column in range(blocks)
            if (column * 64 < (row + 1) * 64 * each if uplo == LOWER else (column + 1) * 64 > row * 64 * each)
        }
        assert len(found) == len(touching) == int(count) == tiles.number(m, m, (64 * each, 64)) and set(found) == touching, (blocks, uplo)
        down = found if uplo == LOWER else [(-(-blocks // each) - 1 - row, blocks - 1 - column) for row, column in found]
        assert [row // group for row, _ in down] == sorted(row // group for row, _ in down)  # one raster group after the other
        if blocks > each * group:  # of the second one, the first column: down all of its rows
            at = down.index((group, 0))
            assert down[at : at + group] == [(row, 0) for row in range(group, min(2 * group, -(-blocks // each)))] + down[at + min(group, -(-blocks // each) - group) : at + group]


@pytest.mark.parametrize("uplo", SIDES)
def test_the_models_number_of_tiles_is_the_launchs(uplo):
    rng = random.Random(1)
    of_clusters = solve(spec(uplo=uplo, **WGMMA))
    for plan in (of_clusters, replace(plan_of(layout="nt"), kind=Syrk(uplo))):
        for m in (1, 64, 65, 128, 129, *(rng.randrange(1, 5000) for _ in range(30))):
            asked = replace(plan, hints=replace(plan.hints, m=m, n=m))
            blocks = abi.interface(asked).launches[-1].grid
            extents = abi.interface(asked).extents(m, m, 64)
            assert asked.model["tiles"] == asked.model["blocks"] == extents["tiles"] * asked.cluster, (m, uplo)
            assert blocks[0][0] == ("tiles", 1)
    whole = replace(of_clusters, kind=plan_of().kind, hints=replace(of_clusters.hints, m=4096, n=4096))
    half = replace(of_clusters, hints=replace(of_clusters.hints, m=4096, n=4096))
    assert 0.5 < half.model["tiles"] / whole.model["tiles"] < 0.53
    assert half.model["unit_seconds"] / whole.model["unit_seconds"] == half.model["tiles"] / whole.model["tiles"]


# ---- one operand

def regions(plan, role: str) -> dict[str, str | None]:
    [launch] = [one for one in abi.interface(plan).launches if one.role == role]
    return {one.name: one.region for one in launch.parameters}


@pytest.mark.parametrize("scheme", ["ootomo", "scaled", "residues8"])
def test_one_operand_is_split_once_and_its_words_serve_twice(scheme):
    more = {"split": {"scheme": scheme, "where": "prepass"}, "tile": {"block": [64, 64, 64]}}
    plan, whole = solve(spec(**more)), solve(spec("gemm", **more))
    table = abi.interface(plan)
    assert plan.launches.shares_words and not [one.name for one in table.buffers if one.name.startswith("b_")]
    used, other = regions(plan, "gemm"), regions(whole, "gemm")
    assert used["b_words"] == "a_words" and other["b_words"] == "b_words"
    assert all(region in (None, "status", "parts", "arrived", "segments") or region.startswith("a_") for region in used.values())
    extents = table.extents(640, 640, 640)
    for launch, both in zip(table.launches[:-1], abi.interface(whole).launches):
        assert 2 * launch.blocks(extents) == both.blocks(extents) and launch.same_b is None
    words = {one.name: one for one in table.buffers}["a_words"].bytes(extents)
    assert table.workspace(640, 640, 640).bytes < abi.interface(whole).workspace(640, 640, 640).bytes - words // 2
    assert plan.model["split_bytes"] == whole.model["split_bytes"] / 2 and plan.model["plane_bytes"] == whole.model["plane_bytes"] / 2


def test_the_words_of_two_operands_follow_one_another():
    """In one buffer, of twice the size, split by one launch of as many blocks as two operands take; and the model has twice the stages."""
    plan, whole = (solve(spec(kind, **WGMMA)) for kind in ("syr2k", "gemmt"))
    table, extents = abi.interface(plan), abi.interface(plan).extents(640, 640, 640)
    [words] = [one for one in table.buffers if one.name.endswith("_words")]
    assert words.bytes(extents) == sum(one.bytes(extents) for one in abi.interface(whole).buffers if one.name.endswith("_words"))
    split = table.launches[0]
    assert split.blocks(extents) == abi.interface(whole).launches[0].blocks(extents) and split.same_b is None
    assert {"a", "b", "a_status", "b_status"} <= set(split.params) and regions(plan, "gemm")["b_words"] == "a_words"
    plan = replace(whole, kind=Syr2k(LOWER))
    assert plan.model["stages_k"] == 2 * whole.model["stages_k"] and plan.model["unit_seconds"] == 2 * whole.model["unit_seconds"]
    assert plan.model["split_bytes"] == whole.model["split_bytes"]


@pytest.mark.parametrize("plan", [
    solve(spec("gemmt")), solve(spec(split={"scheme": "ootomo", "where": "shared"})),
    solve(spec(**WGMMA | {"split": {"scheme": "mixpert2_tile"}})),  # products read three words of B and two of A
], ids=["two operands", "split on the way", "other words"])
def test_others_have_words_of_their_own(plan):
    assert not plan.launches.shares_words
    if plan.where == "prepass":
        assert regions(plan, "gemm")["b_words"] == "b_words" and plan.model["split_bytes"] == replace(plan, kind=plan_of().kind).model["split_bytes"]


# ---- what a spec says

def test_a_triangle_is_a_kind_of_its_own():
    plans = {uplo: solve(spec(uplo=uplo)) for uplo in SIDES}
    assert len({plan.hash for plan in plans.values()}) == 3 and solve(spec()).hash == plans[LOWER].hash
    assert plans[UPPER].as_dict()["uplo"] == UPPER and plans[UPPER].as_dict()["kind"] == "syrk"
    for uplo in SIDES:
        kind = plans[uplo].kind
        assert kind == Syrk(uplo) == pickle.loads(pickle.dumps(kind)) == copy.deepcopy(kind) and hash(kind) == hash(Syrk(uplo))
        assert uplo.replace("both", "upper") in kind.formula
    assert Syrk(UPPER) != SYRK != GEMMT and kind_of(spec("gemmt", uplo="upper").spec.problem) == Gemmt(UPPER)


@pytest.mark.parametrize(("asked", "where", "told"), [
    ({"kind": "gemmt", "uplo": "both"}, r"\[problem\] uplo", "not symmetric"),
    ({"kind": "gemm", "uplo": "lower"}, r"\[problem\] uplo", "no such choice"),
    ({"layout": "nn"}, r"\[problem\] layout", "no such layout"),
    ({"tile": {"block": [64, 32, 32]}}, r"\[tile\] block", r"block = \[64, 64, 32\]"),
    ({"kind": "syr2k", "split": {"scheme": "ootomo", "where": "shared"}}, r"\[split\] where", "where = "),
    ({"kind": "syr2k", "split": {"scheme": "mixpert2"}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h200"}, "tile": {}}, r"\[split\] scheme", "words of A by those of B"),
    ({"kind": "syr2k", "target": {"gpu": "h200"}, "split": {"scheme": "mixpert3_tile"}}, r"\[split\] scheme", "scales of tiles of k"),
    ({"kind": "syr2k", "split": {"scheme": "residues8"}}, r"\[split\] scheme", "no kernels for the residues"),
    (WGMMA | {"split": {"where": "mixed"}, "fragment": {"policy": "wgmma"}}, r"\[fragment\] policy", "where = prepass for kind syrk"),
], ids=["both of gemmt", "a side of gemm", "layout", "not square", "syr2k split on the way", "syr2k of other words", "syr2k of tiles of k", "syr2k of residues", "mixed"])
def test_what_has_no_kernels_is_refused(asked, where, told):
    with pytest.raises(InfeasibleSpec, match=where) as error:
        solve(spec(**asked))
    assert re.search(told, f"{error.value}")


# ---- what the judge asks

@pytest.mark.parametrize("uplo", SIDES)
@pytest.mark.parametrize("kind", [Syrk, Syr2k, Gemmt])
def test_any_product_is_a_part_of_one(kind, uplo):
    one, rng = kind(uplo), np.random.default_rng(3)
    for m, n, k in ((3, 5, 4), (5, 2, 3), (1, 1, 1), (0, 3, 2), (2, 0, 2), (2, 3, 0)):
        a, b, c = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((m, k), (k, n), (m, n)))
        given = one.embedded(a, b, c)
        whole = np.matmul(*one.completed(given.a, given.b))
        assert whole.shape == given.c.shape == (m + n, m + n)
        assert (one.part(whole, m, n) == a @ b).all() and (one.part(given.c, m, n) == c).all()
        assert one.part(one.computed(m + n, m + n), m, n).all()


@pytest.mark.parametrize("fault", ["none", "old upper triangle", "not symmetric"])
def test_a_triangle_that_is_stored_twice_is_read_once(monkeypatch, fault):
    plan = replace(plan_of(layout="nt"), kind=Syrk(BOTH))

    def product(device, plan, source, a, b, before, *, alpha, beta, placement):
        c = plan.type.exact(a, a.T) * alpha + (0 if before is None else beta * (before if fault == "old upper triangle" else plan.kind.read(before)))
        c = np.tril(c) + np.tril(c, -1).T if fault == "none" else c
        c = c.astype(np.float32)
        c[0, 1] += 1e-6 if fault == "not symmetric" else 0
        return Result(c)

    monkeypatch.setattr(kinds, "gemm", product)
    right, told = kinds.question(plan, None, None)
    assert right == (fault == "none"), told
    assert ("not symmetric" in told) == (fault != "none")


def test_words_that_serve_twice_are_counted_once(monkeypatch):
    plan = solve(spec())
    judge = verify.Judge(plan, None, None, None)
    problem = verify.oracles.uniform(plan, -1, 1, (20, 30, 8), 3)
    problem.a[0, 0] = 1e9
    counts = {f"{x}_{what}": 0 for x in "ab" for what in ("lossy", "overflow", "nonfinite")} | {"a_overflow": 1}
    assert judge.miscounted(problem, counts) == "" and "b_overflow 1, not 0" in judge.miscounted(problem, counts | {"b_overflow": 1})


# ---- exported

def exported(folder, kind: str, uplo: str, layout: str = "nt", **more):
    plan = solve(spec(kind, uplo=uplo, layout=layout, **more))
    source = render(plan)
    exporter.export(plan, source, stand_in(plan, source, plan.arch), folder, name="lab_gemm")
    return plan, source


@pytest.mark.parametrize(("kind", "uplo"), [("syrk", LOWER), ("syrk", BOTH), ("gemmt", UPPER)])
def test_the_c_function_takes_what_the_kind_takes(kind, uplo, tmp_path):
    exported(tmp_path / "out", kind, uplo)
    header, manifest = (tmp_path / "out" / "lab_gemm.h").read_text(), json.loads((tmp_path / "out" / "manifest.json").read_text())
    [call] = re.findall(r"int lab_gemm\((.*?)\);", header, re.S)
    given = [one.split()[-1].strip("*") for one in call.split(",")]
    b = [] if kind == "syrk" else ["b", "ldb"]
    assert given == ["m", "k", "alpha", "a", "lda", *b, "beta", "c", "ldc", "workspace", "workspace_bytes", "stream"]
    for argument, position in re.findall(r"BAD_(\w+) = -(\d+)", header):
        assert given[int(position) - 1] == argument.lower()
    assert ("BAD_B " in header) == (kind == "gemmt") and "BAD_N" not in header and ("outside the triangle" in header) == (uplo != BOTH)
    assert violations(manifest, SCHEMA, SCHEMA) == [] and (manifest["plan"]["kind"], manifest["plan"]["uplo"]) == (kind, uplo)
    assert manifest["aliases"]["n"] == "m" and ("b" in manifest["operands"]) == (kind == "gemmt") and "tiles_m" in manifest["tiles"]["count"]


SIZES = """
#include <inttypes.h>
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    int m, k;
    while (scanf("%d %d", &m, &k) == 2) {
        lab_gemm_gg_layout at;
        const int code = lab_gemm_gg_lay_out(m, m, k, &at);
        printf("%d %" PRIu64 " %zu", code, code ? 0 : at.bytes, lab_gemm_workspace_bytes(m, k));
        for (size_t i = 0; i < sizeof at.blocks / sizeof at.blocks[0]; ++i) printf(" %" PRId64, code ? 0 : at.blocks[i]);
        printf("\\n");
    }
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(("uplo", "more"), [(LOWER, {}), (UPPER, WGMMA), (BOTH, {"tile": {**SMALL, "split_k": 3}})])
def test_the_c_sizes_of_a_triangle_are_the_plans(uplo, more, tmp_path):
    [gcc] = need("gcc")
    plan, source = exported(tmp_path / "out", "syrk", uplo, **more)
    (tmp_path / "out" / "sizes.c").write_text(SIZES)
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "sizes.c", "-o", "sizes", cwd=tmp_path / "out")
    rng = random.Random(2)
    asked = [(0, 5), (1, 0), (64, 64), (65, 1), *((int(2 ** rng.uniform(0, 21)), rng.randrange(5000)) for _ in range(200)), (2147479551, 1)]
    told = subprocess.run([tmp_path / "out" / "sizes"], input="\n".join(f"{m} {k}" for m, k in asked), capture_output=True, text=True, check=True).stdout
    largest = prose.largest_grid(plan, source)[0]
    for (m, k), line in zip(asked, told.splitlines(), strict=True):
        code, size, bytes_, *blocks = map(int, line.split())
        extents = source.interface.extents(m, m, k if m else 0)
        if max(replace(launch, most_blocks=None).blocks(extents) for launch in source.launches) > largest:
            assert (code, bytes_) == (-100, 0)
        else:
            assert (code, size, blocks) == (0, bytes_, [launch.blocks(extents) for launch in source.launches]), (m, k)
            assert size == source.interface.workspace(m, m, k if m else 0).bytes


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "uplo", "layout"), [("syrk", LOWER, "tn"), ("syrk", BOTH, "nt"), ("gemmt", UPPER, "nt")])
def test_the_example_of_a_triangle_takes_what_is_right_and_nothing_else(kind, uplo, layout, tmp_path):
    [gxx] = need("g++")
    exported(folder := tmp_path / "out", kind, uplo, layout)
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    stored = {LOWER: "j <= i", UPPER: "i <= j", BOTH: "1"}[uplo]
    known = f"#define SIZES int m, int k\n#define KNOWN const int n = m\n#define LEFT A(i, l)\n#define TERM LEFT * B(l, j)\n#define STORED ({stored})\n"
    library = known + ENDED[()] + HOST_LIBRARY
    if kind == "syrk":
        library = library.replace("const float *b, int64_t ldb, ", "").replace("return lab_gemm_BAD_LDB", "return -97")
        library = library.replace("    KNOWN;\n", "    KNOWN;\n    const float *b = a;\n    const int64_t ldb = lda;\n")
    (folder / "library.cpp").write_text(library)
    options = "-std=c++17", "-O1", "-I.", f"-DTA={int(layout[0] == 't')}", f"-DTB={int(layout[1] == 't')}"
    run(gxx, *options, "-Wall", "-Wextra", "-Werror", "-c", "example.cpp", cwd=folder)
    run(gxx, *options, "-Wall", "-Wextra", "-Werror", "example.o", "library.cpp", "-o", "example", cwd=folder)

    example = Example(folder)
    example.assert_right(6 + (uplo == BOTH))
    for fault in (1, 2, 3, 4, 5):  # the last element off; all; no number; one beside C; a count that is missing
        example.assert_fails(fault)
    outside = library.replace(f"STORED ({stored})", "STORED 1") if uplo != BOTH else library.replace("case 1: c[(m - 1) * ldc + n - 1]", "case 1: c[1]")
    (folder / "library.cpp").write_text(outside)
    run(gxx, *options, "example.o", "library.cpp", "-o", "example", cwd=folder)
    said = example(**({"FAULT": "1"} if uplo == BOTH else {})).stdout
    assert f"FAILED {'C is symmetric' if uplo == BOTH else 'nothing was written between the rows of C or outside the triangle'}" in said
