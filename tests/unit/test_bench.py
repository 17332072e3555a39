"""What of the bench needs no GPU: its statistics, tables, files and plots, its answers to bad input."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import numpy_cupy
import pytest
from judged import EXACT, WORST

from gemmgen import road, timing
from gemmgen.catalog.epilogue import Argument
from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.input import INPUTS, USUAL
from gemmgen.cli.inputs import problem_sizes
from gemmgen.cli.output import Progress
from gemmgen.errors import DeviceError, InfeasibleSpec, SpecError, UnknownName
from gemmgen.render import render
from gemmgen.run import sensors
from gemmgen.run.sensors import Sample
from gemmgen.timing import contender, environment, racing
from gemmgen.workshop import bench as benching
from gemmgen.workshop.bench import measure, plots
from gemmgen.workshop.bench import F16, F16_THIRD, SGEMM, Kernel, Table, Timed, as_csv, as_text, derived, from_csv, median_interval, rows_at
from gemmgen.workshop.bench.racers import racers, solved_for

SIZE = (100, 200, 300)


def test_every_baseline_is_judged():
    assert {*WORST, *EXACT} == set(benching.BASELINES) - set(benching.DERIVED)


# ---- statistics


def test_the_interval_covers_the_median_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(2000):
        low, high = median_interval(np.sort(rng.exponential(1.0, 15)))
        hits += low <= np.log(2) <= high
    assert 0.93 < hits / 2000 < 0.999


@pytest.mark.parametrize("count", [2, 3, 5, 6, 15, 40])
def test_the_interval_lies_within_the_data_and_holds_the_median(count):
    ordered = np.sort(np.random.default_rng(count).normal(size=count))
    low, high = median_interval(ordered)
    assert ordered[0] <= low <= np.median(ordered) <= high <= ordered[-1]


def test_the_interval_by_hand():
    """As many order statistics below it as above."""
    assert median_interval(np.arange(16.0)) == (4.0, 11.0) and median_interval(np.arange(15.0)) == (3.0, 11.0)


def test_quartiles_by_hand():
    [row] = rows_at(SIZE, entries(ours=np.arange(1.0, 10.0)))
    assert (row.seconds, row.spread) == (5.0, (3.0, 7.0))


def entries(**seconds: np.ndarray) -> list[Timed]:
    return [Timed(name, "rival", values) for name, values in seconds.items()]


def test_ratios_pair_the_rounds():
    """A chip that slows down from round to round slows all; the ratios do not move."""
    slowing = np.array([1.0, 2.0, 4.0])
    found = rows_at(SIZE, entries(**{SGEMM: slowing, F16: slowing / 30, "ours": slowing / 5}))
    ours = found[-1]
    assert ours.ratio == pytest.approx(5.0) and ours.interval == pytest.approx((5.0, 5.0))
    assert ours.f16_ratio == pytest.approx(0.5) and ours.f16_interval == pytest.approx((0.5, 0.5))
    assert ours.tflops == pytest.approx(2 * 100 * 200 * 300 / (2 / 5) / 1e12)
    assert found[0].ratio == 1.0 and found[1].f16_ratio == pytest.approx(3.0)


def test_three_f16_products_are_a_line_of_their_own_where_it_is_asked():
    seconds = np.array([1.0, 2.0, 3.0])
    field = entries(**{F16: seconds, "ours": seconds})
    assert [entry.name for entry in derived(field, (F16,))] == [F16, "ours"]
    with_it = derived(field, (F16, F16_THIRD))
    assert [entry.name for entry in with_it] == [F16, F16_THIRD, "ours"]
    row = rows_at(SIZE, with_it)[1]
    assert (row.kind, row.seconds, row.f16_ratio, row.relative_frobenius) == ("derived", 6.0, 1.0, None)


def test_without_a_baseline_there_is_no_ratio_to_it():
    row = rows_at(SIZE, entries(ours=np.ones(3)))[0]
    assert row.ratio is row.interval is row.f16_ratio is row.f16_interval is None


def test_sensors_are_summed_up():
    samples = [Sample(1200, 700, 0x4), Sample(1400, 690, 0x4), Sample(1300, 600, 0x20)]
    row = rows_at(SIZE, [Timed("ours", "kernel", np.ones(3), samples=samples)])[0]
    assert (row.clock_mhz, row.power_w, row.throttles) == (1300, 690, "power cap, thermal")
    assert sensors.throttle_names(0) == sensors.throttle_names(0x103) == "", "an idle GPU, and clocks that somebody set"
    assert sensors.throttle_names(0xFC) == "power cap, hardware, sync boost, thermal, hardware thermal, power brake"
    assert [sensors.throttle_names(bit) for bit in (0x8, 0x40, 0x80)] == ["hardware", "hardware thermal", "power brake"]


def test_what_the_card_says_of_itself(monkeypatch):
    """The first card's line, field by field; nothing where nvidia-smi is not there or refuses."""
    lines = "A GPU, 580.1, 1980 MHz, 690.00 W, 700.00 W, 61\nAnother, 580.1, 1 MHz, 2 W, 3 W, 4\n"
    monkeypatch.setattr(environment.subprocess, "run", lambda command, **how: SimpleNamespace(stdout=lines))
    assert environment.conditions() == {"name": "A GPU", "driver_version": "580.1", "clocks.sm": "1980 MHz", "power.draw": "690.00 W",
                                        "power.limit": "700.00 W", "temperature.gpu": "61"}
    for error in (FileNotFoundError(), environment.subprocess.CalledProcessError(9, "nvidia-smi"), environment.subprocess.TimeoutExpired("nvidia-smi", 10)):
        monkeypatch.setattr(environment.subprocess, "run", lambda command, error=error, **how: (_ for _ in ()).throw(error))
        assert environment.conditions() == {}


def test_no_nvml_is_no_sensors(monkeypatch):
    def absent(name):
        raise OSError(name)

    monkeypatch.setattr(sensors.ctypes, "CDLL", absent)
    assert sensors.open_sensors("0000:1B:00.0") is None


