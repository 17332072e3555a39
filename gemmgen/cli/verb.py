"""What verbs are made of. They lie in folders `verbs`, and register themselves as their files are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gemmgen.cli.output import emit, emit_error, emit_json
from gemmgen.errors import EXIT_OK, GemmgenError

if TYPE_CHECKING:
    from gemmgen.plan import Plan

Specs = Annotated[list[Path], typer.Argument(metavar="SPEC", help="Spec files (.toml); see specs/kernels.")]
OtherGpu = Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="For this GPU instead of the spec's own; see gemmgen gpus.")]
OtherLayout = Annotated[str | None, typer.Option("--layout", metavar="LAYOUT", help=(
    "With A and B stored so instead of as the spec says: nn, nt, tn or tt; n is row major, t transposed."))]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
Silent = Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")]
Row = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Everything about this one; a .toml file will do.")]

KERNELS, MANY, RACES, STUDIES, PROGRAMS, DEVICES, WORLD = range(7)
"""What verbs are about, in the order in which `--help` lists them: one kernel, many, who is faster, what was tried, programs, GPUs, rows."""


@dataclass(frozen=True)
class Verb:
    """
    Attributes:
        about: one of the numbers above.
        function: what typer makes a command of: its parameters are the options, its docstring the help.
        examples: lines of a shell.
        passes_on: whether what follows the first argument is a program's own.
    """

    name: str
    about: int
    function: Callable[..., Any]
    examples: tuple[str, ...]
    passes_on: bool = False

    def add_to(self, app: typer.Typer) -> None:
        epilog = "\n".join(["\b", "Examples:", *(f"  {line}" for line in self.examples)])  # \b keeps the lines as they are
        app.command(self.name, epilog=epilog, context_settings={"allow_interspersed_args": False} if self.passes_on else None)(self.function)


F = TypeVar("F", bound=Callable[..., Any])
VERBS: dict[str, Verb] = {}
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {}
"""JSON schemas of files, by what they are of: each is what an option of `gemmgen schema` prints."""


def verb(about: int, *examples: str, name: str = "", passes_on: bool = False) -> Callable[[F], F]:
    """Registers a function as a verb.

    Args:
        name: where it is not the function's own.
    """
    def register(function: F) -> F:
        own = name or function.__name__.replace("_", "-")
        assert own not in VERBS, own
        VERBS[own] = Verb(own, about, function, examples, passes_on)
        return function

    return register


def stem_of(path: Path, specs: Sequence[Path], gpu: str | None, layout: str | None, plan: Plan) -> str:
    """How files of a spec's kernels are named: after the spec, and the GPU and layout if they are others; two specs of one name by their plans, too."""
    named = "_".join([path.stem, *([Path(gpu).stem] if gpu else []), *([layout] if layout else [])])
    return named if sum(other.stem == path.stem for other in specs) == 1 else f"{named}_{plan.hash}"


def for_each(specs: Sequence[Path], as_json: bool, serve: Callable[[Path], tuple[str, Any, int]]) -> int:
    """Serve every spec, whatever becomes of the others; the worst exit code.

    Args:
        serve: gives the text for a person, the object for a program, and the exit code.
    """
    if len(specs) == 1:
        text, value, code = serve(specs[0])
        emit_json(value) if as_json else emit(text)
        return code
    worst, values = EXIT_OK, []
    for number, spec in enumerate(specs):
        try:
            text, value, code = serve(spec)
            if not as_json:
                emit(("\n" if number and "\n" in text else "") + text)
        except GemmgenError as error:
            value, code = error.as_dict(), error.exit_code
            if not as_json:
                emit_error(error, as_json)
        values.append(value)
        worst = max(worst, code)
    if as_json:
        emit_json(values)
    return worst
