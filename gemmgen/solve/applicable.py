"""Which requests can be served: one table of refusals, each with its condition, problem, needs and remedy.

A row's texts may name parts of the case, as in `{scheme.name}`; what has to be computed is a function of the case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gemmgen.catalog.element import F32
from gemmgen.catalog.epilogue import epilogue_of
from gemmgen.catalog.fragment import FRAGMENTS, Fragment, shapes
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.scheme import SCHEMES, Scheme, preferred_scheme
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.decisions import SUMS
from gemmgen.designs import Design, all_designs, designs_of, owners_of
from gemmgen.designs.common import RUNS_OF_K, TILES_OF_K
from gemmgen.designs.feature import PACKS_APART, SPLITS_APART, STORED_B
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.kinds import GEMM, GROUPED, Kind, kind_of
from gemmgen.solve.lookup import schemes_for
from gemmgen.spec import Spec


@dataclass(frozen=True)
class Case:
    """What is asked, as far as it is looked up: a later field is None in rows that are asked before it is known.

    Attributes:
        place: of the spec, for messages.
        promote: the interval of promotion.
    """

    place: str
    spec: Spec
    gpu: Gpu
    scheme: Scheme | None = None
    fragment: Fragment | None = None
    design: Design | None = None
    promote: int = 0

    @property
    def kind(self) -> Kind:
        """Of product."""
        return kind_of(self.spec.problem)

    @property
    def of_wide(self) -> bool:
        """Whether elements are of a type of their own, which few kernels have."""
        return self.spec.problem.type != F32.name

    @property
    def serves_kind(self) -> bool:
        """Whether there are kernels of this kind for elements of a type of their own."""
        if self.kind.batched and (self.kind.exchanged or any(self.kind.k_range) and self.spec.problem.part != F32):
            return False
        if self.spec.problem.element.reals > 1:  # each product's record holds real factors
            return self.kind.reals > 1
        return not self.kind.twice

    @property
    def b(self) -> str:
        """The type of B that the scheme takes."""
        return self.scheme.b or F32.name

    @property
    def lacking_step(self) -> str | None:
        """A step of the epilogue that the GPU's platform has no functions for."""
        return epilogue_of(self.spec.epilogue.do).lacks(self.gpu.maker.platform)

    @property
    def family(self) -> str:
        """How the scheme's sums become one."""
        return self.scheme.family.sums

    @property
    def unit(self) -> MatrixUnit:
        """What multiplies on the matrix unit."""
        return self.gpu.unit.of(self.scheme.leading, self.fragment.policy)

    @property
    def same_words(self) -> bool:
        """Whether kernels of the design pack the same words of A and of B."""
        of_a, of_b = (self.scheme.words_of(operand, packed_alike=not self.design.has(PACKS_APART)) for operand in "ab")
        return of_a == of_b

    @property
    def unknown_words(self) -> list[str]:
        """Types of words whose rounding in the matrix unit is not known."""
        return [word for word in self.scheme.types if word not in self.gpu.unit.words]

    def designs(self, able: Callable[[Design], bool]) -> list[str]:
        """Names of the designs for such problems that are able to do something."""
        return [one.name for one in all_designs() if able(one) and one.computes(self.kind)]


Told = str | Callable[[Case], str | None]
"""A text with {parts of the case}, or a function that gives one."""


@dataclass(frozen=True)
class Refusal:
    """One reason why a request cannot be served.

    Attributes:
        key: what of the spec is refused.
        applies: whether it refuses a case.
        got: the value that it refuses.
        problem, needs, has, remedy: as in `GemmgenError`.
        error: its type.
    """

    key: str
    applies: Callable[[Case], bool]
    problem: Told
    got: Callable[[Case], Any]
    needs: Told
    remedy: Told
    has: Told | None = None
    error: type[GemmgenError] = InfeasibleSpec

    def of(self, case: Case) -> GemmgenError:
        """The error for a case."""
        problem, needs, has, remedy = (_told(text, case) for text in (self.problem, self.needs, self.has, self.remedy))
        return self.error(f"{case.place}: {self.key}", problem, got=self.got(case), needs=needs, has=has, remedy=remedy)


def _told(text: Told | None, case: Case) -> str | None:
    if text is None or callable(text):
        return text and text(case)
    return text.format(case=case, spec=case.spec, gpu=case.gpu, scheme=case.scheme, fragment=case.fragment, design=case.design)


def first(rows: Sequence[Refusal], case: Case) -> GemmgenError | None:
    """The first refusal of a case; None where there is none."""
    return next((row.of(case) for row in rows if row.applies(case)), None)


def refuse(rows: Sequence[Refusal], case: Case) -> None:
    """
    Raises:
        InfeasibleSpec, SpecError: the first refusal of the case.
    """
    if error := first(rows, case):
        raise error


