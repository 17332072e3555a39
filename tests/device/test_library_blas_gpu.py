"""LAPACK's own test takes a library's functions on a GPU for the BLAS's: results and error exits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import sblat3
from gemmgen import library
from gemmgen.library.file import library_from
from gemmgen.library.made import made
from standin import GCC
from test_gpu import local_gpu

pytestmark = [pytest.mark.device, pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")]
SERVED = ("SGEMM", "SSYMM", "STRMM", "SSYRK", "SSYR2K")
BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.parametrize("scheme", ["scaled", "ootomo"])
def test_lapack_s_test_passes(scheme, tmp_path):
    data = {"name": "lab", "gpus": [local_gpu()], "layouts": ["nn", "nt", "tn", "tt"], "kernels_at_most": 4, "use": [{"scheme": scheme}], "sizes": [(1024,) * 3],
            "routines": ["syrk", "syr2k", "symm", "trmm"]}
    library.write(made(library_from(data)), tmp_path / "lab")
    sys.path.insert(0, str(BENCH))
    from library import built

    built(tmp_path / "lab", tmp_path)
    found = next(tmp_path.rglob("liblab*.so*"))
    (tmp_path / "lab.h").write_bytes(next((tmp_path / "lab").rglob("lab.h")).read_bytes())
    passed, failed = sblat3.verdict(sblat3.built(tmp_path, found), SERVED)
    assert len(passed) == 2 * len(SERVED) and not failed, (passed, failed)
