"""`gemmgen doctor`."""

from __future__ import annotations

from typing import Any

from gemmgen.cli.output import GREEN, RED, emit, emit_json, paint
from gemmgen.cli.verb import WORLD, Json, verb
from gemmgen.errors import EXIT_OK


@verb(WORLD, "gemmgen doctor", "gemmgen doctor --json", start="see what this machine has for gemmgen, and what to type next")
def doctor(as_json: Json = False) -> int:
    """Show what is here for gemmgen, and what to type next.

    That is GPUs, drivers, compilers and packages. Drivers and compilers are asked in processes of their own, so that what is
    broken or hangs is a line of the report. It takes 2 s at most.
    """
    from gemmgen.doctor import diagnosed

    value = diagnosed()
    emit_json(value) if as_json else emit(text(value))
    return EXIT_OK


def text(value: dict[str, Any]) -> str:
    """The report for a person."""
    driver = value["cuda_driver"]
    lines = [
        ("gemmgen", f"{value['gemmgen']} in {value['place']}"),
        ("Python", f"{value['python']}, {value['system']}, {value['processors']} processor{'s' * (value['processors'] != 1)}"),
        ("driver", f"NVIDIA's, for CUDA {driver // 1000}.{driver % 1000 // 10}" if driver else "no CUDA driver"),
        *(("GPU", f"{one['title']} ({one['arch']}), {_described(one)}") for one in value["gpus"]),
    ]
    if not value["gpus"]:
        lines.append(("GPU", "none"))
    for one in value["compilers"]:
        told = f"{one['name']}, {one['archs'][0]} to {one['archs'][-1]}" if one["ready"] else f"{one['name']} {one['problem']}"
        lines.append((f"for {one['for']}", told + (f"; {one['try']}" if one["try"] else "")))
    lines.append(("for libraries", ", ".join(value["host"]) or "no C compiler: gemmgen library and run need one"))
    for extra, packages in value["extras"].items():
        missing = [name for name, version in packages.items() if version is None]
        has = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
        lacks = f"{paint('missing', RED)} {', '.join(missing)}" + (f"; has {has}" if has else "")
        lines.append((f"[{extra}]" if extra else "needs", lacks if missing else has))
    lines += [("setting", f"{name}={setting}") for name, setting in value["settings"].items()]
    lines += [(paint("problem", RED), problem) for problem in value["problems"]]
    width = max(len(label) for label, _ in lines if "\0" not in label)
    shown = [f"{label}{' ' * (width - len('problem' if chr(0) in label else label))}  {told}" for label, told in lines]
    steps = [line for one in value["next"] for line in (f"  {paint(one['type'], GREEN)}", f"      {one['why']}")]
    return "\n".join([*shown, "", "Type next:", *steps])


def _described(gpu: dict[str, Any]) -> str:
    """What of specs/gpus a GPU's kernels are planned by."""
    if not gpu["row"]:
        return "which no file of specs/gpus describes"
    return f"described by {gpu['row']}" if gpu["own"] else f"planned for as {gpu['row']}, which has its target"
