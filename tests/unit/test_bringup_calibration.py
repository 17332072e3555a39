"""The end of a bring-up: the GPU's row, constants of the models fitted to kernels, and the reference set on them."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fake_gpu import FakeGpu
from fake_pool import FakePool

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.generation import GENERATION_TABLE
from gemmgen.catalog.gpu import GPUS, nearest_generation
from gemmgen.catalog.registers import Slopes
from gemmgen.catalog.vendor import VENDORS
from gemmgen.errors import GemmgenError, UnknownName
from gemmgen.model.registers import SLOPE_OF
from gemmgen.solve import solve
from gemmgen.spec import load, loads
from gemmgen.paths import SPECS
from gemmgen.workshop.bringup import calibrate, facts, kernels, gpu_row, sample
from gemmgen.workshop.bringup.calibrate import Fit
from gemmgen.workshop.bringup.sample import Timed
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.explore.own_rows import gpu_of
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.fit import register_model as registers
from gemmgen.workshop.fit.register_model import asked as numbers_asked
from gemmgen.workshop.fit.time_model import Errors, Learnt, with_constants

HIDDEN = {("", "mma_efficiency"): 0.55, ("", "launch_seconds"): 5e-6, ("", "memory_cycles"): 1500.0, ("", "tile_cycles_per_element"): 1.1}
"""Constants of the made-up GPU, none of which is near the prior."""
CELLS = (("ootomo", 5, ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 2048), (64, 4096, 1024))),)
BESIDE = {size: tuple(side * 3 // 2 for side in size) for _, _, sizes in CELLS for size in sizes}


UNIT = """name = "made_up"
source = "a test"
rule = "truncate"
fraction_bits = 24
verified = "nothing"
integers = ["s8"]
[block]
f16 = 8
bf16 = 8
tf32 = 4
"""


def session_of(kernels=0, told=None):
    """A session whose first parts are done, on a made-up GPU of sm_80."""
    machine = FakeGpu(multiply=None, arch="sm_80", told={"sms": 100, "boost_mhz": 1500, "device_memory_bytes": 2**35, **(told or {})})
    session = Session(machine, None, "made_up", [], 100, kernels=kernels)
    facts.measure(session)
    session.rows["units/made_up.toml"] = UNIT
    return session


def hidden_gpu(session, values=HIDDEN):
    """Its row, with the constants that a calibration is to find."""
    return with_constants(GPUS.get(str(session.place())), values)


# ---------------------------------------------------------------- the row


def test_the_row_is_whole_and_every_value_has_its_standing():
    session = session_of()
    session.put(Value("gpu tensor_fma_per_clock", {"f16": 1001.2, "tf32": 500.4}, "chains of independent products", "measured", "5 repeats"))
    gpu_row.measure(session)
    gpu = GPUS.get(str(session.place()))
    assert "gpu.partial.toml" not in session.rows and gpu.name == "made_up" and gpu.generation == "generations/made_up.toml"
    assert (gpu.rates.sms, gpu.rates.tensor_fma_per_clock, gpu.rates.dram_gib) == (100, {"f16": 1001, "tf32": 500}, 32)
    assert gpu.rates.f16_tflops == pytest.approx(2e-6 * 100 * 1500 * 1001)
    text = session.rows["made_up.toml"]
    lines = [line for line in text.partition("[limits]")[2].splitlines() if "=" in line]
    assert all(line.partition("  # ")[2].startswith(("measured: ", "told: ", "assumed: ")) for line in lines) and len(lines) == 24
    assert "sms = 100  # told: the driver" in text and "}  # measured: chains of independent products; 5 repeats" in text
    assert gpu.rates.f64_tflops == GPUS.get("a100").rates.f64_tflops == 19.5
    assert "f32_fma_per_clock = 64  # assumed: as of a100" in text and "# assumed: 2 * sms * boost_mhz * f32_fma_per_clock" in text
    assert tomllib.loads(session.rows["generations/made_up.toml"])["like"] == "ampere"
    session.clear()


def test_what_was_measured_last_goes_before_what_the_driver_says():
    session = session_of()
    session.values.append(Value("gpu boost_mhz", 1410, "a chain of FMA", "measured"))
    session.values.append(Value("gpu sms", None, "tried", "not found"))
    gpu_row.measure(session)
    assert GPUS.get(str(session.place())).rates.boost_mhz == 1410 and "sms = 100  # told" in session.rows["made_up.toml"]
    session.clear()


def test_constants_that_were_measured_are_in_the_generations_row():
    session = session_of()
    session.fragments = [FRAGMENTS.get("mma_m16n8k16_f16"), FRAGMENTS.get("mma_m16n8k8_f16"), FRAGMENTS.get("mma_m16n8k16_bf16")]
    session.put(Value("gpu tensor_fma_per_clock", {"f16": 1000}, "chains"))
    for name, reached in zip(("mma_m16n8k16_f16", "mma_m16n8k8_f16", "mma_m16n8k16_bf16"), (640.0, 320.0, 990.0)):
        session.put(Value(f"rate {name} fma_per_clock", reached, "chains"))
    session.put(Value("rate launch gap_us", 3.1, "empty kernels in a graph"))
    session.put(Value("rate dram copy_gb_per_s", None, "the clock changed", "not found"))
    gpu_row.measure(session)
    found = GPUS.get(str(session.place())).measured
    assert found.launch_seconds.value == 3.1e-6 and found.launch_seconds.source.startswith("measured: ")
    assert found.mma_efficiency.value == 0.64 and found.dram_efficiency.assumed
    assert found.memory_cycles.assumed
    [(title, text)] = session.sections
    assert title == "The GPU's row" and text.startswith(f"`{session.gpu_row}`: ") and "(2 they do)" in text
    session.clear()


def test_without_rates_the_row_stays_partial_and_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("GEMMGEN_HIDE", "gpus/a100,gpus/a100_80gb,gpus/a800")
    session = session_of()
    gpu_row.measure(session)
    text = session.rows["gpu.partial.toml"]
    assert "made_up.toml" not in session.rows and "sms = 100  # told: the driver" in text and "generation =" not in text and "tensor_fma_per_clock" in text
    [value] = [value for value in session.values if value.standing == "not found"]
    assert value.name == "gpu row" and "tensor_fma_per_clock" in value.how and "registers_per_thread" in value.how and "sms" not in value.how
    assert session.sections == [("The GPU's row", value.how)]


def test_a_row_that_contradicts_itself_is_not_written():
    session = session_of(told={"shared_bytes_per_block": 200_000})
    gpu_row.measure(session)
    assert "made_up.toml" not in session.rows and "gpu.partial.toml" in session.rows
    assert any("shared_bytes_per_block of at most" in value.how for value in session.values if value.name == "gpu row")


def test_hidden_rows_are_not_there(monkeypatch):
    monkeypatch.setenv("GEMMGEN_HIDE", "gpus/h200, gpus/h100,gpus/gh200,gpus/h20,units/hopper,generations/hopper")
    assert {"h200", "h100"}.isdisjoint(GPUS.names()) and all(one.arch != "sm_90" for one in GPUS.rows())
    assert nearest_generation(VENDORS["nvidia"], 90) == "ada"  # which is like the hidden one
    with pytest.raises(UnknownName, match="h200"):
        GPUS.get("h200")
    assert GENERATION_TABLE.get("ampere").measured.memory_cycles.assumed


# ---------------------------------------------------------------- registers


def shifted(table):
    """A compiler's constants that no row has: it keeps more beside what is held, and more of the narrow fragments."""
    slopes = table.slopes.model_copy(update={"per_narrow": tuple(1.3 * value for value in table.slopes.per_narrow)})
    straight = table.straight.model_copy(update={"offset": 34.0})
    return table.model_copy(update={"offset": tuple(value + 14 for value in table.offset), "slopes": slopes, "straight": straight})


