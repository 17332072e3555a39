"""On a real GPU: every contender of the bench multiplies, and the race and its table hold together."""

from __future__ import annotations

import math
from itertools import product as pairs

import numpy as np
import pytest
from judged import EXACT, WORST
from test_gpu import local_gpu, prepared

from gemmgen import timing
from gemmgen.build import build
from gemmgen.catalog.input import INPUTS
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop import bench as benching
from gemmgen.workshop.bench import F16_THIRD, SGEMM, TRITON, Kernel, share

pytestmark = pytest.mark.device

SQUARE, ODD = (256, 256, 256), (264, 200, 257)


def contender(name: str, inputs: timing.Inputs) -> timing.Contender:
    if name in timing.CUBLAS:
        return timing.cublas(name, inputs)
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from gemmgen.timing import rivals

    return rivals.triton_matmul(name, TRITON[name], inputs)


def host(array) -> np.ndarray:
    return array.get().astype(np.float64)


def error(c: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(c - exact) / np.linalg.norm(exact))


@pytest.mark.parametrize("size", [SQUARE, ODD], ids=["square", "odd"])
@pytest.mark.parametrize("name", WORST)
def test_a_baseline_multiplies_every_input_set(name, size):
    inputs = timing.Inputs(size)
    one = contender(name, inputs)
    for index in (1, 0):
        one.outputs[index].fill(np.nan)
        one.enqueue(index)
        assert error(host(one.outputs[index]), host(inputs.a[index]) @ host(inputs.b[index])) < WORST[name]


@pytest.mark.parametrize("name", WORST)
def test_a_captured_baseline_multiplies_and_is_timed(name):
    """What the race replays is what was asked for: nothing is allocated, tuned or compiled any more while it is captured."""
    inputs = timing.Inputs(SQUARE)
    one = contender(name, inputs)
    timing.race([one], rounds=2, slice_ms=1)
    for c in one.outputs:
        c.fill(np.nan)
    timing.race([one], rounds=2, slice_ms=1)
    assert error(host(one.outputs[0]), host(inputs.a[0]) @ host(inputs.b[0])) < WORST[name]
    assert len(one.seconds) == 4 and all(1e-7 < taken < 1e-2 for taken in one.seconds)


@pytest.mark.parametrize("name", EXACT)
def test_a_baseline_of_bytes_is_exact_and_is_timed(name):
    inputs = timing.Inputs(SQUARE)
    one = contender(name, inputs)
    timing.race([one], rounds=2, slice_ms=1)
    transposed = timing.CUBLAS[name].b_transposed
    for index in (1, 0):
        one.outputs[index].fill(-1)
        one.enqueue(index)
        a, b = (x.get().astype(np.int64) for x in inputs.bytes(transposed)[index])
        assert np.array_equal(one.outputs[index].get(), a @ (b.T if transposed else b))
    assert len(one.seconds) == 2 and all(1e-7 < taken < 1e-2 for taken in one.seconds)


@pytest.mark.parametrize("layout, scheme", [*pairs(("nn", "tt"), ("ootomo",)), ("nn", "scaled"), ("nt", "half")])
def test_generated_kernels_multiply_whole_and_without_their_split(layout, scheme):
    parts = prepared(scheme, layout)
    inputs = timing.Inputs(SQUARE)
    whole = timing.generated("whole", *parts, inputs)
    expected = timing.Reference(inputs).accuracy(whole)
    assert expected.relative_frobenius < (1e-3 if scheme == "half" else 2e-6)
    main = timing.generated("main", *parts, inputs, main_only=True)
    got = timing.Reference(inputs).accuracy(main)
    assert got.relative_frobenius == pytest.approx(expected.relative_frobenius, rel=1e-6)  # the same words


