"""Without a device: part of a GPU's row, as data sheets tell it, made a whole row.

What the architecture determines is filled in, what follows from other numbers is computed, and what is left is asked for by name, with
the data sheet's line that has it. Numbers that contradict each other are told, and by how much. Constants that nobody measured on this
GPU are priors: those of its generation.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gemmgen import __version__
from gemmgen.catalog.architecture import ARCHITECTURES, Architecture, architecture
from gemmgen.catalog.generation import GENERATION_TABLE
from gemmgen.catalog.gpu import GPUS, RATE_TOLERANCE, Gpu, Limits, Rates, arch_number, generation, nearest_generation
from gemmgen.catalog.partial import Partial, Sheet
from gemmgen.catalog.table import File, parse, read_toml, shown
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.catalog.vendor import Vendor, vendor_of
from gemmgen.errors import SpecError
from gemmgen.workshop.bringup import toml_values
from gemmgen.workshop.bringup.data_sheet import WORD_RATE, Check, Known, Numbers, relations_of
from gemmgen.workshop.bringup.findings import SCHEMA_VERSION, changes

KIND = "data sheet"
"""Of its report, beside the kinds of devices."""
LINES = {
    "title": "the product's full name",
    "source": "the documents that the numbers are from",
    "sms": "`SMs`; or [sheet] cores, `CUDA Cores` or `Stream Processors`, or [sheet] compute_units, `Compute Units`",
    "boost_mhz": "`Boost Clock`, `Peak Engine Clock` or `Boost Frequency` of the data sheet, MHz",
    "tensor_boost_mhz": "the clock that `f16_tflops` is stated at, where it is another than the boost clock, MHz",
    "f16_tflops": "`FP16 Tensor Core` or `Peak Half Precision (FP16)` of the data sheet, with FP32 accumulation, dense; or [sheet] sparse_tflops.f16, the"
                  " figure with sparsity",
    "f32_tflops": "`FP32` or `Peak Single Precision (FP32)` of the data sheet, outside the matrix units",
    "f32_fma_per_clock": "FP32 multiply-adds of an SM in a clock: `CUDA Cores` over `SMs`, or the programming guide's throughput of arithmetic instructions",
    "shared_bytes_per_clock": "`Shared memory bandwidth` of the architecture's whitepaper or tuning guide, bytes an SM in a clock",
    "dram_gb_per_s": "`Memory Bandwidth` of the data sheet, GB/s; or [sheet] memory_bus_bits, `Memory Interface`, and memory_gbit_per_pin, `Memory Speed`",
    "dram_gib": "`Memory Size` of the data sheet, GB",
    "l2_mib": "`L2 Cache` of the data sheet or of the architecture's whitepaper, MB",
    "like": "a compile target whose limits to assume, as no table knows those of this one",
    "generation": "a shipped generation whose constants of the model of time to assume",
    "matrix_unit": "a shipped matrix unit whose rounding to assume",
}
"""Where each value stands. Words' are in `_line`, limits in the architecture's technical specifications."""
_PRINTED = {"s8": "INT8", "e4m3": "FP8", "e5m2": "FP8", "e4m3fnuz": "FP8", "e5m2fnuz": "FP8"}
"""Words as data sheets call them, where that is another name."""
_LEFT_OUT = ("f64_tflops",)
"""What a row may do without."""
_HEAD = ("title", "year", "source", "vendor", "arch", "matrix_unit", "generation", "batch_threads")


@dataclass
class Filled:
    """What became of part of a row.

    Attributes:
        place: the part's file, as messages name it.
        values: of the row, by key.
        sheet: lines of the data sheet beside the row.
        asked: what is missing, by key, each with where it stands.
        checks: relations between numbers; contradictions: those that do not hold, and other disagreements, a sentence each; hints: what may be behind.
        notes: what may be right and is unlike other GPUs of the arch, a sentence each; multiples: those of figures that are some times what they should be.
        constants: of the model of time, by key.
        files: of the folder, by path; row: that of the row among them, None where it is not whole.
    """

    place: str
    name: str
    arch: str
    values: dict[str, Known]
    sheet: dict[str, Known]
    asked: dict[str, str]
    checks: list[Check] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    multiples: list[str] = field(default_factory=list)
    constants: dict[str, Known] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    row: str | None = None

    def refuse(self, folder: Path) -> None:
        """Raise what keeps it from being a row.

        Args:
            folder: where its files were written.

        Raises:
            SpecError: numbers contradict each other, or some are missing.
        """
        template = shown(folder / f"{self.name}.partial.toml")
        if self.contradictions:
            raise SpecError(
                self.place, "has numbers that contradict each other", got="; ".join(self.contradictions),
                needs=f"numbers that agree within {100 * RATE_TOLERANCE:g} %, and cores, units and limits exactly",
                remedy="; ".join([*self.multiples, *self.hints]) or
                "look the numbers up again: another model's, the base clock, or figures with sparsity or FP16 sums?",
            )
        if self.asked:
            raise SpecError(
                self.place, "leaves out what nothing else determines", got=", ".join(self.asked),
                needs="\n         ".join(f"{key}: {line}" for key, line in self.asked.items()),
                remedy="; ".join([
                    *self.multiples,
                    f"{'else ' if self.multiples else ''}fill in the lines of {template} that are comments, then gemmgen gpu from-row {template}",
                ]),
            )


def fill_in(file: Path, arch: str | None, name: str, folder: Path, before: str | None = None) -> Filled:
    """Make part of a row whole, as far as it can be.

    Args:
        file: the part.
        arch: its compile target, where it does not tell.
        name: of the row, where it does not tell.
        folder: where the row will lie, for paths in it.
        before: the JSON report of the last time.

    Raises:
        SpecError: the part cannot be read, or its arch is not told, is nobody's or told twice.
    """
    place = shown(file)
    partial: Partial = parse(Partial, read_toml(file), place)
    target_name = _arch(partial, arch, place)
    maker = vendor_of(target_name)
    if partial.vendor not in (None, maker.name):
        raise SpecError(f"{place}: vendor", "is another's than the arch", got=partial.vendor, needs=f"{maker.name}, whose {target_name} is")
    target, assumed = architecture(target_name), False
    if target is None and partial.like:
        target, assumed = _like(partial.like, maker, place), True
    unit = _unit(partial, target_name, file, place)
    words = unit.words if unit else ()

    given = partial.numbers() | partial.lines()
    known = {key: Known(value, "given", "given", {key: 1}) for key, value in given.items()}
    contradictions = _determine(known, target, target_name, assumed)
    numbers = Numbers(known, relations_of(target, words))
    filled = Filled(place, partial.name or name, target_name, {}, {}, {})
    _compute(numbers, target_name, words, filled.name)
    filled.checks = numbers.checks()
    filled.contradictions = contradictions + [one.text for one in filled.checks if not one.holds]
    filled.hints = [f"{key} = {_near(value)}, where that alone is wrong" for key, value in numbers.suspects()]
    filled.hints += _slips(filled.checks)
    filled.multiples = multiples(known, target_name, filled.name, partial.title or "")
    filled.notes = filled.multiples + _unlike(known, target_name, filled.name)
    keys = [key for model in (Limits, Rates) for key in model.model_fields if key not in ("tensor_fma_per_clock", "shared_banks")]
    taken = [word for word in words if not _zero(known, word)]
    filled.values = {key: known[key] for key in (*keys, "shared_banks", *(WORD_RATE + word for word in taken)) if key in known}
    filled.sheet = {key: one for key, one in known.items() if key in partial.lines()}
    _head(filled, partial, maker, unit, target, assumed, file, folder)
    _ask(filled, numbers, [key for key in keys if key not in _LEFT_OUT], taken, target)
    if not filled.asked and not filled.contradictions:
        _whole_row(filled, partial, unit, target if not assumed else None, folder)
    if filled.row is None:
        filled.files[f"{filled.name}.partial.toml"] = _template(filled, partial)
    told = as_dict(filled, json.loads(before) if before else None)
    filled.files |= {"report.md": markdown(filled, told), "report.json": json.dumps(told, indent=1) + "\n"}
    return filled


def _near(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def _arch(partial: Partial, arch: str | None, place: str) -> str:
    if arch and partial.arch and arch != partial.arch:
        raise SpecError("--arch", "is another than the row's", got=arch, needs=f"{partial.arch}, as in {place}", remedy="one of the two")
    told = arch or partial.arch
    if told is None:
        raise SpecError(f"{place}: arch", "is missing", needs="the compile target, as sm_87 or gfx942", remedy="--arch sm_87")
    parse(Partial, {"arch": told}, "--arch" if arch else place)
    return told


def _like(like: str, maker: Vendor, place: str) -> Architecture:
    found = architecture(like)
    if found is None or vendor_of(like) is not maker:
        raise SpecError(f"{place}: like", "is no target whose limits are known", got=like,
                        needs="one of: " + ", ".join(one for one in ARCHITECTURES if vendor_of(one) is maker))
    return found


def _unit(partial: Partial, arch: str, file: Path, place: str) -> MatrixUnit | None:
    """How its matrix unit rounds: the row's, or the arch's generation's; None where neither tells."""
    name = partial.matrix_unit or generation(arch_number(arch))
    return UNITS.get(name, where=f"{place}: matrix_unit", relative_to=file.parent) if name else None


