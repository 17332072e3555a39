"""CUDA source -> Binary, through NVRTC: no GPU, driver, toolkit or host compiler.

    binary = compile_cuda(source, "sm_80")
    binary.kernels["my_kernel"].registers

The same source, architecture, options and compiler give the same bytes on every
machine: nothing in a Binary tells where it was built.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from gemmgen.build.binary import Binary
from gemmgen.cache import USER_CACHE, Cache
from gemmgen.build.cubin import read_cubin
from gemmgen.build.diagnostics import Dialect, refusal
from gemmgen.drivers import install
from gemmgen.build.nvrtc import Compiler, find_compiler
from gemmgen.build.ptxas import accounts_differ, with_logged_spills
from gemmgen.build.request import Product, Request, fulfil
from gemmgen.errors import BuildError

_OPTIONS = (
    "-std=c++17",
    "-default-device",  # a function without a mark is __device__: there is no host here
    "--ptxas-options=-v",  # a second account of resources, to check the cubin's against
)
_LINE_INFO = "-lineinfo"

_FOLDER = "/gemmgen/"
"""Where every source pretends to lie. NVRTC completes a relative name with the current
folder and writes the result into PTX and cubin; it leaves an absolute name alone."""

_ARCH_OPTIONS = ("-arch", "--gpu-architecture")
_FILE_OPTIONS = ("-I", "--include-path", "-include", "--pre-include", "-pch", "--pch", "--use-pch")

_DIALECT = Dialect(
    front_end=re.compile(
        r"^(?P<file>\S.*?)\((?P<line>\d+)\): (?:\w+ )?error(?: #\S+)?: (?P<message>.*)$", re.M
    ),
    next_report=re.compile(r"^\S.*\(\d+\): ", re.M),
    quotation=re.compile(r"^(.*)\n *\^", re.M),
    assembler=re.compile(
        r"^\s*ptxas [^\n;]*, line (?P<line>\d+); (?:error|fatal)\s*: (?P<message>.*)$", re.M
    ),
    elsewhere=re.compile(
        r"^\s*(?:ptxas|nvrtc|Command-line)[\s:]*(?:error|fatal)\s*: (?P<message>.*)$", re.M
    ),
)
"""How NVRTC and the ptxas in it word their errors."""

_NO_HEADER = re.compile(r"(?:could not|cannot) open source file")


def compile_cuda(
    text: str,
    arch: str,
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    cache: Cache | None = USER_CACHE,
    allow_spills: bool = False,
    only_kept: bool = False,
    line_info: bool = True,
) -> Binary:
    """Compile CUDA C++17 to PTX and machine code.

    Kernels are `extern "C" __global__`. A source without `#include` needs no
    headers at all. One with `#include` gets those NVRTC brings, and no line
    information, which would tell where they lie on this machine.

    Args:
        text: the source.
        arch: the architecture, as `sm_80` or `sm_90a`.
        name: a relative path to call the source by.
        options: further options for NVRTC, one string each.
        cache: where to look first and keep the result; None for neither.
        allow_spills: accept kernels that spill registers to local memory.
        only_kept: compile nothing; only what the cache holds will do.
        line_info: keep lines of the source, with all of the PTX, in the machine code, for profilers and for the emulator's messages.

    Raises:
        BuildError: no usable NVRTC, an architecture it does not know, or a source
            or option it refuses; or nothing is kept, and `only_kept`.
        ResourceError: a kernel spills, and `allow_spills` is false.
    """
    request = Request(text, arch, name, options)
    request.check(_ARCH_OPTIONS)
    compiler = find_compiler()
    return fulfil(
        request,
        compiler,
        _options(request, line_info),
        make=None if only_kept else lambda: _make(compiler, request, cache, line_info),
        read=lambda product: with_logged_spills(product.log, read_cubin(product.code)),
        cache=None if request.reads_unkeyed_files(_FILE_OPTIONS) else cache,
        allow_spills=allow_spills,
    )


def __getattr__(attribute: str) -> Any:
    if attribute == "ARCHS":  # what the compiler at hand supports; needs it loaded
        return find_compiler().archs
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


def _options(request: Request, line_info: bool) -> list[str]:
    return [f"-arch={request.arch}", *_OPTIONS, *([_LINE_INFO] if line_info and not request.includes else []), *request.options]


def _make(compiler: Compiler, request: Request, cache: Cache | None, line_info: bool) -> Product:
    name = request.name
    headers = compiler.headers(cache) if request.includes else None
    folders = [f"-I{headers}", f"-I{headers / 'cccl'}"] if headers else []
    start = time.perf_counter()
    output = compiler.run(request.text, _FOLDER + name, [*_options(request, line_info), *folders])
    seconds = time.perf_counter() - start
    log = output.log.replace(_FOLDER + name, name)
    if headers:
        log = log.replace(f"{headers}/", "")
    if not output.ok:
        raise refusal(_DIALECT, log, output.ptx, request, partial(_remedy, compiler, request.arch))
    if not output.cubin or not output.ptx:
        raise BuildError(
            name,
            f"{compiler.name} gave no machine code or no PTX for it",
            got=" ".join(request.options) or None,
            remedy="leave out options that stop the compiler early",
        )
    if accounts := accounts_differ(log, with_logged_spills(log, read_cubin(output.cubin))):
        raise BuildError(
            name,
            f"the cubin and the log of {compiler.name} disagree about resources",
            needs="what the log says: " + accounts[0],
            has="read from the cubin: " + accounts[1],
            # Seen with recursion: a cubin does not mark the registers that calls save.
            remedy="no recursion and no calls through pointers; if there are none, "
            f"{install()} for a compiler whose cubins gemmgen can read",
        )
    return Product(
        code=output.cubin,
        assembly=output.ptx.replace(f'"{_FOLDER}{name}"', f'"{name}"'),
        log=log,
        seconds=seconds,
    )


def _remedy(compiler: Compiler, arch: str, message: str) -> str | None:
    if _NO_HEADER.search(message):
        if compiler.bundles_headers:
            return f"include only what {compiler.name} brings, or name a folder with -I"
        return f"{install()} for a compiler that brings the CUDA headers, or name a folder with -I"
    if "too much shared data" in message:
        return "dynamic shared memory (extern __shared__), which may be larger"
    if "not supported on .target" in message and f"{arch}a" in compiler.archs:
        return f"compile for {arch}a: some instructions exist for one chip only"
    return None
