"""What of a warp's operands stays in registers, in the machine code: no compiler keeps what a spec wants fetched again."""

from __future__ import annotations

import struct

from gemmgen.build import build
from gemmgen.build.elf import Elf
from gemmgen.render import render
from ways import TINY, plan_of

LDSM, STS, LDS = 0x83B, 0x388, 0x984
"""Operations of machine code from sm_80 to sm_90, bits 0 to 11 of an instruction's 128: ldmatrix, and stores to and loads from shared memory."""


def counted(plan) -> dict[int, int]:
    """How many of these the main kernel has."""
    source = render(plan)
    cubin = Elf(build(source).code, "cubin")
    code = cubin.content(next(one for one in cubin.sections if one.name == f".text.{source.name}"))
    operations = [struct.unpack_from("<Q", code, at)[0] & 0xFFF for at in range(0, len(code), 16)]
    return {operation: operations.count(operation) for operation in (LDSM, STS, LDS)}


def test_every_product_fetches_again_in_the_machine_code():
    """On sm_90, whose compiler keeps what it may. A step of four products of two words fetches four words, or eight; the two fragments of a warp's sums come
    and go besides."""
    def way(caching: str):
        return counted(plan_of(gpu="h200", fragment={"policy": "mma"}, scheme="egemm", promote=0, tile=TINY | {"warp": [16, 16, 16]}, stages=1,
                               loads="waited", fragment_buffers=1, rows="padded", fragment_caching=caching))

    cached, anew, nothing = way("all"), way("sums"), way("none")
    assert cached[LDSM] > 0 and anew[LDSM] == nothing[LDSM] == 2 * cached[LDSM]
    assert cached[LDS] == anew[LDS] == 0 and nothing[LDS] == 2
    assert nothing[STS] == anew[STS] + 2 * 2  # before the loop, and in it
