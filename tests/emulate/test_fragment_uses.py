"""The uses of fragments' headers on the emulator, in small: both forms of each against NumPy in FP64, and each form of a faulty text against what it was.

`make test` runs each use for an NVIDIA or an AMD fragment, at the smallest size; the rest is `long`.
"""

from __future__ import annotations

import numpy as np
import pytest

from fragment_launches import Launches
from gemmgen.catalog.fragment import FRAGMENTS, Fragment
from gemmgen.fragment_header import corrected
from gemmgen.fragment_uses import USES, Tile, sizes_of, use

FIRST = ("mma_m16n8k16_f16", "mfma_m16n16k16_f16")
ROWS = {row.name: row for row in FRAGMENTS.rows() if row.b and corrected(row) and row.threads <= 64}
HALF_ULP = {"f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11}


def as_stored(row: Fragment, space: str, x: np.ndarray) -> np.ndarray:
    """What a kernel reads: words in `wmma`, rounded as integers are; FP32 in `tcec`."""
    if space == "tcec":
        return x
    if row.word == "f16":
        return x.astype(np.float16)
    bits = x.view(np.uint32).astype(np.uint64)
    bits = bits + 0x7FFF + (bits >> 16 & 1) if row.word == "bf16" else bits + 0x1000 & ~np.uint64(0x1FFF)
    return (bits >> 16).astype(np.uint16) if row.word == "bf16" else bits.astype(np.uint32).view(np.float32)


def value(row: Fragment, space: str, x: np.ndarray) -> np.ndarray:
    """The same as FP64 numbers."""
    held = as_stored(row, space, x)
    if space == "wmma" and row.word == "bf16":
        held = (held.astype(np.uint32) << 16).view(np.float32)
    return held.astype(np.float64)


def forms(name: str, row: Fragment, space: str, edit=None, few: bool = False):
    """(symbol, what it returns, what it should in FP64, the sum of products' magnitudes) for each kernel of a use, or those of the smallest size."""
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.uniform(-1, 1, shape).astype(np.float32)  # noqa: E731
    tile = Tile(block=(row.shape[0] * 2, 32, max(16, row.shape[2])), warp=(row.shape[0], 32, max(16, row.shape[2])), lanes=row.threads)
    text = use(name, row, space, tile)
    if edit:
        assert edit[0] in text, f"the fault has nothing to change: {edit[0]}"
        text = text.replace(*edit)
    threads = 4 * row.threads
    with Launches(text, row) as launch:
        if name == "batched":
            m, n, k = tile.block[0], 64, 2 * tile.block[2]
            a, b = draw(2, m, k), draw(2, k, n)
            want, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
            for form in ("registers", "shared"):
                yield form, launch(f"batched_{form}", (2, m, n), 4, tile.threads, (a, b), (m, n, k)), want, size
            return
        if name in ("reduction", "scan"):
            size = sizes_of(row)[0] if sizes_of(row) else 16
            rows, length = (7, 2 * size * row.shape[2]) if name == "reduction" else (5 * size, 2 * size)
            x = draw(rows, length)
            held = value(row, space, x)
            want = held.sum(1) if name == "reduction" else held.cumsum(1)
            among = np.abs(held).sum(1) if name == "reduction" else np.abs(held).cumsum(1)
            for form in ("registers", "shared"):
                got = launch(f"{name}_{form}", want.shape, 2, threads, (as_stored(row, space, x),),
                             (rows, length))
                yield form, got, want, among
            return
        for size in (sizes_of(row) or (() if name != "outer" else (16, 32)))[: 1 if few else None]:
            batch = 5
            a = draw(batch, size, size)
            stored, held = as_stored(row, space, a), value(row, space, a)
            if name == "householder":
                v = rng.standard_normal((batch, size))
                v = (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.float32)
                matrix = np.eye(size) - 2 * v[:, :, None].astype(np.float64) * v[:, None, :]
                for form in ("registers", "shared"):
                    yield f"{size} {form}", launch(f"householder_{size}_{form}", a.shape, 2, threads, (stored, v), (batch,)), matrix @ held, (
                        np.abs(matrix) @ np.abs(held))
            elif name == "givens":
                angles = rng.uniform(-3, 3, batch)
                both = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
                for form in ("embedded", "arguments", "shared_embedded", "shared_arguments"):
                    p, q = (3, 12) if "embedded" in form else (13, 2)
                    matrix = np.tile(np.eye(size), (batch, 1, 1))
                    matrix[:, p, p] = matrix[:, q, q] = both[:, 0]
                    matrix[:, p, q], matrix[:, q, p] = both[:, 1], -both[:, 1]
                    yield f"{size} {form}", launch(f"givens_{size}_{form}", a.shape, 2, threads, (stored, both), (batch, p, q)), matrix @ held, (
                        np.abs(matrix) @ np.abs(held))
            else:
                u, v = draw(batch, size), draw(batch, size)
                want = u[:, :, None].astype(np.float64) * v[:, None, :]
                for form in ("registers", "shared"):
                    yield f"{size} {form}", launch(f"outer_{size}_{form}", want.shape, 2, threads, (u, v), (batch,)), want, np.abs(want)


def worst(name: str, row: Fragment, space: str, got: np.ndarray, want: np.ndarray, among: np.ndarray) -> float:
    """The largest error as a multiple of what is allowed: of `tcec` FP32's, of `wmma` the rounding of what is made to words."""
    allowed = 2.0**-20 if space == "tcec" else {"reduction": 2.0**-18, "scan": 2.0**-18, "outer": 2.1 * HALF_ULP[row.word]}.get(name, 1.1 * HALF_ULP[row.word])
    return float((np.abs(got - want) / (allowed * among + 1e-30)).max())


def cases():
    for row in ROWS.values():
        for name in USES:
            for space in ("tcec",) if name == "batched" else ("wmma", "tcec"):
                if name in ("householder", "givens", "scan") and not sizes_of(row):
                    continue
                first = row.name in FIRST and (row.name, name, space) in FAST
                yield pytest.param(name, row, space, id=f"{name}-{row.name}-{space}", marks=() if first else pytest.mark.long)


FAST = {
    (FIRST[0], "batched", "tcec"), (FIRST[0], "scan", "wmma"), (FIRST[0], "reduction", "wmma"), (FIRST[0], "givens", "wmma"), (FIRST[0], "householder", "wmma"),
    (FIRST[1], "outer", "tcec"),
}
"""One of each use."""


@pytest.mark.parametrize(("name", "row", "space"), list(cases()))
def test_both_forms_against_fp64(name, row, space):
    seen = list(forms(name, row, space, few=(row.name, name, space) in FAST))
    assert seen
    for form, got, want, among in seen:
        assert worst(name, row, space, got, want, among) <= 1, form


FAULTS = [
    ("scan", "wmma", ("i <= j ? 1.0f", "i < j ? 1.0f"), "registers"),
    ("scan", "wmma", ("mma_sync(before, tile, ones, before);", ""), "registers"),
    ("givens", "wmma", ("set_ij(g, q, p, -sine)", "set_ij(g, q, p, sine)"), "16 embedded"),
    ("householder", "wmma", ("-2.0f * own[i]", "2.0f * own[i]"), "16 registers"),
    ("outer", "wmma", ("load_vector(row, v + at * S)", "load_vector(row, u + at * S)"), "16 registers"),
    ("reduction", "wmma", ("fill_fragment(ones, 1.0f)", "fill_fragment(ones, 0.5f)"), "registers"),
    ("batched", "tcec", ("op_mma, with_ec, add_outside", "op_mma, without_ec, add_outside"), "registers"),
    ("batched", "tcec", ("load_matrix_sync<1>(of_a", "load_matrix_sync<0>(of_a"), "shared"),
]


@pytest.mark.parametrize(("name", "space", "edit", "form"), [
    pytest.param(*fault, marks=() if at == 0 else pytest.mark.long, id=f"{fault[0]}-{at}") for at, fault in enumerate(FAULTS)
])
def test_a_fault_is_seen(name, space, edit, form):
    row = ROWS[FIRST[0]]
    found = {one: worst(name, row, space, got, want, among) for one, got, want, among in forms(name, row, space, edit)}
    assert not found[form] <= 1
