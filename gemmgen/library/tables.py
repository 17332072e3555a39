"""Kernels as the C tables that a library's runtime works off: templates/library/tables.h.j2 declares what stands here.

    text = rows(kernels, name="lab", finish=finish_images(["sm_90"], portable="sm_75"))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gemmgen import abi
from gemmgen.catalog.epilogue import NONE
from gemmgen.catalog.element import ELEMENTS, F64
from gemmgen.interface import SOLVE, Buffer, Grid, Interface, Launch, Parameter
from gemmgen.catalog.gpu import GPUS, Gpu
from gemmgen.errors import GemmgenError
from gemmgen.export import prose
from gemmgen.library.dispatch import Estimate, Rule
from gemmgen.library.ends import FUSED, FUSED_ACTIVATIONS
from gemmgen.library.kernel import FINISH_THREADS, FINISH_TILE, Image, Kernel, finish_symbol, images
from gemmgen.kinds import GEMM, STRIDED, solves
from gemmgen.library.routines import LEVEL3, number, stands
from gemmgen.model import time
from gemmgen.plan import Plan
from gemmgen.verify.bound import SAFETY

BOUND_K = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)
"""The k for which a library knows its kernels' bounds."""
PASSES = ("absmax", "norms", "split")
"""Roles of launches that make words of operands, whose blocks take one operand each."""
LARGEST_OFFSET = (1 << 16) - 1
FACTORS = 4
"""Of a term of a grid and of a buffer's size, at most: as tables.h has room for."""

OPERATIONS = "ntc"
"""Letters of a layout by the numbers of `transpose_a` and `transpose_b`."""

_EXTENTS = ("m", "n", "k", "m_padded", "n_padded", "k_padded", "m_clusters", "batch", "tiles")
_ARGUMENTS = {
    **dict.fromkeys("abc", "pointer"), **dict.fromkeys(("lda", "ldb", "ldc", "stride_a", "stride_b", "stride_c"), "long long"),
    **dict.fromkeys(("m", "n", "k", "batch"), "int"), "bias": "pointer", "stride_bias": "long long", "activation": "int",
}
"""What a call passes on besides alpha and beta, which are elements or their parts, and the C type that the runtime has it in."""


@dataclass(frozen=True)
class Rules:
    """Rules that decide for an architecture and a layout, in place of estimates.

    Attributes:
        rules: whose kernels are labels of the library's.
    """

    arch: str
    layout: str
    rules: tuple[Rule, ...]


# ---- what is asked of a kernel


def check(kernel: Kernel) -> None:
    """Whether the runtime can launch a kernel.

    Raises:
        GemmgenError: it is for a batch of products that are each told by themselves or of a kind that the runtime does not launch, its B or C has
            another type than A, or it has an epilogue of its own.
    """
    plan = kernel.built.plan
    if plan.launches.of_products:
        raise GemmgenError(kernel.label, "is for a batch of listed products", got=plan.kind.name, needs='[problem] kind = "gemm" or "strided"',
                           remedy="another spec, or gemmgen export for this one")
    if not plan.kind.plain and plan.kind.asked not in (GEMM.name, STRIDED.name, *LEVEL3):
        raise GemmgenError(kernel.label, "is of a kind that the runtime does not launch", got=plan.kind.name, needs=", ".join((GEMM.name, *LEVEL3)),
                           remedy="another spec, or gemmgen export for this one")
    if {plan.inputs.stored_b.name, plan.output.name} != {plan.type.name}:
        raise GemmgenError(kernel.label, "has a B or C of another type than A", got=f"B {plan.inputs.stored_b.name}, C {plan.output.name}",
                           needs=f"{plan.type.title} in and out", remedy="another spec, or gemmgen export for this one")
    if plan.epilogue not in (NONE, FUSED):
        raise GemmgenError(kernel.label, "has an epilogue of its own", got=plan.epilogue.names, needs="none: what a library does to C, each call says",
                           remedy="a spec without [epilogue], or gemmgen export for this one")
    for launch in kernel.built.source.launches:
        for one in launch.parameters:
            passed = _ARGUMENTS | dict.fromkeys(("alpha", "beta", "alpha_i", "beta_i"), plan.type.c_type)
            if one.argument is not None and passed.get(one.argument) != one.kind:
                raise GemmgenError(kernel.label, "has a kernel with a parameter that the runtime does not pass",
                                   got=f"{one.type} {one.name} of {launch.symbol}", needs=", ".join(passed),
                                   remedy="another spec, or gemmgen export for this one")


