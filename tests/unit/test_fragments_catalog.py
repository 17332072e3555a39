"""Fragments beyond their documents' tables (test_catalog.py, test_matrix_cores.py): names, measured maps, the way back, refusals."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

from gemmgen.catalog.fragment import FRAGMENTS, FragmentMap, candidates, find, shapes
from gemmgen.catalog.gpu import arch_number
from gemmgen.errors import UnknownName
from gemmgen.paths import TEMPLATES
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from broken_rows import assert_refused
from ways import WAYS, plan_of

ROWS = {row.name: row for row in FRAGMENTS.rows() if not row.in_tensor_memory}  # of those: test_blackwell.py
NVIDIA = [name for name, row in ROWS.items() if row.vendor == "nvidia"]
AMD = [name for name, row in ROWS.items() if row.vendor == "amd" and row.on_matrix_unit]
VALU = {"valu_m32n32k4_f32": "gfx9", "valu_m16n32k4_f32": "gfx1"}
FLOAT8 = ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz")
BYTES = dict.fromkeys(("s8", *FLOAT8), 1) | {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4}


def test_lanes_that_split_fill_every_copy_of_a_wmma_fragment():
    """GPUs may read either copy; the emulator reads the first."""
    text = render(plan_of(**WAYS["wmma, register"])).text
    for x, row in (("a", ROWS["wmma_m16n16k16_f16"].a), ("b", ROWS["wmma_m16n16k16_f16"].b)):
        [(one, other)] = re.findall(rf"{x}_fragments\[buffer\]\[word\]\[i\]\[(.+?)\] = {x}_fragments\[buffer\]\[word\]\[i\]\[(.+?)\] = packed", text)
        filled = [eval(at, {"half": half, "r": r}) for at in (one, other) for half in range(2) for r in range(2)]
        assert sorted(filled) == list(range(row.register_count)), x


@pytest.mark.parametrize("name", NVIDIA)
def test_names_instructions_and_shapes_agree(name):
    row = ROWS[name]
    assert name == f"{row.policy}_{row.shape_name}_{row.word}"
    m, n, k = row.shape
    sums = "s32" if row.word == "s8" else "f32"
    assert row.on_matrix_unit == (row.policy != "fma")
    if row.policy == "fma":
        assert (row.instruction, row.map_source, row.min_arch) == ("fma.rn.f32", "constructed", 80 if row.word in ("bf16", "tf32") else 75)
        return
    if row.policy == "wgmma":
        assert row.instruction == f"wgmma.mma_async.sync.aligned.{row.shape_name}.{sums}.{row.word}.{row.word}"
        assert (row.map_source, row.min_arch, row.arch, row.threads) == ("documented", 90, "sm_90a", 128)
        return
    types = f"{sums}.{row.word}.{row.word}.{sums}" if row.policy == "mma" else "f32.f32"
    order = (f"m{m}n{n}k{k}.row.col", f"row.col.m{m}n{n}k{k}")[row.policy == "wmma"]
    assert row.instruction == f"{row.policy}{'.mma' if row.policy == 'wmma' else ''}.sync.aligned.{order}.{types}"
    assert row.map_source == {"mma": "documented", "wmma": "measured"}[row.policy]
    # PTX ISA, target notes of mma: .bf16, .tf32, m16n8k16 and m16n8k32 need sm_80, .f16 with m16n8k8 and m8n8k16 sm_75, .e4m3 and .e5m2 sm_89.
    assert row.min_arch == (89 if row.word in FLOAT8 else 80 if row.word in ("bf16", "tf32") or row.policy == "mma" and row.shape[2] * BYTES[row.word] == 32 else 75)


def test_which_of_amds_targets_have_an_instruction():
    """AMD's ISA guides of each target: what CDNA 3 leaves out of CDNA 2's, what each generation brings, and all RDNA 3 targets alike."""
    rdna3 = ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153")
    having = {
        ("gfx908", "gfx90a", "gfx942", "gfx950"): "mfma_m16n16k16_f16 mfma_m32n32k8_f16",
        ("gfx908", "gfx90a"): "mfma_m16n16k8_bf16 mfma_m32n32k4_bf16 mfma_m16n16k16_s8 mfma_m32n32k8_s8",
        ("gfx90a", "gfx942", "gfx950"): "mfma_m16n16k16_bf16 mfma_m32n32k8_bf16", ("gfx942", "gfx950"): "mfma_m16n16k32_s8 mfma_m32n32k16_s8",
        ("gfx942",): "mfma_m16n16k8_tf32 mfma_m32n32k4_tf32"
                     " mfma_m16n16k32_e4m3fnuz mfma_m16n16k32_e5m2fnuz mfma_m32n32k16_e4m3fnuz mfma_m32n32k16_e5m2fnuz",
        ("gfx950",): "mfma_m16n16k32_f16 mfma_m16n16k32_bf16 mfma_m32n32k16_f16 mfma_m32n32k16_bf16 mfma_m16n16k64_s8 mfma_m32n32k32_s8"
                     " mfma_m16n16k32_e4m3 mfma_m16n16k32_e5m2 mfma_m32n32k16_e4m3 mfma_m32n32k16_e5m2",
        rdna3: "rdna3_m16n16k16_f16 rdna3_m16n16k16_bf16 rdna3_m16n16k16_s8",
        ("gfx1200", "gfx1201"): "rdna4_m16n16k16_f16 rdna4_m16n16k16_bf16 rdna4_m16n16k16_s8"
                                " rdna4_m16n16k16_e4m3 rdna4_m16n16k16_e5m2",
    }
    rows = {row.name: row.archs for row in FRAGMENTS.rows() if row.vendor == "amd" and row.on_matrix_unit}
    assert rows == {name: archs for archs, names in having.items() for name in names.split()}


def test_integers_have_fewer_widths():
    """PTX ISA, wgmma: N of s8 is 8, 16, 24, 32, then multiples of 16; of e4m3 any multiple of 8."""
    widths = {word: [one.shape[1] for one in ROWS[f"wgmma_m64n8k32_{word}"].shapes.values()] for word in ("s8", "e4m3")}
    assert widths == {"s8": [8, 16, 24, *range(32, 257, 16)], "e4m3": [*range(8, 257, 8)]}
    assert find("wgmma_m64n48k32_s8", "here").instruction.endswith("m64n48k32.s32.s8.s8")
    with pytest.raises(UnknownName):
        find("wgmma_m64n40k32_s8", "here")


@pytest.mark.parametrize("name", AMD)
def test_names_mnemonics_and_builtins_agree(name):
    """Of AMD's; tests/compile/test_matrix_instructions.py asks the compiler."""
    row = ROWS[name]
    m, n, k = row.shape
    family, policy, words = {
        "gfx9": ("mfma", "mfma", {"tf32": "xf32", "s8": "i8", **dict.fromkeys(FLOAT8[::2], "fp8_fp8"), **dict.fromkeys(FLOAT8[1::2], "bf8_bf8")}),
        "gfx11": ("rdna3", "wmma", {"s8": "iu8"}),
        "gfx12": ("rdna4", "wmma", {"s8": "iu8", "e4m3": "fp8_fp8", "e5m2": "bf8_bf8"}),
    }[row.archs[0][:-2]]
    assert (name, row.policy) == (f"{family}_{row.shape_name}_{row.word}", policy)
    assert all(arch.startswith(row.archs[0][:-2]) for arch in row.archs) and list(row.archs) == sorted(row.archs)
    sums = {"INT32": "i32", "FP32": "f32"}[row.sums]
    assert (row.word == "s8") == (sums == "i32")
    if row.word in FLOAT8 and policy == "mfma":  # the same instruction, other formats
        assert row.archs == (("gfx942",) if row.word.endswith("fnuz") else ("gfx950",))
    start, last = f"{policy}_{sums}_{m}x{n}x{k}", words.get(row.word, row.word)
    assert row.instruction in (f"v_{start}{last}", f"v_{start}_{last}")  # without the bar before gfx942
    ends = {"mfma": ("", "_1k"), "rdna3": ("_w32",), "rdna4": ("_w32_gfx12",)}[family]
    assert row.builtin in [f"__builtin_amdgcn_{start}{bar}{last}{end}" for bar in ("", "_") for end in ends]
    assert (row.map_source, row.min_arch, row.threads) == ("documented", None, {"mfma": 64, "wmma": 32}[policy])


