"""The exported folder: what it says, that foreign compilers take it, and that it is whole or absent.

No CUDA or HIP compiler is needed: the machine code is a stand-in. Tests that call a C or CUDA compiler skip
with a word where there is none.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import foreign
from gemmgen import export as exporter
from gemmgen.abi import COUNTERS
from gemmgen.build import Binary, CodeObjectResources, CubinResources
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import all_decisions
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.export import prose
from gemmgen.export.manifest import SCHEMA_VERSION
from gemmgen.paths import SPECS
from gemmgen.plan import Hints
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import Example, need, run
from schema_check import violations
from ways import covering, sampled

SMALL = {"block": [64, 64, 32], "warp": [32, 32, 32]}
CASES = {
    "ootomo-nn": {"split": {"scheme": "ootomo"}, "tile": SMALL},
    "scaled-tt": {"problem": {"layout": "tt"}, "split": {"scheme": "scaled", "special": "fast"}, "tile": SMALL},
    "egemm-tn": {"problem": {"layout": "tn"}, "split": {"scheme": "egemm"},
                 "tile": {"block": [128, 64, 16], "warp": [32, 32, 16]}},
    "half-nt": {"problem": {"layout": "nt"}, "split": {"scheme": "half", "special": "fast"},
                "tile": {"block": [64, 128, 64], "warp": [32, 32, 64]}},
    "fp32-tt": {"problem": {"layout": "tt"}, "split": {"scheme": "fp32"}, "tile": SMALL},
    "slices-nn": {"split": {"scheme": "ootomo"}, "tile": {**SMALL, "split_k": 3}},
    "wgmma-nt": {"problem": {"layout": "nt"}, "split": {"scheme": "ootomo", "where": "mixed"}, "target": {"gpu": "h100"},
                 "tile": {"block": [128, 96, 64], "warp": [64, 96, 64], "cluster": 2, "split_k": 3}},
    "wgmma-tn": {"problem": {"layout": "tn"}, "split": {"scheme": "scaled", "special": "fast", "where": "prepass"},
                 "target": {"gpu": "h100"}, "tile": {"block": [64, 128, 32], "warp": [64, 128, 32], "cluster": 1, "split_k": 1},
                 "pipeline": {"loads": "bulk", "consumers": "pingpong"}},
    "mi210-nn": {"split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "mi210"}},
    "mi300x-tt": {"problem": {"layout": "tt"}, "split": {"scheme": "scaled", "special": "fast"}, "tile": {**SMALL, "split_k": 2},
                  "target": {"gpu": "mi300x"}},
    "b16-nt": {"problem": {"layout": "nt", "b": "f16"}, "split": {"scheme": "ootomo_b16"}, "tile": SMALL},
    "bb16-tn": {"problem": {"layout": "tn", "b": "bf16"}, "split": {"scheme": "bf16x3_bb16"}, "tile": SMALL},
    "ended-nt": {"problem": {"layout": "nt"}, "split": {"scheme": "ootomo"}, "tile": SMALL, "epilogue": {"do": ["bias", "gelu", "scale"]}},
    "rx7900xtx-nt": {"problem": {"layout": "nt"}, "split": {"scheme": "bf16x3"}, "tile": SMALL, "target": {"gpu": "rx7900xtx"}},
}
AMD = [case for case in CASES if case.startswith(("mi", "rx"))]
LIMIT = prose.LARGEST_EXTENT


def prepared(case: str = "ootomo-nn", **more):
    """Plan, source and a binary whose machine code is none."""
    plan = solve(loads({"target": {"gpu": "a100"}, **CASES[case], **more}))
    source = render(plan)
    return plan, source, stand_in(plan, source, plan.arch)


def stand_in(plan, source, arch: str) -> Binary:
    shared = {"registers": 64, "static_shared_bytes": 0, "stack_bytes": 0, "code_bytes": 4096}
    if plan.gpu.vendor == "amd":
        used = CodeObjectResources(
            **shared, agprs=8, sgprs=32, scratch_bytes=0, vgpr_spills=0, sgpr_spills=0, wavefront_size=plan.lanes,
            max_flat_workgroup_size=256, kernarg_bytes=96, arguments=(),
        )
    else:
        used = CubinResources(
            **shared, spill_store_bytes=0, spill_load_bytes=0, barriers=1, constant_bytes=512, max_threads=None,
        )
    return Binary(
        arch=arch, code=b"\x7fELF stand-in", assembly="", kernels={launch.symbol: used for launch in source.launches},
        compiler="clang 0.0" if plan.gpu.vendor == "amd" else "NVRTC 0.0", log="", key="0" * 64, source_name=source.file_name, from_cache=False, seconds=0.0,
    )


def exported(folder: Path, case: str = "ootomo-nn", name: str | None = "lab_gemm") -> Path:
    exporter.export(*prepared(case), folder, name=name)
    return folder


def source_file(case: str) -> str:
    return "lab_gemm.hip" if case in AMD else "lab_gemm.cu"


def code_ending(case: str) -> str:
    return {"mi210-nn": "_gfx90a.co", "mi300x-tt": "_gfx942.co", "rx7900xtx-nt": "_gfx1100.co"}.get(case, ".cubin")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---- what is promised


OF_WORDS = [f"{x}_{kind}" for x in "ab" for kind in ("lossy", "overflow", "nonfinite")]
INFINITE = ["a_nonfinite", "b_nonfinite"]
OUTLIERS = {"scheme": "mixpert4", "promote": 0}


@pytest.mark.parametrize(("split", "voiding"), [
    ({"scheme": "ootomo"}, OF_WORDS), ({"scheme": "scaled", "special": "fast"}, OF_WORDS), ({"scheme": "fp32"}, INFINITE), (OUTLIERS, INFINITE),
    (OUTLIERS | {"fallback": "fp32"}, [*INFINITE, *(f"fallback_{name}" for name in INFINITE)]),
    (OUTLIERS | {"fallback": "tf32x3"}, [*INFINITE, *(f"fallback_{name}" for name in OF_WORDS)]),
])
def test_the_bound_names_the_counters_that_void_it(split, voiding, tmp_path):
    plan, source, binary = prepared(**{"split": split, "tile": SMALL})
    exporter.export(plan, source, binary, tmp_path / "out", name="lab")
    header, told = (tmp_path / "out" / "lab.h").read_text(), json.loads((tmp_path / "out" / "manifest.json").read_text())
    header = re.search(r"ACCURACY.*?is always below", header, re.DOTALL)[0]
    for text in (header, told["bound"]["statement"]):
        assert re.findall(r"\b(?:fallback_)?[ab]_[a-z]+|\brepaired|\bfallen", text) == voiding and "2^127" in text
    assert set(voiding) <= {one["name"] for one in told["status"]}


def test_the_bounds_of_a_kernel_with_a_fallback_are_the_larger_of_both():
    plan = prepared(**{"split": OUTLIERS | {"fallback": "fp32"}, "tile": SMALL})[0]
    main, other = (prose.bounds(one) for one in (replace(plan, fallback=None), plan.fallback))
    for row, *each in zip(prose.bounds(plan), main, other):
        assert row == {key: max(one[key] for one in each) for key in row}
    assert main[-1]["worst_case"] < other[-1]["worst_case"]
    assert prose.underflow_text(replace(plan, fallback=None), ()) == "2^-149" != prose.underflow_text(plan, ()) == prose.underflow_text(plan.fallback, ())


# ---- what is in it


@pytest.mark.parametrize("case", CASES)
def test_the_folder_holds_what_the_manifest_tells(case, tmp_path):
    plan, source, binary = prepared(case)
    files = exporter.export(plan, source, binary, tmp_path / "out")
    name = exporter.default_name(plan)
    assert name == f"gemmgen_{plan.scheme.name}_{plan.layout}_{plan.hash}"
    assert [file.name for file in files] == sorted(os.listdir(tmp_path / "out")) == sorted([
        name + source.suffix, f"{name}.h", name + code_ending(case), f"{name}.pc", "manifest.json", "CMakeLists.txt", "README.md",
        "example.cpp",
    ])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    hashes = manifest.pop("sha256")
    assert hashes.pop("kernels") == hashlib.sha256(source.text.encode()).hexdigest()
    found = contents(tmp_path / "out")
    found.pop("manifest.json")
    assert hashes == {file: hashlib.sha256(content).hexdigest() for file, content in found.items()}
    assert found[name + code_ending(case)] == binary.code
    assert source.text.encode().rstrip() in found[name + source.suffix]
    assert [launch["symbol"] for launch in manifest["launches"]] == [launch.symbol for launch in source.launches]
    assert [[p["name"] for p in launch["params"]] for launch in manifest["launches"]] == [
        list(launch.params) for launch in source.launches
    ]
    assert [field["name"] for field in manifest["status"]] == [f for fields in COUNTERS.values() for f in fields]


@pytest.mark.slow
def test_the_same_plan_gives_the_same_bytes_wherever_it_is_written(tmp_path, monkeypatch):
    first = contents(exported(tmp_path / "one"))
    monkeypatch.chdir(tmp_path)
    plan, source, binary = prepared()
    plan = replace(plan, hints=Hints(7, 8, 9))  # what it was solved for is no part of it
    exporter.export(plan, source, binary, "deep/er/two", name="lab_gemm")
    assert contents(tmp_path / "deep/er/two") == first
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]; import test_export as t; from pathlib import Path;"
        "t.exported(Path(sys.argv[1]))"
    )
    env = os.environ | {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    here = Path(__file__).parent
    run(sys.executable, "-c", program, tmp_path / "three", here, here.parent / "support", env=env)
    assert contents(tmp_path / "three") == first


def test_nothing_tells_where_or_when_it_was_made(tmp_path):
    text = b"\n".join(contents(exported(tmp_path / "out")).values()).decode(errors="replace")
    for trace in (str(tmp_path), str(SPECS.parent)):
        assert trace not in text, trace
    assert not re.search(r"\b20[2-9]\d-\d\d-\d\d\b", text)


@pytest.mark.parametrize("case", CASES)
def test_no_template_mark_is_left(case, tmp_path):
    for file, content in contents(exported(tmp_path / "out", case)).items():
        text = content.decode(errors="replace")
        assert not re.search(r"<%|%>|<#|%%\s", text), file
        assert file in ("CMakeLists.txt", "lab_gemm.pc") or "${" not in text, file
        if not file.endswith((".cubin", ".co")):
            assert "\n\n\n" not in text and not re.search(r"[ \t]\n", text) and text.endswith("\n"), file


def test_the_header_says_what_can_go_wrong(tmp_path):
    exact = (exported(tmp_path / "a") / "lab_gemm.h").read_text()
    assert "largest finite value is 65504" in exact and "computed again by an FP32 dot product" in exact
    assert "each element is 0 or at least 2^-14 in magnitude" in exact  # below that FP16 has too few bits
    cut = (exported(tmp_path / "b", "egemm-tn") / "lab_gemm.h").read_text()
    assert "FINITE AND WRONG" in cut and "FINITE AND WRONG" not in exact
    scaled = (exported(tmp_path / "c", "scaled-tt") / "lab_gemm.h").read_text()
    assert "nothing overflows" in scaled and "2^-17 of the largest of its row" in scaled and "all below 2^-29 of that largest one" in scaled and "stay so" in scaled
    assert "stored [k, m]" in scaled and "stored [n, k]" in scaled
    fp32 = (exported(tmp_path / "d", "fp32-tt") / "lab_gemm.h").read_text()
    assert "on the FP32 CUDA cores of sm_80" in fp32 and "on the matrix units of sm_80" in exact
    assert "every FP32 number" in fp32 and "count as lossy" not in fp32 and "matrix units" not in fp32
    for text in (exact, cut, scaled, fp32):
        assert "It may be used without condition" in text and "#include <cuda" not in text


def test_the_bounds_told_are_never_below_the_derived_ones():
    from gemmgen.verify.bound import worst_case

    for case in CASES:
        plan, *_ = prepared(case)
        for row in prose.bounds(plan):
            exact = worst_case(plan, row["k"])
            assert exact <= row["worst_case"] <= exact * 1.011
            assert 0 < row["both_signs"] < row["worst_case"]


@pytest.mark.parametrize(("folder", "row"), [("gpus", "a100"), ("schemes", "ootomo")])
def test_prose_of_a_users_own_row_cannot_end_a_comment(tmp_path, folder, row):
    text = (SPECS / folder / f"{row}.toml").read_text()
    (tmp_path / f"{row}.toml").write_text(re.sub("(?m)^title = .*", 'title = "x */ int evil(void); /* y"', text))
    kind = {"gpus": "gpu", "schemes": "scheme"}[folder]
    own = (GPUS if folder == "gpus" else SCHEMES).get(str(tmp_path / f"{row}.toml"))
    plan, source, binary = prepared()
    exporter.export(replace(plan, **{kind: own}), source, binary, tmp_path / "out", name="lab_gemm")
    header = (tmp_path / "out" / "lab_gemm.h").read_text()
    assert "x * / int evil(void); / * y" in header
    assert "evil" not in re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)


# ---- the manifest against its schema


SCHEMA = json.loads((SPECS / "manifest.schema.json").read_text())


def test_the_manifests_schema_knows_every_decision():
    told = SCHEMA["properties"]["plan"]["properties"]
    for one in all_decisions():
        assert one.name in told and one.name in SCHEMA["properties"]["plan"]["required"]
        assert not one.words or set(told[one.name]["enum"]) == {word.name for word in one.words}




@pytest.mark.parametrize("case", CASES)
def test_the_manifest_keeps_to_its_schema(case, tmp_path):
    manifest = json.loads((exported(tmp_path / "out", case) / "manifest.json").read_text())
    assert violations(manifest, SCHEMA, SCHEMA) == []
    assert manifest["schema_version"] == SCHEMA_VERSION == SCHEMA["properties"]["schema_version"]["const"]


def test_the_schema_refuses_what_is_wrong(tmp_path):
    folder = exported(tmp_path / "out")
    for damage, place in (
        (lambda m: m.update(schema_version=2), "$.schema_version"),
        (lambda m: m.pop("launches"), "$.launches"),
        (lambda m: m.update(built_on="host"), "$.built_on"),
        (lambda m: m["launches"][0]["params"][0].update(value={"region": "a_words"}), "$.launches[0].params[0].value"),
        (lambda m: m["launches"][1]["grid"][0][0].update(tile=0), "$.launches[1].grid[0][0].tile"),
        (lambda m: m["sha256"].update({"x.h": "abc"}), "$.sha256.x.h"),
        (lambda m: m["target"].update(arch="gfx"), "$.target.arch"),
    ):
        manifest = json.loads((folder / "manifest.json").read_text())
        damage(manifest)
        assert [place in found for found in violations(manifest, SCHEMA, SCHEMA)] == [True]


# ---- AMD


@pytest.mark.parametrize("case", AMD)
def test_nothing_of_cuda_is_left_in_an_export_for_amd(case, tmp_path):
    for file, content in contents(exported(tmp_path / "out", case)).items():
        text = content.decode(errors="replace")
        assert not re.search(r"cuda|nvcc|nvrtc|cubin|sm_\d", text, re.I), file
        assert file.endswith((".co", ".pc", ".txt")) or "HIP" in text or "hip" in text, file


@pytest.mark.parametrize("case", AMD)
def test_an_export_for_amd_says_what_was_done_with_it_and_what_never_was(case, tmp_path):
    folder = exported(tmp_path / "out", case)
    header, readme = (" ".join((folder / file).read_text().replace("*", "").split()) for file in ("lab_gemm.h", "README.md"))
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["standing"].endswith("never run on AMD hardware")
    assert header.count(manifest["standing"]) == readme.count(manifest["standing"]) == 1
    assert "standing" not in json.loads((exported(tmp_path / "nvidia") / "manifest.json").read_text())


def test_one_export_serves_several_architectures_of_amd(tmp_path):
    plan, source, binary = prepared("mi210-nn")
    assert exporter.target_archs(plan, ["gfx942", "gfx90a", "gfx942"]) == ["gfx90a", "gfx942"]
    files = exporter.export(plan, source, binary, tmp_path / "out", others=[stand_in(plan, source, "gfx942")], name="lab_gemm")
    assert {"lab_gemm_gfx90a.co", "lab_gemm_gfx942.co"} < {file.name for file in files}
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert violations(manifest, SCHEMA, SCHEMA) == []
    assert [(one["arch"], one["file"]) for one in manifest["code_objects"]] == [
        ("gfx90a", "lab_gemm_gfx90a.co"), ("gfx942", "lab_gemm_gfx942.co"),
    ]
    assert manifest["code_objects"][0]["kernels"].keys() == {launch.symbol for launch in source.launches}
    assert "set(kernel_architectures gfx90a gfx942)" in (tmp_path / "out" / "CMakeLists.txt").read_text()
    readme = (tmp_path / "out" / "README.md").read_text()
    assert "--offload-arch=gfx90a --offload-arch=gfx942" in readme and "ROCm 6.4 or later" in readme
    assert "(gfx90a), and for gfx942" in (tmp_path / "out" / "lab_gemm.h").read_text()


def test_one_export_serves_several_architectures_of_nvidia(tmp_path):
    """Matrix instructions of one generation run on the later ones, and so do kernels that use no more shared memory than those have."""
    plan, source, binary = prepared()
    assert exporter.target_archs(plan, ["sm_90", "sm_80", "sm_89", "sm_90"]) == ["sm_80", "sm_89", "sm_90"]
    others = [stand_in(plan, source, arch) for arch in ("sm_89", "sm_90")]
    files = {file.name for file in exporter.export(plan, source, binary, tmp_path / "out", others=others, name="lab_gemm")}
    cubins = [f"lab_gemm_{arch}.cubin" for arch in ("sm_80", "sm_89", "sm_90")]
    assert {file for file in files if file.endswith(".cubin")} == set(cubins)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert violations(manifest, SCHEMA, SCHEMA) == []
    assert [one["file"] for one in manifest["code_objects"]] == cubins and "standing" not in manifest
    cmake, readme, header = ((tmp_path / "out" / file).read_text() for file in ("CMakeLists.txt", "README.md", "lab_gemm.h"))
    assert "set(kernel_architectures 80 89 90)" in cmake and all(file.removeprefix("lab_gemm") in cmake for file in cubins)
    assert " ".join(f"-gencode arch=compute_{number},code=sm_{number}" for number in (80, 89, 90)) in readme
    assert "(sm_80), and for sm_89, sm_90" in header and "sm_80, sm_89, sm_90" in readme
    assert "\n    cmake -S . -B build && cmake --build build\n" in readme and "imaginary" not in header
    assert "code_objects" not in json.loads((exported(tmp_path / "one") / "manifest.json").read_text())


def test_kernels_do_not_go_back_to_an_earlier_architecture():
    """Whatever instructions that one has: the text was made for the plan's own."""
    plan, *_ = prepared(fragment={"policy": "wmma"})
    assert plan.fragment.runs_on("sm_75") and "sm_75" not in exporter.possible_archs(plan)
    assert exporter.possible_archs(replace(plan, gpu=GPUS.get("t4")))[:2] == ["sm_75", "sm_80"]