def _passes(interface: Interface) -> list[Launch]:
    return [launch for launch in interface.launches if launch.role in PASSES]


def packed_buffers(interface: Interface, operand: str) -> tuple[Buffer, ...]:
    """What the passes make of operand `a` or `b`: words, maxima, scales."""
    made = {one.region for launch in _passes(interface) for one in launch.parameters if one.region is not None}
    return tuple(one for one in interface.buffers if one.name in made and one.name.startswith(f"{operand}_"))


def packs(plan: Plan, interface: Interface, operand: str) -> bool:
    """Whether the passes can take an operand alone, so that its words serve any product: each block takes one operand, found by
    m or n alone, and none takes those of a batch."""
    outer = {"a": "m", "b": "n"}[operand]

    def takes(product: Iterable[tuple[str, int]]) -> set[str]:
        return {dimension[0] for dimension, _ in product if dimension[0] in "mn"}

    return (
        operand in [one.name for one in plan.launches.split_before] and not interface.batched
        and all(len(takes(product)) == 1 for launch in _passes(interface) for product in launch.grid)
        and all(any(takes(product) == {outer} for product in launch.grid) for launch in _passes(interface))
    )


def pack_key(plan: Plan, interface: Interface, operand: str) -> str | None:
    """What decides an operand's packed words: kernels that agree in it read the same memory. None of one that cannot be packed.

    Not what is zero before the passes, which is for the kernel that packs to see to: one pass leaves the same maxima and words as two.
    """
    if not packs(plan, interface, operand):
        return None
    own = next(one for one in plan.operands if one.name == operand)
    return json.dumps({
        "operand": operand, "tile": [own.tile, plan.block[2]],
        "scheme": plan.scheme.model_dump(mode="json", exclude={"name", "title", "source"}, exclude_none=True),
        "rows": [[one.type, one.bytes, one.swizzle_rows, one.swizzle_mask] for one in plan.staging.rows_of.values()],
        "padding": [plan.staging.padding, plan.staging.padded],
        "own": [plan.design.name, plan.fragment.name] if plan.design.text.places_itself else None,
        "buffers": [[one.name, one.element, one.factor, one.of, one.per, one.above_k] for one in packed_buffers(interface, operand)],
    }, sort_keys=True)


def formats(kernels: Sequence[Kernel]) -> dict[tuple[str, str], int]:
    """The numbers of packed formats by (label, operand), from 1; 0 of what cannot be packed."""
    known: dict[str, int] = {}
    found = {}
    for kernel in kernels:
        plan, interface = kernel.built.plan, kernel.built.source.interface
        for operand in "ab":
            key = None if kernel.is_fallback or not plan.kind.plain or operand == "b" and not kernel.packs_b else pack_key(plan, interface, operand)
            found[kernel.label, operand] = 0 if key is None else known.setdefault(key, len(known) + 1)
    return found


# ---- C


def rows(kernels: Sequence[Kernel], *, name: str, finish: Sequence[Image], rules: Sequence[Rules] = ()) -> str:
    """The tables of a library.

    Args:
        kernels: those that are made for a GPU first.
        name: the library's, with which the symbols of machine code begin.
        finish: machine code of the kernel of epilogues.
        rules: where rules and not estimates decide.

    Raises:
        GemmgenError: a kernel cannot be launched by the runtime, or rules name none.
    """
    for kernel in kernels:
        check(kernel)
    codes = {kernel.label: images(kernel) for kernel in kernels}
    packed = formats(kernels)
    everything = [image for label in codes for image in codes[label]] + list(finish)
    parts = ["/* ---- Machine code, which another file of the library holds ---- */\n",
             *(f"extern const unsigned char {name}_code_{image.stem}[];" for image in everything), ""]
    first = first_image = 0
    table = []
    for kernel in kernels:
        interface = kernel.built.source.interface
        parts.append(_of_kernel(kernel, interface, codes[kernel.label], name))
        table.append(_row(kernel, interface, codes[kernel.label], (first, first_image), packed))
        first += len(interface.launches)
        first_image += len(codes[kernel.label])
    types = {kernel.element.name for kernel in kernels}
    largest, _ = kernels[0].built.plan.gpu.maker.largest_grid(FINISH_THREADS)
    parts += [
        "/* ---- All of them ---- */\n", _array("kernel", "kernels", table),
        f"enum {{ KERNELS = {len(kernels)}, FUNCTIONS = {first}, MOST_BUFFERS = {_most_buffers(kernels)}, "
        f"MOST_PARAMETERS = {_most_parameters(kernels)} }};\n",
        _array("image", "finish_images", _images(finish, name)),
        f"enum {{ FINISH_IMAGES = {len(finish)}, FIRST_FINISH_IMAGE = {first_image}, IMAGES = {first_image + len(finish)}, "
        f"FINISH_THREADS = {FINISH_THREADS}, FINISH_ROWS = {FINISH_TILE[0]}, FINISH_COLUMNS = {FINISH_TILE[1]}, FINISH_LARGEST_GRID = {largest} }};\n",
        _array("char *const", "finish_symbols", [f'"{finish_symbol(one)}"' if one.name in types else "NULL" for one in ELEMENTS.values()]),
        *_of_rules(rules, [kernel.label for kernel in kernels]), _of_architectures(kernels),
    ]
    return "\n".join(parts)


