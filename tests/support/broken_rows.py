"""Shipped rows with one thing changed, which the table must refuse."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gemmgen.catalog.table import Table
from gemmgen.errors import SpecError


def assert_refused(folder: Path, table: Table, name: str, before: str, after: str, complaint: str) -> None:
    """
    Args:
        folder: where the broken row is written.
        before, after: what the row says, and what it says instead, once.
        complaint: a regular expression that the refusal's message matches.
    """
    good = (table.folder / f"{name}.toml").read_text()
    assert before in good
    path = folder / f"{name}.toml"
    path.write_text(good.replace(before, after, 1))
    with pytest.raises(SpecError) as refused:
        table.get(str(path))
    assert re.search(complaint, str(refused.value)), refused.value
