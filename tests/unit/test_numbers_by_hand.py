"""Numbers worked out by hand, of every room: equations, orders, readers, figures, bounds and messages whose neighbours would do for
a test that only asks whether two parts of the program agree."""

from __future__ import annotations

import json
import math
import os
import re
import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import abi, decisions, road
from gemmgen.workshop.bench import F16, SGEMM, Timed, paired, rows_at
from gemmgen.build import CodeObjectResources, msgpack
from gemmgen.build.cubin import read_cubin
from gemmgen.catalog.fragment.expressions import linear
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.unit import UNITS
from gemmgen.cli.inputs import problem_sizes
from gemmgen.cli.output import json_text, write_paths
from gemmgen.emulate import LAZY_HIGHEST, NOT_MODELLED, Emulator
from gemmgen.emulate.core import rounding, units
from gemmgen.errors import GemmgenError, InfeasibleSpec, SpecError
from gemmgen.designs import Hints, design_called, portable
from gemmgen.designs.portable.design import extents
from gemmgen.designs.cuda_cores import equations as cuda_cores
from gemmgen.designs.grouped import equations as grouped
from gemmgen.designs.residues import equations as residues
from gemmgen.designs.residues_portable import equations as residues_portable
from gemmgen.designs.specialised import equations as specialised
from gemmgen.designs.specialised.design import hidden_promote
from gemmgen.designs.straight import equations as straight
from gemmgen.designs.strided import equations as strided
from gemmgen.designs.tensor_memory import equations as tensor_memory
from gemmgen.designs.thin import equations as thin
from gemmgen.model import batch, error, registers, resources, time, traffic
from gemmgen.render import render
from gemmgen.run import Placement, check_apart, check_extents, check_sums, converted, gemm, launch_all, stored
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.run.sensors import Sample
from gemmgen.solve import alternatives, explain, fallback, search, solve
from gemmgen.spec import loads
from gemmgen.verify import errors, oracles
from gemmgen.model.accuracy import SUM_WORST, predicted, split_worst
from ways import SMALL_GROUPS, plan_of
from elf_file import elf
from test_cubin import sized

# ---- the model


def test_edges_waves_and_slices():
    """1000 x 500 in tiles of 128 x 64: 8 x 8 of them, the last of each row ragged. Five slices of 33 stages: seven each."""
    known = {"M": 1000, "N": 500, "BM": 128, "BN": 64, "K": 1050, "BK": 32, "split_k": 5, "batch": 1}
    assert traffic.TILES.value(known) == 64 and traffic.TILES.value({**known, "batch": 3}) == 192 and traffic.STAGES_K.value(known) == 7
    assert traffic.STAGES_K.value({**known, "split_k": 1}) == 33
    # 300 blocks on 100 SMs of two each: one full wave of 200, and 100 blocks, one an SM; of 301, one SM has two
    waves = {"sms": 100, "resident_blocks": 2, "full_waves": 1}
    assert time.FULL_WAVES.value({**waves, "blocks": 300}) == 1
    assert [time.TAIL_BLOCKS.value({**waves, "blocks": blocks}) for blocks in (200, 201, 300, 301)] == [0, 1, 1, 2]


def test_what_the_split_pass_moves():
    """FP32 in, words out: of ootomo 4 + 4 B an element, of a scheme that scales rows 4 more, for the maxima. None where kernels split."""
    known = {"M": 100, "N": 50, "K": 10, "words_a": 2, "words_b": 2, "b_bytes": 4, "word_bytes": 2, "split_shared": 0, "split_register": 0}
    assert traffic.SPLIT_BYTES.value({**known, "split_reads": 1}) == 1500 * 8
    assert traffic.SPLIT_BYTES.value({**known, "split_reads": 2}) == 1500 * 12
    assert traffic.SPLIT_BYTES.value({**known, "split_reads": 1, "split_shared": 1}) == 0


def test_what_device_memory_moves():
    """C alone while L2 holds the operands; else they come once a wave, or once where waves share them."""
    known = {"M": 100, "N": 100, "K": 100, "plane_bytes": 80_000, "waves": 2, "wave_rows": 1, "wave_columns": 2, "BM": 50, "BN": 50, "moved_bytes": 4}
    assert traffic.DRAM_BYTES.value({**known, "l2_size": 120_000}) == 40_000
    assert traffic.DRAM_BYTES.value({**known, "l2_size": 119_999}) == 40_000 + max(80_000, 2 * (50 + 100) * 100 * 4)


