"""What a refusal tells to type is what helps: the remedy by hand, and the spec with it is not refused for the same again."""

from __future__ import annotations

import copy
import re
import tomllib

import pytest

from gemmgen.errors import GemmgenError, InfeasibleSpec
from gemmgen.solve import solve
from gemmgen.spec import loads


def asked(block=None, warp=None, gpu="a100", split=None, **sections):
    tile = ({"block": block} if block else {}) | ({"warp": warp} if warp else {})
    return {"target": {"gpu": gpu}, "split": {"scheme": "ootomo"} | (split or {}), **({"tile": tile} if tile else {}), **sections}


def wgmma(block=None, warp=None, **more):
    return asked(block, warp, gpu="h100", fragment={"policy": "wgmma"}, **more)


def thin(block, warp):
    return asked(block, warp, split={"scheme": "fp32"}, pipeline={"design": "thin", "stages": 3})


def straight(block, warp, **more):
    return asked(block, warp, pipeline={"design": "straight"}, **more)


LANE, PREPASS = {"where": "lane"}, {"where": "prepass"}
TILED, RESIDUES = ({"scheme": scheme, "promote": 0} for scheme in ("mixpert1_tile", "residues6"))
ASKED = {
    "a warp below a fragment": (asked([128, 128, 32], [8, 32, 32]), "warp m = 16"),
    "a warp below fragments that come in pairs": (asked([128, 128, 32], [32, 8, 32]), "warp n = 16"),
    "a warp between two fragments, mfma": (asked([128, 128, 32], [48, 32, 32], gpu="mi300x"), "warp m = 32"),
    "a warp between two fragments, wgmma": (wgmma([128, 100, 64], [64, 100, 64]), "warp n = 96"),
    "a block below its warps' m": (asked([32, 128, 32], [64, 32, 32]), "block m = 64"),
    "a block below its warps' n": (asked([128, 32, 32], [32, 64, 32]), "block n = 64"),
    "a block between its warps' n": (asked([128, 96, 32], [32, 64, 32]), "block n = 64"),
    "promotion between instructions": (asked([128, 128, 32], [32, 32, 32], split={"promote": 100}), "promote = 96"),
    "promotion of less than one": (asked([128, 128, 32], [32, 32, 32], split={"promote": 3}), "promote = 16"),
    "stages": (asked([128, 128, 32], [64, 32, 32], split=PREPASS, pipeline={"stages": 8}), "stages <= 5, or block k = 16"),
    "stages of the least k": (asked([256, 256, 16], [64, 64, 16], split={"where": "prepass", "promote": 0}, pipeline={"stages": 8}), "stages <= 5"),
    "two stages": (asked([256, 256, 64], [64, 64, 64], gpu="t4", split=PREPASS, pipeline={"stages": 2}), "a smaller block, or block k = 32"),
    "sums that move at once": (asked([128, 128, 32], [64, 32, 32], split={"sums": "compensated", "promote": 16}), 'promote = 32, or sums = "plain"'),
    "an odd number of steps": (
        asked([128, 128, 16], [32, 32, 16], pipeline={"fragment_buffers": 2}), "block k = 32, or fragment_buffers = 1",
    ),
    "a piece of no stage": (asked([128, 128, 64], [64, 32, 48]), "warp = [64, 32, 64], or k = 16"),
    "copies that the GPU lacks": (asked([128, 128, 32], [64, 32, 32], gpu="t4", pipeline={"loads": "async"}), 'loads = "spread"'),
    "copies that the GPU lacks, to split behind": (
        asked([128, 128, 32], [64, 32, 32], gpu="t4", split={"where": "register"}, pipeline={"loads": "async"}),
        'loads = "spread", where = "shared" or "prepass"',
    ),
    "a tile in registers, and three stages": (
        asked([128, 128, 32], [64, 32, 32], split=PREPASS, pipeline={"loads": "spread", "stages": 3}), 'stages = 2, or loads = "async"',
    ),
    "the same, split on the way": (asked([128, 128, 32], [64, 32, 32], split={"where": "shared"}, pipeline={"loads": "spread", "stages": 3}), "stages = 2"),
    "one stage of copies": (asked([128, 128, 32], [64, 32, 32], pipeline={"loads": "async", "stages": 1}), 'loads = "spread", or stages = 2'),
    "one stage, AMD": (asked([128, 128, 32], [64, 32, 32], gpu="mi300x", pipeline={"stages": 1}), "stages = 2"),
    "one stage, wgmma": (
        wgmma([128, 128, 64], [64, 128, 64], pipeline={"stages": 1}), 'stages = 2, or policy = "mma" with loads = "spread", whose next tile waits in registers',
    ),
    "loads that are waited for": (
        asked([128, 128, 32], [64, 32, 32], pipeline={"loads": "waited", "fragment_buffers": 2}), 'fragment_buffers = 1, or loads = "grouped"',
    ),
    "sums in shared memory that are promoted": (
        asked([128, 128, 32], [64, 32, 32], pipeline={"fragment_caching": "none"}, split={"promote": 32}), 'promote = 0, or fragment_caching = "sums"',
    ),
    "lanes: parts of a stage": (asked([32, 32, 48], [32, 32, 32], split=LANE), "warp k = 16, block k = 48"),
    "lanes: promotion": (asked([32, 32, 64], [32, 32, 32], split=LANE | {"promote": 48}), "promote = 64"),
    "lanes: promotion of less than a warp's k": (asked([32, 32, 64], [32, 32, 32], split=LANE | {"promote": 3}), "promote = 32"),
    "lanes: a warp between two fragments": (asked([32, 24, 64], [32, 12, 32], split=LANE), "warp n = 8"),
    "lanes: a warp below a fragment": (asked([32, 12, 64], [32, 4, 32], split=LANE), "warp n = 8"),
    "tensor memory: one instruction": (
        asked([256, 128, 64], [128, 128, 64], gpu="b200", fragment={"policy": "tcgen05"}), "block = [128, 128, 64], warp m = 128",
    ),
    "tensor memory: half of B": (
        asked(gpu="b200", fragment={"policy": "tcgen05"}, tile={"block": [128, 80, 64], "warp": [128, 80, 64], "cluster": 2}), "block n = 64, or cluster = 1",
    ),
    "tensor memory: more than a pair": (
        asked(gpu="b200", fragment={"policy": "tcgen05"}, tile={"block": [128, 128, 64], "warp": [128, 128, 64], "cluster": 4}), "cluster = 2",
    ),
    "FP32 in rows of no whole lines": (asked([64, 48, 32], [32, 16, 32], split={"where": "register"}), "block n = 64, or another split"),
    "a stage that no swizzle permutes": (asked([128, 128, 48], [64, 32, 48]), "block k = 32"),
    "half a tile of k": (asked([64, 64, 16], [32, 32, 16], gpu="t4", split=TILED), "block k = 32, or a fragment with fewer k"),
    "rows that no swizzle knows, wgmma": (wgmma([128, 128, 48], [64, 128, 48]), "block k = 64"),
    "words of two types, wgmma": (wgmma([128, 72, 64], [64, 72, 64], split={"scheme": "f16_s8"}), "warp n = 64"),
    "parts of a tile in turn": (
        wgmma([128, 128, 64], [64, 128, 64], pipeline={"consumers": "pingpong"}), 'warp = [128, 128, 64], or consumers = "cooperative"',
    ),
    "residues of a narrow warp": (wgmma([64, 16, 64], [64, 16, 64], split=RESIDUES), "warp n = 32"),
    "residues of a warp between two widths": (wgmma([64, 96, 64], [64, 48, 64], split=RESIDUES), "warp n = 32"),
    "sums beyond tensor memory": (
        asked([128, 256, 32], [128, 128, 32], gpu="b200", fragment={"policy": "tcgen05"}, split={"scheme": "f16x6"}), "block n <= 160",
    ),
    "lanes: stages": (asked([32, 32, 64], [32, 32, 32], split=LANE, pipeline={"stages": 9}), "stages = 8, or fewer"),
    "straight: parts of a stage": (straight([64, 64, 48], [32, 32, 32]), "warp k = 16, block k = 48"),
    "straight: warp n": (straight([64, 64, 32], [32, 20, 32]), "warp n = 16"),
    "straight: promotion": (straight([64, 64, 64], [32, 32, 32], split={"promote": 48}), "promote = 64"),
    "straight: sums": (straight([256, 256, 32], [64, 64, 16]), "a smaller block, or fewer warps that share its k"),
    "straight: threads": (straight([128, 128, 128], [32, 32, 32]), "larger warps or a smaller block"),
    "thin: lanes of a strided side": (thin([8, 64, 128], [8, 16, 128]), "32 there"),
    "thin: whole warps": (thin([8, 80, 128], [8, 32, 128]), "64 there"),
    "thin: steps on their way": (thin([8, 64, 128], [8, 32, 24]), "warp k = 32, block k = 128"),
}
SECTION = {"promote": "split", "sums": "split", "where": "split", "stages": "pipeline", "loads": "pipeline", "fragment_buffers": "pipeline", "cluster": "tile"}


