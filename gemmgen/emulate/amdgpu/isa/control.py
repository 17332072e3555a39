"""Waits, modes, and what has no effect here."""

from __future__ import annotations

import re

import numpy as np

from gemmgen.emulate.amdgpu.decode import Cursor, instruction
from gemmgen.emulate.core.memory import Fault


def _nothing(wave) -> None:
    """Changes speed only, or the order of memory, which is exact here."""


@instruction(
    "s_nop", "s_clause", "s_delay_alu", "s_wait_alu", "s_waitcnt_depctr", "s_sleep", "s_setprio", "s_inst_prefetch",
    "s_set_inst_prefetch_distance", "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_code_end", "s_ttracedata",
    "s_wait_event", "s_sethalt", "v_nop", "s_prefetch_inst", "s_prefetch_inst_pc_rel", "s_prefetch_data",
    "s_waitcnt_expcnt", "s_wait_expcnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_idle",
)  # fmt: skip
def nothing(cursor: Cursor):
    return _nothing


@instruction("s_sendmsg", "s_sendmsg_rtn_b32")
def message(cursor: Cursor):
    """Registers are given back early; or on RDNA 3 a trap tells the host."""
    text = cursor.text(cursor.count(1, 2) - 1)
    if "DEALLOC_VGPRS" in text:
        return _nothing
    if "INTERRUPT" not in text and "GET_DOORBELL" not in text:
        cursor.refuse("message is not supported")

    def run(wave):
        raise Fault("the kernel executes a trap")

    return run


@instruction("buffer_wbl2")
def write_back(cursor: Cursor):
    cursor.drop("sc0", "sc1", "glc", "scc")
    return lambda wave: wave.count("vector")


@instruction("buffer_inv", "buffer_invl2", "buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_gl0_inv", "buffer_gl1_inv")
def invalidate(cursor: Cursor):
    cursor.drop("sc0", "sc1", "glc", "scc")
    return _nothing


@instruction("global_inv", "global_wb", "global_wbinv")
def maintain_caches(cursor: Cursor):
    """Counts like the loads or the stores that it orders."""
    cursor.drop("scope", "th")
    kind = "vector" if cursor.name == "global_inv" else "store"
    return lambda wave: wave.count(kind)


# ---------------------------------------------------------------- waits

_TERM = re.compile(r"(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+|0x[0-9a-f]+)\)")


@instruction("s_waitcnt")
def wait(cursor: Cursor):
    text = cursor.text(0)
    terms = [(name, int(left, 0)) for name, left in _TERM.findall(text)]
    if re.sub(r"[&,\s]", "", _TERM.sub("", text)):
        if text.strip() != "0":
            cursor.refuse("wait cannot be read", "vmcnt(n), lgkmcnt(n), expcnt(n)")
        terms = [("vmcnt", 0), ("lgkmcnt", 0)]
    return _waits(cursor, [(name, left) for name, left in terms if name != "expcnt"])


def _waits(cursor: Cursor, terms: list[tuple[str, int]]):
    for name, _ in terms:
        if name not in cursor.target.counters:
            cursor.refuse(f"{cursor.target.name} has no counter {name}")
    if not terms:
        return _nothing
    if len(terms) == 1:
        ((name, left),) = terms
        return lambda wave: wave.wait(name, left)

    def run(wave):
        for name, left in terms:
            wave.wait(name, left)

    return run


@instruction("s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt")
def wait_for_one(cursor: Cursor):
    """The first operand, a register, is added; it must be null."""
    if cursor.text(0) != "null":
        cursor.refuse("wait for a number in a register is not supported")
    return _waits(cursor, [(cursor.name.removeprefix("s_waitcnt_"), cursor.integer(1))])


@instruction("s_wait_loadcnt", "s_wait_storecnt", "s_wait_dscnt", "s_wait_kmcnt")
def wait_for_count(cursor: Cursor):
    return _waits(cursor, [(cursor.name.removeprefix("s_wait_"), cursor.integer(0))])


@instruction("s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt")
def wait_for_two(cursor: Cursor):
    """LDS in the low six bits, the other counter in those from bit 8."""
    value = cursor.integer(0)
    other = cursor.name.split("_")[2]
    return _waits(cursor, [(other, value >> 8 & 63), ("dscnt", value & 63)])


@instruction("s_barrier_signal")
def signal_barrier(cursor: Cursor):
    if cursor.integer(0) != -1:
        cursor.refuse("barrier other than the workgroup's is not supported")
    return lambda wave: wave.signal()


# ---------------------------------------------------------------- modes and the program counter

_HWREG = re.compile(r"hwreg\((\w+)(?:,\s*(\d+),\s*(\d+))?\)$")


@instruction("s_setreg_b32", "s_setreg_imm32_b32")
def set_register(cursor: Cursor):
    match = _HWREG.match(cursor.text(0))
    if not match or match[1] not in ("HW_REG_MODE", "HW_REG_WAVE_MODE"):
        cursor.refuse("hardware register is not supported", "hwreg(HW_REG_MODE, ...)")
    first, bits = int(match[2] or 0), int(match[3] or 32)
    if first + bits > 8:
        cursor.refuse("only the rounding and subnormal modes can be set")
    read = cursor.read(1, "u32")
    return lambda wave: wave.set_mode(first, bits, read(wave))


@instruction("s_denorm_mode", "s_round_mode")
def set_mode(cursor: Cursor):
    value, shift = np.array(cursor.integer(0)), 4 if cursor.name == "s_denorm_mode" else 0
    return lambda wave: wave.set_mode(shift, 4, value)


@instruction("s_getpc_b64")
def program_counter(cursor: Cursor):
    """0: what is computed from it is the address of a variable, and its symbol stands for the whole address."""
    slot, zero = cursor.slot(0, 2), np.zeros((), np.uint32)

    def run(wave):
        wave.put(slot, zero)
        wave.put(slot + 1, zero)

    return run