@pytest.mark.parametrize(("name", "family"), VALU.items())
def test_what_amd_multiplies_without_a_matrix_unit(name, family):
    """One row for 64 lanes and one for 32, of the targets that have so many."""
    row = ROWS[name]
    assert name == f"valu_{row.shape_name}_{row.word}" and (row.vendor, row.policy, row.on_matrix_unit) == ("amd", "fma", False)
    assert (row.instruction, row.builtin, row.map_source, row.min_arch) == ("v_fma_f32", "__builtin_fmaf", "constructed", None)
    assert row.threads == {row.maker.warp_size(arch_number(arch)) for arch in row.archs}.pop()
    assert all(arch.startswith(family) for arch in row.archs) and list(row.archs) == sorted(row.archs)
    units = {arch for other in FRAGMENTS.rows() if other.vendor == "amd" and other.on_matrix_unit for arch in other.archs}
    assert set(row.archs) == {arch for arch in units if arch.startswith(family)}


@pytest.mark.parametrize("name", ROWS)
def test_a_register_is_full(name):
    row = ROWS[name]
    assert {held.packed_count for held in (row.a, row.b) if held} == {4 // BYTES[row.word]}
    assert row.c.packed_count == row.c.copies == 1
    m, n, k = row.shape
    for held, rows, columns in ((row.a, m, k), (row.b, k, n), (row.c, m, n)):
        assert held is None or row.threads * held.elements == rows * columns * held.copies


def test_wmma_is_what_was_published():
    """WMMAe's `map` for sm_75 and sm_80: lane and x[] index of element (i, j), written down as it is there.
    A and B have a second copy in x[index + 8]; both layouts are the same."""
    row = ROWS["wmma_m16n16k16_f16"]
    published = {
        "a": lambda i, j: ((i & 7) * 4 + (j & 7) // 2, (i & 8) // 4 + (j & 1) + (j & 8) // 2),
        "b": lambda i, j: ((i & 7) // 2 + (j & 7) * 4, (i & 1) + (i & 8) // 4 + (j & 8) // 2),
        "c": lambda i, j: ((i & 7) * 4 + (j & 7) // 2, (i & 8) // 4 + (j & 1) + (j & 8) // 2),
    }
    for operand, place in published.items():
        held = getattr(row, operand)
        for i in range(16):
            for j in range(16):
                lane, index = place(i, j)
                wanted = [(lane, index), (lane, index + 8)][: held.copies]
                assert [(at, r * held.packed_count + p) for at, r, p in held.map(i, j)] == wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_way_back_as_c(name):
    """`holder_expressions` invert `lane_expression` and `index_expression`; integer C and Python agree here."""
    row = ROWS[name]
    for held in filter(None, (row.a, row.b, row.c)):
        lane_text, index_text = held.holder_expressions()
        for lane, register, packed, i, j in held.foreach_ij():
            index = register * held.packed_count + packed
            for axis, wanted in ((0, i), (1, j)):
                text = f"({held.lane_expression(axis)}) + ({held.index_expression(axis)})"
                assert eval(text, {"lane": lane, "index": index}) == wanted
            names = [{"i": i, "j": j, "copy": copy} for copy in range(held.copies)]
            assert [(eval(lane_text, n), eval(index_text, n)) for n in names].count((lane, index)) == 1


def test_copies_may_be_in_other_lanes():
    """As on sm_70, where half of the lanes hold what the other half holds."""
    held = FragmentMap(lanes=((1, 0), (2, 0), (0, 0), (4, 0), (0, 1)), copies=2)
    assert held.prove(8, 2) is None
    assert held.map(5, 1) == [(25, 0, 0), (29, 0, 0)]
    assert [eval(held.holder_expressions()[0], {"i": 5, "j": 1, "copy": copy}) for copy in (0, 1)] == [25, 29]


@pytest.mark.slow
def test_a_map_is_proven_exactly_when_it_holds_every_element_so_often():
    """Looking at bits says what counting says, of maps that cover and of maps that do not."""
    rng, proven = random.Random(3), 0
    for _ in range(600):
        offsets = [rng.choice([(0, 0), (1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (0, 4)]) for _ in range(7)]
        if rng.random() < 0.5:
            offsets = rng.sample([(1, 0), (2, 0), (4, 0), (0, 1), (0, 2), (0, 4), (0, 0)], 7)
        copies, repeats = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 1, 2])
        held = FragmentMap(lanes=offsets[:5], registers=offsets[5:6], packed=offsets[6:], copies=copies, repeats=repeats)
        rows, columns = rng.choice([4, 8]), rng.choice([4, 8, 16])
        counts = Counter((i, j) for *_, i, j in held.foreach_ij())
        right = counts == {(i, j): held.copies for i in range(rows) for j in range(columns)}
        assert (held.prove(rows, columns) is None) == right, held
        proven += right
    assert 20 < proven < 400


@pytest.mark.slow
def test_kernels_are_made_of_fragments_that_have_a_template():
    templates = {path.name for path in (TEMPLATES / "atoms").glob("*.j2")}
    assert templates <= {row.interface.atom for row in FRAGMENTS.rows()} | {"lanes.j2"}  # of the grouped design, whose lanes make fragments of any size
    for row in ROWS.values():
        assert (row.by_runs in candidates(row.vendor, row.word, row.policy)) == (row.interface.atom in templates and row.whole_chunks)
    assert "m16n8k16" in shapes("nvidia", "f16")
    assert all(row.policy == "mma" for row in shapes("nvidia", "f16").values())
    for gpu in ("a100", "h100", "h200", "b200", "l40s"):
        for scheme, policy, fragment in (("ootomo", "mma", "mma_m16n8k16_f16"), ("fp32", "auto", "fma_m16n32k4_f32")):
            spec = {"split": {"scheme": scheme}, "fragment": {"policy": policy}, "target": {"gpu": gpu}}
            assert solve(loads(spec)).fragment.name == fragment


@pytest.mark.parametrize(("name", "copies"), [("fma_m16n32k4_f32", (8, 4, 1)), ("valu_m16n32k4_f32", (8, 4, 1)), ("valu_m32n32k4_f32", (8, 8, 1))])
def test_lanes_that_multiply_hold_what_they_need(name, copies):
    row = ROWS[name]
    for lane in range(row.threads):
        rows, columns = ({row.c.element(lane, r)[axis] for r in range(16)} for axis in (0, 1))
        assert {row.a.element(lane, r) for r in range(16)} == {(i, k) for i in rows for k in range(4)}
        assert {row.b.element(lane, r) for r in range(16)} == {(k, j) for k in range(4) for j in columns}
    assert (row.a.lane_copies, row.b.lane_copies, row.c.lane_copies) == copies


def test_wide_tiles_are_pictured_in_strips():
    row = ROWS["fma_m16n32k4_f32"]
    lines = row.b.grid(4, 32)
    assert lines[0] == "columns 0 to 15" and lines[5:7] == ["", "columns 16 to 31"] and len(lines) == 11
    cells = [line.split() for line in lines if ":" in line]
    assert [left + right for left, right in zip(cells[:4], cells[4:])] == [
        [f"{n % 8}:{n // 8 * 4 + k}" for n in range(32)] for k in range(4)
    ]


@pytest.mark.parametrize(("name", "suffix"), [("wmma_m16n16k16_f16", ".cuh"), ("rdna4_m16n16k16_s8", ".hip.hpp")])
def test_the_header_goes_where_it_is_told(gemmgen, tmp_path, name, suffix):
    path = tmp_path / f"mine{suffix}"
    ran = gemmgen("list", "fragments", name, "--header", "-o", path)
    assert (ran.code, ran.out) == (0, f"wrote {path}\n")
    assert path.read_text() == gemmgen("list", "fragments", name, "--header").out
    assert path.read_text().startswith(f"// {name}{suffix}: who holds which element, for\n")
    refused = gemmgen("list", "fragments", name, "-o", path)
    assert refused.code == 2 and "--header" in refused.err


def test_a_picture_of_who_holds_what(gemmgen):
    """Lane 32 k / 4 + row holds four k, counted over its registers, of A of a 32x32x8."""
    lines = gemmgen("list", "fragments", "mfma_m32n32k8_f16").out.splitlines()
    facts = {line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in lines[: lines.index("")]}
    assert (facts["builtin"], facts["sums"]) == ("__builtin_amdgcn_mfma_f32_32x32x8f16", "FP32")
    assert (facts["needs"], facts["threads"]) == ("gfx908 gfx90a gfx942 gfx950", "64")
    assert facts["k"].startswith("8, in kernels 16 by 2 instructions")
    first = lines.index("A [m, k], 32x8: lane:element") + 1
    assert [line.split() for line in lines[first : first + 32]] == [[f"{32 * (k // 4) + i}:{k % 4}" for k in range(8)] for i in range(32)]
    assert gemmgen("list", "fragments", "mfma_m16n16k16_tf32").out.splitlines()[2].endswith("v_mfma_f32_16x16x8_xf32, 2 times")


def test_the_table_tells_where_each_is(gemmgen):
    rows = {line.split()[0]: line for line in gemmgen("list", "fragments").out.splitlines()}
    assert set(ROWS) <= set(rows)
    assert " gfx1100 to gfx1153 " in rows["rdna3_m16n16k16_f16"] and " gfx908 gfx90a " in rows["mfma_m16n16k16_s8"]


@pytest.mark.parametrize(("name", "guard"), [("mma_m16n8k8_f16", "MINE_CUH"), ("mfma_m32n32k8_f16", "MINE_HIP_HPP")])
def test_a_header_of_ones_own_row(gemmgen, tmp_path, name, guard):
    """Its source is prose, which must not leave the comment it is printed in."""
    text = (FRAGMENTS.folder / f"{name}.toml").read_text().replace(f'"{name}"', '"mine"')
    path = tmp_path / "mine.toml"
    path.write_text(re.sub('(?m)^source = ".*"', lambda _: r'source = "a note\n#error here \\\\\n#error there"', text))
    ran = gemmgen("list", "fragments", path, "--header")
    assert ran.code == 0
    assert "// Source: a note #error here" in ran.out and f"#ifndef {guard}\n" in ran.out
    assert not [line for line in ran.out.splitlines() if line.startswith("#error here") or line.startswith("#error there")]


MAP_OF_B = """\
[b]                                                     # over (k, n)
lanes = [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]
registers = [[8, 0]]
packed = [[1, 0]]
"""
MAP_OF_A = """\
[a]                                                     # over (m, k)
lanes = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]
registers = [[8, 0], [0, 8]]
packed = [[0, 1]]
"""


@pytest.mark.parametrize(("name", "before", "after", "complaint"), [
    ("mma_m16n8k16_f16", "registers = [[8, 0], [0, 8]]", "registers = [[3, 0], [0, 8]]", r"power of two.*\(3, 0\)"),
    ("mma_m16n8k16_f16", "registers = [[8, 0], [0, 8]]", "registers = [[8, 8], [0, 8]]", r"power of two.*\(8, 8\)"),
    ("mma_m16n8k16_f16", "registers = [[8, 0], [0, 8]]", "registers = [[-8, 0], [0, 8]]", r"power of two.*\(-8, 0\)"),
    ("mma_m16n8k16_f16", 'word = "f16"', 'word = "tf32"', "1 to a 32-bit register in the map of a, not 2"),
    ("mma_m16n8k8_tf32", 'word = "tf32"', 'word = "bf16"', "2 to a 32-bit register in the map of a, not 1"),
    ("mma_m16n8k8_tf32", "registers = [[4, 0]]", "packed = [[4, 0]]", "1 to a 32-bit register in the map of b, not 2"),
    ("mma_m16n8k8_tf32", "registers = [[4, 0]]", "registers = [[8, 0]]", "covers another tile than 8x8"),
    ("wmma_m16n16k16_f16", "copies = 2\n", "", "is held 2 times, not 1"),
    ("wmma_m16n16k16_f16", "copies = 2\n", "copies = 3\n", "is held 2 times, not 3"),
    ("wmma_m16n16k16_f16", "copies = 2\n", "copies = 64\n", "less than or equal to 32"),
    ("wmma_m16n16k16_f16", '"measured"', '"guessed"', "'documented', 'measured' or 'constructed'"),
    ("fma_m16n32k4_f32", "copies = 8\n", "copies = 4\n", "is held 8 times, not 4"),
    ("fma_m16n32k4_f32", "[0, 0], [1, 0], [2, 0]]", "[0, 0], [2, 0], [1, 0]]", "hold all they multiply; lane 8 lacks element .* of a"),
    ("fma_m16n32k4_f32", 'policy = "fma"', 'policy = "mma"', "word f32 with policy fma"),
    ("mma_m16n8k8_tf32", 'policy = "mma"', 'policy = "fma"', "hold all they multiply"),
    ("wmma_m16n16k16_f16", 'map_source = "measured"\n', "", "is missing"),
    ("mma_m16n8k8_f16", 'instruction = "mma', 'instruction = "\\"; trap; mma', "match pattern"),
    ("mma_m16n8k8_f16", 'min_arch = 75', 'archs = ["gfx90a"]', "min_arch, and neither archs nor builtin, where the vendor is nvidia"),
    ("mma_m16n8k8_f16", 'policy = "mma"', 'policy = "mfma"', "policy mfma where the vendor is amd"),
    ("mma_m16n8k8_f16", 'policy = "mma"', 'policy = "hmma"', "'mma', 'wmma', 'fma', 'wgmma', 'tcgen05' or 'mfma'"),
    ("mma_m16n8k16_f16", "[[8, 0], [0, 8]]", "[[8, 0], [0, 4]]", "covers another tile than 16x16"),
    ("mma_m16n8k16_f16", "[[8, 0], [0, 8]]", "[[8, 0]]", "covers another tile"),
    ("mma_m16n8k16_f16", "[[8, 0], [0, 8]]", "[[8, 0], [0, 8], [0, 0]]", "is held 2 times, not 1"),
    ("mma_m16n8k16_f16", "[[8, 0], [0, 8]]", "[[8, 0], [0, 16]]", "covers another tile"),
    ("mma_m16n8k16_f16", "shape = [16, 8, 16]", "shape = [16, 8, 8]", "a map of a"),
    ("mma_m16n8k16_f16", "min_arch = 80", 'min_arch = "80"', "integer"),
    ("mma_m16n8k16_f16", 'policy = "mma"', 'policy = "mma"\nflavour = 1', "one of: a, also, arch, archs, b, builtin, c, "),
    ("rdna4_m16n16k16_s8", "packed = [[1, 0], [2, 0]]", "packed = [[2, 0], [1, 0]]", "packed of a and b that stand for the same k"),
    ("fma_m16n32k4_f32", "[0, 4], [0, 0], [0, 0]]\nregisters = [[1, 0], [2, 0], [0, 8]", "[0, 8], [0, 0], [0, 0]]\nregisters = [[1, 0], [2, 0], [0, 4]",
     r"lanes that hold all they multiply; lane 0 lacks element \(0, 8\) of b"),
    ("fma_m16n32k4_f32", "[0, 0], [1, 0], [2, 0]]\nregisters = [[0, 1], [0, 2], [4, 0]", "[0, 0], [1, 0], [4, 0]]\nregisters = [[0, 1], [0, 2], [2, 0]",
     r"lanes that hold all they multiply; lane 0 lacks element \(4, 0\) of a"),
    ("tcgen05_m128n16k16_f16", "widest = 16", "widest = 17", "at most 256 columns and k"),
    ("mma_m16n8k16_f16", MAP_OF_B, "", "a map of b, or a descriptor"),
    ("mma_m16n8k16_f16", MAP_OF_A, "", "a map of a where b is in registers"),
    ("mma_m16n8k16_f16", MAP_OF_A, MAP_OF_A.replace("[4, 0]]", "[3, 0]]"), "offsets of a power of two below 256"),
    ("mma_m16n8k16_f16", "min_arch = 80\n", "", "min_arch, and neither archs nor builtin"),
    ("mma_m16n8k16_f16", "min_arch = 80\n", 'min_arch = 80\nbuiltin = "__builtin_fmaf"\n', "min_arch, and neither archs nor builtin"),
])
def test_a_row_that_cannot_be_is_refused(tmp_path, name, before, after, complaint):
    assert_refused(tmp_path, FRAGMENTS, name, before, after, complaint)
