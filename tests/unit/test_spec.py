"""The declared spec: what it accepts, what stays open, and its published schema."""

from __future__ import annotations

import itertools
import json
import tomllib
from pathlib import Path

import pytest
from ways import SPLITTING, can_multiply, covering

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import InfeasibleSpec, SpecError, UnknownName
from gemmgen.paths import SPECS
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.spec import Spec, json_schema, load, loads

MINIMAL = {"split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}}


def test_the_published_schema_is_in_step(update_golden, gemmgen):
    """`gemmgen list schema > specs/spec.schema.json`, or pytest --update-golden, brings it into step."""
    printed = gemmgen("list", "schema").out
    assert json.loads(printed) == json_schema()
    path = SPECS / "spec.schema.json"
    if update_golden:
        path.write_text(printed)
    assert path.read_text() == printed


def test_the_schema_knows_every_key_and_says_what_it_means():
    schema = json_schema()
    for section, field in Spec.model_fields.items():
        reference = schema["properties"][section]
        name = reference.get("$ref", reference.get("allOf", [{}])[0].get("$ref", "")).rpartition("/")[2]
        for key, described in field.annotation.model_fields.items():
            assert schema["$defs"][name]["properties"][key]["description"] == described.description


@pytest.mark.parametrize(("scheme", "gpu"), covering(itertools.product(SPLITTING, GPUS.names())))
def test_scheme_and_gpu_are_all_a_spec_needs(scheme, gpu):
    target, word = GPUS.get(gpu), SCHEMES.get(scheme).word
    loaded = loads({"split": {"scheme": scheme}, "target": {"gpu": gpu}}, "here")
    policy = "fma" if word == "f32" else target.portable_policy
    if not can_multiply(gpu, scheme):
        refusals = (
            f"{gpu} has no matrix instruction|no {policy} fragment of {word}|{gpu} has no {policy} instruction of its own for {word}"
            "|have no words of several types|there are no kernels for the residues"
        )
        with pytest.raises(InfeasibleSpec, match=refusals):
            solve(loaded)
        return
    plan = solve(loaded)
    source = render(plan)
    alone = {"tcgen05": f"{target.arch}a", "wgmma": "sm_90a"}  # what one target alone has
    assert source.arch == alone.get(plan.fragment.policy, target.arch)
    assert 'extern "C" __' in source.text and source.name in source.text


def test_auto_everywhere_is_the_same_as_nothing():
    auto = loads({
        "split": {"scheme": "ootomo", "where": "auto", "promote": "auto"}, "fragment": {"shape": "auto"},
        "tile": {"block": "auto", "warp": "auto", "group": "auto"},
        "pipeline": {"stages": "auto", "fragment_buffers": "auto"}, "target": {"gpu": "a100"},
    })
    assert auto.spec == loads(MINIMAL).spec
    assert solve(auto) == solve(loads(MINIMAL))


def test_what_is_decided_can_be_declared():
    """Writing a plan's decisions into its spec changes nothing."""
    plan = solve(loads(MINIMAL))
    declared = loads({
        "split": {"scheme": "ootomo", "promote": plan.promote}, "fragment": {"shape": plan.fragment.shape_name},
        "tile": {"block": list(plan.block), "warp": list(plan.warp), "group": plan.group},
        "pipeline": {"stages": plan.stages, "fragment_buffers": plan.fragment_buffers}, "target": {"gpu": "a100"},
    })
    assert solve(declared) == plan


@pytest.mark.parametrize("path", sorted((SPECS / "kernels").glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_specs_survive_a_round_trip(path):
    spec = load(path).spec
    again = loads(spec.model_dump(mode="json"))
    assert again.spec == spec
    assert set(tomllib.loads(path.read_text())) <= set(Spec.model_fields)


@pytest.mark.parametrize(("section", "key", "value"), [
    ("pipeline", "stages", True), ("pipeline", "stages", 3.0), ("pipeline", "stages", "3"), ("pipeline", "stages", None),
    ("tile", "cluster", 2.0), ("tile", "cluster", True), ("pipeline", "consumers", "both"),
    ("tile", "block", [128, 128]), ("tile", "block", [128, 128, 32, 1]), ("tile", "block", "128x128x32"),
    ("tile", "block", [128.0, 128, 32]), ("problem", "m", -1), ("problem", "m", 2**31), ("problem", "layout", "nx"),
    ("problem", "kind", "conv"), ("split", "special", "slow"), ("build", "allow_spills", "yes"),
])
def test_nothing_is_coerced_or_guessed(section, key, value):
    with pytest.raises(SpecError) as caught:
        loads({**MINIMAL, section: {**MINIMAL.get(section, {}), key: value}}, "here")
    assert caught.value.where.startswith(f"here: [{section}] {key}")
    assert caught.value.needs


def test_an_unknown_key_lists_the_known_ones():
    with pytest.raises(UnknownName) as caught:
        loads({**MINIMAL, "pipeline": {"stage": 3}})
    assert caught.value.needs == "one of: consumers, design, fragment_buffers, fragment_caching, loads, rows, stages"
    assert caught.value.remedy == "did you mean 'stages'?"


def test_messages_name_the_file_as_the_user_did(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.toml").write_text("[split]\npromote = -1\n")
    with pytest.raises(SpecError) as caught:
        load("x.toml")
    assert str(caught.value).startswith("x.toml: [split] promote: is not acceptable")


@pytest.mark.parametrize(("section", "told"), [
    ({"solve": {"model": "egemm", "minimize": "seconds"}}, "an objective of your own or model"),
    ({"solve": {"model": "egemm", "maximize": "intensity"}}, "an objective of your own or model"),
    ({"solve": {"maximize": "intensity", "minimize": "seconds"}}, "maximize or minimize, not both"),
    ({"solve": {"legemm": {"threads": 128}}}, "[solve.legemm] beside model = 'time'"),
    ({"solve": {"model": "legemm", "egemm": {"warps": 4}}}, "[solve.egemm] beside model = 'legemm'"),
    ({"accuracy": {"relative_frobenius": 1.0}}, "less than 1"), ({"accuracy": {"relative_frobenius": 0.0}}, "greater than 0"),
    ({"accuracy": {"scaled": 1e-6, "as": "fp32"}}, "one of relative_frobenius, scaled and as, not scaled and as"),
    ({"problem": {"matrices": 2**31}}, "2147483647"), ({"batch": {"threshold": -1}}, "greater than or equal to 0"),
])
def test_what_contradicts_itself_or_lies_beyond_is_refused(section, told):
    with pytest.raises(SpecError) as caught:
        loads(section)
    assert told in str(caught.value)


def test_the_ends_of_what_may_be_said_are_accepted():
    loads({"problem": {"matrices": 0, "m": 0, "n": 2**31 - 1}, "solve": {"model": "legemm", "legemm": {"threads": 1024}}, "batch": {"threshold": 0}})


@pytest.mark.parametrize(("section", "name", "least", "most"), [
    ("tile", "block", 1, 4096), ("tile", "warp", 1, 4096), ("tile", "group", 1, 64), ("tile", "split_k", 1, 64), ("pipeline", "stages", 1, 64),
    ("split", "promote", 0, 2**20)])
def test_a_number_has_its_least_and_its_most(section, name, least, most):
    def given(value):
        return {section: {name: [least, least, value] if name in ("block", "warp") else value}, "target": {"gpu": "a100"}}

    rule = json_schema()["$defs"][section.capitalize()]["properties"][name]["anyOf"][0]
    assert [rule.get("items", rule).get(key) for key in ("minimum", "maximum")] == [least, most]
    loads(given(least)), loads(given(most))
    for value, told in ((least - 1, f"greater than or equal to {least}"), (most + 1, f"less than or equal to {most}")):
        with pytest.raises(SpecError) as refusal:
            loads(given(value))
        assert told in str(refusal.value)


def test_a_gpu_file_is_sought_from_the_current_folder_and_a_link_keeps_its_name(tmp_path, monkeypatch):
    """A row's name is that of the file as it is called, not of what a link leads to."""
    (tmp_path / "spec.toml").write_text("")
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "other.toml").write_text("")
    (tmp_path / "rows" / "mine.toml").symlink_to("other.toml")
    monkeypatch.chdir(tmp_path)
    assert load("spec.toml", gpu="rows/mine.toml").spec.target.gpu == str(tmp_path / "rows" / "mine.toml")
    assert load("spec.toml", gpu="a100").spec.target.gpu == "a100"
