"""The road as a library: a line a stop, from a file, a dictionary or what an earlier stop gave."""

from __future__ import annotations

import re
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

import gemmgen
from gemmgen import road
from gemmgen.errors import InfeasibleSpec, SpecError
from gemmgen.paths import SPECS

SMALL = SPECS / "kernels" / "sgemm_h100_small.toml"
TINY = {
    "problem": {"m": 64, "n": 64, "k": 64}, "split": {"scheme": "ootomo", "where": "prepass", "promote": 16}, "target": {"gpu": "a100"},
    "tile": {"block": [32, 32, 16], "warp": [16, 16, 16], "group": 1, "split_k": 1}, "pipeline": {"loads": "async", "stages": 2, "fragment_buffers": 1},
}


def example(text: str) -> str:
    """The indented lines of a docstring."""
    return "\n".join(line[4:] for line in text.splitlines() if line.startswith("    ") or not line)


@pytest.mark.slow
def test_the_example_of_the_packages_docstring_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = example(gemmgen.__doc__)
    assert "road.verify(" in code and "road.export(" in code
    exec(compile(code.replace("specs/kernels", str(SPECS / "kernels")), "docstring", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "True"
    assert (tmp_path / "third_party" / "sgemm" / "manifest.json").is_file()


def test_the_functions_that_the_rooms_own_docstring_shows_are_there():
    assert all(callable(getattr(road, name)) for name in re.findall(r"road\.(\w+)\(", road.__doc__ + gemmgen.__doc__))


def test_a_spec_is_a_file_a_dictionary_or_what_load_gave():
    loaded = road.load(TINY)
    assert road.plan(loaded) == road.plan(TINY) and road.load(loaded) is not None
    assert road.plan(str(SMALL)) == road.plan(SMALL)
    assert road.plan(TINY, gpu="rtx3090").gpu.name == "rtx3090" and road.render(TINY).source.arch == "sm_80"
    assert road.explain(TINY).plan.hash == road.plan(TINY).hash


def test_another_layout_than_the_specs():
    turned = {**TINY, "problem": {**TINY["problem"], "layout": "tn"}}
    assert road.plan(TINY, layout="tn") == road.plan(turned) and road.render(TINY, layout="tn").source == road.render(turned).source
    assert road.plan(turned, layout="nn") == road.plan(TINY) and road.plan(turned, layout=None).layout == "tn"
    with pytest.raises(SpecError) as refused:
        road.load(TINY, layout="nm")
    assert refused.value.where == "--layout" and refused.value.needs == "one of: nn, nt, tn, tt, nc, cn, tc, ct, cc"


def test_a_kernel_is_built_once_and_used_twice(monkeypatch):
    kernel = road.build(TINY)
    monkeypatch.setattr("gemmgen.build.first_that_builds", None)  # it would be called for a second build
    assert road.build(kernel) is kernel
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((33, 40), (40, 17), (33, 17)))
    found = road.multiply(kernel, a, b, c, alpha=2.0, beta=-1.0, device="emulator")
    assert np.abs(found.c - (2.0 * a.astype(float) @ b - c)).max() < 1e-5 and found.intact


@pytest.mark.parametrize(("call", "error"), [
    (lambda: road.load("nonesuch.toml"), SpecError), (lambda: road.plan({"tile": {"block": [1, 2]}}), SpecError),
    (lambda: road.plan(TINY | {"tile": {"block": [32, 32, 24], "warp": [16, 16, 24]}}), InfeasibleSpec),
    (lambda: road.multiply(TINY, np.zeros((2, 3)), np.zeros((3, 2)), device="emulator"), SpecError),
    (lambda: road.export(TINY, "x", name="no name"), SpecError), (lambda: road.check_affordable((1 << 20, 1 << 20, 1 << 20), "emulator"), SpecError),
])
def test_what_cannot_be_is_refused_as_everywhere(call, error):
    with pytest.raises(error) as refused:
        call()
    assert refused.value.where and refused.value.problem


def test_what_a_product_and_its_check_hold_in_memory(monkeypatch):
    """Of A and B an FP32 and an FP64 element each, of C 28 bytes an element; the emulator does 2^36 multiply-adds at most."""
    held = 12 * (30 * 7 + 7 * 20) + 28 * 30 * 20
    for memory, refused in ((held, False), (held - 1, True)):
        monkeypatch.setattr(road.os, "sysconf", lambda name, memory=memory: {"SC_PHYS_PAGES": memory, "SC_PAGE_SIZE": 1}[name])
        with pytest.raises(SpecError, match="too large for this machine's memory") if refused else nullcontext():
            road.check_affordable((30, 20, 7), "cuda")
    monkeypatch.setattr(road.os, "sysconf", lambda name: 1 << 30)
    road.check_affordable((1 << 12, 1 << 12, 1 << 12), "emulator")
    with pytest.raises(SpecError, match="too large to be emulated"):
        road.check_affordable((1 << 12, 1 << 12, (1 << 12) + 1), "emulator")
    road.check_affordable((1 << 12, 1 << 12, (1 << 12) + 1), "cuda")


def test_ones_own_matrices_must_be_affordable_and_what_was_opened_is_released(monkeypatch):
    asked, released = [], []
    device = SimpleNamespace(kind="emulator", release=lambda: released.append(True))

    def refused(size, kind, whole):
        asked.append((size, kind, whole))
        raise SpecError("--m, --n, --k", "are too large")

    monkeypatch.setattr(road, "build", lambda *of, **how: SimpleNamespace(plan=None, source=None, binary=None))
    monkeypatch.setattr(road, "open_device", lambda *of, **how: device)
    monkeypatch.setattr(road, "check_affordable", refused)
    monkeypatch.setattr("gemmgen.verify.default_size", lambda plan, kind: (2, 3, 5))
    a, b = np.zeros((7, 11), np.float32), np.zeros((11, 13), np.float32)
    for given in ({"a": a, "b": b}, {"size": (None, 17, None)}):
        with pytest.raises(SpecError, match="too large"):
            road.verify(TINY, require="scheme", **given)
    assert asked == [((7, 13, 11), "emulator", False), ((2, 17, 5), "emulator", False)] and released == [True, True]


@pytest.mark.parametrize(("beside", "fails"), [(None, False), ("second", False), ("second", True)])
def test_every_device_of_a_batch_is_released(monkeypatch, beside, fails):
    opened, released = [], []

    def open_device(built, kind):
        if fails and built.name == "second":
            raise SpecError("--device", "is not there")
        opened.append(built.name)
        return SimpleNamespace(release=lambda: released.append(built.name))

    plan = SimpleNamespace(launches=SimpleNamespace(of_products=True))
    monkeypatch.setattr(road, "build", lambda name: SimpleNamespace(name=name, plan=plan, source=None))
    monkeypatch.setattr(road, "open_device", open_device)
    monkeypatch.setattr("gemmgen.run.batch.batch", lambda device, plan, source, products: ("alone", products))
    monkeypatch.setattr("gemmgen.run.mixed.mixed", lambda devices, kernels, products: ([one.name for one in kernels], products))
    if fails:
        with pytest.raises(SpecError, match="not there"):
            road.multiply_batch("first", [1], beside=beside)
    else:
        assert road.multiply_batch("first", [1], beside=beside) == (["first", "second"] if beside else "alone", [1])
    assert released == opened == ["first", "second"][: 1 + (beside is not None and not fails)]


def test_who_watches_is_told(tmp_path):
    class Watcher:
        steps: list[str] = []

        def step(self, text):
            self.steps.append(text)

        def blocks(self, symbol, done, total): ...
        def clear(self): ...

    road.export(road.build(TINY, progress=Watcher()), tmp_path / "out", name="tiny")
    assert Watcher.steps and (tmp_path / "out" / "tiny.h").is_file()
