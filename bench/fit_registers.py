"""Compile kernels of every kind, fit the register model to them and judge it on kernels it has not seen.

    python bench/fit_registers.py measure nvidia [--each 110] [--jobs 2]    # minutes; writes bench/registers.csv
    python bench/fit_registers.py measure amd                               # bench/registers_amd.csv
    python bench/fit_registers.py fit                                       # writes the coefficients of both
    python bench/fit_registers.py batches cdna2                             # prints [registers.walking] of a generation; minutes

`measure` draws plans at random, a fixed sequence for each architecture; every
fourth is held out. `fit` writes the sections [registers] of specs/generations from the others
and prints how the model does on those held out; what it does not fit, [registers.plain] and others, stays. No GPU is needed.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from gemmgen.build import build
from gemmgen.catalog.fragment import candidates
from gemmgen.catalog.generation import GENERATION_TABLE
from gemmgen.catalog.gpu import GPUS, Gpu, arch_number, generation
from gemmgen.catalog.registers import Registers, Walk
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError
from gemmgen.model import registers
from gemmgen.designs.portable.design import CHUNKS, COPIES, FRAGMENTS, PIECES, SPLIT_ON_THE_WAY, TWO_BUFFERS
from gemmgen.paths import SPECS
from gemmgen.plan import Hints, Plan
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.fit.least import Unknown
from gemmgen.workshop.fit.register_model import FREE, NOTICED, Compiled, asked, model_of, moved, rounded

ARCHS = {
    "nvidia": ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"),
    "amd": ("gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
}
MEASURED = {vendor: Path(__file__).with_name(name) for vendor, name in (("nvidia", "registers.csv"), ("amd", "registers_amd.csv"))}
FAMILIES = (("rdna", 0x1100), ("cdna", 0x90A), ("cdna1", 0x908), ("nvidia", 0))
"""Targets that share slopes, from a number on."""
HOLDERS = ("hopper", "cdna1", "cdna2", "rdna3")
"""The generations whose rows have a family's slopes."""
DECISIONS = (
    "layout", "scheme", "where", "loads", "promote", "special", "block", "warp", "stages", "fragment_buffers", "group", "split_k",
)
HELD_OUT = 4  # every so many
SPLITTING = 1000  # seeds from here on draw kernels that split themselves: rarer, and harder to predict
TIGHT = 2000  # from here on, of AMD, such as nearly fill the registers: where kernels spill
SMALL = 3000  # and from here on, of AMD, of small warps, which the smallest products get
RIDGE = 0.3
WIDE = 100.0  # registers, of an offset that nothing holds
EACH_A_REGISTER = ("per_sum", "per_staged")
APART = ((0,), (1,), (2,), (3,), (4,))
TIED = ((0, 1, 2), (3,), (4,))
"""Kinds of loop that share slopes: NVIDIA's none, AMD's those that do not split."""


@cache
def gpu_of(arch: str) -> Gpu:
    """AMD's compiler goes by shared memory, so its targets have their own; for NVIDIA, whose compiler does not, the largest SM's."""
    own = next(gpu for gpu in GPUS.rows() if gpu.arch == arch)
    if arch in ARCHS["amd"]:
        return own
    return GPUS.get("h100").model_copy(update={"arch": arch, "name": arch, "registers": own.registers})


def plan_of(arch: str, row: dict[str, str]) -> Plan:
    """The plan that a row of the table describes."""
    def triple(text: str) -> tuple[int, int, int]:
        m, n, k = map(int, text.split("x"))
        return m, n, k

    gpu, scheme = gpu_of(arch), SCHEMES.get(row["scheme"])
    known = {one.shape_name: one for one in reversed(candidates(gpu.vendor, scheme.leading, gpu.portable_policy)) if one.runs_on(arch)}
    fragment = known[row["fragment"]] if "fragment" in row else max(known.values(), key=lambda one: one.shape[2])
    return Plan(
        layout=row["layout"], scheme=scheme, fragment=fragment, gpu=gpu,
        where=row["where"], loads=row["loads"], promote=int(row["promote"]), special=row["special"], block=triple(row["block"]),
        warp=triple(row["warp"]), stages=int(row["stages"]), fragment_buffers=int(row["fragment_buffers"]),
        group=int(row["group"]), split_k=int(row["split_k"]), allow_spills=True, hints=Hints(4096, 4096, 4096),
    )


