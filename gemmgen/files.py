"""Files that come from outside, opened without waiting and read up to a bound.

A spec, a row, a matrix or a cached kernel is a regular file. A FIFO would wait for a
writer, a device such as /dev/zero has no end, and either may stand where a file is expected.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

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
