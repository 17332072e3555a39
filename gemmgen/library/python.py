"""The Python package of a library: a binding over its C interface, operators for torch and JAX, and the recipe of a wheel."""

from __future__ import annotations

from typing import Protocol

from gemmgen import __version__
from gemmgen.render import render_text

LARGEST_EXTENT = 2**31 - 1
ALIGNMENT = 256
"""Bytes, of a workspace."""
PACKAGE = {
    "init.py": "__init__.py", "c.py": "_c.py", "arrays.py": "_arrays.py", "torch.py": "torch.py", "jax.py": "jax.py", "xla.c": "_xla.c",
}
"""Files of the package by their templates' stems."""


class Maker(Protocol):
    """What a vendor's row tells of how frameworks name its devices."""

    arch_prefix: str
    dlpack_type: int
    torch_device: str
    xla_platform: str


class Library(Protocol):
    """What the package's text depends on."""

    name: str
    guard: str
    vendor: Maker


def files(library: Library) -> dict[str, bytes]:
    """Texts by their paths inside the library's folder, all of them below `python/`.

    The package finds lib<name>.so beside itself, in the library's folder, or where the environment's <guard>_LIBRARY says.
    """
    values = {
        "name": library.name, "guard": library.guard, "version": __version__,
        "largest_extent": LARGEST_EXTENT, "alignment": ALIGNMENT,
        "arch_prefix": library.vendor.arch_prefix, "dlpack_type": library.vendor.dlpack_type,
        "torch_device": library.vendor.torch_device, "xla_platform": library.vendor.xla_platform,
    }
    found = {f"python/{library.name}/{path}": f"library/python/{stem}.j2" for stem, path in PACKAGE.items()}
    found |= {f"python/{path}": f"library/python/{path}.j2" for path in ("pyproject.toml", "build_wheel.py", "README.md")}
    return {path: render_text(template, **values).encode() for path, template in found.items()}
