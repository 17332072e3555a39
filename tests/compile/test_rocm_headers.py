"""Exports for AMD against ROCm's own headers and runtime, warnings as errors: what a stand-in cannot show. `make rocm` fetches them."""

from __future__ import annotations

import pytest
from gemmgen import export as exporter
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from programs import need
from rocm_headers import need_rocm
from test_hip_export import CASES, FURTHER

BATCHES = {
    "mi300x, batch": {"problem": {"kind": "grouped", "m": 64, "n": 64, "k": 256}, "split": {"scheme": "ootomo"}, "target": {"gpu": "mi300x"}},
    "mi210, strided": {"problem": {"kind": "strided"}, "split": {"scheme": "ootomo"}, "target": {"gpu": "mi210"}},
}
HELD_BACK = {"mi355x": "gfx950 is for clang 20 and later"}


def written(folder, case):
    """An export without machine code, and its architectures."""
    plan = solve(loads({**(CASES | BATCHES)[case], "build": {"allow_spills": True}}))
    source = render(plan)
    archs = [plan.arch, *FURTHER.get(case, [])]
    binaries = [stand_in(plan, source, arch) for arch in archs]
    exporter.export(plan, source, binaries[0], folder, others=binaries[1:], name="lab_gemm")
    return archs


def stand_in(plan, source, arch):
    from gemmgen.build import Binary, CodeObjectResources

    used = CodeObjectResources(
        registers=64, static_shared_bytes=0, stack_bytes=0, code_bytes=4096, agprs=8, sgprs=32, scratch_bytes=0, vgpr_spills=0, sgpr_spills=0,
        wavefront_size=plan.lanes, max_flat_workgroup_size=256, kernarg_bytes=96, arguments=())
    return Binary(arch=arch, code=b"\x7fELF", assembly="", kernels={launch.symbol: used for launch in source.launches}, compiler="clang 0.0", log="",
                  key="0" * 64, source_name=source.file_name, from_cache=False, seconds=0.0)


def test_the_launcher_is_clean_under_rocms_header(tmp_path):
    rocm = need_rocm()
    [arch, *_] = written(tmp_path / "out", "mi210")
    rocm.compile(tmp_path / "out", "--cuda-host-only", f"--offload-arch={arch}", "-fsyntax-only", "lab_gemm.hip")


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in CASES | BATCHES if case not in HELD_BACK])
def test_an_export_compiles_and_links_with_its_example(case, tmp_path):
    """For all of its architectures at once; where no GPU is, the program says so."""
    rocm, [gxx] = need_rocm(), need("g++")
    folder = tmp_path / "out"
    archs = written(folder, case)
    rocm.compile(folder, *(f"--offload-arch={arch}" for arch in archs), "-O1", "-c", "lab_gemm.hip", "-o", "lab_gemm.o")
    rocm.run(folder, gxx, "-std=c++17", "-D__HIP_PLATFORM_AMD__", "-Wall", "-Wextra", "-Werror", "-isystem", rocm.prefix / "include", "-I.", "example.cpp",
             "lab_gemm.o", rocm.runtime, *(f"-Wl,-rpath-link,{one}" for one in rocm.libraries), "-o", "example")
    assert "NOT RUN: no GPU is here" in rocm.run(folder, "./example", code=77)
