"""The declared Spec: the user's words, checked strictly and nothing decided.

Anything may be left out or be "auto"; the GPU may be said when the file is
loaded instead, so that one spec serves several. What a value means is said once, in its field's description; the JSON schema and the
messages print it from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema, create_model, model_validator

from gemmgen.batch import TLPS, WALKS
from gemmgen.catalog.element import ELEMENTS, F32, Element
from gemmgen.catalog.epilogue import all_steps
from gemmgen.catalog.input import INPUTS
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.policy import NAMES, UNAVAILABLE
from gemmgen.catalog.scheme import RUNS
from gemmgen.catalog.table import Strict, absolute, file_of, parse, read_toml, schema_of, shown
from gemmgen.catalog.vendor import VENDORS
from gemmgen.designs import all_decisions, all_designs
from gemmgen.errors import SpecError
from gemmgen.kinds import GEMM, all_kinds, kind_of
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.model.expressions import MOST_CHARACTERS
from gemmgen.shown import Shown

T = TypeVar("T")
MAX_EXTENT = 2**31 - 1
"""Sizes are 32-bit in the kernels; offsets are 64-bit."""


def _auto(value: Any) -> Any:
    if value is None:
        raise ValueError('a value, or "auto"')
    return None if value == "auto" else value


def _or_auto(inner: Any, schema: dict[str, Any]) -> Any:
    """`inner`, or the word "auto", which is kept as None: for the solver to fill."""
    return Annotated[
        inner | None,
        BeforeValidator(_auto),
        PlainSerializer(lambda value: "auto" if value is None else value),
        WithJsonSchema({"anyOf": [schema, {"const": "auto"}]}),
    ]


Extent = Annotated[int, Field(ge=0, le=MAX_EXTENT)]


def _auto_int(low: int, high: int) -> Any:
    return _or_auto(
        Annotated[int, Field(ge=low, le=high)], {"type": "integer", "minimum": low, "maximum": high}
    )


def _auto_tile(low: int, high: int) -> Any:
    extent = Annotated[int, Field(ge=low, le=high)]
    return _or_auto(
        Annotated[tuple[extent, extent, extent], Field(strict=False)],
        {"type": "array", "items": {"type": "integer", "minimum": low, "maximum": high}, "minItems": 3, "maxItems": 3},
    )


def _among(values: tuple[int, ...]) -> Any:
    """One of a few numbers, or auto."""
    *first, last = values

    def known(value: int) -> int:
        if value not in values:
            raise ValueError(f"{', '.join(map(str, first))} or {last}")
        return value

    return _or_auto(Annotated[int, AfterValidator(known)], {"enum": list(values)})


def _decided(section: str) -> dict[str, Any]:
    """The fields of a section that are decisions, as they are declared."""
    found: dict[str, Any] = {}
    for one in all_decisions():
        if one.section == section and one.words:
            kind, usual = Literal["auto", *(word.name for word in one.words)], "auto"
        else:
            kind = _among(one.among) if one.among else (_auto_tile if one.is_tile else _auto_int)(one.least, one.most)
            usual = None
        if one.section == section:
            found[one.name] = (kind, Field(usual, description=one.description))
    return found


Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9_./-]+$")]


class Problem(Strict):
    kind: Literal[*all_kinds()] = Field(GEMM.name, description="; ".join(f"{one.name}: {one.meaning}" for one in all_kinds().values()))
    layout: Literal[*COMPLEX_LAYOUTS] = Field(
        "nn", description="row major A, B as stored (n) or transposed (t); of complex elements also conjugated and transposed (c)"
    )
    type: Literal[*ELEMENTS] = Field(F32.name, description=(
        "type of the elements of A, B and C: f32; of kinds gemm, strided, syrk, syr2k, gemmt, symm, trmm and trsm also f64 by residues; of these, herk, "
        "her2k and hemm c64 and c128, complex numbers whose parts are f32 and f64, real part first"
    ))
    uplo: Literal["lower", "upper", "both"] | None = Field(
        None, description="of kinds that compute a triangle of C: which one; both: the lower one (the default), stored to the upper one too. Of trmm and trsm: "
        "which triangle of A, or of B, there is, as the formula reads it; of symm and hemm, which one is read"
    )
    side: Literal["left", "right"] | None = Field(None, description="of trmm, trsm, symm and hemm: whether A is the triangle, or symmetric (the default), or B")
    diag: Literal["nonunit", "unit"] | None = Field(None, description="of trmm and trsm: unit: the triangle's diagonal is 1, and is not read")
    b: Literal[*INPUTS] = Field(
        "f32", description="type of B's elements, beside an A of FP32; other than f32 only with a scheme that takes B as it is stored; f32 beside elements of "
        "another `type` stands for that type"
    )
    c: Literal[*all_outputs()] = Field(
        "f32", description="type of C's elements; sums are in FP32 whatever it is; f32 beside elements of another `type` stands for that type"
    )
    m: Extent = Field(4096, description="hint: rows of C")
    n: Extent = Field(4096, description="hint: columns of C")
    k: Extent = Field(4096, description="hint: the summed dimension")
    matrices: Annotated[int, Field(ge=0, le=MAX_EXTENT)] = Field(64, description="hint: products of a batch; one product has none of this")

    @property
    def element(self) -> Element:
        """The row of `type`."""
        return ELEMENTS[self.type]

    @property
    def part(self) -> Element:
        """The type of the numbers that kernels compute with."""
        return self.element.part

    @property
    def extents(self) -> tuple[int, int, int]:
        """m, n and k of the product of these numbers."""
        return kind_of(self).extents(self.m, self.n, self.k)


Split = create_model(
    "Split", __base__=Strict,
    scheme=(Name, Field(
        "auto", description="a name under specs/schemes, or a .toml file; auto takes FP16 words that stay right on the GPU's matrix unit"
    )),
    **_decided("split"),
    run=(_among(RUNS), Field(None, description="of a scheme whose runs of k have scales of their own: k of a run; auto takes the scheme's")),
    special=(Literal["exact", "fast"], Field(
        "exact", description="exact: non-finite elements of A B are computed again in FP32; fast: they are not"
    )),
    fallback=(Name, Field(
        "none", description="of integer words with one exponent a row: the scheme of a further kernel, which computes the tiles of C in whose rows of A "
        "or columns of B a few elements stand out so far that words would keep little of the others; none: they are computed like all"
    )),
)


_Error = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
_ON = "on matrices of `data`, at the problem's k"
AccuracyFields = create_model(
    "AccuracyFields", __base__=Strict,
    relative_frobenius=(_Error | None, Field(None, description=f"the largest estimated ||C - C*|| / ||C*||, {_ON}, of which the fastest scheme is taken")),
    scaled=(_Error | None, Field(None, description="the largest |C - C*| / (|A||B|) of any element in the worst case, of any data in the scheme's range")),
    **{"as": (Literal["fp32", "tf32", "fp32-rounded", "fp64"] | None, Field(
        None, description="an error that people know: fp32: a sequential FP32 dot product's; tf32: one TF32 word's; fp32-rounded: that of rounding the exact "
        "result; fp64, of elements of f64: a sequential FP64 dot product's; on U[-1, 1], U[0, 1] and magnitudes from 2^-20 to 2^20, or on `data` "
        "alone where that is said",
    ))},
    data=(Literal["uniform", "positive", "normal", "spread"], Field(
        "uniform", description="what relative_frobenius speaks of, and `as` where it is said: uniform: U[-1, 1]; positive: U[0, 1]; "
        "normal: the standard one; spread: 2^-20 to 2^20",
    )),
)


class Accuracy(AccuracyFields):
    """What is asked of the error, in place of a scheme, and of C's bits."""

    reproducible: bool = Field(False, description=(
        "true: C is to be the same bits on every GPU of both vendors, in every layout and by every tile; schemes whose sums are exact, with one rounding in "
        "the end, have that: residues. With a scheme or an error that is asked for"
    ))

    @model_validator(mode="after")
    def _one_figure(self) -> Accuracy:
        if len(self.asked) > 1:
            raise ValueError(f"one of relative_frobenius, scaled and as, not {' and '.join(self.asked)}")
        return self

    @property
    def asked(self) -> list[str]:
        """The keys that ask for something."""
        return [key for key in ("relative_frobenius", "scaled", "as") if getattr(self, key) is not None]


