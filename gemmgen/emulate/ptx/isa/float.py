"""Floating-point arithmetic. Approximate instructions (`div.approx`, `ex2`, ...)
are refused: the PTX ISA bounds their error but does not fix their bits."""

from __future__ import annotations

from functools import partial

import numpy as np

from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.emulate.core import rounding
from gemmgen.emulate.core.rounding import canonical, flush
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.isa import integer
from gemmgen.emulate.ptx.isa.integer import INTEGERS, elementwise

_MODES = ("rn", "rz", "rm", "rp")


def _bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _halves(function, kind: str):
    """A function of scalars of `kind`, applied to both halves of packed registers."""

    def packed(*operands):
        shape = np.broadcast_shapes(*(np.shape(x) for x in operands))
        parts = [
            np.ascontiguousarray(np.broadcast_to(x, shape)).reshape(-1, 1).view(kind) for x in operands
        ]
        result = function(*parts)
        whole = np.dtype(np.uint32 if result.dtype.itemsize == 2 else np.uint64)
        return np.ascontiguousarray(result).view(whole).reshape(shape)

    return packed


def _finished(function, *, ftz: bool, sat: bool):
    """`function` with subnormals flushed, the result clamped, NaN made canonical."""
    if not ftz and not sat:
        return lambda *operands: canonical(function(*operands))

    def whole(*operands):
        if ftz:
            operands = [flush(x) for x in operands]
        result = function(*operands)
        if ftz:
            result = flush(result)
        if sat:  # a NaN becomes +0
            result = np.where(result > 0, np.minimum(result, result.dtype.type(1)), result.dtype.type(0))
        return canonical(result)

    return whole


def _arithmetic(cursor: Cursor, f32, plain, f16=None, operands: int = 2):
    """add, sub, mul and fma of every floating type.

    Args:
        f32: (operands..., mode="rn"), rounding once in float32.
        plain: in the operands' own type, for f64.
        f16: for f16; computed in float32 and rounded again where None, which is
            exact for a sum or a product (24 bits are enough for twice 11).
    """
    type_ = cursor.type()
    mode = cursor.choice(*_MODES, default="rn")
    ftz, sat = cursor.flag("ftz"), cursor.flag("sat")
    cursor.count(operands + 1)
    types = [type_] * operands
    if type_ in ("f32", "f32x2"):
        single = _finished(f32 if mode == "rn" else partial(f32, mode=mode), ftz=ftz, sat=sat)
        return elementwise(cursor, types, single if type_ == "f32" else _halves(single, "f4"))
    if mode != "rn" or ftz or (sat and type_ == "f64"):
        cursor.refuse("rounding is not supported for this type")
    if type_ == "f64":
        return elementwise(cursor, types, lambda *x: canonical(plain(*x)))
    if type_ in ("f16", "f16x2"):
        half = f16 or (lambda *x: f32(*(v.astype(np.float32) for v in x), "rn").astype(np.float16))
        half = _finished(half, ftz=False, sat=sat)
        return elementwise(cursor, types, half if type_ == "f16" else _halves(half, "f2"))
    if type_ in ("bf16", "bf16x2") and not sat:
        brain = _bf16_operation(plain if operands == 2 else None)
        return elementwise(cursor, types, brain if type_ == "bf16" else _halves(brain, "u2"))
    return cursor.refuse(f"type {type_} is not supported here")


def _bf16_operation(plain):
    """A bfloat16 operation, rounded once: exact or to odd in float64, then to odd in float32."""

    def function(x, y, z=None):
        x, y = _bf16(x).astype(np.float64), _bf16(y).astype(np.float64)
        if z is not None:
            exact = rounding.add_to_odd(x * y, _bf16(z).astype(np.float64))
        elif plain is np.multiply:
            exact = x * y
        else:
            exact = rounding.add_to_odd(x, y if plain is np.add else -y)
        cut = rounding.to_f32(exact, "rz")
        inexact = (cut.astype(np.float64) != exact) & np.isfinite(cut)
        odd = np.where(inexact, cut.view(np.uint32) | np.uint32(1), cut.view(np.uint32))
        return rounding.to_bf16(odd.view(np.float32), "rn")

    return function


def _subtract_f32(x, y, mode="rn"):
    return rounding.add(x, -y, mode)


