"""How a plan came about, as text, LaTeX and plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gemmgen.cli.show import LABEL, facts, table
from gemmgen.errors import SpecError
from gemmgen.kinds.kind import GEMM

if TYPE_CHECKING:
    from gemmgen.model.equation import Equation
    from gemmgen.plan import Plan
    from gemmgen.solve import Candidate, Explanation
    from gemmgen.solve.frontier import Frontier, Point
    from gemmgen.spec import LoadedSpec


def with_candidate(loaded: LoadedSpec, settings: Sequence[str]) -> LoadedSpec:
    """The spec with `key=value` settings laid over it; a tile is `128x128x32`.

    Raises:
        SpecError: a setting is not of that form, or not acceptable.
    """
    from gemmgen.designs import all_decisions
    from gemmgen.errors import UnknownName
    from gemmgen.spec import loads

    data, decisions = loaded.spec.model_dump(mode="json"), {one.name: one for one in all_decisions()}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if key not in decisions:
            raise UnknownName("--candidate", "setting", key, decisions)
        decision = decisions[key]
        parts = text.split("x") if decision.is_tile else [text]
        if not equals or not (decision.words or all(part.isdecimal() for part in parts)):
            raise SpecError("--candidate", "is not a setting", got=setting, needs="KEY=VALUE, as stages=4 or block=128x128x32",
                            remedy="gemmgen explain --help")
        data[decision.section][key] = text if decision.words else list(map(int, parts)) if decision.is_tile else int(text)
    return loads(data, loaded.place).model_copy(update={"folder": loaded.folder})


def _groups(explanation: Explanation, known: dict[str, Any]) -> list[tuple[str, tuple[Equation, ...], dict[str, Any]]]:
    """Title, equations and the values of their symbols: `known`, and of the accuracy its own."""
    from gemmgen.model import accuracy, epilogue, error

    plan = explanation.plan
    ended = [("Epilogue", epilogue.EQUATIONS, epilogue.costs(plan.epilogue, known))] if plan.epilogue else []
    own = accuracy.predicted(
        plan.scheme, explanation.request.unit, plan.hints.k, plan.promote, output_roundoff=plan.output.roundoff, compensated=plan.promotion.compensates,
    ).numbers
    return [
        *((title, equations, known) for title, equations in plan.design.equations.groups), *ended, ("Error", error.EQUATIONS, known),
        ("Accuracy, uniform data of both signs", accuracy.PREDICTED, own),
    ]


def _numbers(explanation: Explanation) -> dict[str, Any]:
    """All symbols, those of the error with them where the plan promotes."""
    from gemmgen.model import error
    from gemmgen.model.equation import solved

    plan, known = explanation.plan, dict(explanation.numbers)
    if plan.promote:
        of_error = error.error_numbers(plan.scheme, plan.unit, plan.promote, max(plan.hints.k, 1))
        known |= solved(error.EQUATIONS, of_error)
    return known


def _line(equation: Equation, known: dict[str, Any]) -> tuple[str, str, str] | None:
    """(number, `symbol = value unit`, `form = filled`), or None where a symbol has no value."""
    from gemmgen.model.equation import figure

    if any(name not in known for name in equation.variables):
        return None
    unit = f" {equation.unit}" if equation.unit else ""
    return (equation.number, f"{equation.symbol} = {figure(equation.value(known))}{unit}",
            f"= {equation.form}\n= {equation.folded(known)}")


MOST_SHOWN = 3
"""Of what would change a choice, and of the inequalities that a spec asks for."""


def short(explanation: Explanation) -> str:
    """The explanation in at most twenty lines: what was chosen, what limits it, the runner-up, what would change it, and the verdict."""
    from gemmgen.model import epilogue, time
    from gemmgen.model.accuracy import predicted
    from gemmgen.naming import kernel_name
    from gemmgen.verdict import untold, verdict
    from gemmgen.solve.why import why

    e, plan, known = explanation, explanation.plan, explanation.numbers
    found, worth, own = why(e), verdict(plan), float(known["seconds"])
    unit = plan.unit if plan.fragment.on_matrix_unit else None
    error = predicted(plan.scheme, unit, plan.hints.k, plan.promote, output_roundoff=plan.output.roundoff, compensated=plan.promotion.compensates)
    rated = time.efficiency(plan.gpu, plan.scheme.leading).measured
    size = (f"{plan.hints.matrices} of " if plan.kind.batched else "") + plan.hints.told
    limits = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.limits) or plan.design.binding(known)
    lines = [
        ("kernel", kernel_name(plan)), *_product(plan).items(), ("decided", plan.summary),
        *([("scheme", f"{plan.scheme.name}: {e.scheme_reason}")] if e.scheme_reason else []),
        *([("epilogue", _ended(plan, epilogue.costs(plan.epilogue, known)))] if plan.epilogue else []),
        *([] if plan.inputs.stored_b.is_usual else [("operands", f"A of FP32, B of {plan.inputs.stored_b.title} as stored")]),
        *([("fallback", f"{plan.fallback.scheme.name} for tiles of C with outliers: {plan.fallback.summary}")] if plan.fallback else []),
        *_asked(e, known).items(), *list(_modelled(e).items())[:1],
        ("predicted", f"{own * 1e3:.3g} ms, {known['tflops']:.1f} TFLOP/s for {size}; times "
                      + ("rest on measurements" if rated else f"on {plan.arch} are assumed, for comparing")),
        ("takes", f"{known['registers']} registers a thread, {known['shared_bytes']} B of shared memory, "
                  f"{known['resident_blocks']} block{'s' * (known['resident_blocks'] != 1)} an SM"),
        ("error", f"{_error(error.estimate)} estimated on U[-1, 1]; worst case "
                  + (f"{error.worst:.1e} of |A||B|" if error.worst < float("inf") else "relative to rows")),
        *([("limited by", f"{limits} of the time")] if found.limits else [("limited by", limits)] if limits else []),
        *([("runner-up", f"{found.runner[0]}: {_slower(found.runner[1], own)}")] if found.runner else []),
        *[("changed by", f"{one.what}: {one.then}" + (f", {100 * (1 - one.seconds / own):.0f} % faster" if not one.what.startswith("a product") else ""))
          for one in found.changes[:MOST_SHOWN]],
        ("searched", _searched(e)),
        ("verdict", worth.sentence if worth else untold(plan)),
    ]
    return facts_in_order(lines)


def facts_in_order(lines: Sequence[tuple[str, str]]) -> str:
    """`key  value` lines, a key that comes again left out."""
    return "\n".join(f"{'' if at and lines[at - 1][0] == key else key:<{LABEL}}{value}" for at, (key, value) in enumerate(lines))


def _slower(seconds: float, own: float) -> str:
    """`4 % slower`."""
    share = seconds / own - 1
    return "as fast" if abs(share) < 0.005 else f"{100 * share:.0f} % slower" if share > 0 else f"{-100 * share:.0f} % faster, within what the model can tell"


def text(explanation: Explanation) -> str:
    """The whole explanation as a person reads it: equations with numbers, bounds, candidates."""
    from gemmgen.model import epilogue, papers, time
    from gemmgen.model.equation import figure
    from gemmgen.naming import kernel_name
    from gemmgen.solve.search import TIE
    from gemmgen.verdict import verdict

    e, plan, known = explanation, explanation.plan, _numbers(explanation)
    reached = time.efficiency(plan.gpu, plan.scheme.leading)
    parts = [facts({
        "kernel": kernel_name(plan),
        **_product(plan),
        "decided": plan.summary,
        **({"epilogue": _ended(plan, epilogue.costs(plan.epilogue, known))} if plan.epilogue else {}),
        **({} if plan.inputs.stored_b.is_usual else {"operands": f"A of FP32, B of {plan.inputs.stored_b.title} as stored"}),
        **({"fallback": f"{plan.fallback.scheme.name} for tiles of C with outliers: {plan.fallback.summary}"} if plan.fallback else {}),
        "predicted": f"{known['registers']} registers, {known['shared_bytes']} B shared, "
                     f"{known['resident_blocks']} blocks an SM, {known['seconds'] * 1e3:.3f} ms "
                     f"({known['tflops']:.1f} TFLOPS) for {plan.hints.told.replace(' ', '')}",
        **({"scheme": f"{plan.scheme.name}: {e.scheme_reason}"} if e.scheme_reason else {}),
        **({"weighed": ", ".join(f"{policy} {seconds * 1e3:.3f} ms" for policy, seconds in e.weighed.items())} if len(e.weighed) > 1 else {}),
        **plan.design.told_of(plan),
        **_asked(e, known),
        **_modelled(e),
        **({"binds": binds} if (binds := plan.design.binding(known)) else {}),
        **({"verdict": worth.sentence} if (worth := verdict(plan)) else {}),
        "rates": reached.measured or f"{plan.arch}: assumed, not measured; times are for comparing candidates",
        "searched": _searched(e),
    })]
    if e.rejected:
        meanings = {one.label: one for one in (*plan.design.constraints, *e.request.required)}
        parts.append("rejected candidates, each by the first constraint that it breaks\n" + "\n".join(
            f"{count:>10}  {label}" + (f"\n{'':>12}{meanings[label].name}: {meanings[label].reason}" if label in meanings else "")
            for label, count in e.rejected.items()
        ))
    for title, equations, values in _groups(e, known):
        lines = [line for equation in equations if (line := _line(equation, values))]
        parts += [_equations(title.lower(), lines)] if lines else []
    parts += _limits(e)
    parts += _beside(e)
    paper_lines, given = [], _latencies(e)
    for equation, value in papers.evaluated(known | given):
        if value is None:
            paper_lines.append((equation.number, f"{equation.symbol}: the paper prints no latencies", f"= {equation.form}"))
        else:
            paper_lines.append(_line(equation, papers.numbers(known | given)))
    parts.append(_equations("the papers' own, at this plan", paper_lines))
    parts.append("constraints\n" + "\n".join(
        f"  {c.number:<4} {c.form}\n       {c.filled(known)}\n       {c.name}: {c.reason}" for c in (*plan.design.constraints, *e.request.required)
    ))
    if len(e.best) > 1:
        intensity = plan.design.equations.of("intensity").number
        parts.append(f"best by {e.request.asked[0] if e.request.objective else 'predicted time'}\n" + _candidates(plan, e.best, intensity))
        parts.append(f"front of {intensity} (intensity) against P1 (threads): none beats another in both\n" + _candidates(plan, e.front, intensity))
        parts.append(
            f"{figure(e.tied)} candidates are as good by the spec's own objective: the least predicted time wins" if e.request.objective
            else f"{figure(e.tied)} candidates lie within {100 * TIE:g} % of the fastest and count as equal: {plan.design.order_told}"
        )
    return "\n\n".join(parts)


def _product(plan: Plan) -> dict[str, str]:
    """What a kernel computes, unless it is one product of whole matrices, and how far a scale reaches, unless it is that of a row."""
    kind, run = plan.kind, plan.scheme.family.run_k
    return {
        **({} if kind == GEMM else {"computes": f"{kind.name}: {kind.meaning if kind.batched else kind.formula}"}),
        **({"scales": f"one for every {run} k of a row of A and of a column of B"} if run else {}),
    }


def _ended(plan: Plan, known: dict[str, Any]) -> str:
    """The epilogue in words, and what it takes."""
    return f"{plan.epilogue.title}: {known['end_seconds'] * 1e6:.3g} us in this kernel, {known['apart_seconds'] * 1e6:.3g} us as a kernel behind it"


def _equations(title: str, lines: Sequence[tuple[str, str, str]]) -> str:
    width = max(len(number) for number, _, _ in lines)
    body = []
    for number, value, form in lines:
        body.append(f"  {number:<{width}}  {value}")
        body += [f"  {'':<{width}}    {part}" for part in form.splitlines()]
    return f"{title}\n" + "\n".join(body)


def _asked(e: Explanation, known: dict[str, Any]) -> dict[str, str]:
    """The spec's own objective and inequalities, with what comes of them."""
    from gemmgen.model.equation import figure

    goal = e.request.objective
    told = [f"{e.request.asked[0]} = {goal.filled(known)} = {figure(goal.value(known))}"] if goal else []
    told += [f"{one.number}, {one.written}: {one.filled(known)}" for one in e.request.required]
    return {"asked": "; ".join(told)} if told else {}


