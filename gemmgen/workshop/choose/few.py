"""The few kernels that matter: the set of at most so many that serves a distribution of sizes with the least regret.

    choice = choose(Store("store").rows(), kernels=8, shapes=load_shapes("transformers"))
    print(choice.table.parts[0].regret, choice.optimal)

The regret of a shape is how much longer it takes than with the best kernel that is known; what is made small is its geometric mean over the
shapes, by weight. The kernels are taken as a library's are (`gemmgen.library.cover`); an integer programme finds the best set itself where
there are not too many kernels and shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from gemmgen import __version__
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.table import parse
from gemmgen.errors import GemmgenError, SpecError, shortened
from gemmgen.library import cover, dispatch
from gemmgen.library.cover import Taken
from gemmgen.model.accuracy import DISTRIBUTIONS
from gemmgen.solve.contract import fp32_estimate
from gemmgen.verdict import Verdict, plain_of
from gemmgen.workshop.choose.shapes import Shape, merged, parted, shapes_of
from gemmgen.workshop.explore.extras import library
from gemmgen.workshop.explore.headline import MOST_JUDGED, fp32_times
from gemmgen.workshop.explore.own_rows import OWN, gpu_of
from gemmgen.workshop.explore.rebuilt import Predictions, kernel_of, plan_of, spec_of, timed_whole
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit.time_model import learn as learnt

MOST_EXACT = 40_000
"""Kernels times shapes up to which the integer programme is tried by itself."""
EXACT_SECONDS = 60.0
RIGHT = ("modelled", "compiled", "right", "timed")
"""Verdicts of rows whose kernels may be chosen."""
RULES_EACH = 3
"""Rules for each chosen kernel, at the most."""
AROUND, NEAR = 16, 0.6
"""Shapes near each one that rules are learnt by, too, and how far they lie: the deviation of the logarithms of their sizes."""
LEAST_PARTED = 16
"""Shapes of which some can be held out."""
Method = Literal["auto", "greedy", "exact"]
Decide = Literal["auto", "rules", "estimates"]


@dataclass(frozen=True)
class Costs:
    """What every kernel of a GPU takes for every shape.

    Attributes:
        rows: a row of each kernel.
        seconds: [kernels, shapes], measured or predicted; inf where a kernel is for another layout.
        measured: [kernels, shapes], whether it was timed.
        error: of each kernel, the largest relative Frobenius error it was seen to have; None where nobody looked.
    """

    gpu: str
    rows: tuple[Row, ...]
    shapes: tuple[Shape, ...]
    seconds: np.ndarray
    measured: np.ndarray
    error: tuple[float | None, ...]

    @property
    def weights(self) -> np.ndarray:
        """[shapes], adding up to 1."""
        found = np.array([one.weight for one in self.shapes], float)
        return found / found.sum()

    @property
    def best(self) -> np.ndarray:
        """[shapes] seconds of the best kernel that is known."""
        return self.seconds.min(axis=0)

    @property
    def logs(self) -> np.ndarray:
        """[kernels, shapes] log(seconds / best), as `cover.over_best` has it."""
        return cover.over_best(self.seconds)

    def of(self, shapes: Sequence[Shape]) -> Costs:
        """For these of the shapes alone."""
        place = {(*one.size, one.layout): at for at, one in enumerate(self.shapes)}
        at = [place[*one.size, one.layout] for one in shapes]
        return replace(self, shapes=tuple(shapes), seconds=self.seconds[:, at], measured=self.measured[:, at])


@dataclass(frozen=True)
class Chosen(Taken):
    """A set of kernels; `least` is equal to `cost` where it is proven to be the best.

    Attributes:
        method: `greedy` or `exact`.
    """

    method: str


@dataclass(frozen=True)
class Choice:
    """What `choose` found.

    Attributes:
        sets: of each GPU, by name.
        costs: likewise.
        table: the dispatch table, with the regrets.
        notes: what is to be known of the figures.
        verdicts: of each GPU, the chosen kernels beside plain FP32 at the heaviest shapes.
    """

    sets: Mapping[str, Chosen]
    costs: Mapping[str, Costs]
    table: dispatch.Table
    notes: tuple[str, ...] = ()
    verdicts: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        sets = {gpu: {"kernels": len(one.kernels), "of": len(self.costs[gpu].rows), "shapes": len(self.costs[gpu].shapes), "method": one.method,
                      "ratio": float(np.exp(one.cost)), "no_set_has_less": float(np.exp(one.least))} for gpu, one in self.sets.items()}
        verdicts = {gpu: [one.as_dict() for one in mine] for gpu, mine in self.verdicts.items()}
        return {"sets": sets, "notes": list(self.notes), "verdicts": verdicts, "table": self.table.model_dump(mode="json", exclude_none=True)}


# ---- times


def costs(rows: Iterable[Row], gpu: str, shapes: Sequence[Shape], *, error: float | None = None, model: Gpu | None = None) -> Costs:
    """Seconds of every kernel of a GPU at every shape: the median of what was measured, else the model's.

    The model errs by kernel and by size: where it stands in, it is multiplied by what measured times are of predicted ones, for the
    kernel at other shapes and for other kernels at the shape.

    Args:
        error: kernels with a larger relative Frobenius error than this, measured or else predicted, are left out.
        model: the GPU with constants that were fitted; None for those of its row.

    Raises:
        SpecError: no kernel is left, or none has the layout of a shape.
    """
    kernels: dict[str, list[Row]] = {}
    for row in rows:
        if row.gpu == gpu and row.kind == "kernel" and row.verdict in RIGHT and (row.error is None or np.isfinite(row.error)):
            kernels.setdefault(kernel_of(row), []).append(row)
    errors = {name: max((err for row in known if (err := row.error if row.error is not None else row.predicted_error) is not None), default=None)
              for name, known in kernels.items()}
    if error is not None:
        kernels = {name: known for name, known in kernels.items() if errors[name] is not None and errors[name] <= error}
    wanted = {one.layout for one in shapes}
    kernels = {name: known for name, known in kernels.items() if known[0].layout in wanted}
    lacking = wanted - {known[0].layout for known in kernels.values()}
    if lacking:
        raise SpecError(f"store, {gpu}", "has no kernel that may be chosen for a layout of the shapes", got=", ".join(sorted(lacking)),
                        needs="right kernels of each layout" + (f", with an error of at most {error:g}" if error is not None else ""),
                        remedy="--layout nn for shapes of another layout, a larger --error, or a study of that layout")
    # Times at other sizes tell how far the model is off, too.
    asked = {(*one.size, one.layout): one for one in shapes}
    for known in kernels.values():
        for row in known:
            if row.verdict == "timed" and row.seconds:
                asked.setdefault((row.m, row.n, row.k, row.layout), Shape(row.m, row.n, row.k, row.layout))
    place, all_shapes = {key: at for at, key in enumerate(asked)}, tuple(asked.values())
    sizes, layouts = np.array([one.size for one in all_shapes]), np.array([one.layout for one in all_shapes])
    predictions = Predictions(model)
    seconds, predicted = np.full((len(kernels), len(all_shapes)), np.nan), np.full((len(kernels), len(all_shapes)), np.nan)
    for at, known in enumerate(kernels.values()):
        times: dict[tuple[int, bool], list[float]] = {}
        for row in known:
            if row.verdict == "timed" and row.seconds:
                times.setdefault((place[row.m, row.n, row.k, row.layout], timed_whole(row)), []).append(row.seconds)
        for (there, whole), found in times.items():
            if whole or (there, True) not in times:
                seconds[at, there] = np.median(found)
        serves = layouts == known[0].layout
        try:
            predicted[at, serves] = predictions.seconds(known[0], sizes[serves])
        except GemmgenError:
            continue  # of another version of gemmgen: what was measured counts, and nothing else is known
    measured = np.isfinite(seconds)
    seconds = np.where(measured, seconds, predicted * np.exp(_leanings(np.log(seconds / predicted))))
    seconds = np.where(np.isfinite(seconds), seconds, np.inf)
    whole = Costs(gpu, tuple(known[0] for known in kernels.values()), all_shapes, seconds, measured, tuple(errors[name] for name in kernels))
    return whole.of(shapes)


def _leanings(logs: np.ndarray, few: float = 2.0) -> np.ndarray:
    """[kernels, shapes] of how much the model is off: on the whole, and an effect of the kernel and one of the shape.

    Args:
        logs: log(measured / predicted), NaN where nothing was measured.
        few: measurements that count as much as knowing nothing, so that one of them does not speak for all.
    """
    known = np.isfinite(logs)
    mean = float(logs[known].mean()) if known.any() else 0.0
    found = np.where(known, logs - mean, 0.0)
    kernel, shape = np.zeros((logs.shape[0], 1)), np.zeros((1, logs.shape[1]))
    for _ in range(20):
        kernel = ((found - shape) * known).sum(axis=1, keepdims=True) / (known.sum(axis=1, keepdims=True) + few)
        shape = ((found - kernel) * known).sum(axis=0, keepdims=True) / (known.sum(axis=0, keepdims=True) + few)
    return mean + kernel + shape


# ---- sets


def greedy(costs: Costs, most: int) -> Chosen:
    """The kernel that gains most, again and again; with the least that any set of so many could cost."""
    return Chosen(**vars(cover.greedy(costs.logs, costs.weights, most)), method="greedy")


def exact(costs: Costs, most: int, seconds: float = EXACT_SECONDS) -> Chosen | None:
    """The best set, by an integer programme: y says whether a kernel is taken, x which of them serves a shape.

    Returns:
        None where none was found in so many seconds; else the best one found, with what was proven.

    Raises:
        GemmgenError: scipy is missing.
    """
    library("scipy")
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    logs, weights = costs.logs, costs.weights
    left = _not_dominated(logs)
    kernels, shapes = len(left), len(weights)
    each = eye_array(shapes, format="csr")
    served = hstack([kron(np.ones((1, kernels)), each), csr_array((shapes, kernels))])  # of x[kernel, shape] and y[kernel]: one kernel a shape
    taken = hstack([eye_array(kernels * shapes), -kron(eye_array(kernels), np.ones((shapes, 1)))])  # x <= y
    few = hstack([csr_array((1, kernels * shapes)), csr_array(np.ones((1, kernels)))])
    found = milp(
        np.concatenate([(logs[left] * weights).ravel(), np.zeros(kernels)]), integrality=np.repeat([0, 1], [kernels * shapes, kernels]), bounds=Bounds(0, 1),
        constraints=LinearConstraint(
            vstack([served, taken, few], format="csr"), np.concatenate([np.ones(shapes), np.full(kernels * shapes + 1, -np.inf)]),
            np.concatenate([np.ones(shapes), np.zeros(kernels * shapes), [most]]),
        ), options={"time_limit": seconds},
    )
    if found.x is None:
        return None
    chosen = tuple(int(left[at]) for at in np.flatnonzero(found.x[kernels * shapes :] > 0.5))
    cost = cover.cost_of(logs, weights, chosen)
    return Chosen(chosen, cost, cost if found.status == 0 else max(0.0, min(cost, float(found.mip_dual_bound))), "exact")


def _not_dominated(logs: np.ndarray) -> np.ndarray:
    """Kernels for which no other is as fast at every shape; of equal ones the first."""
    kept: list[int] = []
    for at in np.argsort(logs.sum(axis=1), kind="stable"):
        if not kept or not (logs[kept] <= logs[at]).all(axis=1).any():
            kept.append(int(at))
    return np.array(sorted(kept))


def best_set(costs: Costs, most: int, method: Method = "auto", seconds: float = EXACT_SECONDS) -> Chosen:
    """The greedy set, or the integer programme's where there are few enough kernels and shapes, or where it is asked for.

    Raises:
        SpecError: fewer kernels than layouts. GemmgenError: scipy is missing where the programme is asked for.
    """
    layouts = {one.layout for one in costs.shapes}
    if most < len(layouts):
        raise SpecError("--kernels", "is less than the layouts that are to be served", got=most, needs=f"at least {len(layouts)}: {', '.join(sorted(layouts))}",
                        remedy=f"--kernels {len(layouts)}")
    first = greedy(costs, most)
    if method == "greedy" or method == "auto" and len(_not_dominated(costs.logs)) * len(costs.shapes) > MOST_EXACT:
        return first
    try:
        found = exact(costs, most, seconds)
    except GemmgenError:
        if method == "exact":
            raise
        return first
    if found is None or found.cost > first.cost:
        return first if found is None else replace(first, least=min(first.cost, max(first.least, found.least)))
    return replace(found, least=max(first.least, found.least) if found.least < found.cost else found.least)


# ---- the whole


def choose(
    rows: Iterable[Row], kernels: int = 8, shapes: Sequence[Shape] | None = None, *, gpus: Sequence[str] = (), layout: str | None = None,
    error: float | None = None, held_out: float | Sequence[Shape] = 0.25, seed: int = 1, method: Method = "auto", decide: Decide = "auto",
    learn: bool = True, title: str = "sizes of the store",
) -> Choice:
    """At most so many kernels for each GPU, and the rules by which products get one of them.

    Kernels and rules are chosen by all shapes. What they are worth for others is told by a set and rules that are made in the same way of
    some of the shapes, at those that were held out; or at shapes that are given.

    Args:
        shapes: the distribution; None for the sizes in the store, each as much.
        gpus: names; none for all that rows are of.
        layout: of all shapes, instead of their own.
        error: the largest relative Frobenius error that a kernel may have.
        held_out: the share of shapes to hold out, 0 for none, or shapes of their own.
        decide: what takes a kernel: `rules`, `estimates` of the kernels' times, or `auto`: what has the smaller regret, at held-out shapes if there are some.
        learn: whether the model's constants are fitted to the store first, where it stands in for measurements.
        title: of the distribution, for the table.

    Raises:
        SpecError: no kernel may be chosen, or too few for the layouts.
        GemmgenError: a library is missing that `method` asks for.
    """
    rows, notes = _described(rows)
    if kernels < 1:
        raise SpecError("--kernels", "leaves no kernel", got=kernels, needs="at least 1", remedy="--kernels 8")
    there = sorted({row.gpu for row in rows if row.kind == "kernel" and row.verdict in RIGHT})
    named = list(gpus) or there
    for gpu in gpus:
        if gpu not in there:
            raise SpecError("--gpu", "is none that the store has a right kernel of", got=gpu, needs=", ".join(there) or "rows of right kernels",
                            remedy="another --gpu, or a study of it")
    if not named:
        raise SpecError("store", "has no kernel that may be chosen", needs=f"rows of kernels with verdict {', '.join(RIGHT)}", remedy="gemmgen study run STUDY",
                        got="; ".join(notes) or None)
    sets, of = {}, {}
    table: dict[str, Any] = {"title": title, "generator": f"gemmgen {__version__}", "kernels": {}, "parts": []}
    for gpu in named:
        mine = [row for row in rows if row.gpu == gpu]
        wanted = merged(shapes if shapes is not None else shapes_of(mine), layout)
        seen, unseen = wanted, []
        if not isinstance(held_out, float | int):
            known = {(*one.size, one.layout) for one in wanted}
            others = merged(held_out, layout)
            unseen = [one for one in others if (*one.size, one.layout) not in known]
            if len(unseen) < len(others):
                notes.append(f"{gpu}: {len(others) - len(unseen)} of the held-out shapes are among those that kernels are chosen by, and were left out")
        elif held_out > 0 and len(wanted) >= LEAST_PARTED:
            seen, unseen = parted(wanted, float(held_out), seed)
        model, told = _model(mine, learn)
        how = {"error": error, "model": model}
        every = costs(mine, gpu, merged([*wanted, *unseen]), **how)
        if not np.isfinite(every.best).all():
            raise SpecError(f"store, {gpu}", "has kernels that this version of gemmgen does not know, not timed at all shapes",
                            needs="times at every shape, or kernels whose times the model can tell", remedy="a study of this version")
        notes += _notes(gpu, every.of(wanted), told)
        of[gpu] = every.of(wanted)
        sets[gpu], parts = _made(mine, gpu, wanted, kernels, method, seed, table["kernels"], how)
        if unseen:
            times = {(*one.size, one.layout) for one in unseen}
            without = [row for row in mine if (row.m, row.n, row.k, row.layout) not in times]
            own: dict[str, Any] = {}
            for part in parts if seen is wanted and len(without) == len(mine) else _made(without, gpu, seen, kernels, method, seed, own, how)[1]:
                there = [one for one in unseen if one.layout == part["layout"]]
                for whole in parts:
                    if whole["layout"] == part["layout"] and there:
                        whole["held_out"] = _regret(every, part, own or table["kernels"], there)
        for part in parts:
            told = part.get("held_out", part["regret"])
            part["decided_by"] = ("rules" if told["rules"] <= told["estimates"] else "estimates") if decide == "auto" else decide
        table["parts"] += parts
    verdicts = {gpu: tuple(_verdicts([row for row in rows if row.gpu == gpu], of[gpu], sets[gpu])) for gpu in sets}
    return Choice(sets, of, _table(table), tuple(notes), verdicts)


def _verdicts(rows: Sequence[Row], every: Costs, chosen: Chosen) -> Iterator[Verdict]:
    """The fastest chosen kernel at each of the heaviest shapes beside plain FP32: as measured where the store has times of both, else as predicted."""
    gpu, times = gpu_of(every.rows[0]), fp32_times(rows)
    for at in np.argsort(-every.weights, kind="stable")[:MOST_JUDGED]:
        shape, best = every.shapes[at], min(chosen.kernels, key=lambda kernel: every.seconds[kernel, at])
        row, device = every.rows[best], ""
        known = times.get((*shape.size, shape.layout)) if every.measured[best, at] else None
        try:
            fp32, whose, device = known or (*plain_of(gpu, *shape.size, shape.layout), "")
        except GemmgenError:
            continue
        error, own = every.error[best], fp32_estimate(shape.k, DISTRIBUTIONS["uniform"])
        yield Verdict(every.gpu, *shape.size, float(every.seconds[best, at]), fp32, whose, error / own if error else 1.0, row.scheme, measured=device)


def _described(rows: Iterable[Row]) -> tuple[list[Row], list[str]]:
    """(rows without kernels of a GPU that nothing describes, notes on those GPUs)."""
    problems: dict[tuple[str, str], str] = {}
    found = []
    for row in rows:
        key = row.gpu, row.extra if OWN in row.extra else ""
        if row.kind == "kernel" and key not in problems:
            try:
                gpu_of(row)
                problems[key] = ""
            except GemmgenError as error:
                problems[key] = f"rows of {shortened(row.gpu, 40)} are left out: {shortened(error.problem, 200)}"
        if row.kind != "kernel" or not problems[key]:
            found.append(row)
    return found, sorted({told for told in problems.values() if told})


def _model(rows: Sequence[Row], learn: bool) -> tuple[Gpu | None, str]:
    """(the GPU with fitted constants, or None for the row's own; what to say of it)."""
    try:
        found = learnt(rows, gpu_of(rows[0])) if learn else None
    except GemmgenError:
        found = None
    return (found.gpu, f"constants fitted to {found.rows} rows") if found and found.helped else (None, "the constants of the GPU's row")


def _notes(gpu: str, every: Costs, model: str) -> list[str]:
    served = int(np.isfinite(every.seconds).sum())
    if not every.measured.any():
        found = [f"{gpu}: nothing was timed at these shapes; all times are the model's, with {model}"]
    elif every.measured.sum() < served:
        found = [f"{gpu}: {int(every.measured.sum())} of {served} times were measured; for the others the model stands in, with {model}"]
    else:
        found = [f"{gpu}: all {served} times were measured"]
    errors = [one for one in every.error if one]
    if errors and max(errors) > 10 * min(errors):
        found.append(f"{gpu}: kernels differ in their error, from {min(errors):.1e} to {max(errors):.1e}; --error says how large it may be")
    return found


def around(shapes: Sequence[Shape], seed: int) -> list[Shape]:
    """Shapes near the given ones, AROUND times as many, together as heavy: what rules do between sizes that somebody named matters, too."""
    sizes = np.repeat([one.size for one in shapes], AROUND, axis=0)
    moved = np.maximum(1, np.rint(sizes * np.exp(np.random.default_rng(seed).normal(0, NEAR, sizes.shape)))).astype(int)
    return [Shape(*map(int, size), shapes[at // AROUND].layout, shapes[at // AROUND].weight / AROUND) for at, size in enumerate(moved)]


def _made(
    rows: Sequence[Row], gpu: str, shapes: Sequence[Shape], most: int, method: Method, seed: int, kernels: dict[str, Any], how: Mapping[str, Any],
) -> tuple[Chosen, list[dict[str, Any]]]:
    """A set, and rules for every layout as the table holds them; kernels that rules take are added to `kernels`."""
    near = around(shapes, seed)
    every = costs(rows, gpu, merged([*shapes, *near]), **how)
    known = every.of(shapes)
    chosen, parts = best_set(known, most, method), []
    for layout in dict.fromkeys(one.layout for one in shapes):
        own = [at for at in chosen.kernels if known.rows[at].layout == layout]
        learning = every.of(merged([one for one in (*shapes, *near) if one.layout == layout]))
        told = np.isfinite(learning.seconds[own]).all(axis=0)
        named = {one.size for one in shapes if one.layout == layout}
        keep = [one for one, is_told in zip(learning.shapes, told) if is_told or one.size in named]
        learning = every.of(keep)
        rules = dispatch.learnt(learning.logs[own], np.array([one.size for one in keep]), learning.weights, RULES_EACH * most, few=3 if len(keep) > 32 else 1)
        labels: dict[int, str] = {}
        for kernel in dict.fromkeys([*(kernel for _, kernel in rules), *range(len(own))]):
            row, labels[kernel] = known.rows[own[kernel]], f"k{len(kernels) + 1}"
            kernels[labels[kernel]] = {
                "name": row.kernel[:200], "identity": kernel_of(row), "gpu": row.gpu, "layout": row.layout, "error": known.error[own[kernel]],
                "estimate": _estimate(row, learning, own[kernel]).model_dump(mode="json"), "spec": spec_of(row),
            }
        part = {"gpu": gpu, "layout": layout, "rules": [{"at_most": bounds, "kernel": labels[kernel]} for bounds, kernel in rules]}
        parts.append({**part, "regret": _regret(known, part, kernels, [one for one in shapes if one.layout == layout], own)})
    return chosen, parts


def _estimate(row: Row, learning: Costs, kernel: int) -> dispatch.Estimate:
    """A kernel's time as a sum of five terms, by the shapes that rules are learnt by."""
    try:
        plan = plan_of(row)
        tile, slices = plan.block[:2], plan.split_k
    except GemmgenError:  # of another version: its columns tell as much
        found = re.match(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})", row.block)
        tile, slices = [min(4096, int(one)) for one in found.groups()] if found else [128, 128], min(64, max(1, row.split_k))
    sizes = np.array([one.size for one in learning.shapes])
    return dispatch.estimated(learning.seconds[kernel], sizes, learning.weights, tile, slices, gpu_of(row).rates.sms)


def _regret(every: Costs, part: Mapping[str, Any], kernels: Mapping[str, Any], shapes: Sequence[Shape], chosen: Sequence[int] = ()) -> dict[str, Any]:
    """The figures of `dispatch.Regret` for these shapes, of the part's layout.

    Args:
        chosen: kernels of the set, by place; those that the rules take otherwise.
    """
    mine = every.of([one for one in shapes if one.layout == part["layout"]])
    place = {kernel_of(row): at for at, row in enumerate(every.rows)}
    where = {label: place[one["identity"]] for label, one in kernels.items() if one["gpu"] == every.gpu}
    rules, sizes = [dispatch.Rule(**one) for one in part["rules"]], np.array([one.size for one in mine.shapes])
    measures = dispatch.measures_of(sizes)
    taken = {"rules": [next(where[rule.kernel] for rule in rules if rule.holds({name: int(values[at]) for name, values in measures.items()}))
                       for at in range(len(sizes))]}
    labels = [label for label, one in kernels.items() if (one["gpu"], one["layout"]) == (every.gpu, part["layout"])]
    told = np.array([dispatch.Estimate(**kernels[label]["estimate"]).seconds(*sizes.T) for label in labels])
    taken["estimates"] = [where[labels[at]] for at in told.argmin(axis=0)]
    logs, each, weights = mine.logs, np.arange(len(sizes)), mine.weights
    served = [at for at, row in enumerate(every.rows) if row.layout == part["layout"]]
    own = list(chosen) or [where[label] for label in labels]
    by = {name: logs[which, each] for name, which in taken.items()}
    decided = part.get("decided_by") or min(by, key=lambda name: by[name] @ weights)
    ratio = {name: max(1.0, float(np.exp(value))) for name, value in {
        "chosen": logs[own].min(axis=0) @ weights, "rules": by["rules"] @ weights, "estimates": by["estimates"] @ weights, "worst": by[decided].max(),
        "alone": (logs[served] @ weights).min(),
    }.items()}
    return {"shapes": len(sizes), "measured": float(mine.measured[taken[decided], each].mean()), **ratio}


def _table(data: dict[str, Any]) -> dispatch.Table:
    return parse(dispatch.Table, data, "dispatch table")
