"""The GPUs: limits against NVIDIA's table per compute capability and LLVM's rules for AMD's, rates against one another."""

from __future__ import annotations

import pytest

from gemmgen.catalog.architecture import architecture
from gemmgen.catalog.gpu import GPUS, generation, nearest_generation
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import SpecError
from broken_rows import assert_refused

ROWS = {name: GPUS.get(name) for name in GPUS.names()}
NVIDIA = [name for name, row in ROWS.items() if row.vendor == "nvidia"]
AMD = [name for name, row in ROWS.items() if row.vendor == "amd"]

# CUDA C++ Programming Guide, technical specifications per compute capability: resident
# threads and blocks of an SM; KiB of shared memory of an SM and of a block. Then the
# granularity of the occupancy calculator, and what the system takes of each block.
PER_CAPABILITY = {
    (7, 5): (1024, 16, 64, 64, 256, 0),
    (8, 0): (2048, 32, 164, 163, 128, 1),
    (8, 6): (1536, 16, 100, 99, 128, 1),
    (8, 7): (1536, 16, 164, 163, 128, 1),
    (8, 9): (1536, 24, 100, 99, 128, 1),
    (9, 0): (2048, 32, 228, 227, 128, 1),
    (10, 0): (2048, 32, 228, 227, 128, 1),
    (10, 3): (2048, 32, 228, 227, 128, 1),
    (11, 0): (1536, 24, 228, 227, 128, 1),
    (12, 0): (1536, 24, 100, 99, 128, 1),
    (12, 1): (1536, 24, 100, 99, 128, 1),
}
# FP32 results a clock and SM, from the same guide's table of arithmetic throughput.
FP32_PER_CLOCK = {(7, 5): 64, (8, 0): 64} | dict.fromkeys(((8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1)), 128)
UNIT_OF = {
    (7, 5): "turing", (8, 0): "ampere", (8, 6): "ampere", (8, 7): "ampere", (8, 9): "ada", (9, 0): "hopper", (10, 0): "blackwell",
    (10, 3): "blackwell", (11, 0): "blackwell", (12, 0): "blackwell_rtx", (12, 1): "blackwell_rtx",
}


def capability(name: str) -> tuple[int, int]:
    return divmod(ROWS[name].arch_number, 10)


def test_the_gpus_people_ask_for_are_there():
    assert {
        "t4", "a100", "a100_80gb", "a800", "h100", "h200", "b200", "l40s", "rtx3090", "rtx4090", "rtx5090",
        "mi100", "mi210", "mi250x", "mi300x", "mi355x", "rx7600", "rx7800xt", "rx7900xtx", "rx9060xt",
        "rx9070xt", "jetson_agx_orin", "rtx4060ti", "mi300a", "a10", "a40", "rtxa6000", "l4", "gh200", "h20", "gb200", "b300", "gb300", "jetson_thor",
        "rtx5080", "rtx5070ti", "rtx_pro_6000", "dgx_spark", "mi325x", "mi350x", "radeon_pro_w7900", "strix_halo",
    } <= set(ROWS)


@pytest.mark.parametrize("name", NVIDIA)
def test_limits_are_those_of_the_compute_capability(name):
    threads, blocks, sm_kib, block_kib, granularity, reserved = PER_CAPABILITY[capability(name)]
    assert ROWS[name].limits.model_dump() == {
        "warp_size": 32, "threads_per_block": 1024, "threads_per_sm": threads, "blocks_per_sm": blocks,
        "registers_per_sm": 65536, "registers_per_thread": 255, "register_allocation_unit": 256,
        "shared_bytes_per_sm": sm_kib * 1024, "shared_bytes_per_block": block_kib * 1024,
        "shared_bytes_reserved_per_block": reserved * 1024, "shared_allocation_unit": granularity, "shared_banks": 32,
    }


