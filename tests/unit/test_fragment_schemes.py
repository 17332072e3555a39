"""Which scheme a fragment's header corrects with, and what its uses refuse."""

from __future__ import annotations

import pytest

from gemmgen.catalog.fragment import FRAGMENTS, find
from gemmgen.errors import SpecError
from gemmgen.fragment_header import corrected, fragment_header, in_registers
from gemmgen.fragment_uses import USES, Tile, sizes_of, use


@pytest.mark.parametrize(("name", "scheme"), [
    ("mma_m16n8k16_f16", "ootomo"), ("mma_m16n8k16_bf16", "bf16x6"), ("mma_m16n8k8_tf32", "tf32x3"), ("mfma_m32n32k8_f16", "ootomo_flushed"),
    ("rdna4_m16n16k16_f16", "ootomo"), ("mma_m16n8k32_s8", None), ("mma_m16n8k32_e4m3", None), ("fma_m16n32k4_f32", None), ("fma_m16n32k8_f16", None),
])
def test_the_scheme_of_fp32_accuracy_with_the_fewest_products(name, scheme):
    """Where a unit takes subnormal words for zero, as one of MI200's does, the leading word must not be one."""
    found = corrected(FRAGMENTS.get(name))
    assert (found and found.name) == scheme


def test_schemes_that_need_a_scale_are_not_for_lanes():
    assert {"scaled", "scaled_f16x6", "ootomo_b16"}.isdisjoint(one.name for one in in_registers("f16"))


def test_a_header_without_schemes_has_no_tcec():
    assert "namespace tcec" in fragment_header(find("mma_m16n8k16_bf16", "here"))
    for name in ("mma_m16n8k32_s8", "wgmma_m64n8k32_e4m3"):
        text = fragment_header(find(name, "here"))
        assert "namespace tcec" not in text and "namespace wmma" in text


@pytest.mark.parametrize(("name", "fragment", "space", "words"), [
    ("fft", "mma_m16n8k16_f16", "wmma", "names no use"), ("scan", "mma_m16n8k16_f16", "mma", "names no namespace"),
    ("batched", "mma_m16n8k16_f16", "wmma", "reads FP32"), ("scan", "mma_m16n8k32_s8", "wmma", "operands in registers"),
    ("scan", "wgmma_m64n8k16_f16", "wmma", "operands in registers"), ("scan", "mma_m16n8k32_e4m3", "wmma", "operands in registers"),
])
def test_what_is_no_use_is_refused(name, fragment, space, words):
    with pytest.raises(SpecError, match=words) as refused:
        use(name, find(fragment, "here"), space)
    assert refused.value.needs and refused.value.remedy


def test_a_use_can_stand_without_its_header():
    fragment = FRAGMENTS.get("mma_m16n8k16_f16")
    assert sizes_of(fragment) == (16, 32) and len(USES) == 6
    first, _, rest = use("scan", fragment, header=False).partition("\n")
    assert first == '#include "mma_m16n8k16_f16.cuh"' and use("scan", fragment).endswith(rest)
    assert Tile((128, 128, 32), (32, 64, 16)).threads == 256


def test_the_command_line(gemmgen, tmp_path):
    assert gemmgen("list", "fragments", "mma_m16n8k16_f16", "--use", "scan", "--space", "tcec", "-o", tmp_path / "scan.cu").code == 0
    assert "using namespace mma_m16n8k16_f16::tcec" in (tmp_path / "scan.cu").read_text()
    for wrong in (("--use", "scan"), ("mma_m16n8k16_f16", "--use", "scan", "--header"), ("mma_m16n8k16_f16", "--space", "tcec")):
        assert gemmgen("list", "fragments", *wrong).code == 2


def test_the_usual_tile_is_small_where_an_elements_words_take_more_than_four_bytes():
    """The stages of both operands as words, rows padded, fit 48 KiB."""
    from gemmgen.catalog.fragment import FRAGMENTS
    from gemmgen.fragment_uses import Tile, usual_tile

    tiles = {row.word: usual_tile(row) for row in FRAGMENTS.rows() if row.vendor == "nvidia" and row.on_matrix_unit and row.b and row.word in ("f16", "tf32")}
    assert tiles["f16"] == Tile((128, 64, 32), (32, 32, 16), 32) and tiles["tf32"] == Tile((64, 64, 16), (32, 32, 16), 32)


def test_a_use_of_squares_is_refused_where_no_square_is_whole_tiles(monkeypatch):
    """Of three uses; `batched` takes any shape."""
    monkeypatch.setattr("gemmgen.fragment_uses.SIZES", (8,))
    for name in ("householder", "givens", "scan"):
        with pytest.raises(SpecError, match="no square of the use is whole tiles") as refusal:
            use(name, FRAGMENTS.get("mma_m16n8k16_f16"))
        assert refusal.value.got == "mma_m16n8k16_f16" and refusal.value.needs == "a shape that divides 8"
    assert "m16n8k16" in use("batched", FRAGMENTS.get("mma_m16n8k16_f16"), "tcec")
