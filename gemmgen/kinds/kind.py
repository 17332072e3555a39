"""What a kind of product is: its operands, the tiles of C that a launch computes, the k of each, and what the judge compares C with.

A kind is one object. Whoever needs to know something of a kind asks that object; nobody asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gemmgen.catalog.element import Element
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.interface import Line, Parameter, Round
from gemmgen.model.equation import Constraint, Equation

LAYOUTS = ("nn", "nt", "tn", "tt")
"""Of A and of B: row major as they are (n), or transposed (t)."""
COMPLEX_LAYOUTS = (*LAYOUTS, "nc", "cn", "tc", "ct", "cc")
"""The same of complex numbers, which may be transposed and conjugated (c)."""


class Held(Protocol):
    """A batch of products on a device."""

    def records(self) -> Any:
        """[products] of `gemmgen.batch.PROBLEM`."""

    def pointers(self, operand: str) -> Any:
        """[products] addresses of `a`, `b` or `c`."""

    def first(self, operand: str) -> Any:
        """The first product's `a`, `b` or `c`."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of C that a kind computes, and their order.

    C has tiles_m x tiles_n tiles of TILE_M x TILE_N elements: a block's tile, or that of a cluster of blocks. The C text knows these four names and
    GROUP_ROWS, the rows of tiles that are best worked off together.

    Attributes:
        number: (m, n, tile) -> how many tiles are computed of C [m, n]; tile is (TILE_M, TILE_N).
        count: C, the same number, without GROUP_ROWS: the host asks it, too.
        functions: C, `GG_DEVICE Tile tile_at(int place, int tiles_m, int tiles_n)`, the row and the column of tile `place`, and what it calls.
    """

    number: Callable[[int, int, tuple[int, int]], int]
    count: str
    functions: str


@dataclass(frozen=True)
class Problem:
    """Operands of a product.

    Attributes:
        a: [M, K]; b: [K, N], or None where the kind is given no B.
        c: [M, N], or None where beta is 0.
    """

    a: np.ndarray
    b: np.ndarray | None
    c: np.ndarray | None = None


class Kind:
    """One kind of product; these defaults are those of one product C = alpha A B + beta C.

    Attributes:
        name: as `[problem] kind` says it.
        meaning: in words.
        formula: what is computed, as kernels' headers say it.
        batched: whether a launch computes many products.
        uniform: whether all of them have one size, one leading dimension for each operand, and one alpha and beta.
        strides: whether their matrices lie a stride apart; a launch gets the stride.
        indirect: whether arrays of pointers hold the addresses of their matrices.
        fields: the members of `Products` in kernels that look products up, in order.
        layouts: of A and B that there are kernels for.
        aliases: arguments of the call that a kernel's parameters get in place of their own: {"b": "a"} has it read A as B.
        options: what a spec's section [problem] has decided of it, by key: kinds of one name and other options are others.
        twice: whether it sums two products, A^T in place of B and B^T in place of A in the second: as if k were doubled.
        tiles: of C that are computed; None for all.
        k_range: C, the k at which a tile's sum begins, and at which it ends, of the tile's first row `m0` and column `n0`, TILE_M rows high (`Tiles`);
            empty for 0 and for k.
        given: by operand, C, the element at its row (of B its column) `o` and at `kk`, where `at(o, kk)` is what memory holds there; without the
            operands whose elements are what memory holds.
        reads: how these elements are told in kernels' comments.
        longest_last: whether later tiles have more k, so that they are worked off from the last one.
        stored: C, whether the element of C at `row` and `column` is computed; empty where all are.
        whole: C, whether all elements of a block's tile at `m0` and `n0` are; empty where that is not known, as `stored` is asked then.
        mirrored: whether each element is stored a second time, at its column and row.
        reals: real numbers in an element of A, B and C, whose product kernels compute as one of real matrices.
        hermitian: whether C is: beta is a real number then, alpha too unless `exchanged`, and the imaginary parts of the diagonal are 0.
        exchanged: whether it sums two products in two rounds of its launches, of the same kernels: in the second A and B are exchanged, what the first
            stored is added, and of a Hermitian C alpha is conjugated. Counters sum both rounds.
        solves: whether C holds the right-hand sides of a triangular system and gets its solution: a kernel solves blocks of it, and the products that other
            blocks need of one that is known are those of `GEMM`, in rounds.
        counts: C, whether a tile counts what words cannot hold of its rows of A, and whether of its columns of B, where it splits them itself:
            exactly one of the tiles that share them does, and one that has every k. Needed where tiles or k are left out.
        vendor_share: of the seconds of the whole product by the vendor's SGEMM, but for its launch, what the vendor's own routine takes; None where there is
            none. Measured on an H200 (docs/results/level3.md).
        vendor_chain: seconds by which each unknown waits for the one before besides, measured likewise.
        vendor_few: (right-hand sides at most, their part of that wait) of one system on the right, ascending: rows of C, which the vendor has as columns.
            Measured on an H200 of 512 to 8192 unknowns, whatever the elements: 0.15 to 0.24 for one, 0.24 and more for two to four.
        vendor_together: times as long as both the vendor's routine for many such problems takes, measured likewise.
        equations: of the model's traffic and time, each in place of a design's own of the same symbol: T6, `tiles`, where not all are
            computed. Those of new symbols stand before the one that asks for them.
        constraints: what a kernel must satisfy besides those of its design.
    """

    name = "gemm"
    meaning = "one matrix product"
    formula = "C = alpha A B + beta C"
    batched = False
    uniform = True
    strides = False
    indirect = False
    fields: tuple[str, ...] = ()
    layouts: tuple[str, ...] = LAYOUTS
    aliases: Mapping[str, str] = {}
    options: Mapping[str, str] = {}
    twice = False
    tiles: Tiles | None = None
    k_range = ("", "")
    given: Mapping[str, str] = {}
    reads = "of which a triangle is read"
    longest_last = False
    stored = ""
    whole = ""
    mirrored = False
    reals = 1
    hermitian = False
    exchanged = False
    solves = False
    counts = ("", "")
    vendor_share: float | None = None
    vendor_chain = 0.0
    vendor_few: tuple[tuple[int, float], ...] = ()
    vendor_together = 1.0
    equations: tuple[Equation, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        """Kinds have no state but their options and whether they are of a batch, and one that came from another process is the same."""
        return type(self) is type(other) and self._told == other._told

    @property
    def _told(self) -> tuple[Any, ...]:
        return self.name, self.batched, self.indirect, *self.options.items()

    def __hash__(self) -> int:
        return hash(self._told)

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process makes it anew: what a kind computes with does not travel."""
        return _made, (type(self), tuple(self.options.values()), self.batched, self.indirect)

    @property
    def plain(self) -> bool:
        """Whether a product is that of a given A and a given B, of which all elements are computed."""
        return not (self.aliases or self.tiles or any(self.k_range) or self.stored or self.packs or self.solves or self.exchanged)

    @property
    def one_operand(self) -> bool:
        """Whether B is A, read the other way."""
        return self.aliases.get("b") == "a"

    @property
    def shares_words(self) -> bool:
        """Whether A's words, packed, can serve as B's: of complex elements B's are blocks."""
        return self.reals == 1 and (self.one_operand or self.twice)

    @property
    def sums_two(self) -> bool:
        """Whether C sums two products, in one launch or in two rounds."""
        return self.twice or self.exchanged

    @property
    def imaginary(self) -> tuple[str, ...]:
        """The factors that have imaginary parts, of `alpha` and `beta`."""
        return () if self.reals == 1 or self.hermitian and not self.exchanged else ("alpha",) if self.hermitian else ("alpha", "beta")

    @property
    def asked(self) -> str:
        """The kind as `[problem] kind` says it."""
        return self.name

    @property
    def packs(self) -> bool:
        """Whether a pass before the main kernel has to split the operands."""
        return self.twice or bool(self.given)

    # ---- what a spec may ask of it

    def of(self, problem: Any) -> Kind:
        """The kind with what a spec's section [problem] decides of it."""
        return self

    def on(self, gpu: Any, problem: Any) -> Kind:
        """The kind with what a GPU's row decides of it, at the sizes that a spec's section [problem] expects."""
        return self

    def of_complex(self, type: str) -> Kind:
        """The same of complex elements of that name, whose C kernels compute as one of twice as many real columns."""
        return copy(self)

    def of_batch(self, problem: Any) -> Kind:
        """The same of a strided batch, where the section says how many matrices there are and the kind is none of batches itself."""
        if self.batched or self.plain or "matrices" not in problem.model_fields_set or problem.matrices == 1:
            return self
        return self.strided()

    def strided(self) -> Kind:
        """The same of products whose matrices lie a stride apart."""
        found = copy(self)
        found.batched = found.strides = True
        if self.one_operand:
            found.aliases = {**self.aliases, "stride_b": "stride_a"}
        return found

    def listed(self) -> Kind:
        """The same of products of one size, whose addresses arrays of pointers hold."""
        found = copy(self)
        found.batched = found.indirect = True
        return found

    def check(self, problem: Any, place: str) -> None:
        """
        Args:
            problem: a spec's section [problem].

        Raises:
            InfeasibleSpec: there are no kernels of this kind for it.
        """
        for key in ("uplo", "side", "diag"):
            if getattr(problem, key) is not None and key not in self.options:
                raise InfeasibleSpec(
                    f"{place}: [problem] {key}", f"kind {self.name} has no such choice", got=getattr(problem, key), needs="a kind that has it",
                    remedy='leave it out, or kind = "trmm"',
                )
        if problem.layout not in self.layouts:
            raise InfeasibleSpec(
                f"{place}: [problem] layout", f"kind {self.name} has no such layout", got=problem.layout, needs=" or ".join(self.layouts),
                remedy=f'layout = "{self.layouts[0]}"',
            )
        if (self.packs or self.solves) and problem.b != "f32":
            raise InfeasibleSpec(f"{place}: [problem] b", f"kind {self.name} has a B of FP32 alone", got=problem.b, needs="f32", remedy='b = "f32"')
        if self.solves and problem.c != "f32":
            raise InfeasibleSpec(
                f"{place}: [problem] c", f"kind {self.name} solves in C, of the elements' type", got=problem.c, needs="f32", remedy='c = "f32"',
            )
        for extent, other in self.aliases.items():
            if extent in ("m", "n", "k") and getattr(problem, extent) != getattr(problem, other):
                raise InfeasibleSpec(
                    f"{place}: [problem] {extent}", f"is {other} in kind {self.name}", got=getattr(problem, extent), needs=str(getattr(problem, other)),
                    remedy=f"{extent} = {getattr(problem, other)}",
                )
        if "b" in self.aliases and problem.b != "f32":
            raise InfeasibleSpec(
                f"{place}: [problem] b", f"is {self.aliases['b'].upper()} in kind {self.name}", got=problem.b, needs="f32, as A is", remedy='b = "f32"',
            )

    def products(self, problem: Any) -> int:
        """How many products a spec's section [problem] expects of a launch."""
        return problem.matrices if self.batched else 1

    # ---- how operands lie in memory

    def extents(self, m: int, n: int, k: int) -> tuple[int, int, int]:
        """m, n and k of the real product that is computed."""
        return m, n, k

    def stored_layout(self, layout: str) -> str:
        """A layout of `layouts` as kernels have it: whether A and B are transposed."""
        return layout

    def layout_of(self, stored: str) -> str:
        """The layout of `layouts` that kernels have as this one."""
        return stored

    def element_of(self, part: Element) -> Element:
        """The type of elements that consist of such numbers."""
        return part

    def in_memory(self, x: np.ndarray, letter: str) -> np.ndarray:
        """Matrices [..., rows, columns] as the formula reads them, as they lie in memory: of real numbers.

        Args:
            letter: of the layout.
        """
        return x if letter == "n" else np.swapaxes(x, -1, -2)

    def from_memory(self, c: np.ndarray) -> np.ndarray:
        """Matrices C [..., M, N] of what `in_memory` makes of them."""
        return c

    # ---- batches: what a launch gets of its products

    def lines(self, matrices: Sequence[tuple[Parameter, ...]], sizes: tuple[Parameter, ...], batch: Parameter) -> list[Line]:
        """Of a kernel that looks products up, the lines of its signature for them.

        Args:
            matrices: the parameters of A, B and C, each with its leading dimension.
            sizes: m, n, k, alpha and beta.
        """
        raise NotImplementedError

    def arguments(self, problems: np.ndarray, held: Held) -> dict[str, Any]:
        """The call's arguments for these lines, by name.

        Args:
            problems: [products] of `gemmgen.batch.PROBLEM`; where the kind is uniform, all of one size and one placement.
        """
        raise NotImplementedError

    # ---- kinds whose launches run in rounds

    @property
    def in_rounds(self) -> bool:
        """Whether the launches of a call run several times, each for parts of its operands."""
        return self.solves or self.exchanged

    def rounds(self, m: int, n: int, k: int, alpha: complex, beta: float, contiguous: bool) -> list[Round]:
        """The launches of a call with C [m, n], in order. Of a kind that solves k and beta do not count.

        Args:
            m, n, k: of the real product.
            contiguous: whether a triangle's k is, as it is stored (`Operand.k_contiguous`).
        """
        own = Round(False, m, n, k, alpha, beta, {})
        if not (self.exchanged and alpha and k):
            return [own]
        return [own, Round(False, m, n, k, complex(alpha).conjugate() if self.hermitian else alpha, 1.0, {"a": ("b", 0, 0), "b": ("a", 0, 0)})]

    @property
    def between(self) -> Kind:
        """Of a kind that solves, that of its products."""
        return GEMM

    def largest(self, m: int, n: int) -> tuple[int, int, int]:
        """m, n and k that no product of a solve exceeds; zeros where there is none."""
        raise NotImplementedError

    # ---- what the judge compares with

    def completed(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """A [M, K] and B [K, N] whose product is this kind's product of the given operands.

        Raises:
            SpecError: an operand is missing.
        """
        if b is None:
            raise SpecError("b", f"is missing: kind {self.name} multiplies two matrices", needs="[K, N] float32")
        return a, b

    def multiplied(self, a: np.ndarray, b: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The same of the elements themselves: other than `completed` where these are complex.

        Raises:
            SpecError: an operand is missing, or no kernel serves its shape.
        """
        return self.completed(a, b)

    def real_of(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The real A and B whose product kernels compute for a product of such elements [M, K] and [K, N]."""
        return a, b

    def terms(self, a: np.ndarray, b: np.ndarray | None, alpha: complex = 1.0) -> list[tuple[complex, np.ndarray, np.ndarray]]:
        """[(factor, A, B)], the products of elements that C sums, one for each round of its launches.

        Raises:
            SpecError: an operand is missing, or no kernel serves its shape.
        """
        return [(alpha, *self.multiplied(a, b))]

    def embedded(self, a: np.ndarray, b: np.ndarray, c: np.ndarray | None) -> Problem:
        """A product of this kind, part of whose C is A [M, K] B [K, N]: what is known of any product is then known of that part."""
        return Problem(a, b, c)

    def filled(self, a: np.ndarray, b: np.ndarray) -> Problem:
        """A product of this kind of such elements [M, K] and [K, N], every product of which counts: none has a factor that is zero throughout."""
        return self.embedded(a, b, None)

    def part(self, c: np.ndarray, m: int, n: int) -> np.ndarray:
        """The part A B [m, n] of such a product's C."""
        return c

    def summed(self, m0: int, n0: int, tile: tuple[int, int], k: int) -> tuple[int, int]:
        """`k_range` in numbers: the k at which the sum of the tile at row `m0` and column `n0`, [rows, columns] large, begins, and at which it ends."""
        numbers = {"m0": m0, "n0": n0, "TILE_M": tile[0], "TILE_N": tile[1]}
        first, last = (min(k, int(Equation("", "", text, "", "").value(numbers))) if text else usual for text, usual in zip(self.k_range, (0, k)))
        return first, last

    def read(self, c: np.ndarray) -> np.ndarray:
        """What alpha A B is added to, of a C [M, N] whose factor beta is not 0: C itself, or what stands for elements of it that are not read."""
        return c

    def computed(self, m: int, n: int) -> np.ndarray:
        """[m, n], the elements of C that are computed; the others stay as they were."""
        return np.ones((m, n), bool)


def _made(kind: type[Kind], options: tuple[str, ...], batched: bool, indirect: bool) -> Kind:
    found = kind(*options)
    return found if found.batched or not batched else found.listed() if indirect else found.strided()


GEMM = Kind()


def require_plain(kind: Kind, what: str) -> None:
    """
    Raises:
        SpecError: the kind's products are others than those of an A and a B that are given, which `what` does not know.
    """
    if not kind.plain:
        raise SpecError("[problem] kind", f"{what} products of a given A and a given B alone", got=kind.name, needs=GEMM.name, remedy=f'kind = "{GEMM.name}"')
