"""Reports and tables as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from gemmgen.cli.output import BOLD, GREEN, RED, columns, paint

if TYPE_CHECKING:
    from pathlib import Path

    from gemmgen.build import Binary, Built, Refusal
    from gemmgen.catalog.fragment import Fragment, FragmentMap
    from gemmgen.catalog.gpu import Gpu
    from gemmgen.catalog.scheme import Scheme, Word
    from gemmgen.model.resources import Occupancy
    from gemmgen.plan import Plan
    from gemmgen.render import Source
    from gemmgen.verdict import Verdict
    from gemmgen.verify import Report
    from gemmgen.verify.metrics import Errors

LABEL = 11


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], indent: str = "") -> str:
    """Columns as wide as they must be, numbers to the right; on a terminal that is narrower, cells of the widest go on in lines below."""
    cells = [[str(cell) for cell in row] for row in rows]
    numeric = [
        all(isinstance(row[i], int | float) for row in rows) for i in range(len(header))
    ] if isinstance(rows, list) and rows else [False] * len(header)
    widths = [max(len(line[i]) for line in [list(header), *cells]) for i in range(len(header))]
    room = columns() - len(indent) - 2 * (len(widths) - 1)
    narrow = sum(widths) > room
    least = [max((len(word) for line in [list(header), *cells] for word in line[i].split()), default=0) for i in range(len(header))]
    while sum(widths) > room and widths != least:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    lines = []
    for line in [list(header), *cells]:
        parts = [textwrap.wrap(cell, width) if narrow else [cell] for cell, width in zip(line, widths)]
        lines.append("\n".join(
            indent + "  ".join(
                cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(part, widths, numeric)
            ).rstrip()
            for part in zip_longest(*parts, fillvalue="")
        ))
    return "\n".join([paint(lines[0], BOLD), *lines[1:]])


def facts(pairs: Mapping[str, Any], width: int = 0) -> str:
    """`key  value` lines, nested tables under their key."""
    width = max([width, *(len(key) for key in pairs)])
    lines = []
    for key, value in pairs.items():
        if isinstance(value, Mapping):
            lines += ["", key, *("  " + line for line in facts(value).splitlines())]
        else:
            lines.append(f"{key:<{width}}  {value}")
    return "\n".join(lines)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.3g} %"


def _occupancy(o: Occupancy) -> str:
    return f"{o.blocks} block{'s' * (o.blocks != 1)} an SM ({_percent(o.fraction)} occupancy, by {o.limited_by})"


def error_figures(errors: Errors) -> str:
    return f"max {errors.max_error:.1e}, MRED {errors.mred:.1e}, scaled {errors.scaled:.1e}"


def refused_lines(refused: Sequence[Refusal]) -> list[str]:
    """What the model would rather have had, and the compiler refused; no lines where it refused nothing."""
    return [f"{'refused' if i == 0 else '':<{LABEL}}{refusal}" for i, refusal in enumerate(refused)]


def refused_facts(refused: Sequence[Refusal]) -> dict[str, Any]:
    """The same for `--json`; nothing where nothing was refused."""
    return {"refused": [refusal.as_dict() for refusal in refused]} if refused else {}


def verdict_lines(verdict: Verdict | None) -> list[str]:
    """What the kernel is worth beside plain FP32; no lines where nothing tells."""
    return [f"{'verdict':<{LABEL}}{verdict.sentence}"] if verdict else []


def verdict_facts(verdict: Verdict | None) -> dict[str, Any]:
    """The same for `--json`."""
    return {"verdict": verdict.as_dict() if verdict else None}


def _standing(gpu: Gpu) -> str:
    """How many of its constants of the model of time are not assumed: `52 of 54`."""
    from gemmgen.catalog.generation import standing

    return "{} of {}".format(*standing(gpu.measured))


def worth_text(found: Sequence[Verdict], gpus: Sequence[Gpu]) -> str:
    """The map of worth: a row a GPU, its memory and how far its times are measured; a column a size, in each cell the ratio to plain FP32 and the scheme
    that has it."""
    from gemmgen.verdict import times

    told, sizes = {one.gpu for one in found}, sorted({one.m for one in found})
    cells = {(one.gpu, one.m): f"{times(one.ratio)} {one.scheme}" for one in found}
    return table(
        ("gpu", "year", "GB/s", "GiB", *(f"{size}^3" for size in sizes), "times"),
        ((one.name, one.year or "-", f"{one.rates.dram_gb_per_s:g}", f"{one.rates.dram_gib:g}", *(cells.get((one.name, size), "-") for size in sizes),
          _standing(one)) for one in gpus if one.name in told),
    ) + (
        "\n\ntimes plain FP32's speed, predicted, and the fastest scheme with FP32's error; below 1 plain FP32 is faster"
        "\ntimes: how many of the model's constants were measured or fitted on a GPU of the generation; all others are assumed"
    )


def gpus_text(gpus: Sequence[Gpu]) -> str:
    """GPUs as one table."""
    from gemmgen.catalog.scheme import SCHEMES

    return table(
        ("name", "year", "arch", "matrix unit", "SMs", "FP16 TFLOPS", "GB/s", "GiB", "schemes", "times", "title"),
        [(g.name, g.year or "-", g.arch, g.unit.label(), g.rates.sms, g.rates.f16_tflops, g.rates.dram_gb_per_s, g.rates.dram_gib,
          f"{len(gpu_schemes(g))} of {len(SCHEMES.names())}", _standing(g), g.title) for g in gpus],
    ) + (
        "\n\ntimes: how many of the model's constants were measured or fitted on a GPU of the generation; all others are assumed"
        "\ngemmgen list gpus NAME shows one with its schemes and its verdict, --worth all verdicts"
    )


def report(kernel: Built, judged: Report, seconds: float) -> str:
    """A Report as a person reads it."""
    from gemmgen.verify import against_fp32

    plan, r = kernel.plan, judged.resources
    spills = f"{r.spill_bytes} B spilled" if r.spill_bytes else "no spills"
    lines = [
        ("kernel", judged.kernel),
        ("decided", plan.summary),
        *(("refused" if i == 0 else "", str(refusal)) for i, refusal in enumerate(kernel.refused)),
        ("device", judged.device),
        ("resources", f"{r.registers} of {plan.gpu.limits.registers_per_thread} registers, {r.shared_bytes} B shared, "
                      f"{spills}, {_occupancy(r.occupancy)}"),
    ]
    name_width = max(len(check.name) for check in judged.checks)
    for i, check in enumerate(judged.checks):
        word = paint("ok    ", GREEN) if check.passed else paint("FAILED", RED)
        detail = check.detail.replace("\n", "\n" + " " * (LABEL + name_width + 9))
        lines.append(("checks" if i == 0 else "", f"{word} {check.name:<{name_width}}  {detail}"))
    if judged.sample:
        lines.append(("blocks", f"{judged.sample.told} of C, whole k, corners and edges among them; --whole computes all"))
    if judged.smaller:
        lines.append(("size", judged.smaller))
    if judged.standing:
        lines.append(("standing", judged.standing))
    if judged.unverified:
        return "\n".join([*(f"{label:<{LABEL}}{text}" for label, text in lines), *verdict_lines(judged.verdict),
                          f"{paint('NOT VERIFIED', RED)}: {judged.unverified}, never run; resources were checked, numbers were not"])
    lines.append(("errors", f"relative Frobenius {judged.errors.relative_frobenius:.2e} "
                            f"(bound {judged.bound.relative_frobenius:.2e}), {error_figures(judged.errors)}"))
    as_own = f"as {judged.element}"
    figures = [(name, ratio, against_fp32(ratio, judged.element)) for name, ratio in judged.of_fp32.items()]
    lines.append(("accuracy", "; ".join(f"{name} {words}" + (f" ({ratio:.2f})" if words == as_own else "") for name, ratio, words in figures)))
    if counted := ", ".join(f"{name} {count}" for name, count in judged.status.items() if count):
        lines.append(("counted", counted))
    if judged.seconds:
        m, n, k = judged.size
        rate = 2 * m * n * k / judged.seconds / 1e12
        lines.append(("time", f"{judged.seconds * 1e3:.3f} ms for {m}x{n}x{k}, {rate:.1f} TFLOPS, from one run"))
    passed = paint("PASSED", GREEN) if judged.passed else paint("FAILED", RED)
    if judged.passed:
        worse = "; ".join(f"{name} {words}" for name, _, words in figures if words != as_own)
        passed += f" as what scheme {judged.promises} promises: {worse}" if worse else f" {as_own}"
    return "\n".join([*(f"{label:<{LABEL}}{text}" for label, text in lines), *verdict_lines(judged.verdict), f"{passed}, in {seconds:.0f} s"])


def record(told: Mapping[str, Any], path: Path) -> str:
    """What a record holds beyond the report, and where it is."""
    unit = told["matrix_unit"]
    found = unit["summary"] if "summary" in unit else f"not probed: {unit['error']['where']}: {unit['error']['problem']}"
    lines = [("unit", f"{unit['model']}: {found}"), ("record", str(path))]
    if told["device"]["kind"] == "hip":
        lines.append(("", "please attach it to an issue of the project: it has what no one there can measure"))
    return "\n".join(f"{label:<{LABEL}}{text}" for label, text in lines)


def kernel_roles(source: Source) -> dict[str, str]:
    """Each kernel's symbol and what it is for: `gemm`, `split`, ..."""
    return {launch.symbol: launch.role for launch in source.launches}


