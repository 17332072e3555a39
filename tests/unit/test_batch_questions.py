"""The questions to kernels for batches, put to kernels of NumPy's: a right one has no fault, and each fault is named."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gemmgen.catalog.element import F32
from gemmgen.catalog.epilogue import NONE
from gemmgen.kinds import GROUPED, STRIDED
from gemmgen.kinds.triangles import Syrk
from gemmgen.kinds.triangular import Trmm
from gemmgen.run import Placement, Result
from gemmgen.run.batch import BatchResult, Product
from gemmgen.verify import batch as of_batches
from gemmgen.verify import strided as of_strided


def share(plan, a, b, c, got, alpha=1.0, beta=0.0, ends=None):
    """Of a worst case that is 1e-4 in each element."""
    want = alpha * (a.astype(np.float64) @ b)
    if beta:
        want = want + beta * c
    off = np.abs(got - want)
    return float(np.max(off, initial=0.0)) / 1e-4 if not np.isnan(off).any() else float("nan")


class Device:
    """An emulator that notes in which orders its warps run."""

    kind = "emulator"

    def __init__(self):
        self.schedule, self.schedules = "usual", []

    def set_schedule(self, schedule):
        self.schedule = schedule
        self.schedules.append(schedule)


def strided_like(fault):
    """A product of matrices of a batch, with one fault."""
    def strided(device, plan, source, a, b, c=None, alpha=1.0, beta=0.0, placement=None, strides=None, ends=None):
        b = np.broadcast_to(b[0], b.shape) if strides else b
        ragged = c is not None
        out = (alpha * (a @ b) + (beta * c if ragged else 0)).astype(np.float32) if len(a) else np.zeros((0, a.shape[1], b.shape[2]), np.float32)
        if fault == "last" and ragged:
            out[-1, -1, -1] += 3e-4
        if fault == "nan" and ragged:
            out[-1, -1, -1] = np.nan
        if fault in ("whole", "whole nan") and not ragged and len(out):
            out[..., -1, -1] += 3e-4 if fault == "whole" else np.nan
        if fault == "order" and ragged and device.schedule != device.schedules[0]:
            out[0, 0, 0] = np.nextafter(out[0, 0, 0], np.float32(9))
        if fault == "place" and len(out) > 1 and not strides:
            out[0, 0, 0] = np.nextafter(out[0, 0, 0], np.float32(9))
        if fault == "alone" and len(out) == 1:
            out[0, 0, 0] = np.nextafter(out[0, 0, 0], np.float32(9))
        if fault == "shared" and strides:
            out[1, 0, 0] = np.nextafter(out[1, 0, 0], np.float32(9))
        if fault == "empty" and not len(out):
            out = np.zeros((1, 1, 1), np.float32)
        return Result(out, {}, 0.0, not ragged or fault != "memory" and (fault != "memory once" or device.schedule == device.schedules[0]))

    return strided


@pytest.mark.parametrize(("fault", "said"), [
    ("", []), ("last", ["3 of the worst case"]), ("nan", ["nan of the worst case"]), ("whole", ["of the worst case where tiles are whole"]),
    ("whole nan", ["nan of the worst case where tiles are whole"]),
    ("memory", ["memory between"]), ("memory once", ["memory between"]), ("order", ["order of warps"]), ("place", ["permuted batch"]),
    ("alone", ["product alone"]), ("shared", ["B that all share"]), ("empty", ["empty batch"]),
])
def test_a_strided_batch_is_asked_everything(monkeypatch, fault, said):
    monkeypatch.setattr(of_strided, "strided", strided_like(fault))
    monkeypatch.setattr(of_strided, "share_of_worst", share)
    device = Device()
    told, wrong = of_strided.questions(SimpleNamespace(block=(8, 6, 4), epilogue=NONE, type=F32, kind=STRIDED), None, device)
    assert all(any(word in one for one in wrong) for word in said) and bool(wrong) == bool(fault), wrong
    assert len(set(device.schedules)) == 3 and device.schedule == "usual" and "worst case" in told


def kind_like(kind, fault):
    """The same of a kind, of which elements that it does not compute stay as they were."""
    def strided(device, plan, source, a, b, c, alpha=1.0, beta=0.0, placement=None):
        out = c.copy()
        for at, one in enumerate(a):
            first, second = kind.completed(one, None if b is None else b[at])
            computed = kind.computed(*c.shape[1:])
            out[at] = np.where(computed, (alpha * (first.astype(np.float64) @ second) + beta * kind.read(c[at])).astype(np.float32), c[at])
        if fault == "last" and len(out):
            out[-1, -1, -1] += 3e-4
        if fault == "nan" and len(out):
            out[-1, -1, -1] = np.nan
        if fault == "other" and len(out):
            out[0, 0, -1] += 1
        if fault == "order" and len(out) and device.schedule != device.schedules[0]:
            out[0, 0, 0] = np.nextafter(out[0, 0, 0], np.float32(9))
        if len(out) and fault == ("place" if len(out) > 1 else "alone"):
            out[0, 0, 0] = np.nextafter(out[0, 0, 0], np.float32(9))
        if fault == "empty" and not len(out):
            out = np.zeros((1, 1, 1), np.float32)
        return Result(out, {}, 0.0, fault != "memory" and (fault != "memory once" or device.schedule == device.schedules[0]))

    return strided


@pytest.mark.parametrize(("fault", "said"), [
    ("", None), ("last", "3 of the worst case"), ("nan", "nan of the worst case"), ("other", "not computed"), ("memory", "not computed"),
    ("memory once", "not computed"), ("order", "order of warps"), ("place", "permuted batch"), ("alone", "product alone"), ("empty", "empty batch"),
])
@pytest.mark.parametrize("kind", [Syrk().strided(), Trmm().strided()], ids=str)
def test_a_batch_of_a_kind_is_asked_everything(monkeypatch, kind, fault, said):
    said = "of the worst case" if fault == "other" and kind.computed(2, 2).all() else said
    monkeypatch.setattr(of_strided, "strided", kind_like(kind, fault))
    monkeypatch.setattr(of_strided, "share_of_worst", share)
    told, wrong = of_strided.questions(SimpleNamespace(block=(8, 8, 4), epilogue=NONE, type=F32, kind=kind), None, Device())
    assert (not wrong) if said is None else any(said in one for one in wrong), wrong
    assert "worst case" in told


def batch_like(fault):
    """A batch of products of any size, with one fault."""
    def batch(device, plan, source, products, threshold=None):
        found = [(one.alpha * (one.a @ one.b) + (one.beta * one.c if one.beta else 0)).astype(np.float32) for one in products]
        if fault == "last" and products:
            found[-1][-1:, -1:] += 3e-4
        if fault == "nan" and products:
            found[-1][-1:, -1:] = np.nan
        if fault == "tile" and threshold == 0:
            found[0][0, 0] += 3e-4
        if fault == "order" and products and len(found[0]):
            found[0][0, 0] = np.nextafter(found[0][0, 0], np.float32(9))
        status = {"lossy": int(fault == "count" and len(products) > 3 and products[0].sizes != tuple(device.first))}
        if fault == "empty" and products and not any(one.size for one in found):
            found[-1] = np.ones((1, 1), np.float32)
        return BatchResult(tuple(found), status, 0.0, not (fault == "memory" and products))

    return batch


class Tiled:
    kind, type = GROUPED, F32
    launches = SimpleNamespace(batch_tiles=(SimpleNamespace(m=8, n=6, k=4, name="8x6x4"), SimpleNamespace(m=4, n=4, k=4, name="4x4x4")))
    batch = SimpleNamespace(tiles=launches.batch_tiles)
    design = SimpleNamespace(tiling=lambda plan, sizes, threshold: SimpleNamespace(tile=np.zeros(len(sizes), int) if threshold == 0 else np.arange(len(sizes)) % 2))


def asked(monkeypatch, fault, question):
    monkeypatch.setattr(of_batches, "batch", batch_like(fault))
    monkeypatch.setattr(of_batches, "share_of_worst", share)
    return of_batches.QUESTIONS[question](SimpleNamespace(kind="emulator", first=of_batches.ragged(Tiled())[0].sizes), Tiled(), None)


@pytest.mark.parametrize(("question", "fault", "said"), [
    ("batch", "last", "3 of the worst case"), ("batch", "nan", "nan of the worst case"), ("batch", "tile", "product 0 of 11x5x13"),
    ("batch", "memory", "memory beside"), ("order", "order", "depend on the order"), ("order", "count", "counted {'lossy': 1}, not {'lossy': 0}"),
    ("empty", "empty", "wrote something"), ("empty", "memory", "wrote something"),
])
def test_a_batch_of_products_is_asked_everything(monkeypatch, question, fault, said):
    fine, told = asked(monkeypatch, "", question)
    assert fine and (question != "batch" or "tiles 8x6x4, 4x4x4" in told)
    fine, told = asked(monkeypatch, fault, question)
    assert not fine and said in told


@pytest.mark.parametrize("largest", ["first", "last"])
@pytest.mark.parametrize("kind", [GROUPED, STRIDED, Syrk().strided()], ids=str)
def test_the_figure_that_is_told_is_that_of_the_worst_product(monkeypatch, kind, largest):
    shares: list[float] = []

    def asked():
        """What is told, where each product is off by its part of the worst case."""
        left = iter(shares)
        seen: list[float] = []
        for module in (of_batches, of_strided):
            monkeypatch.setattr(module, "share_of_worst", lambda *given, **ends: seen.append(next(left, 0.25)) or seen[-1])
        if kind is GROUPED:
            monkeypatch.setattr(of_batches, "batch", batch_like(""))
            return of_batches.QUESTIONS["batch"](Device(), Tiled(), None)[1], len(seen)
        monkeypatch.setattr(of_strided, "strided", strided_like("") if kind is STRIDED else kind_like(kind, ""))
        return of_strided.questions(SimpleNamespace(block=(8, 8, 4), epilogue=NONE, type=F32, kind=kind), None, Device())[0], len(seen)

    told, count = asked()
    assert "at most 0.25 of the worst case" in told and count > 3
    shares = [0.25] * count
    shares[0 if largest == "first" else -1] = 0.75
    assert "at most 0.75 of the worst case" in asked()[0]


@pytest.mark.parametrize("kind", [GROUPED, STRIDED], ids=str)
def test_one_product_stands_among_others(monkeypatch, kind):
    """The answer is that product's; the others share its factors where all have the same."""
    given = []
    monkeypatch.setattr(of_batches, "batch", lambda device, plan, source, products: given.extend(products) or BatchResult(
        tuple(np.full((1, 1), at) for at in range(len(products))), {"lossy": 1}, 2.0, True))
    a, b, c = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32), np.ones((3, 5), np.float32)
    found = of_batches.among_others(None, SimpleNamespace(kind=kind), None, a, b, c=c, alpha=2.0, beta=3.0, placement=Placement((1, 2, 3), (4, 8, 12)))
    assert found.c[0, 0] == 1 and found.status == {"lossy": 1} and found.seconds == 2.0 and found.intact
    assert isinstance(given[1], Product) and given[1].a is a and given[1].sizes == (3, 5, 4) and (given[1].alpha, given[1].beta) == (2.0, 3.0)
    sizes = [one.sizes for one in given]
    assert sizes == ([of_batches.BESIDE[0], (3, 5, 4), of_batches.BESIDE[1]] if kind is GROUPED else [(3, 5, 4)] * 2)
    assert kind is GROUPED or (given[0].alpha, given[0].beta, given[0].placement) == (2.0, 3.0, given[1].placement)
