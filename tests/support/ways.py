"""The ways of an operand to the matrix unit that tests go, and plans that take them."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable
from functools import cache
from typing import Any

import pytest

from gemmgen.catalog.fragment import candidates
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.plan import Plan
from gemmgen.paths import SPECS
from gemmgen.solve import solve
from gemmgen.spec import LoadedSpec, load, loads

TILE = {"block": [64, 64, 32], "warp": [32, 32, 32]}
TINY = {"block": [32, 32, 32], "warp": [16, 16, 32]}
DEEP = {"block": [32, 32, 64], "warp": [16, 16, 64]}
"""Four warps with half the sides: what they compute with takes half the time to compile and to run."""


FP32_SCHEMES = [row for row in SCHEMES.rows() if row.element == "f32"]
SPLITTING = [row.name for row in FP32_SCHEMES if row.b is None]
"""Schemes that split B, too, of FP32 elements."""
NVIDIA, AMD = (tuple(gpu.name for gpu in GPUS.rows() if gpu.vendor == vendor) for vendor in ("nvidia", "amd"))


@cache
def can_multiply(gpu: str, scheme: str) -> bool:
    """Whether the GPU, shipped or not, has what multiplies the scheme's words, and how it rounds is known."""
    row, words = GPUS.get(gpu), SCHEMES.get(scheme)
    word = words.leading
    alone = not words.uniform  # which warpgroups alone have kernels of
    policies = ("wgmma",) if alone else ("fma" if word == "f32" else row.portable_policy, "wgmma", "tcgen05")
    known = [one for policy in policies for one in candidates(row.vendor, word, policy)]
    its_own = [one for one in known if one.runs_on(row.arch) and row.unit.of(word, one.policy).rule != "by_f16"]  # not what the compiler makes of it
    return bool(its_own) and (word == "f32" or word in row.unit.words)


UNITS = tuple({gpu.matrix_unit: gpu.name for gpu in GPUS.rows() if gpu.matrix_unit}.values())
"""A GPU of each matrix unit."""


def pairs_of_units() -> list[tuple[str, str]]:
    """(GPU, scheme), for each matrix unit every scheme whose words it multiplies."""
    return [(gpu, row.name) for gpu in UNITS for row in SCHEMES.rows() if can_multiply(gpu, row.name)]


def solved(loaded: LoadedSpec) -> Plan:
    """The plan of a spec; a process solves each once."""
    key = loaded.model_dump_json()
    if key not in _SOLVED:
        _SOLVED[key] = solve(loaded)
    return _SOLVED[key]


_SOLVED: dict[str, Plan] = {}


def plan_of(
    scheme="ootomo", gpu="a100", layout="nn", tile=TILE, fragment=None, promote=64, split_k=1, where="prepass", sums="auto", fallback="none", size=4096,
    special="exact", run="auto", type=None, problem=None, **pipeline,
) -> Plan:
    return solved(loads({
        "problem": {**(problem or {}), "layout": layout,
                    "type": type or SCHEMES.get(scheme).element, "b": SCHEMES.get(scheme).b or "f32", "m": size, "n": size, "k": size},
        "split": {"scheme": scheme, "where": where, "promote": promote, "sums": sums, "fallback": fallback, "special": special, "run": run},
        "fragment": fragment or {}, "tile": {**tile, "split_k": split_k}, "pipeline": pipeline, "target": {"gpu": gpu},
        "build": {"allow_spills": True},
    }))


