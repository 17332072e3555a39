"""The exported folder of a kernel for whole batches: what is in it, that its tiling is the model's, what it refuses.

The C text's host part is compiled by a C compiler and called; machine code is a stand-in.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from gemmgen import export as exporter
from gemmgen.batch import PROBLEM
from gemmgen.errors import SpecError
from gemmgen.export import batch, contents
from gemmgen.export.prose import LARGEST_EXTENT
from gemmgen.model.batch import listed
from gemmgen.render import render, render_text
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import Example, need, run
from schema_check import violations
from test_export import CHECKED, HOST_RUNTIME, SCHEMA, built_as_the_readme_says, stand_in, toolkit

FIVE = [[16, 16, 16, 128], [16, 32, 16, 128], [32, 32, 16, 128], [32, 64, 16, 256], [64, 64, 16, 256]]
CASES = {
    "grouped": {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}},
    "grouped, listed": {"problem": {"kind": "grouped", "layout": "tn"}, "split": {"scheme": "ootomo"}, "batch": {"walk": "workgroups"},
                        "target": {"gpu": "h200"}},
    "strided": {"problem": {"kind": "strided", "layout": "nt"}, "split": {"scheme": "fp32"}, "target": {"gpu": "a800"}},
    "strided, listed": {"problem": {"kind": "strided"}, "split": {"scheme": "fp32"}, "batch": {"walk": "workgroups", "tiles": FIVE},
                        "target": {"gpu": "mi210"}},
    "pointers": {"problem": {"kind": "pointers", "layout": "tt"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}},
    "pointers, listed": {"problem": {"kind": "pointers"}, "split": {"scheme": "fp32"}, "batch": {"walk": "workgroups"}, "target": {"gpu": "a800"}},
    "five tiles": {"problem": {"kind": "grouped"}, "split": {"scheme": "fp32"}, "batch": {"walk": "workgroups", "tiles": FIVE}, "target": {"gpu": "mi210"}},
    "old TLP": {"problem": {"kind": "grouped"}, "split": {"scheme": "fp32"}, "target": {"gpu": "a800"},
                "batch": {"walk": "workgroups", "tiles": FIVE, "tlp": "workgroup", "threshold": 65536}},
    "one tile": {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "batch": {"walk": "workgroups", "tiles": [[64, 96, 32, 128]]},
                 "target": {"gpu": "h200"}},
    "no powers of 2": {"problem": {"kind": "grouped"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"},
                       "batch": {"walk": "workgroups", "tiles": [[32, 32, 32, 128], [32, 96, 32, 128], [96, 96, 32, 128]], "threshold": 3000}},
}
GROUPED = [case for case in CASES if CASES[case]["problem"]["kind"] == "grouped"]
LISTED = [case for case in CASES if CASES[case].get("batch", {}).get("walk") == "workgroups"]


@cache
def prepared(case: str):
    plan = solve(loads({**CASES[case], "problem": {"m": 264, "n": 264, "k": 264, "matrices": 64, **CASES[case]["problem"]}}))
    source = render(plan)
    return plan, source, stand_in(plan, source, plan.arch)


def exported(folder: Path, case: str, name: str = "lab_gemm") -> Path:
    exporter.export(*prepared(case), folder, name=name)
    return folder


def manifest_of(folder: Path) -> dict:
    return json.loads((folder / "manifest.json").read_text())


# ---- what is in it


@pytest.mark.parametrize("case", CASES)
def test_the_folder_is_whole_and_its_manifest_keeps_to_the_schema(case, tmp_path):
    plan, source, _ = prepared(case)
    folder = exported(tmp_path / "out", case)
    manifest = manifest_of(folder)
    assert violations(manifest, SCHEMA, SCHEMA) == []
    assert sorted(manifest["sha256"].keys() - {"kernels"} | {"manifest.json"}) == sorted(os.listdir(folder)) and len(os.listdir(folder)) == 8
    told = manifest["batch"]
    assert (told["kind"], told["walk"], told["tlp"], told["threshold"]) == (plan.kind.name, plan.batch.walk, plan.batch.tlp, plan.own.threshold)
    assert [(one["m"], one["n"], one["k"], one["threads"]) for one in told["tiles"]] == [(one.m, one.n, one.k, one.threads) for one in plan.batch.tiles]
    entry = told["entry"] and [(one["name"], one["offset"], one["type"]) for one in told["entry"]["fields"]]
    assert entry in (None, [(name, 4 * at, "int") for at, name in enumerate(("entry", "m0", "n0", "tile"))])
    assert (told["problem"] is not None) == (not plan.kind.uniform) and (told["entry"] is not None) == (plan.batch.walk == "workgroups")
    [launch] = manifest["launches"]
    assert [one["name"] for one in launch["params"]] == list(source.launches[0].params)
    assert "leaves the queue zero" in manifest["workspace"]["zero"] if plan.batch.walk == "persistent" else "list" in manifest["launch_rule"]
    for path in folder.iterdir():
        text = path.read_bytes().decode(errors="replace")
        assert not re.search(r"<%|%>|<#|%%\s", text) and (path.name in ("CMakeLists.txt", "lab_gemm.pc") or "${" not in text), path
        if path.suffix not in (".cubin", ".co"):
            assert "\n\n\n" not in text and " *\n *\n" not in text and not re.search(r"[ \t]\n", text) and text.endswith("\n"), path
        if plan.gpu.vendor == "amd":
            assert not re.search(r"cuda|nvcc|nvrtc|cubin|sm_\d", text, re.I), path


def test_a_products_struct_is_told_as_kernels_read_it(tmp_path):
    folder = exported(tmp_path / "out", "grouped")
    told = manifest_of(folder)["batch"]["problem"]
    assert told["bytes"] == PROBLEM.itemsize == 64
    assert {one["name"]: one["offset"] for one in told["fields"]} == {name: PROBLEM.fields[name][1] for name in PROBLEM.names}
    [gcc] = need("gcc")
    places = "".join(f'printf("%zu ", offsetof(lab_gemm_problem, {name}));' for name in PROBLEM.names)
    (folder / "places.c").write_text(
        f'#include <stdio.h>\n#include "lab_gemm.h"\nint main(void) {{ {places} printf("%zu", sizeof(lab_gemm_problem)); return 0; }}\n')
    run(gcc, "places.c", "-o", "places", cwd=folder)
    assert list(map(int, run(folder / "places").split())) == [*(PROBLEM.fields[name][1] for name in PROBLEM.names), 64]


@pytest.mark.parametrize("case", CASES)
def test_functions_are_those_of_kind_and_walk(case, tmp_path):
    plan, *_ = prepared(case)
    header = (exported(tmp_path / "out", case) / "lab_gemm.h").read_text()
    functions = set(re.findall(r"^LAB_GEMM_API (?:int|size_t|const char \*)\s?(lab_gemm\w*)\(", header, re.M))
    entry = "lab_gemm" if plan.batch.walk == "persistent" else "lab_gemm_listed"
    others = {"lab_gemm_workspace_bytes", "lab_gemm_prepare", "lab_gemm_tiles", "lab_gemm_read_status", "lab_gemm_error_string"}
    assert functions == {entry, *others, *(() if plan.kind.strides else ("lab_gemm_check",))}
    assert ("lab_gemm_problem" in header) == (not plan.kind.uniform)
    told = {"take tiles from a queue": plan.batch.walk == "persistent", "or a launch was aborted": plan.batch.walk == "persistent",
            " *  list, count ": plan.batch.walk != "persistent", "There is a block for each tile of a list": plan.batch.walk != "persistent",
            " *  problems ": not plan.kind.uniform, " *  m, n, k ": plan.kind.uniform, " *  a, lda, stride_a ": plan.kind.strides}
    assert {words for words in told if words in header} == {words for words, are_told in told.items() if are_told}
    values = [int(value) for value in re.findall(r"^    lab_gemm_[A-Z_]+ = (-?\d+)", header, re.M)]
    assert len(set(values)) == len(values) > 8
    for at, argument in enumerate(batch.arguments(plan, "lab_gemm"), 1):
        assert not argument.code or f"lab_gemm_BAD_{argument.code} = -{at}," in header
    for tile in plan.batch.tiles:
        assert re.search(rf"{tile.m} x {tile.n} +{tile.k} +{tile.threads}\n", header)


@pytest.mark.parametrize("name", ["problems", "batch", "list", "gg_list", "expect", "main"])
def test_a_name_of_the_exported_files_is_refused(name, tmp_path):
    with pytest.raises(SpecError) as refused:
        exported(tmp_path / "out", "grouped, listed", name)
    assert refused.value.where == "--name" and not (tmp_path / "out").exists()


def test_the_same_plan_gives_the_same_bytes_and_replaces_an_earlier_export(tmp_path):
    first = {path.name: path.read_bytes() for path in exported(tmp_path / "a", "grouped").iterdir()}
    exported(tmp_path / "b", "strided", "other_name")
    assert {path.name: path.read_bytes() for path in exported(tmp_path / "b", "grouped").iterdir()} == first


def test_the_verb_writes_a_batch(gemmgen, tmp_path, monkeypatch):
    plan, _, binary = prepared("grouped")
    monkeypatch.setattr("gemmgen.build.choice.build", lambda source, **options: binary)
    (tmp_path / "batch.toml").write_text(
        '[problem]\nkind = "grouped"\nm = 264\nn = 264\nk = 264\nmatrices = 64\n[split]\nscheme = "ootomo"\n[target]\ngpu = "h200"\n')
    ran = gemmgen("export", tmp_path / "batch.toml", "-o", tmp_path / "out", "--name", "lab_gemm")
    assert ran.code == 0 and ran.out.count("\n") == 8
    assert (tmp_path / "out" / "lab_gemm.h").read_bytes() == (exported(tmp_path / "same", "grouped") / "lab_gemm.h").read_bytes()


# ---- the tiling on the host


WRAPPED = """
#include "KERNELS"
int check(CHECKED) { return gg_check(PASSED); }
const char *told(int code) { return gg_own_error(code); }
"""


class Host:
    """The host part of an export, compiled: `tiles`, and functions by name."""

    def __init__(self, case: str, folder: Path, damage=lambda text: text):
        self.plan, source, _ = prepared(case)
        values = contents.template_values(self.plan, source, [self.plan.arch], "lab")
        for file, template in (("lab.h", "header.h"), ("lab.c", "kernel")):
            (folder / file).write_text(damage(render_text(f"export/batch/{template}.j2", **values)))
        wrapped = WRAPPED.replace("KERNELS", "lab.c").replace("CHECKED", values["batch"]["checked"]).replace("PASSED", values["batch"]["passed"])
        (folder / "wrapped.c").write_text(wrapped)
        [gcc] = need("gcc")
        run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1", "-fsanitize=undefined", "-fsanitize-undefined-trap-on-error",
            "-shared", "-fPIC", "wrapped.c", "-o", "lab.so", cwd=folder)
        self.library = ctypes.CDLL(str(folder / "lab.so"))
        self.library.told.restype = ctypes.c_char_p
        self.batch = values["batch"]
        header = (folder / "lab.h").read_text()
        self.codes = {name: int(value) for name, value in re.findall(r"lab_([A-Z_]+) = (-?\d+)", header)}

    def tiles(self, sizes: np.ndarray, capacity: int | None = None) -> np.ndarray:
        """[tiles, 4] as the library lists them; beside the list there is room that must stay as it is."""
        count, wide = ctypes.c_int64(-1), ctypes.c_int64
        given = self._given(sizes)
        assert self.library.lab_tiles(*given, None, wide(0), ctypes.byref(count)) == 0
        total = count.value
        room = total if capacity is None else capacity
        list_ = np.full((room + 8, 4), -7, np.int32)
        code = self.library.lab_tiles(*given, ctypes.c_void_p(list_[4:].ctypes.data), wide(room), ctypes.byref(count))
        assert (list_[:4] == -7).all() and (list_[4 + room:] == -7).all() and count.value == total
        assert code == (self.codes["LIST_TOO_SMALL"] if room < total else 0)
        return list_[4:4 + total] if not code else np.zeros((0, 4), np.int32)

    def _given(self, sizes: np.ndarray) -> tuple:
        if not self.plan.kind.uniform:
            self._kept = problems_of(sizes)
            return ctypes.c_void_p(self._kept.ctypes.data), len(sizes)
        m, n = map(int, sizes[0, :2]) if len(sizes) else (0, 0)
        return m, n, len(sizes)

    def wanted(self, sizes: np.ndarray) -> np.ndarray:
        """The same by the model; where blocks make lists on the GPU, each list has a tiling of its own."""
        plan, each = self.plan, batch.products_of_a_list(self.plan) or max(1, len(sizes))
        parts = [np.zeros((0, 4), np.int32)]
        for first in range(0, len(sizes), each):
            these = sizes[first:first + each]
            parts.append(listed(plan.batch.tiles, these, plan.design.tiling(plan, these)) + np.array([first, 0, 0, 0], np.int32))
        return np.concatenate(parts)


def problems_of(sizes: np.ndarray) -> np.ndarray:
    problems = np.zeros(len(sizes), PROBLEM)
    for at, name in enumerate("mnk"):
        problems[name] = sizes[:, at]
    return problems


def batches(one_size: bool) -> list[np.ndarray]:
    """Sizes of many batches: few products and many, small ones and large, with and without empty ones and equal k."""
    rng, found = np.random.default_rng(13), [np.zeros((0, 3), np.int64), np.array([[0, 5, 7]]), np.array([[1, 1, 0]]), np.array([[5, 7, 2**31 - 5000]])]
    found += [np.array([[long, 9, 40], [9, long, 40]] * count) for count in (1, 4, 32) for long in (300, 2000)]  # rows of one are not the next one's columns
    for count in (1, 2, 3, 8, 31, 32, 33, 64, 255, 256, 257, 600, 1024):
        for most, longest in ((16, 1), (70, 8), (140, 1024), (520, 70_000)):
            sizes = np.stack([rng.integers(0, most + 1, count), rng.integers(0, most + 1, count), rng.integers(0, longest + 1, count)], axis=1)
            found.append(sizes)
    found.append(np.array([[9000, 700, 64], [3, 3, 2**30], [64, 64, 2**30 + 1]] * 5))
    return [np.repeat(sizes[:1], len(sizes), axis=0) for sizes in found] if one_size else found


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    return cache(lambda case: Host(case, tmp_path_factory.mktemp("host")))


@pytest.mark.parametrize("case", CASES)
def test_the_hosts_tiling_is_the_models(case, hosts):
    host, levels = hosts(case), set()
    for sizes in batches(host.plan.kind.uniform):
        assert np.array_equal(host.tiles(sizes), host.wanted(sizes)), sizes[:5]
        if len(sizes):
            levels.add(host.plan.design.tiling(host.plan, sizes).level)
    assert len(levels) == min(len(host.plan.batch.tiles), len(levels) if host.plan.kind.uniform else 9)


@pytest.mark.parametrize("case", ["grouped", "five tiles", "strided, listed"])
def test_a_list_without_room_is_told_and_nothing_beside_it_is_touched(case, hosts):
    host = hosts(case)
    sizes = batches(host.plan.kind.uniform)[-3]
    total = len(host.wanted(sizes))
    for capacity in (0, 1, 17, total // 2, total - 1):
        assert not len(host.tiles(sizes, capacity))
    for capacity in (total, total + 1, 3 * total):
        assert np.array_equal(host.tiles(sizes, capacity), host.wanted(sizes))


DAMAGED = {
    "permuted": ("(uint64_t)(longest - k)", "(uint64_t)k"), "by size alone": ("k_bits + tile_bits);", "tile_bits);"),
    "a tile left out": ("n0 < n; n0 += columns", "n0 + columns < n || n0 == 0; n0 += columns"),
    "another order of rows": ("{entry, m0, n0, tile}", "{entry, n0, m0, tile}"),
    "another level": ("if (wavefronts >= GG_ENOUGH) break;", "if (wavefronts > 2 * GG_ENOUGH) break;"),
    "not longest first": ("(uint64_t)(GG_TILES - 1 - tile) << k_bits", "(uint64_t)tile << k_bits"),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_list_that_is_permuted_or_lacks_a_tile_is_noticed(fault, tmp_path):
    before, after = DAMAGED[fault]

    def damage(text: str) -> str:
        return text.replace(before, after)

    whole = prepared("five tiles")
    text = render_text("export/batch/kernel.j2", **contents.template_values(whole[0], whole[1], [whole[0].arch], "lab"))
    assert damage(text) != text
    host = Host("five tiles", tmp_path, damage)
    sizes = [one for one in batches(False) if 30 < len(one) < 300]
    assert not all(np.array_equal(_raw(host, one), host.wanted(one)) for one in sizes)


def _raw(host: Host, sizes: np.ndarray) -> np.ndarray:
    """What a damaged library writes, whatever it counts."""
    problems, count = problems_of(sizes), ctypes.c_int64()
    list_ = np.zeros((100_000, 4), np.int32)
    place = ctypes.c_void_p(list_.ctypes.data)
    host.library.lab_tiles(ctypes.c_void_p(problems.ctypes.data), len(sizes), place, ctypes.c_int64(len(list_)), ctypes.byref(count))
    return list_[:count.value]


@pytest.mark.parametrize(("case", "most"), [
    ("grouped", 2**31 - 1 - 2 * 3 * 132), ("pointers", 2**31 - 1 - 2 * 2 * 108), ("grouped, listed", 2**31 - 1), ("five tiles", (2**32 - 1) // 256),
])
def test_as_many_tiles_as_turns_have_numbers_or_a_launch_has_threads(case, most):
    """Each block that stays, 3 or 2 on a multiprocessor, looks for a turn beyond the last one twice at the most."""
    plan, source, _ = prepared(case)
    assert batch.template_values(plan, source, [plan.arch], "lab")["most_tiles"] == most


def test_bad_batches_have_no_list(hosts):
    host, count, wide = hosts("grouped"), ctypes.c_int64(), ctypes.c_int64

    def code(sizes, products=None, capacity=0, counted=count):
        problems = problems_of(np.array(sizes))
        return host.library.lab_tiles(
            ctypes.c_void_p(problems.ctypes.data), len(sizes) if products is None else products, None, wide(capacity),
            None if counted is None else ctypes.byref(counted))

    for bad in ([-1, 5, 5], [5, -1, 5], [5, 5, -1], [2**31 - 1, 5, 5], [5, 5, 2**31 - 1]):
        assert code([[5, 5, 5], bad]) == host.codes["BAD_PROBLEMS"]
    assert code([[5, 5, 5]], -1) == code([[5, 5, 5]], batch.LARGEST_BATCH + 1) == host.codes["BAD_BATCH"]
    assert code([[5, 5, 5]], capacity=-1) == code([[5, 5, 5]], counted=None) == host.codes["BAD_COUNT"]
    assert code([[2**31 - 5000, 2**31 - 5000, 1]]) == code([[2**20, 2**20, 1]] * 9) == host.codes["TOO_LARGE"]
    assert host.library.lab_tiles(None, 3, None, wide(0), ctypes.byref(count)) == host.codes["BAD_PROBLEMS"]
    alike = hosts("strided, listed")
    usual, beyond = {"M": 5, "N": 5, "BATCH": 2}, {"M": LARGEST_EXTENT + 1, "N": LARGEST_EXTENT + 1, "BATCH": batch.LARGEST_BATCH + 1}
    for name in usual:
        for value in (-1, beyond[name]):
            assert alike.library.lab_tiles(*(usual | {name: value}).values(), None, wide(0), ctypes.byref(count)) == alike.codes[f"BAD_{name}"], (name, value)
    assert alike.library.lab_tiles(1 << 30, 1 << 30, 2, None, wide(0), ctypes.byref(count)) == alike.codes["TOO_LARGE"]


def test_the_tiling_takes_little_time(tmp_path, capsys):
    """Microseconds are printed and not judged, but for a quadratic way or worse; bench/tiling.py has the table."""
    [gcc] = need("gcc")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
    try:
        import tiling
    finally:
        sys.path.pop(0)
    library, taken = tiling.compiled(Path("specs/kernels/batch_listed_h200.toml").resolve(), tmp_path), {}
    for count in (8, 256, 1024):
        asked, number, list_ = tiling.problems(count, 128), ctypes.c_int64(), np.zeros((64 * count, 4), np.int32)
        taken[count] = library.microseconds(ctypes.c_void_p(asked.ctypes.data), count, tiling.SETS, ctypes.c_void_p(list_.ctypes.data),
                                            ctypes.c_int64(len(list_)), ctypes.byref(number), 50)
    with capsys.disabled():
        print("\nhost tiling, microseconds by products:", {count: round(us, 2) for count, us in taken.items()})
    assert 0 < taken[8] and taken[1024] < 1000 and gcc


# ---- what cannot be served


def check(host: Host, problems: np.ndarray, scratch: bool = True) -> tuple[int, int, int]:
    first, second = ctypes.c_int(), ctypes.c_int()
    room = np.zeros(max(1, len(problems)), np.int32)
    code = host.library.lab_check(ctypes.c_void_p(problems.ctypes.data), len(problems), ctypes.c_void_p(room.ctypes.data) if scratch else None,
                                  ctypes.byref(first), ctypes.byref(second))
    return code, first.value, second.value


def good_problems(count: int = 40) -> np.ndarray:
    """[count] of PROBLEM that will do, in no order of their addresses; the layout is nn."""
    rng = np.random.default_rng(5)
    problems = problems_of(rng.integers(1, 90, (count, 3)))
    problems["lda"], problems["ldb"], problems["ldc"] = problems["k"] + 2, problems["n"], problems["n"] + 1
    problems["a"], problems["b"], problems["alpha"] = 1 << 20, 1 << 21, 1.0
    for place, at in enumerate(rng.permutation(count)):
        problems["c"][at] = (1 << 24) + place * 65536
    return problems


def test_a_product_that_will_not_do_is_told_by_its_number(hosts):
    host = hosts("grouped")
    assert check(host, good_problems()) == (0, -1, -1) == check(host, good_problems(0))
    for field, value, code in (
        ("m", -1, "M"), ("n", -3, "N"), ("k", -1, "K"), ("m", 2**31 - 1, "M"), ("a", 0, "A"), ("a", 4098, "A"), ("b", 0, "B"), ("c", 0, "C"), ("c", 4097, "C"),
        ("lda", 0, "LDA"), ("ldb", -5, "LDB"), ("ldc", 0, "LDC"),
    ):
        problems = good_problems()
        problems[field][17] = value
        assert check(host, problems) == (host.codes[f"BAD_{code}"], 17, -1), field
    problems = good_problems()  # what is not read may be anything
    for field, at in (("a", 3), ("lda", 3), ("alpha", 3), ("b", 4), ("k", 4), ("c", 5), ("ldc", 5), ("m", 5)):
        problems[field][at] = 0
    assert check(host, problems) == (0, -1, -1)


def test_overlapping_matrices_are_told_and_those_side_by_side_are_not(hosts):
    host = hosts("grouped")
    problems = good_problems()
    last = problems["c"][31] + 4 * (int(problems["m"][31]) - 1) * int(problems["ldc"][31]) + 4 * (int(problems["n"][31]) - 1)
    problems["c"][9] = last  # the first element of one is the last of another
    assert check(host, problems) == (host.codes["OVERLAP"], 9, 31) and check(host, problems, scratch=False) == (0, -1, -1)
    problems["c"][9] = last + 4
    assert check(host, problems)[0] == 0
    problems = good_problems(12)  # columns of one matrix with 120 of them
    problems["m"], problems["n"], problems["ldc"], problems["ldb"] = 50, 10, 120, 90
    problems["c"] = (1 << 24) + 40 * np.arange(12)[::-1]
    assert check(host, problems) == (0, -1, -1)
    problems["n"][4] = 11  # into the next one's
    assert check(host, problems) == (host.codes["OVERLAP"], 3, 4)
    problems["n"][4], problems["m"][4] = 10, 0  # not the neighbour, but one further away
    problems["c"][7] = problems["c"][5] + 4 * 120 * 3
    assert check(host, problems) == (host.codes["OVERLAP"], 5, 7)


def test_overlaps_are_found_as_a_drawn_map_has_them(hosts):
    """Small matrices at random places of a small memory, against each element's owner."""
    host, rng, found = hosts("grouped"), np.random.default_rng(7), {True: 0, False: 0}
    for _ in range(300):
        problems = good_problems(3)
        pitch = int(rng.integers(6, 12))
        for name, values in (("m", rng.integers(0, 4, 3)), ("n", rng.integers(1, 6, 3)), ("c", 4096 + 4 * rng.integers(0, 90, 3))):
            problems[name] = values
        problems["ldc"], problems["ldb"] = pitch, 10
        owners = np.zeros(200, int)
        for one in problems:
            for row in range(int(one["m"])):
                at = (int(one["c"]) - 4096) // 4 + row * pitch
                owners[at:at + int(one["n"])] += 1
        overlaps = bool((owners > 1).any())
        assert (check(host, problems)[0] == host.codes["OVERLAP"]) == overlaps
        found[overlaps] += 1
    assert min(found.values()) > 30


