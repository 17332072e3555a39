"""Tables of rows that live as TOML files under `specs/`.

A row is a frozen, strict pydantic model; each proves itself when it is loaded.
A user's own row is a file given by path; a shipped one is given by name.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gemmgen import files
from gemmgen.errors import SpecError, UnknownName
from gemmgen.paths import SPECS

IDENTIFIER = r"^[a-z][a-z0-9_]{0,39}$"
"""Names end up in C identifiers and file names, so this is all they may hold."""

LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029\\]{1,100}$"
"""Titles are one short line."""


_BREAKS_OUT = {"\\": "/", "*/": "* /", "/*": "/ *", "??/": "?? /"}
"""What ends, begins or continues a comment of C, and what stands for it; the last is a backslash to C before 2023."""


def one_line(text: str) -> str:
    """Prose of a row as generated code, build files and reports may print it: one line that no comment ends or continues in.

    Raises:
        ValueError: it holds a character that a terminal or an editor obeys instead of showing it.
    """
    for char in text:
        if not (char.isprintable() or char in "\t\r\n"):
            raise ValueError(f"printable characters, which {char!r} is not")
    text = " ".join(text.split())
    for mark, harmless in _BREAKS_OUT.items():
        text = text.replace(mark, harmless)
    return text


Title = Annotated[str, Field(pattern=LINE), AfterValidator(one_line)]
Prose = Annotated[str, Field(max_length=4000), AfterValidator(one_line)]

MOST_BYTES = 1 << 16
"""Of a file; the largest that ships has 2 KB."""
MOST_DEEP = 8
"""Tables and arrays within one another, in a file."""


class Strict(BaseModel):
    """Base of everything read from a file: unknown keys and coerced types are errors."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The JSON schema of a file that is read as `model`."""
    return model.model_json_schema() | {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}


class Row(Strict):
    """One row of a table.

    Attributes:
        name: the identifier others refer to it by; equals the file's stem.
        source: where its facts come from.
    """

    name: str = Field(pattern=IDENTIFIER)
    source: Prose = Field(min_length=1)


R = TypeVar("R", bound=Row)


class Table(Generic[R]):
    """The rows of one kind, loaded when asked for.

    Args:
        kind: what a row is called in messages.
        folder: the folder under `specs/`.
        row: the model of a row.
    """

    def __init__(self, kind: str, folder: str, row: type[R]):
        self.kind, self.folder, self.row = kind, SPECS / folder, row
        self._load = cache(self._load_path)

    def names(self) -> list[str]:
        return list(self._shown())

    def rows(self) -> list[R]:
        return [self._load(path) for path in self._shown().values()]

    def _shown(self) -> Mapping[str, Path]:
        """The shipped rows' files, less those that the environment hides, such as `gpus/h100,gpus/h200`: for trying what becomes of a GPU that
        nobody has described."""
        found = _files(self.folder)
        if not (hidden := os.environ.get("GEMMGEN_HIDE")):
            return found
        gone = {part.strip() for part in hidden.split(",")}
        return {name: path for name, path in found.items() if f"{self.folder.name}/{name}" not in gone}

    def get(self, name: str, *, where: str = "", relative_to: Path | None = None, hidden: bool = False) -> R:
        """The row called `name`, or the row in the file `name` when it ends in `.toml`.

        Args:
            where: the place that asked, for the message.
            relative_to: the folder a relative file path starts from.
            hidden: whether a row that the environment hides counts, as one that others are made from.

        Raises:
            UnknownName: no shipped row has that name.
            SpecError: the file is missing, unreadable or not a valid row.
        """
        if name.endswith(".toml"):
            return self._load(absolute((relative_to or Path()) / name))
        path = (_files(self.folder) if hidden else self._shown()).get(name)
        if path is None:
            raise UnknownName(where or f"specs/{self.folder.name}", self.kind, name, self.names())
        return self._load(path)

    def _load_path(self, path: Path) -> R:
        data = read_toml(path)
        place = shown(path)
        row = parse(self.row, data, place, context=File(place, path.parent))
        if row.name != path.stem:
            raise SpecError(
                f"{place}: name",
                "a row's name is its file's name",
                got=row.name,
                needs=path.stem,
                remedy="rename one of them",
            )
        return row


@cache
def _files(folder: Path) -> Mapping[str, Path]:
    """A folder's rows by their names, in order; every look at a table asks for them, so they are read once, as the rows are."""
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


@dataclass(frozen=True)
class File:
    """Where a row was read, for what it refers to.

    Attributes:
        place: how messages name the file.
        folder: where relative names inside it start.
    """

    place: str
    folder: Path


def absolute(path: Path) -> Path:
    """The path from the root on, without links.

    Raises:
        SpecError: there is no such path: a loop of links, a name too long, or no current folder.
    """
    try:
        return files.resolved(path)
    except OSError as error:
        raise SpecError(str(path), "is no path", got=error.strerror or str(error), remedy="check the path") from None


MOST_NAMED = 12
"""Shipped files that a message lists."""


def shipped(folder: str) -> dict[str, Path]:
    """The files of a folder of `specs/`, by name."""
    return {path.stem: path for path in sorted((SPECS / folder).glob("*.toml"))}


