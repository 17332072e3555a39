"""The solver: the whole space, within every constraint, and the same every time."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import cycle, product
from types import SimpleNamespace

import pytest
from random_specs import assert_typed
from ways import can_multiply, covering

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError, InfeasibleSpec
from gemmgen.designs import Choices, portable
from gemmgen.designs.portable.design import BUFFERED, LEAST_WARP, PREDICTED
from gemmgen.kinds import all_kinds
from gemmgen.render import render
from gemmgen import solve as solving
from gemmgen.solve import search
from gemmgen.cli.explain import text
from gemmgen.solve import check, choices, explain, judged, ranked, solve
from gemmgen.solve.request import requests
from gemmgen.spec import loads

WITH_KERNELS = [
    (scheme.name, gpu.name) for scheme in SCHEMES.rows() for gpu in GPUS.rows()
    if not scheme.b and gpu.arch_number >= 80 and can_multiply(gpu.name, scheme.name)
]


def spec(scheme="ootomo", gpu="h100", size=4096, **sections):
    return loads({
        "problem": {"type": SCHEMES.get(scheme).element if scheme in SCHEMES.names() else "f32", "m": size, "n": size, "k": size}, "target": {"gpu": gpu}, **sections,
        "split": {"scheme": scheme, **sections.get("split", {})},
    })


MMA = {"fragment": {"policy": "mma"}}
ONE_EACH = tuple({gpu.arch: gpu.name for gpu in GPUS.rows()}.values())
"""A GPU of every compile target."""


def test_the_space_is_large():
    explanation = explain(spec(**MMA))
    divisible = explanation.candidates - explanation.rejected[BUFFERED[0].label]
    assert divisible >= 200_000
    assert explanation.candidates == explanation.feasible + sum(explanation.rejected.values())


def test_no_candidate_stands_twice():
    request = spec(**MMA)
    fragment = solve(request).fragment
    fixed = portable.DESIGN.constants("nn", SCHEMES.get("ootomo"), fragment, GPUS.get("h100"), solve(request).hints)
    searched = search.enumerate_space(portable.DESIGN, Choices(promote=(256,)), fixed, fragment, GPUS.get("h100").registers)
    rows = {tuple(row) for row in zip(*(searched.columns[name].tolist() for name in portable.DESIGN.symbols))}
    assert len(rows) == searched.feasible


@pytest.mark.parametrize(("scheme", "gpu"), covering(WITH_KERNELS))
def test_every_choice_satisfies_every_constraint(scheme, gpu):
    plan = solve(spec(scheme, gpu))
    check(plan)
    known = plan.model
    broken = [constraint for constraint in plan.design.constraints if not constraint.holds(known)]
    # What is predicted to spill is taken where every choice of usual warps is.
    assert not broken or set(broken) <= set(PREDICTED) and all(
        any(not one.holds(other.model) for one in PREDICTED) for other in choices(spec(scheme, gpu)) if other.warp[0] * other.warp[1] >= LEAST_WARP**2
    )
    assert plan.predicted_registers == known["registers"] and known["resident_blocks"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 64, 1000, 1024, 16384])
def test_any_size_has_a_plan(size):
    assert solve(spec(size=size)).hints.m == size


def test_the_fastest_within_a_percent_is_chosen():
    explanation = explain(spec())
    best = min(candidate.seconds for candidate in explanation.best)
    assert explanation.best[0].seconds <= best * (1 + search.TIE)
    assert explanation.best[0].intensity == max(c.intensity for c in explanation.best if c.seconds <= best * (1 + search.TIE))


def test_no_candidate_beats_one_of_the_front_in_both():
    front = explain(spec()).front
    assert len(front) > 1
    for one in front:
        assert not any(
            other.intensity >= one.intensity and other.threads >= one.threads and other != one for other in front
        )
    assert [c.intensity for c in front] == sorted((c.intensity for c in front), reverse=True)


def test_what_the_spec_fixes_is_kept():
    plan = solve(spec(tile={"block": [64, 128, 32]}, pipeline={"stages": 4}))
    assert plan.block == (64, 128, 32) and plan.stages == 4
    plan = solve(spec(tile={"warp": [64, 32, 64]}))
    assert plan.warp == (64, 32, 64) and plan.block[2] == 64 and plan.block[0] % 64 == 0
    assert solve(spec(pipeline={"fragment_buffers": 1})).fragment_buffers == 1
    assert solve(spec(tile={"group": 3})).group == 3
    assert solve(spec(split={"promote": 64})).promote == 64


def test_a_spec_that_leaves_nothing_open_is_checked_and_not_searched():
    whole = {"tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "group": 8, "split_k": 1},
             "pipeline": {"loads": "async", "stages": 3, "fragment_buffers": 1}, "split": {"promote": 0, "where": "prepass"}}
    explanation = explain(spec(**whole))
    assert explanation.candidates == 1 and explanation.plan == solve(spec(**whole))
    program = (
        "import sys\n"
        "from gemmgen.solve import search\n"
        "search.enumerate_space = None\n"
        "from gemmgen.spec import loads; from gemmgen.solve import solve\n"
        f"solve(loads({{**{whole!r}, 'split': {{'scheme': 'ootomo', 'promote': 0, 'where': 'prepass'}}, 'target': {{'gpu': 'h100'}}}}))\n"
        "print('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == ["False"]


@pytest.mark.slow
def test_the_same_answer_in_another_process():
    program = (
        "from gemmgen.spec import loads; from gemmgen.solve import solve\n"
        "print(solve(loads({'split': {'scheme': 'scaled'}, 'target': {'gpu': 'a100'}})).identity)"
    )
    answers = {
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                       env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"}).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1 and next(iter(answers)).startswith("{")


@pytest.mark.parametrize(("fixed", "words"), [
    ({"tile": {"block": [128, 128, 24]}}, "block k cannot be staged"),
    ({"tile": {"block": [256, 256, 16], "warp": [32, 32, 16]}}, "too many threads"),
    ({"tile": {"block": [50, 64, 32]}}, "not a whole number"),
    ({"tile": {"block": [64, 64, 32]}, "pipeline": {"stages": 60}}, "stages = 60 does not fit h100"),
    ({"tile": {"warp": [128, 128, 32]}}, "leave no room"),
    ({"tile": {"block": [64, 64, 16]}, "pipeline": {"fragment_buffers": 2}}, "even number of steps"),
    ({"split": {"where": "shared"}, "pipeline": {"loads": "async"}}, "passes through registers"),
    ({"split": {"where": "register"}, "pipeline": {"loads": "spread"}}, "copied there as it is"),
    ({"split": {"where": "shared"}, "pipeline": {"stages": 3}}, "takes turns with two stages"),
    ({"split": {"where": "register"}, "tile": {"block": [48, 48, 32]}}, "block n is no whole number of 128-byte lines"),
    ({"split": {"where": "register"}, "tile": {"block": [64, 48, 32]}, "problem": {"layout": "tn"}}, "block n is no whole number of 128-byte lines"),
    ({"split": {"where": "register"}, "tile": {"block": [48, 48, 32]}, "problem": {"layout": "tt"}}, "block m is no whole number of 128-byte lines"),
    ({"split": {"scheme": "run_scaled", "promote": 48}}, "promote: run_scaled has scales for every 1024 k"),
    ({"pipeline": {"design": "thin"}, "fragment": {"policy": "fma"}, "split": {"scheme": "ootomo"}}, "are not of this design"),
    ({"split": {"where": "register", "scheme": "fp32"}, "fragment": {"policy": "fma"}}, "fma and f32 are not filled by lanes"),
    ({"pipeline": {"loads": "spread", "fragment_buffers": 2}, "tile": {"block": [64, 64, 16]}}, "no room for a second buffer"),
    ({"split": {"promote": 48}, "tile": {"block": [64, 64, 32]}}, "promotion falls between"),
])
def test_what_cannot_be_is_refused_with_its_reason(fixed, words):
    with pytest.raises(InfeasibleSpec, match=words) as caught:
        solve(spec(**fixed))
    assert caught.value.needs and caught.value.remedy


def test_the_remedy_for_an_interval_within_a_run_of_k_serves():
    for gpu, promote in (("h100", 48), ("mi300x", 16)):
        with pytest.raises(InfeasibleSpec, match="run_scaled has scales") as caught:
            solve(spec("run_scaled", gpu, split={"promote": promote}))
        promote, block_k = map(int, re.fullmatch(r"promote = (\d+), and a block k that divides (\d+)", caught.value.remedy).groups())
        plan = solve(spec("run_scaled", gpu, split={"promote": promote}))
        assert plan.promote == promote and block_k % plan.block[2] == 0


def test_products_of_the_largest_sizes_have_plans():
    """Bytes of packed words and of planes of a slice are more than 64 bits count there; and are explained."""
    largest = 2**31 - 1
    asked = loads({"problem": {"n": largest, "k": largest}, "split": {"scheme": "residues6"}, "pipeline": {"stages": 3}, "target": {"gpu": "mi300a"}})
    assert solve(asked).model["split_bytes"] > 2**64 and explain(asked).best


def rendered_or_refused(loaded) -> bool:
    """Whether a spec ends in a kernel's text and not in a typed refusal; nothing else may be."""
    try:
        return bool(render(solve(loaded)).text)
    except GemmgenError as refusal:
        assert_typed(refusal)
        return False


