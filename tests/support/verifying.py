"""A plan's kernel, built and judged on the emulator: by every question, or in short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np

from gemmgen.build import build
from gemmgen.designs.feature import PACKS_APART
from gemmgen.emulate import EAGER_LOWEST, LAZY_HIGHEST, TOGETHER, Schedule
from gemmgen.emulate.core.product import product
from gemmgen.errors import EmulationError
from gemmgen.plan import Plan
from gemmgen.render import Source, render
from gemmgen.run import gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.split import joined, split
from gemmgen.verify import Check, Judge, Report, oracles, verify
from gemmgen.verify.expected import sequential

from assembled import assembled


def on_emulator(
    plan: Plan, schedule: Schedule = TOGETHER, edit: Callable[[str], str] = lambda text: text, processes: int | None = None,
) -> tuple[EmulatorDevice, Plan, Source]:
    """A plan's kernel, built without machine code from its edited text."""
    source = render(plan)
    source = replace(source, text=edit(source.text))
    return EmulatorDevice(plan, source, assembled(source), schedule=schedule, processes=processes), plan, source


def judge_of(plan: Plan, edit: Callable[[str], str] = lambda text: text, schedule: Schedule = TOGETHER) -> Judge:
    """The judge of such a kernel."""
    device, _, source = on_emulator(plan, schedule, edit)
    return Judge(plan, source, device.binary, device)


