"""Built by bench/lambdify.py, do not edit: the model's forms as SymPy's lambdify writes them, by form."""

# ruff: noqa
from gemmgen.model.notation import FUNCTIONS

ceil, floor, max, min, sqrt, where = (FUNCTIONS[name] for name in ("ceil", "floor", "max", "min", "sqrt", "where"))

CODE = {
    # W36
    "(BM / WM) * (BN / WN)": (
        lambda BM, WM, BN, WN: BM / WM * (BN / WN)
    ),
    # R2
    "warps * warp_size": (
        lambda warps, warp_size: warps * warp_size
    ),
    # T6
    "batch * ceil(M / BM) * ceil(N / BN)": (
        lambda batch, M, BM, N, BN: batch * ceil(M / BM) * ceil(N / BN)
    ),
    # R14
    "where(split_register > 0, 4, words_a * word_bytes)": (
        lambda split_register, words_a, word_bytes: where(split_register > 0, 4, words_a * word_bytes)
    ),
    # R15
    "where(split_register > 0, 4, words_b * word_bytes)": (
        lambda split_register, words_b, word_bytes: where(split_register > 0, 4, words_b * word_bytes)
    ),
    # R16
    "where(split_register > 0, 0, padding) + where(padded > 0, min(16, BK * word_bytes / 8), 0)": (
        lambda split_register, padding, padded, BK, word_bytes: where(split_register > 0, 0, padding) + where(padded > 0, min(16, BK * word_bytes /
        8), 0)
    ),
    # R3
    (
    "stages * (BM * (BK * element_bytes + words_a * row_padding) + BN * (BK * b_element_bytes + words_b * row_padding) + (BM + BN) * where(tile_k >"
    " 0, 4 * BK // max(tile_k, 1), 0)) + where(uncached > 1, 4 * sums * BM * BN, 0)"): (
        lambda stages, BM, BK, element_bytes, words_a, row_padding, BN, b_element_bytes, words_b, tile_k, uncached, sums: stages * (BM * (BK *
        element_bytes + words_a * row_padding) + BN * (BK * b_element_bytes + words_b * row_padding) + (BM + BN) * where(tile_k > 0, floor(4 * BK /
        max(tile_k, 1)), 0)) + where(uncached > 1, 4 * sums * BM * BN, 0)
    ),
    # R4
    "where((tile_k == FK) & ((amd == 0) | (warp_size > 32)), 0, sums) + where(tile_k > 0, 1, where(promote > FK, promoted_sums, 0))": (
        lambda tile_k, FK, amd, warp_size, sums, promote, promoted_sums: where((tile_k == FK) & ((amd == 0) | (warp_size > 32)), 0, sums) +
        where(tile_k > 0, 1, where(promote > FK, promoted_sums, 0))
    ),
    # R5
    "accumulators * WM * WN / warp_size": (
        lambda accumulators, WM, WN, warp_size: accumulators * WM * WN / warp_size
    ),
    # R6
    "fragment_buffers * (words_a * a_copies * WM + words_b * b_copies * WN) * FK * word_bytes / (4 * warp_size)": (
        lambda fragment_buffers, words_a, a_copies, WM, words_b, b_copies, WN, FK, word_bytes, warp_size: fragment_buffers * (words_a * a_copies * WM
        + words_b * b_copies * WN) * FK * word_bytes / (4 * warp_size)
    ),
    # G1
    "where(uncached > 0, 1, words_a) * a_lanes * WM * FK * word_bytes / (4 * warp_size)": (
        lambda uncached, words_a, a_lanes, WM, FK, word_bytes, warp_size: where(uncached > 0, 1, words_a) * a_lanes * WM * FK * word_bytes / (4 *
        warp_size)
    ),
    # G2
    "where(uncached > 0, 1, words_b) * b_lanes * WN * FK * word_bytes / (4 * warp_size)": (
        lambda uncached, words_b, b_lanes, WN, FK, word_bytes, warp_size: where(uncached > 0, 1, words_b) * b_lanes * WN * FK * word_bytes / (4 *
        warp_size)
    ),
    # G32
    "where(uncached > 0, 1, words)": (
        lambda uncached, words: where(uncached > 0, 1, words)
    ),
    # G28
    "floor(0.75 * registers_per_sm / threads)": (
        lambda registers_per_sm, threads: floor(0.75 * registers_per_sm / threads)
    ),
    # F1
    "where((fragment_buffers > 1) | (spread > 0), 1, 0)": (
        lambda fragment_buffers, spread: where((fragment_buffers > 1) | (spread > 0), 1, 0)
    ),
    # G3
    "where(split_register > 0, 4, where(split_shared > 0, 3, where(fragment_buffers > 1, 2, where(BK > FK, unrolled, 0))))": (
        lambda split_register, split_shared, fragment_buffers, BK, FK, unrolled: where(split_register > 0, 4, where(split_shared > 0, 3,
        where(fragment_buffers > 1, 2, where(BK > FK, unrolled, 0))))
    ),
    # G4
    "min(a_fragments, b_fragments)": (
        lambda a_fragments, b_fragments: min(a_fragments, b_fragments)
    ),
    # G5
    "max(a_fragments, b_fragments)": (
        lambda a_fragments, b_fragments: max(a_fragments, b_fragments)
    ),
    # G6
    "promoted_sums * WM * WN / warp_size": (
        lambda promoted_sums, WM, WN, warp_size: promoted_sums * WM * WN / warp_size
    ),
    # G7
    "where((promote > FK) & (promote == BK), unit_sums, 0)": (
        lambda promote, FK, BK, unit_sums: where((promote > FK) & (promote == BK), unit_sums, 0)
    ),
    # G8
    "where((promote == FK) | (tile_k == FK), 1, 0)": (
        lambda promote, FK, tile_k: where((promote == FK) | (tile_k == FK), 1, 0)
    ),
    # G9
    "at_once * unit_sums": (
        lambda at_once, unit_sums: at_once * unit_sums
    ),
    # G10
    "BK / FK": (
        lambda BK, FK: BK / FK
    ),
    # G11
    "where(BK == FK, 1, 0)": (
        lambda BK, FK: where(BK == FK, 1, 0)
    ),
    # G12
    "where(promote > FK, 1, 0)": (
        lambda promote, FK: where(promote > FK, 1, 0)
    ),
    # G13
    "shallow * promotes": (
        lambda shallow, promotes: shallow * promotes
    ),
    # G29
    (
    "where(split_register > 0, where(a_strided > 0, BM / 32 * ceil(BK / max(1, floor(threads / 8))), ceil(BM / max(1, floor(4 * threads / BK)))), "
    "ceil(BM * BK * word_bytes * where(split_shared > 0, 1, words_a) / (16 * threads)))"): (
        lambda split_register, a_strided, BM, BK, threads, word_bytes, split_shared, words_a: where(split_register > 0, where(a_strided > 0, BM / 32 *
        ceil(BK / max(1, floor(threads / 8))), ceil(BM / max(1, floor(4 * threads / BK)))), ceil(BM * BK * word_bytes * where(split_shared > 0, 1,
        words_a) / (16 * threads)))
    ),
    # G30
    (
    "where(split_register > 0, where(b_strided > 0, BN / 32 * ceil(BK / max(1, floor(threads / 8))), ceil(BN / max(1, floor(4 * threads / BK)))), "
    "ceil(BN * BK * word_bytes * where(split_shared > 0, 1, words_b) / (16 * threads)))"): (
        lambda split_register, b_strided, BN, BK, threads, word_bytes, split_shared, words_b: where(split_register > 0, where(b_strided > 0, BN / 32 *
        ceil(BK / max(1, floor(threads / 8))), ceil(BN / max(1, floor(4 * threads / BK)))), ceil(BN * BK * word_bytes * where(split_shared > 0, 1,
        words_b) / (16 * threads)))
    ),
    # G18
    "held * (a_parts + b_parts) * where(split_shared > 0, 16 / word_bytes, 4)": (
        lambda held, a_parts, b_parts, split_shared, word_bytes: held * (a_parts + b_parts) * where(split_shared > 0, 16 / word_bytes, 4)
    ),
    # G19
    "where(split_k > 1, 1, 0)": (
        lambda split_k: where(split_k > 1, 1, 0)
    ),
    # G20
    "where(fragment_buffers > 1, a_fragments + b_fragments, 0)": (
        lambda fragment_buffers, a_fragments, b_fragments: where(fragment_buffers > 1, a_fragments + b_fragments, 0)
    ),
    # G21
    "split_shared * (a_strided + b_strided) + split_register * (a_strided * WM + b_strided * WN) * FK / warp_size": (
        lambda split_shared, a_strided, b_strided, split_register, WM, WN, FK, warp_size: split_shared * (a_strided + b_strided) + split_register *
        (a_strided * WM + b_strided * WN) * FK / warp_size
    ),
    # G25
    "amd * unrolled * where(fragment_buffers > 1, 0, max(0, BK / FK - 1) * fragment_registers)": (
        lambda amd, unrolled, fragment_buffers, BK, FK, fragment_registers: amd * unrolled * where(fragment_buffers > 1, 0, max(0, BK / FK - 1) *
        fragment_registers)
    ),
    # G26
    "rings * where(stages > 2, 1, 0)": (
        lambda rings, stages: rings * where(stages > 2, 1, 0)
    ),
    # G31
    (
    "where(tile_k > 0, where((tile_k == FK) & ((amd == 0) | (warp_size > 32)), where(amd > 0, WM * WN * where(unrolled > 0, BK / FK, 1), 2 * FM * "
    "FN) * sums / warp_size, 0) + fragment_buffers * (WM / FM * c_rows + WN / FN * c_columns), 0)"): (
        lambda tile_k, FK, amd, warp_size, WM, WN, unrolled, BK, FM, FN, sums, fragment_buffers, c_rows, c_columns: where(tile_k > 0, where((tile_k ==
        FK) & ((amd == 0) | (warp_size > 32)), where(amd > 0, WM * WN * where(unrolled > 0, BK / FK, 1), 2 * FM * FN) * sums / warp_size, 0) +
        fragment_buffers * (WM / FM * c_rows + WN / FN * c_columns), 0)
    ),
    # G33
    "where(run > 0, amd * 1.7 * WM * WN / warp_size, 0)": (
        lambda run, amd, WM, WN, warp_size: where(run > 0, amd * 1.7 * WM * WN / warp_size, 0)
    ),
    # G27
    "promotes * unit_sums": (
        lambda promotes, unit_sums: promotes * unit_sums
    ),
    # G14
    (
    "per_sum * accumulator_registers + per_narrow * narrow + per_wide * wide + per_word * held_words + per_short_sum * short_sums + when_at_once * "
    "at_once + per_at_once_sum * at_once_sums + per_step * steps + when_shallow * shallow + when_promoting * promotes + when_both * "
    "shallow_promotes + per_staged * staged + when_sliced * sliced + per_second * second + per_strided * strided + per_hoisted * hoisted + "
    "when_ring * ring + tile_sums + run_sums + generation"): (
        lambda per_sum, accumulator_registers, per_narrow, narrow, per_wide, wide, per_word, held_words, per_short_sum, short_sums, when_at_once,
        at_once, per_at_once_sum, at_once_sums, per_step, steps, when_shallow, shallow, when_promoting, promotes, when_both, shallow_promotes,
        per_staged, staged, when_sliced, sliced, per_second, second, per_strided, strided, per_hoisted, hoisted, when_ring, ring, tile_sums, run_sums,
        generation: per_sum * accumulator_registers + per_narrow * narrow + per_wide * wide + per_word * held_words + per_short_sum * short_sums +
        when_at_once * at_once + per_at_once_sum * at_once_sums + per_step * steps + when_shallow * shallow + when_promoting * promotes + when_both *
        shallow_promotes + per_staged * staged + when_sliced * sliced + per_second * second + per_strided * strided + per_hoisted * hoisted +
        when_ring * ring + tile_sums + run_sums + generation
    ),
    # G15
    (
    "min(registers_per_thread, register_allocation_unit / warp_size * floor(registers_per_sm / (partitions * ceil(warps / partitions)) / "
    "register_allocation_unit))"): (
        lambda registers_per_thread, register_allocation_unit, warp_size, registers_per_sm, partitions, warps: min(registers_per_thread,
        register_allocation_unit / warp_size * floor(registers_per_sm / (partitions * ceil(warps / partitions)) / register_allocation_unit))
    ),
    # F2
    (
    "max(1, floor(partitions * floor(registers_per_sm / partitions / (register_allocation_unit * ceil(max(1, demand) * warp_size / "
    "register_allocation_unit))) / warps))"): (
        lambda partitions, registers_per_sm, register_allocation_unit, demand, warp_size, warps: max(1, floor(partitions * floor(registers_per_sm /
        partitions / (register_allocation_unit * ceil(max(1, demand) * warp_size / register_allocation_unit))) / warps))
    ),
    # F3
    (
    "register_allocation_unit / warp_size * floor(registers_per_sm / partitions / (register_allocation_unit * ceil(meant_blocks * warps / "
    "partitions)))"): (
        lambda register_allocation_unit, warp_size, registers_per_sm, partitions, meant_blocks, warps: register_allocation_unit / warp_size *
        floor(registers_per_sm / partitions / (register_allocation_unit * ceil(meant_blocks * warps / partitions)))
    ),
    # F4
    "min(register_budget, min(granted, ceil(demand) + ahead))": (
        lambda register_budget, granted, demand, ahead: min(register_budget, min(granted, ceil(demand) + ahead))
    ),
    # G17
    (
    "where((256 % WM == 0) & (256 % WN == 0), 0, where(tile_k + run > 0, 3, 1) * 12) + where(held * fragment_buffers > 1, 12, 0) + where(tile_k > "
    "0, 24, 0)"): (
        lambda WM, WN, tile_k, run, held, fragment_buffers: where((256 % WM == 0) & (256 % WN == 0), 0, where(tile_k + run > 0, 3, 1) * 12) +
        where(held * fragment_buffers > 1, 12, 0) + where(tile_k > 0, 24, 0)
    ),
    # R7
    "register_allocation_unit * ceil(registers * warp_size / register_allocation_unit)": (
        lambda register_allocation_unit, registers, warp_size: register_allocation_unit * ceil(registers * warp_size / register_allocation_unit)
    ),
    # R8
    (
    "where((registers_per_warp * partitions * ceil(warps / partitions) > registers_per_sm) | (registers > register_encoding), 0, floor(partitions *"
    " floor(registers_per_sm / partitions / max(registers_per_warp, 1)) / warps))"): (
        lambda registers_per_warp, partitions, warps, registers_per_sm, registers, register_encoding: where((registers_per_warp * partitions *
        ceil(warps / partitions) > registers_per_sm) | (registers > register_encoding), 0, floor(partitions * floor(registers_per_sm / partitions /
        max(registers_per_warp, 1)) / warps))
    ),
    # R9
    "shared_allocation_unit * ceil((shared_bytes + shared_bytes_reserved_per_block) / shared_allocation_unit)": (
        lambda shared_allocation_unit, shared_bytes, shared_bytes_reserved_per_block: shared_allocation_unit * ceil((shared_bytes +
        shared_bytes_reserved_per_block) / shared_allocation_unit)
    ),
    # R10
    "where(shared_allocated > shared_bytes_per_block + shared_bytes_reserved_per_block, 0, floor(shared_bytes_per_sm / max(shared_allocated, 1)))": (
        lambda shared_allocated, shared_bytes_per_block, shared_bytes_reserved_per_block, shared_bytes_per_sm: where(shared_allocated >
        shared_bytes_per_block + shared_bytes_reserved_per_block, 0, floor(shared_bytes_per_sm / max(shared_allocated, 1)))
    ),
    # R11
    "where(threads > threads_per_block, 0, floor(floor(threads_per_sm / warp_size) / warps))": (
        lambda threads, threads_per_block, threads_per_sm, warp_size, warps: where(threads > threads_per_block, 0, floor(floor(threads_per_sm /
        warp_size) / warps))
    ),
    # R12
    "min(blocks_per_sm, blocks_by_threads, blocks_by_registers, blocks_by_shared)": (
        lambda blocks_per_sm, blocks_by_threads, blocks_by_registers, blocks_by_shared: min(blocks_per_sm, blocks_by_threads, blocks_by_registers,
        blocks_by_shared)
    ),
    # R13
    "resident_blocks * warps * warp_size / threads_per_sm": (
        lambda resident_blocks, warps, warp_size, threads_per_sm: resident_blocks * warps * warp_size / threads_per_sm
    ),
    # T1
    "2 * BM * BN * BK * products": (
        lambda BM, BN, BK, products: 2 * BM * BN * BK * products
    ),
    # T15
    "where(split_shared + split_register > 0, 4, words * word_bytes)": (
        lambda split_shared, split_register, words, word_bytes: where(split_shared + split_register > 0, 4, words * word_bytes)
    ),
    # T2
    "(BM + BN) * BK * moved_bytes": (
        lambda BM, BN, BK, moved_bytes: (BM + BN) * BK * moved_bytes
    ),
    # W12
    "stage_flops / stage_bytes": (
        lambda stage_flops, stage_bytes: stage_flops / stage_bytes
    ),
    # T4
    (
    "warps * where(uncached > 0, products * word_bytes * (a_lanes * WM + b_lanes * WN), a_lanes * WM * element_bytes + b_lanes * WN * "
    "b_element_bytes) * BK + where(uncached > 1, 8 * sums * BM * BN * BK / FK, 0)"): (
        lambda warps, uncached, products, word_bytes, a_lanes, WM, b_lanes, WN, element_bytes, b_element_bytes, BK, sums, BM, BN, FK: warps *
        where(uncached > 0, products * word_bytes * (a_lanes * WM + b_lanes * WN), a_lanes * WM * element_bytes + b_lanes * WN * b_element_bytes) * BK
        + where(uncached > 1, 8 * sums * BM * BN * BK / FK, 0)
    ),
    # T5
    "min(shared_banks / 4, BK * word_bytes / 16)": (
        lambda shared_banks, BK, word_bytes: min(shared_banks / 4, BK * word_bytes / 16)
    ),
    # K5
    "tiles * split_k": (
        lambda tiles, split_k: tiles * split_k
    ),
    # T7
    "ceil(ceil(K / BK) / split_k)": (
        lambda K, BK, split_k: ceil(ceil(K / BK) / split_k)
    ),
    # T8
    "blocks * stages_k * stage_bytes": (
        lambda blocks, stages_k, stage_bytes: blocks * stages_k * stage_bytes
    ),
    # T9
    "min(group, ceil(M / BM))": (
        lambda group, M, BM: min(group, ceil(M / BM))
    ),
    # T10
    "min(ceil(sms * resident_blocks / wave_rows), ceil(N / BN))": (
        lambda sms, resident_blocks, wave_rows, N, BN: min(ceil(sms * resident_blocks / wave_rows), ceil(N / BN))
    ),
    # T11
    "ceil(blocks / max(sms * resident_blocks, 1))": (
        lambda blocks, sms, resident_blocks: ceil(blocks / max(sms * resident_blocks, 1))
    ),
    # T12
    "(M + N) * K * moved_bytes": (
        lambda M, N, K, moved_bytes: (M + N) * K * moved_bytes
    ),
    # T13
    "4 * M * N + where(plane_bytes + 4 * M * N <= l2_size, 0, max(plane_bytes, waves * (wave_rows * BM + wave_columns * BN) * K * moved_bytes))": (
        lambda M, N, plane_bytes, l2_size, waves, wave_rows, BM, wave_columns, BN, K, moved_bytes: 4 * M * N + where(plane_bytes + 4 * M * N <=
        l2_size, 0, max(plane_bytes, waves * (wave_rows * BM + wave_columns * BN) * K * moved_bytes))
    ),
    # T14
    (
    "where(split_shared + split_register > 0, 0, K * (M * (4 * split_reads + words_a * word_bytes) + N * (b_bytes * split_reads + words_b * "
    "word_bytes)))"): (
        lambda split_shared, split_register, K, M, split_reads, words_a, word_bytes, N, b_bytes, words_b: where(split_shared + split_register > 0, 0,
        K * (M * (4 * split_reads + words_a * word_bytes) + N * (b_bytes * split_reads + words_b * word_bytes)))
    ),
    # P1
    "tiles * threads": (
        lambda tiles, threads: tiles * threads
    ),
    # M1
    "products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)": (
        lambda products, BM, BN, BK, tensor_fma_per_clock, mma_efficiency: products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)
    ),
    # M2
    "fetch_bytes / shared_bytes_per_clock": (
        lambda fetch_bytes, shared_bytes_per_clock: fetch_bytes / shared_bytes_per_clock
    ),
    # M3
    "(BM * element_bytes + BN * b_element_bytes) * BK / shared_bytes_per_clock": (
        lambda BM, element_bytes, BN, b_element_bytes, BK, shared_bytes_per_clock: (BM * element_bytes + BN * b_element_bytes) * BK /
        shared_bytes_per_clock
    ),
    # M4
    (
    "where(promote > 0, promoted_sums * (2 + compensated) * BM * BN / f32_fma_per_clock * BK / max(promote, 1), 0) + where(tile_k + run > 0, (sums "
    "+ 2) * BM * BN / f32_fma_per_clock * BK / max(tile_k + run, 1), 0)"): (
        lambda promote, promoted_sums, compensated, BM, BN, f32_fma_per_clock, BK, tile_k, run, sums: where(promote > 0, promoted_sums * (2 +
        compensated) * BM * BN / f32_fma_per_clock * BK / max(promote, 1), 0) + where(tile_k + run > 0, (sums + 2) * BM * BN / f32_fma_per_clock * BK
        / max(tile_k + run, 1), 0)
    ),
    # M20
    (
    "words * BK * (split_before * split_shared * (BM + BN) + split_behind * split_register * (warps * (WM + WN) + BM / ceil(N / BN) + BN / ceil(M /"
    " BM))) / f32_fma_per_clock"): (
        lambda words, BK, split_before, split_shared, BM, BN, split_behind, split_register, warps, WM, WN, N, M, f32_fma_per_clock: words * BK *
        (split_before * split_shared * (BM + BN) + split_behind * split_register * (warps * (WM + WN) + BM / ceil(N / BN) + BN / ceil(M / BM))) /
        f32_fma_per_clock
    ),
    # M5
    "where(fragment_buffers > 1, 0, fetch_exposed * fetch_cycles * FK / BK)": (
        lambda fragment_buffers, fetch_exposed, fetch_cycles, FK, BK: where(fragment_buffers > 1, 0, fetch_exposed * fetch_cycles * FK / BK)
    ),
    # M23
    "where((amd > 0) & (warps > partitions), partitions * ceil(warps / partitions) / warps, 1)": (
        lambda amd, warps, partitions: where((amd > 0) & (warps > partitions), partitions * ceil(warps / partitions) / warps, 1)
    ),
    # M6
    "balance * tensor_cycles + fetch_share * fetch_cycles + fill_share * fill_cycles + promotion_cycles + split_cycles + barrier_cycles": (
        lambda balance, tensor_cycles, fetch_share, fetch_cycles, fill_share, fill_cycles, promotion_cycles, split_cycles, barrier_cycles: balance *
        tensor_cycles + fetch_share * fetch_cycles + fill_share * fill_cycles + promotion_cycles + split_cycles + barrier_cycles
    ),
    # M7
    (
    "shared_cycles + (tensor_cycles + split_cycles) * (max(1, partitions / warps) - 1) + exposed_cycles + split_wait * (split_shared + "
    "split_register * BK / FK) + waits * memory_cycles"): (
        lambda shared_cycles, tensor_cycles, split_cycles, partitions, warps, exposed_cycles, split_wait, split_shared, split_register, BK, FK, waits,
        memory_cycles: shared_cycles + (tensor_cycles + split_cycles) * (max(1, partitions / warps) - 1) + exposed_cycles + split_wait * (split_shared
        + split_register * BK / FK) + waits * memory_cycles
    ),
    # M8
    "stage_bytes / l2_bytes_per_clock": (
        lambda stage_bytes, l2_bytes_per_clock: stage_bytes / l2_bytes_per_clock
    ),
    # M9
    "memory_cycles / (max(stages, 2) - 1 - where(fragment_buffers > 1, FK / BK, 0))": (
        lambda memory_cycles, stages, fragment_buffers, FK, BK: memory_cycles / (max(stages, 2) - 1 - where(fragment_buffers > 1, FK / BK, 0))
    ),
    # M10
    "max(shared_cycles, fetch_cycles + fill_cycles, l2_cycles)": (
        lambda shared_cycles, fetch_cycles, fill_cycles, l2_cycles: max(shared_cycles, fetch_cycles + fill_cycles, l2_cycles)
    ),
    # M11
    "max(resident_blocks * block_cycles, chain_cycles, latency_cycles)": (
        lambda resident_blocks, block_cycles, chain_cycles, latency_cycles: max(resident_blocks * block_cycles, chain_cycles, latency_cycles)
    ),
    # M12
    "floor(blocks / max(sms * resident_blocks, 1))": (
        lambda blocks, sms, resident_blocks: floor(blocks / max(sms * resident_blocks, 1))
    ),
    # M13
    "ceil((blocks - full_waves * sms * resident_blocks) / sms)": (
        lambda blocks, full_waves, sms, resident_blocks: ceil((blocks - full_waves * sms * resident_blocks) / sms)
    ),
    # M14
    "where(tail_blocks > 0, max(tail_blocks * block_cycles, chain_cycles, latency_cycles), 0)": (
        lambda tail_blocks, block_cycles, chain_cycles, latency_cycles: where(tail_blocks > 0, max(tail_blocks * block_cycles, chain_cycles,
        latency_cycles), 0)
    ),
    # M21
    "where(split_k > 1, 4 * BM * BN * (split_k + 1) / l2_bytes_per_clock + memory_cycles, 0)": (
        lambda split_k, BM, BN, l2_bytes_per_clock, memory_cycles: where(split_k > 1, 4 * BM * BN * (split_k + 1) / l2_bytes_per_clock +
        memory_cycles, 0)
    ),
    # M15
    "stages_k * (full_waves * stage_cycles + tail_cycles) + (full_waves * resident_blocks + tail_blocks) * tile_cycles * BM * BN + gather_cycles": (
        lambda stages_k, full_waves, stage_cycles, tail_cycles, resident_blocks, tail_blocks, tile_cycles, BM, BN, gather_cycles: stages_k *
        (full_waves * stage_cycles + tail_cycles) + (full_waves * resident_blocks + tail_blocks) * tile_cycles * BM * BN + gather_cycles
    ),
    # W31
    "max(kernel_cycles / clock_hz, dram_bytes / dram_rate)": (
        lambda kernel_cycles, clock_hz, dram_bytes, dram_rate: max(kernel_cycles / clock_hz, dram_bytes / dram_rate)
    ),
    # M17
    "split_bytes / dram_rate": (
        lambda split_bytes, dram_rate: split_bytes / dram_rate
    ),
    # M22
    "where(split_shared + split_register > 0, 1, 1 + split_reads)": (
        lambda split_shared, split_register, split_reads: where(split_shared + split_register > 0, 1, 1 + split_reads)
    ),
    # M18
    "kernel_seconds + split_seconds + launches * launch_seconds": (
        lambda kernel_seconds, split_seconds, launches, launch_seconds: kernel_seconds + split_seconds + launches * launch_seconds
    ),
    # M19
    "2 * batch * M * N * K / seconds / 10.0**12": (
        lambda batch, M, N, K, seconds: 2 * batch * M * N * K / seconds / 10.0**12
    ),
    # C1
    "(BK % FK == 0) & ((BK == 16) | (BK == 32) | (BK == 64) | (BK == 128))": (
        lambda BK, FK: (BK % FK == 0) & ((((BK == 16) | (BK == 32)) | (BK == 64)) | (BK == 128))
    ),
    # C2
    "WK == BK": (
        lambda WK, BK: WK == BK
    ),
    # C3
    "WM % FM == 0": (
        lambda WM, FM: WM % FM == 0
    ),
    # C4
    "WN % (fetched_together * FN) == 0": (
        lambda WN, fetched_together, FN: WN % (fetched_together * FN) == 0
    ),
    # C5
    "BM % WM == 0": (
        lambda BM, WM: BM % WM == 0
    ),
    # C6
    "BN % WN == 0": (
        lambda BN, WN: BN % WN == 0
    ),
    # C7
    "threads <= threads_per_block": (
        lambda threads, threads_per_block: threads <= threads_per_block
    ),
    # C14
    "(held > 0) | (has_async > 0)": (
        lambda held, has_async: (held > 0) | (has_async > 0)
    ),
    # C15
    "(held == 0) | (stages <= 2) | (rings > 0)": (
        lambda held, stages, rings: ((held == 0) | (stages <= 2)) | (rings > 0)
    ),
    # C63
    "(stages > 1) | ((held > 0) & (rings == 0))": (
        lambda stages, held, rings: (stages > 1) | ((held > 0) & (rings == 0))
    ),
    # C16
    "(split_shared == 0) | (held > 0)": (
        lambda split_shared, held: (split_shared == 0) | (held > 0)
    ),
    # C17
    "(split_register == 0) | (held == 0) | (rings > 0)": (
        lambda split_register, held, rings: ((split_register == 0) | (held == 0)) | (rings > 0)
    ),
    # C18
    "((split_reads == 1) & (tile_k == 0) & (run == 0)) | (split_shared + split_register == 0)": (
        lambda split_reads, tile_k, run, split_shared, split_register: (((split_reads == 1) & (tile_k == 0)) & (run == 0)) | (split_shared +
        split_register == 0)
    ),
    # C59
    "(b_bytes == 4) | (split_shared + split_register == 0)": (
        lambda b_bytes, split_shared, split_register: (b_bytes == 4) | (split_shared + split_register == 0)
    ),
    # C19
    "(split_register == 0) | (by_lanes > 0)": (
        lambda split_register, by_lanes: (split_register == 0) | (by_lanes > 0)
    ),
    # C20
    "(split_register == 0) | (((a_strided * BM) % 32 == 0) & ((b_strided * BN) % 32 == 0))": (
        lambda split_register, a_strided, BM, b_strided, BN: (split_register == 0) | ((a_strided * BM % 32 == 0) & (b_strided * BN % 32 == 0))
    ),
    # C21
    "held * fragment_buffers < 2": (
        lambda held, fragment_buffers: held * fragment_buffers < 2
    ),
    # C8
    "(fragment_buffers == 1) | (BK % (2 * FK) == 0)": (
        lambda fragment_buffers, BK, FK: (fragment_buffers == 1) | (BK % (2 * FK) == 0)
    ),
    # C68
    "(waits == 0) | (fragment_buffers == 1)": (
        lambda waits, fragment_buffers: (waits == 0) | (fragment_buffers == 1)
    ),
    # C9
    "(promote == 0) | ((promote % FK == 0) & ((BK % max(promote, 1) == 0) | (promote % BK == 0)))": (
        lambda promote, FK, BK: (promote == 0) | ((promote % FK == 0) & ((BK % max(promote, 1) == 0) | (promote % BK == 0)))
    ),
    # C58
    "(tile_k == 0) | ((tile_k % FK == 0) & (BK % max(tile_k, 1) == 0))": (
        lambda tile_k, FK, BK: (tile_k == 0) | ((tile_k % FK == 0) & (BK % max(tile_k, 1) == 0))
    ),
    # C39
    "(compensated == 0) | (promote > FK)": (
        lambda compensated, promote, FK: (compensated == 0) | (promote > FK)
    ),
    # C10
    "shared_bytes <= shared_bytes_per_block": (
        lambda shared_bytes, shared_bytes_per_block: shared_bytes <= shared_bytes_per_block
    ),
    # C43
    "accumulator_registers + other_registers <= register_budget": (
        lambda accumulator_registers, other_registers, register_budget: accumulator_registers + other_registers <= register_budget
    ),
    # C12
    "demand + uneven <= register_budget + squeeze": (
        lambda demand, uneven, register_budget, squeeze: demand + uneven <= register_budget + squeeze
    ),
    # C13
    "(max(WM, WN) <= 128) & ((promote < FK) | (promote > FK) | ((WM * WN * products / sums < 6144) & (BK <= 2 * FK)))": (
        lambda WM, WN, promote, FK, products, sums, BK: (max(WM, WN) <= 128) & (((promote < FK) | (promote > FK)) | ((WM * WN * products / sums <
        6144) & (BK <= 2 * FK)))
    ),
    # C28
    "amd * (demand - waiting) <= 256": (
        lambda amd, demand, waiting: amd * (demand - waiting) <= 256
    ),
    # C22
    "(split_k == 1) | (tiles < sms)": (
        lambda split_k, tiles, sms: (split_k == 1) | (tiles < sms)
    ),
    # Q1
    "launch_threads": (
        lambda launch_threads: launch_threads
    ),
    # Q2
    "threads / warp_size": (
        lambda threads, warp_size: threads / warp_size
    ),
    # Q3
    "stage_bytes + line_bytes + list_bytes": (
        lambda stage_bytes, line_bytes, list_bytes: stage_bytes + line_bytes + list_bytes
    ),
    # Q40
    (
    "min(registers_per_thread, max(least_staying * staying, ceil(per_tile * tile_registers + walk_offset + when_apart * (1 - of_list) * "
    "where(further_tiles > 1, 1, 0) + staying * (when_staying + of_list * (when_listed + per_further_tile * further_tiles)))))"): (
        lambda registers_per_thread, least_staying, staying, per_tile, tile_registers, walk_offset, when_apart, of_list, further_tiles, when_staying,
        when_listed, per_further_tile: min(registers_per_thread, max(least_staying * staying, ceil(per_tile * tile_registers + walk_offset +
        when_apart * (1 - of_list) * where(further_tiles > 1, 1, 0) + staying * (when_staying + of_list * (when_listed + per_further_tile *
        further_tiles)))))
    ),
    # BatchGEMM eq. 5
    "blocks_per_sm * ceil(W_num / warp_size)": (
        lambda blocks_per_sm, W_num, warp_size: blocks_per_sm * ceil(W_num / warp_size)
    ),
    # BatchGEMM eq. 6
    "partitions * floor(registers_per_sm / partitions / max(1, registers_per_warp))": (
        lambda partitions, registers_per_sm, registers_per_warp: partitions * floor(registers_per_sm / partitions / max(1, registers_per_warp))
    ),
    # BatchGEMM eq. 7
    "threads_per_sm / warp_size": (
        lambda threads_per_sm, warp_size: threads_per_sm / warp_size
    ),
    # BatchGEMM eq. 8
    "blocks_by_shared * ceil(W_num / warp_size)": (
        lambda blocks_by_shared, W_num, warp_size: blocks_by_shared * ceil(W_num / warp_size)
    ),
    # BatchGEMM eq. 9
    "min(WF_wg, WF_V, WF_S, WF_L, threads_per_sm / warp_size)": (
        lambda WF_wg, WF_V, WF_S, WF_L, threads_per_sm, warp_size: min(WF_wg, WF_V, WF_S, WF_L, threads_per_sm / warp_size)
    ),
    # BatchGEMM eq. 12
    "WF * warp_size / threads_per_sm": (
        lambda WF, warp_size, threads_per_sm: WF * warp_size / threads_per_sm
    ),
    # Q4
    "resident_blocks * sms": (
        lambda resident_blocks, sms: resident_blocks * sms
    ),
    # Q5
    "WF * sms": (
        lambda WF, sms: WF * sms
    ),
    # Q6
    "matrices * ceil(M / BM) * ceil(N / BN)": (
        lambda matrices, M, BM, N, BN: matrices * ceil(M / BM) * ceil(N / BN)
    ),
    # Q7
    "workgroups * tile_warps": (
        lambda workgroups, tile_warps: workgroups * tile_warps
    ),
    # BatchGEMM eq. 3
    "workgroups * T_workgroup": (
        lambda workgroups, T_workgroup: workgroups * T_workgroup
    ),
    # BatchGEMM eq. 4
    "min(wavefronts, WF * sms) * warp_size": (
        lambda wavefronts, WF, sms, warp_size: min(wavefronts, WF * sms) * warp_size
    ),
    # BatchGEMM eq. 1
    "BM * BN / W_num": (
        lambda BM, BN, W_num: BM * BN / W_num
    ),
    # BatchGEMM eq. 2
    "(BM * BN + BM * BK + BK * BN) / W_num": (
        lambda BM, BN, BK, W_num: (BM * BN + BM * BK + BK * BN) / W_num
    ),
    # Q8
    "2 * BM * BN / (4 * (BM + BN))": (
        lambda BM, BN: 2 * BM * BN / (4 * (BM + BN))
    ),
    # Q9
    "4 * matrices * (M * K + K * N)": (
        lambda matrices, M, K, N: 4 * matrices * (M * K + K * N)
    ),
    # Q10
    "4 * matrices * M * N": (
        lambda matrices, M, N: 4 * matrices * M * N
    ),
    # Q11
    "read_bytes + c_bytes": (
        lambda read_bytes, c_bytes: read_bytes + c_bytes
    ),
    # Q12
    "4 * workgroups * K * (BM + BN)": (
        lambda workgroups, K, BM, BN: 4 * workgroups * K * (BM + BN)
    ),
    # Q13
    "products * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency) + split_shared * words * BK * split_before * (BM + BN) / f32_fma_per_clock": (
        lambda products, BM, BN, BK, tensor_fma_per_clock, mma_efficiency, split_shared, words, split_before, f32_fma_per_clock: products * BM * BN *
        BK / (tensor_fma_per_clock * mma_efficiency) + split_shared * words * BK * split_before * (BM + BN) / f32_fma_per_clock
    ),
    # Q14
    "ceil(workgroups / blocks_at_once)": (
        lambda workgroups, blocks_at_once: ceil(workgroups / blocks_at_once)
    ),
    # Q15
    "turns * (1 + ceil(K / BK) / (stages - 1)) * memory_cycles / clock_hz": (
        lambda turns, K, BK, stages, memory_cycles, clock_hz: turns * (1 + ceil(K / BK) / (stages - 1)) * memory_cycles / clock_hz
    ),
    # Q16
    (
    "launch_seconds + max(latency_seconds, dram_bytes / dram_rate, fill_bytes / (sms * l2_bytes_per_clock * clock_hz), workgroups * ceil(K / BK) * "
    "stage_cycles / (sms * clock_hz))"): (
        lambda launch_seconds, latency_seconds, dram_bytes, dram_rate, fill_bytes, sms, l2_bytes_per_clock, clock_hz, workgroups, K, BK, stage_cycles:
        launch_seconds + max(latency_seconds, dram_bytes / dram_rate, fill_bytes / (sms * l2_bytes_per_clock * clock_hz), workgroups * ceil(K / BK) *
        stage_cycles / (sms * clock_hz))
    ),
    # BatchGEMM eq. 11
    "2 * M * N * K * matrices / seconds / 10**9": (
        lambda M, N, K, matrices, seconds: 2 * M * N * K * matrices / seconds / 10**9
    ),
    # Q17
    "gflops / 1000": (
        lambda gflops: gflops / 1000
    ),
    # C61
    "stages > 1": (
        lambda stages: stages > 1
    ),
    # C69
    "stages <= 8": (
        lambda stages: stages <= 8
    ),
    # C42
    "(held == 0) | (stages == 2)": (
        lambda held, stages: (held == 0) | (stages == 2)
    ),
    # W1
    "(BM / WM) * (BN / WN) * (1 + pingpong)": (
        lambda BM, WM, BN, WN, pingpong: BM / WM * (BN / WN) * (1 + pingpong)
    ),
    # W2
    "4 * (groups + 1)": (
        lambda groups: 4 * (groups + 1)
    ),
    # W3
    "where(mixed > 0, 4, a_word_bytes)": (
        lambda mixed, a_word_bytes: where(mixed > 0, 4, a_word_bytes)
    ),
    # W4
    "BK * (BM * a_bytes + BN * b_word_bytes)": (
        lambda BK, BM, a_bytes, BN, b_word_bytes: BK * (BM * a_bytes + BN * b_word_bytes)
    ),
    # W5
    (
    "stages * (stage_bytes + 16 + where(run > 0, 8, where(tile_k > 0, 4 * (BM + BN) * BK // max(tile_k, 1), 0))) + where(split_k > 1, 8 * groups, "
    "0)"): (
        lambda stages, stage_bytes, run, tile_k, BM, BN, BK, split_k, groups: stages * (stage_bytes + 16 + where(run > 0, 8, where(tile_k > 0, floor(4
        * (BM + BN) * BK / max(tile_k, 1)), 0))) + where(split_k > 1, 8 * groups, 0)
    ),
    # W6
    "min(240, 8 * floor(registers_per_sm / threads / 8))": (
        lambda registers_per_sm, threads: min(240, 8 * floor(registers_per_sm / threads / 8))
    ),
    # W7
    "where(mixed > 0, where((words > 2) | (strides > 0) & (a_strided == 0), 64, 56), where(groups < 3, 40, 32))": (
        lambda mixed, words, strides, a_strided, groups: where(mixed > 0, where((words > 2) | ((strides > 0) & (a_strided == 0)), 64, 56),
        where(groups < 3, 40, 32))
    ),
    # W8
    "min(240, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8))": (
        lambda registers, groups, producer_registers: min(240, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8))
    ),
    # W9
    "sums + where(tile_k > 0, 2, where(promote > 0, promoted_sums, 0))": (
        lambda sums, tile_k, promote, promoted_sums: sums + where(tile_k > 0, 2, where(promote > 0, promoted_sums, 0))
    ),
    # W10
    "accumulators * WM * WN / 128": (
        lambda accumulators, WM, WN: accumulators * WM * WN / 128
    ),
    # W11
    "where(mixed > 0, 2 * words * WM * FK * word_bytes / 512, 0)": (
        lambda mixed, words, WM, FK, word_bytes: where(mixed > 0, 2 * words * WM * FK * word_bytes / 512, 0)
    ),
    # W42
    "32 + where((tile_k > 0) & ((pingpong > 0) | (BK > 2 * tile_k)), 12, 0) + where((run > 0) & (split_k > 1), 24, 0)": (
        lambda tile_k, pingpong, BK, run, split_k: 32 + where((tile_k > 0) & ((pingpong > 0) | (BK > 2 * tile_k)), 12, 0) + where((run > 0) & (split_k
        > 1), 24, 0)
    ),
    # W37
    "4 * (BM / WM) * (BN / WN) * where(mixed > 0, 32 * cluster, cluster + where(tile_k > 0, 31, 0))": (
        lambda BM, WM, BN, WN, mixed, cluster, tile_k: 4 * (BM / WM) * (BN / WN) * where(mixed > 0, 32 * cluster, cluster + where(tile_k > 0, 31, 0))
    ),
    # W38
    "floor(max(resident_blocks, 1) * sms / cluster) * cluster": (
        lambda resident_blocks, sms, cluster: floor(max(resident_blocks, 1) * sms / cluster) * cluster
    ),
    # W13
    "BK * product_bytes * (BM / WM) * (BN / WN) * (where(mixed > 0, 0, WM) + WN * WM / FM) + where(mixed > 0, 4 * BM * BK * BN / WN, 0)": (
        lambda BK, product_bytes, BM, WM, BN, WN, mixed, FM: BK * product_bytes * (BM / WM) * (BN / WN) * (where(mixed > 0, 0, WM) + WN * WM / FM) +
        where(mixed > 0, 4 * BM * BK * BN / WN, 0)
    ),
    # W14
    "BK * (BM * a_bytes + BN * b_word_bytes / cluster)": (
        lambda BK, BM, a_bytes, BN, b_word_bytes, cluster: BK * (BM * a_bytes + BN * b_word_bytes / cluster)
    ),
    # W15
    "batch * ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN) * split_k": (
        lambda batch, M, BM, cluster, N, BN, split_k: batch * ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN) * split_k
    ),
    # W16
    "blocks * stages_k * fill_bytes": (
        lambda blocks, stages_k, fill_bytes: blocks * stages_k * fill_bytes
    ),
    # W17
    "ceil(blocks / (floor(sms / cluster) * cluster))": (
        lambda blocks, sms, cluster: ceil(blocks / (floor(sms / cluster) * cluster))
    ),
    # W18
    "min(group * cluster, ceil(M / BM))": (
        lambda group, cluster, M, BM: min(group * cluster, ceil(M / BM))
    ),
    # W19
    "min(ceil(sms / wave_rows), ceil(N / BN))": (
        lambda sms, wave_rows, N, BN: min(ceil(sms / wave_rows), ceil(N / BN))
    ),
    # W20
    "batch * K * (M * a_bytes + N * b_word_bytes)": (
        lambda batch, K, M, a_bytes, N, b_word_bytes: batch * K * (M * a_bytes + N * b_word_bytes)
    ),
    # W39
    "where(batch > 1, max(1, sms / (wave_rows * wave_columns)), 1)": (
        lambda batch, sms, wave_rows, wave_columns: where(batch > 1, max(1, sms / (wave_rows * wave_columns)), 1)
    ),
    # W21
    (
    "4 * batch * M * N + where(plane_bytes + 4 * batch * M * N <= l2_size, 0, max(plane_bytes, turns * wave_groups * K * (wave_rows * BM * a_bytes "
    "+ wave_columns * BN * b_word_bytes)))"): (
        lambda batch, M, N, plane_bytes, l2_size, turns, wave_groups, K, wave_rows, BM, a_bytes, wave_columns, BN, b_word_bytes: 4 * batch * M * N +
        where(plane_bytes + 4 * batch * M * N <= l2_size, 0, max(plane_bytes, turns * wave_groups * K * (wave_rows * BM * a_bytes + wave_columns * BN
        * b_word_bytes)))
    ),
    # W22
    (
    "batch * K * (split_passes * (4 * where(mixed > 0, 0, M) + b_bytes * N) + where(2 * plane_bytes <= l2_size, 0, where(mixed > 0, 0, M) * "
    "a_word_bytes + N * b_word_bytes))"): (
        lambda batch, K, split_passes, mixed, M, b_bytes, N, plane_bytes, l2_size, a_word_bytes, b_word_bytes: batch * K * (split_passes * (4 *
        where(mixed > 0, 0, M) + b_bytes * N) + where(2 * plane_bytes <= l2_size, 0, where(mixed > 0, 0, M) * a_word_bytes + N * b_word_bytes))
    ),
    # W23
    "(fetch_bytes + BK * (BM * a_bytes + BN * b_word_bytes)) / shared_bytes_per_clock": (
        lambda fetch_bytes, BK, BM, a_bytes, BN, b_word_bytes, shared_bytes_per_clock: (fetch_bytes + BK * (BM * a_bytes + BN * b_word_bytes)) /
        shared_bytes_per_clock
    ),
    # W24
    "fill_bytes / l2_bytes_per_clock": (
        lambda fill_bytes, l2_bytes_per_clock: fill_bytes / l2_bytes_per_clock
    ),
    # W25
    (
    "group_gap + BK / FK * max(products * WM * WN * FK / (tensor_fma_per_clock * mma_efficiency), mixed * (split_a_cycles * (1 + words_a) / 3 + 4 *"
    " a_strided) * WM / FM)"): (
        lambda group_gap, BK, FK, products, WM, WN, tensor_fma_per_clock, mma_efficiency, mixed, split_a_cycles, words_a, a_strided, FM: group_gap +
        BK / FK * max(products * WM * WN * FK / (tensor_fma_per_clock * mma_efficiency), mixed * (split_a_cycles * (1 + words_a) / 3 + 4 * a_strided)
        * WM / FM)
    ),
    # W26
    "(memory_cycles + where(stages < 3, l2_cycles, 0) + max(tensor_cycles, shared_cycles)) / (stages - 1)": (
        lambda memory_cycles, stages, l2_cycles, tensor_cycles, shared_cycles: (memory_cycles + where(stages < 3, l2_cycles, 0) + max(tensor_cycles,
        shared_cycles)) / (stages - 1)
    ),
    # W41
    "where(tile_k > 0, moved_operations * sums * BM * BN / f32_fma_per_clock * BK / max(tile_k, 1), 0)": (
        lambda tile_k, moved_operations, sums, BM, BN, f32_fma_per_clock, BK: where(tile_k > 0, moved_operations * sums * BM * BN / f32_fma_per_clock
        * BK / max(tile_k, 1), 0)
    ),
    # W43
    "where(run > 0, 16 * BM * BN / f32_fma_per_clock * BK / max(run, 1), 0)": (
        lambda run, BM, BN, f32_fma_per_clock, BK: where(run > 0, 16 * BM * BN / f32_fma_per_clock * BK / max(run, 1), 0)
    ),
    # W35
    "where(turns > 1, 1 + pingpong, 1)": (
        lambda turns, pingpong: where(turns > 1, 1 + pingpong, 1)
    ),
    # W27
    (
    "max(tensor_cycles * where((pingpong == 0) & (groups > 1), 1 + beside, 1), shared_cycles, l2_cycles, chain_cycles / overlapping, "
    "latency_cycles, moved_cycles)"): (
        lambda tensor_cycles, pingpong, groups, beside, shared_cycles, l2_cycles, chain_cycles, overlapping, latency_cycles, moved_cycles:
        max(tensor_cycles * where((pingpong == 0) & (groups > 1), 1 + beside, 1), shared_cycles, l2_cycles, chain_cycles / overlapping,
        latency_cycles, moved_cycles)
    ),
    # W28
    "(turn_cycles_each + store_cycles * WM * WN) / overlapping": (
        lambda turn_cycles_each, store_cycles, WM, WN, overlapping: (turn_cycles_each + store_cycles * WM * WN) / overlapping
    ),
    # W29
    (
    "turns * (stages_k * (stage_cycles + run_cycles) + turn_cycles) + where(split_k > 1, turns * gather_share * (4 * BM * BN * (split_k + 1) / "
    "l2_bytes_per_clock + memory_cycles), 0)"): (
        lambda turns, stages_k, stage_cycles, run_cycles, turn_cycles, split_k, gather_share, BM, BN, l2_bytes_per_clock, memory_cycles: turns *
        (stages_k * (stage_cycles + run_cycles) + turn_cycles) + where(split_k > 1, turns * gather_share * (4 * BM * BN * (split_k + 1) /
        l2_bytes_per_clock + memory_cycles), 0)
    ),
    # W40
    (
    "where(compensated > 0, min(products_moving * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency) + 3 * promoted_sums * BM * BN * BK / "
    "max(promote, 1) / (moving_rate * f32_fma_per_clock), tensor_cycles + 2 * promoted_sums * BM * BN * BK / max(promote, 1) / f32_fma_per_clock), "
    "0)"): (
        lambda compensated, products_moving, BM, BN, BK, tensor_fma_per_clock, mma_efficiency, promoted_sums, promote, moving_rate, f32_fma_per_clock,
        tensor_cycles: where(compensated > 0, min(products_moving * BM * BN * BK / (tensor_fma_per_clock * mma_efficiency) + 3 * promoted_sums * BM *
        BN * BK / max(promote, 1) / (moving_rate * f32_fma_per_clock), tensor_cycles + 2 * promoted_sums * BM * BN * BK / max(promote, 1) /
        f32_fma_per_clock), 0)
    ),
    # W30
    (
    "2 * products * tiles * BM * BN * K / unit_rate * max(1, moving_cycles / tensor_cycles) * where((compensated > 0) & (cluster > 1), 1 + "
    "clustered, 1) * where((BM == WM) & (BN == WN), 1 + alone, 1)"): (
        lambda products, tiles, BM, BN, K, unit_rate, moving_cycles, tensor_cycles, compensated, cluster, clustered, WM, WN, alone: 2 * products *
        tiles * BM * BN * K / unit_rate * max(1, moving_cycles / tensor_cycles) * where((compensated > 0) & (cluster > 1), 1 + clustered, 1) *
        where((BM == WM) & (BN == WN), 1 + alone, 1)
    ),
    # W32
    (
    "max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + split_passes * launch_seconds + overlap_seconds + "
    "where(cluster > 1, cluster_seconds, 0)"): (
        lambda kernel_seconds, split_seconds, unit_seconds, split_power, split_passes, launch_seconds, overlap_seconds, cluster, cluster_seconds:
        max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + split_passes * launch_seconds + overlap_seconds +
        where(cluster > 1, cluster_seconds, 0)
    ),
    # C23
    "((BK * word_bytes == 32) | (BK * word_bytes == 64) | (BK * word_bytes == 128)) & (BK * least_bytes >= 32)": (
        lambda BK, word_bytes, least_bytes: (((BK * word_bytes == 32) | (BK * word_bytes == 64)) | (BK * word_bytes == 128)) & (BK * least_bytes >=
        32)
    ),
    # C4
    "WN % FN == 0": (
        lambda WN, FN: WN % FN == 0
    ),
    # C24
    "(pingpong == 0) | ((BM == WM) & (BN == WN))": (
        lambda pingpong, BM, WM, BN, WN: (pingpong == 0) | ((BM == WM) & (BN == WN))
    ),
    # C7
    "threads <= 512": (
        lambda threads: threads <= 512
    ),
    # C25
    "(mixed == 0) | ((BK % (2 * FK) == 0) & (word_bytes == 2) & (types == 1) & (split_reads == 1) & (run == 0))": (
        lambda mixed, BK, FK, word_bytes, types, split_reads, run: (mixed == 0) | (((((BK % (2 * FK) == 0) & (word_bytes == 2)) & (types == 1)) &
        (split_reads == 1)) & (run == 0))
    ),
    # C11
    "accumulator_registers + fragment_registers + other_registers <= register_budget": (
        lambda accumulator_registers, fragment_registers, other_registers, register_budget: accumulator_registers + fragment_registers +
        other_registers <= register_budget
    ),
    # C29
    "min(WN, 256) / 2 + 4 * mixed + 28 <= registers": (
        lambda WN, mixed, registers: min(WN, 256) / 2 + 4 * mixed + 28 <= registers
    ),
    # C36
    "(types == 1) | (WN % 16 == 0)": (
        lambda types, WN: (types == 1) | (WN % 16 == 0)
    ),
    # G24
    (
    "where((fragment_buffers > 1) | (spread > 0) | (WK == BK) & where(amd > 0, accumulator_registers + fragment_registers * BK / FK < min(0.75 * "
    "registers_per_thread, unroll_share), accumulator_registers + fragment_registers < where(split_register > 0, min(192, unroll_share), 192)), 1, "
    "0)"): (
        lambda fragment_buffers, spread, WK, BK, amd, accumulator_registers, fragment_registers, FK, registers_per_thread, unroll_share,
        split_register: where(((fragment_buffers > 1) | (spread > 0)) | ((WK == BK) & (((amd > 0) & (accumulator_registers + fragment_registers * BK /
        FK < min(0.75 * registers_per_thread, unroll_share))) | (((amd > 0) == False) & (accumulator_registers + fragment_registers <
        where(split_register > 0, min(192, unroll_share), 192))))), 1, 0)
    ),
    # G16
    "min(register_budget, ceil(demand))": (
        lambda register_budget, demand: min(register_budget, ceil(demand))
    ),
    # C62
    "(BK % WK == 0) & (WK % FK == 0)": (
        lambda BK, WK, FK: (BK % WK == 0) & (WK % FK == 0)
    ),
    # C21
    "(held * fragment_buffers < 2) | (BK > FK)": (
        lambda held, fragment_buffers, BK, FK: (held * fragment_buffers < 2) | (BK > FK)
    ),
    # C64
    "(WK == BK) | (WK == FK) | ((fragment_buffers == 1) & (uncached == 0))": (
        lambda WK, BK, FK, fragment_buffers, uncached: ((WK == BK) | (WK == FK)) | ((fragment_buffers == 1) & (uncached == 0))
    ),
    # C65
    "(padded == 0) | ((padding == 0) & (rings == 0) & (split_register == 0) & (types == 1) & (tile_k == 0))": (
        lambda padded, padding, rings, split_register, types, tile_k: (padded == 0) | (((((padding == 0) & (rings == 0)) & (split_register == 0)) &
        (types == 1)) & (tile_k == 0))
    ),
    # C66
    "(uncached == 0) | ((padding == 0) & (rings == 0) & (split_register == 0) & (tile_k == 0) & (fragment_buffers == 1))": (
        lambda uncached, padding, rings, split_register, tile_k, fragment_buffers: (uncached == 0) | (((((padding == 0) & (rings == 0)) &
        (split_register == 0)) & (tile_k == 0)) & (fragment_buffers == 1))
    ),
    # C67
    "(uncached < 2) | ((promote == 0) & (FM * FN == 4 * warp_size))": (
        lambda uncached, promote, FM, FN, warp_size: (uncached < 2) | ((promote == 0) & (FM * FN == 4 * warp_size))
    ),
    # C73
    "(run == 0) | ((promote > FK) & (run % max(promote, 1) == 0) & (run % BK == 0))": (
        lambda run, promote, FK, BK: (run == 0) | (((promote > FK) & (run % max(promote, 1) == 0)) & (run % BK == 0))
    ),
    # Q1
    "BK * (BM + BN)": (
        lambda BK, BM, BN: BK * (BM + BN)
    ),
    # Q2
    "stages * (stage_bytes + 16)": (
        lambda stages, stage_bytes: stages * (stage_bytes + 16)
    ),
    # Q3
    "WM * WN / 128": (
        lambda WM, WN: WM * WN / 128
    ),
    # Q4
    "blocks_at_once * BM * BN * (moduli + total_bytes)": (
        lambda blocks_at_once, BM, BN, moduli, total_bytes: blocks_at_once * BM * BN * (moduli + total_bytes)
    ),
    # Q5
    "BK * (BM / WM) * (BN / WN) * (WM + WN * WM / FM)": (
        lambda BK, BM, WM, BN, WN, FM: BK * (BM / WM) * (BN / WN) * (WM + WN * WM / FM)
    ),
    # Q6
    "BK * (BM + BN / cluster)": (
        lambda BK, BM, BN, cluster: BK * (BM + BN / cluster)
    ),
    # Q7
    "ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN)": (
        lambda M, BM, cluster, N, BN: ceil(ceil(M / BM) / cluster) * cluster * ceil(N / BN)
    ),
    # Q27
    "ceil(K / BK) * moduli": (
        lambda K, BK, moduli: ceil(K / BK) * moduli
    ),
    # Q9
    "K * (M + N) * moduli": (
        lambda K, M, N, moduli: K * (M + N) * moduli
    ),
    # Q10
    (
    "c_bytes * M * N + where(plane_bytes + c_bytes * M * N <= l2_size, 0, max(plane_bytes, turns * K * moduli * (wave_rows * BM + wave_columns * "
    "BN)) + 2 * turns * kept_bytes)"): (
        lambda c_bytes, M, N, plane_bytes, l2_size, turns, K, moduli, wave_rows, BM, wave_columns, BN, kept_bytes: c_bytes * M * N + where(plane_bytes
        + c_bytes * M * N <= l2_size, 0, max(plane_bytes, turns * K * moduli * (wave_rows * BM + wave_columns * BN)) + 2 * turns * kept_bytes)
    ),
    # Q11
    "K * (M + N) * (pass_bytes + where(2 * plane_bytes <= l2_size, 0, moduli))": (
        lambda K, M, N, pass_bytes, plane_bytes, l2_size, moduli: K * (M + N) * (pass_bytes + where(2 * plane_bytes <= l2_size, 0, moduli))
    ),
    # Q13
    "BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)": (
        lambda BM, BN, BK, tensor_fma_per_clock, mma_efficiency: BM * BN * BK / (tensor_fma_per_clock * mma_efficiency)
    ),
    # Q14
    "(fetch_bytes + stage_bytes) / shared_bytes_per_clock": (
        lambda fetch_bytes, stage_bytes, shared_bytes_per_clock: (fetch_bytes + stage_bytes) / shared_bytes_per_clock
    ),
    # Q15
    "tensor_cycles / groups": (
        lambda tensor_cycles, groups: tensor_cycles / groups
    ),
    # Q16
    "(memory_cycles + max(tensor_cycles, shared_cycles)) / (stages - 1)": (
        lambda memory_cycles, tensor_cycles, shared_cycles, stages: (memory_cycles + max(tensor_cycles, shared_cycles)) / (stages - 1)
    ),
    # Q17
    "max(tensor_cycles * where(groups > 1, 1 + beside, 1), shared_cycles, l2_cycles, chain_cycles, latency_cycles)": (
        lambda tensor_cycles, groups, beside, shared_cycles, l2_cycles, chain_cycles, latency_cycles: max(tensor_cycles * where(groups > 1, 1 +
        beside, 1), shared_cycles, l2_cycles, chain_cycles, latency_cycles)
    ),
    # Q18
    "8 * BM * BN / f32_fma_per_clock": (
        lambda BM, BN, f32_fma_per_clock: 8 * BM * BN / f32_fma_per_clock
    ),
    # Q19
    "(store_slots + join_slots * moduli) * BM * BN / f32_fma_per_clock": (
        lambda store_slots, join_slots, moduli, BM, BN, f32_fma_per_clock: (store_slots + join_slots * moduli) * BM * BN / f32_fma_per_clock
    ),
    # Q20
    "where(groups > 1, (stages - 1) * tensor_cycles * (1 + beside) / groups, 0)": (
        lambda groups, stages, tensor_cycles, beside: where(groups > 1, (stages - 1) * tensor_cycles * (1 + beside) / groups, 0)
    ),
    # Q21
    (
    "turns * (stages_k * stage_cycles + ceil(K / segment_k) * (moduli * max(0, reduce_cycles - hidden_cycles) + max(0, join_cycles - "
    "hidden_cycles)) + turn_cycles_each)"): (
        lambda turns, stages_k, stage_cycles, K, segment_k, moduli, reduce_cycles, hidden_cycles, join_cycles, turn_cycles_each: turns * (stages_k *
        stage_cycles + ceil(K / segment_k) * (moduli * max(0, reduce_cycles - hidden_cycles) + max(0, join_cycles - hidden_cycles)) +
        turn_cycles_each)
    ),
    # Q22
    "2 * moduli * tiles * BM * BN * K / unit_rate": (
        lambda moduli, tiles, BM, BN, K, unit_rate: 2 * moduli * tiles * BM * BN * K / unit_rate
    ),
    # Q35
    "pass_share * split_bytes / dram_rate + pass_seconds": (
        lambda pass_share, split_bytes, dram_rate, pass_seconds: pass_share * split_bytes / dram_rate + pass_seconds
    ),
    # Q24
    (
    "max(kernel_seconds + split_seconds, unit_seconds + split_power * split_seconds) + 2 * launch_seconds + overlap_seconds + where(cluster > 1, "
    "cluster_seconds, 0)"): (
        lambda kernel_seconds, split_seconds, unit_seconds, split_power, launch_seconds, overlap_seconds, cluster, cluster_seconds: max(kernel_seconds
        + split_seconds, unit_seconds + split_power * split_seconds) + 2 * launch_seconds + overlap_seconds + where(cluster > 1, cluster_seconds, 0)
    ),
    # C40
    "WM * WN % (128 * 16) == 0": (
        lambda WM, WN: WM * WN % (128 * 16) == 0
    ),
    # C41
    "split_k == 1": (
        lambda split_k: split_k == 1
    ),
    # C42
    "min(WN, 256) / 2 + 28 <= registers": (
        lambda WN, registers: min(WN, 256) / 2 + 28 <= registers
    ),
    # Q25
    "where(total_bytes > 0, 2 * WM * WN / warp_size, 0)": (
        lambda total_bytes, WM, WN, warp_size: where(total_bytes > 0, 2 * WM * WN / warp_size, 0)
    ),
    # Q26
    (
    "per_sum * accumulator_registers + per_narrow * narrow + per_wide * wide + per_word * held_words + per_short_sum * short_sums + when_at_once * "
    "at_once + per_at_once_sum * at_once_sums + per_step * steps + when_shallow * shallow + when_promoting * promotes + when_both * "
    "shallow_promotes + per_staged * staged + when_sliced * sliced + per_second * second + per_strided * strided + per_hoisted * hoisted + "
    "when_ring * ring + tile_sums + run_sums + generation + per_kept * kept_registers"): (
        lambda per_sum, accumulator_registers, per_narrow, narrow, per_wide, wide, per_word, held_words, per_short_sum, short_sums, when_at_once,
        at_once, per_at_once_sum, at_once_sums, per_step, steps, when_shallow, shallow, when_promoting, promotes, when_both, shallow_promotes,
        per_staged, staged, when_sliced, sliced, per_second, second, per_strided, strided, per_hoisted, hoisted, when_ring, ring, tile_sums, run_sums,
        generation, per_kept, kept_registers: per_sum * accumulator_registers + per_narrow * narrow + per_wide * wide + per_word * held_words +
        per_short_sum * short_sums + when_at_once * at_once + per_at_once_sum * at_once_sums + per_step * steps + when_shallow * shallow +
        when_promoting * promotes + when_both * shallow_promotes + per_staged * staged + when_sliced * sliced + per_second * second + per_strided *
        strided + per_hoisted * hoisted + when_ring * ring + tile_sums + run_sums + generation + per_kept * kept_registers
    ),
    # Q33
    "min(register_budget, ceil(demand + spare_kept * kept_registers))": (
        lambda register_budget, demand, spare_kept, kept_registers: min(register_budget, ceil(demand + spare_kept * kept_registers))
    ),
    # Q34
    (
    "where((256 % WM == 0) & (256 % WN == 0), 0, where(tile_k + run > 0, 3, 1) * 12) + where(held * fragment_buffers > 1, 12, 0) + where(tile_k > "
    "0, 24, 0) + where(fragment_buffers > 1, spare_kept * kept_registers, 0)"): (
        lambda WM, WN, tile_k, run, held, fragment_buffers, spare_kept, kept_registers: where((256 % WM == 0) & (256 % WN == 0), 0, where(tile_k + run
        > 0, 3, 1) * 12) + where(held * fragment_buffers > 1, 12, 0) + where(tile_k > 0, 24, 0) + where(fragment_buffers > 1, spare_kept *
        kept_registers, 0)
    ),
    # Q28
    "(M + N) * K * moduli": (
        lambda M, N, K, moduli: (M + N) * K * moduli
    ),
    # Q29
    (
    "c_bytes * M * N + where(plane_bytes + c_bytes * M * N <= l2_size, 0, max(plane_bytes, waves * (wave_rows * BM + wave_columns * BN) * K * "
    "moduli)) + where(total_bytes > 0, where(K > segment_k, 16 * M * N * (ceil(K / segment_k) - 1), 0), where(moduli * M * N > l2_size, 2 * moduli "
    "* M * N, 0))"): (
        lambda c_bytes, M, N, plane_bytes, l2_size, waves, wave_rows, BM, wave_columns, BN, K, moduli, total_bytes, segment_k: c_bytes * M * N +
        where(plane_bytes + c_bytes * M * N <= l2_size, 0, max(plane_bytes, waves * (wave_rows * BM + wave_columns * BN) * K * moduli)) +
        where(total_bytes > 0, where(K > segment_k, 16 * M * N * (ceil(K / segment_k) - 1), 0), where(moduli * M * N > l2_size, 2 * moduli * M * N,
        0))
    ),
    # Q30
    "K * (M + N) * (pass_bytes + moduli)": (
        lambda K, M, N, pass_bytes, moduli: K * (M + N) * (pass_bytes + moduli)
    ),
    # Q31
    "ceil(K / segment_k) * (7 * moduli + where(total_bytes > 0, 16, store_slots + join_slots * moduli)) * BM * BN / f32_fma_per_clock": (
        lambda K, segment_k, moduli, total_bytes, store_slots, join_slots, BM, BN, f32_fma_per_clock: ceil(K / segment_k) * (7 * moduli +
        where(total_bytes > 0, 16, store_slots + join_slots * moduli)) * BM * BN / f32_fma_per_clock
    ),
    # Q32
    "stages_k * (full_waves * stage_cycles + tail_cycles) + (full_waves * resident_blocks + tail_blocks) * (tile_cycles * BM * BN + reduce_cycles)": (
        lambda stages_k, full_waves, stage_cycles, tail_cycles, resident_blocks, tail_blocks, tile_cycles, BM, BN, reduce_cycles: stages_k *
        (full_waves * stage_cycles + tail_cycles) + (full_waves * resident_blocks + tail_blocks) * (tile_cycles * BM * BN + reduce_cycles)
    ),
    # C60
    "accumulator_registers + kept_registers + other_registers <= register_budget": (
        lambda accumulator_registers, kept_registers, other_registers, register_budget: accumulator_registers + kept_registers + other_registers <=
        register_budget
    ),
    # C74
    "(run == 0) | (split_k == 1) | (BK % max(promote, 1) == 0)": (
        lambda run, split_k, BK, promote: ((run == 0) | (split_k == 1)) | (BK % max(promote, 1) == 0)
    ),
    # S1
    "(BM / WM) * (BN / WN) * (BK / WK)": (
        lambda BM, WM, BN, WN, BK, WK: BM / WM * (BN / WN) * (BK / WK)
    ),
    # S2
    "BN + where((b_strided > 0) & (WN % 16 == 0), where(WN % 32 == 0, 4, where(BN % 32 == 0, 16, 0)), where(BN % 16 == 0, 8, 0))": (
        lambda BN, b_strided, WN: BN + where((b_strided > 0) & (WN % 16 == 0), where(WN % 32 == 0, 4, where(BN % 32 == 0, 16, 0)), where(BN % 16 == 0,
        8, 0))
    ),
    # S3
    "4 * (BK / WK) * BM * row_floats + 4 * warps * WK * max(WM, WN)": (
        lambda BK, WK, BM, row_floats, warps, WM, WN: 4 * (BK / WK) * BM * row_floats + 4 * warps * WK * max(WM, WN)
    ),
    # S5
    "words * (WM + WN) * FK * word_bytes / (4 * warp_size)": (
        lambda words, WM, WN, FK, word_bytes, warp_size: words * (WM + WN) * FK * word_bytes / (4 * warp_size)
    ),
    # S4
    "stages * (WM + WN) * WK / warp_size": (
        lambda stages, WM, WN, WK, warp_size: stages * (WM + WN) * WK / warp_size
    ),
    # S6
    "per_sum * accumulator_registers + per_raw * raw_registers + per_fragment * fragment_registers + generation": (
        lambda per_sum, accumulator_registers, per_raw, raw_registers, per_fragment, fragment_registers, generation: per_sum * accumulator_registers +
        per_raw * raw_registers + per_fragment * fragment_registers + generation
    ),
    # S8
    "where(plane_bytes + 4 * M * N <= l2_size, 0, plane_bytes + 4 * M * N)": (
        lambda plane_bytes, M, N, l2_size: where(plane_bytes + 4 * M * N <= l2_size, 0, plane_bytes + 4 * M * N)
    ),
    # S9
    "(WM + WN) * WK / warp_size * words * split_behind + 2 * products * WM * WN * WK / (FM * FN * FK) + stage_instructions": (
        lambda WM, WN, WK, warp_size, words, split_behind, products, FM, FN, FK, stage_instructions: (WM + WN) * WK / warp_size * words * split_behind
        + 2 * products * WM * WN * WK / (FM * FN * FK) + stage_instructions
    ),
    # S10
    "max(warps * warp_instructions / (partitions * issue_efficiency), tensor_cycles, l2_cycles)": (
        lambda warps, warp_instructions, partitions, issue_efficiency, tensor_cycles, l2_cycles: max(warps * warp_instructions / (partitions *
        issue_efficiency), tensor_cycles, l2_cycles)
    ),
    # S11
    "max(warp_instructions * cycles_per_instruction, memory_cycles / (stages - 1))": (
        lambda warp_instructions, cycles_per_instruction, memory_cycles, stages: max(warp_instructions * cycles_per_instruction, memory_cycles /
        (stages - 1))
    ),
    # D14
    "max(resident_blocks * block_cycles, alone_cycles)": (
        lambda resident_blocks, block_cycles, alone_cycles: max(resident_blocks * block_cycles, alone_cycles)
    ),
    # D15
    "max(tail_blocks * block_cycles, alone_cycles)": (
        lambda tail_blocks, block_cycles, alone_cycles: max(tail_blocks * block_cycles, alone_cycles)
    ),
    # D16
    "BM * BN * (1 + BK / WK) * store_cycles_per_element": (
        lambda BM, BN, BK, WK, store_cycles_per_element: BM * BN * (1 + BK / WK) * store_cycles_per_element
    ),
    # S15
    (
    "full_waves * (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles) + where(tail_blocks > 0, start_cycles +"
    " memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0) + gather_cycles"): (
        lambda full_waves, start_cycles, memory_cycles, stages_k, stage_cycles, resident_blocks, store_cycles, tail_blocks, tail_cycles,
        gather_cycles: full_waves * (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles) + where(tail_blocks > 0,
        start_cycles + memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0) + gather_cycles
    ),
    # S16
    "max(kernel_cycles / clock_hz, dram_bytes / once_rate)": (
        lambda kernel_cycles, clock_hz, dram_bytes, once_rate: max(kernel_cycles / clock_hz, dram_bytes / once_rate)
    ),
    # D21
    "kernel_seconds + one_launch_seconds": (
        lambda kernel_seconds, one_launch_seconds: kernel_seconds + one_launch_seconds
    ),
    # C31
    "(WK % FK == 0) & (BK % WK == 0)": (
        lambda WK, FK, BK: (WK % FK == 0) & (BK % WK == 0)
    ),
    # C33
    "(promote == 0) | ((promote % FK == 0) & ((WK % max(promote, 1) == 0) | (promote % WK == 0)))": (
        lambda promote, FK, WK: (promote == 0) | ((promote % FK == 0) & ((WK % max(promote, 1) == 0) | (promote % WK == 0)))
    ),
    # C18
    "(split_reads == 1) & (tile_k == 0)": (
        lambda split_reads, tile_k: (split_reads == 1) & (tile_k == 0)
    ),
    # C57
    "demand <= register_budget": (
        lambda demand, register_budget: demand <= register_budget
    ),
    # Q36
    "batch * (M + N) * K * moved_bytes": (
        lambda batch, M, N, K, moved_bytes: batch * (M + N) * K * moved_bytes
    ),
    # Q37
    "max(1, sms * resident_blocks / (wave_rows * wave_columns))": (
        lambda sms, resident_blocks, wave_rows, wave_columns: max(1, sms * resident_blocks / (wave_rows * wave_columns))
    ),
    # Q38
    (
    "4 * batch * M * N + where(plane_bytes + 4 * batch * M * N <= l2_size, 0, max(plane_bytes, waves * wave_products * (wave_rows * BM + "
    "wave_columns * BN) * K * moved_bytes))"): (
        lambda batch, M, N, plane_bytes, l2_size, waves, wave_products, wave_rows, BM, wave_columns, BN, K, moved_bytes: 4 * batch * M * N +
        where(plane_bytes + 4 * batch * M * N <= l2_size, 0, max(plane_bytes, waves * wave_products * (wave_rows * BM + wave_columns * BN) * K *
        moved_bytes))
    ),
    # Q39
    (
    "batch * (where(split_shared + split_register > 0, 0, K * (M * (4 * split_reads + words_a * word_bytes) + N * (b_bytes * split_reads + words_b "
    "* word_bytes))))"): (
        lambda batch, split_shared, split_register, K, M, split_reads, words_a, word_bytes, N, b_bytes, words_b: batch * where(split_shared +
        split_register > 0, 0, K * (M * (4 * split_reads + words_a * word_bytes) + N * (b_bytes * split_reads + words_b * word_bytes)))
    ),
    # B1
    "where((promote > 0) & (promoted_sums > 0) & ((sums + promoted_sums) * BN <= 512), 2, 1)": (
        lambda promote, promoted_sums, sums, BN: where(((promote > 0) & (promoted_sums > 0)) & ((sums + promoted_sums) * BN <= 512), 2, 1)
    ),
    # B2
    "(sums + where(promote > 0, promoted_sums, 0) * (buffers - 1)) * BN": (
        lambda sums, promote, promoted_sums, buffers, BN: (sums + where(promote > 0, promoted_sums, 0) * (buffers - 1)) * BN
    ),
    # B3
    "stages * (stage_bytes + 16) + 8 * (2 * buffers + 3) + where(split_k > 1, 8 * groups, 0)": (
        lambda stages, stage_bytes, buffers, split_k, groups: stages * (stage_bytes + 16) + 8 * (2 * buffers + 3) + where(split_k > 1, 8 * groups, 0)
    ),
    # B10
    "where(promote > 0, min(240, 8 * floor((registers * (groups + 1) - producer_registers) / groups / 8)), registers)": (
        lambda promote, registers, groups, producer_registers: where(promote > 0, min(240, 8 * floor((registers * (groups + 1) - producer_registers) /
        groups / 8)), registers)
    ),
    # B11
    "where(columns <= 32, 32, where(columns <= 64, 64, where(columns <= 128, 128, where(columns <= 256, 256, 512))))": (
        lambda columns: where(columns <= 32, 32, where(columns <= 64, 64, where(columns <= 128, 128, where(columns <= 256, 256, 512))))
    ),
    # B12
    "min(max(resident_blocks, 1), floor(512 / allocated_columns)) * sms": (
        lambda resident_blocks, allocated_columns, sms: min(max(resident_blocks, 1), floor(512 / allocated_columns)) * sms
    ),
    # B4
    "BK * word_bytes * products * (BM + BN)": (
        lambda BK, word_bytes, products, BM, BN: BK * word_bytes * products * (BM + BN)
    ),
    # B5
    "where(promote > 0, promoted_sums * BM * BN / f32_fma_per_clock + drain_wait, 0)": (
        lambda promote, promoted_sums, BM, BN, f32_fma_per_clock, drain_wait: where(promote > 0, promoted_sums * BM * BN / f32_fma_per_clock +
        drain_wait, 0)
    ),
    # B6
    (
    "where(promote > 0, BK / max(promote, 1) * where(buffers > 1, drain_cycles, drain_cycles + products_moving * BM * BN * promote / "
    "(tensor_fma_per_clock * mma_efficiency)), 0)"): (
        lambda promote, BK, buffers, drain_cycles, products_moving, BM, BN, tensor_fma_per_clock, mma_efficiency: where(promote > 0, BK / max(promote,
        1) * where(buffers > 1, drain_cycles, drain_cycles + products_moving * BM * BN * promote / (tensor_fma_per_clock * mma_efficiency)), 0)
    ),
    # B7
    "max(tensor_cycles, shared_cycles, l2_cycles, chain_cycles, latency_cycles) + stage_wait": (
        lambda tensor_cycles, shared_cycles, l2_cycles, chain_cycles, latency_cycles, stage_wait: max(tensor_cycles, shared_cycles, l2_cycles,
        chain_cycles, latency_cycles) + stage_wait
    ),
    # B8
    (
    "max(0, store_cycles * BM * BN - stages_k * stage_cycles) + where(sums > where(promote > 0, promoted_sums, 0), sums * BM * BN / "
    "f32_fma_per_clock, 0)"): (
        lambda store_cycles, BM, BN, stages_k, stage_cycles, sums, promote, promoted_sums, f32_fma_per_clock: max(0, store_cycles * BM * BN - stages_k
        * stage_cycles) + where(sums > where(promote > 0, promoted_sums, 0), sums * BM * BN / f32_fma_per_clock, 0)
    ),
    # B9
    (
    "turns * (stages_k * stage_cycles + turn_cycles) + turn_cycles_each + store_cycles * BM * BN + where(split_k > 1, turns * (4 * BM * BN * "
    "(split_k + 1) / l2_bytes_per_clock + memory_cycles), 0)"): (
        lambda turns, stages_k, stage_cycles, turn_cycles, turn_cycles_each, store_cycles, BM, BN, split_k, l2_bytes_per_clock, memory_cycles: turns *
        (stages_k * stage_cycles + turn_cycles) + turn_cycles_each + store_cycles * BM * BN + where(split_k > 1, turns * (4 * BM * BN * (split_k + 1)
        / l2_bytes_per_clock + memory_cycles), 0)
    ),
    # C26
    "(BM == FM) & (WM == BM) & (BN <= 256)": (
        lambda BM, FM, WM, BN: ((BM == FM) & (WM == BM)) & (BN <= 256)
    ),
    # C27
    "columns <= 512": (
        lambda columns: columns <= 512
    ),
    # D1
    "min(BM, BN)": (
        lambda BM, BN: min(BM, BN)
    ),
    # D2
    "where(BM < BN, b_strided, a_strided)": (
        lambda BM, BN, b_strided, a_strided: where(BM < BN, b_strided, a_strided)
    ),
    # D3
    "where(BM < BN, WN, WM)": (
        lambda BM, BN, WN, WM: where(BM < BN, WN, WM)
    ),
    # D4
    "where(large_strided > 0, warp_size / 8, 8)": (
        lambda large_strided, warp_size: where(large_strided > 0, warp_size / 8, 8)
    ),
    # D5
    "warp_rows * lanes_k / warp_size": (
        lambda warp_rows, lanes_k, warp_size: warp_rows * lanes_k / warp_size
    ),
    # D6
    "max(8 * thin * (BK + 4) + 16 * threads * stages * lane_rows, 4 * BM * BN * BK / WK)": (
        lambda thin, BK, threads, stages, lane_rows, BM, BN, WK: max(8 * thin * (BK + 4) + 16 * threads * stages * lane_rows, 4 * BM * BN * BK / WK)
    ),
    # D7
    "thin * lane_rows": (
        lambda thin, lane_rows: thin * lane_rows
    ),
    # D8
    "4 * lane_rows": (
        lambda lane_rows: 4 * lane_rows
    ),
    # D9
    "per_sum * accumulator_registers + per_raw * raw_registers + where(large_strided > 0, generation_strided, generation)": (
        lambda per_sum, accumulator_registers, per_raw, raw_registers, large_strided, generation_strided, generation: per_sum * accumulator_registers
        + per_raw * raw_registers + where(large_strided > 0, generation_strided, generation)
    ),
    # D20
    "where(plane_bytes + 4 * M * N <= l2_size, 0, 4 * (where(BM < BN, ceil(M / BM) * N + M, ceil(N / BN) * M + N) * K + M * N))": (
        lambda plane_bytes, M, N, l2_size, BM, BN, K: where(plane_bytes + 4 * M * N <= l2_size, 0, 4 * (where(BM < BN, ceil(M / BM) * N + M, ceil(N /
        BN) * M + N) * K + M * N))
    ),
    # D11
    "WK / (4 * lanes_k) * (4 * thin * lane_rows + thin + 4 * lane_rows + stage_instructions) + 2 * thin * BK / threads": (
        lambda WK, lanes_k, thin, lane_rows, stage_instructions, BK, threads: WK / (4 * lanes_k) * (4 * thin * lane_rows + thin + 4 * lane_rows +
        stage_instructions) + 2 * thin * BK / threads
    ),
    # D12
    "max(warps * warp_instructions / (partitions * issue_efficiency), l2_cycles)": (
        lambda warps, warp_instructions, partitions, issue_efficiency, l2_cycles: max(warps * warp_instructions / (partitions * issue_efficiency),
        l2_cycles)
    ),
    # D13
    "max(warp_instructions * cycles_per_instruction, WK / (4 * lanes_k) * memory_cycles / (stages - 1))": (
        lambda warp_instructions, cycles_per_instruction, WK, lanes_k, memory_cycles, stages: max(warp_instructions * cycles_per_instruction, WK / (4
        * lanes_k) * memory_cycles / (stages - 1))
    ),
    # D17
    (
    "full_waves * (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles) + where(tail_blocks > 0, start_cycles +"
    " memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0)"): (
        lambda full_waves, start_cycles, memory_cycles, stages_k, stage_cycles, resident_blocks, store_cycles, tail_blocks, tail_cycles: full_waves *
        (start_cycles + memory_cycles + stages_k * stage_cycles + resident_blocks * store_cycles) + where(tail_blocks > 0, start_cycles +
        memory_cycles + stages_k * tail_cycles + tail_blocks * store_cycles, 0)
    ),
    # D18
    "min(resident_blocks, blocks / sms) * warps * warp_size * lane_rows * 16 * (stages - 1)": (
        lambda resident_blocks, blocks, sms, warps, warp_size, lane_rows, stages: min(resident_blocks, blocks / sms) * warps * warp_size * lane_rows *
        16 * (stages - 1)
    ),
    # D19
    (
    "max(kernel_cycles / clock_hz, dram_bytes / min(once_rate, sms * flying_bytes * clock_hz / memory_cycles) + exposed_share * kernel_cycles / "
    "clock_hz) + where(split_k > 1, gather_cycles / clock_hz, 0)"): (
        lambda kernel_cycles, clock_hz, dram_bytes, once_rate, sms, flying_bytes, memory_cycles, exposed_share, split_k, gather_cycles:
        max(kernel_cycles / clock_hz, dram_bytes / min(once_rate, sms * flying_bytes * clock_hz / memory_cycles) + exposed_share * kernel_cycles /
        clock_hz) + where(split_k > 1, gather_cycles / clock_hz, 0)
    ),
    # C50
    "(thin == 1) | (thin == 2) | (thin == 4) | (thin == 8) | (thin == 16)": (
        lambda thin: ((((thin == 1) | (thin == 2)) | (thin == 4)) | (thin == 8)) | (thin == 16)
    ),
    # C51
    "where(BM < BN, WM, WN) == thin": (
        lambda BM, BN, WM, WN, thin: where(BM < BN, WM, WN) == thin
    ),
    # C52
    "(lane_rows >= 1) & (lane_rows % where(large_strided > 0, 4, 1) == 0)": (
        lambda lane_rows, large_strided: (lane_rows >= 1) & (lane_rows % where(large_strided > 0, 4, 1) == 0)
    ),
    # C53
    "max(BM, BN) % warp_rows == 0": (
        lambda BM, BN, warp_rows: max(BM, BN) % warp_rows == 0
    ),
    # C54
    "(WK % (4 * lanes_k) == 0) & (WK >= 4 * lanes_k * (stages - 1)) & (BK % WK == 0)": (
        lambda WK, lanes_k, stages, BK: ((WK % (4 * lanes_k) == 0) & (WK >= 4 * lanes_k * (stages - 1))) & (BK % WK == 0)
    ),
    # K2
    "ceil(M / (BM * cluster))": (
        lambda M, BM, cluster: ceil(M / (BM * cluster))
    ),
    # K3
    "cluster * triangle_rows - ceil(N / BN)": (
        lambda cluster, triangle_rows, N, BN: cluster * triangle_rows - ceil(N / BN)
    ),
    # K4
    "batch * cluster * (cluster * triangle_rows * (triangle_rows + 1) / 2 - triangle_short)": (
        lambda batch, cluster, triangle_rows, triangle_short: batch * cluster * (cluster * triangle_rows * (triangle_rows + 1) / 2 - triangle_short)
    ),
    # T12
    "(M + where(words_a == words_b, 0, N)) * K * moved_bytes": (
        lambda M, words_a, words_b, N, K, moved_bytes: (M + where(words_a == words_b, 0, N)) * K * moved_bytes
    ),
    # T14
    (
    "where(split_shared + split_register > 0, 0, K * (M * (4 * split_reads + words_a * word_bytes) + where(words_a == words_b, 0, N) * (b_bytes * "
    "split_reads + words_b * word_bytes)))"): (
        lambda split_shared, split_register, K, M, split_reads, words_a, word_bytes, words_b, N, b_bytes: where(split_shared + split_register > 0, 0,
        K * (M * (4 * split_reads + words_a * word_bytes) + where(words_a == words_b, 0, N) * (b_bytes * split_reads + words_b * word_bytes)))
    ),
    # K1
    "BM == BN": (
        lambda BM, BN: BM == BN
    ),
    # K7
    "ceil(2 * ceil(K / BK) / split_k)": (
        lambda K, BK, split_k: ceil(2 * ceil(K / BK) / split_k)
    ),
    # K6
    "ceil((ceil(K / BK) + BM * cluster / BK) / 2 / split_k)": (
        lambda K, BK, BM, cluster, split_k: ceil((ceil(K / BK) + BM * cluster / BK) / 2 / split_k)
    ),
    # K4
    "batch * cluster * (cluster * triangle_rows * (triangle_rows + 1) / 2 - triangle_short * triangle_rows)": (
        lambda batch, cluster, triangle_rows, triangle_short: batch * cluster * (cluster * triangle_rows * (triangle_rows + 1) / 2 - triangle_short *
        triangle_rows)
    ),
    # K6
    "ceil((ceil(K / BK) + BN / BK) / 2 / split_k)": (
        lambda K, BK, BN, split_k: ceil((ceil(K / BK) + BN / BK) / 2 / split_k)
    ),
    # Q9
    "K * (M + where(words_a == words_b, 0, N)) * moduli": (
        lambda K, M, words_a, words_b, N, moduli: K * (M + where(words_a == words_b, 0, N)) * moduli
    ),
    # Q11
    "K * (M + where(words_a == words_b, 0, N)) * (pass_bytes + where(2 * plane_bytes <= l2_size, 0, moduli))": (
        lambda K, M, words_a, words_b, N, pass_bytes, plane_bytes, l2_size, moduli: K * (M + where(words_a == words_b, 0, N)) * (pass_bytes + where(2
        * plane_bytes <= l2_size, 0, moduli))
    ),
    # Q28
    "(M + where(words_a == words_b, 0, N)) * K * moduli": (
        lambda M, words_a, words_b, N, K, moduli: (M + where(words_a == words_b, 0, N)) * K * moduli
    ),
    # Q30
    "K * (M + where(words_a == words_b, 0, N)) * (pass_bytes + moduli)": (
        lambda K, M, words_a, words_b, N, pass_bytes, moduli: K * (M + where(words_a == words_b, 0, N)) * (pass_bytes + moduli)
    ),
    # W20
    "batch * K * (M * a_bytes + where(words_a == words_b, 0, N) * b_word_bytes)": (
        lambda batch, K, M, a_bytes, words_a, words_b, N, b_word_bytes: batch * K * (M * a_bytes + where(words_a == words_b, 0, N) * b_word_bytes)
    ),
    # W22
    (
    "batch * K * (split_passes * (4 * where(mixed > 0, 0, M) + b_bytes * where(words_a == words_b, 0, N)) + where(2 * plane_bytes <= l2_size, 0, "
    "where(mixed > 0, 0, M) * a_word_bytes + where(words_a == words_b, 0, N) * b_word_bytes))"): (
        lambda batch, K, split_passes, mixed, M, b_bytes, words_a, words_b, N, plane_bytes, l2_size, a_word_bytes, b_word_bytes: batch * K *
        (split_passes * (4 * where(mixed > 0, 0, M) + b_bytes * where(words_a == words_b, 0, N)) + where(2 * plane_bytes <= l2_size, 0, where(mixed >
        0, 0, M) * a_word_bytes + where(words_a == words_b, 0, N) * b_word_bytes))
    ),
    # W30
    (
    "2 * products * tiles * BM * BN * (stages_k * split_k * BK) / unit_rate * max(1, moving_cycles / tensor_cycles) * where((compensated > 0) & "
    "(cluster > 1), 1 + clustered, 1) * where((BM == WM) & (BN == WN), 1 + alone, 1)"): (
        lambda products, tiles, BM, BN, stages_k, split_k, BK, unit_rate, moving_cycles, tensor_cycles, compensated, cluster, clustered, WM, WN,
        alone: 2 * products * tiles * BM * BN * (stages_k * split_k * BK) / unit_rate * max(1, moving_cycles / tensor_cycles) * where((compensated >
        0) & (cluster > 1), 1 + clustered, 1) * where((BM == WM) & (BN == WN), 1 + alone, 1)
    ),
    # E1
    "u * sqrt(K / (16 * ln2))": (
        lambda u, K, ln2: u * sqrt(K / (16 * ln2))
    ),
    # E2
    (
    "where(to_nearest > 0, u * sqrt(sums_in_unit * promote / unit_block / (16 * ln2)), u / (2 * ln2) * sums_in_unit * promote / unit_block / "
    "sqrt(3))"): (
        lambda to_nearest, u, sums_in_unit, promote, unit_block, ln2: where(to_nearest > 0, u * sqrt(sums_in_unit * promote / unit_block / (16 *
        ln2)), u / (2 * ln2) * sums_in_unit * promote / unit_block / sqrt(3))
    ),
    # E3
    "u * sqrt(K / promote / (16 * ln2))": (
        lambda u, K, promote, ln2: u * sqrt(K / promote / (16 * ln2))
    ),
    # E4
    "sqrt(unit_error**2 + promotion_error**2)": (
        lambda unit_error, promotion_error: sqrt(unit_error**2 + promotion_error**2)
    ),
    # E5
    "K * sign_share / (K * sign_share + 1 - sign_share)": (
        lambda K, sign_share: K * sign_share / (K * sign_share + 1 - sign_share)
    ),
    # E6
    "1 / (K * sign_share + 1 - sign_share)": (
        lambda K, sign_share: 1 / (K * sign_share + 1 - sign_share)
    ),
    # E7
    "products * ceil(chunk / unit_block)": (
        lambda products, chunk, unit_block: products * ceil(chunk / unit_block)
    ),
    # E8
    "ceil(K / chunk)": (
        lambda K, chunk: ceil(K / chunk)
    ),
    # E24
    (
    "cut / (2 * ln2) * (steps + 1) / 2 + term_cut * unit_block / (4 * ln2) * (steps * signed_products / products + 1) / 2 * max(0, 1 - term_slack /"
    " chunk)**2"): (
        lambda cut, ln2, steps, term_cut, unit_block, signed_products, products, term_slack, chunk: cut / (2 * ln2) * (steps + 1) / 2 + term_cut *
        unit_block / (4 * ln2) * (steps * signed_products / products + 1) / 2 * max(0, 1 - term_slack / chunk)**2
    ),
    # E9
    (
    "where(to_nearest > 0, u * sqrt(steps / (24 * ln2 * chunks)) + downwards * steps / (4 * ln2) + swallowed, max(cut_coherent - mean_cut, mean_cut"
    " - cut_coherent))"): (
        lambda to_nearest, u, steps, ln2, chunks, downwards, swallowed, cut_coherent, mean_cut: where(to_nearest > 0, u * sqrt(steps / (24 * ln2 *
        chunks)) + downwards * steps / (4 * ln2) + swallowed, max(cut_coherent - mean_cut, mean_cut - cut_coherent))
    ),
    # E10
    (
    "where(to_nearest > 0, u * sqrt(((steps + 1) / 2 + levels * products) / (8 * ln2)) + downwards * steps / (4 * ln2), where(mean_cut > 0, "
    "sqrt((cut / (2 * ln2))**2 * (steps**2 - 1) / 12 + (cut**2 + 0.35 * term_cut**2 * unit_block) * (steps + 1) / (16 * ln2)), sqrt((cut / (2 * "
    "ln2))**2 * (steps + 1) * (2 * steps + 1) / 6 + (cut**2 + term_cut**2 * unit_block * max(0, 1 - term_slack / sqrt(chunk))) * (steps + 1) / (16 "
    "* ln2))))"): (
        lambda to_nearest, u, steps, levels, products, ln2, downwards, mean_cut, cut, term_cut, unit_block, term_slack, chunk: where(to_nearest > 0, u
        * sqrt(((steps + 1) / 2 + levels * products) / (8 * ln2)) + downwards * steps / (4 * ln2), where(mean_cut > 0, sqrt((cut / (2 * ln2))**2 *
        (steps**2 - 1) / 12 + (cut**2 + 0.35 * term_cut**2 * unit_block) * (steps + 1) / (16 * ln2)), sqrt((cut / (2 * ln2))**2 * (steps + 1) * (2 *
        steps + 1) / 6 + (cut**2 + term_cut**2 * unit_block * max(0, 1 - term_slack / sqrt(chunk))) * (steps + 1) / (16 * ln2))))
    ),
    # E11
    "where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**-16 * chunks, sqrt(chunks / (24 * ln2))), 0), 0)": (
        lambda promoted, chunks, u, compensated, ln2: where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**(-16)
        * chunks, sqrt(chunks / (24 * ln2))), 0), 0)
    ),
    # E12
    (
    "where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**-16 * chunks, sqrt((chunks + 1) / (16 * ln2))), 0), "
    "0)"): (
        lambda promoted, chunks, u, compensated, ln2: where(promoted > 0, where(chunks > 1, u * where(compensated > 0, sqrt(1 / (8 * ln2)) + 2**(-16)
        * chunks, sqrt((chunks + 1) / (16 * ln2))), 0), 0)
    ),
    # E13
    "sqrt(words_bias**2 + words_scatter**2 * scattered)": (
        lambda words_bias, words_scatter, scattered: sqrt(words_bias**2 + words_scatter**2 * scattered)
    ),
    # E14
    "sqrt(coherence * sums_coherent**2 + (1 - coherence) * sums_random**2 + scattered * low_sums**2)": (
        lambda coherence, sums_coherent, sums_random, scattered, low_sums: sqrt(coherence * sums_coherent**2 + (1 - coherence) * sums_random**2 +
        scattered * low_sums**2)
    ),
    # E15
    "u * sqrt(last_roundings / (8 * ln2))": (
        lambda u, last_roundings, ln2: u * sqrt(last_roundings / (8 * ln2))
    ),
    # E16
    "output_roundoff * sqrt(1 / (8 * ln2))": (
        lambda output_roundoff, ln2: output_roundoff * sqrt(1 / (8 * ln2))
    ),
    # E17
    "sqrt(words_error**2 + sums_error**2 + recombination_error**2 + stored_error**2)": (
        lambda words_error, sums_error, recombination_error, stored_error: sqrt(words_error**2 + sums_error**2 + recombination_error**2 +
        stored_error**2)
    ),
    # E20
    "remainder_a + remainder_b + remainder_a * remainder_b + dropped_worst": (
        lambda remainder_a, remainder_b, dropped_worst: remainder_a + remainder_b + remainder_a * remainder_b + dropped_worst
    ),
    # E21
    (
    "where(cuts > 0, steps * (2 * sum_u + (unit_block + 1) * term_cut), steps * u + products * (levels * u + where(floors > 0, steps / products * "
    "(2**-31 + 2**-32) + (unit_block + 1) * term_cut, 0))) + where(promoted > 0, (chunks + compensated) * u + mean_cut * (1 + u), 0)"): (
        lambda cuts, steps, sum_u, unit_block, term_cut, u, products, levels, floors, promoted, chunks, compensated, mean_cut: where(cuts > 0, steps *
        (2 * sum_u + (unit_block + 1) * term_cut), steps * u + products * (levels * u + where(floors > 0, steps / products * (2**(-31) + 2**(-32)) +
        (unit_block + 1) * term_cut, 0))) + where(promoted > 0, (chunks + compensated) * u + mean_cut * (1 + u), 0)
    ),
    # E22
    "split_worst + sums_worst + (roundings + 1) * u + output_roundoff * (1 + split_worst + sums_worst + (roundings + 1) * u)": (
        lambda split_worst, sums_worst, roundings, u, output_roundoff: split_worst + sums_worst + (roundings + 1) * u + output_roundoff * (1 +
        split_worst + sums_worst + (roundings + 1) * u)
    ),
    # E23
    "sqrt(2 * min(K, segment_k) / 12) / residue_target": (
        lambda K, segment_k, residue_target: sqrt(2 * min(K, segment_k) / 12) / residue_target
    ),
    # E18
    "estimate / fp32_estimate": (
        lambda estimate, fp32_estimate: estimate / fp32_estimate
    ),
    # E19
    "safety * sqrt(coherence * coherent**2 + scattered * random**2) + output_roundoff": (
        lambda safety, coherence, coherent, scattered, random, output_roundoff: safety * sqrt(coherence * coherent**2 + scattered * random**2) +
        output_roundoff
    ),
    # Y1
    "end_operations * batch * M * N / (f32_fma_per_clock * sms * clock_hz)": (
        lambda end_operations, batch, M, N, f32_fma_per_clock, sms, clock_hz: end_operations * batch * M * N / (f32_fma_per_clock * sms * clock_hz)
    ),
    # Y2
    "4 * batch * (end_over_n * N + end_over_m * M)": (
        lambda batch, end_over_n, N, end_over_m, M: 4 * batch * (end_over_n * N + end_over_m * M)
    ),
    # Y3
    "launch_seconds + (8 * batch * M * N + end_bytes) / dram_rate": (
        lambda launch_seconds, batch, M, N, end_bytes, dram_rate: launch_seconds + (8 * batch * M * N + end_bytes) / dram_rate
    ),
    # LE-GEMM eq. 12
    "M * N / (BM * BN) * (threads / warp_size) * T_threads": (
        lambda M, N, BM, BN, threads, warp_size, T_threads: M * N / (BM * BN) * (threads / warp_size) * T_threads
    ),
    # LE-GEMM eq. 13
    "2 * 2 * (BM * BK + BK * BN)": (
        lambda BM, BK, BN: 2 * 2 * (BM * BK + BK * BN)
    ),
    # LE-GEMM eq. 14
    "3 * 2 * BM * BN * BK": (
        lambda BM, BN, BK: 3 * 2 * BM * BN * BK
    ),
    # LE-GEMM eq. 15
    "3 * BM * BN / (2 * (BM + BN))": (
        lambda BM, BN: 3 * BM * BN / (2 * (BM + BN))
    ),
    # LE-GEMM eq. 16
    "(BM * BN + BM * BK + BK * BN) / Work_num": (
        lambda BM, BN, BK, Work_num: (BM * BN + BM * BK + BK * BN) / Work_num
    ),
    # LE-GEMM eq. 17
    "BM * BN / Work_num": (
        lambda BM, BN, Work_num: BM * BN / Work_num
    ),
    # EGEMM eq. 1, not cached
    "4 * WM * WN * WK / FK": (
        lambda WM, WN, WK, FK: 4 * WM * WN * WK / FK
    ),
    # EGEMM eq. 1, cached
    "4 * WM * WN": (
        lambda WM, WN: 4 * WM * WN
    ),
    # EGEMM eq. 2
    "4 * (BM + BN) * BK": (
        lambda BM, BN, BK: 4 * (BM + BN) * BK
    ),
    # EGEMM eq. 3
    "8 * BM * BN * BK": (
        lambda BM, BN, BK: 8 * BM * BN * BK
    ),
    # EGEMM eq. 4
    "2 * BM * BN / (BM + BN)": (
        lambda BM, BN: 2 * BM * BN / (BM + BN)
    ),
    # EGEMM eq. 5
    "2 * BM * BN * BK * 4 / (2 * 16 * 8 * 8 * 4) * T_HMMA": (
        lambda BM, BN, BK, T_HMMA: 2 * BM * BN * BK * 4 / (2 * 16 * 8 * 8 * 4) * T_HMMA
    ),
    # EGEMM eq. 6
    "2 * (BM + BN) * BK * 2 / (32 * 16) * (T_LDG128 + T_STS128)": (
        lambda BM, BN, BK, T_LDG128, T_STS128: 2 * (BM + BN) * BK * 2 / (32 * 16) * (T_LDG128 + T_STS128)
    ),
    # EGEMM eq. 7
    "BM * BN * BK / (WM * WN * WK) * (WM / 8 + WM / 8 + WN / 8 + WN / 8) * T_LDS32": (
        lambda BM, BN, BK, WM, WN, WK, T_LDS32: BM * BN * BK / (WM * WN * WK) * (WM / 8 + WM / 8 + WN / 8 + WN / 8) * T_LDS32
    ),
    # EGEMM eq. 8, registers
    "4 * BM * BN + 4 * (BM + BN) * BK": (
        lambda BM, BN, BK: 4 * BM * BN + 4 * (BM + BN) * BK
    ),
    # EGEMM eq. 8, shared memory
    "2 * (BM + BN) * (BK + 8) * 2": (
        lambda BM, BN, BK: 2 * (BM + BN) * (BK + 8) * 2
    ),
    # WMMAe eq. 1
    "2 * n**3 / (2 * n**2 * 2 + 2 * n**2 * 4)": (
        lambda n: 2 * n**3 / (2 * n**2 * 2 + 2 * n**2 * 4)
    ),
    # WMMAe eq. 2
    "(2 * n**2 / 2 + n**2) / 32": (
        lambda n: (2 * n**2 / 2 + n**2) / 32
    ),
    # EGEMM eq. 8, time
    "T_mem1 + T_mem2 <= T_comp": (
        lambda T_mem1, T_mem2, T_comp: T_mem1 + T_mem2 <= T_comp
    ),
    # M24
    "sgemm_start + batch * (2 * M * N * K / sgemm_rate + 4 * (M * K + K * N + M * N) / dram_rate)": (
        lambda sgemm_start, batch, M, N, K, sgemm_rate, dram_rate: sgemm_start + batch * (2 * M * N * K / sgemm_rate + 4 * (M * K + K * N + M * N) /
        dram_rate)
    ),
    # M25
    "native_start + 2 * M * N * K / native_rate + 8 * (M * K + K * N + M * N) / dram_rate": (
        lambda native_start, M, N, K, native_rate, dram_rate: native_start + 2 * M * N * K / native_rate + 8 * (M * K + K * N + M * N) / dram_rate
    ),
    # C10
    (
    "floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN "
    "* where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN * "
    "where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0, "
    "min(16, 1/8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1/8 * BK "
    "* word_bytes), 0)))"): (
        lambda shared_bytes_per_block, uncached, BM, BN, sums, tile_k, BK, split_register, word_bytes, words_a, words_b, padding, padded:
        floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN
        * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN *
        where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0,
        min(16, 1 / 8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1 / 8 *
        BK * word_bytes), 0)))
    ),
    # C10
    (
    "floor((shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0)) / (16 + BK * BM * where(mixed"
    " > 0, 4, a_word_bytes) + BK * BN * b_word_bytes + where(run > 0, 8, where(tile_k > 0, floor(4 * BK * BM / max(1, tile_k) + 4 * BK * BN / "
    "max(1, tile_k)), 0))))"): (
        lambda shared_bytes_per_block, split_k, BM, BN, WM, WN, pingpong, BK, mixed, a_word_bytes, b_word_bytes, run, tile_k:
        floor((shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0)) / (16 + BK * BM * where(mixed
        > 0, 4, a_word_bytes) + BK * BN * b_word_bytes + where(run > 0, 8, where(tile_k > 0, floor(4 * BK * BM / max(1, tile_k) + 4 * BK * BN / max(1,
        tile_k)), 0))))
    ),
    # C10
    "floor(shared_bytes_per_block / (16 + BK * BM + BK * BN))": (
        lambda shared_bytes_per_block, BK, BM, BN: floor(shared_bytes_per_block / (16 + BK * BM + BK * BN))
    ),
    # C10
    (
    "floor((-24 + shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0) + ((-16) * "
    "where((promote > 0) & (promoted_sums > 0) & (BN * promoted_sums + BN * sums <= 512), 2, 1))) / (16 + BK * BM * where(mixed > 0, 4, "
    "a_word_bytes) + BK * BN * b_word_bytes))"): (
        lambda shared_bytes_per_block, split_k, BM, BN, WM, WN, pingpong, promote, promoted_sums, sums, BK, mixed, a_word_bytes, b_word_bytes:
        floor((-24 + shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0) + ((-16) *
        where(((promote > 0) & (promoted_sums > 0)) & (BN * promoted_sums + BN * sums <= 512), 2, 1))) / (16 + BK * BM * where(mixed > 0, 4,
        a_word_bytes) + BK * BN * b_word_bytes))
    ),
}

