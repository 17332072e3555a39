"""A kernel as another project embeds it: a folder that needs nothing of gemmgen.

    export(plan, source, binary, "third_party/sgemm", name="my_sgemm")

writes the kernels with a C launcher, its header, their machine code (a cubin, or a
code object for each architecture of AMD's), a manifest that is enough to launch that
without either, and the files that build, install and try it. The same plan gives
the same bytes; only the machine code depends on the compiler, which the manifest
names.

Sizes, workspace and arguments are tables here, read by the C text and by the
manifest alike; the workspace's are `Plan.workspace` as data.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gemmgen import __version__
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.reserved import reserved
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.files import read, resolved
from gemmgen.plan import STATUS, WORKSPACE_ALIGNMENT, Plan
from gemmgen.render import Grid, Launch, Source, param_type, render_text
from gemmgen.spec import MAX_EXTENT
from gemmgen.verify import standing
from gemmgen.verify.bound import SAFETY, Bound, U, bound, lost, underflow
from gemmgen.verify.metrics import exact
from gemmgen.verify.record import resources

if TYPE_CHECKING:
    from gemmgen.build import Binary

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
MOST_MANIFEST = 1 << 20
"""Bytes of one; ours have some 10 KB."""
LARGEST_EXTENT = MAX_EXTENT - 4096
"""Rounding up to a tile, of at most 4096, must stay a 32-bit integer."""
BOUND_K = (128, 1024, 4096, 16384, 65536)
"""The k for which header and manifest tell the bounds."""
EXAMPLE_SIZE = (300, 200, 500)  # no multiple of any tile
EXAMPLE_OUTLIER = 1e6  # stands in the template too

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_ARGUMENTS = {  # of the C function, by position from 1: those that can be refused, and why
    "m": (1, "below 0 or above the largest extent"),
    "n": (2, "below 0 or above the largest extent"),
    "k": (3, "below 0 or above the largest extent"),
    "a": (5, "NULL, and A is to be read"),
    "lda": (6, "below 1 or below a row's length"),
    "b": (7, "NULL, and B is to be read"),
    "ldb": (8, "below 1 or below a row's length"),
    "c": (10, "NULL, and C has elements"),
    "ldc": (11, "below 1 or below a row's length"),
    "workspace": (12, "NULL, or not aligned"),
    "workspace_bytes": (13, "less than these sizes need"),
}


# ---- the tables


@dataclass(frozen=True)
class Region:
    """A part of the workspace. Regions follow one another, each aligned.

    Attributes:
        name: as in `Plan.workspace`.
        element: the C type of what lies there.
        factor, of, per: its bytes are the factor times these padded extents, divided by `per`.
        zeroed: whether it must be zero before the first kernel runs.
    """

    name: str
    element: str
    factor: int
    of: tuple[str, ...]
    zeroed: bool
    meaning: str
    per: int = 1

    def bytes(self, extents: Mapping[str, int]) -> int:
        return self.factor * math.prod(extents[extent] for extent in self.of) // self.per


@dataclass(frozen=True)
class Parameter:
    """An argument of a kernel.

    Attributes:
        type: as the kernel declares it.
        value: what to pass, as data: an `argument` of the C function, or a
            `region` of the workspace with an `offset` in bytes.
        expression: the same as C.
    """

    name: str
    type: str
    value: dict[str, Any]
    expression: str
    meaning: str


def regions(plan: Plan) -> tuple[Region, ...]:
    """`Plan.workspace`, as data."""
    scales = 4 if plan.scheme.normalize == "row" else 0
    words = len(plan.scheme.words) * plan.scheme.format.bytes
    before = [operand.name for operand in plan.split_before]
    slices = plan.split_k if plan.split_k > 1 else 0
    rows = "m_clusters" if "m_clusters" in padded(plan) else "m_padded"
    none = "" if scales else "; none in this scheme"
    return (
        Region("status", "unsigned long long", 8 * len(status_fields()), (), True, "the counters"),
        Region("a_absmax", "unsigned int", scales, ("m_padded",), True, f"largest magnitudes of A's rows{none}"),
        Region("b_absmax", "unsigned int", scales, ("n_padded",), True, f"largest magnitudes of B's columns{none}"),
        Region("arrived", "unsigned int", 4 * plan.sharers if slices else 0, (rows, "n_padded"), True,
               f"slices of k that have left their part, for each {'warpgroup' if plan.specialised else 'block'} of C{'' if slices else '; none in this kernel'}",
               per=plan.block[0] * plan.block[1]),
        Region("a_words", "unsigned char", words * ("a" in before), ("m_padded", "k_padded"), False, "A's words, packed"),
        Region("b_words", "unsigned char", words * ("b" in before), ("n_padded", "k_padded"), False, "B's words, packed"),
        Region("parts", "float", 4 * slices, (rows, "n_padded"), False, "the sums of the slices of k"),
    )


def padded(plan: Plan) -> dict[str, tuple[str, int]]:
    """Each padded extent: what it is rounded up from, and to a multiple of what."""
    found = {f"{name}_padded": (name, unit) for name, unit in zip("mnk", plan.padded(1, 1, 1))}
    if plan.cluster > 1 and plan.split_k > 1:  # the last cluster may reach below C, and its blocks leave their parts, too
        found["m_clusters"] = ("m", plan.block[0] * plan.cluster)
    return found


def status_fields() -> list[str]:
    return [field for fields in STATUS.values() for field in fields]


def parameters(launches: Iterable[Launch]) -> list[list[Parameter]]:
    """The arguments of each launch. Who names a buffer of the workspace first writes it; later ones read."""
    written: set[str] = set()
    result = []
    for launch in launches:
        result.append([_parameter(name, written) for name in launch.params])
        written.update(launch.params)
    return result


_MEANINGS = {
    "a": "operand A", "b": "operand B", "c": "result C", "m": "rows of C", "n": "columns of C", "k": "the summed dimension",
    "alpha": "factor of A B", "beta": "factor of what C held", "lda": "elements from one stored row of A to the next",
    "ldb": "the same of B", "ldc": "the same of C", "a_words": "packed words of A", "b_words": "packed words of B",
    "a_absmax": "largest magnitudes of A's rows", "b_absmax": "largest magnitudes of B's columns",
    "parts": "the sums of the slices of k", "arrived": "slices that have left theirs, for each part of C",
    **{name: "counters: " + ", ".join(fields) for name, fields in STATUS.items()},
}
_POINTERS = {
    "a": "float", "b": "float", "c": "float",
    "a_words": "unsigned char", "b_words": "unsigned char", "a_absmax": "unsigned int", "b_absmax": "unsigned int",
    "parts": "float", "arrived": "unsigned int", **dict.fromkeys(STATUS, "unsigned long long"),
}


def _parameter(name: str, written: set[str]) -> Parameter:
    kind = param_type(name)
    if kind == "pointer":
        reads = name in ("a", "b") or (name in written and name not in STATUS)
        kind = f"{'const ' * reads}{_POINTERS[name]}*"
    if name in STATUS:
        before = [*STATUS][: [*STATUS].index(name)]
        region, offset = "status", 8 * sum(len(STATUS[earlier]) for earlier in before)
    elif name.endswith(("_words", "_absmax")) or name in ("parts", "arrived"):
        region, offset = name, 0
    else:
        return Parameter(name, kind, {"argument": name}, name, _MEANINGS[name])
    expression = f"(base + at.{region}" + (f" + {offset})" if offset else ")")
    return Parameter(name, kind, {"region": region, "offset": offset}, expression, _MEANINGS[name])


# ---- what the files say


def _rounded_up(x: float) -> float:
    """Three significant digits, never less than x."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 2)
    return float(f"{math.ceil(x / unit * (1 - 1e-12)) * unit:.2e}")


