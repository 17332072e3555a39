"""What one bring-up knows and finds. Each part of it is a file with a function `measure(session)`, which adds to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from gemmgen.bringup.instruction import Instruction
from gemmgen.bringup.probe import Machine
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.unit import MatrixUnit

Standing = Literal["measured", "told", "assumed", "not found"]
"""Of a value: measured by launches; told by the driver; assumed, after a row of the catalog; sought and not found."""


@dataclass(frozen=True)
class Value:
    """One thing that a row says, and where it comes from.

    Attributes:
        name: `unit f16 mma fraction_bits`.
        value: plain data; None of what was not found.
        how: how it was found, or why not.
        standing: see above.
        proof: what supports it: random products that agree, repeats, their spread.
        tolerance: what of it may differ from one time to the next without having changed, relative.
    """

    name: str
    value: Any
    how: str
    standing: Standing = "measured"
    proof: str = ""
    tolerance: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        known = {"value": self.value, "standing": self.standing, "how": self.how, "proof": self.proof}
        return known | {"tolerance": self.tolerance} if self.tolerance else known


@dataclass
class Session:
    """A bring-up under way.

    Attributes:
        machine: the device.
        unit: the catalog's row for the device's arch, which results are compared with; None where there is none.
        name: of the rows that are written.
        fragments: the instructions.
        products: random products of proof for each of them.
        seed: of all that is drawn.
        progress: called with what is done next.
        values: what was found; rows: the files to write, by their path in the folder; sections: of the report, (title, Markdown).
        instructions: what each instruction turned out to be.
    """

    machine: Machine
    unit: MatrixUnit | None
    name: str
    fragments: list[Fragment]
    products: int
    seed: int = 0
    progress: Callable[[str], None] = lambda text: None
    values: list[Value] = field(default_factory=list)
    rows: dict[str, str] = field(default_factory=dict)
    sections: list[tuple[str, str]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)

    def value(self, name: str) -> Value | None:
        """The value of a name; None where there is none."""
        return next((one for one in self.values if one.name == name), None)

    def put(self, value: Value) -> None:
        """Add a value, or replace the one of its name in its place."""
        at = next((at for at, one in enumerate(self.values) if one.name == value.name), None)
        self.values[len(self.values) if at is None else at : len(self.values) if at is None else at + 1] = [value]

    def found(self, name: str, value: Any, how: str, proof: str = "", tolerance: float = 0.0) -> None:
        """Add what was measured of a thing that the driver may have told, beside what it told."""
        before = self.value(name)
        if before is not None and before.standing == "told":
            how += f"; {before.how} tells {'the same' if before.value == value else before.value}"
        self.put(Value(name, value, how, "measured", proof, tolerance))
