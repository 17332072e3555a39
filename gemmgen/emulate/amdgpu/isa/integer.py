"""Vector instructions on integers and bits."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, carried, either, elementwise, loose, put_pair, shuffled, writes
from gemmgen.emulate.amdgpu.operands import DTYPES, VCC
from gemmgen.emulate.core.integer import dot_of_bytes, function_of_bits, high_half, highest_bit, picked_bytes, reversed_bits

U32, U64, I32, I64 = DTYPES["u32"], DTYPES["u64"], DTYPES["i32"], DTYPES["i64"]
_31, _ONE, _ZERO = np.uint32(31), np.uint32(1), np.uint32(0)
_24 = np.uint32(0xFFFFFF)


def _shift_left(x, n):
    return x << (n & x.dtype.type(8 * x.dtype.itemsize - 1))


def _shift_right(x, n):
    return x >> (n & x.dtype.type(8 * x.dtype.itemsize - 1))


def _signed_right(x, n):
    return _shift_right(x.view(f"i{x.dtype.itemsize}"), n.astype(f"i{x.dtype.itemsize}")).view(x.dtype)


def bit_field(x, position, width):
    """`width` bits from `position` on, zero extended."""
    position, width = position & _31, width & _31
    return x >> position & ((_ONE << width) - _ONE)


def signed_bit_field(x, position, width):
    position, width = (position & _31).astype(np.int32), (width & _31).astype(np.int32)
    rest = np.int32(32) - width
    field = (x.view(I32) >> position).astype(np.int32)
    wide = np.where(width == 0, np.int32(0), (field << (rest & np.int32(31))) >> (rest & np.int32(31)))
    return wide.view(U32)


def permute_bytes(x, y, selector):
    """Each byte of the result is one of the eight of y (lowest) and x, a sign, 0 or 255."""
    one = int(selector.flat[0])
    picks = [one >> 8 * i & 0xFF for i in range(4)]
    if all(pick < 8 or pick == 12 for pick in picks) and not np.count_nonzero(selector != selector.flat[0]):
        return picked_bytes((y, x, _ZERO), [min(pick, 8) for pick in picks])
    both = x.astype(U64) << np.uint64(32) | y
    result = np.zeros((), U32)
    for i in range(4):
        pick = selector >> np.uint32(8 * i) & np.uint32(0xFF)
        byte = (both >> ((pick & np.uint32(7)) * np.uint32(8)).astype(U64)).astype(U32) & np.uint32(0xFF)
        # 8 to 11: the sign of byte 1, 3, 5 or 7, eight times
        odd = ((pick & np.uint32(3)) * np.uint32(16) + np.uint32(15)).astype(U64)
        sign = np.where(both >> odd & np.uint64(1) != 0, np.uint32(0xFF), _ZERO)
        byte = np.where(pick < 8, byte, np.where(pick < 12, sign, np.where(pick == 12, _ZERO, np.uint32(0xFF))))
        result = result | byte << np.uint32(8 * i)
    return result


_SHUFFLES = {
    "v_mov_b32": (["u32"], lambda x: x),
    "v_accvgpr_read_b32": (["u32"], lambda x: x),
    "v_accvgpr_write_b32": (["u32"], lambda x: x),
    "v_accvgpr_mov_b32": (["u32"], lambda x: x),
    "v_not_b32": (["u32"], np.invert),
    "v_and_b32": (["u32", "u32"], np.bitwise_and),
    "v_or_b32": (["u32", "u32"], np.bitwise_or),
    "v_or3_b32": (["u32"] * 3, lambda x, y, z: x | y | z),
    "v_and_or_b32": (["u32"] * 3, lambda x, y, z: x & y | z),
    "v_lshl_or_b32": (["u32", "u32!", "u32"], lambda x, n, y: _shift_left(x, n) | y),
    "v_lshlrev_b32": (["u32!", "u32"], lambda n, x: _shift_left(x, n)),
    "v_lshrrev_b32": (["u32!", "u32"], lambda n, x: _shift_right(x, n)),
    "v_ashrrev_i32": (["u32!", "u32"], lambda n, x: _signed_right(x, n)),
    "v_bfi_b32": (["u32!", "u32", "u32"], lambda s, x, y: s & x | ~s & y),
    "v_bfe_u32": (["u32", "u32!", "u32!"], bit_field),
    "v_bfe_i32": (["u32", "u32!", "u32!"], signed_bit_field),
    "v_perm_b32": (["u32", "u32", "u32!"], permute_bytes),
    "v_alignbit_b32": (["u32", "u32", "u32!"], lambda x, y, n: _aligned(x, y, n & _31)),
    "v_alignbyte_b32": (["u32", "u32", "u32!"], lambda x, y, n: _aligned(x, y, (n & np.uint32(3)) * np.uint32(8))),
    "v_bfrev_b32": (["u32"], reversed_bits),
}
_MIXES = {
    "v_xor_b32": (["u32", "u32"], np.bitwise_xor),
    "v_xnor_b32": (["u32", "u32"], lambda x, y: ~(x ^ y)),
    "v_xor3_b32": (["u32"] * 3, lambda x, y, z: x ^ y ^ z),
}
_SUMS = {
    "v_add_u32": (["u32", "u32"], np.add),
    "v_sub_u32": (["u32", "u32"], np.subtract),
    "v_subrev_u32": (["u32", "u32"], lambda x, y: y - x),
    "v_add3_u32": (["u32"] * 3, lambda x, y, z: x + y + z),
    "v_lshl_add_u32": (["u32", "u32!", "u32"], lambda x, n, y: _shift_left(x, n) + y),
    "v_add_lshl_u32": (["u32", "u32", "u32!"], lambda x, y, n: _shift_left(x + y, n)),
    "v_mul_lo_u32": (["u32", "u32"], np.multiply),
    "v_xad_u32": (["u32"] * 3, lambda x, y, z: (x ^ y) + z),
}


def _aligned(x, y, n):
    return ((x.astype(U64) << np.uint64(32) | y) >> n.astype(U64)).astype(U32)


def _register(table: dict, rule) -> None:
    for name, (types, function) in table.items():

        @instruction(name)
        def build(cursor: Cursor, types=types, function=function):
            cursor.count(1 + len(types))
            if cursor.flag("clamp"):
                return _saturated(cursor)
            return loose(cursor, function, types, rule)


_register(_SHUFFLES, shuffled)
_register(_MIXES, either)
_register(_SUMS, carried)


_SIGNS = {"add": (1, 1), "sub": (1, -1), "subrev": (-1, 1)}


def saturating(name: str, dtype: np.dtype):
    """The sum or difference that an instruction's name tells, which stops at the ends of its range; None for other names."""
    signs = _SIGNS.get(name.removeprefix("v_").removeprefix("pk_").partition("_")[0])
    if signs is None:
        return None
    ends = np.iinfo(dtype)
    return lambda x, y: np.clip(signs[0] * x.astype(I64) + signs[1] * y.astype(I64), ends.min, ends.max).astype(dtype)


