"""The files of an export: C text from the source's table and what `prose` says, and which file is what."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from gemmgen import __version__
from gemmgen.interface import BATCH, COUNTER_BYTES, SOLVE, STATUS, WORKSPACE_ALIGNMENT, Grid, Interface, Parameter
from gemmgen.errors import SpecError
from gemmgen.export import batch, prose
from gemmgen.export.manifest import MANIFEST, code_ending, manifest
from gemmgen.kinds import solves
from gemmgen.plan import Plan
from gemmgen.render import Source, render_text
from gemmgen.verify import standing
from gemmgen.verify.bound import SAFETY

if TYPE_CHECKING:
    from gemmgen.build import Binary

EXAMPLE_OUTLIER = 1e6  # stands in the template too

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ARGUMENTS = {  # of the C function, by position from 1: why they can be refused
    "m": (1, "below 0 or above the largest extent"),
    "n": (2, "below 0 or above the largest extent"),
    "k": (3, "below 0 or above the largest extent"),
    "alpha": (4, ""),
    "a": (5, "NULL, and A is to be read"),
    "lda": (6, "below 1 or below a row's length"),
    "b": (7, "NULL, and B is to be read"),
    "ldb": (8, "below 1 or below a row's length"),
    "beta": (9, ""),
    "c": (10, "NULL, and C has elements"),
    "ldc": (11, "below 1 or below a row's length"),
    "workspace": (12, "NULL, or not aligned"),
    "workspace_bytes": (13, "less than these sizes need"),
}
_BATCHED = _ARGUMENTS | {  # the same of a strided batch, whose strides follow the leading dimensions
    "stride_a": (7, ""),
    "b": (8, _ARGUMENTS["b"][1]),
    "ldb": (9, _ARGUMENTS["ldb"][1]),
    "stride_b": (10, ""),
    "beta": (11, ""),
    "c": (12, _ARGUMENTS["c"][1]),
    "ldc": (13, _ARGUMENTS["ldc"][1]),
    "stride_c": (14, "two matrices of C would overlap"),
    "batch": (15, "below 0"),
    "workspace": (16, _ARGUMENTS["workspace"][1]),
    "workspace_bytes": (17, _ARGUMENTS["workspace_bytes"][1]),
}
EXAMPLE_BATCH = 3
EXAMPLE_NUMBER = 0.5
"""What the example gives an epilogue for each number."""


_OF_PARTS = {one: f"2 * {one}" for one in ("n", "k", "lda", "ldb", "ldc")}
"""What the real product of a complex one is given, by the argument of a parameter."""


def _passed(parameter: Parameter, plan: Plan) -> str:
    """What a parameter is given, as C."""
    if parameter.region is None:
        factor, _, part = str(parameter.argument).partition("_i")
        if factor in plan.kind.imaginary:
            return f"{f'of_{factor}' if plan.kind.exchanged else factor}[{int(parameter.argument != factor)}]"
        return str(parameter.argument) if plan.kind.reals == 1 else _OF_PARTS.get(parameter.argument, str(parameter.argument))
    return f"(base + at.{parameter.region}" + (f" + {parameter.offset})" if parameter.offset else ")")


def _extent(extent: str) -> str:
    """An argument of the call, or what the layout has of it, as C."""
    return extent if extent in ("m", "n", "k", BATCH) else f"at->{extent}"


def _blocks(interface: Interface, grid: Grid) -> str:
    """The blocks of a launch, as C."""
    def factor(extent: str, tile: int) -> str:
        if extent in interface.constants:
            return str(interface.constants[extent])
        return _extent(extent) if extent == BATCH else f"gg_tiles({_extent(extent)}, {tile})"

    def times(product: Sequence[tuple[str, int]]) -> str:
        factors = [factor(*one) for one in product]
        return reduce(lambda x, y: f"gg_times({x}, {y})", factors) if interface.batched else " * ".join(factors)

    return " + ".join(map(times, grid)) or "0"


def template_values(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, Any]:
    """Everything the templates read; `batch` only those of a kernel for whole batches."""
    interface = source.interface
    zeroed = [buffer.name for buffer in interface.buffers if buffer.zeroed]
    again = [buffer.name for buffer in interface.buffers if buffer.zeroed_again and buffer.name != STATUS]
    counters = [field for counters in interface.counters for field in counters.fields]
    m, n, k = prose.example_size(plan)
    k = prose.EXAMPLE_SYSTEM[0] if plan.kind.solves else k
    example = prose.coefficients(plan, k * plan.kind.reals, archs)
    largest_grid, grid_limit = prose.largest_grid(plan, source)
    overflows = not plan.scheme.precision.whole_range and plan.scheme.words_of("a")[0].largest < EXAMPLE_OUTLIER
    return {
        **_of_batches(plan, source, archs, name),
        "name": name, "guard": name.upper(), "plan": plan, "version": numeric_version(), "arch": plan.arch, "archs": archs,
        "platform": f"export/platform/{plan.gpu.maker.platform}.j2", "source_suffix": source.suffix,
        "code_endings": [code_ending(plan, archs, arch) for arch in archs],
        "real": plan.type.c_type, "exact": "double" if plan.type.is_usual else "long double",
        **_of_stored_b(plan), **_of_kind(plan),
        "target": {
            "archs": archs, "arch_numbers": " ".join(arch.removeprefix("sm_") for arch in archs),
            # Spelled out, as nvcc may add PTX of the plain architecture to -arch of one's own instructions.
            "nvcc_archs": " ".join(f"-gencode arch=compute_{arch[3:]},code={arch}" for arch in archs)
            if plan.fragment.arch or len(archs) > 1 else f"-arch={plan.arch}",
            **_wrong_arch(plan, name),
            "offload_archs": " ".join(f"--offload-arch={arch}" for arch in archs),
        },
        "standing": standing(plan), "standing_lines": textwrap.wrap(standing(plan), 84), "kernels": source.text.rstrip("\n"),
        "namespace": f"gemmgen_{plan.hash}", **prose.stored(plan),
        "scheme_line": f"{plan.scheme.name}: {plan.scheme.title}",
        "words": prose.words(plan), "largest": f"{plan.scheme.words_of('a')[0].largest:g}",
        "range_text": prose.range_text(plan, archs), "flushing": prose.flushing(plan, archs), "bounds": prose.bounds(plan, archs),
        "promise_lines": textwrap.wrap(f"{prose.promise(plan)},", 84), "underflow": prose.underflow_text(plan, archs),
        "codes": _codes(plan, interface.batched), **_batch_text(interface.batched, _strided(plan)),
        **_ends_text(plan, interface.batched),
        "pad": lambda text, width: " " * max(1, width - len(text)),
        **_limits(plan), **_of_factors(plan),
        "measure": prose.measure(plan), "residual": prose.residual(plan) if plan.kind.solves else "",
        "largest_grid": largest_grid, "grid_limit": grid_limit, "alignment": WORKSPACE_ALIGNMENT,
        "status_fields": [(field.name, field.meaning) for field in counters], "status_bytes": COUNTER_BYTES * len(counters),
        "zeroed_again": again[:1],
        "padded": [(extent, of, unit) for extent, (of, unit) in interface.padded.items()],
        "regions": [
            {"name": buffer.name, "meaning": buffer.meaning, "last_zeroed": buffer.name == zeroed[-1],
             "size": (f"k <= {buffer.above_k} ? 0 : " if buffer.above_k else "")
             + " * ".join([str(buffer.factor), *(f"(uint64_t){_extent(extent)}" for extent in buffer.of)])
             + (f" / {buffer.per}" if buffer.per > 1 else "")}
            for buffer in interface.buffers
        ],
        "launches": [
            {"symbol": launch.symbol, "role": launch.role, "solves": launch.role == SOLVE, "blocks": _blocks(interface, launch.grid),
             "most_blocks": launch.most_blocks, "threads": launch.threads,
             "blocks_same_b": None if launch.same_b is None else _blocks(interface, launch.same_b),
             "overlaps": launch.overlaps, "shared_bytes": launch.shared_bytes, "meaning": launch.meaning,
             "params": [{"type": one.type, "expression": _passed(one, plan)} for one in launch.parameters]}
            for launch in interface.launches
        ],
        "overlapping": any(launch.overlaps for launch in source.launches),
        "keeps_b": any(launch.same_b is not None for launch in source.launches),
        "example": {
            "m": m, "n": n, "k": k, "safety": SAFETY, "worst_case": prose.rounded_up(example.scaled), "overflow": int(overflows),
            "coherent": prose.rounded_up(example.coherent), "random": prose.rounded_up(example.random), **prose.example_losses(plan, archs),
            "unknowns": prose.EXAMPLE_SYSTEM[0], "others": prose.EXAMPLE_SYSTEM[1],
            "overflow_text": f"the element of 1e6 was {'counted' if overflows else 'within range'}",
        },
        "listing": [(file, meaning) for file, (_, meaning) in _files(plan, source, archs, name).items()],
    }


def _wrong_arch(plan: Plan, name: str) -> dict[str, str]:
    """When the compiler is told another NVIDIA architecture than the kernels', as the preprocessor sees it, and what it says then."""
    number = plan.arch.removeprefix("sm_")
    if plan.fragment.arch and number.endswith("a"):
        digits = number[:-1]
        return {"wrong_arch": f"defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM{digits}_ALL)",
                "wrong_arch_told": f"{name} is for {plan.arch} alone: nvcc -gencode arch=compute_{number},code={plan.arch}"}
    return {"wrong_arch": f"defined(__CUDA_ARCH__) && __CUDA_ARCH__ < {10 * int(re.search('[0-9]+', number)[0])}",
            "wrong_arch_told": f"{name} is for {plan.arch} and later: nvcc -arch={plan.arch}"}


