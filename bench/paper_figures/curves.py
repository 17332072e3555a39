"""Speed and errors over sizes and shapes, in interleaved races: LE-GEMM figures 8 to 11 and table 6, EGEMM-TC figures 7 to 10, and of MixPert
figures 2, 8 and 9 (their part that is a GEMM), 11, and table 1's lower part."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gemmgen import __version__, timing
from gemmgen.picture import drawing
from gemmgen.workshop.bench import median_interval
from paper_figures import errors
from paper_figures.common import Kernel, compiled, contenders, markdown, progress, require, saved, writable

FORMAT = "gemmgen paper curves 1"
SGEMM, FP16, HGEMM, INT8, FOUR = "cuBLAS SGEMM", "cuBLAS FP16", "cuBLAS FP16 in FP16", "cuBLAS INT8", "cuBLAS FP16 x 4"
LIBRARY = {SGEMM: "cublas-sgemm", FP16: "cublas-f16", HGEMM: "cublas-hgemm", INT8: "cublas-int8"}
"""Rivals of one call; FOUR is EGEMM-TC's cuBLAS-TC-Emulation, its Algorithm 1 by four calls behind a split pass."""


def _scheme(name: str, promote: int | None = None, policy: str | None = None) -> dict[str, Any]:
    return {"split": {"scheme": name, **({} if promote is None else {"promote": promote})}, **({"fragment": {"policy": policy}} if policy else {})}


KERNELS: dict[str, dict[str, Any]] = {
    "half": _scheme("half", 0), "markidis": _scheme("markidis", 0), "ootomo": _scheme("ootomo", 16), "ootomo, 128": _scheme("ootomo", 128),
    "egemm": _scheme("egemm", 0), "legemm": _scheme("legemm", 0), "legemm, 128": _scheme("legemm", 128),
    "bf16x6": _scheme("bf16x6", 0), "bf16x6, 128": _scheme("bf16x6", 128), "tf32x3": _scheme("tf32x3", 0), "tf32x3, 128": _scheme("tf32x3", 128),
    "mixpert1": _scheme("mixpert1"), "mixpert4": _scheme("mixpert4"), "mixpert4_tile": _scheme("mixpert4_tile"),
    "half, wmma": _scheme("half", 0, "wmma"), "markidis, wmma": _scheme("markidis", 0, "wmma"), "ootomo, wmma": _scheme("ootomo", 0, "wmma"),
}
"""Sections of each kernel's spec. Promotion is the authors' own, as errors.own_promotions has it, and every 128 k; `wmma`: on the
interface that LE-GEMM built its rivals on, without promotion."""
SHAPES = {"n,n,n": (1, 1, 1), "n,4n,n": (1, 4, 1), "n,n,4n": (1, 1, 4), "n,n,2n": (1, 1, 2), "4n,n,n": (4, 1, 1)}
"""M, N, K in n: LE-GEMM's three, written M*N*K there, and EGEMM-TC's two."""
PARTS = ("mixpert1", "mixpert4", "mixpert4_tile", "bf16x6, 128", "tf32x3, 128")
"""Kernels whose launches are timed one by one, too (MixPert figure 11)."""
LARGE = 10_000
"""From this n on, rounds are fewer and errors are of one draw."""


# ---- contenders


def built(gpu: str, names: Iterable[str] = KERNELS) -> tuple[list[Kernel], dict[str, str]]:
    """(the kernels, {name: why it could not be built}), compiled side by side.

    Raises:
        GemmgenError: none could be built.
    """
    return compiled({name: {**KERNELS[name], "target": {"gpu": gpu}} for name in names})


@dataclass(frozen=True)
class _Words:
    """Two word matrices in place of a race's inputs, as `timing.cublas` reads them."""

    inputs: timing.Inputs
    pair: tuple[Any, Any]

    @property
    def size(self) -> tuple[int, int, int]:
        return self.inputs.size

    def operands(self, dtype: str) -> list[tuple[Any, Any]]:
        return [self.pair] * self.inputs.sets

    def results(self, dtype: str) -> list[Any]:
        return self.inputs.c


