"""Where the compiler refuses the model's choice for its spills, the next one is taken, and the refusal told. No compiler: a stand-in refuses."""

from __future__ import annotations

import json
import re
from itertools import islice
from types import SimpleNamespace

import pytest

from gemmgen.build import choice, reference
from gemmgen.build.binary import Binary
from gemmgen.cache import Cache
from gemmgen.build.choice import TRIES, explained, first_not_refused, first_that_builds
from gemmgen.build.cubin import CubinResources
from gemmgen.cli.output import Progress
from gemmgen.designs import portable
from gemmgen.designs.portable.design import PREDICTED
from gemmgen.errors import BuildError, ResourceError
from gemmgen.naming import kernel_name
from gemmgen.render import render
from gemmgen.solve import MOST_OF_A_WAY, alternatives, choices, explain, search, solve
from gemmgen.spec import load, loads
from gemmgen.workshop.bench.racers import racers

FIXED = {
    "tile": {"block": [128, 128, 32], "warp": [64, 32, 32], "group": 8, "split_k": 1},
    "pipeline": {"stages": 3, "fragment_buffers": 2, "loads": "async"}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 128},
    "fragment": {"policy": "mma"}, "target": {"gpu": "rtx3090"},
}


def minimal(gpu="rtx3090", **sections):
    return loads({"target": {"gpu": gpu}, "split": {"scheme": "ootomo"}, **sections})


def quick(gpu="rtx3090"):
    """The same choices first, from a smaller space."""
    return minimal(gpu, split={"scheme": "ootomo", "where": "prepass"}, tile={"group": 8, "split_k": 1})


def first(loaded, count):
    return list(islice(choices(loaded), count))


def telling(plan):
    return (plan.fragment.policy, plan.block, plan.warp, plan.where, plan.loads, plan.stages, plan.fragment_buffers, plan.consumers)


class Compiler:
    """Refuses the kernels that it is told to, and counts what it is asked.

    Attributes:
        kept: names of what was compiled, as the cache holds it; marked: of what was refused.
    """

    def __init__(self, monkeypatch, refuses):
        self.refuses, self.compiled, self.kept, self.marked = refuses, [], set(), set()
        monkeypatch.setattr(choice, "build", self)
        monkeypatch.setattr(choice, "USER_CACHE", SimpleNamespace(is_marked_refused=self.marked.__contains__))

    def __call__(self, source, *, cache=None, only_kept=False):
        if only_kept and source.name not in self.kept:
            raise BuildError(source.file_name, "was not built before")
        if not only_kept:
            self.compiled.append((source.name, source.arch))
            self.kept.add(source.name)
        if self.refuses(source):
            self.marked.add(source.name)
            raise ResourceError(
                source.file_name, f"spills registers to memory on {source.arch}", needs="0 B", has="255 registers a thread, 28 B", remedy="less",
            )
        used = CubinResources(
            registers=128, static_shared_bytes=0, stack_bytes=0, code_bytes=8, spill_store_bytes=0, spill_load_bytes=0, barriers=1, constant_bytes=0,
            max_threads=None,
        )
        return Binary(
            arch=source.arch, code=b"code", assembly="assembly", kernels={launch.symbol: used for launch in source.launches}, compiler="a compiler",
            log="", key="0" * 64, source_name=source.file_name, from_cache=False, seconds=0.0,
        )


def refusing(count):
    """Refuses so many different kernels."""
    seen = []

    def refuses(source):
        if source.name not in seen:
            seen.append(source.name)
        return seen.index(source.name) < count

    return refuses


# ---- the choices


@pytest.mark.slow
@pytest.mark.parametrize("loaded", [
    minimal(), minimal("h100"), minimal("mi300x"), minimal("t4"), minimal("b200"), minimal("a100", split={"scheme": "fp32"}),
    minimal("h100", fragment={"policy": "mma"}, problem={"m": 1024, "n": 1024, "k": 32}, tile={"group": 1, "split_k": 1}),
], ids=["rtx3090", "h100", "mi300x", "t4", "b200", "fp32", "small"])
def test_choices_begin_with_the_models_own_and_never_repeat(loaded):
    plans = first(loaded, 12)
    assert plans[0] == solve(loaded) and len(plans) == 12
    assert len({telling(plan) for plan in plans}) == 12
    assert plans == first(loaded, 12)
    assert {plan.scheme.name for plan in plans} == {plans[0].scheme.name}


