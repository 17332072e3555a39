"""Fragments with nvcuda::wmma's names, on the emulator: their words against the reference split, their products bit for bit against the unit's.

The reference (`gemmgen.split`, `gemmgen.emulate.core.product`) knows neither headers nor templates. `make test` runs one NVIDIA and one AMD row of each
question; the others are `long`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fragment_launches import Launches, unit_of
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.emulate.core.product import product
from gemmgen.errors import EmulationError
from gemmgen.fragment_header import corrected, fragment_header, in_registers
from gemmgen.split import split

ROWS = {row.name: row for row in FRAGMENTS.rows() if row.b and row.threads <= 64}
SPLITTING = {name: row for name, row in ROWS.items() if corrected(row)}
FIRST = ("mma_m16n8k16_f16", "mfma_m16n16k16_f16")
GLOBAL = 'extern "C" __attribute__((global)) void kernel'


def each(rows=SPLITTING, *more, fast=FIRST):
    """A parameter set for each row and each of `more`; of the rows `fast` those that come first are in `make test`."""
    found = [(row, *one) for row in rows.values() for one in (more or ((),))]
    fast = {name: next(one for one in found if one[0].name == name) for name in fast}
    return [pytest.param(*one, marks=() if one is fast.get(one[0].name) else pytest.mark.long, id="-".join(
        str(getattr(part, "name", part)) for part in one)) for one in found]


def launched(row: Fragment, space: str, parameters: str, body: str, shape, *inputs: np.ndarray, dtype=np.float32, edit=None) -> np.ndarray:
    """What a kernel of one warp leaves in `out`.

    Args:
        edit: (before, after): a fault in the header, which must be there to make.
    """
    header = fragment_header(row)
    if edit:
        assert edit[0] in header, f"the fault has nothing to change: {edit[0]}"
        header = header.replace(*edit)
    c_type = {np.float32: "float", np.int32: "int", np.uint32: "unsigned"}[dtype]
    text = f"{header}\nusing namespace {row.name}::{space};\n{GLOBAL}({parameters}, {c_type}* out) {{\n{body}\n}}\n"
    with Launches(text, row) as launch:
        return launch("kernel", shape, 1, row.threads, inputs, dtype=dtype)


def drawn(*shape: int, seed: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


# ---------------------------------------------------------------- words

WORDS = """
    using Policy = policy<op_mma, schemes::SCHEME>;
    fragment<matrix_a, ROWS, N, COLUMNS, Word, LAYOUT, Policy> a;
    load_matrix_sync(a, x, LD);
    for (int word = 0; word < Policy::scheme::words; ++word)
        foreach_ij(a, [&](int index, int i, int j) {
            out[(word * ROWS + i) * COLUMNS + j] = a.tile[word][index / decltype(a)::Tile::elements].get(index % decltype(a)::Tile::elements);
        });
"""


def bits_of(word: str, plane: np.ndarray) -> np.ndarray:
    """Words' numbers as they are stored."""
    if word == "f16":
        return plane.astype(np.float16).view(np.uint16).astype(np.uint32)
    bits = plane.astype(np.float32).view(np.uint32)
    return bits >> 16 if word == "bf16" else bits


def words(row: Fragment, scheme, layout: str, edit=None) -> tuple[np.ndarray, np.ndarray]:
    """Found and wanted, [words, rows, k] of two tiles each way."""
    m, n, k = row.shape
    a = drawn(2 * m, 2 * k) * 2.0 ** np.random.default_rng(5).integers(-8, 9, (2 * m, 2 * k))
    a = a.astype(np.float32)
    memory = a if layout == "row_major" else np.ascontiguousarray(a.T)
    body = WORDS.replace("SCHEME", scheme.name).replace("ROWS", str(2 * m)).replace("COLUMNS", str(2 * k)).replace("LD", str(memory.shape[1]))
    want = np.stack([bits_of(row.word, plane) for plane in split(a, scheme, operand="a").planes])
    return launched(row, "tcec", "const float* x", body.replace("LAYOUT", layout).replace(" N,", f" {n},"), want.shape, memory, dtype=np.uint32,
                    edit=edit), want


