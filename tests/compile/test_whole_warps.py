"""Every kernel's machine code brings the lanes of a warp together before each barrier, shuffle and matrix instruction.

PTX and the emulator do not show it where a compiler leaves that out: only machine code does, and a GPU, not every time.
"""

from __future__ import annotations

import pytest
from ways import SHARED_PASSES, WAYS, plan_of, shipped, solved

from gemmgen.build import build
from gemmgen.build.convergence import apart
from gemmgen.build.sass import disassemble, find_disassembler
from gemmgen.catalog.gpu import GPUS
from gemmgen.errors import BuildError
from gemmgen.render import render


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


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, loaded in shipped().items() if GPUS.get(loaded.spec.target.gpu).vendor == "nvidia"])
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