@pytest.mark.parametrize(("first", "part"), [(0, 0), *(pytest.param(at, half, marks=pytest.mark.long) for at in range(len(ONE_EACH)) for half in (0, 1) if at + half)])
def test_every_kind_of_every_scheme_ends_in_a_kernel_or_a_typed_refusal(first, part):
    """On the GPUs in turn, from another one on in each test; every second pair."""
    turns = list(zip(((scheme, kind) for kind in all_kinds() for scheme in SCHEMES.rows() if kind != "gemm"), cycle([*ONE_EACH[first:], *ONE_EACH[:first]])))
    found = [
        rendered_or_refused(loads({"problem": {"kind": kind, "type": scheme.element, "b": scheme.b or "f32"}, "split": {"scheme": scheme.name}, "target": {"gpu": gpu}}))
        for (scheme, kind), gpu in turns[part::2]
    ]
    assert min(sum(found), len(found) - sum(found)) > 20


@pytest.mark.parametrize(("fallback", "passes"), [("none", 1), ("tf32x3", 2)])
def test_ways_with_a_fallback_are_ranked_by_the_pass_that_it_needs(fallback, passes):
    """One pass over whole rows finds maxima and splits; what a fallback has to know is found by a pass before."""
    asked = {"split": {"scheme": "mixpert1", "fallback": fallback}, "fragment": {"policy": "wgmma"}, "target": {"gpu": "h100"}}
    assert {request.constants["split_passes"] for request in requests(loads(asked))} == {passes}