BY_HAND = (
    (traffic.WAVE_ROWS, 3, dict(group=8, M=300, BM=128)), (traffic.WAVE_ROWS, 2, dict(group=2, M=300, BM=128)),
    (traffic.WAVE_COLUMNS, 3, dict(sms=10, resident_blocks=2, wave_rows=8, N=1000, BN=64)),
    (traffic.WAVES, 2, dict(blocks=40, sms=10, resident_blocks=2)), (traffic.WAVES, 3, dict(blocks=41, sms=10, resident_blocks=2)),
    # two sums, each an addition and a zero for 64 elements a lane, every second stage; or three operations; of a tile of k five
    (time.PROMOTION_CYCLES, 128, PROMOTED := dict(promote=64, promoted_sums=2, compensated=0, BM=128, BN=64, f32_fma_per_clock=128, BK=32, tile_k=0, run=0, sums=3)),
    (time.PROMOTION_CYCLES, 192, PROMOTED | dict(compensated=1)), (time.PROMOTION_CYCLES, 640, PROMOTED | dict(promote=0, tile_k=16)),
    (time.PROMOTION_CYCLES, 138, PROMOTED | dict(run=1024)),
    # before shared memory 192 rows; behind it 96 of each of four warps, and 128 / 4 and 64 / 2 to be counted
    (time.SPLIT_CYCLES, 960, SPLIT := dict(words=2, BK=32, split_before=5, split_shared=1, BM=128, BN=64, split_behind=3, split_register=0, warps=4, WM=64,
                                           WN=32, M=256, N=256, f32_fma_per_clock=64)),
    (time.SPLIT_CYCLES, 1344, SPLIT | dict(split_shared=0, split_register=1)),
    (time.BALANCE, 8 / 6, DEALT := dict(amd=1, warps=6, partitions=4)), (time.BALANCE, 1, DEALT | dict(amd=0)), (time.BALANCE, 1, DEALT | dict(warps=3)),
    # 100, and 48 more where two of four schedulers have no warp, 5, 10 for each of four steps, and a load's 300
    (time.CHAIN_CYCLES, 493, CHAIN := dict(shared_cycles=100, tensor_cycles=40, split_cycles=8, partitions=4, warps=2, exposed_cycles=5, split_wait=10,
                                           split_shared=0, split_register=1, BK=32, FK=8, waits=1, memory_cycles=300)),
    (time.CHAIN_CYCLES, 105, CHAIN | dict(warps=8, split_register=0, waits=0)),
    (time.LATENCY_CYCLES, 200, LATE := dict(memory_cycles=600, stages=4, fragment_buffers=1, FK=16, BK=32)),
    (time.LATENCY_CYCLES, 240, LATE | dict(fragment_buffers=2)), (time.LATENCY_CYCLES, 600, LATE | dict(stages=1)),
    (time.GATHER_CYCLES, 2548, GATHER := dict(split_k=3, BM=128, BN=64, l2_bytes_per_clock=64, memory_cycles=500)),
    (time.GATHER_CYCLES, 0, GATHER | dict(split_k=1)),
    (time.KERNEL_CYCLES, 2719, dict(stages_k=10, full_waves=2, stage_cycles=100, tail_cycles=60, resident_blocks=3, tail_blocks=1, tile_cycles=0.5, BM=8, BN=4,
                                    gather_cycles=7)),
    *((registers.SHORT_SUMS, wanted, dict(promote=promote, FK=16, BK=bk, unit_sums=40)) for promote, bk, wanted in ((16, 16, 0), (64, 64, 40), (128, 64, 0))),
    *((registers.HOISTED, wanted, dict(amd=1, unrolled=1, fragment_buffers=buffers, BK=64, FK=fk, fragment_registers=10))
      for buffers, fk, wanted in ((1, 16, 30), (1, 64, 0), (2, 16, 0))),
    *((registers.RING, wanted, dict(rings=rings, stages=stages)) for rings, stages, wanted in ((1, 2, 0), (1, 3, 1), (0, 3, 0))),
    *((time.LAUNCHES, wanted, dict(split_shared=shared, split_register=register, split_reads=reads))
      for shared, register, reads, wanted in ((0, 0, 1, 2), (0, 0, 2, 3), (1, 0, 2, 1), (0, 1, 1, 1))),
    # two stages of 128 rows of 32 x 4 B and two paddings of 8 B, and of 64 rows of 32 x 2 B and one
    (resources.SHARED_BYTES, 46080, dict(stages=2, BM=128, BK=32, element_bytes=4, words_a=2, row_padding=8, BN=64, b_element_bytes=2, words_b=1, tile_k=0,
                                         uncached=0, sums=1)),
    (batch.TLP_NEW, 51200, dict(wavefronts=1000, WF=8, sms=100, warp_size=64)), (batch.TLP_NEW, 640, dict(wavefronts=10, WF=8, sms=100, warp_size=64)),
    (batch.WF_SHARED, 6, dict(blocks_by_shared=3, W_num=100, warp_size=64)),
    # 64 intervals: sqrt(64 / (16 ln 2)) of u
    (error.PROMOTION_ERROR, 2.4022448 * 2.0**-24, dict(u=error.U, K=4096, promote=64, ln2=error.LN2)),
    # two stages of eight rows of 68 floats, and three steps of two loads of 16 B a thread; else all sums
    (thin.SHARED_BYTES, 16640, THIN := dict(thin=8, BK=64, threads=128, stages=3, lane_rows=2, BM=8, BN=64, WK=64)),
    (thin.SHARED_BYTES, 131072, THIN | dict(BN=512, WK=8)),
    (thin.FLYING_BYTES, 16384, FLYING := dict(resident_blocks=2, blocks=300, sms=100, warps=4, warp_size=32, lane_rows=2, stages=3)),
    (thin.FLYING_BYTES, 8192, FLYING | dict(blocks=100)),
    *((straight.ROW_FLOATS, wanted, dict(BN=bn, WN=wn, b_strided=strided)) for bn, wn, strided, wanted in (
        (64, 32, 1, 68), (64, 16, 1, 80), (48, 16, 1, 48), (64, 32, 0, 72), (40, 8, 0, 40), (40, 8, 1, 40))),
    # 24 elements a lane, each two words of five instructions; 12 matrix instructions of two slots; 20
    (straight.WARP_INSTRUCTIONS, 284, dict(WM=16, WN=32, WK=16, warp_size=32, words=2, split_behind=5, products=3, FM=16, FN=8, FK=16, stage_instructions=20)),
    (residues.SPLIT_BYTES, 6000, PASS := dict(K=10, M=100, N=50, moduli=6, plane_bytes=9000, l2_size=18000, pass_bytes=4, batch=1)),
    (residues.SPLIT_BYTES, 15000, PASS | dict(l2_size=17999)),
    # FP64 is read twice; fourteen residues go out
    (residues.SPLIT_BYTES, 45000, WIDE_PASS := PASS | dict(l2_size=17999, pass_bytes=16, moduli=14)),
    (residues.SPLIT_BYTES, 135000, WIDE_PASS | dict(batch=3)), (residues_portable.SPLIT_BYTES, 135000, WIDE_PASS | dict(batch=3)),
    (residues.SPLIT_SECONDS, 21, dict(pass_share=1.5, split_bytes=100, dram_rate=10, split_passes=2, pass_seconds=3)),
    (residues_portable.SPLIT_SECONDS, 10, dict(split_bytes=100, dram_rate=10, total_bytes=8)),
    (residues_portable.SPLIT_SECONDS, 11.400024, dict(split_bytes=100, dram_rate=10, total_bytes=0)),
    (residues.KEPT_BYTES, 3600, KEPT := dict(blocks_at_once=2, BM=10, BN=10, moduli=10, total_bytes=8)), (residues.KEPT_BYTES, 2000, KEPT | dict(total_bytes=0)),
    (residues.JOIN_CYCLES, 252, JOIN := dict(store_slots=90, join_slots=12, moduli=3, BM=8, BN=32, f32_fma_per_clock=128, join_bytes=0, sms=2, clock_hz=10,
                                             dram_rate=5)),
    (residues.JOIN_CYCLES, 264, JOIN | dict(join_bytes=3)),
    # residues of 100 beside operands of a wave, 10 k of one modulus by 10 rows and 10 columns, against room for 300 and for 299
    (residues.JOIN_BYTES, 800, BACK := dict(total_bytes=0, BM=10, BN=10, c_bytes=8, kept_bytes=100, K=10, moduli=1, wave_rows=1, wave_columns=1, l2_size=300)),
    (residues.JOIN_BYTES, 900, BACK | dict(l2_size=299)), (residues.JOIN_BYTES, 0, BACK | dict(l2_size=299, total_bytes=8)),
    (residues_portable.KEPT_REGISTERS, 128, HELD := dict(WM=64, WN=32, warp_size=32, total_bytes=8)), (residues_portable.KEPT_REGISTERS, 0, HELD | dict(total_bytes=0)),
    # two segments of k, each six reductions of which 30 cycles show and a join of which 70 do; all hidden where 100 are
    (residues.KERNEL_CYCLES, 3010, TURN := dict(turns=2, stages_k=10, stage_cycles=100, K=8193, segment_k=8192, moduli=6, reduce_cycles=50, hidden_cycles=20, join_cycles=90,
                                                turn_cycles_each=5)),
    (residues.KERNEL_CYCLES, 2010, TURN | dict(hidden_cycles=100)), (residues.KERNEL_CYCLES, 2510, TURN | dict(K=8192)),
    # C alone, and FP64 sums between two segments
    *((residues_portable.DRAM_BYTES, wanted, OF_C := dict(
        M=10, N=10, K=k, plane_bytes=600, l2_size=1000, waves=1, wave_rows=1, wave_columns=1, BM=8, BN=8, moduli=6, c_bytes=4, segment_k=8192, total_bytes=8,
        batch=1, wave_products=1,
    )) for k, wanted in ((8192, 400), (8193, 2000), (16385, 3600))),
    # FP64's C, and its residues beside it where L2 does not hold them
    (residues_portable.DRAM_BYTES, 2000, WIDE := dict(
        M=10, N=10, K=9000, plane_bytes=100, l2_size=900, waves=1, wave_rows=1, wave_columns=1, BM=8, BN=8, moduli=6, c_bytes=8, segment_k=2**31, total_bytes=0,
        batch=1, wave_products=1,
    ) | dict(l2_size=500, plane_bytes=0, moduli=6, K=0)), (residues_portable.DRAM_BYTES, 800, WIDE | dict(l2_size=900)),
    (residues_portable.DRAM_BYTES, 4000, WIDE | dict(batch=2)),
    # seven slots for each of six moduli, then sixteen, or 90 and twelve for each; of 128 a clock
    *((residues_portable.REDUCE_CYCLES, wanted, dict(K=100, segment_k=8192, moduli=6, store_slots=90, join_slots=12, total_bytes=total, BM=8, BN=16,
                                                     f32_fma_per_clock=128)) for total, wanted in ((8, 58), (0, 204))),
    (strided.DRAM_BYTES, 1200, SETS := dict(batch=3, M=10, N=10, K=10, plane_bytes=5000, l2_size=6200, waves=2, wave_products=2, wave_rows=1, wave_columns=2,
                                            BM=50, BN=50, moved_bytes=4)),
    (strided.DRAM_BYTES, 25200, SETS | dict(l2_size=6199)),
    # 18 warps are five on the fullest of four parts of 16,384, of which each gets 12 units of 256
    (cuda_cores.GRANTED, 96, dict(register_allocation_unit=256, warp_size=32, registers_per_sm=65536, partitions=4, meant_blocks=3, warps=6)),
    (specialised.LAUNCH_REGISTERS, 240, dict(registers_per_sm=65536, threads=256)),
    (specialised.LAUNCH_REGISTERS, 168, dict(registers_per_sm=65536, threads=384)),
    (specialised.AT_ONCE, 132, dict(resident_blocks=1, sms=133, cluster=2)),
    *((specialised.LATENCY_CYCLES, wanted, dict(memory_cycles=600, stages=stages, l2_cycles=50, tensor_cycles=100, shared_cycles=80))
      for stages, wanted in ((2, 750), (3, 350))),
    # four steps of 384 cycles of products; or of 34 for the words of each of two fragments along m
    (specialised.CHAIN_CYCLES, 1546, GROUP := dict(group_gap=10, BK=64, FK=16, products=3, WM=128, WN=64, tensor_fma_per_clock=1024, mma_efficiency=1, mixed=1,
                                                   split_a_cycles=30, words_a=2, a_strided=1, FM=64)),
    (specialised.CHAIN_CYCLES, 282, GROUP | dict(WN=8)),
    (tensor_memory.SHARED_BYTES, 2088, STAGED := dict(stages=2, stage_bytes=1000, buffers=2, split_k=1, groups=4)),
    (tensor_memory.SHARED_BYTES, 2120, STAGED | dict(split_k=2)),
    # 16 k of 128 rows of A and of 256 or 128 columns of B, two words of 2 B each; three products read them
    *((tensor_memory.STAGE_BYTES, wanted, dict(BK=16, BM=128, BN=256, a_bytes=4, b_word_bytes=4, cluster=one)) for one, wanted in ((1, 24576), (2, 16384))),
    *((tensor_memory.FETCH_BYTES, wanted, dict(BK=16, BM=128, BN=256, word_bytes=2, products=3, cluster=one)) for one, wanted in ((1, 36864), (2, 24576))),
    (tensor_memory.AT_ONCE, 132, dict(resident_blocks=2, allocated_columns=512, sms=133, cluster=2)),
    (tensor_memory.AT_ONCE, 266, dict(resident_blocks=2, allocated_columns=256, sms=133, cluster=2)),
    (tensor_memory.TILE_CYCLES, 3224, OUT := dict(store_cycles=0.5, BM=128, BN=64, stages_k=10, stage_cycles=100, sums=2, promote=32, promoted_sums=1,
                                                  f32_fma_per_clock=128)),
    (tensor_memory.TILE_CYCLES, 0, OUT | dict(stages_k=50, promoted_sums=2)), (tensor_memory.TILE_CYCLES, 128, OUT | dict(stages_k=50, promote=0)),
    (grouped.LATENCY, 3, dict(turns=2, K=100, BK=32, stages=3, memory_cycles=500, clock_hz=1000)),
)


