"""The GPUs: limits against NVIDIA's table per compute capability, rates against one another."""

from __future__ import annotations

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import SpecError

ROWS = {name: GPUS.get(name) for name in GPUS.names()}

# CUDA C++ Programming Guide, technical specifications per compute capability: resident
# threads and blocks of an SM; KiB of shared memory of an SM and of a block. Then the
# granularity of the occupancy calculator, and what the system takes of each block.
PER_CAPABILITY = {
    (7, 5): (1024, 16, 64, 64, 256, 0),
    (8, 0): (2048, 32, 164, 163, 128, 1),
    (8, 6): (1536, 16, 100, 99, 128, 1),
    (8, 9): (1536, 24, 100, 99, 128, 1),
    (9, 0): (2048, 32, 228, 227, 128, 1),
    (10, 0): (2048, 32, 228, 227, 128, 1),
    (12, 0): (1536, 24, 100, 99, 128, 1),
}
# FP32 results a clock and SM, from the same guide's table of arithmetic throughput.
FP32_PER_CLOCK = {(7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 9): 128, (9, 0): 128, (10, 0): 128, (12, 0): 128}
UNIT_OF = {
    (7, 5): "turing", (8, 0): "ampere", (8, 6): "ampere", (8, 9): "ada", (9, 0): "hopper", (10, 0): "blackwell",
    (12, 0): "blackwell",
}


def capability(name: str) -> tuple[int, int]:
    return divmod(ROWS[name].arch_number, 10)


def test_the_gpus_people_ask_for_are_there():
    assert {
        "t4", "a100", "a100_80gb", "a800", "h100", "h200", "b200", "l40s", "rtx3090", "rtx4090", "rtx5090",
    } <= set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_limits_are_those_of_the_compute_capability(name):
    threads, blocks, sm_kib, block_kib, granularity, reserved = PER_CAPABILITY[capability(name)]
    assert ROWS[name].limits.model_dump() == {
        "warp_size": 32, "threads_per_block": 1024, "threads_per_sm": threads, "blocks_per_sm": blocks,
        "registers_per_sm": 65536, "registers_per_thread": 255, "register_allocation_unit": 256,
        "shared_bytes_per_sm": sm_kib * 1024, "shared_bytes_per_block": block_kib * 1024,
        "shared_bytes_reserved_per_block": reserved * 1024, "shared_allocation_unit": granularity,
    }


@pytest.mark.parametrize("name", ROWS)
def test_rates_agree(name):
    rates = ROWS[name].rates
    tensor = 2 * rates.sms * rates.tensor_boost_mhz * 1e6 * rates.tensor_fma_per_clock["f16"]
    vector = 2 * rates.sms * rates.boost_mhz * 1e6 * rates.f32_fma_per_clock
    assert rates.f16_tflops * 1e12 == pytest.approx(tensor, rel=0.02)
    assert rates.f32_tflops * 1e12 == pytest.approx(vector, rel=0.02)
    assert rates.f32_fma_per_clock == FP32_PER_CLOCK[capability(name)]
    assert rates.tensor_boost_mhz <= rates.boost_mhz
    assert rates.shared_bytes_per_clock == (64 if capability(name) == (7, 5) else 128)


@pytest.mark.parametrize("name", ROWS)
def test_the_matrix_unit_is_the_generations_and_its_words_have_rates(name):
    row = ROWS[name]
    assert row.matrix_unit == UNIT_OF[capability(name)]
    assert set(row.unit.block) <= set(row.rates.tensor_fma_per_clock)


# Dense TFLOPS of TF32 as the vendor states them: a word type that the rows give only as a rate.
TF32 = {
    "a100": 156, "a100_80gb": 156, "a800": 156, "h100": 494.7, "h200": 494.7, "b200": 1125, "l40s": 183,
    "rtx3090": 35.6, "rtx4090": 82.6, "rtx5090": 104.8, "t4": None,
}


@pytest.mark.parametrize("name", ROWS)
def test_rates_of_other_words(name):
    rates = ROWS[name].rates
    assert rates.tensor_tflops("f16") == rates.f16_tflops
    assert rates.tensor_tflops("tf32") == (TF32[name] and pytest.approx(TF32[name], rel=0.02))
    assert rates.tensor_tflops("bf16") == (None if name == "t4" else rates.f16_tflops)


@pytest.mark.parametrize(("one", "other", "differing"), [
    ("a100_80gb", "a800", set()),
    ("a100", "a100_80gb", {"dram_gb_per_s", "dram_gib"}),
    ("h100", "h200", {"dram_gb_per_s", "dram_gib"}),
    ("rtx4090", "l40s", {"sms", "tensor_fma_per_clock", "f16_tflops", "f32_tflops", "dram_gb_per_s", "dram_gib", "l2_mib"}),
])
def test_gpus_of_one_chip_differ_only_where_they_do(one, other, differing):
    first, second = ROWS[one], ROWS[other]
    assert first.limits == second.limits and first.arch == second.arch
    rates, others = first.rates.model_dump(), second.rates.model_dump()
    assert {key for key in rates if rates[key] != others[key]} == differing


@pytest.mark.parametrize(("before", "after", "complaint"), [
    ("f16_tflops = 312.0", "f16_tflops = 320.0", r"f16_tflops within 2 % of 311.9 = 2 \* sms"),
    ("f16_tflops = 312.0", "f16_tflops = 624.0", "f16_tflops within 2 %"),
    ("f32_tflops = 19.5", "f32_tflops = 19.0", "f32_tflops within 2 % of 19.49"),
    ("tensor_boost_mhz = 1410", "tensor_boost_mhz = 1500", "f16_tflops within 2 %"),
    ("f32_fma_per_clock = 64", "f32_fma_per_clock = 128", "f32_tflops within 2 %"),
    ("f16 = 1024", "f16 = 2048", "f16_tflops within 2 %"),
    ("{ f16 = 1024, bf16", "{ bf16", "tensor_fma_per_clock of f16"),
    ("tf32 = 512", "tf32 = 0", "greater than 0"),
    ("tf32 = 512", "f8 = 512", "'f16', 'bf16' or 'tf32'"),
    ("shared_bytes_per_block = 166912", "shared_bytes_per_block = 167936", "less shared_bytes_reserved_per_block"),
    ("shared_bytes_per_clock = 128", "", "is missing"),
    ("l2_mib = 40", "l2_mib = 40\nl3_mib = 1", "unknown key"),
])
def test_numbers_that_disagree_are_refused(tmp_path, before, after, complaint):
    good = (GPUS.folder / "a100.toml").read_text()
    assert before in good
    path = tmp_path / "a100.toml"
    path.write_text(good.replace(before, after, 1))
    with pytest.raises(SpecError, match=complaint):
        GPUS.get(str(path))
