"""The judgement: does a built kernel use what it may, and compute what it must?"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from gemmgen.abi import FALLBACK
from gemmgen.build import Binary
from gemmgen.catalog.output import USUAL, Output
from gemmgen.designs.feature import PACKS_APART
from gemmgen.errors import EmulationError
from gemmgen.model.resources import occupancy
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.run import Device, Placement, Result, gemm
from gemmgen.verdict import verdict
from gemmgen.split import Words, split
from gemmgen.verify import batch, digests, ends, kinds, oracles, strided
from gemmgen.verify.bound import Bound, allowance, bound, fallen, held_to, lost, share_of_worst
from gemmgen.verify.expected import AS_FP32, MARGIN, expected
from gemmgen.verify.metrics import Errors, errors, relative_frobenius
from gemmgen.verify.report import Accuracy, Check, Report, Resources
from gemmgen.verify.sample import Sample, blocks, seconds

Progress = Callable[[str], None]
Require = Literal["scheme", "fp32"]
"""How good a right kernel has to be: as its scheme promises, or besides no worse than FP32."""


def standing(plan: Plan, ran_on: Device | None = None) -> str:
    """How far a kernel has been checked where none of its vendor's or design's was ever run, for every report of one; else empty.

    Args:
        ran_on: what executed it; None where nothing did.
    """
    told = plan.standing or ""
    if not told or ran_on is None or ran_on.kind == "emulator":
        return told
    compiled = "compiled by clang, resources read from the code object" if plan.gpu.maker.checked.recorded else "compiled, resources checked"
    return f"{compiled}; run on {ran_on.name}"


def resources(plan: Plan, source: Source, binary: Binary, role: str = "gemm") -> Resources:
    """What the main kernel takes from its SM; or that of another role (`gemmgen.abi.Launch.role`), by its own plan."""
    [symbol] = {launch.symbol for launch in source.launches if launch.role == role}
    used = binary.kernels[symbol]
    shared = used.static_shared_bytes + (0 if plan.geometry.static_shared else plan.shared_bytes)
    return Resources(
        registers=used.registers, predicted_registers=plan.predicted_registers,
        spill_bytes=max(kernel.spill_bytes for kernel in binary.kernels.values()),
        shared_bytes=shared, predicted_shared_bytes=plan.shared_bytes,
        occupancy=occupancy(plan.gpu.limits, plan.threads, used.registers, shared),
    )


def tensor_columns(binary: Binary) -> int:
    """Columns of tensor memory that a binary's code allocates; the cubin's tables do not tell."""
    return sum(map(int, re.findall(r"tcgen05\.alloc\.\S+ \[[^]]*\], (\d+);", binary.assembly)))


class Judge:
    """Puts the questions to one kernel on one device."""

    def __init__(self, plan: Plan, source: Source, binary: Binary, device: Device | None, sample: Sample | None = None):
        self.plan, self.source, self.binary, self.device, self.sample = plan, source, binary, device, sample

    def run(self, problem: oracles.Problem, quiet: bool = False, **options: Any) -> Result:
        """What the kernel makes of a problem.

        Args:
            quiet: whether the epilogue's arguments are to let the smallest sums show.
        """
        if self.plan.launches.of_products:
            return batch.among_others(self.device, self.plan, self.source, problem.a, problem.b, **options)
        m, n = problem.a.shape[0], problem.b.shape[1]
        whole = self.plan.kind.embedded(problem.a, problem.b, options.pop("c", None))
        result = gemm(self.device, self.plan, self.source, whole.a, whole.b, c=whole.c, ends=self._ends(m, n, quiet), **options)
        return replace(result, c=self.plan.kind.part(result.c, m, n))

    def sampled(self, problem: oracles.Problem) -> tuple[Result, oracles.Problem]:
        """What the kernel makes of a problem of the size of `sample`: the elements of the sample's blocks, side by side, and the problem that they are.
        Of any other, and without a sample, `run` and the problem itself."""
        some = self.sample
        if some is None or (problem.a.shape[0], problem.b.shape[1], problem.a.shape[1]) != some.size:
            return self.run(problem), problem
        device: Any = self.device
        device.only = blocks(self.plan, some)
        try:
            m, n, _ = some.size
            result = gemm(device, self.plan, self.source, problem.a, problem.b, ends=self._ends(m, n, quiet=False))
        finally:
            device.only = {}
        part = oracles.Problem(problem.a[some.places(0)], np.ascontiguousarray(problem.b[:, some.places(1)]))
        return replace(result, c=some.part(result.c), intact=result.intact and some.untouched(result.c)), part

    def _ends(self, m: int, n: int, quiet: bool) -> dict[str, Any]:
        return (ends.quiet if quiet else ends.drawn)(self.plan, m, n)

    @property
    def _summed(self) -> Output:
        """The type beyond whose range a sum is Inf: C's, where nothing stands between the two."""
        return USUAL if self.plan.epilogue else self.plan.output

    def sums(self, c: np.ndarray, right: np.ndarray, quiet: bool = False) -> np.ndarray:
        """What the kernel has summed, as far as C [M, N] tells, beside what is right (`ends.traced`)."""
        return ends.traced(self.plan, c, right, self._ends(*c.shape, quiet))

    @property
    def of_batches(self) -> dict[str, Callable[[], Check]]:
        """Questions to kernels that have a tile for each product of a batch, by name."""
        def asked(name: str) -> Check:
            return Check(name, *batch.QUESTIONS[name](self.device, self.plan, self.source))

        return {name: partial(asked, name) for name in batch.QUESTIONS} if self.plan.launches.of_products else {}

    def resources(self) -> Check:
        used = resources(self.plan, self.source, self.binary)
        resident = used.occupancy.blocks
        fine = resident > 0 and used.shared_bytes == used.predicted_shared_bytes
        fine = fine and (used.spill_bytes == 0 or self.plan.allow_spills)
        columns = ""
        if (wanted := self.plan.numbers.get("allocated_columns")) is not None:
            found = tensor_columns(self.binary)
            fine = fine and found == wanted
            columns = f", {found} columns of tensor memory (predicted {wanted})"
        beside = ""
        if self.plan.fallback:
            other = resources(self.plan.fallback, self.source, self.binary, FALLBACK)
            fine = fine and other.occupancy.blocks > 0 and other.shared_bytes == other.predicted_shared_bytes
            beside = (f"; fallback: {other.registers} registers (predicted {other.predicted_registers}), "
                      f"{other.shared_bytes} B shared (predicted {other.predicted_shared_bytes})")
        return Check(
            "resources", fine,
            f"{used.registers} registers (predicted {used.predicted_registers}), {used.shared_bytes} B shared (predicted {used.predicted_shared_bytes}), "
            f"{used.spill_bytes} B spilled, {resident} block{'s' * (resident != 1)} an SM by {used.occupancy.limited_by}{columns}{beside}",
        )

    def accuracy(self, name: str, problem: oracles.Problem, random: bool = True) -> Accuracy:
        """The errors of a product against its statistical and deterministic bounds, and against FP32's own.

        Args:
            random: whether the data is drawn evenly, as statistical bounds suppose.
        """
        result, problem = self.sampled(problem)
        element = self.plan.type
        product, finite = element.exact_or_special(problem.a, problem.b, self._summed.rounded)
        # What is not finite is held to be of the same kind, and kept out of the figures.
        whole, reference = self.sums(result.c, product), np.where(finite, product, 0.0)
        c = np.where(finite, whole, 0)
        a, b = (element.finite(x) for x in (problem.a, problem.b))
        magnitude = np.where(finite, element.exact(np.abs(a), np.abs(b)), 0.0)
        found = errors(c, reference, magnitude)
        flushed, apart = lost(self.plan, a, b, reference), bound(self.plan, a, b, reference)
        right = expected(self.plan, a, b)
        if random and self.simulates and right.tells:
            apart = replace(apart, relative_frobenius=min(apart.relative_frobenius, MARGIN * right.simulated + self.plan.output.roundoff))
        limit = apart.beside(flushed, reference, magnitude)
        allowed = allowance(self.plan, a, b, magnitude, repaired=result.status.get("repaired", 0) > 0)
        alike = element.same_special(whole, product, finite)
        fine = alike and result.intact

        for want in held_to(self.plan, a, b, reference):
            summed = np.where(finite, self.sums(result.c, want), 0)
            within = bool((np.abs(summed - want) <= allowed).all()) and fine  # an error that is NaN is not within anything
            good = within and relative_frobenius(summed, want) <= apart.relative_frobenius
            if good or not random:  # a user's data is held to the product itself
                break
        m, n, k = self.sample.size if self.sample else (*reference.shape, problem.a.shape[1] // self.plan.kind.reals)
        of_fp32 = right.against_fp32(c, reference)
        special = "" if finite.all() else f", {(~finite).sum()} elements not finite{'' if alike else f', not as in {element.title}'}"
        if np.any(flushed):
            share = np.linalg.norm(flushed) / max(np.linalg.norm(reference), np.finfo(float).tiny)
            special += f"; {share:.1e} of it is not in the words that the unit multiplies, which takes subnormal ones for zero"
        detail = (
            f"{m}x{n}x{k}{f', {self.sample.told}' if self.sample else ''}: "
            f"relative Frobenius {found.relative_frobenius:.2e} (bound {limit.relative_frobenius:.2e}, {element.title}'s own {right.fp32:.2e}), "
            f"scaled {found.scaled:.1e} (worst case {limit.scaled:.1e}){special}"
        )
        return Accuracy(Check(name, good, detail), found, limit, result, within, of_fp32)

    @property
    def simulates(self) -> bool:
        """Whether what the matrix unit's model computes is what this device should: of the emulator, and where hardware has confirmed it."""
        confirmed = all(self.plan.gpu.unit.checked(word, self.plan.fragment.policy) for word in self.plan.scheme.types)
        return self.device.kind == "emulator" or confirmed or not self.plan.fragment.on_matrix_unit

    def words(self, problem: oracles.Problem) -> tuple[Words, Words]:
        """The words of A and of B as the kernels count them."""
        operands = zip("ab", (problem.a, np.ascontiguousarray(problem.b.T)))
        apart = self.plan.design.has(PACKS_APART) or not self.plan.scheme.alike
        return tuple(split(x, self.plan.scheme, self.plan.launches.flushes_words, operand if apart else None) for operand, x in operands)

    def miscounted(self, problem: oracles.Problem, status: dict[str, int]) -> str:
        """What the kernels should have counted and have not; empty where all is right."""
        whole = self.plan.kind.embedded(problem.a, problem.b, None)
        kind = self.plan.kind
        rounds = [(whole.a, whole.b)] if kind.twice else [kind.real_of(a, b) for _, a, b in kind.terms(whole.a, whole.b)]
        words = [self.words(oracles.Problem(a, b[:, :: kind.reals])) for a, b in rounds]  # both columns of a complex one hold the same parts
        counts = {f"{x}_{what}": sum(getattr(one, what) for one in each) for x, each in zip("ab", zip(*words)) for what in ("lossy", "overflow", "nonfinite")}
        if kind.one_operand and self.plan.launches.shares_words:
            counts |= {key: 0 for key in counts if key.startswith("b_")}
        wrong = {key: value for key, value in counts.items() if status.get(key) != value}
        return ", ".join(f"{key} {status.get(key)}, not {value}" for key, value in wrong.items())

    def bits(self, name: str, problem: oracles.Problem) -> Check:
        """An oracle whose answer is known bit for bit."""
        want = self.plan.output.rounded(problem.expected)
        c = self.sums(self.run(problem, quiet=True).c, want, quiet=True)
        mask = np.ones(c.shape, bool) if problem.mask is None else problem.mask
        wrong = mask & ~(c == want)
        detail = f"{mask.sum()} elements, {problem.promise}"
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            detail = f"{wrong.sum()} of {mask.sum()} elements wrong; C[{i}, {j}] = {c[i, j]!r}, not {want[i, j]!r}"
        return Check(name, not wrong.any(), detail)

    def edges(self) -> Check:
        """Odd extents, padded and misaligned operands, alpha and beta; K = 0; alpha = 0."""
        return self._shapes("edges", "odd shapes", (
            ((67, 41, 37), -0.5, 2.0), ((1, 1, 1), 1.0, 0.0), ((5, 131, 3), 3.0, -1.0), ((9, 7, 0), 2.0, 0.5),
            ((33, 2, 19), 0.0, 1.5), ((35, 66, 21), -2.5, 0.0),
        ))

    def groups(self) -> Check:
        """A C of more block rows than a group has, of two block columns, all ragged: what a block's number stands for."""
        bm, bn, _ = self.plan.block
        rows = (self.plan.group * self.plan.cluster + 1) * bm
        return self._shapes("groups", "shape of two groups of blocks", (((max(1, rows - 3), bn + 5, 5), 1.0, 0.0),), placed=False)

    def whole(self) -> Check:
        """A product of a kind whose C is not all A B: each element that it computes is within the worst case, and the others are as they were."""
        return Check("kind", *kinds.question(self.plan, self.source, self.device))

    def batch(self) -> Check:
        """A strided batch: each product within the worst case whatever its place, and memory between the matrices of C left alone."""
        told, wrong = strided.questions(self.plan, self.source, self.device)
        return Check("batch", not wrong, "; ".join(wrong) or told)

    def _shapes(self, name: str, what: str, cases: Sequence[tuple[tuple[int, int, int], float, float]], placed: bool = True) -> Check:
        """Products of some shapes, with alpha and beta, against the deterministic bound; beside C nothing may be written."""
        rng = np.random.default_rng(4)
        worst, failed = 0.0, []
        size = self.plan.type.bytes
        placement = Placement((3, 5, 1), (size, 2 * size, 3 * size)) if placed else Placement()
        for (m, n, k), alpha, beta in cases:
            problem = oracles.uniform(self.plan, -1, 1, (m, n, k), 5)
            c = self.plan.type.rounded(rng.uniform(-1, 1, (m, n))) if beta else None
            result = self.run(problem, c=c, alpha=alpha, beta=beta, placement=placement)
            share = share_of_worst(self.plan, problem.a, problem.b, c, result.c, alpha, beta, self._ends(m, n, quiet=False))
            worst = max(worst, share)
            if not share <= 1 or not result.intact:
                failed.append(f"{m}x{n}x{k} alpha {alpha} beta {beta}: {share:.2g} of the worst case"
                              + ("" if result.intact else ", and memory beside C was overwritten"))
        return Check(name, not failed, "; ".join(failed) or f"{len(cases)} {what}, at most {worst:.2f} of the worst case")

    def _near(self, c: np.ndarray, right: np.ndarray, allowed: np.ndarray) -> np.ndarray:
        """[M, N], whether what was summed is near what is right."""
        return np.abs(self.plan.type.widened(self.sums(c, right)) - right) <= allowed

    def outliers(self) -> Check:
        """A few elements that are far larger than the others of their rows and columns: which tiles fall back, and how the others err."""
        problem = oracles.outliers(self.plan)
        result, mask, element = self.run(problem), fallen(self.plan, problem.a, problem.b), self.plan.type
        want, magnitude = element.exact(problem.a, problem.b), element.exact(np.abs(problem.a), np.abs(problem.b))
        error = np.abs(element.widened(self.sums(result.c, want)) - want)
        share = float((error / allowance(self.plan, problem.a, problem.b, magnitude, repaired=result.status.get("repaired", 0) > 0)).max())
        tiles = int(mask[:: self.plan.block[0], :: self.plan.block[1]].sum())
        norms = np.linalg.norm(element.widened(problem.a), axis=1)[:, None] * np.linalg.norm(element.widened(problem.b), axis=0)[None, :]
        worst = float((error / norms).max())
        counted, scheme = result.status.get("fallen"), self.plan.fallback.scheme.name
        return Check(
            "outliers", share <= 1 and 0 < tiles == counted and not mask.all(),
            f"{counted} of {-(-mask.shape[0] // self.plan.block[0]) * -(-mask.shape[1] // self.plan.block[1])} tiles fell back to {scheme}"
            f"{'' if counted == tiles else f', not {tiles}'}; at most {share:.2g} of the worst case, and {worst:.1e} of the norms of row and column",
        )

    def range(self, **drawn: Any) -> Check:
        """Whatever the magnitude and kind of the data: every element is within the worst case, or its row or column counted.

        Args:
            drawn: as `oracles.all_ranges` takes it.
        """
        least = self.plan.type.exponents[0]
        return self._promised("range", oracles.all_ranges(self.plan, **drawn), f"of rows and columns from 2^{least} on")

    def graded(self) -> Check:
        """The same of rows that fall and columns that rise along k, of wide spans, and of sums that cancel: where one power of two for a row loses the most."""
        return self._promised("graded", oracles.graded(self.plan), "graded by up to 2^40 against one another, half of them cancelling")

    def digest(self) -> Check:
        """Whether C of published inputs is, bit for bit, what it is on every other GPU (`digests`)."""
        key = digests.asked(self.plan)
        want, got = digests.DIGESTS[key], digests.found(self.device, self.plan, self.source)
        return Check("digest", got == want, f"SHA-256 {got[:12]}... of C, that of every GPU" if got == want else f"SHA-256 {got} of C, not {want}")

    def runs(self) -> Check:
        """The same of runs of k whose scales are far apart, and of runs of zeros."""
        return self._promised("runs", oracles.far_runs(self.plan), "of runs of k from 2^-100 to 2^100")

    def _promised(self, name: str, asked: oracles.Problem, of: str) -> Check:
        """Whether every element is within the worst case, or its row or column counted."""
        result = self.run(asked, quiet=True)
        problem, element = self._completed(asked), self.plan.type
        words, uncounted = self.words(problem), self.miscounted(asked, result.status)
        with np.errstate(invalid="ignore", over="ignore"):
            want, magnitude = element.exact(problem.a, problem.b), element.exact(np.abs(problem.a), np.abs(problem.b))
            apart = want - lost(self.plan, problem.a, problem.b, want)
            error = np.abs(element.widened(self.sums(result.c, apart, quiet=True)) - apart)
        promised = ~words[0].counted[:, None] & ~words[1].counted[None, :] & (magnitude < self.plan.output.largest / 2)
        allowed = allowance(self.plan, problem.a, problem.b, magnitude, repaired=True)
        wrong = promised & ~(error <= allowed)
        detail = f"{promised.sum()} of {promised.size} elements promised, {of}: {wrong.sum()} beyond the worst case"
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            detail += f"; C[{i}, {j}] = {result.c[i, j]!r}, not {apart[i, j]:.9g}, and nothing of its row and column is counted"
        detail += f"; counted {uncounted}" if uncounted else "; the rest counted"
        return Check(name, promised.any() and not wrong.any() and not uncounted, detail)

    def _completed(self, problem: oracles.Problem) -> oracles.Problem:
        """The rows of A and the columns of B that are multiplied for a problem, of a kind with others beside them: scales are by all of their elements."""
        kind, (m, n) = self.plan.kind, (problem.a.shape[0], problem.b.shape[1])
        if kind.plain or self.plan.launches.of_products:
            return problem
        given = kind.embedded(problem.a, problem.b, None)
        a, b = kind.completed(given.a, given.b)
        rows, columns = (kind.part(at, m, n) for at in np.indices((a.shape[0], b.shape[1])))
        return replace(problem, a=a[rows[:, 0]], b=b[:, columns[0]])

    def special(self) -> Check:
        """Inf, NaN and overflow come out as arithmetic of the elements' type has them, everything else as usual."""
        problem = oracles.special_values(self.plan)
        result, element = self.run(problem), self.plan.type
        want, finite = element.exact_or_special(problem.a, problem.b, self._summed.rounded)
        same_kind = element.same_special(self.sums(result.c, want), want, finite)
        with np.errstate(invalid="ignore", over="ignore"):
            magnitude = element.exact(np.abs(problem.a), np.abs(problem.b))
            a, b = (element.finite(x) for x in (problem.a, problem.b))
            allowed = allowance(self.plan, a, b, magnitude, repaired=True)
            # Beside elements beyond the words' range others are too small for words, and counted: C is that of the words or, repaired, of the elements.
            close = self._near(result.c, want - lost(self.plan, problem.a, problem.b, want), allowed)
            if not self.plan.scheme.family.by_row:
                close |= self._near(result.c, want - lost(self.plan, problem.a, problem.b, want, lossy=True), allowed)
        uncounted = self.miscounted(problem, result.status)
        counted = {key: value for key, value in result.status.items() if key != "repaired"}
        told = f"counted {_nonzero(counted)}" if not uncounted else f"counted {uncounted}"
        if self.plan.special == "fast":
            return Check("special", not uncounted, f"fast: not repaired; {told}")
        return Check(
            "special", same_kind and bool(close[finite].all()) and not uncounted and result.status["repaired"] > 0,
            f"{(~finite).sum()} non-finite as in {element.title}, {result.status['repaired']} repaired; {told}",
        )


def _nonzero(counts: dict[str, int]) -> str:
    return ", ".join(f"{key} {value}" for key, value in counts.items() if value) or "nothing"


HEADLINE_SECONDS = 15.0
"""What the headline product takes of one process of the emulator, as estimated, before its k is less than 1024."""


def default_size(plan: Plan, kind: str) -> tuple[int, int, int]:
    """Size of the headline product: several blocks, ragged, with stages that wrap and promotion that fires.

    Where blocks work off tiles, more tiles than there are blocks at once. The emulator takes a k of 1024, or of 512 or 256 where more takes too long, and
    of `oracles.wrapping_k` where that is more.
    """
    m, n, k = _default_size(plan, kind)
    return m, -(-n // plan.kind.reals), -(-k // plan.kind.reals)


def _default_size(plan: Plan, kind: str) -> tuple[int, int, int]:
    """That of a product of real numbers."""
    if kind == "emulator":
        if plan.design.stays:
            return 2 * plan.block[0] + 13, plan.block[1] + 9, oracles.wrapping_k(plan) + 5
        m, n, least = plan.block[0] + 13, max(1, plan.block[1] - 7), oracles.wrapping_k(plan)
        affordable = (k for k in (1024, 512) if seconds(plan, (m, n, k), processes=1) <= HEADLINE_SECONDS)
        return m, n, max(next(affordable, 256), least) + 5
    if plan.design.stays:
        return 2571, 1533, max(4096, oracles.wrapping_k(plan)) + 3
    return 1031, 1013, max(4096, oracles.wrapping_k(plan)) + 3


def resources_only(plan: Plan, source: Source, binary: Binary, reason: str) -> Report:
    """What can be said of a kernel that nothing here can run: that it was compiled, and what it takes."""
    return Report(
        kernel=source.name, arch=plan.arch, device="none", resources=resources(plan, source, binary), errors=None, bound=None, size=None,
        status={}, seconds=None, checks=(Judge(plan, source, binary, None).resources(),), standing=standing(plan), unverified=reason,
        verdict=verdict(plan),
    )


def verify(
    plan: Plan, source: Source, binary: Binary, device: Device, *,
    a: np.ndarray | None = None, b: np.ndarray | None = None,
    size: tuple[int, int, int] | None = None, require: Require = "scheme", progress: Progress | None = None, sample: Sample | None = None, smaller: str = "",
) -> Report:
    """Every check on one kernel on one device.

    On the emulator the headline product runs under two schedules that expose
    races, and both must agree bit for bit; the other questions do not depend on
    the order of warps and run with all of them in step, which is faster.

    Args:
        a, b: [M, K] and [K, N] of the plan's elements for the headline product instead of U[-1, 1]; of complex ones, both parts of C as columns.
        size: (m, n, k) of it otherwise.
        require: how good a right kernel has to be: as its scheme promises, or besides as FP32.
        progress: gets the name of each step as it begins.
        sample: on the emulator, the blocks of C that are computed of products of `size` (`gemmgen.verify.sample`); None for all.
        smaller: for the report, why `size` is less than what was asked for.

    Raises:
        EmulationError: only for an instruction the emulator lacks; a fault of
            the kernel is a failed check.
    """
    say = progress or (lambda text: None)
    whole = judge = Judge(plan, source, binary, device, sample)
    planned = plan
    if plan.kind.solves:  # its products are asked what those of a matrix product are
        between = plan.kind.between
        plan, source = replace(plan, kind=between.strided() if plan.kind.batched else between), replace(source, interface=source.interface.of_products)
        judge = Judge(plan, source, binary, device, sample)
    m, n, k = size or default_size(plan, device.kind)
    shape = m, n, k * plan.kind.reals  # of the real product, of which each complex element of C shows one part
    own = a is None or b is None
    headline = oracles.uniform(plan, -1, 1, shape, 0) if own else oracles.Problem(*(plan.kind.completed(a, b) if plan.kind.reals > 1 else (a, b)))
    headlined = "U[-1, 1]" if own else "your matrices"
    checks = [whole.resources()]
    told: dict[str, Accuracy] = {}

    def ask(name: str, question: Callable[[], Check]) -> None:
        say(name)
        try:
            checks.append(question())
        except EmulationError as error:
            checks.append(Check(name, False, str(error)))

    def accuracy(name: str, problem: oracles.Problem, random: bool = True) -> Check:
        told[name] = judge.accuracy(name, problem, random)
        return told[name].check if random else _judge_users(told[name])

    on_emulator = device.kind == "emulator"
    if on_emulator:
        _schedule(device, "TOGETHER")  # several times faster; the last two checks look for races
    ask("probes", lambda: judge.bits("probes", oracles.probes(plan)))
    ask("permutation", lambda: judge.bits("permutation", oracles.permutation(plan)))
    ask("edges", judge.edges)
    ask("groups", judge.groups)
    if plan.launches.repeated:
        ask("batch", judge.batch)
    if not planned.kind.plain:
        ask("kind", whole.whole)
    ask("special", judge.special)
    if plan.fallback:
        ask("outliers", judge.outliers)
    ask("range", judge.range)
    if not plan.kind.element_of(plan.type).is_usual:
        ask("graded", judge.graded)
    if digests.asked(plan):
        ask("digest", judge.digest)
    if plan.scheme.family.run_k:
        ask("runs", judge.runs)
    for title, question in judge.of_batches.items():
        ask(title, question)
    ask("U[0, 1]", lambda: accuracy("U[0, 1]", oracles.uniform(plan, 0, 1, shape, 6)))
    if on_emulator:
        _schedule(device, "LAZY_HIGHEST")
    ask(headlined, lambda: accuracy(headlined, headline, own))
    if on_emulator:
        _schedule(device, "EAGER_LOWEST")
        ask("schedules", lambda: _schedules(judge, headline, told[headlined].result if headlined in told else None))
    of_fp32 = {what: one.of_fp32 for what, one in told.items()}
    if require == "fp32":
        checks.append(_required(of_fp32, headlined))
    found = told.get(headlined) or Accuracy(
        checks[0], Errors(np.nan, np.nan, np.nan, np.nan), Bound(np.nan, np.nan, np.nan, np.nan), Result(np.zeros((0, 0), np.float32)), False, np.nan,
    )
    return Report(
        kernel=source.name, arch=plan.arch, device=device.name, resources=resources(plan, source, binary),
        errors=found.errors, bound=found.bound, size=(headline.a.shape[0], headline.b.shape[1], headline.a.shape[1]),
        status=found.result.status, seconds=found.result.seconds, checks=tuple(checks), device_kind=device.kind, standing=standing(plan, device),
        of_fp32=of_fp32, promises=plan.scheme.name, verdict=verdict(planned), sample=sample, smaller=smaller,
        element=plan.type.title,
    )


def _judge_users(judged: Accuracy) -> Check:
    """A user's data need not be random: it is held against the deterministic bound, and told of the rest."""
    status, check = judged.result.status, judged.check
    lost = sum(value for key, value in status.items() if key.endswith(("_lossy", "_overflow")))
    notes = check.detail
    if lost:
        notes += f"; {lost} elements outside the scheme's range: {_nonzero(status)}"
    elif judged.within and not check.passed:
        notes += "; beyond what random data would show, within the worst case"
    return replace(check, passed=judged.within, detail=notes)


def against_fp32(ratio: float, element: str = "FP32") -> str:
    """An error over FP32's own, or that of another type of elements, in words."""
    if not np.isfinite(ratio):
        return f"where {element} is exact" if ratio > 0 else f"not comparable with {element}'s"
    return f"as {element}" if ratio <= AS_FP32 else f"{ratio:.1f} times {element}'s" if ratio < 10 else f"{ratio:.0f} times {element}'s"


def _required(of_fp32: dict[str, float], headline: str) -> Check:
    """That the errors are FP32's: of U[0, 1], where a unit's truncation has a sign and adds up, and of the headline product."""
    good = headline in of_fp32 and all(ratio <= AS_FP32 for ratio in of_fp32.values())
    figures = ", ".join(f"{name} {against_fp32(ratio)} ({ratio:.2f})" for name, ratio in of_fp32.items())
    return Check("as FP32", good, f"{figures or 'nothing to compare'}; at most {AS_FP32:g} times its own error is required")


def _schedule(device: Any, name: str) -> None:
    """Switch the emulator to one of its schedules."""
    from gemmgen import emulate

    device.set_schedule(getattr(emulate, name))


def _schedules(judge: Judge, problem: oracles.Problem, first: Result | None) -> Check:
    """The same product with warps in the other order and copies landing at the other extreme."""
    second, _ = judge.sampled(problem)
    if first is None or first.c.shape != second.c.shape:
        return Check("schedules", False, "the first schedule gave no result to compare")
    bits = f"u{first.c.dtype.itemsize}"
    differ = int((first.c.view(bits) != second.c.view(bits)).sum())
    conflicts = sum(judge.device.conflicts.values())
    detail = f"either order of warps and copies gives the same bits, {conflicts} bank conflicts"
    if differ:
        detail = f"{differ} of {first.c.size} elements depend on the order in which warps run: a race"
    elif judge.device.not_modelled:
        detail += "\nof the order of memory not modelled: " + "; ".join(judge.device.not_modelled)
    return Check("schedules", differ == 0, detail)


class _Called(ModuleType):
    """This room, which can be called as `gemmgen.verify(spec)`: the package's public function and the room have one name."""

    def __call__(self, *given: Any, **named: Any) -> Report:
        import gemmgen

        return gemmgen.road.verify(*given, **named)


sys.modules[__name__].__class__ = _Called
