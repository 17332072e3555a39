"""The whole row of the GPU, and that of its generation, out of all that was told and measured.

Each value has its standing beside it. What nobody told is taken from a row of the same arch, and marked as assumed; where there is
none, the row stays `gpu.partial.toml`, with what is missing named. Constants of the models that were not fitted are those of the nearest
generation, priors, and the generation's row names them.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemmgen.catalog.generation import Constant
from gemmgen.catalog.gpu import GPUS, Limits, Rates, arch_number, nearest_generation
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import GemmgenError
from gemmgen.workshop.bringup import toml_values
from gemmgen.workshop.bringup.session import Session, Value

PARTIAL = "gpu.partial.toml"
GPU_ROW = "gpu row"
"""The value that tells why there is no whole row."""
_FROM_OTHERS = {
    "tensor_boost_mhz": "the clock beside matrix work, where nobody measured it",
    "dram_gib": "device_memory_bytes",
    "f16_tflops": "2 * sms * tensor_boost_mhz * tensor_fma_per_clock.f16",
    "f32_tflops": "2 * sms * boost_mhz * f32_fma_per_clock",
}
"""What follows from other values."""


def measure(session: Session) -> None:
    """The rows, in place of the partial one."""
    write_partial(session)
    values = known(session)
    absent = missing(values)
    unit = f"units/{session.name}.toml"
    if unit not in session.rows:
        absent.append(f"matrix_unit ({unit}: no rule was found)")
    if absent:
        _stay_partial(session, absent)
        return
    session.values += [value for name, value in values.items() if session.known(f"gpu {name}") is None]
    partial = session.rows.pop(PARTIAL)
    write(session, values)
    try:
        GPUS.get(str(session.place()))
    except GemmgenError as error:
        for name in (session.gpu_row, _generation_row(session)):
            session.rows.pop(name)
        session.rows[PARTIAL] = partial
        _stay_partial(session, [f"{error.where.partition(': ')[2]}: {error.needs or error.problem}"])
        return
    session.sections.append(("The GPU's row", _told(session)))


def missing(values: Mapping[str, Value]) -> list[str]:
    """Keys of a GPU's row that nobody has told."""
    return [name for model in (Limits, Rates) for name, one in model.model_fields.items() if name not in values and one.is_required()]


def write_partial(session: Session) -> None:
    """The partial row, which no table reads, of what was told and measured until now."""
    values = {one.name.removeprefix("gpu "): one for one in session.values if one.name.startswith("gpu ") and one.value is not None}
    head = "Part of a GPU's row: what the driver tells, and what was measured. Missing: " + ", ".join(missing(values)) + "."
    session.rows[PARTIAL] = "\n".join(_lines(session, values, head)) + "\n"


def write(session: Session, values: Mapping[str, Value] | None = None) -> None:
    """The GPU's row and its generation's as they are known now, into the session's rows."""
    session.rows[session.gpu_row] = gpu_text(session, values or known(session))
    session.rows[_generation_row(session)] = generation_text(session)


def known(session: Session) -> dict[str, Value]:
    """Values of the row's limits and rates by their names: what was told or measured, what follows from it, what a row of the same arch has."""
    names = [*Limits.model_fields, *Rates.model_fields]
    found = {name: value for name in names if (value := session.known(f"gpu {name}"))}
    like = next((row for row in GPUS.rows() if row.arch == session.machine.arch), None)
    if like:
        for model, of in ((Limits, like.limits), (Rates, like.rates)):
            for name in model.model_fields:
                if name not in found and name not in _FROM_OTHERS and getattr(of, name) is not None:
                    found[name] = Value(f"gpu {name}", getattr(of, name), f"as of {like.name}, which has the same arch", "assumed")
    memory = session.known("gpu device_memory_bytes")
    if "dram_gib" not in found and (memory or like):
        found["dram_gib"] = (Value("gpu dram_gib", round(memory.value / 2**30, 1), f"{_FROM_OTHERS['dram_gib']} / 2^30", memory.standing) if memory else
                             Value("gpu dram_gib", like.rates.dram_gib, f"as of {like.name}, which has the same arch", "assumed"))
    if "tensor_boost_mhz" not in found and "boost_mhz" in found:
        found["tensor_boost_mhz"] = Value("gpu tensor_boost_mhz", found["boost_mhz"].value, "as boost_mhz, since nobody measured it", "assumed")
    for name, clock, rate in (("f16_tflops", "tensor_boost_mhz", "tensor_fma_per_clock"), ("f32_tflops", "boost_mhz", "f32_fma_per_clock")):
        parts = [found.get(one) for one in ("sms", clock, rate)]
        if all(parts):
            sms, mhz, fma = (one.value for one in parts)
            fma = fma.get("f16") if isinstance(fma, Mapping) else fma
            if fma:
                worst = next((one.standing for one in parts if one.standing == "assumed"), "measured")
                found[name] = Value(f"gpu {name}", float(f"{2e-6 * round(sms) * round(mhz) * round(fma):.6g}"), _FROM_OTHERS[name], worst)
    return found


