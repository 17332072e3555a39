"""What rows state, against the figures that were published, written down here a second time: one edited number is seen."""

from __future__ import annotations

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.unit import UNITS

# Matrix units: (rule, fraction bits, products summed at once of f16, bf16 and tf32).
# NVIDIA: MMA-Sim 2.1.1, mmasim/nv_ptx/sim.py (`_mma_F_bits`, `_mma_L_max_bytes` over the bytes of a word); north-numerical-
# computing/MATLAB-tensor-core of arXiv 2512.07004, models/*.m (23 + `neab`, `fma`), which has no Turing. AMD: MMA-Sim 2.1.1, mmasim/amd/sim.py (`L_max`, `P`, `F`); CDNA 4 is assumed to be CDNA 3, RDNA to be
# multiply-adds one after the other.
PUBLISHED_UNITS = {
    "volta": ("truncate", 23, (4, None, None)),
    "turing": ("truncate", 24, (8, None, None)),
    "ampere": ("truncate", 24, (8, 8, 4)),
    "ada": ("truncate", 24, (8, 8, 4)),
    "hopper": ("truncate", 25, (16, 16, 8)),
    "blackwell": ("truncate", 25, (16, 16, 8)),
    "blackwell_rtx": ("truncate", 25, (16, 16, 8)),
    "cdna1": ("exact", None, (4, 2, None)),
    "cdna2": ("tree", None, (4, 4, None)),
    "cdna3": ("floor", 24, (8, 8, 4)),
    "cdna4": ("floor", 24, (8, 8, None)),
    "rdna3": ("exact", None, (1, 1, None)),
    "rdna4": ("exact", None, (1, 1, None)),
}

# Words of 8 bits: (rule, fraction bits, fraction bits of the sums, products summed at once), by words, OCP's where none are named, and policy.
# MMA-Sim 2.1.1, mmasim/nv_ptx/sim.py (`MMA`, `WGMMA`, `TCGen05MMA`) and mmasim/amd/sim.py (`MMA_GTR_FDPA`).
PUBLISHED_VARIANTS = {
    "ada": {((), None): ("truncate", 13, 13, 16)},
    "hopper": {((), "wgmma"): ("truncate", 13, 13, 32), ((), "mma"): ("by_f16", 25, None, 32)},  # by mma.sync: what ptxas makes of it
    "blackwell": {((), "mma"): ("by_f16", 25, None, 32), ((), "tcgen05"): ("truncate", 25, None, 32)},
    "blackwell_rtx": {((), None): ("truncate", 25, None, 32)},
    "cdna3": {(("e4m3fnuz", "e5m2fnuz"), None): ("floor_apart", 24, None, 16)},
    "cdna4": {((), None): ("floor_apart", 24, None, 16)},
    "rdna4": {((), None): ("exact", None, None, 1)},  # assumed, as of its other words
}