def _saturated(cursor: Cursor):
    function = saturating(cursor.name, U32)
    if function is None:
        cursor.refuse("clamp is not supported here")
    return elementwise(cursor, function, ["u32", "u32"])


# ---------------------------------------------------------------- 64 bits


@instruction("v_mov_b64")
def move_64(cursor: Cursor):
    cursor.count(2)
    return loose(cursor, lambda x: x, ["u64"], out="u64")


def _picked(cursor: Cursor, index: int, pick: int):
    """How to read a register of an operand's pair, with what is undefined in it; a constant has no second half."""
    if cursor.operands[index].constant is not None:
        if pick:
            cursor.refuse("a constant's second half is not supported here")
        return cursor.loose(index)
    slot = cursor.slot(index, 2) + pick
    return lambda wave: (wave.r[slot], None if wave.state[slot] is None else wave.undefined(slot))


@instruction("v_pk_mov_b32")
def packed_move(cursor: Cursor):
    """Two registers, each one of an operand's pair, or a constant."""
    picks = cursor.bits("op_sel", (0, 0))
    cursor.bits("op_sel_hi", (1, 1))
    reads = [_picked(cursor, i, pick) for i, pick in zip((1, 2), picks, strict=True)]
    target = cursor.slot(0, 2)

    def run(wave):
        results = [read(wave) for read in reads]
        for i, result in enumerate(results):
            wave.put(target + i, *result)

    return run


@instruction("v_lshlrev_b64", "v_lshrrev_b64", "v_ashrrev_i64")
def shift_64(cursor: Cursor):
    shift = {"v_lshlrev_b64": _shift_left, "v_lshrrev_b64": _shift_right, "v_ashrrev_i64": _signed_right}[cursor.name]
    return loose(cursor, lambda n, x: shift(x, n.astype(U64)), ["u32!", "u64"], out="u64")


