"""`gemmgen study report`, `choose` and `learn`: what is made of a store of trials."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gemmgen.cli.output import Progress, emit, emit_json, json_text, note, write_paths
from gemmgen.cli.show import LABEL
from gemmgen.cli.verb import SPACE, Json, verb
from gemmgen.errors import EXIT_OK, SpecError

if TYPE_CHECKING:
    from gemmgen.workshop.choose.few import Choice
    from gemmgen.workshop.choose.shapes import Shape
    from gemmgen.workshop.explore.trial_row import Row
    from gemmgen.workshop.fit.time_model import Learnt


class Method(StrEnum):
    auto = "auto"
    greedy = "greedy"
    exact = "exact"


class Decide(StrEnum):
    auto = "auto"
    rules = "rules"
    estimates = "estimates"


class Layout(StrEnum):
    nn = "nn"
    nt = "nt"
    tn = "tn"
    tt = "tt"


StorePath = Annotated[str, typer.Argument(metavar="STORE", help="Where a study kept its trials: a folder, or the URI of a bucket.")]
Where = Annotated[str, typer.Option("--where", metavar="SQL", help="Only rows of which this holds, as: scheme = 'ootomo' and m >= 1024.")]
Seed = Annotated[int, typer.Option(min=0, help="Of what is drawn.")]


LOADING_SECONDS = 600.0
"""What loading all rows of a store may take."""


def _rows(store: str, where: str, quiet: bool) -> list[Row]:
    from gemmgen.workshop.explore.store import Store

    opened = Store(store, where=where, note=lambda text: note(text, quiet=quiet), seconds=LOADING_SECONDS)
    try:
        return opened.rows()
    finally:
        opened.close()


@verb(
    SPACE,
    "gemmgen study report explore-out/sgemm_h200 -o report.html",
    "gemmgen study report explore-out/sgemm_h200 --where \"scheme = 'ootomo'\" --table dispatch.json -o report.html",
    "gemmgen study report before --against after",
    "gemmgen study report explore-out/two --where \"gpu = 'a100'\" --against explore-out/two --against-where \"gpu = 'h200'\"",
    "gemmgen study report explore-out/sgemm_h200 --watch --open",
    name="study report", was={"report": {}},
)
def report(
    store: StorePath,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page.")] = Path("report.html"),
    title: Annotated[str, typer.Option(help="The page's title; default: the store's name.")] = "",
    table: Annotated[Path | None, typer.Option(metavar="JSON", help="A dispatch table of gemmgen study choose, whose rules and kernels are shown.")] = None,
    where: Where = "",
    against: Annotated[str | None, typer.Option(metavar="STORE", help=(
        "Also compare with this store, or with the same under --against-where: two GPUs, two compilers, before and after."))] = None,
    against_where: Annotated[str | None, typer.Option("--against-where", metavar="SQL", help="Of --against; default: as --where.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Draw again whenever the store has new rows, until Ctrl-C; an open page follows.")] = False,
    opened: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    seed: Seed = 1,
    as_json: Json = False,
) -> int:
    """Draw a store of trials as one HTML file.

    It shows the frontier of error against speed, speed over size beside rivals,
    heat maps, a roofline, the decisions of all kernels, predictions against
    measurements, why candidates were rejected, and the best kernels with their
    text; of two stores what is faster in which. The file needs no server and no
    network, and asks for neither.
    """
    from gemmgen.library.dispatch import load_table
    from gemmgen.workshop.explore import report as reporting

    loaded = load_table(table) if table else None
    if against_where is not None and against is None:
        raise SpecError("--against-where", "belongs to --against", got=against_where, needs="--against STORE", remedy="gemmgen study report --help")
    progress = Progress("report", as_json, late=True)
    other_where = where if against_where is None else against_where

    def draw(live: float = 0.0, *, absent: bool = False) -> tuple[Path, dict[str, Any]]:
        """Write the page; with `absent` of a store that is not there yet, too."""
        progress.step("read the store")
        rows = [] if absent and not _there(store) else _rows(store, where, as_json)
        other = None
        if against is not None:
            progress.step(f"read {against}")
            other = reporting.Against(_rows(against, other_where, as_json), _called(against, other_where), _called(store, where))
        progress.step(f"draw {len(rows):,} rows")
        page = reporting.report(rows, title=title or _called(store, ""), table=loaded, seed=seed, against=other, live=live)
        progress.clear()
        [written] = write_paths({output: page})
        return written, {"file": str(written), "bytes": len(page.encode()), "rows": len(rows), "against_rows": len(other.rows) if other else None}

    if watch:
        written, told = _watched(store, draw, opened, as_json)
    else:
        written, told = draw()
        if opened:
            _open(written, as_json)
    if as_json:
        emit_json(told)
    else:
        emit(f"{'wrote':<{LABEL}}{written}, {told['bytes'] / 1e6:.1f} MB, {told['rows']:,} rows")
    return EXIT_OK


EACH = 5.0
"""Seconds between two looks of `--watch` at the store, and between two loads of the page; more where drawing takes more than a tenth of them."""


def _called(store: str, where: str) -> str:
    """A store's name, with the condition on its rows."""
    return (Path(store.rstrip("/")).name or store) + (f", {where}" if where else "")


