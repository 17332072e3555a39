"""Batches of residues that arrays of pointers locate, or that have sizes of their own: their tables, the host's list, and what their kernels read."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen import abi, road
from gemmgen import export as exporter
from gemmgen.batch import PROBLEM, problem_of
from gemmgen.catalog.element import F32, F64
from gemmgen.designs.residues import norms
from gemmgen.errors import SpecError
from gemmgen.kinds import kind_of
from gemmgen.render import render
from gemmgen.run import batch as running
from gemmgen.run import Placement
from gemmgen.run.batch import Product, batch
from gemmgen.solve import solve
from gemmgen.spec import loads
from test_export import stand_in

SMALL = {"block": [32, 32, 64], "warp": [16, 32, 64]}
GROUPS = {"block": [64, 32, 64], "warp": [64, 32, 64], "cluster": 2}
COLUMNS = {"block": [128, 32, 64], "warp": [128, 32, 64], "cluster": 1}
TARGETS = {
    "lanes": ("a100", SMALL, {}, "residues_portable"), "warpgroups": ("h200", GROUPS, {}, "residues"), "wmma": ("rx7900xtx", SMALL, {}, "residues_portable"),
    "tensor memory": ("b200", COLUMNS, {"policy": "tcgen05"}, "residues_tensor_memory"),
}


def loaded(kind, target="lanes", scheme="residues12", **problem):
    gpu, tile, fragment, _ = TARGETS[target]
    problem = {"kind": kind, "type": "f64" if int(scheme[8:]) > 9 else "f32", **dict.fromkeys("mnk", 128), "matrices": 8} | problem
    return loads({"problem": problem, "split": {"scheme": scheme}, "tile": tile, "fragment": fragment, "target": {"gpu": gpu}, "build": {"allow_spills": True}})


def plan_of(*args, **problem):
    return solve(loaded(*args, **problem))


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_are_those_of_the_strided_batch_but_for_where_matrices_lie(target):
    strided, pointers, grouped = (plan_of(kind, target) for kind in ("strided", "pointers", "grouped"))
    design = TARGETS[target][3]
    assert (strided.design.name, pointers.design.name, grouped.design.name) == (design, design, f"packed_{design}")
    assert {**strided.numbers, "strides": 0} == {"strides": 0, **pointers.numbers} and strided.design.template == grouped.design.template
    assert (pointers.launches.repeated, pointers.launches.packs_products, grouped.launches.packs_products) == (True, False, True)
    assert len({one.hash for one in (strided, pointers, grouped)}) == 3
    assert [one.role for one in abi.interface(pointers).launches] == [one.role for one in abi.interface(grouped).launches] == ["norms", "split", "gemm"]


@pytest.mark.parametrize(("type", "scheme", "element"), [("f64", "residues12", "double"), ("c128", "residues12", "double"), ("f32", "residues6", "float"),
                                                         ("c64", "residues6", "float")])
def test_a_launch_gets_three_arrays_of_pointers_and_no_stride(type, scheme, element):
    plan = plan_of("pointers", scheme=scheme, type=type)
    table = abi.interface(plan)
    passed = {launch.role: {one.argument: one for one in launch.parameters if one.argument in ("a", "b", "c")} for launch in table.launches}
    assert {name: one.type for name, one in passed["gemm"].items()} == {
        "a": f"const {element}* const*", "b": f"const {element}* const*", "c": f"{element}* const*"}
    assert set(passed["split"]) == {"a", "b"} and table.batched and not any(table.asks(f"stride_{x}") for x in "abc")
    text = render(plan).text
    assert "stride_" not in text and all(f"auto* const {x} = list_{x}[entry];" in text for x in "abc")
    assert text.count("list_a[entry], lda") == len(table.launches) - 1  # of each pass


def test_roles_of_a_kernel_that_stays_take_each_products_own_pointer():
    """The operands' where an element is computed again: registers hold none before."""
    text = render(plan_of("pointers", "warpgroups")).text
    assert "auto* const c = list_c[work.entry];" in text and "batch_c" not in text and "batch_a_scales" in text
    own = [text.index(f"auto* const {x} = list_{x}[work.entry];") for x in "ab"]
    assert text.index("while (bad) {") < min(own) and text.count("list_a[work.entry]") == 1


