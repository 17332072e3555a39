"""What a bring-up tells of what it found: tables, rows and sentences with numbers counted by hand."""

from __future__ import annotations

import json
import tomllib
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.generation import Constant
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError, GemmgenError, SpecError
from gemmgen.workshop import bringup
from gemmgen.workshop.bringup import (
    calibrate,
    findings,
    fragments,
    from_row,
    gpu_row,
    instruction,
    kernels,
    launch_limits,
    maps,
    probe,
    profiled,
    rates,
    sample,
    toml_values,
    unit_row,
)
from gemmgen.workshop.bringup.data_sheet import Known, Numbers, Relation, _whole
from gemmgen.workshop.bringup.egemm import Profile
from gemmgen.workshop.bringup.kernels import Kernel, spec_text, table
from gemmgen.workshop.bringup.profiled import FLOAT, HALF, KINDS, TREE, Kind, Profiled, _drawn
from gemmgen.workshop.bringup.rates import Bench, Measured
from gemmgen.workshop.bringup.sample import Proposed, Timed, _spread
from gemmgen.workshop.bringup.session import Session, Value
from gemmgen.workshop.bringup.timed_launches import REPEATS, TRIES, Run
from gemmgen.workshop.bringup.unit_rules import Candidate
from gemmgen.workshop.explore.trial_row import Row
from gemmgen.workshop.verbs import bringup as verb

MMA = "mma_m16n8k8_f16"


# ---------------------------------------------------------------- the reference set


def tried(seconds, verdict="timed", predicted=1e-5, **more):
    columns = {"verdict": verdict, "kernel": f"of_{seconds}", "reason": "too large", "error": 2e-7, "rounds": 7, "spread": 0.034, **more}
    return Proposed({}, (8, 8, 8), predicted), columns | ({"seconds": seconds} if verdict == "timed" else {})


def test_the_reference_set_is_a_table_by_size_and_time():
    large, small = (2000, 1000, 500), (1000, 1000, 500)
    slow = Kernel("ootomo", large, [tried(None, "refused"), tried(4e-4, predicted=2e-4), tried(2e-4, predicted=1e-4)], verified=(True, "12 checks"), rival=5e-4)
    fast = Kernel("half", large, [tried(1e-4, predicted=1.5e-4)], verified=(False, "edges: wrong"), rival=5e-4)
    none = Kernel("fp32", small, [tried(None, "refused"), tried(None, "refused")])
    alone = Kernel("bf16x6", small, [tried(5e-5)], reason="of no use")
    assert (slow.name, slow.best[1]["kernel"], slow.first["kernel"], none.best, none.first) == ("ootomo_2000x1000x500", "of_0.0002", "of_0.0004", None, None)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table([slow, none, fast, alone], True).splitlines()[4:]]
    assert lines == [
        ["1000x1000x500", "bf16x6", "50", "20", "", "1.000", "0.20", "2e-07", "`of_5e-05`", ""],
        ["1000x1000x500", "fp32", "not timed", "", "", "", "", "", "too large", ""],
        ["2000x1000x500", "half", "100", "20", "5.00", "1.000", "1.50", "2e-07", "`of_0.0001`", "FAILED: edges: wrong"],
        ["2000x1000x500", "ootomo", "200", "10", "2.50", "2.000", "0.50", "2e-07", "`of_0.0002`", "12 checks"],
        ["2000x1000x500", "cublas-sgemm", "500", "4", "1", "", "", "", "", ""],
    ]
    untimed = table([slow, replace(none, tried=[], reason="no plan"), Kernel("tf32x3", small)], False).splitlines()
    assert untimed[0].startswith("Not timed:")
    assert untimed[4:] == ["| ootomo_2000x1000x500 | `of_0.0002` | 12 checks |", "| fp32_1000x1000x500 | no plan |  |",
                           "| tf32x3_1000x1000x500 | none fits the GPU |  |"]


def test_what_an_emulated_gpu_takes_and_holds():
    """Of every limit the largest, and one more; shared memory is what a launch asks for and what the kernel has itself."""
    gpu = GPUS.get("a100")
    limits, used = gpu.limits, {"k": SimpleNamespace(registers=32, static_shared_bytes=16 << 10)}
    machine = probe.EmulatedKernels(gpu, SimpleNamespace(kernels=used))
    rest = limits.shared_bytes_per_sm // 4 - limits.shared_bytes_reserved_per_block - (16 << 10)  # of a quarter of an SM's
    assert machine.resident("k", 128, rest) == 4 and machine.resident("k", 128, rest + 1) == 3 and machine.resident("k", 128) == 9
    most = limits.shared_bytes_per_block - (16 << 10)
    for blocks, threads, shared, cluster, taken in (
        (1, limits.threads_per_block, 0, 1, True), (1, limits.threads_per_block + 1, 0, 1, False), (1, 32, most, 1, True), (1, 32, most + 1, 1, False),
        (2, 32, 0, 2, False),
    ):
        assert machine.takes("k", blocks, threads, shared, cluster) == taken, (threads, shared, cluster)
    used["k"].registers = limits.registers_per_thread
    assert machine.takes("k", 1, 32) and machine.registers("k") == limits.registers_per_thread
    used["k"].registers += 1
    assert not machine.takes("k", 1, 32)


def test_a_kernel_of_any_block_may_have_the_largest_that_a_gpu_has():
    largest = max(gpu.limits.threads_per_block for gpu in GPUS.rows() if gpu.vendor == "amd")
    assert f"amdgpu_flat_work_group_size(1, {largest})" in probe.plain_source("limits.j2", "gfx90a", "limits", needs=[40]).text


def test_a_chosen_kernels_spec_names_the_row_from_its_folder():
    session = SimpleNamespace(machine=SimpleNamespace(name="A GPU"), gpu_row="here.toml")
    spec = {"target": {"gpu": "/somewhere/here.toml"}, "tile": {"block": [64, 32, 16], "gpu": "x"}}
    text = spec_text(spec, session, {"kernel": "gemmgen_k", "seconds": 1.25e-5})
    assert text == '# gemmgen_k: chosen by gemmgen gpu probe, 12.5 us on A GPU.\n\n[target]\ngpu = "../here.toml"\n\n[tile]\nblock = [64, 32, 16]\ngpu = "x"\n'
    assert spec_text({}, session, {"kernel": "k"}) == "# k: chosen by gemmgen gpu probe.\n"


def test_a_kernel_of_the_reference_set_has_its_time_or_says_that_there_is_none():
    """A wrong one, and one that no plan serves, have no spec."""
    session = Session(SimpleNamespace(kind="cuda", arch="sm_90", name="A GPU"), None, "here", [], 1)
    size = (8, 8, 8)
    timed = Kernel("half", size, [tried(1.23456e-4)], verified=(True, "12 checks"))
    untimed = Kernel("ootomo", size, [tried(None, "compiled")], verified=(True, "9 checks"))
    wrong, none = Kernel("bf16", size, [tried(1e-4)], verified=(False, "edges: wrong")), Kernel("fp32", size, reason="no plan")
    kernels.keep(session, [(one, []) for one in (timed, untimed, wrong, none)], True)
    assert session.values == [
        Value("kernel half_8x8x8", 123.456, "verified: 12 checks; 7 rounds", proof="spread 3.4 %", tolerance=0.1),
        Value("kernel ootomo_8x8x8", "verified", "verified: 9 checks; not timed", tolerance=0.1),
        Value("kernel bf16_8x8x8", None, "edges: wrong", "not found"), Value("kernel fp32_8x8x8", None, "no plan", "told"),
    ]
    assert set(session.rows) == {"specs/half_8x8x8.toml", "specs/ootomo_8x8x8.toml"}


@pytest.mark.parametrize(("kind", "arch", "timing"), [("cuda", "sm_90", True), ("emulator", "sm_90", False), ("hip", "gfx942", False)])
def test_kernels_are_timed_where_times_count(monkeypatch, kind, arch, timing):
    told = []
    monkeypatch.setattr(kernels, "Processes", lambda: nullcontext("a pool"))
    monkeypatch.setattr(kernels, "solved", lambda gpu, reference, choices, pool, seed: told.append((reference == kernels.EMULATED, choices)))
    monkeypatch.setattr(kernels, "race", lambda found, pool, timing, progress: told.append(timing))
    monkeypatch.setattr(kernels, "verify", lambda found, pool, device, progress: told.append(device))
    monkeypatch.setattr(kernels, "keep", lambda session, found, timing: told.append(timing))
    session = Session(SimpleNamespace(kind=kind, arch=arch), None, "x", [], 1, kernels=3)
    kernels.measure(session)
    assert told == [] and "kernels" in session.not_sought  # without a row of the GPU
    session.rows["x.toml"] = "the row"
    kernels.measure(session)
    session.clear()
    assert told == [(kind == "emulator", kernels.CHOICES if timing else 1), timing, kind, timing]


@pytest.mark.parametrize(("reasons", "timed"), [(["", None], [False, True]), ([None], [False]), (["too few", None], [False])])
def test_a_fit_that_came_to_no_end_ends_the_choice_of_kernels(monkeypatch, reasons, timed):
    """A reason is why a fit kept no constants; None stands for no fit."""
    asked, fits = [], iter([reason if reason is None else SimpleNamespace(learnt=SimpleNamespace(reason=reason)) for reason in reasons])
    row = SimpleNamespace(identity="a", m=8, n=8, k=8)
    found = SimpleNamespace(rows=[row], beside=lambda more: found)
    monkeypatch.setattr(sample, "timed", lambda *of, **more: asked.append(more.get("firsts", False)) or found)
    monkeypatch.setattr(calibrate, "_timed", lambda session: True)
    monkeypatch.setattr(calibrate, "_kept", lambda *of, **more: next(fits))
    session = Session(SimpleNamespace(arch="sm_90"), None, "x", [], 1)
    session.rows["x.toml"] = "the row"
    calibrate.fit_times(session, None)
    session.clear()
    assert asked == timed and not session.sections


