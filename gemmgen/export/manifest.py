"""The manifest: enough to launch the machine code without the C text."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gemmgen import __version__
from gemmgen.interface import COUNTER_BYTES, WORKSPACE_ALIGNMENT
from gemmgen.designs import all_decisions
from gemmgen.export import batch, prose
from gemmgen.kinds import solves
from gemmgen.plan import Plan
from gemmgen.render import Source
from gemmgen.verify import standing
from gemmgen.verify.record import resources

if TYPE_CHECKING:
    from gemmgen.build import Binary

SCHEMA_VERSION = 1
NEWEST_SCHEMA = 2
"""Of a folder's manifest: a library's."""
MANIFEST = "manifest.json"


def code_ending(plan: Plan, archs: Sequence[str], arch: str) -> str:
    """How the name of the file with the machine code for `arch`, one of `archs`, ends: where there may be several, it tells which it is."""
    _, suffix = plan.gpu.maker.files.code_suffixes
    return f"_{arch}{suffix}" if plan.gpu.maker.files.code_per_arch or len(archs) > 1 else suffix


def decided(plan: Plan) -> dict[str, Any]:
    """Every decision that any design has, as plain data; one that the plan's design does not have as it is without."""
    return {one.name: list(value) if isinstance(value := getattr(plan, one.name), tuple) else value for one in all_decisions()}


