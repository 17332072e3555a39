"""Kernel names: a written grammar, read both ways.

    gemm_f32_<scheme>__<fragment>_cta<MxNxK>_w<MxNxK>_s<stages>_f<fragment buffers>_g<group>_p<promote>[_k<slices of k>][_c<cluster>][_pp]_<where>_<loads>_<layout>__<arch>_<hash>

What it computes, how, and where. The readable part parses back; the eight hex
digits of the plan's hash keep two plans from sharing a name.
"""

from __future__ import annotations

import re
from typing import Any

from gemmgen.errors import SpecError
from gemmgen.plan import Plan

_NAME = re.compile(
    r"^gemm_f32_(?P<scheme>[a-z][a-z0-9_]*?)__(?P<policy>[a-z0-9]+)_(?P<shape>m\d+n\d+k\d+)_(?P<word>[a-z0-9]+)"
    r"_cta(?P<block>\d+x\d+x\d+)_w(?P<warp>\d+x\d+x\d+)_s(?P<stages>\d+)_f(?P<fragment_buffers>\d+)"
    r"_g(?P<group>\d+)_p(?P<promote>\d+)(?:_k(?P<split_k>\d+))?(?:_c(?P<cluster>\d+))?(?P<consumers>_pp)?"
    r"_(?P<where>[a-z]+)_(?P<loads>[a-z]+)_(?P<layout>[nt]{2})__(?P<arch>sm\d+[af]?|gfx[0-9a-f]+?)_(?P<hash>[0-9a-f]{8})$"
)


def _by(extents: tuple[int, int, int]) -> str:
    return "x".join(map(str, extents))


def kernel_name(plan: Plan) -> str:
    """The name of a plan's kernel: a C identifier and a file stem."""
    fragment = plan.fragment
    return (
        f"gemm_f32_{plan.scheme.name}__{fragment.policy}_{fragment.shape_name}_{fragment.word}"
        f"_cta{_by(plan.block)}_w{_by(plan.warp)}_s{plan.stages}_f{plan.fragment_buffers}_g{plan.group}_p{plan.promote}"
        f"{f'_k{plan.split_k}' if plan.split_k > 1 else ''}"
        f"{f'_c{plan.cluster}' if plan.cluster > 1 else ''}{'_pp' if plan.consumers == 'pingpong' else ''}_{plan.where}_{plan.loads}_{plan.layout}__{plan.arch.replace('_', '')}_{plan.hash}"
    )


def parse_name(name: str) -> dict[str, Any]:
    """What a kernel's name says.

    Raises:
        SpecError: it is not a name of this grammar.
    """
    match = _NAME.match(name)
    if not match:
        raise SpecError("kernel name", "is not one of ours", got=name, needs="the grammar of gemmgen.naming")
    parts: dict[str, Any] = match.groupdict()
    for key in ("block", "warp"):
        parts[key] = tuple(int(extent) for extent in parts[key].split("x"))
    parts["split_k"], parts["cluster"] = parts["split_k"] or 1, parts["cluster"] or 1
    parts["consumers"] = "pingpong" if parts["consumers"] else "cooperative"
    for key in ("stages", "fragment_buffers", "group", "promote", "split_k", "cluster"):
        parts[key] = int(parts[key])
    parts["arch"] = parts["arch"].replace("sm", "sm_")
    return parts