def _codes(plan: Plan, batched: bool) -> list[tuple[str, int, str]]:
    """The arguments of the C function that can be refused, each with its position from 1 and why: those of the epilogue stand before the workspace."""
    known = _BATCHED if batched else _ARGUMENTS
    first = known["workspace"][0]
    given = [name for name, _ in _ends(plan, batched)]
    vectors = [(name, first + at, "NULL, and C has elements") for at, name in enumerate(given) if name in plan.inputs.vectors]
    known = known | {factor: (known[factor][0], "NULL") for factor in plan.kind.imaginary}
    left = {argument: position for argument, (position, _) in known.items() if argument in plan.kind.aliases or argument in _none_of(plan)}
    moved = [
        (argument, position + (len(given) if position >= first else 0) - sum(before < position for before in left.values()), reason)
        for argument, (position, reason) in known.items() if argument not in left and reason
    ]
    return sorted(moved + vectors, key=lambda one: one[1])


def _none_of(plan: Plan) -> tuple[str, ...]:
    """Arguments that a kind which solves has not: its other operand is C, and what C held counts always."""
    other = "b" if plan.kind.solves and plan.kind.left else "a"
    return (other, f"ld{other}", f"stride_{other}", "beta") if plan.kind.solves else ()


def _ends(plan: Plan, batched: bool) -> list[tuple[str, str]]:
    """What the C function is given for the epilogue: names and C types."""
    found = []
    for one in plan.epilogue.arguments:
        found.append((one.name, "const float *" if one.is_vector else "float "))
        found += [(one.stride, "int64_t ")] if one.is_vector and batched else []
    return found


