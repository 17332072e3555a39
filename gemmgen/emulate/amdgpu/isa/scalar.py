"""Scalar instructions: one value a wave."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, called, either, loose, put_pair, shuffled, writes
from gemmgen.emulate.amdgpu.isa.conversion import packed, to_f16, to_integer, toward_zero_f16
from gemmgen.emulate.amdgpu.isa.floating import fma, maximum, minimum, with_nans
from gemmgen.emulate.amdgpu.isa.integer import bit_field, count_leading_signs, count_leading_zeros, count_trailing_zeros, signed_bit_field
from gemmgen.emulate.amdgpu.operands import DTYPES, EXEC
from gemmgen.emulate.core.integer import high_half, reversed_bits

U32, U64, I32, I64, F32 = DTYPES["u32"], DTYPES["u64"], DTYPES["i32"], DTYPES["i64"], DTYPES["f32"]


def scalar(
    cursor: Cursor, function: Callable, types: Sequence[str], out: str, scc: Callable | None = None, first: int = 1
) -> Elementwise:
    """An instruction whose operands must be defined.

    Args:
        function: of the operands, gives the result, or where `scc` is None and it gives two, result and SCC.
        scc: of the result.
    """
    compute = called(function, [cursor.read(first + i, type_) for i, type_ in enumerate(types)])
    write = writes(cursor, 0, out)

    def finish(wave, result):
        flag = None
        if isinstance(result, tuple):
            result, flag = result
        elif scc is not None:
            flag = scc(result)
        write(wave, result)
        if flag is not None:
            wave.put_scc(flag)

    return Elementwise(compute, finish)


def nonzero(x):
    return x != 0


def _loose_with_scc(cursor: Cursor, function: Callable, types: Sequence[str], rule: Callable, out: str) -> Elementwise:
    """Carries undefined bits along; SCC, where the instruction sets it, says whether the result is not 0."""
    inner = loose(cursor, function, types, rule, out)

    def write(wave, result):
        inner.write(wave, result)
        wave.put_scc(result[0] != 0)

    return Elementwise(inner.compute, write)


# ---------------------------------------------------------------- moves and bits

_MOVES = {
    "s_mov_b32": ("u32", lambda x: x), "s_mov_b64": ("u64", lambda x: x), "s_brev_b32": ("u32", reversed_bits),
    "s_brev_b64": ("u64", reversed_bits),
    "s_sext_i32_i8": ("u32", lambda x: x.astype(np.int8).astype(I32).view(U32)),
    "s_sext_i32_i16": ("u32", lambda x: x.astype(np.int16).astype(I32).view(U32)),
}  # fmt: skip
for _name, (_type, _function) in _MOVES.items():

    @instruction(_name)
    def _build_move(cursor: Cursor, type_=_type, function=_function):
        cursor.count(2)
        return loose(cursor, function, [type_], out=type_)


def _n(x, n):
    return n.astype(x.dtype) & x.dtype.type(8 * x.dtype.itemsize - 1)


_LOGIC = {
    "not": (lambda x: ~x, 1, shuffled),
    "and": (lambda x, y: x & y, 2, shuffled), "or": (lambda x, y: x | y, 2, shuffled),
    "xor": (lambda x, y: x ^ y, 2, either), "xnor": (lambda x, y: ~(x ^ y), 2, either),
    "nand": (lambda x, y: ~(x & y), 2, shuffled), "nor": (lambda x, y: ~(x | y), 2, shuffled),
    "andn2": (lambda x, y: x & ~y, 2, shuffled), "orn2": (lambda x, y: x | ~y, 2, shuffled),
}  # fmt: skip
_SHIFTS = {
    "lshl_b": lambda x, n: x << _n(x, n),
    "lshr_b": lambda x, n: x >> _n(x, n),
    "ashr_i": lambda x, n: (x.view(f"i{x.dtype.itemsize}") >> _n(x, n).astype(f"i{x.dtype.itemsize}")).view(x.dtype),
}
for _bits in ("32", "64"):
    for _operation, (_function, _operands, _rule) in _LOGIC.items():

        @instruction(f"s_{_operation}_b{_bits}")
        def _build_logic(cursor: Cursor, function=_function, operands=_operands, rule=_rule, type_=f"u{_bits}"):
            cursor.count(1 + operands)
            types = [type_] * operands
            if cursor.name.startswith(("s_andn2", "s_orn2")):
                types[1] += "!"  # its bits act the other way round
            return _loose_with_scc(cursor, function, types, rule, type_)

    for _operation, _function in _SHIFTS.items():

        @instruction(f"s_{_operation}{_bits}")
        def _build_shift(cursor: Cursor, function=_function, type_=f"u{_bits}"):
            cursor.count(3)
            return _loose_with_scc(cursor, function, [type_, "u32!"], shuffled, type_)

    for _operation, _function in (("and", lambda x, e: x & e), ("or", lambda x, e: x | e), ("xor", lambda x, e: x ^ e),
                                  ("andn1", lambda x, e: ~x & e), ("andn2", lambda x, e: x & ~e),
                                  ("orn1", lambda x, e: ~x | e), ("orn2", lambda x, e: x | ~e)):  # fmt: skip
        for _saves in ("saveexec", "wrexec"):

            @instruction(f"s_{_operation}_{_saves}_b{_bits}")
            def _build_exec(cursor: Cursor, function=_function, type_=f"u{_bits}"):
                """EXEC becomes a function of an operand and itself; the target gets the old EXEC, or the new one."""
                cursor.count(2)
                read, wide = cursor.read(1, type_), type_ == "u64"
                slot, saves = cursor.slot(0, 2 if wide else 1), "saveexec" in cursor.name

                def put(wave, to, value):
                    put_pair(wave, to, value) if wide else wave.put(to, value)

                def run(wave):
                    low = wave.r[EXEC]
                    old = low.astype(U64) | wave.r[EXEC + 1].astype(U64) << np.uint64(32) if wide else low
                    new = function(read(wave), old)
                    put(wave, slot, old if saves else new)
                    put(wave, EXEC, new)
                    wave.put_scc(new != 0)

                return run


def _bit_field_64(x, position, width, signed):
    rest = np.uint64(64) - width
    shifted = (x.view(I64) >> position.astype(I64)).view(U64) if signed else x >> position
    value = np.where(width == 0, np.uint64(0), shifted << (rest & np.uint64(63)))
    rest = rest & np.uint64(63)
    return (value.view(I64) >> rest.astype(I64)).view(U64) if signed else value >> rest


def _field(x, y, signed):
    """Bit field of x: position in the low bits of y, width in bits 16 to 22."""
    wide = x.dtype == U64
    position = (y & np.uint32(63 if wide else 31)).astype(x.dtype)
    width = np.minimum(y >> np.uint32(16) & np.uint32(127), np.uint32(64 if wide else 32)).astype(x.dtype)
    if wide:
        return _bit_field_64(x, position, width, signed)
    whole = x >> position if not signed else (x.view(I32) >> position.astype(I32)).view(U32)
    part = (signed_bit_field if signed else bit_field)(x, position, width)
    return np.where(width == 32, whole, part)


_STRICT = {
    # name: (types, result, function, SCC of the result)
    "s_bcnt1_i32_b32": (["u32"], "u32", lambda x: np.bitwise_count(x).astype(U32), nonzero),
    "s_bcnt1_i32_b64": (["u64"], "u32", lambda x: np.bitwise_count(x).astype(U32), nonzero),
    "s_bcnt0_i32_b32": (["u32"], "u32", lambda x: np.bitwise_count(~x).astype(U32), nonzero),
    "s_bcnt0_i32_b64": (["u64"], "u32", lambda x: np.bitwise_count(~x).astype(U32), nonzero),
    "s_ff1_i32_b32": (["u32"], "u32", count_trailing_zeros, None),
    "s_ff1_i32_b64": (["u64"], "u32", count_trailing_zeros, None),
    "s_ff0_i32_b32": (["u32"], "u32", lambda x: count_trailing_zeros(~x), None),
    "s_ff0_i32_b64": (["u64"], "u32", lambda x: count_trailing_zeros(~x), None),
    "s_flbit_i32_b32": (["u32"], "u32", count_leading_zeros, None),
    "s_flbit_i32_b64": (["u64"], "u32", count_leading_zeros, None),
    "s_flbit_i32": (["u32"], "u32", count_leading_signs, None),
    "s_flbit_i32_i64": (["u64"], "u32", count_leading_signs, None),
    "s_abs_i32": (["i32"], "i32", np.abs, nonzero),
    "s_add_u32": (["u32"] * 2, "u32", lambda x, y: _unsigned_sum(x, y, 0), None),
    "s_sub_u32": (["u32"] * 2, "u32", lambda x, y: _unsigned_difference(x, y, 0), None),
    "s_add_i32": (["i32"] * 2, "i32", lambda x, y: _signed(x.astype(I64) + y), None),
    "s_sub_i32": (["i32"] * 2, "i32", lambda x, y: _signed(x.astype(I64) - y), None),
    "s_absdiff_i32": (["i32"] * 2, "i32", lambda x, y: np.abs(x - y), nonzero),
    "s_mul_i32": (["u32"] * 2, "u32", np.multiply, None),
    "s_mul_hi_u32": (["u32"] * 2, "u32", high_half, None),
    "s_mul_hi_i32": (["i32"] * 2, "i32", high_half, None),
    "s_mul_u64": (["u64"] * 2, "u64", np.multiply, None),
    "s_add_u64": (["u64"] * 2, "u64", np.add, None),
    "s_sub_u64": (["u64"] * 2, "u64", np.subtract, None),
    "s_min_u32": (["u32"] * 2, "u32", lambda x, y: (np.minimum(x, y), x <= y), None),
    "s_max_u32": (["u32"] * 2, "u32", lambda x, y: (np.maximum(x, y), x >= y), None),
    "s_min_i32": (["i32"] * 2, "i32", lambda x, y: (np.minimum(x, y), x <= y), None),
    "s_max_i32": (["i32"] * 2, "i32", lambda x, y: (np.maximum(x, y), x >= y), None),
    "s_bfm_b32": (["u32"] * 2, "u32", lambda x, y: ((np.uint32(1) << _n(x, x)) - np.uint32(1)) << _n(x, y), None),
    "s_bfm_b64": (
        ["u32"] * 2, "u64",
        lambda x, y: ((np.uint64(1) << (x.astype(U64) & np.uint64(63))) - np.uint64(1)) << (y.astype(U64) & np.uint64(63)),
        None,
    ),
    "s_bfe_u32": (["u32"] * 2, "u32", lambda x, y: _field(x, y, False), nonzero),
    "s_bfe_i32": (["u32"] * 2, "u32", lambda x, y: _field(x, y, True), nonzero),
    "s_bfe_u64": (["u64", "u32"], "u64", lambda x, y: _field(x, y, False), nonzero),
    "s_bfe_i64": (["u64", "u32"], "u64", lambda x, y: _field(x, y, True), nonzero),
}  # fmt: skip
for _shift in (1, 2, 3, 4):
    _STRICT[f"s_lshl{_shift}_add_u32"] = (
        ["u32"] * 2, "u32", lambda x, y, n=_shift: _unsigned_sum(x.astype(U64) << np.uint64(n), y, 0), None
    )  # fmt: skip
for _name, (_types, _out, _function, _scc) in _STRICT.items():

    @instruction(_name)
    def _build_strict(cursor: Cursor, types=_types, out=_out, function=_function, scc=_scc):
        cursor.count(1 + len(types))
        return scalar(cursor, function, types, out, scc)


def _unsigned_sum(x, y, carry):
    total = x.astype(U64) + y + np.asarray(carry, U64)
    return total.astype(U32), total > np.uint64(0xFFFFFFFF)


def _unsigned_difference(x, y, borrow):
    total = x.astype(I64) - y.astype(I64) - np.asarray(borrow, I64)
    return total.astype(U32), total < 0


def _signed(total):
    return total.astype(I32), total != total.astype(I32)


@instruction("s_addc_u32", "s_subb_u32")
def with_carry(cursor: Cursor):
    cursor.count(3)
    left, right, write = cursor.read(1, "u32"), cursor.read(2, "u32"), writes(cursor, 0, "u32")
    function = _unsigned_sum if cursor.name == "s_addc_u32" else _unsigned_difference

    def run(wave):
        result, scc = function(left(wave), right(wave), wave.scc_now())
        write(wave, result)
        wave.put_scc(scc)

    return run


@instruction("s_pack_ll_b32_b16", "s_pack_lh_b32_b16", "s_pack_hh_b32_b16", "s_pack_hl_b32_b16")
def pack(cursor: Cursor):
    first, second = cursor.name[len("s_pack_") :][:2]
    low, sixteen = np.uint32(0xFFFF), np.uint32(16)

    def function(x, y):
        return (x >> sixteen if first == "h" else x & low) | (y & ~low if second == "h" else y << sixteen)

    return loose(cursor, function, ["u32", "u32"])


# ---------------------------------------------------------------- constants in the instruction


@instruction("s_movk_i32")
def move_constant(cursor: Cursor):
    value = np.array(cursor.integer(1) & 0xFFFF, np.uint16).view(np.int16).astype(I32).view(U32)
    slot = cursor.slot(0)
    return lambda wave: wave.put(slot, value)


@instruction("s_cmovk_i32")
def move_constant_if(cursor: Cursor):
    value = np.array(cursor.integer(1) & 0xFFFF, np.uint16).view(np.int16).astype(I32).view(U32)
    slot, read = cursor.slot(0), cursor.read(0, "u32")
    return lambda wave: wave.put(slot, np.where(wave.scc_now(), value, read(wave)))


@instruction("s_addk_i32", "s_mulk_i32")
def with_constant(cursor: Cursor):
    value = np.array(cursor.integer(1) & 0xFFFF, np.uint16).view(np.int16).astype(I32)
    read, write, adds = cursor.read(0, "i32"), writes(cursor, 0, "i32"), cursor.name == "s_addk_i32"

    def run(wave):
        if adds:
            result, scc = _signed(read(wave).astype(I64) + value)
            write(wave, result)
            wave.put_scc(scc)
        else:
            write(wave, read(wave) * value)

    return run


@instruction("s_bitset0_b32", "s_bitset1_b32", "s_bitset0_b64", "s_bitset1_b64")
def set_bit(cursor: Cursor):
    type_ = "u" + cursor.name[-2:]
    old, bit, write, sets = cursor.read(0, type_), cursor.read(1, "u32"), writes(cursor, 0, type_), "set1" in cursor.name

    def run(wave):
        x = old(wave)
        mask = x.dtype.type(1) << _n(x, bit(wave))
        write(wave, x | mask if sets else x & ~mask)

    return run


# ---------------------------------------------------------------- comparing and choosing

_COMPARE = {
    "eq": np.equal, "lg": np.not_equal, "gt": np.greater, "ge": np.greater_equal, "lt": np.less, "le": np.less_equal,
    "neq": np.not_equal, "nlt": lambda x, y: ~(x < y), "nle": lambda x, y: ~(x <= y), "ngt": lambda x, y: ~(x > y),
    "nge": lambda x, y: ~(x >= y), "nlg": lambda x, y: ~((x < y) | (x > y)),
    "o": lambda x, y: (x == x) & (y == y), "u": lambda x, y: (x != x) | (y != y),
}  # fmt: skip


def _comparison(cursor: Cursor):
    _, _, kind, type_ = cursor.name.split("_")
    if cursor.name.startswith("s_cmpk"):  # a constant of 16 bits, extended as the type says
        text = np.array(cursor.integer(1) & 0xFFFF, np.uint16)
        value = text.view(np.int16).astype(I32) if type_ == "i32" else text.astype(U32)
        right = lambda wave: value  # noqa: E731
    else:
        right = cursor.read(1, type_)
    left = cursor.read(0, type_)
    function = _COMPARE[kind] if kind != "lg" or not type_.startswith("f") else lambda x, y: (x < y) | (x > y)
    return lambda wave: wave.put_scc(function(left(wave), right(wave)))


for _kind in _COMPARE:
    for _type in ("i32", "u32", "u64", "f32", "f16"):
        if _type.startswith("f") or _kind in ("eq", "lg", "gt", "ge", "lt", "le"):
            instruction(f"s_cmp_{_kind}_{_type}")(_comparison)
            if _type in ("i32", "u32"):
                instruction(f"s_cmpk_{_kind}_{_type}")(_comparison)


@instruction("s_bitcmp0_b32", "s_bitcmp1_b32", "s_bitcmp0_b64", "s_bitcmp1_b64")
def compare_bit(cursor: Cursor):
    left, right = cursor.read(0, "u" + cursor.name[-2:]), cursor.read(1, "u32")
    wanted = "cmp1" in cursor.name

    def run(wave):
        x = left(wave)
        wave.put_scc((x >> _n(x, right(wave)) & x.dtype.type(1) != 0) == wanted)

    return run


@instruction("s_cselect_b32", "s_cselect_b64", "s_cmov_b32", "s_cmov_b64")
def choose(cursor: Cursor):
    """The first operand where SCC is set, else the second; cmov keeps what there is."""
    type_ = "u" + cursor.name[-2:]
    second = 0 if "cmov" in cursor.name else 2
    yes, no = cursor.loose(1, type_), cursor.loose(second, type_)
    slot = cursor.slot(0, 2 if type_ == "u64" else 1)

    def run(wave):
        (x, ux), (y, uy) = yes(wave), no(wave)
        scc, undefined = wave.scc_now(), None
        if ux is not None or uy is not None:
            zero = x.dtype.type(0)
            undefined = np.where(scc, zero if ux is None else ux, zero if uy is None else uy)
        value = np.where(scc, x, y)
        if type_ == "u64":
            put_pair(wave, slot, value, undefined)
        else:
            wave.put(slot, value, undefined)

    return run


# ---------------------------------------------------------------- floating point (RDNA 4)


def _quiet(function: Callable) -> Callable:
    return lambda *values: with_nans(function(*values), values)


_FLOAT = {
    "s_add": (np.add, 2), "s_sub": (np.subtract, 2), "s_mul": (np.multiply, 2), "s_min": (minimum, 2), "s_max": (maximum, 2),
    "s_ceil": (np.ceil, 1), "s_floor": (np.floor, 1), "s_trunc": (np.trunc, 1), "s_rndne": (np.rint, 1),
}  # fmt: skip
for _name, (_function, _operands) in _FLOAT.items():
    for _type in ("f32", "f16"):

        @instruction(f"{_name}_{_type}")
        def _build_float(cursor: Cursor, function=_function, operands=_operands, type_=_type):
            cursor.count(1 + operands)
            return scalar(cursor, _quiet(function), [type_] * operands, type_)


@instruction("s_fmac_f32", "s_fmac_f16", "s_fmaak_f32", "s_fmamk_f32")
def fused(cursor: Cursor):
    type_ = cursor.name[-3:]
    order = (1, 2, 0) if "fmac" in cursor.name else (1, 2, 3)
    reads, write = [cursor.read(i, type_) for i in order], writes(cursor, 0, type_)
    return Elementwise(called(_quiet(fma), reads), write)


_CONVERSIONS = {
    "s_cvt_f32_i32": (["i32"], "f32", lambda x: x.astype(F32)),
    "s_cvt_f32_u32": (["u32"], "f32", lambda x: x.astype(F32)),
    "s_cvt_i32_f32": (["f32"], "i32", to_integer(I32)),
    "s_cvt_u32_f32": (["f32"], "u32", to_integer(U32)),
    "s_cvt_f16_f32": (["f32"], "f16", to_f16),
    "s_cvt_f32_f16": (["f16"], "f32", lambda x: x.astype(F32)),
    "s_cvt_pk_rtz_f16_f32": (["f32"] * 2, "u32", lambda x, y: packed(toward_zero_f16(x), toward_zero_f16(y))),
}
for _name, (_types, _out, _function) in _CONVERSIONS.items():

    @instruction(_name)
    def _build_conversion(cursor: Cursor, types=_types, out=_out, function=_function):
        cursor.count(1 + len(types))
        return scalar(cursor, function, types, out)


@instruction("s_cvt_hi_f32_f16")
def convert_high(cursor: Cursor):
    read, write = cursor.read(1, "f16", 1), writes(cursor, 0, "f32")
    return Elementwise(lambda wave: read(wave).astype(F32), write)
