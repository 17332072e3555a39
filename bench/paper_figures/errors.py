"""Errors of every scheme under three promotions, the papers' reductions of them, histograms, and speed against error at two sizes."""

from __future__ import annotations

import json
import platform
from collections.abc import Container, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from gemmgen import __version__, timing
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import DeviceError, GemmgenError
from gemmgen.plan import Plan
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.bench import median_interval
from paper_figures.common import Kernel, compiled, contenders, markdown, progress, require, writable

FORMAT = "gemmgen papers 1"
BASELINE = "cuBLAS SGEMM"
SHOWN = ("half", "markidis", "ootomo", "ootomo4", "egemm", "legemm", "scaled", "bf16x6", "tf32x3")
NEVER, OURS = 0, 128
CUT = 1e-3
"""Elements with |Vs| <= CUT |A||B| are those that `*_kept` leaves out: their sum cancels."""

HISTOGRAM_SIZE = 1024  # LE-GEMM figures 12 and 13
HISTOGRAMS = (
    ("half", "own"), ("markidis", "own"), ("ootomo", "own"), ("legemm", "own"), ("ootomo", "128"), ("scaled", "128"),
    (BASELINE, ""),
)
BINS = 161
PLANE_SIZES = (4096, 8192)
REFERENCES = {"FP32": "cuBLAS SGEMM of the same inputs", "FP64": "FP64 product of the same inputs"}

HGEMM, FAST_16F, DGEMM = "cuBLAS FP16 in FP16", "cuBLAS FAST_16F", "cuBLAS DGEMM"
LIBRARY = {  # name in the tables: name of gemmgen.timing.CUBLAS
    BASELINE: "cublas-sgemm", "cuBLAS TF32": "cublas-tf32", "cuBLAS FP16": "cublas-f16",
    FAST_16F: "cublas-fast-f16", HGEMM: "cublas-hgemm", DGEMM: "cublas-dgemm",
}


# ---- what the papers report


@dataclass(frozen=True)
class Claim:
    """A paper's reduction of an error: that of `worse` over that of `better`.

    Attributes:
        figure: the field of Figures that the paper means.
        reported: the paper's number, an average over its sizes.
        only: the size it is of, where it is of one.
    """

    paper: str
    figure: str
    worse: str
    better: str
    reported: float
    only: int | None = None


CLAIMS = (
    Claim("LE-GEMM", "max_error", "half", "legemm", 571.75),
    Claim("LE-GEMM", "max_error", "markidis", "legemm", 2.78),
    Claim("LE-GEMM", "max_error", "ootomo", "legemm", 1.41),
    Claim("LE-GEMM", "mred", "half", "legemm", 814.87),
    Claim("LE-GEMM", "mred", "markidis", "legemm", 1.75),
    Claim("LE-GEMM", "mred", "ootomo", "legemm", 1.28),
    Claim("EGEMM-TC", "max_absolute", "half", "egemm", 350.0),
    Claim("EGEMM-TC", "max_absolute", HGEMM, "egemm", 350.0),
    Claim("EGEMM-TC", "max_absolute", "half", "egemm", 82.0, only=8192),
    Claim("EGEMM-TC", "max_absolute", HGEMM, "egemm", 82.0, only=8192),
    Claim("EGEMM-TC", "max_absolute", "markidis", "egemm", 2.33),
)
COMPANIONS = {  # what tells how much of a figure is cancellation, or one element
    "max_error": ("max_error", "max_error_kept", "relative_frobenius"),
    "mred": ("mred", "mred_kept"),
    "max_absolute": ("max_absolute", "relative_frobenius"),
}
COLUMNS = {  # of the reductions: (promotion of both, reference)
    f"{promotion}, {reference}": (promotion, reference)
    for promotion in ("own", "none", "128") for reference in REFERENCES
}


# ---- figures of one product; NumPy and cupy arrays alike


@dataclass(frozen=True)
class Figures:
    """Errors of a computed V_p against a V_s, both [M, N]. |A||B| is the sum of |a_ik b_kj|.

    Attributes:
        max_error: max |Vp - Vs| / (|Vp| + |Vs|) (LE-GEMM eq. 19); 1 wherever one sign is wrong.
        mred: mean |Vs - Vp| / |Vs| (LE-GEMM eq. 20).
        max_absolute: max |Vp - Vs| (EGEMM eq. 10), in the units of C.
        relative_frobenius: ||Vp - Vs||_F / ||Vs||_F (MixPert eq. 10).
        max_error_kept, mred_kept: the same as above, of the elements with |Vs| > CUT |A||B| alone.
        kept: their share.
        at_max: |Vs| / |A||B| of the element that gives max_error; small where its sum cancelled.
        undefined: elements with Vs = 0 and Vp not, which mred leaves out.
    """

    max_error: float
    mred: float
    max_absolute: float
    relative_frobenius: float
    max_error_kept: float
    mred_kept: float
    kept: float
    at_max: float
    undefined: float