def _on(plan: Plan, archs: Sequence[str]) -> list[Plan]:
    """The plan on a GPU of each further architecture, whose matrix unit may err otherwise; itself first."""
    gpus = {gpu.arch: gpu for gpu in reversed(GPUS.rows())}
    return [plan, *(replace(plan, gpu=gpus[arch]) for arch in archs if arch != plan.arch)]


def _bound(plan: Plan, k: int, archs: Sequence[str] = ()) -> Bound:
    """The bound's coefficients, the largest of all architectures; they depend on no data."""
    nothing = np.zeros((1, 1))
    found = [bound(one, np.zeros((1, k)), np.zeros((k, 1)), nothing) for one in _on(plan, archs)]
    fields = ("relative_frobenius", "scaled", "coherent", "random")
    return Bound(**{field: max(getattr(one, field) for one in found) for field in fields})


def _bounds(plan: Plan, archs: Sequence[str] = ()) -> list[dict[str, float]]:
    rows = []
    for k in BOUND_K:
        at = _bound(plan, k, archs)
        rows.append({
            "k": k,
            "worst_case": _rounded_up(at.scaled),
            "both_signs": _rounded_up(SAFETY * at.random),
            "one_sign": _rounded_up(SAFETY * max(at.coherent, at.random / math.sqrt(k))),
        })
    return rows


