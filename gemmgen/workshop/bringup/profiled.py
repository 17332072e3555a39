"""EGEMM-TC's workflow on any device (its figures 2 and 3): the paper's test as printed, and the same question asked so that it can be answered.

Beside the paper's draws of two products stand draws with an accumulator and draws that fill the instruction; beside its two hypotheses stand
what FP32 additions in other orders and an exact sum would give, and the catalog's row. The rules that agree with every draw of all
kinds, bit for bit, are what the unit may be; the paper's verdict and this one are told side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.conversion import decode
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import GPUS, arch_number, generation
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.errors import SpecError
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.egemm import LARGEST, Profile, apart, drawn, profile
from gemmgen.workshop.bringup.maps import find_maps
from gemmgen.workshop.bringup.probe import EmulatedMachine, GpuMachine, Machine, Raw
from gemmgen.workshop.bringup.sums import Order, find_order
from gemmgen.workshop.bringup.unit_rules import Candidate, every, predicted

WORD = "f16"
HALF, FLOAT, TREE, EXACT, ROW = "d_HALF", "d_FLOAT", "d_TREE", "d_EXACT", "d_ROW"
HYPOTHESES = {
    HALF: "products and sums in half precision, one after the other, then as FP32 (printed)",
    FLOAT: "products and sums in single precision, one after the other (printed)",
    TREE: "products and sums in single precision, the sums of a step in pairs",
    EXACT: "the exact sum of a step, rounded once to nearest",
    ROW: "what the catalog's row of this generation says",
}
"""By name, what each takes the unit to compute; the first two are the paper's."""
KINDS = {
    "as printed": "two products of words from [0, 32), no accumulator",
    "with an accumulator": "two products of words of either sign, and an accumulator of their size",
    "all products": "as many products as the instruction has, of words of either sign, and an accumulator of their size",
}
"""Of draws."""
_RULED = (64, 512, None)
"""First draws of each kind on which rules are tried in turn: few of them tell most rules apart."""


@dataclass(frozen=True)
class Kind:
    """Draws of one kind.

    Attributes:
        name: of KINDS.
        draws: how many.
        agreeing: draws on which a hypothesis is right, bit for bit; a hypothesis without a row to ask is left out.
    """

    name: str
    draws: int
    agreeing: dict[str, int]


@dataclass(frozen=True)
class Profiled:
    """The workflow's outcome.

    Attributes:
        device: its name; kind: `emulator`, `cuda`, `hip`; arch: its target.
        fragment: the instruction.
        seed: of all draws.
        printed: the paper's test.
        kinds: the same hypotheses and more on every kind of draw.
        rules: those that are right on every draw of all kinds, simplest first; of: of so many.
        row: what the catalog's row of this generation says; None where it has none.
        asked: dot products in all.
    """

    device: str
    kind: str
    arch: str
    fragment: str
    seed: int
    printed: Profile
    kinds: tuple[Kind, ...]
    rules: tuple[Candidate, ...]
    of: int
    row: Candidate | None
    asked: int

    @property
    def verdict(self) -> str:
        """What all kinds of draws together say, in words."""
        if not self.rules:
            return f"none of the {self.of} rules that a row of specs/units can say: gemmgen gpu probe describes such a unit trait by trait"
        told = f"{self.rules[0].text}, bit for bit on all {sum(one.draws for one in self.kinds)} draws"
        if len(self.rules) > 1:
            told += f"; {len(self.rules) - 1} other rules of {self.of} are right on them, too: gemmgen gpu probe asks on"
        if self.row:
            told += f"; the catalog's row says {'the same' if self.row in self.rules else self.row.text}"
        return told

    @property
    def consequence(self) -> str:
        """What that means for a sum over a long k."""
        last = self.kinds[-1]
        right = last.agreeing[FLOAT]
        if self.rules and self.rules[0].rule in ("exact", "tree"):
            return "every sum is rounded to nearest: a long sum left in the unit errs no more than one of FP32 does"
        return (f"{last.draws - right} of the {last.draws} full sums are not d_FLOAT: the verdict as printed holds for two products, and says nothing of a "
                "long sum; promotion (split.promote) moves sums out of the unit before what it cuts off adds up")

    def as_dict(self) -> dict[str, Any]:
        return {
            "device": self.device, "kind": self.kind, "arch": self.arch, "instruction": self.fragment, "seed": self.seed, "dot_products": self.asked,
            "printed": {**self.printed.as_dict(), "design": self.printed.design},
            "hypotheses": HYPOTHESES,
            "kinds": [{"name": one.name, "what": KINDS[one.name], "draws": one.draws, "agreeing": one.agreeing} for one in self.kinds],
            "rules": [one.text for one in self.rules], "of": self.of, "row": self.row.text if self.row else None,
            "verdict": self.verdict, "consequence": self.consequence,
        }

    def as_text(self) -> str:
        names = list(self.kinds[0].agreeing)
        width = max(map(len, KINDS))
        lines = [f"{self.fragment} on {self.device} ({self.arch})", "", "As EGEMM-TC prints it (section 3.1, figures 2 and 3)", "", *self.printed.lines, "",
                 f"verdict  {self.printed.verdict}", f"design   {self.printed.design}", "", "What it overlooks:",
                 *(f"- {one}" for one in self.printed.overlooked), "", "Asked further: draws on which each hypothesis is right, bit for bit", "",
                 f"{'draws':<{width}}  {'of':>6}  " + "  ".join(f"{name:>8}" for name in names)]
        lines += [f"{one.name:<{width}}  {one.draws:>6}  " + "  ".join(f"{one.agreeing[name]:>8}" for name in names) for one in self.kinds]
        lines += ["", *(f"{name:<8} {HYPOTHESES[name]}" for name in names), "", f"verdict  {self.verdict}", f"so       {self.consequence}"]
        return "\n".join(lines)


