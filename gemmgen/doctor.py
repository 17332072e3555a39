"""The GPUs, drivers, compilers and packages of this machine, and what to type next.

Libraries of others are opened in processes of their own, all at the same time: one that is broken may end its process, one that hangs is left after
`SECONDS`, and either is a line of the report.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gemmgen import __version__
from gemmgen.drivers import named_in
from gemmgen.paths import PACKAGE, SPECS

SECONDS = 1.4
"""What a probe may take; the whole report has 2 s."""
KFD = Path("/sys/class/kfd/kfd/topology/nodes")
NVIDIA = Path("/proc/driver/nvidia")
NOT_SHOWN = ("dev", "frameworks", "cuda", "cuda-gpu", "hip", "hip-gpu")
"""Extras for those who change gemmgen, and the names of earlier releases."""

_ANSWERED = "import json\ntry:\n{}\nexcept GemmgenError as error:\n    found = error.as_dict()\nprint(json.dumps(found))"
_COMPILER = """
    from gemmgen.errors import GemmgenError
    from gemmgen.build.{module} import {function}
    one = {function}()
    found = {{"name": one.name, "archs": one.archs, "path": str({path})}}"""
PROBES = {
    # The driver itself, as every CUDA program opens it: CUDA_VISIBLE_DEVICES counts.
    "cuda": """
import ctypes, json
driver = ctypes.CDLL("libcuda.so.1")
version, count, device, value, name = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
driver.cuDriverGetVersion(ctypes.byref(version))
status, gpus = driver.cuInit(0), []
if not status:
    driver.cuDeviceGetCount(ctypes.byref(count))
    for number in range(count.value):
        driver.cuDeviceGet(ctypes.byref(device), number)
        driver.cuDeviceGetName(name, len(name), device)
        numbers = []
        for attribute in (75, 76):  # compute capability
            driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            numbers.append(value.value)
        gpus.append({"title": name.value.decode(), "arch": "sm_%d%d" % tuple(numbers)})
print(json.dumps({"driver": version.value, "status": status, "gpus": gpus}))
""",
    "NVRTC": _ANSWERED.format(_COMPILER.format(module="nvrtc", function="find_compiler", path="one.path")),
    "clang": _ANSWERED.format(_COMPILER.format(module="clang", function="find_clang", path="one.driver[0]")),
}


def probed(programs: dict[str, str], seconds: float = SECONDS) -> dict[str, dict[str, Any]]:
    """What each of these programs of Python prints, a JSON object; `{"problem": ...}` of one that hangs, dies or prints something else."""
    begun = time.monotonic()
    search = f"import sys\nsys.path.append({str(PACKAGE.parent)!r})\n"
    running = {
        name: subprocess.Popen([sys.executable, "-P", "-c", search + text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name, text in programs.items()
    }
    found = {}
    for name, process in running.items():
        try:
            out, err = process.communicate(timeout=max(0.01, seconds - (time.monotonic() - begun)))
            found[name] = json.loads(out)
        except subprocess.TimeoutExpired:
            process.kill()  # and it is not waited for: a call that hangs in a driver cannot be ended
            found[name] = {"problem": f"does not answer within {seconds:g} s", "slow": True}
        except ValueError:
            last = (err.strip().splitlines() or [""])[-1].removeprefix("OSError: ")
            found[name] = {"problem": last or (f"its library ends the process (signal {-process.returncode})" if process.returncode < 0 else "says nothing")}
    return found


# ---- parts of the report


def gpus_here() -> list[dict[str, Any]]:
    """The GPUs of this machine, CUDA's first: device (`cuda`, `hip`), title, arch (`sm_90`, `gfx942`), row (a name under specs/gpus, or None), own."""
    return gpus_of(probed({"cuda": PROBES["cuda"]})["cuda"])[0]