def _lacking(able: Callable[[Design, Scheme], bool], what: str, said: Callable[[Design], bool] = lambda design: False) -> Refusal:
    """Not every design multiplies words of several types, or splits B into other words than A.

    Args:
        said: whether a design refuses it itself, with a remedy of its own.
    """
    def serving(case: Case) -> list[str]:
        return case.designs(lambda one: one.family == case.family and able(one, case.scheme))

    def needs(case: Case) -> str:
        found = serving(case)
        return f"a scheme without, or design {' or '.join(found)}" if found else "a scheme without"

    def remedy(case: Case) -> str:
        """What to type: another policy of this GPU, or else another GPU, whose kernels do; or another scheme."""
        if not serving(case):
            return "another scheme"

        def serves(gpu: Gpu) -> bool:
            rows = [row for row in FRAGMENTS.rows() if (row.vendor, row.word) == (gpu.vendor, case.scheme.leading) and row.runs_on(gpu.arch)]
            return any(able(one, case.scheme) for row in rows for one in designs_of(row, case.kind, case.family))

        if serves(case.gpu):
            return 'policy = "auto", or scheme = "auto"'
        other = next((gpu.name for gpu in GPUS.rows() if serves(gpu)), None)
        return f'gpu = "{other}", or scheme = "auto"' if other else 'scheme = "auto"'

    return Refusal(
        "[split] scheme", lambda case: not able(case.design, case.scheme) and not said(case.design),
        lambda case: f"kernels of policy {case.fragment.policy} and design {case.design.name} have no {what}".format(
            b=case.scheme.b, types=", ".join(case.scheme.types)),
        lambda case: case.scheme.name, needs, remedy,
    )


def _uncompensated(applies: Callable[[Case], bool], problem: str, needs: str) -> Refusal:
    """Sums are compensated as they leave a matrix unit that rounds them, by designs that have the choice."""
    def has(case: Case) -> str:
        able = case.designs(lambda one: SUMS in one.own)
        return f"design {' or '.join(able)}" if able else f"none for kind = {case.kind}"

    return Refusal(
        "[split] sums", lambda case: case.spec.split.sums == "compensated" and applies(case), problem, lambda case: "compensated", needs, 'sums = "plain"',
        has=has,
    )


IN_FP32 = "the sums of {scheme.name} are in FP32 registers already"
EXACT = "the sums of {scheme.name} are integers, and exact"

