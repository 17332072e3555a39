"""Plan -> Source: the only importer of jinja2.

The same Plan gives the same bytes on every machine: no date, host or path.
"""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import MAGIC_NUMBER
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gemmgen import __version__, abi, views
from gemmgen.batch import POINTERS
from gemmgen.cache import Cache
from gemmgen.catalog.element import ELEMENTS
from gemmgen.catalog.number import ROUNDINGS
from gemmgen.catalog.scheme import MOST_TILE_EXPONENT, OUTLIER
from gemmgen.designs import all_designs
from gemmgen.designs.residues import norms
from gemmgen.kinds import solves
from gemmgen.model import time
from gemmgen.paths import TEMPLATES
from gemmgen.plan import Plan
from gemmgen.shown import Shown
from gemmgen.unused import without_unused

HEADER_WIDTH = 140
"""Columns of a value in a kernel's header."""
C_TYPES = {"f32": "float", "s32": "int"}
"""What accumulators' types are in C."""


@dataclass(frozen=True, repr=False)
class Source(Shown):
    """The text of a kernel and how to launch it.

    Attributes:
        name: of the kernel, and the file's stem.
        text: CUDA C++ or HIP, header-free.
        interface: what its kernels agree on with their callers, launches among it; None of a text that no plan made.
        arch: the compile target.
        allow_spills: whether the build accepts spills.
    """

    name: str
    text: str
    suffix: str
    interface: abi.Interface | None
    arch: str
    allow_spills: bool

    def _told(self) -> dict[str, Any]:
        launches = ", ".join(launch.symbol for launch in self.launches) if self.interface else None
        return {"name": self.name, "arch": self.arch, "lines": self.text.count("\n"), "launches": launches, "sha256": self.hash[:16]}

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


TEMPLATE_CACHE = Cache(name="templates")
"""Jinja's code of each template: to compile the templates of one kernel takes eight times as long as to render it."""


def _kept_templates() -> Any:
    """What Jinja keeps that code in; by the template's name and text, the filters whose results it holds, and the versions of Jinja and Python."""
    import jinja2

    maker = b"\0".join([jinja2.__version__.encode(), MAGIC_NUMBER, Path(__file__).read_bytes(), repr(C_TYPES).encode()])

    class Kept(jinja2.BytecodeCache):
        def get_cache_key(self, name: str, filename: str | None = None) -> str:
            return name  # wherever the checkout lies

        def load_bytecode(self, bucket: Any) -> None:
            if parts := TEMPLATE_CACHE.get(self.key(bucket)):
                bucket.bytecode_from_string(parts["code"])

        def dump_bytecode(self, bucket: Any) -> None:
            TEMPLATE_CACHE.put(self.key(bucket), {"code": bucket.bytecode_to_string()})

        def key(self, bucket: Any) -> str:
            return hashlib.sha256(b"\0".join([maker, bucket.key.encode(), bucket.checksum.encode()])).hexdigest()

    return Kept()


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
        autoescape=False, bytecode_cache=_kept_templates(),
    )
    environment.globals.update(
        power=_power, roundings=ROUNDINGS, pointers_stride=POINTERS,
        most_tile_exponent=MOST_TILE_EXPONENT, all_elements=tuple(ELEMENTS.values()), trsm=solves.TRSM, vendors=time,
        times=_times, divided=_divided, modulo=_modulo, plus=_plus, stepping=_stepping, plural=_plural, numbered=_numbered,
    )
    environment.filters.update(nested=_nested, bracketed="({})".format, c_type=C_TYPES.__getitem__, nibbles=_nibbles, names=_names)
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


def _nibbles(values: Sequence[int]) -> str:
    """Numbers below 16 as one of C, four bits each, the first lowest."""
    return f"0x{sum(value << 4 * at for at, value in enumerate(values)):x}ull"


def _names(text: str, name: str) -> bool:
    """Whether a text of C names that."""
    return re.search(rf"\b{name}\b", text) is not None


def _power(exponent: int) -> str:
    """2^exponent as a C literal that is exact and readable."""
    return f"0x1p{exponent:+d}f"


def c_power(factor: float) -> str:
    """The same of a power of two."""
    return _power(round(math.log2(factor)))


def render(plan: Plan) -> Source:
    """The source of a plan's kernels."""
    interface = abi.interface(plan)
    launches = {launch.role: launch for launch in interface.launches}
    name = launches["gemm"].symbol
    text = _text(plan, name, launches)
    if plan.fallback:
        text += "\n" + _text(plan.fallback, launches[abi.FALLBACK].symbol, {"gemm": launches[abi.FALLBACK]})
    return Source(
        name=name, text=_tidy(text), suffix=plan.gpu.maker.files.source_suffix,
        interface=interface, arch=plan.arch, allow_spills=plan.allow_spills,
    )


