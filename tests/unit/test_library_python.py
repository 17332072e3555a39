"""The Python package of a library, over the reference library on the CPU: structs, layouts, products of NumPy arrays."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import reference
from gemmgen.catalog.vendor import VENDORS
from gemmgen.library import python, structures
from gemmgen.library.interface import ABI


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
    for name in STRUCTS:  # those of programs that load a library themselves
        own = getattr(structures, name.capitalize())
        mine = {name: str(ctypes.sizeof(own))} | {f"{name}.{field}": str(getattr(own, field).offset) for field, *_ in own._fields_}
        assert mine == {key: value for key, value in told.items() if key.partition(".")[0] == name}


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


def test_a_field_of_records_that_lies_between_elements_is_refused(lab):
    """Of records whose size is a multiple of the element's it is not."""
    for more, fits in (("i2", False), ("i4", True)):
        records = np.zeros((5, 9), [("x", "f4"), ("y", more)])
        records["x"] = made(5, 9)
        if fits:
            close(lab.matmul(records["x"], made(9, 7)), made(5, 9).astype(float) @ made(9, 7))
        else:
            with pytest.raises(ValueError, match=r"a has strides of \[54, 6\] bytes"):
                lab.matmul(records["x"], made(9, 7))


def test_refused_biases(lab):
    for n in (7, 2):
        with pytest.raises(ValueError, match="without gaps"):
            lab.matmul(made(5, 9), made(9, n), bias=made(2 * n)[::2])
    close(lab.matmul(made(5, 9), made(9, 1), bias=made(2)[::2]), made(5, 9).astype(float) @ made(9, 1) + made(2)[0])  # of one element there are none


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
        ((a.astype(np.float16), b), TypeError, "a must be float32, float64, complex64 or complex128"),
        ((a.astype(np.float64), b), TypeError, "float32 and float64"),
        ((a.astype(np.float64), b.astype(np.float64), np.empty((5, 7), np.float32)), TypeError, "float32 and float64"),
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


def complexes(*shape, seed=0, dtype=np.complex64):
    draw = np.random.default_rng(seed)
    return (draw.standard_normal(shape) + 1j * draw.standard_normal(shape)).astype(dtype)


class Conjugates:
    """A tensor as torch has it: memory holds the conjugates of its elements, and no protocol tells of that. `empty` is NumPy's."""

    __module__ = "numpy"

    def __init__(self, memory):
        self.memory, self.copies = memory, 0

    def is_conj(self):
        return True

    def conj(self):
        return self.memory

    def resolve_conj(self):
        self.copies += 1
        return self.memory.conj()


@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_products_of_complex_numbers(lab, calls, kind):
    """Transposed, with gaps, in batches of which two calls are needed, with complex scalars of the host and of arrays, and a bias."""
    tolerance = 1e-5 if kind == "complex64" else 1e-13

    def drawn(*shape, seed=0):
        return complexes(*shape, seed=seed, dtype=kind)

    def same(got, want):
        assert got.dtype == kind
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    a, b, bias, before = drawn(5, 9, seed=1), drawn(9, 7, seed=2), drawn(7, seed=3), calls()
    for x in (a, np.asfortranarray(a)):
        for y in (b, np.asfortranarray(b)):
            same(lab.matmul(x, y, bias=bias), a @ b + bias)
    out = np.full((5, 9), 1j, kind)[:, 1:8]
    assert lab.matmul(a, b, out, alpha=2 - 1j, beta=3j) is out
    same(out, (2 - 1j) * (a @ b) - 3)
    same(lab.matmul(a, b, np.ones((5, 7), kind), alpha=2, beta=0.5), 2 * (a @ b) + 0.5)
    scalars = np.array([2 - 1j, 3j], kind)
    same(lab.matmul(a, b, np.ones((5, 7), kind), alpha=scalars[:1], beta=scalars[1:]), (2 - 1j) * (a @ b) + 3j)
    same(lab.matmul(a, b, np.zeros((5, 7), kind, order="F"), alpha=1j), 1j * (a @ b))
    same(lab.matmul(drawn(2, 3, 5, 9)[:, ::2], drawn(3, 9, 7)[::2]), drawn(2, 3, 5, 9)[:, ::2] @ drawn(3, 9, 7)[::2])
    same(lab.matmul(a[0], b), a[0] @ b)
    assert calls() - before == 11
    assert lab.select(5, 7, 9, dtype=kind).error == (2.0**-24 if kind == "complex64" else 2.0**-53)
    real = np.ones((5, 7), kind).real
    for wrong, error, told in ((lambda: lab.matmul(a, b, activation="relu"), lab.Error, "epilogue"), (lambda: lab.pack(b), lab.Error, "serves"),
                               (lambda: lab.matmul(a, b.real.copy()), TypeError, "are of complex.* and float"),
                               (lambda: lab.matmul(real, real.T.copy(), alpha=1j), TypeError, "complex"),
                               (lambda: lab.matmul(a, b, np.ones((5, 7), kind), alpha=np.ones(1, np.float32), beta=0), TypeError, f"alpha must be {kind}")):
        with pytest.raises(error, match=told):
            wrong()