def _determine(known: dict[str, Known], target: Architecture | None, arch: str, assumed: bool) -> list[str]:
    """Adds what the arch determines; what the row tells otherwise, a sentence each."""
    wrong = []
    for key, value in ({**target.limits, **target.rates} if target else {}).items():
        if key in known and known[key].value != value and not assumed:
            wrong.append(f"{key} is {known[key].value:g}, and {arch} has {value:g}: {abs(100 * (known[key].value / value - 1)):.3g} %"
                         f" {'more' if known[key].value > value else 'less'}")
        elif key not in known and target:
            how = f"assumed as of {target.name}" if assumed else f"of every GPU of {arch}"
            known[key] = Known(value, "prior" if assumed else "determined", how)
    return wrong


def _zero(known: Mapping[str, Known], word: str) -> bool:
    """Whether the data sheet tells that the matrix unit does not take the word type."""
    return any(key in known and known[key].value == 0 for key in (f"tflops.{word}", f"sparse_tflops.{word}"))


def _compute(numbers: Numbers, arch: str, words: Iterable[str], name: str) -> None:
    """Everything that follows, the clock under matrix work and the rates of words that other shipped rows of the same arch have among it."""
    known, rate = numbers.known, f"{WORD_RATE}f16"
    numbers.compute()
    alike = _alike(arch, name)
    if "tensor_boost_mhz" not in known and "boost_mhz" in known:
        clock = known["boost_mhz"]
        supposed = Known(clock.value, "prior", "the boost clock, as no other is told", clock.powers)
        trial = Numbers({**known, "tensor_boost_mhz": supposed}, numbers.relations)
        trial.compute()
        if not trial.failed:
            known["tensor_boost_mhz"] = supposed
        else:
            # Matrix units at the rate of a card whose units are cut down would clock above the boost.
            fitting = []
            for theirs in {row["f16"] for row in alike} if rate not in known else ():
                supposed = Known(theirs, "determined", f"as of every shipped GPU of {arch} whose rate gives such a clock")
                other = Numbers({**known, rate: supposed}, numbers.relations)
                other.compute()
                if "tensor_boost_mhz" in other.known and other.known["tensor_boost_mhz"].value <= (1 + RATE_TOLERANCE) * clock.value:
                    fitting.append(other.known[rate])
            if len(fitting) == 1:
                [known[rate]] = fitting
                numbers.compute()
            if "tensor_boost_mhz" not in known:
                numbers.failed["tensor_boost_mhz"] = f"at the boost clock {next(iter(trial.failed.values()))}, which is no power of two"
    numbers.compute()
    for word in words if rate in known else ():
        rates = {row.get(word) for row in alike if row["f16"] == known[rate].value}
        if WORD_RATE + word not in known and not _zero(known, word) and len(rates) == 1 and None not in rates:
            how = f"as of every shipped GPU of {arch} that has {known[rate].value} of f16"
            known[WORD_RATE + word] = Known(rates.pop(), "determined", how)
    numbers.compute()