def four_calls(inputs: timing.Inputs) -> timing.Contender:
    """EGEMM-TC's Algorithm 1 by cublasGemmEx: FP16 words of A and B, and four products added up in C."""
    import cupy

    text = "float16 h(x); high = h; low = float16(x - (float)h);"
    split = cupy.ElementwiseKernel("float32 x", "float16 high, float16 low", text, "split_in_two")
    a, b = ([cupy.empty(one[0].shape, cupy.float16) for _ in range(2)] for one in (inputs.a, inputs.b))
    order = ((1, 1), (1, 0), (0, 1), (0, 0))  # 0: the high word
    calls = [timing.cublas("cublas-f16", _Words(inputs, (a[i], b[j])), FOUR, add=at > 0) for at, (i, j) in enumerate(order)]

    def enqueue(index: int) -> None:
        for given, words in ((inputs.a, a), (inputs.b, b)):
            split(given[index % inputs.sets], *words)
        for call in calls:
            call.enqueue(index)

    return timing.Contender(FOUR, enqueue, outputs=inputs.c)


def entrants(kernels: Iterable[Kernel], inputs: timing.Inputs) -> list[timing.Contender]:
    """All contenders of one shape."""
    return [*contenders(LIBRARY, (), inputs), four_calls(inputs), *contenders({}, kernels, inputs)]


def launches_apart(kernels: Iterable[Kernel], inputs: timing.Inputs) -> dict[tuple[str, str], timing.Contender]:
    """{(kernel, role of the launch): it alone}."""
    found = {}
    for one in kernels:
        extents = one.source.interface.extents(*inputs.size)
        for role in dict.fromkeys(launch.role for launch in one.source.interface.launches if launch.blocks(extents)):
            found[one.name, role] = timing.generated(f"{one.name} {role}", one.plan, one.source, one.binary, inputs, only=role)
    return found


# ---- measuring


def measure(
    path: Path, gpu: str, shapes: Mapping[str, Sequence[int]], *, rounds: int, seconds: float, with_errors: bool, with_parts: bool, slice_ms: float = 5.0,
) -> dict:
    """Race all contenders at each shape and write `path`, once more after each.

    Args:
        shapes: n of each shape of SHAPES.
        seconds: no size is begun that would, by the one before it, end later than that.
        with_errors: of the square products.
        with_parts: also time the launches of PARTS one by one.

    Raises:
        GemmgenError: no such GPU, no GPU, no cuBLAS, or `path` cannot be written.
    """
    start = time.perf_counter()
    require(gpu, "curves")
    writable(path)
    progress("compiling")
    kernels, refused = built(gpu)
    document = _started(gpu, rounds, kernels, refused)
    for shape, extents in shapes.items():
        last: tuple[int, float] | None = None
        for n in sorted(extents):
            begun = time.perf_counter()
            expected = last[1] * max(1.0, (n / last[0]) ** 3 / 3) if last else 0.0
            if begun - start + expected > seconds:
                document["left_out"].append(f"{shape} at n = {n}: no time was left")
                continue
            progress(f"{shape} at {n}, {begun - start:.0f} s")
            _measure_one(document, kernels, shape, n, rounds if n < LARGE else 3, slice_ms, with_errors and shape == "n,n,n", with_parts)
            timing.release_memory()
            path.write_text(json.dumps(document, allow_nan=False) + "\n")
            last = n, time.perf_counter() - begun
    document["seconds"] = time.perf_counter() - start
    path.write_text(json.dumps(document, allow_nan=False) + "\n")
    return document


def _started(gpu: str, rounds: int, kernels: Sequence[Kernel], refused: dict[str, str]) -> dict:
    return {
        "format": FORMAT, "gemmgen": __version__, "device": timing.device_name(), "gpu": gpu, "versions": timing.versions(), "rounds": rounds,
        "data": "uniform [-1, 1] drawn in FP64 and rounded to FP32", "refused": refused, "left_out": [], "conditions": {}, "seconds": 0.0,
        "kernels": [
            {"contestant": k.name, "kernel": k.source.name, "registers": k.binary.kernels[k.source.name].registers, "promote": k.plan.promote}
            for k in kernels
        ],
        "speeds": [], "parts": [], "errors": [],
    }


