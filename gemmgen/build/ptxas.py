"""The numbers that `ptxas -v` logs: a second account of a cubin's resources, and the only one of spills before CUDA 12.9."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gemmgen.build.cubin import CubinResources

_ENTRY = re.compile(r"Compiling entry function '")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_PROPERTIES = re.compile(rf"Function properties for (\S+)\s[^\n]*?{_SPILLS.pattern}")


def with_logged_spills(log: str, kernels: Mapping[str, CubinResources]) -> dict[str, CubinResources]:
    """The kernels, with the spills that the log tells of those whose cubin marks none.

    The ptxas of CUDA 12.4 marks no spills in its cubins. Spills in functions that a kernel calls are not among those that the log tells of the kernel.
    """
    logged = {name: (int(stores), int(loads)) for name, stores, loads in _PROPERTIES.findall(log)}
    found = dict(kernels)
    for name, used in kernels.items():
        stores, loads = logged.get(name, (0, 0))
        if not used.spill_bytes and stores + loads:
            found[name] = replace(used, spill_store_bytes=stores, spill_load_bytes=loads)
    return found


def accounts_differ(log: str, kernels: Mapping[str, CubinResources]) -> tuple[str, str] | None:
    """Compare the registers and spills that `ptxas -v` logs with those of the cubin.

    Where both tell of spills, how many bytes is no matter: for kernels that spill
    thousands, the two count differently, and either refuses them.

    Returns:
        None where they agree or the log tells nothing; else both accounts, the
        log's first.
    """
    registers = [int(number) for number in _REGISTERS.findall(log)]
    spills = [(int(stores), int(loads)) for stores, loads in _SPILLS.findall(log)]
    if not spills or len(registers) != len(_ENTRY.findall(log)):
        return None
    stores, loads = map(sum, zip(*spills, strict=True))
    marked = [kernel.registers for kernel in kernels.values()]
    marked_stores = sum(kernel.spill_store_bytes for kernel in kernels.values())
    marked_loads = sum(kernel.spill_load_bytes for kernel in kernels.values())
    if sorted(registers) == sorted(marked) and (stores + loads > 0) == (marked_stores + marked_loads > 0):
        return None
    return _account(registers, stores, loads), _account(marked, marked_stores, marked_loads)


def _account(registers: list[int], stores: int, loads: int) -> str:
    return f"registers {sorted(registers)}, {stores} B spill stores, {loads} B spill loads"
