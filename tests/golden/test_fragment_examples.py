"""examples/fragments holds exactly what the headers and uses of one fragment of each vendor render to, byte for byte.

After a change that is meant to change them: pytest tests/golden --update-golden, and read the diff.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import kernel_text
from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.fragment_header import fragment_header, header_name
from gemmgen.fragment_uses import FP32, USES, WORDS, use

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "fragments"
if not FOLDER.exists():
    pytest.skip("no examples/ in this distribution", allow_module_level=True)
SHOWN = ("mma_m16n8k16_f16", "mfma_m16n16k16_f16")


def texts() -> dict[str, str]:
    """By file name: the headers, and the uses of single words, but `batched`, which has FP32."""
    found = {}
    for row in map(FRAGMENTS.get, SHOWN):
        found[header_name(row)] = fragment_header(row)
        for name in USES:
            found[f"{name}_{row.name}{row.maker.files.source_suffix}"] = use(name, row, FP32 if name == "batched" else WORDS, header=False)
    return found


def test_the_examples_are_what_is_rendered(update_golden):
    wanted = texts()
    if update_golden:
        for name, text in wanted.items():
            (FOLDER / name).write_bytes(text.encode())
    assert {path.name for path in FOLDER.iterdir()} == {*wanted, "README.md"}
    for name, text in wanted.items():
        assert (FOLDER / name).read_bytes() == text.encode(), f"{name} is not up to date: pytest tests/golden --update-golden"
        for look in (kernel_text.wide, kernel_text.empty, *([kernel_text.misplaced] if text.startswith("#include") else [])):
            assert not look(text), (name, look.__name__, look(text))
