"""The command line's program: verbs, which register themselves. It knows none of them by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import gemmgen
from gemmgen.cli.output import emit
from gemmgen.cli.verb import GROUPS, TITLES, VERBS, epilog
from gemmgen.errors import UnknownName, did_you_mean
from gemmgen.paths import CMAKE

WIDEST = 120
"""Columns of help, where the terminal has them: longer lines are hard to read."""


class Verbs(TyperGroup):
    """The verbs under their headings, and an unknown one with the nearest."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        if self is not ctx.find_root().command:
            return super().format_commands(ctx, formatter)
        width = max(map(len, self.commands))
        for number, title in enumerate(TITLES):
            names = sorted(one.name for one in (*VERBS.values(), *GROUPS.values()) if one.about == number and one.name in self.commands)
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", self.commands[name].get_short_help_str(formatter.width - 6 - width)) for name in names])

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and not args[0].startswith("-") and not ctx.resilient_parsing:
            error = UnknownName(ctx.command_path, "verb", args[0], self.commands)
            # A verb of a group is meant by its last word, too.
            error.remedy = did_you_mean(args[0], [*self.commands, *VERBS]) or f"{ctx.command_path} --help"
            raise error
        return super().resolve_command(ctx, args)


def _typer(help: str, examples: Sequence[str] = (), **more: Any) -> typer.Typer:
    return typer.Typer(
        cls=Verbs, help=help, epilog=epilog(examples) if examples else None, rich_markup_mode=None, pretty_exceptions_enable=False,
        context_settings={"max_content_width": WIDEST}, **more,
    )


ABOUT = "From a declarative spec to a verified, FP32-accurate GEMM kernel for matrix units."
app = _typer(ABOUT)


def greeting() -> str:
    """What `gemmgen` alone prints: what it is, and where to start."""
    starts = [(one.examples[0], one.start) for one in sorted(VERBS.values(), key=lambda one: (-one.about, one.name)) if one.start]
    width = max(len(line) for line, _ in starts)
    return "\n".join([f"gemmgen {gemmgen.__version__}: {ABOUT[0].lower()}{ABOUT[1:]}", "", *(f"  {line:<{width}}  {text}" for line, text in starts), "",
                      "gemmgen --help lists all verbs; gemmgen VERB --help has examples of each."])


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
_groups = {}
for _one in GROUPS.values():
    _groups[_one.name] = _typer(_one.help, [verb.examples[0] for name, verb in VERBS.items() if name.startswith(f"{_one.name} ")], add_completion=False)
    app.add_typer(_groups[_one.name], name=_one.name)
for _verb in VERBS.values():
    _verb.add_to(_groups.get(_verb.name.split()[0], app))
