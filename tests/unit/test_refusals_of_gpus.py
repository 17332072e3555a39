"""Every GPU with every scheme, kind of product and policy: a refusal is true. It asks for no row that is there, and names what has what it asks for."""

from __future__ import annotations

import re

import pytest

from gemmgen.catalog.fragment import FRAGMENTS, Fragment, candidates
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.designs import all_designs
from gemmgen.designs.common import RUNS_OF_K, TILES_OF_K
from gemmgen.designs.feature import SPLITS_APART, STORED_B
from gemmgen.errors import InfeasibleSpec
from gemmgen.kinds import Kind, kind_of
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


# ---- kinds of products, types and policies

KINDS = {kind: {"layout": "nt"} if kind in ("syrk", "syr2k") else {"layout": "nc"} if kind in ("herk", "her2k") else {} for kind in (
    "gemm", "strided", "grouped", "pointers", "gemmt", "syrk", "syr2k", "symm", "trmm", "trsm", "herk", "hemm", "her2k")}
LISTED, COMPLEX_ALONE = ("grouped", "pointers"), ("herk", "hemm", "her2k")
OF_BATCHES = ("strided", *LISTED)
TYPES = {"f32": ("f32", "c64"), "f64": ("f64", "c128")}
IN_SHORT = ("ootomo", "run_scaled", "mixpert2", "mixpert1_tile", "residues8", "residues14", "f16_s8", "ootomo_b16", "fp32")


def questions(schemes):
    """Each scheme with each of its types and each kind, of one product and of a batch: (scheme, type, kind, whether a batch)."""
    for scheme in schemes:
        for type in TYPES[scheme.element]:
            for kind in KINDS:
                if type[0] == "c" or kind not in COMPLEX_ALONE:
                    yield from ((scheme, type, kind, batch) for batch in ((True,) if kind in OF_BATCHES else (False, True) if kind != "gemm" else (False,)))


def answer(gpu: Gpu, policy: str, scheme: Scheme, type: str, kind: str, batch: bool):
    """The requests' designs, or the refusal."""
    problem = {"kind": kind, "type": type, "b": scheme.b or "f32", **dict.fromkeys("mnk", 1024), **KINDS[kind]} | ({"matrices": 16} if batch else {})
    spec = loads({"problem": problem, "split": {"scheme": scheme.name}, "fragment": {"policy": policy}, "target": {"gpu": gpu.name}}, "minimal")
    try:
        return kind_of(spec.spec.problem), [request.design for request in requests(spec)]
    except InfeasibleSpec as error:
        return kind_of(spec.spec.problem), error


def needed(error: InfeasibleSpec, names) -> list[str]:
    """Which of some names a refusal says are needed."""
    return [name for name in names if re.search(rf"\b{name}\b", str(error.needs))]


ABLE = {
    "words of several types": lambda design, scheme: scheme.uniform or design.mixes(scheme), "as it is stored": lambda design, scheme: design.has(STORED_B),
    "scales of runs of k": lambda design, scheme: design.has(RUNS_OF_K), "scales of tiles of k": lambda design, scheme: design.has(TILES_OF_K),
    "other words of B": lambda design, scheme: design.has(SPLITS_APART),
}
"""What a design may lack, as refusals say it: whether it is there."""


