"""Kernels of the reference set that some NVRTC refuses, and which others accept: what `tests/compile/test_compilers.py` recorded."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

RECORD = Path(__file__).with_name("reference.json")
"""For each kernel by its name, whether a compiler accepts it: `{"gemmgen_...": {"NVRTC 12.4": false, "NVRTC 13.0": true}}`."""


@cache
def _record() -> dict[str, dict[str, bool]]:
    return json.loads(RECORD.read_text())


def accepting(kernel: str) -> list[str]:
    """The compilers that are known to accept a kernel, as `NVRTC 13.0`, the oldest first; none where the kernel is not recorded."""
    known = [compiler for compiler, accepted in _record().get(kernel, {}).items() if accepted]
    return sorted(known, key=lambda name: [int(part) for part in name.removeprefix("NVRTC ").split(".")])
