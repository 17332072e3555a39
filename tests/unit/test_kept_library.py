"""The library of this machine's GPU: which GPU that is, which compiler its driver goes with, and where its library comes from."""

from __future__ import annotations

import ctypes
import multiprocessing
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from gemmgen import drivers
from gemmgen.build import nvrtc
from gemmgen.catalog.element import C64, C128, ELEMENTS, F64
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import DeviceError, GemmgenError
from gemmgen.kinds.kind import COMPLEX_LAYOUTS
from gemmgen.library import kept, python
from gemmgen.library.file import library_from
from gemmgen.run import here
from gemmgen.run.here import Here, described

H200 = Here("NVIDIA H200", "sm_90", 132, 13000)


# ---- the GPU


class Driver:
    """libcuda.so.1 of two GPUs."""

    GPUS = (("NVIDIA H200", 9, 0, 132), ("NVIDIA GeForce RTX 4090", 8, 9, 128))

    def __init__(self, version=12040, answer=0):
        self.version, self.answer, self.number = version, answer, None

    def cuDriverGetVersion(self, to):  # noqa: N802
        to._obj.value = self.version
        return 0

    def cuInit(self, flags):  # noqa: N802
        return self.answer

    def cuDeviceGetCount(self, to):  # noqa: N802
        to._obj.value = len(self.GPUS)
        return 0

    def cuDeviceGet(self, to, number):  # noqa: N802
        to._obj.value = 10 + number
        return 0

    def cuDeviceGetName(self, to, size, device):  # noqa: N802
        to.value = self.GPUS[device.value - 10][0].encode()

    def cuDeviceGetAttribute(self, to, attribute, device):  # noqa: N802
        to._obj.value = dict(zip((75, 76, 16), self.GPUS[device.value - 10][1:]))[attribute]


def install(monkeypatch, driver):
    def load(name):
        assert name == "libcuda.so.1"
        if driver is None:
            raise OSError(name)
        return driver

    for room in (here, drivers):
        monkeypatch.setattr(room, "ctypes", SimpleNamespace(**{name: getattr(ctypes, name) for name in ("c_int", "byref", "create_string_buffer")}, CDLL=load))
    drivers.driver_version.cache_clear()
    here.cuda_gpus.cache_clear()


@pytest.fixture(autouse=True)
def forgotten():
    yield
    drivers.driver_version.cache_clear()
    here.cuda_gpus.cache_clear()


def test_gpus_as_the_driver_tells_them(monkeypatch):
    install(monkeypatch, Driver())
    first, second = here.cuda_gpus()
    assert (first.title, first.arch, first.units, first.driver) == ("NVIDIA H200", "sm_90", 132, 12040)
    assert (first.row.name, second.row.name) == ("h200", "rtx4090")
    for nothing in (None, Driver(answer=100)):
        install(monkeypatch, nothing)
        assert here.cuda_gpus() == ()


@pytest.mark.parametrize(("title", "arch", "row"), [
    ("NVIDIA H200", "sm_90", "h200"), ("NVIDIA H100 80GB HBM3", "sm_90", "h100"), ("NVIDIA GH200 480GB", "sm_90", "gh200"),
    ("NVIDIA A100-SXM4-80GB", "sm_80", "a100_80gb"),
    ("NVIDIA A100-PCIE-40GB", "sm_80", "a100"), ("NVIDIA GeForce RTX 4060 Ti", "sm_89", "rtx4060ti"), ("NVIDIA GeForce RTX 4080", "sm_89", "l4"),
    ("Tesla T4", "sm_75", "t4"),
])
def test_a_gpu_has_the_row_of_its_name_or_of_its_architecture(title, arch, row):
    assert Here(title, arch, 1).row.name == row and Here(title, arch, 1).driver == 0, "AMD's has no version that compilers are held to"
    assert Here(title, "sm_99", 1).row is None and described(title, []) is None


# ---- the compiler and the driver