@pytest.mark.parametrize(("kind", "design"), [("grouped", "grouped"), ("pointers", "grouped"), ("grouped", "packed"), ("strided", "grouped")])
def test_batches_of_many_sizes_have_no_scales_of_tiles(kind, design):
    asked = {
        "problem": {"kind": kind}, "split": {"scheme": "mixpert2_tile"}, "fragment": {"policy": "wgmma" if design == "packed" else "mma"},
        "pipeline": {"design": design}, "target": {"gpu": "h200"},
    }
    with pytest.raises(InfeasibleSpec, match="scales tiles of k") as caught:
        solve(loads(asked))
    assert caught.value.needs and "strided" in caught.value.remedy and caught.value.got == "mixpert2_tile"
    assert solve(loads({**asked, "problem": {"kind": "strided"}, "pipeline": {}})).scheme.family.tile_k


@pytest.mark.parametrize(("gpu", "kind", "accuracy", "sums"), covering(product(
    ONE_EACH, tuple(all_kinds()), ("relative_frobenius", "scaled", "as"), ("compensated", "plain"),
)))
def test_a_contract_beside_sums_ends_in_requests_or_a_typed_refusal(gpu, kind, accuracy, sums):
    """What is asked is within reach of most schemes."""
    asked = {"relative_frobenius": 1e-3, "scaled": 1e-3, "as": "tf32"}[accuracy]
    try:
        found = requests(loads({"problem": {"kind": kind, "k": 256}, "split": {"sums": sums}, "accuracy": {accuracy: asked}, "target": {"gpu": gpu}}))
    except GemmgenError as refusal:
        assert_typed(refusal)
    else:
        assert {one.compensated for one in found} == {sums == "compensated"}


