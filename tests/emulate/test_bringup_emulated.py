"""A bring-up through the compilers and the emulator: its kernels compile, and find what the emulated GPU's row says."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from assembled import assembled, gcn_of, ptx_of
from fake_hip import MI210, FakeHip, emulating, install

from gemmgen.catalog.fragment import FRAGMENTS
from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate import LAZY_HIGHEST, Emulator
from gemmgen.errors import EmulationError
from gemmgen.run.emulator import UnplannedDevice
from gemmgen.verify.unit_probe import probe, probe_source
from gemmgen.workshop import bringup
from gemmgen.workshop.bringup import launch_limits, rates
from gemmgen.workshop.bringup.instruction import probe_instruction
from gemmgen.workshop.bringup.probe import EmulatedMachine, multiply_source, plain_source
from gemmgen.workshop.bringup.unit_rules import Candidate

CASES = [("a100", "mma_m16n8k8_f16"), ("mi210", "mfma_m16n16k16_f16"), ("h200", "wgmma_m64n8k16_f16"), ("h200", "wmma_m16n16k16_f16"),
         ("mi300x", "mfma_m16n16k32_e4m3fnuz"), ("rx7900xtx", "rdna3_m16n16k16_f16"), ("rx9070xt", "rdna4_m16n16k16_bf16")]  # fmt: skip


@pytest.mark.parametrize(("gpu", "name"), [pytest.param(*one, marks=() if at < 4 else pytest.mark.long) for at, one in enumerate(CASES)])
def test_an_emulated_instruction_is_what_its_rows_say(gpu, name):
    row, fragment = GPUS.get(gpu), FRAGMENTS.get(name)
    one = probe_instruction(EmulatedMachine(row), fragment, 500)
    assert one.error is None, str(one.error)
    assert one.maps.same_as(fragment) and one.found.fits
    assert Candidate.of(row.unit, fragment.word, fragment.policy) in (one.found.candidate, *one.found.same)


@pytest.mark.parametrize(("gpu", "name"), [("a100", "mma_m8n8k16_s8"), pytest.param("mi300x", "mfma_m16n16k32_s8", marks=pytest.mark.long)])
def test_emulated_integers_are_exact(gpu, name):
    one = probe_instruction(EmulatedMachine(GPUS.get(gpu)), FRAGMENTS.get(name), 500)
    assert one.maps.same_as(one.fragment) and one.whole[0] == one.whole[1] and one.traits.value("sums") == "wrap around in INT32"


@pytest.mark.parametrize(("gpu", "name"), [("a100", "mma_m8n8k16_s8"), ("h200", "wgmma_m64n8k16_f16"), ("mi210", "mfma_m16n16k16_f16")])
def test_a_unit_that_its_own_kernel_asks_answers_as_modelled(gpu, name):
    """Each element of each tile, whether lanes hold B or shared memory does."""
    row, fragment = GPUS.get(gpu), FRAGMENTS.get(name)
    source = probe_source(fragment, fragment.arch or row.arch)
    device = UnplannedDevice(row, source, assembled(source))
    device.set_schedule(LAZY_HIGHEST)
    found = probe(device, fragment, row)
    assert [found.agreeing(tile) for tile in range(len(found.names))] == [one.size for one in found.d]


def test_a_row_that_was_changed_is_found(monkeypatch):
    """By launches of the compiled kernel: the unit is hidden in the emulator."""
    gpu = GPUS.get("a100")
    hidden = gpu.unit.model_copy(update={"fraction_bits": 22, "block": {"tf32": 4}})
    monkeypatch.setattr(type(gpu), "unit", property(lambda self: hidden))
    one = probe_instruction(EmulatedMachine(gpu), FRAGMENTS.get("mma_m16n8k8_tf32"), 500)
    assert one.rule == Candidate("truncate", 4, 22)


def test_the_command_writes_rows_and_compares_the_second_time(gemmgen, tmp_path):
    folder = tmp_path / "my_gpu"
    call = ("gpu", "probe", "--device", "emulator", "--gpu", "a100", "--only", "mma_m16n8k8_tf32", "--products", 500, "-o", folder, "--quiet")
    first = gemmgen(*call)
    report = (folder / "report.md").read_text()
    assert first.code == 0 and "| `mma_m16n8k8_tf32` | as shipped | 4 at once, in turn of k |" in report
    assert "No difference in what was probed." in report and "## Not measured" in report
    assert 'unchecked = "found on an emulator, not checked on hardware"' in (folder / "units" / "my_gpu.toml").read_text()
    second = gemmgen(*call, "--json")
    assert second.code == 0 and json.loads(second.out)["changed"] == []


@contextmanager
def measuring(source, barriers: int = 3):
    """Kernels that measure, with a clock of two times, on the emulator: memory after a launch of one block with steps, x, y and keep tells how much they did.

    Of those that look at the clock, all threads begin after the first look and have ended before the last.
    """
    ptx = ptx_of(source.text, source.arch)
    for symbol, entry in re.findall(r"\.entry (\w+)\((.*?)(?=\.entry |\Z)", ptx, re.DOTALL):
        if symbol not in ("fill_chain", "stamp", "stamp_dependent"):
            assert (symbol, entry.count("bar.sync"), entry.count("%clock64")) == (symbol, barriers, 2)
    looks = {"globaltimer": cycle((7, 9)), "clock64": cycle((1000, 1250)), "smid": cycle((3,))}  # by turns at the start and at the end
    ptx = re.sub(r"(mov\.u(?:64|32) %\w+), %(globaltimer|clock64|smid)", lambda one: f"{one[1]}, {next(looks[one[2]])}", ptx)
    with Emulator(ptx, GPUS.get("h200").unit, source=source.text, processes=1) as emulator:
        def run(symbol: str, threads: int, memory: np.ndarray, *numbers: int, conflicts: int | None = None) -> np.ndarray:
            there, out = emulator.upload(memory, name="memory"), emulator.alloc(32, name="out")
            stats = emulator.launch(symbol, (1, 1, 1), (threads, 1, 1), 0, [out, there, *numbers])
            assert conflicts in (None, stats.bank_conflicts)
            if symbol != "fill_chain":
                assert emulator.read(out, np.uint64, (4,)).tolist() == [250, 7, 9, 3]
            return emulator.read(there, memory.dtype, memory.shape)

        yield run


def test_kernels_that_measure_do_the_work_that_rates_divide_their_time_by():
    """And read no shared memory that no thread has written before the barrier, nor any beyond its end: the emulator would say so."""
    source = plain_source("rates.j2", "sm_90a", "rates", warp=32, async_copies=True, bulk_copies=True, stamps=["stamp", "stamp_dependent"])
    with measuring(source) as run:
        ones = np.ones(32, np.uint32)
        for chains, threads in ((1, 32), (8, 32), (1, 1)):  # 128 additions of one a step, to sums that begin at one; a thread alone looks at the clock itself
            assert (run(f"fma_{chains}", threads, ones, 3, 0, 0, 1)[:threads] == 3 * 128 + chains).all()
        words = np.random.default_rng(1).integers(0, 2**32, (4096, 4), np.uint32)
        assert (run("shared_chase", 32, words, 5, 0, 0, 1).ravel()[:32] == 5 * 37).all()
        for symbol, threads, x, y in (("shared_read", 1024, 1024, 128), ("shared_stride", 64, 3, 1)):
            after = run(symbol, threads, words, 2, x, y, 1, conflicts=0 if x == 1024 else None)  # what is read comes in pairs
            assert not after.ravel()[: threads * (4 if x == 1024 else 1)].any()
        for x, y in ((1, 0), (2, 0), (8, 0), (33, 0), (2, 1), (4, 2)):
            lane = np.arange(32)
            at = {*(lane * x + lane % 2 * y).tolist()}
            most = max(sum(word % 32 == bank for word in at) for bank in range(32))
            run("shared_stride", 32, words, 3, x, y, 0, conflicts=3 * 8 * (most - 1))
        x, y, steps, keep = 11, 3, 4, 5
        first, *path = [32 * line for line in ((keep + 1) * steps % x * y % x, 7, 9, 4)]  # of the second thread; the steps' exclusive or is 1
        chain = np.zeros(x * 32, np.uint32)
        for here, there in zip((first, *path), (*path, np.bitwise_xor.reduce(path) ^ 1)):
            chain[here] = there
        assert run("chase", 2, chain, steps, x, y, keep)[1] == 1
        lines = run("fill_chain", 32, np.zeros((128, 32), np.uint32), 32, 128, 37, 0)
        assert (lines[:, 0] == (np.arange(128) + 37) % 128 * 32).all() and not lines[:, 1:].any()
        assert (run("read_memory", 512, words, 3, 4096, 512, 1)[:512] == np.bitwise_xor.reduce(words.reshape(8, 512, 4))).all()
        twice = np.concatenate([words, np.zeros_like(words)])
        assert (run("copy_memory", 512, twice, 1, 4096, 512, 0)[4096:] == words).all()
        written = run("write_memory", 512, twice, 1, 4096, 512, 7)
        assert (written[:4096] == (7, 0, 0, 0)).all() and not written[4096:].any()
        assert (run("async_copy", 1024, words, 4, 4096, 1, 1)[:1024] == words[3072:]).all()  # the first of three places is filled again by the fourth step
        assert (run("bulk_copy", 32, words, 7, 4096, 1, 1)[:32] == words[5 * 512 : 5 * 512 + 32]).all()  # of five places by the sixth
        for symbol in ("fma_1", "fma_8", "shared_chase", "shared_read", "shared_stride", "read_memory", "async_copy", "bulk_copy"):
            after = run(symbol, 32, words, 7, 4096 if "copy" in symbol else 32, 1, 0)
            assert (after == words).all(), f"{symbol} writes where nobody asks"


def test_stamps_end_when_their_ticks_are_over_and_go_where_they_are_told():
    source = plain_source("rates.j2", "sm_90a", "rates", warp=32, async_copies=False, bulk_copies=False, stamps=["stamp", "stamp_dependent"])
    ptx = ptx_of(source.text, source.arch)
    for symbol in ("stamp", "stamp_dependent"):
        looks = {"globaltimer": iter((7, 9, 12)), "clock64": iter((1000, 1250)), "smid": iter((3,))}
        entry = re.search(rf"\.entry {symbol}\(.*?\n}}", ptx, re.DOTALL)[0]
        told = re.sub(r"%(globaltimer|clock64|smid)", lambda one: str(next(looks[one[1]])), entry)
        with Emulator(re.sub(r"%(globaltimer|clock64|smid)", "0", ptx.replace(entry, told)), GPUS.get("h200").unit, source=source.text, processes=1) as emulator:
            out = emulator.alloc(128, name="out", fill=0)
            emulator.launch(symbol, (2, 1, 1), (32, 1, 1), 0, [out, out, 0, 2, 1, 0])
            assert emulator.read(out, np.uint64, (4, 4)).tolist() == [[0] * 4, [250, 7, 12, 3], [250, 7, 12, 3], [0] * 4]
            with pytest.MonkeyPatch.context() as patch, pytest.raises(EmulationError, match="runs on and on"):
                patch.setattr("gemmgen.emulate.ptx.warp._PATIENCE", 100)
                emulator.launch(symbol, (1, 1, 1), (32, 1, 1), 0, [out, out, 0, 3, 0, 0])


def test_kernels_that_hold_registers_read_all_before_they_write_and_do_nothing_with_zeros():
    """Each turns its words round in place, which needs them all at once; a launch that asks only whether it is taken passes zeros."""
    source = plain_source("limits.j2", "sm_90a", "limits", needs=[8, 40])
    words = np.arange(100, 140, dtype=np.uint32)
    with Emulator(ptx_of(source.text, source.arch), GPUS.get("h200").unit, source=source.text, processes=1) as emulator:
        for symbol, right in (("hold_8", words[7::-1]), ("hold_40", words[::-1]), ("idle", [0])):
            emulator.launch(symbol, (2, 1, 1), (32, 1, 1), 0, [None])
            memory = emulator.upload(words[: len(right)], name="memory")
            emulator.launch(symbol, (1, 1, 1), (1, 1, 1), 0, [memory])
            assert emulator.read(memory, np.uint32, (len(right),)).tolist() == list(right)


def test_another_vendors_kernels_that_measure_wait_for_all_threads_and_look_at_both_clocks():
    source = plain_source("rates.j2", "gfx90a", "rates", warp=64, async_copies=False, bulk_copies=False, stamps=["stamp"])
    parts = re.split(r"^(\w+): *; @\1\n", gcn_of(source.text, source.arch), flags=re.M)
    waits = {symbol: body.partition(".end_amdhsa_kernel")[0].count("s_barrier\n") for symbol, body in zip(parts[1::2], parts[2::2])}
    assert len(waits) == 11 and waits == {symbol: 0 if symbol in ("fill_chain", "stamp") else 3 for symbol in waits}
    bodies = {symbol: body.partition(".end_amdhsa_kernel")[0] for symbol, body in zip(parts[1::2], parts[2::2])}
    for symbol, body in bodies.items():  # what a thread wrote lies in shared memory before the others go on
        order = " ".join(re.findall(r"ds_write|lgkmcnt\(0\)|s_barrier\n", body))
        assert not re.search(r"ds_write (ds_write )*s_barrier", order), symbol
    assert "ds_write" in bodies["shared_read"]
    clocks = {symbol: (body.count("s_memtime "), body.count("s_memrealtime ")) for symbol, body in bodies.items()}
    assert clocks == {symbol: {"fill_chain": (0, 0), "stamp": (2, 3)}.get(symbol, (2, 2)) for symbol in clocks}
    assert re.findall(r"global_load.*", bodies["chase"])[0].endswith(" glc")  # past the first cache
    assert bodies["fma_1"].count("v_fma_f32 ") == 128  # each waits for the last one's sum: the compiler leaves none out


@pytest.mark.parametrize("arch", ["sm_90a", "gfx90a"])
def test_memory_is_read_and_written_by_sixteen_bytes_an_instruction(arch):
    """As the rates of shared and device memory are of the widest accesses that there are."""
    amd = arch == "gfx90a"
    source = plain_source("rates.j2", arch, "rates", warp=64 if amd else 32, async_copies=not amd, bulk_copies=not amd, stamps=["stamp"])
    text = (gcn_of if amd else ptx_of)(source.text, source.arch)
    starts = r"^(\w+): *; @\1\n" if amd else r"\.entry (\w+)\("
    parts = re.split(starts, text, flags=re.M)
    bodies = dict(zip(parts[1::2], parts[2::2]))
    for symbol, shared, wide in (("shared_read", r"ds_read\w*|ld\.shared\S*", r"ds_read_b128|ld\.shared\.v4\S*"),
                                 ("read_memory", r"global_load\w*|ld\S*global\S*", r"global_load_dwordx4|ld\S*global\.cg\.v4\S*"),
                                 ("write_memory", r"global_store\w*|st\S*global\S*u32", r"global_store_dwordx4|st\S*global\S*v4\S*")):
        accesses = re.findall(rf"\b(?:{shared})", bodies[symbol])
        assert len(accesses) >= 8 and all(re.fullmatch(wide, one) for one in accesses), symbol
    assert amd or {*re.findall(r"ld\S*global\S*", bodies["chase"])} == {"ld.global.cg.u32"}  # past the first cache


@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "wgmma_m64n8k16_f16"])
def test_a_step_is_as_many_instructions_as_its_rate_counts(name):
    """Of words that are one, each adds k to every sum."""
    fragment = FRAGMENTS.get(name)
    form, ones, source = rates.Form.of(fragment), np.full(1024, 0x3C003C00, np.uint32), multiply_source(fragment, "sm_90a")
    if fragment.from_shared:  # one alone is waited for before the next begins; of steps, one is at work while the next one's are issued
        for symbol, order in ((form.alone, "(mma_async commit_group 0 )+0 "), (form.wide, "(" + "mma_async " * form.per_step + "commit_group 1 )+0 ")):
            entry = re.search(rf"\.entry {symbol}\(.*?(?=\.entry |\Z)", ptx_of(source.text, source.arch), re.DOTALL)[0]
            told = re.findall(r"wgmma\.(?:(mma_async|commit_group)|wait_group\S* (\d))", entry)
            assert re.fullmatch(order, "".join(f"{a or b} " for a, b in told)), symbol
    with measuring(source, 3 + fragment.from_shared) as run:
        for symbol, threads in ((form.alone, fragment.threads), (form.wide, form.threads if fragment.from_shared else 32)):
            sums = run(symbol, threads, ones, 2, 0, 0, 1)[:threads]
            assert (sums == 2 * form.per_step * fragment.shape[2] * fragment.c.register_count).all(), symbol
            assert (run(symbol, threads, ones, 1, 0, 0, 0) == ones).all(), symbol


@pytest.mark.long
def test_a_data_sheets_row_gets_the_registers_of_its_compiler(gemmgen, tmp_path):
    sheet = Path(__file__).parents[1] / "data" / "sheets" / "jetson_agx_orin.toml"
    ran = gemmgen("gpu", "from-row", sheet, "--kernels", 16, "-o", tmp_path / "orin", "--name", "orin")
    assert ran.code == 0, ran.err
    gpu = GPUS.get(str(tmp_path / "orin" / "orin.toml"))
    assert gpu.registers.source.startswith("fitted to 16 kernels compiled by") and "for sm_87; mean error" in gpu.registers.source


@pytest.mark.long
def test_a_bring_up_ends_in_verified_kernels(gemmgen, tmp_path):
    """With few kernels and no rates, which the row of the same arch tells: the rows serve a spec, and the specs written are verified kernels."""
    folder = tmp_path / "my_gpu"
    only = [part for name in ("mma_m16n8k16_f16", "mma_m16n8k8_tf32", "mma_m16n8k16_bf16") for part in ("--only", name)]
    ran = gemmgen("gpu", "probe", "--device", "emulator", "--gpu", "a100", *only, "--products", 300, "--kernels", 14, "-o", folder, "--quiet")
    assert ran.code == 0, ran.err
    gpu = GPUS.get(str(folder / "my_gpu.toml"))
    assert gpu.registers.source.startswith("fitted to 14 kernels compiled by") and gpu.unit.fraction_bits == 24 and not (folder / "gpu.partial.toml").exists()
    report = (folder / "report.md").read_text()
    assert "## The register model" in report and "has no times that count" in report and "| ootomo_256x256x256 | `gemmgen_ootomo_mma" in report
    verified = gemmgen("verify", folder / "specs" / "ootomo_256x256x256.toml", "--quiet")
    assert verified.code == 0 and "PASSED" in verified.out
    assert gemmgen("explain", folder / "specs" / "fp32_256x256x256.toml").code == 0


@pytest.mark.parametrize(("arguments", "where"), [
    (("--device", "emulator", "-o", "x"), "--gpu"),
    (("--device", "cuda", "--gpu", "h200", "-o", "x"), "--gpu"),
    (("--device", "emulator", "--gpu", "h200", "-o", "x", "--name", "Mine!"), "--name"),
    (("--device", "emulator", "--gpu", "mi100", "-o", "x"), "--device emulator"),
    (("--device", "emulator", "--gpu", "h200", "--only", "nothing", "-o", "x"), "--only"),
])
def test_what_cannot_be_served_is_refused(gemmgen, arguments, where, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = gemmgen("gpu", "probe", *arguments)
    assert ran.code == 2 and ran.err.startswith(f"error: {where}") and not (tmp_path / "x").exists()


def test_a_folder_with_other_things_is_left_alone(gemmgen, tmp_path):
    (tmp_path / "mine.toml").write_text("name = 1")
    ran = gemmgen("gpu", "probe", "--device", "emulator", "--gpu", "h200", "-o", tmp_path, "--name", "x")
    assert ran.code == 2 and "other things in it" in ran.err and (tmp_path / "mine.toml").read_text() == "name = 1"


@pytest.mark.long
def test_the_command_goes_through_amds_driver(gemmgen, tmp_path, monkeypatch):
    """On a stand-in for HIP that emulates launches: the target is what the driver says. It has no clock, and refuses nothing."""
    monkeypatch.setattr(bringup, "PARTS", tuple(part for part in bringup.PARTS if part not in (launch_limits.measure, rates.measure)))
    fake = install(monkeypatch, FakeHip(gpus=(MI210,), execute=emulating(GPUS.get("mi210").unit)))
    ran = gemmgen("gpu", "probe", "--device", "hip", "--only", "mfma_m16n16k16_f16", "--products", 500, "-o", tmp_path / "here", "--json", "--quiet")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    assert told["arch"] == "gfx90a" and told["shipped"] == {"unit": "cdna2", "differences": []}
    assert told["values"]["gpu warp_size"] == {"value": 64, "standing": "told", "how": "the driver", "proof": ""}
    assert fake.launches and 'verified = "' in (tmp_path / "here" / "units" / "here.toml").read_text()


def test_no_gpu_is_told(gemmgen, tmp_path, monkeypatch):
    install(monkeypatch, FakeHip(gpus=()))
    ran = gemmgen("gpu", "probe", "--device", "hip", "-o", tmp_path / "here")
    assert ran.code == 2 and "no AMD GPU answers" in ran.err and not (tmp_path / "here").exists()


# ---------------------------------------------------------------- the verb profile


@pytest.mark.parametrize(("changes", "code", "verdict", "ours"), [
    ({"fraction_bits": 15}, 1, "neither primitive", "fraction_bits 15"),
    pytest.param({}, 0, "half multiplication with single-precision accumulation", "the catalog's row says the same", marks=pytest.mark.long),
    pytest.param({"fraction_bits": 22}, 0, "half multiplication with single-precision accumulation", "fraction_bits 22", marks=pytest.mark.long),
    pytest.param({"rule": "tree", "fraction_bits": None, "block": {"f16": 4}}, 0, "half multiplication with single", "rule tree, block 4", marks=pytest.mark.long),
])
def test_the_profile_of_an_emulated_unit_follows_what_it_is_changed_to(gemmgen, monkeypatch, changes, code, verdict, ours):
    gpu = GPUS.get("a100")
    hidden = gpu.unit.model_copy(update=changes)
    monkeypatch.setattr(type(gpu), "unit", property(lambda self: hidden))
    ran = gemmgen("gpu", "profile", "--device", "emulator", "--gpu", "a100", "--only", "mma_m16n8k8_f16", "--draws", 400, "--json")
    told = json.loads(ran.out)
    assert ran.code == code and told["printed"]["verdict"].startswith(verdict) and ours in told["verdict"]
    assert told["instruction"] == "mma_m16n8k8_f16" and [one["draws"] for one in told["kinds"]] == [400] * 3


@pytest.mark.long
def test_the_profile_in_words(gemmgen):
    ran = gemmgen("gpu", "profile", "--device", "emulator", "--gpu", "t4", "--draws", 300, "--quiet")
    assert ran.code == 0 and ran.out.startswith("wmma_m16n16k16_f16 on emulator of NVIDIA T4")
    assert "300 are d_FLOAT up to 21 mantissa bits" in ran.out and "Algorithm 1" in ran.out and "so       " in ran.out and not ran.err


@pytest.mark.parametrize(("arguments", "where"), [
    (("--device", "emulator"), "--gpu"), (("--device", "hip", "--gpu", "mi210"), "--gpu"),
    (("--device", "emulator", "--gpu", "h200", "--only", "mma_m16n8k32_s8"), "--only"), (("--device", "emulator", "--gpu", "mi100"), "--device emulator"),
])
def test_what_cannot_be_profiled_is_refused(gemmgen, arguments, where):
    ran = gemmgen("gpu", "profile", *arguments)
    assert ran.code == 2 and ran.err.startswith(f"error: {where}") and not ran.out
