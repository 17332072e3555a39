"""Names of a spec as rows of the tables: its GPU, its schemes, the fragments that it leaves open, the decisions that it fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gemmgen.catalog.element import F32
from gemmgen.catalog.fragment import FRAGMENTS, Fragment, candidates, shapes
from gemmgen.catalog.gpu import GPUS, Gpu, arch_number
from gemmgen.catalog.policy import UNAVAILABLE
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.decisions import Decision
from gemmgen.designs import Design, Hints, all_decisions, designs_of, owner_of
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.kinds import kind_of
from gemmgen.spec import FragmentChoice, LoadedSpec, Spec

PLAIN, PLAIN_POLICY = "fp32", "fma"
"""The scheme and the policy of kernels without a matrix unit."""


def gpu_of(loaded: LoadedSpec) -> Gpu:
    """The row of its GPU.

    Raises:
        SpecError: it names none.
        UnknownName: there is no such row.
    """
    place = f"{loaded.place}: [target] gpu"
    if loaded.spec.target.gpu is None:
        raise SpecError(place, "is missing", needs="a name under specs/gpus, or a .toml file", remedy='gpu = "a100", or --gpu a100')
    return GPUS.get(loaded.spec.target.gpu, where=place, relative_to=loaded.folder)


def schemes_for(b: str, element: str = F32.name) -> list[Scheme]:
    """The rows for elements of a type that take a B of type `b`."""
    return [scheme for scheme in SCHEMES.rows() if scheme.element == element and scheme.b == (None if b == F32.name else b)]


def plain_ways(spec: Spec, gpu: Gpu, sizes: Hints) -> list[tuple[Scheme, Fragment, Design]]:
    """Plain FP32, where the scheme is open and a design of it is for such sizes: memory binds there, and no word need be split."""
    plain = SCHEMES.get(PLAIN)
    if spec.problem.b != F32.name or spec.problem.part != F32 or spec.split.scheme != "auto" or spec.fragment.shape is not None:
        return []
    if _unless_auto(spec.fragment.policy) not in (None, PLAIN_POLICY):
        return []
    usable = [row for row in candidates(gpu.vendor, plain.leading, PLAIN_POLICY) if row.runs_on(gpu.arch)][:1]
    return [(plain, row, one) for row in usable for one in designs_of(row, kind_of(spec.problem)) if one.is_narrow and one.suits(sizes)]


def fixed(loaded: LoadedSpec) -> dict[str, Any]:
    """The decisions that a spec fixes, by name."""
    found = {one.name: getattr(getattr(loaded.spec, one.section), one.name) for one in all_decisions()}
    return {name: value for name, value in found.items() if value not in (None, "auto")}


def foreign(fixed: Mapping[str, Any], design: Design) -> Iterator[tuple[Decision, str]]:
    """What of that a design does not have, each with a policy whose kernels do.

    A number that means as much as not having the choice is no matter; a word asks for a design that knows it.
    """
    for one in all_decisions():
        value = fixed.get(one.name)
        lacks = value not in design.values_of(one) if one.words else one.name not in {own.name for own in design.decisions}
        if value is not None and lacks and (one.words or value != one.neutral):
            yield one, owner_of(one, value)


def _unless_auto(word: str) -> str | None:
    return None if word == "auto" else word


def fragments(choice: FragmentChoice, scheme: Scheme, gpu: Gpu, place: str) -> list[Fragment]:
    """The fragments that the spec leaves open: one for each policy, the widest along k."""
    asked = _unless_auto(choice.policy)
    if asked or scheme.exact:
        return [_fragment(asked or "fma", choice.shape, scheme, gpu, place)]
    portable = shapes(gpu.vendor, scheme.leading, gpu.portable_policy)
    found = []
    if choice.shape is None or choice.shape not in portable:
        for policy in gpu.maker.preferred_policies:
            known = shapes(gpu.vendor, scheme.leading, policy)
            if any(row.runs_on(gpu.arch) for row in known.values()) and (choice.shape is None or choice.shape in known):
                found.append(_fragment(policy, choice.shape, scheme, gpu, place))
    if choice.shape is None or not found:
        found.append(_fragment(gpu.portable_policy, choice.shape, scheme, gpu, place))
    return found


def _targets(rows: Iterable[Fragment]) -> str:
    """Which targets have one of some instructions, in words."""
    rows = list(rows)
    if archs := {arch for row in rows for arch in row.archs or ()}:
        return " or ".join(sorted(archs, key=arch_number))
    least = min(rows, key=lambda row: row.min_arch)
    return least.targets or f"sm_{least.min_arch} or newer"


def _fragment(policy: str, shape: str | None, scheme: Scheme, gpu: Gpu, place: str) -> Fragment:
    if (unavailable := UNAVAILABLE.get(policy)) is not None:
        raise InfeasibleSpec(
            f"{place}: [fragment] policy", unavailable.problem, got=policy, needs=unavailable.needs,
            remedy=f'policy = "{gpu.portable_policy}", {unavailable.remedy}',
        )
    known = candidates(gpu.vendor, scheme.leading, policy)
    if shape is not None and known and shape not in (names := {row.shape_name for row in known}):
        raise UnknownName(f"{place}: [fragment] shape", f"{scheme.leading} fragment of {gpu.vendor}", shape, names)
    usable = [row for row in known if row.runs_on(gpu.arch) and shape in (None, row.shape_name)]
    if usable:  # of those that differ in n alone, the first can be made as wide as a tile
        return max(usable, key=lambda row: (row.shape[0] * row.shape[2], row.shape[0], -row.shape[1], -(row.instructions or 1)))
    raise _absent(policy, shape, scheme.leading, known, gpu, place)


def _absent(policy: str, shape: str | None, word: str, known: list[Fragment], gpu: Gpu, place: str) -> InfeasibleSpec:
    """Why a GPU has none of the fragments that kernels can be made of.

    Args:
        known: those of the policy, of any GPU of the vendor.
    """
    portable = policy == gpu.portable_policy
    key = f"{place}: [fragment] {'shape' if portable or shape else 'policy'}"
    rows = [row for row in FRAGMENTS.rows() if (row.vendor, row.word) == (gpu.vendor, word)]
    own = [row for row in rows if row.policy == policy and row.runs_on(gpu.arch)]
    if own and not any(row.runs_on(gpu.arch) for row in known):
        return InfeasibleSpec(
            key, f"no kernel can be made of {own[0].name}, by which {gpu.name} multiplies {word}", got=own[0].name,
            needs=f"a template atoms/{own[0].interface.atom}, and lanes whose part of an operand is whole 16-byte chunks: `deepest` in its row",
            remedy="another scheme",
        )
    # A GPU of another policy may have what this one lacks: CDNA's MFMA multiplies TF32, RDNA's WMMA does not.
    having = [row for row in rows if row.on_matrix_unit] if portable and shape is None else [row for row in known if shape in (None, row.shape_name)]
    if not having:
        return InfeasibleSpec(
            f"{place}: [fragment] policy", f"no {policy} fragment of {word} is known for {gpu.vendor}", got=policy,
            needs=f"a row under specs/fragments of policy {policy} for {word}", remedy="another scheme" if portable else 'policy = "auto"',
        )
    other = next(one.name for one in GPUS.rows() if any(row.vendor == one.vendor and row.runs_on(one.arch) for row in having))
    return InfeasibleSpec(
        key, f"{gpu.name} does not have {shape}" if shape else f"{gpu.name} has no {'matrix instruction' if portable else policy} for {word}",
        got=shape or (None if portable else policy), needs=_targets(having), has=gpu.arch,
        remedy=f'gpu = "{other}", or ' + ("leave it out" if shape else 'scheme = "auto"' if portable else 'policy = "auto"'),
    )