def test_drivers_load_machine_code_of_their_major_version():
    assert drivers.least_driver(["NVRTC 12.9", "NVRTC 13.5"]) == 13000 and drivers.least_driver(["NVRTC 12.9"]) == 12000
    assert drivers.least_driver(["clang 22.1.8"]) is None and drivers.least_driver([]) is None
    for compiler, driver in (("NVRTC 12.9", 12000), ("NVRTC 12.9", 13000), ("NVRTC 13.5", 13000), ("NVRTC 13.5", 0), ("clang 22", 12000)):
        drivers.check_driver(compiler, driver, "--device cuda")
    with pytest.raises(DeviceError) as refused:
        drivers.check_driver("NVRTC 13.5", 12080, "--device cuda")
    told = refused.value
    assert "NVRTC 13.5" in told.problem and told.got == "a driver for CUDA 12.8" and "CUDA 13.0 or later" in told.needs and "NVRTC 12" in told.needs
    assert told.remedy.startswith("pip install 'gemmgen[cuda12]'")


@pytest.mark.parametrize(("version", "extra"), [(0, "cuda13"), (11080, "cuda12"), (12040, "cuda12"), (13000, "cuda13"), (14010, "cuda13")])
def test_the_extra_for_a_driver(monkeypatch, version, extra):
    install(monkeypatch, Driver(version) if version else None)
    assert drivers.driver_version() == version and drivers.extra() == extra and drivers.install() == f"pip install 'gemmgen[{extra}]'"


@pytest.mark.parametrize(("version", "there", "taken"), [
    (0, ("13", "12"), "13"), (13020, ("13", "12"), "13"), (12040, ("13", "12"), "12"), (12040, ("13",), "13"), (12040, ("12",), "12"),
    (14000, ("13", "12"), "13"),
])
def test_of_several_compilers_the_one_that_the_driver_goes_with(monkeypatch, tmp_path, version, there, taken):
    monkeypatch.delenv("GEMMGEN_NVRTC", raising=False)
    monkeypatch.setattr(nvrtc, "driver_version", lambda: version)
    paths = [tmp_path / f"libnvrtc.so.{major}" for major in there]
    for path in paths:
        path.touch()
    monkeypatch.setattr(nvrtc, "_candidates", lambda: iter([tmp_path / "absent" / "libnvrtc.so.13", *paths]))
    monkeypatch.setattr(nvrtc, "_load", lambda path: path)
    assert nvrtc.find_compiler() == tmp_path / f"libnvrtc.so.{taken}"


def test_a_cubin_that_the_driver_does_not_load_is_told_before_it_is_tried(monkeypatch):
    from gemmgen.run import cuda

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(driverGetVersion=lambda: 12040))))
    with pytest.raises(DeviceError, match="does not load machine code of NVRTC 13.5"):
        cuda.open_device(SimpleNamespace(compiler="NVRTC 13.5", code=b""))


# ---- the library


def test_a_librarys_recipe_has_the_schemes_that_win_on_its_gpu(monkeypatch):
    monkeypatch.setattr(kept, "ASKED", kept.ASKED[1:])  # a second each
    told = kept.recipe(GPUS.get("h200"))
    loaded = library_from(told)
    assert loaded.name == "gemmgen_h200" and {use["scheme"] for use in told["use"]} >= {"run_scaled"} and loaded.batched
    assert kept.recipe(GPUS.get("rtx4090")) is None, "FP32's own units are faster than three products on half-rate matrix units"


def test_a_library_of_fp64_is_where_native_fp64_loses():
    told = kept.recipe_of(GPUS.get("h200"), F64)
    loaded = library_from(told)
    assert loaded.name == "gemmgen_h200_f64" and [one.name for one in loaded.elements] == ["f64"] and loaded.batched
    assert kept.recipe_of(GPUS.get("mi300x"), F64) is None, "163 TFLOP/s native"


