"""Rows made of data sheets: what is determined, what is asked for, and what is found to contradict."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gemmgen.catalog.architecture import ARCHITECTURES, architecture
from gemmgen.catalog.gpu import GPUS, Limits, arch_number
from gemmgen.catalog.vendor import vendor_of
from gemmgen.errors import SpecError, UnknownName
from gemmgen.workshop.bringup.from_row import LINES, Filled, _toml, fill_in

SHEETS = Path(__file__).parents[1] / "data" / "sheets"
OURS = sorted(path.stem for path in SHEETS.glob("*.toml"))
MINE = {
    "title": "A made-up GPU", "source": "made up", "arch": "sm_87",
    "rates": {"boost_mhz": 1300, "f16_tflops": 42.6, "f32_tflops": 5.3, "dram_gb_per_s": 204.8, "dram_gib": 64, "l2_mib": 4},
    "sheet": {"cores": 2048, "tflops": {"bf16": 42.6, "tf32": 21.3, "s8": 85.2}},
}
"""All that is needed of a GPU of an arch that has no other."""
ALONE = "jetson_agx_orin"
"""The name under which the shipped GPU of that arch counts for nothing."""


def but(part: dict, *left_out: str, **more) -> dict:
    """Part of a row without some keys, and with others, `sheet__cores=1`; of a table's words all go together."""
    changed = {key: dict(one) if isinstance(one, dict) else one for key, one in part.items() if key not in left_out}
    for key in left_out:
        for table in ("rates", "sheet"):
            changed.get(table, {}).pop(key, None)
    for key, value in more.items():
        table, _, inner = key.rpartition("__")
        (changed.setdefault(table, {}) if table else changed)[inner] = value
    return changed


def filled(tmp_path: Path, part: dict, arch: str | None = None, name: str = "mine") -> Filled:
    path = tmp_path / "part.toml"
    path.write_text(_toml(part))
    return fill_in(path, arch, name, tmp_path)


def row_of(tmp_path: Path, one: Filled):
    """The row that was made, as the catalog reads it, which keeps what it has read: so in a folder of its own."""
    assert not one.contradictions and not one.asked, (one.contradictions, one.asked)
    folder = tmp_path / f"made{len(list(tmp_path.iterdir()))}"
    for name, text in one.files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    return GPUS.get(str(folder / one.row))


def chip_of(name: str) -> dict:
    """What a data sheet tells of a shipped GPU: nothing that its architecture determines, and no rate a clock."""
    gpu = GPUS.get(name)
    rates = gpu.rates.model_dump(exclude={"tensor_fma_per_clock", "f32_fma_per_clock", "shared_bytes_per_clock"}, exclude_none=True)
    if rates["tensor_boost_mhz"] == rates["boost_mhz"]:
        del rates["tensor_boost_mhz"]
    words = {word: float(f"{gpu.rates.tensor_tflops(word):.4g}") for word in gpu.rates.tensor_fma_per_clock if word != "f16"}
    return {"title": gpu.title, "source": gpu.source, "arch": gpu.arch, "rates": rates, "sheet": {"tflops": words}}


@pytest.mark.parametrize("name", GPUS.names())
def test_what_an_architecture_determines_comes_back_for_every_shipped_gpu(tmp_path, name):
    shipped = GPUS.get(name)
    one = filled(tmp_path, chip_of(name), name="own")
    row = row_of(tmp_path, one)
    assert (row.limits, row.rates) == (shipped.limits, shipped.rates)
    assert (row.vendor, row.matrix_unit, row.generation, row.measured) == (shipped.vendor, shipped.matrix_unit, shipped.generation, shipped.measured)
    for key in (*Limits.model_fields, "f32_fma_per_clock", "shared_bytes_per_clock"):
        assert one.values[key].standing == "determined"
    for word, rate in shipped.rates.tensor_fma_per_clock.items():  # the B300's INT8 rate is no power of two, so that it is its sibling's
        assert one.values[f"tensor_fma_per_clock.{word}"].standing == ("determined" if rate & rate - 1 else "computed")


