"""AMD's fragments multiply: each header on the emulator, for each of its targets, against the exact product.

The emulator writes down which lane holds what apart from the rows, so a product that comes out right means that header,
row and emulator agree. An order of k that A and B share would hide where the header fills both; so other kernels here
fill one of them, or all, by formulas of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from assembled import gcn_of
from gemmgen.catalog.conversion import to_float8
from gemmgen.catalog.fragment import FRAGMENTS, Fragment, FragmentMap
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.unit import UNITS, MatrixUnit
from gemmgen.emulate.amdgpu import TARGETS, AmdEmulator
from gemmgen.emulate.core.rounding import fma
from gemmgen.errors import EmulationError
from gemmgen.fragment_header import fragment_header
from ways import covering

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.vendor == "amd"}
DEEP = {f"{row.deepest} {name}": row.deep(row.deepest) for name, row in ROWS.items() if row.deepest}
UNIT = {gpu.arch: UNITS.get(gpu.matrix_unit) for gpu in GPUS.rows() if gpu.vendor == "amd"}
VALU = {name: row for name, row in ROWS.items() if not row.on_matrix_unit}
EVERY = [(row, arch) for row in (ROWS | DEEP).values() for arch in row.archs if arch in TARGETS]


def name_of(value: Fragment | str) -> str:
    return value if isinstance(value, str) else value.name + (f" by {value.instructions}" if value.instructions else "")


def each(question: int, every: Sequence[tuple[Fragment, str]] = EVERY):
    """Every row and target, or those given; `make test` asks one of the questions of a row, in turn, on the latest of its targets."""
    last = [(row, row.archs[-1]) for row in (ROWS | DEEP).values()]
    return pytest.mark.parametrize(
        ("row", "arch"), [pytest.param(*one, marks=() if one in last and last.index(one) % 5 == question else pytest.mark.long) for one in every], ids=name_of,
    )


def unit_of(row: Fragment, arch: str) -> MatrixUnit:
    """The target's, or, where nobody knows how that sums these words, another: whole numbers come out the same."""
    return UNIT[arch] if row.word in UNIT[arch].words else UNITS.get("ampere")


def run(
    row: Fragment, arch: str, body: str, out: tuple[int, ...], x: np.ndarray, y: np.ndarray, *faults: tuple[str, str],
) -> np.ndarray:
    """Run one wavefront of `body`, a kernel's inside with `x`, `y` (inputs) and `out`, all of the type of sums.

    Args:
        faults: what is written wrong, (before, after); each must be there to make.
    """
    for before, after in faults:
        assert before in body, f"the fault has nothing to change: {before}"
        body = body.replace(before, after)
    name, dtype = ("int", np.int32) if row.word == "s8" else ("float", np.float32)
    text = (
        f"{fragment_header(row)}\nusing namespace {row.name};\n"
        f'extern "C" __attribute__((global)) void kernel(const {name}* x, const {name}* y, {name}* out) {{\n{body}\n}}\n'
    )
    with AmdEmulator(gcn_of(text, arch, "fragment_test.hip"), unit_of(row, arch), source=text, processes=1) as emulator:
        arrays = [emulator.upload(np.asarray(values, dtype), name=label) for label, values in (("x", x), ("y", y))]
        result = emulator.alloc(4 * int(np.prod(out)), name="out")
        emulator.launch("kernel", (1, 1, 1), (row.threads, 1, 1), 0, [*arrays, result])
        return emulator.read(result, dtype, out)


def operands(row: Fragment) -> tuple[np.ndarray, np.ndarray]:
    """A [m, k] and B [k, n] of whole numbers: any bytes, or so few bits that neither words nor sums round."""
    m, n, k = row.shape
    ends = {"s8": (-128, 128), "e5m2": (-7, 8), "e5m2fnuz": (-7, 8)}.get(row.word, (-15, 16))
    rng = np.random.default_rng(1)
    return rng.integers(*ends, (m, k)), rng.integers(*ends, (k, n))


# ---------------------------------------------------------------- filled by the header

