"""Preload libraries: the files that a library's folder has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmgen.library.made import Library


def files(library: Library) -> dict[str, bytes]:
    """Files by their paths in the library's folder, below `shim/`; none where the library asks for nothing of it.

    Args:
        library: `name`, `guard`, `shim`, `maker`, `archs`, `kernels` are what such files tell.
    """
    return {}
