"""The files of a library's folder, by their names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from gemmgen import __version__
from gemmgen import drivers
from gemmgen.interface import WORKSPACE_ALIGNMENT
from gemmgen.errors import SpecError
from gemmgen.export import prose
from gemmgen.export.contents import numeric_version
from gemmgen.export.manifest import MANIFEST, NEWEST_SCHEMA, decided
from gemmgen.library import python, shim
from gemmgen.library.interface import ABI
from gemmgen.library.kernel import FINISH, finish_source, images
from gemmgen.library.made import Library
from gemmgen.library.tables import formats, rows
from gemmgen.render import render_text
from gemmgen.verify import standing

PARTS: tuple[Callable[[Library], Mapping[str, bytes]], ...] = (python.files, shim.files)
"""What else a folder has, each by a function that knows what the library asks for."""
EXAMPLE_SIZE = (500, 300, 200)


def values(library: Library) -> dict[str, Any]:
    """What every template of a library reads."""
    number = numeric_version()
    major, minor, patch = (int(part) for part in (number.split(".") + ["0", "0"])[:3])
    driver = least_driver(library)
    return {
        "name": library.name, "guard": library.guard, "version": number, "version_number": 10000 * major + 100 * minor + patch,
        "platform": f"library/platform/{library.maker.platform}.j2", "maker": library.maker, "library": library, "title": title(library),
        "largest_extent": prose.LARGEST_EXTENT, "alignment": WORKSPACE_ALIGNMENT, "least_driver": driver, "least_driver_told": driver_told(library, driver),
        "gpus": library.loaded.gpus, "layouts": library.loaded.layouts, "shims": library.shim, "images": library.images,
        "reproducible": library.reproducible, "abi": ABI, "types": types(library), "example": dict(zip("mnk", EXAMPLE_SIZE)),
        "element": library.loaded.elements[0],
        "sources": {kernel.label: f"kernels/{kernel.label}{kernel.built.source.suffix}" for kernel in library.kernels},
    }


def types(library: Library) -> str:
    """`FP32, FP64 and complex FP32`."""
    *others, last = (one.title for one in library.loaded.elements)
    return ", ".join(others) + " and " * bool(others) + last


def title(library: Library) -> str:
    """What it is, in a line."""
    gpus = [gpu.name for gpu in library.loaded.gpus]
    return library.loaded.file.title or f"{types(library)} matrix products on the matrix units of {', '.join(gpus[:-1]) + ' and ' * (len(gpus) > 1) + gpus[-1]}"


def least_driver(library: Library) -> int:
    """The oldest driver that loads the machine code: of the compiler's own major version, or whatever knows the functions that are called."""
    return drivers.least_driver(library.compilers) or 60_000_000


def driver_told(library: Library, number: int) -> str:
    """The same in words."""
    api = library.maker.api
    return f"{api} {number // 1000}" if number < 1_000_000 else f"{api} {number // 10_000_000}"


def all_files(library: Library) -> dict[str, bytes]:
    """Every file by its path in the folder, the manifest last.

    Raises:
        SpecError: two parts write one file.
    """
    name, known = library.name, values(library)

    def text(template: str, **more: Any) -> bytes:
        return render_text(f"library/{template}.j2", **known, **more).encode()

    files = {
        f"include/{name}.h": text("header.h"),
        f"src/{name}.c": text("runtime.c"),
        "src/tables.h": text("tables.h", rows=rows(library.kernels, name=name, finish=library.finish, rules=library.rules)),
        "src/code.c": text("code.c"),
        **{f"src/code/{image.file}": image.content for image in library.images},
        **{known["sources"][kernel.label]: kernel.built.source.text.encode() for kernel in library.kernels},
        f"kernels/{FINISH}{library.maker.files.source_suffix}": finish_source(library.archs[0], library.loaded.elements).text.encode(),
        "CMakeLists.txt": text("CMakeLists.txt"),
        "cmake/arrays.cmake": text("arrays.cmake"),
        f"{name}.pc": text("package.pc"),
        "example.c": text("example.c"),
    }
    for part in PARTS:
        more = part(library)
        if taken := files.keys() & more.keys():
            raise SpecError(library.loaded.place, "has two parts that write one file", got=", ".join(sorted(taken)), needs="a file of each part's own")
        files |= more
    files["README.md"] = text("README.md", listing=_listing(library, files))
    told = manifest(library, files)
    files[MANIFEST] = (json.dumps(told, indent=2, allow_nan=False) + "\n").encode()
    return files


