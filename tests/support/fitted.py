"""The script that fits the register model, and what it predicts for a row of its tables."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gemmgen.plan import Plan

_FILE = Path(__file__).resolve().parents[2] / "bench" / "fit_registers.py"
_SPEC = importlib.util.spec_from_file_location("fit_registers", _FILE)
fit_registers = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(fit_registers)


def predicted(row: dict[str, str]) -> tuple[dict, Plan]:
    """Every symbol of the model for a kernel of the table, and its plan."""
    plan = fit_registers.plan_of(row["arch"], row)
    return plan.model, plan


def held_out_rows(vendor: str) -> list[dict[str, str]]:
    """Kernels of the table that the fit did not see, such as `solve` proposes, and that took what they wanted."""
    rows = fit_registers.read(fit_registers.MEASURED[vendor])
    return [row for row in rows if fit_registers.is_held_out(row) and fit_registers.is_proposed(row)]