def schemes_of(row: Fragment):
    return in_registers(row.word)


@pytest.mark.parametrize(("row", "scheme", "layout"), [
    pytest.param(row, scheme, layout, id=f"{row.name}-{scheme.name}-{layout}",
                 marks=() if (row.name, scheme.name, layout) == (FIRST[0], "ootomo", "col_major") else pytest.mark.long)
    for row in SPLITTING.values() for scheme in schemes_of(row) for layout in ("row_major", "col_major")
])
def test_words_are_the_schemes(row, scheme, layout):
    got, want = words(row, scheme, layout)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("layout", ["col_major", pytest.param("row_major", marks=pytest.mark.long)])
def test_words_that_lie_in_memory_are_loaded_as_they_are(layout):
    """Each into its own of a fragment's words, side by side in memory or a column apart."""
    row, scheme, rng = ROWS[FIRST[0]], SCHEMES.get("ootomo"), np.random.default_rng(3)
    m, n, k = row.shape
    want = rng.integers(0, 1 << 16, (2, 2 * m, 2 * k)).astype(np.uint16)
    memory = want if layout == "row_major" else np.ascontiguousarray(want.transpose(0, 2, 1))
    loads = "".join(f"load_matrix_sync<{word}>(a, x + {word * 4 * m * k}, LD);" for word in (0, 1))
    assert WORDS.count("load_matrix_sync(a, x, LD);") == 1
    body = WORDS.replace("load_matrix_sync(a, x, LD);", loads).replace("SCHEME", scheme.name).replace("ROWS", str(2 * m)).replace("COLUMNS", str(2 * k))
    body = body.replace("LD", str(memory.shape[2])).replace("LAYOUT", layout).replace(" N,", f" {n},")
    assert np.array_equal(launched(row, "tcec", "const unsigned short* x", body, want.shape, memory, dtype=np.uint32), want)


@pytest.mark.parametrize("layout", ["row_major", pytest.param("col_major", marks=pytest.mark.long)])
def test_integers_that_become_bytes_keep_their_sign_and_their_neighbours(layout):
    """Of a register's four bytes a negative one changes no other."""
    row = next(one for one in ROWS.values() if one.word == "s8")
    m, n, k = row.shape
    want = np.random.default_rng(3).integers(-128, 128, (2 * m, 2 * k)).astype(np.int32)
    memory = want if layout == "row_major" else np.ascontiguousarray(want.T)
    body = f"""
    fragment<matrix_a, {2 * m}, {n}, {2 * k}, Word, {layout}> a;
    load_matrix_sync(a, x, {memory.shape[1]});
    foreach_ij(a, [&](int index, int i, int j) {{
        out[i * {2 * k} + j] = (signed char)a.tile[0][index / decltype(a)::Tile::elements].get(index % decltype(a)::Tile::elements);
    }});
"""
    assert np.array_equal(launched(row, "wmma", "const int* x", body, want.shape, memory, dtype=np.int32), want)


@pytest.mark.long
@pytest.mark.parametrize("edit", [
    ("low -= widen_low(word_0), high -= widen_high(word_0);", "low -= widen_low(word_0);"),
    ("round_nearest_even(low * 0x1p+11f, high * 0x1p+11f)", "round_nearest_even(high * 0x1p+11f, low * 0x1p+11f)"),
    ("index / Tile::elements % across * Tile::columns", "index / Tile::elements / across * Tile::columns"),
])
def test_a_wrong_word_is_seen(edit):
    try:
        got, want = words(ROWS[FIRST[0]], SCHEMES.get("ootomo"), "row_major", edit)
    except EmulationError as error:  # elements that no lane then has
        assert "did not write all of it" in str(error)
    else:
        assert not np.array_equal(got, want)


# ---------------------------------------------------------------- products