BY_HEADER = """
    A a;
    B b;
    C c;
    foreach_ij(a, [&](int index, int i, int k) { a.set(index, x[i * A::columns + k]); });
    foreach_ij(b, [&](int index, int k, int j) { b.set(index, y[k * B::columns + j]); });
    multiply_add(c, a, b);
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
"""
SWAPPED = (("a.set(index,", "a.set(index ^ 1,"), ("b.set(index,", "b.set(index ^ 1,"))  # neighbouring k change places


@each(0)
def test_a_product_of_what_foreach_ij_fills(row, arch):
    a, b = operands(row)
    assert np.array_equal(run(row, arch, BY_HEADER, (a @ b).shape, a, b), a @ b)
    for fault in (("x[i *", "x[(i + 1) % A::rows *"), ("y[k * B::columns + j]", "y[k * B::columns + (j + 4) % B::columns]"), *SWAPPED):
        assert not np.array_equal(run(row, arch, BY_HEADER, (a @ b).shape, a, b, fault), a @ b), fault


BY_RULES = """
    A a;
    B upper;
    C c;
    foreach_ij(a, [&](int index, int i, int k) { a.set(index, (3 * i + 5 * k) % 13 - 6); });
    foreach_ij(upper, [&](int index, int k, int j) { upper.set(index, k <= j ? 1 : 0); });
    multiply_add(c, a, upper);
    multiply_add(c, a, upper);
    foreach_ij(c, [&](int index, int i, int j) { out[i * C::columns + j] = c.get(index); });
"""


@each(1)
def test_two_rules_need_no_memory(row, arch):
    """Twice the sums over the first j + 1 columns."""
    m, n, k = row.shape
    i, at = np.ogrid[:m, :k]
    want = 2 * ((3 * i + 5 * at) % 13 - 6) @ np.triu(np.ones((k, n), int))
    nothing = np.zeros(1)
    assert np.array_equal(run(row, arch, BY_RULES, (m, n), nothing, nothing), want)
    assert not np.array_equal(run(row, arch, BY_RULES, (m, n), nothing, nothing, ("k <= j", "k < j")), want)


ONE_BY_ONE = BY_HEADER.replace("    multiply_add", """\
    const int p = int(y[B::rows * B::columns]), q = int(y[B::rows * B::columns + 1]);
    set_ij(a, 9, 2, 5);
    set_ij(a, p, q, -6);
    set_ij(b, q, p, 7);
    multiply_add""")


@each(2)
def test_single_elements(row, arch):
    a, b = operands(row)
    p, q = 13, 3
    data = np.append(b, [p, q])
    a[9, 2], a[p, q], b[q, p] = 5, -6, 7
    assert np.array_equal(run(row, arch, ONE_BY_ONE, (a @ b).shape, operands(row)[0], data), a @ b)
    for fault in (("set_ij(a, p, q, -6);", ""), ("set_ij(b, q, p, 7)", "set_ij(b, p % B::rows, q, 7)")):
        assert not np.array_equal(run(row, arch, ONE_BY_ONE, (a @ b).shape, operands(row)[0], data, fault), a @ b), fault


# ---------------------------------------------------------------- filled by AMD's formulas

