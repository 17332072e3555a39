"""The matrix unit's row: what its instructions turned out to be, put together as specs/units says it, and beside a row that is there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from gemmgen.catalog.number import INTEGERS
from gemmgen.catalog.unit import MatrixUnit
from gemmgen.workshop.bringup.instruction import Instruction
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.unit_rules import EXTREMES, Candidate

Setting = tuple[str, int | None, int | None, bool | None]
"""What a unit, or a variant, says of more than one type of words: rule, fraction_bits, sum_bits, flushes_subnormals."""


@dataclass(frozen=True)
class UnitRow:
    """A row as found.

    Attributes:
        main: what holds of the words in `block`; variants: of (setting, block, words, policies).
        integers: words whose sums are exact.
        left_out: why words are in none of them.
    """

    main: Setting | None
    block: dict[str, int]
    variants: tuple[tuple[Setting, int, tuple[str, ...], tuple[str, ...]], ...]
    integers: tuple[str, ...]
    left_out: tuple[str, ...]


def setting(rule: Candidate) -> Setting:
    return rule.rule, rule.fraction_bits, rule.sum_bits, rule.flushes


def deepest(instructions: list[Instruction]) -> dict[tuple[str, str], Instruction]:
    """Of each type of words and interface the instruction of most k, which shows the largest blocks."""
    found: dict[tuple[str, str], Instruction] = {}
    for one in sorted(instructions, key=lambda one: (one.rule is not None or one.whole is not None, one.fragment.shape[2])):
        found[one.fragment.word, one.fragment.policy] = one
    return found


def unit_row(instructions: list[Instruction]) -> UnitRow:
    """The row that says what instructions turned out to be; words that no row can say are left out, and why."""
    known = deepest(instructions)
    integers = tuple(sorted({word for (word, _), one in known.items() if one.whole and one.whole[0] == one.whole[1]}))
    rules: dict[str, dict[str, Candidate]] = {}
    left_out: list[str] = []
    for (word, policy), one in sorted(known.items()):
        if one.rule:
            rules.setdefault(word, {})[policy] = one.rule
        elif word not in integers:
            left_out.append(f"{word} by {policy}: " + (str(one.error).splitlines()[0] if one.error else "no rule of a row gives what it returns"))
    for one in instructions:  # shallower ones of the same words
        rule = rules.get(one.fragment.word, {}).get(one.fragment.policy)
        if rule and one.rule and one.rule != rule._replace(block=min(rule.block, one.fragment.shape[2])):
            left_out.append(f"{one.fragment.name}: {one.rule.text}, otherwise than {rule.text}, and a row says one for both")
    common = Counter(setting(rule) for by in rules.values() for rule in set(by.values()) if rule.rule != "by_f16")
    main = common.most_common(1)[0][0] if common else None
    block: dict[str, int] = {}
    variants: dict[tuple[Setting, int, tuple[str, ...]], list[str]] = {}
    for word, by in sorted(rules.items()):
        if len(set(by.values())) == 1:
            rule = next(iter(by.values()))
            if setting(rule) == main:
                block[word] = rule.block
            else:
                variants.setdefault((setting(rule), rule.block, ()), []).append(word)
            continue
        for rule in dict.fromkeys(by.values()):
            policies = tuple(sorted(policy for policy, other in by.items() if other == rule))
            variants.setdefault((setting(rule), rule.block, policies), []).append(word)
    told = tuple((one, size, tuple(words), policies) for (one, size, policies), words in variants.items())
    return UnitRow(main, block, told, integers, tuple(left_out))


def text_of(row: UnitRow, name: str, source: str, checked: list[str]) -> str | None:
    """The row as TOML; None without floating-point words, of which a row must say a rule.

    Args:
        checked: lines that tell what it was checked against, or that it was not.
    """
    if row.main is None:
        return None

    def told(one: Setting, flushes: bool) -> list[str]:
        rule, fraction_bits, sum_bits, flushed = one
        lines = [f'rule = "{rule}"']
        lines += [f"fraction_bits = {fraction_bits}"] if fraction_bits is not None else []
        lines += [f"sum_bits = {sum_bits}"] if sum_bits is not None else []
        return lines + (["flushes_subnormals = true"] if flushes and flushed else [])

    lines = [f'name = "{name}"', f'source = "{source}"', *told(row.main, True), *checked]
    lines += [f"integers = [{', '.join(f'{chr(34)}{word}{chr(34)}' for word in row.integers)}]"] if row.integers else []
    lines += [f"# left out: {reason}" for reason in row.left_out]
    lines += ["", "[block]", *(f"{word} = {size}" for word, size in row.block.items())]
    for one, size, words, policies in row.variants:
        lines += ["", "[[variants]]", f"words = [{', '.join(f'{chr(34)}{word}{chr(34)}' for word in words)}]"]
        lines += [f"policies = [{', '.join(f'{chr(34)}{policy}{chr(34)}' for policy in policies)}]"] if policies else []
        lines += [*told(one, False), f"block = {size}", f'source = "{source}"', *checked]
    return "\n".join(lines) + "\n"


def differences(instructions: list[Instruction], unit: MatrixUnit) -> list[str]:
    """What a row of the catalog says otherwise than instructions turned out to be, a sentence each; of words that it has."""
    found = []
    for one in instructions:
        word, policy = one.fragment.word, one.fragment.policy
        if word not in unit.words or one.error or not one.maps:
            continue
        if word in INTEGERS:
            if one.whole and one.whole[0] != one.whole[1]:
                found.append(f"{one.fragment.name}: sums {one.traits.found['sums'].text}; the row says exact, and wrapping around")
            continue
        said = Candidate.of(unit, word, policy)
        said = said._replace(block=min(said.block, one.fragment.shape[2]))
        if one.rule is None:
            found.append(f"{one.fragment.name}: no row says what it returns; the row says {said.text}")
        elif said not in (one.rule, *one.found.same):
            found.append(f"{one.fragment.name}: {one.rule.text}; the row says {said.text}")
    return found


def measure(session: Session) -> None:
    """The unit's row and the values in it."""
    for one in session.instructions:
        where = f"unit {one.fragment.name}"
        if one.found:
            found = one.found
            proof = f"{found.agreeing} of {found.proof} random products"
            extremes = found.kinds.get(EXTREMES)
            how = f"{found.of} rules told apart by {found.asked} products in {len(found.turns)} turns"
            if found.fits:
                rule = found.candidate
                for name, value in (
                    ("rule", rule.rule), ("block", rule.block), ("fraction_bits", rule.fraction_bits), ("sum_bits", rule.sum_bits),
                    ("flushes_subnormals", rule.flushes),
                ):
                    if value is not None:
                        session.values.append(Value(f"{where} {name}", value, how, proof=proof))
            else:
                session.values.append(Value(f"{where} rule", None, f"{how}; the nearest is {found.candidate.text}", "not found", proof))
            if extremes:
                agreeing = f"{extremes[1]} of {extremes[0]} random products"
                session.values.append(Value(f"{where} extremes as the rule", extremes[0] == extremes[1], "random words and sums of any bits", proof=agreeing))
            session.values.append(Value(f"{where} order", one.order.text, f"{one.order.asked} products of an accumulator, its negative and a small one"))
        if one.whole:
            session.values.append(Value(f"{where} exact", one.whole[0] == one.whole[1], "random words, half with sums that leave INT32",
                                        proof=f"{one.whole[1]} of {one.whole[0]} products"))
        session.values += [Value(f"{where} {trait.name}", trait.value, trait.how, proof=f"{trait.asked} products") for trait in one.traits.found.values()]
    row = unit_row(session.instructions)
    count = sum(one.found.proof for one in session.instructions if one.found)
    device = session.machine.name
    checked = [f'verified = "{count} random products returned by {device}"']
    if session.machine.kind == "emulator":  # which proves nothing of hardware
        checked = ['verified = ""', 'unchecked = "found on an emulator, not checked on hardware"']
    text = text_of(row, session.name, f"gemmgen gpu probe on {device}", checked)
    if text:
        session.rows[f"units/{session.name}.toml"] = text