def _alike(arch: str, name: str) -> list[Mapping[str, int]]:
    """Multiply-adds a clock of the shipped GPUs of an arch, but of the one itself."""
    return [row.rates.tensor_fma_per_clock for row in GPUS.rows() if row.arch == arch and row.name != name]


MULTIPLES = {2: "with sparsity, or with FP16 sums", 4: "with sparsity and FP16 sums"}
"""What a figure of matrix units is that is so many times the dense one with FP32 sums."""
_FLOATS = ("f16", "bf16")
"""Words whose products some GPUs sum in FP16 at twice the rate."""
_NEAR = 0.15
"""How far a figure may be from such a multiple: clocks that figures are stated at differ by so much."""


def multiples(known: Mapping[str, Known], arch: str, name: str, title: str) -> list[str]:
    """Figures that are twice or four times what GPUs of the same arch have at these counts and clocks, a sentence each with what it should be.

    Args:
        title: of the product: where shipped GPUs of its line (`NVIDIA GeForce`) are of the arch, those count alone.
    """
    rows = [row for row in GPUS.rows() if row.arch == arch and row.name != name]
    line = title.split()[:2]
    rows = [row for row in rows if row.title.split()[:2] == line] or rows
    clock = known.get("tensor_boost_mhz") or known.get("boost_mhz")
    found = []
    for key, one in known.items():
        word = "f16" if key == "f16_tflops" else key.removeprefix("tflops.") if key.startswith("tflops.") else ""
        having = {row.rates.tensor_fma_per_clock[word]: row.name for row in rows if word in row.rates.tensor_fma_per_clock}
        if not having or one.standing != "given" or not one.value or clock is None or "sms" not in known:
            continue
        shares = {one.value / (2e-6 * known["sms"].value * clock.value * rate): who for rate, who in having.items()}
        if any(abs(share - 1) <= 2 * _NEAR for share in shares):
            continue
        for share, who in shares.items():
            for times, why in MULTIPLES.items():
                if abs(share / times - 1) <= _NEAR and (word in _FLOATS or times == 2):
                    why = why if word in _FLOATS else "with sparsity"
                    dense = "Dense with FP32 sums" if word in _FLOATS else "Dense"
                    found.append(f"{key} is {one.value:g}, {'twice' if times == 2 else 'four times'} what such cards have ({who}): a figure {why}? "
                                 f"{dense} it should be {one.value / times:g}")
    return found


