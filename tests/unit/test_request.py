"""What every compile shares, with a made-up compiler: what is refused, what is kept, and what comes out of the cache again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen.build import cuda, diagnostics, hip
from gemmgen.cache import Cache
from gemmgen.build.clang import Clang
from gemmgen.build.cubin import CubinResources
from gemmgen.build.nvrtc import Compiler, _arch_names
from gemmgen.build.ptxas import with_logged_spills
from gemmgen.build.request import Product, Request, fulfil
from gemmgen.errors import BuildError, ResourceError

LOG = """\
ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Function properties for k
ptxas         .     16 bytes stack frame, 12 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 168 registers
"""


class Fake:
    """A compiler whose machine code marks no spills; only its log tells them."""

    name, identity, archs = "NVRTC 0.1", "NVRTC 0.1 build 00", ("sm_80", "sm_90a")

    def __init__(self, log=LOG, kernels=("k",)):
        self.log, self.kernels, self.made = log, kernels, 0

    def remedy(self, arch):
        return f"another for {arch}"

    def make(self):
        self.made += 1
        return Product(b"code", "assembly", self.log, 0.25)

    def read(self, product):
        assert product.code == b"code" and product.log == self.log
        used = CubinResources(
            registers=168, static_shared_bytes=0, stack_bytes=16, code_bytes=8, spill_store_bytes=0, spill_load_bytes=0, barriers=1, constant_bytes=0,
            max_threads=None,
        )
        return with_logged_spills(product.log, dict.fromkeys(self.kernels, used))

    def built(self, cache, arch="sm_80", only_kept=False, allow_spills=False, options=()):
        request = Request("text", arch, "gemm.cu", options)
        return fulfil(request, self, ["-v", *options], make=None if only_kept else self.make, read=self.read, cache=cache, allow_spills=allow_spills)


def test_spills_that_only_the_log_tells_are_refused_when_made_and_when_kept(tmp_path):
    compiler, cache = Fake(), Cache(tmp_path)
    for only_kept in (False, False, True):
        with pytest.raises(ResourceError) as caught:
            compiler.built(cache, only_kept=only_kept)
        assert "gemm.cu: kernel k" in caught.value.where and "12 B of spill stores, 24 B of spill loads" in caught.value.has and caught.value.remedy
    allowed = compiler.built(cache, allow_spills=True)
    assert compiler.made == 1 and allowed.from_cache and allowed.kernels["k"].spill_bytes == 36 and allowed.seconds == 0.25
    assert (allowed.compiler, allowed.arch, allowed.assembly, allowed.log, allowed.source_name) == ("NVRTC 0.1", "sm_80", "assembly", LOG, "gemm.cu")


def test_the_kernel_that_spills_most_is_named():
    more = LOG.replace("'k'", "'l'").replace("for k", "for l").replace("24 bytes", "25 bytes")
    with pytest.raises(ResourceError, match="kernel l: spills registers to memory on sm_80; further kernels: 1"):
        Fake(LOG + more, ("k", "l")).built(None)


def test_what_is_not_kept_is_not_made_where_only_that_will_do(tmp_path):
    compiler = Fake("")
    with pytest.raises(BuildError, match="was not built before"):
        compiler.built(Cache(tmp_path), only_kept=True)
    assert not compiler.built(Cache(tmp_path)).from_cache and compiler.built(Cache(tmp_path), only_kept=True).from_cache and compiler.made == 1
    assert not compiler.built(None).from_cache and compiler.made == 2


def test_another_architecture_option_name_or_build_of_the_compiler_is_another_key():
    keys = set()
    for text, arch, name, options, identity in (
        ("text", "sm_80", "gemm.cu", (), "a"), ("more", "sm_80", "gemm.cu", (), "a"), ("text", "sm_90a", "gemm.cu", (), "a"),
        ("text", "sm_80", "other.cu", (), "a"), ("text", "sm_80", "gemm.cu", ("-O1",), "a"), ("text", "sm_80", "gemm.cu", (), "b"),
    ):
        compiler = Fake()
        compiler.identity = identity
        keys.add(Request(text, arch, name, options).key(compiler, [f"-arch={arch}", *options]))
    assert len(keys) == 6


def test_machine_code_without_kernels_is_refused_and_not_kept(tmp_path):
    with pytest.raises(BuildError, match="defines no kernel"):
        Fake(kernels=()).built(Cache(tmp_path))
    assert not [path for path in (tmp_path / "binaries").rglob("*") if path.is_file()]


def test_an_architecture_that_the_compiler_does_not_know_is_refused_before_anything():
    compiler = Fake()
    with pytest.raises(BuildError) as caught:
        compiler.built(None, arch="sm_100a")
    error = caught.value
    assert (error.got, error.needs, error.remedy, compiler.made) == ("sm_100a", "one of: sm_80, sm_90a", "another for sm_100a", 0)
    assert "by NVRTC 0.1" in error.problem


@pytest.mark.parametrize(("version", "arch", "wanted"), [
    ((12, 4), "sm_100a", "12.8"), ((12, 4), "sm_120", "12.8"), ((12, 8), "sm_121f", "12.9"), ((12, 9), "sm_110a", "13.0"), ((13, 0), "sm_107", "13.5"),
    ((12, 9), "sm_88", "13.0"), ((12, 8), "sm_103", "12.9"),
    ((12, 8), "sm_100b", None), ((13, 0), "sm_110", None), ((13, 0), "sm_81", None), ((13, 0), "sm_70", None), ((13, 0), "compute_100", None),
])
def test_the_nvrtc_that_knows_an_architecture_is_named(version, arch, wanted):
    told = Compiler(Path("x"), version, (), "x", None).remedy(arch)
    assert told is None if wanted is None else told.startswith(f"NVRTC {wanted} or later: pip install")


def test_which_features_of_one_chip_and_of_a_family_a_version_knows():
    assert _arch_names([75, 89], (13, 0)) == ("sm_75", "sm_89")
    assert _arch_names([90, 100, 120], (12, 8)) == ("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_120", "sm_120a")
    assert _arch_names([90, 100], (12, 9)) == ("sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f")


OF_FILES = {
    "cuda": ["-I/x", "-I", "--include-path=/x", "-include=x.h", "--pre-include=x.h", "-pch", "--pch", "--use-pch=x"],
    "hip": ["-I/x", "-include", "-iquote", "-isystem", "--include=x.h", "-F/x", "-B/x", "--sysroot=/x", "--config=x", "--rocm-path=/x", "--hip-path=/x",
            "-fplugin=x.so", "-fprofile-use=x", "@x"],
}
OF_ARCHITECTURES = {
    "cuda": ["-arch=sm_90", "--gpu-architecture=sm_90"],
    "hip": ["--offload-arch=gfx942", "--offload=amdgcn", "--no-offload-arch=gfx90a", "--cuda-gpu-arch=gfx942", "-mcpu=gfx942", "-march=gfx942", "--target=x",
            "-target"],
}


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_options_that_name_files_leave_the_cache_out_and_those_that_choose_an_architecture_are_refused(kind, monkeypatch):
    """What a file holds is not in the key; others are."""
    room = {"cuda": cuda, "hip": hip}[kind]
    monkeypatch.setattr(room, "fulfil", lambda *given, cache, **more: cache)
    monkeypatch.setattr(room, *{"cuda": ("find_compiler", lambda: None), "hip": ("find_clang", lambda asked: None)}[kind])
    compiled = {"cuda": cuda.compile_cuda, "hip": hip.compile_hip}[kind]
    for option in OF_FILES[kind]:
        assert compiled("text", "x", options=["-DX=1", option], cache="the cache") is None, option
    assert compiled('# include "/x.h"\n', "x", cache="the cache") is None
    for options in ([], ["-DX=1"], ["-w"], ["-O1", "-G"]):
        assert compiled('#include "x.h"\n', "x", options=options, cache="the cache") == "the cache", options
    for option in OF_ARCHITECTURES[kind]:
        with pytest.raises(BuildError, match="the architecture is an argument, not an option") as caught:
            compiled("text", "x", options=["-DX=1", option])
        assert caught.value.got == option


@pytest.mark.parametrize(("assembly", "line", "found"), [
    ("\t.loc 1 7 2\n mov\n\t.loc\t1 12 3\n bad\n\t.loc 1 13 1", 4, ("k.cu:12", "bad")),
    ("\t.loc 1 7 2\n mov\n\t.loc 1 0 0\n bad", 4, ("k.cu:7", "bad")),  # what the compiler put in is of no line
    ("\t.loc 0 20 5 ; k.cu\n bad", 2, ("k.cu:20", "bad")), (" bad", 1, ("k.cu", "bad")), (" bad", 2, ("k.cu", None)), ("\t.loc 1 7 2\n bad", 3, ("k.cu", None)),
])
def test_the_line_of_the_source_behind_one_of_the_assembly(assembly, line, found):
    assert diagnostics._behind(assembly, line, "k.cu") == found


def test_a_newer_clang_is_named_for_amds():
    clang = Clang("clang", "clang", (), (), ())
    assert "newer clang: pip install" in clang.remedy("gfx1250") and "GEMMGEN_HIPCC" in clang.remedy("gfx1250") and clang.remedy("sm_80") is None


@pytest.mark.parametrize(("place", "where"), [("/kept/headers/cuda_x.h", "cuda_x.h:12"), ("/kept/headers/cccl/x.h", "cccl/x.h:12"), (f"{cuda._FOLDER}k.cu", "k.cu:12")])
def test_an_error_in_a_header_is_told_without_the_folder_it_is_kept_in(place, where):
    """Which is another one for each user, and would make messages of the same source differ."""
    output = SimpleNamespace(ok=False, log=f"{place}(12): error: no such thing\n", ptx="", cubin=b"")
    compiler = SimpleNamespace(headers=lambda cache: Path("/kept/headers"), run=lambda *given: output, bundles_headers=True, archs=())
    with pytest.raises(BuildError) as error:
        cuda._make(compiler, Request("#include <cuda_x.h>\n", "sm_80", "k.cu", ()), None, False)
    assert error.value.where == where and "/kept" not in "".join([str(error.value), *getattr(error.value, "__notes__", ())])
