"""The tables: every shipped row is right, and a row that is not is refused."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.generation import GENERATION_TABLE
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES, Scheme
from gemmgen.catalog.unit import UNITS
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.split import kept_products, split

TABLES = {"fragments": FRAGMENTS, "generations": GENERATION_TABLE, "gpus": GPUS, "schemes": SCHEMES, "units": UNITS}


@pytest.mark.parametrize("folder", TABLES)
def test_every_row_loads(folder):
    rows = {name: TABLES[folder].get(name) for name in TABLES[folder].names()}
    assert rows and not [name for name, row in rows.items() if row.name != name or not row.source]


# ---- fragments, against the formulas of the PTX ISA, written down independently, from
# "Matrix Fragments for mma.m16n8k16 with floating point type" and "... for mma.m16n8k8":
# row and column of element i that a lane holds of A, B and C.


def ptx_m16n8k16(group: int, thread: int) -> dict[str, list[tuple[int, int]]]:
    return {
        "a": [
            (
                group if (0 <= i < 2) or (4 <= i < 6) else group + 8,
                thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8,
            )
            for i in range(8)
        ],
        "b": [(thread * 2 + (i & 1) if i < 2 else thread * 2 + (i & 1) + 8, group) for i in range(4)],
        "c": [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)],
    }


def ptx_m16n8k8(group: int, thread: int) -> dict[str, list[tuple[int, int]]]:
    return {
        "a": [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)],
        "b": [(thread * 2 + i, group) for i in range(2)],
        "c": [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)],
    }


def ptx_m16n8k8_tf32(group: int, thread: int) -> dict[str, list[tuple[int, int]]]:
    return {
        "a": [(group if i in (0, 2) else group + 8, thread if i in (0, 1) else thread + 4) for i in range(4)],
        "b": [(thread if i == 0 else thread + 4, group) for i in range(2)],
        "c": [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)],
    }


# "Register Fragments for wgmma.mma_async.m64nNk16" and "... .m64nNk8": matrix A, which may come from
# registers, and the accumulator D. `warp` counts the warps of the warpgroup, N is 8 here.


def ptx_wgmma(group: int, thread: int, warp: int) -> dict[str, list[tuple[int, int]]]:
    rows = [group + warp * 16, group + warp * 16 + 8]
    return {"c": [(rows[i >> 1 & 1], thread * 2 + (i & 1)) for i in range(4)]}


def ptx_wgmma_k16(group: int, thread: int, warp: int = 0) -> dict[str, list[tuple[int, int]]]:
    a = [
        (
            group + warp * 16 if (0 <= i < 2) or (4 <= i < 6) else group + warp * 16 + 8,
            thread * 2 + (i & 1) if i < 4 else thread * 2 + (i & 1) + 8,
        )
        for i in range(8)
    ]
    return {"a": a, **ptx_wgmma(group, thread, warp)}


def ptx_wgmma_k8(group: int, thread: int, warp: int = 0) -> dict[str, list[tuple[int, int]]]:
    a = [
        (group + warp * 16 if i in (0, 2) else group + warp * 16 + 8, thread if i in (0, 1) else thread + 4)
        for i in range(4)
    ]
    return {"a": a, **ptx_wgmma(group, thread, warp)}


# "Matrix Fragments for mma.m16n8k32", of 8-bit words, "... for mma.m8n8k16" and "Register Fragments for wgmma.mma_async.m64nNk32".


def ptx_m16n8k32(group: int, thread: int) -> dict[str, list[tuple[int, int]]]:
    return {
        "a": [
            (group if (0 <= i < 4) or (8 <= i < 12) else group + 8, thread * 4 + (i & 3) if i < 8 else thread * 4 + (i & 3) + 16)
            for i in range(16)
        ],
        "b": [(thread * 4 + (i & 3) if i < 4 else thread * 4 + (i & 3) + 16, group) for i in range(8)],
        "c": [(group if i < 2 else group + 8, thread * 2 + (i & 1)) for i in range(4)],
    }


def ptx_m8n8k16(group: int, thread: int) -> dict[str, list[tuple[int, int]]]:
    return {
        "a": [(group, thread * 4 + i) for i in range(4)],
        "b": [(thread * 4 + i, group) for i in range(4)],
        "c": [(group, thread * 2 + i) for i in range(2)],
    }


def ptx_wgmma_k32(group: int, thread: int, warp: int = 0) -> dict[str, list[tuple[int, int]]]:
    return {"a": [(row + 16 * warp, k) for row, k in ptx_m16n8k32(group, thread)["a"]], **ptx_wgmma(group, thread, warp)}


PTX = {
    **{f"mma_m16n8k32_{word}": ptx_m16n8k32 for word in ("s8", "e4m3", "e5m2")},
    **{f"wgmma_m64n8k32_{word}": ptx_wgmma_k32 for word in ("s8", "e4m3", "e5m2")},
    "mma_m8n8k16_s8": ptx_m8n8k16,
    "wgmma_m64n8k16_f16": ptx_wgmma_k16,
    "wgmma_m64n8k16_bf16": ptx_wgmma_k16,
    "wgmma_m64n8k8_tf32": ptx_wgmma_k8,
    "mma_m16n8k16_f16": ptx_m16n8k16,
    "mma_m16n8k16_bf16": ptx_m16n8k16,
    "mma_m16n8k8_f16": ptx_m16n8k8,
    "mma_m16n8k8_tf32": ptx_m16n8k8_tf32,
}


@pytest.mark.parametrize("name", [
    row.name for row in FRAGMENTS.rows() if row.vendor == "nvidia" and row.map_source == "documented" and not row.in_tensor_memory
])  # AMD's: test_matrix_cores.py
def test_fragments_hold_what_the_ptx_isa_says(name):
    fragment = FRAGMENTS.get(name)
    for lane in range(fragment.threads):
        warp = (lane // 32,) if fragment.threads > 32 else ()
        for operand, elements in PTX[name](lane % 32 >> 2, lane % 4, *warp).items():
            held = getattr(fragment, operand)
            assert [
                held.element(lane, register, packed)
                for register in range(held.register_count) for packed in range(held.packed_count)
            ] == elements


def held_of(fragment):
    """(map, rows, columns) of the operands that lanes hold."""
    m, n, k = fragment.shape
    every = ((fragment.a, m, k), (fragment.b, k, n), (fragment.c, m, n))
    return [one for one in every if one[0] is not None]


@pytest.mark.parametrize("name", FRAGMENTS.names())
def test_every_element_is_held_and_found_again(name):
    """Without copies the map is a bijection."""
    fragment = FRAGMENTS.get(name)
    for held, rows, columns in held_of(fragment):
        elements = sorted((i, j) for *_, i, j in held.foreach_ij())
        assert elements == sorted((i, j) for i in range(rows) for j in range(columns) for _ in range(held.copies))
        for lane, register, packed, i, j in held.foreach_ij():
            assert (lane, register, packed) in held.map(i, j)
            assert len(held.map(i, j)) == held.copies


@pytest.mark.parametrize("name", FRAGMENTS.names())
def test_fragment_expressions_compute_the_map(name):
    """The C that templates print says the same as the table; integer C and Python agree here."""
    fragment = FRAGMENTS.get(name)
    for held, _, _ in held_of(fragment):
        for lane, r, packed, i, j in held.foreach_ij():
            if packed == 0:
                for axis, index in ((0, i), (1, j)):
                    text = f"({held.lane_expression(axis)}) + ({held.register_expression(axis)})"
                    assert eval(text, {"lane": lane, "r": r}) == index


# ---- schemes

DERIVED = {  # bits, dropped products, (accumulator, scale, promoted)
    "fp32": (24, (), (("main", 0, True),)),
    "half": (11, (), (("main", 0, True),)),
    "markidis": (20, (), (("main", 0, True),)),
    "egemm": (21, (), (("main", 0, True),)),
    "legemm": (20, ((1, 1),), (("main", 0, True), ("correction", 10, False))),
    "ootomo": (22, ((1, 1),), (("main", 0, True), ("correction", 11, False))),
    "ootomo4": (22, (), (("main", 0, True), ("correction", 11, False), ("tail", 22, False))),
    "ootomo8": (19, ((1, 1),), (("main", 0, True), ("correction", 11, False))),
    "ootomo_flushed": (22, ((1, 1),), (("main", 0, True), ("correction", 11, False))),
    "scaled": (22, ((1, 1),), (("main", 0, True),)),
    "bf16x3": (16, ((1, 1),), (("main", 0, True),)),
    "bf16x6": (24, ((1, 2), (2, 1), (2, 2)), (("main", 0, True),)),
    "bf16x6_apart": (24, ((1, 2), (2, 1), (2, 2)), (("main", 0, True), ("small", 0, False))),
    "tf32x3_apart": (22, ((1, 1),), (("main", 0, True), ("small", 0, False))),
    "e4m3x6": (12, ((1, 2), (2, 1), (2, 2)), (("main", 0, True),)),
    "tf32x3": (22, ((1, 1),), (("main", 0, True),)),
    "bf16x9": (24, (), (("main", 0, True),)),
    "f16x6": (33, ((1, 2), (2, 1), (2, 2)), (("main", 0, True), ("correction", 11, False), ("tail", 22, False))),
    "run_scaled": (22, ((1, 1),), (("main", 0, True), ("correction", 11, False))),
    "scaled_f16x6": (33, ((1, 2), (2, 1), (2, 2)), (("main", 0, True), ("correction", 11, False), ("tail", 22, False))),
    "ootomo_b16": (22, (), (("main", 0, True), ("correction", 11, False))),
    "bf16x2_bb16": (16, (), (("main", 0, True),)),
    "bf16x3_bb16": (24, (), (("main", 0, True),)),
    "f16_s8": (18, ((2, 2),), (("main", 0, True), ("correction", 12, False))),
    "mixpert1": (14, (), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14))),
    "mixpert2": (14, (), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14, 21))),
    "mixpert3": (14, (), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14, 21))),
    "mixpert4": (21, ((2, 2),), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14, 21))),
    "mixpert_full": (21, (), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14, 21, 28))),
    "mixpert_triangle": (21, ((1, 2), (2, 1), (2, 2)), tuple((f"sum{scale}", scale, False) for scale in (0, 7, 14))),
}
DERIVED |= {f"{name}_tile": derived for name, derived in DERIVED.items() if name.startswith("mixpert")}  # another exponent, nothing else
INTEGERS = {name for name in DERIVED if name.startswith("mixpert")}
RESIDUES = {row.name for row in SCHEMES.rows() if row.moduli}  # test_residues.py has theirs
CHAINED = [name for name in SCHEMES.names() if name not in RESIDUES]


@pytest.mark.parametrize("name", CHAINED)
def test_what_follows_from_a_scheme(name):
    scheme = SCHEMES.get(name)
    bits, dropped, accumulators = DERIVED[name]
    assert scheme.precision.bits == bits
    assert scheme.precision.dropped == dropped
    assert tuple((acc.name, acc.scale, acc.promoted) for acc in scheme.accumulators) == accumulators


CHAINS = {  # accumulator and exponent, from the smallest contribution to the largest
    "scaled": (("main", 0),),
    "ootomo": (("correction", 0), ("main", -11)),
    "legemm": (("correction", 0), ("main", -10)),
    "ootomo4": (("tail", 0), ("correction", -11), ("main", -11)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_sums_are_recombined_from_the_smallest_to_the_largest(name):
    recombination = SCHEMES.get(name).family.recombination
    assert recombination.family == "residual chain"
    assert tuple((step.accumulator.name, step.exponent) for step in recombination.steps) == CHAINS[name]
    assert recombination.roundings == len(CHAINS[name]) - 1


@pytest.mark.parametrize("name", CHAINED)
def test_recombination_gives_every_accumulator_its_share(name):
    scheme = SCHEMES.get(name)
    recombination, accumulators = scheme.family.recombination, scheme.accumulators
    assert [recombination.share(acc) for acc in accumulators] == [2.0**-acc.scale for acc in accumulators]
    assert {acc.type for acc in accumulators} == ({"f32", "s32"} if name == "f16_s8" else {"s32" if name in INTEGERS else "f32"})
    sums = {acc.name: 3.0 * 5**i for i, acc in enumerate(accumulators)}
    taken = []

    def add(so_far: float, factor: float, own: float) -> float:
        taken.append(own)
        return so_far * factor + own

    assert recombination.combine(sums, add) == sum(sums[acc.name] * 2.0**-acc.scale for acc in accumulators)
    assert taken == [sums[acc.name] for acc in accumulators[-2::-1]]


@pytest.mark.parametrize("name", CHAINED)
def test_the_reference_recombines_as_each_product_stands_for_itself(name):
    scheme = SCHEMES.get(name)
    of = np.random.default_rng(11).uniform(1, 2, (2, 5, 7)).astype(np.float32)
    a, b = (split(x, scheme, operand=operand) for operand, x in zip("ab", of))
    alone = sum(
        np.ldexp(a.planes[p.a] @ b.planes[p.b].T, -(a.words[p.a].scale + b.words[p.b].scale)) for p in scheme.products
    )
    of_rows, of_columns = (x.exponents.reshape(5, 1)[:, 0] for x in (a, b))  # seven k are one tile
    expected = np.ldexp(alone, -(of_rows[:, None] + of_columns[None, :]))
    np.testing.assert_allclose(kept_products(a, b, scheme), expected, rtol=1e-14)


def test_a_copy_with_other_products_has_a_family_and_a_precision_of_its_own():
    row = SCHEMES.get("scaled")
    before = row.precision.dropped, row.family.recombination, row.accumulators  # which the row remembers
    copy = row.model_copy(update={"products": tuple(product for product in row.products if product.a == 0)})
    assert copy.family.scheme is copy and copy.precision.scheme is copy and len(row.products) > len(copy.products)
    assert set(copy.precision.dropped) > set(row.precision.dropped) and (row.precision.dropped, row.family.recombination, row.accumulators) == before


def test_only_fp32_words_hold_everything():
    assert {row.name for row in SCHEMES.rows() if row.exact} == {"fp32"}
    by_row = {row.name for row in SCHEMES.rows() if row.family.by_row}
    assert {row.name for row in SCHEMES.rows() if row.precision.whole_range} == {"fp32", "scaled", "run_scaled", "scaled_f16x6", "e4m3x6"} | by_row
    assert {row.name for row in SCHEMES.rows() if row.family.exact} == INTEGERS | RESIDUES
    assert by_row == INTEGERS | RESIDUES | {"f16_s8"}
    fp32 = SCHEMES.get("fp32")
    assert (fp32.precision.remainder(0), fp32.precision.remainder(1)) == (1.0, 0.0)


GOOD_SCHEME = """\
name = "mine"
title = "a scheme of one's own"
source = "a test"
word = "f16"
own_promote = "never"
words = [{ rounding = "nearest_even" }, { rounding = "nearest_even", scale = 11 }]
products = [
    { a = 1, b = 0, into = "correction" },
    { a = 0, b = 1, into = "correction" },
    { a = 0, b = 0, into = "main" },
]
"""


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ('{ a = 0, b = 0, into = "main" }', '{ a = 0, b = 0, into = "correction" }', "one scale in accumulator 'correction'"),
    ('    { a = 0, b = 0, into = "main" },\n', "", r"the leading words, \(0, 0\)"),
    ("{ a = 0, b = 1, into", "{ a = 1, b = 0, into", "stands twice"),
    ("{ a = 0, b = 1, into", "{ a = 0, b = 2, into", "words 0 to 1"),
    ("{ a = 0, b = 1, into", "{ a = 0, b = -1, into", "greater than or equal to 0"),
    ('words = [{ rounding = "nearest_even" }', 'words = [{ rounding = "nearest_even", scale = 3 }', "its scale is 0"),
    ('rounding = "nearest_even", scale = 11', 'rounding = "up", scale = 11', "nearest_even"),
    ('into = "main"', 'into = "main; x"', "match pattern"),
    ('word = "f16"', 'word = "f8"', "f16"),
    ('word = "f16"', 'word = "f32"', "one word of f32 and no scales"),
    ('word = "f16"', 'word = "f16"\nextra = 1', "one of: b, element, moduli, name, "),
    ('name = "mine"', 'name = "other"', "mine"),
    ('name = "mine"', 'name = "../../x"', "match pattern"),
    ('name = "mine"', 'name = "a\\"; system(\\"rm\\")//"', "match pattern"),
    ("a scheme of one's own", "a title\\n#include </etc/passwd>", "match pattern"),
    ("a scheme of one's own", "a title that swallows the next line \\\\", "match pattern"),
    ('word = "f16"', 'word = "f16"\nnormalize = "row"\ntarget_exponent = 15', "target_exponent below 15"),
    ('word = "f16"', 'word = "f16"\ntile_k = 32', 'tile_k with normalize = "tile"'),
    ('word = "f16"', 'word = "f16"\nnormalize = "tile"', 'tile_k with normalize = "tile"'),
    ('word = "f16"', 'word = "f16"\nnormalize = "tile"\ntile_k = 32', "have exponents of their own"),
    ('word = "f16"', 'word = "e4m3"', "their range is short"),
    ('word = "f16"\nown_promote = "never"', 'word = "s8"\nnormalize = "row"\ntarget_exponent = 6\nown_promote = "fragment"', "their sums are exact"),
    ('word = "f16"\nown_promote = "never"\nwords = [{ rounding = "nearest_even" }',
     'word = "bf16"\nown_promote = "never"\nwords = [{ rounding = "round_split" }', "round_split with f16 words"),
    ("scale = 11 }]", 'scale = 11 }, { rounding = "nearest_even", scale = 10 }]', "scales that do not decrease"),
    ("scale = 11 }]", 'scale = 11 }, { rounding = "nearest_even", scale = 11, of = "element" }]', None),
    ("words = [", "words = [" + 2 * '{ rounding = "nearest_even" }, ', None),
    ("words = [", "words = [" + 3 * '{ rounding = "nearest_even" }, ', "at most four words"),
    ('word = "f16"', 'word = "s8"\nnormalize = "row"\nmoduli = [256, 255, 253, 251]', "moduli alone"),
    ('    { a = 0, b = 1, into = "correction" },\n', "", None),
    ('    { a = 0, b = 1, into = "correction" },\n    { a = 0, b = 0, into = "main" },\n]', '    { a = 0, b = 0, into = "main" },\n]\nb = "f16"', None),
    ('    { a = 0, b = 1, into = "correction" },\n    { a = 0, b = 0, into = "main" },\n]', '    { a = 0, b = 0, into = "main" },\n]\nb = "bf16"', "words of bf16 alone"),
])
def test_a_wrong_scheme_is_refused(tmp_path, before, after, complaint):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD_SCHEME)
    assert SCHEMES.get(str(path)).name == "mine"
    assert before in GOOD_SCHEME
    wrong = tmp_path / "wrong" / "mine.toml"
    wrong.parent.mkdir()
    wrong.write_text(GOOD_SCHEME.replace(before, after))
    if complaint is None:  # its neighbour, which is right
        assert SCHEMES.get(str(wrong)).name == "mine"
        return
    with pytest.raises(SpecError, match=complaint) as caught:
        SCHEMES.get(str(wrong))
    assert "mine.toml" in caught.value.where


@pytest.mark.parametrize(("word", "most"), [("f16", 10), ("bf16", 7)])
def test_a_word_keeps_as_many_bits_as_its_fraction_has_and_no_more(word, most):
    """One bit fewer than the word has is the most that says anything: the leading bit is beside the fraction."""
    text = GOOD_SCHEME.replace('word = "f16"', f'word = "{word}"')
    kept = Scheme.model_validate(tomllib.loads(text.replace("scale = 11", f"scale = 11, bits = {most}")))
    assert kept.words_of("a")[1].left.worst == 2.0**-most
    for wrong in (f'rounding = "nearest_even", bits = {most + 1}', 'rounding = "toward_zero", bits = 4'):
        with pytest.raises(ValueError, match=f"bits of at most {most}, fewer than {word} has"):
            Scheme.model_validate(tomllib.loads(text.replace('rounding = "nearest_even", scale = 11', f"{wrong}, scale = 11")))


MIXED_SCHEME = """\
name = "mine"
title = "words of a type each"
source = "a test"
word = "f16"
normalize = "row"
target_exponent = 6
own_promote = "fragment"
words = [
    { rounding = "nearest_even" },
    { type = "s8", of = "element", rounding = "nearest_even" },
    { type = "s8", of = 0, rounding = "nearest_even", scale = 12 },
]
products = [
    { a = 2, b = 1, into = "correction" },
    { a = 1, b = 2, into = "correction" },
    { a = 0, b = 0, into = "main" },
]
"""


def test_words_have_a_type_each_and_are_taken_from_what_they_name():
    scheme = Scheme.model_validate(tomllib.loads(MIXED_SCHEME))
    assert [(word.type, word.source) for word in scheme.words_of("b")] == [("f16", 0), ("s8", 0), ("s8", 1)]
    assert (scheme.types, scheme.uniform, scheme.family.exact, scheme.family.by_row, scheme.precision.chain) == (("f16", "s8"), False, False, True, False)
    assert [(acc.name, acc.word, acc.type, acc.scale) for acc in scheme.accumulators] == [("main", "f16", "f32", 0), ("correction", "s8", "s32", 12)]
    assert scheme.precision.dropped == ((2, 2),)
    # x y less the three products, multiplied out, with d0, d1, d2 what the words of A leave, and e0, e1, e2 of B:
    # -d0 e0 + d0 e1 + d2 y - d2 e1 + x e2 + d1 e0 - d1 e2
    assert scheme.precision.missing == ((0, 3), (1, 1), (1, 2), (2, 1), (2, 3), (3, 0), (3, 2))
    assert scheme.family.largest_k == (2**31 - 1) // (2 * 127**2)
    assert scheme.precision.remainder(1) == 2.0**-11 and scheme.precision.remainder(2) == 1 / 127.5  # half an ulp; what 127 leaves of 128
    assert scheme.precision.remainder(3) == 2.0**-18  # what saturates at half an ulp of FP16, 2^-5, leaves 2^-12 of 2^6
    for ask in ("format", "word_bytes"):  # nobody may take the leading word's for all
        with pytest.raises(ValueError, match="in common"):
            getattr(scheme, ask)


def test_words_leave_what_the_scheme_says():
    """Multiplied out in FP64, the missing terms are what the kept products fall short of x y."""
    scheme = Scheme.model_validate(tomllib.loads(MIXED_SCHEME))
    of = np.random.default_rng(5).uniform(-1, 1, (2, 6, 9)).astype(np.float32)
    sides = []
    for x, operand in zip(of, "ab"):
        words = split(x, scheme, operand=operand)
        left = [np.ldexp(x.astype(np.float64), words.exponents[:, None])]
        for word, plane in zip(words.words, words.planes):
            left.append(left[word.source] - plane * 2.0**-word.scale)
        sides.append((words, left))
    (a, left_a), (b, left_b) = sides
    short = np.ldexp(left_a[0] @ left_b[0].T, -(a.exponents[:, None] + b.exponents)) - kept_products(a, b, scheme)
    signs = {(1, 1): -1, (1, 2): 1, (2, 1): 1, (3, 0): 1, (0, 3): 1, (3, 2): -1, (2, 3): -1}
    terms = sum(signs[p, q] * left_a[p] @ left_b[q].T for p, q in scheme.precision.missing)
    np.testing.assert_allclose(short, np.ldexp(terms, -(a.exponents[:, None] + b.exponents)), rtol=1e-6, atol=1e-13)
    assert np.abs(left_a[3]).max() <= 2.0**-13 and np.abs(left_a[2]).max() <= 1


def test_b_may_have_words_of_its_own(tmp_path):
    """B as one FP16 word: two products, and of B what that word leaves is missing. No kernel splits B otherwise than A."""
    text = GOOD_SCHEME.replace('products = [\n', 'words_b = [{ rounding = "nearest_even" }]\nproducts = [\n').replace('    { a = 0, b = 1, into = "correction" },\n', "")
    scheme = Scheme.model_validate(tomllib.loads(text))
    assert (len(scheme.words_of("a")), len(scheme.words_of("b")), scheme.alike, scheme.uniform) == (2, 1, False, True)
    assert scheme.precision.missing == ((2, 0), (0, 1)) and scheme.precision.dropped == () and scheme.precision.bits == 11
    x = np.random.default_rng(1).uniform(-1, 1, (3, 4)).astype(np.float32)
    assert split(x, scheme, operand="b").planes.shape == (1, 3, 4)
    with pytest.raises(ValueError, match="whose are asked for"):
        split(x, scheme)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    for gpu in ("a100", "h200", "mi300x"):
        with pytest.raises(InfeasibleSpec, match="have no other words of B than of A") as caught:
            solve(loads({"split": {"scheme": str(path)}, "target": {"gpu": gpu}}))
        assert caught.value.remedy == "another scheme"


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("{ a = 2, b = 1, into", "{ a = 2, b = 0, into", "two words of one type"),
    ('{ a = 0, b = 0, into = "main" }', '{ a = 0, b = 0, into = "correction" }', "one scale in accumulator 'correction'"),
    ("of = 0,", "of = 2,", "word 2 names 2"),
    ("scale = 12", "scale = 13", "word 2 reaches 256"),
    ('type = "s8", of = 0, rounding = "nearest_even"', 'type = "s8", of = 0, rounding = "toward_zero"', "round nearest_even, of all their bits"),
    ('normalize = "row"\ntarget_exponent = 6\n', "", 'normalize = "row" or "tile" with words of s8'),
    ("target_exponent = 6", "target_exponent = 7", "word 1 reaches 256"),
    ("{ a = 2, b = 1,", "{ a = 1, b = 1,", "one scale in accumulator"),
    ('{ a = 2, b = 1, into = "correction" },', '{ a = 2, b = 1, into = "correction" },\n    { a = 1, b = 1, into = "again" },', "each part of the product once"),
    ('{ a = 2, b = 1, into = "correction" },\n    { a = 1, b = 2, into = "correction" },\n', "", "words that some product reads"),
])
def test_wrong_words_are_refused(before, after, complaint):
    assert before in MIXED_SCHEME
    with pytest.raises(ValueError, match=complaint):
        Scheme.model_validate(tomllib.loads(MIXED_SCHEME.replace(before, after)))


@pytest.mark.parametrize("folder", TABLES)
def test_an_unknown_name_lists_the_table(folder):
    table = TABLES[folder]
    with pytest.raises(UnknownName) as caught:
        table.get("nonesuch")
    assert caught.value.needs == "one of: " + ", ".join(table.names())


def test_a_table_looks_once_for_its_rows(monkeypatch):
    """A search asks it hundreds of times."""
    names = {folder: table.names() for folder, table in TABLES.items()}
    for of_disk in ("glob", "iterdir", "read_bytes", "open"):
        monkeypatch.setattr(Path, of_disk, lambda *_: pytest.fail("the disk is read again"))
    for folder, table in TABLES.items():
        assert table.names() == names[folder] == [row.name for row in table.rows()]
        assert table.get(names[folder][0]) is table.rows()[0]


def test_a_users_own_rows_work_by_path_beside_the_spec(write_spec, tmp_path, monkeypatch):
    """Relative paths start at the spec, not at the current folder."""
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "mine.toml").write_text(GOOD_SCHEME)
    gpu = (GPUS.folder / "a100.toml").read_text().replace('name = "a100"', 'name = "my_gpu"').replace("sm_80", "sm_86").replace("19.5", "39")
    (tmp_path / "tables" / "my_gpu.toml").write_text(gpu)
    spec = write_spec('[split]\nscheme = "tables/mine.toml"\n[target]\ngpu = "tables/my_gpu.toml"\n')
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    source = render(solve(load(spec)))
    assert source.name.startswith("gemmgen_mine_mma_")
    assert source.arch == "sm_86"
    # The same row under its own name differs from the shipped scheme in nothing but names.
    shipped = render(solve(load(write_spec('[target]\ngpu = "tables/my_gpu.toml"\n'))))

    def body(text: str) -> str:
        return re.sub(r"gemmgen_\w+", "NAME", "\n".join(x for x in text.splitlines() if not x.startswith("//")))

    assert body(source.text) == body(shipped.text)


def test_a_unit_says_what_was_not_checked():
    ada, turing = UNITS.get("ada"), UNITS.get("turing")
    partly = ada.model_copy(update={"unverified_words": ("tf32",)})
    assert (partly.label(), partly.label("f16"), partly.label("tf32")) == ("ada", "ada", "ada, unverified")
    assert (ada.label("tf32"), turing.label("f16")) == ("ada", "turing, unverified")
    assert UNITS.get("hopper").label("s8") == "hopper"  # sums of integers are exact
    assert UNITS.get("cdna3").label("e4m3fnuz") == "cdna3, after a published simulator, not checked on hardware"
    assert UNITS.get("blackwell_rtx").label("f16") == "blackwell_rtx, after two published models, not checked on hardware"
