"""Vector instructions on floating-point numbers, and conversions.

Each rounds once, to nearest. A NaN among the operands comes out quieted, the first
one if there are several; an invalid operation gives 0x7fc00000. Reciprocals, which
hardware gives to one unit in the last place, are correctly rounded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, put_half, writes
from gemmgen.emulate.amdgpu.isa.integer import saturating
from gemmgen.emulate.amdgpu.operands import DTYPES, VCC, Read
from gemmgen.emulate.core import rounding

U16, U32, I32 = DTYPES["u16"], DTYPES["u32"], DTYPES["i32"]
F16, F32, F64 = DTYPES["f16"], DTYPES["f32"], DTYPES["f64"]
_FLOATS = ("f16", "f32", "f64")
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
    if finish.clamped and out not in _FLOATS:
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


def _halves(cursor: Cursor, operands: int) -> tuple[tuple[int, ...], int]:
    """Which halves op_sel chooses for the operands, and for the result."""
    *halves, high = cursor.bits("op_sel", (0,) * (operands + 1))
    return tuple(halves), high


for _table, _operands in ((_UNARY, 1), (_BINARY, 2), (_TERNARY, 3)):
    for _operation, _function in _table.items():
        for _type in _FLOATS:

            @instruction(f"v_{_operation}_{_type}")
            def _build(cursor: Cursor, function=_function, type_=_type, operands=_operands):
                cursor.count(1 + operands)
                halves, high = _halves(cursor, operands) if type_ == "f16" else ((), 0)
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


for _type in _FLOATS:

    @instruction(f"v_ldexp_{_type}")
    def _build_ldexp(cursor: Cursor, type_=_type):
        halves, high = _halves(cursor, 2) if type_ == "f16" else ((), 0)
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


# ---------------------------------------------------------------- conversions


def to_integer(dtype: np.dtype, prepare: Callable = np.trunc) -> Callable:
    """To an integer type, kept within its range; NaN gives 0."""
    ends = np.iinfo(dtype)

    def function(x):
        wide = prepare(x.astype(np.float64))
        wide = np.where(wide != wide, 0.0, np.clip(wide, float(ends.min), float(ends.max)))
        return wide.astype(np.int64).astype(dtype)

    return function


def to_f16(x):
    return x.astype(F16)


def toward_zero_f16(x):
    """FP32 to FP16 toward zero: too large a number becomes the largest finite one."""
    near = rounding.to_f16(x, "rz")
    saturated = np.isinf(near) & np.isfinite(x)
    return np.where(saturated, np.copysign(F16.type(65504), near), near)


def to_bf16(x):
    """FP32 to bfloat16 as bits, to nearest; NaN stays NaN, with its upper bits."""
    bits = np.ascontiguousarray(x).view(U32)
    rounded = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))
    return (np.where(x != x, bits | np.uint32(1 << 22), rounded) >> np.uint32(16)).astype(U16)


_CONVERSIONS = {
    "v_cvt_f32_i32": ("i32", "f32", lambda x: x.astype(F32)),
    "v_cvt_f32_u32": ("u32", "f32", lambda x: x.astype(F32)),
    "v_cvt_f64_i32": ("i32", "f64", lambda x: x.astype(F64)),
    "v_cvt_f64_u32": ("u32", "f64", lambda x: x.astype(F64)),
    "v_cvt_i32_f32": ("f32", "i32", to_integer(I32)),
    "v_cvt_u32_f32": ("f32", "u32", to_integer(U32)),
    "v_cvt_i32_f64": ("f64", "i32", to_integer(I32)),
    "v_cvt_u32_f64": ("f64", "u32", to_integer(U32)),
    "v_cvt_rpi_i32_f32": ("f32", "i32", to_integer(I32, lambda x: np.floor(x + 0.5))),
    "v_cvt_flr_i32_f32": ("f32", "i32", to_integer(I32, np.floor)),
    "v_cvt_f16_f32": ("f32", "f16", to_f16),
    "v_cvt_f32_f16": ("f16", "f32", lambda x: x.astype(F32)),
    "v_cvt_f64_f32": ("f32", "f64", lambda x: x.astype(F64)),
    "v_cvt_f32_f64": ("f64", "f32", lambda x: x.astype(F32)),
    "v_cvt_f16_u16": ("u16", "f16", to_f16),
    "v_cvt_f16_i16": ("i16", "f16", to_f16),
    "v_cvt_u16_f16": ("f16", "u16", to_integer(U16)),
    "v_cvt_i16_f16": ("f16", "i16", to_integer(np.dtype(np.int16))),
}
for _byte in range(4):
    _CONVERSIONS[f"v_cvt_f32_ubyte{_byte}"] = (
        "u32", "f32", lambda x, n=np.uint32(8 * _byte): (x >> n & np.uint32(255)).astype(F32)
    )  # fmt: skip
for _name, (_from, _to, _function) in _CONVERSIONS.items():

    @instruction(_name)
    def _build_conversion(cursor: Cursor, from_=_from, to=_to, function=_function):
        cursor.count(2)
        halves, high = _halves(cursor, 1)
        def converted(x):
            result = function(x)
            if x.dtype.kind == "f" and result.dtype.kind == "f" and (x != x).any():
                result = np.where(x != x, _converted_nan(x, result.dtype), result)
            return result

        return floating(cursor, converted, [from_], to, halves=halves, high=high)


def _converted_nan(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """NaNs in another format: sign, quiet bit and as much of the payload as fits."""
    have, want = np.finfo(x.dtype).nmant, np.finfo(dtype).nmant
    raw = quieted(x).view(f"u{x.dtype.itemsize}").astype(np.uint64)
    payload = raw & np.uint64((1 << have) - 1)
    payload = payload << np.uint64(want - have) if want > have else payload >> np.uint64(have - want)
    bits = 8 * dtype.itemsize
    head = np.uint64(((1 << bits - 1) - 1) & ~((1 << want) - 1))
    sign = (raw >> np.uint64(8 * x.dtype.itemsize - 1)) << np.uint64(bits - 1)
    return (sign | head | payload).astype(f"u{dtype.itemsize}").view(dtype)


def packed(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Two 16-bit values as one register."""
    return high.view(U16).astype(U32) << np.uint32(16) | low.view(U16)