def test_an_architecture_with_less_shared_memory_than_the_kernels_ask_for_is_refused():
    plan, *_ = prepared(tile={"block": [128, 128, 32], "warp": [64, 32, 32]}, pipeline={"stages": 4})
    assert plan.shared_bytes > GPUS.get("rtx3090").limits.shared_bytes_per_block
    with pytest.raises(SpecError, match="shared memory") as refused:
        exporter.target_archs(plan, ["sm_86"])
    assert "sm_90" in refused.value.needs and "sm_86" not in refused.value.needs
    limit = GPUS.get("rtx3090").limits.shared_bytes_per_block
    asking = [replace(plan) for _ in range(2)]
    for one, size in zip(asking, (limit, limit + 1)):
        vars(one)["numbers"] = {**plan.numbers, "shared_bytes": size}
    assert ["sm_86" in exporter.possible_archs(one) for one in asking] == [True, False]


def test_numbers_told_are_rounded_up_and_sizes_stay_32_bit_integers():
    told = {1.23: 1.23, 1.2300001: 1.24, 9.991: 10.0, 1e-7: 1e-7, 1.001e-7: 1.01e-7, 123456.0: 124000.0, 1.1: 1.1, 1.14e-06: 1.14e-06}
    assert {x: prose.rounded_up(x) for x in told} == told
    assert -(-prose.LARGEST_EXTENT // 4096) * 4096 < 2**31 <= prose.LARGEST_EXTENT + 2 * 4096


@pytest.mark.parametrize("worse", ["gfx90a", "gfx942"])
def test_the_bounds_told_for_several_architectures_are_those_of_the_worse_unit(worse, monkeypatch):
    plan, *_ = prepared("mi210-nn")
    real = prose.bound

    def bound(plan, *matrices):
        found, times = real(plan, *matrices), 3 if plan.arch == worse else 1
        return replace(found, scaled=0.1 * times, random=0.01 * times, coherent=0.0004 * times)

    monkeypatch.setattr(prose, "bound", bound)
    both = prose.bounds(plan, ["gfx90a", "gfx942"])
    assert {row["worst_case"] for row in both} == {0.3}
    assert {row["both_signs"] for row in both} == {0.03 * prose.SAFETY}
    # k = 128 and 1024: what errors of either sign leave of k products; from 4096 on the coherent error is more
    assert [row["one_sign"] for row in both] == [prose.rounded_up(prose.SAFETY * x) for x in (0.03 / 128**0.5, *[0.0012] * 4)]


def test_the_header_says_for_which_inputs_the_bound_holds(tmp_path):
    """And what of the others is counted: by the unit's own flushing, too."""
    flushing = (exported(tmp_path / "a", "mi210-nn") / "lab_gemm.h").read_text()
    assert "units of gfx90a take subnormal words for zero. What an element loses by that is counted" in flushing
    assert "0 or at least 2^-3 in magnitude" in flushing and "of which the words that are multiplied leave more than 2^-22" in flushing
    for case in ("wgmma-nt", "ootomo-nn"):
        kept = (exported(tmp_path / case, case) / "lab_gemm.h").read_text()
        assert "0 or at least 2^-14 in magnitude. Smaller ones count\n * as lossy: all below 2^-14." in kept and "subnormal words" not in kept
    for text in (flushing, kept):
        assert "No element outside of that passes silently" in text and "always below bound * (|A||B|) + 2^-149:" in text
    scaled, *_ = prepared("mi210-nn", split={"scheme": "scaled"})
    assert "0 or at least 2^-6 of the largest of its row" in prose.range_text(scaled, [scaled.arch])
    for scheme, told in (
        ("scaled", "all below 2^-29 of that largest one, and"),  # which is below 2^15, and a normal FP16 number is at least 2^-14
        ("mixpert3", "at most 2^-21 of the largest one's power of two count as lossy"),  # which becomes 2^6, and half of the last word's place is 2^-15
        ("residues8", "less than about 2^-32 of that norm count as lossy"),  # which becomes 2.6e9, and 0.5 is the least that is rounded up
    ):
        plan, *_ = prepared("ootomo-nn", split={"scheme": scheme})
        assert told in prose.range_text(plan, [plan.arch]).replace("\n *", "")
    also, *_ = prepared("mi300x-tt")
    assert prose.flushing(also, ["gfx942"]) == [] and prose.flushing(also, ["gfx942", "gfx90a"]) == ["gfx90a"]
    wide, *_ = prepared("ootomo-nn", split={"scheme": "bf16x3"})
    assert prose.underflow_text(wide, [wide.arch]) == "2^-149 + k 2^-144"


ABSOLUTE, LARGEST, NORMS = "(|A||B|)", "(k max|row of A| max|column of B|)", "(norm of the row of A * norm of the column of B)"
TILES = "(the sum over tiles of 32 k of 32 max|row of A| max|column of B|)"
CLAUSES = {
    "Inf": "its word is Inf", "saturates": "FINITE AND WRONG", "row": "of B is scaled by the power of two that brings its largest",
    "tile": "Each 32 k of a row", "norm": "a factor that makes the Euclidean norm", "every": "every FP32 number",
    "again": "computed again by an FP32 dot product", "stay": "stay so, also where FP32",
    "aside": "is set aside", "NaN": "takes part in is NaN", "fallback": "Tiles of C of 64 x 64 in whose rows",
}


@pytest.mark.parametrize(("case", "split", "words", "measure", "clauses"), [
    ("ootomo-nn", {"scheme": "ootomo"}, "2 words of f16", ABSOLUTE, "Inf again"),
    ("ootomo-nn", {"scheme": "half", "special": "fast"}, "1 word of f16", ABSOLUTE, "Inf stay"),
    ("ootomo-nn", {"scheme": "egemm", "promote": 0}, "2 words of f16", ABSOLUTE, "saturates again"),
    ("ootomo-nn", {"scheme": "scaled", "special": "fast"}, "2 words of f16", ABSOLUTE, "row stay"),
    ("ootomo-nn", {"scheme": "fp32"}, "1 word of f32", ABSOLUTE, "every again"),
    ("ootomo-nn", {"scheme": "mixpert3"}, "3 words of s8", LARGEST, "row again aside"),
    ("ootomo-nn", {"scheme": "mixpert3", "special": "fast"}, "3 words of s8", LARGEST, "row stay NaN"),
    ("ootomo-nn", {"scheme": "mixpert3_tile"}, "3 words of s8", TILES, "tile again aside"),
    ("ootomo-nn", {"scheme": "residues8"}, "8 words of s8", NORMS, "norm again aside"),
    ("ootomo-nn", OUTLIERS | {"fallback": "tf32x3"}, "3 words of s8", LARGEST, "row again aside fallback"),
    ("b16-nt", {"scheme": "ootomo_b16"}, "A as words of f16, f16 and B as words of f16, the leading one f16", ABSOLUTE, "Inf again"),
], ids=["rounded", "one", "cut", "scaled", "fp32", "integers", "integers, fast", "tiles of k", "residues", "fallback", "stored B"])
def test_what_is_said_of_words_and_their_range(case, split, words, measure, clauses):
    """What the bound is relative to, and what becomes of elements that are too large, of Inf and of NaN."""
    plan = solve(loads({"target": {"gpu": "a100"}, **CASES[case], "split": split, "tile": SMALL}))
    assert (prose.words(plan), prose.measure(plan)) == (words, measure)
    said = prose.range_text(plan, [plan.arch])
    assert [name for name, clause in CLAUSES.items() if clause in said] == sorted(clauses.split(), key=list(CLAUSES).index)


def test_how_matrices_are_told_to_lie():
    told = {"nn": ("m", "k", "row i at a + i * lda", "k", "n", "row k at b + k * ldb"),
            "tt": ("k", "m", "row k at a + k * lda, transposed", "n", "k", "row j at b + j * ldb, transposed")}
    for layout in ("nn", "nt", "tn", "tt"):
        found = prose.stored(replace(prepared()[0], layout=layout))
        assert tuple(found["a"].values()) == told[layout[0] * 2][:3] and tuple(found["b"].values()) == told[layout[1] * 2][3:]


def test_the_example_allows_what_the_unit_loses_of_its_own_matrices_and_no_more(tmp_path):
    """Its matrices are drawn here as there; the difference between a unit that flushes and one that does not is far from both bounds."""
    [gxx] = need("g++")
    example = (exported(tmp_path / "out", "mi210-nn") / "example.cpp").read_text()
    draw = re.search(r"^float draw\(\)\n\{.*?^\}", example, re.M | re.S)[0]
    count = sum(x.size for x in prose.example_matrices(prepared("mi210-nn")[0]))
    (tmp_path / "draw.cpp").write_text(f'#include <cstdio>\n{draw}\nint main() {{ for (int i = 0; i < {count}; ++i) std::printf("%a\\n", draw()); }}\n')
    run(gxx, "draw.cpp", "-o", "draw", cwd=tmp_path)
    drawn = np.array([float.fromhex(word) for word in run(tmp_path / "draw").split()], np.float32)
    a, b = prose.example_matrices(prepared("mi210-nn")[0])
    m, n, k = prose.EXAMPLE_SIZE
    assert (a.shape, b.shape) == ((m, k), (k, n))
    assert np.array_equal(drawn.reshape(k, m + n), np.hstack([a.T, b]))
    told = {name: float(value) for name, value in re.findall(r"\b(\w*LOST) = ([^,;]+)", example)}
    plan, *_ = prepared("mi210-nn")
    loses = prose.example_losses(plan, [plan.arch])
    assert told == {"LOST": loses["lost"], "MOST_LOST": loses["most_lost"]}
    kept = replace(plan, gpu=plan.gpu.model_copy(update={"matrix_unit": "cdna3"}))
    assert prose.example_losses(kept, [plan.arch]) == {"lost": 0.0, "most_lost": 0.0}
    assert 1e-7 < loses["lost"] < 1e-5


@pytest.mark.parametrize("case", ["b16-nt", "bb16-tn"])
def test_the_example_hands_b_over_as_the_kernel_reads_it(case, tmp_path):
    """Its own C++ turns numbers into the bits that NumPy's rounding gives them; none of the numbers is rounded."""
    [gxx] = need("g++")
    plan, *_ = prepared(case)
    folder = exported(tmp_path / "out", case)
    example = (folder / "example.cpp").read_text()
    stored = re.search(r"^uint16_t stored\(float x\)\n\{.*?^\}", example, re.M | re.S)[0]
    values = np.append(np.arange(-128, 128, dtype=np.float32) / 128, np.float32(np.nan))
    (tmp_path / "stored.cpp").write_text(
        f"#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstring>\n{stored}\nint main() {{ for (int i = -128; i < 128; ++i) "
        'std::printf("%d\\n", stored(i / 128.0f)); std::printf("%d\\n", stored(NAN)); }\n')
    run(gxx, "stored.cpp", "-o", "stored", cwd=tmp_path)
    given = np.array(run(tmp_path / "stored").split(), np.int64).astype(plan.inputs.stored_b.dtype)
    assert np.array_equal(plan.inputs.stored_b.values(given), values, equal_nan=True)
    told = json.loads((folder / "manifest.json").read_text())
    assert told["operands"]["b"]["type"] == "unsigned short" and told["operands"]["b"]["holds"] == plan.inputs.stored_b.name
    alignments = [json.loads((one / "manifest.json").read_text())["alignment"] for one in (folder, exported(tmp_path / "usual"))]
    assert alignments == [{"operands": bytes_, "operands_fastest": 16, "workspace": 256} for bytes_ in (2, 4)]
    assert "const uint16_t *b" in (folder / "lab_gemm.h").read_text()


@pytest.mark.parametrize(("case", "arch", "needs"), [
    ("mi210-nn", "gfx1100", "gfx908, gfx90a, gfx942, gfx950"), ("mi210-nn", "gfx9000", "gfx90a"), ("rx7900xtx-nt", "gfx90a", "gfx1100"),
    ("ootomo-nn", "sm_75", "sm_80"), ("ootomo-nn", "gfx90a", "sm_80"), ("wgmma-nt", "sm_90", "sm_90a"),
])
def test_an_architecture_without_the_plans_instruction_is_refused(case, arch, needs):
    with pytest.raises(SpecError) as refused:
        exporter.target_archs(prepared(case)[0], [arch])
    assert refused.value.where == f"--arch {arch}" and needs in refused.value.needs


def test_hip_counts_the_threads_of_a_grid_in_32_bits():
    plan, source, _ = prepared("mi210-nn")
    blocks, words = prose.largest_grid(plan, source)
    assert blocks * 256 < 2**32 <= (blocks + 1) * 256 and words == "2^32 - 1 threads"
    of_several = SimpleNamespace(launches=[SimpleNamespace(threads=one) for one in (64, 1024, 256)])
    assert prose.largest_grid(plan, of_several)[0] == (2**32 - 1) // 1024, "of the launch with most threads"
    assert prose.largest_grid(*prepared()[:2]) == (2**31 - 1, "2^31 - 1 blocks")


# ---- sizes, against the table


def sizes() -> list[tuple[int, int, int]]:
    rng = random.Random(0)
    edges = [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025]
    few = [tuple(rng.choice(edges) for _ in "mnk") for _ in range(200)]
    many = [tuple(int(2 ** rng.uniform(0, 17)) for _ in "mnk") for _ in range(200)]
    huge = [tuple(rng.choice([1, 100, 2**20, 2**26 + 1, 2**30 - 1, LIMIT - 1, LIMIT]) for _ in "mnk") for _ in range(150)]
    return [*few, *many, *huge, (0, 0, 0), (LIMIT, 1, 1), (1, LIMIT, 1), (1, 1, LIMIT), (LIMIT, LIMIT, LIMIT)]


TOLD = ("status", "a_absmax", "b_absmax", "a_words", "b_words")


def planned(plan, source, m: int, n: int, k: int) -> list[int]:
    """What the C must tell: the status code, then extents, offsets, bytes and blocks, all by the table."""
    extents = source.interface.extents(m, n, k)
    if max(replace(launch, most_blocks=None).blocks(extents) for launch in source.launches) > prose.largest_grid(plan, source)[0]:
        return [-100]
    blocks = [launch.blocks(extents) for launch in source.launches]
    w = source.interface.workspace(m, n, k)
    return [0, *(extents[f"{x}_padded"] for x in "mnk"), *(w.offsets[name] for name in TOLD), w.zeroed, w.bytes, *blocks]


SIZES_PROGRAM = """
#include <inttypes.h>
#include <stdio.h>
#include "SOURCE"
int main(void)
{
    int m, n, k;
    while (scanf("%d %d %d", &m, &n, &k) == 3) {
        lab_gemm_gg_layout at;
        const int code = lab_gemm_gg_lay_out(m, n, k, &at);
        const size_t bytes = lab_gemm_workspace_bytes(m, n, k);
        printf("%d", code);
        if (code == 0) {
            printf(" %" PRId64 " %" PRId64 " %" PRId64, at.m_padded, at.n_padded, at.k_padded);
            printf(" %" PRIu64 " %" PRIu64 " %" PRIu64, at.status, at.a_absmax, at.b_absmax);
            printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, at.a_words, at.b_words, at.zeroed, at.bytes);
            for (size_t i = 0; i < sizeof at.blocks / sizeof at.blocks[0]; ++i) printf(" %" PRId64, at.blocks[i]);
            if (bytes != at.bytes) return 1;
        } else if (bytes != 0) return 2;
        printf("\\n");
    }
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_c_sizes_are_the_plans(case, tmp_path):
    [gcc] = need("gcc")
    plan, source, _ = prepared(case)
    folder = exported(tmp_path / "out", case)
    (folder / "sizes.c").write_text(SIZES_PROGRAM.replace("SOURCE", source_file(case)))
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover",
        "sizes.c", "-o", "sizes", cwd=folder)
    asked = sizes()
    text = "".join(f"{m} {n} {k}\n" for m, n, k in asked)
    out = subprocess.run([folder / "sizes"], input=text, capture_output=True, text=True, check=True).stdout
    got = [[int(word) for word in line.split()] for line in out.splitlines()]
    assert len(got) == len(asked) > 500
    want = [planned(plan, source, *size) for size in asked]
    assert [size for size, g, w in zip(asked, got, want) if g != w] == []
    assert any(row[0] for row in want) and any(not row[0] for row in want[400:])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["symm", "trsm"])
def test_an_extent_that_is_k_too_has_ks_limit(kind, tmp_path):
    """Where the function is told no k: sums of so many integers no longer fit. A system of 262145 unknowns has a product with a k of 262144."""
    [gcc] = need("gcc")
    plan, source, binary = prepared("mi210-nn", problem={"kind": kind, "m": 512, "n": 512, "k": 512}, split={"scheme": "mixpert2"}, target={"gpu": "a100"}, tile={})
    exporter.export(plan, source, binary, folder := tmp_path / "out", name="lab_gemm")
    (folder / "sizes.c").write_text("""
#include <stdio.h>
#include "lab_gemm.cu"
int main(void)
{
    printf("%d %d", lab_gemm_workspace_bytes(LAB_GEMM_LARGEST_K, 1) > 0, lab_gemm_workspace_bytes(262145, 1) > 0);
    return 0;
}
""")
    run(gcc, "-std=c99", "sizes.c", "-o", "sizes", cwd=folder)
    assert subprocess.run([folder / "sizes"], capture_output=True, text=True, check=True).stdout == "1 0"


@pytest.mark.parametrize(("problem", "arguments", "told"), [
    ({"kind": "syrk", "layout": "nt", "matrices": 9}, "m k alpha a lda stride_a beta c ldc stride_c batch", "'s C^T = C has its upper triangle where this one has the lower"),
    ({"kind": "syr2k", "layout": "nt", "matrices": 9}, "m k alpha a lda stride_a b ldb stride_b beta c ldc stride_c batch", "'s C^T = C has its upper triangle"),
    ({"kind": "gemmt"}, "m k alpha a lda b ldb beta c ldc", " computes C^T = B^T A^T, whose lower triangle is this one's upper"),
    ({"kind": "symm"}, "m n alpha a lda b ldb beta c ldc", " computes C^T = B^T A^T, which is a product of side right"),
    ({"kind": "trmm", "side": "right"}, "m n alpha a lda b ldb beta c ldc", " computes C^T = B^T A^T, which is a product of side left"),
    ({"kind": "trsm"}, "m n alpha a lda c ldc", " solves for X^T, which is a system of side right"),
    ({"kind": "trsm", "side": "right", "matrices": 9}, "m n alpha b ldb stride_b c ldc stride_c batch", " solves for X^T, which is a system of side left"),
])
def test_a_kinds_function_takes_what_it_has_and_says_what_a_column_major_caller_computes(problem, arguments, told, tmp_path):
    exporter.export(*prepared("mi210-nn", problem={"m": 512, "n": 512, "k": 512, **problem}), tmp_path / "out", name="lab_gemm")
    header = (tmp_path / "out" / "lab_gemm.h").read_text()
    declared = re.search(r"_API int lab_gemm\(([^;]*);", header)[1]
    assert re.findall(r"(\w+)[,)]", declared) == [*arguments.split(), "workspace", "workspace_bytes", "stream"]
    assert f"A column major caller{told}" in header
    assert ("of a batch has its" in header) == ("stride_" in arguments)
    if problem["kind"] == "trsm":  # a lower triangle's unknowns are found from the first where it stands left, from the last where it stands right
        left = problem.get("side") != "right"
        bounds = json.loads((tmp_path / "out" / "manifest.json").read_text())
        assert f"begin at first = {'before' if left else 'n - end'} in memory" in json.dumps(bounds)
        assert f"bounds |{'alpha C - A X' if left else 'alpha C - X B'}| / " in bounds["bound"]["statement"]


SYSTEM_PROGRAM = """
#include <stdio.h>
#include "lab_gemm.hip"
int main(void)
{
    int m, n;
    while (scanf("%d %d", &m, &n) == 2) {
        lab_gemm_gg_layout at;
        printf("%d %zu\\n", lab_gemm_gg_lay_out_system(m, n, &at), lab_gemm_workspace_bytes(m, n));
    }
    return 0;
}
"""


@pytest.mark.slow
def test_the_c_sizes_of_a_system_are_the_plans(tmp_path):
    """Of any number of blocks of unknowns, and of so many right-hand sides that HIP counts no thread for each."""
    [gcc] = need("gcc")
    plan, source, binary = prepared("mi210-nn", problem={"kind": "trsm", "m": 512, "n": 512, "k": 512})
    exporter.export(plan, source, binary, folder := tmp_path / "out", name="lab_gemm")
    (folder / "sizes.c").write_text(SYSTEM_PROGRAM)
    run(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined", "-fno-sanitize-recover", "sizes.c", "-o", "sizes", cwd=folder)
    most = prose.largest_grid(plan, source)[0] * plan.kind.own.systems
    asked = [(m, n) for m in (0, 1, 255, 256, 257, 300, 384, 385, 511, 512, 513, 640, 700, 769, 1025, 1300, 2049, 5000) for n in (1, 70)]
    out = subprocess.run([folder / "sizes"], input="".join(f"{m} {n}\n" for m, n in [*asked, (1, most), (1, most + 1), (-1, 1), (1, -1)]),
                         capture_output=True, text=True, check=True).stdout
    *got, fits, too_many, no_m, no_n = [tuple(map(int, line.split())) for line in out.splitlines()]
    want = [(0, source.interface.workspace(m, n, m).bytes) for m, n in asked]
    assert [size for size, g, w in zip(asked, got, want, strict=True) if g != w] == []
    assert fits[0] == 0 < fits[1] and (too_many, no_m, no_n) == ((-100, 0), (-1, 0), (-2, 0))


@pytest.mark.parametrize("case", CASES)
def test_the_manifests_sizes_are_the_plans(case, tmp_path):
    plan, source, _ = prepared(case)
    manifest = json.loads((exported(tmp_path / "out", case) / "manifest.json").read_text())
    for m, n, k in sizes():
        extents = foreign.extents(manifest, m, n, k)
        assert tuple(extents[name] for name in ("m_padded", "n_padded", "k_padded")) == tuple(
            -(-x // tile) * tile if m and n else 0 for x, tile in zip((m, n, k), plan.block))
        offsets, zeroed, nbytes = foreign.layout(manifest, extents)
        want = source.interface.workspace(m, n, k)
        assert offsets == want.offsets
        assert (zeroed, nbytes) == (want.zeroed, want.bytes)
        for launch, told in zip(source.launches, manifest["launches"]):
            assert launch.grid == tuple(
                tuple((factor["extent"], factor["tile"]) for factor in product) for product in told["grid"]
            )
            assert foreign.blocks(told, extents) == launch.blocks(source.interface.extents(m, n, k))


# ---- arguments

CHECKS_PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "lab_gemm.cu"
static int wrong = 0;
static float x[4];
static char memory[1 << 20];
static void expect(int line, int code, int m, int n, int k, float alpha, const float *a, int64_t lda, const float *b,
                   int64_t ldb, const float *c, int64_t ldc, const void *workspace, size_t bytes)
{
    lab_gemm_gg_layout at;
    const int got = lab_gemm_gg_check(m, n, k, alpha, a, lda, b, ldb, c, ldc, workspace, bytes, &at);
    if (got != code) { printf("line %d: %d, not %d\\n", line, got, code); wrong = 1; }
    if (lab_gemm_gg_own_error(code) == NULL || (code && strlen(lab_gemm_gg_own_error(code)) < 10)) wrong = 1;
}
int main(void)
{
    void *w = memory + (256 - (uintptr_t)memory % 256) % 256;
    const size_t full = lab_gemm_workspace_bytes(8, 9, 10), all = 1 << 19;
    /* m, n and k are 8, 9 and 10: rows of A and B as they are stored have LDA and LDB elements. */
#define E(code, ...) expect(__LINE__, code, __VA_ARGS__)
    E(0, 8, 9, 10, 1, x, LDA, x, LDB, x, 9, w, full);
    E(-1, -1, 9, 10, 1, x, LDA, x, LDB, x, 9, w, all);
    E(-1, 2147483647, 9, 10, 1, x, LDA, x, LDB, x, 9, w, all);
    E(-2, 8, -1, 10, 1, x, LDA, x, LDB, x, 9, w, all);
    E(-3, 8, 9, -1, 1, x, LDA, x, LDB, x, 9, w, all);
    E(-5, 8, 9, 10, 1, NULL, LDA, x, LDB, x, 9, w, all);
    E(-6, 8, 9, 10, 1, x, LDA - 1, x, LDB, x, 9, w, all);
    E(-6, 8, 9, 10, 1, x, -10, x, LDB, x, 9, w, all);
    E(-6, 0, 0, 0, 1, x, 0, x, 1, x, 1, w, all);
    E(-7, 8, 9, 10, 1, x, LDA, NULL, LDB, x, 9, w, all);
    E(-8, 8, 9, 10, 1, x, LDA, x, LDB - 1, x, 9, w, all);
    E(-10, 8, 9, 10, 1, x, LDA, x, LDB, NULL, 9, w, all);
    E(-11, 8, 9, 10, 1, x, LDA, x, LDB, x, 8, w, all);
    E(-12, 8, 9, 10, 1, x, LDA, x, LDB, x, 9, NULL, all);
    E(-12, 8, 9, 10, 1, x, LDA, x, LDB, x, 9, (char *)w + 128, all);
    E(-13, 8, 9, 10, 1, x, LDA, x, LDB, x, 9, w, full - 1);
    E(-13, 8, 9, 10, 1, x, LDA, x, LDB, x, 9, w, 0);
    E(-100, 2000000000, 2000000000, 1, 1, x, 2000000000, x, 2000000000, x, 2000000000, w, all);
    /* What is not read may be absent. */
    E(0, 8, 9, 10, 0, NULL, LDA, NULL, LDB, x, 9, w, all);
    E(0, 8, 9, 0, 1, NULL, LDA, NULL, LDB, x, 9, w, all);
    E(0, 0, 9, 10, 1, NULL, LDA, NULL, LDB, NULL, 9, w, all);
    E(0, 8, 0, 10, 1, NULL, LDA, NULL, LDB, NULL, 1, w, all);
    if (lab_gemm_gg_own_error(-4) != NULL || lab_gemm_gg_own_error(1) != NULL) wrong = 1;
    return wrong;
}
"""


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_every_bad_argument_is_named(layout, tmp_path):
    [gcc] = need("gcc")
    exporter.export(*prepared(problem={"layout": layout}), folder := tmp_path / "out", name="lab_gemm")
    rows = {"LDA": 10 if layout[0] == "n" else 8, "LDB": 9 if layout[1] == "n" else 10}
    (folder / "checks.c").write_text("".join(f"#define {name} {value}\n" for name, value in rows.items()) + CHECKS_PROGRAM)
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "checks.c", "-o", "checks", cwd=folder)
    run(folder / "checks")


