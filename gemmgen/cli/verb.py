"""What verbs are made of. They lie in folders `verbs`, and register themselves as their files are imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gemmgen.cli.output import Progress, emit, emit_error, emit_json
from gemmgen.errors import EXIT_OK, GemmgenError
from gemmgen.paths import SPECS

if TYPE_CHECKING:
    from gemmgen.plan import Plan

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's malloc.h."""


def names(folder: str) -> Callable[[], list[str]]:
    """What a shell completes to names of the shipped files of a folder of `specs/`; the user's own files it completes itself."""
    return lambda: sorted(path.stem for path in (SPECS / folder).glob("*.toml"))


SPEC_HELP = "Spec files (.toml), or names of shipped ones; see gemmgen list specs."
Specs = Annotated[list[Path], typer.Argument(metavar="SPEC", help=SPEC_HELP, autocompletion=names("kernels"))]
OtherGpu = Annotated[str | None, typer.Option(
    "--gpu", metavar="NAME", help="For this GPU instead of the spec's own; see gemmgen list gpus.", autocompletion=names("gpus"))]
OtherLayout = Annotated[str | None, typer.Option("--layout", metavar="LAYOUT", help=(
    "With A and B stored so instead of as the spec says: nn, nt, tn or tt; n is row major, t transposed."))]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
Silent = Annotated[bool, typer.Option("--quiet", help="No progress and no notes on stderr.")]
Row = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Everything about this one; a .toml file will do.")]

KERNEL, LIBRARY, SPACE, DEVICE, WORLD = range(5)
TITLES = ("Kernel", "Library", "Design space", "GPU", "Start here, and look up")
"""What verbs are about, in the order of `gemmgen --help`, and the headings there."""


@dataclass(frozen=True)
class Verb:
    """
    Attributes:
        name: `verify`, or `gpu probe` for a verb of a group.
        about: one of the numbers above.
        function: what typer makes a command of: its parameters are the options, its docstring the help.
        examples: lines of a shell.
        passes_on: whether what follows the first argument is a program's own.
        start: what the first example is good for, where `gemmgen` alone greets with it.
    """

    name: str
    about: int
    function: Callable[..., Any]
    examples: tuple[str, ...]
    passes_on: bool = False
    start: str = ""

    def add_to(self, app: typer.Typer) -> None:
        app.command(self.name.split()[-1], epilog=epilog(self.examples),
                    context_settings={"allow_interspersed_args": False} if self.passes_on else None)(self.function)


@dataclass(frozen=True)
class Group:
    """Verbs that share their first word.

    Attributes:
        help: one sentence.
    """

    name: str
    about: int
    help: str


def epilog(examples: Sequence[str]) -> str:
    """Examples at the end of a help page."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in examples)])  # \b keeps the lines as they are


F = TypeVar("F", bound=Callable[..., Any])
VERBS: dict[str, Verb] = {}
GROUPS: dict[str, Group] = {}
RENAMED: dict[str, list[tuple[str, str, Mapping[str, str]]]] = {}
"""By an old verb: an option (or nothing), the verb that answers where that option is given, and its options by the old ones."""
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {}
"""JSON schemas of files, by what they are of: each is what an option of `gemmgen list schema` prints."""


def verb(about: int, *examples: str, name: str = "", passes_on: bool = False, start: str = "", was: Mapping[str, Mapping[str, str]] | None = None,
         ) -> Callable[[F], F]:
    """Registers a function as a verb.

    Args:
        name: where it is not the function's own.
        start: as `Verb` has it.
        was: by an old name (`render`, or `bringup --from-row` for the old verb with that option), new options by old ones.
            An option that becomes nothing is dropped; what nothing becomes is added.
    """
    def register(function: F) -> F:
        own = name or function.__name__.replace("_", "-")
        assert own not in VERBS, own
        VERBS[own] = Verb(own, about, function, examples, passes_on, start)
        for old, options in (was or {}).items():
            word, _, option = old.partition(" ")
            RENAMED.setdefault(word, []).append((option, own, options))
        return function

    return register


def group(name: str, about: int, help: str) -> None:
    """Registers a group of verbs, which are named `GROUP VERB`."""
    assert name not in GROUPS, name
    GROUPS[name] = Group(name, about, help)


def renamed(arguments: Sequence[str]) -> tuple[list[str], str]:
    """The command line with today's names, and the verb that answers for an old one; '' where the name is today's."""
    if not arguments or arguments[0] not in RENAMED:
        return list(arguments), ""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    mine, rest = [part for one in arguments[1:end] for part in _split(one)], arguments[end:]
    # The row for an option comes before the row for none.
    _, new, options = max((row for row in RENAMED[arguments[0]] if row[0] in ("", *mine)), key=lambda row: row[0])
    mine = [options.get(one, one) for one in mine]
    added = [options[""]] if "" in options else []
    return [*new.split(), *added, *filter(None, mine), *rest], " ".join([new, *added])


def _split(word: str) -> list[str]:
    """`--option=value` as two words."""
    option, equals, value = word.partition("=")
    return [option, value] if equals and option.startswith("--") else [word]


def stem_of(path: Path, specs: Sequence[Path], gpu: str | None, layout: str | None, plan: Plan) -> str:
    """How files of a spec's kernels are named: after the spec, and the GPU and layout if they are others; two specs of one name by their plans, too."""
    named = "_".join([path.stem, *([Path(gpu).stem] if gpu else []), *([layout] if layout else [])])
    return named if sum(other.stem == path.stem for other in specs) == 1 else f"{named}_{plan.hash}"


@cache
def keep_memory() -> None:
    """Have C's allocator keep freed memory, where it is glibc's: else each column of a space of candidates is fresh pages, a third of the time of `explain`."""
    import ctypes

    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(M_TRIM_THRESHOLD, 1 << 30)


def for_each(specs: Sequence[Path], as_json: bool, serve: Callable[[Path], tuple[str, Any, int]], *, step: str = "", as_is: bool = False) -> int:
    """Serve every spec, whatever becomes of the others; the worst exit code.

    Args:
        serve: gives the text for a person, the object for a program, and the exit code.
        step: what is done, for the progress of a spec that takes long; '' where `serve` shows its own.
        as_is: the text is source, whose lines a terminal's width does not change.
    """
    def served(spec: Path) -> tuple[str, Any, int]:
        progress = Progress(spec.name, as_json or not step, late=True)
        progress.step(step)
        keep_memory()
        try:
            return serve(spec)
        finally:
            progress.clear()

    if len(specs) == 1:
        text, value, code = served(specs[0])
        emit_json(value) if as_json else emit(text, as_is=as_is)
        return code
    worst, values = EXIT_OK, []
    for number, spec in enumerate(specs):
        try:
            text, value, code = served(spec)
            if not as_json:
                emit(("\n" if number and "\n" in text else "") + text, as_is=as_is)
        except GemmgenError as error:
            value, code = error.as_dict(), error.exit_code
            if not as_json:
                emit_error(error, as_json)
        values.append(value)
        worst = max(worst, code)
    if as_json:
        emit_json(values)
    return worst
