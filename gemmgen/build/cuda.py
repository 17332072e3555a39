"""CUDA source -> Binary, through NVRTC: no GPU, driver, toolkit or host compiler.

    binary = compile_cuda(source, "sm_80")
    binary.kernels["my_kernel"].registers

The same source, architecture, options and compiler give the same bytes on every
machine: nothing in a Binary tells where it was built.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gemmgen.build import cache as caching
from gemmgen.build.binary import Binary, refuse_spills
from gemmgen.build.cache import USER_CACHE, Cache
from gemmgen.build.cubin import read_cubin
from gemmgen.build.diagnostics import accounts_differ, refusal
from gemmgen.build.nvrtc import INSTALL, Compiler, find_compiler
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

_NAME = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.M)
_ABSOLUTE_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]/", re.M)
_ARCH_OPTIONS = ("-arch", "--gpu-architecture")
_FILE_OPTIONS = ("-I", "--include-path", "-include", "--pre-include", "-pch", "--pch", "--use-pch")


def compile_cuda(
    text: str,
    arch: str,
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    cache: Cache | None = USER_CACHE,
    allow_spills: bool = False,
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

    Raises:
        BuildError: no usable NVRTC, an architecture it does not know, or a source
            or option it refuses.
        ResourceError: a kernel spills, and `allow_spills` is false.
    """
    _check_request(text, name, options)
    compiler = find_compiler()
    if arch not in compiler.archs:
        raise BuildError(
            name,
            f"cannot be compiled for this architecture by {compiler.name}",
            got=arch,
            needs="one of: " + ", ".join(compiler.archs),
        )
    key = _key(compiler, text, arch, name, options)
    store = None if _reads_unkeyed_files(text, options) else cache
    binary = store and _find(store, key, compiler, arch, name)
    if not binary:
        binary = _build(compiler, text, arch, name, options, cache, key)
        if store:
            _keep(store, binary)
    if not allow_spills:
        refuse_spills(binary)
    return binary


def __getattr__(attribute: str) -> Any:
    if attribute == "ARCHS":  # what the compiler at hand supports; needs it loaded
        return find_compiler().archs
    raise AttributeError(f"module {__name__!r} has no attribute {attribute!r}")


def _check_request(text: str, name: str, options: Sequence[str]) -> None:
    if not _NAME.fullmatch(name):
        raise BuildError(
            "name",
            "a source's name is a relative path",
            got=name,
            needs="parts of letters, digits and _ . + -, with / between them",
        )
    if isinstance(options, str):
        raise BuildError(name, "options is one string", got=options, needs="a list of strings")
    for part in (text, *options):
        if "\0" in part or not _encodes(part):
            raise BuildError(name, "the source or an option holds a character that is not text")
    for option in options:
        if option.startswith(_ARCH_OPTIONS):
            raise BuildError(name, "the architecture is an argument, not an option", got=option)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def _reads_unkeyed_files(text: str, options: Sequence[str]) -> bool:
    """Whether the result can depend on files that the key knows nothing of."""
    return bool(_ABSOLUTE_INCLUDE.search(text)) or any(
        option.startswith(_FILE_OPTIONS) for option in options
    )


def _key(compiler: Compiler, text: str, arch: str, name: str, options: Sequence[str]) -> str:
    """What determines the bytes. Bundled headers belong to the compiler's identity."""
    facts = [caching.FORMAT, compiler.identity, *_options(text, arch, options), name, text]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _options(text: str, arch: str, options: Sequence[str]) -> list[str]:
    line_info = [] if _INCLUDE.search(text) else [_LINE_INFO]
    return [f"-arch={arch}", *_OPTIONS, *line_info, *options]


def _build(
    compiler: Compiler,
    text: str,
    arch: str,
    name: str,
    options: Sequence[str],
    cache: Cache | None,
    key: str,
) -> Binary:
    headers = compiler.headers(cache) if _INCLUDE.search(text) else None
    folders = [f"-I{headers}", f"-I{headers / 'cccl'}"] if headers else []
    start = time.perf_counter()
    output = compiler.run(text, _FOLDER + name, [*_options(text, arch, options), *folders])
    seconds = time.perf_counter() - start
    log = output.log.replace(_FOLDER + name, name)
    if headers:
        log = log.replace(f"{headers}/", "")
    if not output.ok:
        raise refusal(replace(output, log=log), compiler, arch, name)
    if not output.cubin or not output.ptx:
        raise BuildError(
            name,
            f"{compiler.name} gave no machine code or no PTX for it",
            got=" ".join(options) or None,
            remedy="leave out options that stop the compiler early",
        )
    kernels = read_cubin(output.cubin)
    if not kernels:
        raise BuildError(
            name, "defines no kernel", needs='a function that is extern "C" __global__'
        )
    if accounts := accounts_differ(log, kernels):
        raise BuildError(
            name,
            f"the cubin and the log of {compiler.name} disagree about resources",
            needs="what the log tells: " + accounts[0],
            has="read from the cubin: " + accounts[1],
            # Seen with recursion: a cubin does not mark the registers that calls save.
            remedy="no recursion and no calls through pointers; if there are none, "
            f"{INSTALL} for a compiler whose cubins gemmgen can read",
        )
    return Binary(
        arch=arch,
        code=output.cubin,
        assembly=output.ptx.replace(f'"{_FOLDER}{name}"', f'"{name}"'),
        kernels=kernels,
        compiler=compiler.name,
        log=log,
        key=key,
        source_name=name,
        from_cache=False,
        seconds=seconds,
    )


def _keep(cache: Cache, binary: Binary) -> None:
    parts = {
        "code": binary.code,
        "assembly": binary.assembly.encode(),
        "log": binary.log.encode(),
        "seconds": repr(binary.seconds).encode(),
    }
    cache.put(binary.key, parts)


def _find(cache: Cache, key: str, compiler: Compiler, arch: str, name: str) -> Binary | None:
    parts = cache.get(key)
    if parts is None:
        return None
    return Binary(
        arch=arch,
        code=parts["code"],
        assembly=parts["assembly"].decode(),
        kernels=read_cubin(parts["code"]),
        compiler=compiler.name,
        log=parts["log"].decode(),
        key=key,
        source_name=name,
        from_cache=True,
        seconds=float(parts["seconds"]),
    )