# The largest number of stages that C10 leaves, solved for by SymPy, by design.
MOST_STAGES = {
    'cuda_cores':
    (
    "floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN "
    "* where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN * "
    "where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0, "
    "min(16, 1/8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1/8 * BK "
    "* word_bytes), 0)))"),
    'packed':
    (
    "floor((shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0)) / (16 + BK * BM * where(mixed"
    " > 0, 4, a_word_bytes) + BK * BN * b_word_bytes + where(run > 0, 8, where(tile_k > 0, floor(4 * BK * BM / max(1, tile_k) + 4 * BK * BN / "
    "max(1, tile_k)), 0))))"),
    'portable':
    (
    "floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN "
    "* where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN * "
    "where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0, "
    "min(16, 1/8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1/8 * BK "
    "* word_bytes), 0)))"),
    'residues':
    "floor(shared_bytes_per_block / (16 + BK * BM + BK * BN))",
    'residues_portable':
    (
    "floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN "
    "* where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN * "
    "where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0, "
    "min(16, 1/8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1/8 * BK "
    "* word_bytes), 0)))"),
    'specialised':
    (
    "floor((shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0)) / (16 + BK * BM * where(mixed"
    " > 0, 4, a_word_bytes) + BK * BN * b_word_bytes + where(run > 0, 8, where(tile_k > 0, floor(4 * BK * BM / max(1, tile_k) + 4 * BK * BN / "
    "max(1, tile_k)), 0))))"),
    'strided':
    (
    "floor((shared_bytes_per_block - where(uncached > 1, 4 * BM * BN * sums, 0)) / (BM * where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BN "
    "* where(tile_k > 0, floor(4 * BK / max(1, tile_k)), 0) + BK * BM * where(split_register > 0, 4, word_bytes * words_a) + BK * BN * "
    "where(split_register > 0, 4, word_bytes * words_b) + BM * words_a * where(split_register > 0, 0, padding) + BM * words_a * where(padded > 0, "
    "min(16, 1/8 * BK * word_bytes), 0) + BN * words_b * where(split_register > 0, 0, padding) + BN * words_b * where(padded > 0, min(16, 1/8 * BK "
    "* word_bytes), 0)))"),
    'tensor_memory':
    (
    "floor((-24 + shared_bytes_per_block - where(split_k > 1, 8 * BM * BN / WM / WN + 8 * BM * BN * pingpong / WM / WN, 0) + ((-16) * "
    "where((promote > 0) & (promoted_sums > 0) & (BN * promoted_sums + BN * sums <= 512), 2, 1))) / (16 + BK * BM * where(mixed > 0, 4, "
    "a_word_bytes) + BK * BN * b_word_bytes))"),
}
