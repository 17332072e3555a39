"""A bring-up finds the limits and the rates that were planted in a made-up GPU, and refuses rates of a chip that throttled."""

from __future__ import annotations

import re
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import FakeGpu, FakeLimits, FakeRates, by_row

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS, Limits, Rates
from gemmgen.errors import BuildError
from gemmgen.workshop.bringup import facts, gpu_row, launch_limits, rates
from gemmgen.workshop.bringup.findings import changes
from gemmgen.workshop.bringup.launch_limits import _last, register_files, shared_files
from gemmgen.workshop.bringup.probe import EmulatedMachine
from gemmgen.workshop.bringup.rates import NO_CLOCK, Measured
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.stepped import find_banks, find_capacities, power_of_two

F16, WGMMA = "mma_m16n8k16_f16", "wgmma_m64n8k16_f16"


@pytest.fixture(autouse=True)
def no_time_to_lose(monkeypatch):
    monkeypatch.setattr(rates, "WARMTH", 0.0)
    monkeypatch.setattr(rates, "SUSTAINED", 0.0)


def found(machine, *parts, fragments=()) -> Session:
    session = Session(machine, None, "hidden", [FRAGMENTS.get(name) for name in fragments], 1)
    for part in (facts.measure, *parts, gpu_row.write_partial):
        part(session)
    return session


def values(session: Session, model) -> dict:
    return {name: one.value for name in model.model_fields if (one := session.value(f"gpu {name}"))}


@pytest.mark.parametrize(("told", "mhz", "value"), [
    (1980.0, (1962.0, 1962.0, 1963.0), 1980), (1980.0, (1958.0, 1959.0, 1959.0), 1959), (1980.0, (2001.0,) * 3, 2001), (None, (1979.6,) * 3, 1980),
    (1980.0, (1900.0, 1950.0, 1980.0), None),
])
def test_a_clock_within_a_hundredth_of_the_boost_clock_is_that(told, mhz, value):
    """A chip whose clock changed has none."""
    session = Session(SimpleNamespace(kind="cuda", arch="sm_90"), None, "x", [], 1)
    if told:
        session.put(rates.Value("gpu boost_mhz", told, "the driver"))
    found = rates.Rates._clock(SimpleNamespace(session=session, _missing=lambda *of: None), "tensor_boost_mhz", rates.Measured((1.0,) * 3, mhz), "work")
    assert found == value and (value is None or session.value("gpu tensor_boost_mhz").value == value)


def test_what_follows_of_a_row_by_hand():
    """Memory in units of 2^30 bytes, TFLOPS of clocks and rates, what a shipped GPU of the same arch has, and each one's standing."""
    def known(arch="sm_90", **values):
        session = Session(SimpleNamespace(kind="cuda", arch=arch, name="x"), None, "x", [], 1)
        for name, value in values.items():
            session.put(rates.Value(f"gpu {name}", value, "so"))
        return {name: (one.value, one.standing) for name, one in gpu_row.known(session).items()}

    found = known(device_memory_bytes=85_100_000_000, sms=100, boost_mhz=2000, tensor_boost_mhz=1500, f32_fma_per_clock=128, tensor_fma_per_clock={"f16": 1024})
    assert found["dram_gib"] == (79.3, "measured")
    assert (found["f32_tflops"], found["f16_tflops"]) == ((51.2, "measured"), (307.2, "measured"))
    like = next(one for one in GPUS.rows() if one.arch == "sm_90")
    assumed = known(boost_mhz=2000)
    assert assumed["tensor_boost_mhz"] == (2000, "assumed") and assumed["l2_mib"] == (like.rates.l2_mib, "assumed")
    assert assumed["dram_gib"] == (like.rates.dram_gib, "assumed") and assumed["f32_tflops"][1] == "assumed"
    assert "l2_mib" not in known(arch="sm_91", boost_mhz=2000)  # of the vendor's other GPUs nothing is assumed


