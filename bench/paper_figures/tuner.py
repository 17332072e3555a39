"""MixPert figure 10: speed-up and error of programs under the tuner, from what `gemmgen tune --output` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paper_figures.common import markdown, saved

from gemmgen.errors import SpecError
from gemmgen.picture import drawing

CHOICES = {"highest": "each GEMM's most accurate", "chosen": "chosen", "greedy": "greedy rule (MixPert 3.4)", "exhaustive": "fastest that holds, of all"}


def load(path: Path) -> list[dict]:
    """What `gemmgen tune --output` wrote: one outcome, or one for each threshold.

    Raises:
        SpecError: it is not that.
    """
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(str(path), "cannot be read", got=str(error), needs="a file that `gemmgen tune --output` wrote") from None
    found = found if isinstance(found, list) else [found]
    if not found or not all(isinstance(one, dict) and {"program", "threshold", "choices", "sgemm_seconds"} <= one.keys() for one in found):
        raise SpecError(str(path), "is no outcome of the tuner", needs="a file that `gemmgen tune --output` wrote")
    return sorted(found, key=lambda one: one["threshold"])


def points(outcomes: Sequence[Mapping[str, Any]], choice: str) -> list[tuple[float, float, float]]:
    """[(threshold, times as fast as all GEMMs by SGEMM, error)] of a choice, where there is one."""
    found = [(one["threshold"], one["choices"].get(choice), one["sgemm_seconds"]) for one in outcomes]
    return [(threshold, seconds / made["seconds"], made["error"]) for threshold, made, seconds in found if made and seconds]


def as_text(programs: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    lines = []
    for outcomes in programs:
        for choice, label in CHOICES.items():
            for threshold, speed, error in points(outcomes, choice):
                lines.append([outcomes[0]["program"], f"{threshold:.0e}", label, f"{speed:.2f}", f"{error:.1e}"])
    return "MixPert figure 10:\n\n" + markdown(["program", "threshold", "levels", "times as fast as SGEMM", "error"], lines)


def draw(programs: Sequence[Sequence[Mapping[str, Any]]], path: Path) -> Path:
    """A row of two panels a program: speed-up and error over the threshold.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(programs), 2, figsize=(10, 3.8 * len(programs)), squeeze=False)
    for (left, right), outcomes in zip(axes, programs):
        for number, (choice, label) in enumerate(CHOICES.items()):
            found = points(outcomes, choice)
            if found:
                thresholds, speeds, errors = zip(*found)
                look = {"marker": "osx^"[number], "linestyle": ["-", "-", "--", ":"][number], "markersize": 5, "label": label}
                left.plot(thresholds, speeds, **look)
                right.plot(thresholds, errors, **look)
        limits = [one["threshold"] for one in outcomes]
        right.plot(limits, limits, color="grey", linewidth=0.8, label="the threshold")
        left.set(xscale="log", xlabel="threshold", ylabel="times as fast as SGEMM", title=f"{outcomes[0]['program']}, {outcomes[0]['device']}")
        right.set(xscale="log", yscale="log", xlabel="threshold", ylabel="error of the output", title=outcomes[0]["program"])
        left.legend(fontsize=7)
        right.legend(fontsize=7)
    figure.tight_layout()
    return saved(figure, path)