def _status_meanings(plan: Plan) -> list[tuple[str, str]]:
    meanings = {
        "lossy": "finite elements of {} below the words' range, or that lose more than 2^-{}",
        "overflow": "finite elements of {} that the leading word cannot hold",
        "nonfinite": "elements of {} that are Inf or NaN",
    }
    rows = []
    for field in status_fields():
        operand, _, kind = field.partition("_")
        if kind:
            rows.append((field, meanings[kind].format(operand.upper(), plan.scheme.bits)))
        else:
            exact = plan.special == "exact"
            rows.append((field, "elements of C computed again in FP32" if exact else "always 0: special = fast"))
    return rows


def _flushing(plan: Plan, archs: Sequence[str]) -> list[str]:
    """The architectures whose matrix units take subnormal words for zero."""
    return [one.arch for one in _on(plan, archs) if one.fragment.on_matrix_unit and one.gpu.unit.flushes_subnormals]


def _range_text(plan: Plan, archs: Sequence[str]) -> str:
    """What happens to elements beyond the words' range, as lines of a comment."""
    saturates = plan.scheme.words[0].rounding != "nearest_even"
    lines = []
    if plan.scheme.exact:
        lines += ["That is every FP32 number, subnormal ones too: none is rounded, lossy and overflow stay 0."]
    elif plan.scheme.normalize == "row":
        lines += ["Each row of A and column of B is scaled by the power of two that brings its largest",
                  "element near that, so nothing overflows."]
    elif saturates:
        lines += ["A larger one counts as overflow. Its word saturates, so the elements of C that it",
                  "touches may be FINITE AND WRONG."]
    else:
        lines += ["A larger one counts as overflow, and its word is Inf."]
    if plan.special == "exact":
        lines += ["Elements of A B that come out as Inf or NaN are computed again by an FP32 dot product",
                  "and count as repaired; many of them take their time."]
    elif not plan.scheme.exact:
        lines += ["Elements of A B that come out as Inf or NaN stay so, also where FP32 had a number."]
    if plan.scheme.exact:
        return "\n".join(f" * {line}" for line in lines)
    scheme, form = plan.scheme, plan.scheme.format
    flushing, scaled = _flushing(plan, archs), scheme.normalize == "row"
    lowest, words = scheme.lowest(bool(flushing)), "the words"
    if flushing:
        lines += [f"The matrix units of {' and '.join(flushing)} take subnormal words for zero. What an element loses by that is counted",
                  "with the rest."]
        words = "the words that are multiplied"
    if scaled:
        lines += [f"The first bound holds where each element is 0 or at least 2^{lowest - scheme.target_exponent} of the largest of its row of A or",
                  "column of B. Smaller ones count as lossy: all below"
                  f" 2^{form.min_exponent - scheme.target_exponent - 1} of that largest one, and those of",
                  f"which {words} leave more than 2^-{scheme.bits}."]
    else:
        lines += [f"The first bound holds where each element is 0 or at least 2^{lowest} in magnitude. Smaller ones count",
                  f"as lossy: all below 2^{form.min_exponent}" + ("." if lowest == form.min_exponent else f", and those of which {words} leave more than 2^-{scheme.bits}.")]
    return "\n".join(f" * {line}" for line in lines)


