"""What the tuner found, as text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from gemmgen.cli.show import LABEL, table
from gemmgen.errors import SpecError

if TYPE_CHECKING:
    from gemmgen.workshop.tune import Profile, Tuned

MEANING = {
    "chosen": "chosen", "greedy": "greedy rule alone (MixPert 3.4)", "highest": "each GEMM's most accurate",
    "exhaustive": "fastest of all combinations that holds",
}


def thresholds(text: str) -> list[float]:
    """`1e-3,1e-6` as numbers.

    Raises:
        SpecError: anything else.
    """
    from gemmgen.workshop.tune import check_threshold

    found = []
    for word in text.split(","):
        try:
            found.append(float(word))
        except ValueError:
            raise SpecError("--threshold", "is not a list of numbers", got=word, needs="1e-6, or 1e-3,1e-5,1e-6", remedy="--threshold 1e-6") from None
        check_threshold(found[-1])
    return found


def sizes(given: list[str]) -> dict[str, int]:
    """`n=4096` each, as numbers by name.

    Raises:
        SpecError: anything else.
    """
    found = {}
    for one in given:
        name, equals, number = one.partition("=")
        if not equals or not number.isascii() or not number.isdigit() or len(number) > 10:
            raise SpecError("--size", "is not a name and a number", got=one, needs="NAME=NUMBER, of a size of the program", remedy="--size n=4096")
        found[name] = int(number)
    return found


def _lines(label: str, texts: list[str]) -> list[str]:
    return [f"{label if i == 0 else '':<{LABEL}}{text}" for i, text in enumerate(texts)]


def _microseconds(seconds: float) -> str:
    return f"{1e6 * seconds:.4g}" if isfinite(seconds) else "-"


def profile_text(profile: Profile) -> str:
    """The program and its profile."""
    program, engine = profile.program, profile.engine
    names = [level.name for level in profile.levels]
    lines = [
        *_lines("program", [f"{program.name}: {program.title}, {len(program.gemms)} GEMMs"]),
        *_lines("device", [engine.name]),
        *_lines("times", [engine.times]),
        *_lines("errors", [f"{engine.errors}: ||X - X*||_F / ||X*||_F of {program.output} against FP64; "
                           f"{profile.floor:.2g} with exact products (FP32 between them)"]),
        *_lines("left out", list(profile.left_out)),
        "",
        table(("GEMM", "op(A) op(B)", "fed by", "microseconds at", *names), [
            (gemm.name, f"{gemm.m}x{gemm.n}x{gemm.k} {gemm.op}", ", ".join(program.gemms[one].name for one in gemm.fed_by) or "inputs", "",
             *(_microseconds(seconds) for seconds in profile.seconds[at]))
            for at, gemm in enumerate(program.gemms)
        ]),
        "",
        table(("GEMM", "error of the output with it alone at", *names), [
            (gemm.name, "", *(f"{error:.2g}" for error in profile.alone[at])) for at, gemm in enumerate(program.gemms)
        ]),
        "",
        table(("all GEMMs at", "microseconds", "error"), [(name, _microseconds(seconds), f"{error:.3g}") for name, seconds, error in profile.uniform]),
    ]
    return "\n".join(lines)


def tuned_text(tuned: Tuned) -> str:
    """What was chosen for one threshold."""
    question, walk, whole = tuned.question, tuned.found.walk, tuned.found.whole
    names = [gemm.name for gemm in tuned.program.gemms]
    lines = _lines("threshold", [f"{question.threshold:g}"])
    if tuned.choice is None:
        best = tuned.error(walk.highest)
        checked = "no combination of levels meets it" if whole else "no level meets it: each GEMM at its most accurate does not"
        lines += _lines("refused", [f"{checked}; the most accurate levels reach {best:.3g}"])
        return "\n".join(lines)
    lines += _lines("chosen", [f"{name} {level}" for name, level in tuned.levels_of(tuned.choice).items()])
    highest = tuned.seconds(walk.highest)
    against = {"x highest": highest} | ({"x fp32": tuned.fp32_seconds} if tuned.fp32_seconds else {}) | (
        {"x cuBLAS SGEMM": tuned.sgemm_seconds} if tuned.sgemm_seconds else {}
    )
    header = ["", *names, "microseconds", *against, "error"]
    rows = []
    for name, choice in tuned.choices.items():
        seconds = tuned.seconds(choice)
        rows.append([
            MEANING[name], *tuned.levels_of(choice).values(), _microseconds(seconds), *(f"{base / seconds:.3g}" for base in against.values()),
            f"{tuned.error(choice):.3g}",
        ])
    lines += ["", table(header, rows)]
    steps = [
        f"{names[step.gemm]} to {tuned.levels[step.choice[step.gemm]].name}"
        + (f", {names[step.raised]} up to {tuned.levels[step.choice[step.raised]].name}" if step.raised is not None else "")
        + f": error {step.error:.2g}, {'kept' if step.kept else 'taken back'}"
        for step in walk.steps
    ]
    lines += ["", *_lines("greedy", steps or ["nothing to lower"])]
    if whole:
        lines += _lines("whole", [f"{whole.combinations} combinations, {whole.run} run until one held"])
    return "\n".join(lines)


def race_text(tuned: Sequence[Tuned]) -> str:
    """The measured times of whole programs: of each choice once, whichever thresholds it serves; an empty text where nothing was measured."""
    measured: dict[str, float] = {}
    for one in tuned:
        for name, choice in one.choices.items():
            if one.together:
                measured[" ".join(one.levels_of(choice).values())] = one.together[name]
        sgemm = one.together.get("cublas-sgemm")
    if not measured or not sgemm:
        return ""
    rows = [(name, _microseconds(seconds), f"{sgemm / seconds:.3g}") for name, seconds in (*measured.items(), ("cublas-sgemm", sgemm))]
    return table(("all GEMMs one after the other, in one race", "microseconds", "x cuBLAS SGEMM"), rows)