@pytest.mark.parametrize("timed", [False, True])
def test_what_a_fit_of_registers_leaves(monkeypatch, timed):
    """Kernels that will be timed are compiled, too; the table has the groups and what no launch bound limits; where there is no fit, the reason."""
    done, gpu = [], SimpleNamespace(vendor="a vendor", registers="prior", arch="sm_90")
    session = SimpleNamespace(kernels=9, seed=4, place=lambda: "place", sections=[], put=done.append, progress=done.append)
    fit = SimpleNamespace(kernels=17, spilled=1, before=0.25, after=0.05004, free=(13, 0.3, 0.04), groups={"tiled, loop": (4, 0.2, 0.1)})
    monkeypatch.setattr(calibrate, "GPUS", SimpleNamespace(get=lambda place: gpu if place == "place" else None))
    monkeypatch.setattr(calibrate, "_timed", lambda session: timed)
    monkeypatch.setattr(sample, "candidates", lambda *of, **how: done.append((of, how)) or [SimpleNamespace(spec="a spec")])
    monkeypatch.setattr(sample, "compiled", lambda *of, **how: done.append((of, how)) or ("rows", 3, "a compiler"))
    monkeypatch.setattr(calibrate.register_model, "fit", lambda rows, registers: fit if (rows, registers) == ("rows", "prior") else None)
    monkeypatch.setattr(calibrate, "registers_section", lambda *of: of)
    monkeypatch.setattr(calibrate.gpu_row, "write", lambda session: done.append(session.registers))
    calibrate.fit_registers(session, "pool")
    progress, *asked, compiled, written, value = done
    assert progress == "registers: kernels compiled for the target" and written == (fit, gpu, "a compiler")
    assert asked == [(("place", "a vendor", "pool"), {"most": 9, "seed": 4})] * timed
    assert compiled == ((gpu, "place", "pool"), {"most": 9, "others": ["a spec"] * timed, "seed": 4})
    assert (value.name, value.value, value.tolerance, value.proof) == ("registers error", 0.05, 0.5, "17 kernels compiled by a compiler")
    [(title, text)] = session.sections
    assert title == "The register model" and text.splitlines()[0].startswith("17 kernels were compiled by a compiler for sm_90; 4 were refused or spill")
    assert text.splitlines()[4:] == ["| tiled, loop | 4 | 20.0 % | 10.0 % |", "| all | 16 | 25.0 % | 5.0 % |",
                                     "| all that the launch bound does not limit | 13 | 30.0 % | 4.0 % |"]

    def refuse(rows, registers):
        raise GemmgenError("registers", "too few kernels")

    monkeypatch.setattr(calibrate.register_model, "fit", refuse)
    calibrate.fit_registers(session, "pool")
    assert (done[-1].name, done[-1].value, done[-1].standing) == ("registers", None, "not found") and "too few" in done[-1].how and len(session.sections) == 1


def test_a_fit_holds_out_what_it_is_told(monkeypatch):
    asked = []
    monkeypatch.setattr(calibrate, "learn", lambda rows, gpu, **how: asked.append((rows, gpu, how)))
    calibrate.learnt(("row",), "here.toml", 3, 0.25)
    assert asked == [(("row",), "here.toml", {"seed": 3, "held_out": 0.25})]

    def learnt(**errors):
        names = ("rows", "before", "after")
        return SimpleNamespace(errors={name.replace("_", " "): SimpleNamespace(**dict(zip(names, figures))) for name, figures in errors.items()})

    jobs = []
    answers = [learnt(), learnt(new_kernels=(1, 0.4, 0.2), new_sizes=(2, 0.3, 0.1)), learnt(new_kernels=(3, 0.8, 0.4)), learnt()]
    pool = SimpleNamespace(all=lambda target, each, seconds: jobs.extend(each) or [("value", one) for one in answers])
    fit = calibrate.fitted(["row"], "here.toml", pool)
    assert fit.learnt is answers[0] and fit.rows == {"new kernels": 4, "new sizes": 2}
    assert fit.held["new kernels"] == pytest.approx((0.7, 0.35)) and fit.held["new sizes"] == pytest.approx((0.3, 0.1))
    assert [job[2:] for job in jobs] == [(0, 0.0), *((seed, calibrate.HELD_OUT) for seed in calibrate.SEEDS)] and jobs[0][:2] == (("row",), "here.toml")
    jobs.clear()
    pool.all = lambda target, each, seconds: jobs.extend(each) or [("value", answers[0])]
    assert calibrate.fitted([], "g", pool, held_out=False).held == {} and len(jobs) == 1


@pytest.mark.parametrize(("count", "most", "kept"), [
    (5, None, [0, 1, 2, 3, 4]), (5, 5, [0, 1, 2, 3, 4]), (5, 9, [0, 1, 2, 3, 4]), (5, 3, [0, 2, 4]), (10, 2, [0, 9]),
])
def test_at_most_so_many_are_taken_from_all_places(count, most, kept):
    assert _spread(list(range(count)), most) == kept


def test_kernels_of_two_races_are_those_of_one_row():
    row = Row(study="s", trial="t", kind="kernel", verdict="timed", kernel="k", gpu="a", m=1, n=2, k=3, layout="nn", extra="a's")
    both = Timed((row,), 2, ("spills", "wrong")).beside(Timed((replace(row, gpu="b", m=9, extra="b's"),), 3, ("wrong", "slow")))
    assert [(one.gpu, one.m, one.extra) for one in both.rows] == [("a", 1, "a's"), ("a", 9, "a's")] and both.kernels == 5
    assert both.refused == ("spills", "wrong", "slow")


# ---------------------------------------------------------------- a session's values


def session_of(*values, fragments=(), arch="sm_80", **more):
    machine = SimpleNamespace(arch=arch, name="A GPU", kind="cuda")
    return Session(machine, None, "here", list(fragments), 100, values=list(values), **more)


def test_a_value_is_put_in_its_place_beside_what_the_driver_told():
    session = session_of(Value("gpu sms", 10, "the driver", "told"), Value("gpu x", None, "nothing", "not found"))
    session.found("gpu sms", 12, "counted", "often", 0.1)
    session.found("gpu sms", 13, "counted again")
    session.put(Value("gpu y", 1, "how", tolerance=0.5))
    assert [(one.name, one.value) for one in session.values] == [("gpu sms", 13), ("gpu x", None), ("gpu y", 1)]
    assert session.value("gpu x").how == "nothing" and session.known("gpu x") is None and session.value("gpu z") is None
    same = session_of(Value("gpu sms", 10, "the driver", "told"))
    same.found("gpu sms", 10, "counted")
    assert same.values == [Value("gpu sms", 10, "counted; the driver tells the same")]
    other = session_of(Value("gpu sms", 10, "the driver", "told"))
    other.found("gpu sms", 12, "counted", "often", 0.1)
    assert other.values[0].as_dict() == {"value": 12, "standing": "measured", "how": "counted; the driver tells 10", "proof": "often", "tolerance": 0.1}
    assert same.values[0].as_dict() == {"value": 10, "standing": "measured", "how": "counted; the driver tells the same", "proof": ""}
    session.values.append(Value("gpu y", 2, "later"))
    assert session.value("gpu y").value == 1 and session.known("gpu y").value == 2


def test_rates_are_constants_of_the_generation():
    fragment = FRAGMENTS.get("mma_m16n8k16_f16")
    told = [Value("gpu warp_size", 32, "x", "told"), Value("gpu tensor_fma_per_clock", {"f16": 1024}, "x"), Value("gpu dram_gb_per_s", 2000.0, "x"),
            Value(f"rate {fragment.name} fma_per_clock", 768.0, "x"), Value("rate dram copy_gb_per_s", 1800.0, "x"), Value("rate launch gap_us", 2.5, "x"),
            Value("rate l2 bytes_per_clock", 60.0, "x"), Value("rate clock sustained_tflops", 600.0, "x")]
    found = gpu_row.of_rates(session_of(*told, fragments=[fragment]))
    assert {place: one.value for place, one in found.items()} == pytest.approx({
        ("", "mma_efficiency"): 0.75, ("", "dram_efficiency"): 0.9, ("", "l2_bytes_per_clock"): 60.0, ("", "launch_seconds"): 2.5e-6,
    })
    more = [replace(told[3], value=2048.0), *told[:3], *told[4:7], Value("rate async_copy bytes_per_clock", 64.0, "x"),
            Value("rate dram copy_gb_per_s", 1800.0, "x", "told")]
    found = gpu_row.of_rates(session_of(*more, fragments=[fragment]))
    assert found["", "mma_efficiency"].value == 1.0 and found["", "l2_bytes_per_clock"].value == 64.0 and ("", "dram_efficiency") not in found
    shared = next(one for one in FRAGMENTS.rows() if one.from_shared and one.word == "f16")
    for fragments in ([shared], [fragment, shared], [shared, fragment]):
        assert gpu_row.of_rates(session_of(*told, fragments=fragments, arch="sm_90a"))["wgmma", "sustained_f16_tflops"].value == 600.0
    assert gpu_row.of_rates(session_of()) == {}


def unit_found(fits, extremes=(), **more):
    rule = SimpleNamespace(rule="truncate", block=4, fraction_bits=24, sum_bits=None, flushes=False, text="rule r", _asdict=lambda: {"rule": "truncate"})
    other = SimpleNamespace(text="described", _asdict=lambda: {"described": True})
    return SimpleNamespace(**{**dict(
        fits=fits, candidate=rule, same=(other,), described=None, against=["x"], of=40, asked=70, turns=[9, 8], agreeing=99, proof=100,
        kinds={"usual": (100, 99)} | ({findings.EXTREMES: extremes} if extremes else {})), **more})


def unit_instruction(name, found=None, whole=None, **more):
    traits = SimpleNamespace(found={"sums": SimpleNamespace(name="sums", value=name, how=f"ladders of {name}", asked=5)})
    return SimpleNamespace(fragment=SimpleNamespace(name=name, instruction=f"{name}.sync", word="f16", policy="mma"), found=found, whole=whole,
                           order=SimpleNamespace(text="at once", asked=6), traits=traits, **more)


@pytest.mark.parametrize("kind", ["cuda", "emulator"])
def test_a_units_row_and_values_are_what_its_instructions_turned_out_to_be(kind, monkeypatch):
    session, told = session_of(), []
    session.machine.kind, session.name = kind, "mine"
    session.instructions = [unit_instruction("one", unit_found(True)), unit_instruction("two", unit_found(False, (8, 7))),
                            unit_instruction("three", unit_found(True, (8, 8), proof=23)), unit_instruction("four", whole=(10, 9)),
                            unit_instruction("five", whole=(10, 10))]
    monkeypatch.setattr(unit_row, "unit_row", lambda instructions: [one.fragment.name for one in instructions])
    monkeypatch.setattr(unit_row, "text_of", lambda *given: told.append(given) or "a row")
    unit_row.measure(session)
    checked = ['verified = "223 random products returned by A GPU"']
    if kind == "emulator":
        checked = ['verified = ""', 'unchecked = "found on an emulator, not checked on hardware"']
    assert told == [(["one", "two", "three", "four", "five"], "mine", "gemmgen gpu probe on A GPU", checked)] and session.rows == {"units/mine.toml": "a row"}
    how, proof, ordered = "40 rules told apart by 70 products in 2 turns", "99 of 100 random products", "6 products of an accumulator, its negative and a small one"
    rule = {"rule": "truncate", "block": 4, "fraction_bits": 24, "flushes_subnormals": False}  # of bits of the sum nothing is known
    anything, whole = "random words and sums of any bits", "random words, half with sums that leave INT32"
    assert session.values == [
        *(Value(f"unit one {name}", value, how, proof=proof) for name, value in rule.items()), Value("unit one order", "at once", ordered),
        Value("unit one sums", "one", "ladders of one", proof="5 products"),
        Value("unit two rule", None, f"{how}; the nearest is rule r", "not found", proof),
        Value("unit two extremes as the rule", False, anything, proof="7 of 8 random products"), Value("unit two order", "at once", ordered),
        Value("unit two sums", "two", "ladders of two", proof="5 products"),
        *(Value(f"unit three {name}", value, how, proof="99 of 23 random products") for name, value in rule.items()),
        Value("unit three extremes as the rule", True, anything, proof="8 of 8 random products"), Value("unit three order", "at once", ordered),
        Value("unit three sums", "three", "ladders of three", proof="5 products"),
        Value("unit four exact", False, whole, proof="9 of 10 products"), Value("unit four sums", "four", "ladders of four", proof="5 products"),
        Value("unit five exact", True, whole, proof="10 of 10 products"), Value("unit five sums", "five", "ladders of five", proof="5 products"),
    ]
    monkeypatch.setattr(unit_row, "text_of", lambda *given: "")
    unit_row.measure(empty := session_of())
    assert empty.rows == {} and empty.values == []