def _measure_one(
    document: dict, kernels: Sequence[Kernel], shape: str, n: int, rounds: int, slice_ms: float, with_errors: bool, with_parts: bool,
) -> None:
    """One shape: errors of all on the same data, then the race, then the launches one by one."""
    size = tuple(n * factor for factor in SHAPES[shape])
    inputs = timing.Inputs(size, l2_bytes=50 << 20)
    field = entrants(kernels, inputs)
    if with_errors:
        rows, _, failed = errors.errors_at([one for one in field if one.judged], inputs, draws=1 if n > LARGE else 4)
        document["errors"] += rows
        document["refused"] |= {f"{name} at {n}": why for name, why in failed.items()}
        field = [one for one in field if one.name not in failed]
        timing.release_memory()
    timing.race(field, rounds=rounds, slice_ms=slice_ms)
    document["conditions"][f"{shape} at {n}"] = timing.conditions()
    document["speeds"] += speed_rows(shape, n, size, field)
    if with_parts:
        apart = launches_apart([one for one in kernels if one.name in PARTS], inputs)
        timing.race(list(apart.values()), rounds=rounds, slice_ms=slice_ms)
        document["parts"] += [
            {"shape": shape, "n": n, "contestant": name, "role": role, "seconds": float(np.median(one.seconds))} for (name, role), one in apart.items()
        ]


def speed_rows(shape: str, n: int, size: tuple[int, int, int], field: Iterable[timing.Contender]) -> list[dict]:
    """Seconds with all passes, TFLOP/s as 2 M N K / t (EGEMM eq. 9), and how many times as fast as SGEMM, of what has been raced."""
    field = list(field)
    base = np.array(next(one for one in field if one.name == SGEMM).seconds)
    m, n_, k = size
    rows = []
    for one in field:
        taken = np.array(one.seconds)
        ratios = np.sort(base / taken)
        rows.append({
            "shape": shape, "n": n, "size": list(size), "contestant": one.name, "seconds": float(np.median(taken)),
            "tflops": 2.0 * m * n_ * k / float(np.median(taken)) / 1e12, "x_sgemm": float(np.median(ratios)), "interval": median_interval(ratios),
        })
    return rows


# ---- what is read off


Row = Mapping[str, Any]


def at(rows: Iterable[Row], shape: str, contestant: str, what: str = "tflops") -> list[tuple[int, float]]:
    """[(n, figure)] of a contestant, ascending."""
    return sorted((row["n"], row[what]) for row in rows if (row["shape"], row["contestant"]) == (shape, contestant))


def times_as_fast(rows: Sequence[Row], shape: str, ours: str, theirs: str) -> list[tuple[int, float]]:
    """[(n, how many times as fast `ours` is)]."""
    other = dict(at(rows, shape, theirs, "seconds"))
    return [(n, other[n] / taken) for n, taken in at(rows, shape, ours, "seconds") if n in other]


TABLE_6: dict[str, tuple[str, ...]] = {  # LE-GEMM's rivals, and what stands for them here: on the kernel design of ours, and on wmma where there is one
    "rocBLAS/cuBLAS": (SGEMM,), "rocWMMA/WMMA": ("half", "half, wmma"), "Mark": ("markidis", "markidis, wmma"), "Ooto": ("ootomo", "ootomo, wmma"),
}
REPORTED_6 = {  # speed-ups on the A800 for n,n,n; n,4n,n; n,n,4n
    "rocBLAS/cuBLAS": (1.37, 1.40, 1.36), "rocWMMA/WMMA": (1.40, 1.43, 1.81), "Mark": (2.77, 2.84, 4.67), "Ooto": (2.74, 2.80, 3.76),
}
SKEWED = ("n,n,n", "n,4n,n", "n,n,4n")
EGEMM_SPEEDUPS = (  # (shape, rival, what the paper reports on the T4, of which figure)
    ("n,n,n", SGEMM, 3.13, "8"), ("n,n,n", FOUR, 1.35, "8"), ("n,n,2n", SGEMM, 2.89, "9a"), ("n,n,2n", FOUR, 1.33, "9a"), ("4n,n,n", SGEMM, 2.9, "9b"),
    ("4n,n,n", FOUR, 1.40, "9b"), ("n,n,n", "markidis", 3.0, "10"), ("n,n,n", "markidis, wmma", 3.0, "10"),
)
MIXPERT = {"MixPert IV, exponents of tiles": "mixpert4_tile", "MixPert IV, of rows": "mixpert4", "six BF16 products (APE's)": "bf16x6",
           "three TF32 products (CUTLASS's)": "tf32x3"}


