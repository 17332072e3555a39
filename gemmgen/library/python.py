"""The Python package of a library: a binding over its C interface, operators for torch and JAX, and the recipe of a wheel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gemmgen import __version__
from gemmgen.interface import WORKSPACE_ALIGNMENT
from gemmgen.export import prose
from gemmgen.library.interface import ABI
from gemmgen.render import render_text

if TYPE_CHECKING:
    from gemmgen.library.made import Library

COMMON = {"init.py": "__init__.py", "c.py": "_c.py", "arrays.py": "_arrays.py"}
"""Files of every package by their templates' stems."""
OF_SHIM = {"torch": {"torch.py": "torch.py"}, "jax": {"jax.py": "jax.py", "xla.c": "_xla.c"}}
"""Those of what a library asks for."""
BESIDE = ("pyproject.toml", "build_wheel.py", "README.md")


def files(library: Library) -> dict[str, bytes]:
    """Texts by their paths in the library's folder, all of them below `python/`.

    The package finds lib<name>.so beside itself, in the library's folder, or where the environment's <GUARD>_LIBRARY says.

    Args:
        library: `name`, `guard`, `shim` and `maker` are what they tell.
    """
    maker = library.maker
    values = {
        "name": library.name, "guard": library.guard, "shims": library.shim, "version": __version__, "abi": ABI,
        "largest_extent": prose.LARGEST_EXTENT, "alignment": WORKSPACE_ALIGNMENT, "arch_prefix": maker.arch_prefix,
        "dlpack_type": maker.frameworks.dlpack_type, "torch_device": maker.frameworks.torch_device, "xla_platform": maker.frameworks.xla_platform,
    }
    inside = COMMON | {stem: path for shim in library.shim for stem, path in OF_SHIM.get(shim, {}).items()}
    found = {f"python/{library.name}/{path}": stem for stem, path in inside.items()} | {f"python/{path}": path for path in BESIDE}
    return {path: render_text(f"library/python/{stem}.j2", **values).encode() for path, stem in found.items()}