def test_tensors_of_conjugates_are_read_as_they_lie_where_they_are_transposed(lab, calls):
    a, b = complexes(5, 9, seed=1), complexes(9, 7, seed=2)
    for of_a, of_b, copies in (("T", "T", 0), ("T", "", 0), ("", "T", 1), ("rows", "rows", 2), ("", "rows", 1)):
        before = calls()
        x, y = (Conjugates(np.asfortranarray(one.conj()) if of == "T" else one.conj()) if of else one for one, of in ((a, of_a), (b, of_b)))
        if (of_a, of_b) == ("", "T"):  # C by columns
            out = np.zeros((5, 7), np.complex64, order="F")
            got = lab.matmul(x, y, out)
        else:
            got = lab.matmul(x, y)
        np.testing.assert_allclose(got, a @ b, rtol=1e-5, atol=1e-5)
        assert sum(getattr(one, "copies", 0) for one in (x, y)) == copies and calls() == before + 1
    batch = complexes(3, 9, 5)
    np.testing.assert_allclose(lab.matmul(Conjugates(batch.transpose(0, 2, 1)), b), batch.conj().transpose(0, 2, 1) @ b, rtol=1e-5, atol=1e-5)
    before = calls()
    for rows in (complexes(5, 3).T[:, None], complexes(5, 2).T[:1]):  # a batch of rows that is one product, and one row
        np.testing.assert_allclose(lab.matmul(Conjugates(rows), complexes(5, 3)), rows.conj() @ complexes(5, 3), rtol=1e-5, atol=1e-5)
    assert calls() == before + 2
    np.testing.assert_allclose(lab.matmul(Conjugates(a[0]), b), a[0].conj() @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match=r"out.resolve_conj\(\)"):
        lab.matmul(a, b, Conjugates(complexes(5, 7)))


@pytest.mark.parametrize("turned", ["nn", "tt"])
def test_products_of_float64(lab, calls, turned):
    """In FP64 to the last bits: transposed, with gaps, in batches of which two calls are needed, with scalars and a bias that FP32 does not hold."""
    def drawn(*shape, seed=0):
        return np.random.default_rng(seed).standard_normal(shape)

    def same(got, want):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)

    a, b = drawn(5, 9, seed=1), drawn(9, 7, seed=2)
    x, y = (np.ascontiguousarray(one.T).T if way == "t" else one for one, way in zip((a, b), turned))
    bias, before = drawn(7, seed=3), calls()
    same(lab.matmul(x, y, bias=bias), a @ b + bias)
    out = np.full((5, 9), 1.0)[:, 1:8]
    assert lab.matmul(x, y, out, alpha=1 / 3, beta=-1 / 7) is out
    same(out, a @ b / 3 - 1 / 7)
    scalars = np.array([1 / 3, -1 / 7])
    same(lab.matmul(x, y, np.ones((5, 7)), alpha=scalars[:1], beta=scalars[1:]), a @ b / 3 - 1 / 7)
    same(lab.matmul(drawn(2, 3, 5, 9)[:, ::2], drawn(3, 9, 7)[::2]), drawn(2, 3, 5, 9)[:, ::2] @ drawn(3, 9, 7)[::2])
    same(lab.matmul(a[0], b), a[0] @ b)
    same(lab.matmul(a, lab.pack(b, hint=9)), a @ b)
    same(lab.matmul(lab.pack(x, "a", hint=7), b), a @ b)
    same(lab.level3("syrk", a), np.tril(a @ a.T))
    assert calls() - before == 9
    assert lab.select(5, 7, 9, dtype="float64").error == 2.0**-53 and lab.select(5, 7, 9).error == 2.0**-24
    for wrong, kind, told in ((lambda: lab.matmul(a, b, activation="relu"), lab.Error, "epilogue"), (lambda: lab.select(5, 7, 9, dtype="int8"), ValueError, "int8"),
                              (lambda: lab.matmul(a, b, bias=bias.astype(np.float32)), TypeError, "float32 and float64"),
                              (lambda: lab.matmul(a, b, np.ones((5, 7)), alpha=np.ones(1, np.float32), beta=scalars[1:]), TypeError, "alpha must be float64"),
                              (lambda: lab.level3("syr2k", a, a.astype(np.float32)), TypeError, "float32 and float64"),
                              (lambda: lab.level3("syrk", a, out=np.zeros((5, 5), np.float32)), TypeError, "float32 and float64")):
        with pytest.raises(kind, match=told):
            wrong()


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
    monkeypatch.setattr(_c, "ABI", ABI + 1)
    with pytest.raises(ImportError, match=f"ABI {ABI}"):
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
        assert {(one.date_time, one.external_attr >> 16) for one in opened.infolist()} == {((1980, 1, 1, 0, 0, 0), 0o644)}, "the same bytes at any time"
        for line in opened.read("lab-0.1.0.dist-info/RECORD").decode().split():
            name, digest, size = line.split(",")
            content = opened.read(name)
            told = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (("", "") if name.endswith("RECORD") else (f"sha256={told}", str(len(content)))), name
        opened.extractall(tmp_path / "site")
    code = "import lab, numpy as np; x = np.eye(8, dtype=np.float32); assert (lab.matmul(x, x) == x).all(); print(lab._c.path())"
    environment = {key: value for key, value in os.environ.items() if key != "LAB_LIBRARY"} | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(tmp_path / "site" / "lab" / "liblab.so")
    monkeypatch.setenv("CC", "no-such-compiler")
    with zipfile.ZipFile(tmp_path / recipe.build_wheel(tmp_path)) as opened:
        assert "lab/liblab_xla.so" not in opened.namelist()