@pytest.mark.parametrize(("name", "clock"), [("h100", 1830), ("a800", 1410), ("mi300a", 2100), ("rtx4060ti", 2535), ("rtx_pro_6000", None)])
def test_rates_of_words_are_those_of_gpus_of_the_same_arch(tmp_path, name, clock):
    """Of an H100 the clock under matrix work follows, though not that of the H20's cut units; an RTX PRO 6000 has no shipped sibling
    at its rate, so its words are asked for."""
    part = but(chip_of(name), "sheet", "tensor_boost_mhz")
    one = filled(tmp_path, part, name=name)  # which leaves the shipped row itself out
    if clock is None:
        assert set(one.asked) == {f"tflops.{word}" for word in ("bf16", "tf32", "s8", "e4m3", "e5m2")}
        return
    assert row_of(tmp_path, one).rates == GPUS.get(name).rates
    assert one.values["tensor_boost_mhz"].value == clock and one.values["tensor_fma_per_clock.bf16"].standing == "determined"


@pytest.mark.parametrize(("share", "clock"), [(0.9, 1270), (1.1, None), (1.5, None)])
def test_no_clock_under_matrix_work_is_above_the_boost_clock(tmp_path, share, clock):
    """Of an arch whose shipped GPUs have one rate: a figure that asks for more than the boost clock at it is asked about, and gives no clock."""
    one = filled(tmp_path, but(chip_of("a100"), "sheet", "tensor_boost_mhz", rates__f16_tflops=round(312 * share, 1)), name="a100")
    if clock is None:
        assert "tensor_boost_mhz" in one.asked and "tensor_boost_mhz" not in one.values
    else:
        assert one.values["tensor_boost_mhz"].value == clock and not one.asked


def test_a_figure_with_sparsity_is_noticed(tmp_path):
    """At a clock of its own by the clock that it would take, else by rates that nobody else has; and words' figures are left out."""
    at_another_clock = filled(tmp_path, but(chip_of("h100"), "sheet", "tensor_boost_mhz", rates__f16_tflops=1978.8), name="h100")
    assert "tensor_boost_mhz" in at_another_clock.asked
    twice = filled(tmp_path, but(chip_of("mi300a"), rates__f16_tflops=1961.2), name="mi300a")
    assert any("tensor_fma_per_clock.f16 is 2048, and shipped GPUs of gfx942 have 1024" in one for one in twice.notes)
    assert "## To look at again" in twice.files["report.md"] and not filled(tmp_path, chip_of("mi300a"), name="mi300a").notes


@pytest.mark.parametrize("name", OURS)
def test_rows_of_data_sheets_ship_as_they_are_made(tmp_path, name):
    one = fill_in(SHEETS / f"{name}.toml", None, name, tmp_path)
    assert one.files[one.row] == (GPUS.folder / f"{name}.toml").read_text()
    assert row_of(tmp_path, one).model_dump() == GPUS.get(name).model_dump()
    assert all(check.holds for check in one.checks) and any(check.defines is None for check in one.checks)


def test_each_value_tells_its_standing(tmp_path):
    one = filled(tmp_path, MINE)
    told = json.loads(one.files["report.json"])["values"]
    assert {name: told[name]["standing"] for name in ("boost_mhz", "sms", "threads_per_sm", "tensor_boost_mhz", "generation", "measured barrier_cycles")} == {
        "boost_mhz": "given", "sms": "computed", "threads_per_sm": "determined", "tensor_boost_mhz": "prior", "generation": "prior",
        "measured barrier_cycles": "prior",
    }
    assert "assumed as hopper's" in told["measured barrier_cycles"]["how"]
    lines = one.files["report.md"].splitlines()
    assert [f"| {name} | {value.value} | {value.standing} | {value.how} |" for name, value in one.values.items()] == [
        line for line in lines[: lines.index("## Sums")] if line.startswith("| ") and not line.startswith(("| value |", "| --- "))]
    sums = [line for line in lines[lines.index("## Sums"):] if line.startswith("- ")]
    assert len(sums) == len(one.checks) > 5 and "| barrier_cycles | 23 | prior | " in "\n".join(lines[lines.index("## Constants of the model of time"):])
    text = one.files["mine.toml"]
    assert re.search(r"^sms = 16 +# computed: cores = 128 \* sms$", text, re.M) and re.search(r"^tensor_boost_mhz = 1300 +# prior: ", text, re.M)
    assert "threads_per_sm = 1536" in text and "\n[limits]" not in text and re.search(r"^boost_mhz = 1300$", text, re.M)
    row = row_of(tmp_path, one)
    assert set(told) == {"title", "source", "vendor", "arch", "matrix_unit", "generation"} | set(row.limits.model_dump()) | {
        key for key in row.rates.model_dump(exclude_none=True) if key != "tensor_fma_per_clock"} | {
        f"tensor_fma_per_clock.{word}" for word in row.rates.tensor_fma_per_clock} | {f"measured {name}" for name in one.constants}