def _unlike(known: Mapping[str, Known], arch: str, name: str) -> list[str]:
    """Rates that no other shipped GPU of the arch has: a figure with sparsity or FP16 sums gives a power of two as well."""
    notes, alike = [], _alike(arch, name)
    for key, one in known.items():
        rates = {row[key.removeprefix(WORD_RATE)] for row in alike if key.removeprefix(WORD_RATE) in row}
        if key.startswith(WORD_RATE) and rates and one.value not in rates:
            others = " and ".join(map(str, sorted(rates)))
            notes.append(f"{key} is {one.value}, and shipped GPUs of {arch} have {others}: is its figure one with sparsity, or with FP16 sums?")
    return notes


def _slips(checks: Iterable[Check]) -> list[str]:
    """What is behind a factor of two, and the number that would hold."""
    for one in checks:
        share = one.left / one.right
        if not one.holds and "tflops" in one.relation.left and (abs(share - 2) < 0.1 or abs(share - 0.5) < 0.03):
            found = f"{one.relation.left} is off by a factor of two: a figure with sparsity, with FP16 sums, or of both dies?"
            return [found + (f" It should be {one.left / 2:g}" if share > 1 else "")]
    return []


def _head(
    filled: Filled, partial: Partial, maker: Vendor, unit: MatrixUnit | None, target: Architecture | None, assumed: bool, file: Path, folder: Path,
) -> None:
    """The values above a row's tables, and what is asked of them."""
    arch, own = filled.arch, generation(arch_number(filled.arch))
    head = {key: Known(getattr(partial, key), "given", "given") for key in ("title", "year", "source", "batch_threads") if getattr(partial, key) is not None}
    filled.asked |= {key: LINES[key] for key in ("title", "source") if key not in head}
    head["vendor"] = Known(maker.name, "determined", f"whose {arch} is")
    head["arch"] = Known(arch, "given", "given")
    if unit and partial.matrix_unit and partial.matrix_unit.endswith(".toml"):
        head["matrix_unit"] = Known(_path(partial.matrix_unit, file, folder), "given", "given")
    elif unit and own:
        if unit.name != own:
            filled.contradictions.append(f"matrix_unit is {unit.name}, and {arch} has {own}")
        head["matrix_unit"] = Known(own, "determined", f"of {arch}'s generation: {unit.verified or unit.unchecked or 'unverified'}")
    elif unit:
        head["matrix_unit"] = Known(f"units/{filled.name}.toml", "prior", f"assumed as {unit.name}'s, not checked on hardware")
    else:
        filled.asked["matrix_unit"] = f"{LINES['matrix_unit']}: none is of {arch}; one of {', '.join(UNITS.names())}, or a .toml file"
    if partial.generation and partial.generation.endswith(".toml"):
        head["generation"] = Known(_path(partial.generation, file, folder), "given", "given")
    elif partial.generation:
        GENERATION_TABLE.get(partial.generation, where=f"{filled.place}: generation")
        mine = own and partial.generation == nearest_generation(maker, arch_number(arch))
        head["generation"] = Known(partial.generation if mine else f"generations/{filled.name}.toml", "prior", f"like {partial.generation}")
    elif own:
        head["generation"] = Known(nearest_generation(maker, arch_number(arch)), "prior", f"that of {arch}; measured on other GPUs, if at all")
    else:
        names = [row.name for row in GENERATION_TABLE.rows() if row.vendor == maker.name]
        filled.asked["generation"] = f"{LINES['generation']}: none is of {arch}; one of {', '.join(names)}, or a .toml file"
    if target is None:
        filled.asked["like"] = f"{LINES['like']}: one of {', '.join(one for one in ARCHITECTURES if vendor_of(one) is maker)}; or all of [limits]"
    filled.values = {key: head[key] for key in _HEAD if key in head} | filled.values


