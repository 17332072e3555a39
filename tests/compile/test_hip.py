"""The real clang and lld: HIP source to AMDGPU assembly, code object and resources, without ROCm or a GPU."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gemmgen.build import Binary, build, clang, compile_hip, find_clang, hip, read_code_object
from gemmgen.cache import Cache
from gemmgen.build.code_object import Argument
from gemmgen.build.request import Request
from gemmgen.errors import BuildError, ResourceError
from gemmgen.render import Source

pytest.importorskip("ziglang", reason="no compiler for HIP: pip install 'gemmgen[rocm]'")

KERNEL = 'extern "C" __attribute__((global)) void '

MATRIX = """\
typedef _Float16 words __attribute__((ext_vector_type(WORDS)));
typedef float sums __attribute__((ext_vector_type(SUMS)));
extern "C" __attribute__((global, amdgpu_flat_work_group_size(1, 2 * WAVE))) void
product(const words* a, const words* b, sums* c, int steps) {
    __attribute__((shared)) sums tile[2 * WAVE];
    int lane = __builtin_amdgcn_workitem_id_x();
    sums sum = {};
    for (int k = 0; k < steps; ++k) sum = MULTIPLY(a[lane + 2 * WAVE * k], b[lane + 2 * WAVE * k], sum MORE);
    tile[lane] = sum;
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    c[lane] = tile[lane ^ WAVE];
}
"""
MFMA = {"WORDS": 4, "SUMS": 4, "WAVE": 64, "MULTIPLY": "__builtin_amdgcn_mfma_f32_16x16x16f16", "MORE": ", 0, 0, 0"}
WMMA = {"WORDS": 16, "SUMS": 8, "WAVE": 32, "MULTIPLY": "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32", "MORE": ""}
WMMA_12 = WMMA | {"WORDS": 8, "MULTIPLY": "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12"}
UNITS = {"gfx908": MFMA, "gfx90a": MFMA, "gfx942": MFMA, "gfx950": MFMA, "gfx1100": WMMA, "gfx1201": WMMA_12}

COPY = KERNEL + """copy(const float* a, float* c) {
    int i = __builtin_amdgcn_workitem_id_x();
    c[i] = 2 * a[i];
}
"""

SPILL = KERNEL.replace("global", "global, amdgpu_num_vgpr(24)") + """many(const float* a, float* c) {
    int i = __builtin_amdgcn_workitem_id_x();
    float x[64];
#pragma unroll
    for (int j = 0; j < 64; ++j) x[j] = a[i + 256 * j];
    __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int j = 0; j < 64; ++j) c[i + 256 * j] = x[j] * x[63 - j] + x[j * 7 % 64];
}
"""

ACCUMULATION = KERNEL + """accumulation(float* c) {
    int i = __builtin_amdgcn_workitem_id_x();
    float x[12];
#pragma unroll
    for (int j = 0; j < 12; ++j) asm volatile("v_accvgpr_write_b32 %0, %1" : "=a"(x[j]) : "v"(c[i + 64 * j]));
    __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int j = 0; j < 12; ++j) c[i + 64 * j] = x[j];
}
"""

ARRAY = KERNEL + """array(const float* a, float* c, int n) {
    float x[40];
    for (int j = 0; j < 40; ++j) x[j] = a[j * n];
    for (int j = 0; j < n; ++j) c[j] = x[j * n % 40];
}
"""

RECURSION = """
__attribute__((device, noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
""" + KERNEL + "recursion(int* c) { c[0] = fib(c[0]); }"

SCALARS = KERNEL.replace("global", "global, amdgpu_num_sgpr(24)") + """scalars(const int* a) {
    int x[64];
#pragma unroll
    for (int j = 0; j < 64; ++j) x[j] = a[1 + 3 * j];
    __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int j = 0; j < 64; ++j) asm volatile("; %0" :: "s"(x[j]));
    __builtin_amdgcn_s_barrier();
#pragma unroll
    for (int j = 0; j < 64; ++j) asm volatile("; %0" :: "s"(x[63 - j]));
}
"""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    """No cache of the user's, and the wheel's compiler."""
    monkeypatch.setenv("GEMMGEN_CACHE", "off")
    monkeypatch.delenv("GEMMGEN_HIPCC", raising=False)


def refused(text: str, arch: str = "gfx90a", **arguments) -> BuildError:
    with pytest.raises(BuildError) as caught:
        compile_hip(text, arch, **{"cache": None, **arguments})
    return caught.value


def matrix_kernel(arch: str) -> str:
    text = MATRIX
    for word, value in UNITS[arch].items():
        text = re.sub(rf"\b{word}\b", str(value), text)
    return text


def assert_as_told(binary: Binary) -> None:
    """A second account of resources, the assembly's: its directives, and the comments behind the code."""
    blocks = re.findall(r"^\t\.amdhsa_kernel (\w+)$(.*?)^\t\.end_amdhsa_kernel$", binary.assembly, re.M | re.S)
    assert {name for name, _ in blocks} == set(binary.kernels)
    for name, block in blocks:
        used = binary.kernels[name]
        told = {key: int(value) for key, value in re.findall(r"\.amdhsa_(\w+) (\d+)", block)}
        assert told["group_segment_fixed_size"] == used.static_shared_bytes
        assert told["private_segment_fixed_size"] == used.scratch_bytes
        assert told["kernarg_size"] == used.kernarg_bytes
        assert (32 if told.get("wavefront_size32") else 64) == used.wavefront_size
        assert told["uses_dynamic_stack"] == (used.stack_bytes is None)

        behind = binary.assembly[binary.assembly.index(f"\t.size\t{name}, ") :]
        comments = dict(re.findall(r"^; (\w+): (\d+)$", behind.partition("; Kernel info:")[2].partition("\t.text")[0], re.M))
        total = int(comments.get("TotalNumVgprs", comments["NumVgprs"]))
        assert (total, int(comments["TotalNumSgprs"])) == (used.registers, used.sgprs)
        assert int(comments.get("NumAgprs", 0)) == used.agprs
        if binary.arch.startswith("gfx9"):  # elsewhere the comment is an estimate
            assert int(re.search(r"^; codeLenInByte = (\d+)$", behind, re.M)[1]) == used.code_bytes
        # On gfx908 clang asks for more than it uses, lest more wavefronts be resident than it planned for.
        assert told["next_free_vgpr"] == total or binary.arch == "gfx908" and told["next_free_vgpr"] > total


# --- what is compiled, and what it uses ---------------------------------------------------------


@pytest.mark.parametrize("arch", UNITS)
def test_a_matrix_kernel_uses_what_its_assembly_says(arch):
    binary = compile_hip(matrix_kernel(arch), arch, cache=None)
    used, wave = binary.kernels["product"], UNITS[arch]["WAVE"]
    assert_as_told(binary)
    assert (binary.arch, binary.source_name, binary.compiler) == (arch, "kernel.hip", find_clang().name)
    assert used.static_shared_bytes == 2 * wave * 4 * UNITS[arch]["SUMS"]
    assert (used.wavefront_size, used.max_flat_workgroup_size) == (wave, 2 * wave)
    assert (used.spill_bytes, used.stack_bytes, used.vgpr_spills) == (0, 0, 0)
    assert used.arguments == (*(Argument(at, 8, "global_buffer") for at in (0, 8, 16)), Argument(24, 4, "by_value"))
    assert re.search(r"^\tv_w?mf?ma_f32_16x16x16_?f16 ", binary.assembly, re.M)
    assert f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"' in binary.assembly


@pytest.mark.parametrize("text", [SPILL, ARRAY, SCALARS, RECURSION], ids=["spill", "array", "scalars", "recursion"])
def test_other_kernels_use_what_their_assembly_says(text):
    for arch in ("gfx908", "gfx942", "gfx1100"):
        assert_as_told(compile_hip(text, arch, cache=None, allow_spills=True))


def test_accumulation_registers_are_among_the_registers_where_they_share_a_file():
    apart, together = (compile_hip(ACCUMULATION, arch, cache=None) for arch in ("gfx908", "gfx90a"))
    assert_as_told(apart)
    assert_as_told(together)
    used = apart.kernels["accumulation"]
    assert 0 < used.agprs <= used.registers
    used = together.kernels["accumulation"]
    first = int(re.search(r"\.amdhsa_accum_offset (\d+)", together.assembly)[1])
    assert 0 < used.agprs == used.registers - first


def test_wavefronts_of_64_where_32_are_usual():
    binary = compile_hip(COPY, "gfx1100", options=["-mwavefrontsize64"], cache=None)  # the assembler must know as well
    assert_as_told(binary)
    assert binary.kernels["copy"].wavefront_size == 64


def test_every_architecture_listed_is_compiled_for():
    assert set(UNITS) <= set(hip.ARCHS)
    for arch in hip.ARCHS:
        assert compile_hip(COPY, arch, cache=None).kernels["copy"].registers > 0


def test_what_the_runtime_adds_is_among_the_arguments():
    text = KERNEL + "k(int* c) { c[0] = __builtin_amdgcn_workgroup_size_x(); }"
    kinds = [argument.kind for argument in compile_hip(text, "gfx90a", cache=None).kernels["k"].arguments]
    assert kinds[0] == "global_buffer" and "hidden_group_size_x" in kinds


def test_dynamic_shared_memory_is_not_static():
    text = (
        "extern __attribute__((shared)) float tile[];\n"
        + KERNEL
        + "k(float* c) { tile[__builtin_amdgcn_workitem_id_x()] = c[0]; __builtin_amdgcn_s_barrier(); c[1] = tile[c[0] > 1]; }"
    )
    assert compile_hip(text, "gfx90a", cache=None).kernels["k"].static_shared_bytes == 0


def test_resources_are_read_again_from_the_code():
    binary = compile_hip(matrix_kernel("gfx90a"), "gfx90a", cache=None)
    assert read_code_object(binary.code) == binary.kernels


def test_a_rendered_source_goes_to_the_compiler_of_its_architecture():
    source = Source(name="copy", text=COPY, suffix=".hip", interface=None, arch="gfx1100", allow_spills=False)
    binary = build(source)
    assert (binary.arch, binary.source_name, set(binary.kernels)) == ("gfx1100", "copy.hip", {"copy"})


# --- spills -------------------------------------------------------------------------------------


def test_spills_are_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(ResourceError) as caught:
        compile_hip(SPILL + COPY, "gfx90a", name="gemm.hip", cache=Cache(tmp_path))
    allowed = compile_hip(SPILL + COPY, "gfx90a", name="gemm.hip", cache=Cache(tmp_path), allow_spills=True)
    many = allowed.kernels["many"]
    assert many.vgpr_spills > 0 < many.spill_bytes == many.stack_bytes == many.scratch_bytes
    assert str(caught.value) == (
        "gemm.hip: kernel many: uses scratch memory on gfx90a\n"
        "  needs  0 B of scratch\n"
        f"  has    48 registers a thread, {many.vgpr_spills} stores of spilled registers, {many.scratch_bytes} B of scratch\n"
        "  try    a smaller warp tile, fewer accumulators, or allow spills in the spec"
    )
    assert allowed.from_cache  # what was built is kept, whatever the caller thinks of it


@pytest.mark.parametrize("text", [ARRAY, RECURSION], ids=["array", "recursion"])
def test_scratch_without_a_spilled_register_is_refused_too(text):
    with pytest.raises(ResourceError, match="uses scratch memory"):
        compile_hip(text, "gfx90a", cache=None)


def test_scalars_that_are_spilled_to_lanes_cost_no_memory():
    used = compile_hip(SCALARS, "gfx90a", cache=None).kernels["scalars"]
    assert used.sgpr_spills > 0 == used.spill_bytes


# --- bytes --------------------------------------------------------------------------------------


def test_line_information_names_the_source_and_changes_no_code():
    binary = compile_hip(COPY, "gfx90a", name="folder/copy.hip", cache=None)
    assert re.findall(r"^\s*\.file\s+(.*?) md5", binary.assembly, re.M) == ['0 "." "folder/copy.hip"']
    assert re.search(r"^\s*\.loc\s+0 3 ", binary.assembly, re.M)  # the multiplication
    without = compile_hip(COPY, "gfx90a", name="folder/copy.hip", options=["-g0"], cache=None)
    assert ".loc" not in without.assembly
    assert without.code == binary.code


def test_bytes_do_not_depend_on_where_and_nothing_else_is_written(tmp_path, monkeypatch):
    built = []
    for place in ("here", "there/deeper"):
        folder = tmp_path / place
        for name in ("home", "tmp", "cwd"):
            (folder / name).mkdir(parents=True)
        monkeypatch.setenv("HOME", str(folder / "home"))
        monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
        monkeypatch.setenv("CPATH", str(folder))
        monkeypatch.setenv("CCC_OVERRIDE_OPTIONS", "+-O0")
        monkeypatch.chdir(folder / "cwd")
        built.append(compile_hip(COPY, "gfx90a", cache=None))
        assert not [path for name in ("home", "tmp", "cwd") for path in (folder / name).iterdir()]
    assert built[0] == built[1]
    for content in (built[0].code, built[0].assembly.encode()):
        assert str(tmp_path).encode() not in content and b"gemmgen" not in content


def test_threads_get_the_same_bytes():
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: compile_hip(COPY, "gfx942", cache=None), range(8)))
    assert all(binary == built[0] for binary in built)


