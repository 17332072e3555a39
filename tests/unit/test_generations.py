"""What a generation's row tells, what it takes over from another, and what a GPU's row says instead."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from gemmgen.catalog.generation import GENERATION_TABLE, Batches, Constant, Measured, Residues, Sgemm, Straight, Tcgen05, Wgmma, Within
from gemmgen.catalog.gpu import GENERATIONS, GPUS, nearest_generation
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.catalog.vendor import VENDORS
from gemmgen.designs.specialised import equations as specialised
from gemmgen.designs.tensor_memory import equations as tensor_memory
from gemmgen.errors import SpecError, UnknownName
from gemmgen.model import time
from gemmgen.solve import explain, solve
from gemmgen.spec import load, loads

DOCS = Path(__file__).resolve().parents[2] / "docs"
WGMMA = {"fragment": {"policy": "wgmma"}, "split": {"scheme": "ootomo"}}


def written(folder: Path, gpu: str, *more: str, generation: str = "", like: str = "hopper") -> str:
    """A copy of a GPU's row with lines at its end; beside it a generation's row `mine`, where one is asked for."""
    folder.mkdir(exist_ok=True)
    text = (GPUS.folder / f"{gpu}.toml").read_text().replace(f'name = "{gpu}"', 'name = "own"')
    if generation:
        text = text.replace("\n[rates]", '\ngeneration = "mine.toml"\n\n[rates]', 1)
        (folder / "mine.toml").write_text(
            f'name = "mine"\ntitle = "Mine"\nsource = "a test"\nvendor = "nvidia"\n{f"like = {chr(34)}{like}{chr(34)}" if like else ""}\n{generation}\n'
        )
    path = folder / "own.toml"
    path.write_text("\n".join([text, *more, ""]))
    return str(path)


def constants(measured) -> dict[str, Constant]:
    """All of a section and of its own sections, by dotted name."""
    found = {}
    for name in type(measured).model_fields:
        value = getattr(measured, name)
        if isinstance(value, Constant):
            found[name] = value
        elif value is not None:
            found |= {f"{name}.{inner}": one for inner, one in constants(value).items()}
    return found


@pytest.mark.parametrize("name", GPUS.names())
def test_a_gpu_has_its_generations_constants(name):
    gpu = GPUS.get(name)
    assert gpu.generation == gpu.matrix_unit
    assert gpu.measured == GENERATION_TABLE.get(gpu.generation).measured


def test_generations_are_those_of_the_archs():
    assert {name for name, _ in GENERATIONS if name} == set(GENERATION_TABLE.names())
    nvidia, amd = VENDORS["nvidia"], VENDORS["amd"]
    assert [nearest_generation(nvidia, number) for number in (60, 75, 86, 89, 99, 103, 999)] == [
        "volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_rtx"]
    assert [nearest_generation(amd, number) for number in (0x900, 0x909, 0x942, 0x1151, 0x1201, 0x1260)] == [
        "cdna1", "cdna1", "cdna3", "rdna3", "rdna4", "rdna4"]


def test_only_what_was_timed_is_called_so():
    """Hopper's alone was; what others take over is assumed, and says whose it is."""
    timed = constants(GENERATION_TABLE.get("hopper").measured)
    assert {name for name, one in timed.items() if one.assumed} == {"wgmma.efficiency"}
    for name in GENERATION_TABLE.names():
        row = GENERATION_TABLE.get(name)
        if name != "hopper":
            assert row.like == "hopper" and all(one.assumed for one in constants(row.measured).values()), name
    assert GENERATION_TABLE.get("ada").measured.fetch_share.source == "assumed as hopper's, fitted to kernels timed on an H100 at 700 W"


def test_a_row_says_only_what_differs():
    told = tomllib.loads((GENERATION_TABLE.folder / "turing.toml").read_text())["measured"]
    assert set(told) == {"mma_efficiency", "clock_efficiency", "fma_efficiency"}
    turing, hopper = (constants(GENERATION_TABLE.get(name).measured) for name in ("turing", "hopper"))
    assert {name for name in hopper if turing[name].value != hopper[name].value} == set(told)
    assumed = {name for name, one in hopper.items() if one.assumed}
    assert assumed and all(turing[name].source == hopper[name].source for name in assumed)  # once, whoever takes it over


