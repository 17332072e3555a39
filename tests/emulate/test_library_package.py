"""A library's Python package over its real runtime: NumPy arrays, which stand for a GPU's, through a stand-in for the driver into the emulator."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import reference
from gemmgen.library import python
from standin import GCC, NAME, Library
from test_library import kernel
from ways import tailed

pytestmark = pytest.mark.skipif(GCC is None, reason="a C compiler builds the library")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The library, and the package as a module of its own, whatever other one of that name is loaded."""
    folder = tmp_path_factory.mktemp("library")
    library = Library(folder, [kernel("nn"), kernel("tn", layout="tn"), kernel("nt", layout="nt")], archs=["sm_80"], arch="sm_80")
    for path, content in python.files(SimpleNamespace(name=NAME, guard=NAME.upper(), shim=(), maker=reference.HOST, compilers=())).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"{NAME.upper()}_LIBRARY", str(folder / "lib.so"))
        patch.syspath_prepend(folder / "python")
        for module in [module for module in sys.modules if module.partition(".")[0] == NAME]:
            patch.delitem(sys.modules, module)
        package = importlib.import_module(NAME)
        package._c.library()
        patch.setattr(package._arrays, "_empty", lambda like, shape, kind="float32": library.put(np.zeros(shape, kind)))
        yield library, package
        for module in [module for module in sys.modules if module.partition(".")[0] == NAME]:
            del sys.modules[module]


def given(library, *shape, seed=0):
    return library.put(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))


@pytest.mark.parametrize("turned", tailed(["nn", "tn", "nt"], ["nn", "tn"]))
def test_products_of_every_layout(made, turned):
    library, package = made
    a = given(library, 70, 50) if turned[0] == "n" else given(library, 50, 70).T
    b = given(library, 50, 45, seed=1) if turned[1] == "n" else given(library, 45, 50, seed=1).T
    bias = given(library, 45, seed=2)
    kernels = dict(zip(("nn", "tn", "nt"), package.kernels()))
    assert package.select(70, 45, 50, transpose_a=turned[0] == "t", transpose_b=turned[1] == "t").name == kernels[turned]
    got = package.matmul(a, b, bias=bias, activation="relu")
    np.testing.assert_allclose(got, np.maximum(a.astype(float) @ b + bias, 0), atol=3e-5)


def test_batches_and_packed_operands(made):
    library, package = made
    a, b = given(library, 2, 40, 50), given(library, 50, 45, seed=1)
    np.testing.assert_allclose(package.matmul(a, b), a.astype(float) @ b, atol=3e-5)
    packed = package.pack(b)
    for rows in (1, 40):
        np.testing.assert_allclose(package.matmul(a[0, :rows], packed), a[0, :rows].astype(float) @ b, atol=3e-5)