@pytest.mark.parametrize(("gpu", "scheme", "kind", "words"), [
    ("a100", "fp32", "gemm", "in FP32 registers"), ("a100", "mixpert4", "gemm", "are integers"), ("a100", "ootomo", "grouped", "no such choice"),
])
def test_compensated_sums_that_cannot_be_are_refused_by_their_name(gpu, scheme, kind, words):
    with pytest.raises(InfeasibleSpec, match=words) as caught:
        solve(loads({"problem": {"kind": kind}, "split": {"scheme": scheme, "sums": "compensated"}, "target": {"gpu": gpu}}))
    assert caught.value.where.endswith("[split] sums") and caught.value.got == "compensated" and caught.value.remedy == 'sums = "plain"'


def test_scaled_rows_are_split_in_a_pass_of_their_own():
    assert solve(spec("scaled")).where == "prepass"
    for where in ("shared", "register"):
        with pytest.raises(InfeasibleSpec, match="scales rows") as caught:
            solve(spec("scaled", split={"where": where}))
        assert "prepass" in caught.value.remedy


@pytest.mark.parametrize(("scheme", "layout", "bound"), [("scaled_f16x6", "tn", ", 3)"), ("scaled_f16x6", "tt", ")"), ("scaled", "tn", ")"), ("f16x6", "tn", ")")])
def test_the_compiler_is_told_what_registers_a_pass_has_that_turns_three_scaled_words(scheme, layout, bound):
    """By itself it takes 40, and spills for sm_87; so it is told where both operands are turned, and no other pass changes."""
    source = render(solve(spec(scheme, problem={"layout": layout}, split={"where": "prepass"}, **MMA)))
    assert f"__launch_bounds__(256{bound}\n{source.name}_split(" in source.text


@pytest.mark.parametrize("fallback", ["scaled", "e4m3x6", "run_scaled", "mixpert1"])
def test_a_fallback_that_needs_a_pass_of_its_own_is_refused_for_that(fallback):
    with pytest.raises(InfeasibleSpec, match=f"{fallback} scales rows") as caught:
        solve(spec("mixpert1", split={"fallback": fallback}))
    assert caught.value.where.endswith("[split] fallback") and caught.value.needs == "a scheme with normalize = none"


def test_a_gpu_without_asynchronous_copies_goes_through_registers():
    plan = solve(spec(gpu="t4"))
    assert (plan.loads, plan.stages, plan.fragment.shape_name) == ("spread", 2, "m16n8k8")
    with pytest.raises(InfeasibleSpec, match="t4 has no asynchronous copies") as caught:
        solve(spec(gpu="t4", pipeline={"loads": "async"}))
    assert caught.value.needs == "sm_80 or newer"


@pytest.mark.slow
def test_where_to_split_follows_the_size():
    """Measured on an H100: one launch wins where launches cost most, a pass of its own everywhere else."""
    assert solve(spec(size=128, **MMA)).where == "lane"
    assert all(solve(spec(size=size, **MMA)).where == "prepass" for size in (1024, 4096, 16384))


@pytest.mark.parametrize(("size", "design"), [
    ((64, 64, 64), "straight"), ((256, 256, 256), "straight"), ((16, 1024, 1024), "straight"), ((1024, 1024, 32), "straight"), ((8192, 4, 8192), "straight"),
    ((512, 512, 512), "specialised"), ((4096, 4096, 4096), "specialised"),
])
def test_thin_and_small_products_are_one_launch(size, design):
    """Measured on an H200 (docs/results/small.md)."""
    plan = solve(loads({"problem": dict(zip("mnk", size)), "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"}}))
    assert plan.design.name == design