def _listing(library: Library, files: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """What files are, folders in a line."""
    name = library.name
    code = library.maker.files.code_suffixes[1]
    portable = ", PTX of the portable ones" if any(image.suffix != code for image in library.images) else ""
    found = [
        (f"include/{name}.h", "the C header: the whole interface, and what it means"),
        (f"src/{name}.c", "the runtime in C99: chooses a kernel, opens the driver, launches"),
        ("src/tables.h", "the kernels as data: grids, arguments, buffers, bounds, estimates"),
        ("src/code.c, src/code/", f"machine code, {code[1:]} files{portable}, and what takes it into an object"),
        (f"kernels/*{library.maker.files.source_suffix}", "the kernels' sources, to read and to build again"),
        (MANIFEST, "kernels, why each is there, what decides between them, hashes of all files"),
        (f"CMakeLists.txt, cmake/, {name}.pc", "CMake's targets and package, pkg-config's file"),
        ("example.c", "a program that calls the library and checks the result"),
    ]
    for folder, meaning in (("shim", "preload libraries, for programs that call the vendor's BLAS"), ("python", "the recipe of a Python wheel")):
        if any(file.startswith(f"{folder}/") for file in files):
            found.append((f"{folder}/", meaning))
    return found


def manifest(library: Library, files: Mapping[str, bytes]) -> dict[str, Any]:
    """What the library holds and why, for programs."""
    loaded, choice = library.loaded, library.choice
    packed = formats(library.kernels)
    served = {one.plan.hash: one for one in choice.kernels}
    return {
        "schema_version": NEWEST_SCHEMA,
        "generator": f"gemmgen {__version__}",
        "kind": "library",
        "name": library.name,
        "title": title(library),
        "abi": ABI,
        "version": numeric_version(),
        "computes": "; ".join([
            f"C = act(alpha op(A) op(B) + beta C + bias) in {types(library)}",
            *([f"{', '.join(loaded.file.routines)} of BLAS's level 3"] if loaded.file.routines else []), "with beta = 0 C is not read",
        ]),
        "target": {"vendor": library.maker.name, "gpus": [{"name": gpu.name, "arch": gpu.arch} for gpu in loaded.gpus], "least_driver": least_driver(library)},
        "layouts": list(loaded.layouts),
        "compilers": list(library.compilers),
        "chosen": {
            "kernels_at_most": loaded.file.kernels_at_most, "candidates": choice.candidates, "sizes": [list(size) for size in choice.sizes],
            "ratio": round(choice.ratio, 4), "no_set_has_less": round(choice.least, 4), "packed": loaded.file.packed,
            "statement": "ratio: geometric mean of predicted time over that of the best candidate, every GPU and layout as much and sizes by the square root "
                         "of their mean extent; no set of so many kernels has less than the other",
        },
        "decided_by": "the first rule that holds where `rules` has the architecture and layout, else the kernel with the least estimate of those that the "
                      "device runs; the fallback where there is none",
        "kernels": [
            {
                "label": kernel.label, "kernel": kernel.built.source.name, "plan": kernel.built.plan.hash,
                "layout": kernel.built.plan.kind.layout_of(kernel.built.plan.layout),
                "gpu": kernel.built.plan.gpu.name, "scheme": kernel.built.plan.scheme.name, "fragment": kernel.built.plan.fragment.name,
                "design": kernel.built.plan.design.name, "type": kernel.element.name,
                "kind": {"name": kernel.built.plan.kind.name, **kernel.built.plan.kind.options},
                **decided(kernel.built.plan), "fallback": kernel.is_fallback, "reason": kernel.reason,
                "from": served[kernel.built.plan.hash].candidate.place if kernel.built.plan.hash in served else None,
                "sizes": [list(size) for size in served[kernel.built.plan.hash].sizes] if kernel.built.plan.hash in served else [],
                "spec": served[kernel.built.plan.hash].candidate.spec if kernel.built.plan.hash in served else None,
                "estimate": kernel.estimate.model_dump(mode="json") if kernel.estimate else None,
                "pack_formats": {operand: packed[kernel.label, operand] or None for operand in "ab"},
                "images": [{"file": f"src/code/{image.file}", "arch": image.arch} for image in images(kernel)],
                "source": f"kernels/{kernel.label}{kernel.built.source.suffix}",
                "launches": [{"symbol": launch.symbol, "role": launch.role, "threads": launch.threads} for launch in kernel.built.source.launches],
                **({"standing": told} if (told := standing(kernel.built.plan)) else {}),
            }
            for kernel in library.kernels
        ],
        "rules": [
            {"arch": part.arch, "layout": part.layout, "rules": [rule.model_dump(mode="json") for rule in part.rules]} for part in library.rules
        ],
        "fallback": [kernel.label for kernel in library.kernels if kernel.is_fallback],
        "finish": [{"file": f"src/code/{image.file}", "arch": image.arch} for image in library.finish],
        "shim": list(library.shim),
        "reproducible": library.reproducible,
        "refused": [{"kernel": plan.hash, "plan": plan.summary, "problem": error.problem, "has": error.has} for plan, error in choice.refused],
        "verdicts": [one.as_dict() for one in choice.verdicts],
        "left_out": [{"from": place, "gpu": gpu, "layout": layout, "why": why} for place, gpu, layout, why in choice.left_out],
        "relaxed": list(choice.relaxed),
        "sha256": {file: hashlib.sha256(content).hexdigest() for file, content in sorted(files.items())},
    }