def test_a_missing_vector_of_the_epilogue_is_named(tmp_path):
    """By its place behind ldc; what comes after it counts on."""
    [gcc] = need("gcc")
    exporter.export(*prepared("ended-nt"), folder := tmp_path / "out", name="lab_gemm")
    (folder / "checks.c").write_text("""
#include "lab_gemm.cu"
static float x[4];
int main(void)
{
    static char memory[1 << 20];
    void *w = memory + (256 - (uintptr_t)memory % 256) % 256;
    lab_gemm_gg_layout at;
    return lab_gemm_gg_check(8, 9, 10, 1, x, 10, x, 10, x, 9, NULL, w, 1 << 19, &at) != -12 || lab_gemm_BAD_BIAS != -12
        || lab_gemm_gg_check(0, 9, 10, 1, x, 10, x, 10, x, 9, NULL, w, 1 << 19, &at) != 0
        || lab_gemm_gg_check(8, 9, 10, 1, x, 10, x, 10, x, 9, x, NULL, 1 << 19, &at) != -14 || lab_gemm_BAD_WORKSPACE_BYTES != -15;
}
""")
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "checks.c", "-o", "checks", cwd=folder)
    run(folder / "checks")


def test_a_manifest_says_what_is_computed_and_how_far_the_matrices_of_a_batch_lie_apart(tmp_path):
    """Of one product, of one with an epilogue, and of a strided batch with one."""
    strided = {"problem": {"kind": "strided", "m": 512, "n": 512, "k": 512, "matrices": 64}, "pipeline": {"design": "strided"}}
    plain, ended, batch = (json.loads((folder / "manifest.json").read_text()) for folder, told in (
        (tmp_path / "plain", prepared()), (tmp_path / "ended", prepared("ended-nt")), (tmp_path / "batch", prepared(**strided, epilogue={"do": ["relu", "bias"]})),
    ) if exporter.export(*told, folder, name="lab_gemm"))
    sums, beta = "C = alpha A B + beta C in FP32", "; with beta = 0 C is not read"
    assert plain["computes"] == sums + beta and "epilogue" not in plain["plan"] and "kind" not in plain["plan"]
    assert ended["computes"] == f"{sums}, and of that a bias for each column, then GELU by the error function, then a scale of the whole C{beta}"
    assert batch["computes"].startswith(f"{sums}, and of that ReLU, then a bias for each column{beta}; of all products of a batch, whose matrices of C lie apart")
    assert (ended["plan"]["epilogue"], batch["plan"]["epilogue"], batch["plan"]["kind"]) == (["bias", "gelu", "scale"], ["relu", "bias"], "strided")
    assert {x: one.get("stride") for x, one in plain["operands"].items()} == dict.fromkeys("abc")
    assert {x: one["stride"] for x, one in batch["operands"].items()} == {x: f"stride_{x}" for x in "abc"}
    assert [launch["terms_same_b"] for launch in plain["launches"]] == [1, None]  # of the pass that splits, A's term alone where B is the same


