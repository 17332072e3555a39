"""The generated fragment headers: compiled, run, and used for what they are for.

The emulator's `mma` knows nothing of specs/fragments, so a product that comes out
right means that header, table and instruction agree. Its `wmma` reads its map
there; test_wmma.py holds that against the ISA's layouts and against an H100.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gemmgen.build import compile_cuda
from gemmgen.catalog.conversion import decode, to_float8
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.number import word_bytes
from gemmgen.catalog.unit import UNITS
from gemmgen.emulate import Emulator
from gemmgen.emulate.core.rounding import fma
from gemmgen.emulate.core.units import dot
from gemmgen.errors import BuildError
from gemmgen.fragment_header import fragment_header
from assembled import ptx_of
from ways import covering

ROWS = {row.name: row for row in FRAGMENTS.rows() if (row.vendor, row.threads) == ("nvidia", 32)}  # others: test_warpgroup_header.py, test_amd_fragments.py
MMA = [name for name, row in ROWS.items() if row.policy == "mma"]
FINE = [name for name in MMA if ROWS[name].word_bytes > 1]  # whose words hold cosines
EMULATED = [name for name, row in ROWS.items() if row.policy != "wmma"]  # whose multiply_add the emulator knows
UNIT = {75: "turing", 80: "ampere", 89: "ada"}


def unit_of(row: Fragment):
    return UNITS.get(UNIT[row.min_arch])


def run(row: Fragment, body: str, out: tuple[int, ...], *inputs: np.ndarray, integers: tuple[int, ...] = (), dtype=np.float32, edit=None):
    """Run one warp of `body`, a kernel's inside with `x`, `y` (inputs), `p`, `q` (integers) and `out`.

    Args:
        edit: (before, after): a fault in the kernel, which must be there to make.
    """
    if edit:
        assert edit[0] in body, f"the fault has nothing to change: {edit[0]}"
        body = body.replace(*edit)
    c_type = {np.float32: "float", np.int32: "int"}[dtype]
    text = (
        f"{fragment_header(row)}\nusing namespace {row.name};\n"
        f'extern "C" __global__ void kernel(const float* x, const float* y, int p, int q, {c_type}* out) {{\n{body}\n}}\n'
    )
    assembly = ptx_of(text, f"sm_{row.min_arch}", f"{row.name}_test.cu")
    with Emulator(assembly, unit_of(row), source=text, processes=1) as emulator:
        arrays = [emulator.upload(np.asarray(array, np.float32), name=name) for name, array in zip("xy", inputs)]
        arrays += [None] * (2 - len(arrays))
        result = emulator.alloc(4 * int(np.prod(out)), name="out")
        emulator.launch("kernel", (1, 1, 1), (32, 1, 1), 0, [*arrays, *(integers or (0, 0)), result])
        return emulator.read(result, dtype, out)


def rounded(word: str, x: np.ndarray) -> np.ndarray:
    """`x` as the word type holds it, by arithmetic of its own; of 8 bits tests/unit/test_conversion.py holds the reference against the formats."""
    x = np.asarray(x, np.float32)
    if word_bytes(word) == 1:
        return x if word == "s8" else decode(word, to_float8(x, word))
    if word == "f16":
        return x.astype(np.float16).astype(np.float32)
    if word == "f32":
        return x
    bits = x.view(np.uint32).astype(np.uint64)
    if word == "bf16":  # to nearest, ties to even
        bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    else:  # to nearest, ties away from zero
        bits = (bits + 0x1000) & 0xFFFFE000
    return bits.astype(np.uint32).view(np.float32)


def product(row: Fragment, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b, bit for bit as the matrix unit sums it, in steps of the instruction's k; or FP32, one k after another."""
    m, n = a.shape[0], b.shape[1]
    if row.word == "s8":
        return (a @ b).astype(np.float32)
    c = np.zeros((m, n), np.float32)
    if not row.on_matrix_unit:
        for k in range(a.shape[1]):
            c = fma(a[:, k, None], b[None, k, :], c)
        return c
    for k in range(0, a.shape[1], row.shape[2]):
        part = slice(k, k + row.shape[2])
        left = np.broadcast_to(a[:, None, part], (m, n, row.shape[2]))
        right = np.broadcast_to(b.T[None, :, part], (m, n, row.shape[2]))
        c = dot(unit_of(row), row.word, left, right, c)
    return c