@pytest.mark.parametrize(("text", "asked", "given"), [(COPY, True, True), (COPY, False, False), ("#include <own.h>\n" + COPY, True, False)])
def test_lines_are_kept_where_they_are_asked_for_and_tell_of_no_folder(text, asked, given):
    options = hip._options(Request(text, "gfx942", "copy.hip", ()), asked)
    assert set(options).issuperset(hip._LINE_INFO) == given and hip._LINE_INFO


def test_the_assembler_knows_the_machine_and_no_other_option(monkeypatch):
    told, assemble = [], clang.Clang.assemble
    monkeypatch.setattr(clang.Clang, "assemble", lambda self, assembly, options, out: told.append(options) or assemble(self, assembly, options, out))
    compile_hip(COPY, "gfx1100", options=["-mwavefrontsize64", "-mllvm", "-amdgpu-early-inline-all=true", "-DN=1"], cache=None)
    assert told == [("-mcpu=gfx1100", "-mwavefrontsize64")]


def test_the_second_time_it_comes_from_the_cache(tmp_path):
    start = time.perf_counter()
    first = compile_hip(COPY, "gfx90a", cache=Cache(tmp_path))
    assert 0 < first.seconds <= time.perf_counter() - start
    second = compile_hip(COPY, "gfx90a", cache=Cache(tmp_path))
    assert (first.from_cache, second.from_cache) == (False, True)
    assert first == second and first.seconds == second.seconds