def _modelled(e: Explanation) -> dict[str, str]:
    """The paper's model that chose the tile, what it makes largest, and what it was given."""
    from gemmgen.model.equation import figure

    model = e.request.model
    if model is None or e.tile is None:
        return {}
    given = ", ".join(f"{name} = {figure(value)} ({source})" for name, (value, source) in model.given.items())
    return {"model": f"{model.title}: {model.objective}, is {figure(e.tile.objective)}", "given": given}


def _latencies(e: Explanation) -> dict[str, float]:
    """Of the instructions that EGEMM-TC's equations count, where its model was given them."""
    from gemmgen.model import papers

    return {name: value for name, (value, _) in e.request.model.given.items() if name in papers.LATENCIES} if e.request.model else {}


SHOWN_TILES = 8
"""Of those that a paper's model allows."""


def _beside(e: Explanation) -> list[str]:
    """The tile of a paper's model beside the one that the predicted time takes, and the tiles that the model allows."""
    from gemmgen.model.equation import figure
    from gemmgen.solve.papers import valued

    model = e.request.model
    if model is None or e.tile is None:
        return []

    def size(extents: Sequence[int]) -> str:
        return "x".join(map(str, extents))

    rows = []
    for name, plan in ((model.name, e.plan), ("ours", e.ours)):
        if plan is not None:
            own, numbers = valued(model, plan), plan.model
            rows.append((name, plan.fragment.policy, size(plan.block), size(plan.warp), *map(figure, own.values()), plan.stages, numbers["registers"],
                         plan.shared_bytes, numbers["resident_blocks"], round(1e3 * float(numbers["seconds"]), 3)))
    head = ("choice", "policy", "block", "warp", *e.tile.values, "stages", "registers", "shared B", "blocks an SM", "ms")
    parts = [f"{model.title} beside the predicted time\n" + table(head, rows, indent="  ")]
    before = model.tiles[:model.tiles.index(e.tile)]
    why = {tile.block: "the compiler refuses its kernels" for tile in before} | {one.tile.block: f"no kernel: {one.why}" for one in e.passed}
    tiles = [(size(tile.block), size(tile.warp), *map(figure, tile.values.values()), why.get(tile.block, "taken" if tile == e.tile else ""))
             for tile in model.tiles[:SHOWN_TILES]]
    return [*parts, f"tiles that {model.title} allow, {len(model.tiles)}, the best first\n"
            + table(("block", "warp", *e.tile.values, ""), tiles, indent="  ")]