def test_what_the_demand_for_registers_rests_on_changes_first():
    """Another number of stages would spill as the first did: it comes only when nothing else is left."""
    plans = first(minimal(), TRIES)
    known = [plan.model for plan in plans]
    assert len({tuple(one[name] for name in portable.DESIGN.of_registers) for one in known}) == TRIES
    tile = first(minimal(tile={"block": [128, 96, 32], "warp": [32, 48, 32]}, split={"scheme": "ootomo", "where": "prepass"}), TRIES)
    assert {plan.warp for plan in tile} == {(32, 48, 32)} and [plan.fragment_buffers for plan in tile[:2]] == [2, 1]
    assert len({plan.stages for plan in tile}) > 1


def test_the_last_choices_are_smaller_warps_that_fit_the_registers():
    """Of tiles of k on a T4 all usual warps are predicted to spill; some are taken all the same, since the model errs, and then those that fit."""
    found = list(islice(choices(loads({"target": {"gpu": "t4"}, "split": {"scheme": "mixpert2_tile"}})), 400))
    fits = [plan.model["demand"] <= plan.model["register_budget"] for plan in found]
    usual = fits.index(True)
    assert usual > 1 and all(fits[usual:])
    assert max(plan.warp[0] * plan.warp[1] for plan in found[usual:]) < min(plan.warp[0] * plan.warp[1] for plan in found[:usual])


def test_choices_come_by_predicted_time():
    """But for those that the model cannot tell apart, and but for a way that was refused as often as to be doubted: it waits for the others."""
    plans = first(minimal(), 12)
    ways = [plan.where for plan in plans]
    for where in set(ways):
        seconds = [plan.model["seconds"] for plan in plans if plan.where == where]
        assert all(earlier <= later * (1 + search.TIE) for earlier, later in zip(seconds, seconds[1:]))
    assert set(ways[:3]) != set(ways) and all(ways[:9].count(where) == MOST_OF_A_WAY for where in set(ways))


def test_both_policies_of_a_gpu_take_part():
    """Whichever is predicted faster comes first, whatever was refused before."""
    small = first(minimal("h100", problem={"m": 1024, "n": 1024, "k": 1024}, tile={"group": 1, "split_k": 1, "cluster": 1}), 40)
    assert {plan.fragment.policy for plan in small} == {"mma", "wgmma"}


@pytest.mark.parametrize("fixed", [
    {"tile": {"block": [128, 128, 32]}}, {"tile": {"warp": [64, 32, 32]}}, {"pipeline": {"stages": 3, "fragment_buffers": 1}},
    {"split": {"scheme": "ootomo", "where": "shared"}},
])
def test_what_the_spec_fixes_stays_fixed(fixed):
    for plan in first(minimal(**fixed), 12):
        for section in fixed.values():
            for key, value in section.items():
                assert (plan.scheme.name if key == "scheme" else getattr(plan, key)) == (tuple(value) if isinstance(value, list) else value)


def test_a_spec_that_leaves_nothing_of_it_open_has_one_choice():
    assert first(loads(FIXED), 3) == [solve(loads(FIXED))]
    open_group = {**FIXED, "tile": {**FIXED["tile"], "group": "auto", "split_k": "auto"}}
    assert first(loads(open_group), 3) == [solve(loads(open_group))]


def test_when_nothing_is_left_that_is_predicted_to_fit_the_rest_is_tried():
    """A warp tile whose kernels are mostly predicted to spill: those that are come last."""
    loaded = minimal("h100", tile={"block": [128, 128, 32], "warp": [64, 32, 32], "group": 1, "split_k": 1}, fragment={"policy": "mma"})
    plans = list(choices(loaded))
    spilling = [plan for plan in plans if not all(one.holds(plan.model) for one in PREDICTED)]
    assert 0 < len(spilling) < len(plans) and plans == sorted(plans, key=lambda plan: plan in spilling)