def _mean(pairs: Sequence[tuple[int, float]], least: int = 1024) -> str:
    """Arithmetic mean over n from `least` on, with the range."""
    found = [value for n, value in pairs if n >= least]
    return f"{fmean(found):.2f} ({min(found):.2f}-{max(found):.2f})" if found else "-"


def as_text(documents: Sequence[dict]) -> str:
    """Every table of what was measured."""
    rows = [row for one in documents for row in one["speeds"]]
    wrong = [row for one in documents for row in one["errors"]]
    apart = [row for one in documents for row in one["parts"]]
    told = [f"{one['device']}, gemmgen {one['gemmgen']}, {', '.join(f'{k} {v}' for k, v in one['versions'].items())}; {one['data']}; "
            f"medians of {one['rounds']} interleaved rounds (3 from n = {LARGE} on)" for one in documents[:1]]
    told += [f"not measured: {name}: {' '.join(why.split())}" for one in documents for name, why in one["refused"].items()]
    told += [f"left out: {line}" for one in documents for line in one["left_out"]]
    parts = [*(_speed_table(rows, shape) for shape in SHAPES), _table_6(rows), _egemm_table(rows), _claims_table(wrong), _error_tables(wrong),
             _mixpert_table(rows, wrong), _parts_table(apart)]
    return "\n\n".join(["\n".join(told), *(part for part in parts if part)])


def _speed_table(rows: Sequence[Row], shape: str) -> str:
    sizes = sorted({row["n"] for row in rows if row["shape"] == shape})
    if not sizes:
        return ""
    names = dict.fromkeys(row["contestant"] for row in rows if row["shape"] == shape)
    lines = [[name, *(f"{found[n]:.1f}" if n in found else "-" for n in sizes)] for name in names for found in [dict(at(rows, shape, name))]]
    return f"TFLOP/s, M, N, K = {shape}, passes included:\n\n" + markdown(["contestant", *map(str, sizes)], lines)


def _table_6(rows: Sequence[Row]) -> str:
    shown = [shape for shape in SKEWED if at(rows, shape, "legemm")]
    if not shown:
        return ""
    lines = []
    for name, rivals in TABLE_6.items():
        for rival in rivals:
            cells = [cell for shape in shown for cell in (f"{REPORTED_6[name][SKEWED.index(shape)]:.2f}", _mean(times_as_fast(rows, shape, "legemm", rival)))]
            lines.append([f"{name}: {rival}", *cells])
    head = ["legemm, times as fast as", *(cell for shape in shown for cell in (f"{shape}: paper, A800", f"{shape}: here"))]
    return "LE-GEMM table 6; arithmetic mean over n from 1024 on, with the range:\n\n" + markdown(head, lines)


def _egemm_table(rows: Sequence[Row]) -> str:
    lines = [[figure, shape, rival, f"{paper:g}", _mean(found)] for shape, rival, paper, figure in EGEMM_SPEEDUPS
             if (found := times_as_fast(rows, shape, "egemm", rival))]
    head = ["figure", "M, N, K", "egemm, times as fast as", "paper, T4", "here"]
    return "EGEMM-TC figures 8 to 10; arithmetic mean over n from 1024 on, with the range:\n\n" + markdown(head, lines) if lines else ""


def _claims_table(wrong: Sequence[Row]) -> str:
    """The reductions that LE-GEMM and EGEMM-TC report, over the sizes from 1024 on, every scheme as its authors promote it."""
    sizes = sorted({row["size"] for row in wrong if row["size"] >= 1024})
    if not sizes:
        return ""
    lines = []
    for claim in errors.CLAIMS:
        cells = []
        for reference in errors.REFERENCES:
            found = errors.ratios(wrong, claim.figure, claim.worse, claim.better, [claim.only] if claim.only else sizes, reference)
            cells.append(f"{fmean(found):.3g}" + (f" ({min(found):.3g}-{max(found):.3g})" if len(found) > 1 else ""))
        only = f" at {claim.only}" if claim.only else ""
        lines.append([f"{claim.paper} {claim.figure}{only}: {claim.worse} / {claim.better}", f"{claim.reported:g}", *cells])
    return (f"Reductions of errors, arithmetic means of the ratios over n = {', '.join(map(str, sizes))} (smallest-largest):\n\n"
            + markdown(["error: worse / better", "paper", *(f"here, {reference}" for reference in errors.REFERENCES)], lines))