@pytest.mark.parametrize("instant", [True, False])
def test_what_nvml_is_asked(monkeypatch, instant):
    """A library that does what nvml.h says; an old driver knows no momentary power."""
    def put(kind, at, value):
        sensors.ctypes.cast(at, sensors.ctypes.POINTER(kind)).contents.value = value
        return 0

    def fields(handle, count, at):
        field = sensors.ctypes.cast(at, sensors.ctypes.POINTER(sensors._Field)).contents
        assert (count, field.field) == (1, 186)
        field.status, field.value.uint = 0 if instant else 3, 650_000
        return 0

    nvml = SimpleNamespace(
        nvmlInit_v2=lambda: 0, nvmlDeviceGetHandleByPciBusId_v2=lambda bus, at: bus != b"0000:1B:00.0",
        nvmlDeviceGetClockInfo=lambda handle, kind, at: kind != 1 or put(sensors.ctypes.c_uint, at, 1500),
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle, at: put(sensors.ctypes.c_ulonglong, at, 0x4),
        nvmlDeviceGetFieldValues=fields,
        nvmlDeviceGetPowerUsage=lambda handle, at: put(sensors.ctypes.c_uint, at, 640_000),
        nvmlDeviceGetEnforcedPowerLimit=lambda handle, at: put(sensors.ctypes.c_uint, at, 700_500) or not instant,
    )
    monkeypatch.setattr(sensors.ctypes, "CDLL", lambda name: nvml)
    assert sensors.open_sensors("0000:1B:00.0").read() == Sample(1500, 650 if instant else 640, 4)
    assert sensors.open_sensors("0000:1B:00.0").power_limit() == (700.5 if instant else None)
    assert sensors.open_sensors("0000:FF:00.0") is None
    here = sensors.open_sensors("0000:1B:00.0")
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle, at: put(sensors.ctypes.c_ulonglong, at, 0x20) or 1
    assert here.read().throttles == 0, "what was not told"
    nvml.nvmlDeviceGetFieldValues, nvml.nvmlDeviceGetPowerUsage = lambda *asked: 1, lambda handle, at: 1
    assert here.read() is None
    assert sensors.ctypes.sizeof(sensors._Field) == 40  # nvmlFieldValue_t


# ---- the protocol


@pytest.mark.parametrize("one, slice_seconds, products, launches", [
    (0.2, 0.03, 1, 1), (0.01, 0.03, 3, 1), (1e-4, 0.03, 150, 2), (1e-4, 0.0301, 151, 2), (1e-5, 0.03, 200, 15),
])
def test_slices_are_filled(one, slice_seconds, products, launches):
    got = racing.filling(slice_seconds, one)
    assert got == (products, launches)
    assert got[0] <= racing.GRAPH_PRODUCTS and got[0] * got[1] * one >= 0.9 * slice_seconds
    assert racing.filling(slice_seconds, one, captured=False)[1] == 1


@pytest.mark.parametrize("one, sets, enqueued, captured", [(1e-5, 8, (300, 1), (8, 38)), (1e-2, 2, (2, 1), (2, 1)), (1e-3, 8, (8, 1), (8, 1))])
def test_a_slice_of_batches_holds_every_set(one, sets, enqueued, captured):
    assert (racing.filling(3e-3, one, captured=False, sets=sets), racing.filling(3e-3, one, sets=sets)) == (enqueued, captured)


@pytest.mark.parametrize("capturable, sets, took, one, enqueued", [
    (True, 0, [1e-3, 4e-5, 2e-5, 6e-5], 1e-6, [0, 1, 0]), (True, 3, [1e-3, 4e-5, 2.4e-5, 6e-5], 4e-6, [0, 1, 2, 0]),
    (False, 0, [1e-3, 2e-5], 1e-6, [0, 1, 0, *range(20)]), (True, 0, [3e-3], 3e-3, [0, 1, 0]),
])
def test_one_product_takes_the_least_of_three_graphs(monkeypatch, capturable, sets, took, one, enqueued):
    """Every input set is used before, two at least, and a product of more than 2 ms is timed once."""
    times, asked, graphs = iter(took), [], []
    monkeypatch.setattr(racing.Stopwatch, "seconds", lambda self, action: (action(), next(times))[1])
    monkeypatch.setattr(racing.Stopwatch, "graph", lambda self, enqueue, count: SimpleNamespace(launch=lambda stream: graphs.append(count)))
    watch = racing.Stopwatch.__new__(racing.Stopwatch)
    watch.stream = None
    assert watch.one(asked.append, capturable, sets) == pytest.approx(one) and asked == enqueued and next(times, None) is None
    assert graphs == [2 * sets or 20] * (len(took) - 1 if capturable else 0)


def test_slices_shrink_to_the_time_there_is():
    assert racing.slices(8, rounds=15, slice_ms=30, seconds=None) == 0.03
    assert racing.slices(8, rounds=15, slice_ms=30, seconds=1000) == 0.03
    assert racing.slices(8, rounds=15, slice_ms=30, seconds=1.28) == pytest.approx(0.01)


def test_input_sets_exceed_the_cache_and_fit_the_memory():
    megabyte, gigabyte = 1 << 20, 1 << 30
    assert timing.set_count(3 * megabyte, 50 * megabyte, 80 * gigabyte) == 8
    assert timing.set_count(48 * megabyte, 50 * megabyte, 80 * gigabyte) == 5
    assert timing.set_count(3 * gigabyte, 50 * megabyte, 78 * gigabyte) == 2  # 16384^3
    assert timing.set_count(15 * gigabyte, 50 * megabyte, 78 * gigabyte) == 1
    assert timing.set_count(9 * gigabyte, 50 * megabyte, 78 * gigabyte) == 2, "of a quarter of what is free"


def test_sampled_rows_hold_the_first_and_the_last():
    assert timing.sampled_rows(3).tolist() == [0, 1, 2]
    rows = timing.sampled_rows(16384)
    assert len(rows) == timing.REFERENCE_ROWS and (rows[0], rows[-1]) == (0, 16383)
    assert len(np.unique(rows)) == len(rows)


