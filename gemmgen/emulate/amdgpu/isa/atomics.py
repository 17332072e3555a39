"""Atomic operations on global memory and LDS: lanes that meet at one place take turns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.amdgpu.isa.access import BASE, HINTS, GlobalAddress, Lanes, counted, in_lds, loaded, stored
from gemmgen.emulate.amdgpu.isa.lds import LocalAccess
from gemmgen.emulate.core.atomic import take_turns, updates
from gemmgen.emulate.core.memory import Fault

U32 = np.dtype(np.uint32)

_ATOMIC = {
    # what instructions call it: (operation, type); 64 bits add `_x2` or are in the type's name
    "add": ("add", "u"), "sub": ("sub", "u"), "smin": ("min", "i"), "umin": ("min", "u"), "smax": ("max", "i"),
    "umax": ("max", "u"), "and": ("and", "u"), "or": ("or", "u"), "xor": ("xor", "u"), "inc": ("inc", "u"),
    "dec": ("dec", "u"), "swap": ("exch", "u"), "cmpswap": ("cas", "u"),
}  # fmt: skip


def _operands(cursor: Cursor, index: int, operation: str, dtype: np.dtype) -> Callable:
    """How to read an atomic's data: (wave, lanes) -> x, y `[n]`; of a compare-and-swap the value to compare with, then the
    new one, which comes first in the registers."""
    size = dtype.itemsize
    read = stored(cursor, index, size * (2 if operation == "cas" else 1))

    def both(wave, lanes: Lanes):
        values = np.ascontiguousarray(read(wave, lanes)).view(dtype)
        return values[:, -1], values[:, 0]

    return both


def _global_atomic(cursor: Cursor, operation: str, dtype: np.dtype):
    flat = cursor.name.startswith("flat")
    th = cursor.modifiers.pop("th", "")
    returns = cursor.flag("glc") or (cursor.target.cdna and cursor.flag("sc0")) or "RETURN" in th
    cursor.drop(*HINTS)
    cursor.count(2 + returns + (not flat))
    index = int(returns)
    address = GlobalAddress(cursor, index, None if flat else index + 2)
    operands = _operands(cursor, index + 1, operation, dtype)
    land, slots = loaded(cursor, 0, dtype.itemsize) if returns else (None, ())
    kinds, update = counted(cursor, store=not returns), updates(operation, dtype)

    def run(wave):
        lanes = Lanes(wave)
        addresses = lanes.pick(address(wave))
        x, y = operands(wave, lanes)

        def perform(columns):
            chosen = lanes.among(columns)
            there = addresses[chosen]
            if not len(there):
                return
            if flat and in_lds(there).any():
                raise Fault("a flat atomic operation on LDS is not supported", needs="an ordinary one")
            with lanes.located(chosen), wave.strip.launch.lock:
                old = take_turns(wave.strip.launch.arena, there - BASE, x[chosen], y[chosen], update)
            if land:
                land(wave, lanes, chosen, old.view(U32).reshape(len(old), -1))

        wave.issue(kinds(addresses), slots, perform, lanes.mask, lanes.touch(addresses, dtype.itemsize, writes=True))

    return run


def _local_atomic(cursor: Cursor, operation: str, dtype: np.dtype, returns: bool):
    swaps = operation == "cas"
    cursor.count(2 + returns + swaps)
    index = int(returns)
    address = cursor.read(index, "u32")
    size = dtype.itemsize
    # here the data are operands of their own; before GFX11 the old value came first
    reads = [stored(cursor, index + 1 + i, size) for i in range(1 + swaps)]
    first = cursor.target.cdna and swaps
    access = LocalAccess(cursor, "write", size, cursor.number("offset"))
    land, slots = loaded(cursor, 0, size) if returns else (None, ())
    update = updates(operation, dtype)

    def run(wave):
        lanes = Lanes(wave)
        addresses = access(wave, lanes, address(wave))
        values = [np.ascontiguousarray(read(wave, lanes)).view(dtype)[:, 0] for read in reads]
        x, y = (values[0], values[-1]) if first else (values[-1], values[0])

        def perform(columns):
            chosen = lanes.among(columns)
            if not len(lanes.columns[chosen]):
                return
            with lanes.located(chosen):
                offsets = access.offsets(wave, lanes, chosen, addresses)
                old = take_turns(wave.strip.local, offsets, x[chosen], y[chosen], update)
            if land:
                land(wave, lanes, chosen, old.view(U32).reshape(len(old), -1))

        wave.issue(("lds",), slots, perform, lanes.mask)

    return run


for _space in ("global", "flat"):
    for _name, (_operation, _sign) in _ATOMIC.items():
        for _suffix, _size in (("", 4), ("_x2", 8)):
            instruction(f"{_space}_atomic_{_name}{_suffix}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{_sign}{_size}"): _global_atomic(cursor, op, dtype)
            )
        for _bits in (32, 64):  # GFX11's names: add_u32, min_i64, and_b32
            _kind = {"and": "b", "or": "b", "xor": "b", "swap": "b", "cmpswap": "b"}.get(_name, _sign)
            _plain = {"smin": "min", "umin": "min", "smax": "max", "umax": "max"}.get(_name, _name)
            instruction(f"{_space}_atomic_{_plain}_{_kind}{_bits}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{_sign}{_bits // 8}"): _global_atomic(cursor, op, dtype)
            )
    for _name, _operation, _dtype in (
        ("add_f32", "add", np.float32), ("add_f64", "add", np.float64), ("min_f64", "min", np.float64),
        ("max_f64", "max", np.float64), ("min_f32", "min", np.float32), ("max_f32", "max", np.float32),
        ("min_num_f32", "min", np.float32), ("max_num_f32", "max", np.float32),
    ):  # fmt: skip
        instruction(f"{_space}_atomic_{_name}")(
            lambda cursor, op=_operation, dtype=np.dtype(_dtype): _global_atomic(cursor, op, dtype)
        )

for _name, _operation, _kind in (
    ("add", "add", "u"), ("sub", "sub", "u"), ("min", "min", "i"), ("min", "min", "u"), ("max", "max", "i"), ("max", "max", "u"),
    ("and", "and", "b"), ("or", "or", "b"), ("xor", "xor", "b"), ("inc", "inc", "u"), ("dec", "dec", "u"),
    ("wrxchg", "exch", "b"), ("storexchg", "exch", "b"), ("cmpst", "cas", "b"), ("cmpstore", "cas", "b"),
    ("add", "add", "f"),
):  # fmt: skip
    for _bits in (32, 64):
        for _returns in (False, True):
            instruction(f"ds_{_name}{'_rtn' * _returns}_{_kind}{_bits}")(
                lambda cursor, op=_operation, dtype=np.dtype(f"{'u' if _kind == 'b' else _kind}{_bits // 8}"), returns=_returns:
                _local_atomic(cursor, op, dtype, returns)
            )  # fmt: skip