# GPUs: SMs, compute units of CDNA or workgroup processors of RDNA; boost MHz; dense f16 and f32 TFLOPS; GB/s and GiB of
# memory; MiB of L2. Data sheets and architecture papers, as each row's source names them; bandwidths follow from bus and
# memory clock: 256 bits x 10 Gb/s of the T4, 5120 x 2.43 of the A100 40 GB, 384 x 19.5 of the RTX 3090, 384 x 21 of the
# RTX 4090, 512 x 28 of the RTX 5090, 384 x 18 of the L40S, 384 x 20 of the RX 7900 XTX, 256 x 19.5 of the RX 7800 XT,
# 128 x 18 of the RX 7600, 256 x 20 of the RX 9070 XT, 128 x 20 of the RX 9060 XT, 4096 x 2.4 of the MI100, 4096 x 3.2 of
# the MI210 and of either die of the MI250X, each over 8.
PUBLISHED_GPUS = {
    "t4": (40, 1590, 65.0, 8.1, 320.0, 16, 4),
    "a100": (108, 1410, 312.0, 19.5, 1555.0, 40, 40),
    "a100_80gb": (108, 1410, 312.0, 19.5, 2039.0, 80, 40),
    "a800": (108, 1410, 312.0, 19.5, 2039.0, 80, 40),
    "h100": (132, 1980, 989.4, 66.9, 3352.0, 80, 50),
    "h200": (132, 1980, 989.4, 66.9, 4800.0, 141, 50),
    "b200": (148, 1965, 2250.0, 75.0, 7672.0, 180, 126.5),
    "l40s": (142, 2520, 362.05, 91.6, 864.0, 48, 96),
    "rtx3090": (82, 1695, 71.0, 35.6, 936.0, 24, 6),
    "rtx4090": (128, 2520, 165.2, 82.6, 1008.0, 24, 72),
    "rtx5090": (170, 2407, 209.5, 104.8, 1792.0, 32, 96),
    "mi100": (120, 1502, 184.6, 23.1, 1228.8, 32, 8),
    "mi210": (104, 1700, 181.0, 22.6, 1638.4, 64, 8),
    "mi250x": (110, 1700, 191.5, 23.95, 1638.4, 64, 8),
    "mi300x": (304, 2100, 1307.4, 163.4, 5300.0, 192, 32),
    "mi355x": (256, 2400, 2500.0, 157.3, 8000.0, 288, 32),
    "rx7600": (16, 2655, 43.5, 21.75, 288.0, 8, 2),
    "rx7800xt": (30, 2430, 74.65, 37.32, 624.1, 16, 4),
    "rx7900xtx": (48, 2500, 122.8, 61.4, 960.0, 24, 6),
    "rx9060xt": (16, 3130, 103.0, 25.6, 320.0, 16, 4),
    "rx9070xt": (32, 2970, 195.0, 48.7, 640.0, 16, 8),
    "jetson_agx_orin": (16, 1300, 42.6, 5.3, 204.8, 64, 4),  # f16 of the 170 sparse TOPS of INT8: a quarter
    "rtx4060ti": (34, 2535, 44.13, 22.06, 288.0, 8, 32),  # f16 of its SMs, clock and the RTX 4090's rate
    "mi300a": (228, 2100, 980.6, 122.6, 5300.0, 128, 24),
    "a10": (72, 1695, 125.0, 31.2, 600.0, 24, 6),
    "a40": (84, 1740, 149.7, 37.4, 696.0, 48, 6),
    "rtxa6000": (84, 1800, 154.8, 38.7, 768.0, 48, 6),
    "l4": (58, 2040, 121.0, 30.3, 300.0, 24, 48),  # f16 of the 242 sparse TFLOPS
    "gh200": (132, 1980, 989.4, 66.9, 4000.0, 96, 60),
    "h20": (78, 1980, 148.0, 39.5, 4000.0, 96, 60),  # f32 of its SMs and clock
    "gb200": (152, 2062, 2500.0, 80.0, 8000.0, 186, 126.5),
    "b300": (148, 1980, 2250.0, 75.0, 8000.0, 288, 126.5),
    "gb300": (152, 2062, 2500.0, 80.0, 8000.0, 288, 126.5),
    "jetson_thor": (20, 1575, 258.5, 8.064, 273.0, 128, 32),  # f16 of the 517 sparse TFLOPS
    "rtx5080": (84, 2617, 112.6, 56.3, 960.0, 16, 64),
    "rtx5070ti": (70, 2452, 87.9, 43.9, 896.0, 16, 48),
    "rtx_pro_6000": (188, 2617, 503.8, 126.0, 1792.0, 96, 128),
    "dgx_spark": (48, 2418, 59.42, 29.7, 273.0, 128, 24),  # f16 of its SMs, clock and the RTX 5090's rate
    "mi325x": (304, 2100, 1307.4, 163.4, 6000.0, 256, 32),
    "mi350x": (256, 2200, 2300.0, 144.2, 8000.0, 288, 32),
    "radeon_pro_w7900": (48, 2495, 122.6, 61.3, 864.0, 48, 6),
    "strix_halo": (20, 2900, 59.39, 29.7, 256.0, 128, 2),  # f16 of its compute units, clock and the RX 7900 XTX's rate
}
# Bits of the bus and Gb/s of a pin, where the data sheet names them.
MEMORY = {
    "t4": (256, 10), "a100": (5120, 2.43), "rtx3090": (384, 19.5), "rtx4090": (384, 21), "rtx5090": (512, 28), "l40s": (384, 18),
    "rx7900xtx": (384, 20), "rx7800xt": (256, 19.5), "rx7600": (128, 18), "rx9070xt": (256, 20), "rx9060xt": (128, 20),
    "jetson_agx_orin": (256, 6.4), "rtx4060ti": (128, 18), "a10": (384, 12.5), "a40": (384, 14.5), "rtxa6000": (384, 16), "l4": (192, 12.5),
    "rtx5080": (256, 30), "rtx5070ti": (256, 28), "rtx_pro_6000": (512, 28), "radeon_pro_w7900": (384, 18), "strix_halo": (256, 8),
    "mi100": (4096, 2.4), "mi210": (4096, 3.2), "mi250x": (4096, 3.2),
}
# Bytes of shared memory that an SM, a compute unit or a workgroup processor serves in a clock: 32 banks of 4 bytes, 64 of
# them on RDNA; twice as many as CDNA 3 on CDNA 4, assumed; the T4's is by its load and store units, and marked as uncertain.
SHARED = {"t4": 64} | dict.fromkeys(
    ("mi350x", "mi355x", "rx7600", "rx7800xt", "rx7900xtx", "rx9060xt", "rx9070xt", "radeon_pro_w7900", "strix_halo"), 256,
)
# Of each GPU the year in which it was first sold.
YEARS = {
    2018: "t4", 2020: "a100 a100_80gb rtx3090 a40 rtxa6000 mi100", 2021: "a10 mi250x", 2022: "a800 h100 rtx4090 mi210 rx7900xtx jetson_agx_orin",
    2023: "l40s l4 gh200 rtx4060ti mi300a mi300x rx7600 rx7800xt radeon_pro_w7900", 2024: "h200 h20 b200 mi325x",
    2025: "gb200 b300 gb300 jetson_thor rtx5070ti rtx5080 rtx5090 rtx_pro_6000 dgx_spark mi350x mi355x rx9060xt rx9070xt strix_halo",
}


