"""What moves: FLOPs, and bytes through shared memory, L2 and device memory."""

from __future__ import annotations

from gemmgen.model.equation import Equation

STAGE_FLOPS = Equation(
    "T1", "stage_flops", "2 * BM * BN * BK * products", "FLOP a block and stage",
    "EGEMM eq. 3 and LE-GEMM eq. 14, for any number of word products",
)
MOVED_BYTES = Equation(
    "T15", "moved_bytes", "where(split_shared + split_register > 0, 4, words * word_bytes)", "B",
    "an element on its way from L2: its words, or FP32 that the kernel splits itself",
)
STAGE_BYTES = Equation(
    "T2", "stage_bytes", "(BM + BN) * BK * moved_bytes", "B a block and stage", "EGEMM eq. 2 and LE-GEMM eq. 13",
)
INTENSITY = Equation(
    "T3", "intensity", "stage_flops / stage_bytes", "FLOP a byte of L2", "EGEMM eq. 4 and LE-GEMM eq. 15",
)
FETCH_BYTES = Equation(
    "T4", "fetch_bytes", "warps * where(uncached > 0, products * word_bytes * (a_lanes * WM + b_lanes * WN),"
    " a_lanes * WM * element_bytes + b_lanes * WN * b_element_bytes) * BK + where(uncached > 1, 8 * sums * BM * BN * BK / FK, 0)", "B a block and stage",
    "EGEMM eq. 7's traffic, shared memory to registers: a fragment is fetched once and serves every product, in as many lanes as hold it; or, not cached"
    " (EGEMM Table 2), once for each product, and where the sums are not either, those come and go with every instruction's k (EGEMM eq. 1)",
)
UNSWIZZLED_WAYS = Equation(
    "T5", "unswizzled_ways", "min(shared_banks / 4, BK * word_bytes / 16)", "accesses a phase",
    "as many neighbouring rows as the banks hold 16-byte chunks would start in so few banks; the swizzle makes it 1",
)
TILES = Equation("T6", "tiles", "batch * ceil(M / BM) * ceil(N / BN)", "tiles of C", "edges are padded; of all products of a batch")
BLOCKS = Equation("T16", "blocks", "tiles * split_k", "blocks", "a block computes one tile of C, or a slice of k of it")
STAGES_K = Equation("T7", "stages_k", "ceil(ceil(K / BK) / split_k)", "stages a block", "k is padded to whole stages, and to slices of as many")
L2_BYTES = Equation("T8", "l2_bytes", "blocks * stages_k * stage_bytes", "B", "every stage is read through L2")
WAVE_ROWS = Equation(
    "T9", "wave_rows", "min(group, ceil(M / BM))", "block rows", "blocks walk down `group` rows before they move on",
)
WAVE_COLUMNS = Equation(
    "T10", "wave_columns", "min(ceil(sms * resident_blocks / wave_rows), ceil(N / BN))", "block columns",
    "the blocks at work together",
)
WAVES = Equation("T11", "waves", "ceil(blocks / max(sms * resident_blocks, 1))", "waves", "all SMs work off their resident blocks")
PLANE_BYTES = Equation(
    "T12", "plane_bytes", "(M + N) * K * moved_bytes", "B", "both operands, as the kernel reads them",
)
DRAM_BYTES = Equation(
    "T13", "dram_bytes",
    "4 * M * N + where(plane_bytes + 4 * M * N <= l2_size, 0,"
    " max(plane_bytes, waves * (wave_rows * BM + wave_columns * BN) * K * moved_bytes))",
    "B", "C once; operands once a wave, unless L2 still holds them from the split",
)
SPLIT_BYTES = Equation(
    "T14", "split_bytes", "where(split_shared + split_register > 0, 0,"
    " K * (M * (4 * split_reads + words_a * word_bytes) + N * (b_bytes * split_reads + words_b * word_bytes)))", "B",
    "elements in (twice where rows are scaled: their maxima come first), words out",
)
TLP = Equation(
    "P1", "tlp", "tiles * threads", "threads", "LE-GEMM eq. 12, with phi counting a block's warps as the authors' code does",
)
"""Together with intensity (T3) the two that LE-GEMM maximises and that pull apart."""

BLOCK_EQUATIONS = (STAGE_FLOPS, MOVED_BYTES, STAGE_BYTES, INTENSITY, FETCH_BYTES, UNSWIZZLED_WAYS)
PROBLEM_EQUATIONS = (TILES, BLOCKS, STAGES_K, L2_BYTES, WAVE_ROWS, WAVE_COLUMNS, WAVES, PLANE_BYTES, DRAM_BYTES, SPLIT_BYTES)
