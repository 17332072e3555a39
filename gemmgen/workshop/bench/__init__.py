"""How fast: generated kernels beside their rivals, in one interleaved run, as ratios.

Times are total: the split pass and every other kernel of the Source counted;
the main kernel alone is a line of its own. Ratios are paired, round by round,
and their interval is the median's distribution-free 95 % interval over the
rounds. Errors are of the same data, against FP64.
"""

from gemmgen.workshop.bench.measure import BASELINES, DATA, TRITON, USUAL, Kernel, baselines, bench, require_timed, timed_baselines
from gemmgen.workshop.bench.plots import plot
from gemmgen.workshop.bench.statistics import DERIVED, F16, F16_THIRD, SGEMM, Interval, Row, Size, Timed, derived, median_interval, paired, rows_at
from gemmgen.workshop.bench.table import Table, as_csv, as_text, by, from_csv

__all__ = [
    "BASELINES", "DATA", "DERIVED", "F16", "F16_THIRD", "SGEMM", "TRITON", "USUAL", "Interval", "Kernel", "Row", "Size", "Table", "Timed", "as_csv",
    "as_text", "baselines", "bench", "by", "derived", "from_csv", "median_interval", "paired", "plot", "require_timed", "rows_at", "timed_baselines",
]