def test_arrays_of_pointers_are_looked_at_on_the_host(hosts):
    host = hosts("pointers")
    pointers = np.array([1 << 20, 3 << 20, 2 << 20], np.uint64)

    def told(m=30, n=20, ldc=20, count=3):
        first, second, room = ctypes.c_int(), ctypes.c_int(), np.zeros(3, np.int32)
        code = host.library.lab_check(m, n, ctypes.c_void_p(pointers.ctypes.data), ctypes.c_int64(ldc), count, ctypes.c_void_p(room.ctypes.data),
                                      ctypes.byref(first), ctypes.byref(second))
        return code, first.value, second.value

    assert told() == (0, -1, -1) and told(ldc=19)[0] == host.codes["BAD_LDC"] and told(m=-1)[0] == host.codes["BAD_M"]
    assert told(ldc=2**31 - 1) == (0, -1, -1) and told(ldc=2**31)[0] == host.codes["BAD_LDC"]
    assert told(m=1 << 30, n=1 << 12, ldc=1 << 12)[0] == host.codes["TOO_LARGE"]
    pointers[2] = pointers[1] + np.uint64(4 * 19)
    assert told() == (host.codes["OVERLAP"], 1, 2) and told(m=0) == (0, -1, -1) and told(ldc=40) == (host.codes["OVERLAP"], 1, 2)
    pointers[2] = pointers[1] + np.uint64(4 * 20)
    assert told(ldc=40) == (0, -1, -1)
    pointers[1] = 0
    assert told() == told(m=1, n=1) == (host.codes["BAD_C"], 1, -1) and told(n=0) == told(count=0) == (0, -1, -1)


