"""LAPACK's own test takes a library's SGEMM for the BLAS's: results and error exits, of the library that computes on the CPU."""

from __future__ import annotations

import shutil

import pytest
import reference
import sblat3


@pytest.mark.skipif(not shutil.which("gcc"), reason="the reference library needs gcc")
def test_lapack_s_test_of_sgemm_passes(tmp_path):
    (tmp_path / "lab.h").write_text(reference.header())
    passed, failed = sblat3.verdict(sblat3.built(tmp_path, reference.path(), "-DHOST_POINTERS"))
    assert len(passed) == 2 and not failed, (passed, failed)
