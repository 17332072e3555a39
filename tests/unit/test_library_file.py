"""LIB.toml: what is accepted, what is refused and how, and what it refers to."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gemmgen.catalog.element import C64, C128, F32
from gemmgen.catalog.scheme import SCHEMES
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.library.file import BATCHES, PACKED_ROWS, SIZES, json_schema, library_from, load_library
from gemmgen.paths import SPECS

GOOD = {"name": "lab", "gpus": ["a100"], "use": [{"scheme": "ootomo"}]}
TABLE = {
    "gemmgen_dispatch": 1, "title": "one", "kernels": {"k1": {
        "name": "x", "identity": "x", "gpu": "a100", "layout": "nn", "spec": {"split": {"scheme": "ootomo"}, "target": {"gpu": "a100"}},
        "estimate": {"tile": [64, 64], "slices": 1, "sms": 108, "launch": 1e-6, "wave": 0.0, "step": 1e-9, "operand": 0.0, "output": 0.0},
    }}, "parts": [{"gpu": "a100", "layout": "nn", "rules": [{"at_most": {}, "kernel": "k1"}]}],
}


def test_shipped_libraries_load():
    for path in sorted((SPECS / "libraries").glob("*.toml")):
        loaded = load_library(path)
        assert loaded.name == path.stem
        assert loaded.place == f"specs/libraries/{path.name}"
        for _, spec, _ in loaded.specs if loaded.file.shim else ():
            assert SCHEMES.get(spec.spec.split.scheme).precision.spans_fp32, "unmodified programs bring any of FP32's magnitudes"


def test_the_schema_is_the_models(request):
    path = SPECS / "library.schema.json"
    if request.config.getoption("--update-golden"):
        path.write_text(json.dumps(json_schema(), indent=2) + "\n")
    assert json.loads(path.read_text()) == json_schema(), "gemmgen list schema --library > specs/library.schema.json"


def test_what_is_left_out_is_the_usual():
    loaded = library_from(GOOD)
    file = loaded.file
    assert (file.layouts, file.kernels_at_most, file.packed, file.fallback, file.shim) == (COMPLEX_LAYOUTS, 24, False, True, ())
    assert loaded.layouts == ("nn", "nt", "tn", "tt") == loaded.layouts_of(F32), "real matrices are not conjugated"
    assert loaded.sizes == tuple((*size, 1) for size in SIZES)
    assert loaded.kinds == ("gemm",)
    packed = library_from({**GOOD, "packed": True})
    assert {(rows, 4096, 4096, 1) for rows in PACKED_ROWS} <= set(packed.sizes)
    assert len(set(packed.sizes)) == len(packed.sizes)
    batched = library_from({**GOOD, "batched": True})
    assert set(BATCHES) <= set(batched.sizes) and batched.kinds == ("gemm", "strided")
    shim = library_from({**GOOD, "shim": ["torch"]})
    assert shim.batched and shim.sizes == batched.sizes and not library_from({**GOOD, "shim": ["torch"], "batched": False}).batched
    assert {(1024, 128, 1024, 128), (1024, 1024, 128, 128), (128, 1024, 1024, 128)} <= set(BATCHES), "attention's"
    assert library_from({**GOOD, "sizes": [[8, 8, 8], [8, 8, 8, 2], [8, 8, 8]]}).sizes == ((8, 8, 8, 1), (8, 8, 8, 2))


def test_the_type_of_elements_is_that_of_the_scheme_unless_it_is_said():
    def of(*uses, **more):
        return library_from({**GOOD, **more, "use": list(uses)})

    both = of({"scheme": "scaled", "type": "c64"}, {"split": {"scheme": "residues14"}, "type": "c128"}, {"scheme": "scaled"}, {"scheme": "residues14"})
    assert [one.name for one in both.elements] == ["f32", "f64", "c64", "c128"] and both.layouts == COMPLEX_LAYOUTS
    assert [spec.spec.problem.type for _, spec, _ in both.specs] == ["c64", "c128", "f32", "f64"]
    assert of({"accuracy": {"as": "fp32"}, "type": "c64"}).elements == (C64,) and of({"accuracy": {"as": "fp64"}, "type": "c128"}).elements == (C128,)
    few = of({"scheme": "scaled", "type": "c64"}, {"scheme": "scaled"}, layouts=["nn", "cn"])
    assert few.layouts_of(F32) == ("nn",) and few.layouts_of(C64) == few.layouts == ("nn", "cn")
    with pytest.raises(SpecError, match="conjugated matrices alone") as refused:
        of({"scheme": "scaled"}, layouts=["cn"])
    assert refused.value.got == "cn" and of({"scheme": "scaled"}, layouts=eval(refused.value.remedy.removeprefix("layouts = "))).layouts == ("nn",)
    with pytest.raises(SpecError, match="type"):
        of({"spec": "scaled_a100", "type": "c64"})


def test_files_are_sought_beside_the_librarys(tmp_path, monkeypatch):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "own.toml").write_text('[split]\nscheme = "half"\n[target]\ngpu = "h100"\n')
    (tmp_path / "table.json").write_text(json.dumps(TABLE))
    (tmp_path / "lib.toml").write_text(
        'name = "lab"\ngpus = ["a100", "h100"]\n[[use]]\nspec = "specs/own.toml"\ngpus = ["h100"]\n[[use]]\ntable = "table.json"\n'
        '[[use]]\n[use.split]\nscheme = "ootomo"\n[use.tile]\nblock = [64, 64, 32]\n'
    )
    monkeypatch.chdir("/")
    loaded = load_library(tmp_path / "lib.toml")
    assert [spec.folder for _, spec, _ in loaded.specs] == [tmp_path / "specs", tmp_path], "from where on files that a spec names are sought"
    (place, spec, gpus), (_, inline, every) = loaded.specs
    assert place.endswith("lib.toml: [[use]] 1") and spec.spec.split.scheme == "half" and gpus == {"h100"}
    assert inline.spec.tile.block == (64, 64, 32) and inline.spec.split.scheme == "ootomo" and every == {"a100", "h100"}
    assert list(loaded.tables[0][1].kernels) == ["k1"]


BAD = {
    "no file": ("lib.json", None, "lib.json", "is not a library"),
    "unknown key": ({"names": "x"}, None, "names", "unknown key"),
    "no gpus": ({"gpus": []}, None, "gpus", "is not acceptable"),
    "unknown gpu": ({"gpus": ["a1000"]}, None, "gpus", "unknown GPU"),
    "two vendors": ({"gpus": ["a100", "mi300x"]}, "GPUs of one vendor", "gpus", "are of several vendors"),
    "one gpu twice": ({"gpus": ["a100", "a100"]}, "each once, which a100 is not", "gpus", "is not acceptable"),
    "no layout": ({"layouts": ["xx"]}, None, "layouts", "is not acceptable"),
    "name of C": ({"name": "free"}, "my_free", "name", "is not acceptable"),
    "name with a hyphen": ({"name": "my-lab"}, "small letters", "name", "is not acceptable"),
    "two underscores": ({"name": "my__lab"}, "single underscores", "name", "is not acceptable"),
    "no kernels": ({"kernels_at_most": 0}, None, "kernels_at_most", "is not acceptable"),
    "a size of two": ({"sizes": [[64, 64]]}, None, "sizes", None),
    "an empty size": ({"sizes": [[64, 0, 64]]}, None, "sizes", "is not acceptable"),
    "another vendor's shim": ({"shim": ["hipblas"]}, "cublas, torch, jax", "shim", "hipblas is not what programs for NVIDIA's GPUs call"),
    "unknown shim": ({"shim": ["mkl"]}, None, "shim", "is not acceptable"),
    "no use": ({"use": []}, None, "use", "is not acceptable"),
    "an empty use": ({"use": [{}]}, "none of them", "[use] 0", "is not acceptable"),
    "two sources": ({"use": [{"scheme": "half", "table": "x.json"}]}, "scheme and table", "[use] 0", "is not acceptable"),
    "source and sections": ({"use": [{"scheme": "half", "tile": {}}]}, "scheme and [use.tile]", "[use] 0", "is not acceptable"),
    "a spec's error": ({"use": [{"split": {"scheme": "half"}, "accuracy": {"relative_frobenius": 1e-6}}]}, "one of them", "[[use]] 1: [accuracy]", None),
    "no such spec": ({"use": [{"spec": "none.toml"}]}, None, "none.toml", "cannot be read"),
    "no such table": ({"use": [{"table": "none.json"}]}, None, "none.json", "cannot be read as a dispatch table"),
    "the same bits, an error": ({"reproducible": True, "use": [{"accuracy": {"as": "fp32"}}]}, 'scheme = "residues7"', "reproducible", "each GPU may"),
    "the same bits, two schemes": ({"reproducible": True, "use": [{"scheme": "auto"}, {"scheme": "residues8"}]}, "auto and residues8", "reproducible", None),
    "a gpu of none": ({"use": [{"scheme": "half", "gpus": ["h100"]}]}, "a100", "[[use]] 1 gpus", "names a GPU that the library is not for"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused(case, tmp_path):
    change, needs, where, problem = BAD[case]
    with pytest.raises(GemmgenError) as caught:
        load_library(tmp_path / change) if isinstance(change, str) else library_from({**GOOD, **change})
    error = caught.value
    assert where in error.where
    assert problem is None or error.problem.startswith(problem)
    assert needs is None or needs in str(error)


def test_specs_of_a_library_of_the_same_bits_ask_for_them():
    """Of each type of elements one scheme; no portable kernel, whose sums are FP32's, stands behind them."""
    loaded = library_from({**GOOD, "reproducible": True, "use": [{"scheme": "auto"}, {"scheme": "residues14"}]})
    assert all(spec.spec.accuracy.reproducible for _, spec, _ in loaded.specs) and not loaded.has_portable
    usual = library_from({**GOOD, "use": [{"scheme": "ootomo"}]})
    assert usual.has_portable and not usual.specs[0][1].spec.accuracy.reproducible