def test_a_gpus_row_overrides_its_generation(tmp_path):
    own = GPUS.get(written(tmp_path, "a100", "[measured]", 'fetch_share = { value = 0.5, source = "measured here" }'))
    assert own.measured.fetch_share == Constant(value=0.5, source="measured here")
    assert own.measured.fill_share == GPUS.get("a100").measured.fill_share


def test_one_constant_of_a_section_is_overridden(tmp_path):
    own = GPUS.get(written(tmp_path, "h100", "[measured.wgmma]", 'turn_cycles = { value = 7, source = "measured here" }'))
    assert own.measured.wgmma.turn_cycles.value == 7
    assert own.measured.wgmma.split_a_cycles == GPUS.get("h100").measured.wgmma.split_a_cycles


def test_a_generation_of_ones_own_is_sought_beside_the_gpus_row(tmp_path, monkeypatch):
    path = written(tmp_path / "tables", "a100", generation='[measured]\nmma_efficiency = { value = 0.5, source = "measured on three" }')
    monkeypatch.chdir(tmp_path)
    own = GPUS.get(path)
    assert own.generation == "mine.toml" and own.measured.mma_efficiency.value == 0.5
    assert own.measured.memory_cycles.source.startswith("assumed as hopper's")


@pytest.mark.parametrize(("policy", "name", "section", "module", "of"), [
    ("mma", "a100", "measured", time, time.CONSTANT_OF), ("wgmma", "h100", "measured.wgmma", specialised, specialised.CONSTANT_OF),
    ("tcgen05", "b200", "measured.tcgen05", tensor_memory, tensor_memory.CONSTANT_OF),
])
def test_the_model_reads_every_constant_from_the_row(tmp_path, policy, name, section, module, of):
    """Each symbol is the row's value and nothing else: all are changed, and all follow."""
    values = {constant: round(0.011 + 0.01 * at, 3) for at, constant in enumerate(sorted(set(of.values())))}
    for constant in values:
        if constant in ("memory_cycles", "l2_bytes_per_clock"):  # of at least 1
            values[constant] += 1
        if constant.endswith("_seconds"):
            values[constant] /= 1e3
    lines = [f'{constant} = {{ value = {value}, source = "assumed, for a test" }}' for constant, value in values.items()]
    gpu = GPUS.get(written(tmp_path, name, f"[{section}]", *lines))
    plan = solve(loads({"split": {"scheme": "ootomo"}, "fragment": {"policy": policy}, "target": {"gpu": name}}))
    known = plan.design.constants(plan.layout, SCHEMES.get("ootomo"), plan.fragment, gpu, plan.hints)
    assert {symbol: known[symbol] for symbol in of} == {symbol: values[constant] for symbol, constant in of.items()}


@pytest.mark.parametrize(("word", "constant"), [("f16", "clock_efficiency"), ("f16", "dram_efficiency"), ("f32", "fma_efficiency")])
def test_rates_follow_the_row(tmp_path, word, constant):
    own = GPUS.get(written(tmp_path, "a100", "[measured]", f'{constant} = {{ value = 0.25, source = "measured here" }}'))
    before, after = (time.rate_numbers(gpu, word) for gpu in (GPUS.get("a100"), own))
    [changed] = {name for name in after if after[name] != before[name]}
    share = getattr(GPUS.get("a100").measured, constant).value
    assert changed == {"clock_efficiency": "clock_hz", "dram_efficiency": "dram_rate", "fma_efficiency": "mma_efficiency"}[constant]
    assert after[changed] / before[changed] == pytest.approx(0.25 / share)