def _most_buffers(kernels: Sequence[Kernel]) -> int:
    return max(len(kernel.built.source.interface.buffers) for kernel in kernels)


def _most_parameters(kernels: Sequence[Kernel]) -> int:
    return max(len(launch.parameters) for kernel in kernels for launch in kernel.built.source.launches)


def _of_kernel(kernel: Kernel, interface: Interface, code: Sequence[Image], name: str) -> str:
    plan, label, resources = kernel.built.plan, kernel.label, kernel.built.binary.kernels
    parts = [f"/* ---- {label}: {kernel.built.source.name} ---- */\n"]
    made = {operand: packed_buffers(interface, operand) for operand in "ab"}
    parts.append(_array("buffer", f"{label}_buffers", [_buffer(one, made, interface.constants) for one in interface.buffers]))
    launches = []
    for number, launch in enumerate(interface.launches):
        parts.append(_array("grid_term", f"{label}_grid_{number}", [_term(product, interface.constants) for product in launch.grid]))
        parts.append(_array("parameter", f"{label}_parameters_{number}", [_parameter(one, interface, label) for one in launch.parameters]))
        keeps = any(not one.of and one.name != abi.STATUS for one in interface.buffers)
        role = "ROLE_PASS" if launch.role in PASSES else "ROLE_SOLVE" if launch.role == SOLVE else "ROLE_MAIN"
        launches.append(
            f'{{"{launch.symbol}", {label}_grid_{number}, {label}_parameters_{number}, {len(launch.grid)}, {len(launch.parameters)}, '
            f"{launch.threads}, {launch.shared_bytes}, {resources[launch.symbol].static_shared_bytes}, {launch.most_blocks or 0}, {launch.cluster}, "
            f"{plan.gpu.rates.sms}, {int(keeps)}, {int(launch.overlaps)}, {role}}}"
        )
    parts.append(_array("launch", f"{label}_launches", launches))
    parts.append(_array("image", f"{label}_images", _images(code, name)))
    archs = [binary.arch for binary in (kernel.built.binary, *kernel.built.others)]
    if plan.kind.solves:
        own = plan.kind.own
        seconds = ", ".join(f"{one:.4g}" for one in solves.block_seconds(time.rate_numbers(plan.gpu, plan.scheme.leading), own))
        parts.append(f"static const solving {label}_solving = {{{solves.BLOCK}, {own.systems}, {own.together}, {seconds}}};\n")
    parts.append(_array("error_bound", f"{label}_bounds", [_bound(plan, archs, k) for k in BOUND_K]))
    if plan.kind.tiles:
        parts.append(
            f"static int64_t {label}_tiles(int64_t tiles_m, int64_t tiles_n, int64_t TILE_M, int64_t TILE_N)\n{{\n    return {plan.kind.tiles.count};\n}}\n"
        )
    if kernel.estimate is not None:
        parts.append(f"static const estimate {label}_estimate = {_estimate(kernel.estimate)};\n")
    return "\n".join(parts)


