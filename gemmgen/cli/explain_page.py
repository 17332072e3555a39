"""`gemmgen explain --html`: an explanation as one page that asks for nothing else.

What comes from a spec or a row is escaped: it is text, never markup.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import TYPE_CHECKING, Any

from gemmgen.cli import explain as explaining

if TYPE_CHECKING:
    from gemmgen.plan import Plan
    from gemmgen.solve import Explanation

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 0 auto; padding: 1rem; color: #222; background: #fff; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { font-size: 1.15rem; padding: .6rem .9rem; border-left: 5px solid #009E73; background: #f3f7f5; }
.verdict.loses { border-color: #D55E00; background: #fbf4ef; }
pre, .wide { overflow-x: auto; } pre { background: #f6f6f6; padding: .7rem; font-size: 12px; white-space: pre-wrap; }
.side { display: flex; flex-wrap: wrap; gap: 1rem; }
table { border-collapse: collapse; font-size: 13px; } th, td { padding: .15rem .6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
svg { max-width: 100%; height: auto; } text { font: 12px system-ui, sans-serif; fill: #333; } details { margin: .4rem 0; }
figure { margin: 0; display: inline-block; vertical-align: top; } figcaption { font-size: 13px; max-width: 30rem; }
"""
WIDE, HIGH, MARGIN = 520, 340, 48
"""Pixels of a drawing, and from its edge to its axes."""


def page(e: Explanation, title: str) -> str:
    """The whole of it: verdict, decisions, roofline, tiles, candidates, equations.

    Args:
        title: the spec's name.
    """
    from gemmgen.naming import kernel_name
    from gemmgen.verdict import untold, verdict

    plan, worth = e.plan, verdict(e.plan)
    sentence = worth.sentence if worth else untold(plan)
    parts = [
        f"<h1>{escape(title)}: {escape(kernel_name(plan))}</h1>",
        f'<p class="verdict{" loses" if worth and worth.loses else ""}">{escape(sentence)}</p>',
        f"<pre>{escape(explaining.short(e))}</pre>",
        "<h2>Roofline and tiles</h2>",
        '<div class="side">' + _figure(roofline(e), "Roofline of device memory. The lines are what memory and the units allow; the large point "
                                                      "is the plan, the small ones are other candidates. FLOP are those of the product, once.")
        + _figure(tiles(plan), f"One thread block computes {plan.block[0]} x {plan.block[1]} elements of C, {plan.block[2]} of k a stage. "
                               f"A warp has the shaded part, an instruction the dark one.") + "</div>",
        "<h2>Candidates</h2>", candidates(e), "<h2>Equations and constraints</h2>", *_sections(explaining.text(e)),
    ]
    return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n")


def _figure(drawing: str, caption: str) -> str:
    return f"<figure>{drawing}<figcaption>{escape(caption)}</figcaption></figure>"


def _sections(text: str) -> list[str]:
    """Each part of the whole explanation, folded."""
    first, *others = text.split("\n\n")
    halves = [part.partition("\n") for part in others if part]
    return [f"<details><summary>{escape(title)}</summary><pre>{escape(rest)}</pre></details>" for title, _, rest in halves]


def candidates(e: Explanation) -> str:
    """A table of the best ones, the chosen one first."""
    names = [one.name for one in e.plan.design.decisions]

    def cells(values: Sequence[Any], tag: str = "td") -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(value))}</{tag}>" for value in values) + "</tr>"

    rows = [
        cells([*("x".join(map(str, value)) if isinstance(value, tuple) else value for value in (one.decided.get(name, "") for name in names)),
               one.registers, one.blocks_per_sm, f"{1e3 * one.seconds:.4g}"]) for one in e.best
    ]
    return f'<div class="wide"><table>{cells([*names, "registers", "blocks an SM", "ms"], "th")}{"".join(rows)}</table></div>'


# ---- drawings


def roofs(plan: Plan, known: Mapping[str, Any]) -> dict[str, float]:
    """What units allow, TFLOP/s of the product: the matrix unit's rate over the scheme's products, and FP32 units'."""
    found = {"FP32 units": plan.gpu.rates.f32_tflops}
    if plan.fragment.on_matrix_unit:
        found["matrix unit"] = 2e-12 * known["sms"] * known["clock_hz"] * known["tensor_fma_per_clock"] / max(1, len(plan.scheme.products))
    return found