@pytest.mark.parametrize(("size", "layout"), [((4, 8192, 8192), "nn"), ((16384, 16, 4096), "tn"), ((1, 4096, 4096), "nt")])
def test_where_the_scheme_is_open_plain_fp32_may_be_the_fastest(size, layout):
    """Measured on an H200 (docs/results/small.md): splitting takes more instructions than the products of a thin C."""
    asked = {"problem": dict(zip("mnk", size), layout=layout), "target": {"gpu": "h200"}}
    found = explain(loads(asked))
    assert (found.plan.scheme.name, found.plan.design.name) == ("fp32", "thin")
    assert "ootomo is predicted slower" in found.scheme_reason
    assert solve(loads(asked | {"fragment": {"policy": "mma"}})).scheme.name == "ootomo"
    assert solve(loads({"problem": {"m": 17, "n": 4096, "k": 4096}, "target": {"gpu": "h200"}})).scheme.name == "ootomo"


def test_the_thin_design_needs_asynchronous_copies():
    asked = {"problem": {"m": 4}, "split": {"scheme": "fp32"}, "pipeline": {"design": "thin"}}
    with pytest.raises(InfeasibleSpec, match="the thin design copies past the registers"):
        solve(loads(asked | {"target": {"gpu": "t4"}}))
    assert solve(loads(asked | {"target": {"gpu": "a100"}})).loads == "streamed"


@pytest.mark.parametrize(("tile", "message"), [
    ({"block": [12, 64, 128], "warp": [12, 32, 128]}, "no side of the tile is thin"),
    ({"block": [8, 64, 128], "warp": [4, 32, 128]}, "warps divide the thin side"),
    ({"block": [8, 64, 128], "warp": [8, 16, 128]}, "lanes do not share the large side"),
    ({"block": [8, 80, 128], "warp": [8, 32, 128]}, "not a whole number of warps"),
    ({"block": [8, 64, 128], "warp": [8, 32, 24]}, "share a stage's steps evenly"),
    ({"block": [16, 2048, 1024], "warp": [16, 128, 1024]}, "do not fit"),
])
def test_what_a_thin_tile_cannot_be(tile, message):
    asked = {"split": {"scheme": "fp32"}, "pipeline": {"design": "thin", "stages": 3}, "tile": tile, "target": {"gpu": "a100"}}
    with pytest.raises(InfeasibleSpec, match=message):
        solve(loads(asked))


def test_a_design_for_some_sizes_serves_any_to_those_who_ask():
    large = {"split": {"scheme": "ootomo", "where": "lane"}, "target": {"gpu": "a100"}}
    assert solve(loads(large)).design.name == "straight"
    asked = {"split": {"scheme": "ootomo"}, "pipeline": {"design": "straight"}, "target": {"gpu": "a100"}}
    assert solve(loads(asked)).loads == "direct"
    with pytest.raises(InfeasibleSpec, match="warps do not take equal parts of a stage") as caught:
        solve(loads(large | {"tile": {"block": [32, 32, 48], "warp": [32, 32, 32]}}))
    assert "block k = 48" in caught.value.remedy


def ways(gpu="a100", **sections):
    """(scheme, policy, design) of all requests of a spec; nothing is searched."""
    return [(one.scheme.name, one.fragment.policy, one.design.name) for one in requests(loads({"target": {"gpu": gpu}, **sections}))]


def test_plain_fp32_takes_part_where_memory_binds_and_nothing_speaks_against_it():
    few = {"m": 8}
    plain = ("fp32", "fma", "thin")
    assert ways(problem=few) == [("ootomo", "mma", "straight"), plain, ("ootomo", "mma", "portable")] and plain not in ways()
    assert plain in ways(problem=few, fragment={"policy": "fma"})
    for other in ({"fragment": {"policy": "mma"}}, {"fragment": {"shape": "m16n8k16"}}, {"split": {"scheme": "ootomo"}}):
        assert plain not in ways(problem=few, **other)
    assert ways(problem={**few, "b": "bf16"}) == [("bf16x3_bb16", "mma", "portable")]


