"""Triangular systems: BLAS's trsm.

The unknowns are solved block by block. A block is solved by substitution in the elements' own arithmetic, as BLAS does it, so that a solve is as stable; what
a block is for the unknowns behind it is a product, by any scheme's kernels. Products are as large as they can be: behind block i, 2^t blocks serve the next
2^t, where 2^t is the largest power of two that divides i + 1. So each element of the triangle is split once, and half of all multiplications are in one
product. Systems of a strided batch are solved together: each launch is for the same part of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmgen.catalog.element import ELEMENTS, F32, Element
from gemmgen.catalog.gpu import Gpu
from gemmgen.interface import Round
from gemmgen.kinds.kind import Kind, Problem
from gemmgen.kinds.triangles import LOWER
from gemmgen.kinds.triangular import LEFT, NONUNIT, UNIT, OneTriangle, triangle
from gemmgen.model.equation import Equation, Numbers

BLOCK = 256
"""Unknowns of a block."""
LANES = 8
"""Threads that substitute for one right-hand side."""


@dataclass(frozen=True)
class Substitution:
    """The kernel that solves a block, of one type of elements: of larger ones it has fewer right-hand sides, so that their unknowns take 32 KiB.

    Attributes:
        element: of the triangle and of the right-hand sides.
        asked: right-hand sides of a thread block; 0 for the usual number.
    """

    element: Element
    asked: int = 0

    @property
    def systems(self) -> int:
        """Right-hand sides of a thread block."""
        return self.asked or 128 // self.element.bytes

    @property
    def part(self) -> int:
        """Unknowns that are substituted one by one; the rest of a block is products in the elements' own arithmetic."""
        return 64 if self.element.bytes == 4 else 32

    @property
    def threads(self) -> int:
        return LANES * self.systems

    @property
    def pair(self) -> int:
        """Right-hand sides that a thread substitutes for. Two read the triangle from shared memory once, which is faster where an SM has 64 right-hand sides;
        with 32, one after another waits less (docs/results/level3.md)."""
        return 2 if self.systems > 32 else 1

    @property
    def shared_bytes(self) -> int:
        """A block's unknowns, a part of the triangle, and one over each element of its diagonal."""
        return self.element.bytes * (BLOCK * self.systems + self.part * self.part + self.part)

    @property
    def together(self) -> int:
        """Thread blocks that an SM takes at a time: 32 right-hand sides. Assumed."""
        return max(1, 32 // self.systems)

    @property
    def multiplied(self) -> int:
        """Multiply-adds of a thread block's products."""
        parts = BLOCK // self.part
        return parts * (parts - 1) // 2 * self.part**2 * self.systems * self.element.reals**2

    @property
    def cycles(self) -> Equation:
        """K11."""
        own = UNKNOWN_CYCLES[self.element.name, self.systems]
        return Equation(
            "K11", "substitution_cycles", f"{BLOCK} * {own} + {self.multiplied} / {self.element.part.name}_fma_per_clock",
            "cycles a block of unknowns and thread block",
            f"one unknown after another, and products with the parts before in {self.element.part.title}",
        )


UNKNOWN_CYCLES = {("f32", 16): 139, ("f32", 32): 168, ("f32", 64): 230, ("f64", 16): 359, ("c64", 16): 380, ("c128", 8): 1300}
"""Cycles from one unknown of a block to the next, all else of a block among them, by elements and right-hand sides of a thread block: an H200 launches and
solves a block of FP32 in 33.1 us for 4096 right-hand sides (docs/results/level3.md). Of other GPUs assumed."""


def late(gpu: Gpu, element: Element) -> bool:
    """Whether a block reads a part of the triangle when it stores that to shared memory, and not while it works on the part before.

    A thread of complex FP64 has 16 elements of 16 bytes on their way otherwise, which RDNA's 256 registers do not hold beside its sums.
    """
    return gpu.maker.platform == "hip" and gpu.limits.warp_size == 32 and element.bytes == 16


def block_seconds(numbers: Numbers, own: Substitution = Substitution(F32)) -> tuple[float, float, float]:
    """What a block of unknowns takes, as K12 has it: (seconds of its launch, of a wave of thread blocks, of a right-hand side in device memory).

    Args:
        numbers: a GPU's rates by their symbols.
    """
    return numbers["launch_seconds"], own.cycles.value(numbers) / numbers["clock_hz"], 2 * own.element.bytes * BLOCK / numbers["dram_rate"]


def equations(size: str, others: str, own: Substitution = Substitution(F32)) -> tuple[Equation, ...]:
    """Of the time: what a solve has besides its products.

    Args:
        size, others: how many unknowns and right-hand sides there are, by the symbols of the real product.
    """
    together = f"{own.together} * sms" if own.together > 1 else "sms"
    return (
        Equation("K10", "solved_blocks", f"ceil({size} / {BLOCK})", "blocks of unknowns", "solved one after the other"),
        own.cycles,
        Equation(
            "K12", "solve_seconds",
            f"solved_blocks * (3 * launch_seconds + ceil(batch * ceil({others} / {own.systems}) / ({together})) * (substitution_cycles / clock_hz)"
            f" + {2 * own.element.bytes} * {BLOCK} * batch * {others} / dram_rate)",
            "s", f"besides products: of each block its launch, and a product's two, for all systems of a batch; assumed: {own.systems * own.together} "
            "right-hand sides an SM",
        ),
    )


class Trsm(OneTriangle):
    """C becomes X where A X = alpha C, or X B = alpha C.

    Args:
        uplo: which triangle there is, as the formula reads the operand: of A^T, where the layout stores A transposed.
        side: `left` for A, `right` for B.
        diag: `unit` for a diagonal of ones, which is not read.
        type: of the elements. Of complex ones it is what `OfComplex` knows of a solve, in elements.
        systems: right-hand sides of a thread block, in place of the usual number.
    """

    name = "trsm"
    vendor_share, vendor_together = 0.5, 2.2
    few = ((1, 0.2), (4, 0.35))
    """What `vendor_few` is of systems on the right."""
    chains = {"f32": 2.7e-7, "f64": 3.8e-7, "c64": 4.5e-7, "c128": 4.8e-7}
    """Seconds by which each unknown of the vendor's routine waits for the one before, by elements, in the order of their numbers."""
    meaning = "a triangular system, whose solution takes the place of its right-hand sides"
    solves = True

    def __init__(self, uplo: str = LOWER, side: str = LEFT, diag: str = NONUNIT, type: str = F32.name, systems: str = ""):
        more = {"type": "" if type == F32.name else type, "systems": systems}
        super().__init__({"uplo": uplo, "side": side, "diag": diag} | {key: value for key, value in more.items() if value})
        self.unit, self.own, self.vendor_chain = diag == UNIT, Substitution(ELEMENTS[type], int(systems or 0)), self.chains[type]
        self.vendor_few = () if self.left else self.few
        self.layouts = ("nn", "tn") if self.left else ("nn", "nt")  # the other operand is C
        self.beside = "n" if self.left else "m"
        of = f"the {uplo} triangle of {self.operand.upper()}{', whose diagonal is 1' if self.unit else ''}"
        self.formula = f"X in place of C, where {'A X' if self.left else 'X B'} = alpha C, of {of}"
        columns = "N" if self.own.element.reals == 1 else f"(N / {self.own.element.reals})"
        self.equations = equations(*(("M", columns) if self.left else (columns, "M")), self.own)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.options, self.batched)

    def of(self, problem: Any) -> Kind:
        found = super().of(problem)
        return found._of(problem.type)

    def on(self, gpu: Gpu, problem: Any) -> Kind:
        """Of FP32 on Hopper, where it was measured: as few right-hand sides a thread block as one block on each SM takes together, or 64."""
        if self.own.element != F32 or gpu.arch_number != 90:
            return self
        others = (problem.n if self.left else problem.m) * self.products(problem)
        systems = next((one for one in (16, 32) if -(-others // one) <= gpu.rates.sms), 64)
        if systems == self.own.systems:
            return self
        found = Trsm(*(self.options[key] for key in ("uplo", "side", "diag")), F32.name, str(systems))
        return found.strided() if self.batched else found

    def _of(self, type: str) -> Trsm:
        return Trsm(*(self.options[key] for key in ("uplo", "side", "diag")), type)

    def of_complex(self, type: str) -> Kind:
        """With the conjugated triangle, too."""
        found = self._of(type)
        found.layouts = (*self.layouts, "cn" if self.left else "nc")
        return found

    def steps(self, size: int) -> Iterator[tuple[int, int, int]]:
        """(first, known, end) by how many unknowns come before, of the products in order: unknowns [first, known) serve those of [known, end). Before each,
        the block that ends at `known` is solved; after the last, the rest."""
        for block in range(1, -(-size // BLOCK)):
            count = block & -block
            yield (block - count) * BLOCK, block * BLOCK, min(size, (block + count) * BLOCK)

    def rounds(self, m: int, n: int, k: int, alpha: complex, beta: float, contiguous: bool) -> list[Round]:
        size, others = (m, n) if self.left else (n, m)
        if not others:
            return []

        def at(before: int, end: int) -> int:
            """Where the unknowns [before, end) of the order in which they are solved begin in memory."""
            return before if self.below else size - end

        def square(row: int, kk: int) -> tuple[str, int, int]:
            return self.operand, *((row, kk) if contiguous else (kk, row))

        def part(first: int) -> tuple[str, int, int]:
            return ("c", first, 0) if self.left else ("c", 0, first)

        found = []

        def solve(begin: int, end: int) -> None:
            first = at(begin, end)
            sizes = (end - begin, others) if self.left else (others, end - begin)
            found.append(Round(True, *sizes, end - begin, 0.0 if alpha == 0 else 1.0 if begin else alpha, 0.0, {
                self.operand: square(first, first), "c": part(first),
            }))

        solved = 0
        for first, known, end in self.steps(size):
            solve(solved, known)
            solved = known
            if alpha == 0:  # neither operand is to be read
                continue
            rows, kk = at(known, end), at(first, known)
            sizes = (end - known, others) if self.left else (others, end - known)
            # What no product has served yet is still the call's C.
            found.append(Round(False, *sizes, known - first, -1.0, 1.0 if first else alpha, {
                self.operand: square(rows, kk), "b" if self.left else "a": part(kk), "c": part(rows),
            }))
        if size:
            solve(solved, size)
        return found

    def largest(self, m: int, n: int) -> tuple[int, int, int]:
        size, others = (m, n) if self.left else (n, m)
        sides = [(end - known, known - first) for first, known, end in self.steps(size)]
        if not sides or not others:
            return 0, 0, 0
        unknowns, k = (max(side) for side in zip(*sides))
        return (unknowns, others, k) if self.left else (others, unknowns, k)

    def whole(self, x: np.ndarray) -> np.ndarray:
        return triangle(x, self.below, self.unit)

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        raise NotImplementedError("the products of a solve are judged as those of GEMM")


def _again(options: Mapping[str, str], batched: bool) -> Kind:
    found = Trsm(**options)
    return found.strided() if batched else found


TRSM = Trsm()
