"""The command line's program: verbs, which register themselves. It knows none of them by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

import gemmgen
from gemmgen.cli.output import emit
from gemmgen.cli.verb import VERBS
from gemmgen.paths import CMAKE

app = typer.Typer(
    help="From a declarative spec to a verified, FP32-accurate GEMM kernel for matrix units.",
    rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False,
)


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True,
                                          callback=lambda asked: _print(asked, f"gemmgen {gemmgen.__version__}"))] = False,
    cmake_dir: Annotated[bool, typer.Option("--cmake-dir", help="Print the folder that CMake finds gemmgen in (gemmgen_DIR), and exit.", is_eager=True,
                                            callback=lambda asked: _print(asked, str(CMAKE)))] = False,
) -> None:
    pass


def _print(asked: bool, text: str) -> None:
    if asked:
        emit(text)
        raise typer.Exit


def verb_modules() -> list[str]:
    """Modules that register verbs: the files of every folder `verbs`, wherever it lies."""
    package = Path(gemmgen.__file__).parent
    return sorted(".".join(("gemmgen", *path.relative_to(package).with_suffix("").parts)) for path in package.rglob("verbs/*.py") if path.stem != "__init__")


for _module in verb_modules():
    import_module(_module)
for _verb in sorted(VERBS.values(), key=lambda one: one.about):
    _verb.add_to(app)