@pytest.mark.parametrize("b", ["f16", "bf16"])
def test_a_stored_b_is_what_all_multiply(b):
    """A kernel that reads B's bits and one that splits its FP32 values have the same product, which holds numbers of the type alone."""
    inputs = timing.Inputs(SQUARE, b=INPUTS[b])
    for values, bits in zip(inputs.b, inputs.stored_b):
        values, bits = values.get(), bits.get()
        assert np.array_equal(INPUTS[b].values(bits), values) and np.array_equal(INPUTS[b].rounded(values), values) and len(np.unique(values)) > 200
    scheme = {"f16": "ootomo_b16", "bf16": "bf16x3_bb16"}[b]
    plan = solve(loads({"problem": {"b": b}, "split": {"scheme": scheme}, "target": {"gpu": local_gpu()}}))
    source = render(plan)
    for parts in ((plan, source, build(source)), prepared("ootomo")):
        assert timing.Reference(inputs).accuracy(timing.generated("one", *parts, inputs)).relative_frobenius < 1e-6


def test_the_reference_is_that_of_numpy():
    inputs = timing.Inputs((300, 64, 500))
    reference = timing.Reference(inputs, rows=17)
    exact, magnitude = map(host, reference.product("nn"))
    a, b = host(inputs.a[0])[reference.rows], host(inputs.b[0])
    assert exact == pytest.approx(a @ b, rel=1e-12, abs=1e-12)
    assert magnitude == pytest.approx(abs(a) @ abs(b), rel=1e-12)
    turned = host(inputs.a[0]).reshape(500, 300).T[reference.rows]
    assert host(reference.product("tn")[0]) == pytest.approx(turned @ b, rel=1e-12, abs=1e-12)


def test_what_is_left_undone_has_no_error():
    inputs = timing.Inputs(SQUARE)
    idle = timing.Contender("idle", lambda index: None, outputs=inputs.c)
    assert math.isnan(timing.Reference(inputs).accuracy(idle).relative_frobenius)


def test_the_sensors_answer():
    sensors = timing.sensors_here()
    if sensors is None:
        pytest.skip("NVML does not answer here")
    sample = sensors.read()
    assert 100 < sample.clock_mhz < 4000 and 5 < sample.power_w < 2000


def test_a_whole_bench():
    plan, source, binary = prepared("ootomo")
    kernel = Kernel("ootomo", plan, source, binary)
    table = benching.bench(
        [kernel], [(512, 512, 512), (1024, 256, 512)], against=(SGEMM, F16_THIRD, "cublas-tf32"), rounds=6, slice_ms=5, seconds=10,
    )
    names = [SGEMM, "cublas-f16", F16_THIRD, "cublas-tf32", "ootomo", "ootomo, main kernel"]
    assert [row.name for row in table.rows] == names * 2
    at = {row.name: row for row in table.rows[:6]}
    assert at[SGEMM].ratio == at[F16_THIRD].f16_ratio == 1.0
    assert at["ootomo, main kernel"].seconds < at["ootomo"].seconds
    assert at["ootomo"].relative_frobenius < 2e-6 < at["cublas-f16"].relative_frobenius
    assert table.environment["cuBLAS"].isdigit() and benching.from_csv(benching.as_csv(table))[1] == table.rows
    found, left_out = share.share_of(table, share.made([kernel]))
    assert left_out == [] and [one.name for one in found.results] == [SGEMM, "cublas-f16", "cublas-tf32", source.name] * 2
    assert found.device == table.device and share.Share.model_validate_json(share.as_json(found)) == found


def test_triton_is_compiled_ahead_for_the_sizes_asked():
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from gemmgen.timing import rivals

    jobs = rivals.jobs_for(["ieee"], [SQUARE, ODD, (512, 512, 512)])
    assert len(jobs) == 2 * len(rivals.CONFIGS)  # 256 and 512 share their kernels
    assert rivals._compiled(("ieee", rivals.CONFIGS[0], SQUARE)) == ""
    assert "nonesuch" in rivals._compiled(("nonesuch", rivals.CONFIGS[0], SQUARE))
