"""The assembly of sources that are only emulated: without the machine code, which takes NVRTC as long again and clang two more programs."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from gemmgen.build import Binary, find_clang, hip
from gemmgen.cache import USER_CACHE
from gemmgen.build.nvrtc import find_compiler
from gemmgen.build.request import Request

_FOLDER = "/gemmgen/"
"""Where every source pretends to lie, as where it is built."""


def ptx_of(text: str, arch: str, name: str = "kernel.cu") -> str:
    """The PTX that a build of the source has, kept in the user's own cache as builds are.

    Args:
        arch: as `sm_80` or `sm_90a`.
    """
    compiler = find_compiler()
    options = [f"-arch={arch.replace('sm_', 'compute_')}", "-std=c++17", "-default-device", "-lineinfo"]

    def make() -> str:
        output = compiler.run(text, _FOLDER + name, options)
        assert output.ok, output.log
        return output.ptx.replace(f'"{_FOLDER}{name}"', f'"{name}"')

    return _kept(["PTX alone", compiler.identity, *options, name, text], make)


def gcn_of(text: str, arch: str, name: str = "kernel.hip") -> str:
    """The AMDGPU assembly that a build of the source has, kept likewise.

    Args:
        arch: as `gfx90a`.
    """
    clang = find_clang()
    options = (*hip._options(Request(text, arch, name, ()), line_info=True), "-S", "-o", "-", "--", name)

    def make() -> str:
        with tempfile.TemporaryDirectory(prefix="gemmgen-") as folder:
            Path(folder, name).write_text(text)
            done = clang.compile(options, Path(folder))
        assert not done.returncode, done.stderr.decode(errors="replace")
        return done.stdout.decode()

    return _kept(["assembly alone", clang.identity, *options, text], make)


def _kept(described: list[str], make: Callable[[], str]) -> str:
    key = hashlib.sha256(json.dumps(described).encode()).hexdigest()
    if kept := USER_CACHE.get(key):
        return kept["assembly"].decode()
    assembly = make()
    USER_CACHE.put(key, {"assembly": assembly.encode()})
    return assembly


def assembled(source) -> Binary:
    """What an emulator runs of a kernel's `Source`; it has no machine code, and so no resources to judge."""
    make = gcn_of if source.arch.startswith("gfx") else ptx_of
    return Binary(
        arch=source.arch, code=b"", assembly=make(source.text, source.arch, source.file_name), kernels={}, compiler="", log="", key="",
        source_name=source.file_name, from_cache=False, seconds=0.0,
    )