class FragmentChoice(Strict):
    policy: Literal["auto", *NAMES, *UNAVAILABLE] = Field(
        "auto",
        description="the programming interface of the matrix unit, or fma for none; wgmma: whole warpgroups, operands from "
        "shared memory; tcgen05: the same with sums in tensor memory; auto takes the fastest that the "
        "GPU has of tcgen05, wgmma and mma, on AMD mfma (CDNA) or wmma (RDNA), and fma for f32 words; rocwmma is refused: its headers "
        "are in no package index, so that its kernels could not be checked",
    )
    shape: _or_auto(Annotated[str, Field(pattern=r"^m[0-9]{1,4}n[0-9]{1,4}k[0-9]{1,4}$")], {"type": "string"}) = Field(
        None, description="the matrix instruction's shape, such as m16n8k16"
    )


Tile = create_model("Tile", __base__=Strict, **_decided("tile"))
Pipeline = create_model(
    "Pipeline", __base__=Strict, **_decided("pipeline"),
    design=(Literal["auto", *(one.name for one in all_designs())], Field(
        "auto", description="the kind of main kernel; auto takes the fastest of those that have kernels with the fragment",
    )),
)


_Tile = Annotated[
    tuple[Annotated[int, Field(ge=8, le=256)], Annotated[int, Field(ge=8, le=256)], Annotated[int, Field(ge=4, le=128)], Literal[64, 128, 256, 512]],
    Field(strict=False),
]


