"""Plan -> Source: the only importer of jinja2.

The same Plan gives the same bytes on every machine: no date, host or path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any

from gemmgen import __version__
from gemmgen import plan as plan_module
from gemmgen.catalog.number import ROUNDINGS
from gemmgen.naming import kernel_name
from gemmgen.paths import PACKAGE, TEMPLATES
from gemmgen.plan import Operand, Plan

PLATFORM = {"nvidia": "cuda", "amd": "hip"}
C_TYPES = {"f32": "float"}
"""What accumulators' types are in C."""
SUFFIX = {"nvidia": ".cu", "amd": ".hip"}


Grid = tuple[tuple[tuple[str, int], ...], ...]


@dataclass(frozen=True)
class Launch:
    """One kernel launch, as data: what a runner or another project's host code does.

    Attributes:
        symbol: the kernel's name in the binary.
        grid: the (one-dimensional) grid as a sum of products: each factor is a
            (dimension, tile) that stands for ceil(extent / tile), where dimension
            is m, n, k, or m_padded, n_padded, k_padded, the extents the packed
            stages cover, or split_k, the slices of k, or cluster, blocks of one.
        threads: of a block.
        shared_bytes: dynamic shared memory.
        params: names of the arguments, in order; `param_type` tells each one's type.
        most_blocks: where blocks work off one tile after another, as many as the GPU
            holds at once; more do not help.
        cluster: blocks of a cluster, which the kernel declares itself.
        overlaps: whether it may start while the launch before it in this list still runs: it
            waits for that one's results itself. Where that one is skipped, it may not.
        same_b: of a split pass whose B may be that of the launch before: the part of its grid
            that takes A; None elsewhere.
    """

    symbol: str
    grid: Grid
    threads: int
    shared_bytes: int
    params: tuple[str, ...]
    most_blocks: int | None = None
    cluster: int = 1
    overlaps: bool = False
    same_b: Grid | None = None

    def blocks(self, extents: Mapping[str, int]) -> int:
        """Blocks to launch; 0 means that there is nothing to do."""
        return self._blocks(self.grid, extents)

    def blocks_same_b(self, extents: Mapping[str, int]) -> int:
        """The same where B's words are there from the launch before: a split pass's first blocks take A."""
        return self._blocks(self.grid if self.same_b is None else self.same_b, extents)

    def _blocks(self, grid: Grid, extents: Mapping[str, int]) -> int:
        wanted = sum(prod(-(-extents[dimension] // tile) for dimension, tile in product) for product in grid)
        return min(wanted, self.most_blocks or wanted)


def param_type(name: str) -> str:
    """The C type of a kernel argument: `pointer`, `int`, `long long` or `float`."""
    if name in ("alpha", "beta"):
        return "float"
    if name in ("m", "n", "k"):
        return "int"
    if name in ("lda", "ldb", "ldc"):
        return "long long"
    return "pointer"


@dataclass(frozen=True)
class Source:
    """The text of a kernel and how to launch it.

    Attributes:
        name: of the kernel, and the file's stem.
        text: CUDA C++ or HIP, header-free.
        launches: in order.
        arch: the compile target.
        allow_spills: whether the build accepts spills.
    """

    name: str
    text: str
    suffix: str
    launches: tuple[Launch, ...]
    arch: str
    allow_spills: bool

    @property
    def file_name(self) -> str:
        return self.name + self.suffix

    @property
    def hash(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@cache
def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([TEMPLATES, PACKAGE]),  # a design's template stands in the design's own folder
        undefined=jinja2.StrictUndefined,
        # Away from everything that C++, inline PTX and GCN assembly write.
        variable_start_string="${", variable_end_string="}",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        line_statement_prefix="%%", line_comment_prefix="%#",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals.update(
        power=_power, roundings=ROUNDINGS, times=_times, divided=_divided, modulo=_modulo, plus=_plus, stepping=_stepping, plural=_plural, numbered=_numbered,
    )
    environment.filters.update(nested=_nested, c_type=C_TYPES.__getitem__)
    return environment


# Sums and products as C, without what does nothing: a factor of 1, a term of 0. Terms are C that needs no brackets there.


def _times(x: str, factor: int) -> str:
    return "0" if factor == 0 or x == "0" else x if factor == 1 else f"{x} * {factor}"


def _divided(x: str, by: int) -> str:
    return x if by == 1 or x == "0" else f"{x} / {by}"


def _modulo(x: str, by: int) -> str:
    return "0" if by == 1 or x == "0" else f"{x} % {by}"


def _plus(*terms: str) -> str:
    return " + ".join(term for term in map(str, terms) if term not in ("", "0")) or "0"


def _stepping(name: str, step: int) -> str:
    """How a loop goes on."""
    return f"++{name}" if step == 1 else f"{name} += {step}"


def _numbered(first: int, count: int) -> str:
    """The operands of inline assembly from number `first` on."""
    return ", ".join(f"%{first + i}" for i in range(count))


def _plural(count: int, one: str, several: str = "") -> str:
    """`1 row`, `2 rows`."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def _nested(text: str, columns: int = 0) -> str:
    """The lines of `text` so many columns to the right, but for the preprocessor's; without blank lines at either end."""
    return "\n".join(line if not line or line.startswith("#") else " " * columns + line for line in text.strip("\n").split("\n"))


def _power(exponent: int) -> str:
    """2^exponent as a C literal that is exact and readable."""
    return f"0x1p{exponent:+d}f"


def _design_file(plan: Plan) -> str:
    """The template of the plan's design, as the loader finds it."""
    name = "tensor_memory" if plan.in_tensor_memory else "specialised" if plan.specialised else "portable"
    return f"designs/{name}/kernel.j2"


def render(plan: Plan) -> Source:
    """The source of a plan's kernels."""
    name = kernel_name(plan)
    names = {"gemm": name, "split": f"{name}_split", "absmax": f"{name}_absmax"}
    text = _environment().get_template("gemm.j2").render(
        plan=plan,
        platform=f"platform/{PLATFORM[plan.gpu.vendor]}.j2",
        atom_file=f"atoms/{plan.fragment.atom}",
        design_file=_design_file(plan),
        header=_header(plan, name),
        names=names,
        used_roundings=sorted({word.rounding for word in plan.scheme.words}),
        constants=SimpleNamespace(
            threads=plan_module.SPLIT_THREADS,
            tile_outer=plan_module.SPLIT_TILE_OUTER,
            tile_k=plan_module.SPLIT_TILE_K,
            elements=plan_module.SPLIT_ELEMENTS,
            absmax_outer=plan.absmax_outer,
            absmax_k=plan_module.ABSMAX_TILE_K,
        ),
    )
    return Source(
        name=name, text=_tidy(text), suffix=SUFFIX[plan.gpu.vendor],
        launches=_launches(plan, names), arch=plan.arch, allow_spills=plan.allow_spills,
    )


def render_text(template: str, **values: Any) -> str:
    """Any other text from a template, by its path under templates/ or, of a design's own, under the package."""
    return _tidy(_environment().get_template(template).render(**values))


def _tidy(text: str) -> str:
    """No trailing blanks, at most one blank line in a row, and none where a block begins or ends."""
    lines: list[str] = []
    for line in map(str.rstrip, text.splitlines()):
        namespace = "namespace" in (line or (lines or [""])[-1])
        if line.lstrip().startswith("}") and not namespace and lines and not lines[-1]:
            lines.pop()
        if line or (lines and lines[-1] and (namespace or not lines[-1].endswith("{"))):
            lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"


def _header(plan: Plan, name: str) -> str:
    scheme, (bm, bn, bk), (wm, wn, _) = plan.scheme, plan.block, plan.warp
    products = " + ".join(f"A{p.a} B{p.b}" for p in scheme.products)
    dropped = ", ".join(f"A{i} B{j}" for i, j in scheme.dropped) or "none"
    facts = {
        "kernel": name,
        "computes": f"C = alpha A B + beta C in FP32, layout {plan.layout} (row major), any m, n, k",
        "scheme": f"{scheme.name}: {scheme.title}",
        "words": f"{len(scheme.words)} x {scheme.word}, {scheme.bits} bits; products {products}; dropped {dropped}",
        "promote": plan.promote_label,
        "special": plan.special,
        "fragment": plan.fragment.instruction,
        "tiles": f"block {bm}x{bn}x{bk}, warp {wm}x{wn}, {plan.stages} stages, {plan.threads} threads"
                 + (f", clusters of {plan.cluster}" if plan.cluster > 1 else ""),
        "shared": f"{plan.shared_bytes} B {'static' if plan.static_shared else 'dynamic'}",
        **({"checked": plan.standing} if plan.standing else {}),
        "target": plan.arch,
        "plan": f"{plan.hash}, rendered by gemmgen {__version__}",
    }
    lines = [f"// {key:<9} {value}" for key, value in facts.items()]
    return "\n".join([*lines, "// Generated: change the spec, not this file. It may be used without condition."])


def _over(operands: Sequence[Operand], tile_outer: int, tile_k: int, padded: bool = False) -> Grid:
    """The blocks of a kernel whose first blocks take A and whose others take B, or all B."""
    end = "_padded" if padded else ""
    return tuple(((operand.outer + end, tile_outer), ("k" + end, tile_k)) for operand in operands)


def _launches(plan: Plan, names: Mapping[str, str]) -> tuple[Launch, ...]:
    before, scaled, sliced = plan.split_before, plan.scheme.normalize == "row", plan.split_k > 1
    words = tuple(f"{operand.name}_words" for operand in before)
    inside = tuple(f"{x}_status" for x in "ab" if f"{x}_words" not in words)
    launches: list[Launch] = []
    operands = ("a", "lda", "b", "ldb")
    absmax = ("a_absmax", "b_absmax") if scaled else ()
    if scaled:
        launches.append(Launch(
            symbol=names["absmax"], grid=_over(before, plan.absmax_outer, plan_module.ABSMAX_TILE_K),
            threads=plan_module.SPLIT_THREADS, shared_bytes=0, params=(*operands, "m", "n", "k", *absmax),
        ))
    if before:
        launches.append(Launch(
            symbol=names["split"],
            grid=_over(before, plan_module.SPLIT_TILE_OUTER, plan_module.SPLIT_TILE_K, padded=True),
            threads=plan_module.SPLIT_THREADS, shared_bytes=0,
            params=(*operands, "m", "n", "k", *words, *absmax, *(f"{operand.name}_status" for operand in before)),
            same_b=None if scaled else _over(
                [operand for operand in before if operand.name == "a"], plan_module.SPLIT_TILE_OUTER, plan_module.SPLIT_TILE_K, padded=True,
            ),
        ))
    launches.append(Launch(
        symbol=names["gemm"],
        grid=((
            ("m", plan.block[0] * plan.cluster), ("n", plan.block[1]), *((("split_k", 1),) if sliced else ()),
            *((("cluster", 1),) if plan.cluster > 1 else ()),
        ),),
        threads=plan.threads, shared_bytes=0 if plan.static_shared else plan.shared_bytes,
        params=(
            *words, *absmax,
            *(operands if plan.takes_operands else ()),
            "c", "ldc", "m", "n", "k", "alpha", "beta",
            *inside,
            *(("parts", "arrived") if sliced else ()),
            *(("repaired",) if plan.special == "exact" else ()),
        ),
        most_blocks=plan.resident_blocks if plan.specialised else None, cluster=plan.cluster, overlaps=plan.specialised,
    ))
    return tuple(launches)