def test_inputs_of_each_type_and_range(monkeypatch):
    numpy_cupy.install(monkeypatch)
    size = 8, 300, 200
    plain, spread, halves, brains = (timing.Inputs(size, **how) for how in ({}, {"octaves": 3}, {"b": INPUTS.get("f16")}, {"b": INPUTS.get("bf16")}))
    assert [len(x) for x in (plain.a, plain.b, plain.c)] == [2, 2, 2] and plain.a[0].shape == (8, 200) and plain.b[0].shape == (200, 300)
    assert not np.array_equal(plain.a[0], plain.a[1]) and -1 <= plain.b[0].min() < -0.9 and 0.9 < plain.b[0].max() <= 1
    sizes = np.log2(np.abs(spread.b[0]))
    assert -3 <= sizes.min() < -2.9 and 2.9 < sizes.max() <= 3 and 0.4 < (spread.b[0] < 0).mean() < 0.6
    for one, bits, unit in ((halves, np.float16, 2.0**-11), (brains, None, 2.0**-8)):
        usual = np.abs(plain.b[0]) > 2.0**-10  # what is smaller may be subnormal in FP16
        apart = np.abs(np.asarray(one.b[0]) - plain.b[0])[usual] / np.abs(plain.b[0])[usual]
        assert unit / 4 < apart.max() <= unit and np.array_equal(one.a[0], plain.a[0])  # to nearest: half of a last place
        stored = np.asarray(one.stored_b[0])
        again = stored.view(bits).astype(np.float32) if bits else (stored.astype(np.uint32) << 16).view(np.float32)
        assert np.array_equal(again, one.b[0])
    ties = numpy_cupy.array(np.array([[0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001]], np.uint32).view(np.float32))
    draw = SimpleNamespace(random=lambda shape: (ties - 0.0))
    rounded = timing.Inputs._drawn(draw, ties.shape, 0.0, 1.0, 0, INPUTS.get("bf16"))
    assert [hex(one) for one in np.asarray(rounded).view(np.uint32)[0]] == ["0x3f800000", "0x3f820000", "0x3f800000", "0x3f810000"]
    bytes_ = plain.bytes()[0]
    assert np.array_equal(bytes_[1], np.rint(127 * np.asarray(plain.b[0])).T) and bytes_[1].dtype == np.int8
    counted = []
    monkeypatch.setattr(timing.inputs, "set_count", lambda of_a_set, *rest: counted.append(of_a_set) or 1)
    timing.Inputs((2, 3, 5))
    assert counted == [4 * (2 * 5 + 5 * 3 + 2 * 3)]


@pytest.mark.parametrize("kind", timing.CUBLAS)
def test_cublas_gets_row_major_matrices(monkeypatch, kind):
    numpy_cupy.install(monkeypatch)
    monkeypatch.setattr(timing.blas, "load_library", numpy_cupy.Cublas)
    inputs = timing.Inputs((3, 5, 7))
    one = timing.cublas(kind, inputs)
    at = 1
    one.enqueue(at)
    a, b = np.asarray(inputs.a[at], np.float64), np.asarray(inputs.b[at], np.float64)
    want = a @ b if "int8" not in kind else np.rint(127 * a) @ np.rint(127 * b)
    np.testing.assert_allclose(one.outputs[at], want, rtol=3e-3, atol=3e-3)
    assert one.judged == ("int8" not in kind)
    added = timing.cublas(kind, inputs, add=True)
    added.outputs[at][...] = 2
    added.enqueue(at)
    np.testing.assert_allclose(added.outputs[at], want + 2, rtol=3e-3, atol=3e-3)


def test_errors_against_fp64_by_hand(monkeypatch):
    numpy_cupy.install(monkeypatch)
    inputs = timing.Inputs((4, 3, 5))
    for layout in ("nn", "nt", "tn", "tt"):
        a, b = (np.asarray(x[0], np.float64) for x in (inputs.a, inputs.b))
        a, b = a if layout[0] == "n" else a.reshape(5, 4).T, b if layout[1] == "n" else b.reshape(3, 5).T
        exact, magnitude = a @ b, abs(a) @ abs(b)

        def enqueue(index, exact=exact):
            inputs.c[0][...] = exact
            inputs.c[0][1, 2] += np.float32(0.5)

        one = timing.Contender("one", enqueue, layout, inputs.c)
        found = timing.Reference(inputs).accuracy(one)
        off = abs(np.asarray(exact + 0.5 * (np.arange(12).reshape(4, 3) == 5)).astype(np.float32).astype(np.float64) - exact)
        c = exact[1, 2] + 0.5
        assert found.relative_frobenius == pytest.approx(np.linalg.norm(off) / np.linalg.norm(exact), rel=1e-5)
        assert found.max_error == pytest.approx(0.5 / (abs(c) + abs(exact[1, 2])), rel=1e-4)
        assert found.scaled == pytest.approx(0.5 / magnitude[1, 2], rel=1e-4)
    unwritten = timing.Contender("unwritten", lambda index: inputs.c[0].__setitem__([0, 2, 3], 1.0), "nn", inputs.c)
    assert np.isnan(timing.Reference(inputs, rows=2).accuracy(unwritten).scaled)  # a row that is not sampled is enough