@pytest.mark.parametrize(("gpu", "section", "constant"), [("h100", "wgmma", "sustained_f16_tflops"), ("b200", "tcgen05", "sustained_share")])
def test_sustained_rates_follow_the_row(tmp_path, gpu, section, constant):
    plan = solve(loads({"split": {"scheme": "ootomo"}, "fragment": {"policy": section}, "target": {"gpu": gpu}}))
    own = GPUS.get(written(tmp_path, gpu, f"[measured.{section}]", f'{constant} = {{ value = 0.35, source = "measured here" }}'))
    before, after = (plan.design.constants(plan.layout, plan.scheme, plan.fragment, one, plan.hints) for one in (plan.gpu, own))
    assert after["unit_rate"] / before["unit_rate"] == pytest.approx(0.35 / getattr(getattr(plan.gpu.measured, section), constant).value)


def test_explain_tells_whether_rates_were_measured(tmp_path):
    from gemmgen.cli.explain import text

    spec = tmp_path / "spec.toml"
    spec.write_text('[split]\nscheme = "ootomo"\n[target]\ngpu = "tables/own.toml"\n[tile]\nblock = [64, 64, 32]\nwarp = [32, 32, 32]\n')
    written(tmp_path / "tables", "a100")
    assert "sm_80: assumed, not measured" in text(explain(load(spec)))
    written(tmp_path / "again", "a100", "[measured]", 'mma_efficiency = { value = 0.9, source = "fitted to two kernels" }')
    spec.write_text(spec.read_text().replace("tables", "again"))
    assert "fitted to two kernels" in text(explain(load(spec)))


def test_a_design_without_constants_is_told(tmp_path):
    """A B200 whose generation is like Hopper's has none for tcgen05."""
    path = written(tmp_path, "b200", generation="[measured]")
    (tmp_path / "spec.toml").write_text('[split]\nscheme = "ootomo"\n[fragment]\npolicy = "tcgen05"\n[target]\ngpu = "own.toml"\n')
    assert GPUS.get(path).measured.tcgen05 is None
    with pytest.raises(SpecError, match="has no constants for tcgen05") as refused:
        solve(load(tmp_path / "spec.toml"))
    assert "[measured.tcgen05]" in refused.value.needs


# ---- rows that are none

FINE = 'fetch_share = { value = 0.1, source = "measured" }'


def test_a_constant_may_lie_at_its_bounds():
    within = Within(0.01, 1)
    for value in (0.01, 1, 0.5):
        assert within(Constant(value=value, source="measured")).value == value
    for value in (0.00999, 1.0001):
        with pytest.raises(ValueError, match="a value from 0.01 to 1"):
            within(Constant(value=value, source="measured"))


@pytest.mark.parametrize(("lines", "told"), [
    ("fetch_share = 0.1", r"\[measured\] fetch_share"),
    ("fetch_share = { value = 0.1 }", "source"),
    ('fetch_share = { value = 0.1, source = "trust me" }', "measured, fitted, set by hand, assumed"),
    ('fetch_share = { value = -0.1, source = "measured" }', "a value from 0 to 10"),
    ('fetch_share = { value = inf, source = "measured" }', "fetch_share"),
    ('fetch_share = { value = true, source = "measured" }', "fetch_share"),
    ('mma_efficiency = { value = 1.5, source = "measured" }', "a value from 0.01 to 1"),
    ('launch_seconds = { value = 2.7, source = "measured" }', "a value from 0 to 0.001"),
    ('fetch_shares = { value = 0.1, source = "measured" }', "unknown key"),
    ("wgmma = 3", "wgmma"),
    ("tcgen05 = { efficiency = 1 }", "tcgen05"),
])
@pytest.mark.parametrize("where", ["gpu", "generation"])
def test_bad_constants_are_refused(tmp_path, where, lines, told):
    section = f"[measured]\n{lines}"
    path = written(tmp_path, "h100", section) if where == "gpu" else written(tmp_path, "h100", generation=section)
    with pytest.raises(SpecError, match=told) as refused:
        GPUS.get(path)
    assert refused.value.where.split(":")[0].endswith("own.toml" if where == "gpu" else "mine.toml")