# A lane's row of A and column of B, the k of the element e that it holds of them, and the row of its sum r: CDNA 1 to 4
# (M x M x K of 64 lanes), RDNA 3 and 4. Where several instructions make a fragment, a lane's k are one run (`Fragment.deep`).
FORMULAS = {
    "mfma": ("lane % M", "K * M / 64 * (lane / M) + e", "M == 32 ? 8 * (r / 4) + 4 * (lane / 32) + r % 4 : 4 * (lane / 16) + r"),
    "rdna3": ("lane % 16", "e", "2 * r + lane / 16"),
    "rdna4": ("lane % 16", "sizeof(Word) == 1 ? K / 2 * (lane / 16) + e : 8 * (e / 4) + 4 * (lane / 16) + e % 4", "8 * (lane / 16) + r"),
}
BY_FORMULAS = """
    constexpr int M = %d, K = %d;
    const int lane = __builtin_amdgcn_workitem_id_x(), outer = %s;
    A a;
    B b;
    C c;
#pragma unroll
    for (int e = 0; e < sizeof(a.r) / sizeof(Word); ++e) {
        const int k = %s;
        a.set(e, x[outer * K + k]);
        b.set(e, y[k * M + outer]);
    }
    multiply_add(c, a, b);
#pragma unroll
    for (int r = 0; r < sizeof(c.r) / 4; ++r) out[(%s) * M + outer] = c.get(r);
"""
SWAPPED_BY_HAND = ("a.set(e,", "a.set(e ^ 1,")
A_BY_HEADER = ("a.set(e, x[outer * K + k]);", ""), (
    "    multiply_add", "    foreach_ij(a, [&](int index, int i, int k) { a.set(index, x[i * A::columns + k]); });\n    multiply_add",
)  # fmt: skip


ON_UNITS = [(row, arch) for row, arch in EVERY if row.on_matrix_unit]


def by_formulas(row: Fragment) -> str:
    outer, k, row_of_sum = FORMULAS[row.name.split("_")[0]]
    return BY_FORMULAS % (row.shape[0], row.shape[2], outer, k, row_of_sum)


@each(3, ON_UNITS)
def test_a_product_of_what_formulas_fill(row, arch):
    a, b = operands(row)
    body = by_formulas(row)
    assert np.array_equal(run(row, arch, body, (a @ b).shape, a, b), a @ b)
    for fault in (SWAPPED_BY_HAND, ("outer * K", "(outer + 8) % M * K"), (") * M + outer] =", ") * M + (outer + 1) % M] =")):
        assert not np.array_equal(run(row, arch, body, (a @ b).shape, a, b, fault), a @ b), fault


@each(4, ON_UNITS)
def test_the_header_and_formulas_meet_at_the_same_k(row, arch):
    """A from the one, B from the other; what both of the header's have in common cannot hide here."""
    a, b = operands(row)
    body = by_formulas(row)
    assert np.array_equal(run(row, arch, body, (a @ b).shape, a, b, *A_BY_HEADER), a @ b)
    assert np.array_equal(run(row, arch, BY_HEADER, (a @ b).shape, a, b, *SWAPPED), a @ b)  # here it does
    assert not np.array_equal(run(row, arch, body, (a @ b).shape, a, b, *A_BY_HEADER, SWAPPED[0]), a @ b)


# ---------------------------------------------------------------- several instructions


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_and_b_not_multiplies_wrongly(name):
    """B's instructions side by side along k, which covers its tile as well."""
    deep, base = DEEP[name], ROWS[name.split()[1]]
    arch = next(arch for arch in deep.archs if arch in TARGETS)
    depth, more = base.shape[2], base.deepest.bit_length() - 1
    registers = (*base.b.registers, *((depth << bit, 0) for bit in range(more)))
    faulty = deep.model_copy(update={"b": FragmentMap(lanes=base.b.lanes, registers=registers, packed=base.b.packed)})
    a, b = operands(deep)
    assert np.array_equal(run(deep, arch, BY_HEADER, (a @ b).shape, a, b), a @ b)
    assert not np.array_equal(run(faulty, arch, BY_HEADER, (a @ b).shape, a, b), a @ b)


# ---------------------------------------------------------------- words

SPECIAL = np.array([
    0.0, -0.0, 1.0, -2.5, 65504.0, 65519.9, 65520.0, 1e30, -1e30, 2.0**-24, 2.0**-25, 1.5 * 2.0**-25, 2.0**-14, 6.1e-5, 3.0e-41, 1e-8,
    np.inf, -np.inf, np.nan, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 3.4e38, 1 / 3, -1 / 7,
    2049.0, 2051.0, 257.0, 259.0, 0.1,
], np.float32)  # fmt: skip

WORDS = """
    const int at = __builtin_amdgcn_workitem_id_x() % 32;
    out[at] = __builtin_bit_cast(float, unsigned(to_word(x[at])));
"""