def test_a_kernels_launches_get_sizes_and_leading_dimensions(monkeypatch):
    prepared, ran = [], []

    class Device:
        def __init__(self, binary):
            pass

        def prepared(self, symbol, blocks, threads, shared, args, overlaps):
            prepared.append((symbol, [value for _, value in args]))
            return lambda at=len(prepared) - 1: ran.append(at)

    numpy_cupy.install(monkeypatch)
    monkeypatch.setattr(contender, "CudaDevice", Device)
    plan = road.plan({"problem": {"layout": "tt"}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 64}, "target": {"gpu": "a100"},
                      "tile": {"block": [32, 32, 32], "warp": [16, 16, 32], "group": 1, "split_k": 1}, "fragment": {"policy": "mma"},
                      "pipeline": {"stages": 2, "loads": "async", "fragment_buffers": 1}})
    source, inputs = render(plan), timing.Inputs((40, 24, 64))
    main = source.interface.launches[-1]
    for layout, lda, ldb in (("nn", 64, 24), ("nt", 64, 64), ("tn", 40, 24), ("tt", 40, 64)):
        prepared.clear()
        all_of_them = timing.generated("all", replace(plan, layout=layout), source, None, inputs)
        each = len(prepared) // inputs.sets
        told = {}
        for launch, (_, values) in zip(source.interface.launches, prepared):
            told |= {one.argument: value for one, value in zip(launch.parameters, values) if one.argument in ("m", "n", "k", "lda", "ldb", "ldc")}
        assert told == {"m": 40, "n": 24, "k": 64, "lda": lda, "ldb": ldb, "ldc": 24}
    all_of_them.enqueue(0)
    assert ran == list(range(each)) and each == len(source.interface.launches) > 1
    assert all_of_them.judged and not timing.generated("another product", plan, source, None, inputs, judged=False).judged
    ran.clear()
    alone = timing.generated("main", plan, source, None, inputs, main_only=True)
    before = len(ran)
    assert before == each * inputs.sets  # the split pass once for each input set
    words = [[value for one, value in zip(main.parameters, values) if one.region] for symbol, values in prepared if symbol == main.symbol][-inputs.sets:]
    assert words[0] and not any(np.shares_memory(*both) for both in zip(words[0], words[1]))  # into words of the set's own
    work = source.interface.workspace(40, 24, 64)
    places = {work.bytes - work.offsets[buffer.name] - at for buffer in source.interface.buffers for at in source.interface.places(buffer)}
    assert {part.size for part in words[0]} <= places, "where the workspace of these sizes has them"
    alone.enqueue(1)
    assert len(ran) == before + 1 and prepared[ran[-1]][0] == main.symbol


@pytest.mark.parametrize("only", ["", "gemm"])
def test_maxima_that_launches_find_are_zero_before_each_product(monkeypatch, only):
    spaces, before = [], []

    def empty(count, kind=np.float32):
        made = np.full(count, 7, kind)
        spaces.extend([made] if kind is np.uint8 else [])
        return made.view(numpy_cupy.Array)

    class Device:
        def __init__(self, binary):
            pass

        def prepared(self, symbol, blocks, threads, shared, args, overlaps):
            def launch():
                before.append([bool(one[: work.zeroed].any()) for one in spaces])
                for one in spaces:
                    one[:] = 7

            return launch

    cupy = numpy_cupy.install(monkeypatch)
    cupy.empty = empty
    monkeypatch.setattr(contender, "CudaDevice", Device)
    plan = road.plan({"split": {"scheme": "mixpert4", "where": "prepass"}, "target": {"gpu": "a100"},
                      "tile": {"block": [32, 32, 64], "warp": [16, 16, 64], "group": 1, "split_k": 1}, "fragment": {"policy": "mma"}})
    source, inputs = render(plan), timing.Inputs((40, 24, 64))
    work = source.interface.workspace(40, 24, 64)
    assert work.zeroed and any(one.zeroed_again for one in source.interface.buffers)
    made = timing.generated("one", plan, source, None, inputs, only=only)
    assert len(spaces) == (inputs.sets if only else 1)
    assert only or np.array_equal(spaces[0], 7 * (np.arange(work.bytes) >= work.zeroed)), "what launches leave zero is zero before the first"
    for at in range(inputs.sets + 1):
        before.clear()
        made.enqueue(at)
        own = at % len(spaces)
        # All launches of a product begin with zeros; one alone goes on with what those before it found.
        assert [one[own] for one in before] == ([True] if only else [False] + [True] * (len(source.interface.launches) - 1))


def test_an_epilogue_of_a_race_is_given_zeros_and_ones(monkeypatch):
    cupy = numpy_cupy.install(monkeypatch)
    cupy.zeros = np.zeros
    arguments = [Argument("bias", "n", ""), Argument("scales", "m", ""), Argument("factor", "all", "")]
    found = contender._ends(SimpleNamespace(epilogue=SimpleNamespace(arguments=arguments)), 3, 5)
    assert [found["bias"].tolist(), found["scales"].tolist()] == [[0.0] * 5, [0.0] * 3] and found["bias"].dtype == np.float32
    assert {name: value for name, value in found.items() if name not in ("bias", "scales")} == {"stride_bias": 0, "stride_scales": 0, "factor": 1}


class _Clock:
    """cupy's streams, events and graphs, where an enqueued product takes what its contender says."""

    def __init__(self, monkeypatch):
        self.now, self.captured, self.graphs, self.current = 0.0, None, [], []
        clock = self

        class Stream:
            def __init__(self, non_blocking):
                assert non_blocking

            def __enter__(self):
                clock.current.append(self)

            def __exit__(self, *details):
                clock.current.pop()

            def begin_capture(self):
                assert clock.captured is None
                clock.captured = []

            def end_capture(self):
                took, clock.captured = clock.captured, None
                clock.graphs.append(took)
                return SimpleNamespace(launch=lambda stream: [clock.run(*one) for one in took])

        Stream.null = object.__new__(Stream)

        class Event:
            def record(self, stream):
                assert stream is clock.current[-1]
                self.at = clock.now

            def synchronize(self):
                pass

        class Refused(Exception):
            pass

        cupy = SimpleNamespace(cuda=SimpleNamespace(
            Stream=Stream, Event=Event, get_elapsed_time=lambda start, stop: 1e3 * (stop.at - start.at),
            Device=lambda: SimpleNamespace(synchronize=lambda: None), memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            runtime=SimpleNamespace(CUDARuntimeError=Refused), driver=SimpleNamespace(CUDADriverError=Refused),
        ))
        self.refused, self.ran = Refused, []
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        monkeypatch.setattr(racing, "time", SimpleNamespace(perf_counter=lambda: clock.now, sleep=clock.sleep))

    def sleep(self, seconds):
        self.now += 1e-9  # the work goes on meanwhile; only what is enqueued moves this clock

    def run(self, name, index, takes):
        if self.captured is None:
            self.now += takes
            self.ran.append((name, index))
        else:
            self.captured.append((name, index, takes))

    def contender(self, name, takes):
        return timing.Contender(name, lambda index: self.run(name, index, takes))