def _underflow(plan: Plan, archs: Sequence[str]) -> str:
    """What an element of C may miss besides, where products, sums or itself leave FP32's normal range."""
    each = max(underflow(one, 1) for one in _on(plan, archs))
    if not each:
        return "2^-149"
    per = math.ceil(math.log2(max(underflow(one, k) / k for one in _on(plan, archs) for k in (1, *BOUND_K))))
    scales = " / (scale of the row * scale of the column)" if plan.scheme.normalize == "row" else ""
    return f"2^-149 + k 2^{per}{scales}"


def _stored(plan: Plan) -> dict[str, dict[str, str]]:
    """How the caller's A and B lie in memory."""
    index = {"m": "i", "n": "j", "k": "k"}

    def one(name: str, rows: str, columns: str, transposed: bool) -> dict[str, str]:
        if transposed:
            rows, columns = columns, rows
        told = f"row {index[rows]} at {name} + {index[rows]} * ld{name}"
        return {"rows": rows, "columns": columns, "told": told + ", transposed" * transposed}

    return {"a": one("a", "m", "k", plan.layout[0] == "t"), "b": one("b", "k", "n", plan.layout[1] == "t")}


def _blocks(plan: Plan, grid: Grid) -> str:
    """The blocks of a launch, as C."""
    constants = {"split_k": plan.split_k, "cluster": plan.cluster}

    def factor(extent: str, tile: int) -> str:
        if extent in constants:
            return str(constants[extent])
        return f"gg_tiles({extent if extent in ('m', 'n', 'k') else f'at->{extent}'}, {tile})"

    return " + ".join(" * ".join(factor(*one) for one in product) for product in grid) or "0"


def _role(source: Source, launch: Launch) -> str:
    return launch.symbol.removeprefix(source.name).lstrip("_") or "gemm"


_ROLE_MEANINGS = {
    "absmax": "the largest magnitude of each row of A and column of B",
    "split": "operands into words",
    "gemm": "the product of the words, and C",
}


def _largest_grid(plan: Plan, source: Source) -> tuple[int, str]:
    """Blocks that every launch may have, and the limit behind that in words."""
    return plan.gpu.maker.largest_grid(max(launch.threads for launch in source.launches))


