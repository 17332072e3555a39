"""Compilers that are told to warn of everything have nothing to say of generated kernels.

Only their front ends run, which takes a tenth of a second: who includes a kernel may build with warnings as errors.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gemmgen.build import find_clang, find_compiler
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from ways import AMD_WAYS, WAYS, plan_of

GENERATED = sorted((Path(__file__).resolve().parents[2] / "generated").iterdir())
"""Every scheme, design, layout and architecture once."""


def told(text: str, arch: str, folder: Path) -> str:
    """What the compiler says of a text: NVRTC's own warnings, or all of clang's that -Wall and -Wextra have."""
    if not arch.startswith("gfx"):
        output = find_compiler().run(text, "kernel.cu", [f"-arch={arch}", "-std=c++17", "-default-device", "-fdevice-syntax-only"])
        return output.log
    (folder / "kernel.hip").write_text(text)
    options = ("-x", "hip", "--cuda-device-only", "-nostdinc", "-nogpuinc", "-nogpulib", "--target=x86_64-unknown-linux-gnu", "-std=c++17",
               "-Wall", "-Wextra", f"--offload-arch={arch}", "-fsyntax-only", "--", "kernel.hip")
    return find_clang().compile(options, folder).stderr.decode()


def target(text: str) -> str:
    [line] = [line for line in text.splitlines() if line.startswith("// target ")][:1]
    return line.split()[-1]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.stem)
def test_a_shipped_kernel_gives_no_warning(path, tmp_path):
    text = path.read_text()
    assert told(text, target(text), tmp_path) == ""


FEW = {("thin rows", "exact"), ("mfma, three words", "exact"), ("warpgroups", "fast"), ("shared, on a T4", "exact")}
EVERY = [pytest.param(way, special, marks=() if (way, special) in FEW else pytest.mark.long) for way in (*WAYS, *AMD_WAYS) for special in ("exact", "fast")]


@pytest.mark.parametrize(("way", "special"), EVERY)
def test_nor_does_a_kernel_of_any_way(way, special, tmp_path):
    source = render(plan_of(**(WAYS | AMD_WAYS)[way], special=special))
    assert told(source.text, source.arch, tmp_path) == ""


@pytest.mark.parametrize("pointers", [False, True], ids=["by strides", "by either"])
@pytest.mark.parametrize(("gpu", "more"), [
    ("a100", {}), ("mi300x", {}), ("h100", {"split": {"scheme": "ootomo", "where": "mixed"}}), ("a100", {"split": {"scheme": "ootomo", "where": "shared"}}),
    ("rx7900xtx", {"tile": {"split_k": 2}}),
], ids=str)
def test_nor_does_one_for_strided_batches(gpu, more, pointers, tmp_path):
    design = {} if gpu == "h100" else {"pipeline": {"design": "strided"}}
    problem = {"kind": "strided", "m": 256, "n": 256, "k": 512, "matrices": 8}
    plan = solve(loads({"problem": problem, "split": {"scheme": "scaled"}, "target": {"gpu": gpu}, "build": {"allow_spills": True}, **design, **more}))
    source = render(replace(plan, batch=replace(plan.batch, pointers=pointers)))
    assert told(source.text, source.arch, tmp_path) == ""


def test_nor_does_one_warpgroup_that_shares_k_with_others(tmp_path):
    """It gathers its part by its number, which is told although there is one alone."""
    tile = {"block": [64, 64, 64], "warp": [64, 64, 64]}
    plan = plan_of(scheme="bf16x3", gpu="h100", fragment={"policy": "wgmma"}, tile=tile, stages=3, split_k=4, consumers="cooperative")
    assert plan.numbers["groups"] == 1
    source = render(plan)
    assert told(source.text, source.arch, tmp_path) == ""


@pytest.mark.parametrize(("arch", "mark"), [("sm_80", "__device__"), ("gfx90a", "__attribute__((device))")])
def test_a_function_that_nothing_calls_would_be_told(arch, mark, tmp_path):
    assert "idle" in told(f"static {mark} unsigned idle() {{ return 1; }}\n", arch, tmp_path)
