"""Kernel names: two plans never share one, and a name reads back."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from ways import SPLITTING, can_multiply, covering

from gemmgen.catalog.gpu import GPUS
from gemmgen.designs import all_designs
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import SpecError
from gemmgen.naming import kernel_name, parse_name
from gemmgen.paths import SPECS
from gemmgen.plan import Hints
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import load, loads


def plan_for(scheme: str = "ootomo", gpu: str = "a100", **sections):
    return solve(loads({"split": {"scheme": scheme}, "target": {"gpu": gpu}, **sections}))


def test_three_decisions_go_unsaid_where_they_are_as_usual():
    assert {one.name for design in all_designs() for one in design.decisions if one.quiet} == {"sums", "rows", "fragment_caching"}


def plans(step: int):
    """Every `step`th of tens of thousands of plans, each of which differs from many others in one decision only."""
    base = plan_for()
    return (replace(base, **decisions) for decisions in itertools.islice(every_decision(), 0, None, step))


def every_decision():
    one_of_each_arch = {gpu.arch: gpu for gpu in GPUS.rows()}.values()
    for scheme, gpu in itertools.product((row for row in SCHEMES.rows() if row.uniform and not row.family.residues), one_of_each_arch):
        for layout, special, promote, stages, buffers, group in itertools.product(
            ("nn", "nt", "tn", "tt"), ("exact", "fast"), (0, 16, 128), (2, 3), (1, 2), (1, 8)
        ):
            yield dict(
                scheme=scheme, gpu=gpu, layout=layout, special=special, promote=promote, stages=stages, fragment_buffers=buffers, group=group,
            )
    for where, loads, split_k in itertools.product(("prepass", "shared", "register"), ("async", "spread", "grouped"), (1, 2, 12)):
        yield dict(where=where, loads=loads, split_k=split_k, group=3)
    for m, n, k in itertools.product((32, 64, 128), (32, 64, 128), (16, 32)):
        for wm, wn in itertools.product((16, 32), (16, 32)):
            yield dict(block=(m, n, k), warp=(wm, wn, k), group=4)


@pytest.mark.slow
def test_no_two_plans_share_a_name():
    names = [kernel_name(plan) for plan in plans(11)]
    assert len(names) > 3000
    assert len(set(names)) == len(names)


def test_schemes_that_differ_only_inside_do_not_share_a_name():
    plan = plan_for()
    other = replace(plan, scheme=plan.scheme.model_copy(update={"own_promote": "never"}))
    assert kernel_name(plan) != kernel_name(other)


@pytest.mark.parametrize(("scheme", "gpu"), covering(
    (scheme, gpu.name) for scheme in SPLITTING for gpu in GPUS.rows() if gpu.arch_number >= 80 and can_multiply(gpu.name, scheme)
))
def test_a_name_reads_back(scheme, gpu):
    plan = plan_for(scheme, gpu)
    assert parse_name(kernel_name(plan)) == {"scheme": scheme, "policy": plan.fragment.policy, "block": plan.block, "hash": plan.hash}


@pytest.mark.parametrize("scheme_name", ["x", "x__y", "mma_m16n8k16_f16", "a_" * 20, "a_mma_16x16x16_00000000"])
def test_awkward_scheme_names_read_back(scheme_name):
    plan = plan_for()
    plan = replace(plan, scheme=plan.scheme.model_copy(update={"name": scheme_name}))
    assert parse_name(kernel_name(plan))["scheme"] == scheme_name


def test_a_name_is_a_short_c_identifier():
    longest = plan_for()
    longest = replace(longest, scheme=longest.scheme.model_copy(update={"name": "x" * 40}))
    for plan in (longest, *plans(50)):
        name = kernel_name(plan)
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        # A file system takes 255 bytes; kernels of the same file append up to `_absmax_b`, files `.cubin`.
        assert len(name) < 90
    assert len(kernel_name(plan_for())) < 50


def test_size_hints_change_neither_name_nor_bytes():
    plan = plan_for()
    other = replace(plan, hints=Hints(17, 0, 2**31 - 1))
    assert kernel_name(plan) == kernel_name(other)
    assert render(plan).text == render(other).text


def test_gpus_that_shape_a_kernel_alike_share_name_and_bytes():
    """Of one architecture, where the design's blocks do not stay; the file holds no more than the name stands for."""
    sources = [render(plan_for(gpu=gpu.name)) for gpu in GPUS.rows() if gpu.arch == "sm_80"]
    assert len(sources) > 1
    assert len({source.name for source in sources}) == len({source.text for source in sources}) == 1


@pytest.mark.parametrize("name", ["", "gemm", "gemmgen_ootomo", "../../etc/passwd", "gemmgen_x_mma_1x1x1_0000000; rm", "gemmgen_x_mma_1x1_00000000",
                                  "gemmgen_x_mma_1x1x1_000000000", "gemmgen_x_mma_1x1x1_0000000G"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(SpecError, match="grammar"):
        parse_name(name)


CHANGES = {
    "sms": lambda gpu: {"rates": gpu.rates.model_copy(update={"sms": gpu.rates.sms // 2})},
    "shared memory an SM": lambda gpu: {"limits": gpu.limits.model_copy(update={"shared_bytes_per_sm": 4 * gpu.limits.shared_bytes_per_sm})},
    "register file": lambda gpu: {"limits": gpu.limits.model_copy(update={"registers_per_sm": gpu.limits.registers_per_sm // 2})},
    "registers of a thread": lambda gpu: {"limits": gpu.limits.model_copy(update={"registers_per_thread": gpu.limits.registers_per_thread // 2})},
    "banks": lambda gpu: {"limits": gpu.limits.model_copy(update={"shared_banks": 96 - gpu.limits.shared_banks})},
    "rates": lambda gpu: {"rates": gpu.rates.model_copy(update={"boost_mhz": 1, "dram_gb_per_s": 1.0})},
}
"""What a GPU's row may say otherwise, while its architecture is the same."""


def as_launched(plan) -> tuple:
    """A plan's text and launches, without its name."""
    source = render(plan)
    launches = [(one.role, one.grid, one.threads, one.shared_bytes, one.most_blocks, one.cluster) for one in source.launches]
    return source.text.replace(source.name, "NAME").replace(plan.hash, "HASH"), str(launches)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["sgemm_a100", "hopper", "hopper_mixed", "hopper_slices", "blackwell_b200", "sgemm_mi300x", "wmmae_mi300x", "sgemm_t4"])
def test_what_of_a_gpu_shapes_a_kernel_is_in_its_name(name, change):
    """Two rows give one name if, and only if, they give one text and one set of launches."""
    plan = solve(load(SPECS / "kernels" / f"{name}.toml"))
    other = replace(plan, gpu=plan.gpu.model_copy(update=CHANGES[change](plan.gpu)))
    assert (as_launched(plan) == as_launched(other)) == (kernel_name(plan) == kernel_name(other))


def test_fewer_sms_are_another_kernel_where_blocks_stay():
    plan = solve(load(SPECS / "kernels" / "hopper.toml"))
    fewer = replace(plan, gpu=plan.gpu.model_copy(update=CHANGES["sms"](plan.gpu)))
    assert plan.launches.most_blocks == 2 * fewer.launches.most_blocks and kernel_name(plan) != kernel_name(fewer)
