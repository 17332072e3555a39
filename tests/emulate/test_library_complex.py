"""Complex numbers through a library's C functions into the emulator: kernels and the kernel of epilogues, with both parts of every factor."""

from __future__ import annotations

import numpy as np
import pytest
from complex_calls import ON_DEVICE, POINTERS, Call
from standin import GCC, Library
from test_library import of_plan
from ways import TINY, plan_of

from gemmgen.catalog.element import C64, C128
from gemmgen.library.kernel import finish_symbol

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")
WAYS = {
    "c64": (C64, "tc", dict(tile=TINY)),
    "c128": (C128, "nc", dict(scheme="residues12", promote=0, tile={"block": [64, 32, 64], "warp": [32, 32, 64]}, stages=2)),
}


@pytest.mark.parametrize("way", ["c64", pytest.param("c128", marks=pytest.mark.long)])
def test_every_element_is_exact(way, tmp_path):
    """The second of a batch that pointers tell, at odd sizes: copied, multiplied and ended by scalars of the device; the same by those of the host."""
    element, letters, more = WAYS[way]
    made = Library(tmp_path, [of_plan("complex", plan_of(type=element.name, layout=letters, **more))], archs=["sm_80"], arch="sm_80")
    usual = dict(m=3, n=35, k=5, letters=letters, element=element)
    Call(made, **usual, alpha=2 - 3j, beta=1j).check()
    assert finish_symbol(element) not in {symbol for symbol, _ in made.launched}
    bias = made.put((np.arange(35) - 1j * np.arange(35)[::-1]).astype(element.dtype), misalign=element.part.bytes)
    Call(made, **usual, count=2, alpha=1j, beta=2 - 1j, flags=POINTERS | ON_DEVICE, bias=bias.ctypes.data).check(np.asarray(bias))
    assert finish_symbol(element) in {symbol for symbol, _ in made.launched}
    one = Call(made, **usual, alpha=-1 + 0j, beta=1 + 0j, flags=ON_DEVICE)
    np.asarray(one.held_c).imag[:] = np.nan
    found, want = one.run(), one.before - one.a @ one.b
    assert (found.real == want.real).all() and np.isnan(found.imag).all(), "a real factor leaves the parts apart"