@pytest.mark.parametrize("name", UNITS.names())
def test_a_matrix_unit_is_as_published(name):
    rule, bits, blocks = PUBLISHED_UNITS[name]
    row = UNITS.get(name)
    assert (row.rule, row.fraction_bits) == (rule, bits)
    assert row.block == {word: block for word, block in zip(("f16", "bf16", "tf32"), blocks) if block}
    assert bool(row.flushes_subnormals) == (name == "cdna2")
    assert row.integers == (("s8",) if name != "volta" else ())
    variants = {(word, policy): (one.rule, one.fraction_bits, one.sum_bits, one.block)
                for one in row.variants for word in one.words for policy in one.policies or (None,)}  # fmt: skip
    ocp = ("e4m3", "e5m2")
    assert variants == {(word, policy): told for (words, policy), told in PUBLISHED_VARIANTS.get(name, {}).items() for word in words or ocp}


@pytest.mark.parametrize("name", GPUS.names())
def test_a_gpus_rates_are_as_published(name):
    rates = GPUS.get(name).rates
    stated = (rates.sms, rates.boost_mhz, rates.f16_tflops, rates.f32_tflops, rates.dram_gb_per_s, rates.dram_gib, rates.l2_mib)
    assert stated == PUBLISHED_GPUS[name]
    assert rates.shared_bytes_per_clock == SHARED.get(name, 128)


def test_every_gpu_has_its_year():
    assert {name: GPUS.get(name).year for name in GPUS.names()} == {name: year for year, names in YEARS.items() for name in names.split()}


@pytest.mark.parametrize("name", MEMORY)
def test_bandwidth_is_the_bus_times_its_clock(name):
    bits, gbits = MEMORY[name]
    assert GPUS.get(name).rates.dram_gb_per_s == pytest.approx(bits * gbits / 8, rel=1e-3)


def test_what_is_checked_is_said_of_exactly_those_words():
    """Hardware has answered for these; Turing's unit and sm_120's have no data here, nor has any of AMD's."""
    checked = {(row.name, word) for row in UNITS.rows() for word in row.block if row.verified and word not in row.unverified_words}
    assert checked == {("volta", "f16")} | {(unit, word) for unit in ("ampere", "ada", "hopper", "blackwell") for word in ("f16", "bf16", "tf32")}