def _row(kernel: Kernel, interface: Interface, code: Sequence[Image], first: tuple[int, int], packed: Mapping[tuple[str, str], int]) -> str:
    plan, label = kernel.built.plan, kernel.label
    units = {extent: unit for extent, (_, unit) in interface.padded.items()}
    tiles, letters = plan.kind.tiles, plan.kind.layout_of(plan.layout)
    read = {one.argument for launch in interface.launches if launch.role not in PASSES for one in launch.parameters}
    grid, _ = prose.largest_grid(plan, kernel.built.source)
    least_k, least_elements = plan.design.whole_from(plan.gpu) if plan.launches.splits_whole else (0, 0)
    return (
        f"{{{_quoted(kernel.built.source.name)}, {_quoted(kernel.reason)},\n"
        f"     {label}_images, {label}_buffers, {label}_launches, {label}_bounds, {f'&{label}_estimate' if kernel.estimate else 'NULL'}, "
        f"{f'&{label}_solving' if plan.kind.solves else 'NULL'},\n"
        f"     {len(code)}, {len(interface.buffers)}, {len(interface.launches)}, {len(BOUND_K)}, {first[0]}, {first[1]},\n"
        f"     {', '.join(str(units[f'{one}_padded']) for one in 'mnk')}, {units.get('m_clusters', 0)}, {plan.scheme.family.largest_k or 0}, "
        f"{least_k}, {least_elements}, {grid},\n"
        f"     {packed[label, 'a']}, {packed[label, 'b']}, {', '.join(str(OPERATIONS.index(letter)) for letter in letters)}, "
        f"{int('a' in read)}, {int('b' in read)}, {int(interface.batched)}, {int(bool(plan.batch) and plan.batch.pointers)}, {int(plan.kind.exchanged)}, "
        f"{int(kernel.is_fallback)}, {FUSED_ACTIVATIONS + 1 if plan.epilogue == FUSED else 0},\n"
        f"     {number(plan.kind)}, {kernel.element.number}, {', '.join(map(str, stands(plan.kind)))}, "
        + (f"{plan.block[0] * plan.cluster}, {label}_tiles}}" if tiles else "0, NULL}")
    )


def _quoted(text: str) -> str:
    """A C string."""
    return json.dumps(text, ensure_ascii=True).replace("??", '?""?')


def _array(kind: str, name: str, values: Sequence[str]) -> str:
    lines = "".join(f"    {value},\n" for value in values)
    return f"static const {kind} {name}[] = {{\n{lines}}};\n"


def _extent(name: str) -> str:
    return f"EXTENT_{name.upper()}"