@pytest.mark.parametrize("size", [8, 4096])
@pytest.mark.parametrize(("scheme", "design", "where"), [("fp32", "thin", "shared"), ("fp32", "cuda_cores", "lane"), ("ootomo", "straight", "shared")])
def test_whom_the_design_that_is_asked_for_refuses_is_told_why(size, scheme, design, where):
    """And not that another design is another one."""
    with pytest.raises(InfeasibleSpec) as caught:
        ways(problem={"m": size}, split={"scheme": scheme, "where": where}, pipeline={"design": design})
    assert "[pipeline] design" not in caught.value.where, str(caught.value)


def test_sums_of_integers_are_refused_from_where_they_could_overflow():
    most = SCHEMES.get("mixpert4").family.largest_k
    assert ways("h200", problem={"k": most}, split={"scheme": "mixpert4"})
    with pytest.raises(InfeasibleSpec, match="could overflow") as caught:
        ways("h200", problem={"k": most + 1}, split={"scheme": "mixpert4"})
    assert (caught.value.got, caught.value.needs) == (most + 1, f"at most {most}")


def test_small_tiles_are_for_few_elements_of_all_products():
    def small(**problem):
        return requests(loads({"problem": problem, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}))[0].choices.small

    assert small(m=64, n=64, k=64) and not small(m=4096, n=4096, k=64)
    assert small(kind="strided", m=64, n=64, k=64, matrices=1) and not small(kind="strided", m=64, n=64, k=64, matrices=1000)
    assert small(m=64, n=64, k=64, matrices=1000)  # which one product does not look at


def test_slices_that_are_asked_for_are_held_to_all_but_their_own_reason():
    """They need no few tiles, and what is predicted to spill is still left out."""
    asked = {
        "split": {"scheme": "ootomo", "where": "prepass"}, "tile": {"split_k": 4, "group": 8, "block": [128, 128, 32]}, "pipeline": {"loads": "async"},
        "fragment": {"policy": "mma"}, "target": {"gpu": "a100"},
    }
    rejected = ranked(requests(loads(asked))[0]).rejected
    assert any(one.label in rejected for one in PREDICTED) and not any("slices" in label for label in rejected)


