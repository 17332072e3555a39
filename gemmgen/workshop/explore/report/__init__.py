"""The report of a store: one HTML file that asks nobody for anything.

    page = report(Store("store").rows(), title="sgemm on an H200")
    page = report(before, title="before and after", against=Against(after, "after"))

Plots are plotly's, whose JavaScript is inside the file, as is the data. A policy in the page's head allows the page's own scripts, by their
hashes, and no request at all. What comes from the store reaches the page as JSON and becomes text there, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gemmgen import __version__
from gemmgen.errors import GemmgenError
from gemmgen.solve.lookup import PLAIN
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.headline import MOST_JUDGED, error_of, headline, known, seconds_of
from gemmgen.workshop.explore.rebuilt import kernel_of, plan_of
from gemmgen.workshop.explore.report.beside import Pair, beside, change
from gemmgen.workshop.explore.report.judged import intensity_of, model_of, roofs
from gemmgen.workshop.explore.space import by_number
from gemmgen.workshop.explore.trial_row import VERDICTS, Row, possible

if TYPE_CHECKING:
    from gemmgen.library.dispatch import Part, Table

MOST_POINTS = 4000
"""Points that a page shows and a phone still draws."""
MOST_KERNELS = 16
MOST_TEXT = 200
"""Characters of a name or reason from the store."""
MOST_REASONS = 40
MOST_HEADLINES = 8
LEAST_JUDGED = 4
"""Sizes of each GPU that are held against plain FP32, where there are many GPUs."""
_HERE = Path(__file__).resolve().parent
COLUMNS = (
    "gpu", "kind", "verdict", "times", "kernel", "scheme", "design", "size", "m", "n", "k", "layout", "edge", "cube", "intensity", "tflops", "seconds",
    "predicted", "error", "decided", "jitter",
)
_NUMBERS = re.compile(r"(?<![A-Za-z_0-9.])-?\d[\d,._]*(e[+-]?\d+)?")
TRIALS = ("kernel", "reference", "rival")
"""Kinds of rows that something was tried for; others tell of a study."""
SUCCESSES = ("modelled", "compiled", "right", "timed")


class Against(NamedTuple):
    """Rows that a report compares its own with.

    Attributes:
        rows: of the other store, or of the same under another condition.
        name: what the page calls them.
        own: what it calls its own rows; default: the report's title.
    """

    rows: Sequence[Row]
    name: str
    own: str = ""


def report(
    rows: Iterable[Row], *, title: str = "gemmgen: a study", table: Table | None = None, seed: int = 1, against: Against | None = None, live: float = 0.0,
) -> str:
    """The page.

    Args:
        table: a dispatch table, whose rules and kernels are shown.
        seed: of the draw of points, where there are more than a page shows.
        against: other rows to stand beside these.
        live: seconds after which an open page loads itself again; 0 for never.

    Raises:
        GemmgenError: plotly is missing.
    """
    rows = list(rows)
    found = facts(rows, table, seed) | {"live": live, "beside": _beside(rows, against, title) if against else None}
    data = json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # "<" begins no tag inside JSON's strings, nor ends the element; the two line ends are none to JSON.
    data = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    scripts = {"PLOTLY": _plotly(), "SCRIPT": "".join((_HERE / name).read_text() for name in ("elements.js", "page.js"))}
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in scripts.values())
    policy = f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    parts = {"POLICY": policy, "TITLE": html.escape(_clean(title)), "STYLE": (_HERE / "page.css").read_text(), "DATA": data, **scripts}
    return re.sub("@([A-Z]+)@", lambda found: parts[found[1]], (_HERE / "page.html").read_text())


def _plotly() -> str:
    return library("plotly.offline").get_plotlyjs()


# ---- what the page shows


def facts(rows: Sequence[Row], table: Table | None = None, seed: int = 1) -> dict[str, Any]:
    """The page's data, as plain values."""
    everything, rows = rows, [row for row in rows if row.kind in TRIALS]
    with_times = known(rows)
    plottable = [row for row in with_times if row.kind != "reference"]
    timed = any(row.verdict == "timed" for row in plottable)
    shown = thinned(plottable, seed)
    points = [_point(row, at) for at, row in enumerate(shown)]
    counts = Counter(_size(row) for row in shown)
    sizes = dict.fromkeys((row.gpu, _size(row), _edge(row)) for row in sorted(shown, key=_edge))
    notes = []
    if rows and not timed:
        notes.append("Nothing was timed: speeds are what the model predicts.")
    elif untimed := sum(row.verdict != "timed" for row in plottable):
        notes.append(f"{untimed:,} of {len(plottable):,} kernels were not timed: their speeds are what the model predicts, and their points are hollow.")
    if len(shown) < len(plottable):
        notes.append(f"{len(shown):,} of {len(plottable):,} points are drawn: the fastest of each rival and scheme at each size, those on a frontier, and "
                     "others by chance. Counts are of all rows.")
    kernels, told = _kernels(rows, with_times, table)
    verdicts = Counter(row.verdict for row in rows)
    of_gpu: dict[str, list[Row]] = {}
    for row in rows:
        of_gpu.setdefault(row.gpu, []).append(row)
    often = Counter(row.gpu for row in plottable)
    named = sorted(of_gpu, key=lambda gpu: (-often[gpu], gpu))
    judged = max(LEAST_JUDGED, MOST_JUDGED // min(MOST_HEADLINES, max(1, len(named))))
    return {
        "about": _about(rows), "notes": notes, "timed": timed, "shown": len(shown), "plottable": len(plottable),
        "gpus": [_gpu(of_gpu[gpu], gpu) for gpu in named], "model": {_clean(gpu): _model(of_gpu[gpu]) for gpu in named},
        "headlines": [one for gpu in named[:MOST_HEADLINES] if (one := _headline(of_gpu[gpu], judged))],
        "schemes": _schemes(everything),
        "sizes": [{"gpu": _clean(gpu), "label": size, "points": counts[size]} for gpu, size, _ in sizes],
        "decisions": list(dict.fromkeys(name for one in points for name in one["decided"])),
        "columns": COLUMNS, "points": [[one[name] for name in COLUMNS] for one in points],
        "verdicts": [{"verdict": _clean(name), "meaning": VERDICTS.get(name, "unknown to this version"), "count": count}
                     for name, count in verdicts.most_common()],
        "rejected": rejected(everything), "kernels": kernels, "kernels_told": told, "rules": _rules(table),
    }


def _clean(text: object, most: int = MOST_TEXT) -> str:
    """Text of the store as a page shows it: not endless, no control characters, no half of a pair of surrogates."""
    text = str(text)
    if len(text) <= most and text.isascii() and text.isprintable():
        return text
    text = text[:most] + "…" if len(text) > most else text
    return "".join(char if char.isprintable() else " " for char in text).encode("utf-8", "replace").decode()


def _beside(rows: Sequence[Row], against: Against, title: str) -> dict[str, Any]:
    """The comparison as the page shows it."""
    found = beside(rows, against.rows)

    def line(pair: Pair) -> list[Any]:
        scheme, one, other, ratio = pair
        sides = [[_clean(row.kernel), _short(2e-12 * row.m * row.n * row.k / (seconds_of(row) or math.inf)), _short(error_of(row))] for row in (one, other)]
        gpus = _clean(one.gpu) if one.gpu == other.gpu else f"{_clean(one.gpu)}, {_clean(other.gpu)}"
        return [_size(one), round(_edge(one), 2), _clean(scheme, 40), gpus, "measured" if one.verdict == "timed" else "predicted", *sides[0], *sides[1],
                _short(ratio), change(pair)]

    return {"names": [_clean(against.own or title, 80), _clean(against.name, 80)], "told": found["told"], "verdicts": found["verdicts"],
            **{name: [line(pair) for pair in found[name]] for name in ("sizes", "kernels")}}


def _model(rows: Sequence[Row]) -> dict[str, Any]:
    """The model against measurements: figures of each design, and outliers by name."""
    found = model_of(rows)
    return {
        "designs": [[_clean(name, 40), *map(_short, numbers)] for name, *numbers in found["designs"]], "more": found["more"],
        "outliers": [[_clean(row.kernel), _size(row), _clean(row.design or row.policy, 40), _short(1e6 * (row.predicted_seconds or 0)),
                      _short(1e6 * (row.seconds or 0)), _short(ratio), _short(far)] for row, ratio, far in found["outliers"]],
    }


def _size(row: Row) -> str:
    return f"{row.m} x {row.n} x {row.k} {_clean(row.layout)}"


def _edge(row: Row) -> float:
    return max(1, row.m * row.n * row.k) ** (1 / 3)


def _decided(row: Row) -> dict[str, str]:
    """Decisions as words; none where the row has no such object."""
    try:
        found = json.loads(row.decided)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {_clean(name, 40): _clean("x".join(map(str, value)) if isinstance(value, list) else value, 40) for name, value in list(found.items())[:24]}


def _point(row: Row, at: int) -> dict[str, Any]:
    seconds, decided = seconds_of(row), _decided(row)
    predicted = row.predicted_seconds if possible("predicted_seconds", row.predicted_seconds) else None
    return {
        "gpu": _clean(row.gpu), "kind": row.kind, "verdict": row.verdict, "times": "measured" if row.verdict == "timed" else "predicted",
        "kernel": _clean(row.kernel), "scheme": _clean(row.scheme, 40),
        "design": _clean(row.design or row.policy, 40), "size": _size(row), "m": row.m, "n": row.n, "k": row.k, "layout": _clean(row.layout, 40),
        "edge": round(_edge(row), 2), "cube": row.m == row.n == row.k, "intensity": _short(intensity_of(row)),
        "tflops": _short(2e-12 * row.m * row.n * row.k / seconds),
        "seconds": _short(seconds), "predicted": _short(predicted), "error": _short(error_of(row)),
        "decided": decided, "jitter": round(at * 0.618034 % 1, 3),
    }


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def thinned(rows: Sequence[Row], seed: int, most: int = MOST_POINTS) -> list[Row]:
    """At most so many rows: the fastest of each rival and scheme at each size, those on a frontier, and others that are drawn."""
    if len(rows) <= most:
        return list(rows)
    kept: set[int] = set()
    fastest: dict[tuple[Any, ...], tuple[float, int]] = {}
    by_size: dict[tuple[Any, ...], list[tuple[float, float, int]]] = {}
    for at, row in enumerate(rows):
        seconds, error, size = seconds_of(row) or math.inf, error_of(row), (row.m, row.n, row.k, row.layout)
        # A rival's row of a size is one of a few, repeated by every study: the fastest stands for them.
        key = (row.gpu, size, row.kind, row.verdict == "timed", row.scheme if row.kind == "kernel" else row.kernel)
        fastest[key] = min(fastest.get(key, (math.inf, at)), (seconds, at))
        if row.kind == "kernel" and error is not None:
            by_size.setdefault((row.gpu, size, row.verdict == "timed"), []).append((seconds, error, at))
    kept |= {at for _, at in fastest.values()}
    for found in by_size.values():
        least = math.inf
        for _, error, at in sorted(found):
            if error < least:
                least = error
                kept.add(at)
    chosen = sorted(kept)
    if len(chosen) > most:
        chosen = [chosen[at] for at in np.linspace(0, len(chosen) - 1, most).astype(int)]
    rest = np.setdiff1d(np.arange(len(rows)), chosen)
    drawn = np.random.default_rng(seed).choice(rest, most - len(chosen), replace=False)
    return [rows[at] for at in sorted([*chosen, *drawn.tolist()])]


def _about(rows: Sequence[Row]) -> str:
    if not rows:
        return f"No trials. Made by gemmgen {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    studies = sorted({_clean(name, 60) for name in {row.study for row in rows}})
    shown = ", ".join(studies[:4]) + (f" and {len(studies) - 4} more" if len(studies) > 4 else "")
    first, last = min(row.at for row in rows), max(row.at for row in rows)
    return (f"{len(rows):,} rows of {'study' if len(studies) == 1 else 'studies'} {shown}, {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC. "
            f"Made by gemmgen {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC.")


def _gpu(rows: Sequence[Row], gpu: str) -> dict[str, Any]:
    told = "–"
    by_size: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        if possible("reference_seconds", row.reference_seconds):
            by_size.setdefault((row.study, row.m, row.n, row.k, row.layout), []).append(row.reference_seconds)
    if by_size:
        ratios = np.array([one / middle for of in by_size.values() for middle in (median(of),) for one in of])
        low, high = np.percentile(ratios, (5, 95))
        told = f"{100 * (low - 1):+.1f} to {100 * (high - 1):+.1f} % of its median at the size, in 90 % of {len(ratios):,} trials"

    def told_of(name: str) -> str:
        return _clean(", ".join(sorted({getattr(row, name) for row in rows if getattr(row, name)})))

    schemes = sorted({PLAIN, *(row.scheme for row in rows if row.kind == "kernel")})
    return {
        "name": _clean(gpu), "roofs": roofs(gpu, schemes),
        "device": told_of("device"), "cards": len({row.uuid for row in rows if row.uuid}), "driver": told_of("driver"),
        "compiler": told_of("compiler"), "trials": len(rows), "timed": sum(row.verdict == "timed" for row in rows), "reference": told,
    }


def rejected(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """How many candidates of each GPU were rejected, by reason: `{gpu, verdict, reason, count}`, most first.

    Rows with a bad verdict count by their reason without its numbers, of which the first is told. A row whose `extra` has `rejected`,
    counts by inequality of candidates that the model refused before they became trials, adds those.
    """
    rows = list(rows)
    found: Counter[tuple[str, str, str]] = Counter()
    before: dict[str, Counter[str]] = {}
    examples: dict[tuple[str, str, str], str] = {}
    for row in [*(row for row in rows if row.kind != "space"), *newest(rows)]:
        if row.verdict not in SUCCESSES and row.kind != "space":
            line = row.reason.strip().splitlines()[0] if row.reason.strip() else "no reason was kept"
            key = row.gpu, row.verdict, _NUMBERS.sub("", line)  # equal but for their numbers, which differ with each kernel
            examples.setdefault(key, line)
            found[key] += 1
        if "rejected" in row.extra:
            try:
                counts = {str(name): int(count) for name, count in json.loads(row.extra).get("rejected", {}).items()}
            except (ValueError, TypeError, AttributeError, RecursionError):
                continue
            before.setdefault(row.gpu, Counter()).update(counts)
    for gpu, counted in before.items():
        found.update({(gpu, "by the model", name): count for name, count in by_number(counted).items()})
    every: list[dict[str, Any]] = []
    for gpu in dict.fromkeys(gpu for gpu, _, _ in found):
        mine = [(key, count) for key, count in found.most_common() if key[0] == gpu]
        every += [{"gpu": _clean(gpu), "verdict": _clean(key[1]), "reason": _clean(examples.get(key, key[2])), "count": count}
                  for key, count in mine[:MOST_REASONS]]
        if rest := sum(count for _, count in mine[MOST_REASONS:]):
            every.append({"gpu": _clean(gpu), "verdict": "", "reason": f"{len(mine) - MOST_REASONS} other reasons", "count": rest})
    return every


def _slowness(row: Row) -> tuple[bool, float]:
    """Measured times come before predicted ones."""
    return row.verdict != "timed", seconds_of(row) or math.inf


def _headline(rows: Sequence[Row], judged: int) -> dict[str, Any] | None:
    found = headline(rows, judged)
    if found is None:
        return None
    row, verdict = found.row, found.verdict
    error, bound = error_of(row), [f"{name} {100 * share:.0f} %" for name, share in found.bound[:3]]
    return {
        "gpu": _clean(row.gpu), "told": _clean(verdict.sentence) if verdict else f"the best kernel on {_clean(row.gpu)} at {_size(row)}",
        "facts": [[name, _clean(text)] for name, text in (
            ("kernel", row.kernel), ("speed", f"{_short(2e-12 * row.m * row.n * row.k / (seconds_of(row) or math.inf))} TFLOP/s, "
                                              f"{_short(1e6 * (seconds_of(row) or 0))} µs"),
            ("error", f"{error:.1e}, {'measured' if row.error is not None else 'predicted'}" if error else ""),
            ("bound by", ", ".join(bound)), ("how sure", found.sure), ("all sizes", found.mean)) if text],
    }


def _schemes(rows: Sequence[Row]) -> list[list[Any]]:
    """Of each GPU and scheme: trials, right kernels, the least error; and the schemes that studies left out, with the reason."""
    raw: dict[tuple[str, str], list[Any]] = {}
    for row in rows:
        if row.kind == "kernel" and row.scheme:
            one = raw.setdefault((row.gpu, row.scheme), [0, 0, None, ""])
            one[0] += 1
            one[1] += row.verdict in SUCCESSES
            if row.verdict in SUCCESSES and (error := error_of(row)) is not None:
                one[2] = _short(min(error, one[2] or math.inf))
    found = {(_clean(gpu), _clean(scheme, 40)): one for (gpu, scheme), one in raw.items()}
    for row in newest(rows):
        try:
            left = json.loads(row.extra).get("left_out", {}).items()
        except (ValueError, AttributeError, RecursionError):
            continue
        for name, why in list(left)[:MOST_REASONS]:
            found.setdefault((_clean(row.gpu), _clean(name, 40)), [0, 0, None, _clean(why)])
    return [[gpu, scheme, *values] for (gpu, scheme), values in sorted(found.items(), key=lambda one: (one[0][0], -one[1][0], one[0][1]))]


def newest(rows: Iterable[Row]) -> list[Row]:
    """Of each study and GPU the newest row of what was rejected before it became a trial: a study that ran again has several."""
    found: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.kind == "space" and (row.study, row.gpu) in found and found[row.study, row.gpu].at > row.at:
            continue
        if row.kind == "space":
            found[row.study, row.gpu] = row
    return list(found.values())


def _kernels(rows: Sequence[Row], with_times: Sequence[Row], table: Table | None) -> tuple[list[dict[str, Any]], str]:
    """(the kernels to show with their text, what they are)."""
    best: dict[tuple[Any, ...], Row] = {}
    for row in with_times:
        if row.kind == "kernel":
            key = (row.gpu, row.scheme, row.m, row.n, row.k, row.layout)
            if key not in best or _slowness(row) < _slowness(best[key]):
                best[key] = row
    wins: dict[tuple[str, str], list[Row]] = {}
    for row in best.values():
        wins.setdefault((row.gpu, kernel_of(row)), []).append(row)
    labels: dict[tuple[str, str], str] = {}
    if table is None:
        picked = sorted(wins.items(), key=lambda one: -len(one[1]))[:MOST_KERNELS]
        more = f", the {MOST_KERNELS} of {len(wins)} that are so most often" if len(wins) > MOST_KERNELS else ""
        told = f"Those that are the fastest of their scheme at some size{more}, with their text."
    else:
        labels = {(one.gpu, one.identity): label for label, one in table.kernels.items()}
        of: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            if (key := (row.gpu, kernel_of(row))) in labels and row.kind == "kernel":
                of.setdefault(key, []).append(row)
        picked, told = [(key, wins.get(key, of[key][:1])) for key in labels if key in of], f"The kernels of the dispatch table: {table.title}."
    found = []
    for key, won in picked:
        won = sorted(won, key=_edge)
        text, why, tiles = _text(won[0])
        speeds = [2e-12 * row.m * row.n * row.k / seconds for row in won if (seconds := seconds_of(row))]
        error = max((one for row in won if (one := error_of(row)) is not None), default=None)
        about = [won[0].scheme, won[0].design or won[0].policy, f"{_span(speeds)} TFLOP/s" if speeds else "", f"error {error:.1e}" if error else ""]
        sizes = [_size(row) for row in won if best.get((row.gpu, row.scheme, row.m, row.n, row.k, row.layout)) is row]
        more = f" and {len(sizes) - 12} more sizes" if len(sizes) > 12 else ""
        found.append({
            "gpu": _clean(won[0].gpu), "label": labels.get(key, ""), "name": _clean(won[0].kernel), "told": _clean(", ".join(filter(None, about))),
            "where": f"Fastest of {_clean(won[0].scheme, 40)} at {', '.join(sizes[:12])}{more}." if sizes else "",
            "decided": ", ".join(f"{name} {value}" for name, value in _decided(won[0]).items()), "text": text, "why": why,
            "tiles": tiles,
        })
    return found, told


def _span(values: Sequence[float]) -> str:
    low, high = f"{min(values):.3g}", f"{max(values):.3g}"
    return low if low == high else f"{low} to {high}"


def _text(row: Row) -> tuple[str | None, str, list[int]]:
    """(the kernel's source, or None; why not; m and n of its block, warp and instruction)."""
    from gemmgen.render import render

    try:
        plan = plan_of(row)
        if row.identity and plan.hash != row.identity:
            return None, f"This version of gemmgen makes another kernel of the decisions: {plan.hash} and not {_clean(row.identity, 40)}.", []
        return render(plan).text, "", [*plan.block[:2], *plan.warp[:2], *plan.fragment.shape[:2]]
    except GemmgenError as error:
        return None, f"This version of gemmgen does not make it: {_clean(error.problem)}.", []


def _rules(table: Table | None) -> list[dict[str, Any]]:
    if table is None:
        return []
    from gemmgen.library.dispatch import as_lines

    return [{"gpu": part.gpu, "layout": part.layout, "by": part.decided_by, "regret": _regret(part),
             "rules": [[told, f"{label}: {table.kernels[label].name}"] for told, label in as_lines(table, part)]} for part in table.parts]


def _regret(part: Part) -> str:
    def percent(ratio: float) -> str:
        return f"{100 * (ratio - 1):.1f} %"

    told = []
    for what, of in (("Of the shapes that it was made of", part.regret), ("Of shapes held out", part.held_out)):
        if of:
            taken = percent(getattr(of, part.decided_by))
            told.append(f"{what}, {of.shapes}: what is taken takes {taken} longer than the best kernel that is known, in geometric mean; one kernel for all "
                        f"{percent(of.alone)}.")
    return " ".join(told)