@pytest.mark.parametrize("kind", ["grouped", "strided"])
def test_epilogues_of_products_that_are_told_one_by_one_are_not_exported(kind, tmp_path):
    data = {"problem": {"kind": kind, "m": 264, "n": 264, "k": 264, "matrices": 64}, "split": {"scheme": "fp32"}, "target": {"gpu": "a100"}, "epilogue": {"do": ["relu"]}}
    plan = solve(loads(data | ({"pipeline": {"design": "strided"}, "split": {"scheme": "ootomo"}} if kind == "strided" else {})))
    told = plan, (source := render(plan)), stand_in(plan, source, plan.arch)
    if kind == "strided":
        assert exporter.export(*told, tmp_path / "out", name="lab_gemm")
        return
    with pytest.raises(SpecError, match="writes no kernels with an epilogue for products that are listed one by one") as refused:
        exporter.export(*told, tmp_path / "out", name="lab_gemm")
    assert "['relu']" in refused.value.got and "strided" in refused.value.remedy and not (tmp_path / "out").exists()


def test_batches_whose_words_are_packed_first_are_not_exported(tmp_path):
    plan = solve(loads({"problem": {"kind": "grouped", "m": 264, "n": 264, "k": 264, "matrices": 64}, "split": {"scheme": "ootomo"}, "pipeline": {"design": "packed"},
                        "target": {"gpu": "h100"}}))
    with pytest.raises(SpecError, match="writes no kernels for batches whose words are packed first") as refused:
        exporter.export(plan, (source := render(plan)), stand_in(plan, source, plan.arch), tmp_path / "out", name="lab_gemm")
    assert 'kind = "strided"' in refused.value.remedy and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("scheme", "most"), [("mixpert3", (2**31 - 1) // (2 * 127**2)), ("mixpert4", (2**31 - 1) // (3 * 127**2)), ("ootomo", LIMIT)])
def test_the_last_k_of_a_scheme_is_served_and_the_next_one_is_refused(scheme, most, tmp_path):
    """Of integers, an INT32 sum holds two or three products of 127 x 127 for each k."""
    [gcc] = need("gcc")
    exporter.export(*prepared(split={"scheme": scheme}), folder := tmp_path / "out", name="lab_gemm")
    limits = json.loads((folder / "manifest.json").read_text())["limits"]
    assert limits.get("largest_k", limits["largest_extent"]) == most
    calls = "".join(f"expect({code}, {code}, 1, 1, {k}, 1, x, {k}, x, 1, x, 1, w, (size_t)1 << 50);\n" for k, code in ((most, 0), (most + 1, -3)))
    (folder / "checks.c").write_text(CHECKS_PROGRAM.partition("int main")[0] + f"int main(void)\n{{\nvoid *w = memory + (256 - (uintptr_t)memory % 256) % 256;\n"
                                                                               f"{calls}return wrong;\n}}\n")
    run(gcc, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "checks.c", "-o", "checks", cwd=folder)
    run(folder / "checks")


# ---- the example, which runs: its library and its runtime are the host's

CHECKED = ("-std=c++17", "-O1", "-D_GLIBCXX_ASSERTIONS", "-Wall", "-Wextra", "-Werror", "-I.")
"""Options of an example that ends where it reads beyond a vector."""
HOST_RUNTIME = """
#pragma once
#include <stdlib.h>
#include <string.h>
typedef int cudaError_t;
typedef void *cudaStream_t;
enum { cudaSuccess = 0, cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
template <typename T> int cudaMalloc(T **to, size_t bytes) { return !(*to = (T *)aligned_alloc(256, (bytes + 255) / 256 * 256)); }
static inline int cudaFree(void *memory) { free(memory); return 0; }
static inline int cudaMemset(void *to, int value, size_t bytes) { memset(to, value, bytes); return 0; }
static inline int cudaMemcpy(void *to, const void *from, size_t bytes, int) { memcpy(to, from, bytes); return 0; }
static inline int cudaStreamCreate(cudaStream_t *to) { *to = (void *)0x51; return 0; }
static inline int cudaStreamDestroy(cudaStream_t) { return 0; }
static inline const char *cudaGetErrorString(int) { return "an error"; }
static inline int cudaGetDeviceCount(int *count) { *count = !getenv("NO_DEVICE"); return 0; }
typedef int cudaEvent_t;
static inline int cudaEventCreate(cudaEvent_t *) { return 0; }
static inline int cudaEventRecord(cudaEvent_t, cudaStream_t) { return 0; }
static inline int cudaEventSynchronize(cudaEvent_t) { return 0; }
static inline int cudaEventElapsedTime(float *to, cudaEvent_t, cudaEvent_t) { *to = 1; return 0; }
static inline int cudaEventDestroy(cudaEvent_t) { return 0; }
"""
HOST_LIBRARY = """
#include <math.h>
#include <stdlib.h>
#include "lab_gemm.h"
static const size_t BYTES = 12345;
static lab_gemm_status counted;
#define A(i, l) (double)a[TA ? (l) * lda + (i) : (i) * lda + (l)]
#define B(l, j) (double)b[TB ? (j) * ldb + (l) : (l) * ldb + (j)]
#ifndef SIZES
#define SIZES int m, int n, int k
#define KNOWN
#define LEFT A(i, l)
#define TERM LEFT * B(l, j)
#define STORED 1
#endif
#ifndef OVERFLOWS
#define OVERFLOWS 1
#endif
size_t lab_gemm_workspace_bytes(SIZES) { KNOWN; return (m && n && k) * BYTES; }
int lab_gemm(SIZES, float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc ENDS, void *workspace,
             size_t bytes, void *stream)
{
    KNOWN;
    if (lda <= (TA ? m : k)) return lab_gemm_BAD_LDA;
    if (ldb <= (TB ? k : n)) return lab_gemm_BAD_LDB;
    if (ldc <= n) return lab_gemm_BAD_LDC;
    if (!workspace || bytes != BYTES || stream != (void *)0x51 || alpha != 1 || beta != 0) return -99;
    counted = lab_gemm_status();
    for (int i = 0; i < m; ++i)
        for (int l = 0; l < k; ++l) counted.a_overflow += OVERFLOWS && fabs(LEFT) > 65504;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0;
            for (int l = 0; l < k; ++l) sum += TERM;
            if (STORED) c[i * ldc + j] = (float)ENDED(sum);
        }
    switch (getenv("FAULT") ? atoi(getenv("FAULT")) : 0) {
    case 1: c[(m - 1) * ldc + n - 1] += 0.01f; break;
    case 2: for (int at = 0; at < m * ldc - 7; ++at) c[at] *= 1.00001f; break;
    case 3: c[0] = NAN; break;
    case 4: c[n] = 0; break;
    case 5: counted.a_overflow = 0; break;
    case 6: ++counted.b_nonfinite; break;
    case 7: return -7;
    }
    return 0;
}
int lab_gemm_read_status(const void *, void *stream, lab_gemm_status *status) { *status = counted; return stream == (void *)0x51 ? 0 : -98; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""


ENDED = {
    (): "#define ENDS\n#define ENDED(x) x\n",
    ("bias", "gelu", "scale"): "#define ENDS , const float *bias, float scale\n"
                               "#define ENDED(x) (scale * 0.5 * (x + bias[j]) * (1 + erf((x + bias[j]) / sqrt(2.0))))\n",
}
"""What the host's library has of an epilogue."""


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "do", "scheme"), [("nt", (), "residues8"), ("tn", (), "ootomo"), ("tn", ("bias", "gelu", "scale"), "ootomo")],
                         ids=["nt, residues", "tn", "tn, an epilogue"])
