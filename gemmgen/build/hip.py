"""HIP source -> Binary, through clang and lld: no GPU, ROCm or root.

    binary = compile_hip(source, "gfx90a")
    binary.kernels["my_kernel"].registers

The same source, architecture, options and compiler give the same bytes on every
machine: nothing in a Binary tells where it was built.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gemmgen.build.binary import Binary
from gemmgen.cache import USER_CACHE, Cache
from gemmgen.build.clang import Clang, find_clang
from gemmgen.build.code_object import read_code_object
from gemmgen.build.diagnostics import Dialect, refusal
from gemmgen.build.request import Product, Request, fulfil
from gemmgen.errors import BuildError

_OPTIONS = (
    "-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output",
    "-nostdinc", "-nogpuinc", "-nogpulib",  # neither headers nor device libraries: a source brings all it needs
    "--target=x86_64-unknown-linux-gnu",  # the host, which lends the sizes of its types
    "-std=c++17", "-O3",
    "-mcode-object-version=5",  # ROCm before 6.3 does not load 6, the default (github.com/ROCm/ROCR-Runtime/issues/321)
    "-fuse-cuid=none",  # else a symbol is named after a hash of the path
    "-fno-crash-diagnostics",  # else files are left behind
)  # fmt: skip

# `.loc` directives, which the emulator quotes, and nothing else: they change no instruction, and
# linking leaves a code object that is the same as without them.
_LINE_INFO = ("-gline-directives-only", "-fdebug-compilation-dir=.")

_ARCH_OPTIONS = ("--offload", "--no-offload", "--cuda-gpu-arch", "-mcpu", "-march", "--target", "-target")
_FILE_OPTIONS = ("-I", "-i", "--include", "-F", "-B", "--sysroot", "--config", "--rocm", "--hip", "-fplugin", "-fprofile", "@")

_DIALECT = Dialect(
    front_end=re.compile(
        r"^(?P<file>[^\s<:][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:fatal )?error: (?P<message>.*)$", re.M
    ),
    next_report=re.compile(r"^\S[^:\n]*:\d+:\d+: ", re.M),
    quotation=re.compile(r"^ *\d+ \| (.*)$", re.M),
    assembler=re.compile(r"^<stdin>:(?P<line>\d+):\d+: error: (?P<message>.*)$", re.M),
    elsewhere=re.compile(
        r"^(?:[\w.+-]+: )?(?:fatal )?error: (?!clang frontend command failed)(?P<message>.*)$", re.M
    ),
)
"""How clang and lld word their errors."""


def compile_hip(
    text: str,
    arch: str,
    *,
    name: str = "kernel.hip",
    options: Sequence[str] = (),
    cache: Cache | None = USER_CACHE,
    allow_spills: bool = False,
    only_kept: bool = False,
    line_info: bool = True,
    compiler: str | os.PathLike | None = None,
) -> Binary:
    """Compile HIP C++17 to AMDGPU assembly and a code object.

    There are no headers: kernels are `extern "C" __attribute__((global))`, and lanes and
    blocks are asked for with `__builtin_amdgcn_*`. A source with `#include` gets folders
    named by `-I` only, and no line information, which would tell where they lie.

    Args:
        text: the source.
        arch: the architecture, as `gfx90a`, for whatever setting of XNACK and SRAM-ECC.
        name: a relative path to call the source by.
        options: further options for clang, one string each.
        cache: where to look first and keep the result; None for neither.
        allow_spills: accept kernels that use scratch memory.
        only_kept: compile nothing; only what the cache holds will do.
        line_info: keep lines of the source in the assembly, for the emulator's messages.
        compiler: a path or name of hipcc, amdclang++ or another clang; without one
            `$GEMMGEN_HIPCC`, else the clang of the wheel ziglang.

    Raises:
        BuildError: no usable clang, an architecture it does not know, or a source
            or option it refuses; or nothing is kept, and `only_kept`.
        ResourceError: a kernel uses scratch memory, and `allow_spills` is false.
    """
    request = Request(text, arch, name, options)
    request.check(_ARCH_OPTIONS)
    clang = find_clang(compiler)
    return fulfil(
        request,
        clang,
        _options(request, line_info),
        make=None if only_kept else lambda: _make(clang, request, line_info),
        read=lambda product: read_code_object(product.code),
        cache=None if request.reads_unkeyed_files(_FILE_OPTIONS) else cache,
        allow_spills=allow_spills,
    )


def __getattr__(attribute: str) -> Any:
    if attribute == "ARCHS":  # what the compiler at hand supports; needs it to be run
        return find_clang().archs
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


def _options(request: Request, line_info: bool) -> tuple[str, ...]:
    return (*_OPTIONS, f"--offload-arch={request.arch}", *(_LINE_INFO if line_info and not request.includes else ()), *request.options)


def _make(clang: Clang, request: Request, line_info: bool) -> Product:
    with tempfile.TemporaryDirectory(prefix="gemmgen-") as temporary:
        out, home = Path(temporary, "out"), Path(temporary, "source")
        source = home / request.name
        out.mkdir()
        source.parent.mkdir(parents=True)
        source.write_bytes(request.text.encode())
        log, assembly = [], b""

        def done(step) -> None:
            log.append(step.stderr.decode(errors="replace").strip())
            if step.returncode:
                text = "\n".join(filter(None, log))
                raise refusal(_DIALECT, text, assembly.decode(), request, partial(_remedy, request.arch))

        start = time.perf_counter()
        compiled = clang.compile((*_options(request, line_info), "-S", "-o", "-", "--", request.name), home)
        done(compiled)
        assembly = compiled.stdout
        if b".amdgcn_target" not in assembly:
            raise BuildError(
                request.name,
                f"{clang.name} gave no assembly for it",
                got=" ".join(request.options) or None,
                remedy="leave out options that stop the compiler early",
            )
        # What kind of machine it is for, as -mwavefrontsize64, the assembler must know, too.
        machine = (option for option in request.options if option.startswith("-m") and option != "-mllvm")
        done(clang.assemble(assembly, (f"-mcpu={request.arch}", *machine), out / "kernel.o"))
        done(clang.link(out / "kernel.o", out / "kernel.co"))
        seconds = time.perf_counter() - start
        return Product(
            code=(out / "kernel.co").read_bytes(),
            assembly=assembly.decode(),
            log="\n".join(filter(None, log)),
            seconds=seconds,
        )


def _remedy(arch: str, message: str) -> str | None:
    if "file not found" in message:
        return "a source without headers, or name a folder with -I"
    if re.search(r"unknown type name '__(global|device|shared)__'|undeclared identifier '(thread|block)(Idx|Dim)'", message):
        return "what clang knows without HIP's headers: __attribute__((global)), __builtin_amdgcn_workitem_id_x()"
    if "Cannot select" in message or "needs target feature" in message:
        return f"an instruction that {arch} has"
    if "undefined" in message and "symbol" in message:
        return "define it in the source: nothing is linked to it"
    if message.startswith("local memory"):
        return "a smaller tile or fewer stages"
    return None