def _there(store: str) -> bool:
    from gemmgen.workshop.explore.store import Store

    return bool(Store(store).place.exists())


def _watched(store: str, draw: Callable[..., tuple[Path, dict[str, Any]]], opened: bool, quiet: bool) -> tuple[Path, dict[str, Any]]:
    """`study report --watch`: what was drawn last, once Ctrl-C has ended it; the last page no longer loads itself again."""
    from gemmgen.workshop.explore.store import Store

    before: dict[str, int] | None = None
    each, first = EACH, True
    try:
        while True:
            files = dict(Store(store).listing().files) if _there(store) else {}
            if files != before:
                began = time.perf_counter()
                written, told = draw(each, absent=True)
                each = max(EACH, round(10 * (time.perf_counter() - began)))
                before = files
                note(f"{told['rows']:,} rows in {written}" + ("; Ctrl-C ends it" if first else ""), quiet=quiet)
                if opened and first:
                    _open(written, quiet)
                first = False
            time.sleep(each)
    except KeyboardInterrupt:
        return draw(absent=True)


def _open(page: Path, quiet: bool) -> None:
    """In the browser of the desktop; a note where there is none, as over ssh."""
    import webbrowser

    try:
        browser = webbrowser.get()
        in_terminal = type(browser) is webbrowser.GenericBrowser  # would take the terminal, and draws nothing
        done = not in_terminal and browser.open(page.resolve().as_uri())
    except webbrowser.Error:
        done = False
    if not done:
        note(f"no browser is here: open {page} in one", quiet=quiet)