def kernel_facts(plan: Plan, source: Source, binary: Binary) -> list[dict[str, Any]]:
    """What each kernel uses, in launch order."""
    from gemmgen.model.resources import occupancy

    rows = []
    for launch in source.launches:
        used = binary.kernels[launch.symbol]
        shared = used.static_shared_bytes + launch.shared_bytes
        resident = occupancy(plan.gpu.limits, launch.threads, used.registers, shared)
        rows.append({
            "kernel": launch.symbol, "role": kernel_roles(source)[launch.symbol],
            "threads": launch.threads, "registers": used.registers,
            "static_shared_bytes": used.static_shared_bytes, "dynamic_shared_bytes": launch.shared_bytes,
            "spill_bytes": used.spill_bytes, "stack_bytes": used.stack_bytes,
            "occupancy": round(resident.fraction, 4), "blocks_per_sm": resident.blocks, "limited_by": resident.limited_by,
            **{kind: getattr(used, kind) for kind in plan.gpu.maker.files.register_kinds},
        })
    return rows


def build_table(kernel: Built) -> str:
    from gemmgen.verdict import verdict
    from gemmgen.verify import standing

    plan, source, binary = kernel.plan, kernel.source, kernel.binary
    compiled = "from the cache" if binary.from_cache else f"in {binary.seconds:.1f} s"
    rows = [
        (row["role"], row["threads"], row["registers"], row["static_shared_bytes"], row["dynamic_shared_bytes"],
         row["spill_bytes"], "unbounded" if row["stack_bytes"] is None else row["stack_bytes"],
         f"{_percent(row['occupancy'])}, {row['blocks_per_sm']} a SM, by {row['limited_by']}")
        for row in kernel_facts(plan, source, binary)
    ]
    header = ("", "threads", "registers", "static B", "dynamic B", "spilled B", "stack B", "occupancy")
    return "\n".join([
        f"{'kernel':<{LABEL}}{source.name}",
        f"{'decided':<{LABEL}}{plan.summary}",
        *refused_lines(kernel.refused),
        f"{'compiled':<{LABEL}}for {binary.arch} by {binary.compiler}, {compiled}",
        table(header, rows, indent="  "),
        *(f"{'standing':<{LABEL}}{text}" for text in [standing(plan)] if text),
        *verdict_lines(verdict(plan)),
    ])


