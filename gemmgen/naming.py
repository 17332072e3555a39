"""Kernel names: short, a written grammar, read both ways.

    gemmgen_<scheme>_<policy>_<block MxNxK>_<hash>

What, how, the tile and eight hex digits of the plan's identity, so that two kernels never share one. The header of a
file tells all the rest.
"""

from __future__ import annotations

import re
from typing import Any

from gemmgen.errors import SpecError
from gemmgen.plan import Plan

_NAME = re.compile(r"^gemmgen_(?P<scheme>[a-z][a-z0-9_]*)_(?P<policy>[a-z0-9]+)_(?P<block>\d+x\d+x\d+)_(?P<hash>[0-9a-f]{8})$")


def kernel_name(plan: Plan) -> str:
    """The name of a plan's kernel: a C identifier."""
    return f"gemmgen_{plan.scheme.name}_{plan.fragment.policy}_{'x'.join(map(str, plan.block))}_{plan.hash}"


def parse_name(name: str) -> dict[str, Any]:
    """What a kernel's name says: scheme, policy, block and hash.

    Raises:
        SpecError: it is not a name of this grammar.
    """
    match = _NAME.match(name)
    if not match:
        raise SpecError("kernel name", "is not one of ours", got=name, needs="the grammar of gemmgen.naming")
    return match.groupdict() | {"block": tuple(map(int, match["block"].split("x")))}