def _text(plan: Plan, name: str, launches: Mapping[str, abi.Launch]) -> str:
    """The text of a plan's kernels.

    Args:
        launches: by role.
    """
    return without_unused(_environment().get_template("gemm.j2").render(
        plan=plan, outlier=OUTLIER,
        platform=f"platform/{plan.gpu.maker.platform}.j2",
        atom_file=plan.design.atom(plan.fragment),
        c_functions=(plan.output.functions or {}).get(plan.gpu.maker.platform, ""),
        end_functions=plan.epilogue.functions(plan.gpu.maker.platform),
        design_file=plan.design.template,
        schedule_file=plan.design.text.schedule,
        header=_header(plan, name),
        launches=launches,
        used_roundings=sorted({(word.rounding, word.type) for operand in "ab" for word in plan.words_of(operand) if not word.fixed}),
        constants=SimpleNamespace(
            threads=views.SPLIT_THREADS,
            tile_outer=plan.launches.split_tile[0],
            tile_k=plan.launches.split_tile[1],
            elements=plan.launches.split_elements,
            runs=views.SPLIT_RUNS,
            absmax_outer=plan.launches.absmax_outer,
            absmax_k=views.ABSMAX_TILE_K,
            whole_floats=views.WHOLE_FLOATS,
            whole_columns=views.WHOLE_COLUMNS,
            run_floats=views.RUN_FLOATS,
            residue_blocks=_residue_blocks(plan),
            given_blocks=views.GIVEN_BLOCKS,
            norms=norms,
            solves=solves,
        ),
    ))


def _residue_blocks(plan: Plan) -> int:
    """Of the pass that splits into residues: how many an SM holds at once."""
    if not plan.launches.splits_whole:
        return views.RESIDUE_BLOCKS - bool(plan.batch)
    # Strides take registers, those of complex elements that are read once the most: ptxas spilled 8 B of 128. Of complex elements along k it spilled
    # 92 B of 80 for sm_90a, and 8 B where both operands lie along k and a thread reads all of its part at once.
    along = any(plan.operands["ab".index(operand)].k_contiguous for operand in plan.kind.given)
    short = plan.launches.whole_floats == views.LEAST_FLOATS and all(operand.k_contiguous for operand in plan.launches.split_before)
    return views.RESIDUE_BLOCKS - max(bool(plan.batch) * plan.kind.reals, int(along or short))


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


def _words(plan: Plan) -> str:
    """How many words of which type an element is split into; where A and B differ, of both."""
    def told(operand: str) -> str:
        types = [word.type for word in plan.words_of(operand)]
        return ", ".join(f"{types.count(kind)} x {kind}" for kind in dict.fromkeys(types))

    if plan.scheme.uniform:
        of_a, of_b = (len(plan.words_of(operand)) for operand in "ab")
        return f"{of_a if of_a == of_b else f'{of_a} and {of_b}'} x {plan.scheme.leading}"
    return told("a") if plan.scheme.alike else f"{told('a')} of A and {told('b')} of B"


def _header(plan: Plan, name: str) -> str:
    scheme = plan.scheme
    products = " + ".join(f"A{p.a} B{p.b}" for p in scheme.products)
    given = "" if plan.inputs.stored_b.is_usual else f", B given as {plan.inputs.stored_b.title}"
    stored = "" if plan.output.is_usual else f", stored as {plan.output.title}"
    ended = f", and of that {plan.epilogue.title}" if plan.epilogue else ""
    dropped = ", ".join(f"A{i} B{j}" for i, j in scheme.precision.dropped) or "none"
    if scheme.moduli:
        products = f"of the residues modulo {', '.join(map(str, scheme.moduli))}"
    facts = {
        "kernel": name,
        "computes": f"{plan.kind.formula} in {plan.kind.element_of(plan.type).title}{given}{ended}{stored}, "
        f"layout {plan.kind.layout_of(plan.layout)} (row major), any m, n, k",
        "scheme": f"{scheme.name}: {scheme.title}",
        "words": f"{_words(plan)}, {scheme.precision.bits} bits; products {products}; dropped {dropped}",
        "promote": plan.promotion.promote_label,
        "special": plan.special,
        "fragment": ", ".join(rows.fragment.instruction for rows in plan.staging.rows_of.values()),
        "decided": plan.summary,
        "block": f"{plan.threads} threads, {plan.shared_bytes} B of {'static' if plan.geometry.static_shared else 'dynamic'} shared memory",
        **({"checked": plan.standing} if plan.standing else {}),
        **({"chosen": "; ".join(plan.asked)} if plan.asked else {}),
        "target": plan.arch,
        "plan": f"{plan.hash}, rendered by gemmgen {__version__}",
    }
    lines = [
        f"// {key if first else '':<9} {line}" for key, value in facts.items()
        for first, line in zip(chain([True], repeat(False)), textwrap.wrap(value, HEADER_WIDTH))
    ]
    return "\n".join([*lines, "// Generated: change the spec, not this file. It may be used without condition."])