def gpu_facts(gpu: Gpu) -> dict[str, Any]:
    """What a GPU's row leads to, as plain data: its schemes, and the verdict against plain FP32 at 4096^3; None where no scheme keeps FP32's error."""
    from gemmgen.verdict import worth

    found = worth([gpu], (4096,))
    verdict = {"scheme": found[0].scheme, **found[0].as_dict()} if found else None
    return {"schemes": [scheme.name for scheme in gpu_schemes(gpu)], "verdict": verdict}


def gpu_text(gpu: Gpu) -> str:
    """A GPU's row, its schemes and its verdict; of the constants by policy, those of policies that it has, and of the register model's where they come from."""
    from gemmgen.catalog.fragment import FRAGMENTS
    from gemmgen.catalog.scheme import SCHEMES

    def told(constants: Mapping[str, Any]) -> dict[str, Any]:
        return {name: f"{one['value']:g} ({one['source']})" if "source" in one else told(one) for name, one in constants.items()}

    row, policies = gpu.model_dump(mode="json"), {one.policy for one in FRAGMENTS.rows() if one.runs_on(gpu.arch)}
    measured = {name: one for name, one in row["measured"].items() if one and ("source" in one or name in policies)}
    led_to = gpu_facts(gpu)
    verdict = led_to["verdict"]
    return facts({
        "verdict": f"{verdict['scheme']}: {verdict['sentence']}" if verdict else "none: no scheme has FP32's error",
        "times": f"{_standing(gpu)} constants of the model measured or fitted on a GPU of the generation, the others assumed",
        "rounding": gpu.unit.label("f16"), "schemes": _of_all(led_to["schemes"], SCHEMES.names()),
        **row, "measured": told(measured), "registers": row["registers"]["source"],
    })


