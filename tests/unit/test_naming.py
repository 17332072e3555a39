"""Kernel names: two plans never share one, and a name reads back."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
from ways import can_multiply, covering

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import SpecError
from gemmgen.naming import kernel_name, parse_name
from gemmgen.plan import Hints
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads


def plan_for(scheme: str = "ootomo", gpu: str = "a100", **sections):
    return solve(loads({"split": {"scheme": scheme}, "target": {"gpu": gpu}, **sections}))


def every_plan():
    """A few thousand plans, each of which differs from many others in one decision only."""
    base = plan_for()
    one_of_each_arch = {gpu.arch: gpu for gpu in GPUS.rows()}.values()
    for scheme, gpu in itertools.product(SCHEMES.rows(), one_of_each_arch):
        for layout, special, promote, stages, buffers, group in itertools.product(
            ("nn", "nt", "tn", "tt"), ("exact", "fast"), (0, 16, 128), (2, 3), (1, 2), (1, 8)
        ):
            yield replace(
                base, scheme=scheme, gpu=gpu, layout=layout, special=special, promote=promote, stages=stages,
                fragment_buffers=buffers, group=group,
            )
    for where, loads, split_k in itertools.product(("prepass", "shared", "register"), ("async", "spread", "grouped"), (1, 2, 12)):
        yield replace(base, where=where, loads=loads, split_k=split_k, group=3)
    for m, n, k in itertools.product((32, 64, 128), (32, 64, 128), (16, 32)):
        for wm, wn in itertools.product((16, 32), (16, 32)):
            yield replace(base, block=(m, n, k), warp=(wm, wn, k), group=4)


def test_no_two_plans_share_a_name():
    names = [kernel_name(plan) for plan in every_plan()]
    assert len(names) > 3000
    assert len(set(names)) == len(names)


def test_schemes_that_differ_only_inside_do_not_share_a_name():
    plan = plan_for()
    other = replace(plan, scheme=plan.scheme.model_copy(update={"own_promote": "never"}))
    assert kernel_name(plan) != kernel_name(other)


@pytest.mark.parametrize(("scheme", "gpu"), covering(
    (scheme, gpu.name) for scheme in SCHEMES.names() for gpu in GPUS.rows() if gpu.arch_number >= 80 and can_multiply(gpu.name, scheme)
))
def test_a_name_reads_back(scheme, gpu):
    plan = plan_for(scheme, gpu)
    parts = parse_name(kernel_name(plan))
    assert parts == {
        "scheme": scheme, "policy": plan.fragment.policy, "shape": plan.fragment.shape_name, "word": plan.fragment.word,
        "block": plan.block, "warp": plan.warp, "stages": plan.stages, "fragment_buffers": plan.fragment_buffers,
        "group": plan.group, "promote": plan.promote, "split_k": plan.split_k, "where": plan.where, "loads": plan.loads, "layout": plan.layout,
        "cluster": plan.cluster, "consumers": plan.consumers, "arch": plan.arch, "hash": plan.hash,
    }


def test_slices_of_k_read_back():
    plan = plan_for(tile={"split_k": 12})
    assert parse_name(kernel_name(plan))["split_k"] == 12
    assert parse_name(kernel_name(replace(plan, split_k=1)))["split_k"] == 1


@pytest.mark.parametrize("scheme_name", ["x", "x__y", "mma_m16n8k16_f16", "a_" * 20, "a__mma_m16n8k16_f16_cta1x1x1"])
def test_awkward_scheme_names_read_back(scheme_name):
    plan = plan_for()
    plan = replace(plan, scheme=plan.scheme.model_copy(update={"name": scheme_name}))
    assert parse_name(kernel_name(plan))["scheme"] == scheme_name


def test_a_name_is_a_short_c_identifier():
    longest = plan_for()
    longest = replace(longest, scheme=longest.scheme.model_copy(update={"name": "x" * 40}))
    for plan in (longest, *itertools.islice(every_plan(), 0, None, 50)):
        name = kernel_name(plan)
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
        # A file system takes 255 bytes; kernels of the same file append up to `_absmax_b`, files `.cubin`.
        assert len(name) < 200


def test_size_hints_change_neither_name_nor_bytes():
    plan = plan_for()
    other = replace(plan, hints=Hints(17, 0, 2**31 - 1))
    assert kernel_name(plan) == kernel_name(other)
    assert render(plan).text == render(other).text


def test_gpus_of_one_architecture_share_name_and_bytes():
    """The name tells all that decides the code, and the file holds no more than that."""
    sources = [render(plan_for(gpu=gpu.name)) for gpu in GPUS.rows() if gpu.arch == "sm_80"]
    assert len(sources) > 1
    assert len({source.name for source in sources}) == len({source.text for source in sources}) == 1


@pytest.mark.parametrize("name", ["", "gemm", "gemm_f32_ootomo", "../../etc/passwd", "gemm_f32_x__y; rm"])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(SpecError, match="grammar"):
        parse_name(name)
