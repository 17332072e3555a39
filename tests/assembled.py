"""PTX of sources that are only emulated: without the machine code, which takes NVRTC as long again."""

from __future__ import annotations

import hashlib
import json

from gemmgen.build import Binary
from gemmgen.build.cache import USER_CACHE
from gemmgen.build.nvrtc import find_compiler

_FOLDER = "/gemmgen/"
"""Where every source pretends to lie, as where it is built."""


def ptx_of(text: str, arch: str, name: str = "kernel.cu") -> str:
    """The PTX that a build of the source has, kept in the user's own cache as builds are.

    Args:
        arch: as `sm_80` or `sm_90a`.
    """
    compiler = find_compiler()
    options = [f"-arch={arch.replace('sm_', 'compute_')}", "-std=c++17", "-default-device", "-lineinfo"]
    key = hashlib.sha256(json.dumps(["PTX alone", compiler.identity, *options, name, text]).encode()).hexdigest()
    if kept := USER_CACHE.get(key):
        return kept["assembly"].decode()
    output = compiler.run(text, _FOLDER + name, options)
    assert output.ok, output.log
    ptx = output.ptx.replace(f'"{_FOLDER}{name}"', f'"{name}"')
    USER_CACHE.put(key, {"assembly": ptx.encode()})
    return ptx


def assembled(source) -> Binary:
    """What an emulator runs of an NVIDIA kernel's `Source`; it has no machine code, and so no resources to judge."""
    return Binary(
        arch=source.arch, code=b"", assembly=ptx_of(source.text, source.arch, source.file_name), kernels={}, compiler="", log="", key="",
        source_name=source.file_name, from_cache=False, seconds=0.0,
    )