def test_slices_of_k_are_for_few_tiles():
    assert solve(spec(size=8192)).split_k == 1
    deep = loads({"problem": {"m": 128, "n": 128, "k": 65536}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h100"}})
    assert solve(deep).split_k > 1
    assert solve(spec(size=8192, tile={"split_k": 4})).split_k == 4  # a spec may ask for them anywhere


def test_allowing_spills_admits_what_does_not_fit():
    tile = {"block": [128, 128, 32], "warp": [64, 64, 32]}
    with pytest.raises(InfeasibleSpec, match="leave no room"):
        solve(spec(tile=tile, split={"promote": 256}))
    assert solve(spec(tile=tile, split={"promote": 256}, build={"allow_spills": True})).warp == (64, 64, 32)


def test_a_judged_candidate_names_the_inequality():
    with pytest.raises(InfeasibleSpec) as caught:
        judged(spec(tile={"block": [256, 256, 64], "warp": [64, 64, 64]}, pipeline={"stages": 8}))
    assert "C10, shared_bytes <= shared_bytes_per_block: 1048576 <= 232448" in caught.value.problem


# ---- the command


def test_explain_prints_each_equation_with_numbers(gemmgen, write_spec):
    path = write_spec('[split]\nscheme = "ootomo"\n[fragment]\npolicy = "mma"\n[target]\ngpu = "h100"\n')
    ran = gemmgen("explain", path, "--full")
    assert ran.code == 0
    for part in ("R3", "= stages * (BM * (BK * element_bytes + words_a * row_padding) + BN * (BK * b_element_bytes + words_b * row_padding", "rejected",
                 "LE-GEMM eq. 15", "EGEMM eq. 8", "WMMAe eq. 1",
                 "C10", "candidates", "front of T3", "the largest T3 wins, then the least T13, the largest P1, the least R3"):
        assert part in ran.out, part


def test_explain_as_json(gemmgen, write_spec):
    ran = gemmgen("explain", write_spec('[split]\nscheme = "ootomo"\n[target]\ngpu = "h100"\n'), "--json")
    told = json.loads(ran.out)
    assert {"plan", "candidates", "rejected", "solve_seconds"} <= set(told)
    assert told["candidates"] >= 200_000 and told["solve_seconds"] > 0
    assert sum(told["rejected"].values()) + told["feasible"] == told["candidates"]
    assert all("<" in label or "==" in label for label in told["rejected"])


def test_explain_typesets(gemmgen, write_spec):
    ran = gemmgen("explain", write_spec('[split]\nscheme = "ootomo"\n[target]\ngpu = "h100"\n'), "--latex")
    assert ran.out.count(r"\begin{align*}") == ran.out.count(r"\end{align*}") >= 7
    assert r"\tag{LE-GEMM eq. 12}" in ran.out and ran.out.count("{") == ran.out.count("}")


def test_explain_refuses_a_candidate_by_name(gemmgen, write_spec):
    path = write_spec('[split]\nscheme = "ootomo"\n[target]\ngpu = "h100"\n')
    ran = gemmgen("explain", path, "--candidate", "block=256x256x64", "--candidate", "stages=8")
    assert ran.code == 2 and "C10" in ran.err and "shared_bytes <= shared_bytes_per_block" in ran.err
    assert gemmgen("explain", path, "--candidate", "block=128x64x32").code == 0
    assert "unknown setting" in gemmgen("explain", path, "--candidate", "blocks=1").err
    assert "KEY=VALUE" in gemmgen("explain", path, "--candidate", "stages=many").err


def test_explain_tells_what_each_policy_would_take():
    explanation = explain(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": "h100"}}))
    assert set(explanation.weighed) == {"wgmma", "mma"}
    assert explanation.numbers["seconds"] == min(explanation.weighed.values()) == explanation.weighed[explanation.plan.fragment.policy]
    assert "weighed" in text(explanation) and "weighed" not in text(explain(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}})))


@pytest.mark.parametrize(("data", "told"), [
    ({"problem": {"m": 2, "n": 1048576}, "tile": {"block": [24, 1, 64]}, "target": {"gpu": "jetson_thor"}}, "block m is not a whole number of warps"),
    ({"problem": {"m": 256, "n": 1048576}, "tile": {"block": [128, 1, 64]}, "target": {"gpu": "b200"}}, "warp n"),
])
def test_a_tile_of_one_column_on_tensor_memory_is_refused_by_its_own_reason(data, told):
    """Half of a column is no warp."""
    with pytest.raises(InfeasibleSpec, match=told):
        solve(loads(data | {"split": {"scheme": "ootomo"}}))


def test_a_batch_beyond_all_integers_ends_in_a_plan_or_a_refusal():
    """Its wavefronts are more than 64 bits hold."""
    problem = {"kind": "grouped", "n": 2**31 - 1, "k": 100, "matrices": 2**31 - 1, "layout": "tt"}
    assert solve(loads({"problem": problem, "split": {"scheme": "egemm"}, "target": {"gpu": "rx9060xt"}})).kind.name == "grouped"


@pytest.mark.parametrize("data", [
    {"problem": {"m": 33, "n": 17, "k": 2}, "accuracy": {"as": "tf32"}, "tile": {"split_k": 2}, "target": {"gpu": "b200"}},
    {"problem": {"m": 512, "n": 129, "k": 7, "matrices": 2}, "accuracy": {"as": "fp32-rounded"}, "target": {"gpu": "gb300"}},
    {"problem": {"m": 7, "n": 9, "k": 2, "kind": "trsm"}, "accuracy": {"scaled": 1e-4}, "target": {"gpu": "gb200"}},
])
def test_an_error_is_asked_of_sums_that_end_before_a_scale_may_change(data):
    """Scales of runs of k need an interval beyond one instruction's k, which the design hides no shorter sum behind: the least one is tried."""
    try:
        assert solve(loads(data))
    except GemmgenError as error:
        assert_typed(error)