def typed(data, refusal):
    """The spec with the first thing that a remedy says."""
    data, words = copy.deepcopy(data), refusal.remedy.split(", or ")[0]
    if " there" in words:
        place = "warp" if "[tile] warp" in refusal.where else "block"
        data["tile"][place][1] = int(words.split()[0])
    for name, axis, _, value in re.findall(r"(\w+)(?: ([mnk]))? (=|<=) (\[[^]]*\]|\"\w+\"|\d+)", words):
        value = tomllib.loads(f"x = {value}")["x"]
        if axis:
            extents = data["tile"][name]
            tied = name == "block" and axis == "k" and extents[2] == data["tile"]["warp"][2]
            for each in [extents, *([data["tile"]["warp"]] if tied else [])]:
                each["mnk".index(axis)] = value
        else:
            data.setdefault("tile" if name in ("block", "warp") else SECTION[name], {})[name] = value
    return data


@pytest.mark.parametrize(("data", "remedy"), ASKED.values(), ids=ASKED)
def test_a_remedy_helps(data, remedy):
    with pytest.raises(InfeasibleSpec) as caught:
        solve(loads(data))
    assert caught.value.remedy == remedy and caught.value.needs
    assert re.fullmatch(r"spec: \[[a-z]+\]( [a-z_]+)?", caught.value.where) and "[" not in caught.value.problem
    better = typed(data, caught.value)
    if "a smaller" not in remedy:
        assert better != data
        try:
            solve(loads(better))
        except InfeasibleSpec as other:
            assert (other.where, other.problem) != (caught.value.where, caught.value.problem), str(other)


