"""Built kernels on disk, found again by what they were built from.

Layout, below `$GEMMGEN_CACHE`, or `$XDG_CACHE_HOME/gemmgen`, or `~/.cache/gemmgen`:

    binaries/ab/ab12...ef     one entry: a checksum, a table of contents, the parts
    headers/nvrtc-13.5-.../   CUDA headers, when a source includes some (26 MB)

An entry is written beside its final name and moved into place, so a reader sees
all of it or none, whatever other processes do. The checksum covers the key and
the content: an entry that is damaged, truncated or in the wrong place is as good
as absent, and the next build replaces it. Nothing else depends on this folder and
nothing is ever removed from it: `rm -r` it, or a folder in it, between builds.
`GEMMGEN_CACHE=off` works without one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

FORMAT = 2
"""Changes when the layout of an entry or the meaning of a key does."""

_MAGIC = b"gemmgen cache %d " % FORMAT


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

    No method raises for the state of the disk: a cache that cannot be read is
    empty, and one that cannot be written stays so.

    Args:
        root: the folder; without one, what the environment says at each use.
    """

    def __init__(self, root: str | os.PathLike | None = None):
        self._root = None if root is None else Path(root)

    @property
    def root(self) -> Path | None:
        """The folder, or None when the cache is off."""
        return self._root or folder()

    def path(self, key: str) -> Path | None:
        """Where the entry of `key` (lower-case hex) is or would be."""
        return self.root and self.root / "binaries" / key[:2] / key

    def get(self, key: str) -> dict[str, bytes] | None:
        """The parts stored under `key`; None when there are none, or not whole."""
        path = self.path(key)
        if path is None:
            return None
        try:
            return _unpack(key, path.read_bytes())
        except OSError:
            return None

    def put(self, key: str, parts: Mapping[str, bytes]) -> bool:
        """Store `parts` under `key`, replacing what is there. False when it could not."""
        path = self.path(key)
        if path is None:
            return False
        unfinished = path.with_name(f".unfinished-{uuid.uuid4().hex}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(_pack(key, parts))
            unfinished.replace(path)
            return True
        except OSError:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            return False


USER_CACHE = Cache()


def _pack(key: str, parts: Mapping[str, bytes]) -> bytes:
    table = json.dumps({name: len(part) for name, part in parts.items()}).encode()
    body = table + b"\n" + b"".join(parts.values())
    return _MAGIC + _checksum(key, body) + b"\n" + body


def _unpack(key: str, entry: bytes) -> dict[str, bytes] | None:
    head, _, body = entry.partition(b"\n")
    if head != _MAGIC + _checksum(key, body):
        return None
    table, _, content = body.partition(b"\n")
    parts, at = {}, 0
    for name, size in json.loads(table).items():
        parts[name] = content[at : at + size]
        at += size
    return parts


def _checksum(key: str, body: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + body).hexdigest().encode()