def test_the_example_takes_what_is_right_and_nothing_else(layout, do, scheme, tmp_path):
    """Leading dimensions beyond a row; an element that is off, all of them, one that is no number, one beside C, a count that is missing or too many."""
    [gxx] = need("g++")
    exporter.export(*prepared(problem={"layout": layout}, epilogue={"do": do}, split={"scheme": scheme}), folder := tmp_path / "out", name="lab_gemm")
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    (folder / "library.cpp").write_text(ENDED[do] + HOST_LIBRARY)
    run(gxx, *CHECKED, f"-DTA={int(layout[0] == 't')}", f"-DTB={int(layout[1] == 't')}", f"-DOVERFLOWS={int(scheme == 'ootomo')}", "example.cpp",
        "library.cpp", "-o", "example", cwd=folder)

    example = Example(folder)
    example.assert_right(6)
    for fault in range(1, 7) if layout == "tn" else (1, 3):
        told = example.assert_fails(fault)
        assert fault != 3 or told.count("FAILED") == 2, "an element that is no number is in no bound, its own neither"
    refused = example(FAULT="7")
    assert (refused.returncode, refused.stderr) == (1, "lab_gemm: refused\n") and "FAILED" not in refused.stdout


OF_KINDS = {
    "syr2k": ({"kind": "syr2k", "uplo": "upper", "layout": "tn", "m": 300, "n": 300},
              "int m, int k", "const int n = m", "A(i, l)", "(A(i, l) * B(l, j) + B(l, i) * A(j, l))", "i <= j"),
    "trmm": ({"kind": "trmm", "layout": "tn", "uplo": "upper", "diag": "unit", "m": 300, "k": 300},
             "int m, int n", "const int k = m", "(i == l ? 1 : i < l ? A(i, l) : 0)", "(i == l ? 1 : i < l ? A(i, l) : 0) * B(l, j)", "1"),
    "trmm, right": ({"kind": "trmm", "side": "right", "n": 200, "k": 200},
                    "int m, int n", "const int k = n", "A(i, l)", "(l < j ? 0 : A(i, l) * B(l, j))", "1"),
    "symm": ({"kind": "symm", "m": 300, "k": 300},
             "int m, int n", "const int k = m", "(l <= i ? A(i, l) : A(l, i))", "(l <= i ? A(i, l) : A(l, i)) * B(l, j)", "1"),
    "symm, right": ({"kind": "symm", "side": "right", "uplo": "upper", "layout": "tn", "n": 200, "k": 200},
                    "int m, int n", "const int k = n", "A(i, l)", "A(i, l) * (j <= l ? B(j, l) : B(l, j))", "1"),
}
"""Of a kind: the problem; the C function's sizes, those that it has not, an element of A as it is multiplied, a term, and where C is stored."""