def roofline(e: Explanation) -> str:
    """TFLOP/s over FLOP a byte of device memory, both logarithmic, as SVG."""
    plan, known = e.plan, e.numbers
    flops = 2.0 * max(1, plan.hints.m) * max(1, plan.hints.n) * max(1, plan.hints.k) * float(known.get("batch", 1))
    moved = float(known.get("dram_bytes", 0)) + float(known.get("split_bytes", 0))
    least = 4.0 * (plan.hints.m * plan.hints.k + plan.hints.k * plan.hints.n + plan.hints.m * plan.hints.n) * float(known.get("batch", 1))
    intensity, rate = flops / max(moved, least, 1.0), plan.gpu.rates.dram_gb_per_s * 1e-3
    heights, points = roofs(plan, known), [(intensity, flops / one.seconds * 1e-12) for one in e.best[1:]] + [(intensity, float(known["tflops"]))]
    top, right = 2 * max([*heights.values(), *(y for _, y in points)]), max(8 * intensity, 8 * max(heights.values()) / rate)
    low, left = min(0.4 * min(y for _, y in points), 0.3 * min(heights.values())), min(0.2 * intensity, 0.2 * min(heights.values()) / rate)

    def at(x: float, y: float) -> tuple[float, float]:
        wide = (log10(x) - log10(left)) / (log10(right) - log10(left))
        high = (log10(y) - log10(low)) / (log10(top) - log10(low))
        return MARGIN + wide * (WIDE - MARGIN - 8), HIGH - MARGIN - high * (HIGH - MARGIN - 8)

    def line(one: tuple[float, float], other: tuple[float, float], colour: str) -> str:
        (x1, y1), (x2, y2) = at(*one), at(*other)
        return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="2"/>'

    drawn = [f'<rect x="{MARGIN}" y="8" width="{WIDE - MARGIN - 8}" height="{HIGH - MARGIN - 8}" fill="none" stroke="#999"/>']
    ridge = max(heights.values())
    begin = max(left, low / rate)
    drawn.append(line((begin, begin * rate), (ridge / rate, ridge), "#0072B2"))
    for (name, height), colour in zip(heights.items(), ("#000", "#D55E00")):
        drawn.append(line((height / rate, height), (right, height), colour))
        x, y = at(right, height)
        drawn.append(f'<text x="{x - 4:.0f}" y="{y - 5:.0f}" text-anchor="end">{escape(name)}, {height:.3g}</text>')
    x, y = at(begin * 1.3, begin * 1.3 * rate)
    drawn.append(f'<text x="{x + 12:.0f}" y="{y + 4:.0f}">device memory, {rate:.3g} TB/s</text>')
    for number, point in enumerate(points):
        x, y = at(*point)
        own = number == len(points) - 1
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if own else 3}" fill="{"#009E73" if own else "#bbb"}"/>')
    x, y = at(*points[-1])
    drawn.append(f'<text x="{x:.0f}" y="{y + 20:.0f}" text-anchor="middle">this kernel, {points[-1][1]:.3g}</text>')
    drawn += [
        f'<text x="{MARGIN}" y="{HIGH - MARGIN + 16}">{left:.2g}</text>', f'<text x="{WIDE - 8}" y="{HIGH - MARGIN + 16}" text-anchor="end">{right:.3g}</text>',
        f'<text x="{WIDE / 2}" y="{HIGH - 12}" text-anchor="middle">FLOP a byte of device memory</text>', f'<text x="4" y="20">{top:.3g}</text>',
        f'<text x="4" y="{HIGH - MARGIN}">{low:.2g}</text>',
        f'<text x="14" y="{HIGH / 2}" text-anchor="middle" transform="rotate(-90 14 {HIGH / 2})">TFLOP/s</text>',
    ]
    return f'<svg viewBox="0 0 {WIDE} {HIGH}" width="{WIDE}" role="img" aria-label="roofline">{"".join(drawn)}</svg>'


def tiles(plan: Plan) -> str:
    """A block's tile of C with its warps, and a warp's with its instructions, as SVG."""
    (bm, bn, _), (wm, wn, _), (fm, fn, _) = plan.block, plan.warp, plan.fragment.shape
    scale = 260 / max(bm, bn)

    def box(x: float, y: float, wide: float, high: float, fill: str, stroke: str = "#555") -> str:
        return (f'<rect x="{40 + x * scale:.1f}" y="{24 + y * scale:.1f}" width="{wide * scale:.1f}" height="{high * scale:.1f}" fill="{fill}" '
                f'stroke="{stroke}"/>')

    drawn = [box(0, 0, bn, bm, "#fff", "#000")]
    for y in range(0, bm, max(1, wm)):
        for x in range(0, bn, max(1, wn)):
            drawn.append(box(x, y, min(wn, bn - x), min(wm, bm - y), "#cfe4f3" if (x, y) == (0, 0) else "none"))
    drawn.append(box(0, 0, min(fn, wn), min(fm, wm), "#0072B2"))
    wide, high = int(bn * scale) + 60, int(bm * scale) + 60
    drawn.append(f'<text x="40" y="16">n: {bn}, of a warp {wn}</text><text x="40" y="{bm * scale + 42:.0f}">m: {bm}, of a warp {wm}; '
                 f"instruction {fm} x {fn}</text>")
    return f'<svg viewBox="0 0 {max(wide, 300)} {high}" width="{max(wide, 300)}" role="img" aria-label="tiles">{"".join(drawn)}</svg>'
