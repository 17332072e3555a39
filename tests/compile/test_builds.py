"""Minimal specs build: a GPU, a scheme and a layout, all else left open. Equal sources are compiled once, by the cache."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from gemmgen.build import build, first_not_refused, first_that_builds
from gemmgen.cache import Cache
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import InfeasibleSpec
from gemmgen.render import render
from gemmgen.solve import choices, solve
from gemmgen.spec import loads
from ways import FP32_SCHEMES, SPLITTING, can_multiply, sampled, shipped, solved, tailed

FILE = Path(__file__).parents[2] / "bench" / "builds.py"
if not FILE.exists():
    pytest.skip("no bench/ in this distribution", allow_module_level=True)
_SPEC = importlib.util.spec_from_file_location("builds", FILE)
builds = importlib.util.module_from_spec(_SPEC)
sys.modules["builds"] = builds
_SPEC.loader.exec_module(builds)



def check(gpu: str, scheme: str, layout: str, size: int = 4096) -> list[str]:
    """It builds without spills, or the GPU cannot multiply such words; what was passed over."""
    loaded = builds.minimal(gpu, scheme, layout, size)
    if not can_multiply(gpu, scheme):
        with pytest.raises(InfeasibleSpec) as caught:
            solve(loaded)
        assert caught.value.needs and caught.value.remedy and any(section in caught.value.where for section in ("[fragment]", "[split] scheme"))
        return []
    built = first_that_builds(loaded)
    assert not any(used.spill_bytes for used in built.binary.kernels.values())
    assert built.plan.scheme.name == scheme and built.plan.layout == layout
    return [str(refusal) for refusal in built.refused]


@pytest.mark.parametrize(("gpu", "scheme", "layout", "size", "passed"), sampled([
    ("rtx3090", "ootomo", "nn", 4096, 1), ("a40", "legemm", "nn", 4096, 1), ("jetson_agx_orin", "ootomo8", "nn", 4096, 1),
    ("l40s", "tf32x3", "nn", 4096, 3), ("l4", "tf32x3", "nt", 4096, 1), ("rtx4090", "markidis", "nn", 4096, 0),
    ("rx7900xtx", "bf16x6", "nn", 1024, 1), ("rx7900xtx", "half", "nn", 1024, 1), ("jetson_agx_orin", "scaled_f16x6", "tn", 4096, 0),
], 4), ids=lambda value: Path(value).stem if isinstance(value, str) else str(value))
def test_what_the_compiler_was_seen_to_refuse_has_a_next_choice(gpu, scheme, layout, size, passed):
    """
    Args:
        passed: choices that the compilers at hand refuse at least, so that the way past a refusal is really taken.
    """
    assert len(check(gpu, scheme, layout, size)) >= passed


@pytest.mark.long
@pytest.mark.parametrize(("gpu", "scheme"), [("b300", "residues6"), ("rtx5080", "residues9")])
def test_what_is_kept_of_residues_leaves_room_for_their_sums(gpu, scheme):
    """64 sums of a thread, two registers for each: the first choice builds."""
    assert check(gpu, scheme, "nn") == []


IN_SHORT = [("h200", "e4m3x6", "nn", 4096), ("h200", "mixpert4_tile", "tn", 4096), ("h200", "mixpert2_tile", "nn", 8192)]
"""What was seen to spill: a split pass of FP8 words, and sums that nearly fill the registers."""


@pytest.mark.parametrize(("gpu", "scheme", "layout", "size"), [*IN_SHORT, *(
    pytest.param(gpu, scheme, layout, 4096, marks=pytest.mark.long)
    for gpu in ("h200", "a100", "mi300x") for scheme in SPLITTING for layout in builds.LAYOUTS if (gpu, scheme, layout, 4096) not in IN_SHORT
)])
def test_the_first_choice_of_the_model_builds(gpu, scheme, layout, size):
    """On the GPUs that this is developed for; `build` refuses what spills."""
    if can_multiply(gpu, scheme):
        build(render(solve(builds.minimal(gpu, scheme, layout, size))))


SHIPPED = shipped()


@pytest.mark.parametrize("name", tailed(SHIPPED, SHIPPED.keys() - {"e4m3x6_h200", "mixpert4_tile_h200"}))
def test_a_shipped_spec_builds(name):
    """Its first choice, without spills but where it allows them: what is shipped was looked at."""
    build(render(solved(SHIPPED[name])))


@pytest.mark.long
def test_a_batch_by_strides_leaves_registers_for_the_choice_of_its_tile():
    plan = solve(loads({
        "problem": {"kind": "strided"}, "split": {"scheme": "ootomo"}, "batch": {"walk": "workgroups"}, "pipeline": {"design": "grouped"},
        "target": {"gpu": "h100"},
    }))
    build(render(plan))


@pytest.mark.parametrize("layout", sampled(["nt", "nn", "tn", "tt"], 1))
def test_a_strided_batch_that_splits_a_builds(layout):
    """Its first choice: the warpgroup that copies has registers for the addresses of a batch while it counts."""
    build(render(solve(loads({
        "problem": {"kind": "strided", "layout": layout, "m": 1024, "n": 1024, "k": 256, "matrices": 256}, "split": {"scheme": "ootomo", "where": "mixed"},
        "target": {"gpu": "h100"},
    }))))


SYSTEMS = [("left", "tn", "nonunit", "lower")]
"""What was seen to spill, for sm_86 to sm_89 and, of complex FP64, RDNA, whatever the products' tile."""
ALL_SYSTEMS = [(side, layout, diag, uplo) for side, layout in (("left", "nn"), ("left", "tn"), ("right", "nn"), ("right", "nt"))
               for diag in ("nonunit", "unit") for uplo in ("lower", "upper")]