def file_of(path: str | Path, kind: str, folder: str) -> Path:
    """A file of the user's (.toml) by its path, or a shipped one by its name.

    Args:
        kind: what it is, for messages.
        folder: that of `specs/` where shipped ones lie.

    Raises:
        UnknownName: no shipped file has that name.
        SpecError: it ends otherwise, or is missing while a shipped one has its name.
    """
    path, known = Path(path), shipped(folder)
    if path.suffix == ".toml":
        if path.stem in known and not os.path.lexists(path):
            raise SpecError(str(path), "cannot be read", got="No such file or directory", remedy=f"{path.stem}, the name of a shipped {kind}, in its place")
        return path
    # A folder is no spec, so it hides no shipped one: what `gemmgen library lab -o lab` writes has such a name.
    if path.suffix or len(path.parts) != 1 or os.path.isdir(path) and str(path) not in known:
        raise SpecError(str(path), f"is not a {kind}", got=path.name, needs="a .toml file, or the name of a shipped one", remedy="gemmgen list specs")
    if str(path) not in known:
        error = UnknownName(str(path), kind, str(path), known)
        if len(known) > MOST_NAMED:
            error.needs = f"a .toml file, or one of the {len(known)} names of gemmgen list specs"
        error.remedy = error.remedy or "gemmgen list specs"
        raise error
    return known[str(path)]


def shown(path: Path) -> str:
    """A path as a message shows it: shipped files from `specs/` on, others from
    the current folder on where possible."""
    path = Path(path)
    if path.is_relative_to(SPECS):
        return f"specs/{path.relative_to(SPECS)}"
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return str(path)
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        SpecError: missing, no regular file, too large, unreadable, not UTF-8, not TOML, or nested too deeply.
    """
    place = shown(path)
    try:
        text = files.read(path, MOST_BYTES).decode("utf-8")
    except files.TooLarge as error:
        raise SpecError(place, "is too large", got=error.strerror, needs="a spec or a row, of a few hundred bytes", remedy="check the path") from None
    except OSError as error:
        raise SpecError(place, "cannot be read", got=error.strerror, remedy="check the path") from None
    except UnicodeDecodeError as error:
        raise SpecError(
            place,
            "is not text",
            got=f"byte {error.object[error.start]:#04x} at offset {error.start}",
            needs="a TOML file in UTF-8",
            remedy="save it as UTF-8, not UTF-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else None,
        ) from None
    if text.startswith("\ufeff"):
        raise SpecError(place, "begins with a byte order mark", got="bytes ef bb bf", needs="a TOML file in UTF-8 without one",
                        remedy='save it as "UTF-8", not "UTF-8 with BOM"')
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(place) from None
    except ValueError as error:  # TOMLDecodeError, and Python's own of an integer with thousands of digits
        raise SpecError(place, "is not valid TOML", got=str(error), remedy="complete or correct that line") from None
    level: list[Any] = [data]
    for _ in range(MOST_DEEP):
        level = [inner for value in level for inner in _inside(value)]
    if level:
        raise _too_deep(place)
    return data


def _too_deep(place: str) -> SpecError:
    return SpecError(place, "is nested too deeply", needs=f"at most {MOST_DEEP} tables and arrays within one another", remedy="see specs/ for examples")


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def parse(model: type[BaseModel], data: dict[str, Any], place: str, *, context: File | None = None) -> Any:
    """Validate `data` as `model`, turning the first complaint into a SpecError.

    Args:
        context: where the data was read, for rows that refer to others.
    """
    try:
        return model.model_validate(data, context=context)
    except ValidationError as failure:
        raise _readable(model, failure.errors(include_url=False)[0], place) from None


def _readable(model: type[BaseModel], complaint: dict[str, Any], place: str) -> SpecError:
    loc = list(complaint["loc"])
    where = place + ": " + _location(loc)
    kind, got = complaint["type"], complaint.get("input")
    if kind == "extra_forbidden":
        known = _keys_at(model, loc[:-1])
        return UnknownName(where, "key", str(loc[-1]), known) if known else SpecError(
            where, "unknown key", got=loc[-1]
        )
    if kind == "missing":
        return SpecError(where, "is missing", needs=_describe(model, loc) or "a value")
    message = complaint["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    meaning = _describe(model, loc)
    return SpecError(
        where, "is not acceptable", got=got, needs=f"{message} ({meaning})" if meaning else message
    )


def _location(loc: list[Any]) -> str:
    if not loc:
        return "the file"
    if len(loc) == 1:
        return str(loc[0])
    return f"[{loc[0]}] " + ".".join(str(part) for part in loc[1:])


def _model_at(model: Any, loc: list[Any]) -> Any:
    for part in loc:
        fields = getattr(model, "model_fields", None)
        if fields and part in fields:
            model = _inner_model(fields[part].annotation)
    return model


def _inner_model(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None


def _keys_at(model: type[BaseModel], loc: list[Any]) -> list[str]:
    inner = _model_at(model, loc)
    return [f.alias or name for name, f in inner.model_fields.items()] if inner else []


def _describe(model: type[BaseModel], loc: list[Any]) -> str | None:
    """The description of the innermost field of `loc` that has one."""
    for end in range(len(loc), 0, -1):
        inner = _model_at(model, loc[: end - 1])
        field = inner.model_fields.get(loc[end - 1]) if inner else None
        if field and field.description:
            return field.description
    return None
