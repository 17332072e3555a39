"""What a bench times: specs' kernels, solved for one size or for each, and compiled side by side."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen import road
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.kinds import kind_called
from gemmgen.solve import alternatives
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import loads

if TYPE_CHECKING:
    from gemmgen.build import Built
    from gemmgen.solve.contract import Contract
    from gemmgen.spec import LoadedSpec
    from gemmgen.timing.batches import Multiplier
    from gemmgen.workshop.bench import Kernel
    from gemmgen.workshop.bench.measured_frontier import Candidate


def solved_for(loaded: LoadedSpec, size: tuple[int, int, int]) -> LoadedSpec:
    """The same spec with hints for another size."""
    problem = loaded.spec.problem.model_copy(update=dict(zip("mnk", size)))
    return loaded.model_copy(update={"spec": loaded.spec.model_copy(update={"problem": problem})})


def varied(loaded: LoadedSpec, settings: Sequence[str]) -> Iterator[tuple[str, LoadedSpec]]:
    """(what differs, such as `where=prepass stages=3`, spec) of every combination of values.

    Args:
        settings: `section.key=value,value`; a value is a word, a number, or `128x64x32`.

    Raises:
        SpecError: a setting is none, or its value is not acceptable.
    """
    axes = []
    for setting in settings:
        path, _, values = setting.partition("=")
        section, _, key = path.partition(".")
        if not (section and key and values):
            raise SpecError("--vary", "is no setting of a spec", got=setting, needs="SECTION.KEY=VALUE,VALUE", remedy="--vary split.where=prepass,register")
        axes.append([(section, key, value) for value in values.split(",")])
    for chosen in product(*axes):
        data = loaded.spec.model_dump(mode="json", exclude_defaults=True, by_alias=True)
        for section, key, value in chosen:
            data.setdefault(section, {})[key] = _value(value)
        one = loads(data, f"{loaded.place} with {', '.join('.'.join(parts[:2]) for parts in chosen)}" if chosen else loaded.place)
        yield " ".join(f"{key}={value}" for _, key, value in chosen), one.model_copy(update={"folder": loaded.folder})


def _value(text: str) -> Any:
    """As a spec has it."""
    if text in ("true", "false"):
        return text == "true"
    parts = text.split("x")
    if not all(part.isdigit() for part in parts):
        return float(text) if re.fullmatch(r"[0-9.]+(e-?[0-9]+)?", text) else text
    return int(text) if len(parts) == 1 else [int(part) for part in parts]


def beside(loaded: LoadedSpec, ranked: int, drawn: int) -> Iterator[tuple[str, LoadedSpec]]:
    """(`choice 2`, spec) of so many of the model's next choices, and of so many drawn from all others.

    Raises:
        GemmgenError: the spec has no plan.
    """
    best, others = alternatives(loaded, 1 + ranked, drawn)
    for kind, first, plans in (("choice", 2, best[1:]), ("drawn", 1, others)):
        for number, plan in enumerate(plans, first):
            yield f"{kind} {number}", loads(settled_spec(loaded, plan), f"{loaded.place}, {kind} {number}")


def racers(
    specs: Sequence[Path], sizes: Sequence[tuple[int, int, int]], each_size: bool, progress: road.Watcher, gpu: str | None = None,
    vary: Sequence[str] = (), others: tuple[int, int] = (0, 0),
) -> tuple[list[Kernel], list[str]]:
    """(what specs give to time, what the compiler refused and why), compiled side by side.

    Args:
        gpu: for all of them, instead of their own.
        each_size: solve each spec once more for every size, for a kernel that runs only there.
        vary: of each spec every combination of these settings, as `varied` takes them.
        others: also so many of the model's next choices for each, and so many drawn from all.

    Raises:
        GemmgenError: a spec cannot be read, or none of the kernels can be built.
    """
    from gemmgen.workshop.bench import Kernel, by

    jobs = []
    for name, loaded in zip(_names(specs), (road.load(path, gpu) for path in specs)):
        for label, one in varied(loaded, vary):
            for size in sizes if each_size else (None,):
                first, called = solved_for(one, size) if size else one, " ".join(filter(None, (name, label)))
                jobs.append((called, first, size))
                jobs += [(f"{called} {which}", other, size) for which, other in (beside(first, *others) if any(others) else ())]

    made = _built([loaded for _, loaded, _ in jobs], progress)
    kernels, notes, errors = [], [], []
    for (name, _, size), one in zip(jobs, made):
        what = f"{name} for {by(size)}" if size else name
        if isinstance(one, GemmgenError):
            errors.append(one)
            notes.append(f"{what}: not built: {one.where}: {one.problem}")
        elif one.plan.launches.of_products:
            errors.append(InfeasibleSpec("bench", "times kernels of one product", got=f"{what}, of kind {one.plan.kind}", needs='[problem] kind = "gemm"',
                                         remedy="gemmgen bench with specs of batches alone"))
            notes.append(f"{what}: for batches: gemmgen bench times it without specs of one product")
        else:
            kernels.append(Kernel(name, one.plan, one.source, one.binary, size))
            notes += [f"{what}: passed over: {refusal}" for refusal in one.refused]
    if not kernels:
        raise errors[0]
    return kernels, notes


def frontier_racers(
    spec: Path, sizes: Sequence[tuple[int, int, int]], progress: road.Watcher, gpu: str | None = None,
) -> tuple[dict[tuple[int, int, int], tuple[list[Candidate], Contract, str]], list[str]]:
    """(of each size what to run, what is asked of the error, and what the contract chooses; what could not be built and why).

    A spec that asks for no error asks for FP32's.

    Raises:
        GemmgenError: the spec cannot be read, no scheme has a plan, or none of the kernels can be built.
    """
    from gemmgen.solve.contract import contract
    from gemmgen.solve.frontier import frontier, spec_of
    from gemmgen.spec import Accuracy
    from gemmgen.workshop.bench import by
    from gemmgen.workshop.bench.measured_frontier import Candidate

    loaded = road.load(spec, gpu)
    if not loaded.spec.accuracy.asked:
        split = loaded.spec.split.model_copy(update={"scheme": "auto"})
        asking = loaded.spec.model_copy(update={"split": split, "accuracy": Accuracy.model_validate({"as": "fp32"})})
        loaded = loaded.model_copy(update={"spec": asking})
    jobs, notes = [], []
    for size in sizes:
        progress.step(f"decide for {by(size)}")
        there, choice = solved_for(loaded, size), None
        try:
            choice = road.plan(there)
        except InfeasibleSpec as error:
            notes.append(f"{by(size)}: the contract chooses nothing: {error.problem}")
        found = frontier(there)
        notes += [f"{by(size)}: no plan of {name}: {why}" for name, why in found.refused]
        for point in found.points:
            chosen = choice is not None and (point.scheme, point.promote, point.sums) == (choice.scheme.name, choice.promote, choice.sums)
            if chosen or point in found.worth_running:
                jobs.append((size, point, chosen, there, spec_of(there, point)))
    made = _built([one for *_, one in jobs], progress)
    fields: dict[tuple[int, int, int], tuple[list[Candidate], Contract, str]] = {}
    errors = []
    for (size, point, chosen, there, _), one in zip(jobs, made):
        if isinstance(one, GemmgenError):
            errors.append(one)
            notes.append(f"{point.told} for {by(size)}: not built: {one.where}: {one.problem}")
            continue
        asked = contract(there)
        assert asked is not None
        candidates, _, picked = fields.get(size, ([], asked, ""))
        fields[size] = ([*candidates, Candidate(point, one)], asked, point.told if chosen else picked)
        notes += [f"{point.told} for {by(size)}: passed over: {refusal}" for refusal in one.refused]
    if not fields:
        raise errors[0]
    return fields, notes


def of_batches(specs: Sequence[Path], gpu: str | None = None) -> bool:
    """Whether all are of kernels whose launch takes a batch of products. What cannot be planned is none: to build it tells why."""
    def one(path: Path) -> bool:
        try:
            loaded = road.load(path, gpu)
            return kind_called(loaded.spec.problem.kind).batched and road.plan(loaded).launches.of_products
        except GemmgenError:
            return False

    return bool(specs) and all(map(one, specs))


def batch_racers(
    specs: Sequence[Path], progress: road.Watcher, gpu: str | None = None, thresholds: Sequence[int] = (), upload_lists: bool = False,
    mix: bool = False,
) -> tuple[dict[str, Multiplier], list[str]]:
    """(what specs give to time in batches by name, what the compiler refused and why), compiled side by side.

    Args:
        gpu: for all of them, instead of their own.
        thresholds: each kernel once for each of these instead of its own; none for its own.
        upload_lists: kernels whose tiles the host lists once more, as NAME-upload, with the list's copy before each launch.

        mix: the first two specs' kernels once more, sharing each batch, as `mixed`.

    Raises:
        GemmgenError: a spec cannot be read, is for no GPU that is here, is none for batches, or cannot be built.
    """
    from gemmgen.timing.batch_contender import MixedKernels, contender
    from gemmgen.workshop.bench import require_timed

    contenders: dict[str, Multiplier] = {}
    notes: list[str] = []
    made: list[Built] = []
    for name, one in zip(_names(specs), _built([road.load(path, gpu) for path in specs], progress)):
        if isinstance(one, GemmgenError):
            raise one
        made.append(one)
        require_timed(one.plan, "bench")
        for threshold in thresholds or (None,):
            called = name if threshold is None else f"{name}-{threshold}"
            contenders[called] = contender(one, threshold)
            if upload_lists and one.source.interface.asks("list"):
                contenders[f"{called}-upload"] = contender(one, threshold, upload_list=True)
        notes += [f"{name}: passed over: {refusal}" for refusal in one.refused]
    if mix and len(made) < 2:
        raise SpecError("--mix", "divides batches between two kernels", got=f"{len(made)} specs", needs="two", remedy="gemmgen bench SPEC SPEC --mix")
    if mix:
        contenders["mixed"] = MixedKernels(*made[:2])
    return contenders, notes


def _names(specs: Sequence[Path]) -> list[str]:
    """What a table calls them: their stems, or where several share one, their paths."""
    stems = [path.stem for path in specs]
    return [path.stem if stems.count(path.stem) == 1 else str(path) for path in specs]


def _built(loaded: Sequence[LoadedSpec], progress: road.Watcher) -> list[Built | GemmgenError]:
    """Each spec's kernel, or why there is none, compiled side by side."""
    def built(one: LoadedSpec) -> Built | GemmgenError:
        try:
            return road.build(one)
        except GemmgenError as error:
            return error

    if not loaded:
        return []
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1, len(loaded))) as pool:  # the compiler runs outside the interpreter's lock
        results, found = pool.map(built, loaded), []
        for number in range(1, len(loaded) + 1):
            progress.step(f"decide and compile kernel {number} of {len(loaded)}")
            found.append(next(results))
        return found