def test_targets_that_no_shipped_gpu_has():
    """After the same table: resident threads and blocks, and KiB of shared memory, of an SM. A target for one chip or one family has its chip's."""
    more = {"sm_70": (2048, 32, 96), "sm_88": (1536, 16, 100), "sm_103": (2048, 32, 228), "sm_110": (1536, 24, 228), "sm_121": (1536, 24, 100)}
    for name, (threads, blocks, kib) in more.items():
        limits = architecture(name).limits
        assert (limits["threads_per_sm"], limits["blocks_per_sm"], limits["shared_bytes_per_sm"]) == (threads, blocks, kib * 1024), name
    assert architecture("sm_90a") is architecture("sm_90") and architecture("sm_121f") is architecture("sm_121")
    assert architecture("gfx90") is architecture("sm_60") is None and architecture("gfx90a").name == "gfx90a"


@pytest.mark.parametrize("name", ROWS)
def test_rates_agree(name):
    rates = ROWS[name].rates
    tensor = 2 * rates.sms * rates.tensor_boost_mhz * 1e6 * rates.tensor_fma_per_clock["f16"]
    vector = 2 * rates.sms * rates.boost_mhz * 1e6 * rates.f32_fma_per_clock
    assert rates.f16_tflops * 1e12 == pytest.approx(tensor, rel=0.02)
    assert rates.f32_tflops * 1e12 == pytest.approx(vector, rel=0.02)
    assert rates.tensor_boost_mhz <= rates.boost_mhz


@pytest.mark.parametrize("name", NVIDIA)
def test_rates_a_clock_are_those_of_the_compute_capability(name):
    rates = ROWS[name].rates
    assert rates.f32_fma_per_clock == FP32_PER_CLOCK[capability(name)]
    assert rates.shared_bytes_per_clock == (64 if capability(name) == (7, 5) else 128)


@pytest.mark.parametrize("name", NVIDIA)
def test_the_matrix_unit_is_the_generations_and_its_words_have_rates(name):
    row = ROWS[name]
    assert row.matrix_unit == UNIT_OF[capability(name)]
    assert set(row.unit.words) == set(row.rates.tensor_fma_per_clock)


# Dense TFLOPS of TF32 as the vendor states them: a word type that the rows give only as a rate.
TF32 = {
    "a100": 156, "a100_80gb": 156, "a800": 156, "h100": 494.7, "h200": 494.7, "b200": 1125, "l40s": 183,
    "rtx3090": 35.6, "rtx4090": 82.6, "rtx5090": 104.8, "t4": None,
    "mi100": None, "mi210": None, "mi250x": None, "mi300x": 653.7, "mi355x": None, "rx7600": None, "rx7800xt": None, "rx7900xtx": None,
    "rx9060xt": None, "rx9070xt": None, "jetson_agx_orin": 21.3, "rtx4060ti": 22.06, "mi300a": 490.3,
    "a10": 62.5, "a40": 74.8, "rtxa6000": 77.4, "l4": 60, "gh200": 494.7, "h20": 74, "gb200": 1250, "b300": 1125, "gb300": 1250, "jetson_thor": 129.2,
    "rtx5080": 56.3, "rtx5070ti": 43.9, "rtx_pro_6000": 251.9, "dgx_spark": 29.7, "mi325x": 653.7, "mi350x": None, "radeon_pro_w7900": None,
    "strix_halo": None,
}
# Dense TOPS of INT8 and TFLOPS of FP8, of the formats that the chip has, with FP32 accumulation; a figure of one die of the MI250X's two.
WORDS_8 = {
    "t4": (130, None), "a100": (624, None), "a100_80gb": (624, None), "a800": (624, None), "h100": (1978.9, 1978.9), "h200": (1979, 1979),
    "b200": (4500, 4500), "l40s": (733, 733), "rtx3090": (284, None), "rtx4090": (660.6, 330.3), "rtx5090": (838, 419),
    "mi100": (184.6, None), "mi210": (181, None), "mi250x": (191.5, None), "mi300x": (2614.9, 2614.9), "mi355x": (5033, 5033),
    "rx7600": (43.5, None), "rx7800xt": (74.65, None), "rx7900xtx": (122.8, None), "rx9060xt": (205, 205), "rx9070xt": (389, 389),
    "jetson_agx_orin": (85, None), "rtx4060ti": (176.5, 88.3), "mi300a": (1961.2, 1961.2),
    "a10": (250, None), "a40": (299.3, None), "rtxa6000": (309.7, None), "l4": (242.5, 242.5), "gh200": (1979, 1979), "h20": (296, 296),
    "gb200": (5000, 5000), "b300": (150, 4500), "gb300": (166.5, 5000), "jetson_thor": (517, 517), "rtx5080": (450.2, 225.1), "rtx5070ti": (351.5, 175.8),
    "rtx_pro_6000": (1007.6, 1007.6), "dgx_spark": (237.7, 118.8), "mi325x": (2614.9, 2614.9), "mi350x": (4600, 4600),
    "radeon_pro_w7900": (122.6, None), "strix_halo": (59.39, None),
}
BF16 = {"t4": None, "mi100": 92.3}  # where it differs from f16


