"""A kernel as another project embeds it: a folder that needs nothing of gemmgen.

    export(plan, source, binary, "third_party/sgemm", name="my_sgemm")

writes the kernels with a C launcher, its header, their machine code (a cubin or code
object for each architecture), a manifest that is enough to launch that
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
from gemmgen.errors import SpecError
from gemmgen.export import contents, folder
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


def possible_archs(plan: Plan) -> list[str]:
    """The architectures that run a plan's kernels, oldest first: of GPUs of its vendor in the catalog, whose matrix units the error bound needs.

    They have the plan's matrix instructions and as much shared memory as its kernels ask for. Where fragments tell the first
    architecture that has them, kernels are written for the plan's own and later ones.
    """
    instructions = {rows.fragment.name: rows.fragment for rows in plan.staging.rows_of.values()}.values()
    found = {
        gpu.arch: gpu.arch_number for gpu in GPUS.rows()
        if gpu.vendor == plan.gpu.vendor and all(one.runs_on(gpu.arch) and not one.arch for one in instructions)
        and all(one.word == "f32" or one.word in gpu.unit.words for one in instructions)
        and (gpu.maker.lists_targets or gpu.arch_number >= plan.gpu.arch_number)
        and plan.shared_bytes <= gpu.limits.shared_bytes_per_block and gpu.limits.warp_size == plan.lanes
    }
    return sorted({plan.arch: plan.gpu.arch_number, **found}, key=lambda arch: found.get(arch, plan.gpu.arch_number))


def target_archs(plan: Plan, asked: Iterable[str]) -> list[str]:
    """The architectures to compile a plan's kernels for: its own, then the others of `asked`, oldest first.

    Raises:
        SpecError: one that does not run them, or of no known GPU.
    """
    possible = possible_archs(plan)
    others = sorted({arch for arch in asked if arch != plan.arch}, key=lambda arch: possible.index(arch) if arch in possible else -1)
    for arch in others:
        if arch not in possible:
            asks = f"{plan.fragment.instruction}, {plan.shared_bytes} B of shared memory"
            raise SpecError(
                f"--arch {arch}", f"does not run this plan's kernels ({asks}), or no GPU of it is in the catalog", got=arch,
                needs="one of: " + ", ".join(possible), remedy="another spec or --gpu for this architecture",
            )
    return [plan.arch, *others]


def _refuse_packed(plan: Plan) -> None:
    """Kernels of such batches need a workspace and a list of products that exported C does not make yet; it has no arrays of pointers beside a workspace."""
    if plan.launches.packs_products or plan.launches.repeated and plan.kind.indirect:
        other = "a kernel of `gemmgen library`, which takes arrays of pointers" if plan.scheme.family.residues else \
            f'[fragment] policy = "{plan.gpu.portable_policy}"'
        lacking = "a list of all products with the first tile and the first panel of each, which the host makes before it launches" \
            if plan.launches.packs_products else "arrays of addresses beside a workspace, where exported C passes one address of A, B and C"
        raise SpecError(
            "export", f"writes no kernels for batches whose words are packed first: they take {lacking}",
            got=f"kind {plan.kind} on policy {plan.fragment.policy}",
            needs="a kernel that splits on the way, or a strided batch", remedy=f'kind = "strided", or {other}',
        )


def _refuse_ended_batches(plan: Plan) -> None:
    """The exported C of products that are told one by one says and checks C = alpha A B + beta C alone."""
    if plan.launches.of_products and plan.epilogue:
        raise SpecError(
            "export", "writes no kernels with an epilogue for products that are listed one by one", got=f"[epilogue] do = {plan.epilogue.names}",
            needs="one product, or a strided batch", remedy='leave [epilogue] out, or kind = "strided" with design = "auto"',
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
        SpecError: the name will not do, C is of another type than A and B, or the kernels are for a batch whose words are packed first, or that has an
            epilogue and products that are told one by one.
        GemmgenError: the folder holds something else, or cannot be written.
    """
    name = default_name(plan) if name is None else name
    check_name(name)
    if plan.type.is_usual:
        require_f32(plan.output, "exported C has")
    _refuse_packed(plan)
    _refuse_ended_batches(plan)
    return folder.put(directory, force, lambda: contents.all_files(plan, source, [binary, *others], name, refused))