def test_kinds_of_pointers_are_told_apart_and_travel():
    real, complex_, strided = (kind_of(loaded(kind, type=type).spec.problem) for kind, type in (("pointers", "f64"), ("pointers", "c128"), ("strided", "c128")))
    assert complex_ != strided and (complex_.asked, strided.asked, complex_.batched, complex_.indirect, complex_.strides) == (
        "pointers", "strided", True, True, False)
    for kind in (real, complex_, strided):
        again = pickle.loads(pickle.dumps(kind))
        assert again == kind and hash(again) == hash(kind) and (again.indirect, again.strides) == (kind.indirect, kind.strides)


# ---- products of one size


class Memory:
    """A device whose launches keep what they are given."""

    kind = "emulator"
    clusters_at_once = 0

    def __init__(self):
        self.launched, self.held = {}, {}

    def upload(self, x, name, misalign=0):
        self.held[name] = x
        return name

    def address(self, buffer):
        return {"a": 1 << 20, "b": 2 << 20, "c": 3 << 20}[buffer]

    def empty(self, *of):
        return "workspace"

    zeros = empty

    def part(self, buffer, nbytes):
        return buffer

    def launch(self, symbol, blocks, threads, shared, args, follows=False):
        self.launched[symbol] = blocks

    def download(self, buffer, dtype, count):
        return self.held[buffer] if buffer == "c" else np.zeros(count, dtype)

    def seconds(self):
        return None

    def release(self):
        pass


def test_the_pointers_are_those_of_the_matrices_and_the_last_product_comes_first(monkeypatch):
    monkeypatch.setattr("gemmgen.run.allocated", lambda device, interface, extents: dict.fromkeys(
        (one.name, at) for one in interface.buffers for at in interface.places(one)))
    monkeypatch.setattr("gemmgen.run.arguments", lambda launch, given, memory: given)
    plan, device, rng = plan_of("pointers"), Memory(), np.random.default_rng(2)
    source = render(plan)
    c = rng.uniform(-1, 1, (3, 4, 5))
    one = Placement((1, 2, 3), (0, 0, 0), (4, 5, 6))
    products = [Product(rng.uniform(-1, 1, (4, 6)), rng.uniform(-1, 1, (6, 5)), c[at], 2.0, 0.5, one) for at in range(3)]
    found = batch(device, plan, source, products)
    assert (np.stack(found.products) == c).all()  # as they were before, in the products' order
    for x, rows, pitch, own, bytes in (("a", 4, 7, 4, 8), ("b", 6, 7, 5, 8), ("c", 4, 8, 6, 8)):
        apart = bytes * (rows * pitch + own + running.APART)
        assert device.held[f"{x}_list"].tolist() == [device.address(x) + apart * at for at in (2, 1, 0)], x
    assert device.held["a"][:6].tolist() == products[2].a[0].tolist()
    with pytest.raises(SpecError, match="share factors and leading dimensions"):
        batch(device, plan, source, [*products, Product(products[0].a, products[0].b)])
    assert batch(device, plan, source, []).products == ()


# ---- products of several sizes


def test_fp64s_factors_take_the_reserved_bytes():
    wide = problem_of(F64)
    assert problem_of(F32) == PROBLEM and wide.itemsize == 64 and wide.names == PROBLEM.names[:-1]
    assert [wide.fields[name][1] for name in ("m", "alpha", "beta")] == [36, 48, 56] and wide["beta"] == np.float64
    text = render(plan_of("grouped")).text
    struct = text.partition("struct alignas(16) Problem {")[2].partition("};")[0]
    assert "double alpha, beta;" in struct and "reserved" not in struct and "const double *a, *b;" in struct


def test_the_list_of_the_host_by_hand():
    """[70, 33, 65] has 3 x 2 tiles and two stages, [1, 1, 1] one of each, [40, 20, 0] two tiles and no stage, and [0, 9, 9] nothing: FP64's split pass takes 32
    rows of 128 k, the one of norms sixteen rows."""
    plan = plan_of("grouped")
    listed = plan.design.listed(plan, np.array([[1, 1, 1], [0, 9, 9], [40, 20, 0], [70, 33, 65]]))
    assert [tuple(map(int, row)) for row in listed.rows] == [
        # entry, block, turn, stages of A and of B, panels of A and of B, block of norms
        (3, 0, 0, 0, 0, 0, 0, 0), (0, 5, 6, 6, 4, 3, 2, 5 + 3), (2, 7, 7, 7, 5, 4, 3, 8 + 2)]
    assert listed.extents == {"split_blocks": 8, "turns": 9, "a_stages": 7, "b_stages": 5, "a_panels": 6, "b_panels": 4, "norm_blocks": 10, "k": 65}
    table = abi.interface(plan)
    extents = listed.extents | table.constants
    assert [one.blocks(extents) for one in table.launches] == [10, 8, 9] and norms.LINES == 16
    lengths = table.laid_out(extents).lengths
    assert (lengths["a_scales"], lengths["b_scales"], lengths["residues"]) == (4 * 32 * 6, 4 * 32 * 4, 12 * 32 * 32 * 9)


