"""A kernel as another project embeds it: a folder that needs nothing of gemmgen.

    export(plan, source, binary, "third_party/sgemm", name="my_sgemm")

writes the kernels with a C launcher, its header, their machine code (a cubin, or a
code object for each architecture of AMD's), a manifest that is enough to launch that
without either, and the files that build, install and try it. The same plan gives
the same bytes; only the machine code depends on the compiler, which the manifest
names.

Sizes, workspace and arguments are the source's table (`gemmgen.abi`), read by the C text and by the
manifest alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gemmgen.catalog.gpu import GPUS
from gemmgen.catalog.output import require_f32
from gemmgen.catalog.reserved import reserved
from gemmgen.errors import GemmgenError, SpecError
from gemmgen.export import contents, folder
from gemmgen.files import resolved
from gemmgen.plan import Plan
from gemmgen.render import Source

if TYPE_CHECKING:
    from gemmgen.build import Binary

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def default_name(plan: Plan) -> str:
    return f"gemmgen_{plan.scheme.name}_{plan.layout}_{plan.hash}"


def check_name(name: str) -> None:
    """Whether `name` will do for functions, files and a CMake target.

    Raises:
        SpecError: it will not.
    """
    needs = "a C identifier of at most 63 characters that begins with a letter and has no two underscores in a row"
    if not _NAME.fullmatch(name) or "__" in name:
        raise SpecError("--name", "is not an identifier", got=name, needs=needs, remedy="--name my_sgemm")
    if reserved(name):
        raise SpecError("--name", "means something to C, C++, CUDA, HIP or CMake already", got=name, needs=f"{needs}, and means nothing yet",
                        remedy=f"--name my_{name}")


def target_archs(plan: Plan, asked: Iterable[str]) -> list[str]:
    """The architectures to compile a plan's kernels for: its own, then the others of `asked`.

    Raises:
        SpecError: another vendor's or a cubin's, one without the plan's matrix instruction, or one of no known GPU.
    """
    others = [arch for arch in dict.fromkeys(asked) if arch != plan.arch]
    known = {gpu.arch for gpu in GPUS.rows()}  # whose matrix units the error bound needs
    possible = [arch for arch in plan.fragment.archs or () if arch in known] or [plan.arch]
    for arch in others:
        if arch not in possible:
            raise SpecError(
                f"--arch {arch}", f"does not run this plan's kernels ({plan.fragment.instruction})", got=arch,
                needs="one of: " + ", ".join(possible), remedy="another spec or --gpu for this architecture",
            )
    return [plan.arch, *others]


def _refuse_packed(plan: Plan) -> None:
    """Kernels of such batches need a workspace and a list of products that exported C does not make yet."""
    if plan.packs_products:
        raise SpecError(
            "export", "writes no kernels for batches whose words are packed first", got=f"kind {plan.kind} on policy {plan.fragment.policy}",
            needs="a kernel that splits on the way, or a strided batch", remedy=f'[fragment] policy = "{plan.gpu.portable_policy}", or kind = "strided"',
        )


def export(
    plan: Plan, source: Source, binary: Binary, directory: str | Path, *, others: Sequence[Binary] = (),
    name: str | None = None, force: bool = False, refused: Sequence[Mapping[str, Any]] = (),
) -> list[Path]:
    """Write the folder; all of it, or nothing.

    Args:
        binary: the source's machine code for the plan's own architecture.
        others: the same for the further ones of `target_archs`.
        directory: the folder to make. One that is there already must be empty or an earlier
            export, which is replaced; files that are not an export's own are never touched.
        name: prefix of the C functions and name of the library.
        force: put the files into a folder that holds others, and over files of the same names.
        refused: what the compiler refused before it took this plan, for the manifest.

    Returns:
        The files, sorted.

    Raises:
        SpecError: the name will not do, C is not of FP32, or the kernels are for a batch whose words are packed first.
        GemmgenError: the folder holds something else, or cannot be written.
    """
    name = default_name(plan) if name is None else name
    check_name(name)
    require_f32(plan.output, "exported C has")
    _refuse_packed(plan)
    target = Path(directory)
    try:
        final = resolved(target)
        stale = folder.replaceable(target, force)
        files = contents.all_files(plan, source, [binary, *others], name, refused)
        folder.write(final, files, stale)
    except OSError as error:
        raise GemmgenError(str(target), "cannot be written", got=error.strerror or str(error),
                           needs="a writable place with room", remedy="another -o, or other permissions") from None
    return sorted(target / file for file in files)
