"""What a driver tells without a measurement."""

from __future__ import annotations

from gemmgen.workshop.bringup.session import Session, Value


def measure(session: Session) -> None:
    """The driver's facts."""
    machine = session.machine
    how = "the emulated GPU's row" if machine.kind == "emulator" else "the driver"
    session.values += [Value(f"gpu {name}", value, how, "told") for name, value in machine.facts().items()]