def ran(folder: Path, *defines: str):
    """The example with a library and a runtime that are the host's, as a function of its environment."""
    [gxx] = need("g++")
    (folder / "cuda_runtime.h").write_text(HOST_RUNTIME)
    run(gxx, *CHECKED, *defines, "example.cpp", "library.cpp", "-o", "example", cwd=folder)
    return lambda **settings: subprocess.run([folder / "example"], capture_output=True, text=True, check=False, env=settings)


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(one, marks=[] if one in ("trmm", "syr2k") else pytest.mark.long) for one in OF_KINDS])
def test_the_example_of_a_kind_takes_what_is_right_and_nothing_else(case, tmp_path):
    """Operands that are read in part hold NaN elsewhere; a triangle alone is stored; what the kind has no argument for, the function has not."""
    problem, sizes, known, left, term, stored = OF_KINDS[case]
    exporter.export(*prepared(problem=problem), folder := tmp_path / "out", name="lab_gemm")
    layout = problem.get("layout", "nn")
    (folder / "library.cpp").write_text(
        f"#define SIZES {sizes}\n#define KNOWN {known}\n#define LEFT {left}\n#define TERM {term}\n#define STORED {stored}\n{ENDED[()]}{HOST_LIBRARY}")
    example = ran(folder, f"-DTA={int(layout[0] == 't')}", f"-DTB={int(layout[1] == 't')}")
    right = example()
    assert (right.returncode, right.stdout.count("ok "), right.stdout.count("FAILED")) == (0, 6, 0), right.stdout
    for fault in range(1, 7) if case in ("syr2k", "trmm") else ():
        wrong = example(FAULT=str(fault))
        assert wrong.returncode == 1 and "FAILED" in wrong.stdout, fault
    manifest = json.loads((folder / "manifest.json").read_text())
    assert violations(manifest, SCHEMA, SCHEMA) == []
    assert (manifest["plan"]["kind"], manifest["aliases"]) == (problem["kind"], prepared(problem=problem)[0].kind.aliases)
    header = (folder / "lab_gemm.h").read_text()
    codes = dict(re.findall(r"lab_gemm_BAD_(\w+) = -(\d+)", header))
    assert codes == {name: str(at) for at, name in enumerate(
        [*re.findall(r"int (\w)", sizes.upper().replace("INT", "int")), "alpha", "A", "LDA", "B", "LDB", "beta", "C", "LDC", "WORKSPACE", "WORKSPACE_BYTES"], 1)
        if name.isupper()}
    assert ("is read: nothing else" in header or "which is 1: nothing else" in header) == (case[:4] in ("trmm", "symm"))


