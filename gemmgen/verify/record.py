"""What a run of an AMD kernel leaves for the project to learn from: the report, where it was made, what the compiler
used, and what the matrix unit itself returned. Its format is specs/record.schema.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gemmgen import __version__
from gemmgen.build import Binary
from gemmgen.errors import GemmgenError
from gemmgen.plan import Plan
from gemmgen.verify import Report
from gemmgen.verify.unit_probe import probe_unit

if TYPE_CHECKING:
    from gemmgen.build import CodeObjectResources

SCHEMA_VERSION = 1


def record(plan: Plan, binary: Binary, report: Report, device: dict[str, Any]) -> dict[str, Any]:
    """The record of a report; runs the probe of the matrix unit on the same kind of device.

    Args:
        device: what its `facts` tell.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": f"gemmgen {__version__}",
        "plan": plan.as_dict(),
        "device": {"kind": report.device_kind, **device},
        "compiler": binary.compiler,
        "kernels": {name: resources(used) for name, used in binary.kernels.items()},
        "report": report.as_dict(),
        "matrix_unit": _matrix_unit(plan, report.device_kind),
    }


def _matrix_unit(plan: Plan, kind: str) -> dict[str, Any]:
    """What the unit returned, or the error in its place: a report is not to be lost for it."""
    model = {"model": plan.gpu.unit.name if plan.fragment.on_matrix_unit else plan.fragment.instruction}
    try:
        tiles = probe_unit(plan, kind)
    except GemmgenError as error:
        return {**model, "error": error.as_dict()}
    return {**model, "summary": tiles.summary, **tiles.as_dict()}


def resources(used: CodeObjectResources) -> dict[str, int]:
    """What one kernel of a code object uses, as plain data."""
    return {key: value for key, value in asdict(used).items() if key != "arguments"}


def file_name(plan: Plan) -> str:
    """What a record is called where nobody chose."""
    return f"gemmgen-hip-{plan.gpu.name}-{plan.hash}.json"