@pytest.mark.parametrize("sections, told", [
    ('[problem]\nkind = "strided"', "[problem] kind"), ('[problem]\nb = "bf16"', "[problem] b"), ('[problem]\nc = "f16"', "[problem] c"),
    ('[epilogue]\ndo = ["relu"]', "[epilogue] do"),
], ids=["kind", "b", "c", "epilogue"])
def test_products_of_other_types_or_kinds_are_none_of_a_librarys(tmp_path, sections, told):
    (tmp_path / "own.toml").write_text(f'{sections}\n[split]\nscheme = "ootomo"\n[target]\ngpu = "a100"\n')
    with pytest.raises(GemmgenError, match="is not what a library's functions compute") as caught:
        library_from({**GOOD, "use": [{"spec": str(tmp_path / "own.toml")}]})
    assert caught.value.where.endswith(f"[[use]] 1: {told}") and ("batched = true" in str(caught.value)) == (told != "[epilogue] do")


def test_routines_have_the_scheme_that_is_fastest_by_a_table():
    """For the largest size and for each GPU that the use is for; a library of small products has another."""
    loaded = load_library("general")
    assert [(spec.spec.split.scheme, spec.spec.split.where, spec.spec.problem.kind, names) for _, spec, names in loaded.for_routines] == [
        ("run_scaled", "auto", "gemm", frozenset({"h200"}))]
    small = replace(loaded, file=loaded.file.model_copy(update={"sizes": ((256, 256, 256), (64, 128, 64))}))
    assert [spec.spec.split.scheme for _, spec, _ in small.for_routines] == ["bf16x6_apart"]
    with_small = replace(loaded, file=loaded.file.model_copy(update={"sizes": ((4096, 4096, 4096), (256, 256, 256), (64, 128, 64))}))
    assert [spec.spec.split.scheme for _, spec, _ in with_small.for_routines] == ["run_scaled"], "of which less than a 512th is no part of a routine"
    for sizes, scheme in ((((2048, 2048, 2048), (256, 256, 256)), "bf16x6_apart"), (((2048, 2048, 2048), (256, 256, 255)), "run_scaled"),
                          (((256, 256, 256), (4096, 4096, 4096, 8)), "bf16x6_apart"), (((4096, 4096, 4096, 8),), "run_scaled")):
        one = replace(loaded, file=loaded.file.model_copy(update={"sizes": sizes}))
        assert [spec.spec.split.scheme for _, spec, _ in one.for_routines] == [scheme], "single products decide, where there are any"
    place, table, _ = loaded.tables[0]
    elsewhere = replace(loaded, tables=((place, table, frozenset({"h100"})),))
    assert elsewhere.for_routines == ()
    mixed = replace(loaded, specs=load_library("lab").specs)
    assert mixed.for_routines[: len(mixed.specs)] == mixed.specs and len(mixed.for_routines) == len(mixed.specs) + 1