def _ends_text(plan: Plan, batched: bool) -> dict[str, Any]:
    """What the C text of a kernel with an epilogue has besides."""
    given, ended = _ends(plan, batched), plan.epilogue
    slope, own, unscaled = 1.0, 0.0, 1.0
    for step in ended.steps:
        grows, alone = (float(step.slope(*[number] * len(step.arguments))) for number in (EXAMPLE_NUMBER, 1.0))
        slope, own, unscaled = slope * grows, own * max(1.0, grows) + step.roundoff, unscaled * alone
    return {
        "ends": ended, "ends_declared": "".join(f", {kind}{name}" for name, kind in given), "ends_passed": "".join(f", {name}" for name, _ in given),
        "ends_example": "".join(f", {'0' if kind == 'int64_t ' else f'device_{name}' if name in plan.inputs.vectors else name}" for name, kind in given),
        "ends_refused": "".join(", nullptr" if name in plan.inputs.vectors else ", 0" for name, _ in given),
        "ends_told": f", and of that {ended.title}" if ended else "", "example_number": EXAMPLE_NUMBER, "ends_slope": slope, "ends_own": own,
        "ends_grows": unscaled,
    }


def _strided(plan: Plan) -> str:
    """The operands of which the C function of a batch is given a stride."""
    return f"{plan.solved.name}c" if plan.kind.solves else "ac" if plan.kind.one_operand else "abc"


def _batch_text(batched: bool, operands: str = "abc") -> dict[str, Any]:
    """What the C function of a strided batch of these operands has besides: declared, and passed on."""
    def strides(text: str) -> dict[str, str]:
        return {x: text.format(x=x) if batched and x in operands else "" for x in "abc"}

    return {
        "batched": batched, "stride_declared": strides(", int64_t stride_{x}"), "stride_passed": strides(", stride_{x}"),
        "batch_declared": ", int batch" if batched else "", "batch_passed": ", batch" if batched else "", "example_batch": EXAMPLE_BATCH,
    }


