"""The Python package of a library, over the reference library on the CPU: structs, layouts, products of NumPy arrays."""

from __future__ import annotations

import ctypes
import subprocess

import numpy as np
import pytest

import reference


@pytest.fixture(scope="module")
def lab():
    return reference.imported()


@pytest.fixture(scope="module")
def calls():
    return reference.load().lab_calls


def made(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def close(got, want):
    assert got.dtype == np.float32 and got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5)


STRUCTS = {"problem": "Problem", "target": "Target", "choice": "_Choice", "status": "Status", "packed": "PackedStruct"}


@pytest.mark.slow
def test_structs_lie_as_the_compiler_has_them(lab, tmp_path):
    from lab import _c

    mirrors = {name: getattr(_c, mirror) for name, mirror in STRUCTS.items()}
    lines = [f'printf("{name} %zu\\n", sizeof(lab_{name}));' for name in mirrors]
    lines += [
        f'printf("{name}.{field} %zu\\n", offsetof(lab_{name}, {field}));' for name, mirror in mirrors.items() for field, *_ in mirror._fields_
    ]
    (tmp_path / "told.c").write_text('#include <stdio.h>\n#include "lab.h"\nint main(void)\n{\n' + "\n".join(lines) + "\nreturn 0;\n}\n")
    subprocess.run(["gcc", f"-I{reference.folder()}", "-o", tmp_path / "told", tmp_path / "told.c"], check=True)
    told = dict(line.split() for line in subprocess.run([tmp_path / "told"], capture_output=True, text=True, check=True).stdout.splitlines())
    assert told == {name: str(ctypes.sizeof(mirror)) for name, mirror in mirrors.items()} | {
        f"{name}.{field}": str(getattr(mirror, field).offset) for name, mirror in mirrors.items() for field, *_ in mirror._fields_
    }


@pytest.mark.parametrize("turned", ["nn", "nt", "tn", "tt"])
def test_transposed_arrays_are_not_copied(lab, calls, turned):
    a, b = made(5, 9), made(9, 7, seed=1)
    a, b = (np.asfortranarray(x) if way == "t" else x for x, way in zip((a, b), turned))
    before = calls()
    close(lab.matmul(a, b), a.astype(float) @ b)
    assert calls() == before + 1


SHAPES = [
    ((4, 5, 9), (9, 7), 1), ((4, 5, 9), (4, 9, 7), 1), ((5, 9), (4, 9, 7), 1), ((2, 3, 5, 9), (2, 3, 9, 7), 1), ((2, 3, 5, 9), (3, 9, 7), 2),
    ((2, 1, 5, 9), (1, 3, 9, 7), 2), ((4, 1, 9), (9, 7), 1), ((9,), (9, 7), 1), ((5, 9), (9,), 1), ((9,), (9,), 1), ((3, 5, 9), (9,), 1), ((9,), (3, 9, 7), 1),
    ((0, 9), (9, 7), 0), ((5, 0), (0, 7), 1), ((0, 5, 9), (9, 7), 0), ((1, 1), (1, 1), 1),
]


@pytest.mark.parametrize("a, b, taken", SHAPES)
def test_shapes_broadcast_as_numpy_does(lab, calls, a, b, taken):
    a, b = made(*a), made(*b, seed=1)
    before = calls()
    close(lab.matmul(a, b), np.matmul(a.astype(float), b))
    assert calls() == before + taken
    out = np.full(np.matmul(a, b).shape, 3, np.float32)
    close(lab.matmul(a, b, out=out, alpha=2, beta=0.5), 2 * np.matmul(a.astype(float), b) + 1.5)


@pytest.mark.parametrize("strided", [lambda x: x[::2, :7], lambda x: x[:9, ::2], lambda x: x[::-1, :7], lambda x: np.broadcast_to(x[:1], (9, 18))[:, :7]])
def test_arrays_with_gaps(lab, strided):
    a = strided(made(18, 18))
    b = made(a.shape[1], 6, seed=1)
    close(lab.matmul(a, b), a.astype(float) @ b)


def test_batches_with_gaps(lab):
    a, b = made(3, 8, 9), made(9, 7, seed=1)
    close(lab.matmul(a[:, :5], b), a[:, :5].astype(float) @ b)
    close(lab.matmul(a[::2], b), a[::2].astype(float) @ b)
    close(lab.matmul(a[:, ::3], made(3, 9, 14)[:, :, ::2]), a[:, ::3].astype(float) @ made(3, 9, 14)[:, :, ::2])


def test_refused_biases(lab):
    with pytest.raises(ValueError, match="without gaps"):
        lab.matmul(made(5, 9), made(9, 7), bias=made(14)[::2])


def test_epilogues(lab):
    from math import erf

    a, b, bias = made(5, 9), made(9, 7, seed=1), made(7, seed=2)
    x = a.astype(float) @ b + bias
    close(lab.matmul(a, b, bias=bias), x)
    close(lab.matmul(a, b, bias=bias, activation="relu"), np.maximum(x, 0))
    close(lab.matmul(a, b, bias=bias, activation="gelu"), x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2)
    close(lab.matmul(a, b, bias=bias, activation="gelu_tanh"), x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2)