TWO_AT_ONCE = ("mfma_m16n16k8_bf16", "mfma_m32n32k4_bf16")
"""CDNA 1's instructions on bf16, which add two products at a time (MMA-Sim, arXiv 2511.10909)."""

PRODUCT = """
    using Policy = policy<POLICY>;
    fragment<matrix_a, M, N, K, Word, row_major, Policy> a;
    fragment<matrix_b, M, N, K, Word, LAYOUT, Policy> b;
    fragment<accumulator, M, N, K, float, void, Policy> c;
    fill_fragment(c, 0.0f);
    for (int k = 0; k < ALL; k += K) {
        load_matrix_sync(a, x + k, ALL);
        load_matrix_sync(b, y + OFFSET, LD);
        MMA(c, a, b, c);
    }
    store_matrix_sync(out, c, STRIDE, STORED);
"""


def multiplied(row: Fragment, policy: str, mma: str, scheme: str, promote: bool, layout: str = "row_major", stored: str = "mem_row_major", edit=None):
    """Found and wanted of three steps of a product of two tiles each way."""
    m, n, k = row.shape[0], max(16, row.shape[1]), row.shape[2]
    a, b = drawn(m, 3 * k), drawn(3 * k, n, seed=6)
    by_rows = layout == "row_major"
    words = {
        "POLICY": policy, "MMA": mma, "LAYOUT": layout, "OFFSET": f"k * {n}" if by_rows else "k", "LD": str(n if by_rows else 3 * k), "ALL": str(3 * k),
        "STRIDE": str(n if stored == "mem_row_major" else m), "STORED": stored,
    }
    body = PRODUCT.replace("M, N, K,", f"{m}, {n}, {k},").replace("k += K", f"k += {k}")
    for name, value in words.items():
        body = body.replace(name, value)
    shape = (m, n) if stored == "mem_row_major" else (n, m)
    got = launched(row, "tcec", "const float* x, const float* y", body, shape, a, b if by_rows else np.ascontiguousarray(b.T), edit=edit)
    unit = None if policy == "op_simt" else unit_of(row)
    if unit and row.name in TWO_AT_ONCE:
        unit = unit.model_copy(update={"block": {**unit.block, row.word: 2}})
    want = product(SCHEMES.get(scheme), unit, a, b, promote=k if promote else 0, fragment_k=k)
    return got if stored == "mem_row_major" else got.T, want


def same(got: np.ndarray, want: np.ndarray) -> bool:
    return np.array_equal(np.ascontiguousarray(got).view(np.uint32), np.ascontiguousarray(want).view(np.uint32))


@pytest.mark.parametrize(("row", "mma", "promote"), each(SPLITTING, ("mma_rn_sync", True), ("mma_rz_sync", False)))
def test_a_corrected_product_is_the_schemes_on_the_unit(row, mma, promote):
    best = corrected(row)
    got, want = multiplied(row, f"op_mma, schemes::{best.name}", mma, best.name, promote)
    assert same(got, want)


@pytest.mark.parametrize("row", each(SPLITTING, fast=FIRST[:1]))
def test_without_the_unit_it_is_fp32(row):
    assert same(*multiplied(row, "op_simt", "mma_sync", "fp32", False, "col_major", "mem_col_major"))


@pytest.mark.long
@pytest.mark.parametrize("scheme", [one.name for one in in_registers("f16")])
@pytest.mark.parametrize(("add", "promote"), [("add_outside", True), ("add_inside", False)])
def test_every_scheme_by_its_policy(scheme, add, promote):
    assert same(*multiplied(ROWS[FIRST[0]], f"op_mma, schemes::{scheme}, {add}", "mma_sync", scheme, promote))