@pytest.mark.parametrize(("gpu", "element", "systems"), [
    ("l40s", "f32", SYSTEMS), ("rx9070xt", "c128", SYSTEMS), *(pytest.param(gpu, "f32", ALL_SYSTEMS, marks=pytest.mark.long) for gpu in (
        "t4", "a100", "a40", "l40s", "h200", "b200", "rtx5090", "rx7900xtx", "rx9070xt")),
    *(pytest.param(gpu, "c128", ALL_SYSTEMS, marks=pytest.mark.long) for gpu in ("a100", "h200", "mi300x", "rx7900xtx", "rx9070xt")),
], ids=lambda value: value if isinstance(value, str) else str(len(value)))
def test_blocks_of_a_triangular_system_are_solved_without_spills(gpu, element, systems):
    products = {"split": {"scheme": "half", "promote": 0}, "tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}} if element == "f32" else {
        "split": {"scheme": "residues14"}, "tile": {"block": [64, 64, 64]}}
    for side, layout, diag, uplo in systems:
        binary = build(render(solve(loads(products | {
            "problem": {"kind": "trsm", "side": side, "layout": layout, "diag": diag, "uplo": uplo, "type": element}, "target": {"gpu": gpu},
        }))))
        assert not any(used.spill_bytes for used in binary.kernels.values()), (side, layout, diag, uplo)


def test_a_batch_whose_tiles_spill_takes_smaller_ones():
    """The tiles are open; the same ones said in the spec build, too."""
    batch = {"problem": {"kind": "grouped"}, "split": {"scheme": "bf16x6"}, "target": {"gpu": "rx7900xtx"}}
    built = first_that_builds(loads(batch))
    assert built.refused and not any(used.spill_bytes for used in built.binary.kernels.values())
    said = [[one.m, one.n, one.k, one.threads] for one in built.plan.batch.tiles]
    assert solve(loads(batch | {"batch": {"tiles": said}})).batch == built.plan.batch


@pytest.mark.parametrize("k", [32, 64])
def test_a_small_product_of_the_portable_design_builds(k):
    built = first_that_builds(loads({
        "problem": {"m": 1024, "n": 1024, "k": k}, "split": {"scheme": "ootomo"}, "fragment": {"policy": "mma"}, "target": {"gpu": "h100"},
        "pipeline": {"design": "portable"},
    }))
    assert built.refused and built.plan.fragment.policy == "mma" and not any(used.spill_bytes for used in built.binary.kernels.values())


def test_a_refusal_is_remembered_by_the_cache(monkeypatch, tmp_path):
    """The next run compiles nothing; who compiles nothing knows, too; and a damaged entry is none."""
    loaded, cache = loads({
        "split": {"scheme": "ootomo", "where": "prepass"}, "tile": {"group": 8, "split_k": 1}, "target": {"gpu": "rtx3090"},
    }), Cache(tmp_path)
    assert first_not_refused(loaded, cache=cache).plan == solve(loaded)
    built = first_that_builds(loaded, cache=cache)
    [refused] = built.refused
    assert refused.plan == solve(loaded) == next(choices(loaded)) and not built.binary.from_cache

    def never(*arguments):
        raise AssertionError("compiled")

    monkeypatch.setattr("gemmgen.build.cuda._make", never)
    again = first_that_builds(loaded, cache=cache)
    assert again.binary.from_cache and (again.plan, [str(one) for one in again.refused]) == (built.plan, [str(refused)])
    planned = first_not_refused(loaded, cache=cache)
    assert planned.plan == built.plan and [str(one) for one in planned.refused] == [str(refused)]
    entries = [path for path in (tmp_path / "binaries").rglob("*") if path.is_file()]
    assert len(entries) == 2
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-1])
    assert first_not_refused(loaded, cache=cache) == first_not_refused(loaded, cache=Cache(tmp_path / "empty"))
    assert first_not_refused(loaded, cache=cache).plan == refused.plan


