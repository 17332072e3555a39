"""Moves, integers, bits, comparisons and predicates."""

from __future__ import annotations

import numpy as np

from gemmgen.emulate.core.integer import dot_of_bytes, function_of_bits, high_half, highest_bit, picked_bytes, reversed_bits
from gemmgen.emulate.core.memory import SHARED_WINDOW, Fault
from gemmgen.emulate.core.rounding import flush
from gemmgen.emulate.ptx.decode import DTYPES, Cursor, instruction
from gemmgen.emulate.ptx.memory import LOCAL_WINDOW, PARAM_WINDOW
from gemmgen.emulate.ptx.parse import SIZES

U32, U64 = DTYPES["u32"], DTYPES["u64"]
BOOL = DTYPES["pred"]
INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def elementwise(cursor: Cursor, types: list[str], function, result: int | str = 0, first: int = 1):
    """An instruction that computes lane by lane.

    Args:
        types: of its sources, which are the operands from `first` on.
        function: of the sources' vectors; returns the result's vector.
    """
    target = cursor.target(result)
    sources = [(cursor.source(first + i, type_), DTYPES[type_]) for i, type_ in enumerate(types)]
    # Instructions of one, two and three sources are nearly all, and looking through a list takes as long as a short vector.
    if len(sources) == 1:
        (slot, dtype), = sources

        def run(warp, mask):
            warp.put(target, function(warp.get(slot, dtype)), mask)

    elif len(sources) == 2:
        (slot_a, dtype_a), (slot_b, dtype_b) = sources

        def run(warp, mask):
            warp.put(target, function(warp.get(slot_a, dtype_a), warp.get(slot_b, dtype_b)), mask)

    elif len(sources) == 3:
        (slot_a, dtype_a), (slot_b, dtype_b), (slot_c, dtype_c) = sources

        def run(warp, mask):
            warp.put(target, function(warp.get(slot_a, dtype_a), warp.get(slot_b, dtype_b), warp.get(slot_c, dtype_c)), mask)

    else:

        def run(warp, mask):
            warp.put(target, function(*(warp.get(slot, dtype) for slot, dtype in sources)), mask)

    return run


# ---------------------------------------------------------------- moves


@instruction("mov")
def mov(cursor: Cursor):
    type_ = cursor.type()
    cursor.count(2)
    into, out_of = cursor.vector(0), cursor.vector(1)
    if len(into) == len(out_of) == 1:
        plain = elementwise(cursor, [type_], lambda x: x)
        target, slot = cursor.target(0), cursor.source(1, type_)

        def move(warp, mask):
            if isinstance(warp.r[slot], np.ndarray) or not warp.rename(target, slot, mask):
                plain(warp, mask)

        return plain if type_ in ("pred", "b64", "u64", "s64", "f64", "b16", "u16", "s16") else move
    size = SIZES[type_]
    if len(out_of) > 1:  # pack, the first member lowest
        part = np.dtype(f"u{size // len(out_of)}")
        slots = [cursor.source(name, f"b{8 * part.itemsize}") for name in out_of]
        target = cursor.target(0)

        def pack(warp, mask):
            packed = np.empty((warp.lanes, len(slots)), part)
            for i, slot in enumerate(slots):
                packed[:, i] = warp.get(slot, part)
            warp.put(target, packed.view(f"u{size}").reshape(-1), mask)

        return pack
    part = np.dtype(f"u{size // len(into)}")
    slot, dtype = cursor.source(1, type_), np.dtype(f"u{size}")
    targets = [cursor.target(name) for name in into]

    def unpack(warp, mask):
        parts = np.ascontiguousarray(warp.full(slot, dtype)).view(part).reshape(warp.lanes, -1)
        for i, target in enumerate(targets):
            warp.put(target, np.ascontiguousarray(parts[:, i]), mask)

    return unpack


@instruction("cvta")
def cvta(cursor: Cursor):
    """Between a space's own addresses and generic ones."""
    into = cursor.flag("to")
    space = cursor.choice("global", "shared", "shared::cta", "shared::cluster", "const", "param", "local")
    space = space.partition("::")[0]
    type_ = cursor.type()
    if space == "param":
        return elementwise(cursor, [type_], lambda x: x if into else x + np.uint64(PARAM_WINDOW))
    if space not in ("shared", "local"):
        return elementwise(cursor, [type_], lambda x: x)
    window = np.uint64(SHARED_WINDOW if space == "shared" else LOCAL_WINDOW)
    return elementwise(cursor, [type_], (lambda x: x - window) if into else (lambda x: x + window))