WIDE = "kernels for elements of {spec.problem.type}"
OF_TARGET = (
    Refusal(
        "[problem] kind", lambda case: case.spec.problem.element.reals > 1 and case.kind.name == GROUPED.name,
        "a product of a grouped batch is told by 64 bytes, which hold alpha and beta as real numbers: complex elements have no such kernels",
        lambda case: case.kind.name, "products of one size, strided or (residues) pointers; or elements of f32 or f64",
        'kind = "strided"',
    ),
    Refusal(
        "[problem] kind", lambda case: case.of_wide and not case.serves_kind, WIDE + " do not compute products of this kind",
        lambda case: case.kind.name + (", matrices" if case.kind.batched else ""),
        lambda case: ("gemm, gemmt, syrk, symm, trsm, strided, pointers or grouped; syr2k and trmm" if case.spec.problem.element.reals == 1
                      else "gemm, herk, syrk, gemmt, hemm, symm, trmm, trsm, strided or pointers; her2k and syr2k" if case.spec.problem.part == F32
                      else "gemm, herk, syrk, gemmt, hemm, symm, trsm, strided or pointers; her2k, syr2k and trmm") + " of single products",
        'kind = "gemm", or type = "f32"',
    ),
    Refusal(
        "[problem] b", lambda case: case.of_wide and case.spec.problem.b != F32.name, WIDE + " have a B of the same type", lambda case: case.spec.problem.b,
        'B of the elements\' type, which b = "f32" stands for', 'b = "f32", or type = "f32"',
    ),
    Refusal(
        "[problem] c", lambda case: case.of_wide and case.spec.problem.c != F32.name, WIDE + " store C in the same type", lambda case: case.spec.problem.c,
        'C of the elements\' type, which c = "f32" stands for', 'c = "f32", or type = "f32"',
    ),
    Refusal(
        "[epilogue] do", lambda case: case.of_wide and bool(case.spec.epilogue.do),
        WIDE + " store alpha A B + beta C, since steps compute in FP32, of real numbers",
        lambda case: ", ".join(case.spec.epilogue.do), "no steps", 'leave it out, or type = "f32"',
    ),
    Refusal(
        "[accuracy] as", lambda case: case.spec.problem.part == F32 and getattr(case.spec.accuracy, "as") == "fp64",
        "no element of {spec.problem.type} has such an error",
        lambda case: "fp64", '[problem] type = "f64"', 'type = "f64", or as = "fp32-rounded"',
    ),
    Refusal(
        "[target] vendor", lambda case: case.spec.target.vendor not in ("auto", case.gpu.vendor), "{gpu.name} is not {spec.target.vendor}'s",
        lambda case: case.spec.target.vendor, "{gpu.vendor}", "leave it out", error=SpecError,
    ),
    Refusal(
        "[problem] c", lambda case: not all_outputs()[case.spec.problem.c].serves(case.gpu.maker.platform),
        "kernels for {gpu.name} have no C of this type", lambda case: case.spec.problem.c, "functions of the type for {gpu.maker.platform}",
        'c = "f32", or another gpu',
    ),
    Refusal(
        "[epilogue] do", lambda case: case.lacking_step is not None, "kernels for {gpu.name} have no such step", lambda case: case.lacking_step,
        "functions of the step for {gpu.maker.platform}", "leave it out, or another gpu",
    ),
    Refusal(
        "[epilogue] do", lambda case: bool(case.spec.epilogue.do) and not case.kind.plain, "kind {case.kind} has no epilogue",
        lambda case: ", ".join(case.spec.epilogue.do), "a product of a given A and a given B", 'leave it out, or kind = "gemm"',
    ),
    Refusal(
        "[problem] b", lambda case: case.spec.problem.b != F32.name and case.kind.batched, "batches have a B of FP32 alone",
        lambda case: f"{case.spec.problem.b}, kind = {case.kind}", F32.name, 'b = "f32", or kind = "gemm"',
    ),
)
OF_SCHEME = (
    Refusal(
        "[split] scheme", lambda case: case.scheme.element != case.spec.problem.part.name, "splits elements of {scheme.element}",
        lambda case: f"{case.scheme.name}, [problem] type = {case.spec.problem.type}", "a scheme for the elements' type",
        lambda case: f'[problem] type = "{case.scheme.element}", or scheme = '
                     f'"{preferred_scheme(case.gpu.unit, case.spec.problem.b, case.spec.problem.part.name).name}"',
        has=lambda case: ", ".join(row.name for row in schemes_for(case.spec.problem.b, case.spec.problem.part.name)),
    ),
    Refusal(
        "[split] scheme", lambda case: case.b != case.spec.problem.b, "takes a B of {case.b}",
        lambda case: f"{case.scheme.name}, [problem] b = {case.spec.problem.b}", "a scheme for B's type",
        lambda case: f'[problem] b = "{case.b}", or scheme = "{preferred_scheme(case.gpu.unit, case.spec.problem.b).name}"',
        has=lambda case: ", ".join(row.name for row in schemes_for(case.spec.problem.b)),
    ),
    Refusal(
        "[accuracy] reproducible", lambda case: case.spec.accuracy.reproducible and not case.scheme.family.reproducible,
        "C of {scheme.name} has other bits on other GPUs: its sums or scales are rounded in an order that the kernel chooses", lambda case: True,
        "exact sums and one rounding, as residues have them",
        lambda case: f'scheme = "{preferred_scheme(case.gpu.unit, element=case.scheme.element, reproducible=True).name}", or reproducible = false',
        has=lambda case: ", ".join(row.name for row in SCHEMES.rows() if row.family.reproducible and row.element == case.scheme.element),
    ),
    Refusal(
        "[accuracy] reproducible", lambda case: case.spec.accuracy.reproducible and (case.kind.solves or bool(case.spec.epilogue.do)),
        "beside alpha A B + beta C, each compiler and each tile rounds in an order of its own",
        lambda case: f"kind = {case.kind.name}" if case.kind.solves else f"[epilogue] do = {', '.join(case.spec.epilogue.do)}",
        "products without an epilogue", "reproducible = false",
    ),
    Refusal(
        "[split] run", lambda case: case.spec.split.run is not None and case.scheme.family.run_k is None, "runs of k of {scheme.name} have no scales",
        lambda case: case.spec.split.run, 'a scheme with normalize = "run"', 'run = "auto", or scheme = "run_scaled"', error=SpecError,
    ),
)


def _policies(case: Case) -> str:
    """Those with kernels for the scheme's family of sums and one product."""
    serving = owners_of(GEMM, case.family)
    return " or ".join([policy for policy in serving if shapes(case.fragment.vendor, case.scheme.word, policy)] or serving)


def _serving(case: Case) -> tuple[str, ...]:
    """Policies with kernels for the kind of problem."""
    return owners_of(case.kind, case.family)


