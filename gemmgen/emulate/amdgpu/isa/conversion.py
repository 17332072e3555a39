"""Conversions between numbers, and what packs two halves of a register. A NaN keeps its sign and as much of its payload as fits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, put_half
from gemmgen.emulate.amdgpu.isa.floating import Finish, floating, halves_of, quieted
from gemmgen.emulate.amdgpu.operands import DTYPES
from gemmgen.emulate.core import rounding

U16, U32, I32 = DTYPES["u16"], DTYPES["u32"], DTYPES["i32"]
F16, F32, F64 = DTYPES["f16"], DTYPES["f32"], DTYPES["f64"]


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
        halves, high = halves_of(cursor, 1)
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
def packhalves_of(cursor: Cursor):
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
        value = cursor.read(index, "f16")
        return lambda wave: (value(wave).view(U16).astype(U32), None)
    if operand.absolute:
        cursor.refuse("absolute value is not supported here")
    read, sign = cursor.loose(index), np.uint32(0x8000 if operand.negated else 0)
    shift, low = np.uint32(16 * (high or int(operand.half == "h"))), np.uint32(0xFFFF)

    def half(wave):
        value, undefined = read(wave)
        return (value >> shift & low) ^ sign, None if undefined is None else undefined >> shift & low

    return half