def test_the_key_holds_all_that_determines_the_bytes():
    built = [
        compile_hip(COPY, "gfx90a", cache=None),
        compile_hip(COPY + "\n", "gfx90a", cache=None),
        compile_hip(COPY, "gfx942", cache=None),
        compile_hip(COPY, "gfx90a", cache=None, name="other.hip"),
        compile_hip(COPY, "gfx90a", cache=None, options=["-O1"]),
    ]
    assert len({binary.key for binary in built}) == len(built)
    request = Request(COPY, "gfx90a", "kernel.hip", ())
    other = dataclasses.replace(find_clang(), identity="clang version 23")
    keys = [request.key(compiler, hip._options(request, True)) for compiler in (find_clang(), other)]
    assert keys[0] == built[0].key != keys[1]


def test_headers_of_ones_own(tmp_path):
    (tmp_path / "value.h").write_text("#define VALUE 3")
    text = '#include "value.h"\n' + COPY.replace("2 *", "VALUE *")
    for _ in range(2):  # the key does not know what the header says
        binary = compile_hip(text, "gfx90a", options=[f"-I{tmp_path}"], cache=Cache(tmp_path / "cache"))
        assert not binary.from_cache
        assert str(tmp_path) not in binary.assembly


# --- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "told", "got", "remedy"),
    [
        (KERNEL + "k(float* c) {\n  c[0] = 1 }", "kernel.hip:2:11", "expected ';' after expression", "c[0] = 1 }", None),
        (
            KERNEL + "k(float* c) {\n f(c);\n g(c); }", "kernel.hip:2:2",
            "undeclared identifier 'f' (the first of 2 errors)", "f(c);", None,
        ),
        (
            "#include <hip/hip_runtime.h>", "kernel.hip:1:10",
            "file not found", "#include <hip/hip_runtime.h>", "without headers",
        ),
        (
            'extern "C" __global__ void k();', "kernel.hip:1:12",
            "'__global__'", 'extern "C" __global__ void k();', "__attribute__((global))",
        ),
        (
            KERNEL + "k(int* c) {\n c[threadIdx.x] = 1; }", "kernel.hip:2:4",
            "'threadIdx'", "c[threadIdx.x] = 1; }", "workitem_id_x",
        ),
        (
            matrix_kernel("gfx950").replace("16x16x16f16", "16x16x32_f16").replace("(4)", "(8)", 1), "kernel.hip:8:43",
            "needs target feature gfx950-insts", None, "an instruction that gfx90a has",
        ),
        (
            KERNEL + "k(float* c) {\n asm volatile(\"v_foo_b32 %0\" :: \"v\"(c)); }", "kernel.hip:2",
            "invalid instruction", "v_foo_b32 v[0:1]", None,
        ),
        (
            "__attribute__((device)) int f(int);\n" + KERNEL + "k(int* c) { c[0] = f(c[0]); }", "kernel.hip",
            "undefined hidden symbol: f(int)", None, "define it in the source",
        ),
        (
            KERNEL + "k(float* c) {\n __attribute__((shared)) float x[20000];\n x[__builtin_amdgcn_workitem_id_x()] = c[0];"
            "\n __builtin_amdgcn_s_barrier();\n c[1] = x[c[0] > 1]; }", "kernel.hip:1:41",
            "local memory (80000) exceeds limit (65536)", KERNEL + "k(float* c) {", "a smaller tile",
        ),
    ],
    ids=["syntax", "several", "header", "global", "index", "feature", "assembler", "linker", "memory"],
)
def test_a_source_that_does_not_compile(text, where, told, got, remedy):
    error = refused(text)
    assert error.where == where
    assert error.problem.startswith("does not compile for gfx90a: ") and told in error.problem
    assert got is None or error.got == got
    assert error.remedy is None if remedy is None else remedy in error.remedy
    assert "error: " in error.__notes__[0]  # the whole log
    assert "/tmp" not in str(error)