def launch_arguments(host: Host, **changed) -> int:
    """`gg_check` of a launch that would do but for what is changed."""
    wide, place = ctypes.c_int64, ctypes.c_void_p
    usual = {"problems": 4096, "batch": 5, "list": 8192, "count": None, "workspace": 65536, "workspace_bytes": host.batch["workspace_bytes"],
             "m": 30, "n": 20, "k": 10, "alpha": 1.0, "a": 1 << 20, "b": 1 << 21, "c": 1 << 22, "lda": 40, "ldb": 41, "ldc": 42, "stride_c": 4000} | changed
    if usual["count"] is None:
        usual["count"] = len(host.wanted(np.repeat([[30, 20, 10]], min(5, max(0, usual["batch"])), axis=0)))
    kinds = {"batch": ctypes.c_int, "m": ctypes.c_int, "n": ctypes.c_int, "k": ctypes.c_int, "alpha": ctypes.c_float, "workspace_bytes": ctypes.c_size_t,
             **dict.fromkeys(("count", "lda", "ldb", "ldc", "stride_c"), wide)}
    return host.library.check(*(kinds.get(name, place)(usual[name]) for name in host.batch["passed"].split(", ")))


@pytest.mark.parametrize("case", ["grouped", "grouped, listed", "strided", "strided, listed", "pointers", "pointers, listed"])
def test_every_bad_argument_of_a_launch_is_named(case, hosts):
    host = hosts(case)
    assert launch_arguments(host) == 0
    bad = [("batch", -1), ("batch", batch.LARGEST_BATCH + 1), ("workspace", 0), ("workspace", 65536 + 128),
           ("workspace_bytes", host.batch["workspace_bytes"] - 1)]
    if "listed" in case:
        bad += [("list", 0), ("list", 8200), ("count", -1), ("count", 1 << 40)]
    if case.startswith("grouped"):
        bad += [("problems", 0), ("problems", 4104)]
    else:
        bad += [("m", -1), ("n", -1), ("k", -1), ("m", 2**31 - 1), ("k", LARGEST_EXTENT + 1), ("a", 0), ("a", 4097), ("b", 0), ("c", 0), ("c", 4098),
                ("lda", 9), ("lda", 1 << 31), ("ldb", 0), ("ldb", 1 << 31), ("ldb", 1 << 32), ("ldc", 19), ("ldc", -42), ("ldc", 1 << 31)]
    if case.startswith("strided"):
        bad += [("stride_c", 0), ("stride_c", 29 * 42 + 19), ("stride_c", 19), ("stride_c", -(1 << 63)), ("stride_c", 23),
                ("stride_c", -(29 * 42 + 19)), ("stride_c", -23)]
    if case == "strided, listed":
        bad += [("count", 3)]
    for name, value in bad:
        assert launch_arguments(host, **{name: value}) == host.codes[f"BAD_{name.upper()}"], (name, value)
        assert len(host.library.told(host.codes[f"BAD_{name.upper()}"])) > 10
    for code in host.codes.values():
        assert host.library.told(code)
    assert host.library.told(-77) is None and host.library.told(1) is None
    if case.startswith("strided"):
        for stride in (29 * 42 + 20, -(29 * 42 + 20), 20, 21, 22):  # five matrices, or the one that is beside the first in its rows
            assert launch_arguments(host, stride_c=stride, batch=2) == 0
        assert launch_arguments(host, stride_c=20, batch=3) == host.codes["BAD_STRIDE_C"]
        assert launch_arguments(host, alpha=0.0, a=0, b=0) == launch_arguments(host, stride_c=0, batch=1) == 0
    if case == "grouped, listed":
        assert launch_arguments(host, batch=0, count=0) == 0 and launch_arguments(host, batch=0, count=1) == host.codes["BAD_COUNT"]
    if not case.startswith("grouped"):
        for name in ("m", "n", "batch"):  # nothing is written then, and C may be NULL
            assert launch_arguments(host, **{name: 0, "count": 0, "c": 0}) == 0, name
        assert launch_arguments(host, k=0) == launch_arguments(host, m=1, n=1, k=1, lda=1, ldb=1, ldc=1, count=5) == 0
        assert launch_arguments(host, k=LARGEST_EXTENT, lda=LARGEST_EXTENT, ldb=LARGEST_EXTENT) == 0
        for name in ("lda", "ldb", "ldc"):
            assert launch_arguments(host, **{name: 2**31 - 1, "stride_c": 1 << 40}) == 0, name
        assert launch_arguments(host, m=1 << 30, n=1 << 20, ldb=1 << 20, ldc=1 << 20, lda=1 << 30, stride_c=1 << 60, count=0) == host.codes["TOO_LARGE"]