def test_what_a_row_measured_is_its_own(tmp_path):
    part = but(MINE, measured={"dram_efficiency": {"value": 0.8, "source": "measured: a copy"}})
    (tmp_path / "part.toml").write_text(_toml(but(part, "measured")) + '\n[measured]\ndram_efficiency = { value = 0.8, source = "measured: a copy" }\n'
                                        '[measured.straight]\nstart_cycles = { value = 9, source = "assumed" }\n')
    one = fill_in(tmp_path / "part.toml", None, "mine", tmp_path)
    assert (one.constants["dram_efficiency"].standing, one.constants["mma_efficiency"].standing) == ("given", "prior")
    row = row_of(tmp_path, one)
    assert (row.measured.dram_efficiency.value, row.measured.straight.start_cycles.value) == (0.8, 9)


# ---- Gaps

@pytest.mark.parametrize(("key", "line"), [
    ("boost_mhz", "`Boost Clock`"), ("f16_tflops", "`FP16 Tensor Core`"), ("dram_gb_per_s", "`Memory Bandwidth`"), ("dram_gib", "`Memory Size`"),
    ("l2_mib", "`L2 Cache`"), ("title", "full name"), ("source", "documents"), ("cores", "`CUDA Cores`"),
])
def test_a_gap_is_named_with_the_line_that_has_it(tmp_path, key, line):
    without = but(MINE, key, "f32_tflops") if key in ("boost_mhz", "cores") else but(MINE, key)
    one = filled(tmp_path, without)
    asked = {"cores": "sms"}.get(key, key)
    assert list(one.asked) == [asked] and line in one.asked[asked] and one.row is None
    with pytest.raises(SpecError, match="leaves out what nothing else determines") as refused:
        one.refuse(tmp_path)
    assert refused.value.got == asked and f"{asked}: " in refused.value.needs and "mine.partial.toml" in refused.value.remedy
    assert f"# {asked} =" in one.files["mine.partial.toml"]