@verb(
    SPACE,
    "gemmgen study choose explore-out/sgemm_h200 --kernels 8 -o dispatch.json",
    "gemmgen study choose explore-out/sgemm_h200 --kernels 4 --shapes transformers --layout nn --error 1e-6",
    "gemmgen study choose explore-out/sgemm_h200 --shapes my_shapes.csv --held-out other_shapes.csv --json",
    "gemmgen study choose explore-out/sgemm_h200 --kernels 24 --shapes drawn:300 --time few_store --seconds 240",
    name="study choose", was={"choose": {}},
)
def choose(
    store: StorePath,
    kernels: Annotated[int, typer.Option(min=1, max=1000, help="How many, for each GPU, at the most.")] = 8,
    shapes: Annotated[str | None, typer.Option(metavar="NAME|FILE", help=(
        "The distribution of sizes: a name under specs/shapes (transformers, hpl), a .toml file like those, or a .csv with columns m, n, k and, at "
        "will, layout and weight, or drawn:300 for so many from 64 to 8192; default: the sizes in the store."))] = None,
    layout: Annotated[Layout | None, typer.Option(help="Of all shapes, instead of their own.")] = None,
    gpu: Annotated[list[str] | None, typer.Option("--gpu", metavar="NAME", help="Only for this GPU; may be given several times.")] = None,
    error: Annotated[float | None, typer.Option(min=0, metavar="NUMBER", help=(
        "The largest relative Frobenius error that a kernel may have; without it all that were judged right may be chosen."))] = None,
    held_out: Annotated[str, typer.Option(metavar="SHARE|FILE", help=(
        "Shapes that kernels and rules are not chosen by, to measure what they are worth for others: a share, 0 for none, or a file like --shapes."))] = "0.25",
    method: Annotated[Method, typer.Option(help=(
        "greedy, exact (an integer programme), or auto: exact where there are few enough kernels and shapes."))] = Method.auto,
    decide: Annotated[Decide, typer.Option(help=(
        "What takes a kernel: rules over m, n and k, the least of the kernels' estimated times, or auto: what has the smaller regret."))] = Decide.auto,
    learn: Annotated[bool, typer.Option(help="Fit the model's constants to the store first, where it stands in for measurements.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the dispatch table there (JSON).")] = None,
    time: Annotated[str | None, typer.Option("--time", metavar="STORE", help=(
        "Also race the chosen kernels at every shape on this machine's GPU, and keep their times as rows of that store, so that the next choice is by "
        "measurements alone."))] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="Time for all races of --time.")] = None,
    where: Where = "",
    seed: Seed = 1,
    as_json: Json = False,
) -> int:
    """Choose the few kernels that serve a distribution of sizes.

    Of all kernels of a store, at most so many are taken that the geometric mean of
    time over the best known one's is the least. A dispatch table says which of them
    a product gets, by rules over m, n and k or by the least of simple estimates of
    their times. Regret is reported of the chosen kernels, of both ways to take one, of shapes that were held out, and of one kernel for all. Where a
    kernel was not timed at a shape, the model's time stands in, and it is said.
    """
    from gemmgen.workshop.choose import few as choosing
    from gemmgen.workshop.choose.shapes import load_shapes, shapes_of

    wanted = load_shapes(shapes) if shapes else None
    progress = Progress("choose", as_json, late=True)
    progress.step("read the store")
    rows = _rows(store, where, as_json)
    progress.step(f"choose among {len(rows):,} rows")
    found = choosing.choose(
        rows, kernels, wanted, gpus=gpu or (), layout=layout and layout.value, error=error, held_out=_held_out(held_out), seed=seed,
        method=method.value, decide=decide.value, learn=learn, title=f"shapes {shapes}" if shapes else "sizes of the store",
    )
    progress.clear()
    written = write_paths({output: json_text(found.table.model_dump(mode="json", exclude_none=True)) + "\n"}) if output else []
    if time:
        _time(found, time, wanted or shapes_of(rows), seconds, as_json)
    if as_json:
        emit_json(found.as_dict())
    else:
        emit("\n".join([choice_text(found), *(f"{'wrote':<{LABEL}}{file}" for file in written)]))
    return EXIT_OK


def _time(found: Choice, place: str, shapes: list[Shape], seconds: float | None, quiet: bool) -> None:
    """`choose --time`; raises as `choose.timed.timed`."""
    from gemmgen.workshop.choose.timed import timed
    from gemmgen.workshop.explore.store import Writer

    progress, writer = Progress("choose", quiet), Writer(place)
    try:
        for gpu in found.sets:
            for text in timed(found, gpu, shapes, writer.add, seconds=seconds, progress=progress.step):
                note(text, quiet=quiet)
    finally:
        writer.close()
    progress.clear()


def _held_out(text: str) -> float | list[Shape]:
    """A share, or shapes.

    Raises:
        SpecError: it is neither.
    """
    from gemmgen.workshop.choose.shapes import load_shapes

    try:
        share = float(text)
    except ValueError:
        return load_shapes(text)
    if not 0 <= share <= 0.9:
        raise SpecError("--held-out", "is no share that leaves shapes to learn from", got=text, needs="0 to 0.9, or a file of shapes", remedy="--held-out 0.25")
    return share


def _percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):.2g} %" if ratio < 1.1 else f"{100 * (ratio - 1):.0f} %"