_PACKING = {
    "v_cvt_pkrtz_f16_f32": ("f32", lambda x, y: packed(toward_zero_f16(x), toward_zero_f16(y))),
    "v_cvt_pk_f16_f32": ("f32", lambda x, y: packed(to_f16(x), to_f16(y))),
    "v_cvt_pk_bf16_f32": ("f32", lambda x, y: packed(to_bf16(x), to_bf16(y))),
    "v_cvt_pk_u16_u32": ("u32", lambda x, y: packed(*(np.minimum(v, np.uint32(0xFFFF)).astype(U16) for v in (x, y)))),
    "v_cvt_pk_i16_i32": ("i32", lambda x, y: packed(*(np.clip(v, -32768, 32767).astype(np.int16) for v in (x, y)))),
}
for _name, (_from, _function) in _PACKING.items():

    @instruction(_name)
    def _build_packing(cursor: Cursor, from_=_from, function=_function):
        cursor.count(3)
        return floating(cursor, function, [from_] * 2, "u32", arithmetic=False)


def _float8(cursor: Cursor) -> str:
    """The format that the mnemonic's fp8 or bf8 is on this target: CDNA 3 has its own, later ones have OCP's."""
    return ("e4m3" if "fp8" in cursor.name else "e5m2") + ("fnuz" if cursor.target.family == "cdna3" else "")


@instruction("v_cvt_pk_fp8_f32", "v_cvt_pk_bf8_f32")
def pack_float8(cursor: Cursor):
    """Two 8-bit floating-point words in one half of a register, the other of which stays.

    What is too large becomes Inf or NaN: kernels leave the mode bit that would clamp it as it is.
    """
    cursor.count(3)
    word, high = _float8(cursor), cursor.bits("op_sel", (0, 0, 0))[2]
    finish, slot, reads = Finish(cursor, False), cursor.slot(0), [cursor.read(1 + i, "f32") for i in range(2)]

    def function(x, y):
        low, upper = (to_float8(v, word, saturate=False).astype(U16) for v in (x, y))
        return upper << U16.type(8) | low

    return Elementwise(lambda wave: finish(wave, function, [read(wave) for read in reads]), lambda wave, value: put_half(wave, slot, value, high))


