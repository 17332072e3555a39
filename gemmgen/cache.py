"""Built kernels and compiled templates on disk, found again by what they were made from.

Layout, below `$GEMMGEN_CACHE`, or `$XDG_CACHE_HOME/gemmgen`, or `~/.cache/gemmgen`:

    secret                    32 random bytes
    binaries/ab/ab12...ef     one entry: a checksum, a table of contents, the parts
    refused/gemmgen_...       empty: an entry of a kernel of this name spills
    templates/ab/ab12...ef    likewise of a template
    headers/nvrtc-13.5-.../   CUDA headers, when a source includes some (26 MB)

An entry is written beside its final name and moved into place, so a reader sees
all of it or none, whatever other processes do. The checksum covers the key and
the content, and is keyed with the file `secret`, which only the user may read: an entry
that is damaged, truncated, in the wrong place or of another maker is as good
as absent, and the next build says so and replaces it. The folders, the secret and the entries must
be the user's own and writable by no one else; else nothing there is read or written.
Nothing else depends on this folder and
nothing is ever removed from it: `rm -r` it, or a folder in it, between builds.
`GEMMGEN_CACHE=off` works without one.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import stat
import uuid
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from gemmgen import files
from gemmgen.errors import CacheWarning

FORMAT = 3
"""Changes when the layout of an entry or the meaning of a key does."""

SECRET = "secret"
SECRET_BYTES = 32
MOST_BYTES = 1 << 28
"""Of an entry; the largest have some MB."""

_MAGIC = b"gemmgen cache %d " % FORMAT
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Untrusted(OSError):
    """A folder or file that another user owns or may change."""


def folder() -> Path | None:
    """The cache folder the environment asks for; None where it asks for none."""
    asked = os.environ.get("GEMMGEN_CACHE")
    if asked == "off":
        return None
    try:
        if asked:
            return Path(asked).expanduser().absolute()
        shared = os.environ.get("XDG_CACHE_HOME", "")
        # The XDG specification says to ignore a relative path.
        base = Path(shared) if os.path.isabs(shared) else Path.home() / ".cache"
        return base / "gemmgen"
    except (RuntimeError, OSError):  # no home directory, no current directory
        return None


class Cache:
    """A content-addressed store of named byte strings.

    No method raises for the state of the disk: a cache that cannot be read, or that others
    may have written, is empty, and one that cannot be written stays so. A CacheWarning tells
    of what is not as it should be.

    Args:
        root: the folder; without one, what the environment says at each use.
        name: of the folder in it that has the entries.
    """

    def __init__(self, root: str | os.PathLike | None = None, name: str = "binaries"):
        self._root, self._name = None if root is None else Path(root), name

    @property
    def root(self) -> Path | None:
        """The folder, or None when the cache is off."""
        return self._root or folder()

    def path(self, key: str) -> Path | None:
        """Where the entry of `key` (lower-case hex) is or would be."""
        return self.root and self.root / self._name / key[:2] / key

    def own_folder(self, name: str) -> Path | None:
        """The folder `name` in the cache's own, made where it is not there; None where that cannot be or others may write."""
        root = self.root
        if root is None:
            return None
        try:
            with _opened(root, name, make=True):
                return root / name
        except OSError as error:
            _warn_untrusted(error)
            return None

    def get(self, key: str) -> dict[str, bytes] | None:
        """The parts stored under `key`; None when there are none, or not whole, or not ours."""
        root, path = self.root, self.path(key)
        if root is None or path is None:
            return None
        try:
            with _opened(root, self._name, key[:2]) as inside:
                content = _read_own(path, MOST_BYTES, inside)
        except FileNotFoundError:
            return None
        except OSError as error:
            _warn_untrusted(error)
            return None
        try:
            with _opened(root) as inside:
                parts = _unpack(key, content, _read_secret(root, inside))
        except OSError as error:
            _warn_untrusted(error)
            parts = None
        if parts is None:
            self.replacing(key, "its checksum is another")
        return parts

    def mark_refused(self, name: str) -> None:
        """Keep that a kernel of this name spilled when it was compiled."""
        root = self.root
        if root is None:
            return
        try:
            with _opened(root, "refused", make=True) as inside:
                _write_new(name, b"", inside)
        except OSError as error:
            _warn_untrusted(error)

    def is_marked_refused(self, name: str) -> bool:
        """Whether an entry of a kernel of this name, of any compiler, may spill: where not, nobody need render the kernel to look for its entry."""
        root = self.root
        return root is not None and os.path.lexists(root / "refused" / name)

    def replacing(self, key: str, reason: str) -> None:
        """Tell that the entry of `key` is not used; the next one put takes its place."""
        warnings.warn(f"{self.path(key)} is damaged or not this user's ({reason}): it is not used, and made anew", CacheWarning, stacklevel=3)

    def put(self, key: str, parts: Mapping[str, bytes]) -> bool:
        """Store `parts` under `key`, replacing what is there. False when it could not."""
        root = self.root
        if root is None:
            return False
        unfinished = f".unfinished-{uuid.uuid4().hex}"
        try:
            with _opened(root, make=True) as inside:
                secret = _secret(root, inside)
            with _opened(root, self._name, key[:2], make=True) as inside:
                try:
                    _write_new(unfinished, _pack(key, parts, secret), inside)
                    os.replace(unfinished, key, src_dir_fd=inside, dst_dir_fd=inside)
                except OSError:
                    with contextlib.suppress(OSError):
                        os.unlink(unfinished, dir_fd=inside)
                    raise
            return True
        except OSError as error:
            _warn_untrusted(error)
            return False