@pytest.mark.parametrize(("target", "layout", "taken"), [("lanes", "nt", None), ("warpgroups", "nn", None), ("warpgroups", "tt", None)])
def test_blocks_of_a_pass_over_whole_rows_are_whole_clusters_of_one_product(target, layout, taken):
    """Of FP32: as many for a product as the strided batch's launch has."""
    grouped, strided = (plan_of(kind, target, "residues6", layout=layout, k=4096) for kind in ("grouped", "strided"))
    sizes = np.array([[70, 33, 65], [200, 300, 4096], [5, 5, 0]])
    table, alone = abi.interface(grouped), abi.interface(strided)
    listed = grouped.design.listed(grouped, sizes)
    [split] = [one for one in table.launches if one.role == "split"]
    [each] = [one for one in alone.launches if one.role == "split"]
    assert (split.cluster, split.shared_bytes, split.threads) == (each.cluster, each.shared_bytes, each.threads)
    counts = [each.blocks(alone.extents(*map(int, sizes[row["entry"]]))) for row in listed.rows]
    assert listed.rows["block"].tolist() == (np.cumsum(counts) - counts).tolist() and not any(row["block"] % split.cluster for row in listed.rows)
    lengths = table.laid_out(listed.extents | table.constants).lengths
    assert lengths["a_scales"] == 16 * grouped.block[0] * listed.extents["a_panels"]


def test_sums_of_segments_have_a_place_where_a_product_is_long():
    plan = plan_of("grouped", scheme="residues6")
    table = abi.interface(plan)
    for k, bytes in ((8192, 0), (8193, 8 * 32 * 32 * 2)):
        listed = plan.design.listed(plan, np.array([[8, 8, 8], [8, 8, k]]))
        assert table.laid_out(listed.extents | table.constants).lengths["segments"] == bytes


def test_parts_of_a_product_begin_where_the_list_says():
    """Its factors, of FP32 two for each row and column; who reads turns waits for the pass that writes them."""
    wide, narrow = (render(plan_of("grouped", "warpgroups", scheme)).text for scheme in ("residues12", "residues6"))
    assert "auto* const a_scales = batch_a_scales + (long long)place.a_panel * 64;" in wide
    assert "auto* const b_scales = batch_b_scales + (long long)place.b_panel * 64;" in narrow
    assert "norms_b(block - blocks_a, product.b, product.ldb, product.n, product.k, b_scales + (long long)place.b_panel * 32);" in wide
    main = wide[wide.index("const Products products", wide.index("_split(")):]
    assert main.count("griddepcontrol") + main.count("wait_for_previous") == wide[wide.index("Work work_at"):].count("for (int turn = first_turn"), main
    repaired = wide[wide.index("while (bad) {"):]
    assert "const Product own = product_at(products, work.entry);" in repaired and "= product.a," not in wide  # registers hold no operands before
    tensors = render(plan_of("grouped", "tensor memory")).text
    assert tensors.count("const Placed place = list[work.place];") == 1 and "const float alpha" not in tensors


def test_products_that_are_told_one_by_one_are_not_exported(tmp_path):
    for kind in ("pointers", "grouped"):
        plan = plan_of(kind)
        lacking = {"pointers": "arrays of addresses beside a workspace", "grouped": "a list of all products"}[kind]
        with pytest.raises(SpecError, match=f"packed first: they take {lacking}") as refused:
            exporter.export(plan, (source := render(plan)), stand_in(plan, source, plan.arch), tmp_path / kind)
        assert not (tmp_path / kind).exists() and "gemmgen library" in refused.value.remedy


def test_a_strided_batch_is_not_multiplied_as_products(monkeypatch):
    monkeypatch.setattr(road, "build", lambda kernel: SimpleNamespace(plan=plan_of("strided")))
    with pytest.raises(SpecError, match="is given a kernel of another kind"):
        road.multiply_batch("spec", [])
