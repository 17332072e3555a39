"""Writing the folder: all of it, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gemmgen.errors import GemmgenError
from gemmgen.export.manifest import MANIFEST, NEWEST_SCHEMA
from gemmgen.files import read, resolved, sweep, unfinished

MOST_MANIFEST = 1 << 20
"""Bytes of one; ours have some 10 KB."""
MOVES = "moves.json"
"""Names of the files that are moved into place; it is there from before the first move until after the last, or until they are taken back."""


def put(directory: str | Path, force: bool, make: Callable[[], Mapping[str, bytes]]) -> list[Path]:
    """Write a folder of what `make` gives once it is known that the folder may be written; all of it, or nothing.

    Args:
        force: put the files into a folder that holds others, and over files of the same names.

    Returns:
        The files, sorted.

    Raises:
        GemmgenError: the folder holds something else, or cannot be written.
    """
    target = Path(directory)
    try:
        final = resolved(target)
        sweep(final.parent, final.name, lambda left: _taken_back(left, final))
        stale = replaceable(target, force)
        files = make()
        write(final, files, stale)
    except OSError as error:
        raise GemmgenError(str(target), "cannot be written", got=error.strerror or str(error),
                           needs="a writable place with room", remedy="another -o, or other permissions") from None
    return sorted(target / file for file in files)


def replaceable(target: Path, force: bool) -> set[str]:
    """Files of an earlier export in the way, by their paths.

    Raises:
        GemmgenError: something else is.
    """
    if target.exists() and not target.is_dir():
        raise GemmgenError(str(target), "is not a folder", needs="a folder, or a name that is free", remedy="another -o")
    present = {path.name for path in target.iterdir()} if target.is_dir() else set()
    own = _earlier_export(target)
    if present and not own and not force:
        shown = ", ".join(sorted(present)[:3]) + (", ..." if len(present) > 3 else "")
        raise GemmgenError(str(target), "is a folder that holds something else", got=shown,
                           needs="an empty folder, a new one, or an earlier export",
                           remedy="another -o, or --force to put the export's files among them")
    return {file for file in own if _lies(target, file)}


def _earlier_export(target: Path) -> set[str]:
    """The files that a manifest in `target` tells of; none without one of ours."""
    try:
        manifest = json.loads(read(target / MANIFEST, MOST_MANIFEST))
        if not manifest["generator"].startswith("gemmgen ") or manifest["schema_version"] > NEWEST_SCHEMA:
            return set()
        named = {file for file in manifest["sha256"] if file != "kernels"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    return {MANIFEST} | {file for file in named if _is_inside(file)}


def _lies(target: Path, file: str) -> bool:
    """Whether there is such a file, and the way to it leads through no link."""
    path = target / file
    return os.path.lexists(path) and not any((target / folder).is_symlink() for folder in Path(file).parents[:-1])


def write(target: Path, files: Mapping[str, bytes], stale: set[str]) -> None:
    """Write beside the target, then move into place; whatever fails, what was there is there again."""
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    undo = contextlib.ExitStack()  # moves taken back, last first, unless all succeed
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(target, folder=True, undo=lambda left: _taken_back(left, target)) as staged:
            for folder in ("new", "old"):
                (staged / folder).mkdir()
            for file, content in files.items():
                (staged / "new" / file).parent.mkdir(parents=True, exist_ok=True)
                (staged / "new" / file).write_bytes(content)
            (staged / MOVES).write_text(json.dumps(sorted(files)))
            with contextlib.ExitStack() as ended, undo:
                ended.callback((staged / MOVES).unlink)
                target.mkdir(exist_ok=True)
                # The manifest goes first and comes last: where there is one, the export is whole.
                for file in reversed(_manifest_last(stale | {file for file in files if (target / file).exists()})):
                    (staged / "old" / file).parent.mkdir(parents=True, exist_ok=True)
                    os.rename(target / file, staged / "old" / file)
                    undo.callback(os.rename, staged / "old" / file, target / file)
                for file in _manifest_last(files):
                    for folder in reversed((target / file).relative_to(target).parents[:-1]):
                        if not (target / folder).is_dir():
                            (target / folder).mkdir()
                            undo.callback((target / folder).rmdir)
                    os.rename(staged / "new" / file, target / file)
                    undo.callback(os.rename, target / file, staged / "new" / file)
                undo.pop_all()
                made = []
                emptied = {parent for file in stale - files.keys() for parent in Path(file).parents[:-1]}
                for folder in sorted(emptied, key=lambda folder: -len(folder.parts)):
                    with contextlib.suppress(OSError):  # it holds something still
                        (target / folder).rmdir()
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _taken_back(left: Path, target: Path) -> None:
    """Take back the moves of an export that was killed between the first and the last of them.

    As `write` itself would: first what is new goes, then what was there comes back. Each step may be the last before this process is killed, too.
    """
    try:
        named = [file for file in json.loads(read(left / MOVES, MOST_MANIFEST)) if _is_inside(file)]
    except (OSError, ValueError, TypeError, RecursionError):
        return  # nothing was moved yet, or all is in place
    if not any((left / "new" / file).exists() for file in named):
        return
    for file in named:
        if not (left / "new" / file).exists() and _lies(target, file):
            os.rename(target / file, left / "new" / file)
    old = left / "old"
    for file in _manifest_last(str(path.relative_to(old)) for path in old.rglob("*") if path.is_symlink() or not path.is_dir()):
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        os.rename(old / file, target / file)


def _manifest_last(files: Iterable[str]) -> list[str]:
    return sorted(files, key=lambda file: (file == MANIFEST, file))


def _is_inside(file: object) -> bool:
    """Whether a name leads to a place in the folder: another is none that we wrote."""
    return isinstance(file, str) and all(part not in ("", ".", "..") for part in file.split("/"))