class BatchChoice(Strict):
    tiles: _or_auto(
        Annotated[tuple[_Tile, ...], Field(min_length=1, max_length=8, strict=False)],
        {"type": "array", "minItems": 1, "maxItems": 8, "items": {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}},
    ) = Field(None, description="tiles of a grouped kernel, the smallest first: m, n, k and the threads that compute it; auto takes BatchGEMM's "
              "Table 3 on FP32 units, and tiles of whole fragments on matrix units")
    walk: Literal["auto", *WALKS] = Field("auto", description="; ".join(f"{name}: {meaning}" for name, meaning in WALKS.items()))
    tlp: Literal[*TLPS] = Field("wavefront", description="how a tiling's parallelism is counted. " + "; ".join(
        f"{name}: {meaning}" for name, meaning in TLPS.items()
    ))
    threshold: _or_auto(Annotated[int, Field(ge=0, le=1 << 30)], {"type": "integer", "minimum": 0}) = Field(
        None, description="threads at work from which on a tiling is parallel enough, BatchGEMM's Algorithm 1; auto takes the GPU's"
    )


def _each_once(steps: tuple[str, ...]) -> tuple[str, ...]:
    if twice := {name for name in steps if steps.count(name) > 1}:
        raise ValueError(f"each step once, not {' and '.join(sorted(twice))} twice")
    return steps


class EpilogueChoice(Strict):
    do: Annotated[tuple[Literal[*all_steps()], ...], Field(strict=False), AfterValidator(_each_once)] = Field((), description=(
        "what becomes of alpha A B + beta C before it is stored, in this order. " + "; ".join(f"{one.name}: {one.title}" for one in all_steps().values())
    ))


class Target(Strict):
    vendor: Literal["auto", *VENDORS] = Field("auto", description="vendor of the GPU; must agree with the GPU's row")
    gpu: Name | None = Field(None, description="a name under specs/gpus, or a .toml file; where a spec serves several, --gpu names it")


class BuildChoice(Strict):
    allow_spills: bool = Field(False, description="accept a kernel that spills registers to memory")