def _stay_partial(session: Session, absent: list[str]) -> None:
    text = "Not whole, so that no spec can name it; missing: " + ", ".join(absent) + "."
    session.values.append(Value(GPU_ROW, None, text, "not found"))
    session.sections.append(("The GPU's row", text))


def gpu_text(session: Session, values: Mapping[str, Value]) -> str:
    """The GPU's row as TOML."""
    head = f"Of gemmgen gpu probe: each value with its standing and how it was found; {session.name}.toml is named by its path."
    return "\n".join(_lines(session, values, head, f'generation = "{_generation_row(session)}"')) + "\n"


def _lines(session: Session, values: Mapping[str, Value], head: str, *generation: str) -> list[str]:
    machine = session.machine
    title = session.known("gpu title")
    lines = [
        f"# {head}",
        f'name = "{session.name}"', f'title = "{title.value if title else machine.name}"', f'source = "gemmgen gpu probe on {machine.name}"',
        f'vendor = "{vendor_of(machine.arch).name}"', f'arch = "{machine.arch}"', f'matrix_unit = "units/{session.name}.toml"', *generation,
    ]
    for table, model in (("limits", Limits), ("rates", Rates)):
        lines += ["", f"[{table}]"]
        for name, one in model.model_fields.items():
            if name in values:
                value = values[name]
                proof = f"; {value.proof}" if value.proof else ""
                told = toml_values.told(value.value, "{:.6g}".format if "float" in str(one.annotation) else _whole)
                lines.append(f"{name} = {told}  # {value.standing}: {_line(value.how + proof)}")
    return lines


def _whole(value: float) -> str:
    return str(round(value))


def _line(text: str) -> str:
    return " ".join(text.split())


def prior(session: Session) -> str:
    """The generation whose constants hold until others are known: the arch's own, or the nearest."""
    arch = session.machine.arch
    return nearest_generation(vendor_of(arch), arch_number(arch))


def _generation_row(session: Session) -> str:
    return f"generations/{session.name}.toml"


def generation_text(session: Session) -> str:
    """The generation's row as TOML: what was measured and fitted here, the rest like the nearest generation's."""
    like, machine = prior(session), session.machine
    lines = [
        f"# Constants that are not listed here are {like}'s: priors.",
        f'name = "{session.name}"', f'title = "{f"The constants of {machine.name}"[:100]}"', f'source = "gemmgen gpu probe on {machine.name}"',
        f'vendor = "{vendor_of(machine.arch).name}"', f'like = "{like}"', "", "[measured]", *(f"# {text}" for text in session.told_of_times),
    ]
    sections: dict[str, list[str]] = {}
    for (section, name), one in {**of_rates(session), **session.constants}.items():
        sections.setdefault(section, []).append(f'{name} = {{ value = {one.value:.4g}, source = "{_line(one.source)}" }}')
    lines += sections.pop("", [])
    for section, own in sections.items():
        lines += ["", f"[measured.{section}]", *own]
    return "\n".join([*lines, *(["", session.registers] if session.registers else [])]) + "\n"


def of_rates(session: Session) -> dict[tuple[str, str], Constant]:
    """Constants that rates tell, by section and name: better priors than another generation's."""

    def rate(name: str) -> float | None:
        value = session.known(f"rate {name}")
        return float(value.value) if value and value.standing == "measured" else None

    maker = vendor_of(session.machine.arch)
    lanes = session.known("gpu warp_size")
    policy = maker.portable_policies.get(lanes.value if lanes else 0)
    fma, dram = session.known("gpu tensor_fma_per_clock"), session.known("gpu dram_gb_per_s")
    portable = [reached for one in session.fragments if (one.policy, one.word) == (policy, "f16") and (reached := rate(f"{one.name} fma_per_clock"))]
    gap, copied = rate("launch gap_us"), rate("dram copy_gb_per_s")
    known = {
        ("", "mma_efficiency"): max(portable) / fma.value["f16"] if portable and fma and fma.value.get("f16") else None,
        ("", "dram_efficiency"): copied / dram.value if copied and dram else None,
        ("", "l2_bytes_per_clock"): rate("async_copy bytes_per_clock") or rate("l2 bytes_per_clock"),
        ("", "launch_seconds"): gap * 1e-6 if gap else None,
        ("wgmma", "sustained_f16_tflops"): rate("clock sustained_tflops") if any(one.from_shared for one in session.fragments) else None,
    }
    return {
        place: Constant(value=min(value, 1.0) if place[1].endswith("_efficiency") else value, source="measured: by microbenchmarks of the bring-up")
        for place, value in known.items() if value
    }


def _told(session: Session) -> str:
    standings = [value.standing for value in known(session).values()]
    counted = ", ".join(f"{standings.count(one)} {one}" for one in ("measured", "told", "assumed") if one in standings)
    return (f"`{session.gpu_row}`: {counted}. Specs name it by its path: `[target] gpu = \"{session.gpu_row}\"`, or `--gpu`. "
            f"Constants of the models that rates do not tell ({len(of_rates(session))} they do) are {prior(session)}'s until they are calibrated.")
