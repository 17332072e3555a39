"""Comparisons, whose results are a bit for each lane in scalar registers."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise
from gemmgen.emulate.amdgpu.operands import DTYPES, EXEC

_INTEGER = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "f": lambda x, y: x != x, "t": lambda x, y: x == x,
}  # fmt: skip
_FLOAT = {
    "eq": np.equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lg": lambda x, y: (x < y) | (x > y), "neq": np.not_equal,
    "o": lambda x, y: (x == x) & (y == y), "u": lambda x, y: (x != x) | (y != y),
    "nlt": lambda x, y: ~(x < y), "nle": lambda x, y: ~(x <= y), "ngt": lambda x, y: ~(x > y),
    "nge": lambda x, y: ~(x >= y), "nlg": lambda x, y: ~((x < y) | (x > y)),
    "f": lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape), bool),
    "t": lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), bool),
    "tru": lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), bool),
}  # fmt: skip


def classes(x: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Whether a floating-point number is of one of the wanted classes, a bit each: signalling NaN, quiet NaN,
    -Inf, -normal, -subnormal, -0, +0, +subnormal, +normal, +Inf."""
    info = np.finfo(x.dtype)
    raw = x.view(f"u{x.dtype.itemsize}")
    quiet = raw >> raw.dtype.type(info.nmant - 1) & raw.dtype.type(1) != 0
    nan, infinite, zero = x != x, np.isinf(x), x == 0
    small = ~zero & (np.abs(x) < info.smallest_normal)
    normal = ~(nan | infinite | zero | small)
    negative = np.signbit(x)
    kinds = (
        nan & ~quiet, nan & quiet, infinite & negative, normal & negative, small & negative, zero & negative,
        zero & ~negative, small & ~negative, normal & ~negative, infinite & ~negative,
    )  # fmt: skip
    result = np.zeros(np.broadcast_shapes(x.shape, wanted.shape), bool)
    for bit, kind in enumerate(kinds):
        result = result | kind & (wanted >> wanted.dtype.type(bit) & wanted.dtype.type(1) != 0)
    return result


def _comparison(cursor: Cursor):
    _, kind, type_ = cursor.name.removeprefix("v_").split("_")
    exec_too = cursor.name.startswith("v_cmpx")
    implied = exec_too and not cursor.target.cdna  # then EXEC is the only result
    cursor.count(2 if implied else 3)
    slot = None if implied else cursor.mask_slot(0)
    first = 0 if implied else 1
    halves = cursor.bits("op_sel", (0, 0, 0))
    if kind == "class":
        function = classes
        types = (type_, "u32" if type_ != "f16" else "u16")
    else:
        function = (_FLOAT if type_.startswith("f") else _INTEGER)[kind]
        types = (type_, type_)
    left, right = (cursor.read(first + i, types[i], halves[i]) for i in (0, 1))
    flushed = type_ == "f32" and kind != "class"

    def compute(wave):
        x, y = left(wave), right(wave)
        if flushed and wave.flush32 is not None:
            x, y = wave.flushed(x), wave.flushed(y)
        return function(x, y)

    def write(wave, result):
        if wave.lanes is not None:
            result = result & wave.lanes
        if slot is not None:
            wave.put_mask(slot, result)
        if exec_too:
            wave.put_mask(EXEC, result)

    return Elementwise(compute, write)


for _prefix in ("v_cmp", "v_cmpx"):
    for _type in DTYPES:
        if not _type.startswith("b"):
            for _kind in (*(_FLOAT if _type.startswith("f") else _INTEGER), "class"):
                if _kind != "class" or _type.startswith("f"):
                    instruction(f"{_prefix}_{_kind}_{_type}")(_comparison)