@instruction("add", "sub", "mul", "mad", "fma")
def add_sub_mul(cursor: Cursor):
    base = cursor.base
    if cursor.modifiers and cursor.modifiers[-1] in INTEGERS and base != "fma":
        return (
            integer.add_or_subtract(cursor)
            if base in ("add", "sub")
            else integer.multiply(cursor)
        )
    if base == "add":
        return _arithmetic(cursor, rounding.add, np.add)
    if base == "sub":
        return _arithmetic(cursor, _subtract_f32, np.subtract)
    if base == "mul":
        return _arithmetic(cursor, rounding.multiply, np.multiply)
    return _arithmetic(cursor, rounding.fma, rounding.fma_f64, rounding.fma_f16, operands=3)


@instruction("neg", "abs")
def sign(cursor: Cursor):
    """They change the sign bit alone, of a NaN too."""
    negate = cursor.base == "neg"
    type_ = cursor.type()
    ftz = cursor.flag("ftz")
    cursor.count(2)
    if type_ in ("s16", "s32", "s64"):
        return elementwise(cursor, [type_], np.negative if negate else np.abs)
    masks = {
        "f16": ("b16", 0x8000), "bf16": ("b16", 0x8000), "f16x2": ("b32", 0x80008000),
        "bf16x2": ("b32", 0x80008000), "f32": ("b32", 1 << 31), "f64": ("b64", 1 << 63),
    }  # fmt: skip
    if type_ not in masks:
        cursor.refuse(f"type {type_} is not supported here")
    raw, bits = masks[type_]

    def function(x):
        if ftz:
            x = flush(x.view(np.float32)).view(np.uint32)
        return x ^ x.dtype.type(bits) if negate else x & ~x.dtype.type(bits)

    return elementwise(cursor, [raw], function)


@instruction("min", "max")
def least_or_greatest(cursor: Cursor):
    """Of two numbers; a NaN loses to a number (or wins, with `.NaN`), and -0 < +0."""
    if cursor.modifiers[-1] in INTEGERS:
        return integer.least_or_greatest(cursor)
    least = cursor.base == "min"
    type_ = cursor.type()
    ftz, nan = cursor.flag("ftz"), cursor.flag("NaN")
    cursor.count(3)
    if type_ not in ("f16", "f32", "f64", "f16x2"):
        cursor.refuse(f"type {type_} is not supported here")

    def function(x, y):
        if ftz:
            x, y = flush(x), flush(y)
        plain = (np.minimum if nan else np.fmin) if least else (np.maximum if nan else np.fmax)
        result = plain(x, y)
        raw = np.dtype(f"u{x.dtype.itemsize}")
        zeros = (x == 0) & (y == 0)
        if zeros.any():
            signs = x.view(raw) | y.view(raw) if least else x.view(raw) & y.view(raw)
            result = np.where(zeros, signs.view(x.dtype), result)
        return canonical(result)

    if type_ == "f16x2":
        return elementwise(cursor, [type_] * 2, _halves(function, "f2"))
    return elementwise(cursor, [type_] * 2, function)


@instruction("div", "rcp", "sqrt")
def divide(cursor: Cursor):
    if cursor.base == "div" and cursor.modifiers[-1] in INTEGERS:
        return integer.divide(cursor)
    type_ = cursor.type()
    ftz = cursor.flag("ftz")
    mode = cursor.choice(*_MODES, "approx", "full", default="none")
    if mode != "rn" or type_ not in ("f32", "f64"):
        cursor.refuse(
            "only division and square root rounded to nearest have bits that the ISA fixes",
            needs=f"{cursor.base}.rn.f32 or {cursor.base}.rn.f64",
            remedy="compile without -use_fast_math, or use __fdiv_rn, __frcp_rn, __fsqrt_rn",
        )
    function = {"div": np.divide, "rcp": np.reciprocal, "sqrt": np.sqrt}[cursor.base]
    whole = _finished(function, ftz=ftz, sat=False)
    return elementwise(cursor, [type_] * (2 if cursor.base == "div" else 1), whole)


@instruction("copysign")
def copysign(cursor: Cursor):
    type_ = cursor.choice("f32", "f64")
    return elementwise(cursor, [type_] * 2, lambda x, y: np.copysign(y, x))