def _path(told: str, file: Path, folder: Path) -> str:
    """A row's path from the folder of the new one on."""
    return os.path.relpath(file.parent / told, folder)


def _ask(filled: Filled, numbers: Numbers, keys: Sequence[str], words: Sequence[str], target: Architecture | None) -> None:
    """What neither is known nor follows from what else is asked: the data sheet's own lines first."""
    rate = f"{WORD_RATE}f16"
    if rate not in numbers.known and _alike(filled.arch, filled.name):
        words = ()  # which may follow once that of f16 is known
    figures = [f"tflops.{word}" for word in words if word != "f16" and WORD_RATE + word not in numbers.known]
    limits = () if target is None else keys  # with `like` they follow
    wanted = ["sms", "boost_mhz", "f16_tflops", "tensor_boost_mhz", *figures, "dram_gb_per_s", "dram_gib", "l2_mib", *limits, rate]
    filled.asked |= {key: _line(key, numbers) for key in numbers.needed([*wanted, *(WORD_RATE + word for word in words)])}


def _line(key: str, numbers: Numbers) -> str:
    """Where a value stands."""
    if key.startswith("tflops."):
        word = key.removeprefix("tflops.")
        name = _PRINTED.get(word, word.upper())
        return f"`{name} Tensor Core` or `Peak {name}` of the data sheet, 10^12 operations a second, dense, 0 where the chip has none; or [sheet]" \
               f" sparse_tflops.{word}, the figure with sparsity"
    if key.startswith(WORD_RATE):
        return f"{numbers.failed.get(key, 'multiply-adds of the matrix units of an SM in a clock')}; a power of two"
    line = LINES.get(key, "the architecture's technical specifications")
    return f"{line}; {numbers.failed[key]}" if key in numbers.failed else line