def is_true(error: InfeasibleSpec, gpu: Gpu, policy: str, scheme: Scheme, kind: Kind, name: str, batch: bool) -> bool:
    """Whether what a refusal says is so, and what it names serves the kind."""
    told, word, rows = error.problem, scheme.leading, [row for row in FRAGMENTS.rows() if (row.vendor, row.word) == (gpu.vendor, scheme.leading)]
    mine = [row for row in rows if row.policy == policy]
    serving = {design for design in all_designs() if design.family == scheme.family.sums and design.computes(kind)}
    beside = {design for design in serving for row in mine if row.runs_on(gpu.arch) and design.serves(row)}
    if f"has no {policy} for {word}" in told or f"has no matrix instruction for {word}" in told:
        of = [row for row in rows if row.on_matrix_unit]
        named = re.findall(r"(?:sm_|gfx)[0-9a-f]+", str(error.needs))
        return not any(row.runs_on(gpu.arch) for row in mine) and all(any(row.runs_on(re.sub("a$", "", arch)) for row in of) for arch in named)
    if f"no {policy} fragment of {word} is known" in told:
        return not mine
    if "a product of a grouped batch is told by 64 bytes" in told:
        return name == "grouped"
    if "do not compute products of this kind" in told:
        return not lists(str(error.needs), name, batch)
    if "there are no kernels for" in told:
        named = needed(error, {row.policy for row in FRAGMENTS.rows()})
        return not beside and bool(named) and all(
            any(design.serves(row) and design.family == scheme.family.sums and (design in serving or "kind = gemm" in str(error.needs))
                for design in all_designs() for row in FRAGMENTS.rows() if row.policy == one) for one in named)
    for what, able in ABLE.items():
        if what in told and "have no" in told:
            designs = {design.name: design for design in all_designs()}
            return not any(able(design, scheme) for design in beside) and all(
                designs[one] in serving and able(designs[one], scheme) for one in needed(error, designs))
    return any(said in told and holds for said, holds in {
        "have a B of": scheme.b, "has a B of": scheme.b, "is A in kind": scheme.b,
        "so a pass over the operands comes first": name in LISTED and scheme.normalize != "none",
        "scales of runs of k are found of": scheme.family.run_k and (kind.packs or any(kind.k_range)),
        "norms of rows are those of a whole FP32 matrix": scheme.family.residues and scheme.element == "f32" and any(kind.k_range),
        "multiplies the words of A by those of B": kind.twice and (
            scheme.family.tile_k or {one.a for one in scheme.products} != {one.b for one in scheme.products}),
        "matrix unit rounds": set(scheme.types) - set(gpu.unit.words),
        "the compiler makes FP16": policy in ("wmma", gpu.portable_policy) and word in gpu.unit.words and gpu.unit.of(word, policy).rule == "by_f16",
        "no kernel can be made of": any(row.runs_on(gpu.arch) for row in mine) and not any(
            row.runs_on(gpu.arch) for row in candidates(gpu.vendor, word, policy)),
    }.items())


def policies(gpu: Gpu) -> list[str]:
    """Those of which the GPU has an instruction."""
    return sorted({row.policy for row in FRAGMENTS.rows() if row.vendor == gpu.vendor and row.runs_on(gpu.arch)})


def lists(told: str, kind: str, batch: bool) -> bool:
    """Whether a refusal of a kind names another one as served."""
    first, single = (re.findall(r"\w+", part) for part in told.split("; "))
    return kind in first or not batch and kind in single


@pytest.mark.parametrize(("name", "schemes"), [
    pytest.param("b200", IN_SHORT, id="b200, tcgen05"), pytest.param("b300", ("residues8",), id="b300, tcgen05"),
    *(pytest.param(name, SCHEMES.names(), marks=pytest.mark.long, id=name)
      for name in {(gpu.arch, gpu.matrix_unit): name for name, gpu in ROWS.items()}.values()),
])
def test_what_a_policy_does_not_serve_is_refused_for_a_true_reason(name, schemes):
    """Each kind, type and scheme, of one product and of a batch; and the kinds that are told to be served are those that are."""
    gpu, told, served = ROWS[name], {}, {}
    for policy in policies(gpu) if len(schemes) > len(IN_SHORT) else ("tcgen05",):
        for scheme, type, kind, batch in questions([SCHEMES.get(one) for one in schemes]):
            asked, found = answer(gpu, policy, scheme, type, kind, batch)
            if isinstance(found, InfeasibleSpec):
                assert is_true(found, gpu, policy, scheme, asked, kind, batch), f"{policy}, {scheme.name}, {type}, {kind}, {batch}: {found}"
                told |= {type: str(found.needs)} if "do not compute products" in found.problem else {}
            else:
                served.setdefault(type, set()).add((kind, batch))
    for type, needs in told.items():
        assert all(lists(needs, kind, batch or kind == "strided") for kind, batch in served.get(type, ())), (type, needs, served[type])
