"""Vector instructions on floating-point numbers.

Each rounds once, to nearest. A NaN among the operands comes out quieted, the first
one if there are several; an invalid operation gives 0x7fc00000. Reciprocals, which
hardware gives to one unit in the last place, are correctly rounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, writes
from gemmgen.emulate.amdgpu.operands import DTYPES, VCC, Read
from gemmgen.emulate.core import rounding

U16, U32, I32 = DTYPES["u16"], DTYPES["u32"], DTYPES["i32"]
F16, F32, F64 = DTYPES["f16"], DTYPES["f32"], DTYPES["f64"]
FLOATS = ("f16", "f32", "f64")
_DEFAULT_NAN = {
    F16: np.array(0x7E00, np.uint16).view(F16),
    F32: np.array(0x7FC00000, np.uint32).view(F32),
    F64: np.array(0x7FF8000000000000, np.uint64).view(F64),
}


def quieted(x: np.ndarray) -> np.ndarray:
    """Every NaN with its quiet bit set."""
    raw = x.view(f"u{x.dtype.itemsize}")
    bit = raw.dtype.type(1) << raw.dtype.type(np.finfo(x.dtype).nmant - 1)
    return np.where(x != x, raw | bit, raw).view(x.dtype)


def with_nans(result: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """NaNs of a result as the hardware makes them out of its operands; those of a conversion are as it made them."""
    odd = result != result
    formats = {x.dtype for x in operands if x.dtype.kind == "f"}
    if not odd.any() or formats and result.dtype not in formats:
        return result
    nan = _DEFAULT_NAN[result.dtype]
    for x in operands[::-1]:
        if x.dtype == result.dtype:
            nan = np.where(x != x, quieted(x), nan)
    return np.where(odd, nan, result)


class Finish:
    """What surrounds an operation: subnormals flushed where the mode says so, NaNs as the hardware makes
    them, and the modifiers of its result.

    Args:
        arithmetic: whether the mode of subnormals concerns it.
    """

    def __init__(self, cursor: Cursor, arithmetic: bool = True):
        self.arithmetic, self.clamped, self.scale = arithmetic, cursor.flag("clamp"), None
        if "mul" in cursor.modifiers:
            self.scale = float(cursor.number("mul"))
        elif "div" in cursor.modifiers:
            self.scale = 1 / cursor.number("div")

    def __call__(self, wave, function: Callable, values: Sequence[np.ndarray]) -> np.ndarray:
        """`function` of the values, which rounds once."""
        if wave.lanes is not None and values[0].dtype == F64:  # lanes that are off hold any bits, which take exact fractions to compute with
            values = [np.where(wave.lanes, x, x.dtype.type(0)) for x in values]
        flushing = self.arithmetic and (wave.flush32 is not None or wave.flush16 is not None)
        if flushing:
            values = [wave.flushed(x) if x.dtype.kind == "f" else x for x in values]
        result = function(*values)
        if result.dtype.kind != "f":
            return result
        result = with_nans(result, values)
        if self.scale is not None:
            result = result * result.dtype.type(self.scale)
        if self.clamped:
            result = np.where(result != result, result.dtype.type(0), np.clip(result, 0, 1))
        return wave.flushed(result, 1) if flushing else result


def floating(
    cursor: Cursor, function: Callable, types: Sequence[str], out: str, halves: Sequence[int] = (), high: int = 0,
    arithmetic: bool = True,
) -> Elementwise:
    """An instruction on floating-point operands, with the modifiers those may have.

    Args:
        function: of the operands' arrays; rounds once.
        types: of the operands, which follow the result; out: of the result.
        halves, high: which half 16-bit operands are read from, and the result is written to.
        arithmetic: whether the mode of subnormals concerns it.
    """
    halves = tuple(halves) or (0,) * len(types)
    reads = [cursor.read(1 + i, type_, half) for i, (type_, half) in enumerate(zip(types, halves, strict=True))]
    return on_reads(cursor, function, reads, out, high, arithmetic)


def on_reads(
    cursor: Cursor, function: Callable, reads: Sequence[Read], out: str, high: int = 0, arithmetic: bool = True
) -> Elementwise:
    """The same, given how to read the operands."""
    finish = Finish(cursor, arithmetic)
    if finish.clamped and out not in FLOATS:
        cursor.refuse("clamp is not supported here")
    return Elementwise(lambda wave: finish(wave, function, [read(wave) for read in reads]), writes(cursor, 0, out, high))


# ---------------------------------------------------------------- the operations


def fma(x, y, z):
    """x * y + z, rounded once."""
    if x.dtype == F32:
        return rounding.fma(*np.broadcast_arrays(x, y, z))
    if x.dtype == F16:
        return rounding.fma_f16(*np.broadcast_arrays(x, y, z))
    return rounding.fma_f64(*np.broadcast_arrays(x, y, z))


def _number_or_other(pick: Callable) -> Callable:
    """Minimum or maximum in which a quiet NaN gives way to a number; -0 is below +0."""

    def function(x, y):
        both = pick(x, y)
        if (x == y).any():
            zero = (x == 0) & (y == 0)
            raw = f"u{x.dtype.itemsize}"
            signs = x.view(raw) | y.view(raw) if pick is np.fmin else x.view(raw) & y.view(raw)
            both = np.where(zero, signs.view(x.dtype), both)
        return both

    return function


maximum, minimum = _number_or_other(np.fmax), _number_or_other(np.fmin)


def _legacy_product(x, y):
    return np.where((x == 0) | (y == 0), x.dtype.type(0), x * y)


def _fraction(x):
    largest = np.nextafter(x.dtype.type(1), x.dtype.type(0))
    return np.minimum(x - np.floor(x), largest)


def ldexp(x, n):
    """x * 2**n, rounded once."""
    n = np.clip(n.astype(np.int64), -5000, 5000).astype(np.int32)
    if x.dtype == F64:
        return np.ldexp(x, n)
    return np.ldexp(x.astype(np.float64), np.clip(n, -600, 600)).astype(x.dtype)


def mantissa(x):
    """In [0.5, 1), Inf and NaN as they are."""
    return np.where(np.isfinite(x), np.frexp(x)[0], x)


def exponent(x):
    """Of the above; 0 for Inf, NaN and 0."""
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(np.int32)


def _middle(x, y, z):
    middle = maximum(minimum(x, y), minimum(maximum(x, y), z))
    odd = (x != x) | (y != y) | (z != z)
    return np.where(odd, minimum(minimum(x, y), z), middle)


def _in_f64(function: Callable) -> Callable:
    """Of narrower operands through FP64, whose error is far below half an ulp of theirs."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


