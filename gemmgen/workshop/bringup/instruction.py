"""Everything about one instruction: its maps, the order of its sums, how it rounds, and the row that says so."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from gemmgen.catalog.conversion import RAW
from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.number import INTEGERS
from gemmgen.errors import GemmgenError
from gemmgen.workshop.bringup.dots import Dots
from gemmgen.workshop.bringup.egemm import Profile, profile
from gemmgen.workshop.bringup.maps import Maps, find_maps
from gemmgen.workshop.bringup.probe import Machine, Raw
from gemmgen.workshop.bringup.rules import Traits, find_traits
from gemmgen.workshop.bringup.sums import Order, find_order
from gemmgen.workshop.bringup.unit_rules import Candidate, Found, prove, tell_apart


@dataclass
class Instruction:
    """What one turned out to be.

    Attributes:
        fragment: the catalog's row of it.
        maps: where its elements are; None where that was not found.
        order, traits, found: of floating-point words, how it sums.
        whole: of integers, (products, how many of them are exact, with sums that wrap around in INT32).
        profile: EGEMM's, of f16 words and where it was asked for.
        asked: dot products in all; seconds: how long it took.
        error: what kept it from being probed, or from being probed to the end.
    """

    fragment: Fragment
    maps: Maps | None = None
    order: Order | None = None
    traits: Traits = field(default_factory=Traits)
    found: Found | None = None
    whole: tuple[int, int] | None = None
    profile: Profile | None = None
    asked: int = 0
    seconds: float = 0.0
    error: GemmgenError | None = None

    @property
    def rule(self) -> Candidate | None:
        """The rule that fits; None where none does."""
        return self.found.candidate if self.found and self.found.fits else None


def probe_instruction(machine: Machine, fragment: Fragment, products: int, seed: int = 0, egemm: bool = False) -> Instruction:
    """Find out everything about an instruction.

    Args:
        products: random ones, of the proof.
        egemm: whether to go through EGEMM's workflow, too.
    """
    start = time.perf_counter()
    result = Instruction(fragment)
    try:
        device = machine.open(fragment)
        try:
            raw = Raw(fragment, device)
            result.maps = find_maps(raw)
            dots = Dots(raw, result.maps)
            with np.errstate(all="ignore"):
                _sums(result, dots, products, seed, egemm)
            result.asked = dots.asked
        finally:
            device.release()
    except GemmgenError as error:
        result.error = error
    result.seconds = time.perf_counter() - start
    return result


def _sums(result: Instruction, dots: Dots, products: int, seed: int, egemm: bool) -> None:
    if dots.word in INTEGERS:
        _whole(result, dots, products, seed)
        return
    result.order = find_order(dots)
    result.traits = find_traits(dots, result.order)
    result.found = tell_apart(dots, result.order, seed)
    prove(dots, result.order, result.traits, result.found, products, seed + 1)
    if egemm and dots.word == "f16":
        result.profile = profile(dots, result.order, seed=seed + 2)


def _whole(result: Instruction, dots: Dots, products: int, seed: int) -> None:
    """Products of integers: whether their sums are exact, and what becomes of those that leave INT32."""
    m, n, k = dots.raw.fragment.shape
    rng, word, ends = np.random.default_rng(seed + 1), INTEGERS[dots.word], np.iinfo(np.int32)
    left, asked, wrapped, stopped = -(-products // (m * n)), 0, 0, 0
    while left > 0:
        tiles = min(left, 1024)
        left -= tiles
        a, b = (rng.integers(word.least, word.largest + 1, shape).astype(RAW[dots.word]) for shape in ((tiles, m, k), (tiles, k, n)))
        c = rng.integers(ends.min, ends.max, (tiles, m, n), dtype=np.int64, endpoint=True)
        c[::2] = np.where(c[::2] > 0, ends.max, ends.min)  # sums that leave INT32
        d = dots.tiles(a, b, c.astype(np.int32))
        exact = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.int64) + c
        wrapped += int((d == exact.astype(np.int32)).sum())
        stopped += int((d == np.clip(exact, ends.min, ends.max)).sum())
        asked += d.size
    result.whole = asked, wrapped
    ending = "wrap around in INT32" if wrapped == asked else "stop at the ends of INT32" if stopped == asked else "are not exact"
    result.traits.add("sums", ending, ending, "random words, and sums that leave INT32 on either side", asked)
