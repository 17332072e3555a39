"""What of bench/blackwell.py needs no B200: its predictions, the comparison of bits, and the constants that it would find."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_pool import FakePool

from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError
from gemmgen.workshop.bringup import calibrate
from gemmgen.workshop.fit.time_model import with_constants

ROOT = Path(__file__).parents[2]
if not (ROOT / "bench").is_dir():
    pytest.skip("no bench/ in this distribution", allow_module_level=True)
sys.path.insert(0, str(ROOT / "bench"))
import blackwell  # noqa: E402

sys.path.remove(str(ROOT / "bench"))

HIDDEN = {("tcgen05", "efficiency"): 0.75, ("tcgen05", "sustained_share"): 0.45}
"""Constants of a made-up B200, none of which is near what is assumed."""


def test_the_pages_predictions_are_the_commands():
    found = blackwell.predicted("b200", ("ootomo",), (2048, 8192))
    lines = blackwell.table(found).splitlines()
    page = [line.split(" | ") for line in (ROOT / "docs" / "blackwell.md").read_text().splitlines()]
    sizes = next(line for line in page if line[0] == "| predicted TFLOP/s")
    for line in lines[2:]:
        told = next(one for one in page if one[0] == line.split(" | ")[0])
        assert [told[sizes.index(size)] for size in ("2048", "8192")] == line.split(" | ")[1:3], line
    assert all(one["predicted_tflops"] > 450 for one in found if one["size"] == 8192)


def test_only_what_the_gpus_tcgen05_multiplies_is_asked_of_it():
    """ptxas has no .kind::i8 for a B300; of FP64 elements a kernel is FP64's."""
    asked = ("ootomo", "residues8", "residues14")
    assert (blackwell.served("b200", asked), blackwell.served("b300", asked)) == (asked, ("ootomo",))
    assert [blackwell.asked_for("b200", one, 512, 1)["problem"]["type"] for one in asked] == ["f32", "f32", "f64"]
    page = (ROOT / "docs" / "blackwell.md").read_text()
    for line in blackwell.table(blackwell.predicted("b200", ("residues14",), (8192,))).splitlines()[2:]:
        assert line.split(" | ")[1] in next(one for one in page.splitlines() if one.startswith(line.split(" | ")[0])).split(" | ")[4], line


def test_bits_are_compared_for_single_blocks_and_pairs(monkeypatch):
    """With a GPU that gives what the emulator does, and with one that gives another last bit."""
    monkeypatch.setattr(blackwell, "WORDS", ("half",))
    monkeypatch.setattr(blackwell, "SHAPE", (130, 40, 50))
    monkeypatch.setattr(blackwell, "gemm", lambda device, plan, source, a, b: device(plan, source, a, b))
    for bit, same in ((0, 5200), (1, 5199)):
        c = np.ones((130, 40), np.float32)
        other = c.copy()
        other.view(np.uint32)[7, 7] ^= bit
        monkeypatch.setattr(blackwell.cuda, "CudaDevice", lambda binary, c=other: lambda *_: SimpleNamespace(c=c))
        monkeypatch.setattr(blackwell, "EmulatorDevice", lambda *_, c=c: lambda *_: SimpleNamespace(c=c))
        monkeypatch.setattr(blackwell.road, "build", lambda spec: SimpleNamespace(plan=blackwell.solve(blackwell.loads(spec)), source=None, binary=None))
        found = blackwell.sums("b200")
        assert [(one["cluster"], one["elements"], one["same_bits"]) for one in found] == [(1, 5200, same), (2, 5200, same)]
        assert [one["instruction"] for one in found] == [f"tcgen05.mma.cta_group::{group}.kind::f16" for group in (1, 2)]


def test_without_a_b200_only_predictions_are_made(monkeypatch, capsys, tmp_path):
    kept = tmp_path / "told.json"
    monkeypatch.setattr(blackwell.cuda, "why_not", lambda target: DeviceError("here", "no B200"))
    monkeypatch.setattr(sys, "argv", ["blackwell.py", "--sizes", "512", "--schemes", "half", "--json", str(kept)])
    with pytest.raises(DeviceError, match="no B200"):
        blackwell.main()
    assert "`half`, pairs" in capsys.readouterr().out and not kept.exists()