def figures(computed: Any, reference: Any, magnitude: Any) -> Figures:
    """The figures of one product.

    Args:
        computed: [M, N], V_p.
        reference: [M, N], V_s.
        magnitude: [M, N], |A||B|.
    """
    computed, reference = computed.astype(np.float64), reference.astype(np.float64)
    difference, size = abs(computed - reference), abs(reference)
    symmetric = _divided(difference, abs(computed) + size)
    defined = size > 0
    relative = _divided(difference, size) * defined
    kept = size > CUT * magnitude
    count, kept_count = computed.size, max(int(kept.sum()), 1)
    undefined = int((~defined & (difference > 0)).sum())
    at = int(symmetric.argmax())
    return Figures(
        max_error=float(symmetric.max()),
        mred=float(relative.sum()) / max(count - undefined, 1),
        max_absolute=float(difference.max()),
        relative_frobenius=float((difference * difference).sum() / (size * size).sum()) ** 0.5,
        max_error_kept=float((symmetric * kept).max()),
        mred_kept=float((relative * kept).sum()) / kept_count,
        kept=float(kept.sum()) / count,
        at_max=float(size.ravel()[at] / magnitude.ravel()[at]),
        undefined=float(undefined),
    )


def _divided(top: Any, bottom: Any) -> Any:
    """top / bottom, and top itself where bottom is 0."""
    return top / (bottom + (bottom == 0))


def averaged(draws: Sequence[Figures]) -> Figures:
    """The mean of each figure over several draws of the inputs."""
    return Figures(**{f.name: fmean(getattr(one, f.name) for one in draws) for f in fields(Figures)})


def product64(a: Any, b: Any, slab: int = 512) -> Any:
    """A [M, K] B [K, N] in FP64, summed slab by slab of k: not as DGEMM sums, so that DGEMM too has an error."""
    total = 0.0
    for k in range(0, a.shape[1], slab):
        total = total + a[:, k : k + slab].astype(np.float64) @ b[k : k + slab].astype(np.float64)
    return total