@pytest.mark.parametrize(("equation", "wanted", "known"), BY_HAND, ids=[f"{equation.symbol}-{wanted:.5g}" for equation, wanted, _ in BY_HAND])
def test_an_equation_by_hand(equation, wanted, known):
    assert equation.value(known) == pytest.approx(wanted, rel=1e-6)


ONE = {"FK": 16, "BK": 64, "types": 1, "word_bytes": 2, "tile_k": 0, "promote": 0, "padding": 0, "rings": 0, "split_register": 0, "split_shared": 0,
       "fragment_buffers": 1, "held": 0, "uncached": 0, "amd": 0, "warp_size": 32, "FM": 16, "FN": 8, "mixed": 0, "split_reads": 1, "run": 0, "split_k": 1}
LIMITS = (  # of a design the constraint by its number and name; numbers that it just allows, each with one beside that it refuses
    ("specialised", "C2 warp k", ({"WK": 64}, {"WK": 32})),
    ("portable", "C8 fragment buffers", ({"fragment_buffers": 2, "BK": 32}, {"fragment_buffers": 2, "BK": 48})),
    ("portable", "C9 promotion", ({"promote": 16}, {"promote": 24}), ({"promote": 128}, {"promote": 96}), ({"promote": 32}, {"promote": 48})),
    ("portable", "C10 shared memory", ({"shared_bytes": 100, "shared_bytes_per_block": 100}, {"shared_bytes": 101, "shared_bytes_per_block": 100})),
    ("portable", "C7 threads", ({"threads": 1024, "threads_per_block": 1024}, {"threads": 1025, "threads_per_block": 1024})),
    ("portable", "C22 slices of k", ({"split_k": 2, "tiles": 107, "sms": 108}, {"split_k": 2, "tiles": 108, "sms": 108})),
    ("portable", "C39 compensation", ({"compensated": 1, "promote": 32}, {"compensated": 1, "promote": 16})),
    ("portable", "C58 tile of k", ({"tile_k": 64}, {"tile_k": 48}), ({"tile_k": 32}, {"tile_k": 24}), ({"tile_k": 64}, {"tile_k": 128})),
    ("portable", "C73 run of k", ({"run": 256, "promote": 64}, {"run": 256, "promote": 16}), ({"run": 256, "promote": 256}, {"run": 256, "promote": 512}),
     ({"run": 256, "promote": 64, "BK": 128}, {"run": 256, "promote": 64, "BK": 96}), ({"promote": 0}, {"run": 256, "promote": 0})),
    ("specialised", "C74 slices of runs", ({"run": 256, "split_k": 2, "promote": 64}, {"run": 256, "split_k": 2, "promote": 128}),
     ({"run": 256, "promote": 128}, {"run": 256, "split_k": 2, "promote": 128})),
    ("portable", "C11 accumulators", (
        ROOM := {"accumulator_registers": 128, "other_registers": 40, "kept_registers": 32, "fragment_registers": 16, "register_budget": 168},
        ROOM | {"register_budget": 167},
    )),
    ("residues_portable", "C60 accumulators", (ROOM | {"register_budget": 200}, ROOM | {"register_budget": 199})),
    ("specialised", "C11 accumulators", (ROOM | {"register_budget": 184}, ROOM | {"register_budget": 183})),
    ("residues", "C43 accumulators", (ROOM, ROOM | {"register_budget": 167})),
    ("residues_tensor_memory", "C75 accumulators", (ROOM | {"registers": 168}, ROOM | {"registers": 167})),
    ("portable", "C12 predicted to spill", (SPILLS := {"demand": 170, "uneven": 12, "register_budget": 168, "squeeze": 14}, SPILLS | {"squeeze": 13})),
    ("portable", "C13 outside the fit", ({"WM": 128, "WN": 16, "products": 3, "sums": 2}, {"WM": 129, "WN": 16, "products": 3, "sums": 2}),
     (MANY := {"WM": 64, "WN": 63, "products": 3, "sums": 2, "promote": 16, "BK": 32}, MANY | {"WN": 64}), (MANY, MANY | {"BK": 48})),
    ("portable", "C15 stages", ({"held": 1, "stages": 2}, {"held": 1, "stages": 3}), ({"held": 1, "stages": 3, "rings": 1}, {"held": 1, "stages": 3})),
    ("portable", "C21 loads between steps", ({"held": 1, "fragment_buffers": 2, "BK": 32}, {"held": 1, "fragment_buffers": 2, "BK": 16})),
    ("portable", "C28 sums that move", ({"amd": 1, "demand": 300, "waiting": 44}, {"amd": 1, "demand": 301, "waiting": 44})),
    ("specialised", "C7 threads", ({"threads": 512}, {"threads": 513})),
    ("specialised", "C23 row bytes", ({"BK": 64, "least_bytes": 1}, {"BK": 96, "least_bytes": 1}),
     ({"BK": 16, "least_bytes": 2}, {"BK": 16, "least_bytes": 1})),
    ("specialised", "C25 A in registers", ({"mixed": 1, "BK": 32}, {"mixed": 1, "BK": 48}), ({"mixed": 1}, {"mixed": 1, "split_reads": 2}),
     ({"mixed": 1}, {"mixed": 1, "run": 256})),
    ("specialised", "C29 an instruction", ({"WN": 200, "registers": 128}, {"WN": 208, "registers": 128}),
     ({"WN": 192, "mixed": 1, "registers": 128}, {"WN": 200, "mixed": 1, "registers": 128})),
    ("specialised", "C36 widths", ({"types": 2, "WN": 32}, {"types": 2, "WN": 24})),
    ("tensor_memory", "C26 one instruction a tile", ({"BM": 128, "FM": 128, "WM": 128, "BN": 256}, {"BM": 128, "FM": 128, "WM": 128, "BN": 264})),
    ("tensor_memory", "C70 pairs", ({"cluster": 2, "BN": 96}, {"cluster": 2, "BN": 80}), ({"cluster": 1, "BN": 80}, {"cluster": 2, "BN": 80}),
     ({"cluster": 2, "BN": 128}, {"cluster": 4, "BN": 128})),
    ("tensor_memory", "C27 tensor memory", ({"columns": 512}, {"columns": 513})),
    ("straight", "C31 block k", ({"WK": 32}, {"WK": 48})), ("straight", "C33 promotion", ({"WK": 32, "promote": 64}, {"WK": 32, "promote": 48})),
    ("straight", "C35 predicted to spill", (SPILLS | {"demand": 168}, SPILLS | {"demand": 169})),
    ("thin", "C50 thin", ({"thin": 16}, {"thin": 32})),
    ("thin", "C53 large side", ({"BM": 8, "BN": 64, "warp_rows": 32}, {"BM": 8, "BN": 80, "warp_rows": 32})),
    ("thin", "C52 warp rows", ({"lane_rows": 1, "large_strided": 0}, {"lane_rows": 0.5, "large_strided": 0}),
     ({"lane_rows": 4, "large_strided": 1}, {"lane_rows": 2, "large_strided": 1})),
    ("thin", "C54 block k", ({"WK": 64, "lanes_k": 8, "stages": 3}, {"WK": 64, "lanes_k": 8, "stages": 4})),
    ("grouped", "C42 stages that are held", ({"held": 1, "stages": 2}, {"held": 1, "stages": 3})),
)


