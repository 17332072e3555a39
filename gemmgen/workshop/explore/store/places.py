"""Where a store lies: a folder, or a bucket by its URI. Files there appear whole and under their own name, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from gemmgen.errors import GemmgenError
from gemmgen.files import UNFINISHED, sweep, unfinished
from gemmgen.workshop.explore.extras import library

SUFFIX = ".parquet"
MAGIC = b"PAR1"
FOOTER = 8
"""Bytes at a Parquet file's end: the length of what is before them, and MAGIC."""
SMALL = 16 << 20
"""Bytes below which a file is worth merging with others."""
_OBJECTS = ("s3", "gcs", "abfs")
"""File systems of pyarrow that have objects and no folders."""
LEFT_BEHIND = 24 * 3600.0
"""Seconds after which nobody writes an unfinished file any more that is not locked."""


class Place(Protocol):
    """Parquet files side by side.

    Attributes:
        where: as a message names it.
        path: as the file system knows it.
    """

    where: str
    path: Any

    def exists(self) -> bool:
        """Whether a store may be there: a bucket's folder is there as soon as something is in it."""

    def names(self) -> dict[str, int]:
        """Bytes of every Parquet file by its name."""

    def put(self, name: str, content: bytes) -> None:
        """Write a file: whole or, after an error, not at all.

        Raises:
            GemmgenError: it cannot be written.
        """

    def remove(self, name: str) -> None:
        """Remove a file, which may be gone already."""

    def whole(self, name: str, size: int) -> bool:
        """Whether a file begins and ends as Parquet does; FileNotFoundError where it is gone."""

    def open(self, name: str) -> Any:
        """What pyarrow reads a file from."""

    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Nobody else merges files of the store meanwhile."""


def place_of(store: str | Path) -> Place:
    """The place that a path or a URI names, such as s3://bucket/folder."""
    text = str(store)
    scheme, of_uri, rest = text.partition("://")
    if not of_uri or scheme == "file":
        return Folder(Path(rest if of_uri else text))
    return Bucket(text)


def cannot_write(where: str, error: Exception, size: int) -> GemmgenError:
    """A file of that many bytes could not be written."""
    return GemmgenError(where, "cannot be written", got=getattr(error, "strerror", None) or str(error), needs=f"room for {size} B, and leave to write",
                        remedy="make room; what is not written is kept, and flush() writes it")


def cannot_read(where: str, error: Exception) -> GemmgenError:
    return GemmgenError(where, "cannot be read", got=getattr(error, "strerror", None) or str(error), needs="a folder or a bucket that can be read")


def _without_keys(text: str) -> str:
    """A text as messages show it: a URI in it may hold keys, `s3://KEY:SECRET@bucket`, of which a secret may hold a slash."""
    return re.sub(r"//[^/@\s]*(:[^@\s]*)?@", "//", text)


def _sound(head: bytes, tail: bytes, size: int) -> bool:
    return head == MAGIC and tail[4:] == MAGIC and int.from_bytes(tail[:4], "little") + FOOTER + len(MAGIC) <= size