def histogram(errors: np.ndarray, bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """(edges [bins + 1], counts [bins]) about zero; the end bins also hold what lies beyond.

    It reaches eight medians of |error| to either side: over five standard
    deviations of a normal distribution, and the core of one with heavy tails.
    """
    reach = 8 * float(np.median(np.abs(errors))) or float(np.abs(errors).max(initial=0.0)) or 1.0
    edges = np.linspace(-reach, reach, bins + 1)
    counts, _ = np.histogram(np.clip(errors, edges[0], edges[-1]), edges)
    return edges, counts


SIGNED = {  # what a histogram is of; the paper's text names neither
    "absolute": ("Vp - Vs", lambda computed, reference: computed - reference),
    "relative": ("(Vp - Vs) / (|Vp| + |Vs|)", lambda computed, reference: _divided(
        computed - reference, abs(computed) + abs(reference))),
}


# ---- contestants


def contestant(name: str, promote: int) -> str:
    """A kernel's name in every table: `ootomo, 128`; `ootomo, none`."""
    return f"{name}, {promote or 'none'}"


def _sections(gpu: str, scheme: str, promote: int) -> dict[str, Any]:
    return {"split": {"scheme": scheme, "promote": promote}, "target": {"gpu": gpu}}


def planned(gpu: str, scheme: str, promote: int) -> Plan:
    """The solver's own choice of tiles for a scheme and promotion."""
    return solve(loads(_sections(gpu, scheme, promote)))


def own_promotions(gpu: str) -> dict[str, int]:
    """The promotion of each scheme's authors, in k (Scheme.own_promote); 0 for never."""
    own = {}
    for name in SHOWN:
        never = SCHEMES.get(name, where="papers").own_promote == "never"
        own[name] = NEVER if never else planned(gpu, name, NEVER).fragment.shape[2]
    return own


def built(gpu: str, own: dict[str, int]) -> tuple[list[Kernel], dict[str, str]]:
    """(the kernels, {contestant: why it could not be built}), compiled side by side.

    Raises:
        GemmgenError: none could be built.
    """
    jobs = [(scheme, promote) for scheme in SHOWN for promote in sorted({own[scheme], NEVER, OURS})]
    return compiled({contestant(*job): _sections(gpu, *job) for job in jobs})


def entrants(kernels: Iterable[Kernel], inputs: timing.Inputs) -> list[timing.Contender]:
    """All contestants at one size."""
    return contenders(LIBRARY, kernels, inputs)


# ---- measuring one size


def computed(entrant: timing.Contender, index: int) -> Any:
    """C of input set `index` in FP64, computed now.

    Raises:
        DeviceError: it left elements that are not finite.
    """
    out = entrant.outputs[index]
    out.fill(np.nan)
    entrant.enqueue(index)
    c = out.astype(np.float64)
    if not bool(abs(c).sum() < np.inf):  # a sum lets no NaN pass
        raise DeviceError("papers", f"{entrant.name} left elements of C that are not finite")
    return c


def errors_at(
    field: Sequence[timing.Contender], inputs: timing.Inputs, drawn: Container[str] = (), draws: int | None = None,
) -> tuple[list[dict], list[dict], dict[str, str]]:
    """(error rows, histograms, {contestant: why it has none}) of all entrants, averaged over the input sets.

    Args:
        drawn: contestants to make histograms of, from the first set.
        draws: sets to average over, at most; None for all.
    """
    found: dict[tuple[str, str], list[Figures]] = {}
    histograms: list[dict] = []
    failed: dict[str, str] = {}
    baseline = next(entrant for entrant in field if entrant.name == BASELINE)
    for index in range(min(inputs.sets, draws or inputs.sets)):
        a, b = inputs.a[index], inputs.b[index]
        magnitude = product64(abs(a), abs(b))
        references = {"FP32": computed(baseline, index), "FP64": product64(a, b)}
        for entrant in field:
            if entrant.name in failed:
                continue
            try:
                c = computed(entrant, index)
            except GemmgenError as error:
                failed[entrant.name] = str(error)
                continue
            for name, reference in references.items():
                if entrant is baseline and name == "FP32":
                    continue
                found.setdefault((entrant.name, name), []).append(figures(c, reference, magnitude))
                if index == 0 and entrant.name in drawn:
                    histograms += _histograms(entrant.name, name, _host(c), _host(reference))
    size = inputs.size[0]
    rows = [
        {"size": size, "contestant": name, "reference": reference, "draws": len(draws), **asdict(averaged(draws))}
        for (name, reference), draws in found.items() if name not in failed
    ]
    return rows, histograms, failed


def _histograms(name: str, reference: str, c: np.ndarray, exact: np.ndarray) -> list[dict]:
    out = []
    for kind, (_, error) in SIGNED.items():
        edges, counts = histogram(error(c, exact))
        out.append({
            "size": len(c), "contestant": name, "reference": reference, "error": kind,
            "edges": [float(f"{edge:.6g}") for edge in edges], "counts": counts.tolist(),
        })
    return out


def _host(array: Any) -> np.ndarray:
    return array.get() if hasattr(array, "get") else array


def plane_rows(size: int, field: list[timing.Contender], rows: list[dict]) -> list[dict]:
    """Speed of what has been raced, with its error: seconds with the split pass, TFLOP/s as 2 M N K / t."""
    base = np.array(next(entrant for entrant in field if entrant.name == BASELINE).seconds)
    out = []
    for entrant in field:
        seconds = np.array(entrant.seconds)
        ratios = np.sort(base / seconds)
        out.append({
            "size": size, "contestant": entrant.name, "seconds": float(np.median(seconds)),
            "tflops": 2.0 * size**3 / float(np.median(seconds)) / 1e12, "x_sgemm": float(np.median(ratios)),
            "interval": median_interval(ratios),
            "relative_frobenius": looked_up(rows, entrant.name, size, "FP64")["relative_frobenius"],
        })
    return out


# ---- reductions


def looked_up(rows: Sequence[dict], name: str, size: int, reference: str) -> dict:
    """The error row of a contestant.

    Raises:
        DeviceError: it was not measured.
    """
    for row in rows:
        if (row["contestant"], row["size"], row["reference"]) == (name, size, reference):
            return row
    has = "; ".join(sorted({row["contestant"] for row in rows})) or "no contestant at all"
    where = f"{name} at {size} against {reference}"
    raise DeviceError(where, "was not measured", has=has, remedy="measure again with it")


def resolved(name: str, promotion: str, own: dict[str, int]) -> str:
    """The contestant that a scheme means under `own`, `none` or `128`; cuBLAS is itself under each."""
    if name.startswith("cuBLAS"):
        return name
    if name not in own:
        raise DeviceError(name, "was not measured", has=", ".join(sorted(own)))
    return contestant(name, {"own": own[name], "none": NEVER, "128": OURS}[promotion])


def ratios(
    rows: Sequence[dict], figure: str, worse: str, better: str, sizes: Sequence[int], reference: str,
) -> list[float]:
    """The error of `worse` over that of `better`, size by size.

    Raises:
        DeviceError: one of them was not measured, or has no error to divide by.
    """
    found = []
    for size in sizes:
        top, bottom = (looked_up(rows, name, size, reference)[figure] for name in (worse, better))
        if not bottom:
            raise DeviceError(f"{better} at {size} against {reference}", f"has {figure} 0, so there is no ratio to it")
        found.append(top / bottom)
    return found


def reductions(rows: Sequence[dict], own: dict[str, int]) -> list[dict]:
    """Each claim, its companion figures too, under every promotion and against both references.

    A cell holds the arithmetic mean of the ratios over the sizes, and the ratios; or what is missing for it.
    """
    measured, out = sorted({row["size"] for row in rows}), []
    for claim in CLAIMS:
        if claim.only not in (None, *measured):
            continue
        sizes = measured if claim.only is None else [claim.only]
        for figure in COMPANIONS[claim.figure] if claim.only is None else (claim.figure,):
            cells = {column: _cell(rows, own, claim, figure, column, sizes) for column in COLUMNS}
            claimed = figure == claim.figure
            out.append({**asdict(claim), "figure": figure, "claimed": claimed, "sizes": sizes, "cells": cells})
    return out


def _cell(
    rows: Sequence[dict], own: dict[str, int], claim: Claim, figure: str, column: str, sizes: Sequence[int],
) -> dict:
    promotion, reference = COLUMNS[column]
    try:
        worse, better = (resolved(name, promotion, own) for name in (claim.worse, claim.better))
        found = ratios(rows, figure, worse, better, sizes, reference)
    except DeviceError as error:
        return {"missing": f"{error.where}: {error.problem}"}
    return {"mean": fmean(found), "by_size": found}


# ---- tables


def as_text(document: dict) -> str:
    """Everything a person reads: where, plane, errors, reductions, and what is missing."""
    parts = (part(document) for part in (_where, _plane_table, _error_table, _missing, _reduction_table))
    return "\n\n".join(part for part in parts if part)


def _where(document: dict) -> str:
    lines = [
        f"{document['device']}, gemmgen {document['gemmgen']}, {document['compiler']}, cupy {document['cupy']}, "
        f"CUDA driver {document['driver']}; {document['data']}"
    ]
    for size, state in document["conditions"].items():
        told = ", ".join(f"{key} {value}" for key, value in state.items() if key != "name")
        lines.append(f"after the race at {size}: {told}")
    return "\n".join(lines)


def _plane_table(document: dict) -> str:
    sizes = sorted({row["size"] for row in document["plane"]})
    if not sizes:
        return ""
    head = ["contestant"] + [f"{size}: {what}" for size in sizes for what in ("TFLOP/s", "x SGEMM", "error")]
    at = {(row["contestant"], row["size"]): row for row in document["plane"]}
    lines = []
    for name in dict.fromkeys(row["contestant"] for row in document["plane"]):
        cells = [name]
        for size in sizes:
            row = at.get((name, size))
            cells += ["-"] * 3 if row is None else [
                f"{row['tflops']:.1f}", f"{row['x_sgemm']:.2f} ({row['interval'][0]:.2f}-{row['interval'][1]:.2f})",
                f"{row['relative_frobenius']:.1e}",
            ]
        lines.append(cells)
    return (
        f"Speed (2 M N K / t, total time with the split pass, median of {document['rounds']} interleaved rounds, "
        "95 % interval) and relative Frobenius error against FP64:\n\n" + markdown(head, lines)
    )


def _error_table(document: dict) -> str:
    if not document["errors"]:
        return ""
    size = min({row["size"] for row in document["errors"]}, key=lambda n: abs(n - PLANE_SIZES[0]))
    shown = ("max_error", "at_max", "max_error_kept", "mred", "mred_kept", "max_absolute", "relative_frobenius")
    at = {(row["contestant"], row["reference"]): row for row in document["errors"] if row["size"] == size}
    lines = []
    for name in dict.fromkeys(name for name, _ in at):
        pair = [at.get((name, reference)) for reference in REFERENCES]
        lines.append([name, *(" / ".join("-" if row is None else f"{row[x]:.1e}" for row in pair) for x in shown)])
    draws = next(row["draws"] for row in document["errors"] if row["size"] == size)
    return (
        f"Errors at {size}, against FP32 (cuBLAS SGEMM) / FP64, mean of {draws} draws; kept: |Vs| > {CUT:g} |A||B|; "
        "at_max: |Vs| / |A||B| where max_error lies:\n\n" + markdown(["contestant", *shown], lines)
    )


def _reduction_table(document: dict) -> str:
    if not document["reductions"]:
        return ""
    lines = []
    for row in document["reductions"]:
        of = f" at {row['only']}" if row["only"] else ""
        label = f"{row['paper']} {row['figure']}{of}: {row['worse']} / {row['better']}"
        reported = f"{row['reported']:g}" if row["claimed"] else ""
        lines.append([label, reported, *(_shown(row["cells"][column]) for column in COLUMNS)])
    sizes = ", ".join(map(str, sorted({row["size"] for row in document["errors"]})))
    return (
        f"Reductions: arithmetic mean of the ratios over sizes {sizes} (smallest-largest), by promotion "
        "(own: the authors'; none; every 128 k) and V_s:\n\n"
        + markdown(["error: worse / better", "paper", *COLUMNS], lines)
    )


def _shown(cell: dict) -> str:
    if "missing" in cell:
        return "missing"
    several = len(cell["by_size"]) > 1
    spread = f" ({_short(min(cell['by_size']))}-{_short(max(cell['by_size']))})" if several else ""
    return _short(cell["mean"]) + spread


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _missing(document: dict) -> str:
    told = [f"not measured: {name}: {' '.join(why.split())}" for name, why in document["refused"].items()]
    cells = (cell for row in document["reductions"] for cell in row["cells"].values())
    told += list(dict.fromkeys(f"missing: {cell['missing']}" for cell in cells if "missing" in cell))
    return "\n".join(told)


# ---- measuring


def measure(path: Path, sizes: Sequence[int], gpu: str, rounds: int, slice_ms: float = 20.0) -> dict:
    """Measure everything at `sizes` and write it to `path`, once more after each size.

    Raises:
        GemmgenError: no such GPU, no GPU, no cuBLAS, no kernel could be built, or `path` cannot be written.
    """
    require(gpu, "measure")
    writable(path)
    import cupy

    own = own_promotions(gpu)
    progress("compiling")
    kernels, refused = built(gpu, own)
    document = _started(gpu, sizes, own, rounds, kernels, refused)
    for size in sizes:
        progress(f"{size}")
        _measure_size(document, kernels, size, slice_ms)
        cupy.get_default_memory_pool().free_all_blocks()
        document["reductions"] = reductions(document["errors"], own)
        path.write_text(json.dumps(document, allow_nan=False) + "\n")
    return document


def _started(
    gpu: str, sizes: Sequence[int], own: dict[str, int], rounds: int,
    kernels: Sequence[Kernel], refused: dict[str, str],
) -> dict:
    """The document before the first size is measured."""
    import cupy

    return {
        "format": FORMAT, "gemmgen": __version__, "device": timing.device_name(), "gpu": gpu, "cupy": cupy.__version__,
        "driver": str(cupy.cuda.runtime.driverGetVersion()), "python": platform.python_version(),
        "compiler": kernels[0].binary.compiler, "data": "uniform [-1, 1] drawn in FP64 and rounded to FP32",
        "references": REFERENCES, "cut": CUT, "sizes": list(sizes), "own": own, "rounds": rounds, "refused": refused,
        "kernels": [
            {"contestant": k.name, "scheme": k.plan.scheme.name, "promote": k.plan.promote, "kernel": k.source.name,
             "registers": k.binary.kernels[k.source.name].registers}
            for k in kernels
        ],
        "conditions": {}, "errors": [], "histograms": [], "plane": [], "reductions": [],
    }


def _measure_size(document: dict, kernels: Sequence[Kernel], size: int, slice_ms: float) -> None:
    """One size: errors of all on the same data, then the race."""
    # `Inputs` takes as many sets as exceed L2 four times; at least four draws of the data also at large sizes.
    inputs = timing.Inputs((size,) * 3, l2_bytes=max(50 << 20, 12 * size**2))
    field = entrants(kernels, inputs)
    drawn = {resolved(*which, document["own"]) for which in HISTOGRAMS} if size == HISTOGRAM_SIZE else ()
    rows, histograms, failed = errors_at(field, inputs, drawn)
    document["errors"] += rows
    document["histograms"] += histograms
    document["refused"] |= {f"{name} at {size}": why for name, why in failed.items()}
    if size in PLANE_SIZES:
        racing = [entrant for entrant in field if entrant.name not in failed]
        timing.race(racing, rounds=document["rounds"], slice_ms=slice_ms)
        document["conditions"][str(size)] = timing.conditions()
        document["plane"] += plane_rows(size, racing, document["errors"])