def reference(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B as the split in NumPy has it, of residues bit for bit."""
    return joined(split(a, plan.scheme), split(np.ascontiguousarray(b.T), plan.scheme), plan.scheme)


def report_of(plan: Plan) -> Report:
    """With a headline product just large enough for stages to wrap and promotion to fire."""
    source = render(plan)
    binary = build(source)
    size = None if plan.design.stays else (plan.block[0] + 5, max(1, plan.block[1] - 3), oracles.wrapping_k(plan) + 5)
    return verify(plan, source, binary, EmulatorDevice(plan, source, binary), size=size)


def assert_passed(report: Report) -> None:
    assert report.passed, [f"{check.name}: {check.detail}" for check in report.checks if not check.passed]


def assert_a_schedule_shows(judge: Judge) -> None:
    """A kernel whose warps race: either of the two orders meets memory that nothing wrote, or gives a wrong product."""
    problem = oracles.permutation(judge.plan)
    results = []
    for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
        judge.device.set_schedule(schedule)
        try:
            results.append(gemm(judge.device, judge.plan, judge.source, problem.a, problem.b).c)
        except EmulationError:
            return
    assert any((c != problem.expected).any() for c in results)


# ---- in short: the resources, every bit of a small product, and one question


def _orders(judge: Judge) -> Check:
    """Whole numbers, a ragged block, and enough k for every stage to be filled again, with warps and copies in either order, till one is wrong."""
    plan = judge.plan
    rng = np.random.default_rng(1)
    times = len(plan.scheme.moduli) if plan.scheme.moduli else 1  # for each of which the kernel goes over k
    k = ceil(2 * plan.stages / times) * plan.block[2] - 3
    a, b = (rng.integers(-3, 4, shape).astype(judge.plan.type.dtype) for shape in ((plan.block[0] - 3, k), (k, min(33, plan.block[1]))))
    right = []
    for schedule in (LAZY_HIGHEST, EAGER_LOWEST):
        judge.device.set_schedule(schedule)
        right.append(np.array_equal(judge.run(oracles.Problem(a, b)).c, a @ b))
        if not right[-1]:
            break
    return Check("orders", all(right), f"right: {right}")


QUESTIONS: dict[str, Callable[[Judge], Check]] = {
    "probes": lambda judge: judge.bits("probes", oracles.probes(judge.plan)),
    "permutation": lambda judge: judge.bits("permutation", oracles.permutation(judge.plan)),
    "edges": Judge.edges, "groups": Judge.groups, "special": Judge.special, "range": Judge.range, "orders": _orders, "resources": Judge.resources,
}
"""Those that `verify` asks, the orders of warps and copies of a product that is known without a reference, and what the machine code takes."""


IN_TURN = [one for question in QUESTIONS for one in (question, None)]
"""What is asked of one way after another: every second is asked one."""


def order_of_k(plan: Plan, k: int) -> np.ndarray:
    """Which k stands at each place of the matrix unit's sums.

    Where a fragment is several instructions, each takes an equal part of every lane's consecutive k.
    RDNA 4's takes four k of the lower lanes, four of the upper ones, and again: a lane has eight in a row.
    A lane of NVIDIA's that splits has consecutive k, too, and the instruction takes them for those of its map.
    """
    depth, times = plan.fragment.shape[2], plan.fragment.instructions or 1
    within = np.arange(depth).reshape(-1, times, plan.fragment.run // times) if times > 1 else np.arange(depth).reshape(1, 1, -1)
    within = within.transpose(1, 0, 2).reshape(-1)
    if plan.arch.startswith("gfx12") and plan.fragment.on_matrix_unit:
        within = np.array([0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15])
    if plan.gpu.vendor == "nvidia" and plan.where in ("register", "lane"):
        held = plan.fragment.a
        lanes, own = ([along for _, along in offsets if along] for offsets in (held.lanes, (*held.packed, *held.registers)))
        places = _sums(lanes)[:, None] + _sums(own)
        within[places.reshape(-1)] = np.arange(depth)
    stages = np.arange(0, -(-k // plan.block[2]) * plan.block[2], depth)
    return (stages[:, None] + within).reshape(-1)


def _sums(offsets: list[int]) -> np.ndarray:
    """What the offsets come to for each set of bits, one of each."""
    found = np.zeros(1, int)
    for offset in offsets:
        found = np.concatenate([found, found + offset])
    return found


def by_lanes(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B [M, N] of the thin design for a slice of k: each lane's own k in order, lanes two by two, warps one after another."""
    lanes, k = plan.own.lanes_k, np.arange(a.shape[1])
    lane, warp = k // 4 % lanes, k // (4 * lanes) % plan.geometry.warps_k
    of_warps = []
    for one in range(plan.geometry.warps_k):
        sums = [sequential(a[:, mine], b[mine]) for mine in ((lane == at) & (warp == one) for at in range(lanes))]
        while len(sums) > 1:
            sums = [left + right for left, right in zip(sums[::2], sums[1::2])]
        of_warps += sums
    return sum(of_warps[1:], of_warps[0])


def expected_bits(plan: Plan, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """A B [M, N] as the scheme on the unit computes it, by the reference split and the unit's rule, without any kernel."""
    k = a.shape[1]
    thin = plan.loads == "streamed"
    order = np.arange(-(-k // plan.block[2]) * plan.block[2]) if thin else order_of_k(plan, k)
    whole_a, whole_b = np.pad(a, ((0, 0), (0, len(order) - k)))[:, order], np.pad(b, ((0, len(order) - k), (0, 0)))[order]
    depth = plan.block[2] * ceil(len(order) / plan.block[2] / plan.split_k)
    found = None
    for first in range(0, depth * plan.split_k, depth):
        part_a, part_b = whole_a[:, first : first + depth], whole_b[first : first + depth]
        if not plan.scheme.exact:
            # Warps may share the k of a stage; words are of whole rows, and runs are counted from the first k on.
            sharer = np.arange(part_a.shape[1]) // plan.warp[2] % plan.geometry.warps_k
            runs = plan.scheme.family.run_k
            sums = [
                product(
                    plan.scheme, plan.gpu.unit if plan.fragment.on_matrix_unit else None, whole_a, whole_b, promote=plan.promote,
                    fragment_k=plan.fragment.shape[2], compensated=plan.promotion.compensates,
                    part=slice(first, first + len(sharer)) if runs else first + np.flatnonzero(sharer == one),
                )
                for one in range(plan.geometry.warps_k if len(sharer) else 0)
            ]
            part = sum(sums[1:], sums[0]) if sums else np.zeros((a.shape[0], b.shape[1]), np.float32)
        else:
            part = by_lanes(plan, part_a, part_b) if thin else sequential(part_a, part_b)
        found = part if found is None else found + part
    return found


def assert_bits(judge: Judge, m: int = 67, n: int = 9, k: int = 133) -> None:
    """Every bit of a ragged product is the scheme's on the unit, and every element is counted once.

    Where WMMA chooses the order of k, or C is more than the sum, errors are held to their bounds instead.
    """
    if judge.plan.fragment.policy == "wmma" or judge.plan.epilogue:
        check = judge.accuracy("U[-1, 1]", oracles.uniform(judge.plan, -1, 1, (m, n, k), 1)).check
        assert check.passed, check.detail
        return
    plan, rng = judge.plan, np.random.default_rng(0)
    a, b = (rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-22, 4, shape)) for shape in ((m, k), (k, n)))
    if run := plan.scheme.family.run_k:  # two more runs, each with scales of its own
        k += 2 * run
        a, b = (rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-22, 4, shape)) for shape in ((m, k), (k, n)))
        of_a, of_b = (np.repeat(np.exp2(rng.integers(-5, 6, (count, k // run + 1))), run, axis=1)[:, :k] for count in (m, n))
        a, b = a * of_a, b * of_b.T
    if plan.scheme.normalize == "row":  # no two rows or columns beside each other have one scale
        a, b = a * np.exp2(rng.integers(-90, 50, (m, 1))), b * np.exp2(rng.permutation(np.arange(n) - n // 2))
    a, b = plan.type.rounded(a), plan.inputs.stored_b.rounded(plan.type.rounded(b))
    result = judge.run(oracles.Problem(a, b))
    bits = f"u{plan.type.bytes}"
    assert np.array_equal(result.c.view(bits), expected_bits(plan, a, b).view(bits))
    for x, operand in (("a", a), ("b", np.ascontiguousarray(b.T))):
        words = split(operand, plan.scheme, plan.launches.flushes_words, x if plan.design.has(PACKS_APART) or not plan.scheme.alike else None)
        assert {kind: result.status[f"{x}_{kind}"] for kind in ("lossy", "overflow", "nonfinite")} == {
            kind: getattr(words, kind) for kind in ("lossy", "overflow", "nonfinite")}


def assert_right_in_short(plan: Plan, question: str | None = None, conflicts: bool = False) -> None:
    """What `make test` asks where `make test-all` asks for the whole report.

    Args:
        question: one of QUESTIONS besides; "resources" alone needs the machine code, all others are asked of the compiler's assembly.
        conflicts: whether there may be bank conflicts.
    """
    source = render(plan)
    binary = build(source) if question == "resources" else assembled(source)
    judge = Judge(plan, source, binary, EmulatorDevice(plan, source, binary, schedule=TOGETHER))
    assert_bits(judge)
    if question:
        check = QUESTIONS[question](judge)
        assert check.passed, f"{check.name}: {check.detail}"
    assert conflicts or not judge.device.conflicts