@pytest.mark.parametrize(("arch", "asynchronous", "engine"), [
    ("sm_75", False, False), ("sm_80", True, False), ("sm_89", True, False), ("sm_90", True, True), ("sm_120", True, True), ("gfx942", False, False),
])
def test_which_copies_and_launches_a_target_has(monkeypatch, arch, asynchronous, engine):
    class Told(Exception):
        pass

    def source(*of, **asked):
        raise Told(asked["async_copies"], asked["bulk_copies"], asked["stamps"])

    monkeypatch.setattr(rates, "plain_source", source)
    with pytest.raises(Told) as found:
        rates.Rates(SimpleNamespace(machine=SimpleNamespace(arch=arch), fragments=[]))
    assert found.value.args == (asynchronous, engine, ["stamp", "stamp_dependent"][: 1 + engine])


@pytest.mark.parametrize(("arch", "ticks"), [("sm_90", 1e9), ("gfx942", 1e8)])
def test_what_a_launch_tells_of_its_time(arch, ticks):
    """From the first block's start to the last one's end; the clock is the longest block's."""
    told = np.array([[100, 10, 1010, 3], [150, 510, 3010, 4], [90, 400, 900, 3]], np.uint64)
    kernels = SimpleNamespace(download=lambda out, dtype, count: told.ravel())
    for mhz, cycles in ((None, [100, 150, 90]), (2e-6 * ticks, [2000, 5000, 1000])):
        run = rates.Bench(SimpleNamespace(arch=arch), kernels, None, mhz).told(None, 3)
        assert run.cycles.tolist() == pytest.approx(cycles) and run.processors == 2
        assert (run.span, run.mhz) == (pytest.approx(3000 / ticks), pytest.approx(mhz or 150 / 2500 * ticks / 1e6))


# ---------------------------------------------------------------- limits

