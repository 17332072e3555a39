"""The command line: parses, calls, prints.

Exit codes: 0 all is well; 1 a kernel was built and is not right; 2 the request
itself cannot be served; 130 interrupted; 141 whoever read the output is gone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

INTERRUPTED = 130  # 128 + the signal's number, as shells have it
READER_GONE = 141
COMPLETING = "_GEMMGEN_COMPLETE"
"""What a shell sets that asks for completions."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `gemmgen` with these arguments and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return guarded(lambda: _run(arguments), as_json="--json" in arguments)


def guarded(program: Callable[[], int], *, as_json: bool = False) -> int:
    """The exit code of `program`, whatever becomes of it.

    A GemmgenError becomes a message on stderr or, with `as_json`, an object on
    stdout. Any other exception is a fault of gemmgen and shows itself.
    """
    from gemmgen.cli.output import Progress, ReaderGone, emit, emit_error, warnings_as_notes
    from gemmgen.errors import GemmgenError

    try:
        try:
            try:
                with warnings_as_notes():
                    code = program()
            finally:
                Progress.clear_all()
            emit("", end="")  # a full disk or a closed pipe may show only when all is flushed
            return code
        except GemmgenError as error:
            emit_error(error, as_json)
            return error.exit_code
        except MemoryError as error:
            refused = GemmgenError("memory", "is too small for this problem", got=str(error) or None,
                                   remedy="smaller --m, --n, --k or matrices")
            emit_error(refused, as_json)
            return refused.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted" if sys.stderr.isatty() else "interrupted", file=sys.stderr)
        return INTERRUPTED
    except ReaderGone:
        # Python flushes stdout once more on its way out: let that succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def _run(arguments: list[str]) -> int:
    import typer

    from gemmgen.cli.app import greeting
    from gemmgen.cli.output import emit, note
    from gemmgen.cli.verb import renamed
    from gemmgen.errors import SpecError

    if not arguments and COMPLETING not in os.environ:
        emit(greeting())
        return 0
    arguments, new = renamed(arguments)
    if new:
        note(f"this verb is now called: gemmgen {new}")

    # Newer typers carry their own copy of click; the exception's class leads to the right one.
    refusal = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
    try:
        code = _command().main(arguments, prog_name="gemmgen", standalone_mode=False)
    except refusal as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "gemmgen"
        raise SpecError(path, error.format_message(), remedy=f"{path} --help") from None
    except typer.Abort:
        raise KeyboardInterrupt from None
    return code or 0


@cache
def _command() -> Any:
    """The parser of all verbs; a process makes it once, which takes longer than most verbs."""
    import typer

    from gemmgen.cli.app import app

    return typer.main.get_command(app)