def test_a_race_interleaves_in_another_order_each_round(monkeypatch):
    clock = _Clock(monkeypatch)
    field = [clock.contender("slow", 0.2), clock.contender("fast", 1e-4), clock.contender("tiny", 1e-5)]
    timing.race(field, rounds=6, slice_ms=30)
    assert [len(one.seconds) for one in field] == [6, 6, 6]
    assert [one.seconds[0] for one in field] == pytest.approx([0.2, 1e-4, 1e-5])
    assert max(map(len, clock.graphs)) <= racing.GRAPH_PRODUCTS
    assert [index for _, index, _ in clock.graphs[-1]] == list(range(200))  # which enqueue takes modulo the input sets
    order = [name for at, (name, _) in enumerate(clock.ran) if at == 0 or clock.ran[at - 1][0] != name]
    rounds = [order[at : at + 3] for at in range(len(order) - 21, len(order), 3)]
    assert len({tuple(one) for one in rounds[1:]}) > 1  # the first one is the warm-up


def test_what_cannot_be_captured_is_called_on_the_default_stream(monkeypatch):
    """A library that waits inside: between events of that stream, as many products as others have in their graphs."""
    clock, streams = _Clock(monkeypatch), set()
    wild = timing.Contender("wild", lambda index: streams.add(clock.current[-1]) or clock.run("wild", index, 1e-4), capturable=False)
    tame = clock.contender("tame", 1e-3)
    timing.race([tame, wild], rounds=6, slice_ms=30)
    null = sys.modules["cupy"].cuda.Stream.null
    assert streams == {null} and len(clock.graphs) == 2  # tame's: to know how long it takes, and its slice
    assert wild.seconds == pytest.approx([1e-4] * 6) and tame.seconds == pytest.approx([1e-3] * 6)
    assert sum(name == "wild" for name, _ in clock.ran) == 3 + 20 + 7 * 300  # more than a graph may hold
    assert [at for name, at in clock.ran if name == "wild"][-300:] == list(range(300))  # each input set in turn


def test_a_race_warms_up_and_ends_in_time_with_a_few_rounds_at_least(monkeypatch):
    clock = _Clock(monkeypatch)
    slow = clock.contender("slow", 0.2)
    timing.race([slow], rounds=50, slice_ms=30, seconds=2.0)
    assert racing.LEAST_ROUNDS <= len(slow.seconds) < 10 and clock.now < 2.5
    slow = clock.contender("slow", 0.2)
    timing.race([slow], rounds=50, slice_ms=30, seconds=0.1)
    assert len(slow.seconds) == racing.LEAST_ROUNDS
    before, slow = clock.now, clock.contender("slow", 0.2)
    timing.race([slow], rounds=5, slice_ms=30, warm_up=3.0)
    assert clock.now - before > 3 + 5 * 0.2 and len(slow.seconds) == 5


def test_sensors_are_read_while_a_slice_runs_and_after_the_warm_up(monkeypatch):
    clock = _Clock(monkeypatch)
    monkeypatch.setattr(racing.time, "perf_counter", iter(np.arange(0, 1e3, 2e-3)).__next__)  # a host's clock, 2 ms a look
    one = clock.contender("one", 1e-3)
    timing.race([one], rounds=5, slice_ms=30, sensors=SimpleNamespace(read=lambda: Sample(1000, 500, 0)))
    assert 5 * 8 < len(one.samples) < 5 * 15


def test_what_the_gpu_refuses_is_a_device_error(monkeypatch):
    clock = _Clock(monkeypatch)

    def refuse(index):
        raise clock.refused("an illegal memory access")

    with pytest.raises(DeviceError, match="refused") as caught:
        timing.race([timing.Contender("wild", refuse)], rounds=5, slice_ms=30)
    assert "illegal memory access" in str(caught.value)
    with pytest.raises(DeviceError, match="memory is too small"), timing.refusals():
        raise MemoryError("out of memory")


def test_a_table_has_the_power_limit_of_its_race(monkeypatch):
    monkeypatch.setattr(timing, "versions", lambda: {"driver": "1.2"})
    for said, told in (({"power.limit": "700.00 W"}, "700.00 W"), ({}, "unknown")):
        monkeypatch.setattr(timing, "conditions", lambda said=said: said)
        assert measure.environment() == {"driver": "1.2", "power limit": told}


def test_a_gpu_that_times_kernels_is_one_whose_machine_code_runs_here(monkeypatch):
    """Of those that are timed beside other libraries: NVIDIA's."""
    asked, here = [], {"h200"}

    def why_not(gpu):
        asked.append(gpu.name)
        return None if gpu.name in here else DeviceError("--device cuda", f"no {gpu.name}", remedy="another")

    monkeypatch.setattr("gemmgen.run.cuda.why_not", why_not)
    measure.require_gpu("bench")
    assert asked == [name for name in GPUS.names() if GPUS.get(name).vendor == "nvidia"] and len(asked) > 5
    here.clear()
    with pytest.raises(DeviceError, match=f"bench: no {asked[0]}") as caught:
        measure.require_gpu("bench")
    assert caught.value.remedy == measure._GPU_REMEDY
    here.add("mi300x")
    with pytest.raises(DeviceError, match="bench: no "):
        measure.require_gpu("bench")


class _Race:
    """A GPU's part of the bench in NumPy: what takes how long is known, errors are what they are told."""

    def __init__(self, monkeypatch, fails=()):
        self.raced: list[tuple[str, ...]] = []
        self.seconds: list[float | None] = []
        self.warm_ups: list[float] = []
        monkeypatch.setattr("gemmgen.run.cuda.why_not", lambda gpu: None)
        speeds = {SGEMM: 1.0, "cublas-tf32": 0.2, F16: 0.1}

        def inputs(size, low, high, b):
            if size in fails:
                raise DeviceError("bench", "the GPU's memory is too small", got="out of memory")
            return SimpleNamespace(size=size)

        def contender(name, detail=""):
            one = timing.Contender(name, lambda index: None, detail=detail)
            one.takes = speeds.get(name, 0.35)
            return one

        def race(contenders, *, rounds, seconds, **options):
            self.raced.append(tuple(one.name for one in contenders))
            self.seconds.append(seconds)
            self.warm_ups.append(options["warm_up"])
            for one in contenders:
                one.seconds = [one.takes * (1 + turn) for turn in range(rounds)]

        accuracy = timing.Accuracy(1e-7, 1e-3, 1e-8)
        for name, value in {
            "Inputs": inputs, "race": race, "sensors_here": lambda: None, "versions": lambda: {"driver": "1.2", "cuBLAS": "130100"},
            "device_name": lambda: "A GPU", "conditions": lambda: {"power.limit": "700.00 W"}, "release_memory": lambda: None,
            "refusals": nullcontext, "cublas": lambda name, inputs: contender(name),
            "generated": lambda name, plan, source, binary, inputs, main_only=False: contender(name, source.name),
            "Reference": lambda inputs: SimpleNamespace(accuracy=lambda contender: accuracy),
        }.items():
            monkeypatch.setattr(timing, name, value)