def gpus_of(cuda: dict[str, Any]) -> tuple[list[dict[str, Any]], list[str]]:
    """The GPUs, each with the row of specs/gpus that describes it, and what is wrong with a driver."""
    rows, found, problems = _rows(), [], []
    loaded = (NVIDIA / "version").exists()
    if "problem" in cuda and loaded:
        problems.append(f"NVIDIA's driver is loaded, and libcuda.so.1 fails: {cuda['problem']}")
    elif cuda.get("status") == 100 and loaded:  # CUDA_ERROR_NO_DEVICE
        problems.append("NVIDIA's driver finds no GPU; nvidia-smi lists those that CUDA_VISIBLE_DEVICES may hide")
    elif cuda.get("status") not in (None, 0, 100):
        problems.append(f"NVIDIA's driver cannot begin: cuInit returns {cuda['status']}; nvidia-smi says more")
    for one in cuda.get("gpus", ()):
        found.append({"device": "cuda", **one})
    for path in sorted(KFD.glob("*/properties")) if KFD.is_dir() else ():
        try:
            version = re.search(r"^gfx_target_version (\d+)", path.read_text(), re.M)
        except OSError:
            continue
        if version and int(version[1]):
            number = int(version[1])
            found.append({"device": "hip", "title": "AMD GPU", "arch": f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}"})
    return [{**one, **_row_of(one, rows)} for one in found], problems


def _rows() -> list[tuple[str, str]]:
    """(name, target) of each shipped GPU: read without the catalog, which a broken installation may not load."""
    found = []
    for path in sorted((SPECS / "gpus").glob("*.toml")):
        row = tomllib.loads(path.read_text())
        found.append((row["name"], row["arch"].rstrip("af")) if row["arch"].startswith("sm_") else (row["name"], row["arch"]))
    return found


def _row_of(gpu: dict[str, Any], rows: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """`row`: the one whose name stands in the GPU's title, by most of its letters, else the first of its target, None where none is of it.

    `own`: whether its name stands there.
    """
    fitting = [name for name, arch in rows if arch == gpu["arch"]]
    own = named_in(gpu["title"], fitting)
    return {"row": own or (fitting[0] if fitting else None), "own": own is not None}


def host_compilers() -> dict[str, str]:
    """What builds a library of kernels: C compilers, CMake and ROCm's hipcc on the PATH, by their paths."""
    return {name: path for name in ("cc", "gcc", "clang", "cmake", "hipcc") if (path := shutil.which(name))}


def extras() -> dict[str, dict[str, Any]]:
    """By extra of gemmgen ('' for what it needs itself): versions of its packages, None of one that is missing."""
    from importlib import metadata

    try:
        required = metadata.requires("gemmgen") or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for one in required:
        name, extra = re.match(r"[\w.-]+", one), re.search(r"extra == ['\"]([\w-]+)['\"]", one)
        machine = re.search(r"platform_machine == ['\"](\w+)['\"]", one)
        if name is None or name[0] == "gemmgen" or machine and machine[1] != platform.machine():
            continue
        try:
            version = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            version = None
        found.setdefault(extra[1] if extra else "", {})[name[0]] = version
    return {extra: packages for extra, packages in sorted(found.items()) if extra not in NOT_SHOWN}


def extra_of(device: str, driver: int) -> str:
    """The extra that compiles and runs kernels of a kind of device here; of CUDA by the driver's version."""
    return "rocm" if device == "hip" else f"cuda{12 if 0 < driver < 13000 else 13}"


def diagnosed() -> dict[str, Any]:
    """The whole report, as plain data; no part of it raises."""
    problems: list[str] = []

    def safely(what: str, call: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return call()
        except Exception as error:  # whatever is broken here is what the report is for
            problems.append(f"{what} cannot be found out: {type(error).__name__}: {error}")
            return otherwise

    answers = safely("drivers and compilers", lambda: probed(PROBES), {"cuda": {}})
    cuda = answers.pop("cuda")
    gpus, wrong = safely("GPUs", lambda: gpus_of(cuda), ([], []))
    problems += wrong
    compilers = []
    for name, one in answers.items():
        ready = None if "slow" in one else "archs" in one
        compilers.append({"for": "NVIDIA" if name == "NVRTC" else "AMD", "name": one.get("name", name), "ready": ready, "path": one.get("path"),
                          "problem": None if ready else one["problem"], "try": one.get("try"), "archs": one.get("archs", [])})
    packages = safely("packages", extras, {})
    if not packages:
        problems.append("gemmgen is not installed as a package: which extras are missing is not known")
    value = {
        "gemmgen": __version__, "place": str(PACKAGE), "python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}",
        "processors": len(os.sched_getaffinity(0)), "cuda_driver": cuda.get("driver") or None, "gpus": gpus, "compilers": compilers, "host": host_compilers(),
        "extras": packages, "settings": {name: text for name, text in sorted(os.environ.items()) if name.startswith("GEMMGEN_")}, "problems": problems,
    }
    return {**value, "next": next_steps(value)}


def next_steps(value: dict[str, Any]) -> list[dict[str, str]]:
    """What to type, the first thing first, and why."""
    steps, packages = [], value["extras"]
    if not any(one["ready"] is not False for one in value["compilers"]) and not value["gpus"]:
        steps.append((f"pip install 'gemmgen[{extra_of('cuda', 0)}]'", "a compiler: no kernel can be built without one"))
    for gpu in {one["device"]: one for one in reversed(value["gpus"])}.values():
        extra = extra_of(gpu["device"], value["cuda_driver"] or 0)
        if missing := [name for name, version in packages.get(extra, {}).items() if version is None]:
            steps.append((f"pip install 'gemmgen[{extra}]'", f"{', '.join(missing)}: builds kernels for this GPU and runs them on it"))
        elif not any(one["ready"] is None or gpu["arch"] in one["archs"] for one in value["compilers"]):
            steps.append((f"pip install --upgrade 'gemmgen[{extra}]'", f"no compiler here compiles for {gpu['arch']}"))
        if gpu["row"]:
            steps.append((f"gemmgen init kernel --gpu {gpu['row']} -o my_kernel.toml",
                          f"a spec for this GPU ({gpu['title']}); then gemmgen verify my_kernel.toml"))
        else:
            steps.append((f"gemmgen gpu probe --device {gpu['device']} -o my_gpu/",
                          f"no file of specs/gpus is for {gpu['arch']}: this measures one"))
    if not value["gpus"]:
        steps.append(("gemmgen verify scaled_a100", "no GPU is here: kernels are executed on the CPU, bit for bit as NVIDIA's matrix units compute"))
    return [{"type": command, "why": why} for command, why in steps]