@pytest.mark.parametrize("edit", [
    pytest.param(("if (Scheme::into(p) != 0) continue;", ""), id="correction twice"),
    pytest.param(("if (Outside && Scheme::into(p) == 0) continue;", ""), id="main twice", marks=pytest.mark.long),
    pytest.param(("fmaf(sum[1], 0x1p-11f, sum[0])", "fmaf(sum[1], 0x1p-10f, sum[0])"), id="recombination", marks=pytest.mark.long),
    pytest.param(("d.tile[0][i * D::across + j].r[e] += fresh[j].r[e]", "d.tile[0][i * D::across + j].r[e] = fresh[j].r[e]"), id="sum", marks=pytest.mark.long),
])
def test_a_wrong_product_is_seen(edit):
    got, want = multiplied(ROWS[FIRST[0]], "op_mma, schemes::ootomo", "mma_rn_sync", "ootomo", True, edit=edit)
    assert not same(got, want)


# ---------------------------------------------------------------- what else there is

REST = """
    fragment<matrix_a, M, N, K, Word, col_major> column;
    fragment<matrix_b, M, N, K, Word, row_major> row;
    fragment<accumulator, M, N, K, VALUE> c, d;
    load_vector(column, x);
    load_vector(row, y);
    generate(c, [](int i, int j) { return VALUE(i - j); });
    mma_sync(c, column, row, c);          // x y^T + i - j
    set_ij(c, 3, 2, VALUE(77));
    store_matrix_sync(out, c, M, mem_col_major);
    load_matrix_sync(d, out, M, mem_col_major);
    store_matrix_sync(out + M * N, d, N, mem_row_major);
    store_vector(out + 2 * M * N, d, mem_row_major);
    store_vector(out + 2 * M * N + N, d, mem_col_major);
    const Holder holder = decltype(c)::map(M - 1, 1);
    if (lane_id() == holder.lane) out[2 * M * N + N + M] = c.get(holder.index);
"""


@pytest.mark.parametrize("row", each(ROWS))
def test_vectors_rules_elements_and_layouts(row):
    m, n, k = row.shape[0], max(16, row.shape[1]), row.shape[2]
    whole = row.word == "s8"
    dtype, value = (np.int32, "int") if whole else (np.float32, "float")
    rng = np.random.default_rng(1)
    x, y = rng.integers(-3, 4, m).astype(dtype), rng.integers(-3, 4, n).astype(dtype)
    want = np.outer(x, y) + np.arange(m)[:, None] - np.arange(n)
    want[3, 2] = 77
    body = REST.replace("VALUE", value).replace("M, N, K,", f"{m}, {n}, {k},").replace("M", str(m)).replace(" N", f" {n}").replace("(n", "(n")
    body = body.replace("d, N,", f"d, {n},")
    got = launched(row, "wmma", f"const {value}* x, const {value}* y", body, (2 * m * n + n + m + 1,), x, y, dtype=dtype)
    assert np.array_equal(got[: m * n].reshape(n, m).T, want)
    assert np.array_equal(got[m * n : 2 * m * n].reshape(m, n), want)
    assert np.array_equal(got[2 * m * n : 2 * m * n + n], want[0]) and np.array_equal(got[2 * m * n + n : -1], want[:, 0])
    assert got[-1] == want[m - 1, 1]


# ---------------------------------------------------------------- what the page prints

PAGE = Path(__file__).parents[2] / "docs" / "fragments.md"


def errors_of_the_page() -> dict[str, str]:
    """The page's own kernel in each of its namespaces: the largest error over the largest element."""
    row, page = ROWS[FIRST[0]], PAGE.read_text()
    kernel = page.split("```cpp\n")[1].split("```")[0]
    a, b = drawn(32, 128), drawn(32, 128, seed=6)
    want = a.astype(np.float64) @ b.T
    found = {}
    for space in ("tcec", "wmma"):
        with Launches(fragment_header(row) + kernel.replace("::tcec;", f"::{space};"), row) as launch:
            got = launch("product", (32, 32), 1, 32, (a, b), (128,))
        found[space] = f"{np.abs(got - want).max() / np.abs(want).max():.1e}"
    return found


@pytest.mark.skipif(not PAGE.exists(), reason="no docs/ in this distribution")
def test_the_kernel_of_the_page_has_the_errors_that_it_prints():
    for space, error in errors_of_the_page().items():
        assert f"| `{space}` | {error} |" in PAGE.read_text()