def _error_tables(wrong: Sequence[Row]) -> str:
    """Of LE-GEMM figures 10 and 11 and EGEMM-TC's figure 7, against both references."""
    sizes = sorted({row["size"] for row in wrong})
    if not sizes:
        return ""
    tables = []
    for what, title in (("max_error", "Max_error (LE-GEMM eq. 19)"), ("mred", "MRED (LE-GEMM eq. 20)"), ("max_absolute", "MaxError (EGEMM eq. 10)"),
                        ("relative_frobenius", "relative Frobenius (MixPert eq. 10)")):
        for reference in errors.REFERENCES:
            found = {(row["contestant"], row["size"]): row[what] for row in wrong if row["reference"] == reference}
            lines = [[name, *(f"{found[name, n]:.1e}" if (name, n) in found else "-" for n in sizes)] for name in dict.fromkeys(name for name, _ in found)]
            tables.append(f"{title} against {reference}:\n\n" + markdown(["contestant", *map(str, sizes)], lines))
    return "\n\n".join(tables)


def _mixpert_table(rows: Sequence[Row], wrong: Sequence[Row]) -> str:
    sizes = sorted({row["n"] for row in rows if row["shape"] == "n,n,n"})
    if not sizes:
        return ""
    exact = {(row["contestant"], row["size"]): row["relative_frobenius"] for row in wrong if row["reference"] == "FP64"}
    lines = []
    for label, name in (("cuBLAS", SGEMM), *MIXPERT.items()):
        speed = dict(times_as_fast(rows, "n,n,n", name, SGEMM))
        lines.append([label, name, *(f"{speed[n]:.2f}" + (f", {exact[name, n]:.1e}" if (name, n) in exact else "") if n in speed else "-" for n in sizes)])
    return ("MixPert figures 2, 8 (GEMM) and 9 (GEMM): times as fast as SGEMM, relative Frobenius error against FP64:\n\n"
            + markdown(["scheme", "here", *map(str, sizes)], lines))


def _parts_table(apart: Sequence[Row]) -> str:
    if not apart:
        return ""
    lines = []
    for shape, n in sorted({(row["shape"], row["n"]) for row in apart}):
        for name in PARTS:
            here = {row["role"]: row["seconds"] for row in apart if (row["shape"], row["n"], row["contestant"]) == (shape, n, name)}
            if here:
                passes = sum(taken for role, taken in here.items() if role != "gemm")
                lines.append([shape, str(n), name, f"{passes * 1e6:.0f}", f"{here['gemm'] * 1e6:.0f}", f"{passes / sum(here.values()):.1%}"])
    head = ["M, N, K", "n", "kernel", "passes, us", "main kernel, us", "share of the passes"]
    return "MixPert figure 11, launches timed one by one:\n\n" + markdown(head, lines)


# ---- drawing


def draw(documents: Sequence[dict], folder: Path) -> list[Path]:
    """Draw what was measured into `folder`.

    Raises:
        DeviceError: matplotlib is not installed.
    """
    drawing()
    rows = [row for one in documents for row in one["speeds"]]
    wrong = [row for one in documents for row in one["errors"]]
    apart = [row for one in documents for row in one["parts"]]
    device = documents[0]["device"]
    drawn: list[Path] = []
    if rows:
        drawn += [_draw_legemm(rows, device, folder / "papers_legemm.svg"), _draw_egemm(rows, wrong, device, folder / "papers_egemm.svg")]
    if wrong:
        drawn += [_draw_errors(wrong, device, folder / "papers_errors.svg"), _draw_mixpert(rows, wrong, apart, device, folder / "papers_mixpert.svg")]
    return drawn