def _context(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, Any]:
    """Everything the templates read."""
    zeroed = [region.name for region in regions(plan) if region.zeroed]
    m, n, k = EXAMPLE_SIZE
    example = _bound(plan, k, archs)
    largest_grid, grid_limit = _largest_grid(plan, source)
    overflows = plan.scheme.normalize != "row" and plan.scheme.format.largest < EXAMPLE_OUTLIER
    return {
        "name": name, "guard": name.upper(), "plan": plan, "version": _numeric_version(), "arch": plan.arch, "archs": archs,
        "platform": f"export/platform/{plan.gpu.maker.platform}.j2", "source_suffix": source.suffix,
        "code_endings": [_code_ending(plan, arch) for arch in archs],
        "target": {
            "archs": archs, "arch_number": plan.arch.removeprefix("sm_"),
            # Spelled out, as nvcc may add PTX of the plain architecture to -arch of one's own instructions.
            "nvcc_arch": f"-gencode arch=compute_{plan.arch[3:]},code={plan.arch}" if plan.fragment.arch else f"-arch={plan.arch}",
            "offload_archs": " ".join(f"--offload-arch={arch}" for arch in archs),
        },
        "standing": standing(plan), "standing_lines": textwrap.wrap(standing(plan), 84), "kernels": source.text.rstrip("\n"),
        "namespace": f"gemmgen_{plan.hash}", **_stored(plan),
        "scheme_line": f"{plan.scheme.name}: {plan.scheme.title}",
        "words": len(plan.scheme.words), "word_type": plan.scheme.word, "largest": f"{plan.scheme.format.largest:g}",
        "range_text": _range_text(plan, archs), "flushing": _flushing(plan, archs), "bounds": _bounds(plan, archs), "underflow": _underflow(plan, archs),
        "codes": [(argument, position, reason) for argument, (position, reason) in _ARGUMENTS.items()],
        "pad": lambda text, width: " " * max(1, width - len(text)),
        "largest_extent": LARGEST_EXTENT, "largest_grid": largest_grid, "grid_limit": grid_limit,
        "alignment": WORKSPACE_ALIGNMENT,
        "status_fields": _status_meanings(plan), "status_bytes": 8 * len(status_fields()),
        "padded": [(extent, of, unit) for extent, (of, unit) in padded(plan).items()],
        "regions": [
            {"name": region.name, "meaning": region.meaning, "last_zeroed": region.name == zeroed[-1],
             "size": " * ".join([str(region.factor), *(f"(uint64_t)at->{extent}" for extent in region.of)])
             + (f" / {region.per}" if region.per > 1 else "")}
            for region in regions(plan)
        ],
        "launches": [
            {"symbol": launch.symbol, "blocks": _blocks(plan, launch.grid), "most_blocks": launch.most_blocks, "threads": launch.threads,
             "blocks_same_b": None if launch.same_b is None else _blocks(plan, launch.same_b),
             "overlaps": launch.overlaps, "shared_bytes": launch.shared_bytes, "params": params, "meaning": _ROLE_MEANINGS[_role(source, launch)]}
            for launch, params in zip(source.launches, parameters(source.launches))
        ],
        "overlapping": any(launch.overlaps for launch in source.launches),
        "keeps_b": any(launch.same_b is not None for launch in source.launches),
        "example": {
            "m": m, "n": n, "k": k, "safety": SAFETY, "worst_case": _rounded_up(example.scaled), "overflow": int(overflows),
            "coherent": _rounded_up(example.coherent), "random": _rounded_up(example.random), **_example_losses(plan, archs),
            "overflow_text": f"the element of 1e6 was {'counted' if overflows else 'within range'}",
        },
        "listing": [(file, meaning) for file, (_, meaning) in _files(plan, source, archs, name).items()],
    }


def _example_losses(plan: Plan, archs: Sequence[str]) -> dict[str, float]:
    """What subnormal words lose of the example's product, relative to it and element by element; 0 where none is lost."""
    losing = [one for one in _on(plan, archs) if one.arch in _flushing(plan, archs)]
    if not losing:
        return {"lost": 0.0, "most_lost": 0.0}
    a, b = _example_matrices()
    product, magnitude = exact(a, b), exact(np.abs(a), np.abs(b))
    least = [np.abs(lost(one, a, b, product)) for one in losing]
    return {
        "lost": max(_rounded_up(float(np.linalg.norm(one) / np.linalg.norm(product)) or U) for one in least),
        "most_lost": max(_rounded_up(float((one / magnitude).max()) or U) for one in least),
    }


def _example_matrices() -> tuple[np.ndarray, np.ndarray]:
    """[M, K] and [K, N] as the example draws them."""
    m, n, k = EXAMPLE_SIZE
    state, drawn = 1, np.empty((k, m + n), np.float32)
    for index in range(drawn.size):
        state = (state * 1664525 + 1013904223) % 2**32
        drawn.flat[index] = (state >> 8) / 2**23 - 1
    return np.ascontiguousarray(drawn[:, :m].T), np.ascontiguousarray(drawn[:, m:])


def _numeric_version() -> str:
    """CMake knows numbers only."""
    return re.match(r"\d+(\.\d+)*", __version__)[0]


def _files(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, tuple[str | None, str]]:
    """file: (template, or None where the content is not text from one; what it is)."""
    api, code = plan.gpu.maker.api, plan.gpu.maker.code
    return {
        f"{name}.h": ("header.h", f"the C header: arguments, errors, accuracy; no {api} in it"),
        f"{name}{source.suffix}": ("kernel", "kernels and launcher, self-contained"),
        **{name + _code_ending(plan, arch): (None, _code_meaning(plan, arch)) for arch in archs},
        MANIFEST: (None, f"how to launch {code}: symbols, grids, arguments, workspace; hashes of all files"),
        "CMakeLists.txt": ("CMakeLists.txt", "builds and installs a static library and the example"),
        f"{name}.pc": ("package.pc", "the pkg-config file; CMake installs it"),
        "example.cpp": ("example.cpp", "a program that calls the library and checks the result"),
        "README.md": ("README.md", "this file"),
    }