@instruction("isspacep")
def isspacep(cursor: Cursor):
    space = cursor.choice("global", "shared", "const", "local")
    first, last = {"shared": (SHARED_WINDOW, 1 << 64), "local": (LOCAL_WINDOW, SHARED_WINDOW)}.get(space, (0, LOCAL_WINDOW))
    return elementwise(cursor, ["u64"], lambda x: (x >= np.uint64(first)) & (x <= np.uint64(last - 1)))


# ---------------------------------------------------------------- arithmetic


def _integer_type(cursor: Cursor) -> str:
    type_ = cursor.type()
    if type_ not in INTEGERS:
        cursor.refuse(f"type {type_} is not supported here")
    return type_


def add_or_subtract(cursor: Cursor):
    function = np.add if cursor.base == "add" else np.subtract
    type_ = _integer_type(cursor)
    cursor.count(3)
    return elementwise(cursor, [type_] * 2, function)


def multiply(cursor: Cursor):
    """mul and mad, in their three widths."""
    part = cursor.choice("lo", "hi", "wide")
    type_ = _integer_type(cursor)
    if part == "wide":
        if type_ not in _WIDER:
            cursor.refuse("the product would not fit a register")
        wide = DTYPES[_WIDER[type_]]
        product = lambda x, y: x.astype(wide) * y.astype(wide)  # noqa: E731
    else:
        product = np.multiply if part == "lo" else high_half
    sum_type = _WIDER[type_] if part == "wide" else type_
    if cursor.base == "mul":
        cursor.count(3)
        return elementwise(cursor, [type_] * 2, product)
    cursor.count(4)
    return elementwise(cursor, [type_] * 2 + [sum_type], lambda x, y, z: product(x, y) + z)


@instruction("mul24", "mad24")
def multiply_24(cursor: Cursor):
    cursor.choice("lo")
    type_ = _integer_type(cursor)
    eight = DTYPES[type_].type(8)
    low = lambda x: (x << eight) >> eight  # noqa: E731
    if cursor.base == "mul24":
        return elementwise(cursor, [type_] * 2, lambda x, y: low(x) * low(y))
    return elementwise(cursor, [type_] * 3, lambda x, y, z: low(x) * low(y) + z)