def _of_all(names: Sequence[str], every: Sequence[str]) -> str:
    """Names of a table: those that are left out, where they are fewer."""
    missing = sorted(set(every) - set(names))
    return "all" if not missing else "all but " + " ".join(missing) if len(missing) < len(names) else " ".join(names)


def products(scheme: Scheme) -> str:
    return " ".join(f"A{p.a}B{p.b}" for p in scheme.products)


def scheme_range(scheme: Scheme) -> str:
    """The magnitudes that the words hold in full."""
    lowest = scheme.precision.lowest()
    first = scheme.words_of("a")[0]
    if lowest is None or not first.fixed and lowest <= -126 and first.format.max_exponent == 127:
        return "FP32's"
    if tile_k := scheme.family.tile_k:
        return f"any tile of {tile_k} k; in it from 2^{lowest - scheme.target_exponent} of its largest"
    if run_k := scheme.family.run_k:
        return f"any run of {run_k} k; in it from 2^{lowest - scheme.target_exponent} of its largest"
    if scheme.family.residues:
        return f"any row; in it from 2^-{scheme.precision.bits} of its norm"
    if scheme.normalize == "row":
        return f"any row; in it from 2^{lowest - scheme.target_exponent} of its largest"
    return f"2^{lowest} to 2^{first.format.max_exponent + 1}"


def scheme_words(scheme: Scheme) -> str:
    """How many words of which type; where B's are others, both."""
    def told(operand: str) -> str:
        types = [word.type for word in scheme.words_of(operand, packed_alike=scheme.alike)]
        return "+".join(f"{types.count(kind)} {kind}" for kind in dict.fromkeys(types))

    return told("a") if scheme.alike else f"{told('a')}; B {told('b')}"


def multiplies(gpu: Gpu, scheme: Scheme) -> bool:
    """Whether a GPU has kernels of a scheme: a matrix unit that multiplies its words, by an instruction of which a design puts its sums together, or
    FP32 units."""
    from gemmgen.catalog.fragment import FRAGMENTS
    from gemmgen.designs import all_designs

    designs = [one for one in all_designs() if one.family == scheme.family.recombination.family and (scheme.uniform or one.mixes(scheme))]

    def has(word: str) -> bool:
        rows = [
            one for one in FRAGMENTS.rows()
            if one.word == word and one.vendor == gpu.vendor and one.runs_on(gpu.arch) and any(design.serves(one) for design in designs)
        ]
        # An instruction that the compiler makes of others for FP16 words is none.
        return any(
            one.word == "f32" or one.on_matrix_unit and word in gpu.unit.words and gpu.unit.of(word, one.policy).rule != "by_f16" for one in rows
        )

    return all(has(word) for word in scheme.types)


def scheme_gpus(scheme: Scheme) -> list[Gpu]:
    """The GPUs that have kernels of it."""
    from gemmgen.catalog.gpu import GPUS

    return [gpu for gpu in GPUS.rows() if multiplies(gpu, scheme)]


def gpu_schemes(gpu: Gpu) -> list[Scheme]:
    """The schemes that a GPU has kernels of."""
    from gemmgen.catalog.scheme import SCHEMES

    return [scheme for scheme in SCHEMES.rows() if multiplies(gpu, scheme)]


