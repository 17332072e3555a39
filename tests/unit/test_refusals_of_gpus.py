"""Every GPU with every scheme: a refusal is true. It asks for no row that is there, and names no target that lacks the instruction."""

from __future__ import annotations

import re

import pytest

from gemmgen.catalog.fragment import FRAGMENTS, Fragment, candidates
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.designs import all_designs
from gemmgen.errors import InfeasibleSpec
from gemmgen.solve import lookup
from gemmgen.solve.request import requests
from gemmgen.spec import FragmentChoice, loads

ROWS = {name: GPUS.get(name) for name in GPUS.names()}


def refusal(gpu: Gpu, scheme: Scheme) -> InfeasibleSpec | None:
    """Of a minimal spec, before any candidate is looked at."""
    try:
        list(requests(loads({
            "problem": {"type": scheme.element, "b": scheme.b or "f32", **dict.fromkeys("mnk", 4096)}, "split": {"scheme": scheme.name}, "target": {"gpu": gpu.name},
        }, "minimal")))
    except InfeasibleSpec as error:
        return error
    return None


def instructions(word: str, **of: str) -> list[Fragment]:
    """Of matrix units on words of a type."""
    return [row for row in FRAGMENTS.rows() if row.on_matrix_unit and row.word == word and all(getattr(row, key) == value for key, value in of.items())]


@pytest.mark.parametrize("name", ROWS)
def test_what_a_matrix_unit_multiplies_has_kernels(name):
    """Each word type of its unit has an instruction of its target that kernels can be made of."""
    gpu = ROWS[name]
    for word in gpu.unit.words:
        assert any(row.runs_on(gpu.arch) for policy in (gpu.portable_policy, *gpu.maker.preferred_policies) for row in candidates(gpu.vendor, word, policy)), word


@pytest.mark.parametrize("name", ROWS)
def test_refusals_are_true(name):
    gpu, seen = ROWS[name], 0
    for scheme in SCHEMES.rows():
        error = refusal(gpu, scheme)
        if error is None:
            continue
        seen += 1
        word, told, needs = scheme.leading, f"{scheme.name}: {error}", str(error.needs)
        if "has no matrix instruction for" in error.problem:
            assert f"for {word}" in error.problem and word not in gpu.unit.words and error.has == gpu.arch, told
            assert not any(row.runs_on(gpu.arch) for row in instructions(word)), told
            for arch in re.findall(r"(?:sm_|gfx)[0-9a-f]+", needs):
                assert any(row.runs_on(arch) for row in instructions(word, vendor=gpu.vendor)), told
        elif "is not known" in error.problem:
            assert set(scheme.types) - set(gpu.unit.words), told
        elif "the compiler makes FP16" in error.problem:
            assert gpu.unit.of(word, gpu.portable_policy).rule == "by_f16", told
        else:
            assert scheme.family.sums in error.problem or "words of several types" in error.problem or "as it is stored" in error.problem, told
            for design in all_designs():
                named = re.search(rf"design .*\b{design.name}\b", needs)
                assert not named or design.family == scheme.family.sums and (scheme.uniform or design.mixes(scheme)), told
    assert seen < len(SCHEMES.names())


def test_a_missing_row_is_told_by_policy_and_one_that_no_kernel_can_use_by_its_name(monkeypatch):
    """The row that is there is never asked for: RDNA 4's on bytes, as half of a chunk, says what it lacks."""
    gpu, scheme = GPUS.get("rx9070xt"), SCHEMES.get("residues8")
    with pytest.raises(InfeasibleSpec, match="no wmma fragment of bf16 is known for nvidia") as caught:
        lookup.fragments(FragmentChoice(policy="wmma"), SCHEMES.get("bf16x3"), GPUS.get("a100"), "here")
    assert caught.value.needs == "a row under specs/fragments of policy wmma for bf16" and caught.value.remedy == 'policy = "auto"'
    monkeypatch.setattr(lookup, "candidates", lambda vendor, word, policy: [row for row in candidates(vendor, word, policy) if not row.runs_on(gpu.arch)])
    with pytest.raises(InfeasibleSpec, match="no kernel can be made of rdna4_m16n16k16_s8") as caught:
        lookup.fragments(FragmentChoice(), scheme, gpu, "here")
    assert "16-byte chunks" in caught.value.needs and "gfx1100" not in str(caught.value)


def test_targets_are_those_of_all_rows():
    """Not of the first alone: CDNA 3 multiplies TF32, and RDNA is told so."""
    error = refusal(ROWS["rx9070xt"], SCHEMES.get("tf32x3"))
    assert error.problem == "rx9070xt has no matrix instruction for tf32" and error.needs == "gfx942"
    assert refusal(ROWS["mi210"], SCHEMES.get("e4m3x6")).needs == "gfx950 or gfx1200 or gfx1201"
    assert refusal(ROWS["a100"], SCHEMES.get("e4m3x6")).needs == "sm_89 or newer"