NANS = {"e4m3": {0x7F, 0xFF}, "e5m2": {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, "e4m3fnuz": {0x80}, "e5m2fnuz": {0x80}}
"""Of 8-bit words, whose conversion saturates: tests/unit/test_conversion.py holds it against the formats."""


def rounded(word: str, x: np.ndarray) -> np.ndarray:
    """Bits of the words, to nearest, ties to even; of no NaN."""
    if word in NANS:
        return to_float8(x, word).astype(np.uint32)
    if word == "f16":
        with np.errstate(over="ignore"):
            return x.astype(np.float16).view(np.uint16).astype(np.uint32)
    cut = {"bf16": 16, "tf32": 13}[word]
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + (1 << cut - 1) - 1 + (bits >> cut & 1)) >> cut << cut
    return (bits >> (16 if word == "bf16" else 0)).astype(np.uint32)


ROUNDED = [(row, arch) for row, arch in EVERY if row.word not in ("s8", "f32") and not row.instructions]


@pytest.mark.parametrize(("row", "arch"), covering(ROUNDED), ids=name_of)
def test_words_are_rounded_to_nearest(row, arch):
    got = run(row, arch, WORDS, (32,), SPECIAL, SPECIAL).view(np.uint32)
    finite = ~np.isnan(SPECIAL)
    assert np.array_equal(got[finite], rounded(row.word, SPECIAL)[finite])
    if row.word in NANS:
        assert set(got[~finite].tolist()) <= NANS[row.word]
        return
    infinity, sign = {"f16": (0x7C00, 0x8000), "bf16": (0x7F80, 0x8000), "tf32": (0x7F800000, 0x80000000)}[row.word]
    assert all(bits & ~sign > infinity for bits in got[~finite].tolist())


AS_IT_WAS = """
    A a;
    foreach_ij(a, [&](int index, int i, int k) { a.set(index, x[i * A::columns + k]); });
    foreach_ij(a, [&](int index, int i, int k) { out[i * A::columns + k] = a.get(index); });
"""


@pytest.mark.parametrize(("row", "arch"), covering((row, arch) for row, arch in EVERY if row.word == "s8"), ids=name_of)
def test_bytes_keep_their_sign(row, arch):
    m, _, k = row.shape
    numbers = np.resize([-128, -127, -1, 0, 1, 126, 127, 64, -2], (m, k))
    assert np.array_equal(run(row, arch, AS_IT_WAS, (m, k), numbers, numbers), numbers)


# ---------------------------------------------------------------- without a matrix unit


@pytest.mark.parametrize(("row", "arch"), covering((row, arch) for row, arch in EVERY if row in VALU.values()), ids=name_of)
def test_a_sum_is_that_of_multiply_adds_in_order(row, arch):
    """Bit for bit, subnormal numbers and all: one rounding a k."""
    rng = np.random.default_rng(3)
    m, n, k = row.shape
    a, b = (np.ldexp(rng.uniform(-1, 1, shape), -70).astype(np.float32) for shape in ((m, k), (k, n)))
    a[: m // 2], b[:, : n // 2] = np.ldexp(a[: m // 2], 69), np.ldexp(b[:, : n // 2], 70)
    want = np.zeros((m, n), np.float32)
    for at in range(k):
        want = fma(a[:, at, None], b[None, at, :], want)
    assert np.array_equal(run(row, arch, BY_HEADER, (m, n), a, b), want)
    assert 0 < np.abs(want[want != 0]).min() < 2.0**-126


# ---------------------------------------------------------------- copies


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.a.copies > 1 and row.on_matrix_unit], ids=name_of)
def test_both_copies_must_be_set(row):
    """RDNA 3 reads lanes 16 to 31 too, whatever they hold."""
    a, b = operands(row)
    with pytest.raises(EmulationError, match="halves of the wave hold different operands"):
        run(row, "gfx1100", BY_HEADER, (a @ b).shape, a, b, ("a.set(index, x", "if (lane_id() < 16) a.set(index, x"))