OF_KIND = (
    Refusal(
        "[split] scheme", lambda case: not designs_of(case.fragment, family=case.family) or not _serving(case),
        "there are no kernels for the {case.family} of such a scheme on policy {fragment.policy}, for [problem] kind = {case.kind}",
        lambda case: case.scheme.name, lambda case: f"policy {_policies(case)}, and kind = gemm", "another scheme, or a GPU that has it",
    ),
    Refusal(
        "[problem] kind", lambda case: not designs_of(case.fragment, case.kind, case.family),
        "there are no kernels for such problems on policy {fragment.policy}", lambda case: case.kind.name,
        lambda case: f"policy {' or '.join(_serving(case))}", 'policy = "auto", or kind = "gemm"',
    ),
)
OF_KERNEL = (
    Refusal(
        "[pipeline] design", lambda case: case.spec.pipeline.design not in ("auto", case.design.name),
        "kernels of policy {fragment.policy} are not of this design", lambda case: case.spec.pipeline.design,
        lambda case: " or ".join(one.name for one in designs_of(case.fragment, case.kind, case.family)), 'design = "auto", or another policy',
    ),
    _lacking(lambda design, scheme: scheme.uniform or design.mixes(scheme), "words of several types: {types}"),
    _lacking(lambda design, scheme: scheme.b is None or design.has(STORED_B), "B of {b} as it is stored"),
    _lacking(lambda design, scheme: scheme.family.run_k is None or design.has(RUNS_OF_K), "scales of runs of k"),
    _lacking(
        lambda design, scheme: scheme.family.tile_k is None or design.has(TILES_OF_K), "scales of tiles of k", said=lambda design: GROUPED.name in design.kinds,
    ),
    Refusal(
        "[split] scheme", lambda case: case.scheme.family.run_k is not None and (case.kind.packs and case.kind.reals == 1 or any(case.kind.k_range)),
        "scales of runs of k are found of an A and a B that are read whole, and whole runs are summed",
        lambda case: f"{case.scheme.name}, kind {case.kind}", "a scheme with scales of rows, or without any", 'scheme = "scaled"',
    ),
    Refusal(
        "[split] scheme", lambda case: bool(case.scheme.family.residues) and any(case.kind.k_range) and not case.of_wide,
        "norms of rows are those of a whole FP32 matrix, and kind {case.kind} reads a triangle", lambda case: case.scheme.name,
        "words, or residues of FP64", 'scheme = "scaled"',
    ),
    Refusal(
        "[split] scheme", lambda case: case.kind.twice and (bool(case.scheme.family.tile_k) or not case.same_words),
        "kind {case.kind} multiplies the words of A by those of B, and those of B by those of A", lambda case: case.scheme.name,
        "a scheme whose products read the same words of both, without scales of tiles of k", 'scheme = "auto"',
    ),
    _lacking(lambda design, scheme: bool(scheme.alike or scheme.b or design.has(SPLITS_APART)), "other words of B than of A"),
    _uncompensated(lambda case: not case.fragment.on_matrix_unit, IN_FP32, "a scheme whose words a matrix unit multiplies"),
    _uncompensated(lambda case: case.scheme.family.exact, EXACT, "a scheme of floating-point words"),
    _uncompensated(
        lambda case: SUMS not in case.design.own, "kernels of policy {fragment.policy} and design {design.name} have no such choice", "a design that has it",
    ),
    Refusal(
        "[split] scheme", lambda case: case.fragment.on_matrix_unit and bool(case.unknown_words),
        "how {gpu.name}'s matrix unit rounds {case.unknown_words[0]} is not known", lambda case: case.scheme.name,
        "a row of specs/units/{gpu.matrix_unit}.toml for {case.unknown_words[0]}: bounds and emulation rest on it", "another scheme, or another gpu",
        has=lambda case: ", ".join(sorted(case.gpu.unit.block)),
    ),
    Refusal(
        "[fragment] policy", lambda case: case.fragment.on_matrix_unit and case.unit.rule == "by_f16",
        "{gpu.name} has no {fragment.policy} instruction of its own for {scheme.leading}: the compiler makes FP16 of such words",
        lambda case: case.fragment.policy,
        "a policy whose instructions multiply {scheme.leading}, where FP16 words would be as fast and more accurate",
        "a scheme of FP16 words, or another gpu",
    ),
)
OF_PROMOTION = (
    Refusal(
        "[split] promote", lambda case: case.promote and not case.fragment.on_matrix_unit, IN_FP32, lambda case: case.promote,
        "0: promotion moves sums out of a matrix unit, which truncates", "promote = 0",
    ),
    Refusal(
        "[problem] k", lambda case: case.scheme.family.largest_k is not None and case.spec.problem.extents[2] > case.scheme.family.largest_k,
        "INT32 sums of {scheme.name} could overflow", lambda case: case.spec.problem.k,
        lambda case: f"at most {case.scheme.family.largest_k // case.kind.reals}",
        "products of parts of K that add up, with beta = 1, or another scheme",
    ),
    Refusal(
        "[split] promote", lambda case: case.promote and case.scheme.family.exact, EXACT, lambda case: case.promote,
        "0: promotion moves sums out of a matrix unit that truncates", "promote = 0",
    ),
)
