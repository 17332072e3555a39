"""The gallery's steps: what each rendered kernel is predicted to take and to err by, at 4096 x 4096 x 4096 on an H200.

    python docs/gallery.py            prints the table of docs/gallery.md

Nothing is compiled and no GPU is needed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from gemmgen import road
from gemmgen.model.accuracy import predicted
from gemmgen.plan import Plan

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "gallery"
BY_HAND = FOLDER / "1_by_hand.cu"
SPECS = sorted(FOLDER.glob("*.toml"))
HEAD = ("step", "lines of code", "predicted ms", "times step 2", "predicted error")


@dataclass(frozen=True)
class Step:
    """A rendered kernel: its spec, plan and text; seconds and relative Frobenius error on U[-1, 1] are predicted."""

    spec: Path
    plan: Plan
    text: str

    @property
    def seconds(self) -> float:
        return float(self.plan.model["seconds"])

    @property
    def error(self) -> float:
        plan = self.plan
        return predicted(plan.scheme, plan.unit if plan.fragment.on_matrix_unit else None, plan.hints.k, plan.promote).estimate


def steps() -> list[Step]:
    """Steps 2 to 8, in order."""
    made = [road.render(spec) for spec in SPECS]
    return [Step(spec, one.plan, one.source.text) for spec, one in zip(SPECS, made)]


def lines_of_code(text: str) -> int:
    """Without blank lines and lines that are comments alone."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def rows() -> list[tuple[str, ...]]:
    """The table: the cells of each step."""
    found = steps()
    first = found[0].seconds
    return [(BY_HAND.stem, str(lines_of_code(BY_HAND.read_text())), "", "", "")] + [
        (step.spec.stem, str(lines_of_code(step.text)), f"{1e3 * step.seconds:.2f}", f"{first / step.seconds:.2f}", f"{step.error:.1e}") for step in found]


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    for cells in (HEAD, ("---", *["---:"] * (len(HEAD) - 1)), *rows()):
        print("| " + " | ".join(cells) + " |")