def kernel(name="ours", launches=2, size=None) -> Kernel:
    plan = SimpleNamespace(gpu=GPUS.get("h100"), inputs=SimpleNamespace(stored_b=USUAL), scheme=SimpleNamespace(name="ootomo"), layout="nn")
    return Kernel(name, plan, SimpleNamespace(name="kernel_name", launches=[None] * launches), SimpleNamespace(compiler="NVRTC 13.3"), size)


def test_the_bench_measures_all_at_every_size(monkeypatch):
    race, so_far = _Race(monkeypatch), []
    table = benching.bench([kernel()], [(64, 64, 64), SIZE], rounds=3, seconds=100, measured=so_far.append)
    assert race.raced == [(SGEMM, "cublas-tf32", F16, "ours", "ours, main kernel")] * 2
    assert race.warm_ups == [2.0, 0.0]  # it stays warm
    assert 35 < race.seconds[0] <= 40 and 70 < race.seconds[1] <= 80  # what the first left over, less a margin
    assert [row.name for row in table.rows[:6]] == [SGEMM, "cublas-tf32", F16, F16_THIRD, "ours", "ours, main kernel"]
    ours, main = table.rows[4:6]
    assert ours.ratio == pytest.approx(1 / 0.35) and ours.f16_ratio == pytest.approx(0.3 / 0.35)
    assert (ours.kind, ours.detail, ours.relative_frobenius, ours.rounds) == ("kernel", "kernel_name", 1e-7, 3)
    assert (main.kind, main.relative_frobenius) == ("main", None)
    assert [len(one.rows) for one in so_far] == [6, 12] and so_far[-1] == table


def test_a_kernel_of_one_launch_or_of_one_size_is_timed_so(monkeypatch):
    race = _Race(monkeypatch)
    benching.bench([kernel("one", launches=1), kernel("there", size=SIZE)], [(64, 64, 64), SIZE], against=(), rounds=2)
    assert race.raced == [("one",), ("one", "there", "there, main kernel")]
    benching.bench([kernel()], [SIZE], against=(), rounds=2, main_kernel=False)
    assert race.raced[-1] == ("ours",)


def test_a_size_that_does_not_fit_is_noted_and_the_others_stay(monkeypatch):
    _Race(monkeypatch, fails={SIZE})
    table = benching.bench([kernel()], [SIZE, (64, 64, 64)], rounds=2)
    assert {row.size for row in table.rows} == {(64, 64, 64)}
    assert table.notes == ("100x200x300: the GPU's memory is too small: out of memory",)
    with pytest.raises(DeviceError, match="too small"):
        benching.bench([kernel()], [SIZE], rounds=2)


def test_triton_that_is_not_installed_is_a_line(monkeypatch):
    race = _Race(monkeypatch)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "gemmgen.timing.rivals", raising=False)
    table = benching.bench([kernel()], [SIZE], against=(SGEMM, "triton-ieee", "triton-bf16x6"), rounds=2)
    assert race.raced == [(SGEMM, "ours", "ours, main kernel")]
    [note] = table.notes
    assert "triton-ieee, triton-bf16x6: not timed: torch is not installed" in note and "pip install" in note
    assert note in as_text(table)


# ---- tables and files


def table_of(*rows, notes=()) -> Table:
    return Table("A GPU", {"driver": "1.2"}, -1, 1, tuple(rows), tuple(notes))


def full_rows() -> list[benching.Row]:
    rng = np.random.default_rng(1)
    found = []
    for size in ((1024,) * 3, (4096,) * 3, (1024, 4096, 1024)):
        field = [
            Timed(name, kind, scale * rng.uniform(0.9, 1.1, 15), "a, \"detail\"", (Sample(1300.5, 690.25, 4),), timing.Accuracy(error, 0.1, 1e-8))
            for name, kind, scale, error in (
                (SGEMM, "rival", 1.0, 1e-6), (F16, "rival", 0.1, 3e-4), ("ours", "kernel", 0.3, 3e-7), ("ours, main kernel", "main", 0.2, 0.0),
            )
        ]
        found += rows_at(size, derived(field, (F16, F16_THIRD)))
    return found


def test_the_table_tells_device_ratios_and_errors():
    lines = as_text(table_of(*full_rows(), notes=["triton: absent"])).splitlines()
    assert "A GPU" in lines[0] and "driver 1.2" in lines[0]
    head = next(at for at, line in enumerate(lines) if "x SGEMM" in line and "contender" in line)
    assert lines[head + 1].split()[:3] == ["1024x1024x1024", "1.00", "1.00-1.00"]
    assert lines[-1] == "note: triton: absent"
    assert len({len(line) - len(line.split("  ")[-1]) for line in lines[head:-1]}) == 1  # columns stand below each other


def test_the_cells_of_a_row_by_hand():
    row = benching.Row(
        (1, 2, 3), "ours", "kernel", "", 9, 25e-6, (20e-6, 30e-6), 12.34, 1.5, (1.25, 1.75), 2.5, (2.25, 2.75), 1e-7, 3e-3, 4e-8, 1300.0, 690.0)
    line = as_text(table_of(row)).splitlines()[-1]
    assert line.split() == ["1x2x3", "1.50", "1.25-1.75", "2.50", "2.25-2.75", "12.3", "25.0", "20.0-30.0", "9", "1.0e-07", "4.0e-08", "1300", "690", "ours"]


def test_what_slows_the_gpu_other_than_its_power_cap_is_marked():
    row = full_rows()[0]
    assert "1300*" not in as_text(table_of(row)) and "1300*" in as_text(table_of(replace(row, throttles="power cap, thermal")))


