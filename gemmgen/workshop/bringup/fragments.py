"""Instructions, one after another, and rows of specs/fragments of those whose maps the catalog has otherwise or not at all."""

from __future__ import annotations

from gemmgen.catalog.fragment import FragmentMap
from gemmgen.workshop.bringup import toml_values
from gemmgen.workshop.bringup.egemm import suited
from gemmgen.workshop.bringup.instruction import Instruction, probe_instruction
from gemmgen.workshop.bringup.maps import Maps
from gemmgen.workshop.bringup.session import Session, Value


def measure(session: Session) -> None:
    """Probe every instruction of the session."""
    for_egemm = suited(session.fragments)
    for number, fragment in enumerate(session.fragments, 1):
        session.progress(f"{fragment.name} ({number} of {len(session.fragments)})")
        one = probe_instruction(session.machine, fragment, session.products, session.seed, egemm=fragment is for_egemm)
        session.instructions.append(one)
        session.values.append(_value(one))
        if one.maps and one.maps.fits and not one.maps.same_as(fragment):
            session.rows[f"fragments/{fragment.name}.toml"] = row_text(one.maps, session.machine.name)


def _value(one: Instruction) -> Value:
    name = f"map {one.fragment.name}"
    if one.maps is None:
        return Value(name, None, f"{one.error.where}: {one.error.problem}" if one.error else "not probed", "not found")
    maps, how = one.maps, _how(one.maps)
    if maps.same_as(one.fragment) and not maps.fits:  # of a width that no power of two is
        return Value(name, "as shipped", how)
    if not maps.fits:
        return Value(name, "no bit rows", f"{how}; {'; '.join(maps.complaints)}", "not found")
    bits = {label: _bits(held.bits) for label in "abc" if (held := getattr(maps, label))}
    return Value(name, bits, how)


def _how(maps: Maps) -> str:
    if maps.fragment.interface.library_fragment:
        return "numbers loaded from memory"
    return f"{maps.tiles} products of one word of A with numbered words of B"


def _bits(held: FragmentMap) -> dict[str, object]:
    told = {"lanes": held.lanes, "registers": held.registers, "packed": held.packed, "copies": held.copies}
    return {name: value if isinstance(value, int) else [list(offset) for offset in value] for name, value in told.items() if value not in ((), 1)}


def row_text(maps: Maps, device: str) -> str:
    """The row of an instruction as TOML, with the maps found; the facts of its name are the ones it was probed by."""
    fragment = maps.fragment
    lines = [
        f'name = "{fragment.name}"', f'source = "gemmgen gpu probe on {device}: {_how(maps)}"',
        f'vendor = "{fragment.vendor}"', f'policy = "{fragment.policy}"',
        'map_source = "measured"',
    ]
    lines += [f"min_arch = {fragment.min_arch}"] if fragment.min_arch else []
    lines += [f"archs = {toml_values.told(list(fragment.archs))}"] if fragment.archs else []
    lines += [f'arch = "{fragment.arch}"'] if fragment.arch else []
    lines += [f"also = {toml_values.told(list(fragment.also))}"] if fragment.also else []
    lines += [f'instruction = "{fragment.instruction}"'] + ([f'builtin = "{fragment.builtin}"'] if fragment.builtin else [])
    lines += [f"shape = {list(fragment.shape)}", f'word = "{fragment.word}"']
    lines += [f"{name} = {value}" for name in ("widest", "sparse_from", "deepest") if (value := getattr(fragment, name))]
    for label in "abc":
        if held := getattr(maps, label):
            lines += ["", f"[{label}]", *(f"{name} = {toml_values.told(value)}" for name, value in _bits(held.bits).items())]
    if fragment.descriptor:
        told = fragment.descriptor.model_dump(exclude_none=True)
        lines += ["", "[descriptor]", *(f"{name} = {toml_values.told(value)}" for name, value in told.items())]
    return "\n".join(lines) + "\n"