def _whole_row(filled: Filled, partial: Partial, unit: MatrixUnit, target: Architecture | None, folder: Path) -> None:
    """Writes the row and those that it refers to, and loads it."""
    name, values = filled.name, filled.values
    if values["matrix_unit"].value == f"units/{name}.toml":
        filled.files[f"units/{name}.toml"] = _unit_after(unit, name)
    if values["generation"].value == f"generations/{name}.toml":
        filled.files[f"generations/{name}.toml"] = _toml({
            "name": name, "title": f"As {partial.generation}", "source": f"assumed: nothing was timed on {name}", "vendor": values["vendor"].value,
            "like": partial.generation,
        })
    base = partial.generation if partial.generation and not partial.generation.endswith(".toml") else values["generation"].value
    data: dict[str, Any] = {"name": name} | {key: values[key].value for key in _HEAD if key in values} | {
        "generation": base, "limits": {key: values[key].value for key in Limits.model_fields if key in values},
        "rates": {key: values[key].value for key in Rates.model_fields if key in values}
        | {"tensor_fma_per_clock": {key.removeprefix(WORD_RATE): one.value for key, one in values.items() if key.startswith(WORD_RATE)}},
    }
    if partial.measured:
        data["measured"] = partial.measured
    if values["matrix_unit"].standing == "prior":  # its file is not written yet
        data["matrix_unit"] = str(UNITS.folder / f"{unit.name}.toml")
    row: Gpu = parse(Gpu, data, filled.place, context=File(filled.place, folder))
    filled.constants = {
        key: Known(one["value"], "given" if key in _flat(partial.measured) else "prior", one["source"]) for key, one in _flat(row.measured.model_dump()).items()
    }
    filled.row = f"{name}.toml"
    filled.files[filled.row] = _row_text(filled, partial, target)


def _flat(constants: Mapping[str, Any], before: str = "") -> dict[str, dict[str, Any]]:
    """Constants by dotted key."""
    found: dict[str, dict[str, Any]] = {}
    for key, one in constants.items():
        if isinstance(one, dict):
            found |= {before + key: one} if "source" in one else _flat(one, f"{before}{key}.")
    return found


def _unit_after(unit: MatrixUnit, name: str) -> str:
    """The row of a unit that is assumed to be as another, unchecked."""
    def unchecked(row: dict[str, Any]) -> dict[str, Any]:
        return row | {"source": f"assumed as {unit.name}'s: {row['source']}", "verified": "", "unchecked": f"assumed as {unit.name}'s, not checked on hardware"}

    data = unchecked(unit.model_dump(exclude_none=True, exclude_defaults=True) | {"name": name})
    if data.get("variants"):
        data["variants"] = [unchecked(one) for one in data["variants"]]
    data.pop("unverified_words", None)
    return _toml(data)


def _value(value: Any) -> str:
    return toml_values.told(value, _number)


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else repr(value)


def _toml(data: Mapping[str, Any]) -> str:
    """A row as TOML: single values first, then tables, then arrays of tables."""
    lists = {key: one for key, one in data.items() if isinstance(one, list | tuple) and one and isinstance(one[0], Mapping)}
    tables = {key: one for key, one in data.items() if isinstance(one, Mapping)}
    lines = [f"{key} = {_value(one)}" for key, one in data.items() if key not in lists and key not in tables]
    for key, table in tables.items():
        lines += ["", f"[{key}]", *(f"{inner} = {_value(one)}" for inner, one in table.items())]
    for key, rows in lists.items():
        for row in rows:
            lines += ["", f"[[{key}]]", *(f"{inner} = {_value(one)}" for inner, one in row.items())]
    return "\n".join(lines) + "\n"


