"""Files that come from outside, opened without waiting and read up to a bound; and files that are written beside their place and moved there.

A spec, a row, a matrix or a cached kernel is a regular file. A FIFO would wait for a
writer, a device such as /dev/zero has no end, and either may stand where a file is expected.

What is written has a name of its own until it is whole. Its process holds a lock on it, which ends with the process, however that ends:
so the next writer tells what a killed one left from what another writes at the moment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

UNFINISHED = ".unfinished"
"""How names end of what is not whole yet."""
_STEM = 150
"""Bytes of a name that its unfinished one repeats: file systems have names of 255."""
_WITHOUT_WAITING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotRegular(OSError):
    """A FIFO, device, socket or folder where a file is expected."""


class TooLarge(OSError):
    """More bytes than whoever reads allows."""


def resolved(path: Path) -> Path:
    """The path from the root on, without links.

    Raises:
        OSError: there can be no such path: a loop of links, a NUL in a name, or no current folder.
    """
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, str(error)) from None
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from None


@contextmanager
def opened(path: str | os.PathLike, *, flags: int = 0, dir_fd: int | None = None) -> Iterator[BinaryIO]:
    """A regular file, open for reading.

    Args:
        flags: further ones of os.open, as O_NOFOLLOW.
        dir_fd: the open folder that a relative path starts from.

    Raises:
        OSError: it cannot be opened; NotRegular, IsADirectoryError where it is something else.
    """
    try:
        number = os.open(path, _WITHOUT_WAITING | flags, dir_fd=dir_fd)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, str(error)) from None
    mode = os.fstat(number).st_mode
    if not stat.S_ISREG(mode):
        os.close(number)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise NotRegular(errno.EINVAL, "not a regular file")
    with os.fdopen(number, "rb") as file:
        yield file


def read(path: str | os.PathLike, most: int, *, flags: int = 0, dir_fd: int | None = None) -> bytes:
    """All bytes of a regular file of at most `most`.

    Args:
        flags, dir_fd: as `opened` takes them.

    Raises:
        OSError: as `opened`; TooLarge where there are more.
    """
    with opened(path, flags=flags, dir_fd=dir_fd) as file:
        content = file.read(most + 1)  # and not by the size it tells: files of /proc tell 0
    if len(content) > most:
        raise TooLarge(errno.EFBIG, f"more than {most} bytes")
    return content


@contextmanager
def unfinished(final: Path, *, folder: bool = False, sweeping: bool = True, undo: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """A new empty file, or folder, beside `final`, to be filled and moved there; what is left of it at the end is removed.

    Args:
        sweeping: whether what killed processes left of the same name is removed first, as `sweep` does.
        undo: as `sweep` takes it.

    Raises:
        OSError: it cannot be made.
    """
    if sweeping:
        sweep(final.parent, final.name, undo)
    while True:
        beside = final.with_name(f".{_stem(final.name)}.{os.urandom(6).hex()}{UNFINISHED}")
        if folder:
            beside.mkdir()
        else:
            os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        try:
            held = _locked(beside)
        except (BlockingIOError, FileNotFoundError):  # another process took it for a leftover before it was locked
            continue
        break
    try:
        yield beside
    finally:
        _remove(beside)
        os.close(held)


def sweep(folder: Path, name: str | None = None, undo: Callable[[Path], None] | None = None) -> None:
    """Remove what killed processes of this user left unfinished in a folder; never what a living one writes.

    Args:
        name: only what was to become a file or folder of this name.
        undo: is called with each leftover before it is removed, and may move out of it what must not be lost.
    """
    stem = ".+" if name is None else re.escape(_stem(name))
    try:
        with os.scandir(folder) as entries:
            left = [Path(entry.path) for entry in entries if re.fullmatch(rf"\.{stem}\.[0-9a-f]{{12}}{re.escape(UNFINISHED)}", entry.name, re.DOTALL)]
    except OSError:
        return
    for path in left:
        with contextlib.suppress(OSError):  # BlockingIOError: its process lives; others: it is gone, or not ours
            held = _locked(path, strict=True)
            try:
                if os.fstat(held).st_uid == os.geteuid():
                    if undo is not None:
                        undo(path)
                    _remove(path)
            finally:
                os.close(held)


def _stem(name: str) -> str:
    return os.fsdecode(os.fsencode(name)[:_STEM])


def _locked(path: Path, *, strict: bool = False) -> int:
    """The open file or folder, locked.

    Args:
        strict: raise where the file system has no locks, too.

    Raises:
        BlockingIOError: another process has locked it. FileNotFoundError: it is gone.
    """
    number = os.open(path, _WITHOUT_WAITING | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            if strict:
                raise
        if not os.path.samestat(os.fstat(number), os.stat(path, follow_symlinks=False)):  # removed, and made anew
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    except BaseException:
        os.close(number)
        raise
    return number


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
