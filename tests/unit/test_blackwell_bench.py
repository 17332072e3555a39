"""What of bench/blackwell.py needs no B200: its predictions, the comparison of bits, and the constants that it would find."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fake_pool import FakePool

from gemmgen.catalog.gpu import GPUS
from gemmgen.emulate import TOGETHER
from gemmgen.errors import DeviceError
from gemmgen.plan import Plan
from gemmgen.run.emulator import EmulatorDevice
from gemmgen.solve import solve
from gemmgen.spec import loads
from gemmgen.workshop.bringup import calibrate
from gemmgen.workshop.bringup.from_row import fill_in
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


def test_the_constants_of_a_made_up_b200_are_found(monkeypatch, tmp_path):
    hidden = with_constants(GPUS.get("b200"), HIDDEN)
    monkeypatch.setattr(blackwell, "Processes", lambda: FakePool(hidden))
    monkeypatch.setattr(calibrate, "SEEDS", (1,))
    told = blackwell.constants("b200", 4, 0)
    found = {(one["section"], one["name"]): one["after"] for one in told["constants"]}
    for place, value in HIDDEN.items():
        assert found[place] == pytest.approx(value, rel=0.1), (place, told)
    assert "[measured.tcgen05]" in told["lines"] and told["kernels"] > 40 and "of new kernels" in told["held_out"]
    assert_makes_a_row(tmp_path, blackwell.row_with("b200", told["lines"]), found)


def assert_makes_a_row(folder: Path, text: str, found: dict) -> None:
    """What `gemmgen gpu from-row` makes of it has the constants that were found, says that they were fitted, and is a GPU that specs can name."""
    (folder / "told.toml").write_text(text)
    filled = fill_in(folder / "told.toml", None, "b200", folder)
    filled.refuse(folder)
    for name, file in filled.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(file)
    row = GPUS.get(str(folder / "b200.toml"))
    for (section, name), value in found.items():
        own = getattr(row.measured.of(section, "b200") if section else row.measured, name)
        assert own.value == pytest.approx(value, rel=1e-3) and own.source.startswith("fitted to ")
        assert filled.constants[f"{section}.{name}".lstrip(".")].standing == "given"
    before, after = (solve(loads(blackwell.asked_for(gpu, "ootomo", 8192, 2))).model["seconds"] for gpu in ("b200", str(folder / "b200.toml")))
    assert after > 1.3 * before  # the made-up chip's power allows 0.45 of the rate, where 0.7 is assumed


@pytest.mark.long
def test_the_whole_bench_runs_on_a_stand_in(monkeypatch, capsys, tmp_path):
    """Kernels are built, and the emulator stands for the GPU; times are those of a made-up B200. Its JSON has each part, and its row is one."""
    from gemmgen import timing

    hidden, kept, emulated = with_constants(GPUS.get("b200"), HIDDEN), tmp_path / "told.json", blackwell.gemm

    def multiplied(device, plan, source, a, b):
        return emulated(device if isinstance(device, EmulatorDevice) else EmulatorDevice(plan, source, device, schedule=TOGETHER), plan, source, a, b)

    def timed(name, plan=None, *_):
        return SimpleNamespace(seconds=[float(replace(plan, gpu=hidden).model["seconds"]) if isinstance(plan, Plan) else 1e-3] * 3)

    monkeypatch.setattr(blackwell, "WORDS", ("half", "residues6"))
    monkeypatch.setattr(blackwell, "SHAPE", (140, 70, 40))
    monkeypatch.setattr(blackwell, "gemm", multiplied)
    monkeypatch.setattr(blackwell.cuda, "CudaDevice", lambda binary: binary)
    monkeypatch.setattr(blackwell.cuda, "why_not", lambda target: None)
    monkeypatch.setattr(blackwell, "Processes", lambda: FakePool(hidden))
    monkeypatch.setattr(calibrate, "SEEDS", (1,))
    monkeypatch.setattr(timing, "Inputs", lambda size: size)
    monkeypatch.setattr(timing, "cublas", timed)
    monkeypatch.setattr(timing, "generated", timed)
    monkeypatch.setattr(timing, "race", lambda contenders, **_: None)
    monkeypatch.setattr(timing, "release_memory", lambda: None)
    monkeypatch.setattr(sys, "argv", ["blackwell.py", "--sizes", "512,8192", "--schemes", "half,residues6,residues14", "--json", str(kept)])
    assert blackwell.main() == 0
    told, shown = json.loads(kept.read_text()), capsys.readouterr().out
    assert set(told) == {"predicted", "sums", "races", "constants"} and "sums: 4 of 4 kernels give the emulator's bits" in shown
    assert [(one["scheme"], one["cluster"], one["same_bits"]) for one in told["sums"]] == [
        (scheme, cluster, 140 * 70) for scheme in ("half", "residues6") for cluster in (1, 2)]
    assert len(told["races"]) == 2 * (1 + 4) and len(told["predicted"]) == 3 * 2 * 2
    large = next(one for one in told["races"] if one["contender"] == "half, pairs" and one["size"] == 8192)
    assert large["seconds"] > 1.3 * large["predicted_seconds"]
    assert_makes_a_row(tmp_path, kept.with_suffix(".toml").read_text(), {(one["section"], one["name"]): one["after"] for one in told["constants"]["constants"]})