def test_an_explanation_is_of_the_choice_that_is_asked_for():
    loaded = quick()
    plans, (best, drawn) = first(loaded, 3), alternatives(loaded, 2, 1)
    for at, plan in enumerate(plans):
        told = explain(loaded, at)
        assert told.plan == plan and told.best[0].decided.items() >= plan.decided.items()
    assert best[0] == plans[0] and drawn
    with pytest.raises(IndexError, match="no more than 1"):
        explain(loads(FIXED), 1)


# ---- the first that builds


def test_the_first_that_builds_is_taken_and_the_refusals_told(monkeypatch):
    loaded, steps = quick(), []
    compiler = Compiler(monkeypatch, refusing(2))
    built = first_that_builds(loaded, progress=steps.append)
    plans = first(loaded, 3)
    assert built.plan == plans[2] and built.binary.kernels[built.source.name].registers == 128
    assert [one.plan for one in built.refused] == plans[:2] and len(compiler.compiled) == 3
    assert steps[:2] == ["decide", "compile"] and steps[2].startswith("compile choice 2") and len(steps) == 4
    told = built.refused[0].as_dict()
    assert told["kernel"] != built.source.name and told["block"] == [128, 96, 32] and "28 B" in told["has"]
    assert "block 128x96x32, warp 32x48x32" in str(built.refused[0]) and "28 B" in str(built.refused[0])


def test_what_builds_at_once_is_as_before(monkeypatch):
    compiler = Compiler(monkeypatch, lambda source: False)
    built = first_that_builds(quick())
    assert (built.plan, built.refused, built.others) == (solve(quick()), (), ()) and len(compiler.compiled) == 1