@pytest.mark.long
@pytest.mark.parametrize("layout", builds.LAYOUTS)
@pytest.mark.parametrize("scheme", SPLITTING)
@pytest.mark.parametrize("gpu", GPUS.names())
def test_every_gpu_scheme_and_layout_builds_or_cannot_multiply(gpu, scheme, layout):
    check(gpu, scheme, layout)


def test_the_table_tells_outcomes():
    """A line a GPU, and one a scheme that was passed over."""
    refusal = {"kernel": "x", "block": [128, 96, 32], "warp": [32, 48, 32], "where": "prepass"}
    refusal["has"] = "255 registers a thread, 28 B of spill stores, a stack of 32 B"
    row = {"gpu": "g", "scheme": "s", "size": 4096, "kernel": "k", "spilled": 0, "slower": 0.0}
    told = builds.table([
        {**row, "layout": "nn", "passed_over": []}, {**row, "layout": "nt", "passed_over": [refusal], "slower": 0.034},
        {**row, "layout": "tt", "passed_over": [refusal], "slower": 0.034},
        {"gpu": "h", "scheme": "s", "size": 4096, "layout": "nn", "refused": {"error": "InfeasibleSpec", "problem": "no such words"}},
    ])
    assert "| g | 1 | 2 |  | 3 |" in told and "| h |  |  | 1 | 1 |" in told and "| all | 1 | 2 | 1 | 4 |" in told
    assert "| g | s (nt tt) | 4096 | 2 | 128x96x32, warp 32x48, prepass: 255 registers a thread, 28 B of spill stores | +3.4 % |" in told
    assert "- 1 x InfeasibleSpec: no such words" in told and "seconds" not in told


def test_shares_of_several_machines_are_all_combinations_and_their_files_are_one(tmp_path, capsys, monkeypatch):
    """A line that is half written does not count, of a combination that stands twice the last does, and what is in a file is not done again."""
    whole = builds.combinations(("h200", "a40"), ("nn", "tt"), (64, 128))
    shares = [builds.combinations(("h200", "a40"), ("nn", "tt"), (64, 128), part, 3) for part in (1, 2, 3)]
    assert sorted(sum(shares, [])) == sorted(set(whole)) and len(whole) == 8 * sum(not row.b for row in FP32_SCHEMES)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1 and all({gpu for gpu, *_ in share} == {"h200", "a40"} for share in shares)
    lines = [builds.json.dumps(dict(zip(builds.KEYS, builds.named(one))) | {"passed_over": [], "took": 0.5}) for one in (whole[0], whole[1], whole[0])]
    (tmp_path / "a").write_text(lines[0] + "\n" + lines[1][:-9])
    (tmp_path / "b").write_text("\n".join(lines[1:]).replace("0.5", "2"))
    assert sorted(row["took"] for row in builds.read([tmp_path / "a", tmp_path / "b"])) == [2, 2]
    monkeypatch.setattr(sys, "argv", ["builds.py", str(tmp_path / "a"), str(tmp_path / "b"), "--table"])
    builds.main()
    assert "| all | 2 | 2 |" in (told := capsys.readouterr().out) and "2 combinations took 4 s of processes, each 2.00 s, one 2 s." in told
    monkeypatch.setattr(builds, "outcome", lambda loaded: {"passed_over": []})  # which the forked processes have, too
    made = [str(tmp_path / "new"), "--jobs", "2", "--gpus", "t4", "--layouts", "nn", "--sizes", "128", "--part"]
    for part in ("1/20", "1/20", "2/20"):
        monkeypatch.setattr(sys, "argv", ["builds.py", *made, part])
        builds.main()
    assert [row["gpu"] for row in builds.read([tmp_path / "new"])] == ["t4"] * 4 and len((tmp_path / "new").read_text().splitlines()) == 4
    monkeypatch.setattr(sys, "argv", ["builds.py", *made, "0/20"])
    with pytest.raises(SystemExit):
        builds.main()
