"""Kernels on tcgen05 compile for sm_100a, with the resources that were predicted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gemmgen.build import build
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.verify import Judge, tensor_columns
from ways import sampled, tailed


def tiled(n: int, group: int, k: int, cluster: int = 1) -> dict[str, Any]:
    return {"block": [128, n, k], "warp": [128, group, k], "cluster": cluster}


def compiled(**sections):
    plan = solve(loads({"fragment": {"policy": "tcgen05"}, "target": {"gpu": "b200"}} | sections))
    source = render(plan)
    return plan, source, build(source)


def assert_as_predicted(plan, source, binary):
    """Nothing spills; registers stay within the launch bound, and are at it where they move between warpgroups."""
    used = binary.kernels[source.name]
    assert binary.arch == "sm_100a"
    assert (used.spill_bytes, used.static_shared_bytes, used.stack_bytes) == (0, 0, 0)
    assert used.max_threads == (plan.threads, 1, 1)
    assert used.registers == plan.predicted_registers if plan.own.moving else used.registers <= plan.predicted_registers
    assert tensor_columns(binary) == plan.own.allocated
    check = Judge(plan, source, binary, None).resources()
    assert check.passed and f"{plan.own.allocated} columns" in check.detail
    assert plan.shared_bytes == plan.model["shared_bytes"] <= plan.gpu.limits.shared_bytes_per_block
    # Every product of a stage is one instruction, and every commit tells a barrier that somebody waits for.
    products = len(plan.scheme.products) * plan.geometry.k_steps
    text = binary.assembly.partition(f".entry {source.name}(")[2]
    assert len(re.findall(rf"cta_group::{plan.cluster}\b", text)) == len(re.findall(r"cta_group::", text)) > products
    assert len(re.findall(r"cp\.async\.bulk\.shared", text)) == (1 + len(plan.scheme.words_of("b")) if plan.cluster > 1 else 2)
    assert len(re.findall(r"tcgen05\.mma\.", text)) == products
    assert len(re.findall(r"tcgen05\.commit\.", text)) == 1 + plan.promotion.promote_chunks * bool(plan.own.moving) + bool(plan.own.staying)
    assert len(re.findall(r"tcgen05\.(?:alloc|dealloc|relinquish_alloc_permit)\.", text)) == 3
    loads_of_sums = len(re.findall(r"tcgen05\.ld\.", text))
    assert loads_of_sums == len(plan.scheme.accumulators) * plan.warp[1] // plan.own.unloaded == len(re.findall(r"tcgen05\.wait::ld\.", text))


SCHEMES = ["ootomo", "ootomo4", "legemm", "egemm", "markidis", "half", "bf16x3", "bf16x6", "tf32x3", "scaled", "e4m3x6"]


@pytest.mark.parametrize("scheme", tailed(SCHEMES, set(SCHEMES) - {"bf16x6", "scaled"}))
def test_every_scheme(scheme):
    assert_as_predicted(*compiled(split={"scheme": scheme}))


@pytest.mark.parametrize("layout", sampled(["tt", "nt", "tn"], 1))
def test_every_layout(layout):
    assert_as_predicted(*compiled(split={"scheme": "ootomo"}, problem={"layout": layout}))


@pytest.mark.parametrize("scheme, promote, tile", sampled([
    ("ootomo", 0, tiled(256, 128, 32)), ("ootomo", 0, tiled(128, 128, 32)), ("ootomo", 32, tiled(128, 128, 32)),
    ("ootomo", 64, tiled(128, 64, 64)), ("ootomo", 16, tiled(160, 80, 64)), ("ootomo", 256, tiled(64, 32, 32)),
    ("ootomo", 16, tiled(16, 16, 16)), ("ootomo", 32, tiled(240, 80, 32)), ("ootomo", 128, tiled(192, 96, 64)),
    ("tf32x3", 8, tiled(128, 128, 32)), ("tf32x3", 32, tiled(256, 128, 8)), ("tf32x3", 0, tiled(96, 48, 16)),
    ("bf16x3", 64, tiled(128, 128, 16)), ("bf16x6", 0, tiled(240, 80, 16)), ("scaled", 32, tiled(256, 128, 32)),
    ("scaled", 0, tiled(128, 128, 16)), ("half", 0, tiled(48, 48, 64)), ("ootomo4", 0, tiled(96, 48, 16)),
    ("ootomo", 32, tiled(256, 128, 32, 2)), ("ootomo", 16, tiled(160, 80, 64, 2)), ("ootomo", 256, tiled(64, 32, 32, 2)), ("scaled", 0, tiled(32, 32, 16, 2)),
    ("bf16x6", 0, tiled(192, 64, 16, 2)), ("tf32x3", 32, tiled(256, 128, 8, 2)), ("ootomo4", 0, tiled(96, 48, 64, 2)), ("half", 0, tiled(224, 112, 32, 2)),
], 3))
def test_tiles_and_promotion(scheme, promote, tile):
    assert_as_predicted(*compiled(split={"scheme": scheme, "promote": promote}, tile=tile))


@pytest.mark.parametrize("scheme, slices, tile", sampled([
    ("ootomo", 4, tiled(256, 128, 32)), ("ootomo", 3, tiled(128, 128, 32)), ("scaled", 2, tiled(256, 128, 32)), ("half", 8, tiled(64, 32, 64)),
    ("ootomo", 4, tiled(256, 128, 32, 2)),
], 1))
def test_slices_of_k(scheme, slices, tile):
    assert_as_predicted(*compiled(split={"scheme": scheme}, tile=tile | {"split_k": slices}))


def test_without_repairs():
    assert_as_predicted(*compiled(split={"scheme": "ootomo", "special": "fast"}))


def test_the_shipped_spec():
    plan = solve(load(SPECS / "kernels" / "blackwell_b200.toml"))
    source = render(plan)
    assert_as_predicted(plan, source, build(source))


@pytest.mark.parametrize("scheme", sampled(["ootomo", "bf16x3", "tf32x3", "scaled", "fp32"], 2))
def test_consumer_blackwell_compiles_without(scheme):
    """sm_120 has no tensor memory: mma.sync and the portable design, and no feature of sm_120a."""
    plan = solve(loads({"split": {"scheme": scheme}, "target": {"gpu": "rtx5090"}}))
    assert plan.fragment.policy in ("mma", "fma") and plan.arch == "sm_120"
    binary = build(render(plan))
    assert all(kernel.spill_bytes == 0 for kernel in binary.kernels.values()) and "tcgen05" not in binary.assembly


@pytest.mark.long
@pytest.mark.parametrize("scheme, layout, tile", [
    ("residues6", "nn", tiled(256, 128, 128, 2)), ("residues7", "tt", tiled(128, 128, 128)), ("residues8", "nt", tiled(192, 64, 128, 2)),
    ("residues9", "tn", tiled(48, 48, 32)), ("residues12", "nn", tiled(224, 112, 128, 2)), ("residues14", "tt", tiled(256, 128, 64)),
    ("residues16", "nt", tiled(256, 128, 128, 2)),
])
def test_residues(scheme, layout, tile):
    """One instruction for each 32 k of a stage, one load of sums, and two commits: of the buffer and of the stage."""
    element = "f64" if len(scheme) > 9 else "f32"
    plan, source, binary = compiled(split={"scheme": scheme}, problem={"layout": layout, "type": element}, tile=tile)
    used = binary.kernels[source.name]
    assert (used.spill_bytes, used.stack_bytes, used.registers, used.max_threads) == (0, 0, plan.predicted_registers, (plan.threads, 1, 1))
    assert tensor_columns(binary) == plan.own.allocated and Judge(plan, source, binary, None).resources().passed
    text = binary.assembly.partition(f".entry {source.name}(")[2]
    counts = [len(re.findall(rf"tcgen05\.{one}\.", text)) for one in ("mma", "commit", "ld", "wait::ld")]
    assert counts == [plan.block[2] // 32, 2, 1, 1] and text.count(f"cta_group::{plan.cluster}.kind::i8") == counts[0]