@pytest.mark.parametrize("element", [pytest.param(C64, marks=pytest.mark.long), C128], ids=["c64", "c128"])
def test_a_library_of_complex_numbers_has_every_layout(element):
    told = kept.recipe_of(GPUS.get("h200"), element)
    loaded = library_from(told)
    assert loaded.name == f"gemmgen_h200_{element.name}" and loaded.elements == (element,) and loaded.layouts == COMPLEX_LAYOUTS and not loaded.batched
    assert loaded.file.kernels_at_most == len(COMPLEX_LAYOUTS) and kept.recipe_of(GPUS.get("mi300x"), C128) is None


@pytest.fixture
def world(monkeypatch, tmp_path):
    """A cache of its own, and a library that is a file; `built` counts."""
    monkeypatch.setenv("GEMMGEN_CACHE", str(tmp_path / "cache"))
    log = tmp_path / "built"
    monkeypatch.setattr(kept, "INSTALLED", {"nvidia": "a_library_that_is_not_installed", "amd": "neither_is_this"})
    asked = []
    monkeypatch.setattr(kept, "_name", lambda gpu, element="f32", which="": "made_up_library")
    monkeypatch.setattr(kept, "recipe_of", lambda gpu, element: asked.append(f"{gpu.name} {element.name}") or {"name": "made_up_library", "gpus": [gpu.name]})
    monkeypatch.setattr(kept, "recipe_of_same_bits", lambda gpu, element: asked.append(f"the same bits, {element.name}") or {
        "name": "made_up_library", "gpus": [gpu.name]})
    monkeypatch.setattr(kept, "recipe", lambda gpu: asked.append(gpu.name) or {"name": "made_up_library", "gpus": [gpu.name]})

    def build(told, beside, *others):
        with log.open("a") as file:
            file.write("x")
        time.sleep(0.2)
        package = beside / "python" / told["name"]
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from made_up_library._c import path\n")
        (package / "_c.py").write_text("path = __file__\n")

    monkeypatch.setattr("gemmgen.library.made.made", lambda loaded, progress: progress("compile") or loaded)
    monkeypatch.setattr("gemmgen.library.write", lambda found, beside, force: build(found, beside))
    monkeypatch.setattr(kept, "library_from", lambda told, place: told)
    monkeypatch.setattr(python, "compile_in_place", lambda folder: folder / "python")
    monkeypatch.setattr(kept, "find_compiler", lambda: SimpleNamespace(name="NVRTC 12.9"))
    yield SimpleNamespace(folder=tmp_path / "cache" / "libraries", built=lambda: len(log.read_text()) if log.exists() else 0, asked=asked)
    forget()


def forget():
    for name in [name for name in sys.modules if name.startswith("made_up_library")]:
        del sys.modules[name]


def test_a_library_is_built_once_and_found_again(world):
    steps = []
    first = kept.package(H200, steps.append)
    assert steps == ["compile", "compile the library with cc"] and kept.package(H200, steps.append) is first
    forget()
    again = kept.package(H200, steps.append)
    assert len(steps) == 2 and again is not first and world.built() == 1 and world.asked == ["h200"], "the solver is not asked again"
    [place] = [path for path in world.folder.iterdir() if path.is_dir()]
    assert Path(again.path).is_relative_to(place) and place.name.startswith("h200-fp32-cuda13.0-")


def test_another_driver_or_gpu_has_a_library_of_its_own(world):
    for gpu in (H200, Here("NVIDIA H200", "sm_90", 132, 12040), Here("NVIDIA H100", "sm_90", 132, 13000), H200):
        forget()
        kept.package(gpu)
    assert world.built() == 3
    forget()
    assert kept.package(H200, element="f64") and world.built() == 4 and world.asked[-1] == "h200 f64"
    forget()
    assert kept.package(H200, element="c64") and world.built() == 5 and world.asked[-1] == "h200 c64"
    forget()
    assert kept.package(H200, which=kept.SAME_BITS) and world.built() == 6 and world.asked[-1] == "the same bits, f32"
    assert {path.name.split("-cuda")[0] for path in world.folder.iterdir() if path.is_dir()} == {
        "h200-fp32", "h100-fp32", "h200-fp64", "h200-complex-fp32", "h200-fp32-reproducible"}