def _limits(e: Explanation) -> list[str]:
    """The bounds of what the spec leaves open, and the steps of occupancy."""
    from gemmgen.solve.limits import limits

    found = limits(e.request, e.plan)
    parts = []
    if found.decisions:
        lines = []
        for decision, bounds in found.decisions:
            lines.append(f"  {decision.told(e.plan.decided[decision.name])}")
            lines += [f"    {one}" for one in bounds]
        parts.append("bounds of what the spec leaves open, the rest as decided\n" + "\n".join(lines))
    if found.steps:
        parts.append("blocks an SM by registers, R7 and R8\n" + "\n".join(
            f"  registers <= {registers:<4} -> {blocks} block{'s' * (blocks > 1)} an SM" for registers, blocks in found.steps
        ))
    return parts


def symbols_text() -> str:
    """The symbols that a spec's own expressions may name, with unit and meaning; `gemmgen explain --symbols`."""
    rows = symbols()
    width = max(len(row["name"]) for row in rows)
    lines = []
    for row in rows:
        meaning = row["meaning"] + (f" ({row['unit']})" if row["unit"] else "")
        lines.append(f"  {row['name']:<{width}}  {meaning}" + (f"  [{row['number']}]" if row["number"] else "") + (f"  {row['of']}" if row["of"] else ""))
    return "symbols of [solve] maximize, minimize and require\n" + "\n".join(lines)


