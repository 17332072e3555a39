"""Random specs, and what each must end in: a verified kernel, or a typed refusal."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gemmgen.batch import TLPS, WALKS
from gemmgen.build import first_that_builds
from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import INPUTS
from gemmgen.catalog.output import all_outputs
from gemmgen.catalog.policy import NAMES, UNAVAILABLE
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.designs import all_decisions, all_designs
from gemmgen.errors import GemmgenError, InfeasibleSpec, ResourceError, SpecError, UnknownName
from gemmgen.kinds import all_kinds, kind_called
from gemmgen.render import render
from gemmgen.run import emulated
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.verify import Judge, oracles
from ways import AMD, NVIDIA, SPLITTING

SEED = int(os.environ.get("GEMMGEN_SEED", "0"))
"""Where the sequences begin."""


def examples(each: int, shards: int = 1) -> int:
    """How many a shard draws: its part of GEMMGEN_EXAMPLES, or as many as it usually does."""
    asked = int(os.environ.get("GEMMGEN_EXAMPLES", "0"))
    return -(-asked // shards) or each


def mostly(usual, odd):
    """Values that tend to fit, and now and then some that do not; 5, since Hypothesis likes the ends of a range."""
    return st.integers(0, 9).flatmap(lambda pick: odd if pick == 5 else usual)


depths = mostly(st.sampled_from([16, 32, 64, 128]), st.sampled_from([8, 48, 256]))


@st.composite
def specs(draw, sides=(16, 32, 48, 64), gpus=NVIDIA, schemes=tuple(SPLITTING)):
    """Specs that fix everything a search would fill; about half of them are impossible.

    Args:
        sides: of warps that tend to fit.
        schemes: of which each has one.
    """
    extents = mostly(st.sampled_from(sides), st.integers(1, 300))
    depth = draw(depths)
    warp = (draw(extents), draw(extents))
    whole = tuple(side * draw(st.integers(1, 3)) for side in warp)
    block = draw(mostly(st.just(whole), st.tuples(extents, extents)))
    gpu, scheme = draw(st.sampled_from(gpus)), draw(st.sampled_from(schemes))
    unit = scheme != "fp32"
    where = draw(st.sampled_from(["prepass", "prepass", "shared", "register" if unit else "shared"]))
    fitting = "grouped" if gpu in AMD else "async" if where == "register" or (where == "prepass" and gpu != "t4") else "spread" if unit else "grouped"
    return {
        "problem": {
            "layout": draw(st.sampled_from(["nn", "nt", "tn", "tt"])),
            "m": draw(st.integers(0, 1 << 20)), "n": draw(st.integers(0, 1 << 20)), "k": draw(st.integers(0, 1 << 20)),
        },
        "split": {
            "scheme": scheme, "where": where,
            "promote": draw(mostly(st.sampled_from([0, depth, 2 * depth, 128, 256] if unit else [0]), st.integers(0, 1 << 20))),
            "special": draw(st.sampled_from(["exact", "fast"])),
        },
        "fragment": {"policy": draw(mostly(st.just("auto"), st.sampled_from(["mma", "wmma", "fma"])))},
        "tile": {
            "block": [*block, depth], "warp": [*warp, draw(mostly(st.just(depth), depths))], "group": draw(st.integers(1, 64)),
            "split_k": draw(mostly(st.just(1), st.integers(2, 9))),
        },
        "pipeline": {
            "loads": draw(mostly(st.just(fitting), st.sampled_from(["async", "spread", "grouped"]))),
            "stages": draw(mostly(st.integers(2, 4) if fitting == "async" or gpu in AMD else st.just(2), st.integers(2, 64))),
            "fragment_buffers": draw(st.integers(1, 2)),
        },
        "target": {"gpu": gpu},
    }


BULK_GPUS = tuple(gpu.name for gpu in GPUS.rows() if any(row.policy == "wgmma" and row.runs_on(gpu.arch) for row in FRAGMENTS.rows()))


@st.composite
def straight_specs(draw):
    """Specs of the straight design that fix everything; most of them fit."""
    side = mostly(st.sampled_from([16, 32, 64]), st.sampled_from([8, 24, 48]))
    wm, wn, wk = draw(side), draw(mostly(st.sampled_from([8, 16, 32]), st.sampled_from([24, 12, 64]))), draw(st.sampled_from([16, 32, 64]))
    counts = draw(st.tuples(st.integers(1, 2), st.integers(1, 3), st.sampled_from([1, 2, 4, 8])))
    return {
        "problem": {"layout": draw(st.sampled_from(["nn", "nt", "tn", "tt"])), "m": draw(st.integers(0, 300)), "n": draw(st.integers(0, 300)), "k": 300},
        "split": {"scheme": draw(st.sampled_from(["ootomo", "bf16x3", "tf32x3", "half"])), "where": "lane", "promote": draw(st.sampled_from([0, wk, 2 * wk]))},
        "fragment": {"policy": "mma"},
        "tile": {"block": [wm * counts[0], wn * counts[1], wk * counts[2]], "warp": [wm, wn, wk], "split_k": draw(st.integers(1, 3)), "group": 1},
        "pipeline": {"loads": "direct", "stages": draw(st.integers(2, 4))}, "target": {"gpu": draw(st.sampled_from(["a100", "h200", "rtx4090", "t4"]))},
        "build": {"allow_spills": True},
    }


@st.composite
def thin_specs(draw):
    """Likewise of the thin design."""
    layout, thin, stages = draw(st.sampled_from(["nn", "nt", "tn", "tt"])), draw(mostly(st.sampled_from([1, 2, 4, 8, 16]), st.just(12))), draw(st.integers(2, 4))
    rows, depth = draw(mostly(st.sampled_from([32, 64]), st.sampled_from([8, 12, 16]))), draw(mostly(st.sampled_from([32, 64]), st.just(24)))
    wide, turns, swapped = draw(st.integers(1, 4)), draw(st.sampled_from([1, 2, 4])), draw(st.booleans())
    block, warp = [(thin, rows * wide), (thin, rows)] if not swapped else [(rows * wide, thin), (rows, thin)]
    return {
        "problem": {"layout": layout, "m": draw(st.integers(0, 300)), "n": draw(st.integers(0, 300)), "k": 300},
        "split": {"scheme": "fp32", "where": "lane", "promote": 0},
        "tile": {"block": [*block, depth * stages * turns], "warp": [*warp, depth * stages], "split_k": draw(st.integers(1, 3)), "group": 1},
        "pipeline": {"loads": "streamed", "stages": stages}, "target": {"gpu": draw(st.sampled_from(["a100", "h200", "rtx4090", "b200"]))},
        "build": {"allow_spills": True},
    }


@st.composite
def bulk_specs(draw, gpus=BULK_GPUS, schemes=tuple(SPLITTING)):
    """Likewise, of the warp-specialised design; mostly for GPUs that have its instruction.

    Args:
        gpus: those that have it.
        schemes: of which each has one.
    """
    depth = draw(mostly(st.sampled_from([16, 32, 64]), st.sampled_from([8, 24, 128])))
    width = st.integers(1, 16).map(lambda count: 8 * count)
    warp = (draw(mostly(st.sampled_from([64, 64, 64, 128]), st.integers(1, 300))), draw(mostly(width, st.integers(1, 300))))
    consumers = draw(st.sampled_from(["cooperative", "pingpong"]))
    down, across = draw(mostly(st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 1)]), st.just((2, 2))))
    block = warp if consumers == "pingpong" else (down * warp[0], across * warp[1])
    where = draw(st.sampled_from(["prepass", "prepass", "mixed"]))
    return {
        "problem": {
            "layout": draw(st.sampled_from(["nn", "nt", "tn", "tt"])),
            "m": draw(st.integers(0, 1 << 20)), "n": draw(st.integers(0, 1 << 20)), "k": draw(st.integers(0, 1 << 20)),
        },
        "split": {
            "scheme": draw(st.sampled_from(schemes)), "where": draw(mostly(st.just(where), st.sampled_from(["shared", "register"]))),
            "promote": draw(mostly(st.sampled_from([0, 16, depth, 2 * depth, 256]), st.integers(0, 1 << 20))), "special": draw(st.sampled_from(["exact", "fast"])),
        },
        "fragment": {"policy": draw(mostly(st.just("wgmma"), st.sampled_from(["auto", "mma"])))},
        "tile": {
            "block": [*draw(mostly(st.just(block), st.just((block[0] + 8, block[1])))), depth],
            "warp": [*warp, draw(mostly(st.just(depth), depths))], "group": draw(st.integers(1, 64)),
            "split_k": draw(mostly(st.just(1), st.integers(2, 9))), "cluster": draw(st.sampled_from([1, 2, 4, 8])),
        },
        "pipeline": {
            "loads": draw(mostly(st.just("bulk"), st.sampled_from(["async", "spread"]))),
            "stages": draw(mostly(st.integers(2, 4), st.integers(2, 64))), "fragment_buffers": draw(mostly(st.just(1), st.just(2))),
            "consumers": consumers,
        },
        "target": {"gpu": draw(mostly(st.sampled_from(gpus), st.sampled_from(GPUS.names())))},
    }


@st.composite
def open_specs(draw, whole):
    """Specs that leave much of it to the search; seldom impossible.

    Args:
        whole: a strategy of specs that fix everything.
    """
    data = draw(whole)
    together = draw(st.integers(0, 9)) < 8  # a tile that is half open seldom goes with the rest
    size = st.sampled_from([1, 17, 64, 128, 300, 1024, 4096, 16384, 100003])
    kept = {
        section: {
            key: value for key, value in keys.items()
            if not (together and key in ("block", "warp", "loads", "where", "policy")) and draw(st.integers(0, 3)) == 0
        }
        for section, keys in data.items() if section not in ("problem", "target")
    }
    kept.setdefault("split", {})["scheme"] = draw(st.sampled_from([data["split"]["scheme"]] * 4 + ["auto"]))
    return {"problem": {"layout": data["problem"]["layout"], **{name: draw(size) for name in "mnk"}}, **kept, "target": data["target"]}


def assert_typed(refusal: GemmgenError) -> None:
    assert isinstance(refusal, InfeasibleSpec | SpecError | UnknownName), str(refusal)
    assert refusal.where and refusal.problem
    assert refusal.needs or refusal.has, str(refusal)
    assert refusal.remedy or not isinstance(refusal, InfeasibleSpec), str(refusal)


def plan_or_refusal(data):
    """The plan, or None where the spec was refused as it should be."""
    try:
        return solve(loads(data))
    except GemmgenError as refusal:
        assert_typed(refusal)
        return None


def random_plans(strategy, count: int) -> list:
    """Plans of `count` random specs, always the same ones."""
    found = []

    @settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def each(data):
        found.append(plan_or_refusal(data))

    each()
    return [plan for plan in found if plan]


@st.composite
def tensor_memory_specs(draw, schemes=SPLITTING):
    n, k = 32 * draw(st.integers(1, 8)), draw(st.sampled_from([16, 32, 64]))
    return {
        "problem": {"layout": draw(st.sampled_from(["nn", "tn", "tt"])), **{x: draw(st.integers(0, 1 << 20)) for x in "mnk"}},
        "split": {"scheme": draw(st.sampled_from(schemes)), "promote": draw(st.sampled_from([0, 16, k, 2 * k]))},
        "fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"},
        "tile": {
            "block": [128, n, k], "warp": [128, draw(st.sampled_from([n, n // 2])), k], "group": draw(st.integers(1, 64)),
            "split_k": draw(st.sampled_from([1, 1, 3])), "cluster": draw(st.sampled_from([1, 2])),
        },
        "pipeline": {"stages": draw(st.integers(2, 4))},
    }


def verified_or_refused(data, device_of) -> str:
    """`refused`, `spilled`, `verified`, or `compiled` where the emulator does not know the instruction; anything else is a failure.

    Args:
        device_of: called with plan, source and binary.
    """
    try:
        built = first_that_builds(loads(data))
    except ResourceError as refusal:
        assert refusal.needs and refusal.has and refusal.remedy, str(refusal)
        return "spilled"
    except GemmgenError as refusal:
        assert_typed(refusal)
        return "refused"
    plan, source, binary = built.plan, built.source, built.binary
    try:
        device = device_of(plan, source, binary)
        whole = judge = Judge(plan, source, binary, device)
        if plan.kind.solves:  # as `verify` asks its products
            plan, source = replace(plan, kind=plan.kind.between), replace(source, interface=source.interface.of_products)
            judge = Judge(plan, source, binary, device)
        permutation, uniform = oracles.permutation(plan), oracles.uniform(plan, -1, 1, (37, 29, 2 * plan.block[2] + 5), 1)
    except SpecError as refusal:  # what no emulator could ever answer
        assert_typed(refusal)
        return "refused"
    used = whole.resources()
    assert used.passed, used.detail
    if judge.device.kind == "emulator" and not emulated(plan):
        return "compiled"
    for check in (
        judge.bits("permutation", permutation), judge.accuracy("U[-1, 1]", uniform).check,
        *([judge.batch()] if plan.launches.repeated else []), *([judge.outliers()] if plan.fallback else []),
        *([] if whole.plan.kind.plain or whole.plan.kind.batched else [whole.whole()]),
    ):
        assert check.passed, f"{check.name}: {check.detail}"
    return "verified"


def check_many(count: int, seed: int, strategy, device_of) -> Counter:
    """What became of `count` random specs.

    Args:
        seed: another sequence for each.
    """
    outcomes: Counter = Counter()

    @settings(max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def each(data):
        outcomes[verified_or_refused(data, device_of)] += 1

    from hypothesis import seed as seeded

    seeded(seed)(each)()
    return outcomes




# ---- every key of a spec

_SIZES = (0, 1, 2, 7, 17, 33, 64, 100, 129, 300, 1000, 4096, 100003, 1 << 20, (1 << 31) - 1)
_EXTENTS = (1, 8, 16, 24, 32, 48, 64, 96, 128, 256)
_SCHEMES = tuple(SCHEMES.names())
_EXPRESSIONS = ("blocks_per_sm * intensity", "registers", "shared_bytes", "BM * BN", "1 / 0", "WM - WM", "tlp", "no_such_symbol")


def _triple(rng):
    return [rng.choice(_EXTENTS), rng.choice(_EXTENTS), rng.choice((8, 16, 32, 64, 128))]


def _tiles(rng):
    sides = sorted(rng.sample((16, 32, 64, 128), rng.randint(1, 3)))
    return [[side, side, rng.choice((16, 32, 64)), rng.choice((64, 128, 256))] for side in sides]


def _words(section: str, name: str) -> tuple[str, ...]:
    one = next(one for one in all_decisions() if (one.section, one.name) == (section, name))
    return ("auto", *(word.name for word in one.words))


def _any_of(*values):
    return lambda rng: rng.choice(values)


def _whole(low: int, high: int):
    return lambda rng: rng.randint(low, high)


def _cycles(rng):
    return round(rng.uniform(0.5, 200), 2)


DRAWN = {
    "problem.kind": (0.5, _any_of(*all_kinds())), "problem.layout": (0.7, _any_of("nn", "nt", "tn", "tt")), "problem.b": (0.1, _any_of(*INPUTS)),
    "problem.type": (0.1, _any_of(*ELEMENTS)),
    "problem.uplo": (0.05, _any_of("lower", "upper", "both")), "problem.side": (0.02, _any_of("left", "right")), "problem.diag": (0.02, _any_of("nonunit", "unit")),
    "problem.c": (0.1, _any_of(*all_outputs())), **{f"problem.{x}": (0.8, _any_of(*_SIZES)) for x in "mnk"},
    "problem.matrices": (0.2, _any_of(0, 1, 2, 64, 4096, (1 << 31) - 1)),
    "split.scheme": (0.8, _any_of("auto", *_SCHEMES)), "split.where": (0.2, lambda rng: rng.choice(_words("split", "where"))),
    "split.promote": (0.2, _any_of(0, 8, 16, 32, 64, 128, 256, 1 << 20)), "split.sums": (0.2, _any_of("auto", "plain", "compensated")), "split.run": (0.1, _any_of("auto", 256, 512, 1024, 2048)),
    "split.special": (0.4, _any_of("exact", "fast")), "split.fallback": (0.1, _any_of("none", "fp32", "tf32x3", "ootomo", "scaled")),
    "accuracy.relative_frobenius": (0.05, _any_of(1e-9, 1e-7, 1e-5, 1e-2)), "accuracy.scaled": (0.03, _any_of(1e-8, 1e-4)),
    "accuracy.reproducible": (0.02, _any_of(True, False)),
    "accuracy.as": (0.03, _any_of("fp32", "tf32", "fp32-rounded")), "accuracy.data": (0.05, _any_of("uniform", "positive", "normal", "spread")),
    "epilogue.do": (0.05, _any_of([], ["relu"], ["bias"], ["bias", "gelu"], ["bias_m", "relu"], ["scale"], ["gelu_tanh"], ["relu", "bias", "scale"])),
    "fragment.policy": (0.2, _any_of("auto", *NAMES, *UNAVAILABLE)), "fragment.shape": (0.05, _any_of("m16n8k16", "m16n8k8", "m16n16k16", "m64n64k16", "m9n9k9")),
    "tile.block": (0.15, _triple), "tile.warp": (0.15, _triple), "tile.group": (0.15, _whole(1, 64)), "tile.split_k": (0.2, _any_of(1, 1, 2, 3, 5, 64)),
    "tile.cluster": (0.1, _any_of(1, 2, 4, 8)), "pipeline.loads": (0.15, lambda rng: rng.choice(_words("pipeline", "loads"))),
    "pipeline.stages": (0.2, _any_of(1, 2, 3, 4, 6, 64)), "pipeline.fragment_buffers": (0.15, _whole(1, 2)),
    "pipeline.consumers": (0.1, lambda rng: rng.choice(_words("pipeline", "consumers"))),
    "pipeline.rows": (0.1, lambda rng: rng.choice(_words("pipeline", "rows"))),
    "pipeline.fragment_caching": (0.1, lambda rng: rng.choice(_words("pipeline", "fragment_caching"))),
    "pipeline.design": (0.1, _any_of("auto", *(one.name for one in all_designs()))),
    "batch.tiles": (0.05, _tiles), "batch.walk": (0.1, _any_of("auto", *WALKS)), "batch.tlp": (0.1, _any_of(*TLPS)), "batch.threshold": (0.1, _any_of(0, 1 << 30)),
    "target.vendor": (0.05, _any_of("auto", "nvidia", "amd")), "target.gpu": (1.0, _any_of(*GPUS.names())),
    "solve.model": (0.1, _any_of("time", "egemm", "legemm")), **{f"solve.egemm.{x}": (0.03, _cycles) for x in ("T_HMMA", "T_LDG128", "T_STS128", "T_LDS32")},
    **{f"solve.{model}.{x}": (0.02, _any_of(1024, 65536, 1 << 24)) for model in ("egemm", "legemm") for x in ("register_bytes", "shared_bytes")},
    "solve.egemm.warps": (0.03, _whole(1, 32)), "solve.legemm.threads": (0.03, _any_of(32, 100, 256, 1024)), "solve.legemm.threshold": (0.03, _any_of(0, 1 << 20)),
    "solve.maximize": (0.05, _any_of(*_EXPRESSIONS)), "solve.minimize": (0.05, _any_of(*_EXPRESSIONS)),
    "solve.require": (0.05, lambda rng: [rng.choice(("registers <= 128", "blocks_per_sm >= 2", "BM >= 64", "K < 0", "stages * BK <= 96"))]),
    "build.allow_spills": (0.1, _any_of(True, False)), "verify.require": (0.1, _any_of("scheme", "fp32")),
}
"""How often a key is drawn, and its value; `tests/unit/test_property.py` holds that these are all keys of the schema."""


def any_spec(number: int) -> dict:
    """The spec of that number: a few keys, any of them, of which most go together."""
    rng = Random(number)
    keys = 0.3 if rng.random() < 0.6 else 1.0  # many keys at once are mostly refused
    data: dict = {}
    for key, (share, drawn) in DRAWN.items():
        if rng.random() < share * (keys if share <= 0.2 else 1):
            *sections, name = key.split(".")
            at = data
            for section in sections:
                at = at.setdefault(section, {})
            at[name] = drawn(rng)
    scheme = data.get("split", {}).get("scheme", "auto")
    if scheme != "auto" and rng.random() < 0.9:
        data.setdefault("problem", {})["b"] = SCHEMES.get(scheme).b or "f32"
    problem = data.get("problem", {})
    if "kind" in problem and rng.random() < 0.9:
        _fit(problem, rng)
    models = [name for name in ("egemm", "legemm") if name in data.get("solve", {})]
    if models and rng.random() < 0.9:
        data["solve"]["model"] = models[0]
        for name in (*models[1:], "maximize", "minimize"):
            data["solve"].pop(name, None)
    if "accuracy" in data and rng.random() < 0.9:
        data.get("split", {}).pop("scheme", None)
    return data


def _fit(problem: dict, rng: Random) -> None:
    """What a kind has and asks for: its layouts, its choices, and extents that are one; else nearly every spec of most kinds is refused for these."""
    kind = kind_called(problem["kind"])
    for choice in ("uplo", "side", "diag"):
        if choice not in kind.options:
            problem.pop(choice, None)
    kind = kind.of(SimpleNamespace(type=problem.get("type", "f32"), **{choice: problem.get(choice) for choice in ("uplo", "side", "diag")}))
    problem["layout"] = rng.choice(kind.layouts)
    for extent, other in kind.aliases.items():
        if extent in "mnk":
            problem[extent] = problem.setdefault(other, rng.choice(_SIZES))
    if kind.solves:
        problem.pop("matrices", None)


def planned_or_refused(data) -> str:
    """`planned`, where there is a plan and a text of it, or `refused`; anything else is a failure."""
    try:
        render(solve(loads(data)))
    except GemmgenError as refusal:
        assert_typed(refusal)
        return "refused"
    return "planned"