def _code_ending(plan: Plan, arch: str) -> str:
    """How the name of the file with the machine code for `arch` ends: AMD's tells which it is, as there may be several."""
    _, suffix = plan.gpu.maker.code_suffixes
    return f"_{arch}{suffix}" if plan.gpu.maker.code_per_arch else suffix


def _code_meaning(plan: Plan, arch: str) -> str:
    return plan.gpu.maker.code_of.format(arch=arch)


def _contents(
    plan: Plan, source: Source, binaries: Sequence[Binary], name: str, refused: Sequence[Mapping[str, Any]] = (),
) -> dict[str, bytes]:
    archs = [binary.arch for binary in binaries]
    context = _context(plan, source, archs, name)
    _check_free(plan, source, archs, context)
    files = {
        file: render_text(f"export/{template}.j2", **context).encode()
        for file, (template, _) in _files(plan, source, archs, name).items() if template
    }
    files |= {name + _code_ending(plan, binary.arch): binary.code for binary in binaries}
    manifest = _manifest(plan, source, binaries, name, files) | ({"refused": list(refused)} if refused else {})
    files[MANIFEST] = (json.dumps(manifest, indent=2, allow_nan=False) + "\n").encode()
    return files


def _check_free(plan: Plan, source: Source, archs: Sequence[str], context: Mapping[str, Any]) -> None:
    """Whether the exported C calls nothing else by the library's name, and no argument is called so, which would hide it.

    Raises:
        SpecError: it does.
    """
    other = "gg_name"
    texts = [
        render_text(f"export/{template}.j2", **{**context, "name": other, "guard": other.upper()})
        for file, (template, _) in _files(plan, source, archs, other).items() if template and file.endswith((".h", ".cpp", source.suffix))
    ]
    called = re.compile(rf"\b{context['name']}\s*\(")
    if context["name"] in (*_ARGUMENTS, "alpha", "beta", "stream") or any(called.search(_COMMENT.sub("", text)) for text in texts):
        raise SpecError("--name", "is a name in the exported files already", got=context["name"], needs="another name", remedy=f"--name my_{context['name']}")