def test_a_library_of_the_same_bits_is_of_one_scheme_whatever_is_faster():
    for element, scheme in (("f32", "residues7"), ("c64", "residues7"), ("f64", "residues14"), ("c128", "residues14")):
        for gpu in ("rtx4090", "mi300x"):
            [(_, spec, _)] = library_from(kept.recipe_of_same_bits(GPUS.get(gpu), ELEMENTS[element])).specs
            assert (spec.spec.problem.type, spec.spec.split.scheme, spec.spec.accuracy.reproducible) == (element, scheme, True)


def test_of_processes_that_begin_together_one_builds(world):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=kept.package, args=(H200,), daemon=True) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0, 0, 0] and world.built() == 1


def test_what_fails_leaves_nothing_and_is_tried_again(world, monkeypatch):
    compile_in_place = python.compile_in_place

    def fails(folder):
        raise GemmgenError("cc", "is not installed")

    monkeypatch.setattr(python, "compile_in_place", fails)
    with pytest.raises(GemmgenError, match="cc: is not installed"):
        kept.package(H200)
    assert not [path for path in world.folder.iterdir() if path.is_dir()]
    monkeypatch.setattr(python, "compile_in_place", compile_in_place)
    assert kept.package(H200) and world.built() == 2


def test_a_compiler_whose_code_the_driver_does_not_load_builds_nothing(world, monkeypatch):
    monkeypatch.setattr(kept, "find_compiler", lambda: SimpleNamespace(name="NVRTC 13.5"))
    with pytest.raises(DeviceError, match="NVIDIA H200: the driver does not load machine code of NVRTC 13.5"):
        kept.package(Here("NVIDIA H200", "sm_90", 132, 12040))
    assert world.built() == 0 and kept.package(H200)


def test_without_a_cache_a_library_lasts_as_long_as_the_process(world, monkeypatch):
    monkeypatch.setenv("GEMMGEN_CACHE", "off")
    found = kept.package(H200)
    assert not world.folder.exists() and Path(found.path).is_relative_to(kept._temporary())


def test_a_gpu_that_nothing_describes_or_helps_has_no_library(world, monkeypatch):
    with pytest.raises(GemmgenError) as refused:
        kept.package(Here("a new GPU", "sm_150", 100, 14000))
    assert refused.value.where == "a new GPU" and "sm_90" in refused.value.needs and "gemmgen gpu probe" in refused.value.remedy
    monkeypatch.setattr(kept, "recipe", lambda gpu: world.asked.append(gpu.name))
    assert [kept.package(H200), kept.package(H200)] == [None, None] and world.built() == 0 and world.asked == ["h200"]


@pytest.mark.parametrize(("least", "fallback", "taken"), [(12000, False, True), (13000, False, True), (14000, False, False), (12000, True, False)])
def test_an_installed_library_comes_first_where_it_runs(world, monkeypatch, tmp_path, least, fallback, taken):
    """Its driver is there, and it has kernels for the GPU."""
    (tmp_path / "ready_library.py").write_text(
        "from types import SimpleNamespace\nclass Error(Exception): ...\n"
        f"_c = SimpleNamespace(LEAST_DRIVER={least})\ntarget = lambda arch, units: (arch, units)\n"
        f"def select(m, n, k, on):\n    assert on == ('sm_90', 132)\n    return SimpleNamespace(is_fallback={fallback})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ready_library", raising=False)
    monkeypatch.setattr(kept, "INSTALLED", {"nvidia": "ready_library"})
    assert (kept.package(H200).__name__ == "ready_library") == taken and world.built() == (not taken)
    if taken:
        assert kept.package(H200, element="f64").__name__ == "made_up_library" and world.asked == ["h200 f64"], "it is of FP32"
