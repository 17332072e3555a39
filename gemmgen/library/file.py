"""LIB.toml: which GPUs, layouts and specs a library has kernels for, and how many kernels at the most."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gemmgen.catalog.element import ELEMENTS, F32, F64, Element
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.reserved import reserved
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.table import Strict, Title, absolute, file_of, parse, read_toml, schema_of, shown
from gemmgen.catalog.vendor import Vendor
from gemmgen.errors import SpecError
from gemmgen.kinds import GEMM, STRIDED
from gemmgen.kinds.kind import COMPLEX_LAYOUTS, LAYOUTS
from gemmgen.library.dispatch import Estimate, Table, load_table
from gemmgen.library.routines import LEVEL3
from gemmgen.spec import MAX_EXTENT, Accuracy, BuildChoice, FragmentChoice, LoadedSpec, Name, Pipeline, Solve, Split, Tile, load, loads

Layout = Literal[*COMPLEX_LAYOUTS]
Extent = Annotated[int, Field(ge=1, le=MAX_EXTENT)]
Single = Annotated[tuple[Extent, Extent, Extent], Field(strict=False)]
Batch = Annotated[tuple[Extent, Extent, Extent, Extent], Field(strict=False)]

SHIMS = {
    "cublas": "nvidia", "hipblas": "amd", "rocblas": "amd",  # whose libraries a preload library stands before
    "torch": None, "jax": None,
}
"""What programs may use the library through without a change of theirs, and of which vendor; None: of any."""

SQUARES = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
SKEWED = (
    (128, 1024, 1024), (1024, 128, 1024), (64, 4096, 4096), (256, 4096, 4096), (1024, 4096, 4096), (4096, 1024, 4096), (4096, 256, 4096),
    (4096, 4096, 256), (8192, 8192, 512), (512, 512, 8192), (256, 256, 16384), (2048, 8192, 2048), (16384, 4096, 1024),
)
SHORT = ((1024, 1024, 64), (1024, 1024, 128), (2048, 2048, 64), (2048, 2048, 128), (4096, 4096, 64))
SIZES = (*((size, size, size) for size in SQUARES), *SKEWED, *SHORT)
"""[m, n, k] that kernels are chosen for where a file names none: squares, few rows, few columns, short and long sums, updates of a factorization."""
PACKED_ROWS = (64, 128, 256, 512, 1024, 4096)
"""Rows of the products by a 4096 x 4096 matrix that was packed, for which kernels of packed use are chosen besides."""
BATCHES = (
    (64, 64, 64, 1024), (128, 128, 128, 256), (256, 256, 256, 256), (512, 512, 64, 256), (1024, 1024, 256, 64),
    (1024, 128, 1024, 128), (1024, 1024, 128, 128), (128, 1024, 1024, 128), (512, 64, 512, 384),  # attention's, whose heads are 64 and 128 wide
)
"""[m, n, k, products] of strided batches likewise, where a library is to have kernels for these."""
MOST_KERNELS = 1000
SECTIONS = ("split", "accuracy", "fragment", "tile", "pipeline", "solve", "build")

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Use(Strict):
    """Kernels to choose from: those of a spec, of a scheme, of sections like a spec's, or of a dispatch table."""

    spec: Name | None = Field(None, description="a spec file; its problem's sizes and its GPU are not looked at")
    scheme: Name | None = Field(None, description="a name under specs/schemes, or a .toml file: all else is auto")
    type: Literal[*ELEMENTS] | None = Field(
        None, description="of the elements of A, B and C, with a scheme or sections; left out: what the scheme splits, or what [use.accuracy] asks for"
    )
    table: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="a dispatch table that gemmgen study choose wrote: its kernels, of the library's GPUs and layouts"
    )
    gpus: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64, strict=False)] | None = Field(
        None, description="those of the library's GPUs that it is for; left out: all"
    )
    split: Split | None = None
    accuracy: Accuracy | None = None
    fragment: FragmentChoice | None = None
    tile: Tile | None = None
    pipeline: Pipeline | None = None
    solve: Solve | None = None
    build: BuildChoice | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Use:
        said = [name for name in ("spec", "scheme", "table") if getattr(self, name) is not None]
        inline = [name for name in SECTIONS if getattr(self, name) is not None]
        if len(said) > 1 or said and inline or not said and not inline:
            told = [*said, *(f"[use.{name}]" for name in inline)]
            raise ValueError(f"one of spec, scheme, table and sections of its own, not {' and '.join(told) or 'none of them'}")
        if self.type and (self.spec or self.table):
            raise ValueError(f"type with a scheme or sections alone: a {said[0]} has its own")
        return self


