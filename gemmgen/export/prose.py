"""What header, README, manifest and example say of a kernel: its error's bounds, its range, its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

import numpy as np

from gemmgen.abi import FALLBACK
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import Family, ResidueWords, Runs, Tiles
from gemmgen.kinds import solves
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.spec import MAX_EXTENT
from gemmgen.verify.bound import SAFETY, Bound, U, bound, lost, underflow
from gemmgen.verify.metrics import exact

LARGEST_EXTENT = MAX_EXTENT - 4096
"""Rounding up to a tile, of at most 4096, must stay a 32-bit integer."""
BOUND_K = (128, 1024, 4096, 16384, 65536)
"""The k for which header and manifest tell the bounds."""
EXAMPLE_SIZE = (300, 200, 500)  # no multiple of any tile
EXAMPLE_SYSTEM = (600, 37)
"""Unknowns, of three blocks, and right-hand sides of the example of a kind that solves."""


def residual(plan: Plan) -> str:
    """What the bound is of, of a kind that solves."""
    return "alpha C - A X" if plan.kind.left else "alpha C - X B"


def example_size(plan: Plan) -> tuple[int, int, int]:
    """M, N and K of the example's product, in elements."""
    m, n, k = EXAMPLE_SIZE
    found = {"m": m, "n": n // plan.kind.reals, "k": k // plan.kind.reals}
    m, n, k = (found[plan.kind.aliases.get(extent, extent)] for extent in "mnk")
    return m, n, k


# ---- limits


def largest_grid(plan: Plan, source: Source) -> tuple[int, str]:
    """Blocks that every launch may have, and the limit behind that in words."""
    return plan.gpu.maker.largest_grid(max(launch.threads for launch in source.launches))


def stored(plan: Plan) -> dict[str, dict[str, str]]:
    """How the caller's A and B lie in memory."""
    index = {"m": "i", "n": "j", "k": "k"}

    def one(name: str, rows: str, columns: str, transposed: bool) -> dict[str, str]:
        if transposed:
            rows, columns = columns, rows
        told = f"row {index[rows]} at {name} + {index[rows]} * ld{name}"
        return {"rows": rows, "columns": columns, "told": told + ", transposed" * transposed}

    return {"a": one("a", "m", "k", plan.layout[0] == "t"), "b": one("b", "k", "n", plan.layout[1] == "t")}


# ---- accuracy


def rounded_up(x: float) -> float:
    """Three significant digits, never less than x."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 2)
    return float(f"{math.ceil(x / unit * (1 - 1e-12)) * unit:.2e}")


def on(plan: Plan, archs: Sequence[str]) -> list[Plan]:
    """The plan on a GPU of each further architecture, whose matrix unit may err otherwise; itself first."""
    gpus = {gpu.arch: gpu for gpu in reversed(GPUS.rows())}
    return [plan, *(replace(plan, gpu=gpus[arch]) for arch in archs if arch != plan.arch)]


def _computing(plan: Plan) -> list[Plan]:
    """The plan, and its fallback's: an element of C is one's or the other's."""
    return [plan, *([plan.fallback] if plan.fallback else [])]


def _on_all(plan: Plan, archs: Sequence[str]) -> list[Plan]:
    """Those on a GPU of each architecture; a fallback's own target may be another than the plan's."""
    return [one for each in _computing(plan) for one in on(each, [arch for arch in archs if arch != plan.arch])]


def voiding(plan: Plan) -> list[str]:
    """The counters of the status that have to be zero where the bounds hold: those of what words cannot hold, of the fallback's words, too.

    Elements that integer words are too coarse for are counted as lossy, and within the bounds: these are relative to the largest of a row.
    """
    return [
        f"{prefix}{x}_{kind}" for prefix, one in zip(("", f"{FALLBACK}_"), _computing(plan)) for x in "ab"
        for kind in (("nonfinite",) if one.scheme.exact or one.scheme.family.by_row else ("lossy", "overflow", "nonfinite"))
    ]


def promise(plan: Plan) -> str:
    """When the bounds hold, as a clause."""
    *others, last = voiding(plan)
    if plan.kind.solves:
        reach = "|A||X|" if plan.kind.left else "|X||B|"
        return f"{reach} is below 2^{plan.type.exponents[2]} and the counters {', '.join(others)} and {last} of the status are zero"
    stored = "" if plan.output.is_usual else f", C is in the range of {plan.output.title}"
    return f"alpha is 1, beta is 0, |A||B| is below 2^{plan.type.exponents[2]}{stored} and the counters {', '.join(others)} and {last} of the status are zero"


def coefficients(plan: Plan, k: int, archs: Sequence[str] = ()) -> Bound:
    """The bound's coefficients, the largest of all architectures, and of the fallback where there is one; they depend on no data."""
    nothing, k = np.zeros((1, 1)), k * (1 + plan.kind.sums_two)
    found = [bound(one, np.zeros((1, k)), np.zeros((k, 1)), nothing) for one in _on_all(plan, archs)]
    fields = ("relative_frobenius", "scaled", "coherent", "random")
    largest = Bound(**{field: max(getattr(one, field) for one in found) for field in fields})
    if plan.kind.exchanged:  # which rounds C twice
        largest = replace(largest, random=math.hypot(largest.random, plan.type.roundoff), scaled=largest.scaled + plan.type.roundoff)
    if not plan.kind.solves:
        return largest
    # Of residuals, which substitution adds to, as `gemmgen.verify.solves` has it; of complex elements both parts err.
    u, parts, k = plan.type.roundoff, plan.kind.reals, k // plan.kind.reals
    terms, served = min(k, solves.BLOCK), max(k // solves.BLOCK, 1).bit_length()
    rounded = terms + 4 + 3 * served if parts == 1 else 2 * terms + 16 + 6 * served
    return replace(largest, random=math.hypot(largest.random, u * math.sqrt(parts * terms)), scaled=math.sqrt(parts) * (largest.scaled + u * rounded))


def bounds(plan: Plan, archs: Sequence[str] = ()) -> list[dict[str, float]]:
    rows = []
    for k in BOUND_K:
        at = coefficients(plan, k * plan.kind.reals, archs)
        rows.append({
            "k": k,
            "worst_case": rounded_up(at.scaled),
            "both_signs": rounded_up(SAFETY * at.random),
            "one_sign": rounded_up(SAFETY * max(at.coherent, at.random / math.sqrt(k * plan.kind.reals))),
        })
    return rows


def flushing(plan: Plan, archs: Sequence[str]) -> list[str]:
    """The architectures whose matrix units take subnormal words for zero."""
    return [one.arch for one in on(plan, archs) if one.launches.flushes_words]


def measure(plan: Plan) -> str:
    """What the deterministic bound is relative to; of integers, whose last place a row shares, to the largest elements or the norms."""
    if plan.kind.solves:
        of_product = _measure(plan.scheme.family)[1:-1]
        return f"({of_product.replace('B' if plan.kind.left else 'A', 'X')} + |alpha C|)"
    return _measure(plan.scheme.family)


@singledispatch
def _measure(family: Family) -> str:
    return "(k max|row of A| max|column of B|)" if family.by_row else "(|A||B|)"


@_measure.register
def _(family: Tiles) -> str:
    return f"(the sum over tiles of {family.tile_k} k of {family.tile_k} max|row of A| max|column of B|)"


@_measure.register
def _(family: ResidueWords) -> str:
    return "(norm of the row of A * norm of the column of B)"


@singledispatch
def _scaled(family: Family) -> list[str]:
    """How rows are scaled, as lines; none where they are not."""
    if family.scheme.normalize == "none":
        return []
    return ["Each row of A and column of B is scaled by the power of two that brings its largest",
            "element near that, so nothing overflows."]


@_scaled.register
def _(family: Tiles) -> list[str]:
    return [f"Each {family.tile_k} k of a row of A and column of B are scaled by the power of two that brings the largest",
            "element near that, so nothing overflows."]


@_scaled.register
def _(family: Runs) -> list[str]:
    return [f"Each run of {family.run_k} k of a row of A and column of B is scaled by the power of two that brings",
            "its largest element near that, so nothing overflows. Sums go on from run to run in units that hold them."]


@_scaled.register
def _(family: ResidueWords) -> list[str]:
    return ["Each row of A and column of B is scaled by a factor that makes the Euclidean norm of its",
            f"integers about {family.residues.target:.3g}, so nothing overflows."]


@singledispatch
def _too_small(family: Family) -> list[str]:
    """Which elements integer words hold no part of, as lines; none where no word is an integer."""
    if not family.by_row:
        return []
    return ["Elements that are not 0 and at most 2^%d of the largest one's power of two count as lossy: no word holds a"
            % (family.scheme.precision.lowest() - family.scheme.target_exponent), "part of them. The bounds hold with them as well."]


@_too_small.register
def _(family: ResidueWords) -> list[str]:
    return ["Elements that are not 0 and less than about 2^-%d of that norm count as lossy: their integer is 0. The bounds" % family.scheme.precision.bits,
            "hold with them as well."]


def words(plan: Plan) -> str:
    """How many words of which type, as a clause that the leading one's largest value goes on."""
    scheme = plan.scheme
    types = [word.type for word in scheme.words_of("a", packed_alike=True)]
    if scheme.uniform and scheme.alike:
        return f"{len(types)} word{'s' if len(types) > 1 else ''} of {scheme.leading}"
    told = " and ".join(f"{'words' if scheme.alike else 'A as words'} of {', '.join(types)}" if operand == "a"
                        else f"B as words of {', '.join(word.type for word in scheme.words_of('b'))}" for operand in ("a", "b")[: 1 if scheme.alike else 2])
    return f"{told}, the leading one {scheme.leading}"


def range_text(plan: Plan, archs: Sequence[str]) -> str:
    """What happens to elements beyond the words' range, as lines of a comment."""
    first = plan.scheme.words_of("a")[0]
    saturates = first.rounding != "nearest_even"
    lines = []
    if plan.scheme.exact:
        lines += ["That is every FP32 number, subnormal ones too: none is rounded, lossy and overflow stay 0."]
    elif scaled := _scaled(plan.scheme.family):
        lines += scaled
    elif saturates:
        lines += ["A larger one counts as overflow. Its word saturates, so the elements of C that it",
                  "touches may be FINITE AND WRONG."]
    else:
        lines += ["A larger one counts as overflow, and its word is Inf."]
    if plan.special == "exact":
        lines += [f"Elements of A B that come out as Inf or NaN are computed again by an {plan.type.title} dot product",
                  "and count as repaired; many of them take their time."]
    elif not plan.scheme.exact:
        lines += [f"Elements of A B that come out as Inf or NaN stay so, also where {plan.type.title} had a number."]
    if plan.scheme.family.exact:
        lines += ["A row or column that holds an Inf or a NaN is set aside: what it takes part in is computed so, too." if plan.special == "exact"
                  else "What a row or column that holds an Inf or a NaN takes part in is NaN."]
    lines += _too_small(plan.scheme.family)
    if plan.fallback:
        m, n, _ = plan.block
        lines += [f"Tiles of C of {m} x {n} in whose rows of A or columns of B a few elements stand out are computed by",
                  f"{plan.fallback.scheme.name} instead, within the larger of both bounds. They count as fallen, and what its words cannot hold",
                  "as fallback_a_lossy and the like, once for each of its tiles."]
    if plan.scheme.exact or plan.scheme.family.by_row:
        return "\n".join(f" * {line}" for line in lines)
    scheme, form = plan.scheme, first.format
    losing, scaled = flushing(plan, archs), scheme.normalize in ("row", "run")
    lowest, words = scheme.precision.lowest(bool(losing)), "the words"
    if losing:
        lines += [f"The matrix units of {' and '.join(losing)} take subnormal words for zero. What an element loses by that is counted",
                  "with the rest."]
        words = "the words that are multiplied"
    if scaled:
        line = f"run of {scheme.family.run_k} k of a row of A or" if scheme.family.run_k else "row of A or"
        lines += [f"The first bound holds where each element is 0 or at least 2^{lowest - scheme.target_exponent} of the largest of its {line}",
                  "column of B. Smaller ones count as lossy: all below"
                  f" 2^{form.min_exponent - scheme.target_exponent - 1} of that largest one, and those of",
                  f"which {words} leave more than 2^-{scheme.precision.bits}."]
    else:
        others = "" if lowest == form.min_exponent else f", and those of which {words} leave more than 2^-{scheme.precision.bits}"
        lines += [f"The first bound holds where each element is 0 or at least 2^{lowest} in magnitude. Smaller ones count",
                  f"as lossy: all below 2^{form.min_exponent}{others}."]
    return "\n".join(f" * {line}" for line in lines)


def underflow_text(plan: Plan, archs: Sequence[str]) -> str:
    """What an element of C may miss besides, where products, sums or itself leave the normal range of its type."""
    plans = _on_all(plan, archs)
    if not max(underflow(one, 1) for one in plans):
        return f"2^{plan.type.exponents[0]}"
    per = math.ceil(math.log2(max(underflow(one, k) / k for one in plans for k in (1, *BOUND_K))))
    scales = " / (scale of the row * scale of the column)" if plan.scheme.normalize == "row" and not plan.fallback else ""
    return f"2^{plan.type.exponents[0]} + k 2^{per}{scales}"


# ---- the example


def example_losses(plan: Plan, archs: Sequence[str]) -> dict[str, float]:
    """What subnormal words lose of the example's product, relative to it and element by element; 0 where none is lost."""
    losing = [one for one in on(plan, archs) if one.arch in flushing(plan, archs)]
    if not losing:
        return {"lost": 0.0, "most_lost": 0.0}
    a, b = example_matrices(plan) if plan.kind.solves else plan.kind.completed(*example_matrices(plan))
    product, magnitude = exact(a, b), exact(np.abs(a), np.abs(b))
    least = [np.abs(lost(one, a, b, product)) for one in losing]
    return {
        "lost": max(rounded_up(float(np.linalg.norm(one) / np.linalg.norm(product)) or U) for one in least),
        "most_lost": max(rounded_up(float((one / magnitude).max()) or U) for one in least),
    }


def example_matrices(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """[M, K] and [K, N] as the example draws them, both parts of complex ones; a B of words as stored holds multiples of 1/128."""
    m, n, k = example_size(plan)
    of_b = 0 if plan.kind.one_operand else n
    state, drawn = 1, np.empty((k, (m + of_b) * plan.kind.reals), np.float32)
    for index in range(drawn.size):
        state = (state * 1664525 + 1013904223) % 2**32
        drawn.flat[index] = (state >> 8) / 2**23 - 1
    drawn = plan.kind.from_memory(drawn)
    a, b = np.ascontiguousarray(drawn[:, :m].T), np.ascontiguousarray(drawn[:, m:] if of_b else drawn)
    return a, b if plan.inputs.stored_b.is_usual else np.floor(128 * b) / 128
