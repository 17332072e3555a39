"""The equations of the papers about one GEMM, as printed, in this model's symbols.

T_M, b_m and their like are BM, BN, BK (block) and WM, WN, WK (warp). They are
kept for comparison: `gemmgen explain` evaluates them beside the model's own,
and docs/model.md says where they return the papers' choice and where not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from gemmgen.model.equation import Constraint, Equation, Numbers, solved

LE_GEMM = (
    Equation("LE-GEMM eq. 12", "T_TLP", "M * N / (BM * BN) * (threads / warp_size) * T_threads", "threads",
             "phi turns blocks into warps; T_threads is 64 on an MI210 and 32 on an A800"),
    Equation("LE-GEMM eq. 13", "T_memory", "2 * 2 * (BM * BK + BK * BN)", "B an iteration", "two words of two bytes"),
    Equation("LE-GEMM eq. 14", "T_flops", "3 * 2 * BM * BN * BK", "FLOP an iteration", "three word products"),
    Equation("LE-GEMM eq. 15", "T_ratio", "3 * BM * BN / (2 * (BM + BN))", "FLOP a byte", "eq. 14 over eq. 13"),
    Equation("LE-GEMM eq. 16", "Work_DL", "(BM * BN + BM * BK + BK * BN) / Work_num", "elements a thread", "loads; Work_num threads"),
    Equation("LE-GEMM eq. 17", "Work_CP", "BM * BN / Work_num", "elements a thread", "computation"),
)
EGEMM = (
    Equation("EGEMM eq. 1, not cached", "C_traffic", "4 * WM * WN * WK / FK", "B a warp", "C goes to shared memory and back"),
    Equation("EGEMM eq. 1, cached", "C_cached", "4 * WM * WN", "B a warp", "C stays in registers"),
    Equation("EGEMM eq. 2", "global_bytes", "4 * (BM + BN) * BK", "B an iteration", "two words of two bytes"),
    Equation("EGEMM eq. 3", "flops", "8 * BM * BN * BK", "FLOP an iteration", "four word products"),
    Equation("EGEMM eq. 4", "ratio", "2 * BM * BN / (BM + BN)", "FLOP a byte", "eq. 3 over eq. 2"),
    Equation("EGEMM eq. 5", "T_comp", "2 * BM * BN * BK * 4 / (2 * 16 * 8 * 8 * 4) * T_HMMA", "cycles", "four matrix units an SM"),
    Equation("EGEMM eq. 6", "T_mem1", "2 * (BM + BN) * BK * 2 / (32 * 16) * (T_LDG128 + T_STS128)", "cycles", "global to shared memory"),
    Equation("EGEMM eq. 7", "T_mem2",
             "BM * BN * BK / (WM * WN * WK) * (WM / 8 + WM / 8 + WN / 8 + WN / 8) * T_LDS32", "cycles", "shared memory to registers"),
    Equation("EGEMM eq. 8, registers", "register_bytes", "4 * BM * BN + 4 * (BM + BN) * BK", "B a block", "C and both operands' words"),
    Equation("EGEMM eq. 8, shared memory", "egemm_shared_bytes", "2 * (BM + BN) * (BK + 8) * 2", "B a block", "padded by 8"),
)
EGEMM_BALANCE = Constraint("EGEMM eq. 8, time", "balance", "T_mem1 + T_mem2 <= T_comp", "memory hides behind computation")
WMMAE = (
    Equation("WMMAe eq. 1", "AI", "2 * n**3 / (2 * n**2 * 2 + 2 * n**2 * 4)", "FLOP a byte",
             "register block (n, n, n), A and B in FP16, C and D in FP32"),
    Equation("WMMAe eq. 2", "block_registers", "(2 * n**2 / 2 + n**2) / 32", "registers a thread", "the same block in a warp's registers"),
)
PAPERS = (*LE_GEMM, *EGEMM, *WMMAE)

LATENCIES = ("T_HMMA", "T_LDG128", "T_STS128", "T_LDS32")
"""Of eqs. 5 to 7; EGEMM-TC prints no values."""


def numbers(known: Numbers) -> dict[str, Any]:
    """The papers' own symbols, from the model's."""
    return {**known, "T_threads": known["warp_size"], "Work_num": known["threads"], "n": known["WN"]}


def evaluated(known: Numbers) -> Iterator[tuple[Equation, Any]]:
    """Each equation with its value at a plan, None where the paper leaves a symbol open."""
    have = numbers(known)
    for equation in PAPERS:
        open_symbols = [name for name in equation.variables if name not in have]
        yield equation, None if open_symbols else equation.value(have)


# ---- what the papers' own rules choose, over tiles of powers of two; gemmgen/solve/papers.py asks them

BLOCKS, DEPTHS = (32, 64, 128, 256), (8, 16, 32, 64)


def egemm_blocks(register_bytes: int, shared_bytes: int) -> list[tuple[float, tuple[int, int, int]]]:
    """Blocks that satisfy eq. 8's two budgets, by eq. 4's ratio, largest first."""
    found = []
    for bm, bn, bk in product(BLOCKS, BLOCKS, DEPTHS):
        known = solved((EGEMM[4], EGEMM[8], EGEMM[9]), {"BM": bm, "BN": bn, "BK": bk})
        if known["register_bytes"] <= register_bytes and known["egemm_shared_bytes"] <= shared_bytes:
            found.append((float(known["ratio"]), (bm, bn, bk)))
    return sorted(found, reverse=True)


def legemm_front(
    register_bytes: int, m: int, n: int, k_step: int, accumulators: int, warp: tuple[int, int] | None = None, threads: int = 0, lanes: int = 32,
) -> list[dict[str, float]]:
    """Blocks whose FP32 accumulators fit the register file, none beaten in both eq. 12 and eq. 15.

    Args:
        register_bytes: of an SM.
        m, n: of the product.
        k_step: T_K, which changes neither.
        accumulators: sums of an element.
        warp: m, n of a warp's tile, which tells how many threads a block has; None where `threads` does.
        threads: of every block, eq. 16's Work_num.
        lanes: threads of a warp, eq. 12's T_threads.
    """
    rows = []
    for bm, bn in product(BLOCKS, BLOCKS):
        if warp and (bm % warp[0] or bn % warp[1]) or 4 * accumulators * bm * bn > register_bytes:
            continue
        own = (bm // warp[0]) * (bn // warp[1]) * lanes if warp else threads
        known = solved((LE_GEMM[0], LE_GEMM[3]), {
            "M": m, "N": n, "BM": bm, "BN": bn, "BK": k_step, "threads": own, "warp_size": lanes, "T_threads": lanes,
        })
        rows.append({"BM": bm, "BN": bn, "tlp": float(known["T_TLP"]), "ratio": float(known["T_ratio"]),
                     "accumulator_bytes": 4 * accumulators * bm * bn})
    return [
        row for row in rows
        if not any(o["tlp"] >= row["tlp"] and o["ratio"] >= row["ratio"] and (o["tlp"], o["ratio"]) != (row["tlp"], row["ratio"])
                   for o in rows)
    ]