# ---------------------------------------------------------------- the maps

DUMP = """
    OPERAND f;
    foreach_ij(f, [&](int index, int i, int j) {
        f.set(index, float(i * OPERAND::columns + j));
        out[lane_id() * OPERAND::elements + index] = i * OPERAND::columns + j;
    });
"""


@pytest.mark.parametrize(("name", "operand"), covering(itertools.product(ROWS, ["a", "b", "c"])))
def test_foreach_ij_visits_each_element_where_the_row_says(name, operand):
    row = ROWS[name]
    held = getattr(row, operand)
    got = run(row, DUMP.replace("OPERAND", operand.upper()), (32, held.elements), dtype=np.int32)
    columns = {"a": row.shape[2], "b": row.shape[1], "c": row.shape[1]}[operand]
    for lane, register, packed, i, j in held.foreach_ij():
        assert got[lane, register * held.packed_count + packed] == i * columns + j
    assert sorted(got.reshape(-1)) == sorted(list(range(32 * held.elements // held.copies)) * held.copies)


MAP = """
    for (int e = threadIdx.x; e < OPERAND::rows * OPERAND::columns; e += 32)
        for (int copy = 0; copy < OPERAND::copies; ++copy) {
            const Holder holder = OPERAND::map(e / OPERAND::columns, e % OPERAND::columns, copy);
            out[(e * OPERAND::copies + copy) * 2] = holder.lane;
            out[(e * OPERAND::copies + copy) * 2 + 1] = holder.index;
        }
"""


@pytest.mark.parametrize(("name", "operand"), covering(itertools.product(ROWS, ["a", "b", "c"])))
def test_map_names_the_rows_holders(name, operand):
    row = ROWS[name]
    held = getattr(row, operand)
    m, n, k = row.shape
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[operand]
    got = run(row, MAP.replace("OPERAND", operand.upper()), (rows, columns, held.copies, 2), dtype=np.int32)
    for i in range(rows):
        for j in range(columns):
            wanted = {(lane, register * held.packed_count + packed) for lane, register, packed in held.map(i, j)}
            assert {tuple(holder) for holder in got[i, j].tolist()} == wanted


@pytest.mark.parametrize(("before", "after"), [
    ("lane_row(int lane) { return (lane >> 2)", "lane_row(int lane) { return (lane >> 3)"),
    ("index_row(int index) { return (index >> 1) * 8", "index_row(int index) { return (index >> 1) * 4"),
    ("(i & 7) * 4 + (j >> 1)", "(i & 7) * 4 + (j & 3)"),
])
def test_a_wrong_map_does_not_compile(before, after):
    text = fragment_header(ROWS["mma_m16n8k16_f16"])
    assert before in text
    with pytest.raises(BuildError, match="lose or repeat") as refused:
        compile_cuda(text.replace(before, after, 1) + 'extern "C" __global__ void k() {}', "sm_80")
    assert refused.value


def test_an_older_gpu_is_refused_with_the_reason():
    with pytest.raises(BuildError, match="needs sm_80 or newer"):
        compile_cuda(fragment_header(ROWS["mma_m16n8k16_f16"]) + 'extern "C" __global__ void k() {}', "sm_75")


def test_map_is_a_constant_to_the_compiler():
    body = """
    constexpr Holder holder = A::map(9, 6);
    static_assert(holder.lane == 7 && holder.index == 2, "the PTX ISA's a2 of lane 7");
    if (lane_id() == 0) out[0] = holder.lane;
"""
    assert run(ROWS["mma_m16n8k16_f16"], body, (1,), dtype=np.int32) == [7]


# ---------------------------------------------------------------- any product

MULTIPLY = """
    A a;
    B b;
    C c;
    foreach_ij(a, [&](int index, int i, int j) { a.set(index, x[i * A::columns + j]); });
    foreach_ij(b, [&](int index, int i, int j) { b.set(index, y[i * B::columns + j]); });
    multiply_add(c, a, b);
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
"""


@pytest.mark.parametrize("name", ROWS)
def test_a_product_of_random_matrices(name):
    row = ROWS[name]
    m, n, k = row.shape
    rng = np.random.default_rng(5)
    a, b = rng.uniform(-1, 1, (m, k)).astype(np.float32), rng.uniform(-1, 1, (k, n)).astype(np.float32)
    if row.word == "s8":
        a, b = np.rint(a * 127), np.rint(b * 127)
    want = product(row, rounded(row.word, a), rounded(row.word, b))
    assert np.array_equal(run(row, MULTIPLY, (m, n), a, b), want)
    for fault in (("x[i * A", "x[(i ^ 4) * A"), ("y[i * B::columns + j]", "y[(i ^ 1) * B::columns + j]"), ("b.set(index,", "b.set(index ^ 1,")):
        assert not np.array_equal(run(row, MULTIPLY, (m, n), a, b, edit=fault), want), fault


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_the_wmma_instruction_compiles(arch):
    row = ROWS["wmma_m16n16k16_f16"]
    text = f"{fragment_header(row)}\nusing namespace {row.name};\n" + (
        'extern "C" __global__ void kernel(const float* x, const float* y, float* out) {\n' + MULTIPLY + "}\n"
    )
    assert compile_cuda(text, arch).assembly.count(row.instruction) == 1


# ---------------------------------------------------------------- scan

SCAN = """
    constexpr int tiles = B::rows / B::columns;
    A a;
    B upper[tiles];  // one mapping for all
    foreach_ij(a, [&](int index, int i, int j) { a.set(index, x[i * A::columns + j]); });
    foreach_ij<B>([&](int index, int i, int j) {
        for (int t = 0; t < tiles; ++t) upper[t].set(index, i <= j + B::columns * t ? 1.0f : 0.0f);
    });
    for (int t = 0; t < tiles; ++t) {
        C c;
        multiply_add(c, a, upper[t]);
        foreach_ij(c, [&](int index, int i, int j) { out[i * A::columns + t * C::columns + j] = c.get(index); });
    }
"""


@pytest.mark.parametrize("name", MMA)
def test_scan_by_an_upper_triangle_of_ones(name):
    row = ROWS[name]
    m, _, k = row.shape
    numbers = np.random.default_rng(1).integers(-7, 8, (m, k)).astype(np.float32)
    want = np.cumsum(numbers, 1, dtype=np.float32)
    assert np.array_equal(run(row, SCAN, (m, k), numbers), want)
    for fault in (("i <= j +", "i < j +"), ("i <= j +", "i >= j +"), ("j + B::columns * t ?", "j ?")):
        if fault[1] == "j ?" and row.shape[1] == k:  # a single tile has no t to forget
            continue
        assert not np.array_equal(run(row, SCAN, (m, k), numbers, edit=fault), want), fault


# ---------------------------------------------------------------- Householder

HOUSEHOLDER = """
    C c;
    for (int t = 0; t < 16; t += A::columns) {
        A h;
        B b;
        foreach_ij(h, [&](int index, int i, int j) {
            h.set(index, -2.0f * x[i] * x[j + t] + (i == j + t ? 1.0f : 0.0f));
        });
        foreach_ij(b, [&](int index, int i, int j) { b.set(index, y[(i + t) * 8 + j]); });
        multiply_add(c, h, b);
    }
    foreach_ij(c, [&](int index, int i, int j) { out[i * 8 + j] = c.get(index); });
"""


@pytest.mark.parametrize("name", FINE)
def test_householder_reflection(name):
    """I - 2 v v^T, built in registers. v has 11 bits, so its products are exact in FP32 and the
    one rounding of 1 - 2 v v does not depend on how the compiler contracts them."""
    row = ROWS[name]
    rng = np.random.default_rng(2)
    v = rng.standard_normal(16)
    v = (v / np.linalg.norm(v)).astype(np.float16).astype(np.float32)
    matrix = rng.uniform(-1, 1, (16, 8)).astype(np.float32)
    h = np.eye(16, dtype=np.float32) - np.float32(2) * np.outer(v, v)
    want = product(row, rounded(row.word, h), rounded(row.word, matrix))
    got = run(row, HOUSEHOLDER, (16, 8), v, matrix)
    assert np.array_equal(got, want)
    exact = (np.eye(16) - 2 * np.outer(v, v).astype(np.float64)) @ matrix.astype(np.float64)
    half_ulp = {"f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11}[row.word]
    bound = 2.1 * half_ulp * (np.abs(h).astype(np.float64) @ np.abs(matrix)) + 16 * 2.0**-22
    assert (np.abs(got - exact) <= bound).all()
    for fault in (("i == j + t", "i == j"), ("i == j + t", "i == j + t + 1"), ("x[i] * x[j + t]", "x[i] * x[j]")):
        if row.shape[2] == 16 and "t + 1" not in fault[1]:  # t is 0 throughout
            continue
        wrong = run(row, HOUSEHOLDER, (16, 8), v, matrix, edit=fault)
        assert not np.array_equal(wrong, want) and not (np.abs(wrong - exact) <= bound).all(), fault


# ---------------------------------------------------------------- Givens

GIVENS = """
    constexpr int tiles = 16 / A::columns;
    const float cosine = y[128], sine = y[129];
    A g[tiles];
    foreach_ij<A>([&](int index, int i, int j) {
        for (int t = 0; t < tiles; ++t) g[t].set(index, i == j + A::columns * t ? 1.0f : 0.0f);
    });
    const auto touch = [&](int i, int j, float value) {
        for (int t = 0; t < tiles; ++t)
            if (j / A::columns == t) set_ij(g[t], i, j % A::columns, value);
    };
    touch(P, P, cosine);
    touch(P, Q, sine);
    touch(Q, P, -sine);
    touch(Q, Q, cosine);
    C c;
    for (int t = 0; t < tiles; ++t) {
        B b;
        foreach_ij(b, [&](int index, int i, int j) { b.set(index, y[(i + A::columns * t) * 8 + j]); });
        multiply_add(c, g[t], b);
    }
    foreach_ij(c, [&](int index, int i, int j) { out[i * 8 + j] = c.get(index); });
"""


@pytest.mark.parametrize(("name", "p", "q", "when"), covering(
    (name, *places, when) for name in FINE for places in ((2, 13), (13, 2), (0, 1), (7, 8)) for when in ("run time", "compile time")
))
def test_givens_rotation(name, p, q, when):
    row = ROWS[name]
    matrix = np.random.default_rng(3).uniform(-1, 1, (16, 8)).astype(np.float32)
    cosine, sine = np.cos(np.float32(0.7)), np.sin(np.float32(0.7))
    g = np.eye(16, dtype=np.float32)
    g[p, p] = g[q, q] = cosine
    g[p, q], g[q, p] = sine, -sine
    want = product(row, rounded(row.word, g), rounded(row.word, matrix))
    data = np.append(matrix, [cosine, sine]).astype(np.float32)
    names = ("p", "q") if when == "run time" else (str(p), str(q))
    body = GIVENS.replace("P,", f"{names[0]},").replace("Q,", f"{names[1]},")
    assert np.array_equal(run(row, body, (16, 8), data, data, integers=(p, q)), want)
    if (p, q) == (2, 13):
        first, second = names
        for fault in (
            (f"touch({first}, {second}, sine)", f"touch({first}, {second}, -sine)"),
            (f"touch({second}, {second}, cosine);", ""),
            (f"touch({second}, {first}, -sine)", f"touch({first}, {second}, -sine)"),
        ):
            assert not np.array_equal(run(row, body, (16, 8), data, data, integers=(p, q), edit=fault), want), fault


def test_one_element_by_map_alone():
    """What `set_ij` does, spelled out: a lane looks whether it is the holder."""
    row = ROWS["mma_m16n8k16_f16"]
    body = """
    A a;
    constexpr Holder holder = A::map(9, 6);
    if (lane_id() == holder.lane) a.set(holder.index, 1.0f);
    foreach_ij(a, [&](int index, int i, int j) { out[i * A::columns + j] = a.get(index) == 0x3c00; });
"""
    want = np.zeros((16, 16), np.int32)
    want[9, 6] = 1
    assert np.array_equal(run(row, body, (16, 16), dtype=np.int32), want)


@pytest.mark.parametrize("name", ROWS)
def test_the_same_row_gives_the_same_bytes(name):
    text = fragment_header(ROWS[name])
    assert text == fragment_header(FRAGMENTS.get(name))
    assert "#include" not in text
    assert all(line == line.rstrip() and len(line) <= 120 for line in text.splitlines())