def test_a_csv_comes_back_as_it_was():
    bare = rows_at(SIZE, entries(ours=np.ones(3)))
    rows = (*full_rows(), *bare)
    assert from_csv(as_csv(table_of(*rows))) == ("A GPU", rows)
    text = as_csv(table_of(benching.Row((1, 2, 3), "a", "kernel", "", 9, 2.5, (2.0, 3.0), 12.0, 1.5, (1.25, 1.75), 2.5, (2.25, 2.75), 0.1, 0.2, 0.3)))
    assert text.splitlines()[1] == "A GPU,1,2,3,a,kernel,,9,2.5,2.0,3.0,12.0,1.5,1.25,1.75,2.5,2.25,2.75,0.1,0.2,0.3,,,"


def test_a_damaged_csv_is_refused_with_its_line():
    lines = as_csv(table_of(*full_rows())).splitlines()
    with pytest.raises(SpecError, match="line 3"):
        from_csv("\n".join([lines[0], lines[1], lines[2].replace("1024", "many")]), "x.csv")


# ---- the command


@pytest.mark.slow
def test_plots_are_drawn_from_a_csv(gemmgen, tmp_path):
    path = tmp_path / "bench.csv"
    path.write_text(as_csv(table_of(*full_rows())))
    ran = gemmgen("bench", "--plot", path)
    assert ran.code == 0 and "speed.png" in ran.out
    assert gemmgen("bench", "--plot", path, "--out", tmp_path / "new").code == 0
    for folder in (tmp_path, tmp_path / "new"):
        assert all((folder / name).stat().st_size > 10_000 for name in ("speed.png", "error.png"))


def test_plots_lie_beside_their_table_or_where_out_says(gemmgen, monkeypatch, tmp_path):
    monkeypatch.setattr(benching, "plot", lambda device, rows, folder: [folder / device])
    path = tmp_path / "there" / "bench.csv"
    path.parent.mkdir()
    path.write_text(as_csv(table_of(*full_rows())))
    assert gemmgen("bench", "--plot", path).out == f"wrote {path.parent}/A GPU\n"
    assert gemmgen("bench", "--plot", path, "--out", tmp_path / "new").out == f"wrote {tmp_path}/new/A GPU\n" and (tmp_path / "new").is_dir()


def test_rounds_and_slices_where_none_are_asked_for(gemmgen, monkeypatch, write_spec):
    """Of single products more and longer ones than of batches."""
    told = []
    for name in ("bench", "bench_batches"):
        monkeypatch.setattr(benching, name, lambda kernels, places, **how: told.append((how["rounds"], how["slice_ms"])) or table_of())
    monkeypatch.setattr("gemmgen.workshop.bench.racers.racers", lambda *of: ([], []))
    spec, batches = write_spec(), ("--suite", "inception", "--against", "cublas-loop")
    for arguments in ((spec,), batches, (spec, "--rounds", 5, "--slice-ms", 2), (*batches, "--rounds", 6, "--slice-ms", 4)):
        assert gemmgen("bench", *arguments).code == 0
    assert told == [(15, 30.0), (11, 3.0), (5, 2.0), (6, 4.0)]


def test_every_size_is_a_point_of_the_plot(monkeypatch, tmp_path):
    """Squares on a line, others, two equal extents among them, at the cube root of m n k."""
    figures = []
    monkeypatch.setattr(plots, "saved", lambda figure, path: figures.append(figure) or path)
    sizes = ((8, 8, 8), (64, 64, 64), (2, 4, 8), (2, 2, 16))
    rows = [benching.Row(size, "a", "kernel", "", 9, 1.0, (1.0, 1.0), float(at + 1), relative_frobenius=1e-6) for at, size in enumerate(sizes)]
    plots.plot("A GPU", rows, tmp_path)
    square, other = figures[0].axes[0].lines
    assert list(zip(*square.get_data())) == [(8, 1.0), (64, 2.0)]
    assert sorted(zip(*other.get_data())) == [(pytest.approx(4), 3.0), (pytest.approx(4), 4.0)]