def test_out_may_have_gaps_or_be_of_columns(lab):
    a, b = made(5, 9), made(9, 7, seed=1)
    whole = np.zeros((5, 20), np.float32)
    out = whole[:, 3:10]
    assert lab.matmul(a, b, out=out) is out
    close(out.copy(), a.astype(float) @ b)
    assert not whole[:, :3].any() and not whole[:, 10:].any()
    columns = np.zeros((5, 7), np.float32, order="F")
    close(lab.matmul(a, b, out=columns), a.astype(float) @ b)
    with pytest.raises(ValueError, match="rows or columns"):
        lab.matmul(a, b, out=columns, bias=made(7))


def test_scalars_on_the_device(lab):
    a, b, c = made(5, 9), made(9, 7, seed=1), made(5, 7, seed=2)
    want = 2 * (a.astype(float) @ b) + 0.5 * c
    close(lab.matmul(a, b, out=c, alpha=np.float32([2]), beta=np.float32([0.5])), want)
    with pytest.raises(ValueError, match="both"):
        lab.matmul(a, b, out=c, alpha=2, beta=np.float32([0.5]))


@pytest.mark.parametrize("transposed", [False, True])
def test_packed_operands_serve_any_other_extent(lab, transposed):
    library = reference.load()
    b = made(7, 9, seed=1).T if transposed else made(9, 7, seed=1)
    packed = lab.pack(b)
    assert packed.shape == (9, 7) and packed.bytes == 256 + 4 * 63
    before = library.lab_packed_calls()
    for m in (1, 5, 70):
        a = made(m, 9)
        close(lab.matmul(a, packed, bias=b[0].copy()), a.astype(float) @ b + b[0])
    a = lab.pack(made(5, 9), "a")
    close(lab.matmul(a, made(9, 3)), a.array.astype(float) @ made(9, 3))
    assert library.lab_packed_calls() == before + 4
    with pytest.raises(ValueError, match="packed as operand a"):
        lab.matmul(made(5, 5), a)


def test_refusals(lab):
    a, b = made(5, 9), made(9, 7)
    for arguments, kind, told in (
        ((a.astype(np.float64), b), TypeError, "a must be float32"),
        ((a, b[:8]), ValueError, "do not give"),
        ((a, [1.0]), TypeError, "DLPack"),
        ((made(2, 5, 9), made(3, 9, 7)), ValueError, "broadcast"),
        ((np.array(1, np.float32), b), ValueError, "scalars"),
    ):
        with pytest.raises(kind, match=told):
            lab.matmul(*arguments)
    with pytest.raises(ValueError, match="activation"):
        lab.matmul(a, b, activation="tanh")
    with pytest.raises(ValueError, match="beta needs"):
        lab.matmul(a, b, beta=1)
    with pytest.raises(ValueError, match="out is"):
        lab.matmul(a, b, out=made(5, 6))
    with pytest.raises(ValueError, match="bias"):
        lab.matmul(a, b, bias=made(6))


def test_what_would_be_taken(lab):
    lab.prepare()
    assert lab.version() == (0, 1, 0) and lab.kernels() == ["reference", "reference_fallback"]
    assert lab.select(64, 64, 64).name == "reference" and lab.select(64, 64, 2).is_fallback
    with pytest.raises(lab.Error, match="no kernel serves") as refused:
        lab.select(64, 64, 64, largest_error=1e-9)
    assert refused.value.code == -21
    assert lab.target("sm_90", 132).arch == b"sm_90" and lab.target().arch == b"cpu"


def test_workspaces_that_the_library_takes_are_given_back(lab):
    library = reference.load()
    lab.matmul(made(5, 9), made(9, 7))
    assert library.lab_taken() == 0


def test_a_library_that_is_not_there_or_of_another_abi_says_so(lab, monkeypatch):
    from lab import _c

    monkeypatch.setenv("LAB_LIBRARY", "/nowhere/liblab.so")
    with pytest.raises(ImportError, match="nowhere"):
        _c.library.__wrapped__()
    monkeypatch.delenv("LAB_LIBRARY")
    monkeypatch.setattr(_c, "ABI", 2)
    with pytest.raises(ImportError, match="ABI 1"):
        _c.library.__wrapped__()


@pytest.mark.slow
def test_a_wheel_needs_nothing_else(lab, tmp_path, monkeypatch):
    """The recipe is called as pip calls it, and what is in the wheel computes in a process of its own."""
    import importlib.util
    import os
    import sys
    import zipfile

    spec = importlib.util.spec_from_file_location("build_wheel", reference.package() / "build_wheel.py")
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    wheel = tmp_path / recipe.build_wheel(tmp_path)
    once = wheel.read_bytes()
    recipe.build_wheel(tmp_path)
    assert wheel.read_bytes() == once
    with zipfile.ZipFile(wheel) as opened:
        assert {"lab/__init__.py", "lab/liblab.so", "lab/liblab_xla.so", "lab-0.1.0.dist-info/RECORD"} <= set(opened.namelist())
        opened.extractall(tmp_path / "site")
    code = "import lab, numpy as np; x = np.eye(8, dtype=np.float32); assert (lab.matmul(x, x) == x).all(); print(lab._c.path())"
    environment = {key: value for key, value in os.environ.items() if key != "LAB_LIBRARY"} | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "site" / "lab" / "liblab.so")
    monkeypatch.setenv("CC", "no-such-compiler")
    with zipfile.ZipFile(tmp_path / recipe.build_wheel(tmp_path)) as opened:
        assert "lab/liblab_xla.so" not in opened.namelist()