class LibraryFile(Strict):
    """A library of kernels behind one C interface. See specs/libraries for examples."""

    name: Annotated[str, Field(max_length=40)] = Field(description="prefix of the C functions, name of files and of the CMake target")
    title: Title | None = Field(None, description="what the library is, in a line")
    gpus: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64, strict=False)] = Field(
        description="names under specs/gpus, or .toml files; all of one vendor. Kernels run on other GPUs of the same architecture, too"
    )
    layouts: Annotated[tuple[Layout, ...], Field(min_length=1, max_length=len(COMPLEX_LAYOUTS), strict=False)] = Field(
        COMPLEX_LAYOUTS, description="row major A, B as stored (n), transposed (t), or, of complex elements, conjugated and transposed (c); column-major "
        "products take the same kernels; left out: all that the elements have"
    )
    kernels_at_most: Annotated[int, Field(ge=1, le=MOST_KERNELS)] = Field(24, description="kernels for matrix units, of all GPUs and layouts together")
    sizes: Annotated[tuple[Single | Batch, ...], Field(min_length=1, max_length=512, strict=False)] | None = Field(
        None, description="[m, n, k], or [m, n, k, products] of a strided batch, that kernels are chosen for; left out: squares from 64 to 16384, skewed ones, "
        "and batches of small ones where `batched` asks for kernels of these"
    )
    batched: bool | None = Field(
        None, description="whether kernels that take a strided batch in one launch are chosen from, too; others take its products one by one. "
        "Left out: where there is a shim, as programs bring batches"
    )
    packed: bool = Field(False, description="whether kernels for few rows of A and for many read B's words in one format, so that B may be packed once")
    routines: Annotated[tuple[Literal[*LEVEL3], ...], Field(strict=False)] = Field(
        (), description="BLAS's level 3 beside GEMM: each has a kernel for every GPU and way in which its operands may stand, beyond kernels_at_most; "
        "of a dispatch table they have the scheme that is fastest in the mean of the larger sizes"
    )
    reproducible: bool = Field(
        False, description="whether C of alpha A B + beta C is the same bits on every GPU that libraries with these schemes serve: each type of elements has "
        "kernels of one scheme, which each [[use]] names or leaves to be residues7 or residues14, and no portable ones; a shim takes every call that a "
        "kernel serves"
    )
    fallback: bool = Field(
        True, description="whether what no kernel serves in FP32 is computed by portable ones, which the library then holds, too; other elements have none"
    )
    shim: Annotated[tuple[Literal[*SHIMS], ...], Field(strict=False)] = Field(
        (), description="what unmodified programs call it through: cublas (NVIDIA), hipblas and rocblas (AMD): a preload library; torch, jax: a Python package"
    )
    use: Annotated[tuple[Use, ...], Field(min_length=1, max_length=64, strict=False)] = Field(description="where kernels come from")

    @field_validator("name")
    @classmethod
    def _prefix(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or "__" in name or name.endswith("_"):
            raise ValueError("small letters, digits and single underscores between them, the first a letter")
        if reserved(name):
            raise ValueError(f"a name that means nothing to C, C++, CUDA, HIP and CMake yet, such as my_{name}")
        return name

    @field_validator("gpus", "layouts", "shim", "routines")
    @classmethod
    def _once(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) < len(values):
            raise ValueError(f"each once, which {next(one for one in values if values.count(one) > 1)} is not")
        return values


@dataclass(frozen=True)
class LoadedLibrary:
    """A LIB.toml with what it refers to.

    Attributes:
        place: how messages name the file.
        gpus: the rows, in the file's order.
        specs: of each `use` with a spec or sections: the place that names it, the spec, and the names of the GPUs that it is for.
        tables: likewise of dispatch tables.
    """

    file: LibraryFile
    place: str
    folder: Path | None
    gpus: tuple[Gpu, ...]
    specs: tuple[tuple[str, LoadedSpec, frozenset[str]], ...]
    tables: tuple[tuple[str, Table, frozenset[str]], ...]

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def maker(self) -> Vendor:
        return self.gpus[0].maker

    @property
    def archs(self) -> tuple[str, ...]:
        """Of the GPUs, each once."""
        return tuple(dict.fromkeys(gpu.arch for gpu in self.gpus))

    @property
    def has_portable(self) -> bool:
        """Whether it holds portable kernels of FP32."""
        return self.file.fallback and F32 in self.elements and not self.file.reproducible

    @property
    def batched(self) -> bool:
        """Whether it has kernels for strided batches."""
        return bool(self.file.shim) if self.file.batched is None else self.file.batched

    @property
    def sizes(self) -> tuple[tuple[int, int, int, int], ...]:
        """(m, n, k, products) that kernels are chosen for, each once."""
        found = self.file.sizes
        if found is None:
            packed = tuple((rows, 4096, 4096) for rows in PACKED_ROWS) if self.file.packed else ()
            found = SIZES + packed + (BATCHES if self.batched else ())
        return tuple(dict.fromkeys((*size, 1) if len(size) == 3 else size for size in found))

    @property
    def for_routines(self) -> tuple[tuple[str, LoadedSpec, frozenset[str]], ...]:
        """Where kernels for level 3 come from, as of `specs`: those, and of each dispatch table the scheme that is fastest by it.

        Fastest in the geometric mean over products of at least a 512th of the largest's work, as routines compute theirs in parts.
        """
        single = [(m, n, k) for m, n, k, products in self.sizes if products == 1] or [size[:3] for size in self.sizes]
        most = max(map(math.prod, single))
        sizes = [size for size in single if 512 * math.prod(size) >= most]
        found = list(self.specs)
        for place, table, names in self.tables:
            for gpu in sorted(names):
                mine: dict[str, list[Estimate]] = {}
                for one in table.kernels.values():
                    if one.gpu == gpu:
                        mine.setdefault(one.spec["split"]["scheme"], []).append(one.estimate)
                if mine:
                    scheme = min(mine, key=lambda name: sum(math.log(min(one.seconds(*size) for one in mine[name])) for size in sizes))
                    found.append((place, loads({"split": {"scheme": scheme}}, place), frozenset({gpu})))
        return tuple(found)

    @property
    def elements(self) -> tuple[Element, ...]:
        """Types of the elements that it has kernels for; dispatch tables are of FP32."""
        found = {spec.spec.problem.type for _, spec, _ in self.specs} | ({F32.name} if self.tables else set())
        return tuple(one for one in ELEMENTS.values() if one.name in found)

    def layouts_of(self, element: Element) -> tuple[str, ...]:
        """Those of the file that products of such elements have: real ones are not conjugated."""
        return tuple(one for one in self.file.layouts if element.reals > 1 or one in LAYOUTS)

    @property
    def layouts(self) -> tuple[str, ...]:
        """Those that some kernel has."""
        return self.layouts_of(max(self.elements, key=lambda one: one.reals))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of the problems that kernels are chosen from, as a spec says it."""
        return (GEMM.name, STRIDED.name) if self.batched else (GEMM.name,)


def load_library(path: str | Path) -> LoadedLibrary:
    """Read a LIB.toml, or one under specs/libraries by its name, and what it refers to.

    Raises:
        SpecError, UnknownName: the file, a value in it, or a file that it names is not acceptable.
    """
    path = file_of(path, "library", "libraries")
    return _loaded(read_toml(path), shown(path), absolute(path).parent)


def library_from(data: Mapping[str, Any], place: str = "library") -> LoadedLibrary:
    """The same from a dictionary, whose relative file names start in the current folder.

    Raises:
        SpecError, UnknownName: as `load_library`.
    """
    return _loaded(dict(data), place, None)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a LIB.toml."""
    return schema_of(LibraryFile, "gemmgen library")


def _loaded(data: dict[str, Any], place: str, folder: Path | None) -> LoadedLibrary:
    file = parse(LibraryFile, data, place)
    gpus = tuple(GPUS.get(name, where=f"{place}: gpus", relative_to=folder) for name in file.gpus)
    vendors = {gpu.vendor: gpu.name for gpu in gpus}
    if len(vendors) > 1:
        raise SpecError(f"{place}: gpus", "are of several vendors", got=", ".join(f"{name} of {vendor}" for vendor, name in vendors.items()),
                        needs="GPUs of one vendor: a library opens one driver", remedy="a library for each vendor, under names of their own")
    for shim in file.shim:
        if SHIMS[shim] not in (None, gpus[0].vendor):
            raise SpecError(f"{place}: shim", f"{shim} is not what programs for {gpus[0].maker.owner}'s GPUs call", got=shim,
                            needs=", ".join(name for name, vendor in SHIMS.items() if vendor in (None, gpus[0].vendor)), remedy="another shim, or other gpus")
    specs, tables = [], []
    for number, use in enumerate(file.use, 1):
        where = f"{place}: [[use]] {number}"
        names = {asked: gpu.name for asked, gpu in zip(file.gpus, gpus)}
        for name in use.gpus or ():
            if name not in names:
                raise SpecError(f"{where} gpus", "names a GPU that the library is not for", got=name, needs=" or ".join(names), remedy="add it to gpus")
        of = frozenset(names[name] for name in (use.gpus or names))
        if use.table is not None:
            tables.append((where, load_table((folder or Path()) / use.table), of))
        else:
            specs.append((where, _spec(use, where, folder), of))
    found = LoadedLibrary(file, place, folder, gpus, tuple(specs), tuple(tables))
    if file.reproducible:
        found = _reproducible(found)
    for element in found.elements:
        if not found.layouts_of(element):
            raise SpecError(f"{place}: layouts", f"are of conjugated matrices alone, and a [[use]] is of {element.title}", got=", ".join(file.layouts),
                            needs=" or ".join(LAYOUTS), remedy=f'layouts = ["nn", "{file.layouts[0]}"]')
    return found


def _reproducible(library: LoadedLibrary) -> LoadedLibrary:
    """The library with specs whose C is the same bits on every GPU.

    Raises:
        SpecError: a scheme of it is not told, so that each GPU may get another, or an element's type has two.
    """
    place, told = f"{library.place}: reproducible", "one scheme for each type of elements"
    if library.tables:
        raise SpecError(place, "dispatch tables have a scheme for each GPU", got=library.tables[0][0], needs=told, remedy='scheme = "residues7" in its place')
    schemes: dict[str, str] = {}
    for where, spec, _ in library.specs:
        if spec.spec.accuracy.asked:
            raise SpecError(place, "each GPU may give an error by another scheme", got=f"{where} [use.accuracy] {spec.spec.accuracy.asked[0]}", needs=told,
                            remedy='scheme = "residues7" in its place')
        element, name = spec.spec.problem.type, spec.spec.split.scheme
        if schemes.setdefault(element, name) != name:
            raise SpecError(place, f"elements of {element} have kernels of two schemes, which give other bits", got=f"{schemes[element]} and {name}",
                            needs=told, remedy="one of them, and another library for the other")
    accuracy = Accuracy(reproducible=True)
    return replace(library, specs=tuple(
        (where, spec.model_copy(update={"spec": spec.spec.model_copy(update={"accuracy": accuracy})}), names) for where, spec, names in library.specs
    ))


def _typed(sections: dict[str, Any], folder: Path | None, where: str, asked: str | None) -> dict[str, Any]:
    """A spec's sections with the type of elements that is asked for, else the one that its scheme splits, or that its accuracy is of."""
    scheme, accuracy = sections.get("split", {}).get("scheme", "auto"), sections.get("accuracy", {}).get("as")
    if asked is None and scheme != "auto":
        asked = SCHEMES.get(scheme, where=f"{where} scheme", relative_to=folder).element
    element = asked or (F64.name if accuracy == "fp64" else F32.name)
    return sections if element == F32.name else {**sections, "problem": {"type": element}}


def _spec(use: Use, where: str, folder: Path | None) -> LoadedSpec:
    """The spec of a `use`, of one product whose A, B and C have one type.

    Raises:
        SpecError: the file or a value in it is not acceptable, or it is not for such products.
    """
    if use.spec is not None:
        loaded = load((folder or Path()) / use.spec)
    elif use.scheme is not None:
        loaded = loads(_typed({"split": {"scheme": use.scheme}}, folder, where, use.type), where)
    else:
        sections = {name: section.model_dump(mode="json", exclude_defaults=True, by_alias=True) for name in SECTIONS if (section := getattr(use, name))}
        loaded = loads(_typed(sections, folder, where, use.type), where)
    loaded = loaded if loaded.folder else loaded.model_copy(update={"folder": folder})
    problem = loaded.spec.problem
    for key, needs in (("kind", GEMM.name), ("b", "f32"), ("c", "f32")):
        if getattr(problem, key) != needs:
            raise SpecError(f"{where}: [problem] {key}", "is not what a library's functions compute", got=getattr(problem, key), needs=needs,
                            remedy="leave it out, or gemmgen export for a kernel of its own; for strided batches, batched = true, "
                                   "and for others of BLAS's level 3, routines")
    if loaded.spec.epilogue.do:
        raise SpecError(f"{where}: [epilogue] do", "is not what a library's functions compute", got=", ".join(loaded.spec.epilogue.do),
                        needs="none: each call says what becomes of C",
                        remedy="leave it out: the kernels of a library add a call's bias and apply its ReLU themselves")
    return loaded