def choice_text(choice: Choice) -> str:
    """Kernels, rules and regrets as text."""
    from gemmgen.library.dispatch import as_text
    from gemmgen.verdict import summary

    lines = []
    for text in choice.notes:
        lines.append(f"{'times':<{LABEL}}{text}")
    for gpu, one in choice.sets.items():
        costs = choice.costs[gpu]
        proof = "the best set, proven by an integer programme" if one.least >= one.cost - 1e-9 and one.method == "exact" else (
            f"{one.method}; no set of so many has less than {_percent(2.718281828459045 ** one.least)}")
        lines += ["", f"{gpu:<{LABEL}}{len(one.kernels)} of {len(costs.rows)} kernels for {len(costs.shapes)} shapes: {proof}"]
        lines += [f"{'verdict':<{LABEL}}{summary(mine)}" for mine in (choice.verdicts.get(gpu),) if mine]
        for part in choice.table.parts:
            if part.gpu != gpu:
                continue
            for what, regret in (("regret", part.regret), ("held out", part.held_out)):
                if regret:
                    timed = f"{100 * regret.measured:.0f} % of them timed"
                    lines.append(
                        f"{what:<{LABEL}}layout {part.layout}, {regret.shapes} shapes ({timed}): {_percent(regret.chosen)} with the best of the kernels, "
                        f"{_percent(regret.rules)} by rules, {_percent(regret.estimates)} by estimates (worst {_percent(regret.worst)}), "
                        f"{_percent(regret.alone)} with one kernel for all")
            lines += [f"{part.decided_by if at == 0 else '':<{LABEL}}{line}" for at, line in enumerate(as_text(choice.table, part).splitlines())]
    lines.append("")
    for at, (label, kernel) in enumerate(choice.table.kernels.items()):
        error = f", error {kernel.error:.1e}" if kernel.error is not None else ""
        lines.append(f"{'kernels' if at == 0 else '':<{LABEL}}{label}  {kernel.name} ({kernel.gpu}, {kernel.layout}{error})")
    return "\n".join(lines)


@verb(
    SPACE, "gemmgen study learn explore-out/sgemm_h200 --gpu h200", "gemmgen study learn explore-out/sgemm_h200 --gpu h200 > learnt.txt",
    name="study learn", was={"learn": {}},
)
def learn(
    store: StorePath,
    gpu: Annotated[str, typer.Option("--gpu", metavar="NAME", help="Whose constants; see gemmgen list gpus.")],
    where: Where = "",
    seed: Seed = 1,
    as_json: Json = False,
) -> int:
    """Fit the time model of a GPU to the trials of a store.

    Prints the error of predicted times before and after, of kernels and sizes that
    were fitted to and of others that were held out, and the constants as lines for
    the GPU's row under specs/gpus. The lines before them are comments, so that all
    of it may stand in such a file. Nothing is changed. Where the store has too few
    timed rows of the GPU, the report names the prior: what its constants rest on.
    """
    from gemmgen.workshop.fit.time_model import learn as learnt

    progress = Progress("learn", as_json, late=True)
    progress.step("read the store")
    rows = _rows(store, where, as_json)
    progress.step(f"fit {len(rows):,} rows")
    found = learnt(rows, gpu, seed=seed)
    progress.clear()
    emit_json(found.as_dict()) if as_json else emit(learnt_text(found))
    return EXIT_OK


def learnt_text(found: Learnt) -> str:
    """What was learnt, as lines of a row with comments before them."""
    if found.reason:
        return f"# {found.gpu.name}: nothing was fitted: {found.reason}"
    lines = [f"# {found.gpu.name}: {found.rows} times of {found.kernels} kernels at {found.sizes} sizes on an {found.device or found.gpu.title}"]
    for name, one in found.errors.items():
        lines.append(f"# {name + ':':<12} {one.rows:6d} rows: mean error {100 * one.before:.1f} % before, {100 * one.after:.1f} % after; "
                     f"mean {100 * one.lean_before:+.1f} %, {100 * one.lean_after:+.1f} %")
    if not found.constants:
        return "\n".join([*lines, "# no constants predict these rows better than the row's own"])
    if not found.helped:
        lines.append("# the rows that were held out are predicted no better: keep the row as it is")
    lines.append("# value before, and how far the rows leave it open:")
    lines += [f"#   {'.'.join(filter(None, one.place)):<36} {one.before:<10.4g} -> {one.after:<10.4g} {100 * one.deviation:+.0f} %".replace(" +", " +- ")
              for one in found.constants]
    return "\n".join([*lines, "", found.lines])