@pytest.fixture(scope="module")
def compiled():
    """A session whose register model was calibrated to a made-up compiler; what its row said before; the compiler's constants."""
    session = session_of(kernels=36)
    gpu_row.measure(session)
    before = GPUS.get(str(session.place()))
    hidden = before.model_copy(update={"registers": shifted(before.registers)})
    with pytest.MonkeyPatch.context() as patch:
        few = [one for one in sample.COMPILED if one[1]["scheme"] in ("ootomo", "bf16x6") and "fragment_buffers" not in one[1]]
        patch.setattr(sample, "COMPILED", few)
        patch.setattr(sample, "TIMED", ())
        calibrate.fit_registers(session, FakePool(hidden, noise=0.01))
    yield session, before, hidden.registers
    session.clear()


def test_a_compilers_hidden_constants_are_found(compiled):
    session, before, hidden = compiled
    found = GPUS.get(str(session.place()))
    for scheme, size in (("ootomo", (300, 500, 700)), ("bf16x6", (2000, 2000, 900)), ("ootomo", (200, 200, 200))):
        spec = {"problem": dict(zip("mnk", size)), "split": {"scheme": scheme}, "target": {"gpu": "a100"}}
        design, numbers = (plan := solve(loads(spec))).design, numbers_asked(plan)
        numbers.pop("loop", None)
        real, prior, now = (float(design.registers(numbers, table)["registers"]) for table in (hidden, before.registers, found.registers))
        assert abs(now - real) <= 0.1 * real and abs(now - real) <= abs(prior - real)
    assert found.registers.source.startswith("fitted to ") and "by a made-up compiler for sm_80; mean error " in found.registers.source