@pytest.mark.parametrize(("design", "name", "sides"), [(design, name, sides) for design, name, *sides in LIMITS], ids=[f"{one[0]} {one[1]}" for one in LIMITS])
def test_a_constraint_at_its_bound(design, name, sides):
    constraint = next(one for one in design_called(design).constraints if f"{one.number} {one.name}" == name)
    for allowed, refused in sides:
        assert constraint.holds(ONE | allowed) and not constraint.holds(ONE | refused)


@pytest.mark.parametrize(("equations", "gpu", "terascale"), [
    (tensor_memory, "b200", dict(ootomo=2250 * 0.7, bf16x6=2250 * 0.7, tf32x3=1125 * 0.7, mixpert4=4500 * 0.7, e4m3x6=4500 * 0.7)),
    (tensor_memory, "b300", dict(ootomo=2250 * 0.7, mixpert4=2250 * 0.7 / 15)),
    (specialised, "h200", dict(ootomo=650, tf32x3=325, e4m3x6=1300, f16_s8=975, residues8=1300, mixpert4=1300 / 0.74)),
])
def test_power_sustains_a_rate_of_each_type_of_words(equations, gpu, terascale):
    """Of products of two types the mean time counts: f16_s8's one of FP16 takes as long as its two of INT8."""
    found = {name: equations.constants(SCHEMES.get(name), GPUS.get(gpu))["unit_rate"] / 1e12 for name in terascale}
    assert found == pytest.approx(terascale, rel=1e-3)


# ---- the search