@instruction("testp")
def testp(cursor: Cursor):
    kind = cursor.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    type_ = cursor.choice("f32", "f64")

    def function(x):
        tiny = np.abs(x) < np.finfo(x.dtype).tiny
        return {
            "finite": lambda: np.isfinite(x),
            "infinite": lambda: np.isinf(x),
            "number": lambda: ~np.isnan(x),
            "notanumber": lambda: np.isnan(x),
            "normal": lambda: np.isfinite(x) & ~tiny,
            "subnormal": lambda: tiny & (x != 0),
        }[kind]()

    return elementwise(cursor, [type_], function)


# ---------------------------------------------------------------- conversions

_INTEGER_MODES = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
_SMALL_INTEGERS = ("u8", "s8")
_PAIRS = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}
"""Types of two 8-bit floating-point words, and the word's."""


@instruction("cvt")
def convert(cursor: Cursor):
    if cursor.flag("pack"):
        return _packed(cursor)
    source = cursor.type()
    target = cursor.type()
    integers = (*INTEGERS, *_SMALL_INTEGERS)
    if target in integers and source in integers:
        function = _between_integers(cursor, target)
    elif target in integers:
        function = _to_integer(cursor, source, target)
    elif source in integers:
        function = _from_integer(cursor, source, target)
    else:
        return _between_floats(cursor, source, target)
    cursor.count(2)
    return _extended(cursor, source, target, function)


def _extended(cursor: Cursor, source: str, target: str, function):
    """A register wider than the result gets it extended, by its sign if it has one."""
    width = cursor.width(0)
    kind = "i" if target.startswith("s") else "u"
    wide = np.dtype(f"{kind}{width}")

    def whole(x):
        result = function(x)
        if result.dtype.itemsize < width:
            if result.dtype.kind == "f":
                result = result.view(f"u{result.dtype.itemsize}")
            return result.astype(wide)
        return result

    return elementwise(cursor, [source], whole)


def _between_integers(cursor: Cursor, target: str):
    dtype = DTYPES[target]
    if cursor.flag("sat"):
        info = np.iinfo(dtype)

        def clamp(x):
            low = max(info.min, int(np.iinfo(x.dtype).min))
            high = min(info.max, int(np.iinfo(x.dtype).max))
            return np.clip(x, x.dtype.type(low), x.dtype.type(high)).astype(dtype)

        return clamp
    return lambda x: x.astype(dtype)


def _to_integer(cursor: Cursor, source: str, target: str):
    """Rounded to an integer, clamped to the type's range; NaN gives 0."""
    mode = cursor.choice(*_INTEGER_MODES)
    ftz = cursor.flag("ftz")
    cursor.flag("sat")  # these conversions always saturate
    if source not in ("f16", "bf16", "f32", "f64"):
        cursor.refuse(f"type {source} is not supported here")
    dtype = DTYPES[target]
    info = np.iinfo(dtype)

    def function(x):
        if source == "bf16":
            x = _bf16(x)
        if ftz:
            x = flush(x)
        x = _INTEGER_MODES[mode](x.astype(np.float64))
        below, above = x <= float(info.min), x >= float(info.max)  # max is 2**64 as a float64
        inside = np.where(below | above | np.isnan(x), 0.0, x).astype(dtype)
        inside = np.where(above, dtype.type(info.max), inside)
        return np.where(below, dtype.type(info.min), inside)

    return function


def _from_integer(cursor: Cursor, source: str, target: str):
    mode = cursor.choice(*_MODES)
    if target == "f32" and mode != "rn" and source not in ("u64", "s64"):
        return lambda x: rounding.to_f32(x.astype(np.float64), mode)
    if target == "f16" and source not in ("u64", "s64"):
        return lambda x: rounding.to_f16(x.astype(np.float64), mode)
    exact = target == "f64" and source not in ("u64", "s64")
    if target not in ("f32", "f64") or (mode != "rn" and not exact):
        cursor.refuse("rounding is not supported for these types")
    dtype = np.float32 if target == "f32" else np.float64
    return lambda x: x.astype(dtype)


def _packed(cursor: Cursor):
    """`cvt.pack`: two integers, clamped to 8 bits, below the low half of a third operand."""
    cursor.choice("sat")
    target, *others = cursor.modifiers
    if target not in _SMALL_INTEGERS or others != ["s32", "b32"]:
        cursor.refuse("only two INT32 become words of 8 bits", needs="cvt.pack.sat.s8.s32.b32 or cvt.pack.sat.u8.s32.b32")
    cursor.modifiers.clear()
    cursor.count(4)
    ends = np.iinfo(DTYPES[target])

    def pack(a, b, c):
        upper, lower = (np.clip(x, ends.min, ends.max).astype(np.uint8).astype(np.uint32) for x in (a, b))
        return c << np.uint32(16) | upper << np.uint32(8) | lower

    return elementwise(cursor, ["s32", "s32", "b32"], pack)