SECTIONS = {"gpu": "target", "scheme": "split", "policy": "fragment"}


@pytest.mark.parametrize(("data", "remedy"), [
    (asked(split={"scheme": "e4m3x6"}), 'gpu = "b200", or scheme = "auto"'),
    (asked(gpu="mi300x", split={"scheme": "e4m3x6"}), 'gpu = "mi350x", or scheme = "auto"'),
    (asked(fragment={"policy": "wgmma"}), 'gpu = "gh200", or policy = "auto"'),
    (asked(gpu="mi355x", split={"scheme": "f16_s8"}), 'gpu = "gh200", or scheme = "auto"'),
    (asked(gpu="h100", split={"scheme": "f16_s8"}, fragment={"policy": "mma"}), 'policy = "auto", or scheme = "auto"'),
], ids=["words", "words, of the same vendor", "a policy", "words of several types", "the same, elsewhere on the GPU"])
def test_each_remedy_for_what_a_gpu_lacks_is_typed_and_solves(data, remedy):
    with pytest.raises(InfeasibleSpec) as caught:
        solve(loads(data))
    assert caught.value.remedy == remedy
    for key, value in re.findall(r'(\w+) = "(\w+)"', remedy):
        better = copy.deepcopy(data)
        better.setdefault(SECTIONS[key], {})[key] = value
        assert solve(loads(better))


@pytest.mark.parametrize(("data", "got", "needs", "has"), [
    (wgmma([128, 128, 64], [64, 128, 32]), "32", "64: a warp works through the whole stage", None),
    (asked([128, 128, 32], [64, 32, 32], split=PREPASS, pipeline={"stages": 8}), None, "262144 B = stages * ", "166912 B of shared memory a block"),
    (asked([128, 128, 32], [64, 32, 32], split={"promote": 100}), "100", "0, or a multiple of 16 that divides block k = 32", None),
    (asked([128, 128, 32], [64, 32, 32], split=PREPASS | {"sums": "compensated", "promote": 16}), "compensated, promote = 16", "an instruction's k, 16", None),
    (asked([128, 128, 32], [48, 32, 32], gpu="mi300x"), "48", "a multiple of 32 (", None),
    (asked([128, 96, 32], [32, 64, 32]), "96", "a multiple of warp n = 64", None),
])
def test_a_refusal_tells_the_numbers_that_are_wrong_and_needed(data, got, needs, has):
    with pytest.raises(InfeasibleSpec) as caught:
        solve(loads(data))
    told = caught.value
    assert (None if told.got is None else str(told.got), told.has) == (got, has) and needs in told.needs


@pytest.mark.parametrize(("data", "where", "problem"), [
    ({"target": {"gpu": "a100", "vendor": "amd"}}, "[target] vendor", "a100 is not amd's"),
    ({"target": {"gpu": "a100"}, "split": {"scheme": "ootomo"}, "accuracy": {"scaled": 1e-5}}, "[accuracy] scaled", "stands beside [split] scheme"),
    (asked(split={"scheme": "mixpert1", "promote": 64}), "[split] promote", "the sums of mixpert1 are integers"),
    (asked(split={"scheme": "mixpert1", "sums": "compensated"}), "[split] sums", "the sums of mixpert1 are integers"),
    (asked(split={"scheme": "fp32", "promote": 64}), "[split] promote", "the sums of fp32 are in FP32 registers already"),
    (asked(split={"scheme": "fp32", "sums": "compensated"}), "[split] sums", "the sums of fp32 are in FP32 registers already"),
    (asked(split={"scheme": "fp32"}, pipeline={"design": "thin", "loads": "async"}), "[pipeline] loads", "kernels of the thin design have no such pipeline"),
    (asked(gpu="t4", split={"scheme": "fp32"}, pipeline={"design": "thin"}), "[target] gpu", "the thin design copies past the registers"),
    (thin([24, 64, 128], [24, 32, 128]), "[tile] block", "no side of the tile is thin"),
    (thin([4, 64, 128], [2, 32, 128]), "[tile] warp", "warps divide the thin side of the tile"),
    (wgmma([256, 256, 64], [64, 64, 64]), "[tile]", "too many warpgroups in a block"),
    (asked([256, 256, 32], [16, 32, 32]), "[tile]", "too many threads in a block"),
])
def test_what_cannot_be_is_refused_where_it_is_said(data, where, problem):
    with pytest.raises(GemmgenError) as caught:
        solve(loads(data))
    assert caught.value.where == f"spec: {where}" and caught.value.problem.startswith(problem) and caught.value.needs and caught.value.remedy
