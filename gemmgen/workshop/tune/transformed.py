"""A program that cannot be changed, each of its GEMMs at a level of its own: MixPert's code transformer, by the preload library.

The program is recorded once. It runs under each kernel of the library to learn which calls the kernel serves, and once for each call and level with all other
calls at the vendor's, to learn what that level alone does to the program's output. Then the tuner's search chooses (`gemmgen.workshop.tune.walk`),
and all that it considers it runs. Every run is a process; a setting that was run is remembered.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from gemmgen.errors import GemmgenError
from gemmgen.files import opened
from gemmgen.library import dropped
from gemmgen.library.shim import Built
from gemmgen.workshop.tune.walk import Choice, Found, Question, search

VENDOR = "vendor"
"""The level of a call that is passed on."""


def kernel_names(built: Built) -> list[str]:
    """Of a library, by number.

    Raises:
        GemmgenError: it cannot be loaded.
    """
    try:
        library = ctypes.CDLL(str(built.kernels))
        count, name = getattr(library, f"{built.name}_kernels"), getattr(library, f"{built.name}_kernel_name")
    except (OSError, AttributeError) as error:
        raise GemmgenError(str(built.kernels), "cannot be loaded", got=str(error)) from None
    name.restype = ctypes.c_char_p
    return [name(number).decode() for number in range(count())]


@dataclass
class Runs:
    """Runs of one program, and its output under each setting.

    Attributes:
        output: the .npy file that the program writes.
        period: calls after which the program repeats itself; 0: it does not.
        told: is told what runs next.
    """

    built: Built
    command: Sequence[str]
    output: Path
    folder: Path
    period: int = 0
    told: Callable[[str], None] = lambda step: None
    count: int = 0
    kept: dict[str, tuple[np.ndarray, list[dropped.Call]]] = field(default_factory=dict)

    def under(self, levels: str, step: str) -> tuple[np.ndarray, list[dropped.Call]]:
        """The output and the calls under a file of levels.

        Raises:
            GemmgenError: the program fails, or writes no such output.
        """
        if levels not in self.kept:
            self.told(step)
            place, record = self.folder / "levels", self.folder / "record.jsonl"
            place.write_text(levels)
            for path in (record, self.output):
                path.unlink(missing_ok=True)
            # No gain is asked for: the file says what each call gets.
            logged = dropped.run(self.built, self.command, dropped.Settings(record=record, levels=place), stdout=2)
            if logged.code:
                raise GemmgenError(self.command[0], "fails under the preload library", got=f"exit code {logged.code}", remedy="a program that ends with 0")
            try:
                with opened(self.output) as file:
                    result = np.load(file, allow_pickle=False)
                if result.dtype.kind not in "fiu":
                    raise ValueError(f"an array of {result.dtype}")
            except (OSError, ValueError) as error:
                raise GemmgenError(str(self.output), "is no output of the program", got=str(error), needs="a .npy file of numbers that the program writes",
                                   remedy="--output FILE as the program names it") from None
            self.kept[levels] = result.astype(np.float64), dropped.read_record(record) if record.exists() else []
            self.count += 1
        return self.kept[levels]

    def place(self, call: dropped.Call) -> int:
        """Where in the program's period a call stands."""
        return call.ordinal % self.period if self.period else call.ordinal


def distance(found: np.ndarray, reference: np.ndarray) -> float:
    """||X - R||_F / ||R||_F; Inf where shapes differ or something is not finite."""
    if found.shape != reference.shape:
        return inf
    norm = float(np.linalg.norm(reference))
    error = float(np.linalg.norm(found - reference)) / norm if norm else float(np.linalg.norm(found))
    return error if isfinite(error) else inf


@dataclass(frozen=True)
class Transformed:
    """What was chosen for a program.

    Attributes:
        calls: one of each place, in order.
        levels: of all places, as files of levels name them.
        question: seconds and errors by [place][level]; found: what the search answers to it.
        text: the chosen file of levels; None where nothing meets the threshold.
        error: of the output under it.
        runs: of the program, in all.
    """

    calls: tuple[dropped.Call, ...]
    levels: tuple[str, ...]
    question: Question
    found: Found
    text: str | None
    error: float
    runs: int

    def seconds(self, choice: Choice | None = None) -> float:
        """Of all places' GEMMs, predicted; without a choice, at the vendor's."""
        return self.question.time(choice if choice is not None else (self.levels.index(VENDOR),) * len(self.calls))


