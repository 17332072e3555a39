"""Limits and rates of the GPU at hand, found without its row: the limits are the shipped ones, and rates are the row's or what is known to bind them.

    python -m pytest -q -n0 -s tests/device/test_bringup_rates_gpu.py
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gemmgen.catalog.gpu import GPUS
from gemmgen.workshop.bringup import facts, gpu_row, instructions_of, launch_limits, rates
from gemmgen.workshop.bringup.probe import GpuMachine
from gemmgen.workshop.bringup.session import Session

pytestmark = pytest.mark.device("nvidia")


@pytest.fixture(scope="module")
def session():
    machine = GpuMachine("cuda")
    session = Session(machine, None, "here", instructions_of(machine.arch), 1)
    for part in (facts.measure, launch_limits.measure, rates.measure, gpu_row.write_partial):
        start = time.perf_counter()
        part(session)
        print(f"{part.__module__}: {time.perf_counter() - start:.1f} s")
    text = "\n\n".join(f"## {title}\n\n{body}" for title, body in session.sections)
    print("\n" + text + "\n\n" + session.rows["gpu.partial.toml"])
    print("\n".join(f"{one.name} | {one.value} | {one.standing} | {one.how} | {one.proof}" for one in session.values))
    if folder := os.environ.get("GEMMGEN_BRINGUP_OUT"):
        (Path(folder) / "rates.md").write_text(text)
    return session


@pytest.fixture(scope="module")
def row(session):
    found = next((one for one in GPUS.rows() if one.title.startswith(session.value("gpu title").value)), None)
    return found or pytest.skip("no row ships for this GPU")


def test_limits_are_the_shipped_ones(session, row):
    found = {name: session.value(f"gpu {name}").value for name in type(row.limits).model_fields}
    assert found == row.limits.model_dump()


def test_rates_are_the_shipped_ones(session, row):
    found = {name: one.value for name in type(row.rates).model_fields if (one := session.value(f"gpu {name}"))}
    exact = ("sms", "boost_mhz", "f32_fma_per_clock", "tensor_fma_per_clock", "shared_bytes_per_clock")
    assert {name: found[name] for name in exact} == {name: getattr(row.rates, name) for name in exact}
    for name in ("f32_tflops", "dram_gb_per_s", "dram_gib"):
        assert found[name] == pytest.approx(getattr(row.rates, name), rel=0.05), name
    assert found["f16_tflops"] == pytest.approx(row.rates.f16_tflops, rel=0.12)  # the vendor's is of a lower clock