def test_the_error_of_registers_is_that_of_kernels_left_out(compiled):
    session, _, _ = compiled
    error = session.value("registers error")
    assert error.value < 0.05 and error.standing == "measured"
    [text] = [text for title, text in session.sections if title == "The register model"]
    last = text.splitlines()[-2].split(" | ")
    assert float(last[2].split()[0]) > 2 * float(last[3].split()[0])
    assert float(last[3].split()[0]) == pytest.approx(100 * error.value, abs=0.1)


def test_a_kernel_is_told_by_a_fit_that_has_not_seen_it(monkeypatch):
    gpu = GPUS.get("a100")
    numbers = numbers_asked(solve(loads({"problem": dict.fromkeys("mnk", 1024), "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}})))
    rows = [registers.Compiled({"number": at}, "portable", "", numbers, 100 + at, 0) for at in range(16)]
    seen = []
    monkeypatch.setattr(registers, "fitted", lambda rows, table: seen.append({row.registers for row in rows}) or table)
    registers.fit(rows, gpu.registers)
    assert [len(one) for one in seen] == [12, 12, 12, 12, 16] and set.intersection(*seen[:4]) == set()
    seen.clear()
    registers.fit([*rows[:8], replace(rows[0], spills=8)], gpu.registers)  # as few as can be; one that spills tells nothing
    assert [len(one) for one in seen] == [6, 6, 6, 6, 8]
    with pytest.raises(GemmgenError, match="too few kernels"):
        registers.fit([*rows[:7], replace(rows[0], spills=8)], gpu.registers)


def test_what_a_fit_of_registers_says_of_itself(monkeypatch):
    """Kernels of 100 registers of which the prior tells twice as many and each fit three quarters; three took what the launch bound left, less 2 or more."""
    gpu, fitted_table = GPUS.get("a100"), object()
    rows = [registers.Compiled({}, "portable", "", {"loop": 0}, 100, 0) for _ in range(16)]
    monkeypatch.setattr(registers, "fitted", lambda rows, table: fitted_table)
    monkeypatch.setattr(registers, "predicting", lambda rows: lambda table: np.full(len(rows), 75.0 if table is fitted_table else 200.0))
    monkeypatch.setattr(registers, "budget", lambda row, table: next(budgets))
    budgets = iter([100, 102, 103, *[104] * 13])
    found = registers.fit([*rows, replace(rows[0], spills=8)], gpu.registers)
    assert (found.kernels, found.spilled, found.before, found.after, found.free) == (17, 1, 1.0, 0.25, (13, 1.0, 0.25))
    monkeypatch.undo()
    told = calibrate.registers_section(replace(found, table=gpu.registers), gpu, "none")
    assert "17 kernels" in told and "mean error 25.0 % of kernels" in told
    assert "[registers." not in told, "what is as before is not told again"
    own = {"thin": gpu.registers.thin.model_copy(update={"offset": 12.25}), "plain": gpu.registers.plain.model_copy(update={"ahead": (7.5,) * 5})}
    other = tomllib.loads(calibrate.registers_section(replace(found, table=gpu.registers.model_copy(update=own)), gpu, "none"))["registers"]
    assert other.keys() == {"source", "offset", "squeeze", "plain", "thin"} and other["plain"] == {"ahead": [7.5] * 5} and other["thin"] == {"offset": 12.2}
    assert "25.0 % of the 13 that the launch bound" in told


def test_kernels_to_time_are_the_first_choice_and_others_up_to_its_worth(monkeypatch):
    def plan(at, seconds):
        return SimpleNamespace(block=at, warp=0, where="", model={"seconds": seconds}, told=at)

    monkeypatch.setattr(sample, "loads", dict)
    monkeypatch.setattr(sample, "alternatives", lambda *given: ([plan("first", 1.0)], [plan("worth", 1.5), plan("just", 1.8), plan("not", 1.9)]))
    monkeypatch.setattr(sample, "settled_spec", lambda loaded, plan: plan.told)
    assert [(one.spec, one.seconds) for one in sample.proposed({}, (1, 2, 3), 3, 0)] == [("first", 1.0), ("worth", 1.5), ("just", 1.8)]
    whole, firsts = (list(sample.timed_cells("h200", "nvidia", one)) for one in (False, True))
    plain = {(spec["split"]["scheme"], spec["fragment"]["policy"]) for spec, *_ in whole}
    assert ("fp32", "fma") in plain and {scheme for scheme, policy in plain if policy == "fma"} == {"fp32"} and ("ootomo", "wgmma") in plain
    assert {count for *_, count in firsts} == {1} and 1 not in {count for *_, count in whole} and {size for _, size, _ in firsts} > {size for _, size, _ in whole}


def test_a_kernel_is_timed_at_two_sizes_and_predicted_at_its_own(monkeypatch):
    """One that is known there is passed over, and counts as none."""
    size, beside = (512, 512, 512), sample.BESIDE[512, 512, 512]
    spec = {"split": {"scheme": "ootomo"}, "target": {"gpu": str(SPECS / "gpus/a100.toml")}}
    wanted = [sample.Proposed(spec, size, 1e-3), sample.Proposed(spec, (1, 2, 3), 2e-3)]
    monkeypatch.setattr(sample, "candidates", lambda *given, **more: wanted)
    pool = SimpleNamespace(
        begin=lambda target, task: SimpleNamespace(result=lambda: ("value", ({"verdict": "compiled", "identity": str(task.size)}, b"made"))),
        on_gpu=lambda target, task: ("value", {"verdict": "timed", "seconds": 4.0}),
    )
    found = sample.timed("gpu", "nvidia", pool)
    assert [((row.m, row.n, row.k), row.predicted_seconds) for row in found.rows] == [(size, 1e-3), (beside, None), ((1, 2, 3), 2e-3)] and found.kernels == 2
    assert {row.gpu for row in found.rows} == {"a100"} and all(gpu_of(row).rates == GPUS.get("a100").rates for row in found.rows), "its row goes along"
    again = sample.timed("gpu", "nvidia", pool, firsts=True, done={(str((1, 2, 3)), (1, 2, 3))})
    assert [(row.m, row.n, row.k) for row in again.rows] == [size] and again.kernels == 1


def test_a_kernel_that_was_not_made_is_told_and_not_timed(monkeypatch):
    """Whoever tried it died, or the compiler's answer is a refusal, which brings columns and no code."""
    spec = {"split": {"scheme": "ootomo"}, "target": {"gpu": str(SPECS / "gpus/a100.toml")}}
    refused = {"verdict": "refused", "reason": "spills", "identity": "x"}
    answers = iter([("died", "no memory"), ("value", (refused, b"")), ("value", ({"identity": "y"}, b"made"))])
    timed = []
    pool = SimpleNamespace(begin=lambda target, task, answers=answers: SimpleNamespace(result=lambda: next(answers)),
                           on_gpu=lambda target, task: timed.append(task.size) or ("died", "hung"))
    found = sample.timed("gpu", "nvidia", pool, wanted=[sample.Proposed(spec, (at, 2, 3), 1e-3) for at in (1, 2, 3)])
    assert timed == [(3, 2, 3)] and found.kernels == 1 and found.refused == ("no memory", "spills", "hung")
    assert [(row.m, row.verdict) for row in found.rows] == [(3, "failed")]


def test_kernels_that_no_compiler_made_are_counted(monkeypatch):
    def all_of(answers):
        return lambda target, each: answers if target.endswith(":compiled") else [("value", [{"at": 1}]), ("failed", "no plan")]

    made = [("value", ("one", "a compiler")), ("failed", "spills"), ("value", ("two", "a compiler")), ("died", "")]
    for answers, told in ((made, (["one", "two"], 2, "a compiler")), (made[1::2], ([], 2, ""))):
        assert sample.compiled(GPUS.get("a100"), "a100", SimpleNamespace(all=all_of(answers))) == told


def test_draws_count_by_what_they_hold_out():
    asked = []

    def every(target, what, seconds):
        asked.append(len(what))
        errors = [Errors(rows, before, after, 0, 0) for rows, before, after in ((0, 9.0, 9.0), (1, 0.4, 0.1), (3, 0.8, 0.5), (1, 0.4, 0.1))]
        return [("value", SimpleNamespace(errors={"new sizes": one})) for one in errors[:len(what)]]

    fit = calibrate.fitted([], "gpu", SimpleNamespace(all=every))
    assert fit.held == {"new sizes": (pytest.approx(0.64), pytest.approx(0.34))} and fit.rows == {"new sizes": 5}
    assert calibrate.fitted([], "gpu", SimpleNamespace(all=every), held_out=False).held == {} and asked == [4, 1]


def test_a_group_keeps_the_prior_where_a_fit_tells_held_out_kernels_no_better(monkeypatch):
    """Kernels that all lie 10 registers higher move an offset; such as lie as far on either side do not."""
    gpu = GPUS.get("a100")
    numbers = numbers_asked(solve(loads({
        "problem": dict.fromkeys("mnk", 512), "split": {"scheme": "half"}, "target": {"gpu": "a100"}, "tile": {"warp": [32, 32, 32]},
    })))
    told = int(registers.predicting([registers.Compiled({}, "portable", "", numbers, 1, 0)])(gpu.registers)[0])

    def fitted_to(*off):
        rows = [registers.Compiled({"number": at}, "portable", "", numbers, told + one, 0) for at, one in enumerate(off)]
        return registers.fitted(rows, gpu.registers).offset[int(numbers["loop"])] - gpu.registers.offset[int(numbers["loop"])]

    assert 7 < fitted_to(10, 10, 10, 10, 10, 10, 10, 10) <= 11 and 5 < fitted_to(10) <= 11
    assert fitted_to(9, -12, 11, -9, 12, -11, 14, -8) == 0 == fitted_to(30, 0, 0, 0, 0)
    assert 0 < fitted_to(10, 10, 10, 10, 10, 10, 10, -30) <= 11


def test_a_row_that_was_not_fitted_has_its_neighbours_registers():
    assert GPUS.get("rtx3090").registers.offset == GENERATION_TABLE.get("ampere").registers.since["sm_86"] != GPUS.get("a100").registers.offset
    assert GPUS.get("rtx3090").registers.slopes == GENERATION_TABLE.get("hopper").registers.slopes
    assert GPUS.get("mi300x").registers.slopes == GENERATION_TABLE.get("cdna2").registers.slopes != GENERATION_TABLE.get("hopper").registers.slopes
    assert set(Slopes.model_fields) == set(SLOPE_OF)


# ---------------------------------------------------------------- times


@pytest.fixture(scope="module")
def calibrated():
    """A calibration to the times of a made-up GPU."""
    session = session_of(kernels=60)
    gpu_row.measure(session)
    pool = FakePool(hidden_gpu(session))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample, "TIMED", CELLS)
        patch.setattr(sample, "BESIDE", BESIDE)
        patch.setattr(sample, "BEST", 4)
        patch.setattr(sample, "DRAWN", 10)
        patch.setattr(calibrate, "SEEDS", (1,))
        patch.setattr(calibrate, "ROUNDS_OF_CHOICE", 0)
        calibrate.fit_times(session, pool)
    yield session, pool
    session.clear()


def test_hidden_constants_are_found(calibrated):
    session, pool = calibrated
    gpu = GPUS.get(str(session.place()))
    found = gpu.measured
    # Of a rate and a clock times tell the product.
    assert found.mma_efficiency.value * found.clock_efficiency.value == pytest.approx(0.55 * 0.95, rel=0.1)
    assert found.launch_seconds.value == pytest.approx(5e-6, rel=0.15)
    for m, n, k in ((700, 900, 500), (3000, 3000, 1000), (128, 8192, 2048)):  # kernels and sizes that it never timed
        spec = {"problem": {"m": m, "n": n, "k": k}, "split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}
        plan = solve(loads(spec))
        real, now = (float(replace(plan, gpu=one).model["seconds"]) for one in (pool.hidden, gpu))
        assert now == pytest.approx(real, rel=0.1)
    assert found.mma_efficiency.source.startswith("fitted to ") and "a made-up GPU" in found.mma_efficiency.source
    assert len(set(pool.timed)) == len(pool.timed) and len({size for _, size in pool.timed}) == 8


def test_what_a_fitted_model_would_choose_is_timed_until_it_is_known(monkeypatch):
    session = session_of(kernels=60)
    gpu_row.measure(session)
    chosen = iter(("a", "b", "c", "c"))
    asked, fits = [], []

    def timed(gpu, vendor, pool, *, firsts=False, done=(), **_):
        asked.append((firsts, set(done)))
        names = [next(chosen)] if firsts else ["a"]
        of = [Row("bringup", name, "kernel", "timed", name, gpu, 64, 64, 64, "nn", identity=name) for name in names if (name, (64, 64, 64)) not in done]
        return Timed(tuple(of), len(of), ())

    def fitted(rows, gpu, pool, held_out=True):
        fits.append((sorted(one.kernel for one in rows), {one.gpu for one in rows} == {gpu}, held_out))
        return Fit(Learnt(GPUS.get(gpu), "one", len(rows), len(rows), 1, (), {"fitted": Errors(1, 0.1, 0.1, 0.0, 0.0)}), {}, {})

    monkeypatch.setattr(sample, "timed", timed)
    monkeypatch.setattr(calibrate, "fitted", fitted)
    next(chosen)
    calibrate.fit_times(session, None)
    assert [firsts for firsts, _ in asked] == [False, True, True, True] and asked[-1][1] == {(name, (64, 64, 64)) for name in "abc"}
    assert fits == [(["a"], True, False), (["a", "b"], True, False), (["a", "b", "c"], True, False), (["a", "b", "c"], True, True)]
    session.clear()


def test_the_error_on_what_was_held_out_is_told(calibrated):
    session, _ = calibrated
    errors = {value.name: value.value for value in session.values if value.name.startswith("time error")}
    assert set(errors) == {"time error of new kernels", "time error of new sizes"} and max(errors.values()) < 0.08
    assert "# mean error of times that a fit had not seen: " in session.rows["generations/made_up.toml"]
    [text] = [text for title, text in session.sections if title == "The model of time"]
    assert "| of new kernels (" in text and "| mma_efficiency | 0.95 |" in text
    assert session.rows["times.json"].count('"verdict": "timed"') >= 24


def test_what_is_wrong_is_told_and_no_constant_rests_on_it(monkeypatch):
    session = session_of(kernels=60)
    gpu_row.measure(session)
    pool = FakePool(hidden_gpu(session), wrong="ootomo")
    monkeypatch.setattr(sample, "TIMED", (("ootomo", 2, ((1024, 1024, 1024),)),))
    calibrate.fit_times(session, pool)
    [value] = [value for value in session.values if value.name == "model of time"]
    assert value.standing == "not found" and "0 timed rows" in value.how and "[measured]\n" in session.rows["generations/made_up.toml"]
    session.clear()


def test_an_emulator_tells_no_times():
    session = session_of(kernels=60)
    session.machine.kind = "emulator"
    gpu_row.measure(session)
    calibrate.fit_times(session, None)
    assert any("Not timed" in text for _, text in session.sections)
    session.clear()


# ---------------------------------------------------------------- the reference set


def test_the_reference_set_is_ranked_and_its_specs_name_the_row(monkeypatch, tmp_path):
    session = session_of(kernels=60)
    gpu_row.measure(session)
    pool = FakePool(hidden_gpu(session), wrong="bf16")
    monkeypatch.setattr(kernels, "Processes", lambda: pool)
    monkeypatch.setattr(kernels, "REFERENCE", (("ootomo", ((1024, 1024, 1024),)), ("half", ((1024, 1024, 1024),)), ("bf16x3", ((1024, 1024, 1024),)),
                                               ("e4m3x6", ((1024, 1024, 1024),))))
    monkeypatch.setattr(sample, "BEST", 8)
    monkeypatch.setattr(sample, "DRAWN", 8)
    kernels.measure(session)
    [text] = [text for title, text in session.sections if title == "The reference set"]
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| 1024x")]
    assert [line[1] for line in lines] == ["half", "ootomo", "bf16x3", "e4m3x6", "cublas-sgemm"]
    assert float(lines[0][2]) < float(lines[1][2]) and lines[2][2] == "not timed" and "made up" in text
    assert set(session.rows) >= {"specs/ootomo_1024x1024x1024.toml", "specs/half_1024x1024x1024.toml"}
    assert "specs/bf16x3_1024x1024x1024.toml" not in session.rows
    standing = {value.name: value.standing for value in session.values if value.name.startswith("kernel ")}
    assert standing["kernel bf16x3_1024x1024x1024"] == "not found" and standing["kernel e4m3x6_1024x1024x1024"] == "told"
    for name, content in session.rows.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    session.clear()
    assert 'gpu = "../made_up.toml"' in session.rows["specs/ootomo_1024x1024x1024.toml"]
    plan = solve(load(tmp_path / "specs" / "ootomo_1024x1024x1024.toml"))
    assert plan.gpu.name == "made_up" and plan.hash in {identity for identity, _ in pool.timed}