class Verify(Strict):
    require: Literal["scheme", "fp32"] = Field(
        "scheme", description="what verify asks of the errors beside that the kernel is right: scheme: what its scheme promises; "
        "fp32: that they are FP32's own, up to twice a sequential dot product's on the same data"
    )


Expression = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


_Cycles = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
_Budget = Annotated[int, Field(ge=1024, le=1 << 24)]
_REGISTER_BYTES = Field(None, description="bytes of the register file of an SM; the GPU's own where it is not said")
_SHARED_BYTES = Field(None, description="bytes of shared memory that a block may have; the GPU's own where it is not said")


class Egemm(Strict):
    """What EGEMM-TC's solver is given, each in place of the value that the GPU's row leads to."""

    T_HMMA: _Cycles | None = Field(None, description="cycles of one matrix instruction of 16x8x8 (eq. 5)")
    T_LDG128: _Cycles | None = Field(None, description="cycles of a warp's load of 16 bytes a thread from L2 (eq. 6)")
    T_STS128: _Cycles | None = Field(None, description="cycles of a warp's store of 16 bytes a thread to shared memory (eq. 6)")
    T_LDS32: _Cycles | None = Field(None, description="cycles of a warp's load of 4 bytes a thread from shared memory (eq. 7)")
    register_bytes: _Budget | None = _REGISTER_BYTES
    shared_bytes: _Budget | None = _SHARED_BYTES
    warps: Annotated[int, Field(ge=1, le=32)] = Field(8, description="warps of a block, as Table 4 has them")


class Legemm(Strict):
    """What LE-GEMM's model is given, likewise."""

    threads: Annotated[int, Field(ge=32, le=1024)] = Field(256, description="threads of a block, Work_num of eqs. 16 and 17; 256 in the authors' BatchGEMM")
    threshold: Annotated[int, Field(ge=0, le=1 << 30)] | None = Field(
        None, description="threads at work from which on eq. 12 is enough and eq. 15 decides; else the GPU's threshold of BatchGEMM's Algorithm 1"
    )
    register_bytes: _Budget | None = _REGISTER_BYTES
    shared_bytes: _Budget | None = _SHARED_BYTES


class Solve(Strict):
    model: Literal["time", "egemm", "legemm"] = Field("time", description=(
        "what chooses the tile: time: the least predicted time, or the spec's own objective; egemm: EGEMM-TC's eqs. 4 to 8, as its section 6 has them; "
        "legemm: LE-GEMM's eqs. 12 to 17. What they do not speak of, time decides"
    ))
    egemm: Egemm = Field(Egemm(), description="values that model = egemm is given")
    legemm: Legemm = Field(Legemm(), description="values that model = legemm is given")
    maximize: Expression | None = Field(None, description=(
        "what the search makes as large as possible, an expression over the model's symbols, such as blocks_per_sm * intensity; "
        "the least predicted time decides among equals, and alone where nothing is said"
    ))
    minimize: Expression | None = Field(None, description="what it makes as small as possible, likewise")
    require: Annotated[tuple[Expression, ...], Field(max_length=16, strict=False)] = Field((), description=(
        "inequalities that the plan satisfies beside the model's own, such as registers <= 128"
    ))

    @model_validator(mode="after")
    def _one_objective(self) -> Solve:
        if self.maximize and self.minimize:
            raise ValueError("maximize or minimize, not both")
        if self.model != "time" and (self.maximize or self.minimize):
            raise ValueError(f"an objective of your own or model = {self.model!r}, not both")
        for name in ("egemm", "legemm"):
            if name != self.model and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"[solve.{name}] beside model = {self.model!r}: it is asked by model = {name!r} alone")
        return self