def test_an_instruction_as_data():
    maps_ = SimpleNamespace(same_as=lambda fragment: fragment.name == "one", fits=False, complaints=["odd"], tiles=7, anchored=True)
    error = SimpleNamespace(as_dict=lambda: {"where": "here"})
    none = {"asked": 5, "seconds": 1.234, "error": None, "maps": None, "profile": None}
    head = {"instruction": "one.sync", "word": "f16", "policy": "mma", "asked": 5, "seconds": 1.23}
    assert findings._instruction(unit_instruction("one", **{**none, "error": error})) == {"name": "one", **head, "error": {"where": "here"}}
    found = findings._instruction(unit_instruction("one", unit_found(True), **{**none, "maps": maps_}))
    assert found == {"name": "one", **head, "error": None, "maps": {"as_shipped": True, "bit_rows": False, "complaints": ["odd"], "products": 7, "numbers": "memory"},
                     "rule": {"fits": True, "rule": {"rule": "truncate"}, "not_told_apart": [{"described": True}], "rules": 40, "described": None,
                              "turns": [9, 8], "products": 70, "random": {"usual": (100, 99)}, "against": ["x"]}}
    maps_.anchored = False
    described = unit_found(False, described=SimpleNamespace(_asdict=lambda: {"own": 1}))
    found = findings._instruction(unit_instruction("two", described, (10, 9), **{**none, "maps": maps_, "profile": SimpleNamespace(as_dict=lambda: "profiled")}))
    assert (found["maps"]["as_shipped"], found["maps"]["numbers"]) == (False, "the catalog's where it puts the same elements together")
    assert (found["rule"]["described"], found["integers"], found["egemm"]) == ({"own": 1}, {"products": 10, "exact": 9}, "profiled")


def test_instructions_are_probed_in_turn_and_new_maps_are_rows(monkeypatch):
    asked, steps = [], []
    names = {"shipped": (True, True), "new": (True, False), "odd": (False, False), "none": None}

    def probed(machine, fragment, products, seed, egemm):
        asked.append((machine.name, fragment.name, products, seed, egemm))
        known = names[fragment.name]
        return SimpleNamespace(name=fragment.name, maps=known and SimpleNamespace(fits=known[0], same_as=lambda other: other is fragment and known[1]))

    session = session_of(fragments=[SimpleNamespace(name=name) for name in names], seed=3, progress=steps.append)
    monkeypatch.setattr(fragments, "suited", lambda given: given[1])
    monkeypatch.setattr(fragments, "probe_instruction", probed)
    monkeypatch.setattr(fragments, "_value", lambda one: one.name)
    monkeypatch.setattr(fragments, "row_text", lambda found, device: f"a row of {device}")
    fragments.measure(session)
    assert asked == [("A GPU", name, 100, 3, name == "new") for name in names] and session.values == [*names]
    assert steps == ["shipped (1 of 4)", "new (2 of 4)", "odd (3 of 4)", "none (4 of 4)"] and [one.name for one in session.instructions] == [*names]
    assert session.rows == {"fragments/new.toml": "a row of A GPU"}


def test_a_report_names_what_was_not_probed_to_the_end(monkeypatch):
    for part in ("_against", "_traits", "_egemm", "_facts", "_shipped"):
        monkeypatch.setattr(findings, part, lambda of, part=part: ["", part])
    monkeypatch.setattr(findings, "_line", lambda one: f"| {one.fragment.name} |")

    def probed(name, fits=True, shipped=False, error=None, maps_=True):
        found = SimpleNamespace(fits=fits, same_as=lambda fragment: shipped, complaints=[f"complaint {at}" for at in (1, 2)])
        return SimpleNamespace(fragment=SimpleNamespace(name=name), maps=found if maps_ else None, error=error)

    session = session_of(arch="sm_80")
    session.seconds, session.sections = {"maps": 1.5, "rates": 20.0}, [("A title", "its text")]
    session.instructions = [probed("new"), probed("odd", False), probed("wide", False, True), probed("lost", error=DeviceError("GPU", "hangs"), maps_=False)]
    told = {"arch": "sm_80", "generator": "gemmgen 1", "seconds": 21.5, "products": 9, "seed": 4, "changed": None, "not_measured": {"times": "of kernels"}}
    head = ["# A GPU (sm_80), brought up", "", "By gemmgen 1 in 21.5 s, 9 random products of proof an instruction, seed 4.", "", "Seconds: maps 1.5, rates 20.", ""]
    table_ = ["## Instructions", "", "| instruction | maps | sums | rule | told apart by | random products |", "| --- | --- | --- | --- | --- | --- |"]
    rest = ["", "_shipped", "", "_against", "", "_traits", "", "_egemm", "", "_facts", "", "## Not measured", "", "- times: of kernels", "", "## A title", "", "its text"]
    rows_ = ["| new |", "| odd |", "| wide |", "| lost |"]
    odd = ["", "Maps without bit rows, and what was not probed to the end:", "", "- `odd` complaint 1", "- `odd` complaint 2", "- `lost`: GPU: hangs"]
    assert findings.markdown(told, session).splitlines() == [*head, *table_, *rows_, *odd, *rest]
    session.instructions = session.instructions[:1]
    for changed, lines in (([], ["Nothing."]), (["a", "b"], ["- a", "- b"])):
        assert findings.markdown(told | {"changed": changed}, session).splitlines() == [
            *head, "## What changed since the last time", "", *lines, "", *table_, "| new |", *rest]


def test_what_is_fitted_needs_kernels_and_a_row(monkeypatch):
    ran = []
    monkeypatch.setattr(calibrate, "Processes", lambda: nullcontext("a pool"))
    for name in ("fit_registers", "fit_times"):
        monkeypatch.setattr(calibrate, name, lambda session, pool, name=name: ran.append((name, pool)))
    for count, has_row in ((0, True), (5, False), (5, True)):
        session = session_of(kernels=count)
        session.rows = {session.gpu_row: "a row"} if has_row else {}
        calibrate.measure(session)
        assert (ran == [("fit_registers", "a pool"), ("fit_times", "a pool")]) == (not session.not_sought) == (count > 0 and has_row)


def test_a_generations_row_tells_its_constants_by_section():
    session = session_of(Value("rate launch gap_us", 2.5, "x"), arch="sm_80")
    session.constants = {("wgmma", "a"): Constant(value=1.23456, source="fitted:\n here"), ("", "b"): Constant(value=2, source="fitted")}
    session.told_of_times, session.registers = ["7 kernels"], "[registers]\nx = 1"
    lines = gpu_row.generation_text(session).splitlines()
    assert lines[lines.index("[measured]"):] == [
        "[measured]", "# 7 kernels", 'launch_seconds = { value = 2.5e-06, source = "measured: by microbenchmarks of the bring-up" }',
        'b = { value = 2, source = "fitted" }', "", "[measured.wgmma]", 'a = { value = 1.235, source = "fitted: here" }', "", "[registers]", "x = 1",
    ]
    assert {'name = "here"', 'vendor = "nvidia"', 'title = "The constants of A GPU"', f'like = "{gpu_row.prior(session)}"'} <= {*lines}


def test_how_many_values_of_a_row_have_which_standing():
    names = ("sms", "boost_mhz", "dram_gb_per_s")
    session = session_of(*(Value(f"gpu {name}", 1000, "x", standing) for name, standing in zip(names, ("measured", "told", "measured"))), arch="sm_999")
    told = gpu_row._told(session)
    assert told.startswith("`here.toml`: 2 measured, 1 told, 1 assumed. Specs name it by its path: `[target] gpu = \"here.toml\"`, or `--gpu`.")
    assert "do not tell (0 they do)" in told


# ---------------------------------------------------------------- repeats


def test_repeats_have_a_median_a_spread_and_a_clock():
    steady = Measured((10.0, 12.0, 11.0), (1000.0, 1020.0, 1010.0))
    assert (steady.value, steady.clock, steady.throttled) == (11.0, 1010.0, False) and steady.spread == pytest.approx(2 / 11)
    assert steady.proof == "3 repeats, spread 18 %, at 1010 MHz"
    assert Measured((1.0, 1.0), (1000.0, 1021.0)).throttled and Measured((0.0, 0.0), (1.0, 1.0)).spread == 0


@pytest.mark.parametrize(("clocks", "used", "throttled"), [([1000], 0, False), ([0, 1000], 1, False), (TRIES * [0], TRIES - 1, True)])
def test_launches_are_repeated_until_the_clock_is_steady(clocks, used, throttled):
    """Of each try the first launch is for warmth; a clock of 0 stands for one that changes."""
    runs = [Run(np.zeros(1), 100.0 * at + one, clock or 1000.0 + 100 * one, 1) for at, clock in enumerate(clocks) for one in range(REPEATS + 1)]
    for ahead in (False, True):
        bench, asked, left = object.__new__(Bench), [], iter(runs)
        bench.run = lambda *given: asked.append(given) or next(left)
        found = bench.repeated(lambda run: run.span, "k", 1, 32, 9, 5, ahead=ahead)
        assert found.values == tuple(100.0 * used + one for one in range(1, REPEATS + 1)) and found.throttled is throttled
        assert asked == [("k", 1, 32, 9, 5, *((at,) if ahead else ())) for at in range(len(runs))]


def test_what_is_sought_of_a_device_with_a_clock():
    names = rates._names(session_of(fragments=[FRAGMENTS.get(MMA)]))
    assert {f"rate {MMA} fma_per_clock", f"rate {MMA} latency_cycles", "gpu sms", "rate f32 latency_cycles"} <= {*names}
    assert len(names) == len(rates.OF_A_ROW) + 2 + len(rates.RAW)


def bare_rates(*values, **more):
    """`Rates` of a session, with nothing but what a test gives it."""
    found = object.__new__(rates.Rates)
    found.session, found.lines = session_of(*values), []
    vars(found).update(more)
    return found


@pytest.mark.parametrize(("best", "peaks", "missing", "asked"), [
    ({}, None, ["tensor_fma_per_clock", "tensor_boost_mhz", "f16_tflops"], []),
    ({"bf16": (900.0, "c")}, {"bf16": 1024}, ["tensor_boost_mhz", "f16_tflops"], []),
    ({"bf16": (900.0, "c"), "f16": (1024.0, "a")}, {"bf16": 1024, "f16": 1024}, [], [("tensor_boost_mhz", 1500.0), ("f16_tflops", 1400, 1024)]),
])
def test_the_matrix_units_peaks_are_powers_of_two_of_what_was_reached(best, peaks, missing, asked):
    """The clock is that of the fastest instruction of FP16 words, whatever others have."""
    told = []
    one = bare_rates(instructions={name: SimpleNamespace(word=word) for name, word in (("a", "f16"), ("b", "f16"), ("c", "bf16"))})
    one._clock = lambda name, found, what: told.append((name, found.clock)) or 1400
    one._tflops = lambda *given: told.append(given) or one.session.put(Value("gpu f16_tflops", 2.8, "x")) or one.session.put(Value("gpu tensor_boost_mhz", 1400, "x"))
    one._tensor(best, {name: SimpleNamespace(clock=clock) for name, clock in (("a", 1400.0), ("b", 1500.0), ("c", 1900.0))})
    found = {value.name.removeprefix("gpu "): value for value in one.session.values}
    assert [name for name, value in found.items() if value.standing == "not found"] == missing and told == asked
    if peaks:
        assert found["tensor_fma_per_clock"].value == peaks and "bf16: 900 reached by c, 88 % of 1024" in found["tensor_fma_per_clock"].how