def transform(runs: Runs, threshold: float, *, reference: np.ndarray | None = None, kernels: Sequence[str] = ()) -> Transformed:
    """Choose a level for each GEMM of a program, for an error of its output.

    Args:
        threshold: the largest relative Frobenius error of the output.
        reference: the output that errors are told of; None: the program's own where every call is the vendor's.
        kernels: of the library, those to choose from; all where none is named.

    Raises:
        GemmgenError: the program fails, calls nothing, or calls something else from run to run.
    """
    known = kernel_names(runs.built)
    for name in kernels:
        if name not in known:
            raise GemmgenError(name, "is no kernel of the library", needs=", ".join(known))
    plain, calls = runs.under(f"all {VENDOR}\n", "every call at the vendor's")
    if not calls:
        raise GemmgenError(runs.command[0], "calls no GEMM that could have a level", needs="FP32 products by the vendor's BLAS",
                           remedy="gemmgen run --library DIR lists what it calls")
    exact = plain if reference is None else reference.astype(np.float64)
    places = sorted({runs.place(call) for call in calls})
    first = {place: next(call for call in calls if runs.place(call) == place) for place in places}
    shapes = [(call.m, call.n, call.k, call.batch, call.layout) for call in calls]
    seconds: list[list[float]] = [[] for _ in places]
    levels: list[str] = []
    vendors = dict.fromkeys(places, 0.0)
    for name in kernels or known:
        _, under = runs.under(f"all kernel {name}\n", f"every call by {name}")
        if len(under) != len(calls):
            raise GemmgenError(runs.command[0], "does not call the same from run to run", got=f"{len(calls)} calls, then {len(under)}",
                               needs="a program whose calls do not depend on rounding", remedy="fewer iterations, in a fixed number")
        if not any(call.taken for call in under):
            continue
        levels.append(f"kernel {name}")
        for at, place in enumerate(places):
            mine = [call for call in under if runs.place(call) == place]
            seconds[at].append(sum(call.seconds for call in mine) if all(call.taken for call in mine) else inf)
            vendors[place] = max(vendors[place], sum(call.sgemm_seconds for call in mine))
        if [(call.m, call.n, call.k, call.batch, call.layout) for call in under] != shapes:
            raise GemmgenError(runs.command[0], "does not call the same from run to run", needs="a program whose sizes do not depend on rounding")
    if not levels:
        raise GemmgenError(runs.command[0], "has no GEMM that a kernel of the library serves", remedy="a library for this GPU")
    levels.append(VENDOR)
    for at, place in enumerate(places):
        seconds[at].append(vendors[place] or inf)

    def text(chosen: dict[int, str]) -> str:
        return dropped.levels_text({place: level for place, level in chosen.items() if level != VENDOR}, runs.period) + f"all {VENDOR}\n"

    def error(choice: Choice) -> float:
        return distance(runs.under(text({place: levels[level] for place, level in zip(places, choice)}), "levels together")[0], exact)

    floor = distance(plain, exact)
    alone = [
        [inf if not isfinite(seconds[at][level]) else floor if name == VENDOR else
         distance(runs.under(text({place: name}), f"call {place} by {name.split()[-1]}")[0], exact) for level, name in enumerate(levels)]
        for at, place in enumerate(places)
    ]
    # Which result feeds which call an unmodified program does not say: the call before is taken for the predecessor.
    question = Question(seconds, alone, floor, [[at - 1] if at else [] for at in range(len(places))], threshold, error)
    found = search(question)
    choice = found.choice
    return Transformed(
        tuple(first[place] for place in places), tuple(levels), question, found,
        None if choice is None else text({place: levels[level] for place, level in zip(places, choice)}),
        inf if choice is None else error(choice), runs.count)


def transformed(
    built: Built, command: Sequence[str], output: Path, threshold: float, *, reference: np.ndarray | None = None, kernels: Sequence[str] = (), period: int = 0,
    told: Callable[[str], None] = lambda step: None,
) -> Transformed:
    """`transform` with the runs of a command, whose files of levels and records lie in a folder of their own.

    Raises:
        GemmgenError: as `transform`.
    """
    with TemporaryDirectory(prefix="gemmgen-transform-") as folder:
        return transform(Runs(built, command, output.absolute(), Path(folder), period, told), threshold, reference=reference, kernels=kernels)