_UNARY = {
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rndne": np.rint, "fract": _fraction,
    "rcp": _in_f64(lambda x: 1 / x), "rcp_iflag": _in_f64(lambda x: 1 / x), "sqrt": _in_f64(np.sqrt),
    "rsq": _in_f64(lambda x: 1 / np.sqrt(x)), "exp": _in_f64(np.exp2), "log": _in_f64(np.log2),
    "frexp_mant": mantissa,
}  # fmt: skip
_BINARY = {
    "add": np.add, "sub": np.subtract, "subrev": lambda x, y: y - x, "mul": np.multiply,
    "mul_legacy": _legacy_product, "max": maximum, "min": minimum,
}  # fmt: skip
_TERNARY = {
    "fma": fma, "med3": _middle,
    "max3": lambda x, y, z: maximum(maximum(x, y), z), "min3": lambda x, y, z: minimum(minimum(x, y), z),
    "maxmin": lambda x, y, z: minimum(maximum(x, y), z), "minmax": lambda x, y, z: maximum(minimum(x, y), z),
}  # fmt: skip


def halves_of(cursor: Cursor, operands: int) -> tuple[tuple[int, ...], int]:
    """Which halves op_sel chooses for the operands, and for the result."""
    *halves, high = cursor.bits("op_sel", (0,) * (operands + 1))
    return tuple(halves), high


for _table, _operands in ((_UNARY, 1), (_BINARY, 2), (_TERNARY, 3)):
    for _operation, _function in _table.items():
        for _type in FLOATS:

            @instruction(f"v_{_operation}_{_type}")
            def _build(cursor: Cursor, function=_function, type_=_type, operands=_operands):
                cursor.count(1 + operands)
                halves, high = halves_of(cursor, operands) if type_ == "f16" else ((), 0)
                return floating(cursor, function, [type_] * operands, type_, halves=halves, high=high)


@instruction("v_fmac_f32", "v_fmac_f16", "v_fmac_f64")
def accumulate(cursor: Cursor):
    """The result is the third operand too."""
    cursor.count(3)
    type_ = cursor.name[-3:]
    return on_reads(cursor, fma, [cursor.read(i, type_) for i in (1, 2, 0)], type_)


def unfused(x, y, z):
    """x * y + z, rounded twice, with all subnormals flushed."""
    small = rounding.flush
    return small(small(small(x) * small(y)) + small(z))


@instruction("v_mad_f32", "v_madak_f32", "v_madmk_f32", "v_mac_f32")
def multiply_add(cursor: Cursor):
    """CDNA 2's, which is not fused and does not know subnormals: the compiler uses it where they cannot matter."""
    takes_result = cursor.name == "v_mac_f32"
    cursor.count(3 if takes_result else 4)
    order = (1, 2, 0) if takes_result else (1, 2, 3)
    return on_reads(cursor, unfused, [cursor.read(i, "f32") for i in order], "f32", arithmetic=False)


@instruction("v_fmaak_f32", "v_fmamk_f32", "v_fmaak_f16", "v_fmamk_f16")
def with_constant(cursor: Cursor):
    """fmaak: a * b + K; fmamk: a * K + b; as written, both are a * b + c."""
    cursor.count(4)
    type_ = cursor.name[-3:]
    return floating(cursor, fma, [type_] * 3, type_)