def scheme_costs(scheme: Scheme) -> dict[str, float]:
    """Time of its products on a GPU's matrix unit over that of one product of FP16 words, by GPU; of those that have both."""
    found = {}
    for gpu in scheme_gpus(scheme):
        rates = gpu.rates.tensor_fma_per_clock
        types = [scheme.accumulator(product.into).word for product in scheme.products]
        if all(word in rates for word in types):
            found[gpu.name] = sum(rates["f16"] / rates[word] for word in types)
    return found


def scheme_cost(scheme: Scheme) -> str:
    """The same in a few words: the least and the most."""
    costs = scheme_costs(scheme).values()
    return f"{min(costs):.3g}" + (f" to {max(costs):.3g}" if max(costs) > min(costs) else "") if costs else "no unit"


def schemes_text(schemes: Sequence[Scheme]) -> str:
    """All schemes as one table."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.model.accuracy import split_worst

    def having(scheme: Scheme) -> str:
        return _of_all([gpu.name for gpu in scheme_gpus(scheme)], GPUS.names())

    return table(
        ("name", "words", "bits", "products", "sums", "bound", "range", "cost", "GPUs"),
        [(one.name, scheme_words(one), one.precision.bits, len(one.products), len(one.accumulators), f"{split_worst(one):.1e}", scheme_range(one),
          scheme_cost(one), having(one)) for one in schemes],
    ) + (
        "\n\nbound: what words and dropped products leave out of a product a b, at worst, over |a b| (E20); sums come on top: gemmgen explain --frontier\n"
        "cost: matrix-unit time, in products of FP16 words on the same GPU; NAME shows each GPU's"
    )


def scheme_facts(scheme: Scheme) -> dict[str, Any]:
    """A scheme's row, with what follows from it."""
    from gemmgen.model.accuracy import split_worst

    return {
        **scheme.model_dump(mode="json"),
        "bits": scheme.precision.bits,
        "dropped": [{"a": i, "b": j} for i, j in scheme.precision.dropped],
        "bound": split_worst(scheme), "range": scheme_range(scheme), "costs": scheme_costs(scheme), "gpus": [gpu.name for gpu in scheme_gpus(scheme)],
        "accumulators": [
            {"name": acc.name, "scale": acc.scale, "promoted": acc.promoted} for acc in scheme.accumulators
        ],
    }


def scheme_text(scheme: Scheme) -> str:
    """Everything about one, for a person."""
    from gemmgen.model.accuracy import split_worst

    def held(word: Word, index: int) -> str:
        times = f"2^{word.scale} times " if word.scale else ""
        if word.source == index:  # of a chain
            return f", holds {times}the rest" if times else ""
        return f", holds {times}{'the element' if word.source == 0 else f'what word {word.source - 1} leaves'}"

    def told(word: Word, index: int, operand: str) -> str:
        if scheme.stores(operand):
            return f"{word.type}, as stored"
        if scheme.moduli:
            return f"{word.type}, residue modulo {scheme.moduli[index]} of the element as an integer"
        return f"{word.type}, {word.rounding}" + held(word, index) + (", 0 where it would be subnormal" if word.flush else "")

    words = {
        f"word {i}{'' if scheme.alike else ' of ' + operand.upper()}": told(word, i, operand)
        for operand in ("a", "b")[: 1 if scheme.alike else 2] for i, word in enumerate(scheme.words_of(operand, packed_alike=scheme.alike))
    }
    sums = {
        f"sum {acc.name}": (f"2^{acc.scale} too large" if acc.scale else "unscaled")
        + (", promoted to FP32 registers" if acc.promoted else "")
        + ", of " + " ".join(f"A{p.a}B{p.b}" for p in scheme.products if p.into == acc.name)
        for acc in scheme.accumulators
    }
    return facts({
        "name": scheme.name, "title": scheme.title, "source": scheme.source, "bits": scheme.precision.bits,
        "normalize": scheme.normalize, **words, "products": products(scheme),
        "dropped": " ".join(f"A{i}B{j}" for i, j in scheme.precision.dropped) or "none", **sums,
        "promotion": f"the authors' own: {scheme.own_promote}",
        "bound": f"{split_worst(scheme):.3g} |a b|, of words and dropped products (E20)", "range": scheme_range(scheme),
        "cost": ", ".join(f"{gpu} {cost:g}" for gpu, cost in scheme_costs(scheme).items()) or "no matrix unit",
    })


