"""A library's folder: what is in it, that a C compiler alone builds it, what it offers, and that nothing is lost when it is written.

Machine code is stood in for: the files are what matters here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import reference
from programs import need, run
from schema_check import violations

from gemmgen import road
from gemmgen.build import Binary, Built
from gemmgen.catalog.element import F32
from gemmgen.catalog.table import read_toml
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import GemmgenError, ResourceError, SpecError
from gemmgen.export.contents import numeric_version
from gemmgen.library import contents, made, python, shim, write
from gemmgen.library.dispatch import Part, Rule
from gemmgen.library.file import library_from
from gemmgen.library.interface import ABI
from gemmgen.library.kernel import FINISH, Image
from gemmgen.paths import SPECS
from gemmgen.render import render, render_text

SPEC = {"layouts": ["nn"], "kernels_at_most": 1, "sizes": [[512, 512, 512]],
        "use": [{"split": {"scheme": "ootomo"}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "pipeline": {"stages": 3}}]}


def stand_in(plan) -> Built:
    """A plan's kernels with a few bytes for machine code."""
    source = render(plan)
    kernels = {launch.symbol: SimpleNamespace(static_shared_bytes=0) for launch in source.launches}
    target = plan.arch if plan.arch.startswith("sm_") else "sm_75"
    binary = Binary(arch=plan.arch, code=f"code of {plan.hash}".encode(), assembly=f".version 9.0\n.target {target}\n", kernels=kernels, compiler="NVRTC 13.5",
                    log="", key="", source_name=source.file_name, from_cache=False, seconds=0.0)
    return Built(plan, source, binary)


def stand_in_finish(archs, portable=None, elements=()):
    found = [Image(f"{FINISH}_{arch}", arch, ".cubin", b"epilogue") for arch in archs]
    return (*found, *([Image(FINISH, portable.replace("sm", "compute"), ".ptx", b".version 6.4\n\0")] if portable else []))


@pytest.fixture(scope="module")
def library_of():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "compiled", stand_in)
        patch.setattr(made, "finish_images", stand_in_finish)
        yield lambda name="lab", **more: made.made(library_from({"name": name, "gpus": ["a100"], **SPEC, **more}))