def _noted(line: str, note: str) -> str:
    """A line and where its value is from; given ones, which are the reader's, without."""
    return line if note == "given" else f"{line:<40} # {note}"


def _note(one: Known) -> str:
    return one.standing if one.standing == one.how else f"{one.standing}: {one.how}"


def _row_text(filled: Filled, partial: Partial, target: Architecture | None) -> str:
    """The row. Every value that is not given says its standing."""
    values = filled.values
    mine = "generation" in values and (values["generation"].value.endswith(".toml"))
    lines = [f'name = "{filled.name}"']
    for key in _HEAD:
        if key in values and (key != "generation" or mine):
            lines.append(_noted(f"{key} = {_value(values[key].value)}", _note(values[key])))
    lines.append(f"# Constants of the model of time that are not below are priors: those of generation {values['generation'].value}.")
    fixed = {key: values[key] for key in values if target and key in {**target.limits, **target.rates}}
    if target:
        lines += ["", f"# Determined by {filled.arch}, and so not repeated here ({target.source}):"]
        lines += ["#   " + ", ".join(f"{key} = {one.value}" for key, one in chosen) for chosen in _chunks(list(fixed.items()), 3)]
    else:
        lines += ["", "[limits]"]
        lines += [_noted(f"{key} = {values[key].value}", _note(values[key])) for key in Limits.model_fields if key in values]
    lines += ["", "[rates]                                  # dense, f16 with FP32 accumulation; what has no note is given"]
    for key in Rates.model_fields:
        if key == "tensor_fma_per_clock":
            words = {inner.removeprefix(WORD_RATE): one for inner, one in values.items() if inner.startswith(WORD_RATE)}
            lines.append(f"tensor_fma_per_clock = {_value({word: one.value for word, one in words.items()})}")
            lines += [f"# {word}: {_note(one)}" for word, one in words.items()]
        elif key in values and key not in fixed:
            lines.append(_noted(f"{key} = {_value(values[key].value)}", _note(values[key])))
    if filled.sheet:
        lines += ["", "# Of the data sheet, too: " + ", ".join(f"{key} = {one.value}" for key, one in filled.sheet.items())]
    text = "\n".join(lines) + "\n"
    for key, one in _flat(partial.measured).items():
        *section, last = key.split(".")
        head = f"[{'.'.join(['measured', *section])}]"
        text += ("" if f"\n{head}\n" in text else f"\n{head}\n") + f"{last} = {_value(one)}\n"
    return text


def _chunks(items: list[Any], size: int) -> list[list[Any]]:
    return [items[start:start + size] for start in range(0, len(items), size)]


def _template(filled: Filled, partial: Partial) -> str:
    """The part again, with a line for each value that is missing."""
    def line(key: str, value: Any, asked: str | None) -> str:
        return f"# {key} ={' ' * max(1, 24 - len(key))} # {asked}" if asked else f"{key} = {_value(value)}"

    lines = ["# Part of a GPU's row. Missing, as comments: fill them in without the #, then gemmgen gpu from-row again.", f'name = "{filled.name}"']
    head = partial.model_dump(exclude_unset=True, exclude={"name", "limits", "rates", "measured", "sheet"}) | {"arch": filled.arch}
    for key in ("title", "year", "source", "vendor", "arch", "like", "matrix_unit", "generation", "batch_threads"):
        if key in head or key in filled.asked:
            lines.append(line(key, head.get(key), filled.asked.get(key)))
    told = partial.model_dump(exclude_unset=True)
    for table, model in (("limits", Limits), ("rates", Rates), ("sheet", Sheet)):
        section = told.get(table, {})
        rows = [line(key, section.get(key), filled.asked.get(key)) for key in model.model_fields if key in section or key in filled.asked]
        for key, asked in filled.asked.items():
            owner, _, word = key.partition(".")
            if word and owner in model.model_fields:
                if owner in section:  # an inline table cannot be continued
                    rows.append(f"# {owner}, above: {word} = ... # {asked}")
                else:
                    rows.append(line(key, None, asked))
        if rows:
            lines += ["", f"[{table}]", *rows]
    text = "\n".join(lines) + "\n"
    return text + ("\n" + _toml({"measured": partial.measured}) if partial.measured else "")