def _product(factors: Iterable[tuple[str, int]], constants: Mapping[str, int]) -> tuple[int, list[tuple[str, int]]]:
    """What a product of extents is multiplied by, and its extents with their tiles; constants are known."""
    times, left = 1, []
    for extent, tile in factors:
        if extent in constants:
            times *= -(-constants[extent] // tile)
        elif extent in _EXTENTS and len(left) < FACTORS:
            left.append((extent, tile))
        else:
            raise ValueError(f"an extent that the runtime does not know, or one too many: {extent}")
    return times, left


def _factors(left: Sequence[tuple[str, int]]) -> tuple[str, str]:
    filled = [(_extent(extent), tile) for extent, tile in left] + [("EXTENT_ONE", 1)] * (FACTORS - len(left))
    return (f"{{{', '.join(extent for extent, _ in filled)}}}", f"{{{', '.join(str(tile) for _, tile in filled)}}}")


def _term(product: Grid, constants: Mapping[str, int]) -> str:
    times, left = _product(product, constants)
    extents, tiles = _factors(left)
    return f"{{{times}, {extents}, {tiles}}}"


def _buffer(one: Buffer, made: Mapping[str, Sequence[Buffer]], constants: Mapping[str, int]) -> str:
    times, left = _product([(extent, 1) for extent in one.of], constants)
    extents, _ = _factors(left)
    operand = next((f"'{x}'" for x in "ab" if one in made[x]), "0")
    return f"{{{times * one.factor}, {one.per}, {extents}, {operand}, {int(one.zeroed)}, {int(one.zeroed_again)}, {one.above_k}}}  /* {one.name} */"


def _parameter(one: Parameter, interface: Interface, label: str) -> str:
    if one.argument is not None:
        return f"{{ARGUMENT_{one.argument.upper()}, 0, 0}}"
    number = [buffer.name for buffer in interface.buffers].index(one.region)
    if one.offset > LARGEST_OFFSET:
        raise ValueError(f"{label}: parameter {one.name} lies too far from the start of its buffer")
    return f"{{-1, {number}, {one.offset}}}"


def _images(code: Sequence[Image], name: str) -> list[str]:
    return [f'{{"{image.arch}", {name}_code_{image.stem}}}' for image in code]


def _bound(plan: Plan, archs: Sequence[str], k: int) -> str:
    found = prose.coefficients(plan, k * plan.kind.reals, archs)
    return f"{{{k}, {prose.rounded_up(SAFETY * found.random)!r}, {prose.rounded_up(found.scaled)!r}}}"


def _estimate(one: Estimate) -> str:
    seconds = ", ".join(repr(float(getattr(one, term))) for term in ("launch", "wave", "step", "operand", "output"))
    return f"{{{one.tile[0]}, {one.tile[1]}, {one.slices}, {seconds}}}"


def _of_rules(rules: Sequence[Rules], labels: Sequence[str]) -> list[str]:
    """Rules one after another, and which of them are for which architecture and layout; both tables have a row for nothing at their end."""
    table, parts = [], []
    for part in rules:
        parts.append(f'{{"{part.arch}", {int(part.layout[0] == "t")}, {int(part.layout[1] == "t")}, {len(table)}, {len(part.rules)}}}')
        for rule in part.rules:
            if rule.kernel not in labels:
                raise GemmgenError("rules", "name a kernel that the library does not have", got=rule.kernel, needs=" or ".join(labels),
                                   remedy="rules of the same kernels")
            most = [rule.at_most.get(measure) for measure in ("m", "n", "k", "mn")]
            table.append(f"{{{', '.join('INT64_MAX' if one is None else f'INT64_C({one})' for one in most)}, {labels.index(rule.kernel)}}}")
    return [
        _array("rule", "rule_rows", [*table, "{0, 0, 0, 0, 0}"]), _array("rules", "rule_parts", [*parts, '{"", 0, 0, 0, 0}']),
        f"enum {{ RULE_PARTS = {len(parts)} }};\n",
    ]


def sgemm_estimate(gpu: Gpu) -> Estimate:
    """What the vendor's SGEMM takes on a GPU, but for its first k, and a matrix times a vector (M24)."""
    numbers = {name: float(f"{value:.4g}") for name, value in time.sgemm_numbers(gpu).items()}
    return Estimate(tile=(time.SGEMM_TILE,) * 2, slices=time.SGEMM_SLICES, sms=gpu.rates.sms, launch=numbers["sgemm_start"], wave=0.0,
                    step=numbers["sgemm_step"], operand=numbers["sgemm_operand"], output=numbers["sgemm_output"])


def native_estimate(gpu: Gpu) -> Estimate | None:
    """What the vendor's DGEMM takes on a GPU (M25), by tiles that are small enough for waves to hardly show; None where the GPU's row has no rate of it."""
    numbers = time.native_numbers(gpu)
    if numbers is None:
        return None
    step, each = 2 * time.SGEMM_TILE**2 * gpu.rates.sms / numbers["native_rate"], F64.bytes / numbers["dram_rate"]
    return Estimate(tile=(time.SGEMM_TILE,) * 2, slices=time.SGEMM_SLICES, sms=gpu.rates.sms, launch=numbers["native_start"], wave=0.0,
                    step=float(f"{step:.4g}"), operand=0.0, output=float(f"{each:.4g}"))


def vendors(gpu: Gpu) -> tuple[Estimate | None, ...]:
    """What the vendor's GEMM of each type of elements takes, in the order of their numbers; None: nothing is known of it.

    Of complex ones that is taken to be as fast as the real product that stands for it.
    """
    return tuple((sgemm_estimate if one.part.is_usual else native_estimate)(gpu) for one in ELEMENTS.values())


def _of_architectures(kernels: Sequence[Kernel]) -> str:
    """One row for each architecture of the vendor's; the library's own GPUs stand for theirs."""
    mine = {kernel.built.plan.gpu.arch: kernel.built.plan.gpu for kernel in reversed(kernels) if not kernel.is_fallback}
    vendor = kernels[0].built.plan.gpu.vendor
    known = {gpu.arch: gpu for gpu in reversed(GPUS.rows()) if gpu.vendor == vendor} | mine
    table = [
        f'{{"{arch}", {gpu.limits.shared_bytes_per_block}, {{{", ".join(_estimate(one) if one else "{0, 0, 0, 0, 0, 0, 0, 0}" for one in vendors(gpu))}}}}}'
        for arch, gpu in sorted(known.items())
    ]
    return _array("architecture", "architectures", table) + f"\nenum {{ ARCHITECTURES = {len(table)} }};\n"