def test_a_crash_of_the_compiler_leaves_its_reason_and_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    text = matrix_kernel("gfx90a").replace("16x16x16f16", "16x16x16bf16_1k").replace("_Float16", "short")
    error = refused(text, "gfx908")
    assert "Cannot select: intrinsic" in error.problem and "errors" not in error.problem
    assert "gfx908" in error.remedy
    assert not list(tmp_path.iterdir())


def test_a_source_without_kernels():
    for text in ("", "__attribute__((device)) int f() { return 1; }"):
        assert "defines no kernel" in refused(text).problem


def test_an_architecture_it_does_not_know():
    for arch in ("gfx999", "gfx906", "sm_80", "gfx90a:xnack+"):
        error = refused(COPY, arch)
        assert (error.where, error.got) == ("kernel.hip", arch)
        assert "gfx90a" in error.needs and "gfx1201" in error.needs and "generic" not in error.needs


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"options": ["--bogus"]}, "--bogus"),
        ({"options": ["--offload-arch=gfx942"]}, "an argument, not an option"),
        ({"options": ["-mcpu=gfx942"]}, "an argument, not an option"),
        ({"options": "-g"}, "a list of strings"),
        ({"options": ["-DX=\0"]}, "not text"),
        ({"options": ["-fsyntax-only"]}, "no assembly"),
        ({"options": ["-E"]}, "stop the compiler early"),
        ({"name": "/etc/kernel.hip"}, "relative path"),
        ({"name": "a/../../kernel.hip"}, "relative path"),
        ({"name": ".."}, "relative path"),
        ({"name": "-o.hip"}, "relative path"),
        ({"text": COPY + "// \ud800"}, "not text"),
    ],
)
def test_requests_that_cannot_be_served(arguments, told):
    assert told in str(refused(**{"text": COPY, **arguments}))


