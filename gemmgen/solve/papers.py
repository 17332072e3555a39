"""The papers' own optimisations as a choice of the tile: `[solve] model = "egemm"` or `"legemm"`.

Each gives the tiles that it allows, the best by its own objective first; the solver takes the first for which there is a kernel, and decides the rest
by the predicted time. What a paper leaves open is settled here once, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from gemmgen.catalog.fragment import Fragment
from gemmgen.catalog.gpu import Gpu
from gemmgen.catalog.scheme import Scheme
from gemmgen.designs import Choices, Design, Hints
from gemmgen.designs.portable.design import CACHED_FRAGMENTS
from gemmgen.errors import InfeasibleSpec
from gemmgen.kinds import GEMM
from gemmgen.model import papers
from gemmgen.model.equation import solved
from gemmgen.plan import Plan
from gemmgen.spec import LoadedSpec

TIME = "time"
TABLE_3 = {"t4": {"shared_bytes": 64 * 1024, "register_bytes": 256 * 1024, "tflops": 2.0**6, "l2_gb_per_s": 750.0}}
"""EGEMM-TC's Table 3, what its solver was given, by GPU."""


@dataclass(frozen=True)
class Tile:
    """A tile that a paper's model allows.

    Attributes:
        objective: what the model makes as large as possible.
        values: what its equations say of the tile, by symbol.
        fixed: decisions that come with it where the spec leaves them open, by name.
    """

    block: tuple[int, int, int]
    warp: tuple[int, int, int]
    objective: float
    values: Mapping[str, float]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json`."""
        return {"block": list(self.block), "warp": list(self.warp), "objective": self.objective, "values": dict(self.values)}


@dataclass(frozen=True)
class Model:
    """A paper's model of a tile, with the values that it is given.

    Attributes:
        name: as `[solve] model` says it; title: the paper's name and its equations.
        objective: what is made as large as possible, in words.
        given: the values, by symbol, each with where it comes from.
        tiles: those that it allows, the best first.
    """

    name: str
    title: str
    objective: str
    given: Mapping[str, tuple[float, str]]
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class Passed:
    """A tile that the model preferred and no kernel has.

    Attributes:
        why: the problem, in words.
    """

    tile: Tile
    why: str


class Asking(Protocol):
    """A request (`gemmgen/solve/request.py`), as far as a paper's model looks at it."""

    loaded: LoadedSpec
    scheme: Scheme
    gpu: Gpu
    fragment: Fragment
    design: Design
    choices: Choices

    @property
    def hints(self) -> Hints: ...


def model_of(request: Asking) -> Model | None:
    """The model that a spec asks for, on the request's GPU and sizes; None where it asks for the predicted time.

    Raises:
        InfeasibleSpec: the model is not about such words, kernels or GPUs, or it allows no tile.
    """
    asked = request.loaded.spec.solve.model
    if asked == TIME:
        return None
    _refuse(request, asked)
    found = _egemm(request) if asked == "egemm" else _legemm(request)
    if not found.tiles:
        given = ", ".join(f"{name} = {value:g}" for name, (value, _) in found.given.items())
        raise InfeasibleSpec(
            f"{request.loaded.place}: [solve] model", f"{found.title} allow no tile", got=given,
            needs="a tile of powers of two within the budgets" + (", with eq. 8's third line: T_mem1 + T_mem2 <= T_comp" if asked == "egemm" else ""),
            remedy=f"other values in [solve.{asked}], a [tile] of your own, or model = \"time\"",
        )
    return found


WORDS = {"egemm": (2, 4, 1), "legemm": (2, 3, 2)}
"""Words of two bytes of an element, their products, and the sums these are added to, which the equations count."""


def _refuse(request: Asking, asked: str) -> None:
    place, scheme = request.loaded.place, request.scheme
    if not (request.design.has(CACHED_FRAGMENTS) and request.design.computes(GEMM)):
        raise InfeasibleSpec(
            f"{place}: [solve] model", f"the model is not about kernels of policy {request.fragment.policy} and design {request.design.name}", got=asked,
            needs="kernels whose warps take fragments from shared memory into registers: design portable, of a matrix unit",
            remedy='a scheme of several words with policy = "auto", or model = "time"',
        )
    words, products, sums = WORDS[asked]
    has = (len(scheme.words), len(scheme.products), len(scheme.accumulators))
    if has != (words, products, sums) or scheme.word_bytes != 2 or not scheme.alike:
        raise InfeasibleSpec(
            f"{place}: [split] scheme", f"model = {asked} counts {words} words of two bytes, {products} products and {sums} sum{'s' * (sums > 1)}",
            got=f"{scheme.name}: {has[0]} words, {has[1]} products, {has[2]} sum{'s' * (has[2] > 1)}", needs=f"a scheme like {asked}",
            remedy=f'scheme = "{asked}", or model = "time"',
        )
    if asked == "egemm" and (request.gpu.maker.tiles_held or request.gpu.limits.warp_size != 32):
        raise InfeasibleSpec(
            f"{place}: [solve] model", f"EGEMM-TC's eqs. 5 to 7 count instructions that {request.gpu.name} does not have", got=asked,
            needs="HMMA, LDG, STS and LDS of warps of 32 threads", has=request.gpu.arch, remedy='model = "legemm" or "time", or another gpu',
        )


def _allowed(request: Asking, block: tuple[int, int, int], warp: tuple[int, int, int]) -> bool:
    """Whether what the spec fixes of tiles leaves this one."""
    choices = request.choices
    return choices["block"] in (None, block) and choices["warp"] in (None, warp)


def _warps(block: tuple[int, int], count: int, unit: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """m, n of the warps of which a block has so many."""
    for rows in (1, 2, 4, 8, 16, 32):
        columns = count // rows
        if columns and rows * columns == count and block[0] % (rows * unit[0]) == 0 and block[1] % (columns * unit[1]) == 0:
            yield block[0] // rows, block[1] // columns


def _unit(request: Asking) -> tuple[int, int]:
    fm, fn, _ = request.fragment.shape
    return fm, fn * request.fragment.interface.fetched_together


def _depth(request: Asking) -> int:
    return request.fragment.shape[2]


def _budgets(request: Asking, own: Any) -> dict[str, tuple[float, str]]:
    limits, name = request.gpu.limits, request.gpu.name
    row = {"register_bytes": 4 * limits.registers_per_sm, "shared_bytes": limits.shared_bytes_per_block}
    return {key: (value, f"{name}'s row") if getattr(own, key) is None else (getattr(own, key), "the spec") for key, value in row.items()}


# ---- EGEMM-TC, section 6


def latencies(gpu: Gpu) -> dict[str, tuple[float, str]]:
    """Eqs. 5 to 7's cycles: EGEMM-TC prints none, so they are what the rates of the GPU's row come to, an instruction after another.

    A load of L2 on a GPU of Table 3 is by that table's speed.
    """
    rates, row, lanes = gpu.rates, f"{gpu.name}'s row", gpu.limits.warp_size
    l2, source = gpu.measured.l2_bytes_per_clock.value, row
    if (table := TABLE_3.get(gpu.name)) is not None:
        l2, source = table["l2_gb_per_s"] * 1e9 / (rates.sms * rates.boost_mhz * 1e6), "EGEMM-TC's Table 3"
    return {
        "T_HMMA": (16 * 8 * 8 / (rates.tensor_fma_per_clock["f16"] / 4), row), "T_LDG128": (16 * lanes / l2, source),
        "T_STS128": (16 * lanes / rates.shared_bytes_per_clock, row), "T_LDS32": (4 * lanes / rates.shared_bytes_per_clock, row),
    }


TIMES = tuple(one for one in papers.EGEMM if one.symbol in ("ratio", "T_comp", "T_mem1", "T_mem2", "register_bytes", "egemm_shared_bytes"))
SECTION_5 = {"where": "prepass", "loads": "spread", "stages": 1, "fragment_buffers": 1, "rows": "padded"}
"""The kernel whose words eq. 2 loads and whose shared memory eq. 8 counts: one padded stage, whose next one waits in registers."""


def _egemm(request: Asking) -> Model:
    """Eq. 8: of the blocks within both budgets the one with the largest eq. 4, whose warps hide memory; of those the deepest, as fewer barriers come with it.

    A block has Table 4's eight warps, and of their shapes the one for which eq. 7 is least: "we aim to increase (w_m, w_n)". A warp's k is the instruction's.
    """
    own = request.loaded.spec.solve.egemm
    given = _budgets(request, own) | {
        name: value if getattr(own, name) is None else (getattr(own, name), "the spec") for name, value in latencies(request.gpu).items()
    }
    known = {name: value for name, (value, _) in given.items() if name in papers.LATENCIES}
    tiles = []
    for ratio, block in papers.egemm_blocks(int(given["register_bytes"][0]), int(given["shared_bytes"][0])):
        if block[2] % _depth(request):
            continue
        made = []
        for wm, wn in _warps(block[:2], own.warps, _unit(request)):
            warp = (wm, wn, _depth(request))
            values = solved(TIMES, known | dict(zip(("BM", "BN", "BK", "WM", "WN", "WK"), (*block, *warp))))
            if papers.EGEMM_BALANCE.holds(values) and _allowed(request, block, warp):
                made.append(Tile(block, warp, ratio, {one.symbol: float(values[one.symbol]) for one in TIMES}, SECTION_5))
        tiles += sorted(made, key=lambda tile: (tile.values["T_mem2"], -tile.warp[0]))[:1]
    return Model("egemm", "EGEMM-TC's eqs. 4 to 8", "eq. 4, FLOP a byte of global memory", given, tuple(tiles))


# ---- LE-GEMM, section 4.2


WORK = ("T_TLP", "T_ratio", "Work_DL", "Work_CP")
SECTION_4 = {"stages": 2}
"""The pipeline of its section 4.3: two buffers in shared memory."""


def _legemm(request: Asking) -> Model:
    """Eqs. 12 and 15 pull apart: of the front, the tile with the largest eq. 15 for which eq. 12 has enough threads at work, as BatchGEMM's Algorithm 1 has it.

    T_K is the largest power of two that leaves room for both buffers, of two instructions' k at least, as fragments are fetched a step ahead (section 4.3).
    Every block has `threads` threads, in warps as square as they can be.
    """
    own, sizes = request.loaded.spec.solve.legemm, request.hints
    lanes, depth = request.gpu.limits.warp_size, _depth(request)
    given = _budgets(request, own) | {
        "Work_num": (own.threads, "as BatchGEMM has them" if own.threads == type(own).model_fields["threads"].default else "the spec"),
        "T_threads": (lanes, f"{request.gpu.name}'s row"),
        "threshold": (request.gpu.batch_threshold, f"{request.gpu.name}'s row") if own.threshold is None else (own.threshold, "the spec"),
    }
    shared, enough = given["shared_bytes"][0], given["threshold"][0]
    front = papers.legemm_front(int(given["register_bytes"][0]), max(1, sizes.m), max(1, sizes.n), depth, len(request.scheme.accumulators),
                                threads=own.threads, lanes=lanes)
    tiles = []
    for row in sorted(front, key=lambda row: (row["tlp"] < enough, -row["ratio"] if row["tlp"] >= enough else -row["tlp"], row["BM"])):
        bm, bn = int(row["BM"]), int(row["BN"])
        depths = [bk for bk in papers.DEPTHS if bk % depth == 0 and bk >= 2 * depth and 2 * 2 * 2 * (bm + bn) * bk <= shared]
        shapes = sorted(_warps((bm, bn), own.threads // lanes, _unit(request)), key=lambda warp: (warp[0] + warp[1], -warp[0]))
        for bk in depths[-1:]:
            known = {"M": max(1, sizes.m), "N": max(1, sizes.n), "BM": bm, "BN": bn, "BK": bk, "threads": own.threads, "warp_size": lanes, "T_threads": lanes,
                     "Work_num": own.threads}
            values = {name: float(_equations()[name].value(known)) for name in WORK}
            tiles += [
                Tile((bm, bn, bk), (*warp, bk), row["ratio"], values, SECTION_4)
                for warp in shapes[:1] if _allowed(request, (bm, bn, bk), (*warp, bk))
            ]
    objective = f"eq. 15, FLOP a byte of global memory, where eq. 12 has {int(enough)} threads at work"
    return Model("legemm", "LE-GEMM's eqs. 12 to 17", objective, given, tuple(tiles))


@cache
def _equations() -> Mapping[str, Any]:
    return {one.symbol: one for one in (*papers.EGEMM, *papers.LE_GEMM)}


def valued(model: Model, plan: Plan) -> dict[str, float]:
    """The model's own figures of any plan, by symbol, with the values that the model was given. A warp fetches an instruction's k at a time."""
    own = {"Work_num": plan.threads, "WK": plan.fragment.shape[2]}
    known = papers.numbers(plan.model) | {name: value for name, (value, _) in model.given.items()} | own
    names = [one.symbol for one in TIMES] if model.name == "egemm" else WORK
    return {name: float(_equations()[name].value(known)) for name in names}