@pytest.mark.parametrize("asked", [{"accuracy": {"as": "fp32"}, "target": {"gpu": "t4"}}, {"split": {"scheme": "ootomo"}, "target": {"gpu": "h100"}}], ids=["error", "scheme"])
def test_the_candidates_are_freed_with_the_solution(asked):
    """At once, and not when Python looks for cycles: those of all schemes of one GPU take gigabytes."""
    loaded = loads(asked | {"tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}})
    gc.collect()
    gc.disable()
    try:
        explain(loaded)
        assert not [one for one in gc.get_objects() if isinstance(one, solving._Solution)]
    finally:
        gc.enable()


def test_what_fits_small_warps_alone_is_no_refusal():
    """64 stages of the usual blocks take 128 KiB and more of an A100's 163 KiB for each 32 x 32 of C."""
    plan = solve(spec(split={"scheme": "ootomo"}, target={"gpu": "a100"}, pipeline={"stages": 64}))
    assert plan.stages == 64 and min(plan.warp[:2]) == 16


@dataclass(frozen=True)
class Asked:
    small: bool = False

    def __getitem__(self, name: str) -> None:
        return None


@pytest.mark.parametrize(("feasible", "required", "small", "looked_at"), [
    # Warps of small products are looked at last, unless something is required that no others reach, or nothing else fits; then once.
    ({False, True}, (), False, [("wanted", False), ("sparing", False), ("certain", False), ("spilling", False), ("wanted", True)]),
    ({False, True}, ("it",), False, [("wanted", False), ("sparing", False), ("certain", False), ("spilling", False), ("wanted", True)]),
    ({True}, ("it",), False, [("wanted", False), ("wanted", True), ("sparing", False), ("certain", False), ("spilling", False), ("wanted", True)]),
    ({True}, ("it",), True, [("wanted", True), ("sparing", True), ("certain", True), ("spilling", True)]),
    ({True}, (), False, [("wanted", False), ("sparing", False), ("certain", False), ("spilling", False), ("wanted", True), ("wanted", True)]),
    (set(), (), False, [(held, small) for small in (False, True) for held in ("wanted", "sparing", "certain", "spilling")]),
])
def test_spaces_are_searched_from_the_narrowest(feasible, required, small, looked_at, monkeypatch):
    seen = []

    def enumerate_space(design, choices, fixed, fragment, registers, constraints):
        assert constraints[len(constraints) - len(required) :] == required
        held = constraints[: len(constraints) - len(required)]
        seen.append(({("steers", "holds"): "wanted", ("holds",): "sparing", (False,): "certain", (True,): "spilling"}[held], choices.small))
        refusal = SimpleNamespace(refusal=lambda *given: InfeasibleSpec("tile", "does not fit" if choices.small == small else "of small warps"))
        return SimpleNamespace(feasible=choices.small in feasible, of=seen[-1], nearest=None, broken=refusal)

    monkeypatch.setattr(solving.search, "enumerate_space", enumerate_space)
    design = SimpleNamespace(constraints=("steers", "holds"), steering=("steers",), certain=lambda spills: (spills,))
    request = SimpleNamespace(
        constants={}, design=design, choices=Asked(small), required=required, fragment=None, gpu=SimpleNamespace(registers=None),
        loaded=SimpleNamespace(spec=SimpleNamespace(build=SimpleNamespace(allow_spills=True)), place="here"), plan=lambda nearest: SimpleNamespace(numbers={}),
    )
    wanted = [one for one in looked_at if one[1] in feasible]
    with nullcontext() if wanted else pytest.raises(InfeasibleSpec, match="does not fit"):
        assert [space.of for space in solving._spaces(request)] == wanted
    assert seen == looked_at
