"""Schemes and GPUs of one's own in a store: their files' texts, in the rows of the trials that used them.

A store may be anybody's. A name in it is the name of a row and never a path: no file that a store names is opened. A study whose TOML names files of
schemes or GPUs therefore keeps the texts of those files with its trials, and readers take them from there, wherever the store was copied to.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from gemmgen.cache import folder
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.table import IDENTIFIER, MOST_BYTES, absolute, read_toml
from gemmgen.errors import SpecError
from gemmgen.files import read, unfinished
from gemmgen.spec import LoadedSpec
from gemmgen.workshop.explore.trial_row import Row

NAMED = {"scheme": ("split", "scheme"), "fallback": ("split", "fallback"), "gpu": ("target", "gpu")}
"""What of a spec may be a file of one's own: its section and key."""
KEY = re.compile(r"[0-9]/[a-z][a-z0-9_]{0,39}\.toml")
"""Of a file in a row: each lies in a folder of its own, so that two of one name do not meet."""
MOST_FILES = 8
OWN = '"own":'
"""What stands in the column `extra` of a row that brings files."""


# ---- writing


def row_name(name: str) -> str:
    """The name of the row that a spec calls `name`: its own, or its file's."""
    return Path(name).stem


def without_paths(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with names of rows in place of files."""
    found = dict(spec)
    for section, key in NAMED.values():
        if isinstance(name := found.get(section, {}).get(key), str):
            found[section] = {**found[section], key: row_name(name)}
    return found


def kept(loaded: LoadedSpec) -> dict[str, Any]:
    """What a row keeps of the files that a spec names, as `own` of its column `extra`; empty where it names none.

    Returns:
        `scheme`, `fallback`, `gpu`: keys of those that are files; `files`: texts by key, with those that the files refer to.

    Raises:
        SpecError: a file cannot be read.
    """
    names = {what: getattr(getattr(loaded.spec, section), key) for what, (section, key) in NAMED.items()}
    paths = {what: absolute((loaded.folder or Path()) / name) for what, name in names.items() if name and name.endswith(".toml")}
    return _kept(tuple(paths.items()))


@lru_cache(maxsize=64)
def _kept(paths: tuple[tuple[str, Path], ...]) -> dict[str, Any]:
    keys: dict[Path, str] = {}
    files: dict[str, str] = {}
    waiting = [path for _, path in paths]
    for path in waiting:
        keys.setdefault(path, f"{len(keys)}/{path.name}")
    while waiting:
        path = waiting.pop()
        if keys[path] in files:
            continue
        references, text = set(_references(read_toml(path))), read(path, MOST_BYTES).decode()
        for name in references:
            target = absolute(path.parent / name)
            keys.setdefault(target, f"{len(keys)}/{target.name}")
            waiting.append(target)
            for quote in "\"'":
                text = text.replace(f"{quote}{name}{quote}", f"{quote}../{keys[target]}{quote}")
        files[keys[path]] = text
    return {**{what: keys[path] for what, path in paths}, "files": files} if files else {}


def _references(value: Any) -> Iterator[str]:
    """Strings of a file that are taken for the names of other files."""
    if isinstance(value, str) and value.endswith(".toml"):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _references(inner)


# ---- reading


def named(row: Row, what: str, name: object) -> object:
    """How a spec names what a row of a store calls `name`: a file with the text that the row brings, or the name itself.

    Args:
        what: one of NAMED.

    Raises:
        SpecError: it is no name of a row, or the row brings files that no study keeps.
    """
    own = _brought(row).get(what)
    if own is not None and own.stem == name:
        return str(own)
    if isinstance(name, str) and not re.fullmatch(IDENTIFIER, name):
        raise SpecError(_place(row), f"names a {what} by what is no name", got=name, needs="the name of a row, such as h200 or ootomo; never a path",
                        remedy="gemmgen list gpus" if what == "gpu" else "gemmgen list schemes")
    return name


def gpu_of(row: Row) -> Gpu:
    """The description of the row's GPU.

    Raises:
        UnknownName: there is none.
        SpecError: as `named`, or what the row brings describes no GPU.
    """
    return GPUS.get(str(named(row, "gpu", row.gpu)), where=f"{_place(row)}: gpu")


def _place(row: Row) -> str:
    return f"row {row.trial or row.kernel}"


def _brought(row: Row) -> dict[str, Path]:
    """The files that a row brings, by what they are of; they lie in the cache folder."""
    if OWN not in row.extra:
        return {}
    try:
        return _files_of(row.extra)
    except SpecError as error:
        error.where = f"{_place(row)}: {error.where}"
        raise


@lru_cache(maxsize=64)
def _files_of(extra: str) -> dict[str, Path]:
    try:
        own = json.loads(extra)["own"]
        files = own["files"]
        wanted = {what: own[what] for what in NAMED if what in own}
        if not (0 < len(files) <= MOST_FILES and wanted and all(KEY.fullmatch(key) and len(text.encode()) <= MOST_BYTES for key, text in files.items())
                and set(wanted.values()) <= files.keys()):
            raise ValueError
        place = _laid(tuple(sorted(files.items())))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise SpecError("own", "is nothing that a study keeps", got=extra, needs="texts of schemes and GPUs, by number and name",
                        remedy="rows that gemmgen study run wrote") from None
    for key in files:
        for name in _references(read_toml(place / key)):
            if posixpath.normpath(posixpath.join(posixpath.dirname(key), name)) not in files:
                raise SpecError(f"own {key}", "refers to a file that the row does not bring", got=name, needs="a shipped row, or a file beside it",
                                remedy="rows that gemmgen study run wrote")
    return {what: place / key for what, key in wanted.items()}


@lru_cache(maxsize=64)
def _laid(files: tuple[tuple[str, str], ...]) -> Path:
    """The folder where files with these texts lie."""
    name = hashlib.sha256(json.dumps(files).encode()).hexdigest()[:32]
    for base in (folder(), Path(_here().name)):
        if base is None:
            continue
        place = base / "rows" / name
        try:
            if not place.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                with unfinished(place, folder=True) as beside:
                    for key, text in files:
                        (beside / key).parent.mkdir(exist_ok=True)
                        (beside / key).write_bytes(text.encode())
                    if not place.is_dir():
                        beside.rename(place)
            if all(read(place / key, MOST_BYTES) == text.encode() for key, text in files):
                return place
        except OSError:
            continue
    raise SpecError("cache folder", "cannot keep a row's own files", got=name, needs="a folder that can be written", remedy="GEMMGEN_CACHE=FOLDER")


@cache
def _here() -> tempfile.TemporaryDirectory[str]:
    """For where no cache folder can be written; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="gemmgen-rows-")
