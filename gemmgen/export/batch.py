"""What an export of a batch has of its own: its C functions and their codes, its tiles, what its manifest tells besides.

A kernel that has several tiles takes a whole batch in one launch. The C text beside it chooses tiles on the host as
`gemmgen.model.batch` does, so that a program without Python has the list that such a launch may need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gemmgen.interface import STATUS
from gemmgen.batch import PROBLEM
from gemmgen.export import prose
from gemmgen.plan import Plan
from gemmgen.render import Source

LARGEST_BATCH = 1 << 24
"""Products of a batch; the host's tiling sorts them by a number of so many values."""
WIDTH = 110
"""Characters of a line of parameters."""
EXAMPLE_SIZES = ((1, 1, 1), (300, 200, 500), (64, 64, 64), (17, 130, 33), (0, 40, 8), (129, 65, 257), (40, 24, 0), (16, 500, 100))
"""m, n, k of the example's products, one of which has no C and one nothing to sum."""
EXAMPLE_SIZE = (129, 65, 257)
EXAMPLE_PRODUCTS = 7
"""Of one size."""

_SPOKEN = {"alpha": "1.0f", "beta": "0.0f", "problems": "device_problems", "list": "device_list", "workspace_bytes": "bytes"}
"""What the README passes for an argument."""
_LIST_FIELDS = ("entry", "m0", "n0", "tile")
_EXTENT = "below 0 or above the largest extent"
_PITCH = "below a row's length"
_OF_PRODUCTS = (("M", -21), ("N", -22), ("K", -23), ("A", -24), ("LDA", -25), ("B", -26), ("LDB", -27), ("C", -28), ("LDC", -29))
_REASONS = {
    "M": _EXTENT, "N": _EXTENT, "K": _EXTENT, "LDA": f"{_PITCH}, below 1, or not a 32-bit integer", "LDB": f"{_PITCH}, below 1, or not a 32-bit integer",
    "LDC": f"{_PITCH}, below 1, or not a 32-bit integer", "STRIDE_C": "two matrices of C would overlap", "BATCH": "below 0 or above the largest batch",
    "WORKSPACE": "NULL, or not aligned", "WORKSPACE_BYTES": "less than {bytes}", "LIST": "NULL, and there are tiles, or not aligned to 16 bytes",
    "COUNT": "below 0, more than a launch may have, or not what this batch has; of {name}_tiles() NULL, or a capacity below 0",
    "PROBLEMS": "NULL, and there are products, or not aligned to 16 bytes; of {name}_tiles(), a size below 0 or above the largest",
}


def serves(plan: Plan) -> bool:
    """Whether the plan's kernel takes a whole batch with tiles of several sizes."""
    return bool(plan.batch and plan.batch.tiles)


@dataclass(frozen=True)
class Argument:
    """One of the C function that launches.

    Attributes:
        declared: with its type, as C.
        code: what its code is called, or nothing where it cannot be refused.
    """

    name: str
    declared: str
    code: str | None = None

    @classmethod
    def of(cls, declared: str, refused: bool = True) -> Argument:
        name = declared.rpartition(" ")[2].lstrip("*")
        return cls(name, declared, name.upper() if refused else None)


def entry(plan: Plan, name: str) -> str:
    """The C function that launches: where a list has to be made before, it says so."""
    return name if plan.batch.walk == "persistent" else f"{name}_listed"


def arguments(plan: Plan, name: str) -> tuple[Argument, ...]:
    """Of the function that launches, in order."""
    kind = plan.kind
    of = Argument.of
    if not kind.uniform:
        told = [of(f"const {name}_problem *problems"), of("int batch")]
    else:
        element = plan.type.c_type
        pointer = {"a": f"const {element} *const *a", "b": f"const {element} *const *b", "c": f"{element} *const *c"} if kind.indirect else {
            "a": f"const {element} *a", "b": f"const {element} *b", "c": f"{element} *c"}

        def matrix(x: str) -> list[Argument]:
            stride = [of(f"int64_t stride_{x}", x == "c")] if kind.strides else []
            return [of(pointer[x]), of(f"int64_t ld{x}"), *stride]

        told = [of("int m"), of("int n"), of("int k"), of("float alpha", False), *matrix("a"), *matrix("b"), of("float beta", False), *matrix("c"),
                of("int batch")]
    if plan.batch.walk == "workgroups":
        told += [of(f"const {name}_tile *list"), of("int64_t count")]
    return (*told, of("void *workspace"), of("size_t workspace_bytes"), of("void *stream", False))