def divide(cursor: Cursor):
    """Integer div and rem, toward zero; a divisor of zero is a fault."""
    type_ = _integer_type(cursor)
    cursor.count(3)
    target, remainder = cursor.target(0), cursor.base == "rem"
    slots, dtype = [cursor.source(1, type_), cursor.source(2, type_)], DTYPES[type_]
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def run(warp, mask):
        x, y = (warp.full(slot, dtype) for slot in slots)
        zero = (y == 0) if mask is None else (y == 0) & mask
        if zero.any():
            raise Fault("an integer is divided by zero", lane=int(np.argmax(zero)))
        y = np.where(y == 0, dtype.type(1), y)
        # through magnitudes, so that the most negative integer divides rightly
        a, b = (np.abs(v).view(unsigned) if dtype.kind == "i" else v for v in (x, y))
        result = (a % b if remainder else a // b).view(dtype)
        if dtype.kind == "i":
            negative = (x < 0) if remainder else (x < 0) != (y < 0)
            result = np.where(negative, -result, result)
        warp.put(target, result, mask)

    return run


@instruction("rem")
def rem(cursor: Cursor):
    return divide(cursor)


def least_or_greatest(cursor: Cursor):
    type_, relu = _integer_type(cursor), cursor.flag("relu")  # of signed ones: what is below 0 becomes 0
    plain = np.minimum if cursor.base == "min" else np.maximum
    return elementwise(cursor, [type_] * 2, (lambda x, y: np.maximum(plain(x, y), 0)) if relu else plain)


@instruction("sad")
def sad(cursor: Cursor):
    type_ = _integer_type(cursor)
    return elementwise(cursor, [type_] * 3, lambda x, y, z: np.maximum(x, y) - np.minimum(x, y) + z)


@instruction("dp4a")
def dot_product(cursor: Cursor):
    """Four products of bytes onto a 32-bit sum, which wraps around."""
    second, first = cursor.type(), cursor.type()
    if {first, second} - {"s32", "u32"}:
        cursor.refuse("operands are not 32 bits")
    cursor.count(4)
    kinds = tuple({"s32": "i1", "u32": "u1"}[type_] for type_ in (first, second))
    return elementwise(cursor, [first, second, "s32"], lambda a, b, c: dot_of_bytes(a, b, c, kinds))


# ---------------------------------------------------------------- bits


@instruction("and", "or", "xor")
def logic(cursor: Cursor):
    function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[cursor.base]
    type_ = cursor.type()
    cursor.count(3)
    return elementwise(cursor, [type_] * 2, function)


@instruction("not")
def invert(cursor: Cursor):
    return elementwise(cursor, [cursor.type()], np.invert)


@instruction("cnot")
def cnot(cursor: Cursor):
    type_ = cursor.type()
    return elementwise(cursor, [type_], lambda x: (x == 0).astype(x.dtype))


@instruction("lop3")
def lop3(cursor: Cursor):
    cursor.choice("b32")
    cursor.count(5)
    return elementwise(cursor, ["b32"] * 3, function_of_bits(cursor.constant(4), U32))


@instruction("shl", "shr")
def shift(cursor: Cursor):
    """numpy shifts by the width or more as PTX does: to zero, or to the sign."""
    function = np.left_shift if cursor.base == "shl" else np.right_shift
    type_ = cursor.type()
    dtype = DTYPES[type_]
    if dtype.itemsize == 4:
        return elementwise(cursor, [type_, "u32"], lambda x, n: function(x, n.view(dtype)))
    most = np.uint32(64)
    return elementwise(
        cursor, [type_, "u32"], lambda x, n: function(x, np.minimum(n, most).astype(dtype))
    )


@instruction("shf")
def funnel_shift(cursor: Cursor):
    left = cursor.choice("l", "r") == "l"
    wrap = cursor.choice("wrap", "clamp") == "wrap"
    cursor.choice("b32")

    def function(low, high, n):
        both = (high.astype(np.uint64) << np.uint64(32)) | low
        n = (n & np.uint32(31) if wrap else np.minimum(n, np.uint32(32))).astype(np.uint64)
        return (both << n >> np.uint64(32) if left else both >> n).astype(np.uint32)

    return elementwise(cursor, ["b32", "b32", "u32"], function)


@instruction("bfe")
def bit_field_extract(cursor: Cursor):
    type_ = cursor.choice("u32", "s32", "u64", "s64")
    dtype, bits = DTYPES[type_], 8 * SIZES[type_]
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def function(x, position, length):
        position = (position & np.uint32(255)).astype(np.int64)
        length = (length & np.uint32(255)).astype(np.int64)
        shifted = x.view(unsigned) >> np.minimum(position, bits).astype(unsigned)
        kept = np.minimum(length, bits).astype(unsigned)
        ones = np.where(length >= bits, ~unsigned.type(0), (unsigned.type(1) << kept) - unsigned.type(1))
        field = shifted & ones
        if dtype.kind == "i":  # the sign is the field's last bit, or the number's beyond it
            last = np.clip(np.minimum(position + length - 1, bits - 1), 0, None).astype(unsigned)
            negative = ((x.view(unsigned) >> last) & unsigned.type(1)).astype(bool) & (length > 0)
            inside = np.clip(np.minimum(length, bits - position), 0, bits).astype(unsigned)
            low = np.where(inside >= bits, ~unsigned.type(0), (unsigned.type(1) << inside) - unsigned.type(1))
            field = np.where(negative, (field & low) | ~low, field)
        return field.view(dtype)

    return elementwise(cursor, [type_, "u32", "u32"], function)


@instruction("bfi")
def bit_field_insert(cursor: Cursor):
    type_ = cursor.choice("b32", "b64")
    one, bits = DTYPES[type_].type(1), 8 * SIZES[type_]

    def function(field, into, position, length):
        position = np.minimum(position & np.uint32(255), np.uint32(bits)).astype(one.dtype)
        length = np.minimum(length & np.uint32(255), np.uint32(bits)).astype(one.dtype)
        ones = (one << length) - one  # a shift by all bits gives 0, so ones is right there too
        where = ones << position
        return (into & ~where) | ((field << position) & where)

    return elementwise(cursor, [type_, type_, "u32", "u32"], function)


@instruction("prmt")
def permute_bytes(cursor: Cursor):
    cursor.choice("b32")

    def function(a, b, selector):
        if selector.ndim and (selector == selector[0]).all():  # a constant that came through a register
            selector = selector[0]
        if not selector.ndim and not selector & np.uint32(0x8888):  # a constant that takes no sign, as nearly all are
            return picked_bytes((a, b), [int(selector) >> 4 * i & 7 for i in range(4)])
        both = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros((), np.uint32)
        for i in range(4):
            pick = (selector >> np.uint32(4 * i)) & np.uint32(15)
            byte = (both >> ((pick & np.uint32(7)) * np.uint32(8)).astype(np.uint64)) & np.uint64(255)
            byte = byte.astype(np.uint32)
            sign = np.where(byte & np.uint32(128), np.uint32(255), np.uint32(0))
            result = result | np.where(pick & np.uint32(8), sign, byte) << np.uint32(8 * i)
        return result

    return elementwise(cursor, ["b32"] * 3, function)


@instruction("popc")
def popc(cursor: Cursor):
    type_ = cursor.choice("b32", "b64")
    return elementwise(cursor, [type_], lambda x: np.bitwise_count(x).astype(np.uint32))


@instruction("clz")
def clz(cursor: Cursor):
    type_ = cursor.choice("b32", "b64")
    top = np.int32(8 * SIZES[type_] - 1)
    return elementwise(cursor, [type_], lambda x: (top - highest_bit(x)).view(np.uint32))


@instruction("bfind")
def bfind(cursor: Cursor):
    shift_amount = cursor.flag("shiftamt")
    type_ = cursor.choice("u32", "s32", "u64", "s64")
    unsigned, top = np.dtype(f"u{SIZES[type_]}"), np.int32(8 * SIZES[type_] - 1)

    def function(x):
        position = highest_bit(np.where(x < 0, ~x, x).view(unsigned))
        if shift_amount:
            position = np.where(position < 0, position, top - position)
        return position.view(np.uint32)

    return elementwise(cursor, [type_], function)


@instruction("brev")
def brev(cursor: Cursor):
    return elementwise(cursor, [cursor.choice("b32", "b64")], reversed_bits)


# ---------------------------------------------------------------- comparing and choosing

_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_FLOATS = ("f16", "f32", "f64")


def comparison(cursor: Cursor):
    """The comparison of a setp or set, as a function of two vectors, and its type."""
    type_ = cursor.type()
    flush_first = cursor.flag("ftz")
    floating = type_ in _FLOATS
    names = ["eq", "ne", "lt", "le", "gt", "ge"]
    if floating:
        names += ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
    else:
        names += ["lo", "ls", "hi", "hs"]
    name = cursor.choice(*names)
    if type_ == "bf16" or type_.endswith("x2"):
        cursor.refuse(f"type {type_} is not supported here")

    def compare(x, y):
        if not floating:
            return _COMPARE[name](x, y)
        if flush_first:
            x, y = flush(x), flush(y)
        unordered = (x != x) | (y != y)
        if name in ("num", "nan"):
            return unordered == (name == "nan")
        if name in _COMPARE:
            return _COMPARE[name](x, y) & ~unordered
        return _COMPARE[name[:-1]](x, y) | unordered

    return compare, type_


@instruction("setp")
def setp(cursor: Cursor):
    compare, type_ = comparison(cursor)
    combine = cursor.choice("and", "or", "xor", default="none")
    cursor.count(3 if combine == "none" else 4)
    names = [name.strip() for name in cursor.operands[0].split("|")]
    target, opposite = cursor.target(names[0]), cursor.target(names[1]) if names[1:] else -1
    slots, dtype = [cursor.source(1, type_), cursor.source(2, type_)], DTYPES[type_]
    negated, third = False, -1
    if combine != "none":
        negated = cursor.operands[3].startswith("!")
        third = cursor.source(cursor.operands[3].lstrip("!"), "pred")
        function = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[combine]

    def run(warp, mask):
        result = compare(warp.get(slots[0], dtype), warp.get(slots[1], dtype))
        condition = None
        if third >= 0:
            condition = ~warp.get(third, BOOL) if negated else warp.get(third, BOOL)
        for slot, value in ((target, result), (opposite, ~result)) if opposite >= 0 else ((target, result),):
            warp.put(slot, np.asarray(value if condition is None else function(value, condition)), mask)

    return run


@instruction("set")
def set_(cursor: Cursor):
    compare, type_ = comparison(cursor)
    into = cursor.choice("u32", "s32", "f32")
    true = np.float32(1) if into == "f32" else DTYPES[into].type(-1 if into == "s32" else 0xFFFFFFFF)
    cursor.count(3)
    return elementwise(
        cursor, [type_] * 2, lambda x, y: np.where(compare(x, y), true, true.dtype.type(0))
    )


@instruction("selp")
def selp(cursor: Cursor):
    type_ = cursor.type()
    cursor.count(4)
    target, first, second, chosen = cursor.target(0), cursor.source(1, type_), cursor.source(2, type_), cursor.source(3, "pred")
    dtype = DTYPES[type_]

    def run(warp, mask):
        of_first = warp.get(chosen, BOOL)
        try:
            value = np.where(of_first, warp.get(first, dtype), warp.get(second, dtype))
        except Fault:  # compilers read both of `c ? x : y`, also where x has a value only if c
            taken = of_first if mask is None else of_first[mask] if of_first.ndim else of_first
            slot = second if not warp.written(first) and not taken.any() else first if not warp.written(second) and taken.all() else -1
            if slot < 0:
                raise
            value = warp.get(slot, dtype)
        warp.put(target, value, mask)

    return run


@instruction("slct")
def slct(cursor: Cursor):
    by = cursor.choice("s32", "f32") if cursor.modifiers[-1] in ("s32", "f32") else ""
    cursor.drop("ftz")
    type_ = cursor.type()
    return elementwise(cursor, [type_, type_, by or "s32"], lambda x, y, z: np.where(z >= 0, x, y))