@instruction("v_cvt_f32_fp8", "v_cvt_f32_bf8")
def widen_float8(cursor: Cursor):
    """The lowest byte, or that which SDWA or, on RDNA 4, `byte_sel` chooses."""
    cursor.count(2)
    word, shift = _float8(cursor), np.uint32(8 * cursor.number("byte_sel"))
    return floating(cursor, lambda x: decode(word, (x >> shift & np.uint32(255)).astype(np.uint8)), ["u32"], "f32", arithmetic=False)


@instruction("v_pack_b32_f16")
def pack_halves(cursor: Cursor):
    """Two halves of registers, undefined bits and all, as one register."""
    first, second, _ = cursor.bits("op_sel", (0, 0, 0))
    reads = [_loose_half(cursor, 1, first), _loose_half(cursor, 2, second)]
    put = cursor.put(0)

    def run(wave):
        (x, ux), (y, uy) = reads[0](wave), reads[1](wave)
        undefined = None
        if ux is not None or uy is not None:
            zero = np.zeros((), U32)
            undefined = (zero if ux is None else ux) | (zero if uy is None else uy) << np.uint32(16)
        put(wave, x | y << np.uint32(16), undefined)

    return run


def _loose_half(cursor: Cursor, index: int, high: int):
    """A 16-bit operand in the lower half of uint32, and its undefined bits."""
    operand = cursor.operands[index]
    if operand.slot is None:
        value = cursor.read(index, "u16" if not isinstance(operand.constant, float) else "f16")
        return lambda wave: (value(wave).view(U16).astype(U32), None)
    if operand.absolute:
        cursor.refuse("absolute value is not supported here")
    read, sign = cursor.loose(index), np.uint32(0x8000 if operand.negated else 0)
    shift, low = np.uint32(16 * (high or int(operand.half == "h"))), np.uint32(0xFFFF)

    def half(wave):
        value, undefined = read(wave)
        return (value >> shift & low) ^ sign, None if undefined is None else undefined >> shift & low

    return half


# ---------------------------------------------------------------- packed and mixed


def _packed_instruction(cursor: Cursor, function: Callable, type_: str, operands: int) -> Elementwise:
    """The same on both halves of registers (16-bit types) or both registers of pairs (32-bit ones)."""
    cursor.count(1 + operands)
    none, wide = (0,) * operands, DTYPES[type_].itemsize == 4
    sides = []
    for chosen, negated in (
        (cursor.bits("op_sel", none), cursor.bits("neg_lo", none)),
        (cursor.bits("op_sel_hi", (1,) * operands), cursor.bits("neg_hi", none)),
    ):
        reads = [_side(cursor, 1 + i, type_, chosen[i]) for i in range(operands)]
        sides.append([_negated(read) if minus else read for read, minus in zip(reads, negated, strict=True)])
    if type_ not in _FLOATS and cursor.flag("clamp"):
        function = saturating(cursor.name, DTYPES[type_]) or cursor.refuse("clamp is not supported here")
    finish, slot = Finish(cursor), cursor.slot(0, 2 if wide else 1)

    def compute(wave):
        return [finish(wave, function, [read(wave) for read in reads]) for reads in sides]

    def write(wave, parts):
        if wide:
            wave.put(slot, parts[0].view(U32))
            wave.put(slot + 1, parts[1].view(U32))
        else:
            wave.put(slot, packed(*parts))

    return Elementwise(compute, write)


def _negated(read):
    return lambda wave: -read(wave)