def fragment_text(fragment: Fragment) -> str:
    from gemmgen.fragment_header import operands

    head = facts({
        "name": fragment.name, "source": fragment.source,
        "instruction": fragment.instruction + (f", {fragment.instructions} times" if fragment.instructions else ""),
        **({"builtin": fragment.builtin} if fragment.builtin else {}),
        "words": fragment.word, **({"sums": fragment.sums} if fragment.maker.multiplies_integers else {}),
        "needs": needs(fragment), "threads": fragment.threads, "operands": operand_places(fragment),
        **({"n": widths(fragment)} if fragment.widest else {}), **({"k": _depths(fragment)} if fragment.deepest else {}),
        "map": fragment.map_source,
    })
    grids = [
        f"{x.name} [{x.axes}], {x.rows}x{x.columns}: lane:element{_held_again(x.map)}"
        f"{', where it comes from registers' if fragment.from_shared and not x.accumulates else ''}\n"
        f"{lane_grid(x.map, x.rows, x.columns)}"
        for x in operands(fragment).values()
    ]
    return "\n\n".join([head, *grids, *([_descriptor_text(fragment)] if fragment.descriptor else [])])


def needs(fragment: Fragment) -> str:
    """The targets that have the instruction; where they are many, the first and the last of a family that all has it."""
    if fragment.archs:
        return " ".join(fragment.archs) if len(fragment.archs) <= 4 else f"{fragment.archs[0]} to {fragment.archs[-1]}"
    return f"{fragment.targets} alone" if fragment.arch else f"sm_{fragment.min_arch}"


def widths(fragment: Fragment) -> str:
    """The n of the instructions that a row stands for; a wider one's name has its shape."""
    n = fragment.shape[1]
    if not fragment.widest:
        return str(n)
    steps = f"{n} to {n * fragment.widest} in steps of {n}"
    return f"{steps}, {2 * n} above {fragment.sparse_from}" if fragment.sparse_from else steps


def _depths(fragment: Fragment) -> str:
    """The k of one instruction, and of as many as give a lane whole chunks."""
    k, times = fragment.shape[2], fragment.deepest
    return f"{k}, in kernels {k * times} by {times} instructions, of which a lane holds whole 16-byte chunks"


def operand_places(fragment: Fragment) -> str:
    """Where the instruction takes A and B from."""
    if fragment.in_tensor_memory:
        return "shared memory, C tensor memory"
    return "A registers or shared memory, B shared memory" if fragment.from_shared else "registers"


def _descriptor_text(fragment: Fragment) -> str:
    """The fields of what tells the instruction where an operand lies in shared memory, and the layout that it means."""
    field, unit = fragment.descriptor, 16
    meanings = {
        "address": f"of the tile in shared memory, in units of {unit} B",
        "leading": "1: not looked at, where k is contiguous and rows are swizzled",
        "stride": f"from {field.rows} rows to the next {field.rows}, in units of {unit} B",
        "swizzle": ", ".join(f"{code}: rows of {row_bytes} B" for row_bytes, code in field.swizzles.items()),
    }
    rows = [
        (name, f"{low} to {low + width - 1}", meanings[name])
        for name in meanings for low, width in (getattr(field, name),)
    ]
    constants = [
        (f"{row_bytes} B", f"{field.constant(int(row_bytes)):#018x}", f"byte ^ (byte / 128 % {int(row_bytes) // unit}) * {unit}")
        for row_bytes in field.swizzles
    ]
    return "\n".join([
        "descriptor of a tile in shared memory: rows of consecutive k, each row of A an m, each of B an n",
        table(("field", "bits", "what"), rows, indent="  "),
        "", f"by length of a row; byte = row * length + {unit} * chunk of k, from a tile's start at whole {field.rows} rows",
        table(("row", "without address", "lies at"), constants, indent="  "),
    ])


def _held_again(held: FragmentMap) -> str:
    return f", the first of {held.copies} that hold it" if held.copies > 1 else ""


def lane_grid(held: FragmentMap, rows: int, columns: int) -> str:
    """Who holds which element: `lane:element`, where a lane's elements are counted over its
    registers, packed halves first."""
    return "\n".join("  " + line for line in held.grid(rows, columns))