def symbols() -> list[dict[str, str]]:
    """The same as plain data."""
    from gemmgen.designs import all_designs
    from gemmgen.model.expressions import ALIASES

    equations: dict[str, tuple[Any, list[str]]] = {}
    for design in all_designs():
        for symbol, equation in {one.symbol: one for _, group in design.equations.groups for one in group}.items():
            equations.setdefault(symbol, (equation, []))[1].append(design.name)
    rows = [{
        "name": one.name, "symbol": one.symbol, "unit": one.unit, "meaning": one.meaning,
        "number": equations[one.symbol][0].number if one.symbol in equations else "", "of": "",
    } for one in ALIASES.values()]
    told = {one.symbol for one in ALIASES.values()} | set(ALIASES)
    return rows + [
        {"name": symbol, "symbol": symbol, "unit": equation.unit, "meaning": equation.source, "number": equation.number,
         "of": "" if len(of) == len(all_designs()) else f"({', '.join(of)})"}
        for symbol, (equation, of) in equations.items() if symbol not in told
    ]


def _searched(e: Explanation) -> str:
    if e.candidates == 1:
        return "nothing: the spec leaves nothing open"
    return f"{e.candidates} candidates, {e.feasible} feasible, in {e.solve_seconds:.2f} s"


def _candidates(plan: Plan, rows: Sequence[Candidate], intensity: str) -> str:
    """A table of candidates of the plan's design; `intensity` is the number of its equation."""
    names = [one.name for one in plan.design.decisions]
    return table(
        (*names, "registers", "blocks an SM", intensity, "P1", "ms"),
        [(*("x".join(map(str, value)) if isinstance(value, tuple) else value for value in (c.decided[name] for name in names)),
          c.registers, c.blocks_per_sm, round(c.intensity, 1), c.threads, round(1e3 * c.seconds, 3)) for c in rows],
        indent="  ",
    )


