"""The equations of a strided batch's traffic, where they are not those of one product."""

from __future__ import annotations

from gemmgen.model import traffic
from gemmgen.model.equation import Equation

PLANE_BYTES = Equation("Q36", "plane_bytes", "batch * (M + N) * K * moved_bytes", "B", "T12 of all products")
WAVE_PRODUCTS = Equation(
    "Q37", "wave_products", "where(batch > 1, max(1, sms * resident_blocks / max(1, wave_rows * wave_columns)), 1)", "groups of rows of tiles",
    "of one product or of several, that are at work together",
)
DRAM_BYTES = Equation(
    "Q38", "dram_bytes",
    "4 * batch * M * N + where(plane_bytes + 4 * batch * M * N <= l2_size, 0,"
    " max(plane_bytes, waves * wave_products * (wave_rows * BM + wave_columns * BN) * K * moved_bytes))",
    "B", "T13 of all products",
)
SPLIT_BYTES = Equation("Q39", "split_bytes", f"batch * ({traffic.SPLIT_BYTES.form})", "B", "T14 of all products")
_OWN = {one.symbol: (one,) for one in (PLANE_BYTES, SPLIT_BYTES)} | {"dram_bytes": (WAVE_PRODUCTS, DRAM_BYTES)}
TRAFFIC = tuple(new for one in traffic.PROBLEM_EQUATIONS for new in _OWN.get(one.symbol, (one,)))
