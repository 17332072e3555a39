"""What a race of batches runs on: lists of products, the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gemmgen.catalog.element import F32


class Product(NamedTuple):
    """C [M, N] = A [M, K] B [K, N]. An extent may be 0."""

    m: int
    n: int
    k: int


@dataclass(frozen=True)
class Cell:
    """One batch of a suite.

    Attributes:
        suite: one of SUITES.
        label: which range, module or shape it is; batches of one label differ in how many products they hold.
        products: in the order that every contender is given them.
        seed: what `numpy.random.default_rng` drew the sizes from; empty where none was drawn.
        bounds: (Max_M(N), Max_K) of the paper's ranges.
    """

    suite: str
    label: str
    products: tuple[Product, ...]
    seed: tuple[int, ...] = ()
    bounds: tuple[int, int] | None = field(default=None)

    @property
    def batch(self) -> int:
        return len(self.products)

    @property
    def flops(self) -> int:
        """The work, sum of 2 M N K: what BatchGEMM eq. 11 divides by the time."""
        return sum(2 * m * n * k for m, n, k in self.products)

    @property
    def moved_bytes(self) -> int:
        """Of A, B and C once each, FP32."""
        return sum(F32.bytes * (m * k + k * n + m * n) for m, n, k in self.products)

    @property
    def name(self) -> str:
        return f"{self.suite} {self.label} x {self.batch}"


MAX_MN, MAX_K, BATCHES = (128, 256, 512), (128, 256, 512, 1024), (8, 16, 32, 64, 128, 256)
LEAST_EXTENT = 16

INCEPTION: tuple[tuple[int, tuple[int, ...], int], ...] = (
    (784, (96, 64, 32, 16), 192), (784, (64, 32, 128), 192), (196, (192, 16, 96, 64), 192), (196, (64, 24, 160), 192), (196, (64, 128, 24), 192),
    (196, (112, 144, 32, 64), 192), (196, (256, 160, 128), 192), (49, (160, 128, 256, 160, 32), 192), (49, (192, 128, 384, 192, 48), 192),
)
"""BatchGEMM's Table 6: (M, N of each product, K) of the nine modules."""


def paper() -> list[Cell]:
    """BatchGEMM's twelve ranges times its batches: M, N uniform in [16, Max_M(N)], K in [16, Max_K]; 72 cells, the seed is (Max_M(N), Max_K, batch)."""
    cells = []
    for most_mn in MAX_MN:
        for most_k in MAX_K:
            for batch in BATCHES:
                seed = (most_mn, most_k, batch)
                draw = np.random.default_rng(seed)
                mn, k = draw.integers(LEAST_EXTENT, most_mn + 1, (batch, 2)), draw.integers(LEAST_EXTENT, most_k + 1, batch)
                products = tuple(Product(int(m), int(n), int(depth)) for (m, n), depth in zip(mn, k))
                cells.append(Cell("paper", f"{most_mn}x{most_k}", products, seed, (most_mn, most_k)))
    return cells


def inception() -> list[Cell]:
    """The modules of INCEPTION, as the paper batches them: a module's products in one call."""
    return [
        Cell("inception", f"module {number}", tuple(Product(m, n, k) for n in widths))
        for number, (m, widths, k) in enumerate(INCEPTION, 1)
    ]


EXPERTS = 64


def routed(seed: tuple[int, ...], tokens: int, law: str) -> list[int]:
    """Tokens that each of EXPERTS gets: a multinomial of equal chances, or of chances that fall as 1 / rank^2 (`zipf`), where some get none."""
    draw = np.random.default_rng(seed)
    weights = np.ones(EXPERTS) if law == "even" else draw.permutation(1.0 / np.arange(1, EXPERTS + 1) ** 2)
    return [int(count) for count in draw.multinomial(tokens, weights / weights.sum())]


MOE = (("even", 4096, 2048, 1408), ("zipf", 4096, 2048, 1408), ("zipf", 4096, 1024, 4096), ("zipf", 4096, 4096, 1024), ("even", 128, 2048, 1408))
"""(law, tokens, K, N) of layers of EXPERTS; the last is of few tokens, as while text is generated."""
RANKS = (8, 16, 32, 64)
ADAPTERS, WIDTH, MOST_TOKENS = 32, 4096, 512


def transformers() -> list[Cell]:
    """Mixtures of experts, and LoRA: x [tokens, d] A [d, r], then [tokens, r] B [r, d], of several adapters at once.

    Adapters get 1 to MOST_TOKENS tokens each; a cell has one rank, or one of RANKS for each adapter (`mixed`).
    """
    cells = []
    for number, (law, tokens, k, n) in enumerate(MOE):
        seed = (EXPERTS, tokens, number)
        cells.append(Cell("transformers", f"experts {law} {tokens}, {k}x{n}", tuple(Product(m, n, k) for m in routed(seed, tokens, law)), seed))
    for number, rank in enumerate((*RANKS, None)):
        seed = (ADAPTERS, MOST_TOKENS, number)
        draw = np.random.default_rng(seed)
        tokens_of, drawn = draw.integers(1, MOST_TOKENS + 1, ADAPTERS), draw.choice(RANKS, ADAPTERS)
        pairs = [(int(m), rank or int(r)) for m, r in zip(tokens_of, drawn)]
        told = f"rank {rank}" if rank else "mixed ranks"
        cells.append(Cell("transformers", f"lora down, {told}", tuple(Product(m, r, WIDTH) for m, r in pairs), seed))
        cells.append(Cell("transformers", f"lora up, {told}", tuple(Product(m, WIDTH, r) for m, r in pairs), seed))
    return cells


EXPERT_TOKENS = (64, 2048)
EXPERT_LAYERS = ((8, 1024, 1024), (8, 4096, 4096), (16, 2048, 2048), (64, 1024, 4096), (64, 4096, 1024))
"""(experts, K, N)."""


def experts() -> list[Cell]:
    """Layers of experts that are busy: M uniform in EXPERT_TOKENS."""
    cells = []
    for number, (count, k, n) in enumerate(EXPERT_LAYERS):
        seed = (count, EXPERT_TOKENS[1], number)
        tokens = np.random.default_rng(seed).integers(EXPERT_TOKENS[0], EXPERT_TOKENS[1] + 1, count)
        cells.append(Cell("experts", f"{k}x{n}", tuple(Product(int(m), n, k) for m in tokens), seed))
    return cells


UNIFORM_EXTENT, UNIFORM_BATCH, UNIFORM_K = 1024, 256, (16, 32, 64, 128, 256, 512, 1024)


def uniform() -> list[Cell]:
    """WMMAe's batches: 256 products of 1024 x k by k x 1024."""
    return [Cell("uniform", f"1024x1024x{k}", (Product(UNIFORM_EXTENT, UNIFORM_EXTENT, k),) * UNIFORM_BATCH) for k in UNIFORM_K]


SUITES: dict[str, Callable[[], list[Cell]]] = {
    "paper": paper, "inception": inception, "transformers": transformers, "experts": experts, "uniform": uniform,
}


def cells(suites: Sequence[str] = tuple(SUITES), batches: Sequence[int] = ()) -> list[Cell]:
    """The cells of some suites, one after the other.

    Args:
        batches: only cells of so many products; empty for all.

    Raises:
        KeyError: a suite is not one of SUITES.
    """
    return [cell for suite in suites for cell in SUITES[suite]() if not batches or cell.batch in batches]
