"""Exponents of tiles of k, and rows that stand out: the language, the reference, estimates and the fallback's plan."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from ways import plan_of

from gemmgen import abi
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import OFFSET, SCHEMES, Scheme
from gemmgen.emulate.core.product import product
from gemmgen.errors import InfeasibleSpec
from gemmgen.model.accuracy import DISTRIBUTIONS, predicted
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.solve.fallback import with_fallback
from gemmgen.spec import loads
from gemmgen.split import split, stands_out
from gemmgen.verify import Judge, fixed

LEVEL_4 = SCHEMES.get("mixpert4_tile")
UNIT = GPUS.get("a100").unit


@pytest.mark.parametrize(("name", "change", "says"), [
    ("mixpert4", {"tile_k": 32}, 'tile_k with normalize = "tile"'), ("mixpert4", {"normalize": "tile"}, 'tile_k with normalize = "tile"'),
    ("mixpert4_tile", {"tile_k": 64}, "32"), ("ootomo", {"normalize": "tile", "tile_k": 32}, "no integers"), ("mixpert4", {"normalize": "none"}, '"tile"'),
])
def test_a_scheme_that_cannot_be(name, change, says):
    row = SCHEMES.get(name).model_dump(mode="json", exclude_none=True) | change
    with pytest.raises(ValueError, match=says):
        Scheme.model_validate(row, strict=False)


def test_a_tiles_number_is_its_sums_whatever_they_are():
    """What stands in the bits of sums that begin at the offset, and each rounding at most half a place of what there is so far."""
    rng = np.random.default_rng(1)
    sums = {acc.name: rng.integers(-(2**20), 2**20, 1000) for acc in LEVEL_4.accumulators}
    bits = {name: (own + OFFSET).astype(np.float32) for name, own in sums.items()}
    assert all(np.array_equal(bits[name].view(np.int32), own + np.float32(OFFSET).view(np.int32)) for name, own in sums.items())
    number = LEVEL_4.family.moved.number(
        {name: own.astype(np.float64) for name, own in bits.items()}, lambda so_far, factor, own: so_far + factor * own, lambda own, offset: own - offset,
    )
    assert np.array_equal(number, sum(own * 2.0**-LEVEL_4.accumulator(name).scale for name, own in sums.items()))
    assert np.float32(LEVEL_4.family.moved.least) == LEVEL_4.family.moved.least == int(LEVEL_4.family.moved.least)


@pytest.mark.parametrize("name", ["mixpert1_tile", "mixpert4_tile", "mixpert_full_tile"])
@pytest.mark.parametrize("data", ["uniform", "normal", "spread"])
def test_the_estimate_is_what_the_unit_shows(name, data):
    rng = np.random.default_rng(2)
    a, b = (DISTRIBUTIONS[data].draw(rng, shape).astype(np.float32) for shape in ((40, 512), (512, 40)))
    exact = a.astype(np.float64) @ b
    scheme = SCHEMES.get(name)
    shown = np.linalg.norm(product(scheme, UNIT, a, b, fragment_k=32) - exact) / np.linalg.norm(exact)
    assert 1 / 1.3 < predicted(scheme, UNIT, 512, 0, DISTRIBUTIONS[data]).estimate / shown < 1.5
    assert 1 / 1.3 < fixed.error_norm(scheme, a, b, exact) / np.linalg.norm(exact) / shown < 1.7
    assert fixed.error_norm(scheme, a, 8 * b, 8 * exact) == 8 * fixed.error_norm(scheme, a, b, exact) == fixed.error_norm(scheme, 8 * a, b, 8 * exact)


def test_every_tile_has_the_scale_of_its_own_largest():
    """Rows of every magnitude, with a tile of subnormal numbers and one of zeros: what words leave is at most half a last place of the tile's."""
    x = np.random.default_rng(3).uniform(-1, 1, (7, 100)).astype(np.float32)
    x[:, 32:64] *= np.exp2(np.array([-140, -100, -30, 0, 30, 90, 120]))[:, None].astype(np.float32)
    x[1, 64:96] = 0
    words = split(x, LEVEL_4, operand="a")
    assert words.exponents.shape == (7, 4)
    held = sum(plane * 2.0**-word.scale for plane, word in zip(words.planes, words.words))
    left = np.abs(np.ldexp(held, -np.repeat(words.exponents, 32, axis=1)[:, :100]) - x)
    for tile in range(4):
        part = slice(32 * tile, 32 * tile + 32)
        assert (left[:, part].max(axis=1) <= np.abs(x[:, part]).max(axis=1) * 2.0**-20).all()


def rows(**of: np.ndarray) -> np.ndarray:
    return np.stack(list(of.values())).astype(np.float32)


def test_rows_that_stand_out():
    rng = np.random.default_rng(4)
    even = rng.uniform(-1, 1, 2000)
    one = np.where(np.arange(2000) == 700, 1000.0, even)
    lone = np.where(np.arange(2000) == 700, 1000.0, 0.0)
    x = rows(
        even=even, normal=rng.standard_normal(2000), spread=DISTRIBUTIONS["spread"].draw(rng, (2000,)), zeros=np.zeros(2000), lone=lone,
        one=one, tiny=one * 2.0**-140, huge=one * 2.0**115, infinite=np.where(lone, np.inf, one),
    )
    found = stands_out(split(x, SCHEMES.get("mixpert4"), operand="a"), x)
    assert found.tolist() == [False] * 5 + [True] * 3 + [False]