class Folder:
    """A folder, made with the first file.

    Args:
        path: of the folder.
    """

    def __init__(self, path: Path):
        self.path = path.expanduser().absolute()
        self.where = str(path)
        self._swept = False

    def exists(self) -> bool:
        return self.path.is_dir()

    def names(self) -> dict[str, int]:
        found = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                        with contextlib.suppress(FileNotFoundError):  # another process merged it this moment
                            if entry.is_file():
                                found[entry.name] = entry.stat().st_size
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise cannot_read(self.where, error) from None
        return found

    def put(self, name: str, content: bytes) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self._swept:
                sweep(self.path)
                self._swept = True
            with unfinished(self.path / name, sweeping=False) as beside:
                with open(beside, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, self.path / name)
        except OSError as error:
            raise cannot_write(self.where, error, len(content)) from None
        self._keep_names()

    def _keep_names(self) -> None:
        """The folder's entries survive a loss of power; some file systems cannot promise it."""
        with contextlib.suppress(OSError):
            number = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(number)
            finally:
                os.close(number)

    def remove(self, name: str) -> None:
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise GemmgenError(f"{self.where}/{name}", "cannot be removed", got=error.strerror, needs="leave to write in the store's folder") from None

    def whole(self, name: str, size: int) -> bool:
        if size < len(MAGIC) + FOOTER:
            return False
        with open(self.path / name, "rb") as file:
            head = file.read(len(MAGIC))
            file.seek(-FOOTER, os.SEEK_END)
            return _sound(head, file.read(FOOTER), size)

    def open(self, name: str) -> Path:
        return self.path / name

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        try:
            lock = os.open(self.path / ".merging", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise cannot_write(self.where, error, 0) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # ends with the process, however that ends
        except OSError:
            os.close(lock)
            raise GemmgenError(self.where, "is being merged by another process", needs="one at a time", remedy="wait until it has ended") from None
        try:
            self._sweep()
            yield
        finally:
            os.close(lock)

    def _sweep(self) -> None:
        """Remove what writers that were killed left unfinished; after a day, where the file system has no locks that tell of them."""
        sweep(self.path)
        for path in self.path.glob(f".*{UNFINISHED}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFT_BEHIND:
                    path.unlink()


class Bucket:
    """A folder of an object store, whose objects appear when they are complete. pyarrow has S3, GCS and Azure; others are fsspec's.

    Args:
        uri: such as s3://bucket/folder, with what the file system's own settings and environment name.

    Raises:
        GemmgenError: nothing serves such a URI.
    """

    def __init__(self, uri: str):
        fs = library("pyarrow.fs")
        self.where = _without_keys(uri.rstrip("/"))
        try:
            self.files, path = fs.FileSystem.from_uri(uri)
        except (ValueError, NotImplementedError, OSError) as error:
            try:
                other, path = importlib.import_module("fsspec.core").url_to_fs(uri)
            except (ImportError, ValueError, OSError) as also:
                raise GemmgenError(self.where, "is no place for a store", got=_without_keys(f"{error}; {also}")[:500],
                                   needs="a folder, or a URI that pyarrow.fs or fsspec serves, such as s3://bucket/folder") from None
            self.files = fs.PyFileSystem(fs.FSSpecHandler(other))
        self.path = path.rstrip("/")

    def exists(self) -> bool:
        return bool(self.names())

    def names(self) -> dict[str, int]:
        fs = library("pyarrow.fs")
        try:
            found = self.files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        except OSError as error:
            raise cannot_read(self.where, error) from None
        return {one.base_name: one.size for one in found if one.type == fs.FileType.File and one.base_name.endswith(SUFFIX)}

    def put(self, name: str, content: bytes) -> None:
        try:
            if self.files.type_name not in _OBJECTS:  # fsspec's, a disk's and HDFS's stores want a folder where they have such
                self.files.create_dir(self.path, recursive=True)
            with self.files.open_output_stream(f"{self.path}/{name}") as stream:
                stream.write(content)
        except OSError as error:
            with contextlib.suppress(OSError):  # what a store keeps of half a file is no Parquet, and readers pass over it
                self.files.delete_file(f"{self.path}/{name}")
            raise cannot_write(self.where, error, len(content)) from None

    def remove(self, name: str) -> None:
        try:
            self.files.delete_file(f"{self.path}/{name}")
        except FileNotFoundError:
            pass
        except OSError as error:
            raise GemmgenError(f"{self.where}/{name}", "cannot be removed", got=str(error), needs="leave to remove objects of the bucket") from None

    def whole(self, name: str, size: int) -> bool:
        if size < len(MAGIC) + FOOTER:
            return False
        with self.files.open_input_file(f"{self.path}/{name}") as file:
            return _sound(file.read_at(len(MAGIC), 0), file.read_at(FOOTER, size - FOOTER), size)

    def open(self, name: str) -> Any:
        return self.files.open_input_file(f"{self.path}/{name}")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        yield  # object stores have no lock that ends with its process: the page says that one merges at a time