def _manifest(plan: Plan, source: Source, binaries: Sequence[Binary], name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    stored, binary, archs = _stored(plan), binaries[0], [binary.arch for binary in binaries]
    largest_grid, _ = _largest_grid(plan, source)
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": f"gemmgen {__version__}",
        "name": name,
        "computes": "C = alpha A B + beta C in FP32; with beta = 0 C is not read",
        "kernel": source.name,
        "plan": {
            "hash": plan.hash, "layout": plan.layout, "scheme": plan.scheme.name, "fragment": plan.fragment.name,
            "where": plan.where, "loads": plan.loads, "promote": plan.promote, "special": plan.special,
            "block": list(plan.block), "warp": list(plan.warp), "stages": plan.stages, "split_k": plan.split_k,
            "cluster": plan.cluster, "consumers": plan.consumers,
        },
        "target": {"vendor": plan.gpu.vendor, "arch": binary.arch, "gpu": plan.gpu.name},
        "compiler": binary.compiler,
        **(_amd(plan, source, binaries, name) if plan.gpu.maker.recorded else {}),
        "operands": {
            x: {"type": "float", "order": "row major", "rows": at["rows"], "columns": at["columns"],
                "leading_dimension": f"ld{x}"}
            for x, at in {**stored, "c": {"rows": "m", "columns": "n"}}.items()
        },
        "limits": {"largest_extent": LARGEST_EXTENT, "largest_grid": largest_grid},
        "alignment": {"operands": 4, "operands_fastest": 16, "workspace": WORKSPACE_ALIGNMENT},
        "padded": {extent: {"of": of, "multiple": unit} for extent, (of, unit) in padded(plan).items()},
        "workspace": {
            "rule": "regions follow one another; each begins at a multiple of the alignment and has bytes = factor / per * "
                    "product of extents; the whole is a multiple of the alignment, too",
            "alignment": WORKSPACE_ALIGNMENT,
            "zero": "before the first launch, from the start to the end of the last region marked zeroed",
            "regions": [
                {"name": r.name, "element": r.element, "factor": r.factor, "extents": list(r.of), "per": r.per, "zeroed": r.zeroed,
                 "meaning": r.meaning}
                for r in regions(plan)
            ],
        },
        "status": [
            {"name": field, "offset": 8 * i, "type": "unsigned long long", "meaning": meaning}
            for i, (field, meaning) in enumerate(_status_meanings(plan))
        ],
        "launch_rule": "in this order, one-dimensional: blocks = sum over grid of the products of ceil(extent / tile), at most "
                       "largest_grid; where there are more than most_blocks, launch most_blocks; skip a launch of 0 blocks; "
                       "where alpha = 0, launch as if k = 0, because A and B are not to be read",
        "launches": [
            {
                "symbol": launch.symbol, "role": _role(source, launch),
                "grid": [[{"extent": extent, "tile": tile} for extent, tile in product] for product in launch.grid],
                "terms_same_b": None if launch.same_b is None else len(launch.same_b),
                "most_blocks": launch.most_blocks, "cluster": launch.cluster, "overlaps": launch.overlaps,
                "threads": launch.threads, "dynamic_shared_bytes": launch.shared_bytes,
                "static_shared_bytes": binary.kernels[launch.symbol].static_shared_bytes,
                "registers": binary.kernels[launch.symbol].registers,
                "params": [
                    {"name": p.name, "type": p.type, "value": p.value, "meaning": p.meaning} for p in params
                ],
            }
            for launch, params in zip(source.launches, parameters(source.launches))
        ],
        "bound": {
            "statement": "for alpha = 1, beta = 0 and no element counted: worst_case bounds |C - C*| / (|A||B|) of every "
                         "element; both_signs and one_sign are what ||C - C*||_F / ||C*||_F is expected to stay below for data of "
                         "mean zero and for data of one sign"
                         + f"; |C - C*| may exceed the first by {_underflow(plan, archs)}, where numbers leave FP32's normal range",
            "rows": _bounds(plan, archs),
        },
        "sha256": {"kernels": source.hash, **{file: hashlib.sha256(content).hexdigest() for file, content in files.items()}},
    }


def _amd(plan: Plan, source: Source, binaries: Sequence[Binary], name: str) -> dict[str, Any]:
    """What a manifest tells of AMD's kernels alone."""
    return {
        "standing": standing(plan),
        "code_objects": [
            {
                "arch": binary.arch, "file": name + _code_ending(plan, binary.arch),
                "kernels": {launch.symbol: resources(binary.kernels[launch.symbol]) for launch in source.launches},
            }
            for binary in binaries
        ],
    }


# ---- writing


def default_name(plan: Plan) -> str:
    return f"gemmgen_{plan.scheme.name}_{plan.layout}_{plan.hash}"


def check_name(name: str) -> None:
    """Whether `name` will do for functions, files and a CMake target.

    Raises:
        SpecError: it will not.
    """
    needs = "a C identifier of at most 63 characters that begins with a letter and has no two underscores in a row"
    if not _NAME.fullmatch(name) or "__" in name:
        raise SpecError("--name", "is not an identifier", got=name, needs=needs, remedy="--name my_sgemm")
    if reserved(name):
        raise SpecError("--name", "means something to C, C++, CUDA, HIP or CMake already", got=name, needs=f"{needs}, and means nothing yet",
                        remedy=f"--name my_{name}")


def target_archs(plan: Plan, asked: Iterable[str]) -> list[str]:
    """The architectures to compile a plan's kernels for: its own, then the others of `asked`.

    Raises:
        SpecError: another vendor's or a cubin's, one without the plan's matrix instruction, or one of no known GPU.
    """
    others = [arch for arch in dict.fromkeys(asked) if arch != plan.arch]
    known = {gpu.arch for gpu in GPUS.rows()}  # whose matrix units the error bound needs
    possible = [arch for arch in plan.fragment.archs or () if arch in known] or [plan.arch]
    for arch in others:
        if arch not in possible:
            raise SpecError(
                f"--arch {arch}", f"does not run this plan's kernels ({plan.fragment.instruction})", got=arch,
                needs="one of: " + ", ".join(possible), remedy="another spec or --gpu for this architecture",
            )
    return [plan.arch, *others]