def _of_stored_b(plan: Plan) -> dict[str, str]:
    """How the C text speaks of B's elements, and how the example draws one."""
    if plan.inputs.stored_b.is_usual:
        return {"b_type": plan.type.c_type, "b_told": "", "b_bits": "", "draw_b": "draw()", "b_data": "b", "any_b": "any",
                "b_aligned": f"{plan.type.bytes} bytes"}
    return {"b_type": "uint16_t", "b_told": f", B given as {plan.inputs.stored_b.title}", "b_bits": f", bits of {plan.inputs.stored_b.title} numbers",
            "draw_b": "std::floor(128 * draw()) / 128", "b_data": "given_b", "any_b": "any_b", "b_aligned": "an element's own size"}


def _of_kind(plan: Plan) -> dict[str, Any]:
    """What the C function is given of sizes and operands: not what the kind of product passes on from another argument, as n of a square C."""
    kind = plan.kind
    square, alone = kind.aliases.get("n") == "m", kind.one_operand
    sizes = tuple(one for one in "mnk" if one not in kind.aliases)
    known = {one: kind.aliases.get(one, one) for one in "mnk"}
    has = {x: x not in _none_of(plan) for x in ("a", "b", "beta")}
    b = "" if alone or not has["b"] else f", const {_of_stored_b(plan)['b_type']}{{}}b, int64_t ldb"
    tile_m, tile_n = plan.block[0] * plan.cluster, plan.block[1]
    return {
        "square": square, "alone": alone, "sizes": sizes, "sizes_declared": ", ".join(f"int {one}" for one in sizes), "sizes_passed": ", ".join(sizes),
        "sizes_upper": ", ".join(sizes).upper(), "sizes_told": f"{', '.join(sizes[:-1])} and {sizes[-1]}", "known": known,
        "sizes_known": ", ".join(known.values()), "aliased": [(one, of) for one, of in known.items() if one != of],
        "b_declared": b.format(" *"), "b_pointed": b.format("* "), "reads": _reads(plan),
        "tile": {"m": tile_m, "n": tile_n}, "computed": kind.stored if kind.stored and not kind.mirrored else "",
        "given": kind.given, "packs": kind.packs or kind.exchanged, "depth": "2 * K" if kind.sums_two else "K",
        "has": has, "beta_declared": f"{_of_factors(plan)['beta_factor']}beta, " if has["beta"] else "",
        "a_declared": f", const {plan.type.c_type} *a, int64_t lda" if has["a"] else "",
        "a_pointed": f", const {plan.type.c_type}* a, int64_t lda" if has["a"] else "",
        "system": {"size": kind.aliases["k"], "others": kind.beside, "block": solves.BLOCK, "systems": kind.own.systems, "operand": plan.solved.name,
                   "contiguous": plan.solved.k_contiguous} if kind.solves else None,
    }


def _of_factors(plan: Plan) -> dict[str, Any]:
    """How the C function is given alpha and beta: numbers, or pointers to both parts."""
    pairs, usual = plan.kind.imaginary, {"seen": "alpha != 0", "none": "alpha == 0.0f"}
    alpha, beta = (f"const {plan.type.c_type} *" if one in pairs else f"{plan.type.c_type} " for one in ("alpha", "beta"))
    of_pair = {"seen": "(alpha[0] != 0 || alpha[1] != 0)", "none": "alpha[0] == 0 && alpha[1] == 0"}
    return {"factor": alpha, "beta_factor": beta, "pairs": pairs, "alpha_is": of_pair if "alpha" in pairs else usual}