@pytest.mark.parametrize(("line", "told"), [
    ('generation = "hoper"', "hoper"), ('generation = ""', "generation"), ("generation = 9", "generation"), ('generation = "nowhere.toml"', "nowhere.toml"),
    ('generation = "cdna3"', "a generation of nvidia's"), ("measured = 3", "measured"),
])
def test_a_generation_that_is_none_is_refused(tmp_path, line, told):
    path = Path(written(tmp_path, "h100"))
    path.write_text(path.read_text().replace("\n[rates]", f"\n{line}\n\n[rates]", 1))
    with pytest.raises(SpecError, match=told):
        GPUS.get(str(path))


@pytest.mark.parametrize(("like", "error"), [("mine.toml", "is a file"), ("hoper", "hoper")])
def test_a_generation_is_like_a_shipped_one(tmp_path, like, error):
    with pytest.raises(SpecError, match=error) as refused:
        GPUS.get(written(tmp_path, "h100", generation="[measured]", like=like))
    assert "mine.toml: like" in refused.value.where
    with pytest.raises(SpecError, match=error) as refused:
        GPUS.get(written(tmp_path / "registers", "h100", generation=f'[registers]\nlike = "{like}"\nsource = "mine"'))
    assert "mine.toml: [registers] like" in refused.value.where


def test_a_generation_like_none_tells_all(tmp_path):
    with pytest.raises(SpecError, match="is missing"):
        GPUS.get(written(tmp_path, "h100", generation=f"[measured]\n{FINE}", like=""))
    shipped = (GENERATION_TABLE.folder / "hopper.toml").read_text()
    own = GPUS.get(written(tmp_path / "whole", "h100", generation=shipped[shipped.index("[measured]"):], like=""))
    assert own.measured == GPUS.get("h100").measured


def test_registers_that_a_generation_tells_hold_for_all_its_targets(tmp_path):
    """What another row fitted to single targets goes with its own offset alone."""
    ampere = GENERATION_TABLE.get("ampere").registers
    told = GPUS.get(written(tmp_path / "told", "rtx3090", generation='[registers]\nsource = "mine"\noffset = [1.0, 2.0, 3.0, 4.0, 5.0]', like="ampere")).registers
    left = GPUS.get(written(tmp_path / "left", "rtx3090", generation='[registers]\nsource = "mine"\nsqueeze = [1.0, 2.0, 3.0, 4.0, 5.0]', like="ampere")).registers
    assert (told.offset, told.since, told.slopes) == ((1, 2, 3, 4, 5), {}, ampere.slopes)
    assert left.offset == ampere.since["sm_86"] and left.squeeze == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(("gpu", "offset"), [("a100", 0), ("rtx3090", 1), ("jetson_agx_orin", 2), ("rtx4090", 2)])
def test_offsets_are_those_of_the_newest_target_that_a_gpu_has_reached(tmp_path, gpu, offset):
    """Of targets between two the older one's; of all before the first the generation's own."""
    generation = '[registers]\nlike = "hopper"\nsource = "mine"\noffset = [0, 0, 0, 0, 0]\n[registers.since]\nsm_86 = [1, 1, 1, 1, 1]\nsm_87 = [2, 2, 2, 2, 2]'
    assert GPUS.get(written(tmp_path, gpu, generation=generation, like="ampere")).registers.offset == (offset,) * 5


def test_an_unknown_generation_lists_those_that_ship(tmp_path):
    path = Path(written(tmp_path, "h100"))
    path.write_text(path.read_text().replace("\n[rates]", '\ngeneration = "kepler"\n\n[rates]'))
    with pytest.raises(UnknownName) as refused:
        GPUS.get(str(path))
    assert refused.value.where.endswith("own.toml: generation") and "hopper" in refused.value.needs


# ---- told and fitted

def test_the_command_tells_constants_with_their_sources(gemmgen):
    told = gemmgen("list", "gpus", "h100").out
    assert "fetch_share                0.048 (fitted to kernels timed on an H100 at 700 W)" in told and "sustained_f16_tflops" in told
    assert "tcgen05" not in told and "wgmma" not in gemmgen("list", "gpus", "mi300x").out


def test_the_catalogues_page_names_every_constant():
    page = (DOCS / "catalog.md").read_text()
    for model in (Measured, Wgmma, Tcgen05, Straight, Residues, Batches, Sgemm):
        assert all(f"`{name}`" in page for name in model.model_fields)
