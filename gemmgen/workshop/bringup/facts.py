"""What a driver tells without a measurement, and the part of a GPU's row that it and what was measured fill.

The row is not whole: what kernels reach of its rates is not sought. It is written as `gpu.partial.toml`, which no table reads, with what is missing named
in it.
"""

from __future__ import annotations

from gemmgen.catalog.gpu import Limits, Rates
from gemmgen.catalog.vendor import vendor_of
from gemmgen.workshop.bringup import toml_values
from gemmgen.workshop.bringup.session import Session, Value


def measure(session: Session) -> None:
    """The driver's facts."""
    machine = session.machine
    how = "the emulated GPU's row" if machine.kind == "emulator" else "the driver"
    session.values += [Value(f"gpu {name}", value, how, "told") for name, value in machine.facts().items()]


def write_row(session: Session) -> None:
    """The partial row of the GPU, of what was told and measured until now."""
    values = {one.name.removeprefix("gpu "): one for one in session.values if one.name.startswith("gpu ") and one.value is not None}
    session.rows["gpu.partial.toml"] = _text(session, values, str(values["title"].value if "title" in values else session.machine.name))


def missing(values: dict[str, Value]) -> list[str]:
    """Keys of a GPU's row that nobody has told."""
    return [name for model in (Limits, Rates) for name, one in model.model_fields.items() if name not in values and one.is_required()]


def _text(session: Session, values: dict[str, Value], title: str) -> str:
    machine = session.machine
    lines = [
        "# Part of a GPU's row: what the driver tells, and what was measured. Missing: " + ", ".join(missing(values)) + ".",
        f'name = "{session.name}"', f'title = "{title}"', f'source = "gemmgen gpu probe on {machine.name}"', f'vendor = "{vendor_of(machine.arch).name}"',
        f'arch = "{machine.arch}"', f'matrix_unit = "units/{session.name}.toml"',
    ]
    for table, model in (("limits", Limits), ("rates", Rates)):
        lines += ["", f"[{table}]"]
        lines += [f"{name} = {toml_values.told(values[name].value, _number)}" for name in model.model_fields if name in values]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6g}"