OPEN = {"split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}


def test_extents_are_whole_warps():
    pairs = extents(None, None, 16, small=False)
    assert all(block % warp == 0 for block, warp in pairs) and (64, 32) in pairs and (96, 64) not in pairs


def test_every_candidate_is_feasible_or_rejected_once():
    told = explain(loads(OPEN))
    assert told.feasible + sum(told.rejected.values()) == told.candidates and min(told.rejected.values()) > 0


def test_the_order_of_candidates():
    """The tied ones first, and behind them by predicted time."""
    plans, _ = alternatives(loads(OPEN), best=2000, drawn=0)
    seconds = [plan.model["seconds"] for plan in plans[::150]]
    limit = seconds[0] * (1 + 2 * search.TIE)
    behind = [one for one in seconds if one > limit]
    assert len(behind) > 5 and behind == sorted(behind) and seconds[-1] < 5 * seconds[0]


def order_of(columns, objective=None):
    """Of candidates of a made-up design, whose column `last` prefers the least after `first`."""
    design = SimpleNamespace(predicted=lambda known: known, preference=lambda known: (known["first"], known["last"]))
    columns = {name: np.array(values) for name, values in columns.items()} | {"BM": np.arange(len(columns["first"]))}
    return search.ranked(design, search.Space(4, {}, columns), {}, objective)[1].tolist()


def test_candidates_are_ordered_by_the_objective_then_time_then_preference():
    columns = {"seconds": [1.00, 1.019, 1.021, 1.5], "first": [2, 1, 0, 0], "last": [0, 0, 0, 0], "worth": [0, 5, 5, 5]}
    assert order_of(columns) == [1, 0, 2, 3]  # within 2 % the preference decides, and none of the others is before them
    assert order_of(columns | {"first": [1, 1, 1, 1], "last": [3, 2, 1, 0]}) == [1, 0, 2, 3]
    worth = SimpleNamespace(cost=lambda known: -known["worth"])
    assert order_of(columns, worth) == [1, 2, 3, 0]
    assert order_of(columns | {"seconds": [1, 1, 1, 1], "last": [0, 0, 2, 1]}, worth) == [3, 2, 1, 0]


def test_the_front_has_the_fastest_of_each_pair():
    known = {"intensity": np.array([4, 4, 4, 1, 1, 2]), "tlp": np.array([5, 5, 3, 9, 9, 5]), "seconds": np.array([2.0, 1.0, 0.5, 3.0, 2.5, 0.1])}
    assert search.pareto_front(known).tolist() == [1, 4]


def test_a_refusal_is_told_of_the_candidate_nearest_to_a_usual_one():
    columns = {"BM": np.array([16, 128, 1024]), "BN": np.array([16, 64, 1024]), "stages": np.array([2, 0, 3])}
    assert search._nearest(columns, ("BM", "BN", "BK")) == {"BM": 128, "BN": 64}


def test_drawn_alternatives_are_all_the_others():
    sizes, tile = {"m": 1024, "n": 1024, "k": 1024}, {"block": [128, 128, 32]}
    loaded = loads({"problem": sizes, "split": {"scheme": "ootomo", "where": "prepass"}, "tile": tile, "target": {"gpu": "a100"}})
    (best, drawn), (everything, none) = alternatives(loaded, 3, 10**6), alternatives(loaded, 10**6, 5)
    assert len(best) == 3 and none == [] and best == everything[:3]
    assert sorted(plan.hash for plan in (*best, *drawn)) == sorted(plan.hash for plan in everything)
    seconds = [plan.model["seconds"] for plan in everything]
    within = [sum(one <= min(seconds) * (1 + share) for one in seconds) for share in (0.02, 0.04)]
    assert explain(loaded).tied == within[0] < within[1]


def test_a_spec_that_leaves_nothing_open_is_refused_where_its_tile_cannot_be():
    """Three warps of 48 rows are no block of 128, though nothing is left to search for."""
    tile = {"block": [128, 128, 32], "warp": [48, 32, 32], "group": 8, "split_k": 1}
    pipeline = {"loads": "async", "stages": 3, "fragment_buffers": 1}
    spec = {"split": {"scheme": "ootomo", "promote": 0, "where": "prepass"}, "tile": tile, "pipeline": pipeline, "target": {"gpu": "a100"}}
    assert solve(loads(spec | {"tile": tile | {"warp": [64, 32, 32]}})).warp == (64, 32, 32)
    with pytest.raises(InfeasibleSpec, match="block m is not a whole number of warps"):
        solve(loads(spec))


def test_sums_in_fp32_registers_are_not_promoted():
    with pytest.raises(InfeasibleSpec, match="are in FP32 registers already") as refused:
        solve(loads({"split": {"scheme": "fp32", "promote": 32}, "target": {"gpu": "a100"}}))
    assert refused.value.remedy == "promote = 0"


@pytest.mark.parametrize(("symbol", "better"), [
    ("intensity", 2.0), ("dram_bytes", 0.5), ("tlp", 2.0), ("shared_bytes", 0.5), ("group", 0.5), ("BM", 2.0), ("WM", 2.0),
])
def test_what_is_preferred_of_candidates_that_tie(symbol, better):
    """More for a byte, more threads and taller tiles; less traffic and less shared memory."""
    names = ("intensity", "dram_bytes", "tlp", "shared_bytes", "group", "BM", "WM", "resident_blocks", "warps", "partitions", "fetch_bytes", "stage_flops")
    known = {name: np.ones(2) for name in names} | {"amd": 0}
    known[symbol] = np.array([1.0, better])
    keys = [np.broadcast_to(key, 2) for key in portable.DESIGN.preference(known)]
    assert np.lexsort(tuple(reversed(keys)))[0] == 1


@pytest.mark.parametrize(("gpu", "shape"), [("a100", (16, 8, 16)), ("t4", (16, 8, 8)), ("mi210", (32, 32, 16)), ("rx9070xt", (16, 16, 16))])
def test_the_widest_fragment_along_k_is_taken(gpu, shape):
    assert solve(loads({"split": {"scheme": "ootomo"}, "target": {"gpu": gpu}})).fragment.shape == shape


def test_tiles_of_a_fallback_are_parts_of_the_main_kernels():
    """From 16 to 128 along m and n, the largest first, and of those the deepest."""
    found = list(fallback._extents(SimpleNamespace(block=(256, 96, 64))))
    assert found[:3] == [(128, 96, 32), (128, 96, 16), (128, 48, 32)] and found[-1] == (16, 16, 16) and {n for _, n, _ in found} == {96, 48, 32, 24, 16}


def test_promotion_that_a_warpgroup_hides():
    """A stage of FP16 words is 64 deep; of a k of 40 the interval halves until it is no longer than that."""
    ootomo = SCHEMES.get("ootomo")
    assert [hidden_promote(ootomo, None, k) for k in (4096, 64, 40, 8)] == [64, 64, 32, 16]
    assert hidden_promote(ootomo, (64, 64, 32), 4096) == 32


def test_bits_that_do_not_lie_together_are_terms_of_their_own():
    assert linear(((0, 1), (0, 2), (1, 0), (0, 4)), 1, "lane") == "(lane & 3) + (lane >> 3) * 4"


def test_decisions_in_words():
    told = {"1 stage": ("STAGES", 1), "3 stages": ("STAGES", 3), "1 slice of k": ("SPLIT_K", 1), "2 slices of k": ("SPLIT_K", 2),
            "block 128x64x32": ("BLOCK", (128, 64, 32)), "plain sums": ("SUMS", "plain"), "promote 0": ("PROMOTE", 0), "group 1": ("GROUP", 1)}
    assert [getattr(decisions, name).told(value) for name, value in told.values()] == list(told)


def test_what_decides_among_equals_is_told_by_its_equations():
    assert design_called("portable").order_told == "the largest T3 wins, then the least T13, the largest P1, the least R3"
    assert design_called("specialised").order_told == "the least W13 a FLOP wins, then the least W14 a FLOP, the least W21"
    assert design_called("thin").order_told.endswith("then the least D17, which device memory hides, then the most bytes on their way (D18)")


def test_the_sizes_that_a_design_is_weighed_at():
    """A side of up to 16; or as few multiply-adds as take about a launch, 2^26. Kernels of one tile for batches wait to be asked for."""
    def weighed(name, *sizes):
        return [design_called(name).suits(Hints(*size)) for size in sizes]

    assert weighed("thin", (16, 4096, 64), (4096, 16, 64), (17, 17, 16), (1, 1, 1)) == [True, True, False, True]
    assert weighed("straight", (16, 65536, 4096), (65536, 16, 4096), (17, 65536, 4096), (512, 512, 256), (512, 512, 257)) == [True, True, False, True, False]
    assert weighed("strided", (8, 8, 8)) == weighed("packed", (8192, 8192, 8192)) == [False] and weighed("portable", (8, 8, 8)) == [True]


@pytest.mark.parametrize("scheme, promote, told", [
    ("ootomo", 16, "every 16 k (ootomo's own)"), ("ootomo", 64, "every 64 k (ootomo's own: every 16 k)"), ("ootomo", 0, "never (ootomo's own: every 16 k)"),
    ("bf16x3", 0, "never (bf16x3's own)"), ("bf16x3", 32, "every 32 k (bf16x3's own: never)"),
])
def test_what_headers_tell_of_promotion(scheme, promote, told):
    """Beside what the scheme's authors do: Ootomo's kernels promote every instruction of 16 k, those of bfloat16 words none."""
    plan = plan_of(scheme=scheme, promote=promote)
    assert plan.promotion.promote_label == told and re.search(rf"^// promote +{re.escape(told)}$", render(plan).text, re.M)


# ---- readers


def test_two_kernels_of_one_cubin():
    """Each has its own count, whatever order the attributes are in."""
    symbols = [(0, 0, 0), (1, 0x12, 0x10), (3, 0x12, 0x10)]  # none; f; k, both entries
    table = b"".join(struct.pack("<IBBHQQ", name, info, other, 3, 0, 0) for name, info, other in symbols)
    read = read_cubin(elf([
        {"name": ".strtab", "type": 3, "data": b"\0f\0k\0"}, {"name": ".symtab", "type": 2, "data": table, "link": 1},
        {"name": ".text.f", "data": bytes(16), "flags": 6}, {"name": ".text.k", "data": bytes(32), "flags": 6},
        {"name": ".nv.info", "data": sized(0x2F, 2, 40) + sized(0x2F, 1, 77)},
    ]))
    assert {name: used.registers for name, used in read.items()} == {"f": 77, "k": 40}


def test_all_scratch_counts_as_spilled():
    """An array that missed its registers is in scratch, though no register was spilled."""
    used = CodeObjectResources(
        registers=64, static_shared_bytes=0, stack_bytes=0, code_bytes=64, agprs=0, sgprs=8, scratch_bytes=20, vgpr_spills=0, sgpr_spills=3,
        wavefront_size=64, max_flat_workgroup_size=256, kernarg_bytes=8, arguments=(),
    )
    assert used.spill_bytes == 20


def test_small_negative_numbers_of_messagepack():
    assert [msgpack.unpack(data) for data in (b"\xff", b"\xe0", b"\x7f", b"\x00")] == [-1, -32, 127, 0]


def test_maps_nested_in_keys_are_refused_before_they_are_deep():
    with pytest.raises(ValueError, match="nested deeper"):
        msgpack.unpack(b"\x81" * 5000 + b"\x00")


# ---- matrix units and their neighbours


def on_unit(unit: str, a: float, b: float, c: float) -> tuple[float, float]:
    """a b + c on a unit: by the definition of its rule, and by the way that is fast for many warps."""
    row, length = UNITS.get(unit), 8
    left, right = np.zeros((7, 16, length), np.float16), np.zeros((7, length, 8), np.float16)
    left[:, :, 3], right[:, 3, :] = a, b
    sums = np.full((7, 16, 8), c, np.float32)
    by_rule = units.dot(row, "f16", left[0, :1].astype(np.float32), right[0, :, :1].T.astype(np.float32), sums[0, :1, 0])
    fast = units.mma(row, "f16", left.view(np.uint16), right.view(np.uint16), sums)
    assert (fast == fast[0, 0, 0]).all()
    return float(by_rule[0]), float(fast[0, 0, 0])


def test_cdna3_cuts_the_last_sum_downwards():
    """1 + 2^-24 + 2^-32 has one bit more than the sum keeps: cut downwards, the positive one is a tie that falls to 1, and the
    negative one lies beyond the tie."""
    assert on_unit("cdna3", 2.0**-12 * (1 + 2.0**-8), 2.0**-12, 1.0) == (1.0, 1.0)
    assert on_unit("cdna3", -(2.0**-12) * (1 + 2.0**-8), 2.0**-12, -1.0) == (-1 - 2.0**-23,) * 2


def test_cdna1_rounds_a_long_sum_once():
    """2^12 + 2^-12 is a tie of FP32; 2^-48 more, which FP64 would lose, decides it."""
    a = np.zeros((1, 4), np.float32)
    a[0, :2] = 2.0**-6, 2.0**-24
    assert units.dot(UNITS.get("cdna1"), "f16", a, a, np.array([4096], np.float32))[0] == 4096 + 2.0**-11


def test_a_fused_multiply_add_near_a_tie():
    """(1 + 2^-23)(1 - 2^-23) of half a last place is 2^-46 of that below a tie of an odd number, on which FP64 would put the sum: at every exponent, and of
    numbers so small that they have fewer bits."""
    exponents = np.array([-149] * 3 + list(range(-149, 104)))  # of the last place
    odd = np.array([(1 << bits) + 1 for bits in (10, 16, 22)] + [(1 << 23) + 1] * 253)
    x, y = (np.ldexp(np.float32(1 + sign * 2.0**-23), half) for sign, half in ((1, (exponents - 1) // 2), (-1, exponents - 1 - (exponents - 1) // 2)))
    z = np.ldexp(odd.astype(np.float64), exponents).astype(np.float32)
    for sign, addend in ((1, z), (-1, z), (1, -z), (-1, -z)):
        for at in np.arange(len(odd))[:, None]:  # each alone: where one of an array is near a tie all are looked at again
            assert rounding.fma(sign * x[at], y[at], addend[at]) == addend[at], (sign, at)


def test_a_fused_multiply_add_of_float64_is_rounded_once():
    """Against exact fractions: sums that cancel, ties of float64 with a little more or less, the smallest and the largest numbers; and products of
    a little less than half a place above the largest number, which only an addend smaller than that half makes Inf."""
    rng = np.random.default_rng(0)
    x, y = (1 + rng.integers(-(2**26), 2**26, 200) * 2.0**-52 for _ in "xy")
    tie = np.exp2(rng.integers(52, 56, 200)) * (1 + rng.integers(0, 8, 200) * 2.0**-52)
    edges = np.array([0.0, -0.0, 1.0, -1.5, 5e-324, 1.7e308, 2.0**-450, -(2.0**-1022), 3.0])
    brim = np.array([1.0, -1.0]) * 7362754637984569 * 2.0**500, np.full(2, 5509462314285035 * 2.0**419), np.array([1.0, -1.0]) * 2.0**969
    for a, b, c in ((x, y, tie), (x, -y, tie), (x, y, -x * y), (x * 2.0**-500, y * 2.0**-540, x * 2.0**-1040), brim, np.array(np.meshgrid(edges, edges, edges)).reshape(3, -1)):
        with np.errstate(all="ignore"):
            found, rough = rounding.fma_f64(a, b, c), a * b + c
        for at, (one, other, third) in enumerate(zip(a.tolist(), b.tolist(), c.tolist())):
            exact = Fraction(one) * Fraction(other) + Fraction(third)
            try:
                right = exact.numerator / exact.denominator if exact else rough[at]  # of an exact zero the sign is that of IEEE 754
            except OverflowError:
                right = math.inf if exact > 0 else -math.inf
            assert struct.pack("d", found[at]) == struct.pack("d", right), (one, other, third)


def test_a_product_beyond_the_range_is_no_inf_before_it_is_added():
    """As an H200 has it: an Inf that finite factors are added to stays, whatever the product's sign; of two infinite terms NaN comes."""
    large, inf = np.array([2.0**600, 2.0**600, np.inf, np.inf]), np.array([-np.inf, np.inf, -np.inf, np.inf])
    with np.errstate(all="ignore"):
        found = rounding.fma_f64(large, large, inf)
    assert found[:2].tolist() == [-np.inf, np.inf] and np.isnan(found[2]) and found[3] == np.inf


def test_halves_of_bfloat16_go_to_the_even_word():
    x = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, -1 - 2.0**-8], np.float32)
    assert rounding.to_bf16(x, "rn").tolist() == [0x3F80, 0x3F82, 0x3F81, 0xBF80]


LDMATRIX = """
.version 9.5
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p_rows, .param .u64 p_words)
{
.reg .b32 %r<12>; .reg .b64 %rd<6>; .shared .align 16 .b8 tile[512];
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mad.lo.s32 %r1, %r0, 16, %r1;
ld.param.u64 %rd0, [p_rows]; mad.wide.u32 %rd1, %r0, 16, %rd0;
ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1]; st.shared.v4.b32 [%r1], {%r2, %r3, %r4, %r5};
bar.sync 0;
ldmatrix.sync.aligned.m8n8.x4TRANS.shared.b16 {%r6, %r7, %r8, %r9}, [%r1];
ld.param.u64 %rd2, [p_words]; mad.wide.u32 %rd3, %r0, 16, %rd2;
st.global.v4.b32 [%rd3], {%r6, %r7, %r8, %r9};
ret;
}
"""


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_a_lane_of_ldmatrix_holds_two_neighbours_of_a_row(trans):
    """Lane 4 g + t: row g, columns 2 t and 2 t + 1 of each matrix; or, turned, rows 2 t and 2 t + 1 of column g."""
    rows = np.arange(256, dtype=np.uint16)  # [matrix, row, column]
    with Emulator(LDMATRIX.replace("TRANS", trans), UNITS.get("ampere"), processes=1) as machine:
        source, words = machine.upload(rows, name="rows"), machine.alloc(512, name="words")
        machine.launch("k", (1, 1, 1), (32, 1, 1), 0, [source, words])
        got = machine.read(words, np.uint16, (32, 4, 2))
    for lane in range(32):
        g, t = lane // 4, lane % 4
        for matrix in range(4):
            pair = [64 * matrix + (8 * (2 * t + e) + g if trans else 8 * g + 2 * t + e) for e in (0, 1)]
            assert got[lane, matrix].tolist() == pair


# ---- running


class Recorder:
    """A device that keeps what it is given; `change` is what its last kernel does to C."""

    kind, clusters_at_once = "recorder", None

    def __init__(self, change=lambda flat: flat):
        self.change, self.buffers, self.launched, self.released = change, {}, [], 0

    def zeros(self, nbytes, name):
        return self.upload(np.zeros(nbytes, np.uint8), name)

    empty = zeros

    def upload(self, array, name, misalign=0):
        self.buffers[name] = array.copy()
        return name

    def launch(self, symbol, blocks, threads, shared_bytes, args, overlaps=False):
        self.launched.append((symbol, overlaps))
        self.last = blocks, threads, shared_bytes, args

    def download(self, buffer, dtype, count):
        return self.change(self.buffers["c"].copy()) if buffer == "c" else np.zeros(count, dtype)

    def seconds(self):
        return None

    def release(self):
        self.released += 1


def asked(device, layout="nn", way=None, k=4, **options):
    plan = plan_of(layout=layout, **(way or {}))
    lines = tuple(line for line in abi.interface(plan).launches[-1].lines if {"a", "c"} & {one.name for one in line.parameters})
    launches = tuple(
        abi.Launch(symbol, symbol, "", ((("m", 64), ("n", 64)),) if symbol == "gemm" else ((("m", 64), ("k", 64)),), 128, 0, lines,
               overlaps=symbol == "gemm") for symbol in ("split", "gemm")
    )
    a, b = np.arange(3 * k, dtype=np.float32).reshape(3, k), 100 + np.arange(2 * k, dtype=np.float32).reshape(k, 2)
    return gemm(device, plan, SimpleNamespace(interface=replace(abi.interface(plan), launches=launches)), a, b, **options), a, b


def test_operands_end_with_their_last_element_and_are_poison_between_rows():
    device = Recorder()
    _, a, _ = asked(device, placement=Placement((2, 0, 0)))
    stored = device.buffers["a"]
    assert stored.size == 2 * 6 + 4 and np.array_equal(np.append(stored, [0, 0]).reshape(3, 6)[:, :4], a)
    assert np.isnan(stored[[4, 5, 10, 11]]).all()


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_operands_are_stored_as_the_layout_says(layout):
    device = Recorder()
    _, a, b = asked(device, layout)
    assert np.array_equal(device.buffers["a"], (a if layout[0] == "n" else a.T).ravel())
    assert np.array_equal(device.buffers["b"], (b if layout[1] == "n" else b.T).ravel())


def test_c_that_is_not_given_is_nan():
    device = Recorder()
    asked(device)
    assert np.isnan(device.buffers["c"]).all() and device.buffers["c"].size == 6


def test_a_write_between_the_rows_of_c_is_told():
    def beside(flat):
        flat[2] = 7.0
        return flat

    assert asked(Recorder(), placement=Placement((0, 0, 1)))[0].intact
    assert not asked(Recorder(beside), placement=Placement((0, 0, 1)))[0].intact


def test_a_launch_overlaps_only_one_of_ours():
    """With k = 0 nothing is split, and what comes before the kernel is somebody else's."""
    for k, wanted in ((4, [("split", False), ("gemm", True)]), (0, [("gemm", False)])):
        device = Recorder()
        asked(device, k=k)
        assert device.launched == wanted


def test_blocks_that_stay_are_as_many_as_the_device_wants():
    """And memory is given back, whatever becomes of a launch."""
    kinds = {"blocks": "int", "alpha": "float", "c": "float"}
    line = abi.Line(tuple(abi.Parameter(name, kind, "", pointer=name == "c", argument=name) for name, kind in kinds.items()))
    stays = abi.Launch("k", "gemm", "", ((("m", 64), ("n", 64)),), 128, 1024, (line,), most_blocks=12, cluster=2)
    for wanted, at_once, blocks in ((640, None, 10), (6400, None, 12), (640, 3, 6), (128, 3, 2)):
        device = Recorder()
        device.clusters_at_once = at_once
        launch_all(device, SimpleNamespace(launches=(stays,)), {"m": wanted, "n": 64}, {"alpha": 0.1, "c": "c"}, {})
        assert device.last == (blocks, 128, 1024, [("int", blocks), ("float", float(np.float32(0.1))), ("pointer", "c")])
    assert converted("float", 1e300) == math.inf and converted("long long", 2.0**33) == 1 << 33 and type(converted("int", np.int64(3))) is int
    good, bad = Recorder(), Recorder()
    asked(good)
    bad.launch = None
    with pytest.raises(TypeError):
        asked(bad)
    assert good.released == bad.released == 1


def test_the_largest_extents_and_sums():
    """2^31 - 4097 elements, and no more; of integers what INT32 holds."""
    most = 2**31 - 4097
    for at in range(3):
        for more in (0, 1):
            m, n, k = (most + more if at == one else 1 for one in range(3))
            a, b = (np.broadcast_to(np.float32(0), shape) for shape in ((m, k), (k, n)))
            if more:
                with pytest.raises(SpecError, match="are too large") as caught:
                    check_extents(a, b, None)
                assert caught.value.got == (m, n, k)
            else:
                check_extents(a, b, None)
    plan = plan_of(scheme="mixpert2", promote=0)
    check_sums(plan, plan.scheme.family.largest_k)
    with pytest.raises(SpecError, match="too large a K"):
        check_sums(plan, plan.scheme.family.largest_k + 1)
    assert stored(np.zeros((1, 3, 0), np.float32), Placement(), 0)[1:] == (1, 3)
    check_apart(3, 5, 7, 19, 2)
    for stride in (18, -18):
        with pytest.raises(SpecError) as caught:
            check_apart(3, 5, 7, stride, 2)
        assert caught.value.remedy == "stride_c = 21"


def test_what_the_emulator_is_asked_as_a_device():
    """A stand-in for the machine: launches, memory, conflicts of several launches, the schedule of the next one."""
    asked_for = []

    def machine():
        return SimpleNamespace(
            launch=lambda *args, **options: asked_for.append((args, options)) or SimpleNamespace(conflict_sites={"here": 2, "there": len(asked_for)}),
            alloc=lambda nbytes, **options: (nbytes, options), forget=lambda: asked_for.append("forget"),
        )

    amd, nvidia, slices = (EmulatorDevice(plan_of(gpu=gpu, split_k=split_k), None, None) for gpu, split_k in (("mi300x", 1), ("a100", 1), ("a100", 3)))
    assert (nvidia.clusters_at_once, slices.clusters_at_once) == (2, 5)
    assert amd.not_modelled == () and nvidia.not_modelled == NOT_MODELLED
    assert (amd.facts()["wavefront_size"], nvidia.facts()["wavefront_size"]) == (64, 32)
    nvidia.release()  # of a machine that nobody has made yet
    nvidia._emulator = machine()
    assert nvidia.zeros(8, "z") == (8, {"name": "z", "fill": 0}) and nvidia.empty(8, "e") == (8, {"name": "e"})
    nvidia.launch("k", 3, 64, 512, [("int", 5), ("pointer", "x")])
    nvidia.set_schedule(LAZY_HIGHEST)
    nvidia.launch("k", 3, 64, 512, [], True)
    nvidia.release()
    assert asked_for == [
        (("k", (3, 1, 1), (64, 1, 1), 512, [5, "x"]), {"progress": None}),
        (("k", (3, 1, 1), (64, 1, 1), 512, []), {"progress": None, "overlaps": True}), "forget",
    ]
    assert nvidia.emulator.schedule is LAZY_HIGHEST and nvidia.conflicts == {"here": 4, "there": 3}


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(SpecError, match="is not a matrix of float32"):
        check_extents(np.zeros((3, 4)), np.zeros((4, 2), np.float32), None)
    a, b, c = (np.zeros(shape, np.float32) for shape in ((3, 4), (5, 2), (3, 2)))
    for operands in ((a, b), (a, b[:4], c[:2])):
        with pytest.raises(SpecError, match="do not fit"):
            gemm(Recorder(), plan_of(), SimpleNamespace(launches=()), *operands)


# ---- judging


def test_the_four_figures():
    c, reference, magnitude = (np.array([x]) for x in ([3.0, -1.0], [2.0, -4.0], [10.0, 4.0]))
    found = errors(c, reference, magnitude)
    assert found.relative_frobenius == pytest.approx(math.sqrt(10 / 20))
    assert found.max_error == pytest.approx(3 / 5) and found.mred == pytest.approx((1 / 2 + 3 / 4) / 2) and found.scaled == pytest.approx(3 / 4)


def test_the_worst_case_of_a_split():
    """Two words to nearest leave 2^-22 of an element, and the dropped product of two low words, each below 2^-11, is below 2^-22."""
    assert split_worst(SCHEMES.get("ootomo")) == pytest.approx(2 * 2.0**-22 + 2.0**-44 + 2.0**-22)
    assert split_worst(SCHEMES.get("ootomo4")) == pytest.approx(2 * 2.0**-22 + 2.0**-44)


def test_the_worst_case_of_a_sum():
    """64 k by sixteen at once are four steps, of three products each; each loses an ulp of FP32 and 17 terms' last bits."""
    known = predicted(SCHEMES.get("scaled"), GPUS.get("h100").unit, 64, 0).numbers
    assert known["steps"] == 12 and SUM_WORST.value(known) == 3 * 4 * (2.0**-23 + 17 * 2.0**-25)
    known = predicted(SCHEMES.get("scaled"), GPUS.get("h100").unit, 64, 16).numbers
    assert known["chunks"] == 4 and SUM_WORST.value(known) == 3 * (2.0**-23 + 17 * 2.0**-25) + 4 * 2.0**-24 * known["reach"]


def test_questions_fill_every_stage_again_and_promote_twice():
    for way in ({}, dict(stages=3), dict(promote=128), dict(SMALL_GROUPS)):
        plan = plan_of(**way)
        assert oracles.wrapping_k(plan) >= 2 * plan.stages * plan.block[2] + 2 * plan.promote


# ---- tables and the command line


def test_a_row_of_the_bench():
    entries = [
        Timed(SGEMM, "rival", np.array([4.0, 4.0, 8.0])), Timed(F16, "rival", np.array([1.0, 1.0, 1.0])),
        Timed("mine", "kernel", np.array([2.0, 1.0, 2.0]), samples=[Sample(1500, 600.0, 4), Sample(1700, 500.0, 0), Sample(1600, 400.0, 8)]),
    ]
    row = rows_at((1000, 2000, 500), entries)[2]
    assert row.seconds == 2.0 and row.tflops == pytest.approx(2 * 1e9 / 2 / 1e12)
    assert row.ratio == 4.0 and row.f16_ratio == 1.5 and (row.clock_mhz, row.power_w) == (1600, 500)
    lone = [replace(entries[2], samples=[sample]) for sample in (Sample(1500, 600.0, 4), Sample(1600, 400.0, 8))]
    named = [rows_at((1, 1, 1), [entry])[0].throttles for entry in lone]
    assert all(name and name in row.throttles for name in named)


def test_a_ratio_is_the_median_of_the_rounds_and_not_that_of_medians():
    """Each round is its own comparison: 4, 1/2 and 1/2 times as fast."""
    assert paired(np.array([4.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0]))[0] == 0.5


def test_several_specs_end_with_the_worst_code():
    from gemmgen.cli.verb import for_each

    codes = {Path("a"): 0, Path("b"): 2, Path("c"): 1, Path("d"): 0}
    assert for_each(list(codes), True, lambda path: ("", {}, codes[path])) == 2


@pytest.mark.parametrize(("gpu", "fixed", "found"), [
    ("a100", {}, [("prepass", "async"), ("shared", "spread"), ("register", "async")]),
    ("t4", {}, [("prepass", "spread"), ("shared", "spread")]),
    ("a100", {"where": "shared"}, [("shared", "spread")]),
    ("a100", {"loads": "grouped"}, [("prepass", "grouped"), ("shared", "grouped")]),
    ("t4", {"where": "register"}, [("register", "async")]),
])
def test_ways_that_a_spec_leaves_open_are_those_worth_a_search(gpu, fixed, found):
    """Copies past the registers where the GPU has them, else spread loads; a way that the GPU lacks stands for its refusal."""
    ways = design_called("portable")._copied_ways(SimpleNamespace(fixed=fixed, gpu=GPUS.get(gpu)))
    assert [(way.where, way.loads) for way in ways] == found


@pytest.mark.parametrize("names", ["a", "ab"])
def test_what_a_person_reads_fits_the_terminal_and_source_stays(names, monkeypatch, capsys):
    from gemmgen.cli import output
    from gemmgen.cli.verb import for_each

    monkeypatch.setattr(output, "columns", lambda: 20)
    for how, told in (({}, "one two three four\n  five"), ({"as_is": True}, "one two three four five")):
        for_each([Path(name) for name in names], False, lambda path: ("one two three four five", {}, 0), **how)
        assert capsys.readouterr().out == f"{told}\n" * len(names)


def test_json_has_no_nan():
    assert json.loads(json_text({"x": [math.nan, 1.5, math.inf], "y": (-math.inf, "NaN")})) == {"x": [None, 1.5, None], "y": [None, "NaN"]}


def test_what_is_no_file_stays(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GemmgenError, match="is not a regular file"):
        write_paths({tmp_path / "pipe": "text"})
    assert (tmp_path / "pipe").is_fifo() and os.listdir(tmp_path) == ["pipe"]


def test_sizes_of_one_and_of_three_extents():
    assert problem_sizes("1024,4096x512x64 7") == [(1024,) * 3, (4096, 512, 64), (7, 7, 7)]


def test_a_stage_is_unrolled_while_its_registers_are_few():
    """Three quarters of a thread's share on AMD, all steps' fragments counted; 192 elsewhere, or where A is split behind shared memory that share, if it is less."""
    def unrolled(**more):
        known = dict(fragment_buffers=1, spread=0, WK=64, BK=64, FK=16, amd=0, accumulator_registers=128, fragment_registers=63, split_register=0,
                     registers_per_thread=512, registers_per_sm=131072, threads=256) | more
        return registers.UNROLLED.value(known | {"unroll_share": registers.SHARE.value(known)})

    assert registers.SHARE.value({"registers_per_sm": 131072, "threads": 256}) == 384 and registers.SHARE.value({"registers_per_sm": 65536, "threads": 500}) == 98
    assert [unrolled(fragment_registers=count) for count in (63, 64)] == [1, 0]
    assert [unrolled(fragment_registers=count, split_register=1, threads=1024) for count in (63, 0)] == [0, 0]  # of 96
    assert [unrolled(accumulator_registers=count, fragment_registers=0, split_register=1, threads=1024) for count in (95, 96)] == [1, 0]
    assert [unrolled(amd=1, accumulator_registers=count) for count in (131, 132)] == [1, 0]  # four steps' fragments beside them are 383 and 384
    assert [unrolled(amd=1, accumulator_registers=count, registers_per_thread=256, fragment_registers=0) for count in (191, 192)] == [1, 0]
    assert unrolled(WK=32) == 0 and unrolled(WK=32, fragment_buffers=2) == 1 == unrolled(WK=32, spread=1)
    guards = {(64, 0, 0, 1): 0, (96, 0, 0, 1): 12, (64, 0, 1, 2): 12, (64, 0, 0, 2): 0, (64, 32, 0, 1): 24, (96, 32, 0, 1): 60}
    assert {one: registers.UNEVEN.value(dict(zip(("WM", "tile_k", "held", "fragment_buffers"), one), WN=64, run=0)) for one in guards} == guards


@pytest.mark.parametrize(("gpu", "held"), [("rx9070xt", 4), ("rx7900xtx", 4), ("mi300x", 1), ("a100", 1)])
def test_integer_sums_of_a_tile_of_k_are_held_on_rdna(gpu, held):
    """R4: three integer sums and the one that they become, where clang holds them all; else the last alone, as the tile is an instruction's."""
    plan = road.plan({"problem": dict.fromkeys("mnk", 4096), "split": {"scheme": "mixpert1_tile"}, "target": {"gpu": gpu}})
    assert plan.model["accumulators"] == held
    assert held == 1 or 4 * plan.warp[0] * plan.warp[1] // 32 + 48 <= 256


def test_lists_of_a_schema_are_as_deep_as_the_deepest_of_its_choices():
    from gemmgen.workshop.explore.studies import _depth_of_schema

    numbers = {"type": "array", "items": {"type": "integer"}}
    known = {"Pairs": {"type": "array", "items": numbers}}
    for schema, depth in ((({"type": "integer"}), 0), (numbers, 1), ({"$ref": "#/$defs/Pairs"}, 2), ({"anyOf": [numbers, {"$ref": "#/$defs/Pairs"}]}, 2),
                          ({"type": "array", "items": {"$ref": "#/$defs/Pairs"}}, 3), ({"type": "array"}, 1)):
        assert _depth_of_schema(schema, known) == depth