def codes(plan: Plan, name: str, grid_limit: str, nbytes: int) -> list[tuple[str, int, str]]:
    """(name, value, meaning) of what is refused: -i is argument i of the function that launches; further ones are of the host's functions."""
    own = {
        "A": "NULL, and A is to be read, or not aligned", "B": "NULL, and B is to be read, or not aligned", "C": "NULL, and C has elements, or not aligned",
    }
    if plan.kind.indirect:
        own = dict.fromkeys("AB", "NULL, and C has elements, or an array of pointers that is not aligned to 8 bytes") | {
            "C": "NULL, and C has elements, or an array of pointers that is not aligned to 8 bytes, or one of them is not to 4"}
    reasons = {code: reason.format(name=name, bytes=f"the {nbytes} that are needed") for code, reason in (_REASONS | own).items()}
    told = [(f"BAD_{one.code}", -at, reasons[one.code]) for at, one in enumerate(arguments(plan, name), 1) if one.code]
    if not plan.kind.uniform:
        told += [(f"BAD_{code}", value, f"of a product: {_PITCH if code.startswith('LD') else reasons[code]}") for code, value in _OF_PRODUCTS]
    if plan.batch.walk == "persistent":
        told.append(("BAD_COUNT", -31, "NULL, or a capacity below 0"))
    told.append(("TOO_LARGE", -100, f"more tiles than a launch may have ({grid_limit})"))
    told.append(("LIST_TOO_SMALL", -101, "the batch has more tiles than the list has room for"))
    if not plan.kind.strides:
        told.append(("OVERLAP", -102, "two products write the same place of C"))
    return told


def _filled(parts: list[str], indent: int) -> str:
    """Parameters on as many lines as they need."""
    lines, line = [], ""
    for at, part in enumerate(parts):
        part += "," if at + 1 < len(parts) else ""
        if line and len(line) + 1 + len(part) > WIDTH:
            lines.append(line)
            line = ""
        line += (" " if line else "") + part
    return ("\n" + " " * indent).join([*lines, line])


