"""Instructions on both halves of registers at once, and the multiply-add of FP32 and FP16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.alu import Elementwise, put_half
from gemmgen.emulate.amdgpu.isa.conversion import packed
from gemmgen.emulate.amdgpu.isa.floating import FLOATS, Finish, fma, maximum, minimum
from gemmgen.emulate.amdgpu.isa.integer import saturating
from gemmgen.emulate.amdgpu.operands import DTYPES, Read

U16, U32, F16, F32 = DTYPES["u16"], DTYPES["u32"], DTYPES["f16"], DTYPES["f32"]


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
    if type_ not in FLOATS and cursor.flag("clamp"):
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