def test_the_fallbacks_tiles_are_parts_of_the_main_kernels():
    plan = plan_of(
        gpu="h200", scheme="mixpert4", fallback="tf32x3", promote=0, fragment={"policy": "wgmma"}, tile={"block": [64, 96, 64], "warp": [64, 96, 64]})
    other = plan.fallback
    assert [plan.block[axis] % other.block[axis] for axis in (0, 1)] == [0, 0] and other.flagged == plan.block[:2]
    assert plan.promote == 0 < other.promote  # integers have nothing to promote, and the fallback's words have, whatever the spec says of those
    assert [launch.role for launch in abi.interface(plan).launches] == ["absmax", "split", "flags", "gemm", "fallback"]
    assert not any(launch.overlaps for launch in abi.interface(plan).launches)  # multiplying warps read flags that no barrier of theirs waits for
    assert plan.hash != plan_of(
        gpu="h200", scheme="mixpert4", promote=0, fragment={"policy": "wgmma"}, tile={"block": [64, 96, 64], "warp": [64, 96, 64]}).hash


def test_a_fallback_has_the_first_tile_that_fits():
    """Refused choices, clusters and slices of k are passed over; where nothing is left, the first refusal is told."""
    told = {"target": {"gpu": "h200"}, "split": {"scheme": "mixpert4", "fallback": "tf32x3"}, "tile": {"block": [64, 96, 64], "warp": [64, 96, 64]}}
    loaded, asked = loads(told | {"fragment": {"policy": "wgmma"}}), []
    plan = solve(loaded)
    right = plan.fallback

    def offered(*choices):
        """In turn; none is a refusal, and so is what follows."""
        left = iter(choices)

        def found(of):
            asked.append(of.spec.tile.block)
            if choice := next(left, None):
                return choice
            raise InfeasibleSpec("spec", f"refusal {len(asked)}")

        return found

    found = with_fallback(loaded, plan, offered(None, replace(right, split_k=2), replace(right, cluster=2), right))
    assert found == plan and asked == [(64, 96, 32), (64, 96, 16), (64, 48, 32), (32, 96, 32)]
    asked.clear()
    with pytest.raises(InfeasibleSpec, match="no kernel of tf32x3 has tiles that fit into 64x96") as refused:
        with_fallback(loaded, plan, offered(None, replace(right, split_k=2)))
    assert refused.value.got == "refusal 1" and len(asked) > 20


def test_a_fallback_reads_its_operands_twice_and_is_checked_as_a_kernel_of_its_own():
    """Which rows stand out is told by a launch of its own, so that no single pass over whole rows serves; the report tells both kernels' resources."""
    tile = {"block": [64, 96, 64], "warp": [64, 96, 64]}
    plan = plan_of(gpu="h200", scheme="mixpert4", fallback="tf32x3", promote=0, fragment={"policy": "wgmma"}, tile=tile)
    alone = plan_of(gpu="h200", scheme="mixpert4", promote=0, fragment={"policy": "wgmma"}, tile=tile)
    assert alone.launches.splits_whole and alone.model["split_passes"] == 1 and plan.model["split_passes"] == 2
    source = render(plan)
    used = {launch.symbol: SimpleNamespace(registers=64, static_shared_bytes=0, spill_bytes=0) for launch in source.launches}
    used[source.launches[-1].symbol].static_shared_bytes = plan.fallback.shared_bytes if plan.fallback.geometry.static_shared else 0
    judge = Judge(plan, source, SimpleNamespace(kernels=used, assembly=""), None)
    assert judge.resources().passed and f"fallback: 64 registers (predicted {plan.fallback.predicted_registers})" in judge.resources().detail
    used[source.launches[-1].symbol].static_shared_bytes += 16
    assert not judge.resources().passed


@pytest.mark.parametrize("asked", [dict(scheme="ootomo", fallback="fp32"), dict(scheme="mixpert4_tile", fallback="fp32", promote=0),
                                   dict(scheme="mixpert1", fallback="scaled", promote=0)])
def test_a_fallback_that_cannot_be(asked):
    with pytest.raises(InfeasibleSpec, match="fallback"):
        plan_of(tile={"block": [64, 64, 32], "warp": [32, 32, 32]}, **asked)


@pytest.mark.parametrize(("asked", "sets"), [
    (dict(promote=64), 3), (dict(promote=0), 2), (dict(scheme="mixpert4", promote=0), 4), (dict(scheme="mixpert4_tile", promote=0), 1),
    (dict(scheme="mixpert1_tile", promote=0, gpu="t4"), 4),
])
def test_what_a_thread_holds(asked, sets):
    """Of tiles of k one sum in FP32, where an instruction's k is the tile's; else the integers of two instructions beside it."""
    assert plan_of(tile={"block": [64, 64, 32], "warp": [32, 32, 32]}, **asked).geometry.accumulator_sets == sets


@pytest.mark.parametrize("name", ["mixpert1_tile", "mixpert_full_tile"])
def test_each_sum_but_the_first_is_added_with_a_rounding(name):
    """Also one that no offset of FP32 could hold beside the others, and that is added apart."""
    scheme = SCHEMES.get(name)
    moved = scheme.family.moved
    assert moved.roundings == len(scheme.accumulators) - 1 and bool(moved.apart) == (name == "mixpert_full_tile")
