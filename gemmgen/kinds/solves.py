"""Triangular systems: BLAS's trsm.

The unknowns are solved block by block. A block is solved by substitution in FP32, as BLAS does it, so that a solve is as stable; what a block is for the
unknowns behind it is a product, by any scheme's kernels. Products are as large as they can be: behind block i, 2^t blocks serve the next 2^t, where 2^t is
the largest power of two that divides i + 1. So each element of the triangle is split once, and half of all multiplications are in one product. Systems of a
strided batch are solved together: each launch is for the same part of all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gemmgen.catalog.gpu import Gpu
from gemmgen.interface import Round
from gemmgen.kinds.kind import Problem
from gemmgen.kinds.triangles import LOWER
from gemmgen.kinds.triangular import LEFT, NONUNIT, UNIT, OneTriangle, triangle
from gemmgen.model.equation import Equation, Numbers

BLOCK = 256
"""Unknowns of a block."""
PART = 64
"""Unknowns that are substituted one by one; the rest of a block is products in FP32."""
SYSTEMS = 32
"""Right-hand sides of a thread block, one a lane while unknowns are substituted."""
THREADS = 256
SHARED_BYTES = 4 * (BLOCK * SYSTEMS + PART * PART + PART)
"""A block's unknowns, a part of the triangle, and one over each element of its diagonal."""


UNKNOWN_CYCLES = 207
"""Cycles from one unknown of a block to the next, all else of a block among them: an H200 launches and solves a block in 33.7 us for 2048 and for 4096
right-hand sides (docs/results/level3.md). Of other GPUs assumed."""
_PARTS = BLOCK // PART
SUBSTITUTION = Equation(
    "K11", "substitution_cycles", f"{BLOCK} * {UNKNOWN_CYCLES} + {_PARTS * (_PARTS - 1) // 2} * {PART * PART * SYSTEMS} / f32_fma_per_clock",
    "cycles a block of unknowns and thread block", "one unknown after another, and products with the parts before in FP32",
)


def alone(gpu: Gpu) -> bool:
    """Whether the compiler is told that one block of the solving kernel on an SM is enough.

    NVRTC 13.5 leaves room for two otherwise on all NVIDIA GPUs from sm_86 on but Hopper, and spills.
    """
    return gpu.maker.platform == "cuda" and gpu.arch_number >= 86 and gpu.arch_number != 90


def opaque(gpu: Gpu) -> bool:
    """Whether the solving kernel hides from the compiler which elements of the triangle and which unknowns a thread reads.

    clang computes their addresses once for all parts otherwise, and spills up to 41 registers on RDNA.
    """
    return gpu.maker.platform == "hip" and gpu.limits.warp_size == 32


def block_seconds(numbers: Numbers) -> tuple[float, float, float]:
    """What a block of unknowns takes, as K12 has it: (seconds of its launch, of a wave of thread blocks, of a right-hand side in device memory).

    Args:
        numbers: a GPU's rates by their symbols.
    """
    return numbers["launch_seconds"], SUBSTITUTION.value(numbers) / numbers["clock_hz"], 8 * BLOCK / numbers["dram_rate"]


def equations(size: str, others: str) -> tuple[Equation, ...]:
    """Of the time: what a solve has besides its products.

    Args:
        size, others: the symbols of how many unknowns and right-hand sides there are.
    """
    return (
        Equation("K10", "solved_blocks", f"ceil({size} / {BLOCK})", "blocks of unknowns", "solved one after the other"),
        SUBSTITUTION,
        Equation(
            "K12", "solve_seconds",
            f"solved_blocks * (3 * launch_seconds + ceil(batch * ceil({others} / {SYSTEMS}) / sms) * (substitution_cycles / clock_hz)"
            f" + 8 * {BLOCK} * batch * {others} / dram_rate)",
            "s", "besides products: of each block its launch, and a product's two, for all systems of a batch; assumed: a thread block an SM",
        ),
    )


class Trsm(OneTriangle):
    """C becomes X where A X = alpha C, or X B = alpha C.

    Args:
        uplo: which triangle there is, as the formula reads the operand: of A^T, where the layout stores A transposed.
        side: `left` for A, `right` for B.
        diag: `unit` for a diagonal of ones, which is not read.
    """

    name = "trsm"
    vendor_share, vendor_chain, vendor_together = 0.5, 2.7e-7, 2.2
    meaning = "a triangular system, whose solution takes the place of its right-hand sides"
    solves = True

    def __init__(self, uplo: str = LOWER, side: str = LEFT, diag: str = NONUNIT):
        super().__init__({"uplo": uplo, "side": side, "diag": diag})
        self.unit = diag == UNIT
        self.layouts = ("nn", "tn") if self.left else ("nn", "nt")  # the other operand is C
        self.beside = "n" if self.left else "m"
        of = f"the {uplo} triangle of {self.operand.upper()}{', whose diagonal is 1' if self.unit else ''}"
        self.formula = f"X in place of C, where {'A X' if self.left else 'X B'} = alpha C, of {of}"
        self.equations = equations(*("MN" if self.left else "NM"))

    def steps(self, size: int) -> Iterator[tuple[int, int, int]]:
        """(first, known, end) by how many unknowns come before, of the products in order: unknowns [first, known) serve those of [known, end). Before each,
        the block that ends at `known` is solved; after the last, the rest."""
        for block in range(1, -(-size // BLOCK)):
            count = block & -block
            yield (block - count) * BLOCK, block * BLOCK, min(size, (block + count) * BLOCK)

    def rounds(self, m: int, n: int, k: int, alpha: float, beta: float, contiguous: bool) -> list[Round]:
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


TRSM = Trsm()
