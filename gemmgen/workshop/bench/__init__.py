"""How fast: generated kernels beside their rivals, in one interleaved run, as ratios.

Times are total: the split pass and every other kernel of the Source counted;
the main kernel alone is a line of its own. Ratios are paired, round by round,
and their interval is the median's distribution-free 95 % interval over the
rounds. Errors are of the same data, against FP64.
"""

from gemmgen.workshop.bench.measure import (
    BASELINES, DATA, TRITON, USUAL, Kernel, baselines, batch_rivals, bench, bench_batches, require_timed, suites, timed_baselines,
)
from gemmgen.workshop.bench.plots import plot
from gemmgen.workshop.bench.statistics import (
    DERIVED, F16, F16_THIRD, SGEMM, BatchRow, Interval, Row, Size, Timed, derived, geometric_means, median_interval, paired, rows_at, worst_cells,
)
from gemmgen.workshop.bench.race_table import Table, as_csv, as_text, by, from_csv

__all__ = [
    "BASELINES", "DATA", "DERIVED", "F16", "F16_THIRD", "SGEMM", "TRITON", "USUAL", "BatchRow", "Interval", "Kernel", "Row", "Size", "Table", "Timed",
    "as_csv", "as_text", "baselines", "batch_rivals", "bench", "bench_batches", "by", "derived", "from_csv", "geometric_means", "median_interval", "paired",
    "plot", "require_timed", "rows_at", "suites", "timed_baselines", "worst_cells",
]