def export(
    plan: Plan, source: Source, binary: Binary, directory: str | Path, *, others: Sequence[Binary] = (),
    name: str | None = None, force: bool = False, refused: Sequence[Mapping[str, Any]] = (),
) -> list[Path]:
    """Write the folder; all of it, or nothing.

    Args:
        binary: the source's machine code for the plan's own architecture.
        others: the same for the further ones of `target_archs`.
        directory: the folder to make. One that is there already must be empty or an earlier
            export, which is replaced; files that are not an export's own are never touched.
        name: prefix of the C functions and name of the library.
        force: put the files into a folder that holds others, and over files of the same names.
        refused: what the compiler refused before it took this plan, for the manifest.

    Returns:
        The files, sorted.

    Raises:
        SpecError: the name will not do.
        GemmgenError: the folder holds something else, or cannot be written.
    """
    name = default_name(plan) if name is None else name
    check_name(name)
    target = Path(directory)
    try:
        final = resolved(target)
        stale = _replaceable(target, force)
        files = _contents(plan, source, [binary, *others], name, refused)
        _write(final, files, stale)
    except OSError as error:
        raise GemmgenError(str(target), "cannot be written", got=error.strerror or str(error),
                           needs="a writable place with room", remedy="another -o, or other permissions") from None
    return sorted(target / file for file in files)


def _replaceable(target: Path, force: bool) -> set[str]:
    """Files of an earlier export in the way.

    Raises:
        GemmgenError: something else is.
    """
    if target.exists() and not target.is_dir():
        raise GemmgenError(str(target), "is not a folder", needs="a folder, or a name that is free", remedy="another -o")
    present = {path.name for path in target.iterdir()} if target.is_dir() else set()
    own = _earlier_export(target)
    if present and not own and not force:
        shown = ", ".join(sorted(present)[:3]) + (", ..." if len(present) > 3 else "")
        raise GemmgenError(str(target), "is a folder that holds something else", got=shown,
                           needs="an empty folder, a new one, or an earlier export",
                           remedy="another -o, or --force to put the export's files among them")
    return own & present


def _earlier_export(target: Path) -> set[str]:
    """The files that a manifest in `target` tells of; none without one of ours."""
    try:
        manifest = json.loads(read(target / MANIFEST, MOST_MANIFEST))
        if not manifest["generator"].startswith("gemmgen ") or manifest["schema_version"] > SCHEMA_VERSION:
            return set()
        named = {file for file in manifest["sha256"] if file != "kernels"}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()
    # A name with a folder in it is none that we wrote.
    return {MANIFEST} | {file for file in named if file == os.path.basename(file) and file not in ("", ".", "..")}


def _write(target: Path, files: Mapping[str, bytes], stale: set[str]) -> None:
    """Write beside the target, then move into place; whatever fails, what was there is there again."""
    made = [folder for folder in (target, *target.parents) if not folder.exists()]
    staged = target.parent / f".{target.name}.{os.urandom(6).hex()}.unfinished"
    undo = contextlib.ExitStack()  # moves taken back, last first, unless all succeed
    try:
        for folder in ("new", "old"):
            (staged / folder).mkdir(parents=True)
        for file, content in files.items():
            (staged / "new" / file).write_bytes(content)
        with undo:
            target.mkdir(exist_ok=True)
            for file in sorted(stale | {file for file in files if (target / file).exists()}):
                os.rename(target / file, staged / "old" / file)
                undo.callback(os.rename, staged / "old" / file, target / file)
            # The manifest comes last: where there is one, the export is whole.
            for file in sorted(files, key=lambda file: file == MANIFEST):
                os.rename(staged / "new" / file, target / file)
                undo.callback((target / file).unlink)
            undo.pop_all()
            made = []
    finally:
        shutil.rmtree(staged, ignore_errors=True)
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