def test_two_products_have_the_bound_of_twice_the_k():
    """As `syr2k` sums them into one."""
    both, one = (solve(loads({"problem": {"kind": kind, "layout": "nt", "n": 4096}, "split": {"scheme": "ootomo"}, "tile": SMALL, "target": {"gpu": "a100"}}))
                 for kind in ("syr2k", "gemmt"))
    assert prose.coefficients(both, 512).scaled == prose.coefficients(one, 1024).scaled > prose.coefficients(one, 512).scaled


BATCHED_SYSTEM = """
#include <stdlib.h>
#include <stdint.h>
#include <stddef.h>
static int one(int, int, float, const float *, int64_t, float *, int64_t, void *, size_t, void *);
extern "C" size_t lab_gemm_workspace_bytes(int m, int n, int);
extern "C" int lab_gemm(int m, int n, float alpha, const float *t, int64_t ld, int64_t st, float *c, int64_t ldc, int64_t sc, int batch, void *w, size_t bytes, void *s)
{
    if (ld <= (RIGHT ? n : m)) return -1;
    if (st < ld || sc < m * ldc) return -9;
    int code = 0;
    for (int e = 0; e < batch && !code; ++e) code = one(m, n, alpha, t + e * st, ld, c + e * sc, ldc, w, bytes, s);
    if (getenv("FAULT") && atoi(getenv("FAULT")) == 5 && alpha != 0) c[(batch - 1) * sc] += 1;
    return code;
}
"""
"""One system after another; the fifth fault is of the last one alone."""
HOST_SYSTEM = """
#include <math.h>
#include <stdlib.h>
#include <vector>
#include "lab_gemm.h"
size_t lab_gemm_workspace_bytes(int m, int n) { return 1000 * (m + n); }
int lab_gemm(int m, int n, float alpha, const float *t, int64_t ld, float *c, int64_t ldc, void *workspace, size_t bytes, void *stream)
{
    const int size = RIGHT ? n : m, others = RIGHT ? m : n, fault = getenv("FAULT") ? atoi(getenv("FAULT")) : 0;
    if (ld <= size || ldc <= n) return -1;
    if (!workspace || bytes != lab_gemm_workspace_bytes(m, n) || stream != (void *)0x51) return -99;
    for (int j = 0; j < others; ++j) {
        std::vector<double> x(size);
        for (int step = 0; step < size; ++step) {
            const int i = BELOW ? step : size - 1 - step;
            if (alpha == 0 && (fault != 4 || i || j)) continue;
            double left = alpha * (double)c[RIGHT ? j * ldc + i : i * ldc + j];
            for (int l = 0; l < size; ++l) if (BELOW ? l < i : l > i) left -= t[TURNED ? l * ld + i : i * ld + l] * x[l];
            x[i] = UNIT ? left : left / t[i * ld + i];
        }
        for (int i = 0; i < size; ++i) c[RIGHT ? j * ldc + i : i * ldc + j] = (float)x[i];
    }
    if (fault == 1 && alpha != 0) c[(m - 1) * ldc + n - 1] += 0.01f;
    if (fault == 2 && alpha != 0) c[0] = NAN;
    if (fault == 3) c[n] = 0;
    return fault == 6 ? -7 : 0;
}
int lab_gemm_read_status(const void *, void *stream, lab_gemm_status *status) { *status = lab_gemm_status(); return stream == (void *)0x51 ? 0 : -98; }
const char *lab_gemm_error_string(int) { return "refused"; }
"""


@pytest.mark.slow
@pytest.mark.parametrize(("options", "turned", "below"), [
    ({"layout": "nn"}, 0, 1), *(pytest.param(*one, marks=pytest.mark.long) for one in (
        ({"layout": "tn", "uplo": "upper", "diag": "unit"}, 1, 0), ({"side": "right", "layout": "nt"}, 0, 0), ({"side": "right", "layout": "nn", "uplo": "upper"}, 1, 1),
        ({"side": "right", "layout": "nt", "matrices": 9}, 0, 0))),
])
def test_the_example_of_a_system_takes_what_is_right_and_nothing_else(options, turned, below, tmp_path):
    right = options.get("side") == "right"
    exporter.export(*prepared(problem={"kind": "trsm", "m": 512, "n": 512, "k": 512, **options}), folder := tmp_path / "out", name="lab_gemm")
    batched = "matrices" in options
    (folder / "library.cpp").write_text(BATCHED_SYSTEM + HOST_SYSTEM.replace(" lab_gemm(", " one(").replace("_bytes(int m, int n)", "_bytes(int m, int n, int)")
                                        .replace("_bytes(m, n)", "_bytes(m, n, 1)") if batched else HOST_SYSTEM)
    example = ran(folder, f"-DRIGHT={int(right)}", f"-DBELOW={below}", f"-DTURNED={turned}", f"-DUNIT={int(options.get('diag') == 'unit')}")
    good = example()
    assert (good.returncode, good.stdout.count("ok "), good.stdout.count("FAILED")) == (0, 7 if batched else 5, 0), good.stdout
    for fault in range(1, 5):
        wrong = example(FAULT=str(fault))
        assert wrong.returncode == 1 and wrong.stdout.count("FAILED") == 1, fault
    assert not batched or example(FAULT="5").stdout.count("FAILED") == 1, "of the last system alone"
    refused = example(FAULT="6")
    assert (refused.returncode, refused.stderr) == (1, "lab_gemm: refused\n") and "FAILED" not in refused.stdout
    manifest = json.loads((folder / "manifest.json").read_text())
    assert violations(manifest, SCHEMA, SCHEMA) == [] and list(manifest["operands"]) == ["b" if right else "a", "c"]
    told = manifest["rounds"]
    assert (told["block"], told["unknowns"], told["triangle"], told["below"]) == (256, "n" if right else "m", "b" if right else "a", bool(below))
    codes = dict(re.findall(r"lab_gemm_BAD_(\w+) = -(\d+)", (folder / "lab_gemm.h").read_text()))
    of = "B" if right else "A"
    if batched:
        assert codes == {"M": "1", "N": "2", of: "4", f"LD{of}": "5", "C": "7", "LDC": "8", "STRIDE_C": "9", "BATCH": "10", "WORKSPACE": "11", "WORKSPACE_BYTES": "12"}
        assert "stride_a is C's" in told["rule"]
        return
    assert codes == {"M": "1", "N": "2", of: "4", f"LD{of}": "5", "C": "6", "LDC": "7", "WORKSPACE": "8", "WORKSPACE_BYTES": "9"}


# ---- foreign compilers


@pytest.mark.slow
@pytest.mark.parametrize(("standard", "case"), covering(itertools.product(["c89", "c99", "c17", "c++98", "c++20"], CASES)))
def test_the_header_is_clean_in_c_and_cxx(case, standard, tmp_path):
    [compiler] = need("g++" if "+" in standard else "gcc")
    folder = exported(tmp_path / "out", case)
    run(compiler, f"-std={standard}", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
        "-x", "c++" if "+" in standard else "c", "lab_gemm.h", cwd=folder)


@pytest.mark.parametrize("case", ["ootomo-nn", "mi210-nn"])
def test_the_sizes_compile_alone_and_need_neither_cuda_nor_hip(case, tmp_path):
    gcc, nm = need("gcc", "nm")
    folder = exported(tmp_path / "out", case)
    run(gcc, "-x", "c", "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c", source_file(case), "-o", "sizes.o", cwd=folder)
    symbols = [line.split() for line in run(nm, folder / "sizes.o").splitlines()]
    assert [s[-1] for s in symbols if s[-2] == "T"] == ["lab_gemm_workspace_bytes"]
    assert not [s for s in symbols if s[-2] == "U"]
    seen = [run(gcc, "-E", "-x", "c", *shared, "lab_gemm.h", cwd=folder).count("visibility") > 0 for shared in ((), ("-DLAB_GEMM_SHARED",))]
    assert seen == [False, True], "of a library with hidden names its functions are hidden, too, unless it asks for them"


def toolkit() -> Path:
    """The folder of the CUDA toolkit that nvcc belongs to."""
    [nvcc] = need("nvcc")
    text = subprocess.run([nvcc, "-v", "--dryrun", "x.cu"], capture_output=True, text=True).stderr
    return Path(re.search(r"^#\$ TOP=(.*)$", text, re.M)[1].strip()).resolve()


def built_as_the_readme_says(folder: Path) -> None:
    """What the README says to do by hand; nvcc holds the arguments against the kernels' own."""
    nvcc, gxx, ar = need("nvcc", "g++", "ar")
    [told] = re.findall(r"^    nvcc (.*)$", (folder / "README.md").read_text(), re.M)
    run(nvcc, *told.split(), "-Xcompiler=-Wall,-Wextra,-Werror", cwd=folder)
    run(ar, "rcs", "liblab_gemm.a", "lab_gemm.o", cwd=folder)
    top = toolkit()
    run(gxx, "-Wall", "-Wextra", "-Werror", "-I.", "example.cpp", "liblab_gemm.a", f"-I{top}/include", f"-L{top}/lib64", "-lcudart",
        "-o", "example", cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(["scaled-tt", "wgmma-nt", "wgmma-tn"], 1))
def test_the_launcher_compiles_and_links_with_a_foreign_program(case, tmp_path):
    built_as_the_readme_says(exported(tmp_path / "out", case))