# ---- foreign compilers


@pytest.mark.parametrize("case", CASES)
def test_header_and_example_are_clean(case, tmp_path):
    gcc, gxx, nm = need("gcc", "g++", "nm")
    plan, source, _ = prepared(case)
    folder, strict = exported(tmp_path / "out", case), ("-pedantic", "-Wall", "-Wextra", "-Werror")
    for compiler, standard, language in ((gcc, "c89", "c"), (gcc, "c99", "c"), (gxx, "c++98", "c++"), (gxx, "c++20", "c++")):
        run(compiler, f"-std={standard}", *strict, "-fsyntax-only", "-x", language, "lab_gemm.h", cwd=folder)
    run(gcc, "-x", "c", "-std=c99", *strict, "-O2", "-c", f"lab_gemm{source.suffix}", "-o", "host.o", cwd=folder)
    symbols = [line.split() for line in run(nm, folder / "host.o").splitlines()]
    checks = [] if plan.kind.strides else ["lab_gemm_check"]
    assert [symbol[-1] for symbol in symbols if symbol[-2] == "T"] == [*checks, "lab_gemm_tiles", "lab_gemm_workspace_bytes"]
    assert {symbol[-1] for symbol in symbols if symbol[-2] == "U"} <= {"memcpy", "memset", "__memcpy_chk", "__memset_chk", "__stack_chk_fail"}
    if plan.gpu.vendor == "nvidia":
        run(gxx, "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{toolkit()}/include", "example.cpp", cwd=folder)


