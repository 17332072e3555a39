"""The GPUs of this machine, told apart by UUID without opening any of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Here:
    """A GPU of this machine.

    Attributes:
        name: of its row under specs/gpus.
        uuid: as the driver tells it, which CUDA_VISIBLE_DEVICES takes.
        title, driver: as the driver tells them.
    """

    name: str
    uuid: str
    title: str
    driver: str


def gpus_here() -> list[Here]:
    """The GPUs that kernels can be timed on and that the catalog knows; none where nvidia-smi is absent. CUDA_VISIBLE_DEVICES counts."""
    from gemmgen.catalog.gpu import GPUS, arch_number
    from gemmgen.run.here import described

    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=uuid,name,compute_cap,driver_version", "--format=csv,noheader"], capture_output=True, text=True, timeout=30,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    told = [[part.strip() for part in line.split(",")] for line in answer.splitlines() if line.count(",") == 3]
    rows = [row for row in GPUS.rows() if row.maker.checked.timed]
    found = []
    for uuid, title, capability, driver in _visible(told, os.environ.get("CUDA_VISIBLE_DEVICES")):
        fitting = [row for row in rows if f"{arch_number(row.arch) // 10}.{arch_number(row.arch) % 10}" == capability]
        if fitting:
            found.append(Here(described(title, fitting).name, uuid, title, driver))
    return found


def _visible(told: list[list[str]], asked: str | None) -> list[list[str]]:
    """Those that CUDA_VISIBLE_DEVICES leaves, in its order: numbers, or beginnings of UUIDs that one GPU alone has."""
    if asked is None:
        return told
    found: list[list[str]] = []
    for word in filter(None, (part.strip() for part in asked.split(","))):
        match = [told[int(word)]] if word.isdigit() and int(word) < len(told) else [row for row in told if row[0].startswith(word)]
        if len(match) != 1:
            break  # as CUDA has it: nothing counts from the first on that no GPU has, or several have
        found += match
    return found
