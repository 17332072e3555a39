"""What `gemmgen library` prints."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.cli.show import LABEL, table

if TYPE_CHECKING:
    from gemmgen.library.choice import Choice
    from gemmgen.library.file import LoadedLibrary
    from gemmgen.library.made import Library
    from gemmgen.verdict import Verdict


def choice_text(library: LoadedLibrary, choice: Choice, labels: dict[str, str] | None = None) -> str:
    """The kernels of a choice with reasons, and what was left out.

    Args:
        labels: of kernels by their plans' hashes, where they are known.
    """
    lines = [
        f"{'library':<{LABEL}}{library.name}: {len(choice.kernels)} of {choice.candidates} candidates, for {len(choice.sizes)} sizes",
        f"{'worth':<{LABEL}}predicted times are {choice.ratio:.3g} times the best candidates', in the mean; no set of so many has less than {choice.least:.3g}",
        *(f"{'verdict' if at == 0 else '':<{LABEL}}{told}" for at, told in enumerate(verdict_lines(choice))),
        *(f"{'left open' if at == 0 else '':<{LABEL}}{told}" for at, told in enumerate(choice.relaxed)),
        *(f"{'left out' if at == 0 else '':<{LABEL}}{place} on {gpu}, {layout}: {why}" for at, (place, gpu, layout, why) in enumerate(choice.left_out)),
        *(f"{'refused' if at == 0 else '':<{LABEL}}{plan.gpu.name}, {plan.kind.layout_of(plan.layout)}: {plan.summary}: {error.problem}"
          for at, (plan, error) in enumerate(choice.refused)),
        "",
        table(("kernel", "layout", "scheme", "policy", "kind", "block", "slices", "for", "why"), [
            ((labels or {}).get(one.plan.hash, one.plan.gpu.name), one.candidate.layout, one.plan.scheme.name, one.plan.fragment.policy,
             " ".join((one.plan.kind.name, *(word for key, word in one.plan.kind.options.items() if key != "layout"))), "x".join(map(str, one.plan.block)),
             str(one.plan.split_k),
             f"{len(one.sizes)} size{'s' * (len(one.sizes) != 1)}", one.reason)
            for one in choice.kernels
        ]),
    ]
    return "\n".join(lines)


def verdict_lines(choice: Choice) -> list[str]:
    """What the kernels of each GPU are worth beside plain FP32, or native FP64."""
    from gemmgen.catalog.element import F32
    from gemmgen.verdict import summary

    by_gpu: dict[tuple[str, str], list[Verdict]] = {}
    for one in choice.verdicts:
        by_gpu.setdefault((one.gpu, one.element), []).append(one)
    fp32 = "plain FP32 would be faster with a larger kernels_at_most"
    return [summary(mine, fp32 if element == F32.title else f"native {element} is faster") for (_, element), mine in by_gpu.items()]


def choice_value(choice: Choice) -> dict[str, Any]:
    """The same for programs."""
    return {
        "candidates": choice.candidates, "sizes": [list(size) for size in choice.sizes], "ratio": choice.ratio, "no_set_has_less": choice.least,
        "kernels": [
            {"gpu": one.plan.gpu.name, "layout": one.candidate.layout, "plan": one.plan.hash, "scheme": one.plan.scheme.name,
             "policy": one.plan.fragment.policy, "kind": one.plan.kind.name, **one.plan.kind.options,
             "block": list(one.plan.block), "split_k": one.plan.split_k, "from": one.candidate.place, "sizes": [list(size) for size in one.sizes],
             "reason": one.reason}
            for one in choice.kernels
        ],
        "notes": list(choice.notes),
        "verdicts": [one.as_dict() for one in choice.verdicts],
        "left_open": list(choice.relaxed),
        "left_out": [{"from": place, "gpu": gpu, "layout": layout, "why": why} for place, gpu, layout, why in choice.left_out],
        "refused": [
            {"plan": plan.hash, "gpu": plan.gpu.name, "layout": plan.kind.layout_of(plan.layout), "problem": error.problem, "has": error.has}
            for plan, error in choice.refused
        ],
    }


def text(library: Library, folder: Path) -> str:
    """What was written."""
    labels = {kernel.built.plan.hash: kernel.label for kernel in library.kernels}
    code = sum(len(image.content) for image in library.images)
    return "\n".join([
        f"{'wrote':<{LABEL}}{folder}", f"{'code':<{LABEL}}{len(library.images)} files of machine code, {code / 1e6:.2f} MB",
        choice_text(library.loaded, library.choice, labels),
        f"{'next':<{LABEL}}{next_step(folder)}",
    ])


def next_step(folder: Path) -> str:
    """What to type next: the folder's README shows a call."""
    build = folder / "build"
    return f"cmake -S {shlex.quote(str(folder))} -B {shlex.quote(str(build))} && cmake --build {shlex.quote(str(build))}"


def value(library: Library, folder: Path) -> dict[str, Any]:
    """The same for programs."""
    return {
        "name": library.name, "folder": str(folder), "next": next_step(folder), "archs": list(library.archs), "compilers": list(library.compilers),
        "code_bytes": sum(len(image.content) for image in library.images), "labels": [kernel.label for kernel in library.kernels],
        **choice_value(library.choice),
    }