def machine_for(kind: str, gpu: str | None) -> Machine:
    """The device that a command's --device and --gpu name.

    Raises:
        SpecError: --gpu stands beside a real device, or is missing for the emulator.
        UnknownName, DeviceError: no such GPU, or no such device.
    """
    if (kind == "emulator") != (gpu is not None):
        raise SpecError("--gpu", "names what the emulator is, and nothing else", got=gpu,
                        needs="--device emulator --gpu NAME, or another --device without --gpu", remedy="gemmgen list gpus")
    return EmulatedMachine(GPUS.get(gpu, where="--gpu")) if gpu else GpuMachine(kind)


def profile_device(machine: Machine, fragment: Fragment, draws: int, seed: int = 0, progress: Callable[[str], None] = lambda text: None) -> Profiled:
    """Go through the workflow on one instruction of a device.

    Args:
        fragment: of FP16 words.
        draws: of each kind.
        progress: called with the name of what is done next.

    Raises:
        DeviceError: a launch was refused, or the instruction multiplies no matrices.
    """
    device = machine.open(fragment)
    try:
        with np.errstate(all="ignore"):
            raw = Raw(fragment, device)
            progress("maps")
            dots = Dots(raw, find_maps(raw))
            order = find_order(dots)
            progress("as printed")
            printed = profile(dots, order, draws, seed + 2)
            made = {name: _drawn(name, dots.depth, draws, seed + 2) for name in KINDS}
            answers = {}
            for name, (a, b, c) in made.items():
                progress(name)
                answers[name] = dots.ask(a, b, c)
            shipped = generation(arch_number(machine.arch))
            row = _row(UNITS.get(shipped) if shipped else None, fragment)
            kinds = tuple(Kind(name, draws, _agreeing(order, row, *made[name], answers[name])) for name in KINDS)
            progress("rules")
            rules = every(WORD, _block(order))
            left = _left(rules, made, answers)
    finally:
        device.release()
    return Profiled(machine.name, machine.kind, machine.arch, fragment.name, seed, printed, kinds, tuple(left), len(rules), row, dots.asked)


def _row(unit: MatrixUnit | None, fragment: Fragment) -> Candidate | None:
    return Candidate.of(unit, WORD, fragment.policy) if unit and WORD in unit.block else None


def _block(order: Order) -> int:
    """Products that the unit sums at once, or the most of a step where steps differ."""
    return order.block or max(map(len, order.steps))


Draws = tuple[np.ndarray, np.ndarray, np.ndarray]


def _drawn(kind: str, depth: int, draws: int, seed: int) -> Draws:
    """Words [draws, depth] of A and B, and C [draws]."""
    if kind == "as printed":
        return drawn(depth, draws, seed)
    rng, count = np.random.default_rng([seed, len(kind)]), depth if kind == "all products" else 2
    a, b = np.zeros((2, draws, depth), np.float16)
    a[:, :count], b[:, :count] = (rng.uniform(-LARGEST, LARGEST, (draws, count)) for _ in range(2))
    c = rng.uniform(-1, 1, draws) * LARGEST**2
    return a.view(np.uint16), b.view(np.uint16), c.astype(np.float32)


def _agreeing(order: Order, row: Candidate | None, a: np.ndarray, b: np.ndarray, c: np.ndarray, answers: np.ndarray) -> dict[str, int]:
    """{hypothesis: draws on which it is right}."""
    left, right = decode(WORD, a), decode(WORD, b)
    half, single = c.astype(np.float16), c.copy()
    for k in range(left.shape[1]):
        half = half + a.view(np.float16)[:, k] * b.view(np.float16)[:, k]
        single = single + left[:, k] * right[:, k]
    found = {HALF: half.astype(np.float32), FLOAT: single}
    ruled = {TREE: Candidate("tree", _block(order)), EXACT: Candidate("exact", _block(order))} | ({ROW: row} if row else {})
    counts = {name: int((apart(answers, said) == 0).sum()) for name, said in found.items()}
    return counts | {name: int((_bits(answers) == predicted(one, WORD, a, b, c)).sum()) for name, one in ruled.items()}


def _bits(d: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(d).view(np.uint32)


def _left(rules: list[Candidate], made: dict[str, Draws], answers: dict[str, np.ndarray]) -> list[Candidate]:
    """The rules that are right on every draw; the kind that tells most rules apart comes first."""
    for count in _RULED:
        for name, (a, b, c) in reversed(made.items()):
            said = _bits(answers[name])[:count]
            rules = [one for one in rules if bool((predicted(one, WORD, a[:count], b[:count], c[:count]) == said).all())]
    return rules