def as_dict(filled: Filled, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Everything told, as plain data."""
    def one_of(value: Known) -> dict[str, Any]:
        return {"value": value.value, "standing": value.standing, "how": value.how}

    every = filled.values | {f"measured {key}": one for key, one in filled.constants.items()}
    told: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "generator": f"gemmgen {__version__}", "device": filled.name, "kind": KIND, "arch": filled.arch, "name": filled.name,
        "row": filled.row, "values": {key: one_of(value) for key, value in every.items()}, "sheet": {key: one_of(value) for key, value in filled.sheet.items()},
        "missing": filled.asked, "contradictions": filled.contradictions, "hints": filled.hints, "notes": filled.notes,
        "checks": [
            {"left": one.relation.left, "right": one.relation.product, "is": one.left, "gives": one.right, "share": one.share, "holds": one.holds,
             "defines": one.defines} for one in filled.checks
        ],
    }
    return told | {"changed": None if before is None else changes(before, told)}


def summary(told: Mapping[str, Any]) -> str:
    """The report of a whole row in a few lines: the verdict first, then what to look at again."""
    standings = Counter(one["standing"] for one in told["values"].values())
    lines = [
        ("verdict", f"COMPLETE: {told['row']} describes {told['name']} ({told['arch']})" + (
            f"; {len(told['notes'])} value{'s' * (len(told['notes']) != 1)} to look at again" if told["notes"] else "")),
        ("values", ", ".join(f"{count} {standing}" for standing, count in standings.items())),
        ("sums", f"{sum(one['holds'] for one in told['checks'])} of {len(told['checks'])} hold within {100 * RATE_TOLERANCE:g} %"),
        *(("look at", note) for note in told["notes"]),
        *([("changed", "; ".join(told["changed"][:3]) + (f"; and {len(told['changed']) - 3} more" if len(told["changed"]) > 3 else "") or "nothing")]
          if told["changed"] is not None else []),
    ]
    return "\n".join(f"{label:<8}  {text}" for label, text in lines)


def markdown(filled: Filled, told: Mapping[str, Any]) -> str:
    """The report for a person."""
    lines = [f"# {filled.name} ({filled.arch}), from a data sheet", "", f"By {told['generator']}, from {filled.place}."]
    if told["changed"] is not None:
        lines += ["", "## What changed since the last time", "", *([f"- {one}" for one in told["changed"]] or ["Nothing."])]
    if filled.contradictions:
        lines += ["", "## Numbers that contradict each other", "", *(f"- {one}" for one in (*filled.contradictions, *filled.hints))]
    if filled.notes:
        lines += ["", "## To look at again", "", *(f"- {one}" for one in filled.notes)]
    if filled.asked:
        lines += ["", "## Missing", "", *(f"- `{key}`: {line}" for key, line in filled.asked.items())]
    lines += ["", "## Values", "", "| value | | standing | by |", "| --- | --- | --- | --- |"]
    lines += [f"| {key} | {one.value} | {one.standing} | {one.how} |" for key, one in filled.values.items()]
    lines += ["", "## Sums", "", *(f"- {one.text}" + (f", by which {one.defines} was computed" if one.defines else "") for one in filled.checks)]
    if filled.constants:
        lines += ["", "## Constants of the model of time", "", "Priors decide which kernel a search prefers, not whether it is right.", "",
                  "| constant | | standing | by |", "| --- | --- | --- | --- |"]
        lines += [f"| {key} | {one.value:g} | {one.standing} | {one.how} |" for key, one in filled.constants.items()]
    return "\n".join(lines) + "\n"