def test_errors_are_drawn_at_the_largest_sizes_with_squares_first(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(plots, "saved", lambda figure, path: figures.append(figure) or path)
    sizes = [(64,) * 3, (4096,) * 3, (512,) * 3, (8192, 8192, 64), (1024,) * 3, (2048,) * 3]
    rows = [benching.Row(size, "cublas-sgemm", "rival", "", 5, 1e-3, (1e-3, 1e-3), 1.0, relative_frobenius=None if size[0] == 2048 else 1e-6) for size in sizes]
    plots.plot("A GPU", rows, tmp_path)
    assert [axis.get_title() for axis in figures[1].axes] == [f"{size}x{size}x{size}, A GPU" for size in (64, 512, 1024, 4096)]
    plots.plot("A GPU", [*rows, replace(rows[0], size=(128,) * 3)], tmp_path)
    assert [axis.get_title().partition("x")[0] for axis in figures[3].axes] == ["128", "512", "1024", "4096"]


@pytest.mark.slow
def test_plots_of_a_table_without_errors_or_squares(tmp_path):
    bare = rows_at(SIZE, entries(ours=np.ones(3)))
    assert len(benching.plot("A GPU", bare, tmp_path)) == 2


def test_plots_need_matplotlib(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(DeviceError, match="matplotlib is not installed"):
        benching.plot("A GPU", full_rows(), tmp_path)


@pytest.mark.parametrize("arguments, told", [
    (["x.toml", "--against", "cublas-sgemmm"], "'cublas-sgemm'"),
    (["x.toml", "--sizes", "4k"], "--sizes"),
    (["x.toml", "--sizes", "1024x1024"], "--sizes"),
    (["x.toml", "--data", "negative"], "--data"),
    (["x.toml", "--seconds", "0"], "--seconds"),
    ([], "nothing to time"),
    (["x.toml", "--plot", "bench.csv"], "--plot"),
    (["--plot", "absent.csv"], "absent.csv"),
])
def test_bad_requests(gemmgen, arguments, told):
    ran = gemmgen("bench", *arguments)
    assert ran.code == 2 and told in ran.err and "try" in ran.err


def test_the_command_writes_its_files(gemmgen, monkeypatch, tmp_path, write_spec):
    _Race(monkeypatch)
    spec = write_spec()
    monkeypatch.setattr("gemmgen.workshop.bench.racers.racers", lambda *arguments: ([kernel("spec")], ["a note"]))
    ran = gemmgen("bench", spec, "--sizes", "64 128x64x32", "--rounds", 3, "--out", tmp_path / "out", "--quiet")
    assert ran.code == 0 and "note: a note" in ran.out
    device, rows = from_csv((tmp_path / "out" / "bench.csv").read_text())
    assert device == "A GPU" and {row.size for row in rows} == {(64, 64, 64), (128, 64, 32)}
    assert len(json.loads((tmp_path / "out" / "bench.json").read_text())["rows"]) == len(rows) == 12
    assert (tmp_path / "out" / "bench.txt").read_text() == ran.out


def test_baselines():
    assert benching.baselines("cublas-f16/3, triton-ieee,cublas-f16/3") == (F16_THIRD, "triton-ieee")
    assert benching.baselines(" ") == ()
    assert benching.timed_baselines((F16_THIRD, F16, SGEMM)) == (F16, SGEMM)
    assert set(benching.USUAL) < set(benching.BASELINES)
    with pytest.raises(UnknownName, match="--against: unknown baseline") as caught:
        benching.baselines("cublas")
    assert all(name in str(caught.value) for name in benching.BASELINES)


def test_the_help_names_every_baseline(gemmgen):
    text = "".join(gemmgen("bench", "--help").out.split())
    assert all(name in text for name in benching.BASELINES)
    assert ",".join(benching.USUAL) in text


# ---- what is raced


def test_a_spec_is_solved_for_each_size_where_that_is_asked(write_spec, monkeypatch):
    built = []
    monkeypatch.setattr("gemmgen.build.choice.build", lambda source, **options: built.append(source.name))
    spec, sizes = write_spec(), [(256,) * 3, (4096,) * 3]
    kernels, notes = racers([spec], sizes, True, Progress("bench", quiet=True))
    assert [one.size for one in kernels] == sizes and not notes
    assert len({one.source.name for one in kernels}) == 2  # other tiles for other sizes
    [once], _ = racers([spec], sizes, False, Progress("bench", quiet=True))
    assert once.size is None and once.source.name == kernels[1].source.name


def test_a_spec_is_varied_in_every_combination_and_raced_beside_the_models_other_choices(write_spec, monkeypatch):
    monkeypatch.setattr("gemmgen.build.choice.build", lambda source, **options: source)
    progress = Progress("bench", quiet=True)
    kernels, _ = racers([write_spec()], [], False, progress, vary=["split.where=prepass,register", "tile.block=64x64x32", "split.promote=128"])
    assert [one.name for one in kernels] == [f"spec where={where} block=64x64x32 promote=128" for where in ("prepass", "register")]
    assert [(one.plan.where, one.plan.block, one.plan.promote) for one in kernels] == [(where, (64, 64, 32), 128) for where in ("prepass", "register")]
    kernels, _ = racers([write_spec()], [], False, progress, others=(2, 1))
    assert [one.name for one in kernels] == ["spec", "spec choice 2", "spec choice 3", "spec drawn 1"]
    assert len({one.plan.hash for one in kernels}) == 4
    seconds = [one.plan.model["seconds"] for one in kernels]
    assert seconds == sorted(seconds)
    for setting in ("where=prepass", "split.where", "split=prepass"):
        with pytest.raises(SpecError, match="no setting of a spec"):
            racers([write_spec()], [], False, progress, vary=[setting])
    with pytest.raises(SpecError, match="spec.toml with split.where"):
        racers([write_spec()], [], False, progress, vary=["split.where=nowhere"])


@pytest.mark.parametrize("asked", [["--others", "30"], ["--others", "30,x"], ["--others", "30,1000"], ["--frontier", "--vary", "split.promote=0"]])
def test_what_is_raced_beside_a_spec_is_refused_where_it_makes_no_sense(gemmgen, write_spec, monkeypatch, asked):
    monkeypatch.setattr("gemmgen.workshop.bench.measure.require_timed", lambda *arguments: None)
    refused = gemmgen("bench", write_spec(), *asked)
    assert refused.code == 2 and (asked[0] in refused.err)


def test_specs_of_one_name_keep_their_folders(write_spec, monkeypatch, tmp_path):
    monkeypatch.setattr("gemmgen.build.choice.build", lambda source, **options: None)
    (tmp_path / "other").mkdir()
    kernels, _ = racers([write_spec(), write_spec(name="other/spec.toml")], [], False, Progress("bench", quiet=True))
    assert len({one.name for one in kernels}) == 2


def test_what_cannot_be_built_is_noted_unless_nothing_can(write_spec):
    bad = write_spec("[tile]\nblock = [128, 128, 32]\nwarp = [64, 24, 32]\n", name="bad.toml")
    progress = Progress("bench", quiet=True)
    with pytest.raises(InfeasibleSpec, match="warp"):
        racers([bad], [], False, progress)
    batch = write_spec('[problem]\nkind = "grouped"\n', name="batch.toml")
    with pytest.raises(InfeasibleSpec, match="times kernels of one product"):
        racers([batch], [], False, progress)
    assert solved_for(road.load(batch), (1, 2, 3)).spec.problem.model_dump(include={*"mnk"}) == {"m": 1, "n": 2, "k": 3}
    kernels, notes = racers([bad, write_spec(name="good.toml")], [], False, progress)
    assert [one.name for one in kernels] == ["good"] and notes[0].startswith("bad: not built: ")


def test_sizes():
    assert problem_sizes("64,128x32x7") == problem_sizes("64 128x32x7") == [(64, 64, 64), (128, 32, 7)]
    assert problem_sizes("1048575x1x1") == [(1048575, 1, 1)]
    for text in ("", "4k", "1x2", "0", "-3", "1,,2", "99999999", "1048576"):
        with pytest.raises(SpecError) as caught:
            problem_sizes(text)
        assert "--sizes" in str(caught.value) and "try" in str(caught.value)