STRAIGHT = {"where": "lane", "loads": "direct"}
THIN = {"scheme": "fp32", "where": "lane", "loads": "streamed", "promote": 0}
HOPPER = {"gpu": "h100", "fragment": {"policy": "wgmma"}}
SMALL_GROUPS = HOPPER | {"tile": {"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 1}, "stages": 3}
TENSOR_MEMORY = {"gpu": "b200", "fragment": {"policy": "tcgen05"}, "tile": {"block": [128, 32, 32], "warp": [128, 32, 32], "cluster": 1}}

WAYS = {
    "shared, strided and not": dict(where="shared", loads="spread", fragment_buffers=1, tile=TINY),
    "shared, transposed": dict(where="shared", loads="spread", fragment_buffers=2, layout="tn"),
    "shared, grouped, slices": dict(where="shared", loads="grouped", layout="tt", split_k=3, tile=TINY),
    "shared, three words": dict(where="shared", scheme="bf16x6", layout="nt", promote=32, tile=TINY),
    "shared, 32-bit words": dict(where="shared", scheme="tf32x3", promote=32, tile=TINY),
    "register": dict(where="register", stages=3, fragment_buffers=1),
    "register, transposed": dict(where="register", stages=2, fragment_buffers=2, layout="tn", tile=TINY),
    "register, slices": dict(where="register", stages=4, layout="nt", split_k=4, tile=TINY),
    "register, 32-bit words": dict(where="register", scheme="tf32x3", layout="tt", promote=32, tile=TINY),
    "register, cut words": dict(where="register", scheme="legemm", tile={"block": [96, 32, 16], "warp": [48, 32, 16]}),
    "register, odd blocks": dict(where="register", layout="nt", tile={"block": [48, 80, 64], "warp": [48, 16, 64]}),
    "straight": dict(STRAIGHT, tile={"block": [32, 32, 64], "warp": [16, 32, 16]}, stages=2),
    "straight, transposed, slices": dict(STRAIGHT, tile={"block": [64, 16, 32], "warp": [32, 16, 32]}, stages=3, layout="tn", split_k=3),
    "straight, thin": dict(STRAIGHT, tile={"block": [16, 64, 128], "warp": [16, 32, 16]}, stages=4, layout="nt", promote=16),
    "straight, thin the other way": dict(STRAIGHT, tile={"block": [64, 8, 64], "warp": [64, 8, 16]}, stages=2, layout="tt", promote=0),
    "thin rows": dict(THIN, tile={"block": [4, 64, 64], "warp": [4, 32, 32]}, stages=2),
    "thin rows, k together": dict(THIN, tile={"block": [16, 32, 96], "warp": [16, 16, 96]}, stages=3, layout="nt", split_k=2),
    "thin columns": dict(THIN, tile={"block": [64, 8, 128], "warp": [16, 8, 64]}, stages=2, layout="nn"),
    "thin columns, k apart, slices": dict(THIN, tile={"block": [128, 1, 64], "warp": [64, 1, 64]}, stages=4, layout="tt", split_k=3),
    "thin columns, all apart": dict(THIN, tile={"block": [32, 2, 96], "warp": [32, 2, 48]}, stages=3, layout="tn"),
    "straight, three words": dict(STRAIGHT, scheme="bf16x6", tile={"block": [16, 16, 32], "warp": [16, 8, 32]}, stages=2, promote=32, layout="tn"),
    "straight, 32-bit words": dict(STRAIGHT, scheme="tf32x3", tile={"block": [32, 32, 32], "warp": [16, 16, 16]}, stages=2, promote=32),
    "straight, eight k at a time": dict(
        STRAIGHT, gpu="t4", scheme="egemm", tile={"block": [32, 32, 32], "warp": [32, 16, 16]}, stages=2, promote=0, layout="nt"),
    "packed words through registers": dict(loads="spread", fragment_buffers=1),
    "packed words through registers, two buffers": dict(loads="spread", fragment_buffers=2, promote=16, tile=TINY),
    "packed words through registers, grouped": dict(loads="grouped", gpu="jetson_agx_orin", tile=TINY),
    "eight k at a time": dict(gpu="t4", layout="tt", fragment_buffers=2),
    "eight k at a time, copied": dict(gpu="h100", fragment={"shape": "m16n8k8"}, loads="async", stages=3, tile=TINY),
    "shared, on a T4": dict(where="shared", gpu="t4", scheme="egemm", promote=0, tile=TINY),
    "packed integers": dict(scheme="mixpert_triangle", promote=0, tile=DEEP, stages=3, fragment_buffers=2),
    "packed integers, fewer of A": dict(scheme="mixpert2", promote=0, tile=DEEP, layout="tn", split_k=2),
    "tiles of k": dict(scheme="mixpert4_tile", promote=0, tile=DEEP, stages=3, layout="tn"),
    "tiles of k, through registers": dict(
        scheme="mixpert_full_tile", promote=0, loads="spread", fragment_buffers=1, tile=TILE, layout="tt"),
    "tiles of k, sixteen at a time, slices": dict(
        gpu="t4", scheme="mixpert1_tile", promote=0, split_k=2, fragment_buffers=2, tile=DEEP),
    "outliers fall back": dict(scheme="mixpert1", fallback="fp32", promote=0, tile=TINY),
    "packed integers, sixteen k at a time": dict(gpu="t4", scheme="mixpert1", promote=0, layout="nt", tile=TINY),
    "slices of packed words": dict(split_k=5, stages=3),
    "slices with row scales": dict(split_k=2, scheme="scaled", tile=TINY),
    "fp32, before shared memory, slices": dict(scheme="fp32", promote=0, where="shared", layout="tn", split_k=2, fragment_buffers=1),
    "fp32, between multiply-adds": dict(scheme="fp32", promote=0, where="shared", loads="spread", layout="nt"),
    "fp32, on a T4": dict(scheme="fp32", promote=0, gpu="t4", loads="grouped", tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "wmma": dict(fragment={"policy": "wmma"}, stages=3, fragment_buffers=2),
    "wmma, split before shared memory": dict(fragment={"policy": "wmma"}, where="shared", layout="nt", gpu="t4", tile=TINY),
    "warpgroups": dict(SMALL_GROUPS, promote=64),
    "warpgroups, side by side": dict(HOPPER, tile={"block": [64, 64, 64], "warp": [64, 32, 64], "cluster": 1}, layout="tn", stages=3),
    "warpgroups, two fragments high": dict(HOPPER, tile={"block": [128, 32, 64], "warp": [128, 32, 64], "cluster": 1}, layout="nt", stages=2),
    "warpgroups, short rows": dict(HOPPER, tile={"block": [64, 64, 16], "warp": [64, 64, 16], "cluster": 1}, stages=8, promote=32),
    "warpgroups, odd width": dict(HOPPER, tile={"block": [64, 40, 32], "warp": [64, 40, 32], "cluster": 2}, stages=3, promote=128),
    "warpgroups, promoted within a stage": dict(SMALL_GROUPS, promote=16),
    "warpgroups, never promoted": dict(SMALL_GROUPS, promote=0, layout="tt"),
    "warpgroups, clusters": dict(HOPPER, tile={"block": [64, 64, 64], "warp": [64, 64, 64], "cluster": 2}, promote=128),
    "warpgroups, clusters of four": dict(HOPPER, tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 4}, stages=3, promote=32),
    "warpgroups that take turns": dict(SMALL_GROUPS, consumers="pingpong"),
    "warpgroups that take turns in clusters": dict(HOPPER, tile={"block": [64, 64, 32], "warp": [64, 64, 32], "cluster": 2}, consumers="pingpong", stages=5),
    "warpgroups, slices": dict(SMALL_GROUPS, split_k=3),
    "warpgroups that take turns, slices, clusters": dict(
        HOPPER, tile={"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}, consumers="pingpong", split_k=2, promote=128),
    "warpgroups, three words": dict(SMALL_GROUPS, scheme="bf16x6", promote=32),
    "warpgroups, 32-bit words": dict(HOPPER, scheme="tf32x3", tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 1}, promote=32),
    "warpgroups, row scales": dict(SMALL_GROUPS, scheme="scaled", layout="tn", size=1024),
    "warpgroups, row scales of whole rows": dict(SMALL_GROUPS, scheme="scaled", layout="nt"),
    "warpgroups, one word": dict(SMALL_GROUPS, scheme="half", promote=0),
    "warpgroups, cut residuals": dict(SMALL_GROUPS, scheme="ootomo8"),
    "warpgroups, integer words": dict(SMALL_GROUPS, scheme="mixpert4", promote=0, size=1024),
    "warpgroups that take turns, integer words, fewer of A": dict(
        HOPPER, scheme="mixpert2", promote=0, tile={"block": [64, 16, 128], "warp": [64, 16, 128], "cluster": 2}, consumers="pingpong", layout="tn", stages=3,
        size=1024),
    "residues": dict(SMALL_GROUPS, scheme="residues6", promote=0),
    "residues, two warpgroups, cluster": dict(
        HOPPER, scheme="residues7", promote=0, tile={"block": [128, 32, 64], "warp": [64, 32, 64], "cluster": 2}, layout="tn", stages=4),
    "residues, whole rows": dict(HOPPER, scheme="residues8", promote=0, tile={"block": [64, 32, 128], "warp": [64, 32, 128], "cluster": 1}, layout="nt", stages=2),
    "residues, two beside each other": dict(
        HOPPER, scheme="residues9", promote=0, tile={"block": [64, 64, 32], "warp": [64, 32, 32], "cluster": 1}, layout="tt", stages=3),
    "warpgroups, integer words, fewer of B, slices": dict(SMALL_GROUPS, scheme="mixpert3", promote=0, layout="nt", split_k=2, size=1024),
    "warpgroups, tiles of k": dict(
        HOPPER, scheme="mixpert4_tile", promote=0, tile={"block": [128, 32, 64], "warp": [64, 32, 64], "cluster": 2}, stages=3, layout="nt"),
    "warpgroups, tiles of k, slices": dict(
        HOPPER, scheme="mixpert1_tile", promote=0, tile={"block": [128, 32, 32], "warp": [128, 32, 32], "cluster": 1}, split_k=2),  # two fragments of m
    "warpgroups, outliers fall back": dict(
        HOPPER, scheme="mixpert1", fallback="tf32x3", promote=0, consumers="pingpong", stages=4,
        tile={"block": [64, 16, 64], "warp": [64, 16, 64], "cluster": 2}),
    "warpgroups, nine products of integers": dict(
        HOPPER, scheme="mixpert_full", promote=0, tile={"block": [64, 16, 32], "warp": [64, 16, 32], "cluster": 1}, layout="tt", stages=4),
    "warpgroups, B as stored": dict(SMALL_GROUPS, scheme="ootomo_b16", layout="nt"),
    "packed words, B as stored": dict(scheme="bf16x2_bb16", layout="tn", promote=32, tile=TINY),
    "warpgroups, FP8 words": dict(SMALL_GROUPS, scheme="e4m3x6", promote=32),
    "three words, B as stored, bfloat16": dict(scheme="bf16x3_bb16", promote=32, tile=TINY),
    "packed integers, tiles of k, level II": dict(scheme="mixpert2_tile", promote=0, tile=TINY),
    "packed integers, tiles of k, level III": dict(scheme="mixpert3_tile", promote=0, layout="nt", tile=TINY),
    "packed integers, tiles of k, six products": dict(scheme="mixpert_triangle_tile", promote=0, tile=TINY),
    "warpgroups, words of several types": dict(SMALL_GROUPS, scheme="f16_s8", promote=32, layout="nt"),
    "warpgroups that take turns, words of several types, slices": dict(
        HOPPER, scheme="f16_s8", tile={"block": [64, 16, 32], "warp": [64, 16, 32], "cluster": 2}, consumers="pingpong", layout="tn", stages=4, split_k=2),
    "warpgroups that split A": dict(SMALL_GROUPS, where="mixed"),
    "warpgroups that split A, clusters, slices": dict(
        HOPPER, tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 2}, where="mixed", split_k=2, layout="nt", promote=128),
    "warpgroups that split A and take turns": dict(SMALL_GROUPS, where="mixed", consumers="pingpong", promote=32),
    "warpgroups that split A into three words": dict(SMALL_GROUPS, scheme="bf16x6", where="mixed", promote=16),
    "residues by lanes, through registers": dict(
        gpu="t4", scheme="residues6", promote=0, loads="spread", fragment_buffers=1, tile=TINY, layout="nt"),
    "residues by lanes": dict(scheme="residues8", promote=0, tile=DEEP, stages=3, fragment_buffers=2),
    "residues by lanes, four stages": dict(
        gpu="rtx4090", scheme="residues9", promote=0, tile=TINY, stages=4, fragment_buffers=1, layout="tt"),
    "FP64 residues by lanes": dict(scheme="residues16", promote=0, tile=DEEP, stages=3, fragment_buffers=2, layout="tn"),
    "FP64 residues by warpgroups, cluster": dict(
        HOPPER, scheme="residues12", promote=0, tile={"block": [128, 32, 64], "warp": [64, 32, 64], "cluster": 2}, stages=4),
    "small products apart": dict(scheme="bf16x6_apart", gpu="rtx3090", promote=32, tile=TINY),
    "nine products": dict(scheme="bf16x9", where="shared", layout="tn", promote=32, tile=TINY),
    "six products of three words": dict(scheme="f16x6", gpu="rtx5090", layout="tt", promote=32, tile=TINY),
    "one sum of all products": dict(scheme="markidis", gpu="rtx4090", layout="nt", tile=TINY),
    "four products": dict(scheme="ootomo4", where="register", layout="tt", tile=TINY),
    "words that the unit flushes": dict(scheme="ootomo_flushed", where="shared", tile=TINY),
    "three words with row scales": dict(scheme="scaled_f16x6", layout="tn", promote=32, tile=TINY),
    "32-bit words, small products apart": dict(scheme="tf32x3_apart", layout="nt", promote=32, tile=TINY),
    "register, on Blackwell Ultra": dict(gpu="b300", where="register", tile=TINY),
    "shared, on Jetson Thor": dict(gpu="jetson_thor", where="shared", tile=TINY, layout="tn"),
    "three words, on DGX Spark": dict(gpu="dgx_spark", scheme="bf16x3", layout="nt", tile=TINY),
    "fp32, on Blackwell": dict(scheme="fp32", promote=0, gpu="rtx5090", layout="tt", tile={"block": [32, 64, 32], "warp": [16, 32, 32]}),
    "one stage, padded, pieces of one instruction": dict(
        gpu="t4", scheme="egemm", promote=0, tile={"block": [32, 32, 32], "warp": [16, 16, 8]}, stages=1, loads="spread", fragment_buffers=1, rows="padded"),
    "one stage, padded, two buffers, before shared memory": dict(where="shared", stages=1, loads="grouped", fragment_buffers=2, promote=32, tile=TINY,
                                                                rows="padded", layout="tn"),
    "pieces of two instructions, padded": dict(
        promote=32, tile={"block": [32, 32, 64], "warp": [16, 16, 32]}, stages=2, loads="async", fragment_buffers=1, rows="padded", layout="nt"),
    "sums cached alone": dict(fragment_caching="sums", promote=32, tile=TINY, stages=3, fragment_buffers=1, layout="tt"),
    "nothing cached, loads waited for": dict(
        fragment_caching="none", scheme="legemm", promote=0, tile=TINY, stages=1, loads="waited", fragment_buffers=1, rows="padded"),
    "wmma, register": dict(fragment={"policy": "wmma"}, where="register", layout="nt", stages=3, fragment_buffers=1),
    "wmma, register, strided": dict(fragment={"policy": "wmma"}, where="register", layout="tn", stages=2, tile=TINY),
    "words without a matrix unit": dict(fragment={"policy": "fma"}, where="register", promote=0, layout="tn", fragment_buffers=1,
        tile={"block": [32, 64, 16], "warp": [16, 32, 16]}),
    "three words without a matrix unit": dict(
        fragment={"policy": "fma"}, scheme="bf16x6", where="shared", promote=0, layout="nt", tile={"block": [32, 64, 16], "warp": [16, 32, 16]}),
    "32-bit words without a matrix unit": dict(
        fragment={"policy": "fma"}, scheme="tf32x3", promote=0, layout="tt", tile={"block": [32, 64, 16], "warp": [16, 32, 16]}),
    "warpgroups that split A transposed": dict(SMALL_GROUPS, where="mixed", layout="tn"),
    "warpgroups that split A transposed, three fragments high, clusters": dict(
        HOPPER, tile={"block": [192, 32, 32], "warp": [192, 32, 32], "cluster": 2}, where="mixed", layout="tt", promote=128, stages=3),
    "rows of two lines of banks, padded": dict(
        tile={"block": [32, 16, 128], "warp": [16, 16, 128]}, stages=2, loads="spread", fragment_buffers=2, rows="padded", layout="tt"),
    "tensor memory": dict(TENSOR_MEMORY, stages=3),
    "tensor memory, two warpgroups, slices": dict(
        TENSOR_MEMORY, tile={"block": [128, 32, 32], "warp": [128, 16, 32], "cluster": 1}, split_k=3, layout="nt", promote=32, stages=2),
    "tensor memory, row scales, never promoted": dict(TENSOR_MEMORY, scheme="scaled", layout="tn", promote=0, stages=4),
    "tensor memory, promoted within a stage": dict(TENSOR_MEMORY, layout="tt", promote=16, stages=2),
    "run scales": dict(scheme="run_scaled", run=256, tile=TINY, layout="tn"),
    "run scales, slices": dict(scheme="run_scaled", run=256, split_k=3, tile=TINY, layout="tt", promote=128, sums="compensated"),
    "run scales, through registers": dict(scheme="run_scaled", run=512, gpu="t4", tile=TINY, promote=32),
    "warpgroups, run scales": dict(SMALL_GROUPS, scheme="run_scaled", run=256),
    "warpgroups, run scales, slices": dict(SMALL_GROUPS, scheme="run_scaled", run=256, split_k=2, layout="nt", promote=32, consumers="pingpong"),
    "warpgroups, run scales, intervals": dict(
        HOPPER, scheme="run_scaled", run=256, tile={"block": [64, 32, 32], "warp": [64, 32, 32], "cluster": 2}, layout="tt", promote=128, sums="compensated"),
    "FP64 residues, fourteen": dict(scheme="residues14", promote=0, tile=DEEP, stages=2, fragment_buffers=2, layout="nt"),
    "tensor memory, pairs, run scales": dict(
        TENSOR_MEMORY, scheme="run_scaled", run=256, tile={"block": [128, 32, 32], "warp": [128, 16, 32], "cluster": 2}, split_k=2, promote=32, stages=2),
    "tensor memory, integer words": dict(
        TENSOR_MEMORY, scheme="mixpert3", promote=0, tile={"block": [128, 32, 64], "warp": [128, 16, 64], "cluster": 2}, stages=2, size=1024),
    "tensor memory, residues": dict(TENSOR_MEMORY, scheme="residues6", promote=0, layout="nt", stages=3),
    "tensor memory, residues, pairs": dict(
        TENSOR_MEMORY, scheme="residues6", promote=0, tile={"block": [128, 32, 64], "warp": [128, 16, 64], "cluster": 2}, layout="tn", stages=2),
    "tensor memory, FP64 residues, pairs": dict(
        TENSOR_MEMORY, scheme="residues12", promote=0, tile={"block": [128, 32, 32], "warp": [128, 16, 32], "cluster": 2}, stages=5),
    "tensor memory, residues, few columns": dict(
        TENSOR_MEMORY, scheme="residues6", promote=0, tile={"block": [128, 16, 64], "warp": [128, 16, 64], "cluster": 1}, layout="tt", stages=4),
}


MI210, MI300X, MI355X, RX7900XTX, RX9070XT = ({"gpu": name} for name in ("mi210", "mi300x", "mi355x", "rx7900xtx", "rx9070xt"))
PLAIN = {"scheme": "fp32", "promote": 0}

AMD_WAYS = {
    "mfma": dict(MI210, fragment_buffers=2),
    "mfma, shared, transposed": dict(MI210, where="shared", layout="tn"),
    "mfma, shared, cut words, never promoted": dict(MI210, where="shared", scheme="legemm", promote=0, fragment_buffers=2),
    "mfma, register": dict(MI300X, where="register", layout="nt"),
    "mfma, register, strided": dict(MI300X, where="register", layout="tn", fragment_buffers=2),
    "mfma, register, slices": dict(MI210, where="register", split_k=3, layout="tt"),
    "mfma, narrow": dict(MI210, fragment={"shape": "m16n16k32"}, layout="tt", tile={"block": [48, 80, 32], "warp": [48, 16, 32]}),
    "mfma, narrow, register": dict(MI300X, fragment={"shape": "m16n16k32"}, where="register", layout="tn"),
    "mfma, promoted at once": dict(MI300X, promote=16, fragment_buffers=1),
    "mfma, three words": dict(MI300X, scheme="bf16x6", where="shared", promote=32),
    "mfma, row scales": dict(MI210, scheme="scaled", layout="tn"),
    "mfma, run scales": dict(MI210, scheme="run_scaled", run=256, layout="tn"),
    "wmma of RDNA3, run scales": dict(RX7900XTX, scheme="run_scaled", run=512, promote=32, sums="compensated"),
    "mfma, integer words": dict(MI300X, scheme="mixpert4", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}, layout="tn"),
    "mfma, integer words, fewer of B": dict(MI210, scheme="mixpert3", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}),
    "mfma, tiles of k": dict(MI300X, scheme="mixpert4_tile", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}, layout="nt"),
    "wmma of RDNA3, tiles of k": dict(RX7900XTX, scheme="mixpert1_tile", promote=0, tile=DEEP),
    "mfma, outliers fall back": dict(MI300X, scheme="mixpert1", fallback="ootomo", promote=0, tile={"block": [64, 64, 64], "warp": [32, 32, 64]}),
    "wmma of RDNA3, integer words": dict(RX7900XTX, scheme="mixpert1", promote=0, tile=DEEP, layout="nt"),
    "mfma, bits": dict(MI300X, scheme="egemm", layout="nt", promote=0),
    "mfma, 32-bit words": dict(MI300X, scheme="tf32x3", promote=32),
    "mfma, 32-bit words, narrow, register": dict(
        MI300X, scheme="tf32x3", fragment={"shape": "m16n16k16"}, where="register", promote=32, layout="tn",
    ),
    "mfma, one instruction": dict(MI355X, where="shared", layout="tt"),
    "mfma, one narrow instruction of bf16": dict(MI355X, scheme="bf16x3", fragment={"shape": "m16n16k32"}, where="register"),
    "mfma, a ring of three": dict(MI300X, stages=3, fragment_buffers=2),
    "mfma, a ring of four, one buffer": dict(MI355X, stages=4, fragment_buffers=1, where="shared"),
    "wmma of RDNA3": dict(RX7900XTX, fragment_buffers=1),
    "wmma of RDNA3, shared": dict(RX7900XTX, where="shared", layout="tn", fragment_buffers=2, tile=TINY),
    "wmma of RDNA3, register": dict(RX7900XTX, where="register", layout="nt"),
    "wmma of RDNA3, register, strided": dict(RX7900XTX, where="register", layout="tn", scheme="bf16x3", tile=TINY),
    "wmma of RDNA3, row scales, slices": dict(RX7900XTX, scheme="scaled", layout="tt", split_k=2, tile=TINY),
    "wmma of gfx1101": dict(RX9070XT, gpu="rx7800xt", where="shared", fragment_buffers=1, tile=TINY),
    "wmma of gfx1102": dict(RX9070XT, gpu="rx7600", fragment_buffers=1, tile=TINY),
    "wmma of gfx1151": dict(RX9070XT, gpu="strix_halo", where="register", fragment_buffers=1, tile=TINY),
    "wmma of RDNA4, integer words": dict(RX9070XT, scheme="mixpert1_tile", promote=0, tile=DEEP),
    "wmma of RDNA4, FP8 words": dict(RX9070XT, scheme="e4m3x6", promote=64, tile=DEEP, layout="tn"),
    "wmma of gfx1200": dict(RX9070XT, gpu="rx9060xt", where="register", fragment_buffers=1, tile=TINY),
    "wmma of RDNA4": dict(RX9070XT, fragment_buffers=2),
    "wmma of RDNA4, shared, three words": dict(RX9070XT, where="shared", scheme="bf16x6", promote=32, layout="tt", tile=TINY),
    "wmma of RDNA4, register": dict(RX9070XT, where="register", layout="tn"),
    "wmma of RDNA4, a ring of three": dict(RX9070XT, stages=3, scheme="egemm", promote=0, tile=TINY),
    "VALU": dict(MI300X, **PLAIN),
    "VALU, shared, transposed, slices": dict(MI210, **PLAIN, where="shared", layout="tn", split_k=2),
    "VALU, 64 banks, a ring of three": dict(MI355X, **PLAIN, stages=3, layout="tt", tile={"block": [64, 64, 16], "warp": [32, 32, 16]}),
    "VALU, 64 banks, deep stages": dict(MI355X, **PLAIN, tile={"block": [32, 64, 64], "warp": [32, 32, 64]}),
    "VALU of RDNA3": dict(RX7900XTX, **PLAIN, layout="nt", tile={"block": [64, 64, 16], "warp": [16, 32, 16]}),
    "VALU of RDNA4, shared": dict(RX9070XT, **PLAIN, where="shared", tile={"block": [32, 64, 32], "warp": [16, 32, 32]}),
    "mfma, FP64 residues": dict(MI300X, scheme="residues13", promote=0, tile={"block": [64, 32, 64], "warp": [32, 32, 64]}, layout="nt"),
    "wmma of RDNA3, FP64 residues": dict(RX7900XTX, scheme="residues15", promote=0, tile=TINY, layout="tt"),
    "mfma, residues": dict(MI300X, scheme="residues6", promote=0, tile={"block": [64, 32, 64], "warp": [32, 32, 64]}, layout="tn"),
}
"""The same on AMD's matrix cores, and without them."""


