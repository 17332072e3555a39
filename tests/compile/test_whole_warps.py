"""Every kernel's machine code brings the lanes of a warp together before each barrier, shuffle and matrix instruction.

PTX and the emulator do not show it where a compiler leaves that out: only machine code does, and a GPU, not every time.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ways import SHARED_PASSES, WAYS, plan_of, shipped, solved

from gemmgen.build import build, compile_cuda
from gemmgen.build.convergence import apart
from gemmgen.build.sass import disassemble, find_disassembler
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import BuildError
from gemmgen.render import render

GENERATED = Path(__file__).resolve().parents[2] / "generated"


@pytest.fixture(autouse=True)
def disassembler():
    try:
        find_disassembler()
    except BuildError as error:
        pytest.skip(f"nvdisasm {error.problem}; {error.remedy}")


def told(plan) -> str:
    return "\n".join(map(str, apart(disassemble(build(render(plan)).code))))


def test_a_kernel_of_clusters_is_disassembled_and_right():
    """Barriers of a block and of a cluster, shuffles and warpgroups, in short; it has source lines, so that a fault would have its own."""
    text = disassemble(build(render(plan_of(**WAYS["warpgroups, clusters"]))).code)
    assert all(part in text for part in (" BAR.SYNC", " UCGABAR_WAIT", " SHFL.BFLY", " HGMMA", " BSYNC", "//## File")) and not apart(text)


NOT_PROVEN = {
    "trsm_h200": "lanes part where alpha, k and counters that begin at constants are compared, read by eye the same in all lanes; the analysis does not see it",
}


@pytest.mark.long
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=NOT_PROVEN[name]) if name in NOT_PROVEN else ())
    for name, loaded in shipped().items() if GPUS.get(loaded.spec.target.gpu).vendor == "nvidia"
])
def test_every_shipped_kernel_keeps_warps_whole(name):
    assert told(solved(shipped()[name])) == ""


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_so_does_every_way(way):
    assert told(plan_of(**WAYS[way])) == ""


@pytest.mark.long
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("name", SHARED_PASSES)
def test_so_do_passes_that_share_rows_in_clusters(name, layout):
    assert told(plan_of(**SHARED_PASSES[name] | {"layout": layout})) == ""


KNOWN = [
    ("                cluster_arrive();\n                cluster_wait();  // nobody is read any more\n",
     "                cluster_arrive();\n                if (!last) cluster_wait();\n"),
    ("panel + column < panels * 256)", "panel + column < outer)"),
    ("        __syncthreads();  // before others' elements are written over\n    }\n}\n\nextern",
     "        __syncthreads();  // before others' elements are written over\n    }\n    cluster_wait();\n}\n\nextern"),
]
"""What stood in the pass of `residues8_h200` when its products of long k were wrong on an H200."""


@pytest.mark.long
def test_a_kernel_that_was_wrong_on_a_gpu_is_told():
    text = (GENERATED / "residues8_h200.cu").read_text()
    for now, then in KNOWN:
        assert text.count(now) == 1, now
        text = text.replace(now, then)
    binary = compile_cuda(text, "sm_90a")
    if binary.compiler not in ("NVRTC 13.0", "NVRTC 13.5"):
        pytest.skip(f"seen with NVRTC 13.0 and 13.5; this is {binary.compiler}")
    barrier = text[:text.rindex("known = true;")].count("\n") + 3  # of B's pass, below the end of its condition
    assert "__syncthreads" in text.splitlines()[barrier - 1]
    assert barrier in [fault.line for fault in apart(disassemble(binary.code))]