for _type in FLOATS:

    @instruction(f"v_ldexp_{_type}")
    def _build_ldexp(cursor: Cursor, type_=_type):
        halves, high = halves_of(cursor, 2) if type_ == "f16" else ((), 0)
        exponent_type = "i16" if type_ == "f16" else "i32"
        return floating(cursor, ldexp, [type_, exponent_type], type_, halves=halves, high=high)

    @instruction(f"v_frexp_exp_i{16 if _type == 'f16' else 32}_{_type}")
    def _build_exponent(cursor: Cursor, type_=_type):
        if type_ == "f16":
            return floating(cursor, lambda x: exponent(x).astype(np.int16), ["f16"], "i16")
        return floating(cursor, exponent, [type_], "i32")


# ---------------------------------------------------------------- division


@instruction("v_div_scale_f32", "v_div_scale_f64")
def division_scale(cursor: Cursor):
    """Scales the denominator (operand 3) or the numerator (4), whichever operand 2 repeats, where the steps to
    the quotient could leave the format's range; VCC says that the quotient must be scaled back."""
    type_ = cursor.name[-3:]
    info = np.finfo(DTYPES[type_])
    scale, wide = (64, 96) if type_ == "f32" else (128, 768)
    mask = cursor.mask_slot(1)
    reads = [cursor.read(2 + i, type_) for i in range(3)]
    write = writes(cursor, 0, type_)

    def run(wave):
        chosen, denominator, numerator = np.broadcast_arrays(*[read(wave) for read in reads])
        above, below = (np.frexp(x)[1] for x in (numerator, denominator))
        quotient = np.abs(numerator / denominator)
        near_largest = above - below >= wide
        subnormal_divisor = np.abs(denominator) < info.smallest_normal
        subnormal_inverse = np.abs(1 / denominator) < info.smallest_normal
        subnormal_quotient = quotient < info.smallest_normal
        tiny = above <= info.minexp + info.nmant
        of_denominator, of_numerator = chosen == denominator, chosen == numerator
        cases = [  # the first that holds: (when, power of the scale, what it applies to, whether to scale back)
            (near_largest, scale, of_denominator, True),
            (subnormal_divisor, scale, True, False),
            (subnormal_inverse & subnormal_quotient, -scale, of_denominator, True),
            (subnormal_inverse, -scale, True, False),
            (subnormal_quotient, scale, of_numerator, True),
            (tiny, scale, True, False),
        ]
        result, back = chosen, np.zeros(chosen.shape, bool)
        for when, power, applies, scaled_back in cases[::-1]:
            scaled = np.where(applies, ldexp(chosen, np.full(chosen.shape, power)), chosen)
            result, back = np.where(when, scaled, result), np.where(when, scaled_back, back)
        zero = (denominator == 0) | (numerator == 0)
        write(wave, np.where(zero, _DEFAULT_NAN[chosen.dtype], result))
        back = back & ~zero
        wave.put_mask(mask, back if wave.lanes is None else back & wave.lanes)

    return run


@instruction("v_div_fmas_f32", "v_div_fmas_f64")
def division_fma(cursor: Cursor):
    """a * b + c, scaled back where VCC says so."""
    cursor.count(4)
    type_ = cursor.name[-3:]
    reads = [cursor.read(1 + i, type_) for i in range(3)]
    write = writes(cursor, 0, type_)
    scale = 64 if type_ == "f32" else 128

    def run(wave):
        values = np.broadcast_arrays(*[read(wave) for read in reads])
        power = np.where(wave.mask_of(VCC), np.where(np.abs(values[2]) >= 2, scale, -scale), 0)
        if type_ == "f32":  # rounded once, after scaling
            x, y, z = (value.astype(F64) for value in values)
            result = np.ldexp(rounding.add_to_odd(x * y, z), power).astype(F32)
        else:
            result = ldexp(fma(*values), power)
        write(wave, with_nans(result, values))

    return run


@instruction("v_div_fixup_f32", "v_div_fixup_f64", "v_div_fixup_f16")
def division_fixup(cursor: Cursor):
    """The quotient (operand 1) of the numerator (3) by the denominator (2), with special cases put right."""

    def function(quotient, denominator, numerator):
        dtype, info = quotient.dtype, np.finfo(quotient.dtype)
        below = np.frexp(numerator)[1] - np.frexp(denominator)[1] < info.minexp - info.nmant - 1
        result = np.where(below, dtype.type(0), np.where(np.isfinite(quotient), np.abs(quotient), dtype.type(np.inf)))
        result = np.where(np.isinf(denominator) | (numerator == 0), dtype.type(0), result)
        result = np.where(np.isinf(numerator) | (denominator == 0), dtype.type(np.inf), result)
        result = np.where(np.signbit(denominator) != np.signbit(numerator), -result, result)
        invalid = (denominator == 0) & (numerator == 0) | np.isinf(denominator) & np.isinf(numerator)
        result = np.where(invalid, -_DEFAULT_NAN[dtype], result)
        result = np.where(denominator != denominator, quieted(denominator), result)
        return np.where(numerator != numerator, quieted(numerator), result).astype(dtype)

    type_ = cursor.name[-3:]
    return floating(cursor, function, [type_] * 3, type_, arithmetic=False)