@pytest.fixture(scope="module")
def folder(library_of, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("library") / "lab"
    write(library_of(), place)
    return place


WARNED = ("-std=gnu99", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")


def compiled_shared(folder: Path, name: str, out: Path) -> Path:
    run("gcc", *WARNED, "-O1", "-fPIC", "-fvisibility=hidden", "-Iinclude", "-Isrc/code", "-shared", f"src/{name}.c", "src/code.c", "-o", out, "-ldl",
        "-lpthread", cwd=folder)
    return out


def test_the_manifest_tells_all_files_and_kernels(folder):
    told = json.loads((folder / "manifest.json").read_text())
    schema = json.loads((SPECS / "library_manifest.schema.json").read_text())
    assert violations(told, schema, schema) == []
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert told["sha256"] == {file: hashlib.sha256((folder / file).read_bytes()).hexdigest() for file in files - {"manifest.json"}}
    assert told["schema_version"] == 2 and told["kind"] == "library" and told["abi"] == 3
    kernel, fallback = told["kernels"]
    assert kernel["label"] == "a100_nn_1" and kernel["reason"] and not kernel["fallback"] and kernel["sizes"] == [[512, 512, 512, 1]]
    assert fallback["fallback"] and fallback["estimate"] is None and told["fallback"] == ["portable_nn"]
    for one in told["kernels"]:
        assert {one["source"], *(image["file"] for image in one["images"])} <= files
    assert (folder / "src/code/portable_nn.ptx").read_bytes().endswith(b"\0")


def test_what_a_library_of_the_same_bits_says_of_itself(library_of):
    """And that its preload library takes what a kernel serves on every GPU, however fast the vendor is there."""
    tile = {"block": [64, 64, 64], "warp": [32, 32, 64]}
    files = contents.all_files(library_of(reproducible=True, shim=["cublas"], use=[{"split": {"scheme": "residues7"}, "tile": tile}]))
    told = json.loads(files["manifest.json"])
    listed = files["README.md"].decode()
    assert "machine code, cubin files, and what" in listed and "| `shim/` |" in listed and "| `python/` |" in listed, "of no portable kernels"
    assert told["reproducible"] and told["fallback"] == [] and "same bits on every GPU" in files["include/lab.h"].decode()
    assert 'number("LAB_MIN_GAIN", 0)' in files["shim/core.c"].decode()


def test_what_the_library_says_of_itself(library_of, monkeypatch):
    """Its version and the driver's as numbers, the last extent; and of kernels what the C tables hold."""
    monkeypatch.setattr(contents, "numeric_version", lambda: "3.14.7")
    library = library_of(layouts=["nn", "tn"], kernels_at_most=2)
    files = contents.all_files(library)
    header, told = files["include/lab.h"].decode(), json.loads(files["manifest.json"])
    for macro, value in (("VERSION", 31407), ("LEAST_DRIVER", 13000), ("LARGEST_EXTENT", 2**31 - 1 - 4096), ("WORKSPACE_ALIGNMENT", 256), ("MOST_TURNS", 2**20)):
        assert f"#define LAB_{macro} {value} " in header.replace("\n", " \n"), macro
    assert told["target"]["least_driver"] == 13000 and "CUDA 13" in header and told["version"] == "3.14.7"
    assert contents.least_driver(SimpleNamespace(compilers=("NVRTC 12.9", "NVRTC 13.1"))) == 13000, "of the newest compiler"
    assert contents.least_driver(SimpleNamespace(compilers=("clang 19",))) == 60_000_000
    amd = SimpleNamespace(maker=SimpleNamespace(api="HIP"))
    assert [contents.driver_told(amd, number) for number in (60_000_000, 70_200_000)] == ["HIP 6", "HIP 7"]
    assert [one["label"] for one in told["kernels"]] == ["a100_nn_1", "a100_tn_1", "portable_nn", "portable_tn"]
    for one, kernel in zip(told["kernels"], library.kernels):
        packed = {} if kernel.is_fallback else {"a": 1, "b": 2}  # words of both layouts are the same
        assert one["pack_formats"] == {"a": packed.get("a"), "b": packed.get("b")} and one["layout"] == kernel.built.plan.layout
        assert [launch["symbol"] for launch in one["launches"]] == [launch.symbol for launch in kernel.built.source.launches]
        assert (one["estimate"] is None) == kernel.is_fallback and one["gpu"] == ("t4" if kernel.is_fallback else "a100")
        assert [image["arch"] for image in one["images"]] == (["compute_75"] if kernel.is_fallback else ["sm_80"])
    assert [one["arch"] for one in told["finish"]] == ["sm_80", "compute_75"] and told["fallback"] == ["portable_nn", "portable_tn"]
    readme = files["README.md"].decode()
    assert "machine code, cubin files, PTX of the portable ones, and what" in readme and "| `shim" not in readme
    assert f"\n{told['title']}: `C = act(" in readme and told["chosen"]["packed"] is library.loaded.file.packed is False
    sums, zero = "C = act(alpha op(A) op(B) + beta C + bias) in FP32", "with beta = 0 C is not read"
    level3 = replace(library, loaded=replace(library.loaded, file=library.loaded.file.model_copy(update={"routines": ("syrk", "trsm")})))
    assert [contents.manifest(one, {})["computes"].split("; ") for one in (library, level3)] == [[sums, zero], [sums, "syrk, trsm of BLAS's level 3", zero]]


def test_what_a_library_has_not_is_told(library_of):
    """Plans that the compiler refused, specs that have no kernel, and what was left open of others."""
    library = library_of()
    plan, error = library.kernels[0].built.plan, ResourceError("kernel k", "spills registers to memory", needs="0 B", has="9 B")
    left_out, relaxed = (("[[use]] 2", "h100", "nt", "no such instruction"),), ("[[use]] 1 on a100: its tile",)
    choice = replace(library.choice, refused=((plan, error),), left_out=left_out, relaxed=relaxed, candidates=77, ratio=1.23456, least=1.0625)
    told = contents.manifest(replace(library, choice=choice), {"a.h": b"1"})
    titles = [contents.title(SimpleNamespace(loaded=SimpleNamespace(
        file=SimpleNamespace(title=title), gpus=[SimpleNamespace(name=name) for name in names], elements=(F32,)))
        ) for title, names in ((None, "x"), (None, "xy"), (None, "xyz"), ("Mine", "xyz"))]
    assert titles == [f"FP32 matrix products on the matrix units of {gpus}" for gpus in ("x", "x and y", "x, y and z")] + ["Mine"]
    assert told["refused"] == [{"kernel": plan.hash, "plan": plan.summary, "problem": "spills registers to memory", "has": "9 B"}]
    assert told["left_out"] == [{"from": "[[use]] 2", "gpu": "h100", "layout": "nt", "why": "no such instruction"}] and told["relaxed"] == list(relaxed)
    chosen = told["chosen"]
    assert (chosen["candidates"], chosen["ratio"], chosen["no_set_has_less"], chosen["kernels_at_most"]) == (77, 1.2346, 1.0625, 1)
    assert told["sha256"] == {"a.h": hashlib.sha256(b"1").hexdigest()} and told["compilers"] == ["NVRTC 13.5"]
    assert [(one["from"], one["plan"]) for one in told["kernels"]] == [("library: [[use]] 1", plan.hash), (None, library.kernels[1].built.plan.hash)]


def test_a_dispatch_tables_rules_are_taken_where_the_library_has_all_their_kernels_and_no_others():
    def kernel(label: str, place: str = "table", gpu: str = "a100", layout: str = "nn"):
        plan = SimpleNamespace(hash=f"hash of {label}")
        return SimpleNamespace(candidate=SimpleNamespace(place=place, label=label, gpu=SimpleNamespace(name=gpu), layout=layout, plan=plan), plan=plan)

    def rules(kernels, decided_by="rules", gpu="a100", layout="nn"):
        part = Part(gpu=gpu, layout=layout, decided_by=decided_by, rules=(Rule(at_most={"m": 64}, kernel="k1"), Rule(kernel="k2")))
        library = SimpleNamespace(tables=[("table", SimpleNamespace(parts=[part]), frozenset())])
        labels = {"hash of k1": "a100_nn_2", "hash of k2": "a100_nn_1", "hash of k3": "a100_nn_3"}
        return [(one.arch, one.layout, [(rule.at_most, rule.kernel) for rule in one.rules])
                for one in made._rules(library, SimpleNamespace(kernels=kernels), labels)]

    both = [kernel("k1"), kernel("k2")]
    assert rules(both) == [("sm_80", "nn", [({"m": 64}, "a100_nn_2"), ({}, "a100_nn_1")])]
    assert rules([*both, kernel("k3")]) == rules([*both, kernel("k3", "elsewhere", layout="tn")]) == rules(both), "that no rule names, or of another layout"
    assert rules([both[0], kernel("k2", "elsewhere", layout="tn")]) == [], "another's kernel of that label is not the table's"
    assert rules(both, decided_by="estimates") == rules(both[:1]) == rules([*both, kernel("", "elsewhere")]) == rules(both, layout="tn") == []


def test_a_library_of_fp64_has_no_portable_kernel_and_an_example_in_fp64(library_of, tmp_path):
    library = library_of(use=[{"scheme": "residues14"}, SPEC["use"][0]], kernels_at_most=2)
    assert [kernel.label for kernel in library.kernels] == ["a100_nn_1", "a100_f64_nn_1", "portable_nn"]
    both = contents.all_files(library)
    assert "finish_f64" in both["kernels/finish.cu"].decode() and "in FP32 and FP64" in json.loads(both["manifest.json"])["computes"]
    alone = library_of(use=[{"accuracy": {"as": "fp64"}}])
    files = contents.all_files(alone)
    told = json.loads(files["manifest.json"])
    assert [(one["label"], one["type"], one["scheme"], one["fallback"]) for one in told["kernels"]] == [("a100_f64_nn_1", "f64", "residues15", False)]
    assert told["title"] == "FP64 matrix products on the matrix units of a100" and 'finish_symbols[] = {\n    NULL,\n    "finish_f64"' in files["src/tables.h"].decode()
    for name in ("include/lab.h", "example.c"):
        (tmp_path / Path(name).name).write_bytes(files[name])
    assert "static double a[" in files["example.c"].decode() and "problem.element = lab_F64;" in files["example.c"].decode()
    run(*need("gcc"), *WARNED, "-fsyntax-only", "-I.", "example.c", cwd=tmp_path)


def test_a_library_of_complex_numbers_tells_letters_types_and_an_example_of_pairs(library_of, tmp_path):
    uses = [{"tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "split": {"scheme": "ootomo"}, "type": "c64"}]
    library = library_of(use=uses, layouts=["cn"], kernels_at_most=1)
    files = contents.all_files(library)
    told = json.loads(files["manifest.json"])
    assert [(one["label"], one["type"], one["layout"], one["kind"]["name"]) for one in told["kernels"]] == [("a100_c64_cn_1", "c64", "cn", "cgemm")]
    schema = json.loads((SPECS / "library_manifest.schema.json").read_text())
    assert violations(told, schema, schema) == []
    assert told["title"] == "complex FP32 matrix products on the matrix units of a100" and told["layouts"] == ["cn"]
    assert "\n    cmake -S . -B build && cmake --build build\n" in files["README.md"].decode()
    assert "in complex FP32, by one C function" in files["README.md"].decode() and "cn |" in files["README.md"].decode()
    header = files["include/lab.h"].decode()
    assert all(f"lab_{one}(" in header for one in ("cgemm", "cherk", "zsyrk", "ztrsm"))
    for name in ("include/lab.h", "example.c"):
        (tmp_path / Path(name).name).write_bytes(files[name])
    assert "static float complex a[" in files["example.c"].decode() and "problem.element = lab_C64;" in files["example.c"].decode()
    run(*need("gcc"), *WARNED, "-fsyntax-only", "-I.", "example.c", cwd=tmp_path)


def test_the_same_library_gives_the_same_bytes(library_of):
    assert contents.all_files(library_of()) == contents.all_files(library_of())


def test_only_its_own_functions_are_seen(folder, tmp_path):
    need("gcc", "nm")
    seen = run("nm", "-D", "--defined-only", compiled_shared(folder, "lab", tmp_path / "liblab.so"), cwd=folder).splitlines()
    names = {line.split()[-1] for line in seen}
    header = (folder / "include/lab.h").read_text()
    assert names and all(name.startswith("lab_") and f"{name}(" in header for name in names)


def test_two_libraries_of_one_plan_link_into_one_program(folder, library_of, tmp_path):
    """As archives, whose symbols meet; each embeds its own code."""
    need("gcc", "ar")
    write(library_of("other"), tmp_path / "other")
    (tmp_path / "user.c").write_text(
        '#include "lab.h"\n#include "other.h"\n#include <stdio.h>\n'
        'int main(void) { return puts(lab_kernel_name(0)) < 0 || puts(other_kernel_name(0)) < 0 || lab_kernels() != 2 || other_kernels() != 2; }\n'
    )
    for name, place in (("lab", folder), ("other", tmp_path / "other")):
        for file in (f"src/{name}.c", "src/code.c"):
            run("gcc", "-std=gnu99", "-c", f"-D{name.upper()}_STATIC", "-fvisibility=hidden", "-Iinclude", "-Isrc/code", file, "-o",
                tmp_path / f"{name}_{Path(file).stem}.o", cwd=place)
        run("ar", "rcs", f"lib{name}.a", f"{name}_{name}.o", f"{name}_code.o", cwd=tmp_path)
    run("gcc", "user.c", f"-I{folder / 'include'}", "-Iother/include", "-L.", "-llab", "-lother", "-ldl", "-lpthread", "-o", "user", cwd=tmp_path)
    first, second = run("./user", cwd=tmp_path).split()
    assert first == second


def test_machine_code_is_in_the_object_as_it_is(folder, tmp_path):
    need("gcc")
    code = (folder / "src/code/a100_nn_1.cubin").read_bytes()
    assert code in compiled_shared(folder, "lab", tmp_path / "liblab.so").read_bytes()


@pytest.mark.parametrize("lacking", ["__ELF__", "__GNUC__"])
def test_a_compiler_that_cannot_embed_code_is_told_what_to_do(folder, lacking):
    need("gcc")
    done = subprocess.run(["gcc", "-E", f"-U{lacking}", "-Isrc/code", "src/code.c"], cwd=folder, capture_output=True, text=True)
    assert done.returncode and "cmake -P cmake/arrays.cmake" in done.stderr


@pytest.mark.parametrize("arrays", [False, True], ids=["by the assembler", "as arrays"])
def test_a_program_has_machine_code_to_the_last_byte_and_a_nul_behind_it(folder, tmp_path, arrays):
    """Of any length and of all bytes, also where CMake wrote it as arrays for compilers without GNU's assembly."""
    need("gcc", *["cmake"] * arrays)
    place = tmp_path / "lab"
    shutil.copytree(folder, place)
    codes = sorted((place / "src" / "code").iterdir())
    contents_of = [bytes(range(255, -1, -1)) * 3, b"\xff\n;[]\\", b"\xff" * 64, b"16 bytes of code" * 4]  # of 64 bytes: what is aligned follows at once
    for file, content in zip(codes, contents_of, strict=True):
        file.write_bytes(content)
    names = [f"lab_code_{file.stem}" for file in codes]
    (place / "user.c").write_text(
        "#include <stdio.h>\n" + "".join(f"extern const unsigned char {name}[];\n" for name in names) + "int main(void) { return !("
        + " && ".join(f"fwrite({name}, 1, {len(content) + 1}, stdout)" for name, content in zip(names, contents_of)) + "); }\n")
    flags = ["-Isrc/code"]
    if arrays:
        run("cmake", f"-DTO={place}/arrays", "-P", "cmake/arrays.cmake", cwd=tmp_path / "lab")
        flags = ["-Iarrays", "-DLAB_ARRAYS"]
    run("gcc", *WARNED, *flags, "user.c", "src/code.c", "-o", "user", cwd=place)
    assert subprocess.run([place / "user"], capture_output=True, check=True).stdout == b"".join(content + b"\0" for content in contents_of)


DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static long held, current, waited;
static int bad(void) { return current == 0 || getenv("FAILS") && strstr(getenv("FAILS"), "call"); }
__attribute__((destructor)) static void end(void) { fprintf(stderr, "%ld held\\n", held); }
static int copied(void *to, const void *from, size_t bytes, int to_host)
{
    if (bad() || to_host && !waited || !to_host && *(const float *)from == 0) return 1;  // no matrix begins with what was never written
    memcpy(to, from, bytes);
    if (to_host && getenv("FAILS") && strstr(getenv("FAILS"), "last")) ((float *)to)[bytes / sizeof(float) - 1] += 1.0f;
    return 0;
}
static void *taken(size_t bytes) { return bad() || getenv("FAILS") && strstr(getenv("FAILS"), "memory") ? NULL : (++held, malloc(bytes)); }
#ifdef HIP
int hipSetDevice(int device) { return current = 1, device != 0 || getenv("FAILS") && strstr(getenv("FAILS"), "gpu"); }
int hipMalloc(void **to, size_t bytes) { return (*to = taken(bytes)) == NULL; }
int hipFree(void *what) { return --held, free(what), 0; }
int hipMemcpy(void *to, const void *from, size_t bytes, int kind) { return kind != 1 && kind != 2 ? 1 : copied(to, from, bytes, kind == 2); }
int hipDeviceSynchronize(void) { return waited = 1, 0; }
#else
int cuInit(unsigned flags) { return flags != 0 || getenv("FAILS") && strstr(getenv("FAILS"), "gpu"); }
int cuDeviceGet(int *device, int number) { return *device = 7, number != 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &current, device != 7; }
int cuCtxSetCurrent(void *context) { return current = 1, context != &current; }
int cuMemAlloc_v2(unsigned long long *to, size_t bytes) { return (*to = (uintptr_t)taken(bytes)) == 0; }
int cuMemFree_v2(unsigned long long what) { return --held, free((void *)(uintptr_t)what), 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes) { return copied((void *)(uintptr_t)to, from, bytes, 0); }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes) { return copied(to, (const void *)(uintptr_t)from, bytes, 1); }
int cuCtxSynchronize(void) { return waited = 1, 0; }
#endif
"""


@pytest.mark.slow
@pytest.mark.parametrize(("api", "driver"), [("CUDA", "libcuda.so.1"), ("HIP", "libamdhip64.so"), ("HIP", "libamdhip64.so.6"), ("HIP", "libamdhip64.so.7")])
def test_the_example_says_whether_the_product_is_right(api, driver, tmp_path):
    """On memory of the host in place of a GPU's and a library that is right: of the last element too, and without a GPU that there is none."""
    need("gcc")
    maker = SimpleNamespace(platform=api.lower(), api=api)
    (tmp_path / "example.c").write_text(render_text("library/example.c.j2", name="lab", maker=maker, element=F32, example={"m": 37, "n": 21, "k": 17}))
    (tmp_path / "driver.c").write_text(DRIVER)
    library = f"-I{reference.folder()}", f"-L{reference.folder()}"
    run("gcc", "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wno-parentheses", "-Werror", "example.c", *library, "-llab", "-lm",
        "-ldl", "-o", "example", cwd=tmp_path)
    run("gcc", "-shared", "-fPIC", f"-D{api}", "driver.c", "-o", driver, cwd=tmp_path)

    def ran(fails: str = "") -> tuple[int, str, str]:
        environment = {**os.environ, "LD_LIBRARY_PATH": f"{tmp_path}:{reference.folder()}", "FAILS": fails}
        done = subprocess.run(["./example"], cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    code, said, held = ran()
    assert code == 0 and "reference: the fastest" in said and "expected below 5.96e-08" in said and held == "0 held\n"
    assert [ran(fails)[0] for fails in ("last", "memory", "gpu")] == [1, 1, 77]


@pytest.mark.slow
def test_the_wheels_recipe_puts_the_library_into_the_package(folder, tmp_path):
    """Compiled from the folder's sources, or that which the environment names; where there is neither it says so."""
    need("gcc")
    place, package, compiler = tmp_path / "lab", tmp_path / "lab" / "python" / "lab", tmp_path / "cc"
    shutil.copytree(folder, place)
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O0\n')
    compiler.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if name not in ("LAB_LIBRARY", "CC")}

    def ran(*command: object, **environment: object) -> subprocess.CompletedProcess:
        return subprocess.run([sys.executable, *map(str, command)], cwd=tmp_path, capture_output=True, text=True,
                              env={**plain, **{name: str(value) for name, value in environment.items()}})

    refused = ran(place / "python" / "build_wheel.py", CC="no-such-compiler")
    assert refused.returncode == 1 and "ImportError: there is no liblab.so in" in refused.stderr and not list(package.glob("*.so"))
    assert ran(place / "python" / "build_wheel.py", CC=compiler).returncode == 0
    assert [path.name for path in package.glob("*.so")] == ["liblab.so"]
    told = ran("-c", "import lab; print(lab.kernels(), lab.version())", PYTHONPATH=place / "python")
    assert told.stdout.split("(")[0].count("gemmgen_") == 2 and told.stdout.endswith(f"({', '.join(numeric_version().split('.'))})\n"), told.stderr
    (package / "liblab.so").rename(tmp_path / "elsewhere.so")
    (tmp_path / "liblab.so").symlink_to("elsewhere.so")
    assert ran(place / "python" / "build_wheel.py", CC="no-such-compiler", LAB_LIBRARY=tmp_path / "liblab.so").returncode == 0
    assert (package / "liblab.so").read_bytes() == (tmp_path / "elsewhere.so").read_bytes() and not (package / "liblab.so").is_symlink()


@pytest.mark.slow
def test_a_wheel_is_called_after_its_compiler_and_needs_nothing_in_a_clean_environment(folder, tmp_path, monkeypatch):
    """pip installs it without an index; its library loads, with the stand-in for the driver in the driver's place; an older driver is told by both versions."""
    need("gcc")
    place, compiler = tmp_path / "lab", tmp_path / "cc"
    shutil.copytree(folder, place)
    driver = tmp_path / "standin" / "libcuda.so.1"
    driver.parent.mkdir()
    run("gcc", "-std=c99", "-D_POSIX_C_SOURCE=200809L", "-fPIC", "-shared", Path(reference.__file__).with_name("standin_driver.c"), "-o", driver, cwd=tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old.c").write_text("int cuDriverGetVersion(int *version) { *version = 12040; return 0; }\n")
    run("gcc", "-fPIC", "-shared", "old.c", "-o", "old/libcuda.so.1", cwd=tmp_path)
    compiler.write_text('#!/bin/sh\nexec gcc "$@" -O0\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.delenv("LAB_LIBRARY", raising=False)
    wheel = python.wheel(place)
    assert wheel.parent == place / "dist" and wheel.name.startswith("lab_cu13-") and [path.name for path in place.glob("dist/*")] == [wheel.name]
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    clean = tmp_path / "venv" / "bin" / "python"
    pip = sys.executable, "-m", "pip", "--python", clean, "--disable-pip-version-check"
    run(*pip, "install", "--quiet", "--no-index", wheel, cwd=tmp_path)
    shutil.rmtree(place)
    assert "Name: lab-cu13\n" in run(*pip, "show", "lab-cu13", cwd=tmp_path)
    program = (
        "import lab\n"
        "try: lab.prepare()\n"
        "except lab.Error as error: print(error)\n"
        "else: print(lab.target().arch, lab.select(512, 512, 512).name, lab._c.path())\n"
    )

    def told(folder: str) -> str:
        done = subprocess.run([clean, "-c", program], cwd=tmp_path, env={"LD_LIBRARY_PATH": str(tmp_path / folder)}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    arch, name, path = told("standin").split("'")[1:2] + told("standin").split()[1:]
    assert arch == "sm_90" and name.startswith("gemmgen_") and Path(path).is_relative_to(tmp_path / "venv")
    assert "this machine's driver is for CUDA 12.4, and the machine code needs one for CUDA 13.0 (-22)" in told("old")
    assert "the GPU's driver is not there" in told("nowhere")


@pytest.mark.parametrize(("compilers", "vendor", "name"), [
    (("NVRTC 12.9",), "nvidia", "gemmgen-blas-cu12"), (("NVRTC 12.9", "NVRTC 13.5"), "nvidia", "gemmgen-blas-cu13"), (("clang 22",), "amd", "gemmgen-blas"),
])
def test_wheels_of_two_cuda_versions_have_two_names(compilers, vendor, name):
    assert python.distribution(SimpleNamespace(name="gemmgen_blas", compilers=compilers, maker=VENDORS[vendor])) == name


def test_a_wheel_without_a_compiler_is_refused_with_the_remedy(folder, tmp_path, monkeypatch):
    shutil.copytree(folder, tmp_path / "lab")
    monkeypatch.setenv("CC", "no-such-compiler")
    monkeypatch.delenv("LAB_LIBRARY", raising=False)
    for make in (python.wheel, python.compile_in_place):
        with pytest.raises(GemmgenError) as refused:
            make(tmp_path / "lab")
        assert "cannot compile" in refused.value.problem and "C compiler" in refused.value.needs and "install gcc" in refused.value.remedy


def test_the_command_builds_a_wheel_where_it_is_asked(library_of, gemmgen, tmp_path, monkeypatch):
    """And says where it is; beside --dry-run it is refused."""
    monkeypatch.setattr(python, "wheel", lambda folder: folder / "dist" / "lab.whl")
    (tmp_path / "lab.toml").write_text(
        'name = "lab"\ngpus = ["a100"]\nlayouts = ["nn"]\nkernels_at_most = 1\nsizes = [[512, 512, 512]]\n[[use]]\nsplit = { scheme = "ootomo" }\n'
        "tile = { block = [64, 64, 32], warp = [32, 32, 32] }\npipeline = { stages = 3 }\n")
    told = gemmgen("library", tmp_path / "lab.toml", "-o", tmp_path / "out", "--wheel")
    assert told.code == 0 and told.out.splitlines()[-1].split() == ["wheel", str(tmp_path / "out" / "dist" / "lab.whl")]
    assert json.loads(gemmgen("library", tmp_path / "lab.toml", "-o", tmp_path / "out", "--wheel", "--json").out)["wheel"].endswith("lab.whl")
    assert "wheel" not in gemmgen("library", tmp_path / "lab.toml", "-o", tmp_path / "out").out
    refused = gemmgen("library", tmp_path / "lab.toml", "--wheel", "--dry-run")
    assert refused.code == 2 and "--wheel" in refused.err


def test_pkg_config_tells_how_the_library_is_linked(folder, tmp_path):
    """From wherever it lies; of an archive what that needs besides."""
    need("pkg-config")
    place = tmp_path / "prefix" / "lib" / "pkgconfig"
    place.mkdir(parents=True)
    shutil.copy(folder / "lab.pc", place)

    def told(*asked: str) -> list[str]:
        words = run("pkg-config", "--with-path", place, *asked, "lab", cwd=tmp_path).split()
        return [word[:2] + os.path.normpath(word[2:]) if word[:2] in ("-I", "-L") else word for word in words]

    assert told("--cflags") == [f"-I{tmp_path}/prefix/include"] and told("--libs") == [f"-L{tmp_path}/prefix/lib", "-llab"]
    assert told("--libs", "--static")[1:] == ["-llab", "-ldl", "-lpthread"] and told("--modversion") == [numeric_version()]


def test_an_earlier_library_is_replaced_and_the_users_files_stay(library_of, tmp_path):
    place = tmp_path / "lab"
    write(library_of(), place)
    (place / "src" / "mine.c").write_text("mine")
    write(library_of(layouts=["nt"]), place)
    code = {path.name for path in (place / "src/code").iterdir()}
    assert "a100_nt_1.cubin" in code and "a100_nn_1.cubin" not in code
    assert (place / "src" / "mine.c").read_text() == "mine"
    assert not list(tmp_path.glob(".*"))


def test_a_folder_with_something_else_is_refused_and_left(library_of, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.c").write_text("mine")
    with pytest.raises(GemmgenError) as caught:
        write(library_of(), tmp_path)
    assert caught.value.problem == "is a folder that holds something else"
    assert [path.name for path in tmp_path.iterdir()] == ["src"]
    write(library_of(), tmp_path, force=True)
    assert (tmp_path / "src" / "main.c").read_text() == "mine" and (tmp_path / "src" / "lab.c").exists()


def test_what_fails_on_the_way_leaves_what_was_there(library_of, tmp_path, monkeypatch):
    place = tmp_path / "lab"
    write(library_of(), place)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    import os

    rename, count = os.rename, iter(range(1000))

    def failing(source, target):
        if next(count) == 25:
            raise OSError(28, "No space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", failing)
    with pytest.raises(GemmgenError):
        write(library_of(layouts=["nt"]), place)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_manifest_that_leads_elsewhere_removes_nothing(library_of, tmp_path):
    place = tmp_path / "lab"
    write(library_of(), place)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.txt").write_text("kept")
    (place / "link").symlink_to(outside)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["sha256"] |= {"../outside/kept.txt": "", "link/kept.txt": ""}
    (place / "manifest.json").write_text(json.dumps(manifest))
    write(library_of(), place)
    assert (outside / "kept.txt").read_text() == "kept"


def test_amds_have_code_for_each_architecture(library_of, tmp_path):
    files = contents.all_files(library_of(gpus=["mi300x", "mi210"], kernels_at_most=2, use=[{"scheme": "auto"}]))
    code = {Path(name).name for name in files if name.startswith("src/code/")}
    assert {"portable_nn_gfx942.co", "portable_nn_gfx90a.co", "mi300x_nn_1.co", "mi210_nn_1.co"} <= code
    assert not any(name.endswith(".ptx") for name in code)


def test_without_a_fallback_there_is_no_portable_kernel(library_of):
    library = library_of(fallback=False)
    assert [kernel.is_fallback for kernel in library.kernels] == [False]
    assert not [image for image in library.images if image.suffix == ".ptx"]


def test_kernels_of_a_gpu_and_layout_are_numbered_those_for_most_sizes_first(library_of):
    use = [{"split": {"scheme": "ootomo"}, "tile": {"block": block, "warp": warp}, "pipeline": {"stages": 3}}
           for block, warp in (([32, 32, 32], [16, 16, 32]), ([128, 128, 32], [64, 32, 32]))]
    library = library_of(kernels_at_most=2, sizes=[[64, 64, 64], [96, 64, 64], [8192, 8192, 1024]], use=use)
    assert [(kernel.label, kernel.built.plan.block[:2], kernel.is_fallback) for kernel in library.kernels] == [
        ("a100_nn_1", (32, 32), False), ("a100_nn_2", (128, 128), False), ("portable_nn", (64, 64), True)]
    assert [kernel.estimate.tile for kernel in library.kernels[:2]] == [(32, 32), (128, 128)]
    assert "64x64x64, 96x64x64" in library.kernels[0].reason and "8192x8192x1024" in library.kernels[1].reason


def test_gpus_of_one_architecture_share_a_kernel(library_of):
    library = library_of(gpus=["a100", "a800"], kernels_at_most=2)
    assert [kernel.label for kernel in library.kernels] == ["a100_nn_1", "portable_nn"]


def test_the_road_and_the_verb_write_it(library_of, tmp_path, gemmgen):
    library_of  # noqa: B018 - its stand-ins are in place
    (tmp_path / "lab.toml").write_text(
        'name = "lab"\ngpus = ["a100"]\nlayouts = ["nn"]\nkernels_at_most = 1\nsizes = [[512, 512, 512]]\n[[use]]\nscheme = "ootomo"\n')
    assert read_toml(tmp_path / "lab.toml")["name"] == "lab"
    ran = gemmgen("library", tmp_path / "lab.toml", "--dry-run", "--json")
    assert (ran.code, json.loads(ran.out)["kernels"][0]["gpu"]) == (0, "a100")
    ran = gemmgen("library", tmp_path / "lab.toml", "-o", tmp_path / "out", "--quiet")
    assert ran.code == 0 and "a100_nn_1" in ran.out
    assert (tmp_path / "out" / "manifest.json").exists()
    assert road.library(tmp_path / "lab.toml", tmp_path / "out").name == "lab"
    ran = gemmgen("library", tmp_path / "lab.toml")
    assert ran.code == 2 and "--output" in ran.err
    ran = gemmgen("library", tmp_path / "lab.toml", "--dry-run", "-o", tmp_path / "out")
    assert ran.code == 2


def test_two_parts_that_write_one_file_are_refused(library_of, monkeypatch):
    monkeypatch.setattr(contents, "PARTS", (lambda library: {"example.c": b""},))
    with pytest.raises(SpecError):
        contents.all_files(library_of())


# ---- CMake


SHORT = (True, False, False), (False, True, True)
MATRIX = [
    pytest.param(shared, arrays, added, marks=pytest.mark.slow if (shared, arrays, added) in SHORT else pytest.mark.long)
    for shared in (False, True) for arrays in (False, True) for added in (False, True)
]


@pytest.mark.parametrize(("shared", "arrays", "added"), MATRIX)
def test_cmake_builds_it_without_a_warning(folder, tmp_path, shared, arrays, added):
    """By itself with an install, with what unmodified programs call it through; and within another project, whose install takes nothing of it along."""
    need("cmake", "gcc", "nm", "pkg-config")
    shutil.copytree(folder, tmp_path / "lab")
    folder = tmp_path / "lab"
    for file, content in shim.files(SimpleNamespace(name="lab", guard="LAB", shim=("cublas",), reproducible=False)).items():
        (folder / file).parent.mkdir(exist_ok=True)
        text = "int lab_kernels(void);\nint shim(void);\nint shim(void) { return lab_kernels(); }\n" if file.endswith("/core.c") else "extern int none;\n"
        (folder / file).write_bytes(text.encode() if file.endswith(".c") else content)
    sources = sorted(folder.rglob("*"))
    flags = "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Werror"
    options = [f"-DLAB_SHARED={'ON' if shared else 'OFF'}", f"-DLAB_ARRAYS={'ON' if arrays else 'OFF'}", flags]
    prefix = tmp_path / "prefix"
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "main.c").write_text('#include "lab.h"\nint main(void) { return lab_abi() != LAB_ABI; }\n')
    (tmp_path / "user" / "plug.c").write_text('#include "lab.h"\nint plug(void);\nint plug(void) { return lab_kernels(); }\n')
    find = f"add_subdirectory({folder} lab)" if added else f"find_package(lab {numeric_version()} REQUIRED)"
    (tmp_path / "user" / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.18)\nproject(user LANGUAGES C)\n{find}\nadd_executable(user main.c)\n"
        "target_link_libraries(user PRIVATE lab::lab)\nadd_library(plug SHARED plug.c)\ntarget_link_libraries(plug PRIVATE lab::lab)\n"
        "install(TARGETS user RUNTIME DESTINATION bin)\n"
    )
    if not added:
        run("cmake", "-S", folder, "-B", tmp_path / "build", "-DCMAKE_INSTALL_LIBDIR=lib64", *options, cwd=tmp_path)
        run("cmake", "--build", tmp_path / "build", cwd=tmp_path)
        assert "Skipped" in subprocess.run(["ctest", "--test-dir", tmp_path / "build"], capture_output=True, text=True).stdout
        run("cmake", "--install", tmp_path / "build", "--prefix", prefix, cwd=tmp_path)
        library = {"liblab.so", f"liblab.so.{ABI}", f"liblab.so.{numeric_version()}"} if shared else {"liblab.a"}
        assert {path.name for path in (prefix / "lib").iterdir()} == {"cmake", "pkgconfig", "liblab_audit.so", "liblab_cublas.so", *library}
        assert (prefix / "include" / "lab.h").exists() and (prefix / "share" / "lab" / "manifest.json").exists()
        for place in (prefix / "lib", tmp_path / "build"):  # it finds the library beside itself
            preloaded = subprocess.run(["/bin/true"], env={"LD_PRELOAD": str(place / "liblab_cublas.so")}, capture_output=True, text=True)
            assert (preloaded.returncode, preloaded.stderr) == (0, "")
        assert run("nm", "-D", "--undefined-only", prefix / "lib" / "liblab_audit.so", cwd=tmp_path) == "", "it uses no other library"
        assert "-llab" in run("pkg-config", "--with-path", prefix / "lib/pkgconfig", "--libs", "lab", cwd=tmp_path)
    run("cmake", "-S", "user", "-B", "user-build", f"-DCMAKE_PREFIX_PATH={prefix}", *options, cwd=tmp_path)
    run("cmake", "--build", "user-build", cwd=tmp_path)
    run(tmp_path / "user-build" / "user", cwd=tmp_path)
    run("cmake", "--install", "user-build", "--prefix", tmp_path / "installed", cwd=tmp_path)
    assert sorted(path.name for path in (tmp_path / "installed").rglob("*") if path.is_file()) == ["user"]
    assert sorted(folder.rglob("*")) == sources, "nothing is written among the sources"
    if not shared:
        assert "lab_" not in run("nm", "-D", "--defined-only", tmp_path / "user-build" / "libplug.so", cwd=tmp_path)
