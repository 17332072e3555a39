"""Launches under ncu, told apart: each contender's between a marker kernel of its own and the next one's."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping

from gemmgen.errors import SpecError

_MARK = "papers_mark_"


def launch_once(contenders: Mapping[str, Callable[[], None]]) -> list[str]:
    """Launch each contender once, its marker before it, while a profiler that waits for it looks on.

    Returns:
        Their names, in order of the markers' numbers.
    """
    import cupy
    from cupyx.profiler import profile

    runtime = cupy.cuda.runtime
    marks = [cupy.RawKernel(f'extern "C" __global__ void {_MARK}{at}() {{}}', f"{_MARK}{at}") for at in range(len(contenders))]
    for enqueue in contenders.values():
        enqueue()  # what a first call sets up is not counted
    runtime.deviceSynchronize()
    with profile():
        for mark, enqueue in zip(marks, contenders.values()):
            mark((1,), (1,), ())
            enqueue()
        runtime.deviceSynchronize()
    return list(contenders)


def read(text: str, names: list[str]) -> dict[str, list[dict[str, float]]]:
    """{contender: [{metric: value} of each of its launches]} of what `ncu --csv --print-units base` printed.

    Raises:
        SpecError: it is not that, or of other contenders.
    """
    start = text.find('"ID"')
    if start < 0:
        raise SpecError("--counts", "has no table of ncu's", needs="what `ncu --csv --print-units base` printed")
    launches: dict[int, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(io.StringIO(text[start:])):
        if row.get("Metric Name"):
            name, found = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
            found[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    told: dict[str, list[dict[str, float]]] = {}
    here = None
    for _, (name, found) in sorted(launches.items()):
        mark = re.search(rf"{_MARK}(\d+)", name)
        if mark and int(mark[1]) >= len(names):
            raise SpecError("--counts", "is of more contenders than were named", got=name, has=f"{len(names)} names")
        if mark:
            here = told.setdefault(names[int(mark[1])], [])
        elif here is not None:
            here.append(found)
    return told