def _side(cursor: Cursor, index: int, type_: str, high: int):
    """One half, or one register, of a packed operand. A constant is its own lower part; its upper part is 0
    for 16-bit types (a literal has bits there), and the same again for 32-bit ones."""
    operand = cursor.operands[index]
    if DTYPES[type_].itemsize == 4:
        if operand.slot is None:
            return cursor.read(index, type_)
        slot = cursor.slot(index, 2) + high

        def read(wave):
            if wave.state[slot] is not None:
                wave.check(slot)
            return wave.r[slot].view(DTYPES[type_])

        return read
    if operand.slot is not None:
        return cursor.read(index, type_, high)
    if operand.literal:
        value = np.array(operand.constant >> 16 * high & 0xFFFF, U16).view(DTYPES[type_])
        return lambda wave: value
    if high:
        zero = np.zeros((), DTYPES[type_])
        return (lambda wave: zero) if operand.constant >= 0 or isinstance(operand.constant, float) else _ones(type_)
    return cursor.read(index, type_)


def _ones(type_: str):
    """The upper half of a negative integer constant."""
    value = np.array(0xFFFF, U16).view(DTYPES[type_])
    return lambda wave: value


_PACKED_FLOAT = {"add": (np.add, 2), "mul": (np.multiply, 2), "fma": (fma, 3), "max": (maximum, 2), "min": (minimum, 2)}
for _operation, (_function, _operands) in _PACKED_FLOAT.items():
    for _type in ("f16", "f32"):
        if _type == "f32" and _operation in ("max", "min"):
            continue

        @instruction(f"v_pk_{_operation}_{_type}")
        def _build_packed(cursor: Cursor, function=_function, operands=_operands, type_=_type):
            return _packed_instruction(cursor, function, type_, operands)


_PACKED_INTEGER = {
    "add_u16": (np.add, 2), "sub_u16": (np.subtract, 2), "mul_lo_u16": (np.multiply, 2),
    "add_i16": (np.add, 2), "sub_i16": (np.subtract, 2),
    "max_u16": (np.maximum, 2), "min_u16": (np.minimum, 2), "max_i16": (np.maximum, 2), "min_i16": (np.minimum, 2),
    "mad_u16": (lambda x, y, z: x * y + z, 3), "mad_i16": (lambda x, y, z: x * y + z, 3),
    "lshlrev_b16": (lambda n, x: x << (n & U16.type(15)), 2), "lshrrev_b16": (lambda n, x: x >> (n & U16.type(15)), 2),
    "ashrrev_i16": (lambda n, x: x >> (n & np.int16(15)), 2),
}  # fmt: skip
for _operation, (_function, _operands) in _PACKED_INTEGER.items():

    @instruction(f"v_pk_{_operation}")
    def _build_packed_integer(cursor: Cursor, function=_function, operands=_operands):
        return _packed_instruction(cursor, function, cursor.name[-3:].replace("b16", "u16"), operands)


@instruction("v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16")
def mixed_fma(cursor: Cursor):
    """a * b + c in FP32; operands are FP32, or with op_sel_hi an FP16 in the half that op_sel says. For mixlo
    and mixhi the result is rounded a second time, to FP16."""
    cursor.count(4)
    none = (0, 0, 0)
    high, half = cursor.bits("op_sel", none), cursor.bits("op_sel_hi", none)
    negated, absolute = cursor.bits("neg_lo", none), cursor.bits("neg_hi", none)
    reads = [
        _as_f32(cursor.read(1 + i, "f16" if half[i] else "f32", high[i]), absolute[i], negated[i]) for i in range(3)
    ]
    finish, slot, kind = Finish(cursor), cursor.slot(0), cursor.name[len("v_fma_mix") :]

    def run(wave):
        result = finish(wave, fma, [read(wave) for read in reads])
        if kind == "_f32":
            wave.put(slot, result.view(U32))
        else:
            put_half(wave, slot, wave.flushed(result.astype(F16), 1).view(U16), int(kind == "hi_f16"))

    return run


def _as_f32(read: Read, absolute: int, negated: int) -> Read:
    def widened(wave):
        x = read(wave).astype(F32, copy=False)
        x = np.abs(x) if absolute else x
        return -x if negated else x

    return widened