@pytest.mark.parametrize("name", ROWS)
def test_rates_of_other_words(name):
    rates = ROWS[name].rates
    assert rates.tensor_tflops("f16") == rates.f16_tflops
    assert rates.tensor_tflops("tf32") == (TF32[name] and pytest.approx(TF32[name], rel=0.02))
    integers, floats = WORDS_8[name]
    assert rates.tensor_tflops("s8") == pytest.approx(integers, rel=0.02)
    for word in ("e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz"):
        has = floats and word.endswith("fnuz") == (ROWS[name].arch == "gfx942")
        assert rates.tensor_tflops(word) == (pytest.approx(floats, rel=0.02) if has else None)
    assert rates.tensor_tflops("bf16") == (BF16[name] and pytest.approx(BF16[name], rel=0.02) if name in BF16 else rates.f16_tflops)


@pytest.mark.parametrize(("one", "other", "differing"), [
    ("a100_80gb", "a800", set()),
    ("a100", "a100_80gb", {"dram_gb_per_s", "dram_gib"}),
    ("h100", "h200", {"dram_gb_per_s", "dram_gib"}),
    ("h100", "gh200", {"dram_gb_per_s", "dram_gib", "l2_mib"}),
    ("a40", "rtxa6000", {"boost_mhz", "tensor_boost_mhz", "f16_tflops", "f32_tflops", "dram_gb_per_s"}),
    ("mi300x", "mi325x", {"dram_gb_per_s", "dram_gib"}),
    ("mi210", "mi250x", {"sms", "f16_tflops", "f32_tflops", "f64_tflops"}),
    ("rtx4090", "l40s", {"sms", "tensor_fma_per_clock", "f16_tflops", "f32_tflops", "f64_tflops", "dram_gb_per_s", "dram_gib", "l2_mib"}),
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
    ("sms = 108", "sms = 108\nf32_fma_per_clock = 128", "f32_tflops within 2 %"),
    ("f16 = 1024", "f16 = 2048", "f16_tflops within 2 %"),
    ("{ f16 = 1024, bf16", "{ bf16", "tensor_fma_per_clock of f16"),
    ("tf32 = 512", "tf32 = 0", "greater than 0"),
    ("tf32 = 512", "f8 = 512", "'f16', 'bf16', 'tf32', 's8'"),
    ("[rates]", "[limits]\nshared_bytes_per_block = 166913\n[rates]", "at most shared_bytes_per_sm.*less shared_bytes_reserved_per_block"),
    ('matrix_unit = "ampere"', 'matrix_unit = "amper"', "did you mean 'ampere'"),
    ('arch = "sm_80"', 'arch = "sm_80; rm"', "match pattern"),
    ("NVIDIA A100 SXM4 40 GB", "A100\\n#error", "match pattern"),
    ("sms = 108", "sms = -108", "greater than 0"),
    ("sms = 108", "sms = 1e2", "integer"),
    *(("[rates]", f"[limits]\n{line}\n[rates]", told) for line, told in (
        ("threads_per_sm = 992", "threads_per_block of at most threads_per_sm"), ("threads_per_sm = 2040", "threads_per_sm of whole warps, 32 threads each"),
        ("threads_per_block = 1000", "threads_per_block of whole warps"), ("register_allocation_unit = 48", "register_allocation_unit of whole warps"),
        ("registers_per_sm = 65792", "registers_per_sm of 4 parts, each of whole allocation units"), ("warp_size = 64", "warp_size = 32, that of sm_80"),
        ("registers_per_thread = 256", "registers_per_thread of at most 255 and shared_banks = 32, where the vendor is nvidia"),
        ("shared_banks = 64", "shared_banks = 32, where the vendor is nvidia"),
    )),
    ("l2_mib = 40", "", "is missing"),
    ("l2_mib = 40", "l2_mib = 40\nl3_mib = 1", "unknown key"),
])
def test_a_row_that_cannot_be_is_refused(tmp_path, before, after, complaint):
    assert_refused(tmp_path, GPUS, "a100", before, after, complaint)