# ---- Wherever arrays lie, and whatever library they are of ----


def laid(rng, shape):
    """A view of that shape with whole numbers, and the memory around it: its dimensions in any order, and with gaps."""
    order = list(range(len(shape)))
    if rng.random() < 0.5:
        rng.shuffle(order)
    around = rng.integers(-4, 5, [extent + 2 * int(rng.integers(0, 2)) for extent in (shape[at] for at in order)]).astype(np.float32)
    inside = around[tuple(slice((have - shape[at]) // 2, (have - shape[at]) // 2 + shape[at]) for have, at in zip(around.shape, order))]
    return inside.transpose(np.argsort(order)), around


def test_products_of_arrays_that_lie_anyhow(lab):
    """Batches of up to four dimensions, shared or not, in any order and with gaps; nothing is written beside the result."""
    rng = np.random.default_rng(7)
    for case in range(250):
        batch = tuple(int(one) for one in rng.integers(1, 4, rng.integers(0, 5)))
        m, n, k = (int(one) for one in rng.integers(1, 7, 3))
        of_a, of_b = ([one if rng.random() < 0.7 else 1 for one in batch][rng.integers(0, len(batch) + 1) * int(rng.random() < 0.3):] for _ in range(2))
        (a, _), (b, _) = laid(rng, (*of_a, m, k)), laid(rng, (*of_b, k, n))
        if rng.random() < 0.2:
            a, b = a[..., ::-1], b[..., ::-1, :]
        wanted = np.broadcast_shapes(tuple(of_a), tuple(of_b))
        bias, _ = laid(rng, (n,)) if rng.random() < 0.5 else (None, None)
        out, around = laid(rng, (*wanted, m, n))
        lines = lab._c.layout(m, n, *(one // 4 for one in out.strides[-2:]))
        if lines is None or (lines[0] and bias is not None):
            out = around = np.ascontiguousarray(out)
        alpha, beta, activation = float(rng.integers(-2, 3)), float(rng.integers(-1, 2)), [None, "relu"][int(rng.integers(0, 2))]
        want = alpha * np.matmul(a, b) + beta * out + (0 if bias is None else bias)
        want = np.maximum(want, 0) if activation else want
        beside = around.copy()
        at = np.zeros(around.shape, bool)
        begins = (out.ctypes.data - around.ctypes.data) // 4
        np.lib.stride_tricks.as_strided(at.reshape(-1)[begins:], out.shape, tuple(one // 4 for one in out.strides))[...] = True
        assert lab.matmul(a, b, out=out, alpha=alpha, beta=beta, bias=bias, activation=activation) is out
        np.testing.assert_array_equal(out, want, err_msg=str(case))
        np.testing.assert_array_equal(around[~at], beside[~at], err_msg=str(case))


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("dimensions", ctypes.c_int32),
                ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Spoken:
    """An array that speaks DLPack alone: of the host's memory, whatever device it says it is on."""

    def __init__(self, array, offset=0, strides=True, kind=(2, 32, 1), on=1):
        self.array, self.on, self.asked, self.copies = array, on, [], 0
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        apart = (ctypes.c_int64 * array.ndim)(*(one // array.itemsize for one in array.strides))
        self.told = Managed(array.ctypes.data - offset, on, 0, array.ndim, *kind, shape, apart if strides else None, offset)

    def __dlpack_device__(self):
        return self.on, 0

    def __dlpack__(self, **how):
        self.asked.append(how)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
        return new(ctypes.addressof(self.told), b"dltensor", None)

    def copy(self):
        self.copies += 1
        return Spoken(self.array.copy(), on=self.on)


def test_arrays_that_speak_dlpack(lab, monkeypatch):
    """From a byte on, with strides and without; of other types and devices they are refused."""
    a, b, out = (np.zeros(80, np.float32)[8:8 + m * n].reshape(m, n) for m, n in ((5, 9), (9, 7), (5, 7)))  # with room before them
    a[...], b[...] = made(5, 9), made(9, 7, seed=1)
    for offset in (0, 4, 20):
        for strides in (True, False):
            x, y = Spoken(a, offset, strides), Spoken(b, offset, strides)
            assert lab.matmul(x, y, out=Spoken(out, offset)) is not None
            close(out, a.astype(float) @ b)
            assert x.asked == [{}] and not x.copies and not y.copies
    for turned in (Spoken(np.asfortranarray(a), 8), Spoken(made(10, 18)[::2, ::2])):
        lab.matmul(turned, b, out=out)
        close(out, turned.array.astype(float) @ b)
    batch = made(2, 3, 5, 9)
    whole = np.zeros((2, 3, 5, 7), np.float32)
    lab.matmul(Spoken(batch, strides=False), b, out=whole)
    close(whole, batch.astype(float) @ b)
    for kind in ((0, 32, 1), (2, 64, 1), (2, 32, 2)):
        with pytest.raises(TypeError, match="b must be float32, float64|of float32 and float64"):
            lab.matmul(a, Spoken(b, kind=kind), out=out)
    with pytest.raises(TypeError, match="a is on a device of DLPack's type 2, and this library is for 1"):
        lab.matmul(Spoken(a, on=2), b, out=out)
    monkeypatch.setattr(lab._c, "DLPACK_TYPE", 2)
    x = Spoken(a, on=2)
    lab.matmul(x, Spoken(b, on=2), out=Spoken(out, on=2))
    close(out, a.astype(float) @ b)
    assert x.asked == [{"stream": -1}]
    with pytest.raises(TypeError, match="device of DLPack's type 1"):
        lab.matmul(a, Spoken(b, on=2), out=Spoken(out, on=2))


class Shown:
    """An array of a GPU's library: what the CUDA array interface says of it."""

    def __init__(self, array, strides=None, kind="<f4"):
        self.array, self.shape = array, array.shape
        self.__cuda_array_interface__ = {"data": (array.ctypes.data, False), "shape": array.shape, "typestr": kind, "strides": strides, "version": 3}


@pytest.fixture
def cupy(lab, monkeypatch):
    """A module of that name, whose arrays lie on the host."""
    import contextlib
    import sys
    from types import ModuleType

    module, module.entered = ModuleType("cupy"), []

    @contextlib.contextmanager
    def device():
        module.entered.append(True)
        yield

    class ndarray(Shown):  # noqa: N801
        @property
        def device(self):
            return device()

    ndarray.__module__ = "cupy"
    module.ndarray = ndarray
    module.empty = lambda shape, dtype: ndarray(np.zeros(shape, dtype))
    module.cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=77))
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.setattr(lab._c, "DLPACK_TYPE", 2)
    return module


@pytest.fixture
def streams(lab, monkeypatch):
    """The stream of each call."""
    found, run = [], lab._c.run
    monkeypatch.setattr(lab._c, "run", lambda *given: found.append(given[4]) or run(*given))
    return found


def test_arrays_of_cupy(lab, cupy, streams):
    """On their device, in the current stream; with strides in bytes and without."""
    a, b = made(5, 9), made(9, 7, seed=1)
    got = lab.matmul(cupy.ndarray(a), cupy.ndarray(b))
    assert type(got).__module__ == "cupy" and streams == [77] and cupy.entered == [True]
    close(got.array, a.astype(float) @ b)
    turned = np.asfortranarray(a)
    close(lab.matmul(cupy.ndarray(turned, turned.strides), cupy.ndarray(b)).array, a.astype(float) @ b)
    packed = lab.pack(cupy.ndarray(b))
    close(lab.matmul(cupy.ndarray(a), packed).array, a.astype(float) @ b)
    assert len(cupy.entered) == 4
    for kind in ("<f8", "<i4", ">f4"):
        with pytest.raises(TypeError, match="arrays are of float32 and float64" if kind == "<f8" else "a must be float32, float64"):
            lab.matmul(cupy.ndarray(a, kind=kind), cupy.ndarray(b))


def test_streams_of_every_library(lab, streams):
    from types import SimpleNamespace

    a, b, out = made(5, 9), made(9, 7), np.zeros((5, 7), np.float32)
    method = type("Stream", (), {"__cuda_stream__": lambda self: (0, 4)})()
    for stream in (1, SimpleNamespace(ptr=2), SimpleNamespace(cuda_stream=3), method, SimpleNamespace(__cuda_stream__=(0, 5)), None):
        lab.matmul(a, b, out=out, stream=stream)
    assert streams == [1, 2, 3, 4, 5, None]
    library, run = reference.load(), []
    packs = lab._c.library().lab_pack
    try:
        lab._c.library().lab_pack = lambda *given: run.append(given[4]) or packs(*given)
        lab.pack(b, stream=9)
    finally:
        lab._c.library().lab_pack = packs
    assert run == [9] and library.lab_pack_calls() > 0


def test_scalars_on_the_device_beside_numbers(lab):
    """A number goes with the other's place on the device where it is what is left out: alpha 1, beta 0."""
    a, b = made(5, 9), made(9, 7, seed=1)
    close(lab.matmul(a, b, alpha=np.float32([2])), 2 * (a.astype(float) @ b))
    c = made(5, 7, seed=2)
    want = a.astype(float) @ b + 0.5 * c
    close(lab.matmul(a, b, out=c, beta=np.float32([0.5])), want)
    for alpha, beta in ((np.float32([2]), 0.5), (np.float32([2]), 1), (0, np.float32([0.5]))):
        with pytest.raises(ValueError, match="both"):
            lab.matmul(a, b, out=c, alpha=alpha, beta=beta)


def test_packed_operands_of_every_layout(lab):
    """Of A and of B, in rows, columns, and neither, with gaps; as the products' other extents are told."""
    for which, shape in (("a", (5, 9)), ("b", (9, 7))):
        whole = made(20, 20)
        for x in (whole[:shape[0], :shape[1]], whole.T[:shape[0], :shape[1]], whole[: 2 * shape[0] : 2, : 2 * shape[1] : 2],
                  np.ascontiguousarray(whole[:shape[0], :shape[1]])):
            packed = lab.pack(x, which, hint=3)
            assert packed.shape == shape and packed.struct.operand == ord(which) and packed.bytes == 256 + 4 * x.size
            other = made(9, 7, seed=1) if which == "a" else made(5, 9, seed=1)
            got = lab.matmul(packed, other) if which == "a" else lab.matmul(other, packed)
            close(got, x.astype(float) @ other if which == "a" else other.astype(float) @ x)
    with pytest.raises(ValueError, match="not both"):
        lab.matmul(lab.pack(made(5, 9), "a"), lab.pack(made(9, 7)))
    with pytest.raises(ValueError, match="takes a matrix"):
        lab.pack(made(2, 9, 7))


def test_what_is_asked_for_a_choice(lab, monkeypatch):
    """Row-major matrices without gaps; choices are remembered for problems that are alike in all a choice depends on."""
    from lab import _c

    asked, choose = [], _c.choose
    monkeypatch.setattr(_c, "choose", lambda problem, *rest: asked.append((problem, rest)) or choose(problem, *rest))
    lab.select(5, 7, 9)
    lab.select(5, 7, 9, transpose_a=True, batch=3, activation="relu", largest_error=1e-3, on=lab.target("sm_90", 132))
    lab.select(5, 7, 9, transpose_b=True, activation="gelu_tanh")
    fields = ("transpose_a", "transpose_b", "epilogue", "m", "n", "k", "lda", "ldb", "ldc", "batch", "stride_a", "stride_b", "stride_c", "largest_error")
    told = [tuple(getattr(problem, field) for field in fields) for problem, _ in asked]
    assert told == [(0, 0, 0, 5, 7, 9, 9, 7, 7, 1, 45, 63, 35, 0), (1, 0, 1, 5, 7, 9, 5, 7, 7, 3, 45, 63, 35, 1e-3),
                    (0, 1, 3, 5, 7, 9, 9, 9, 7, 1, 45, 63, 35, 0)]
    assert asked[0][1] == asked[2][1] == (None, None) and asked[1][1][1].units == 132
    assert _c.EPILOGUES["gelu"] == 2 and _c.EPILOGUES["identity"] == 0
    monkeypatch.undo()
    plain = dict(m=5, n=7, k=9, lda=9, ldb=9, ldc=9, batch=2, stride_a=100, stride_b=100, stride_c=100)
    changes = [{}, dict(m=4), dict(n=6), dict(k=8), dict(lda=10), dict(ldb=10), dict(ldc=10), dict(batch=3), dict(stride_a=101), dict(stride_b=101),
               dict(stride_c=101),
               dict(transpose_a=1), dict(transpose_b=1), dict(order=1), dict(epilogue=1), dict(flags=2), dict(kernel=1), dict(largest_error=1e-3),
               dict(bias=16),
               dict(alpha=16), dict(beta=16),
               dict(kind=4), dict(kind=4, uplo=1), dict(kind=4, side=1), dict(kind=5), dict(kind=5, diag=1), dict(element=1)]
    assert {name for name, *_ in _c.Problem._fields_} - {"size", "a", "b", "c"} == {name for change in changes for name in change}
    _c._choices.clear()
    for _ in range(2):
        for change in changes:
            _c.choose(_c.Problem(**plain | change), "here")
    assert len(_c._choices) == len(changes)
    _c.choose(_c.Problem(**plain), "there")
    assert len(_c._choices) == len(changes) + 1
    _c.choose(_c.Problem(**plain), None)
    assert len(_c._choices) == len(changes) + 1
    found = _c.choose(_c.Problem(**plain), "here")
    assert found is _c.choose(_c.Problem(**plain), "here") and found is not _c.choose(_c.Problem(**plain), "there")
    assert (found.name, found.reason, found.workspace_bytes, found.workspace_bytes_packed, found.is_fallback) == ("reference", "the fastest", 1024, 512, False)
    assert found.seconds == pytest.approx(1e-9 * 5 * 7 * 9 * 2) and found.sgemm_seconds == pytest.approx(4 * found.seconds) and found.error == 2**-24
    monkeypatch.setattr(_c, "_MOST_CHOICES", 3)
    _c.choose(_c.Problem(**plain | dict(m=3)), "here")
    assert len(_c._choices) == 1
    _c._choices.clear()


@pytest.mark.parametrize(("vendor", "compilers", "told"), [
    ("nvidia", ("NVRTC 12.9", "NVRTC 13.1"), (2, "cuda", "CUDA", "sm_", 13000)), ("amd", ("clang 19",), (10, "cuda", "ROCM", "gfx", 0)),
])
def test_a_package_knows_its_vendors_devices_by_each_frameworks_name(vendor, compilers, told):
    """DLPack's kDLCUDA and kDLROCM; torch calls both cuda. And the oldest driver for its machine code."""
    files = python.files(SimpleNamespace(name="lab", guard="LAB", shim=("torch", "jax"), maker=VENDORS[vendor], compilers=compilers))
    known: dict = {"__name__": "lab._c"}
    exec(files["python/lab/_c.py"].decode(), known)  # noqa: S102
    assert tuple(known[name] for name in ("DLPACK_TYPE", "TORCH_DEVICE", "XLA_PLATFORM", "ARCH_PREFIX", "LEAST_DRIVER")) == told
    assert {path.rpartition("/")[2] for path in files} == {
        "__init__.py", "_c.py", "_arrays.py", "_level3.py", "torch.py", "jax.py", "_xla.c", "pyproject.toml", "build_wheel.py", "README.md"}


def test_where_the_library_is_looked_for(lab, tmp_path, monkeypatch):
    """In the package, in the library's folder and where it may have been built; what the environment names comes first, and has to be a file."""
    import os
    from lab import _c

    package = tmp_path / "python" / "lab"
    monkeypatch.delenv("LAB_LIBRARY", raising=False)
    monkeypatch.setattr(_c, "__file__", str(package / "_c.py"))
    with pytest.raises(ImportError, match="there is no liblab.so in .*: build the library, or set LAB_LIBRARY"):
        _c.path()
    for folder in ("build/lib", "lib", "build", ".", "python/lab"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "liblab.so").touch()
        assert _c.path() == tmp_path / folder / "liblab.so"
    monkeypatch.setenv("LAB_LIBRARY", "liblab.so")
    assert str(_c.path()) == "liblab.so"
    os.mkfifo(tmp_path / "fifo")
    for place in (tmp_path, tmp_path / "fifo"):
        monkeypatch.setenv("LAB_LIBRARY", str(place))
        with pytest.raises(ImportError, match="no regular file"):
            _c.library.__wrapped__()


def test_vectors_with_gaps_and_batches_in_odd_orders(lab, calls):
    whole, b = made(18), made(9, 7, seed=1)
    close(lab.matmul(whole[::2], b), whole[::2].astype(float) @ b)
    close(lab.matmul(b.T, whole[::-2]), b.T.astype(float) @ whole[::-2])
    a, square = made(3, 5, 5).swapaxes(1, 2), made(5, 7, seed=1)
    close(lab.matmul(a, square), a.astype(float) @ square)
    rows, out = made(3, 1, 9), np.zeros((3, 1, 7), np.float32)
    lab.matmul(rows, b, out=out[::-1])
    close(out[::-1].copy(), rows.astype(float) @ b)
    before = calls()
    turned = np.zeros((5, 3, 7), np.float32).swapaxes(0, 1)  # rows of three matrices in turns
    lab.matmul(made(3, 5, 9), made(3, 9, 7), out=turned)
    close(turned.copy(), made(3, 5, 9).astype(float) @ made(3, 9, 7))
    assert calls() == before + 3
    for beta in (0.5, np.float32([0.5])):
        with pytest.raises(ValueError, match="beta needs"):
            lab.matmul(made(5, 9), b, beta=beta)
    with pytest.raises(ValueError, match="rows or columns"):
        lab.matmul(made(5, 9), lab.pack(b), out=np.zeros((5, 7), np.float32, order="F"))


def test_where_matrices_lie(lab):
    """The rules themselves: a leading dimension, dimensions of a batch that are one, a struct's fields."""
    from lab import _c

    assert [_c.aligned(at) for at in (0, 1, 255, 256, 257)] == [0, 256, 256, 256, 512]
    assert [_c.layout(*of) for of in ((5, 9, 9, 1), (5, 9, 12, 1), (5, 9, 1, 5), (5, 9, 1, 8), (5, 9, 8, 1), (5, 9, 1, 4), (5, 9, 18, 2), (1, 9, 3, 1),
                                      (5, 1, 7, 99),
                                      (1, 9, 1, 1), (0, 9, 9, 1), (5, 0, 0, 1), (1, 9, 5, 2), (5, 1, 1, 1))] == [
        (0, 9), (0, 12), (1, 5), (1, 8), None, None, None, (0, 9), (0, 7), (0, 9), (0, 9), (0, 1), (1, 2), (0, 1)]
    assert _c.merged((2, 1, 3), (6, 99, 2), (3, 5, 1)) == [(6, (2, 1))] and _c.merged((2, 3), (6, 2), (0, 1)) == [(2, (6, 0)), (3, (2, 1))]
    a, b, c = _c.Operand(0, (5, 9), (9, 1)), _c.Operand(0, (9, 7), (7, 1)), _c.Operand(0, (5, 7), (7, 1))
    assert [problem.flags for problem in _c.problems(a, b, c, flags=1)] == [3]
    for wrong in ((5, 6), (4, 7)):
        with pytest.raises(ValueError, match="do not give"):
            _c.problems(a, b, c._replace(shape=wrong))
    with pytest.raises(ValueError, match=r"a batch of \[2, 3\] does not broadcast to \[3\]"):
        _c.problems(_c.Operand(0, (2, 3, 5, 9), (135, 45, 9, 1)), b, _c.Operand(0, (3, 5, 7), (35, 7, 1)))
    deep = (
        _c.Operand(64, (2, 3, 4, 5, 9), (100000, 10000, 1000, 9, 1)), _c.Operand(128, (3, 4, 9, 7), (700, 63, 7, 1)),
        _c.Operand(256, (2, 3, 4, 5, 7), (5000, 500, 60, 7, 1)))
    found = _c.problems(*deep)
    assert [(one.a - 64, one.b - 128, one.c - 256, one.batch, one.stride_a, one.stride_b, one.stride_c) for one in found] == [
        (4 * (100000 * i + 10000 * j), 4 * 700 * j, 4 * (5000 * i + 500 * j), 4, 1000, 63, 60) for i in range(2) for j in range(3)]
    beside = [_c.Operand(0, (4, *extents), (apart, columns, 1)) for extents, apart, columns in (((5, 9), 45, 9), ((9, 7), 63, 7))]
    for apart, calls in ((35, 1), (-35, 1), (0, 1), (34, 4), (-34, 4)):  # matrices of C that follow one another are one call, as long as none reaches into the next
        found = _c.problems(*beside, _c.Operand(0, (4, 5, 7), (apart, 7, 1)))
        assert [(one.batch, one.stride_c) for one in found] == ([(4, apart)] if calls == 1 else [(1, 0)] * 4)
    assert _c.EPILOGUES == {None: 0, "identity": 0, "relu": 1, "gelu": 2, "gelu_tanh": 3}
    struct = _c.PackedStruct(operand=ord("b"), format=7, rows=9, columns=7, memory=256, bytes=1000)
    _c._choices.clear()
    problem = _c.Problem(m=5, n=7, k=9, lda=9, ldb=7, ldc=7)
    assert _c.choose(problem, "here").workspace_bytes == 1024 and _c.choose(problem, "here", packed=struct).workspace_bytes == 512
    assert _c.choose(problem, "here").workspace_bytes == 1024


def test_arrays_of_frameworks_go_to_their_own_modules(lab, monkeypatch):
    """Where neither `out`, a stream, scalars nor packed words are given; and where the library was asked for that framework."""
    import sys
    from types import ModuleType

    from lab import _arrays

    class Array(Shown):
        dtype = "float32"

    module, asked = ModuleType("jax"), []
    module.Array, Array.__module__ = Array, "jax"
    monkeypatch.setitem(sys.modules, "jax", module)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=type("Tensor", (), {})))
    monkeypatch.setattr(_arrays.importlib, "import_module", lambda name: SimpleNamespace(matmul=lambda *given, **named: asked.append((name, given, named))
        or "done"))
    monkeypatch.setattr(lab._c, "DLPACK_TYPE", 2)
    a, b, out = Array(made(5, 9)), Array(made(9, 7)), Array(np.zeros((5, 7), np.float32))
    assert lab.matmul(a, b, bias=3, activation="relu") == "done" and asked.pop() == ("lab.jax", (a, b), {"bias": 3, "activation": "relu"})
    for how in ({"out": out}, {"out": out, "beta": 0.5}, {"out": out, "stream": 5}):
        assert lab.matmul(a, b, **how) is out and not asked
    for how in ({"stream": 5}, {"alpha": 2.0}):
        with pytest.raises(TypeError, match="give `out`: there is no jax.empty"):
            lab.matmul(a, b, **how)
    a.dtype = "float64"  # which JAX's functions do not take: without `out` there is none to make one with
    with pytest.raises(TypeError, match="give `out`"):
        lab.matmul(a, b)
    a.dtype = "float32"
    with pytest.raises(ValueError, match="beta needs"):
        lab.matmul(a, b, beta=1)
    monkeypatch.setattr(_arrays.importlib.util, "find_spec", lambda name: None)
    assert lab.matmul(a, b, out=out) is out
    with pytest.raises(TypeError, match="give `out`"):
        lab.matmul(a, b)
    assert not asked


# ---- level 3


def as_stored(x, way):
    return {"rows": np.ascontiguousarray, "columns": np.asfortranarray, "neither": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]}[way](x)


@pytest.mark.parametrize("way", ["rows", "columns", "neither"])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
@pytest.mark.parametrize("kind", ["syrk", "syr2k", "gemmt"])
def test_level3_computes_a_triangle_and_leaves_the_other(lab, kind, uplo, way):
    a, b, before = as_stored(made(7, 9), way), as_stored(made(*((9, 7) if kind == "gemmt" else (7, 9)), seed=1), way), made(7, 10, seed=2)
    product = {"syrk": lambda a, b: a @ a.T, "syr2k": lambda a, b: a @ b.T + b @ a.T, "gemmt": lambda a, b: a @ b}[kind](*(x.astype(float) for x in (a, b)))
    kept = np.tri(7, dtype=bool) if uplo == "lower" else np.tri(7, dtype=bool).T
    close(lab.level3(kind, a, None if kind == "syrk" else b, uplo=uplo), np.where(kept, product, 0))
    out = before.copy()
    got = lab.level3(kind, a, None if kind == "syrk" else b, out[:, :7], uplo=uplo, alpha=0.5, beta=-2.0)
    assert got.base is out and (out[:, 7:] == before[:, 7:]).all()
    close(got, np.where(kept, 0.5 * product - 2 * before[:, :7], before[:, :7]))


@pytest.mark.parametrize("ways", [("rows", "columns"), ("columns", "rows")])
def test_level3_takes_a_and_b_that_are_stored_otherwise(lab, ways):
    a, b = as_stored(made(7, 9), ways[0]), as_stored(made(7, 9, seed=1), ways[1])
    close(lab.level3("syr2k", a, b), np.tril(a.astype(float) @ b.T + b.astype(float) @ a.T))


@pytest.mark.parametrize("way", ["rows", "columns"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("uplo", ["lower", "upper"])
def test_level3_reads_a_triangle_of_a(lab, uplo, side, way):
    """The other one, and a diagonal of ones, are NaN."""
    a, b = made(6, 6), made(*((6, 4) if side == "left" else (4, 6)), seed=1)
    kept = np.tri(6, dtype=bool) if uplo == "lower" else np.tri(6, dtype=bool).T
    half = np.where(kept, a, 0).astype(float)
    memory = as_stored(np.where(kept, a, np.nan).astype(np.float32), way)

    def product(square):
        return square @ b if side == "left" else b @ square

    close(lab.level3("symm", memory, as_stored(b, way), uplo=uplo, side=side), product(half + half.T - np.diag(np.diag(half))))
    close(lab.level3("trmm", memory, b, uplo=uplo, side=side, alpha=0.5), 0.5 * product(half))
    unit = memory.copy(order="K")
    np.fill_diagonal(unit, np.nan)
    close(lab.level3("trmm", unit, b, uplo=uplo, side=side, unit=True), product(half - np.diag(np.diag(half)) + np.eye(6)))
    place = b.copy()
    assert lab.level3("trmm", memory, place, place, uplo=uplo, side=side) is place
    close(place, product(half))
    for square, unit_diagonal, diagonal in ((memory, False, 2.0), (unit, True, 1.0)):
        if not unit_diagonal:
            np.fill_diagonal(square, 2.0)
        triangle = half - np.diag(np.diag(half)) + diagonal * np.eye(6)
        x = lab.level3("trsm", square, b, uplo=uplo, side=side, unit=unit_diagonal, alpha=-0.5)
        close((triangle @ x if side == "left" else x @ triangle).astype(np.float32), -0.5 * b)
    place = b.copy()
    assert lab.level3("trsm", memory, place, place, uplo=uplo, side=side) is place and not np.array_equal(place, b)


def test_level3_of_a_batch_is_that_of_each(lab):
    """Batches broadcast, of one triangle for all too; dimensions that lie a stride apart are one call, and others several."""
    calls = lab._c.library().lab_calls
    a, b, t = made(2, 3, 4, 6), made(3, 4, 6, seed=1), made(4, 4, seed=2) + 4 * np.eye(4, dtype=np.float32)
    for got, want, count in (
        (lambda: lab.level3("syrk", a), np.tril(a @ a.swapaxes(-1, -2)), 1),
        (lambda: lab.level3("syr2k", a, b), np.tril(a @ b.swapaxes(-1, -2) + b @ a.swapaxes(-1, -2)), 2),
        (lambda: lab.level3("trmm", t, a), np.tril(t) @ a, 1),
        (lambda: lab.level3("trsm", t, a), np.linalg.solve(np.tril(t).astype(float), a), 1),
        (lambda: lab.level3("syrk", a[:0]), np.zeros((0, 3, 4, 4)), 0),
    ):
        before = calls()
        close(got(), want)
        assert calls() - before == count
    place = a.copy()
    assert lab.level3("trsm", np.broadcast_to(t, (2, 1, 4, 4)), place, place, side="left", alpha=-2.0) is place
    close((np.tril(t) @ place).astype(np.float32), -2 * a)
    with pytest.raises(ValueError, match=r"must be \[2, 3, 4, 4\]"):
        lab.level3("syrk", a, out=made(3, 4, 4))


def test_level3_of_complex_elements_is_told_as_the_header_has_it(lab, monkeypatch):
    """What is stored in columns is copied for a Hermitian matrix, and read where it lies for the others."""
    from lab import _level3

    seen = []

    def run(problem, *given):
        rows = np.frombuffer((ctypes.c_uint8 * (problem.lda * 8 * 5)).from_address(problem.a), np.complex64).reshape(-1, problem.lda)
        seen.append((problem.kind, problem.element, problem.transpose_a, problem.uplo, problem.lda, rows[1, 0]))
        return 0

    monkeypatch.setattr(_level3._c, "run", run)
    a, b, square = (made(*shape) + 1j * made(*shape, seed=1) for shape in ((5, 9), (5, 9), (5, 5)))
    for x in (a, np.asfortranarray(a)):
        lab.level3("herk", x, uplo="upper"), lab.level3("her2k", x, b), lab.level3("syrk", x[:, :5])
    lab.level3("hemm", np.asfortranarray(square), square)
    by_rows = [(8, 2, 0, 1, 9, a[1, 0]), (9, 2, 0, 0, 9, a[1, 0])]
    assert seen == [*by_rows, (1, 2, 0, 0, 9, a[1, 0]), *by_rows, (1, 2, 1, 0, 5, a[0, 1]), (7, 2, 0, 0, 5, square[1, 0])]
    with pytest.raises(TypeError, match="herk is of complex elements, and a of float32"):
        lab.level3("herk", made(5, 9))


def test_level3_refuses(lab):
    a, b = made(5, 9), made(9, 5)
    for words, told in (
        (("syrt", a), "there are syrk"), (("syrk", a, b), "takes a alone"), (("symm", a), "takes a and b"), (("syr2k", a, b), "do not fit syr2k"),
        (("symm", a, b), "do not fit symm"), (("gemmt", a, made(9, 4)), "do not fit gemmt"), (("syrk", made(9)), "takes matrices"),
        (("trmm", made(2, 5, 5), made(3, 5, 4)), "do not broadcast"),
    ):
        with pytest.raises(ValueError, match=told):
            lab.level3(*words)
    for fields, told in (({"uplo": "both"}, "lower, upper"), ({"beta": 1.0}, "beta needs"), ({"out": np.asfortranarray(made(5, 5))}, "stored in rows"),
                         ({"out": made(5, 4)}, "must be")):
        with pytest.raises(ValueError, match=told):
            lab.level3("syrk", a, **fields)
    with pytest.raises(ValueError, match="beta is nothing of trmm"):
        lab.level3("trmm", made(5, 5), a, beta=1.0)
    with pytest.raises(ValueError, match="beta is nothing of trsm"):
        lab.level3("trsm", made(5, 5), a, a, beta=1.0)
