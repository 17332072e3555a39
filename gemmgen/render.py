"""Plan -> Source: the only importer of jinja2.

The same Plan gives the same bytes on every machine: no date, host or path.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from gemmgen import __version__, abi
from gemmgen import plan as plan_module
from gemmgen.catalog.number import ROUNDINGS
from gemmgen.designs import all_designs
from gemmgen.paths import TEMPLATES
from gemmgen.plan import Plan

C_TYPES = {"f32": "float"}
"""What accumulators' types are in C."""


@dataclass(frozen=True)
class Source:
    """The text of a kernel and how to launch it.

    Attributes:
        name: of the kernel, and the file's stem.
        text: CUDA C++ or HIP, header-free.
        interface: what its kernels agree on with their callers, launches among it.
        arch: the compile target.
        allow_spills: whether the build accepts spills.
    """

    name: str
    text: str
    suffix: str
    interface: abi.Interface
    arch: str
    allow_spills: bool

    @property
    def launches(self) -> tuple[abi.Launch, ...]:
        """In order."""
        return self.interface.launches

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
        # A design's templates stand in the design's own folder.
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(TEMPLATES), jinja2.PrefixLoader({
            "designs": jinja2.PrefixLoader({one.name: jinja2.FileSystemLoader(one.folder) for one in all_designs()}),
        })]),
        undefined=jinja2.StrictUndefined,
        # Away from everything that C++, inline PTX and GCN assembly write.
        variable_start_string="${", variable_end_string="}",
        block_start_string="<%", block_end_string="%>",
        comment_start_string="<#", comment_end_string="#>",
        line_statement_prefix="%%", line_comment_prefix="%#",
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    )
    environment.globals.update(power=_power, roundings=ROUNDINGS)
    environment.filters.update(nested=_nested, c_type=C_TYPES.__getitem__)
    return environment


def _nested(text: str, columns: int = 0) -> str:
    """The lines of `text` so many columns to the right, but for the preprocessor's; without blank lines at either end."""
    return "\n".join(line if not line or line.startswith("#") else " " * columns + line for line in text.strip("\n").split("\n"))


def _power(exponent: int) -> str:
    """2^exponent as a C literal that is exact and readable."""
    return f"0x1p{exponent:+d}f"


def render(plan: Plan) -> Source:
    """The source of a plan's kernels."""
    interface = abi.interface(plan)
    launches = {launch.role: launch for launch in interface.launches}
    name = launches["gemm"].symbol
    text = _environment().get_template("gemm.j2").render(
        plan=plan,
        platform=f"platform/{plan.gpu.maker.platform}.j2",
        atom_file=f"atoms/{plan.fragment.atom}",
        design_file=f"designs/{plan.design.name}/kernel.j2",
        header=_header(plan, name),
        launches=launches,
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
        name=name, text=_tidy(text), suffix=plan.gpu.maker.source_suffix,
        interface=interface, arch=plan.arch, allow_spills=plan.allow_spills,
    )


def render_text(template: str, **values: Any) -> str:
    """Any other text from a template, by its path under templates/ or, of a design's own, under the package."""
    return _tidy(_environment().get_template(template).render(**values))


def _tidy(text: str) -> str:
    """No trailing blanks, at most one blank line in a row."""
    lines: list[str] = []
    for line in text.splitlines():
        line = line.rstrip()
        if line or (lines and lines[-1]):
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
        **({"chosen": "; ".join(plan.asked)} if plan.asked else {}),
        "target": plan.arch,
        "plan": f"{plan.hash}, rendered by gemmgen {__version__}",
    }
    lines = [f"// {key:<9} {value}" for key, value in facts.items()]
    return "\n".join([*lines, "// Generated: change the spec, not this file. It may be used without condition."])