def test_limits_at_their_bounds(tmp_path):
    """As many threads in a block as in an SM, a block with all shared memory but the driver's part, one more allocation unit in each part of the file."""
    path = tmp_path / "a100.toml"
    lines = "threads_per_sm = 1024\nshared_bytes_per_block = 166912\nregisters_per_sm = 66560\nregisters_per_thread = 255"
    path.write_text((GPUS.folder / "a100.toml").read_text().replace("[rates]", f"[limits]\n{lines}\n[rates]", 1))
    row = GPUS.get(str(path))
    assert row.limits.registers_per_sm == 66560 and row.batch_threshold == 108 * 1024 // 4


def test_where_a_generation_begins_and_ends():
    """Of NVIDIA's by compute capability; AMD's targets lie between those of neighbours that nobody has looked at."""
    units = {70: "volta", 72: "volta", 75: "turing", 80: "ampere", 87: "ampere", 89: "ada", 90: "hopper", 100: "blackwell", 110: "blackwell",
             120: "blackwell_rtx", 121: "blackwell_rtx", 130: None, 0x908: "cdna1", 0x909: None, 0x90A: "cdna2", 0x90B: None, 0x942: "cdna3", 0x950: "cdna4",
             0x951: None, 0x1100: "rdna3", 0x1153: "rdna3", 0x1160: None, 0x1200: "rdna4", 0x1201: "rdna4", 0x125F: "rdna4", 0x1260: None}
    assert {number: generation(number) for number in units} == units
    nvidia, amd = VENDORS["nvidia"], VENDORS["amd"]
    nearest = [(nvidia, 60, "volta"), (nvidia, 80, "ampere"), (nvidia, 90, "hopper"), (nvidia, 130, "blackwell_rtx"), (amd, 0x908, "cdna1"),
               (amd, 0x90C, "cdna2")]
    assert [nearest_generation(maker, number) for maker, number, _ in nearest] == [name for *_, name in nearest]


