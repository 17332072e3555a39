"""The ways of an operand to the matrix unit that tests go, and plans that take them."""

from __future__ import annotations

from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads

TILE = {"block": [64, 64, 32], "warp": [32, 32, 32]}


def plan_of(scheme="ootomo", gpu="a100", layout="nn", tile=TILE, fragment=None, promote=64, split_k=1, where="prepass", **pipeline) -> Plan:
    return solve(loads({
        "problem": {"layout": layout}, "split": {"scheme": scheme, "where": where, "promote": promote},
        "fragment": fragment or {}, "tile": {**tile, "split_k": split_k}, "pipeline": pipeline, "target": {"gpu": gpu},
        "build": {"allow_spills": True},
    }))


WAYS = {
    "shared, strided and not": dict(where="shared", loads="spread", fragment_buffers=1),
    "shared, transposed": dict(where="shared", loads="spread", fragment_buffers=2, layout="tn"),
    "shared, grouped, slices": dict(where="shared", loads="grouped", layout="tt", split_k=3),
    "shared, three words": dict(where="shared", scheme="bf16x6", layout="nt", promote=32),
    "shared, 32-bit words": dict(where="shared", scheme="tf32x3", promote=32),
    "register": dict(where="register", stages=3, fragment_buffers=1),
    "register, transposed": dict(where="register", stages=2, fragment_buffers=2, layout="tn"),
    "register, slices": dict(where="register", stages=4, layout="nt", split_k=4),
    "register, 32-bit words": dict(where="register", scheme="tf32x3", layout="tt", promote=32),
    "register, cut words": dict(where="register", scheme="legemm", tile={"block": [96, 32, 16], "warp": [48, 32, 16]}),
    "register, odd blocks": dict(where="register", layout="nt", tile={"block": [48, 80, 64], "warp": [48, 16, 64]}),
    "packed words through registers": dict(loads="spread", fragment_buffers=1),
    "packed words through registers, two buffers": dict(loads="spread", fragment_buffers=2, promote=16),
    "packed words through registers, grouped": dict(loads="grouped", gpu="t4"),
    "eight k at a time": dict(gpu="t4", layout="tt", fragment_buffers=2),
    "eight k at a time, copied": dict(gpu="h100", fragment={"shape": "m16n8k8"}, loads="async", stages=3),
    "shared, on a T4": dict(where="shared", gpu="t4", scheme="egemm", promote=0),
    "slices of packed words": dict(split_k=5, stages=3),
    "slices with row scales": dict(split_k=2, scheme="scaled"),
    "fp32, before shared memory, slices": dict(scheme="fp32", promote=0, where="shared", layout="tn", split_k=2, fragment_buffers=1),
    "fp32, between multiply-adds": dict(scheme="fp32", promote=0, where="shared", loads="spread", layout="nt"),
    "fp32, on a T4": dict(scheme="fp32", promote=0, gpu="t4", loads="grouped", tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "wmma": dict(fragment={"policy": "wmma"}, stages=3, fragment_buffers=2),
    "wmma, split before shared memory": dict(fragment={"policy": "wmma"}, where="shared", layout="nt", gpu="t4"),
}