def _limits(plan: Plan) -> dict[str, int]:
    """The largest extents that are served, of elements."""
    largest = prose.LARGEST_EXTENT // plan.kind.reals
    return {"largest_extent": largest, "largest_k": min(largest, (plan.scheme.family.largest_k or prose.LARGEST_EXTENT) // plan.kind.reals)}


def _reads(plan: Plan) -> str:
    """Of a kind that reads a triangle of an operand, which one, in a sentence."""
    kind = plan.kind
    if not (kind.given or kind.solves) or not getattr(kind, "operand", None):
        return ""
    operand, turned = kind.operand.upper(), plan.layout["ab".index(kind.operand)] == "t" and "diag" in kind.options
    whose = f"{operand}, the {'lower' if kind.options['uplo'] == 'upper' else 'upper'} one as it is stored," if turned else operand
    diagonal = ", without its diagonal, which is 1" if kind.options.get("diag") == "unit" else ""
    if kind.reals > 1 and kind.of_reals.conjugates:
        diagonal = ", without the imaginary parts of its diagonal"
    return f"The {kind.options['uplo']} triangle of {whose} is read{diagonal}: nothing else."


def _of_batches(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, Any]:
    return {"batch": batch.template_values(plan, source, archs, name)} if batch.serves(plan) else {}


def numeric_version() -> str:
    """Ours as CMake and C know it: numbers alone."""
    return re.match(r"\d+(\.\d+)*", __version__)[0]


def _files(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, tuple[str | None, str]]:
    """file: (template, or None where the content is not text from one; what it is)."""
    api, code = plan.gpu.maker.api, plan.gpu.maker.files.code
    own = "batch/" if batch.serves(plan) else ""
    example = "systems/" if plan.kind.solves else "complex/" if plan.kind.reals > 1 else ""
    return {
        f"{name}.h": (f"{own}header.h", f"the C header: arguments, errors, accuracy; no {api} in it"),
        f"{name}{source.suffix}": (f"{own}kernel", "kernels and launcher, self-contained"),
        **{name + code_ending(plan, archs, arch): (None, _code_meaning(plan, arch)) for arch in archs},
        MANIFEST: (None, f"how to launch {code}: symbols, grids, arguments, workspace; hashes of all files"),
        "CMakeLists.txt": ("CMakeLists.txt", "builds and installs a static library and the example"),
        f"{name}.pc": ("package.pc", "the pkg-config file; CMake installs it"),
        "example.cpp": (f"{own or example}example.cpp", "a program that calls the library and checks the result"),
        "README.md": (f"{own}README.md", "this file"),
    }


def _code_meaning(plan: Plan, arch: str) -> str:
    return plan.gpu.maker.files.code_of.format(arch=arch)


def all_files(
    plan: Plan, source: Source, binaries: Sequence[Binary], name: str, refused: Sequence[Mapping[str, Any]] = (),
) -> dict[str, bytes]:
    """Every file of an export by its name.

    Raises:
        SpecError: the name is one in the exported C already.
    """
    archs = [binary.arch for binary in binaries]
    context = template_values(plan, source, archs, name)
    _check_free(plan, source, archs, context)
    files = {
        file: render_text(f"export/{template}.j2", **context).encode()
        for file, (template, _) in _files(plan, source, archs, name).items() if template
    }
    text = files[name + source.suffix].decode()
    files[name + source.suffix] = _called_apart(text, context["kernels"], context["name"], context["guard"]).encode()
    files |= {name + code_ending(plan, archs, binary.arch): binary.code for binary in binaries}
    told = manifest(plan, source, binaries, name, files) | ({"refused": list(refused)} if refused else {})
    files[MANIFEST] = (json.dumps(told, indent=2, allow_nan=False) + "\n").encode()
    return files


def _called_apart(text: str, kernels: str, name: str, guard: str) -> str:
    """The source file with its own functions and types called after the library, so that one file may include two of them."""
    before, kernels, after = text.partition(kernels)
    return before + kernels + re.sub(r"\bGG_", f"{guard}_GG_", re.sub(r"\bgg_", f"{name}_gg_", after))


def _check_free(plan: Plan, source: Source, archs: Sequence[str], context: Mapping[str, Any]) -> None:
    """Whether the exported C calls nothing else by the library's name, and no argument is called so, which would hide it.

    Raises:
        SpecError: it does.
    """
    other = "gg_name"
    texts = [
        render_text(f"export/{template}.j2", **{**context, "name": other, "guard": other.upper(), **_of_batches(plan, source, archs, other)})
        for file, (template, _) in _files(plan, source, archs, other).items() if template and file.endswith((".h", ".cpp", source.suffix))
    ]
    called = re.compile(rf"\b{context['name']}\s*\(")
    name = context["name"]
    arguments = {one.name for one in batch.arguments(plan, name)} if batch.serves(plan) else set()
    arguments |= {one for one, _ in _ends(plan, plan.launches.repeated)}
    if name in (*_BATCHED, "stride_a", "stride_b", "alpha", "beta", "stream", *arguments) or any(called.search(_COMMENT.sub("", text)) for text in texts):
        raise SpecError("--name", "is a name in the exported files already", got=name, needs="another name", remedy=f"--name my_{name}")