class Spec(Strict):
    """What the user asks for. See `specs/kernels/` for examples."""

    problem: Problem = Problem()
    split: Split = Split()
    accuracy: Accuracy = Accuracy()
    fragment: FragmentChoice = FragmentChoice()
    tile: Tile = Tile()
    pipeline: Pipeline = Pipeline()
    batch: BatchChoice = BatchChoice()
    epilogue: EpilogueChoice = EpilogueChoice()
    target: Target = Target()
    solve: Solve = Solve()
    build: BuildChoice = BuildChoice()
    verify: Verify = Verify()


class LoadedSpec(Shown, Strict):
    """A Spec with the place it came from, for messages and relative file names.

    Attributes:
        place: how messages name the file.
        folder: where relative names inside it start; None when it came from no file.
    """

    spec: Spec
    place: str
    folder: Path | None = None

    def _told(self) -> dict[str, Any]:
        spec = self.spec
        sizes = f"{spec.problem.m} x {spec.problem.n} x {spec.problem.k}"
        asked = ", ".join(f"{key} {getattr(spec.accuracy, key)}" for key in spec.accuracy.asked)
        return {"from": self.place, "gpu": spec.target.gpu, "kind": spec.problem.kind, **({} if spec.problem.type == F32.name else {"type": spec.problem.type}),
                "layout": spec.problem.layout, "for": sizes, "scheme": spec.split.scheme,
                "accuracy": asked}

    def on(self, gpu: str | None) -> LoadedSpec:
        """The same for another GPU; None leaves the spec's own."""
        if gpu is None:
            return self
        target = self.spec.target.model_copy(update={"gpu": gpu})
        return self.model_copy(update={"spec": self.spec.model_copy(update={"target": target})})

    def laid_out(self, layout: str | None) -> LoadedSpec:
        """The same for operands stored otherwise, as `tn`; None leaves the spec's own.

        Raises:
            SpecError: there is no such layout.
        """
        if layout is None:
            return self
        if layout not in COMPLEX_LAYOUTS:
            raise SpecError("--layout", "is unknown", got=layout, needs="one of: " + ", ".join(COMPLEX_LAYOUTS),
                            remedy="n: as it is, t: transposed, c: conjugated and transposed; A first, then B")
        problem = self.spec.problem.model_copy(update={"layout": layout})
        return self.model_copy(update={"spec": self.spec.model_copy(update={"problem": problem})})


def load(path: str | Path, gpu: str | None = None) -> LoadedSpec:
    """Read a spec file.

    Args:
        path: a .toml file, or the name of one under specs/kernels.
        gpu: instead of the file's own: a name under specs/gpus, or a .toml file from the current folder on.

    Raises:
        SpecError, UnknownName: the file or a value in it is not acceptable.
    """
    path = file_of(path, "spec", "kernels")
    data = read_toml(path)
    loaded = LoadedSpec(spec=_parsed(data, shown(path)), place=shown(path), folder=absolute(path).parent)
    if gpu and gpu.endswith(".toml"):  # a link keeps its name
        gpu = str(absolute(Path(gpu).parent) / Path(gpu).name)
    return loaded.on(gpu)


def loads(data: dict[str, Any], place: str = "spec") -> LoadedSpec:
    """The same from a dictionary, for programs that make specs.

    Raises:
        SpecError: a value is not acceptable.
    """
    return LoadedSpec(spec=_parsed(data, place), place=place)


def _parsed(data: dict[str, Any], place: str) -> Spec:
    """The Spec, in which a scheme and an error are not both asked for."""
    spec = parse(Spec, data, place)
    if spec.accuracy.asked and spec.split.scheme != "auto":
        key = spec.accuracy.asked[0]
        raise SpecError(
            f"{place}: [accuracy] {key}", "stands beside [split] scheme, which decides the error", got=f"scheme = {spec.split.scheme!r}, {key} = "
            f"{getattr(spec.accuracy, key)!r}", needs="one of them: the scheme, or the error for which the fastest scheme is taken",
            remedy='leave [split] scheme out, or say scheme = "auto"',
        )
    return spec


def json_schema() -> dict[str, Any]:
    """The JSON schema of a spec file."""
    return schema_of(Spec, "gemmgen kernel spec")