def test_tries_are_bounded_and_the_refusal_lists_them(monkeypatch):
    compiler = Compiler(monkeypatch, lambda source: True)
    with pytest.raises(ResourceError) as caught:
        first_that_builds(quick())
    error = caught.value
    tried = len(compiler.compiled)
    assert TRIES // 2 < tried <= TRIES and tried == error.has.count("28 B") and str(tried) in error.problem
    tiles = [int(m) * int(n) for m, n in re.findall(r"warp (\d+)x(\d+)x", error.has)]
    assert len(tiles) == tried and all(tile < min(tiles[:at]) for at, tile in enumerate(tiles) if at >= TRIES // 2)
    assert error.where and error.needs and error.remedy and error.exit_code == 1


def test_the_refusal_of_a_fixed_tile_stands(monkeypatch):
    compiler = Compiler(monkeypatch, lambda source: True)
    with pytest.raises(ResourceError, match="spills registers to memory on sm_86") as caught:
        first_that_builds(loads(FIXED))
    assert len(compiler.compiled) == 1 and caught.value.where.startswith("gemmgen_ootomo")


def grouped(**sections):
    return minimal("rx7900xtx", problem={"kind": "grouped"}, **sections)


@pytest.mark.parametrize(("loaded", "largest"), [
    (grouped(), ["64x64x32", "32x64x32", "32x32x32"]),
    (minimal("h100", problem={"kind": "grouped"}), ["64x64x32", "32x64x32", "32x32x32", "16x32x64"]),
    (grouped(split={"scheme": "fp32"}), ["64x64x16", "32x64x16", "32x32x16", "16x32x16", "16x16x16"]),
    (grouped(batch={"tiles": [[64, 64, 32, 128]]}), ["64x64x32"]),
], ids=["no parts of 16x32", "all parts", "lanes", "tiles of the spec"])
def test_a_batch_whose_tiles_are_open_takes_smaller_ones(monkeypatch, loaded, largest):
    """Each choice has the smaller tiles of the one before, and its own largest decides the block; what the spec says stays."""
    plans = list(choices(loaded))
    assert [plan.batch.tiles[-1].name.split(" ")[0] for plan in plans] == largest and plans[0] == solve(loaded)
    for plan in plans:
        tiles = [(one.m, one.n) for one in plan.batch.tiles]
        assert tiles == sorted(set(tiles)) and plan.block[:2] == tiles[-1] and plan.warp[:2] == plan.batch.tiles[-1].warp
    if len(plans) > 1:
        assert [one.batch.walk for one in plans] == ["persistent"] * len(plans) and set(plans[1].batch.tiles[:-1]) <= set(plans[0].batch.tiles)
        assert len(plans[1].batch.tiles) > 1
        Compiler(monkeypatch, refusing(1))
        built = first_that_builds(loaded)
        assert built.plan == plans[1] and [one.plan for one in built.refused] == plans[:1]


@pytest.mark.parametrize("loaded", [loads(FIXED), quick()], ids=["fixed", "open"])
def test_the_compilers_that_accept_what_this_one_refuses_are_told(monkeypatch, loaded):
    """As the reference set recorded them, the oldest first, of the model's first choice."""
    names = [render(plan).name for plan in first(loaded, 1)]
    monkeypatch.setattr(reference, "_record", lambda: {names[0]: {"NVRTC 13.5": True, "NVRTC 9.2": True, "NVRTC 13.0": False}, "another": {"NVRTC 1.0": True}})
    Compiler(monkeypatch, lambda source: True)
    with pytest.raises(ResourceError) as refused:
        first_that_builds(loaded)
    assert refused.value.remedy.endswith(f"; or GEMMGEN_NVRTC=.../libnvrtc.so of another NVRTC: NVRTC 9.2, NVRTC 13.5 accept {names[0]}")
    monkeypatch.setattr(reference, "_record", dict)
    with pytest.raises(ResourceError) as refused:
        first_that_builds(loaded)
    assert "GEMMGEN_NVRTC" not in refused.value.remedy


@pytest.mark.parametrize(("loaded", "where"), [(grouped(), "spec: [batch] tiles"), (grouped(batch={"tiles": [[64, 64, 32, 128]]}), "gemmgen_ootomo")])
def test_where_no_tiles_of_a_batch_build_the_remedy_is_one_that_a_batch_has(monkeypatch, loaded, where):
    Compiler(monkeypatch, lambda source: True)
    with pytest.raises(ResourceError) as caught:
        first_that_builds(loaded)
    error = caught.value
    assert error.where.startswith(where) and error.needs and error.has
    assert error.remedy == "[batch] tiles with a smaller last one, or [build] allow_spills = true"
    assert error.__cause__ is None or (error.__cause__.remedy, error.__cause__.has) == ("less", error.has)  # the compiler's own error stays as it was


def test_other_errors_of_a_compiler_end_the_search(monkeypatch):
    def broken(source, **options):
        raise BuildError(source.file_name, "is not CUDA")

    monkeypatch.setattr(choice, "build", broken)
    with pytest.raises(BuildError, match="not CUDA"):
        first_that_builds(quick())


def test_a_choice_must_build_for_every_architecture(monkeypatch):
    """One that builds for the first alone is passed over."""
    own = solve(quick("mi210")).hash
    Compiler(monkeypatch, lambda source: source.arch == "gfx942" and own in source.name)
    built = first_that_builds(quick("mi210"), archs=lambda plan: [plan.arch, "gfx942"])
    assert built.plan.hash != own and [built.binary.arch, *(other.arch for other in built.others)] == ["gfx90a", "gfx942"]
    assert "gfx942" in built.refused[0].error.problem


# ---- where nothing is compiled


def test_what_was_refused_before_is_passed_over_without_a_compiler(monkeypatch):
    loaded, plans = quick(), first(quick(), 3)
    compiler = Compiler(monkeypatch, refusing(2))
    assert first_not_refused(loaded).plan == plans[0] and not first_not_refused(loaded).refused
    assert explained(loaded)[0].plan == plans[0]
    first_that_builds(loaded)
    compiled = list(compiler.compiled)
    planned = first_not_refused(loaded)
    explanation, refused = explained(loaded)
    assert planned.plan == explanation.plan == plans[2] and [one.plan for one in planned.refused] == [one.plan for one in refused] == plans[:2]
    assert compiler.compiled == compiled


def test_an_explanation_renders_nothing_where_no_build_was_refused(monkeypatch, tmp_path):
    """Which would take a third of its time."""
    rendered, cache = [], Cache(tmp_path)
    monkeypatch.setattr(choice, "render", lambda plan: rendered.append(plan) or render(plan))
    loaded = loads(FIXED)
    plan = explained(loaded, cache=cache)[0].plan
    assert rendered == []
    cache.mark_refused(kernel_name(plan))
    assert explained(loaded, cache=cache)[1] == () and rendered == [plan], "no entry says so"


@pytest.mark.parametrize("loaded", [quick(), loads(FIXED)], ids=["open", "fixed"])
def test_where_all_is_refused_the_models_own_is_shown(monkeypatch, loaded):
    Compiler(monkeypatch, lambda source: True)
    monkeypatch.setattr(choice, "TRIES", 4)
    with pytest.raises(ResourceError):
        first_that_builds(loaded)
    planned, (explanation, refused) = first_not_refused(loaded), explained(loaded)
    assert planned.plan == explanation.plan == solve(loaded) == planned.refused[0].plan and refused


# ---- who tells it


@pytest.fixture
def spec(write_spec):
    return write_spec('[split]\nscheme = "ootomo"\nwhere = "prepass"\n[tile]\ngroup = 8\nsplit_k = 1\n[target]\ngpu = "rtx3090"\n')


def test_build_and_export_tell_it(gemmgen, monkeypatch, spec, tmp_path):
    kernel = solve(load(spec)).hash
    Compiler(monkeypatch, lambda source: kernel in source.name)
    ran = gemmgen("build", spec, "-o", tmp_path / "out")
    assert ran.code == 0 and "refused    block 128x96x32, warp 32x48x32" in ran.out and "28 B" in ran.out
    [refused] = json.loads(gemmgen("build", spec, "-o", tmp_path / "out", "--json").out)["refused"]
    assert kernel in refused["kernel"]
    ran = gemmgen("export", spec, "-o", tmp_path / "ex", "--name", "one")
    assert ran.code == 0 and "refused    block 128x96x32" in ran.out
    assert json.loads((tmp_path / "ex" / "manifest.json").read_text())["refused"] == [refused]


def test_verify_tells_it(gemmgen, monkeypatch, spec):
    from gemmgen.errors import NotEmulated

    kernel = solve(load(spec)).hash
    Compiler(monkeypatch, lambda source: kernel in source.name)

    def nothing_runs(*arguments):
        raise NotEmulated("emulator", "knows no such instruction")

    monkeypatch.setattr("gemmgen.run.open_device", nothing_runs)
    ran = gemmgen("verify", spec, "--quiet")
    assert "refused    block 128x96x32, warp 32x48x32" in ran.out, ran
    assert kernel in json.loads(gemmgen("verify", spec, "--json").out)["refused"][0]["kernel"]


@pytest.mark.slow
def test_render_and_explain_tell_what_is_remembered(gemmgen, monkeypatch, spec, tmp_path):
    own = solve(load(spec)).hash
    compiler = Compiler(monkeypatch, lambda source: own in source.name)
    before = gemmgen("build", "--source", spec)
    assert own in before.out and not before.err and "refused" not in gemmgen("explain", spec).out
    assert "refused" not in json.loads(gemmgen("build", "--source", spec, "--json").out)
    first_that_builds(load(spec))
    compiled = list(compiler.compiled)
    ran = gemmgen("build", "--source", spec)
    assert own not in ran.out and "passed over, since the compiler refused it before: block 128x96x32" in ran.err
    assert own in json.loads(gemmgen("build", "--source", spec, "--json").out)["refused"][0]["kernel"]
    told = gemmgen("explain", spec)
    assert told.out.startswith("refused    block 128x96x32") and f"kernel     {json.loads(gemmgen('render', spec, '--json').out)['kernel']}" in told.out
    assert own in json.loads(gemmgen("explain", spec, "--json").out)["refused"][0]["kernel"]
    assert gemmgen("explain", spec, "--latex").out.startswith("% refused    block 128x96x32")
    assert compiler.compiled == compiled


def test_a_race_notes_it(monkeypatch, spec):
    own = solve(load(spec)).hash
    Compiler(monkeypatch, lambda source: own in source.name)
    [kernel], [note] = racers([spec], [], False, Progress("bench", quiet=True))
    assert own not in kernel.source.name and note.startswith("spec: passed over: block 128x96x32")