def _promotion(point: Point) -> str | int:
    """The interval, and how sums are added up where it is not plainly."""
    if not point.sums_in_unit:
        return ""
    return f"{point.promote} {point.sums}" if point.sums != "plain" else point.promote or "never"


def frontier_text(found: Frontier) -> str:
    """The frontier as a table, by predicted time."""
    from gemmgen.model.accuracy import TOLD

    rows = [
        (point.scheme, _promotion(point), point.policy, round(1e3 * point.seconds, 3), round(point.tflops, 1),
         *(_error(point.errors[name]) for name in TOLD), _error(point.worst, "of rows"),
         *(("yes" if point.meets else "no",) if found.asked else ()),
         "" if point in found.best else f"by {point.beaten_by}" if point.beaten_by else "out of range")
        for point in found.points
    ]
    size = "x".join(map(str, found.size))
    title = f"frontier: every scheme on {found.gpu} at {size}; estimated relative Frobenius errors, and the worst case over |A||B|"
    text = title + "\n" + table(
        ("scheme", "promote", "policy", "ms", "TFLOPS", *TOLD.values(), "worst", *(("meets",) if found.asked else ()), "dominated"),
        rows, indent="  ",
    )
    text += f"\n  dominated: no faster, and no smaller error {'beside that asked: ' + found.asked if found.asked else 'on ' + TOLD[found.data]}"
    return text + "".join(f"\n  no plan of {name}: {why}" for name, why in found.refused)


