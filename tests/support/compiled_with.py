"""What the NVRTC of `$GEMMGEN_NVRTC` makes of specs, as JSON; a process of its own, since two NVRTCs do not share one.

    GEMMGEN_NVRTC=.../libnvrtc.so.12 python tests/support/compiled_with.py [NAME ...]

Names are those of shipped specs and of OPEN; none are all.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ways import shipped

from gemmgen.build import build, first_that_builds
from gemmgen.build.nvrtc import find_compiler
from gemmgen.errors import GemmgenError, ResourceError
from gemmgen.render import render
from gemmgen.solve import solve
from gemmgen.solve.settled import settled_spec
from gemmgen.spec import LoadedSpec, loads

OPEN = {
    "f16x6, mixed": {"split": {"scheme": "f16x6", "where": "mixed"}, "target": {"gpu": "h200"}},
    "strided, nt": {
        "problem": {"kind": "strided", "layout": "nt", "m": 1024, "n": 1024, "k": 256, "matrices": 256}, "split": {"scheme": "ootomo"}, "target": {"gpu": "h200"},
    },
}
"""Specs beside the shipped ones whose first choice spills with some compilers and not with others."""


def outcome(loaded: LoadedSpec) -> dict[str, Any] | None:
    """What became of a spec, and of the first of its choices that was refused, pinned by a spec that leaves nothing open. None for AMD's."""
    plan = solve(loaded)
    if plan.gpu.vendor != "nvidia":
        return None
    try:
        built = first_that_builds(loaded)
    except GemmgenError as error:
        return {"arch": plan.gpu.arch, "error": error.as_dict(), "kernels": {render(plan).name: False} if isinstance(error, ResourceError) else {}}
    kernels = built.binary.kernels
    answer: dict[str, Any] = {
        "arch": plan.gpu.arch, "compiler": built.binary.compiler, "spills": sum(used.spill_bytes for used in kernels.values()),
        "allows": built.plan.allow_spills, "refused": [str(one) for one in built.refused],
        "kernels": {one.kernel: False for one in built.refused} | {built.source.name: True},
        "registers": kernels[built.source.name].registers, "predicted": built.plan.predicted_registers,
    }
    if built.refused:
        try:
            build(render(solve(loads(settled_spec(loaded, built.refused[0].plan)))))
        except GemmgenError as error:
            answer["pinned"] = error.as_dict()
    return answer


def main() -> None:
    compiler = find_compiler()
    specs = shipped() | {name: loads(spec) for name, spec in OPEN.items()}
    asked = sys.argv[1:] or list(specs)
    outcomes = {name: found for name in asked if (found := outcome(specs[name]))}
    print(json.dumps({"name": compiler.name, "archs": compiler.archs, "outcomes": outcomes}))


if __name__ == "__main__":
    main()
