"""`gemmgen init`: a first spec, study or library file."""

from __future__ import annotations

import os
import re
import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gemmgen.cli.output import emit, emit_json, note, write_paths
from gemmgen.cli.verb import WORLD, Json, names, verb
from gemmgen.errors import EXIT_OK, SpecError

if TYPE_CHECKING:
    from gemmgen.catalog.gpu import Gpu

DEFAULT_GPU = "a100"
"""Where no GPU is named and none is here: the emulator knows it."""


class Starter(StrEnum):
    kernel = "kernel"
    study = "study"
    library = "library"


KERNEL = """\
# A kernel for the {title}: C = A B with the accuracy of FP32.
#     gemmgen explain {file}     what the model decides, and why
#     gemmgen verify {file}      build it and check it, without a GPU, too
#     gemmgen build {file}       machine code and resources; --source prints the source
# Every key: gemmgen list schema

[problem]
layout = "nn"       # how A and B are stored: n is row major, t transposed
m = 4096            # the size that the kernel is chosen for; it takes any size
n = 4096
k = 4096

[accuracy]
as = "fp32"         # the fastest scheme whose errors are FP32's; or frobenius = 1e-5, or [split] scheme of gemmgen list schemes

[target]
gpu = "{gpu}"
"""
STUDY = """\
# A study on the {title}: kernels are proposed, compiled, judged, and timed where the GPU is at hand.
#     gemmgen study run {file} --dry-run             how many candidates there are, and how long it takes
#     gemmgen study run {file}                       try them; again: go on where it stopped
#     gemmgen study report explore-out/{name}        the trials as a page
# Every key: gemmgen list schema --study

[study]
name = "{name}"
gpus = ["{gpu}"]
sizes = [1024, 4096, [256, 4096, 4096]]     # 1024 is 1024x1024x1024; else m, n, k
trials = 40
seconds = 600

[space.split]
scheme = ["scaled", "half"]                 # of gemmgen list schemes; whatever [space] leaves open is searched

[accept]
relative_frobenius = 1e-3                   # kernels with a larger error are not timed
"""
LIBRARY = """\
# A library of kernels for the {title} behind one C interface.
#     gemmgen library {file} --dry-run       which kernels are chosen, and what that is worth
#     gemmgen library {file} -o {name}/      the folder: CMake builds it with a C compiler
# Every key: gemmgen list schema --library

name = "{name}"
gpus = ["{gpu}"]                            # several, of one vendor, make one library for all
layouts = ["nn", "nt", "tn", "tt"]
kernels_at_most = 16
sizes = [[1024, 1024, 1024], [4096, 4096, 4096], [256, 4096, 4096]]     # what the choice is for; all others are served, too

[[use]]
scheme = "scaled"                           # of gemmgen list schemes
"""
TEXTS = {Starter.kernel: KERNEL, Starter.study: STUDY, Starter.library: LIBRARY}
NEXT = {Starter.kernel: "gemmgen verify {file}", Starter.study: "gemmgen study run {file} --dry-run", Starter.library: "gemmgen library {file} --dry-run"}


@verb(
    WORLD,
    "gemmgen init kernel",
    "gemmgen init kernel --gpu h100 -o my_kernel.toml",
    "gemmgen init study --gpu my_gpu/my_gpu.toml",
    "gemmgen init library --gpu mi300x -o lab.toml",
    start="write a first spec, for the GPU that is here",
)
def init(
    what: Annotated[Starter, typer.Argument(metavar="KIND", help="kernel, study or library.")],
    gpu: Annotated[str | None, typer.Option("--gpu", metavar="NAME", autocompletion=names("gpus"), help=(
        f"For this GPU, a name of gemmgen list gpus or a file; default: the one that is here, else {DEFAULT_GPU}."))] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help=(
        "The file; default: KIND.toml. One that exists is never changed."))] = None,
    as_json: Json = False,
) -> int:
    """Write a first spec, study or library file for a GPU.

    It says in comments what its keys mean and what to type next.
    """
    from gemmgen.catalog.gpu import GPUS

    path = output or Path(f"{what.value}.toml")
    if path.suffix != ".toml":
        raise SpecError("--output", "is not the name of a spec", got=str(path), needs="a name that ends in .toml", remedy=f"-o {path}.toml")
    if os.path.lexists(path):
        raise SpecError(str(path), "exists, and init changes no file", needs="a new name", remedy=f"-o my_{path.name}")
    row = GPUS.get(gpu, where="--gpu") if gpu else _here()
    if row is None:
        note(f"no GPU that gemmgen knows is here: written for the {DEFAULT_GPU}; --gpu NAME is another", quiet=as_json)
        row = GPUS.get(DEFAULT_GPU)
    named = os.path.relpath(gpu, path.parent) if gpu and gpu.endswith(".toml") else row.name
    [written] = write_paths({path: starter(what, row, named, path)}, rows=True)
    following = NEXT[what].format(file=shlex.quote(str(written)))
    emit_json({"file": str(written), "gpu": named, "next": following}) if as_json else emit(f"wrote {written} for the {row.title}\nnext  {following}")
    return EXIT_OK


def starter(what: Starter, gpu: Gpu, named: str, path: Path) -> str:
    """The text of a starter file.

    Args:
        named: how the file names the GPU's row.
        path: where it will lie.
    """
    name = re.sub(r"[^a-z0-9_]", "_", path.stem.lower())[:40]
    return TEXTS[what].format(title=gpu.title, gpu=named, file=shlex.quote(str(path)), name=name if re.match("[a-z]", name) else f"my_{name}"[:40])


def _here() -> Gpu | None:
    """The row of the first GPU of this machine that a row describes; None where there is none."""
    from gemmgen.catalog.gpu import GPUS
    from gemmgen.doctor import gpus_here

    return next((GPUS.get(one["row"]) for one in gpus_here() if one["row"]), None)