@pytest.mark.parametrize(("told", "size", "put", "spread_over"), [
    ((), 49.7, (50, "measured"), 49.7), ((), None, (None, "not found"), 4.0), ((Value("gpu l2_mib", 40, "the driver", "told"),), 49.7, (40, "told"), 40.0),
    ((Value("gpu l2_mib", 40, "the driver", "told"),), None, (40, "told"), 40.0),
])
def test_a_cache_is_as_large_as_the_driver_tells_or_as_latency_shows(told, size, put, spread_over):
    asked, raw = [], []
    one = bare_rates(*told, most=256 << 20, _latency=lambda nbytes, threads=256: (nbytes, threads), _far_latency=lambda: "far",
                     _raw=lambda name, found, how="": raw.append((name, found)), _l2_size=lambda: size, _bandwidth=asked.append)
    one.session.progress = lambda text: None
    one._caches()
    assert asked == [spread_over] and raw == [("l2 latency_cycles", (1 << 19, 1)), ("dram latency_ns", "far")]
    value = one.session.value("gpu l2_mib")
    assert (value.value, value.standing) == put


@pytest.mark.parametrize(("told", "reached", "put"), [
    ((), {"read": 900.0, "write": 950.0, "copy": None}, (950.0, "measured")), ((), {"read": None, "write": None, "copy": None}, (None, "not found")),
    ((Value("gpu dram_gb_per_s", 1000.0, "the driver", "told"),), {"read": 900.0, "write": 950.0, "copy": 1.0}, (1000.0, "told")),
])
def test_bandwidth_is_the_best_of_several_launches_and_the_drivers_where_it_tells(told, reached, put):
    def measured(value, mhz=1000.0):
        return Measured((value,) * 3, (mhz, 1000.0, 1000.0))

    asked, raw = [], {}

    def dram(symbol, share, blocks):
        asked.append((symbol, share, blocks))
        return measured(blocks, mhz=1500.0 if blocks == 40 else 1000.0)  # the most that was reached was at an uneven clock

    one = bare_rates(*told, Value("gpu device_memory_bytes", (80 << 30) - 5, "x", "told"), sms=10, _l2_bytes=lambda mib, blocks: measured(mib * blocks), _dram=dram)
    one._raw = lambda name, found: raw.update({name: found.value}) or reached.get(name.removeprefix("dram ").partition("_")[0])
    one._bandwidth(4.0)
    assert raw == {"l2 bytes_per_clock": 80.0, **dict.fromkeys(("dram read_gb_per_s", "dram write_gb_per_s", "dram copy_gb_per_s"), 20)}
    assert asked == [(symbol, share, blocks) for symbol, share in (("read_memory", 1), ("write_memory", 1), ("copy_memory", 2)) for blocks in (10, 20, 40)]
    value = one.session.value("gpu dram_gb_per_s")
    assert (value.value, value.standing) == put and one.session.value("gpu dram_gib").value == 80
    one.session.values[:] = []
    one._bandwidth(4.0)
    assert one.session.value("gpu dram_gib").standing == "not found"


def test_copies_that_the_driver_does_not_time_are_told_as_not_measured():
    taken, plain = iter([0.25, 0.5, None, *[0.5] * 40]), []
    one = bare_rates(kernels=SimpleNamespace(copy_seconds=lambda nbytes, to_device: next(taken)), _plain=lambda *given: plain.append(given))
    one._host()
    assert one.lines == ["| host to_device_gb_per_s | | | | not measured with this driver |"]
    [(name, value, spread, clock, _, proof)] = plain
    assert (name, spread, clock) == ("host from_device_gb_per_s", 0.0, 0.0) and value == pytest.approx(128 * 2**20 / 0.5 * 1e-9) and "of 128 MiB" in proof


def test_a_gap_is_from_the_end_of_a_launch_to_the_begin_of_the_next_while_the_queue_is_full():
    stamps, launched = np.zeros((8, 4), np.uint64), []
    stamps[:, 1] = np.cumsum([0, 9000, 9000, 9000, 3000, 3000, 3000, 3000])  # nanoseconds; the first launches wait for the host
    stamps[:, 2] = stamps[:, 1] + 1000
    one = bare_rates(vendor=SimpleNamespace(platform="cuda"), warp=32, memory="memory", kernels=SimpleNamespace(
        zeros=lambda nbytes, name: "stamps", series=lambda *given: launched.append(given), download=lambda memory, dtype, count: stamps.ravel()[:count]))
    assert one._gap("stamp_dependent", 8, 5) == pytest.approx((8 + 2 * 4) / 5) and one._gap("stamp", 8, 5) > 0
    assert [(given[0], given[1:3], len(given[3]), given[4]) for given in launched] == [("stamp_dependent", (1, 32), 8, True), ("stamp", (1, 32), 8, False)]
    assert [call[4] for call in launched[0][3]] == [("int", at) for at in range(8)]


@pytest.mark.parametrize(("word", "size", "dtype"), [
    ("f16", 2, np.float16), ("bf16", 2, np.uint16), ("tf32", 4, np.float32), ("e4m3", 1, np.uint8), ("s8", 1, np.uint8)])
def test_words_that_a_chip_is_heated_with_fill_4_kib_and_are_near_1(word, size, dtype):
    found = rates._words(SimpleNamespace(word=word, word_bytes=size))
    assert found.nbytes == 4096 and found.dtype == dtype and len(set(found.tolist())) > 100
    if word in ("f16", "tf32", "bf16"):
        numbers = found.astype(np.float32) if word != "bf16" else (found.astype(np.uint32) << 16).view(np.float32)
        assert abs(float(numbers.std()) - 1) < 0.1