LOOKS: dict[str, dict[str, Any]] = {
    SGEMM: {"color": "black", "marker": "s"}, FP16: {"color": "0.5", "marker": "s"}, HGEMM: {"color": "0.7", "marker": "s"},
    INT8: {"color": "0.5", "marker": "s", "linestyle": ":"}, FOUR: {"color": "black", "marker": "s", "linestyle": "--"},
    "legemm": {"color": "C3", "linewidth": 2.2}, "egemm": {"color": "C2", "linewidth": 2.2}, "half": {"color": "C0"}, "markidis": {"color": "C1"},
    "ootomo": {"color": "C4"}, "half, wmma": {"color": "C0", "linestyle": ":"}, "markidis, wmma": {"color": "C1", "linestyle": ":"},
    "ootomo, wmma": {"color": "C4", "linestyle": ":"}, "legemm, 128": {"color": "C3", "linestyle": "--"}, "ootomo, 128": {"color": "C4", "linestyle": "--"},
    "mixpert4": {"color": "C5"}, "mixpert4_tile": {"color": "C6", "linewidth": 2.2}, "bf16x6": {"color": "C8"}, "tf32x3": {"color": "C9"},
    "bf16x6, 128": {"color": "C8", "linestyle": "--"}, "tf32x3, 128": {"color": "C9", "linestyle": "--"}, "mixpert1": {"color": "C5", "linestyle": "--"},
}


def _line(axis: Any, name: str, points: Sequence[tuple[float, float]], label: str | None = None) -> None:
    if points:
        axis.plot(*zip(*points), label=label or name, **{"marker": "o", "markersize": 3.5, "linewidth": 1.2, **LOOKS.get(name, {})})


def _over_n(axis: Any, sizes: Iterable[int], title: str, label: str) -> None:
    ticks = sorted(set(sizes))
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks, [str(n) for n in ticks], rotation=60, fontsize=6)
    axis.minorticks_off()
    axis.set_title(title, fontsize=9)
    axis.set_xlabel("n", fontsize=8)
    axis.set_ylabel(label, fontsize=8)
    axis.tick_params(axis="y", labelsize=7)
    axis.grid(alpha=0.3)


def _panels(count: int, device: str, title: str) -> tuple[Any, Any]:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, count, figsize=(4.6 * count, 4.2), squeeze=False)
    figure.suptitle(f"{title}, {device}", fontsize=10)
    return figure, axes[0]


def _done(figure: Any, path: Path) -> Path:
    figure.tight_layout()
    return saved(figure, path)


def _draw_legemm(rows: Sequence[Row], device: str, path: Path) -> Path:
    """Figures 8 and 9: TFLOP/s over n for three shapes."""
    shown = [shape for shape in SKEWED if at(rows, shape, "legemm")]
    figure, axes = _panels(len(shown), device, "LE-GEMM figures 8 and 9: speed, passes included")
    for axis, shape in zip(axes, shown):
        for name in (SGEMM, "half", "half, wmma", "markidis", "markidis, wmma", "ootomo", "ootomo, wmma", "legemm"):
            _line(axis, name, at(rows, shape, name))
        _over_n(axis, (n for n, _ in at(rows, shape, SGEMM)), f"M, N, K = {shape}", "TFLOP/s")
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=7)
    return _done(figure, path)


def _draw_egemm(rows: Sequence[Row], wrong: Sequence[Row], device: str, path: Path) -> Path:
    """Figure 7 (error), 8 (square), 9 (skewed) and 10 (Markidis)."""
    shapes = [one for one in (("n,n,n", "8 and 10"), ("n,n,2n", "9a"), ("4n,n,n", "9b")) if at(rows, one[0], "egemm")]
    figure, axes = _panels(len(shapes) + bool(wrong), device, "EGEMM-TC figures 7 to 10")
    if wrong:
        for name in (HGEMM, "half", "markidis", "egemm"):
            _line(axes[0], name, _error_line(wrong, name, "max_absolute", "FP32"))
        _over_n(axes[0], (row["size"] for row in wrong), "figure 7", "max |Vp - V_single| (eq. 10)")
        axes[0].set_yscale("log")
        axes[0].legend(fontsize=7)
    for axis, (shape, number) in zip(axes[bool(wrong):], shapes):
        for name in (SGEMM, FP16, FOUR, "markidis", "markidis, wmma", "egemm"):
            _line(axis, name, at(rows, shape, name))
        _over_n(axis, (n for n, _ in at(rows, shape, SGEMM)), f"figure {number}: M, N, K = {shape}", "TFLOP/s")
        axis.set_yscale("log")
    axes[-1].legend(fontsize=7)
    return _done(figure, path)