# --- the compiler itself ------------------------------------------------------------------------


def program(path: Path, *command: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + "\n".join(command) + "\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def zig() -> str:
    return find_clang().driver[0]


def rocm(folder: Path, version: str = "19.0.0git") -> Path:
    """A stand-in for ROCm: its names and folders, another version, and zig's programs."""
    told = f"AMD clang version {version} (https://github.com/ROCm/llvm-project roc-6.4.0)"
    llvm = folder / "lib" / "llvm" / "bin"
    program(llvm / "clang++", f'if [ "$1" = --version ]; then echo "{told}"; exit; fi', f'exec {zig()} clang "$@"')
    program(llvm / "ld.lld", f'exec {zig()} ld.lld "$@"')
    (llvm / "amdclang++").symlink_to("clang++")
    (folder / "bin").mkdir()
    (folder / "bin" / "amdclang++").symlink_to("../lib/llvm/bin/amdclang++")
    program(folder / "bin" / "hipcc", "exit 1")  # which gemmgen does not run, but what stands behind it
    return folder / "bin"


@pytest.mark.parametrize("name", ["hipcc", "amdclang++"])
def test_a_compiler_of_ones_own(name, tmp_path, monkeypatch):
    there, cache = rocm(tmp_path / "rocm"), Cache(tmp_path / "cache")
    own = compile_hip(COPY, "gfx90a", compiler=there / name, cache=cache)
    usual = compile_hip(COPY, "gfx90a", cache=cache)
    assert own.compiler == "AMD clang 19.0.0git" != usual.compiler
    assert own.code == usual.code and own.key != usual.key  # zig's after all, but the key cannot know
    monkeypatch.setenv("PATH", f"{there}{os.pathsep}{os.environ['PATH']}")
    assert compile_hip(COPY, "gfx90a", compiler=name, cache=cache).from_cache
    monkeypatch.setenv("GEMMGEN_HIPCC", name)
    assert compile_hip(COPY, "gfx90a", cache=cache).key == own.key


@pytest.mark.parametrize("part", ["clang++", "ld.lld", None])
def test_another_clang_or_another_lld_is_another_compiler(tmp_path, part):
    """What the cache knows of them; where they lie is none of it."""
    found = []
    for folder in ("one", "other"):
        there = rocm(tmp_path / folder)
        llvm = there.parent / "lib" / "llvm" / "bin"
        for name in ("clang++", "ld.lld"):
            version = "2" if (name, folder) == (part, "other") else "1"
            told = f"AMD clang version 19.0.{version}" if name == "clang++" else f"LLD 19.0.{version}"
            program(llvm / name, f'if [ "$1" = --version ]; then echo "{told}"; exit; fi', "echo '  gfx90a'")
        found.append(find_clang(there / "amdclang++"))
    assert (found[0].identity == found[1].identity) == (part is None) and found[0].archs == ("gfx90a",)


def test_no_compiler_says_what_to_install(monkeypatch):
    monkeypatch.setattr(clang.importlib.util, "find_spec", lambda name: None)
    error = refused(COPY)
    assert "was not found" in str(error)
    assert "pip install 'gemmgen[rocm]'" in error.remedy and "GEMMGEN_HIPCC" in error.remedy


def test_compilers_that_are_none(tmp_path):
    assert "is no program" in refused(COPY, compiler=tmp_path / "nowhere").problem
    alone = program(tmp_path / "alone" / "clang", f'exec {zig()} clang "$@"')
    assert "no lld" in refused(COPY, compiler=alone).problem
    program(tmp_path / "other" / "ld.lld", "exit 0")
    gcc = program(tmp_path / "other" / "clang", "echo gcc 14")
    assert "is not clang" in refused(COPY, compiler=gcc).problem
    broken = program(tmp_path / "other" / "amdclang++", "")
    broken.write_bytes(b"\x7fELF\x02\x01\x01")
    assert "cannot be run" in refused(COPY, compiler=broken).problem
