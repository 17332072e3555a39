"""What one bring-up knows and finds. Each part of it is a file with a function `measure(session)`, which adds to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.generation import Constant
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.workshop.bringup.instruction import Instruction
from gemmgen.workshop.bringup.probe import Machine

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
        kernels: how many calibrate the models; 0 leaves the calibration and the reference set out.
        progress: called with what is done next.
        values: what was found; rows: the files to write, by their path in the folder; sections: of the report, (title, Markdown).
        instructions: what each instruction turned out to be.
        constants: of the generation's row, that were fitted, by section and name; told_of_times: how well, a sentence each.
        registers: the sections of the register model's constants that were fitted, as TOML.
        seconds: that each part took.
        not_sought: parts that were left out, and what they would have told.
    """

    machine: Machine
    unit: MatrixUnit | None
    name: str
    fragments: list[Fragment]
    products: int
    seed: int = 0
    kernels: int = 0
    progress: Callable[[str], None] = lambda text: None
    values: list[Value] = field(default_factory=list)
    rows: dict[str, str] = field(default_factory=dict)
    sections: list[tuple[str, str]] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    constants: dict[tuple[str, str], Constant] = field(default_factory=dict)
    told_of_times: list[str] = field(default_factory=list)
    registers: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    not_sought: dict[str, str] = field(default_factory=dict)
    _scratch: TemporaryDirectory[str] | None = None
    _placed: int = 0

    @property
    def gpu_row(self) -> str:
        """The GPU's row, among `rows`; a row's name is its file's."""
        return f"{self.name}.toml"

    def known(self, name: str) -> Value | None:
        """What is known under a name: of several values the last, which was sought with what came before."""
        return next((value for value in reversed(self.values) if value.name == name and value.value is not None), None)

    def place(self) -> Path:
        """The GPU's row as a file beside all others, in a folder of its own each time: tables keep what they read."""
        self._scratch = self._scratch or TemporaryDirectory(prefix="gemmgen-bringup-")
        self._placed += 1
        folder = Path(self._scratch.name).resolve() / str(self._placed)
        for name, text in self.rows.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return folder / self.gpu_row

    def clear(self) -> None:
        """Remove such folders."""
        if self._scratch:
            self._scratch.cleanup()
            self._scratch = None

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