def test_what_is_printed_says_how_many_kernels_have_all_bits_and_whose_speed_is_whose(monkeypatch, capsys, tmp_path):
    """A kernel with one wrong element is none with the emulator's bits; 2 m n k FLOP in the seconds measured, and in those predicted."""
    def of(cluster: int, same: int) -> dict:
        return {"scheme": "half", "cluster": cluster, "elements": 5200, "same_bits": same}

    raced = [{"contender": "half, pairs", "size": 512, "seconds": 1e-6, "tflops": 268.4, "predicted_seconds": 2e-6},
             {"contender": "cublas-sgemm", "size": 512, "seconds": 4e-6, "tflops": 67.1}]
    for name, made in (("sums", [of(1, 5200), of(2, 5199)]), ("races", raced), ("constants", {"lines": "[measured.tcgen05]", "held_out": "3 %"})):
        monkeypatch.setattr(blackwell, name, lambda *_, made=made: made)
    monkeypatch.setattr(blackwell.cuda, "why_not", lambda target: None)
    monkeypatch.setattr(sys, "argv", ["blackwell.py", "--sizes", "512", "--schemes", "half", "--json", str(tmp_path / "told.json")])
    assert blackwell.main() == 0
    told = capsys.readouterr().out
    assert "sums: 1 of 2 kernels give the emulator's bits\n  not half, cluster 2: 1 of 5200 elements\n" in told
    assert "| half, pairs | 512 | 268 | 134 |\n| cublas-sgemm | 512 | 67 |  |\n" in told
    assert json.loads((tmp_path / "told.json").read_text())["sums"] == [of(1, 5200), of(2, 5199)]


def test_races_know_medians_speeds_and_predictions(monkeypatch):
    """A product is 2 m n k FLOP; cuBLAS has no prediction."""
    from gemmgen import timing

    monkeypatch.setattr(timing, "Inputs", lambda size: size)
    for name in ("cublas", "generated"):
        monkeypatch.setattr(timing, name, lambda *_: SimpleNamespace(seconds=[1e-3, 2e-3, 4e-3]))
    monkeypatch.setattr(timing, "race", lambda contenders, **_: None)
    monkeypatch.setattr(timing, "release_memory", lambda: None)
    monkeypatch.setattr(blackwell.road, "build", lambda spec: SimpleNamespace(plan=blackwell.solve(blackwell.loads(spec)), source=None, binary=None))
    told = blackwell.races("b200", ("half",), (1000,), 1.0)
    assert [one["contender"] for one in told] == ["cublas-sgemm", "half, single blocks", "half, pairs"]
    assert all((one["seconds"], one["tflops"], one["rounds"], one["spread"]) == (2e-3, pytest.approx(1.0), 3, 1.5) for one in told)
    for one, cluster in zip(told[1:], (1, 2)):
        assert one["predicted_seconds"] == blackwell.predicted("b200", ("half",), (1000,))[cluster - 1]["predicted_seconds"]
    assert "predicted_seconds" not in told[0]


def test_the_kernels_that_are_fitted_to_are_single_blocks_and_pairs(monkeypatch):
    monkeypatch.setattr(blackwell, "CELLS", (("ootomo", ((4096, 4096, 4096),)),))
    found = blackwell.wanted("b200", 4, 0)
    assert {one.spec["fragment"]["policy"] for one in found} == {"tcgen05"} and {one.spec["tile"]["cluster"] for one in found} == {1, 2}


def test_the_constants_of_a_made_up_b200_are_found(monkeypatch):
    hidden = with_constants(GPUS.get("b200"), HIDDEN)
    monkeypatch.setattr(blackwell, "Processes", lambda: FakePool(hidden))
    monkeypatch.setattr(calibrate, "SEEDS", (1,))
    told = blackwell.constants("b200", 4, 0)
    found = {(one["section"], one["name"]): one["after"] for one in told["constants"]}
    for place, value in HIDDEN.items():
        assert found[place] == pytest.approx(value, rel=0.1), (place, told)
    assert "[measured.tcgen05]" in told["lines"] and told["kernels"] > 40 and "of new kernels" in told["held_out"]