def _with_pairs(cursor: Cursor, source: str, target: str):
    """Between two FP32 and two 8-bit words, and from those to two FP16; the first source goes to the upper word."""
    cursor.choice("rn")
    saturate, relu = cursor.flag("satfinite"), cursor.flag("relu")
    if relu or (source, target) not in {*(("f32", pair) for pair in _PAIRS), *((pair, "f16x2") for pair in _PAIRS)}:
        cursor.refuse(f"conversion from {source} to {target} is not supported")
    if target in _PAIRS:
        if not saturate:
            cursor.refuse("conversions to words of 8 bits saturate", needs=f"cvt.rn.satfinite.{target}.{source}")
        cursor.count(3)

        def narrow(high, low):
            upper, lower = (to_float8(x, _PAIRS[target]).astype(np.uint16) for x in (high, low))
            return upper << np.uint16(8) | lower

        return elementwise(cursor, ["f32", "f32"], narrow)
    cursor.count(2)

    def widen(x):
        both = np.ascontiguousarray(x).reshape(-1, 1).view(np.uint8)
        halves = canonical(decode(_PAIRS[source], both).astype(np.float16))
        return halves.view(np.uint32).reshape(np.shape(x))

    return elementwise(cursor, ["b16"], widen)


def _between_floats(cursor: Cursor, source: str, target: str):
    if source in _PAIRS or target in _PAIRS:
        return _with_pairs(cursor, source, target)
    ftz, sat, relu = cursor.flag("ftz"), cursor.flag("sat"), cursor.flag("relu")
    if target in ("f16x2", "bf16x2") and source == "f32":
        mode = cursor.choice("rn", "rz")
        cursor.count(3)
        narrow = (
            (lambda x: rounding.to_f16(x, mode).view(np.uint16))
            if target == "f16x2"
            else (lambda x: rounding.to_bf16(x, mode))
        )
        sixteen = np.uint32(16)

        def pair(high, low):  # the first source goes to the upper half
            values = [np.maximum(x, np.float32(0)) if relu else x for x in (high, low)]
            values = [flush(x) for x in values] if ftz else values
            upper, lower = (narrow(x).astype(np.uint32) for x in values)
            return upper << sixteen | lower

        return elementwise(cursor, ["f32", "f32"], pair)
    cursor.count(2)
    if relu:
        cursor.refuse("modifier relu is not supported here")
    if target == "tf32" and source == "f32":
        mode = cursor.choice("rna", "rn", "rz")
        return elementwise(cursor, ["f32"], lambda x: rounding.to_tf32(x, mode))
    if target == source and target in ("f32", "f64", "f16"):
        mode = cursor.choice(*_INTEGER_MODES, *_MODES, default="none")
        step = _INTEGER_MODES.get(mode, lambda x: x)
        return elementwise(cursor, [source], _finished(step, ftz=ftz, sat=sat))
    widening = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("f32", "f64"), ("bf16", "f64")}
    if (source, target) in widening:
        dtype = np.float32 if target == "f32" else np.float64
        read = _bf16 if source == "bf16" else (lambda x: flush(x) if ftz else x)
        widen = _finished(lambda x: read(x).astype(dtype), ftz=False, sat=sat)
        return _extended(cursor, source, target, widen)
    mode = cursor.choice(*_MODES)
    if target == "f16" and source in ("f32", "f64"):
        first = flush if ftz else (lambda x: x)
        half = _finished(lambda x: rounding.to_f16(first(x), mode), ftz=False, sat=sat)
        return _extended(cursor, source, "b16", half)
    if target == "bf16" and source == "f32" and mode in ("rn", "rz") and not sat:
        first = flush if ftz else (lambda x: x)
        return _extended(cursor, source, "b16", lambda x: rounding.to_bf16(first(x), mode))
    if (source, target) == ("f64", "f32"):
        single = _finished(lambda x: rounding.to_f32(x, mode), ftz=ftz, sat=sat)
        return elementwise(cursor, ["f64"], single)
    return cursor.refuse(f"conversion from {source} to {target} is not supported")