def template_values(plan: Plan, source: Source, archs: Sequence[str], name: str) -> dict[str, Any]:
    """What the templates of a batch read beside the others' values, as `batch`."""
    batch, own, interface = plan.batch, plan.own, source.interface
    [launch] = source.launches
    workspace = interface.workspace(0, 0, 0)
    told = arguments(plan, name)
    unread = {"stream", "beta", "stride_a", "stride_b"} | (set() if plan.kind.strides else {"alpha"})
    checked = [one for one in told if one.name not in unread]
    limit, grid_limit = prose.largest_grid(plan, source)
    stays = batch.walk == "persistent"
    space = f"gemmgen_{plan.hash}"

    def expression(parameter: Any) -> dict[str, str]:
        if parameter.region is not None:
            return {"type": parameter.type, "expression": f"(base + {workspace.offsets[parameter.region] + parameter.offset})"}
        if parameter.argument == "threshold":
            return {"type": parameter.type, "expression": str(own.threshold)}
        own_type = parameter.element in ("Problem", "Listed")
        kind = f"const {space}::{parameter.element}*" if own_type else parameter.type
        return {"type": kind, "expression": parameter.argument}

    listed = codes(plan, name, grid_limit, workspace.bytes)
    powers = all(not x & (x - 1) for tile in batch.tiles for x in (tile.m, tile.n))
    sizes = (EXAMPLE_SIZE,) * EXAMPLE_PRODUCTS if plan.kind.uniform else EXAMPLE_SIZES
    return {
        "kind": plan.kind, "walk": batch.walk, "lanes": plan.lanes, "tlp": batch.tlp, "tiles": batch.tiles, "threshold": own.threshold,
        "most_counted": own.most_counted,
        "enough": -(-own.threshold // plan.lanes), "wavefronts": list(own.tile_wavefronts),
        "shifts": [[getattr(tile, x).bit_length() - 1 for tile in batch.tiles] for x in "mn"] if powers else None,
        # A turn's number and those of blocks that look for one beyond the last are 32-bit integers.
        "most_tiles": min(limit, 2**31 - 1 - (2 * launch.most_blocks if stays else 0)),
        "per_list": products_of_a_list(plan), "checks": not plan.kind.strides, "entry": entry(plan, name), "arguments": told,
        "parameters": _filled([one.declared for one in told], 4), "checked": _filled([_const(one) for one in checked], 4),
        "passed": ", ".join(one.name for one in checked), "called": _filled([_SPOKEN.get(one.name, one.name) for one in told], 8),
        "given": [expression(one) for one in launch.parameters],
        "codes": listed,
        "spoken": {code: code.removeprefix("BAD_").lower() if code.startswith("BAD_") else code.lower().replace("_", " ") for code, *_ in listed},
        "workspace_bytes": workspace.bytes, "zeroed": workspace.zeroed, "largest": LARGEST_BATCH,
        "pointer_alignment": 8 if plan.kind.indirect else 4,
        "operands_needed": "written" if plan.kind.indirect else "read",
        "example": {"sizes": sizes, "bounds": [prose.rounded_up(prose.coefficients(plan, k, archs).scaled) if k else 0.0 for _, _, k in sizes]},
    }


def _const(argument: Argument) -> str:
    """As the function that checks takes it, which writes nothing."""
    return {"workspace": "const void *workspace", "c": argument.declared if "*const" in argument.declared else "const float *c"}.get(
        argument.name, argument.declared)


def products_of_a_list(plan: Plan) -> int | None:
    """Products whose tiles are chosen together where blocks make the list themselves; None: all."""
    return plan.own.listed if plan.batch.walk == "persistent" and not plan.kind.uniform else None


def manifest_values(plan: Plan) -> Mapping[str, Any]:
    """What a manifest tells of a batch, and what it tells otherwise than of one product."""
    batch, c_types = plan.batch, {"u8": "address", "i4": "int", "f4": "float"}
    stays = batch.walk == "persistent"
    blocks = ("one-dimensional: `most_blocks` blocks, or fewer, which is what the argument `blocks` tells the kernel; skip it where batch is 0"
              if stays else "one-dimensional: a block for each entry of `list`, at most largest_grid; skip it where there is none")
    return {
        "computes": "for each product of a batch: C = alpha A B + beta C in FP32; with beta = 0 C is not read",
        "launch_rule": blocks,
        "batch": {
            "kind": plan.kind.name, "walk": batch.walk, "tlp": batch.tlp, "threshold": plan.own.threshold, "lanes": plan.lanes,
            "most_counted": plan.own.most_counted,
            "products_of_a_list": products_of_a_list(plan), "largest_batch": LARGEST_BATCH,
            "tiles": [{"m": tile.m, "n": tile.n, "k": tile.k, "threads": tile.threads, "wavefronts": count}
                      for tile, count in zip(batch.tiles, plan.own.tile_wavefronts)],
            "problem": {"bytes": PROBLEM.itemsize, "alignment": 16, "fields": [
                {"name": field, "offset": PROBLEM.fields[field][1],
                 "type": "reserved" if field == "reserved" else c_types[PROBLEM.fields[field][0].str[1:]]} for field in PROBLEM.names
            ]} if not plan.kind.uniform else None,
            "entry": None if stays else {"bytes": 16, "alignment": 16, "fields": [
                {"name": field, "offset": 4 * at, "type": "int"} for at, field in enumerate(_LIST_FIELDS)]},
        },
    }


def zero_rule(plan: Plan) -> str:
    """When a workspace is zeroed."""
    queue = ", and each launch leaves the queue zero" if plan.batch.walk == "persistent" else ""
    return (f"once, before the first launch in this workspace, from the start to the end of the last region marked zeroed; {STATUS} counts on from "
            f"launch to launch{queue}")
