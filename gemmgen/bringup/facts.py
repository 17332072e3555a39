"""What a driver tells without a measurement, and the part of a GPU's row that it fills.

The row is not whole: clocks, rates and what kernels reach of them are for other parts to measure. It is written as
`gpu.partial.toml`, which no table reads, with what is missing named in it.
"""

from __future__ import annotations

from gemmgen.bringup.session import Session, Value
from gemmgen.catalog.gpu import GPUS, Limits, Rates
from gemmgen.catalog.vendor import vendor_of

_ASSUMED = ("registers_per_thread", "register_allocation_unit", "shared_allocation_unit")
"""Limits that no driver tells; those of a row of the same arch are assumed until they are tried."""
_PASSING = ("title", "arch")


def measure(session: Session) -> None:
    """The driver's facts, and the partial row of the GPU."""
    machine = session.machine
    told = dict(machine.facts())
    how = "the emulated GPU's row" if machine.kind == "emulator" else "the driver"
    values = {name: Value(f"gpu {name}", value, how, "told") for name, value in told.items()}
    like = next((row for row in GPUS.rows() if row.arch == machine.arch), None)
    for name in _ASSUMED:
        if name not in told and like:
            values[name] = Value(f"gpu {name}", getattr(like.limits, name), f"as of {like.name}, which has the same arch", "assumed")
    session.values += values.values()
    title = str(told.get("title", machine.name))
    session.rows["gpu.partial.toml"] = _text(session, {name: value for name, value in values.items() if name not in _PASSING}, title)


def missing(values: dict[str, Value]) -> list[str]:
    """Keys of a GPU's row that nobody has told."""
    return [name for model in (Limits, Rates) for name, one in model.model_fields.items() if name not in values and one.is_required()]


def _text(session: Session, values: dict[str, Value], title: str) -> str:
    machine = session.machine
    lines = [
        "# Part of a GPU's row: what the driver tells, and what is assumed. Not measured, so missing: " + ", ".join(missing(values)) + ".",
        f'name = "{session.name}"', f'title = "{title}"', f'source = "gemmgen bringup on {machine.name}"', f'vendor = "{vendor_of(machine.arch).name}"',
        f'arch = "{machine.arch}"', f'matrix_unit = "units/{session.name}.toml"',
    ]
    for table, model in (("limits", Limits), ("rates", Rates)):
        lines += ["", f"[{table}]"]
        lines += [
            f"{name} = {_number(values[name].value)}" + (f"  # {values[name].standing}: {values[name].how}" if values[name].standing == "assumed" else "")
            for name in model.model_fields if name in values
        ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"