WAYS = [("prepass", "async")] * 11 + [("register", "async")] * 5 + [("shared", "spread")] * 3 + [("prepass", "spread")]
WITHOUT_ASYNC = [("prepass", "spread")] * 5 + [("prepass", "grouped")] + [("shared", "spread")] * 3


def drawn(arch: str, seed: int) -> dict[str, str]:
    """One row's decisions: what the solver might choose, and somewhat beyond what fits."""
    draw = random.Random(f"{arch}/{seed}")
    rows = amd_rows(arch, draw, seed >= SMALL) if arch in ARCHS["amd"] else nvidia_rows(arch, draw)
    wanted = {SPLITTING: lambda row: row["where"] != "prepass", TIGHT: lambda row: is_tight(arch, row)}.get(seed // 1000 * 1000)
    return next(row for row in rows if is_kernel(arch, row) and (wanted is None or wanted(row)))


def nvidia_rows(arch: str, draw: random.Random) -> Iterator[dict[str, str]]:
    while True:
        wm, wn = draw.choice([32, 32, 48, 64, 64, 64, 80, 96, 128]), draw.choice([32, 32, 32, 48, 64, 64, 96])
        across, down, bk = draw.choice([1, 2, 2, 3, 4]), draw.choice([1, 1, 2, 2, 3, 4]), draw.choice([16, 32, 32, 32, 64])
        promote = draw.choice([0, 0, 0, 16, bk, 64, 128, 128, 256, 256])
        where, loads = draw.choice(WITHOUT_ASYNC if arch == "sm_75" else WAYS)
        yield {
            "layout": draw.choice(["nn", "nn", "nt", "tn", "tt"]),
            "scheme": draw.choice(["half", "ootomo", "ootomo", "legemm", "egemm", "markidis", "ootomo4", "scaled", "scaled"]),
            "where": where, "loads": loads, "split_k": draw.choice(["1", "1", "1", "1", "4"]),
            "promote": str(promote), "special": draw.choice(["exact", "exact", "exact", "fast"]),
            "block": f"{wm * down}x{wn * across}x{bk}", "warp": f"{wm}x{wn}x{bk}", "stages": str(draw.choice([2, 3, 3, 4, 5]) if loads == "async" else 2),
            "fragment_buffers": str(draw.choice([1, 2]) if bk > 16 else 1), "group": "8",
        }


def amd_rows(arch: str, draw: random.Random, small: bool) -> Iterator[dict[str, str]]:
    while True:
        scheme = draw.choice(["half", "ootomo", "ootomo", "ootomo", "legemm", "egemm", "markidis", "ootomo4", "scaled", "scaled", "bf16x3", "bf16x6"])
        known = [
            one.shape_name for one in candidates("amd", SCHEMES.get(scheme).word, gpu_of(arch).portable_policy) if one.runs_on(arch)
        ]
        fragment = draw.choice([max(known), max(known), min(known)])  # the larger is the solver's
        wm, wn = draw.choice([32, 32, 48, 64, 64, 64, 80, 96, 128]), draw.choice([32, 32, 32, 48, 64, 64, 96, 128])
        across, down, bk = draw.choice([1, 2, 2, 3, 4]), draw.choice([1, 1, 2, 2, 3, 4]), draw.choice([16, 32, 32, 32, 64])
        if small:
            wm, wn, bk = draw.choice([16, 32]), draw.choice([16, 32]), draw.choice([32, 64, 128])
        yield {
            "layout": draw.choice(["nn", "nn", "nt", "tn", "tt"]), "scheme": scheme, "fragment": fragment,
            "where": draw.choice(["prepass", "prepass", "prepass", "shared", "register"]), "loads": "grouped",
            "split_k": draw.choice(["1", "1", "1", "1", "4"]),
            "promote": str(draw.choice([0, 0, 16, 32, bk, 64, 64, 128, 128, 256, 256])), "special": draw.choice(["exact", "exact", "exact", "fast"]),
            "block": f"{wm * down}x{wn * across}x{bk}", "warp": f"{wm}x{wn}x{bk}", "stages": str(draw.choice([2, 2, 2, 2, 3])),
            "fragment_buffers": str(draw.choice([1, 1, 2]) if bk > 16 else 1), "group": "8",
        }


def is_kernel(arch: str, row: dict[str, str]) -> bool:
    """Whether it is a kernel of the design, not too far from one that fits."""
    plan = plan_of(arch, row)
    numbers = numbers_of({"arch": arch, **row})
    features = (CHUNKS, PIECES, FRAGMENTS, COPIES, SPLIT_ON_THE_WAY, TWO_BUFFERS)
    if not all(one.holds(numbers) for feature in features for one in (*feature.of_tiles, *feature.constraints)):
        return False
    limits, block_k, held = plan.gpu.limits, plan.block[2], plan.numbers["accumulator_registers"]
    if max(plan.block[:2]) > 256 or not 2 <= plan.threads // plan.lanes <= 16 or plan.shared_bytes > limits.shared_bytes_per_block:
        return False
    if plan.promote % block_k and block_k % max(plan.promote, 1):
        return False
    if plan.gpu.vendor == "amd":
        pieces = plan.promote % plan.fragment.shape[2] or (block_k // plan.fragment.shape[2]) % plan.fragment_buffers
        return not pieces and (16 <= held or max(plan.warp[:2]) <= 32) and held + plan.numbers["fragment_registers"] + plan.numbers["staged"] <= numbers["register_budget"]
    return 16 <= held <= 192 and held + plan.numbers["fragment_registers"] <= 260


def is_tight(arch: str, row: dict[str, str]) -> bool:
    """Whether sums, fragments and the next tile leave little of the registers, and are not promoted at once."""
    plan = plan_of(arch, row)
    held = plan.numbers["accumulator_registers"] + plan.numbers["fragment_registers"] + plan.numbers["staged"]
    return held > 0.8 * numbers_of({"arch": arch, **row})["register_budget"] and not plan.promotion.promotes_at_once


def measured(job: tuple[str, int]) -> dict[str, str]:
    arch, seed = job
    row = drawn(arch, seed)
    source = render(plan_of(arch, row))
    used = build(source).kernels[source.name]
    return {"arch": arch, "seed": str(seed), **row, "registers": str(used.registers), "spill_bytes": str(used.spill_bytes)}


def measure(vendor: str, each: int, jobs: int) -> None:
    seeds = [*range(each), *range(SPLITTING, SPLITTING + each // 2)]
    if vendor == "amd":
        seeds += [*range(TIGHT, TIGHT + each // 3), *range(SMALL, SMALL + each // 6)]
    work = [(arch, seed) for seed in seeds for arch in ARCHS[vendor]]
    own = ("fragment",) if vendor == "amd" else ()
    with Pool(jobs) as pool, MEASURED[vendor].open("w", newline="") as file:
        table = csv.DictWriter(file, ["arch", "seed", *DECISIONS, *own, "registers", "spill_bytes"], lineterminator="\n")
        table.writeheader()
        for number, row in enumerate(pool.imap(measured, work), 1):
            table.writerow(row)
            file.flush()
            print(f"\r{number} of {len(work)}", end="", file=sys.stderr)


# ---- the fit


def kernel_of(row: dict[str, str]) -> Compiled:
    """A row of the table as the fitter takes it."""
    plan = plan_of(row["arch"], row)
    return Compiled(row, plan.design.name, "", asked(plan), int(row["registers"]), int(row["spill_bytes"]), row["arch"])


def numbers_of(row: dict[str, str]) -> dict[str, float]:
    """Every symbol of the register model."""
    plan = plan_of(row["arch"], row)
    return plan.design.budgets(plan.design.constants_of(plan) | plan.design.encoded(plan), plan.gpu.registers)


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def is_held_out(row: dict[str, str]) -> bool:
    """Whether the fit does not see a row."""
    return int(row["seed"]) % HELD_OUT == 0


def is_free(row: dict[str, str]) -> bool:
    """Whether the compiler took what it wanted: no spill, and the launch bound is not what limits it."""
    return int(row["spill_bytes"]) == 0 and int(row["registers"]) < numbers_of(row)["register_budget"] - FREE


def is_proposed(row: dict[str, str]) -> bool:
    """Whether `solve` could propose it when left free: not promoted at once, nor at all with one word,
    which is for those who ask, and not limited by the launch bound."""
    scheme, at_once = SCHEMES.get(row["scheme"]), {16, plan_of(row["arch"], row).fragment.shape[2]}
    return is_free(row) and int(row["promote"]) not in at_once and (len(scheme.words) > 1 or row["promote"] == "0")


def family_of(number: int) -> str:
    """The targets that share slopes with that of an `arch_number`."""
    return next(family for family, first in FAMILIES if number >= first)


def fit() -> None:
    tables: dict[str, Registers] = {}
    count = 0
    families: dict[str, list[dict[str, str]]] = {}
    for path in MEASURED.values():
        for row in read(path):
            families.setdefault(family_of(arch_number(row["arch"])), []).append(row)
    for family, rows in families.items():
        print(f"-- {family}")
        own, trained = fitted(rows, TIED if rows[0]["arch"] in ARCHS["amd"] else APART)
        tables |= own
        count += trained
    for name in GENERATION_TABLE.names():
        path = SPECS / "generations" / f"{name}.toml"
        path.write_text(written(path.read_text(), name, tables))
    print(f"wrote the offsets, slopes and squeeze of specs/generations, fitted to {count} kernels")


def fitted(rows: list[dict[str, str]], together: tuple[tuple[int, ...], ...]) -> tuple[dict[str, Registers], int]:
    """The constants of each target of a family, whose slopes are one, and how many kernels they were fitted to; prints how they do.

    Args:
        together: the kinds of loop that share slopes and offsets.
    """
    kernels = [kernel_of(row) for row in rows]
    real, spilled = np.array([one.registers for one in kernels], float), np.array([one.spills > 0 for one in kernels])
    loop, arch = np.array([one.loop for one in kernels]), np.array([one.target for one in kernels])
    held_out, free = np.array([is_held_out(row) for row in rows]), np.array([is_free(row) for row in rows])
    known = model_of(kernels)(gpu_of(kernels[0].target).registers)
    tables = {target: gpu_of(target).registers for target in sorted(set(arch), key=arch_number)}
    for kinds in together:
        train = np.isin(loop, kinds) & free & ~held_out
        unknowns = [Unknown(tuple(("offset", kind) for kind in kinds), 0.0, WIDE, rows=(target,)) for target in tables]
        for name, symbol in registers.SLOPE_OF.items():
            # Slopes that the data do not settle stay at their prior.
            deviation = known[symbol][train].std()
            spread = NOTICED * real[train].mean() / (RIDGE * deviation) if deviation else 1.0
            unknowns.append(Unknown(tuple(("slopes", name, kind) for kind in kinds), float(name in EACH_A_REGISTER), spread))
        found = moved([one for one, mine in zip(kernels, train) if mine], tables, unknowns)
        tables = {target: rounded(table, unknowns) for target, table in found.items()}
    demand, budget, uneven = (np.empty(len(rows)) for _ in range(3))
    for target, table in tables.items():
        mine = arch == target
        told = model_of([one for one, own in zip(kernels, mine) if own])(table)
        demand[mine], budget[mine], uneven[mine] = told["demand"], told["register_budget"], told["uneven"]
    excess = demand - budget + uneven
    squeeze = [0.0] * len(registers.LOOPS)
    for kinds in together:
        for kind in kinds:
            squeeze[kind] = _threshold(excess, spilled, np.isin(loop, kinds) & ~held_out)
    predicted = np.minimum(budget, np.ceil(demand))
    for label, which in _groups(rows, free, held_out, loop):
        if which.any():
            error = np.abs(predicted - real)[which] / real[which]
            print(f"{label:<44} {which.sum():4d} kernels: mean {100 * error.mean():4.1f} %, worst {100 * error.max():4.1f} %, "
                  f"{100 * (error < 0.15).mean():3.0f} % of them within 15 %")
    limit = np.array(squeeze)[loop]
    for label, which in (("training", ~held_out), ("held out", held_out)):
        refused = excess > limit
        print(f"spills, {label}: {(which & spilled & ~refused).sum()} of {(which & spilled).sum()} not foreseen, "
              f"{(which & ~spilled & refused).sum()} of {(which & ~spilled).sum()} refused though they fit")
    return {target: table.model_copy(update={"squeeze": tuple(squeeze)}) for target, table in tables.items()}, int(sum(free & ~held_out))


WALKED = {"cdna1": ("mi100",), "cdna2": ("mi210", "mi300x", "mi355x"), "rdna3": ("rx7900xtx", "rx9070xt")}
"""GPUs of the generations whose rows have [registers.walking]. NVIDIA's kernels for batches keep to their launch bound, and need no fit."""
TILES = (None, *([tile] for tile in ((16, 32, 64, 128), (32, 32, 32, 128), (32, 64, 32, 128), (64, 64, 32, 128), (64, 64, 16, 128), (64, 64, 16, 256))))


def walked(job: tuple[str, str, str, str, list | None]) -> tuple[list[float], int] | None:
    """What `Walk` multiplies, and the registers of a kernel for batches; None where it cannot be or spills."""
    gpu, scheme, walk, kind, tiles = job
    try:
        plan = solve(loads({
            "problem": {"kind": kind}, "split": {"scheme": scheme}, "batch": {"walk": walk, **({"tiles": tiles} if tiles else {})},
            "pipeline": {"design": "grouped"}, "target": {"gpu": gpu}, "build": {"allow_spills": True},
        }))
        source = render(plan)
        used = build(source).kernels[source.name]
    except GemmgenError:
        return None
    known = plan.numbers
    stays, listed, further = known["staying"], known["of_list"], known["further_tiles"]
    row = [known["tile_registers"], 1, (1 - listed) * (further > 1), stays, stays * listed, stays * listed * further]
    return None if used.spill_bytes else ([float(one) for one in row], used.registers)


def batches(name: str, jobs: int) -> None:
    """Prints the constants of kernels for batches, and how far they are from what these were fitted to."""
    for part, schemes in (("matrix", ("half", "ootomo", "bf16x6")), ("plain", ("fp32",))):
        work = list(product(WALKED[name], schemes, ("workgroups", "persistent"), ("grouped", "strided"), TILES))
        with Pool(jobs) as pool:
            rows = [row for row in pool.map(walked, work) if row]
        terms, real = np.array([row for row, _ in rows]), np.array([used for _, used in rows], float)
        found, *_ = np.linalg.lstsq(terms / real[:, None], np.ones(len(real)), rcond=None)
        error = np.abs(terms @ found / real - 1)
        print(f"[registers.walking.{part}]  # {len(rows)} kernels: mean {100 * error.mean():.1f} %, worst {100 * error.max():.1f} %")
        print("\n".join(f"{field} = {round(float(value), 2) + 0.0}" for field, value in zip(Walk.model_fields, found)))


def _groups(rows, free, held_out, loop) -> Iterator[tuple[str, np.ndarray]]:
    proposed = np.array([is_proposed(row) for row in rows])
    yield "training", free & ~held_out
    yield "held out", free & held_out
    yield "held out, as solve proposes", free & held_out & proposed
    for kind, name in enumerate(registers.LOOPS):
        yield f"held out, as solve proposes, {name}", free & held_out & proposed & (loop == kind)
    for arch in sorted({row["arch"] for row in rows}, key=arch_number):
        yield f"held out, as solve proposes, {arch}", free & held_out & proposed & np.array([row["arch"] == arch for row in rows])


def _threshold(excess: np.ndarray, spilled: np.ndarray, which: np.ndarray) -> float:
    """The excess of demand over budget above which a kernel is taken to spill: a miss costs as much as ten refusals."""
    choices = np.arange(-30.0, 41.0, 1.0)
    costs = [10 * (spilled & which & (excess <= c)).sum() + (~spilled & which & (excess > c)).sum() for c in choices]
    return float(choices[int(np.argmin(costs))])


def written(text: str, name: str, tables: dict[str, Registers]) -> str:
    """A generation's row with what was fitted: its own offsets, and where the row has its family's slopes these and the squeeze."""
    own = sorted((target for target in tables if generation(arch_number(target)) == name), key=arch_number)
    if not own:
        return text
    first, lines, section = tables[own[0]], [], ""
    holds = name in HOLDERS
    for line in text.splitlines():
        key = line.partition(" =")[0]
        if line.startswith("["):
            section = line.partition("]")[0][1:]
        if section == "registers" and key == "offset":
            line = f"offset = {_five(first.offset)}"
        elif section == "registers.since" and "=" in line and key in own:
            line = f"{key} = {_five(tables[key].offset)}"
        elif holds and section == "registers" and key == "squeeze":
            line = f"squeeze = {_five(first.squeeze)}"
        elif holds and section == "registers.slopes" and key in registers.SLOPE_OF:
            line = f"{key} = {_five(getattr(first.slopes, key))}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _five(values: Sequence[float]) -> str:
    return "[" + ", ".join(str(float(value) + 0.0) for value in values) + "]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=("measure", "fit", "batches"))
    parser.add_argument("what", nargs="?", choices=(*ARCHS, *WALKED), default="nvidia", help="whose kernels to measure")
    parser.add_argument("--each", type=int, default=110, help="kernels an architecture")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if options.verb == "measure":
        measure(options.what, options.each, options.jobs)
    elif options.verb == "batches":
        batches(options.what, options.jobs)
    else:
        fit()


if __name__ == "__main__":
    main()