def _error(value: float, otherwise: str = "out of range") -> str:
    """A figure; `otherwise` where there is none: the worst case of integer words is relative to rows and not to |A||B|."""
    return f"{value:.1e}" if value < float("inf") else otherwise


def frontier_dict(found: Frontier) -> dict[str, Any]:
    """For `--json`."""
    return {
        "gpu": found.gpu, "size": list(found.size), "data": found.data, "asked": found.asked, "points": [point.as_dict() for point in found.points],
        "refused": [{"scheme": name, "problem": why} for name, why in found.refused],
    }


def latex(explanation: Explanation) -> str:
    """The equations with their values, for a document with amsmath."""
    from gemmgen.model import papers
    from gemmgen.model.equation import typeset_figure

    known = _numbers(explanation)
    blocks = []
    for title, equations, have in [*_groups(explanation, known), ("From the papers", papers.PAPERS, papers.numbers(known | _latencies(explanation)))]:
        rows = []
        for equation in equations:
            value = typeset_figure(equation.value(have)) if all(name in have for name in equation.variables) else None
            if value is None and title == "Error":
                continue
            unit = rf"\ \text{{{equation.unit}}}" if equation.unit else ""
            rows.append(equation.latex.replace(" = ", " &= ", 1) + (f" {value}{unit}" if value else "")
                        + rf" \tag{{{equation.number}}}")
        if rows:
            blocks.append(f"% {title}\n\\begin{{align*}}\n" + " \\\\\n".join(rows) + "\n\\end{align*}")
    rows = [rf"& {c.latex} \tag{{{c.number}}}" for c in explanation.plan.design.constraints]
    blocks.append("% Constraints\n\\begin{align*}\n" + " \\\\\n".join(rows) + "\n\\end{align*}")
    return "\n\n".join(blocks)


def as_dict(explanation: Explanation) -> dict[str, Any]:
    """For `--json`."""
    from gemmgen.solve.limits import limits
    from gemmgen.solve.papers import valued
    from gemmgen.verdict import verdict
    from gemmgen.solve.why import why

    e, known = explanation, _numbers(explanation)
    found = limits(e.request, e.plan)
    return {
        "plan": e.plan.as_dict() | {"predicted_registers": e.plan.predicted_registers},
        "candidates": e.candidates, "feasible": e.feasible, "rejected": dict(e.rejected), "solve_seconds": e.solve_seconds,
        "weighed": dict(e.weighed), "scheme_reason": e.scheme_reason,
        "tied": e.tied, "best": [c.as_dict() for c in e.best], "front": [c.as_dict() for c in e.front],
        "equations": [
            {"number": equation.number, "symbol": equation.symbol, "form": equation.form, "unit": equation.unit,
             "source": equation.source, "value": equation.value(values)}
            for _, equations, values in _groups(e, known) for equation in equations if all(name in values for name in equation.variables)
        ],
        "bounds": [
            {"decision": decision.name, "symbol": one.decision, "constraint": one.constraint.number, "form": one.constraint.form, "least": one.least,
             "most": one.most, "values": list(one.values), "closed_form": one.form, "reason": one.reason}
            for decision, bounds in found.decisions for one in bounds
        ],
        "occupancy_steps": [{"registers": registers, "blocks": blocks} for registers, blocks in found.steps],
        "asked": list(e.request.asked), "why": why(e).as_dict(), "verdict": worth.as_dict() if (worth := verdict(e.plan)) else None,
        **({"model": {
            "name": e.request.model.name, "objective": e.request.model.objective,
            "given": {name: {"value": value, "source": source} for name, (value, source) in e.request.model.given.items()},
            "taken": e.tile.as_dict(), "passed": [one.tile.as_dict() | {"why": one.why} for one in e.passed],
            "tiles": [one.as_dict() for one in e.request.model.tiles], "of_ours": valued(e.request.model, e.ours) if e.ours else None,
            "ours": e.ours.as_dict() if e.ours else None,
        }} if e.request.model and e.tile else {}),
    }