@instruction("v_lshl_add_u64")
def shift_add_64(cursor: Cursor):
    return loose(cursor, lambda x, n, y: _shift_left(x, n.astype(U64)) + y, ["u64", "u32!", "u64"], carried, out="u64")


@instruction("v_add_u64", "v_sub_u64", "v_mul_u64")
def arithmetic_64(cursor: Cursor):
    function = {"v_add_u64": np.add, "v_sub_u64": np.subtract, "v_mul_u64": np.multiply}[cursor.name]
    return loose(cursor, function, ["u64", "u64"], carried, out="u64")


@instruction("v_mad_u64_u32", "v_mad_i64_i32")
def multiply_add_64(cursor: Cursor):
    """The carry out is rarely wanted; it goes to the scalar registers of operand 1."""
    cursor.count(5)
    carry = cursor.mask_slot(1)
    left, right = cursor.read(2, "u32"), cursor.read(3, "u32")
    addend, target = cursor.loose(4, "u64"), cursor.slot(0, 2)
    signed = cursor.name == "v_mad_i64_i32"

    def run(wave):
        x, y = left(wave), right(wave)
        product = x.view(I32).astype(I64) * y.view(I32).astype(I64) if signed else x.astype(U64) * y.astype(U64)
        z, undefined = addend(wave)
        product = product.view(U64)
        total = product + z
        put_pair(wave, target, total, None if undefined is None else carried(None, [undefined], [z]))
        if carry >= 0:
            wave.put_mask(carry, total < product if not signed else (total.view(I64) < product.view(I64)) != (z.view(I64) < 0))

    return run


# ---------------------------------------------------------------- carries


@instruction("v_add_co_u32", "v_sub_co_u32", "v_subrev_co_u32", "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32")
def with_carry(cursor: Cursor):
    """Sum or difference with a carry out, and with one in where there is a fifth operand."""
    takes = cursor.name in ("v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32")
    cursor.count(5 if takes else 4)
    if cursor.flag("clamp"):
        cursor.refuse("clamp is not supported here")
    slot, carry = cursor.slot(0), cursor.mask_slot(1)
    left, right = cursor.read(2, "u32"), cursor.read(3, "u32")
    taken = cursor.mask_slot(4) if takes else None
    add, reverse = "add" in cursor.name, "rev" in cursor.name

    def run(wave):
        x, y = left(wave), right(wave)
        if reverse:
            x, y = y, x
        extra = wave.mask_of(taken).astype(I64) if takes else 0
        total = x.astype(I64) + y + extra if add else x.astype(I64) - y - extra
        wave.put(slot, total.astype(U32))
        wave.put_mask(carry, (total > 0xFFFFFFFF) | (total < 0))

    return run


# ---------------------------------------------------------------- arithmetic whose operands must be defined


def _low_24(x):
    return x & _24


def _signed_24(x):
    return (x << np.uint32(8)).view(I32) >> np.int32(8)


def count_leading_zeros(x):
    """-1 for zero."""
    top = highest_bit(x)
    return np.where(top < 0, top, np.int32(8 * x.dtype.itemsize - 1) - top).view(U32)


def count_trailing_zeros(x):
    """-1 for zero."""
    return highest_bit(x & (~x + x.dtype.type(1))).view(U32)


def count_leading_signs(x):
    """Bits above the highest that differs from the sign; -1 if none does."""
    signed = x.view(f"i{x.dtype.itemsize}")
    return count_leading_zeros(np.where(signed < 0, ~x, x))


def _middle(x, y, z):
    return np.maximum(np.minimum(x, y), np.minimum(np.maximum(x, y), z))