@pytest.mark.parametrize(("told", "unit", "whole", "others", "reserved"), [
    ({}, 128, 900, (512, 256), 16), ({"per_sm": 1000}, 256, 1000, (512,), 8), ({"per_sm": 2000}, 512, 2000, (), 8), ({"per_sm": 5000}, 128, 900, (512, 256), 16),
    ({"per_sm": 1000, "reserved_per_block": 16}, 128, 900, (512, 256), 16), ({"reserved_per_block": 8}, 256, 1000, (512,), 8),
])
def test_the_least_unit_is_believed_that_agrees_with_what_the_driver_tells(told, unit, whole, others, reserved, monkeypatch):
    """Of files that explain 900 to 999, 1000 to 1999 and 1000 to 2999; where none agrees, what was seen counts."""
    files = {size: launch_limits.File(size, *of) for size, of in ((128, (900, 1000, 16)), (256, (1000, 2000, 8)), (512, (1000, 3000, 8)))}
    monkeypatch.setattr(launch_limits, "register_files", lambda *given: [*files.values()][::-1])
    monkeypatch.setattr(launch_limits, "shared_files", lambda sizes: [*files.values()])
    tried = SimpleNamespace(
        warp=32, registers_per_thread=lambda: 255, register_blocks=lambda threads, needs: {need: 65536 // (threads * need) for need in needs},
        shared_bytes_per_block=lambda opt_in: 99_000, most_shared=lambda blocks, most: most if blocks == 2 else 0 if blocks == 8 else 99_000 // blocks)
    explained = f", which {files[unit].low} to {files[unit].high - 1} explain"

    def measured(measure, kind, most):
        found = {}
        monkeypatch.setattr(Session, "found", lambda self, name, value, how: found.update({name: (value, how)}))
        measure(session_of(*(Value(f"gpu {kind}_{name}", value, "the driver", "told") for name, value in told.items())), tried, *most)
        return found

    if "reserved_per_block" not in told:
        found, too = measured(launch_limits._registers, "registers", (2048, 32)), f"; {', '.join(map(str, others))} explain it too" if others else ""
        seen = "occupancy of blocks of 128 threads of 55 kernels, 24 to 245 registers a thread"
        assert found["gpu register_allocation_unit"] == (unit, seen + too) and found["gpu registers_per_sm"] == (whole, seen + explained)
    found, too = measured(launch_limits._shared, "shared_bytes", (8,)), f"; {', '.join(map(str, sorted(others)))} explain it too" if others else ""
    seen = "occupancy: the largest of which an SM holds 3 to 7 blocks"  # as much as a block may have, or nothing, tells nothing
    assert found["gpu shared_allocation_unit"] == (unit, seen + too) and found["gpu shared_bytes_reserved_per_block"] == (reserved, seen)
    assert found["gpu shared_bytes_per_sm"] == (whole, seen + explained)


def test_limits_that_no_unit_explains_are_not_found(monkeypatch):
    """Of those that the driver tells nothing is said."""
    for name in ("register_files", "shared_files"):
        monkeypatch.setattr(launch_limits, name, lambda *given: [])
    tried = SimpleNamespace(
        warp=32, registers_per_thread=lambda: 255, register_blocks=lambda threads, needs: {need: 65536 // (threads * need) for need in needs},
        shared_bytes_per_block=lambda opt_in: 99_000 if opt_in else 48_000, most_shared=lambda blocks, most: 99_000 // blocks)
    for told, of_registers, of_shared in (
        ((), ["register_allocation_unit", "registers_per_sm"], ["shared_allocation_unit", "shared_bytes_per_sm", "shared_bytes_reserved_per_block"]),
        (("registers_per_sm", "shared_bytes_per_sm"), ["register_allocation_unit"], ["shared_allocation_unit", "shared_bytes_reserved_per_block"]),
    ):
        session = session_of(*(Value(f"gpu {name}", 1, "the driver", "told") for name in told))
        launch_limits._registers(session, tried, 2048, 32)
        assert [one.name for one in session.values if one.standing == "not found"] == [f"gpu {name}" for name in of_registers]
        assert session.value("gpu register_allocation_unit").how == (
            "occupancy of blocks of 128 threads of 55 kernels, 24 to 245 registers a thread: no unit of up to 64 registers a thread explains it")
        launch_limits._shared(session, tried, 8)
        assert [one.name for one in session.values if one.standing == "not found"] == [f"gpu {name}" for name in of_registers + of_shared]
        assert session.value("gpu shared_allocation_unit").how == "occupancy: the largest of which an SM holds 2 to 8 blocks: no unit explains it"
        assert (session.value("gpu shared_bytes_per_block").value, session.value("gpu shared_bytes_without_opt_in").value) == (99_000, 48_000)


def test_a_limit_says_what_explains_it():
    resident = {32: 16, 64: 12, 96: 8}
    tried = SimpleNamespace(warp=32, threads_per_block=lambda: 96, residents=lambda most: resident, cluster_blocks=lambda: 8)
    session = session_of()
    session.machine.facts = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch_limits, "Tried", lambda machine: tried)
        patch.setattr(launch_limits, "_registers", lambda *given: patch.setattr(launch_limits, "seen", given[2:], raising=False))
        patch.setattr(launch_limits, "_shared", lambda *given: None)
        launch_limits.measure(session)
        assert launch_limits.seen == (768, 16)
    found = {one.name: (one.value, one.how) for one in session.values}
    assert found["gpu blocks_per_sm"] == (16, "occupancy of blocks of one warp")
    assert found["gpu threads_per_sm"] == (768, "occupancy: 12 blocks of 64 threads, the most of 3 sizes") and found["gpu cluster_blocks"][0] == 8
    title, text = session.sections[0]
    assert title == "Limits, by trying" and [line.split(" | ")[:2] for line in text.splitlines()[2:]] == [
        ["| threads_per_block", "96"], ["| threads_per_sm", "768"], ["| blocks_per_sm", "16"], ["| cluster_blocks", "8"]]


# ---------------------------------------------------------------- instructions and units


def test_bit_rows_that_say_nothing_are_left_out():
    held = SimpleNamespace(lanes=((0, 1), (2, 0)), registers=(), packed=((1, 0),), copies=1)
    assert fragments._bits(held) == {"lanes": [[0, 1], [2, 0]], "packed": [[1, 0]]}
    assert fragments._bits(SimpleNamespace(lanes=(), registers=((4, 0),), packed=(), copies=2)) == {"registers": [[4, 0]], "copies": 2}


ROWS_OF_BITS = {"a": {"lanes": [[0, 2]]}, "c": {"lanes": [[0, 2]]}}


@pytest.mark.parametrize(("same", "fits", "value", "standing"), [
    (True, True, ROWS_OF_BITS, "measured"), (False, True, ROWS_OF_BITS, "measured"),
    (True, False, "as shipped", "measured"), (False, False, "no bit rows", "not found"),
])
def test_a_map_that_no_bit_row_says_is_as_shipped_or_not_found(same, fits, value, standing):
    held = SimpleNamespace(bits=SimpleNamespace(lanes=((0, 2),), registers=(), packed=(), copies=1))
    found = SimpleNamespace(fragment=FRAGMENTS.get(MMA), a=held, b=None, c=held, tiles=7, fits=fits, same_as=lambda row: same, complaints=["a: odd"])
    one = fragments._value(SimpleNamespace(fragment=found.fragment, maps=found, error=None))
    assert (one.name, one.value, one.standing) == (f"map {MMA}", value, standing) and ("a: odd" in one.how) == (value == "no bit rows")


@pytest.mark.parametrize(("error", "how"), [(None, "not probed"), (DeviceError("launch", "was refused"), "launch: was refused")])
def test_a_map_that_was_not_found_says_why(error, how):
    assert fragments._value(SimpleNamespace(fragment=FRAGMENTS.get(MMA), maps=None, error=error)) == Value(f"map {MMA}", None, how, "not found")


def test_a_librarys_fragment_is_loaded_operand_by_operand():
    """Sixteen rows of sixteen words: eight registers of two words, of sums one each."""
    words = ", ".join(f"%{at}" for at in range(8))
    assert [one["text"] for one in probe._loads(FRAGMENTS.get("wmma_m16n16k16_f16"))] == [
        f"wmma.load.{operand}.sync.aligned.row.m16n16k16.global.{word} {{{words}}}, [%8], 16;" for operand, word in (("a", "f16"), ("b", "f16"), ("c", "f32"))]
    for one, (operand, held, kind) in zip(probe._loads(FRAGMENTS.get("wmma_m16n16k16_f16")), (("a", "left", "r"), ("b", "right", "r"), ("c", "sums", "f"))):
        assert one["memory"] == operand and one["outputs"] == ", ".join(f'"={kind}"({held}.r[{at}])' for at in range(8))


def test_integers_are_asked_in_launches_of_at_most_1024_tiles():
    tiles = []

    def answer(a, b, c):
        tiles.append(len(a))
        return (a.astype(np.int64) @ b + c).astype(np.int32)

    one = instruction.Instruction(FRAGMENTS.get("mma_m16n8k32_s8"))
    raw = SimpleNamespace(fragment=SimpleNamespace(shape=(2, 3, 1)))
    instruction._whole(one, SimpleNamespace(word="s8", raw=raw, tiles=answer), 6 * 2500 - 5, 0)
    assert tiles == [1024, 1024, 452] and one.whole == (6 * 2500, 6 * 2500) and "wrap around" in one.traits.value("sums")


def test_the_row_of_an_instruction_by_hand():
    fragment = FRAGMENTS.get(MMA)
    held = SimpleNamespace(bits=SimpleNamespace(lanes=((0, 2),), registers=((8, 0),), packed=(), copies=1))
    maps = SimpleNamespace(fragment=fragment, a=held, b=None, c=held, tiles=7)
    lines = fragments.row_text(maps, "A GPU").splitlines()
    assert lines[1] == 'source = "gemmgen gpu probe on A GPU: 7 products of one word of A with numbered words of B"'
    assert {f'name = "{MMA}"', "shape = [16, 8, 8]", 'word = "f16"', f'instruction = "{fragment.instruction}"', f"min_arch = {fragment.min_arch}"} <= {*lines}
    assert lines[lines.index("[a]"):] == ["[a]", "lanes = [[0, 2]]", "registers = [[8, 0]]", "", "[c]", "lanes = [[0, 2]]", "registers = [[8, 0]]"]


@pytest.mark.parametrize("name", [MMA, "wgmma_m64n8k32_s8", "mfma_m16n16k32_s8", "wmma_m16n16k16_f16", "rdna3_m16n16k16_f16", "tcgen05_m128n16k16_f16"])
def test_the_row_of_an_instruction_is_what_it_was_probed_by(name):
    """Of each interface, with the catalog's own maps: the row comes back, but for what only people say."""
    fragment = FRAGMENTS.get(name)
    held = {label: SimpleNamespace(bits=one) if (one := getattr(fragment, label)) else None for label in "abc"}
    found = tomllib.loads(fragments.row_text(SimpleNamespace(fragment=fragment, tiles=7, **held), "A GPU"))
    known = fragment.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    assert found.pop("map_source") == "measured"
    source = found.pop("source")
    assert source.startswith("gemmgen gpu probe on A GPU: ") and source.endswith(
        "numbers loaded from memory" if fragment.interface.library_fragment else "7 products of one word of A with numbered words of B")
    for label in "abc":
        bits, own = found.pop(label, {}), getattr(fragment, label)
        assert bits == (fragments._bits(own) if own else {})
    assert found == {key: known[key] for key in found} and {*ROW_FACTS} & {*known} <= {*found}


ROW_FACTS = ("name", "vendor", "policy", "min_arch", "archs", "arch", "also", "instruction", "builtin", "shape", "word", "widest", "sparse_from", "deepest", "descriptor")


PROFILE = Profile(draws=10, half=3, single=7, single_21=10, worst=5, example=(926.0, 934.40637207, 934.40631104), passing=4, of=20)


@pytest.mark.parametrize(("figures", "design", "verdict", "passes", "code"), [
    ({}, "4 instructions", "half multiplication with single-precision accumulation: all 10 sums", False, 0),
    ({"half": 10, "single_21": 9}, "16 instructions", "all 10 sums are d_HALF", True, 0),
    ({"half": 10}, "4 instructions", "half multiplication with single", False, 0),
    ({"single_21": 9}, "none: the paper", "neither primitive: 3 sums are d_HALF, 9 are d_FLOAT up to 21 mantissa bits", False, 1),
])
def test_a_profile_concludes_from_its_figures(figures, design, verdict, passes, code, gemmgen, monkeypatch):
    one = replace(PROFILE, **figures)
    assert one.design.startswith(design) and one.verdict.startswith(verdict) and one.half_passes is passes
    asked, shown = [], []
    monkeypatch.setattr("gemmgen.cli.output.Progress.clear", lambda self: shown.append("no step"))
    monkeypatch.setattr(profiled, "machine_for", lambda device, gpu: SimpleNamespace(arch=GPUS.get(gpu).arch))
    monkeypatch.setattr(profiled, "profile_device", lambda machine, fragment, draws, seed, progress: asked.append((fragment.name, draws, seed)) or SimpleNamespace(
        printed=one, as_text=lambda: shown.append("verdict") or one.verdict, as_dict=one.as_dict))
    for arguments, said in (((), one.verdict), (("--json",), json.dumps(one.as_dict()["draws"]))):
        ran = gemmgen("gpu", "profile", "--device", "emulator", "--gpu", "a100", "--only", MMA, "--draws", "7", "--seed", "3", *arguments)
        assert (ran.code, said in ran.out, ran.out.startswith("{")) == (code, True, bool(arguments))
    assert asked == [(MMA, 7, 3)] * 2 and shown[:2] == ["no step", "verdict"], "the step leaves the terminal before the verdict comes"


@pytest.mark.parametrize(("arch", "only", "got"), [
    ("sm_80", "mma_m16n8k16_bf16", "mma_m16n8k16_bf16"),  # other words
    ("sm_80", "fma_m16n32k8_f16", "fma_m16n32k8_f16"),  # no matrix unit
    ("sm_100a", "tcgen05_m128n16k16_f16", "tcgen05_m128n16k16_f16"),  # sums that no lane holds
    ("sm_60", None, "sm_60"),  # no instruction at all
])
def test_an_instruction_that_cannot_be_profiled_is_refused_where_it_was_named(arch, only, got, gemmgen, monkeypatch):
    monkeypatch.setattr(profiled, "machine_for", lambda device, gpu: SimpleNamespace(arch=arch))
    monkeypatch.setattr(profiled, "profile_device", lambda *arguments: pytest.fail("profiled"))
    ran = gemmgen("gpu", "profile", "--device", "cuda", *(("--only", only) if only else ()), "--json")
    told = json.loads(ran.out)
    assert (ran.code, told["where"], told["got"]) == (2, "--only" if only else "--device", got) and "profiled so" in told["problem"]


def test_a_profiles_lines_and_what_it_overlooks():
    assert PROFILE.lines == [
        "10 draws of a1 b1 + a2 b2: 3 are d_HALF, 7 are d_FLOAT bit for bit, 10 are d_FLOAT up to 21 mantissa bits; "
        "the largest difference from d_FLOAT is 5 ulp.",
        "", "```", "half_result:   926.00000000", "single_result: 934.40637207", "Matrix unit:   934.40631104", "```"]
    assert len(replace(PROFILE, example=None).lines) == 1
    assert PROFILE.overlooked[0].startswith("4 of the 20 rules") and PROFILE.overlooked[1].startswith("3 of the 10 sums are not d_FLOAT")
    assert len(replace(PROFILE, single=10).overlooked) == len(PROFILE.overlooked) - 1
    told = PROFILE.as_dict()
    assert [told[name] for name in ("draws", "half", "single", "single_21_bits", "worst_ulp", "rules_passing", "rules")] == [10, 3, 7, 10, 5, 4, 20]


def test_a_workflows_verdict_and_consequence():
    truncate, tree = Candidate("truncate", 8, fraction_bits=24), Candidate("tree", 4)
    names = list(KINDS)
    agreeing = ((10, {HALF: 3, FLOAT: 7, TREE: 1}), (20, {HALF: 0, FLOAT: 5, TREE: 2}), (30, {HALF: 0, FLOAT: 8, TREE: 3}))
    kinds = tuple(Kind(name, *one) for name, one in zip(names, agreeing))
    one = Profiled("A GPU", "cuda", "sm_80", MMA, 1, PROFILE, kinds, (truncate,), 40, None, 99)
    assert one.verdict == f"{truncate.text}, bit for bit on all 60 draws"
    assert one.consequence.startswith("22 of the 30 full sums are not d_FLOAT")
    two = replace(one, rules=(truncate, tree), row=tree)
    assert two.verdict.endswith("; 1 other rules of 40 are right on them, too: gemmgen gpu probe asks on; the catalog's row says the same")
    assert replace(one, row=tree).verdict.endswith(f"; the catalog's row says {tree.text}")
    assert replace(one, rules=()).verdict.startswith("none of the 40 rules") and replace(one, rules=()).consequence.startswith("22 of the 30")
    assert replace(one, rules=(tree,)).consequence.startswith("every sum is rounded to nearest")
    lines = [line.split() for line in one.as_text().splitlines()]
    assert lines[0] == [MMA, "on", "A", "GPU", "(sm_80)"] and ["draws", "of", HALF, FLOAT, TREE] in lines
    assert ["as", "printed", "10", "3", "7", "1"] in lines and ["all", "products", "30", "0", "8", "3"] in lines
    assert [(each["name"], each["draws"]) for each in one.as_dict()["kinds"]] == list(zip(names, (10, 20, 30))) and one.as_dict()["dot_products"] == 99


def test_draws_are_of_two_products_or_of_all():
    for kind, products, negative in zip(KINDS, (2, 2, 8), (False, True, True)):
        a, b, c = _drawn(kind, 8, 400, seed=1)
        values = [x.view(np.float16) for x in (a, b)]
        assert all(x.shape == (400, 8) and (np.abs(x[:, :products]).max(axis=0) > 30).all() and not x[:, products:].any() for x in values), kind
        assert all((x < 0).any() == negative and np.abs(x).max() <= 32 for x in values) and c.shape == (400,)
        assert np.abs(c).max() == 0 if not negative else 900 < np.abs(c).max() <= 1024 and (c < 0).any()


# ---------------------------------------------------------------- what changed


def test_values_differ_where_they_are_further_apart_than_their_tolerance():
    same = findings._same
    assert same(100, 105.2, 0.05) and same(105.2, 100, 0.05) and not same(100, 106, 0.05) and not same(100, 101, 0.0)
    assert same({1: (2, 3)}, {"1": [2, 3]}, 0.1) and not same("a", "b", 0.5)
    assert findings._shown(Value("x", None, "")) == "" and findings._shown(Value("x", 2.50, "")) == "2.5" and findings._shown(Value("x", 7, "")) == "7"
    assert findings._shown(Value("x", 1234567.0, "")) == "1.23457e+06" and findings._shown(Value("x", 1234567, "")) == "1234567"
    values = Value("gpu sms", 10, "counted"), Value("rate x", 1.5, "timed"), Value("gpu l2_mib", None, "throttled", "not found"), Value("gpu clock", 1.5, "told", "told")
    assert findings._facts(session_of(*values)) == [
        "", "## Of the GPU's row, and what the driver tells", "", "| value | | standing | by |", "| --- | --- | --- | --- |",
        "| sms | 10 | measured | counted |", "| l2_mib |  | not found | throttled |", "| clock | 1.5 | told | told |"]


# ---------------------------------------------------------------- from a data sheet


@pytest.mark.parametrize(("value", "text"), [
    (2.0, "2"), (2.5, "2.5"), (3, "3"), (1e15, "1000000000000000.0"), (1e14, "100000000000000"), (-1e15, "-1000000000000000.0"),
])
def test_numbers_of_a_row_are_whole_where_they_can_be(value, text):
    assert from_row._number(value) == text


@pytest.mark.parametrize(("name", "value", "tolerance", "whole"), [
    ("sms", 1.0, 0.0, 1), ("sms", 0.4, 1.0, None), ("sms", 131.9, 0.001, 132), ("sms", 131.9, 0.0005, None), ("boost_mhz", 1980.0000001, 0.0, 1980),
    ("tensor_fma_per_clock.f16", 1.0, 0.0, 1), ("tensor_fma_per_clock.f16", 1000.0, 0.03, 1024), ("tensor_fma_per_clock.f16", 1000.0, 0.02, None),
    ("tensor_fma_per_clock.f16", 0.0, 0.1, None), ("f32_tflops", 66.91234, 0.0, 66.91), ("tflops.s8", 0.123456, 0.0, 0.1235),
])
def test_counts_that_are_computed_are_whole_and_at_least_one(name, value, tolerance, whole):
    assert _whole(name, value, tolerance) == whole


def test_a_new_empty_folder_takes_a_bring_up_and_others_keep_their_own(tmp_path):
    """A folder of a bring-up of either kind takes the same kind again."""
    at = tmp_path / "new" / "report.json"
    assert verb._before(at) is None  # before there is a folder
    at.parent.mkdir()
    assert verb._before(at) is None
    (at.parent / "notes").write_text("a user's own")
    with pytest.raises(SpecError, match="other things"):
        verb._before(at)
    for told, from_row_too in (("{}", False), ('{"kind": "data sheet"}', True)):
        at.write_text(told)
        assert verb._before(at, from_row_too) == told
        with pytest.raises(SpecError, match="other kind"):
            verb._before(at, not from_row_too)


def test_text_of_rows_by_hand():
    assert [from_row._near(one) for one in (999.94, 1000.4, 12.3456)] == ["999.9", "1000", "12.35"]
    assert from_row._chunks([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    assert from_row._noted("a = 1", "given") == "a = 1" and from_row._noted("a = 1", "prior") == "a = 1" + " " * 36 + "# prior"
    assert from_row._note(Known(1, "given", "given")) == "given" and from_row._note(Known(1, "prior", "of b")) == "prior: of b"
    assert from_row._flat({"a": {"source": "x"}, "b": {"c": {"source": "y"}, "d": 1}}) == {"a": {"source": "x"}, "b.c": {"source": "y"}}
    assert from_row._toml({"a": 1.0, "t": {"b": [1, 2]}, "l": [{"c": "x"}, {"c": "y"}], "e": []}) == (
        'a = 1\ne = []\n\n[t]\nb = [1, 2]\n\n[[l]]\nc = "x"\n\n[[l]]\nc = "y"\n')
    assert toml_values.told({"a": [True, "x", 2.5]}) == '{ a = [true, "x", 2.5] }' and toml_values.told(2.5, lambda value: f"<{value}>") == "<2.5>"


def test_a_missing_number_is_asked_for_once_and_brings_what_follows():
    relations = [Relation("f32_tflops", 2e-6, ("sms", "boost_mhz", "f32_fma_per_clock")), Relation("dram_gb_per_s", 0.125, ("bits", "pins"))]
    known = {name: Known(value, "given", "given", {name: 1}) for name, value in {"sms": 100, "f32_fma_per_clock": 128, "bits": 4096}.items()}
    numbers = Numbers(dict(known), relations)
    assert numbers.needed(["f32_tflops", "boost_mhz", "tensor_boost_mhz", "dram_gb_per_s", "pins", "sms"]) == ["f32_tflops", "dram_gb_per_s"]
    assert numbers.needed(["boost_mhz", "f32_tflops", "pins", "dram_gb_per_s"]) == ["boost_mhz", "pins"]
    numbers.known["f32_tflops"] = Known(25.6, "given", "given", {"f32_tflops": 1})
    numbers.compute()
    assert numbers.known["boost_mhz"].value == 1000 and numbers.known["boost_mhz"].powers == {"f32_tflops": 1, "sms": -1, "f32_fma_per_clock": -1}
    [check] = numbers.checks()
    assert check.defines == "boost_mhz" and check.holds and check.text == "f32_tflops is 25.6, and 2e-6 * sms * boost_mhz * f32_fma_per_clock is 25.6: as much"
    apart = replace(check, left=26.112)
    assert apart.share == pytest.approx(0.02) and apart.text.endswith("is 25.6: 2 % more") and replace(check, left=25.088).text.endswith("2 % less")
    assert replace(check, left=26.2).holds is (26.2 / 25.6 - 1 <= check.relation.tolerance) and not replace(check, left=30.0).holds


# ---------------------------------------------------------------- the report


def test_what_times_told_is_two_tables():
    constant = SimpleNamespace(place=("wgmma", "x"), before=2.0, after=2.5, deviation=0.25)
    learnt = SimpleNamespace(reason="", rows=40, errors={"fitted": SimpleNamespace(rows=38, before=0.5, after=0.0625)}, constants=[constant])
    fit = calibrate.Fit(learnt, {"new kernels": (0.3, 0.1), "new sizes": (0.2, 0.05)}, {"new kernels": 8, "new sizes": 9})
    lines = calibrate.told(Timed((), 20, ("spills", "wrong")), fit).splitlines()
    assert lines[0].startswith("20 kernels of the reference schemes") and ": 40 times." in lines[0]
    assert lines[5:8] == ["| of new kernels (8) | 30.0 % | 10.0 % |", "| of new sizes (9) | 20.0 % | 5.0 % |", "| all (38), fitted to them | 50.0 % | 6.2 % |"]
    assert lines[-4:] == ["| wgmma.x | 2 | 2.5 | 0.25 |", "", "- not timed: spills", "- not timed: wrong"]
    learnt.reason = "too few"
    assert calibrate.told(Timed((), 0, ()), fit) == "Nothing was fitted: too few."


def test_fitted_constants_stand_instead_of_those_of_an_earlier_fit(monkeypatch):
    """A value that is measured again counts as another where it differs by more than two deviations, and by 5 % at least."""
    written = []
    monkeypatch.setattr(calibrate.gpu_row, "write", written.append)
    session = Session(SimpleNamespace(arch="sm_90"), None, "x", [], 1)
    session.constants["old", "one"] = Constant(value=1, source="fitted before")
    for name in ("time old.one", "rate x"):
        session.put(Value(name, 1.0, "an earlier fit"))
    constants = [SimpleNamespace(place=place, before=2.0, after=2.50004, deviation=deviation)
                 for place, deviation in ((("wgmma", "x"), 0.25), (("", "y"), 0.01))]
    fit = calibrate.Fit(SimpleNamespace(rows=40, device="d", constants=constants), {"new sizes": (0.2, 0.05)}, {"new sizes": 9})
    calibrate.keep(session, Timed((), 20, ()), fit)
    assert {place: one.value for place, one in session.constants.items()} == {("wgmma", "x"): 2.5, ("", "y"): 2.5} and written == [session]
    assert [(one.name, one.value, one.tolerance) for one in session.values[1:]] == [
        ("time wgmma.x", 2.5, 0.5), ("time y", 2.5, 0.05), ("time error of new sizes", 0.05, 0.5)]
    assert session.values[0].name == "rate x" and session.told_of_times == ["mean error of times that a fit had not seen: 5.0 % of new sizes (9 times)"]


def test_a_report_tells_what_contradicts_a_row_trait_by_trait():
    trait = SimpleNamespace(name="terms", text="truncated at 24 bits", how="ladders")
    against = [{"kind": "random", "a": ["3c00", "0001"], "b": ["4000", "0002"], "c": "00000000", "d": "40000000", "rule": "40000001"}]
    found = SimpleNamespace(against=against, candidate=SimpleNamespace(text="the rule"))
    ones = [SimpleNamespace(found=found, profile=PROFILE, fragment=SimpleNamespace(name="first"), traits=SimpleNamespace(found={"terms": trait})),
            SimpleNamespace(found=None, profile=None, fragment=SimpleNamespace(name="second"), traits=SimpleNamespace(found={"terms": trait}))]
    session = SimpleNamespace(instructions=ones)
    assert findings._traits(session)[-1] == "| terms | truncated at 24 bits | first, second | ladders |" and len(findings._traits(session)) == 6
    lines = findings._against(session)
    assert lines[1] == "## Products of first that contradict the rule" and lines[-2] == (
        "random\na 3c00 0001\nb 4000 0002\nc 00000000 d 40000000 row 40000001")
    told = findings._egemm(session)
    assert told[1] == "## EGEMM-TC's profiling, on first" and told[3] == PROFILE.lines[0] and f"Verdict: {PROFILE.verdict}." in told
    assert told[-len(PROFILE.overlooked):] == [f"- {one}" for one in PROFILE.overlooked]
    assert findings._against(SimpleNamespace(instructions=ones[1:])) == findings._egemm(SimpleNamespace(instructions=ones[1:])) == []
    assert findings._shipped({"shipped": None}) == ["", "The catalog has no matrix unit for this arch to compare with."]
    assert findings._shipped({"shipped": {"unit": "u", "differences": []}})[1:] == ["## Beside the catalog's row `u`", "", "No difference in what was probed."]
    assert findings._shipped({"shipped": {"unit": "u", "differences": ["x", "y"]}})[3:] == ["- x", "- y"]


def test_an_instruction_is_a_line_of_the_report():
    fragment = SimpleNamespace(name="i", map_source="measured")
    rule = SimpleNamespace(fits=True, candidate=SimpleNamespace(text="rule r"), same=(), described=None, turns=[9, 2], asked=70, of=40, agreeing=99, proof=100,
                           kinds={findings.EXTREMES: (8, 7)})
    shipped = SimpleNamespace(same_as=lambda one: True, fits=False)
    one = SimpleNamespace(fragment=fragment, maps=shipped, found=rule, order=SimpleNamespace(text="at once"), whole=None)
    assert findings._line(one) == (f"| `i` | as shipped | at once | rule r | 70 products in 2 turns, of 40 rules | 99 of 100; of {findings.EXTREMES} 7 of 8 |")
    rule.fits, rule.same, rule.turns, rule.kinds = False, (1, 2), [9], {}
    one.maps = SimpleNamespace(same_as=lambda one: False, fits=True)
    rule.described = SimpleNamespace(text="as described", agreeing=5, proof=6)
    assert findings._line(one) == ("| `i` | others | at once | none of the catalog's; nearest rule r; as described: 5 of 6 (or 2 that no product told from it)"
                                   " | 70 products in 1 turn, of 40 rules | 99 of 100 |")
    one.found, one.whole, one.traits = None, (10, 10), SimpleNamespace(found={"sums": SimpleNamespace(text="exact sums")})
    one.maps, fragment.map_source = SimpleNamespace(same_as=lambda one: False, fits=True), "constructed"
    assert findings._line(one) == "| `i` | new | exact sums | exact in INT32 |  | 10 of 10 |"
    one.whole, one.maps = (10, 9), None
    assert findings._line(one) == "| `i` | not found | exact sums | not exact |  | 9 of 10 |"
    one.whole, one.maps = None, SimpleNamespace(same_as=lambda one: False, fits=False)
    assert findings._line(one) == "| `i` | no bit rows |  |  |  |  |"


def test_a_partial_row_has_what_is_known():
    session = session_of()
    session.values += [Value("gpu title", "A title", ""), Value("gpu sms", 100, ""), Value("gpu boost_mhz", 1410.6, ""), Value("gpu dram_gib", None, "")]
    gpu_row.write_partial(session)
    text = session.rows["gpu.partial.toml"]
    values = {line.partition("  #")[0] for line in text.splitlines()}
    assert {'title = "A title"', 'vendor = "nvidia"', 'matrix_unit = "units/here.toml"', "sms = 100", "boost_mhz = 1411"} <= values
    missing = gpu_row.missing({"sms": None})
    assert "sms" not in missing and "boost_mhz" in missing and ", ".join(gpu_row.missing({"sms": 1, "boost_mhz": 1})) + "." in text.splitlines()[0]


# ---------------------------------------------------------------- places of words


def test_registers_are_split_into_words_and_joined():
    registers = np.array([[0x00020001, 0x00040003]], np.uint32)
    words = probe.split_registers(FRAGMENTS.get(MMA), registers)
    assert words.shape == (1, 2, 2) and words.tolist() == [[[1, 2], [3, 4]]] and (probe.joined_words(words) == registers).all()
    assert probe.split_registers(FRAGMENTS.get("mma_m16n8k32_s8"), registers).tolist() == [[[1, 0, 2, 0], [3, 0, 4, 0]]]


def test_only_words_of_a_byte_that_are_no_integers_vary():
    fragment = SimpleNamespace(word_bytes=1, word="e4m3", from_shared=False)
    assert probe.varies(fragment)
    for other in ({"word_bytes": 2, "word": "f16"}, {"word": "s8"}, {"from_shared": True}):
        assert not probe.varies(SimpleNamespace(**{**vars(fragment), **other}))
    shared = SimpleNamespace(from_shared=True, threads=128)
    assert probe.chain_forms(shared) == ((1, 128), (2, 256))
    for registers, chains in ((4, 8), (16, 4), (64, 2), (8, 8)):
        one = SimpleNamespace(from_shared=False, threads=32, c=SimpleNamespace(register_count=registers))
        assert probe.chain_forms(one) == ((1, 32), (chains, 512))


def test_numbers_are_renamed_by_what_lies_beside_them():
    renamed = maps._renamed(np.array([2, 0, maps.NOBODY]), np.array([0, 1, 2]), np.array([7, 8, 9]))
    assert renamed.tolist() == [9, 7, maps.NOBODY]


def test_parts_are_counted_in_bits_words_first():
    parts = np.arange(8).reshape(2, 2, 2)  # [lane, register, word]
    assert maps._counted(parts[::-1, :, ::-1].reshape(-1), (2, 2, 2), 8)[:8].tolist() == [5, 4, 7, 6, 1, 0, 3, 2]
    same = np.array([0, 0, 1, 1, 2, 2, 3, 3])  # words of a register are of one part
    assert maps._counted(same, (2, 2, 2), 4)[:4].tolist() == [0, 1, 2, 3]
    odd = np.array([2, 0, 1])  # no bits: in turn
    assert maps._counted(odd, (3, 1, 1), 3)[:3].tolist() == [1, 2, 0]
    three = np.array([2, 0, 1, maps.NOBODY])
    assert maps._counted(three, (4, 1, 1), 3)[:3].tolist() == [1, 2, 0]


# ---------------------------------------------------------------- launches and races


def test_a_launch_is_scaled_to_its_time():
    bench, asked = Bench.__new__(Bench), []

    def run(symbol, blocks, threads, steps, *rest):
        asked.append(steps)
        return SimpleNamespace(span=steps * 1e-6)

    bench.run = run
    assert bench.scaled("k", 1, 32, seconds=4e-4) == 400 and asked == [32, 128]
    assert bench.scaled("k", 1, 32, 7, seconds=4e-4, first=101) == 400 and asked[2:] == [101]
    bench.run = lambda *given: SimpleNamespace(span=1.0)
    assert bench.scaled("k", 1, 32) == 1
    bench.run = lambda *given: SimpleNamespace(span=0.0)
    assert bench.scaled("k", 1, 32) == 32 * 4**10
    bench.run = lambda symbol, blocks, threads, steps: SimpleNamespace(span=steps * 1e-15)
    assert bench.scaled("k", 1, 32) == 1 << 30


def test_the_best_repeats_are_the_largest_of_those_at_one_clock():
    steady, more, throttled = Measured((5.0,), (1000.0,)), Measured((6.0,), (1000.0,)), Measured((9.0, 9.0), (1000.0, 2000.0))
    assert max((steady, throttled, more), key=rates._best) is more and max((steady, throttled), key=rates._best) is steady


def test_each_chosen_kernel_is_verified_once_where_it_can_be():
    asked = []

    def answer(where):
        return lambda target, spec, device, seconds: asked.append((where, target, spec, device, seconds)) or (
            ("value", (True, "fine")) if spec != "bad" else ("died", "SIGSEGV"))

    pool = SimpleNamespace(begin=answer("beside"), on_gpu=answer("gpu"))

    def kernel(spec, identity):
        one = Kernel("half", (8, 8, 8))
        one.tried = [(Proposed(spec, (8, 8, 8), 1e-5), {"verdict": "compiled", "identity": identity})] if identity else []
        return one, []

    for device, where in (("emulator", "beside"), ("cuda", "gpu")):
        found = [kernel("a", "x"), kernel("b", "x"), kernel("bad", "y"), kernel("", "")]
        asked.clear()
        kernels.verify(found, pool, device, lambda text: None)
        assert asked == [(where, "gemmgen.workshop.bringup.kernels:verified", spec, device, kernels.VERIFY_SECONDS) for spec in ("a", "bad")]
        assert [one.verified for one, _ in found] == [(True, "fine"), (True, "fine"), (False, "died: SIGSEGV"), None]


def test_candidates_are_timed_in_turn_and_a_rival_once_a_size():
    asked = []

    def on_gpu(target, task):
        asked.append((task.rival, task.made, task.rounds))
        if task.rival:
            return ("value", {"seconds": 5e-6}) if task.size == (8, 8, 8) else ("hung", "no end")
        return ("value", {"verdict": "timed", "seconds": 1e-6}) if task.made == b"good" else ("died", "SIGBUS")

    def future(kind, value):
        return SimpleNamespace(result=lambda: (kind, value))

    def fields():
        good, bad = Proposed({}, (8, 8, 8), 1.0), Proposed({}, (8, 8, 8), 2.0)
        return [(Kernel("half", (8, 8, 8)), [(good, future("value", ({"verdict": "compiled", "kernel": "k"}, b"good"))), (bad, future("hung", "compiling"))]),
                (Kernel("fp32", (8, 8, 8)), [(bad, future("value", ({"verdict": "compiled", "kernel": "l"}, b"bad")))]),
                (Kernel("half", (9, 9, 9)), [(bad, future("value", ({"verdict": "refused", "reason": "spills"}, b"")))])]

    found = fields()
    kernels.race(found, SimpleNamespace(on_gpu=on_gpu), True, lambda text: None)
    assert [(rival, made) for rival, made, _ in asked] == [("", b"good"), ("cublas-sgemm", b""), ("", b"bad"), ("cublas-sgemm", b"")]
    assert [[columns for _, columns in one.tried] for one, _ in found] == [
        [{"verdict": "timed", "kernel": "k", "seconds": 1e-6}, {"verdict": "failed", "reason": "compiling"}],
        [{"verdict": "failed", "kernel": "l", "reason": "SIGBUS"}], [{"verdict": "refused", "reason": "spills"}]]
    assert [one.rival for one, _ in found] == [5e-6, 5e-6, None]
    asked.clear()
    found = fields()
    kernels.race(found, None, False, lambda text: None)
    assert not asked and found[0][0].tried[0][1] == {"verdict": "compiled", "kernel": "k"} and found[0][0].rival is None


def test_a_way_through_memory_meets_every_line():
    launches = []
    of = SimpleNamespace(most=1000 * rates.LINE, sms=3, memory="memory", kernels=SimpleNamespace(launch=lambda *given: launches.append(given)))
    for asked, lines in ((64, 64), (610, 610), (5000, 1000), (2, 2)):
        found, jump = rates.Rates._chain(of, asked)
        assert found == lines and len({at * jump % lines for at in range(lines)}) == lines and jump >= int(0.618 * lines)
        assert launches[-1][:4] == ("fill_chain", 12, 256, 0) and launches[-1][4] == [
            ("pointer", "memory"), ("pointer", "memory"), ("int", 3072), ("int", lines), ("int", jump), ("int", 0)]


def test_instructions_of_a_target_are_the_catalogs():
    from gemmgen.workshop.bringup import instructions_of

    names = {one.name for one in instructions_of("sm_80")}
    assert MMA in names and all(FRAGMENTS.get(name).runs_on("sm_80") and FRAGMENTS.get(name).on_matrix_unit for name in names)
    assert not any(one.in_tensor_memory for one in instructions_of("sm_100a"))
    assert any(one.in_tensor_memory and one.runs_on("sm_100a") for one in FRAGMENTS.rows())
    assert {one.vendor for one in instructions_of("gfx942")} == {"amd"} and "fma_f32" not in names


@pytest.mark.parametrize(("unit", "shipped"), [("hopper", {"unit": "hopper", "differences": []}), ("of_a_new_arch", None)])
def test_a_bring_up_goes_through_its_parts_and_is_compared_with_the_unit_of_its_arch(monkeypatch, unit, shipped):
    given, cleared = [], []
    monkeypatch.setattr(bringup, "PARTS", (lambda session: given.append(session), lambda session: session.rows.update({"x.toml": "row"})))
    monkeypatch.setattr(bringup, "generation", lambda arch: unit)
    monkeypatch.setattr(Session, "clear", lambda session: cleared.append(session))
    machine = SimpleNamespace(arch="sm_90", name="A GPU", kind="cuda")
    session, told, files = bringup.bring_up(machine, "x", products=9, chosen=[], seed=3, kernels=2, before='{"device": "another"}')
    assert told["shipped"] == shipped and (told["products"], told["seed"], session.kernels, session.fragments) == (9, 3, 2, [])
    assert given == cleared == [session] and any("another" in one for one in told["changed"])
    assert {*files} == {"x.toml", "report.md", bringup.REPORT} and json.loads(files[bringup.REPORT])["shipped"] == shipped
    monkeypatch.setattr(bringup, "PARTS", (lambda session: 1 / 0,))
    with pytest.raises(ZeroDivisionError):
        bringup.bring_up(machine, "x", products=9)
    assert len(cleared) == 2


def test_a_machine_is_what_its_driver_or_its_row_tells(monkeypatch):
    told = {"arch": "sm_93", "title": "NVIDIA Something", "sms": 7}
    monkeypatch.setattr(probe, "driver_facts", lambda kind: told | {"kind": kind})
    machine = probe.GpuMachine("cuda")
    assert (machine.kind, machine.arch, machine.name) == ("cuda", "sm_93", "NVIDIA Something") and machine.facts() == told | {"kind": "cuda"}
    row = GPUS.get("a100")
    machine = probe.EmulatedMachine(row)
    facts = machine.facts()
    assert (machine.arch, machine.name) == (row.arch, f"emulator of {row.title}") == (facts["arch"], facts["title"])
    assert (facts["sms"], facts["boost_mhz"], facts["registers_per_sm"]) == (108, row.rates.boost_mhz, row.limits.registers_per_sm)


def test_rows_lie_in_folders_of_their_own_until_they_are_cleared():
    session = session_of(rows={"here.toml": "a = 1", "units/here.toml": "b = 2"})
    session.clear()
    first, second = session.place(), session.place()
    assert first != second and first.name == "here.toml" and first.read_text() == "a = 1" and (second.parent / "units" / "here.toml").read_text() == "b = 2"
    session.clear()
    assert not first.exists() and not second.parent.parent.exists() and session.place().exists()
    session.clear()


def test_a_unit_that_is_assumed_is_unchecked_in_all_its_variants():
    from gemmgen.catalog.unit import UNITS

    for unit in UNITS.rows():
        text = from_row._unit_after(unit, "mine")
        assert text.startswith('name = "mine"') and "unverified_words" not in text
        assert text.count(f'unchecked = "assumed as {unit.name}\'s') == 1 + len(unit.variants)


@pytest.mark.parametrize("named", [True, False])
def test_the_register_model_of_a_row_goes_into_that_row(monkeypatch, tmp_path, named):
    """A part that tells its own name is written under it, whatever the folder is called."""
    from gemmgen.workshop.verbs import bringup as verb

    name, written, asked = "own" if named else "folder", {}, []
    files = {f"{name}.toml": "a = 1\n\n", "report.json": "{}", "report.md": "told"}
    monkeypatch.setattr(from_row, "summary", lambda told: "in short")
    filled = from_row.Filled("a place", name, "sm_80", {}, {}, {}, files=files, row=f"{name}.toml")
    monkeypatch.setattr(from_row, "fill_in", lambda *given: filled)
    monkeypatch.setattr(verb, "write_files", lambda folder, files, rows: written.update(files))
    monkeypatch.setattr(calibrate, "registers_of", lambda place, most: asked.append((place.name, most)) or "[registers]")
    said = []
    monkeypatch.setattr(verb, "emit", said.append)
    assert verb.from_row(tmp_path / "part.toml", tmp_path / "folder", kernels=12) == 0
    assert asked == [(f"{name}.toml", 12)] and written[f"{name}.toml"] == "a = 1\n\n[registers]\n"
    assert said == [f"in short\nwrote {tmp_path / 'folder' / 'report.md'}, the whole report, and 2 more files"]


def told_of(**more):
    """A bring-up's report as plain data."""
    rule = {"fits": True, "random": {"any": [100, 100], "small": [50, 49]}}
    value = {"value": 1, "standing": "measured", "how": "", "proof": ""}
    return {
        "device": "NVIDIA X", "arch": "sm_77", "seconds": 93.5, "changed": None, "shipped": {"unit": "hopper", "differences": []}, "not_measured": {},
        "instructions": [
            {"name": "a", "maps": {"as_shipped": True}, "rule": rule}, {"name": "b", "maps": {"as_shipped": False}, "rule": rule | {"fits": False, "random": {}}},
            {"name": "c", "integers": {"products": 1000, "exact": 1000}}, {"name": "d", "error": {}}, {"name": "e", "integers": {"products": 100, "exact": 97}},
        ],
        "values": {
            "gpu sms": value | {"value": 77, "standing": "told"}, "gpu registers_per_sm": value | {"value": 65536}, "gpu l2_mib": value,
            "rate dram read_gb_per_s": value | {"value": 3000.5}, "rate clock sustained_tflops": value | {"value": None, "standing": "not found", "how": "hot"},
            "kernel half": value | {"value": 12.5}, "kernel fp32": value | {"value": None, "standing": "not found", "how": "wrong"},
        },
    } | more


def test_a_bring_ups_summary_has_the_verdict_first_and_ten_lines():
    lines = dict(line.split("  ", 1) for line in findings.summary(told_of()).splitlines())
    assert list(lines)[0] == "verdict" and len(lines) <= 10
    assert {name: text.strip() for name, text in lines.items()} == {
        "verdict": "INCOMPLETE: 2 sought and not found: rate clock sustained_tflops, kernel fp32", "device": "NVIDIA X (sm_77), in 93.5 s",
        "instructions": "3 of 5 described by a rule; lane maps of 2 found, 1 as shipped", "proof": "1,246 of 1,250 random products as the rules say",
        "unit": "as the shipped hopper", "GPU": "1 values told, 2 values measured; 77 SMs, 65536 registers an SM", "rates": "3000.5 GB/s of memory",
        "kernels": "1 of 2 verified",
    }


def test_a_summary_says_what_differs_changed_and_was_left_out():
    nothing = {"value": None, "standing": "not found", "how": rates.NO_CLOCK}
    told = told_of(
        changed=["a", "b", "c", "d"], shipped={"unit": "ada", "differences": ["x", "y"]}, not_measured={"kernels": "", "calibration": ""},
        values={"rate dram read_gb_per_s": nothing, "gpu row": nothing | {"how": "too little"}},
    )
    text = findings.summary(told, without=["gpu row"])
    for part in ("COMPLETE: all that was sought", "unlike the shipped ada: x; y", "a; b; c and 1 more", "not measured  kernels, calibration", rates.NO_CLOCK):
        assert part in text, part
    assert "changed       a; b; c" in findings.summary(told_of(changed=["a", "b", "c"])).splitlines()
    assert "rates         none" in findings.summary(told_of(values={"gpu row": nothing | {"how": "too little"}})).splitlines()
    assert "INCOMPLETE: 1 sought and not found: gpu row" in findings.summary(told) and findings.missed(told) == ["gpu row"]
    assert "changed       nothing since the last time" in findings.summary(told_of(changed=[])) and "no shipped unit" in findings.summary(told_of(shipped=None))


@pytest.mark.parametrize(("arguments", "missed", "code", "asked"), [
    (("cuda",), (), 0, ("mine", verb.ON_A_GPU, None, verb.KERNELS, 0)),
    (("cuda",), ("rate l2",), 1, ("mine", verb.ON_A_GPU, None, verb.KERNELS, 0)),
    (("emulator", "--gpu", "a100"), ("gpu row",), 1, ("mine", verb.ON_AN_EMULATOR, None, verb.EMULATED_KERNELS, 0)),
    (("emulator", "--gpu", "a100", "--only", MMA), ("gpu row",), 0, ("mine", verb.ON_AN_EMULATOR, [MMA], 0, 0)),  # no whole row is asked for
    (("cuda", "--only", MMA, "--kernels", "3", "--products", "5", "--seed", "7", "--name", "other"), ("gpu row", "rate l2"), 1, ("other", 5, [MMA], 3, 7)),
])
def test_a_probe_is_of_what_is_typed_and_its_exit_code_says_what_was_not_found(arguments, missed, code, asked, gemmgen, monkeypatch, tmp_path):
    got = []

    def bring_up(machine, name, *, products, chosen, seed, before, kernels, progress):
        got.append((name, products, chosen and [one.name for one in chosen], kernels, seed))
        return None, told_of(values={one: {"value": None, "standing": "not found", "how": "too little"} for one in missed}), {}

    monkeypatch.setattr(bringup, "bring_up", bring_up)
    monkeypatch.setattr(profiled, "machine_for", lambda device, gpu: SimpleNamespace(arch="sm_80"))
    ran = gemmgen("gpu", "probe", "--device", *arguments, "-o", tmp_path / "mine")
    assert (ran.code, got, "INCOMPLETE" in ran.out) == (code, [asked], bool(code))