def _error_line(wrong: Sequence[Row], name: str, what: str, reference: str) -> list[tuple[int, float]]:
    return sorted((row["size"], row[what]) for row in wrong if (row["contestant"], row["reference"]) == (name, reference) and row[what] > 0)


def _draw_errors(wrong: Sequence[Row], device: str, path: Path) -> Path:
    """LE-GEMM figures 10 and 11: Max_error and MRED over n, against FP32 as the paper has it and against FP64."""
    panels = [(what, reference) for what in ("max_error", "mred") for reference in errors.REFERENCES]
    figure, axes = _panels(len(panels), device, "LE-GEMM figures 10 and 11: errors over n")
    for axis, (what, reference) in zip(axes, panels):
        for name in ("half", "markidis", "ootomo", "legemm", "ootomo, 128", "legemm, 128", SGEMM):
            _line(axis, name, _error_line(wrong, name, what, reference))
        title = {"max_error": "figure 10, Max_error", "mred": "figure 11, MRED"}[what]
        _over_n(axis, (row["size"] for row in wrong), f"{title} against {reference}", what)
        axis.set_yscale("log")
    axes[-1].legend(fontsize=7)
    return _done(figure, path)


def _draw_mixpert(rows: Sequence[Row], wrong: Sequence[Row], apart: Sequence[Row], device: str, path: Path) -> Path:
    """Figures 2 and 8 (speed of GEMM), 2 and 9 (its error), 11 (shares of the time)."""
    shapes = [shape for shape in ("n,n,n", "n,n,2n") if any(row["shape"] == shape for row in apart)]
    figure, axes = _panels(2 + len(shapes), device, "MixPert figures 2, 8, 9 (GEMM) and 11")
    shown = {SGEMM: SGEMM, **MIXPERT, "BF16, promoted": "bf16x6, 128", "TF32, promoted": "tf32x3, 128", "MixPert I, of rows": "mixpert1"}
    for label, name in shown.items():
        _line(axes[0], name, times_as_fast(rows, "n,n,n", name, SGEMM), label)
        _line(axes[1], name, _error_line(wrong, name, "relative_frobenius", "FP64"), label)
    _over_n(axes[0], (n for n, _ in at(rows, "n,n,n", SGEMM)), "figures 2 and 8: times as fast as SGEMM", "speed-up")
    _over_n(axes[1], (row["size"] for row in wrong), "figures 2 and 9: error", "relative Frobenius, against FP64")
    axes[1].set_yscale("log")
    axes[0].legend(fontsize=7)
    for axis, shape in zip(axes[2:], shapes):
        _draw_shares(axis, [row for row in apart if row["shape"] == shape], shape)
    return _done(figure, path)


def _draw_shares(axis: Any, apart: Sequence[Row], shape: str) -> None:
    """Bars of the passes' share, grouped by n."""
    sizes = sorted({row["n"] for row in apart})
    names = [name for name in PARTS if any(row["contestant"] == name for row in apart)]
    for number, name in enumerate(names):
        shares = []
        for n in sizes:
            here = {row["role"]: row["seconds"] for row in apart if (row["n"], row["contestant"]) == (n, name)}
            shares.append(100 * sum(taken for role, taken in here.items() if role != "gemm") / sum(here.values()) if here else 0.0)
        faint = 0.5 if "linestyle" in LOOKS[name] else 1.0
        axis.bar([at + 0.8 * number / len(names) for at in range(len(sizes))], shares, 0.8 / len(names), label=name, color=LOOKS[name]["color"], alpha=faint)
    axis.set_xticks([at + 0.4 for at in range(len(sizes))], [str(n) for n in sizes], fontsize=7)
    axis.set_title(f"figure 11: M, N, K = {shape}", fontsize=9)
    axis.set_ylabel("passes before the main kernel, % of the time", fontsize=8)
    axis.legend(fontsize=7)