_GROUPS_OF_WORDS = dict(HOPPER, tile={"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2}, size=16384)
_GROUPS_OF_RESIDUES = dict(HOPPER, promote=0, tile={"block": [128, 256, 128], "warp": [64, 256, 128], "cluster": 2}, size=16384)
SHARED_PASSES = {
    "rows' maxima": dict(_GROUPS_OF_WORDS, scheme="scaled"),
    "rows' maxima, integers": dict(_GROUPS_OF_WORDS, scheme="mixpert4", promote=0),
    "runs": dict(_GROUPS_OF_WORDS, scheme="run_scaled"),
    "runs, c64": dict(_GROUPS_OF_WORDS, scheme="run_scaled", type="c64"),
    "norms": dict(_GROUPS_OF_RESIDUES, scheme="residues8"),
    "norms, clusters of 4": dict(_GROUPS_OF_RESIDUES, scheme="residues8", size=1024),
    "norms, f64": dict(_GROUPS_OF_RESIDUES, scheme="residues14"),
    "norms, c64": dict(_GROUPS_OF_RESIDUES, scheme="residues8", type="c64"),
    "norms, c128": dict(_GROUPS_OF_RESIDUES, scheme="residues14", type="c128"),
}
"""Plans whose split passes share rows or columns among the blocks of a cluster, or read a long one again; layouts decide which."""


LIKE_OTHER_WAYS = {
    "VALU, 64 banks, deep stages", "eight k at a time", "mfma", "mfma, bits", "mfma, narrow, register", "mfma, register", "mfma, register, strided",
    "mfma, row scales", "mfma, shared, transposed", "mfma, three words", "packed integers, sixteen k at a time", "packed words through registers", "register",
    "register, 32-bit words", "register, odd blocks", "register, transposed", "shared, 32-bit words", "shared, on a T4", "shared, strided and not",
    "shared, three words", "shared, transposed", "slices of packed words", "straight", "straight, three words", "thin columns", "tiles of k", "warpgroups",
    "warpgroups that split A", "warpgroups that split A and take turns", "warpgroups that take turns", "warpgroups that take turns in clusters",
    "warpgroups that take turns, integer words, fewer of A", "warpgroups that take turns, slices, clusters", "warpgroups, 32-bit words",
    "warpgroups, clusters", "warpgroups, never promoted", "warpgroups, odd width", "warpgroups, promoted within a stage",
    "warpgroups, row scales of whole rows", "warpgroups, short rows", "warpgroups, slices", "warpgroups, three words", "warpgroups, words of several types",
    "wmma of RDNA3", "wmma of RDNA4", "wmma of RDNA4, register",
}
"""Ways of which others go every part: `make test-all` verifies them in short, too. tests/unit/test_cover.py says what a part is."""


SHOWN_BY_OTHERS = {
    "three words without a matrix unit", "packed words through registers, two buffers", "slices with row scales",
    "straight, eight k at a time", "one stage, padded, two buffers, before shared memory",
}
"""The same of what is left: named apart from those, so that every other way keeps its question."""


IN_SHORT = {"blackwell_b200", "hopper", "sgemm_a100", "sgemm_mi300x"}
"""Specs that `make test` verifies in short: one of each design and vendor. Ways show the schemes and architectures of all others in small."""


WHOLE = {"warpgroups, one word", "thin rows", "wmma of gfx1101"}
"""One way each of kernels whose CTAs stay and of others, and of each vendor, whose whole report `make test` makes."""


PORTABLE = {"sgemm_portable": ("a800", "mi210")}
"""Specs that name no GPU, and those that they are tried on."""


LIKE_OTHERS = {
    "accurate_h100", "bf16x3_mi300x", "digits_half", "digits_ootomo", "fp32_mi300x", "fp32_rx7900xtx",
    "hopper_1024", "hopper_512", "hopper_bf16x6", "hopper_cool", "hopper_mixed_tn", "hopper_tf32x3", "hopper_wide",
    "sgemm_b200", "sgemm_h100", "sgemm_h100_deep", "sgemm_h100_unpromoted", "sgemm_mi355x", "sgemm_portable, a800",
    "tf32x3_mi300x",
}
"""Specs whose scheme, design, way and architecture's instructions another has, too."""


def tailed(names: Iterable[str], tail: Container[str]) -> list[Any]:
    """Names as parameters of a test, of which those of the tail are for `make test-all`: others show the same."""
    return [pytest.param(name, marks=pytest.mark.long if name in tail else ()) for name in names]


def covering(combinations: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Combinations of several parameters, of which so many are for `make test` that each value that occurs is in one of them.

    The next is always the first of those that bring the most values, so that a whole product takes as many as its longest axis has.
    """
    combinations = list(combinations)
    values = [{(at, str(value)) for at, value in enumerate(one)} for one in combinations]
    missing, chosen = set().union(*values), set()
    while missing:
        best = max(range(len(values)), key=lambda at: len(values[at] & missing))
        chosen.add(best)
        missing -= values[best]
    return [pytest.param(*one, marks=() if at in chosen else pytest.mark.long) for at, one in enumerate(combinations)]


def in_turn(names: Iterable[str], values: Iterable[Any], tail: Container[str] = (), later: Container[str] = ()) -> list[Any]:
    """Each name with one of the values, which come round again and again, among those that are for `make test` and among those of the tail.

    Args:
        later: of those that are not of the tail, what is left to `make test-all` as well; the others' values are as if it were not.
    """
    names, values = list(names), list(values)
    kept, left = ([name for name in names if (name in tail) == late] for late in (False, True))
    late = [pytest.param(*one, marks=pytest.mark.long) for one in zip(left, itertools.cycle(values))]
    return [*(pytest.param(*one, marks=pytest.mark.long) if one[0] in later else one for one in zip(kept, itertools.cycle(values))), *late]


def sampled(values: Iterable[Any], few: int) -> list[Any]:
    """Values of a parameter, or tuples of several ones', of which `few`, evenly spread, are for `make test`."""
    values = list(values)
    chosen = {at * len(values) // few for at in range(few)}
    return [pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if at in chosen else pytest.mark.long) for at, value in enumerate(values)]


@cache  # several files' parameters are of them
def shipped() -> dict[str, LoadedSpec]:
    """Every spec under specs/kernels by its name, one that names no GPU once for each."""
    paths = sorted((SPECS / "kernels").glob("*.toml"))
    return {
        f"{path.stem}, {gpu}" if gpu else path.stem: load(path, gpu)
        for path in paths for gpu in PORTABLE.get(path.stem, (None,))
    }