USER_CACHE = Cache()


# ---- folders and files that are the user's own


@contextlib.contextmanager
def _opened(root: Path, *names: str, make: bool = False) -> Iterator[int]:
    """A folder below `root` as a file descriptor: it, and each above it up to the root, the user's own.

    Raises:
        OSError: it is not there, or cannot be made; Untrusted where others may write to it.
    """
    if make:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, number = root, os.open(root, _FOLDER)
    try:
        _check(number, path, stat.S_IWGRP | stat.S_IWOTH)
        for name in names:
            path /= name
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=number)
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=number)
            os.close(number)
            number = inner
            _check(number, path, stat.S_IWGRP | stat.S_IWOTH)
        yield number
    finally:
        os.close(number)


def _check(number: int, path: Path, forbidden: int) -> None:
    """Whether the open file is the user's own and grants others none of the forbidden modes.

    Raises:
        Untrusted: it is not, or does.
    """
    found = os.fstat(number)
    if found.st_uid != os.geteuid():
        raise Untrusted(errno.EPERM, f"user {found.st_uid} owns it", str(path))
    if found.st_mode & forbidden:
        rights = "rwx" if forbidden & stat.S_IROTH else "w"
        raise Untrusted(errno.EPERM, f"its mode is {stat.S_IMODE(found.st_mode):o}, and others may not have these rights: chmod go-{rights}", str(path))


def _read_own(path: Path, most: int, inside: int, forbidden: int = stat.S_IWGRP | stat.S_IWOTH) -> bytes:
    """The content of a file of an open folder that is the user's own.

    Raises:
        OSError: it is not there, a link, no regular file or too large; Untrusted where others may change it.
    """
    try:
        with files.opened(path.name, flags=os.O_NOFOLLOW, dir_fd=inside) as file:
            _check(file.fileno(), path, forbidden)
            content = file.read(most + 1)
    except (files.NotRegular, IsADirectoryError) as error:
        raise Untrusted(error.errno, error.strerror, str(path)) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Untrusted(error.errno, "it is a link", str(path)) from None
        raise
    if len(content) > most:
        raise Untrusted(errno.EFBIG, f"it has more than {most} bytes", str(path))
    return content


def _read_secret(root: Path, inside: int) -> bytes:
    secret = _read_own(root / SECRET, SECRET_BYTES, inside, stat.S_IRWXG | stat.S_IRWXO)
    if len(secret) != SECRET_BYTES:
        raise Untrusted(errno.EINVAL, f"it has {len(secret)} bytes, not {SECRET_BYTES}", str(root / SECRET))
    return secret


def _secret(root: Path, inside: int) -> bytes:
    """The user's secret, made where there is none: written whole beside, and linked, so that of several makers the first wins."""
    with contextlib.suppress(FileNotFoundError):
        return _read_secret(root, inside)
    unfinished = f".unfinished-{uuid.uuid4().hex}"
    try:
        _write_new(unfinished, os.urandom(SECRET_BYTES), inside)
        with contextlib.suppress(FileExistsError):
            os.link(unfinished, SECRET, src_dir_fd=inside, dst_dir_fd=inside)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(unfinished, dir_fd=inside)
    return _read_secret(root, inside)


def _write_new(name: str, content: bytes, inside: int) -> None:
    """Write a file that only the user may read, and that was not there before."""
    number = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=inside)
    with os.fdopen(number, "wb") as file:
        file.write(content)


def _warn_untrusted(error: OSError) -> None:
    """Tell of what others may have put there; that a disk cannot be read or written is no news to its user."""
    if isinstance(error, Untrusted):
        warnings.warn(f"{error.filename} is not used as a cache: {error.strerror}", CacheWarning, stacklevel=3)


# ---- an entry


def _pack(key: str, parts: Mapping[str, bytes], secret: bytes) -> bytes:
    table = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    body = table + b"\n" + b"".join(parts.values())
    return _MAGIC + _checksum(key, body, secret) + b"\n" + body


def _unpack(key: str, entry: bytes, secret: bytes) -> dict[str, bytes] | None:
    """The parts of an entry; None where it is not one that `_pack` made with this secret."""
    head, _, body = entry.partition(b"\n")
    if not hmac.compare_digest(head, _MAGIC + _checksum(key, body, secret)):
        return None
    told, _, content = body.partition(b"\n")
    try:
        table = json.loads(told)
    except (ValueError, RecursionError):
        return None
    if not isinstance(table, dict) or any(type(size) is not int or size < 0 for size in table.values()) or sum(table.values()) != len(content):
        return None
    parts, at = {}, 0
    for name, size in table.items():
        parts[name] = content[at : at + size]
        at += size
    return parts


def _checksum(key: str, body: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + body, "sha256").hex().encode()