HOST_BATCH = """
#include <math.h>
#include <stdlib.h>
#include "lab_gemm.h"
static lab_gemm_status counted;
static bool due;  // of launches between one preparation and the next, the first
static int now;  // which product of the batch
static int fault(int number) { return getenv("FAULT") && atoi(getenv("FAULT")) == number; }
static void one(int m, int n, int k, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (int l = 0; l < k; ++l) {
                const float x = a[TA ? l * lda + i : i * lda + l];
                const double term = (double)x * b[TB ? j * ldb + l : l * ldb + j];
                sum += term, magnitude += fabs(term);
                if (j == 0 && fabs(x) > 65504) counted.a_overflow = OVERFLOWS;
            }
            sum += (i == m - 1 && j == n - 1) * (fault(10) ? 1.2 : fault(11) ? 0.8 : 0) * BOUNDS[now] * magnitude;
            c[i * ldc + j] = (float)(alpha * sum + (beta == 0 ? 0 : (double)beta * c[i * ldc + j]));
        }
    if (fault(1)) c[(m - 1) * ldc + n - 1] += 0.01f;
    if (fault(2)) c[0] = NAN;
    if (fault(3)) c[n] = 0;
    if (fault(4)) c[m * ldc] = 0;
    if (fault(5)) counted.a_overflow = 0;
    if (fault(6)) counted.b_nonfinite = 1;
}
int lab_gemm_prepare(void *workspace, size_t bytes, void *stream)
{
    counted = lab_gemm_status(), due = true;
    return fault(8) || bytes != lab_gemm_workspace_bytes() || !workspace || stream != (void *)0x51 ? -7 : 0;
}
ENTRY
{
    if (fault(7) || workspace_bytes != lab_gemm_workspace_bytes() || !workspace || stream != (void *)0x51 || batch < 0) return -7;
    REFUSED
    for (int e = 0; due && e < batch; ++e) now = e, one(PRODUCT);
    due = false;
    return 0;
}
int lab_gemm_read_status(const void *, void *, lab_gemm_status *status) { *status = counted; return fault(9) ? -7 : 0; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""
"""A batch's functions on the host, but for those of the exported text that are the host's anyway."""
PRODUCTS = {
    "grouped": ("", "p[e].m, p[e].n, p[e].k, p[e].alpha, p[e].a, p[e].lda, p[e].b, p[e].ldb, p[e].beta, p[e].c, p[e].ldc"),
    "strided": ("if (stride_c < n) return lab_gemm_BAD_STRIDE_C;",
                "m, n, k, alpha, a + e * stride_a, lda, b + e * stride_b, ldb, beta, c + e * stride_c, ldc"),
    "pointers": ("", "m, n, k, alpha, a[e], lda, b[e], ldb, beta, c[e], ldc"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["grouped", "pointers", *(pytest.param(case, marks=pytest.mark.long) for case in ("strided", "grouped, listed"))])
def test_the_example_takes_what_is_right_and_nothing_else(case, tmp_path):
    """Each fault is of every product; what a function refuses ends the program."""
    gcc, gxx = need("gcc", "g++")
    folder, (plan, source, _) = exported(tmp_path / "out", case), prepared(case)
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    entry = re.search(r"LAB_GEMM_API (int lab_gemm(?:_listed)?\([^;]*);", (folder / "lab_gemm.h").read_text())[1]
    refused, product = PRODUCTS[plan.kind.name]
    overflows = re.search(r"a_overflow == (\w+)", example := (folder / "example.cpp").read_text())[1]
    bounds = re.findall(r"^    \{\d.* (\S+)\},$", example, re.M)
    unused = "(void)list, (void)count;" if "list" in entry else ""
    text = HOST_BATCH.replace("ENTRY", entry).replace("REFUSED", refused + unused).replace("PRODUCT", product.replace("p[", "problems["))
    (folder / "library.cpp").write_text(f"static const double BOUNDS[] = {{{', '.join(bounds)}}};{text}")
    run(gcc, "-x", "c", "-std=c99", "-O1", "-c", f"lab_gemm{source.suffix}", "-o", "host.o", cwd=folder)
    turned = (f"-DT{operand.upper()}={int(letter == 't')}" for operand, letter in zip("ab", plan.layout))
    run(gxx, *CHECKED, *turned, f"-DOVERFLOWS={overflows}", "example.cpp", "library.cpp", "host.o", "-o", "example", cwd=folder)

    example = Example(folder)
    example.assert_right(6 if plan.kind.name == "grouped" else 5)
    assert example(FAULT="11").returncode == 0, "below the bound"
    for fault in (1, 2, 3, 4, 6, 10, *([5] if overflows != "0" else [])):
        assert example.assert_fails(fault).count("FAILED") == 1, fault
    for fault in (7, 8, 9):
        wrong = example(FAULT=str(fault))
        assert (wrong.returncode, wrong.stderr) == (1, "lab_gemm: refused\n") and "FAILED" not in wrong.stdout


@pytest.mark.slow
@pytest.mark.parametrize("case", ["one tile", "grouped", "strided", "pointers, listed"])
def test_the_launcher_compiles_and_links_with_the_example(case, tmp_path):
    built_as_the_readme_says(exported(tmp_path / "out", case))