# ---- AMD, after LLVM's AMDGPU back end (AMDGPUBaseInfo.cpp and the targets' features), per target:
# compute units of what a workgroup shares, SIMDs of it, lanes of a wavefront, wavefronts and
# registers of a lane of a SIMD, registers that one lane may address, the registers' granularity,
# barriers; then KiB of LDS, and of a workgroup, and its granularity in 32-bit words.
CDNA2_ON = dict(units=1, simds=4, lanes=64, waves=8, registers=512, addressable=512, granule=8, barriers=16)
RDNA = dict(units=2, simds=4, lanes=32, waves=16, registers=1536, addressable=256, granule=24, barriers=32, lds=128, mine=64, words=256)
TARGETS = {
    "gfx908": dict(CDNA2_ON, waves=10, registers=256, addressable=256, granule=4, lds=64, mine=64, words=128),
    "gfx90a": dict(CDNA2_ON, lds=64, mine=64, words=128),
    "gfx942": dict(CDNA2_ON, lds=64, mine=64, words=128),
    "gfx950": dict(CDNA2_ON, lds=160, mine=160, words=320),
    "gfx1100": RDNA, "gfx1101": RDNA, "gfx1151": RDNA,  # Strix Halo, alone of RDNA 3.5, has Feature1_5xVGPRs
    "gfx1102": dict(RDNA, registers=1024, granule=16),  # no Feature1_5xVGPRs
    "gfx1200": RDNA, "gfx1201": RDNA,
}
# Compute units, and FLOPs of one of them in a clock, as AMD's architecture papers and data sheets state them:
# FP32 outside the matrix units, then f16 on them.
CHIPS = {
    "mi100": (120, 128, 1024), "mi210": (104, 128, 1024), "mi250x": (110, 128, 1024), "mi300x": (304, 256, 2048),
    "mi355x": (256, 256, 4096), "rx7900xtx": (96, 256, 512), "rx9070xt": (64, 256, 1024),
    "rx7800xt": (60, 256, 512), "rx7600": (32, 256, 512), "rx9060xt": (32, 256, 1024), "mi300a": (228, 256, 2048),
    "mi325x": (304, 256, 2048), "mi350x": (256, 256, 4096), "radeon_pro_w7900": (96, 256, 512), "strix_halo": (40, 256, 512),
}
AMD_UNITS = {
    "gfx908": "cdna1", "gfx90a": "cdna2", "gfx942": "cdna3", "gfx950": "cdna4",
    "gfx1100": "rdna3", "gfx1101": "rdna3", "gfx1102": "rdna3", "gfx1151": "rdna3", "gfx1200": "rdna4", "gfx1201": "rdna4",
}


@pytest.mark.parametrize("name", AMD)
def test_limits_are_those_of_the_amd_target(name):
    target = TARGETS[ROWS[name].arch]
    waves = target["simds"] * target["waves"]
    assert ROWS[name].limits.model_dump() == {
        "warp_size": target["lanes"], "threads_per_block": 1024, "threads_per_sm": waves * target["lanes"],
        # A workgroup of two wavefronts or more takes a barrier; where those may run out, the row lets no more in.
        "blocks_per_sm": waves if waves // 2 <= target["barriers"] else target["barriers"],
        "registers_per_sm": target["simds"] * target["registers"] * target["lanes"], "registers_per_thread": target["addressable"],
        "register_allocation_unit": target["granule"] * target["lanes"],
        "shared_bytes_per_sm": target["lds"] * 1024, "shared_bytes_per_block": target["mine"] * 1024,
        "shared_bytes_reserved_per_block": 0, "shared_allocation_unit": target["words"] * 4,
        "shared_banks": 64 if ROWS[name].arch == "gfx950" else 32,
    }


@pytest.mark.parametrize("name", AMD)
def test_an_amd_chip_is_its_compute_units(name):
    units, f32, f16 = CHIPS[name]
    row, share = ROWS[name], TARGETS[ROWS[name].arch]["units"]
    assert row.rates.sms * share == units
    assert (2 * row.rates.f32_fma_per_clock, 2 * row.rates.tensor_fma_per_clock["f16"]) == (f32 * share, f16 * share)
    assert row.matrix_unit == AMD_UNITS[row.arch]
    assert set(row.unit.words) == set(row.rates.tensor_fma_per_clock)
    assert not row.async_copies


def test_a_target_is_its_vendors(tmp_path):
    path = tmp_path / "mi210.toml"
    path.write_text((GPUS.folder / "mi210.toml").read_text().replace('vendor = "amd"', 'vendor = "nvidia"'))
    with pytest.raises(SpecError, match="an arch of vendor nvidia; gfx90a is amd's"):
        GPUS.get(str(path))
    assert [ROWS[name].arch_number for name in ("mi100", "mi210", "mi300x", "mi355x", "rx7900xtx", "rx9070xt")] == [
        0x908, 0x90A, 0x942, 0x950, 0x1100, 0x1201,
    ]