HOLDS = {
    "Hopper's": {},
    "Ada's": {"threads_per_sm": 1536, "blocks_per_sm": 24, "shared_bytes_per_sm": 102400, "shared_bytes_per_block": 101376, "cluster": 1},
    "Turing's": {"threads_per_sm": 1024, "blocks_per_sm": 16, "shared_bytes_per_sm": 65536, "shared_bytes_per_block": 65536,
                 "shared_bytes_reserved_per_block": 0, "shared_allocation_unit": 256, "cluster": 1},
    "registers by fours": {"register_allocation_unit": 128, "cluster": 8},
    "registers one by one": {"register_allocation_unit": 32},
    "registers by 24, and half as many again": {"register_allocation_unit": 768, "registers_per_sm": 196608, "registers_per_thread": 256, "compiler": 256},
    "few registers a thread, which the compiler does not know": {"registers_per_thread": 168},
    "small blocks": {"threads_per_block": 384, "blocks_per_sm": 8, "threads_per_sm": 1536},
    "fewer blocks than threads": {"blocks_per_sm": 5},
    "odd numbers": {"blocks_per_sm": 13, "threads_per_sm": 1664, "registers_per_sm": 81920, "shared_bytes_per_sm": 196608, "shared_bytes_per_block": 180000,
                    "shared_bytes_reserved_per_block": 2304, "shared_allocation_unit": 768, "cluster": 12, "without_opt_in": 30000},
    "between two usual values": {"threads_per_block": 992, "threads_per_sm": 1984, "blocks_per_sm": 31, "registers_per_thread": 254,
                                 "shared_bytes_per_block": 49153, "cluster": 15, "without_opt_in": 49151},
    "one less than what is usual": {"threads_per_block": 991, "threads_per_sm": 1920, "blocks_per_sm": 15, "registers_per_thread": 167,
                                    "shared_bytes_per_block": 49151, "cluster": 64},
    "as many blocks as warps": {"blocks_per_sm": 64, "shared_allocation_unit": 1024, "shared_bytes_reserved_per_block": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", HOLDS)
def test_planted_limits_are_found(name):
    held = FakeLimits(**HOLDS[name])
    few = {"shared_bytes_per_sm": held.shared_bytes_per_sm, "shared_bytes_reserved_per_block": held.shared_bytes_reserved_per_block}
    session = found(FakeGpu(by_row("exact", 16), limits=held, told=few if held.blocks_per_sm < 12 else {}), launch_limits.measure)
    planted = {key: value for key, value in asdict(held).items() if key in Limits.model_fields and key != "warp_size"}
    assert values(session, Limits) == planted
    assert session.value("gpu cluster_blocks").value == held.cluster
    assert ("it may be larger" in session.value("gpu blocks_per_sm").how) == (held.blocks_per_sm * 32 >= held.threads_per_sm)
    assert session.value("gpu shared_bytes_without_opt_in").value == min(held.without_opt_in, held.shared_bytes_per_block)
    assert all(one.standing == "measured" for one in session.values if one.name.removeprefix("gpu ") in planted)


def test_what_a_driver_tells_is_held_against_what_was_tried():
    """It decides between sizes that explain the same; it does not stand against what was found."""
    told = {"registers_per_sm": 66000, "shared_bytes_per_sm": 233500, "threads_per_block": 512}
    session = found(FakeGpu(by_row("exact", 16), told=told), launch_limits.measure)
    assert session.value("gpu registers_per_sm").value == 66000 and session.value("gpu shared_bytes_per_sm").value == 233500
    block = session.value("gpu threads_per_block")
    assert block.value == 1024 and "the driver tells 512" in block.how
    wrong = found(FakeGpu(by_row("exact", 16), told={"registers_per_sm": 99999, "shared_bytes_per_sm": 99999}), launch_limits.measure)
    assert wrong.value("gpu registers_per_sm").value == 65536 and wrong.value("gpu shared_bytes_per_sm").value == 233472
    assert "the driver tells 99999" in wrong.value("gpu registers_per_sm").how


@pytest.mark.parametrize("name", ["registers_per_sm", "shared_bytes_per_sm"])
def test_the_last_size_that_explains_the_answers_is_believed_and_the_next_is_not(name):
    def tell(size):
        return found(FakeGpu(by_row("exact", 16), told={name: size} if size else {}), launch_limits.measure).value(f"gpu {name}")

    low, last = map(int, re.search(r"which (\d+) to (\d+) explain", tell(None).how).groups())
    assert [tell(size).value for size in (low, last, last + 1)] == [low, last, low]


def test_a_limit_is_the_last_number_that_holds():
    """Whatever the number is, and nothing is asked of the end or beyond."""
    def last(most, first, end):
        def holds(number):
            assert first < number < end
            return number <= most

        return _last(holds, first, end)

    assert list(launch_limits.Tried(FakeGpu(by_row("exact", 16))).residents(96)) == [32, 64, 96]
    assert all(last(most, 1, end) == min(most, end - 1) for end in (2, 3, 16, 17, 40) for most in range(1, 45))


@pytest.mark.parametrize("unit", [1, 3, 8, 63, 64])
def test_sizes_are_told_by_whatever_units_explain_them(unit):
    """By hand: four parts of an SM hold whole warps each; and blocks whose shared bytes are rounded up, of which the system keeps up to 16 KiB."""
    whole = 4 * 32 * 64 * 7 * 9 * 6
    for warps in (3, 4, 8):
        blocks = {registers: 4 * (whole // 4 // (-(-registers // unit) * unit * 32)) // warps for registers in range(16, 256)}
        file = next(one for one in register_files(blocks, 32 * warps, 32, max(blocks.values())) if one.unit == 32 * unit)
        assert file.low <= whole < file.high
        for registers, count in blocks.items():  # the ends are those of the answers
            each = -(-registers // unit) * unit * 32
            assert 4 * (file.low // 4 // each) // warps >= count
        assert any(4 * ((file.low // 4 - 1) // (-(-r // unit) * unit * 32)) // warps < count for r, count in blocks.items())
    # Five blocks of three warps are 15, of which one of the four parts holds four and a sixth block would make it five.
    at_least = -(-32 // unit) * unit * 32 * 4
    assert next((one.low, one.high) for one in register_files({32: 5}, 96, 32, 9) if one.unit == 32 * unit) == (4 * at_least, 5 * at_least)
    for reserved in (0, 64 * unit, 16384):
        size, total = 4 * unit, 4 * unit * 60061
        sizes = {blocks: total // blocks // size * size - reserved for blocks in range(2, 12)}
        held = [one for one in shared_files(sizes) if (one.unit, one.reserved) == (size, reserved)]
        assert len(held) == 1 and held[0].low <= total < held[0].high


def test_answers_that_no_unit_explains_leave_none():
    assert register_files({32: 16, 33: 2, 34: 15}, 128, 32, 16) == []
    assert shared_files({2: 1000, 3: 1000, 4: 900}) == [] == shared_files({2: 1000})


@pytest.mark.slow
def test_an_emulated_row_that_was_changed_is_found():
    """By kernels of the compiler: what it gives a thread is tried against the row."""
    gpu = GPUS.get("a100")
    hidden = gpu.limits.model_copy(update={"registers_per_thread": 72, "register_allocation_unit": 512, "blocks_per_sm": 20, "shared_allocation_unit": 256})
    session = found(EmulatedMachine(gpu.model_copy(update={"limits": hidden})), launch_limits.measure, rates.measure)
    assert values(session, Limits) == hidden.model_dump()
    unknown = [one for one in session.values if one.standing == "not found"]
    assert unknown and all(one.how == NO_CLOCK and one.value is None for one in unknown) and session.value("gpu boost_mhz").standing == "told"


# ---------------------------------------------------------------- rates


@pytest.fixture(scope="module")
def whole():
    """Of a GPU of which the driver tells nothing."""
    fast = FakeRates(tensor={"*": 1003.0, "wgmma_m64n256k16_f16": 1990.0}, banks=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "WARMTH", 0.0)
        patch.setattr(rates, "SUSTAINED", 0.0)
        return fast, found(FakeGpu(by_row("exact", 16), rates=fast), launch_limits.measure, rates.measure, fragments=(F16, WGMMA))


def test_planted_rates_are_found(whole):
    fast, session = whole
    raw = {name: session.value(f"rate {name}").value for name in rates.RAW if session.value(f"rate {name}")}
    assert raw.keys() == rates.RAW.keys() - {"clock power_w", "clock power_limit_w"}
    expected = {
        "f32 fma_per_clock": fast.fma, "shared bytes_per_clock": fast.shared, "shared latency_cycles": fast.shared_latency, "shared bank_bytes": 4,
        "l2 latency_cycles": fast.l2_latency, "l2 bytes_per_clock": fast.l2_bytes, "dram read_gb_per_s": 1900, "dram copy_gb_per_s": 1900,
        "dram latency_ns": fast.dram_latency / 1.7, "launch gap_us": 0.9, "launch dependent_gap_us": 0.4, "host to_device_gb_per_s": 25,
        "async_copy bytes_per_clock": 41, "bulk_copy bytes_per_clock": 41, "clock sustained_mhz": 1700, "launch round_trip_us": 12, "f32 latency_cycles": 4,
        "clock sustained_tflops": 2e-6 * 77 * 1700 * 1990,
    }  # fmt: skip
    assert {name: raw[name] for name in expected} == pytest.approx(expected, rel=2e-3)
    assert raw["l2 mib"] == pytest.approx(33.5, rel=0.02)
    assert session.value("rate resident_blocks").value == [32, 4, 4]  # of warps, of 512 threads, of a quarter of shared memory
    for name in (F16, WGMMA, "wgmma_m64n256k16_f16"):
        assert session.value(f"rate {name} fma_per_clock").value == (1990 if "256" in name else 1003)
        assert session.value(f"rate {name} latency_cycles").value == 18


def test_a_rows_rates_are_the_peaks_of_what_was_reached(whole):
    fast, session = whole
    assert values(session, Rates) == {
        "sms": 77, "boost_mhz": 1700, "tensor_boost_mhz": 1700, "f32_fma_per_clock": 128, "tensor_fma_per_clock": {"f16": 2048},
        "f16_tflops": pytest.approx(536.2, rel=1e-3), "f32_tflops": pytest.approx(33.51, rel=1e-3), "shared_bytes_per_clock": 128, "dram_gb_per_s": 1900.0,
        "dram_gib": None, "l2_mib": 34,
    }  # fmt: skip
    assert session.value("gpu shared_banks").value == 64
    found_rates = Rates(**values(session, Rates) | {"dram_gib": 80})  # which agree with one another
    assert found_rates.tensor_tflops("f16") == pytest.approx(536.2, rel=1e-3)
    reached = session.value("gpu tensor_fma_per_clock").how
    assert "1990 reached by wgmma_m64n256k16_f16, 97 % of 2048" in reached
    assert "tensor_fma_per_clock = { f16 = 2048 }" in session.rows["gpu.partial.toml"]
    assert all("7 repeats, spread" in session.value(f"rate {name}").proof for name in ("f32 fma_per_clock", "l2 latency_cycles", f"{F16} fma_per_clock"))
    assert "| f32 fma_per_clock | 126 | 0 % | 1700 |" in dict(session.sections)["Rates"]


def test_a_rate_is_refused_where_the_clock_changed():
    def clock(symbol, before):
        return 1500.0 if symbol == "shared_read" and before % 3 == 0 or symbol == "read_memory" and 5 < before < 9 else 1700.0

    told = {"boost_mhz": 1710.0, "dram_gb_per_s": 2000.0, "l2_mib": 30.0, "device_memory_bytes": 85 * 10**9}
    session = found(FakeGpu(by_row("exact", 16), rates=FakeRates(mhz=clock), told=told), launch_limits.measure, rates.measure, fragments=(F16,))
    refused = session.value("rate shared bytes_per_clock")
    assert refused.standing == "not found" and refused.value is None
    assert refused.how == "the clock changed between repeats, 1500 to 1700 MHz, 3 times over: the chip throttled"
    assert session.value("gpu shared_bytes_per_clock").standing == "not found"
    assert session.value("rate l2 bytes_per_clock").value == 41  # which was measured once more
    assert session.value("gpu dram_gb_per_s").standing == session.value("gpu l2_mib").standing == "told"
    assert session.value("gpu boost_mhz").value == 1710 and "1700.0 MHz" in session.value("gpu boost_mhz").how
    assert session.value("gpu dram_gib").value == 80 and session.value("rate dram latency_ns").how.endswith(", of 2048 MiB")


CDNA = FakeLimits(64, registers_per_sm=131072, registers_per_thread=512, register_allocation_unit=512, shared_bytes_per_sm=65536, compiler=512,
                  shared_bytes_per_block=65536, shared_bytes_reserved_per_block=0, shared_allocation_unit=512, cluster=1, without_opt_in=65536)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
def test_another_vendors_gpu_is_measured_alike(arch):
    """Its timer is slower, kernels do not tell on which SM they run, and of one target the counter of cycles wraps around."""
    held = CDNA if arch == "gfx90a" else FakeLimits(32, registers_per_sm=196608, registers_per_thread=256, register_allocation_unit=768, compiler=256, cluster=1)
    name = {"gfx90a": "mfma_m16n16k16_f16", "gfx1100": "rdna3_m16n16k16_f16"}[arch]
    gpu = FakeGpu(by_row("exact", 16), limits=held, rates=FakeRates(banks=32), told={"sms": 77, "device_memory_bytes": 6 << 30}, arch=arch, kind="hip")
    session = found(gpu, launch_limits.measure, rates.measure, fragments=(name,))
    planted = {key: value for key, value in asdict(held).items() if key in Limits.model_fields and key != "warp_size"}
    assert values(session, Limits) == {**planted, "shared_banks": 32}
    expected = {"sms": 77, "boost_mhz": 1700, "f32_fma_per_clock": 128, "tensor_fma_per_clock": {"f16": 1024}}
    assert {key: values(session, Rates)[key] for key in expected} == expected
    assert session.value(f"rate {name} fma_per_clock").value == pytest.approx(1003, rel=2e-3)
    assert session.value("rate launch gap_us").value == 0.9 and session.value("rate bulk_copy bytes_per_clock") is None
    assert session.value("rate dram latency_ns").how.endswith(", of 1536 MiB")  # a quarter of what there is
    assert session.value("rate l2 mib").value == pytest.approx(33.5, rel=0.02)  # by reads of device memory of more cycles than 20 bits count


@pytest.mark.parametrize(("symbol", "share"), [("read_memory", 1), ("write_memory", 1), ("copy_memory", 2)])
def test_a_copy_has_half_of_the_memory_to_read_and_half_to_write(symbol, share):
    asked = []
    of = SimpleNamespace(most=1 << 24, bench=SimpleNamespace(repeated=lambda value, *given: asked.append(given) or value(SimpleNamespace(span=1e-3))))
    rate = rates.Rates._dram(of, symbol, share, 3)
    [(kernel, blocks, threads, steps, count, step)] = asked
    assert (kernel, blocks, threads, steps, step) == (symbol, 3, 512, 1, 1536) and count % (8 * 1536) == 0
    assert 0.98 * of.most < 16 * count * share <= of.most and rate == pytest.approx(1e-6 * 16 * count * share)


def test_the_clock_under_load_is_that_of_the_last_third(monkeypatch):
    """The chip slows down in the second half of the launches: what it keeps up is the lower clock."""
    clocks, told = iter([2000.0, 2000.0, 1500.0, 1500.0]), {}

    class Slowing:
        def __init__(self, *of):
            pass

        def scaled(self, *of, seconds):
            return 7

        def launch(self, symbol, blocks, threads, steps):
            return next(clocks)

        def told(self, mhz, blocks):
            return SimpleNamespace(mhz=mhz, span=2.0 / mhz)

    monkeypatch.setattr(rates, "Bench", Slowing)
    session = Session(SimpleNamespace(kind="cuda", arch="sm_90"), None, "x", [], 1)
    session.put(rates.Value(f"rate {F16} fma_per_clock", 1003.0, "so"))
    rates.Rates._sustained(SimpleNamespace(
        session=session, machine=SimpleNamespace(sensors=lambda: None), instructions={F16: FRAGMENTS.get(F16)}, mhz=None, sms=3, lines=[],
        built={F16: SimpleNamespace(upload=lambda words, name: None)}, _plain=lambda name, value, *how: told.update({name: value})))
    m, n, k = FRAGMENTS.get(F16).shape
    form = rates.Form.of(FRAGMENTS.get(F16))
    work = 2e-12 * 3 * form.issuers * form.per_step * m * n * k * 7
    assert told == {"clock sustained_mhz": 1500.0, "clock sustained_tflops": pytest.approx(work * 1500 / 2)}


def test_bandwidths_are_the_most_that_launches_of_several_sizes_reach():
    """The peak of a GPU whose driver does not tell it is the most of reads, writes and copies."""
    reached, raw = {"read_memory": {3: 5.0, 6: 9.0, 12: 7.0}, "write_memory": {3: 4.0, 6: 3.0, 12: 2.0}, "copy_memory": {3: 6.0, 6: 7.0, 12: 8.0}}, {}
    session = Session(SimpleNamespace(arch="sm_90"), None, "x", [], 1)
    session.put(Value("gpu device_memory_bytes", 2**30 + 1, "the driver", "told"))
    rates.Rates._bandwidth(SimpleNamespace(
        sms=3, session=session, _l2_bytes=lambda mib, blocks: Measured((mib + blocks,), (1,)), _raw=lambda name, one: raw.setdefault(name, one.value),
        _dram=lambda symbol, share, blocks: Measured((reached[symbol][blocks],), (1,))), 32.0)
    assert raw == {"l2 bytes_per_clock": 38.0, "dram read_gb_per_s": 9.0, "dram write_gb_per_s": 4.0, "dram copy_gb_per_s": 8.0}
    assert session.value("gpu dram_gb_per_s").value == 9.0 and "by read" in session.value("gpu dram_gb_per_s").how
    assert session.value("gpu dram_gib").value == 2


def test_a_rate_that_wavers_may_differ_by_twice_its_spread():
    session = Session(SimpleNamespace(arch="sm_90"), None, "x", [], 1)
    of = SimpleNamespace(session=session, lines=[])
    assert [rates.Rates._plain(of, name, 1.2345, spread, 1500.0, "how", "proof", 3) for name, spread in (("a", 0.1), ("b", 0.001))] == [1.23, 1.23]
    assert [(one.name, one.value, one.tolerance) for one in session.values] == [("rate a", 1.23, 0.2), ("rate b", 1.23, 0.05)]
    assert of.lines[0] == "| a | 1.23 | 10 % | 1500 | how |"


def test_the_clock_of_matrix_instructions_is_the_fastest_of_fp16_words(monkeypatch):
    """Of an instruction that of its rate's or its latency's launches, the faster; of a GPU that of its instructions of FP16 words."""
    slow, fast = Measured((1.0,), (1500.0,)), Measured((1.0,), (1700.0,))
    for order in ((slow, fast), (fast, slow)):
        runs, seen = iter(order), {}
        monkeypatch.setattr(rates, "Bench", lambda *of: SimpleNamespace(scaled=lambda *asked: 1, repeated=lambda *asked: next(runs)))
        rates.Rates._matrix(SimpleNamespace(
            instructions={F16: FRAGMENTS.get(F16)}, built={F16: SimpleNamespace(upload=lambda words, name: None)}, machine=None, mhz=None, sms=3,
            session=SimpleNamespace(progress=lambda text: None), _raw=lambda name, found, how: found.value, _tensor=lambda best, clocks: seen.update(clocks)))
        assert seen == {F16: fast}
    asked = []
    words = {"a": "f16", "b": "f16", "c": "s8"}
    rates.Rates._tensor(SimpleNamespace(
        instructions={name: SimpleNamespace(word=word) for name, word in words.items()}, _missing=lambda *of: None,
        session=SimpleNamespace(put=lambda value: asked.append(value.value)), _clock=lambda name, found, what: asked.append((name, found.clock)) or 1700,
        _tflops=lambda *of: asked.append(of)), {"f16": (1000.0, "b"), "s8": (2000.0, "c")}, {"a": slow, "b": fast, "c": Measured((1.0,), (1900.0,))})
    assert asked == [{"f16": 1024, "s8": 2048}, ("tensor_boost_mhz", 1700.0), ("f16_tflops", 1700, 1024)]


def test_a_cache_is_sought_among_working_sets_that_fit_into_what_is_read(monkeypatch):
    asked = []
    monkeypatch.setattr(rates, "find_capacities", lambda latency, most: asked.append(most) or [])
    for mib in (64, 4096):
        assert rates.Rates._l2_size(SimpleNamespace(most=mib << 20, _missing=lambda *of: None)) is None
    assert asked == [64, rates.MOST_L2_MIB]


@pytest.mark.parametrize(("powers", "watts", "spread", "slowed", "looks"), [
    ((100, 300, 320, 200, 250, 240), 245.0, 10 / 245, "; slowed by power cap", 2), ((200,), 200.0, 0.0, "", 1), ((), None, None, "", 0),
])
def test_the_power_under_load_is_that_of_the_last_third(monkeypatch, powers, watts, spread, slowed, looks):
    """Each batch of launches is looked at once; what slowed the GPU before counts for nothing."""
    told, clock = {}, iter([0.0, *[0.5] * (max(len(powers), 1) - 1), 9.0])
    read = iter([SimpleNamespace(power_w=power, throttles=bits) for power, bits in zip(powers, (0, 8, 8, 8, 0, 4))])

    class Bench:
        def __init__(self, *of):
            pass

        def scaled(self, *of, seconds):
            return 7

        def launch(self, *of):
            return None

        def told(self, out, blocks):
            return SimpleNamespace(mhz=1500.0, span=1.0)

    monkeypatch.setattr(rates, "Bench", Bench)
    monkeypatch.setattr(rates, "SUSTAINED", 1.0)
    monkeypatch.setattr(rates.time, "perf_counter", lambda: next(clock))
    session = Session(SimpleNamespace(kind="cuda", arch="sm_90"), None, "x", [], 1)
    session.put(rates.Value(f"rate {F16} fma_per_clock", 1003.0, "so"))
    sensors = SimpleNamespace(read=lambda: next(read), power_limit=lambda: 350.0) if powers else None
    lines = []
    rates.Rates._sustained(SimpleNamespace(
        session=session, machine=SimpleNamespace(sensors=lambda: sensors), instructions={F16: FRAGMENTS.get(F16)}, mhz=None, sms=3, lines=lines,
        built={F16: SimpleNamespace(upload=lambda words, name: None)}, _plain=lambda name, *what: told.update({name: what})))
    limit = session.value("rate clock power_limit_w")
    if powers:
        value, wavers, clocks, how, proof = told["clock power_w"]
        assert (value, wavers, clocks, proof) == (watts, pytest.approx(spread), 1500.0, f"{looks} looks") and limit.value == 350.0
        assert how == rates.RAW["clock power_w"] + slowed
    else:
        assert "clock power_w" not in told and lines == ["| clock power_w | | | | no sensors |"] and limit is None


def test_words_that_nobody_asked_for_are_not_missed():
    session = found(FakeGpu(by_row("exact", 16)), launch_limits.measure, rates.measure, fragments=("mma_m8n8k16_s8",))
    assert session.value("gpu tensor_fma_per_clock").value == {"s8": 1024}
    assert not [one.name for one in session.values if one.standing == "not found" and one.name != "gpu dram_gib"]


def test_an_instruction_that_the_compiler_refuses_is_told(monkeypatch):
    class Refusing(FakeGpu):
        def kernels(self, source):
            if source.name == f"bringup_{F16}":
                raise BuildError(source.name, "is refused")
            return super().kernels(source)

    session = found(Refusing(by_row("exact", 16)), launch_limits.measure, rates.measure, fragments=(F16, "mma_m8n8k16_s8"))
    refused = session.value(f"rate {F16} fma_per_clock")
    assert refused.standing == "not found" and "is refused" in refused.how
    assert session.value("gpu f16_tflops").standing == "not found" and session.value("gpu tensor_fma_per_clock").value == {"s8": 1024}


@pytest.mark.parametrize(("lanes", "banks", "width"), [(32, 32, 4), (32, 64, 4), (32, 32, 8), (64, 32, 4), (64, 64, 4), (32, 16, 4), (32, 16, 16)])
def test_banks_are_found_by_strides(lanes, banks, width):
    """Reads of a warp are as many as words of one bank."""
    def cost(stride, odd):
        pieces = {(4 * lane * stride + 4 * (lane & 1) * odd) // width for lane in range(lanes)}
        return max(sum(piece % banks == bank for piece in pieces) for bank in range(banks))

    known = find_banks(cost)
    assert (known.count, known.width) == (banks, width) and known.costs[1] == cost(1, 0)


def test_costs_that_do_not_end_growing_tell_no_banks():
    assert find_banks(lambda stride, odd: stride) is None and find_banks(lambda stride, odd: 1) is None


@pytest.mark.parametrize("sizes", [(3.0,), (47.0,), (28.0, 60.0)])
def test_a_caches_size_is_where_latency_leaves_it(sizes):
    """Of a cache whose nearer part ends before, as well; a tenth beyond its end some reads are still served."""
    def latency(mib):
        return 250 + sum(300 / (1 + at) * min(1, max(0, (mib / size - 0.97) * 10)) for at, size in enumerate(sizes))

    assert find_capacities(latency, 384) == pytest.approx(list(sizes), rel=0.04)
    assert find_capacities(lambda mib: 250 + mib / 2, 384) == []


def test_peaks_are_powers_of_two_but_for_what_clocks_cannot_tell():
    assert [power_of_two(raw) for raw in (128.9, 126, 64, 64.9, 66, 2047, 1270, 0.9)] == [128, 128, 64, 64, 128, 2048, 2048, 1]


def test_what_a_measurement_wavers_by_is_no_change():
    before = {"device": "one", "values": {"rate x": {"value": 100.0, "tolerance": 0.05}, "gpu y": {"value": 100.0}}}
    now = {"device": "one", "values": {"rate x": {"value": 104.0, "tolerance": 0.05}, "gpu y": {"value": 100.0}}}
    assert changes(before, now) == []
    now["values"]["rate x"]["value"] = 110.0
    assert changes(before, now) == ["rate x: was 100.0, is 110.0"]
