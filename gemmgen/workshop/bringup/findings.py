"""The report of a bring-up, as Markdown and as JSON, and what changed since the one that is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gemmgen import __version__
from gemmgen.workshop.bringup.instruction import Instruction
from gemmgen.workshop.bringup.rates import NO_CLOCK
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.unit_row import differences, unit_row
from gemmgen.workshop.bringup.unit_rules import EXTREMES

SCHEMA_VERSION = 1


def as_dict(session: Session, seconds: float, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Everything found, as plain data.

    Args:
        before: the last one of the same folder.
    """
    told: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION, "generator": f"gemmgen {__version__}", "device": session.machine.name, "kind": session.machine.kind,
        "arch": session.machine.arch, "name": session.name, "products": session.products, "seed": session.seed, "seconds": round(seconds, 1),
        "part_seconds": session.seconds,
        "values": {value.name: value.as_dict() for value in session.values}, "instructions": [_instruction(one) for one in session.instructions],
        "left_out_of_the_unit": list(unit_row(session.instructions).left_out),
        "not_measured": dict(session.not_sought),
        "shipped": None if session.unit is None else {"unit": session.unit.name, "differences": differences(session.instructions, session.unit)},
    }
    return told | {"changed": None if before is None else changes(before, told)}


def _instruction(one: Instruction) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": one.fragment.name, "instruction": one.fragment.instruction, "word": one.fragment.word, "policy": one.fragment.policy,
        "asked": one.asked, "seconds": round(one.seconds, 2), "error": one.error and one.error.as_dict(),
    }
    if one.maps:
        found["maps"] = {
            "as_shipped": one.maps.same_as(one.fragment), "bit_rows": one.maps.fits, "complaints": one.maps.complaints, "products": one.maps.tiles,
            "numbers": "memory" if one.maps.anchored else "the catalog's where it puts the same elements together",
        }
    if one.found:
        rule = one.found
        found["rule"] = {
            "fits": rule.fits, "rule": rule.candidate._asdict(), "not_told_apart": [other._asdict() for other in rule.same], "rules": rule.of,
            "described": rule.described and rule.described._asdict(), "turns": rule.turns, "products": rule.asked, "random": rule.kinds,
            "against": rule.against,
        }
    if one.whole:
        found["integers"] = {"products": one.whole[0], "exact": one.whole[1]}
    if one.profile:
        found["egemm"] = one.profile.as_dict()
    return found


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What values say otherwise than the last time, a sentence each; how they were found does not count."""
    old, new = before.get("values", {}), now["values"]
    found = [f"the device was {before.get('device')}, and is {now['device']}"] if before.get("device") != now["device"] else []
    for name in dict.fromkeys((*old, *new)):
        if name not in new:
            found.append(f"{name}: was {old[name]['value']}, and was not sought")
        elif name not in old:
            found.append(f"{name}: new, {new[name]['value']}")
        elif not _same(old[name]["value"], new[name]["value"], new[name].get("tolerance", 0.0)):
            found.append(f"{name}: was {old[name]['value']}, is {new[name]['value']}")
    return found


def _same(old: Any, new: Any, tolerance: float) -> bool:
    """Whether two values are one, or nearly where a measurement is not the same twice."""
    if tolerance and isinstance(old, int | float) and isinstance(new, int | float):
        return abs(new - old) <= tolerance * max(abs(new), abs(old))
    return _plain(old) == _plain(new)


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


SHOWN = 3
"""Names that a line of the summary lists."""


def missed(told: Mapping[str, Any], *, without: Sequence[str] = ()) -> list[str]:
    """Names of what was sought and not found, but for what a device without a clock cannot tell.

    Args:
        without: names that do not count.
    """
    return [name for name, value in told["values"].items() if value["standing"] == "not found" and value["how"] != NO_CLOCK and name not in without]


def summary(told: Mapping[str, Any], *, without: Sequence[str] = ()) -> str:
    """The report in some ten lines: the verdict first; arguments as `missed`."""
    values, instructions, lacking = told["values"], told["instructions"], missed(told, without=without)

    def few(names: Sequence[str], between: str = ", ") -> str:
        return between.join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")

    def of(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): one for name, one in values.items() if name.startswith(prefix)}

    def figures(**units: str) -> str:
        there = [(name.replace("__", " "), unit) for name, unit in units.items()]
        return ", ".join(f"{of('rate ')[name]['value']:g} {unit}" for name, unit in there if of("rate ").get(name, {}).get("value"))

    rules = [one for one in instructions if one.get("rule", {}).get("fits") or one.get("integers")]
    kinds = [count for one in instructions for count in one.get("rule", {}).get("random", {}).values()]
    kinds += [(one["integers"]["products"], one["integers"]["exact"]) for one in instructions if one.get("integers")]
    asked, right = sum(count for count, _ in kinds), sum(agreeing for _, agreeing in kinds)
    maps = [one["maps"]["as_shipped"] for one in instructions if one.get("maps")]
    standings = Counter(one["standing"] for one in of("gpu ").values())
    limits = {name: one["value"] for name, one in of("gpu ").items() if one["value"] is not None}
    kernels = of("kernel ")
    verdict = f"INCOMPLETE: {len(lacking)} sought and not found: {few(lacking)}" if lacking else "COMPLETE: all that was sought was found"
    rates = figures(clock__sustained_tflops="TFLOPS sustained", dram__read_gb_per_s="GB/s of memory", clock__sustained_mhz="MHz under load")
    shipped, changed = told["shipped"], told["changed"]
    lines = {
        "verdict": verdict,
        "device": f"{told['device']} ({told['arch']}), in {told['seconds']:g} s",
        "instructions": f"{len(rules)} of {len(instructions)} described by a rule; lane maps of {len(maps)} found, {sum(maps)} as shipped",
        "proof": f"{right:,} of {asked:,} random products as the rules say",
        "unit": "no shipped unit to compare with" if shipped is None else (
            f"as the shipped {shipped['unit']}" if not shipped["differences"] else
            f"unlike the shipped {shipped['unit']}: {few(shipped['differences'], '; ')}"),
        "GPU": ", ".join(f"{count} values {standing}" for standing, count in standings.items()) + "; " + ", ".join(
            f"{limits[name]} {unit}" for name, unit in (("sms", "SMs"), ("registers_per_sm", "registers an SM"), ("shared_bytes_per_block", "B shared a block"))
            if name in limits),
        "rates": rates or (NO_CLOCK if any(one["how"] == NO_CLOCK for one in values.values()) else "none"),
        "kernels": f"{sum(one['value'] is not None for one in kernels.values())} of {len(kernels)} verified" if kernels else "",
        "not measured": few(list(told["not_measured"])),
        "changed": "" if changed is None else few(changed, "; ") or "nothing since the last time",
    }
    width = max(map(len, lines))
    return "\n".join(f"{label:<{width}}  {text}" for label, text in lines.items() if text)


def markdown(told: Mapping[str, Any], session: Session) -> str:
    """The report for a person."""
    lines = [
        f"# {session.machine.name} ({told['arch']}), brought up", "",
        f"By {told['generator']} in {told['seconds']:g} s, {told['products']} random products of proof an instruction, seed {told['seed']}.", "",
        "Seconds: " + ", ".join(f"{name} {seconds:g}" for name, seconds in session.seconds.items()) + ".", "",
    ]
    if told["changed"] is not None:
        lines += ["## What changed since the last time", ""] + [f"- {one}" for one in told["changed"]] + ([] if told["changed"] else ["Nothing."]) + [""]
    lines += ["## Instructions", "", "| instruction | maps | sums | rule | told apart by | random products |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_line(one) for one in session.instructions]
    odd = [one for one in session.instructions if one.error or one.maps and not one.maps.fits and not one.maps.same_as(one.fragment)]
    lines += ["", "Maps without bit rows, and what was not probed to the end:", ""] if odd else []
    for one in odd:
        if one.error:
            lines.append(f"- `{one.fragment.name}`: {one.error.where}: {one.error.problem}")
        elif one.maps and not one.maps.fits:
            lines += [f"- `{one.fragment.name}` {complaint}" for complaint in one.maps.complaints]
    lines += _shipped(told) + _against(session) + _traits(session) + _egemm(session) + _facts(session)
    lines += ["", "## Not measured", "", *(f"- {name}: {what}" for name, what in told["not_measured"].items())]
    for title, text in session.sections:
        lines += ["", f"## {title}", "", text]
    return "\n".join(lines).rstrip() + "\n"


def _line(one: Instruction) -> str:
    rows = "new" if one.fragment.map_source == "constructed" else "others"
    maps = "not found" if not one.maps else "as shipped" if one.maps.same_as(one.fragment) else rows if one.maps.fits else "no bit rows"
    sums = rule = apart = proof = ""
    if one.found:
        found = one.found
        sums = one.order.text
        rule = found.candidate.text if found.fits else f"none of the catalog's; nearest {found.candidate.text}"
        rule += f"; {found.described.text}: {found.described.agreeing} of {found.described.proof}" if found.described else ""
        rule += f" (or {len(found.same)} that no product told from it)" if found.same else ""
        turns = f"{len(found.turns)} turn" + "s" * (len(found.turns) != 1)
        asked, right = found.kinds.get(EXTREMES, (0, 0))
        apart, proof = f"{found.asked} products in {turns}, of {found.of} rules", f"{found.agreeing} of {found.proof}"
        proof += f"; of {EXTREMES} {right} of {asked}" if asked else ""
    elif one.whole:
        sums, proof = one.traits.found["sums"].text, f"{one.whole[1]} of {one.whole[0]}"
        rule = "exact in INT32" if one.whole[0] == one.whole[1] else "not exact"
    return f"| `{one.fragment.name}` | {maps} | {sums} | {rule} | {apart} | {proof} |"


def _shipped(told: Mapping[str, Any]) -> list[str]:
    shipped = told["shipped"]
    if shipped is None:
        return ["", "The catalog has no matrix unit for this arch to compare with."]
    title = ["", f"## Beside the catalog's row `{shipped['unit']}`", ""]
    return title + ([f"- {one}" for one in shipped["differences"]] or ["No difference in what was probed."])


def _against(session: Session) -> list[str]:
    """Products that contradict the nearest row."""
    lines: list[str] = []
    for one in session.instructions:
        if one.found and one.found.against:
            lines += ["", f"## Products of {one.fragment.name} that contradict {one.found.candidate.text}", "",
                      "Words of A and B in turn of k, the accumulator, what came back, and what the row says, as hex digits; where a product was asked"
                      " again, the second answer.", "", "```"]
            lines += [f"{x['kind']}\na {' '.join(x['a'])}\nb {' '.join(x['b'])}\nc {x['c']} d {x['d']} row {x['rule']}" for x in one.found.against]
            lines.append("```")
    return lines


def _traits(session: Session) -> list[str]:
    lines = ["", "## How sums are rounded, trait by trait", "", "| trait | found | instructions | by |", "| --- | --- | --- | --- |"]
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for one in session.instructions:
        for trait in one.traits.found.values():
            grouped.setdefault((trait.name, trait.text, trait.how), []).append(one.fragment.name)
    return lines + [f"| {name} | {text} | {', '.join(names)} | {how} |" for (name, text, how), names in sorted(grouped.items())]


def _egemm(session: Session) -> list[str]:
    lines: list[str] = []
    for one in session.instructions:
        if profile := one.profile:
            lines += ["", f"## EGEMM-TC's profiling, on {one.fragment.name}", "", *profile.lines, ""]
            lines += [f"Verdict: {profile.verdict}.", "", "What it overlooks:", "", *(f"- {sentence}" for sentence in profile.overlooked)]
    return lines


def _facts(session: Session) -> list[str]:
    lines = ["", "## Of the GPU's row, and what the driver tells", "", "| value | | standing | by |", "| --- | --- | --- | --- |"]
    facts = [(one.name.removeprefix("gpu "), one) for one in session.values if one.name.startswith("gpu ")]
    return lines + [f"| {name} | {_shown(one)} | {one.standing} | {one.how} |" for name, one in facts]


def _shown(value: Value) -> str:
    if value.value is None:
        return ""
    return f"{value.value:g}" if isinstance(value.value, float) else str(value.value)
