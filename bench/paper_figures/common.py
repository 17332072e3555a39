"""What the parts share: built kernels, files that a measuring verb writes, tables, and pictures that come out the same each time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gemmgen import timing
from gemmgen.build import Binary, build
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.run import cuda
from gemmgen.solve import solve
from gemmgen.spec import loads


@dataclass(frozen=True)
class Kernel:
    """A built kernel, by its name in the tables."""

    name: str
    plan: Plan
    source: Source
    binary: Binary


def prepared(job: tuple[str, Mapping[str, Any]]) -> Kernel | GemmgenError:
    """(name, the spec's sections) -> the kernel, or why there is none; runs in a worker process."""
    name, sections = job
    try:
        plan = solve(loads(sections))
        source = render(plan)
        return Kernel(name, plan, source, build(source))
    except GemmgenError as error:
        return error


def compiled(asked: Mapping[str, Mapping[str, Any]]) -> tuple[list[Kernel], dict[str, str]]:
    """(the kernels, {name: why it could not be built}) of specs by name, compiled side by side.

    Raises:
        GemmgenError: none could be built.
    """
    # The parent may hold a CUDA context, which a forked child could not use.
    with ProcessPoolExecutor(min(len(asked), os.cpu_count() or 1), mp_context=get_context("spawn")) as pool:
        made = dict(zip(asked, pool.map(prepared, asked.items())))
    refused = {name: one for name, one in made.items() if isinstance(one, GemmgenError)}
    if len(refused) == len(asked):
        raise next(iter(refused.values()))
    return [one for one in made.values() if isinstance(one, Kernel)], {name: str(error) for name, error in refused.items()}


def contenders(library: Mapping[str, str], kernels: Iterable[Kernel], inputs: timing.Inputs) -> list[timing.Contender]:
    """The products of a library, by their names in the tables, and kernels."""
    calls = [timing.cublas(kind, inputs, name) for name, kind in library.items()]
    return calls + [timing.generated(k.name, k.plan, k.source, k.binary, inputs) for k in kernels]


def require(gpu: str, verb: str) -> None:
    """
    Raises:
        GemmgenError: no such GPU, or none is here.
    """
    reason = cuda.why_not(GPUS.get(gpu, where="--gpu"))
    if reason is not None:
        reason.where, reason.remedy = f"papers.py {verb}", f"a machine with a GPU that runs {gpu}'s kernels, and cupy"
        raise reason


def progress(text: str) -> None:
    print(f"papers: {text}", file=sys.stderr, flush=True)


def writable(path: Path) -> None:
    """Try the file before minutes are spent.

    Raises:
        SpecError: it cannot be written.
    """
    try:
        path.touch()
    except OSError as error:
        raise SpecError(str(path), "cannot be written", got=error.strerror) from None


def read(path: Path) -> str:
    """A file's text.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        return path.read_text()
    except (OSError, ValueError) as error:
        raise SpecError(str(path), "cannot be read", got=str(error)) from None


def load(path: Path, form: str, verb: str) -> dict:
    """What `papers.py VERB` wrote.

    Args:
        form: its "format".

    Raises:
        SpecError: it is not that.
    """
    wants = f"a file that `papers.py {verb}` wrote"
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SpecError(str(path), "cannot be read", got=str(error), needs=wants) from None
    if not isinstance(document, dict) or document.get("format") != form:
        raise SpecError(str(path), f"is not {wants}", needs=f'"format": "{form}"')
    return document


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def saved(figure: Any, path: Path) -> Path:
    """Write the figure; an .svg has its text as text, and the same bytes each time."""
    import matplotlib
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "gemmgen"}):
        figure.savefig(path, dpi=120, **({"metadata": {"Date": None}} if path.suffix == ".svg" else {}))
    plt.close(figure)
    return path