@pytest.mark.slow
def test_cmake_builds_installs_and_serves_a_project_in_plain_c(tmp_path):
    cmake, gcc, pkg_config, _, _ = need("cmake", "gcc", "pkg-config", "nvcc", "g++")
    exported(tmp_path / "out")
    user = tmp_path / "user"
    user.mkdir()
    (user / "main.c").write_text(
        '#include "lab_gemm.h"\n#include <stdio.h>\n'
        'int main(void) { return puts(lab_gemm_error_string(lab_gemm(-1, 0, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0))) < 0; }\n'
    )
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C)\nfind_package(lab_gemm 0.1 REQUIRED)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user PRIVATE lab_gemm::lab_gemm)\n"
    )
    run(cmake, "-S", "out", "-B", "build", cwd=tmp_path)
    run(cmake, "--build", "build", cwd=tmp_path)
    run(cmake, "--install", "build", "--prefix", tmp_path / "prefix", cwd=tmp_path)
    assert sorted(os.listdir(tmp_path / "out")) == sorted(contents(tmp_path / "out"))  # the source folder stays as it was
    run(cmake, "-S", "user", "-B", "user-build", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}", cwd=tmp_path)
    run(cmake, "--build", "user-build", cwd=tmp_path)
    assert run(tmp_path / "user-build" / "user") == "m: below 0 or above the largest extent\n"

    library = toolkit() / "lib64"
    env = os.environ | {"PKG_CONFIG_PATH": str(tmp_path / "prefix/lib/pkgconfig"), "LD_LIBRARY_PATH": str(library)}
    flags = run(pkg_config, "--cflags", "--libs", "lab_gemm", env=env).split()
    run(gcc, "user/main.c", *flags, f"-L{library}", "-o", "by-pkg-config", cwd=tmp_path)
    assert run(tmp_path / "by-pkg-config", env=env) == "m: below 0 or above the largest extent\n"


def test_a_kernel_that_overlaps_is_launched_so_where_one_of_ours_came_before(tmp_path):
    """A launch that is skipped, or that another library made, promises nothing to wait for."""
    told = {case: (exported(tmp_path / case, case) / "lab_gemm.cu").read_text() for case in ("ootomo-nn", "wgmma-nt", "wgmma-tn")}
    assert "overlaps" not in told["ootomo-nn"] and "cudaLaunchKernelExC" not in told["ootomo-nn"]
    for case, before in (("wgmma-nt", [None, 0]), ("wgmma-tn", [None, 0])):
        wanted = ["false" if at is None else f"at.blocks[{at}] > 0" for at in before]
        assert re.findall(r"^        at\.blocks\[\d\], \d+, \d+, (.*), queue,$", told[case], re.M) == wanted
        assert "cudaLaunchAttributeProgrammaticStreamSerialization" in told[case] and "CUDART_VERSION >= 12030" in told[case]
        manifest = json.loads((tmp_path / case / "manifest.json").read_text())
        assert [launch["overlaps"] for launch in manifest["launches"]] == [at is not None for at in before]


def test_an_instruction_of_one_target_is_compiled_for_it_alone(tmp_path):
    folder = exported(tmp_path / "out", "wgmma-nt")
    assert "set(kernel_architectures 90a)" in (folder / "CMakeLists.txt").read_text()
    assert "-gencode arch=compute_90a,code=sm_90a" in (folder / "README.md").read_text()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["target"]["arch"] == "sm_90a"
    gemm = manifest["launches"][-1]
    assert (gemm["cluster"], gemm["most_blocks"]) == (2, 132) and manifest["plan"]["cluster"] == 2
    assert manifest["launches"][0]["most_blocks"] is None


# ---- names


@pytest.mark.parametrize("name", [
    "", "1st", "_hidden", "has-dash", "has space", "two__underscores", "x" * 64, "größe", "a/b", "../x", "x\n", "float", "template",
    "main", "STRING", "math", "cuda_runtime", "test", "size_t",
])
def test_a_name_that_will_not_do_is_refused_before_anything_is_written(name, tmp_path):
    with pytest.raises(SpecError) as refused:
        exporter.export(*prepared(), tmp_path / "out", name=name)
    assert refused.value.remedy and refused.value.got == name
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["x", "sgemm", "Lab_GEMM_2", "x" * 63])
def test_other_names_will(name, tmp_path):
    folder = exported(tmp_path / "out", name=name)
    assert f"int {name}(" in (folder / f"{name}.h").read_text()


# ---- all or nothing


def test_an_earlier_export_is_replaced_and_the_users_files_stay(tmp_path):
    folder = exported(tmp_path / "out", name="old_name")
    (folder / "build").mkdir()
    (folder / "build" / "keep.o").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    exported(folder, "scaled-tt", name="new_name")
    found = contents(folder)
    assert found.pop("notes.txt") == found.pop("build/keep.o") == b"mine"
    assert found == contents(exported(tmp_path / "fresh", "scaled-tt", name="new_name"))
    assert sorted(os.listdir(tmp_path)) == ["fresh", "out"]


def test_folders_that_an_earlier_export_leaves_empty_go_with_it(tmp_path):
    """However deep they lie; one with a file of the user's stays."""
    def put(*files: str) -> None:
        manifest = {"generator": "gemmgen 0", "schema_version": 2, "sha256": dict.fromkeys(files, "")}
        exporter.folder.put(tmp_path / "out", False, lambda: {**dict.fromkeys(files, b"x"), "manifest.json": json.dumps(manifest).encode()})

    put("top.txt", "a/b/one.txt", "a/b/c/two.txt", "d/three.txt", "d/e/four.txt")
    (tmp_path / "out" / "d" / "mine.txt").write_text("mine")
    put("top.txt")
    assert {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*")} == {"top.txt", "manifest.json", "d", "d/mine.txt"}


def test_a_folder_with_something_else_is_refused_unless_forced(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "README.md").write_text("mine")
    (folder / "other.txt").write_text("mine")
    with pytest.raises(GemmgenError, match="holds something else") as refused:
        exported(folder)
    assert "--force" in refused.value.remedy and contents(folder) == {"README.md": b"mine", "other.txt": b"mine"}
    exporter.export(*prepared(), folder, name="lab_gemm", force=True)
    found = contents(folder)
    assert found.pop("other.txt") == b"mine"
    assert found == contents(exported(tmp_path / "fresh"))


@pytest.mark.parametrize("manifest", [
    "", "[]", "{}", '{"generator": "npm 1", "schema_version": 1, "sha256": {}}',
    '{"generator": "gemmgen 9", "schema_version": 99, "sha256": {"other.txt": ""}}', '{"generator": 1}', "\xff",
])
def test_a_foreign_manifest_makes_no_export(manifest, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "manifest.json").write_text(manifest)
    (folder / "other.txt").write_text("mine")
    with pytest.raises(GemmgenError, match="holds something else"):
        exported(folder)


def test_a_manifest_cannot_have_files_outside_its_folder_removed(tmp_path):
    folder = exported(tmp_path / "out")
    (tmp_path / "victim").write_text("mine")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"] |= {"../victim": "", str(tmp_path / "victim"): "", "..": "", ".": "", "": ""}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    exported(folder)
    assert (tmp_path / "victim").read_text() == "mine"


def test_a_file_where_the_folder_should_be_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(GemmgenError, match="is not a folder"):
        exported(tmp_path / "out")
    with pytest.raises(GemmgenError, match="cannot be written"):
        exported(tmp_path / "out" / "below")


def test_a_link_to_a_folder_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "out").symlink_to("real")
    exported(tmp_path / "out")
    assert (tmp_path / "out").is_symlink() and len(os.listdir(tmp_path / "real")) == 8


def before_absent(place: Path) -> Path:
    return place / "deep" / "out"


def before_earlier_export(place: Path) -> Path:
    (exported(place / "out", "scaled-tt", name="old_name") / "mine.txt").write_text("mine")
    return place / "out"


def before_other_files(place: Path) -> Path:
    (place / "out").mkdir()
    (place / "out" / "README.md").write_text("mine")
    return place / "out"


def failing_at(call: int, real, error: BaseException):
    """A stand-in for a function that fails at one call, counted from 0, and works before and after."""
    calls = iter(range(1000))

    def stand_in(*arguments, **named):
        if next(calls) == call:
            raise error
        return real(*arguments, **named)

    return stand_in


BEFORE = {"absent": before_absent, "earlier export": before_earlier_export, "other files": before_other_files}
ERRORS = {"disk": OSError(28, "No space left on device"), "interrupt": KeyboardInterrupt()}
CALLS = {"rename": (os, 8), "write_bytes": (Path, 8), "mkdir": (Path, 3)}


@pytest.mark.parametrize(("before", "error", "function"), covering(itertools.product(BEFORE, ERRORS, CALLS)))
def test_whatever_fails_leaves_what_was_there(before, error, function, tmp_path, monkeypatch):
    """Each call that can fail fails once; at the end, when none is left, the export succeeds."""
    prepare, error, (owner, least) = BEFORE[before], ERRORS[error], CALLS[function]
    request = prepared()
    real = getattr(owner, function)
    for call in range(100):
        place = tmp_path / str(call)
        place.mkdir()
        folder = prepare(place)
        state, listed = contents(place), sorted(place.rglob("*"))
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, failing_at(call, real, error))
            try:
                exporter.export(*request, folder, name="lab_gemm", force=True)
                break
            except (GemmgenError, KeyboardInterrupt):
                pass
        assert contents(place) == state
        assert sorted(place.rglob("*")) == listed  # no folder is left either
    assert least <= call < 100
    assert "lab_gemm.h" in os.listdir(folder)


# ---- the verb


def test_the_verb_writes_and_tells(gemmgen, write_spec, tmp_path, monkeypatch):
    plan, source, binary = prepared()
    monkeypatch.setattr("gemmgen.build.choice.build", lambda source, **options: binary)
    spec = write_spec("[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n")
    ran = gemmgen("export", spec, "-o", tmp_path / "out", "--name", "lab_gemm")
    assert ran.code == 0 and ran.out.count("\n") == 9 and "\nverdict    " in ran.out and str(tmp_path / "out" / "lab_gemm.h") in ran.out
    assert contents(tmp_path / "out") == contents(exported(tmp_path / "same"))
    told = json.loads(gemmgen("export", spec, "-o", tmp_path / "out", "--json").out)
    assert told["name"] == exporter.default_name(plan) and told["kernel"] == source.name
    assert sorted(told["files"]) == sorted(str(path) for path in (tmp_path / "out").iterdir())


def test_the_verb_refuses_with_a_remedy(gemmgen, write_spec, tmp_path):
    ran = gemmgen("export", write_spec(), "-o", tmp_path / "out", "--name", "float")
    assert ran.code == 2 and "try    --name my_float" in ran.err and not (tmp_path / "out").exists()
    assert gemmgen("export", write_spec()).code == 2
