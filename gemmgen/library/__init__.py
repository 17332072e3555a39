"""A library of kernels with one C function for every layout, size and GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gemmgen.library.made import Library

__all__ = ["write"]


def write(library: Library, directory: str | Path, *, force: bool = False) -> list[Path]:
    """Write a library's folder; all of it, or nothing.

    Args:
        directory: the folder to make. One that is there already must be empty, or an earlier library or export, which is replaced; files that are
            not its own are never touched.
        force: put the files into a folder that holds others, and over files of the same names.

    Returns:
        The files, sorted.

    Raises:
        GemmgenError: the folder holds something else, or cannot be written; or the runtime cannot launch a kernel.
    """
    from gemmgen.export import folder
    from gemmgen.library.contents import all_files

    return folder.put(directory, force, lambda: all_files(library))
