"""The declared study: which GPUs, sizes and layouts, which values of a spec's sections, how they are tried and what counts as right.

A study is a file of its own beside kernels (`specs/studies`). In `[space]` stand the sections of a kernel's spec, where any value may be a list of
values to try; what is "auto" or left out is for the model's search, whose whole space is then the study's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, create_model

from gemmgen.catalog.table import IDENTIFIER, Strict, Title, absolute, file_of, parse, read_toml, schema_of, shown
from gemmgen.errors import SpecError
from gemmgen.spec import MAX_EXTENT, LoadedSpec, Name, Spec, loads

STRATEGIES = {
    "cover": "each listed scheme in turn: its predicted frontier of error and time, the best of each design, then the model's ranking",
    "model": "the model's ranking, best first, in turn for each GPU, size and layout",
    "all": "every candidate, in the order of the space",
    "random": "drawn evenly from all",
    "halving": "short timings of many, longer ones of the better third, and so on",
    "tpe": "Optuna's tree-structured Parzen estimator on the time",
    "nsga2": "Optuna's NSGA-II on error and time",
}
DEFAULT_STRATEGY = "cover"
DATA = {"uniform": (-1.0, 1.0, 0), "positive": (0.0, 1.0, 0), "spread": (0.0, 0.0, 20)}
"""What inputs are drawn from: (low, high, octaves), as `gemmgen.timing.Inputs` takes them."""
DATA_TOLD = {"uniform": "U[-1, 1]", "positive": "U[0, 1]", "spread": "2^-20 to 2^20"}
SECTIONS = ("split", "accuracy", "fragment", "tile", "pipeline", "solve", "build")
"""Of a spec, that a study may list values of. Sizes, layouts and GPUs stand in `[study]`."""
MOST_COMBINATIONS = 4096
MOST_LISTED = 64

Extent = Annotated[int, Field(ge=1, le=MAX_EXTENT)]


def _cube(value: Any) -> Any:
    return [value] * 3 if isinstance(value, int) and not isinstance(value, bool) else value


class _CubeSchema:
    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1}, handler(core)]}


Size = Annotated[tuple[Extent, Extent, Extent], Field(strict=False), BeforeValidator(_cube), _CubeSchema()]


class StudyHead(Strict):
    name: str = Field(pattern=IDENTIFIER, description="of the study; rows of the store carry it")
    title: Title | None = Field(None, description="what it is for, in one line")
    gpus: Annotated[tuple[Name, ...], Field(strict=False, max_length=16)] = Field(
        (), description="names under specs/gpus, or .toml files; none: the GPU at hand"
    )
    sizes: Annotated[tuple[Size, ...], Field(strict=False, min_length=1, max_length=256)] = Field(description="n for n x n x n, or [m, n, k]")
    layouts: Annotated[tuple[Literal["nn", "nt", "tn", "tt"], ...], Field(strict=False, min_length=1)] = Field(
        ("nn",), description="row major, A, B as stored (n) or transposed (t)"
    )
    strategy: Literal["auto", *STRATEGIES] = Field("auto", description="; ".join(f"{name}: {told}" for name, told in STRATEGIES.items())
                                                   + f"; auto: {DEFAULT_STRATEGY}, by docs/results/explore.md")
    trials: Annotated[int, Field(ge=1, le=10_000_000)] = Field(100, description="how many candidates are tried at most")
    seconds: Annotated[float, Field(gt=0, le=1e7)] | None = Field(None, description="after how long no further trial begins")
    trial_seconds: Annotated[float, Field(gt=0, le=86400)] = Field(120.0, description="how long a part of a trial, its compile or its run, may take")
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(0, description="of what a strategy draws")
    reference: Name | None = Field(None, description=(
        "a kernel's spec, from the study's folder on, that is timed beside every trial; none: the model's first choice of the size"
    ))
    rivals: Annotated[tuple[Name, ...], Field(strict=False, max_length=16)] = Field(
        (), description="library routines that are timed once for each GPU and size, as gemmgen bench --against names them, such as cublas-sgemm"
    )
    data: Literal[*DATA] = Field("uniform", description="; ".join(f"{name}: {told}" for name, told in DATA_TOLD.items()))
    compile: bool = Field(True, description="false: candidates are kept with the model's figures alone, some thousands a minute; nothing is compiled")
    emulate: bool = Field(False, description="where no GPU of the kind is at hand, judge kernels on the emulator; small tiles take seconds, large ones minutes")


class Accept(Strict):
    relative_frobenius: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="the largest ||C - C*|| / ||C*|| of a kernel that counts, predicted and measured"
    )
    scaled: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] | None = Field(
        None, description="the largest |C - C*| / (|A||B|) of any element, measured"
    )


# ---- [space]: a spec's sections, where any value may be a list


def _depth(value: Any) -> int:
    return 1 + max((_depth(one) for one in value), default=0) if isinstance(value, list | tuple) else 0


class _Listed:
    """A value of a spec, or several: a list of values is one list deeper than a value is.

    Args:
        own: how deep lists are nested in one value.
    """

    def __init__(self, own: int):
        self.own = own

    def __call__(self, value: Any) -> Any:
        return value if _depth(value) > self.own else [value]

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        found = handler(core)
        return {"anyOf": [found["items"], found]}


def _section(name: str) -> Any:
    """The model of a section in which every field is a list of values, none where nothing is said."""
    model = Spec.model_fields[name].annotation
    schema = model.model_json_schema()
    fields: dict[str, Any] = {}
    for key, field in model.model_fields.items():
        own = _depth_of_schema(schema["properties"][field.alias or key], schema.get("$defs", {}))
        listed = _Listed(own)
        one = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        several = Annotated[tuple[one, ...], Field(strict=False, min_length=1, max_length=MOST_LISTED), BeforeValidator(listed), listed]
        fields[key] = (several, Field((), description=field.description))
    return create_model(f"{model.__name__}Space", __base__=Strict, **fields)


def _depth_of_schema(schema: Mapping[str, Any], known: Mapping[str, Any]) -> int:
    """How deep lists are nested in what a JSON schema allows."""
    if "$ref" in schema:
        return _depth_of_schema(known[schema["$ref"].rpartition("/")[2]], known)
    of_options = max((_depth_of_schema(one, known) for one in schema.get("anyOf", ())), default=0)
    return max(of_options, 1 + _depth_of_schema(schema.get("items", {}), known) if schema.get("type") == "array" else 0)


SpaceFields = create_model("Space", __base__=Strict, **{name: (model := _section(name), Field(default_factory=model)) for name in SECTIONS})


class StudyFile(Strict):
    """A study as its file says it. See `specs/studies` for examples."""

    study: StudyHead
    space: SpaceFields = Field(default_factory=SpaceFields, description="sections of a kernel's spec, where any value may be a list of values to try")
    accept: Accept = Accept()


@dataclass(frozen=True)
class Problem:
    """What is multiplied where."""

    gpu: str
    m: int
    n: int
    k: int
    layout: str

    @property
    def size(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def told(self) -> str:
        """`h200 4096x4096x4096 nn`."""
        return f"{self.gpu} {self.m}x{self.n}x{self.k} {self.layout}"


@dataclass(frozen=True)
class Combination:
    """One choice of all listed values, for one problem.

    Attributes:
        listed: `section.key` and value of what the study lists several values of.
    """

    problem: Problem
    listed: tuple[tuple[str, Any], ...]
    loaded: LoadedSpec

    @property
    def told(self) -> str:
        """The listed values in words; empty where nothing is listed."""
        return ", ".join(f"{key.partition('.')[2]} = {value}" for key, value in self.listed)


@dataclass(frozen=True)
class Study:
    """A study that was read.

    Attributes:
        place: how messages name the file.
        folder: where relative names inside it start; None when it came from no file.
    """

    file: StudyFile
    place: str
    folder: Path | None = None

    @property
    def head(self) -> StudyHead:
        return self.file.study

    @property
    def name(self) -> str:
        return self.file.study.name

    @property
    def strategy(self) -> str:
        """The one to take, by name."""
        return DEFAULT_STRATEGY if self.head.strategy == "auto" else self.head.strategy

    @property
    def listed(self) -> dict[str, tuple[Any, ...]]:
        """`section.key` -> values, of all that the space says."""
        return {
            f"{section}.{key}": values for section in SECTIONS for key, values in getattr(self.file.space, section).model_dump(mode="json").items() if values
        }

    def with_(self, **head: Any) -> Study:
        """The same with other values under [study].

        Raises:
            SpecError: a value is not acceptable.
        """
        data = self.file.model_dump(mode="json", exclude_unset=True)
        data["study"] |= {key: value for key, value in head.items() if value is not None}
        return Study(parse(StudyFile, data, self.place), self.place, self.folder)

    def gpus(self) -> tuple[str, ...]:
        """The study's GPUs, or the one at hand.

        Raises:
            SpecError: it names none, and none is at hand.
        """
        if self.head.gpus:
            return self.head.gpus
        from gemmgen.workshop.explore.gpus import gpus_here

        here = gpus_here()
        if not here:
            raise SpecError(f"{self.place}: [study] gpus", "is missing, and no GPU that the catalog knows is at hand", needs="names under specs/gpus",
                            remedy='gpus = ["h100"], or --gpu h100')
        return tuple(dict.fromkeys(one.name for one in here))

    def problems(self) -> list[Problem]:
        """Every GPU with every size and layout."""
        return [Problem(gpu, *size, layout) for gpu, size, layout in product(self.gpus(), self.head.sizes, self.head.layouts)]

    def combinations(self) -> Iterator[Combination]:
        """Every problem with every choice of listed values.

        Raises:
            SpecError: they are too many, or values do not go together.
        """
        listed, problems = self.listed, self.problems()
        count = len(problems)
        for values in listed.values():
            count *= len(values)
        if count > MOST_COMBINATIONS:
            raise SpecError(f"{self.place}: [space]", "has too many combinations of listed values", got=count, needs=f"at most {MOST_COMBINATIONS}",
                            remedy="fewer lists; what is left out is for the model's search, and need not be listed")
        varied = [key for key, values in listed.items() if len(values) > 1]
        for problem in problems:
            for chosen in product(*listed.values()):
                values = dict(zip(listed, chosen))
                data: dict[str, Any] = {
                    "problem": {"layout": problem.layout, **dict(zip("mnk", problem.size))}, "target": {"gpu": problem.gpu},
                }
                for key, value in values.items():
                    section, _, name = key.partition(".")
                    data.setdefault(section, {})[name] = value
                loaded = loads({section: _said(inner) for section, inner in data.items()}, self.place).model_copy(update={"folder": self.folder})
                yield Combination(problem, tuple((key, values[key]) for key in varied), loaded)


def _said(section: Mapping[str, Any]) -> dict[str, Any]:
    """A section without what says nothing."""
    return {key: value for key, value in section.items() if value is not None}


def load_study(path: str | Path) -> Study:
    """Read a study: a .toml file, or the name of one under specs/studies.

    Raises:
        UnknownName: no shipped study has that name.
        SpecError: the file or a value in it is not acceptable.
    """
    path = file_of(path, "study", "studies")
    return Study(parse(StudyFile, read_toml(path), shown(path)), shown(path), absolute(path).parent)


def study_from(data: Mapping[str, Any], place: str = "study") -> Study:
    """The same from a dictionary, for programs that make studies.

    Raises:
        SpecError: a value is not acceptable.
    """
    return Study(parse(StudyFile, dict(data), place), place)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a study file."""
    return schema_of(StudyFile, "gemmgen study")