_STRICT = {
    "v_mul_u32_u24": (["u32"] * 2, "u32", lambda x, y: _low_24(x) * _low_24(y)),
    "v_mul_hi_u32_u24": (["u32"] * 2, "u32", lambda x, y: high_half(_low_24(x), _low_24(y))),
    "v_mul_i32_i24": (["u32"] * 2, "i32", lambda x, y: _signed_24(x) * _signed_24(y)),
    "v_mad_u32_u24": (["u32"] * 3, "u32", lambda x, y, z: _low_24(x) * _low_24(y) + z),
    "v_mad_i32_i24": (["u32", "u32", "i32"], "i32", lambda x, y, z: _signed_24(x) * _signed_24(y) + z),
    "v_mul_hi_u32": (["u32"] * 2, "u32", high_half),
    "v_mul_hi_i32": (["i32"] * 2, "i32", high_half),
    "v_min_u32": (["u32"] * 2, "u32", np.minimum),
    "v_max_u32": (["u32"] * 2, "u32", np.maximum),
    "v_min_i32": (["i32"] * 2, "i32", np.minimum),
    "v_max_i32": (["i32"] * 2, "i32", np.maximum),
    "v_min3_u32": (["u32"] * 3, "u32", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
    "v_max3_u32": (["u32"] * 3, "u32", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "v_min3_i32": (["i32"] * 3, "i32", lambda x, y, z: np.minimum(np.minimum(x, y), z)),
    "v_max3_i32": (["i32"] * 3, "i32", lambda x, y, z: np.maximum(np.maximum(x, y), z)),
    "v_maxmin_u32": (["u32"] * 3, "u32", lambda x, y, z: np.minimum(np.maximum(x, y), z)),
    "v_maxmin_i32": (["i32"] * 3, "i32", lambda x, y, z: np.minimum(np.maximum(x, y), z)),
    "v_minmax_u32": (["u32"] * 3, "u32", lambda x, y, z: np.maximum(np.minimum(x, y), z)),
    "v_minmax_i32": (["i32"] * 3, "i32", lambda x, y, z: np.maximum(np.minimum(x, y), z)),
    "v_med3_u32": (["u32"] * 3, "u32", _middle),
    "v_med3_i32": (["i32"] * 3, "i32", _middle),
    "v_sad_u32": (["u32"] * 3, "u32", lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z),
    "v_bcnt_u32_b32": (["u32"] * 2, "u32", lambda x, y: np.bitwise_count(x).astype(U32) + y),
    "v_ffbh_u32": (["u32"], "u32", count_leading_zeros),
    "v_ffbh_i32": (["u32"], "u32", count_leading_signs),
    "v_ffbl_b32": (["u32"], "u32", count_trailing_zeros),
    "v_bfm_b32": (["u32"] * 2, "u32", lambda x, y: ((_ONE << (x & _31)) - _ONE) << (y & _31)),
}
for _name, (_types, _out, _function) in _STRICT.items():

    @instruction(_name)
    def _build(cursor: Cursor, types=_types, out=_out, function=_function):
        cursor.count(1 + len(types))
        return elementwise(cursor, function, types, out)


@instruction("v_add_i32", "v_sub_i32")
def signed_sum(cursor: Cursor):
    plain = np.add if cursor.name == "v_add_i32" else np.subtract
    return elementwise(cursor, saturating(cursor.name, I32) if cursor.flag("clamp") else plain, ["i32", "i32"], "i32")


@instruction("v_dot4c_i32_i8")
def dot_onto(cursor: Cursor):
    """The result is the third operand too."""
    cursor.count(3)
    reads = [cursor.read(1, "u32"), cursor.read(2, "u32"), cursor.read(0, "i32")]
    return Elementwise(lambda wave: dot_of_bytes(*(read(wave) for read in reads)), writes(cursor, 0, "i32"))


@instruction("v_dot4_i32_i8", "v_dot4_i32_iu8")
def dot(cursor: Cursor):
    """Of the second, `neg_lo` tells which operands are signed: both, or it is refused."""
    cursor.count(4)
    if cursor.name == "v_dot4_i32_iu8" and cursor.bits("neg_lo", (0, 0, 0)) != (1, 1, 0):
        cursor.refuse("bytes without a sign are not supported here")
    return elementwise(cursor, dot_of_bytes, ["u32", "u32", "i32"], "i32")


# ---------------------------------------------------------------- 16 bits

_SHORT = {
    "v_add_u16": (["u16"] * 2, "u16", np.add),
    "v_sub_u16": (["u16"] * 2, "u16", np.subtract),
    "v_subrev_u16": (["u16"] * 2, "u16", lambda x, y: y - x),
    "v_add_i16": (["i16"] * 2, "i16", np.add),
    "v_sub_i16": (["i16"] * 2, "i16", np.subtract),
    "v_mul_lo_u16": (["u16"] * 2, "u16", np.multiply),
    "v_mad_u16": (["u16"] * 3, "u16", lambda x, y, z: x * y + z),
    "v_mad_i16": (["i16"] * 3, "i16", lambda x, y, z: x * y + z),
    "v_mad_legacy_u16": (["u16"] * 3, "u16", lambda x, y, z: x * y + z),
    "v_lshlrev_b16": (["u16"] * 2, "u16", lambda n, x: _shift_left(x, n)),
    "v_lshrrev_b16": (["u16"] * 2, "u16", lambda n, x: _shift_right(x, n)),
    "v_ashrrev_i16": (["u16"] * 2, "u16", lambda n, x: _signed_right(x, n)),
    "v_min_u16": (["u16"] * 2, "u16", np.minimum),
    "v_max_u16": (["u16"] * 2, "u16", np.maximum),
    "v_min_i16": (["i16"] * 2, "i16", np.minimum),
    "v_max_i16": (["i16"] * 2, "i16", np.maximum),
    "v_and_b16": (["u16"] * 2, "u16", np.bitwise_and),
    "v_or_b16": (["u16"] * 2, "u16", np.bitwise_or),
    "v_xor_b16": (["u16"] * 2, "u16", np.bitwise_xor),
    "v_not_b16": (["u16"], "u16", np.invert),
    "v_mov_b16": (["u16"], "u16", lambda x: x),
    "v_mad_u32_u16": (["u16", "u16", "u32"], "u32", lambda x, y, z: x.astype(U32) * y.astype(U32) + z),
    "v_mad_i32_i16": (["i16", "i16", "i32"], "i32", lambda x, y, z: x.astype(I32) * y.astype(I32) + z),
    "v_cvt_u32_u16": (["u16"], "u32", lambda x: x.astype(U32)),
    "v_cvt_i32_i16": (["i16"], "i32", lambda x: x.astype(I32)),
}
for _name, (_types, _out, _function) in _SHORT.items():

    @instruction(_name)
    def _build_short(cursor: Cursor, types=_types, out=_out, function=_function):
        """Halves of registers, named by `.l` and `.h` or chosen by op_sel, whose last bit is the result's."""
        cursor.count(1 + len(types))
        *halves, high = cursor.bits("op_sel", (0,) * (len(types) + 1))
        if cursor.flag("clamp"):
            function = saturating(cursor.name, DTYPES[out]) or cursor.refuse("clamp is not supported here")
        return elementwise(cursor, function, types, out, halves=halves, high=high)


# ---------------------------------------------------------------- comparing and choosing


@instruction("v_cndmask_b32")
def choose(cursor: Cursor):
    """The second operand where the mask is set, else the first; the mask may be implied."""
    mask = cursor.mask_slot(3) if cursor.count(3, 4) == 4 else VCC
    reads = [_sign_changed(cursor, i) for i in (1, 2)]
    put = cursor.put(0)

    def compute(wave):
        (x, ux), (y, uy) = reads[0](wave), reads[1](wave)
        chosen = wave.mask_of(mask)
        undefined = None
        if ux is not None or uy is not None:
            undefined = np.where(chosen, _ZERO if uy is None else uy, _ZERO if ux is None else ux)
        return np.where(chosen, y, x), undefined

    return Elementwise(compute, lambda wave, result: put(wave, *result))


@instruction("v_cndmask_b16")
def choose_half(cursor: Cursor):
    """Likewise of halves of registers, which must be defined."""
    cursor.count(4)
    mask, first, second = cursor.mask_slot(3), cursor.read(1, "u16"), cursor.read(2, "u16")
    return Elementwise(lambda wave: np.where(wave.mask_of(mask), second(wave), first(wave)), writes(cursor, 0, "u16"))


def _sign_changed(cursor: Cursor, index: int):
    """An operand with its undefined bits; modifiers act on it as on FP32."""
    operand, read = cursor.operands[index], cursor.loose(index)
    if not (operand.negated or operand.absolute) or operand.slot is None:
        return read
    sign = np.uint32(1 << 31)

    def changed(wave):
        value, undefined = read(wave)
        value = value & ~sign if operand.absolute else value
        return value ^ sign if operand.negated else value, undefined

    return changed


@instruction("v_bitop3_b32", "v_bitop3_b16")
def any_logic(cursor: Cursor):
    """Any function of three bits, by its table."""
    cursor.count(4)
    table, type_ = cursor.number("bitop3"), "u" + cursor.name[-2:]
    *halves, high = cursor.bits("op_sel", (0, 0, 0, 0))
    return elementwise(cursor, function_of_bits(table, DTYPES[type_]), [type_] * 3, type_, halves=halves, high=high)


@instruction("v_swap_b32")
def swap(cursor: Cursor):
    first, second = cursor.slot(0), cursor.slot(1)

    def run(wave):
        x, y = ((wave.r[slot], None if wave.state[slot] is None else wave.undefined(slot)) for slot in (first, second))
        wave.put(first, *y)
        wave.put(second, *x)

    return run
