"""The table that kernels and their callers share: sizes by hand, and a parameter that stands in it and nowhere else."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from gemmgen import abi, export
from gemmgen.build import build
from gemmgen.export import contents
from gemmgen.render import render
from gemmgen.run import arguments, gemm
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads

WAYS = {
    "portable": {},
    "register": {"split": {"where": "register"}},
    "wgmma": {"target": {"gpu": "h100"}},
    "mixed": {"target": {"gpu": "h100"}, "split": {"where": "mixed"}},
    "tcgen05": {"target": {"gpu": "b200"}, "fragment": {"policy": "tcgen05"}},
    "amd": {"target": {"gpu": "mi300x"}},
}

SMALL = {"tile": {"block": [64, 64, 32], "warp": [32, 32, 32]}, "pipeline": {"stages": 3}}


def plan_of(**data):
    return solve(loads({"target": {"gpu": "a100"}, "build": {"allow_spills": True}, **data}))


def test_the_workspace_by_hand():
    """Three words of 2 bytes, block 64x64x32 and three slices, of a problem [65, 64, 33]: rows and k are rounded up, columns are not."""
    plan = plan_of(
        split={"scheme": "bf16x6"}, tile={"block": [64, 64, 32], "warp": [32, 32, 32], "split_k": 3}, pipeline={"stages": 3},
    )
    table = abi.interface(plan)
    work = table.workspace(65, 64, 33)
    assert dict(work.lengths) == {
        "status": 7 * 8, "a_absmax": 0, "b_absmax": 0, "arrived": 2 * 4, "a_words": 3 * 2 * 128 * 64, "b_words": 3 * 2 * 64 * 64,
        "parts": 3 * 4 * 128 * 64,
    }
    assert dict(work.offsets) == {
        "status": 0, "a_absmax": 256, "b_absmax": 256, "arrived": 256, "a_words": 512, "b_words": 512 + 49152, "parts": 512 + 49152 + 24576,
    }
    assert (work.zeroed, work.bytes) == (264, 512 + 49152 + 24576 + 98304)
    assert replace(table, buffers=table.buffers[:4], launches=()).workspace(65, 64, 33).bytes == 512, "the last buffer's end is rounded up, too"


@pytest.mark.parametrize(("design", "sharers", "data"), [
    ("portable", 1, SMALL), ("cuda_cores", 1, {"split": {"scheme": "fp32"}}), ("straight", 1, {"problem": {"m": 64, "n": 64}}),
    ("thin", 1, {"split": {"scheme": "fp32"}, "problem": {"m": 8}}),
    ("specialised", 2, {"target": {"gpu": "h200"}, "fragment": {"policy": "wgmma"}, "tile": {"block": [128, 128, 64], "warp": [64, 128, 64]}}),
    ("specialised", 1, {"target": {"gpu": "h200"}, "fragment": {"policy": "wgmma"}, "tile": {"block": [64, 128, 64], "warp": [64, 128, 64]}}),
    ("tensor_memory", 2, {"target": {"gpu": "b200"}, "fragment": {"policy": "tcgen05"}, "tile": {"block": [128, 128, 64], "warp": [128, 64, 64]}}),
])
def test_slices_of_k_meet_at_a_counter_for_each_part_of_a_tile_that_is_gathered_by_itself(design, sharers, data):
    plan = plan_of(**{**data, "tile": {**data.get("tile", {}), "split_k": 3}, "pipeline": {**data.get("pipeline", {}), "design": design}})
    [arrived] = [one for one in abi.interface(plan).buffers if one.name == "arrived"]
    assert (plan.design.name, plan.split_k, arrived.factor, arrived.per, arrived.zeroed) == (design, 3, 4 * sharers, plan.block[0] * plan.block[1], True)


def test_row_scales_by_hand():
    plan = plan_of(split={"scheme": "scaled"}, **SMALL)
    table = abi.interface(plan)
    work = table.workspace(65, 1, 1)
    assert (work.lengths["a_absmax"], work.lengths["b_absmax"], work.zeroed) == (4 * 128, 4 * 64, 768 + 4 * 64)
    assert [buffer.name for buffer in table.buffers if buffer.zeroed_again] == ["a_absmax", "b_absmax"]


@pytest.mark.parametrize("change, problem", [
    (lambda table: {"buffers": table.buffers[1:]}, "counters do not come first"),
    (lambda table: {"buffers": (table.buffers[0], *reversed(table.buffers[1:]))}, "zeroed do not come first"),
    (lambda table: {"buffers": tuple(one for one in table.buffers if one.name != "a_words")}, "points to a_words"),
    (lambda table: {"launches": (replace(table.launches[0], lines=(abi.Line((abi.Parameter("x", "int", ""),)),)),)}, "comes from one of"),
])
def test_a_table_that_contradicts_itself_is_none(change, problem):
    table = abi.interface(plan_of())
    with pytest.raises(ValueError, match=problem):
        replace(table, **change(table))


def test_a_buffer_that_is_there_above_a_k():
    buffer = abi.Buffer("segments", "double", 16, ("m", "n"), False, "sums", per=4, above_k=32)
    assert [buffer.bytes({"m": 3, "n": 5, "k": k}) for k in (0, 32, 33)] == [0, 0, 60]


def test_a_batch_without_products_has_no_blocks():
    table = abi.interface(plan_of(problem={"kind": "strided"}, split={"scheme": "ootomo", "where": "prepass"}, **SMALL))
    empty = table.extents(65, 64, 33, 0)
    assert table.batched and set(empty.values()) <= {0, 1} and not any(one.blocks(empty) for one in table.launches)
    assert table.extents(65, 64, 33, 3) == {"m": 65, "n": 64, "k": 33, "batch": 3, "m_padded": 128, "n_padded": 64, "k_padded": 64, "split_k": 1, "cluster": 1}


def test_slices_in_clusters_leave_parts_of_whole_clusters():
    tile = {"block": [128, 128, 64], "warp": [64, 128, 64], "cluster": 2, "split_k": 2}
    extents = abi.interface(plan_of(target={"gpu": "h100"}, fragment={"policy": "wgmma"}, tile=tile)).extents(300, 128, 64)
    assert (extents["m_padded"], extents["m_clusters"], extents["split_k"], extents["cluster"]) == (384, 512, 2, 2)


def test_a_pass_for_the_same_b_takes_a_alone_unless_rows_are_scaled():
    for scheme, part in (("ootomo", 2 * 2), ("scaled", 2 * 2 + 1 * 2)):
        table = abi.interface(plan_of(split={"scheme": scheme, "where": "prepass"}, **SMALL))
        split, extents = next(one for one in table.launches if one.role == "split"), table.extents(65, 64, 33)
        assert (split.blocks(extents), split.blocks_same_b(extents)) == (2 * 2 + 1 * 2, part)


# ---- a toy: a buffer, a pointer into the middle of it, and a scalar, in every kernel of every design


def with_toy(table: abi.Interface) -> abi.Interface:
    """The table with a buffer of 8 floats a row of A, which every kernel gets from its fifth float on, and with m once more."""
    toy = abi.Buffer("toy", "float", 32, ("m_padded",), True, "a toy's floats")
    zeroed = sum(buffer.zeroed for buffer in table.buffers)
    line = abi.Line((
        abi.Parameter("toys", "float", "a toy", pointer=True, const=True, restrict=True, region="toy", offset=16),
        abi.Parameter("rows", "int", "m, once more", argument="m"),
    ), "nobody reads them")
    return replace(
        table, buffers=(*table.buffers[:zeroed], toy, *table.buffers[zeroed:]),
        launches=tuple(replace(launch, lines=(*launch.lines, line)) for launch in table.launches),
    )


@pytest.fixture
def toys(monkeypatch):
    real = abi.interface
    monkeypatch.setattr(abi, "interface", lambda plan: with_toy(real(plan)))


@pytest.mark.parametrize("way", WAYS)
def test_every_signature_is_the_tables(way, toys):
    source = render(plan_of(**WAYS[way]))
    for launch in source.launches:
        head = source.text.partition(f"\n{launch.symbol}(\n")[2].partition("\n{\n")[0]
        assert head.splitlines()[-1] == "    const float* __restrict__ toys, int rows)  // nobody reads them"
        said = [part.strip() for line in head.splitlines() for part in line.partition("//")[0].rstrip(") ").split(",") if part.strip()]
        short = {"u8": "unsigned char", "u32": "unsigned int", "u64": "unsigned long long"}
        spelled = [re.sub(r"\bu\d+\b", lambda found: short[found[0]], one.replace("__restrict__ ", "")) for one in said]
        assert spelled == [f"{one.type} {one.name}" for one in launch.parameters]
        assert launch.params[-2:] == ("toys", "rows")


class Seen(EmulatorDevice):
    """The emulator, and what it was given."""

    def __init__(self, *args):
        super().__init__(*args)
        self.allocated, self.launched = {}, []

    def zeros(self, nbytes, name):
        self.allocated[name] = nbytes
        return super().zeros(nbytes, name)

    def launch(self, symbol, blocks, threads, shared_bytes, args, overlaps=False):
        self.launched.append((symbol, args))
        super().launch(symbol, blocks, threads, shared_bytes, args, overlaps)


def test_a_runner_passes_what_the_table_tells(toys):
    """On the emulator, whose assembly has the parameters too: it refuses more or fewer arguments than a kernel takes."""
    plan = plan_of(**SMALL)
    source = render(plan)
    device = Seen(plan, source, build(source))
    a, b = np.ones((65, 32), np.float32), np.ones((32, 3), np.float32)
    assert (gemm(device, plan, source, a, b).c == 32).all()
    assert (device.allocated["toy"], device.allocated["toys"]) == (16, 8 * 4 * 128 - 16)
    assert len(device.launched) == 2
    for _, args in device.launched:
        assert [kind for kind, _ in args[-2:]] == ["pointer", "int"] and args[-1][1] == 65
    assert len({str(args[-2][1]) for _, args in device.launched}) == 1, "both kernels get the same memory"


def test_what_times_passes_it_too(toys):
    """By the same function, from one piece of memory."""
    source = render(plan_of())
    launch, memory = source.launches[-1], {}
    for buffer in source.interface.buffers:
        memory |= {(buffer.name, offset): (buffer.name, offset) for offset in source.interface.places(buffer)}
    given = dict.fromkeys(("a", "lda", "b", "ldb", "c", "ldc", "m", "n", "k", "alpha", "beta"), 7)
    assert arguments(launch, given, memory)[-2:] == [("pointer", ("toy", 16)), ("int", 7)]


def test_the_exported_files_tell_of_it(toys, tmp_path):
    plan = plan_of(**SMALL)
    source = render(plan)
    export.export(plan, source, build(source), tmp_path / "out", name="lab_gemm")
    text = (tmp_path / "out" / "lab_gemm.cu").read_text()
    assert "    uint64_t toy;        /* byte offset: a toy's floats */" in text
    assert "    at->toy = end = lab_gemm_gg_aligned(end);\n    end += 32 * (uint64_t)at->m_padded;\n    at->zeroed = end;\n" in text
    assert text.count("        (const float*)(base + at.toy + 16),\n        (int)m);\n") == len(source.launches)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    [region] = [one for one in manifest["workspace"]["regions"] if one["name"] == "toy"]
    assert (region["factor"], region["extents"], region["zeroed"], region["element"]) == (32, ["m_padded"], True, "float")
    for launch in manifest["launches"]:
        assert [(one["type"], one["value"]) for one in launch["params"][-2:]] == [
            ("const float*", {"region": "toy", "offset": 16}), ("int", {"argument": "m"}),
        ]


def test_a_further_counter_is_counted_everywhere(monkeypatch, tmp_path):
    """In the status that the C header declares, its bytes, and the manifest."""
    monkeypatch.setitem(abi.COUNTERS, "toys_status", ("toys_lossy",))
    plan = plan_of()
    table = abi.interface(plan)
    assert table.counters[-1].offset == 56 and table.workspace(1, 1, 1).lengths["status"] == 64
    source = render(plan)
    context = contents.template_values(plan, source, [plan.arch], "lab_gemm")
    assert context["status_fields"][-1][0] == "toys_lossy" and context["status_bytes"] == 64