def manifest(plan: Plan, source: Source, binaries: Sequence[Binary], name: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    stored, binary, archs = prose.stored(plan), binaries[0], [binary.arch for binary in binaries]
    interface = source.interface
    largest_grid, _ = prose.largest_grid(plan, source)
    zero = "before the first launch, from the start to the end of the last region marked zeroed"
    return {
        "schema_version": SCHEMA_VERSION,
        "generator": f"gemmgen {__version__}",
        "name": name,
        "computes": f"{plan.kind.formula} in {plan.kind.element_of(plan.type).title}" + (f", and of that {plan.epilogue.title}" if plan.epilogue else "")
        + "; with beta = 0 C is not read" + (
            "; of all products of a batch, whose matrices of C lie apart, each stride elements after the one before" if plan.launches.repeated else ""),
        "kernel": source.name,
        "plan": {
            "hash": plan.hash, "layout": plan.layout, "scheme": plan.scheme.name, "fragment": plan.fragment.name, "special": plan.special,
            "design": plan.design.name, **decided(plan), **interface.constants, **({"asked": list(plan.asked)} if plan.asked else {}),
            **({"kind": plan.kind.name, **plan.kind.options} if plan.launches.repeated or not plan.kind.plain else {}),
            **({"epilogue": plan.epilogue.names} if plan.epilogue else {}),
        },
        "target": {"vendor": plan.gpu.vendor, "arch": binary.arch, "gpu": plan.gpu.name},
        "compiler": binary.compiler,
        **({"standing": told} if (told := standing(plan)) else {}),
        **_code_objects(plan, source, binaries, name),
        "operands": {
            x: {"type": plan.inputs.elements_of(x), "order": "row major", "rows": at["rows"], "columns": at["columns"],
                **({"holds": plan.inputs.stored_b.name} if x == "b" and not plan.inputs.stored_b.is_usual else {}),
                "leading_dimension": f"ld{x}", **({"stride": f"stride_{x}"} if plan.launches.repeated else {})}
            for x, at in {**stored, "c": {"rows": "m", "columns": "n"}}.items()
            if x not in plan.kind.aliases and not (plan.kind.solves and x not in (plan.solved.name, "c"))
        },
        "limits": {
            "largest_extent": prose.LARGEST_EXTENT // plan.kind.reals, "largest_grid": largest_grid,
            **({"largest_k": plan.scheme.family.largest_k // plan.kind.reals} if plan.scheme.family.largest_k else {}),
        },
        "alignment": {"operands": plan.inputs.stored_b.bytes, "operands_fastest": 16, "workspace": WORKSPACE_ALIGNMENT},
        **({"aliases": dict(plan.kind.aliases)} if plan.kind.aliases else {}),
        **({"tiles": {"count": plan.kind.tiles.count, "TILE_M": plan.block[0] * plan.cluster, "TILE_N": plan.block[1],
                      "rule": "tiles_m = ceil(m / TILE_M), tiles_n = ceil(n / TILE_N), integer arithmetic"}} if plan.kind.tiles else {}),
        **({"reals": {"count": plan.kind.reals, "rule": (
            "an element is so many numbers, its parts; what follows is of the real product: its n, k, lda, ldb and ldc are so many times those of the call, "
            "alpha and beta the real parts, alpha_i and beta_i the imaginary ones"
        )}} if plan.kind.reals > 1 else {}),
        **({"rounds": _rounds(plan)} if plan.kind.solves else {"exchanged": _exchanged(plan)} if plan.kind.exchanged else {}),
        "padded": {extent: {"of": of, "multiple": unit} for extent, (of, unit) in interface.padded.items()},
        "workspace": {
            "rule": "regions follow one another; each begins at a multiple of the alignment and has bytes = factor / per * "
                    "product of extents, or none where k is not above its above_k; the whole is a multiple of the alignment, too; "
                    "where C has no elements, all extents count as 0",
            "alignment": WORKSPACE_ALIGNMENT,
            "zero": batch.zero_rule(plan) if batch.serves(plan) else zero,
            "regions": [
                {"name": r.name, "element": r.element, "factor": r.factor, "extents": list(r.of), "per": r.per, "zeroed": r.zeroed,
                 **({"above_k": r.above_k} if r.above_k else {}), "meaning": r.meaning}
                for r in interface.buffers
            ],
        },
        "status": [
            {"name": field.name, "offset": counters.offset + COUNTER_BYTES * i, "type": "unsigned long long", "meaning": field.meaning}
            for counters in interface.counters for i, field in enumerate(counters.fields)
        ],
        "launch_rule": "in this order, one-dimensional: blocks = sum over grid of the products of ceil(extent / tile), at most "
                       "largest_grid; where there are more than most_blocks, launch most_blocks; skip a launch of 0 blocks; "
                       "where alpha = 0, launch as if k = 0, because A and B are not to be read",
        "launches": [
            {
                "symbol": launch.symbol, "role": launch.role,
                "grid": [[{"extent": extent, "tile": tile} for extent, tile in product] for product in launch.grid],
                "terms_same_b": None if launch.same_b is None else len(launch.same_b),
                "most_blocks": launch.most_blocks, "cluster": launch.cluster, "overlaps": launch.overlaps,
                "threads": launch.threads, "dynamic_shared_bytes": launch.shared_bytes,
                "static_shared_bytes": binary.kernels[launch.symbol].static_shared_bytes,
                "registers": binary.kernels[launch.symbol].registers,
                "params": [
                    {"name": p.name, "type": p.type, "value": p.value, "meaning": p.meaning} for p in launch.parameters
                ],
            }
            for launch in interface.launches
        ],
        "bound": {
            "statement": f"where {prose.promise(plan)}: worst_case bounds |{prose.residual(plan)}| / {prose.measure(plan)} of every element, of k "
                         "unknowns; both_signs and one_sign are what the norms' ratio is expected to stay below" if plan.kind.solves else
                         f"where {prose.promise(plan)}: worst_case bounds |C - C*| / {prose.measure(plan)} of every "
                         "element; both_signs and one_sign are what ||C - C*||_F / ||C*||_F is expected to stay below for data of "
                         "mean zero and for data of one sign"
                         + f"; |C - C*| may exceed the first by {prose.underflow_text(plan, archs)}, where numbers leave {plan.type.title}'s normal range",
            "rows": prose.bounds(plan, archs),
        },
        **(batch.manifest_values(plan) if batch.serves(plan) else {}),
        "sha256": {"kernels": source.hash, **{file: hashlib.sha256(content).hexdigest() for file, content in files.items()}},
    }


def _exchanged(plan: Plan) -> str:
    """How a kind that sums two products runs its launches."""
    conjugated = "alpha conjugated (alpha_i negated), " if plan.kind.hermitian else ""
    return (f"all launches, then, unless k or alpha is 0, all launches again with a and b, lda and ldb exchanged, {conjugated}beta = 1; regions marked zeroed "
            "are zeroed before the first launch, and those behind the status again before the second round: the status counts both")


def _rounds(plan: Plan) -> dict[str, Any]:
    """How a kind that solves runs its launches; its arguments are m, n, alpha, the triangle and C."""
    size, x = plan.kind.aliases["k"], plan.solved.name
    square = f"{x} + row * ld{x} + kk" if plan.solved.k_contiguous else f"{x} + kk * ld{x} + row"
    c, extent = ("c + first * ldc", "m") if plan.kind.left else ("c + first", "n")
    at = "before" if plan.kind.below else f"{size} - end"
    other, beside = ("b", "ldb") if plan.kind.left else ("a", "lda")
    return {
        "block": solves.BLOCK, "unknowns": size, "triangle": x, "below": plan.kind.below, "contiguous": plan.solved.k_contiguous,
        "rule": f"unknowns are counted as they are solved: those [before, end) begin at first = {at} in memory, C's at {c}, the triangle's element of row "
                f"and kk at {square}. For i = 1, 2, ...: launches of role solve with k = {extent} = the unknowns [(i - 1) block, i block) that there are, {x} "
                "at row = kk = first, alpha for i = 1, else 1; then, if unknowns are left and alpha is not 0, all other launches, for the product by which the "
                "unknowns [i block - count block, i block) serve [i block, i block + count block), count being the largest power of two that divides i: "
                f"{extent} are those served, k those that serve, {x} at row and kk where each begin, {other} in C where the serving ones begin, "
                f"{beside} = ldc, c where the served ones begin, alpha = -1, beta = 1, or alpha where i = count. The workspace is laid out once, for the "
                "largest of each extent that a product has; regions marked zeroed are zeroed before the first launch, and those behind the status again before "
                "each further product"
                + (f"; of a batch each launch is for all systems: stride_{other} is C's, and strides are those of the call" if plan.launches.repeated else ""),
    }


def _code_objects(plan: Plan, source: Source, binaries: Sequence[Binary], name: str) -> dict[str, Any]:
    """The files of machine code, where there may be several."""
    archs = [binary.arch for binary in binaries]
    if not plan.gpu.maker.files.code_per_arch and len(archs) == 1:
        return {}
    return {
        "code_objects": [
            {
                "arch": binary.arch, "file": name + code_ending(plan, archs, binary.arch),
                "kernels": {launch.symbol: resources(binary.kernels[launch.symbol]) for launch in source.launches},
            }
            for binary in binaries
        ],
    }