def test_what_follows_is_not_asked_for(tmp_path):
    assert filled(tmp_path, but(MINE, "boost_mhz")).values["boost_mhz"].value == 1294  # of 5.3 TFLOPS
    assert row_of(tmp_path, filled(tmp_path, but(MINE, "f32_tflops"))).rates.f32_tflops == 5.325
    assert row_of(tmp_path, filled(tmp_path, but(MINE, "cores", rates__sms=16))).rates.sms == 16
    sparse = but(MINE, "f16_tflops", "tflops", sheet__sparse_tflops={"f16": 85.2, "bf16": 85.2, "tf32": 42.6, "s8": 170})
    assert row_of(tmp_path, filled(tmp_path, sparse)).rates.tensor_fma_per_clock == {"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048}
    memory = but(MINE, "dram_gb_per_s", sheet__memory_bus_bits=256, sheet__memory_gbit_per_pin=6.4)
    assert row_of(tmp_path, filled(tmp_path, memory)).rates.dram_gb_per_s == 204.8
    none = but(MINE, sheet__tflops={"bf16": 42.6, "tf32": 21.3, "s8": 0})
    assert set(row_of(tmp_path, filled(tmp_path, none)).rates.tensor_fma_per_clock) == {"f16", "bf16", "tf32"}


def test_a_clock_that_gives_no_power_of_two_is_asked_for(tmp_path):
    one = filled(tmp_path, but(MINE, rates__f16_tflops=37.3, sheet__tflops={"bf16": 37.3, "tf32": 18.65, "s8": 74.6}), name=ALONE)
    assert set(one.asked) == {"tensor_boost_mhz"} and "gives 896" in one.asked["tensor_boost_mhz"], one.asked
    told = but(MINE, rates__f16_tflops=37.3, rates__tensor_boost_mhz=1138, sheet__tflops={"bf16": 37.3, "tf32": 18.65, "s8": 74.6})
    assert row_of(tmp_path, filled(tmp_path, told)).rates.tensor_fma_per_clock["f16"] == 1024


def test_a_template_filled_in_is_a_row(tmp_path):
    """What the comments ask for, told where they ask."""
    first = filled(tmp_path, {"arch": "sm_87", "rates": {"boost_mhz": 1300}}, name=ALONE)
    assert list(first.asked) == ["title", "source", "sms", "f16_tflops", "tflops.bf16", "tflops.tf32", "tflops.s8", "dram_gb_per_s", "dram_gib", "l2_mib"]
    told = {"title": '"A GPU"', "source": '"a sheet"', "sms": 16, "f16_tflops": 42.6, "tflops.bf16": 42.6, "tflops.tf32": 21.3, "tflops.s8": 85.2,
            "dram_gb_per_s": 204.8, "dram_gib": 64, "l2_mib": 4}
    text = re.sub(r"^# ([\w.]+) = +#.*$", lambda found: f"{found[1]} = {told.pop(found[1])}", first.files[f"{ALONE}.partial.toml"], flags=re.M)
    assert not told
    (tmp_path / "again.toml").write_text(text)
    assert row_of(tmp_path, fill_in(tmp_path / "again.toml", None, ALONE, tmp_path)).rates.sms == 16


# ---- Contradictions

@pytest.mark.parametrize(("wrong", "told", "hint"), [
    ({"rates__boost_mhz": 1500}, "f32_tflops is 5.3, and 2e-6 * sms * boost_mhz * f32_fma_per_clock is 6.144: 13.7 % less", "boost_mhz = 1294"),
    ({"rates__sms": 14}, "cores is 2048, and 128 * sms is 1792: 14.3 % more", "sms = 16"),
    ({"rates__sms": 14}, "f32_tflops is 5.3, and", "sms = 16"),
    ({"sheet__cores": 1792, "rates__sms": 16}, "cores is 1792, and 128 * sms is 2048: 12.5 % less", "cores = 2048"),
    ({"rates__f32_tflops": 10.6}, "f32_tflops is 10.6, and 2e-6 * sms * boost_mhz * f32_fma_per_clock is 5.3248: 99.1 % more", "factor of two"),
    ({"rates__tensor_fma_per_clock": {"f16": 1024}, "rates__f16_tflops": 85.2, "rates__tensor_boost_mhz": 1300}, "f16_tflops is 85.2", "factor of two"),
    ({"sheet__memory_bus_bits": 128, "sheet__memory_gbit_per_pin": 6.4}, "dram_gb_per_s is 204.8, and 0.125 * memory_bus_bits * memory_gbit_per_pin is 102.4",
     "memory_bus_bits = 256"),
    ({"sheet__register_file_kib": 2048}, "register_file_kib is 2048, and 0.003906 * sms * registers_per_sm is 4096: 50 % less", "register_file_kib = 4096"),
    ({"sheet__shared_kib_per_sm": 100}, "shared_kib_per_sm is 100", "shared_kib_per_sm = 164"),
    ({"limits__threads_per_sm": 2048}, "threads_per_sm is 2048, and sm_87 has 1536: 33.3 % more", ""),
    ({"rates__f32_fma_per_clock": 64}, "f32_fma_per_clock is 64, and sm_87 has 128: 50 % less", ""),
    ({"matrix_unit": "hopper"}, "matrix_unit is hopper, and sm_87 has ampere", ""),
    ({"rates__f32_tflops": 2.66}, "f32_tflops is 2.66, and 2e-6 * sms * boost_mhz * f32_fma_per_clock is 5.3248: 50 % less", "factor of two"),
])
def test_numbers_that_contradict_each_other(tmp_path, wrong, told, hint):
    one = filled(tmp_path, but(MINE, **wrong))
    assert any(text.startswith(told) for text in one.contradictions), one.contradictions
    with pytest.raises(SpecError, match="contradict each other") as refused:
        one.refuse(tmp_path)
    assert told in refused.value.got and hint in refused.value.remedy and one.row is None
    assert told in one.files["report.md"] and told in json.loads(one.files["report.json"])["contradictions"][one.contradictions.index(
        next(text for text in one.contradictions if text.startswith(told)))]


def test_a_wrong_clock_is_told_from_a_wrong_number_of_sms(tmp_path):
    """The sum of cores holds in one case, and that of FP32 fails in both."""
    sheet = but(MINE, rates__tensor_fma_per_clock={"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048})
    clock = filled(tmp_path, but(sheet, rates__boost_mhz=1500, rates__sms=16))
    sms = filled(tmp_path, but(sheet, rates__sms=20))
    assert clock.hints == [f"{one}, where that alone is wrong" for one in ("boost_mhz = 1294", "f32_tflops = 6.144")]
    assert sms.hints == ["sms = 16, where that alone is wrong"]
    both = filled(tmp_path, but(sheet, rates__sms=20, rates__boost_mhz=1700))
    assert not both.hints and len(both.contradictions) == 2


def test_numbers_within_two_percent_agree(tmp_path):
    assert row_of(tmp_path, filled(tmp_path, but(MINE, rates__f32_tflops=5.42)))
    assert filled(tmp_path, but(MINE, rates__f32_tflops=5.45)).contradictions


@pytest.mark.parametrize("figure", ["tflops", "sparse_tflops"])
def test_a_word_type_whose_figure_is_0_is_none_of_the_chips(tmp_path, figure):
    """Of the figure with sparsity as of the one without."""
    part = but(MINE, sheet__tflops={"bf16": 42.6, "tf32": 21.3}) if figure != "tflops" else but(MINE, sheet__tflops={"bf16": 42.6, "tf32": 21.3, "s8": 0})
    if figure != "tflops":
        part = but(part, sheet__sparse_tflops={"s8": 0})
    assert row_of(tmp_path, filled(tmp_path, part)).rates.tensor_fma_per_clock.keys() == {"f16", "bf16", "tf32"}


# ---- Targets that nobody knows

NEW = but(MINE, arch="sm_140")


def test_a_new_target_is_told_by_name(tmp_path):
    one = filled(tmp_path, NEW)
    assert {"matrix_unit", "generation", "like"} <= set(one.asked) and not {"threads_per_sm", "tflops.s8"} & set(one.asked)
    assert "none is of sm_140" in one.asked["generation"] and "hopper" in one.asked["generation"] and "cdna3" not in one.asked["generation"]
    named = but(NEW, matrix_unit="blackwell", generation="ampere", like="sm_89", rates__f32_tflops=5.3, sheet__tflops={"bf16": 42.6, "tf32": 21.3, "s8": 85.2, "e4m3": 0, "e5m2": 0})
    made = filled(tmp_path, named)
    row = row_of(tmp_path, made)
    assert row.limits == GPUS.get("l40s").limits and {made.values[key].standing for key in Limits.model_fields} == {"prior"}
    assert "\n[limits]\n" in made.files["mine.toml"] and "# prior: assumed as of sm_89" in made.files["mine.toml"]
    assert row.generation == "generations/mine.toml" and all(one.source.startswith("assumed") for one in (row.measured.barrier_cycles, row.measured.mma_efficiency))
    assert row.unit.name == "mine" and not row.unit.checked() and row.unit.label("f16") == "mine, assumed as blackwell's, not checked on hardware"
    assert not row.unit.checked("e4m3") and row.unit.of("f16").fraction_bits == GPUS.get("b200").unit.of("f16").fraction_bits


def test_names_that_are_none_are_refused(tmp_path):
    for more, kind, told in (
        ({"matrix_unit": "hoper"}, UnknownName, "matrix_unit"), ({"generation": "hoper", "matrix_unit": "ampere"}, UnknownName, "generation"),
        ({"like": "sm_99"}, SpecError, "like"), ({"like": "gfx942"}, SpecError, "like"), ({"vendor": "amd"}, SpecError, "vendor"),
        ({"arch": "sm_9"}, SpecError, "arch"), ({"name": "Mine"}, SpecError, "name"), ({"limits": {"wrap_size": 32}}, UnknownName, "wrap_size"),
    ):
        with pytest.raises(kind, match=told) as refused:
            filled(tmp_path, but(NEW, **more))
        assert "part.toml" in refused.value.where


def test_the_arch_is_told_once(tmp_path):
    assert filled(tmp_path, but(MINE, "arch"), "sm_87").arch == filled(tmp_path, MINE, "sm_87").arch == "sm_87"
    with pytest.raises(SpecError, match="another than the row's"):
        filled(tmp_path, MINE, "sm_86")
    with pytest.raises(SpecError, match="arch: is missing"):
        filled(tmp_path, but(MINE, "arch"))
    with pytest.raises(SpecError, match="--arch"):
        filled(tmp_path, but(MINE, "arch"), "sm87")


def test_a_unit_of_ones_own_is_found_from_the_new_row(tmp_path):
    (tmp_path / "units").mkdir()
    (tmp_path / "units" / "own.toml").write_text((GPUS.folder.parent / "units" / "ampere.toml").read_text().replace('"ampere"', '"own"'))
    (tmp_path / "part.toml").write_text(_toml(but(MINE, matrix_unit="units/own.toml")))
    one = fill_in(tmp_path / "part.toml", None, "mine", tmp_path / "out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / one.row).write_text(one.files[one.row])
    row = GPUS.get(str(tmp_path / "out" / one.row))
    assert (row.matrix_unit, row.unit.name) == ("../units/own.toml", "own")


# ---- The table

def test_targets_are_their_vendors():
    for name, row in ARCHITECTURES.items():
        maker = vendor_of(name)
        assert re.fullmatch(maker.arch_pattern, name) and row.limits["warp_size"] == maker.warp_size(arch_number(name))
        assert Limits(**row.limits) and set(row.limits) == set(Limits.model_fields) and row.source
    assert architecture("sm_90a") is ARCHITECTURES["sm_90"] and architecture("gfx90a") is ARCHITECTURES["gfx90a"]
    assert architecture("gfx90f") is None and architecture("sm_61") is None
    assert set(LINES) >= {"sms", "boost_mhz", "f16_tflops", "dram_gb_per_s", "dram_gib", "l2_mib"}


def test_a_row_tells_limits_only_where_it_knows_better(tmp_path):
    text = (GPUS.folder / "a100.toml").read_text().replace('name = "a100"', 'name = "own"')
    (tmp_path / "own.toml").write_text(text.replace("[rates]", "[limits]\nblocks_per_sm = 20\n\n[rates]\nshared_bytes_per_clock = 64"))
    own, shipped = GPUS.get(str(tmp_path / "own.toml")), GPUS.get("a100")
    assert own.limits == shipped.limits.model_copy(update={"blocks_per_sm": 20})
    assert own.rates == shipped.rates.model_copy(update={"shared_bytes_per_clock": 64})


# ---- The command

def test_the_command_writes_a_row_and_says_what_changed(gemmgen, tmp_path):
    part, out = tmp_path / "part.toml", tmp_path / "out"
    part.write_text(_toml(but(MINE, "l2_mib")))
    refused = gemmgen("gpu", "from-row", part, "-o", out)
    assert refused.code == 2 and "l2_mib: `L2 Cache`" in refused.err and "out.partial.toml" in refused.err
    assert sorted(path.name for path in out.iterdir()) == ["out.partial.toml", "report.json", "report.md"]
    part.write_text(_toml(MINE))
    done = gemmgen("gpu", "from-row", part, "--arch", "sm_87", "-o", out, "--json")
    told = json.loads(done.out)
    assert done.code == 0 and (told["kind"], told["row"], told["missing"]) == ("data sheet", "out.toml", {})
    assert "l2_mib: new, 4.0" in told["changed"] and "measured barrier_cycles: new, 23" in told["changed"]
    assert gemmgen("list", "gpus", out / "out.toml").code == 0
    again = gemmgen("gpu", "from-row", part, "-o", out).out
    assert "changed   nothing" in again and again.startswith("verdict   COMPLETE: out.toml describes out (sm_87)") and len(again.splitlines()) <= 12
    assert "Nothing." in (out / "report.md").read_text() and f"wrote {out / 'report.md'}, the whole report" in again


SHEET = (Path(__file__).parents[1] / "data" / "sheets" / "rtx4060ti.toml").read_text()


@pytest.mark.parametrize(("figure", "told"), [
    (44.1, ""), (88.2, "twice what such cards have (rtx4090): a figure with sparsity, or with FP16 sums? Dense with FP32 sums it should be 44.1"),
    (176.4, "four times what such cards have (rtx4090): a figure with sparsity and FP16 sums? Dense with FP32 sums it should be 44.1"), (130.0, ""),
])
def test_a_rate_that_is_a_known_multiple_is_named_with_what_it_should_be(gemmgen, tmp_path, figure, told):
    """Cards of the same line count, GeForce here: an L40S of the same arch has twice their rate."""
    part = tmp_path / "part.toml"
    part.write_text(SHEET.replace("tensor_fma_per_clock = { f16 = 256 }", f"f16_tflops = {figure}"))
    ran = gemmgen("gpu", "from-row", part, "-o", tmp_path / "mine")
    said = ran.out + ran.err
    assert (f"f16_tflops is {figure:g}, {told}" in said) if told else "such cards" not in said
    assert ran.code == (0 if figure in (44.1, 88.2) else 2)


def test_figures_with_sparsity_are_named_for_every_word(gemmgen, tmp_path):
    part = tmp_path / "part.toml"
    part.write_text('''title = "NVIDIA H100 PCIe"
source = "a test"
arch = "sm_90"
[rates]
sms = 114
boost_mhz = 1755
f16_tflops = 1513
dram_gb_per_s = 2000
dram_gib = 80
l2_mib = 50
[sheet]
tflops = { s8 = 3026, e4m3 = 1513 }
''')
    said = gemmgen("gpu", "from-row", part, "-o", tmp_path / "pcie").err
    assert "f16_tflops is 1513, twice" in said and "should be 756.5; " in said
    assert "tflops.s8 is 3026, twice what such cards have (h100): a figure with sparsity? Dense it should be 1513" in said and "tflops.e4m3 is" not in said


@pytest.mark.parametrize(("options", "told"), [
    (["probe"], "--device"), (["probe", "--device", "cuda", "--arch", "sm_87"], "--arch"), (["from-row", "part.toml", "--gpu", "a100"], "--gpu"),
    (["from-row"], "FILE"), (["from-row", "nowhere.toml"], "nowhere.toml: cannot be read"),
])
def test_options_of_the_other_verb(gemmgen, tmp_path, monkeypatch, options, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "part.toml").write_text(_toml(MINE))
    refused = gemmgen("gpu", *options, "-o", "out")
    assert refused.code == 2 and told in refused.err and not (tmp_path / "out").exists()


def test_a_folder_of_a_device_is_left_alone(gemmgen, tmp_path):
    (tmp_path / "part.toml").write_text(_toml(MINE))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text('{"kind": "cuda", "values": {}}')
    refused = gemmgen("gpu", "from-row", tmp_path / "part.toml", "-o", tmp_path / "out")
    assert refused.code == 2 and "the other kind of bring-up" in refused.err and len(list((tmp_path / "out").iterdir())) == 1
