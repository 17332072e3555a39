"""Source -> Binary: the compilers, and the readers of what they made.

Names are imported when they are first used, so `import gemmgen.build` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmgen.build.binary import Binary, KernelResources
    from gemmgen.build.choice import Built, Planned, Refusal, first_not_refused, first_that_builds
    from gemmgen.build.clang import Clang, find_clang
    from gemmgen.build.code_object import CodeObjectResources, read_code_object
    from gemmgen.build.cubin import CubinResources, read_cubin
    from gemmgen.build.cuda import compile_cuda
    from gemmgen.build.hip import compile_hip
    from gemmgen.build.nvrtc import Compiler, find_compiler
    from gemmgen.cache import Cache
    from gemmgen.render import Source

_HOMES = {
    "Binary": "binary",
    "Built": "choice",
    "KernelResources": "binary",
    "Clang": "clang",
    "find_clang": "clang",
    "CodeObjectResources": "code_object",
    "read_code_object": "code_object",
    "CubinResources": "cubin",
    "read_cubin": "cubin",
    "Planned": "choice",
    "Refusal": "choice",
    "first_not_refused": "choice",
    "first_that_builds": "choice",
    "compile_cuda": "cuda",
    "compile_hip": "hip",
    "Compiler": "nvrtc",
    "find_compiler": "nvrtc",
}

__all__ = ["build", "without_line_info", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def without_line_info(source: Source, binary: Binary) -> Binary:
    """The same machine code as far as its instructions go, a third as large: for whoever ships it. AMD's has none to leave out, nor has what was built without.

    Raises:
        BuildError: as `build`.
    """
    from gemmgen.build.cuda import compile_cuda

    if source.arch.startswith("gfx") or "\n\t.loc" not in binary.assembly:
        return binary
    lean = compile_cuda(source.text, source.arch, name=source.file_name, allow_spills=True, line_info=False)
    return lean if lean.kernels == binary.kernels else binary


def build(source: Source, *, cache: Cache | None = None, only_kept: bool = False, line_info: bool = True) -> Binary:
    """Compile a rendered Source: HIP for an architecture `gfx...`, else CUDA.

    Args:
        cache: where finished binaries are kept; None is the user's own cache.
        only_kept: compile nothing; only what the cache holds will do.
        line_info: keep lines of the source, for profilers and for the emulator's messages; without them compiling takes a tenth less.

    Raises:
        BuildError: the compiler is missing or refused the source; or the cache does not hold it, and `only_kept`.
        ResourceError: it spills and may not.
    """
    from gemmgen.build.cuda import compile_cuda
    from gemmgen.build.hip import compile_hip

    compile_source = compile_hip if source.arch.startswith("gfx") else compile_cuda
    options: dict[str, Any] = {} if cache is None else {"cache": cache}
    return compile_source(
        source.text, source.arch, name=source.file_name, allow_spills=source.allow_spills, only_kept=only_kept, line_info=line_info, **options
    )
